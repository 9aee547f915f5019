"""Where a tile stands between two rounds, as bytes: states, generators, regret and plays so far.

Restored, it plays the rounds that follow as if it had never stopped.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.errors import ResultFileError


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


def restore(saved: bytes, arrays: list[NDArray[Any]]) -> int:
    """Fill the arrays with what was saved, and return the round it was saved after.

    Raises
    ------
    ResultFileError
        If that is not possible; the arrays are as they were then.
    """
    try:
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
    for old, new in zip(arrays, found, strict=True):
        old[:] = new
    return horizon
