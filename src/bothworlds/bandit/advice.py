"""Advice as callers give it: checked, and turned into a row of probabilities for every expert."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import is_number
from bothworlds.errors import InvalidParameter, must

ROUNDING = 1e-9
"""How far from 1 the probabilities of an expert may add up."""


class Reader:
    """Advice as callers give it, checked and turned into rows.

    Parameters
    ----------
    owner : str
        The method, for error messages.
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

    def read(self, advice: object, available: Any, asleep: Any) -> None:
        """Fill ``A``, ``awake`` and ``here``; raise `InvalidParameter` if anything is wrong."""
        owner = self.owner
        if not isinstance(advice, Mapping):
            expected = "a mapping from every expert to an arm or to probabilities of arms"
            raise InvalidParameter(must("advice", owner, expected, advice))
        resting = set(self._named(asleep, self.experts, "asleep", "experts"))
        named = list(self._named(available, self.arms, "available", "arms"))
        self.here[:] = available is None
        if available is not None:
            if not named:
                raise InvalidParameter(must("available", owner, "at least one arm", available))
            self.here[[self.arms[arm] for arm in named]] = 1
        for name in advice:
            if name not in self.experts or name in resting:
                expected = f"advice of {_names(n for n in self.experts if n not in resting)}"
                raise InvalidParameter(must("advice", owner, expected, name))
        A, awake = self.A, self.awake
        A[:] = 0.0
        for name, j in self.experts.items():
            awake[j] = name not in resting
            if not awake[j]:
                continue
            if name not in advice:
                expected = f"advice of every expert that is not asleep, {name!r} included"
                raise InvalidParameter(must("advice", owner, expected, list(advice)))
            given = advice[name]
            if isinstance(given, Mapping):
                self._row(A[j], given, name)
            else:
                A[j, self._arm(given, name)] = 1.0
            if available is not None:
                A[j] *= self.here
                total = A[j].sum()
                awake[j] = total > 0.0
                if awake[j]:
                    A[j] /= total
        if not awake.any():
            expected = "advice for an available arm from at least one expert"
            raise InvalidParameter(must("advice", owner, expected, advice))

    def _arm(self, given: Any, expert: Any) -> int:
        try:
            found = self.arms.get(given)
        except TypeError:
            found = None
        if found is None:
            expected = f"an arm or a mapping from arms to probabilities for {expert!r}"
            raise InvalidParameter(must("advice", self.owner, expected, given))
        return found

    def _row(self, row: NDArray[np.float64], given: Mapping[Any, Any], expert: Any) -> None:
        total = 0.0
        for arm, value in given.items():
            if not is_number(value) or not 0.0 <= value < math.inf:
                expected = f"probabilities >= 0 of arms for {expert!r}"
                raise InvalidParameter(must("advice", self.owner, expected, value))
            row[self._arm(arm, expert)] = value
            total += float(value)
        if abs(total - 1.0) > ROUNDING:
            expected = f"probabilities that add up to 1 for {expert!r}"
            raise InvalidParameter(must("advice", self.owner, expected, total))
        row /= total

    def _named(self, given: Any, known: Mapping[Any, int], word: str, kind: str) -> list[Any]:
        if given is None:
            return []
        expected = f"a list of {kind} among {_names(known)}"
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise InvalidParameter(must(word, self.owner, expected, given))
        found = list(given)
        for name in found:
            try:
                unknown = name not in known
            except TypeError:
                unknown = True
            if unknown:
                raise InvalidParameter(must(word, self.owner, expected, name))
        return found


def _names(names: Iterable[Any]) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed) if len(listed) <= 8 else f"{', '.join(listed[:8])}, ..."
