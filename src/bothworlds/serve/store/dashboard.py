"""Queries of the dashboard."""

from __future__ import annotations

from collections.abc import Mapping

from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import CHECKPOINT, AuditRow, CheckpointRow, ReplicaRow
from bothworlds.serve.store.writer import Writer


def nth_newest(reader: Reader, experiment: int, n: int) -> bytes:
    """Return the id of the n-th newest decision, one before all others if there are fewer."""
    found = reader.rows(
        "SELECT id FROM decision WHERE experiment = ? ORDER BY id DESC LIMIT 1 OFFSET ?",
        (experiment, n),
    )
    return found[0][0] if found else b""


def some_checkpoints(reader: Reader, experiment: int, epoch: int, most: int) -> list[CheckpointRow]:
    """Return some checkpoints of an epoch, evenly from the first to the last."""
    ids = [
        id
        for (id,) in reader.rows(
            "SELECT id FROM checkpoint WHERE experiment = ? AND epoch = ? ORDER BY id",
            (experiment, epoch),
        )
    ]
    if len(ids) > most:
        last = len(ids) - 1
        ids = [ids[place] for place in sorted({n * last // (most - 1) for n in range(most)})]
    if not ids:
        return []
    found = reader.rows(
        f"SELECT {CHECKPOINT} FROM checkpoint "
        f"WHERE id IN ({', '.join('?' * len(ids))}) ORDER BY id",
        ids,
    )
    return list(map(CheckpointRow._make, found))


def rewarded(reader: Reader, experiment: int) -> bool:
    """Return whether the newest feedback that was noted came as a reward."""
    found = reader.rows("SELECT rewarded FROM experiment WHERE id = ?", (experiment,))
    return bool(found and found[0][0])


def note_rewards(writer: Writer, found: Mapping[int, bool]) -> None:
    """Note of experiments whether their feedback comes as rewards."""
    with writer.transaction():
        writer.execute_many(
            "UPDATE experiment SET rewarded = ? WHERE id = ?",
            [(int(rewarded), number) for number, rewarded in found.items()],
        )


def count_since(reader: Reader, experiment: int, after: bytes, most: int) -> int:
    """Return how many decisions came after an id; counting stops at ``most``."""
    found = reader.rows(
        "SELECT COUNT(*) FROM (SELECT 1 FROM decision WHERE experiment = ? AND id > ? "
        "LIMIT ?) AS newest",
        (experiment, after, most),
    )
    return int(found[0][0])


def newest_feedback(reader: Reader, experiment: int, limit: int) -> list[tuple[bytes, float]]:
    """Return ids and times of the feedback that callers gave to the newest decisions."""
    return reader.rows(
        "SELECT id, told_at FROM feedback WHERE experiment = ? AND source = 'client' "
        "ORDER BY id DESC LIMIT ?",
        (experiment, limit),
    )


def replicas(reader: Reader, experiment: int, epoch: int, own: int) -> list[ReplicaRow]:
    """Return the replicas that serve now or have learned something in an epoch.

    ``own`` is the number of the replica that asks; a process that only reads has none.
    """
    runs = {
        shard: (started, ended)
        for shard, started, ended in reader.rows(
            "SELECT r.shard, r.started_at, r.ended_at FROM run r WHERE r.run = "
            "(SELECT MAX(run) FROM run WHERE shard = r.shard)"
        )
    }
    sums = {
        shard: (learned, rounds)
        for shard, learned, rounds in reader.rows(
            "SELECT shard, learned, rounds FROM state "
            "WHERE experiment = ? AND epoch = ? AND segment = ?",
            (experiment, epoch, b""),
        )
    }
    serving = {shard for shard in reader.serving() if shard >= 0} | {own}
    return [
        ReplicaRow(
            shard, shard == own, shard in serving, *runs.get(shard, (None, None)),
            *sums.get(shard, (0, 0)),
        )
        for shard in sorted(serving | set(sums))
    ]  # fmt: skip


def changes_of(reader: Reader, tenant: int, experiment: str, limit: int) -> list[AuditRow]:
    """Return audit rows of one experiment, newest first."""
    return reader.audit(tenant, "experiment = ? ORDER BY id DESC LIMIT ?", experiment, limit)
