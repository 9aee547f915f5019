"""Corollary 1: stochastic losses with adversarial corruption; 8 on the paper's counter."""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.theory import bounds
from helpers.means import MARGIN, ends_above, played, stays_below

ARMS, GAP, HORIZON = 8, 1 / 8, 100_000
GAPS = [0.0] + (ARMS - 1) * [GAP]
HONEST = bw.environments.Stochastic.gap(ARMS, GAP)


def test_corrupted_doubles_the_budget():
    # X = 10 as above; a budget of 500 is the constant 1000, a budget of 2 the constant 4.
    rest = 1.5 * math.sqrt(2) + 32
    assert bounds.corrupted([0, 0.5], 1, 500.0) == pytest.approx(200 + rest)
    assert bounds.corrupted([0, 0.5], 1, 2.0) == pytest.approx(14 + rest)
    assert bounds.corrupted([0, 0.5], 1, 0.0) == bounds.self_bounding([0, 0.5], 1)


# At 2000 the theorem's second branch applies, to both estimators. Budgets are large enough for the
# attack to be seen: a few unlucky runs make the mean of a small one uncertain.
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("attack", "budget"), [("hide", 400.0), ("discourage", 400.0), ("swap", 2000.0)]
)
@pytest.mark.parametrize("estimator", ["rv", "iw"])
def test_measured_under_corruption(attack, budget, estimator):
    # The environment measures regret on the losses before corruption. The corollary speaks of those
    # after it, which differ by at most twice the budget; measured, its bound holds for both.
    policy = bw.TsallisINF(estimator=estimator)
    world = bw.environments.Corrupted(HONEST, budget, attack)

    def bound(rounds):
        return bounds.corrupted(GAPS, rounds, budget, estimator)

    assert stays_below(policy, world, HORIZON, bound)
    _, mean, error = played(policy, world, HORIZON)
    _, untouched, its_error = played(policy, HONEST, HORIZON)
    assert mean[-1] - untouched[-1] > MARGIN * np.hypot(error[-1], its_error[-1])


@pytest.mark.statistical
def test_ucb1_breaks_the_bound_where_its_best_arm_is_discouraged():
    budget = 400.0
    world = bw.environments.Corrupted(HONEST, budget, "discourage")
    assert ends_above(bw.UCB1(), world, HORIZON, lambda T: bounds.corrupted(GAPS, T, budget))
