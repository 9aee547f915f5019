"""A shard: consecutive tiles of one curve, the unit that is handed out, run and kept."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bothworlds.campaign.curve import Curve
from bothworlds.campaign.identity import fingerprint
from bothworlds.engine import advised, delayed, plain
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.table import Table
from bothworlds.engine.tile import Interrupted, TileJob, run_job, tile_size
from bothworlds.errors import ClusterError
from bothworlds.policies.plain import PlainPolicy


def cut(
    curve: Curve,
    spans: Iterable[tuple[int, int]],
    keep: bool = False,
    whole: bool = False,
    **measured: Any,
) -> list[TileJob]:
    """Cut repetitions into tiles, at the multiples of a tile's size.

    Parameters
    ----------
    curve : Curve
        What to run.
    spans : iterable of (int, int)
        Which repetitions: from the first number up to the second, which is not included.
    keep : bool
        Whether longer runs can continue where these end.
    whole : bool
        Whether every span is a tile already.
    **measured : bool
        Whether ``shares`` and ``realised`` are, see `TileJob`.
    """
    size = tile_size(curve.program())
    jobs = []
    for first, end in spans:
        inner = [] if whole else range(first // size * size + size, end, size)
        for low, high in itertools.pairwise([first, *inner, end]):
            jobs.append(
                TileJob(
                    curve.name, curve.policy, curve.environment, curve.seed, low, high - low,
                    curve.checkpoints, keep, **measured,
                )
            )  # fmt: skip
    return jobs


def stamp(shard: Sequence[TileJob]) -> str:
    """Return a digest of the code that this process would run a shard with."""
    return fingerprint(shard[0].policy, shard[0].environment, files=False)


def run_shard(
    shard: Sequence[TileJob],
    stamped: str | None = None,
    stop: Callable[[], bool] | None = None,
    tick: Callable[[TileJob, int], None] | None = None,
) -> list[TileOutcome]:
    """Run the tiles of a shard one after another, in this process or in a worker's.

    Parameters
    ----------
    shard : sequence of TileJob
        Consecutive tiles of one curve.
    stamped : str, optional
        The `stamp` of the process that hands the shard out, where that is another one: this
        process refuses the shard if its own differs.
    stop, tick : callable, optional
        As those of `run_job`; ``tick`` also takes the job. When ``stop`` returns True, the tiles
        that are finished are returned.
    """
    if stamped is not None and stamped != stamp(shard):
        raise ClusterError(
            f"The workers must run {shard[0].name} with the code of this process, "
            "but theirs differs: bothworlds, NumPy or a module of your own."
        )
    world = shard[0].environment
    late = world.delays() is not None
    outcomes = []
    # Tiles that continue from a snapshot may have another program than those that start.
    for _, jobs in itertools.groupby(shard, key=lambda job: job.final):
        alike = list(jobs)
        table = Table(alike)
        for job in alike:
            ticked = None if tick is None else functools.partial(tick, job)
            try:
                if isinstance(job.policy, PlainPolicy):
                    outcomes.append(plain.run_job(job, stop, ticked))
                elif world.kind == "advised":
                    outcomes.append(advised.run_job(job, stop, ticked))
                elif late:
                    outcomes.append(delayed.run_job(job, stop, ticked))
                else:
                    outcomes.append(run_job(job, stop, ticked, table))
            except Interrupted:
                return outcomes
    return outcomes
