"""Validation of numbers read from a state file; each reader returns them or raises `ValueError`.

A file may say anything, also with a checksum that fits.  Compiled code checks no index and trusts
every number, so nothing reaches it unread.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.policies.base import Array, Saved

LONG = 1000
"""How many numbers a state file lists one by one; more are one text."""
MOST = 2**53
"""The largest count, round or id."""


def brief(numbers: Sequence[Any] | NDArray[Any]) -> list[Any] | str:
    """Return numbers as a list or, if they are many or not finite, as text made of doubles.

    None stands for a missing number, which is NaN in the text.

    Examples
    --------
    >>> brief([1, 2.5, None]), brief([float("inf")])
    ([1, 2.5, None], 'AAAAAAAA8H8=')
    """
    plain: list[Any] = numbers.tolist() if isinstance(numbers, np.ndarray) else list(numbers)
    if len(plain) < LONG and all(each is None or math.isfinite(each) for each in plain):
        return plain
    return text(np.array(plain, dtype="<f8").tobytes())


def text(raw: bytes) -> str:
    """Return bytes as ASCII text."""
    return b64encode(raw).decode("ascii")


def raw_bytes(value: object, name: str) -> bytes:
    """Return the bytes that `text` was given."""
    if type(value) is not str or not value.isascii():
        raise ValueError(f"{name} that is not a text of bytes")
    return b64decode(value, validate=True)


def whole(value: object, name: str, low: int, high: int) -> int:
    """Return a whole number from ``low`` to ``high``.

    Examples
    --------
    >>> whole(3, "round", 0, 10)
    3
    """
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name} that is not a whole number from {low} to {high}")
    return value


def number(value: object, name: str, low: float, high: float) -> float:
    """Return a finite number from ``low`` to ``high``."""
    # Whole numbers too long for a float are refused by the comparison, not by an overflow.
    if type(value) not in (int, float) or not low <= value <= high:  # type: ignore[operator]
        raise ValueError(f"{name} that is not a number from {low:g} to {high:g}")
    return float(value)  # type: ignore[arg-type]


def truth(value: object, name: str) -> bool:
    """Return a truth value of a file."""
    if type(value) is not bool:
        raise ValueError(f"a {name} that is not true or false")
    return value


def listed(value: object, name: str) -> list[Any]:
    """Return a list."""
    if type(value) is not list:
        raise ValueError(f"{name} that is not a list")
    return value


def record(value: object, name: str) -> dict[str, Any]:
    """Return an object of JSON."""
    if type(value) is not dict:
        raise ValueError(f"{name} that is not an object")
    return value


def many(value: object, kind: Saved, n: int | None = None, missing: bool = False) -> Array:
    """Return the numbers that `brief` was given, ``n`` of them, each as ``kind`` says.

    Where numbers may be ``missing``, null in a list and NaN in a text become NaN.

    Examples
    --------
    >>> many([1, 2], Saved("told", low=0, whole=True), 2)
    array([1., 2.])
    """
    name = kind.name
    if type(value) is str:
        given = raw_bytes(value, name)
        if len(given) % 8:
            raise ValueError(f"{name} that are not doubles")
        found = np.frombuffer(given, "<f8").astype(np.float64)
    else:
        plain = listed(value, name)
        allowed = (int, float, type(None)) if missing else (int, float)
        if any(type(each) not in allowed for each in plain):
            raise ValueError(f"{name} that are not numbers")
        # An integer beyond every double raises OverflowError, which the caller expects.
        found = np.array([math.nan if each is None else float(each) for each in plain], np.float64)
    if n is not None and found.size != n:
        raise ValueError(f"{found.size} {name} instead of {n}")
    looked_at = found[~np.isnan(found)] if missing else found
    if kind.finite and not np.isfinite(looked_at).all():
        raise ValueError(f"{name} that are not finite")
    if kind.finite and not ((looked_at >= kind.low) & (looked_at <= kind.high)).all():
        raise ValueError(f"{name} out of [{kind.low:g}, {kind.high:g}]")
    if kind.whole and (looked_at != np.floor(looked_at)).any():
        raise ValueError(f"{name} that are not whole")
    return found


def bits(value: object, name: str, n: int) -> bytes | None:
    """Return one bit for each of ``n`` arms, packed, or None."""
    if value is None:
        return None
    raw = raw_bytes(value, name)
    beyond = -n % 8
    if len(raw) != (n + 7) // 8 or raw[-1] & ((1 << beyond) - 1):
        raise ValueError(f"{name} that are not {n} bits")
    return raw
