"""Store of the decision service: what is kept, in SQL that SQLite and PostgreSQL share.

A `Store` has two connections.  One thread writes, one thread reads; each method says whose it is.
A dialect opens the connections, knows its numbered files of tables, and may replace a statement
by a faster one.

Nothing here decides anything about bandits.  A batch is one transaction: its feedback, once per
decision; what that contributes, added to the state of this replica; claims, activations and
records of the log.
"""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import resources
from typing import Any

from bothworlds.errors import StoreError
from bothworlds.serve.domain.sums import Counts, Sums, as_bytes, from_bytes
from bothworlds.serve.store.rows import (
    ArmRow,
    AuditRow,
    Batch,
    CheckpointRow,
    Claimed,
    ClaimRow,
    Configuration,
    DecisionRow,
    ExperimentRow,
    FeedbackRow,
    KeyRow,
    LogRow,
    Outcome,
    ReplicaRow,
    StateRow,
    Stored,
    TokenKeyRow,
)

Rows = list[tuple[Any, ...]]
Settle = Callable[[list[FeedbackRow]], list[StateRow]]
"""From the feedback that is new to the states of this replica that change, versions unchanged."""

FEEDBACK = "experiment, id, epoch, record, loss, source, status, told_at, key_id"
DECISION = "experiment, id, record, shard, run, seq, shadow"
CHECKPOINT = "epoch, at, round, learned, told, lost, probabilities, id"
STATE = "sums, told, lost, decided, learned, rounds, newest"


SIZES = (1024, 256, 64)
"""How many rows a statement inserts; what is left, less than the last, has one of its own."""


FEW_PEERS = 100
"""States of others up to which a poll reads them all, in one query: 10 us each, half of it in the
event loop, five times a second."""


class Conflict(StoreError):
    """Somebody else has written this replica's own state; it must be read again."""


class Store(ABC):
    """A store, open.

    Parameters
    ----------
    shard : int
        Which rows of ``state`` are this replica's own; -1 for one that only administers.
    run : int
        Which start of the replica this is.
    """

    dialect: str
    """Name of the folder with the tables."""
    has_peers: bool
    """Whether other replicas may write as well, whose states have to be polled."""
    failures: tuple[type[Exception], ...]
    """What reading raises when the database fails."""
    shard: int
    run: int

    def __init__(self) -> None:
        # States of the other replicas as they were read last, by experiment, epoch and shard.
        self._peers: dict[tuple[Any, ...], StateRow] = {}

    # --- what a dialect provides -----------------------------------------------------------------

    @abstractmethod
    def _write(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        """Run a statement on the writing connection and return its rows; ``?`` are values."""

    @abstractmethod
    def _write_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement once per row; return how many rows of the table changed."""

    @abstractmethod
    def _read(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        """Run a query on the reading connection."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commit what the writing connection does in the block, durably, or none of it."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read one state of the store in the block."""

    @abstractmethod
    def _has_schema(self) -> bool:
        """Tell whether there is a table ``schema_version``."""

    @abstractmethod
    def _run_script(self, script: str) -> None:
        """Run the statements of a file, inside the transaction that is open."""

    @abstractmethod
    def close(self) -> None:
        """Close both connections, and give the shard up."""

    @abstractmethod
    def _check_nobody_serves(self) -> None:
        """Refuse if anybody serves from the store, in the transaction of a migration."""

    @abstractmethod
    def listen(self, heard: Callable[[], None]) -> None:
        """Call ``heard`` in some thread when another replica announces a configuration."""

    _for_update = ""
    """What a dialect appends to a query to lock what it returns."""
    _lock_tables: str | None = None
    """Statement that keeps others from migrating, where a transaction alone does not."""
    _announce: str | None = None
    """Statement that lets other replicas know, once committed, of another configuration."""

    def pulse(self) -> bool:
        """Tell, cheaply and on the reading connection, whether others may have written since."""
        return True

    # --- tables ----------------------------------------------------------------------------------

    def version(self) -> int:
        """Return the version of the tables, 0 for an empty store."""
        if not self._has_schema():
            return 0
        return int(self._write("SELECT COALESCE(MAX(version), 0) FROM schema_version")[0][0])

    def scripts(self) -> list[tuple[int, str]]:
        """Return the numbered files of this dialect, number and text."""
        folder = resources.files("bothworlds.serve.store") / "sql" / self.dialect
        named = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
        return [(int(name.split("_")[0]), (folder / name).read_text("utf-8")) for name in named]

    def migrate(self) -> tuple[int, int]:
        """Bring the tables to the version of this program; return the versions before and after.

        All files that are missing are one transaction.
        """
        scripts = self.scripts()
        latest = scripts[-1][0]
        with self.transaction():
            if self._lock_tables is not None:
                self._write(self._lock_tables)
            before = self.version()
            if before > latest:
                raise StoreError(
                    f"The store has tables of version {before}, this program knows {latest}: "
                    f"it was written by a newer one, and is left as it is."
                )
            if before < latest:
                self._check_nobody_serves()
            for number, script in scripts:
                if number <= before:
                    continue
                if number == 1:
                    self._run_script(
                        "CREATE TABLE schema_version "
                        "(version INTEGER PRIMARY KEY, applied_at DOUBLE PRECISION NOT NULL);"
                    )
                self._run_script(script)
                self._write("INSERT INTO schema_version VALUES (?, ?)", (number, time.time()))
            if before == 0:
                now = time.time()
                self._write("INSERT INTO deployment VALUES (1, ?, 1)", (os.urandom(32),))
                self._write("INSERT INTO tenant VALUES (1, 'default', ?)", (now,))
                self._write("INSERT INTO token_key VALUES (1, ?, ?, NULL)", (os.urandom(32), now))
        return before, latest

    def check_version(self) -> None:
        """Refuse tables that this program does not know."""
        found, latest = self.version(), self.scripts()[-1][0]
        if found != latest:
            advice = "run: bothworlds serve migrate" if found < latest else "use a newer bothworlds"
            raise StoreError(
                f"The store has tables of version {found}, this program needs {latest}; {advice}."
            )

    # --- configuration ---------------------------------------------------------------------------

    def config_version(self) -> int:
        """Return the version of the configuration; for the reading thread."""
        return int(self._read("SELECT config_version FROM deployment")[0][0])

    def configuration(self) -> Configuration:
        """Return the whole configuration; for the reading thread."""
        with self.snapshot():
            version, unit_key = self._read("SELECT config_version, unit_key FROM deployment")[0]
            arms: dict[int, list[ArmRow]] = {}
            for experiment, place, name, value, status, entry, at in self._read(
                "SELECT experiment, place, name, value, status, entry, added_at FROM arm "
                "ORDER BY experiment, place"
            ):
                read = None if value is None else json.loads(value)
                arms.setdefault(experiment, []).append(ArmRow(place, name, read, status, entry, at))
            experiments = tuple(
                ExperimentRow(
                    number, tenant, name, json.loads(config), mode, pinned, epoch, own, at,
                    tuple(arms.get(number, ())),
                )
                for number, tenant, name, config, mode, pinned, epoch, own, at in self._read(
                    "SELECT id, tenant, name, config, mode, pinned, epoch, version, created_at "
                    "FROM experiment ORDER BY id"
                )
            )  # fmt: skip
            keys = tuple(
                KeyRow(number, tenant, bytes(digest), frozenset(scopes.split()), label, at, gone)
                for number, tenant, digest, scopes, label, at, gone in self._read(
                    "SELECT id, tenant, hash, scopes, label, created_at, revoked_at FROM api_key "
                    "ORDER BY created_at, id"
                )
            )
            token_keys = tuple(
                TokenKeyRow(number, bytes(secret), at, until)
                for number, secret, at, until in self._read(
                    "SELECT id, secret, created_at, signs_until FROM token_key ORDER BY created_at"
                )
            )
            tenants = {name: int(id) for name, id in self._read("SELECT name, id FROM tenant")}
        return Configuration(version, bytes(unit_key), tenants, keys, token_keys, experiments)

    def administer(
        self, audit: AuditRow, change: Callable[[], Any], expected: tuple[int, int] | None = None
    ) -> Any:
        """Run a change of the configuration and its audit row as one transaction.

        Parameters
        ----------
        audit : AuditRow
            Who does what.
        change : callable
            Changes tables by the ``put_`` methods below; what it returns is returned.
        expected : pair of int, optional
            An experiment and the version it must have: otherwise `LookupError`, and nothing
            is changed.
        """
        with self.transaction():
            if expected is not None:
                found = self._write(
                    "SELECT version FROM experiment WHERE id = ?" + self._for_update, expected[:1]
                )
                if not found or found[0][0] != expected[1]:
                    raise LookupError(expected)
            self._write("UPDATE deployment SET config_version = config_version + 1 WHERE id = 1")
            returned = change()
            self._write(
                "INSERT INTO audit (at, tenant, key_id, action, experiment, request_id, change) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    audit.at, audit.tenant, audit.key_id, audit.action, audit.experiment,
                    audit.request_id, json.dumps(audit.change),
                ),
            )  # fmt: skip
            if self._announce is not None:
                self._write(self._announce)
        return returned

    def leads(self) -> bool:
        """Tell whether this replica does what only one has to do; for the writing thread."""
        return True

    def put_tenant(self, name: str, at: float) -> int:
        """Return the number of a tenant, new if it is."""
        self._write(
            "INSERT INTO tenant (id, name, created_at) "
            "SELECT COALESCE(MAX(id), 0) + 1, ?, ? FROM tenant WHERE true "
            "ON CONFLICT (name) DO NOTHING",
            (name, at),
        )
        return int(self._write("SELECT id FROM tenant WHERE name = ?", (name,))[0][0])

    def put_experiment(self, row: ExperimentRow) -> int | None:
        """Insert an experiment with its arms; return its number, None if the name is taken."""
        made = self._write(
            "INSERT INTO experiment "
            "(id, tenant, name, config, mode, pinned, epoch, version, created_at) "
            "SELECT COALESCE(MAX(id), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ? FROM experiment WHERE true "
            "ON CONFLICT (tenant, name) DO NOTHING RETURNING id",
            (
                row.tenant, row.name, json.dumps(row.config), row.mode, row.pinned, row.epoch,
                row.version, row.created_at,
            ),
        )  # fmt: skip
        if not made:
            return None
        number = int(made[0][0])
        for arm in row.arms:
            self.put_arm(number, arm)
        return number

    def put_config(
        self, experiment: int, config: dict[str, Any], mode: str, pinned: int | None, epoch: int
    ) -> None:
        """Change an experiment, which gets its next version."""
        self._write(
            "UPDATE experiment SET config = ?, mode = ?, pinned = ?, epoch = ?, "
            "version = version + 1 WHERE id = ?",
            (json.dumps(config), mode, pinned, epoch, experiment),
        )

    def put_arm(self, experiment: int, arm: ArmRow) -> bool:
        """Insert an arm; False if its place or its name was ever used."""
        value = None if arm.value is None else json.dumps(arm.value)
        return bool(
            self._write(
                "INSERT INTO arm (experiment, place, name, value, status, entry, added_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING place",
                (experiment, arm.place, arm.name, value, arm.status, arm.entry, arm.added_at),
            )
        )

    def retire_arm(self, experiment: int, place: int) -> None:
        """Mark an arm as retired."""
        self._write(
            "UPDATE arm SET status = 'retired' WHERE experiment = ? AND place = ?",
            (experiment, place),
        )

    def clear_entries(self, experiment: int) -> None:
        """Let all arms begin level, for a new epoch."""
        self._write("UPDATE arm SET entry = 0 WHERE experiment = ?", (experiment,))

    def put_key(self, key: KeyRow) -> None:
        """Insert an API key."""
        self._write(
            "INSERT INTO api_key (id, tenant, hash, scopes, label, created_at, revoked_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                key.id, key.tenant, key.hash, " ".join(sorted(key.scopes)), key.label,
                key.created_at, key.revoked_at,
            ),
        )  # fmt: skip

    def revoke_key(self, tenant: int, key: str, at: float) -> bool:
        """Revoke a key; False if the tenant has none such that is still good."""
        return bool(
            self._write(
                "UPDATE api_key SET revoked_at = ? "
                "WHERE id = ? AND tenant = ? AND revoked_at IS NULL RETURNING id",
                (at, key, tenant),
            )
        )

    def put_token_key(self, number: int, secret: bytes, at: float, keep: float) -> None:
        """Make a token key the one that signs; forget those that signed last before ``keep``."""
        self._write("UPDATE token_key SET signs_until = ? WHERE signs_until IS NULL", (at,))
        self._write("DELETE FROM token_key WHERE signs_until < ? OR id = ?", (keep, number))
        self._write(
            "INSERT INTO token_key (id, secret, created_at, signs_until) VALUES (?, ?, ?, NULL)",
            (number, secret, at),
        )

    # --- the batch -------------------------------------------------------------------------------

    def commit(self, batch: Batch, settle: Settle) -> Outcome:
        """Write a batch as one transaction; for the writing thread.

        Raises whatever the database raises, and `Conflict`; then nothing was written, or, where
        the connection broke during the commit itself, nobody knows.
        """
        with self.transaction():
            before = self._insert_feedback(batch.feedback) if batch.feedback else {}
            new = batch.feedback
            if before:
                new = [row for row in new if (row.experiment, row.id) not in before]
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
                self._write_many(
                    "INSERT INTO activation (experiment, id, at) VALUES (?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    sorted(batch.activations),
                )
            if decisions:
                self._insert_decisions(decisions)
            states = settle(new)
            for row in states:
                self._put_state(row)
        for row in states:
            row.version += 1
        return Outcome(before, claimed, states)

    def _insert_feedback(self, rows: list[FeedbackRow]) -> dict[tuple[int, bytes], Stored]:
        """Insert feedback; return what the store had already."""
        made = {(experiment, bytes(id)) for experiment, id in self._insert_new(rows)}
        if len(made) == len(rows):
            return {}
        others = [row[:2] for row in rows if row[:2] not in made]
        before: dict[tuple[int, bytes], Stored] = {}
        for places, values in at_once(others):
            for experiment, id, loss, status in self._write(
                "SELECT experiment, id, loss, status FROM feedback "
                f"WHERE (experiment, id) IN (VALUES {places})",
                values,
            ):
                before[experiment, bytes(id)] = Stored(loss, status)
        return before

    def _insert_new(self, rows: list[FeedbackRow]) -> Rows:
        """Insert the feedback that the store does not have; return experiment and id of each."""
        made: Rows = []
        for places, values in at_once(rows):
            made += self._write(
                f"INSERT INTO feedback ({FEEDBACK}) VALUES {places} "
                "ON CONFLICT DO NOTHING RETURNING experiment, id",
                values,
            )
        return made

    def _insert_decisions(self, rows: Sequence[DecisionRow]) -> None:
        """Append to the log; what is there already, from a commit of unknown end, stays."""
        self._write_many(
            f"INSERT INTO decision ({DECISION}) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            rows,
        )

    def _claim(self, claim: ClaimRow) -> Claimed | None:
        """Write a claim, unless there is one that has not expired: return that."""
        made = self._write(
            "INSERT INTO claim (experiment, kind, hash, fingerprint, token, expires_at) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (experiment, kind, hash) DO UPDATE SET "
            "fingerprint = excluded.fingerprint, token = excluded.token, "
            "expires_at = excluded.expires_at WHERE claim.expires_at <= ? RETURNING kind",
            claim[:7],
        )
        if made:
            return None
        found = self._write(
            "SELECT fingerprint, token FROM claim WHERE experiment = ? AND kind = ? AND hash = ?",
            claim[:3],
        )
        return Claimed(bytes(found[0][0]), found[0][1])

    def _put_state(self, row: StateRow) -> None:
        """Write this replica's state of an experiment and epoch as its next version."""
        numbers = (
            as_bytes(row.sums.sums), as_bytes(row.sums.told), as_bytes(row.sums.lost),
            _packed(row.decided.by_arm), row.sums.learned, row.decided.rounds, row.sums.newest,
        )  # fmt: skip
        if row.version == 0:
            made = self._write(
                f"INSERT INTO state (experiment, epoch, shard, version, {STATE}) "
                "VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING version",
                (row.experiment, row.epoch, row.shard, *numbers),
            )
        else:
            made = self._write(
                "UPDATE state SET version = version + 1, sums = ?, told = ?, lost = ?, "
                "decided = ?, learned = ?, rounds = ?, newest = ? "
                "WHERE experiment = ? AND epoch = ? AND shard = ? AND version = ? "
                "RETURNING version",
                (*numbers, row.experiment, row.epoch, row.shard, row.version),
            )
        if not made:
            raise Conflict("Another process wrote the state of this replica.")

    # --- states ----------------------------------------------------------------------------------

    def own_states(self) -> list[StateRow]:
        """Return this replica's states; for the writing thread."""
        found = self._write(
            f"SELECT experiment, epoch, shard, version, {STATE} FROM state WHERE shard = ?",
            (self.shard,),
        )
        return [_state(row) for row in found]

    def peer_states(self) -> list[StateRow]:
        """Return the states of the other replicas; for the reading thread.

        Where there are many, only those are read that have changed; the others are the same
        objects as before.
        """
        if len(self._peers) <= FEW_PEERS:
            found = self._read(
                f"SELECT experiment, epoch, shard, version, {STATE} FROM state WHERE shard <> ?",
                (self.shard,),
            )
            self._peers = {row[:3]: _state(row) for row in found}
            return list(self._peers.values())
        places = self._read(
            "SELECT experiment, epoch, shard, version FROM state WHERE shard <> ?", (self.shard,)
        )
        before, self._peers = self._peers, {}
        changed = []
        for *place, version in places:
            known = before.get(tuple(place))
            if known is not None and known.version == version:
                self._peers[tuple(place)] = known
            else:
                changed.append(place)
        for values, flat in at_once(changed):
            for row in self._read(
                f"SELECT experiment, epoch, shard, version, {STATE} FROM state "
                f"WHERE (experiment, epoch, shard) IN (VALUES {values})",
                flat,
            ):
                self._peers[row[:3]] = _state(row)
        return list(self._peers.values())

    def states(self) -> list[StateRow]:
        """Return the states of all replicas; for the reading thread."""
        found = self._read(f"SELECT experiment, epoch, shard, version, {STATE} FROM state")
        return [_state(row) for row in found]

    def compacted(self) -> dict[tuple[int, int], Sums]:
        """Return what deleted feedback contributed, by experiment and epoch; for reading."""
        found = self._read("SELECT experiment, epoch, sums, told, lost, learned FROM compacted")
        return {
            (experiment, epoch): Sums(from_bytes(sums), from_bytes(told), from_bytes(lost), learned)
            for experiment, epoch, sums, told, lost, learned in found
        }

    def replace_states(self, rebuilt: dict[tuple[int, int], Sums]) -> None:
        """Replace the states of some experiments and epochs, decisions counted as they were."""
        with self.transaction():
            for (experiment, epoch), sums in rebuilt.items():
                rows = [
                    _state(row)
                    for row in self._write(
                        f"SELECT experiment, epoch, shard, version, {STATE} FROM state "
                        "WHERE experiment = ? AND epoch = ?",
                        (experiment, epoch),
                    )
                ]
                self._write(
                    "DELETE FROM state WHERE experiment = ? AND epoch = ?", (experiment, epoch)
                )
                counts = Counts()
                for row in rows:
                    counts = counts.plus(row.decided)
                    sums.newest = max(sums.newest, row.sums.newest)
                self._put_state(StateRow(experiment, epoch, self.shard, 0, sums, counts))

    def changes(self) -> tuple[int, int]:
        """Return how often the configuration was changed, and how many audit rows there are."""
        version = self.config_version()
        rows = self._read("SELECT COUNT(*) FROM audit")
        return version - 1, int(rows[0][0])

    # --- the log ---------------------------------------------------------------------------------

    def log(self, experiment: int, after: bytes, before: bytes, limit: int = 2000) -> list[LogRow]:
        """Return decisions with their feedback, by id, of ids in (after, before); for reading.

        Feedback whose decision the log has lost is there as well, without a sequence number.
        """
        values = (experiment, after, before, experiment, after, before, limit)
        found = self._read(
            "SELECT d.id, d.record, d.shard, d.run, d.seq, d.shadow, f.loss, f.source, f.status, "
            "f.told_at, a.at FROM decision d "
            "LEFT JOIN feedback f ON f.experiment = d.experiment AND f.id = d.id "
            "LEFT JOIN activation a ON a.experiment = d.experiment AND a.id = d.id "
            "WHERE d.experiment = ? AND d.id > ? AND d.id < ? "
            "UNION ALL SELECT f.id, f.record, NULL, NULL, NULL, NULL, f.loss, f.source, f.status, "
            "f.told_at, a.at FROM feedback f "
            "LEFT JOIN decision d ON d.experiment = f.experiment AND d.id = f.id "
            "LEFT JOIN activation a ON a.experiment = f.experiment AND a.id = f.id "
            "WHERE f.experiment = ? AND f.id > ? AND f.id < ? AND d.id IS NULL "
            "ORDER BY 1 LIMIT ?",
            values,
        )
        return [LogRow(bytes(row[0]), bytes(row[1]), *row[2:]) for row in found]

    def lost(self, experiment: int) -> tuple[int, int]:
        """Return how many decisions the log is known to lack, and how many runs ended early.

        A run that ended early may have lost what it decided in its last moments.
        """
        missing = self._read(
            "SELECT COUNT(*) FROM feedback f LEFT JOIN decision d "
            "ON d.experiment = f.experiment AND d.id = f.id "
            "WHERE f.experiment = ? AND d.id IS NULL",
            (experiment,),
        )
        open_runs = self._read(
            "SELECT shard, MAX(run), COUNT(*) FROM run WHERE ended_at IS NULL GROUP BY shard"
        )
        last: dict[int, int] = dict(self._read("SELECT shard, MAX(run) FROM run GROUP BY shard"))
        serving = self._serving()
        ended = sum(
            count - (shard in serving and last[shard] == run) for shard, run, count in open_runs
        )
        return int(missing[0][0]), int(ended)

    def _serving(self) -> set[int]:
        """Return the shards of the replicas that serve now; for the reading thread."""
        return {self.shard}

    def feedback(
        self, experiment: int | None = None, limit: int = 20_000
    ) -> Iterator[list[FeedbackRow]]:
        """Yield all feedback in pieces, by experiment and id; for the reading thread."""
        at: tuple[int, bytes] = (-1 if experiment is None else experiment, b"")
        while True:
            found = self._read(
                f"SELECT {FEEDBACK} "
                "FROM feedback WHERE (experiment, id) > (?, ?) AND (experiment = ? OR ?) "
                "ORDER BY experiment, id LIMIT ?",
                (*at, at[0], experiment is None, limit),
            )
            if not found:
                return
            rows = [_feedback(r) for r in found]
            at = rows[-1].experiment, rows[-1].id
            yield rows

    def quarantined(self, experiment: int, limit: int) -> list[FeedbackRow]:
        """Return feedback in quarantine, oldest first; for the reading thread."""
        return [
            _feedback(r)
            for r in self._read(
                f"SELECT {FEEDBACK} FROM feedback "
                "WHERE experiment = ? AND status = 'quarantined' "
                "ORDER BY id LIMIT ?",
                (experiment, limit),
            )
        ]

    def judge(self, experiment: int, ids: Iterable[bytes], status: str) -> list[FeedbackRow]:
        """Take feedback out of quarantine; return what was there; for a transaction."""
        taken = []
        for id in ids:
            for r in self._write(
                "UPDATE feedback SET status = ? "
                "WHERE experiment = ? AND id = ? AND status = 'quarantined' "
                f"RETURNING {FEEDBACK}",
                (status, experiment, id),
            ):
                taken.append(_feedback(r))
        return taken

    def put_states(self, rows: Iterable[StateRow]) -> None:
        """Write states of this replica; for a transaction, after which their versions are next."""
        for row in rows:
            self._put_state(row)

    # --- missing feedback ------------------------------------------------------------------------

    def untold(
        self, experiment: int, before: bytes, limit: int, activated: bool
    ) -> tuple[list[bytes], bytes | None]:
        """Return records of decisions made before an id that have no feedback; for reading.

        Returns the records, and up to where the log was looked through; None if nothing was.
        ``activated`` asks for those only that need no activation or have one.
        """
        swept = self._read("SELECT swept FROM sweep WHERE experiment = ?", (experiment,))
        after = bytes(swept[0][0]) if swept else b""
        seen = self._read(
            "SELECT id FROM decision WHERE experiment = ? AND id > ? AND id < ? "
            "ORDER BY id LIMIT ?",
            (experiment, after, before, limit),
        )
        if not seen:
            return [], None
        upto = bytes(seen[-1][0])
        found = self._read(
            "SELECT d.record, a.id FROM decision d "
            "LEFT JOIN feedback f ON f.experiment = d.experiment AND f.id = d.id "
            "LEFT JOIN activation a ON a.experiment = d.experiment AND a.id = d.id "
            "WHERE d.experiment = ? AND d.id > ? AND d.id <= ? AND f.id IS NULL ORDER BY d.id",
            (experiment, after, upto),
        )
        return [bytes(raw) for raw, active in found if active is not None or not activated], upto

    def put_swept(self, experiment: int, upto: bytes) -> None:
        """Remember up to where missing feedback was looked for; for the writing thread."""
        with self.transaction():
            self._write(
                "INSERT INTO sweep (experiment, swept) VALUES (?, ?) "
                "ON CONFLICT (experiment) DO UPDATE SET swept = excluded.swept",
                (experiment, upto),
            )

    # --- checkpoints, audit, runs ----------------------------------------------------------------

    def put_checkpoints(self, rows: Sequence[CheckpointRow], keep: int) -> None:
        """Append checkpoints, and thin an experiment's to at most ``keep``; for writing."""
        with self.transaction():
            for row in rows:
                self._write(
                    "INSERT INTO checkpoint (experiment, epoch, at, round, learned, told, lost, "
                    "probabilities) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        row.experiment, row.epoch, row.at, row.round, row.learned, row.told,
                        row.lost, row.probabilities,
                    ),
                )  # fmt: skip
                kept = self._write(
                    "SELECT COUNT(*) FROM checkpoint WHERE experiment = ?", (row.experiment,)
                )
                if kept[0][0] > keep:
                    # Every second one goes: the history stays whole, at half the resolution.
                    ids = self._write(
                        "SELECT id FROM checkpoint WHERE experiment = ? ORDER BY id",
                        (row.experiment,),
                    )
                    self._write_many("DELETE FROM checkpoint WHERE id = ?", ids[1:-1:2])

    def checkpoints(self, experiment: int, after: int, limit: int) -> list[CheckpointRow]:
        """Return checkpoints, oldest first; for the reading thread."""
        return [
            _checkpoint(experiment, row)
            for row in self._read(
                f"SELECT {CHECKPOINT} FROM checkpoint "
                "WHERE experiment = ? AND id > ? ORDER BY id LIMIT ?",
                (experiment, after, limit),
            )
        ]

    def audit(self, tenant: int, after: int, limit: int) -> list[AuditRow]:
        """Return audit rows of a tenant, oldest first; for the reading thread."""
        return [
            AuditRow(at, tenant, key, action, experiment, request, json.loads(change), id)
            for id, at, key, action, experiment, request, change in self._read(
                "SELECT id, at, key_id, action, experiment, request_id, change FROM audit "
                "WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?",
                (tenant, after, limit),
            )
        ]

    # --- what the dashboard shows; all for the reading thread ------------------------------------

    def nth_newest(self, experiment: int, n: int) -> bytes:
        """Return the id of the n-th newest decision, one before all others if there are fewer."""
        found = self._read(
            "SELECT id FROM decision WHERE experiment = ? ORDER BY id DESC LIMIT 1 OFFSET ?",
            (experiment, n),
        )
        return bytes(found[0][0]) if found else b""

    def some_checkpoints(self, experiment: int, epoch: int, most: int) -> list[CheckpointRow]:
        """Return some checkpoints of an epoch, evenly from the first to the last."""
        ids = [
            id
            for (id,) in self._read(
                "SELECT id FROM checkpoint WHERE experiment = ? AND epoch = ? ORDER BY id",
                (experiment, epoch),
            )
        ]
        if len(ids) > most:
            last = len(ids) - 1
            ids = [ids[place] for place in sorted({n * last // (most - 1) for n in range(most)})]
        if not ids:
            return []
        return [
            _checkpoint(experiment, row)
            for row in self._read(
                f"SELECT {CHECKPOINT} FROM checkpoint "
                f"WHERE id IN ({', '.join('?' * len(ids))}) ORDER BY id",
                ids,
            )
        ]

    def count_since(self, experiment: int, after: bytes, most: int) -> int:
        """Return how many decisions came after an id; counting stops at ``most``."""
        found = self._read(
            "SELECT COUNT(*) FROM (SELECT 1 FROM decision WHERE experiment = ? AND id > ? "
            "LIMIT ?) AS newest",
            (experiment, after, most),
        )
        return int(found[0][0])

    def newest_feedback(self, experiment: int, limit: int) -> list[tuple[bytes, float]]:
        """Return ids and times of the feedback that callers gave to the newest decisions."""
        found = self._read(
            "SELECT id, told_at FROM feedback WHERE experiment = ? AND source = 'client' "
            "ORDER BY id DESC LIMIT ?",
            (experiment, limit),
        )
        return [(bytes(id), told_at) for id, told_at in found]

    def replicas(self, experiment: int, epoch: int) -> list[ReplicaRow]:
        """Return the replicas that serve now or have learned something in an epoch."""
        runs = {
            shard: (started, ended)
            for shard, started, ended in self._read(
                "SELECT r.shard, r.started_at, r.ended_at FROM run r WHERE r.run = "
                "(SELECT MAX(run) FROM run WHERE shard = r.shard)"
            )
        }
        sums = {
            shard: (learned, rounds)
            for shard, learned, rounds in self._read(
                "SELECT shard, learned, rounds FROM state WHERE experiment = ? AND epoch = ?",
                (experiment, epoch),
            )
        }
        serving = self._serving()
        return [
            ReplicaRow(
                shard, shard == self.shard, shard in serving, *runs.get(shard, (None, None)),
                *sums.get(shard, (0, 0)),
            )
            for shard in sorted(serving | set(sums))
        ]  # fmt: skip

    def changes_of(self, tenant: int, experiment: str, limit: int) -> list[AuditRow]:
        """Return audit rows of one experiment, newest first."""
        return [
            AuditRow(at, tenant, key, action, experiment, request, json.loads(change), id)
            for id, at, key, action, request, change in self._read(
                "SELECT id, at, key_id, action, request_id, change FROM audit "
                "WHERE tenant = ? AND experiment = ? ORDER BY id DESC LIMIT ?",
                (tenant, experiment, limit),
            )
        ]

    def begin_run(self) -> None:
        """Note that this replica begins to serve; for the writing thread."""
        with self.transaction():
            last = self._write("SELECT MAX(run) FROM run WHERE shard = ?", (self.shard,))
            self.run = int(last[0][0] or 0) + 1
            self._write(
                "INSERT INTO run (shard, run, started_at) VALUES (?, ?, ?)",
                (self.shard, self.run, time.time()),
            )

    def end_run(self) -> None:
        """Note that this replica stops with its log written; for the writing thread."""
        with self.transaction():
            self._write(
                "UPDATE run SET ended_at = ? WHERE shard = ? AND run = ?",
                (time.time(), self.shard, self.run),
            )

    # --- retention -------------------------------------------------------------------------------

    def forget_claims(self, now: float, limit: int = 1000) -> int:
        """Delete claims that have expired; for the writing thread."""
        with self.transaction():
            found = self._write(
                "SELECT experiment, kind, hash FROM claim WHERE expires_at <= ? LIMIT ?",
                (now, limit),
            )
            if found:
                self._write_many(
                    "DELETE FROM claim WHERE experiment = ? AND kind = ? AND hash = ? "
                    "AND expires_at <= ?",
                    [(*row, now) for row in found],
                )
        return len(found)

    def forget_decisions(self, experiment: int, before: bytes, limit: int = 5000) -> int:
        """Delete the oldest records of the log, and activations; for the writing thread."""
        with self.transaction():
            found = self._write(
                "SELECT experiment, id FROM decision WHERE experiment = ? AND id < ? "
                "ORDER BY id LIMIT ?",
                (experiment, before, limit),
            )
            if found:
                self._write_many("DELETE FROM decision WHERE experiment = ? AND id = ?", found)
                self._write_many("DELETE FROM activation WHERE experiment = ? AND id = ?", found)
        return len(found)

    def forget_feedback(
        self,
        experiment: int,
        before: bytes,
        add: Callable[[dict[int, Sums], list[FeedbackRow]], dict[int, Sums]],
        limit: int = 5000,
    ) -> int:
        """Delete the oldest feedback, and keep what it contributed; for the writing thread.

        ``add`` takes the sums of deleted feedback by epoch and the rows that are deleted now, and
        returns the sums with them. Feedback in quarantine stays.
        """
        with self.transaction():
            found = [
                _feedback(r)
                for r in self._write(
                    f"SELECT {FEEDBACK} FROM feedback "
                    "WHERE experiment = ? AND id < ? AND status <> 'quarantined' "
                    "ORDER BY id LIMIT ?" + self._for_update,
                    (experiment, before, limit),
                )
            ]
            if not found:
                return 0
            kept = {
                epoch: Sums(from_bytes(sums), from_bytes(told), from_bytes(lost), learned)
                for epoch, sums, told, lost, learned in self._write(
                    "SELECT epoch, sums, told, lost, learned FROM compacted WHERE experiment = ?"
                    + self._for_update,
                    (experiment,),
                )
            }
            for epoch, sums in add(kept, found).items():
                self._write(
                    "INSERT INTO compacted (experiment, epoch, sums, told, lost, learned) "
                    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (experiment, epoch) DO UPDATE SET "
                    "sums = excluded.sums, told = excluded.told, lost = excluded.lost, "
                    "learned = excluded.learned",
                    (
                        experiment, epoch, as_bytes(sums.sums), as_bytes(sums.told),
                        as_bytes(sums.lost), sums.learned,
                    ),
                )  # fmt: skip
            self._write_many(
                "DELETE FROM feedback WHERE experiment = ? AND id = ?",
                [(experiment, row.id) for row in found],
            )
        return len(found)


def at_once(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the places and the values of rows that one statement takes.

    Few statements, because between two of them a thread waits for the interpreter, which the event
    loop holds, or for the network; of few lengths, because each is prepared once.

    Examples
    --------
    >>> list(at_once([(1, "a"), (2, "b"), (3, "c")]))
    [('(?, ?), (?, ?), (?, ?)', [1, 'a', 2, 'b', 3, 'c'])]
    >>> [len(values) for _, values in at_once([(1,)] * 330)]
    [256, 64, 10]
    """
    at = 0
    while at < len(rows):
        left = len(rows) - at
        size = next((each for each in SIZES if each <= left), left)
        one = f"({', '.join('?' * len(rows[at]))})"
        yield ", ".join([one] * size), [value for row in rows[at : at + size] for value in row]
        at += size


def _checkpoint(experiment: int, row: tuple[Any, ...]) -> CheckpointRow:
    epoch, at, round, learned, told, lost, shares, id = row
    return CheckpointRow(
        experiment, epoch, at, round, learned, bytes(told), bytes(lost), bytes(shares), id
    )


def _feedback(row: tuple[Any, ...]) -> FeedbackRow:
    return FeedbackRow(row[0], bytes(row[1]), row[2], bytes(row[3]), *row[4:])


def _packed(counts: list[int]) -> bytes:
    return b"".join(count.to_bytes(8, "little", signed=True) for count in counts)


def _state(row: tuple[Any, ...]) -> StateRow:
    experiment, epoch, shard, version, sums, told, lost, decided, learned, rounds, newest = row
    return StateRow(
        experiment,
        epoch,
        shard,
        version,
        Sums(from_bytes(sums), from_bytes(told), from_bytes(lost), learned, newest),
        Counts(from_bytes(decided).tolist(), rounds),
    )
