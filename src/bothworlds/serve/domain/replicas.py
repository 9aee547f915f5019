"""Replicas: how a service follows the configuration and the states of the other replicas."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeVar

from bothworlds.errors import StoreError
from bothworlds.serve.domain.config import Config
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.folds import Fold
from bothworlds.serve.domain.segments import Segment
from bothworlds.serve.domain.state import State
from bothworlds.serve.domain.sums import Counts, Place, StateKey, StateRow, Sums
from bothworlds.serve.domain.tokens import Keyring, first_identity
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import segments
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import (
    Caps,
    Configuration,
    ExperimentRow,
    FoldRow,
    SegmentRow,
    Segments,
)
from bothworlds.serve.store.writer import Writer

_LOG = logging.getLogger("bothworlds.serve")
T = TypeVar("T")

ATTEMPTS = 5
"""How often a segment is begun while the experiment is reset."""
PROMPT = 1.0
"""Seconds within which the database must answer for its clock to be compared."""


class Seen(NamedTuple):
    """Result of a poll.

    ``standing`` is the version of the configuration and the incarnation, ``offset`` the seconds by
    which the database's clock is ahead, ``forgotten`` what retention has deleted by experiment,
    ``folds`` those that have changed, ``segments`` all that live, None if they are known.
    """

    standing: tuple[int, bytes]
    offset: float | None
    forgotten: dict[int, bytes]
    peers: list[StateRow]
    folds: dict[Place, FoldRow]
    segments: Segments | None


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
        # Versions of the segments: as polled last, and the newest that this replica has written.
        self._segments_polled = self._segments_made = 0
        self._reloading = asyncio.Lock()
        self._catching: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None

    def state_age(self) -> float:
        """Return the age in seconds of this replica's copy of its peers' states."""
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

    def _configure(self, found: Configuration, *, segments: bool = True) -> None:
        """Serve a configuration, with its segments unless they are those that are served."""
        state = self._state
        by_id, committer = state.experiments.by_id, state.committer
        rows = [
            row
            for row in found.experiments
            if row.id not in by_id or by_id[row.id].version != row.version
        ]
        state.configuration = found
        state.store.replica.incarnation = found.incarnations[-1].salt
        state.keys = {key.id: key for key in found.keys}
        state.verified_keys = {}
        current = [key.id for key in found.token_keys if key.signs_until is None][-1]
        secrets = {key.id: key.secret for key in found.token_keys}
        state.keyring = Keyring(secrets, current, found.incarnations, found.seals)
        cold: dict[int, ExperimentRow] = {}
        for row in rows:
            known = by_id.get(row.id)
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
        left = {row.id for row in rows}
        same = by_id.keys() - left
        caps = {n: each for n, each in committer.caps.items() if n in same}
        orders = {n: each for n, each in committer.orders.items() if n in same}
        for each in [by_id[row.id] for row in rows if row.id in by_id]:
            config = each.config
            if config.unit_cap is not None or config.key_cap is not None:
                caps[each.id] = Caps(config.unit_cap, config.key_cap)
            if config.order is not None:
                orders[each.id] = config.order
        committer.caps, committer.orders = caps, orders
        state.experiments.cold = {number: (row.tenant, row.name) for number, row in cold.items()}
        if segments:
            self._take_segments(found.segments)
        if cold and (self._warming is None or self._warming.done()):
            self._warming = state.loop.create_task(self._warm(list(cold.values())))

    async def _warm(self, rows: list[ExperimentRow]) -> None:
        """Compile the draws of experiments that another replica created, and serve them."""
        for row in rows:
            await self._state.loop.run_in_executor(None, Config.from_document(row.config).warm_up)
        self._warming = None
        self._configure(self._state.configuration)

    def _adopt(self, made: Experiment | Segment) -> None:
        """Give an experiment, a new epoch of it, or a segment the learned state of this replica."""
        state = self._state
        made.counts = state.counts.setdefault(made.key, made.counts)
        if isinstance(made, Experiment):
            made.counts.grow(made.known)
        own = state.ledger.states.get(made.key)
        if own is not None:
            made.own = own.sums
        made.refresh()

    def _take_segments(self, found: Segments) -> None:
        """Serve the segments that live, and no others."""
        if found.version < self._segments_made:
            # Read before this replica has created one.
            return
        self._segments_polled = found.version
        living: dict[int, list[SegmentRow]] = {}
        for row in found.rows:
            living.setdefault(row.experiment, []).append(row)
        for experiment in self._state.experiments.by_id.values():
            rows = [row for row in living.get(experiment.id, ()) if row.epoch == experiment.epoch]
            self.drop_segments(experiment, experiment.segments_by_id.keys() - {r.id for r in rows})
            for row in rows:
                self.take_segment(experiment, row)

    def take_segment(self, experiment: Experiment, row: SegmentRow) -> Segment:
        """Serve a segment that lives; return it."""
        made = experiment.take_segment(row)
        if made is not None:
            self._adopt(made)
        return experiment.segments_by_id[row.id]

    def drop_segments(self, experiment: Experiment, ids: Iterable[bytes]) -> None:
        """Serve segments no longer that were evicted."""
        keys = [(*experiment.place, id) for id in ids]
        if not keys:
            return
        state = self._state
        experiment.drop_segments([key[2] for key in keys])
        for key in keys:
            state.counts.pop(key, None)

        def forget(writer: Writer) -> None:
            for key in keys:
                state.ledger.states.pop(key, None)

        state.committer.run(forget)

    async def reload(self) -> None:
        """Read the configuration again if it has changed."""
        async with self._reloading:
            # Forged tokens must not make the service read everything each time.
            standing = await self._state.watch(lambda reader: reader.standing())
            if standing[:2] == self._known() and not self.rebuilding:
                return
            known = self._state.configuration
            found = await self._state.watch(lambda reader: reader.configuration(known))
            if self.rebuilding or self._went_back(found):
                await self._rebuild(found.incarnations[-1].salt)
            else:
                self._configure(found, segments=found.segments is not known.segments)

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
            if row is known.row:
                continue
            # No experiment is ever deleted, and none gets an older version.
            if row is None or row.version < known.version:
                return True
            if (row.name, row.created_at) != (known.name, known.row.created_at):
                return True
        return False

    async def _rebuild(self, salt: bytes) -> None:
        """Discard data that the store has lost: read configuration and states again."""
        self.rebuilding = True
        _LOG.error("The store was restored to an earlier state; this replica reads it again.")
        state = self._state

        def look(reader: Reader) -> tuple[Configuration, list[StateRow], list[StateRow]]:
            with reader.snapshot():
                reader.forget_peers()
                return reader.configuration(), reader.states(), reader.peer_states()

        if salt == self._known()[1]:
            # No replica has noticed yet: ids of the time that is lost have a valid signature.
            leave = partial(
                Writer.leave_incarnation, salt=salt, why="knows less than a replica",
                until=first_identity(state.now() - self.state_age()),
            )  # fmt: skip
            await state.committer.run(leave)
        found, states, peers = await state.watch(look)
        own = [row for row in states if row.shard == state.store.replica.shard]
        state.committer.start_over()
        state.experiments.clear()
        self._folded.clear()
        self._segments_made = 0
        state.ledger.load(own)
        state.counts.clear()
        state.counts.update({row.key: row.decided for row in own})
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
        """Read the changes, and apply them."""
        try:
            seen = await self._state.watch(self._look)
        except Problem as problem:
            if isinstance(problem.__cause__, StoreError):
                # After a failover a reader waits for a writer that starts an incarnation; the
                # writer of a replica that has nothing to write would connect at the next sweep.
                await self._state.committer.run(lambda writer: writer.probe())
            raise
        if seen is not None:
            if seen.offset is not None:
                self._state.offset = seen.offset
            went_back = self.rebuilds
            if seen.standing != self._known() or self.rebuilding:
                await self.reload()
            if self.rebuilds == went_back:
                if seen.segments is not None:
                    self._take_segments(seen.segments)
                self._apply(seen.peers)
                self._take_folds(seen.folds)
            self._state.experiments.forget(seen.forgotten)
        self.polled_at = time.monotonic()

    def _look(self, reader: Reader) -> Seen | None:
        """Return the possible changes, None without any; in the polling thread."""
        if not reader.pulse():
            return None
        before = time.time()
        version, salt, at = reader.standing()
        after = time.time()
        # A slow answer carries little information about the clock.
        prompt = at is not None and abs(after - before) < PROMPT
        offset = at - (before + after) / 2.0 if at is not None and prompt else None
        peers, folds, segments = [], {}, None
        if self._state.store.has_peers:
            peers = reader.peer_states()
            if self._state.committer.orders:
                folds = reader.folds(self._folded)
            found = reader.segments(self._segments_polled)
            if found.version != self._segments_polled:
                segments = found
        return Seen((version, salt), offset, reader.forgotten(), peers, folds, segments)

    def _apply(self, rows: list[StateRow]) -> None:
        """Apply the states of the other replicas."""
        by_key: dict[StateKey, list[StateRow]] = {}
        for row in rows:
            by_key.setdefault(row.key, []).append(row)
        for experiment in self._state.experiments.by_id.values():
            known: list[Experiment | Segment] = [experiment, *experiment.segments.values()]
            for each in known:
                # None are left if this replica has taken the number of its only peer.
                _take_peers(each, by_key.get(each.key, []))

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

    async def begin_segment(self, experiment: Experiment, name: str) -> Segment:
        """Create a segment, or read one that another replica has created.

        Raises
        ------
        Problem
            If the store cannot be written.
        """
        state = self._state
        for _ in range(ATTEMPTS):
            work = partial(
                segments.begin, place=experiment.place, name=name,
                limit=experiment.config.max_segments, at=state.now(),
            )  # fmt: skip
            try:
                begun = await state.committer.run(work)
            except LookupError:
                # Another replica has reset the experiment.
                await self.reload()
                continue
            self._segments_made = max(self._segments_made, begun.version)
            self.drop_segments(experiment, begun.evicted)
            if begun.row.epoch == experiment.epoch:
                made = self.take_segment(experiment, begun.row)
                shard = state.store.replica.shard
                _take_peers(made, [each for each in begun.states if each.shard != shard])
                return made
        raise Problem("store_unavailable", "The experiment is being reset.", retry_after=1.0)

    async def close(self) -> None:
        """Stop compiling for experiments of other replicas."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)


def _take_peers(each: Experiment | Segment, rows: list[StateRow]) -> None:
    """Apply the states that other replicas have of an experiment or a segment."""
    versions = [(row.shard, row.version) for row in rows]
    if versions == each.peer_versions:
        return
    sums, counts = Sums.blank(0), Counts()
    for row in rows:
        sums, counts = row.sums.plus(sums), row.decided.plus(counts)
    each.peers, each.peer_counts = sums, counts
    each.peer_versions = versions
    each.refresh()
