"""Many arms that rise at speeds of their own: the OMD step at alpha = 1/2 without a look at each.

Where every near arm rises by its own baseline m_i in every round, the buckets of
`bothworlds.omd.many.buckets` need more than power sums.  Symbols, beyond those of that package:

=========== =======================================================================
``N``       rounds learned from; a near arm rises by g_i = m_i in each, others by g_i = 0
``x_b, N_b`` where x and N stood when the sums of bucket b were made, its origin
``V_i``     y_i at the origin of its bucket: y_i = V_i + g_i (N - N_b) - (x - x_b)
``v_b``     a common speed of a bucket; mu_i = g_i - v_b
``tau``     N - N_b
``T_jn``    sum over a bucket of (mu_i / s)^j (s / V_i)^n, j + 2 <= n <= 11
``q``       ((x - x_b) - v_b tau) / s
=========== =======================================================================

**Sums.**  First the members move by their speeds, then all by q:

    U_n = sum_j (n + j - 1 choose j) (-tau)^j T_jn',  n' = n + j,

are the power sums T_n of `buckets` at time N, to the same order.  A bucket is made anew when
the sum of abs(q) s and the largest abs(mu) tau exceeds 1/32 of its least V.

**Families.**  A near arm has y <= limit.  Arms within `INNER` of the limit are in the band, where
each is looked at in every round; every other arm has an alarm, in a heap of its family.  A far arm
comes near when x + limit exceeds its estimate.  A near arm approaches the limit by at most the
advance of N - x - limit, because no baseline exceeds 1; when its alarm rings the distance is looked
at again.

Slots are as in `buckets`, but every key has its bucket, empty or not, so a bucket is found by its
key.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.random import uniform
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    absolute,
    advance,
    any_lane,
    fma,
    load,
    maximum,
    minimum,
    select,
    splat,
    store,
    zeros,
)
from bothworlds.omd import half
from bothworlds.omd.many.buckets import DRIFT, exponent, power_of_two
from bothworlds.omd.many.layout import LARGEST, LARGEST_EXPONENT, LEAST, TERMS
from bothworlds.omd.many.rounds import CLOSE, next_step, series

BUILT = half.ESTIMATES
"""Word: whether the buckets are made. The row after it is `layout.LEAST`."""
TIME, BASE, NEAR, FAR, ACTIVE = (LEAST + 1 + i for i in range(5))
"""N; words: exponent of octave 0, near arms, far arms, buckets that are not empty."""
EXPONENTS = 32
BAND, FIRST_FAR, KEYS = EXPONENTS, EXPONENTS + 1, 2 * EXPONENTS + 1
TALLY = ACTIVE + 1
LISTED = TALLY + KEYS
"""Words: the keys of the buckets that are not empty."""
SCRATCH = LISTED + KEYS
"""Room for as many vectors as a bucket has sums, and two more."""
MOMENTS = TERMS * (TERMS + 1) // 2
BUCKETS = SCRATCH + (MOMENTS + 2) * LANES
"""The buckets by key, and one more that only says where the arms end."""

# A bucket: the words first slot and changes; x_b, N_b, v_b, least V, largest |mu|, 1 / s, S_2 to
# S_5 at the last evaluation, T_0n, T_1n, ... one after another, and the U_n.
START, CHANGES, CENTRE, BORN, SPEED, LOW, MU, SCALE, P2 = range(9)
T = P2 + 4
U = T + MOMENTS
WIDTH = U + TERMS
SHARED = BUCKETS + (KEYS + 1) * WIDTH
"""Rows before those of the arms."""

FIELDS = 11
LOSSES, MEANS, TOLD, VALUES, SPEEDS, ARMS, SLOTS, KEY, ALARM, HEAP, PLACE = range(FIELDS)
"""Estimate, mean and number of losses by arm; V, g and arm by slot; slot, key and alarm by arm; the
heaps of alarms, the near one from the beginning, the far one from the end backwards, and every
arm's place in its heap. Words: arms, slots, keys, heaps, places."""

BINOMIALS = np.array(
    [[math.comb(n + j - 1, j) for j in range(TERMS)] for n in range(2, 2 + TERMS)], np.float64
)
LARGEST_STEP = 2.0**40  # of one word that counts
INNER = 2.0  # an arm this close to the limit joins the band
OUTER = 8.0  # one further away leaves it; at the limit an arm moves by less than 2 a round


@jit
def bucket(key: int) -> Any:
    """Return the first row of a bucket."""
    return BUCKETS + key * WIDTH


@jit
def field(K: int, which: int) -> Any:
    """Return the first row of a field of the arms."""
    return SHARED + which * K


@jit
def members(P: Any, key: int) -> Any:
    """Return the number of arms in a bucket."""
    W = as_words(P)
    return W[bucket(key + 1) + START] - W[bucket(key) + START]


@jit
def octave(P: Any, y: float) -> Any:
    """Return the octave of y."""
    return min(max(exponent(y) - as_words(P)[BASE], 0), EXPONENTS - 1)


@jit
def key_of(P: Any, y: float, limit: float) -> Any:
    """Return the key an arm at y should have."""
    if abs(y - limit) <= INNER:
        return BAND
    return octave(P, y) + (0 if y < limit else FIRST_FAR)


@jit
def speed(K: int, P: Any, arm: int, key: int) -> Any:
    """Return g of an arm in a bucket; that of an arm of the band counts where it is near."""
    return P[field(K, MEANS) + arm] if key <= BAND else 0.0


@jit
def height(K: int, P: Any, slot: int, key: int, x: float) -> Any:
    """Return y of the arm in a slot."""
    row = bucket(key)
    g = P[field(K, SPEEDS) + slot]
    return P[field(K, VALUES) + slot] + (g * (P[TIME] - P[row + BORN]) - (x - P[row + CENTRE]))


# --- sums -------------------------------------------------------------------------------------


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


# --- slots ------------------------------------------------------------------------------------


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
    """Make a bucket anew: members to their octaves, sums from the rest."""
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
    """Make those buckets anew whose members have moved too far, or whose sums changed too often.

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


# --- solving ----------------------------------------------------------------------------------


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
def evaluate(K: int, P: Any, M: Any, x: float, limit: float) -> None:
    """Make x the centre and evaluate the sums there, bucket by bucket."""
    W = as_words(P)
    refresh(K, P, x)
    S2 = 0.0
    S3 = 0.0
    S4 = 0.0
    S5 = 0.0
    N3 = 0.0
    N4 = 0.0
    Q4 = 0.0
    least = math.inf
    for place in range(W[ACTIVE]):
        key = W[LISTED + place]
        row = bucket(key)
        if key == BAND:
            n3, n4, q4 = sum_band(K, P, x, limit)
            N3 += n3
            N4 += n4
            Q4 += q4
        else:
            collapse(P, key)
            scale = P[row + SCALE]
            at = row + U
            p2, p3, p4, p5 = series(
                P[at], P[at + 1], P[at + 2], P[at + 3], P[at + 4], P[at + 5], P[at + 6],
                P[at + 7], P[at + 8], P[at + 9], 0.0, drift(P, key, x) * scale,
            )  # fmt: skip
            square = scale * scale
            P[row + P2] = square * p2
            P[row + P2 + 1] = square * scale * p3
            P[row + P2 + 2] = square * square * p4
            P[row + P2 + 3] = square * square * scale * p5
            if key < BAND:
                # For the prediction alone: members differ little from their common speed.
                v = P[row + SPEED]
                N3 += v * P[row + P2 + 1]
                N4 += v * P[row + P2 + 2]
                Q4 += v * v * P[row + P2 + 2]
        S2 += P[row + P2]
        S3 += P[row + P2 + 1]
        S4 += P[row + P2 + 2]
        S5 += P[row + P2 + 3]
        least = min(least, lowest(P, key, x))
    P[half.CENTRE] = x
    P[half.SUM2] = S2
    P[half.SUM3] = S3
    P[half.SUM4] = S4
    P[half.SUM5] = S5
    P[half.SHARE] = N3 / S3
    P[half.NEAR4] = N4
    M[half.PULL4] = Q4
    P[LEAST] = least


@jit
def lowest(P: Any, key: int, x: float) -> Any:
    """Return a lower bound of y in a bucket."""
    if key == BAND:
        return P[bucket(key) + LOW] - (x - P[bucket(key) + CENTRE])
    return P[bucket(key) + LOW] - drift(P, key, x) - reach(P, key)


@jit
def solve(K: int, P: Any, M: Any, eta: float, limit: float) -> None:
    """Find the root from the prediction made of the sums."""
    c = 0.25 * eta * eta
    x = P[half.CENTRE] + next_step(P, c)
    d = 0.0
    for _ in range(half.MAX_PASSES):
        evaluate(K, P, M, x, limit)
        d = next_step(P, c)
        if abs(d) <= CLOSE * P[LEAST]:
            break
        x += d
    P[half.ROOT] = P[half.CENTRE] + d


@jit
def draw(K: int, P: Any, G: Any, eta: float, u: float) -> Any:
    """Draw a bucket by its share, then a member by rejection; leave 1 / w of it in row 0."""
    W = as_words(P)
    x = P[half.ROOT]
    d = x - P[half.CENTRE]
    total = 0.0
    for place in range(W[ACTIVE]):
        row = bucket(W[LISTED + place]) + P2
        P[row] += d * (2.0 * P[row + 1] + d * (3.0 * P[row + 2]))
        total += P[row]
    rest = u * total
    place = 0
    key = W[LISTED]
    while rest >= P[bucket(key) + P2] and place < W[ACTIVE] - 1:
        rest -= P[bucket(key) + P2]
        place += 1
        key = W[LISTED + place]
    n = members(P, key)
    first = W[bucket(key) + START]
    low = lowest(P, key, x)
    slot = first
    y = height(K, P, slot, key, x)
    if n > 1:
        slot = first + int(uniform(G, 0.0) * n)
        y = height(K, P, slot, key, x)
        while uniform(G, 0.0) * y * y >= low * low:
            slot = first + int(uniform(G, 0.0) * n)
            y = height(K, P, slot, key, x)
    P[half.INVERSE_P] = 0.25 * eta * eta * y * y
    return W[field(K, ARMS) + slot]


# --- alarms -----------------------------------------------------------------------------------
# A family is named by the word that counts its arms.


@jit
def cell(K: int, family: int, i: int) -> Any:
    """Return the row of place i in the heap of a family."""
    return field(K, HEAP) + (i if family == NEAR else K - 1 - i)


@jit
def settle(K: int, P: Any, family: int, arm: int, i: int) -> None:
    """Put ``arm``, for which place i is free, where its alarm belongs: the earliest on top."""
    W = as_words(P)
    place, alarm = field(K, PLACE), field(K, ALARM)
    own = P[alarm + arm]
    while i > 0:
        other = W[cell(K, family, (i - 1) // 2)]
        if P[alarm + other] <= own:
            break
        W[cell(K, family, i)] = other
        W[place + other] = i
        i = (i - 1) // 2
    while 2 * i + 1 < W[family]:
        child = 2 * i + 1
        other = W[cell(K, family, child)]
        if child + 1 < W[family]:
            right = W[cell(K, family, child + 1)]
            if P[alarm + right] < P[alarm + other]:
                child += 1
                other = right
        if P[alarm + other] >= own:
            break
        W[cell(K, family, i)] = other
        W[place + other] = i
        i = child
    W[cell(K, family, i)] = arm
    W[place + arm] = i


@jit
def set_alarm(K: int, P: Any, arm: int, y: float, limit: float, known: bool) -> None:
    """Let an alarm ring before the arm comes within `INNER` of the limit."""
    W = as_words(P)
    x = P[half.ROOT]
    if W[field(K, KEY) + arm] < BAND:
        family = NEAR
        P[field(K, ALARM) + arm] = (P[TIME] - x - limit) + (limit - y) - INNER
    else:
        family = FAR
        P[field(K, ALARM) + arm] = (y + x) - INNER
    if known:
        settle(K, P, family, arm, W[field(K, PLACE) + arm])
    else:
        W[family] += 1
        settle(K, P, family, arm, W[family] - 1)


@jit
def drop_alarm(K: int, P: Any, arm: int) -> None:
    """Take an arm's alarm away."""
    W = as_words(P)
    family = NEAR if W[field(K, KEY) + arm] < BAND else FAR
    i = W[field(K, PLACE) + arm]
    W[family] -= 1
    last = W[cell(K, family, W[family])]
    if last != arm:
        settle(K, P, family, last, i)


@jit
def ring(K: int, P: Any, limit: float) -> None:
    """Look at the arms whose alarm rings at the root of the round; move the close into the band."""
    W = as_words(P)
    x = P[half.ROOT]
    family = NEAR
    while True:
        arm = W[cell(K, family, 0)]
        now = P[TIME] - x - limit if family == NEAR else x + limit
        if W[family] > 0 and P[field(K, ALARM) + arm] <= now:
            y = height(K, P, W[field(K, SLOTS) + arm], W[field(K, KEY) + arm], x)
            if abs(y - limit) <= INNER:
                drop_alarm(K, P, arm)
                leave(K, P, arm)
                transfer(K, P, arm, BAND, y, x)
            else:
                set_alarm(K, P, arm, y, limit, True)
        elif family == NEAR:
            family = FAR
        else:
            break


# --- a round ----------------------------------------------------------------------------------


@jit
def choose(K: int, P: Any, M: Any, G: Any, eta: float, limit: float, u: float) -> Any:
    """Solve the round's OMD step and draw an arm; afterwards every arm is in its family."""
    W = as_words(P)
    if W[BUILT] == 0:
        begin(K, P, eta)
        solve(K, P, M, eta, limit)
        distribute(K, P, P[half.ROOT], limit)
    solve(K, P, M, eta, limit)
    arm = draw(K, P, G, eta, u)
    ring(K, P, limit)
    return arm


@jit
def is_near(K: int, P: Any, arm: int, limit: float) -> Any:
    """Tell whether an arm gets its baseline."""
    W = as_words(P)
    key = W[field(K, KEY) + arm]
    if key != BAND:
        return key < BAND
    return height(K, P, W[field(K, SLOTS) + arm], key, P[half.ROOT]) <= limit


@jit
def learn(K: int, P: Any, M: Any, arm: int, by: float, mean: float, limit: float) -> None:
    """Raise the near arms by their baselines and one arm by ``by`` beyond; give it a new mean."""
    W = as_words(P)
    x = P[half.ROOT]
    key = W[field(K, KEY) + arm]
    base = P[field(K, MEANS) + arm] if is_near(K, P, arm, limit) else 0.0
    y = height(K, P, W[field(K, SLOTS) + arm], key, x)
    P[half.INVERSE_P] = 0.0
    P[half.DRAWN] = y + (x - P[half.CENTRE])
    centre = P[half.CENTRE]
    half.shift_near_by_means(P, M, base)
    half.replace_drawn(P, by)
    P[LEAST] = min(P[LEAST] - (P[half.CENTRE] - centre), P[half.DRAWN] + by)
    if key != BAND:
        drop_alarm(K, P, arm)
    leave(K, P, arm)
    leaving = raise_band(K, P, x, limit)
    P[TIME] += 1.0
    P[bucket(BAND) + BORN] = P[TIME]  # its arms have moved
    P[field(K, MEANS) + arm] = mean
    y += base + by
    to = key_of(P, y, limit)
    transfer(K, P, arm, to, y, x)
    if to != BAND:
        set_alarm(K, P, arm, y, limit, False)
    if leaving:
        leave_band(K, P, x, limit)


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


# --- beginning and end ------------------------------------------------------------------------


@jit
def begin(K: int, P: Any, eta: float) -> None:
    """Make buckets, all of them far, from the estimates by arm."""
    least = P[SHARED]
    for i in range(SHARED + 1, SHARED + K):
        least = min(least, P[i])
    # The root if all estimates are equal.
    x = least - 2.0 / eta * math.sqrt(K)
    as_words(P)[BASE] = min(max(exponent(2.0 / eta), -900), 900)
    P[TIME] = 0.0
    distribute(K, P, x, -math.inf)
    # Sums that predict the root where the buckets are.
    P[half.CENTRE] = x
    P[LEAST] = least - x
    P[half.SUM2] = 0.25 * eta * eta
    P[half.SUM3] = 1.0
    P[half.SUM4] = 1.0
    P[half.SUM5] = 1.0


@jit
def distribute(K: int, P: Any, x: float, limit: float) -> None:
    """Put every arm into its bucket at x, make all sums, and set all alarms."""
    W = as_words(P)
    W[BUILT] = 1
    W[NEAR] = 0
    W[FAR] = 0
    P[half.ROOT] = x
    for key in range(KEYS):
        W[TALLY + key] = 0
    for arm in range(K):
        key = key_of(P, P[SHARED + arm] - x, limit)
        W[field(K, KEY) + arm] = key
        W[TALLY + key] += 1
    slot = 0
    for key in range(KEYS):
        row = bucket(key)
        at = key if key < BAND else key - FIRST_FAR
        P[row + SCALE] = power_of_two(-(at + W[BASE])) if key != BAND else 1.0
        W[row + START] = slot
        n = W[TALLY + key]
        W[TALLY + key] = slot
        slot += n
        empty(P, key, x, 0.5 if key < BAND else 0.0)
    W[bucket(KEYS) + START] = K
    for arm in range(K):
        key = W[field(K, KEY) + arm]
        y = P[SHARED + arm] - x
        put(K, P, W[TALLY + key], arm, y, speed(K, P, arm, key))
        W[TALLY + key] += 1
        if key != BAND:
            set_alarm(K, P, arm, y, limit, False)
    for key in range(KEYS):
        if key != BAND and members(P, key) > 0:
            sum_members(K, P, key)


@jit
def close(K: int, P: Any) -> None:
    """Write the estimates by arm, where anybody may change them, and forget the buckets."""
    W = as_words(P)
    if W[BUILT] == 0:
        return
    x = P[half.ROOT]
    for key in range(KEYS):
        for slot in range(W[bucket(key) + START], W[bucket(key + 1) + START]):
            P[SHARED + W[field(K, ARMS) + slot]] = height(K, P, slot, key, x)
    W[BUILT] = 0
    P[half.INVERSE_P] = 0.0


@jit
def fill_weights(K: int, P: Any, eta: float, out: Any) -> None:
    """Write w_i = 4 / (eta y_i)^2 at the root of the round."""
    W = as_words(P)
    for key in range(KEYS):
        for slot in range(W[bucket(key) + START], W[bucket(key + 1) + START]):
            root = 2.0 / (eta * height(K, P, slot, key, P[half.ROOT]))
            out[W[field(K, ARMS) + slot]] = min(root * root, 1.0)


# --- states that come from a file -------------------------------------------------------------


def sound(K: int, P: NDArray[np.float64]) -> bool:
    """Tell whether the kernels can go on from a state: every index in range, every arm once.

    Examples
    --------
    >>> P = np.zeros(SHARED + FIELDS * 600)
    >>> sound(600, P)
    True
    >>> P.view(np.int64)[BUILT] = 2
    >>> sound(600, P)
    False
    """
    W = P.view(np.int64)
    rows = P[SHARED:].reshape(FIELDS, K)
    words = W[SHARED:].reshape(FIELDS, K)
    if not bool((np.abs(rows[:VALUES]) <= LARGEST).all()) or W[BUILT] not in (0, 1):
        return False
    if W[BUILT] == 0:
        return True  # the first `choose` makes everything of the estimates
    table = P[BUCKETS:SHARED].reshape(KEYS + 1, WIDTH)
    starts = W[BUCKETS:SHARED].reshape(KEYS + 1, WIDTH)[:, START]
    changes = W[BUCKETS:SHARED].reshape(KEYS + 1, WIDTH)[:KEYS, CHANGES]
    sizes = np.diff(starts)
    fits = (
        abs(int(W[BASE])) <= LARGEST_EXPONENT
        and starts[0] == 0 and starts[-1] == K and bool((sizes >= 0).all())
        and bool((changes >= 0).all() and (changes < LARGEST_STEP).all())
        and _inverse(words[ARMS], words[SLOTS])
    )  # fmt: skip
    if not fits:
        return False
    keys = np.repeat(np.arange(KEYS), sizes)
    near, far = int(starts[BAND]), int(K - starts[FIRST_FAR])
    held = np.concatenate([words[HEAP][:near], words[HEAP][::-1][:far]])
    places = np.concatenate([np.arange(near), np.arange(far)])
    sides = np.concatenate([words[ARMS][:near], words[ARMS][K - far :]])
    octaves = np.arange(KEYS) % FIRST_FAR
    scales = np.ldexp(1.0, -(octaves + int(W[BASE])))
    used = np.flatnonzero(sizes > 0)
    sums = table[used]
    own = used != BAND
    lows = sums[:, LOW]
    drifts = np.abs(P[half.ROOT] - sums[:, CENTRE]) + np.abs(P[TIME] - sums[:, BORN])
    return (
        np.array_equal(words[KEY][words[ARMS]], keys)
        and (int(W[NEAR]), int(W[FAR])) == (near, far)
        and np.array_equal(np.sort(held[:near]), np.sort(sides[:near]))
        and np.array_equal(np.sort(held[near:]), np.sort(sides[near:]))
        and np.array_equal(words[PLACE][held], places)
        and np.array_equal(sums[own][:, SCALE], scales[used[own]])
        and bool((np.abs(sums[:, CENTRE:]) <= LARGEST).all())
        and bool((lows > 0.0).all())
        and bool((drifts <= LARGEST).all())
        and bool((np.abs(rows[VALUES]) <= LARGEST).all())
        and bool((np.abs(rows[SPEEDS]) <= 1.0).all())
        and not bool(np.isnan(rows[ALARM][held]).any())
        and bool((np.abs(P[[*range(half.ESTIMATES), LEAST, TIME]]) <= LARGEST).all())
    )


def _inverse(arms: NDArray[np.int64], slots: NDArray[np.int64]) -> bool:
    """Tell whether two lists of indices are permutations of each other's."""
    inside = bool(((arms >= 0) & (arms < arms.size)).all())
    return inside and np.array_equal(slots[arms], np.arange(arms.size))
