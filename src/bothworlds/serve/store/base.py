"""Store: the interface of the database, open for a service or a command.

A store has one connection that writes (`Writer`) and others that read (`Reader`); each belongs to
one thread, and its type shows which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import Replica
from bothworlds.serve.store.writer import Writer


class Store(ABC):
    """A store, open.

    Attributes
    ----------
    where : str
        The address by which another process opens it.
    replica : Replica
        Which of the processes that serve from the store this one is.
    writer : Writer
        For the writing thread.
    reader : Reader
        For the thread that looks up what requests ask for.
    reporter : Reader
        For the thread that computes reports.
    watcher : Reader
        For the thread that polls for changes; the same as ``reader`` where there are no peers.
    """

    has_peers: bool
    """Whether other replicas may write as well, whose states have to be polled."""
    close_seconds: float
    """How long a commit may take while a service closes before it is given up."""
    failures: tuple[type[Exception], ...]
    """Errors that a driver raises when the database fails."""
    where: str
    replica: Replica
    writer: Writer
    reader: Reader
    reporter: Reader
    watcher: Reader

    @abstractmethod
    def listen(self, heard: Callable[[], None]) -> None:
        """Call ``heard`` in some thread when another replica announces something."""

    def lost(self) -> str | None:
        """Return why the store can no longer be used until a restart, or None."""
        return None

    def leave(self) -> None:
        """Leave nothing behind that could damage another store, once this one is lost."""
        return

    @abstractmethod
    def abort(self) -> None:
        """Let no thread wait for the database any longer; only `close` may follow."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections, and give the shard up."""
