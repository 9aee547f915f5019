"""Corollary 2: sparring in utility-based dueling bandits; 10 on the paper's counter."""

import math

import numba
import numpy as np
import pytest

import bothworlds as bw
from bothworlds.theory import bounds
from helpers.means import ends_above, played, stays_below

PAIRS = {
    "one state": bw.Sparring(bw.TsallisINF()),
    "two states": bw.Sparring(bw.TsallisINF(), shared=False),
    "one state, iw": bw.Sparring(bw.TsallisINF(estimator="iw")),
    "two states, iw": bw.Sparring(bw.TsallisINF(estimator="iw"), shared=False),
}


def test_dueling_by_hand():
    # A utility gap of 1/2 is a gap of 1/4 on each side, and the factor is 2 * 2.
    log_T = math.log(50)
    side = (log_T + 3) * 4 + 2 * 4 + 28 * 2 * log_T + 1.5 * math.sqrt(2) + 32
    assert bounds.dueling_stochastic([0, 0.5], 50) == pytest.approx(4 * side)
    assert bounds.dueling_adversarial(2, 50, "iw") == pytest.approx(4 * (4 * 10 + 1))
    arena = bounds.dueling_adversarial(2, 50)
    assert arena == pytest.approx(4 * (2 * 10 + 28 * log_T + 16))


def estimator_of(name):
    return PAIRS[name].policy.estimator


@pytest.mark.statistical
@pytest.mark.parametrize("name", PAIRS)
def test_measured_with_constant_utilities(name):
    world = bw.environments.Utilities([0.75, 0.25, 0.25, 0.25])

    def bound(rounds):
        return bounds.dueling_stochastic([0, 0.5, 0.5, 0.5], rounds, estimator_of(name))

    assert stays_below(PAIRS[name], world, 100_000, bound)
    rounds, mean, _ = played(PAIRS[name], world, 100_000)
    # The regret of a decade is that of the one before: it grows with the logarithm.
    a, b, c = (np.interp(T, rounds, mean) for T in (1_000, 10_000, 100_000))
    assert 0.5 < (c - b) / (b - a) < 1.5


@numba.njit
def fading(t, arm):
    gap = min(1.0, 0.5 * np.sqrt(8.0 / t))
    return 0.5 + 0.5 * gap if arm == 3 else 0.5 - 0.5 * gap


@pytest.mark.statistical
@pytest.mark.parametrize("name", PAIRS)
def test_measured_where_the_gap_fades(name):
    world = bw.environments.Utilities(fading, n_arms=8)

    def bound(rounds):
        return bounds.dueling_adversarial(8, rounds, estimator_of(name))

    assert stays_below(PAIRS[name], world, 40_000, bound)
    rounds, mean, _ = played(PAIRS[name], world, 40_000)
    a, b, c = (np.interp(T, rounds, mean) for T in (400, 4_000, 40_000))
    for ratio in (b / a, c / b):
        assert 0.75 * 10**0.5 < ratio < 1.25 * 10**0.5


def turning(horizon):
    """Two arms take turns in leading, in phases that grow by a factor of three."""
    phase = np.floor(np.log(np.arange(1, horizon + 1)) / np.log(3.0)).astype(int) % 3
    return bw.environments.Utilities(np.array([[0.0, 0.5], [0.5, 0.0], [0.0, 1.0]])[phase])


@pytest.mark.statistical
def test_thompson_sampling_breaks_the_bound_where_arms_take_turns():
    horizon = 25_000
    world = turning(horizon)

    def bound(rounds):
        return bounds.dueling_adversarial(2, rounds)

    for name in ("one state", "two states"):
        assert stays_below(PAIRS[name], world, horizon, bound)
    assert ends_above(bw.Sparring(bw.ThompsonSampling()), world, horizon, bound)
