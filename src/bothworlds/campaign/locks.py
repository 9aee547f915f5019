"""Who is working on what, between processes that share a store.

A claim is a lock on bytes of one file.  The system drops it when its process ends, however that
happens; nothing has to be cleaned up after a crash.  Claims only save work: without them (no
locks on this system, or on this file system) two processes may run the same shard, and both
write the same file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


class Claims:
    """The claims of this process on repetitions of curves.

    Parameters
    ----------
    path : Path
        The file that carries the locks; made when it is first needed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def take(self, stem: str, first: int, count: int) -> bool:
        """Claim repetitions of a curve; False where another process has them."""
        if self._handle is None:
            self._open()
        if fcntl is None or self._handle is None:
            return True
        flags = fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.lockf(self._handle, flags, count, _place(stem, first))
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EAGAIN)
        return True

    def drop(self, stem: str, first: int, count: int) -> None:
        """Give a claim up."""
        if fcntl is not None and self._handle is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._handle, fcntl.LOCK_UN, count, _place(stem, first))

    def _open(self) -> None:
        """Open the file; where that cannot be done, there are no claims."""
        with contextlib.suppress(OSError):
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)

    def close(self) -> None:
        """Give all claims up."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _place(stem: str, first: int) -> int:
    """Return the byte that stands for a repetition of a curve."""
    return (int.from_bytes(hashlib.sha256(stem.encode()).digest()[:4], "little") << 30) + first
