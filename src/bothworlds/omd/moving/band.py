"""The band of arms that move; see `bothworlds.omd.many.band`."""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.vectors import advance
from bothworlds.omd.many.band import raise_band, sum_band
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
def evaluate_band(K: int, P: Any, x: float, limit: float) -> Any:
    """Evaluate the band at x; return sum m r^3, sum m r^4 and sum m^2 r^4 of its near arms."""
    row = bucket(BAND)
    shift = x - P[row + CENTRE]
    p, means, n = members_of_band(K, P)
    room, out = advance(P, SCRATCH), advance(P, row + P2)
    low, N3, N4, Q4 = sum_band(p, means, n, shift, limit, room, out)
    P[row + LOW] = low + shift
    return N3, N4, Q4


@jit
def members_of_band(K: int, P: Any) -> Any:
    """Return V and the baselines of the arms of the band, and their number."""
    first = as_words(P)[bucket(BAND) + START]
    values, means = advance(P, field(K, VALUES) + first), advance(P, field(K, SPEEDS) + first)
    return values, means, members(P, BAND)


@jit
def raise_near(K: int, P: Any, x: float, limit: float) -> Any:
    """Add their baselines to the near arms of the band; return whether one is to leave it."""
    p, means, n = members_of_band(K, P)
    return raise_band(p, means, n, x - P[bucket(BAND) + CENTRE], limit, OUTER)


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
