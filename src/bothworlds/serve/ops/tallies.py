"""Tallies: sums of an experiment's log that are kept between reports.

A report reads only the decisions after its last checkpoint.  Evidence is added in the order of the
decisions, not of the answers: if clicks are reported at once and silence is closed later, the
answers so far are mostly clicks.  So an answer waits while an earlier decision is pending, which is
until its feedback comes or its time is over:

- Where missing feedback is filled in, the sweep closes every decision, and nothing else does.
- Where it is dropped, a decision closes at the end of the feedback window.  One that holds back
  `HELD` later decisions is skipped before that: its answer is added when it comes, and the
  report counts it.  At most `PASSED` of them are remembered; answers of older ones are left out.

The log itself is the memory of what waits: those decisions are read again by the next report.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bothworlds.evidence import update
from bothworlds.evidence.report import Report, Units
from bothworlds.evidence.sums import CELLS, FINE, Evidence
from bothworlds.inference.reports import FINE_ARMS
from bothworlds.inference.value import Value, ValueSums
from bothworlds.serve.domain import records
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import LogRow

HELD = 2**14
"""Decisions that a pending one can hold back where missing feedback is dropped."""
PASSED = 2**18
"""Pending decisions that were skipped and are remembered, by 16 bytes each."""
PAGE = 2000
"""Decisions that are read and counted at a time."""
MOST_BYTES = 2**26
"""Memory of the tallies that are kept between reports; one takes 64 KB an arm, up to 64 arms."""
CLIP = 20.0

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DecisionColumns:
    """Decisions that can be learned from, as columns, by id."""

    ids: list[bytes] = field(default_factory=list)
    arms: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    inverse_p: Floats = field(default_factory=lambda: np.zeros(0))
    losses: Floats = field(default_factory=lambda: np.zeros(0))
    """In [0, 1]; NaN where nothing was learned."""
    open: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Whether there is no feedback yet."""
    present: list[bytes | int] = field(default_factory=list)
    """The mask of the arms that could be drawn; or their number, where all known ones could."""
    advice: list[list[float | None]] = field(default_factory=list)
    """Advice of every expert for the arm; None where it was asleep, empty without experts."""

    @classmethod
    def read(cls, rows: Sequence[LogRow], epoch: int) -> Self:
        """Return the decisions of an epoch among rows of the log."""
        raw = b"".join([row.record[: records.END] for row in rows])
        head = np.frombuffer(raw, records.COLUMNS)
        learnable = records.mode_number(head["flags"]) < records.UNLEARNABLE_FROM
        chosen = np.flatnonzero((head["epoch"] == epoch) & learnable)
        head, rows = head[chosen], [rows[n] for n in chosen.tolist()]
        masked = (head["flags"] & records.PRESENT).tolist()
        known = head["known"].tolist()
        advised = (head["flags"] & records.NEAR == records.ADVISED).tolist()
        return cls(
            [row.id for row in rows],
            head["arm"].astype(np.int64),
            np.maximum(head["inverse_p"], 1.0),
            np.array([row.loss if row.status == "learned" else None for row in rows], float),
            np.array([row.status is None for row in rows], bool),
            [
                (records.decode(row.record).present or b"") if mask else count
                for row, mask, count in zip(rows, masked, known, strict=True)
            ],
            [
                records.decode(row.record).advice if given else []
                for row, given in zip(rows, advised, strict=True)
            ],
        )

    def __len__(self) -> int:
        return len(self.ids)

    def _columns(self) -> list[Any]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def _of(self, columns: Iterable[Any]) -> Self:
        return type(self)(*columns)

    def part(self, start: int, stop: int) -> Self:
        """Return some decisions in a row."""
        return self._of(column[start:stop] for column in self._columns())

    def plus(self, other: Self) -> Self:
        """Return these decisions and then others."""
        return self._of(
            mine + theirs if isinstance(mine, list) else np.concatenate([mine, theirs])
            for mine, theirs in zip(self._columns(), other._columns(), strict=True)
        )

    def where(self, chosen: NDArray[np.bool_]) -> Self:
        """Return the chosen decisions."""
        return self._of(
            [*compress(column, chosen)] if isinstance(column, list) else column[chosen]
            for column in self._columns()
        )

    def told(self) -> Self:
        """Return those from which something was learned."""
        return self.where(~np.isnan(self.losses))

    def drawable(self, n_arms: int) -> NDArray[np.bool_]:
        """Return which of this many arms could be drawn, a row per decision."""
        found = np.zeros((len(self), n_arms), bool)
        for n, present in enumerate(self.present):
            if isinstance(present, int):
                found[n, :present] = True
            else:
                bits = np.unpackbits(np.frombuffer(present, np.uint8))[:n_arms]
                found[n, : bits.size] = bits
        return found


class Summed(Protocol):
    """Sums of a tally."""

    @property
    def size(self) -> int:
        """How many bytes the sums take."""
        ...

    def add(self, rows: DecisionColumns, n_arms: int) -> None:
        """Add decisions in order; there are ``n_arms`` arms by now."""
        ...

    def copy(self) -> Self:
        """Return independent sums of the same content."""
        ...


class Means:
    """How good every arm is: evidence, and counts of decisions and answers."""

    def __init__(self) -> None:
        self.evidence: Evidence | None = None
        self.drawn = self.answered = np.zeros(0, np.int64)

    def add(self, rows: DecisionColumns, n_arms: int) -> None:
        """Add decisions in order; there are ``n_arms`` arms by now."""
        if self.evidence is None:
            self.evidence = Evidence(n_arms, FINE if n_arms <= FINE_ARMS else CELLS)
        elif self.evidence.n_arms < n_arms:
            self.evidence.grow(n_arms)
        told = rows.told()
        self.drawn = _counted(self.drawn, rows.arms, n_arms)
        self.answered = _counted(self.answered, told.arms, n_arms)
        count = len(told)
        rounds = np.arange(count) + (self.evidence.told + 1)
        known = np.full(count, update.OWN)
        self.evidence.add_rows(
            told.arms, told.inverse_p, told.losses, rounds, known, np.empty((count, 0))
        )

    def report(
        self, waiting: DecisionColumns, overtaken: int, names: Sequence[str],
        bounds: tuple[float, float], confidence: float, source: str, advised: bool = False,
    ) -> Report | None:  # fmt: skip
        """Return the report, None if there was no decision.

        Where experts advise, the arm depends on the context, and so does its mean: it moves.
        """
        K = len(names)
        behind = _counted(np.zeros(0, np.int64), waiting.told().arms, K)
        drawn = _counted(self.drawn, waiting.arms, K)
        if not drawn.any():
            return None
        self.add(DecisionColumns(), K)
        assert self.evidence is not None
        told = self.answered + behind
        return Report(
            self.evidence,
            names,
            list(zip(drawn.tolist(), told.tolist(), strict=True)),
            Units(bounds, rewards=False),
            confidence=confidence,
            drift=advised,
            floored=None,
            source=source,
            waiting=behind.tolist(),
            overtaken=overtaken,
            closing="One that gets no answer is closed at the end of the feedback window.",
        )

    def copy(self) -> Self:
        """Return independent sums of the same content."""
        made = copy(self)
        made.evidence = None if self.evidence is None else self.evidence.copy()
        return made

    @property
    def size(self) -> int:
        """How many bytes the sums take."""
        return 0 if self.evidence is None else self.evidence.R.nbytes


class Worth:
    """Sums of the estimators of a target's value.

    Parameters
    ----------
    arm : int or None
        The place of the arm that the target draws; None where it draws evenly.
    bounds : pair of float
        The smallest and largest possible loss.
    """

    def __init__(self, arm: int | None, bounds: tuple[float, float]) -> None:
        self._arm = arm
        self._bounds = bounds
        self._sums = ValueSums(CLIP, bounds)

    def add(self, rows: DecisionColumns, n_arms: int) -> None:
        """Add decisions in order; there are ``n_arms`` arms by now."""
        told = rows.told()
        drawable = told.drawable(n_arms)
        if self._arm is None:
            target = drawable / drawable.sum(axis=1, keepdims=True)
        else:
            could = drawable[:, self._arm]
            told = told.where(could)
            target = np.zeros((1, n_arms))
            target[0, self._arm] = 1.0
        if len(told):
            low, high = self._bounds
            values = low + told.losses * (high - low)
            self._sums.add(told.arms, told.inverse_p, values, told.losses, target)

    def value(self, confidence: float) -> Value | None:
        """Return the estimated value of the target; None if it could never be drawn."""
        if self._sums.n_arms == 0:
            return None
        return self._sums.value("dr", confidence, Units(self._bounds, rewards=False))

    def copy(self) -> Self:
        """Return independent sums of the same content."""
        made = copy(self)
        made._sums = self._sums.copy()
        return made

    @property
    def size(self) -> int:
        """How many bytes the sums take."""
        return self._sums.Z.nbytes


def _counted(before: Ints, arms: Ints, n_arms: int) -> Ints:
    """Return counts of arms, and of more decisions."""
    return np.pad(before, (0, n_arms - before.size)) + np.bincount(arms, minlength=n_arms)


@dataclass(frozen=True)
class Closing:
    """When a decision without feedback is closed."""

    upto: bytes
    """Ids up to this one are closed."""
    strict: bool
    """Whether nothing else closes a decision, because missing feedback is filled in."""


def frontier(ids: list[bytes], open: NDArray[np.bool_], upto: bytes, held: int) -> int:
    """Return how many decisions come before the first that others wait for.

    Parameters
    ----------
    ids : list of bytes
        The decisions, in order.
    open : array of bool
        Whether there is no feedback yet.
    upto : bytes
        Decisions up to this id are closed.
    held : int
        Decisions that a pending one can hold back.

    Examples
    --------
    >>> ids = [bytes([n]) for n in range(5)]
    >>> open = np.array([True, False, True, False, False])
    >>> [frontier(ids, open, upto, 5) for upto in (b"", bytes([0]), bytes([2]))]
    [0, 2, 5]
    >>> frontier(ids, open, b"", held=3)
    2
    """
    pending = np.flatnonzero(open)
    first = np.searchsorted(pending, max(bisect_right(ids, upto), len(ids) - held))
    return int(pending[first]) if first < pending.size else len(ids)


class Tally:
    """The sums of an experiment's epoch, up to a position in the log.

    Parameters
    ----------
    sums : Summed
        What is summed.
    experiment, epoch : int
        Whose log it is.
    """

    def __init__(self, sums: Summed, experiment: int, epoch: int) -> None:
        self.sums = sums
        self.overtaken = 0
        self._experiment = experiment
        self._epoch = epoch
        self._position = b""
        self._passed: list[bytes] = []
        self._quarantined = 0

    @property
    def size(self) -> int:
        """How many bytes it takes, nearly."""
        return self.sums.size + 64 * len(self._passed)

    def sound(self, reader: Reader, closing: Closing, n_arms: int) -> bool:
        """Add late answers of decisions that were skipped; tell whether the sums still hold.

        They do not if feedback that was in quarantine when it was read has been judged since.
        """
        with reader.snapshot():
            rows = reader.told(self._experiment, self._passed)
            held = reader.count_quarantined(self._experiment, self._position)
        late = DecisionColumns.read(rows, self._epoch)
        self._quarantined += sum(row.status == "quarantined" for row in rows)
        self.overtaken += len(late.told())
        self.sums.add(late, n_arms)
        known = set(late.ids)
        self._passed = [id for id in self._passed if id not in known and id > closing.upto]
        return held == self._quarantined

    def pages(
        self, reader: Reader, before: bytes, check: Callable[[], None]
    ) -> Iterator[list[LogRow]]:
        """Yield the log after the position, a page at a time; ``check`` may end it by raising."""
        after = self._position
        while True:
            check()
            page = reader.log(self._experiment, after, before, PAGE)
            if page:
                yield page
            if len(page) < PAGE:
                return
            after = page[-1].id

    def follow(
        self, pages: Iterator[list[LogRow]], closing: Closing, stable: bytes, n_arms: int
    ) -> tuple[Tally, DecisionColumns]:
        """Add new decisions; return the sums of now, and the decisions that wait.

        Decisions after ``stable`` are in the sums that are returned and not in the ones kept: the
        log may still get others between them.
        """
        waiting = DecisionColumns()
        quarantined: list[bytes] = []
        for rows in pages:
            quarantined += [row.id for row in rows if row.status == "quarantined"]
            waiting = waiting.plus(DecisionColumns.read(rows, self._epoch))
            ready = min(self._frontier(waiting, closing), bisect_right(waiting.ids, stable))
            waiting = self._take(waiting, ready, closing, n_arms)
            if not len(waiting):
                self._position = max(self._position, min(rows[-1].id, stable))
            if closing.strict and len(waiting) > HELD:
                break
        self._quarantined += bisect_right(quarantined, self._position)
        now = copy(self)
        now.sums = self.sums.copy()
        return now, now._take(waiting, now._frontier(waiting, closing), closing, n_arms)

    def _frontier(self, rows: DecisionColumns, closing: Closing) -> int:
        held = len(rows) if closing.strict else HELD
        return frontier(rows.ids, rows.open, closing.upto, held)

    def _take(
        self, rows: DecisionColumns, count: int, closing: Closing, n_arms: int
    ) -> DecisionColumns:
        """Add the first decisions, and return the rest."""
        if count == 0:
            return rows
        first = rows.part(0, count)
        self.sums.add(first, n_arms)
        self._position = first.ids[-1]
        over = [first.ids[n] for n in np.flatnonzero(first.open).tolist()]
        late = over[bisect_right(over, closing.upto) :]
        if late:
            self._passed = (self._passed + late)[-PASSED:]
        return rows.part(count, len(rows))


class Tallies:
    """The tallies that are kept, those asked for last; they take at most `MOST_BYTES`."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Tally] = {}

    def find(self, key: Hashable) -> Tally | None:
        """Return the cached value of a key."""
        return self._kept.get(key)

    def keep(self, key: Hashable, tally: Tally) -> None:
        """Keep a tally, and forget those that were not asked for longest."""
        self._kept.pop(key, None)
        self._kept[key] = tally
        while len(self._kept) > 1 and self._size() > MOST_BYTES:
            self._kept.pop(next(iter(self._kept)))

    def _size(self) -> int:
        return sum(tally.size for tally in self._kept.values())
