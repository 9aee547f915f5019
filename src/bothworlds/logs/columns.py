"""Reading logs of decisions as columns, some thousands of rows at a time.

A log is a path in one of the formats of `bothworlds.logs`, an iterable of
`LoggedDecision` or of mappings with the same keys, or a table of columns.  Errors name the number
of the row, from 1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import Arm, checked_bounds, is_name
from bothworlds.errors import InvalidParameter, invalid
from bothworlds.logs.jsonl import joined_rows, read_jsonl
from bothworlds.logs.open_bandit import read_open_bandit
from bothworlds.logs.parquet import whole_file
from bothworlds.logs.record import SUM_TOLERANCE, LoggedDecision, fault
from bothworlds.logs.vowpal_wabbit import read_vw

Array = NDArray[np.float64]
Log = str | os.PathLike[str] | Iterable[Any] | Mapping[str, Any]

BLOCK = 65_536


def read_lines(path: str | os.PathLike[str]) -> Iterator[LoggedDecision]:
    """Read JSON lines; a bandit's own log has a line for a decision and one for its feedback."""
    return joined_rows(read_jsonl(path))


READERS: dict[str, Callable[[Any], Iterator[LoggedDecision]]] = {
    ".jsonl": read_lines,
    ".ndjson": read_lines,
    ".json": read_lines,
    ".vw": read_vw,
    ".dat": read_vw,
    ".txt": read_vw,
    ".csv": read_open_bandit,
}
"""Formats by the ending of the file's name; Parquet is read by columns."""

PARQUET = (".parquet", ".pq")


@dataclass
class Names:
    """The arms of a log in the order in which they appear."""

    listed: list[Arm] = field(default_factory=list)
    place: dict[Arm, int] = field(default_factory=dict)

    def number(self, arm: Arm) -> int:
        """Return an arm's number, a new one if it is new."""
        found = self.place.setdefault(arm, len(self.listed))
        if found == len(self.listed):
            self.listed.append(arm)
        return found


@dataclass(frozen=True)
class Rows:
    """Some rows of a log as columns."""

    arms: NDArray[np.int64]
    """Numbers of the played arms."""
    probability: Array
    """Probability of the played arm; NaN where unknown."""
    losses: Array
    """In [0, 1]; NaN where no answer came."""
    values: Array
    """The outcomes, in the log's own units."""
    rounds: NDArray[np.int64]
    """When it was decided."""
    weights: Array
    """(rows, arms so far): the probability of every arm, NaN where it was away; or no columns."""
    whole: NDArray[np.bool_]
    """Whether the row has the probability of every arm."""
    numbers: NDArray[np.int64]
    """Numbers of the rows in the log, from 1."""
    rewards: bool | None
    """Whether feedback is rewards; None without feedback."""
    column: Callable[[str], Sequence[Any]]
    """Gives another column by its name; KeyError where there is none."""
    rows: Callable[[], Iterable[LoggedDecision]]
    """Gives the rows one by one."""

    def __len__(self) -> int:
        return int(self.arms.size)

    def inverse(self) -> Array:
        """Return 1 / probability of the played arms; 0 where unknown."""
        return np.where(np.isnan(self.probability), 0.0, 1.0 / self.probability)

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return the chosen rows."""
        if chosen.all():
            return self
        places = np.flatnonzero(chosen)
        return replace(
            self,
            **{
                name: getattr(self, name)[chosen]
                for name in ("arms", "probability", "losses", "values", "rounds", "weights",
                             "whole", "numbers")
            },
            column=lambda name: _picked(self.column(name), places),
            rows=lambda: _picked(list(self.rows()), places),
        )  # fmt: skip

    def told(self) -> Rows:
        """Return the rows with an answer."""
        return self.where(~np.isnan(self.losses))

    def widened(self, n_arms: int) -> Array:
        """Return the weights with a column for each of ``n_arms``."""
        missing = n_arms - self.weights.shape[1]
        if missing == 0:
            return self.weights
        return np.pad(self.weights, ((0, 0), (0, missing)), constant_values=np.nan)


def _picked(values: Sequence[Any], places: NDArray[np.intp]) -> list[Any]:
    return [values[place] for place in places]


class Reading:
    """A log being read.

    Parameters
    ----------
    log : path, iterable or table
        What `bothworlds.inference` accepts.
    bounds : pair of float
        The smallest and largest possible reward or loss.
    owner : str
        Name of the reader, for error messages.
    between : pair of int, optional
        The first and last round that count.
    arms : sequence of str or int
        Arms that come first, whether or not the log names them.

    Examples
    --------
    >>> reading = Reading([{"round": 1, "arm": "blue", "loss": 0.5, "probability": 0.25}])
    >>> rows = next(reading.blocks())
    >>> rows.losses.tolist(), reading.names.listed
    ([0.5], ['blue'])
    """

    def __init__(
        self,
        log: Log,
        bounds: tuple[float, float] = (0.0, 1.0),
        owner: str = "inference.report",
        between: tuple[int, int] | None = None,
        arms: Sequence[Arm] = (),
    ) -> None:
        self.names = Names()
        for arm in arms:
            self.names.number(arm)
        self.owner = owner
        self.bounds = checked_bounds(bounds)
        self.between = _checked_span(between, owner)
        self.title = Path(log).name if isinstance(log, str | os.PathLike) else "the log"
        self.rewards: bool | None = None
        self.count = 0
        self._log = log
        self._seen = _Rounds()

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows, checked, in order.

        Raises
        ------
        InvalidParameter
            At a row that cannot be used, or at the end of a log without rows.
        """
        for rows in self._raw():
            self.count += len(rows)
            self._refuse_repeated(rows)
            if rows.rewards is not None:
                if self.rewards not in (None, rows.rewards):
                    self._refuse(rows, 0, "reward", "given in every row or in none", "a loss too")
                self.rewards = rows.rewards
            if self.between is not None:
                first, last = self.between
                rows = rows.where((rows.rounds >= first) & (rows.rounds <= last))
            yield rows
        if self.count == 0:
            raise invalid("log", self.owner, "one or more decisions", "no row")

    def _raw(self) -> Iterator[Rows]:
        log = self._log
        if isinstance(log, str | os.PathLike):
            ending = Path(log).suffix.lower()
            if ending in PARQUET:
                yield from self._parquet(Path(log))
                return
            if ending not in READERS:
                endings = ", ".join([*PARQUET, *READERS])
                expected = f"a file name ending in one of {endings}"
                raise invalid("log", self.owner, expected, str(log))
            yield from self._records(READERS[ending](log))
        elif isinstance(log, Mapping) or hasattr(log, "columns"):
            yield from self._table(log)
        elif isinstance(log, Iterable):
            yield from self._records(log)
        else:
            expected = "a path, an iterable of decisions or a table of columns"
            raise invalid("log", self.owner, expected, log)

    def _where(self, number: int) -> str:
        return f"row {number} of {self.title}"

    def _refuse(self, rows: Rows, at: int, parameter: str, expected: str, got: object) -> None:
        where = self._where(int(rows.numbers[at]))
        raise invalid(parameter, where, expected, got)

    def _refuse_repeated(self, rows: Rows) -> None:
        again = self._seen.first_repeated(rows.rounds)
        if again is not None:
            expected = "the round of no earlier row"
            self._refuse(rows, again, "round", expected, int(rows.rounds[again]))

    # --- one row after the other -------------------------------------------------------------

    def _records(self, log: Iterable[Any]) -> Iterator[Rows]:
        source, number = iter(log), 0
        while block := list(islice(source, BLOCK)):
            records = [self._record(item, number + n + 1) for n, item in enumerate(block)]
            yield self._rows_of(records, number)
            number += len(block)

    def _record(self, item: Any, number: int) -> LoggedDecision:
        if isinstance(item, LoggedDecision):
            return item
        if not isinstance(item, Mapping):
            expected = "a LoggedDecision or a mapping of its values"
            raise InvalidParameter(f"The {self._where(number)} must be {expected}, got {item!r}.")
        known = {key: item[key] for key in LoggedDecision.__dataclass_fields__ if key in item}
        known.setdefault("round", number)
        further = {key: item[key] for key in item if key not in known}
        if further:
            known["extra"] = {**further, **known.get("extra", {})}
        wrong = fault(known)
        if wrong is not None:
            raise invalid(wrong[0], self._where(number), *wrong[1:])
        return LoggedDecision(**known)

    def _rows_of(self, records: list[LoggedDecision], before: int) -> Rows:
        names = self.names
        arms = np.array([names.number(record.arm) for record in records], np.int64)
        tables = [record.probabilities for record in records]
        for table in tables:
            for arm in table or ():
                names.number(arm)
        whole = np.array([table is not None for table in tables])
        weights = np.full((len(records), len(names.listed) if whole.any() else 0), np.nan)
        for n, table in enumerate(tables):
            for arm, share in (table or {}).items():
                weights[n, names.place[arm]] = share
        own = np.array([np.nan if r.probability is None else r.probability for r in records])
        bare = np.isnan(own) & whole
        own[bare] = weights[bare, arms[bare]]
        lost = np.array([np.nan if r.loss is None else r.loss for r in records], float)
        won = np.array([np.nan if r.reward is None else r.reward for r in records], float)

        def column(name: str) -> Sequence[Any]:
            if name in ("round", "arm"):
                return [getattr(record, name) for record in records]
            return [record.extra[name] for record in records]

        rounds = np.array([record.round for record in records], np.int64)
        numbers = np.arange(before + 1, before + 1 + len(records))
        return self._told(
            Rows(
                arms, own, lost, won, rounds, weights, whole, numbers, None, column, lambda: records
            )
        )

    def _told(self, given: Rows) -> Rows:
        """Return rows with losses in [0, 1]; ``given`` has rewards as values, losses as logged."""
        low, high = self.bounds
        lost, won = given.losses, given.values
        with_reward, with_loss = ~np.isnan(won), ~np.isnan(lost)
        if with_reward.any() and with_loss.any():
            told = [n for n in range(len(given)) if with_reward[n] or with_loss[n]]
            odd = next(n for n in told if with_reward[n] != with_reward[told[0]])
            kind = "reward" if with_reward[told[0]] else "loss"
            self._refuse(given, odd, "answer", f"a {kind} as before", "the other")
        rewards = True if with_reward.any() else False if with_loss.any() else None
        values = won if rewards else lost
        with np.errstate(invalid="ignore"):
            outside = (values < low) | (values > high)
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            kind = "reward" if rewards else "loss"
            expected = f"a number in [{low:g}, {high:g}], the bounds"
            self._refuse(given, at, kind, expected, float(values[at]))
        losses = (high - values if rewards else values - low) / (high - low)
        return replace(given, losses=losses, values=values, rewards=rewards)

    # --- columns -------------------------------------------------------------------------------

    def _table(self, log: Any) -> Iterator[Rows]:
        held = list(log.keys()) if isinstance(log, Mapping) else list(log.columns)
        if "arm" not in held:
            raise invalid("log", self.owner, "a table with the column arm", sorted(map(str, held)))
        columns = {name: np.asarray(log[name]) for name in held if name != "arms"}
        n = columns["arm"].shape[0]
        shares = columns.pop("probabilities", None)
        listed = list(log["arms"]) if "arms" in held else None
        if shares is not None and (
            shares.ndim != 2 or listed is None or shares.shape != (n, len(listed))
        ):
            expected = "an array with a row per decision and a column for each of arms"
            raise invalid("probabilities", self.owner, expected, shares.shape)
        for name, values in columns.items():
            if values.shape != (n,):
                expected = f"as long as the column arm, {n} rows"
                raise invalid(f"column {name}", self.owner, expected, values.shape)
        for begin in range(0, n, BLOCK):
            span = slice(begin, begin + BLOCK)
            part = {name: values[span] for name, values in columns.items()}
            distinct, place = np.unique(part["arm"], return_inverse=True)
            weights = None if shares is None else shares[span].astype(np.float64)
            size = part["arm"].size
            held_here: Any = part.__getitem__
            yield self._columns(
                [_plain(arm) for arm in distinct], place.ravel(), part, begin, size,
                listed, weights, None, held_here,
            )  # fmt: skip

    def _parquet(self, path: Path) -> Iterator[Rows]:
        before = 0
        with whole_file(path, "log", self.owner) as file:
            if "arm" not in file.schema_arrow.names:
                expected = "a table with the column arm"
                found = sorted(file.schema_arrow.names)
                raise invalid("log", self.owner, expected, found)
            for batch in file.iter_batches(BLOCK, use_threads=False):
                yield self._batch(batch, before)
                before += batch.num_rows

    def _batch(self, batch: Any, before: int) -> Rows:
        held = {name: batch.column(n) for n, name in enumerate(batch.schema.names)}
        coded = held["arm"].dictionary_encode()
        place = coded.indices.to_numpy(zero_copy_only=False)
        if coded.null_count:
            at = int(np.flatnonzero(np.isnan(place.astype(float)))[0])
            where = self._where(before + at + 1)
            raise invalid("arm", where, "a name or a whole number", None)
        part: dict[str, Any] = {}
        for name in ("round", "probability", "loss", "reward"):
            if name in held:
                part[name] = held[name].to_numpy(zero_copy_only=False)
        arms = weights = whole = None
        if "arms" in held and "probabilities" in held:
            lists, shares = held["arms"], held["probabilities"]
            whole = np.array(shares.is_valid().to_numpy(zero_copy_only=False), bool)
            lengths = np.diff(np.asarray(lists.offsets))[: len(lists)] * whole
            inner = lists.flatten().dictionary_encode()
            flat = shares.flatten().to_numpy(zero_copy_only=False)
            if len(inner) != flat.size or int(lengths.sum()) != flat.size:
                where = f"{self.title}, rows {before + 1} to {before + batch.num_rows}"
                raise invalid("probabilities", where, "lists as long as those of arms", "others")
            arms = inner.dictionary.to_pylist()
            weights = np.full((batch.num_rows, len(arms)), np.nan)
            codes = inner.indices.to_numpy(zero_copy_only=False)
            weights[np.repeat(np.arange(batch.num_rows), lengths), codes] = flat

        def column(name: str) -> Sequence[Any]:
            if name in held and name != "extra":
                return list(held[name].to_pylist())
            texts = held["extra"].to_pylist() if "extra" in held else [None] * batch.num_rows
            return [json.loads(text or "{}")[name] for text in texts]

        return self._columns(
            coded.dictionary.to_pylist(), place, part, before, batch.num_rows, arms, weights,
            whole, column,
        )  # fmt: skip

    def _columns(
        self,
        distinct: list[Arm],
        place: NDArray[Any],
        part: Mapping[str, Any],
        before: int,
        size: int,
        listed: list[Arm] | None,
        shares: Array | None,
        whole: NDArray[np.bool_] | None,
        column: Callable[[str], Sequence[Any]],
    ) -> Rows:
        """Return rows of columns, whose arms are ``distinct[place]``."""
        numbers = np.arange(before + 1, before + 1 + size)
        names = self.names
        for arm in [*distinct, *(listed or ())]:
            if not is_name(arm):
                where = self._where(before + 1)
                raise invalid("arm", where, "a name or a whole number", arm)
        own_numbers = np.array([names.number(arm) for arm in distinct], np.int64)
        arms = own_numbers[place] if size else np.zeros(0, np.int64)
        weights = np.full((size, 0), np.nan)
        if shares is None or listed is None:
            whole = np.zeros(size, bool)
        else:
            order = [names.number(arm) for arm in listed]
            weights = np.full((size, len(names.listed)), np.nan)
            weights[:, order] = shares
            whole = np.ones(size, bool) if whole is None else whole
        rounds = np.asarray(part.get("round", numbers))

        def numbers_of(name: str) -> Array:
            if name not in part:
                return np.full(size, np.nan)
            try:
                return np.asarray(part[name]).astype(np.float64)
            except (TypeError, ValueError):
                where = self._where(before + 1)
                raise invalid(name, where, "a number", part[name][0]) from None

        own, lost, won = map(numbers_of, ("probability", "loss", "reward"))

        def rows() -> Iterable[LoggedDecision]:
            for n in range(size):
                table = None
                if whole[n]:
                    known = zip(names.listed, weights[n], strict=False)
                    table = {arm: float(share) for arm, share in known if share == share}
                yield LoggedDecision(
                    int(rounds[n]), names.listed[arms[n]], _given(own[n]), _given(lost[n]),
                    _given(won[n]), table,
                )  # fmt: skip

        given = Rows(arms, own, lost, won, rounds, weights, whole, numbers, None, column, rows)
        self._check(given)
        bare = np.isnan(own) & whole
        own[bare] = weights[bare, arms[bare]]
        return self._told(replace(given, rounds=rounds.astype(np.int64)))

    def _check(self, given: Rows) -> None:
        """Refuse columns with values that a record could not hold, naming the first such row."""
        own, lost, won, weights = given.probability, given.losses, given.values, given.weights
        rounds: NDArray[Any] = given.rounds

        def refuse(wrong: NDArray[np.bool_], parameter: str, expected: str, got: Any) -> None:
            if wrong.any():
                at = int(np.flatnonzero(wrong)[0])
                self._refuse(given, at, parameter, expected, got(at))

        with np.errstate(invalid="ignore"):
            if rounds.dtype.kind == "f":
                odd = np.isnan(rounds) | (rounds != np.floor(rounds))
            else:
                odd = np.zeros(rounds.size, bool)
            refuse(odd | (rounds < 1), "round", "a whole number >= 1", lambda at: rounds[at])
            expected = "a number in (0, 1] or None"
            refuse((own <= 0.0) | (own > 1.0), "probability", expected, lambda at: own[at])
            for name, values in (("loss", lost), ("reward", won)):
                refuse(
                    np.isinf(values), name, "a finite number or None", lambda at, v=values: v[at]
                )
            both = ~np.isnan(lost) & ~np.isnan(won)
            refuse(both, "loss", "None where there is a reward", lambda at: lost[at])
            if given.whole.any():
                played = weights[np.arange(len(given)), given.arms]
                total = np.nansum(weights, axis=1)
                outside = ((weights < 0.0) | (weights > 1.0)).any(axis=1)
                wrong = outside | ~(played > 0.0) | (np.abs(total - 1.0) > SUM_TOLERANCE)
                wrong |= np.abs(played - own) > SUM_TOLERANCE
                expected = (
                    "a distribution over the arms, in which the played one has its probability"
                )
                refuse(
                    given.whole & wrong, "probabilities", expected, lambda at: weights[at].tolist()
                )


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _given(value: float) -> float | None:
    return None if value != value else float(value)


def _checked_span(between: object, owner: str) -> tuple[int, int] | None:
    if between is None:
        return None
    try:
        span: Any = between
        first, last = span
        if int(first) == first and int(last) == last and first <= last:
            return int(first), int(last)
    except (TypeError, ValueError):
        pass
    raise invalid("between", owner, "two rounds, the first and the last", between)


class _Rounds:
    """Rounds seen so far, as spans without gaps: a log in order takes no memory."""

    def __init__(self) -> None:
        self._starts = np.zeros(0, np.int64)
        self._stops = np.zeros(0, np.int64)

    def first_repeated(self, rounds: NDArray[np.int64]) -> int | None:
        """Add rounds and return the place of the first that was there before, or None."""
        if rounds.size == 0:
            return None
        at = np.searchsorted(self._starts, rounds, side="right") - 1
        again = (at >= 0) & (rounds < self._stops[at]) if self._stops.size else rounds < 0
        distinct, first = np.unique(rounds, return_index=True)
        if distinct.size < rounds.size:
            repeated = np.ones(rounds.size, bool)
            repeated[first] = False
            again = again | repeated
        if again.any():
            return int(np.flatnonzero(again)[0])
        breaks = np.flatnonzero(np.diff(distinct) > 1)
        starts = distinct[np.concatenate([[0], breaks + 1])]
        stops = distinct[np.concatenate([breaks, [distinct.size - 1]])] + 1
        starts = np.concatenate([self._starts, starts])
        stops = np.concatenate([self._stops, stops])
        order = np.argsort(starts)
        starts, stops = starts[order], stops[order]
        apart = np.concatenate([[True], starts[1:] > stops[:-1]])
        self._starts = starts[apart]
        self._stops = stops[np.concatenate([np.flatnonzero(apart)[1:] - 1, [starts.size - 1]])]
        return None
