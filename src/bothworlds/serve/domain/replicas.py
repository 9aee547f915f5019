"""Replicas: how a service follows the configuration and the states of the other replicas."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from bothworlds.serve.domain.config import Config
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.folds import Fold
from bothworlds.serve.domain.state import State
from bothworlds.serve.domain.sums import Counts, Place, StateRow, Sums
from bothworlds.serve.domain.tokens import Keyring
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import Caps, Configuration, ExperimentRow, FoldRow

_LOG = logging.getLogger("bothworlds.serve")
T = TypeVar("T")


PROMPT = 1.0
"""Seconds within which the database must answer for its clock to be compared."""


class Seen(NamedTuple):
    """What a poll has read.

    ``standing`` is the version of the configuration and the incarnation, ``offset`` the seconds by
    which the database's clock is ahead, ``forgotten`` what retention has deleted by experiment,
    ``folds`` those that have changed.
    """

    standing: tuple[int, bytes]
    offset: float | None
    forgotten: dict[int, bytes]
    peers: list[StateRow]
    folds: dict[Place, FoldRow]


class StaleReplica(Exception):
    """A token is about something that this replica does not know yet."""


class Replicas:
    """The configuration and the peers of a service.

    Parameters
    ----------
    state : State
        Of the service.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._announced = asyncio.Event()
        self._failing = False
        self.rebuilding = False
        self.rebuilds = 0
        self.polled_at = time.monotonic()
        # Numbers of the folds that were polled last.
        self._folded: dict[Place, int] = {}
        self._reloading = asyncio.Lock()
        self._catching: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None

    def state_age(self) -> float:
        """Return the age in seconds of what this replica knows of its peers."""
        return time.monotonic() - self.polled_at if self._state.store.has_peers else 0.0

    def nudge(self) -> None:
        """Poll soon; from any thread."""
        # A loop that has ended without closing the service takes no more calls.
        with contextlib.suppress(RuntimeError):
            self._state.loop.call_soon_threadsafe(self._announced.set)

    # --- configuration ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the configuration, with every experiment ready to be drawn from."""
        found = await self._state.watch(lambda reader: reader.configuration())
        for row in found.experiments:
            await self._state.loop.run_in_executor(None, Config.from_document(row.config).warm_up)
        self._configure(found)

    def _configure(self, found: Configuration) -> None:
        state = self._state
        state.configuration = found
        state.store.replica.incarnation = found.incarnations[-1].salt
        state.keys = {key.id: key for key in found.keys}
        state.verified_keys = {}
        current = [key.id for key in found.token_keys if key.signs_until is None][-1]
        secrets = {key.id: key.secret for key in found.token_keys}
        state.keyring = Keyring(secrets, current, found.incarnations, found.seals)
        cold: dict[int, ExperimentRow] = {}
        for row in found.experiments:
            known = state.experiments.by_id.get(row.id)
            if known is not None and known.version == row.version:
                continue
            fold = found.folds.get((row.id, row.epoch))
            if not Config.from_document(row.config).warm:
                cold[row.id] = row
            elif known is None:
                self._adopt(state.experiments.add(row, fold))
            else:
                epoch = known.epoch
                known.configure(row, fold)
                if epoch != row.epoch:
                    self._adopt(known)
        state.committer.caps = {
            number: Caps(each.config.unit_cap, each.config.key_cap)
            for number, each in state.experiments.by_id.items()
            if each.config.unit_cap is not None or each.config.key_cap is not None
        }
        state.committer.orders = {
            number: each.config.order
            for number, each in state.experiments.by_id.items()
            if each.config.order is not None
        }
        state.experiments.cold = {number: (row.tenant, row.name) for number, row in cold.items()}
        if cold and (self._warming is None or self._warming.done()):
            self._warming = state.loop.create_task(self._warm(list(cold.values())))

    async def _warm(self, rows: list[ExperimentRow]) -> None:
        """Compile the draws of experiments that another replica created, and serve them."""
        for row in rows:
            await self._state.loop.run_in_executor(None, Config.from_document(row.config).warm_up)
        self._warming = None
        self._configure(self._state.configuration)

    def _adopt(self, experiment: Experiment) -> None:
        """Give an experiment, or a new epoch of it, what this replica has learned already."""
        state = self._state
        place = experiment.id, experiment.epoch
        experiment.counts = state.counts.setdefault(place, experiment.counts)
        experiment.counts.grow(experiment.known)
        own = state.ledger.states.get(place)
        if own is not None:
            experiment.own = own.sums
        experiment.refresh()

    async def reload(self) -> None:
        """Read the configuration again if it has changed."""
        async with self._reloading:
            # Forged tokens must not make the service read everything each time.
            standing = await self._state.watch(lambda reader: reader.standing())
            if standing[:2] == self._known() and not self.rebuilding:
                return
            found = await self._state.watch(lambda reader: reader.configuration())
            if self.rebuilding or self._went_back(found):
                await self._rebuild()
            else:
                self._configure(found)

    def _known(self) -> tuple[int, bytes]:
        """Return the version and the incarnation of the configuration that is served."""
        known = self._state.configuration
        return known.version, known.incarnations[-1].salt

    def _went_back(self, found: Configuration) -> bool:
        """Tell whether this replica knows more than the store, which then has lost something."""
        version, salt = self._known()
        if found.version < version or found.incarnations[-1].salt != salt:
            return True
        rows = {row.id: row for row in found.experiments}
        for number, known in self._state.experiments.by_id.items():
            row = rows.get(number)
            # No experiment is ever deleted, and none gets an older version.
            if row is None or row.version < known.version:
                return True
            if (row.name, row.created_at) != (known.name, known.row.created_at):
                return True
        return False

    async def _rebuild(self) -> None:
        """Forget what the store has lost: take configuration and states from it alone."""
        self.rebuilding = True
        _LOG.error("The store went back in time; this replica takes its state from it again.")
        state = self._state

        def look(reader: Reader) -> tuple[Configuration, list[StateRow], list[StateRow]]:
            with reader.snapshot():
                reader.forget_peers()
                return reader.configuration(), reader.states(), reader.peer_states()

        found, states, peers = await state.watch(look)
        own = [row for row in states if row.shard == state.store.replica.shard]
        state.committer.start_over()
        state.experiments.clear()
        self._folded.clear()
        state.ledger.load(own)
        state.counts.clear()
        state.counts.update({(row.experiment, row.epoch): row.decided for row in own})
        self._configure(found)
        self._apply(peers)
        self.rebuilds += 1
        self.rebuilding = False

    async def knowing(self, work: Callable[[bool], T]) -> T:
        """Call ``work``, which receives whether this replica has caught up, and catch up if needed.

        ``work`` raises `StaleReplica` if a newer configuration may help.
        """
        try:
            return work(False)
        except StaleReplica:
            # Requests that need the configuration meanwhile share the reading.
            if self._catching is None or self._catching.done():
                self._catching = self._state.loop.create_task(self.reload())
            await asyncio.shield(self._catching)
            return work(True)

    # --- peers -----------------------------------------------------------------------------------

    async def poll(self) -> None:
        """Poll every so often, and when another replica announces a change, until closing."""
        # `wait_for` forgets that it was cancelled if what it waits for happens at that moment.
        while not self._state.closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._announced.wait(), self._state.settings.poll_seconds)
            self._announced.clear()
            try:
                await self.poll_once()
                self._failing = False
            except Exception as error:
                if not self._failing:
                    _LOG.error("The store could not be read: %s", error.__cause__ or error)
                self._failing = True

    async def poll_once(self) -> None:
        """Read what has changed, and apply it."""
        seen = await self._state.watch(self._look)
        if seen is not None:
            if seen.offset is not None:
                self._state.offset = seen.offset
            went_back = self.rebuilds
            if seen.standing != self._known() or self.rebuilding:
                await self.reload()
            if self.rebuilds == went_back:
                self._apply(seen.peers)
                self._take_folds(seen.folds)
            self._state.experiments.forget(seen.forgotten)
        self.polled_at = time.monotonic()

    def _look(self, reader: Reader) -> Seen | None:
        """Return what may have changed, None if nothing has; in the polling thread."""
        if not reader.pulse():
            return None
        before = time.time()
        version, salt, at = reader.standing()
        after = time.time()
        # An answer that took long tells little about the clock.
        prompt = at is not None and abs(after - before) < PROMPT
        offset = at - (before + after) / 2.0 if at is not None and prompt else None
        peers, folds = [], {}
        if self._state.store.has_peers:
            peers = reader.peer_states()
            if self._state.committer.orders:
                folds = reader.folds(self._folded)
        return Seen((version, salt), offset, reader.forgotten(), peers, folds)

    def _apply(self, rows: list[StateRow]) -> None:
        """Apply the states of the other replicas."""
        by_place: dict[Place, list[StateRow]] = {}
        for row in rows:
            by_place.setdefault((row.experiment, row.epoch), []).append(row)
        for experiment in self._state.experiments.by_id.values():
            # None are left if this replica has taken the number of its only peer.
            found = by_place.get((experiment.id, experiment.epoch), [])
            versions = [(row.shard, row.version) for row in found]
            if versions == experiment.peer_versions:
                continue
            sums, counts = Sums.blank(0), Counts()
            for row in found:
                sums, counts = row.sums.plus(sums), row.decided.plus(counts)
            experiment.peers, experiment.peer_counts = sums, counts
            experiment.peer_versions = versions
            experiment.refresh()

    def _take_folds(self, rows: dict[Place, FoldRow]) -> None:
        """Apply folds that other replicas have continued."""
        for place, row in rows.items():
            experiment = self._state.experiments.by_id.get(place[0])
            order = self._state.committer.orders.get(place[0])
            if experiment is None or experiment.epoch != place[1] or order is None:
                # Read again once the experiment is known.
                continue
            self._folded[place] = row.number
            if experiment.fold is None or row.number > experiment.fold.number:
                experiment.folded(Fold.read(order, row.number, row.state))

    async def close(self) -> None:
        """Stop compiling for experiments of other replicas."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
