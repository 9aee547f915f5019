"""Tsallis-INF's own regulariser, alpha = 1/2, in leader mode: w_i = v_i^-2.

Symbols and equations are those of `bothworlds.omd.leader`, with c = 1/2 and p = 2.  Lanes that are
not in the mode are played by `bothworlds.omd.ahead`, `bothworlds.omd.half` or
`bothworlds.omd.few`; among many arms by `bothworlds.omd.many`, one by one.
"""

from typing import Any

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.vectors import advance, load, lowest_bit, splat, store, stride
from bothworlds.omd import half, recentring
from bothworlds.omd.few import LEAST
from bothworlds.omd.leader import membership
from bothworlds.omd.leader.drawing import ROUNDING
from bothworlds.omd.leader.families import (
    anchor_nothing,
    bind,
    follow_nothing,
    keep_inverse,
    note_nothing,
    note_root,
    predict_root,
    suppose_far,
)
from bothworlds.omd.leader.layout import LOSSES, PREDICTED, RATE, SEEN
from bothworlds.omd.leader.membership import ACCOUNT_EVERY, cost
from bothworlds.omd.leader.series import evaluate

RADIUS = 1 / 32
"""The remainder of the series is below 11 RADIUS^10 = 1e-14 of W."""
CUT = ROUNDING * (1.0 - RADIUS) ** 2
SAVED, SAVED_REDUCED, OTHER, REBUILD = (-0.6, 0.75), (-1.0, 0.9), (150.0, 0.1), (150.0, 1.5)
SAVED_OF_MANY, SAVED_OF_MANY_REDUCED = 200.0, 400.0
"""Savings of a round compared with the many-arms kernels, which hardly depend on K."""
PATIENCE = 256
"""Rounds for each arm after which importance weighting enters the mode: sooner, few lanes of a tile
would, and at 128 arms the remaining arms make a round slower than without the mode."""
CROWDED = 256
"""Number of arms up to which lanes wait twice as long as elsewhere before they enter, measured."""
SLIDING = 0.3
"""Mean loss below which reduced variance goes without the mode.  The leader then falls so fast,
seen from the near arms, that these outrun their limit, and as far arms fall back behind it: they
slide along the limit and change series all the time."""


@jit
def shape(B: Any) -> float:
    """Return c."""
    return 0.5


@jit
def radius(B: Any) -> float:
    """Return R."""
    return RADIUS


@jit
def cut(B: Any) -> float:
    """Return the share of an arm's room that its weight takes at most."""
    return CUT


@jit
def power(v: Any, r: Any, B: Any) -> Any:
    """Return 1 / v^2."""
    return r * r


@jit
def coefficient(n: int, B: Any) -> float:
    """Return binom(-2, n)."""
    return (1.0 - 2.0 * (n % 2)) * (n + 1)


@jit
def growth(rate_power: Any, q: Any, over_power: float) -> Any:
    """Return q^2."""
    return q * q


@jit
def start(M: Any, like: Any) -> Any:
    """Return z and Y."""
    z = load(M, PREDICTED, like)
    return z, z * z


@jit
def lifted(Y: Any, h: Any, z: Any, B: Any) -> Any:
    """Return Y, which is z^2."""
    return z * z


mode = bind(
    shape=shape, radius=radius, cut=cut, power=power, coefficient=coefficient,
    evaluate=evaluate, some_far=suppose_far, growth=growth,
    start=start, lifted=lifted, refreshed=keep_inverse,
    note=note_root, note_other=note_nothing, predict=predict_root, anchor=anchor_nothing,
    follow=follow_nothing,
    TOLERANCE=6e-14, SLOPPY=3e-4, OTHER=OTHER, REBUILD=REBUILD, CROSSING=(0.0, 0.0),
)  # fmt: skip
enter_lane, leave_lane, draw_arm, learn_loss = mode.enter, mode.leave, mode.draw, mode.learn


@jit
def rows_behind(K: int, S: Any, W: int) -> Any:
    """Return the rows of the mode, which lie behind those of the solver."""
    return advance(S, (half.ESTIMATES + K) * W)


@inlined
def draw(
    K: int, t: int, S: Any, M: Any, eta: float, over: float, near_below: Any, leads: Any, u: Any
) -> Any:
    """Find the weights and draw an arm, in the lanes in the mode.

    ``over`` is 1 / eta; ``near_below`` is None for importance weighting, else the largest L_i - x
    of a near arm.
    """
    return draw_arm(K, t, S, M, None, eta, over, 1.0, near_below, leads, u)


@inlined
def learn(K: int, M: Any, reduced: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Add to the estimate of the arm just drawn, in the lanes in the mode."""
    learn_loss(K, M, None, reduced, leads, arm, inverse_p, loss)


# --- entering and leaving ------------------------------------------------------------------------


@jit
def first_round(K: int) -> int:
    """Return the first round in which a lane may enter the mode.

    The lanes of a tile do not all enter at once, and until they have, a round costs both ways of
    playing it.  With fewer arms that takes longer to pay.  Up to `CROWDED` arms a round without the
    mode costs less than with other regularisers.
    """
    if K > CROWDED:
        return membership.FIRST
    return max(2 * membership.FIRST, 2**19 // (K * K))


@jit
def see(K: int, S: Any, M: Any, eta: float, like: Any) -> None:
    """Note z after a draw, of which the next look around makes W: now L and x belong together."""
    least = recentring.least(K, S, half.ESTIMATES, like)
    store(M, SEEN, 0.5 * eta * (least - load(S, half.ROOT, like)))


@jit
def decide(
    K: int, t: int, M: Any, eta: float, near_below: Any, saved: float, first: int, like: Any
) -> Any:
    """Return the lanes that leave the mode and those that enter it, as bits."""
    z = load(M, SEEN, like)
    best = splat(1.0, like)
    other = cost(OTHER, K)
    if near_below is None:
        return membership.decide(t, M, best, z * z, saved, other, first, None)
    barred = z != z
    if K * eta * eta > 1.0:
        barred = best == 1.0  # the leader would not be near
    if t % ACCOUNT_EVERY == 0:
        barred = barred | (load(M, LOSSES, like) < SLIDING * ACCOUNT_EVERY)
        store(M, LOSSES, splat(0.0, like))
    return membership.decide(t, M, best, z * z, saved, other, first, barred)


@jit
def look_around(K: int, t: int, S: Any, M: Any, eta: float, near_below: Any, like: Any) -> None:
    """Let lanes enter and leave the mode, in a round in which they may."""
    W = stride(like)
    first = first_round(K)
    saved = cost(SAVED_REDUCED, K)
    if near_below is None:
        # Others are played four times as often as with reduced variance.
        first = max(first, PATIENCE * K)
        saved = cost(SAVED, K)
    leaving, entering = decide(K, t, M, eta, near_below, saved, first, like)
    while leaving != 0:
        place = lowest_bit(leaving)
        z = leave(K, t, advance(S, half.ESTIMATES * W + place), W, M, place, W, near_below)
        # Each solver has rows of its own to start from; any start leads to the root.
        S[half.CENTRE * W + place] = -1.0
        for row in range(half.SUM2, half.SHARE):
            S[row * W + place] = 1.0
        S[LEAST * W + place] = z
        leaving &= leaving - 1
    while entering != 0:
        place = lowest_bit(entering)
        L = advance(S, half.ESTIMATES * W + place)
        enter(K, t, L, W, S[half.ROOT * W + place], M, place, W, eta, near_below)
        entering &= entering - 1


@jit
def enter(
    K: int, t: int, L: Any, stride: int, x: float, M: Any, place: int, W: int, eta: float,
    near_below: Any,
) -> None:  # fmt: skip
    """Start the mode in a lane, from its estimates, ``stride`` numbers apart, and the root x."""
    enter_lane(K, t, L, stride, x, 0.5 * eta, M, place, W, None, eta, near_below)


@jit
def leave(K: int, t: int, L: Any, stride: int, M: Any, place: int, W: int, near_below: Any) -> Any:
    """End the mode in a lane and write its estimates, ``stride`` numbers apart; return z."""
    unit = 0.5 * M[RATE * W + place]
    return leave_lane(K, t, L, stride, unit, M, place, W, None, near_below)
