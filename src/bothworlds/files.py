"""Files: replace one at once, lock one between processes, find pyarrow and read Parquet.

A file is replaced by a draft next to it, which takes its name when it is complete.  The process
that writes a draft holds a lock on it, and the system drops that lock when the process ends, so a
later writer can tell a draft that was left behind from one that is being written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import re
import secrets
import stat
import time
from collections.abc import Iterator
from typing import Any

from bothworlds.errors import InvalidParameter, ResultFileError, StateFileError, missing_extra

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

ABANDONED = 60.0
"""Seconds a draft must have been left alone, besides being unlocked, before it is removed: some
network file systems drop a lock as soon as its process closes any handle of the file."""

PATIENCE = 60.0
"""Seconds to wait for another process that holds a lock."""

HAS_LOCKS = fcntl is not None
"""Whether the system has file locks."""

_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.part")
_KINDS = (
    (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
)  # fmt: skip
_swept: dict[pathlib.Path, float] = {}


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = True) -> Iterator[pathlib.Path]:
    """Give the path of a draft that takes the place of ``path`` when the block ends well.

    After a crash or an exception the old file is there as it was.  An exception leaves no draft;
    what a killed process left is removed by a later call for the same folder.  With
    ``durable=False`` nothing waits for the disk, and a power failure may lose the new content.

    Raises
    ------
    InvalidParameter
        If ``path`` is a folder, a device, a pipe or a socket, none of which is ever replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = pathlib.Path(folder, "note.txt")
    ...     with replacing(target) as draft:
    ...         _ = draft.write_text("done")
    ...     target.read_text()
    'done'
    """
    target = _resolved(path)
    _mode(target, path)
    _sweep_now_and_then(target.parent)
    made: list[tuple[pathlib.Path, int | None]] = []
    try:
        draft = _new_draft(target, made)
        yield draft
        if durable:
            with open(draft, "rb") as stream:
                os.fsync(stream.fileno())
        mode = _mode(target, path)
        if mode is not None:
            os.chmod(draft, mode & 0o7777)
        os.replace(draft, target)
    except BaseException:
        for path_of_draft, _ in made:
            path_of_draft.unlink(missing_ok=True)
        raise
    finally:
        for handle in {handle for _, handle in made if handle is not None}:
            os.close(handle)
    if durable:
        _sync_folder(target.parent)


@contextlib.contextmanager
def saving(what: str, path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Give a draft as `replacing` does; where the disk refuses, ``what`` was not saved.

    Raises
    ------
    ResultFileError
        If the file cannot be written, with the reason.
    """
    try:
        with replacing(path) as draft:
            yield draft
    # The error of the system names a draft that the user does not know.
    except OSError as error:
        reason = error.strerror or error
        raise ResultFileError(f"The {what} was not saved to {path}: {reason}.") from error


def _resolved(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the file behind links: a link keeps pointing where it did."""
    try:
        return pathlib.Path(path).resolve()
    except (RuntimeError, ValueError) as error:
        raise InvalidParameter(
            f"The file {os.fspath(path)!r} must have a name the system can use, got: {error}."
        ) from error


def _mode(target: pathlib.Path, path: str | os.PathLike[str]) -> int | None:
    """Return the mode of an ordinary file, or None if there is none; refuse anything else."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        return mode
    kind = next((name for test, name in _KINDS if test(mode)), "something else")
    raise InvalidParameter(
        f"The file {os.fspath(path)!r} must be an ordinary file or a new one, got {kind}."
    )


def _new_draft(target: pathlib.Path, made: list[tuple[pathlib.Path, int | None]]) -> pathlib.Path:
    """Make a draft and lock it; ``made`` gets its path, and the handle that holds the lock.

    It receives them before anything is created, so that Ctrl-C at any moment leaves no draft.
    """
    while True:
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        made.append((draft, None))
        # Created here, so that the user's own mask sets its permissions.
        draft.touch(exist_ok=False)
        if fcntl is None:
            return draft
        handle = os.open(draft, os.O_RDWR)
        made.append((draft, handle))
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between the first two lines another process may have taken it for an abandoned one.
        if draft.exists():
            return draft


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove the drafts that killed processes left in a folder.

    A draft goes if its lock is free and no process wrote to it for `ABANDONED` seconds.  Where
    the system has no locks, drafts stay.
    """
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if _DRAFT.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(entry)


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    if not entry.is_file(follow_symlinks=False):
        return
    if time.time() - entry.stat(follow_symlinks=False).st_mtime < ABANDONED:
        return
    handle = os.open(entry.path, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(entry.path)
    finally:
        os.close(handle)


def _sweep_now_and_then(folder: pathlib.Path) -> None:
    """Sweep a folder at the first file a process writes there, and then once a minute."""
    now = time.monotonic()
    if now - _swept.get(folder, -ABANDONED) >= ABANDONED:
        _swept[folder] = now
        sweep(folder)


def _sync_folder(folder: pathlib.Path) -> None:
    """Make the new name last through a power failure, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def locked(path: str | os.PathLike[str], patience: float = PATIENCE) -> Iterator[bool]:
    """Hold the lock that belongs to a file; other processes and threads wait for it.

    The lock is on a file of its own next to ``path``, because ``path`` itself is replaced whenever
    it is written.  A link and its target have the same lock.

    Parameters
    ----------
    path : path
        The file, which need not exist.
    patience : float
        Seconds to wait for the process that holds the lock.

    Yields
    ------
    bool
        Whether the file is locked; False where the system has no file locks.

    Raises
    ------
    StateFileError
        If another process keeps the lock for longer.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with locked(pathlib.Path(folder, "state.json")) as held:
    ...         pass
    """
    if fcntl is None:
        yield False
        return
    target = _resolved(path)
    with open(target.with_name(f".{target.name}.lock"), "ab") as stream:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StateFileError(
                        f"The file {os.fspath(path)!r} is in use by another process; nothing was "
                        f"changed."
                    ) from None
                time.sleep(0.02)
        yield True


@contextlib.contextmanager
def flocked(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Hold a lock on a file itself, under any name; make the file if there is none.

    Yields
    ------
    bool
        Whether it is locked; True where the system has no file locks.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "store.db")
    ...     with flocked(file) as first, flocked(file) as second:
    ...         first, second
    (True, False)
    """
    handle = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        held = True
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held = False
        yield held
    finally:
        os.close(handle)


class RangeLock:
    """Locks on ranges of numbers, between processes, by the bytes of one file.

    The system drops the locks of a process when it ends, however that happens.  Where there are
    no locks, or the file cannot be opened, every range is free.

    Parameters
    ----------
    path : path
        The file that carries the locks; created when it is first needed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._handle: int | None = None

    def take(self, first: int, count: int) -> bool:
        """Lock ``count`` numbers from ``first`` on; False where another process has one."""
        if self._handle is None:
            with contextlib.suppress(OSError):
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        if fcntl is None or self._handle is None:
            return True
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EAGAIN)
        return True

    def drop(self, first: int, count: int) -> None:
        """Give a range up."""
        if fcntl is not None and self._handle is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._handle, fcntl.LOCK_UN, count, first)

    def close(self) -> None:
        """Give all ranges up."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def pyarrow() -> Any:
    """Return pyarrow with its ``parquet``, or raise an error with the install command."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise missing_extra("lab", "pyarrow") from error
    return pyarrow


@contextlib.contextmanager
def parquet_file(path: str | os.PathLike[str], **options: Any) -> Iterator[Any]:
    """Give a Parquet file as a ``pyarrow.parquet.ParquetFile``, for reading.

    Arrow reads by its own file handle, never through Python objects.  Read with
    ``use_threads=False`` as well: a thread of Arrow's that releases a Python object while the
    interpreter ends aborts the process.
    """
    arrow = pyarrow()
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    with arrow.OSFile(os.fspath(path), "rb") as stream:
        yield arrow.parquet.ParquetFile(stream, pre_buffer=False, **options)


def read_table(path: str | os.PathLike[str]) -> Any:
    """Return a Parquet file as a ``pyarrow.Table``."""
    with parquet_file(path) as file:
        return file.read(use_threads=False)
