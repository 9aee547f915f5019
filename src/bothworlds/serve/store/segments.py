"""Segments in a store: created on first use, and evicted when there are too many.

The functions are for the writing thread.  To create or evict one, the row of its experiment is
locked first, so that replicas do so one after the other.  A batch that contributes to a segment
holds it (`living`) until it is committed; an eviction waits for that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bothworlds.serve.domain.records import SEGMENT_SIZE
from bothworlds.serve.domain.sums import Place, StateRow
from bothworlds.serve.store.rows import SEGMENT, SegmentRow, from_bytes
from bothworlds.serve.store.writer import Writer, as_bytes


class BegunSegment(NamedTuple):
    """A segment that lives, its states, the segments evicted for it, and the version if it is new.

    The version is that of `bothworlds.serve.store.rows.Segments`.
    """

    row: SegmentRow
    states: list[StateRow]
    evicted: list[bytes]
    version: int = 0


def begin(writer: Writer, place: Place, name: str, limit: int, at: float) -> BegunSegment:
    """Create a segment, unless one of this name lives.

    Raises
    ------
    LookupError
        If the experiment is in another epoch by now.
    """
    experiment, epoch = place
    with writer.transaction():
        now = writer.rows(
            "SELECT epoch FROM experiment WHERE id = ?" + writer.for_update, (experiment,)
        )
        if now != [(epoch,)]:
            raise LookupError(place)
        found = writer.rows(
            f"SELECT {SEGMENT} FROM segment "
            "WHERE experiment = ? AND name = ? AND evicted_at IS NULL",
            (experiment, name),
        )
        if found:
            row = SegmentRow(*found[0])
            return BegunSegment(row, writer.states_of((experiment, epoch, row.id)), [])
        evicted = _least_used(writer, experiment, limit)
        evict(writer, experiment, evicted, at)
        row = SegmentRow(experiment, os.urandom(SEGMENT_SIZE), epoch, name, b"", at)
        writer.insert("segment", **row._asdict())
        return BegunSegment(row, [], evicted, _changed(writer))


def _least_used(writer: Writer, experiment: int, limit: int) -> list[bytes]:
    """Return the segments to evict so that there is room for another one."""
    living = "FROM segment s WHERE s.experiment = ? AND s.evicted_at IS NULL"
    (count,) = writer.rows(f"SELECT COUNT(*) {living}", (experiment,))[0]
    if count < limit:
        return []
    found = writer.rows(
        "SELECT s.id, COALESCE((SELECT MAX(t.used_at) FROM state t WHERE t.experiment = "
        "s.experiment AND t.epoch = s.epoch AND t.segment = s.id), s.created_at) AS used "
        f"{living} ORDER BY used, s.id LIMIT ?",
        (experiment, count - limit + 1),
    )
    return [id for id, _ in found]


def evict(writer: Writer, experiment: int, ids: Sequence[bytes], at: float) -> None:
    """Delete the states of segments; the experiment's own state keeps their feedback."""
    # In the same order as batches lock them, so that no two wait for each other.
    values = [(experiment, id) for id in sorted(ids)]
    writer.execute_many(
        "UPDATE segment SET evicted_at = ? WHERE experiment = ? AND id = ?",
        [(at, *each) for each in values],
    )
    for table in ("state", "compacted"):
        writer.execute_many(f"DELETE FROM {table} WHERE experiment = ? AND segment = ?", values)


def evict_all(writer: Writer, experiment: int, at: float) -> None:
    """Evict the segments of an experiment that starts a new epoch."""
    found = writer.rows(
        "SELECT id FROM segment WHERE experiment = ? AND evicted_at IS NULL ORDER BY id",
        (experiment,),
    )
    if found:
        evict(writer, experiment, [id for (id,) in found], at)
        _changed(writer)


def enter(writer: Writer, experiment: int, place: int, entries: Mapping[bytes, int]) -> None:
    """Place a new arm in segments, given its entry in each."""
    for id, entry in sorted(entries.items()):
        for (before,) in writer.rows(
            "SELECT entries FROM segment WHERE experiment = ? AND id = ?", (experiment, id)
        ):
            longer = np.zeros(place + 1, np.int64)
            known = from_bytes(before)
            longer[: known.size] = known
            longer[place] = entry
            writer.execute(
                "UPDATE segment SET entries = ? WHERE experiment = ? AND id = ?",
                (as_bytes(longer), experiment, id),
            )
    if entries:
        _changed(writer)


def _changed(writer: Writer) -> int:
    """Return the next version, by which the other replicas know that there are other segments."""
    made = writer.rows(
        "UPDATE deployment SET segments = segments + 1 WHERE id = 1 RETURNING segments"
    )
    return int(made[0][0])
