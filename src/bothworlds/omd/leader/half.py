"""Tsallis-INF's own regulariser, alpha = 1/2, in leader mode: w_i = v_i^-2.

Symbols and equations are those of `bothworlds.omd.leader`, with c = 1/2 and p = 2.  Lanes that are
not in the mode are played by `bothworlds.omd.ahead`, `bothworlds.omd.half` or
`bothworlds.omd.few`; among many arms by `bothworlds.omd.many`, one by one.
"""

from typing import Any

from bothworlds.lanes.jit import inlined, jit, rarely
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    ZEROS,
    absolute,
    advance,
    any_lane,
    fma,
    group,
    load,
    lowest_bit,
    negate,
    splat,
    store,
    stride,
)
from bothworlds.omd import half, recentring
from bothworlds.omd.estimators import BASELINE
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
from bothworlds.omd.leader.layout import (
    BASE,
    FAR_REACH,
    FAR_SERIES,
    HIGHEST,
    LOSSES,
    LOWEST,
    ORIGIN,
    PREDICTED,
    RATE,
    REACH,
    SEEN,
    SERIES,
    SLOPE,
    brink,
    fallen,
)
from bothworlds.omd.leader.membership import ABSENT, ACCOUNT_EVERY, cost
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

MOST_AHEAD = 1 / 256
"""Largest W with which rounds are played ahead: with more, some lane soon plays another arm."""
MOST_INVERSE = 1.004
"""Bound of Y with this W."""
MOST_A, SETTLED = 2.0**-9, 7e-8
"""Largest |a| with which rounds are played ahead, and the |e| up to which one step of such a round
leaves less than the tolerance."""
DOUBT = 1e-12
"""Margin for the rounding of W."""

zeros_of_half = ZEROS[LANES // 2]


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


# --- several rounds at once ----------------------------------------------------------------------


@jit
def sure(
    K: int, t: int, end: int, M: Any, first: Any, last: Any, near_below: Any, like: Any
) -> Any:
    """Tell whether rounds t to ``end`` only see draws and losses of leaders, and for which u.

    Nothing is rebuilt and no arm crosses the brink in these rounds, and each u below the number
    returned plays the leader with any losses in [0, 1].  ``first`` and ``last`` are 1 / eta and the
    largest L_i - x of a near arm in the first and the last round.

    As L_b moves by at most B or 1 - B times Y a round and learning rates do not rise, s is at least
    ``low``.  W falls with s, so it is at most ``others``; then z is between 1 and 1 + W, and s at
    most ``high``.  With so little W, z is always found.
    """
    rate = load(M, RATE, like)
    base = load(M, BASE, like)
    moved = ((end + 1 - t) * 0.5 * MOST_INVERSE) * rate  # by losses of 1
    risen = splat(0.0, like)  # by losses of 0
    if near_below is not None:
        moved = BASELINE * moved
        risen = moved
    q = rate * last[0]
    low = rate * first[0] - base - moved
    value, slope = evaluate(M, SERIES, low)
    far = False
    far_low = low
    lowest = load(M, LOWEST, like)
    if near_below is not None:
        far = any_lane(lowest < ABSENT)
        if far:
            far_low = low + fallen(end, 0.5, rate, load(M, ORIGIN, like))
            far_value, far_slope = evaluate(M, FAR_SERIES, far_low)
            value = value + far_value
            slope = slope + far_slope
    others = q * q * value
    high = fma(q, others, q) - base + risen
    reach = load(M, REACH, like)
    calm = (others <= MOST_AHEAD) & (q * q * q * slope >= -2.0 / MOST_INVERSE**2 * MOST_A)
    calm = calm & (low >= -reach) & (high <= reach)
    if near_below is not None:
        calm = calm & (load(M, HIGHEST, like) + high <= brink(0.5, rate, first[1]))
        if far:
            reach = load(M, FAR_REACH, like)
            far_high = high + fallen(t, 0.5, rate, load(M, ORIGIN, like))
            calm = calm & (far_low >= -reach) & (far_high <= reach)
            calm = calm & (lowest + far_low > brink(0.5, rate, last[1]))
    return not any_lane(negate(calm)), 1.0 - DOUBT - others


@inlined
def half_slope(M: Any, first: int, s: Any) -> Any:
    """Return half the derivative that `series.evaluate` returns."""
    c1 = 0.5 * load(M, first + 1, s)
    c3 = 0.5 * load(M, first + 3, s)
    return fma(fma(s + s + s, c3, load(M, first + 2, s)), s, c1)


@inlined
def led(t: int, M: Any, over: float, far: Any, rate: Any, base: Any, z: Any) -> Any:
    """Return |e|, a and z after the first step of a round: those of `rounds.step`, bit for bit."""
    q = rate * over
    grown = q * q
    Y = z * z
    s = fma(z, q, -base)
    value, _ = evaluate(M, SERIES, s)
    slope = half_slope(M, SERIES, s)
    if far is not None:
        f = s + fallen(t, 0.5, rate, load(M, ORIGIN, z))
        value = value + evaluate(M, FAR_SERIES, f)[0]
        slope = slope + half_slope(M, FAR_SERIES, f)
    e = fma(-fma(-grown, value, 1.0), Y, 1.0)
    a = z * (Y * (grown * q * slope))
    h = e * (fma(0.375, e, 0.5) * fma(a, a, 1.0 + a))
    return absolute(e), a, z + z * h


@inlined
def stay(
    K: int, t: int, n: int, S: Any, M: Any, rates: Any, reduced: Any, far: Any, X: Any, like: Any
) -> None:
    """Find z and learn the leader's losses in ``n`` rounds from round t on, as the rounds would.

    ``rates`` has a number for each round: eta and, in the next rows, 1 / eta and the largest
    L_i - x of a near arm; ``X`` has a row of losses for each.  ``reduced`` is None for importance
    weighting, ``far`` None if no arm is far.  A round waits for the one before; each half of the
    lanes fills the time in which the other waits.
    """
    W = stride(like)
    baseline = 0.0 if reduced is None else BASELINE
    part = zeros_of_half()
    i = 0
    while i < n:
        # In registers, of which a call within these rounds would leave none.
        M0, S0, X0 = group(M, 0, part), group(S, 0, part), group(X, 0, part)
        M1, S1, X1 = group(M, W // 2, part), group(S, W // 2, part), group(X, W // 2, part)
        rate0, base0, z0, slope0, lost0 = state(M0, part)
        rate1, base1, z1, slope1, lost1 = state(M1, part)
        Y0, Y1 = load(S0, 0, part), load(S1, 0, part)
        while i < n:
            e0, a0, next0 = led(t + i, M0, rates[W + i], far, rate0, base0, z0)
            e1, a1, next1 = led(t + i, M1, rates[W + i], far, rate1, base1, z1)
            if any_lane((e0 > SETTLED) | (e1 > SETTLED)):
                break
            loss0, loss1 = load(X0, i, part), load(X1, i, part)
            Y0, slope0, base0, z0 = learnt(rates[i], baseline, rate0, base0, next0, a0, loss0)
            Y1, slope1, base1, z1 = learnt(rates[i], baseline, rate1, base1, next1, a1, loss1)
            lost0, lost1 = lost0 + loss0, lost1 + loss1
            i += 1
        keep_state(M0, S0, reduced, base0, z0, slope0, lost0, Y0)
        keep_state(M1, S1, reduced, base1, z1, slope1, lost1, Y1)
        if i < n:
            limit = None if reduced is None else rates[2 * W + i]
            stay_once(K, t + i, S, M, rates[i], rates[W + i], limit, load(X, i, like))
            i += 1


@inlined
def state(M: Any, like: Any) -> Any:
    """Return the rows that such rounds read: eta_0, ``base``, z, its slope, and recent losses."""
    return (
        load(M, RATE, like), load(M, BASE, like), load(M, PREDICTED, like), load(M, SLOPE, like),
        load(M, LOSSES, like),
    )  # fmt: skip


@inlined
def learnt(
    eta: float, baseline: float, rate: Any, base: Any, z: Any, a: Any, loss: Any
) -> Any:  # fmt: skip
    """Return Y, the slope of z, ``base`` and z after a loss."""
    Y = z * z
    slope = eta * fma(a, a, a)
    by = fma(0.5, loss, -0.5 * baseline) * Y
    return Y, slope, fma(rate, by, base), fma(-slope, by, z)


@inlined
def keep_state(
    M: Any, S: Any, reduced: Any, base: Any, z: Any, slope: Any, lost: Any, Y: Any
) -> None:
    """Write what such rounds change."""
    store(S, 0, Y)
    store(M, SLOPE, slope)
    store(M, PREDICTED, z)
    store(M, BASE, base)
    if reduced is not None:
        store(M, LOSSES, lost)


@jit
@rarely
def stay_once(
    K: int, t: int, S: Any, M: Any, eta: float, over: float, near_below: Any, loss: Any
) -> None:  # fmt: skip
    """Do the same in a round in which z needs more than one step."""
    arm = draw_arm(K, t, S, M, None, eta, over, 1.0, near_below, None, splat(-1.0, loss))
    if near_below is not None:
        store(M, LOSSES, load(M, LOSSES, loss) + loss)
    learn_loss(K, M, None, near_below, None, arm, load(S, 0, loss), loss)


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
