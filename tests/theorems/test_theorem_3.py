"""Theorem 3: Tsallis-INF with any alpha against any adversary.

The bound by hand, the rates that rise at first, and simulated mean regret below it at every
checkpoint.
"""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.theory import bounds
from helpers.means import ends_above, stays_below

ARMS, HORIZON = 8, 10_000
ALPHAS = [0.0, 0.3, 0.7, 1.0]
WORLDS = {
    "switching": bw.environments.Switching(ARMS, 1 / 8),
    "hardest": bw.environments.Stochastic.gap(ARMS, math.sqrt(ARMS / HORIZON)),
}
WIDE = bw.environments.Stochastic.gap(ARMS, 1 / 2)


def test_general_adversarial_by_hand():
    # K = 1000, T = 10: at 1/2 the minimum is 1/(1/4) = 4 against 2 log 1000 and 2 log 10 = 4.6.
    assert bounds.general_adversarial(0.5, 1000, 10) == pytest.approx(2 * math.sqrt(4 * 1e4) + 1)
    # At 1/4 the three are 16/3, 4 log 2 and (4/3) log 10; the second is smallest.
    second = 2 * math.sqrt(4 * math.log(2) * 20) + 1
    assert bounds.general_adversarial(0.25, 2, 10) == pytest.approx(second)
    assert bounds.general_adversarial(0, 2, 10) == pytest.approx(
        2 * math.sqrt(math.log(10) * 20) + 1
    )
    assert bounds.general_adversarial(1, 2, 10) == pytest.approx(
        2 * math.sqrt(math.log(2) * 20) + 1
    )


def test_theorem_3_survives_its_rising_rates():
    # Regret of rounds 1 and 2 counted as 2, stability and penalty from round 3 on, where the rate
    # falls for every alpha.
    def log_power(x, a):
        return np.log(x) if a == 0 else np.expm1(a * np.log(x)) / a

    t = np.arange(3.0, 10_001.0)
    # From round 2 to 3 it still rises for alpha up to 0.2837...
    rise = [log_power(3.0, -a) / 3 - log_power(2.0, -a) / 2 for a in (0.0, 0.283, 0.284, 1.0)]
    assert rise[0] > rise[1] > 0 > rise[2] > rise[3]
    for alpha in np.linspace(0.0, 0.29, 30):
        for K in (2, 3, 10, 1000):
            scale = log_power(K, 1 - alpha)
            eta = np.sqrt(K**-alpha * scale * log_power(t, -alpha) / t)
            assert np.all(np.diff(eta) <= 0)
            stability = np.cumsum(eta) * K**alpha / 2
            penalty = scale * log_power(t, -alpha) / eta + 1
            repaired = 2 + stability + penalty
            assert np.all(repaired <= bounds.general_adversarial(alpha, K, t))


@pytest.mark.statistical
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_measured_against_an_adversary(alpha, world):
    policy = bw.TsallisINF(alpha=alpha, estimator="iw")

    def bound(rounds):
        return bounds.general_adversarial(alpha, ARMS, rounds)

    assert stays_below(policy, WORLDS[world], HORIZON, bound)


@pytest.mark.statistical
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_a_rate_that_is_not_the_theorems_breaks_the_bound(alpha):
    def bound(rounds):
        return bounds.general_adversarial(alpha, ARMS, rounds)

    assert stays_below(bw.TsallisINF(alpha=alpha, estimator="iw"), WIDE, HORIZON, bound)
    slow = bw.TsallisINF(alpha=alpha, estimator="iw", learning_rate=1e-6)
    assert ends_above(slow, WIDE, HORIZON, bound)
