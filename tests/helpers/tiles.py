"""A plain loop over kernels for tests: a tile of vectors, or the same repetitions one by one."""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numba.core import types

from bothworlds.lanes import kernels as shapes
from bothworlds.lanes.random import uniform
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import gather, load, pointer, select, splat, store, zeros

compiled = numba.njit(nogil=True, error_model="numpy")


@compiled
def loop(choose, update, K, horizon, C, S, G, E, GE, A, like):
    """Bernoulli losses with the means of row i of E; arms of the last rounds go to A."""
    rows = A[0]
    for t in range(1, horizon + 1):
        arm = choose(K, t, C, S, G, uniform(G, like))
        mean = gather(E, 0, arm)
        loss = select(uniform(GE, like) < mean, splat(1.0, like), splat(0.0, like))
        update(K, t, C, S, G, arm, load(S, 0, like), loss)
        store(A, 1 + (t - 1) % rows, arm)


def _entry(wide):
    @compiled
    def run(choose, update, K, horizon, C, S, G, E, GE, A):
        like = zeros() if wide else 0.0
        loop(
            choose, update, K, horizon, pointer(C), pointer(S), pointer(G), pointer(E),
            pointer(GE), pointer(A), like,
        )  # fmt: skip

    numbers, words = types.float64[::1], types.int64[::1]
    choose = types.FunctionType(shapes.CHOOSE_WIDE if wide else shapes.CHOOSE_ONE)
    update = types.FunctionType(shapes.UPDATE_WIDE if wide else shapes.UPDATE_ONE)
    run.compile(
        types.void(
            choose, update, types.int64, types.int64, numbers, numbers, words, numbers,
            words, words,
        )
    )  # fmt: skip
    return run


_entries: dict[bool, Any] = {}


def entry(wide: bool) -> Any:
    if wide not in _entries:
        _entries[wide] = _entry(wide)
    return _entries[wide]


@dataclass
class Played:
    """What a tile of repetitions left behind, one column per repetition."""

    arms: np.ndarray
    state: np.ndarray
    generator: np.ndarray


def play(policy, means, horizon, seed, wide=True, start=None, keep=1) -> Played:
    """Run LANES repetitions; ``means`` has one column of arms' mean losses per repetition."""
    rng = np.random.default_rng(seed)
    K = means.shape[0]
    kernels = policy.kernels()
    kernels.choose.compile(shapes.CHOOSE_WIDE if wide else shapes.CHOOSE_ONE)
    kernels.update.compile(shapes.UPDATE_WIDE if wide else shapes.UPDATE_ONE)
    run = entry(wide)
    if start is None:
        start = np.repeat(policy.start(K)[:, None], LANES, axis=1)
    G = rng.integers(-(2**63), 2**63, size=(4, LANES))
    GE = rng.integers(-(2**63), 2**63, size=(4, LANES))
    C = np.append(policy.parameters(K), 0.0)
    arms = np.zeros((1 + keep, LANES), np.int64)
    arms[0] = keep
    blocks = [start.copy(), G, means, GE, arms]
    columns = [slice(None)] if wide else list(range(LANES))
    for column in columns:
        S, g, E, ge, A = (np.ascontiguousarray(b[:, column]).ravel() for b in blocks)
        if wide:
            A = np.concatenate([[keep], np.zeros(LANES - 1, np.int64), A[LANES:]])
        run(kernels.choose, kernels.update, K, horizon, C, S, g, E, ge, A)
        for block, flat in zip(blocks, (S, g, E, ge, A), strict=True):
            block[:, column] = flat.reshape(block[:, column].shape)
    return Played(blocks[4][1:], blocks[0], blocks[1])
