"""Snapshot of a tile between two rounds, as bytes: states, generators, regret and plays so far.

Restored, it plays the rounds that follow as if it had never stopped.  A snapshot comes from a
file, and compiled code looks at no bounds; so every index and every number is checked before a
kernel sees it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.environments import memory
from bothworlds.environments.base import Environment
from bothworlds.errors import ResultFileError
from bothworlds.lanes.random import WORDS
from bothworlds.policies.base import LARGEST

_HEADER = 4096
"""Bytes that an array may take in a snapshot besides its numbers."""


def pack(horizon: int, arrays: list[NDArray[Any]]) -> bytes:
    """Return the arrays as they are after round ``horizon``.

    Examples
    --------
    >>> saved = pack(5, [np.arange(3.0)])
    >>> fresh = np.zeros(3)
    >>> restore(saved, [fresh]), fresh.tolist()
    (5, [0.0, 1.0, 2.0])
    """
    stream = io.BytesIO()
    named = {f"array{number}": array for number, array in enumerate(arrays)}
    np.savez_compressed(stream, horizon=np.int64(horizon), **named)  # type: ignore[arg-type]
    return stream.getvalue()


def restore(
    saved: bytes,
    arrays: list[NDArray[Any]],
    sound: Callable[[int, list[NDArray[Any]]], bool] | None = None,
) -> int:
    """Fill the arrays from a snapshot, and return its round.

    Parameters
    ----------
    saved : bytes
        What `pack` returned.
    arrays : list of ndarray
        Of the same shapes and types.
    sound : callable, optional
        Takes the round and the arrays that were saved; False refuses them.

    Raises
    ------
    ResultFileError
        If that is not possible; the arrays are as they were then.
    """
    try:
        room = sum(array.nbytes + _HEADER for array in arrays) + _HEADER
        with zipfile.ZipFile(io.BytesIO(saved)) as parts:
            small = sum(part.file_size for part in parts.infolist()) <= room
        if not small:
            raise ValueError("more numbers than fit")
        with np.load(io.BytesIO(saved), allow_pickle=False) as content:
            found = [content[f"array{number}"] for number in range(len(arrays))]
            horizon = int(content["horizon"])
            others = len(content.files) - len(arrays) - 1
    # Zip, zlib and NumPy have many ways to refuse bytes.
    except Exception as error:
        raise ResultFileError("The saved state of a simulation cannot be read.") from error
    fits = zip(arrays, found, strict=True)
    if others or any(old.shape != new.shape or old.dtype != new.dtype for old, new in fits):
        raise ResultFileError("The saved state of a simulation is that of another one.")
    if sound is not None and not sound(horizon, found):
        raise ResultFileError("The saved state of a simulation has impossible numbers.")
    for old, new in zip(arrays, found, strict=True):
        old[:] = new
    return horizon


def sound_generator(words: NDArray[np.int64]) -> bool:
    """Tell whether generators, a column each, will ever give anything but zeros."""
    return words.shape[0] == WORDS and bool(words.any(axis=0).all())


def sound_plays(plays: NDArray[np.float64], rounds: int) -> bool:
    """Tell whether plays, a row per arm, are counts that add up to the rounds."""
    counts = (plays >= 0.0) & (plays <= rounds) & (plays == np.floor(plays))
    return bool(counts.all() and (plays.sum(axis=0) == rounds).all())


def sound_environment(
    environment: Environment, start: NDArray[np.float64], now: NDArray[np.float64], horizon: int
) -> bool:
    """Tell whether an environment that began at ``start`` can be at ``now``, a column each.

    Rows that its kernel never changes must be as they began.  The rows of a user's own state may
    hold anything.
    """
    row = environment.memory_row
    if row is None:
        return np.array_equal(start[1:], now[1:], equal_nan=True)
    noted, *labels = now[row : row + memory.ROWS]
    rest = now[row + memory.ROWS :]
    return (
        np.array_equal(start[1:row], now[1:row])
        and bool(((noted >= 0.0) & (noted <= horizon)).all())
        and all(sound_arms(each, environment.n_arms) for each in labels)
        and (not environment.trusted or bool((np.abs(rest) <= LARGEST).all()))
    )


def sound_attack(rows: Sequence[int], now: NDArray[np.float64], n_arms: int) -> bool:
    """Tell whether a stage between environment and agent can be at ``now``, a column each."""
    fits = all(sound_arms(now[row], n_arms) for row in rows)
    return fits and bool((np.abs(now) <= LARGEST).all())


def sound_arms(numbers: NDArray[np.float64], n_arms: int) -> bool:
    """Tell whether numbers are arms, or -1 for none."""
    inside = (numbers >= -1.0) & (numbers < n_arms) & (numbers == np.floor(numbers))
    return bool(inside.all())
