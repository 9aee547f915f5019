"""Loss tables from files: a row per round, a column per arm, in CSV, Parquet or NumPy format."""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.cli.parse import choose, wrong
from bothworlds.errors import InvalidParameter
from bothworlds.files import pyarrow, read_table

Array = NDArray[np.float64]
Bounds = tuple[float, float]

_ROWS = 1 << 16
"""Rows read together, so that a file larger than memory can be checked."""


@dataclass(frozen=True)
class LossTable:
    """Losses in [0, 1] and the names of their columns.

    Parameters
    ----------
    arms : list of str
        A name for every column.
    losses : ndarray (rounds, arms)
        What every arm would have cost in every round.
    """

    arms: list[str]
    losses: Array


def read_losses(path: Path, bounds: Bounds | None = None) -> LossTable:
    """Read a table of losses.

    Parameters
    ----------
    path : Path
        A file ending in .csv, .tsv, .parquet or .npy. Text starts with the arms' names; if its
        first line holds numbers only, the arms are numbered from 0.
    bounds : pair of float, optional
        The smallest and largest possible loss, which become 0 and 1. Without it, losses must lie
        in [0, 1] as they are.

    Returns
    -------
    LossTable
        Checked: two or more arms, one or more rounds, every loss within the bounds.
    """
    low, high = (0.0, 1.0) if bounds is None else bounds
    if not (low < high and math.isfinite(high - low)):
        expected = "two finite numbers, the first below the second"
        raise wrong("--bounds", expected, bounds)
    ending = choose("table format", path.suffix.lower() or path.name, _READERS)
    arms, table, first_line = _READERS[ending](path)
    place = "row" if first_line is None else "line"
    first = 1 if first_line is None else first_line
    if table.shape[1] < 2:
        raise InvalidParameter(f"The table {str(path)!r} must have a column for each of two arms.")
    if table.shape[0] < 1:
        raise InvalidParameter(f"The table {str(path)!r} must have a row for every round.")
    for begin in range(0, len(table), _ROWS):
        rows = table[begin : begin + _ROWS]
        inside = (rows >= low) & (rows <= high)
        if not inside.all():
            row, column = np.argwhere(~inside)[0].tolist()
            value = float(rows[row, column])
            finite = math.isfinite(value)
            got = f"{value:g}" if finite else "no finite number"
            advice = "; --bounds LO HI rescales other losses" if finite and bounds is None else ""
            raise InvalidParameter(
                f"The loss of {arms[column]!r} in {place} {first + begin + row} must be in "
                f"[{low:g}, {high:g}], got {got}{advice}."
            )
    if (low, high) != (0.0, 1.0):
        table = np.clip((table - low) / (high - low), 0.0, 1.0)
    return LossTable(arms, table)


def _text(path: Path) -> tuple[list[str], Array, int | None]:
    """Read numbers and the line of the first, separated by commas, semicolons or tabs."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = _lines(stream, path)
            header_line, header = next(rows, (0, []))
            values = array("d")
            numbers = _numbers(header)
            names = header if numbers is None else [str(i) for i in range(len(header))]
            first_line = header_line if numbers is not None else header_line + 1
            values.extend(numbers or ())
            for line, cells in rows:
                if len(cells) != len(names):
                    raise InvalidParameter(
                        f"Line {line} must have {len(names)} values, one for each arm, got "
                        f"{len(cells)}."
                    )
                numbers = _numbers(cells)
                if numbers is None:
                    raise _wrong_cell(line, cells, names)
                values.extend(numbers)
    except UnicodeDecodeError as error:
        raise InvalidParameter(
            f"The table {str(path)!r} must be text in UTF-8, got other bytes at {error.start}."
        ) from None
    _check_names(names, path)
    return names, np.asarray(values).reshape(-1, max(len(names), 1)), first_line


def _lines(stream: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of every line, the blank ones at the end left out."""
    beginning = stream.readline()
    stream.seek(0)
    marks = {mark: beginning.count(mark) for mark in ",;\t"}
    reader = csv.reader(stream, delimiter=max(marks, key=lambda mark: marks[mark]), strict=True)
    blank = False
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells) and len(cells) <= 1:
                blank = True
                continue
            if blank:
                raise InvalidParameter(
                    f"The table {str(path)!r} must not have blank lines, got one before line "
                    f"{reader.line_num}."
                )
            yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InvalidParameter(
            f"Line {reader.line_num} of {str(path)!r} must be readable as a table, got {error}."
        ) from None


def _numbers(cells: list[str]) -> list[float] | None:
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return None


def _wrong_cell(line: int, cells: list[str], names: list[str]) -> InvalidParameter:
    name, cell = next(
        (name, cell) for name, cell in zip(names, cells, strict=True) if _numbers([cell]) is None
    )
    if not cell:
        return InvalidParameter(f"The loss of {name!r} in line {line} is missing.")
    return InvalidParameter(
        f"The loss of {name!r} in line {line} must be a number, got {cell[:40]!r}."
    )


def _check_names(names: list[str], path: Path) -> None:
    if not all(names) or len(set(names)) < len(names):
        raise InvalidParameter(
            f"The first line of {str(path)!r} must name every arm once, got {', '.join(names)!r}."
        )


def _parquet(path: Path) -> tuple[list[str], Array, int | None]:
    arrow = pyarrow()
    try:
        table = read_table(path)
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise InvalidParameter(f"The table {str(path)!r} must be a Parquet file.") from error
    names = [str(name) for name in table.column_names]
    _check_names(names, path)
    columns = []
    for name in names:
        column = table[name]
        kind = column.type
        if not (arrow.types.is_integer(kind) or arrow.types.is_floating(kind)):
            raise InvalidParameter(f"The column {name!r} must hold numbers, got {kind}.")
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise InvalidParameter(f"The loss of {name!r} in row {row + 1} is missing.")
        columns.append(column.to_numpy().astype(np.float64))
    losses = np.column_stack(columns) if columns else np.zeros((table.num_rows, 0))
    return names, losses, None


def _numpy(path: Path) -> tuple[list[str], Array, int | None]:
    try:
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidParameter(f"The table {str(path)!r} must be a NumPy array file.") from error
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "iuf":
        shape = getattr(table, "shape", None)
        kind = getattr(table, "dtype", type(table).__name__)
        raise InvalidParameter(
            f"The table {str(path)!r} must be numbers with a row per round and a column per arm, "
            f"got {kind} of shape {shape}."
        )
    if table.dtype != np.float64 or not table.flags.c_contiguous:
        table = np.ascontiguousarray(table, dtype=np.float64)
    return [str(i) for i in range(table.shape[1])], table, None


_READERS = {".csv": _text, ".tsv": _text, ".parquet": _parquet, ".npy": _numpy}
