"""Workers of a Dask cluster: one that is running somewhere, or one made on this machine."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from multiprocessing import resource_tracker
from typing import Any

from bothworlds.errors import ClusterError, InvalidParameter, missing_extra, must

_LOCAL = re.compile(r"local(?::([1-9]\d{0,3}))?")
PATIENCE = 10
"""Seconds to wait for a scheduler that does not answer."""


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
        raise InvalidParameter(must("cluster", "bothworlds", expected, address))
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
            # Tasks are not pure: a shard that is handed out again is to run again.
            yield client.get_executor(pure=False)
        finally:
            last.enter_context(_unhurried())


def _quieten() -> None:
    """Keep Dask from reporting every lost connection and worker: what matters we say ourselves."""
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
    """Keep Ctrl-C from processes that are started here, now and by the threads that are made here.

    A terminal sends it to all of them, and this process ends the others in good order.
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
    """Do not let one more Ctrl-C get in between while workers are ended; the next one does."""
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
    """Leave the cluster; where its scheduler is gone, there is nothing to say good-bye to."""
    with contextlib.suppress(Exception):
        client.close(timeout=2)
