"""Service: experiments, decisions and feedback, without HTTP.

A `Service` belongs to one event loop.  Decisions are made in memory and answered without a look at
the disk, unless they are asked to be kept first; feedback is answered when it is committed.  Other
threads write (`bothworlds.serve.store.commit`) and read; what they find out is applied in the loop.

Refusals are `bothworlds.serve.problems.Problem`; whatever raises one has changed nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from bothworlds.arguments import is_number
from bothworlds.bandit.feedback import loss_within
from bothworlds.errors import InvalidFeedback
from bothworlds.protocol import DECISION_BATCH, FEEDBACK_BATCH
from bothworlds.serve.domain import records
from bothworlds.serve.domain.answers import (
    Decided,
    FeedbackItem,
    Principal,
    Replayed,
    Told,
    log_document,
)
from bothworlds.serve.domain.config import ArmSpec, Config, ExperimentSpec, check_arm, checked
from bothworlds.serve.domain.draws import MOST, is_warm, prepare, warm
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.keys import SCOPES, NewKey, key_document
from bothworlds.serve.domain.records import Record
from bothworlds.serve.domain.rules import check_request_key, check_unit
from bothworlds.serve.domain.sums import Counts, from_bytes
from bothworlds.serve.domain.tokens import (
    LAST_KEY,
    Identities,
    Keyring,
    first_identity,
    new_key,
    unit_hash,
)
from bothworlds.serve.ops.upkeep import CHECKPOINTS, DAY, PAGE, Upkeep
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.commit import Committer, Item, Ledger, Place, Written, resolve
from bothworlds.serve.store.opening import opened
from bothworlds.serve.store.rows import (
    Activation,
    ArmRow,
    AuditRow,
    Claimed,
    ClaimRow,
    Configuration,
    DecisionRow,
    ExperimentRow,
    FeedbackRow,
    KeyRow,
    StateRow,
    Stored,
)

__all__ = [
    "ArmSpec",
    "Decided",
    "ExperimentSpec",
    "FeedbackItem",
    "Principal",
    "Service",
    "Settings",
    "Told",
]

_LOG = logging.getLogger("bothworlds.serve")
T = TypeVar("T")

REQUEST_SECONDS = DAY
"""How long an Idempotency-Key is remembered."""
ATTEMPTS = 5
"""How often a change is tried that others keep overtaking."""
HOUR = 3600.0
_COLD = "This replica is still compiling the experiment's draws."


@dataclass(frozen=True)
class Settings:
    """How a service runs.

    Parameters
    ----------
    poll_seconds : float
        How often the other replicas and the configuration are looked at.
    sweep_seconds, checkpoint_seconds : float
        How often missing feedback is looked for, and the state is noted for charts.
    log_buffer : int
        How many decisions may wait for the log.
    retention_days : float, optional
        After how many days the log is deleted; by default never.
    state_age_limit : float
        At what age of the others' states the service is not ready.
    """

    poll_seconds: float = 0.2
    sweep_seconds: float = 5.0
    checkpoint_seconds: float = 10.0
    log_buffer: int = 65_536
    retention_days: float | None = None
    state_age_limit: float = 10.0


class Behind(Exception):
    """A token is about something that this replica does not know yet."""


class Service:
    """The decision service.

    `open` makes one; `close` ends it with everything written.

    Examples
    --------
    >>> import asyncio, os, tempfile
    >>> async def example(folder):
    ...     service = await Service.open(os.path.join(folder, "bothworlds.db"))
    ...     spec = ExperimentSpec("headline", [ArmSpec("a"), ArmSpec("b")])
    ...     await service.create(Service.LOCAL, spec)
    ...     decided = await service.decide(Service.LOCAL, "headline")
    ...     told = await service.feedback(Service.LOCAL, decided.decision_id, reward=1.0)
    ...     again = await service.feedback(Service.LOCAL, decided.decision_id, reward=1.0)
    ...     await service.close()
    ...     return round(decided.probability, 6), told.status, again.status
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(example(folder))
    (0.5, 'learned', 'duplicate')
    """

    LOCAL: ClassVar[Principal] = Principal(1, None, SCOPES)

    def __init__(self, store: Store, settings: Settings) -> None:
        """Use `open` instead."""
        self.store = store
        self.settings = settings
        self._loop = asyncio.get_running_loop()
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="bothworlds-read")
        # Where others write as well, a long export must not keep their changes from being heard.
        self._watching = (
            ThreadPoolExecutor(1, thread_name_prefix="bothworlds-watch")
            if store.has_peers
            else self._reading
        )
        self._announced = asyncio.Event()
        self._deaf = False
        self._experiments: dict[tuple[int, str], Experiment] = {}
        self._by_id: dict[int, Experiment] = {}
        self._counts: dict[Place, Counts] = {}
        self._configuration: Configuration
        self._keys: dict[str, KeyRow] = {}
        self._principals: dict[str, Principal] = {}
        # Keys that were shown and are good; another dictionary with the next configuration.
        self.shown: dict[str, Principal] = {}
        self._keyring: Keyring
        self._identities = Identities()
        self._caps: dict[tuple[int, str, bytes | str], int] = {}
        self._caps_hour = 0
        self._seq = 0
        self._latest = 0.0
        self._closing = False
        self._heard = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._figures = dict.fromkeys(
            ("decisions", "learned", "duplicates", "quarantined", "not_learnable", "swept",
             "contradictions", "overloaded"), 0,
        )  # fmt: skip
        # Experiments whose draws are being compiled, in a thread, by number and by name.
        self._cold: dict[int, tuple[int, str]] = {}
        self._reloading = asyncio.Lock()
        self._catching: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._ledger = Ledger(store, self._counts)
        self._committer = Committer(self._ledger, self._loop, self._learned, settings.log_buffer)
        self._upkeep = Upkeep(
            store, self._committer, self._read, self._by_id, self._figures, settings.retention_days
        )

    # --- opening and closing ---------------------------------------------------------------------

    @classmethod
    async def open(
        cls, store: str | Store, settings: Settings | None = None, *, create: bool = True
    ) -> Service:
        """Open a store and serve from it.

        Parameters
        ----------
        store : str or Store
            A path of a SQLite file or ``postgresql://...``; or a store that is open.
        settings : Settings, optional
            How to run.
        create : bool
            Whether to make the store's tables where there are none.

        Raises
        ------
        StoreError
            If the store cannot be opened, or another process serves from it.
        """
        loop = asyncio.get_running_loop()
        if isinstance(store, str):
            store = await loop.run_in_executor(None, partial(opened, store, create=create))
        try:
            service = cls(store, settings or Settings())
            await service._start()
        except BaseException:
            store.close()
            raise
        return service

    async def _start(self) -> None:
        # Not in the first transaction, which would hold the store meanwhile.
        await self._read(prepare)
        self.store.begin_run()
        for row in self._ledger.read():
            self._counts[row.experiment, row.epoch] = row.decided
        found = await self._watch(self.store.configuration)
        for row in found.experiments:
            await self._read(warm, Config.from_document(row.config).served)
        self._configure(found)
        self._learned(list(self._ledger.states.values()))
        self._committer.start()
        await self._poll_once()
        self.store.listen(self._nudge)
        self._tasks.append(self._loop.create_task(self._poll()))
        for work, every in (
            (self._upkeep.sweep, self.settings.sweep_seconds),
            (self._upkeep.checkpoint, self.settings.checkpoint_seconds),
        ):
            self._tasks.append(self._loop.create_task(self._repeat(work, every)))

    async def close(self) -> None:
        """Refuse what comes, write what has come, and close the store."""
        if self._closing:
            return
        self._closing = True
        if self._warming is not None:
            self._tasks.append(self._warming)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        written = await self._committer.stop()
        # Answers of the last batch.
        await asyncio.sleep(0)
        if written:
            with contextlib.suppress(Exception):
                self.store.end_run()
        else:
            _LOG.error("The last records of the log could not be written.")
        self._reading.shutdown()
        self._watching.shutdown()
        self.store.close()

    async def _read(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Let the reading thread call something."""
        return await self._call(self._reading, work, *arguments)

    async def _watch(self, work: Callable[[], Any]) -> Any:
        """Let the thread that hears of changes call something."""
        return await self._call(self._watching, work)

    async def _call(
        self, thread: ThreadPoolExecutor, work: Callable[..., Any], *arguments: Any
    ) -> Any:
        try:
            return await self._loop.run_in_executor(thread, work, *arguments)
        except self.store.failures as error:
            raise Problem("store_unavailable", retry_after=1.0) from error

    def _nudge(self) -> None:
        """Look at the others soon; from any thread."""
        # A loop that has ended without closing the service hears nothing more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._announced.set)

    async def _poll(self) -> None:
        """Look at the others every so often, and when one of them announces something."""
        # `wait_for` forgets that it was cancelled if what it waits for happens at that moment.
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._announced.wait(), self.settings.poll_seconds)
            self._announced.clear()
            try:
                await self._poll_once()
                self._deaf = False
            except Exception as error:
                if not self._deaf:
                    _LOG.error("The store could not be read: %s", error.__cause__ or error)
                self._deaf = True

    async def _repeat(self, work: Callable[[], Coroutine[Any, Any, None]], every: float) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                await work()
            except Exception as error:
                _LOG.error("A task of the service failed and will be tried again: %s", error)

    # --- configuration ---------------------------------------------------------------------------

    def _configure(self, found: Configuration) -> None:
        self._configuration = found
        self._keys = {key.id: key for key in found.keys}
        self.shown = {}
        self._principals = {key.id: Principal(key.tenant, key.id, key.scopes) for key in found.keys}
        current = [key.id for key in found.token_keys if key.signs_until is None][-1]
        self._keyring = Keyring({key.id: key.secret for key in found.token_keys}, current)
        cold: dict[int, ExperimentRow] = {}
        for row in found.experiments:
            known = self._by_id.get(row.id)
            if known is not None and known.version == row.version:
                continue
            if not is_warm(Config.from_document(row.config).served):
                cold[row.id] = row
            elif known is None:
                known = Experiment(row)
                self._by_id[row.id] = self._experiments[row.tenant, row.name] = known
                self._adopt(known)
            else:
                epoch = known.epoch
                known.configure(row)
                if epoch != row.epoch:
                    self._adopt(known)
        self._cold = {number: (row.tenant, row.name) for number, row in cold.items()}
        if cold and (self._warming is None or self._warming.done()):
            self._warming = self._loop.create_task(self._warm(list(cold.values())))

    async def _warm(self, rows: list[ExperimentRow]) -> None:
        """Compile what experiments of another replica need, and take them over."""
        for row in rows:
            policy = Config.from_document(row.config).served
            await self._loop.run_in_executor(None, warm, policy)
        self._warming = None
        self._configure(self._configuration)

    def _adopt(self, experiment: Experiment) -> None:
        """Give an experiment, or a new epoch of it, what this replica has learned already."""
        place = experiment.id, experiment.epoch
        experiment.counts = self._counts.setdefault(place, experiment.counts)
        experiment.counts.grow(experiment.known)
        state = self._ledger.states.get(place)
        if state is not None:
            experiment.own = state.sums
        experiment.refresh()

    def _learned(self, states: list[StateRow]) -> None:
        """Apply what was committed."""
        for row in states:
            experiment = self._by_id.get(row.experiment)
            if experiment is not None and experiment.epoch == row.epoch:
                experiment.own = row.sums
                experiment.refresh()

    async def _reload(self) -> None:
        async with self._reloading:
            # Whoever sends tokens that nobody signed makes nobody read everything.
            if await self._watch(self.store.config_version) == self._configuration.version:
                return
            found = await self._watch(self.store.configuration)
            if found.version >= self._configuration.version:
                self._configure(found)

    async def _poll_once(self) -> None:
        known = self._configuration.version
        version, peers = await self._watch(self._look)
        if version is not None and version != known:
            await self._reload()
        if peers is not None:
            self._hear(peers)
        self._heard = time.monotonic()

    def _look(self) -> tuple[int | None, list[StateRow] | None]:
        """Look whether anything has changed; in the reading thread."""
        if not self.store.pulse():
            return None, None
        return (
            self.store.config_version(),
            self.store.peer_states() if self.store.has_peers else None,
        )

    def _hear(self, rows: list[StateRow]) -> None:
        """Apply the states of the other replicas."""
        by_place: dict[Place, list[StateRow]] = {}
        for row in rows:
            by_place.setdefault((row.experiment, row.epoch), []).append(row)
        for experiment in self._by_id.values():
            found = by_place.get((experiment.id, experiment.epoch))
            if found is None:
                continue
            versions = [(row.shard, row.version) for row in found]
            if versions == experiment.heard:
                continue
            sums, counts = found[0].sums, found[0].decided
            for row in found[1:]:
                sums, counts = row.sums.plus(sums), row.decided.plus(counts)
            experiment.peers, experiment.peer_counts = sums, counts
            experiment.heard = versions
            experiment.refresh()

    def _experiment(self, who: Principal, name: str) -> Experiment:
        found = self._experiments.get((who.tenant, name))
        if found is None:
            if (who.tenant, name) in self._cold.values():
                raise Problem("store_unavailable", _COLD, retry_after=1.0)
            raise Problem("experiment_not_found", f"There is no experiment {_short(name)}.")
        return found

    def _check_open(self) -> None:
        if self._closing:
            raise Problem("shutting_down", retry_after=1.0)

    # --- deciding --------------------------------------------------------------------------------

    async def decide(
        self,
        who: Principal,
        name: str,
        *,
        available: Sequence[str] | None = None,
        unit: str | None = None,
        deferred: bool = False,
        idempotency_key: str | None = None,
        vector: bool = False,
    ) -> Decided:
        """Decide which arm to play.

        Parameters
        ----------
        who : Principal
            Who asks.
        name : str
            The experiment.
        available : sequence of str, optional
            The arms that can be played; by default all active ones.
        unit : str, optional
            Whom the decision is for. It is kept as a keyed hash; with ``sticky_seconds`` the same
            unit gets the same decision again.
        deferred : bool
            Whether the decision counts only once it is activated.
        idempotency_key : str, optional
            Name of the request: the same request with the same name gets the same decision.
        vector : bool
            Whether the answer has the probabilities of all arms.
        """
        if unit is None and idempotency_key is None:
            made = self.decide_at_once(
                who, name, available=available, deferred=deferred, vector=vector
            )
            if made is not None:
                return made
        if idempotency_key is not None:
            check_request_key(idempotency_key)
        experiment = self._experiment(who, name)
        self._check_open()
        lineup = experiment.lineup if available is None else experiment.lineup_of([*available])
        hashed = b"" if unit is None else self._unit(experiment, unit)
        decided, row = self._draw(experiment, lineup, hashed, deferred, vector)
        counts = experiment.counts
        drawn: tuple[Decided, DecisionRow | None] = decided, row
        sticky = experiment.config.sticky_seconds if hashed else 0.0
        if sticky and decided.mode == "learn":
            drawn = await self._stick(experiment, drawn, hashed, sticky, lineup.places)
        if idempotency_key is not None:
            asked = (sorted(lineup.places), hashed.hex(), deferred)
            drawn = await self._remember(experiment, drawn, idempotency_key, asked)
        decided, row_left = drawn
        if row_left is not None:
            if experiment.config.log == "before":
                await self._committer.written(decisions=[row_left])
            else:
                self._committer.append(row_left)
        if not decided.replayed:
            self._count(counts, experiment.places[decided.arm])
        return decided

    def decide_at_once(
        self,
        who: Principal,
        name: str,
        *,
        available: Sequence[str] | None = None,
        deferred: bool = False,
        vector: bool = False,
    ) -> Decided | None:
        """Decide for nobody in particular; None if the log must have the decision first."""
        experiment = self._experiments.get((who.tenant, name)) or self._experiment(who, name)
        if self._closing:
            self._check_open()
        if experiment.config.log != "after":
            return None
        lineup = experiment.lineup if available is None else experiment.lineup_of([*available])
        decided, row = self._draw(experiment, lineup, b"", deferred, vector)
        self._committer.append(row)
        self._count(experiment.counts, experiment.places[decided.arm])
        return decided

    async def decide_many(self, who: Principal, name: str, count: int) -> list[Decided]:
        """Make up to 256 decisions at once."""
        experiment = self._experiment(who, name)
        self._check_open()
        if type(count) is not int or not 1 <= count <= DECISION_BATCH:
            raise Problem(
                "invalid_request",
                f"The count must be a whole number in [1, {DECISION_BATCH}].",
            )
        made = [self._draw(experiment, experiment.lineup, b"", False, False) for _ in range(count)]
        rows = [row for _, row in made]
        counts = experiment.counts
        if experiment.config.log == "before":
            await self._committer.written(decisions=rows)
        else:
            for row in rows:
                self._committer.append(row)
        for decided, _ in made:
            self._count(counts, experiment.places[decided.arm])
        return [decided for decided, _ in made]

    def _draw(
        self, experiment: Experiment, lineup: Any, unit: bytes, deferred: bool, vector: bool
    ) -> tuple[Decided, DecisionRow]:
        """Draw and sign; nothing is written or counted yet."""
        committer = self._committer
        if len(committer.log) >= committer.log_limit:
            self._figures["overloaded"] += 1
            raise Problem("overloaded", retry_after=1.0)
        identities, keyring = self._identities, self._keyring
        drawn, mode, shadow = experiment.draw(lineup, identities.uniform())
        now = time.time()
        if now < self._latest <= now + DAY:
            # A clock that was put back must not date a decision before what was swept already.
            now = self._latest
        self._latest = now
        id = identities.identity(now)
        raw, number = experiment.record(drawn, mode, keyring.current, id, lineup, unit, deferred)
        self._seq += 1
        row = DecisionRow(
            experiment.id, id, raw, self.store.shard, self.store.run, self._seq, shadow
        )
        arm = experiment.arms[drawn.arm]
        shares = None
        if vector:
            shares = experiment.probabilities(lineup) if mode != "learn" else {
                experiment.arms[place].name: share
                for place, share in zip(
                    lineup.places, lineup.probabilities().tolist(), strict=True
                )
            }  # fmt: skip
        decided = Decided(
            keyring.sign(raw), arm.name, min(1.0, 1.0 / drawn.inverse_p), number, mode,  # type: ignore[arg-type]
            records.made_at(id) + experiment.config.feedback_window, arm.value, shares,
        )  # fmt: skip
        return decided, row

    def _count(self, counts: Counts, place: int) -> None:
        """Count a decision for an arm, among those of the epoch in which it was made."""
        self._figures["decisions"] += 1
        counts.by_arm[place] += 1

    def _unit(self, experiment: Experiment, unit: str) -> bytes:
        check_unit(unit)
        return unit_hash(self._configuration.unit_key, experiment.id, unit)

    async def _stick(
        self,
        experiment: Experiment,
        drawn: tuple[Decided, DecisionRow | None],
        hashed: bytes,
        sticky: float,
        places: tuple[int, ...],
    ) -> tuple[Decided, DecisionRow | None]:
        """Return the unit's decision: the one it has, or this one, which it has from now on."""
        decided, row = drawn
        now = time.time()
        claim = ClaimRow(
            experiment.id, "unit", hashed, b"", decided.decision_id, now + sticky, now, row
        )
        before = (await self._committer.written(claims=[claim])).claims[0]
        if before is None:
            return decided, None
        again = self._again(experiment, before)
        if again is not None and experiment.places[again.arm] in places:
            return again, None
        # It was for another epoch, or an arm that cannot be played: this one takes its place.
        await self._committer.written(claims=[claim._replace(now=float("inf"))])
        return decided, None

    async def _remember(
        self,
        experiment: Experiment,
        drawn: tuple[Decided, DecisionRow | None],
        key: str,
        asked: tuple[Any, ...],
    ) -> tuple[Decided, DecisionRow | None]:
        """Return the decision that the request of this name was given, or give it this one."""
        decided, row = drawn
        now = time.time()
        secret = self._configuration.unit_key
        hashed = hashlib.blake2b(
            key.encode(), digest_size=16, key=secret, person=b"bw-request"
        ).digest()
        fingerprint = hashlib.blake2b(json.dumps(asked).encode(), digest_size=16).digest()
        claim = ClaimRow(
            experiment.id, "request", hashed, fingerprint, decided.decision_id,
            now + REQUEST_SECONDS, now, row,
        )  # fmt: skip
        before = (await self._committer.written(claims=[claim])).claims[0]
        if before is None:
            return decided, None
        if before.fingerprint != fingerprint:
            raise Problem("idempotency_key_reused")
        again = self._again(experiment, before)
        if again is None:
            raise Problem("epoch_over", "The request was answered before the experiment's reset.")
        return again, None

    def _again(self, experiment: Experiment, claimed: Claimed) -> Decided | None:
        """Return a decision that was given before; None if it is of another epoch."""
        try:
            raw, record = self._keyring.verify(claimed.token)
        except Problem:
            # Its key was retired.
            return None
        if record.epoch != experiment.epoch or record.arm >= experiment.known:
            return None
        arm = experiment.arms[record.arm]
        return Replayed(
            claimed.token, arm.name, min(1.0, 1.0 / record.inverse_p), record.round,
            record.mode, record.at + experiment.config.feedback_window, arm.value,  # type: ignore[arg-type]
        )  # fmt: skip

    # --- feedback --------------------------------------------------------------------------------

    async def feedback(
        self,
        who: Principal,
        decision_id: str,
        *,
        loss: float | None = None,
        reward: float | None = None,
    ) -> Told:
        """Learn what a decision brought, once; answered when it is committed.

        Parameters
        ----------
        who : Principal
            Who tells.
        decision_id : str
            The decision's token.
        loss, reward : float
            One of them, within the experiment's bounds.
        """
        told: asyncio.Future[Told] = self._loop.create_future()
        then = partial(resolve, told)
        await self._knowing(partial(self.tell, who, decision_id, loss, reward, then))
        return await told

    def tell(
        self,
        who: Principal,
        decision_id: str,
        loss: float | None,
        reward: float | None,
        then: Callable[[Told | Problem], None],
        caught_up: bool = False,
    ) -> None:
        """Learn as `feedback` does, and call ``then`` in the event loop when it is committed.

        Raises
        ------
        Behind
            If another replica may know more of the decision, unless this one has ``caught_up``.
        """
        if self._closing:
            self._check_open()
        row, experiment, promised = self._row(who, decision_id, loss, reward, caught_up)

        def done(written: Written | Problem) -> None:
            experiment.give_back(promised)
            told: Told | Problem
            try:
                told = (
                    written
                    if isinstance(written, Problem)
                    else self._told(row, written.feedback[0])
                )
            except Problem as problem:
                told = problem
            then(told)

        self._committer.submit(Item(done, (row,)))

    async def feedback_many(
        self, who: Principal, items: Sequence[FeedbackItem]
    ) -> list[Told | Problem]:
        """Learn from up to 1,000 feedbacks, all of them in one transaction.

        A feedback that is refused does not hinder the others; its place has the `Problem`.
        """
        self._check_open()
        if len(items) > FEEDBACK_BATCH:
            raise Problem("invalid_request", f"A batch has at most {FEEDBACK_BATCH} feedbacks.")
        answers: list[Told | Problem | None] = []
        rows: list[tuple[int, FeedbackRow]] = []
        promises: list[tuple[Experiment, float]] = []
        for place, item in enumerate(items):
            try:
                row, experiment, promised = await self._knowing(
                    partial(self._row, who, item.decision_id, *item.given())
                )
            except Problem as problem:
                answers.append(problem)
                continue
            answers.append(None)
            rows.append((place, row))
            promises.append((experiment, promised))
        if rows:
            try:
                written = await self._committer.written(feedback=[row for _, row in rows])
            finally:
                for experiment, promised in promises:
                    experiment.give_back(promised)
            for (place, row), before in zip(rows, written.feedback, strict=True):
                try:
                    answers[place] = self._told(row, before)
                except Problem as problem:
                    answers[place] = problem
        return [answer for answer in answers if answer is not None]

    async def _knowing(self, work: Callable[[bool], T]) -> T:
        """Call something, told whether this replica has caught up, which it does if it must."""
        try:
            return work(False)
        except Behind:
            # Whoever wants the configuration meanwhile shares the reading.
            if self._catching is None or self._catching.done():
                self._catching = self._loop.create_task(self._reload())
            await asyncio.shield(self._catching)
            return work(True)

    def _verified(
        self, who: Principal, decision_id: str, caught_up: bool
    ) -> tuple[bytes, Record, Experiment]:
        """Return the record of a token, as bytes and decoded, and its experiment.

        Raises
        ------
        Behind
            If another replica may know more of it, unless this one has ``caught_up``.
        """
        try:
            raw, record = self._keyring.verify(decision_id)
        except Problem as problem:
            if problem.code == "bad_signature" and not caught_up and self.store.has_peers:
                # Perhaps signed with a key that was made a moment ago.
                raise Behind from None
            raise
        experiment = self._by_id.get(record.experiment)
        if not caught_up and (
            experiment is None or record.known > experiment.known or record.epoch > experiment.epoch
        ):
            raise Behind
        if experiment is None and record.experiment in self._cold:
            raise Problem("store_unavailable", _COLD, retry_after=1.0)
        if experiment is None or experiment.tenant != who.tenant:
            # Whether another tenant has such a decision is nobody else's business.
            raise Problem("bad_signature")
        if record.epoch != experiment.epoch:
            raise Problem("epoch_over")
        if record.known > experiment.known:
            raise Problem("store_unavailable", "The arms are not known yet.", retry_after=1.0)
        return raw, record, experiment

    def _row(
        self,
        who: Principal,
        decision_id: str,
        loss: float | None,
        reward: float | None,
        caught_up: bool,
    ) -> tuple[FeedbackRow, Experiment, float]:
        """Return the row of a feedback, checked, and what it reserves."""
        raw, record, experiment = self._verified(who, decision_id, caught_up)
        now = time.time()
        if now - record.at > experiment.config.feedback_window:
            raise Problem("expired")
        value = self._loss(experiment, loss, reward)
        status = "learned"
        promised = 0.0
        if not record.learnable:
            status = "not_learnable"
        else:
            if not self._within_caps(who, experiment, record, now):
                status = "quarantined"
            promised = experiment.promise(record.inverse_p)
        row = FeedbackRow(
            experiment.id, record.id, record.epoch, raw, value, "client", status, now, who.key_id
        )
        return row, experiment, promised

    def _loss(self, experiment: Experiment, loss: float | None, reward: float | None) -> float:
        bounds = experiment.config.bounds
        for given in (loss, reward):
            if given is not None and not is_number(given):
                raise Problem("out_of_bounds", "A loss or reward must be a finite number.")
        try:
            return loss_within(bounds, reward, loss, "a decision")
        except InvalidFeedback as error:
            both = (loss is None) == (reward is None)
            raise Problem("invalid_request" if both else "out_of_bounds", str(error)) from None

    def _within_caps(
        self, who: Principal, experiment: Experiment, record: Record, now: float
    ) -> bool:
        """Count a feedback towards the caps of its unit and its key; False beyond one."""
        config = experiment.config
        if config.unit_cap is None and config.key_cap is None:
            return True
        hour = int(now // HOUR)
        if hour != self._caps_hour:
            self._caps.clear()
            self._caps_hour = hour
        within = True
        for cap, kind, name in (
            (config.unit_cap, "unit", record.unit),
            (config.key_cap, "key", who.key_id),
        ):
            if cap is not None and name is not None:
                place = experiment.id, kind, name
                used = self._caps.get(place, 0)
                self._caps[place] = used + 1
                within = within and used < cap
        return within

    def _uncount(self, row: FeedbackRow) -> None:
        """Take back what a feedback counted towards caps that was stored before."""
        if not self._caps:
            return
        unit = records.decode(row.record).unit
        for place in ((row.experiment, "unit", unit), (row.experiment, "key", row.key_id)):
            if place in self._caps:
                self._caps[place] -= 1

    def _told(self, row: FeedbackRow, before: Stored | None) -> Told:
        """Return the answer to a feedback that is in the store, by this request or another."""
        figures = self._figures
        if before is None:
            figures[row.status] += 1
            return Told(row.status)  # type: ignore[arg-type]
        # Whoever sends again because an answer was lost has told no more than once.
        self._uncount(row)
        if before.loss == row.loss:
            figures["duplicates"] += 1
            return Told("duplicate")
        figures["contradictions"] += 1
        raise Problem("already_told")

    async def activate(self, who: Principal, decision_id: str) -> None:
        """Note that a deferred decision took effect."""
        self._check_open()
        _, record, experiment = await self._knowing(partial(self._verified, who, decision_id))
        now = time.time()
        if now - record.at > experiment.config.feedback_window:
            raise Problem("expired")
        await self._committer.written(activations=[Activation(experiment.id, record.id, now)])

    # --- administering ---------------------------------------------------------------------------

    async def _administer(
        self,
        who: Principal,
        action: str,
        name: str | None,
        request_id: str,
        change: Mapping[str, Any],
        work: Callable[[], Any],
        expected: Experiment | None = None,
    ) -> Any:
        """Run a change and its audit row as one transaction, and take it over."""
        self._check_open()
        audit = AuditRow(
            time.time(), who.tenant, who.key_id, action, name, request_id, dict(change)
        )
        pair = None if expected is None else (expected.id, expected.version)
        try:
            result = await self._committer.run(partial(self.store.administer, audit, work, pair))
        except LookupError:
            await self._reload()
            raise Problem("config_changed") from None
        await self._reload()
        return result

    async def _insist(self, attempt: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Try a change again while others change the experiment at the same time."""
        for _ in range(ATTEMPTS - 1):
            try:
                return await attempt()
            except Problem as problem:
                if problem.code != "config_changed":
                    raise
        return await attempt()

    async def create(
        self, who: Principal, spec: ExperimentSpec, *, request_id: str = ""
    ) -> dict[str, Any]:
        """Create an experiment; return its document."""
        config, arms = checked(spec)
        # Before anybody can ask for it, so that nobody waits for the compiler.
        await self._loop.run_in_executor(None, warm, config.served)
        now = time.time()
        row = ExperimentRow(
            0, who.tenant, spec.name, config.document(), "learn", None, 0, 1, now,
            tuple(
                ArmRow(place, arm.name, arm.value, "active", 0, now)
                for place, arm in enumerate(arms)
            ),
        )  # fmt: skip

        def work() -> None:
            if self.store.put_experiment(row) is None:
                raise Problem("experiment_exists", f"There is an experiment {_short(spec.name)}.")

        change = {"config": config.document(), "arms": [arm.name for arm in arms]}
        await self._administer(who, "create", spec.name, request_id, change, work)
        return self.experiment(who, spec.name)

    async def patch(
        self,
        who: Principal,
        name: str,
        changes: Mapping[str, Any],
        *,
        if_match: int,
        request_id: str = "",
    ) -> dict[str, Any]:
        """Change the configuration of an experiment, if it still has version ``if_match``."""
        experiment = self._experiment(who, name)
        config = experiment.config.changed(changes)
        if experiment.version != if_match:
            raise Problem("config_changed")
        await self._loop.run_in_executor(None, warm, config.served)
        work = partial(
            self.store.put_config, experiment.id, config.document(), experiment.mode,
            experiment.pinned, experiment.epoch,
        )  # fmt: skip
        before = experiment.config.document()
        change = {key: [before[key], value] for key, value in changes.items()}
        await self._administer(who, "patch", name, request_id, change, work, experiment)
        return self.experiment(who, name)

    async def set_mode(
        self,
        who: Principal,
        name: str,
        action: Literal["pin", "uniform", "pause", "resume", "archive", "reset", "shadow"],
        *,
        arm: str | None = None,
        request_id: str = "",
    ) -> dict[str, Any]:
        """Pin an arm, decide evenly, pause, resume, archive, reset, or play an arm for a shadow.

        ``pin`` and ``shadow`` play ``arm`` alone, with probability 1, so that nothing is learned;
        ``shadow`` also logs what the policy would have drawn. ``pause`` and ``archive`` decide
        nothing; feedback is still learned. ``reset`` begins a new epoch with nothing learned.
        """

        async def attempt() -> dict[str, Any]:
            experiment = self._experiment(who, name)
            mode, pinned, epoch = self._next_mode(experiment, action, arm)

            def work() -> None:
                self.store.put_config(
                    experiment.id, experiment.config.document(), mode, pinned, epoch
                )
                if epoch != experiment.epoch:
                    self.store.clear_entries(experiment.id)

            change = {
                "mode": [experiment.mode, mode], "epoch": [experiment.epoch, epoch], "arm": arm,
            }  # fmt: skip
            await self._administer(who, action, name, request_id, change, work, experiment)
            return self.experiment(who, name)

        found: dict[str, Any] = await self._insist(attempt)
        return found

    def _next_mode(
        self, experiment: Experiment, action: str, arm: str | None
    ) -> tuple[str, int | None, int]:
        """Return mode, pinned arm and epoch after an action."""
        if action in ("pin", "shadow"):
            if arm is None:
                raise Problem("invalid_request", f"To {action} needs an arm.")
            place = experiment.places.get(arm)
            if place is None or place not in experiment.active:
                raise Problem("arm_not_found", f"There is no active arm {_short(arm)}.")
            return ("pinned" if action == "pin" else "shadow"), place, experiment.epoch
        if arm is not None:
            raise Problem("invalid_request", f"To {action} takes no arm.")
        if action == "reset":
            if experiment.mode == "archived":
                raise Problem("mode_conflict", "An archived experiment cannot be reset.")
            if experiment.epoch >= 2**16 - 1:
                raise Problem("mode_conflict", "The experiment was reset too often.")
            return experiment.mode, experiment.pinned, experiment.epoch + 1
        modes = {
            "uniform": "uniform", "pause": "paused", "resume": "learn", "archive": "archived",
        }  # fmt: skip
        if action not in modes:
            raise Problem("invalid_request", f"There is no action {_short(action)}.")
        return modes[action], None, experiment.epoch

    async def add_arm(
        self,
        who: Principal,
        name: str,
        arm: ArmSpec,
        *,
        probability: float | None = None,
        request_id: str = "",
    ) -> dict[str, Any]:
        """Add an arm, which begins with a probability, by default 1 / K."""
        check_arm(arm)
        if probability is not None and not (is_number(probability) and 0 < probability < 1):
            raise Problem("invalid_request", "The probability must be strictly between 0 and 1.")

        async def attempt() -> dict[str, Any]:
            experiment = self._experiment(who, name)
            if arm.name in experiment.places:
                raise Problem("arm_id_used")
            if experiment.known >= records.MOST_ARMS:
                raise Problem(
                    "invalid_request", f"An experiment has at most {records.MOST_ARMS} arms."
                )
            row = ArmRow(
                experiment.known, arm.name, arm.value, "active", experiment.entry(probability),
                time.time(),
            )  # fmt: skip

            def work() -> None:
                if not self.store.put_arm(experiment.id, row):
                    raise Problem("arm_id_used")
                self._touch(experiment)

            change = {"arm": arm.name, "place": row.place, "entry": row.entry}
            await self._administer(who, "add_arm", name, request_id, change, work, experiment)
            return self.experiment(who, name)

        found: dict[str, Any] = await self._insist(attempt)
        return found

    async def retire_arm(
        self, who: Principal, name: str, arm: str, *, request_id: str = ""
    ) -> None:
        """Retire an arm for good; its name is not used again."""

        async def attempt() -> None:
            experiment = self._experiment(who, name)
            place = experiment.places.get(arm)
            if place is None or place not in experiment.active:
                raise Problem("arm_not_found", f"There is no active arm {_short(arm)}.")
            if len(experiment.active) <= 2:
                raise Problem("last_arms")
            if place == experiment.pinned:
                raise Problem("mode_conflict", "The arm is pinned; resume the experiment first.")

            def work() -> None:
                self.store.retire_arm(experiment.id, place)
                self._touch(experiment)

            change = {"arm": arm, "place": place}
            await self._administer(who, "retire_arm", name, request_id, change, work, experiment)

        await self._insist(attempt)

    def _touch(self, experiment: Experiment) -> None:
        """Give an experiment its next version; in the writing thread."""
        self.store.put_config(
            experiment.id, experiment.config.document(), experiment.mode, experiment.pinned,
            experiment.epoch,
        )  # fmt: skip

    # --- quarantine ------------------------------------------------------------------------------

    async def quarantined(
        self, who: Principal, name: str, limit: int = 1000
    ) -> list[dict[str, Any]]:
        """Return feedback in quarantine, oldest first."""
        experiment = self._experiment(who, name)
        rows = await self._read(self.store.quarantined, experiment.id, limit)
        low, high = experiment.config.bounds
        found = []
        for row in rows:
            record = records.decode(row.record)
            found.append(
                {
                    "decision_id": str(uuid.UUID(bytes=row.id)),
                    "arm": experiment.arms[record.arm].name,
                    "loss": low + row.loss * (high - low),
                    "unit": None if record.unit is None else record.unit.hex(),
                    "key_id": row.key_id,
                    "epoch": row.epoch,
                    "told_at": row.told_at,
                }
            )
        return found

    async def release(
        self,
        who: Principal,
        name: str,
        ids: Sequence[str] | None = None,
        *,
        request_id: str = "",
    ) -> int:
        """Learn from feedback in quarantine, all or some by UUID; return how many."""
        return await self._judge(who, name, ids, "learned", "release", request_id)

    async def drop(
        self,
        who: Principal,
        name: str,
        ids: Sequence[str] | None = None,
        *,
        request_id: str = "",
    ) -> int:
        """Never learn from feedback in quarantine, all or some by UUID; return how many."""
        return await self._judge(who, name, ids, "not_learnable", "drop", request_id)

    async def _judge(
        self,
        who: Principal,
        name: str,
        ids: Sequence[str] | None,
        status: str,
        action: str,
        request_id: str,
    ) -> int:
        experiment = self._experiment(who, name)
        if ids is None:
            rows = await self._read(self.store.quarantined, experiment.id, 100_000)
            chosen = [row.id for row in rows]
        else:
            try:
                chosen = [uuid.UUID(each).bytes for each in ids]
            except (ValueError, AttributeError, TypeError):
                raise Problem("invalid_request", "The ids must be UUIDs.") from None
        change: dict[str, Any] = {"ids": [str(uuid.UUID(bytes=id)) for id in chosen[:1000]]}
        self._check_open()
        audit = AuditRow(time.time(), who.tenant, who.key_id, action, name, request_id, change)

        def work() -> tuple[int, list[StateRow]]:
            states: list[StateRow] = []

            def judged() -> int:
                taken = self.store.judge(experiment.id, chosen, status)
                change["count"] = len(taken)
                states.extend(self._ledger.settle(taken))
                for state in states:
                    if int(np.abs(state.sums.sums).max()) > MOST:
                        raise Problem("contribution_too_large")
                self.store.put_states(states)
                return len(taken)

            count = self.store.administer(audit, judged)
            for state in states:
                state.version += 1
            self._ledger.keep(states)
            return count, states

        count, states = await self._committer.run(work)
        self._learned(states)
        return int(count)

    # --- keys ------------------------------------------------------------------------------------

    def principal(self, key: str) -> Principal | None:
        """Return who has this key, None if nobody has."""
        known = self.shown.get(key)
        if known is not None:
            return known
        try:
            prefix, id, secret = key.split("_", 2)
            given = hashlib.sha256(secret.encode("ascii")).digest()
        except (ValueError, AttributeError):
            return None
        found = self._keys.get(id)
        if found is None or prefix != "bw":
            return None
        if not hmac.compare_digest(given, found.hash) or found.revoked_at is not None:
            return None
        # Found by a hash that nobody outside can predict, which tells nothing about other keys.
        known = self.shown[key] = self._principals[id]
        return known

    def holder(self, key_id: str) -> Principal | None:
        """Return who has the key of this id, None if nobody has or it was revoked."""
        found = self._keys.get(key_id)
        return None if found is None or found.revoked_at is not None else self._principals[key_id]

    def derived(self, purpose: bytes) -> bytes:
        """Return a secret for one purpose, the same for all replicas of the deployment."""
        return hashlib.blake2b(
            purpose, key=self._configuration.unit_key, person=b"bw-derived"
        ).digest()

    async def create_key(
        self,
        who: Principal,
        scopes: Sequence[str],
        *,
        label: str = "",
        tenant: str | None = None,
        request_id: str = "",
    ) -> tuple[str, dict[str, Any]]:
        """Make an API key; return its secret, which is nowhere kept, and its document.

        ``tenant`` names another tenant, new if it is; only a caller without a key may.
        """
        if tenant is not None and who.key_id is not None:
            raise Problem("scope_missing", "A key cannot make keys of other tenants.")
        made = NewKey.made(who.tenant, scopes, label, tenant)
        work = partial(made.put, self.store)
        await self._administer(who, "create_key", None, request_id, made.change(), work)
        return made.secret, key_document(self._keys[made.row.id])

    async def revoke_key(self, who: Principal, key_id: str, *, request_id: str = "") -> None:
        """Revoke an API key of this tenant."""
        at = time.time()

        def work() -> None:
            if not self.store.revoke_key(who.tenant, key_id, at):
                raise Problem("key_not_found", f"There is no valid key {_short(key_id)}.")

        await self._administer(who, "revoke_key", None, request_id, {"key": key_id}, work)

    def keys(self, who: Principal) -> list[dict[str, Any]]:
        """Return the API keys of this tenant, without secrets."""
        return [key_document(key) for key in self._keys.values() if key.tenant == who.tenant]

    async def rotate_token_key(self, who: Principal, *, request_id: str = "") -> int:
        """Sign with a new token key from now on; return its number.

        Older keys verify until the longest feedback window there is has passed.
        """
        now = time.time()
        windows = [each.config.feedback_window for each in self._by_id.values()]
        keep = now - max(windows, default=0.0) - DAY
        kept = {
            key.id for key in self._configuration.token_keys
            if key.signs_until is None or key.signs_until >= keep
        }  # fmt: skip
        number = self._keyring.current % LAST_KEY + 1
        while number in kept:
            number = number % LAST_KEY + 1
            if number == self._keyring.current:
                raise Problem("mode_conflict", "Too many token keys are still needed.")
        work = partial(self.store.put_token_key, number, new_key(), now, keep)
        await self._administer(who, "rotate_token_key", None, request_id, {"key": number}, work)
        return number

    # --- reading ---------------------------------------------------------------------------------

    def experiments(self, who: Principal) -> list[dict[str, Any]]:
        """Return the documents of all experiments of a tenant."""
        return [
            each.document(self.state_age())
            for each in self._by_id.values()
            if each.tenant == who.tenant
        ]

    def experiment(self, who: Principal, name: str) -> dict[str, Any]:
        """Return the document of an experiment: configuration, probabilities, counts, alarms."""
        return self._experiment(who, name).document(self.state_age())

    def held(self, who: Principal, name: str) -> Experiment:
        """Return an experiment as it is held in memory, to be looked at and not changed."""
        return self._experiment(who, name)

    def running(self, who: Principal) -> list[Experiment]:
        """Return the experiments of a tenant that are not archived, as they are in memory."""
        return [
            each
            for each in self._by_id.values()
            if each.tenant == who.tenant and each.mode != "archived"
        ]

    async def audit(
        self, who: Principal, *, after: int = 0, limit: int = 1000
    ) -> list[dict[str, Any]]:
        """Return who changed what, oldest first."""
        rows = await self._read(self.store.audit, who.tenant, after, limit)
        return [
            {
                "id": row.id, "at": row.at, "key_id": row.key_id, "action": row.action,
                "experiment": row.experiment, "request_id": row.request_id, "change": row.change,
            }
            for row in rows
        ]  # fmt: skip

    async def checkpoints(
        self, who: Principal, name: str, *, after: int = 0, limit: int = CHECKPOINTS
    ) -> list[dict[str, Any]]:
        """Return where an experiment stood at some moments, oldest first."""
        experiment = self._experiment(who, name)
        rows = await self._read(self.store.checkpoints, experiment.id, after, limit)
        names = [arm.name for arm in experiment.arms]
        return [
            {
                "id": row.id,
                "at": row.at,
                "epoch": row.epoch,
                "round": row.round,
                "learned": row.learned,
                "probabilities": dict(
                    zip(names, np.frombuffer(row.probabilities, "<f8").tolist(), strict=False)
                ),
                "told": dict(zip(names, from_bytes(row.told).tolist(), strict=False)),
            }
            for row in rows
        ]

    async def rows(
        self, who: Principal, name: str, *, since: float | None = None
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the log in pieces, oldest decision first, each with its feedback if there is any.

        Decisions that a clock dates more than a day ahead are left out.
        """
        experiment = self._experiment(who, name)
        after = b"" if since is None else first_identity(since)
        before = first_identity(time.time() + DAY)
        while True:
            page = await self._read(self.store.log, experiment.id, after, before, PAGE)
            if page:
                yield [log_document(experiment, row) for row in page]
            if len(page) < PAGE:
                return
            after = page[-1].id

    async def looked_up(
        self, who: Principal, name: str, work: Callable[[Store, Experiment], T]
    ) -> T:
        """Let the reading thread look something up about an experiment."""
        found: T = await self._read(work, self.store, self._experiment(who, name))
        return found

    def stamp(self, who: Principal, name: str) -> tuple[int, int]:
        """Return number and version of an experiment: others when its configuration is another."""
        experiment = self._experiment(who, name)
        return experiment.id, experiment.version

    async def gaps(self, who: Principal, name: str) -> dict[str, int]:
        """Return what the log lacks: ``missing`` decisions, and runs that ended ``unclean``.

        A decision is known to be missing if its feedback came. A process that was killed may have
        lost decisions of its last moments; nobody can know how many.
        """
        experiment = self._experiment(who, name)
        missing, unclean = await self._read(self.store.lost, experiment.id)
        return {"missing": missing, "unclean": unclean}

    # --- state of the service --------------------------------------------------------------------

    def state_age(self) -> float:
        """Return how old, in seconds, what this replica knows of the others is."""
        return time.monotonic() - self._heard if self.store.has_peers else 0.0

    def ready(self) -> str | None:
        """Return None if the service is ready, else why it is not."""
        if self._closing:
            return "The service is stopping."
        if self._committer.failing is not None:
            return "The store does not take writes."
        if self.state_age() > self.settings.state_age_limit:
            return "The states of the other replicas are too old."
        if not self._committer.room:
            return "The buffer of the log is full."
        return None

    def figures(self) -> dict[str, float]:
        """Return numbers for metrics."""
        committer = self._committer
        return {
            **self._figures,
            "commits": committer.commits,
            "commit_failures": committer.failures,
            "commit_queue": committer.waiting,
            "log_buffer": len(committer.log),
            "state_age_seconds": self.state_age(),
            "experiments": len(self._by_id),
        }


def _short(name: object) -> str:
    text = repr(name)
    return text if len(text) <= 100 else text[:97] + "..."
