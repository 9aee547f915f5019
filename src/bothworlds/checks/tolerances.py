"""Tolerances of statistics: a correct subject exceeds these once in a million."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Z = 4.75
"""Standard deviations that a normal variable exceeds once in a million."""

FEWEST = 5.0
"""Expected count below which outcomes are pooled before chi-square is used."""


def chi_square_limit(degrees: int) -> float:
    """Return a value that chi-square exceeds less than once in a million.

    By the approximation of Wilson and Hilferty (1931), which errs upwards this far out.

    Examples
    --------
    >>> round(chi_square_limit(4), 1)
    35.2
    """
    spread = 2.0 / (9.0 * degrees)
    return degrees * (1.0 - spread + Z * math.sqrt(spread)) ** 3


def pooled(groups: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Join the columns whose expected count is below `FEWEST` into one."""
    small = expected < FEWEST
    if not small.any():
        return groups
    return np.column_stack([groups[:, ~small], groups[:, small].sum(axis=1)])


def goodness_of_fit(counts: NDArray[np.int64], p: NDArray[np.float64]) -> tuple[float, float]:
    """Return the chi-square of counts against probabilities, and its limit.

    Examples
    --------
    >>> value, limit = goodness_of_fit(np.array([480, 520]), np.array([0.5, 0.5]))
    >>> round(value, 2), value < limit
    (1.6, True)
    """
    expected = p / p.sum() * counts.sum()
    both = pooled(np.stack([counts.astype(np.float64), expected]), expected)
    both = both[:, both[1] > 0.0]
    value = float(((both[0] - both[1]) ** 2 / both[1]).sum())
    return value, chi_square_limit(max(1, both.shape[1] - 1))


def homogeneity(first: NDArray[np.int64], second: NDArray[np.int64]) -> tuple[float, float]:
    """Return the chi-square of two rows of counts having one distribution, and its limit.

    Examples
    --------
    >>> value, limit = homogeneity(np.array([50, 950]), np.array([950, 50]))
    >>> value > limit
    True
    """
    rows = np.stack([first, second]).astype(np.float64)
    rows = pooled(rows, 0.5 * rows.sum(axis=0))
    rows = rows[:, rows.sum(axis=0) > 0.0]
    expected = np.outer(rows.sum(axis=1), rows.sum(axis=0)) / rows.sum()
    value = float(((rows - expected) ** 2 / expected).sum())
    return value, chi_square_limit(max(1, rows.shape[1] - 1))


def trimmed_error(values: NDArray[np.float64], share: float) -> float:
    """Return the standard error of a trimmed mean, from the winsorised variance (Tukey, 1963)."""
    ordered = np.sort(values)
    cut = int(share * ordered.size)
    if cut:
        ordered[:cut] = ordered[cut]
        ordered[-cut:] = ordered[-cut - 1]
    return float(ordered.std(ddof=1) / ((1.0 - 2.0 * share) * math.sqrt(ordered.size)))
