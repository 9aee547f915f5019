"""Where shards run: threads of this process, or any executor."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from typing import Any, Protocol

from bothworlds.errors import ClusterError, InvalidParameter, must
from bothworlds.simulation.shards import Shard, run_shard
from bothworlds.simulation.tile import TileJob, TileOutcome

Tick = Callable[[TileJob, int], None]
"""Takes a tile and the rounds, times repetitions, that were played of it."""

SILENCE = 60.0
"""Seconds after which a scheduler that does not answer counts as gone."""

_CLOSED = {"ClosedClientError", "CommClosedError", "FutureCancelledError", "FuturesCancelledError"}
"""How Dask's errors about a lost connection are called."""


class Workers(Protocol):
    """Where shards run."""

    live: bool
    """Whether rounds are heard of while they are played, and what is stopped returns what it has
    finished."""

    def slots(self) -> int:
        """Return how many shards run at a time."""

    def depth(self) -> int:
        """Return how many shards are handed out at a time."""

    def submit(self, shard: Shard, tick: Tick) -> Future[list[TileOutcome]]:
        """Hand out a shard."""

    def stop(self, running: Iterable[Future[list[TileOutcome]]]) -> None:
        """End what is running."""

    def close(self) -> None:
        """Let go of what a campaign needed; another one may follow."""

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

    def submit(self, shard: Shard, tick: Tick) -> Future[list[TileOutcome]]:
        """Run a shard in a thread, which stops within a tenth of a second when asked to."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, "bothworlds")
        return self._pool.submit(run_shard, shard, self._halt.is_set, tick)

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
    """The workers of an executor: processes, or a cluster.

    Parameters
    ----------
    executor : Executor
        The user's.
    """

    live = False

    def __init__(self, executor: Executor) -> None:
        if getattr(getattr(executor, "_client", None), "asynchronous", False):
            expected = "of a client that is not asynchronous, since simulate waits for it"
            raise InvalidParameter(must("executor", "simulate", expected, executor))
        self._executor = executor
        self._slots, self._asked = 0, float("-inf")

    def slots(self) -> int:
        """Return the number of workers, as far as the executor tells."""
        client: Any = getattr(self._executor, "_client", None)
        if not hasattr(client, "scheduler"):
            return getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1
        # Dask's workers come and go; to ask takes some milliseconds.
        if time.monotonic() - self._asked > 1.0:
            try:
                answer = client.sync(client.scheduler.ncores, callback_timeout=SILENCE)
                self._slots = sum(answer.values())
            except Exception as error:
                raise _gone(error) from error
            self._asked = time.monotonic()
        return self._slots

    def depth(self) -> int:
        """Return twice the number of workers, so that none waits for what is on its way."""
        return 2 * max(1, self.slots())

    def submit(self, shard: Shard, tick: Tick) -> Future[list[TileOutcome]]:
        """Send a shard to a worker; its rounds are heard of when it is finished."""
        try:
            return self._executor.submit(run_shard, shard.stamped())
        except Exception as error:
            raise self.failure(error, shard.jobs[0].name) from error

    def stop(self, running: Iterable[Future[list[TileOutcome]]]) -> None:
        """Take back what has not begun."""
        for future in running:
            future.cancel()

    def close(self) -> None:
        """Leave the executor as it is: it is the user's."""

    def failure(self, error: BaseException, name: str) -> BaseException:
        """Return a sentence: the workers are gone, or what they cannot do."""
        kind = type(error)
        # An executor that was shut down raises a plain RuntimeError.
        if kind is RuntimeError or kind.__name__ in _CLOSED:
            return _gone(error)
        if isinstance(error, BrokenExecutor | CancelledError):
            return _gone(error)
        reason = (str(error).splitlines() or [""])[0]
        return ClusterError(f"The workers cannot run {name}: {type(error).__name__}: {reason}.")


def _gone(error: BaseException) -> ClusterError:
    return ClusterError(f"The workers are gone ({type(error).__name__}).")
