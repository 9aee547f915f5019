"""Workers that run shards: threads of this process, or any executor."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol

from bothworlds.campaign.shard import run_shard, stamp
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.tile import TileJob
from bothworlds.errors import ClusterError

Tick = Callable[[TileJob, int], None]
"""Takes a tile and the rounds, times repetitions, that were played of it."""

_CLOSED = {"ClosedClientError", "CommClosedError", "TimeoutError"}
"""The names of Dask's errors about a lost connection."""


class Workers(Protocol):
    """Workers of shards: the threads of this process (`Threads`) or an executor (`Remote`)."""

    live: bool
    """Whether ``tick`` is called while a shard runs, and a shard that is stopped returns the tiles
    it has finished."""

    def slots(self) -> int:
        """Return how many shards run at a time."""

    def depth(self) -> int:
        """Return how many shards are handed out at a time."""

    def submit(self, shard: Sequence[TileJob], tick: Tick) -> Future[list[TileOutcome]]:
        """Hand out a shard."""

    def check(self) -> None:
        """Raise an error if the workers are gone and did not report it."""

    def stop(self, running: Iterable[Future[list[TileOutcome]]]) -> None:
        """End the running shards."""

    def close(self) -> None:
        """Release the resources of a campaign; another one may follow."""

    def failure(self, error: BaseException, name: str) -> BaseException:
        """Return the error to raise where a shard of ``name`` failed."""


class Threads:
    """Threads of this process.

    Parameters
    ----------
    count : int
        How many.
    """

    live = True

    def __init__(self, count: int) -> None:
        self._count = count
        self._halt = threading.Event()
        self._pool: ThreadPoolExecutor | None = None

    def slots(self) -> int:
        """Return the number of threads."""
        return self._count

    def depth(self) -> int:
        """Return one more than there are threads, so that none waits for the next shard."""
        return self._count + 1

    def submit(self, shard: Sequence[TileJob], tick: Tick) -> Future[list[TileOutcome]]:
        """Run a shard in a thread, which stops within a tenth of a second when asked to."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, "bothworlds")
        return self._pool.submit(run_shard, shard, None, self._halt.is_set, tick)

    def check(self) -> None:
        """Do nothing: threads do not get lost."""

    def stop(self, running: Iterable[Future[list[TileOutcome]]]) -> None:
        """Ask the threads to stop."""
        self._halt.set()

    def close(self) -> None:
        """End the threads, without waiting for one that is still compiling."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None
        self._halt = threading.Event()

    def failure(self, error: BaseException, name: str) -> BaseException:
        """Return the error as it is."""
        return error


class Remote:
    """The workers of an executor, such as processes.

    Parameters
    ----------
    executor : Executor
        The user's.
    """

    live = False

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def slots(self) -> int:
        """Return the number of workers; the number of cores where the executor has none."""
        return getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1

    def depth(self) -> int:
        """Return twice the number of workers, so that no worker waits for shards in transit."""
        return 2 * max(1, self.slots())

    def submit(self, shard: Sequence[TileJob], tick: Tick) -> Future[list[TileOutcome]]:
        """Send a shard to a worker, which does not call ``tick``."""
        try:
            return self._send(shard, stamp(shard))
        except Exception as error:
            raise self.failure(error, shard[0].name) from error

    def _send(self, shard: Sequence[TileJob], stamped: str) -> Future[list[TileOutcome]]:
        return self._executor.submit(run_shard, shard, stamped)

    def check(self) -> None:
        """Raise an error if a process died.

        A pool that breaks while a shard is handed out may never end that shard's future.
        """
        if getattr(self._executor, "_broken", False):
            raise gone(BrokenProcessPool())

    def stop(self, running: Iterable[Future[list[TileOutcome]]]) -> None:
        """Cancel the shards that have not started."""
        for future in running:
            future.cancel()

    def close(self) -> None:
        """Leave the executor as it is: it is the user's."""

    def failure(self, error: BaseException, name: str) -> BaseException:
        """Return the error of workers that are gone, or that cannot run a job."""
        kind = type(error)
        # An executor that was shut down raises a plain RuntimeError.
        if kind is RuntimeError or kind.__name__ in _CLOSED:
            return gone(error)
        if isinstance(error, BrokenExecutor | CancelledError):
            return gone(error)
        reason = (str(error).splitlines() or [""])[0]
        return ClusterError(f"The workers cannot run {name}: {kind.__name__}: {reason}.")


def gone(error: BaseException) -> ClusterError:
    """Return the error about workers that cannot be reached any more."""
    return ClusterError(f"The workers are gone ({type(error).__name__}).")
