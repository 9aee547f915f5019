"""Scheduler of a campaign: hand out its shards and collect their results."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from typing import Any

from bothworlds.campaign.continuing import from_the_start, whole
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.progress import Progress, reporting
from bothworlds.campaign.store import Store
from bothworlds.campaign.work_queue import WorkQueue
from bothworlds.campaign.workers import Remote, Workers
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.tile import TileJob
from bothworlds.errors import BothworldsError, ClusterError, ResultFileError

ATTEMPTS = 3
"""How often a shard is handed out whose worker is lost."""

WORRY = 5.0
"""Seconds without any work here after which the campaign reports the reason."""

NEAR, KEPT, FAR = 0.02, 0.2, 0.5
"""Seconds a shard takes at least in a thread, in a thread if it is kept, and elsewhere: handing
it out, keeping it and sending it then take a few per cent of that."""

Future_ = Future[list[TileOutcome]]


def workers_of(executor: Executor) -> Remote:
    """Return the workers behind an executor."""
    client = getattr(executor, "_client", None)
    if not hasattr(client, "scheduler"):
        return Remote(executor)
    from bothworlds.campaign.dask import Dask

    return Dask(executor)


class Campaign:
    """Curves, and the tiles of them that have to be run.

    Parameters
    ----------
    curves : sequence of Curve
        What is run.
    jobs : sequence of sequence of TileJob
        For every curve its tiles that have to be run, in the order of their repetitions.
    workers : Workers
        Where they run.
    take : callable
        Takes the number of a curve and outcomes that follow one another.
    complete : callable, optional
        Takes the number of every curve whose last tile is finished.
    store : Store, optional
        Where other processes may be keeping what they have finished of the same campaign.
    abreast : bool
        Whether all curves go forward together, or one after the other.
    show : bool or callable
        As the ``progress`` of `simulate`.
    say : callable
        Takes a sentence about workers that are lost.
    """

    def __init__(
        self,
        curves: Sequence[Curve],
        jobs: Sequence[Sequence[TileJob]],
        workers: Workers,
        take: Callable[[int, list[TileOutcome]], Any],
        *,
        complete: Callable[[int], Any] | None = None,
        store: Store | None = None,
        abreast: bool = False,
        show: bool | Callable[[Progress], Any] = False,
        say: Callable[[str], Any] = print,
    ) -> None:
        self._curves, self._workers, self._take, self._store = curves, workers, take, store
        self._complete = complete or (lambda index: None)
        self._say = say
        shortest = FAR if not workers.live else NEAR if store is None else KEPT
        self._queue = WorkQueue(curves, jobs, shortest, abreast)
        self._unfinished = [len(each) for each in jobs]
        self._running: dict[Future_, tuple[int, list[TileJob]]] = {}
        self._elsewhere: list[tuple[int, TileJob]] = []
        self._lost: Counter[tuple[int, int]] = Counter()
        self._slots = 1
        self._looked = self._had_workers = self._had_work = time.monotonic()
        rounds = sum(job.rounds * job.count for each in jobs for job in each)
        self._reporting = reporting(rounds, show, lambda: self._queue.left(self._slots))

    def run(self) -> bool:
        """Run everything; return whether Ctrl-C ended it early. Finished tiles are taken over."""
        with self._reporting as self._report:
            return self._run()

    def _run(self) -> bool:
        try:
            while self._running or self._elsewhere or self._queue:
                self._hand_out()
                # A timeout lets Ctrl-C through while all threads are in compiled code.
                done = wait(self._running, timeout=0.2, return_when=FIRST_COMPLETED).done
                self._warn_without_work()
                if not self._running:
                    time.sleep(0.2)
                self._hand_out()
                for future in done:
                    self._collect(future)
                self._workers.check()
                self._look_elsewhere()
        except KeyboardInterrupt:
            self._wind_up()
            return True
        except ClusterError as error:
            self._wind_up()
            if self._store is not None:
                raise ClusterError(f"{error} Finished runs are kept.") from error
            raise
        except BaseException as error:
            self._wind_up()
            if isinstance(error, RuntimeError) and isinstance(error.__context__, KeyboardInterrupt):
                # A signal that comes while Python waits for a lock breaks the lock's own end, too.
                return True
            raise
        finally:
            self._workers.close()
            if self._store is not None:
                self._store.release_all()
        return False

    def _wind_up(self) -> None:
        """Stop, and still collect the finished shards."""
        self._workers.stop(self._running)
        for future in list(self._running):
            if self._workers.live or future.done():
                # What ended the campaign may well end this, too.
                with contextlib.suppress(Exception, CancelledError):
                    if future.exception() is None:
                        self._collect(future)

    def _hand_out(self) -> None:
        """Keep the workers busy."""
        self._slots = self._workers.slots()
        self._warn_without_workers()
        busy = sum(not future.done() for future in self._running)
        while self._queue and busy < self._workers.depth():
            index, most = self._queue.next(self._slots)
            shard = self._claim(index, most)
            if shard:
                future = self._workers.submit(shard, self._ticker(index))
                self._running[future] = index, shard
                busy += 1

    def _claim(self, index: int, most: int) -> list[TileJob]:
        """Take up to ``most`` tiles that follow one another, and that no other worker runs."""
        taken: list[TileJob] = []
        while len(taken) < most and (waiting := self._queue.waiting(index)):
            if taken and taken[-1].span[1] != waiting[0].span[0]:
                break
            job = self._queue.take(index)
            if self._mine(index, job):
                taken.append(job)
            elif taken:
                break
        return taken

    def _mine(self, index: int, job: TileJob) -> bool:
        """Reserve a tile; one that another process runs or has finished is not mine."""
        if self._store is None:
            return True
        curve = self._curves[index]
        if not self._store.reserve(curve.stem, job.span):
            self._elsewhere.append((index, job))
            return False
        if self._store.lacks(curve, job.span):
            return True
        self._release(index, job)
        self._count(index, job, job.rounds * job.count)
        self._finish(index, 1)
        return False

    def _look_elsewhere(self) -> None:
        """Once a second, put back shards of other processes, which may be done, or dead."""
        if time.monotonic() - self._looked > 1.0:
            self._looked = time.monotonic()
            reserved, self._elsewhere = self._elsewhere, []
            for index, job in reserved:
                self._queue.put_back(index, [job])

    def _collect(self, future: Future_) -> None:
        """Collect the shards that a worker has finished.

        Nothing is lost where Ctrl-C comes in between: what is still in ``_running`` is taken over
        then, and taking it over twice does no harm.
        """
        index, jobs = self._running[future]
        try:
            outcomes = future.result()
        except ResultFileError as error:
            self._start_over(index, jobs, error)
        except BothworldsError:
            raise
        except (Exception, CancelledError) as error:
            self._start_again(index, jobs, error)
        else:
            self._keep(index, jobs[: len(outcomes)], outcomes)
        del self._running[future]

    def _keep(self, index: int, finished: list[TileJob], outcomes: list[TileOutcome]) -> None:
        if not finished:
            return
        work = sum(self._queue.work(index, job) for job in finished)
        self._queue.measured(index, work, sum(each.wall for each in outcomes))
        self._take(index, [whole(*pair) for pair in zip(finished, outcomes, strict=True)])
        for job in finished:
            self._release(index, job)
            if not self._workers.live:
                self._count(index, job, job.rounds * job.count)
        self._finish(index, len(finished))

    def _finish(self, index: int, count: int) -> None:
        self._unfinished[index] -= count
        if self._unfinished[index] == 0:
            self._complete(index)

    def _release(self, index: int, job: TileJob) -> None:
        if self._store is not None:
            self._store.release(self._curves[index].stem, job.span)

    def _start_again(self, index: int, jobs: list[TileJob], error: BaseException) -> None:
        """Put back the shard of a lost worker; give up when it is lost several times."""
        name = self._curves[index].name
        # Dask itself tries a task on several workers before it raises this.
        if type(error).__name__ != "KilledWorker":
            raise self._workers.failure(error, name) from error
        self._lost[index, jobs[0].first] += 1
        if self._lost[index, jobs[0].first] >= ATTEMPTS:
            raise ClusterError(f"Every worker that ran {name} died.") from error
        self._say(f"Workers died while they ran {name}; their work starts again.")
        self._queue.put_back(index, jobs)

    def _start_over(self, index: int, jobs: list[TileJob], error: ResultFileError) -> None:
        """Put back runs that could not continue from a snapshot; they start over."""
        if not any(job.after for job in jobs):
            raise error
        name = self._curves[index].name
        self._say(f"{error} Runs of {name} that continue from it start over.")
        for job in jobs:
            self._count(index, job, -job.after * job.count)
        self._queue.put_back(index, [from_the_start(job) for job in jobs])

    def _ticker(self, index: int) -> Callable[[TileJob, int], None]:
        return lambda job, rounds: self._count(index, job, rounds)

    def _count(self, index: int, job: TileJob, rounds: int) -> None:
        """Count rounds, times repetitions, that were played of a curve; workers call it, too."""
        self._queue.played(index, rounds / job.count * self._queue.lanes(index, job.count))
        self._report(job.name, rounds, index)

    def _warn_without_workers(self) -> None:
        if self._slots > 0:
            self._had_workers = time.monotonic()
        elif time.monotonic() - self._had_workers > WORRY:
            self._say("The cluster has no workers at the moment; waiting for some.")
            self._had_workers = float("inf")

    def _warn_without_work(self) -> None:
        if self._running:
            self._had_work = time.monotonic()
        elif time.monotonic() - self._had_work > WORRY:
            self._say("Another process runs the remaining work; waiting for it.")
            self._had_work = float("inf")


def run_missing(
    curves: Sequence[Curve],
    store: Store,
    workers: Workers,
    finish: Callable[[], Any],
    *,
    keep: bool = False,
    take: Callable[[int, list[TileOutcome]], Any] | None = None,
    complete: Callable[[int], Any] | None = None,
    abreast: bool = False,
    show: bool | Callable[[Progress], Any] = False,
    say: Callable[[str], Any] = print,
) -> bool:
    """Run the missing parts of curves until nothing is missing.

    Parameters
    ----------
    curves : sequence of Curve
        What is wanted.
    store : Store
        Keeps what is finished.
    workers : Workers
        Where shards run.
    finish : callable
        Called when nothing is left to run. It reads the store; files that turn out to be damaged
        are missing then, and are run again.
    keep : bool
        Whether longer runs can continue where these end.
    take, complete : callable, optional
        As those of `Campaign`; outcomes are saved before they are taken.
    abreast, show, say
        As those of `Campaign`.

    Returns
    -------
    bool
        Whether Ctrl-C ended it early.
    """

    def save(index: int, outcomes: list[TileOutcome]) -> None:
        store.save(curves[index], outcomes)
        if take is not None:
            take(index, outcomes)

    while True:
        jobs = [store.jobs(curve, keep) for curve in curves]
        interrupted = Campaign(
            curves, jobs, workers, save, complete=complete, store=store, abreast=abreast,
            show=show, say=say,
        ).run()  # fmt: skip
        if interrupted:
            return True
        finish()
        if not any(store.missing(curve) for curve in curves):
            return False
