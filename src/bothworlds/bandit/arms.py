"""The arms of a bandit by name: their places in the state, and their history.

An arm keeps its index for good.  Its slot, the place in the policy's state, exists only while it
can be played.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import is_whole
from bothworlds.bandit.decision import Arm
from bothworlds.bandit.state_file import LARGEST_WHOLE, LONG, brief, listed, many, record, whole
from bothworlds.errors import invalid
from bothworlds.markup import h, rows
from bothworlds.policies.base import Saved

GONE = -1
"""Slot of a retired arm."""

COUNTS = {
    name: Saved(name, low=0, high=LARGEST_WHOLE, whole=True) for name in ("told", "dropped")
}  # fmt: skip
"""Counters of every arm in a state file."""


class ArmHistory(NamedTuple):
    """History of one arm."""

    pulls: int
    """How often it was drawn."""
    told: int
    """How often feedback came."""
    mean_loss: float | None
    """Mean loss of that feedback, in the user's units; None before the first."""
    estimate: float | None
    """Cumulative loss estimate beyond the best arm's, at retirement if retired; None if the
    policy keeps none."""
    retired: bool
    """Whether it can no longer be played."""
    mean_reward: float | None = None
    """Mean reward of that feedback, in the user's units; None before the first."""


class Roster:
    """The arms a bandit has or had."""

    __slots__ = (
        "dropped",
        "index_of",
        "last_estimate",
        "losses",
        "names",
        "slot_of",
        "slots",
        "told",
    )

    def __init__(self, names: list[Arm]) -> None:
        n = len(names)
        self.names = names
        self.index_of = {name: index for index, name in enumerate(names)}
        self.slots = list(range(n))
        self.slot_of = list(range(n))
        self.dropped = [0] * n
        self.told = [0] * n
        self.losses = [0.0] * n
        self.last_estimate: list[float | None] = [None] * n

    def copy(self) -> Roster:
        """Return an independent roster of the same arms."""
        made = Roster.__new__(Roster)
        made.names = self.names.copy()
        made.index_of = self.index_of.copy()
        made.slots = self.slots.copy()
        made.slot_of = self.slot_of.copy()
        made.dropped = self.dropped.copy()
        made.told = self.told.copy()
        made.losses = self.losses.copy()
        made.last_estimate = self.last_estimate.copy()
        return made

    def learned(self, indices: NDArray[np.intp], losses: NDArray[np.float64]) -> None:
        """Count feedback of these arms."""
        if len(self.names) <= indices.size:
            # One by one all the same, in this order: sums depend on it.
            sums = np.array(self.losses)
            np.add.at(sums, indices, losses)
            self.losses = sums.tolist()
            counts = np.bincount(indices, minlength=len(self.names)).tolist()
            self.told = [told + count for told, count in zip(self.told, counts, strict=True)]
            return
        told, total = self.told, self.losses
        for index, loss in zip(indices.tolist(), losses.tolist(), strict=True):
            told[index] += 1
            total[index] += loss

    def slot(self, name: object, owner: str, parameter: str = "name") -> int:
        """Return the slot of an arm that can be played."""
        # Not every key: True equals 1 and would find that arm, and a list cannot be looked up.
        plain = type(name) is str or type(name) is int
        key = name if plain else _name(name)
        index = self.index_of.get(key) if key is not None else None  # type: ignore[call-overload]
        slot = GONE if index is None else self.slot_of[index]
        if slot == GONE:
            raise invalid(parameter, owner, f"one of {self.playing()}", name)
        return slot

    def playing(self) -> list[Arm]:
        """Return the names of the arms that can be played, by slot."""
        return [self.names[index] for index in self.slots]

    def enter(self, name: Arm) -> None:
        """Give ``name`` the next slot; a retired arm gets its index and history back."""
        index = self.index_of.setdefault(name, len(self.names))
        if index == len(self.names):
            self.names.append(name)
            self.slot_of.append(GONE)
            self.dropped.append(0)
            self.told.append(0)
            self.losses.append(0.0)
            self.last_estimate.append(None)
        self.slot_of[index] = len(self.slots)
        self.slots.append(index)

    def leave(self, slot: int, estimate: float | None) -> None:
        """Free a slot; those behind it move up."""
        index = self.slots.pop(slot)
        self.slot_of[index] = GONE
        self.last_estimate[index] = estimate
        for place, other in enumerate(self.slots):
            self.slot_of[other] = place

    def history(
        self,
        pending: Iterable[int],
        estimates: list[float] | None,
        bounds: tuple[float, float],
    ) -> dict[Arm, ArmHistory]:
        """Return the history of every arm.

        ``pending`` are the indices of arms whose feedback is awaited, ``estimates`` those of the
        arms that can be played, by slot, ``bounds`` the user's units.
        """
        low, high = bounds if bounds[0] <= bounds[1] else (0.0, 1.0)
        most = high if bounds[0] <= bounds[1] else 0.0
        means = [
            total / told if told else None
            for total, told in zip(self.losses, self.told, strict=True)
        ]
        pulls = [told + dropped for told, dropped in zip(self.told, self.dropped, strict=True)]
        for index in pending:
            pulls[index] += 1
        beyond = list(self.last_estimate)
        if estimates is not None:
            for index, estimate in zip(self.slots, estimates, strict=True):
                beyond[index] = estimate
        return {
            name: ArmHistory(
                pulls=pulls[index],
                told=self.told[index],
                mean_loss=None if mean is None else low + mean * (high - low),
                estimate=beyond[index],
                retired=self.slot_of[index] == GONE,
                mean_reward=None if mean is None else most - mean * (high - low),
            )
            for index, (name, mean) in enumerate(zip(self.names, means, strict=True))
        }

    def document(self) -> dict[str, Any]:
        """Return the roster as JSON values, briefly if it is long."""
        n = len(self.names)
        counted = n >= LONG and self.names == list(range(n))
        return {
            "names": n if counted else self.names,
            "slots": brief(self.slots),
            "dropped": brief(self.dropped),
            "told": brief(self.told),
            "losses": brief(self.losses),
            "last_estimate": brief(self.last_estimate),
        }

    @classmethod
    def from_document(cls, value: object, limited: bool = True) -> Roster:
        """Return the roster that `document` described; ``limited`` if losses are in [0, 1]."""
        document = record(value, "arms")
        told = many(document["told"], COUNTS["told"])
        n = told.size
        names = document["names"]
        # The number of names is believed only where as many counts are listed.
        counted = type(names) is int
        roster = cls(
            checked_names(whole(names, "names", n, n) if counted else listed(names, "names"))
        )
        if len(roster.names) != n:
            raise ValueError("arms and their history differ in number")
        slots = many(document["slots"], Saved("slots", low=0, high=n - 1, whole=True))
        roster.slots = slots.astype(np.int64).tolist()
        roster.slot_of = [GONE] * n
        for slot, index in enumerate(roster.slots):
            roster.slot_of[index] = slot
        if not roster.slots or len(set(roster.slots)) < len(roster.slots):
            raise ValueError("slots that are invalid or repeated")
        roster.told = told.astype(np.int64).tolist()
        dropped = many(document["dropped"], COUNTS["dropped"], n)
        roster.dropped = dropped.astype(np.int64).tolist()
        kind = Saved("losses", low=0.0, high=LARGEST_WHOLE) if limited else Saved("losses")
        losses = many(document["losses"], kind, n)
        if limited and (losses > told * (1.0 + 1e-9)).any():
            raise ValueError("losses above 1")
        roster.losses = losses.tolist()
        last = many(document["last_estimate"], Saved("last_estimate"), n, missing=True)
        roster.last_estimate = [None if each != each else each for each in last.tolist()]
        return roster


def checked_names(arms: object, owner: str = "Bandit") -> list[Arm]:
    """Return the names given as ``arms`` of a bandit: a number of arms, or distinct names.

    Examples
    --------
    >>> checked_names(3), checked_names(("blue", "green"))
    ([0, 1, 2], ['blue', 'green'])
    """
    expected = "a number of arms >= 1 or a sequence of distinct names"
    if is_whole(arms) and int(arms) >= 1:
        return list(range(int(arms)))
    # Sets have no order to rely on, and the letters of a string are hardly meant as arms.
    ordered = isinstance(arms, Iterable) and not isinstance(arms, str | bytes | set | frozenset)
    names = [_name(arm) for arm in arms] if ordered else []  # type: ignore[attr-defined]
    if not names or None in names or len(set(names)) < len(names):
        raise invalid("arms", owner, expected, arms)
    return names  # type: ignore[return-value]


def _name(arm: object) -> Arm | None:
    if isinstance(arm, str):
        return str(arm)
    if is_whole(arm):
        return int(arm)
    return None


def checked_newcomer(name: object, roster: Roster) -> Arm:
    """Return the name of an arm to add, which must not be among those that can be played."""
    arm = _name(name)
    index = None if arm is None else roster.index_of.get(arm)
    if arm is None or (index is not None and roster.slot_of[index] != GONE):
        expected = f"a string or whole number other than {roster.playing()}"
        raise invalid("name", "Bandit.add_arm", expected, name)
    return arm


def html_table(
    caption: str, history: Mapping[Arm, ArmHistory], known: Mapping[Arm, float], rewards: bool
) -> str:
    """Return the arms as a table; ``known`` are the next probabilities, empty if unknown.

    The means are those of rewards if feedback is reported as rewards.
    """
    table, unit = [], "reward" if rewards else "loss"
    for name, arm in history.items():
        p = "retired" if arm.retired else f"{known[name]:.4f}" if known else "unknown"
        value = arm.mean_reward if rewards else arm.mean_loss
        mean = "" if value is None else f"{value:.4f}"
        table.append((name, arm.pulls, arm.told, mean, p))
    titles = ("arm", "decisions", "feedback", f"mean {unit}", "next probability")
    return h.table(h.caption(caption), h.tr(map(h.th, titles)), rows(table))
