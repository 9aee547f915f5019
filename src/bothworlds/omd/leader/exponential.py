"""The OMD step at alpha = 1, exponential weights, in leader mode: most rounds look at one arm only.

Once one arm b has nearly all the weight, it is nearly always the arm that is played.  Then all
other arms keep their distances from each other, and a short series stands for them.

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i
``V_i``  L_i - L_b as it was when the lane was last rebuilt; ``least`` is min_i V_i
``rise`` what L_b has risen by since
``e_i``  exp(-eta (V_i - rise)), the weight of arm i with e_b = 1, not normalised
``R``    sum of e_i over the other arms; ``Z`` is 1 + R
``eta_0`` the learning rate when the lane was last rebuilt, ``d`` is eta / eta_0 - 1
``c_n``  (-eta_0)^n / n! sum_i (V_i - least)^n exp(-eta_0 (V_i - least))
``cap``  exploration: p_i = (1 - K cap) e_i / Z + cap, or e_i / Z without it
======== ==========================================================================

The distance of b from the next arm changes in every round, those between other arms do not:

    R = exp(eta (rise - least)) F(eta),     F(eta) = sum_i exp(-eta (V_i - least)),

and F, a function of the learning rate alone, is the series sum_n c_n d^n.  It is used for
|d| <= `RADIUS`; what it leaves out is below K RADIUS^(ORDER + 1) / 6 of R, as x^n e^-x / n! is
below 1/6 for n >= 6.  Beyond, after a round in which another arm was played, where another arm has
come to lead, and every `RECENTRE_EVERY` rounds, which keeps the digits of ``rise``, the lane is
rebuilt from all arms.  Where eta (rise - least) < `QUIET`, R is nothing next to 1 and is not
computed: late in a run this is nearly every round.

The leader is first in the order of the draw.  Otherwise the lane looks at its other arms, or, if
exploration is what chose another arm, at that one only.

Lanes enter and leave the mode by the rule of `bothworlds.omd.leader.membership`.  Lanes outside it
are played by the policy's own kernels, which see the lanes in it with the estimates they had on
entering.
"""

from typing import Any

from bothworlds.lanes.functions import exp
from bothworlds.lanes.jit import inlined, jit, rarely
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    absolute,
    advance,
    any_lane,
    fma,
    lane_bits,
    load,
    lowest_bit,
    negate,
    select,
    splat,
    sqrt,
    store,
    sum_lanes,
    to_index,
    whole,
    zeros,
)
from bothworlds.omd.leader import membership
from bothworlds.omd.leader.layout import others, vectors
from bothworlds.omd.leader.membership import LEADER, LEADS, OWN, SPENT, cost
from bothworlds.omd.leader.rebuilding import crown, lower
from bothworlds.omd.recentring import RECENTRE_EVERY

RADIUS = 1 / 256
ORDER = 5
QUIET = -50.0
"""Exponent below which the leader's own weight is 1 to the last digit."""

ENOUGH = 0.25
"""Least c_0: where the arms that led the rest have fallen behind, digits of the c_n are lost."""
STEP = 1 / 64
"""Largest step of x after which its exponential is corrected rather than computed again."""

RISE, LEAST, SCALE = OWN, OWN + 1, OWN + 2
"""Rows: ``rise``, ``least`` and 1 / eta_0."""
AT, THERE = OWN + 3, OWN + 4
"""Rows: the last x, and its exponential."""
PICK, TARGET, SUM = OWN + 5, OWN + 6, OWN + 7
"""Rows for the arm drawn, the share of the draw and Z, in rounds in which another is played."""
PLAYS, LOSSES = OWN + 8, OWN + 9
"""Rows: how often b was played, and with which losses, since they were last written to the counts
of the arms."""
SERIES = OWN + 10
"""First row of c_0, c_1, ..."""
SUMS = SERIES + ORDER + 1
"""First of as many rows in which they are summed."""
ROOM = SUMS + ORDER + 1
"""Row for a vector that is examined number by number."""

SAVED, OTHER, REBUILD = (1.0, 1.2), (200.0, 0.5), (100.0, 2.0)
"""Savings of a round that looks at no arm, the cost of a round in which another arm is played, and
the cost of a rebuild; see `membership.cost`."""


@jit
def rate(constant: float, t: int) -> Any:
    """Return `anytime_rate`, given ln K / K: the logarithm would be a quarter of a round."""
    return sqrt(constant / t)


# --- rare: one lane, all its arms --------------------------------------------------------------


@jit
def rebuild(K: int, M: Any, place: int, eta: float, tally: Any) -> Any:
    """Find leader and series of a lane again; return R.

    ``tally`` are the rows that count the plays and losses of every arm, if there are any.
    """
    V = others(K, M, place, LANES)
    least = lower(K, V, 1.0, M[RISE * LANES + place], None, 0.0)
    if tally is not None and least < 0.0:
        write_counts(K, M, place, tally)
    least = crown(K, M, LEADER * LANES + place, V, least)
    M[RISE * LANES + place] = 0.0
    M[LEAST * LANES + place] = least
    M[SCALE * LANES + place] = 1.0 / eta
    sum_terms(K, M, V, place, eta, least)
    M[AT * LANES + place] = -eta * least
    M[THERE * LANES + place] = exp(-eta * least)
    return M[THERE * LANES + place] * M[SERIES * LANES + place]


@jit
def sum_terms(K: int, M: Any, V: Any, place: int, eta: float, least: float) -> None:
    """Compute the c_n of a lane."""
    like = zeros()
    room = whole(M)
    for n in range(ORDER + 1):
        store(room, SUMS + n, like)
    for i in range(vectors(K)):
        y = eta * (least - load(V, i, like))
        p = exp(y)
        # Where exp is 0, powers of y may be too large.
        y = select(p > 0.0, y, 0.0)
        for n in range(SUMS, SUMS + ORDER + 1):
            store(room, n, load(room, n, like) + p)
            p = p * y
    factorial = 1.0
    for n in range(ORDER + 1):
        M[(SERIES + n) * LANES + place] = sum_lanes(load(room, SUMS + n, like)) / factorial
        factorial *= n + 1


@jit
def move_other(K: int, M: Any, place: int, arm: int, by: float, tally: Any) -> None:
    """Add ``by`` to the V of an arm, and let the series know."""
    V = others(K, M, place, LANES)
    eta = 1.0 / M[SCALE * LANES + place]
    least = M[LEAST * LANES + place]
    y0 = eta * (least - V[arm])
    V[arm] += by
    y1 = eta * (least - V[arm])
    p0 = exp(y0)
    p1 = exp(y1)
    M[SERIES * LANES + place] += p1 - p0
    factorial = 1.0
    for n in range(1, ORDER + 1):
        p0 *= y0
        p1 *= y1
        factorial *= n
        M[(SERIES + n) * LANES + place] += (p1 - p0) / factorial
    if not M[SERIES * LANES + place] >= ENOUGH:
        rebuild(K, M, place, eta, tally)
        M[SPENT * LANES + place] += cost(REBUILD, K)


@jit
def find_other(K: int, M: Any, V: Any, place: int, eta: float, target: float) -> Any:
    """Return the first arm but the leader at which sums of e pass ``target``, and its e."""
    like = zeros()
    room = whole(M)
    rise = M[RISE * LANES + place]
    leader = int(M[LEADER * LANES + place])
    total = 0.0
    for i in range(vectors(K)):
        e = exp(eta * (rise - load(V, i, like)))
        beyond = total + sum_lanes(e)
        if beyond > target:
            store(room, ROOM, e)
            for j in range(min(LANES, K - i * LANES)):
                total += room[ROOM * LANES + j]
                if total > target and i * LANES + j != leader:
                    return i * LANES + j, room[ROOM * LANES + j]
        total = beyond
    best = 0  # rounding: u was next to 1
    for i in range(1, K):
        if V[i] < V[best]:
            best = i
    return best, exp(eta * (rise - V[best]))


@jit
def find_any(K: int, M: Any, place: int, share: float) -> int:
    """Return the arm at ``share`` of all but the leader."""
    leader = int(M[LEADER * LANES + place])
    j = min(int(share * (K - 1)), K - 2)
    return j if j < leader else j + 1


@jit
def write_counts(K: int, M: Any, place: int, tally: Any) -> None:
    """Write the leader's plays and losses to the counts of the arms."""
    b = int(M[LEADER * LANES + place])
    tally[b * LANES + place] += M[PLAYS * LANES + place]
    tally[(K + b) * LANES + place] += M[LOSSES * LANES + place]
    M[PLAYS * LANES + place] = 0.0
    M[LOSSES * LANES + place] = 0.0


# --- the round -----------------------------------------------------------------------------------


@jit
def grown(h: Any) -> Any:
    """Return e^h for |h| <= `STEP`."""
    h2 = h * h
    low = fma(fma(h, 1 / 6, 1 / 2), h2, 1.0 + h)
    high = fma(fma(h, 1 / 5040, 1 / 720), h2, fma(h, 1 / 120, 1 / 24))
    return fma(high, h2 * h2, low)


@jit
@rarely
def rebuild_some(K: int, M: Any, eta: float, tally: Any, bits: int, Z: Any) -> Any:
    """Rebuild the series of some lanes; return Z."""
    store(M, ROOM, Z)
    while bits != 0:
        place = lowest_bit(bits)
        M[ROOM * LANES + place] = 1.0 + rebuild(K, M, place, eta, tally)
        M[SPENT * LANES + place] += cost(REBUILD, K)
        bits &= bits - 1
    return load(M, ROOM, Z)


@inlined
def draw(K: int, S: Any, M: Any, eta: float, cap: Any, tally: Any, leads: Any, u: Any) -> Any:
    """Find the weights and draw an arm, in the lanes in the mode; row 0 takes 1 / p.

    These lanes are ``leads``, or None for all.  ``cap`` is the exploration of every arm, or None.
    """
    x = eta * (load(M, RISE, u) - load(M, LEAST, u))
    Z = splat(1.0, u)
    near = negate(x < QUIET)
    if leads is not None:
        near = near & leads
    if any_lane(near):
        d = fma(load(M, SCALE, u), eta, -1.0)
        low = fma(load(M, SERIES + 1, u), d, load(M, SERIES, u))
        middle = fma(load(M, SERIES + 3, u), d, load(M, SERIES + 2, u))
        high = fma(load(M, SERIES + 5, u), d, load(M, SERIES + 4, u))
        d2 = d * d
        F = fma(fma(high, d2, middle), d2, low)
        before = load(M, AT, u)
        there = load(M, THERE, u)
        h = x - before
        e = there * grown(h)
        store(M, AT, select(near, x, before))
        store(M, THERE, select(near, e, there))
        Z = select(near, fma(e, F, 1.0), 1.0)
        within = (absolute(d) <= RADIUS) & (absolute(h) <= STEP) & (x <= 0.0)
        astray = near & negate(within)
        if any_lane(astray):
            Z = rebuild_some(K, M, eta, tally, lane_bits(astray), Z)
    top = splat(1.0, u)  # p_b Z
    if cap is not None:
        top = fma(Z, cap, 1.0 - K * cap)
    store(S, 0, Z if cap is None else Z / top)
    arm = load(M, LEADER, u)
    beyond = fma(u, Z, -top)
    passed = beyond >= 0.0
    if leads is not None:
        passed = passed & leads
    if any_lane(passed):
        arm = draw_others(K, S, M, eta, cap, lane_bits(passed), arm, beyond, Z)
    return to_index(arm)


@jit
@rarely
def draw_others(
    K: int, S: Any, M: Any, eta: float, cap: Any, bits: int, arm: Any, beyond: Any, Z: Any
) -> Any:
    """Draw another arm than the leader in some lanes."""
    store(M, PICK, arm)
    store(M, TARGET, beyond)
    store(M, SUM, Z)
    while bits != 0:
        draw_other(K, S, M, lowest_bit(bits), eta, cap)
        bits &= bits - 1
    return load(M, PICK, arm)


@jit
def draw_other(K: int, S: Any, M: Any, place: int, eta: float, cap: Any) -> None:
    """Draw another arm than the leader in a lane."""
    V = others(K, M, place, LANES)
    Z = M[SUM * LANES + place]
    target = M[TARGET * LANES + place]
    share = 1.0
    floor = 0.0
    if cap is not None:
        share = 1.0 - K * cap
        floor = cap * Z
        target = target - floor * (K - 1)
    if cap is not None and target < 0.0:
        j = find_any(K, M, place, 1.0 + target / (floor * (K - 1)))
        e = exp(eta * (M[RISE * LANES + place] - V[j]))
    else:
        j, e = find_other(K, M, V, place, eta, target / share)
    S[place] = Z / fma(e, share, floor)
    M[PICK * LANES + place] = j
    M[SPENT * LANES + place] += cost(OTHER, K)


@inlined
def learn(K: int, M: Any, leads: Any, arm: Any, by: Any, loss: Any, tally: Any) -> None:
    """Add ``by`` to the estimate of the arm just drawn, in the lanes in the mode."""
    strays = arm != to_index(load(M, LEADER, by))
    led = negate(strays)
    if leads is not None:
        strays = strays & leads
        led = led & leads
    store(M, RISE, load(M, RISE, by) + select(led, by, 0.0))
    if tally is not None:
        store(M, PLAYS, load(M, PLAYS, by) + select(led, splat(1.0, by), 0.0))
        store(M, LOSSES, load(M, LOSSES, by) + select(led, loss, 0.0))
    if any_lane(strays):
        learn_others(K, M, lane_bits(strays), by, loss, tally)


@jit
@rarely
def learn_others(K: int, M: Any, bits: int, by: Any, loss: Any, tally: Any) -> None:
    """Do the same in the lanes in which it was not the leader."""
    store(M, TARGET, by)
    store(M, SUM, loss)
    while bits != 0:
        place = lowest_bit(bits)
        j = int(M[PICK * LANES + place])
        move_other(K, M, place, j, M[TARGET * LANES + place], tally)
        if tally is not None:
            tally[j * LANES + place] += 1.0
            tally[(K + j) * LANES + place] += M[SUM * LANES + place]
        bits &= bits - 1


# --- entering and leaving ------------------------------------------------------------------------


@jit
def look_around(
    K: int, t: int, S: Any, first: int, drawn: int, M: Any, eta: float, tally: Any, like: Any
) -> None:
    """Let lanes enter and leave the mode, in the rounds in which they may.

    Estimates begin at row ``first`` of the state, the weights of the last round at row ``drawn``.
    """
    best, total = membership.heaviest(K, S, drawn, like)
    leaving, entering = membership.decide(
        t, M, best, total, cost(SAVED, K), cost(OTHER, K), membership.FIRST, None
    )
    while entering != 0:
        place = lowest_bit(entering)
        V = others(K, M, place, LANES)
        L = advance(S, first * LANES + place)
        b = membership.distances(K, L, LANES, V, vectors(K) * LANES, 1.0)
        membership.open_lane(M, place, LANES, b)
        M[RISE * LANES + place] = 0.0
        M[PLAYS * LANES + place] = 0.0
        M[LOSSES * LANES + place] = 0.0
        rebuild(K, M, place, eta, tally)
        entering &= entering - 1
    if t % RECENTRE_EVERY == 0:
        bits = lane_bits(load(M, LEADS, like) != 0.0)
        while bits != 0:
            rebuild(K, M, lowest_bit(bits), eta, tally)
            bits &= bits - 1
    leave(K, t, S, first, M, tally, leaving)


@jit
def leave(K: int, t: int, S: Any, first: int, M: Any, tally: Any, bits: int) -> None:
    """End the mode in some lanes."""
    while bits != 0:
        place = lowest_bit(bits)
        if tally is not None:
            write_counts(K, M, place, tally)
        V = others(K, M, place, LANES)
        V[int(M[LEADER * LANES + place])] = M[RISE * LANES + place]
        L = advance(S, first * LANES + place)
        for i in range(K):
            L[i * LANES] = V[i] - M[RISE * LANES + place]
        membership.write_estimates(K, L, LANES, 1.0)
        membership.close_lane(t, M, place, LANES)
        bits &= bits - 1
