"""FTPL: its probabilities and weights, its regret, and a user's own with weights."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter, KernelError
from bothworlds.lanes.kernels import ROUND
from bothworlds.policies import custom, random_unit

EXAMPLE = Path(__file__).parents[2] / "examples" / "three_algorithms.py"
Perturbed = runpy.run_path(str(EXAMPLE))["Perturbed"]
"""FTPL with Pareto perturbations, as a user writes it."""


def leads(L, t, kind):
    """Return the probability that arm 0 leads, by integration over its perturbation."""
    shifts = (np.array(L[1:]) - L[0]) / math.sqrt(t)
    # Arm 0 leads at r if every other perturbation is below r + its shift.
    v = (np.arange(200_000) + 0.5) / 200_000
    if kind == "pareto":
        r = 1.0 / np.sqrt(v)
        below = [
            np.where(r + s > 1.0, 1.0 - 1.0 / np.maximum(r + s, 1.0) ** 2, 0.0) for s in shifts
        ]
    else:
        r = 1.0 / np.sqrt(-np.log(v))
        below = [np.where(r + s > 0.0, np.exp(-1.0 / np.maximum(r + s, 1e-9) ** 2), 0.0)
                 for s in shifts]  # fmt: skip
    return float(np.prod(below, axis=0).mean())


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frechet", "pareto"])
def test_arms_and_weights_have_the_distribution_of_the_definition(kind):
    policy = bw.FTPL(kind)
    F, ask = bw.Bandit(policy, arms=3, seed=4)._core.F.copy(), policy.kernels().ask
    t, L = 25, [0.0, 4.0, 11.0]
    F[-3:], F[ROUND] = L, t
    arms, weights = [], []
    for _ in range(20_000):
        arms.append(ask(F))
        weights.append(F[-4])
    p = leads(L, t, kind)
    first = np.array(arms) == 0
    assert abs(first.mean() - p) < 4.0 * math.sqrt(p * (1.0 - p) / first.size)
    # Geometric with success probability p: mean 1 / p, variance (1 - p) / p^2.
    found = np.array(weights)[first]
    assert abs(found.mean() - 1.0 / p) < 4.0 * math.sqrt((1.0 - p) / p**2 / found.size)


def test_a_policy_with_weights_of_a_user_is_the_one_of_the_package():
    world = bw.environments.Stochastic.gap(3, 0.25)
    both = [
        bw.simulate({"it": policy}, world, horizon=300, repetitions=4, seed=2, progress=False)
        for policy in (bw.FTPL("pareto"), Perturbed())
    ]
    assert np.array_equal(both[0].regret["it"], both[1].regret["it"])


@pytest.mark.parametrize("policy", [bw.FTPL(), Perturbed()], ids=["ours", "a user's"])
def test_weights_are_kept_with_late_decisions(policy):
    bandit = bw.Bandit(policy, arms=2, seed=3)
    waiting = []
    for _ in range(20):
        decision = bandit.ask()
        waiting.append((decision, bandit._core.F[-3]))
    assert all(decision.probability is None for decision, _ in waiting)
    kind = None if isinstance(policy, bw.FTPL) else policy
    bandit = bw.Bandit.loads(bandit.dumps(), policy=kind)
    expected = np.zeros(2)
    for decision, weight in reversed(waiting):
        bandit.tell(decision.id, loss=1.0)
        expected[decision.index] += weight
    assert np.array_equal(bandit._core.F[-2:], expected)
    assert max(weight for _, weight in waiting) > 1.0


@pytest.mark.statistical
@pytest.mark.slow
def test_regret_is_of_the_order_of_tsallis_inf():
    world = bw.environments.Stochastic.gap(4, 0.25)
    policies = {"FTPL": bw.FTPL(), "IW": bw.TsallisINF(estimator="iw"), "uniform": bw.Uniform()}
    result = bw.simulate(policies, world, horizon=5000, repetitions=304, seed=1, progress=False)
    runs = result.at()
    more = runs["FTPL"] - 2.0 * runs["IW"]
    assert more.mean() + 4.0 * more.std(ddof=1) / math.sqrt(more.size) < 0.0
    assert runs["FTPL"].mean() < 0.25 * runs["uniform"].mean()


def test_update_may_draw():
    @custom
    class Binarised:
        def start(n_arms):
            return np.zeros(n_arms)

        def choose(state, parameters, n_arms, t, generator):
            return int(np.argmin(state))

        def update(state, parameters, n_arms, t, arm, probability, loss, generator):
            state[arm] += 1.0 if random_unit(generator) < loss else 0.0

    bandit = bw.Bandit(Binarised(), arms=2, seed=1)
    for _ in range(100):
        bandit.tell(bandit.ask(), loss=0.5)
    state = bandit._core.F[-2:]
    assert np.array_equal(state, np.floor(state)) and abs(state.sum() - 50.0) <= 20.0
    world = bw.environments.Stochastic.gap(2, 0.5)
    bw.simulate(Binarised(), world, horizon=100, repetitions=2, progress=False)


def test_a_weight_below_one_and_a_missing_one_are_refused():
    @custom
    class Light:
        def start(n_arms):
            return np.zeros(1)

        def choose(state, parameters, n_arms, t, generator):
            return 0, 0.5

        def update(state, parameters, n_arms, t, arm, weight, loss):
            state[0] += loss

    @custom
    class Missing:
        def start(n_arms):
            return np.zeros(1)

        def choose(state, parameters, n_arms, t, generator):
            return 0

        def update(state, parameters, n_arms, t, arm, weight, loss):
            state[0] += loss

    with pytest.raises(KernelError, match=r"weight of Light\.choose must be a number >= 1"):
        bw.Bandit(Light(), arms=2).ask()
    with pytest.raises(KernelError, match=r"choose of Missing must return \(arm, weight\)"):
        bw.Bandit(Missing(), arms=2).ask()
    with pytest.raises(InvalidParameter, match="rate of FTPL must be"):
        bw.FTPL(rate=0)


def test_the_first_state_may_depend_on_the_parameters():
    @custom
    class Primed:
        size: float = 3.0

        def start(n_arms, parameters):
            return np.full(int(parameters.size), parameters.size)

        def choose(state, parameters, n_arms, t, generator):
            return int(state[0]) % n_arms

        def update(state, parameters, n_arms, t, arm, probability, loss):
            state[-1] += loss

    assert Primed().start(2).tolist() == [0.0, 3.0, 3.0, 3.0]
    assert Primed(size=5.0).start(2).size == 6
    assert bw.Bandit(Primed(size=4.0), arms=3, seed=1).ask().index == 1
