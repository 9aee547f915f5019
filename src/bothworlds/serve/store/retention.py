"""Retention: claims, decisions and feedback that are old enough are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bothworlds.serve.domain.folds import Order
from bothworlds.serve.domain.sums import Living, StateKey, Sums
from bothworlds.serve.store import folding
from bothworlds.serve.store.rows import FEEDBACK, FeedbackRow
from bothworlds.serve.store.writer import HOUR, Writer, as_bytes, compacted, living


def forget_claims(writer: Writer, now: float, limit: int = 1000) -> int:
    """Delete claims that have expired, and the counts of hours that are over."""
    with writer.transaction():
        writer.execute("DELETE FROM cap_use WHERE hour < ?", (int(now // HOUR) - 1,))
        found = writer.rows(
            "SELECT experiment, kind, hash FROM claim WHERE expires_at <= ? LIMIT ?",
            (now, limit),
        )
        if found:
            writer.execute_many(
                "DELETE FROM claim WHERE experiment = ? AND kind = ? AND hash = ? "
                "AND expires_at <= ?",
                [(*row, now) for row in found],
            )
    return len(found)


def forget_decisions(writer: Writer, experiment: int, before: bytes, limit: int = 5000) -> int:
    """Delete the oldest records of the log, and activations."""
    with writer.transaction():
        found = writer.rows(
            "SELECT experiment, id FROM decision WHERE experiment = ? AND id < ? "
            "ORDER BY id LIMIT ?",
            (experiment, before, limit),
        )
        if found:
            writer.delete_decisions(found)
    return len(found)


def forget_segments(writer: Writer, experiment: int, before: float) -> None:
    """Delete the names of segments that were evicted before a time; the log has none of them."""
    with writer.transaction():
        writer.execute(
            "DELETE FROM segment WHERE experiment = ? AND evicted_at < ?", (experiment, before)
        )


def forget_feedback(
    writer: Writer,
    experiment: int,
    version: int,
    before: bytes,
    add: Callable[[dict[StateKey, Sums], Iterable[FeedbackRow], Living], dict[StateKey, Sums]],
    order: Order | None = None,
    limit: int = 5000,
) -> int:
    """Delete the oldest feedback, and keep its contribution.

    The store keeps the last id that was deleted, up to which no feedback is accepted again. Nothing
    is deleted from an experiment that no longer has this ``version``: its window may be wider now.

    ``add`` takes the sums of deleted feedback, the rows that are deleted now, and the segments that
    live, and returns the sums with these rows. Feedback in quarantine stays. ``order`` is how the
    experiment learns if it does in order: then what goes is old feedback that no younger one
    precedes.
    """
    with writer.transaction():
        now = writer.rows(
            "SELECT version FROM experiment WHERE id = ?" + writer.for_update, (experiment,)
        )
        if now != [(version,)]:
            return 0
        if order is not None:
            found = folding.take_old(writer, experiment, order, before, limit)
        else:
            old = writer.rows(
                f"SELECT {FEEDBACK} FROM feedback "
                "WHERE experiment = ? AND id < ? AND status <> 'quarantined' "
                "ORDER BY id LIMIT ?" + writer.for_update,
                (experiment, before, limit),
            )
            found = list(map(FeedbackRow._make, old))
        if not found:
            return 0
        kept = compacted(writer, "WHERE experiment = ?" + writer.for_update, (experiment,))
        for key, sums in add(kept, found, living(writer, found)).items():
            writer.execute(
                "INSERT INTO compacted (experiment, epoch, segment, sums, told, lost, learned) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (experiment, epoch, segment) "
                "DO UPDATE SET sums = excluded.sums, told = excluded.told, lost = excluded.lost, "
                "learned = excluded.learned",
                (
                    *key, as_bytes(sums.sums), as_bytes(sums.told), as_bytes(sums.lost),
                    sums.learned,
                ),
            )  # fmt: skip
        writer.execute_many(
            "DELETE FROM feedback WHERE experiment = ? AND id = ?",
            [(experiment, row.id) for row in found],
        )
        writer.execute(
            "INSERT INTO forgotten (experiment, upto) VALUES (?, ?) "
            "ON CONFLICT (experiment) DO UPDATE SET upto = excluded.upto "
            "WHERE forgotten.upto < excluded.upto",
            (experiment, found[-1].id),
        )
    return len(found)
