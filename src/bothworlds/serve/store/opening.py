"""Opening and migrating a store by its address: a SQLite file or a PostgreSQL database."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bothworlds.errors import StoreError, missing_extra
from bothworlds.serve.store import schema
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from bothworlds.serve.store.postgres import PostgresStore


def opened(where: str, *, serve: bool = True, create: bool = True, alone: bool = False) -> Store:
    """Open a store.

    Parameters
    ----------
    where : str
        A path of a SQLite file, or ``postgresql://...``.
    serve : bool
        Whether to serve from it; otherwise to administer or read, alongside a running server.
    create : bool
        Whether to make what is missing.
    alone : bool
        Whether no other process may serve from it meanwhile; with SQLite none ever may.

    Raises
    ------
    StoreError
        If it cannot be opened, or has tables of another version.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = opened(os.path.join(folder, "bothworlds.db"))
    ...     store.reader.configuration().tenants
    ...     store.close()
    {'default': 1}
    """
    store: Store
    if is_postgres(where):
        store = _postgres()(where, serve=serve, create=create, alone=alone)
    else:
        store = SqliteStore(where, serve=serve, create=create)
    try:
        with sentences(store):
            schema.check_version(store.writer)
    except BaseException:
        store.close()
        raise
    return store


def is_new(where: str) -> bool:
    """Tell whether there is no store yet: no file, or a database without tables.

    Raises
    ------
    StoreError
        If the database cannot be reached.

    Examples
    --------
    >>> is_new("no/such/folder/bothworlds.db")
    True
    """
    if not is_postgres(where):
        return not Path(where).exists()
    store = _postgres()(where, serve=False, create=False)
    with sentences(store), contextlib.closing(store):
        return schema.version(store.writer) == 0


def reading(where: str) -> tuple[Reader, tuple[type[Exception], ...]]:
    """Return a connection that only reads a store that another process serves.

    Also return what its driver raises when the database fails.
    """
    if is_postgres(where):
        kind = _postgres()
        return kind.reading(where), kind.failures
    return SqliteStore.reading(where), SqliteStore.failures


@contextlib.contextmanager
def using(where: str, *, serve: bool = False, create: bool = False) -> Iterator[Store]:
    """Open a store for a command, alone if it is to ``serve``, and close it after the block.

    Raises
    ------
    StoreError
        If the store cannot be opened, or the database fails in the block.
    """
    store = opened(where, serve=serve, create=create, alone=serve)
    with sentences(store), contextlib.closing(store):
        yield store


@contextlib.contextmanager
def sentences(store: Store) -> Iterator[None]:
    """Report in one sentence that the database failed in the block."""
    try:
        yield
    except store.failures as error:
        text = " ".join(str(error).split()).rstrip(".")
        raise StoreError(f"The store cannot be used: {text}.") from error


def migrate(where: str) -> tuple[int, int]:
    """Update the tables of a store to this program's version; return the versions before and after.

    No server may use the store meanwhile.
    """
    store: Store
    if is_postgres(where):
        store = _postgres()(where, serve=False, create=False)
    else:
        store = SqliteStore(where, create=False)
    with sentences(store), contextlib.closing(store):
        return schema.migrate(store.writer)


def _postgres() -> type[PostgresStore]:
    """Return the class of stores in PostgreSQL, which needs an extra."""
    try:
        from bothworlds.serve.store.postgres import PostgresStore
    except ImportError as error:
        raise missing_extra("postgres", "psycopg") from error
    return PostgresStore


def is_postgres(where: str) -> bool:
    """Tell whether a store is one of PostgreSQL; refuse an address of any other kind.

    Examples
    --------
    >>> is_postgres("postgresql://localhost/bothworlds"), is_postgres("bothworlds.db")
    (True, False)
    """
    scheme, found, _ = where.partition("://")
    if found and scheme not in ("postgresql", "postgres"):
        raise StoreError(
            f"The store must be a path of a SQLite file or postgresql://..., got {scheme}://."
        )
    return bool(found)
