"""The evidence on a set of arms: running sums over answered decisions, in constant memory."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Self
from zlib import compress, decompressobj
from zlib import error as zlib_error

import numpy as np
from numpy.typing import NDArray

from bothworlds.evidence import layout, update
from bothworlds.lanes.direct import address

Array = NDArray[np.float64]

CELLS = 400
"""Cells of a bandit's grid of means."""

FINE = 4000
"""Cells where a log is read: a tenth of the rounding, for a hundred kilobytes an arm."""


def grid_of_means(cells: int) -> Array:
    """Return means from 0 to 1, denser at the ends: a cell is the same part of a standard error.

    Examples
    --------
    >>> grid_of_means(4).round(3).tolist()
    [0.0, 0.146, 0.5, 0.854, 1.0]
    """
    return np.sin(np.linspace(0.0, 0.5 * np.pi, cells + 1)) ** 2


class Evidence:
    """Running sums of answered decisions, arm by arm.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    cells : int
        Cells of the grid of means on which sequences are kept; their ends are rounded outwards.

    Examples
    --------
    >>> evidence = Evidence(2)
    >>> evidence.add(arm=0, inverse_p=2.0, loss=0.25, round=1, weights=np.array([0.5, 0.5]))
    >>> evidence.row(layout.N).tolist()
    [1.0, 0.0]
    """

    __slots__ = ("R", "address", "n_arms")

    R: Array
    address: int
    """Address of the numbers in memory, for compiled functions."""
    n_arms: int
    """How many arms there are or were."""

    def _hold(self, R: Array) -> None:
        self.R, self.address, self.n_arms = R, address(R), int(R[layout.ARMS])

    def __init__(self, n_arms: int, cells: int = CELLS) -> None:
        R = np.zeros(layout.size(n_arms, cells))
        R[layout.ARMS], R[layout.GRID] = n_arms, cells
        R[layout.CHECKPOINT], R[layout.RATIO] = 1.0, 1.1
        R[layout.LAM] = update.LARGEST_BET
        R[layout.LAM_PSI] = update.psi.py_func(update.LARGEST_BET)
        self._hold(R)
        self.row(layout.LEAST)[:] = np.inf
        for side in range(2):
            self.row(layout.BET + layout.SIDE * side)[:] = update.LARGEST_BET
            self.row(layout.PSI + layout.SIDE * side)[:] = R[layout.LAM_PSI]
        for level in range(len(layout.LEVELS)):
            self.row(layout.ENDS + 2 * level + 1)[:] = cells
        self._fill_tables()
        self.capitals()[:] = 1.0

    def _fill_tables(self) -> None:
        mu = grid_of_means(self.cells)
        at = layout.history_place(self.n_arms, layout.POINTS)
        with np.errstate(divide="ignore"):
            tables = np.concatenate([mu, 0.5 / mu, 0.5 / mu[::-1]])
        self.R[at : at + tables.size] = tables

    @property
    def cells(self) -> int:
        """Cells of the grid of means."""
        return int(self.R[layout.GRID])

    @property
    def told(self) -> int:
        """Number of answered decisions that were added."""
        return int(self.R[layout.TOLD])

    def means(self) -> Array:
        """Return the grid of means."""
        at = layout.history_place(self.n_arms, layout.POINTS)
        return self.R[at : at + self.cells + 1]

    def row(self, which: int) -> Array:
        """Return a view of one row: a number per arm."""
        K = self.n_arms
        at = layout.HEAD + which * K
        return self.R[at : at + K]

    def weights(self) -> Array:
        """Return a view of the row that holds the distribution of the last decision added."""
        return self.row(layout.ROWS)

    def capitals(self) -> Array:
        """Return a view of the capitals: (arms, two sides, means of the grid)."""
        K, points = self.n_arms, self.cells + 1
        return self.R[layout.history_place(K, layout.POINTS) + 3 * points :].reshape(K, 2, points)

    def history(self) -> tuple[Array, Array]:
        """Return the rounds of the checkpoints, and of each the `KEPT` numbers of every arm."""
        K, used = self.n_arms, int(self.R[layout.POINTS_USED])
        at, width = layout.history_place(K), 1 + layout.KEPT * K
        table = self.R[at : at + used * width].reshape(used, width)
        return table[:, 0].copy(), table[:, 1:].reshape(used, K, layout.KEPT).copy()

    # --- adding --------------------------------------------------------------------------------

    def add(
        self,
        arm: int,
        inverse_p: float,
        loss: float,
        round: int,
        weights: Array | None = None,
        noted: Array | None = None,
    ) -> None:
        """Add an answered decision.

        Parameters
        ----------
        arm : int
            What was played.
        inverse_p : float
            1 / its probability; 0 where that is not known.
        loss : float
            In [0, 1].
        round : int
            When it was decided, from 1.
        weights : array, optional
            The probability of every arm, NaN where the arm was away; None where only the played
            arm's is known.
        noted : array, optional
            The return value of `note` at the decision, if others were answered since.
        """
        K = self.n_arms
        known = update.NOTHING
        if inverse_p:
            known = update.OWN if weights is None else update.ALL
        if noted is None and known == update.ALL:
            assert weights is not None
            if (weights > 0.0).all():
                self.weights()[:] = weights
            else:
                noted = self.note()
        if noted is None:
            update.observe(self.R, arm, inverse_p, loss, round, known)
            return
        w = np.full(K, np.nan) if weights is None else _widened(weights, K, np.nan)
        then = noted.size // 3
        guesses = _widened(noted[:then], K, 0.5)
        bets = np.empty(2 * K + 1)
        for side in range(2):
            part = noted[(1 + side) * then : (2 + side) * then]
            bets[side * K : (side + 1) * K] = _widened(part, K, update.LARGEST_BET)
        bets[2 * K] = noted[-1]
        update.observe_late(self.R, arm, inverse_p, loss, round, known, w, guesses, bets)

    def note(self) -> Array:
        """Return the notes for late feedback of a decision of this moment: 3 K + 1 numbers."""
        K = self.n_arms
        noted = np.empty(3 * K + 1)
        update.note(self.R, noted[:K], noted[K:])
        return noted

    def add_rows(
        self, arms: Any, inverse_p: Any, losses: Any, rounds: Any, known: Any, weights: Any
    ) -> None:
        """Add rows of a log in order, as `add` would one after the other."""
        update.observe_all(self.R, arms, inverse_p, losses, rounds, known, weights)

    def grow(self, n_arms: int) -> None:
        """Make room for more arms, up to ``n_arms``, of which nothing is known yet.

        Where every decision so far has the probability of the played arm alone, the rest may
        have been there and were not seen; otherwise they were away.
        """
        K, more = self.n_arms, slice(self.n_arms, n_arms)
        new = Evidence(n_arms, self.cells)
        head = self.R[: layout.HEAD].copy()
        head[layout.ARMS] = n_arms
        unseen = head[layout.OWN_ONLY] == head[layout.WEIGHTED]
        if not unseen:
            # No weighted gap compares an arm with others at times when it was not there.
            head[layout.PARTIAL] += 1.0
        new.R[: layout.HEAD] = head
        for which in range(layout.ROWS + 1):
            new.row(which)[:K] = self.row(which)
        if unseen:
            new.row(layout.A1)[more] = new.row(layout.A2)[more] = head[layout.OWN_ONLY]
        else:
            new.row(layout.FOLDED)[more] = head[layout.WEIGHTED]
        new.capitals()[:K] = self.capitals()
        rounds, kept = self.history()
        at = layout.history_place(n_arms)
        width = 1 + layout.KEPT * n_arms
        table = new.R[at : at + rounds.size * width].reshape(rounds.size, width)
        table[:, 0] = rounds
        table[:, 1 : 1 + layout.KEPT * K] = kept.reshape(rounds.size, layout.KEPT * K)
        table[:, 1 + layout.KEPT * K :] = np.nan
        self._hold(new.R)

    # --- keeping -------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return the evidence as JSON values.

        What is fixed by the grid and what is excluded for good are left out.
        """
        K, points = self.n_arms, self.cells + 1
        stripped = self.R.copy()
        at = layout.history_place(K, layout.POINTS)
        stripped[at : at + 3 * points] = 0.0
        capitals = stripped[at + 3 * points :].reshape(K, 2, points)
        top = layout.ENDS + 2 * layout.TOP
        for arm in range(K):
            capitals[arm, :, : int(self.row(top)[arm])] = 0.0
            capitals[arm, :, int(self.row(top + 1)[arm]) + 1 :] = 0.0
        packed = compress(stripped.astype("<f8", copy=False).tobytes(), 1)
        return {"arms": K, "cells": self.cells, "sums": b64encode(packed).decode("ascii")}

    @classmethod
    def from_document(cls, document: dict[str, Any], n_arms: int | None = None) -> Self:
        """Return the evidence that `document` described, on ``n_arms`` arms if that is known.

        Raises
        ------
        ValueError
            If the numbers do not fit the arms and the grid.
        """
        K, cells = int(document["arms"]), int(document["cells"])
        if not (1 <= K and 1 <= cells <= FINE and n_arms in (None, K)):
            raise ValueError("sums and arms differ in number")
        size = 8 * layout.size(K, cells)
        packed = b64decode(document["sums"], validate=True)
        unpacking = decompressobj()
        try:
            # No more than fits: a few bytes may stand for gigabytes.
            raw = unpacking.decompress(packed, size + 1)
        except zlib_error as error:
            raise ValueError("sums that cannot be unpacked") from error
        if len(raw) != size or not unpacking.eof:
            raise ValueError("sums and arms differ in number")
        numbers = np.frombuffer(raw, "<f8")
        made = cls.__new__(cls)
        made._hold(numbers.astype(np.float64))
        if (made.R[layout.ARMS], made.R[layout.GRID]) != (K, cells):
            raise ValueError("sums and arms differ in number")
        made._fill_tables()
        if not made.sound():
            raise ValueError("impossible sums")
        return made

    def sound(self) -> bool:
        """Return whether compiled code can continue from here: indices must be in range."""
        R, cells = self.R, float(self.cells)
        used = R[layout.POINTS_USED]
        ends = np.array([self.row(layout.ENDS + n) for n in range(2 * len(layout.LEVELS))])
        whole = (ends == np.floor(ends)) & (ends >= 0.0) & (ends <= cells)
        head = R[: layout.HEAD]
        sums = np.array([self.row(n) for n in range(layout.ROWS) if n != layout.LEAST])
        capitals = self.capitals()
        return bool(
            0 <= used <= layout.POINTS
            and used == np.floor(used)
            and whole.all()
            and (head >= 0.0).all()
            and np.isfinite(head).all()
            and R[layout.RATIO] > 1.0
            and (self.row(layout.LEAST) >= 0.0).all()
            and np.isfinite(sums).all()
            and (sums[layout.N] >= 0.0).all()
            and (sums[layout.S] >= 0.0).all()
            and (sums[layout.V] >= 0.0).all()
            and (capitals >= 0.0).all()
            and np.isfinite(capitals).all()
        )

    def copy(self) -> Self:
        """Return independent evidence of the same content."""
        made = type(self).__new__(type(self))
        made._hold(self.R.copy())
        return made


def _widened(values: Array, K: int, fill: float) -> Array:
    """Return values of arms known then, filled up for those that came later."""
    wide = np.full(K, fill)
    wide[: values.size] = values
    return wide


__all__ = ["CELLS", "FINE", "Evidence", "grid_of_means"]
