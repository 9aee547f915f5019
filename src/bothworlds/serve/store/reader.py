"""Reader: queries of a store, in SQL that SQLite and PostgreSQL share.

A `Reader` has a connection of its own, and belongs to one thread.  A store has three of them: one
for what requests look up, one for reports, and one that polls for changes.  With SQLite, where no
other process serves, the first one polls as well.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any

from bothworlds.serve.domain import records
from bothworlds.serve.domain.sums import StateKey, StateRow, Sums
from bothworlds.serve.store.rows import (
    CHECKPOINT,
    FEEDBACK,
    SEGMENT,
    ArmRow,
    AuditRow,
    CheckpointRow,
    Configuration,
    Cursor,
    ExperimentRow,
    FeedbackRow,
    FoldRow,
    IncarnationRow,
    KeyRow,
    LogRow,
    Replica,
    SegmentRow,
    Segments,
    TokenKeyRow,
)
from bothworlds.serve.store.writer import KEY, STATES, Connection, at_once, compacted

MOST_NAMED = 100
"""Changed experiments that are read by number; beyond that the whole configuration is read."""
FEW_PEERS = 100
"""States of other replicas up to which a poll reads them all, in one query: 10 us each, half of it
in the event loop, five times a second."""


class Reader(Connection, ABC):
    """A connection that reads."""

    margin = 0.0
    """Seconds by which the clocks of writers may differ."""
    clock = "NULL"
    """Expression for the time by the database's clock; null where this process has the same one."""
    versions: str
    """Query for one text, JSON pairs of the number and the version of every experiment."""

    by_quarantine = ""
    """Names the index of feedback in quarantine, where the database would not choose it."""

    def __init__(self, execute: Callable[..., Cursor], replica: Replica) -> None:
        super().__init__(execute, replica)
        # States of the other replicas as they were read last, by their key.
        self._peers: dict[tuple[Any, ...], StateRow] = {}

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read one state of the store in the block; inside another one, the same state."""

    @abstractmethod
    def pulse(self) -> bool:
        """Tell, cheaply, whether other connections may have written since the last call."""

    def look(self) -> None:
        """Cut a connection that does not answer, where there may be one."""
        return

    # --- configuration ---------------------------------------------------------------------------

    def config_version(self) -> int:
        """Return the version of the configuration."""
        return int(self.rows("SELECT config_version FROM deployment")[0][0])

    def standing(self) -> tuple[int, bytes, float | None]:
        """Return the version of the configuration, the incarnation, and the database's time."""
        version, salt, at = self.rows(
            "SELECT config_version, (SELECT salt FROM incarnation WHERE ended IS NULL), "
            f"{self.clock} FROM deployment"
        )[0]
        return version, salt, at

    def configuration(self, known: Configuration | None = None) -> Configuration:
        """Return the configuration; experiments and segments that are ``known`` are not read again.

        Only their versions are, and those in one row: a thousand rows would cost more than the
        change of an experiment that made them out of date.
        """
        named = of = ""
        values: list[int] = []
        kept: list[ExperimentRow] = []
        with self.snapshot():
            if known is not None:
                stored = dict(json.loads(self.rows(self.versions)[0][0] or "[]"))
                kept = [row for row in known.experiments if stored.get(row.id) == row.version]
                values = [*(stored.keys() - {row.id for row in kept})]
                if len(values) > MOST_NAMED:
                    return self.configuration()
                among = f"IN (NULL{', ?' * len(values)})"
                named, of = f"WHERE id {among} ", f"WHERE experiment {among} "
            version, unit_key = self.rows("SELECT config_version, unit_key FROM deployment")[0]
            arms: dict[int, list[ArmRow]] = {}
            for experiment, place, name, value, status, entry, at in self.rows(
                "SELECT experiment, place, name, value, status, entry, added_at FROM arm "
                f"{of}ORDER BY experiment, place",
                values,
            ):
                read = None if value is None else json.loads(value)
                arms.setdefault(experiment, []).append(ArmRow(place, name, read, status, entry, at))
            experiments = [
                ExperimentRow(
                    number, tenant, name, json.loads(config), mode, pinned, epoch, own, at,
                    tuple(arms.get(number, ())),
                )
                for number, tenant, name, config, mode, pinned, epoch, own, at in self.rows(
                    "SELECT id, tenant, name, config, mode, pinned, epoch, version, created_at "
                    f"FROM experiment {named}ORDER BY created_at, id",
                    values,
                )
            ]  # fmt: skip
            experiments = sorted([*kept, *experiments], key=attrgetter("created_at", "id"))
            keys = tuple(
                KeyRow(number, tenant, digest, frozenset(scopes.split()), label, at, gone)
                for number, tenant, digest, scopes, label, at, gone in self.rows(
                    "SELECT id, tenant, hash, scopes, label, created_at, revoked_at FROM api_key "
                    "ORDER BY created_at, id"
                )
            )
            token_keys = tuple(
                TokenKeyRow(*row)
                for row in self.rows(
                    "SELECT id, secret, created_at, signs_until FROM token_key ORDER BY created_at"
                )
            )
            tenants = {name: int(id) for name, id in self.rows("SELECT name, id FROM tenant")}
            incarnations = self.incarnations()
            seals = {
                records.LINEAGE.pack(*named): seal
                for *named, seal in self.rows(
                    f"SELECT experiment, epoch, known, seal FROM seal {of}", values
                )
            }
            folds = self.folds({}, of, values)
            living = self.segments(None if known is None else known.segments.version)
        if known is not None:
            seals, folds = {**known.seals, **seals}, {**known.folds, **folds}
            if living.version == known.segments.version:
                living = known.segments
        return Configuration(
            version, unit_key, tenants, keys, token_keys, tuple(experiments), incarnations, seals,
            folds, living,
        )  # fmt: skip

    def segments(self, known: int | None = None) -> Segments:
        """Return the living segments; without any if their version is the one that is known."""
        version = int(self.rows("SELECT segments FROM deployment")[0][0])
        if version == known:
            return Segments(version, ())
        found = self.rows(
            f"SELECT {SEGMENT} FROM segment WHERE evicted_at IS NULL "
            "ORDER BY experiment, created_at, id"
        )
        return Segments(version, tuple(map(SegmentRow._make, found)))

    def segment_names(self, experiment: int) -> dict[bytes, str]:
        """Return the names of an experiment's segments by id, those evicted included."""
        return dict(self.rows("SELECT id, name FROM segment WHERE experiment = ?", (experiment,)))

    def folds(
        self, known: Mapping[tuple[int, int], int], where: str = "", values: Sequence[Any] = ()
    ) -> dict[tuple[int, int], FoldRow]:
        """Return folds of the current epochs whose numbers differ from those that are known."""
        found = self.rows(
            "SELECT f.experiment, f.epoch, f.number FROM fold f "
            f"JOIN experiment e ON e.id = f.experiment AND e.epoch = f.epoch {where}",
            values,
        )
        changed = {}
        for experiment, epoch, number in found:
            if known.get((experiment, epoch)) != number:
                for row in self.rows(
                    "SELECT number, state FROM fold WHERE experiment = ? AND epoch = ?",
                    (experiment, epoch),
                ):
                    changed[experiment, epoch] = FoldRow(*row)
        return changed

    def incarnations(self) -> tuple[IncarnationRow, ...]:
        """Return the incarnations of the deployment, the current one last."""
        return tuple(
            IncarnationRow(*row)
            for row in self.rows(
                "SELECT salt, started_at, ended FROM incarnation ORDER BY ended IS NULL, started_at"
            )
        )

    def forgotten(self) -> dict[int, bytes]:
        """Return up to which id retention has deleted feedback, by experiment."""
        return dict(self.rows("SELECT experiment, upto FROM forgotten"))

    def peer_states(self) -> list[StateRow]:
        """Return the states of the other replicas.

        Where there are many, only those are read that have changed; all other states are the same
        objects as before.
        """
        if len(self._peers) <= FEW_PEERS:
            found = self.rows(f"{STATES} WHERE shard <> ?", (self.replica.shard,))
            self._peers = {row[:4]: StateRow.read(row) for row in found}
            return list(self._peers.values())
        keys = self.rows(
            f"SELECT {KEY}, version FROM state WHERE shard <> ?", (self.replica.shard,)
        )
        before, self._peers = self._peers, {}
        changed = []
        for *key, version in keys:
            known = before.get(tuple(key))
            if known is not None and known.version == version:
                self._peers[tuple(key)] = known
            else:
                changed.append(key)
        for values, flat in at_once(changed):
            for row in self.rows(f"{STATES} WHERE ({KEY}) IN (VALUES {values})", flat):
                self._peers[row[:4]] = StateRow.read(row)
        return list(self._peers.values())

    def forget_peers(self) -> None:
        """Read all states of the other replicas again: a version may stand for another state."""
        self._peers = {}

    def states(self) -> list[StateRow]:
        """Return the states of all replicas."""
        return [StateRow.read(row) for row in self.rows(STATES)]

    def compacted(self) -> dict[StateKey, Sums]:
        """Return the contributions of deleted feedback, by experiment, epoch and segment."""
        return compacted(self)

    def changes(self) -> tuple[int, int]:
        """Return how often the configuration was changed, and how many audit rows there are."""
        version = self.config_version()
        rows = self.rows("SELECT COUNT(*) FROM audit")
        return version - 1, int(rows[0][0])

    def log(self, experiment: int, after: bytes, before: bytes, limit: int = 2000) -> list[LogRow]:
        """Return decisions with their feedback, by id, of ids in (after, before).

        Feedback whose decision the log has lost is there as well, without a sequence number. There
        are fewer than ``limit`` only at the end, and at most twice as many.
        """
        # Without an end the second query would read all feedback to come for every page.
        ends = [
            found[0][0]
            for table in ("decision", "feedback")
            if (
                found := self.rows(
                    f"SELECT id FROM {table} WHERE experiment = ? AND id > ? AND id < ? "
                    "ORDER BY id LIMIT 1 OFFSET ?",
                    (experiment, after, before, limit - 1),
                )
            )
        ]
        upto = min(ends, default=before)
        span = experiment, after, upto
        found = self.rows(
            "SELECT d.id, d.record, d.shard, d.run, d.seq, d.shadow, f.loss, f.source, f.status, "
            "f.told_at, a.at FROM decision d "
            "LEFT JOIN feedback f ON f.experiment = d.experiment AND f.id = d.id "
            "LEFT JOIN activation a ON a.experiment = d.experiment AND a.id = d.id "
            "WHERE d.experiment = ? AND d.id > ? AND d.id <= ? "
            "UNION ALL SELECT f.id, f.record, NULL, NULL, NULL, NULL, f.loss, f.source, f.status, "
            "f.told_at, a.at FROM feedback f "
            "LEFT JOIN decision d ON d.experiment = f.experiment AND d.id = f.id "
            "LEFT JOIN activation a ON a.experiment = f.experiment AND a.id = f.id "
            "WHERE f.experiment = ? AND f.id > ? AND f.id <= ? AND d.id IS NULL "
            "ORDER BY 1",
            (*span, *span),
        )
        return list(map(LogRow._make, found))

    def told(self, experiment: int, ids: Sequence[bytes]) -> list[LogRow]:
        """Return the feedback of some decisions, by id."""
        return [
            LogRow(*row)
            for values, flat in at_once([(id,) for id in ids])
            for row in self.rows(
                "SELECT id, record, NULL, NULL, NULL, NULL, loss, source, status, told_at, NULL "
                f"FROM feedback WHERE experiment = ? AND id IN (VALUES {values}) ORDER BY id",
                (experiment, *flat),
            )
        ]

    def count_quarantined(self, experiment: int, upto: bytes) -> int:
        """Return how much feedback is in quarantine, up to an id."""
        found = self.rows(
            f"SELECT COUNT(*) FROM feedback {self.by_quarantine} "
            "WHERE experiment = ? AND status = 'quarantined' AND id <= ?",
            (experiment, upto),
        )
        return int(found[0][0])

    def swept(self, experiment: int) -> bytes:
        """Return up to which id a sweep has filled in missing feedback."""
        found = self.rows("SELECT swept FROM sweep WHERE experiment = ?", (experiment,))
        return found[0][0] if found else b""

    def lost(self, experiment: int) -> tuple[int, int]:
        """Return how many decisions the log is known to lack, and how many runs ended early.

        A run that ended early may have lost what it decided in its last moments.
        """
        missing = self.rows(
            "SELECT COUNT(*) FROM feedback f LEFT JOIN decision d "
            "ON d.experiment = f.experiment AND d.id = f.id "
            "WHERE f.experiment = ? AND d.id IS NULL",
            (experiment,),
        )
        open_runs = self.rows(
            "SELECT shard, MAX(run), COUNT(*) FROM run WHERE ended_at IS NULL GROUP BY shard"
        )
        last: dict[int, int] = dict(self.rows("SELECT shard, MAX(run) FROM run GROUP BY shard"))
        serving = self.serving()
        ended = sum(
            count - (shard in serving and last[shard] == run) for shard, run, count in open_runs
        )
        return int(missing[0][0]), int(ended)

    def serving(self) -> set[int]:
        """Return the shards of the replicas that serve now."""
        return {self.replica.shard}

    def feedback(
        self, experiment: int | None = None, limit: int = 20_000
    ) -> Iterator[list[FeedbackRow]]:
        """Yield all feedback in pieces, by experiment and id."""
        at: tuple[int, bytes] = (-1 if experiment is None else experiment, b"")
        while True:
            found = self.rows(
                f"SELECT {FEEDBACK} "
                "FROM feedback WHERE (experiment, id) > (?, ?) AND (experiment = ? OR ?) "
                "ORDER BY experiment, id LIMIT ?",
                (*at, at[0], experiment is None, limit),
            )
            if not found:
                return
            rows = list(map(FeedbackRow._make, found))
            at = rows[-1].experiment, rows[-1].id
            yield rows

    def quarantined(self, experiment: int, limit: int) -> list[FeedbackRow]:
        """Return feedback in quarantine, oldest first."""
        found = self.rows(
            f"SELECT {FEEDBACK} FROM feedback {self.by_quarantine} "
            "WHERE experiment = ? AND status = 'quarantined' ORDER BY id LIMIT ?",
            (experiment, limit),
        )
        return list(map(FeedbackRow._make, found))

    def untold(
        self, experiment: int, before: bytes, limit: int, activated: bool
    ) -> tuple[list[bytes], bytes | None]:
        """Return records of decisions made before an id that have no feedback.

        Returns the records, and up to where the log was looked through; None if nothing was.
        ``activated`` asks for those only that need no activation or have one.
        """
        after = self.swept(experiment)
        seen = self.rows(
            "SELECT id FROM decision WHERE experiment = ? AND id > ? AND id < ? "
            "ORDER BY id LIMIT ?",
            (experiment, after, before, limit),
        )
        if not seen:
            return [], None
        upto = seen[-1][0]
        found = self.rows(
            "SELECT d.record, a.id FROM decision d "
            "LEFT JOIN feedback f ON f.experiment = d.experiment AND f.id = d.id "
            "LEFT JOIN activation a ON a.experiment = d.experiment AND a.id = d.id "
            "WHERE d.experiment = ? AND d.id > ? AND d.id <= ? AND f.id IS NULL ORDER BY d.id",
            (experiment, after, upto),
        )
        return [raw for raw, active in found if active is not None or not activated], upto

    def checkpoints(self, experiment: int, after: int, limit: int) -> list[CheckpointRow]:
        """Return checkpoints, oldest first."""
        found = self.rows(
            f"SELECT {CHECKPOINT} FROM checkpoint "
            "WHERE experiment = ? AND id > ? ORDER BY id LIMIT ?",
            (experiment, after, limit),
        )
        return list(map(CheckpointRow._make, found))

    def audit(self, tenant: int, where: str, *values: Any) -> list[AuditRow]:
        """Return audit rows of a tenant; ``where`` is the rest of the query, with its values."""
        return [
            AuditRow(at, tenant, key, action, experiment, request, json.loads(change), id)
            for id, at, key, action, experiment, request, change in self.rows(
                "SELECT id, at, key_id, action, experiment, request_id, change FROM audit "
                f"WHERE tenant = ? AND {where}",
                (tenant, *values),
            )
        ]
