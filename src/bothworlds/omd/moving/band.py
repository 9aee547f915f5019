"""The band: arms close to the limit between near and far, each examined in every round."""

import math
from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    absolute,
    advance,
    any_lane,
    fma,
    load,
    minimum,
    select,
    splat,
    store,
    zeros,
)
from bothworlds.omd.moving.alarms import set_alarm
from bothworlds.omd.moving.buckets import transfer
from bothworlds.omd.moving.layout import (
    ARMS,
    BAND,
    CENTRE,
    LOW,
    OUTER,
    P2,
    SCRATCH,
    SPEEDS,
    START,
    VALUES,
    bucket,
    field,
    key_of,
    members,
)


@jit
def sum_band(K: int, P: Any, x: float, limit: float) -> Any:
    """Evaluate the band at x; return sum m r^3, sum m r^4 and sum m^2 r^4 of its near arms."""
    row = bucket(BAND)
    first = as_words(P)[row + START]
    n = members(P, BAND)
    whole = n // LANES
    shift = x - P[row + CENTRE]
    p = advance(P, field(K, VALUES) + first)
    means = advance(P, field(K, SPEEDS) + first)
    room = advance(P, SCRATCH)
    lows = splat(math.inf, zeros())
    s2 = splat(0.0, lows)
    s3 = s2
    s4 = s2
    s5 = s2
    n3 = s2
    n4 = s2
    q4 = s2
    for k in range(whole):
        y = load(p, k, lows) - shift
        lows = minimum(lows, y)
        r = 1.0 / y
        r2 = r * r
        r3 = r2 * r
        m = select(y <= limit, load(means, k, lows), 0.0)
        pull = m * r3
        s2 = s2 + r2
        s3 = s3 + r3
        s4 = fma(r2, r2, s4)
        s5 = fma(r3, r2, s5)
        n3 = n3 + pull
        pull = pull * r
        n4 = n4 + pull
        q4 = fma(m, pull, q4)
    store(room, 0, s2)
    store(room, 1, s3)
    store(room, 2, s4)
    store(room, 3, s5)
    store(room, 4, n3)
    store(room, 5, n4)
    store(room, 6, q4)
    store(room, 7, lows)
    for k in range(7):
        P[SCRATCH + k * LANES] = total_of(P, k)
    low = P[SCRATCH + 7 * LANES]
    for lane in range(1, LANES):
        low = min(low, P[SCRATCH + 7 * LANES + lane])
    S2 = P[SCRATCH]
    S3 = P[SCRATCH + LANES]
    S4 = P[SCRATCH + 2 * LANES]
    S5 = P[SCRATCH + 3 * LANES]
    N3 = P[SCRATCH + 4 * LANES]
    N4 = P[SCRATCH + 5 * LANES]
    Q4 = P[SCRATCH + 6 * LANES]
    for i in range(whole * LANES, n):
        y = p[i] - shift
        low = min(low, y)
        r = 1.0 / y
        r2 = r * r
        S2 += r2
        S3 += r2 * r
        S4 += r2 * r2
        S5 += r2 * r2 * r
        if y <= limit:
            N3 += means[i] * r2 * r
            N4 += means[i] * r2 * r2
            Q4 += means[i] * means[i] * r2 * r2
    P[row + LOW] = low + shift
    P[row + P2] = S2
    P[row + P2 + 1] = S3
    P[row + P2 + 2] = S4
    P[row + P2 + 3] = S5
    return N3, N4, Q4


@jit
def total_of(P: Any, k: int) -> Any:
    """Return the sum of the elements of vector k of the scratch rows."""
    total = 0.0
    for row in range(SCRATCH + k * LANES, SCRATCH + (k + 1) * LANES):
        total += P[row]
    return total


@jit
def raise_band(K: int, P: Any, x: float, limit: float) -> Any:
    """Add their baselines to the near arms of the band; return whether one is to leave it."""
    row = bucket(BAND)
    first = as_words(P)[row + START]
    n = members(P, BAND)
    whole = n // LANES
    shift = x - P[row + CENTRE]
    p = advance(P, field(K, VALUES) + first)
    means = advance(P, field(K, SPEEDS) + first)
    like = zeros()
    outside = like < 0.0
    for k in range(whole):
        V = load(p, k, like)
        y = V - shift
        outside = outside | (absolute(y - limit) > OUTER)
        store(p, k, V + select(y <= limit, load(means, k, like), 0.0))
    leaving = any_lane(outside)
    for i in range(whole * LANES, n):
        y = p[i] - shift
        leaving = leaving or abs(y - limit) > OUTER
        if y <= limit:
            p[i] += means[i]
    return leaving


@jit
def leave_band(K: int, P: Any, x: float, limit: float) -> None:
    """Move arms far from the limit out of the band."""
    W = as_words(P)
    row = bucket(BAND)
    slot = W[row + START]
    while slot < W[bucket(BAND + 1) + START]:
        y = P[field(K, VALUES) + slot] - (x - P[row + CENTRE])
        if abs(y - limit) <= OUTER:
            slot += 1
            continue
        arm = W[field(K, ARMS) + slot]
        to = key_of(P, y, limit)
        transfer(K, P, arm, to, y, x)
        set_alarm(K, P, arm, y, limit, False)
        # The hole went to the first slot of the band or to the last.
        if to < BAND:
            slot += 1
