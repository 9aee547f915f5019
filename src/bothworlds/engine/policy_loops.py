"""Compiled loops over a policy, as one bandit and as a tile of repetitions.

Policies enter by the addresses of their machine code, so each loop is compiled once for all of
them.  A bandit's code is what `bothworlds.Bandit` calls, a tile's what the engine plays.  ``F`` is
a bandit packed in one array (`bothworlds.bandit.state`); ``losses`` has a row per round, used again
from the first one on when it is through, and a column per arm.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba.core import types
from numpy.typing import NDArray

from bothworlds.engine import loop as engine
from bothworlds.engine.table import aligned, block
from bothworlds.environments.lookup import lookup
from bothworlds.lanes import native
from bothworlds.lanes.direct import address
from bothworlds.lanes.jit import jit, placed_code
from bothworlds.lanes.kernels import GENERATOR, HEAD, PARAMETERS, ROUND, calling, shapes
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, store, to_float, to_int
from bothworlds.lanes.wrap import DRAW_AT, TELL_AT, drawing_place, telling_place

_numbers = types.float64[::1]
_words = types.int64[::1]
_table = types.float64[:, ::1]
ASK = types.int64(_numbers)
TELL = types.void(_numbers, types.int64, types.float64, types.float64)
draw_at = calling(lambda lanes: DRAW_AT)
tell_at = calling(lambda lanes: TELL_AT)


@jit
def _play(
    ask: int, tell: int, place: float, F: Any, first: int, last: int, losses: Any, arms: Any,
    inverse_p: Any,
) -> int:  # fmt: skip
    row = HEAD + int(F[PARAMETERS])
    rounds, K = losses.shape
    for t in range(first, last + 1):
        F[ROUND] = t
        arm = draw_at(ask, (place,))
        arms[t - first] = arm
        inverse_p[t - first] = F[row]
        if not 0 <= arm < K:
            return t
        tell_at(tell, (place, arm, F[row], losses[(t - 1) % rounds, arm]))
    return 0


PLAY = types.int64(
    types.int64, types.int64, types.float64, _numbers, types.int64, types.int64, _table, _words,
    _numbers,
)  # fmt: skip


def play(
    kernels: Any, F: NDArray[Any], first: int, last: int, losses: Any, arms: Any, inverse_p: Any
) -> int:
    """Play rounds ``first`` to ``last``; return the round of an arm out of range, or 0."""
    codes = drawing_place(kernels.ask), telling_place(kernels.tell)
    run = loop(_play, PLAY)
    return int(run(*codes, float(address(F)), F, first, last, losses, arms, inverse_p))


@jit
def _draw(
    ask: int, place: float, F: Any, before: Any, wanted: int, counts: Any, inverse_p: Any,
    draws: int,
) -> int:  # fmt: skip
    row = HEAD + int(F[PARAMETERS])
    for n in range(draws):
        for i in range(F.size):
            if not GENERATOR <= i < HEAD:
                F[i] = before[i]
        arm = draw_at(ask, (place,))
        if not 0 <= arm < counts.size:
            return -1
        counts[arm] += 1
        inverse_p[arm] = F[row]
        if arm == wanted:
            return n + 1
    return draws


DRAW = types.int64(
    types.int64, types.float64, _numbers, _numbers, types.int64, _words, _numbers, types.int64
)


def draw(
    kernels: Any, F: NDArray[Any], wanted: int, counts: Any, inverse_p: Any, draws: int
) -> int:
    """Draw the round of ``F`` again and again, the generator moving on and the state restored.

    Counts every arm and keeps its last inverse probability.  Ends after ``draws``, or when
    ``wanted`` is drawn, leaving ``F`` as after that draw; returns the number of draws.
    """
    given = float(address(F)), F, F.copy(), wanted, counts, inverse_p, draws
    return int(loop(_draw, DRAW)(drawing_place(kernels.ask), *given))


@jit
def _lose(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Write the arm into row t of the state, and look its loss up in the configuration."""
    store(E, t, to_float(arm))
    return lookup(advance(C, 1), (t - 1) % to_int(C[0]) * K, arm)


def play_tile(
    kernels: Any, K: int, horizon: int, C: Any, S: Any, G: Any, losses: Any
) -> NDArray[np.int64]:
    """Play a tile of repetitions from round 1 on; return the arms of every round, a row each."""
    lanes = native.lanes()
    codes = (
        placed_code(engine.rounds_of(kernels.choose, kernels.update), engine.play_shape(lanes)),
        placed_code(_lose, shapes(lanes).loss),
    )
    table = np.append(float(len(losses)), losses)
    played, unused = aligned((1 + horizon) * LANES), aligned(WORDS * LANES, np.int64)
    cost, plays = aligned(LANES), aligned(K * LANES)
    policy = block(address(C), address(S), address(G), 0)
    world = block(address(table), address(played), address(unused), 0)
    outputs = block(address(cost), address(plays), 0, 0, -1)
    run = entry(engine.of_width(engine.run_wide, lanes), engine.RUN_ALIKE)
    run(block(*(code for code, _ in codes)), False, K, 1, horizon, policy, world, block(), outputs)
    return played.reshape(-1, LANES)[1:].astype(np.int64)


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
