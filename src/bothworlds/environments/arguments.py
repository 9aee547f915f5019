"""The parameters environments share, refused in one place and in one sentence."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.environments.base import Array
from bothworlds.errors import InvalidParameter, must


def real_array(value: object) -> Array | None:
    """Read real numbers; booleans, strings and ragged lists are none."""
    try:
        raw: NDArray[Any] = np.asarray(value)
        if raw.dtype.kind not in "iuf":
            return None
        return np.ascontiguousarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def number(
    parameter: str, value: object, owner: str, low: float, high: float, expected: str
) -> float:
    """Read a finite number in [low, high]; ``expected`` completes "must be"."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InvalidParameter(must(parameter, owner, expected, value))
    x = float(value)
    if not (math.isfinite(x) and low <= x <= high):
        raise InvalidParameter(must(parameter, owner, expected, value))
    return x


def whole(parameter: str, value: object, owner: str, least: int) -> int:
    """Read an integer of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        expected = f"an integer of at least {least}"
        raise InvalidParameter(must(parameter, owner, expected, value))
    return int(value)


def arm_count(value: object, owner: str) -> int:
    """Read a number of arms."""
    return whole("n_arms", value, owner, 2)


def positive_gap(value: object, owner: str) -> float:
    """Read a gap in (0, 1]."""
    return number("gap", value, owner, 5e-324, 1.0, "a number in (0, 1]")


def flag(parameter: str, value: object, owner: str) -> bool:
    """Read True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidParameter(must(parameter, owner, "True or False", value))
    return bool(value)


def one_of(parameter: str, value: object, owner: str, choices: tuple[str, ...]) -> str:
    """Read one of several names."""
    if not isinstance(value, str) or value not in choices:
        names = [f'"{choice}"' for choice in choices]
        expected = ", ".join(names[:-1]) + f" or {names[-1]}"
        raise InvalidParameter(must(parameter, owner, expected, value))
    return value


def unit_vector(parameter: str, value: object, owner: str) -> Array:
    """Read two or more numbers in [0, 1], one per arm."""
    x = real_array(value)
    if x is None or x.ndim != 1 or x.size < 2 or not np.all((x >= 0.0) & (x <= 1.0)):
        expected = "a vector of two or more numbers in [0, 1]"
        raise InvalidParameter(must(parameter, owner, expected, value))
    return x


def frozen(x: Array) -> Array:
    """Return a read-only copy, so that an environment cannot change after its checks."""
    kept = x.copy()
    kept.setflags(write=False)
    return kept
