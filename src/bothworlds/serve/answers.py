"""Requests and answers of the service: who asks, decisions, feedback, rows of the log."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.serve.domain import records
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.store.rows import LogRow


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: a tenant, by a key or, without keys, by being on this machine."""

    tenant: int
    key_id: str | None
    scopes: frozenset[str]


class Told:
    """What became of a feedback: learned, duplicate, quarantined or not_learnable."""

    __slots__ = ("status",)

    def __init__(self, status: str) -> None:
        self.status = status

    def __repr__(self) -> str:
        return f"Told({self.status!r})"


@dataclass(frozen=True)
class Telling:
    """A feedback of a batch."""

    decision_id: str
    loss: float | None = None
    reward: float | None = None


def log_document(experiment: Experiment, row: LogRow) -> dict[str, Any]:
    """Return a row of the log as JSON values, in the experiment's units."""
    record = records.decode(row.record)
    low, high = experiment.config.bounds
    names = [arm.name for arm in experiment.arms]
    there = None
    if record.present is not None:
        bits = np.unpackbits(np.frombuffer(record.present, np.uint8), count=record.known)
        there = [names[place] for place in np.flatnonzero(bits)]
    return {
        "decision_id": str(uuid.UUID(bytes=row.id)),
        "at": record.at,
        "epoch": record.epoch,
        "round": record.round,
        "arm": names[record.arm],
        "probability": min(1.0, 1.0 / record.inverse_p),
        "mode": record.mode,
        "available": there,
        "known": record.known,
        "unit": None if record.unit is None else record.unit.hex(),
        "deferred": record.deferred,
        "activated_at": row.activated_at,
        "shadow": None if row.shadow is None else json.loads(row.shadow),
        "loss": None if row.loss is None else low + row.loss * (high - low),
        "status": row.status,
        "source": row.source,
        "told_at": row.told_at,
        "shard": row.shard,
        "run": row.run,
        "seq": row.seq,
        "logged": row.seq is not None,
    }
