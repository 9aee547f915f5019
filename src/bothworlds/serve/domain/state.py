"""State of a service: shared by the parts of a `Service`, all of it in the event loop.

Other threads write (`bothworlds.serve.store.commit`) and read; they never see this object.  Work
for a reading thread is a function that is given its `Reader`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from bothworlds.errors import StoreError
from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.experiment import Experiments
from bothworlds.serve.domain.sums import Counts, StateKey, StateLedger
from bothworlds.serve.domain.tokens import Keyring
from bothworlds.serve.ops.away import READ, REPORT, Away, Desk
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.commit import Committer
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import Configuration, KeyRow

T = TypeVar("T")

DAY = 86_400.0
CHUNK = 32
"""Decisions or answers of a batch that are handled before other requests have their turn."""

COUNTERS = (
    "decisions", "learned", "duplicates", "quarantined", "not_learnable", "swept",
    "contradictions", "overloaded",
)  # fmt: skip
"""Counters of a service since its start; each is a metric."""


@dataclass(frozen=True)
class Settings:
    """Settings of a running service.

    Parameters
    ----------
    poll_seconds : float
        How often this replica polls the other replicas and the configuration.
    sweep_seconds, checkpoint_seconds : float
        How often the service looks for missing feedback, and notes the state for charts.
    log_buffer : int
        How many decisions may wait for the log.
    retention_days : float, optional
        After how many days the log is deleted; by default never.
    state_age_limit : float
        Age of the other replicas' states, in seconds, beyond which the service is not ready.
    recovery_seconds : float
        How long writes must have succeeded after a failure before the service is ready again.
    """

    poll_seconds: float = 0.2
    sweep_seconds: float = 5.0
    checkpoint_seconds: float = 10.0
    log_buffer: int = 65_536
    retention_days: float | None = None
    state_age_limit: float = 10.0
    recovery_seconds: float = 5.0


class State:
    """Shared state of the parts of a service.

    Parameters
    ----------
    store : Store
        Where everything is kept.
    settings : Settings
        How the service runs.

    Attributes
    ----------
    experiments : Experiments
        The experiments in memory.
    counters : dict of str to int
        `COUNTERS`, since the start.
    ledger, committer : StateLedger, Committer
        This replica's states, and the thread that writes them.
    configuration : Configuration
        The newest that was read; the next three follow from it.
    keyring : Keyring
        The token keys.
    keys : dict of str to KeyRow
        The API keys by id, revoked ones included.
    verified_keys : dict of str to Principal
        API keys that callers have sent and that are valid; a new dictionary with every
        configuration, so that its identity shows whether anything may have changed.
    closing : bool
        Whether the service is stopping.
    lost : str or None
        Why the store can no longer be used until a restart, if it cannot.
    offset : float
        Seconds by which the database's clock is ahead of this machine's, as last measured.
    latest : float
        Time of the newest decision, here or by an earlier run.
    away : Away or None
        The process that makes reports, exports and pages, if there is one.
    """

    configuration: Configuration
    keyring: Keyring

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.closing = False
        self.lost: str | None = None
        self.offset = 0.0
        self.latest = 0.0
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.experiments = Experiments()
        self.keys: dict[str, KeyRow] = {}
        self.verified_keys: dict[str, Principal] = {}
        self.counts: dict[StateKey, Counts] = {}
        self.ledger = StateLedger(store.replica, self.counts)
        self.committer = Committer(
            store.writer, self.ledger, self.loop, self.experiments.learned, settings.log_buffer,
            settings.recovery_seconds,
        )  # fmt: skip
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="bothworlds-read")
        # Everything else that is read must not wait for a report.
        self._reporting = ThreadPoolExecutor(1, thread_name_prefix="bothworlds-report")
        # Where other replicas write as well, a long export must not delay polling.
        self._watching = (
            ThreadPoolExecutor(1, thread_name_prefix="bothworlds-watch")
            if store.has_peers
            else self._reading
        )
        self.away: Away | None = None
        self._streams = itertools.count(1)
        self.desks = {
            READ: (self._reading, Desk(store.reader)),
            REPORT: (self._reporting, Desk(store.reporter, self.check_open)),
        }

    def now(self) -> float:
        """Return the time by the database's clock, which all replicas share."""
        return time.time() + self.offset

    def check_open(self) -> None:
        """Refuse if the service is stopping, or its store is lost."""
        if self.closing:
            raise Problem("shutting_down", retry_after=1.0)
        if self.lost is not None:
            raise Problem("store_unavailable", self.lost)

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Let the reading thread call ``work`` with its connection."""
        return await self._call(self._reading, work, self.store.reader)

    async def watch(self, work: Callable[[Reader], T]) -> T:
        """Let the thread that polls call ``work`` with its connection."""
        return await self._call(self._watching, work, self.store.watcher)

    async def report(self, work: Callable[..., T], *arguments: Any) -> T:
        """Let the process of the server, or the thread of reports, call ``work`` with a desk."""
        return await self._away(REPORT, self.away, work, *arguments)

    async def look_up(self, work: Callable[..., T], *arguments: Any) -> T:
        """Let the process of the server call ``work`` with a desk; a thread, until it has started.

        For pages, which must not wait until it has.
        """
        return await self._away(READ, self._started(), work, *arguments)

    async def compute(self, work: Callable[..., T], *arguments: Any) -> T:
        """Let the process of the server call ``work``; some thread, until it has started."""
        away = self._started()
        if away is None:
            return await asyncio.to_thread(work, *arguments)
        found: T = await away.call(READ, _computed, work, *arguments)
        return found

    async def stream(
        self, make: Callable[..., Iterator[T]], *arguments: Any
    ) -> AsyncGenerator[T, None]:
        """Yield the pieces of ``make``, in the process of the server or the reading thread."""
        number, away = next(self._streams), self.away
        await self._away(READ, away, Desk.begin, number, make, *arguments)
        try:
            while (piece := await self._away(READ, away, Desk.piece, number)) is not None:
                yield piece
        finally:
            with contextlib.suppress(Problem):
                await self._away(READ, away, Desk.end, number)

    def _started(self) -> Away | None:
        """Return the process if it takes work at once, else start it."""
        if self.away is None or self.away.up:
            return self.away
        self.away.start()
        return None

    async def _away(
        self, lane: int, away: Away | None, work: Callable[..., T], *arguments: Any
    ) -> T:
        self.check_open()
        if away is None:
            thread, desk = self.desks[lane]
            return await self._call(thread, lambda reader: work(desk, *arguments), desk.reader)
        found: T = await away.call(lane, work, *arguments)
        return found

    async def _call(
        self, thread: ThreadPoolExecutor, work: Callable[[Reader], T], reader: Reader
    ) -> T:
        # The driver fails, or a new connection finds a store that went back in time.
        failures: tuple[type[Exception], ...] = (*self.store.failures, StoreError)
        try:
            return await self.loop.run_in_executor(thread, work, reader)
        except failures as error:
            raise Problem("store_unavailable", retry_after=1.0) from error

    def close(self, *, wait: bool) -> None:
        """End the threads and the process that read, and close the store."""
        if self.away is not None:
            self.away.close()
        self._reading.shutdown(wait, cancel_futures=True)
        self._watching.shutdown(wait, cancel_futures=True)
        self._reporting.shutdown(wait, cancel_futures=True)
        self.store.close()


def _computed(desk: Desk, work: Callable[..., T], *arguments: Any) -> T:
    return work(*arguments)
