"""Folds: states of experiments whose policies learn in the order of their feedback.

Rates from residuals, change tests and discounts depend on the order in which losses come, so the
state is no sum.  The store numbers the feedback of such an experiment when it commits it, and the
state is the *fold* over that sequence.  All replicas continue one fold, which the store keeps, and
a replay gives the same bits.

A feedback is folded as a decision that is drawn and answered at this moment: the policy adds its
baselines to the arms that could be drawn, and then learns from the loss with the probability and
the carried numbers of the record.  Feedback that never comes therefore adds nothing.  What the fold
cannot know is how many decisions are outstanding; a draw counts them as the rounds that were
decided and not answered.

The floor of an experiment is no part of its fold: a record has the probability drawn with.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.bandit.state import first_row, with_columns
from bothworlds.lanes.direct import direct
from bothworlds.lanes.kernels import ARMS, GENERATOR, HEAD, PARAMETERS, ROUND, unpack
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.wrap import bound
from bothworlds.policies.base import Array, Policy, Program, Sounded
from bothworlds.policies.late import (
    CARRIED,
    INVERSE_P,
    MEAN_BASELINE,
    late_kernels,
    no_change,
    nobody_asked,
    width,
)
from bothworlds.policies.packed import pack
from bothworlds.serve.domain import records
from bothworlds.serve.domain.draws import Draw, Lineup, entered, plainly
from bothworlds.serve.domain.records import NEAR_NONE, NEAR_SOME
from bothworlds.serve.store.rows import FeedbackRow

EVERYONE = np.zeros(0, np.uint8)
"""Stands for the arms that could be drawn where these are all arms."""
SEED = np.arange(1, WORDS + 1, dtype=np.int64)
"""Words of a fold's generator, whose numbers decide nothing."""
_HEADER = struct.Struct("<HH")

# What the template calls; filled in for each policy.
choose: Any = None
changed: Any = None
asked: Any = None
note: Any = None
layout: tuple[int, ...] = ()


@dataclass(frozen=True)
class Order:
    """How an experiment learns in order.

    Parameters
    ----------
    policy : Policy
        What learns, without the experiment's floor.
    low, span : float
        The loss that 0 stands for and the distance to the one that 1 stands for; 0 and 1 unless
        the policy takes losses in the user's own units.
    """

    policy: Policy
    low: float = 0.0
    span: float = 1.0

    @property
    def carried(self) -> int:
        """How many bytes a record must carry."""
        return 8 * self.policy.traits.carried_rows


@dataclass(frozen=True)
class _Rows:
    """Rows of a policy's head that count decisions and answers, -1 for those it has not."""

    decisions: int
    answers: int
    outstanding: int
    restarted: int


@functools.cache
def _rows(policy: Policy) -> _Rows:
    named = {saved.name: row for row, saved in policy.traits.saved_head.items()}
    names = "decisions", "answers", "outstanding", "restarted"
    return _Rows(*(named.get(name, -1) for name in names))


class _Code:
    """Compiled functions that fold the feedback of a policy."""

    def __init__(self, policy: Policy) -> None:
        kernels, program = policy.kernels(), plainly(policy, 2)
        late = late_kernels(policy, program)
        F = pack(policy, 2, SEED, program)
        slots, flags = np.arange(2, dtype=np.intp), np.zeros(2, np.uint8)
        N = np.zeros(width(policy, program, 2))
        self.ask = direct(kernels.ask, F)
        self.ask_some = direct(late.ask_among, F, slots, F, 0)
        self.settle = direct(kernels.write_back or no_change, F)
        self.learn = direct(late.learn, F, 0, 0.0, 0.0, N, slots, EVERYONE, 0, flags)


_code = functools.cache(_Code)


@dataclass(eq=False, slots=True)
class Fold:
    """Learned state of an experiment from its feedback up to a number.

    Parameters
    ----------
    order : Order
        How it learns.
    places : tuple of int
        The arms that can be played, by the slot of each in the state.
    known : int
        How many arms the experiment ever had.
    number : int
        The last number that was given to a feedback or to a change of the arms.
    F : array
        The policy's packed state; its round is the latest that is known to be decided.

    Examples
    --------
    >>> import bothworlds as bw
    >>> fold = Fold.blank(Order(bw.AllWorlds()), (0, 1, 2), 3)
    >>> Fold.read(fold.order, 0, fold.state()).state() == fold.state()
    True
    """

    order: Order
    places: tuple[int, ...]
    known: int
    number: int
    F: Array

    @classmethod
    def blank(cls, order: Order, places: Sequence[int], known: int) -> Fold:
        """Return the fold over nothing."""
        n = len(places)
        F = pack(order.policy, n, SEED, plainly(order.policy, n))
        return cls(order, tuple(places), known, 0, F)

    @classmethod
    def read(cls, order: Order, number: int, raw: bytes) -> Fold:
        """Return the fold whose `state` was written."""
        known, n = _HEADER.unpack_from(raw)
        at = _HEADER.size + 2 * n
        places = np.frombuffer(raw, "<u2", n, _HEADER.size).tolist()
        fold = cls.blank(order, places, known)
        fold.number = number
        numbers = np.frombuffer(raw, "<f8", -1, at)
        F, start = fold.F, first_row(fold.F)
        F[ROUND] = numbers[0]
        F[GENERATOR:HEAD] = numbers[1 : 1 + WORDS]
        F[start:] = numbers[1 + WORDS :]
        return fold

    def state(self) -> bytes:
        """Return the fold as the store keeps it, without its number."""
        F = self.F
        numbers = np.concatenate([F[ROUND : ROUND + 1], F[GENERATOR:HEAD], F[first_row(F) :]])
        head = _HEADER.pack(self.known, len(self.places))
        return head + np.array(self.places, "<u2").tobytes() + numbers.astype("<f8").tobytes()

    def copy(self) -> Fold:
        """Return an independent fold in the same state."""
        return replace(self, F=self.F.copy())

    def numbered(self, row: FeedbackRow) -> FeedbackRow:
        """Return feedback with the next number; `learn` receives it if it is learned from."""
        self.number += 1
        return row._replace(number=self.number)

    # --- learning --------------------------------------------------------------------------------

    def learn(self, rows: Iterable[FeedbackRow]) -> None:
        """Learn from feedback, in this order."""
        order, F = self.order, self.F
        policy, known = order.policy, self.known
        code, named, start = _code(policy), _rows(policy), first_row(F)
        program = plainly(policy, len(self.places))
        indices = np.array(self.places, np.intp)
        slots = {place: slot for slot, place in enumerate(self.places)}
        flags = np.zeros(indices.size, np.uint8)
        N = np.zeros(width(policy, program, known))
        first = CARRIED + policy.traits.carried_rows
        marks = N.data.cast("B")[8 * first :]
        for row in rows:
            record = records.decode(row.record)
            now = max(F[ROUND], float(record.round), float(row.latest or 0))
            if named.restarted >= 0 and F[start + named.restarted] >= record.round:
                # Decided before a restart: it teaches nothing any more.
                F[ROUND] = now
                continue
            if named.decisions >= 0:
                F[start + named.decisions] = now - 1.0
            present = _present(record, known)
            there = indices if present.size == 0 else _those_of(present, indices)
            if there.size == indices.size:
                F[ROUND] = now
                code.ask(F)
                code.settle(F)
            elif there.size > 0:
                F[ROUND] = now - 1.0
                few = pack(policy, there.size, SEED, plainly(policy, there.size))
                places = np.array([slots[place] for place in there.tolist()], np.intp)
                code.ask_some(F, places, few, policy.traits.rows_per_arm)
            N[:] = 0.0
            N[INVERSE_P] = record.inverse_p
            N[MEAN_BASELINE] = record.baseline
            N[CARRIED:first] = np.frombuffer(record.carried, "<f8")
            if len(marks):
                mask = _near(record)
                marks[: len(mask)] = mask
            code.learn(
                F, slots.get(record.arm, -1), order.low + order.span * row.loss,
                float(record.round), N, indices, present, record.arm, flags,
            )  # fmt: skip
            F[ROUND] = now

    def alarms(self) -> tuple[list[Sounded], int]:
        """Return the alarms that the policy has acted on, and when `Alarmed` last restarted.

        The round is 0 where it never did, and for every other policy.
        """
        policy = self.order.policy
        named = {saved.name: row for row, saved in policy.traits.saved_head.items()}
        restarted = 0.0
        if "alarms" in named:
            restarted = self.F[first_row(self.F) + named["restarted"]]
        return policy.sounded(self._columns()), int(restarted)

    # --- arms ------------------------------------------------------------------------------------

    def newcomer(self, probability: float | None) -> Array:
        """Return the numbers of a new arm with an initial probability, by default 1 / K."""
        F, traits = self.F, self.order.policy.traits
        head = F[first_row(F) :][: traits.head_rows]
        t = int(F[ROUND]) + 1
        return self.order.policy.newcomer(head, self._columns(), t, probability)

    def join(self, place: int, column: Array) -> None:
        """Let an arm join with these numbers."""
        self._resize(np.column_stack([self._columns(), column]))
        self.places = (*self.places, place)
        self.known = max(self.known, place + 1)

    def leave(self, place: int) -> None:
        """Let an arm leave for good."""
        slot = self.places.index(place)
        self._resize(np.delete(self._columns(), slot, axis=1))
        self.places = self.places[:slot] + self.places[slot + 1 :]

    def _columns(self) -> Array:
        traits = self.order.policy.traits
        return self.F[first_row(self.F) + traits.head_rows :].reshape(traits.rows_per_arm, -1)

    def _resize(self, arms: Array) -> None:
        policy, n = self.order.policy, arms.shape[1]
        self.F = F = with_columns(self.F, policy, arms, plainly(policy, n))
        if policy.kernels().estimates_changed is None:
            start = first_row(F)
            F[start:] = policy.state_from(n, policy.saved_state(n, F[start:]))


def _present(record: records.Record, known: int) -> NDArray[np.uint8]:
    """Return which arms could be drawn, by index; none where all that there are could be."""
    if record.present is not None:
        return np.unpackbits(np.frombuffer(record.present, np.uint8))[: record.known]
    return EVERYONE if record.known >= known else np.ones(record.known, np.uint8)


def _those_of(present: NDArray[np.uint8], indices: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return those of some arms that could be drawn."""
    there = indices[indices < present.size]
    return np.asarray(there[present[there] != 0])


def _near(record: records.Record) -> bytes:
    """Return the mask of the arms that get a baseline."""
    kind = record.flags & records.NEAR
    if kind == NEAR_SOME:
        assert record.near is not None
        return record.near
    if kind == NEAR_NONE:
        return b""
    if record.present is not None:
        return record.present
    return np.packbits(np.ones(record.known, np.uint8)).tobytes()


# --- drawing ---------------------------------------------------------------------------------


def drawing(
    F: Any, slots: Any, few: Any, indices: Any, t: float, u: float, even: bool, N: Any, flags: Any,
    w: Any,
) -> Any:  # fmt: skip
    """Draw an arm in round ``t`` from the fold ``F`` among those in ``slots``; note the decision.

    ``few`` is a packed bandit of this many arms, behind the rows of whose floor the policy's begin.
    """
    floor, head, rows, decisions, answers, outstanding, restarted = layout
    start, K = HEAD + int(F[PARAMETERS]), int(F[ARMS])
    top = HEAD + int(few[PARAMETERS])
    first, n = top + floor, slots.size
    for row in range(head):
        few[first + row] = F[start + row]
    for row in range(rows):
        for place in range(n):
            few[first + head + row * n + place] = F[start + head + row * K + slots[place]]
    # Only differences matter, and far from 0 they would be lost.
    least = few[first + head]
    for place in range(1, n):
        least = min(least, few[first + head + place])
    for place in range(n):
        few[first + head + place] -= least
    few[ROUND] = t
    changed(few)
    if answers >= 0:
        begun = F[start + restarted] if restarted >= 0 else 0.0
        few[first + outstanding] = max(t - 1.0 - begun - F[start + answers], 0.0)
        few[first + decisions] = t - 1.0
    K, now, C, S, G = unpack(few)
    # A second number, for policies that draw twice, is derived from the first.
    word = np.uint64(u * 2.0**53)
    for i in range(WORDS):
        word += np.uint64(0x9E3779B97F4A7C15)
        mixed = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        G[i] = np.int64(mixed ^ (mixed >> np.uint64(31)))
    slot = choose(K, now, C, S, G, u)
    if even:
        slot = int(u * n)
    asked(few, slot)
    if even:
        few[top] = float(n)
    note(few, indices, N, flags, w)
    return slot


@functools.cache
def _kernel(policy: Policy, learner: Policy) -> Any:
    """Return the compiled draw of a policy, which is ``learner`` perhaps with a floor around it."""
    kernels, named, inner = policy.kernels(), _rows(learner), learner.traits
    floor = policy.traits.head_rows - inner.head_rows
    return bound(
        drawing,
        choose=kernels.choose,
        changed=kernels.estimates_changed or no_change,
        asked=kernels.asked or nobody_asked,
        note=late_kernels(policy, Program.of(policy, 1, kernels)).note,
        layout=(
            floor, inner.head_rows, inner.rows_per_arm, named.decisions, named.answers,
            named.outstanding, named.restarted,
        ),
    )  # fmt: skip


class FoldedLineup(Lineup):
    """Some arms of an experiment that learns in order, ready to be drawn from.

    Parameters
    ----------
    policy : Policy
        What draws: the policy of the fold, perhaps with a floor around it.
    learner : Policy
        The policy of the fold.
    indices, known
        As in `Lineup`; all of these arms must be in the fold.

    Examples
    --------
    >>> import bothworlds as bw
    >>> policy = bw.AllWorlds()
    >>> lineup = FoldedLineup(policy, policy, indices=[0, 1, 2, 3], known=4)
    >>> fold = Fold.blank(Order(policy), (0, 1, 2, 3), 4)
    >>> made = lineup.draw(fold, 1, 0.6)
    >>> made.arm, made.inverse_p, len(made.carried)
    (2, 4.0, 16)
    """

    __slots__ = ("_carried", "_fold_places", "_learner", "_slots")

    def __init__(self, policy: Policy, learner: Policy, indices: Sequence[int], known: int) -> None:
        self._learner = learner
        more = policy.traits.carried_rows - learner.traits.carried_rows
        self._carried = slice(8 * (CARRIED + more), 8 * (CARRIED + policy.traits.carried_rows))
        self._fold_places: tuple[int, ...] = ()
        self._slots = np.zeros(len(indices), np.intp)
        super().__init__(policy, indices, known)

    def _drawing(self, policy: Policy) -> Any:
        """Return the compiled draw."""
        F = pack(self._learner, 2, SEED, plainly(self._learner, 2))
        return direct(
            _kernel(policy, self._learner), F, self._slots, self._F, self.indices, 1.0, 0.5, False,
            self._N, self._flags, self._w,
        )  # fmt: skip

    def draw(self, estimates: Any, round: int, u: float) -> Draw:
        """Draw an arm; ``estimates`` is the fold."""
        return self._draw_from(estimates, round, u, False)

    def even(self, estimates: Any, round: int, u: float) -> Draw:
        """Draw an arm uniformly; ``estimates`` is the fold."""
        return self._draw_from(estimates, round, u, True)

    def _draw_from(self, fold: Fold, round: int, u: float, even: bool) -> Draw:
        if fold.places is not self._fold_places:
            self._fold_places = fold.places
            self._slots[:] = [fold.places.index(place) for place in self.places]
        slot = self._draw(
            fold.F, self._slots, self._F, self.indices, float(round), u, even, self._N,
            self._flags, self._w,
        )  # fmt: skip
        carried = self._N.data.cast("B")[self._carried].tobytes()
        return self._drawn(slot)._replace(carried=carried)


# --- compilation -----------------------------------------------------------------------------

_warm: set[tuple[Policy, Policy | None]] = set()


def is_warm(policy: Policy, learner: Policy | None) -> bool:
    """Tell whether experiments with a policy can be served without the compiler.

    ``learner`` is the policy of its fold, None where it has none.
    """
    return (policy, learner) in _warm


def warm(policy: Policy, learner: Policy | None) -> None:
    """Compile or load the code for experiments with a policy, in a waiting thread.

    Examples
    --------
    >>> import bothworlds as bw
    >>> warm(bw.TsallisINF(), None)
    >>> is_warm(bw.TsallisINF(), None), is_warm(bw.TsallisINF(alpha=0.4321), None)
    (True, False)
    """
    if is_warm(policy, learner):
        return
    lineup: Lineup
    if learner is None:
        lineup = Lineup(policy, (0, 1), 2)
        lineup.draw(np.zeros(3, np.int64), 1, 0.5)
        entered(policy, np.array([0.0, 1.0]), 2, None)
    else:
        lineup = FoldedLineup(policy, learner, (0, 1), 2)
        fold = Fold.blank(Order(learner), (0, 1), 2)
        fold.learn(_rehearsed(lineup.draw(fold, 1, 0.5), 2, b""))
        fold.join(2, fold.newcomer(None))
        fold.learn(_rehearsed(lineup.draw(fold, 2, 0.5), 3, b"\xc0"))
        fold.leave(2)
    lineup.probabilities()
    _warm.add((policy, learner))


def _rehearsed(drawn: Draw, known: int, present: bytes) -> list[FeedbackRow]:
    """Return feedback on a draw that was never answered."""
    flags = drawn.near | (records.PRESENT if present else 0)
    raw = records.encode(
        0, 0, 0, drawn.arm, known, 1, bytes(16), drawn.inverse_p,
        flags | (records.CARRIED if drawn.carried else 0), drawn.baseline, drawn.mask, present,
        carried=drawn.carried,
    )  # fmt: skip
    return [FeedbackRow(0, bytes(16), 0, raw, 0.5, "client", "learned", 0.0, None)]
