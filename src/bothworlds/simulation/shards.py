"""A shard: consecutive tiles of one curve, the unit that is handed out, run and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bothworlds.errors import ClusterError
from bothworlds.lanes.jit import source_stamp
from bothworlds.simulation.curves import Curve
from bothworlds.simulation.spans import Span as Span
from bothworlds.simulation.spans import missing_spans as missing_spans
from bothworlds.simulation.tile import Interrupted, TileJob, TileOutcome, run_job, tile_size


@dataclass(frozen=True)
class Piece:
    """A tile that has to be run.

    Parameters
    ----------
    job : TileJob
        What to run.
    earlier : TileOutcome, optional
        What was measured until the round from which the job goes on.
    after : int
        That round, or 0.
    """

    job: TileJob
    earlier: TileOutcome | None = None
    after: int = 0

    @property
    def span(self) -> Span:
        """The repetitions."""
        return self.job.first, self.job.first + self.job.count

    @property
    def rounds(self) -> int:
        """Rounds of every repetition that are left to play."""
        return self.job.checkpoints[-1] - self.after

    def joined(self, outcome: TileOutcome) -> TileOutcome:
        """Return the outcome of the job behind what was measured earlier."""
        if self.earlier is None:
            return outcome
        tracked = outcome.tracked
        if tracked is not None and self.earlier.tracked is not None:
            tracked = np.concatenate([self.earlier.tracked, tracked], axis=1)
        cost = np.concatenate([self.earlier.cost, outcome.cost], axis=1)
        return replace(outcome, cost=cost, tracked=tracked)


@dataclass(frozen=True)
class Shard:
    """Tiles to run one after another.

    Parameters
    ----------
    jobs : tuple of TileJob
        Consecutive tiles of one curve.
    stamp : bytes
        The kernels they are meant for.
    """

    jobs: tuple[TileJob, ...]
    stamp: bytes


def run_shard(
    shard: Shard,
    stop: Callable[[], bool] | None = None,
    tick: Callable[[TileJob, int], None] | None = None,
) -> list[TileOutcome]:
    """Run the tiles of a shard, wherever this is; asked to stop, return the finished ones."""
    if shard.stamp != source_stamp():
        raise ClusterError(
            "The workers must have the same version of bothworlds as this process, "
            "but their kernels differ."
        )
    outcomes = []
    for job in shard.jobs:
        try:
            outcomes.append(run_job(job, stop, tick and (lambda n, job=job: tick(job, n))))
        except Interrupted:
            break
    return outcomes


def cut(
    curve: Curve, spans: Iterable[Span], keep: bool = False, whole: bool = False
) -> list[Piece]:
    """Cut repetitions into tiles, at the multiples of a tile's size.

    Parameters
    ----------
    curve : Curve
        What to run.
    spans : iterable of Span
        Which repetitions.
    keep : bool
        Whether longer runs shall be able to go on where these end.
    whole : bool
        Whether every span is a tile already.
    """
    size = tile_size(curve.player, curve.environment.n_arms)
    pieces = []
    for first, end in spans:
        inner = [] if whole else range(first // size * size + size, end, size)
        for low, high in pairwise([first, *inner, end]):
            job = TileJob(
                curve.name, curve.player, curve.environment, curve.seed, low, high - low,
                curve.checkpoints, keep=keep,
            )  # fmt: skip
            pieces.append(Piece(job))
    return pieces
