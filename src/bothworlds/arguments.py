"""Argument validation: every reader of a number, an array, a word, in one shape of sentence.

A reader takes the parameter's name, its value and its owner, and returns the value in the one
form the rest of the code uses. What it cannot use it refuses with `InvalidParameter`. Booleans are
no numbers; numbers may be NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Literal, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from bothworlds.errors import invalid

FloatArray = NDArray[np.float64]
Word = TypeVar("Word", bound=str)
Arm = str | int
"""The name of an arm."""
Estimator = Literal["rv", "iw", "soft"]
"""The loss estimators of `bothworlds.TsallisINF`."""
Published = Literal["rv", "iw"]
"""Those of the paper, which its bounds cover: reduced variance, or importance weighting."""

SMALLEST = 5e-324
"""The smallest positive number, the lower end of positive ranges."""
LARGEST = 1.7976931348623157e308
"""The largest finite number, the upper end of finite ranges."""


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer and no truth value.

    Examples
    --------
    >>> is_whole(3), is_whole(np.int64(3)), is_whole(True), is_whole(3.0)
    (True, True, False, False)
    """
    # A type is told apart ten times as fast as an abstract class.
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def is_flag(value: object) -> TypeGuard[bool]:
    """Return whether a value is True or False, Python's or NumPy's.

    Examples
    --------
    >>> is_flag(True), is_flag(np.False_), is_flag(1)
    (True, True, False)
    """
    return isinstance(value, bool | np.bool_)


def is_name(value: object) -> TypeGuard[str | int]:
    """Return whether a value can be the name of an arm: a text or an integer.

    Examples
    --------
    >>> is_name("blue"), is_name(3), is_name(True), is_name(3.0)
    (True, True, False, False)
    """
    return isinstance(value, str) or is_whole(value)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real, finite number and no truth value.

    Examples
    --------
    >>> is_number(0.5), is_number(np.float32(1)), is_number(False), is_number(float("nan"))
    (True, True, False, False)
    """
    if type(value) is float:
        return math.isfinite(value)
    return isinstance(value, Real) and not isinstance(value, bool) and real(value) is not None


def real(value: object) -> float | None:
    """Return a finite number as a float, None for anything else.

    Decimals, fractions and arrays without a dimension are numbers; booleans and texts are none.

    Examples
    --------
    >>> real(1), real(np.array(0.5)), real(True), real("1"), real(10**400)
    (1.0, 0.5, None, None, None)
    """
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real | Decimal) or isinstance(value, bool):
        return None
    try:
        x = float(value)
    except (OverflowError, ValueError):  # an integer beyond all floats, a signalling NaN
        return None
    return x if math.isfinite(x) else None


def number(
    parameter: str, value: object, owner: str, low: float, high: float, expected: str
) -> float:
    """Read a finite number in [low, high]; ``expected`` completes "must be".

    Examples
    --------
    >>> number("level", 1, "Example", 0.0, 1.0, "a number in [0, 1]")
    1.0
    >>> number("level", True, "Example", 0.0, 1.0, "a number in [0, 1]")
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The level of Example must be a number in [0, 1], got True.
    """
    x = real(value)
    if x is None or not low <= x <= high:
        raise invalid(parameter, owner, expected, value)
    return x


def positive(
    parameter: str, value: object, owner: str, expected: str = "a positive finite number"
) -> float:
    """Read a finite number above 0."""
    return number(parameter, value, owner, SMALLEST, LARGEST, expected)


def non_negative(
    parameter: str, value: object, owner: str, expected: str = "a finite number of at least 0"
) -> float:
    """Read a finite number of at least 0."""
    return number(parameter, value, owner, 0.0, LARGEST, expected)


def share(parameter: str, value: object, owner: str) -> float:
    """Read a number in [0, 1]."""
    return number(parameter, value, owner, 0.0, 1.0, "a number in [0, 1]")


def positive_gap(value: object, owner: str) -> float:
    """Read a gap in (0, 1]."""
    return number("gap", value, owner, SMALLEST, 1.0, "a number in (0, 1]")


def whole(
    parameter: str, value: object, owner: str, least: int, expected: str | None = None
) -> int:
    """Read an integer of at least ``least``.

    Examples
    --------
    >>> whole("horizon", np.int32(100), "Example", 1)
    100
    >>> whole("horizon", 0, "Example", 1)
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The horizon of Example must be an integer of at least 1...
    """
    if not is_whole(value) or int(value) < least:
        expected = expected or f"an integer of at least {least}"
        raise invalid(parameter, owner, expected, value)
    return int(value)


def count(
    parameter: str, value: object, owner: str, least: int, expected: str | None = None
) -> int:
    """Read an integer of at least ``least``, also one written as a float, such as 1e6.

    Examples
    --------
    >>> count("horizon", 1e6, "Example", 1)
    1000000
    """
    x = None if is_whole(value) else real(value)
    n = value if x is None or not x.is_integer() else int(x)
    return whole(parameter, n, owner, least, expected)


def arm_count(value: object, owner: str) -> int:
    """Read a number of arms, at least 2."""
    return whole("n_arms", value, owner, 2)


def index(parameter: str, value: object, owner: str, n_arms: int) -> int:
    """Read the index of one of this many arms."""
    if not is_whole(value) or not 0 <= int(value) < n_arms:
        raise invalid(parameter, owner, f"the index of one of {n_arms} arms", value)
    return int(value)


def flag(parameter: str, value: object, owner: str, expected: str = "True or False") -> bool:
    """Read True or False."""
    if not is_flag(value):
        raise invalid(parameter, owner, expected, value)
    return bool(value)


def one_of(parameter: str, value: object, owner: str, choices: tuple[Word, ...]) -> Word:
    """Read one of several words.

    Examples
    --------
    >>> one_of("noise", "sine", "Example", ("bernoulli", "beta"))
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The noise of Example must be "bernoulli" or "beta", ...
    """
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    names = [f'"{choice}"' for choice in choices]
    expected = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    raise invalid(parameter, owner, expected, value)


def estimator_name(value: object, owner: str) -> Published:
    """Read the name of a loss estimator of the paper."""
    return one_of("estimator", value, owner, ("rv", "iw"))


def numbers(value: object, kinds: str = "iuf") -> FloatArray | None:
    """Return real numbers as an array of floats in C order; None for texts and ragged lists.

    Parameters
    ----------
    value : object
        What may be an array of numbers.
    kinds : str
        NumPy's letters for the kinds of numbers accepted; "b" would add booleans.

    Examples
    --------
    >>> numbers([1, 2]), numbers([True]), numbers([[1], [2, 3]])
    (array([1., 2.]), None, None)
    """
    try:
        raw: NDArray[Any] = np.asarray(value)
        if raw.dtype.kind not in kinds:
            return None
        # A number without a dimension stays without one.
        return np.asarray(raw, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        return None


def finite_vector(
    parameter: str, value: object, owner: str, expected: str, kinds: str = "iuf"
) -> FloatArray:
    """Read a new vector of one or more finite numbers."""
    x = numbers(value, kinds)
    if x is None or x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise invalid(parameter, owner, expected, value)
    return x.copy()


def unit_vector(
    parameter: str,
    value: object,
    owner: str,
    expected: str = "a vector of two or more numbers in [0, 1]",
) -> FloatArray:
    """Read two or more numbers in [0, 1], one per arm."""
    x = numbers(value)
    if x is None or x.ndim != 1 or x.size < 2 or not np.all((x >= 0.0) & (x <= 1.0)):
        raise invalid(parameter, owner, expected, value)
    return x


def shaped(parameter: str, value: object, owner: str, shape: tuple[int, ...]) -> FloatArray:
    """Read finite numbers of a given shape."""
    x = numbers(value)
    if x is None or x.shape != shape or not np.all(np.isfinite(x)):
        raise invalid(parameter, owner, f"an array of finite numbers of shape {shape}", value)
    return x


def frozen(x: FloatArray) -> FloatArray:
    """Return a read-only copy, which cannot change after its checks."""
    kept = x.copy()
    kept.setflags(write=False)
    return kept


def keep(configuration: object, **fields: object) -> None:
    """Set fields of a frozen dataclass to validated values while it is constructed.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Level:
    ...     value: float
    ...
    ...     def __post_init__(self):
    ...         keep(self, value=share("value", self.value, "Level"))
    >>> Level(1)
    Level(value=1.0)
    """
    for name, value in fields.items():
        object.__setattr__(configuration, name, value)


def as_number(given: object) -> float | None:
    """Return a number, a truth value or an array without a dimension as a float."""
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    return float(given) if is_flag(given) else real(given)


def checked_bounds(bounds: object) -> tuple[float, float]:
    """Return the bounds of rewards or losses as two floats.

    Examples
    --------
    >>> checked_bounds((0, 250))
    (0.0, 250.0)
    """
    ends = [as_number(bound) for bound in bounds] if isinstance(bounds, Iterable) else []
    low, high = ends if len(ends) == 2 else (None, None)
    if low is None or high is None or not (low < high and math.isfinite(high - low)):
        expected = "two numbers at a finite distance, the first below the second"
        raise invalid("bounds", "Bandit", expected, bounds)
    return low, high
