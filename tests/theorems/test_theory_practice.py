"""The theorems against measurements: mean regret stays below the bound at every checkpoint.

A bound speaks of an expectation, which the mean over repetitions estimates. Every comparison leaves
four standard errors of that mean to spare, so none of them rests on luck.
"""

import functools

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.policies.custom import custom

ARMS, GAP, HORIZON, REPETITIONS = 8, 1 / 8, 100_000, 320
GAPS = [0.0] + (ARMS - 1) * [GAP]
WORLDS = {
    "stochastic": bw.environments.Stochastic.gap(ARMS, GAP),
    "switching": bw.environments.Switching(ARMS, GAP),
}


@functools.cache
def played(policy, world, horizon=HORIZON):
    """Return the checkpoints, the mean regret at each and its standard error."""
    result = bw.simulate({"it": policy}, world, horizon, REPETITIONS, seed=11, progress=False)
    regret = result.regret["it"]
    error = regret.std(axis=0, ddof=1) / np.sqrt(REPETITIONS)
    return result.checkpoints, regret.mean(axis=0), error


@pytest.mark.parametrize("estimator", ["rv", "iw"])
@pytest.mark.parametrize("world", WORLDS)
def test_theorem_1(world, estimator):
    rounds, mean, error = played(bw.TsallisINF(estimator=estimator), WORLDS[world])
    assert np.all(mean + 4 * error < bw.bounds.adversarial(ARMS, rounds, estimator))
    assert np.all(mean + 4 * error < bw.bounds.self_bounding(GAPS, rounds, estimator=estimator))


# At 2000 the theorem's second branch applies, to both estimators. Budgets are large enough for the
# attack to be seen: a few unlucky runs make the mean of a small one uncertain.
@pytest.mark.parametrize(
    ("attack", "budget"), [("hide", 400.0), ("discourage", 400.0), ("swap", 2000.0)]
)
@pytest.mark.parametrize("estimator", ["rv", "iw"])
def test_corollary_1(attack, budget, estimator):
    # The environment measures regret on the losses before corruption. The corollary speaks of those
    # after it, which differ by at most twice the budget; measured, its bound holds for both.
    policy = bw.TsallisINF(estimator=estimator)
    world = bw.environments.Corrupted(WORLDS["stochastic"], budget, attack)
    rounds, mean, error = played(policy, world)
    assert np.all(mean + 4 * error < bw.bounds.corrupted(GAPS, rounds, budget, estimator))
    _, untouched, its_error = played(policy, WORLDS["stochastic"])
    assert mean[-1] - untouched[-1] > 4 * np.hypot(error[-1], its_error[-1])


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_theorem_3(alpha):
    policy = bw.TsallisINF(alpha=alpha, estimator="iw")
    rounds, mean, error = played(policy, WORLDS["switching"], 10_000)
    assert np.all(mean + 4 * error < bw.bounds.general_adversarial(alpha, ARMS, rounds))


@custom
class HandWritten:
    """Tsallis-INF at alpha = 1/2 with RV, its baseline on every arm or on the played one only."""

    everywhere: float = 1.0

    def start(n_arms):
        state = np.zeros(n_arms + 1)
        state[n_arms] = -0.5 * np.sqrt(n_arms)
        return state

    def probabilities(state, parameters, n_arms, t, p):
        eta = 4.0 / np.sqrt(t)
        estimates = state[:n_arms]
        pole = estimates.min() - 2.0 / eta
        x = min(state[n_arms], pole)
        for _ in range(100):
            total, slope = 0.0, 0.0
            for i in range(n_arms):
                root = 2.0 / (eta * (estimates[i] - x))
                p[i] = root * root
                total += p[i]
                slope += eta * p[i] * root
            if abs(total - 1.0) <= 1e-10:
                break
            x = min(x - (total - 1.0) / slope, pole)
        state[n_arms] = x
        for i in range(n_arms):
            p[i] /= total

    def update(state, parameters, n_arms, t, arm, probability, loss):
        eta = 4.0 / np.sqrt(t)
        x = state[n_arms]
        for i in range(n_arms):
            weight = (2.0 / (eta * (state[i] - x))) ** 2
            baseline = 0.5 if weight >= eta * eta else 0.0
            if i == arm:
                state[i] += (loss - baseline) / probability + baseline
            elif parameters.everywhere > 0.0:
                state[i] += baseline


def test_a_baseline_on_the_played_arm_only_breaks_the_bound():
    horizon = 60_000
    _, mean, error = played(HandWritten(everywhere=0.0), WORLDS["stochastic"], horizon)
    assert mean[-1] - 4 * error[-1] > bw.bounds.self_bounding(GAPS, horizon)
    assert mean[-1] - 4 * error[-1] > bw.bounds.adversarial(ARMS, horizon)


def test_the_same_code_with_the_baseline_everywhere_does_not():
    horizon = 20_000
    rounds, mean, error = played(HandWritten(everywhere=1.0), WORLDS["stochastic"], horizon)
    assert np.all(mean + 4 * error < bw.bounds.self_bounding(GAPS, rounds))
    _, reference, its_error = played(bw.TsallisINF(), WORLDS["stochastic"], horizon)
    assert abs(mean[-1] - reference[-1]) < 4 * np.hypot(error[-1], its_error[-1])
