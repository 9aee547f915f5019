"""Runs of repetitions, by number: which there are, and which are missing."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]
"""Repetitions from the first number up to the second, which is not included."""


def missing_spans(have: Iterable[Span], wanted: int) -> list[Span]:
    """Return the repetitions below ``wanted`` that no span covers.

    Examples
    --------
    >>> missing_spans([(0, 16), (32, 48)], 64)
    [(16, 32), (48, 64)]
    >>> missing_spans([(16, 32)], 0)
    []
    """
    at, missing = 0, []
    for first, end in sorted(have):
        if min(first, wanted) > at:
            missing.append((at, min(first, wanted)))
        at = max(at, end)
        if at >= wanted:
            break
    if at < wanted:
        missing.append((at, wanted))
    return missing
