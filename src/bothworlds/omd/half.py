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
======== ==========================================================================

The equation solved is g(x) = S_2^(-1/2) = c^(-1/2).  g is concave and decreasing, linear when one
arm carries the mass or all are equal.  Newton's step on it lands right of the root, from where it
decreases monotonically; a step that passed a pole (some y_i <= 0) is taken back to
min L - c^(-1/2), where one weight is 1, so the wrong root is never accepted.  Near the root the
Taylor series of the inverse function adds two orders.

A round evaluates S_2..S_5 once, at a prediction of the root made from the previous round's sums
(`move_drawn`, `shift_near`, `step`), and counts the cumulative sums below u * c on the way.
The drawn arm is certain when no cumulative sum comes so close to u * c that the remaining step
could carry it across; otherwise the pass is repeated (1.00 to 1.05 passes a round on average).

The functions work on one bandit or on a tile of repetitions (see `bothworlds.lanes.vectors`).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import (
    absolute,
    add_at,
    any_lane,
    load,
    maximum,
    minimum,
    negate,
    select,
    splat,
    splat_int,
    sqrt,
    store,
)
from bothworlds.omd.estimators import BASELINE

INVERSE_P = 0
"""Row of 1 / w_I, I the arm just drawn."""
ROOT = 1
"""Row of x at the root."""
CENTRE = 2
"""Row of the x where the sums were evaluated; the sums S_2..S_5, N_3, N_4 follow."""
SUM2, SUM3, SUM4, SUM5, NEAR3, NEAR4 = 3, 4, 5, 6, 7, 8
DRAWN = 9
"""Row of y_I, I the arm just drawn, seen from the centre."""
ESTIMATES = 10
"""First row of the loss estimates: arm i has row ``ESTIMATES + i``."""

SURE = 4e-6  # distance of a cumulative weight to u below which a draw is not yet certain
BLOCK = 128  # arms summed before they join the total: the error of a sum stays near rounding
RECENTRE_EVERY = 1024  # rounds; L and x stay small enough for L - x to keep its digits
MAX_PASSES = 100  # never reached: a bound on the loop, not a tolerance


@jit
def step(S2: Any, S3: Any, S4: Any, S5: Any, c: float) -> Any:
    """Step d from x towards S_2 = c: fourth order near the root, Newton's away from it."""
    q = 1.0 / (S2 * S3)
    over_S2 = S3 * q
    a = S3 * over_S2
    b = S4 * over_S2
    e = S5 * over_S2
    over_a = S2 * S2 * q
    d = (1.0 - sqrt(S2 * (1.0 / c))) * over_a
    A = 1.5 * (a * a - b)
    B = a * (4.5 * b - 2.5 * a * a) - 2.0 * e
    first = A * over_a * d
    correction = first + (2.0 * first * first + B * over_a * d * d)
    return d + select(absolute(correction) < 0.25, d * correction, 0.0)


@jit
def least_estimate(K: int, S: Any, like: Any) -> Any:
    """Return min_i L_i."""
    least = load(S, ESTIMATES, like)
    for i in range(ESTIMATES + 1, ESTIMATES + K):
        least = minimum(least, load(S, i, like))
    return least


@jit
def draw(K: int, S: Any, eta: float, near_below: Any, u: Any) -> Any:
    """Solve the round's OMD step and draw the arm at which the weights sum past ``u``.

    ``near_below`` is None, or the largest y of a near arm; then N_3 and N_4 are kept as well.
    """
    c = 0.25 * eta * eta
    target = u * c
    certain = min(SURE, 0.06 / K)
    margin = certain * c
    exact = 2e-15 + 1e-16 * math.sqrt(K)
    x = load(S, CENTRE, u) + step(
        load(S, SUM2, u), load(S, SUM3, u), load(S, SUM4, u), load(S, SUM5, u), c
    )
    arm = splat_int(0, u)
    drawn = splat(0.0, u)
    pending = u >= 0.0
    for _ in range(MAX_PASSES):
        S2 = splat(0.0, u)
        S3 = splat(0.0, u)
        S4 = splat(0.0, u)
        S5 = splat(0.0, u)
        N3 = splat(0.0, u)
        N4 = splat(0.0, u)
        position = splat_int(0, u)
        candidate = splat(1.0, u)
        passed = u >= 0.0
        close = u < 0.0
        beyond = u < 0.0
        for start in range(0, K, BLOCK):
            rest = target - S2
            s2 = splat(0.0, u)
            s3 = splat(0.0, u)
            s4 = splat(0.0, u)
            s5 = splat(0.0, u)
            for i in range(ESTIMATES + start, ESTIMATES + min(start + BLOCK, K)):
                y = load(S, i, u) - x
                r = 1.0 / y
                r2 = r * r
                r3 = r2 * r
                r4 = r2 * r2
                s2 = s2 + r2
                s3 = s3 + r3
                s4 = s4 + r4
                s5 = s5 + r3 * r2
                beyond = beyond | (y <= 0.0)
                candidate = select(passed, y, candidate)
                ahead = rest - s2
                passed = ahead >= 0.0
                position = select(passed, position + 1, position)
                close = close | (absolute(ahead) <= margin)
                if near_below is not None:
                    near = y <= near_below
                    N3 = N3 + select(near, r3, 0.0)
                    N4 = N4 + select(near, r4, 0.0)
            S2 = S2 + s2
            S3 = S3 + s3
            S4 = S4 + s4
            S5 = S5 + s5
        d = step(S2, S3, S4, S5, c)
        if any_lane(beyond):
            # One weight is 1 at min L - c^(-1/2): right of the root, and Newton is monotone.
            d = select(beyond, least_estimate(K, S, u) - math.sqrt(1.0 / c) - x, d)
        moved = absolute(d) * S3
        sure = (2.1 * moved <= certain * S2) & negate(close)
        still = moved <= exact * S2
        store(S, ROOT, select(pending, x + d, load(S, ROOT, u)))
        store(S, CENTRE, select(pending, x, load(S, CENTRE, u)))
        store(S, SUM2, select(pending, S2, load(S, SUM2, u)))
        store(S, SUM3, select(pending, S3, load(S, SUM3, u)))
        store(S, SUM4, select(pending, S4, load(S, SUM4, u)))
        store(S, SUM5, select(pending, S5, load(S, SUM5, u)))
        if near_below is not None:
            store(S, NEAR3, select(pending, N3, load(S, NEAR3, u)))
            store(S, NEAR4, select(pending, N4, load(S, NEAR4, u)))
        arm = select(pending, position, arm)
        drawn = select(pending, candidate, drawn)
        pending = pending & (negate(sure | still) | beyond)
        if not any_lane(pending):
            break
        x = x + d
    y = drawn + (load(S, CENTRE, u) - load(S, ROOT, u))
    store(S, DRAWN, drawn)
    store(S, INVERSE_P, c * y * y)
    return select(arm < K, arm, K - 1)


@jit
def move_drawn(S: Any, arm: Any, by: Any) -> None:
    """Add ``by`` to the estimate of the arm just drawn, and let the sums know."""
    add_at(S, ESTIMATES, arm, by)
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
def shift_near(S: Any, drawn_by: Any) -> None:
    """Let the sums know that every near arm's estimate rose by B = 1/2.

    ``drawn_by`` is what the drawn arm rose by: B or 0.  The centre follows by
    s = B N_3 / S_3, which cancels the first order of S_2; the second order of S_2 and the first
    of S_3 are kept.
    """
    S3 = load(S, SUM3, drawn_by)
    S4 = load(S, SUM4, drawn_by)
    N4 = load(S, NEAR4, drawn_by)
    s = BASELINE * load(S, NEAR3, drawn_by) / S3
    rest = BASELINE - s
    store(S, CENTRE, load(S, CENTRE, drawn_by) + s)
    store(S, DRAWN, load(S, DRAWN, drawn_by) + (drawn_by - s))
    store(S, SUM2, load(S, SUM2, drawn_by) + 3.0 * (rest * rest * N4 + s * s * (S4 - N4)))
    store(S, SUM3, maximum(S3 + 3.0 * (s * S4 - BASELINE * N4), 0.25 * S3))


@jit
def recentre(K: int, S: Any, like: Any) -> None:
    """Subtract min L from L and x: the weights depend on differences only."""
    least = least_estimate(K, S, like)
    for i in range(ESTIMATES, ESTIMATES + K):
        store(S, i, load(S, i, like) - least)
    store(S, ROOT, load(S, ROOT, like) - least)
    store(S, CENTRE, load(S, CENTRE, like) - least)


@jit
def restart(K: int, S: Any, like: Any) -> None:
    """Recentre, and make the next prediction x = min L - c^(-1/2), right of the root.

    For estimates that changed otherwise than by `move_drawn` and `shift_near`.
    """
    recentre(K, S, like)
    one = splat(1.0, like)
    store(S, CENTRE, -one)
    for row in range(SUM2, NEAR3):
        store(S, row, one)


@jit
def fill_weights(K: int, S: Any, eta: float, out: Any) -> None:
    """Write w_i = 4 / (eta (L_i - x))^2 at the root of the round."""
    for i in range(K):
        root = 2.0 / (eta * (S[ESTIMATES + i] - S[ROOT]))
        out[i] = root * root


def first_state(n_arms: int, state: NDArray[np.float64]) -> None:
    """Set the sums of n_arms estimates 0 seen from x = -1: the first step is then exact."""
    state[CENTRE] = -1.0
    state[SUM2:NEAR3] = n_arms
