"""Sums: contributions of feedback to the state of an experiment, added up by arm.

`add_records` goes from the records of decisions and their losses to what is added to the whole
numbers of the state.  Whole numbers have one sum in any order of the terms, so the state is exactly
the sum over the log, on any replica.  A contribution is the estimator of
`bothworlds.omd.estimators`.

What a decision adds to an arm depends on the arm and the record alone, also for arms that came
later: an arm that could not be drawn gets the algorithm's own estimated loss.  The place behind
the last arm, ``later``, holds what an arm gets that does not exist yet.

Where experts advise, the estimates are theirs, and stand behind ``later``; those of the arms stay
0.

A replica has `Sums` of its own, which only it writes; the state of an experiment is the sum over
the replicas'.  The `StateLedger` has those of this replica.  A decision in a segment contributes
to the state of the experiment and, as long as the segment lives, to the segment's.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.errors import InvalidParameter, StoreError, must
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import bits_float
from bothworlds.omd.estimators import BASELINE, baseline, correction, estimated_loss
from bothworlds.serve.domain import records
from bothworlds.serve.domain.draws import PER_ONE, Units
from bothworlds.serve.domain.records import ADVISED, NEAR_ALL, NEAR_NONE, NEAR_SOME, PARTS
from bothworlds.serve.store.rows import FeedbackRow, Replica, from_bytes

if TYPE_CHECKING:
    from bothworlds.serve.domain.folds import Fold
ADVICE_SIZE = records.ADVICE.size

Place = tuple[int, int]
"""An experiment and an epoch."""
StateKey = tuple[int, int, bytes]
"""An experiment, an epoch and a segment: no bytes for all decisions, with and without one."""
Living = Set[tuple[int, bytes]]
"""Segments that have a state, by experiment and id."""

STATE = "sums, told, lost, decided, learned, rounds, newest, used_at"
"""Columns of the table ``state`` that hold a `StateRow`, but for its key and version."""


@jit
def units(x: float) -> Any:
    """Return a number in whole units, rounded half to even."""
    return np.int64(np.rint(x * PER_ONE))


@jit
def double_at(raw: Any, at: int) -> Any:
    """Return the little-endian double at a place of a buffer."""
    word = np.int64(0)
    for place in range(8):
        word |= np.int64(raw[at + place]) << (8 * place)
    return bits_float(word)


@jit
def bit(raw: Any, at: int, index: int) -> Any:
    """Return the bit of an arm in the mask at a place of a buffer."""
    return (raw[at + (index >> 3)] >> (7 - (index & 7))) & 1 != 0


@jit
def adding(raw: Any, ends: Any, losses: Any, sums: Any, told: Any, lost: Any) -> None:
    """Add the contributions of decisions, whose records stand in ``raw`` one after the other.

    ``ends`` are where the records end, ``sums`` is by arm, then ``later``, then by expert, ``told``
    counts the feedback of every arm, ``lost`` sums its losses, in units.
    """
    n = told.size
    begin = 0
    for row in range(ends.size):
        arm = int(raw[begin + records.ARM]) | int(raw[begin + records.ARM + 1]) << 8
        known = int(raw[begin + records.KNOWN]) | int(raw[begin + records.KNOWN + 1]) << 8
        inverse_p = double_at(raw, begin + records.INVERSE_P)
        flags = int(raw[begin + records.FLAGS])
        loss = losses[row]
        size = (known + 7) >> 3
        near_at = begin + records.END
        present_at = near_at
        mean = 0.0
        kind = flags & records.NEAR
        told[arm] += 1
        lost[arm] += units(loss)
        if kind == ADVISED:
            judge(raw, near_at, inverse_p, loss, sums[n + 1 :])
            begin = ends[row]
            continue
        if kind == NEAR_ALL:
            mean = BASELINE
        elif kind == NEAR_SOME:
            mean = double_at(raw, near_at)
            near_at += 8
            present_at = near_at + size
        some = flags & records.PRESENT != 0
        its_base = baseline(kind == NEAR_ALL or (kind == NEAR_SOME and bit(raw, near_at, arm)), 0.0)
        later = units(estimated_loss(loss, its_base, mean))
        for i in range(n):
            if i >= known or (some and not bit(raw, present_at, i)):
                sums[i] += later
            elif kind != NEAR_NONE:
                near = kind == NEAR_ALL or bit(raw, near_at, i)
                sums[i] += units(baseline(near, 0.0))
        sums[arm] += units(correction(loss, its_base, inverse_p))
        sums[n] += later
        begin = ends[row]


@jit
def judge(raw: Any, at: int, inverse_p: float, loss: float, sums: Any) -> None:
    """Add the contribution of a decision to every expert; its advice is in ``raw`` at a place."""
    count, base = int(raw[at]), baseline(raw[at + 1] != 0, 0.0)
    asleep = int(raw[at + 2]) | int(raw[at + 3]) << 8
    own = np.int64(0)
    first = at + ADVICE_SIZE
    if asleep != 0:
        # The algorithm's own estimate: an expert that is asleep neither gains nor loses by it.
        behind = first + 4 * count
        own = units(double_at(raw, behind + 8) + (loss - base) * double_at(raw, behind))
    for j in range(count):
        if asleep >> j & 1:
            sums[j] += own
            continue
        place = first + 4 * j
        given = int(raw[place]) | int(raw[place + 1]) << 8
        near = int(raw[place + 2]) | int(raw[place + 3]) << 8
        r, s = given / PARTS * inverse_p, BASELINE * near / PARTS
        sums[j] += units(s + (loss - base) * r)


@jit
def extent(raw: Any, ends: Any) -> Any:
    """Return how many arms and experts the decisions know of at most, and their latest round."""
    known, experts, newest, begin = np.int64(0), np.int64(0), np.int64(0), 0
    for row in range(ends.size):
        at = begin + records.KNOWN
        arms = np.int64(raw[at]) | np.int64(raw[at + 1]) << 8
        number = np.int64(0)
        for place in range(records.IDENTITY - 1, records.KNOWN + 1, -1):
            number = number << 8 | np.int64(raw[begin + place])
        known, newest = max(known, arms), max(newest, number)
        if raw[begin + records.FLAGS] & records.NEAR == ADVISED:
            experts = max(experts, np.int64(raw[begin + records.END]))
        begin = ends[row]
    return known, experts, newest


def _joined(raws: Sequence[bytes]) -> tuple[NDArray[np.uint8], Units]:
    """Return records one after the other, and where each ends."""
    ends = np.array([*accumulate(map(len, raws))], np.int64)
    return np.frombuffer(bytearray(b"").join(raws), np.uint8), ends


def add_records(
    raws: Sequence[bytes], losses: Sequence[float], sums: Units, told: Units, lost: Units
) -> None:
    """Add the contributions of decisions, given their records and losses in [0, 1].

    Parameters
    ----------
    raws : sequence of bytes
        Records of decisions of one experiment and epoch, among at most as many arms as ``told``
        has. They must have come out of `records.encode`: nothing is checked here.
    losses : sequence of float
        Their outcomes.
    sums : array of int
        By arm, one more for ``later``, then by expert; changed.
    told, lost : array of int
        Feedback by arm, and its losses in units; changed.

    Examples
    --------
    >>> raw = records.encode(1, 7, 0, 2, 4, 1, bytes(16), 4.0, NEAR_NONE)
    >>> sums, told, lost = np.zeros(5, np.int64), np.zeros(4, np.int64), np.zeros(4, np.int64)
    >>> add_records([raw], [0.5], sums, told, lost)
    >>> (sums * 2.0**-30).tolist(), told.tolist()
    ([0.0, 0.0, 2.0, 0.0, 0.5], [0, 0, 1, 0])
    """
    adding(*_joined(raws), np.asarray(losses, np.float64), sums, told, lost)


def prepare() -> None:
    """Compile or load the code of `Sums.learned_from`, before the first request needs it."""
    raw = records.encode(0, 0, 0, 0, 2, 1, bytes(16), 2.0, NEAR_NONE)
    Sums.blank(0).learned_from([raw], [0.0])


def contribution(record: bytes, loss: float, n_arms: int) -> Units:
    """Return the contribution of a decision to the arms, or experts, in units of 2^-30.

    Parameters
    ----------
    record : bytes
        The record of the decision, as `records.encode` made it.
    loss : float
        The outcome, in [0, 1].
    n_arms : int
        How many arms the experiment has by now.

    Examples
    --------
    >>> raw = records.encode(1, 7, 0, 2, 4, 1, bytes(16), 4.0, NEAR_NONE)
    >>> (contribution(raw, 0.5, 4) * 2.0**-30).tolist()
    [0.0, 0.0, 2.0, 0.0]
    """
    given = records.decode(record)
    if not 0.0 <= loss <= 1.0:
        raise InvalidParameter(must("loss", "serve.contribution", "a number in [0, 1]", loss))
    if not given.known <= n_arms <= records.MOST_ARMS:
        expected = f"from {given.known} to {records.MOST_ARMS}"
        raise InvalidParameter(must("n_arms", "serve.contribution", expected, n_arms))
    found = Sums.blank(n_arms).learned_from([record], [loss])
    return found.experts if given.experts else found.sums[:n_arms]


def grown(sums: Units, n_arms: int) -> Units:
    """Return sums by arm, and ``later``, for an experiment that has more arms by now.

    Examples
    --------
    >>> grown(np.array([5, 6, 7]), 4)
    array([5, 6, 7, 7, 7])
    """
    more = n_arms + 1 - sums.size
    return sums if more <= 0 else np.concatenate([sums, np.full(more, sums[-1], np.int64)])


def _zeros(n: int) -> Units:
    return np.zeros(n, np.int64)


def _longer(values: Units, n: int) -> Units:
    more = n - values.size
    return values if more <= 0 else np.concatenate([values, _zeros(more)])


@dataclass(eq=False)
class Sums:
    """Contributions of feedback.

    Parameters
    ----------
    sums : array of int
        By arm, in units, then ``later``, then by expert; see `bothworlds.serve.domain.draws`.
    told, lost : array of int
        Feedback by arm, and its losses in units.
    learned : int
        Number of answers that were learned from.
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

    @property
    def experts(self) -> Units:
        """The sums by expert."""
        return self.sums[self.n_arms + 1 :]

    def grown(self, n_arms: int, n_experts: int = 0) -> Sums:
        """Return a copy for at least this many arms and experts."""
        n, sums, told, lost = max(n_arms, self.n_arms), self.sums, self.told, self.lost
        # Most commits meet arms that are known, and joining arrays costs more than copying them.
        if n > self.n_arms or n_experts > self.experts.size:
            arms = grown(sums[: self.n_arms + 1], n)
            sums = np.concatenate([arms, _longer(self.experts, n_experts)])
            told, lost = _longer(told, n), _longer(lost, n)
        return Sums(sums.copy(), told.copy(), lost.copy(), self.learned, self.newest)

    def learned_from(self, raws: Sequence[bytes], losses: Sequence[float]) -> Sums:
        """Return these sums with the contributions of some decisions, given records and losses.

        Examples
        --------
        >>> raw = records.encode(1, 7, 0, 2, 4, 2**39 + 41, bytes(16), 4.0, NEAR_NONE)
        >>> found = Sums.blank(0).learned_from([raw], [0.5])
        >>> (found.sums * 2.0**-30).tolist(), found.learned, found.newest
        ([0.0, 0.0, 2.0, 0.0, 0.5], 1, 549755813929)
        """
        joined, ends = _joined(raws)
        known, experts, newest = extent(joined, ends)
        found = self.grown(known, experts)
        adding(joined, ends, np.asarray(losses, np.float64), found.sums, found.told, found.lost)
        found.learned += len(raws)
        found.newest = max(found.newest, newest)
        return found

    def plus(self, other: Sums) -> Sums:
        """Return the sum of the two."""
        mine, theirs = self._alike(other)
        return Sums(
            mine.sums + theirs.sums,
            mine.told + theirs.told,
            mine.lost + theirs.lost,
            mine.learned + theirs.learned,
            max(mine.newest, theirs.newest),
        )

    def _alike(self, other: Sums) -> tuple[Sums, Sums]:
        """Return both for the same arms and experts."""
        if self.told.size == other.told.size and self.sums.size == other.sums.size:
            return self, other
        n, experts = max(self.n_arms, other.n_arms), max(self.experts.size, other.experts.size)
        return self.grown(n, experts), other.grown(n, experts)

    def same(self, other: Sums) -> bool:
        """Tell whether both hold the same integers, whichever has more arms."""
        mine, theirs = self._alike(other)
        return (
            mine.learned == theirs.learned
            and bool((mine.sums == theirs.sums).all())
            and bool((mine.told == theirs.told).all())
            and bool((mine.lost == theirs.lost).all())
        )


@dataclass(eq=False, slots=True)
class Counts:
    """How often a replica has decided.

    Parameters
    ----------
    by_arm : array of int
        Decisions by arm.
    rounds : int
        Decisions that advanced the round.
    """

    by_arm: array[int] = field(default_factory=partial(array, "q"))
    rounds: int = 0

    def grow(self, n_arms: int) -> None:
        """Make room for this many arms."""
        self.by_arm.extend([0] * (n_arms - len(self.by_arm)))

    def add(self, other: Counts, sign: int) -> None:
        """Add other counts to these, or take them away.

        Examples
        --------
        >>> counts = Counts(array("q", [5]), 5)
        >>> counts.add(Counts(array("q", [1, 0]), 1), -1)
        >>> counts
        Counts(by_arm=array('q', [4, 0]), rounds=4)
        """
        self.grow(len(other.by_arm))
        for arm, count in enumerate(other.by_arm):
            self.by_arm[arm] += sign * count
        self.rounds += sign * other.rounds

    def plus(self, other: Counts) -> Counts:
        """Return the sum of the two.

        Examples
        --------
        >>> Counts(array("q", [1, 2]), 3).plus(Counts(array("q", [5]), 5))
        Counts(by_arm=array('q', [6, 2]), rounds=8)
        """
        both = map(sum, zip_longest(self.by_arm, other.by_arm, fillvalue=0))
        return Counts(array("q", both), self.rounds + other.rounds)


@dataclass(eq=False, slots=True)
class StateRow:
    """A replica's own state of an experiment and epoch, or of a segment of them."""

    experiment: int
    epoch: int
    segment: bytes
    shard: int
    version: int
    sums: Sums
    decided: Counts
    used_at: float = 0.0
    """Time of the latest decision or feedback; kept for segments alone."""
    counted: bool = False
    """Whether it differs from the stored row in its counts alone."""
    key: StateKey = field(init=False)
    """Key of the state: experiment, epoch and segment."""

    @classmethod
    def read(cls, row: tuple[Any, ...]) -> StateRow:
        """Return a row of the table ``state``: its key, version and `STATE`."""
        experiment, epoch, segment, shard, version = row[:5]
        sums, told, lost, decided, learned, rounds, newest, used_at = row[5:]
        found = Sums(from_bytes(sums), from_bytes(told), from_bytes(lost), learned, newest)
        counts = Counts(array("q", from_bytes(decided).tolist()), rounds)
        return cls(experiment, epoch, segment, shard, version, found, counts, used_at)

    def __post_init__(self) -> None:
        self.key = self.experiment, self.epoch, self.segment


class StateLedger:
    """States of this replica, by experiment, epoch and segment; they belong to the writing thread.

    Parameters
    ----------
    replica : Replica
        Whose states they are.
    counts : dict
        Decisions by experiment, epoch and segment, which the event loop counts.

    Attributes
    ----------
    states : dict
        This replica's states by experiment, epoch and segment.
    folds : dict
        Folds by experiment and epoch as this replica last wrote or read them, for all replicas.
    life : int
        How often the store went back in time.
    """

    def __init__(self, replica: Replica, counts: dict[StateKey, Counts]) -> None:
        self.replica = replica
        self.counts = counts
        self.shard = replica.shard
        self.states: dict[StateKey, StateRow] = {}
        self.folds: dict[Place, Fold] = {}
        self.life = 0

    def load(self, rows: list[StateRow]) -> list[StateRow]:
        """Take the states that were read from the store, and return them."""
        self.shard = self.replica.shard
        self.states = {row.key: row for row in rows}
        return rows

    def settle(
        self,
        feedback: Iterable[FeedbackRow],
        living: Living = frozenset(),
        decided: Mapping[StateKey, float] = MappingProxyType({}),
        life: int | None = None,
    ) -> list[StateRow]:
        """Return the states that change with this feedback, and with decisions.

        ``decided`` has the keys of the decisions, with the time of the latest in a segment. A
        segment that is not among the ``living`` has no state: its feedback is the experiment's.
        A batch of another ``life`` has waited for a new connection while the store went back.
        """
        if life not in (None, self.life):
            raise StoreError("The store was restored to an earlier state.")
        if self.shard != self.replica.shard:
            # The new number may have a state of the same version, which these would overwrite.
            raise StoreError("The states belong to another replica number.")
        learned: dict[StateKey, list[FeedbackRow]] = {
            key: [] for key in decided if not key[2] or key[::2] in living
        }
        for key, rows in by_key(feedback, living).items():
            learned.setdefault(key, []).extend(rows)
        return [self._changed(key, rows, decided.get(key, 0.0)) for key, rows in learned.items()]

    def _changed(self, key: StateKey, rows: list[FeedbackRow], used_at: float) -> StateRow:
        now = self.states.get(key)
        sums = now.sums if now else Sums.blank(0)
        raws = [row.record for row in rows]
        if raws:
            sums = sums.learned_from(raws, [row.loss for row in rows])
        counted = self.counts.get(key)
        if counted is not None:
            counted = Counts(counted.by_arm[:], counted.rounds)
        else:
            counted = now.decided if now else Counts()
        if key[2]:
            used_at = max([used_at, now.used_at if now else 0.0, *(row.told_at for row in rows)])
        return StateRow(
            *key, self.replica.shard, now.version if now else 0, sums, counted, used_at,
            counted=now is not None and not raws,
        )  # fmt: skip


def by_key(rows: Iterable[FeedbackRow], living: Living) -> dict[StateKey, list[FeedbackRow]]:
    """Return learned feedback by the states that it contributes to."""
    found: dict[StateKey, list[FeedbackRow]] = {}
    for row in rows:
        if row.status == "learned":
            found.setdefault((row.experiment, row.epoch, b""), []).append(row)
            segment = records.segment_of(row.record) if living else b""
            if segment and (row.experiment, segment) in living:
                found.setdefault((row.experiment, row.epoch, segment), []).append(row)
    return found


def compact(
    kept: dict[StateKey, Sums], rows: Iterable[FeedbackRow], living: Living
) -> dict[StateKey, Sums]:
    """Return the sums of deleted feedback, by state, with rows that are deleted now."""
    return {key: summed(learned, kept.get(key)) for key, learned in by_key(rows, living).items()}


def summed(rows: Sequence[FeedbackRow], before: Sums | None = None) -> Sums:
    """Return the sums of the contributions of learned feedback to one state."""
    return (before or Sums.blank(0)).learned_from(
        [row.record for row in rows], [row.loss for row in rows]
    )
