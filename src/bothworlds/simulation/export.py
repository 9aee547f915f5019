"""Regret of many curves as one tidy table in a file, for other programs to read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bothworlds.campaign.store_view import CurveFiles, StoreView
from bothworlds.errors import ResultFileError, invalid
from bothworlds.files import pyarrow, saving
from bothworlds.simulation.assembly import regret_of

ENDINGS = (".parquet", ".csv")
"""File name endings that can be written."""

ROWS = 1 << 18
"""About how many rows are in memory at a time, and in a row group of a Parquet file."""


def export(path: Path, curves: Sequence[tuple[StoreView, CurveFiles]]) -> tuple[int, int]:
    """Write the regret of every run at every checkpoint, curve by curve.

    The columns are label, policy, environment, arms, horizon, seed, repetition, round, regret
    and curve, which is the name that files of the store begin with. A curve with several labels
    has them all, between semicolons; one without has its environment there. Seeds are numbers,
    or text if one of them has more than 63 bits.

    Parameters
    ----------
    path : Path
        A name ending in .parquet or .csv.
    curves : sequence of (StoreView, CurveFiles)
        What to write, and where it is; a curve without finished runs is left out.

    Returns
    -------
    tuple of int
        Numbers of curves and of rows written.

    Examples
    --------
    >>> import tempfile
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(4, 0.25)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = bw.simulate(
    ...         bw.UCB1(), world, horizon=100, repetitions=20, checkpoints=[10], store=folder
    ...     )
    ...     store = StoreView(folder)
    ...     export(Path(folder, "all.csv"), [(store, shelf) for shelf in store.shelves()])
    (1, 40)
    """
    if path.suffix.lower() not in ENDINGS:
        raise invalid("path", "export", f"a name ending in {' or '.join(ENDINGS)}", str(path))
    arrow = pyarrow()
    schema = _schema(max((shelf.about["seed"] for _, shelf in curves), default=0))
    count = rows = 0
    waiting: list[Any] = []
    with saving("table", path) as draft, _writer(path, draft, schema) as write:
        for store, shelf in curves:
            before = rows
            for table in _tables(store, shelf, schema):
                waiting.append(table)
                rows += table.num_rows
                if sum(each.num_rows for each in waiting) >= ROWS:
                    write(arrow.concat_tables(waiting))
                    waiting.clear()
            count += rows > before
        if not rows:
            raise ResultFileError(f"There is no finished run to write to {path}.")
        if waiting:
            write(arrow.concat_tables(waiting))
    return count, rows


def _schema(largest_seed: int) -> Any:
    arrow = pyarrow()
    word = arrow.dictionary(arrow.int32(), arrow.string())
    types = {
        "label": word, "policy": word, "environment": word,
        "arms": arrow.int64(), "horizon": arrow.int64(),
        "seed": arrow.int64() if largest_seed < 2**63 else word,
        "repetition": arrow.int64(), "round": arrow.int64(), "regret": arrow.float64(),
        "curve": word,
    }  # fmt: skip
    return arrow.schema(types.items())


def _tables(store: StoreView, shelf: CurveFiles, schema: Any) -> Iterator[Any]:
    """Yield the rows of a curve, a number of repetitions at a time."""
    arrow = pyarrow()
    about, outcomes = store.read(shelf)
    if not outcomes:
        return
    # All repetitions together: against some adversaries the best arm is that of their mean.
    regret = regret_of(about, outcomes)
    numbers = np.concatenate([np.arange(o.first, o.first + o.count) for o in outcomes])
    rounds = np.asarray(about["checkpoints"], dtype=np.int64)
    constant = [
        ("label", shelf.title), ("policy", about["name"]), ("environment", about["environment"]),
        ("arms", about["arms"]), ("horizon", shelf.horizon), ("seed", about["seed"]),
        ("curve", shelf.stem),
    ]  # fmt: skip
    step = max(1, ROWS // len(rounds))
    for low in range(0, len(numbers), step):
        some = numbers[low : low + step]
        n = len(some) * len(rounds)
        columns = {name: _column(value, schema.field(name).type, n) for name, value in constant}
        columns["repetition"] = np.repeat(some, len(rounds))
        columns["round"] = np.tile(rounds, len(some))
        columns["regret"] = regret[low : low + step].ravel()
        yield arrow.table([columns[name] for name in schema.names], schema=schema)


def _column(value: str | int, kind: Any, n: int) -> Any:
    """Return a column with ``n`` equal values."""
    arrow = pyarrow()
    if arrow.types.is_dictionary(kind):
        return arrow.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), [str(value)])
    return arrow.repeat(arrow.scalar(value, kind), n)


@contextlib.contextmanager
def _writer(path: Path, draft: Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Give a function that appends a table to the draft of a file."""
    arrow = pyarrow()
    if path.suffix.lower() == ".csv":
        import pyarrow.csv as csv

        plain = arrow.schema(
            (field.name, arrow.string() if arrow.types.is_dictionary(field.type) else field.type)
            for field in schema
        )
        with csv.CSVWriter(draft, plain) as writer:
            yield lambda table: writer.write_table(table.cast(plain))
        return
    with arrow.parquet.ParquetWriter(draft, schema, compression="zstd") as writer:
        yield lambda table: writer.write_table(table.unify_dictionaries())
