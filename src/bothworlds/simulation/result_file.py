"""Files of results: one Parquet file each, with the settings in its metadata."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.errors import MissingExtra, ResultFileError
from bothworlds.files import pyarrow as arrow_package
from bothworlds.files import read_table, saving

if TYPE_CHECKING:
    import pyarrow

    from bothworlds.simulation.result import Result

FORMAT = "bothworlds.result"
VERSION = 1
STATED = ("wall", "cpu", "policies", "environment", "seed", "interrupted", "versions")
"""Fields of a result that are in the settings as they are."""
BY_RUN = "comparator: "
"""Start of the names of columns with a comparator that every run has its own numbers of."""


def write(result: Result, path: Path) -> None:
    """Write a result, atomically: the old file or the new one, never half of it."""
    arrow = arrow_package()
    table = arrow.table(
        {
            "policy": [name for name in result.names for _ in result.repetitions[name]],
            "repetition": np.concatenate([result.repetitions[name] for name in result.names]),
            "regret": [list(row) for name in result.names for row in result.regret[name]],
            "plays": [list(row) for name in result.names for row in result.plays[name]],
        }
    )
    if result.plays_at:
        rows = [row.ravel() for name in result.names for row in result.plays_at[name]]
        table = table.append_column("plays_at", [rows])
    if result.realised:
        rows = [row for name in result.names for row in result.realised[name]]
        table = table.append_column("realised", [rows])
    common: dict[str, list[float]] = {}
    for name, added in result.comparators.items():
        if isinstance(added, dict):
            rows = [row for policy in result.names for row in added[policy]]
            table = table.append_column(BY_RUN + name, [rows])
        else:
            common[name] = added.tolist()
    settings = {
        "format": FORMAT,
        "version": VERSION,
        "checkpoints": result.checkpoints.tolist(),
        "names": result.names,
        **{name: getattr(result, name) for name in STATED},
        "comparators": common,
    }
    table = table.replace_schema_metadata({FORMAT: json.dumps(settings)})
    with saving("result", path) as draft:
        arrow.parquet.write_table(table, draft, compression="zstd")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments with which `Result` was made, from a file that `write` wrote."""
    try:
        table = read_table(path)
    except MissingExtra:
        raise
    except FileNotFoundError:
        # The error of the system, without the reader's words about it.
        reason = os.strerror(errno.ENOENT)
        raise FileNotFoundError(errno.ENOENT, reason, os.fspath(path)) from None
    except Exception as error:
        raise ResultFileError(f"The file {path} is not a readable Parquet file.") from error
    text = (table.schema.metadata or {}).get(FORMAT.encode())
    if text is None:
        raise ResultFileError(f"The file {path} is Parquet, but not a saved Result.")
    try:
        settings: dict[str, Any] = json.loads(text)
        version = int(settings["version"])
        if version <= VERSION:
            return _made(settings, table)
    # A file can be wrong in any way.
    except Exception as error:
        raise ResultFileError(f"The file {path} is a damaged Result.") from error
    raise ResultFileError(
        f"The file {path} has format version {version}; this version of bothworlds reads up "
        f"to {VERSION}."
    )


def _made(settings: dict[str, Any], table: pyarrow.Table) -> dict[str, Any]:
    """Return the arguments of the result that a file describes."""
    owners = np.asarray(table["policy"].to_pylist())
    columns = table.column_names

    def by_policy(column: str, kind: type[Any] = np.float64) -> dict[str, NDArray[Any]]:
        numbers = np.asarray(table[column].to_pylist(), dtype=kind)
        return {name: numbers[owners == name] for name in settings["names"]}

    plays = by_policy("plays", np.int64)
    counted = by_policy("plays_at", np.int64) if "plays_at" in columns else {}
    return dict(
        checkpoints=np.asarray(settings["checkpoints"], dtype=np.int64),
        regret=by_policy("regret"),
        plays=plays,
        repetitions=by_policy("repetition", np.int64),
        **{name: settings[name] for name in STATED},
        plays_at={
            name: each.reshape(len(each), -1, plays[name].shape[1])
            for name, each in counted.items()
        },
        comparators={
            **{c.removeprefix(BY_RUN): by_policy(c) for c in columns if c.startswith(BY_RUN)},
            **{n: np.asarray(added) for n, added in settings.get("comparators", {}).items()},
        },
        realised=by_policy("realised") if "realised" in columns else {},
    )
