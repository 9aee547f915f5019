"""Continuing shorter runs: where a longer run continues from, and its outcome put together.

Only this module, the store and the snapshots of the engine know that runs can be continued.  The
store asks `continued` which tiles need not start at round 1; the campaign passes every outcome
through `whole`, and puts back what cannot continue as `from_the_start` returns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.campaign.curve import Curve
from bothworlds.campaign.shard import cut
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.tile import TileJob


def shorter(curve: Curve, stems: Iterable[str]) -> list[str]:
    """Return those of the stems, all of the curve's key, with shorter horizons, longest first."""
    horizons = {stem: int(stem.split("-")[1]) for stem in stems}
    fits = [stem for stem, horizon in horizons.items() if horizon < curve.horizon]
    return sorted(fits, key=lambda stem: -horizons[stem])


def continued(
    curve: Curve,
    recorded: Sequence[int],
    tiles: Iterable[TileOutcome],
    missing: Sequence[tuple[int, int]],
    keep: bool,
) -> list[TileJob]:
    """Return the jobs that continue where tiles of a shorter run ended.

    Parameters
    ----------
    curve : Curve
        The longer run.
    recorded : sequence of int
        The checkpoints of the shorter one.
    tiles : iterable of TileOutcome
        Tiles of the shorter one, with their snapshots.
    missing : sequence of (int, int)
        Repetitions that the longer one lacks; other tiles are left out.
    keep : bool
        Whether still longer runs can continue from these.
    """
    after = recorded[-1]
    before = [t for t in curve.checkpoints if t <= after]
    if not set(before) <= set(recorded):
        return []
    columns = np.searchsorted(recorded, before)
    jobs = []
    for tile in tiles:
        span = tile.first, tile.first + tile.count
        if any(low <= span[0] and span[1] <= high for low, high in missing):
            (job,) = cut(curve, [span], keep, whole=True)
            jobs.append(replace(job, after=after, earlier=_recorded_at(tile, columns)))
    return jobs


def _recorded_at(tile: TileOutcome, columns: NDArray[Any]) -> TileOutcome:
    """Return an outcome with some of its checkpoints."""
    tracked = None if tile.tracked is None else tile.tracked[:, columns]
    return replace(tile, cost=tile.cost[:, columns], tracked=tracked)


def whole(job: TileJob, outcome: TileOutcome) -> TileOutcome:
    """Return the outcome of a job, appended to the measurements of the run it continues."""
    earlier = job.earlier
    if earlier is None:
        return outcome
    tracked = outcome.tracked
    if tracked is not None and earlier.tracked is not None:
        tracked = np.concatenate([earlier.tracked, tracked], axis=1)
    return replace(
        outcome,
        cost=np.concatenate([earlier.cost, outcome.cost], axis=1),
        tracked=tracked,
        cpu=earlier.cpu + outcome.cpu,
        wall=earlier.wall + outcome.wall,
    )


def from_the_start(job: TileJob) -> TileJob:
    """Return the job for the same repetitions that continues from nothing."""
    return replace(job, after=0, earlier=None)
