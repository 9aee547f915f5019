"""The OMD step at alpha = 1/2, one pass over the arms per round.

Symbols (notation of Zimmert and Seldin, 2021, Algorithm 2):

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i
``x``    normalisation: w_i = 4 / (eta (L_i - x))^2, sum_i w_i = 1, x < min_i L_i
``y_i``  L_i - x > 0
``r_i``  1 / y_i
``S_k``  sum_i r_i^k
``c``    eta^2 / 4, so that w_i = r_i^2 / c and the root is S_2(x) = c
``d``    a step in x
``N_k``  sum of r_i^k over the near arms, those with w_i >= eta^2 (reduced variance)
``m_i``  baseline of a near arm where every arm has its own; then N_k = sum m_i r_i^k
======== ==========================================================================

The equation solved is g(x) = S_2^(-1/2) = c^(-1/2).  g is concave and decreasing, linear when one
arm carries the mass or all are equal.  Newton's step on it lands right of the root, from where it
decreases monotonically; a step that comes near a pole or passes it (some y_i < c^(-1/2) / 2) is
taken back to min L - c^(-1/2), where one weight is 1, so the wrong root is never accepted.  Near
the root the Taylor series of the inverse function adds one or two orders.

A round evaluates S_2..S_5 once, at a prediction of the root from the previous round's sums
(`move_drawn`, `shift_near`, `predict`), and counts the cumulative sums below u * c on the way.  Two
arms share a division: with one for each, a pass would be little else.  The drawn arm is certain
when no cumulative sum comes so close to u * c that the remaining step could carry it across;
otherwise the pass is repeated.  Late rounds need one pass; early ones, those of the
reduced-variance estimator above all, more often two.  For few arms `bothworlds.omd.few` solves the
same equation without keeping sums.

The functions work on one bandit or on a tile of repetitions (see `bothworlds.lanes.vectors`).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.rows import add_to, take
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
    sqrt,
    store,
    stride,
    to_int,
    upper,
    upper_rows,
    width,
)
from bothworlds.omd import recentring
from bothworlds.omd.estimators import BASELINE

INVERSE_P = 0
"""Row of 1 / w_I, I the arm just drawn."""
ROOT = 1
"""Row of x at the root."""
CENTRE = 2
"""Row of the x where the sums were evaluated; the sums S_2..S_5, N_3 / S_3 and N_4 follow."""
SUM2, SUM3, SUM4, SUM5, SHARE, NEAR4 = 3, 4, 5, 6, 7, 8
DRAWN = 9
"""Row of y_I, I the arm just drawn, seen from the centre."""
ESTIMATES = 10
"""First row of the loss estimates: arm i has row ``ESTIMATES + i``."""

ROOTS, CUBES, PULL4 = 0, 1, 2
"""Rows of the sums ``M``: sum_i sqrt(w_i), sum_i w_i^(3/2), sum_i m_i^2 r_i^4 of the near arms."""

SURE = 4e-6  # distance of a cumulative weight to u below which a draw is not yet certain
BLOCK = 128  # arms whose r^2 are summed before they join S_2, which so stays near rounding
BY_FOURS = 24  # arms from which on it pays to see only which four the draw falls among
BY_FOURS_AT_ONCE = 64  # the same where a vector holds the whole tile
MAX_PASSES = 100  # never reached: a bound on the loop, not a tolerance


@jit
def exact_if_far(h: Any, e: Any) -> Any:
    """Return ``h``, a series for 1 - sqrt(1 + e), with the square root where e is not small."""
    far = absolute(e) > 0.05
    if any_lane(far):
        h = select(far, 1.0 - sqrt(e + 1.0), h)
    return h


@inlined
def predict(S2: Any, S3: Any, S4: Any, S5: Any, c: float) -> Any:
    """Return the step d from x to the root of S_2 = c, to fourth order.

    With a = S_3 / S_2 and e = S_2 / c - 1, Newton's step on g is d = (1 - sqrt(1 + e)) / a; the
    Taylor series of the inverse of g multiplies it by 1 + f + 2 f^2 + B d^2.
    """
    q = 1.0 / (S2 * S3)
    over_S2 = S3 * q
    over_S3 = S2 * q
    a = S3 * over_S2
    e = fma(S2, 1.0 / c, -1.0)
    series = fma(fma(-5 / 128, e, 1 / 16), e * e, fma(-1 / 8, e, 1 / 2))
    d = exact_if_far(-e * series, e) * (S2 * over_S3)
    f = 1.5 * fma(-S4, over_S3, a) * d
    B = fma(4.5, S4 * over_S2, -fma(2.5 * a, a, 2.0 * (S5 * over_S3)))
    correction = fma(f, fma(2.0, f, 1.0), B * (d * d))
    return fma(d, select(absolute(correction) < 0.25, correction, 0.0), d)


@inlined
def polish(S2: Any, S3: Any, S4: Any, c: float) -> Any:
    """Return the step d from x to the root of S_2 = c, to third order, and 1 / S_3.

    As `predict`, with the terms that matter once e is of the order of `SURE`: what is left out is
    then far below rounding.  Away from the root it still converges.
    """
    q = 1.0 / (S2 * S3)
    over_S3 = S2 * q
    e = fma(S2, 1.0 / c, -1.0)
    d = exact_if_far(-e * fma(-1 / 8, e, 1 / 2), e) * (S2 * over_S3)
    f = 1.5 * fma(-S4, over_S3, S3 * (S3 * q)) * d
    return fma(d, select(absolute(f) < 0.25, f, 0.0), d), over_S3


@jit
def keep(S: Any, row: int, value: Any, pending: Any) -> None:
    """Store ``value`` where ``pending`` holds, or everywhere if it is None."""
    if pending is None:
        store(S, row, value)
    else:
        store(S, row, select(pending, value, load(S, row, value)))


@jit
def invert(a: Any, b: Any) -> Any:
    """Return 1 / a and 1 / b by one division."""
    q = 1.0 / (a * b)
    return b * q, a * q


@jit
def count_arm(
    S: Any, means: int, y: Any, r: Any, rest: Any, near_below: Any, M: Any, sums: Any
) -> Any:
    """Add an arm to the sums of a pass and see whether the draw passes it.

    ``rest`` is what is left of u * c before this block; row ``means`` has the arm's baseline.
    """
    s2, S3, S4, S5, nearest, passed, after, arm, drawn, S1, N3, N4, Q4 = sums
    r2 = r * r
    r3 = r2 * r
    s2 = s2 + r2
    S3 = S3 + r3
    S4 = fma(r2, r2, S4)
    S5 = fma(r3, r2, S5)
    nearest = minimum(nearest, y)
    ahead = rest - s2
    after = select(passed, ahead, after)
    if near_below is None:
        drawn = select(passed, y, drawn)
    passed = ahead >= 0.0
    arm = select(passed, arm + 1.0, arm)
    if near_below is not None:
        near = y <= near_below
        if M is None:
            N3 = select(near, N3 + r3, N3)
            N4 = select(near, fma(r3, r, N4), N4)
        else:
            m = select(near, load(S, means, y), 0.0)
            S1 = S1 + r
            pull = m * r3
            N3 = N3 + pull
            pull = pull * r
            N4 = N4 + pull
            Q4 = fma(m, pull, Q4)
    return s2, S3, S4, S5, nearest, passed, after, arm, drawn, S1, N3, N4, Q4


@jit
def sum_arm(y: Any, r: Any, near_below: Any, sums: Any) -> Any:
    """Add an arm to the sums of a pass."""
    s2, S3, S4, S5, nearest, N3, N4 = sums
    r2 = r * r
    r3 = r2 * r
    if near_below is not None:
        own = select(y <= near_below, r3, 0.0)
        N3 = N3 + own
        N4 = fma(own, r, N4)
    return s2 + r2, S3 + r3, fma(r2, r2, S4), fma(r3, r2, S5), minimum(nearest, y), N3, N4


@inlined
def sum_and_find(K: int, S: Any, x: Any, target: Any, near_below: Any) -> Any:
    """Evaluate the sums at x and find the arm at which those of r^2 pass ``target``.

    Return S_2 to S_5, N_3, N_4, the least y, the arm, its y, and what its sum falls short of the
    target.  As `count_arm` for every arm, but a pass only finds four arms that have
    the one; of these the sums are taken again.
    """
    zero = splat(0.0, target)
    S2, S3, S4, S5, N3, N4 = zero, zero, zero, zero, zero, zero
    nearest = splat(1e300, target)
    before, left = zero, zero
    place = splat_int(0, target)
    for start in range(0, K, BLOCK):
        rest = target - S2
        here = place >= start
        left = select(here, rest, left)
        before = select(here, 0.0, before)
        sums = (zero, S3, S4, S5, nearest, N3, N4)
        end = min(start + BLOCK, K)
        for i in range(ESTIMATES + start, ESTIMATES + end - 3, 4):
            for j in range(i, i + 4, 2):
                y0 = load(S, j, target) - x
                y1 = load(S, j + 1, target) - x
                r0, r1 = invert(y0, y1)
                sums = sum_arm(y0, r0, near_below, sums)
                sums = sum_arm(y1, r1, near_below, sums)
            if i + 4 < ESTIMATES + K:
                passed = rest - sums[0] >= 0.0
                before = select(passed, sums[0], before)
                place = select(passed, place + 4, place)
        for i in range(ESTIMATES + end - end % 4, ESTIMATES + end - 1, 2):
            y0 = load(S, i, target) - x
            y1 = load(S, i + 1, target) - x
            r0, r1 = invert(y0, y1)
            sums = sum_arm(y0, r0, near_below, sums)
            sums = sum_arm(y1, r1, near_below, sums)
        if end % 2 != 0:
            y0 = load(S, ESTIMATES + end - 1, target) - x
            sums = sum_arm(y0, 1.0 / y0, near_below, sums)
        s2, S3, S4, S5, nearest, N3, N4 = sums
        S2 = S2 + s2
    if K % 4 == 0:
        arm, drawn, after = find_of_four(S, x, place, before, left)
    else:
        arm, drawn, after = find_within(K, S, x, place, before, left)
    return S2, S3, S4, S5, N3, N4, nearest, arm, drawn, after


@inlined
def sum_halves(K: int, S: Any, x: Any, target: Any, near_below: Any) -> Any:
    """Do the same for one half of the lanes after the other where all do not fit the registers.

    That is with reduced variance; otherwise both together hide each other's latency.
    """
    if near_below is None:
        return sum_and_find(K, S, x, target, None)
    a = sum_and_find(K, S, lower(x), lower(target), lower(near_below))
    T = upper_rows(S, target)
    b = sum_and_find(K, T, upper(x), upper(target), upper(near_below))
    return (
        joined(a[0], b[0], x), joined(a[1], b[1], x), joined(a[2], b[2], x), joined(a[3], b[3], x),
        joined(a[4], b[4], x), joined(a[5], b[5], x), joined(a[6], b[6], x), joined(a[7], b[7], x),
        joined(a[8], b[8], x), joined(a[9], b[9], x),
    )  # fmt: skip


@inlined
def find_of_four(S: Any, x: Any, first: Any, s2: Any, rest: Any) -> Any:
    """Find the arm among the four from ``first`` on; ``s2`` is the sum of those before."""
    y0 = gather(S, ESTIMATES, first) - x
    y1 = gather(S, ESTIMATES + 1, first) - x
    y2 = gather(S, ESTIMATES + 2, first) - x
    y3 = gather(S, ESTIMATES + 3, first) - x
    r0, r1 = invert(y0, y1)
    r2, r3 = invert(y2, y3)
    # Sums that rise: a draw that does not pass an arm passes none that follow.
    s2 = s2 + r0 * r0
    after0 = rest - s2
    s2 = s2 + r1 * r1
    after1 = rest - s2
    s2 = s2 + r2 * r2
    after2 = rest - s2
    after3 = rest - (s2 + r3 * r3)
    beyond0, beyond1, beyond2 = after0 >= 0.0, after1 >= 0.0, after2 >= 0.0
    arm = select(beyond0, first + 1, first)
    arm = select(beyond1, first + 2, arm)
    drawn = select(beyond1, y2, select(beyond0, y1, y0))
    after = select(beyond1, after2, select(beyond0, after1, after0))
    arm = select(beyond2, first + 3, arm)
    return arm, select(beyond2, y3, drawn), select(beyond2, after3, after)


@jit
def pass_arm(K: int, i: Any, y: Any, r: Any, rest: Any, found: Any) -> Any:
    """See whether the draw passes arm i, if it has passed those before."""
    s2, passed, arm, drawn, after = found
    s2 = s2 + r * r
    ahead = rest - s2
    after = select(passed, ahead, after)
    drawn = select(passed, y, drawn)
    passed = passed & (ahead >= 0.0) & (i < K - 1)
    return s2, passed, select(passed, arm + 1, arm), drawn, after


@inlined
def find_within(K: int, S: Any, x: Any, first: Any, s2: Any, rest: Any) -> Any:
    """Do the same where the last of the four may be missing."""
    found = (s2, s2 >= 0.0, first, s2, s2)
    for j in range(0, 4, 2):
        i = first + j
        y0 = gather(S, ESTIMATES, select(i < K, i, K - 1)) - x
        y1 = gather(S, ESTIMATES, select(i < K - 1, i + 1, K - 1)) - x
        r0, r1 = invert(y0, y1)
        r0 = select(i == K - 1, 1.0 / y0, r0)
        found = pass_arm(K, i, y0, r0, rest, found)
        found = pass_arm(K, i + 1, y1, r1, rest, found)
    _, _, arm, drawn, after = found
    return arm, drawn, after


@inlined
def step_and_draw(
    K: int, S: Any, x: Any, c: Any, near_below: Any, u: Any, pending: Any, M: Any
) -> Any:
    """Evaluate the sums at x, step to the root and see where u falls.

    Keeps the outcome in the lanes of ``pending``, or in all if it is None.  Returns the arm, and
    the lanes whose root or arm is not certain yet.  ``M`` is as in `draw`.
    """
    target = u * c
    certain = minimum(SURE, 0.06 / K)
    margin = certain * c
    exact = 2e-15 + 1e-16 * math.sqrt(K)
    limit = sqrt(1.0 / c)  # y of an arm whose weight is 1; no root has a smaller one
    half_limit = 0.5 * limit
    zero = splat(0.0, u)
    S2, S3, S4, S5, N3, N4, S1, Q4 = zero, zero, zero, zero, zero, zero, zero, zero
    after, drawn = zero, zero
    arm = splat_int(0, u)
    passed = u >= 0.0
    nearest = splat(1e300, u)
    # A choice costs one instruction with AVX-512, and more where a tile is several vectors.
    fours = BY_FOURS if width(u) < stride(u) else BY_FOURS_AT_ONCE
    by_fours = width(u) > 1 and K >= fours
    if M is not None:
        by_fours = False
    if by_fours:
        S2, S3, S4, S5, N3, N4, nearest, arm, drawn, after = sum_halves(K, S, x, target, near_below)
    else:
        place = zero
        for start in range(0, K, BLOCK):
            rest = target - S2
            sums = (zero, S3, S4, S5, nearest, passed, after, place, drawn, S1, N3, N4, Q4)
            end = ESTIMATES + min(start + BLOCK, K)
            for i in range(ESTIMATES + start, end - 1, 2):
                y0 = load(S, i, u) - x
                y1 = load(S, i + 1, u) - x
                r0, r1 = invert(y0, y1)
                sums = count_arm(S, i + K, y0, r0, rest, near_below, M, sums)
                sums = count_arm(S, i + K + 1, y1, r1, rest, near_below, M, sums)
            if (end - ESTIMATES) % 2 != 0:
                y0 = load(S, end - 1, u) - x
                sums = count_arm(S, end - 1 + K, y0, 1.0 / y0, rest, near_below, M, sums)
            s2, S3, S4, S5, nearest, passed, after, place, drawn, S1, N3, N4, Q4 = sums
            S2 = S2 + s2
        place = minimum(place, K - 1.0)
        if near_below is not None:
            # To find it again takes fewer registers than to hold it, of which there are too few.
            drawn = take(S, ESTIMATES, K, to_int(place)) - x
        arm = to_int(place)
    d, over_S3 = polish(S2, S3, S4, c)
    root = x + d
    beyond = negate(nearest >= half_limit)
    if any_lane(beyond):
        # One weight is 1 at min L - limit: right of the root, and Newton is monotone from there.
        root = select(beyond, recentring.least(K, S, ESTIMATES, u) - limit, root)
    keep(S, ROOT, root, pending)
    keep(S, CENTRE, x, pending)
    keep(S, SUM2, S2, pending)
    keep(S, SUM3, S3, pending)
    keep(S, SUM4, S4, pending)
    keep(S, SUM5, S5, pending)
    keep(S, DRAWN, drawn, pending)
    if near_below is not None:
        keep(S, SHARE, N3 * over_S3, pending)
        keep(S, NEAR4, N4, pending)
    if M is not None:
        # Moved on to the root by their Taylor series, whose next terms are below rounding.
        keep(M, ROOTS, limit * fma(d, fma(d, S3, S2), S1), pending)
        cubes = fma(3.0 * d, fma(2.0 * d, S5, S4), S3)
        keep(M, CUBES, limit * limit * limit * cubes, pending)
        keep(M, PULL4, Q4, pending)
    # The cumulative sums next to u * c: `after` below it, and one term of the sum above that.
    close = (absolute(after) <= margin) | ((after - margin) * drawn * drawn <= -1.0)
    moved = absolute(d) * S3
    unsure = close | negate(2.1 * moved <= certain * S2) | beyond
    if any_lane(unsure):
        still = moved <= exact * S2
        unsure = unsure & (negate(still) | beyond)
    return arm, unsure


@inlined
def draw(K: int, S: Any, eta: Any, near_below: Any, u: Any, M: Any) -> Any:
    """Solve the round's OMD step and draw the arm at which the weights sum past ``u``.

    ``near_below`` is None, or the largest y of a near arm; then N_3 / S_3 and N_4 are kept as
    well. ``M`` is None, or three rows for the sums `ROOTS`, `CUBES` and `PULL4`; then the K rows
    after the estimates are the arms' own baselines m_i.
    """
    c = 0.25 * eta * eta
    d = predict(load(S, SUM2, u), load(S, SUM3, u), load(S, SUM4, u), load(S, SUM5, u), c)
    arm, pending = step_and_draw(K, S, load(S, CENTRE, u) + d, c, near_below, u, None, M)
    passes = 1
    while any_lane(pending) and passes < MAX_PASSES:
        lanes = only_lanes(pending)
        again, uncertain = step_and_draw(K, S, load(S, ROOT, u), c, near_below, u, lanes, M)
        arm = select(pending, again, arm)
        pending = pending & uncertain
        passes += 1
    y = load(S, DRAWN, u) + (load(S, CENTRE, u) - load(S, ROOT, u))
    store(S, INVERSE_P, c * y * y)
    return arm


@jit
def draw_again(K: int, S: Any, eta: float, u: Any) -> Any:
    """Draw another arm from the weights of the last `draw`, whose root is known."""
    c = 0.25 * eta * eta
    target = u * c
    x = load(S, ROOT, u)
    S2 = splat(0.0, u)
    position = splat_int(0, u)
    drawn = splat(1.0, u)
    passed = u >= 0.0
    for start in range(0, K, BLOCK):
        rest = target - S2
        s2 = splat(0.0, u)
        for i in range(ESTIMATES + start, ESTIMATES + min(start + BLOCK, K)):
            y = load(S, i, u) - x
            r = 1.0 / y
            s2 = s2 + r * r
            drawn = select(passed, y, drawn)
            passed = rest - s2 >= 0.0
            position = select(passed, position + 1, position)
        S2 = S2 + s2
    store(S, INVERSE_P, c * drawn * drawn)
    return select(position < K, position, K - 1)


@inlined
def move_drawn(K: int, S: Any, arm: Any, by: Any) -> None:
    """Add ``by`` to the estimate of the arm just drawn, and let the sums know."""
    add_to(S, ESTIMATES, K, arm, by)
    replace_drawn(S, by)


@inlined
def replace_drawn(S: Any, by: Any) -> None:
    """Let the sums know that the estimate of the arm just drawn rose by ``by``."""
    y0 = load(S, DRAWN, by)
    y1 = y0 + by
    q = 1.0 / (y0 * y1)
    r0 = y1 * q
    r1 = y0 * q
    p0 = r0 * r0
    p1 = r1 * r1
    store(S, SUM2, maximum(load(S, SUM2, by) - p0, 0.0) + p1)
    p0 = p0 * r0
    p1 = p1 * r1
    store(S, SUM3, maximum(load(S, SUM3, by) - p0, 0.0) + p1)
    p0 = p0 * r0
    p1 = p1 * r1
    store(S, SUM4, maximum(load(S, SUM4, by) - p0, 0.0) + p1)
    p0 = p0 * r0
    p1 = p1 * r1
    store(S, SUM5, maximum(load(S, SUM5, by) - p0, 0.0) + p1)


@jit
def move(K: int, S: Any, arm: Any, by: Any) -> None:
    """Add ``by`` to the estimate of any arm, and let the sums know."""
    store(S, DRAWN, take(S, ESTIMATES, K, arm) - load(S, CENTRE, by))
    move_drawn(K, S, arm, by)


@jit
def shift_near(S: Any, drawn_by: Any) -> None:
    """Let the sums know that every near arm's estimate rose by B = 1/2.

    ``drawn_by`` is what the drawn arm rose by: B or 0.  The centre follows by
    s = B N_3 / S_3, which cancels the first order of S_2; the second order of S_2 and the first
    of S_3 are kept.
    """
    S3 = load(S, SUM3, drawn_by)
    S4 = load(S, SUM4, drawn_by)
    N4 = load(S, NEAR4, drawn_by)
    s = BASELINE * load(S, SHARE, drawn_by)
    rest = BASELINE - s
    store(S, CENTRE, load(S, CENTRE, drawn_by) + s)
    store(S, DRAWN, load(S, DRAWN, drawn_by) + (drawn_by - s))
    store(S, SUM2, load(S, SUM2, drawn_by) + 3.0 * (rest * rest * N4 + s * s * (S4 - N4)))
    store(S, SUM3, maximum(S3 + 3.0 * (s * S4 - BASELINE * N4), 0.25 * S3))


@jit
def shift_near_by_means(S: Any, M: Any, drawn_by: Any) -> None:
    """Let the sums know that every near arm's estimate rose by its own baseline m_i.

    As `shift_near`, with s = N_3 / S_3: sum (m_i - s)^2 r_i^4 is the second order of S_2.
    """
    s = load(S, SHARE, drawn_by)
    store(S, DRAWN, load(S, DRAWN, drawn_by) + (drawn_by - s))
    shift_sums(S, s, load(S, NEAR4, drawn_by), load(M, PULL4, drawn_by))


@jit
def shift_all(S: Any, sums: Any) -> None:
    """Let the sums know that estimates rose by m_i, given sum m_i r^3, m_i r^4 and m_i^2 r^4."""
    N3, N4, Q4 = sums
    shift_sums(S, N3 / load(S, SUM3, N3), N4, Q4)


@jit
def shift_sums(S: Any, s: Any, N4: Any, Q4: Any) -> None:
    """Move the centre by s and the sums with it, to second order."""
    S3 = load(S, SUM3, s)
    S4 = load(S, SUM4, s)
    second = fma(s, fma(s, S4, -2.0 * N4), Q4)
    store(S, CENTRE, load(S, CENTRE, s) + s)
    store(S, SUM2, fma(3.0, maximum(second, 0.0), load(S, SUM2, s)))
    store(S, SUM3, maximum(fma(3.0, fma(s, S4, -N4), S3), 0.25 * S3))


@jit
def recentre(K: int, S: Any, like: Any) -> None:
    """Subtract min L from L and x: the weights depend on differences only."""
    low = recentring.recentre(K, S, ESTIMATES, like)
    store(S, ROOT, load(S, ROOT, like) - low)
    store(S, CENTRE, load(S, CENTRE, like) - low)


@jit
def recentre_where(K: int, S: Any, where: Any, like: Any) -> None:
    """Subtract min L from L and x in some lanes."""
    if any_lane(where):
        low = recentring.recentre_where(K, S, ESTIMATES, where, like)
        store(S, ROOT, load(S, ROOT, like) - low)
        store(S, CENTRE, load(S, CENTRE, like) - low)


@inlined
def recentre_if_due(K: int, t: Any, S: Any, like: Any) -> None:
    """Recentre in the lanes in which it is time; t is the round, or one for every lane."""
    if recentring.is_due(t):
        recentre_where(K, S, recentring.lanes_due(t, like), like)


@jit
def fade_sums(S: Any, retained: float, low: Any) -> None:
    """Let the sums know that every estimate L became ``retained`` (L - low), and x as well."""
    over = 1.0 / retained
    square = over * over
    store(S, ROOT, retained * (load(S, ROOT, low) - low))
    store(S, CENTRE, retained * (load(S, CENTRE, low) - low))
    store(S, SUM2, square * load(S, SUM2, low))
    store(S, SUM3, square * over * load(S, SUM3, low))
    store(S, SUM4, square * square * load(S, SUM4, low))
    store(S, SUM5, square * square * over * load(S, SUM5, low))
    store(S, NEAR4, square * square * load(S, NEAR4, low))


@jit
def restart(K: int, S: Any, like: Any) -> None:
    """Recentre, and make the next prediction x = min L - c^(-1/2), right of the root.

    For estimates that changed otherwise than by `move_drawn` and `shift_near`.
    """
    recentre(K, S, like)
    one = splat(1.0, like)
    store(S, CENTRE, -one)
    for row in range(SUM2, SHARE):
        store(S, row, one)


@jit
def start_again(K: int, S: Any) -> None:
    """Make the next prediction of one bandit as `restart` does, without recentring."""
    restart_lane(S, 0, 1, 0, recentring.least(K, S, ESTIMATES, 0.0))


@jit
def restart_lane(S: Any, first: int, lanes: int, k: int, low: float) -> None:
    """Make the next prediction of lane k as `restart` does, without recentring; low is min L.

    The rows begin at ``first``.
    """
    S[(first + CENTRE) * lanes + k] = low - 1.0
    for row in range(SUM2, SHARE):
        S[(first + row) * lanes + k] = 1.0


@jit
def fill_weights(K: int, S: Any, eta: float, out: Any) -> None:
    """Write w_i = 4 / (eta (L_i - x))^2 at the root of the round."""
    fill_roots(K, S, eta, out)
    for i in range(K):
        out[i] *= out[i]


@jit
def fill_roots(K: int, S: Any, eta: float, out: Any) -> None:
    """Write sqrt(w_i) at the root of the round."""
    for i in range(K):
        out[i] = root_of_weight(eta, S[ESTIMATES + i] - S[ROOT])


@jit
def root_of_weight(eta: Any, y: Any) -> Any:
    """Return sqrt(w) = 2 / (eta y), at most 1."""
    return minimum(2.0 / (eta * y), 1.0)


@jit
def weight_of(K: int, S: Any, eta: Any, arm: Any) -> Any:
    """Return the weight of an arm at the root of the round."""
    root = root_of_weight(eta, take(S, ESTIMATES, K, arm) - load(S, ROOT, arm))
    return root * root


def first_state(n_arms: int, state: NDArray[np.float64]) -> None:
    """Set the sums of n_arms estimates 0 seen from x = -1: the first step is then exact."""
    state[CENTRE] = -1.0
    state[SUM2:SHARE] = n_arms
