"""Alarms: when an arm may have come close to the limit between near and far."""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.omd import half
from bothworlds.omd.many import heaps
from bothworlds.omd.moving.buckets import leave, transfer
from bothworlds.omd.moving.layout import (
    ALARM,
    BAND,
    FAR,
    INNER,
    KEY,
    NEAR,
    SLOTS,
    TIME,
    field,
    heap,
    height,
)


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
        heaps.moved(P, heap(K, family), arm)
    else:
        heaps.push(P, heap(K, family), arm)


@jit
def drop_alarm(K: int, P: Any, arm: int) -> None:
    """Take an arm's alarm away."""
    family = NEAR if as_words(P)[field(K, KEY) + arm] < BAND else FAR
    heaps.drop(P, heap(K, family), arm)


@jit
def ring(K: int, P: Any, limit: float) -> None:
    """Look at the arms whose alarm rings at the root of the round; move the close into the band."""
    W = as_words(P)
    x = P[half.ROOT]
    family = NEAR
    while True:
        arm = W[heaps.cell(heap(K, family), 0)]
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
