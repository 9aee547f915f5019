"""Logged decisions as Parquet: a column per field, arms and probabilities as lists."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bothworlds.bandit.decision import Arm
from bothworlds.errors import InvalidParameter, missing_extra, must
from bothworlds.files import replacing
from bothworlds.interop.jsonlines import joined, plain
from bothworlds.interop.logged import LoggedDecision, recorded

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
    arrow, parquet = _pyarrow()
    rows = [plain(decision) for decision in decisions]
    kind = arrow.string() if _named(rows) else arrow.int64()
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
    with replacing(path) as draft:
        parquet.write_table(arrow.table(columns), draft)
    return len(rows)


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
    arrow, parquet = _pyarrow()
    name = Path(path).name
    with open(path, "rb") as stream:
        try:
            file = parquet.ParquetFile(stream)
        except arrow.ArrowInvalid:
            raise InvalidParameter(
                must("path", "read_parquet", "a Parquet file", str(path))
            ) from None
        held = set(file.schema_arrow.names)
        if not {"round", "arm"} <= held:
            expected = "a table with the columns round and arm"
            raise InvalidParameter(must("path", "read_parquet", expected, sorted(held)))
        known = ("round", "arm", *_NUMBERS, "arms", "probabilities", "extra")
        wanted = [column for column in known if column in held]
        number = 0
        for batch in file.iter_batches(_BATCH, columns=wanted):
            for row in batch.to_pylist():
                number += 1
                yield _parsed(row, f"row {number} of {name}")


def _parsed(row: dict[str, Any], where: str) -> LoggedDecision:
    values = {key: value for key, value in row.items() if value is not None}
    extra = values.pop("extra", None)
    values = joined({"round": None, "arm": None, **values}, where)
    if extra is not None:
        try:
            values["extra"] = json.loads(extra)
        except (TypeError, ValueError):
            expected = "a JSON object of names and values"
            raise InvalidParameter(must("extra", where, expected, extra)) from None
    return recorded(values, where)


def _named(rows: list[dict[str, Any]]) -> bool:
    """Return whether the arms are names; refuse a mixture."""
    arms: set[Arm] = {row["arm"] for row in rows}
    arms.update(arm for row in rows for arm in row.get("arms", ()))
    named = [arm for arm in arms if isinstance(arm, str)]
    if named and len(named) < len(arms):
        got = [named[0], next(arm for arm in arms if not isinstance(arm, str))]
        raise InvalidParameter(must("arms", "write_parquet", "all names or all whole numbers", got))
    return bool(named)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise missing_extra("lab", "pyarrow") from error
    return pyarrow, parquet
