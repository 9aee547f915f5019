"""Compiled functions that keep evidence of a decision.

Those for a decision just drawn call the policy's code by its address, so they are compiled once for
all policies.  The others are templates around a policy's wrappers for one bandit, as in
`bothworlds.lanes.wrap`.

======== ==========================================================================
``R``    running sums (`bothworlds.evidence.layout`), a pointer; ``A`` the array of them
``F``    one bandit in one array (`bothworlds.lanes.kernels`), or its address
======== ==========================================================================
"""

from __future__ import annotations

import functools
from typing import Any

from numba import carray
from numba.core import types

from bothworlds.evidence.layout import ARMS, weights_at
from bothworlds.evidence.update import ALL, NOTHING, ROOTS, note_at, observe_at, observe_late_at
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import ROUND, calling, numbers, unpack
from bothworlds.lanes.vectors import advance, numbers_at, pointer, to_int
from bothworlds.lanes.wrap import bound

FILL_AT = types.void(numbers, numbers)
"""Signature of the code that writes the distribution of a bandit's last draw."""
fill_at = calling(lambda lanes: FILL_AT)

# What the templates call; filled in for each policy.
weights: Any = None


@jit
def add_drawn(R: Any, F: Any, fill: int, arm: int, inverse_p: float, loss: float) -> None:
    """Add the decision just drawn; the code at ``fill`` writes its distribution."""
    K = to_int(R[ARMS])
    fill_at(fill, (F, advance(R, weights_at(K))))
    observe_at(R, arm, inverse_p, loss, to_int(F[ROUND]), ALL)


@jit
def add_drawn_roots(R: Any, F: Any, fill: int, arm: int, inverse_p: float, loss: float) -> None:
    """Do the same, where the square roots of the distribution cost less."""
    K = to_int(R[ARMS])
    fill_at(fill, (F, advance(R, weights_at(K))))
    observe_at(R, arm, inverse_p, loss, to_int(F[ROUND]), ROOTS)


@jit
def add_drawn_unknown(R: Any, F: Any, fill: int, arm: int, inverse_p: float, loss: float) -> None:
    """Add the decision just drawn, whose probabilities are not known."""
    observe_at(R, arm, 0.0, loss, to_int(F[ROUND]), NOTHING)


def filling(F: Any, out: Any) -> None:
    """Write the distribution of the decision just drawn, or what ``weights`` is, to an address."""
    weights(F, carray(out, (unpack(F)[0],)))


def noting(place: float, F: Any, out: Any) -> None:
    """Write the distribution of the decision just drawn, then call `note`."""
    note_draw(numbers_at(to_int(place)), F, pointer(out))


def noting_all(place: float, snapshots: Any, out: Any) -> None:
    """Same as `noting`, for decisions drawn before any of them has feedback."""
    R = numbers_at(to_int(place))
    K, size = to_int(R[ARMS]), out.shape[1]
    for n in range(snapshots.shape[0]):
        if n == 0:
            note_draw(R, pointer(snapshots), pointer(out))
        else:
            # Guesses and bets are the same until feedback arrives.
            row = advance(pointer(out), n * size)
            weights(advance(pointer(snapshots), n * snapshots.shape[1]), carray(row, (K,)))
            for i in range(K, size):
                row[i] = out[0, i]


def noting_at(R: Any, F: Any, out: Any) -> None:
    """Same as `noting`, with pointers."""
    K = to_int(R[ARMS])
    weights(F, carray(out, (K,)))
    note_at(R, advance(out, K), advance(out, 2 * K))


note_draw: Any = None


@jit
def observe_noted(R: Any, arm: int, inverse_p: float, y: float, t: int, w: Any) -> None:
    """Add a past decision, whose notes by `noting` start at ``w``."""
    K = to_int(R[ARMS])
    observe_late_at(R, arm, inverse_p, y, t, ALL, w, advance(w, K), advance(w, 2 * K))


@jit
def observe_late_all(
    A: Any, arms: Any, inverse_p: Any, losses: Any, rounds: Any, table: Any
) -> None:
    """Add decisions of the past, a row of ``table`` each, as `noting` wrote it."""
    size = table.shape[1]
    for n in range(arms.size):
        w = advance(pointer(table), n * size)
        observe_noted(pointer(A), arms[n], inverse_p[n], losses[n], rounds[n], w)


@functools.cache
def adding_of(weights: Any, roots: Any) -> tuple[Any, Any]:
    """Return the function that adds a policy's decisions, and the kernel whose code it calls.

    Without ``weights``, those of a policy that knows no probabilities.
    """
    if weights is None:
        return add_drawn_unknown, None
    if roots is None:
        return add_drawn, bound(filling, weights=weights)
    return add_drawn_roots, bound(filling, weights=roots)


@functools.cache
def noting_of(weights: Any) -> tuple[Any, Any]:
    """Return `noting` and `noting_all` of a policy."""
    one = bound(noting_at, weights=weights)
    many = bound(noting_all, release=True, note_draw=one, weights=weights)
    return bound(noting, note_draw=one), many
