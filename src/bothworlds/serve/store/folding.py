"""Folds in a store: one row per experiment and epoch, which the replicas continue in turn.

A transaction that numbers feedback locks the row first, before it writes anything else, so that the
numbers are those of the commits.  Rows are locked in one order on every replica.  The functions
with a `Writer` are for a transaction of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bothworlds.errors import StoreError
from bothworlds.serve.domain.folds import Fold, Order
from bothworlds.serve.domain.sums import Place
from bothworlds.serve.store.rows import FEEDBACK, FeedbackRow

if TYPE_CHECKING:
    from bothworlds.serve.store.writer import Connection, Writer

Folds = dict[Place, Fold]

PAGE = 20_000
"""Feedback that is folded at a time."""


def lock(
    writer: Writer,
    places: Iterable[Place],
    orders: Mapping[int, Order],
    known: Mapping[Place, Fold],
) -> Folds:
    """Lock the folds of some experiments and epochs, and return copies of them as they are now.

    ``known`` has folds that were read or written before; those that changed since are read again.
    """
    found: Folds = {}
    for place in sorted(set(places)):
        before = known.get(place)
        rows = writer.rows(
            "SELECT number, CASE WHEN number = ? THEN NULL ELSE state END FROM fold "
            "WHERE experiment = ? AND epoch = ?" + writer.for_update,
            (-1 if before is None else before.number, *place),
        )
        if not rows:
            raise StoreError(f"The store has no state of epoch {place[1]} of an experiment.")
        number, state = rows[0]
        if before is not None and state is None:
            found[place] = before.copy()
        else:
            found[place] = Fold.read(orders[place[0]], number, state)
    return found


def put(writer: Writer, folds: Mapping[Place, Fold]) -> None:
    """Write folds that `lock` has returned."""
    for place, fold in folds.items():
        writer.execute(
            "UPDATE fold SET number = ?, state = ? WHERE experiment = ? AND epoch = ?",
            (fold.number, fold.state(), *place),
        )


def begin(writer: Writer, place: Place, fold: Fold) -> None:
    """Insert the fold of a new epoch."""
    state = fold.state()
    writer.execute(
        "INSERT INTO fold (experiment, epoch, number, state) VALUES (?, ?, ?, ?)",
        (*place, fold.number, state),
    )
    writer.execute(
        "INSERT INTO fold_base (experiment, epoch, number, until, state) VALUES (?, ?, ?, ?, ?)",
        (*place, fold.number, fold.number, state),
    )


def number_feedback(
    writer: Writer, rows: Sequence[FeedbackRow], orders: Mapping[int, Order],
    known: Mapping[Place, Fold],
) -> tuple[list[FeedbackRow], Folds]:  # fmt: skip
    """Give feedback of experiments that learn in order its numbers; return it, and the folds."""
    places = {
        (row.experiment, row.epoch)
        for row in rows
        if row.experiment in orders and row.status == "learned"
    }
    if not places:
        return list(rows), {}
    folds = lock(writer, places, orders, known)
    numbered = []
    for row in rows:
        fold = folds.get((row.experiment, row.epoch))
        if fold is None or row.status != "learned":
            numbered.append(row)
        else:
            numbered.append(fold.numbered(row))
    return numbered, folds


def learn(writer: Writer, rows: Sequence[FeedbackRow], folds: Folds) -> Folds:
    """Fold new feedback, numbered before, and write the folds; return those that changed."""
    changed: Folds = {}
    by_place: dict[Place, list[FeedbackRow]] = {}
    for row in rows:
        if row.number is not None and row.status == "learned":
            by_place.setdefault((row.experiment, row.epoch), []).append(row)
    for place, found in by_place.items():
        folds[place].learn(found)
        changed[place] = folds[place]
    put(writer, changed)
    return changed


def lock_quarantined(writer: Writer, experiment: int, orders: Mapping[int, Order]) -> None:
    """Lock the folds that feedback in quarantine would be learned by, before its rows are."""
    if experiment in orders:
        epochs = writer.rows(
            "SELECT DISTINCT epoch FROM feedback WHERE experiment = ? AND status = 'quarantined'",
            (experiment,),
        )
        lock(writer, [(experiment, epoch) for (epoch,) in epochs], orders, {})


def renumber(
    writer: Writer, rows: Sequence[FeedbackRow], orders: Mapping[int, Order],
    known: Mapping[Place, Fold],
) -> Folds:  # fmt: skip
    """Learn from feedback that is in the store already, as the latest; return the changed folds."""
    numbered, folds = number_feedback(writer, rows, orders, known)
    writer.execute_many(
        "UPDATE feedback SET number = ? WHERE experiment = ? AND id = ?",
        [(row.number, row.experiment, row.id) for row in numbered if row.number is not None],
    )
    return learn(writer, numbered, folds)


def join(writer: Writer, place: Place, order: Order, arm: int, probability: float | None) -> None:
    """Let an arm join, at this place of the order."""
    fold = lock(writer, [place], {place[0]: order}, {})[place]
    column = fold.newcomer(probability)
    fold.join(arm, column)
    _changed(writer, place, fold, arm, column.astype("<f8").tobytes())


def leave(writer: Writer, place: Place, order: Order, arm: int) -> None:
    """Let an arm leave, at this place of the order."""
    fold = lock(writer, [place], {place[0]: order}, {})[place]
    fold.leave(arm)
    _changed(writer, place, fold, arm, None)


def _changed(writer: Writer, place: Place, fold: Fold, arm: int, joined: bytes | None) -> None:
    fold.number += 1
    writer.execute(
        "INSERT INTO fold_arm (experiment, epoch, number, place, joined) VALUES (?, ?, ?, ?, ?)",
        (*place, fold.number, arm, joined),
    )
    put(writer, {place: fold})


# --- reading ---------------------------------------------------------------------------------


def refold(store: Connection, place: Place, order: Order) -> Fold:
    """Return the fold over the feedback in the store, and over deleted feedback."""
    fold = base_of(store, place, order)
    while rows := _next_learned(store, place, fold.number, PAGE):
        continued(store, place, fold, rows)
    continued(store, place, fold, ())
    return fold


def base_of(store: Connection, place: Place, order: Order) -> Fold:
    """Return the fold over the feedback that retention has deleted."""
    found = store.rows(
        "SELECT number, state FROM fold_base WHERE experiment = ? AND epoch = ?", place
    )
    return Fold.read(order, *found[0])


def _next_learned(store: Connection, place: Place, after: int, limit: int) -> list[FeedbackRow]:
    """Return learned feedback by number, from the first after a number on."""
    found = store.rows(
        f"SELECT {FEEDBACK} FROM feedback WHERE experiment = ? AND epoch = ? "
        "AND number > ? AND status = 'learned' ORDER BY number LIMIT ?",
        (*place, after, limit),
    )
    return list(map(FeedbackRow._make, found))


def continued(store: Connection, place: Place, fold: Fold, rows: Sequence[FeedbackRow]) -> None:
    """Continue a fold with the next learned feedback, and with the arms that changed meanwhile.

    Without feedback, with all changes of the arms that are left.
    """
    last = rows[-1].number if rows else None
    changes = store.rows(
        "SELECT number, place, joined FROM fold_arm WHERE experiment = ? AND epoch = ? "
        "AND number > ? AND (number < ? OR ?) ORDER BY number",
        (*place, fold.number, last or 0, last is None),
    )
    numbers = [row.number or 0 for row in rows]
    at = 0
    for number, arm, joined in changes:
        until = bisect_right(numbers, number)
        fold.learn(rows[at:until])
        at = until
        if joined is None:
            fold.leave(arm)
        else:
            fold.join(arm, np.frombuffer(joined, "<f8"))
        fold.number = number
    fold.learn(rows[at:])
    fold.number = last or fold.number


def restore(writer: Writer, place: Place, fold: Fold) -> None:
    """Replace the state of a fold, whose number stays if it is larger."""
    writer.execute(
        "INSERT INTO fold (experiment, epoch, number, state) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (experiment, epoch) DO UPDATE SET state = excluded.state, "
        "number = CASE WHEN fold.number > excluded.number THEN fold.number + 1 "
        "ELSE excluded.number + 1 END",
        (*place, fold.number, fold.state()),
    )


def take_old(
    writer: Writer, experiment: int, order: Order, before: bytes, limit: int
) -> list[FeedbackRow]:
    """Return feedback that can be deleted, once the bases of its folds have learned from it.

    A base continues in the order: up to the first feedback of a decision that is not old enough.
    """
    found = writer.rows(
        f"SELECT {FEEDBACK} FROM feedback WHERE experiment = ? AND id < ? "
        "AND status = 'not_learnable' ORDER BY id LIMIT ?" + writer.for_update,
        (experiment, before, limit),
    )
    taken = list(map(FeedbackRow._make, found))
    for (epoch,) in writer.rows("SELECT epoch FROM fold WHERE experiment = ?", (experiment,)):
        place = experiment, epoch
        fold = base_of(writer, place, order)
        rows = _next_learned(writer, place, fold.number, limit)
        old = next((n for n, row in enumerate(rows) if row.id >= before), len(rows))
        if old:
            continued(writer, place, fold, rows[:old])
            writer.execute(
                "UPDATE fold_base SET number = ?, state = ?, until = "
                "(SELECT number FROM fold WHERE experiment = ? AND epoch = ?) "
                "WHERE experiment = ? AND epoch = ?",
                (fold.number, fold.state(), *place, *place),
            )
            taken += rows[:old]
    return sorted(taken)
