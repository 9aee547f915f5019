"""Theorem 4: Tsallis-INF with any alpha and known gaps, stochastically constrained regime.

The bound by hand and simulated mean regret below it at every checkpoint. Its last term is large, so
the negative control needs a wide gap and more rounds. That the theorem's rates rise at first is
tested next to Lemma 12, whose condition they miss.
"""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.theory import bounds
from helpers.means import ends_above, stays_below

HORIZON, CONTROL = 10_000, 25_000
ALPHAS = [0.0, 0.3, 0.5, 0.7, 1.0]
GAPS = (0.0, 0.25, 0.5)
LEVEL = 0.25 + 0.2 * np.sin(np.arange(HORIZON) / 500.0)
# Shuffled arms would not match the gaps the policy is told.
WORLDS = {
    "stochastic": bw.environments.Stochastic([0.25, 0.5, 0.75], shuffle=False),
    "constrained": bw.environments.Constrained(GAPS, LEVEL, shuffle=False),
}
WIDE = bw.environments.Stochastic([0.0, 1.0], shuffle=False)


def test_general_stochastic_by_hand():
    # One gap of 1: z = 16, T_0 = 16 log(16)^2; at alpha = 1/2 and T = e^10 the minimum is 2.
    last = 16 * math.log(16 * math.log(16) ** 2) ** 4 + 4
    value = bounds.general_stochastic(0.5, [0, 1], math.exp(10))
    printed = bounds.general_stochastic(0.5, [0, 1], math.exp(10), printed=True)
    assert value == pytest.approx((8 * 2 + 64) * 11 + last)
    assert printed == pytest.approx((8 * 2 + 64) * 10 + last)
    at_one = bounds.general_stochastic(1, [0, 1], math.exp(10))
    assert at_one == pytest.approx((8 * 10 + 64) * 11 + last)


@pytest.mark.statistical
@pytest.mark.parametrize("world", WORLDS.values(), ids=[*WORLDS])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_measured_with_known_gaps(alpha, world):
    policy = bw.TsallisINF(alpha=alpha, estimator="iw", gaps=GAPS)
    assert stays_below(policy, world, HORIZON, lambda T: bounds.general_stochastic(alpha, GAPS, T))


@pytest.mark.statistical
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_a_rate_that_is_not_the_theorems_breaks_the_bound(alpha):
    def bound(rounds):
        return bounds.general_stochastic(alpha, (0.0, 1.0), rounds)

    settings = {"alpha": alpha, "estimator": "iw", "gaps": (0.0, 1.0)}
    assert stays_below(bw.TsallisINF(**settings), WIDE, CONTROL, bound)
    assert ends_above(bw.TsallisINF(**settings, learning_rate=1e-6), WIDE, CONTROL, bound)
