"""Workers that run shards: threads of this process, or any executor."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from typing import Any, Protocol

from bothworlds.campaign.shard import Shard, run_shard
from bothworlds.engine.tile import TileJob, TileOutcome
from bothworlds.errors import ClusterError, InvalidParameter, must

Tick = Callable[[TileJob, int], None]
"""Takes a tile and the rounds, times repetitions, that were played of it."""

SILENCE = 60.0
"""Seconds after which a scheduler that does not answer counts as gone."""

_CLOSED = {"ClosedClientError", "CommClosedError", "TimeoutError"}
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
        """Return the number of workers, as far as the executor tells."""
        return getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1

    def depth(self) -> int:
        """Return twice the number of workers, so that none waits for what is on its way."""
        return 2 * max(1, self.slots())

    def submit(self, shard: Shard, tick: Tick) -> Future[list[TileOutcome]]:
        """Send a shard to a worker; its rounds are heard of when it is finished."""
        try:
            return self._send(shard.stamped())
        except Exception as error:
            raise self.failure(error, shard.jobs[0].name) from error

    def _send(self, shard: Shard) -> Future[list[TileOutcome]]:
        return self._executor.submit(run_shard, shard)

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
        return ClusterError(f"The workers cannot run {name}: {kind.__name__}: {reason}.")


class Dask(Remote):
    """The workers of a Dask cluster, which come and go.

    Dask's own executor forgets a task when the connection breaks while its result is fetched;
    here it is used for its client.

    Parameters
    ----------
    executor : Executor
        Of a client that is not asynchronous.
    """

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self._client: Any = executor._client  # type: ignore[attr-defined]
        if self._client.asynchronous:
            expected = "of a client that is not asynchronous, since simulate waits for it"
            raise InvalidParameter(must("executor", "simulate", expected, executor))
        self._slots, self._asked = 0, float("-inf")
        self._tasks: weakref.WeakKeyDictionary[Future[Any], Any] = weakref.WeakKeyDictionary()

    def slots(self) -> int:
        """Return the number of threads of all workers."""
        # To ask takes some milliseconds.
        if time.monotonic() - self._asked > 1.0:
            try:
                answer = self._client.sync(self._client.scheduler.ncores, callback_timeout=SILENCE)
            except Exception as error:
                raise _gone(error) from error
            self._slots = sum(answer.values())
            self._asked = time.monotonic()
        return self._slots

    def _send(self, shard: Shard) -> Future[list[TileOutcome]]:
        future: Future[list[TileOutcome]] = Future()
        # Not pure: a shard that is handed out again is to run again.
        options = {**getattr(self._executor, "_kwargs", {}), "pure": False}
        task = self._client.submit(run_shard, shard, **options)
        self._tasks[future] = task
        task.add_done_callback(functools.partial(_deliver, future))
        return future

    def stop(self, running: Iterable[Future[list[TileOutcome]]]) -> None:
        """Take everything back; where the scheduler is gone, there is nobody to tell."""
        tasks = [self._tasks[future] for future in running if future.cancel()]
        with contextlib.suppress(Exception):
            self._client.cancel(tasks)


def _deliver(future: Future[list[TileOutcome]], task: Any) -> None:
    """Pass on how a task of Dask's has ended, whatever happens."""
    try:
        outcomes = task.result(timeout=SILENCE)
    except Exception as error:
        found: Exception = error
    except BaseException as error:
        found = CancelledError(type(error).__name__)
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(outcomes)
        return
    if future.set_running_or_notify_cancel():
        future.set_exception(found)


def workers_of(executor: Executor) -> Remote:
    """Return the workers behind an executor."""
    client = getattr(executor, "_client", None)
    return Remote(executor) if not hasattr(client, "scheduler") else Dask(executor)


def _gone(error: BaseException) -> ClusterError:
    return ClusterError(f"The workers are gone ({type(error).__name__}).")
