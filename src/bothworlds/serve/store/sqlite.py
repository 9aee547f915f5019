"""SQLite store: one file, one process that serves from it, every commit synced.

The file is in WAL mode, so that reading never waits for writing.  A lock beside it keeps a second
server out; commands that administer or verify work beside a running server.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bothworlds.errors import StateFileError, StoreError
from bothworlds.files import locked
from bothworlds.serve.store.base import DECISION, FEEDBACK, Rows, Store, at_once
from bothworlds.serve.store.rows import DecisionRow, FeedbackRow, Stored

BUSY = 5.0
"""Seconds to wait for another process that writes."""


class SqliteStore(Store):
    """A store in a SQLite file.

    Parameters
    ----------
    path : path
        The file; made if there is none, unless ``create`` is False.
    serve : bool
        Whether to serve from it, which one process may; otherwise to administer or read.
    create : bool
        Whether to make the file and its tables where they are missing.

    Raises
    ------
    StoreError
        If the file cannot be used: in one sentence why.
    """

    dialect = "sqlite"
    has_peers = False
    failures = (sqlite3.Error,)
    synchronous = "FULL"
    """FULL syncs every commit; what is less loses commits with the machine's power."""

    def __init__(
        self, path: str | os.PathLike[str], *, serve: bool = True, create: bool = True
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self.shard = 0 if serve else -1
        self.run = 0
        self._held = contextlib.ExitStack()
        self._seen: int | None = None
        if not create and not self.path.exists():
            raise StoreError(f"There is no store at {str(path)!r}.")
        try:
            with contextlib.ExitStack() as opening:
                if serve:
                    self._lock(opening)
                self._writer = opening.enter_context(contextlib.closing(self._connect()))
                self._writer.execute("PRAGMA journal_mode = WAL")
                self._writer.execute(f"PRAGMA synchronous = {self.synchronous}")
                self._writer.execute("PRAGMA foreign_keys = ON")
                if create and self.version() == 0:
                    self.migrate()
                self._reader = opening.enter_context(contextlib.closing(self._connect()))
                self._reader.execute("PRAGMA query_only = ON")
                self._held = opening.pop_all()
        except sqlite3.Error as error:
            raise StoreError(f"The store {str(path)!r} cannot be opened: {error}.") from error

    def _lock(self, opening: contextlib.ExitStack) -> None:
        try:
            opening.enter_context(locked(self.path, patience=0.0))
        except StateFileError:
            raise StoreError(
                f"The store {str(self.path)!r} is served by another process; one may, and several "
                f"with PostgreSQL."
            ) from None
        except OSError as error:
            raise StoreError(
                f"The store {str(self.path)!r} cannot be locked: {error.strerror}."
            ) from error

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, timeout=BUSY, isolation_level=None, check_same_thread=False,
            cached_statements=256,
        )  # fmt: skip

    def _write(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        return self._writer.execute(sql, values).fetchall()

    def _write_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        before = self._writer.total_changes
        self._writer.executemany(sql, rows)
        return self._writer.total_changes - before

    def _read(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        return self._reader.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block writes, synced to the disk, or none of it."""
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            # A full disk or an error of the device has rolled back by itself.
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the file in the block; inside another one, the same state."""
        if self._reader.in_transaction:
            yield
            return
        self._reader.execute("BEGIN")
        try:
            yield
        finally:
            if self._reader.in_transaction:
                self._reader.execute("ROLLBACK")

    def _has_schema(self) -> bool:
        return bool(
            self._write("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?",
                        ("schema_version",))
        )  # fmt: skip

    def _run_script(self, script: str) -> None:
        # `executescript` would commit the transaction it stands in.
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self._writer.execute(statement)
                statement = ""

    def _insert_rows(self, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> int:
        """Insert rows that are not there yet; return how many were not."""
        before = self._writer.total_changes
        for places, values in at_once(rows):
            self._writer.execute(
                f"INSERT INTO {table} ({columns}) VALUES {places} ON CONFLICT DO NOTHING", values
            )
        return self._writer.total_changes - before

    def _insert_decisions(self, rows: Sequence[DecisionRow]) -> None:
        self._insert_rows("decision", DECISION, rows)

    def _insert_feedback(self, rows: list[FeedbackRow]) -> dict[tuple[int, bytes], Stored]:
        # Nobody else writes, so that a look says which are new; in most batches all are.
        if self._insert_rows("feedback", FEEDBACK, rows) == len(rows):
            return {}
        self._writer.execute("ROLLBACK")
        self._writer.execute("BEGIN IMMEDIATE")
        return super()._insert_feedback(rows)

    def _check_nobody_serves(self) -> None:
        """Whoever migrates has opened the file to serve from it, as only one process may."""

    def listen(self, heard: Callable[[], None]) -> None:
        """Nobody else serves who could announce anything."""

    def pulse(self) -> bool:
        """Tell whether another connection has written since the last call."""
        now = int(self._read("PRAGMA data_version")[0][0])
        changed = now != self._seen
        self._seen = now
        return changed

    def close(self) -> None:
        """Close the file and let another process serve from it."""
        self._held.close()
