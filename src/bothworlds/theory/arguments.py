"""The arguments bounds and lemmas share, refused in one place and in one sentence."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.errors import InvalidParameter, must

__all__ = [
    "Estimator",
    "FloatArray",
    "alpha_in_unit_interval",
    "arm_count",
    "arm_index",
    "bernoulli_means",
    "estimator_name",
    "gap_vector",
    "horizons",
    "non_negative",
    "path_arrays",
    "plain",
    "regulariser_of",
    "require_part",
    "shaped_like",
]

Estimator = Literal["rv", "iw"]
FloatArray = NDArray[np.float64]


def _numbers(value: object) -> FloatArray | None:
    """Read real numbers; booleans, strings and ragged lists are none."""
    try:
        raw: NDArray[Any] = np.asarray(value)
        if raw.dtype.kind not in "iuf":
            return None
        return raw.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _number(value: object) -> float | None:
    numbers = _numbers(value)
    if numbers is None or numbers.ndim or not np.isfinite(numbers):
        return None
    return float(numbers)


def horizons(horizon: ArrayLike, owner: str) -> FloatArray:
    """Read one horizon or an array of them, each finite and at least 1."""
    T = _numbers(horizon)
    if T is None or not np.all(np.isfinite(T) & (T >= 1.0)):
        raise InvalidParameter(
            must("horizon", owner, "a number of rounds, or an array of them, at least 1", horizon)
        )
    return T


def arm_count(n_arms: int, owner: str) -> int:
    """Read a number of arms, at least 2."""
    K = _number(n_arms)
    if K is None or K < 2.0 or K != int(K):
        raise InvalidParameter(must("n_arms", owner, "an integer of at least 2", n_arms))
    return int(K)


def gap_vector(gaps: ArrayLike, owner: str, *, unique: bool = True) -> FloatArray:
    """Read suboptimality gaps in [0, 1] with one zero, or at least one where that is enough."""
    wanted = "exactly one zero" if unique else "at least one zero"
    expected = f"a vector of two or more gaps in [0, 1] with {wanted}"
    D = _numbers(gaps)
    if D is None or D.ndim != 1 or D.size < 2 or not np.all((D >= 0.0) & (D <= 1.0)):
        raise InvalidParameter(must("gaps", owner, expected, gaps))
    zeros = np.count_nonzero(D == 0.0)
    if zeros == 0 or (unique and zeros > 1):
        raise InvalidParameter(must("gaps", owner, expected, gaps))
    return D


def bernoulli_means(means: ArrayLike, owner: str, *, unique_best: bool = False) -> FloatArray:
    """Read mean losses in [0, 1] of which at least two differ."""
    shape = "with a unique smallest one" if unique_best else "not all equal"
    expected = f"a vector of two or more mean losses in [0, 1], {shape}"
    mu = _numbers(means)
    if mu is None or mu.ndim != 1 or mu.size < 2 or not np.all((mu >= 0.0) & (mu <= 1.0)):
        raise InvalidParameter(must("means", owner, expected, means))
    best = np.count_nonzero(mu == mu.min())
    if best == mu.size or (unique_best and best > 1):
        raise InvalidParameter(must("means", owner, expected, means))
    return mu


def alpha_in_unit_interval(alpha: float, owner: str) -> float:
    """Read the power of the Tsallis entropy, in [0, 1]."""
    value = _number(alpha)
    if value is None or not 0.0 <= value <= 1.0:
        raise InvalidParameter(must("alpha", owner, "a number in [0, 1]", alpha))
    return value


def non_negative(parameter: str, value: float, owner: str) -> float:
    """Read a finite number that is not negative."""
    number = _number(value)
    if number is None or number < 0.0:
        raise InvalidParameter(must(parameter, owner, "a finite number of at least 0", value))
    return number


def estimator_name(estimator: str, owner: str) -> Estimator:
    """Read the name of a loss estimator."""
    if estimator == "rv":
        return "rv"
    if estimator == "iw":
        return "iw"
    raise InvalidParameter(must("estimator", owner, "'rv' or 'iw'", estimator))


def plain(values: FloatArray) -> Any:
    """Give a float for one horizon and an array for many."""
    return float(values) if values.ndim == 0 else values


def path_arrays(weights: ArrayLike, rates: ArrayLike, owner: str) -> tuple[FloatArray, FloatArray]:
    """Read weights (rounds, arms) on the simplex and one positive rate per round."""
    w = _numbers(weights)
    if w is None or w.ndim != 2 or w.shape[1] < 2 or not np.all(w > 0.0):
        raise InvalidParameter(
            must("weights", owner, "an array (rounds, arms) of positive numbers", weights)
        )
    if not np.allclose(w.sum(axis=1), 1.0, rtol=0.0, atol=1e-9):
        raise InvalidParameter(must("weights", owner, "rows that sum to 1", weights))
    eta = shaped_like(rates, w.shape[:1], "rates", owner)
    if not np.all(eta > 0.0):
        raise InvalidParameter(must("rates", owner, "positive", rates))
    return w, eta


def shaped_like(
    values: ArrayLike, shape: tuple[int, ...], parameter: str, owner: str
) -> FloatArray:
    """Read finite numbers of a given shape."""
    array = _numbers(values)
    if array is None or array.shape != shape or not np.all(np.isfinite(array)):
        raise InvalidParameter(
            must(parameter, owner, f"an array of finite numbers of shape {shape}", values)
        )
    return array


def regulariser_of(
    alpha: float, xi: ArrayLike | None, K: int, owner: str
) -> tuple[float, FloatArray]:
    """Read the power and the asymmetry of a regulariser, all ones where it has none."""
    a = alpha_in_unit_interval(alpha, owner)
    asymmetry = np.ones(K) if xi is None else shaped_like(xi, (K,), "xi", owner)
    if not np.all(asymmetry > 0.0):
        raise InvalidParameter(must("xi", owner, "positive", xi))
    return a, asymmetry


def arm_index(index: int, K: int, parameter: str, owner: str) -> int:
    """Read the index of an arm."""
    if not isinstance(index, int | np.integer) or not 0 <= index < K:
        raise InvalidParameter(must(parameter, owner, f"the index of one of {K} arms", index))
    return int(index)


def require_part(part: int, parts: tuple[int, ...], owner: str) -> None:
    """Refuse a part the lemma does not have."""
    if part not in parts:
        raise InvalidParameter(must("part", owner, f"one of {parts}", part))
