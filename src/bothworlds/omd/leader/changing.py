"""Entering and leaving leader mode, every lane by its own numbers and the round alone."""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    advance,
    lane_bits,
    load,
    lowest_bit,
    negate,
    select,
    splat,
    store,
    width,
)
from bothworlds.omd import half, recentring
from bothworlds.omd.few import LEAST, fits
from bothworlds.omd.leader import costs, rebuilding
from bothworlds.omd.leader.layout import (
    BASE,
    LOSSES,
    ORIGIN,
    PREDICTED,
    RATE,
    RESTLESS,
    SEEN,
    SPENT,
    fallen_in,
    far_marks,
    others,
)
from bothworlds.omd.leader.membership import LEADER, LEADS, LOOK_EVERY, distances, vectors

PATIENCE = 256
"""Rounds for each arm after which importance weighting enters the mode: sooner, few lanes of a tile
would, and at 128 arms the others make a round dearer than without the mode."""
ACCOUNT_EVERY = 1024
"""Rounds over which a lane compares what rare work has cost with what the others saved."""
EAGER = 1.0
"""Share of what the rounds save that plays of other arms may cost when a lane enters."""
MOST = 0.6
"""Largest W with which a lane enters the mode, however much a round saves."""
CALM = 1 / 8
"""Share of its rounds for which a lane must have had no more than twice the W to enter."""
WORTH = 1.5
"""How many times what the rounds save rare work may cost before a lane leaves."""
SLIDING = 0.3
"""Mean loss below which reduced variance goes without the mode.  The leader then falls so fast,
seen from the near arms, that these outrun their limit, and as far arms fall back behind it: they
slide along the limit and change series all the time."""


@jit
def first_round(K: int) -> int:
    """Return the first round in which a lane may enter the mode.

    The lanes of a tile do not all enter at once, and until they have, a round costs both ways of
    playing it.  With fewer arms that takes longer to pay.
    """
    return max(2**14, 2**19 // (K * K))


@jit
def is_due(t: int) -> bool:
    """Tell whether lanes may enter the mode in this round, or leave it."""
    return t % LOOK_EVERY == 0


@jit
def see(K: int, S: Any, M: Any, eta: float, like: Any) -> None:
    """Note z after a draw, of which the next look around makes W: now L and x belong together."""
    least = recentring.least(K, S, half.ESTIMATES, like)
    store(M, SEEN, 0.5 * eta * (least - load(S, half.ROOT, like)))


@jit
def decide(
    K: int, t: int, M: Any, eta: float, near_below: Any, saved: float, first: int, like: Any
) -> tuple[int, int]:
    """Return the lanes that leave the mode and those that enter it, as bits.

    ``saved`` is what a round saves in the mode, ``first`` the first round in which lanes may enter.
    """
    leads = load(M, LEADS, like) != 0.0
    tired = load(M, SPENT, like) > WORTH * ACCOUNT_EVERY * saved
    z = load(M, SEEN, like)
    most = min(EAGER * saved / costs.other(K), MOST)
    calm = leads | (z * z * (1.0 - 2.0 * most) < 1.0)
    if near_below is not None and K * eta * eta > 1.0:
        calm = calm & negate(calm)  # the leader would not be near
    if t % ACCOUNT_EVERY == 0:
        store(M, SPENT, splat(0.0, like))
        if near_below is not None:
            sliding = load(M, LOSSES, like) < SLIDING * ACCOUNT_EVERY
            store(M, LOSSES, splat(0.0, like))
            tired = tired | sliding
            calm = calm & negate(sliding)
    restless = select(calm, load(M, RESTLESS, like), float(t))
    store(M, RESTLESS, restless)
    entering = 0
    if t >= first:
        ready = (z * z * (1.0 - most) < 1.0) & (restless <= (1.0 - CALM) * t)
        entering = lane_bits(ready & negate(leads))
    return lane_bits(leads & tired), entering


@jit
def look_around(K: int, t: int, S: Any, M: Any, eta: float, near_below: Any, like: Any) -> None:
    """Let lanes enter and leave the mode, in a round in which they may."""
    W = width(like)
    first = first_round(K)
    if near_below is None:
        # Others are played four times as often as with reduced variance.
        first = max(first, PATIENCE * K)
    saved = costs.saved(K, near_below)
    bits, entering = decide(K, t, M, eta, near_below, saved, first, like)
    while bits != 0:
        leave(K, t, S, M, lowest_bit(bits), W, near_below)
        bits &= bits - 1
    while entering != 0:
        place = lowest_bit(entering)
        L = advance(S, half.ESTIMATES * W + place)
        enter(K, t, L, W, S[half.ROOT * W + place], M, place, W, eta, near_below)
        entering &= entering - 1


@jit
def enter(
    K: int,
    t: int,
    L: Any,
    stride: int,
    x: float,
    M: Any,
    place: int,
    W: int,
    eta: float,
    near_below: Any,
) -> None:
    """Begin the mode in a lane, from its estimates, ``stride`` numbers apart, and the root x."""
    b = distances(K, L, stride, others(K, M, place, W), 0.5 * eta)
    if near_below is not None:
        for i in range(vectors(K) * LANES):
            far_marks(K, M, place, W)[i] = 0.0
    M[LEADS * W + place] = 1.0
    M[LEADER * W + place] = b
    M[PREDICTED * W + place] = 0.5 * eta * (L[b * stride] - x)
    M[BASE * W + place] = 0.0
    M[RATE * W + place] = eta
    M[SPENT * W + place] = 0.0
    rebuilding.rebuild(K, t, M, place, W, eta, near_below)


@jit
def leave(K: int, t: int, S: Any, M: Any, place: int, W: int, near_below: Any) -> None:
    """End the mode in a lane: write its estimates, and prepare the solver."""
    z = M[PREDICTED * W + place]
    write_back(K, t, M, place, W, near_below, advance(S, half.ESTIMATES * W + place), W)
    if fits(K):
        S[LEAST * W + place] = z
    else:
        S[half.CENTRE * W + place] = -1.0
        for row in range(half.SUM2, half.SHARE):
            S[row * W + place] = 1.0


@jit
def write_back(
    K: int, t: int, M: Any, place: int, W: int, near_below: Any, L: Any, stride: int
) -> None:
    """Write the estimates of a lane, ``stride`` numbers apart, and let it rest."""
    V = others(K, M, place, W)
    base = M[BASE * W + place]
    scale = 2.0 / M[RATE * W + place]
    low = 0.0
    for i in range(K):
        by = 0.0
        if i != int(M[LEADER * W + place]):
            by = V[i] - base
            if near_below is not None:
                by += far_marks(K, M, place, W)[i] * fallen_in(t, M, place, W)
            by *= scale
        L[i * stride] = by
        low = min(low, by)
    for i in range(K):
        L[i * stride] -= low
    M[RESTLESS * W + place] = t
    M[LEADS * W + place] = 0.0
    # The round goes on in this lane, unread; so it stays where it is.
    M[PREDICTED * W + place] = 1.0
    M[BASE * W + place] = 0.0
    M[RATE * W + place] = 0.0
    M[ORIGIN * W + place] = 0.0
