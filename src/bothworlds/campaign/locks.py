"""Locks between processes that share a store: who is working on what.

A claim is a lock on bytes of one file.  The system drops it when its process ends, however that
happens; nothing has to be cleaned up after a crash.  Claims only save work: without them (no
locks on this system, or on this file system) two processes may run the same shard, and both
write the same file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from bothworlds.files import RangeLock


class Claims:
    """The claims of this process on repetitions of curves.

    Parameters
    ----------
    path : Path
        The file that carries the locks; made when it is first needed.
    """

    def __init__(self, path: Path) -> None:
        self._lock = RangeLock(path)

    def take(self, stem: str, first: int, count: int) -> bool:
        """Claim repetitions of a curve; False where another process has them."""
        return self._lock.take(_place(stem, first), count)

    def drop(self, stem: str, first: int, count: int) -> None:
        """Give a claim up."""
        self._lock.drop(_place(stem, first), count)

    def close(self) -> None:
        """Give all claims up."""
        self._lock.close()


def _place(stem: str, first: int) -> int:
    """Return the byte that stands for a repetition of a curve."""
    return (int.from_bytes(hashlib.sha256(stem.encode()).digest()[:4], "little") << 30) + first
