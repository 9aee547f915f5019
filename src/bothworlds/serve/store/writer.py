"""Writer: all that is written to a store, in SQL that SQLite and PostgreSQL share.

A `Writer` has the one connection that writes, and belongs to one thread: the thread of
`bothworlds.serve.store.commit` while a service runs.  Work for that thread is a function that is
given the writer, so that no other code holds one.

An incarnation is a span of a deployment's history in which its store never went back in time.  Its
salt is in every signature.  A store that lost something starts another one, and then accepts
earlier ids up to the last that it knows for certain.

A batch is one transaction: its feedback, once per decision; what that contributes, added to the
state of this replica; claims, activations and records of the log.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from bothworlds.errors import StoreError
from bothworlds.serve.domain import records
from bothworlds.serve.domain.draws import Units
from bothworlds.serve.domain.sums import STATE, Counts, Living, StateKey, StateRow, Sums
from bothworlds.serve.store import folding
from bothworlds.serve.store.rows import (
    DECISION,
    FEEDBACK,
    ArmRow,
    AuditRow,
    Caps,
    CheckpointRow,
    Claimed,
    ClaimRow,
    Cursor,
    DecisionRow,
    ExperimentRow,
    FeedbackRow,
    KeyRow,
    Replica,
    Rows,
    Stored,
    WriteBatch,
    from_bytes,
)

T = TypeVar("T")

HOUR = 3600.0

SIZES, SMALL = (1024, 256, 64), 8
"""Numbers of rows per statement; of a smaller rest, multiples of the last and what is then left.
A statement of a new length is compiled, which costs more than to run it."""
KEY = "experiment, epoch, segment, shard"
"""Columns of the key of the table ``state``."""
STATES = f"SELECT {KEY}, version, {STATE} FROM state"
"""Query for rows that `StateRow.read` reads."""
NEXT_STATES = (
    "UPDATE state SET version = state.version + 1, "
    + ", ".join(f"{name} = given.column{n}" for n, name in enumerate(STATE.split(", "), 6))
    + " FROM (VALUES {}) AS given WHERE state.experiment = given.column1 AND "
    "state.epoch = given.column2 AND state.segment = given.column3 AND "
    "state.shard = given.column4 AND state.version = given.column5"
)
"""Statement that writes rows as their next versions, if they have the versions given."""
Settle = Callable[[list[FeedbackRow], Living], list[StateRow]]
"""From the feedback that is new, and the living segments of the batch, to the states of this
replica that change, versions unchanged."""


EXPIRED = Stored(math.nan, "expired")
"""Feedback that is not in the store, and must not be any more."""


LAST_ID = b"\xff" * 16
"""An id after all others."""

CONFLICT = "Another process wrote the state of this replica."


class Conflict(StoreError):
    """Another process has written this replica's own state; it must be read again."""


@dataclass
class BatchOutcome:
    """Outcome of a batch."""

    told_before: dict[tuple[int, bytes], Stored]
    """Feedback that the store had already, by experiment and id."""
    over_caps: set[tuple[int, bytes]]
    """New feedback that went into quarantine, by experiment and id."""
    claimed_before: dict[int, Claimed]
    """Claims of earlier requests, by their place in the batch."""
    states: list[StateRow]
    """The states of this replica that have changed, with their new versions."""
    folds: folding.Folds
    """The folds that have changed, by experiment and epoch."""


class Connection:
    """A connection to the database; it belongs to one thread.

    Parameters
    ----------
    execute : callable
        Runs a statement, in which ``?`` are values, and returns a cursor.
    replica : Replica
        Which replica uses it.
    """

    def __init__(self, execute: Callable[..., Cursor], replica: Replica) -> None:
        self.execute = execute
        self.replica = replica

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        """Run a statement and return its rows."""
        return self.execute(sql, values).fetchall()


class Writer(Connection, ABC):
    """The connection that writes."""

    dialect: str
    """Name of the folder with the tables."""
    begin = "BEGIN IMMEDIATE"
    """Statement that starts a transaction."""
    for_update = ""
    """Clause that a dialect appends to a query to lock the rows it returns."""
    for_share = ""
    """The same, against changes alone."""
    lock_tables: str | None = None
    """Statement that keeps others from migrating, where a transaction alone does not."""
    announce: str | None = None
    """Statement that lets other replicas know, once committed, of another configuration."""
    changes: Callable[[], int] | None = None
    """Returns how many rows this connection has changed, where that is known without a query."""
    together = 1
    """Rows of the log of an experiment that are worth waiting for, to be written together."""

    # --- what a dialect provides -----------------------------------------------------------------

    @abstractmethod
    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once per row."""

    @property
    @abstractmethod
    def inside(self) -> bool:
        """Whether a transaction is open."""

    @abstractmethod
    def has_schema(self) -> bool:
        """Tell whether there is a table ``schema_version``."""

    @abstractmethod
    def run_script(self, script: str) -> None:
        """Run the statements of a file, inside the transaction that is open."""

    @abstractmethod
    def check_not_served(self) -> None:
        """Refuse if a process serves from the store, in the transaction of a migration."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commit the writes of the block, durably, or none of them."""

    def insert(self, table: str, then: str = "", /, **values: Any) -> Cursor:
        """Insert a row, given by its columns; ``then`` ends the statement."""
        places = ", ".join("?" * len(values))
        sql = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places}) {then}"
        return self.execute(sql, list(values.values()))

    def probe(self) -> None:
        """Commit a write that changes nothing, to learn whether the store takes any."""
        with self.transaction():
            self.execute("UPDATE deployment SET config_version = config_version")

    # --- configuration ---------------------------------------------------------------------------

    def administer(
        self,
        audit: AuditRow,
        change: Callable[[Writer], T],
        expected: tuple[int, int] | None = None,
    ) -> T:
        """Run a change of the configuration and its audit row as one transaction.

        Parameters
        ----------
        audit : AuditRow
            The author and the change.
        change : callable
            Changes tables by the ``put_`` methods of the writer it is given; its result is
            returned.
        expected : pair of int, optional
            An experiment and the version it must have: otherwise `LookupError`, and nothing
            is changed.
        """
        with self.transaction():
            if expected is not None:
                found = self.rows(
                    "SELECT version FROM experiment WHERE id = ?" + self.for_update, expected[:1]
                )
                if not found or found[0][0] != expected[1]:
                    raise LookupError(expected)
            self.execute("UPDATE deployment SET config_version = config_version + 1 WHERE id = 1")
            returned = change(self)
            columns = vars(audit) | {"change": json.dumps(audit.change)}
            del columns["id"]
            self.insert("audit", **columns)
            if self.announce is not None:
                self.execute(self.announce)
        return returned

    def leads(self) -> bool:
        """Return whether this replica does the work that only one replica does."""
        return True

    def put_tenant(self, name: str, at: float) -> int:
        """Return the number of a tenant, new if it is."""
        self.execute(
            "INSERT INTO tenant (id, name, created_at) "
            "SELECT COALESCE(MAX(id), 0) + 1, ?, ? FROM tenant WHERE true "
            "ON CONFLICT (name) DO NOTHING",
            (name, at),
        )
        return int(self.rows("SELECT id FROM tenant WHERE name = ?", (name,))[0][0])

    def put_experiment(self, row: ExperimentRow) -> int | None:
        """Insert an experiment with its arms; return its number, None if the name is taken.

        The number is random: one that was counted would come again after a restore, and ids of
        the experiment that had it before would be learned by this one.
        """
        number = secrets.randbits(32)
        while self.rows("SELECT 1 FROM experiment WHERE id = ?", (number,)):
            number = secrets.randbits(32)
        columns = vars(row) | {"id": number, "config": json.dumps(row.config)}
        del columns["arms"]
        then = "ON CONFLICT (tenant, name) DO NOTHING RETURNING id"
        if not self.insert("experiment", then, **columns).fetchall():
            return None
        for arm in row.arms:
            self.put_arm(number, arm)
        self.put_seal(number, row.epoch, len(row.arms))
        return number

    def put_seal(self, experiment: int, epoch: int, known: int) -> None:
        """Sign the ids of an epoch with this many known arms with random bytes of their own.

        After a restore another epoch or arm may get the number of one that was lost; the ids of
        the lost one then have a signature that is not valid.
        """
        self.insert("seal", experiment=experiment, epoch=epoch, known=known, seal=os.urandom(8))

    def put_config(
        self, experiment: int, config: dict[str, Any], mode: str, pinned: int | None, epoch: int
    ) -> None:
        """Change an experiment, which gets its next version."""
        self.execute(
            "UPDATE experiment SET config = ?, mode = ?, pinned = ?, epoch = ?, "
            "version = version + 1 WHERE id = ?",
            (json.dumps(config), mode, pinned, epoch, experiment),
        )

    def put_arm(self, experiment: int, arm: ArmRow) -> bool:
        """Insert an arm; False if its place or its name was ever used."""
        written = arm._replace(value=None if arm.value is None else json.dumps(arm.value))
        then = "ON CONFLICT DO NOTHING RETURNING place"
        made = self.insert("arm", then, experiment=experiment, **written._asdict())
        return bool(made.fetchall())

    def retire_arm(self, experiment: int, place: int) -> None:
        """Mark an arm as retired."""
        self.execute(
            "UPDATE arm SET status = 'retired' WHERE experiment = ? AND place = ?",
            (experiment, place),
        )

    def clear_entries(self, experiment: int) -> None:
        """Give all arms equal estimates, for a new epoch."""
        self.execute("UPDATE arm SET entry = 0 WHERE experiment = ?", (experiment,))

    def put_key(self, key: KeyRow) -> None:
        """Insert an API key."""
        self.insert("api_key", **vars(key) | {"scopes": " ".join(sorted(key.scopes))})

    def revoke_key(self, tenant: int, key: str, at: float) -> bool:
        """Revoke a key; False if the tenant has none such that is still good."""
        return bool(
            self.rows(
                "UPDATE api_key SET revoked_at = ? "
                "WHERE id = ? AND tenant = ? AND revoked_at IS NULL RETURNING id",
                (at, key, tenant),
            )
        )

    def put_token_key(self, number: int, secret: bytes, at: float, keep: float) -> None:
        """Make a token key the one that signs; forget those that signed last before ``keep``."""
        self.execute("UPDATE token_key SET signs_until = ? WHERE signs_until IS NULL", (at,))
        self.execute("DELETE FROM token_key WHERE signs_until < ? OR id = ?", (keep, number))
        self.insert("token_key", id=number, secret=secret, created_at=at)

    # --- incarnations ----------------------------------------------------------------------------

    def begin_incarnation(self, at: float, timeline: str | None, until: bytes = LAST_ID) -> None:
        """Start a new incarnation: ids that the store cannot know are refused for good.

        For a transaction. The inputs of a decision were committed before it, and before every
        later decision: an id before the newest decision in the store is of no time that was lost.
        Decisions after ``until`` may have been made after that time.
        """
        self.execute(
            "UPDATE incarnation SET ended = ? WHERE ended IS NULL", (self.last_certain_id(until),)
        )
        self.execute(
            "INSERT INTO incarnation (salt, started_at, timeline, ended) VALUES (?, ?, ?, NULL)",
            (os.urandom(16), at, timeline),
        )

    def leave_incarnation(self, salt: bytes, why: str, until: bytes = LAST_ID) -> None:
        """Start a new incarnation after that of ``salt``, unless another replica did.

        Its store has lost something after the id ``until``, and does not know it.
        """
        current = "SELECT salt, timeline FROM incarnation WHERE ended IS NULL"

        def change(writer: Writer) -> None:
            found, timeline = writer.rows(current)[0]
            if found != salt:
                raise LookupError(salt)
            writer.begin_incarnation(writer.now(), timeline, until)

        audit = AuditRow(time.time(), 1, None, "restored", None, "store", {"store": why})
        with suppress(LookupError):
            self.administer(audit, change)

    def now(self) -> float:
        """Return the time by the clock of the database."""
        return time.time()

    def last_certain_id(self, until: bytes) -> bytes:
        """Return the last id that is certainly older than everything the store may have lost."""
        return self.newest_id(until)

    def newest_id(self, until: bytes = LAST_ID) -> bytes:
        """Return the newest id in the log, up to one; no bytes if there is none."""
        found = [
            id
            for (experiment,) in self.rows("SELECT id FROM experiment")
            for (id,) in self.rows(
                "SELECT id FROM decision WHERE experiment = ? AND id <= ? ORDER BY id DESC LIMIT 1",
                (experiment, until),
            )
        ]
        return max(found, default=b"")

    # --- batches ---------------------------------------------------------------------------------

    def commit(self, batch: WriteBatch, settle: Settle) -> BatchOutcome:
        """Write a batch as one transaction.

        Raises what the database raises, and `Conflict`; then nothing was written, or, where
        the connection broke during the commit itself, the outcome is unknown.
        """
        with self.transaction():
            new = batch.feedback
            late = self._late(new) if new else {}
            if late:
                new = [row for row in new if row[:2] not in late]
            folds: folding.Folds = {}
            if batch.orders:
                new, folds = folding.number_feedback(self, new, batch.orders, batch.folds)
            before = self._insert_feedback(new) if new else {}
            if before:
                new = [row for row in new if (row.experiment, row.id) not in before]
            before |= late
            over = _count_caps(self, new, batch.caps) if batch.caps else set()
            if over:
                self.execute_many(
                    "UPDATE feedback SET status = 'quarantined' WHERE experiment = ? AND id = ?",
                    sorted(over),
                )
                new = [row for row in new if row[:2] not in over]
            claimed: dict[int, Claimed] = {}
            decisions = batch.decisions
            # Here too in one order on every replica.
            for place, claim in sorted(enumerate(batch.claims), key=lambda each: each[1][:3]):
                found = self._claim(claim)
                if found is not None:
                    claimed[place] = found
                elif claim.decision is not None:
                    decisions = [*decisions, claim.decision]
            if batch.activations:
                self.execute_many(
                    "INSERT INTO activation (experiment, id, at) VALUES (?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    sorted(batch.activations),
                )
            if decisions:
                self._insert_decisions(decisions)
            states = settle(new, living(self, [*new, *decisions]))
            self.put_states(states)
            if folds:
                folds = folding.learn(self, new, folds)
        for row in states:
            row.version += 1
        return BatchOutcome(before, over, claimed, states, folds)

    def _insert_feedback(self, rows: list[FeedbackRow]) -> dict[tuple[int, bytes], Stored]:
        """Insert feedback; return the rows that the store had already."""
        if self.changes is not None:
            before = self.changes()
            insert_rows(self, "feedback", FEEDBACK, rows)
            # In most batches all of them are new.
            if self.changes() - before == len(rows):
                return {}
            self.execute("ROLLBACK")
            self.execute(self.begin)
        made = set(self._insert_new(rows))
        if len(made) == len(rows):
            return {}
        others = [row[:2] for row in rows if row[:2] not in made]
        known: dict[tuple[int, bytes], Stored] = {}
        for places, values in at_once(others):
            for experiment, id, loss, status in self.rows(
                "SELECT experiment, id, loss, status FROM feedback "
                f"WHERE (experiment, id) IN (VALUES {places})",
                values,
            ):
                known[experiment, id] = Stored(loss, status)
        return known

    def _late(self, rows: list[FeedbackRow]) -> dict[tuple[int, bytes], Stored]:
        """Return feedback whose id retention has passed, as the store has it or as expired.

        The replica may not have read yet how far another one has deleted, or a narrower window.
        """
        upto: dict[int, bytes] = dict(self.rows("SELECT experiment, upto FROM forgotten"))
        late = [row[:2] for row in rows if row.id <= upto.get(row.experiment, b"")]
        stored = "SELECT loss, status FROM feedback WHERE experiment = ? AND id = ?"
        return {
            each: Stored(*found[0]) if (found := self.rows(stored, each)) else EXPIRED
            for each in late
        }

    def _insert_new(self, rows: list[FeedbackRow]) -> Rows:
        """Insert the feedback that the store does not have; return experiment and id of each."""
        made: Rows = []
        for places, values in at_once(rows):
            made += self.rows(
                f"INSERT INTO feedback ({FEEDBACK}) VALUES {places} "
                "ON CONFLICT DO NOTHING RETURNING experiment, id",
                values,
            )
        return made

    def _insert_decisions(self, rows: Sequence[DecisionRow]) -> None:
        """Append to the log; rows of a commit of unknown outcome stay."""
        self.execute_many(
            f"INSERT INTO decision ({DECISION}) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            rows,
        )

    def delete_decisions(self, rows: Rows) -> None:
        """Delete records of the log by experiment and id, and activations."""
        self.execute_many("DELETE FROM decision WHERE experiment = ? AND id = ?", rows)
        self.execute_many("DELETE FROM activation WHERE experiment = ? AND id = ?", rows)

    def _claim(self, claim: ClaimRow) -> Claimed | None:
        """Write a claim, unless there is one that has not expired: return that."""
        made = self.rows(
            "INSERT INTO claim (experiment, kind, hash, fingerprint, token, expires_at) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (experiment, kind, hash) DO UPDATE SET "
            "fingerprint = excluded.fingerprint, token = excluded.token, "
            "expires_at = excluded.expires_at WHERE claim.expires_at <= ? RETURNING kind",
            claim[:7],
        )
        if made:
            return None
        found = self.rows(
            "SELECT fingerprint, token FROM claim WHERE experiment = ? AND kind = ? AND hash = ?",
            claim[:3],
        )
        return Claimed(*found[0])

    def own_states(self) -> list[StateRow]:
        """Return this replica's states."""
        shard = None
        while shard != self.replica.shard:
            # The query may open a new connection, and that may take another number.
            shard = self.replica.shard
            found = self.rows(f"{STATES} WHERE shard = ?", (shard,))
        return [StateRow.read(row) for row in found]

    def states_of(self, key: StateKey) -> list[StateRow]:
        """Return the states of all replicas with this key."""
        found = self.rows(f"{STATES} WHERE experiment = ? AND epoch = ? AND segment = ?", key)
        return [StateRow.read(row) for row in found]

    def replace_states(self, rebuilt: dict[StateKey, Sums]) -> None:
        """Replace some states, decisions counted as they were."""
        with self.transaction():
            for key, sums in rebuilt.items():
                rows = self.states_of(key)
                used_at = max([row.used_at for row in rows], default=0.0)
                self.execute(
                    "DELETE FROM state WHERE experiment = ? AND epoch = ? AND segment = ?", key
                )
                counts = Counts()
                for row in rows:
                    counts = counts.plus(row.decided)
                    sums.newest = max(sums.newest, row.sums.newest)
                row = StateRow(*key, self.replica.shard, 0, sums, counts, used_at)
                self.put_states([row])

    def judge(self, experiment: int, ids: Iterable[bytes], status: str) -> list[FeedbackRow]:
        """Take feedback out of quarantine; return its rows."""
        taken = []
        for id in ids:
            for r in self.rows(
                "UPDATE feedback SET status = ? "
                "WHERE experiment = ? AND id = ? AND status = 'quarantined' "
                f"RETURNING {FEEDBACK}",
                (status, experiment, id),
            ):
                taken.append(FeedbackRow(*r))
        return taken

    def put_states(self, rows: Sequence[StateRow]) -> None:
        """Write states of this replica; for a transaction, after which their versions are next.

        One statement for many states, which returns no rows: the thread waits for the interpreter
        after every statement, and after every row that SQLite returns.
        """
        first = [_columns(row, 1) for row in rows if not row.version]
        next_ones = [_columns(row, row.version) for row in rows if row.version]
        written = 0
        for places, values in at_once(first):
            sql = f"INSERT INTO state ({KEY}, version, {STATE}) VALUES {places} "
            written += self.execute(sql + "ON CONFLICT DO NOTHING", values).rowcount
        for places, values in at_once(next_ones):
            written += self.execute(NEXT_STATES.format(places), values).rowcount
        if written < len(rows):
            raise Conflict(CONFLICT)

    def put_swept(self, experiment: int, upto: bytes) -> None:
        """Remember up to where missing feedback was looked for."""
        with self.transaction():
            self.execute(
                "INSERT INTO sweep (experiment, swept) VALUES (?, ?) "
                "ON CONFLICT (experiment) DO UPDATE SET swept = excluded.swept",
                (experiment, upto),
            )

    def put_checkpoints(self, rows: Sequence[CheckpointRow], keep: int) -> None:
        """Append checkpoints, and thin an experiment's to at most ``keep``."""
        with self.transaction():
            for row in rows:
                columns = row._asdict()
                del columns["id"]
                self.insert("checkpoint", **columns)
                kept = self.rows(
                    "SELECT COUNT(*) FROM checkpoint WHERE experiment = ?", (row.experiment,)
                )
                if kept[0][0] > keep:
                    # Every second one goes: the history stays whole, at half the resolution.
                    ids = self.rows(
                        "SELECT id FROM checkpoint WHERE experiment = ? ORDER BY id",
                        (row.experiment,),
                    )
                    self.execute_many("DELETE FROM checkpoint WHERE id = ?", ids[1:-1:2])

    def begin_run(self) -> None:
        """Record that this replica starts to serve."""
        with self.transaction():
            last = self.rows("SELECT MAX(run) FROM run WHERE shard = ?", (self.replica.shard,))
            shard, run = self.replica.shard, int(last[0][0] or 0) + 1
            self.replica.run = run
            self.insert("run", shard=shard, run=run, started_at=time.time())

    def end_run(self) -> None:
        """Note that this replica stops with its log written."""
        with self.transaction():
            self.execute(
                "UPDATE run SET ended_at = ? WHERE shard = ? AND run = ?",
                (time.time(), self.replica.shard, self.replica.run),
            )


def insert_rows(writer: Writer, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert the rows that are not there yet."""
    for places, values in at_once(rows):
        sql = f"INSERT INTO {table} ({columns}) VALUES {places} ON CONFLICT DO NOTHING"
        writer.execute(sql, values)


def compacted(
    store: Connection, where: str = "", values: Sequence[Any] = ()
) -> dict[StateKey, Sums]:
    """Return the contributions of deleted feedback, by experiment, epoch and segment."""
    columns = "experiment, epoch, segment, sums, told, lost, learned"
    return {
        (experiment, epoch, segment): Sums(
            from_bytes(sums), from_bytes(told), from_bytes(lost), learned
        )
        for experiment, epoch, segment, sums, told, lost, learned in store.rows(
            f"SELECT {columns} FROM compacted {where}", values
        )
    }


def living(writer: Writer, rows: Iterable[FeedbackRow | DecisionRow]) -> Living:
    """Return which segments of some decisions live; they do until the transaction ends."""
    named = {
        (row.experiment, records.segment_of(row.record))
        for row in rows
        if len(row.record) >= records.SEGMENTED
    }
    found: set[tuple[int, bytes]] = set()
    # In one order on every replica, so that no two wait for each other.
    for places, values in at_once(sorted(each for each in named if each[1])):
        found.update(
            writer.rows(
                f"SELECT experiment, id FROM segment WHERE (experiment, id) IN "
                f"(VALUES {places}) AND evicted_at IS NULL ORDER BY experiment, id"
                + writer.for_share,
                values,
            )
        )
    return found


def _count_caps(
    writer: Writer, rows: list[FeedbackRow], caps: Mapping[int, Caps]
) -> set[tuple[int, bytes]]:
    """Count new feedback towards the caps of its units and keys; return the excess.

    The store counts, so that restarts and other replicas change nothing.
    """
    counted: dict[tuple[int, str, str, int], list[FeedbackRow]] = {}
    for row in rows:
        if row.experiment not in caps or row.status != "learned" or row.source != "client":
            continue
        unit = records.decode(row.record).unit
        named = {"unit": None if unit is None else unit.hex(), "key": row.key_id}
        for kind, name in named.items():
            if name is not None and getattr(caps[row.experiment], kind) is not None:
                place = row.experiment, kind, name, int(row.told_at // HOUR)
                counted.setdefault(place, []).append(row)
    over: set[tuple[int, bytes]] = set()
    # In one order on every replica.
    for place, found in sorted(counted.items(), key=lambda each: each[0]):
        used = writer.rows(
            "INSERT INTO cap_use (experiment, kind, name, hour, used) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (experiment, kind, name, hour) DO UPDATE "
            "SET used = cap_use.used + excluded.used RETURNING used",
            (*place, len(found)),
        )[0][0]
        left = getattr(caps[place[0]], place[1]) - (used - len(found))
        over.update(row[:2] for row in found[max(0, left) :])
    return over


def as_bytes(values: Units) -> bytes:
    """Return whole numbers as the store keeps them; `from_bytes` reads them.

    Examples
    --------
    >>> import numpy as np
    >>> as_bytes(np.array([1, -2])).hex()
    '0100000000000000feffffffffffffff'
    """
    return values.astype("<i8").tobytes()


def _columns(row: StateRow, version: int) -> tuple[Any, ...]:
    """Return a state as the values of `KEY`, the version and `STATE`."""
    sums, counts = row.sums, row.decided
    return (
        *row.key, row.shard, version, as_bytes(sums.sums), as_bytes(sums.told),
        as_bytes(sums.lost), struct.pack(f"<{len(counts.by_arm)}q", *counts.by_arm),
        sums.learned, counts.rounds, sums.newest, row.used_at,
    )  # fmt: skip


def at_once(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the places and the values of rows that one statement takes.

    Few statements, because between two of them a thread waits for the interpreter, which the event
    loop holds, or for the network; of few lengths, because each is prepared once.

    Examples
    --------
    >>> list(at_once([(1, "a"), (2, "b"), (3, "c")]))
    [('(?, ?), (?, ?), (?, ?)', [1, 'a', 2, 'b', 3, 'c'])]
    >>> [len(values) for _, values in at_once([(1,)] * 330)]
    [256, 64, 8, 2]
    """
    at = 0
    while at < len(rows):
        left = len(rows) - at
        size = next((each for each in SIZES if each <= left), left - left % SMALL or left)
        one = f"({', '.join('?' * len(rows[at]))})"
        yield ", ".join([one] * size), [value for row in rows[at : at + size] for value in row]
        at += size
