"""Memory of the agent's last action, however often a round's kernel is called.

A kernel may be asked for several arms in one round, the played one last.  So the arm of a call is
only noted, and counts as played once a call with a new round arrives.  Rows from ``row`` on:

===== =============================================================
NOTED the round of the last call
NOW   the label of the arm of the last call, -1 before the first
LAST  the label of the arm played in the round before, -1 if none
===== =============================================================
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import load, select, splat, store

NOTED, NOW, LAST = 0, 1, 2
ROWS = 3
FIRST = (0.0, -1.0, -1.0)
"""The rows before the first round."""


@jit
def remember(E: Any, row: int, t: int, label: Any) -> Any:
    """Note the call and return the arm played last round, and whether this round is new."""
    fresh = load(E, row + NOTED, label) != t
    last = select(fresh, load(E, row + NOW, label), load(E, row + LAST, label))
    store(E, row + NOTED, splat(t, label))
    store(E, row + NOW, label)
    store(E, row + LAST, last)
    return last, fresh
