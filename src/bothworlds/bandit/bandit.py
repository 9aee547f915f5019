"""`Bandit`: a policy at work. `ask` draws an arm, `tell` learns from what it brought."""

from __future__ import annotations

import contextlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from time import time as now
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import LARGEST, checked_bounds, flag, is_whole, real
from bothworlds.bandit.account import MANY as MANY_ARMS
from bothworlds.bandit.account import Account, keeps_sums
from bothworlds.bandit.arms import ArmHistory, Roster, checked_names, checked_newcomer, html_table
from bothworlds.bandit.decision import (
    NOT_COPIED,
    Arm,
    Decision,
    Decisions,
    Lineup,
    ListedDecisions,
    Origin,
    decided,
)
from bothworlds.bandit.feedback import (
    UNBOUNDED,
    Feedback,
    clipped_loss,
    loss_within,
    losses_within,
)
from bothworlds.bandit.pending import (
    About,
    Entry,
    Notes,
    about_of,
    checked_age,
    checked_key,
    closed,
    document_of,
    entry_of,
    inverse_p_of,
    time_of,
    width,
)
from bothworlds.bandit.persistence import Persistent
from bothworlds.bandit.reading import MOST, brief, listed, many, record, truth, whole
from bothworlds.bandit.state import (
    columns,
    first_row,
    generator,
    pack,
    rebuilt,
    saved,
    unchanged,
    with_columns,
)
from bothworlds.errors import (
    DecisionClosed,
    InvalidFeedback,
    InvalidParameter,
    KernelError,
    UnknownDecision,
    must,
)
from bothworlds.lanes.direct import address, direct, placed
from bothworlds.lanes.kernels import ARMS, ROUND
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.wrap import drawing_code
from bothworlds.logs.jsonl import Log, Target
from bothworlds.logs.record import LoggedDecision
from bothworlds.policies.base import Array, Policy, Saved
from bothworlds.policies.late import INVERSE_P, LateKernels, late_kernels
from bothworlds.seeding import checked_seed, stream_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bothworlds.bandit.alarms import Alarm
    from bothworlds.evidence.evidence import Evidence
    from bothworlds.evidence.report import Report

__all__ = ["ArmHistory", "Bandit", "Decision"]

NOTHING_FRESH = 0
EVERYONE = np.zeros(0, np.uint8)
"""Stands for the arms that could be drawn where these are all there are."""
MOST_LINEUPS = 64
"""How many selections of available arms a bandit keeps ready."""


class Bandit(Persistent[Policy]):
    """A policy at work: it draws arms, waits for feedback and learns.

    Feedback may come late, in any order, for any number of outstanding decisions, once each. It
    is weighted with the probabilities at decision time. Threads may share a bandit. In a process
    forked after it was made, it refuses to ask and tell; its ``copy(seed=...)`` does not.

    Parameters
    ----------
    policy : Policy
        The algorithm, such as ``TsallisINF()``.
    arms : sequence of str or int, or int
        The names of the arms, or their number K for the names 0, ..., K - 1.
    seed : int, optional
        Makes the draws repeatable. Without it a fresh one is drawn, which `seed` shows.
    bounds : pair of float, optional
        The smallest and the largest possible reward, or loss, in the user's units; (0, 1) by
        default. A value beyond them by rounding, 1e-9 of their distance, counts as the bound.
        Policies for losses without bounds, such as `HTINF`, need none: they take any finite loss,
        and minus a reward; beyond 1e50 it counts as 1e50.
    clip : bool, default False
        Whether a value beyond the bounds counts as the bound instead of being refused; `clipped`
        says how many did.
    log : path or callable, optional
        Where a line goes for every decision and one for every feedback, as JSON lines appended to
        a file, or as a mapping handed to a function. It is written before `ask` and `tell` return.
    evidence : bool, optional
        Whether to keep the sums that `report`, `plot` and `alarms` need, which makes a round about
        a tenth slower and a state file longer by 3 kilobytes an arm; by default up to 64 arms, and
        where the policy has a `Floor`.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green", "red"], seed=7)
    >>> for _ in range(1000):
    ...     decision = bandit.ask()
    ...     bandit.tell(decision, reward=1.0 if decision.arm == "green" else 0.0)
    >>> max(bandit.probabilities(), key=bandit.probabilities().get)
    'green'
    """

    __slots__ = (
        "_F",
        "_N",
        "_N_bytes",
        "_account",
        "_among",
        "_ask",
        "_bounds",
        "_clip",
        "_clipped",
        "_flags",
        "_fresh",
        "_fresh_inverse_p",
        "_fresh_slot",
        "_fresh_time",
        "_frozen",
        "_late",
        "_learn",
        "_ledger",
        "_lineup",
        "_log",
        "_note",
        "_rewards",
        "_roster",
        "_rows",
        "_special",
        "_start",
        "_tell",
        "_unlearned",
        "_w",
    )

    _OWNER = "Bandit"
    _FORMAT = "bothworlds.bandit"
    _VERSION = 2

    _F: Array
    _bounds: tuple[float, float]
    _fresh: int
    _fresh_inverse_p: float
    _fresh_slot: int
    _ledger: dict[int, Entry | Notes]
    _late: LateKernels | None
    _learn: Any
    _note: Any
    _roster: Roster
    _log: Log | None
    """When the pending decisions were made that are not the fresh one."""
    _unlearned: set[int]
    """Pending decisions of a frozen bandit."""
    _special: bool
    """Whether asking and telling take the longer way: for a log, or frozen."""

    def __init__(
        self,
        policy: Policy,
        arms: Iterable[Arm] | int,
        *,
        seed: int | None = None,
        bounds: tuple[float, float] | None = None,
        clip: bool = False,
        log: Target | None = None,
        evidence: bool | None = None,
    ) -> None:
        if not isinstance(policy, Policy):
            expected = "a policy such as TsallisINF()"
            raise InvalidParameter(must("policy", "Bandit", expected, policy))
        roster = Roster(checked_names(arms))
        if bounds is None:
            checked = UNBOUNDED if policy.traits.unbounded else (0.0, 1.0)
        else:
            checked = checked_bounds(bounds)
        seed = checked_seed(seed, "Bandit")
        F = pack(policy, len(roster.slots), stream_words(seed, "Bandit"))
        clips = flag("clip", clip, "Bandit")
        limited = checked != UNBOUNDED
        wanted = limited and keeps_sums(policy, len(roster.slots))
        if evidence is not None:
            wanted = flag("evidence", evidence, "Bandit")
        if wanted and not limited:
            expected = "False without bounds, on which every interval rests"
            raise InvalidParameter(must("evidence", "Bandit", expected, evidence))
        self._open(policy, roster, seed, checked, Origin(seed), F, wanted)
        self._clip = clips
        self.log = log

    def _open(
        self,
        policy: Policy,
        roster: Roster,
        seed: int,
        bounds: tuple[float, float],
        origin: Origin,
        F: Array,
        wanted: bool,
    ) -> None:
        """Start from a packed state."""
        self._policy = policy
        self._roster = roster
        self._seed = seed
        self._seen = {}
        self._keyed = {}
        self._named = {}
        self._bounds = bounds
        self._rewards = False
        self._account = Account(len(roster.names), wanted)
        self._round = int(F[ROUND])
        self._ledger = {}
        # The last decision, while nothing has happened since: the state still holds all that
        # its feedback needs. Every other pending decision is in the ledger.
        self._fresh = NOTHING_FRESH
        self._fresh_slot = 0
        self._fresh_inverse_p = 0.0
        self._fresh_time = 0.0
        self._unlearned = set()
        self._clip = False
        self._clipped = 0
        self._frozen = 0
        self._log = None
        self._special = False
        self._place(F, origin, told=not origin.crossed)
        self._guard()

    def _place(self, F: Array, origin: Origin, told: bool = True) -> None:
        """Take ``F`` as the state; the roster already knows its arms.

        ``told`` is whether feedback is expected: code of some length is loaded for it.
        """
        self._F = F
        # Reading one number through a memoryview costs half of what indexing an array does.
        self._rows = F.data
        self._start = first_row(F)
        self._ask = self._asking(F)
        self._lineup = self._lineup_of(self._roster.slots, origin, F)
        self._tell = self._telling() if told else self._tell_first
        # What late feedback and missing arms need is made when they first come.
        self._note = self._learn = self._late = None
        self._among: dict[tuple[Arm, ...], _Among] = {}

    def _prepare_late(self) -> None:
        """Get the compiled functions for late feedback, and room for the notes of a decision."""
        policy, program = self._policy, self._policy.program(len(self))
        late = self._late = late_kernels(policy, program)
        N = self._N = np.zeros(width(policy, program, len(self._roster.names)))
        self._N_bytes = N.data.cast("B")
        flags = self._flags = np.zeros(len(self), np.uint8)
        w = self._w = np.zeros(len(self))
        indices, F = self._lineup.index_array, self._F
        self._note = direct(late.note, F, indices, N, flags, w)

    def _prepare_learning(self) -> None:
        """Get the compiled function that learns from a decision of the past."""
        late = self._made_late()
        F, N, indices, flags = self._F, self._N, self._lineup.index_array, self._flags
        learn = direct(late.learn, F, 0, 0.0, 0.0, N, indices, EVERYONE, 0, flags)
        self._learn = self._policy.guard_learning(learn)

    def _telling(self) -> Callable[..., None]:
        """Return the compiled function that learns from the last decision."""
        return self._account.telling(self._policy, self._F, address(self._F), self._lineup)

    def _tell_first(self, slot: int, inverse_p: float, loss: float) -> None:
        """Learn from the last decision for the first time since the bandit was loaded."""
        self._tell = self._telling()
        self._tell(slot, inverse_p, loss)

    def _made_late(self) -> LateKernels:
        if self._late is None:
            self._prepare_late()
        assert self._late is not None
        return self._late

    def _asking(self, F: Array) -> Callable[[], int]:
        """Return the compiled function that draws an arm from ``F``."""
        policy = self._policy
        ask = policy.program(int(F[ARMS])).prompt.ask
        if policy.traits.trusted:
            made: Callable[[], int] = placed(drawing_code(ask), address(F))
            return made
        return partial(policy.guard_choice(direct(ask, F)), F)

    def _lineup_of(self, indices: Iterable[int], origin: Origin, F: Array) -> Lineup:
        """Return what decisions drawn from ``F`` have in common."""
        names = self._roster.names
        indices = tuple(indices)
        program = self._policy.program(len(indices))
        kernel = program.kernels.weights if self._policy.traits.knows_probability else None
        # With many arms a decision does not copy the packed bandit but looks at the bandit's own.
        live = None if program.plain else partial(unchanged, F)
        return Lineup(origin, tuple(names[index] for index in indices), indices, kernel, live)

    def _noted(self) -> Entry:
        """Return what a late tell will need of the last decision."""
        if self._note is None:
            self._prepare_late()
        lineup = self._lineup
        self._note(self._F, lineup.index_array, self._N, self._flags, self._w)
        noted = self._account.noted(lineup, self._F)
        return self._fresh_slot, self._N.tobytes(), lineup, self._fresh_time, noted

    def _settle(self) -> None:
        """Enter the last decision into the ledger, because the state is about to change."""
        self._ledger[self._fresh] = self._noted()
        self._fresh = NOTHING_FRESH

    def _entry(self, number: int) -> Entry | None:
        """Return what is kept of the pending decision of a round that is not the fresh one."""
        entry = self._ledger.get(number)
        return entry.entry(number) if type(entry) is Notes else entry  # type: ignore[return-value]

    def _learn_late(self, number: int, entry: Entry, value: float) -> int:
        """Learn from a decision of the past; return the index of its arm."""
        if self._fresh:
            self._settle()
        if self._learn is None:
            self._prepare_learning()
        slot, raw, then, _, noted = entry
        index = then.indices[slot]
        lineup = self._lineup
        present = EVERYONE
        if then is not lineup:
            slot = self._roster.slot_of[index]
            present = then.present
        room = self._N_bytes
        if len(raw) == len(room):
            room[:] = raw
        else:
            # Arms that came later have no bits.
            room[: len(raw)] = raw
            room[len(raw) :] = bytes(len(room) - len(raw))
        indices = lineup.index_array
        inverse_p = float(self._N[INVERSE_P])
        self._learn(self._F, slot, value, number, self._N, indices, present, index, self._flags)
        self._account.late(number, index, inverse_p, value, noted)
        return index

    # --- asking ------------------------------------------------------------------------------

    def ask(self, available: Iterable[Arm] | None = None, *, key: str | None = None) -> Decision:
        """Draw an arm to play.

        Parameters
        ----------
        available : iterable of str or int, optional
            The arms that can be played right now; by default all. The policy then decides as if
            there were no others, and the decision carries the exact probabilities among them.
            With the feedback, policies that keep cumulative loss estimates add their own
            estimated loss of the round to the arms that were away, so that these keep
            their standing. No regret theorem covers rounds with arms away.
        key : str, optional
            A name of your own for the decision, such as a request's. While the decision is
            pending, asking with the same key returns it again, and `tell` takes the key.

        Returns
        -------
        Decision
            Hand it, or its ``id``, to `tell` when the feedback is there.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green", "red"], seed=7)
        >>> sorted(bandit.ask(available=["blue", "red"]).probabilities)
        ['blue', 'red']
        >>> decision = bandit.ask(key="request-17")
        >>> bandit.ask(key="request-17") is decision
        True
        >>> bandit.tell("request-17", reward=1.0)
        """
        if available is not None or key is not None or self._special:
            return self._ask_otherwise(available, key)
        try:
            self._take()
        except IndexError:
            self._lock.wait()
        try:
            if self._fresh:
                self._settle()
            rows = self._rows
            lineup = self._lineup
            number = self._round + 1
            rows[ROUND] = number
            try:
                slot = self._ask()
            except KernelError:
                rows[ROUND] = self._round
                raise
            inverse_p = rows[self._start]
            self._round = number
            self._fresh = number
            self._fresh_slot = slot
            self._fresh_inverse_p = inverse_p
            self._fresh_time = now()
            # As `decided` does; one call less makes a round 6 % faster.
            decision = Decision()
            decision.arm = lineup.names[slot]
            decision.index = lineup.indices[slot]
            decision.round = number
            decision.time = self._fresh_time
            decision._inverse_p = inverse_p
            decision._snapshot = rows.tobytes() if lineup.copied else lineup.blank
            decision._lineup = lineup
            return decision
        finally:
            self._give(None)

    def _ask_otherwise(self, available: Iterable[Arm] | None, key: str | None) -> Decision:
        """Ask among some arms, by a key, frozen, or with a log."""
        if key is not None:
            checked_key(key, "Bandit.ask")
            with self._keys:
                found = self._keyed.get(key)
                if found is None:
                    found = self._ask_otherwise(available, None)
                    found._key = key
                    self._keyed[key] = found
                    self._named[found.round] = key
                return found
        with self._lock:
            if self._frozen:
                decision = self._ask_frozen(available)
            else:
                among = None if available is None else self._ask_available(available)
                decision = self._draw() if among is None else among
            if self._log is not None:
                try:
                    self._log(LoggedDecision.of(decision, time=decision.time))
                except BaseException:
                    # A decision that nobody hears of must not wait for feedback.
                    self._drop(decision.round)
                    raise
            return decision

    def _draw(self) -> Decision:
        """Draw from all arms, under the lock."""
        if self._fresh:
            self._settle()
        number = self._round + 1
        self._rows[ROUND] = number
        try:
            slot = self._ask()
        except KernelError:
            self._rows[ROUND] = self._round
            raise
        self._round = self._fresh = number
        self._fresh_slot = slot
        self._fresh_inverse_p = self._rows[self._start]
        self._fresh_time = now()
        return self._decided(self._F, slot, number, self._lineup, self._fresh_time)

    def _decided(self, F: Array, slot: int, number: int, lineup: Lineup, time: float) -> Decision:
        """Return the decision just drawn from ``F``."""
        snapshot = F.tobytes() if lineup.copied else lineup.blank
        inverse_p = float(F[first_row(F)])
        arm, index = lineup.names[slot], lineup.indices[slot]
        return decided(arm, index, number, inverse_p, snapshot, lineup, time)

    def _ask_frozen(self, available: Iterable[Arm] | None) -> Decision:
        """Draw as on the day of the freeze, and learn nothing from it later."""
        slots = None if available is None else self._checked_available(available)
        if slots is None or len(slots) == len(self):
            F, lineup = self._F.copy(), self._lineup
        else:
            rows = columns(self._F, self._policy)[:, slots]
            F = with_columns(self._F, self._policy, rows)
            indices = [self._roster.slots[slot] for slot in slots]
            lineup = self._lineup_of(indices, self._lineup.origin, F)
        F[ROUND] = self._frozen
        slot = self._asking(F)()
        generator(self._F)[:] = generator(F)
        number = self._round = self._round + 1
        time = now()
        policy, known = self._policy, len(self._roster.names)
        notes = np.zeros(width(policy, policy.program(len(self)), known))
        notes[INVERSE_P] = F[first_row(F)]
        self._ledger[number] = (slot, notes.tobytes(), lineup, time, None)
        self._unlearned.add(number)
        decision = self._decided(F, slot, number, lineup, time)
        if lineup.weights is not None:
            # Now, because nobody keeps ``F``.
            w = np.empty(len(lineup.names))
            lineup.weights(F, w)
            decision._set_probabilities(dict(zip(lineup.names, w.tolist(), strict=True)))
        return decision

    def _ask_available(self, available: Iterable[Arm]) -> Decision | None:
        """Draw from some of the arms; None if they are all there are."""
        among = None
        if type(available) is list or type(available) is tuple:
            names = tuple(available)
            # True equals 1, so that the types are part of the question.
            if {str, int}.issuperset(map(type, names)):
                among = self._among.get(names)
        if among is None:
            slots = self._checked_available(available)
            if len(slots) == len(self):
                return None
            among = self._among_of(slots)
            if among is None:
                return self._ask_among(slots)
            if type(available) is list or type(available) is tuple:
                if len(self._among) >= MOST_LINEUPS:
                    self._among.clear()
                self._among[tuple(available)] = among
        if self._fresh:
            self._settle()
        F = among.F
        place = among.ask(self._F, among.slots, F, among.rows)
        number = self._round = self._round + 1
        lineup = among.lineup
        among.note(F, lineup.index_array, among.N, among.flags, among.w)
        time = now()
        noted = self._account.noted(lineup, F)
        self._ledger[number] = (place, among.N.tobytes(), lineup, time, noted)
        return self._decided(F, place, number, lineup, time)

    def _among_of(self, slots: list[int]) -> _Among | None:
        """Return what draws from these slots alone; None where that is not compiled."""
        policy = self._policy
        program = policy.program(len(slots))
        same = policy.program(len(self)).plain and program.plain
        if not (same and policy.traits.trusted):
            return None
        indices = [self._roster.slots[slot] for slot in slots]
        F = pack(policy, len(slots), stream_words(self._seed, "Bandit"), program)
        lineup = self._lineup_of(indices, self._lineup.origin, F)
        late = late_kernels(policy, program)
        N = np.zeros(width(policy, program, len(self._roster.names)))
        where = np.array(slots, np.intp)
        flags, w = np.zeros(len(slots), np.uint8), np.zeros(len(slots))
        return _Among(
            F,
            where,
            lineup,
            N,
            first_row(F),
            policy.traits.rows_per_arm,
            direct(late.ask_among, self._F, where, F, 0),
            direct(late.note, F, lineup.index_array, N, flags, w),
            flags,
            w,
        )

    def _checked_available(self, available: Iterable[Arm]) -> list[int]:
        owner = "Bandit.ask"
        if isinstance(available, str | bytes) or not isinstance(available, Iterable):
            raise InvalidParameter(must("available", owner, "a sequence of arm names", available))
        names = list(available)
        slots = sorted({self._roster.slot(name, owner, "available") for name in names})
        if not slots or len(slots) < len(names):
            raise InvalidParameter(must("available", owner, "one or more distinct arms", names))
        if len(slots) < len(self):
            self._check_separable(names)
        return slots

    def _check_separable(self, names: list[Arm]) -> None:
        """Refuse to leave arms out if the policy has numbers that cannot be told apart by arm."""
        policy = self._policy
        if not policy.traits.separable:
            expected = f"all arms, which {policy!r} describes together"
        elif columns(self._F, policy).shape[1] != len(self):
            expected = f"all arms, because the state of {policy!r} has no rows by arm"
        else:
            return
        raise InvalidParameter(must("available", "Bandit.ask", expected, names))

    def _ask_among(self, slots: list[int]) -> Decision:
        if self._fresh:
            self._settle()
        policy = self._policy
        indices = [self._roster.slots[slot] for slot in slots]
        rows = columns(self._F, policy)[:, slots]
        if policy.traits.estimates:
            # Only differences matter, and far from 0 they would be lost.
            rows[0] -= rows[0].min()
        F = with_columns(self._F, policy, rows)
        lineup = self._lineup_of(indices, self._lineup.origin, F)
        F[ROUND] = self._round + 1
        place = self._asking(F)()
        generator(self._F)[:] = generator(F)
        asked = policy.program(len(self)).kernels.asked
        if asked is not None:
            asked(self._F, slots[place])
        self._rows[ROUND] = self._round = self._round + 1
        program = policy.program(len(slots))
        N = np.zeros(width(policy, program, len(self._roster.names)))
        flags, w = np.zeros(len(slots), np.uint8), np.zeros(len(slots))
        late_kernels(policy, program).note(F, lineup.index_array, N, flags, w)
        time = now()
        noted = self._account.noted(lineup, F)
        self._ledger[self._round] = (place, N.tobytes(), lineup, time, noted)
        return self._decided(F, place, self._round, lineup, time)

    # --- telling -----------------------------------------------------------------------------

    def tell(
        self,
        decision: Decision | int | str,
        *,
        reward: Feedback | None = None,
        loss: Feedback | None = None,
    ) -> None:
        """Learn what a decision brought.

        Parameters
        ----------
        decision : Decision, int or str
            What `ask` returned, its ``id``, or the key it was asked with; any pending one, in any
            order.
        reward, loss : number or bool
            Exactly one of them, within the bounds of the bandit.

        Raises
        ------
        InvalidFeedback
            If the reward or loss is missing, given twice, not a number or out of bounds.
        DecisionClosed
            If the decision was already told or has expired.
        UnknownDecision
            If the decision is not one of this bandit's.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.UCB1(), arms=2, seed=7, bounds=(0, 250))
        >>> first, second = bandit.ask(), bandit.ask()
        >>> bandit.tell(second, reward=120)
        >>> bandit.tell(first.id, loss=30)
        >>> bandit.tell(first, loss=30)
        Traceback (most recent call last):
        ...
        bothworlds.errors.DecisionClosed: The decision of Bandit.tell must be pending, got 1, ...
        """
        if self._special:
            self._tell_otherwise(decision, reward, loss)
            return
        try:
            self._take()
        except IndexError:
            self._lock.wait()
        try:
            if type(decision) is Decision and decision._lineup is self._lineup:
                number = decision.round
            else:
                number = self._admit(decision)
            # As `loss_within` does; one call less makes a round 5 % faster.
            low, high = self._bounds
            given: Any = reward if loss is None else loss
            kind = type(given)
            plain = kind is float or kind is int or kind is bool
            if plain and low <= given <= high and (reward is None or loss is None):
                value = (high - given if loss is None else given - low) / (high - low)
            else:
                value = self._loss_of(reward, loss, "Bandit.tell")
            if number == self._fresh:
                slot = self._fresh_slot
                self._tell(slot, self._fresh_inverse_p, value)
                self._fresh = NOTHING_FRESH
                if self._named:
                    self._unname(number)
                index = self._lineup.indices[slot]
            else:
                entry = self._entry(number)
                if entry is None:
                    raise self._refusal(number)
                index = self._learn_late(number, entry, value)
                self._forget(number)
            roster = self._roster
            roster.told[index] += 1
            roster.losses[index] += value
            if reward is not None:
                self._rewards = True
        finally:
            self._give(None)

    def _tell_otherwise(self, decision: Any, reward: Any, loss: Any) -> None:
        """Learn what a decision brought and log it; frozen, only count it."""
        with self._lock:
            number = self._admit(decision)
            if not self.awaits(number):
                raise self._refusal(number)
            self._learn_from(number, reward, loss)

    def _learn_from(self, number: int, reward: Any, loss: Any) -> None:
        """Learn what a pending decision brought, under the lock."""
        counted = self._clipped
        value = self._loss_of(reward, loss, "Bandit.tell")
        is_fresh = number == self._fresh
        entry = self._noted() if is_fresh else self._entry(number)
        assert entry is not None
        if self._log is not None:
            try:
                self._log(self._logged(number, entry, reward, loss))
            except BaseException:
                self._clipped = counted
                raise
        index = entry[2].indices[entry[0]]
        if is_fresh:
            self._tell(self._fresh_slot, self._fresh_inverse_p, value)
            self._fresh = NOTHING_FRESH
            self._unname(number)
        else:
            if not self._frozen and number not in self._unlearned:
                self._learn_late(number, entry, value)
            self._forget(number)
        self._roster.told[index] += 1
        self._roster.losses[index] += value
        if reward is not None:
            self._rewards = True

    def _loss_of(self, reward: Any, loss: Any, owner: str) -> float:
        """Return the loss in [0, 1], clipped and counted where the bounds clip."""
        try:
            return loss_within(self._bounds, reward, loss, owner)
        except InvalidFeedback:
            value = clipped_loss(self._bounds, reward, loss) if self._clip else None
            if value is None:
                raise
            self._clipped += 1
            return value

    def _logged(self, number: int, entry: Entry, reward: Any, loss: Any) -> LoggedDecision:
        """Return the line of a log that says what a decision brought."""
        inverse_p = inverse_p_of(entry)
        return LoggedDecision(
            number,
            self._roster.names[entry[2].indices[entry[0]]],
            min(1.0, 1.0 / inverse_p) if inverse_p else None,
            None if loss is None else float(loss),
            None if reward is None else float(reward),
            extra={"time": now()},
        )

    def _forget(self, number: int) -> None:
        """Remove what is kept of a pending decision that is not the fresh one."""
        del self._ledger[number]
        self._unlearned.discard(number)
        self._unname(number)

    def _drop(self, number: int) -> None:
        """Close a decision of which nothing is learned."""
        if number == self._fresh:
            self._settle()
        entry = self._entry(number)
        assert entry is not None
        self._roster.dropped[entry[2].indices[entry[0]]] += 1
        self._forget(number)

    def forget(self, decision: Decision | int | str) -> None:
        """Close one decision without feedback; nothing is learned from it.

        Parameters
        ----------
        decision : Decision, int or str
            What `ask` returned, its ``id``, or the key it was asked with.

        Raises
        ------
        DecisionClosed
            If the decision was already told or has expired.
        UnknownDecision
            If the decision is not one of this bandit's.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=7)
        >>> decision = bandit.ask()
        >>> bandit.forget(decision)
        >>> bandit.pending
        []
        """
        with self._lock:
            number = self._admit(decision, "Bandit.forget")
            if not self.awaits(number):
                raise self._refusal(number, "Bandit.forget")
            self._drop(number)

    def freeze(self) -> None:
        """Decide from now on by today's distribution, and learn nothing any more.

        Feedback is still taken and counted. There is no way back: freeze a `copy` to keep the
        bandit that learns.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> bandit.tell(bandit.ask(), loss=1.0)
        >>> before = bandit.probabilities()
        >>> bandit.freeze()
        >>> bandit.tell(bandit.ask(), loss=1.0)
        >>> bandit.probabilities() == before
        True
        """
        with self._lock:
            if self._fresh:
                self._settle()
            if not self._frozen:
                self._frozen = self._round + 1
            self._special = True

    @property
    def frozen(self) -> bool:
        """Whether `freeze` was called."""
        return self._frozen > 0

    @property
    def clipped(self) -> int:
        """How many values beyond the bounds counted as the bound."""
        return self._clipped

    @property
    def log(self) -> Target | None:
        """Where decisions and feedback are logged; a loaded bandit has none until it is set."""
        return None if self._log is None else self._log.target

    @log.setter
    def log(self, target: Target | None) -> None:
        self._log = None if target is None else Log(target, "Bandit")
        self._special = self._log is not None or self._frozen > 0

    def _admit(self, decision: object, owner: str = "Bandit.tell") -> int:
        """Return the round of a decision that is not plainly one of this bandit's."""
        if type(decision) is str:
            found = self._keyed.get(decision)
            if found is None:
                expected = "pending, a decision of this bandit, its id or its key"
                raise UnknownDecision(must("decision", owner, expected, decision))
            return int(found.round)
        if not isinstance(decision, Decision):
            if is_whole(decision):
                number = int(decision)
                if number < 1:
                    raise self._refusal(number, owner)
                return number
            expected = "a decision of this bandit, its id or its key"
            raise UnknownDecision(must("decision", owner, expected, decision))
        ours, theirs = self._lineup.origin, decision._lineup.origin
        fits = ours.may_admit(theirs)
        if fits and ours is not theirs:
            said = (decision.index, decision._inverse_p)
            if decision.round == self._fresh:
                index = self._lineup.indices[self._fresh_slot]
                fits = said == (index, self._fresh_inverse_p)
            else:
                entry = self._entry(decision.round)
                if entry is not None:
                    fits = said == (entry[2].indices[entry[0]], inverse_p_of(entry))
        if not fits or decision.round < 1:
            expected = "a decision of this bandit"
            raise UnknownDecision(must("decision", owner, expected, decision))
        return decision.round

    def _refusal(self, number: int, owner: str = "Bandit.tell") -> UnknownDecision:
        if 1 <= number <= self._round:
            return closed("decision", owner, number)
        expected = "a decision of this bandit"
        return UnknownDecision(must("decision", owner, expected, number))

    def expire(
        self,
        *,
        older_than: int | timedelta,
        loss: Feedback | None = None,
        reward: Feedback | None = None,
    ) -> list[int]:
        """Close decisions whose feedback never came.

        Parameters
        ----------
        older_than : int or timedelta
            Decisions made more than this many rounds, or this long, ago are closed; 0 closes all.
        loss, reward : float, optional
            What to assume they brought. Without it nothing is learned from them.

        Returns
        -------
        list of int
            The ids that were closed; telling them now raises `DecisionClosed`.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=7)
        >>> for _ in range(5):
        ...     decision = bandit.ask()
        >>> bandit.expire(older_than=2, loss=1.0)
        [1, 2]
        >>> bandit.pending
        [3, 4, 5]
        """
        limit = checked_age(older_than, "Bandit.expire")
        assumed = loss is not None or reward is not None
        if assumed:
            counted = self._clipped
            self._loss_of(reward, loss, "Bandit.expire")
            self._clipped = counted
        with self._lock:
            expired = self._older(limit)
            for number in expired:
                if assumed:
                    self._learn_from(number, reward, loss)
                else:
                    self._drop(number)
        return expired

    def _older(self, limit: int | timedelta) -> list[int]:
        """Return the pending decisions beyond an age, in rounds or in time."""
        if self._fresh:
            self._settle()
        if isinstance(limit, timedelta):
            latest = now() - limit.total_seconds()
            return [number for number, kept in self._ledger.items() if time_of(kept) <= latest]
        # The last decision is no round old, and 0 means all of them.
        return [number for number in self._ledger if self._round - number > limit or limit == 0]

    def _decide_as(self, arm: Arm, probability: float | None, where: str) -> int:
        """Make the decision that a log names, and return its id."""
        with self._lock:
            slot = self._roster.slot(arm, where, "arm")
            if self._fresh:
                self._settle()
            late = self._made_late()
            kernels = self._policy.program(len(self)).kernels
            number = self._round + 1
            # Drawn on the side, for what the policy notes of its distribution in this round.
            F = self._F.copy()
            F[ROUND] = number
            self._asking(F)()
            row = first_row(F)
            if not self._policy.traits.knows_probability:
                F[row] = 0.0
            elif probability is not None:
                F[row] = 1.0 / probability
            else:
                kernels.weights(F, self._w)
                F[row] = 1.0 / self._w[slot] if self._w[slot] > 0.0 else 1.0
            late.note(F, self._lineup.index_array, self._N, self._flags, self._w)
            if kernels.parts is not None and kernels.parts.any_draw:
                # As long as it is the last decision, it teaches as it taught the first time.
                self._F[:] = F
                self._round = self._fresh = number
                self._fresh_slot, self._fresh_inverse_p = slot, float(F[row])
                self._fresh_time = now()
                return number
            if kernels.asked is None:
                self._F[:] = F
            else:
                # The draw on the side has counted another arm.
                generator(self._F)[:] = generator(F)
                self._rows[ROUND] = number
                kernels.asked(self._F, slot)
            self._round = number
            self._ledger[number] = (slot, self._N.tobytes(), self._lineup, now(), None)
            return number

    # --- many at once ------------------------------------------------------------------------

    def ask_many(self, n: int) -> Decisions | ListedDecisions:
        """Draw arms for ``n`` decisions before any feedback, the same as ``n`` calls of `ask`.

        Parameters
        ----------
        n : int
            How many, at least 1.

        Returns
        -------
        Decisions
            A sequence of `Decision`. Hand it, or any part of it, to `tell_many` or `tell`.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> decisions = bandit.ask_many(1000)
        >>> bandit.tell_many(decisions, [0.0 if arm == "green" else 1.0 for arm in decisions.arms])
        >>> bandit.pending
        []
        """
        if not is_whole(n) or int(n) < 1:
            raise InvalidParameter(must("n", "Bandit.ask_many", "a whole number >= 1", n))
        n = int(n)
        if self._special:
            return ListedDecisions(self.ask() for _ in range(n))
        with self._lock:
            if self._fresh:
                self._settle()
            self._made_late()
            F, lineup = self._F, self._lineup
            slots = np.empty(n, np.int64)
            table = np.empty((n, self._N.size))
            snapshots = np.empty((n, F.size) if lineup.copied else (0, 0))
            first = self._round + 1
            if self._policy.traits.trusted:
                self._made_late().ask_many(F, slots, lineup.index_array, table, snapshots)
            else:
                self._ask_one_by_one(slots, table, snapshots)
            self._round += n
            ids = range(first, first + n)
            time = now()
            noted = self._account.noted_many(lineup, snapshots)
            notes = Notes(first, slots, table, lineup, time, noted)
            fresh: dict[int, Entry | Notes] = dict.fromkeys(ids, notes)
            if self._ledger:
                self._ledger.update(fresh)
            else:
                self._ledger = fresh
            return Decisions(ids, lineup, slots, table[:, INVERSE_P], snapshots, time)

    def _ask_one_by_one(self, slots: Any, table: Array, snapshots: Array) -> None:
        """Do what the compiled loop does, with every choice checked."""
        before = self._F.copy()
        try:
            for place in range(slots.size):
                self._F[ROUND] += 1.0
                slots[place] = self._ask()
                if snapshots.size:
                    snapshots[place] = self._F
                self._note(self._F, self._lineup.index_array, table[place], self._flags, self._w)
        except KernelError:
            self._F[:] = before
            raise

    def tell_many(
        self,
        decisions: Iterable[Decision | int],
        losses: Iterable[float] | None = None,
        *,
        rewards: Iterable[float] | None = None,
    ) -> None:
        """Learn what many decisions brought, the same as as many calls of `tell`, or refuse all.

        Parameters
        ----------
        decisions : iterable of Decision or int
            Pending decisions or their ids, each once.
        losses, rewards : iterable of float
            Exactly one of them: one number for every decision, within the bounds of the bandit.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=7)
        >>> decisions = bandit.ask_many(3)
        >>> bandit.tell_many(decisions[:2], rewards=[1.0, 0.5])
        >>> bandit.pending
        [3]
        """
        owner = "Bandit.tell_many"
        if self._special or self._clip:
            self._tell_one_by_one(decisions, losses, rewards, owner)
            return
        values = losses_within(self._bounds, rewards, losses, owner)
        with self._lock:
            self._tell_many(decisions, values, owner)
            if rewards is not None:
                self._rewards = True

    def _tell_one_by_one(self, decisions: Any, losses: Any, rewards: Any, owner: str) -> None:
        """Do what `_tell_many` does with values that are clipped, or with a log."""
        wide = (
            UNBOUNDED if self._clip and self._bounds == UNBOUNDED else (-LARGEST / 4, LARGEST / 4)
        )
        given = rewards if losses is None else losses
        given = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else given
        both = rewards is not None and losses is not None
        mine = None if losses is None else given
        theirs = None if rewards is None else given
        losses_within(
            wide if self._clip else self._bounds, rewards if both else theirs, mine, owner
        )
        with self._lock:
            numbers = self._admit_many(decisions, len(given), owner)
            for number in numbers:
                if not self.awaits(number):
                    raise self._refusal(number)
            for number, value in zip(numbers, given, strict=True):
                self._learn_from(
                    number, None if rewards is None else value, None if losses is None else value
                )

    def _tell_many(self, decisions: Iterable[Decision | int], values: Array, owner: str) -> None:
        if self._fresh:
            self._settle()
        self._made_late()
        lineup, ledger = self._lineup, self._ledger
        numbers = self._admit_many(decisions, values.size, owner)
        if not numbers:
            return
        notes = ledger.get(numbers[0])
        if type(notes) is Notes and notes.lineup is lineup and notes.are(numbers, ledger):
            slots, table = notes.slots, notes.table
            noted: Any = notes.evidence
        else:
            entries = list(map(ledger.get, numbers))
            if None in entries:
                raise self._refusal(numbers[entries.index(None)])
            found = [
                kept.entry(number) if isinstance(kept, Notes) else kept
                for number, kept in zip(numbers, entries, strict=True)
                if kept is not None
            ]
            size = len(self._N_bytes)
            if any(entry[2] is not lineup or len(entry[1]) != size for entry in found):
                indices = [
                    self._learn_late(number, entry, value)
                    for number, entry, value in zip(numbers, found, values.tolist(), strict=True)
                ]
                self._close(numbers, indices, values)
                return
            slots = np.array([entry[0] for entry in found], np.int64)
            noted = [entry[4] for entry in found]
            joined = b"".join(entry[1] for entry in found)
            table = np.frombuffer(joined).reshape(len(found), -1).copy()
        if type(numbers) is range:
            order = np.arange(numbers.start, numbers.stop, dtype=np.float64)
        else:
            order = np.array(numbers, np.float64)
        index_array = lineup.index_array
        inverse_p = table[:, INVERSE_P].copy()
        tell_many = self._policy.guard_learning(self._made_late().tell_many)
        tell_many(self._F, slots, values, order, table, index_array, EVERYONE)
        self._account.late_many(numbers, index_array[slots], inverse_p, values, noted)
        self._close(numbers, index_array[slots], values)

    def _admit_many(self, decisions: Any, count: int, owner: str) -> Sequence[int]:
        """Return the rounds of distinct decisions, as many as there are answers."""
        if type(decisions) is Decisions and decisions._lineup is self._lineup:
            numbers: Sequence[int] = decisions.ids
        else:
            numbers = [self._admit(decision) for decision in decisions]
            if len(set(numbers)) < len(numbers):
                raise InvalidParameter(must("decisions", owner, "distinct decisions", numbers))
        if len(numbers) != count:
            expected = f"as many as there are decisions, {len(numbers)}"
            raise InvalidFeedback(must("feedback", owner, expected, count))
        return numbers

    def _close(self, numbers: Sequence[int], indices: Any, values: Array) -> None:
        """Count feedback and forget the decisions it was for."""
        if len(numbers) == len(self._ledger):
            self._ledger.clear()
        else:
            # A loop in C: a batch has thousands.
            deque(map(self._ledger.__delitem__, numbers), maxlen=0)
        if self._named:
            for number in numbers:
                self._unname(number)
        self._roster.learned(np.asarray(indices, np.intp), values)

    # --- arms that come and go -----------------------------------------------------------------

    def add_arm(self, name: Arm, probability: float | None = None) -> None:
        """Add an arm while running, for every policy that keeps its numbers by arm.

        The old arms' numbers stay. `TsallisINF`, `Exp3` and `Broad` place the newcomer's estimate
        so that the arm has the given probability in the next round; while the learning rate is 0,
        as in the first round of Theorem 3, all arms are equally likely whatever is asked for. The
        other policies treat it like any arm at the start: `UCB1`, `KLUCB` and `Exp3PlusPlus` play
        it next. A retired arm comes back with its history, not with its numbers. No regret theorem
        covers a changing set of arms.

        Parameters
        ----------
        name : str or int
            The name of the new arm.
        probability : float, optional
            In (0, 1), where the policy places it; by default 1 / K, K counting the newcomer.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> bandit.add_arm("red", probability=0.2)
        >>> round(bandit.probabilities()["red"], 12)
        0.2
        """
        policy = self._resizable("add_arm")
        with self._lock:
            arm = checked_newcomer(name, self._roster)
            w0 = None if probability is None else real(probability)
            if probability is not None and (w0 is None or not 0.0 < w0 < 1.0):
                expected = "a number strictly between 0 and 1"
                raise InvalidParameter(must("probability", "Bandit.add_arm", expected, probability))
            old = columns(self._F, policy)
            head = self._F[self._start : self._start + policy.traits.head_rows]
            new = policy.newcomer(head, old, self._round + 1, w0)
            if self._fresh:
                self._settle()
            F = self._resized(np.column_stack([old, new]))
            self._roster.enter(arm)
            self._account.grow(len(self._roster.names))
            self._place(F, self._lineup.origin)

    def _resized(self, arms: Array) -> Array:
        """Return the state with other arms, and solvers that start anew."""
        policy = self._policy
        F = with_columns(self._F, policy, arms)
        if policy.program(arms.shape[1]).kernels.estimates_changed is None:
            numbers = saved(F, policy)
            return rebuilt(policy, arms.shape[1], self._round, generator(F), numbers)
        return F

    def retire_arm(self, name: Arm) -> None:
        """Stop playing an arm, for every policy that keeps its numbers by arm.

        The other arms' numbers stay. The arm keeps its index and history, and its pending
        decisions can still be told. No regret theorem covers a changing set of arms.

        Parameters
        ----------
        name : str or int
            The name of an arm; the last one cannot be retired.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green", "red"], seed=7)
        >>> bandit.retire_arm("green")
        >>> bandit.arms
        ('blue', 'red')
        """
        policy = self._resizable("retire_arm")
        with self._lock:
            slot = self._roster.slot(name, "Bandit.retire_arm")
            if len(self._roster.slots) == 1:
                expected = "an arm other than the last one"
                raise InvalidParameter(must("name", "Bandit.retire_arm", expected, name))
            old = columns(self._F, policy)
            if self._fresh:
                self._settle()
            F = self._resized(np.delete(old, slot, axis=1))
            estimate = float(old[0, slot] - old[0].min()) if policy.traits.estimates else None
            self._roster.leave(slot, estimate)
            self._place(F, self._lineup.origin)

    def _resizable(self, method: str) -> Policy:
        policy = self._policy
        if not policy.traits.resizable:
            expected = "one whose arms can change, such as TsallisINF without gaps"
            raise InvalidParameter(must("policy", f"Bandit.{method}", expected, policy))
        return policy

    # --- looking -----------------------------------------------------------------------------

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms that can be played."""
        return self._lineup.names

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and largest possible reward or loss; infinite where there is none."""
        return (-math.inf, math.inf) if self._bounds == UNBOUNDED else self._bounds

    @property
    def skipped(self) -> int:
        """How many losses the policy left out of its estimates because they were too large."""
        row = self._policy.traits.skipped_row
        return 0 if row is None else int(self._F[self._start + row])

    @property
    def pending(self) -> list[int]:
        """The ids of the decisions that wait for feedback."""
        return [*self._ledger, self._fresh] if self._fresh else list(self._ledger)

    def awaits(self, id: int) -> bool:
        """Return whether the decision with this id waits for feedback.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=7)
        >>> bandit.awaits(bandit.ask().id)
        True
        """
        return id in self._ledger or (id == self._fresh and id != NOTHING_FRESH)

    def probabilities(self) -> dict[Arm, float]:
        """Return how likely every arm is in the next round, drawing nothing.

        Raises
        ------
        InvalidParameter
            If the policy cannot tell, as Thompson sampling.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> {name: round(p, 12) for name, p in bandit.probabilities().items()}
        {'blue': 0.5, 'green': 0.5}
        """
        policy = self._policy
        if not policy.traits.knows_probability:
            expected = "one that knows its probabilities"
            raise InvalidParameter(must("policy", "Bandit.probabilities", expected, policy))
        with self._quiet:
            F = self._F.copy()
            F[ROUND] = self._frozen or self._round + 1
            self._asking(F)()
            w = np.empty(len(self._lineup.names))
            self._lineup.weights(F, w)
            return dict(zip(self._lineup.names, w.tolist(), strict=True))

    def history(self) -> dict[Arm, ArmHistory]:
        """Return what happened to every arm, retired ones included.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.UCB1(), arms=["blue", "green"], seed=7)
        >>> bandit.tell(bandit.ask(), reward=0.75)
        >>> bandit.history()["blue"]
        ArmHistory(pulls=1, told=1, mean_loss=0.25, estimate=None, retired=False, mean_reward=0.75)
        """
        with self._quiet:
            estimates = None
            if self._policy.traits.estimates:
                L = self._policy.estimated(columns(self._F, self._policy))
                estimates = (L - L.min()).tolist()
            entries = [self._entry(number) for number in self._ledger]
            pending = [entry[2].indices[entry[0]] for entry in entries]  # type: ignore[index]
            if self._fresh:
                pending.append(self._lineup.indices[self._fresh_slot])
            return self._roster.history(pending, estimates, self._bounds)

    def report(self, confidence: float = 0.95, *, drift: bool = False) -> Report:
        """Return how good every arm is, and how sure that is.

        Per arm a mean in the user's units that allows for how the arm was chosen, an interval
        valid at a time fixed in advance, and a sequence valid whenever one looks; for every pair
        by how much one arm surely beats the other. Where a statement would not be sound it is
        missing, and `why` says the reason. What is needed is kept as decisions are told, late and
        out of order included; it does not grow with the rounds.

        Parameters
        ----------
        confidence : float, default 0.95
            How sure every statement is, in [0.5, 0.999].
        drift : bool, default False
            Whether sequences and gaps must hold for means that move.

        Returns
        -------
        Report
            A mapping from arms to what is known of them.

        Raises
        ------
        InvalidParameter
            If nothing was kept: with ``evidence=False``, with more than 64 arms and neither
            ``evidence=True`` nor a `Floor`, or with 512 arms or more.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.Floor(bw.TsallisINF(), 0.5), arms=["blue", "green"], seed=7)
        >>> for t in range(2000):
        ...     decision = bandit.ask()
        ...     bandit.tell(decision, reward=float(t % 5 < (3 if decision.arm == "green" else 1)))
        >>> report = bandit.report()
        >>> low, high = report["green"].interval
        >>> low < 0.6 < high, report.gap("green", "blue") > 0.1
        (True, True)
        """
        from bothworlds.evidence.bounds import checked_confidence
        from bothworlds.evidence.report import Report, Units

        owner = "Bandit.report"
        sure = checked_confidence(confidence, owner)
        with self._lock:
            evidence = self._kept_evidence(owner).copy()
        counts = [(arm.pulls, arm.told) for arm in self.history().values()]
        return Report(
            evidence,
            list(self._roster.names),
            counts,
            Units(self._bounds, self._rewards),
            confidence=sure,
            drift=bool(drift),
            floored=self._policy.traits.floored,
            source=f"{self._policy!r}, round {self._round:,}",
        )

    def alarms(self) -> list[Alarm]:
        """Return at which arms the losses have changed, when, and how sure that is.

        Every arm's own losses are tested for a change of their mean as they are told, late ones
        when they arrive; after an alarm the arm is listened to anew. Nothing is done about it: the
        policy goes on as it was. `bothworlds.Alarmed` is the policy that begins anew.

        A false alarm in a whole run has a probability of about 1 %, which is argued and not
        proved. That an arm has improved is heard only while it is played, as with a `Floor`.

        Returns
        -------
        list of Alarm
            The latest 64, the oldest first.

        Raises
        ------
        InvalidParameter
            If nothing was kept; see `report`.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7, evidence=True)
        >>> for t in range(400):
        ...     decision = bandit.ask()
        ...     bandit.tell(decision, loss=float((decision.arm == "green") == (t >= 200)))
        >>> alarm = bandit.alarms()[0]
        >>> alarm.arm, alarm.before, alarm.after, 200 < alarm.round < 230
        ('green', 0.0, 1.0, True)
        """
        from bothworlds.evidence.report import Units

        with self._lock:
            self._kept_evidence("Bandit.alarms")
            assert self._account.alarms is not None
            units = Units(self._bounds, self._rewards)
            return self._account.alarms.heard(self._roster.names, units.value)

    def _kept_evidence(self, owner: str) -> Evidence:
        """Return the sums of told decisions, or refuse where none are kept."""
        evidence = self._account.evidence
        if evidence is None and len(self._roster.names) < MANY_ARMS:
            expected = "kept from the start, by Bandit(..., evidence=True) or a Floor"
            raise InvalidParameter(must("evidence", owner, expected, None))
        if evidence is None:
            expected = f"fewer than {MANY_ARMS}, so that sums are kept of each"
            raise InvalidParameter(must("number of arms", owner, expected, len(self)))
        return evidence

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the probabilities over time, the means with intervals, and the counts.

        Parameters
        ----------
        path : path, optional
            Where to write the figure: .png, .pdf or .svg.
        """
        from bothworlds.evidence.plot import plot_bandit

        report = self.report()
        return plot_bandit(report, report.evidence, report.source, path)

    def __len__(self) -> int:
        return len(self._roster.slots)

    def __repr__(self) -> str:
        units = "" if self._bounds in ((0.0, 1.0), UNBOUNDED) else f", bounds={self._bounds}"
        units += ", clip=True" if self._clip else ""
        # Behind a hash, so that the line can be pasted back.
        skipped = f"  # {self.skipped} losses skipped" if self.skipped else ""
        made = f"Bandit({self._policy!r}, arms={list(self.arms)}, seed={self._seed}{units})"
        return made + skipped

    def _repr_html_(self) -> str:
        known = self.probabilities() if self._policy.traits.knows_probability else {}
        caption = f"{self._policy!r}, round {self._round}"
        if self._policy.traits.skipped_row is not None:
            caption += f", {self.skipped} losses skipped"
        return html_table(caption, self.history(), known)

    # --- keeping -----------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        entries = {number: self._entry(number) for number in self._ledger}
        if self._fresh:
            entries[self._fresh] = self._noted()
        known = len(self._roster.names)
        numbers = saved(self._F, self._policy)
        single = {each.name for each in self._policy.traits.saved_head.values()}
        return {
            "seed": self._seed,
            "bounds": None if self._bounds == UNBOUNDED else list(self._bounds),
            "round": self._round,
            "generator": generator(self._F).view(np.uint64).tolist(),
            "arms": self._roster.document(),
            "numbers": {
                name: float(rows[0]) if name in single else brief(rows)
                for name, rows in numbers.items()
            },
            "pending": [
                document_of(number, entry, self._policy, known)  # type: ignore[arg-type]
                | self._about(number)
                for number, entry in entries.items()
            ],
            "clip": self._clip,
            "clipped": self._clipped,
            "frozen": self._frozen,
            "rewards": self._rewards,
            "evidence": self._account.document(
                {number: entry[4] for number, entry in entries.items()}  # type: ignore[index]
            ),
        }

    def _about(self, number: int) -> dict[str, Any]:
        """Return what is kept of a pending decision besides the numbers that learning needs."""
        time = self._fresh_time if number == self._fresh else time_of(self._ledger[number])
        about: dict[str, Any] = {"time": time}
        if number in self._unlearned:
            about["learn"] = False
        key = self._named.get(number)
        if key is not None:
            about["key"] = key
            with contextlib.suppress(DecisionClosed):
                known = self._keyed[key].probabilities
                about["probabilities"] = None if known is None else list(known.values())
        return about

    def _canonicalise(self) -> None:
        if self._fresh:
            self._settle()
        policy, n_arms = self._policy, len(self)
        numbers = saved(self._F, policy)
        self._F[:] = rebuilt(policy, n_arms, self._round, generator(self._F), numbers)

    @classmethod
    def _restored(cls, policy: Policy, document: dict[str, Any]) -> Self:
        if not isinstance(policy, Policy):
            raise ValueError("a policy of another kind")
        limited = document["bounds"] is not None
        if not limited and not policy.traits.unbounded:
            raise ValueError("no bounds for a policy that needs them")
        roster = Roster.from_document(document["arms"], limited)
        n_arms = len(roster.slots)
        newest = whole(document["round"], "round", 0, MOST)
        waiting = listed(document["pending"], "pending")
        counted = sum(roster.told) + sum(roster.dropped) + len(waiting)
        if counted != newest:
            raise ValueError("another number of decisions than rounds")
        words = [
            whole(word, "generator", 0, 2**64 - 1)
            for word in listed(document["generator"], "generator")
        ]
        if len(words) != WORDS or not any(words):
            raise ValueError("a generator of other words")
        numbers = {
            name: many([given] if n is None else given, kind, 1 if n is None else n)
            for name, (kind, n) in policy.saved_shape(n_arms).items()
            for given in [_kept(document, kind, n)]
        }
        seed = checked_seed(document["seed"], "Bandit")
        bounds = checked_bounds(document["bounds"]) if limited else UNBOUNDED
        state = rebuilt(policy, n_arms, newest, np.array(words, np.uint64).view(np.int64), numbers)
        bandit = cls.__new__(cls)
        bandit._open(policy, roster, seed, bounds, Origin(seed, crossed=True), state, False)
        known, lineup = len(roster.names), bandit._lineup
        entries: dict[int, Entry | Notes] = {}
        loaded = now()
        for value in waiting:
            about = about_of(value, loaded)
            number, entry = entry_of(value, policy, lineup, known, newest, about.time)
            if number in entries:
                raise ValueError("a decision that is pending twice")
            entries[number] = entry
            if not about.learn:
                bandit._unlearned.add(number)
            if about.key is not None:
                if about.key in bandit._keyed:
                    raise ValueError("a key of two decisions")
                bandit._named[number] = about.key
                bandit._keyed[about.key] = bandit._again(number, entry, about)
        bandit._ledger.update(sorted(entries.items()))
        bandit._clip = truth(document.get("clip", False), "clip")
        bandit._clipped = whole(document.get("clipped", 0), "clipped", 0, MOST)
        bandit._frozen = whole(document.get("frozen", 0), "frozen", 0, newest + 1)
        bandit._special = bandit._frozen > 0
        # Files written before evidence was kept have none.
        bandit._rewards = document.get("rewards", False) is True
        fresh_sums = "evidence" not in document and policy.traits.floored and limited
        account, noted = Account.from_document(
            document.get("evidence"), known, set(entries), fresh_sums
        )
        for number, note in noted.items():
            bandit._ledger[number] = (*bandit._ledger[number][:4], note)  # type: ignore[index]
        bandit._account = account
        return bandit

    def _pending(self, number: int) -> Decision:
        """Return a pending decision that came out of a file."""
        entry = self._entry(number)
        assert entry is not None
        return self._again(number, entry, About(entry[3], True, None, None))

    def _again(self, number: int, entry: Entry, about: About) -> Decision:
        """Return a pending decision that came out of a file, for those who ask with its key."""
        slot, _, lineup, _, _ = entry
        names, index = self._roster.names, lineup.indices[slot]
        inverse_p = inverse_p_of(entry)
        decision = decided(
            names[index], index, number, inverse_p, NOT_COPIED, self._lineup, about.time
        )
        decision._key = about.key
        if about.probabilities is not None:
            if len(about.probabilities) != len(lineup.indices):
                raise ValueError("probabilities of other arms")
            there = [names[place] for place in lineup.indices]
            decision._set_probabilities(dict(zip(there, about.probabilities, strict=True)))
        elif not self._policy.traits.knows_probability:
            decision._snapshot = None
        return decision

    def _copy(self, seed: int | None) -> Self:
        twin = type(self).__new__(type(self))
        F = self._F.copy()
        twin._policy = self._policy
        twin._roster = self._roster.copy()
        twin._seed = self._seed
        twin._seen = {}
        twin._keyed = self._keyed.copy()
        twin._named = self._named.copy()
        twin._bounds = self._bounds
        twin._round = self._round
        twin._ledger = self._ledger.copy()
        twin._fresh = self._fresh
        twin._fresh_slot = self._fresh_slot
        twin._fresh_inverse_p = self._fresh_inverse_p
        twin._fresh_time = self._fresh_time
        twin._unlearned = self._unlearned.copy()
        twin._clip, twin._clipped = self._clip, self._clipped
        # Both would write the same decisions to the same log.
        twin._log = None
        twin._frozen, twin._special = self._frozen, self._frozen > 0
        twin._F = F
        twin._rows = F.data
        twin._start = self._start
        where = address(F)
        ask: Any = self._ask
        twin._ask = placed(ask.__func__, where) if self._policy.traits.trusted else twin._asking(F)
        twin._rewards = self._rewards
        twin._account = self._account.copy()
        lineup = self._lineup
        live = None if lineup.live is None else partial(unchanged, F)
        twin._lineup = lineup.for_bandit(Origin(lineup.origin.seed, crossed=True), live)
        if self._tell == self._tell_first:
            twin._tell = twin._tell_first
        else:
            twin._tell = twin._account.telling_again(
                self._tell, self._policy, F, where, twin._lineup
            )
        twin._note, twin._learn, twin._late = self._note, self._learn, self._late
        if self._late is not None:
            twin._N = np.zeros(self._N.size)
            twin._N_bytes = twin._N.data.cast("B")
            twin._flags = self._flags.copy()
            twin._w = self._w.copy()
        twin._among = {}
        if seed is not None:
            twin._seed = seed
            generator(F)[:] = stream_words(seed, "Bandit")
        return twin


class _Among(NamedTuple):
    """What draws from some of the arms."""

    F: Array
    slots: NDArray[np.intp]
    lineup: Lineup
    N: Array
    start: int
    rows: int
    ask: Any
    note: Any
    flags: NDArray[np.uint8]
    w: Array


def _kept(document: dict[str, Any], kind: Saved, n: int | None) -> Any:
    """Return what a state file says of a number; files of old lack those that are optional."""
    numbers = record(document["numbers"], "numbers")
    if kind.optional and kind.name not in numbers:
        return [0.0] * (n or 1)
    return numbers[kind.name]
