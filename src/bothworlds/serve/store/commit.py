"""Group commit: one thread that writes, and a batch of everything that arrived while it did.

The event loop hands in `Item`s and rows of the log.  The writing thread takes all that has
arrived, at most about `BATCH_ROWS` rows, writes it as one transaction and lets the event loop
answer.  It takes from one tenant after the other, and less while several of them write.
There is no timer in the way of an answer; rows of the log wait up to `LOG_SECONDS` for company,
and longer while many experiments decide often.
A batch is begun when the one before it is answered: a fast disk would otherwise be handed batches
of a few rows, each at the price of a whole one.  Where several tenants write, the first answers are
enough: a tenant must not wait until all those of another are given.

The thread owns this replica's states (`StateRow`): no other thread changes them.  When a commit
fails, no caller is answered that it was written, and the states are read again before the next one,
because a connection may break after the commit.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from bothworlds.serve.domain import records
from bothworlds.serve.domain.folds import Order
from bothworlds.serve.domain.sums import Counts, StateKey, StateLedger, StateRow, Sums
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.folding import Folds
from bothworlds.serve.store.rows import (
    Activation,
    Caps,
    Claimed,
    ClaimRow,
    DecisionRow,
    FeedbackRow,
    Stored,
    WriteBatch,
)
from bothworlds.serve.store.writer import Writer

BATCH_ROWS = 2048
"""Rows and items of a batch, give or take one item."""
SHARED, ANSWERS = 32, 2
"""While several tenants write: rows and items of a batch, as many rows of the log, and answers that
are given before the event loop does something else. No tenant waits long for the work of another.
"""
SHARED_SECONDS = 60.0
"""For how long several tenants are expected to write after they have."""
CHUNK = 1024
"""Rows of the log in a batch."""
LOG_SECONDS = 0.1
"""How long a row of the log waits for others.

Every statement makes the thread ask for the interpreter, which the event loop gives back and takes
for each request: it wakes up dozens of times before it gets it. Batches of half this size doubled
the CPU time of the log."""
LOG_LONGEST = 1.0
"""How long it waits at most for others of its experiment, where they are cheaper together."""
FEW_LOG_ROWS = 128
"""Rows of the log that are too few to be worth a longer wait."""
PATIENCE = 0.5
"""Longest pause before the log is tried again after a failure, in seconds."""

LOOP_SECONDS = 5.0
"""How long the thread waits for the event loop, which does nothing that takes long."""

_LOG = logging.getLogger("bothworlds.serve")
T = TypeVar("T")


@dataclass(slots=True)
class Written:
    """Outcome of an item: existing rows for each feedback, and for each claim."""

    feedback: Sequence[Stored | None]
    claims: Sequence[Claimed | None]


Answer = tuple[Callable[[Written | Problem], None], Written | Problem]
"""Callback after an item is written, with its arguments."""

_ONE_NEW = Written((None,), ())
"""Outcome of most items: their only feedback is new."""


@dataclass(slots=True)
class Item:
    """Rows of a tenant that are written together, and the callback in the loop."""

    done: Callable[[Written | Problem], None]
    tenant: int
    feedback: Sequence[FeedbackRow] = ()
    decisions: Sequence[DecisionRow] = ()
    claims: Sequence[ClaimRow] = ()
    activations: Sequence[Activation] = ()


@dataclass(slots=True)
class Job:
    """Something else for the writing thread, in a transaction of its own."""

    future: asyncio.Future[Any]
    work: Callable[[Writer], Any]
    tenant: ClassVar[int] = 0


class FairQueue:
    """Items and jobs that wait, taken from one tenant after the other.

    The event loop appends and clears, one other thread takes; neither waits for the other.

    Examples
    --------
    >>> queue = FairQueue()
    >>> for tenant in (1, 1, 1, 2):
    ...     queue.append(Item(print, tenant))
    >>> [item.tenant for item in queue.take()[0]]
    [1, 2, 1, 1]
    """

    def __init__(self) -> None:
        self._lines: dict[int, deque[Item | Job]] = {}
        self._latest: int | None = None
        self._shared_until = 0.0

    @property
    def shared(self) -> bool:
        """Whether several tenants have written lately."""
        return time.monotonic() < self._shared_until

    def __len__(self) -> int:
        return sum(map(len, list(self._lines.values())))

    def append(self, each: Item | Job) -> None:
        """Add an item or a job behind those of its tenant."""
        if each.tenant != self._latest and each.tenant:
            if self._latest is not None:
                self._shared_until = time.monotonic() + SHARED_SECONDS
            self._latest = each.tenant
        line = self._lines.get(each.tenant)
        if line is None:
            line = self._lines[each.tenant] = deque()
        line.append(each)

    def clear(self) -> list[Item | Job]:
        """Remove and return all there is."""
        return [each for line in self._lines.values() for each in _drained(line)]

    def take(self) -> tuple[list[Item], Job | None]:
        """Remove and return the items of a batch, and a job to be done after it.

        Every tenant that waits has at least one item among them, unless there is a job.
        """
        turns = deque(line for line in list(self._lines.values()) if line)
        most = SHARED if self.shared else BATCH_ROWS
        first = len(turns)
        items: list[Item] = []
        size = 0
        while turns and (first > 0 or size < most):
            line = turns.popleft()
            first -= 1
            try:
                each = line.popleft()
            except IndexError:
                # Empty, or cleared a moment ago.
                continue
            turns.append(line)
            if isinstance(each, Job):
                return items, each
            items.append(each)
            size += len(each.feedback) + len(each.decisions) + len(each.claims) + 1
        return items, None


def _drained(line: deque[T]) -> Iterator[T]:
    with suppress(IndexError):
        while True:
            yield line.popleft()


class Committer:
    """The writing thread and its queue.

    Parameters
    ----------
    writer : Writer
        The connection; no other thread uses it once this one has started.
    ledger : StateLedger
        The states, loaded already.
    loop : event loop
        Where answers are given.
    changed : callable
        Called in the loop with the states and the folds that a commit changed, before any caller is
        answered.
    log_limit : int
        How many rows of the log may wait.
    recovery_seconds : float
        How long writes must have succeeded after a failure before the store counts as well.
    """

    def __init__(
        self,
        writer: Writer,
        ledger: StateLedger,
        loop: asyncio.AbstractEventLoop,
        changed: Callable[[list[StateRow], Folds], None],
        log_limit: int,
        recovery_seconds: float = 0.0,
    ) -> None:
        self.writer = writer
        self.ledger = ledger
        self.log: deque[DecisionRow] = deque()
        self.log_limit = log_limit
        self.caps: Mapping[int, Caps] = {}
        self.orders: Mapping[int, Order] = {}
        self.commits = 0
        self.failures = 0
        self.failing: str | None = None
        self._failed_at = 0.0
        self._recovery_seconds = recovery_seconds
        self._loop = loop
        self._changed = changed
        self._queue = FairQueue()
        self._wake = threading.Event()
        self._asleep = False
        self._answered = threading.Event()
        self._answered.set()
        self._stopping = False
        self._due = False
        self._ripe = False
        # How long rows of the log wait, how many of them at most, and how many are in order.
        self._log_wait = LOG_SECONDS
        self._log_most = CHUNK
        self._ordered = 0
        self._pause = 0.0
        self._stale = False
        self._thread = threading.Thread(target=self._run, name="bothworlds-commit", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    # --- called by the event loop ----------------------------------------------------------------

    def submit(self, item: Item) -> None:
        """Hand an item in; its ``done`` is called with a `Written`, or a `Problem`."""
        self._queue.append(item)
        if self._asleep:
            # Until it is awake, no other item has to wake it.
            self._asleep = False
            self._wake.set()

    async def written(self, tenant: int, **rows: Any) -> Written:
        """Hand rows of an `Item` in and wait until they are written."""
        future: asyncio.Future[Written] = self._loop.create_future()
        self.submit(Item(partial(resolve, future), tenant, **rows))
        return await future

    def run(self, work: Callable[[Writer], T]) -> asyncio.Future[T]:
        """Let the writing thread call ``work`` with its writer, between two batches."""
        job = Job(self._loop.create_future(), work)
        self._queue.append(job)
        self._wake.set()
        return job.future

    async def flushed(self) -> None:
        """Wait until everything handed in so far is written, the log included."""
        while True:
            self._flush()
            # Asked in the thread, which has no row in its hands then.
            if await self.run(lambda writer: not self.log):
                return
            await asyncio.sleep(self._pause)

    def append(self, row: DecisionRow) -> None:
        """Add a row to the log; the caller has checked that there is `room`."""
        log = self.log
        log.append(row)
        if len(log) >= self._log_most:
            # To set what is set already takes a lock that the thread may hold.
            if not self._wake.is_set() and not self._pause:
                self._wake.set()
        elif not self._due:
            self._due = True
            self._loop.call_later(self._log_wait, self._flush)

    def start_over(self) -> None:
        """Refuse waiting items, drop the log, and read the states again.

        The store went back in time: rows that wait are of a time that it does not know.
        """
        self.log = deque()
        self._ordered = 0
        self._stale = True
        refused = []
        for each in self._queue.clear():
            if isinstance(each, Job):
                self._queue.append(each)
            else:
                refused.append(each.done)
        # After the queue is empty: a batch taken from it before is of an earlier life.
        self.ledger.life += 1
        self._refuse(refused)
        self._wake.set()

    @property
    def room(self) -> bool:
        """Whether another row of the log can wait."""
        return len(self.log) < self.log_limit

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return len(self._queue)

    def _flush(self) -> None:
        self._due = False
        self._ripe = True
        # After a failure the log waits for the end of a pause; callers end it at once.
        if not self._pause:
            self._wake.set()

    async def stop(self, seconds: float) -> bool:
        """Write all there is and end the thread; False if it could not be written in time."""
        self._stopping = True
        self._wake.set()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._thread.join, seconds)
        return not self._thread.is_alive() and not self.log

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            # Rows added after this line wake the thread; earlier ones are seen here.
            self._asleep = True
            if not self._queue:
                idle = None if self.failing is None else PATIENCE
                self._wake.wait(self._pause or (self._log_wait if self.log else idle))
            self._asleep = False
            self._answered.wait(LOOP_SECONDS)
            self._wake.clear()
            if not self._turn():
                return

    def _turn(self) -> bool:
        """Write the waiting items, once; return whether the thread continues."""
        life = self.ledger.life
        items, job = self._queue.take()
        rows = []
        # Few rows of the log in every batch would cost as much as many in one of them.
        if self._ripe or not items or len(self.log) >= self._log_most:
            self._ripe = False
            rows = self._log_rows(SHARED if self._queue.shared else CHUNK)
            self._ripe = self._ripe or self._ordered > 0
        if items or rows:
            self._commit(items, rows, life)
        if job is not None:
            self._work(job)
        elif self.failing is not None and not items and not rows and not self._stopping:
            self._probe()
        more = self._ordered or self._stopping or len(self.log) >= self._log_most
        if self.log and more and not self._pause:
            self._wake.set()
        return not (self._stopping and not self._queue and (not self.log or self._pause))

    def _log_rows(self, most: int) -> list[DecisionRow]:
        """Remove and return this many rows of the log, those of an experiment together."""
        # The event loop replaces the log once the store went back: rows must not follow it.
        log = self.log
        if not self._ordered and log:
            rows = list(islice(_drained(log), len(log)))
            rows.sort(key=itemgetter(0))
            log.extendleft(reversed(rows))
            self._ordered = len(rows)
            # So that the next time there are as many of each as are worth waiting for.
            wanted = self.writer.together * len({row[0] for row in rows})
            wanted = min(wanted, self.log_limit // 2)
            longest = LOG_LONGEST if len(rows) >= FEW_LOG_ROWS else LOG_SECONDS
            wait = self._log_wait * wanted / len(rows)
            self._log_wait = max(LOG_SECONDS, min(longest, wait))
            self._log_most = max(CHUNK, wanted) if len(rows) >= FEW_LOG_ROWS else CHUNK
        size = min(most, self._ordered)
        self._ordered -= size
        return list(islice(_drained(log), size))

    def _commit(self, items: list[Item], rows: list[DecisionRow], life: int) -> None:
        batch = WriteBatch(
            decisions=rows, caps=self.caps, orders=self.orders, folds=self.ledger.folds
        )  # fmt: skip
        first: dict[tuple[int, bytes], FeedbackRow] = {}
        for item in items:
            for row in item.feedback:
                # The first of several for one decision counts, as if it had come alone.
                first.setdefault(row[:2], row)
            if item.decisions:
                batch.decisions = [*batch.decisions, *item.decisions]
            batch.claims += item.claims
            batch.activations += item.activations
        # In one order on every replica, so that no two wait for each other.
        batch.feedback = sorted(first.values())
        raws = [row.record for row in batch.decisions]
        raws += [claim.decision.record for claim in batch.claims if claim.decision is not None]
        places = {records.place(raw) for raw in raws}
        decided = {(*records.PLACE.unpack(place), b""): 0.0 for place in places}
        for raw in raws:
            segment = records.segment_of(raw)
            if segment:
                key = *records.PLACE.unpack(records.place(raw)), segment
                at = records.made_at(raw[records.IDENTITY : records.INVERSE_P])
                decided[key] = max(at, decided.get(key, 0.0))
        try:
            self._reread()
            settle = partial(self.ledger.settle, decided=decided, life=life)
            outcome = self.writer.commit(batch, settle)
        except Exception as error:
            self._failed(error, items, rows if life == self.ledger.life else [])
            return
        self.ledger.states.update((row.key, row) for row in outcome.states)
        # The event loop has counted already.
        learned = [row for row in outcome.states if not row.counted]
        self.ledger.folds.update(outcome.folds)
        self.commits += 1
        self._succeeded()
        answers: list[Answer] = []
        place = 0
        known = outcome.told_before or outcome.over_caps
        all_new = not known and len(first) == sum(len(i.feedback) for i in items)
        for item in items:
            written = _ONE_NEW
            if not all_new or item.claims or len(item.feedback) != 1:
                told: list[Stored | None] = []
                for row in item.feedback:
                    key = row[:2]
                    before = outcome.told_before.get(key)
                    if before is None and (first[key] is not row or key in outcome.over_caps):
                        status = first[key].status
                        if key in outcome.over_caps:
                            status = "quarantined"
                        before = Stored(first[key].loss, status, now=first[key] is row)
                    told.append(before)
                claims = [outcome.claimed_before.get(place + n) for n in range(len(item.claims))]
                place += len(item.claims)
                written = Written(told, claims)
            answers.append((item.done, written))
        self._answered.clear()
        self._post(self._answer, learned, outcome.folds, answers)

    def _reread(self) -> None:
        """Read the states again after a failure, or once this replica has another number."""
        if not self._stale and self.ledger.shard == self.writer.replica.shard:
            return
        former, shard = self.ledger.states, self.ledger.shard
        self.ledger.folds.clear()
        rows = self.ledger.load(self.writer.own_states())
        if self.ledger.shard != shard:
            # What was written under the earlier number is another replica's now.
            now = dict(self.ledger.states)
            for key in former.keys() - now.keys():
                rows.append(StateRow(*key, self.ledger.shard, 0, Sums.blank(0), Counts()))
            done = threading.Event()
            self._post(self._recount, former, now, done)
            done.wait(LOOP_SECONDS)
        self._post(self._changed, rows, {})
        self._stale = False

    def _failed(self, error: Exception, items: list[Item], rows: list[DecisionRow]) -> None:
        """Answer that nothing was written, keep the log's rows, and read the states again."""
        self._note_failure(error)
        self.log.extendleft(reversed(rows))
        self._post(self._refuse, [item.done for item in items])

    def _note_failure(self, error: Exception) -> None:
        self.failures += 1
        self._failed_at = time.monotonic()
        self._pause = min(PATIENCE, 2 * self._pause or 0.02)
        self._stale = True
        if self.failing is None:
            _LOG.error("The store did not take a write: %s", error)
        self.failing = f"{type(error).__name__}: {error}"

    def _succeeded(self) -> None:
        """Note that a write was committed.

        A full disk takes a small write now and then: one success is not the end of a failure.
        """
        self._pause = 0.0
        if time.monotonic() - self._failed_at >= self._recovery_seconds:
            self.failing = None

    def _probe(self) -> None:
        """Write something, to learn whether the store takes writes again."""
        try:
            self._reread()
            self.writer.probe()
        except Exception as error:
            self._note_failure(error)
        else:
            self._succeeded()

    def _work(self, job: Job) -> None:
        try:
            self._reread()
            result = job.work(self.writer)
        except (LookupError, Problem) as refused:
            # The job's own refusal: its transaction was rolled back.
            self._post(resolve, job.future, refused)
        except Exception as error:
            self._note_failure(error)
            self._post(resolve, job.future, Problem("store_unavailable"))
        else:
            # No sign that the store takes writes: many jobs only read.
            self._post(resolve, job.future, result)

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The loop has ended without waiting for this thread.
            self._stopping = True

    # --- back in the event loop ------------------------------------------------------------------

    def _answer(self, states: list[StateRow], folds: Folds, answers: Sequence[Answer]) -> None:
        some = ANSWERS if self._queue.shared else len(answers)
        if states:
            self._changed(states, folds)
        for done, written in answers[:some]:
            try:
                done(written)
            except Exception:
                # Other callers wait as well.
                _LOG.exception("An answer could not be delivered.")
        if len(answers) > some:
            self._loop.call_soon(self._answer, [], {}, answers[some:])
        self._answered.set()

    def _recount(
        self,
        former: dict[StateKey, StateRow],
        now: dict[StateKey, StateRow],
        done: threading.Event,
    ) -> None:
        """Leave counts under an earlier number to it."""
        for key, counts in self.ledger.counts.items():
            for rows, sign in ((former, -1), (now, 1)):
                if key in rows:
                    counts.add(rows[key].decided, sign)
        done.set()

    def _refuse(self, waiting: list[Callable[[Written | Problem], None]]) -> None:
        self._answer(
            [], {}, [(each, Problem("store_unavailable", retry_after=1.0)) for each in waiting]
        )


def resolve(future: asyncio.Future[Any], outcome: object) -> None:
    """Resolve a future with its result, which may be an exception."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
