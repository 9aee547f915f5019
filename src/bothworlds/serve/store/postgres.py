"""PostgreSQL store: any number of replicas, each with rows of the state of its own.

A replica that serves has a number, its shard.  It holds an advisory lock on it as long as its
writing connection lives, and a lease in the table ``replica``: a number is free for another one
once both are gone, so that a restart of the database takes no number away.  A replica that
comes back later than that takes another number, if its own has a new holder.

Connections are opened when they are needed and opened again after a failure.  One writes; three
read, so that neither a report nor a long export delays polling; one listens for changes of the
configuration, and cuts connections on which a statement takes too long.

Advisory locks belong to a session: a pooler in between must give every client a session.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from operator import methodcaller
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int4, Int8BinaryDumper

from bothworlds.errors import StoreError
from bothworlds.serve.domain.records import made_at
from bothworlds.serve.domain.sums import Place, StateRow
from bothworlds.serve.domain.tokens import first_identity
from bothworlds.serve.store import schema
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import (
    CLOCK_LIMIT,
    DECISION,
    FEEDBACK,
    AuditRow,
    DecisionRow,
    FeedbackRow,
    Replica,
    Rows,
    WriteBatch,
)
from bothworlds.serve.store.writer import BatchOutcome, Settle, Writer

CHANNEL = "bothworlds"
"""Where changes of the configuration are announced, and states, by the number of their replica."""
GROWTH = 1.25
"""Growth of a replica's learned state in an experiment after which it announces it.

Stale states cost most while little is known. This is soon after each other while an experiment is
young, and more rarely than any poll later: 44 announcements for the first 30,000 answers."""
LOCKS = 0x626F7468
"""First number of all advisory locks; the second is a shard, or one of those below."""
SCHEMA, SERVING, TAKING, LEADING = -1, -2, -3, -4
LEASE = 60.0
"""Seconds without a heartbeat after which the number of a replica is free."""
BEAT = 5.0
"""Interval of a replica's heartbeat, in seconds."""
CONNECT_SECONDS = 4
WRITE_SECONDS, READ_SECONDS = 10.0, 60.0
"""How long a statement may take before its connection is cut."""
LOOK = 1.0
"""How often connections are examined, in seconds."""

WRITING = {
    # A wait for a replica that stopped in a transaction times out, and the transaction ends.
    "lock_timeout": "5s",
    "statement_timeout": "9s",
    "idle_in_transaction_session_timeout": "10s",
}
FEEDBACK_TYPES = (
    "int8", "bytea", "int8", "bytea", "float8", "text", "text", "float8", "text", "int8", "int8",
)  # fmt: skip
INSERT_FEEDBACK = (
    f"INSERT INTO feedback ({FEEDBACK}) SELECT * FROM "
    f"unnest({', '.join(f'?::{each}[]' for each in FEEDBACK_TYPES)}) "
    "ON CONFLICT DO NOTHING RETURNING experiment, id"
)
NOW = "EXTRACT(EPOCH FROM clock_timestamp())::float8"
STARTS_OVER = "The store was restored to an earlier state; this replica reads it again."
MAY_READ_TIMELINE = (
    "SELECT bool_and(has_function_privilege(name, 'execute')) FROM unnest(ARRAY["
    "'pg_control_system()', 'pg_current_wal_lsn()', 'pg_walfile_name(pg_lsn)']) AS name"
)
# Not `pg_control_checkpoint`, which knows a new timeline only after its first checkpoint.
TIMELINE = (
    "SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) "
    "FROM pg_control_system()"
)
# A dump that is restored makes another database, or other tables, in the same history.
TABLES = (
    "SELECT oid || '/' || 'incarnation'::regclass::oid FROM pg_database "
    "WHERE datname = current_database()"
)
KNOWN_TIMELINE = "SELECT timeline, salt FROM incarnation WHERE ended IS NULL"
STARTED = "EXTRACT(EPOCH FROM pg_postmaster_start_time())::float8"


class _Line:
    """A connection that is opened when it is needed, and again after a failure.

    One thread uses it; another may `cut` it.

    Parameters
    ----------
    url : str
        Of the database.
    name : str
        What the database shows of it.
    seconds : float
        How long a statement may take.
    greet : callable, optional
        Called with every new connection; what it raises closes it.
    """

    def __init__(
        self,
        url: str,
        name: str,
        seconds: float,
        greet: Callable[[psycopg.Connection[Any]], None] | None = None,
    ) -> None:
        self.name = name
        self._url = url
        self._seconds = seconds
        self._greet = greet
        self._connection: psycopg.Connection[Any] | None = None
        self._within: psycopg.Connection[Any] | None = None
        self._since: float | None = None
        self._guard = threading.Lock()
        self._ended = False

    def connected(self) -> psycopg.Connection[Any]:
        """Return the connection, a new one if there is none; in a transaction, its own alone."""
        if self._within is not None:
            return self._within
        found = self._connection
        if found is not None and not found.closed:
            return found
        self.close()
        if self._ended:
            raise psycopg.OperationalError("the service is stopping")
        given: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS, "application_name": self.name,
            **conninfo_to_dict(self._url),
        }  # fmt: skip
        found = psycopg.connect(make_conninfo(**given), autocommit=True)
        try:
            # One type regardless of the size, so that a statement is prepared once.
            found.adapters.register_dumper(int, Int8BinaryDumper)
            self._connection = found
            if self._greet is not None:
                self._greet(found)
        except BaseException:
            self.close()
            raise
        return found

    def run(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Run a statement."""
        with self.busy() as connection:
            return connection.execute(_placed(sql), values, binary=True)

    @contextlib.contextmanager
    def busy(self) -> Iterator[psycopg.Connection[Any]]:
        """Use the connection, in the time a statement has."""
        self._since = time.monotonic()
        try:
            yield self.connected()
        finally:
            self._since = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        found = self._connection
        return found is not None and not found.closed

    @property
    def inside(self) -> bool:
        """Whether a transaction is open."""
        found = self._connection
        return (
            found is not None
            and not found.closed
            and found.info.transaction_status != TransactionStatus.IDLE
        )

    @contextlib.contextmanager
    def transaction(self, begin: str) -> Iterator[None]:
        """Commit the block, or none of it."""
        self.run(begin)
        self._within = self._connection
        try:
            yield
            # A transaction that has failed answers COMMIT with ROLLBACK.
            if self.run("COMMIT").statusmessage != "COMMIT":
                raise StoreError("The database has not committed.")
        except BaseException:
            try:
                if self.inside:
                    self.run("ROLLBACK")
            except psycopg.Error:
                self.close()
            raise
        finally:
            self._within = None

    def cut(self, *, now: float | None = None) -> None:
        """Break the connection; with ``now`` only if a statement takes too long."""
        with self._guard:
            found, since = self._connection, self._since
            if found is None or found.closed:
                return
            if now is not None and (since is None or now - since < self._seconds):
                return
            with (
                contextlib.suppress(OSError, psycopg.Error),
                socket.socket(fileno=os.dup(found.fileno())) as peer,
            ):
                peer.shutdown(socket.SHUT_RDWR)

    def abort(self) -> None:
        """Break the connection, and open no other one."""
        self._ended = True
        self.cut()

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            found, self._connection = self._connection, None
            if found is not None:
                found.close()


def _timeline(rows: Callable[[str], Rows], address: str) -> str:
    """Return which history of which tables this is.

    System, timeline, database and table, of which the first two are empty where the role must not
    read them.
    """
    if rows("SELECT pg_is_in_recovery()")[0][0]:
        # A connection to a standby would survive its promotion, and see nothing of it.
        raise StoreError(f"The store {address!r} is a standby, which takes no writes.")
    history = rows(TIMELINE)[0][0] if rows(MAY_READ_TIMELINE)[0][0] else "/"
    return f"{history}/{rows(TABLES)[0][0]}"


def _joined(known: str | None, now: str) -> str | None:
    """Return two descriptions of a history as one; None if they contradict each other.

    Examples
    --------
    >>> _joined("7/1", "7/1/16/20"), _joined("7/1/16/20", "//16/20"), _joined("7/1/16", "7/1/17")
    ('7/1/16/20', '7/1/16/20', None)
    """
    pairs = zip_longest((known or "").split("/"), now.split("/"), fillvalue="")
    found = [(a, b) for a, b in pairs]
    if any(a and b and a != b for a, b in found):
        return None
    return "/".join(a or b for a, b in found)


class PostgresWriter(Writer):
    """The connection that writes, with the locks of this replica.

    Parameters
    ----------
    url : str
        Of the database.
    address : str
        The same without secrets, for messages.
    alone : bool
        Whether no replica may serve meanwhile.
    """

    dialect = "postgres"
    for_update = " FOR UPDATE"
    for_share = " FOR SHARE"
    lock_tables = f"SELECT pg_advisory_xact_lock({LOCKS}, {SCHEMA})"
    announce = f"NOTIFY {CHANNEL}"

    def __init__(self, url: str, address: str, replica: Replica, alone: bool) -> None:
        self.line = _Line(url, "bothworlds", WRITE_SECONDS, self._greet)
        super().__init__(self.line.run, replica)
        self._address = address
        self._alone = alone
        self.backend: int | None = None
        self._leading: int | None = None
        self._unsure = False
        self._announced: dict[Place, int] = {}
        # Versions of the states written on this connection, in which incarnation and when.
        self._committed: dict[Place, int] = {}
        self._committed_in: bytes | None = None
        self._committed_at = 0.0

    # --- statements ------------------------------------------------------------------------------

    @property
    def inside(self) -> bool:
        """Whether a transaction is open."""
        return self.line.inside

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once per row."""
        with self.line.busy() as connection, connection.cursor() as cursor:
            cursor.executemany(_placed(sql), rows)

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Commit the writes of the block, synced to the disk of the database, or none of them."""
        return self.line.transaction("BEGIN ISOLATION LEVEL READ COMMITTED")

    def has_schema(self) -> bool:
        """Tell whether there is a table ``schema_version``."""
        return self.rows("SELECT to_regclass('schema_version') IS NOT NULL") == [(True,)]

    def run_script(self, script: str) -> None:
        """Run the statements of a file, inside the transaction that is open."""
        self.execute("SET LOCAL statement_timeout = 0")
        # Without values a text of several statements is sent as it is.
        with self.line.busy() as connection:
            connection.execute(script.encode())

    def commit(self, batch: WriteBatch, settle: Settle) -> BatchOutcome:
        """Write a batch as one transaction."""
        try:
            outcome = super().commit(batch, settle)
        except BaseException:
            self._unsure = True
            raise
        self._unsure = False
        if self._committed_in != self.replica.incarnation:
            self._committed.clear()
        self._committed_in = self.replica.incarnation
        for row in outcome.states:
            if not row.segment:
                self._committed[row.experiment, row.epoch] = row.version
        self._committed_at = time.time()
        return outcome

    def put_states(self, rows: Sequence[StateRow]) -> None:
        """Write states of this replica; announce those that have grown by much."""
        super().put_states(rows)
        grown = {
            (row.experiment, row.epoch): row.sums.learned
            for row in rows
            if not row.segment
            and row.sums.learned > GROWTH * self._announced.get((row.experiment, row.epoch), 0)
        }
        if grown:
            # If the commit fails, other replicas read the state with their next poll.
            self._announced |= grown
            self.execute("SELECT pg_notify(?, ?)", (CHANNEL, str(self.replica.shard)))

    def _insert_new(self, rows: list[FeedbackRow]) -> Rows:
        # An array for each column: a row costs a quarter of what it does with values of its own,
        # and there is one statement, regardless of the number of rows.
        return self.rows(INSERT_FEEDBACK, [list(column) for column in zip(*rows, strict=True)])

    def _insert_decisions(self, rows: Sequence[DecisionRow]) -> None:
        # COPY costs a seventh of an insert, but fails on what is there already; that can only be
        # after a commit whose end is not known.
        if self._unsure:
            super()._insert_decisions(rows)
            return
        with (
            self.line.busy() as connection,
            connection.cursor() as cursor,
            cursor.copy(f"COPY decision ({DECISION}) FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["int8", "bytea", "bytea", "int8", "int8", "int8", "text"])
            for row in rows:
                copy.write_row(row)

    # --- which replica this is -------------------------------------------------------------------

    def _greet(self, connection: psycopg.Connection[Any]) -> None:
        """Prepare a new writing connection, and take this replica's number again."""
        for name, value in WRITING.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        # What is acknowledged must be on a disk, regardless of the database's default.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
        if self.replica.shard < 0:
            return
        # Before anything is written: what is in the log then is of the time before the failover.
        self.follow_timeline()
        self._follow_states()
        if self.replica.incarnation not in (None, self.rows(KNOWN_TIMELINE)[0][1]):
            raise StoreError(STARTS_OVER)
        held = connection.execute(
            "SELECT pg_try_advisory_lock_shared(%(locks)s, %(serving)s), "
            "pg_try_advisory_lock(%(locks)s, %(shard)s)",
            {"locks": Int4(LOCKS), "serving": Int4(SERVING), "shard": Int4(self.replica.shard)},
        ).fetchone()
        assert held is not None
        serving, own = held
        if not serving:
            raise StoreError(f"The store {self._address!r} is being changed by a command.")
        self.backend, former = connection.info.backend_pid, self.backend
        if own:
            return
        if self._end_former(connection, former):
            self.backend = former
            raise StoreError(
                f"The number {self.replica.shard} is still in use by an earlier session."
            )
        # Another replica took it, because this one was away for longer than its lease.
        self.take_shard()
        self.begin_run()

    def follow_timeline(self) -> None:
        """Start a new incarnation if the database has another history than before.

        A standby that was promoted may have lost transactions that were acknowledged.
        """
        now = _timeline(self.rows, self._address)
        known = self.rows(KNOWN_TIMELINE)[0][0]
        joined = _joined(known, now)
        if joined is not None:
            # What is seen for the first time is no change.
            if joined != known:
                self.execute("UPDATE incarnation SET timeline = ? WHERE ended IS NULL", (joined,))
            return

        def change(writer: Writer) -> None:
            if _joined(writer.rows(KNOWN_TIMELINE)[0][0], now) is not None:
                raise LookupError(now)
            writer.begin_incarnation(writer.now(), now)

        audit = AuditRow(time.time(), 1, None, "timeline", None, "database", {"timeline": now})
        # Another replica may be first.
        with contextlib.suppress(LookupError):
            self.administer(audit, change)

    def _follow_states(self) -> None:
        """Start a new incarnation if the database has lost states that this replica committed.

        A copy of its files that is put back without recovery has the timeline it had before.
        """
        found = self.rows(
            "SELECT experiment, epoch, version FROM state WHERE shard = ? AND segment = ?",
            (self.replica.shard, b""),
        )
        now = {(experiment, epoch): version for experiment, epoch, version in found}
        lost = any(version > now.get(place, 0) for place, version in self._committed.items())
        self._committed.clear()
        if lost and self._committed_in is not None:
            until = first_identity(self._committed_at)
            # In a later incarnation the loss is known already, and its ids are good.
            self.leave_incarnation(self._committed_in, "has lost states", until)

    def now(self) -> float:
        """Return the time by the clock of the database."""
        return float(self.rows(f"SELECT {NOW}")[0][0])

    def last_certain_id(self, until: bytes) -> bytes:
        """Return the last id that is certainly older than everything the store may have lost."""
        beat = self.rows(
            "SELECT COALESCE(MAX(alive_at), 0.0) FROM replica WHERE shard <> ? AND alive_at <= ?",
            (self.replica.shard, made_at(until)),
        )
        newest = max(self.newest_id(until), first_identity(beat[0][0]))
        return first_identity(made_at(newest) - CLOCK_LIMIT)

    def _end_former(self, connection: psycopg.Connection[Any], former: int | None) -> bool:
        """End the session of this replica that was lost, if the database still keeps it."""
        found = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND classid = %s AND objid = %s AND objsubid = 2 AND granted AND pid = %s",
            (LOCKS, self.replica.shard, former),
        )
        return bool(found.fetchall())

    def _locked(self, how: str, lock: int) -> bool:
        """Take an advisory lock on the writing connection; return whether that worked."""
        found = self.rows(f"SELECT {how}(?::int4, ?::int4)", (LOCKS, lock))
        return found[0][0] is not False

    def take_shard(self) -> None:
        """Take the number of a replica that is gone, or a new one."""
        with self.transaction():
            self._locked("pg_advisory_xact_lock", TAKING)
            if not self._alone and not self._locked("pg_try_advisory_lock_shared", SERVING):
                raise StoreError(f"The store {self._address!r} is being changed by a command.")
            free = self.rows(
                f"SELECT shard FROM replica WHERE alive_at = 0 "
                f"OR GREATEST(alive_at, {STARTED}) < {NOW} - ? ORDER BY shard",
                (LEASE,),
            )
            numbers = [int(shard) for (shard,) in free]
            last = self.rows("SELECT COALESCE(MAX(shard), -1) FROM replica")[0][0]
            numbers += range(last + 1, last + 1000)
            shard = next(each for each in numbers if self._locked("pg_try_advisory_lock", each))
            self.execute(
                f"INSERT INTO replica VALUES (?, {NOW}) "
                f"ON CONFLICT (shard) DO UPDATE SET alive_at = {NOW}",
                (shard,),
            )
        self.replica.shard = shard
        self._committed.clear()
        self.backend = self.line.connected().info.backend_pid

    def keep_others_out(self, how: str = "pg_try_advisory_lock") -> None:
        """Refuse if a replica serves, and let none start while this connection lives."""
        if not self._locked(how, SERVING):
            raise StoreError(
                f"The store {self._address!r} is being served; stop all replicas first."
            )

    def check_not_served(self) -> None:
        """Refuse if a replica serves, in the transaction of a migration."""
        self.keep_others_out("pg_try_advisory_xact_lock")

    def leads(self) -> bool:
        """Return whether this replica does the work that only one replica does.

        It leads as long as its writing connection lives.
        """
        session = self.line.connected().info.backend_pid
        if self._leading != session and self._locked("pg_try_advisory_lock", LEADING):
            self._leading = session
        return self._leading == session

    def let_go(self) -> None:
        """Give the number of this replica and all locks back.

        A server notices a closed connection a little later; the next command or replica may
        already ask for its locks by then.
        """
        if self.replica.shard >= 0:
            self.execute("UPDATE replica SET alive_at = 0 WHERE shard = ?", (self.replica.shard,))
        self.execute("SELECT pg_advisory_unlock_all()")


class PostgresReader(Reader):
    """A connection that reads.

    Parameters
    ----------
    url : str
        Of the database.
    address : str
        The same without secrets, for messages.
    polls : bool
        Whether it polls for a replica that serves.
    """

    margin = CLOCK_LIMIT
    clock = NOW
    versions = "SELECT json_agg(json_build_array(id, version))::text FROM experiment"

    def __init__(self, url: str, address: str, replica: Replica, *, polls: bool = False) -> None:
        self.line = _Line(url, "bothworlds reading", READ_SECONDS, self._greet if polls else None)
        super().__init__(self.line.run, replica)
        self._address = address
        self._beaten = time.monotonic()

    def _greet(self, connection: psycopg.Connection[Any]) -> None:
        """Wait, after a failover, until a writer has begun a new incarnation."""
        now = _timeline(self.rows, self._address)
        if _joined(self.rows(KNOWN_TIMELINE)[0][0], now) is None:
            raise StoreError(STARTS_OVER)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the database in the block; inside another one, the same state."""
        if self.line.inside:
            yield
            return
        with self.line.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    def pulse(self) -> bool:
        """Report that this replica lives; others may have written at any time."""
        now, shard = time.monotonic(), self.replica.shard
        if shard >= 0 and now - self._beaten > BEAT:
            self.execute(f"UPDATE replica SET alive_at = {NOW} WHERE shard = ?", (shard,))
            self._beaten = now
        return True

    def look(self) -> None:
        """Cut the connection if it does not answer; called by another thread."""
        self.line.cut(now=time.monotonic())

    def serving(self) -> set[int]:
        """Return the shards of the replicas that serve now."""
        found = self.rows(
            "SELECT objid::int8 FROM pg_locks WHERE locktype = 'advisory' "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND classid = ?::oid AND objsubid = 2 AND granted AND objid < 2147483648::oid",
            (LOCKS,),
        )
        return {int(shard) for (shard,) in found}


class PostgresStore(Store):
    """A store in a PostgreSQL database.

    Parameters
    ----------
    url : str
        ``postgresql://...`` of a database that exists.
    serve : bool
        Whether to serve from it, as one of several replicas; otherwise to administer or read.
    create : bool
        Whether to make the tables where there are none.
    alone : bool
        Whether no replica may serve from it meanwhile.

    Raises
    ------
    StoreError
        If the database cannot be used: in one sentence why.
    """

    has_peers = True
    close_seconds = 2.0
    failures = (psycopg.Error, OSError)
    writer: PostgresWriter
    reader: PostgresReader
    reporter: PostgresReader
    watcher: PostgresReader

    def __init__(
        self, url: str, *, serve: bool = True, create: bool = True, alone: bool = False
    ) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error:
            # The driver's own message would repeat the address, with the password.
            raise StoreError("The address of the store must be postgresql://...") from None
        port = f":{given['port']}" if given.get("port") else ""
        address = f"postgresql://{given.get('host') or ''}{port}/{given.get('dbname') or ''}"
        self.where = url
        self._listener: threading.Thread | None = None
        self._closing = threading.Event()
        self._aborted = False
        self.replica = Replica(-1)
        self.writer = PostgresWriter(url, address, self.replica, alone)
        self.reader = PostgresReader(url, address, self.replica)
        self.reporter = PostgresReader(url, address, self.replica)
        self.watcher = PostgresReader(url, address, self.replica, polls=serve)
        try:
            # Also checked for a store that must not be created: the first query connects.
            if schema.version(self.writer) == 0 and create:
                schema.migrate(self.writer)
            if alone:
                self.writer.keep_others_out()
            if serve:
                schema.check_version(self.writer)
                self.writer.follow_timeline()
                self.writer.take_shard()
        except (psycopg.Error, OSError) as error:
            self.close()
            raise StoreError(
                f"The store {address!r} cannot be opened: {_sentence(error)}."
            ) from error
        except BaseException:
            self.close()
            raise

    @staticmethod
    def reading(url: str) -> PostgresReader:
        """Return a connection that only reads a database that other processes serve."""
        reader = PostgresReader(url, "", Replica(-1))
        read_only = methodcaller("execute", "SET default_transaction_read_only = on")
        reader.line = _Line(url, "bothworlds away", READ_SECONDS, read_only)
        reader.execute = reader.line.run
        return reader

    @property
    def _lines(self) -> tuple[_Line, ...]:
        return self.writer.line, self.reader.line, self.reporter.line, self.watcher.line

    def listen(self, heard: Callable[[], None]) -> None:
        """Call ``heard``, in a thread, when there may be another configuration, or more learned."""
        line = _Line(self.where, "bothworlds listening", LOOK * 10)

        def listening() -> None:
            while not self._closing.is_set():
                try:
                    line.run(f"LISTEN {CHANNEL}")
                    heard()
                    while not self._closing.is_set():
                        for told in line.connected().notifies(timeout=LOOK, stop_after=1):
                            if told.payload != str(self.replica.shard):
                                heard()
                        self._cut_the_stuck()
                except (psycopg.Error, OSError):
                    line.close()
                    self._cut_the_stuck()
                    self._closing.wait(LOOK / 2)
            line.close()

        self._listening = line
        self._listener = threading.Thread(target=listening, name="bothworlds-listen", daemon=True)
        self._listener.start()

    def _cut_the_stuck(self) -> None:
        now = time.monotonic()
        for line in self._lines:
            line.cut(now=now)

    def abort(self) -> None:
        """Break all connections: the database does not answer."""
        self._aborted = True
        self._closing.set()
        for line in self._lines:
            line.abort()
        if self._listener is not None:
            self._listening.abort()

    def close(self) -> None:
        """Close all connections, and give the number of this replica back."""
        if self._aborted:
            # Threads may still use them; without a number given back, it is free after a lease.
            return
        self._closing.set()
        if self._listener is not None:
            self._listening.cut()
            self._listener.join()
        if self.replica.shard >= 0 or self.writer.line.is_open:
            with contextlib.suppress(psycopg.Error, OSError, StoreError):
                self.writer.let_go()
        for line in self._lines:
            line.close()


@functools.lru_cache(maxsize=256)
def _placed(sql: str) -> bytes:
    """Return a statement with the placeholders of psycopg, for binary values."""
    return sql.replace("?", "%b").encode()


def _sentence(error: Exception) -> str:
    """Return a driver's message in one line, without the question it may end with."""
    lines = [line.strip().rstrip(".") for line in str(error).splitlines()]
    found = "; ".join(line for line in lines if line and not line.endswith("?"))
    return found or type(error).__name__
