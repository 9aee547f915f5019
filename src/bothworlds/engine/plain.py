"""Tile of repetitions of a policy in plain Python, start to end.

The environment and its streams are those of `bothworlds.engine.tile`, so that repetitions with the
same number meet the same losses.  The outcome is the same as well; there is no snapshot.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np
from numba.core import types

from bothworlds.engine import loop as engine
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.realised import realised_regret
from bothworlds.engine.table import by_label
from bothworlds.engine.tile import Interrupted, TileJob, blame, compiling, rehearse, stretches
from bothworlds.environments.base import ORDER
from bothworlds.errors import BothworldsError
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import numbers_at, pointer
from bothworlds.lanes.wrap import bound
from bothworlds.policies.plain import PlainPolicy
from bothworlds.seeding import numpy_generator, stream_words
from bothworlds.usercode import fault, no_arm

FIRST_CHUNK = 1000
"""Rounds after which the speed is measured for the first time."""

_numbers = types.float64[::1]
STEP = (*(types.int64,) * 3, _numbers, types.int64[::1], _numbers, _numbers, types.int64)
"""Types of the arguments of a step."""

# What the templates call; filled in by `bound`.
lose: Any = None
strike: Any = None


def step(K: int, t: int, C: int, E: Any, G: Any, CA: Any, A: Any, arm: int) -> Any:
    """Play an arm in round t; return its loss and its contribution to regret."""
    g = pointer(G)
    loss = lose(K, t, numbers_at(C), pointer(E), g, uniform(g, 0.0), arm)
    return loss, E[0]


def step_attacked(K: int, t: int, C: int, E: Any, G: Any, CA: Any, A: Any, arm: int) -> Any:
    """Do the same, and return the loss that the stage lets be seen."""
    g = pointer(G)
    v = uniform(g, 0.0)
    loss = strike(
        lose, K, t, numbers_at(C), pointer(E), g, v, arm, pointer(CA), pointer(A)
    )  # fmt: skip
    return loss, E[0]


@functools.lru_cache(maxsize=256)
def stepping(loss: Any, attack: Any) -> Any:
    """Return the compiled step of an environment."""
    if attack is None:
        return bound(step, lose=loss)
    made = bound(step_attacked, lose=loss, strike=attack)
    with compiling, warnings.catch_warnings():
        # A stage that calls this kernel and no other one is compiled in every process.
        warnings.filterwarnings("ignore", "Cannot cache compiled function")
        made.compile(STEP)
    return made


def run_job(
    job: TileJob,
    stop: Callable[[], bool] | None = None,
    tick: Callable[[int], None] | None = None,
) -> TileOutcome:
    """Run a tile of a policy in plain Python; see `bothworlds.engine.tile.run_job`."""
    rehearse(job)
    began, cpu_began = time.perf_counter(), time.thread_time()
    environment, policy, stage = job.environment, job.policy, job.stage()
    assert isinstance(policy, PlainPolicy)
    play = stepping(environment.unchecked_kernel(), None if stage is None else stage.kernel)
    K, world = environment.n_arms, repr(environment)
    C = np.ascontiguousarray(environment.parameters())
    CA = np.zeros(1) if stage is None else stage.parameters
    tracked = environment.tracked_row if environment.regret == "tracked" else -1
    checkpoints = list(job.checkpoints)
    shape = job.count, len(checkpoints)
    cost, realised = np.zeros(shape), np.zeros(shape)
    sums, shares = np.zeros((*shape, K + 1)), np.zeros((*shape, K), dtype=np.int64)
    for row, number in enumerate(range(job.first, job.first + job.count)):
        state = policy.begin(K, numpy_generator(job.seed, world, job.name, number))
        E = environment.start(numpy_generator(job.seed, world, number)).copy()
        G = stream_words(job.seed, world, number).copy()
        A = np.zeros(1)
        if stage is not None:
            A = stage.start(numpy_generator(job.seed, world, "attack", number)).copy()
        labels = E[np.newaxis, ORDER : ORDER + K].astype(np.int64)
        total, plays, mark = 0.0, [0] * K, 0
        try:
            for first, last in stretches(job, 1, FIRST_CHUNK, stop):
                for t in range(first, last + 1):
                    arm = index(policy.choose(state, t))
                    if not 0 <= arm < K:
                        raise no_arm("choose", job.name, K, arm)
                    loss, own = play(K, t, C.ctypes.data, E, G, CA, A, arm)
                    if not environment.trusted and not 0.0 <= loss <= 1.0:
                        raise blame(job, engine.BAD_LOSS)
                    total += own
                    plays[arm] += 1
                    policy.update(state, t, arm, loss)
                    if t == checkpoints[mark]:
                        cost[row, mark] = total
                        shares[row, mark] = by_label(labels, np.array([plays]))[0]
                        if tracked >= 0:
                            sums[row, mark] = E[tracked : tracked + K + 1]
                        if job.realised:
                            realised[row, mark] = realised_regret(A[:, np.newaxis], K)[0]
                        mark += 1
                if tick is not None:
                    tick(last - first + 1)
        except (BothworldsError, Interrupted):
            raise
        except Exception as error:
            raise fault("policy", job.name, error) from error
    return TileOutcome(
        first=job.first,
        cost=cost,
        plays=shares[:, -1].copy(),
        tracked=sums if tracked >= 0 else None,
        cpu=time.thread_time() - cpu_began,
        wall=time.perf_counter() - began,
        shares=shares if job.shares else None,
        realised=realised if job.realised else None,
    )
