"""Account of told decisions: what a bandit keeps for `Bandit.report` and `Bandit.alarms`.

What a late answer needs of its decision, the probability, guess and bet of every arm then, is kept
with the pending decision: 4 K + 1 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bothworlds.bandit.alarms import Alarms
from bothworlds.bandit.decision import Lineup
from bothworlds.bandit.reading import listed, raw_bytes, record, text, whole
from bothworlds.evidence.evidence import Array, Evidence
from bothworlds.evidence.fused import noting_of, observe_late_all, telling_of
from bothworlds.lanes.direct import direct
from bothworlds.lanes.kernels import ROUND
from bothworlds.policies.alarm import listening_of
from bothworlds.policies.base import Policy

MANY = 512
"""Number of arms from which nothing is kept: a look at every arm would cost more than a round."""


class Batch:
    """Notes of decisions made in one go, of consecutive rounds."""

    __slots__ = ("first", "table")

    def __init__(self, first: int, table: Array) -> None:
        self.first = first
        self.table = table


class Account:
    """Evidence on the arms a bandit has or had, by index, and notes of pending decisions."""

    __slots__ = ("_one", "alarms", "evidence", "notes")

    def __init__(self, n_arms: int, wanted: bool) -> None:
        self.evidence = Evidence(n_arms) if wanted and n_arms < MANY else None
        self.alarms = None if self.evidence is None else Alarms(n_arms)
        self.notes: dict[int, Array | Batch] = {}
        self._one: Any = None

    def telling(self, policy: Policy, F: Array, lineup: Lineup) -> Callable[..., None]:
        """Return what learns from the last decision and adds it to the evidence."""
        kernels = policy.for_arms(len(lineup.names)).kernels()
        self._one = None
        evidence = self.evidence
        tell: Callable[..., None] = direct(kernels.tell, F, 0, 0.0, 0.0)
        if evidence is None:
            return policy.guard_learning(tell)
        if not policy.trusted or not _every_arm(lineup, evidence):
            return partial(self._tell_some, policy.guard_learning(tell), lineup)
        fused = telling_of(kernels.tell, kernels.weights if policy.knows_probability else None)
        assert self.alarms is not None
        heard = listening_of(fused)
        addresses = self.alarms.A.ctypes.data, evidence.R.ctypes.data
        return partial(direct(heard, *addresses, F, 0, 0.0, 0.0), *addresses)

    def _tell_some(
        self, tell: Any, lineup: Lineup, F: Array, slot: int, inverse_p: float, loss: float
    ) -> None:
        """Do the same where arms were retired, or where a user's function may refuse to learn."""
        assert self.evidence is not None
        w, decided = self._weights(lineup, F), int(F[ROUND])
        tell(F, slot, inverse_p, loss)
        self.evidence.add(lineup.indices[slot], inverse_p, loss, decided, w)
        self._listen(lineup.indices[slot], loss, decided)

    def _listen(self, index: int, loss: float, number: int) -> None:
        """Add a loss to those in which a change is looked for."""
        assert self.alarms is not None
        self.alarms.hear(index, loss, number)

    def _weights(self, lineup: Lineup, F: Array) -> Array | None:
        """Return the probabilities by index of the draw just made; NaN where an arm was away."""
        assert self.evidence is not None
        if lineup.weights is None:
            return None
        w, out = np.empty(len(lineup.names)), np.full(self.evidence.n_arms, np.nan)
        lineup.weights(F, w)
        out[lineup.index_array] = w
        return out

    # --- decisions that wait -------------------------------------------------------------------

    def note(self, number: int, lineup: Lineup, F: Array) -> None:
        """Keep what the decision just drawn will need when it is told late."""
        evidence = self.evidence
        if evidence is None or lineup.weights is None:
            return
        self.notes[number] = self.noted(lineup, F)

    def noted(self, lineup: Lineup, F: Array) -> Array:
        """Return what `note` keeps."""
        evidence = self.evidence
        assert evidence is not None
        if not _every_arm(lineup, evidence):
            w = self._weights(lineup, F)
            assert w is not None
            return np.concatenate([w, evidence.note()])
        out = np.empty(4 * evidence.n_arms + 1)
        if self._one is None:
            self._one = direct(noting_of(lineup.weights)[0], evidence.R, F, out)
        self._one(evidence.R, F, out)
        return out

    def note_many(self, first: int, lineup: Lineup, snapshots: Array) -> None:
        """Keep the same of decisions of consecutive rounds, drawn from these states."""
        evidence = self.evidence
        if evidence is None or lineup.weights is None:
            return
        n = snapshots.shape[0]
        if not _every_arm(lineup, evidence):
            for place in range(n):
                self.note(first + place, lineup, snapshots[place])
            return
        table = np.empty((n, 4 * evidence.n_arms + 1))
        noting_of(lineup.weights)[1](evidence.R, snapshots, table)
        self.notes.update(dict.fromkeys(range(first, first + n), Batch(first, table)))

    def _taken(self, number: int) -> Array | None:
        note = self.notes.pop(number, None)
        return note.table[number - note.first] if isinstance(note, Batch) else note

    def late(self, number: int, index: int, inverse_p: float, loss: float) -> None:
        """Add a decision of the past."""
        evidence = self.evidence
        if evidence is None:
            return
        self._listen(index, loss, number)
        note = self._taken(number)
        if note is None:
            evidence.add(index, inverse_p, loss, number)
            return
        known = (note.size - 1) // 4
        evidence.add(index, inverse_p, loss, number, note[:known], note[known:])

    def late_many(
        self, numbers: Sequence[int], indices: NDArray[np.intp], inverse_p: Array, losses: Array
    ) -> None:
        """Add decisions of the past, in this order."""
        evidence = self.evidence
        if evidence is None:
            return
        first = self.notes.get(numbers[0])
        width = 4 * evidence.n_arms + 1
        if (
            type(numbers) is range
            and type(first) is Batch
            and first.table.shape == (len(numbers), width)
            and first.first == numbers[0]
        ):
            for number in numbers:
                del self.notes[number]
            table = first.table
        else:
            found = [self.notes.get(number) for number in numbers]
            if not all(_wide(note, width) for note in found):
                for number, index, inverse, loss in zip(
                    numbers, indices.tolist(), inverse_p.tolist(), losses.tolist(), strict=True
                ):
                    self.late(number, index, inverse, loss)
                return
            table = np.array([self._taken(number) for number in numbers])
        rounds = np.array(numbers, np.int64)
        assert self.alarms is not None
        self.alarms.hear_all(indices, losses, rounds)
        observe_late_all(
            evidence.R, indices.astype(np.int64), np.ascontiguousarray(inverse_p), losses, rounds,
            table,
        )  # fmt: skip

    def forget(self, number: int) -> None:
        """Drop the notes of a decision that will not be told."""
        self.notes.pop(number, None)

    def grow(self, n_arms: int) -> None:
        """Make room for arms that came."""
        if n_arms >= MANY:
            self.evidence = self.alarms = None
            self.notes.clear()
        elif self.evidence is not None and self.evidence.n_arms < n_arms:
            self.evidence.grow(n_arms)
            assert self.alarms is not None
            self.alarms = self.alarms.grown(n_arms)

    # --- keeping -------------------------------------------------------------------------------

    def document(self, fresh: dict[int, Array]) -> dict[str, Any] | None:
        """Return the account as JSON values; ``fresh`` holds the notes of the last decision."""
        if self.evidence is None:
            return None
        notes: dict[int, Array] = {}
        for number, note in self.notes.items():
            notes[number] = note.table[number - note.first] if isinstance(note, Batch) else note
        assert self.alarms is not None
        return {
            **self.evidence.document(),
            "alarms": self.alarms.document(),
            "notes": [
                {"round": number, "numbers": text(note.astype("<f8").tobytes())}
                for number, note in {**notes, **fresh}.items()
            ],
        }

    @classmethod
    def from_document(cls, value: Any, n_arms: int, pending: set[int], wanted: bool) -> Self:
        """Return the account that `document` described; a fresh one where it is ``wanted``."""
        made = cls(n_arms, wanted)
        if value is None or n_arms >= MANY:
            return made
        document = record(value, "evidence")
        made.evidence = Evidence.from_document(document)
        if made.evidence.n_arms != n_arms:
            raise ValueError("evidence on another number of arms")
        # Files of old have no alarms; the losses to come are listened to.
        found = document.get("alarms")
        made.alarms = Alarms(n_arms) if found is None else Alarms.from_document(found, n_arms)
        for each in listed(document["notes"], "notes"):
            note = record(each, "notes")
            number = whole(note["round"], "round", 0, 2**53)
            numbers = np.frombuffer(raw_bytes(note["numbers"], "notes"), "<f8")
            known = (numbers.size - 1) // 4
            w, rest = numbers[:known], numbers[known:]
            fits = numbers.size == 4 * known + 1 and 1 <= known <= n_arms and number in pending
            if not fits or not _shares(w) or not _within(rest, known):
                raise ValueError("notes of another decision")
            made.notes[number] = numbers.copy()
        return made

    def copy(self) -> Self:
        """Return an independent account of the same content."""
        made = type(self).__new__(type(self))
        made.evidence = None if self.evidence is None else self.evidence.copy()
        made.alarms = None if self.alarms is None else self.alarms.copy()
        made.notes = self.notes.copy()
        made._one = None
        return made


def _every_arm(lineup: Lineup, evidence: Evidence) -> bool:
    """Tell whether a lineup has every arm that ever was, in the order of the indices."""
    K = evidence.n_arms
    return len(lineup.indices) == K and lineup.indices == tuple(range(K))


def _wide(note: Array | Batch | None, width: int) -> bool:
    if isinstance(note, Batch):
        return bool(note.table.shape[1] == width)
    return isinstance(note, np.ndarray) and note.size == width


def _shares(w: Array) -> bool:
    known = w[~np.isnan(w)]
    return bool(((known >= 0.0) & (known <= 1.0)).all())


def _within(numbers: Array, known: int) -> bool:
    """Tell whether guesses are in [0, 1] and bets in (0, 1)."""
    guesses, bets = numbers[:known], numbers[known:]
    return bool(((guesses >= 0) & (guesses <= 1)).all() and ((bets > 0) & (bets < 1)).all())
