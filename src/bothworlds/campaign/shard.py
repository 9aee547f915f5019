"""A shard: consecutive tiles of one curve, the unit that is handed out, run and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bothworlds.campaign.curve import Curve
from bothworlds.campaign.identity import fingerprint
from bothworlds.campaign.store_view import Span as Span
from bothworlds.campaign.store_view import missing_spans as missing_spans
from bothworlds.engine.tile import Interrupted, TileJob, TileOutcome, run_job, tile_size
from bothworlds.errors import ClusterError


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
        return replace(
            outcome,
            cost=np.concatenate([self.earlier.cost, outcome.cost], axis=1),
            tracked=tracked,
            cpu=self.earlier.cpu + outcome.cpu,
            wall=self.earlier.wall + outcome.wall,
        )

    def from_the_start(self, curve: Curve) -> Piece:
        """Return the same repetitions of the curve, going on from nothing."""
        return Piece(replace(self.job, saved=None, checkpoints=curve.checkpoints))


@dataclass(frozen=True)
class Shard:
    """Tiles to run one after another.

    Parameters
    ----------
    jobs : tuple of TileJob
        Consecutive tiles of one curve.
    stamp : str, optional
        What they are to be run with, see `fingerprint`; needed where this is another process.
    """

    jobs: tuple[TileJob, ...]
    stamp: str | None = None

    def stamped(self) -> Shard:
        """Return the shard for other processes, which may have other code than this one."""
        return replace(self, stamp=self._here())

    def fits_here(self) -> bool:
        """Return whether this process computes what the process that stamped it would."""
        return self.stamp is None or self.stamp == self._here()

    def _here(self) -> str:
        job = self.jobs[0]
        return fingerprint(job.policy, job.environment, files=False)


def run_shard(
    shard: Shard,
    stop: Callable[[], bool] | None = None,
    tick: Callable[[TileJob, int], None] | None = None,
) -> list[TileOutcome]:
    """Run the tiles of a shard, wherever this is; asked to stop, return the finished ones."""
    if not shard.fits_here():
        raise ClusterError(
            f"The workers must run {shard.jobs[0].name} with the code of this process, "
            "but theirs differs: bothworlds, NumPy or a module of your own."
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
