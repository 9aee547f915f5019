"""The OMD step at alpha = 1/2 for importance weighting in tiles: one look at the arms a round.

Symbols are those of `bothworlds.omd.few`, and

======== ==========================================================================
``m``    v of the arm drawn after its loss, as a multiple of v before
``P_k``  v_I^k S_k: the sums in units of the arm drawn, of which it is 1 itself
``e``    what S_2 rises by because the learning rate falls
======== ==========================================================================

A look finds the sums S_k at the root, so the next root follows from them.  The loss changes the arm
drawn alone: v_I^2 S_2 = P_2 becomes P_2 + m^-2 - 1, and likewise for other powers.  With S_2 = 1,

    F = 1 - m^2 + e m^2 v_I^2,   B = (P_3 - 1) m^3 + 1,   C = (P_4 - 1) m^4 + 1

are m^2 v_I^2 E, m^3 v_I^3 S_3 and m^4 v_I^4 S_4 of the next round, and Halley's step is

    d = m v_I F B / (2 B^2 - (3/2) F C).

From there E is of the order of 1e-6, and the step of the next look ends at rounding.  Where
repetitions share a vector, a second look is one for all of them; without the prediction half of the
losses ask for it, and so nearly every vector.

The arm is certain when no cumulative weight lies between u and where it would be at the root: all
of them rise or all fall on the way, by at most E.  Any start between 1 and sqrt(K) leads to the
root; a bad one takes more looks.
"""

import math
from typing import Any

from bothworlds.lanes.jit import inlined
from bothworlds.lanes.vectors import (
    absolute,
    any_lane,
    fma,
    gather,
    joined,
    load,
    lower,
    maximum,
    minimum,
    negate,
    only_lanes,
    select,
    splat,
    splat_int,
    store,
    stride,
    upper,
    upper_rows,
)
from bothworlds.omd import recentring
from bothworlds.omd.half import (
    CENTRE,
    DRAWN,
    ESTIMATES,
    INVERSE_P,
    MAX_PASSES,
    NEAR4,
    ROOT,
    SHARE,
    SUM3,
    SUM4,
    invert,
    keep,
)

MOST = 128
"""Number of arms up to which this is faster than `bothworlds.omd.half`, measured.  With more, it
takes too long to find the least estimate."""
HALVED, BY_FOURS = 5, 24
"""Numbers of arms from which it pays to look at half of the lanes at a time, and to see on the way
only which four the draw falls among, measured."""
FIRST = 4
"""Round up to which ``e`` is 1 / 4, so that the denominator of the step in d is positive: with at
most `MOST` arms C / B^2 is at most K^(1/3) / v_I^2."""
SURE = 2e-5  # largest |E| of a last look
REACH = 1.1  # a cumulative weight moves by less than this times |E| on the way to the root


@inlined
def count_arm(v: Any, r: Any, u: Any, sums: Any) -> Any:
    """See whether u falls behind all arms before the next one, and add that to the sums."""
    S2, S3, S4, arm, drawn, below = sums
    passed = u >= S2
    arm = select(passed, arm + 1, arm)
    drawn = select(passed, v, drawn)
    below = select(passed, S2, below)
    w = r * r
    return S2 + w, fma(w, r, S3), fma(w, w, S4), arm, drawn, below


@inlined
def look_at_two(S: Any, i: int, scale: Any, low: Any, z: Any) -> Any:
    """Return v and 1 / v of arms i and i + 1."""
    v0 = fma(load(S, ESTIMATES + i, z) - low, scale, z)
    v1 = fma(load(S, ESTIMATES + i + 1, z) - low, scale, z)
    r0, r1 = invert(v0, v1)
    return v0, r0, v1, r1


@inlined
def scan_each(K: int, S: Any, scale: Any, low: Any, z: Any, u: Any) -> Any:
    """Return the sums at z, the arm at which they pass u, its v, and the sum before it."""
    zero = splat(0.0, u)
    sums = (zero, zero, zero, splat_int(-1, u), zero, zero)
    for i in range(0, K - 1, 2):
        v0, r0, v1, r1 = look_at_two(S, i, scale, low, z)
        sums = count_arm(v0, r0, u, sums)
        sums = count_arm(v1, r1, u, sums)
    if K % 2 != 0:
        v0 = fma(load(S, ESTIMATES + K - 1, z) - low, scale, z)
        sums = count_arm(v0, 1.0 / v0, u, sums)
    return sums


@inlined
def scan_halves(K: int, S: Any, scale: Any, low: Any, z: Any, u: Any) -> Any:
    """Do the same for one half of the lanes after the other."""
    one = scan_each(K, S, scale, lower(low), lower(z), lower(u))
    other = scan_each(K, upper_rows(S, u), scale, upper(low), upper(z), upper(u))
    return (
        joined(one[0], other[0], u), joined(one[1], other[1], u), joined(one[2], other[2], u),
        joined(one[3], other[3], u), joined(one[4], other[4], u), joined(one[5], other[5], u),
    )  # fmt: skip


@inlined
def scan_by_fours(K: int, S: Any, scale: Any, low: Any, z: Any, u: Any) -> Any:
    """Do the same, seeing on the way only which four arms the draw falls among."""
    zero = splat(0.0, u)
    S2, S3, S4, below = zero, zero, zero, zero
    first = splat_int(-4, u)
    for i in range(0, K, 4):
        passed = u >= S2
        first = select(passed, first + 4, first)
        below = select(passed, S2, below)
        for j in range(i, min(i + 4, K) - 1, 2):
            _, r0, _, r1 = look_at_two(S, j, scale, low, z)
            w0 = r0 * r0
            w1 = r1 * r1
            S2 = S2 + w0 + w1
            S3 = fma(w1, r1, fma(w0, r0, S3))
            S4 = fma(w1, w1, fma(w0, w0, S4))
    if K % 2 != 0:
        r0 = 1.0 / fma(load(S, ESTIMATES + K - 1, z) - low, scale, z)
        w0 = r0 * r0
        S2, S3, S4 = S2 + w0, fma(w0, r0, S3), fma(w0, w0, S4)
    # Sums that rise: a draw that does not pass an arm passes none that follow.
    arm = first
    drawn = fma(gather(S, ESTIMATES, first) - low, scale, z)
    v = drawn
    upto = below
    for j in range(1, 4):
        r = 1.0 / v
        upto = fma(r, r, upto)
        i = first + j
        here = select(i < K, i, K - 1)
        v = fma(gather(S, ESTIMATES, here) - low, scale, z)
        passed = (u >= upto) & (i < K)
        arm = select(passed, i, arm)
        drawn = select(passed, v, drawn)
        below = select(passed, upto, below)
    return S2, S3, S4, arm, drawn, below


def scan_for(n_arms: int) -> Any:
    """Return the way to look at this number of arms."""
    if n_arms >= BY_FOURS:
        return scan_by_fours
    return scan_each if n_arms < HALVED else scan_halves


@inlined
def look(K: int, S: Any, eta: float, low: Any, z: Any, u: Any, pending: Any, scan: Any) -> Any:
    """Look at all arms from z, and keep the outcome in the lanes of ``pending``, or all if None.

    Returns the arm, and the lanes whose root or arm is not certain yet.
    """
    scale = 0.5 * eta
    over = 2.0 / eta
    S[SHARE * stride(u)] = scale
    S[NEAR4 * stride(u)] = over
    sums = scan(K, S, scale, low, z, u)
    S2, S3, S4, arm, drawn, below = sums
    E = S2 - 1.0
    h = 0.5 * E
    square = S3 * S3
    d = h * S3 / maximum(fma(-1.5 * h, S4, square), 0.5 * square)
    off = absolute(E)
    reach = REACH * off
    ahead = u - below
    unsure = negate((off <= SURE) & (ahead > reach) & ((ahead + reach) * (drawn * drawn) < 1.0))
    if any_lane(unsure):
        unsure = unsure & negate(off <= 4e-15 + 1e-16 * K)
    v = drawn + d
    P = v * v
    keep(S, INVERSE_P, P, pending)
    keep(S, ROOT, fma(-over, z + d, low), pending)
    keep(S, DRAWN, v, pending)
    keep(S, SUM3, S3 * (P * v), pending)
    keep(S, SUM4, S4 * (P * P), pending)
    return arm, unsure


@inlined
def draw(K: int, S: Any, eta: float, u: Any, scan: Any) -> Any:
    """Solve the round's OMD step and draw the arm at which the weights sum past ``u``.

    ``scan`` is `scan_each`, `scan_halves` or `scan_by_fours`.
    """
    low = recentring.least(K, S, ESTIMATES, u)
    z = 0.5 * eta * (low - load(S, CENTRE, u))
    arm, pending = look(K, S, eta, low, minimum(maximum(z, 1.0), math.sqrt(K)), u, None, scan)
    passes = 1
    while any_lane(pending) and passes < MAX_PASSES:
        z = maximum(0.5 * eta * (low - load(S, ROOT, u)), 1.0)
        lanes = only_lanes(pending)
        again, unsure = look(K, S, eta, low, z, u, lanes, scan)
        arm = select(pending, again, arm)
        pending = pending & unsure
        passes += 1
    return arm


@inlined
def predict(S: Any, e: float, loss: Any) -> None:
    """Note the root of the next round, once the arm drawn has had its loss."""
    v = load(S, DRAWN, loss)
    m = fma(S[SHARE * stride(loss)] * loss, v, 1.0)
    m2 = m * m
    F = fma(m2, fma(e, v * v, -1.0), 1.0)
    B = fma(load(S, SUM3, loss) - 1.0, m2 * m, 1.0)
    C = fma(load(S, SUM4, loss) - 1.0, m2 * m2, 1.0)
    d = m * v * (F * B) / fma(-1.5 * F, C, 2.0 * (B * B))
    store(S, CENTRE, fma(-S[NEAR4 * stride(loss)], d, load(S, ROOT, loss)))
