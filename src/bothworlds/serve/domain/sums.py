"""State of an experiment: sums of contributions, and counts, by arm.

A replica has a `Sums` of its own, which only it writes; the state of an experiment is the sum over
the replicas'.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from bothworlds.serve.domain import records
from bothworlds.serve.domain.draws import Units, add_records, grown

if TYPE_CHECKING:
    from bothworlds.serve.store.rows import FeedbackRow


def as_bytes(values: Units) -> bytes:
    """Return whole numbers as the store keeps them.

    Examples
    --------
    >>> from_bytes(as_bytes(np.array([1, -2]))).tolist()
    [1, -2]
    """
    return values.astype("<i8").tobytes()


def from_bytes(raw: bytes) -> Units:
    """Return the numbers that `as_bytes` wrote."""
    return np.frombuffer(raw, "<i8").astype(np.int64)


def _zeros(n: int) -> Units:
    return np.zeros(n, np.int64)


def _longer(values: Units, n: int) -> Units:
    more = n - values.size
    return values if more <= 0 else np.concatenate([values, _zeros(more)])


@dataclass(eq=False)
class Sums:
    """What feedback has contributed.

    Parameters
    ----------
    sums : array of int
        By arm, in units, and then ``later``; see `bothworlds.serve.domain.draws`.
    told, lost : array of int
        Feedback by arm, and its losses in units.
    learned : int
        How many feedbacks were learned from.
    newest : int
        The latest round of any of them.
    """

    sums: Units
    told: Units
    lost: Units
    learned: int = 0
    newest: int = 0

    @classmethod
    def blank(cls, n_arms: int) -> Sums:
        """Return the sums over nothing."""
        return cls(_zeros(n_arms + 1), _zeros(n_arms), _zeros(n_arms))

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self.told.size

    def grown(self, n_arms: int) -> Sums:
        """Return a copy for at least so many arms."""
        n = max(n_arms, self.n_arms)
        return Sums(
            grown(self.sums, n).copy(),
            _longer(self.told, n).copy(),
            _longer(self.lost, n).copy(),
            self.learned,
            self.newest,
        )

    def learn(self, raws: Sequence[bytes], losses: Sequence[float], newest: int) -> None:
        """Add what decisions contribute, the latest of them of round ``newest``."""
        add_records(raws, losses, self.sums, self.told, self.lost)
        self.learned += len(raws)
        self.newest = max(self.newest, newest)

    def plus(self, other: Sums) -> Sums:
        """Return the sum of the two."""
        n = max(self.n_arms, other.n_arms)
        mine, theirs = self.grown(n), other.grown(n)
        return Sums(
            mine.sums + theirs.sums,
            mine.told + theirs.told,
            mine.lost + theirs.lost,
            mine.learned + theirs.learned,
            max(mine.newest, theirs.newest),
        )

    def same(self, other: Sums) -> bool:
        """Tell whether both hold the same integers, whichever has more arms."""
        n = max(self.n_arms, other.n_arms)
        mine, theirs = self.grown(n), other.grown(n)
        return (
            mine.learned == theirs.learned
            and bool((mine.sums == theirs.sums).all())
            and bool((mine.told == theirs.told).all())
            and bool((mine.lost == theirs.lost).all())
        )


@dataclass(eq=False)
class Counts:
    """How often a replica has decided.

    Parameters
    ----------
    by_arm : list of int
        Decisions by arm.
    rounds : int
        Decisions that advanced the round.
    """

    by_arm: list[int] = field(default_factory=list)
    rounds: int = 0

    def grow(self, n_arms: int) -> None:
        """Make room for so many arms."""
        self.by_arm += [0] * (n_arms - len(self.by_arm))

    def add(self, other: Counts, sign: int) -> None:
        """Add other counts to these, or take them away.

        Examples
        --------
        >>> counts = Counts([5], 5)
        >>> counts.add(Counts([1, 0], 1), -1)
        >>> counts
        Counts(by_arm=[4, 0], rounds=4)
        """
        self.grow(len(other.by_arm))
        for arm, count in enumerate(other.by_arm):
            self.by_arm[arm] += sign * count
        self.rounds += sign * other.rounds

    def plus(self, other: Counts) -> Counts:
        """Return the sum of the two.

        Examples
        --------
        >>> Counts([1, 2], 3).plus(Counts([5], 5))
        Counts(by_arm=[6, 2], rounds=8)
        """
        both = list(map(sum, zip_longest(self.by_arm, other.by_arm, fillvalue=0)))
        return Counts(both, self.rounds + other.rounds)


def compact(kept: dict[int, Sums], rows: Iterable[FeedbackRow]) -> dict[int, Sums]:
    """Return the sums of deleted feedback by epoch, with rows that are deleted now."""
    by_epoch: dict[int, list[FeedbackRow]] = {}
    for row in rows:
        if row.status == "learned":
            by_epoch.setdefault(row.epoch, []).append(row)
    found = {}
    for epoch, learned in by_epoch.items():
        found[epoch] = summed(learned, kept.get(epoch))
    return found


def summed(rows: Sequence[FeedbackRow], before: Sums | None = None) -> Sums:
    """Return the sums of what learned feedback of one experiment and epoch contributes."""
    known = max((records.known_and_round(row.record)[0] for row in rows), default=0)
    sums = (before or Sums.blank(0)).grown(known)
    if rows:
        sums.learn([row.record for row in rows], [row.loss for row in rows], 0)
    return sums
