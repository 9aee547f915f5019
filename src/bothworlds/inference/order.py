"""Order of the rounds: rows of a log are sorted by round before they count.

A log in the order of the answers may have the clicks first and the silence later.  Sums over its
first rows would then be wrong at every moment but the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

HELD = 2**20
"""Numbers of the latest rows that are sorted by round before they count: 8 MB."""


class RoundSorter:
    """Buffer that sorts rows by round and passes them on.

    A row is passed on in its order if it stands at most half a buffer behind its place.

    Parameters
    ----------
    count : callable
        Takes the columns of sorted rows, the rounds first.
    fill : float
        For columns with a number per arm: the number of an arm that came after the row.

    Examples
    --------
    >>> found = []
    >>> rows = RoundSorter(lambda rounds, losses: found.extend(losses.tolist()), np.nan)
    >>> rows.add(np.array([2, 3]), np.array([0.2, 0.3]))
    >>> rows.add(np.array([1]), np.array([0.1]))
    >>> rows.finish()
    >>> found
    [0.1, 0.2, 0.3]
    """

    def __init__(self, count: Callable[..., None], fill: float) -> None:
        self._count = count
        self._fill = fill
        self._held: list[tuple[NDArray[Any], ...]] = []

    def add(self, *columns: NDArray[Any]) -> None:
        """Add rows as columns, the rounds first."""
        self._held.append(columns)
        if sum(column.size for part in self._held for column in part) > HELD:
            self._pass_on(last=False)

    def finish(self) -> None:
        """Pass on every row that is left."""
        if self._held:
            self._pass_on(last=True)
            self._held = []

    def _pass_on(self, last: bool) -> None:
        """Pass the rows on, sorted by round; the later half only if these are the last."""
        columns = [self._joined(parts) for parts in zip(*self._held, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        now, later = np.split(order, [order.size if last else order.size // 2])
        self._count(*(column[now] for column in columns))
        self._held = [tuple(column[later] for column in columns)]

    def _joined(self, parts: tuple[NDArray[Any], ...]) -> NDArray[Any]:
        if parts[0].ndim == 1:
            return np.concatenate(parts)
        arms = max(part.shape[1] for part in parts)
        wide = [((0, 0), (0, arms - part.shape[1])) for part in parts]
        return np.concatenate(
            [
                np.pad(part, more, constant_values=self._fill)
                for part, more in zip(parts, wide, strict=True)
            ]
        )
