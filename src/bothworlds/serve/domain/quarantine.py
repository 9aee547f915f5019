"""Quarantine: feedback beyond the caps, until it is released or dropped."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from bothworlds.serve.domain import records
from bothworlds.serve.domain.administration import audit_row, log_change
from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.draws import LARGEST_SUM
from bothworlds.serve.domain.part import Part
from bothworlds.serve.domain.sums import StateRow
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import folding
from bothworlds.serve.store.folding import Folds
from bothworlds.serve.store.writer import Writer, living


class Quarantine(Part):
    """Feedback of a service that was stored and not learned from."""

    async def quarantined(
        self, who: Principal, name: str, limit: int = 1000
    ) -> list[dict[str, Any]]:
        """Return feedback in quarantine, oldest first."""
        experiment = self._experiments.find(who.tenant, name)
        rows = await self._state.read(lambda reader: reader.quarantined(experiment.id, limit))
        low, high = experiment.config.bounds
        found = []
        for row in rows:
            record = records.decode(row.record)
            found.append(
                {
                    "decision_id": self._state.keyring.token(row.record),
                    "id": str(uuid.UUID(bytes=row.id)),
                    "arm": experiment.arms[record.arm].name,
                    "loss": low + row.loss * (high - low),
                    "unit": None if record.unit is None else record.unit.hex(),
                    "key_id": row.key_id,
                    "epoch": row.epoch,
                    "told_at": row.told_at,
                }
            )
        return found

    async def release(
        self, who: Principal, name: str, ids: Sequence[str] | None = None
    ) -> int:  # fmt: skip
        """Learn from feedback in quarantine, all or some by ``id``; return how many."""
        return await self._judge(who, name, ids, "learned", "release")

    async def drop(
        self, who: Principal, name: str, ids: Sequence[str] | None = None
    ) -> int:  # fmt: skip
        """Never learn from feedback in quarantine, all or some by ``id``; return how many."""
        return await self._judge(who, name, ids, "not_learnable", "drop")

    async def _judge(
        self, who: Principal, name: str, ids: Sequence[str] | None, status: str, action: str
    ) -> int:
        experiment = self._experiments.find(who.tenant, name)
        if ids is None:
            rows = await self._state.read(lambda reader: reader.quarantined(experiment.id, 100_000))
            chosen = [row.id for row in rows]
        else:
            try:
                chosen = [uuid.UUID(each).bytes for each in ids]
            except (ValueError, AttributeError, TypeError):
                raise Problem("invalid_request", "The ids must be UUIDs.") from None
        change: dict[str, Any] = {"ids": [str(uuid.UUID(bytes=id)) for id in chosen[:1000]]}
        self._state.check_open()
        ledger = self._state.ledger
        audit = audit_row(who, action, name, change)
        orders = self._committer.orders

        def work(writer: Writer) -> tuple[int, list[StateRow], Folds]:
            states: list[StateRow] = []
            folds: Folds = {}

            def judged(writer: Writer) -> int:
                folding.lock_quarantined(writer, experiment.id, orders)
                taken = writer.judge(experiment.id, chosen, status)
                change["count"] = len(taken)
                states.extend(ledger.settle(taken, living(writer, taken)))
                folds.update(folding.renumber(writer, taken, orders, ledger.folds))
                for state in states:
                    if int(np.abs(state.sums.sums).max()) > LARGEST_SUM:
                        raise Problem("contribution_too_large")
                writer.put_states(states)
                return len(taken)

            count = writer.administer(audit, judged)
            for state in states:
                state.version += 1
            ledger.states.update((row.key, row) for row in states)
            ledger.folds.update(folds)
            return count, states, folds

        count, states, folds = await self._committer.run(work)
        self._experiments.learned(states, folds)
        log_change(audit)
        return count
