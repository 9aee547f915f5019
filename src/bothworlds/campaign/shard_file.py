"""File of a shard: one row per repetition, and settings, times and versions in its metadata.

The metadata holds digests of the columns and of itself, so that a file whose bytes have changed
is refused: the checksums of Parquet cover its pages, but not the metadata that describes them.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import functools
import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bothworlds
from bothworlds import sources
from bothworlds.engine.outcome import TileOutcome
from bothworlds.errors import BothworldsError, ResultFileError
from bothworlds.files import parquet_file, pyarrow, replacing

FORMAT = "bothworlds.shard"
VERSION = 1

About = dict[str, Any]
"""Metadata of a shard: the settings of its curve, its repetitions and times."""


@functools.cache
def _version(package: str) -> str:
    # Read from disk, which takes as long as a thousand rounds of a tile.
    return version(package)


def versions() -> dict[str, str]:
    """Return the software that computes."""
    return {
        "bothworlds": bothworlds.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": _version("numba"),
        "llvmlite": _version("llvmlite"),
        "kernels": sources.digest(*sources.KERNELS).hex()[:16],
    }


def provenance() -> dict[str, str]:
    """Return the software and the machine that compute, and the day.

    Examples
    --------
    >>> list(provenance())[-3:]
    ['cpu', 'os', 'date']
    """
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {**versions(), "cpu": processor(), "os": platform.platform(terse=True), "date": day}


def processor() -> str:
    """Return the model of the processor, or the kind of machine where that is unknown."""
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        about = ""
    named = re.search(r"^model name\s*:\s*(.+)$", about, re.MULTILINE)
    return " ".join(named[1].split()) if named else platform.machine() or "unknown"


@contextlib.contextmanager
def saving(path: Path, durable: bool = True) -> Iterator[Path]:
    """Give the path of a draft that becomes the file at the end; raise an error if it cannot."""
    try:
        with replacing(path, durable) as draft:
            yield draft
    except OSError as error:
        reason = error.strerror or error
        raise ResultFileError(
            f"The file {path.name} was not saved to {path.parent}: {reason}. Results saved "
            "earlier are intact."
        ) from error


def write(path: Path, stem: str, settings: About, outcomes: Sequence[TileOutcome]) -> None:
    """Write finished tiles, which follow one another, as one file."""
    arrow = pyarrow()
    first, count = outcomes[0].first, sum(each.count for each in outcomes)
    arrays = {
        "cost": np.concatenate([each.cost for each in outcomes]),
        "plays": np.concatenate([each.plays for each in outcomes]),
    }
    tracked = [each.tracked for each in outcomes if each.tracked is not None]
    if tracked:
        arrays["tracked"] = np.concatenate(tracked).reshape(count, -1)
    columns = {"repetition": np.arange(first, first + count)}
    columns |= {name: _lists(array) for name, array in arrays.items()}
    digests = {name: _digest(array) for name, array in arrays.items()}
    if all(each.state is not None for each in outcomes):
        # The state of a tile is in the row of its first repetition.
        states: list[bytes | None] = [None] * count
        for each in outcomes:
            states[each.first - first] = each.state
        columns["state"] = arrow.array(states, arrow.large_binary())
        digests["state"] = _digest(*states)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "stem": stem,
        "first": first,
        "count": count,
        "wall": sum(each.wall for each in outcomes),
        "cpu": sum(each.cpu for each in outcomes),
        "versions": provenance(),
        "digests": digests,
        **settings,
    }
    content["digest"] = _digest(_text(content))
    table = arrow.table(columns).replace_schema_metadata({FORMAT: _text(content)})
    with saving(path) as draft:
        arrow.parquet.write_table(table, draft, compression="zstd", write_page_checksum=True)


def settings(path: Path) -> About:
    """Return the settings and times of a shard; its numbers are not read.

    Under "continuable" is whether it keeps snapshots of its runs.
    """
    with _opened(path) as file:
        return _about(path, file)


def read(path: Path, states: bool = False) -> tuple[About, list[TileOutcome]]:
    """Return the settings and times of a shard, and its outcomes.

    With ``states``, one outcome per tile with its state, none where no states were kept;
    otherwise one for all.
    """
    with _opened(path) as file:
        content = _about(path, file)
        n, arms, count = len(content["checkpoints"]), content["arms"], content["count"]
        shapes = {"cost": (count, n), "plays": (count, arms), "tracked": (count, n, -1)}
        names = [name for name in content["digests"] if name != "state" or states]
        kept: list[bytes | None] = [None] * count
        table = file.read(columns=names, use_threads=False)
        arrays = {name: _matrix(table[name], shapes[name]) for name in names if name in shapes}
        found = {name: _digest(array) for name, array in arrays.items()}
        if "state" in names:
            kept = table["state"].to_pylist()
            found["state"] = _digest(*kept)
        fits = len(kept) == count and all(found[name] == content["digests"][name] for name in names)
        if not fits:
            raise damaged(path)
    whole = TileOutcome(
        content["first"], arrays["cost"], arrays["plays"], arrays.get("tracked"),
        content["cpu"], content["wall"],
    )  # fmt: skip
    if not states:
        return content, [whole]
    starts = [row for row, state in enumerate(kept) if state is not None]
    return content, [
        replace(part(whole, low, high), state=kept[low]) for low, high in pairwise([*starts, count])
    ]


def sensible(about: About) -> bool:
    """Return whether settings, read from a file, have the types that everything relies on."""

    def whole(value: object, least: int) -> bool:
        return type(value) is int and value >= least

    def texts(*values: object) -> bool:
        return all(isinstance(value, str) for value in values)

    rounds, labels, best = about.get("checkpoints"), about.get("labels", []), about.get("best")
    return (
        texts(about.get("name"), about.get("policy"), about.get("environment"))
        and whole(about.get("arms"), 1)
        and whole(about.get("seed"), 0)
        and isinstance(rounds, list)
        and len(rounds) > 0
        and all(whole(each, 1) for each in rounds)
        and all(low < high for low, high in pairwise(rounds))
        and whole(about.get("repetitions", 0), 0)
        and isinstance(labels, list)
        and texts(*labels)
        and about.get("regret") in ("gaps", "oblivious", "tracked")
        and (best is None or (isinstance(best, list) and len(best) == len(rounds)))
    )


def damaged(path: Path) -> ResultFileError:
    """Build the error about a file that was changed after writing, or was never a shard."""
    return ResultFileError(f"The file {path.name} is damaged, or not a shard.")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a shard as a Parquet file; refuse one that cannot be read, or makes no sense."""
    try:
        with parquet_file(path, page_checksum_verification=True) as file:
            yield file
    except (BothworldsError, FileNotFoundError):
        raise
    except OSError as error:
        # The file is not to blame where the process has run out of something.
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        # Arrow's complaints about content are of this class, too, and have no number.
        if error.errno is None:
            raise damaged(path) from error
        raise ResultFileError(
            f"The file {path.name} cannot be read: {os.strerror(error.errno)}."
        ) from error
    except MemoryError:
        raise
    except Exception as error:
        raise damaged(path) from error


def _about(path: Path, file: Any) -> About:
    """Return the metadata of a shard, if it is intact."""
    content: About = json.loads(file.metadata.metadata[FORMAT.encode()])
    version = content["version"]
    digest = content.pop("digest", None)
    named = f"{content['stem']}-{content['first']}-{content['count']}.parquet"
    if isinstance(version, int) and version > VERSION:
        raise ResultFileError(
            f"The file {path.name} has format version {version}, and this version of bothworlds "
            f"reads up to {VERSION}."
        )
    if digest != _digest(_text(content)) or not sensible(content):
        raise damaged(path)
    if named != path.name:
        raise ResultFileError(f"The file {path.name} holds the shard {named}.")
    content["continuable"] = "state" in content["digests"]
    return content


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


def _lists(rows: NDArray[Any]) -> Any:
    """Return a column with a list per row."""
    offsets = np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32)
    arrow = pyarrow()
    return arrow.ListArray.from_arrays(arrow.array(offsets), arrow.array(rows.ravel()))


def _matrix(column: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a column of lists as an array."""
    flat: NDArray[Any] = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(shape)


def _text(content: About) -> str:
    return json.dumps(content, sort_keys=True)


def _digest(*parts: NDArray[Any] | str | bytes | None) -> str:
    """Return a digest of numbers, texts and states, in their order."""
    digest = hashlib.sha256()
    for each in parts:
        if each is None:
            digest.update(b"-")
            continue
        raw = each.encode() if isinstance(each, str) else each
        if isinstance(raw, np.ndarray):
            raw = raw.astype(raw.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
        digest.update(b"%d " % len(raw))
        digest.update(raw)
    return digest.hexdigest()[:32]
