"""Rare work of leader mode: one lane, all its arms.

Symbols and equations are those of `bothworlds.omd.leader`.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    lane_bits,
    least_lane,
    load,
    lowest_bit,
    minimum,
    negate,
    select,
    splat,
    store,
    zeros,
)
from bothworlds.omd.leader import drawing, series
from bothworlds.omd.leader.drawing import RADIUS
from bothworlds.omd.leader.layout import (
    BASE,
    FAR_REACH,
    FAR_SERIES,
    HIGHEST,
    LOWEST,
    ORIGIN,
    PREDICTED,
    RATE,
    REACH,
    SERIES,
    SLOPE,
    brink,
    fallen,
    fallen_in,
    far_marks,
    others,
    table,
)
from bothworlds.omd.leader.membership import (
    LEADER,
    NOBODY,
    crown,
    head_start,
    settle_whole,
    vectors,
)


@jit
def rebuild(K: int, t: int, M: Any, place: int, W: int, eta: float, near_below: Any) -> Any:
    """Find leader, z and series of a lane anew; return z."""
    like = zeros()
    V = others(K, M, place, W)
    rho = eta / M[RATE * W + place]
    base = M[BASE * W + place]
    low = splat(NOBODY, like)
    for i in range(vectors(K)):
        v = load(V, i, like)
        beyond = v - base
        if near_below is not None:
            far = load(far_marks(K, M, place, W), i, like) != 0.0
            beyond = select(far, beyond + fallen_in(t, M, place, W), beyond)
        v = select(v < NOBODY, rho * beyond, NOBODY)
        low = minimum(low, v)
        store(V, i, v)
    least = crown(K, M, LEADER * W + place, V, least_lane(low))
    z = settle_whole(K, V, M[PREDICTED * W + place], 2, 1e-9, 0.0)
    M[PREDICTED * W + place] = z
    M[SLOPE * W + place] = 0.0
    M[RATE * W + place] = eta
    if near_below is None:
        ahead = head_start(least + z, RADIUS)
        M[BASE * W + place] = z - ahead
        M[REACH * W + place] = RADIUS * (least + z - ahead)
        for i in range(vectors(K)):
            v = load(V, i, like)
            somebody = v < NOBODY
            v = select(somebody, v + (z - ahead), v)
            store(V, i, v)
            store(table(K, M, place, W), i, select(somebody, 1.0 / v, 0.0))
        series.sum_powers(K, M, place, W, SERIES, None)
    else:
        M[BASE * W + place] = z
        divide(K, t, M, place, W, z, brink(eta, near_below))
        series.sum_powers(K, M, place, W, SERIES, 0.0)
        series.sum_powers(K, M, place, W, FAR_SERIES, 1.0)
    drawing.tabulate(K, M, place, W)
    return z


@jit
def divide(K: int, t: int, M: Any, place: int, W: int, z: float, edge: float) -> None:
    """Add z to every V_i, tell near and far arms apart, and give the far ones their head start."""
    like = zeros()
    V = others(K, M, place, W)
    F = far_marks(K, M, place, W)
    lead = head_start(edge, RADIUS)
    M[ORIGIN * W + place] = lead - fallen(t, M[RATE * W + place], 0.0)
    lead = fallen_in(t, M, place, W)  # with the rounding of every later round
    nobody = splat(NOBODY, like)
    near_low, near_high, far_low = nobody, nobody, nobody
    for i in range(vectors(K)):
        v = load(V, i, like)
        somebody = v < NOBODY
        v = select(somebody, v + z, v)
        far = negate(v <= edge)
        v = select(far & somebody, v - lead, v)
        store(V, i, v)
        store(table(K, M, place, W), i, select(somebody, 1.0 / v, 0.0))
        store(F, i, select(far, splat(1.0, like), splat(0.0, like)))
        near_low = minimum(near_low, select(far, nobody, v))
        near_high = minimum(near_high, select(far, nobody, -v))
        far_low = minimum(far_low, select(far, v, nobody))
    M[HIGHEST * W + place] = -least_lane(near_high)
    M[LOWEST * W + place] = least_lane(far_low)
    M[REACH * W + place] = RADIUS * least_lane(near_low)
    M[FAR_REACH * W + place] = RADIUS * least_lane(far_low)


@jit
def cross(K: int, M: Any, place: int, W: int, s: float, f: float, edge: float) -> None:
    """Move every arm that has crossed the brink to the other series.

    Radii do not grow, so that what rounding left of an arm in its old series stays small.
    """
    like = zeros()
    V = others(K, M, place, W)
    F = far_marks(K, M, place, W)
    nobody = splat(NOBODY, like)
    near_low, near_high, far_low = nobody, nobody, nobody
    for i in range(vectors(K)):
        v = load(V, i, like)
        was_far = load(F, i, like) != 0.0
        shift = select(was_far, splat(f, like), splat(s, like))
        far = negate(v + shift <= edge)
        bits = lane_bits((was_far & negate(far)) | (far & negate(was_far)))
        if bits != 0:
            while bits != 0:
                change_series(K, M, place, W, V, F, i * LANES + lowest_bit(bits), f - s)
                bits &= bits - 1
            v = load(V, i, like)
        near_low = minimum(near_low, select(far, nobody, v))
        near_high = minimum(near_high, select(far, nobody, -v))
        far_low = minimum(far_low, select(far, v, nobody))
    least_near = least_lane(near_low)
    least_far = least_lane(far_low)
    M[HIGHEST * W + place] = -least_lane(near_high)
    M[LOWEST * W + place] = least_far
    if least_near == NOBODY:
        series.clear(M, place, W, SERIES)
        M[REACH * W + place] = NOBODY
    if least_far == NOBODY:
        series.clear(M, place, W, FAR_SERIES)
        M[FAR_REACH * W + place] = NOBODY
    M[REACH * W + place] = min(M[REACH * W + place], RADIUS * least_near)
    M[FAR_REACH * W + place] = min(M[FAR_REACH * W + place], RADIUS * least_far)


@jit
def change_series(
    K: int, M: Any, place: int, W: int, V: Any, F: Any, arm: int, fallen: float
) -> None:
    """Move an arm to the other series; ``fallen`` is f - s."""
    r0 = 1.0 / V[arm]
    if F[arm] != 0.0:
        V[arm] += fallen
        F[arm] = 0.0
        r1 = 1.0 / V[arm]
        series.replace(M, place, W, FAR_SERIES, r0, 0.0)
        series.replace(M, place, W, SERIES, 0.0, r1)
    else:
        V[arm] -= fallen
        F[arm] = 1.0
        r1 = 1.0 / V[arm]
        series.replace(M, place, W, SERIES, r0, 0.0)
        series.replace(M, place, W, FAR_SERIES, 0.0, r1)
    drawing.widen(K, M, place, W, arm, r1)
