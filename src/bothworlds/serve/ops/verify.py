"""Verification of a store: the invariants that can be read off it, and the state replayed.

`verify` looks at a store that is served or not; `replay` rebuilds the states from the feedback.
Both read one snapshot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from bothworlds.serve.domain import records
from bothworlds.serve.domain.config import Config
from bothworlds.serve.domain.draws import LARGEST_SUM
from bothworlds.serve.domain.folds import Fold
from bothworlds.serve.domain.sums import Place, StateKey, Sums, by_key, summed
from bothworlds.serve.domain.tokens import first_identity
from bothworlds.serve.store import folding
from bothworlds.serve.store.opening import using
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.rows import Configuration, FeedbackRow


@dataclass(frozen=True)
class Finding:
    """Outcome of one check."""

    invariant: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Rebuilt:
    """The state of an experiment and epoch, rebuilt from its feedback."""

    experiment: str
    epoch: int
    rows: int
    equal: bool


class _Log:
    """The feedback of a store, summed by state, and its faults."""

    def __init__(self, reader: Reader) -> None:
        self.configuration: Configuration = reader.configuration()
        self.sums: dict[StateKey, Sums] = {}
        self.rows = 0
        self.learned: dict[Place, int] = {}
        self.segments = {
            (each.experiment, each.epoch, each.id): each.name
            for each in self.configuration.segments.rows
        }
        living = {(each.experiment, each.id) for each in self.configuration.segments.rows}
        self.faults: dict[str, list[str]] = {}
        arms = {each.id: len(each.arms) for each in self.configuration.experiments}
        self._experts = {
            each.id: len(each.config.get("experts", ())) for each in self.configuration.experiments
        }
        epochs = {each.id: each.epoch for each in self.configuration.experiments}
        self._forgotten = reader.forgotten()
        self._until: dict[Place, int] = {
            (experiment, epoch): until
            for experiment, epoch, until in reader.rows(
                "SELECT experiment, epoch, until FROM fold_base"
            )
        }
        incarnations = self.configuration.incarnations
        # Ids after the first of a triple, and before the second, were lost at the third. Those from
        # before an incarnation are of an earlier one, whose end decides.
        begun = [first_identity(each.started_at - reader.margin) for each in incarnations]
        self._lost = [
            (max(former.ended or b"", first), until, later)
            for (former, first), (later, until) in itertools.pairwise(
                zip(incarnations, begun, strict=True)
            )
        ]
        if not incarnations or incarnations[-1].ended is not None:
            self._fault("I11", "the deployment has no current incarnation")
        for rows in reader.feedback():
            self.rows += len(rows)
            for row in rows:
                self._check(row, arms, epochs)
            for key, learned in by_key(rows, living).items():
                self.sums[key] = summed(learned, self.sums.get(key))
                if not key[2]:
                    self.learned[key[:2]] = self.learned.get(key[:2], 0) + len(learned)

    def _check(self, row: FeedbackRow, arms: dict[int, int], epochs: dict[int, int]) -> None:
        name = row.id.hex()
        try:
            record = records.decode(row.record)
        except ValueError as error:
            self._fault("I3", f"feedback {name} has {error}")
            return
        if row.experiment not in arms:
            self._fault("I3", f"feedback {name} belongs to no experiment")
            return
        if (record.experiment, record.id, record.epoch) != (row.experiment, row.id, row.epoch):
            self._fault("I3", f"feedback {name} is stored under another decision's id")
        if record.epoch > epochs[row.experiment] or record.known > arms[row.experiment]:
            self._fault("I3", f"feedback {name} belongs to a future epoch or arm")
        if record.learnable and record.experts != self._experts[row.experiment]:
            self._fault("I3", f"feedback {name} has the advice of {record.experts} experts")
        if row.status == "learned" and not record.learnable:
            self._fault("I3", f"feedback {name} was learned, but drawn in mode {record.mode}")
        if not (math.isfinite(row.loss) and 0.0 <= row.loss <= 1.0):
            self._fault("I4", f"feedback {name} has the loss {row.loss}")
        forgotten = row.id <= self._forgotten.get(row.experiment, b"")
        # What is learned in order is deleted in order: an older decision's feedback may be left.
        left = (row.number or math.inf) <= self._until.get((row.experiment, row.epoch), 0)
        if row.status != "quarantined" and forgotten and not left:
            self._fault("I11", f"feedback {name} was forgotten before it was accepted again")
        if any(
            ended < row.id < until and row.told_at >= later.started_at
            for ended, until, later in self._lost
        ):
            self._fault("I11", f"feedback {name} belongs to a period that a restore discarded")
        if not 1.0 - 1e-9 <= record.inverse_p <= records.LARGEST_INVERSE_P:
            self._fault("I5", f"feedback {name} has 1/p = {record.inverse_p}")

    def _fault(self, invariant: str, detail: str) -> None:
        self.faults.setdefault(invariant, []).append(detail)

    def finding(self, invariant: str, fine: str) -> Finding:
        """Return whether the feedback keeps an invariant."""
        found = self.faults.get(invariant)
        if not found:
            return Finding(invariant, True, fine)
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        return Finding(invariant, False, f"{found[0]}{more}")


def _totals(reader: Reader) -> dict[StateKey, Sums]:
    found: dict[StateKey, Sums] = {}
    for row in reader.states():
        found[row.key] = row.sums.plus(found[row.key]) if row.key in found else row.sums
    return found


def _folds(
    reader: Reader, configuration: Configuration
) -> Iterator[tuple[Place, Fold | None, bool]]:
    """Yield the folds over the feedback in the store, and whether the store has the same.

    Feedback that cannot be read has none.
    """
    orders = {
        each.id: Config.from_document(each.config).order for each in configuration.experiments
    }
    for experiment, epoch, state in reader.rows(
        "SELECT b.experiment, b.epoch, f.state FROM fold_base b LEFT JOIN fold f "
        "ON f.experiment = b.experiment AND f.epoch = b.epoch ORDER BY b.experiment, b.epoch"
    ):
        order = orders.get(experiment)
        if order is not None:
            place = experiment, epoch
            try:
                again = folding.refold(reader, place, order)
            except ValueError:
                yield place, None, False
            else:
                yield place, again, state is not None and again.state() == bytes(state)


def verify(where: str) -> list[Finding]:
    """Check the invariants of a store, served or not.

    Parameters
    ----------
    where : str
        A path, or ``postgresql://...``.

    Returns
    -------
    list of Finding
        One per invariant that can be read off a store.

    Raises
    ------
    StoreError
        If the store cannot be opened.
    """
    with using(where) as store:
        return verify_store(store.reader)


def verify_store(reader: Reader) -> list[Finding]:
    """Check the invariants of a store that is open."""
    with reader.snapshot():
        log = _Log(reader)
        totals = _totals(reader)
        kept = reader.compacted()
        found = [Finding("I1", True, f"{log.rows} feedback rows, at most one per decision")]
        found.append(_sums_agree(log, totals, kept))
        found.append(log.finding("I3", "every feedback has a record of its own experiment"))
        found.append(log.finding("I4", "every loss lies in [0, 1]"))
        found.append(log.finding("I5", "every probability is in the valid range"))
        found.append(_arms_are_distinct(log.configuration))
        found.append(_changes_are_audited(reader))
        found.append(log.finding("I11", "no feedback belongs to a discarded or forgotten period"))
        found.append(_folds_agree(reader, log.configuration))
        return found


def _sums_agree(log: _Log, totals: dict[StateKey, Sums], kept: dict[StateKey, Sums]) -> Finding:
    names = {each.id: each.name for each in log.configuration.experiments}
    for key in sorted({*totals, *log.sums, *kept}):
        expected = log.sums.get(key, Sums.blank(0)).plus(kept.get(key, Sums.blank(0)))
        stored = totals.get(key, Sums.blank(0))
        where = f"epoch {key[1]} of {names.get(key[0], key[0])!r}"
        if key[2]:
            where = f"segment {log.segments.get(key, key[2].hex())!r} in {where}"
        if not stored.same(expected):
            detail = f"the state of {where} is not the sum of its feedback"
            return Finding("I2", False, detail)
        if any(abs(int(each)) > LARGEST_SUM for each in stored.sums):
            return Finding("I2", False, f"the state of {where} is out of range")
    total = sum(log.learned.values())
    return Finding("I2", True, f"{len(totals)} states are the sums of {total} contributions")


def _folds_agree(reader: Reader, configuration: Configuration) -> Finding:
    count = 0
    names = {each.id: each.name for each in configuration.experiments}
    for place, _, equal in _folds(reader, configuration):
        count += 1
        if not equal:
            where = f"epoch {place[1]} of {names.get(place[0], place[0])!r}"
            return Finding("I13", False, f"the state of {where} is not the fold of its feedback")
    return Finding("I13", True, f"{count} states are the folds of their feedback, bit by bit")


def _arms_are_distinct(configuration: Configuration) -> Finding:
    for each in configuration.experiments:
        if [arm.place for arm in each.arms] != list(range(len(each.arms))):
            return Finding("I7", False, f"the arms of {each.name!r} are not numbered in order")
        if len({arm.name for arm in each.arms}) != len(each.arms):
            return Finding("I7", False, f"two arms of {each.name!r} have one name")
    return Finding("I7", True, "no two arms share a number or a name")


def _changes_are_audited(reader: Reader) -> Finding:
    changes, rows = reader.changes()
    if changes != rows:
        return Finding("I8", False, f"{changes} changes of the configuration, {rows} audit rows")
    return Finding("I8", True, f"{changes} changes of the configuration, each with its audit row")


def replay(where: str, *, write: bool = False) -> list[Rebuilt]:
    """Rebuild the states of a store from its feedback.

    Parameters
    ----------
    where : str
        A path, or ``postgresql://...``.
    write : bool
        Whether to replace states that differ by the rebuilt ones; no server may run meanwhile.

    Returns
    -------
    list of Rebuilt
        By experiment and epoch, with whether the stored state is the same, bit by bit.
    """
    with using(where, serve=write) as store:
        reader = store.reader
        with reader.snapshot():
            log = _Log(reader)
            totals = _totals(reader)
            kept = reader.compacted()
            folds = {
                place: fold for place, fold, equal in _folds(reader, log.configuration) if not equal
            }
        names = {each.id: each.name for each in log.configuration.experiments}
        answers = []
        rebuilt: dict[StateKey, Sums] = {}
        places: dict[Place, bool] = {}
        for key in sorted({*totals, *log.sums, *kept}):
            sums = log.sums.get(key, Sums.blank(0)).plus(kept.get(key, Sums.blank(0)))
            equal = sums.same(totals.get(key, Sums.blank(0)))
            if not equal:
                rebuilt[key] = sums
            place = key[:2]
            places[place] = places.get(place, place not in folds) and equal
        for place, equal in places.items():
            name = names.get(place[0], str(place[0]))
            answers.append(Rebuilt(name, place[1], log.learned.get(place, 0), equal))
        if write and rebuilt:
            store.writer.replace_states(rebuilt)
        if write and folds:
            with store.writer.transaction():
                for place, fold in folds.items():
                    if fold is not None:
                        folding.restore(store.writer, place, fold)
        return answers
