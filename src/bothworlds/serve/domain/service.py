"""Service: experiments, decisions and feedback, without HTTP.

A `Service` belongs to one event loop.  Decisions are made in memory and answered without a look at
the disk, unless they are asked to be kept first; feedback is answered when it is committed.  Other
threads write (`bothworlds.serve.store.commit`) and read; what they find out is applied in the loop.

The work is done by its bases over one `State`, each in a module of its own: `deciding`, `feedback`,
`administration`, `keys`, `quarantine` and `history`.

Refusals are `bothworlds.serve.problems.Problem`; a method that raises one has changed nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar

from bothworlds.errors import StoreError
from bothworlds.serve.domain.answers import Decided, FeedbackItem, Principal, Told
from bothworlds.serve.domain.config import Arm, NewExperiment
from bothworlds.serve.domain.deciding import Deciding
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.feedback import Feedback
from bothworlds.serve.domain.history import History
from bothworlds.serve.domain.keys import SCOPES, Keys
from bothworlds.serve.domain.quarantine import Quarantine
from bothworlds.serve.domain.records import made_at
from bothworlds.serve.domain.replicas import Replicas
from bothworlds.serve.domain.state import Settings, State
from bothworlds.serve.domain.sums import prepare
from bothworlds.serve.ops.upkeep import Upkeep
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.opening import opened
from bothworlds.serve.store.rows import CLOCK_LIMIT

__all__ = [
    "Arm",
    "Decided",
    "FeedbackItem",
    "NewExperiment",
    "Principal",
    "Service",
    "Settings",
    "Told",
]

_LOG = logging.getLogger("bothworlds.serve")

ABORT_SECONDS = 1.0
"""How long the last writes may take to end once they are given up."""
END_SECONDS = 4.0
"""How long the end of a service with nothing to write may wait for a database."""
SEGMENTS_AT_ONCE = 32
"""Segments of a list that are described before others may have the event loop."""
LOST_SECONDS = 1.0
"""How often the service checks that its store is still the one it opened."""


class Service(Deciding, Feedback, Keys, Quarantine, History):
    """The decision service.

    `open` makes one; `close` ends it with everything written.

    Attributes
    ----------
    state : State
        What its parts share.
    replicas : Replicas
        What follows the other replicas.
    upkeep : Upkeep
        What sweeps missing feedback and notes checkpoints.

    Examples
    --------
    >>> import asyncio, os, tempfile
    >>> async def example(folder):
    ...     service = await Service.open(os.path.join(folder, "bothworlds.db"))
    ...     spec = NewExperiment("headline", [Arm("a"), Arm("b")])
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
        self.state = state = State(store, settings)
        self.replicas = Replicas(state)
        super().__init__(state, self.replicas)
        self.upkeep = Upkeep(state)
        self._tasks: list[asyncio.Task[None]] = []
        self.state_age = self.replicas.state_age
        self.flushed = state.committer.flushed

    # --- opening and closing ---------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        store: str | Store,
        settings: Settings | None = None,
        *,
        create: bool = True,
        serve: bool = True,
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
        serve : bool
            Whether to serve; otherwise to administer, alongside the processes that serve.

        Raises
        ------
        StoreError
            If the store cannot be opened, or another process serves from it.
        """
        loop = asyncio.get_running_loop()
        if isinstance(store, str):
            store = await loop.run_in_executor(
                None, partial(opened, store, create=create, serve=serve)
            )
        failures: tuple[type[Exception], ...] = (*store.failures, Problem)
        try:
            service = cls(store, settings or Settings())
            await (service._start() if serve else service._attend())
        except failures as error:
            store.close()
            # A full disk lets a store be opened, and refuses the first write.
            why = error.__cause__ or error
            raise StoreError(f"The service cannot start from its store: {why}.") from error
        except BaseException:
            store.close()
            raise
        return service

    async def _start(self) -> None:
        state, writer = self.state, self.store.writer
        # Not in the first transaction, which would hold the store meanwhile.
        await state.loop.run_in_executor(None, prepare)
        writer.begin_run()
        newest = writer.newest_id()
        state.latest = made_at(newest) if newest else 0.0
        for row in state.ledger.load(writer.own_states()):
            state.counts[row.key] = row.decided
        await self.replicas.start()
        state.experiments.learned(list(state.ledger.states.values()), {})
        state.committer.start()
        await self.replicas.poll_once()
        self.store.listen(self.replicas.nudge)
        self._tasks.append(state.loop.create_task(self.replicas.poll()))
        for work, every in (
            (self.upkeep.sweep, self.settings.sweep_seconds),
            (self.upkeep.checkpoint, self.settings.checkpoint_seconds),
            (self.check_store, LOST_SECONDS),
        ):
            self._tasks.append(state.loop.create_task(self._repeat(work, every)))

    async def _attend(self) -> None:
        """Read configuration and states, to administer next to the processes that serve."""
        await self.replicas.start()
        self.state.committer.start()
        await self.replicas.poll_once()

    async def _repeat(self, work: Callable[[], Coroutine[Any, Any, None]], every: float) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                await work()
            except Exception as error:
                _LOG.error("A task of the service failed and will be tried again: %s", error)

    async def check_store(self) -> None:
        """Notice a store that was removed or replaced: from then on nothing is accepted."""
        if self.state.lost is None:
            self.state.lost = self.store.lost()
            if self.state.lost is not None:
                _LOG.error("%s", self.state.lost)
                await self.state.committer.run(lambda writer: self.store.leave())

    async def close(self) -> None:
        """Refuse new requests, write the accepted ones, and close the store."""
        state = self.state
        if state.closing:
            return
        state.closing = True
        await self.replicas.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        commits = -1
        written = False
        while not written and state.committer.commits > commits:
            # As long as there is progress, the last records are waited for.
            commits = state.committer.commits
            written = await state.committer.stop(self.store.close_seconds)
        if not written:
            self.store.abort()
            await state.committer.stop(ABORT_SECONDS)
        # Answers of the last batch.
        await asyncio.sleep(0)
        if not written:
            _LOG.error("The last records of the log could not be written.")
            state.close(wait=False)
            return
        ending = state.loop.run_in_executor(None, self._end)
        # A file is waited for; a database may have stopped answering.
        await asyncio.wait([ending], timeout=END_SECONDS if self.store.has_peers else None)
        if not ending.done():
            _LOG.error("The database does not answer; the service ends without it.")
            self.store.abort()
            await asyncio.wait([ending], timeout=ABORT_SECONDS)
        if ending.done():
            ending.result()

    def _end(self) -> None:
        """Note that everything is written, and close the store."""
        with contextlib.suppress(Exception):
            self.store.writer.end_run()
        self.state.close(wait=True)

    # --- experiments in memory -------------------------------------------------------------------

    def experiments(self, who: Principal) -> list[dict[str, Any]]:
        """Return the documents of all experiments of a tenant."""
        age = self.state_age()
        return [each.document(age) for each in self._experiments.of_tenant(who.tenant)]

    def tenant(self, name: str | None) -> Principal | None:
        """Return the local administrator of a tenant; None stands for the first tenant."""
        if name is None:
            return self.LOCAL
        number = self.state.configuration.tenants.get(name)
        return None if number is None else Principal(number, None, SCOPES)

    def names(self, who: Principal) -> list[str]:
        """Return the names of all experiments of a tenant."""
        return [each.name for each in self._experiments.of_tenant(who.tenant)]

    def experiment(self, who: Principal, name: str) -> dict[str, Any]:
        """Return the document of an experiment: configuration, probabilities, counts, alarms."""
        return self._experiments.find(who.tenant, name).document(self.state_age())

    def experiment_state(self, who: Principal, name: str) -> Experiment:
        """Return an experiment as it is in memory, to be read and not changed."""
        if not who.may_use(name):
            raise Problem(
                "experiment_not_found", f"The token is valid for {who.experiment!r} only."
            )
        return self._experiments.find(who.tenant, name)

    def running(self, who: Principal) -> list[Experiment]:
        """Return the experiments that are not archived and that the caller may use."""
        found = self._experiments.of_tenant(who.tenant)
        return [each for each in found if each.mode != "archived" and who.may_use(each.name)]

    async def segments(self, who: Principal, name: str, limit: int = 100) -> dict[str, Any]:
        """Return how many segments an experiment has, and those with the most feedback first."""
        experiment = self._experiments.find(who.tenant, name)
        ranked = sorted(
            experiment.segments.values(),
            key=lambda each: (-each.total.learned, -sum(each.counts.by_arm), each.name),
        )
        found = []
        for place, each in enumerate(ranked[:limit]):
            if place % SEGMENTS_AT_ONCE == SEGMENTS_AT_ONCE - 1:
                # Decisions must not wait for all of them.
                await asyncio.sleep(0)
            found.append(each.document(experiment))
        return {"total": len(ranked), "segments": found}

    def version_key(self, who: Principal, name: str) -> tuple[int, int]:
        """Return number and version of an experiment, which change with its configuration."""
        experiment = self._experiments.find(who.tenant, name)
        return experiment.id, experiment.version

    # --- state of the service --------------------------------------------------------------------

    def ready(self) -> str | None:
        """Return None if the service is ready, else the reason why it is not."""
        if self.state.closing:
            return "The service is stopping."
        if self.state.lost is not None:
            return self.state.lost
        if self.state.committer.failing is not None:
            return "The store does not take writes."
        if self.replicas.rebuilding:
            return "The store was restored to an earlier state, which is being read."
        if abs(self.state.offset) > CLOCK_LIMIT:
            return (
                f"The clock of this machine is {abs(self.state.offset):.0f} seconds "
                f"{'behind' if self.state.offset > 0 else 'ahead of'} the database's."
            )
        if self.state_age() > self.settings.state_age_limit:
            return "The states of the other replicas are too old."
        if not self.state.committer.room:
            return "The buffer of the log is full."
        return None

    def counters(self) -> dict[str, float]:
        """Return numbers that only grow, each a metric."""
        committer = self.state.committer
        return {
            **self.state.counters,
            "commits": committer.commits,
            "commit_failures": committer.failures,
        }

    def gauges(self) -> dict[str, float]:
        """Return numbers that go up and down, each a metric."""
        committer = self.state.committer
        return {
            "commit_queue": committer.waiting,
            "log_buffer": len(committer.log),
            "state_age_seconds": self.state_age(),
            "experiments": len(self._experiments.by_id),
        }
