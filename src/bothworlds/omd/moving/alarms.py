"""Alarms: heaps that know which arms may have come close to the limit between near and far.

A family is named by the word that counts its arms.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.omd import half
from bothworlds.omd.moving.buckets import leave, transfer
from bothworlds.omd.moving.layout import (
    ALARM,
    BAND,
    FAR,
    HEAP,
    INNER,
    KEY,
    NEAR,
    PLACE,
    SLOTS,
    TIME,
    field,
    height,
)


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
