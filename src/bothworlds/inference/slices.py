"""Slices of a log: by blocks of rounds, or by the values of a column."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from bothworlds.arguments import is_whole
from bothworlds.errors import invalid
from bothworlds.logs.columns import Reading, Rows

Slice = Hashable
"""The value of a column, or the first and last round of a block."""

By = str | int | None


def checked_by(by: object, owner: str) -> By:
    """Return how to slice: a column's name, a number of rounds, or None."""
    if by is None or isinstance(by, str):
        return by
    if is_whole(by) and int(by) >= 1:
        return int(by)
    raise invalid("by", owner, "the name of a column or a number of rounds >= 1", by)


def sliced(reading: Reading, by: By) -> Iterator[tuple[Slice, Rows]]:
    """Yield the rows of a log with the slice they belong to; None where there are no slices.

    Examples
    --------
    >>> log = [{"round": t, "arm": 0, "loss": 0.5, "probability": 1.0} for t in range(1, 6)]
    >>> [(key, len(rows)) for key, rows in sliced(Reading(log), 3)]
    [((1, 3), 3), ((4, 6), 2)]
    """
    for rows in reading.blocks():
        if by is None:
            yield None, rows
            continue
        if isinstance(by, int):
            block = (rows.rounds - 1) // by
            for number in np.unique(block).tolist():
                yield (number * by + 1, (number + 1) * by), rows.where(block == number)
            continue
        try:
            values = list(rows.column(by))
        except KeyError:
            raise invalid("by", reading.owner, "a column that every row has", by) from None
        keys = {value: n for n, value in enumerate(dict.fromkeys(values))}
        codes = np.array([keys[value] for value in values])
        for value, code in keys.items():
            yield getattr(value, "item", lambda value=value: value)(), rows.where(codes == code)
