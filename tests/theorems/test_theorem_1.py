"""Theorem 1: Tsallis-INF with alpha = 1/2, adversarial and under a self-bounding constraint.

The bound by hand, the sums of its proof, and simulated mean regret below it at every checkpoint.
A bound speaks of an expectation, which the mean over repetitions estimates; every comparison leaves
four standard errors of that mean to spare.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.policies.custom import custom
from bothworlds.theory import bounds
from helpers.means import ends_above, played, stays_below

ARMS, GAP, HORIZON = 8, 1 / 8, 100_000
GAPS = [0.0] + (ARMS - 1) * [GAP]
WORLDS = {
    "stochastic": bw.environments.Stochastic.gap(ARMS, GAP),
    "switching": bw.environments.Switching(ARMS, GAP),
}
HARDEST = bw.environments.Stochastic.gap(ARMS, math.sqrt(ARMS / HORIZON))


# ---- the statement --------------------------------------------------------------------------


def test_adversarial_by_hand():
    # K T = 400, so sqrt = 20.
    assert bounds.adversarial(4, 100, "iw") == 4 * 20 + 1
    assert bounds.adversarial(4, 100, "rv") == pytest.approx(40 + 14 * 4 * math.log(100) + 16)
    assert bounds.adversarial(4, 1) == 2 * 2 + 0 + 16


def test_self_bounding_by_hand():
    # Gaps 1/2 and 1/4: sum of inverses 6, smallest 1/4, K = 3.
    log_T = math.log(1000)
    rv = (log_T + 3) * 6 + 2 * 4 + 28 * 3 * log_T + 1.5 * math.sqrt(3) + 32
    iw = (4 * log_T + 12) * 6 + 8 * 4 + 4 * log_T + 3 * math.sqrt(3) + 8
    iw_printed = (4 * log_T + 12) * 6 + 2 * 4 + 4 * log_T + 1.5 * math.sqrt(3) + 8
    gaps = [0.5, 0, 0.25]
    assert bounds.self_bounding(gaps, 1000) == pytest.approx(rv, rel=1e-14)
    assert bounds.self_bounding(gaps, 1000, estimator="iw") == pytest.approx(iw, rel=1e-14)
    assert bounds.self_bounding(gaps, 1000, 7.0, "iw") == pytest.approx(iw + 7.0, rel=1e-14)
    printed = bounds.self_bounding(gaps, 1000, estimator="iw", printed=True)
    assert printed == pytest.approx(iw_printed, rel=1e-14)


def test_both_branches_of_the_corruption_condition():
    # One gap of 1/2 at T = 1: X = 3 * 2 + 2 * 2 = 10 and the rest is 1.5 sqrt(2) + 32.
    rest = 1.5 * math.sqrt(2) + 32
    assert bounds.self_bounding([0, 0.5], 1, 9.0) == pytest.approx(19 + rest)
    assert bounds.self_bounding([0, 0.5], 1, 10.0) == pytest.approx(20 + rest)
    assert bounds.self_bounding([0, 0.5], 1, 1000.0) == pytest.approx(2 * 100 + rest)


@given(
    st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=12).map(lambda d: [0.0, *d]),
    st.floats(1.0, 1e12),
    st.floats(0.0, 1e9),
    st.floats(0.0, 1e9),
    st.sampled_from(["rv", "iw"]),
    st.booleans(),
)
def test_self_bounding_grows_with_corruption_and_falls_with_gaps(
    gaps, horizon, one, other, estimator, printed
):
    def bound(D, C):
        return bounds.self_bounding(D, horizon, C, estimator, printed=printed)

    low, high = sorted((one, other))
    assert bound(gaps, low) <= bound(gaps, high) * (1 + 1e-12)
    assert bound([d / 2 for d in gaps], low) >= bound(gaps, low)
    # 2 sqrt(X C) never exceeds X + C, and both branches meet where C = X.
    assert bound(gaps, high) <= (bound(gaps, 0.0) + high) * (1 + 1e-12)


# ---- the proof ------------------------------------------------------------------------------


def test_the_rv_proof_needs_fourteen():
    # Stability sums (7/8) eta_t^2 K with eta_t = 4/sqrt(t) from round 16 on.
    T = 10**6
    t = np.arange(16, T + 1)
    total = float(np.sum(7 / 8 * (4 / np.sqrt(t)) ** 2))
    assert total <= 14 * math.log(T / 15)
    assert total > 10 * math.log(T)


def test_the_printed_ten_follows_up_to_42_arms():
    T = np.unique(np.concatenate([np.arange(16, 5000), np.geomspace(5000, 1e12, 20000)]))

    def margin(K):
        # Printed minus everything the two lemmas give when nothing is dropped.
        stability = 15 + 14 * K * np.log(T / 15) + math.sqrt(K) * (np.sqrt(T) - math.sqrt(15))
        penalty = (math.sqrt(K) - 1) * (np.sqrt(T) - 1) + 1
        return bounds.adversarial(K, T, printed=True) - stability - penalty

    assert all(margin(K).min() >= 0 for K in range(2, 43))
    assert margin(43).min() < 0


def test_the_iw_proof_gives_the_proved_terms():
    # The maxima of the proof, summed numerically for lambda = 1 and T_0 = ceil((2/D_min)^2).
    t = np.arange(1.0, 100_001.0)
    for D in ([1.0], [0.5, 0.5], [0.1, 0.4, 1.0], [0.05]):
        K, smallest = len(D) + 1, min(D)
        T_0 = math.ceil((2 / smallest) ** 2)
        total = np.zeros_like(t)
        for d in D:
            late = 4 / ((d - np.minimum(1 / np.sqrt(t), d / 2)) * t)
            total += np.where(t <= T_0, 4 / (d * t), late)
        derived = np.cumsum(total) + 4 * math.sqrt(T_0) + 6 - 4 * math.sqrt(3)
        derived += 4 * np.log(t) + 3 * math.sqrt(K)
        assert np.all(derived <= bounds.self_bounding([0, *D], t, estimator="iw"))


# ---- measured -------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["rv", "iw"])
@pytest.mark.parametrize("world", WORLDS)
def test_measured_under_a_self_bounding_constraint(world, estimator):
    policy = bw.TsallisINF(estimator=estimator)

    def bound(rounds):
        return bounds.self_bounding(GAPS, rounds, estimator=estimator)

    assert stays_below(policy, WORLDS[world], HORIZON, bound)


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["rv", "iw"])
@pytest.mark.parametrize("world", [*WORLDS.values(), HARDEST], ids=[*WORLDS, "hardest"])
def test_measured_against_an_adversary(world, estimator):
    policy = bw.TsallisINF(estimator=estimator)
    assert stays_below(policy, world, HORIZON, lambda T: bounds.adversarial(ARMS, T, estimator))


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


@pytest.mark.statistical
def test_a_baseline_on_the_played_arm_only_breaks_the_bound():
    wrong = HandWritten(everywhere=0.0)
    world, horizon = WORLDS["stochastic"], 60_000
    assert ends_above(wrong, world, horizon, lambda T: bounds.self_bounding(GAPS, T))
    assert ends_above(wrong, world, horizon, lambda T: bounds.adversarial(ARMS, T))


@pytest.mark.statistical
def test_the_same_code_with_the_baseline_everywhere_does_not():
    right, world, horizon = HandWritten(everywhere=1.0), WORLDS["stochastic"], 20_000
    assert stays_below(right, world, horizon, lambda T: bounds.self_bounding(GAPS, T))
    _, mean, error = played(right, world, horizon)
    _, reference, its_error = played(bw.TsallisINF(), world, horizon)
    assert abs(mean[-1] - reference[-1]) < 4 * np.hypot(error[-1], its_error[-1])
