"""The log-barrier, alpha = 0, in leader mode: w_i = v_i^-1.

Symbols and equations are those of `bothworlds.omd.leader`, with c = p = 1.  The learning rate of a
lane stays as it is while the lane is in the mode, and v_i = eta (L_i - x) takes it in: eta_0 is 1,
and losses are multiplied by eta.  The sum of the squares of the weights, which a policy may need,
is 1 / z^2 - W'(z).
"""

from typing import Any

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, fma, load, lowest_bit, select, store
from bothworlds.omd.leader import membership
from bothworlds.omd.leader.drawing import ROUNDING, narrow
from bothworlds.omd.leader.families import (
    bind,
    keep_inverse,
    note_root,
    predict_root,
    suppose_far,
)
from bothworlds.omd.leader.layout import BASE, ORDER, PREDICTED, RATE, SERIES, SLOPE, SPREAD
from bothworlds.omd.leader.membership import LEADER, LEADS, RESTLESS, cost
from bothworlds.omd.leader.series import evaluate_whole

RADIUS = 1 / 25
"""The remainder of the series is RADIUS^10 = 1e-14 of W."""
CUT = ROUNDING * (1.0 - RADIUS)
SPARE = 1.25
"""Room, as a multiple of what an arm needs, from which it is taken: while the leader has no losses
lanes are not rebuilt for a long time, and more and more points would miss."""
SAVED, OTHER, REBUILD = (4.0, 1.5), (140.0, 0.2), (120.0, 2.5)


@jit
def shape(B: Any) -> float:
    """Return c."""
    return 1.0


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
    """Return 1 / v."""
    return r


@jit
def coefficient(n: int, B: Any) -> float:
    """Return binom(-1, n)."""
    return 1.0 - 2.0 * (n % 2)


@jit
def growth(rate_power: Any, q: Any, over_power: float) -> Any:
    """Return q."""
    return q


@jit
def start(M: Any, like: Any) -> Any:
    """Return z and Y."""
    z = load(M, PREDICTED, like)
    return z, z


@jit
def lifted(Y: Any, h: Any, z: Any, B: Any) -> Any:
    """Return Y, which is z."""
    return z


@inlined
def note(M: Any, B: Any, eta: Any, z: Any, Y: Any, a_over_z: Any, a: Any, weight: Any) -> None:
    """Write the starting point of the next round, and the spread if the leader is played."""
    note_root(M, B, eta, z, Y, a_over_z, a, weight)
    W = 1.0 - weight
    store(M, SPREAD, fma(W, W, -weight * a_over_z))  # a / z = W'(z) / w_b


@jit
def note_other(S: Any, M: Any, place: int, W: int, weight: float) -> None:
    """Correct the spread of a lane: another arm is played."""
    M[SPREAD * W + place] += 2.0 * (weight - 1.0 / S[place])


@jit
def follow(
    K: int, M: Any, place: int, W: int, arm: int, w: float, inverse_p: float, by: float
) -> None:
    """Move z as an arm's v rises by ``by``, from ``inverse_p``, and fit the arm's room."""
    z = M[PREDICTED * W + place]
    change = 1.0 / (inverse_p + by) - 1.0 / inverse_p
    M[PREDICTED * W + place] = fma(change * z, fma(M[SLOPE * W + place], z, z), z)
    narrow(K, M, place, W, arm, w, SPARE)


@jit
def anchor(M: Any, place: int, W: int, z: float, eta: float, B: Any) -> None:
    """Write the spread of a lane that was rebuilt, if the leader is played."""
    s = z - M[BASE * W + place]
    slope = 0.0
    value = M[(SERIES + ORDER) * W + place]
    for n in range(ORDER - 1, -1, -1):
        slope = fma(slope, s, value)
        value = fma(value, s, M[(SERIES + n) * W + place])
    M[SPREAD * W + place] = fma(value, value, -slope)


mode = bind(
    shape=shape, radius=radius, cut=cut, power=power, coefficient=coefficient,
    evaluate=evaluate_whole, some_far=suppose_far, growth=growth,
    start=start, lifted=lifted, refreshed=keep_inverse,
    note=note, note_other=note_other, predict=predict_root, anchor=anchor,
    follow=follow,
    TOLERANCE=6e-14, SLOPPY=0.0, OTHER=OTHER, REBUILD=REBUILD, CROSSING=(0.0, 0.0),
)  # fmt: skip
enter, leave, draw_arm, learn_loss = mode.enter, mode.leave, mode.draw, mode.learn


@inlined
def draw(K: int, t: int, S: Any, M: Any, leads: Any, u: Any) -> Any:
    """Find the weights and draw an arm, in the lanes in the mode."""
    return draw_arm(K, t, S, M, None, 1.0, 1.0, 1.0, None, leads, u)


@inlined
def learn(K: int, M: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Add ``loss``, eta l, over w to eta times the estimate of the arm just drawn."""
    learn_loss(K, M, None, None, leads, arm, inverse_p, loss)


@jit
def forget(t: int, M: Any, over: Any, like: Any) -> None:
    """End the mode in some lanes without writing estimates."""
    store(M, LEADS, select(over, 0.0, load(M, LEADS, like)))
    store(M, RESTLESS, select(over, float(t), load(M, RESTLESS, like)))
    # The round continues in these lanes, unread; so they stay where they are.
    store(M, PREDICTED, select(over, 1.0, load(M, PREDICTED, like)))
    store(M, BASE, select(over, 0.0, load(M, BASE, like)))
    store(M, RATE, select(over, 0.0, load(M, RATE, like)))


@jit
def look_around(
    K: int, t: int, S: Any, first: int, drawn: int, M: Any, root: int, rate: int, like: Any
) -> None:
    """Let lanes enter and leave the mode, in a round in which they may.

    Estimates begin at row ``first`` of the state, the weights of the last round at row ``drawn``;
    rows ``root`` and ``rate`` have x and eta.
    """
    best, total = membership.heaviest(K, S, drawn, like)
    leaving, entering = membership.decide(
        t, M, best, total, cost(SAVED, K), cost(OTHER, K), membership.FIRST, None
    )
    while leaving != 0:
        place = lowest_bit(leaving)
        L = advance(S, first * LANES + place)
        eta = S[rate * LANES + place]
        z = leave(K, t, L, LANES, eta, M, place, LANES, None, None)
        b = int(M[LEADER * LANES + place])
        S[root * LANES + place] = L[b * LANES] - z / eta
        leaving &= leaving - 1
    while entering != 0:
        place = lowest_bit(entering)
        L = advance(S, first * LANES + place)
        x = S[root * LANES + place]
        eta = S[rate * LANES + place]
        enter(K, t, L, LANES, x, eta, M, place, LANES, None, 1.0, None)
        entering &= entering - 1
