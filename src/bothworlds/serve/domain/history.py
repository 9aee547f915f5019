"""History: past decisions and changes, read from the store for callers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from bothworlds.serve.domain import records
from bothworlds.serve.domain.answers import Principal, log_document
from bothworlds.serve.domain.experiment import Experiment, Snapshot
from bothworlds.serve.domain.part import Part
from bothworlds.serve.domain.state import DAY
from bothworlds.serve.domain.tokens import Keyring, first_identity
from bothworlds.serve.ops.away import Desk
from bothworlds.serve.ops.exports import format_of
from bothworlds.serve.ops.upkeep import CHECKPOINTS, PAGE
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import CheckpointRow, from_bytes

T = TypeVar("T")


class History(Part):
    """Log, checkpoints and audit rows of a service."""

    async def audit(
        self, who: Principal, *, after: int = 0, limit: int = 1000
    ) -> list[dict[str, Any]]:
        """Return the audit log, oldest first."""
        rows = await self._state.read(
            lambda reader: reader.audit(who.tenant, "id > ? ORDER BY id LIMIT ?", after, limit)
        )
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
        experiment = self._experiments.find(who.tenant, name)
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
        async for page in self._state.stream(log_pages, *self._log(who, name, since)):
            yield page

    def export(
        self, who: Principal, name: str, form: str, *, since: float | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the log in pieces of a file, in a format by its name."""
        return self._state.stream(export_pieces, form, *self._log(who, name, since))

    def _log(
        self, who: Principal, name: str, since: float | None
    ) -> tuple[Snapshot, Keyring, float | None]:
        experiment = self._experiments.find(who.tenant, name)
        return experiment.snapshot(), self._state.keyring, since

    async def looked_up(
        self, who: Principal, name: str, work: Callable[[Reader, Snapshot], T]
    ) -> T:
        """Look something up about an experiment, away from the event loop."""
        experiment = self._experiments.find(who.tenant, name)
        return await self._state.look_up(_looked_up, work, experiment.snapshot())

    async def gaps(self, who: Principal, name: str) -> dict[str, int]:
        """Return the gaps of the log: ``missing`` decisions, and runs that ended ``unclean``.

        A decision is known to be missing if its feedback came. A process that was killed may have
        lost decisions of its last moments; their number is unknown.
        """
        experiment = self._experiments.find(who.tenant, name)
        missing, unclean = await self._state.read(lambda reader: reader.lost(experiment.id))
        return {"missing": missing, "unclean": unclean}


def log_pages(
    reader: Reader, experiment: Snapshot, keyring: Keyring, since: float | None
) -> Iterator[list[dict[str, Any]]]:
    """Yield the log of an experiment in pages."""
    after = b"" if since is None else first_identity(since)
    before = first_identity(time.time() + DAY)
    while True:
        rows = reader.log(experiment.id, after, before, PAGE)
        segmented = any(records.segment_of(row.record) for row in rows)
        names = reader.segment_names(experiment.id) if segmented else {}
        if rows:
            yield [log_document(experiment, row, keyring, names) for row in rows]
        if len(rows) < PAGE:
            return
        after = rows[-1].id


def export_pieces(
    reader: Reader, form: str, experiment: Snapshot, keyring: Keyring, since: float | None
) -> Iterator[bytes]:
    """Yield the log of an experiment in pieces of a file."""
    made = format_of(form, experiment.names)
    for page in log_pages(reader, experiment, keyring, since):
        yield made.piece(page)
    yield made.end()


def _looked_up(desk: Desk, work: Callable[[Reader, Snapshot], T], experiment: Snapshot) -> T:
    return work(desk.reader, experiment)


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
