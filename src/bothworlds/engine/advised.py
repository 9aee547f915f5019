"""Tile of repetitions of a game with advice, start to end; see `bothworlds.environments.Advised`.

The outcome is that of `bothworlds.engine.tile`.  There is no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.engine import advised_loop as loop
from bothworlds.engine.delayed import FEWEST, Waiting
from bothworlds.engine.delayed_loop import FULL, NEXT, PROGRESS
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.tile import Recorder, TileJob, stretches
from bothworlds.environments.advised import Advised
from bothworlds.lanes.types import LANES
from bothworlds.omd import few, half
from bothworlds.policies import advice as step
from bothworlds.seeding import stream_words

FIRST_CHUNK = 1000
"""Rounds after which the speed is measured for the first time."""


def run_job(
    job: TileJob,
    stop: Callable[[], bool] | None = None,
    tick: Callable[[int], None] | None = None,
) -> TileOutcome:
    """Run a tile in which experts advise; see `bothworlds.engine.tile.run_job`."""
    recorder = Recorder(job)
    environment = job.environment
    world = environment if isinstance(environment, Advised) else environment.base  # type: ignore[attr-defined]
    delays = environment.delays()
    name, K, N = repr(environment), world.n_arms, world.n_experts
    repetitions = range(job.first, job.first + job.count)

    def words(*names: Any) -> NDArray[np.int64]:
        return np.stack([stream_words(job.seed, name, *names, r) for r in repetitions])

    setting = step.setting_of(job.policy, "simulate")
    first = step.first_state(setting, N, K)
    checkpoints = np.array(job.checkpoints, dtype=np.int64)
    levels = np.zeros(0) if world.levels is None else np.array(world.levels)
    game = world.phases, np.array(world.means), world.costs(), world.turn, levels, checkpoints
    lanes = delays is None and _in_lanes(setting, N)
    room = LANES if lanes else job.count
    cost, plays = np.zeros((1 + checkpoints.size, room)), np.zeros((K, room))
    progress = np.zeros((1 if lanes else job.count, PROGRESS), np.int64)
    progress[:, NEXT] = 1
    measured = progress, cost, plays
    if lanes:
        # Lanes beyond `count` replay the last repetition; their results are ignored.
        copies = np.minimum(np.arange(LANES), job.count - 1)
        S = np.zeros((loop.rows(N, K), LANES))
        S[0] = step.BETA_1
        half.first_state(N, S[loop.SOLVER :])
        few.first_state(N, S[loop.SOLVER :])
        G, GE = (np.ascontiguousarray(each[copies].T) for each in (words(job.name), words()))
        tile = first, S, G, GE, *game, *measured
    else:
        room_to_wait = 1 if delays is None else FEWEST
        waiting = Waiting(job.count, room_to_wait, step.width(N, K))
        own = np.tile(first, (job.count, 1)), words(job.name), words(), words("delay")
        each = *own, np.zeros(0) if delays is None else delays, *game, *measured
    for _, last in stretches(job, 1, FIRST_CHUNK, stop):
        status = FULL
        while status == FULL:
            before = int(progress[:, NEXT].sum())
            if lanes:
                status = loop.run_lanes(last, *tile)
            else:
                status = loop.run_each(last, job.checkpoints[-1], *each, *waiting.arrays)
            if tick is not None:
                tick((int(progress[:, NEXT].sum()) - before) * job.count // len(progress))
            if status == FULL:
                waiting = waiting.doubled()
        recorder.keep(last, lambda: plays.T[: job.count].astype(np.int64))
    counted = plays.T[: job.count].astype(np.int64)
    return recorder.outcome(cost[1:, : job.count].T.copy(), counted)


def _in_lanes(setting: step.Setting, n_experts: int) -> bool:
    """Tell whether `loop.run_lanes` plays a policy over this many experts."""
    plain = setting == replace(setting, window=0.0, every=0.0, confidence=0.0)
    return setting.kind != step.EXPONENTIAL and setting.alpha == 0.5 and plain and n_experts > 1
