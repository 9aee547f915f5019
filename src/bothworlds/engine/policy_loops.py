"""Compiled loops over a policy, as one bandit and as a tile of repetitions.

Policies enter as first-class functions, so each loop is compiled once for all of them.  ``F`` is
a bandit packed in one array (`bothworlds.bandit.state`); ``losses`` has a row per round, used again
from the first one on when it is through, and a column per arm.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba.core import types

from bothworlds.environments.lookup import lookup
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import (
    CHOOSE_WIDE,
    GENERATOR,
    HEAD,
    PARAMETERS,
    ROUND,
    UPDATE_WIDE,
)
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import load, pointer, store, zeros

_numbers = types.float64[::1]
_words = types.int64[::1]
_table = types.float64[:, ::1]
ASK = types.int64(_numbers)
TELL = types.void(_numbers, types.int64, types.float64, types.float64)


@jit
def play(
    ask: Any, tell: Any, F: Any, first: int, last: int, losses: Any, arms: Any, inverse_p: Any
) -> int:
    """Play rounds ``first`` to ``last``; return the round of an arm out of range, or 0."""
    row = HEAD + int(F[PARAMETERS])
    rounds, K = losses.shape
    for t in range(first, last + 1):
        F[ROUND] = t
        arm = ask(F)
        arms[t - first] = arm
        inverse_p[t - first] = F[row]
        if not 0 <= arm < K:
            return t
        tell(F, arm, F[row], losses[(t - 1) % rounds, arm])
    return 0


PLAY = types.int64(
    types.FunctionType(ASK), types.FunctionType(TELL), _numbers, types.int64, types.int64, _table,
    _words, _numbers,
)  # fmt: skip


@jit
def draw(ask: Any, F: Any, wanted: int, counts: Any, inverse_p: Any, draws: int) -> int:
    """Draw the round of ``F`` again and again, the generator moving on and the state restored.

    Counts every arm and keeps its last inverse probability.  Ends after ``draws``, or when
    ``wanted`` is drawn, leaving ``F`` as after that draw; returns the number of draws.
    """
    row = HEAD + int(F[PARAMETERS])
    before = F.copy()
    for n in range(draws):
        F[:GENERATOR] = before[:GENERATOR]
        F[HEAD:] = before[HEAD:]
        arm = ask(F)
        if not 0 <= arm < counts.size:
            return -1
        counts[arm] += 1
        inverse_p[arm] = F[row]
        if arm == wanted:
            return n + 1
    return draws


DRAW = types.int64(
    types.FunctionType(ASK), _numbers, types.int64, _words, _numbers, types.int64
)  # fmt: skip


@jit
def play_tile(
    choose: Any, update: Any, K: int, horizon: int, C: Any, S: Any, G: Any, losses: Any, arms: Any
) -> None:
    """Play a tile of repetitions from round 1 on; row t - 1 of ``arms`` gets its choices."""
    like = zeros()
    rounds = losses.shape[0]
    table = pointer(losses)
    c, s, g, a = pointer(C), pointer(S), pointer(G), pointer(arms)
    for t in range(1, horizon + 1):
        arm = choose(K, t, c, s, g, uniform(g, like))
        store(a, t - 1, arm)
        loss = lookup(table, (t - 1) % rounds * K, arm)
        update(K, t, c, s, g, arm, load(s, 0, like), loss)


PLAY_TILE = types.void(
    types.FunctionType(CHOOSE_WIDE), types.FunctionType(UPDATE_WIDE), types.int64, types.int64,
    _numbers, _numbers, _words, _table, _words,
)  # fmt: skip


@functools.cache
def compiled(dispatcher: Any, signature: Any) -> Any:
    """Compile a kernel for one signature, once in a process, and return it."""
    dispatcher.compile(signature)
    _remember(dispatcher)
    return dispatcher


class _Remembered:
    """Result of a compilation, or its library, with answers that are known already."""

    def __init__(self, of: Any, **known: Any) -> None:
        self.__dict__ |= known
        self._of = of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def _remember(dispatcher: Any) -> None:
    """Let a kernel remember where its code is: to look it up takes as long as a hundred rounds."""
    found = type(dispatcher).get_compile_result
    results: dict[int, tuple[Any, Any]] = {}

    def get_compile_result(signature: Any) -> Any:
        # Numba asks with the same object again and again; to hash a signature takes too long.
        known = results.get(id(signature))
        if known is None:
            made = found(dispatcher, signature)
            find = functools.cache(made.library.get_pointer_to_function)
            library = _Remembered(made.library, get_pointer_to_function=find)
            known = results[id(signature)] = signature, _Remembered(made, library=library)
        return known[1]

    dispatcher.get_compile_result = get_compile_result


@functools.cache
def loop(dispatcher: Any, signature: Any) -> Any:
    """Compile one of the loops for any kernels; without this, Numba would do so for each."""
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher


@functools.cache
def entry(dispatcher: Any, signature: Any) -> Any:
    """Return the machine code of one of the loops, called without a look at the types."""
    return loop(dispatcher, signature).overloads[signature.args].entry_point


def counters(n: int) -> tuple[Any, Any]:
    """Return a zero count and a zero number for each of ``n``."""
    return np.zeros(n, np.int64), np.zeros(n)
