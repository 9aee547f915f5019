"""Row lookup, one out of K in each lane: by comparing where arms are few, else by address.

Reading or writing ``LANES`` different addresses costs about five instructions a lane.  Up to `FEW`
arms it is cheaper to look at every row and keep what fits.  Both give the same bits.
"""

from typing import Any

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.vectors import add_at, gather, load, scatter, select, store, width

FEW = 4
"""Rows up to which comparing is cheaper."""


@inlined
def take(A: Any, base: int, K: int, arm: Any) -> Any:
    """Return row ``base + arm`` of the K rows from ``base`` on."""
    if width(arm) == 1 or K > FEW:
        return gather(A, base, arm)
    value = load(A, base, arm)
    for i in range(1, K):
        value = select(arm == i, load(A, base + i, arm), value)
    return value


@inlined
def add_to(A: Any, base: int, K: int, arm: Any, by: Any) -> None:
    """Add ``by`` to row ``base + arm`` of the K rows from ``base`` on."""
    if width(arm) == 1 or K > FEW:
        add_at(A, base, arm, by)
    else:
        for i in range(K):
            row = load(A, base + i, by)
            store(A, base + i, select(arm == i, row + by, row))


@jit
def put(A: Any, base: int, K: int, arm: Any, value: Any) -> None:
    """Write ``value`` to row ``base + arm`` of the K rows from ``base`` on."""
    if width(arm) == 1 or K > FEW:
        scatter(A, base, arm, value)
    else:
        for i in range(K):
            store(A, base + i, select(arm == i, value, load(A, base + i, value)))
