"""Near, far, and the band between: which arms get the baseline of the reduced-variance estimator.

An arm is near when y <= limit = 2 / eta^2.  Near arms rise by B = 1/2 every round, far ones do
not, so while x rises by less than B and more than 0 an arm at the limit crosses it back and forth.
Arms that close are kept in the band: each of them is examined every round, as the O(K) pass
does with all.  Other arms change family only through the band, and the heaps give the round.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.vectors import advance
from bothworlds.omd import half
from bothworlds.omd.estimators import BASELINE, baseline
from bothworlds.omd.many import heaps
from bothworlds.omd.many.band import raise_band, sum_band
from bothworlds.omd.many.buckets import find, octave, transfer
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
    SCRATCH,
    SHARED,
    START,
    arm_row,
    bucket,
    frame,
    heap,
    members,
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
def evaluate_band(K: int, S: Any, rank: int, x: float, limit: float) -> Any:
    """Evaluate the band at x; return N_3 and N_4 of its near arms."""
    row = bucket(rank)
    p = advance(S, value_row(K, as_words(S)[row + START]))
    room = advance(S, SCRATCH)
    low, N3, N4, _ = sum_band(p, None, members(S, rank), x, limit, room, advance(S, row + P2))
    S[row + CENTRE] = x
    S[row + LOW] = low
    return N3, N4


@jit
def enter_band(K: int, S: Any, limit: float) -> None:
    """Move the near and far arms that came close to the limit, or crossed it, into the band."""
    W = as_words(S)
    x = S[half.ROOT]
    X = frame(S, 0, x)
    family = NEAR
    while True:
        arm = W[heaps.cell(heap(K, family), 0)]
        y = S[SHARED + arm] - (X if family == NEAR else x)
        outside = y <= limit - INNER if family == NEAR else y > limit + INNER
        if W[family] > 0 and not outside:
            heaps.drop(S, heap(K, family), arm)
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
    p = advance(S, value_row(K, as_words(S)[bucket(rank) + START]))
    return raise_band(p, None, members(S, rank), S[half.ROOT], limit, OUTER)


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
        heaps.moved(S, heap(K, family), arm)
        return
    if family != 0:
        heaps.drop(S, heap(K, family), arm)
    if to != 0:
        S[SHARED + arm] = v
        heaps.push(S, heap(K, to), arm)


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
