"""A round of leader mode: find the weights and draw an arm, learn its loss.

Symbols and equations are those of `bothworlds.omd.leader`.
"""

from typing import Any

from bothworlds.lanes.jit import jit
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
    to_float,
    to_int,
    width,
)
from bothworlds.omd import half
from bothworlds.omd.estimators import BASELINE, correction
from bothworlds.omd.leader import costs, drawing, rebuilding, series
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
    PREDICTED,
    RATE,
    REACH,
    SERIES,
    SLOPE,
    SPENT,
    WEIGHT,
    brink,
    fallen,
    fallen_in,
    far_marks,
    others,
)
from bothworlds.omd.leader.membership import LEADER, NOBODY

MAX_STEPS = 4
TOLERANCE = 3e-14  # of z


@jit
def step(M: Any, q: Any, s: Any, f: Any, z: Any, near_below: Any) -> Any:
    """Return the step in z, the weight of the leader after it, a, and the lanes to step again."""
    value, slope = series.evaluate(M, SERIES, s)
    if near_below is not None:
        far_value, far_slope = series.evaluate(M, FAR_SERIES, f)
        value = value + far_value
        slope = slope + far_slope
    q2 = q * q
    z2 = z * z
    o = fma(-q2, value, 1.0)
    slope = q2 * q * slope  # W'(z)
    a = 0.5 * (z2 * z) * slope
    e = fma(-o, z2, 1.0)
    d = (e * fma(0.375, e, 0.5)) * (z * fma(a, a, 1.0 + a))
    left = absolute(d) * fma(absolute(a), fma(a, a, 3e-4), 1e-7)
    return d, fma(-slope, d, o), a, negate(left <= TOLERANCE)


@jit
def draw(
    K: int, t: int, S: Any, M: Any, eta: float, over: float, near_below: Any, leads: Any, u: Any
) -> Any:
    """Find the weights and draw an arm, in the lanes in the mode; ``over`` is 1 / eta.

    Everything rare is left to `look_closer`, so that what is common stays in registers.
    """
    rate = load(M, RATE, u)
    q = rate * over
    z = load(M, PREDICTED, u)
    s = fma(z, q, -load(M, BASE, u))
    f = s
    if near_below is not None:
        f = s + fallen(t, rate, load(M, ORIGIN, u))
    d, weight, a, pending = step(M, q, s, f, z, near_below)
    z = z + d
    s = fma(d, q, s)
    # What the root moves by, to first order, for half of what the leader's estimate moves by.
    store(M, SLOPE, eta * fma(a, a, a))
    store(M, PREDICTED, z)
    store(S, half.INVERSE_P, z * z)
    rare = pending | negate(absolute(s) <= load(M, REACH, u)) | (u >= weight)
    if near_below is not None:
        f = fma(d, q, f)
        rare = rare | negate(absolute(f) <= load(M, FAR_REACH, u))
        rare = rare | crossing(M, rate, s, f, near_below)
    rare = rare & leads
    if any_lane(rare):
        return look_closer(K, t, S, M, eta, near_below, rare, u, z, s, f, weight, pending)
    return to_int(load(M, LEADER, u))


@jit
def crossing(M: Any, rate: Any, s: Any, f: Any, near_below: float) -> Any:
    """Tell in which lanes an arm may have become near, or have ceased to be."""
    edge = brink(rate, near_below)
    return (load(M, HIGHEST, s) + s > edge) | (load(M, LOWEST, s) + f <= edge)


@jit
def look_closer(
    K: int, t: int, S: Any, M: Any, eta: float, near_below: Any, rare: Any, u: Any, z: Any, s: Any,
    f: Any, weight: Any, pending: Any,
) -> Any:  # fmt: skip
    """Finish a round in which some lane needs more than one step to find its leader playing."""
    q = load(M, RATE, u) * (1.0 / eta)
    pending = pending & rare
    steps = 1
    while any_lane(pending) and steps < MAX_STEPS:
        d, again, a, unsure = step(M, q, s, f, z, near_below)
        d = select(pending, d, 0.0)
        z = z + d
        s = fma(d, q, s)
        f = fma(d, q, f)
        weight = select(pending, again, weight)
        store(M, SLOPE, select(pending, eta * fma(a, a, a), load(M, SLOPE, u)))
        pending = pending & unsure
        steps += 1
    store(M, PREDICTED, z)
    store(S, half.INVERSE_P, z * z)
    store(M, NEAR_BY, select(pending, NOBODY, s))  # beyond any radius
    store(M, FAR_BY, f)
    store(M, WEIGHT, weight)
    store(M, DRAW, u)
    store(M, ARM, load(M, LEADER, u))
    bits = lane_bits(rare)
    while bits != 0:
        finish(K, t, S, M, lowest_bit(bits), width(u), eta, near_below)
        bits &= bits - 1
    return to_int(load(M, ARM, u))


@jit
def finish(K: int, t: int, S: Any, M: Any, place: int, W: int, eta: float, near_below: Any) -> None:
    """Rebuild a lane or let arms cross the brink, if it is time, and draw."""
    rate = M[RATE * W + place]
    s = M[NEAR_BY * W + place]
    f = M[FAR_BY * W + place]
    weight = M[WEIGHT * W + place]
    astray = not abs(s) <= M[REACH * W + place]
    if near_below is not None:
        astray = astray or not abs(f) <= M[FAR_REACH * W + place]
        edge = brink(rate, near_below)
        over = M[HIGHEST * W + place] + s > edge or M[LOWEST * W + place] + f <= edge
        if over and not astray:
            rebuilding.cross(K, M, place, W, s, f, edge)
    stretch = eta / rate
    if astray:
        z = rebuilding.rebuild(K, t, M, place, W, eta, near_below)
        weight = 1.0 / (z * z)
        stretch = 1.0
        s = z - M[BASE * W + place]
        if near_below is not None:
            f = s + fallen_in(t, M, place, W)
        S[half.INVERSE_P * W + place] = z * z
        M[ARM * W + place] = M[LEADER * W + place]
        M[SPENT * W + place] += costs.rebuild(K)
    u = M[DRAW * W + place]
    if u >= weight:
        j = drawing.find_other(K, M, place, W, s, f, near_below, (u - weight) / (1.0 - weight))
        v = others(K, M, place, W)[j] + s
        if near_below is not None and far_marks(K, M, place, W)[j] != 0.0:
            v = others(K, M, place, W)[j] + f
        M[ARM * W + place] = j
        S[half.INVERSE_P * W + place] = v * v * (stretch * stretch)
        M[SPENT * W + place] += costs.other(K)


@jit
def learn(K: int, M: Any, reduced: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Add to the estimate of the arm just drawn, in the lanes in the mode."""
    b = load(M, LEADER, loss)
    rate = load(M, RATE, loss)
    other = to_float(arm) != b
    base = 0.0
    if reduced is not None:
        base = BASELINE
    half_by = select(other, 0.0, 0.5 * correction(loss, base, inverse_p))
    store(M, BASE, fma(rate, half_by, load(M, BASE, loss)))
    store(M, PREDICTED, fma(-load(M, SLOPE, loss), half_by, load(M, PREDICTED, loss)))
    other = other & leads
    if any_lane(other):
        learn_others(K, M, reduced, other, arm, inverse_p, loss)


@jit
def learn_others(
    K: int, M: Any, reduced: Any, other: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Do the same in the lanes in which it was not the leader."""
    bits = lane_bits(other)
    while bits != 0:
        place = lowest_bit(bits)
        learn_other(
            K,
            M,
            place,
            width(loss),
            reduced,
            lane(arm, place),
            lane(inverse_p, place),
            lane(loss, place),
        )
        bits &= bits - 1


@jit
def learn_other(
    K: int, M: Any, place: int, W: int, reduced: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """Add to the estimate of an arm other than the leader, and let its series know."""
    V = others(K, M, place, W)
    r0 = 1.0 / V[arm]
    scale = 0.5 * M[RATE * W + place]
    if reduced is None:
        V[arm] += scale * correction(loss, 0.0, inverse_p)
        series.replace(M, place, W, SERIES, r0, 1.0 / V[arm])
    elif far_marks(K, M, place, W)[arm] != 0.0:
        V[arm] += scale * correction(loss, 0.0, inverse_p)
        series.replace(M, place, W, FAR_SERIES, r0, 1.0 / V[arm])
    else:
        v = V[arm] + scale * correction(loss, BASELINE, inverse_p)
        r1 = 1.0 / v
        V[arm] = v
        series.replace(M, place, W, SERIES, r0, r1)
        # A near arm may fall, by a quarter of its v.
        drawing.widen(K, M, place, W, arm, r1)
        M[REACH * W + place] = min(M[REACH * W + place], drawing.RADIUS * v)
        M[HIGHEST * W + place] = max(M[HIGHEST * W + place], v)
