"""PostgreSQL store: any number of replicas, each with rows of the state of its own.

A replica that serves has a number, its shard.  It holds an advisory lock on it as long as its
writing connection lives, and a lease in the table ``replica``: a number is free for another one
once both are gone, so that a restart of the database takes nobody's number away.  A replica that
comes back later than that takes another number, if its own has a new holder.

Connections are opened when they are needed and opened anew after a failure.  One writes; every
thread that reads has one of its own, so that an export keeps nobody from hearing of a change; one
listens for changes of the configuration, and cuts connections on which nothing moves any more.

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
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from bothworlds.errors import StoreError
from bothworlds.serve.store.base import DECISION, FEEDBACK, Rows, Settle, Store
from bothworlds.serve.store.rows import Batch, DecisionRow, FeedbackRow, Outcome

CHANNEL = "bothworlds"
"""Where changes of the configuration are announced."""
LOCKS = 0x626F7468
"""First number of all advisory locks; the second is a shard, or one of those below."""
SCHEMA, SERVING, TAKING, LEADING = -1, -2, -3, -4
LEASE = 60.0
"""Seconds after which the number of a replica that says nothing is free."""
BEAT = 5.0
"""How often a replica says that it lives, in seconds."""
CONNECT_SECONDS = 5
WRITE_SECONDS, READ_SECONDS = 10.0, 60.0
"""How long a statement may take before its connection is cut."""
LOOK = 1.0
"""How often connections are looked at, in seconds."""

WRITING = {
    # Whoever waits for a replica that has stopped in the middle gives up, and the middle ends.
    "lock_timeout": "5s",
    "statement_timeout": "9s",
    "idle_in_transaction_session_timeout": "10s",
}
FEEDBACK_TYPES = ("int8", "bytea", "int8", "bytea", "float8", "text", "text", "float8", "text")
INSERT_FEEDBACK = (
    f"INSERT INTO feedback ({FEEDBACK}) SELECT * FROM "
    f"unnest({', '.join(f'?::{each}[]' for each in FEEDBACK_TYPES)}) "
    "ON CONFLICT DO NOTHING RETURNING experiment, id"
)
NOW = "EXTRACT(EPOCH FROM clock_timestamp())::float8"
STARTED = "EXTRACT(EPOCH FROM pg_postmaster_start_time())::float8"


class _Line:
    """A connection that is opened when it is needed, and anew after a failure.

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

    def connected(self) -> psycopg.Connection[Any]:
        """Return the connection, a new one if there is none; in a transaction, its own alone."""
        if self._within is not None:
            return self._within
        found = self._connection
        if found is not None and not found.closed:
            return found
        self.close()
        given: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS, "application_name": self.name,
            **conninfo_to_dict(self._url),
        }  # fmt: skip
        found = psycopg.connect(make_conninfo(**given), autocommit=True)
        try:
            # One type whatever the size, so that a statement is prepared once.
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
        """Commit what is done in the block, or none of it."""
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

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            found, self._connection = self._connection, None
            if found is not None:
                found.close()


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
        Whether nobody may serve from it meanwhile.

    Raises
    ------
    StoreError
        If the database cannot be used: in one sentence why.
    """

    dialect = "postgres"
    has_peers = True
    failures = (psycopg.Error, OSError)
    _for_update = " FOR UPDATE"
    _lock_tables = f"SELECT pg_advisory_xact_lock({LOCKS}, {SCHEMA})"
    _announce = f"NOTIFY {CHANNEL}"

    def __init__(
        self, url: str, *, serve: bool = True, create: bool = True, alone: bool = False
    ) -> None:
        super().__init__()
        try:
            self._given = conninfo_to_dict(url)
        except psycopg.Error:
            # What the driver says of it repeats it, with the password.
            raise StoreError("The address of the store must be postgresql://...") from None
        self.shard = -1
        self.run = 0
        self._url = url
        self._alone = alone
        self._backend: int | None = None
        self._leading: int | None = None
        self._beaten = time.monotonic()
        self._unsure = False
        self._readers: dict[int, _Line] = {}
        self._listener: threading.Thread | None = None
        self._closing = threading.Event()
        self._writer = _Line(url, "bothworlds", WRITE_SECONDS, self._greet)
        try:
            # Asked also of a store that is not to be made: the first question connects.
            if self.version() == 0 and create:
                self.migrate()
            if alone:
                self._keep_others_out()
            if serve:
                self.check_version()
                self._take_shard()
        except (psycopg.Error, OSError) as error:
            self.close()
            raise StoreError(
                f"The store {self.shown!r} cannot be opened: {_sentence(error)}."
            ) from error
        except BaseException:
            self.close()
            raise

    @property
    def shown(self) -> str:
        """The address, without what is secret."""
        given = self._given
        port = f":{given['port']}" if given.get("port") else ""
        return f"postgresql://{given.get('host') or ''}{port}/{given.get('dbname') or ''}"

    # --- statements ------------------------------------------------------------------------------

    def _write(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        cursor = self._writer.run(sql, values)
        return cursor.fetchall() if cursor.description else []

    def _write_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        with self._writer.busy() as connection, connection.cursor() as cursor:
            cursor.executemany(_placed(sql), rows)
            return cursor.rowcount

    @property
    def _reader(self) -> _Line:
        """The connection of this thread."""
        thread = threading.get_ident()
        found = self._readers.get(thread)
        if found is None:
            found = self._readers[thread] = _Line(self._url, "bothworlds reading", READ_SECONDS)
        return found

    def _read(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        return self._reader.run(sql, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block writes, synced to the disk of the database, or none of it."""
        with self._writer.transaction("BEGIN ISOLATION LEVEL READ COMMITTED"):
            yield

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the database in the block; inside another one, the same state."""
        reader = self._reader
        if reader.inside:
            yield
            return
        with reader.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    def _has_schema(self) -> bool:
        return self._write("SELECT to_regclass('schema_version') IS NOT NULL") == [(True,)]

    def _run_script(self, script: str) -> None:
        self._write("SET LOCAL statement_timeout = 0")
        # Without values a text of several statements is sent as it is.
        with self._writer.busy() as connection:
            connection.execute(script.encode())

    def commit(self, batch: Batch, settle: Settle) -> Outcome:
        """Write a batch as one transaction; for the writing thread."""
        try:
            outcome = super().commit(batch, settle)
        except BaseException:
            self._unsure = True
            raise
        self._unsure = False
        return outcome

    def _insert_new(self, rows: list[FeedbackRow]) -> Rows:
        # An array for each column: a row costs a quarter of what it does with values of its own,
        # and there is one statement, whatever the number of rows.
        return self._write(INSERT_FEEDBACK, [list(column) for column in zip(*rows, strict=True)])

    def _insert_decisions(self, rows: Sequence[DecisionRow]) -> None:
        # COPY costs a seventh of an insert, but fails on what is there already; that can only be
        # after a commit whose end nobody knows.
        if self._unsure:
            super()._insert_decisions(rows)
            return
        with (
            self._writer.busy() as connection,
            connection.cursor() as cursor,
            cursor.copy(f"COPY decision ({DECISION}) FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["int8", "bytea", "bytea", "int8", "int8", "int8", "text"])
            for row in rows:
                copy.write_row(row)

    # --- who serves ------------------------------------------------------------------------------

    def _greet(self, connection: psycopg.Connection[Any]) -> None:
        """Prepare a new writing connection, and take this replica's number again."""
        for name, value in WRITING.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        # What is acknowledged must be on a disk, whatever the database does by default.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
        if self.shard < 0:
            return
        held = connection.execute(
            "SELECT pg_try_advisory_lock_shared(%(locks)s, %(serving)s), "
            "pg_try_advisory_lock(%(locks)s, %(shard)s)",
            {"locks": _int4(LOCKS), "serving": _int4(SERVING), "shard": _int4(self.shard)},
        ).fetchone()
        assert held is not None
        serving, own = held
        if not serving:
            raise StoreError(f"The store {self.shown!r} is being changed by a command.")
        self._backend, former = connection.info.backend_pid, self._backend
        if own:
            return
        if self._end_former(connection, former):
            self._backend = former
            raise StoreError(f"The number {self.shard} is held by a former session.")
        # Another replica took it, because this one was away for longer than its lease.
        self._take_shard()
        self.begin_run()

    def _end_former(self, connection: psycopg.Connection[Any], former: int | None) -> bool:
        """End the session of this replica that was lost, if the database still keeps it."""
        found = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND classid = %s AND objid = %s AND objsubid = 2 AND granted AND pid = %s",
            (LOCKS, self.shard, former),
        )
        return bool(found.fetchall())

    def _locked(self, how: str, lock: int) -> bool:
        """Take an advisory lock on the writing connection; tell whether it is held."""
        found = self._write(f"SELECT {how}(?::int4, ?::int4)", (LOCKS, lock))
        return found[0][0] is not False

    def _take_shard(self) -> None:
        """Take the number of a replica that is gone, or a new one."""
        with self.transaction():
            self._locked("pg_advisory_xact_lock", TAKING)
            if not self._alone and not self._locked("pg_try_advisory_lock_shared", SERVING):
                raise StoreError(f"The store {self.shown!r} is being changed by a command.")
            free = self._write(
                f"SELECT shard FROM replica WHERE alive_at = 0 "
                f"OR GREATEST(alive_at, {STARTED}) < {NOW} - ? ORDER BY shard",
                (LEASE,),
            )
            numbers = [int(shard) for (shard,) in free]
            last = self._write("SELECT COALESCE(MAX(shard), -1) FROM replica")[0][0]
            numbers += range(last + 1, last + 1000)
            shard = next(each for each in numbers if self._locked("pg_try_advisory_lock", each))
            self._write(
                f"INSERT INTO replica VALUES (?, {NOW}) "
                f"ON CONFLICT (shard) DO UPDATE SET alive_at = {NOW}",
                (shard,),
            )
        self.shard = shard
        self._backend = self._writer.connected().info.backend_pid

    def _keep_others_out(self, how: str = "pg_try_advisory_lock") -> None:
        if not self._locked(how, SERVING):
            raise StoreError(f"The store {self.shown!r} is being served; stop all replicas first.")

    def _check_nobody_serves(self) -> None:
        self._keep_others_out("pg_try_advisory_xact_lock")

    def _serving(self) -> set[int]:
        found = self._read(
            "SELECT objid::int8 FROM pg_locks WHERE locktype = 'advisory' "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND classid = ?::oid AND objsubid = 2 AND granted AND objid < 2147483648::oid",
            (LOCKS,),
        )
        return {int(shard) for (shard,) in found}

    def leads(self) -> bool:
        """Tell whether this replica does what only one needs to do; for the writing thread.

        It leads as long as its writing connection lives.
        """
        session = self._writer.connected().info.backend_pid
        if self._leading != session and self._locked("pg_try_advisory_lock", LEADING):
            self._leading = session
        return self._leading == session

    # --- hearing of others -----------------------------------------------------------------------

    def pulse(self) -> bool:
        """Say that this replica lives; others may have written at any time."""
        now = time.monotonic()
        if self.shard >= 0 and now - self._beaten > BEAT:
            self._reader.run(f"UPDATE replica SET alive_at = {NOW} WHERE shard = ?", (self.shard,))
            self._beaten = now
        return True

    def listen(self, heard: Callable[[], None]) -> None:
        """Call ``heard``, in a thread, whenever the configuration may have changed."""
        line = _Line(self._url, "bothworlds listening", LOOK * 10)

        def listening() -> None:
            while not self._closing.is_set():
                try:
                    line.run(f"LISTEN {CHANNEL}")
                    heard()
                    while not self._closing.is_set():
                        for _ in line.connected().notifies(timeout=LOOK, stop_after=1):
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
        for line in (self._writer, *list(self._readers.values())):
            line.cut(now=now)

    def close(self) -> None:
        """Close all connections, and give the number of this replica back."""
        self._closing.set()
        if self._listener is not None:
            self._listening.cut()
            self._listener.join()
        if self.shard >= 0:
            with contextlib.suppress(psycopg.Error, OSError, StoreError):
                self._write("UPDATE replica SET alive_at = 0 WHERE shard = ?", (self.shard,))
        for line in (self._writer, *self._readers.values()):
            line.close()


@functools.lru_cache(maxsize=256)
def _placed(sql: str) -> bytes:
    """Return a statement with the placeholders of psycopg, for binary values."""
    return sql.replace("?", "%b").encode()


def _int4(number: int) -> psycopg.types.numeric.Int4:
    return psycopg.types.numeric.Int4(number)


def _sentence(error: Exception) -> str:
    """Return what a driver says, in one line and without its full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
