"""Buckets of arms that move: their sums, and the slots their members have."""

import math
from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import absolute, advance, load, maximum, minimum, splat, store, zeros
from bothworlds.omd.many.buckets import DRIFT
from bothworlds.omd.many.layout import TERMS
from bothworlds.omd.moving.layout import (
    ACTIVE,
    ARMS,
    BAND,
    BINOMIALS,
    BORN,
    CENTRE,
    CHANGES,
    FIRST_FAR,
    KEY,
    KEYS,
    LISTED,
    LOW,
    MOMENTS,
    MU,
    SCALE,
    SCRATCH,
    SLOTS,
    SPEED,
    SPEEDS,
    START,
    TIME,
    VALUES,
    T,
    U,
    bucket,
    field,
    members,
    octave,
    speed,
)


@jit
def empty(P: Any, key: int, x: float, v: float) -> None:
    """Make the sums of a bucket those of no arm, with its origin here and now."""
    row = bucket(key)
    as_words(P)[row + CHANGES] = 0
    P[row + CENTRE] = x
    P[row + BORN] = P[TIME]
    P[row + SPEED] = v
    P[row + LOW] = math.inf
    P[row + MU] = 0.0
    for i in range(MOMENTS):
        P[row + T + i] = 0.0


@jit
def alter(P: Any, key: int, V: float, g: float, sign: float) -> None:
    """Add (sign 1) or take away (sign -1) an arm with V and g from the sums of a bucket."""
    row = bucket(key)
    scale = P[row + SCALE]
    rho = 1.0 / (V * scale)
    mu = g - P[row + SPEED]
    P[row + LOW] = min(P[row + LOW], V)
    P[row + MU] = max(P[row + MU], abs(mu))
    as_words(P)[row + CHANGES] += 1
    first = sign * rho * rho
    at = row + T
    for j in range(TERMS):
        power = first
        for i in range(TERMS - j):
            P[at + i] += power
            power *= rho
        at += TERMS - j
        first *= rho * mu * scale
        if first == 0.0:
            break


@jit
def sum_members(K: int, P: Any, key: int) -> None:
    """Add all members to the sums of a bucket, sixteen at a time."""
    W = as_words(P)
    row = bucket(key)
    first = W[row + START]
    n = members(P, key)
    whole = n // LANES
    depth = TERMS if key < BAND else 1
    room = advance(P, SCRATCH)
    like = zeros()
    lows = splat(math.inf, like)
    fastest = splat(0.0, like)
    for i in range(MOMENTS):
        store(room, i, like)
    p = advance(P, field(K, VALUES) + first)
    speeds = advance(P, field(K, SPEEDS) + first)
    scale = P[row + SCALE]
    v = P[row + SPEED]
    for k in range(whole):
        V = load(p, k, like)
        mu = load(speeds, k, like) - v
        lows = minimum(lows, V)
        fastest = maximum(fastest, absolute(mu))
        rho = 1.0 / (V * scale)
        step = rho * (mu * scale)
        lead = rho * rho
        at = 0
        for j in range(depth):
            power = lead
            for i in range(at, at + TERMS - j):
                store(room, i, load(room, i, like) + power)
                power = power * rho
            at += TERMS - j
            lead = lead * step
    store(room, MOMENTS, lows)
    store(room, MOMENTS + 1, fastest)
    for lane in range(LANES):
        P[row + LOW] = min(P[row + LOW], P[SCRATCH + MOMENTS * LANES + lane])
        P[row + MU] = max(P[row + MU], P[SCRATCH + (MOMENTS + 1) * LANES + lane])
        for i in range(MOMENTS):
            P[row + T + i] += P[SCRATCH + i * LANES + lane]
    for slot in range(first + whole * LANES, first + n):
        alter(P, key, P[field(K, VALUES) + slot], P[field(K, SPEEDS) + slot], 1.0)
    W[row + CHANGES] = 0


@jit
def collapse(P: Any, key: int) -> None:
    """Write the U_n of a bucket for the time of now."""
    row = bucket(key)
    for i in range(TERMS):
        P[row + U + i] = P[row + T + i]
    tau = P[TIME] - P[row + BORN]
    if tau == 0.0 or P[row + MU] == 0.0:
        return
    at = row + T + TERMS
    power = -tau
    for j in range(1, TERMS):
        for i in range(TERMS - j):
            P[row + U + i] += BINOMIALS[i, j] * power * P[at + i]
        at += TERMS - j
        power *= -tau


@jit
def drift(P: Any, key: int, x: float) -> Any:
    """Return by how much x has moved away from the origin of a bucket, its speed allowed for."""
    row = bucket(key)
    return (x - P[row + CENTRE]) - P[row + SPEED] * (P[TIME] - P[row + BORN])


@jit
def reach(P: Any, key: int) -> Any:
    """Return how far the members of a bucket may have moved by speeds of their own."""
    row = bucket(key)
    return P[row + MU] * (P[TIME] - P[row + BORN])


@jit
def lowest(P: Any, key: int, x: float) -> Any:
    """Return a lower bound of y in a bucket."""
    if key == BAND:
        return P[bucket(key) + LOW] - (x - P[bucket(key) + CENTRE])
    return P[bucket(key) + LOW] - drift(P, key, x) - reach(P, key)


@jit
def put(K: int, P: Any, slot: int, arm: int, V: float, g: float) -> None:
    """Let ``arm`` have ``slot``."""
    W = as_words(P)
    P[field(K, VALUES) + slot] = V
    P[field(K, SPEEDS) + slot] = g
    W[field(K, ARMS) + slot] = arm
    W[field(K, SLOTS) + arm] = slot


@jit
def pass_hole(K: int, P: Any, slot: int, key: int, to: int) -> Any:
    """Pass the free ``slot`` of a bucket on to bucket ``to``; return the slot that is now free."""
    W = as_words(P)
    values, speeds, arms = field(K, VALUES), field(K, SPEEDS), field(K, ARMS)
    while key < to:
        key += 1
        last = W[bucket(key) + START] - 1
        W[bucket(key) + START] = last
        if last != slot:  # where it is, the bucket is empty but for the hole
            put(K, P, slot, W[arms + last], P[values + last], P[speeds + last])
        slot = last
    while key > to:
        first = W[bucket(key) + START]
        W[bucket(key) + START] = first + 1
        if first != slot:
            put(K, P, slot, W[arms + first], P[values + first], P[speeds + first])
        slot = first
        key -= 1
    return slot


@jit
def enter(K: int, P: Any, slot: int, arm: int, to: int, y: float, x: float) -> None:
    """Give ``arm`` the free ``slot`` of bucket ``to``, at y."""
    W = as_words(P)
    g = speed(K, P, arm, to)
    W[field(K, KEY) + arm] = to
    if members(P, to) == 1:
        empty(P, to, x, g)
    row = bucket(to)
    V = y - (g * (P[TIME] - P[row + BORN]) - (x - P[row + CENTRE]))
    put(K, P, slot, arm, V, g)
    if to != BAND:
        alter(P, to, V, g, 1.0)


@jit
def leave(K: int, P: Any, arm: int) -> None:
    """Take an arm out of the sums of its bucket, before its speed or place changes."""
    W = as_words(P)
    key = W[field(K, KEY) + arm]
    if key != BAND and members(P, key) > 1:
        slot = W[field(K, SLOTS) + arm]
        alter(P, key, P[field(K, VALUES) + slot], P[field(K, SPEEDS) + slot], -1.0)


@jit
def transfer(K: int, P: Any, arm: int, to: int, y: float, x: float) -> None:
    """Move an arm that has left its sums into bucket ``to``, at y."""
    W = as_words(P)
    key = W[field(K, KEY) + arm]
    slot = pass_hole(K, P, W[field(K, SLOTS) + arm], key, to)
    enter(K, P, slot, arm, to, y, x)


@jit
def rebuild(K: int, P: Any, key: int, x: float) -> None:
    """Make a bucket again: members to their octaves, sums from the rest."""
    W = as_words(P)
    row = bucket(key)
    family = 0 if key < BAND else FIRST_FAR
    values, arms = field(K, VALUES), field(K, ARMS)
    born, centre = P[row + BORN], P[row + CENTRE]
    slot = W[row + START]
    total = 0.0
    while slot < W[bucket(key + 1) + START]:
        arm = W[arms + slot]
        g = P[field(K, SPEEDS) + slot]
        y = P[values + slot] + (g * (P[TIME] - born) - (x - centre))
        goal = family + octave(P, y)
        if goal == key:
            # Those that are done hold y, and no member that is not done comes before them.
            P[values + slot] = y
            total += g
            slot += 1
            continue
        hole = pass_hole(K, P, slot, key, goal)
        enter(K, P, hole, arm, goal, y, x)
        if goal < key:
            slot += 1
    n = members(P, key)
    if n == 0:
        return
    empty(P, key, x, total / n if family == 0 else 0.0)
    sum_members(K, P, key)


@jit
def refresh(K: int, P: Any, x: float) -> None:
    """Make those buckets again whose members have moved too far, or whose sums changed too often.

    Lists the buckets that are not empty.
    """
    W = as_words(P)
    for key in range(KEYS):
        n = members(P, key)
        if n == 0 or key == BAND:
            continue
        row = bucket(key)
        moved = abs(drift(P, key, x)) + reach(P, key)
        if moved > DRIFT * P[row + LOW] or W[row + CHANGES] > 32 + n:
            rebuild(K, P, key, x)
    count = 0
    for key in range(KEYS):
        if members(P, key) > 0:
            W[LISTED + count] = key
            count += 1
    W[ACTIVE] = count
