"""Checkpoints: the rounds at which a simulation records regret."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import is_whole
from bothworlds.errors import InvalidParameter, must


def log_spaced(horizon: int, per_decade: int = 16) -> NDArray[np.int64]:
    """Return about ``per_decade`` rounds per decade from 1 to ``horizon``, the last included.

    Examples
    --------
    >>> log_spaced(100, per_decade=4).tolist()
    [1, 2, 3, 6, 10, 18, 32, 56, 100]
    """
    steps = np.arange(0, np.log10(horizon) * per_decade + 1e-9) / per_decade
    rounds = np.append(np.rint(10.0**steps), horizon)
    return np.unique(rounds[rounds <= horizon].astype(np.int64))


def checked_checkpoints(checkpoints: Iterable[int] | None, horizon: int) -> NDArray[np.int64]:
    """Return the rounds to record, increasing, all within the horizon."""
    if checkpoints is None:
        return log_spaced(horizon)
    given = list(checkpoints)
    whole = all(map(is_whole, given))
    if not given or not whole or min(given) < 1 or max(given) > horizon:
        expected = f"whole numbers between 1 and the horizon {horizon}"
        raise InvalidParameter(must("checkpoints", "simulate", expected, given))
    return np.unique(np.asarray(given, dtype=np.int64))
