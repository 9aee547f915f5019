"""Costs of leader mode and what it saves, in nanoseconds of one lane: only ratios matter.

What is rare costs more than its instructions: the processor did not expect it.
"""

from typing import Any

from bothworlds.lanes.jit import jit


@jit
def saved(K: int, near_below: Any) -> float:
    """Return what a round saves that looks at no arm."""
    return 0.75 * K - 0.6 if near_below is None else 0.9 * K - 1.0


@jit
def other(K: int) -> float:
    """Return what a round costs in which another arm is played."""
    return 150.0 + 0.1 * K


@jit
def rebuild(K: int) -> float:
    """Return what a rebuild costs."""
    return 150.0 + 1.5 * K


@jit
def saved_of_many(near_below: Any) -> float:
    """Return what a round saves beside the many-arms kernels, which hardly depend on K."""
    return 200.0 if near_below is None else 400.0
