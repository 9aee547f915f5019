"""Environments' kernels called directly, on a tile of repetitions or one by one."""

import functools
from dataclasses import dataclass

import numpy as np
from numba.core import types

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import (
    ATTACK_ONE,
    ATTACK_WIDE,
    LOSS_ONE,
    LOSS_WIDE,
    PREFER_ONE,
    PREFER_WIDE,
)
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import load, pointer, store, zeros


@jit
def loop(loss, attack, attacked, K, rounds, C, E, V, arms, CA, A, G, X, R, P, like):
    for n in range(rounds.size):
        v = load(V, n, like)
        arm = load(arms, n, like)
        if attacked:
            x = attack(loss, K, rounds[n], C, E, G, v, arm, CA, A)
            store(P, n, load(A, 0, like))
        else:
            x = loss(K, rounds[n], C, E, G, v, arm)
        store(X, n, x)
        store(R, n, load(E, 0, like))


@jit
def run_wide(loss, attack, attacked, K, rounds, C, E, V, arms, CA, A, G, X, R, P):
    loop(
        loss, attack, attacked, K, rounds, pointer(C), pointer(E), pointer(V), pointer(arms),
        pointer(CA), pointer(A), pointer(G), pointer(X), pointer(R), pointer(P), zeros(),
    )  # fmt: skip


@jit
def run_one(loss, attack, attacked, K, rounds, C, E, V, arms, CA, A, G, X, R, P):
    loop(
        loss, attack, attacked, K, rounds, pointer(C), pointer(E), pointer(V), pointer(arms),
        pointer(CA), pointer(A), pointer(G), pointer(X), pointer(R), pointer(P), 0.0,
    )  # fmt: skip


@jit
def duel_wide(prefer, K, rounds, C, E, V, left, right, G, X, R):
    like = zeros()
    c, e, g, v, a, b, x, r = (
        pointer(C), pointer(E), pointer(G), pointer(V), pointer(left), pointer(right),
        pointer(X), pointer(R),
    )  # fmt: skip
    for n in range(rounds.size):
        lost = prefer(
            K, rounds[n], c, e, g, load(v, n, like), load(a, n, like), load(b, n, like)
        )  # fmt: skip
        store(x, n, lost)
        store(r, n, load(e, 0, like))


@jit
def duel_one(prefer, K, rounds, C, E, V, left, right, G, X, R):
    c, e, g = pointer(C), pointer(E), pointer(G)
    for n in range(rounds.size):
        X[n] = prefer(K, rounds[n], c, e, g, V[n], left[n], right[n])
        R[n] = E[0]


@jit
def idle(base, K, t, C, E, G, v, arm, CA, A):
    return base(K, t, C, E, G, v, arm)


_numbers, _words = types.float64[::1], types.int64[::1]


@functools.cache
def _compiled(run, *signatures):
    """Compile an entry for first-class functions of these shapes, and for nothing else."""
    functions = tuple(map(types.FunctionType, signatures))
    if len(functions) == 2:
        shape = (*functions, types.boolean, types.int64, _words, *[_numbers] * 3, _words)
        shape += (_numbers, _numbers, _words, _numbers, _numbers, _numbers)
    else:
        shape = (*functions, types.int64, _words, *[_numbers] * 3, _words, _words, _words)
        shape += (_numbers, _numbers)
    run.compile(shape)
    # Else a call would compile the entry anew for every kernel it is given.
    run.disable_compile()
    return run


@dataclass
class Seen:
    """What came back, one row per call and one column per repetition."""

    losses: np.ndarray
    regrets: np.ndarray
    spent: np.ndarray
    state: np.ndarray


def starts(environment, seed, lanes=LANES):
    """State columns of a tile of repetitions."""
    return [environment.start(np.random.default_rng([seed, lane])) for lane in range(lanes)]


def call(environment, arms, v, rounds=None, wide=True, seed=0) -> Seen:
    """Call the kernel with given arms and uniforms, arrays of a row per call and LANES columns.

    ``rounds`` are 1, 2, ... unless given.
    """
    arms = np.asarray(arms, dtype=np.int64)
    v = np.asarray(v, dtype=np.float64)
    n = len(v)
    rounds = np.arange(1, n + 1) if rounds is None else np.asarray(rounds, dtype=np.int64)
    loss = environment.kernel()
    attack = environment.stage()
    strike = idle if attack is None else attack.kernel
    loss.compile(LOSS_WIDE if wide else LOSS_ONE)
    strike.compile(ATTACK_WIDE if wide else ATTACK_ONE)
    if wide:
        run = _compiled(run_wide, LOSS_WIDE, ATTACK_WIDE)
    else:
        run = _compiled(run_one, LOSS_ONE, ATTACK_ONE)
    E = np.stack(starts(environment, seed), axis=1)
    A = np.zeros((1, LANES)) if attack is None else np.stack(
        [attack.start(np.random.default_rng([seed, lane, 1])) for lane in range(LANES)], axis=1
    )  # fmt: skip
    CA = np.zeros(1) if attack is None else attack.parameters
    C = np.array(environment.parameters())
    X, R, P = np.zeros((n, LANES)), np.zeros((n, LANES)), np.zeros((n, LANES))
    G = np.zeros(4 * LANES, np.int64)
    for column in [slice(None)] if wide else range(LANES):
        blocks = [E, v, arms, A, X, R, P]
        e, w, a, s, x, r, p = (np.ascontiguousarray(b[:, column]).ravel() for b in blocks)
        K = environment.n_arms
        run(loss, strike, attack is not None, K, rounds, C, e, w, a, CA, s, G, x, r, p)
        for block, flat in ((E, e), (A, s), (X, x), (R, r), (P, p)):
            block[:, column] = flat.reshape(block[:, column].shape)
    return Seen(X, R, P, E)


def duel(environment, left, right, v, wide=True, seed=0) -> Seen:
    """Call a duel's kernel as `call` does."""
    left, right = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
    n = len(v)
    prefer = environment.kernel()
    prefer.compile(PREFER_WIDE if wide else PREFER_ONE)
    run = _compiled(duel_wide, PREFER_WIDE) if wide else _compiled(duel_one, PREFER_ONE)
    E = np.stack(starts(environment, seed), axis=1)
    C = np.array(environment.parameters())
    X, R = np.zeros((n, LANES)), np.zeros((n, LANES))
    rounds, G = np.arange(1, n + 1), np.zeros(4 * LANES, np.int64)
    for column in [slice(None)] if wide else range(LANES):
        blocks = [E, v, left, right, X, R]
        e, w, a, b, x, r = (np.ascontiguousarray(block[:, column]).ravel() for block in blocks)
        run(prefer, environment.n_arms, rounds, C, e, w, a, b, G, x, r)
        for block, flat in ((E, e), (X, x), (R, r)):
            block[:, column] = flat.reshape(block[:, column].shape)
    return Seen(X, R, np.zeros((n, LANES)), E)


def labels(environment, seed=0):
    """Label of the arm at each index, one column per repetition."""
    K = environment.n_arms
    return np.stack([column[1 : 1 + K] for column in starts(environment, seed)], axis=1).astype(int)


def index_of(environment, label, seed=0):
    """Index of the arm with a label, in every repetition."""
    return np.argmax(labels(environment, seed) == label, axis=0)


def random_play(environment, rounds, seed=1):
    """Random arms and uniforms on the engine's grid."""
    rng = np.random.default_rng(seed)
    v = rng.integers(0, 2**52, (rounds, LANES)) * 2.0**-52
    return rng.integers(environment.n_arms, size=(rounds, LANES)), v


def grid(n):
    """Midpoints of n equal cells of [0, 1), a row each, the same in every lane."""
    return np.repeat(((np.arange(n) + 0.5) / n)[:, None], LANES, axis=1)
