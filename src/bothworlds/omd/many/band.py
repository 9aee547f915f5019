"""The band: arms close to the limit between near and far, each examined in every round.

``means`` are the baselines of its arms; None where all have B = 1/2.
"""

import math
from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    absolute,
    any_lane,
    fma,
    load,
    minimum,
    select,
    splat,
    store,
    zeros,
)
from bothworlds.omd.estimators import BASELINE

BLOCK = 64  # vectors summed before they join the total: the error of a sum stays near rounding


@jit
def lane_sum(room: Any, k: int) -> Any:
    """Return the sum of the elements of vector k."""
    total = 0.0
    for lane in range(k * LANES, (k + 1) * LANES):
        total += room[lane]
    return total


@jit
def lane_min(room: Any, k: int) -> Any:
    """Return the least element of vector k."""
    low = room[k * LANES]
    for lane in range(k * LANES, (k + 1) * LANES):
        low = min(low, room[lane])
    return low


@jit
def sum_band(p: Any, means: Any, n: int, shift: float, limit: float, room: Any, out: Any) -> Any:
    """Evaluate the band, whose n arms have y = p_i - shift, in vectors kept in ``room``.

    Writes S_2 to S_5 to ``out``; returns the least y, and of the near arms sum m r^3, sum m r^4
    and sum m^2 r^4, with m = 1 where there are no means.
    """
    whole = n // LANES
    N3 = 0.0
    N4 = 0.0
    Q4 = 0.0
    for k in range(4):
        out[k] = 0.0
    lows = splat(math.inf, zeros())
    for start in range(0, whole, BLOCK):
        s2 = splat(0.0, lows)
        s3 = s2
        s4 = s2
        s5 = s2
        n3 = s2
        n4 = s2
        q4 = s2
        for i in range(start, min(start + BLOCK, whole)):
            y = load(p, i, lows) - shift
            lows = minimum(lows, y)
            r = 1.0 / y
            r2 = r * r
            r3 = r2 * r
            s2 = s2 + r2
            s3 = s3 + r3
            s4 = fma(r2, r2, s4)
            s5 = fma(r3, r2, s5)
            pull = select(y <= limit, r3, 0.0)
            if means is not None:
                m = load(means, i, lows)
                pull = m * pull
                q4 = fma(m, pull * r, q4)
            n3 = n3 + pull
            n4 = fma(pull, r, n4)
        store(room, 0, s2)
        store(room, 1, s3)
        store(room, 2, s4)
        store(room, 3, s5)
        store(room, 4, n3)
        store(room, 5, n4)
        store(room, 6, q4)
        for k in range(4):
            out[k] += lane_sum(room, k)
        N3 += lane_sum(room, 4)
        N4 += lane_sum(room, 5)
        Q4 += lane_sum(room, 6)
    store(room, 0, lows)
    low = lane_min(room, 0)
    for i in range(whole * LANES, n):
        y = p[i] - shift
        low = min(low, y)
        r = 1.0 / y
        r2 = r * r
        r3 = r2 * r
        out[0] += r2
        out[1] += r3
        out[2] += r2 * r2
        out[3] += r3 * r2
        if y <= limit:
            m = 1.0 if means is None else means[i]
            N3 += m * r3
            N4 += m * (r2 * r2)
            Q4 += m * m * (r2 * r2)
    return low, N3, N4, Q4


@jit
def raise_band(p: Any, means: Any, n: int, shift: float, limit: float, outer: float) -> Any:
    """Add their baselines to the near arms; return whether an arm is beyond ``outer``."""
    whole = n // LANES
    like = zeros()
    outside = like < 0.0
    for i in range(whole):
        v = load(p, i, like)
        y = v - shift
        outside = outside | (absolute(y - limit) > outer)
        by = splat(BASELINE, like) if means is None else load(means, i, like)
        store(p, i, v + select(y <= limit, by, 0.0))
    leaving = any_lane(outside)
    for i in range(whole * LANES, n):
        y = p[i] - shift
        leaving = leaving or abs(y - limit) > outer
        if y <= limit:
            p[i] += BASELINE if means is None else means[i]
    return leaving
