"""One unit of work: a tile of repetitions of one policy in one environment, start to end."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.environments.base import ATTACK_ONE, ATTACK_WIDE, ORDER, Environment
from bothworlds.errors import BothworldsError, KernelError
from bothworlds.lanes import kernels as shapes
from bothworlds.lanes.vectors import LANES
from bothworlds.policies.base import Policy
from bothworlds.seeding import numpy_generator, stream_words
from bothworlds.simulation import engine

CHUNK_SECONDS = 0.1
"""How long the compiled loop runs before it looks whether it should stop."""


class Interrupted(Exception):
    """The tile was asked to stop before it was finished."""


@dataclass(frozen=True)
class TileJob:
    """What to run; the same job gives the same bits wherever it runs.

    Parameters
    ----------
    name : str
        The policy's label, which seeds its stream.
    policy : Policy
        The algorithm.
    environment : Environment
        The regime.
    seed : int
        The user's seed.
    first : int
        Number of the first repetition.
    count : int
        Repetitions in this tile, at most ``LANES``.
    checkpoints : tuple of int
        Rounds to record, increasing; the last one is the horizon played.
    """

    name: str
    policy: Policy
    environment: Environment
    seed: int
    first: int
    count: int
    checkpoints: tuple[int, ...]


@dataclass(frozen=True)
class TileOutcome:
    """What a tile measured, one row per repetition.

    Parameters
    ----------
    cost : ndarray (count, checkpoints)
        Sum of the environment's contributions to regret.
    plays : ndarray (count, arms)
        How often each arm was played, in the order of the environment's constructor.
    tracked : ndarray (count, checkpoints, arms) or None
        Cumulative expected loss of every arm, where the environment tracks it.
    cpu, wall : float
        Seconds.
    """

    cost: NDArray[np.float64]
    plays: NDArray[np.int64]
    tracked: NDArray[np.float64] | None
    cpu: float
    wall: float


@functools.cache
def _compiled(dispatcher: Any, signature: Any) -> Any:
    """Compile a kernel for one signature, once in a process, and return it."""
    dispatcher.compile(signature)
    return dispatcher


_compile_lock = threading.Lock()


def compile_kernels(policy: Policy, environment: Environment) -> tuple[list[Any], int]:
    """Return the eight functions `engine.run_tile` takes, and the mode."""
    with _compile_lock:
        _compiled(engine.run_tile, engine.RUN_TILE)
        # Otherwise Numba would compile the loop anew for every set of functions it is handed.
        engine.run_tile.disable_compile()
        chosen = policy.kernels()
        loss = environment.kernel()
        attack = environment.attack()
        mode = (
            engine.WIDE_POLICY * chosen.wide
            + engine.WIDE_ENVIRONMENT * environment.wide
            + engine.ATTACKED * (attack is not None)
            + engine.UNTRUSTED * (not environment.trusted)
        )
        strike = engine.idle_attack if attack is None else attack.kernel
        wanted = (
            (chosen.choose, engine.idle_choose, shapes.CHOOSE_WIDE, chosen.wide),
            (chosen.update, engine.idle_update, shapes.UPDATE_WIDE, chosen.wide),
            (loss, engine.idle_loss, shapes.LOSS_WIDE, environment.wide),
            (strike, engine.idle_attack, ATTACK_WIDE, environment.wide),
            (chosen.choose, engine.idle_choose, shapes.CHOOSE_ONE, not chosen.wide),
            (chosen.update, engine.idle_update, shapes.UPDATE_ONE, not chosen.wide),
            (loss, engine.idle_loss, shapes.LOSS_ONE, not environment.wide),
            (strike, engine.idle_attack, ATTACK_ONE, not environment.wide),
        )
        return [_compiled(k if used else idle, sig) for k, idle, sig, used in wanted], mode


def _aligned(values: NDArray[Any]) -> NDArray[Any]:
    """Copy to a flat array that starts at a cache line, so that no vector straddles two."""
    flat = np.ascontiguousarray(values).ravel()
    room = np.empty(flat.size + 8, flat.dtype)
    offset = (-room.ctypes.data % 64) // 8
    aligned = room[offset : offset + flat.size]
    aligned[:] = flat
    return aligned


def _rows(columns: list[NDArray[Any]], wide: bool) -> NDArray[Any]:
    """Lay out one column per repetition: interleaved for vectors, one after another for scalars."""
    stacked = np.stack(columns)
    return _aligned(stacked.T if wide else stacked)


def _address(*arrays: NDArray[Any]) -> list[int]:
    return [array.ctypes.data for array in arrays]


def run_job(
    job: TileJob,
    stop: Callable[[], bool] | None = None,
    tick: Callable[[int], None] | None = None,
) -> TileOutcome:
    """Run a tile from its first round to its last checkpoint.

    ``stop`` is asked, and ``tick`` told the number of rounds played (times repetitions), about
    every tenth of a second.
    """
    functions, mode = compile_kernels(job.policy, job.environment)
    began, cpu_began = time.perf_counter(), time.thread_time()
    K = job.environment.n_arms
    chosen = job.policy.kernels()
    # Lanes beyond `count` replay the last repetition; their results are not looked at.
    repetitions = [job.first + min(lane, job.count - 1) for lane in range(LANES)]
    world = repr(job.environment)
    C = _aligned(np.append(job.policy.parameters(K), 0.0))
    start = job.policy.start(K)
    S = _rows([start] * LANES, chosen.wide)
    G = _rows([stream_words(job.seed, world, job.name, r) for r in repetitions], chosen.wide)
    CE = job.environment.parameters()
    columns = [job.environment.start(numpy_generator(job.seed, world, r)) for r in repetitions]
    E = _rows(columns, job.environment.wide)
    GE = _rows([stream_words(job.seed, world, r) for r in repetitions], job.environment.wide)
    attack = job.environment.attack()
    CA, A, attack_rows = np.zeros(1), np.zeros(1), 0
    if attack is not None:
        CA = _aligned(attack.parameters)
        starts = [attack.start(numpy_generator(job.seed, world, "attack", r)) for r in repetitions]
        A, attack_rows = _rows(starts, job.environment.wide), starts[0].size
    checkpoints = np.asarray(job.checkpoints, dtype=np.int64)
    tracked_row = job.environment.tracked_row if job.environment.regret == "tracked" else -1
    cost = _aligned(np.zeros((1 + checkpoints.size, LANES)))
    plays = _aligned(np.zeros((K, LANES)))
    tracked = np.zeros(checkpoints.size * K * LANES if tracked_row >= 0 else 1)
    policy_block = np.array([*_address(C, S, G), start.size], dtype=np.int64)
    environment_block = np.array([*_address(CE, E, GE), columns[0].size], dtype=np.int64)
    attack_block = np.array([*_address(CA, A), attack_rows], dtype=np.int64)
    outputs = np.array([*_address(cost, plays, tracked), 0, tracked_row], dtype=np.int64)
    now, chunk, horizon = 1, 256, int(checkpoints[-1])
    while now <= horizon:
        if stop is not None and stop():
            raise Interrupted
        last = min(horizon, now + chunk - 1)
        chunk_began = time.perf_counter()
        status = _play(
            job, functions, mode, K, now, last, policy_block, environment_block, attack_block,
            checkpoints, outputs,
        )  # fmt: skip
        if status != engine.DONE:
            raise _blame(job, status)
        seconds = max(time.perf_counter() - chunk_began, 1e-6)
        if tick is not None:
            tick((last - now + 1) * job.count)
        chunk = int(min(8 * chunk, max(256, (last - now + 1) * CHUNK_SECONDS / seconds)))
        now = last + 1
    n = checkpoints.size
    # Rows 1 to K of an environment's state say which arm of its constructor stands where.
    labels = np.stack(columns)[: job.count, ORDER : ORDER + K].astype(np.int64)
    by_label = np.zeros((job.count, K), dtype=np.int64)
    np.put_along_axis(by_label, labels, plays.reshape(K, LANES)[:, : job.count].T.astype(int), 1)
    return TileOutcome(
        cost=cost.reshape(1 + n, LANES)[1:, : job.count].T.copy(),
        plays=by_label,
        tracked=tracked.reshape(n, K, LANES)[:, :, : job.count].transpose(2, 0, 1).copy()
        if tracked_row >= 0
        else None,
        cpu=time.thread_time() - cpu_began,
        wall=time.perf_counter() - began,
    )


def _play(job: TileJob, functions: list[Any], mode: int, K: int, first: int, last: int,
          *blocks: NDArray[np.int64]) -> int:  # fmt: skip
    try:
        return int(engine.run_tile(*functions, mode, job.count, K, first, last, *blocks))
    except BothworldsError:
        raise
    except Exception as error:
        raise KernelError(
            f"A kernel of {job.name} or {job.environment!r} raised "
            f"{type(error).__name__}: {error} (rounds {first} to {last})."
        ) from error


def _blame(job: TileJob, status: int) -> KernelError:
    if status == engine.BAD_ARM:
        arms = job.environment.n_arms
        return KernelError(f"The choose of {job.name} must return an arm from 0 to {arms - 1}.")
    return KernelError(f"The loss of {job.environment!r} must be a number in [0, 1].")
