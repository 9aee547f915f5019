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
from bothworlds.lanes.kernels import shapes
from bothworlds.lanes.random import WORDS, uniform
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    advance,
    group,
    load,
    numbers_at,
    pointer,
    splat,
    store,
    width,
    words_at,
)

zeros: Any = None
"""A template's ``like``, which `bothworlds.engine.loop.of_width` fills in."""


@jit
def choose_lanes(
    choose: Any, ours: Any, K: int, t: int, side: Any, arms: Any, inverse_p: Any
) -> bool:
    """Choose for one side, for each of ``ours``; return whether all chose an arm."""
    C = numbers_at(side[0])
    S = numbers_at(side[1])
    G = words_at(side[2])
    for lane in ours:
        s = advance(S, lane * side[3])
        g = advance(G, lane * WORDS)
        arms[lane] = choose(K, t, C, s, g, uniform(g, 0.0))
        inverse_p[lane] = s[0]
        if not 0 <= arms[lane] < K:
            return False
    return True


@jit
def update_lanes(
    update: Any, ours: Any, K: int, t: int, side: Any, arms: Any, inverse_p: Any, losses: Any
) -> None:
    """Let one side learn, for each of ``ours``."""
    C = numbers_at(side[0])
    S = numbers_at(side[1])
    G = words_at(side[2])
    for lane in ours:
        s = advance(S, lane * side[3])
        g = advance(G, lane * WORDS)
        update(K, t, C, s, g, arms[lane], inverse_p[lane], losses[lane])


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
    """Play rounds ``first`` to ``last``; return `DONE` or the fault of a scalar kernel.

    A template.

    Parameters
    ----------
    mode : int
        Sum of `WIDE_POLICY`, `WIDE_ENVIRONMENT`, `UNTRUSTED`.
    lanes : int
        Repetitions in use; scalar kernels skip the rest.
    left, right, environment : array of int
        Addresses of configuration, state and generator, and the rows of a repetition.
    checkpoints, outputs : array of int
        As `engine.run_tile` takes them.
    """
    C = numbers_at(left[0])
    CE = numbers_at(environment[0])
    environment_rows = environment[3]
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
    t = first
    while t <= last:
        stop = stretch_end(last, checkpoints, outputs)
        for begin in range(0, LANES, width(like)):
            ours = range(begin, min(begin + width(like), lanes))
            SL = group(numbers_at(left[1]), begin, like)
            GL = group(words_at(left[2]), begin, like)
            SR = group(numbers_at(right[1]), begin, like)
            GR = group(words_at(right[2]), begin, like)
            E = group(numbers_at(environment[1]), begin, like)
            GE = group(words_at(environment[2]), begin, like)
            X = group(numbers_at(outputs[0]), begin, like)
            N = group(numbers_at(outputs[1]), begin, like)
            i = group(pointer(left_arms), begin, like)
            j = group(pointer(right_arms), begin, like)
            p = group(pointer(left_draws), begin, like)
            q = group(pointer(right_draws), begin, like)
            x = group(pointer(left_losses), begin, like)
            y = group(pointer(right_losses), begin, like)
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
                continue
            for now in range(t, stop + 1):
                if wide_policy:
                    store(i, 0, choose_left_wide(K, now, C, SL, GL, uniform(GL, like)))
                    store(p, 0, load(SL, 0, like))
                    store(j, 0, choose_right_wide(K, now, C, SR, GR, uniform(GR, like)))
                    store(q, 0, load(SR, 0, like))
                elif not (
                    choose_lanes(choose_left_one, ours, K, now, left, left_arms, left_draws)
                    and choose_lanes(choose_right_one, ours, K, now, right, right_arms, right_draws)
                ):
                    return BAD_ARM
                if wide_environment:
                    v = uniform(GE, like)
                    arm = load(i, 0, like)
                    other = load(j, 0, like)
                    store(x, 0, prefer_wide(K, now, CE, E, GE, v, arm, other))
                    store(X, 0, load(X, 0, like) + load(E, 0, like))
                else:
                    for lane in ours:
                        g = advance(words_at(environment[2]), lane * WORDS)
                        e = advance(numbers_at(environment[1]), lane * environment_rows)
                        left_losses[lane] = prefer_one(
                            K, now, CE, e, g, uniform(g, 0.0), left_arms[lane], right_arms[lane]
                        )
                        X[lane - begin] += e[0]
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
                        update_left_one, ours, K, now, left, left_arms, left_draws, left_losses
                    )
                    update_lanes(
                        update_right_one, ours, K, now, right, right_arms, right_draws,
                        right_losses,
                    )  # fmt: skip
                count_plays(N, K, load(i, 0, like), 1)
                count_plays(N, K, load(j, 0, like), 1)
        rows = 0 if wide_environment else environment_rows
        record(stop, checkpoints, outputs, K, numbers_at(environment[1]), rows, LANES)
        t = stop + 1
    return DONE


_integers = types.int64[::1]


def run_duels_shape(lanes: int) -> Any:
    """Return the signature of `run_duels` for vectors of so many lanes."""
    functions = [
        types.FunctionType(signature)
        for own in (shapes(lanes), shapes(1))
        for signature in (own.choose, own.choose, own.update, own.update, own.prefer)
    ]
    return types.int64(*functions, *(types.int64,) * 5, *(_integers,) * 5)
