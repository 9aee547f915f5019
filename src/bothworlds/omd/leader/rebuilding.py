"""Rare work of leader mode: one lane, all its arms.

Symbols and equations are those of `bothworlds.omd.leader`.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    fma,
    lane_bits,
    least_lane,
    load,
    lowest_bit,
    minimum,
    negate,
    select,
    splat,
    store,
    sum_lanes,
    zeros,
)
from bothworlds.omd.leader.drawing import tabulate, widen
from bothworlds.omd.leader.layout import (
    BASE,
    FAR_REACH,
    FAR_SERIES,
    HIGHEST,
    LOWEST,
    ORIGIN,
    PREDICTED,
    RATE,
    REACH,
    SERIES,
    SLOPE,
    brink,
    fallen,
    fallen_in,
    far_marks,
    others,
    table,
    vectors,
)
from bothworlds.omd.leader.membership import (
    ABSENT,
    LEADER,
    close_lane,
    distances,
    open_lane,
    write_estimates,
)
from bothworlds.omd.leader.series import clear

AHEAD = 0.9
"""Where the s of a series starts, as a share of its radius, if it falls: under importance weighting
it does with every loss of the leader."""
MAX_PASSES = 200  # never reached: a bound on the loop, not a tolerance

# Templates: `bothworlds.omd.leader.families` fills in what differs from family to family.
shape: Any = None
radius: Any = None
power: Any = None
anchor: Any = None
sum_powers: Any = None
replace: Any = None


@jit
def lower(K: int, V: Any, scale: float, by: float, F: Any, fallen: float) -> Any:
    """Make every V_i of a lane ``scale`` (V_i - ``by``), and return the least.

    Arms that are marked in ``F``, unless that is None, have ``fallen`` as well.
    """
    like = zeros()
    low = splat(ABSENT, like)
    for i in range(vectors(K)):
        v = load(V, i, like)
        beyond = v - by
        if F is not None:
            beyond = select(load(F, i, like) != 0.0, beyond + fallen, beyond)
        v = select(v < ABSENT, scale * beyond, ABSENT)
        low = minimum(low, v)
        store(V, i, v)
    return least_lane(low)


@jit
def crown(K: int, M: Any, at: int, V: Any, least: float) -> float:
    """Let the arm whose V is ``least`` lead, if that is below 0; return the least V then.

    ``at`` is the place of the leader in M.
    """
    if not least < 0.0:
        return least
    now = 0
    new = ABSENT
    for i in range(K):
        if V[i] == least:
            now = i
    V[int(M[at])] = 0.0
    for i in range(K):
        V[i] -= least
        if i != now:
            new = min(new, V[i])
    V[now] = ABSENT
    M[at] = now
    return new


@jit
def head_start(v: float, radius: float) -> float:
    """Return the s of a series at `AHEAD` of its radius, if V + s is to be ``v`` at the least."""
    return AHEAD * radius * v / (1.0 + AHEAD * radius)


def settle(K: int, V: Any, z: float, B: Any) -> float:
    """Return the z with which all weights sum to 1, V_i being v_i - z; a template.

    The sum is convex and decreasing: Newton's step stays left of the root if it starts there, and
    z = 1 is left of it.
    """
    like = zeros()
    z = z if z >= 1.0 else 1.0
    for _ in range(MAX_PASSES):
        r0 = 1.0 / z
        w0 = power(z, r0, B)
        total, slope = splat(0.0, like), splat(0.0, like)
        for i in range(vectors(K)):
            v = load(V, i, like) + z
            r = 1.0 / v
            w = power(v, r, B)
            total = total + w
            slope = fma(w, r, slope)
        d = shape(B) * (sum_lanes(total) + (w0 - 1.0)) / (sum_lanes(slope) + w0 * r0)
        z = max(z + d, 1.0)
        if abs(d) <= 1e-9 * z:
            break
    return z


def rebuild(K: int, t: int, M: Any, place: int, W: int, B: Any, eta: float, near_below: Any) -> Any:
    """Find leader, z and series of a lane again; return z; a template."""
    like = zeros()
    c = shape(B)
    R = radius(B)
    V = others(K, M, place, W)
    T = table(K, M, place, W)
    rho = eta / M[RATE * W + place]
    base = M[BASE * W + place]
    if near_below is None:
        least = lower(K, V, rho, base, None, 0.0)
    else:
        least = lower(K, V, rho, base, far_marks(K, M, place, W), fallen_in(t, c, M, place, W))
    least = crown(K, M, LEADER * W + place, V, least)
    z = settle(K, V, M[PREDICTED * W + place], B)
    M[PREDICTED * W + place] = z
    M[SLOPE * W + place] = 0.0
    M[RATE * W + place] = eta
    if near_below is None:
        ahead = head_start(least + z, R)
        M[BASE * W + place] = z - ahead
        M[REACH * W + place] = R * (least + z - ahead)
        for i in range(vectors(K)):
            v = load(V, i, like)
            present = v < ABSENT
            v = select(present, v + (z - ahead), v)
            store(V, i, v)
            store(T, i, select(present, power(v, 1.0 / v, B), 0.0))
        sum_powers(K, M, place, W, B, SERIES, None)
    else:
        M[BASE * W + place] = z
        divide(K, t, M, place, W, B, z, brink(c, eta, near_below))
        sum_powers(K, M, place, W, B, SERIES, 0.0)
        sum_powers(K, M, place, W, B, FAR_SERIES, 1.0)
    tabulate(K, M, place, W)
    anchor(M, place, W, z, eta, B)
    return z


def divide(K: int, t: int, M: Any, place: int, W: int, B: Any, z: float, edge: float) -> None:
    """Add z to every V_i, tell near and far arms apart, and give the far ones their head start.

    A template.
    """
    like = zeros()
    c = shape(B)
    R = radius(B)
    V = others(K, M, place, W)
    F = far_marks(K, M, place, W)
    lead = head_start(edge, R)
    M[ORIGIN * W + place] = lead - fallen(t, c, M[RATE * W + place], 0.0)
    lead = fallen_in(t, c, M, place, W)  # with the rounding of every later round
    absent = splat(ABSENT, like)
    near_low, near_high, far_low = absent, absent, absent
    for i in range(vectors(K)):
        v = load(V, i, like)
        present = v < ABSENT
        v = select(present, v + z, v)
        far = negate(v <= edge)
        v = select(far & present, v - lead, v)
        store(V, i, v)
        store(table(K, M, place, W), i, select(present, power(v, 1.0 / v, B), 0.0))
        store(F, i, select(far, splat(1.0, like), splat(0.0, like)))
        near_low = minimum(near_low, select(far, absent, v))
        near_high = minimum(near_high, select(far, absent, -v))
        far_low = minimum(far_low, select(far, v, absent))
    M[HIGHEST * W + place] = -least_lane(near_high)
    M[LOWEST * W + place] = least_lane(far_low)
    M[REACH * W + place] = R * least_lane(near_low)
    M[FAR_REACH * W + place] = R * least_lane(far_low)


def cross(K: int, M: Any, place: int, W: int, B: Any, s: float, f: float, edge: float) -> None:
    """Move every arm that has crossed the brink to the other series; a template.

    Radii do not grow, so that what rounding left of an arm in its old series stays small.
    """
    like = zeros()
    V = others(K, M, place, W)
    F = far_marks(K, M, place, W)
    absent = splat(ABSENT, like)
    near_low, near_high, far_low = absent, absent, absent
    for i in range(vectors(K)):
        v = load(V, i, like)
        was_far = load(F, i, like) != 0.0
        shift = select(was_far, splat(f, like), splat(s, like))
        far = negate(v + shift <= edge)
        bits = lane_bits((was_far & negate(far)) | (far & negate(was_far)))
        if bits != 0:
            while bits != 0:
                change_series(K, M, place, W, B, V, F, i * LANES + lowest_bit(bits), f - s)
                bits &= bits - 1
            v = load(V, i, like)
        near_low = minimum(near_low, select(far, absent, v))
        near_high = minimum(near_high, select(far, absent, -v))
        far_low = minimum(far_low, select(far, v, absent))
    least_near = least_lane(near_low)
    least_far = least_lane(far_low)
    M[HIGHEST * W + place] = -least_lane(near_high)
    M[LOWEST * W + place] = least_far
    if least_near == ABSENT:
        clear(M, place, W, SERIES)
        M[REACH * W + place] = ABSENT
    if least_far == ABSENT:
        clear(M, place, W, FAR_SERIES)
        M[FAR_REACH * W + place] = ABSENT
    M[REACH * W + place] = min(M[REACH * W + place], radius(B) * least_near)
    M[FAR_REACH * W + place] = min(M[FAR_REACH * W + place], radius(B) * least_far)


def change_series(
    K: int, M: Any, place: int, W: int, B: Any, V: Any, F: Any, arm: int, fallen: float
) -> None:
    """Move an arm to the other series; ``fallen`` is f - s; a template."""
    old, new = SERIES, FAR_SERIES
    by = -fallen
    if F[arm] != 0.0:
        old, new = FAR_SERIES, SERIES
        by = fallen
    r = 1.0 / V[arm]
    replace(M, place, W, B, old, power(V[arm], r, B), r, 0.0, 0.0)
    V[arm] += by
    F[arm] = 1.0 - F[arm]
    r = 1.0 / V[arm]
    w = power(V[arm], r, B)
    replace(M, place, W, B, new, 0.0, 0.0, w, r)
    widen(K, M, place, W, arm, w)


def enter(
    K: int, t: int, L: Any, stride: int, x: float, unit: float, M: Any, place: int, W: int, B: Any,
    eta: float, near_below: Any,
) -> None:  # fmt: skip
    """Start the mode in a lane; a template.

    From its estimates, ``stride`` numbers apart, and the root x; v_i is ``unit`` (L_i - x).
    """
    b = distances(K, L, stride, others(K, M, place, W), vectors(K) * LANES, unit)
    if near_below is not None:
        for i in range(vectors(K) * LANES):
            far_marks(K, M, place, W)[i] = 0.0
    open_lane(M, place, W, b)
    M[PREDICTED * W + place] = unit * (L[b * stride] - x)
    M[BASE * W + place] = 0.0
    M[RATE * W + place] = eta
    rebuild(K, t, M, place, W, B, eta, near_below)


def leave(
    K: int, t: int, L: Any, stride: int, unit: float, M: Any, place: int, W: int, B: Any,
    near_below: Any,
) -> Any:  # fmt: skip
    """End the mode in a lane and write its estimates, ``stride`` numbers apart; return z.

    A template; ``unit`` is what it was on entering, at the learning rate of the last rebuild.
    """
    V = others(K, M, place, W)
    z = M[PREDICTED * W + place]
    base = M[BASE * W + place]
    for i in range(K):
        by = V[i] - base
        if near_below is not None:
            by += far_marks(K, M, place, W)[i] * fallen_in(t, shape(B), M, place, W)
        L[i * stride] = 0.0 if i == int(M[LEADER * W + place]) else by
    write_estimates(K, L, stride, 1.0 / unit)
    close_lane(t, M, place, W)
    # The round continues in this lane, unread; so it stays where it is.
    M[PREDICTED * W + place] = 1.0
    M[BASE * W + place] = 0.0
    M[RATE * W + place] = 0.0
    M[ORIGIN * W + place] = 0.0
    M[LOWEST * W + place] = ABSENT
    anchor(M, place, W, 1.0, 0.0, B)
    return z
