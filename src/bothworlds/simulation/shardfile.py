"""The file of a shard: one row per repetition, and in its metadata all there is to know about it.

Pages carry checksums, so that a file whose bytes have changed is refused.
"""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import bothworlds
from bothworlds.atomic import replacing
from bothworlds.errors import ResultFileError, missing_extra

if TYPE_CHECKING:
    from bothworlds.simulation.tile import TileOutcome

FORMAT = "bothworlds.shard"
VERSION = 1

About = dict[str, Any]
"""What a shard says about itself: the settings of its curve, its repetitions and times."""


def versions() -> dict[str, str]:
    """Return the software that computes."""
    import numba

    return {
        "bothworlds": bothworlds.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


@contextlib.contextmanager
def saving(path: Path) -> Iterator[Path]:
    """Give the path of a draft that becomes the file at the end; say so if it cannot."""
    try:
        with replacing(path) as draft:
            yield draft
    except OSError as error:
        reason = error.strerror or error
        raise ResultFileError(
            f"The file {path.name} was not saved to {path.parent}: {reason}. "
            "What was finished before is there."
        ) from error


def write(path: Path, stem: str, settings: About, outcomes: Sequence[TileOutcome]) -> None:
    """Write finished tiles, which follow one another, as one file."""
    arrow = pyarrow()
    import pyarrow.parquet as parquet

    first, count = outcomes[0].first, sum(each.count for each in outcomes)
    columns = {
        "repetition": np.arange(first, first + count),
        "cost": _lists(np.concatenate([each.cost for each in outcomes])),
        "plays": _lists(np.concatenate([each.plays for each in outcomes])),
    }
    tracked = [each.tracked for each in outcomes if each.tracked is not None]
    if tracked:
        columns["tracked"] = _lists(np.concatenate(tracked).reshape(count, -1))
    if all(each.state is not None for each in outcomes):
        # The state of a tile stands at its first repetition.
        states: list[bytes | None] = [None] * count
        for each in outcomes:
            states[each.first - first] = each.state
        columns["state"] = arrow.array(states, arrow.large_binary())
    content = {
        "format": FORMAT,
        "version": VERSION,
        "stem": stem,
        "first": first,
        "count": count,
        "wall": sum(each.wall for each in outcomes),
        "cpu": sum(each.cpu for each in outcomes),
        "versions": versions(),
        **settings,
    }
    table = arrow.table(columns).replace_schema_metadata({FORMAT: json.dumps(content)})
    with saving(path) as draft:
        parquet.write_table(table, draft, compression="zstd", write_page_checksum=True)


def settings(path: Path) -> About:
    """Return what a shard says about itself; its numbers are not looked at."""
    pyarrow()
    import pyarrow.parquet as parquet

    try:
        content: About = json.loads(parquet.read_metadata(path).metadata[FORMAT.encode()])
        named = f"{content['stem']}-{content['first']}-{content['count']}.parquet"
        version = content["version"]
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ResultFileError(f"The file {path.name} is damaged, or not a shard.") from error
    if version > VERSION:
        raise ResultFileError(
            f"The file {path.name} has format version {version}, and this version of bothworlds "
            f"reads up to {VERSION}."
        )
    if named != path.name:
        raise ResultFileError(f"The file {path.name} holds the shard {named}.")
    return content


def read(path: Path, states: bool = False) -> tuple[About, list[TileOutcome]]:
    """Return what a shard says about itself, and its outcomes.

    With ``states``, one outcome per tile with its state, none where no states were kept;
    otherwise one for all.
    """
    content = settings(path)
    import pyarrow.parquet as parquet

    # Not above: what a shard says about itself can be read without loading the engine.
    from bothworlds.simulation.tile import TileOutcome

    n, arms, count = len(content["checkpoints"]), content["arms"], content["count"]
    names = ["cost", "plays", *(["tracked"] if content["regret"] == "tracked" else [])]
    try:
        known = parquet.read_schema(path).names
        if states and "state" in known:
            names.append("state")
        table = parquet.read_table(path, columns=names, page_checksum_verification=True)
        whole = TileOutcome(
            content["first"],
            _matrix(table["cost"], (count, n)),
            _matrix(table["plays"], (count, arms)).astype(np.int64, copy=False),
            _matrix(table["tracked"], (count, n, arms)) if "tracked" in names else None,
            content["cpu"],
            content["wall"],
        )
        kept = table["state"].to_pylist() if "state" in names else [None] * count
    except Exception as error:
        raise ResultFileError(f"The file {path.name} is damaged.") from error
    if not states:
        return content, [whole]
    starts = [row for row, state in enumerate(kept) if state is not None]
    return content, [
        replace(part(whole, low, high), state=kept[low]) for low, high in pairwise([*starts, count])
    ]


def part(outcome: TileOutcome, low: int, high: int) -> TileOutcome:
    """Return some rows of an outcome, with their share of the time."""
    if (low, high) == (0, outcome.count):
        return outcome
    share = (high - low) / outcome.count
    return replace(
        outcome,
        first=outcome.first + low,
        cost=outcome.cost[low:high],
        plays=outcome.plays[low:high],
        tracked=None if outcome.tracked is None else outcome.tracked[low:high],
        cpu=outcome.cpu * share,
        wall=outcome.wall * share,
        state=None,
    )


def pyarrow() -> Any:
    """Return the package that writes Parquet, or say how to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise missing_extra("lab", "pyarrow") from error
    return pyarrow


def _lists(rows: NDArray[Any]) -> Any:
    """Return a column with a list per row."""
    offsets = np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32)
    arrow = pyarrow()
    return arrow.ListArray.from_arrays(arrow.array(offsets), arrow.array(rows.ravel()))


def _matrix(column: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a column of lists as an array."""
    flat: NDArray[Any] = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(shape)
