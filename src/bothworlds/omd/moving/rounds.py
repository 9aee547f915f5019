"""A round with many arms that move: solve, draw, learn; and where the structure begins and ends.

Any change of the state sets the inverse probability of the last draw to 0: the weights of that
draw can be read only as long as it stands.
"""

import math
from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.random import uniform
from bothworlds.omd import half
from bothworlds.omd.many.buckets import exponent, power_of_two
from bothworlds.omd.many.layout import LEAST
from bothworlds.omd.many.rounds import CLOSE, next_step, series
from bothworlds.omd.moving.alarms import drop_alarm, ring, set_alarm
from bothworlds.omd.moving.band import evaluate_band, leave_band, raise_near
from bothworlds.omd.moving.buckets import (
    collapse,
    drift,
    empty,
    leave,
    lowest,
    put,
    refresh,
    sum_members,
    transfer,
)
from bothworlds.omd.moving.layout import (
    ACTIVE,
    ARMS,
    BAND,
    BASE,
    BORN,
    BUILT,
    FAR,
    FIRST_FAR,
    KEY,
    KEYS,
    LISTED,
    MEANS,
    NEAR,
    P2,
    SCALE,
    SHARED,
    SLOTS,
    SPEED,
    START,
    TALLY,
    TIME,
    U,
    bucket,
    field,
    height,
    key_of,
    members,
    speed,
)


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
            n3, n4, q4 = evaluate_band(K, P, x, limit)
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
def solve(K: int, P: Any, M: Any, eta: float, limit: float) -> None:
    """Find the root from the prediction by the sums."""
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
    leaving = raise_near(K, P, x, limit)
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
def is_built(P: Any) -> bool:
    """Tell whether the arms are in buckets."""
    return bool(as_words(P)[BUILT] != 0)


@jit
def close(K: int, P: Any) -> None:
    """Write the estimates by arm, where callers may change them, and forget the buckets."""
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
