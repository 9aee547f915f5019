"""Leader modes in tiles of repetitions: which lanes are in one, what it costs them, when to leave.

A mode spares a lane the pass over its arms while one of them, b, has nearly all the weight.  It is
exact whoever leads; only its speed depends on how rarely another arm is played.  So a lane enters
and leaves it by what a round of either kind costs, in nanoseconds that were measured, and by its
own numbers and the round alone: a repetition does not depend on its neighbours.

The rows of a mode lie behind those of the policy.  Those named here are common to the modes of
`bothworlds.omd.leader.exponential`, `bothworlds.omd.leader.barrier` and
`bothworlds.omd.leader.powers`; the first two, and how arms lie, also to that of
`bothworlds.omd.leader`.  The numbers of the other arms of a lane lie one after another, so that a
vector holds `LANES` arms of one lane.  What these modes do alike with all arms of a lane is here
as well; symbols are those of the mode.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    advance,
    fma,
    lane_bits,
    least_lane,
    load,
    maximum,
    minimum,
    select,
    splat,
    store,
    sum_lanes,
    zeros,
)
from bothworlds.lanes.wrap import bound

LEADS, LEADER = 0, 1
"""Rows: 1 in the lanes in the mode, and b."""
SPENT, DEBT, NOT_BEFORE = 2, 3, 4
"""Rows: what rare work has cost lately, what the mode has lost since the lane entered, and the
first round in which it may enter again."""
ROOM = 5
"""Row for the weights of as many arms as a vector holds."""
HOW_MANY = 6
"""Row: the number of lanes in the mode, in every lane; see `count`."""
OWN, OWN_ROWS = 7, 36
"""First row of what a mode has of its own, and for how many there is room; then come the rows of
the others' numbers."""

NOBODY = 1e90
"""V of b's own place and of places without an arm: their weight is 0."""
FIRST = 2**14
"""First round in which a lane may enter.  Earlier rounds are few, and often some lanes of a tile
would be in the mode and others not, which costs both kinds of round."""
LOOK_EVERY = 64
"""Rounds after which lanes may enter any mode, that of `bothworlds.omd.leader` too."""
ACCOUNT_EVERY = 256
"""Rounds after which lanes may leave."""
MOST = 0.35
"""Largest share of the other arms with which a lane enters, however much a round saves."""
PENANCE = 32.0
"""Rounds a lane waits for each round's worth that it lost in the mode."""
AHEAD = 0.9
"""Where the s of a series starts, as a share of its radius, if it falls: under importance weighting
it does with every loss of the leader."""
MAX_PASSES = 200  # never reached: a bound on the loop, not a tolerance

# What the templates call by these names is filled in by `bothworlds.lanes.wrap.bound`.
newton: Any = None
weigh: Any = None


def padded(n_arms: int) -> int:
    """Return the rows that the V_i of a tile take: those of a lane fill whole vectors."""
    return -(-n_arms // LANES) * LANES


@jit
def vectors(K: int) -> int:
    """Return how many vectors the V_i of a lane take."""
    return (K + LANES - 1) // LANES


def rows(n_arms: int) -> int:
    """Return the number of rows of a mode."""
    return OWN + OWN_ROWS + padded(n_arms)


@jit
def others(K: int, M: Any, place: int) -> Any:
    """Return the V_i of the lane at ``place``.

    b's own place, and places without an arm, have `NOBODY`.
    """
    return advance(M, (OWN + OWN_ROWS + place * vectors(K)) * LANES)


@jit
def cost(of: Any, K: int) -> Any:
    """Return nanoseconds of one lane, measured: ``of`` has those of every lane and of an arm."""
    return of[0] + of[1] * K


# --- entering and leaving ------------------------------------------------------------------------


@jit
def count(M: Any, like: Any) -> None:
    """Count the lanes in the mode, after any entered or left.

    In most tiles none or all are, and a round learns it from one number.
    """
    store(M, HOW_MANY, splat(sum_lanes(load(M, LEADS, like)), like))


@jit
def nobody_leads(M: Any) -> Any:
    """Tell whether no lane is in the mode."""
    return M[HOW_MANY * LANES] == 0.0


@jit
def everybody_leads(M: Any) -> Any:
    """Tell whether all lanes are in the mode."""
    return M[HOW_MANY * LANES] == LANES


@jit
def entering(
    K: int, t: int, S: Any, drawn: int, M: Any, saved: float, other: float, like: Any
) -> Any:
    """Return the lanes that may enter in this round and have a leader, as bits.

    It is asked every `LOOK_EVERY` rounds.  Row ``drawn + i`` has the weight of arm i in the
    last round, not normalised.  A round saves so much in the mode, and one in which another arm is
    played costs ``other``.
    """
    if t < FIRST:
        return 0
    most = min(saved / other, MOST)
    total = splat(0.0, like)
    best = splat(0.0, like)
    for i in range(drawn, drawn + K):
        w = load(S, i, like)
        total = total + w
        best = maximum(best, w)
    rested = load(M, NOT_BEFORE, like) <= float(t)
    return lane_bits((load(M, LEADS, like) == 0.0) & rested & (best > (1.0 - most) * total))


@jit
def leaving(t: int, M: Any, saved: float, like: Any) -> Any:
    """Close the accounts of rounds that saved so much each, if it is time.

    Return the lanes that shall leave, as bits.
    """
    if t % ACCOUNT_EVERY != 0:
        return 0
    lost = load(M, SPENT, like) - ACCOUNT_EVERY * saved
    store(M, SPENT, splat(0.0, like))
    store(M, DEBT, load(M, DEBT, like) + lost)
    return lane_bits((load(M, LEADS, like) != 0.0) & (lost > 0.0))


@jit
def distances(K: int, L: Any, stride: int, V: Any, unit: float) -> int:
    """Make V_i = ``unit`` (L_i - min L), for estimates ``stride`` numbers apart; return b."""
    b = 0
    for i in range(1, K):
        if L[i * stride] < L[b * stride]:
            b = i
    low = L[b * stride]
    for i in range(vectors(K) * LANES):
        V[i] = NOBODY
        if i < K and i != b:
            V[i] = unit * (L[i * stride] - low)
    return b


@jit
def opened(K: int, S: Any, first: int, M: Any, V: Any, place: int, unit: float) -> Any:
    """Let a lane enter, with V_i = ``unit`` (L_i - min L); return b.

    Row ``first + i`` of the state has L_i.
    """
    b = distances(K, advance(S, first * LANES + place), LANES, V, unit)
    M[LEADS * LANES + place] = 1.0
    M[LEADER * LANES + place] = b
    M[SPENT * LANES + place] = 0.0
    M[DEBT * LANES + place] = 0.0
    return b


@jit
def close(
    K: int, t: int, S: Any, first: int, M: Any, V: Any, place: int, base: float, unit: float,
    saved: float,
) -> None:  # fmt: skip
    """Let a lane leave: write its estimates and when it may enter again.

    V_i - ``base`` is ``unit`` (L_i - L_b).
    """
    b = int(M[LEADER * LANES + place])
    low = 0.0
    for i in range(K):
        low = min(low, (V[i] - base) / unit)
    for i in range(K):
        S[(first + i) * LANES + place] = (0.0 if i == b else (V[i] - base) / unit) - low
    M[NOT_BEFORE * LANES + place] = t + PENANCE * max(M[DEBT * LANES + place], 0.0) / saved
    M[LEADS * LANES + place] = 0.0


# --- rare: one lane, all its arms --------------------------------------------------------------


@jit
def lower(K: int, V: Any, scale: float, by: float) -> Any:
    """Make every V_i of a lane ``scale`` (V_i - ``by``), and return the least."""
    like = zeros()
    low = splat(NOBODY, like)
    for i in range(vectors(K)):
        v = load(V, i, like)
        v = select(v < NOBODY, scale * (v - by), NOBODY)
        low = minimum(low, v)
        store(V, i, v)
    return least_lane(low)


@jit
def passing(K: int, M: Any, place: int, i: int, total: float, target: float) -> int:
    """Return the first arm but the leader at which the sums of weights pass ``target``, or -1.

    Row `ROOM` has the weights of the ``i``-th vector of arms; those before weigh ``total``.
    """
    leader = int(M[LEADER * LANES + place])
    for j in range(min(LANES, K - i * LANES)):
        total += M[ROOM * LANES + j]
        if total > target and i * LANES + j != leader:
            return i * LANES + j
    return -1


@jit
def heaviest(K: int, V: Any) -> int:
    """Return the arm with the least V."""
    best = 0
    for i in range(1, K):
        if V[i] < V[best]:
            best = i
    return best


@jit
def crown(K: int, M: Any, at: int, V: Any, least: float) -> float:
    """Let the arm whose V is ``least`` lead, if that is below 0; return the least V then.

    ``at`` is the place of the leader in M.
    """
    if not least < 0.0:
        return least
    now = 0
    new = NOBODY
    for i in range(K):
        if V[i] == least:
            now = i
    V[int(M[at])] = 0.0
    for i in range(K):
        V[i] -= least
        if i != now:
            new = min(new, V[i])
    V[now] = NOBODY
    M[at] = now
    return new


@jit
def head_start(v: float, radius: float) -> float:
    """Return the s of a series at `AHEAD` of its radius, if V + s is to be ``v`` at the least."""
    return AHEAD * radius * v / (1.0 + AHEAD * radius)


def settle(K: int, V: Any, z: float, p: Any, absolute: float, relative: float) -> float:
    """Return the z with which all weights sum to 1, V_i being v_i - z; a template.

    The sum is convex and decreasing: the step of ``newton``, which is given p as well, stays left
    of the root if it starts there, and z = 1 is left of it.  The search ends with a step of at most
    ``absolute`` + ``relative`` z.
    """
    z = z if z >= 1.0 else 1.0
    for _ in range(MAX_PASSES):
        d = newton(K, V, z, p)
        z = max(z + d, 1.0)
        if abs(d) <= absolute + relative * z:
            break
    return z


@jit
def whole_step(K: int, V: Any, z: float, p: int) -> Any:
    """Return Newton's step on z^-p + sum_i (z + V_i)^-p = 1, with p = 1 or 2."""
    like = zeros()
    total, slope, g = splat(0.0, like), splat(0.0, like), splat(1.0, like)
    g0 = 1.0
    r0 = 1.0 / z
    if p == 2:
        g0 = r0
    for i in range(vectors(K)):
        r = 1.0 / (load(V, i, like) + z)
        if p == 2:
            g = r
        total = fma(g, r, total)
        slope = fma(g * r, r, slope)
    return (sum_lanes(total) + (g0 * r0 - 1.0)) / (p * (sum_lanes(slope) + g0 * r0 * r0))


settle_whole = bound(settle, newton=whole_step)
"""`settle` for w_i = v_i^-p with p = 1 or 2."""


@jit
def add_powers(M: Any, first: int, order: int, w: Any, r: Any) -> None:
    """Add w r^n to row ``first + n``, for all n up to ``order``."""
    for n in range(first, first + order + 1):
        store(M, n, load(M, n, r) + w)
        w = w * r


def find_other(K: int, M: Any, V: Any, place: int, at: Any, target: float) -> Any:
    """Return the first arm but the leader at which sums of weights pass ``target``; a template.

    And its weight.  Weights are ``weigh(V_i, at)``.
    """
    like = zeros()
    total = 0.0
    for i in range(vectors(K)):
        w = weigh(load(V, i, like), at)
        store(M, ROOM, w)
        beyond = total + sum_lanes(w)
        if beyond > target:
            j = passing(K, M, place, i, total, target)
            if j >= 0:
                return j, M[ROOM * LANES + j % LANES]
        total = beyond
    j = heaviest(K, V)  # rounding: u was next to 1
    return j, weigh(V[j], at)
