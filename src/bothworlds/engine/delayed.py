"""Tile of repetitions with late feedback, start to end.

The outcome is that of `bothworlds.engine.tile`, and so are the streams of policy and environment;
the delays have a stream of their own.  There is no snapshot: decisions in flight are not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.engine import delayed_loop as loop
from bothworlds.engine import loop as engine
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.policy_loops import ASK, TELL, compiled, entry
from bothworlds.engine.table import by_label
from bothworlds.engine.tile import Recorder, TileJob, blame, compiling, crashed, rehearse, stretches
from bothworlds.environments.base import InOrder
from bothworlds.errors import BothworldsError
from bothworlds.lanes.kernels import ATTACK_ONE, LOSS_ONE
from bothworlds.policies.base import Policy
from bothworlds.policies.late import late_kernels, width
from bothworlds.policies.packed import pack
from bothworlds.seeding import numpy_generator, stream_words

FEWEST = 16
"""Waiting decisions of a repetition there is room for at first."""


def compile_kernels(job: TileJob) -> list[Any]:
    """Return the functions `loop.run_delayed` takes."""
    policy, program = job.policy, job.program
    assert isinstance(policy, Policy)
    own, late, attack = program.kernels, late_kernels(policy, program), job.stage()
    strike = engine.idle_attack if attack is None else attack.kernel
    with compiling:
        entry(loop.run_delayed, loop.RUN_DELAYED)
        functions = [
            compiled(kernel, signature)
            for kernel, signature in (
                (own.ask, ASK),
                (own.tell, TELL),
                (late.note, loop.NOTE),
                (late.learn, loop.LEARN),
                (job.environment.unchecked_kernel(), LOSS_ONE),
                (strike, ATTACK_ONE),
            )
        ]
        return functions


class Waiting:
    """Room for the decisions whose feedback is on its way."""

    def __init__(self, repetitions: int, room: int, width: int) -> None:
        self.heap = np.tile(np.arange(room), (repetitions, 1))
        self.decisions = np.zeros((repetitions, room, loop.QUEUED), np.int64)
        self.losses = np.zeros((repetitions, room))
        self.notes = np.zeros((repetitions, room, width))

    def doubled(self) -> Waiting:
        """Return twice the room with the same content."""
        repetitions, room, width = self.notes.shape
        more = Waiting(repetitions, 2 * room, width)
        for one, other in zip(vars(self).values(), vars(more).values(), strict=True):
            other[:, :room] = one
        return more

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays in the order the loop takes them."""
        return self.heap, self.decisions, self.losses, self.notes


def run_job(
    job: TileJob,
    stop: Callable[[], bool] | None = None,
    tick: Callable[[int], None] | None = None,
) -> TileOutcome:
    """Run a tile whose feedback is late; see `bothworlds.engine.tile.run_job`."""
    rehearse(job)
    functions = compile_kernels(job)
    recorder = Recorder(job)
    policy, environment, program = job.policy, job.environment, job.program
    assert isinstance(policy, Policy)
    K, world = environment.n_arms, repr(environment)
    repetitions = range(job.first, job.first + job.count)

    def stacked(of: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
        return np.stack([of(r) for r in repetitions])

    F = stacked(lambda r: pack(policy, K, stream_words(job.seed, world, job.name, r), program))
    order: Callable[[Any], Any] = InOrder if policy.traits.labelled else lambda rng: rng
    E = stacked(lambda r: environment.start(order(numpy_generator(job.seed, world, r))))
    labels = E[:, 1 : 1 + K].astype(np.int64)
    GE = stacked(lambda r: stream_words(job.seed, world, r))
    GD = stacked(lambda r: stream_words(job.seed, world, "delay", r))
    CE = np.ascontiguousarray(environment.parameters())
    CA, A = np.zeros(1), np.zeros((job.count, 1))
    attack = job.stage()
    if attack is not None:
        CA = attack.parameters
        A = stacked(lambda r: attack.start(numpy_generator(job.seed, world, "attack", r)))
    tracked = environment.tracked_row if environment.regret == "tracked" else -1
    checkpoints = np.array(job.checkpoints, dtype=np.int64)
    n, horizon = checkpoints.size, int(checkpoints[-1])
    cost, plays = np.zeros((1 + n, job.count)), np.zeros((K, job.count))
    sums = np.zeros((n if tracked >= 0 else 1, K + 1, job.count))
    progress = np.zeros((job.count, loop.PROGRESS), np.int64)
    progress[:, loop.NEXT] = 1
    addresses = np.array([CE.ctypes.data, E.ctypes.data, GE.ctypes.data, E.shape[1]])
    attacker = np.array([CA.ctypes.data, A.ctypes.data, A.shape[1]])
    waiting = Waiting(job.count, FEWEST, width(policy, program, K))
    delays = environment.delays()
    assert delays is not None
    mode = engine.ATTACKED * (attack is not None) + engine.UNTRUSTED * (not environment.trusted)
    for now, last in stretches(job, 1, max(16, 50_000 // (K + 8)), stop):
        status = loop.FULL
        while status == loop.FULL:
            before = int(progress[:, loop.NEXT].sum())
            try:
                status = entry(loop.run_delayed, loop.RUN_DELAYED)(
                    *functions, mode, K, last, horizon, F, delays,
                    np.arange(K), np.zeros(0, np.uint8), addresses, attacker, GD.ctypes.data,
                    checkpoints, tracked, progress, cost, plays, sums, *waiting.arrays,
                )  # fmt: skip
            except BothworldsError:
                raise
            except Exception as error:
                raise crashed(job, now, last, error) from error
            if tick is not None:
                tick(int(progress[:, loop.NEXT].sum()) - before)
            if status == loop.FULL:
                waiting = waiting.doubled()
        if status != engine.DONE:
            raise blame(job, status)
        recorder.keep(last, lambda: by_label(labels, plays.T), lambda: A.T)
    expected = sums.transpose(2, 0, 1).copy() if tracked >= 0 else None
    return recorder.outcome(cost[1:].T.copy(), by_label(labels, plays.T), expected)
