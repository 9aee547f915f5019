"""Learning rates at points computed by hand, at their limits, and through their codes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import bothworlds as bw
from bothworlds.errors import InvalidParameter
from bothworlds.omd.learning_rates import (
    CONSTANT,
    INVERSE_SQRT,
    THEOREM_3,
    THEOREM_4,
    encode,
    rate,
    theorem1,
    theorem3,
    theorem4,
)

E = math.e


@pytest.mark.parametrize(
    ("t", "reduced_variance", "eta"),
    [(1, False, 2.0), (1, True, 4.0), (4, False, 1.0), (16, True, 1.0), (10**6, False, 0.002)],
)
def test_theorem1(t, reduced_variance, eta):
    assert theorem1(t, reduced_variance) == pytest.approx(eta, rel=1e-15)


@pytest.mark.parametrize(
    ("t", "n_arms", "alpha", "squared"),
    [
        (16, 4, 0.5, 4 * (1 / 2) * (3 / 4) / 16),
        (100, 100, 0.5, 4 * 0.9 * 0.9 / 100),
        (16, 16, 0.25, (4 - 1 / 2) / 0.75 * (1 / 2) / (0.25 * 16)),
        (16, 16, 0.75, (1 / 4 - 1 / 8) / 0.25 * (7 / 8) / (0.75 * 16)),
        (8, 5, 0.0, 4 * math.log(8) / 8),
        (8, 5, 1.0, math.log(5) / 5 * (7 / 8) / 8),
    ],
)
def test_theorem3(t, n_arms, alpha, squared):
    assert theorem3(t, n_arms, alpha) ** 2 == pytest.approx(squared, rel=1e-14)


@given(st.floats(0, 1), st.integers(1, 10**6))
def test_theorem3_begins_with_zero(alpha, n_arms):
    assert theorem3(1, n_arms, alpha) == 0.0


def test_theorem3_differs_from_theorem1_at_one_half():
    assert theorem3(100, 8, 0.5) < 0.9 * theorem1(100, False)


@pytest.mark.parametrize(
    ("t", "alpha", "eta"),
    [
        (1, 0.5, 2 * (1 - E**-0.5)),
        (4, 0.5, 0.5),
        (16, 0.5, 3 / 8),
        (16, 0.25, (2 / 4) * (7 / 8) / (0.75 * 2)),
        (1, 0.0, (1 - 1 / E) / 4),
        (4, 0.0, 3 / 16),
        (1, 1.0, 4.0),
        (100, 1.0, 4 * math.log(100) / 100),
    ],
)
def test_theorem4(t, alpha, eta):
    assert theorem4(t, alpha) == pytest.approx(eta, rel=1e-14)


@pytest.mark.parametrize("t", [1, 2, 3, 50, 10**7])
@pytest.mark.parametrize("n_arms", [1, 2, 8, 10**6])
@pytest.mark.parametrize("near", [1e-300, 1e-17, 1e-12])
def test_rates_are_continuous_at_the_limits(t, n_arms, near):
    for limit, alpha in ((0.0, near), (1.0, 1.0 - near)):
        assert theorem3(t, n_arms, alpha) == pytest.approx(theorem3(t, n_arms, limit), rel=1e-9)
        assert theorem4(t, alpha) == pytest.approx(theorem4(t, limit), rel=1e-9)


def test_encode_chooses_the_theorem():
    def code(learning_rate=None, alpha=0.5, reduced_variance=False, asymmetric=False):
        return encode(
            learning_rate,
            alpha=alpha,
            reduced_variance=reduced_variance,
            asymmetric=asymmetric,
            owner="Policy",
        )

    assert code() == (INVERSE_SQRT, 2.0)
    assert code(reduced_variance=True) == (INVERSE_SQRT, 4.0)
    assert code(alpha=0.7) == (THEOREM_3, 0.0)
    assert code(alpha=0.7, asymmetric=True) == (THEOREM_4, 0.0)
    assert code(asymmetric=True) == (THEOREM_4, 0.0)
    assert code(bw.omd.Constant(0.3), alpha=0.7, asymmetric=True) == (CONSTANT, 0.3)
    assert code(bw.omd.InverseSqrt(3), reduced_variance=True) == (INVERSE_SQRT, 3.0)
    assert code(bw.omd.Theorem1(), alpha=0.7, reduced_variance=True) == (INVERSE_SQRT, 4.0)
    assert code(bw.omd.Theorem3(), asymmetric=True) == (THEOREM_3, 0.0)
    assert code(bw.omd.Theorem4(), alpha=0.7) == (THEOREM_4, 0.0)
    with pytest.raises(
        InvalidParameter, match=r"^The learning_rate of Policy must be .*, got 2\.$"
    ):
        code(2)


def test_rate_evaluates_every_code_also_inside_kernels():
    @njit
    def kernel(code, parameter, alpha, n_arms, t):
        return rate(code, parameter, alpha, n_arms, t)

    for evaluate in (rate, kernel):
        assert evaluate(CONSTANT, 0.3, 0.7, 8, 9) == 0.3
        assert evaluate(INVERSE_SQRT, 3.0, 0.7, 8, 9) == 1.0
        assert evaluate(THEOREM_3, 0.0, 0.7, 8, 9) == theorem3(9, 8, 0.7)
        assert evaluate(THEOREM_4, 0.0, 0.7, 8, 9) == theorem4(9, 0.7)


def test_schedules_print_as_their_constructor_and_compare():
    names = {"Constant": bw.omd.Constant, "InverseSqrt": bw.omd.InverseSqrt}
    names |= {kind.__name__: kind for kind in (bw.omd.Theorem1, bw.omd.Theorem3, bw.omd.Theorem4)}
    theorems = (bw.omd.Theorem1(), bw.omd.Theorem3(), bw.omd.Theorem4())
    for schedule in (bw.omd.Constant(0.25), bw.omd.InverseSqrt(2), *theorems):
        assert eval(repr(schedule), names) == schedule
        assert hash(schedule) == hash(eval(repr(schedule), names))
    assert bw.omd.Constant(2.0) != bw.omd.InverseSqrt(2.0)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "fast", None])
def test_schedules_refuse_what_is_no_rate(bad):
    for schedule, parameter in ((bw.omd.Constant, "value"), (bw.omd.InverseSqrt, "scale")):
        sentence = f"^The {parameter} of {schedule.__name__} must be a finite positive number, got "
        with pytest.raises(InvalidParameter, match=sentence):
            schedule(bad)


def test_the_smallest_alpha_has_the_rate_of_none():
    assert theorem3(10_000.0, 8, 5e-324) == pytest.approx(theorem3(10_000.0, 8, 0.0), rel=1e-14)


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (bw.TsallisINF(), bw.TsallisINF(learning_rate=bw.omd.Theorem1())),
        (
            bw.TsallisINF(estimator="iw"),
            bw.TsallisINF(estimator="iw", learning_rate=bw.omd.Theorem1()),
        ),
        (bw.TsallisINF(alpha=0.7), bw.TsallisINF(alpha=0.7, learning_rate=bw.omd.Theorem3())),
        (
            bw.TsallisINF(alpha=0.7, gaps=(0.0, 0.5)),
            bw.TsallisINF(alpha=0.7, gaps=(0.0, 0.5), learning_rate=bw.omd.Theorem4()),
        ),
    ],
    ids=repr,
)
def test_the_default_is_the_theorems_rate(policy, named):
    draws = []
    for each in (policy, named):
        bandit = bw.Bandit(each, arms=2, seed=5)
        draws.append([])
        for _ in range(60):
            decision = bandit.ask()
            draws[-1].append((decision.index, decision.probability))
            bandit.tell(decision, loss=0.25 + 0.5 * decision.index)
    assert draws[0] == draws[1]


@pytest.mark.parametrize("n_arms", [2, 8, 600])
def test_theorem_3_can_be_asked_for_at_one_half(n_arms):
    policy = bw.TsallisINF(estimator="iw", learning_rate=bw.omd.Theorem3())
    bandit = bw.Bandit(policy, arms=n_arms, seed=5)
    L = np.zeros(n_arms)
    for t in range(1, 30):
        w = bw.omd.weights(L, eta=theorem3(t, n_arms, 0.5), alpha=0.5) if t > 1 else 1 / n_arms
        decision = bandit.ask()
        found = np.array(list(decision.probabilities.values()))
        np.testing.assert_allclose(found, w, rtol=1e-9)
        bandit.tell(decision, loss=0.5)
        L[decision.index] += 0.5 / decision.probability
    bound = bw.bounds.guarantee(policy, n_arms=n_arms, horizon=1000)
    assert bound.theorem == "Theorem 3"
