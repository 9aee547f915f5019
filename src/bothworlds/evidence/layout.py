"""Layout of the running sums: which number stands where in one array of floats.

``R = [head, rows of K numbers, weights, history, tables of the grid, capitals]``.  One array, so
that a bandit passes one argument to a compiled function, and copies or saves its evidence as one
block.

====================== ======================================================================
`HEAD` numbers         of all arms together
`ROWS` rows            one number per arm each
one row                the distribution of the decision being learned from
`POINTS` history rows  round, then `KEPT` numbers per arm
three tables           mu, 1 / (2 mu) and 1 / (2 (1 - mu)) on the grid of G + 1 means
capitals               per arm two bets at every mean of the grid
====================== ======================================================================
"""

from __future__ import annotations

from typing import Any

from bothworlds.lanes.jit import jit

# Head.
ARMS, GRID, TOLD, REFRESH, LAM, SUM_LAM, SUM_PSI, PARTIAL = 0, 1, 2, 3, 4, 5, 6, 7
CHECKPOINT, RATIO, POINTS_USED, UNKNOWN, OWN_ONLY, LAST, WEIGHTED = 8, 9, 10, 11, 12, 13, 14
LAM_PSI = 15
HEAD = 16
"""Numbers before the rows:

arms, cells of the grid, answers, answers at which the bets of the drift form are
chosen again, that bet for gaps, its sum, the sum of psi of it, answers at which an arm was
away, next checkpoint, factor between checkpoints, history rows in use, answers without a
probability, answers with the probability of the played arm alone, round last answered, answers
decisions with a probability, psi of the bet for gaps.
"""

# Rows of K numbers.
N, S, V = 0, 1, 2
"""Answers, sum of losses, sum of squared deviations from the mean before."""
A1, A2, SH, SHG, SW, SWG, SWGG = 3, 4, 5, 6, 7, 8, 9
"""AIPW: sums of h and h^2 since the arm was last played, then the five sums over all rounds."""
LEAST = 10
"""Smallest (K w)^3 t: the cube of the scale of the largest floor t^(-1/3) that was kept."""
FOLDED = 11
"""Number of answers when the arm's drift sums were last updated."""
BET, PSI, SL, SLX, SP, SV = 12, 13, 14, 15, 16, 17
"""Drift form, for the lower end: lam, psi(lam); sums of lam, lam X, psi (X - m)^2, (X - m)^2."""
SIDE = 6
"""The same six rows follow for the upper end, with 1 - y in place of y."""
GX, GP = 24, 26
"""Drift form for gaps: sums of lam X and psi (X^2 / 4 - X / 2), for y and for 1 - y."""
ENDS = 28
"""Two rows per level: the highest point excluded from below, the lowest from above."""

LEVELS = (0.9, 0.95, 0.99, 0.999)
"""Confidences at which the running intersection of a sequence is kept."""
TOP = len(LEVELS) - 1
OWN_BET = ENDS + 2 * len(LEVELS)
"""The bet on the arm's own losses."""
ROWS = OWN_BET + 1

POINTS = 64
"""Checkpoints kept; when they are full every second one is dropped."""
KEPT = 6
"""Per arm and checkpoint: probability, answers, mean, standard error, ends of the sequence."""


@jit
def row(K: int, which: int) -> int:
    """Return where a row of K numbers begins."""
    return HEAD + which * K


@jit
def weights_at(K: int) -> Any:
    """Return where the distribution of the decision being learned from begins."""
    return row(K, ROWS)


@jit
def history_at(K: int, point: int) -> int:
    """Return where a row of the history begins."""
    return HEAD + (ROWS + 1) * K + point * (1 + KEPT * K)


@jit
def tables_at(K: int) -> Any:
    """Return where the tables of the grid begin."""
    return history_at(K, POINTS)


@jit
def capital_at(K: int, cells: int, arm: int, side: int) -> Any:
    """Return where an arm's capitals begin; side 0 bets on the lower end, 1 on the upper."""
    return tables_at(K) + (3 + 2 * arm + side) * cells


def history_place(n_arms: int, point: int = 0) -> int:
    """Same as `history_at`, without compiling it; the tables start after `POINTS`."""
    return int(history_at.py_func(n_arms, point))


def size(n_arms: int, grid: int) -> int:
    """Return how many numbers the evidence on this many arms takes."""
    return history_place(n_arms, POINTS) + (3 + 2 * n_arms) * (grid + 1)
