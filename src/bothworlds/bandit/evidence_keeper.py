"""Keeper of evidence: the sums of all feedback for `Bandit.report` and `Bandit.alarms`.

Evidence is added in the order of the decisions, not of the answers.  If clicks are reported at once
and silence is closed later, the answers so far are mostly clicks, and sums of them are wrong.  So
an answer waits here while an earlier decision is pending.  The weighted sums of every arm use every
decision, therefore the order is that of all decisions and not of each arm by itself.

The function that learns and adds to the sums takes two seconds to compile, and a short program
never asks for a report.  Until it is compiled, decisions wait in a queue, each with the state it
was drawn from.  It is compiled when the sums are read, or when the queue takes as much memory as
the sums.

Late feedback needs the probability, guess and bet of every arm at decision time: 4 K + 1 numbers,
kept with the pending decision and then with the answer that waits.  Waiting answers take at most
`MOST_NUMBERS` numbers.  Beyond that the oldest pending decisions are skipped: evidence continues
without them, their answers are added when they come, and the report counts them (`overtaken`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import flag
from bothworlds.bandit.alarms import Alarms
from bothworlds.bandit.decision import Lineup
from bothworlds.bandit.state_file import (
    LARGEST_WHOLE,
    listed,
    number,
    raw_bytes,
    record,
    text,
    whole,
)
from bothworlds.errors import invalid
from bothworlds.evidence.fused import (
    FILL_AT,
    adding_of,
    noting_of,
    observe_late_all,
    observe_noted,
)
from bothworlds.evidence.sums import Array, Evidence
from bothworlds.lanes.direct import address, at_hand, compiled_before, direct, placed
from bothworlds.lanes.jit import placed_code, placed_twin
from bothworlds.lanes.kernels import ROUND
from bothworlds.lanes.wrap import telling_code, telling_place
from bothworlds.policies.alarm import BANDIT, EVIDENCE, FILL, TELL, listening_late_of, listening_of
from bothworlds.policies.base import LARGEST, Kernels, Policy

MANY_ARMS = 512
"""Number of arms from which nothing is kept: a look at every arm would cost more than a round."""


TELLING = (0.0, 0, 0.0, 0.0)
"""Arguments of the types that the compiled function behind `tell` takes."""


MOST_NUMBERS = 2**20
"""How many numbers waiting answers may hold, 8 MB: 31,775 answers with 8 arms, 4,080 with 64."""


DEFAULT_ARMS = 64
"""Number of arms up to which sums are kept by default."""


def keeps_sums(policy: Policy, n_arms: int, wished: bool | None, limited: bool) -> bool:
    """Return whether a bandit keeps sums: as ``wished``, or by default; ``limited`` by bounds.

    By default not for a user's own policy: each of its rounds would take several times as long.
    """
    if wished is None:
        return limited and (
            policy.traits.floored or (policy.traits.trusted and n_arms <= DEFAULT_ARMS)
        )
    if flag("evidence", wished, "Bandit") and not limited:
        expected = "False without bounds, on which every interval rests"
        raise invalid("evidence", "Bandit", expected, wished)
    return bool(wished)


Waiting = tuple[int, int, float, float, Array | None]
"""An answer that waits: round, index of the arm, 1 / probability, loss and notes."""


class EvidenceKeeper:
    """Evidence on the arms a bandit has or had, by index."""

    __slots__ = (
        "_alarms", "_evidence", "_fill", "_fused", "_heard", "_kernels", "_late", "_lineup", "_one",
        "_place", "_queue", "frontier", "overtaken", "waiting",
    )  # fmt: skip

    frontier: int
    """The first round whose evidence is not added yet, while decisions are pending; else 0."""
    overtaken: int
    """How many answers were added after those of later decisions."""
    waiting: list[Waiting]
    """Answers behind the frontier, a heap by round."""

    def __init__(self, n_arms: int, wanted: bool) -> None:
        self._evidence = Evidence(n_arms) if wanted and n_arms < MANY_ARMS else None
        self._alarms = None if self._evidence is None else Alarms(n_arms)
        # That of the bandit, if it has every arm that ever was.
        self._lineup: Lineup | None = None
        # Compiled for these kernels, when first needed.
        self._kernels: Any = None
        self._heard: Any = None
        self._fill: Any = None
        self._fused: Any = None
        self._late: Any = None
        self._one: Any = None
        # Where the alarms are, which know where the rest is.
        self._place = 0
        self.frontier = self.overtaken = 0
        self.waiting = []
        # Decisions whose evidence waits for its code: state, slot, 1 / probability and loss.
        self._queue: list[tuple[bytes, int, float, float]] = []
        self._locate()

    def _locate(self) -> None:
        """Write down where the alarms and the evidence are."""
        if self._evidence is not None and self._alarms is not None:
            self._place = address(self._alarms.A)
            self._alarms.A[EVIDENCE] = self._evidence.address
            if self._fused is not None:
                fill = self._fill
                self._alarms.A[FILL] = 0 if fill is None else placed_code(fill, FILL_AT)[0]
                self._alarms.A[TELL] = telling_place(self._kernels.tell)
            self._late = None

    @property
    def keeps(self) -> bool:
        """Whether sums are kept."""
        return self._evidence is not None

    @property
    def evidence(self) -> Evidence | None:
        """The sums, with every decision learned from; None where none are kept."""
        if self._queue:
            self._empty_queue()
        return self._evidence

    @property
    def alarms(self) -> Alarms | None:
        """The alarms, likewise."""
        if self._queue:
            self._empty_queue()
        return self._alarms

    def queued(self, F: Array, slot: int, inverse_p: float, loss: float) -> bool:
        """Let a decision's evidence wait for its code; return False once that is compiled."""
        assert self._evidence is not None
        if self._fused is None and len(self._queue) * F.size < self._evidence.R.size:
            self._queue.append((F.tobytes(), slot, inverse_p, loss))
            return True
        self._empty_queue()
        return False

    def _empty_queue(self) -> None:
        """Add the decisions in the queue, in their order."""
        assert self._alarms is not None
        if self._fused is None:
            self._fused = direct(self._heard, *TELLING)
            self._locate()
        A, add = self._alarms.A, placed(self._fused, self._place)
        queue, self._queue = self._queue, []
        bandit = A[BANDIT]
        for state, slot, inverse_p, loss in queue:
            # The same call as ever, on a copy: what it learns is learned already.
            F = np.frombuffer(bytearray(state))
            A[BANDIT] = address(F)
            add(slot, inverse_p, loss)
        A[BANDIT] = bandit

    def telling(
        self, policy: Policy, kernels: Kernels, F: Array, where: int, lineup: Lineup
    ) -> Callable[..., None] | None:
        """Return the function that learns from the last decision of ``F``, with evidence.

        It takes the slot of the arm, 1 / its probability and the loss; ``where`` is the address
        of ``F``. None where it would have to be compiled: then `queued` takes decisions.
        """
        evidence = self._evidence
        whole = evidence is not None and _every_arm(lineup, evidence)
        self._lineup = lineup if whole else None
        if kernels is not self._kernels:
            if self._queue:
                self._empty_queue()
            self._kernels, self._heard, self._fused, self._one = kernels, None, None, None
        if evidence is not None and policy.traits.trusted and whole:
            if self._heard is None:
                weights = kernels.weights if policy.traits.knows_probability else None
                add, self._fill = adding_of(weights, kernels.roots)
                self._heard = listening_of(add)
            if self._fused is None and self._at_hand():
                self._empty_queue()
            return None if self._fused is None else self._telling_whole(where)
        tell = learning(policy, kernels, F, where)
        return tell if evidence is None else partial(self._tell_some, tell, lineup, F)

    def _at_hand(self) -> bool:
        """Return whether nothing need be compiled to add to the sums."""
        fill = self._fill
        return at_hand(self._heard, *TELLING) and (
            fill is None or compiled_before(placed_twin(fill), FILL_AT.args)
        )

    def telling_again(
        self, tell: Any, policy: Policy, kernels: Kernels, F: Array, where: int, lineup: Lineup
    ) -> Callable[..., None] | None:
        """Return `telling` for the copy of a bandit, to which it returned ``tell``."""
        whole = self._evidence is None or (self._lineup is not None and self._fused is not None)
        if not policy.traits.trusted or not whole:
            return self.telling(policy, kernels, F, where, lineup)
        if self._evidence is None:
            return placed(tell.__func__, where)
        self._lineup = lineup
        return self._telling_whole(where)

    def _telling_whole(self, where: int) -> Callable[..., None]:
        assert self._alarms is not None
        self._alarms.A[BANDIT] = where
        return placed(self._fused, self._place)

    def _tell_some(
        self, tell: Any, lineup: Lineup, F: Array, slot: int, inverse_p: float, loss: float
    ) -> None:
        """Do the same where arms were retired, or where a user's function may refuse to learn."""
        assert self.evidence is not None
        w, decided = self._weights(lineup, F), int(F[ROUND])
        tell(slot, inverse_p, loss)
        self.evidence.add(lineup.indices[slot], inverse_p, loss, decided, w)
        self._listen(lineup.indices[slot], loss, decided)

    def _listen(self, index: int, loss: float, number: int) -> None:
        """Add a loss to those that are tested for a change."""
        assert self.alarms is not None
        self.alarms.hear(index, loss, number)

    def _weights(self, lineup: Lineup, F: Array) -> Array | None:
        """Return the probabilities by index of the last draw; NaN where an arm was away."""
        assert self._evidence is not None
        if lineup.weights is None:
            return None
        w, out = np.empty(len(lineup.names)), np.full(self._evidence.n_arms, np.nan)
        lineup.weights(F, w)
        out[lineup.index_array] = w
        return out

    # --- decisions that wait -------------------------------------------------------------------

    def noted(self, lineup: Lineup, F: Array) -> Array | None:
        """Return the notes for late feedback of the decision just drawn, if any."""
        # The property would cost a call on the way of all late feedback.
        if self._queue:
            self._empty_queue()
        evidence = self._evidence
        if evidence is None or lineup.weights is None:
            return None
        if lineup is not self._lineup and not _every_arm(lineup, evidence):
            w = self._weights(lineup, F)
            assert w is not None
            return np.concatenate([w, evidence.note()])
        out = np.empty(4 * evidence.n_arms + 1)
        if self._one is None:
            self._one = direct(noting_of(lineup.weights)[0], 0.0, F, out)
        self._one(float(evidence.address), F, out)
        return out

    def noted_many(self, lineup: Lineup, snapshots: Array) -> Array | None:
        """Return the same for decisions drawn from these states, a row each."""
        evidence = self.evidence
        if evidence is None or lineup.weights is None:
            return None
        if not _every_arm(lineup, evidence):
            return np.array([self.noted(lineup, F) for F in snapshots])
        table = np.empty((snapshots.shape[0], 4 * evidence.n_arms + 1))
        noting_of(lineup.weights)[1](float(evidence.address), snapshots, table)
        return table

    def late(
        self, number: int, index: int, inverse_p: float, loss: float, noted: Array | None
    ) -> None:
        """Add a decision of the past, of which `noted` was kept, or let it wait for its turn."""
        if self._evidence is None:
            return
        if number > self.frontier > 0:
            heappush(self.waiting, (number, index, inverse_p, loss, noted))
            return
        self.overtaken += number < self.frontier
        self._add(number, index, inverse_p, loss, noted)

    @property
    def overfull(self) -> bool:
        """Whether waiting answers take more memory than they may."""
        assert self._evidence is not None
        return len(self.waiting) * (4 * self._evidence.n_arms + 1) > MOST_NUMBERS

    def advance(self, frontier: int) -> None:
        """Add the answers that waited for the decisions before ``frontier``, in their order."""
        self.frontier = frontier
        while self.waiting and self.waiting[0][0] < frontier:
            self._add(*heappop(self.waiting))

    def waiting_by_arm(self) -> list[int]:
        """Return how many answers of every arm wait."""
        assert self._evidence is not None
        counts = [0] * self._evidence.n_arms
        for _, index, *_ in self.waiting:
            counts[index] += 1
        return counts

    def _add(
        self, number: int, index: int, inverse_p: float, loss: float, noted: Array | None
    ) -> None:
        if self._queue:
            self._empty_queue()
        evidence = self._evidence
        assert evidence is not None
        if noted is not None and noted.size == 4 * evidence.n_arms + 1 and inverse_p:
            if self._late is None:
                code = direct(listening_late_of(observe_noted), 0.0, 0, 0.0, 0.0, 0, noted)
                self._late = placed(code, self._place)
            self._late(index, inverse_p, loss, number, noted)
            return
        self._listen(index, loss, number)
        if noted is None:
            evidence.add(index, inverse_p, loss, number)
            return
        known = (noted.size - 1) // 4
        evidence.add(index, inverse_p, loss, number, noted[:known], noted[known:])

    def late_many(
        self,
        numbers: Sequence[int],
        indices: NDArray[np.intp],
        inverse_p: Array,
        losses: Array,
        noted: Array | list[Array | None] | None,
        frontier: int,
    ) -> None:
        """Add decisions of the past; ``frontier`` is where evidence stands once they are closed."""
        evidence = self.evidence
        if evidence is None:
            return
        size = 4 * evidence.n_arms + 1
        table: Any = noted
        if self.waiting or max(numbers) >= frontier or min(numbers) < self.frontier:
            table = None
        elif type(numbers) is not range:
            order = np.argsort(numbers)
            numbers, indices = np.array(numbers)[order].tolist(), indices[order]
            inverse_p, losses = inverse_p[order], losses[order]
            if isinstance(noted, list):
                noted = table = [noted[n] for n in order.tolist()]
            elif noted is not None:
                noted = table = noted[order]
        if isinstance(table, list) and all(n is not None and n.size == size for n in table):
            table = np.array(table)
        if isinstance(table, np.ndarray) and table.shape[1] == size:
            if type(numbers) is range:
                rounds = np.arange(numbers.start, numbers.stop)
            else:
                rounds = np.array(numbers, np.int64)
            where = indices.astype(np.int64)
            assert self.alarms is not None
            self.alarms.hear_all(where, losses, rounds)
            observe_late_all(evidence.R, where, inverse_p, losses, rounds, table)
            return
        rows = [None] * len(numbers) if noted is None else noted
        for each, index, inverse, loss, row in zip(
            numbers, indices.tolist(), inverse_p.tolist(), losses.tolist(), rows, strict=True
        ):
            self.late(each, index, inverse, loss, row)

    def grow(self, n_arms: int) -> None:
        """Make room for arms that came."""
        if n_arms >= MANY_ARMS:
            self._evidence = self._alarms = None
            self._queue = []
            self.frontier, self.waiting = 0, []
        elif self.evidence is not None and self.evidence.n_arms < n_arms:
            self.evidence.grow(n_arms)
            assert self._alarms is not None
            self._alarms = self._alarms.grown(n_arms)
            self._locate()

    # --- keeping -------------------------------------------------------------------------------

    def document(self, noted: dict[int, Array | None]) -> dict[str, Any] | None:
        """Return the evidence as JSON values, with the notes of pending decisions."""
        if self.evidence is None:
            return None
        assert self.alarms is not None
        return {
            **self.evidence.document(),
            "alarms": self.alarms.document(),
            "notes": [
                {"round": number, "numbers": _text(note)}
                for number, note in noted.items()
                if note is not None
            ],
            "frontier": self.frontier or min(noted, default=0),
            "overtaken": self.overtaken,
            "waiting": [
                {
                    "round": number,
                    "arm": index,
                    "inverse_p": inverse_p,
                    "loss": loss,
                    "numbers": None if note is None else _text(note),
                }
                for number, index, inverse_p, loss, note in sorted(self.waiting, key=_round)
            ],
        }

    @classmethod
    def from_document(
        cls, value: Any, n_arms: int, pending: set[int], newest: int, wanted: bool
    ) -> tuple[Self, dict[int, Array]]:
        """Return the keeper and the notes that `document` described; a fresh one if ``wanted``.

        ``newest`` is the last round.
        """
        made = cls(n_arms, wanted)
        made.frontier = min(pending, default=0) if made.keeps else 0
        noted: dict[int, Array] = {}
        if value is None or n_arms >= MANY_ARMS:
            return made, noted
        document = record(value, "evidence")
        made._evidence = Evidence.from_document(document, n_arms)
        # Older files have no alarms; they start with the losses to come.
        found = document.get("alarms")
        made._alarms = Alarms(n_arms) if found is None else Alarms.from_document(found, n_arms)
        made._locate()
        for each in listed(document["notes"], "notes"):
            note = record(each, "notes")
            decided = whole(note["round"], "round", 0, LARGEST_WHOLE)
            if decided not in pending:
                raise ValueError("notes of another decision")
            noted[decided] = _note(note["numbers"], n_arms)
        made._wait_again(document, n_arms, pending, newest)
        return made, noted

    def _wait_again(
        self, document: dict[str, Any], n_arms: int, pending: set[int], newest: int
    ) -> None:
        """Read the answers that wait; older files have none."""
        self.frontier = min(pending, default=0)
        if "frontier" not in document:
            return
        self.overtaken = whole(document["overtaken"], "overtaken", 0, LARGEST_WHOLE)
        frontier = whole(document["frontier"], "frontier", 0, newest + 1)
        if bool(frontier) != bool(pending) or not (
            frontier in pending or frontier in (0, newest + 1)
        ):
            raise ValueError("a frontier that is not at a pending decision")
        self.frontier = frontier
        rounds = set()
        for each in listed(document["waiting"], "waiting"):
            given = record(each, "waiting")
            decided = whole(given["round"], "round", 1, newest)
            if decided in pending or decided in rounds or not 0 < frontier < decided:
                raise ValueError("an answer that waits for no decision")
            rounds.add(decided)
            inverse_p = number(given["inverse_p"], "inverse_p", 0.0, LARGEST)
            if 0.0 < inverse_p < 1.0 - 1e-9:
                raise ValueError("an inverse_p below 1")
            loss = number(given["loss"], "loss", 0.0, 1.0)
            noted = None if given["numbers"] is None else _note(given["numbers"], n_arms)
            index = whole(given["arm"], "arm", 0, n_arms - 1)
            heappush(self.waiting, (decided, index, inverse_p, loss, noted))

    def copy(self) -> Self:
        """Return an independent keeper of the same content."""
        made = type(self).__new__(type(self))
        made._evidence = None if self._evidence is None else self._evidence.copy()
        made._alarms = None if self._alarms is None else self._alarms.copy()
        made._queue = self._queue.copy()
        made._kernels, made._heard = self._kernels, self._heard
        made._fill, made._fused, made._one = self._fill, self._fused, self._one
        # The other bandit's lineup: `telling_again` only asks whether there is one.
        made._lineup = self._lineup
        made._late = None
        made._place = 0
        made.frontier, made.overtaken = self.frontier, self.overtaken
        made.waiting = self.waiting.copy()
        made._locate()
        return made


def learning(policy: Policy, kernels: Kernels, F: Array, where: int) -> Callable[..., None]:
    """Return the function that learns from the last decision of ``F`` without evidence."""
    if not policy.traits.trusted:
        return partial(policy.guard_learning(direct(kernels.tell, F, 0, 0.0, 0.0)), F)
    return placed(telling_code(kernels.tell), where)


def _round(answer: Waiting) -> int:
    return answer[0]


def _text(note: Array) -> str:
    return text(note.astype("<f8").tobytes())


def _note(value: Any, n_arms: int) -> Array:
    """Return the numbers of a decision that a file has."""
    numbers = np.frombuffer(raw_bytes(value, "notes"), "<f8")
    known = (numbers.size - 1) // 4
    w, rest = numbers[:known], numbers[known:]
    fits = numbers.size == 4 * known + 1 and 1 <= known <= n_arms
    if not fits or not _shares(w) or not _within(rest, known):
        raise ValueError("notes of another decision")
    return numbers.astype(np.float64)


def _every_arm(lineup: Lineup, evidence: Evidence) -> bool:
    """Tell whether a lineup has every arm that ever was, in the order of the indices."""
    K = evidence.n_arms
    return len(lineup.indices) == K and lineup.indices == tuple(range(K))


def _shares(w: Array) -> bool:
    known = w[~np.isnan(w)]
    return bool(((known >= 0.0) & (known <= 1.0)).all())


def _within(numbers: Array, known: int) -> bool:
    """Tell whether guesses are in [0, 1] and bets in (0, 1)."""
    guesses, bets = numbers[:known], numbers[known:]
    return bool(((guesses >= 0) & (guesses <= 1)).all() and ((bets > 0) & (bets < 1)).all())
