"""Upkeep of the service: missing feedback swept in, old rows forgotten, checkpoints noted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bothworlds.serve.domain import records
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.sums import as_bytes, compact
from bothworlds.serve.domain.tokens import first_identity
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.commit import Committer
from bothworlds.serve.store.rows import CheckpointRow, FeedbackRow

DAY = 86_400.0
GRACE = 60.0
"""Seconds that a sweep waits beyond the feedback window, for clocks that differ."""
PAGE = 2000
"""Rows of the log that are read at a time."""
CHECKPOINTS = 2000
"""How many checkpoints an experiment keeps."""


class Upkeep:
    """What a service does now and then; of several replicas, the one that leads.

    Parameters
    ----------
    store : Store
        Where everything is kept.
    committer : Committer
        What writes to it.
    read : callable
        Lets the reading thread call something.
    experiments : mapping of int to Experiment
        Those of the service, by number; it may grow.
    figures : dict of str to int
        Its counts, of which ``swept`` is kept here.
    retention_days : float, optional
        After how many days the log is deleted; by default never.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        read: Callable[..., Any],
        experiments: Mapping[int, Experiment],
        figures: dict[str, int],
        retention_days: float | None,
    ) -> None:
        self._store = store
        self._committer = committer
        self._read = read
        self._experiments = experiments
        self._figures = figures
        self._retention_days = retention_days
        self._checkpointed: dict[int, tuple[int, int, int]] = {}

    async def sweep(self) -> None:
        """Fill in missing feedback, and delete what has been kept long enough."""
        if not await self._committer.run(self._store.leads):
            return
        for experiment in list(self._experiments.values()):
            if experiment.config.missing != "drop":
                while await self._sweep_some(experiment):
                    pass
        await self._committer.run(partial(self._store.forget_claims, time.time()))
        if self._retention_days is not None:
            await self._forget(self._retention_days * DAY)

    async def _sweep_some(self, experiment: Experiment, limit: int = PAGE) -> bool:
        """Fill in some missing feedback; tell whether there may be more."""
        config = experiment.config
        loss = config.default()
        now = time.time()
        before = first_identity(now - config.feedback_window - GRACE)
        raws, upto = await self._read(
            self._store.untold, experiment.id, before, limit, config.missing == "deferred"
        )
        if upto is None:
            return False
        rows = []
        for raw in raws:
            record = records.decode(raw)
            if record.epoch != experiment.epoch or not record.learnable or loss is None:
                continue
            rows.append(
                FeedbackRow(
                    experiment.id, record.id, record.epoch, raw, loss, "sweep", "learned", now, None
                )
            )
        if rows:
            written = await self._committer.written(feedback=rows)
            self._figures["swept"] += sum(before is None for before in written.feedback)
        await self._committer.run(partial(self._store.put_swept, experiment.id, upto))
        return True

    async def _forget(self, seconds: float) -> None:
        """Delete decisions, and feedback that can no longer be sent again."""
        now = time.time()
        for experiment in list(self._experiments.values()):
            # Feedback is what keeps the same decision from being told twice.
            told = max(seconds, experiment.config.feedback_window + DAY)
            # Where missing feedback is filled in, what a sweep has not seen yet stays, too.
            decided = seconds if experiment.config.missing == "drop" else told
            await self._drain(
                self._store.forget_decisions, experiment.id, first_identity(now - decided)
            )
            until = first_identity(now - told)
            await self._drain(self._store.forget_feedback, experiment.id, until, compact)

    async def _drain(self, work: Callable[..., int], *arguments: Any) -> None:
        while await self._committer.run(partial(work, *arguments)):
            await asyncio.sleep(0)

    async def checkpoint(self) -> None:
        """Note where every experiment stands that has moved."""
        rows = []
        for experiment in self._experiments.values():
            mark = experiment.epoch, experiment.total.learned, experiment.round
            if self._checkpointed.get(experiment.id) == mark or experiment.mode == "archived":
                continue
            self._checkpointed[experiment.id] = mark
            shares = experiment.probabilities()
            by_arm = [shares.get(arm.name, 0.0) for arm in experiment.arms]
            rows.append(
                CheckpointRow(
                    experiment.id, experiment.epoch, time.time(), experiment.round,
                    experiment.total.learned, as_bytes(experiment.total.told),
                    as_bytes(experiment.total.lost), np.array(by_arm, "<f8").tobytes(),
                )
            )  # fmt: skip
        if rows and await self._committer.run(self._store.leads):
            await self._committer.run(partial(self._store.put_checkpoints, rows, CHECKPOINTS))
