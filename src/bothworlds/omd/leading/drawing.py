"""Drawing an arm other than the leader, in leader mode: a table and rejection, O(log K).

Symbols and equations are those of `bothworlds.omd.leading`.  The arms of a lane fall into `LANES`
classes, arm i into class i mod `LANES`, so that a vector has one arm of each.

======== ==========================================================================
``p_i``  V_i^-2 when the lane was last rebuilt: what the table has room for
``T``    the table: sums of p_i along each class
``ends`` sums of p_i over all classes up to each
``a_i``  ``cut`` (V_i + s)^-2, or with f for a far arm: proportional to its weight
======== ==========================================================================

All p_i lie on a line, class by class.  A point of it, drawn uniformly, lies in the room of arm i,
and i is drawn if it lies in the first a_i of that room.  If not, the point is uniform in the rest
of the room, and makes the next one.  So i is drawn with probability a_i / sum_j a_j whatever the
p_i are, as long as a_i <= p_i.  That is what ``cut`` is for: within the radius of a series (V_i +
s)^-2 exceeds V_i^-2 by at most 1 / (1 - RADIUS)^2, and where V_i itself has fallen since, `RISEN`
has by how much.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import lane_bits, load, lowest_bit, select, splat, store, zeros
from bothworlds.omd.leadership import LEADER, vectors
from bothworlds.omd.leading.layout import REACH, RISEN, ends, far_marks, others, table

RADIUS = 1 / 32
"""Largest |s| and |f|, as a share of the least V of the series."""
WITHIN = 0.999 * (1.0 - RADIUS) ** 2
"""``cut`` as long as no V has fallen; a little less, for what rounding takes from a room."""
MOST_RISEN = 4.0
"""Largest `RISEN` without a rebuild."""
MAX_POINTS = 200  # never reached: a bound on the loop; more than half of the points are taken
STRIDE = 8
BELOW_1 = 1.0 - 2.0**-53


@jit
def note(K: int, M: Any, place: int, W: int, i: int, far: Any, run: Any) -> None:
    """Enter the sums along the classes after the ``i``-th vector of arms, of one series.

    The series of the far arms comes second, on top of the other.
    """
    T = table(K, M, place, W)
    if far is not None:
        run = run + select(splat(far, run) != 0.0, load(T, i, run), 0.0)
    store(T, i, run)


@jit
def finish_table(K: int, M: Any, place: int, W: int) -> None:
    """Sum over the classes, when all vectors have been noted."""
    T = table(K, M, place, W)
    total = 0.0
    last = (vectors(K) - 1) * LANES
    for n in range(LANES):
        total += T[last + n]
        ends(M, place, W)[n] = total
    M[RISEN * W + place] = 1.0


@jit
def raised(K: int, M: Any, place: int, W: int, arm: int) -> None:
    """Take note that the V of an arm has changed, and its weight may have risen."""
    T = table(K, M, place, W)
    v = others(K, M, place, W)[arm]
    p = T[arm]
    if arm >= LANES:
        p -= T[arm - LANES]
    if p * (v * v) < 1.0:
        risen = max(M[RISEN * W + place], 1.0 / (p * (v * v)))
        M[RISEN * W + place] = risen
        if not risen <= MOST_RISEN:
            M[REACH * W + place] = 0.0  # rebuild


@jit
def find_other(
    K: int, M: Any, place: int, W: int, s: float, f: float, near_below: Any, r: float
) -> Any:
    """Return an arm other than the leader, drawn by ``r``, uniform in [0, 1)."""
    like = zeros()
    T = table(K, M, place, W)
    V = others(K, M, place, W)
    E = ends(M, place, W)
    leader = int(M[LEADER * W + place])
    cut = WITHIN / M[RISEN * W + place]
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
        a = cut / (v * v)
        if y < a and arm < K and arm != leader:
            return arm
        r = (y - a) / (p - a) if y > a and p > a else 0.0
    return K - 1 if leader != K - 1 else K - 2


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
