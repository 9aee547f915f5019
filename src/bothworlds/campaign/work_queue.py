"""Work queue of a campaign: the tiles left to hand out, their cost, and the next one."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

from bothworlds.campaign.curve import Curve
from bothworlds.engine.tile import TileJob
from bothworlds.lanes.types import LANES

LONGEST = 20.0
"""Seconds a shard takes at most, as far as the size of a tile allows: a crash can lose it."""

MANY_CURVES = 500
"""Number of curves from which the queue looks at all of them once a second, not for every shard."""


ONE_BY_ONE = (300.0, 120.0)
"""Rough nanoseconds per round, for the round and for each arm, of a repetition played alone."""


def is_wide(curve: Curve) -> bool:
    """Return whether the repetitions of a tile are played together, by vectors."""
    return curve.program().kernels.wide


def guessed(curve: Curve) -> float:
    """Return a guess of the seconds of a round of one repetition.

    A campaign hands out its first shards before anything is measured, and the slowest should not
    come last.
    """
    program = curve.program()
    per_round, per_arm = curve.policy.traits.nanoseconds if program.kernels.wide else ONE_BY_ONE
    return len(program.by_side) * (per_round + per_arm * curve.environment.n_arms) * 1e-9


class WorkQueue:
    """Tiles to hand out, curve by curve, and the seconds they take, as measured so far.

    Until a curve has been measured, other curves of its policy stand for it, or else all curves.
    The unit of work is a round of a lane: a tile of vectors costs the same however many of its
    lanes are in use.

    Parameters
    ----------
    curves : sequence of Curve
        The campaign.
    jobs : sequence of sequence of TileJob
        For every curve its tiles that have to be run, in the order of their repetitions.
    shortest : float
        Seconds a shard takes at least, because handing out and keeping it costs something.
    abreast : bool
        Whether all curves go forward together, or one after the other.
    """

    def __init__(
        self,
        curves: Sequence[Curve],
        jobs: Sequence[Sequence[TileJob]],
        shortest: float,
        abreast: bool,
    ) -> None:
        self._guess = [guessed(curve) for curve in curves]
        self._kinds = [type(curve.policy).__name__ for curve in curves]
        self._wide = [is_wide(curve) for curve in curves]
        self._measured: dict[int, float] = {}
        # Seconds expected and taken, by kind of policy; under "" those of all kinds, where the
        # first guess counts as much as a second of measurement.
        self._taken: dict[str, tuple[float, float]] = {"": (1.0, 1.0)}
        self._waiting = [list(each) for each in jobs]
        self._queued = [sum(self.work(i, job) for job in each) for i, each in enumerate(jobs)]
        self._unplayed = list(self._queued)
        self._count = sum(map(len, jobs))
        self._cursor = 0
        self._surveyed = self._estimated = -math.inf
        self._survey = 0.0, 0, 0.0
        self._seconds_left = 0.0
        self._shortest, self._abreast = shortest, abreast
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return self._count > 0

    def lanes(self, index: int, count: int) -> int:
        """Return the lanes that ``count`` repetitions in one tile of a curve cost."""
        return LANES if self._wide[index] else count

    def work(self, index: int, job: TileJob) -> float:
        """Return the rounds of a tile, times its lanes."""
        return float(job.rounds) * self.lanes(index, job.count)

    def seconds(self, index: int, work: float) -> float:
        """Return the seconds that ``work`` rounds of a lane of a curve take on one core."""
        rate = self._measured.get(index)
        if rate is None:
            expected, taken = self._taken.get(self._kinds[index], self._taken[""])
            rate = self._guess[index] * taken / expected
        return rate * work

    def measured(self, index: int, work: float, seconds: float) -> None:
        """Learn that ``work`` rounds of a lane of a curve took this many seconds."""
        self._measured[index] = seconds / work
        for kind in ("", self._kinds[index]):
            expected, taken = self._taken.get(kind, (0.0, 0.0))
            self._taken[kind] = expected + self._guess[index] * work, taken + seconds

    def waiting(self, index: int) -> list[TileJob]:
        """Return the tiles of a curve that are left to hand out."""
        return self._waiting[index]

    def take(self, index: int) -> TileJob:
        """Take the next tile of a curve away."""
        job = self._waiting[index].pop(0)
        self._queued[index] -= self.work(index, job)
        self._count -= 1
        return job

    def put_back(self, index: int, jobs: Sequence[TileJob]) -> None:
        """Return tiles of a curve to where they were."""
        self._waiting[index] = sorted([*self._waiting[index], *jobs], key=lambda job: job.span)
        self._queued[index] += sum(self.work(index, job) for job in jobs)
        self._count += len(jobs)
        self._cursor = min(self._cursor, index)

    def played(self, index: int, work: float) -> None:
        """Count rounds of a lane of a curve as done; any thread may call this."""
        with self._lock:
            self._unplayed[index] -= work

    def left(self, slots: int) -> float:
        """Return the seconds until everything is done, by ``slots`` workers."""
        if len(self._waiting) < MANY_CURVES or time.monotonic() - self._estimated > 1.0:
            self._seconds_left = sum(
                self.seconds(index, max(0.0, work)) for index, work in enumerate(self._unplayed)
            )
            self._estimated = time.monotonic()
        return self._seconds_left / max(1, slots)

    def next(self, slots: int) -> tuple[int, int]:
        """Return the curve to take from, and how many tiles at most.

        In order, but near the end from what takes longest.  In order, a campaign that is
        interrupted has its first curves complete; the longest first at the end leaves no worker
        alone with a slow policy.
        """
        total, index, seconds = self._look()
        slots = max(1, slots)
        if total > 3 * slots * seconds or not self._waiting[index]:
            index = self._first()
        wanted = min(max(total / (4 * slots), self._shortest), LONGEST)
        tile = self.seconds(index, self.work(index, self._waiting[index][0]))
        return index, max(1, math.floor(wanted / max(tile, 1e-9)))

    def _first(self) -> int:
        """Return the curve that is next in order."""
        if self._abreast:
            heads = [(jobs[0].span, index) for index, jobs in enumerate(self._waiting) if jobs]
            return min(heads)[1]
        while not self._waiting[self._cursor]:
            self._cursor += 1
        return self._cursor

    def _look(self) -> tuple[float, int, float]:
        """Return the seconds left on one core, the curve of the longest tile, and its seconds."""
        if len(self._waiting) < MANY_CURVES or time.monotonic() - self._surveyed > 1.0:
            total, longest, seconds = 0.0, 0, 0.0
            for index, jobs in enumerate(self._waiting):
                if jobs:
                    total += self.seconds(index, self._queued[index])
                    tile = self.seconds(index, self.work(index, jobs[0]))
                    if tile > seconds:
                        longest, seconds = index, tile
            self._survey = total, longest, seconds
            self._surveyed = time.monotonic()
        return self._survey
