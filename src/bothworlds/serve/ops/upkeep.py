"""Upkeep of the service: missing feedback swept in, old rows forgotten, checkpoints noted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import numpy as np

from bothworlds.serve.domain import records
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.state import DAY, State
from bothworlds.serve.domain.sums import compact
from bothworlds.serve.domain.tokens import first_identity
from bothworlds.serve.store import dashboard, retention
from bothworlds.serve.store.rows import CheckpointRow, FeedbackRow
from bothworlds.serve.store.writer import Writer, as_bytes

GRACE = 60.0
"""Seconds that a sweep waits beyond the feedback window, for clocks that differ."""
PAGE = 2000
"""Rows of the log that are read at a time."""
CHECKPOINTS = 2000
"""How many checkpoints an experiment keeps."""


class Upkeep:
    """Periodic work of a service; among several replicas, the leader does it.

    Parameters
    ----------
    state : State
        Of the service.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._committer = state.committer
        self._experiments = state.experiments.by_id
        self._checkpointed: dict[int, tuple[int, int, int]] = {}
        self._rewarded: dict[int, bool] = {}

    async def sweep(self) -> None:
        """Fill in missing feedback, and delete expired data."""
        if not await self._committer.run(lambda writer: writer.leads()):
            return
        for experiment in list(self._experiments.values()):
            if experiment.config.missing != "drop":
                while await self._sweep_some(experiment):
                    pass
        now = self._state.now()
        await self._committer.run(lambda writer: retention.forget_claims(writer, now))
        days = self._state.settings.retention_days
        if days is not None:
            await self._forget(days * DAY)

    async def _sweep_some(self, experiment: Experiment, limit: int = PAGE) -> bool:
        """Fill in some missing feedback; tell whether there may be more."""
        config = experiment.config
        loss = config.default()
        now = self._state.now()
        before = first_identity(now - config.feedback_window - GRACE)
        raws, upto = await self._state.read(
            lambda reader: reader.untold(experiment.id, before, limit, config.missing == "deferred")
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
                    experiment.id, record.id, record.epoch, raw, loss, "sweep", "learned", now,
                    None, None, None if config.order is None else experiment.round,
                )
            )  # fmt: skip
        if rows:
            written = await self._committer.written(experiment.tenant, feedback=rows)
            self._state.counters["swept"] += sum(before is None for before in written.feedback)
        swept = upto
        await self._committer.run(lambda writer: writer.put_swept(experiment.id, swept))
        return True

    async def _forget(self, seconds: float) -> None:
        """Delete decisions, and feedback that can no longer be sent again."""
        now = self._state.now()
        for experiment in list(self._experiments.values()):
            # The row of a feedback is what keeps the same decision from being learned twice.
            told = max(seconds, experiment.config.feedback_window + DAY)
            # Where missing feedback is filled in, what a sweep has not seen yet stays, too.
            decided = seconds if experiment.config.missing == "drop" else told
            until = first_identity(now - decided)
            await self._drain(
                partial(retention.forget_decisions, experiment=experiment.id, before=until)
            )
            until = first_identity(now - told)
            await self._drain(
                partial(
                    retention.forget_feedback, experiment=experiment.id,
                    version=experiment.version, before=until, add=compact,
                    order=experiment.config.order,
                )
            )  # fmt: skip
            old = now - max(decided, told)
            await self._committer.run(
                partial(retention.forget_segments, experiment=experiment.id, before=old)
            )
        self._state.experiments.forget(await self._state.read(lambda reader: reader.forgotten()))

    async def _drain(self, work: Callable[[Writer], int]) -> None:
        while await self._committer.run(work):
            await asyncio.sleep(0)

    async def checkpoint(self) -> None:
        """Note the state of every experiment that has changed."""
        await self._note_rewards()
        rows = []
        for experiment in self._experiments.values():
            total = experiment.total
            mark = experiment.epoch, total.learned, experiment.round
            if self._checkpointed.get(experiment.id) == mark or experiment.mode == "archived":
                continue
            self._checkpointed[experiment.id] = mark
            shares = experiment.probabilities()
            by_arm = [shares.get(arm.name, 0.0) for arm in experiment.arms]
            # Behind the arms, of which there are as many as counts of feedback.
            by_arm += experiment.weights().values()
            told, lost = (each[: experiment.known] for each in (total.told, total.lost))
            rows.append(
                CheckpointRow(
                    experiment.id, experiment.epoch, self._state.now(), experiment.round,
                    total.learned, as_bytes(told), as_bytes(lost),
                    np.array(by_arm, "<f8").tobytes(),
                )
            )  # fmt: skip
        if rows:
            leading = await self._committer.run(lambda writer: writer.leads())
            if leading:
                await self._committer.run(lambda writer: writer.put_checkpoints(rows, CHECKPOINTS))

    async def _note_rewards(self) -> None:
        """Note how feedback comes, for the pages of other replicas and after a restart."""
        found = {
            each.id: each.rewarded
            for each in self._experiments.values()
            if each.rewarded is not None and self._rewarded.get(each.id) != each.rewarded
        }
        if found:
            await self._committer.run(partial(dashboard.note_rewards, found=found))
            self._rewarded.update(found)
