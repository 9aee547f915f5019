"""Advice as callers give it: checked, and turned into a row of probabilities for every expert."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import is_number
from bothworlds.errors import InvalidParameter, invalid

ROUNDING = 1e-9
"""How far from 1 the probabilities of an expert may add up."""
_MISSING = object()


class AdviceReader:
    """Advice as callers give it, checked and turned into rows.

    Parameters
    ----------
    owner : str
        What the advice belongs to, for error messages.

    Attributes
    ----------
    A : array (experts, arms)
        The advice that was read. All of it must be 0 again before the next is read: the caller
        clears it once it is used.
    awake, here : array of uint8
        The experts and the arms that take part.
    everyone : bool
        Whether all of them do.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.experts: dict[Any, int] = {}
        self.arms: dict[Any, int] = {}

    def open(self, experts: Iterable[Any], arms: Iterable[Any]) -> None:
        """Take these experts and arms, in this order."""
        self.experts = {name: j for j, name in enumerate(experts)}
        self.arms = {name: a for a, name in enumerate(arms)}
        N, K = len(self.experts), len(self.arms)
        self.A = np.zeros((N, K))
        self.awake = np.ones(N, np.uint8)
        self.here = np.ones(K, np.uint8)
        # Writing a number into it takes a third of the time that writing into an array does.
        self._cells: Any = self.A.reshape(-1).data
        self.everyone = True

    def present(self, available: Any) -> NDArray[np.uint8]:
        """Return a mark for every arm that is available; raise `InvalidParameter` if none is."""
        named = self._named(available, self.arms, "available", "arms")
        if not named:
            raise invalid("available", self.owner, "at least one arm", available)
        here = np.zeros(len(self.arms), np.uint8)
        here[[self.arms[arm] for arm in named]] = 1
        return here

    def read(
        self, advice: object, asleep: Any = None, here: NDArray[np.uint8] | None = None
    ) -> None:
        """Fill ``A``, ``awake`` and ``here``; raise `InvalidParameter` if anything is wrong.

        Then ``A`` is 0.
        """
        if not self.everyone:
            self.awake[:] = self.here[:] = 1
            self.everyone = True
        if type(advice) is not dict and not isinstance(advice, Mapping):
            expected = "a mapping from every expert to an arm or to probabilities of arms"
            raise invalid("advice", self.owner, expected, advice)
        resting: Collection[Any] = ()
        if asleep is not None:
            resting = set(self._named(asleep, self.experts, "asleep", "experts"))
        try:
            self._fill(advice, resting)
            if resting or here is not None:
                self._restrict(advice, resting, here)
        except InvalidParameter:
            self.A[:] = 0.0
            raise

    def _fill(self, advice: Mapping[Any, Any], resting: Collection[Any]) -> None:
        cells, arms, at = self._cells, self.arms, 0
        n_arms, given_by = len(arms), advice.get
        for name in self.experts:
            given = given_by(name, _MISSING)
            if given is _MISSING:
                if name not in resting:
                    self._refuse_names(advice, resting)
            elif type(given) is dict:
                self._row(at, given, name)
            else:
                try:
                    cells[at + arms[given]] = 1.0
                except (KeyError, TypeError):
                    if not isinstance(given, Mapping):
                        raise self._unknown_arm(given, name) from None
                    self._row(at, given, name)
            at += n_arms
        if len(advice) != len(self.experts) - len(resting):
            self._refuse_names(advice, resting)

    def _restrict(
        self, advice: object, resting: Collection[Any], here: NDArray[np.uint8] | None
    ) -> None:
        """Put experts to sleep that rest, or that recommend no arm which is available."""
        A, awake = self.A, self.awake
        self.everyone = False
        for name in resting:
            awake[self.experts[name]] = 0
        if here is not None:
            self.here[:] = here
            for j in np.flatnonzero(awake):
                A[j] *= here
                total = A[j].sum()
                awake[j] = total > 0.0
                if awake[j]:
                    A[j] /= total
        if not awake.any():
            expected = "advice for an available arm from at least one expert"
            raise invalid("advice", self.owner, expected, advice)

    def _refuse_names(self, advice: Mapping[Any, Any], resting: Collection[Any]) -> None:
        awake = [name for name in self.experts if name not in resting]
        for name in advice:
            if name not in awake:
                raise invalid("advice", self.owner, f"advice of {_names(awake)}", name)
        missing = next(name for name in awake if name not in advice)
        expected = f"advice of every expert that is not asleep, {missing!r} included"
        raise invalid("advice", self.owner, expected, list(advice))

    def _unknown_arm(self, given: object, expert: Any) -> InvalidParameter:
        expected = f"an arm or a mapping from arms to probabilities for {expert!r}"
        return invalid("advice", self.owner, expected, given)

    def _row(self, at: int, given: Mapping[Any, Any], expert: Any) -> None:
        total = 0.0
        for value in given.values():
            if (type(value) is not float and not is_number(value)) or not 0.0 <= value < math.inf:
                expected = f"probabilities >= 0 of arms for {expert!r}"
                raise invalid("advice", self.owner, expected, value)
            total += float(value)
        if abs(total - 1.0) > ROUNDING:
            expected = f"probabilities that add up to 1 for {expert!r}"
            raise invalid("advice", self.owner, expected, total)
        cells, arms = self._cells, self.arms
        for arm, value in given.items():
            try:
                cells[at + arms[arm]] = float(value) / total
            except (KeyError, TypeError):
                raise self._unknown_arm(arm, expert) from None

    def _named(self, given: Any, known: Mapping[Any, int], word: str, kind: str) -> list[Any]:
        expected = f"a list of {kind} among {_names(known)}"
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise invalid(word, self.owner, expected, given)
        found = list(given)
        for name in found:
            try:
                unknown = name not in known
            except TypeError:
                unknown = True
            if unknown:
                raise invalid(word, self.owner, expected, name)
        return found


def _names(names: Iterable[Any]) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed) if len(listed) <= 8 else f"{', '.join(listed[:8])}, ..."
