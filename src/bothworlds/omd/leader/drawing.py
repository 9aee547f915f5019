"""Drawing an arm other than the leader, in leader mode: by a table and rejection.

Symbols and equations are those of `bothworlds.omd.leader`.  The arms of a lane fall into `LANES`
classes, arm i into class i mod `LANES`, so that a vector has one arm of each.

======== ==========================================================================
``p_i``  V_i^-p when the lane was last rebuilt, or what `widen` or `narrow` made of it: the room
``T``    the table: sums of p_i along each class
``ends`` sums of p_i over all classes up to each
``a_i``  ``cut`` (V_i + s)^-p, or with f for a far arm: proportional to its weight
======== ==========================================================================

All p_i lie on a line, class by class.  A point of it, drawn uniformly, lies in the room of arm i,
and i is drawn if it lies in the first a_i of that room.  If not, the point is uniform in the rest
of the room, and makes the next one.  So i is drawn with probability a_i / sum_j a_j for any
p_i, as long as a_i <= p_i.  That is what ``cut`` is for: within the radius R of a series
(V_i + s)^-p is at most (1 - R)^-p V_i^-p.  Where V_i itself falls, the arm gets more room; where it
rises much and a power costs much, it gets less, so that fewer points miss.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    counting,
    lane_bits,
    load,
    lowest_bit,
    select,
    splat,
    store,
    zeros,
)
from bothworlds.omd.leader.layout import ends, far_marks, others, table, vectors
from bothworlds.omd.leader.membership import LEADER

ROUNDING = 0.999
"""Margin of ``cut`` for the rounding of a room, as a share."""
MAX_POINTS = 200  # never reached: a bound on the loop; nearly all points are taken
STRIDE = 8
"""Places of a class between two looks of the first kind: 2,048 arms take 16 of these and 7 more."""
BELOW_1 = 1.0 - 2.0**-53

# Templates: `bothworlds.omd.leader.families` fills in what differs from family to family.
power: Any = None
cut: Any = None


@jit
def tabulate(K: int, M: Any, place: int, W: int) -> None:
    """Make the table, where the V_i^-p have been left."""
    like = zeros()
    T = table(K, M, place, W)
    run = splat(0.0, like)
    for i in range(vectors(K)):
        run = run + load(T, i, like)
        store(T, i, run)
    total = 0.0
    last = (vectors(K) - 1) * LANES
    for n in range(LANES):
        total += T[last + n]
        ends(M, place, W)[n] = total


@jit
def widen(K: int, M: Any, place: int, W: int, arm: int, w: float) -> None:
    """Give an arm whose V^-p is now ``w`` room for it, if it has less."""
    more = w - room(K, M, place, W, arm)
    if more > 0.0:
        add_room(K, M, place, W, arm, more)


@jit
def narrow(K: int, M: Any, place: int, W: int, arm: int, w: float, spare: float) -> None:
    """Take from an arm whose V^-p is now ``w`` all other room, if it has ``spare`` times that."""
    p = room(K, M, place, W, arm)
    if p > spare * w:
        add_room(K, M, place, W, arm, w - p)


@jit
def room(K: int, M: Any, place: int, W: int, arm: int) -> Any:
    """Return the room of an arm."""
    T = table(K, M, place, W)
    p = T[arm]
    if arm >= LANES:
        p -= T[arm - LANES]
    return p


@jit
def add_room(K: int, M: Any, place: int, W: int, arm: int, more: float) -> None:
    """Add to the room of an arm."""
    like = zeros()
    T = table(K, M, place, W)
    E = ends(M, place, W)
    for i in range(arm, vectors(K) * LANES, LANES):
        T[i] += more
    behind = counting(0, like) >= arm % LANES
    store(E, 0, load(E, 0, like) + select(behind, splat(more, like), 0.0))


def find_other(
    K: int, M: Any, place: int, W: int, B: Any, s: float, f: float, near_below: Any, r: float
) -> Any:
    """Return an arm other than the leader, drawn by ``r``, and its (V + s)^-p or (V + f)^-p.

    A template; ``r`` is uniform in [0, 1).
    """
    like = zeros()
    T = table(K, M, place, W)
    V = others(K, M, place, W)
    E = ends(M, place, W)
    leader = int(M[LEADER * W + place])
    for _ in range(MAX_POINTS):
        y = min(r, BELOW_1) * E[LANES - 1]
        n = lowest_bit(lane_bits(load(E, 0, like) > y) | 1 << (LANES - 1))
        if n > 0:
            y -= E[n - 1]
        arm = n + LANES * first_above(T, n, vectors(K), y)
        p = T[arm]
        if arm >= LANES:
            p -= T[arm - LANES]
            y -= T[arm - LANES]
        v = V[arm] + s
        if near_below is not None and far_marks(K, M, place, W)[arm] != 0.0:
            v = V[arm] + f
        w = power(v, 1.0 / v, B)
        a = cut(B) * w
        if y < a and arm < K and arm != leader:
            return arm, w
        r = (y - a) / (p - a) if y > a and p > a else 0.0
    arm = K - 1 if leader != K - 1 else K - 2
    v = V[arm] + s
    if near_below is not None and far_marks(K, M, place, W)[arm] != 0.0:
        v = V[arm] + f
    return arm, power(v, 1.0 / v, B)


@jit
def first_above(T: Any, n: int, length: int, y: float) -> Any:
    """Return the first place in class ``n`` of the table with more than ``y``, or the last one.

    It counts those that have no more, every `STRIDE`-th and then each: no branch to foresee.
    """
    low = 0
    for i in range(STRIDE - 1, length - 1, STRIDE):
        low += STRIDE * (T[i * LANES + n] <= y)
    found = low
    for i in range(low, min(low + STRIDE, length) - 1):
        found += T[i * LANES + n] <= y
    return found
