"""The OMD step for any alpha below 1 in leader mode: most rounds look at one arm only.

Once one arm b has nearly all the weight, it is nearly always the arm that is played.  Then all
other arms keep their distances from each other, and a Taylor series stands for them.

======== ==========================================================================
``c``    1 - alpha, and ``p`` is 1 / c
``v_i``  c eta (L_i - x), so that w_i = v_i^-p; ``z`` is v_b
``Y``    z^p = 1 / w_b
``W``    sum of w_i over the others, so that 1 / Y + W = 1
``o``    1 - W, the weight of the leader
``V_i``  v_i as it was when the lane was last rebuilt, up to a common shift
``q``    eta_0 / eta, with eta_0 the learning rate of that round
``s``    what the others have moved by since: v_i = (V_i + s) / q, with s = q z - ``base``
``c_n``  binom(-p, n) sum_i V_i^-(p+n), so that W = q^p sum_n c_n s^n
======== ==========================================================================

A round finds z and Y from the series, without a division or a power: with e = 1 - o Y and
a = c z Y W'(z), Newton's step on z = o^-c multiplies z by 1 + h,

    h = (c e + c (c + 1) / 2 e^2) (1 + a + a^2),

and Y by (1 + h)^p, of which four terms are enough.  In the rare rounds in which it is not small
enough it is repeated, with Y computed anew as a power.  Only rounding parts z^p from Y until that
is next done, and the weights do not feel it: the others depend on z by z / v_i, the leader on Y
alone.

The leader is first in the order of the draw: it is played if u < o, and its loss moves ``base``.
Otherwise the lane looks at its other arms, which takes a power each; the one that is played moves
its V and the c_n.

The series is used for |s| <= R min V, with R such that what it leaves out is |binom(-p, 10)| R^10
= 1e-14 of W: a 27th at alpha = 1/4, a 44th at 3/4.  Beyond, or where z does not converge, the lane
is rebuilt from all arms: another arm may then be the leader.

**Reduced variance.**  Near arms, those with w_i >= eta^2 and so v_i <= eta^-2c, all rise by B = 1/2
in every round, and the leader is one of them.  Only differences matter: seen from the near arms,
these stand still and the far ones fall by B.  Below alpha = 1/2 the others are near as a rule; in
the rounds in which one is far its V and the c_n take the fall.  The highest V tells when that may
be: V_i + s <= ``brink`` = q eta^-2c, which only rises while the learning rate falls.  A near arm
that is played may fall, by c eta / 2 of 1 / w_i, which is less than c eta^(1 - 2 alpha) / 2 of v_i.

Lanes enter and leave the mode by the rule of `bothworlds.omd.leader.membership`.  Lanes outside it
are played by `bothworlds.omd.powers`, which sees the lanes in it with the estimates they had on
entering.  An argument ``reduced`` is None for importance weighting.
"""

from typing import Any

from bothworlds.lanes.functions import exp, log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    absolute,
    any_lane,
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
    to_float,
    to_int,
    zeros,
)
from bothworlds.lanes.wrap import bound
from bothworlds.omd import powers
from bothworlds.omd.estimators import BASELINE, correction
from bothworlds.omd.leader import membership
from bothworlds.omd.leader.layout import ORDER
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
    vectors,
)
from bothworlds.omd.leader.series import evaluate

LEFT_OUT = 1e-14
"""What the series leaves out, as a share of W."""
LARGEST_RATE = 0.5
"""Reduced variance goes without the mode at larger learning rates: its leader must be near."""
EAGER = 0.6
"""Share of what the rounds save that plays of other arms may cost when a lane enters.  Lanes do not
enter all at once, and until they have, a round costs both ways of playing it, and these plays."""
WORTH = 1.5
"""How many times what the rounds save rare work may cost before a lane leaves."""
EXTREME = 1e20
"""Learning rates beyond this, or below its inverse, go without the mode: their powers are no
numbers."""

PREDICTED, INVERSE, SLOPE = OWN, OWN + 1, OWN + 2
"""Rows: z, Y, and the h by which z moves with a unit of the leader's estimate."""
BASE, REACH, RATE, RATE_POWER = OWN + 3, OWN + 4, OWN + 5, OWN + 6
"""Rows: ``base``, the largest |s|, eta_0 and eta_0^p."""
ARM, BY, WEIGHT, DRAW = OWN + 7, OWN + 8, OWN + 9, OWN + 10
"""Rows, within a round in which something rare happens: the arm, s or what is learned, o and u."""
HIGHEST, BRINK, FAR, SHIFT = OWN + 11, OWN + 12, OWN + 13, OWN + 14
"""Rows, for reduced variance: the highest V, a lower bound of ``brink``, 1 where some arm is far in
this round, and s there."""
NEXT = OWN + 15
"""Row with the next round, its eta, 1 / eta and eta^-p, in its first places: known a round ahead,
nobody waits for a division."""
SERIES = OWN + 16
"""First row of c_0, c_1, ..."""
SUMS = SERIES + ORDER + 1
"""First of as many rows in which they are summed."""

SHAPE, RADIUS, BINOMIALS = 0, 1, 2
"""Places in what the kernels take as ``B``, see `parameters`."""

SAVED, OTHER, REBUILD = (6.0, 1.15), (330.0, 3.0), (350.0, 6.0)
"""What a round saves that looks at no arm, what one costs in which another arm is played, and what
a rebuild does; see `membership.cost`."""

MAX_STEPS = 4
TOLERANCE = 3e-14  # of Y


@jit
def sliding_cost(K: int) -> float:
    """Return what it costs to look for far arms among so many; to let one fall costs as much.

    `WORTH` times that: arms that slide along ``brink`` do not stop sliding.
    """
    return WORTH * (80.0 + 0.7 * K)


@jit
def first_round(K: int) -> int:
    """Return the first round in which a lane may enter.

    With more arms, others than the leader are played for longer.
    """
    return min(max(2**12 * K, membership.FIRST), 2**16)


def parameters(alpha: float) -> list[float]:
    """Return c, the radius R and binom(-p, n) for every c_n.

    Examples
    --------
    >>> [round(1 / parameters(alpha)[1]) for alpha in (0.0, 0.25, 0.5, 0.75, 0.9)]
    [25, 27, 32, 44, 79]
    >>> parameters(0.5)[2:7]
    [1.0, -2.0, 3.0, -4.0, 5.0]
    """
    c = 1.0 - alpha
    binomials = [1.0]
    for n in range(ORDER + 1):
        binomials.append(-binomials[-1] * (1.0 / c + n) / (n + 1))
    radius = (LEFT_OUT / abs(binomials.pop())) ** (1.0 / (ORDER + 1))
    return [c, radius, *binomials]


# --- rare: one lane, all its arms --------------------------------------------------------------


@jit
def power(v: Any, c: float) -> Any:
    """Return v^-p."""
    return powers.raised(1.0 / v, log(v), c)


@jit
def step_of_all(K: int, V: Any, z: float, c: float) -> Any:
    """Return Newton's step on sum_i (z + V_i)^-p = 1 over all arms."""
    like = zeros()
    total = splat(0.0, like)
    D = splat(0.0, like)
    for i in range(vectors(K)):
        v = load(V, i, like) + z
        r = 1.0 / v
        w = powers.raised(r, log(v), c)
        total = total + w
        D = fma(w, r, D)
    return c * (sum_lanes(total) - 1.0) / sum_lanes(D)


settle = bound(membership.settle, newton=step_of_all)


@jit
def rebuild(K: int, M: Any, place: int, B: Any, eta: float, reduced: Any) -> None:
    """Find leader, z, Y and series of a lane anew."""
    c = B[SHAPE]
    R = B[RADIUS]
    V = others(K, M, place)
    rho = eta / M[RATE * LANES + place]
    least = lower(K, V, rho, M[BASE * LANES + place])
    least = crown(K, M, LEADER * LANES + place, V, least)
    b = int(M[LEADER * LANES + place])
    V[b] = 0.0
    z = settle(K, V, M[PREDICTED * LANES + place], c, 1e-8, 0.0)
    V[b] = NOBODY
    ahead = 0.0
    if reduced is None:
        ahead = head_start(least + z, R)
    M[PREDICTED * LANES + place] = z
    M[INVERSE * LANES + place] = 1.0 / power(z, c)
    M[SLOPE * LANES + place] = 0.0
    M[BASE * LANES + place] = z - ahead
    M[REACH * LANES + place] = R * (least + z - ahead)
    M[RATE * LANES + place] = eta
    M[RATE_POWER * LANES + place] = 1.0 / power(eta, c)
    highest = sum_powers(K, M, V, place, z - ahead, B)
    if reduced is not None:
        M[HIGHEST * LANES + place] = highest
        M[BRINK * LANES + place] = exp(-2.0 * c * log(eta))


@jit
def sum_powers(K: int, M: Any, V: Any, place: int, shift: float, B: Any) -> Any:
    """Add ``shift`` to every V_i and compute the c_n of a lane; return the highest V."""
    c = B[SHAPE]
    like = zeros()
    low = splat(0.0, like)
    for n in range(ORDER + 1):
        store(M, SUMS + n, like)
    for i in range(vectors(K)):
        v = load(V, i, like)
        v = select(v < NOBODY, v + shift, v)
        store(V, i, v)
        low = minimum(low, select(v < NOBODY, -v, 0.0))
        r = 1.0 / v
        w = powers.raised(r, log(v), c)
        add_powers(M, SUMS, ORDER, w, r)
    for n in range(ORDER + 1):
        total = sum_lanes(load(M, SUMS + n, like))
        M[(SERIES + n) * LANES + place] = B[BINOMIALS + n] * total
    return -least_lane(low)


@jit
def weigh(v: Any, at: Any) -> Any:
    """Return (V + s)^-p of an arm by its V."""
    s, c = at
    return power(v + s, c)


find_other = bound(membership.find_other, weigh=weigh)


@jit
def move_other(K: int, M: Any, place: int, arm: int, by: float, B: Any) -> None:
    """Add ``by`` to the V of an arm, and let the series know."""
    V = others(K, M, place)
    sign = -1.0
    for _ in range(2):
        r = 1.0 / V[arm]
        w = sign * powers.raised(r, log(V[arm]), B[SHAPE])
        for n in range(ORDER + 1):
            M[(SERIES + n) * LANES + place] += B[BINOMIALS + n] * w
            w *= r
        V[arm] += 0.5 * (1.0 - sign) * by
        sign = 1.0


# --- the round -----------------------------------------------------------------------------------


@jit
def grown(Y: Any, h: Any, c: float) -> Any:
    """Return Y (1 + h)^p for small h."""
    p = 1.0 / c
    second = 0.5 * (p - 1.0)
    third = second * (p - 2.0) * (1 / 3)
    return fma(Y * (p * h), fma(fma(third, h, second), h, 1.0), Y)


@jit
def step(M: Any, q: Any, growth: Any, s: Any, z: Any, Y: Any, c: float) -> Any:
    """Return h, the weight of the leader after it, W' c Y and a, and the lanes to step again.

    ``growth`` is q^p.
    """
    value, slope = evaluate(M, SERIES, s)
    # A fourth term leaves an error of 5e-5, and nearly all rounds with one step.
    slope = fma(load(M, SERIES + 4, s) * (4.0 * s), s * s, slope)
    o = fma(-growth, value, 1.0)
    slope = growth * (q * slope)  # W'(z)
    a_over = c * (Y * slope)
    a = z * a_over
    e = fma(-o, Y, 1.0)
    h = e * (fma(0.5 * c * (c + 1.0), e, c) * fma(a, a, 1.0 + a))
    size = absolute(e)
    left = size * fma(absolute(a), fma(a, a, fma(size, 4.0, 5e-5)), e * e)
    return h, fma(-slope, z * h, o), a_over, a, negate(left <= TOLERANCE)


@jit
def draw(
    K: int, S: Any, M: Any, B: Any, eta: float, over: float, over_power: float, reduced: Any,
    leads: Any, u: Any,
) -> Any:  # fmt: skip
    """Find the weights and draw an arm, in the lanes in the mode.

    ``over`` is 1 / eta and ``over_power`` eta^-p; row 0 of the state takes 1 / w.  Everything rare
    is left to `look_closer`, so that what is common stays in registers.
    """
    c = B[SHAPE]
    q = load(M, RATE, u) * over
    growth = load(M, RATE_POWER, u) * over_power
    z = load(M, PREDICTED, u)
    Y = load(M, INVERSE, u)
    s = fma(z, q, -load(M, BASE, u))
    h, weight, a_over, a, pending = step(M, q, growth, s, z, Y, c)
    s = fma(z * h, q, s)
    z = fma(z, h, z)
    Y = grown(Y, h, c)
    # What z and so h moves by, to second order, for what the leader's estimate moves by.
    store(M, SLOPE, (-c * eta) * fma(a_over, a, a_over))
    store(M, PREDICTED, z)
    store(M, INVERSE, Y)
    store(S, 0, Y)
    rare = pending | negate(absolute(s) <= load(M, REACH, u)) | (u >= weight)
    if reduced is not None:
        rare = rare | (load(M, HIGHEST, u) + s > load(M, BRINK, u))
        store(M, FAR, splat(0.0, u))
    rare = rare & leads
    if any_lane(rare):
        return look_closer(
            K, S, M, B, eta, over, over_power, reduced, rare, u, z, Y, s, weight, pending
        )
    return to_int(load(M, LEADER, u))


@jit
def look_closer(
    K: int, S: Any, M: Any, B: Any, eta: float, over: float, over_power: float, reduced: Any,
    rare: Any, u: Any, z: Any, Y: Any, s: Any, weight: Any, pending: Any,
) -> Any:  # fmt: skip
    """Finish a round in which some lane needs more than one step to find its leader playing."""
    c = B[SHAPE]
    q = load(M, RATE, u) * over
    growth = load(M, RATE_POWER, u) * over_power
    pending = pending & rare
    steps = 1
    while any_lane(pending) and steps < MAX_STEPS:
        # The step before may have been too long for the terms of `grown`.
        Y = select(pending, 1.0 / power(z, c), Y)
        h, again, _, _, unsure = step(M, q, growth, s, z, Y, c)
        h = select(pending, h, 0.0)
        s = fma(z * h, q, s)
        z = fma(z, h, z)
        Y = grown(Y, h, c)
        weight = select(pending, again, weight)
        pending = pending & unsure
        steps += 1
    store(M, PREDICTED, z)
    store(M, INVERSE, Y)
    store(S, 0, Y)
    store(M, BY, select(pending, NOBODY, s))  # beyond any radius
    store(M, WEIGHT, weight)
    store(M, DRAW, u)
    store(M, ARM, load(M, LEADER, u))
    bits = lane_bits(rare)
    while bits != 0:
        finish(K, S, M, lowest_bit(bits), B, eta, over_power, reduced)
        bits &= bits - 1
    return to_int(load(M, ARM, u))


@jit
def finish(
    K: int, S: Any, M: Any, place: int, B: Any, eta: float, over_power: float, reduced: Any
) -> None:
    """Rebuild a lane, if it is time, and draw."""
    s = M[BY * LANES + place]
    weight = M[WEIGHT * LANES + place]
    growth = M[RATE_POWER * LANES + place] * over_power
    if not abs(s) <= M[REACH * LANES + place]:
        rebuild(K, M, place, B, eta, reduced)
        Y = M[INVERSE * LANES + place]
        weight = 1.0 / Y
        growth = 1.0
        s = M[PREDICTED * LANES + place] - M[BASE * LANES + place]
        S[place] = Y
        M[ARM * LANES + place] = M[LEADER * LANES + place]
        M[SPENT * LANES + place] += cost(REBUILD, K)
    if reduced is not None and M[HIGHEST * LANES + place] + s > M[BRINK * LANES + place]:
        # The bound is old.
        brink = M[RATE * LANES + place] / eta * exp(-2.0 * B[SHAPE] * log(eta))
        M[BRINK * LANES + place] = brink
        M[SHIFT * LANES + place] = s
        M[SPENT * LANES + place] += sliding_cost(0)
        if M[HIGHEST * LANES + place] + s > brink:
            M[FAR * LANES + place] = 1.0
            M[SPENT * LANES + place] += sliding_cost(K)
    u = M[DRAW * LANES + place]
    if u >= weight:
        V = others(K, M, place)
        j, w = find_other(K, M, V, place, (s, B[SHAPE]), (u - weight) / growth)
        M[ARM * LANES + place] = j
        S[place] = 1.0 / (w * growth)
        M[SPENT * LANES + place] += cost(OTHER, K)


@jit
def learn(
    K: int, M: Any, B: Any, reduced: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Add to the estimate of the arm just drawn, in the lanes in the mode."""
    c = B[SHAPE]
    other = to_float(arm) != load(M, LEADER, loss)
    base = 0.0
    if reduced is not None:
        base = BASELINE
    led = select(other, 0.0, correction(loss, base, inverse_p))
    h = load(M, SLOPE, loss) * led
    z = load(M, PREDICTED, loss)
    store(M, BASE, fma(c * load(M, RATE, loss), led, load(M, BASE, loss)))
    store(M, PREDICTED, fma(z, h, z))
    store(M, INVERSE, grown(load(M, INVERSE, loss), h, c))
    rare = other & leads
    if reduced is not None:
        rare = leads & (other | (load(M, FAR, loss) != 0.0))
    bits = lane_bits(rare)
    if bits != 0:
        store(M, ARM, to_float(arm))
        store(M, BY, inverse_p)
        store(M, DRAW, loss)
        while bits != 0:
            learn_others(K, M, lowest_bit(bits), B, reduced)
            bits &= bits - 1


@jit
def learn_others(K: int, M: Any, place: int, B: Any, reduced: Any) -> None:
    """Add to the estimates of other arms than the leader, in a lane in which some move."""
    unit = B[SHAPE] * M[RATE * LANES + place]
    arm = int(M[ARM * LANES + place])
    loss = M[DRAW * LANES + place]
    inverse_p = M[BY * LANES + place]
    first = arm
    last = arm + 1
    if reduced is not None and M[FAR * LANES + place] != 0.0:
        first = 0
        last = K
    leader = int(M[LEADER * LANES + place])
    for i in range(first, last):
        base = 0.0
        by = 0.0
        if reduced is not None:
            v = others(K, M, place)[i] + M[SHIFT * LANES + place]
            base = BASELINE
            if M[FAR * LANES + place] != 0.0 and v > M[BRINK * LANES + place]:
                base = 0.0
                by = -BASELINE
        if i == arm:
            by += correction(loss, base, inverse_p)
        if i != leader and by != 0.0:
            move_other(K, M, place, i, unit * by, B)
            if reduced is not None:
                new = others(K, M, place)[i]
                M[HIGHEST * LANES + place] = max(M[HIGHEST * LANES + place], new)
                M[REACH * LANES + place] = min(M[REACH * LANES + place], B[RADIUS] * new)
                M[SPENT * LANES + place] += sliding_cost(0)


# --- entering and leaving ------------------------------------------------------------------------


@jit
def look_around(
    K: int, t: int, S: Any, M: Any, B: Any, eta: float, largest: float, like: Any
) -> None:
    """Let lanes enter and leave the mode, in the rounds in which they may.

    ``largest`` is the largest learning rate with which they enter.
    """
    saved = cost(SAVED, K)
    if t >= first_round(K) and eta * EXTREME >= 1.0 and eta <= largest:
        drawn = powers.ESTIMATES + 2 * K
        bits = membership.entering(K, t, S, drawn, M, EAGER * saved, cost(OTHER, K), like)
        while bits != 0:
            enter(K, S, M, lowest_bit(bits), B[SHAPE], eta)
            bits &= bits - 1
    bits = membership.leaving(t, M, WORTH * saved, like)
    while bits != 0:
        leave(K, t, S, M, lowest_bit(bits), B[SHAPE], eta)
        bits &= bits - 1
    membership.count(M, like)


@jit
def enter(K: int, S: Any, M: Any, place: int, c: float, eta: float) -> None:
    """Begin the mode in a lane, from its estimates."""
    b = membership.opened(K, S, powers.ESTIMATES, M, others(K, M, place), place, c * eta)
    low = S[(powers.ESTIMATES + b) * LANES + place]
    rest(M, place)
    M[PREDICTED * LANES + place] = 1.0 + c * eta * (low - S[powers.FRAME * LANES + place])
    M[RATE * LANES + place] = eta
    M[REACH * LANES + place] = -1.0  # so that the round's draw rebuilds it


@jit
def rest(M: Any, place: int) -> None:
    """Let the numbers of a lane be such that they stay as they are whatever the rounds are."""
    for row in range(OWN, SERIES + ORDER + 1):
        if row != NEXT:
            M[row * LANES + place] = 0.0
    M[PREDICTED * LANES + place] = 1.0
    M[INVERSE * LANES + place] = 1.0


@jit
def leave(K: int, t: int, S: Any, M: Any, place: int, c: float, eta: float) -> None:
    """End the mode in a lane: write its estimates, and let the solver start near the root."""
    V = others(K, M, place)
    base = M[BASE * LANES + place]
    unit = c * M[RATE * LANES + place]
    membership.close(K, t, S, powers.ESTIMATES, M, V, place, base, unit, cost(SAVED, K))
    b = int(M[LEADER * LANES + place])
    z = M[PREDICTED * LANES + place]
    y = S[(powers.ESTIMATES + b) * LANES + place] - (z - 1.0) / (c * eta)
    powers.restart(K, S, place, y)
    rest(M, place)  # its rounds go on, unread
