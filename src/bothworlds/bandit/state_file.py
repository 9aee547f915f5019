"""State files: versioned JSON with a checksum, and validation of every value read from it.

A file looks like ``{"format": ..., "version": ..., "checksum": ..., "content": {...}}``.  The
checksum covers the content, so a damaged copy is refused before it is used.  A file
may contain anything, also with a valid checksum.  Compiled code checks no index and trusts every
number, so nothing reaches it unread: each reader returns a valid value or raises `ValueError`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from bothworlds.errors import StateFileError, invalid, must
from bothworlds.omd import learning_rates
from bothworlds.policies.base import Array, Saved
from bothworlds.registry import POLICIES

Path = str | os.PathLike[str]

LONG = 1000
"""How many numbers a state file lists one by one; more are one text."""
LARGEST_WHOLE = 2**53
"""The largest count, round or id."""


# --- the file ------------------------------------------------------------------------------------


def sealed(kind: str, version: int, content: dict[str, Any]) -> dict[str, Any]:
    """Return a document of this content, with its checksum."""
    return {
        "format": kind,
        "version": version,
        "checksum": checksum(content),
        "content": content,
    }


def as_text(document: Mapping[str, Any]) -> str:
    """Return a document as the text of a state file."""
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    # Half of a surrogate pair, as in undecodable file names, is written as JSON's escape.
    return text.encode("utf-8", "backslashreplace").decode()


def parsed(text: str | bytes, owner: str) -> Any:
    """Return the JSON value of a text, or refuse it with a `StateFileError`."""
    try:
        return json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        got = in_short(error)
        raise StateFileError(f"The {owner} must be complete JSON, got {got}.") from error


def unsealed(document: object, kind: str, version: int, owner: str) -> dict[str, Any]:
    """Return the content of a document, or refuse it with a `StateFileError`."""
    about: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    if about.get("format") != kind:
        raise StateFileError(must("format", owner, repr(kind), about.get("format")))
    number = about.get("version")
    if type(number) is not int or number != version:
        raise StateFileError(must("version", owner, str(version), number))
    content = about.get("content")
    try:
        fits = isinstance(content, dict) and checksum(content) == about.get("checksum")
    except (RecursionError, TypeError, ValueError):
        fits = False
    if not fits:
        raise damaged(owner, "its checksum does not match")
    return dict(content)  # type: ignore[arg-type]


def checksum_in(path: Path) -> str | None:
    """Return the checksum a state file begins with, "" if it has none, None if there is no file."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(512)
    except FileNotFoundError:
        return None
    found = re.search(rb'"checksum": "([0-9a-f]{64})"', head)
    return "" if found is None else found.group(1).decode()


def damaged(owner: str, found: object) -> StateFileError:
    """Return the error for a document whose content makes no sense."""
    return StateFileError(
        f"The {owner} is damaged or was edited by hand: {found}. Restore a backup."
    )


def in_short(error: Exception) -> str:
    """Return the message of an error, on one line of bounded length."""
    said = " ".join(str(error).split()).rstrip(".")
    said = said if len(said) <= 200 else said[:200] + " ..."
    return said if type(error) is ValueError else f"{type(error).__name__} {said}".rstrip()


def _refused(constant: str) -> None:
    raise ValueError(f"{constant}, which is not JSON")


def owner_of(path: Path) -> str:
    """Return the name of a state file in error messages."""
    return f"state file {os.fspath(path)!r}"


def checksum(content: dict[str, Any]) -> str:
    """Return the digest of a document's content.

    Examples
    --------
    >>> checksum({"seed": 7, "arms": 2}) == checksum({"arms": 2, "seed": 7})
    True
    """
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


# --- the policy in the file ----------------------------------------------------------------------


def describe(value: Any, owner: str) -> Any:
    """Return a configuration (a dataclass of numbers, strings and such dataclasses) as JSON.

    Examples
    --------
    >>> from bothworlds.omd.learning_rates import InverseSqrt
    >>> describe(InverseSqrt(2.0), "Bandit.save")
    {'class': 'InverseSqrt', 'fields': {'scale': 2.0}}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [describe(item, owner) for item in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        expected = "a dataclass of numbers, strings and such dataclasses"
        raise invalid("policy", owner, expected, value)
    fields = {
        field.name: describe(getattr(value, field.name), owner)
        for field in dataclasses.fields(value)
        if field.init
    }
    return {"class": type(value).__name__, "fields": fields}


def _class_of(name: Any, further: tuple[type, ...]) -> Any:
    """Return the class of a description: a registered policy, a schedule or one of ``further``."""
    for kind in (*get_args(learning_rates.Schedule), *further):
        if kind.__name__ == name:
            return kind
    return POLICIES[name].load()


def recreate(description: Any, further: tuple[type, ...] = ()) -> Any:
    """Return the configuration that `describe` described.

    It is made of registered policies, schedules of learning rates and ``further`` classes only.
    """
    if isinstance(description, list):
        return [recreate(item, further) for item in description]
    if not isinstance(description, dict):
        return description
    fields = {name: recreate(item, further) for name, item in description["fields"].items()}
    return _class_of(description["class"], further)(**fields)


# --- validated values -----------------------------------------------------------------------------


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
    """Return the numbers that `brief` was given, ``n`` of them, each as ``kind`` requires.

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
