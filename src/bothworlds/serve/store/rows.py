"""Rows of a store, as the service hands them in and gets them back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bothworlds.serve.domain.sums import Counts, Sums


class FeedbackRow(NamedTuple):
    """A feedback; ``loss`` is in [0, 1]."""

    experiment: int
    id: bytes
    epoch: int
    record: bytes
    loss: float
    source: str
    status: str
    told_at: float
    key_id: str | None


class DecisionRow(NamedTuple):
    """A decision in the log; ``shadow`` is what the policy would have done, as JSON."""

    experiment: int
    id: bytes
    record: bytes
    shard: int
    run: int
    seq: int
    shadow: str | None


class LogRow(NamedTuple):
    """A decision with its feedback; without ``seq`` the log lost the decision."""

    id: bytes
    record: bytes
    shard: int | None
    run: int | None
    seq: int | None
    shadow: str | None
    loss: float | None
    source: str | None
    status: str | None
    told_at: float | None
    activated_at: float | None


class ReplicaRow(NamedTuple):
    """A replica: whether it is this one and serves now, its last run, what it learned."""

    shard: int
    own: bool
    serving: bool
    started_at: float | None
    ended_at: float | None
    learned: int
    rounds: int


class ClaimRow(NamedTuple):
    """A request or a unit (``kind``) that wants a decision, and the one it gets if it is first.

    A claim that expired before ``now`` gives way. ``decision`` is written if the claim is.
    """

    experiment: int
    kind: str
    hash: bytes
    fingerprint: bytes
    token: str
    expires_at: float
    now: float
    decision: DecisionRow | None


class Activation(NamedTuple):
    """A deferred decision that took effect."""

    experiment: int
    id: bytes
    at: float


@dataclass(eq=False)
class StateRow:
    """A replica's own state of an experiment and epoch."""

    experiment: int
    epoch: int
    shard: int
    version: int
    sums: Sums
    decided: Counts


class Stored(NamedTuple):
    """What the store has of a feedback that came before."""

    loss: float
    status: str


class Claimed(NamedTuple):
    """What the store has of a claim that came before."""

    fingerprint: bytes
    token: str


@dataclass
class Batch:
    """What is written in one transaction."""

    feedback: list[FeedbackRow] = field(default_factory=list)
    decisions: list[DecisionRow] = field(default_factory=list)
    claims: list[ClaimRow] = field(default_factory=list)
    activations: list[Activation] = field(default_factory=list)


@dataclass
class Outcome:
    """What became of a batch."""

    told_before: dict[tuple[int, bytes], Stored]
    """Feedback that the store had already, by experiment and id."""
    claimed_before: dict[int, Claimed]
    """Claims that others had made already, by their place in the batch."""
    states: list[StateRow]
    """The states of this replica that have changed, with their new versions."""


@dataclass(frozen=True)
class ArmRow:
    """An arm."""

    place: int
    name: str
    value: Any
    status: str
    entry: int
    added_at: float


@dataclass(frozen=True)
class ExperimentRow:
    """An experiment's configuration; ``config`` is as JSON has it."""

    id: int
    tenant: int
    name: str
    config: dict[str, Any]
    mode: str
    pinned: int | None
    epoch: int
    version: int
    created_at: float
    arms: tuple[ArmRow, ...]


@dataclass(frozen=True)
class KeyRow:
    """An API key."""

    id: str
    tenant: int
    hash: bytes
    scopes: frozenset[str]
    label: str
    created_at: float
    revoked_at: float | None


@dataclass(frozen=True)
class TokenKeyRow:
    """A token key; after ``signs_until`` it only verifies."""

    id: int
    secret: bytes
    created_at: float
    signs_until: float | None


@dataclass(frozen=True)
class Configuration:
    """Everything an administrator decides, at one version."""

    version: int
    unit_key: bytes
    tenants: dict[str, int]
    keys: tuple[KeyRow, ...]
    token_keys: tuple[TokenKeyRow, ...]
    experiments: tuple[ExperimentRow, ...]


@dataclass(frozen=True)
class AuditRow:
    """Who changed what."""

    at: float
    tenant: int
    key_id: str | None
    action: str
    experiment: str | None
    request_id: str
    change: dict[str, Any]
    id: int = 0


@dataclass(frozen=True)
class CheckpointRow:
    """Where an experiment stood at a moment; arrays are bytes, probabilities of the active arms."""

    experiment: int
    epoch: int
    at: float
    round: int
    learned: int
    told: bytes
    lost: bytes
    probabilities: bytes
    id: int = 0
