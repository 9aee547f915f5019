"""Memory layout of leader mode: rows behind those of the solver.

A row has ``W`` numbers: `LANES` in a tile, one where a single repetition plays alone.  The V_i of a
lane lie one after another, so that a vector holds `LANES` arms of one lane.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, fma
from bothworlds.omd import half
from bothworlds.omd.estimators import BASELINE
from bothworlds.omd.leader.membership import padded, vectors

ORDER = 9
"""Of the series: they have the terms c_0 to c_9."""

PREDICTED, SLOPE, BASE, RATE, REACH = 2, 3, 4, 5, 6
"""Rows: z, its slope, ``base``, eta_0 and the largest |s|; the first two are those of
`bothworlds.omd.leader.membership`."""
SPENT, RESTLESS, SEEN = 7, 8, 9
"""Rows: what rare work has cost lately, the last round that spoke against entering, and z of the
lanes that are not in the mode, as last seen."""
ORIGIN, FAR_REACH, HIGHEST, LOWEST, LOSSES = 10, 11, 12, 13, 14
"""Rows, for reduced variance: f - s as it would be in round 0, the largest |f|, the highest near V,
the lowest far one, and the sum of the losses lately."""
NEXT = 15
"""First of four rows that begin with the next round, its eta, 1 / eta and the largest L_i - x of a
near arm: known a round ahead, nobody waits for a square root."""
NEAR_BY, FAR_BY, WEIGHT, DRAW, ARM = 19, 20, 21, 22, 23
"""Rows, within a round in which something rare happens: s, f, o, u and the arm."""
ENDS = 24
"""First row of the sums by which another arm is drawn, `LANES` numbers for each lane."""
SERIES = ENDS + LANES
"""First row of c_0, c_1, ... of all arms or of the near ones."""
FAR_SERIES = SERIES + ORDER + 1
"""First row of those of the far ones."""
OTHERS = FAR_SERIES + ORDER + 1
"""First row of the V_i, which take `padded` rows; as many follow with the table by which another
arm is drawn, and as many that are 1 where an arm is far."""


def rows(n_arms: int, reduced_variance: bool) -> int:
    """Return the number of rows behind the solver's."""
    return OTHERS + (2 + reduced_variance) * padded(n_arms)


@jit
def mode_rows(K: int, S: Any, W: int) -> Any:
    """Return the rows of the mode, which lie behind those of the solver."""
    return advance(S, (half.ESTIMATES + K) * W)


@jit
def others(K: int, M: Any, place: int, W: int) -> Any:
    """Return the V_i of the lane at ``place``."""
    return advance(M, OTHERS * W + place * vectors(K) * LANES)


@jit
def table(K: int, M: Any, place: int, W: int) -> Any:
    """Return the sums along the classes of the lane at ``place``; before, the 1 / V_i."""
    return advance(M, OTHERS * W + (W + place) * vectors(K) * LANES)


@jit
def far_marks(K: int, M: Any, place: int, W: int) -> Any:
    """Return what is 1 for the far arms of the lane at ``place`` and 0 for the others."""
    return advance(M, OTHERS * W + (2 * W + place) * vectors(K) * LANES)


@jit
def ends(M: Any, place: int, W: int) -> Any:
    """Return the sums over the classes of the lane at ``place``."""
    return advance(M, ENDS * W + place * LANES)


@jit
def fallen(t: int, rate: Any, origin: Any) -> Any:
    """Return f - s in round t: far arms fall by (eta_0 / 2) B a round, as the near ones see it."""
    return fma(rate, -0.5 * BASELINE * t, origin)


@jit
def fallen_in(t: int, M: Any, place: int, W: int) -> Any:
    """Return f - s of one lane."""
    return fallen(t, M[RATE * W + place], M[ORIGIN * W + place])


@jit
def brink(rate: Any, near_below: float) -> Any:
    """Return the largest V_i + s or V_i + f of a near arm: q times the largest v."""
    return 0.5 * rate * near_below
