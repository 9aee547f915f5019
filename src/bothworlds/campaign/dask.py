"""Workers of a Dask cluster: one that is running somewhere, or one started on this machine."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import signal
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from multiprocessing import resource_tracker
from typing import Any

from bothworlds.campaign.shard import run_shard
from bothworlds.campaign.workers import Remote, gone
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.tile import TileJob
from bothworlds.errors import ClusterError, invalid, missing_extra

_LOCAL = re.compile(r"local(?::([1-9]\d{0,3}))?")
PATIENCE = 10
"""Seconds to wait for a scheduler that does not answer when a client connects."""

SILENCE = 60.0
"""Seconds after which a scheduler that does not answer counts as gone."""


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Give an executor that runs on the workers of a Dask cluster.

    Parameters
    ----------
    address : str
        That of a running scheduler, such as ``tcp://host:8786``; or ``local``, which starts a
        process per core on this machine and ends them afterwards; or ``local:4``.

    Yields
    ------
    concurrent.futures.Executor
        For the ``executor`` of `simulate`.
    """
    local = _LOCAL.fullmatch(address)
    if not local and not re.fullmatch(r"[a-z]+://\S+", address):
        expected = "an address such as tcp://host:8786, or local"
        raise invalid("cluster", "bothworlds", expected, address)
    try:
        import distributed
    except ImportError as error:
        raise missing_extra("cluster", "distributed") from error
    _quieten()
    with contextlib.ExitStack() as last, contextlib.ExitStack() as stack:
        place: Any = address
        if local:
            count = int(local[1]) if local[1] else os.cpu_count() or 1
            place = stack.enter_context(_local(distributed, count))
        try:
            client = distributed.Client(place, timeout=PATIENCE)
        except (OSError, TimeoutError, ValueError, ImportError) as error:
            raise ClusterError(
                f"The scheduler at {address} does not answer ({type(error).__name__})."
            ) from error
        stack.callback(_close, client)
        try:
            # Tasks are not pure: a shard that is handed out again has to run again.
            yield client.get_executor(pure=False)
        finally:
            last.enter_context(_unhurried())


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
            raise invalid("executor", "simulate", expected, executor)
        self._slots, self._asked = 0, float("-inf")
        self._tasks: weakref.WeakKeyDictionary[Future[Any], Any] = weakref.WeakKeyDictionary()

    def slots(self) -> int:
        """Return the number of threads of all workers."""
        # Asking takes some milliseconds.
        if time.monotonic() - self._asked > 1.0:
            try:
                answer = self._client.sync(self._client.scheduler.ncores, callback_timeout=SILENCE)
            except Exception as error:
                raise gone(error) from error
            self._slots = sum(answer.values())
            self._asked = time.monotonic()
        return self._slots

    def _send(self, shard: Sequence[TileJob], stamped: str) -> Future[list[TileOutcome]]:
        future: Future[list[TileOutcome]] = Future()
        # Not pure: a shard that is handed out again has to run again.
        options = {**getattr(self._executor, "_kwargs", {}), "pure": False}
        task = self._client.submit(run_shard, shard, stamped, **options)
        self._tasks[future] = task
        task.add_done_callback(functools.partial(_deliver, future))
        return future

    def stop(self, running: Iterable[Future[list[TileOutcome]]]) -> None:
        """Cancel everything; a scheduler that is gone is ignored."""
        tasks = [self._tasks[future] for future in running if future.cancel()]
        with contextlib.suppress(Exception):
            self._client.cancel(tasks)


def _deliver(future: Future[list[TileOutcome]], task: Any) -> None:
    """Give a future the result of a task of Dask's, or its error; the future always ends."""
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


def _quieten() -> None:
    """Keep Dask from reporting every lost connection and worker: the campaign reports those."""
    # Some of its loggers have levels of their own.
    for name in ["distributed", *logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _local(distributed: Any, workers: int) -> Any:
    """Return a cluster of processes on this machine, reachable from this machine only."""
    try:
        with _alone_with_ctrl_c():
            return distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            )
    except (OSError, RuntimeError, TimeoutError) as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ClusterError(f"No workers could be started on this machine ({reason}).") from error


@contextlib.contextmanager
def _alone_with_ctrl_c() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started here, now and by threads started here.

    A terminal sends it to all processes, and this process ends the other ones in good order.
    """
    if not hasattr(signal, "pthread_sigmask"):  # not on Windows
        yield
        return
    # Started later, it would let the signal through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _unhurried() -> Iterator[None]:
    """Ignore one more Ctrl-C while workers are ended; the next one interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT) or signal.SIG_DFL
    signal.signal(signal.SIGINT, lambda *pressed: signal.signal(signal.SIGINT, before))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _close(client: Any) -> None:
    """Leave the cluster, even if its scheduler is gone."""
    with contextlib.suppress(Exception):
        client.close(timeout=2)
