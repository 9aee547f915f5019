"""Pending decisions: the record that a bandit keeps of each until its feedback arrives.

Feedback is weighted with the probabilities at decision time, however late.  An estimator needs
little of them: the probability of the played arm, one bit per arm for the baseline, and the mean
of the baselines for arms that were not there.  No distribution and no state is kept, so a
thousand pending decisions over a thousand arms take a few hundred kilobytes.

`bothworlds.policies.late` writes and reads these notes; here they are kept.
`bothworlds.bandit.content` translates them to and from a state file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from time import time as now
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import whole
from bothworlds.bandit.decision import Lineup
from bothworlds.errors import DecisionClosed, invalid
from bothworlds.policies.base import Array
from bothworlds.policies.late import INVERSE_P
from bothworlds.policies.late import width as width

LONGEST_KEY = 1000
"""How many characters the key of a decision may have."""


class Pending:
    """A decision that waits for feedback; `pending` makes one."""

    __slots__ = ("evidence", "learn", "lineup", "notes", "slot", "time")

    slot: int
    """The place of the drawn arm in the lineup."""
    notes: bytes
    """The numbers that `bothworlds.policies.late` needs to learn from it."""
    lineup: Lineup
    """The arms it was drawn from."""
    time: float
    """Time of the decision, in seconds since 1970."""
    evidence: Array | None
    """The numbers that `bothworlds.bandit.evidence_keeper` needs to add it to the sums."""
    learn: bool
    """Whether the policy learns from it; not if it was drawn after a freeze."""

    @property
    def arm_index(self) -> int:
        """The place of the drawn arm among all arms the bandit ever had."""
        return self.lineup.indices[self.slot]

    @property
    def inverse_p(self) -> float:
        """1 / the probability of the drawn arm; 0 where it is unknown."""
        return float(np.frombuffer(self.notes, count=1, offset=8 * INVERSE_P)[0])


def pending(
    slot: int,
    notes: bytes,
    lineup: Lineup,
    time: float,
    evidence: Array | None = None,
    learn: bool = True,
) -> Pending:
    """Return a pending decision of these fields."""
    made = Pending()
    made.slot = slot
    made.notes = notes
    made.lineup = lineup
    made.time = time
    made.evidence = evidence
    made.learn = learn
    return made


class Batch(NamedTuple):
    """Pending decisions that were drawn in one go, in consecutive rounds."""

    first: int
    """Their first round."""
    slots: NDArray[np.int64]
    notes: Array
    """A row of notes for each."""
    lineup: Lineup
    time: float
    evidence: Array | None
    """A row of numbers for each."""

    def record(self, number: int) -> Pending:
        """Return the pending decision of a round."""
        place = number - self.first
        noted = None if self.evidence is None else self.evidence[place]
        raw = self.notes[place].tobytes()
        return pending(int(self.slots[place]), raw, self.lineup, self.time, noted)


class Ledger:
    """Pending decisions by round, in the order of the rounds."""

    __slots__ = ("records",)

    records: dict[int, Pending | Batch]

    def __init__(self) -> None:
        self.records = {}

    def __getitem__(self, number: int) -> Pending:
        found = self.records[number]
        return found.record(number) if type(found) is Batch else found  # type: ignore[return-value]

    def enter(self, numbers: range, batch: Batch) -> None:
        """Enter all decisions of a batch."""
        entered: dict[int, Pending | Batch] = dict.fromkeys(numbers, batch)
        if self.records:
            self.records.update(entered)
        else:
            self.records = entered

    def batch(self, numbers: Sequence[int]) -> Batch | None:
        """Return the batch whose decisions, all still pending, are those of these rounds."""
        found = self.records.get(numbers[0])
        if type(found) is not Batch or type(numbers) is not range:
            return None
        if numbers != range(found.first, found.first + len(found.slots)):
            return None
        if len(self.records) == len(numbers):
            # The rounds are in order, so as many of them in the range are all of the ledger.
            ends = next(iter(self.records)), next(reversed(self.records))
            return found if ends == (numbers[0], numbers[-1]) else None
        return found if all(map(self.records.__contains__, numbers)) else None

    def close(self, numbers: Sequence[int]) -> None:
        """Remove the decisions of these rounds."""
        if len(numbers) == len(self.records):
            self.records.clear()
        else:
            # A loop in C: a batch has thousands.
            deque(map(self.records.__delitem__, numbers), maxlen=0)

    def older(self, limit: int | timedelta, newest: int) -> list[int]:
        """Return the rounds beyond an age; ``newest`` is the last round, and 0 means all."""
        if isinstance(limit, timedelta):
            latest = now() - limit.total_seconds()
            return [number for number, kept in self.records.items() if kept.time <= latest]
        return [number for number in self.records if newest - number > limit or limit == 0]

    def copy(self) -> Self:
        """Return an independent ledger of the same decisions."""
        made = self.__new__(type(self))
        made.records = self.records.copy()
        return made


class Keys:
    """Keys that users gave to pending decisions."""

    __slots__ = ("decisions", "of")

    decisions: dict[str, Any]
    """The decisions by key."""
    of: dict[Any, str]
    """The keys by the decisions' ids."""

    def __init__(self) -> None:
        self.decisions = {}
        self.of = {}

    def add(self, key: str, id: int | str, decision: Any) -> None:
        """Remember a pending decision by its key."""
        self.decisions[key] = decision
        self.of[id] = key

    def close(self, id: int | str) -> None:
        """Forget the key of a decision that is closed, if it has one."""
        key = self.of.pop(id, None)
        if key is not None:
            del self.decisions[key]

    def copy(self) -> Self:
        """Return independent keys of the same decisions."""
        made = self.__new__(type(self))
        made.decisions, made.of = self.decisions.copy(), self.of.copy()
        return made


def checked_age(older_than: object, owner: str) -> int | timedelta:
    """Return the age at which decisions expire, in rounds or in time."""
    if isinstance(older_than, timedelta) and older_than >= timedelta(0):
        return older_than
    expected = "a whole number of rounds >= 0 or a timedelta that is not negative"
    return whole("older_than", older_than, owner, 0, expected)


def checked_key(key: object, owner: str) -> None:
    """Refuse a value that cannot be the key of a decision."""
    if not is_key(key):
        raise invalid("key", owner, f"a text of 1 to {LONGEST_KEY} characters", key)


def is_key(key: object) -> bool:
    """Return whether this can be the key of a decision."""
    return type(key) is str and 0 < len(key) <= LONGEST_KEY


def closed(parameter: str, owner: str, decided: int) -> DecisionClosed:
    """Return the error for feedback that comes once too often or too late.

    Examples
    --------
    >>> print(closed("decision", "Bandit.tell", 3))
    The decision of Bandit.tell must be pending, got 3, already answered or expired.
    """
    reason = "already answered or expired"
    return DecisionClosed(f"The {parameter} of {owner} must be pending, got {decided}, {reason}.")
