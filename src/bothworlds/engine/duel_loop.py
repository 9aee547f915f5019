"""Compiled loop of duels: a tile of repetitions of one sparring pair in one environment.

Laid out as `bothworlds.engine.loop`, with two sides in place of one policy.  The states of
the sides may be the same memory: they choose one after the other, left first, and learn in that
order once the duel is over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from bothworlds.engine.loop import (
    BAD_ARM,
    BAD_LOSS,
    DONE,
    UNTRUSTED,
    WIDE_ENVIRONMENT,
    WIDE_POLICY,
    count_plays,
    out_of_range,
    record,
    stretch_end,
)
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import (
    CHOOSE_ONE,
    CHOOSE_WIDE,
    PREFER_ONE,
    PREFER_WIDE,
    UPDATE_ONE,
    UPDATE_WIDE,
)
from bothworlds.lanes.random import WORDS, uniform
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    advance,
    load,
    numbers_at,
    pointer,
    splat,
    store,
    words_at,
    zeros,
)


@jit
def choose_lanes(
    choose: Any, lanes: int, K: int, t: int, side: Any, arms: Any, inverse_p: Any
) -> bool:
    """Choose for one side, repetition by repetition; return whether all chose an arm."""
    C = numbers_at(side[0])
    S = numbers_at(side[1])
    G = words_at(side[2])
    for lane in range(lanes):
        s = advance(S, lane * side[3])
        g = advance(G, lane * WORDS)
        arms[lane] = choose(K, t, C, s, g, uniform(g, 0.0))
        inverse_p[lane] = s[0]
        if not 0 <= arms[lane] < K:
            return False
    return True


@jit
def update_lanes(
    update: Any, lanes: int, K: int, t: int, side: Any, arms: Any, inverse_p: Any, losses: Any
) -> None:
    """Let one side learn, repetition by repetition."""
    C = numbers_at(side[0])
    S = numbers_at(side[1])
    G = words_at(side[2])
    for lane in range(lanes):
        s = advance(S, lane * side[3])
        g = advance(G, lane * WORDS)
        update(K, t, C, s, g, arms[lane], inverse_p[lane], losses[lane])


@jit
def run_duels(
    choose_left_wide: Any,
    choose_right_wide: Any,
    update_left_wide: Any,
    update_right_wide: Any,
    prefer_wide: Any,
    choose_left_one: Any,
    choose_right_one: Any,
    update_left_one: Any,
    update_right_one: Any,
    prefer_one: Any,
    mode: int,
    lanes: int,
    K: int,
    first: int,
    last: int,
    left: Any,
    right: Any,
    environment: Any,
    checkpoints: Any,
    outputs: Any,
) -> Any:
    """Play rounds ``first`` to ``last``; returns `DONE` or what a scalar kernel did wrong.

    Parameters
    ----------
    mode : int
        Sum of `WIDE_POLICY`, `WIDE_ENVIRONMENT`, `UNTRUSTED`.
    lanes : int
        Repetitions in use; scalar kernels skip the others.
    left, right, environment : array of int
        Addresses of configuration, state and generator, and the rows of a repetition.
    checkpoints, outputs : array of int
        As `engine.run_tile` takes them.
    """
    C = numbers_at(left[0])
    SL = numbers_at(left[1])
    GL = words_at(left[2])
    SR = numbers_at(right[1])
    GR = words_at(right[2])
    CE = numbers_at(environment[0])
    E = numbers_at(environment[1])
    GE = words_at(environment[2])
    environment_rows = environment[3]
    X = numbers_at(outputs[0])
    N = numbers_at(outputs[1])
    untrusted = mode & UNTRUSTED != 0
    wide_policy = mode & WIDE_POLICY != 0
    wide_environment = mode & WIDE_ENVIRONMENT != 0
    like = zeros()
    one = splat(1.0, like)
    left_arms = np.zeros(LANES, np.int64)
    right_arms = np.zeros(LANES, np.int64)
    left_draws = np.zeros(LANES)
    right_draws = np.zeros(LANES)
    left_losses = np.zeros(LANES)
    right_losses = np.zeros(LANES)
    i = pointer(left_arms)
    j = pointer(right_arms)
    p = pointer(left_draws)
    q = pointer(right_draws)
    x = pointer(left_losses)
    y = pointer(right_losses)
    t = first
    while t <= last:
        stop = stretch_end(last, checkpoints, outputs)
        if wide_policy and wide_environment:
            total = load(X, 0, like)
            for now in range(t, stop + 1):
                arm = choose_left_wide(K, now, C, SL, GL, uniform(GL, like))
                left_p = load(SL, 0, like)
                other = choose_right_wide(K, now, C, SR, GR, uniform(GR, like))
                right_p = load(SR, 0, like)
                loss = prefer_wide(K, now, CE, E, GE, uniform(GE, like), arm, other)
                if untrusted and out_of_range(loss):
                    return BAD_LOSS
                update_left_wide(K, now, C, SL, GL, arm, left_p, loss)
                update_right_wide(K, now, C, SR, GR, other, right_p, one - loss)
                total = total + load(E, 0, like)
                count_plays(N, K, arm, 1)
                count_plays(N, K, other, 1)
            store(X, 0, total)
        else:
            for now in range(t, stop + 1):
                if wide_policy:
                    store(i, 0, choose_left_wide(K, now, C, SL, GL, uniform(GL, like)))
                    store(p, 0, load(SL, 0, like))
                    store(j, 0, choose_right_wide(K, now, C, SR, GR, uniform(GR, like)))
                    store(q, 0, load(SR, 0, like))
                elif not (
                    choose_lanes(choose_left_one, lanes, K, now, left, left_arms, left_draws)
                    and choose_lanes(
                        choose_right_one, lanes, K, now, right, right_arms, right_draws
                    )
                ):
                    return BAD_ARM
                if wide_environment:
                    v = uniform(GE, like)
                    arm = load(i, 0, like)
                    other = load(j, 0, like)
                    store(x, 0, prefer_wide(K, now, CE, E, GE, v, arm, other))
                    store(X, 0, load(X, 0, like) + load(E, 0, like))
                else:
                    for lane in range(lanes):
                        g = advance(GE, lane * WORDS)
                        e = advance(E, lane * environment_rows)
                        left_losses[lane] = prefer_one(
                            K, now, CE, e, g, uniform(g, 0.0), left_arms[lane], right_arms[lane]
                        )
                        X[lane] += e[0]
                loss = load(x, 0, like)
                if untrusted and out_of_range(loss):
                    return BAD_LOSS
                store(y, 0, one - loss)
                if wide_policy:
                    update_left_wide(K, now, C, SL, GL, load(i, 0, like), load(p, 0, like), loss)
                    update_right_wide(
                        K, now, C, SR, GR, load(j, 0, like), load(q, 0, like), load(y, 0, like)
                    )
                else:
                    update_lanes(
                        update_left_one, lanes, K, now, left, left_arms, left_draws, left_losses
                    )
                    update_lanes(
                        update_right_one, lanes, K, now, right, right_arms, right_draws,
                        right_losses,
                    )  # fmt: skip
                count_plays(N, K, load(i, 0, like), 1)
                count_plays(N, K, load(j, 0, like), 1)
        rows = 0 if wide_environment else environment_rows
        record(stop, checkpoints, outputs, K, E, rows, LANES)
        t = stop + 1
    return DONE


_sides = (CHOOSE_WIDE, CHOOSE_WIDE, UPDATE_WIDE, UPDATE_WIDE, PREFER_WIDE)
_sides_one = (CHOOSE_ONE, CHOOSE_ONE, UPDATE_ONE, UPDATE_ONE, PREFER_ONE)
_integers = types.int64[::1]
RUN_DUELS = types.int64(
    *(types.FunctionType(signature) for signature in (*_sides, *_sides_one)),
    *(types.int64,) * 5,
    *(_integers,) * 5,
)
