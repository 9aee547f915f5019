"""A round with many arms: solve, draw, learn; and the start and end of the structure.

Any change of the state sets the inverse probability of the last draw to 0: the weights of that
draw can be read only as long as it stands.
"""

import math
from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import advance, fma
from bothworlds.omd import half
from bothworlds.omd.estimators import BASELINE, baseline, correction
from bothworlds.omd.many import heaps
from bothworlds.omd.many.buckets import (
    empty,
    exponent,
    name,
    octave,
    rank_at,
    refresh,
    sum_powers,
    transfer,
)
from bothworlds.omd.many.families import (
    band,
    between,
    enter_band,
    evaluate_band,
    is_near,
    key_of,
    leave_band,
    place,
    raise_marked,
    raise_near,
)
from bothworlds.omd.many.layout import (
    BAND,
    BASE,
    CENTRE,
    COUNT,
    FAR,
    FIRST_FAR,
    KEY,
    KEYS,
    LEAST,
    LIMIT,
    LOW,
    NEAR,
    OFFSET,
    P2,
    P3,
    P4,
    P5,
    REST,
    SCALE,
    SHARED,
    START,
    T2,
    TALLY,
    arm_row,
    bucket,
    frame,
    heap,
    members,
    put,
    slot_row,
    value_row,
)

CLOSE = 1e-5  # a step this small against the least y is the last: its series is then exact
FRAME = 512.0  # how large x may be against the least y; V - x keeps all but 9 bits


# --- solving ---------------------------------------------------------------------------------


@jit
def series(
    a2: float, a3: float, a4: float, a5: float, a6: float, a7: float, a8: float, a9: float,
    a10: float, a11: float, rest: float, q: float,
) -> Any:  # fmt: skip
    """Return sum_m (m + k - 1 choose m) a_(k + m) q^m for k = 2 to 5; ``rest`` is part of a_2."""
    p2 = fma(q, 10.0 * a11, 9.0 * a10)
    p2 = fma(q, fma(q, p2, 8.0 * a9), 7.0 * a8)
    p2 = fma(q, fma(q, p2, 6.0 * a7), 5.0 * a6)
    p2 = fma(q, fma(q, p2, 4.0 * a5), 3.0 * a4)
    p2 = a2 + fma(q, fma(q, p2, 2.0 * a3), rest)
    p3 = fma(q, fma(q, 45.0 * a11, 36.0 * a10), 28.0 * a9)
    p3 = fma(q, fma(q, p3, 21.0 * a8), 15.0 * a7)
    p3 = fma(q, fma(q, fma(q, fma(q, p3, 10.0 * a6), 6.0 * a5), 3.0 * a4), a3)
    p4 = fma(q, fma(q, 56.0 * a9, 35.0 * a8), 20.0 * a7)
    p4 = fma(q, fma(q, fma(q, p4, 10.0 * a6), 4.0 * a5), a4)
    p5 = fma(q, fma(q, 70.0 * a9, 35.0 * a8), 15.0 * a7)
    p5 = fma(q, fma(q, p5, 5.0 * a6), a5)
    return p2, p3, p4, p5


@jit
def evaluate(K: int, S: Any, x: float, limit: Any) -> None:
    """Make x the centre and evaluate the sums there, bucket by bucket."""
    W = as_words(S)
    refresh(K, S, x)
    S2 = 0.0
    S3 = 0.0
    S4 = 0.0
    S5 = 0.0
    N3 = 0.0
    N4 = 0.0
    least = math.inf
    for rank in range(W[COUNT]):
        row = bucket(rank)
        key = W[row + KEY]
        if limit is not None and key == BAND:
            n3, n4 = evaluate_band(K, S, rank, x, limit)
            N3 += n3
            N4 += n4
        else:
            scale = S[row + SCALE]
            delta = frame(S, key, x) - S[row + CENTRE]
            p2, p3, p4, p5 = series(
                S[row + T2], S[row + T2 + 1], S[row + T2 + 2], S[row + T2 + 3], S[row + T2 + 4],
                S[row + T2 + 5], S[row + T2 + 6], S[row + T2 + 7], S[row + T2 + 8], S[row + T2 + 9],
                S[row + REST], delta * scale,
            )  # fmt: skip
            square = scale * scale
            S[row + P2] = square * p2
            S[row + P3] = square * scale * p3
            S[row + P4] = square * square * p4
            S[row + P5] = square * square * scale * p5
            if limit is not None and key < BAND:
                N3 += S[row + P3]
                N4 += S[row + P4]
        S2 += S[row + P2]
        S3 += S[row + P3]
        S4 += S[row + P4]
        S5 += S[row + P5]
        least = min(least, S[row + LOW] - (frame(S, key, x) - S[row + CENTRE]))
    S[half.CENTRE] = x
    S[half.SUM2] = S2
    S[half.SUM3] = S3
    S[half.SUM4] = S4
    S[half.SUM5] = S5
    S[half.SHARE] = N3 / S3
    S[half.NEAR4] = N4
    S[LEAST] = least


@jit
def next_step(S: Any, c: float) -> Any:
    """Return the step from the centre towards S_2 = c that passes no pole."""
    d = half.predict(S[half.SUM2], S[half.SUM3], S[half.SUM4], S[half.SUM5], c)
    return min(d, 0.5 * S[LEAST])


@jit
def solve(K: int, S: Any, eta: float, limit: Any) -> None:
    """Find the root from the prediction by the sums."""
    c = 0.25 * eta * eta
    x = S[half.CENTRE] + next_step(S, c)
    for _ in range(half.MAX_PASSES):
        evaluate(K, S, x, limit)
        d = next_step(S, c)
        if abs(d) <= CLOSE * S[LEAST]:
            break
        x += d
    S[half.ROOT] = S[half.CENTRE] + d


# --- drawing ---------------------------------------------------------------------------------


@jit
def draw(K: int, S: Any, G: Any, eta: float, u: float) -> Any:
    """Draw a bucket by its share, then a member by rejection; leave 1 / w of it in row 0."""
    W = as_words(S)
    x = S[half.ROOT]
    d = x - S[half.CENTRE]
    total = 0.0
    for rank in range(W[COUNT]):
        row = bucket(rank)
        # S_2 of the bucket at the root; the next term is below rounding.
        share = S[row + P2] + d * (2.0 * S[row + P3] + d * (3.0 * S[row + P4]))
        S[row + P2] = share
        total += share
    rest = u * total
    rank = 0
    while rest >= S[bucket(rank) + P2] and rank < W[COUNT] - 1:
        rest -= S[bucket(rank) + P2]
        rank += 1
    row = bucket(rank)
    X = frame(S, W[row + KEY], x)
    first = W[row + START]
    n = members(S, rank)
    low = S[row + LOW] - (X - S[row + CENTRE])
    slot = first
    y = S[value_row(K, slot)] - X
    if n > 1:
        slot = first + int(uniform(G, 0.0) * n)
        y = S[value_row(K, slot)] - X
        while uniform(G, 0.0) * y * y >= low * low:
            slot = first + int(uniform(G, 0.0) * n)
            y = S[value_row(K, slot)] - X
    S[half.INVERSE_P] = 0.25 * eta * eta * y * y
    return W[arm_row(K, slot)]


@jit
def choose(K: int, S: Any, G: Any, eta: float, limit: Any, u: float) -> Any:
    """Solve the round's OMD step and draw an arm; afterwards every arm is in its family."""
    sorted_out = as_words(S)[COUNT] > 0
    if not sorted_out:
        begin(K, S, eta)
    elif max(abs(S[half.ROOT]), abs(S[half.ROOT] - S[OFFSET])) > FRAME * S[LEAST]:
        recentre(K, S)
    solve(K, S, eta, limit)
    if limit is not None and not sorted_out:
        distribute(K, S, S[half.ROOT], limit)
        make_heaps(K, S)
        solve(K, S, eta, limit)
    arm = draw(K, S, G, eta, u)
    if limit is not None:
        S[LIMIT] = limit
        enter_band(K, S, limit)
    return arm


# --- learning --------------------------------------------------------------------------------


@jit
def see_drawn(K: int, S: Any, arm: int) -> Any:
    """Tell the predictor which arm is about to move; return its y at the root."""
    W = as_words(S)
    slot = W[slot_row(K, arm)]
    key = W[bucket(rank_at(S, slot)) + KEY]
    y = S[value_row(K, slot)] - frame(S, key, S[half.ROOT])
    S[half.DRAWN] = y + (S[half.ROOT] - S[half.CENTRE])
    return y


@jit
def learn_iw(K: int, S: Any, arm: int, by: float) -> None:
    """Raise the estimate of an arm, whether it was drawn last or earlier."""
    W = as_words(S)
    S[half.INVERSE_P] = 0.0
    if W[COUNT] == 0:
        S[SHARED + arm] += by
        return
    if by == 0.0:
        return
    y = see_drawn(K, S, arm) + by
    half.replace_drawn(S, by)
    slot = W[slot_row(K, arm)]
    transfer(K, S, slot, FIRST_FAR + octave(S, y), y, S[half.ROOT])


@jit
def predict_rise(S: Any, base: float, by: float) -> None:
    """Tell the predictor that near arms rise by B and the drawn one by ``base + by``."""
    centre = S[half.CENTRE]
    half.shift_near(S, base)
    half.replace_drawn(S, by)
    S[LEAST] = min(S[LEAST] - (S[half.CENTRE] - centre), S[half.DRAWN] + by)


@jit
def learn_rv(K: int, S: Any, arm: int, inverse_p: float, loss: float, limit: float) -> None:
    """Raise the near arms by B and the arm just drawn by (l - B_I) / w_I."""
    W = as_words(S)
    S[half.INVERSE_P] = 0.0
    y = see_drawn(K, S, arm)
    base = baseline(is_near(K, S, arm, limit), 0.0)
    by = correction(loss, base, inverse_p)
    predict_rise(S, base, by)
    if raise_near(K, S, limit):
        leave_band(K, S, limit)
    if by == 0.0:
        return
    key = W[bucket(rank_at(S, W[slot_row(K, arm)])) + KEY]
    family = NEAR if key < BAND else FAR if key > BAND else 0
    y += base + by
    place(K, S, arm, family, y, key_of(S, y, limit))


@jit
def learn_late_rv(K: int, S: Any, arm: int, inverse_p: float, loss: float, near: Any) -> None:
    """Learn from a decision of the past, whose near arms are marked in ``near``.

    The near family rises as one; arms that were not of it then, or no longer are, move by
    themselves. No y falls but that of ``arm``, so that the predictor stays below every pole.
    """
    W = as_words(S)
    S[half.INVERSE_P] = 0.0
    base = baseline(near[arm] != 0, 0.0)
    by = correction(loss, base, inverse_p)
    if W[COUNT] == 0:
        for i in range(K):
            S[SHARED + i] += baseline(near[i] != 0, 0.0)
        S[SHARED + arm] += by
        return
    y = see_drawn(K, S, arm)
    limit = S[LIMIT]
    predict_rise(S, base, by)
    S[OFFSET] += BASELINE
    leaving = raise_marked(K, S, near, limit)
    begin, end = between(S)
    for i in range(K):
        slot = W[slot_row(K, i)]
        inside = slot < begin
        if i == arm or inside == (near[i] != 0) or begin <= slot < end:
            continue
        v = S[value_row(K, slot)] - frame(S, 0 if inside else FIRST_FAR, S[half.ROOT])
        v += -BASELINE if inside else BASELINE
        place(K, S, i, NEAR if inside else FAR, v, key_of(S, v, limit))
        begin, end = between(S)
    slot = W[slot_row(K, arm)]
    family = NEAR if slot < begin else FAR if slot >= end else 0
    y += base + by
    place(K, S, arm, family, y, key_of(S, y, limit))
    if leaving and band(S) >= 0:
        leave_band(K, S, limit)


# --- beginning and end -----------------------------------------------------------------------


@jit
def begin(K: int, S: Any, eta: float) -> None:
    """Make buckets, all of them far, from the estimates by arm."""
    least = S[SHARED]
    for i in range(SHARED + 1, SHARED + K):
        least = min(least, S[i])
    x = S[half.ROOT]
    if not x < least - 2.0 / eta:
        # The root if all estimates are equal.
        x = least - 2.0 / eta * math.sqrt(K)
    as_words(S)[BASE] = min(max(exponent(2.0 / eta), -900), 900)
    distribute(K, S, x, -math.inf)
    # Sums that predict the root where the buckets are.
    S[half.CENTRE] = x
    S[LEAST] = least - x
    S[half.SUM2] = 0.25 * eta * eta
    S[half.SUM3] = 1.0
    S[half.SUM4] = 1.0
    S[half.SUM5] = 1.0


@jit
def distribute(K: int, S: Any, x: float, limit: Any) -> None:
    """Put every arm into its bucket at x and make all sums."""
    W = as_words(S)
    S[half.ROOT] = x
    S[OFFSET] = 0.0
    for key in range(KEYS):
        W[TALLY + key] = 0
    for arm in range(K):
        W[TALLY + key_of(S, S[SHARED + arm] - x, limit)] += 1
    rank = 0
    slot = 0
    for key in range(KEYS):
        n = W[TALLY + key]
        W[TALLY + key] = slot
        if n > 0:
            name(S, rank, key)
            W[bucket(rank) + START] = slot
            rank += 1
            slot += n
    W[COUNT] = rank
    W[bucket(rank) + START] = K
    for arm in range(K):
        v = S[SHARED + arm]
        key = key_of(S, v - x, limit)
        put(K, S, W[TALLY + key], arm, v)
        W[TALLY + key] += 1
    for rank in range(W[COUNT]):
        empty(S, rank, x)
        sum_powers(K, S, rank, x)


@jit
def make_heaps(K: int, S: Any) -> None:
    """Make the heaps of the families that `distribute` has just separated."""
    W = as_words(S)
    # What is left in the tally is where each bucket ends.
    near = W[TALLY + BAND - 1]
    far = W[TALLY + BAND]
    heaps.heapify(S, heap(K, NEAR), arm_row(K, 0), near)
    heaps.heapify(S, heap(K, FAR), arm_row(K, far), K - far)


@jit
def recentre(K: int, S: Any) -> None:
    """Move both frames so that x = O = 0: the weights depend on differences only."""
    W = as_words(S)
    x = S[half.ROOT]
    for rank in range(W[COUNT]):
        X = frame(S, W[bucket(rank) + KEY], x)
        for slot in range(W[bucket(rank) + START], W[bucket(rank + 1) + START]):
            v = S[value_row(K, slot)] - X
            S[value_row(K, slot)] = v
            S[SHARED + W[arm_row(K, slot)]] = v
        S[bucket(rank) + CENTRE] -= X
    S[half.CENTRE] -= x
    S[half.ROOT] = 0.0
    S[OFFSET] = 0.0


@jit
def close(K: int, S: Any) -> None:
    """Write the estimates by arm, where callers may change them, and forget the buckets."""
    W = as_words(S)
    for rank in range(W[COUNT]):
        rise = S[OFFSET] if W[bucket(rank) + KEY] < BAND else 0.0
        for slot in range(W[bucket(rank) + START], W[bucket(rank + 1) + START]):
            S[SHARED + W[arm_row(K, slot)]] = S[value_row(K, slot)] + rise
    W[COUNT] = 0
    S[half.INVERSE_P] = 0.0


@jit
def reopen(K: int, S: Any) -> Any:
    """Forget the buckets and the root; return where the estimates by arm are to be written."""
    as_words(S)[COUNT] = 0
    S[half.INVERSE_P] = 0.0
    S[half.ROOT] = 0.0
    return advance(S, SHARED)


@jit
def fill_weights(K: int, S: Any, eta: float, out: Any) -> None:
    """Write w_i = 4 / (eta y_i)^2 at the root of the round."""
    W = as_words(S)
    for rank in range(W[COUNT]):
        X = frame(S, W[bucket(rank) + KEY], S[half.ROOT])
        for slot in range(W[bucket(rank) + START], W[bucket(rank + 1) + START]):
            root = 2.0 / (eta * (S[value_row(K, slot)] - X))
            out[W[arm_row(K, slot)]] = min(root * root, 1.0)


@jit
def mark_near(K: int, S: Any, limit: float, out: Any) -> None:
    """Mark the near arms of the round."""
    W = as_words(S)
    for rank in range(W[COUNT]):
        key = W[bucket(rank) + KEY]
        for slot in range(W[bucket(rank) + START], W[bucket(rank + 1) + START]):
            y = S[value_row(K, slot)] - S[half.ROOT]
            out[W[arm_row(K, slot)]] = key < BAND or (key == BAND and y <= limit)
