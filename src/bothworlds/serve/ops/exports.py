"""Exports of the log: JSON lines, CSV, Vowpal Wabbit and Parquet, piece by piece.

All but CSV are what `bothworlds.interop.logs` reads, so `bothworlds.inference` and the commands
``report`` and ``evaluate`` take them as they are.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from bothworlds.errors import MissingExtra
from bothworlds.files import pyarrow
from bothworlds.logs.jsonl import fields_of, line_of
from bothworlds.logs.lines import Numbering
from bothworlds.logs.parquet import table_of
from bothworlds.logs.record import LoggedDecision
from bothworlds.logs.vowpal_wabbit import vw_line
from bothworlds.serve.problems import Problem

COLUMNS = (
    "decision_id", "id", "at", "epoch", "round", "arm", "probability", "mode", "available", "unit",
    "loss", "status", "source", "told_at", "logged", "advised", "segment",
)  # fmt: skip
"""Columns of a row of the log, in the order of the CSV file."""
_EXTRA = (
    "decision_id", "id", "at", "epoch", "mode", "unit", "segment", "status", "source", "told_at",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Format(ABC):
    """How rows become bytes.

    Parameters
    ----------
    arms : sequence of str
        Of the experiment, retired ones included.
    """

    media: ClassVar[str]
    suffix: ClassVar[str]

    def __init__(self, arms: Sequence[str] = ()) -> None:
        self._numbers = itertools.count(1)

    @abstractmethod
    def piece(self, rows: list[dict[str, Any]]) -> bytes:
        """Return some rows as bytes."""

    def end(self) -> bytes:
        """Return the bytes after the last row."""
        return b""


def logged(row: dict[str, Any], number: int) -> LoggedDecision:
    """Return a row of the log as a logged decision.

    Its round is the row's number: replicas may use a round of the experiment twice, and after a
    reset rounds start again.

    Examples
    --------
    >>> logged({"round": 3, "arm": "blue", "probability": 0.5, "loss": None, "mode": "learn"}, 1)
    LoggedDecision(round=1, arm='blue', probability=0.5, ... extra={'mode': 'learn', ...}, ...)
    """
    extra = {name: row[name] for name in _EXTRA if row.get(name) is not None}
    for name in ("available", "advised"):
        if row.get(name) is not None:
            extra[name] = json.dumps(row[name], ensure_ascii=False)
    extra["experiment_round"] = row["round"]
    # Dividing by 1/p can exceed 1 by a rounding.
    return LoggedDecision(
        number, row["arm"], min(row["probability"], 1.0), loss=row["loss"], extra=extra
    )


class JsonLines(Format):
    """One object a line."""

    media = "application/x-ndjson"
    suffix = "jsonl"

    def piece(self, rows: list[dict[str, Any]]) -> bytes:
        """Return some rows as bytes."""
        return b"".join(line_of(logged(row, next(self._numbers))) for row in rows)


class Csv(Format):
    """A table with a heading, in which no text is mistaken for a formula.

    Examples
    --------
    >>> Csv().piece([{"arm": "=1+1", "round": 1, "loss": -0.5}]).decode().splitlines()[1]
    ",,,,1,'=1+1,,,,,-0.5,,,,,,"
    """

    media = "text/csv; charset=utf-8"
    suffix = "csv"
    _headed = False

    def piece(self, rows: list[dict[str, Any]]) -> bytes:
        """Return some rows as bytes."""
        text = io.StringIO()
        writer = csv.writer(text)
        if not self._headed:
            writer.writerow(COLUMNS)
            self._headed = True
        for row in rows:
            writer.writerow([_cell(row.get(name)) for name in COLUMNS])
        return text.getvalue().encode()

    def end(self) -> bytes:
        """Return the text after the last row: the heading, if there was none."""
        return b"" if self._headed else self.piece([])


def _cell(value: object) -> object:
    """Return a cell that a spreadsheet does not compute."""
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


class VowpalWabbit(Format):
    """Lines for ``vw --cb``, of the decisions with feedback.

    Parameters
    ----------
    arms : sequence of str
        In the order of the actions 1, 2, ..., with those retired.
    """

    media = "text/plain; charset=utf-8"
    suffix = "vw"

    def __init__(self, arms: Sequence[str]) -> None:
        super().__init__()
        self._numbering = Numbering(arms, "export")

    def piece(self, rows: list[dict[str, Any]]) -> bytes:
        """Return some rows as bytes."""
        numbered = [(row, next(self._numbers)) for row in rows]
        told = (logged(*each) for each in numbered if each[0]["loss"] is not None)
        return "".join(f"{vw_line(each, self._numbering)}\n" for each in told).encode()


class Parquet(Format):
    """A Parquet file, one row group a piece."""

    media = "application/vnd.apache.parquet"
    suffix = "parquet"

    def __init__(self, arms: Sequence[str] = ()) -> None:
        super().__init__()
        try:
            arrow = pyarrow()
        except MissingExtra as error:
            raise Problem("not_acceptable", str(error)) from None
        self._sink = io.BytesIO()
        self._file = arrow.PythonFile(_Tail(self._sink), mode="w")
        self._writer = arrow.parquet.ParquetWriter(self._file, table_of([], named=True).schema)

    def piece(self, rows: list[dict[str, Any]]) -> bytes:
        """Return some rows as bytes."""
        if rows:
            fields = [fields_of(logged(row, next(self._numbers))) for row in rows]
            self._writer.write_table(table_of(fields, named=True))
        return self._taken()

    def end(self) -> bytes:
        """Return the bytes after the last row: the file's directory."""
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        self._file.flush()
        held = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return held


class _Tail(io.RawIOBase):
    """File that counts its bytes although they are taken away."""

    def __init__(self, sink: io.BytesIO) -> None:
        self._sink = sink
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        count = self._sink.write(bytes(data))
        self._written += count
        return count

    def tell(self) -> int:
        return self._written


def format_of(name: str, arms: Sequence[str]) -> Format:
    """Return a format by its name.

    Examples
    --------
    >>> format_of("csv", ["blue", "green"]).suffix
    'csv'
    >>> format_of("xls", [])
    Traceback (most recent call last):
    ...
    bothworlds.serve.problems.Problem: The format of the export must be jsonl, csv, vw or parquet.
    """
    kinds: tuple[type[Format], ...] = JsonLines, Csv, VowpalWabbit, Parquet
    for kind in kinds:
        if kind.suffix == name:
            return kind(arms)
    raise Problem("not_acceptable", "The format of the export must be jsonl, csv, vw or parquet.")
