"""Memory layout of leader mode: rows behind those of the solver.

A row has ``W`` numbers: `LANES` in a tile, one where a single repetition plays alone.  The V_i of a
lane lie one after another, so that a vector holds `LANES` arms of one lane.  The first rows are
those of `bothworlds.omd.leader.membership`.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, first_lane, fma, whole
from bothworlds.omd.estimators import BASELINE
from bothworlds.omd.leader.membership import OWN

ORDER = 9
"""Number of terms of the series, c_0 to c_9."""

PREDICTED, SLOPE, BASE, RATE, REACH = OWN, OWN + 1, OWN + 2, OWN + 3, OWN + 4
"""Rows: z, its slope, ``base``, eta_0 and the largest |s|."""
INVERSE, RATE_POWER = OWN + 5, OWN + 6
"""Rows, where p is not a whole number: Y and eta_0^p."""
SEEN, LOSSES = OWN + 7, OWN + 8
"""Rows, at p = 2: z of the lanes outside the mode, as last seen, and the sum of recent losses."""
SPREAD = OWN + 9
"""Row, at p = 1: the squared distance of the weights from the arm drawn,
(1 - w_I)^2 + sum_{i != I} w_i^2."""
ORIGIN, FAR_REACH, HIGHEST, LOWEST = OWN + 10, OWN + 11, OWN + 12, OWN + 13
"""Rows, for reduced variance: f - s as it would be in round 0, the largest |f|, the highest near V
and the lowest far one."""
NEXT = OWN + 14
"""First of five rows about rounds to come.  At p = 2 it has these rounds, one in each lane, and
the next three rows have their eta, 1 / eta and the largest L_i - x of a near arm.  At other p its
first lanes have the next round and these three numbers, and the row behind has eta^-p.  As they are
known ahead, no round waits for a square root."""
NEAR_BY, FAR_BY, WEIGHT, DRAW, ARM = OWN + 19, OWN + 20, OWN + 21, OWN + 22, OWN + 23
"""Rows, within a round in which something rare happens: s, f, o, u and the arm."""
ENDS = OWN + 24
"""First row of the sums by which another arm is drawn, `LANES` numbers for each lane."""
SERIES = ENDS + LANES
"""First row of c_0, c_1, ... of all arms or of the near ones."""
FAR_SERIES = SERIES + ORDER + 1
"""First row of those of the far ones."""
OTHERS = FAR_SERIES + ORDER + 1
"""First row of the V_i, which take `padded` rows; as many follow with the table by which another
arm is drawn, and as many that are 1 where an arm is far."""


def padded(n_arms: int) -> int:
    """Return the rows that the V_i of a tile take: those of a lane fill whole vectors."""
    return -(-n_arms // LANES) * LANES


def rows(n_arms: int, reduced_variance: bool) -> int:
    """Return the number of rows behind the solver's."""
    return OTHERS + (2 + reduced_variance) * padded(n_arms)


@jit
def vectors(K: int) -> int:
    """Return how many vectors the V_i of a lane take."""
    return (K + LANES - 1) // LANES


@jit
def lane_room(M: Any, place: int, W: int, row: int, numbers: int) -> Any:
    """Return the numbers of the lane at ``place``, of those that lie lane by lane from a row on."""
    return advance(whole(M), row * W + (first_lane(M) + place) * numbers)


@jit
def others(K: int, M: Any, place: int, W: int) -> Any:
    """Return the V_i of the lane at ``place``.

    b's own place, and places without an arm, have `membership.ABSENT`.
    """
    return lane_room(M, place, W, OTHERS, vectors(K) * LANES)


@jit
def table(K: int, M: Any, place: int, W: int) -> Any:
    """Return the sums along the classes of the lane at ``place`` (V_i^-p until `tabulate` ran)."""
    return lane_room(M, place, W, OTHERS + vectors(K) * LANES, vectors(K) * LANES)


@jit
def far_marks(K: int, M: Any, place: int, W: int) -> Any:
    """Return the far arms of the lane at ``place``: 1 if far, 0 if near."""
    return lane_room(M, place, W, OTHERS + 2 * vectors(K) * LANES, vectors(K) * LANES)


@jit
def ends(M: Any, place: int, W: int) -> Any:
    """Return the sums over the classes of the lane at ``place``."""
    return lane_room(M, place, W, ENDS, LANES)


@jit
def fallen(t: int, c: float, rate: Any, origin: Any) -> Any:
    """Return f - s in round t: far arms fall by c eta_0 B a round, as the near ones see it."""
    return fma(rate, -c * BASELINE * t, origin)


@jit
def fallen_in(t: int, c: float, M: Any, place: int, W: int) -> Any:
    """Return f - s of one lane."""
    return fallen(t, c, M[RATE * W + place], M[ORIGIN * W + place])


@jit
def brink(c: float, rate: Any, near_below: float) -> Any:
    """Return the largest V_i + s or V_i + f of a near arm: q times the largest v."""
    return c * rate * near_below
