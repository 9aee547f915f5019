"""Near, far, and the band between: which arms get the baseline of the reduced-variance estimator.

An arm is near when y <= limit = 2 / eta^2.  Near arms rise by B = 1/2 every round, far ones do
not, so while x rises by less than B and more than 0 an arm at the limit crosses it back and forth.
Arms that close are kept in the band: each of them is examined every round, as the O(K) pass
does with all.  Other arms change family only through the band, and the heaps give the round.
"""

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
from bothworlds.omd import half
from bothworlds.omd.estimators import BASELINE, baseline
from bothworlds.omd.many import heaps
from bothworlds.omd.many.buckets import BLOCK, find, lane_min, lane_sum, octave, transfer
from bothworlds.omd.many.layout import (
    BAND,
    CENTRE,
    COUNT,
    FAR,
    FIRST_FAR,
    KEY,
    LOW,
    NEAR,
    OFFSET,
    P2,
    P3,
    P4,
    P5,
    SCRATCH,
    SHARED,
    START,
    arm_row,
    bucket,
    frame,
    heap_row,
    members,
    place_row,
    slot_row,
    value_row,
)

INNER = 8.0  # an arm this close to the limit joins the band
OUTER = 32.0  # one further away leaves it; between the two it stays where it is


@jit
def key_of(S: Any, y: float, limit: Any) -> Any:
    """Return the key of the bucket an arm should join; ``limit`` is None without families."""
    if limit is not None:
        if abs(y - limit) <= INNER:
            return BAND
        if y < limit:
            return octave(S, y)
    return FIRST_FAR + octave(S, y)


@jit
def band(S: Any) -> Any:
    """Return the rank of the band, or -1 if no arm is in it."""
    W = as_words(S)
    rank = find(S, BAND)
    return rank if rank < W[COUNT] and W[bucket(rank) + KEY] == BAND else -1


@jit
def sum_band(K: int, S: Any, rank: int, x: float, limit: float) -> Any:
    """Evaluate the band at x; return N_3 and N_4 of its near arms."""
    row = bucket(rank)
    first = value_row(K, as_words(S)[row + START])
    n = members(S, rank)
    whole = n // LANES
    S2 = 0.0
    S3 = 0.0
    S4 = 0.0
    S5 = 0.0
    N3 = 0.0
    N4 = 0.0
    p = advance(S, first)
    room = advance(S, SCRATCH)
    lows = splat(math.inf, zeros())
    for start in range(0, whole, BLOCK):
        s2 = splat(0.0, lows)
        s3 = s2
        s4 = s2
        s5 = s2
        n3 = s2
        n4 = s2
        for i in range(start, min(start + BLOCK, whole)):
            y = load(p, i, lows) - x
            lows = minimum(lows, y)
            r = 1.0 / y
            r2 = r * r
            r3 = r2 * r
            s2 = s2 + r2
            s3 = s3 + r3
            s4 = fma(r2, r2, s4)
            s5 = fma(r3, r2, s5)
            near_r3 = select(y <= limit, r3, 0.0)
            n3 = n3 + near_r3
            n4 = fma(near_r3, r, n4)
        store(room, 0, s2)
        store(room, 1, s3)
        store(room, 2, s4)
        store(room, 3, s5)
        store(room, 4, n3)
        store(room, 5, n4)
        S2 += lane_sum(S, 0)
        S3 += lane_sum(S, 1)
        S4 += lane_sum(S, 2)
        S5 += lane_sum(S, 3)
        N3 += lane_sum(S, 4)
        N4 += lane_sum(S, 5)
    store(room, 0, lows)
    low = lane_min(S, 0)
    for i in range(first + whole * LANES, first + n):
        y = S[i] - x
        low = min(low, y)
        r = 1.0 / y
        r2 = r * r
        r3 = r2 * r
        S2 += r2
        S3 += r3
        S4 += r2 * r2
        S5 += r3 * r2
        if y <= limit:
            N3 += r3
            N4 += r2 * r2
    S[row + CENTRE] = x
    S[row + LOW] = low
    S[row + P2] = S2
    S[row + P3] = S3
    S[row + P4] = S4
    S[row + P5] = S5
    return N3, N4


@jit
def enter_band(K: int, S: Any, limit: float) -> None:
    """Move the near and far arms that came close to the limit, or crossed it, into the band."""
    W = as_words(S)
    x = S[half.ROOT]
    X = frame(S, 0, x)
    family = NEAR
    while True:
        arm = W[heap_row(K, 0 if family == NEAR else K - 1)]
        y = S[SHARED + arm] - (X if family == NEAR else x)
        outside = y <= limit - INNER if family == NEAR else y > limit + INNER
        if W[family] > 0 and not outside:
            heaps.drop(K, S, family, arm)
            transfer(K, S, W[slot_row(K, arm)], BAND, y, x)
        elif family == NEAR:
            family = FAR
        else:
            break


@jit
def is_near(K: int, S: Any, arm: int, limit: float) -> Any:
    """Tell whether an arm gets the baseline."""
    slot = as_words(S)[slot_row(K, arm)]
    rank = band(S)
    if rank < 0 or slot < as_words(S)[bucket(rank) + START]:
        return slot < as_words(S)[NEAR]
    inside = slot < as_words(S)[bucket(rank + 1) + START]
    return inside and S[value_row(K, slot)] - S[half.ROOT] <= limit


@jit
def raise_near(K: int, S: Any, limit: float) -> Any:
    """Add the baseline to all near arms; return whether one of the band is far from the limit."""
    S[OFFSET] += BASELINE
    rank = band(S)
    if rank < 0:
        return False
    x = S[half.ROOT]
    n = members(S, rank)
    first = value_row(K, as_words(S)[bucket(rank) + START])
    whole = n // LANES
    p = advance(S, first)
    like = zeros()
    outside = like < 0.0
    for i in range(whole):
        v = load(p, i, like)
        y = v - x
        outside = outside | (absolute(y - limit) > OUTER)
        store(p, i, v + baseline(y <= limit, y))
    leaving = any_lane(outside)
    for i in range(first + whole * LANES, first + n):
        y = S[i] - x
        leaving = leaving or abs(y - limit) > OUTER
        S[i] += baseline(y <= limit, 0.0)
    return leaving


@jit
def between(S: Any) -> Any:
    """Return the first slot that is not of the near family, and the first of the far one."""
    W = as_words(S)
    rank = find(S, BAND)
    begin = W[bucket(rank) + START]
    inside = rank < W[COUNT] and W[bucket(rank) + KEY] == BAND
    return begin, W[bucket(rank + 1) + START] if inside else begin


@jit
def raise_marked(K: int, S: Any, near: Any, limit: float) -> Any:
    """Add the baseline to the marked arms of the band; return whether one should leave it."""
    W = as_words(S)
    begin, end = between(S)
    leaving = False
    for slot in range(begin, end):
        S[value_row(K, slot)] += baseline(near[W[arm_row(K, slot)]] != 0, 0.0)
        leaving = leaving or abs(S[value_row(K, slot)] - S[half.ROOT] - limit) > OUTER
    return leaving


@jit
def place(K: int, S: Any, arm: int, family: int, y: float, key: int) -> None:
    """Give an arm of a family (0: the band) its new y and the bucket ``key``."""
    W = as_words(S)
    X = frame(S, key, S[half.ROOT])
    slot = transfer(K, S, W[slot_row(K, arm)], key, y, X)
    v = S[value_row(K, slot)]
    to = NEAR if key < BAND else FAR if key > BAND else 0
    if to == family and to != 0:
        S[SHARED + arm] = v
        heaps.sift(K, S, family, arm, W[place_row(K, arm)])
        return
    if family != 0:
        heaps.drop(K, S, family, arm)
    if to != 0:
        heaps.push(K, S, to, arm, v)


@jit
def leave_band(K: int, S: Any, limit: float) -> None:
    """Move arms far from the limit out of the band."""
    W = as_words(S)
    x = S[half.ROOT]
    rank = band(S)
    slot = W[bucket(rank) + START]
    end = W[bucket(rank + 1) + START]
    while slot < end:
        y = S[value_row(K, slot)] - x
        if abs(y - limit) <= OUTER:
            slot += 1
            continue
        key = octave(S, y) if y < limit else FIRST_FAR + octave(S, y)
        place(K, S, W[arm_row(K, slot)], 0, y, key)
        # The hole went to the first slot of the band or to the last.
        if key < BAND:
            slot += 1
        else:
            end -= 1
