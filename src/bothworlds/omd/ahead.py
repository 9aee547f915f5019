"""The OMD step at alpha = 1/2 in tiles, from a root foreseen: one look at the arms a round.

Symbols are those of `bothworlds.omd.few`, and

============ ======================================================================
``N_k``      sum_i v_i^(-k) over the near arms, those with w_i >= eta^2
``rise``     (eta / 2) B, by which reduced variance raises v of the near arms
``s``        rise N_3 / S_3: the root follows the near arms so far, to first order
``v``, ``m`` v of the arm drawn after these shifts, and after its own loss
``e``        what else S_2 rises by: the learning rate falls by 1 / (2t), and the near arms
             part from the others by 3 ((rise - s)^2 N_4 + s^2 (S_4 - N_4)), to second order
============ ======================================================================

A look finds the sums at the root, so the next root follows from them.  Only the arm drawn moves by
itself: S_k becomes S_k - v^-k + m^-k.  Before that S_2 is 1 + e, and S_3 has lost
3 (rise N_4 - s S_4).  So

    F = e v^2 m^2 + v^2 - m^2,   B = S_3 v^3 m^3 + v^3 - m^3,   C = S_4 v^4 m^4 + v^4 - m^4

are (v m)^2 E, (v m)^3 S_3 and (v m)^4 S_4 of the next round; S_4 before is near enough.  Halley's
step is

    d = v m F B / (2 B^2 - (3/2) F C).

From there E is of the order of 1e-6, and the step of the next look ends at rounding.  Where
repetitions share a vector, a second look is one for all of them; without the prediction half of the
losses ask for it, and so nearly every vector.

The arm is certain when no cumulative weight lies between u and where it would be at the root: all
of them rise or all fall on the way, by at most E.  Any start between 1 and sqrt(K) leads to the
root; a bad one takes more looks.
"""

import math
from typing import Any

from bothworlds.arguments import Estimator
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
from bothworlds.omd.estimators import BASELINE
from bothworlds.omd.few import FEW
from bothworlds.omd.half import DRAWN, ESTIMATES, INVERSE_P, MAX_PASSES, ROOT, invert, keep

PREDICTED, NEAR_SHARE, SUM3, SUM4, NEAR4, SCALE, OVER = range(2, 9)
"""Rows of the next x, N_3 / S_3, S_3, S_4 and N_4; the first lanes of two have eta / 2 and 2 / eta.

They are where `bothworlds.omd.half` has the numbers that it starts from."""

MOST = 128
FITTING = {"iw": (2, MOST), "rv": (FEW + 1, 48)}
"""Numbers of arms for which this is the fastest solver in tiles, measured.  With many arms it takes
too long to find the least estimate."""
HALVED, BY_FOURS = 5, 24
"""Numbers of arms from which it pays to look at half of the lanes at a time, and to see on the way
only which four the draw falls among, measured."""
FIRST = 4
"""Round up to which ``e`` is 1 / 4.  So the denominator of d is positive where only the rate
changes: with at most `MOST` arms C / B^2 is then at most K^(1/3) / v^2."""
SURE = 2e-5  # largest |E| of a last look
REACH = 1.1  # a cumulative weight moves by less than this times |E| on the way to the root


@inlined
def add_near(v: Any, r: Any, w: Any, near_below: Any, N3: Any, N4: Any) -> Any:
    """Add an arm to the sums over the near arms, if it is one."""
    near = v <= near_below
    return select(near, fma(w, r, N3), N3), select(near, fma(w, w, N4), N4)


@inlined
def count_arm(v: Any, r: Any, u: Any, near_below: Any, sums: Any) -> Any:
    """See whether u falls behind all arms before the next one, and add that to the sums."""
    S2, S3, S4, N3, N4, arm, drawn, below = sums
    passed = u >= S2
    arm = select(passed, arm + 1, arm)
    drawn = select(passed, v, drawn)
    below = select(passed, S2, below)
    w = r * r
    if near_below is not None:
        N3, N4 = add_near(v, r, w, near_below, N3, N4)
    return S2 + w, fma(w, r, S3), fma(w, w, S4), N3, N4, arm, drawn, below


@inlined
def look_at_two(S: Any, i: int, scale: Any, low: Any, z: Any) -> Any:
    """Return v and 1 / v of arms i and i + 1."""
    v0 = fma(load(S, ESTIMATES + i, z) - low, scale, z)
    v1 = fma(load(S, ESTIMATES + i + 1, z) - low, scale, z)
    r0, r1 = invert(v0, v1)
    return v0, r0, v1, r1


@inlined
def scan_each(K: int, S: Any, scale: Any, low: Any, z: Any, near_below: Any, u: Any) -> Any:
    """Return the sums at z, the arm at which they pass u, its v, and the sum before it."""
    zero = splat(0.0, u)
    sums = (zero, zero, zero, zero, zero, splat_int(-1, u), zero, zero)
    for i in range(0, K - 1, 2):
        v0, r0, v1, r1 = look_at_two(S, i, scale, low, z)
        sums = count_arm(v0, r0, u, near_below, sums)
        sums = count_arm(v1, r1, u, near_below, sums)
    if K % 2 != 0:
        v0 = fma(load(S, ESTIMATES + K - 1, z) - low, scale, z)
        sums = count_arm(v0, 1.0 / v0, u, near_below, sums)
    return sums


@inlined
def scan_halves(K: int, S: Any, scale: Any, low: Any, z: Any, near_below: Any, u: Any) -> Any:
    """Do the same for one half of the lanes after the other."""
    a = scan_each(K, S, scale, lower(low), lower(z), near_below, lower(u))
    b = scan_each(K, upper_rows(S, u), scale, upper(low), upper(z), near_below, upper(u))
    return (
        joined(a[0], b[0], u), joined(a[1], b[1], u), joined(a[2], b[2], u), joined(a[3], b[3], u),
        joined(a[4], b[4], u), joined(a[5], b[5], u), joined(a[6], b[6], u), joined(a[7], b[7], u),
    )  # fmt: skip


@inlined
def scan_by_fours(K: int, S: Any, scale: Any, low: Any, z: Any, near_below: Any, u: Any) -> Any:
    """Do the same, seeing on the way only which four arms the draw falls among."""
    zero = splat(0.0, u)
    S2, S3, S4, N3, N4, below = zero, zero, zero, zero, zero, zero
    first = splat_int(-4, u)
    for i in range(0, K, 4):
        passed = u >= S2
        first = select(passed, first + 4, first)
        below = select(passed, S2, below)
        for j in range(i, min(i + 4, K) - 1, 2):
            v0, r0, v1, r1 = look_at_two(S, j, scale, low, z)
            w0 = r0 * r0
            w1 = r1 * r1
            S2 = S2 + w0 + w1
            S3 = fma(w1, r1, fma(w0, r0, S3))
            S4 = fma(w1, w1, fma(w0, w0, S4))
            if near_below is not None:
                N3, N4 = add_near(v0, r0, w0, near_below, N3, N4)
                N3, N4 = add_near(v1, r1, w1, near_below, N3, N4)
    if K % 2 != 0:
        v0 = fma(load(S, ESTIMATES + K - 1, z) - low, scale, z)
        r0 = 1.0 / v0
        w0 = r0 * r0
        S2, S3, S4 = S2 + w0, fma(w0, r0, S3), fma(w0, w0, S4)
        if near_below is not None:
            N3, N4 = add_near(v0, r0, w0, near_below, N3, N4)
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
    return S2, S3, S4, N3, N4, arm, drawn, below


def fits(n_arms: int, estimator: Estimator) -> bool:
    """Tell whether this solver is the fastest one in tiles."""
    first, last = FITTING[estimator]
    return first <= n_arms <= last


def scan_for(n_arms: int) -> Any:
    """Return the way to look at this number of arms."""
    if n_arms >= BY_FOURS:
        return scan_by_fours
    return scan_each if n_arms < HALVED else scan_halves


@inlined
def look(
    K: int, S: Any, eta: float, low: Any, z: Any, reduced: Any, u: Any, pending: Any, scan: Any
) -> Any:
    """Look at all arms from z, and keep the outcome in the lanes of ``pending``, or all if None.

    Returns the arm, and the lanes whose root or arm is not certain yet.
    """
    scale = 0.5 * eta
    over = 2.0 / eta
    S[SCALE * stride(u)] = scale
    S[OVER * stride(u)] = over
    near_below = None if reduced is None else 0.5 * over
    S2, S3, S4, N3, N4, arm, drawn, below = scan(K, S, scale, low, z, near_below, u)
    E = S2 - 1.0
    h = 0.5 * E
    square = S3 * S3
    q = 1.0 / maximum(fma(-1.5 * h, S4, square), 0.5 * square)
    d = h * S3 * q
    off = absolute(E)
    reach = REACH * off
    ahead = u - below
    unsure = negate((off <= SURE) & (ahead > reach) & ((ahead + reach) * (drawn * drawn) < 1.0))
    if any_lane(unsure):
        unsure = unsure & negate(off <= 4e-15 + 1e-16 * K)
    v = drawn + d
    keep(S, INVERSE_P, v * v, pending)
    keep(S, ROOT, fma(-over, z + d, low), pending)
    keep(S, DRAWN, v, pending)
    keep(S, SUM3, S3, pending)
    keep(S, SUM4, S4, pending)
    if reduced is not None:
        keep(S, NEAR_SHARE, N3 * S3 * q, pending)
        keep(S, NEAR4, N4, pending)
    return arm, unsure


@inlined
def draw(K: int, S: Any, eta: float, reduced: Any, u: Any, scan: Any) -> Any:
    """Solve the round's OMD step and draw the arm at which the weights sum past ``u``.

    ``reduced`` is None for importance weighting; ``scan`` is `scan_each`, `scan_halves` or
    `scan_by_fours`.
    """
    low = recentring.least(K, S, ESTIMATES, u)
    z = 0.5 * eta * (low - load(S, PREDICTED, u))
    z = minimum(maximum(z, 1.0), math.sqrt(K))
    arm, pending = look(K, S, eta, low, z, reduced, u, None, scan)
    passes = 1
    while any_lane(pending) and passes < MAX_PASSES:
        z = maximum(0.5 * eta * (low - load(S, ROOT, u)), 1.0)
        lanes = only_lanes(pending)
        again, unsure = look(K, S, eta, low, z, reduced, u, lanes, scan)
        arm = select(pending, again, arm)
        pending = pending & unsure
        passes += 1
    return arm


@inlined
def predict(S: Any, t: int, base: Any, by: Any) -> None:
    """Note the root of the next round, once the estimates have changed.

    That of the arm drawn has risen by ``base`` and ``by``, those of all near arms by the baseline;
    without baselines ``base`` is None.
    """
    scale = S[SCALE * stride(by)]
    v = load(S, DRAWN, by)
    S3 = load(S, SUM3, by)
    S4 = load(S, SUM4, by)
    e = splat(1.0 / max(t, FIRST), by)
    s = splat(0.0, by)
    if base is not None:
        rise = BASELINE * scale
        N4 = load(S, NEAR4, by)
        s = rise * load(S, NEAR_SHARE, by)
        rest = rise - s
        v = fma(scale, base, v - s)
        e = fma(3.0, fma(rest * rest, N4, s * s * (S4 - N4)), e)
        S3 = fma(3.0, fma(s, S4, -rise * N4), S3)
    m = fma(scale, by, v)
    vm = v * m
    v2, m2, both = v * v, m * m, vm * vm
    F = fma(e, both, v2 - m2)
    B = fma(S3, both * vm, v * v2 - m * m2)
    C = fma(S4, both * both, v2 * v2 - m2 * m2)
    d = vm * (F * B) / fma(-1.5 * F, C, 2.0 * (B * B))
    store(S, PREDICTED, fma(-S[OVER * stride(by)], d - s, load(S, ROOT, by)))
