"""SQLite store: one file, one process that serves from it, every commit synced.

The file is in WAL mode, so that reading never waits for writing.  A lock on the file itself, under
any name, keeps a second server out; commands that administer or verify work alongside a running
server.  SQLite names the write-ahead log after the path: a file with two names, or one that is
removed or replaced while it is open, would lose acknowledged feedback, so both are refused.

A file that is copied back from a backup looks like one whose server has crashed.  So the newest id
of the log is also in a small file next to it, its mark, which no backup of the store contains. The
mark also has the file's inode: a write-ahead log that a killed process left next to another file is
refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bothworlds.errors import StoreError
from bothworlds.files import flocked
from bothworlds.serve.store import schema
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import DECISION, DecisionRow, Replica, Rows
from bothworlds.serve.store.writer import LAST_ID, Writer, insert_rows

MARK = "-mark"
"""Ending of the name of the file that has the newest id of the log."""
BUSY = 5.0
"""Seconds to wait for another process that writes."""
CHECKPOINT = 4000
"""Pages of the write-ahead log that are copied to the file together, four times as many as by
default: the commit that does so takes several times as long as others, and callers wait for it."""
CACHE = 16_384
"""Kibibytes of pages that the writing connection keeps, eight times as many as by default: the
last pages of the logs of a thousand experiments."""

_ID, _INODE, _CHECK = 16, 8, 4
"""Bytes of an id, and of the inode and the checksum behind it in a mark."""
_LOG = logging.getLogger("bothworlds.serve")
_Inode = tuple[int, int]
_served: set[_Inode] = set()
"""Files that this process serves.  They must not be opened again to look at their lock: closing any
descriptor of a file drops the locks that SQLite holds on it in this process."""
_guard = threading.Lock()


class _Mark:
    """The newest id in the log of a store, and the store's inode, in a file of its own.

    It is written after the commit, so that a crash leaves it behind the store and never ahead. It
    is not synced, and a mark that cannot be written is left as it is: it only notices less. A write
    that fails may leave the first bytes of the new id before the last ones of the old id, which may
    be later than both. The checksum of the id shows that; ``torn`` is then true, and ``id`` None.
    """

    def __init__(self, store: Path) -> None:
        self._inode = _inode(store)
        self._file = os.open(f"{store}{MARK}", os.O_RDWR | os.O_CREAT, 0o600)
        found = os.read(self._file, _ID + _INODE + _CHECK + 1)
        id, check = found[:_ID], found[_ID + _INODE :]
        # Earlier versions wrote no checksum, and the first ones no inode.
        whole = len(found) in (_ID, _ID + _INODE) or check == _checksum(id)
        self.id = id.rstrip(b"\0") if whole else None
        self.torn = bool(found) and not whole

    def put(self, id: bytes) -> None:
        """Write an id, or no bytes if there is none."""
        if id == self.id:
            return
        with contextlib.suppress(OSError):
            padded = id.ljust(_ID, b"\0")
            os.pwrite(self._file, padded + self._inode + _checksum(padded), 0)
            self.id = id

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _checksum(id: bytes) -> bytes:
    return zlib.crc32(id).to_bytes(_CHECK, "little")


def _inode(store: Path) -> bytes:
    return os.stat(store).st_ino.to_bytes(_INODE, "little")


def check_log(store: Path) -> None:
    """Refuse a write-ahead log that was written for another file; before SQLite reads it.

    SQLite names the log after the path. If a process was killed and another file has the name now,
    such as a backup, SQLite would put the pages of the one into the other. A file that was copied
    into the old one has its inode and is not noticed.
    """
    log, mark = f"{store}-wal", f"{store}{MARK}"
    # Without a mark, or the right to read or write it, nothing is noticed.
    with contextlib.suppress(OSError), open(mark, "r+b", buffering=0) as file:
        inode, found = _inode(store), file.read()
        if len(found) < _ID or found[_ID : _ID + _INODE] == inode:
            return
        if len(found) > _ID and os.path.exists(log) and os.path.getsize(log):
            raise StoreError(
                f"The log {log!r} was written for another file than {str(store)!r}, which SQLite "
                f"would damage by it. If the file is a backup, remove the log; if file and log "
                f"were moved together, remove {mark!r}."
            )
        file.seek(_ID)
        file.write(inode)
        # A log of this file may follow: after a loss of power it must not be refused.
        os.fsync(file)


class SqliteWriter(Writer):
    """The connection that writes."""

    dialect = "sqlite"
    # The log of an experiment has pages of its own, and a commit writes every page it touches:
    # some five, however few rows there are. A row costs 2 us next to others, and 24 us alone.
    together = 16

    def __init__(
        self, connection: sqlite3.Connection, replica: Replica, lost: Callable[[], str | None]
    ) -> None:
        super().__init__(connection.execute, replica)
        self._connection = connection
        self._lost = lost
        self.mark: _Mark | None = None
        self._pending: bytes | None = None
        # No other process writes, so the count shows whether all feedback is new.
        self.changes = partial(getattr, connection, "total_changes")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the writes of the block, durably, or none of them.

        Checked again after the commit, so that nothing is acknowledged that went into a file that
        is no longer there.
        """
        self._check_file()
        self.execute(self.begin)
        self._pending = None
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            # A full disk or an error of the device has rolled back by itself.
            if self.inside:
                self.execute("ROLLBACK")
            raise
        self._check_file()
        if self.mark is not None and self._pending is not None:
            self.mark.put(self._pending)

    def begin_run(self) -> None:
        """Record that the service starts, after a look whether the file was copied back."""
        self._follow_mark()
        super().begin_run()

    def _follow_mark(self) -> None:
        """Start a new incarnation if the file is older than its mark: it was copied back.

        So it is without a mark, unless it was never served. A torn mark shows nothing.
        """
        if self.mark is None:
            return
        newest, known = self.newest_id(), self.mark.id
        served = bool(self.rows("SELECT 1 FROM run LIMIT 1"))
        if not self.mark.torn and (served if known is None else known > newest):
            why = "has no mark next to it" if known is None else "is older than its mark"
            _LOG.warning(
                "The store %s: it was restored or moved. Decision ids after its last one are "
                "refused from now on.", why,
            )  # fmt: skip
            salt = self.rows("SELECT salt FROM incarnation WHERE ended IS NULL")[0][0]
            self.leave_incarnation(salt, why)
        self.mark.put(newest)

    def begin_incarnation(self, at: float, timeline: str | None, until: bytes = LAST_ID) -> None:
        """Start a new incarnation; from then on the mark is of it."""
        super().begin_incarnation(at, timeline, until)
        self._pending = self.newest_id()

    def _check_file(self) -> None:
        why = self._lost()
        if why is not None:
            raise StoreError(why)

    @property
    def inside(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    def interrupt(self) -> None:
        """Let a statement that runs in another thread fail."""
        self._connection.interrupt()

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once per row."""
        self._connection.executemany(sql, rows)

    def has_schema(self) -> bool:
        """Tell whether there is a table ``schema_version``."""
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'"
        return bool(self.rows(query))

    def run_script(self, script: str) -> None:
        """Run the statements of a file, inside the transaction that is open."""
        # `executescript` would commit the transaction it stands in.
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self.execute(statement)
                statement = ""

    def check_not_served(self) -> None:
        """Do nothing: a process that migrates holds the lock of the only one that serves."""

    def _insert_decisions(self, rows: Sequence[DecisionRow]) -> None:
        insert_rows(self, "decision", DECISION, rows)
        if self.mark is not None:
            # They are sorted by experiment: others may wait that are newer, but not for long.
            self._pending = max(self.mark.id or b"", max(row.id for row in rows))

    def delete_decisions(self, rows: Rows) -> None:
        """Delete records of the log; the mark must not name one of them."""
        super().delete_decisions(rows)
        self._pending = self.newest_id()


class SqliteReader(Reader):
    """A connection that reads."""

    versions = "SELECT json_group_array(json_array(id, version)) FROM experiment"
    by_quarantine = "INDEXED BY feedback_quarantined"

    def __init__(self, connection: sqlite3.Connection, replica: Replica) -> None:
        super().__init__(connection.execute, replica)
        self._connection = connection
        self._seen: int | None = None

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the file in the block; inside another one, the same state."""
        if self._connection.in_transaction:
            yield
            return
        self.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self.execute("ROLLBACK")

    def pulse(self) -> bool:
        """Tell whether another connection has written since the last call."""
        now = int(self.rows("PRAGMA data_version")[0][0])
        changed = now != self._seen
        self._seen = now
        return changed


class SqliteStore(Store):
    """A store in a SQLite file.

    Parameters
    ----------
    path : path
        The file; created if missing, unless ``create`` is False.
    serve : bool
        Whether to serve from it, which one process may; otherwise to administer or read.
    create : bool
        Whether to make the file and its tables where they are missing.

    Raises
    ------
    StoreError
        If the file cannot be used: in one sentence why.
    """

    writer: SqliteWriter
    has_peers = False
    close_seconds = 2 * BUSY
    failures = (sqlite3.Error,)
    synchronous = "FULL"
    """FULL syncs every commit; anything less loses commits with the machine's power."""

    def __init__(
        self, path: str | os.PathLike[str], *, serve: bool = True, create: bool = True
    ) -> None:
        self.path = Path(path)
        self.where = str(self.path.absolute())
        self.replica = Replica(0 if serve else -1)
        if not serve:
            self.has_peers = True
        self._open = contextlib.ExitStack()
        self._why: str | None = None
        if not create and not self.path.exists():
            raise StoreError(f"There is no store at {str(path)!r}.")
        folder = self.path.parent
        if not folder.is_dir():
            raise StoreError(
                f"The store {str(path)!r} cannot be created: there is no folder {str(folder)!r}. "
                f"Create it first."
            )
        try:
            with contextlib.ExitStack() as opening:
                if serve:
                    self._lock(opening)
                check_log(self.path.resolve())
                writing = opening.enter_context(contextlib.closing(self._connect()))
                writing.execute("PRAGMA journal_mode = WAL")
                writing.execute(f"PRAGMA synchronous = {self.synchronous}")
                writing.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
                writing.execute(f"PRAGMA cache_size = -{CACHE}")
                writing.execute("PRAGMA foreign_keys = ON")
                self._inode = self._found()
                self.writer = SqliteWriter(writing, self.replica, self.lost)
                # Once the connections that read are closed.
                opening.callback(self.leave)
                if serve:
                    # A name behind a link would have another mark.
                    mark = _Mark(self.path.resolve())
                    self.writer.mark = opening.enter_context(contextlib.closing(mark))
                if create and schema.version(self.writer) == 0:
                    schema.migrate(self.writer)
                self.reader = self.watcher = self._reading(opening)
                self.reporter = self._reading(opening)
                self._open = opening.pop_all()
        except (sqlite3.Error, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise StoreError(f"The store {str(path)!r} cannot be opened: {why}.") from error

    def _lock(self, opening: contextlib.ExitStack) -> None:
        busy = StoreError(
            f"The store {str(self.path)!r} is already in use by another server. SQLite allows "
            "one; use PostgreSQL for several."
        )
        try:
            with _guard:
                if self.path.exists() and self._found() in _served:
                    raise busy
                if not opening.enter_context(flocked(self.path)):
                    raise busy
                inode = self._found()
                _served.add(inode)
                opening.callback(_served.discard, inode)
        except OSError as error:
            raise StoreError(
                f"The store {str(self.path)!r} cannot be locked: {error.strerror}."
            ) from error

    def _found(self) -> _Inode:
        """Return which file the path names now; refuse one with several names."""
        found = os.stat(self.path)
        if found.st_nlink > 1:
            raise StoreError(
                f"The store {str(self.path)!r} has {found.st_nlink} names (hard links), and each "
                f"would get a write-ahead log of its own. Remove the other names."
            )
        return found.st_dev, found.st_ino

    def lost(self) -> str | None:
        """Return why the file can no longer be used, or None; once lost, it stays lost."""
        if self._why is None:
            try:
                if self._found() != self._inode:
                    self._why = (
                        f"The store {str(self.path)!r} was replaced by another file while it was "
                        f"served. Restart the service."
                    )
            except StoreError as error:
                self._why = str(error)
            except OSError as error:
                self._why = (
                    f"The store {str(self.path)!r} was removed or cannot be reached "
                    f"({error.strerror}). Restore it and restart the service."
                )
        return self._why

    def leave(self) -> None:
        """Empty the write-ahead log if the file is lost; SQLite itself would leave it.

        The log would damage a file that has the name now, such as a backup: SQLite would take it
        for that file's own. Its pages are copied to the file that was opened, wherever that is.
        """
        if self.lost() is not None:
            with contextlib.suppress(sqlite3.Error):
                self.writer.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    @staticmethod
    def reading(path: str) -> SqliteReader:
        """Return a connection that only reads a file that another process serves."""
        # With a mode, so that no file is created where there is none.
        connection = sqlite3.connect(
            f"{Path(path).absolute().as_uri()}?mode=rw", BUSY, isolation_level=None,
            check_same_thread=False, cached_statements=256, uri=True,
        )  # fmt: skip
        connection.execute("PRAGMA query_only = ON")
        return SqliteReader(connection, Replica(-1))

    def _reading(self, opening: contextlib.ExitStack) -> SqliteReader:
        connection = opening.enter_context(contextlib.closing(self._connect()))
        connection.execute("PRAGMA query_only = ON")
        return SqliteReader(connection, self.replica)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, timeout=BUSY, isolation_level=None, check_same_thread=False,
            cached_statements=256,
        )  # fmt: skip

    def listen(self, heard: Callable[[], None]) -> None:
        """Do nothing: no other process serves that could announce a change."""

    def abort(self) -> None:
        """Interrupt a statement that runs."""
        self.writer.interrupt()

    def close(self) -> None:
        """Close the file and let another process serve from it."""
        self._open.close()
