"""Compiled loop for late feedback: repetitions of one policy, one after another.

A repetition is a bandit packed in one array; its decisions go through the kernels of
`bothworlds.policies.late`, as those of a `bothworlds.Bandit` do.  Decisions whose feedback is on
its way wait in a heap, by the round of its arrival and then by the round of the decision.

======== ==========================================================================
``Q``    of every waiting decision the round of arrival, its own round and the arm
``X``    of every waiting decision the loss
``N``    of every waiting decision the notes of `bothworlds.policies.late`
``H``    the heap: places in Q, the next to arrive first; behind it the free places
======== ==========================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from bothworlds.engine.loop import ATTACKED, BAD_ARM, BAD_LOSS, DONE, UNTRUSTED, out_of_range
from bothworlds.engine.policy_loops import ASK, TELL
from bothworlds.environments.base import ORDER
from bothworlds.environments.delays import delay_of
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import ATTACK_ONE, HEAD, LOSS_ONE, PARAMETERS, ROUND
from bothworlds.lanes.random import WORDS, uniform
from bothworlds.lanes.vectors import advance, numbers_at, words_at

FULL = 3
"""Codes that `run_delayed` returns besides those of `run_tile`: no room for waiting feedback."""

ARRIVES, MADE, ARM, QUEUED = 0, 1, 2, 3
"""The columns of Q."""
NEXT, MARK, WAITING, PROGRESS = 0, 1, 2, 3
"""How far a repetition is: the next round, the next checkpoint, how many decisions wait."""


@jit
def sooner(Q: Any, one: int, other: int) -> Any:
    """Tell whether the feedback of one waiting decision comes before that of another."""
    if Q[one, ARRIVES] != Q[other, ARRIVES]:
        return Q[one, ARRIVES] < Q[other, ARRIVES]
    return Q[one, MADE] < Q[other, MADE]


@jit
def lift(H: Any, Q: Any, at: int) -> None:
    """Let the decision at a place of the heap rise to where it belongs."""
    moved = H[at]
    while at > 0:
        above = (at - 1) // 2
        if not sooner(Q, moved, H[above]):
            break
        H[at] = H[above]
        at = above
    H[at] = moved


@jit
def take_first(H: Any, Q: Any, waiting: int) -> Any:
    """Remove the first of the heap; its place becomes the first free one."""
    first = H[0]
    last = waiting - 1
    moved = H[last]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and sooner(Q, H[below + 1], H[below]):
            below += 1
        if not sooner(Q, H[below], moved):
            break
        H[at] = H[below]
        at = below
    H[at] = moved
    H[last] = first
    return first


@jit
def run_delayed(
    ask: Any,
    tell: Any,
    note: Any,
    learn: Any,
    loss: Any,
    attack: Any,
    mode: int,
    K: int,
    last: int,
    horizon: int,
    F: Any,
    CD: Any,
    indices: Any,
    everyone: Any,
    environment: Any,
    attacker: Any,
    delays: int,
    checkpoints: Any,
    tracked: int,
    progress: Any,
    cost: Any,
    plays: Any,
    sums: Any,
    H: Any,
    Q: Any,
    X: Any,
    N: Any,
) -> Any:
    """Play all repetitions up to round ``last``; return `DONE`, `FULL` or the code of a fault.

    Parameters
    ----------
    mode : int
        `ATTACKED` where an attack stage follows, plus `UNTRUSTED` where losses must be examined.
    F : array (repetitions, numbers)
        The packed bandits.
    CD : array
        The numbers of `bothworlds.environments.delays`.
    indices, everyone : array
        All arms, and an empty array: the arms that could be drawn.
    environment, attacker : array of int
        Addresses of configuration, state and generator, and the rows of a repetition; the
        attacker has no generator.
    delays : int
        Address of the generators of the delays.
    progress : array (repetitions, 3) of int
        How far every repetition is, `NEXT`, `MARK` and `WAITING`.
    cost, plays, sums : array
        Regret so far and at the checkpoints, plays by arm, tracked sums at the checkpoints.
    """
    CE = numbers_at(environment[0])
    rows = environment[3]
    CA = numbers_at(attacker[0])
    attacked = mode & ATTACKED != 0
    untrusted = mode & UNTRUSTED != 0
    flags = np.zeros(K, np.uint8)
    w = np.zeros(K)
    spare = np.zeros(N.shape[2])
    start = HEAD + int(F[0, PARAMETERS])
    for lane in range(F.shape[0]):
        f = F[lane]
        e = advance(numbers_at(environment[1]), lane * rows)
        g = advance(words_at(environment[2]), lane * WORDS)
        a = advance(numbers_at(attacker[1]), lane * attacker[2])
        d = advance(words_at(delays), lane * WORDS)
        h, q, x = H[lane], Q[lane], X[lane]
        waiting = progress[lane, WAITING]
        while progress[lane, NEXT] <= last:
            t = progress[lane, NEXT]
            if waiting == h.size:
                return FULL
            f[ROUND] = t
            arm = ask(f)
            if not 0 <= arm < K:
                return BAD_ARM
            inverse_p = f[start]
            v = uniform(g, 0.0)
            if attacked:
                value = attack(loss, K, t, CE, e, g, v, arm, CA, a)
            else:
                value = loss(K, t, CE, e, g, v, arm)
            if untrusted and out_of_range(value):
                return BAD_LOSS
            cost[0, lane] += e[0]
            plays[arm, lane] += 1.0
            late = delay_of(CD, int(e[ORDER + arm]), uniform(d, 0.0), uniform(d, 0.0))
            if late == 0:
                tell(f, arm, inverse_p, value)
            elif 0 < late <= horizon - t:
                place = h[waiting]
                note(f, indices, N[lane, place], flags, w)
                q[place, ARRIVES] = t + late
                q[place, MADE] = t
                q[place, ARM] = arm
                x[place] = value
                lift(h, q, waiting)
                waiting += 1
            while waiting > 0 and q[h[0], ARRIVES] <= t:
                place = take_first(h, q, waiting)
                waiting -= 1
                for i in range(spare.size):
                    spare[i] = N[lane, place, i]
                told = q[place, ARM]
                made = float(q[place, MADE])
                learn(f, told, x[place], made, spare, indices, everyone, told, flags)
            progress[lane, WAITING] = waiting
            mark = progress[lane, MARK]
            if mark < checkpoints.size and t == checkpoints[mark]:
                cost[1 + mark, lane] = cost[0, lane]
                if tracked >= 0:
                    for i in range(K + 1):
                        sums[mark, i, lane] = e[tracked + i]
                progress[lane, MARK] = mark + 1
            progress[lane, NEXT] = t + 1
    return DONE


_numbers, _words, _flags = types.float64[::1], types.int64[::1], types.uint8[::1]
NOTE = types.void(_numbers, _words, _numbers, _flags, _numbers)
LEARN = types.void(
    _numbers, types.int64, types.float64, types.float64, _numbers, _words, _flags, types.int64,
    _flags,
)  # fmt: skip
RUN_DELAYED = types.int64(
    *(types.FunctionType(sig) for sig in (ASK, TELL, NOTE, LEARN, LOSS_ONE, ATTACK_ONE)),
    *(types.int64,) * 4,
    types.float64[:, ::1], _numbers, _words, _flags,
    _words, _words, types.int64, _words, types.int64,
    types.int64[:, ::1], types.float64[:, ::1], types.float64[:, ::1], types.float64[:, :, ::1],
    types.int64[:, ::1], types.int64[:, :, ::1], types.float64[:, ::1], types.float64[:, :, ::1],
)  # fmt: skip
