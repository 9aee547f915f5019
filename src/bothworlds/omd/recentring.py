"""Keeping loss estimates small: the weights depend on their differences only.

The functions work on one bandit or on a tile of repetitions; arm i's estimate is row
``first + i`` of the state.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import any_lane, load, minimum, select, splat_int, store

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
    return fade(K, S, first, None, like)


@jit
def recentre_where(K: int, S: Any, first: int, where: Any, like: Any) -> Any:
    """Subtract min L from every L_i in some lanes; return the amount in each."""
    low = select(where, least(K, S, first, like), 0.0)
    for i in range(first, first + K):
        store(S, i, load(S, i, like) - low)
    return low


@jit
def is_due(t: Any) -> Any:
    """Tell whether it is time to recentre in any lane; t is the round, or one for every lane."""
    return any_lane((t & (RECENTRE_EVERY - 1)) == 0)


@jit
def lanes_due(t: Any, like: Any) -> Any:
    """Tell in which lanes it is time to recentre."""
    return (splat_int(t, like) & (RECENTRE_EVERY - 1)) == 0


@jit
def fade(K: int, S: Any, first: int, retained: Any, like: Any) -> Any:
    """Make every L_i ``retained`` times L_i - min L, or just that if None; return min L."""
    low = least(K, S, first, like)
    for i in range(first, first + K):
        L = load(S, i, like) - low
        if retained is not None:
            L = retained * L
        store(S, i, L)
    return low
