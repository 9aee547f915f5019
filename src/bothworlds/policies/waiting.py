"""Decisions that wait for feedback: baselines added at the decision, and how many are on their way.

An estimate B_i + 1[i = I] (l - B_i) / p_i is unbiased if B_i was known at the decision.  A bandit
therefore adds the baselines of all arms when it decides again, or earlier if anything else is to
change the estimates, and carries only B_I with the decision; its feedback, however late, adds
(l - B_I) / p_I.  Prompt feedback finds the decision still open and learns in one step, as the
simulation engine does.

======== ==========================================================================
``n``    answers so far
``o``    decisions without an answer
``D``    the longest delay seen, in decisions; none before the first answer
======== ==========================================================================

Outstanding decisions count as the mean of those answered, but only as many as the longest delay:
what is missing for longer counts as lost.  Of the baselines only the share that is answered is
added, (1 + n) / (1 + n + max(o - D, 0)): otherwise arms with small baselines would look better
where feedback is lost.  With prompt feedback both factors are exactly 1.

``W`` are the rows of one bandit; the engine leaves them as they were at the start.
"""

from __future__ import annotations

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import advance
from bothworlds.policies.base import Saved

LATEST, OPEN, ANSWERS, OUTSTANDING, LONGEST, SHARE = range(6)
"""Number of the last decision, whether its baselines are still to be added, n, o, D + 1 (0 for
none), and the share of its baselines."""
ROWS = 6
BASE, NUMBER = 1, 2
"""Rows of the whole state, carried with a decision: B_I and the decision's number."""
FIRST = (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
"""The rows before the first decision."""


def saved(at: int) -> dict[int, Saved]:
    """Return the rows, starting at ``at``, that a state file keeps."""
    names = {
        LATEST: "decisions",
        ANSWERS: "answers",
        OUTSTANDING: "outstanding",
        LONGEST: "longest_delay",
    }
    return {
        at + row: Saved(name, low=0.0, high=2.0**53, whole=True, optional=True)
        for row, name in names.items()
    }


@jit
def decided(W: Any, number: float) -> None:
    """Count a decision, unless it is the open one."""
    if W[OPEN] == 0.0:
        missing = max(W[OUTSTANDING] - (W[LONGEST] - 1.0), 0.0) if W[LONGEST] > 0.0 else 0.0
        W[SHARE] = (1.0 + W[ANSWERS]) / (1.0 + W[ANSWERS] + missing)
        W[LATEST] = number
        W[OPEN] = 1.0
        W[OUTSTANDING] += 1.0


@jit
def carry(S: Any, at: int, base: float) -> None:
    """Count a decision with this B_I, in the state whose rows W begin at ``at``."""
    W = advance(S, at)
    decided(W, W[LATEST] + 1.0)
    S[BASE] = base
    S[NUMBER] = W[LATEST]


@jit
def is_late(W: Any, number: float) -> bool:
    """Tell whether the baselines of a decision are in the estimates already."""
    return bool(W[LATEST] != 0.0 and (W[OPEN] == 0.0 or W[LATEST] != number))


@jit
def answered(W: Any, number: float) -> None:
    """Count the answer of a decision; 0 stands for one from before decisions were counted."""
    if W[LATEST] != 0.0 and number > 0.0:
        W[OUTSTANDING] = max(W[OUTSTANDING] - 1.0, 0.0)
        W[ANSWERS] += 1.0
        W[LONGEST] = max(W[LONGEST], W[LATEST] - number + 1.0)


@jit
def expected(W: Any) -> float:
    """Return 1 + min(o, D) / (1 + n): all decisions that count, in units of those answered."""
    waiting = W[OUTSTANDING]
    if W[LONGEST] > 0.0:
        waiting = min(waiting, W[LONGEST] - 1.0)
    return float(1.0 + waiting / (1.0 + W[ANSWERS]))
