"""Work away from the event loop: a process that only reads, for reports, exports and pages.

Threads of one process share its interpreter: while one of them counts a report or writes an
export, every decision waits for it again and again. A server therefore has a second process with
connections of its own, which makes reports, exports and pages. It starts with the first of them
and yields the processor to the server. It writes nothing, so that it may be killed at any time:
its requests are answered 503, and the next one starts another process.

A service without a server, as in tests and commands, has no such process, and does the same work in
its threads. The work is a function of a module with arguments that can be pickled.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, BinaryIO

from bothworlds.serve.ops.logs import LOGGER
from bothworlds.serve.ops.tallies import Tallies
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.commit import resolve
from bothworlds.serve.store.opening import reading
from bothworlds.serve.store.reader import Reader

READ, REPORT = 0, 1
"""Threads of the process: no other work waits for a long report."""
LOOK = 1.0
"""How often the process looks for a connection that does not answer, in seconds."""
NICE = 10
"""By how much the process yields to others; the server's own work must not wait for it."""
PROGRAM = "import sys; sys.path[:] = {path!r}; from bothworlds.serve.ops.away import main; main()"


class Desk:
    """Tools of work away from the event loop: a connection, and sums that are kept.

    Parameters
    ----------
    reader : Reader
        The connection.
    check : callable
        Called now and then; raises if the work is to end.
    """

    def __init__(self, reader: Reader, check: Callable[[], None] = lambda: None) -> None:
        self.reader = reader
        self.check = check
        self.tallies = Tallies()
        self._streams: dict[int, Iterator[Any]] = {}

    def begin(self, number: int, make: Callable[..., Iterator[Any]], *arguments: Any) -> None:
        """Begin to make something piece by piece."""
        self._streams[number] = make(self.reader, *arguments)

    def piece(self, number: int) -> Any:
        """Return the next piece, None after the last."""
        if number not in self._streams:
            # Another process began it.
            raise Problem("store_unavailable", retry_after=1.0)
        return next(self._streams[number], None)

    def end(self, number: int) -> None:
        """Forget a stream of pieces."""
        self._streams.pop(number, None)


class Away:
    """The process, as the event loop sees it.

    Parameters
    ----------
    where : str
        The address of the store.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._child: _Child | None = None
        self._sending = ThreadPoolExecutor(1, thread_name_prefix="bothworlds-away")

    @property
    def up(self) -> bool:
        """Whether the process takes work at once."""
        return self._child is not None and self._child.up and not self._child.ended

    @property
    def pid(self) -> int | None:
        """The number of the process, if there is one."""
        return None if self._child is None else self._child.process.pid

    def start(self) -> _Child:
        """Start the process, unless there is one."""
        if self._child is None or self._child.ended:
            self._child = _Child(self._where)
        return self._child

    async def call(self, lane: int, work: Callable[..., Any], *arguments: Any) -> Any:
        """Let the process call ``work`` with a `Desk` and the arguments.

        Raises
        ------
        Problem
            What the work was refused with, or ``store_unavailable`` if the process ended.
        """
        child = self.start()
        number, future = child.expect()
        loop = asyncio.get_running_loop()
        # In a thread: pickling a page takes a millisecond, and the pipe may be full.
        await loop.run_in_executor(self._sending, child.send, number, lane, work, arguments)
        return await future

    def close(self) -> None:
        """End the process at once: it only reads."""
        self._sending.shutdown(False, cancel_futures=True)
        if self._child is not None:
            self._child.close()


class _Child:
    """A process that was started, and the answers that are expected of it."""

    def __init__(self, where: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.up = False
        self.ended = False
        self._closing = False
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._sink, self._source = self.process.stdin, self.process.stdout
        # Not an argument, which every user of the machine can read: it may have a password.
        self._dump(where)
        threading.Thread(target=self._receive, name="bothworlds-away", daemon=True).start()

    def expect(self) -> tuple[int, asyncio.Future[Any]]:
        """Return the number of a request, and the future of its answer."""
        number = next(self._numbers)
        future = self._waiting[number] = self._loop.create_future()
        if self.ended:
            self._fail()
        return number, future

    def send(self, number: int, lane: int, work: Callable[..., Any], arguments: Any) -> None:
        """Send a request; if the process has ended, its future knows."""
        self._dump((number, lane, work, arguments))

    def _dump(self, message: Any) -> None:
        with suppress(OSError, ValueError):
            pickle.dump(message, self._sink, pickle.HIGHEST_PROTOCOL)
            self._sink.flush()

    def _receive(self) -> None:
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                self._post(self._arrived, *pickle.load(self._source))
        self.ended = True
        self.process.wait()
        if not self._closing:
            LOGGER.error(
                "The process that makes reports ended with code %s.", self.process.returncode
            )
        self._post(self._fail)

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        # The loop may have ended.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    def _arrived(self, number: int, outcome: Any) -> None:
        self.up = True
        future = self._waiting.pop(number, None)
        if future is not None:
            resolve(future, outcome)

    def _fail(self) -> None:
        for number in list(self._waiting):
            self._arrived(number, Problem("store_unavailable", retry_after=1.0))

    def close(self) -> None:
        """End the process."""
        self._closing = True
        self.process.kill()
        self.process.wait()


# --- in the process -------------------------------------------------------------------------------


class _Lane:
    """A thread of the process, with a connection of its own."""

    def __init__(self, where: str) -> None:
        self._thread = ThreadPoolExecutor(1)
        self.reader, self._failures = reading(where)
        self._desk = Desk(self.reader)

    def submit(self, done: Callable[[Any], None], work: Callable[..., Any], given: Any) -> None:
        """Let the thread do some work."""
        self._thread.submit(lambda: done(self._outcome(work, given)))

    def _outcome(self, work: Callable[..., Any], given: Any) -> Any:
        try:
            return work(self._desk, *given)
        except Problem as problem:
            return problem
        except self._failures:
            return Problem("store_unavailable", retry_after=1.0)
        except Exception:
            return RuntimeError(traceback.format_exc())


def main() -> None:
    """Work for the server until it closes the pipe."""
    source: BinaryIO = sys.stdin.buffer
    sink = os.fdopen(os.dup(1), "wb")
    # Nothing else may write to the pipe.
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _yield_the_processor()
    where = pickle.load(source)
    lanes = [_Lane(where), _Lane(where)]
    lock = threading.Lock()

    def send(number: int, outcome: Any) -> None:
        with lock, suppress(OSError):
            pickle.dump((number, outcome), sink, pickle.HIGHEST_PROTOCOL)
            sink.flush()

    def look() -> None:
        while True:
            time.sleep(LOOK)
            for lane in lanes:
                lane.reader.look()

    threading.Thread(target=look, daemon=True).start()
    send(0, None)
    while True:
        try:
            number, lane, work, given = pickle.load(source)
        except (EOFError, OSError):
            # The server has ended, cleanly or not.
            os._exit(0)
        lanes[lane].submit(lambda outcome, number=number: send(number, outcome), work, given)


def _yield_the_processor() -> None:
    with suppress(AttributeError, OSError):
        # A server may run in real time (`chrt`), where niceness means nothing.
        if os.sched_getscheduler(0) in (os.SCHED_RR, os.SCHED_FIFO):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with suppress(AttributeError, OSError):
        os.nice(NICE)
