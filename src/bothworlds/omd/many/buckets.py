"""Buckets: arms with y between two powers of 2, and the power sums that stand for them.

Arms lie in slots, bucket after bucket by increasing key, so a bucket is a range of slots and a
member can be drawn uniformly.  An arm that changes bucket leaves a hole, which is passed on
through the buckets between; each closes it with one of its own members.
"""

import math
from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    advance,
    bits_float,
    float_bits,
    fma,
    load,
    minimum,
    splat,
    store,
    zeros,
)
from bothworlds.omd.many.band import BLOCK, lane_min, lane_sum
from bothworlds.omd.many.layout import (
    BAND,
    BASE,
    CENTRE,
    CHANGES,
    COUNT,
    EXPONENTS,
    FIRST_FAR,
    KEY,
    LOW,
    REST,
    SCALE,
    SCRATCH,
    START,
    T2,
    TERMS,
    WIDTH,
    arm_row,
    bucket,
    frame,
    members,
    put,
    value_row,
)

DRIFT = 1 / 32  # of the least y: how far x may move before the series loses digits


@jit
def exponent(y: float) -> Any:
    """Return floor(log2 y), y > 0."""
    return ((float_bits(y) >> 52) & 0x7FF) - 1023


@jit
def power_of_two(e: int) -> Any:
    """Return 2^e."""
    return bits_float((e + 1023) << 52)


@jit
def octave(S: Any, y: float) -> Any:
    """Return the number of the bucket for y within its family."""
    return min(max(exponent(y) - as_words(S)[BASE], 0), EXPONENTS - 1)


@jit
def octave_of_key(key: int) -> Any:
    """Return the number of a bucket within its family."""
    return key - FIRST_FAR if key >= FIRST_FAR else key


@jit
def find(S: Any, key: int) -> Any:
    """Return the rank of the first bucket with this key or a larger one."""
    W = as_words(S)
    rank = 0
    while rank < W[COUNT] and W[bucket(rank) + KEY] < key:
        rank += 1
    return rank


@jit
def rank_at(S: Any, slot: int) -> Any:
    """Return the rank of the bucket a slot belongs to."""
    W = as_words(S)
    rank = 0
    while W[bucket(rank + 1) + START] <= slot:
        rank += 1
    return rank


@jit
def empty(S: Any, rank: int, X: float) -> None:
    """Make the sums of a bucket those of no arm, seen from X."""
    row = bucket(rank)
    as_words(S)[row + CHANGES] = 0
    S[row + CENTRE] = X
    S[row + LOW] = math.inf
    S[row + REST] = 0.0
    for k in range(TERMS):
        S[row + T2 + k] = 0.0


@jit
def name(S: Any, rank: int, key: int) -> None:
    """Give a bucket its key and the scale that belongs to it."""
    W = as_words(S)
    W[bucket(rank) + KEY] = key
    S[bucket(rank) + SCALE] = power_of_two(-(octave_of_key(key) + W[BASE]))


@jit
def insert(S: Any, rank: int, key: int, X: float) -> None:
    """Make a bucket without arms before the one that now has this rank."""
    W = as_words(S)
    for row in range(bucket(W[COUNT] + 1) - 1, bucket(rank) - 1, -1):
        S[row + WIDTH] = S[row]
    W[COUNT] += 1
    name(S, rank, key)
    empty(S, rank, X)


@jit
def remove(S: Any, rank: int) -> None:
    """Forget a bucket; arms it still has belong to the one before."""
    W = as_words(S)
    for row in range(bucket(rank), bucket(W[COUNT])):
        S[row] = S[row + WIDTH]
    W[COUNT] -= 1


@jit
def alter(S: Any, rank: int, y: float, sign: float) -> None:
    """Add (sign 1) or take away (sign -1) the powers of an arm; y as seen from the centre."""
    row = bucket(rank)
    rho = 1.0 / (y * S[row + SCALE])
    p = sign * rho * rho
    before = S[row + T2]
    after = before + p
    step = after - before
    S[row + REST] += (before - (after - step)) + (p - step)
    S[row + T2] = after
    for k in range(1, TERMS):
        p *= rho
        S[row + T2 + k] += p
    S[row + LOW] = min(S[row + LOW], y)
    as_words(S)[row + CHANGES] += 1


@jit
def pass_hole(K: int, S: Any, slot: int, rank: int, to: int) -> Any:
    """Pass the free ``slot`` of a bucket on to bucket ``to``; return the slot that is now free."""
    W = as_words(S)
    while rank < to:
        rank += 1
        last = W[bucket(rank) + START] - 1
        W[bucket(rank) + START] = last
        put(K, S, slot, W[arm_row(K, last)], S[value_row(K, last)])
        slot = last
    while rank > to:
        first = W[bucket(rank) + START]
        W[bucket(rank) + START] = first + 1
        put(K, S, slot, W[arm_row(K, first)], S[value_row(K, first)])
        slot = first
        rank -= 1
    return slot


@jit
def transfer(K: int, S: Any, slot: int, key: int, y: float, X: float) -> Any:
    """Give the arm in ``slot`` the bucket ``key`` and V = y + X; return its new slot."""
    W = as_words(S)
    arm = W[arm_row(K, slot)]
    rank = rank_at(S, slot)
    alone = members(S, rank) == 1
    old = W[bucket(rank) + KEY]
    if not alone and old != BAND:
        alter(S, rank, S[value_row(K, slot)] - S[bucket(rank) + CENTRE], -1.0)
    v = y + X
    if old == key:
        if alone:
            empty(S, rank, X)
        to = rank
    else:
        to = find(S, key)
        if to == W[COUNT] or W[bucket(to) + KEY] != key:
            insert(S, to, key, X)
            if to <= rank:
                rank += 1
        slot = pass_hole(K, S, slot, rank, to)
    put(K, S, slot, arm, v)
    if key != BAND:
        alter(S, to, v - S[bucket(to) + CENTRE], 1.0)
    if members(S, rank) == 0:
        remove(S, rank)
    return slot


# --- making the sums again --------------------------------------------------------------------


@jit
def extremes(K: int, S: Any, rank: int) -> Any:
    """Return the least and the greatest V of a bucket."""
    first = value_row(K, as_words(S)[bucket(rank) + START])
    n = members(S, rank)
    whole = n // LANES
    p = advance(S, first)
    room = advance(S, SCRATCH)
    lows = splat(math.inf, zeros())
    lowest_negative = lows
    for i in range(whole):
        v = load(p, i, lows)
        lows = minimum(lows, v)
        lowest_negative = minimum(lowest_negative, -v)
    store(room, 0, lows)
    store(room, 1, lowest_negative)
    low = lane_min(room, 0)
    high = -lane_min(room, 1)
    for i in range(first + whole * LANES, first + n):
        low = min(low, S[i])
        high = max(high, S[i])
    return low, high


@jit
def sum_powers(K: int, S: Any, rank: int, X: float) -> None:
    """Make the sums of a bucket again, seen from X."""
    empty(S, rank, X)
    row = bucket(rank)
    first = value_row(K, as_words(S)[row + START])
    n = members(S, rank)
    whole = n // LANES
    scale = S[row + SCALE]
    p = advance(S, first)
    room = advance(S, SCRATCH)
    lows = splat(math.inf, zeros())
    for start in range(0, whole, BLOCK):
        t2 = splat(0.0, lows)
        t3 = t2
        t4 = t2
        t5 = t2
        t6 = t2
        t7 = t2
        t8 = t2
        t9 = t2
        t10 = t2
        t11 = t2
        for i in range(start, min(start + BLOCK, whole)):
            y = load(p, i, lows) - X
            lows = minimum(lows, y)
            rho = 1.0 / (y * scale)
            rho2 = rho * rho
            rho4 = rho2 * rho2
            rho8 = rho4 * rho4
            t2 = t2 + rho2
            t3 = fma(rho2, rho, t3)
            t4 = t4 + rho4
            t5 = fma(rho4, rho, t5)
            t6 = fma(rho4, rho2, t6)
            t7 = fma(rho4 * rho2, rho, t7)
            t8 = t8 + rho8
            t9 = fma(rho8, rho, t9)
            t10 = fma(rho8, rho2, t10)
            t11 = fma(rho8 * rho2, rho, t11)
        store(room, 0, t2)
        store(room, 1, t3)
        store(room, 2, t4)
        store(room, 3, t5)
        store(room, 4, t6)
        store(room, 5, t7)
        store(room, 6, t8)
        store(room, 7, t9)
        store(room, 8, t10)
        store(room, 9, t11)
        for k in range(TERMS):
            S[row + T2 + k] += lane_sum(room, k)
    store(room, 0, lows)
    low = lane_min(room, 0)
    for i in range(first + whole * LANES, first + n):
        y = S[i] - X
        low = min(low, y)
        rho = 1.0 / (y * scale)
        power = rho
        for k in range(TERMS):
            power *= rho
            S[row + T2 + k] += power
    S[row + LOW] = low


@jit
def absorbed(S: Any, rank: int, e: int) -> Any:
    """Try to give a whole bucket octave ``e``; return the rank it has then, or -1.

    It takes the name, or joins the neighbour that has it.  With a bucket between, it cannot.
    """
    W = as_words(S)
    old = W[bucket(rank) + KEY]
    key = old + e - octave_of_key(old)
    if key < old:
        if rank > 0 and W[bucket(rank - 1) + KEY] == key:
            remove(S, rank)
            return rank - 1
        if rank > 0 and W[bucket(rank - 1) + KEY] > key:
            return -1
    else:
        if rank + 1 < W[COUNT] and W[bucket(rank + 1) + KEY] == key:
            W[bucket(rank + 1) + START] = W[bucket(rank) + START]
            remove(S, rank)
            return rank
        if rank + 1 < W[COUNT] and W[bucket(rank + 1) + KEY] < key:
            return -1
    name(S, rank, key)
    return rank


@jit
def sort_out(K: int, S: Any, rank: int, X: float) -> Any:
    """Move the members that belong to other octaves; return the rank the bucket has then.

    The sums of this bucket are left as they are, to be created again.
    """
    W = as_words(S)
    key = W[bucket(rank) + KEY]
    e = octave_of_key(key)
    slot = W[bucket(rank) + START]
    while slot < W[bucket(rank + 1) + START]:
        v = S[value_row(K, slot)]
        other = octave(S, v - X)
        if other == e:
            slot += 1
            continue
        arm = W[arm_row(K, slot)]
        goal = key + other - e
        to = find(S, goal)
        if to == W[COUNT] or W[bucket(to) + KEY] != goal:
            insert(S, to, goal, X)
            if to <= rank:
                rank += 1
        put(K, S, pass_hole(K, S, slot, rank, to), arm, v)
        alter(S, to, v - S[bucket(to) + CENTRE], 1.0)
        if other < e:
            slot += 1
    return rank


@jit
def rebuild(K: int, S: Any, rank: int, X: float) -> None:
    """Make a bucket again at X: members to their octaves, sums from the rest."""
    e = octave_of_key(as_words(S)[bucket(rank) + KEY])
    low, high = extremes(K, S, rank)
    bottom = octave(S, low - X)
    top = octave(S, high - X)
    if bottom != e or top != e:
        to = absorbed(S, rank, bottom) if bottom == top else -1
        rank = sort_out(K, S, rank, X) if to < 0 else to
    if members(S, rank) == 0:
        remove(S, rank)
    else:
        sum_powers(K, S, rank, X)


@jit
def refresh(K: int, S: Any, x: float) -> None:
    """Rebuild the buckets whose centre is too far from x or whose sums changed too often."""
    W = as_words(S)
    rank = find(S, 0)
    while rank < W[COUNT]:
        row = bucket(rank)
        key = W[row + KEY]
        X = frame(S, key, x)
        drifted = abs(X - S[row + CENTRE]) > DRIFT * S[row + LOW]
        worn = W[row + CHANGES] > 32 + members(S, rank)
        if key != BAND and (drifted or worn):
            rebuild(K, S, rank, X)
            rank = find(S, key + 1)
        else:
            rank += 1
