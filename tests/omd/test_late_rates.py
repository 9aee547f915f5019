"""Interpolated learning rates: those of the formulas, to rounding, from the first late round on."""

import numpy as np
import pytest

from bothworlds.omd import late_rates
from bothworlds.omd.learning_rates import CONSTANT, INVERSE_SQRT, THEOREM_3, THEOREM_4, rate


def interpolated(code, parameter, alpha, rounds, p):
    """Return eta and its two powers in these rounds of one span."""
    table = np.zeros(late_rates.PLACES)
    late_rates.tabulate(table, code, parameter, alpha, 8, rounds[0], p)
    assert all(late_rates.is_for(table, t) for t in rounds)
    return np.array(
        [
            [late_rates.interpolate(table, first, t) for t in rounds]
            for first in (late_rates.RATES, late_rates.POWERS, late_rates.LIMITS)
        ]
    )


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.9])
def test_rates_are_those_of_the_formulas(alpha):
    p = 1.0 / (1.0 - alpha)
    for code, parameter in ((CONSTANT, 0.3), (INVERSE_SQRT, 2.0), (THEOREM_3, 0.0), (THEOREM_4, 0)):
        for first in (late_rates.FIRST, 10**6 // late_rates.SPAN * late_rates.SPAN):
            rounds = range(first, first + late_rates.SPAN)
            eta, power, limit = interpolated(code, parameter, alpha, rounds, p)
            exact = np.array([rate(code, parameter, alpha, 8, float(t)) for t in rounds])
            assert np.allclose(eta, exact, rtol=1e-14, atol=0.0)
            assert np.allclose(power * exact**p, 1.0, rtol=1e-13, atol=0.0)
            assert np.allclose(limit * exact ** (1.0 + 2.0 / p), 1.0, rtol=1e-13, atol=0.0)


def test_a_span_that_is_too_early_is_seen():
    rounds = range(late_rates.SPAN, 2 * late_rates.SPAN)
    eta, _, _ = interpolated(THEOREM_3, 0.0, 0.25, rounds, 1.0)
    exact = np.array([rate(THEOREM_3, 0.0, 0.25, 8, float(t)) for t in rounds])
    assert not np.allclose(eta, exact, rtol=1e-9, atol=0.0)


def test_a_table_is_for_its_span_only():
    table = np.zeros(late_rates.PLACES)
    late_rates.tabulate(table, INVERSE_SQRT, 2.0, 0.5, 8, 20_000, None)
    start = 20_000 // late_rates.SPAN * late_rates.SPAN
    assert [bool(late_rates.is_for(table, start + by)) for by in (-1, 0, 127, 128)] == [
        False, True, True, False,
    ]  # fmt: skip
