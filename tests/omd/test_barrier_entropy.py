"""The step of LB-INF-V: the optimality conditions hold, and few iterations reach them."""

import math

import numpy as np
import pytest

from bothworlds.omd.barrier_entropy import logit, solve_barrier_entropy

SIZES = (1, 2, 3, 8, 50, 500)
INSTANCES = 1000
MOST_PASSES = 21
MOST_STEPS = 4


def instances(count, seed):
    """Yield X, b and g: estimates over 12 decades, barriers over 4, horizons up to 1e9."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        K = int(rng.choice(SIZES))
        X = rng.exponential(1.0, K) * 10.0 ** rng.uniform(-5.0, 7.0)
        b = np.sqrt(1.44 + rng.exponential(1.0, K) * 10.0 ** rng.uniform(-2.0, 2.0))
        yield X, b, math.log(10.0 ** rng.uniform(0.5, 9.0))


def solved(X, b, g, m=1.0, nu=math.nan):
    p, c = np.zeros(X.size), np.zeros(X.size)
    nu, passes, steps = solve_barrier_entropy(X, b, g, m, nu, p, c)
    return p, c, nu, passes, steps


def residual(X, b, g, p, c, nu):
    """Return the largest violation of b phi'(p) = nu - X, as a share of the terms' size."""
    gradient = X - nu + b * (-c / p - g * np.log(c))
    return np.abs(gradient / (1.0 + np.abs(X) + abs(nu))).max()


def test_the_optimality_conditions_hold_and_few_steps_reach_them():
    worst = most_passes = most_steps = 0
    for X, b, g in instances(INSTANCES, 1):
        p, c, nu, passes, steps = solved(X, b, g)
        assert abs(p.sum() - 1.0) <= 1e-12
        if X.size > 1:
            worst = max(worst, residual(X, b, g, p, c, nu))
        assert np.abs(p + c - 1.0).max() <= 1e-15
        most_passes, most_steps = max(most_passes, passes), max(most_steps, steps)
    assert worst <= 1e-9
    assert most_passes <= MOST_PASSES and most_steps <= MOST_STEPS


def test_a_wrong_weight_would_be_found():
    """Negative control: a relative error of 1e-6 in p is more than the residual allows."""
    X, b, g = np.array([0.0, 1.0, 3.0]), np.full(3, 1.2), math.log(1000)
    p, c, nu, _, _ = solved(X, b, g)
    assert residual(X, b, g, p, c, nu) < 1e-12
    assert residual(X, b, g, p * (1 + 1e-6), c, nu) > 1e-9


def test_from_the_last_rounds_multiplier_two_or_three_passes_do():
    rng = np.random.default_rng(2)
    X, b, g = np.zeros(8), np.full(8, 1.2), math.log(10_000)
    nu, passes = math.nan, []
    for _ in range(2000):
        p, _, nu, n, _ = solved(X, b, g, nu=nu)
        arm = rng.choice(8, p=p / p.sum())
        X[arm] += (rng.random() < 0.4 + 0.1 * (arm > 0)) / p[arm]
        passes.append(n)
    assert np.mean(passes[1:]) <= 3.3


@pytest.mark.parametrize("seed", range(5))
def test_permutation_and_shift_change_nothing_else(seed):
    rng = np.random.default_rng(seed)
    X, b = rng.exponential(10.0, 20), 1.2 + rng.random(20)
    g = math.log(5000)
    p = solved(X, b, g)[0]
    order = rng.permutation(20)
    assert solved(X[order], b[order], g)[0] == pytest.approx(p[order], rel=1e-10)
    assert solved(X - 300.0, b, g)[0] == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize("m", [0.25, 0.9])
def test_weights_that_sum_to_less_than_1(m):
    X, b, g = np.array([0.0, 5.0]), np.full(2, 1.3), math.log(100)
    p, c, nu, _, _ = solved(X, b, g, m)
    assert p.sum() == pytest.approx(m, rel=1e-12)
    assert residual(X, b, g, p, c, nu) <= 1e-12


@pytest.mark.parametrize("g", [1.1, 9.2, 20.7])
def test_the_inverse_of_one_arm_over_sixteen_decades(g):
    for y in np.concatenate([-np.geomspace(1e-8, 1e8, 200), np.geomspace(1e-8, 500.0, 200), [0.0]]):
        z, steps = logit(y, g)
        assert steps <= MOST_STEPS
        value = g * np.logaddexp(0.0, z) - math.exp(-z)
        assert abs(value - y) <= 1e-12 * max(1.0, abs(y))
