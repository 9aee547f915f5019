"""Logged decisions as Parquet: a column per field, arms and probabilities as lists."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bothworlds.arguments import Arm
from bothworlds.errors import invalid
from bothworlds.files import parquet_file, pyarrow, replacing
from bothworlds.logs.jsonl import fields_of, joined
from bothworlds.logs.record import LoggedDecision, recorded

_NUMBERS = ("probability", "loss", "reward")
_BATCH = 65_536


def write_parquet(path: str | os.PathLike[str], decisions: Iterable[LoggedDecision]) -> int:
    """Write decisions as Parquet and return how many there were.

    Arms must be all names or all numbers, for a column has one type; ``extra`` becomes a column
    of JSON texts. The file appears all at once; an error leaves what was there before.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.parquet")
    ...     _ = write_parquet(path, [LoggedDecision(1, "blue", 0.5, loss=0.25)])
    ...     list(read_parquet(path)) == [LoggedDecision(1, "blue", 0.5, loss=0.25)]
    True
    """
    arrow = pyarrow()
    rows = [fields_of(decision) for decision in decisions]
    table = table_of(rows, _named(rows))
    with replacing(path) as draft:
        arrow.parquet.write_table(table, draft)
    return len(rows)


def table_of(rows: list[dict[str, Any]], named: bool) -> Any:
    """Return an Arrow table of the fields of decisions, whose arms are names or numbers."""
    arrow = pyarrow()
    kind = arrow.string() if named else arrow.int64()
    columns: dict[str, Any] = {
        "round": arrow.array([row["round"] for row in rows], arrow.int64()),
        "arm": arrow.array([row["arm"] for row in rows], kind),
    }
    for name in _NUMBERS:
        columns[name] = arrow.array([row.get(name) for row in rows], arrow.float64())
    columns["arms"] = arrow.array([row.get("arms") for row in rows], arrow.list_(kind))
    shares = [row.get("probabilities") for row in rows]
    columns["probabilities"] = arrow.array(shares, arrow.list_(arrow.float64()))
    extra = [json.dumps(row["extra"]) if "extra" in row else None for row in rows]
    columns["extra"] = arrow.array(extra, arrow.string())
    return arrow.table(columns)


def read_parquet(path: str | os.PathLike[str]) -> Iterator[LoggedDecision]:
    """Read decisions from Parquet, some thousands at a time.

    Only the columns ``round`` and ``arm`` have to be there.

    Raises
    ------
    InvalidParameter
        If the file is not Parquet, has no such columns or a row that is no decision; names the
        row, from 1.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.parquet")
    ...     _ = write_parquet(path, [LoggedDecision(1, 0, reward=1.0)])
    ...     next(read_parquet(path)).reward
    1.0
    """
    name = Path(path).name
    number = 0
    for batch in _batches(path):
        for row in batch.to_pylist():
            number += 1
            yield _parsed(row, f"row {number} of {name}")


def _batches(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Yield the batches of a file that has the columns of a log."""
    with whole_file(path, "path", "read_parquet") as file:
        held = set(file.schema_arrow.names)
        if not {"round", "arm"} <= held:
            expected = "a table with the columns round and arm"
            raise invalid("path", "read_parquet", expected, sorted(held))
        known = ("round", "arm", *_NUMBERS, "arms", "probabilities", "extra")
        wanted = [column for column in known if column in held]
        yield from file.iter_batches(_BATCH, columns=wanted, use_threads=False)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], parameter: str, owner: str) -> Iterator[Any]:
    """Open a Parquet file; one that is damaged is refused, also while it is read."""
    arrow = pyarrow()
    try:
        with parquet_file(path) as file:
            yield file
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        # Errors of the file system have a number, those of the format have none.
        if getattr(error, "errno", None) is not None:
            raise
        raise invalid(parameter, owner, "a Parquet file that is complete", str(path)) from error


def _parsed(row: dict[str, Any], where: str) -> LoggedDecision:
    values = {key: value for key, value in row.items() if value is not None}
    extra = values.pop("extra", None)
    values = joined({"round": None, "arm": None, **values}, where)
    if extra is not None:
        try:
            values["extra"] = json.loads(extra)
        except (TypeError, ValueError, RecursionError):
            raise invalid("extra", where, "a JSON object of names and values", extra) from None
    return recorded(values, where)


def _named(rows: list[dict[str, Any]]) -> bool:
    """Return whether the arms are names; refuse a mixture."""
    arms: set[Arm] = {row["arm"] for row in rows}
    arms.update(arm for row in rows for arm in row.get("arms", ()))
    named = [arm for arm in arms if isinstance(arm, str)]
    if named and len(named) < len(arms):
        got = [named[0], next(arm for arm in arms if not isinstance(arm, str))]
        raise invalid("arms", "write_parquet", "all names or all whole numbers", got)
    return bool(named)
