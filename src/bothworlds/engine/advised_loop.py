"""Compiled loops of a game with advice: in lanes, and one repetition after another.

======== ==========================================================================
``A``    advice: phases by contexts by experts by arms
``M``    mean losses: contexts by arms
``X``    costs: phases by contexts by arms
======== ==========================================================================

`run_lanes` plays the half-Tsallis step over the experts, with prompt feedback, for a tile of
repetitions; `run_each` plays every policy of `bothworlds.policies.advice` with any delay.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bothworlds.engine.delayed_loop import (
    ARM,
    ARRIVES,
    FULL,
    MADE,
    MARK,
    NEXT,
    WAITING,
    lift,
    take_first,
)
from bothworlds.engine.loop import DONE, count_plays
from bothworlds.environments.advised import context_of
from bothworlds.environments.delays import delay_of
from bothworlds.environments.lookup import lookup
from bothworlds.environments.stochastic import coin
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import uniform
from bothworlds.lanes.rows import add_to
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    absolute,
    advance,
    fma,
    load,
    minimum,
    pointer,
    select,
    splat,
    splat_int,
    sqrt,
    store,
    zeros,
)
from bothworlds.omd import few, half
from bothworlds.omd.learning_rates import rate
from bothworlds.policies import advice as step


@jit
def mark(t: int, checkpoints: Any, progress: Any, r: int, cost: Any) -> None:
    """Write the cost of repetition r so far if round t is its next checkpoint."""
    at = progress[r, MARK]
    if at < checkpoints.size and t == checkpoints[at]:
        cost[1 + at, r] = cost[0, r]
        progress[r, MARK] = at + 1


@jit
def run_each(
    last: int,
    horizon: int,
    F: Any,
    G: Any,
    GE: Any,
    GD: Any,
    CD: Any,
    A: Any,
    M: Any,
    X: Any,
    change: int,
    levels: Any,
    checkpoints: Any,
    progress: Any,
    cost: Any,
    plays: Any,
    H: Any,
    Q: Any,
    losses: Any,
    notes: Any,
) -> int:
    """Play all repetitions up to round ``last``; returns `DONE` or `FULL`.

    Parameters
    ----------
    F, G : array (repetitions, numbers)
        States of `bothworlds.policies.advice`, and their generators.
    GE, GD : array (repetitions, words)
        Generators of the environment and of the delays.
    CD : array
        The numbers of `bothworlds.environments.delays`; empty where feedback is prompt.
    change : int
        The first round of the later advice.
    levels : array
        What is added to the means, by round; empty if nothing is.
    progress, cost, plays, H, Q, losses, notes : array
        As `bothworlds.engine.delayed_loop.run_delayed` has them; the notes are the numbers of
        the decisions.
    """
    _, contexts, N, K = A.shape
    awake, here = np.ones(N, np.uint8), np.ones(K, np.uint8)
    weights = np.empty(N)
    for r in range(F.shape[0]):
        h, queue = H[r], Q[r]
        waiting = progress[r, WAITING]
        while progress[r, NEXT] <= last:
            t = progress[r, NEXT]
            if waiting == h.size:
                return FULL
            phase = 1 if t >= change else 0
            context = context_of(contexts, uniform(GE[r], 0.0))
            place = h[waiting]
            D = notes[r, place]
            arm = step.draw(F[r], G[r], A[phase, context], awake, here, weights, D)
            for a in range(K):
                cost[0, r] += D[D.size - K + a] * X[phase, context, a]
            plays[arm, r] += 1.0
            level = levels[t - 1] if levels.size > 0 else 0.0
            loss = coin(uniform(GE[r], 0.0), M[context, arm] + level)
            late = 0
            if CD.size > 0:
                late = delay_of(CD, arm, uniform(GD[r], 0.0), uniform(GD[r], 0.0))
            if late == 0:
                step.learn(F[r], D, loss)
            elif 0 < late <= horizon - t:
                queue[place, ARRIVES] = t + late
                queue[place, MADE] = t
                queue[place, ARM] = arm
                losses[r, place] = loss
                lift(h, queue, waiting)
                waiting += 1
            while waiting > 0 and queue[h[0], ARRIVES] <= t:
                place = take_first(h, queue, waiting)
                waiting -= 1
                step.learn(F[r], notes[r, place], losses[r, place])
            progress[r, WAITING] = waiting
            mark(t, checkpoints, progress, r, cost)
            progress[r, NEXT] = t + 1
    return DONE


# Rows of a tile: beta, then those of the solver and the estimates; by arm the sum of its losses
# and their number; by expert the weights; by arm the baselines; by expert the roots of the weights
# and, by arm, the advice.
SOLVER = 1


def rows(N: int, K: int) -> int:
    """Return how many rows the state of a tile has."""
    return SOLVER + half.ESTIMATES + 3 * N + 3 * K + N * K


@jit
def run_lanes(
    last: int,
    C: Any,
    S: Any,
    G: Any,
    GE: Any,
    A: Any,
    M: Any,
    X: Any,
    change: int,
    levels: Any,
    checkpoints: Any,
    progress: Any,
    cost: Any,
    plays: Any,
) -> int:
    """Play a tile up to round ``last``; returns `DONE`.

    Parameters
    ----------
    C : array
        A state of `bothworlds.policies.advice`, for its setting.
    S, G, GE : array
        Rows of the tile, and the generators of policy and environment, interleaved.
    progress : array (1, 3) of int
        The next round and the next checkpoint.
    cost, plays : array
        Cost so far and at the checkpoints, plays by arm; a column per lane.
    A, M, X, change, levels, checkpoints
        As `run_each` takes them.
    """
    _, contexts, N, K = A.shape
    like = zeros()
    beta, P = pointer(S), advance(pointer(S), SOLVER * LANES)
    L, first = half.ESTIMATES, half.ESTIMATES + N
    weights, bases = first + 2 * K, first + 2 * K + N
    roots = bases + K
    table = roots + N
    g, ge, sums, counts = pointer(G), pointer(GE), pointer(cost), pointer(plays)
    advised, means, costs = pointer(A), pointer(M), pointer(X)
    estimator, matched = C[step.ESTIMATOR], C[step.KIND] == step.MATCHED
    # Where the solvers draw an expert, which is not used: before all of them, or anywhere.
    nowhere, middle = splat(-1.0, like), splat(0.5, like)
    for t in range(progress[0, NEXT], last + 1):
        phase = contexts if t >= change else 0
        eta = splat(0.0, like)
        if matched:
            eta = 2.0 * math.sqrt(2.0) / load(beta, 0, like)
        else:
            eta = splat(rate(int(C[step.CODE]), C[step.PARAMETER], 0.5, N, float(t)), like)
        half.recentre_if_due(N, t, P, like)
        if few.fits(N):
            few.draw(N, P, eta, nowhere, None)
        else:
            half.draw(N, P, eta, None, middle, None)
        x = load(P, half.ROOT, like)
        h = splat(-1.0, like)
        for j in range(N):
            root = half.root_of_weight(eta, load(P, L + j, like) - x)
            store(P, roots + j, root)
            store(P, weights + j, root * root)
            h = h + root
        context = context_of(contexts, uniform(ge, like)) + phase
        own = context * (N * K)
        e = step.floor_of(C, float(t))
        # The arm, its probability and its baseline.
        u = uniform(g, like)
        arm = splat_int(0, like)
        p_I, base_I = splat(0.0, like), splat(0.0, like)
        below, price = splat(0.0, like), splat(0.0, like)
        for a in range(K):
            p = splat(0.0, like)
            for j in range(N):
                given = lookup(advised, j * K + a, own)
                if estimator != step.IW:
                    # Looked up once: loading it again costs less.
                    store(P, table + j * K + a, given)
                p = fma(load(P, weights + j, like), given, p)
            base = splat(0.0, like)
            if estimator == step.SOFT:
                base = minimum(0.5 * sqrt(p) / eta, 0.5)
            elif estimator == step.RV:
                base = select(p >= eta * eta, 0.5, base)
            elif estimator == step.MEANS:
                n = load(P, first + K + a, like) + C[step.PRIOR]
                mean = (load(P, first + a, like) + 0.5 * C[step.PRIOR]) / n
                base = select(p >= eta * eta, mean, base)
            store(P, bases + a, base)
            p = (1.0 - e) * p + e / K
            here = (u >= below) & (p > 0.0)
            arm = select(here, splat_int(a, like), arm)
            p_I = select(here, p, p_I)
            base_I = select(here, base, base_I)
            below = below + p
            price = fma(p, lookup(costs, a, context * K), price)
        store(sums, 0, load(sums, 0, like) + price)
        count_plays(counts, K, arm, 1)
        level = levels[t - 1] if levels.size > 0 else 0.0
        mean = lookup(means, -phase * K, context * K + arm) + level
        loss = coin(uniform(ge, like), mean)
        d = loss - base_I
        inverse_p = 1.0 / p_I
        z, cap = splat(0.0, like), splat(0.0, like)
        moved3, moved4, squares4 = splat(0.0, like), splat(0.0, like), splat(0.0, like)
        for j in range(N):
            r = lookup(advised, j * K, own + arm) * inverse_p
            by = d * r
            if estimator != step.IW:
                for a in range(K):
                    by = fma(load(P, table + j * K + a, like), load(P, bases + a, like), by)
            if not few.fits(N):
                inverse = 0.5 * eta * load(P, roots + j, like)
                cube = by * inverse * inverse * inverse
                moved3 = moved3 + cube
                moved4 = fma(cube, inverse, moved4)
                squares4 = fma(cube * by, inverse, squares4)
            store(P, L + j, load(P, L + j, like) + by)
            if matched:
                q = load(P, weights + j, like)
                off = r - 1.0
                z = fma(q * sqrt(q), off * off, z)
                cap = fma(q, absolute(off), cap)
        if not few.fits(N):
            half.shift_all(P, (moved3, moved4, squares4))
        if matched:
            now = load(beta, 0, like)
            z = minimum(d * d * z, 0.5 * now * absolute(d) * cap)
            spread = h > 1e-12
            store(beta, 0, now + select(spread, z / (now * select(spread, h, 1.0)), 0.0))
            add_to(P, first, K, arm, loss)
            add_to(P, first + K, K, arm, splat(1.0, like))
        at = progress[0, MARK]
        if at < checkpoints.size and t == checkpoints[at]:
            store(sums, 1 + at, load(sums, 0, like))
            progress[0, MARK] = at + 1
    progress[0, NEXT] = last + 1
    return DONE
