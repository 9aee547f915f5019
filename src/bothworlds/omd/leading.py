"""The OMD step at alpha = 1/2 in leader mode: most rounds look at no arm but the leading one.

Once one arm b has nearly all the weight, it is nearly always the arm that is played.  Then all
other arms keep their distances from each other, and a Taylor series stands for them.

======== ==========================================================================
``v_i``  (eta / 2) (L_i - x), so that w_i = 1 / v_i^2; ``z`` is v_b
``W``    sum of w_i over the others, so that 1 / z^2 + W = 1
``o``    1 - W, the weight of the leader
``V_i``  v_i as it was when the lane was last rebuilt, up to a common shift
``q``    eta_0 / eta, with eta_0 the learning rate of that round
``s``    what the others have moved by since: v_i = (V_i + s) / q, with s = q z - ``base``
``c_n``  (-1)^n (n + 1) sum_i V_i^-(n+2), so that W = q^2 sum_n c_n s^n
======== ==========================================================================

A round finds z from the series, without a division: with e = 1 - o z^2 and a = z^3 W'(z) / 2,

    z += z e (1/2 + 3e/8) (1 + a + a^2),

a Newton step on z = o^(-1/2), repeated in the rare rounds in which it is not small enough.
The leader is first in the order of the draw: it is played if u < o, and its loss moves ``base``.
Otherwise the lane looks at its other arms; the one that is played moves its V and the c_n.

The series is used for |s| <= `RADIUS` min V, where what it leaves out is below
(ORDER + 2) RADIUS^(ORDER + 1) W = 1e-14 W.  Beyond, or where z does not converge, the lane is
rebuilt from all arms: another arm may then be the leader.  So the mode is exact whoever leads, and
only its speed depends on how rarely another arm is played.

Lanes enter and leave the mode one by one, by their own numbers and the round alone, so that a
repetition does not depend on its neighbours.  Lanes that are not in it are played by
`bothworlds.omd.half` or `bothworlds.omd.few`; these see the lanes in it with the estimates they
had on entering.

Only tiles of repetitions have this mode.  Its rows lie behind those of the solver; the V_i of a
lane lie one after another, so that a vector holds `LANES` arms of one lane.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    absolute,
    advance,
    any_lane,
    fma,
    lane,
    least_lane,
    load,
    minimum,
    negate,
    select,
    splat,
    store,
    sum_lanes,
    to_float,
    to_int,
    with_lane,
    zeros,
)
from bothworlds.omd import half, recentring
from bothworlds.omd.few import LEAST, fits

ORDER = 9
RADIUS = 1 / 32
AHEAD = 0.9
"""Where s starts, as a share of the radius: it falls with every loss of the leader."""

LEADS, LEADER, PREDICTED, SLOPE, BASE, RATE, REACH = 0, 1, 2, 3, 4, 5, 6
"""Rows: 1 in the lanes in the mode, b, z, its slope, ``base``, eta_0 and the largest |s|."""
SPENT, DEBT, NOT_BEFORE = 7, 8, 9
"""Rows: what rare work has cost lately, what the mode has lost since the lane entered, and the
first round in which it may enter again."""
ROOM = 10
"""Row for the weights of as many arms as a vector holds."""
SERIES = 11
"""First row of c_0, c_1, ..."""
OTHERS = SERIES + ORDER + 1
"""First row of the V_i, which take `padded` rows."""

NOBODY = 1e90
"""V of the leader's own place and of places without an arm: their weight is 0."""
MAX_STEPS = 4
TOLERANCE = 3e-14  # of z
MAX_PASSES = 200  # never reached: a bound on the loop, not a tolerance

FIRST = 2**14
"""First round in which a lane may enter the mode.  Earlier rounds are few, and often some lanes of
a tile would be in the mode and others not, which costs both kinds of round."""
LOOK_EVERY = 64
"""Rounds after which lanes may enter the mode."""
ACCOUNT_EVERY = 256
"""Rounds after which lanes may leave it."""
PENANCE = 32.0
"""Rounds a lane waits for each round's worth that it lost in the mode."""


@jit
def saved(K: int) -> float:
    """Return what a round saves that looks at no arm, in nanoseconds of one lane, measured."""
    return 0.5 * (K - 1)


@jit
def other_cost(K: int) -> float:
    """Return the nanoseconds that a round costs in which another arm is played."""
    return 100.0 + 0.7 * K


@jit
def rebuild_cost(K: int) -> float:
    """Return the nanoseconds that a rebuild costs."""
    return 60.0 + 1.5 * K


def padded(n_arms: int) -> int:
    """Return the rows that the V_i of a tile take: those of a lane fill whole vectors."""
    return -(-n_arms // LANES) * LANES


def rows(n_arms: int) -> int:
    """Return the number of rows behind the solver's."""
    return OTHERS + padded(n_arms)


@jit
def mode_rows(K: int, S: Any) -> Any:
    """Return the rows of the mode, which lie behind those of the solver."""
    return advance(S, (half.ESTIMATES + K) * LANES)


@jit
def vectors(K: int) -> int:
    """Return how many vectors the V_i of a lane take."""
    return (K + LANES - 1) // LANES


@jit
def others(K: int, M: Any, place: int) -> Any:
    """Return the V_i of the lane at ``place``."""
    return advance(M, (OTHERS + place * vectors(K)) * LANES)


# --- rare: one lane, all its arms --------------------------------------------------------------


@jit
def settle(K: int, V: Any, z: float) -> float:
    """Return the root z of 1 / z^2 + sum_i 1 / (z + V_i)^2 = 1, V_i being v_i - z.

    The left side is convex and decreasing: Newton's step from the left of the root stays there,
    and z = 1 is left of it.
    """
    like = zeros()
    z = z if z >= 1.0 else 1.0
    for _ in range(MAX_PASSES):
        S2 = splat(0.0, like)
        S3 = splat(0.0, like)
        for i in range(vectors(K)):
            r = 1.0 / (load(V, i, like) + z)
            S2 = fma(r, r, S2)
            S3 = fma(r * r, r, S3)
        r0 = 1.0 / z
        d = (sum_lanes(S2) + (r0 * r0 - 1.0)) / (2.0 * (sum_lanes(S3) + r0 * r0 * r0))
        z = max(z + d, 1.0)
        if abs(d) <= 1e-9:
            break
    return z


@jit
def rebuild(K: int, M: Any, place: int, eta: float) -> Any:
    """Find leader, z and series of a lane anew; return z."""
    like = zeros()
    V = others(K, M, place)
    rho = eta / M[RATE * LANES + place]
    base = M[BASE * LANES + place]
    low = splat(NOBODY, like)
    for i in range(vectors(K)):
        v = load(V, i, like)
        v = select(v < NOBODY, rho * (v - base), NOBODY)
        low = minimum(low, v)
        store(V, i, v)
    least = least_lane(low)
    if least < 0.0:
        least = crown(K, V, M, place, least)
    z = settle(K, V, M[PREDICTED * LANES + place])
    ahead = AHEAD * RADIUS * (least + z) / (1.0 + AHEAD * RADIUS)
    M[PREDICTED * LANES + place] = z
    M[SLOPE * LANES + place] = 0.0
    M[BASE * LANES + place] = z - ahead
    M[RATE * LANES + place] = eta
    M[REACH * LANES + place] = RADIUS * (least + z - ahead)
    sum_powers(K, V, M, place, z - ahead)
    return z


@jit
def crown(K: int, V: Any, M: Any, place: int, least: float) -> float:
    """Make the arm whose V is ``least``, below 0, the leader; return the least V then."""
    now = 0
    new = NOBODY
    for i in range(K):
        if V[i] == least:
            now = i
    V[int(M[LEADER * LANES + place])] = 0.0
    for i in range(K):
        V[i] -= least
        if i != now:
            new = min(new, V[i])
    V[now] = NOBODY
    M[LEADER * LANES + place] = now
    return new


@jit
def sum_powers(K: int, V: Any, M: Any, place: int, shift: float) -> None:
    """Add ``shift`` to every V_i and compute the c_n of a lane."""
    like = zeros()
    c0 = splat(0.0, like)
    c1, c2, c3, c4, c5, c6, c7, c8, c9 = c0, c0, c0, c0, c0, c0, c0, c0, c0
    for i in range(vectors(K)):
        v = load(V, i, like)
        v = select(v < NOBODY, v + shift, v)
        store(V, i, v)
        r = 1.0 / v
        p = r * r
        c0 = c0 + p
        p = p * r
        c1 = c1 + p
        p = p * r
        c2 = c2 + p
        p = p * r
        c3 = c3 + p
        p = p * r
        c4 = c4 + p
        p = p * r
        c5 = c5 + p
        p = p * r
        c6 = c6 + p
        p = p * r
        c7 = c7 + p
        p = p * r
        c8 = c8 + p
        p = p * r
        c9 = c9 + p
    M[(SERIES + 0) * LANES + place] = sum_lanes(c0)
    M[(SERIES + 1) * LANES + place] = -2.0 * sum_lanes(c1)
    M[(SERIES + 2) * LANES + place] = 3.0 * sum_lanes(c2)
    M[(SERIES + 3) * LANES + place] = -4.0 * sum_lanes(c3)
    M[(SERIES + 4) * LANES + place] = 5.0 * sum_lanes(c4)
    M[(SERIES + 5) * LANES + place] = -6.0 * sum_lanes(c5)
    M[(SERIES + 6) * LANES + place] = 7.0 * sum_lanes(c6)
    M[(SERIES + 7) * LANES + place] = -8.0 * sum_lanes(c7)
    M[(SERIES + 8) * LANES + place] = 9.0 * sum_lanes(c8)
    M[(SERIES + 9) * LANES + place] = -10.0 * sum_lanes(c9)


@jit
def find_other(K: int, V: Any, w: Any, leader: int, s: float, target: float) -> int:
    """Return the first arm but the leader at which the sums of (V_i + s)^-2 pass ``target``.

    ``w`` has room for a vector.
    """
    like = zeros()
    total = 0.0
    for i in range(vectors(K)):
        r = 1.0 / (load(V, i, like) + s)
        store(w, 0, r * r)
        beyond = total + sum_lanes(r * r)
        if beyond > target:
            for j in range(min(LANES, K - i * LANES)):
                total += w[j]
                if total > target and i * LANES + j != leader:
                    return i * LANES + j
        total = beyond
    # Rounding: u was next to 1.
    return K - 1 if leader != K - 1 else K - 2


@jit
def move_other(M: Any, place: int, V: Any, arm: int, by: float) -> None:
    """Add ``by`` to the V of an arm, and let the series know."""
    r0 = 1.0 / V[arm]
    V[arm] += by
    r1 = 1.0 / V[arm]
    p0 = r0 * r0
    p1 = r1 * r1
    sign = 1.0
    for n in range(ORDER + 1):
        M[(SERIES + n) * LANES + place] += sign * (n + 1) * (p1 - p0)
        p0 *= r0
        p1 *= r1
        sign = -sign


# --- the round -----------------------------------------------------------------------------------


@jit
def step(M: Any, q: Any, s: Any, z: Any) -> Any:
    """Return the step in z, the weight of the leader after it, a, and the lanes to step again."""
    c1 = load(M, SERIES + 1, z)
    c2 = load(M, SERIES + 2, z)
    c3 = load(M, SERIES + 3, z)
    s2 = s * s
    s4 = s2 * s2
    low = fma(fma(c3, s, c2), s2, fma(c1, s, load(M, SERIES, z)))
    middle = fma(load(M, SERIES + 5, z), s, load(M, SERIES + 4, z))
    high = fma(load(M, SERIES + 7, z), s, load(M, SERIES + 6, z))
    top = fma(load(M, SERIES + 9, z), s, load(M, SERIES + 8, z))
    q2 = q * q
    z2 = z * z
    o = fma(-q2, fma(fma(top, s4, fma(high, s2, middle)), s4, low), 1.0)
    slope = q2 * q * fma(fma(3.0 * s, c3, 2.0 * c2), s, c1)  # W'(z), to three terms
    a = 0.5 * (z2 * z) * slope
    e = fma(-o, z2, 1.0)
    d = (e * fma(0.375, e, 0.5)) * (z * fma(a, a, 1.0 + a))
    left = absolute(d) * fma(absolute(a), fma(a, a, 3e-4), 1e-7)
    return d, fma(-slope, d, o), a, negate(left <= TOLERANCE)


@jit
def draw(K: int, S: Any, M: Any, eta: float, leads: Any, u: Any) -> Any:
    """Find the weights and draw an arm, in the lanes in the mode."""
    q = load(M, RATE, u) * (1.0 / eta)
    z = load(M, PREDICTED, u)
    s = fma(z, q, -load(M, BASE, u))
    d, weight, a, pending = step(M, q, s, z)
    z = z + d
    s = fma(d, q, s)
    pending = pending & leads
    steps = 1
    while any_lane(pending) and steps < MAX_STEPS:
        d, again, slope, unsure = step(M, q, s, z)
        d = select(pending, d, 0.0)
        z = z + d
        s = fma(d, q, s)
        weight = select(pending, again, weight)
        a = select(pending, slope, a)
        pending = pending & unsure
        steps += 1
    # What the root moves by, to first order, for half of what the leader's estimate moves by.
    store(M, SLOPE, eta * fma(a, a, a))
    store(M, PREDICTED, z)
    arm = load(M, LEADER, u)
    astray = pending | (leads & negate(absolute(s) <= load(M, REACH, u)))
    if any_lane(astray):
        flags = select(astray, splat(1.0, u), splat(0.0, u))
        for place in range(LANES):
            if lane(flags, place) > 0.0:
                root = rebuild(K, M, place, eta)
                z = with_lane(z, place, root)
                weight = with_lane(weight, place, 1.0 / (root * root))
                q = with_lane(q, place, 1.0)
                s = with_lane(s, place, root - M[BASE * LANES + place])
                M[SPENT * LANES + place] += rebuild_cost(K)
        arm = load(M, LEADER, u)
    inverse_p = z * z
    other = leads & (u >= weight)
    if any_lane(other):
        flags = select(other, splat(1.0, u), splat(0.0, u))
        for place in range(LANES):
            if lane(flags, place) > 0.0:
                V = others(K, M, place)
                stretch = lane(q, place)
                stretch = 1.0 / (stretch * stretch)
                target = (lane(u, place) - lane(weight, place)) * stretch
                room = advance(M, ROOM * LANES)
                j = find_other(K, V, room, int(lane(arm, place)), lane(s, place), target)
                v = V[j] + lane(s, place)
                arm = with_lane(arm, place, float(j))
                inverse_p = with_lane(inverse_p, place, v * v * stretch)
                M[SPENT * LANES + place] += other_cost(K)
    store(S, half.INVERSE_P, inverse_p)
    return to_int(arm)


@jit
def learn(K: int, M: Any, leads: Any, arm: Any, by: Any) -> None:
    """Add ``by`` to the estimate of the arm just drawn, in the lanes in the mode."""
    b = load(M, LEADER, by)
    rate = load(M, RATE, by)
    other = to_float(arm) != b
    half_by = select(other, 0.0, 0.5 * by)
    store(M, BASE, fma(rate, half_by, load(M, BASE, by)))
    store(M, PREDICTED, fma(-load(M, SLOPE, by), half_by, load(M, PREDICTED, by)))
    other = other & leads
    if any_lane(other):
        flags = select(other, splat(1.0, by), splat(0.0, by))
        for place in range(LANES):
            if lane(flags, place) > 0.0:
                V = others(K, M, place)
                move_other(M, place, V, lane(arm, place), 0.5 * lane(rate, place) * lane(by, place))


# --- entering and leaving ------------------------------------------------------------------------


@jit
def look_around(K: int, t: int, S: Any, M: Any, eta: float, like: Any) -> None:
    """Let lanes enter and leave the mode, in the rounds in which they may."""
    if t % LOOK_EVERY == 0 and t >= FIRST:
        z = 0.5 * eta * (recentring.least(K, S, half.ESTIMATES, like) - load(S, half.ROOT, like))
        most = min(saved(K) / other_cost(K), 0.35)  # W
        ready = (load(M, LEADS, like) == 0.0) & (z * z * (1.0 - most) < 1.0)
        ready = ready & (load(M, NOT_BEFORE, like) <= float(t))
        if any_lane(ready):
            flags = select(ready, splat(1.0, like), splat(0.0, like))
            for place in range(LANES):
                if lane(flags, place) > 0.0:
                    enter(K, S, M, place, eta)
    if t % ACCOUNT_EVERY == 0:
        lost = load(M, SPENT, like) - ACCOUNT_EVERY * saved(K)
        store(M, SPENT, splat(0.0, like))
        store(M, DEBT, load(M, DEBT, like) + lost)
        tired = (load(M, LEADS, like) != 0.0) & (lost > 0.0)
        if any_lane(tired):
            flags = select(tired, splat(1.0, like), splat(0.0, like))
            for place in range(LANES):
                if lane(flags, place) > 0.0:
                    leave(K, t, S, M, place)


@jit
def enter(K: int, S: Any, M: Any, place: int, eta: float) -> None:
    """Begin the mode in a lane, from its estimates."""
    V = others(K, M, place)
    b = 0
    for i in range(1, K):
        if S[(half.ESTIMATES + i) * LANES + place] < S[(half.ESTIMATES + b) * LANES + place]:
            b = i
    low = S[(half.ESTIMATES + b) * LANES + place]
    for i in range(vectors(K) * LANES):
        V[i] = NOBODY
        if i < K and i != b:
            V[i] = 0.5 * eta * (S[(half.ESTIMATES + i) * LANES + place] - low)
    M[LEADS * LANES + place] = 1.0
    M[LEADER * LANES + place] = b
    M[PREDICTED * LANES + place] = 0.5 * eta * (low - S[half.ROOT * LANES + place])
    M[BASE * LANES + place] = 0.0
    M[RATE * LANES + place] = eta
    M[SPENT * LANES + place] = 0.0
    M[DEBT * LANES + place] = 0.0
    rebuild(K, M, place, eta)


@jit
def leave(K: int, t: int, S: Any, M: Any, place: int) -> None:
    """End the mode in a lane: write its estimates, from the leader's, and prepare the solver."""
    V = others(K, M, place)
    base = M[BASE * LANES + place]
    scale = 2.0 / M[RATE * LANES + place]
    low = 0.0
    for i in range(K):
        L = 0.0
        if i != int(M[LEADER * LANES + place]):
            L = scale * (V[i] - base)
        S[(half.ESTIMATES + i) * LANES + place] = L
        low = min(low, L)
    for i in range(K):
        S[(half.ESTIMATES + i) * LANES + place] -= low
    z = M[PREDICTED * LANES + place]
    if fits(K):
        S[LEAST * LANES + place] = z
    else:
        S[half.CENTRE * LANES + place] = -1.0
        for row in range(half.SUM2, half.SHARE):
            S[row * LANES + place] = 1.0
    M[NOT_BEFORE * LANES + place] = t + PENANCE * max(M[DEBT * LANES + place], 0.0) / saved(K)
    M[LEADS * LANES + place] = 0.0
