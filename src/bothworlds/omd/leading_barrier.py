"""The OMD step at alpha = 0, the log-barrier, in leader mode: most rounds look at one arm only.

Once one arm b has nearly all the weight, it is nearly always the arm that is played.  Then all
other arms keep their distances from each other, and a Taylor series stands for them.

======== ==========================================================================
``v_i``  eta (L_i - x), so that w_i = 1 / v_i; ``z`` is v_b
``W``    sum of w_i over the others, so that 1 / z + W = 1
``o``    1 - W, the weight of the leader
``V_i``  v_i as it was when the lane was last rebuilt, up to a common shift
``s``    what the others have moved by since: v_i = V_i + s, with s = z - ``base``
``c_n``  (-1)^n sum_i V_i^-(n+1), so that W = sum_n c_n s^n
======== ==========================================================================

A round finds z from the series, without a division: with e = 1 - o z and a = -z^2 W'(z),

    z += z e (1 - a + a^2),

Newton's step on z o = 1, repeated in the rare rounds in which it is not small enough.  The leader
is first in the order of the draw: it is played if u < o, and its loss moves ``base``.  Otherwise
the lane looks at its other arms; the one that is played moves its V and the c_n.

The series is used for |s| <= `RADIUS` min V, where what it leaves out is RADIUS^(ORDER + 1) = 4e-15
of W.  Beyond, or where z does not converge, the lane is rebuilt from all arms: another arm may then
be the leader.

The learning rate of a lane stays as it is while the lane is in the mode.  The sum of the squares of
the weights, which a policy may need, is 1 / z^2 - W'(z).

Lanes enter and leave the mode as `bothworlds.omd.leadership` says.  Lanes that are not in it are
played by the policy's own kernels, which see the lanes in it with the estimates they had on
entering.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    absolute,
    any_lane,
    fma,
    lane_bits,
    load,
    lowest_bit,
    negate,
    select,
    splat,
    store,
    sum_lanes,
    to_float,
    to_int,
    zeros,
)
from bothworlds.omd import leadership
from bothworlds.omd.leadership import LEADER, NOBODY, OWN, ROOM, SPENT, vectors

ORDER = 7
RADIUS = 1 / 64
AHEAD = 0.9
"""Where s starts, as a share of the radius: it falls with every loss of the leader."""

PREDICTED, SLOPE, BASE, REACH = OWN, OWN + 1, OWN + 2, OWN + 3
"""Rows: z, what it moves by with ``base``, ``base`` and the largest |s|."""
SPREAD = OWN + 4
"""Row: the squared distance of the weights from the arm drawn, (1 - w_I)^2 + sum_{i != I} w_i^2."""
PICK, TARGET, SHIFT, TOTAL = OWN + 5, OWN + 6, OWN + 7, OWN + 8
"""Rows for the arm drawn, the share of the draw, s or what is learned, and W, in rounds in which
another arm is played."""
SERIES = OWN + 9
"""First row of c_0, c_1, ..."""
OWN_ROWS = 9 + ORDER + 1

MAX_STEPS = 4
TOLERANCE = 3e-14  # of z
MAX_PASSES = 200  # never reached: a bound on the loop, not a tolerance


@jit
def saved(K: int) -> float:
    """Return what a round saves that looks at no arm, in nanoseconds of one lane, measured."""
    return 4.0 + 1.5 * K


@jit
def other_cost(K: int) -> float:
    """Return the nanoseconds that a round costs in which another arm is played."""
    return 130.0 + 0.5 * K


@jit
def rebuild_cost(K: int) -> float:
    """Return the nanoseconds that a rebuild costs."""
    return 100.0 + 2.5 * K


def rows(n_arms: int) -> int:
    """Return the number of rows of the mode."""
    return leadership.rows(n_arms, OWN_ROWS)


@jit
def others(K: int, M: Any, place: int) -> Any:
    """Return the V_i of the lane at ``place``."""
    return leadership.others(K, M, OWN_ROWS, place)


# --- rare: one lane, all its arms --------------------------------------------------------------


@jit
def settle(K: int, V: Any, z: float) -> float:
    """Return the root z of 1 / z + sum_i 1 / (z + V_i) = 1, V_i being v_i - z.

    The left side is convex and decreasing: Newton's step from the left of the root stays there,
    and z = 1 is left of it.
    """
    like = zeros()
    z = z if z >= 1.0 else 1.0
    for _ in range(MAX_PASSES):
        S1 = splat(0.0, like)
        S2 = splat(0.0, like)
        for i in range(vectors(K)):
            r = 1.0 / (load(V, i, like) + z)
            S1 = S1 + r
            S2 = fma(r, r, S2)
        r0 = 1.0 / z
        d = (sum_lanes(S1) + (r0 - 1.0)) / (sum_lanes(S2) + r0 * r0)
        z = max(z + d, 1.0)
        if abs(d) <= 1e-9 * z:
            break
    return z


@jit
def rebuild(K: int, M: Any, place: int) -> Any:
    """Find leader, z and series of a lane anew; return z."""
    V = others(K, M, place)
    least = leadership.lower(K, V, 1.0, M[BASE * LANES + place])
    if least < 0.0:
        now, least = leadership.crown(K, int(M[leadership.LEADER * LANES + place]), V, least)
        M[leadership.LEADER * LANES + place] = now
    z = settle(K, V, M[PREDICTED * LANES + place])
    ahead = AHEAD * RADIUS * (least + z) / (1.0 + AHEAD * RADIUS)
    M[PREDICTED * LANES + place] = z
    M[SLOPE * LANES + place] = 0.0
    M[BASE * LANES + place] = z - ahead
    M[REACH * LANES + place] = RADIUS * (least + z - ahead)
    sum_powers(K, M, V, place, z - ahead)
    return z


@jit
def sum_powers(K: int, M: Any, V: Any, place: int, shift: float) -> None:
    """Add ``shift`` to every V_i and compute the c_n of a lane."""
    like = zeros()
    c0 = splat(0.0, like)
    c1, c2, c3, c4, c5, c6, c7 = c0, c0, c0, c0, c0, c0, c0
    for i in range(vectors(K)):
        v = load(V, i, like)
        v = select(v < NOBODY, v + shift, v)
        store(V, i, v)
        r = 1.0 / v
        c0 = c0 + r
        p = r * r
        c1 = c1 - p
        p = p * r
        c2 = c2 + p
        p = p * r
        c3 = c3 - p
        p = p * r
        c4 = c4 + p
        p = p * r
        c5 = c5 - p
        p = p * r
        c6 = c6 + p
        p = p * r
        c7 = c7 - p
    M[(SERIES + 0) * LANES + place] = sum_lanes(c0)
    M[(SERIES + 1) * LANES + place] = sum_lanes(c1)
    M[(SERIES + 2) * LANES + place] = sum_lanes(c2)
    M[(SERIES + 3) * LANES + place] = sum_lanes(c3)
    M[(SERIES + 4) * LANES + place] = sum_lanes(c4)
    M[(SERIES + 5) * LANES + place] = sum_lanes(c5)
    M[(SERIES + 6) * LANES + place] = sum_lanes(c6)
    M[(SERIES + 7) * LANES + place] = sum_lanes(c7)


@jit
def find_other(K: int, M: Any, V: Any, place: int, s: float, target: float) -> Any:
    """Return the first arm but the leader at which the sums of 1 / (V_i + s) pass ``target``."""
    like = zeros()
    total = 0.0
    for i in range(vectors(K)):
        r = 1.0 / (load(V, i, like) + s)
        store(M, ROOM, r)
        beyond = total + sum_lanes(r)
        if beyond > target:
            j = leadership.passing(K, M, place, i, total, target)
            if j >= 0:
                return j
        total = beyond
    return leadership.heaviest(K, V)  # rounding: u was next to 1


@jit
def draw_other(K: int, S: Any, M: Any, place: int) -> None:
    """Draw another arm than the leader in a lane."""
    V = others(K, M, place)
    s = M[SHIFT * LANES + place]
    W = M[TOTAL * LANES + place]
    j = find_other(K, M, V, place, s, M[TARGET * LANES + place])
    v = V[j] + s
    # The row has W^2 + sum of the others' w_i^2; with 1 - 2 W it is the sum of all squares.
    M[SPREAD * LANES + place] += 2.0 * (1.0 - W) - 2.0 / v
    M[PICK * LANES + place] = j
    M[SPENT * LANES + place] += other_cost(K)
    S[place] = v


@jit
def move_other(K: int, M: Any, place: int, arm: int, by: float) -> None:
    """Add ``by`` to the V of an arm, and let the series know."""
    V = others(K, M, place)
    r0 = -1.0 / V[arm]
    V[arm] += by
    r1 = -1.0 / V[arm]
    p0 = -r0
    p1 = -r1
    for n in range(ORDER + 1):
        M[(SERIES + n) * LANES + place] += p1 - p0
        p0 *= r0
        p1 *= r1


# --- the round -----------------------------------------------------------------------------------


@jit
def sums(M: Any, s: Any) -> Any:
    """Return W and W'."""
    W = load(M, SERIES + ORDER, s)
    slope = splat(0.0, s)
    for n in range(ORDER - 1, -1, -1):
        slope = fma(slope, s, W)
        W = fma(W, s, load(M, SERIES + n, s))
    return W, slope


@jit
def draw(K: int, S: Any, M: Any, leads: Any, u: Any) -> Any:
    """Find the weights and draw an arm, in the lanes in the mode.

    Row 0 of the state takes 1 / w.
    """
    z = load(M, PREDICTED, u)
    base = load(M, BASE, u)
    s = z - base
    W, slope = sums(M, s)
    e = fma(W - 1.0, z, 1.0)
    a = -slope * (z * z)
    d = (z * e) * fma(a, a, 1.0 - a)
    W = fma(slope, d, W)
    z = z + d
    s = z - base
    pending = leads & negate(absolute(d) * fma(a * a, absolute(a), absolute(e)) <= TOLERANCE)
    steps = 1
    while any_lane(pending) and steps < MAX_STEPS:
        again, steeper = sums(M, s)
        e = fma(again - 1.0, z, 1.0)
        b = -steeper * (z * z)
        d = select(pending, (z * e) * fma(b, b, 1.0 - b), 0.0)
        W = select(pending, fma(steeper, d, again), W)
        a = select(pending, b, a)
        slope = select(pending, steeper, slope)
        z = z + d
        s = z - base
        pending = pending & negate(absolute(d) * fma(b * b, absolute(b), absolute(e)) <= TOLERANCE)
        steps += 1
    store(M, PREDICTED, z)
    # What the root moves by, to second order, for what ``base`` moves by.
    store(M, SLOPE, fma(-a, a, a))
    astray = pending | (leads & negate(absolute(s) <= load(M, REACH, u)))
    if any_lane(astray):
        left = lane_bits(astray)
        while left != 0:
            rebuild(K, M, lowest_bit(left))
            M[SPENT * LANES + lowest_bit(left)] += rebuild_cost(K)
            left &= left - 1
        z = load(M, PREDICTED, u)
        s = z - load(M, BASE, u)
        again, steeper = sums(M, s)
        W = select(astray, again, W)
        slope = select(astray, steeper, slope)
    store(S, 0, z)
    store(M, SPREAD, fma(W, W, -slope))
    arm = load(M, LEADER, u)
    beyond = (u - 1.0) + W
    other = lane_bits(leads & (beyond >= 0.0))
    if other != 0:
        store(M, PICK, arm)
        store(M, TARGET, beyond)
        store(M, SHIFT, s)
        store(M, TOTAL, W)
        while other != 0:
            draw_other(K, S, M, lowest_bit(other))
            other &= other - 1
        arm = load(M, PICK, u)
    return to_int(arm)


@jit
def learn(K: int, M: Any, leads: Any, arm: Any, shift: Any) -> None:
    """Add ``shift``, eta l / w, to eta times the estimate of the arm just drawn."""
    strays = leads & (to_float(arm) != load(M, LEADER, shift))
    led = select(leads & negate(strays), shift, 0.0)
    store(M, BASE, load(M, BASE, shift) + led)
    store(M, PREDICTED, fma(load(M, SLOPE, shift), led, load(M, PREDICTED, shift)))
    other = lane_bits(strays)
    if other != 0:
        store(M, SHIFT, shift)
        while other != 0:
            place = lowest_bit(other)
            j = int(M[PICK * LANES + place])
            move_other(K, M, place, j, M[SHIFT * LANES + place])
            other &= other - 1


# --- entering and leaving ------------------------------------------------------------------------


@jit
def look_around(
    K: int, t: int, S: Any, first: int, drawn: int, M: Any, root: int, rate: int, like: Any
) -> None:
    """Let lanes enter and leave the mode, in the rounds in which they may.

    Estimates begin at row ``first`` of the state, the weights of the last round at row ``drawn``;
    rows ``root`` and ``rate`` have x and eta.
    """
    if leadership.is_time_to_enter(t):
        most = min(saved(K) / other_cost(K), 0.35)
        enters = lane_bits(leadership.ready(K, t, S, drawn, M, most, like))
        if enters != 0:
            while enters != 0:
                place = lowest_bit(enters)
                eta = S[rate * LANES + place]
                b = leadership.opened(K, S, first, M, others(K, M, place), place, eta)
                low = S[(first + b) * LANES + place]
                M[PREDICTED * LANES + place] = eta * (low - S[root * LANES + place])
                M[BASE * LANES + place] = 0.0
                rebuild(K, M, place)
                enters &= enters - 1
            leadership.count(M, like)
    if leadership.is_time_to_account(t):
        leaves = lane_bits(leadership.account(M, saved(K), like))
        if leaves != 0:
            while leaves != 0:
                place = lowest_bit(leaves)
                V = others(K, M, place)
                base = M[BASE * LANES + place]
                eta = S[rate * LANES + place]
                S[root * LANES + place] = -M[PREDICTED * LANES + place] / eta
                leadership.close(K, t, S, first, M, V, place, base, eta, saved(K))
                leaves &= leaves - 1
            leadership.count(M, like)
