"""Rows of a store, as the service hands them in and gets them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bothworlds.serve.domain.folds import Fold, Order

Rows = list[tuple[Any, ...]]

CLOCK_LIMIT = 5.0
"""Seconds by which the clocks of replicas that are ready may differ from the database's."""


class Cursor(Protocol):
    """Result of a statement, as every driver has it."""

    @property
    def rowcount(self) -> int:
        """How many rows it wrote."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        ...


@dataclass
class Replica:
    """Number of this process among those that serve; only the writing thread changes it.

    Parameters
    ----------
    shard : int
        Which rows of ``state`` are its own; -1 for a process that only administers.
    run : int
        Which start of the replica this is.
    incarnation : bytes, optional
        Salt of the incarnation whose configuration the event loop has; it alone changes this.
    """

    shard: int
    run: int = 0
    incarnation: bytes | None = None


class FeedbackRow(NamedTuple):
    """A feedback; ``loss`` is in [0, 1].

    Where an experiment learns in order, ``number`` is its place in the order, and ``latest`` the
    latest round that its replica knew when it came.
    """

    experiment: int
    id: bytes
    epoch: int
    record: bytes
    loss: float
    source: str
    status: str
    told_at: float
    key_id: str | None
    number: int | None = None
    latest: int | None = None


class DecisionRow(NamedTuple):
    """A decision in the log; ``shadow`` is the policy's own draw, as JSON."""

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


class FoldRow(NamedTuple):
    """A fold in the store: the learned state up to a number."""

    number: int
    state: bytes


class SegmentRow(NamedTuple):
    """A segment that lives; ``entries`` are those of arms that were added later, by place."""

    experiment: int
    id: bytes
    epoch: int
    name: str
    entries: bytes
    created_at: float


class ReplicaRow(NamedTuple):
    """A replica: whether it is this one and serves now, its last run, its learned feedback."""

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


class Caps(NamedTuple):
    """How much feedback of a unit and of a key an experiment learns from in an hour."""

    unit: int | None
    key: int | None


class Activation(NamedTuple):
    """A deferred decision that took effect."""

    experiment: int
    id: bytes
    at: float


class Stored(NamedTuple):
    """Row of an earlier feedback in the store."""

    loss: float
    status: str
    now: bool = False
    """Whether this very commit stored it, beyond a cap and so in quarantine."""


class Claimed(NamedTuple):
    """Row of an earlier claim in the store."""

    fingerprint: bytes
    token: str


@dataclass
class WriteBatch:
    """Rows that are written in one transaction."""

    feedback: list[FeedbackRow] = field(default_factory=list)
    decisions: list[DecisionRow] = field(default_factory=list)
    claims: list[ClaimRow] = field(default_factory=list)
    activations: list[Activation] = field(default_factory=list)
    caps: Mapping[int, Caps] = field(default_factory=dict)
    orders: Mapping[int, Order] = field(default_factory=dict)
    """How experiments learn that learn in order."""
    folds: Mapping[tuple[int, int], Fold] = field(default_factory=dict)
    """Their folds as they are known, by experiment and epoch."""


class ArmRow(NamedTuple):
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


class TokenKeyRow(NamedTuple):
    """A token key; after ``signs_until`` it only verifies."""

    id: int
    secret: bytes
    created_at: float
    signs_until: float | None


class IncarnationRow(NamedTuple):
    """A span of the deployment's history that never went back; ``ended`` is its last valid id."""

    salt: bytes
    started_at: float
    ended: bytes | None


@dataclass(frozen=True)
class Segments:
    """The living segments of all experiments; ``version`` counts how often there were others."""

    version: int
    rows: tuple[SegmentRow, ...]


@dataclass(frozen=True)
class Configuration:
    """Everything an administrator decides, at one version; the current incarnation is last."""

    version: int
    unit_key: bytes
    tenants: dict[str, int]
    keys: tuple[KeyRow, ...]
    token_keys: tuple[TokenKeyRow, ...]
    experiments: tuple[ExperimentRow, ...]
    incarnations: tuple[IncarnationRow, ...]
    seals: dict[bytes, bytes]
    folds: dict[tuple[int, int], FoldRow]
    segments: Segments


@dataclass(frozen=True)
class AuditRow:
    """A row of the audit log: a change and its author."""

    at: float
    tenant: int
    key_id: str | None
    action: str
    experiment: str | None
    request_id: str
    change: dict[str, Any]
    id: int = 0


class CheckpointRow(NamedTuple):
    """Where an experiment stood at a moment; arrays are bytes."""

    experiment: int
    epoch: int
    at: float
    round: int
    learned: int
    told: bytes
    lost: bytes
    probabilities: bytes
    """Probabilities of the arms, then the weights of the experts."""
    id: int = 0

    def shares(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the probabilities of the arms, and the weights of the experts."""
        both, n_arms = np.frombuffer(self.probabilities, "<f8"), len(self.told) // 8
        return both[:n_arms], both[n_arms:]


FEEDBACK, DECISION, SEGMENT, CHECKPOINT = (
    ", ".join(row._fields) for row in (FeedbackRow, DecisionRow, SegmentRow, CheckpointRow)
)
"""Columns of tables, in the order of the fields of their rows."""


def from_bytes(raw: bytes) -> NDArray[np.int64]:
    """Return the whole numbers that `bothworlds.serve.store.writer.as_bytes` wrote.

    Examples
    --------
    >>> from_bytes(bytes.fromhex("0100000000000000feffffffffffffff")).tolist()
    [1, -2]
    """
    return np.frombuffer(raw, "<i8").astype(np.int64)
