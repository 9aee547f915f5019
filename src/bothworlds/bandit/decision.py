"""`Decision`: the arm a bandit chose, and how likely it was."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import Arm as Arm
from bothworlds.errors import DecisionClosed

Live = Callable[[int, float], NDArray[np.float64] | None]
"""Returns a bandit's memory if its last draw is that of this round and inverse probability."""

NOT_COPIED = b""
"""Snapshot of a decision among many arms, whose probabilities are read off the bandit itself."""


class Origin:
    """Which bandit a decision comes from.

    A bandit knows its own decisions by the identity of this object.  Once either side went
    through a file, a copy or a pickle, identity is lost; then the seed must agree, and the
    caller compares the decision with its own record.
    """

    __slots__ = ("crossed", "seed")

    def __init__(self, seed: int, crossed: bool = False) -> None:
        self.seed = seed
        self.crossed = crossed

    def may_admit(self, other: Origin) -> bool:
        """Return whether decisions of ``other`` can belong here."""
        return self is other or (self.seed == other.seed and (self.crossed or other.crossed))


class Lineup:
    """Common part of decisions with the same arms."""

    __slots__ = (
        "_present",
        "blank",
        "copied",
        "index_array",
        "indices",
        "live",
        "names",
        "origin",
        "weights",
    )

    def __init__(
        self,
        origin: Origin,
        names: tuple[Arm, ...],
        indices: tuple[int, ...],
        weights: Any,
        live: Live | None = None,
    ) -> None:
        self.origin = origin
        self.names = names
        self.indices = indices
        self.index_array = np.array(indices, dtype=np.intp)
        self._present: NDArray[np.uint8] | None = None
        self.weights = weights
        # Given a round and an inverse probability, the packed bandit that still has them.
        self.live = live
        self.copied = weights is not None and live is None
        self.blank = None if weights is None else NOT_COPIED

    def for_bandit(self, origin: Origin, live: Live | None) -> Lineup:
        """Return the same lineup of another bandit."""
        made = Lineup.__new__(Lineup)
        made.origin = origin
        made.names = self.names
        made.indices = self.indices
        made.index_array = self.index_array
        made.weights = self.weights
        made.live = live
        made.copied = self.copied
        made.blank = self.blank
        made._present = self._present
        return made

    @property
    def present(self) -> NDArray[np.uint8]:
        """Which arms these are, by index; later ones are not among them."""
        if self._present is None:
            self._present = np.zeros(max(self.indices) + 1, np.uint8)
            self._present[self.index_array] = 1
        return self._present

    def state_of(self, decision: Decision) -> NDArray[np.float64]:
        """Return the packed bandit a decision was drawn from, if it has not changed since."""
        F = None if self.live is None else self.live(decision.round, decision._inverse_p)
        if F is None:
            raise DecisionClosed(
                "The probabilities of Decision must be read before the bandit, which has many "
                f"arms, learns or decides again, got {decision!r}."
            )
        return F


class Decision:
    """An arm drawn by `Bandit.ask`, with the probabilities at that time.

    Attributes
    ----------
    arm : str or int
        The name of the arm to play.
    index : int
        Its place among all arms the bandit ever had, from 0.
    round : int
        The round in which it was drawn, from 1.
    time : float
        When, in seconds since 1970 as `time.time` counts them.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=1)
    >>> decision = bandit.ask()
    >>> decision.id, round(decision.probability, 12)
    (1, 0.5)
    >>> {name: round(p, 12) for name, p in decision.probabilities.items()}
    {'blue': 0.5, 'green': 0.5}
    """

    __slots__ = (
        "_inverse_p",
        "_key",
        "_lineup",
        "_probabilities",
        "_snapshot",
        "arm",
        "index",
        "round",
        "time",
    )

    arm: Arm
    index: int
    round: int
    time: float
    _key: str | None
    _inverse_p: float
    _lineup: Lineup
    _probabilities: Mapping[Arm, float] | None
    _snapshot: bytes | None

    @property
    def id(self) -> int:
        """The number under which the bandit remembers the decision; there is one a round."""
        return self.round

    @property
    def key(self) -> str | None:
        """The key it was asked with, or None."""
        return getattr(self, "_key", None)

    def as_dict(self) -> dict[str, Any]:
        """Return the decision as JSON values, for a log or an answer over the network.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue"], seed=1)
        >>> shown = bandit.ask(key="request-17").as_dict()
        >>> shown["id"], shown["arm"], shown["key"], shown["probabilities"]
        (1, 'blue', 'request-17', [1.0])
        """
        known = None
        # With many arms they can be gone; the arm's own probability never is.
        with contextlib.suppress(DecisionClosed):
            known = self.probabilities
        return {
            "id": self.id,
            "arm": self.arm,
            "index": self.index,
            "round": self.round,
            "time": self.time,
            "key": self.key,
            "probability": self.probability,
            "arms": None if known is None else list(known),
            "probabilities": None if known is None else list(known.values()),
        }

    def _set_probabilities(self, table: Mapping[Arm, float] | None) -> None:
        """Set the probabilities of all arms, which are not computed any more then."""
        self._probabilities = None if table is None else MappingProxyType(dict(table))
        self._snapshot = None

    @property
    def probability(self) -> float | None:
        """How likely this arm was, or None if the policy cannot tell (Thompson sampling).

        A single arm has probability 1 with every policy.
        """
        if self._inverse_p:
            return min(1.0, 1.0 / self._inverse_p)
        return 1.0 if len(self._lineup.names) == 1 else None

    @property
    def probabilities(self) -> Mapping[Arm, float] | None:
        """How likely every arm was, by name; None if the policy cannot tell.

        Arms that were not available have no entry. Computed on first access; with 512 arms or
        more that must be before the bandit learns or decides again, because no decision keeps a
        copy of so many numbers.

        Raises
        ------
        DecisionClosed
            If it is too late. The `probability` of the arm itself is always there.
        """
        if self._snapshot is not None:
            lineup = self._lineup
            w = np.empty(len(lineup.names))
            copied = self._snapshot != NOT_COPIED
            F = np.frombuffer(self._snapshot).copy() if copied else lineup.state_of(self)
            lineup.weights(F, w)
            table = dict(zip(lineup.names, w.tolist(), strict=True))
            self._probabilities = MappingProxyType(table)
            self._snapshot = None
        return getattr(self, "_probabilities", None)

    def __repr__(self) -> str:
        return f"Decision(id={self.id}, arm={self.arm!r}, probability={self.probability})"

    def __reduce__(self) -> tuple[Any, ...]:
        gone = self._snapshot == NOT_COPIED
        known = None if gone else self.probabilities
        table = None if known is None else dict(known)
        seed = self._lineup.origin.seed
        values = (self.arm, self.index, self.round, self._inverse_p, table, seed, gone)
        return _reopened, (*values, self.time, self.key)


def decided(
    arm: Arm,
    index: int,
    number: int,
    inverse_p: float,
    snapshot: bytes | None,
    lineup: Lineup,
    time: float,
) -> Decision:
    """Return a decision; ``snapshot`` is the packed bandit that drew it, if it can tell more."""
    decision = Decision()
    decision.arm = arm
    decision.index = index
    decision.round = number
    decision.time = time
    decision._inverse_p = inverse_p
    decision._snapshot = snapshot
    decision._lineup = lineup
    return decision


def _reopened(
    arm: Arm,
    index: int,
    number: int,
    inverse_p: float,
    table: dict[Arm, float] | None,
    seed: int,
    gone: bool,
    time: float,
    key: str | None,
) -> Decision:
    lineup = Lineup(Origin(seed, crossed=True), (), (), None)
    snapshot = NOT_COPIED if gone else None
    decision = decided(arm, index, number, inverse_p, snapshot, lineup, time)
    decision._key = key
    if table is not None:
        decision._probabilities = MappingProxyType(table)
    return decision


@dataclass(eq=False, repr=False, slots=True)
class Decisions(Sequence[Decision]):
    """Decisions drawn at once by `Bandit.ask_many`, each of which is a `Decision` when read.

    Attributes
    ----------
    ids : range
        Their ids.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=1)
    >>> decisions = bandit.ask_many(3)
    >>> len(decisions), decisions[0].arm, decisions.arms, decisions.ids
    (3, 'blue', ['blue', 'green', 'blue'], range(1, 4))
    """

    ids: range
    _lineup: Lineup
    _slots: NDArray[np.int64]
    _inverse_p: NDArray[np.float64]
    _snapshots: NDArray[np.float64]
    time: float

    @property
    def arms(self) -> list[Arm]:
        """The names of the arms to play."""
        names = self._lineup.names
        return [names[slot] for slot in self._slots.tolist()]

    @property
    def indices(self) -> NDArray[np.intp]:
        """Their places among all arms the bandit ever had."""
        return self._lineup.index_array[self._slots]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Decision: ...

    @overload
    def __getitem__(self, place: slice) -> list[Decision]: ...

    def __getitem__(self, place: int | slice) -> Decision | list[Decision]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        number = self.ids[place]
        place = number - self.ids.start
        lineup = self._lineup
        slot = int(self._slots[place])
        snapshot = self._snapshots[place].tobytes() if lineup.copied else lineup.blank
        return decided(
            lineup.names[slot],
            lineup.indices[slot],
            number,
            float(self._inverse_p[place]),
            snapshot,
            lineup,
            self.time,
        )

    def __iter__(self) -> Iterator[Decision]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"Decisions(ids={self.ids}, arms={self.arms if len(self) < 9 else '...'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


class ListedDecisions(list[Decision]):
    """Decisions of `Bandit.ask_many` that were drawn one by one, as a list."""

    @property
    def ids(self) -> list[int]:
        """Their ids."""
        return [decision.id for decision in self]

    @property
    def arms(self) -> list[Arm]:
        """The names of the arms to play."""
        return [decision.arm for decision in self]
