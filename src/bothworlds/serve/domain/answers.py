"""Requests and answers of the service: principals, decisions, feedback, rows of the log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from bothworlds.serve.domain import records
from bothworlds.serve.domain.experiment import Snapshot
from bothworlds.serve.domain.tokens import Keyring
from bothworlds.serve.store.rows import LogRow

Status = Literal["learned", "duplicate", "quarantined", "not_learnable"]
"""Outcome of a feedback that was accepted."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller: a tenant, by a key or, without keys, by being on this machine.

    Parameters
    ----------
    tenant : int
        Its number.
    key_id : str or None
        The key, None without keys.
    scopes : frozenset of str
        What it may do.
    experiment : str, optional
        The only experiment that a decide token is for.
    until : float, optional
        When a decide token expires, in seconds since 1970; None for a key.
    request_id : str
        Id of the request in which it changes something, for the audit log.
    """

    tenant: int
    key_id: str | None
    scopes: frozenset[str]
    experiment: str | None = None
    until: float | None = None
    request_id: str = ""

    def may_use(self, name: str) -> bool:
        """Tell whether the caller may decide in an experiment of its tenant."""
        return self.experiment is None or self.experiment == name


class Decided(msgspec.Struct, omit_defaults=True):
    """A decision: use the arm, and keep the id for its feedback.

    Parameters
    ----------
    arm : str
        Name of the arm to use.
    probability : float
        Probability with which the arm was drawn.
    expires_at : float
        Seconds since 1970 after which its feedback comes too late.
    value : object
        Value of the arm.
    experts : dict, optional
        The weight of every expert; with vector.
    """

    replayed: ClassVar[bool] = False
    decision_id: str
    arm: str
    probability: float
    round: int
    mode: Literal["learn", "pinned", "uniform", "shadow"]
    expires_at: float
    value: Any = None
    probabilities: dict[str, float] | None = None
    experts: dict[str, float] | None = None


class Replayed(Decided):
    """A decision that an earlier request, or the unit, was given before."""

    replayed: ClassVar[bool] = True


class Feedback(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The outcome of a decision: a loss or a reward, one of them."""

    loss: float | UnsetType = UNSET
    reward: float | UnsetType = UNSET

    def given(self) -> tuple[float | None, float | None]:
        """Return loss and reward, None for the one that was not given."""
        return (
            None if self.loss is UNSET else self.loss,
            None if self.reward is UNSET else self.reward,
        )


class FeedbackItem(Feedback):
    """The outcome of one decision of many."""

    decision_id: Annotated[str, Meta(min_length=1, max_length=2000)]


class Told(msgspec.Struct, omit_defaults=True):
    """Outcome of a feedback.

    Parameters
    ----------
    status : str
        "learned"; "duplicate": the same outcome was reported before; "quarantined": held back by a
        cap; "not_learnable": stored, not learned, because the policy did not draw the arm.
    """

    status: Status


def log_document(
    experiment: Snapshot, row: LogRow, keyring: Keyring, segments: Mapping[bytes, str]
) -> dict[str, Any]:
    """Return a row of the log as JSON values, in the experiment's units.

    ``decision_id`` is the caller's id, None if its token key is forgotten; ``id`` is shorter
    and always there. With experts, ``advised`` is the probability that each gave to the arm.
    ``segments`` are the names of the segments by id.
    """
    record = records.decode(row.record)
    low, high = experiment.config.bounds
    names = experiment.names
    there = None
    if record.present is not None:
        bits = np.unpackbits(np.frombuffer(record.present, np.uint8), count=record.known)
        there = [names[place] for place in np.flatnonzero(bits)]
    found = {
        "decision_id": keyring.token(row.record),
        "id": str(uuid.UUID(bytes=row.id)),
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
    if record.experts:
        found["advised"] = dict(zip(experiment.config.experts, record.advice, strict=False))
    if record.segment:
        found["segment"] = segments.get(record.segment, record.segment.hex())
    return found
