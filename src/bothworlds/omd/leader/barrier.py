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

Lanes enter and leave the mode by the rule of `bothworlds.omd.leader.membership`.  Lanes outside it
are played by the policy's own kernels, which see the lanes in it with the estimates they had on
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
from bothworlds.lanes.wrap import bound
from bothworlds.omd.leader import membership
from bothworlds.omd.leader.membership import (
    LEADER,
    NOBODY,
    OWN,
    SPENT,
    add_powers,
    cost,
    crown,
    head_start,
    lower,
    others,
    settle_whole,
    vectors,
)

ORDER = 7
RADIUS = 1 / 64

PREDICTED, SLOPE, BASE, REACH = OWN, OWN + 1, OWN + 2, OWN + 3
"""Rows: z, what it moves by with ``base``, ``base`` and the largest |s|."""
SPREAD = OWN + 4
"""Row: the squared distance of the weights from the arm drawn, (1 - w_I)^2 + sum_{i != I} w_i^2."""
PICK, TARGET, SHIFT, TOTAL = OWN + 5, OWN + 6, OWN + 7, OWN + 8
"""Rows for the arm drawn, the share of the draw, s or what is learned, and W, in rounds in which
another arm is played."""
SERIES = OWN + 9
"""First row of c_0, c_1, ..."""
SUMS = SERIES + ORDER + 1
"""First of as many rows in which they are summed."""

SAVED, OTHER, REBUILD = (4.0, 1.5), (130.0, 0.5), (100.0, 2.5)
"""What a round saves that looks at no arm, what one costs in which another arm is played, and what
a rebuild does; see `membership.cost`."""

MAX_STEPS = 4
TOLERANCE = 3e-14  # of z


# --- rare: one lane, all its arms --------------------------------------------------------------


@jit
def rebuild(K: int, M: Any, place: int) -> Any:
    """Find leader, z and series of a lane anew; return z."""
    V = others(K, M, place)
    least = lower(K, V, 1.0, M[BASE * LANES + place])
    least = crown(K, M, LEADER * LANES + place, V, least)
    z = settle_whole(K, V, M[PREDICTED * LANES + place], 1, 0.0, 1e-9)
    ahead = head_start(least + z, RADIUS)
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
    for n in range(ORDER + 1):
        store(M, SUMS + n, like)
    for i in range(vectors(K)):
        v = load(V, i, like)
        v = select(v < NOBODY, v + shift, v)
        store(V, i, v)
        r = 1.0 / v
        add_powers(M, SUMS, ORDER, r, r)
    sign = 1.0
    for n in range(ORDER + 1):
        M[(SERIES + n) * LANES + place] = sign * sum_lanes(load(M, SUMS + n, like))
        sign = -sign


@jit
def weigh(v: Any, s: float) -> Any:
    """Return w of an arm by its V."""
    return 1.0 / (v + s)


find_other = bound(membership.find_other, weigh=weigh)


@jit
def draw_other(K: int, S: Any, M: Any, place: int) -> None:
    """Draw another arm than the leader in a lane."""
    V = others(K, M, place)
    s = M[SHIFT * LANES + place]
    W = M[TOTAL * LANES + place]
    j, _ = find_other(K, M, V, place, s, M[TARGET * LANES + place])
    v = V[j] + s
    # The row has W^2 + sum of the others' w_i^2; with 1 - 2 W it is the sum of all squares.
    M[SPREAD * LANES + place] += 2.0 * (1.0 - W) - 2.0 / v
    M[PICK * LANES + place] = j
    M[SPENT * LANES + place] += cost(OTHER, K)
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
            M[SPENT * LANES + lowest_bit(left)] += cost(REBUILD, K)
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
    saved = cost(SAVED, K)
    bits = membership.entering(K, t, S, drawn, M, saved, cost(OTHER, K), like)
    while bits != 0:
        place = lowest_bit(bits)
        eta = S[rate * LANES + place]
        b = membership.opened(K, S, first, M, others(K, M, place), place, eta)
        low = S[(first + b) * LANES + place]
        M[PREDICTED * LANES + place] = eta * (low - S[root * LANES + place])
        M[BASE * LANES + place] = 0.0
        rebuild(K, M, place)
        bits &= bits - 1
    bits = membership.leaving(t, M, saved, like)
    while bits != 0:
        place = lowest_bit(bits)
        V = others(K, M, place)
        base = M[BASE * LANES + place]
        eta = S[rate * LANES + place]
        S[root * LANES + place] = -M[PREDICTED * LANES + place] / eta
        membership.close(K, t, S, first, M, V, place, base, eta, saved)
        bits &= bits - 1
    membership.count(M, like)
