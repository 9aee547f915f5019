"""Compiled functions that learn and keep evidence in one call.

A call from Python costs as much as a round.  The functions are templates around a policy's
wrappers for one bandit, as in `bothworlds.lanes.wrap`.

======== ==========================================================================
``A``    running sums (`bothworlds.evidence.layout`)
``F``    one bandit in one array (`bothworlds.lanes.kernels`)
======== ==========================================================================
"""

from __future__ import annotations

import functools
from typing import Any

from numba import carray

from bothworlds.evidence.layout import ARMS, weights_at
from bothworlds.evidence.observing import ALL, NOTHING, note, observe_at, observe_late
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import ROUND
from bothworlds.lanes.vectors import advance, numbers_at
from bothworlds.lanes.wrap import bound

# What the templates call; filled in for each policy.
tell: Any = None
weights: Any = None


def telling(address: int, F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Add the decision just drawn, with its distribution, and learn from it.

    An address instead of an array, because Python would take it apart in every round.
    """
    R = numbers_at(address)
    K = int(R[ARMS])
    weights(F, carray(advance(R, weights_at(K)), (K,)))
    observe_at(R, arm, inverse_p, loss, int(F[ROUND]), ALL)
    tell(F, arm, inverse_p, loss)


def telling_unknown(address: int, F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Add the decision just drawn, whose probabilities nobody knows, and learn from it."""
    observe_at(numbers_at(address), arm, 0.0, loss, int(F[ROUND]), NOTHING)
    tell(F, arm, inverse_p, loss)


def noting(A: Any, F: Any, out: Any) -> None:
    """Write the distribution of the decision just drawn, then what `note` does."""
    K = int(A[ARMS])
    weights(F, out[:K])
    note(A, out[K : 2 * K], out[2 * K :])


def noting_all(A: Any, snapshots: Any, out: Any) -> None:
    """Do what `noting` does for decisions made before any of them is told."""
    for n in range(snapshots.shape[0]):
        noted(A, snapshots[n], out[n])


noted: Any = None


@jit
def observe_late_all(
    A: Any, arms: Any, inverse_p: Any, losses: Any, rounds: Any, table: Any
) -> None:
    """Add decisions of the past, a row of ``table`` each, as `noting` wrote it."""
    K = int(A[ARMS])
    for n in range(arms.size):
        row = table[n]
        observe_late(
            A, arms[n], inverse_p[n], losses[n], rounds[n], ALL, row[:K], row[K : 2 * K],
            row[2 * K :],
        )  # fmt: skip


@functools.cache
def telling_of(tell: Any, weights: Any) -> Any:
    """Return `telling` of a policy; without ``weights``, of one that knows no probabilities."""
    if weights is None:
        return bound(telling_unknown, tell=tell)
    return bound(telling, tell=tell, weights=weights)


@functools.cache
def noting_of(weights: Any) -> tuple[Any, Any]:
    """Return `noting` and `noting_all` of a policy."""
    one = bound(noting, weights=weights)
    return one, bound(noting_all, noted=one)
