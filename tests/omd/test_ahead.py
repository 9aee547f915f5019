"""The solver with a root foreseen: exact from any start, one look from its own."""

import math

import numba
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.lanes.vectors import pointer
from bothworlds.omd import ahead, half
from bothworlds.policies.tsallis_inf.parameters import near_limit
from omd.test_half import exact_weights

IW = bw.TsallisINF(estimator="iw")


@numba.njit
def draw_each(K, state, eta, u):
    return ahead.draw(K, pointer(state), eta, None, u, ahead.scan_each)


@numba.njit
def draw_by_fours(K, state, eta, u):
    return ahead.draw(K, pointer(state), eta, True, u, ahead.scan_by_fours)


@pytest.mark.slow
@given(
    st.lists(st.floats(0, 1e4), min_size=2, max_size=11),
    st.integers(1, 10**6),
    st.floats() | st.floats(-10, 10),
    st.floats(0, 1, exclude_max=True),
)
@example([0.0, 0.0], 1, math.nan, 0.5)
@example([0.0, 0.0], 1, math.inf, 0.5)
@example([0.0] + [9.0] * 10, 10, -math.inf, 0.999999)
def test_every_start_leads_to_the_root_and_the_arm(L, t, centre, u):
    L = np.array(L) - min(L)  # policies recentre: x then has all its digits
    eta = 2 / math.sqrt(t)
    w = exact_weights(L, eta)
    ends = np.cumsum(w)
    for draw in (draw_each, draw_by_fours):
        state = np.concatenate([IW.start(len(L))[: half.ESTIMATES], L])
        state[ahead.PREDICTED] = centre
        arm = draw(len(L), state, eta, u)
        found = 4 / (eta * (L - state[half.ROOT])) ** 2
        assert np.abs(found / w - 1).max() < 1e-12
        assert abs(state[half.INVERSE_P] * w[arm] - 1) < 1e-12
        # Rounding decides where u meets a cumulative weight.
        if np.abs(ends[:-1] - u).min() > 1e-12:
            assert arm == np.searchsorted(ends[:-1], u, side="right")


@numba.njit
def looks(K, rounds, seed, reduced, foresight):
    """Play Tsallis-INF, the best arm 0; return the looks of every round."""
    np.random.seed(seed)
    state = np.zeros(half.ESTIMATES + K)
    S = pointer(state)
    S[ahead.PREDICTED] = -1.0
    found = np.zeros(rounds, np.int64)
    for t in range(1, rounds + 1):
        eta = (4.0 if reduced else 2.0) / math.sqrt(t)
        low = state[half.ESTIMATES :].min()
        z = min(max(0.5 * eta * (low - S[ahead.PREDICTED]), 1.0), math.sqrt(K))
        u, n, unsure = np.random.random(), 0, True
        while unsure:
            arm, unsure = ahead.look(K, S, eta, low, z, True, u, None, ahead.scan_each)
            z = max(0.5 * eta * (low - S[half.ROOT]), 1.0)
            n += 1
        found[t - 1] = n
        loss = 1.0 if np.random.random() < 0.4375 + 0.125 * (arm > 0) else 0.0
        inverse_p, base = S[half.INVERSE_P], 0.0
        if reduced:
            limit = near_limit(eta)
            base = 0.5 if inverse_p <= 0.5 * limit else 0.0
            for i in range(half.ESTIMATES, half.ESTIMATES + K):
                S[i] += 0.5 if S[i] - S[half.ROOT] <= limit else 0.0
        by = (loss - base) * inverse_p
        S[half.ESTIMATES + arm] += by
        if not foresight:
            S[ahead.PREDICTED] = S[half.ROOT]
        elif reduced:
            ahead.predict(S, t, base, by)
        else:
            ahead.predict(S, t, None, by)
    return found


@pytest.mark.parametrize(
    ("n_arms", "reduced"),
    [(2, False), (9, False), (32, False), (128, False), (9, True), (32, True), (48, True)],
)
def test_one_look_a_round_is_enough(n_arms, reduced):
    """A vector looks again if one of its lanes has to, so nearly no lane may have to."""
    assert ahead.fits(n_arms, "rv" if reduced else "iw")
    found = looks(n_arms, 10_000, 1, reduced, True)
    assert found.max() <= 6
    assert found[3000:].mean() < 1.005
    assert found[300:].mean() < 1.02


def test_without_the_prediction_every_round_takes_two_looks():
    """Negative control: the next look starts from the last root."""
    assert looks(9, 10_000, 1, False, False)[300:].mean() > 1.9
    assert looks(9, 10_000, 1, True, False)[300:].mean() > 1.9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=ahead.MOST - 1))
def test_the_denominator_of_the_prediction_is_positive_where_only_the_rate_changes(r):
    """With S_2 = 1: 2 S_3^2 > (3/2) e S_4 for e up to 1 / FIRST."""
    r = np.array([1.0, *r])
    r /= math.sqrt((r**2).sum())
    assert 2 * (r**3).sum() ** 2 > 1.5 / ahead.FIRST * (r**4).sum()
