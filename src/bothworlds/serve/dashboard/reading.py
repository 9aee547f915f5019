"""Reading for the dashboard: the data of its pages, bounded and cached for some seconds.

However long a history is, a page reads the newest decisions, the checkpoints, which the store
thins, and counts by index. Reports are computed in a thread and shared by all viewers.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from bisect import bisect_right
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bothworlds.evidence import bounds
from bothworlds.evidence.report import Report
from bothworlds.inference import report as inferred
from bothworlds.logs.record import LoggedDecision
from bothworlds.serve.domain import records
from bothworlds.serve.domain.draws import UNIT
from bothworlds.serve.domain.state import DAY
from bothworlds.serve.domain.tokens import first_identity
from bothworlds.serve.ops.experts import Experts
from bothworlds.serve.ops.logs import LOGGER
from bothworlds.serve.ops.tallies import frontier
from bothworlds.serve.ops.upkeep import GRACE
from bothworlds.serve.store import dashboard as queries
from bothworlds.serve.store.rows import from_bytes

if TYPE_CHECKING:
    from bothworlds.serve.domain.answers import Principal
    from bothworlds.serve.domain.experiment import Snapshot
    from bothworlds.serve.domain.service import Service
    from bothworlds.serve.store.reader import Reader
    from bothworlds.serve.store.rows import AuditRow, CheckpointRow, LogRow, ReplicaRow

T = TypeVar("T")

WINDOW = 10_000
"""How many of the newest decisions the window has."""
HELD = WINDOW // 2
"""Decisions of the window that a pending one can hold back, as in `ops.tallies`."""
REPORTED = 64
"""The most arms on which a page reports; a report compares every pair."""
POINTS = 120
"""How many points a chart has at most."""
BINS = 50
"""How many stretches of time the means over time have at most."""
FEWEST = 5
"""Answers in a stretch of time before its mean is drawn."""
RATE_SECONDS = 10.0
"""Over how many seconds decisions a second are counted."""
COUNTED_AT_MOST = 100_000
"""Largest count; counting stops there."""
ENTRIES = 200
"""How many answers are kept."""
CONFIDENCE = 0.95
LAGS = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, DAY)
"""Ends of the histogram of lags, in seconds; the last bar is beyond them."""
LAG_NAMES = ("< 0.1 s", "< 1 s", "< 10 s", "< 1 min", "< 10 min", "< 1 h", "< 1 day", "longer")


@dataclass
class Counted:
    """Decisions of one arm in the window, by the state of their feedback."""

    decided: int = 0
    answered: int = 0
    missing: int = 0
    pending: int = 0
    quarantined: int = 0


@dataclass(frozen=True)
class Window:
    """The newest decisions: their feedback, and the statistics of the arms."""

    rows: int
    since: float | None
    arms: dict[str, Counted]
    lags: tuple[int, ...]
    report: Report | None
    sure: tuple[tuple[Any, Any, float], ...]
    """Better arm, worse arm, by at least how much."""
    strict: dict[str, tuple[float, float] | None]
    """Interval of the mean of every arm, valid for all arms at once; None where the mean moved."""
    experts: Experts | None = None
    """Statistics of the experts, if there are any."""
    waiting: int = 0
    """Answers that are not counted yet, because an earlier decision is pending."""

    @property
    def unanswered(self) -> int:
        """How many decisions have no answer that counts."""
        return sum(each.decided - each.answered for each in self.arms.values())


@dataclass(frozen=True)
class ChartHistory:
    """Where an experiment stood at some moments of its epoch, oldest first."""

    at: list[float]
    shares: NDArray[np.float64]
    """(moments, arms)"""
    weights: NDArray[np.float64]
    """(moments, experts)"""
    told: NDArray[np.int64]
    lost: NDArray[np.int64]
    last: int
    """The newest checkpoint there is."""

    def means(self, scale: tuple[float, float]) -> tuple[list[float], list[list[float | None]]]:
        """Return moments, and the mean loss of every arm in the stretch before each of them."""
        if len(self.at) < 2:
            return [], []
        cuts = np.unique(np.linspace(0, len(self.at) - 1, min(BINS, len(self.at))).astype(int))
        told = np.diff(self.told[cuts], axis=0)
        lost = np.diff(self.lost[cuts], axis=0)
        low, high = scale
        found: list[list[float | None]] = [
            [
                float(low + spent * UNIT / count * (high - low)) if count >= FEWEST else None
                for count, spent in zip(told[:, arm].tolist(), lost[:, arm].tolist(), strict=True)
            ]
            for arm in range(told.shape[1])
        ]
        return [self.at[cut] for cut in cuts[1:]], found


@dataclass(frozen=True)
class Facts:
    """Counts of one experiment that the memory of the service does not hold."""

    rate: float
    """Decisions a second."""
    lag: float | None
    """Median seconds from a decision to its feedback, of the newest that have some."""
    quarantined: dict[int, int]
    """By the place of the arm."""
    replicas: list[ReplicaRow]
    changes: list[AuditRow]
    """The newest first."""
    rewarded: bool
    """Whether the newest feedback came as a reward."""


class Watching:
    """Read the content of pages, and cache it for the next viewers.

    Parameters
    ----------
    service : Service
        The service whose experiments are displayed.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept: dict[Any, _Entry] = {}

    async def window(self, who: Principal, name: str, patience: float) -> Window | None:
        """Return statistics of the newest decisions, None if they take over ``patience``."""
        return await self._shared(who, name, "window", 5.0, patience, _newest)

    async def history(self, who: Principal, name: str, patience: float) -> ChartHistory | None:
        """Return where the experiment stood over time."""
        return await self._shared(who, name, "history", 5.0, patience, _checkpoints)

    async def facts(self, who: Principal, name: str, patience: float) -> Facts | None:
        """Return counts that the store knows."""
        work = partial(_facts, own=self._service.store.replica.shard)
        return await self._shared(who, name, "facts", 1.0, patience, work)

    async def _shared(
        self,
        who: Principal,
        name: str,
        kind: str,
        fresh: float,
        patience: float,
        work: Callable[[Reader, Snapshot], T],
    ) -> T | None:
        """Return a recent value, or compute it; one computation at a time for all viewers."""
        stamp = self._service.version_key(who, name)
        entry = self._kept.pop((who.tenant, name, kind), None)
        if entry is None or entry.stamp != stamp:
            entry = _Entry(stamp)
        # The newest is at the end; the least recently requested one is evicted first.
        self._kept[who.tenant, name, kind] = entry
        while len(self._kept) > ENTRIES:
            self._kept.pop(next(iter(self._kept)))
        found: T | None = entry.value
        if found is not None and time.monotonic() - entry.at < max(fresh, 20 * entry.took):
            return found
        if entry.task is None or entry.task.done():
            reading = self._service.looked_up(who, name, work)
            entry.task = asyncio.get_running_loop().create_task(entry.make(reading))
        await asyncio.wait([entry.task], timeout=patience)
        found = entry.value
        return found


class _Entry:
    """A value that was read, when, and the task that reads it again."""

    def __init__(self, stamp: Any) -> None:
        self.stamp = stamp
        self.value: Any = None
        self.at = 0.0
        self.took = 0.0
        self.task: asyncio.Task[None] | None = None

    async def make(self, reading: Coroutine[Any, Any, Any]) -> None:
        begun = time.monotonic()
        try:
            self.value = await reading
        except Exception as error:
            LOGGER.warning("the dashboard could not read: %s", error)
            return
        # A run that had to compile first does not predict the next one.
        self.at = time.monotonic()
        self.took = min(1.0, self.at - begun)


# --- in another process ------------------------------------------------------------------------


def _newest(reader: Reader, experiment: Snapshot) -> Window:
    after = queries.nth_newest(reader, experiment.id, WINDOW)
    now = time.time()
    rows = reader.log(experiment.id, after, first_identity(now + DAY), WINDOW)
    return counted(rows, experiment, now, reader.swept(experiment.id))


def _checkpoints(reader: Reader, experiment: Snapshot) -> ChartHistory:
    found = queries.some_checkpoints(reader, experiment.id, experiment.epoch, POINTS)
    return told_by(found, experiment.known, len(experiment.config.experts))


def _facts(reader: Reader, experiment: Snapshot, own: int) -> Facts:
    now = time.time()
    recent = queries.count_since(
        reader, experiment.id, first_identity(now - RATE_SECONDS), COUNTED_AT_MOST
    )
    lags = [
        max(0.0, told - int.from_bytes(id[:6], "big") / 1000.0)
        for id, told in queries.newest_feedback(reader, experiment.id, 200)
    ]
    held: dict[int, int] = {}
    for row in reader.quarantined(experiment.id, 1000):
        epoch, arm = records.epoch_and_arm(row.record)
        if epoch == experiment.epoch:
            held[arm] = held.get(arm, 0) + 1
    return Facts(
        recent / RATE_SECONDS,
        statistics.median(lags) if lags else None,
        held,
        queries.replicas(reader, experiment.id, experiment.epoch, own),
        queries.changes_of(reader, experiment.tenant, experiment.name, 50),
        queries.rewarded(reader, experiment.id)
        if experiment.rewarded is None
        else experiment.rewarded,
    )


def counted(rows: list[LogRow], experiment: Snapshot, now: float, swept: bytes = b"") -> Window:
    """Return the statistics of some rows of the log, those of the current epoch.

    What is reported on is what `bothworlds.serve.ops.reports` reports on: decisions that can be
    learned from, and feedback that was, in the order of the decisions. Missing feedback is filled
    in up to ``swept``.
    """
    names = [arm.name for arm in experiment.arms]
    low, high = experiment.config.bounds
    window = experiment.config.feedback_window
    arms: dict[str, Counted] = {}
    lags = [0] * len(LAG_NAMES)
    learnable: list[tuple[LogRow, records.Record]] = []
    experts = Experts(experiment.config.experts) if experiment.config.experts else None
    since = None
    for row in rows:
        record = records.decode(row.record)
        if record.epoch != experiment.epoch or record.arm >= len(names):
            continue
        since = record.at if since is None else since
        name = names[record.arm]
        count = arms.setdefault(name, Counted())
        count.decided += 1
        if row.status == "quarantined":
            # It waits in quarantine for an administrator.
            count.quarantined += 1
        elif row.loss is not None and row.source == "client":
            count.answered += 1
        elif row.loss is not None or now - record.at > window:
            count.missing += 1
        else:
            count.pending += 1
        if row.told_at is not None and row.source == "client":
            lags[bisect_right(LAGS, row.told_at - record.at)] += 1
        if record.learnable:
            learnable.append((row, record))
    over = first_identity(now - window - GRACE)
    upto = over if experiment.config.missing == "drop" else swept
    unanswered = np.array([row.status is None for row, _ in learnable], bool)
    ready = frontier([row.id for row, _ in learnable], unanswered, upto, HELD)
    decisions: list[LoggedDecision] = []
    waiting = 0
    for place, (row, record) in enumerate(learnable):
        loss = None
        if row.loss is not None and row.status == "learned":
            if place < ready:
                loss = low + row.loss * (high - low)
                if experts is not None:
                    experts.observe(record.advice, record.inverse_p, row.loss)
            else:
                waiting += 1
        decisions.append(
            LoggedDecision(
                place + 1, names[record.arm], min(1.0, 1.0 / record.inverse_p), loss=loss
            )
        )
    total = sum(each.decided for each in arms.values())
    active = [names[place] for place in experiment.active]
    if not decisions or len({*arms, *active}) > REPORTED:
        return Window(total, since, arms, tuple(lags), None, (), {}, experts, waiting)
    # Where experts advise, the arm depends on the context, and so does its mean: it moves.
    advised = experts is not None
    made = inferred(
        decisions, confidence=CONFIDENCE, drift=advised, bounds=(low, high), arms=active
    )
    if advised:
        sure = tuple(made.sure())
        return Window(total, since, arms, tuple(lags), made, sure, {}, experts, waiting)
    # An alarm is about all arms at once.
    surer = min(0.999, 1.0 - (1.0 - CONFIDENCE) / len(made))
    strict = {
        str(name): made.units.pair(bounds.sequence(made.evidence, place, surer))
        for place, name in enumerate(made)
    }
    sure = tuple(made.sure())
    return Window(total, since, arms, tuple(lags), made, sure, strict, waiting=waiting)


def told_by(rows: list[CheckpointRow], known: int, experts: int) -> ChartHistory:
    """Return the series of some checkpoints, for this many arms and experts."""
    last = rows[-1].id if rows else 0
    size = len(rows), known
    shares, weights = np.full(size, np.nan), np.full((len(rows), experts), np.nan)
    told, lost = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for place, row in enumerate(rows):
        some, weighed = row.shares()
        some, weighed = some[:known], weighed[:experts]
        shares[place, : some.size] = some
        weights[place, : weighed.size] = weighed
        for target, raw in ((told, row.told), (lost, row.lost)):
            values = from_bytes(raw)[:known]
            target[place, : values.size] = values
    return ChartHistory([row.at for row in rows], shares, weights, told, lost, last)
