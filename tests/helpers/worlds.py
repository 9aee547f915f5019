"""Environments' kernels called with given draws, on a tile of repetitions or one by one."""

from dataclasses import dataclass

import numpy as np
from numba.core import types

from bothworlds.engine.environment_loops import ONE, WIDE, act
from bothworlds.engine.policy_loops import loop
from bothworlds.engine.replay import World
from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import load, pointer, store, zeros


@jit
def call_all(loss, attack, prefer, mode, K, rounds, C, E, V, left, right, CA, A, G, X, R, P, like):
    c, e, v, ca, a, g = pointer(C), pointer(E), pointer(V), pointer(CA), pointer(A), pointer(G)
    i, j, x, r, p = pointer(left), pointer(right), pointer(X), pointer(R), pointer(P)
    for n in range(rounds.size):
        u, one, other = load(v, n, like), load(i, n, like), load(j, n, like)
        t = rounds[n]
        store(x, n, act(loss, attack, prefer, mode, K, t, c, e, g, u, one, other, ca, a))
        store(r, n, load(e, 0, like))
        store(p, n, load(a, 0, like))


@jit
def call_wide(loss, attack, prefer, mode, K, rounds, C, E, V, left, right, CA, A, G, X, R, P):
    call_all(
        loss, attack, prefer, mode, K, rounds, C, E, V, left, right, CA, A, G, X, R, P, zeros()
    )  # fmt: skip


@jit
def call_one(loss, attack, prefer, mode, K, rounds, C, E, V, left, right, CA, A, G, X, R, P):
    call_all(loss, attack, prefer, mode, K, rounds, C, E, V, left, right, CA, A, G, X, R, P, 0.0)


_numbers, _words = types.float64[::1], types.int64[::1]
_ARRAYS = (_words, *[_numbers] * 3, _words, _words, *[_numbers] * 2, _words, *[_numbers] * 3)
_LOOPS = {
    True: (call_wide, types.void(*WIDE, types.int64, types.int64, *_ARRAYS)),
    False: (call_one, types.void(*ONE, types.int64, types.int64, *_ARRAYS)),
}


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
    return duel(environment, arms, arms, v, rounds, wide, seed)


def duel(environment, left, right, v, rounds=None, wide=True, seed=0) -> Seen:
    """Call a duel's kernel as `call` does."""
    world = World(environment, seed)
    left, right = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
    v = np.asarray(v, dtype=np.float64)
    n = len(v)
    rounds = np.arange(1, n + 1) if rounds is None else np.asarray(rounds, dtype=np.int64)
    attack = environment.stage()
    E = np.stack(starts(environment, seed), axis=1)
    A = np.zeros((1, LANES)) if attack is None else np.stack(
        [attack.start(np.random.default_rng([seed, lane, 1])) for lane in range(LANES)], axis=1
    )  # fmt: skip
    CA = np.zeros(1) if attack is None else attack.parameters
    C = np.array(environment.parameters())
    X, R, P = np.zeros((n, LANES)), np.zeros((n, LANES)), np.zeros((n, LANES))
    G = np.zeros(4 * LANES, np.int64)
    kernels, run = world.kernels(wide), loop(*_LOOPS[wide])
    for column in [slice(None)] if wide else range(LANES):
        blocks = [E, v, left, right, A, X, R, P]
        e, w, i, j, a, x, r, p = (np.ascontiguousarray(b[:, column]).ravel() for b in blocks)
        K, mode = environment.n_arms, world.mode(attacked=True)
        run(*kernels, mode, K, rounds, C, e, w, i, j, CA, a, G, x, r, p)
        for block, flat in ((E, e), (A, a), (X, x), (R, r), (P, p)):
            block[:, column] = flat.reshape(block[:, column].shape)
    return Seen(X, R, P, E)


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
