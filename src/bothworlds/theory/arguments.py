"""Arguments of bounds and lemmas: horizons, gaps, means, weights on the simplex."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import FloatArray, count, numbers, shaped, share, unit_vector
from bothworlds.errors import invalid

Horizon: TypeAlias = float | np.integer[Any] | np.floating[Any]
"""One horizon, for which a bound is a float."""
Horizons: TypeAlias = Sequence[float] | NDArray[np.integer[Any]] | NDArray[np.floating[Any]]
"""Several horizons, for which a bound is an array."""


def horizons(horizon: ArrayLike, owner: str) -> FloatArray:
    """Read one horizon or an array of them, each finite and at least 1."""
    T = numbers(horizon)
    if T is None or not np.all(np.isfinite(T) & (T >= 1.0)):
        raise invalid(
            "horizon", owner, "a number of rounds, or an array of them, at least 1", horizon
        )
    return T


def arm_count(n_arms: int, owner: str) -> int:
    """Read a number of arms, at least 2, also one written as a float."""
    return count("n_arms", n_arms, owner, 2)


def gap_vector(gaps: ArrayLike, owner: str, *, unique: bool = True) -> FloatArray:
    """Read suboptimality gaps in [0, 1] with one zero, or at least one where that is enough."""
    wanted = "exactly one zero" if unique else "at least one zero"
    expected = f"a vector of two or more gaps in [0, 1] with {wanted}"
    D = unit_vector("gaps", gaps, owner, expected)
    zeros = np.count_nonzero(D == 0.0)
    if zeros == 0 or (unique and zeros > 1):
        raise invalid("gaps", owner, expected, gaps)
    return D


def bernoulli_means(means: ArrayLike, owner: str, *, unique_best: bool = False) -> FloatArray:
    """Read mean losses in [0, 1] of which at least two differ."""
    shape = "with a unique smallest one" if unique_best else "not all equal"
    expected = f"a vector of two or more mean losses in [0, 1], {shape}"
    mu = unit_vector("means", means, owner, expected)
    best = np.count_nonzero(mu == mu.min())
    if best == mu.size or (unique_best and best > 1):
        raise invalid("means", owner, expected, means)
    return mu


def float_or_array(values: FloatArray) -> float | FloatArray:
    """Return a float for one horizon and an array for many."""
    return float(values) if values.ndim == 0 else values


def path_arrays(weights: ArrayLike, rates: ArrayLike, owner: str) -> tuple[FloatArray, FloatArray]:
    """Read weights (rounds, arms) on the simplex and one positive rate per round."""
    w = numbers(weights)
    if w is None or w.ndim != 2 or w.shape[1] < 2 or not np.all(w > 0.0):
        raise invalid("weights", owner, "an array (rounds, arms) of positive numbers", weights)
    if not np.allclose(w.sum(axis=1), 1.0, rtol=0.0, atol=1e-9):
        raise invalid("weights", owner, "rows that sum to 1", weights)
    eta = shaped("rates", rates, owner, w.shape[:1])
    if not np.all(eta > 0.0):
        raise invalid("rates", owner, "positive", rates)
    return w, eta


def regulariser_of(
    alpha: float, xi: ArrayLike | None, K: int, owner: str
) -> tuple[float, FloatArray]:
    """Read the power and the asymmetry of a regulariser, all ones where it has none."""
    a = share("alpha", alpha, owner)
    asymmetry = np.ones(K) if xi is None else shaped("xi", xi, owner, (K,))
    if not np.all(asymmetry > 0.0):
        raise invalid("xi", owner, "positive", xi)
    return a, asymmetry


def require_part(part: int, parts: tuple[int, ...], owner: str) -> None:
    """Refuse a part the lemma does not have."""
    if part not in parts:
        raise invalid("part", owner, f"one of {parts}", part)
