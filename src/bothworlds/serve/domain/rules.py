"""Rules for texts that callers send: names, units and request keys, each written once.

HTTP, the command line, the dashboard and `Service` all check by these functions. The patterns also
stand in the OpenAPI document.
"""

from __future__ import annotations

import re
import unicodedata

from bothworlds.errors import must
from bothworlds.serve.problems import Problem

LONGEST_TEXT = 200
"""Characters of a name, a label, a unit or an Idempotency-Key."""
EXPERIMENT_NAME = r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,99}$(?!\n)"
"""Names of experiments: they are used in paths, files and metrics."""
PLAIN = r"^[^\u0000-\u001F\u007F]+$(?!\n)"
"""Texts without control characters; in Python ``$`` alone would accept a final line break."""
REQUEST_KEY = rf"^[\x21-\x7E]{{1,{LONGEST_TEXT}}}$"
"""Values of the header Idempotency-Key: visible ASCII."""

_EXPERIMENT_NAME, _PLAIN = re.compile(EXPERIMENT_NAME), re.compile(PLAIN)
_REQUEST_KEY = re.compile(REQUEST_KEY)

NAMED = "1 to 100 letters, digits, dots, dashes and underscores, starting with a letter or digit"
"""The pattern of `EXPERIMENT_NAME` in words."""
_IN_WORDS = {EXPERIMENT_NAME: NAMED, PLAIN: "a text without control characters"}


def explained(error: Exception) -> str:
    """Return the message of a schema with patterns in words.

    Examples
    --------
    >>> explained(ValueError(f"Expected `str` matching regex {EXPERIMENT_NAME!r} - at `$.name`"))
    'Expected 1 to 100 letters, digits, dots, ...'
    """
    text = str(error)
    for pattern, words in _IN_WORDS.items():
        text = text.replace(f"`str` matching regex {pattern!r}", words)
    return text


def check_experiment_name(name: object) -> None:
    """Refuse a name that cannot be used in paths, files and metrics.

    Examples
    --------
    >>> check_experiment_name("headline-2")
    """
    if not isinstance(name, str) or not _EXPERIMENT_NAME.match(name):
        raise Problem("invalid_request", must("name", "an experiment", NAMED, name))


def check_name(text: object, what: str, least: int = 1) -> None:
    """Refuse a name or label that is not printable, or too long.

    Stricter than `PLAIN`: invisible characters such as U+200B, or an accent that is a character of
    its own, would make two names look the same.

    Examples
    --------
    >>> check_name("blue", "name of an arm")
    >>> check_name("blue\u200b", "name of an arm")
    Traceback (most recent call last):
    ...
    bothworlds.serve.problems.Problem: The name of an arm must be a printable text of 1 to 200 ...
    """
    if (
        not isinstance(text, str)
        or not least <= len(text) <= LONGEST_TEXT
        or not text.isprintable()
    ):
        raise Problem(
            "invalid_request",
            f"The {what} must be a printable text of {least} to {LONGEST_TEXT} characters.",
        )
    if not unicodedata.is_normalized("NFC", text):
        raise Problem("invalid_request", f"The {what} must be in Unicode's normal form NFC.")


def check_unit(unit: object) -> None:
    """Refuse a unit that is empty, too long, or has control characters.

    Examples
    --------
    >>> check_unit("user 7")
    """
    if not isinstance(unit, str) or len(unit) > LONGEST_TEXT or not _PLAIN.match(unit):
        raise Problem(
            "invalid_request",
            f"The unit must be a text of 1 to {LONGEST_TEXT} characters without control "
            "characters.",
        )


def check_request_key(key: object) -> None:
    """Refuse an Idempotency-Key that is not short, visible ASCII.

    Examples
    --------
    >>> check_request_key("order-7")
    """
    if not isinstance(key, str) or not _REQUEST_KEY.fullmatch(key):
        raise Problem(
            "invalid_request",
            f"The Idempotency-Key must be 1 to {LONGEST_TEXT} visible ASCII characters.",
        )
