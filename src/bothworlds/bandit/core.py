"""Core of a bandit: a policy's packed state, with compiled functions that draw and learn.

There are three ways to draw.  `Bandit.ask` draws prompt decisions inline; `Core.draw` draws one
decision from all arms or some, also where learning has stopped; `Core.draw_many` draws a batch.
There are two ways to learn.  While the state still is that of a decision's draw, that decision is
fresh and `Core.tell` learns from it; a later answer needs the notes of `Pending`.

A core has no locks, no keys and no files: `bothworlds.Bandit` and `bothworlds.DuelingBandit` add
these.  Feedback reaches it as losses, in [0, 1] unless the policy takes any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from time import time as now
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bothworlds.bandit.arms import ArmHistory, Roster
from bothworlds.bandit.decision import Arm, Decision, Decisions, Lineup, Origin, decided
from bothworlds.bandit.evidence_keeper import EvidenceKeeper, learning
from bothworlds.bandit.pending import Batch, Ledger, Pending, closed, pending, width
from bothworlds.bandit.state import (
    columns,
    first_row,
    generator,
    pack,
    rebuilt,
    saved,
    unchanged,
    with_columns,
    with_decision,
)
from bothworlds.errors import KernelError, UnknownDecision, invalid, must
from bothworlds.lanes.direct import address, direct, placed
from bothworlds.lanes.kernels import ARMS, ROUND
from bothworlds.lanes.wrap import drawing_code
from bothworlds.policies.base import Array, Policy, Program
from bothworlds.policies.late import INVERSE_P, LateKernels, late_kernels
from bothworlds.seeding import stream_words

NOTHING_FRESH = 0
NO_NUMBERS = np.zeros(0)
EVERYONE = np.zeros(0, np.uint8)
"""Stands for the arms that could be drawn where these are all arms."""
MOST_SUBSETS = 64
"""How many selections of available arms a core keeps ready."""


class Shift(NamedTuple):
    """Additions of a draw to the loss estimates, by slot, and to the rounds; the state stays."""

    estimates: Array
    rounds: int


class Subset(NamedTuple):
    """Some of the arms, and the functions that draw from them alone; none if not compiled."""

    slots: NDArray[np.intp]
    rows: int = 0
    """Rows per arm."""
    lineup: Lineup | None = None
    F: Array = NO_NUMBERS
    N: Array = NO_NUMBERS
    ask: Any = None
    note: Any = None
    flags: NDArray[np.uint8] = EVERYONE
    w: Array = NO_NUMBERS


class Held:
    """Content of a core: a policy's packed state and the pending decisions, for reading."""

    __slots__ = (
        "F", "N", "N_bytes", "_late", "_learn", "_plain", "_prompt", "_subsets", "ask", "flags",
        "fresh", "fresh_inverse_p", "fresh_slot", "fresh_time", "frozen", "keeper", "ledger",
        "lineup", "note", "policy", "program", "roster", "round", "rows", "seed", "start", "tell",
        "w",
    )  # fmt: skip

    policy: Policy
    roster: Roster
    ledger: Ledger
    round: int
    F: Array
    fresh_slot: int
    fresh_inverse_p: float
    fresh: int
    """The round of the last decision while the state still is that of its draw, or 0."""
    frozen: int
    """The round whose distribution is drawn from since learning stopped, or 0."""
    lineup: Lineup
    rows: Any
    """``F`` as a memoryview: reading one number takes half the time of indexing an array."""
    tell: Callable[[int, float, float], None]
    """Learns from the fresh decision: slot, 1 / probability and loss."""
    program: Program
    """The program that plays the policy with the arms of ``F``."""
    note: Any
    """Writes the notes of the fresh decision into ``N``; None until late feedback is prepared."""
    _late: LateKernels | None
    _learn: Any
    _prompt: Callable[[int, float, float], None]
    """`tell` while no decision but the fresh one is pending."""
    _plain: Callable[[int, float, float], None] | None
    """`tell` without evidence."""

    # --- pending decisions ---------------------------------------------------------------------

    @property
    def pending(self) -> list[int]:
        """The rounds of the decisions that wait for feedback."""
        rounds = list(self.ledger.records)
        return [*rounds, self.fresh] if self.fresh else rounds

    def awaits(self, number: int) -> bool:
        """Return whether the decision of a round waits for feedback."""
        return number in self.ledger.records or number == self.fresh > NOTHING_FRESH

    def drawn(self, number: int) -> tuple[int, float]:
        """Return the index of a pending decision's arm, and 1 / its probability."""
        if number == self.fresh:
            return self.lineup.indices[self.fresh_slot], self.fresh_inverse_p
        entry = self.ledger[number]
        return entry.arm_index, entry.inverse_p

    def admits(self, decision: Decision) -> bool:
        """Return whether a decision can be one of this core's, pending or closed."""
        ours, theirs = self.lineup.origin, decision._lineup.origin
        if decision.round < 1 or not ours.may_admit(theirs):
            return False
        if ours is theirs or not self.awaits(decision.round):
            return True
        return self.drawn(decision.round) == (decision.index, decision._inverse_p)

    def refusal(self, number: int, owner: str) -> UnknownDecision:
        """Return the error for feedback to a decision that is not pending."""
        if 1 <= number <= self.round:
            return closed("decision", owner, number)
        return UnknownDecision(must("decision", owner, "a decision of this bandit", number))

    def lineup_of(
        self, indices: Iterable[int], origin: Origin, F: Array, program: Program
    ) -> Lineup:
        """Return the common part of decisions drawn from ``F``."""
        names = self.roster.names
        indices = tuple(indices)
        kernel = program.kernels.weights if self.policy.traits.knows_probability else None
        # With many arms a decision does not copy the packed state but reads the core's own.
        live = None if program.plain else partial(unchanged, F)
        return Lineup(origin, tuple(names[index] for index in indices), indices, kernel, live)

    def _decided(self, F: Array, slot: int, lineup: Lineup, time: float) -> Decision:
        """Return the decision just drawn from ``F``."""
        snapshot = F.tobytes() if lineup.copied else lineup.blank
        inverse_p = float(F[first_row(F)])
        arm, index = lineup.names[slot], lineup.indices[slot]
        return decided(arm, index, self.round, inverse_p, snapshot, lineup, time)

    def __len__(self) -> int:
        return len(self.roster.slots)

    def history(self, bounds: tuple[float, float]) -> dict[Arm, ArmHistory]:
        """Return the history of every arm, in the units of ``bounds``."""
        estimates = None
        if self.policy.traits.estimates:
            L = self.policy.estimated(columns(self.F, self.policy))
            estimates = (L - L.min()).tolist()
        waiting = [self.drawn(number)[0] for number in self.pending]
        return self.roster.history(waiting, estimates, bounds)


class Core(Held):
    """A policy's packed state and the decisions that wait for feedback.

    Parameters
    ----------
    policy : Policy
        The algorithm.
    roster : Roster
        The arms.
    seed : int
        The seed by which decisions are recognised.
    F : array
        The packed state.
    keeper : EvidenceKeeper
        Keeps the sums for reports.
    crossed : bool
        Whether the core comes from a file; code that learns is then loaded with the first feedback.
    """

    __slots__ = ()

    def __init__(
        self, policy: Policy, roster: Roster, seed: int, F: Array, keeper: EvidenceKeeper,
        crossed: bool = False,
    ) -> None:  # fmt: skip
        self.policy = policy
        self.roster = roster
        self.seed = seed
        self.keeper = keeper
        self.round = int(F[ROUND])
        self.ledger = Ledger()
        self.fresh = NOTHING_FRESH
        self.fresh_slot = 0
        self.fresh_inverse_p = 0.0
        self.fresh_time = 0.0
        self.frozen = 0
        self._place(F, Origin(seed, crossed), told=not crossed)

    # --- compiled functions --------------------------------------------------------------------

    def _place(self, F: Array, origin: Origin, told: bool = True) -> None:
        """Take ``F`` as the state; the roster already has its arms."""
        self.F = F
        self.rows = F.data
        self.start = first_row(F)
        self.program = self.policy.program(int(F[ARMS]))
        self.ask = self._asking(F, self.program)
        self.lineup = self.lineup_of(self.roster.slots, origin, F, self.program)
        self._plain = None
        self._prompt = self._telling() if told else self._tell_first
        self.in_order()
        # Late feedback and missing arms get their code when they first occur.
        self.note = self._learn = self._late = None
        self._subsets: dict[tuple[Arm, ...], Subset] = {}

    def _asking(self, F: Array, program: Program) -> Callable[[], int]:
        """Return the compiled function that draws an arm from ``F``."""
        policy, ask = self.policy, program.prompt.ask
        if policy.traits.trusted:
            return placed(drawing_code(ask), address(F))
        return partial(policy.guard_choice(direct(ask, F)), F)

    def _tell_first(self, slot: int, inverse_p: float, loss: float) -> None:
        """Learn from the fresh decision for the first time since the code was placed."""
        self._prompt = self._telling()
        self.in_order()
        self._prompt(slot, inverse_p, loss)

    def in_order(self) -> None:
        """Choose the function that learns from the fresh decision, with or without evidence."""
        self.tell = self._tell_in_order if self.keeper.frontier else self._prompt

    def _tell_in_order(self, slot: int, inverse_p: float, loss: float) -> None:
        """Learn from the fresh decision; its evidence waits while earlier ones are pending."""
        keeper, number = self.keeper, self.fresh
        if number == keeper.frontier:
            self._prompt(slot, inverse_p, loss)
            keeper.frontier += 1
            return
        noted = keeper.noted(self.lineup, self.F)
        _plain(self)(slot, inverse_p, loss)
        self.fresh = NOTHING_FRESH
        keeper.late(number, self.lineup.indices[slot], inverse_p, loss, noted)
        self._advance()

    def _hold(self, number: int) -> None:
        """Let evidence wait for the decision of a round that is about to enter the ledger."""
        keeper = self.keeper
        if not keeper.frontier and keeper.keeps:
            keeper.frontier = number
            self.tell = self._tell_in_order

    def _advance(self) -> None:
        """Add the evidence that no earlier pending decision holds up any more."""
        keeper = self.keeper
        if not keeper.frontier:
            return
        if not self.ledger.records:
            keeper.advance(self.round + 1)
            keeper.frontier = 0
            self.tell = self._prompt
            return
        if keeper.frontier not in self.ledger.records:
            keeper.advance(self._pending_from(keeper.frontier))
        while keeper.overfull:
            # The decisions before this answer are skipped.
            keeper.advance(self._pending_from(keeper.waiting[0][0]))

    def _pending_from(self, number: int) -> int:
        """Return the first round from ``number`` on that is pending or to come."""
        records, fresh, last = self.ledger.records, self.fresh, self.round
        while number <= last and number not in records and number != fresh:
            number += 1
        return number

    def _telling(self) -> Callable[[int, float, float], None]:
        """Return the compiled function that learns from the fresh decision."""
        F, kernels = self.F, self.program.prompt
        made = self.keeper.telling(self.policy, kernels, F, address(F), self.lineup)
        return _queueing(self) if made is None else made

    def late_kernels(self) -> LateKernels:
        """Return the compiled functions for late feedback; also make room for notes."""
        if self._late is None:
            policy, program = self.policy, self.program
            late = self._late = late_kernels(policy, program)
            self._make_room(width(policy, program, len(self.roster.names)))
            self.note = direct(
                late.note, self.F, self.lineup.index_array, self.N, self.flags, self.w
            )
        return self._late

    def _make_room(self, size: int) -> None:
        """Make the arrays that notes of ``size`` numbers are written to and read from."""
        self.N = np.zeros(size)
        self.N_bytes = self.N.data.cast("B")
        self.flags = np.zeros(len(self), np.uint8)
        self.w = np.zeros(len(self))

    def _learner(self) -> Any:
        """Return the compiled function that learns from a late answer."""
        kernel, indices = self.late_kernels().learn, self.lineup.index_array
        learn = direct(kernel, self.F, 0, 0.0, 0.0, self.N, indices, EVERYONE, 0, self.flags)
        return self.policy.guard_learning(learn)

    # --- drawing -------------------------------------------------------------------------------

    def draw(self, available: Iterable[Arm] | None = None, shift: Shift | None = None) -> Decision:
        """Draw from all arms or from those available; the decision is pending afterwards."""
        subset = None if available is None else self._subset(available)
        if self.fresh:
            self.settle()
        if shift is not None:
            subset = Subset(np.arange(len(self)) if subset is None else subset.slots)
        if subset is None and not self.frozen:
            number = self.round + 1
            self.rows[ROUND] = number
            try:
                slot = self.ask()
            except KernelError:
                self.rows[ROUND] = self.round
                raise
            self.round = self.fresh = number
            self.fresh_slot = slot
            self.fresh_inverse_p = self.rows[self.start]
            self.fresh_time = now()
            return self._decided(self.F, slot, self.lineup, self.fresh_time)
        if self.frozen:
            return self._draw_frozen(subset)
        assert subset is not None
        if subset.lineup is not None:
            F, lineup, N = subset.F, subset.lineup, subset.N
            slot = subset.ask(self.F, subset.slots, F, subset.rows)
            _certain(F, subset.slots)
            subset.note(F, lineup.index_array, N, subset.flags, subset.w)
        else:
            F, lineup, slot = self.draw_aside(self.round + 1, subset.slots, True, shift)
            _certain(F, subset.slots)
            generator(self.F)[:] = generator(F)
            kernels = self.program.kernels
            if kernels.opens:
                self.F[:] = with_decision(self.F, self.policy, F, subset.slots, self.program)
            elif kernels.asked is not None:
                kernels.asked(self.F, subset.slots[slot])
            self.rows[ROUND] = self.round + 1
            n_arms = subset.slots.size
            policy, program = self.policy, self.policy.program(n_arms)
            N = np.zeros(width(policy, program, len(self.roster.names)))
            flags, w = np.zeros(n_arms, np.uint8), np.zeros(n_arms)
            late_kernels(policy, program).note(F, lineup.index_array, N, flags, w)
        self.round += 1
        time = now()
        noted = self.keeper.noted(lineup, F)
        self._hold(self.round)
        self.ledger.records[self.round] = pending(slot, N.tobytes(), lineup, time, noted)
        return self._decided(F, slot, lineup, time)

    def draw_aside(
        self, number: int, slots: NDArray[np.intp] | None = None, centred: bool = False,
        shift: Shift | None = None,
    ) -> tuple[Array, Lineup, int]:  # fmt: skip
        """Draw for round ``number`` from a copy of the state, of all arms or some.

        Returns the copy, its lineup and the place drawn.
        """
        if slots is None:
            F, lineup, program = self.F.copy(), self.lineup, self.program
        else:
            program = self.policy.program(slots.size)
            rows = columns(self.F, self.policy)[:, slots]
            if shift is not None:
                rows[0], number = rows[0] + shift.estimates[slots], number + shift.rounds
            if centred and self.policy.traits.estimates:
                # Only differences matter, and far from 0 they would be lost.
                rows[0] -= rows[0].min()
            F = with_columns(self.F, self.policy, rows, program)
            indices = [self.roster.slots[slot] for slot in slots.tolist()]
            lineup = self.lineup_of(indices, self.lineup.origin, F, program)
        F[ROUND] = number
        return F, lineup, self._asking(F, program)()

    def _draw_frozen(self, subset: Subset | None) -> Decision:
        """Draw from the distribution at the freeze; nothing is learned from the decision."""
        F, lineup, slot = self.draw_aside(self.frozen, None if subset is None else subset.slots)
        generator(self.F)[:] = generator(F)
        self.round += 1
        time = now()
        notes = np.zeros(width(self.policy, self.program, len(self.roster.names)))
        notes[INVERSE_P] = F[first_row(F)]
        self.ledger.records[self.round] = pending(
            slot, notes.tobytes(), lineup, time, None, learn=False
        )
        decision = self._decided(F, slot, lineup, time)
        if lineup.weights is not None:
            # Now, because the copy is not kept.
            decision._set_probabilities(_shares(F, lineup))
        return decision

    def _subset(self, available: Iterable[Arm]) -> Subset | None:
        """Return the available arms; None if they are all arms."""
        names = tuple(available) if type(available) is list or type(available) is tuple else ()
        # True equals 1, and a list cannot be looked up.
        plain = {str, int}.issuperset(map(type, names))
        known = self._subsets.get(names) if plain else None
        if known is not None:
            return known
        slots = _checked_available(self, available)
        if len(slots) == len(self):
            return None
        subset = _subset_of(self, np.array(slots, np.intp))
        if names and plain and subset.lineup is not None:
            if len(self._subsets) >= MOST_SUBSETS:
                self._subsets.clear()
            self._subsets[names] = subset
        return subset

    def draw_many(self, n: int) -> Decisions:
        """Draw ``n`` decisions from all arms, the same as ``n`` calls of `draw`."""
        if self.fresh:
            self.settle()
        late = self.late_kernels()
        F, lineup = self.F, self.lineup
        slots = np.empty(n, np.int64)
        notes = np.empty((n, self.N.size))
        snapshots = np.empty((n, F.size) if lineup.copied else (0, 0))
        if self.policy.traits.trusted:
            late.ask_many(F, slots, lineup.index_array, notes, snapshots)
        else:
            _draw_one_by_one(self, slots, notes, snapshots)
        ids = range(self.round + 1, self.round + 1 + n)
        self.round += n
        time = now()
        noted = self.keeper.noted_many(lineup, snapshots)
        self._hold(ids.start)
        self.ledger.enter(ids, Batch(ids.start, slots, notes, lineup, time, noted))
        return Decisions(ids, lineup, slots, notes[:, INVERSE_P], snapshots, time)

    # --- learning ------------------------------------------------------------------------------

    def settle(self) -> None:
        """Enter the fresh decision into the ledger, because the state is about to change."""
        if not self.keeper.frontier:
            self._hold(self.fresh)
        self.ledger.records[self.fresh] = self.noted()
        self.fresh = NOTHING_FRESH

    def noted(self) -> Pending:
        """Return the numbers of the fresh decision that late feedback needs."""
        if self.note is None:
            self.late_kernels()
        lineup = self.lineup
        self.note(self.F, lineup.index_array, self.N, self.flags, self.w)
        # As `pending` does; one call less makes late feedback 2 % faster.
        made = Pending()
        made.slot, made.notes, made.lineup = self.fresh_slot, self.N.tobytes(), lineup
        made.time, made.evidence = self.fresh_time, self.keeper.noted(lineup, self.F)
        made.learn = True
        return made

    def learn(self, number: int, loss: float) -> None:
        """Learn from a pending decision and close it; frozen, only count its loss."""
        if number == self.fresh:
            self.tell(self.fresh_slot, self.fresh_inverse_p, loss)
            index = self.lineup.indices[self.fresh_slot]
            self.fresh = NOTHING_FRESH
        else:
            records = self.ledger.records
            kept = records[number]
            # As `Ledger` does; one call less makes late feedback 2 % faster.
            entry = kept.record(number) if type(kept) is Batch else kept
            index = self._learn_late(number, entry, loss)  # type: ignore[arg-type]
            del records[number]
            self._advance()
        roster = self.roster
        roster.told[index] += 1
        roster.losses[index] += loss

    def _learn_late(self, number: int, entry: Pending, loss: float) -> int:
        """Learn from a late answer unless frozen; return the index of the decision's arm."""
        slot, then, notes = entry.slot, entry.lineup, entry.notes
        index = then.indices[slot]
        if self.frozen or not entry.learn:
            return index
        if self.fresh:
            self.settle()
        if self._learn is None:
            self._learn = self._learner()
        lineup, present, room = self.lineup, EVERYONE, self.N_bytes
        if then is not lineup:
            slot = self.roster.slot_of[index]
            present = then.present
        if len(notes) == len(room):
            room[:] = notes
        else:
            # Arms that came later have no bits.
            room[: len(notes)] = notes
            room[len(notes) :] = bytes(len(room) - len(notes))
        inverse_p = float(self.N[INVERSE_P])
        self._learn(
            self.F, slot, loss, number, self.N, lineup.index_array, present, index, self.flags
        )
        self.keeper.late(number, index, inverse_p, loss, entry.evidence)
        return index

    def learn_many(self, numbers: Sequence[int], losses: Array, owner: str) -> None:
        """Learn from distinct pending decisions in this order, or refuse all."""
        if self.fresh:
            self.settle()
        late, lineup, ledger = self.late_kernels(), self.lineup, self.ledger
        batch = ledger.batch(numbers)
        if batch is not None and batch.lineup is lineup:
            slots, notes = batch.slots, batch.notes
            noted: Any = batch.evidence
        else:
            found = []
            for number in numbers:
                if number not in ledger.records:
                    raise self.refusal(number, owner)
                found.append(ledger[number])
            size = len(self.N_bytes)
            if any(each.lineup is not lineup or len(each.notes) != size for each in found):
                for number, entry, loss in zip(numbers, found, losses.tolist(), strict=True):
                    self._learn_late(number, entry, loss)
                ledger.close(numbers)
                self._advance()
                self.roster.learned(np.array([each.arm_index for each in found], np.intp), losses)
                return
            slots = np.array([each.slot for each in found], np.int64)
            noted = [each.evidence for each in found]
            notes = np.frombuffer(b"".join(each.notes for each in found))
            notes = notes.reshape(len(found), -1).copy()
        if type(numbers) is range:
            order = np.arange(numbers.start, numbers.stop, dtype=np.float64)
        else:
            order = np.array(numbers, np.float64)
        indices = lineup.index_array
        inverse_p = notes[:, INVERSE_P].copy()
        learn = self.policy.guard_learning(late.tell_many)
        learn(self.F, slots, losses, order, notes, indices, EVERYONE)
        ledger.close(numbers)
        keeper = self.keeper
        if keeper.keeps:
            last = self._pending_from(keeper.frontier) if ledger.records else self.round + 1
            keeper.late_many(numbers, indices[slots], inverse_p, losses, noted, last)
            self._advance()
        self.roster.learned(indices[slots], losses)

    def drop(self, number: int) -> None:
        """Close a pending decision without learning from it."""
        if number == self.fresh:
            self.settle()
        self.roster.dropped[self.ledger[number].arm_index] += 1
        del self.ledger.records[number]
        self._advance()

    def freeze(self) -> None:
        """Stop learning, and draw from now on from the present distribution."""
        if self.fresh:
            self.settle()
        self.frozen = self.frozen or self.round + 1

    # --- arms ----------------------------------------------------------------------------------

    def older(self, limit: int | timedelta) -> list[int]:
        """Return the pending decisions beyond an age, in rounds or in time."""
        if self.fresh:
            self.settle()
        return self.ledger.older(limit, self.round)

    def add_arm(self, arm: Arm, probability: float | None) -> None:
        """Add an arm, or restore a retired one."""
        old = columns(self.F, self.policy)
        head = self.F[self.start : self.start + self.policy.traits.head_rows]
        new = self.policy.newcomer(head, old, self.round + 1, probability)
        arms = np.column_stack([old, new])
        why = self.policy.missing(arms, range(arms.shape[1]))
        if why:
            raise invalid("name", "Bandit.add_arm", f"such that {why}", arm)
        F = self._resized(arms)
        self.roster.enter(arm)
        self.keeper.grow(len(self.roster.names))
        self._place(F, self.lineup.origin)

    def retire_arm(self, slot: int) -> None:
        """Remove the arm of a slot from those that are played."""
        old = columns(self.F, self.policy)
        kept = [place for place in range(old.shape[1]) if place != slot]
        why = self.policy.missing(old, kept)
        if why:
            name = self.roster.playing()[slot]
            raise invalid("name", "Bandit.retire_arm", f"such that of the other arms {why}", name)
        estimate = float(old[0, slot] - old[0].min()) if self.policy.traits.estimates else None
        F = self._resized(np.delete(old, slot, axis=1))
        self.roster.leave(slot, estimate)
        self._place(F, self.lineup.origin)

    def _resized(self, arms: Array) -> Array:
        """Return the state with other arms, and solvers that restart."""
        if self.fresh:
            self.settle()
        policy, n_arms = self.policy, arms.shape[1]
        program = policy.program(n_arms)
        F = with_columns(self.F, policy, arms, program)
        if program.kernels.estimates_changed is None:
            return rebuilt(policy, n_arms, self.round, generator(F), saved(F, policy))
        return F

    # --- reading -------------------------------------------------------------------------------

    def probabilities(self, shift: Shift | None = None) -> dict[Arm, float]:
        """Return how likely every arm is in the next round, drawing nothing."""
        slots = None if shift is None else np.arange(len(self))
        return _shares(*self.draw_aside(self.frozen or self.round + 1, slots, True, shift)[:2])

    def canonicalise(self) -> None:
        """Restart the solver from the numbers that a state file keeps."""
        if self.fresh:
            self.settle()
        numbers = saved(self.F, self.policy)
        self.F[:] = rebuilt(self.policy, len(self), self.round, generator(self.F), numbers)

    def copy(self, seed: int | None) -> Self:
        """Return an independent core in the same state, drawing by another seed if given."""
        made = type(self).__new__(type(self))
        F = self.F.copy()
        made.policy, made.seed, made.round = self.policy, self.seed, self.round
        made.roster = self.roster.copy()
        made.ledger = self.ledger.copy()
        made.fresh, made.fresh_slot = self.fresh, self.fresh_slot
        made.fresh_inverse_p, made.fresh_time = self.fresh_inverse_p, self.fresh_time
        made.frozen = self.frozen
        made.F, made.rows, made.start = F, F.data, self.start
        made.program = self.program
        where = address(F)
        ask: Any = self.ask
        trusted = self.policy.traits.trusted
        made.ask = placed(ask.__func__, where) if trusted else made._asking(F, self.program)
        made.keeper = self.keeper.copy()
        lineup = self.lineup
        live = None if lineup.live is None else partial(unchanged, F)
        made.lineup = lineup.for_bandit(Origin(lineup.origin.seed, crossed=True), live)
        made._plain = None
        if self._prompt == self._tell_first:
            made._prompt = made._tell_first
        else:
            again = made.keeper.telling_again
            kernels = self.program.prompt
            tell = again(self._prompt, self.policy, kernels, F, where, made.lineup)
            made._prompt = _queueing(made) if tell is None else tell
        made.in_order()
        made.note, made._learn, made._late = self.note, self._learn, self._late
        if self._late is not None:
            made._make_room(self.N.size)
        made._subsets = {}
        if seed is not None:
            made.seed = seed
            generator(F)[:] = stream_words(seed, "Bandit")
        return made


def started(policy: Policy, names: list[Arm], seed: int, evidence: bool) -> Core:
    """Return the core of a new bandit, before its first round."""
    words = stream_words(seed, "Bandit")
    F = pack(policy, len(names), words, state=policy.start_of(names))
    return Core(policy, Roster(names), seed, F, EvidenceKeeper(len(names), evidence))


def _plain(core: Core) -> Callable[[int, float, float], None]:
    """Return the compiled function that learns from the fresh decision without evidence."""
    if core._plain is None:
        core._plain = learning(core.policy, core.program.prompt, core.F, address(core.F))
    return core._plain


def _queueing(core: Core) -> Callable[[int, float, float], None]:
    """Return a function that learns at once, and queues the evidence until its code is compiled."""
    plain = _plain(core)

    def tell(slot: int, inverse_p: float, loss: float) -> None:
        if core.keeper.queued(core.F, slot, inverse_p, loss):
            plain(slot, inverse_p, loss)
        else:
            core._tell_first(slot, inverse_p, loss)

    return tell


def _shares(F: Array, lineup: Lineup) -> dict[Arm, float]:
    """Return the probabilities of the last draw from ``F``, by name."""
    w = np.empty(len(lineup.names))
    lineup.weights(F, w)
    return dict(zip(lineup.names, w.tolist(), strict=True))


def _certain(F: Array, slots: NDArray[np.intp]) -> None:
    """Note the probability 1 of a single arm, also where the policy computes none."""
    if slots.size == 1:
        F[first_row(F)] = 1.0


def _checked_available(core: Core, available: object) -> list[int]:
    owner = "Bandit.ask"
    if isinstance(available, str | bytes) or not isinstance(available, Iterable):
        raise invalid("available", owner, "a sequence of arm names", available)
    names = list(available)
    slots = sorted({core.roster.slot(name, owner, "available") for name in names})
    if not slots or len(slots) < len(names):
        raise invalid("available", owner, "one or more distinct arms", names)
    if len(slots) < len(core):
        policy = core.policy
        if not policy.traits.separable:
            expected = f"all arms, which {policy!r} describes together"
            raise invalid("available", owner, expected, names)
        if columns(core.F, policy).shape[1] != len(core):
            expected = f"all arms, because the state of {policy!r} has no rows by arm"
            raise invalid("available", owner, expected, names)
        why = policy.missing(columns(core.F, policy), slots)
        if why:
            raise invalid("available", owner, f"such that {why}", names)
    return slots


def _subset_of(core: Core, slots: NDArray[np.intp]) -> Subset:
    """Return the arms in these slots, with compiled functions where the policy has them."""
    policy, n_arms = core.policy, slots.size
    program = policy.program(n_arms)
    same = core.program.plain and program.plain
    if not (same and policy.traits.trusted) or core.frozen:
        return Subset(slots)
    room = np.zeros(program.head_rows + program.rows_per_arm * n_arms)
    F = pack(policy, n_arms, stream_words(core.seed, "Bandit"), program, room)
    indices = [core.roster.slots[slot] for slot in slots.tolist()]
    lineup = core.lineup_of(indices, core.lineup.origin, F, program)
    late = late_kernels(policy, program)
    N = np.zeros(width(policy, program, len(core.roster.names)))
    flags, w = np.zeros(n_arms, np.uint8), np.zeros(n_arms)
    ask = direct(late.ask_among, core.F, slots, F, 0)
    note = direct(late.note, F, lineup.index_array, N, flags, w)
    return Subset(slots, policy.traits.rows_per_arm, lineup, F, N, ask, note, flags, w)


def _draw_one_by_one(core: Core, slots: Any, notes: Array, snapshots: Array) -> None:
    """Same as the compiled loop, with every choice checked."""
    before = core.F.copy()
    try:
        for place in range(slots.size):
            core.F[ROUND] += 1.0
            slots[place] = core.ask()
            if snapshots.size:
                snapshots[place] = core.F
            core.note(core.F, core.lineup.index_array, notes[place], core.flags, core.w)
    except KernelError:
        core.F[:] = before
        raise


def adopt(core: Core, slot: int, probability: float | None) -> int:
    """Make the decision that a log names, and return its round."""
    if core.fresh:
        core.settle()
    late, kernels = core.late_kernels(), core.program.kernels
    number = core.round + 1
    # Drawn aside, for what the policy notes of its distribution in this round.
    F, lineup, _ = core.draw_aside(number)
    if kernels.opens:
        # The draw aside was of another arm.
        kernels.asked(F, slot)
    row = first_row(F)
    if not core.policy.traits.knows_probability:
        F[row] = 0.0
    elif probability is not None:
        F[row] = 1.0 / probability
    else:
        kernels.weights(F, core.w)
        F[row] = 1.0 / core.w[slot] if core.w[slot] > 0.0 else 1.0
    late.note(F, lineup.index_array, core.N, core.flags, core.w)
    core.round = number
    if kernels.parts is not None and kernels.parts.any_draw:
        # As long as it is the last decision, it teaches as it taught the first time.
        core.F[:] = F
        core.fresh, core.fresh_slot, core.fresh_inverse_p = number, slot, float(F[row])
        core.fresh_time = now()
        return number
    if kernels.asked is None:
        core.F[:] = F
    else:
        # The draw aside has counted another arm.
        generator(core.F)[:] = generator(F)
        core.rows[ROUND] = number
        kernels.asked(core.F, slot)
    core._hold(number)
    core.ledger.records[number] = pending(slot, core.N.tobytes(), lineup, now())
    return number
