"""A round of leader mode: find the weights and draw an arm, learn its loss.

Symbols and equations are those of `bothworlds.omd.leader`.  The functions are templates, which
`bothworlds.omd.leader.families` binds to a family of weights.
"""

from typing import Any

from bothworlds.lanes.jit import rarely
from bothworlds.lanes.vectors import (
    absolute,
    any_lane,
    fma,
    lane,
    lane_bits,
    load,
    lowest_bit,
    negate,
    select,
    store,
    stride,
    to_index,
)
from bothworlds.omd.estimators import BASELINE, correction
from bothworlds.omd.leader.drawing import widen
from bothworlds.omd.leader.layout import (
    ARM,
    BASE,
    DRAW,
    FAR_BY,
    FAR_REACH,
    FAR_SERIES,
    HIGHEST,
    LOWEST,
    NEAR_BY,
    ORIGIN,
    RATE,
    RATE_POWER,
    REACH,
    SERIES,
    WEIGHT,
    brink,
    fallen,
    fallen_in,
    far_marks,
    others,
)
from bothworlds.omd.leader.membership import ABSENT, LEADER, SPENT, cost

MAX_STEPS = 4

TOLERANCE: float = 0.0
"""Largest relative error of Y that is left."""
SLOPPY: float = 0.0
"""Relative error of the derivative that ``evaluate`` returns."""
OTHER: Any = None
REBUILD: Any = None
CROSSING: Any = None
"""Costs of a round in which another arm is played, of a rebuild and of arms that cross the brink;
see `membership.cost`."""
shape: Any = None
radius: Any = None
power: Any = None
evaluate: Any = None
some_far: Any = None
growth: Any = None
start: Any = None
lifted: Any = None
refreshed: Any = None
note: Any = None
note_other: Any = None
predict: Any = None
replace: Any = None
follow: Any = None
find_other: Any = None
rebuild: Any = None
cross: Any = None


def step(
    M: Any, B: Any, q: Any, grown: Any, s: Any, f: Any, z: Any, Y: Any, near_below: Any
) -> Any:
    """Return h, the weight of the leader after the step, a / z, a, and the lanes to step again.

    ``grown`` is q^p.
    """
    c = shape(B)
    value, slope = evaluate(M, SERIES, s)
    if near_below is not None and some_far(M, s):
        far_value, far_slope = evaluate(M, FAR_SERIES, f)
        value = value + far_value
        slope = slope + far_slope
    o = fma(-grown, value, 1.0)
    slope = grown * q * slope  # W'(z)
    a_over_z = c * (Y * slope)
    a = z * a_over_z
    e = fma(-o, Y, 1.0)
    h = e * (fma(0.5 * c * (c + 1.0), e, c) * fma(a, a, 1.0 + a))
    size = absolute(e)
    left = size * fma(absolute(a), fma(a, a, fma(size, 4.0, SLOPPY)), e * e)
    return h, fma(-slope, z * h, o), a_over_z, a, negate(left <= TOLERANCE)


def unfinished(
    M: Any, B: Any, rate: Any, s: Any, f: Any, u: Any, weight: Any, pending: Any, near_below: Any
) -> Any:  # fmt: skip
    """Return the lanes that `finish` must look at: ``pending``, or with more to do than to step."""
    rare = pending | negate(absolute(s) <= load(M, REACH, u)) | (u >= weight)
    if near_below is not None:
        rare = rare | negate(absolute(f) <= load(M, FAR_REACH, u))
        edge = brink(shape(B), rate, near_below)
        rare = rare | (load(M, HIGHEST, s) + s > edge) | (load(M, LOWEST, s) + f <= edge)
    return rare


def draw(
    K: int, t: int, S: Any, M: Any, B: Any, eta: float, over: float, over_power: float,
    near_below: Any, leads: Any, u: Any,
) -> Any:  # fmt: skip
    """Find the weights and draw an arm, in the lanes in the mode; row 0 of the state takes 1 / w.

    These lanes are ``leads``, or None for all.  ``over`` is 1 / eta and ``over_power`` eta^-p.
    Everything rare is left to `look_closer`, so that what is common stays in registers.
    """
    rate = load(M, RATE, u)
    q = rate * over
    grown = growth(load(M, RATE_POWER, u), q, over_power)
    z, Y = start(M, u)
    s = fma(z, q, -load(M, BASE, u))
    f = s
    if near_below is not None:
        f = s + fallen(t, shape(B), rate, load(M, ORIGIN, u))
    h, weight, a_over_z, a, pending = step(M, B, q, grown, s, f, z, Y, near_below)
    d = z * h
    z = z + d
    s = fma(d, q, s)
    Y = lifted(Y, h, z, B)
    note(M, B, eta, z, Y, a_over_z, a, weight)
    store(S, 0, Y)
    if near_below is not None:
        f = fma(d, q, f)
    rare = unfinished(M, B, rate, s, f, u, weight, pending, near_below)
    if leads is not None:
        rare = rare & leads
    if any_lane(rare):
        return look_closer(
            K, t, S, M, B, eta, over, over_power, near_below, rare, u, z, Y, s, f, a_over_z, a,
            weight, pending,
        )  # fmt: skip
    return to_index(load(M, LEADER, u))


@rarely
def look_closer(
    K: int, t: int, S: Any, M: Any, B: Any, eta: float, over: float, over_power: float,
    near_below: Any, rare: Any, u: Any, z: Any, Y: Any, s: Any, f: Any, a_over_z: Any,
    a: Any, weight: Any, pending: Any,
) -> Any:  # fmt: skip
    """Finish a round in which some lane needs more than one step to find its leader playing."""
    rate = load(M, RATE, u)
    q = rate * over
    grown = growth(load(M, RATE_POWER, u), q, over_power)
    pending = pending & rare
    steps = 1
    while any_lane(pending) and steps < MAX_STEPS:
        Y = refreshed(Y, z, pending, B)
        h, again, b_over_z, b, unsure = step(M, B, q, grown, s, f, z, Y, near_below)
        h = select(pending, h, 0.0)
        d = z * h
        z = z + d
        Y = lifted(Y, h, z, B)
        s = fma(d, q, s)
        f = fma(d, q, f)
        weight = select(pending, again, weight)
        a_over_z = select(pending, b_over_z, a_over_z)
        a = select(pending, b, a)
        pending = pending & unsure
        steps += 1
    note(M, B, eta, z, Y, a_over_z, a, weight)
    store(S, 0, Y)
    store(M, NEAR_BY, select(pending, ABSENT, s))  # beyond any radius
    store(M, FAR_BY, f)
    store(M, WEIGHT, weight)
    store(M, DRAW, u)
    store(M, ARM, load(M, LEADER, u))
    # Most lanes that were pending only are done.
    bits = lane_bits(rare & unfinished(M, B, rate, s, f, u, weight, pending, near_below))
    while bits != 0:
        finish(K, t, S, M, lowest_bit(bits), stride(u), B, eta, over, over_power, near_below)
        bits &= bits - 1
    return to_index(load(M, ARM, u))


def finish(
    K: int, t: int, S: Any, M: Any, place: int, W: int, B: Any, eta: float, over: float,
    over_power: float, near_below: Any,
) -> None:  # fmt: skip
    """Rebuild a lane or let arms cross the brink, if it is time, and draw."""
    rate = M[RATE * W + place]
    s = M[NEAR_BY * W + place]
    f = M[FAR_BY * W + place]
    weight = M[WEIGHT * W + place]
    astray = not abs(s) <= M[REACH * W + place]
    if near_below is not None:
        astray = astray or not abs(f) <= M[FAR_REACH * W + place]
        edge = brink(shape(B), rate, near_below)
        beyond = M[HIGHEST * W + place] + s > edge or M[LOWEST * W + place] + f <= edge
        if beyond and not astray:
            cross(K, M, place, W, B, s, f, edge)
            M[SPENT * W + place] += cost(CROSSING, K)
    grown = growth(M[RATE_POWER * W + place], rate * over, over_power)
    if astray:
        z = rebuild(K, t, M, place, W, B, eta, near_below)
        weight = power(z, 1.0 / z, B)
        grown = 1.0
        s = z - M[BASE * W + place]
        if near_below is not None:
            f = s + fallen_in(t, shape(B), M, place, W)
        S[place] = 1.0 / weight
        M[ARM * W + place] = M[LEADER * W + place]
        M[SPENT * W + place] += cost(REBUILD, K)
    u = M[DRAW * W + place]
    if u >= weight:
        j, w = find_other(K, M, place, W, B, s, f, near_below, (u - weight) / (1.0 - weight))
        M[ARM * W + place] = j
        S[place] = 1.0 / (w * grown)
        M[SPENT * W + place] += cost(OTHER, K)
        note_other(S, M, place, W, weight)


def learn(
    K: int, M: Any, B: Any, reduced: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Add to the estimate of the arm just drawn, in the lanes in the mode.

    These lanes are ``leads``, or None for all; ``reduced`` is None for importance weighting.
    """
    other = arm != to_index(load(M, LEADER, loss))
    base = 0.0
    if reduced is not None:
        base = BASELINE
    by = select(other, 0.0, shape(B) * correction(loss, base, inverse_p))
    store(M, BASE, fma(load(M, RATE, loss), by, load(M, BASE, loss)))
    predict(M, B, by)
    if leads is not None:
        other = other & leads
    bits = lane_bits(other)
    if bits != 0:
        learn_others(K, M, B, reduced, bits, arm, inverse_p, loss)


@rarely
def learn_others(
    K: int, M: Any, B: Any, reduced: Any, bits: int, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Do the same in the lanes in which it was not the leader."""
    W = stride(loss)
    while bits != 0:
        k = lowest_bit(bits)
        learn_other(K, M, k, W, B, reduced, lane(arm, k), lane(inverse_p, k), lane(loss, k))
        bits &= bits - 1


def learn_other(
    K: int,
    M: Any,
    place: int,
    W: int,
    B: Any,
    reduced: Any,
    arm: int,
    inverse_p: float,
    loss: float,
) -> None:
    """Add to the estimate of an arm other than the leader, and let its series know."""
    V = others(K, M, place, W)
    r0 = 1.0 / V[arm]
    w0 = power(V[arm], r0, B)
    first = SERIES
    base = 0.0
    if reduced is not None:
        base = BASELINE
        if far_marks(K, M, place, W)[arm] != 0.0:
            first = FAR_SERIES
            base = 0.0
    by = shape(B) * M[RATE * W + place] * correction(loss, base, inverse_p)
    v = V[arm] + by
    r1 = 1.0 / v
    w1 = power(v, r1, B)
    V[arm] = v
    replace(M, place, W, B, first, w0, r0, w1, r1)
    follow(K, M, place, W, arm, w1, inverse_p, by)
    if reduced is not None and first == SERIES:
        # A near arm may fall, by a quarter of its v.
        widen(K, M, place, W, arm, w1)
        M[REACH * W + place] = min(M[REACH * W + place], radius(B) * v)
        M[HIGHEST * W + place] = max(M[HIGHEST * W + place], v)
