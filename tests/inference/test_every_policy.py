"""Off-policy values on logs of every policy that knows its probabilities, and of others."""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds import inference

MEANS = (0.2, 0.5, 0.7)
TARGET = {0: 0.2, 1: 0.3, 2: 0.5}
TRUTH = sum(p * MEANS[a] for a, p in TARGET.items())
ROUNDS, RUNS = 60, 300

POLICIES = [
    bw.TsallisINF(),
    bw.TsallisINF(estimator="iw"),
    bw.TsallisINF(alpha=0.7, estimator="iw"),
    bw.TsallisINFV(),
    bw.LBINFV(ROUNDS),
    bw.Exp3(),
    bw.Exp3PlusPlus(),
    bw.Broad(ROUNDS),
    bw.Floor(bw.TsallisINF(), 0.5),
    bw.Restarted(bw.TsallisINF(), 25),
    bw.Discounted(bw.TsallisINF(), 25),
    bw.Alarmed(bw.TsallisINF()),
    bw.Uniform(),
]


def a_log(policy, seed):
    """A log without its first three rounds, in which Exp3++ plays every arm once for sure."""
    bandit, rng, log = bw.Bandit(policy, arms=3, seed=seed), np.random.default_rng(seed), []
    for t in range(ROUNDS):
        decision = bandit.ask()
        loss = float(rng.random() < MEANS[decision.index])
        bandit.tell(decision, loss=loss)
        log.append((t + 1, decision.index, loss, list(decision.probabilities.values())))
    return log[3:]


def values(logs, method):
    """Return the value of the target on every log."""
    found = []
    for log in logs:
        rounds, arms, losses, w = map(list, zip(*log, strict=True))
        table = {
            "round": rounds, "arm": arms, "loss": losses, "arms": [0, 1, 2],
            "probability": [p[a] for p, a in zip(w, arms, strict=True)],
            "probabilities": np.array(w),
        }  # fmt: skip
        found.append(inference.value(table, TARGET, method).value)
    return np.array(found)


@pytest.mark.statistical
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_ips_and_dr_are_right_on_average(policy):
    logs = [a_log(policy, seed) for seed in range(RUNS)]
    for method in ("ips", "dr"):
        found = values(logs, method)
        error = found.std(ddof=1) / math.sqrt(RUNS)
        assert abs(found.mean() - TRUTH) < 4 * error, method


@pytest.mark.statistical
def test_wrong_probabilities_are_wrong_on_average():
    """The control: the same logs, weighted as if every draw had been uniform."""
    logs = [a_log(bw.Exp3(), seed) for seed in range(RUNS)]
    uniform = [[(t, arm, loss, [1 / 3] * 3) for t, arm, loss, _ in log] for log in logs]
    found = values(uniform, "ips")
    error = found.std(ddof=1) / math.sqrt(RUNS)
    assert abs(found.mean() - TRUTH) > 4 * error


@pytest.mark.extra
@pytest.mark.parametrize("method", ["ips", "snips"])
def test_the_estimators_of_vowpal_wabbit_say_the_same(method):
    from estimators.bandits import ips, snips

    theirs = {"ips": ips, "snips": snips}[method].Estimator()
    log = a_log(bw.TsallisINF(), 1)
    for _, arm, loss, w in log:
        theirs.add_example(w[arm], loss, TARGET[arm])
    assert values([log], method)[0] == pytest.approx(theirs.get(), rel=1e-12)
