"""Every environment of the package passes every check that applies to it."""

import math

import numpy as np
import pytest

from bothworlds.checks import check_environment
from bothworlds.environments import (
    Adaptive,
    Adversarial,
    Constrained,
    Contaminated,
    Corrupted,
    Delayed,
    HeavyTailed,
    Piecewise,
    Preferences,
    Stochastic,
    Switching,
    Utilities,
)
from helpers.bandits import registered_environments

MEANS = [0.2, 0.5, 0.5, 0.7]
TABLE = np.random.default_rng(8).random((3_000, 4))
FAIR = Stochastic.gap(4, 0.25)


def wave(t):
    return 0.4 + 0.4 * math.sin(t / 1000)


def answer(t, last):
    return 0.5 if last == 0 else 0.1


def alternate(t, arm):
    return float((t + arm) % 2)


def tide(t, arm):
    return 0.5 + 0.4 * math.sin(t / 50 + arm)


ENVIRONMENTS = [
    *(made for made in registered_environments() if made.kind != "advised"),
    FAIR,
    *(Stochastic(MEANS, noise=noise) for noise in ("uniform", "beta", "normal")),
    Stochastic(MEANS, noise="deterministic"),
    Stochastic([0.0, 1.0], shuffle=False),
    Switching(5, 0.25),
    Switching(3, 0.1, factor=1.0, first_length=10, first_level="low"),
    Constrained([0.0, 0.1, 0.2], wave),
    Constrained([0.0, 0.1], np.linspace(0.0, 0.9, 2_000)),
    Piecewise([[0.2, 0.5, 0.8], [0.5, 0.3, 0.8], [0.5, 0.5, 0.1]], every=300),
    Piecewise([[0.2, 0.5], [0.9, 0.3]], starts=[1, 700], comparator="fixed"),
    Adversarial(TABLE),
    Adversarial(alternate, n_arms=3),
    *(Adaptive(4, strategy) for strategy in ("betray", "mirage", "punish")),
    *(Corrupted(FAIR, 20, attack) for attack in ("hide", "swap", "random", "discourage")),
    Corrupted(Switching(4, 0.2), 33.3),
    Corrupted(Adversarial(TABLE), 20, "swap"),
    Corrupted(Constrained([0.0, 0.1, 0.2], wave), 15.5, "discourage"),
    Corrupted(Adaptive(3), 10, targets=[0]),
    Contaminated(FAIR, tau=100),
    HeavyTailed([-1.0, 0.0, 2.5]),
    HeavyTailed([1.0, 1.5], noise="lognormal", shape=1.2),
    HeavyTailed([30.0, 40.0, 40.0], noise="pareto", shuffle=False),
    Delayed(FAIR, 10, lost=0.1),
    Utilities(TABLE),
    Utilities(tide, n_arms=3),
    Preferences([[0.5, 0.6, 0.7], [0.4, 0.5, 0.8], [0.3, 0.2, 0.5]]),
]

ALWAYS = {
    "losses", "pseudo_regret", "best_in_hindsight", "same_seed", "representation", "pickling",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=repr)
def test_environment_passes_every_check(environment):
    report = check_environment(environment)
    applied = {o.name for o in report if o.status == "passed"}
    assert applied >= ALWAYS
    assert ("oblivious" in applied) == (not environment.adaptive)
    assert ("enquiries" in applied) == (environment.kind == "bandit")
    assert ("lanes" in applied) == environment.wide
    assert ("horizon_limit" in applied) == (environment.horizon_limit is not None)
    assert ("corruption_budget" in applied) == isinstance(environment, Corrupted)


def test_a_level_that_answers_passes_but_is_not_oblivious():
    environment = Constrained([0.0, 0.1, 0.2], answer)
    report = check_environment(environment)
    assert {o.name for o in report if o.status == "passed"} >= ALWAYS | {"enquiries"}
    assert report["oblivious"].status != "passed"
    assert environment.adaptive and Corrupted(environment, 10.0).adaptive


def test_a_mapped_file_passes_and_travels_as_its_path(tmp_path):
    np.save(tmp_path / "losses.npy", TABLE)
    report = check_environment(Adversarial(str(tmp_path / "losses.npy")))
    assert report["pickling"].status == report["best_in_hindsight"].status == "passed"


def test_attacks_spend_their_whole_budget():
    """The check would be empty if the attacks it looks at changed nothing."""
    for attack in ("hide", "swap", "random", "discourage"):
        found = check_environment(Corrupted(FAIR, 20, attack))["corruption_budget"].found
        assert found.startswith("at most 20 of 20 changed")
