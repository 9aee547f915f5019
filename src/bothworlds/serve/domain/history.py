"""History: past decisions and changes, read from the store for callers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from bothworlds.serve.domain import records
from bothworlds.serve.domain.answers import Principal, log_document
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.state import DAY, State
from bothworlds.serve.domain.tokens import first_identity
from bothworlds.serve.ops.upkeep import CHECKPOINTS, PAGE
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import CheckpointRow, from_bytes

T = TypeVar("T")


class History:
    """Log, checkpoints and audit rows of a service.

    Parameters
    ----------
    state : State
        Of the service.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    async def audit(
        self, who: Principal, *, after: int = 0, limit: int = 1000
    ) -> list[dict[str, Any]]:
        """Return the audit log, oldest first."""
        rows = await self._state.read(lambda reader: reader.audit(who.tenant, after, limit))
        return [
            {
                "id": row.id, "at": row.at, "key_id": row.key_id, "action": row.action,
                "experiment": row.experiment, "request_id": row.request_id, "change": row.change,
            }
            for row in rows
        ]  # fmt: skip

    async def checkpoints(
        self, who: Principal, name: str, *, after: int = 0, limit: int = CHECKPOINTS
    ) -> list[dict[str, Any]]:
        """Return where an experiment stood at some moments, oldest first."""
        experiment = self._state.experiments.find(who.tenant, name)
        return await self._state.read(
            lambda reader: [
                _checkpoint(experiment, row)
                for row in reader.checkpoints(experiment.id, after, limit)
            ]
        )

    async def rows(
        self, who: Principal, name: str, *, since: float | None = None
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the log in pieces, oldest decision first, each with its feedback if there is any.

        Decisions that a clock dates more than a day ahead are left out.
        """
        experiment = self._state.experiments.find(who.tenant, name)
        after = b"" if since is None else first_identity(since)
        before = first_identity(time.time() + DAY)

        def following(reader: Reader) -> tuple[list[dict[str, Any]], bytes | None]:
            rows = reader.log(experiment.id, after, before, PAGE)
            segmented = any(records.segment_of(row.record) for row in rows)
            names = reader.segment_names(experiment.id) if segmented else {}
            # In the thread: signing the ids of a page takes 20 ms, which decisions must not wait.
            page = [log_document(experiment, row, self._state.keyring, names) for row in rows]
            return page, rows[-1].id if len(rows) >= PAGE else None

        last: bytes | None = after
        while last is not None:
            after = last
            page, last = await self._state.read(following)
            if page:
                yield page

    async def looked_up(
        self, who: Principal, name: str, work: Callable[[Reader, Experiment], T]
    ) -> T:
        """Let the reading thread look something up about an experiment."""
        experiment = self._state.experiments.find(who.tenant, name)
        return await self._state.read(lambda reader: work(reader, experiment))

    async def gaps(self, who: Principal, name: str) -> dict[str, int]:
        """Return the gaps of the log: ``missing`` decisions, and runs that ended ``unclean``.

        A decision is known to be missing if its feedback came. A process that was killed may have
        lost decisions of its last moments; their number is unknown.
        """
        experiment = self._state.experiments.find(who.tenant, name)
        missing, unclean = await self._state.read(lambda reader: reader.lost(experiment.id))
        return {"missing": missing, "unclean": unclean}


def _checkpoint(experiment: Experiment, row: CheckpointRow) -> dict[str, Any]:
    """Return a checkpoint as JSON values."""
    names = [arm.name for arm in experiment.arms]
    shares, weights = row.shares()
    found = {
        "id": row.id,
        "at": row.at,
        "epoch": row.epoch,
        "round": row.round,
        "learned": row.learned,
        "probabilities": dict(zip(names, shares.tolist(), strict=False)),
        "told": dict(zip(names, from_bytes(row.told).tolist(), strict=False)),
    }
    if weights.size:
        found["experts"] = dict(zip(experiment.config.experts, weights.tolist(), strict=False))
    return found
