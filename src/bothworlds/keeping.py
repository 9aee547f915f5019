"""Keeping a bandit: copies, pickles and state files that continue bit for bit."""

from __future__ import annotations

from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np

from bothworlds import policies, statefile
from bothworlds.decision import Origin
from bothworlds.errors import InvalidParameter, must
from bothworlds.feedback import checked_bounds
from bothworlds.ledger import Pending
from bothworlds.omd import learning_rates
from bothworlds.packing import first_row, pack
from bothworlds.policies.base import Array, Policy
from bothworlds.roster import Roster
from bothworlds.seeding import checked_seed, stream_words

FORMAT = "bothworlds.bandit"
VERSION = 1

Config = TypeVar("Config")
Kept = TypeVar("Kept")


class Keeping:
    """The part of `bothworlds.Bandit` that makes another one in the same state."""

    __slots__ = (
        "_F",
        "_bounds",
        "_fresh",
        "_fresh_inverse_p",
        "_fresh_slot",
        "_ledger",
        "_policy",
        "_roster",
        "_round",
        "_seed",
    )

    _F: Array
    _bounds: tuple[float, float]
    _fresh: int
    _fresh_inverse_p: float
    _fresh_slot: int
    _ledger: dict[int, Pending]
    _policy: Policy
    _roster: Roster
    _round: int
    _seed: int

    @abstractmethod
    def _open(
        self,
        policy: Policy,
        roster: Roster,
        seed: int,
        bounds: tuple[float, float],
        origin: Origin,
        F: Array,
    ) -> None:
        """Start from a packed state; `Bandit` says how."""

    def _document(self) -> dict[str, Any]:
        """Return everything but the policy as JSON values."""
        return {
            "seed": self._seed,
            "bounds": list(self._bounds),
            "arms": self._roster.document(),
            "pending": [entry.document() for entry in self._ledger.values()],
            "fresh": [self._fresh_slot, self._fresh_inverse_p] if self._fresh else None,
            "state": b64encode(self._F.astype("<f8", copy=False).tobytes()).decode("ascii"),
        }

    @classmethod
    def _restored(cls, policy: Policy, document: dict[str, Any]) -> Self:
        roster = Roster.from_document(document["arms"])
        n_arms = len(roster.slots)
        state = b64decode(document["state"], validate=True)
        F = np.frombuffer(state, "<f8").astype(np.float64)
        seed = checked_seed(document["seed"], "Bandit")
        first = pack(policy, n_arms, stream_words(seed, "Bandit"))
        if F.size != first.size or F[0] != n_arms or first_row(F) != first_row(first):
            raise ValueError("state and arms differ in number")
        bandit = cls.__new__(cls)
        bounds = checked_bounds(document["bounds"])
        bandit._open(policy, roster, seed, bounds, Origin(seed, crossed=True), F)
        for values in document["pending"]:
            entry = Pending.from_document(values)
            bandit._ledger[entry.round] = entry
        if document["fresh"] is not None:
            slot, inverse_p = document["fresh"]
            bandit._fresh = bandit._round
            bandit._fresh_slot = range(n_arms)[slot]
            bandit._fresh_inverse_p = float(inverse_p)
        return bandit

    def copy(self) -> Self:
        """Return an independent bandit in the same state, pending decisions included.

        Examples
        --------
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=5, seed=7)
        >>> twin = bandit.copy()
        >>> [twin.ask().arm for _ in range(9)] == [bandit.ask().arm for _ in range(9)]
        True
        """
        return self._restored(self._policy, self._document())

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return self._restored, (self._policy, self._document())

    def save(self, path: statefile.Path) -> None:
        """Write the bandit to a file, from which `load` continues bit for bit.

        The file is JSON, complete or not written at all; a file already there is replaced.

        Parameters
        ----------
        path : str or path-like
            Where to write.

        Examples
        --------
        >>> import os, tempfile
        >>> import bothworlds as bw
        >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
        >>> decision = bandit.ask()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bandit.save(os.path.join(folder, "bandit.json"))
        ...     later = bw.Bandit.load(os.path.join(folder, "bandit.json"))
        >>> later.tell(decision.id, reward=1.0)
        """
        description = statefile.describe(self._policy, "Bandit.save")
        statefile.write(path, FORMAT, VERSION, {"policy": description, **self._document()})

    @classmethod
    def load(cls, path: statefile.Path, *, policy: Policy | None = None) -> Self:
        """Return the bandit saved at ``path``.

        Parameters
        ----------
        path : str or path-like
            A file that `save` wrote.
        policy : Policy, optional
            Needed if it is not one of this package; must equal the one that was saved.

        Raises
        ------
        StateFileError
            If the file is damaged, something else, or of a newer version.
        """
        return reopen(path, FORMAT, VERSION, "Bandit.load", policy, (), cls._restored)


def reopen(
    path: statefile.Path,
    format: str,
    version: int,
    owner: str,
    policy: Config | None,
    further: tuple[type, ...],
    make: Callable[[Config, dict[str, Any]], Kept],
) -> Kept:
    """Read a state file and return what ``make`` makes of the policy and the content.

    ``policy`` is the one a caller expects, or None to take the saved one, which may be made of
    this package's policies and the classes ``further``.
    """
    content = statefile.read(path, format, version)
    description = content.get("policy")
    if policy is not None and statefile.describe(policy, owner) != description:
        expected = f"the one that was saved, {description}"
        raise InvalidParameter(must("policy", owner, expected, policy))
    try:
        if policy is None:
            policy = statefile.recreate(description, _configurations(further))
        return make(policy, content)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise statefile.damaged(path, f"{type(error).__name__} {error}") from error


def _configurations(further: tuple[type, ...]) -> dict[str, type]:
    """Return the classes a saved policy may be made of."""
    found = [getattr(policies, name) for name in policies.__all__]
    found += [learning_rates.Constant, learning_rates.InverseSqrt, *further]
    return {kind.__name__: kind for kind in found if isinstance(kind, type)}
