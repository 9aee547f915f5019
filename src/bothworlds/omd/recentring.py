"""Keeping loss estimates small: the weights depend on their differences only.

The functions work on one bandit or on a tile of repetitions; arm i's estimate is row
``first + i`` of the state.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import load, minimum, store

RECENTRE_EVERY = 1024
"""Rounds after which policies recentre: their differences then keep their digits for ever."""


@jit
def least(K: int, S: Any, first: int, like: Any) -> Any:
    """Return min_i L_i."""
    low = load(S, first, like)
    for i in range(first + 1, first + K):
        low = minimum(low, load(S, i, like))
    return low


@jit
def recentre(K: int, S: Any, first: int, like: Any) -> Any:
    """Subtract min L from every L_i and return it."""
    low = least(K, S, first, like)
    for i in range(first, first + K):
        store(S, i, load(S, i, like) - low)
    return low
