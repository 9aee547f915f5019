"""The OMD step for any alpha and any xi on tiles of repetitions: weights that follow the root.

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i; ``low`` is the smallest
``b``    1 - alpha
``y``    the multiplier; z = eta (low - y) >= 0
``s_i``  xi_i eta (L_i - y) = xi_i (eta (L_i - low) + z)
``w_i``  (1 + b s_i)^(-1/b), exp(-s_i) at alpha = 1; sum_i w_i = 1 at the root
``p_i``  1 / (1 + b s_i), so that dw_i/ds_i = -w_i p_i
``q_i``  xi_i p_i, so that dw_i/dz = -w_i q_i and dq_i/dz = -b q_i^2
``E``    sum_i w_i - 1
``D_n``  sum_i w_i q_i^n
``H``    sum_i w_i p_i s_i, minus the derivative of E with respect to ln eta where y stands still
``d``    a step in z
======== ==========================================================================

**A power is computed where an arm jumps; otherwise its weight follows.**  From one look at an arm
to the next s moves by little, but for the arm just played.  With r = (s' - s) p',

    w' / w = (1 - b r)^(1/b) = 1 - r (1 - (1 - b)/2 r (1 - (1 - 2b)/3 r (1 - ...)))

for every alpha, from the exponential's series at alpha = 1 to the plain 1 - r at alpha = 0.  The
difference s' - s is that of the numbers kept, so only one rounding of w a look adds up, and every
`REFRESH` rounds all powers are computed again.

**Newton cannot fail.**  (sum_i w_i)^(-b) is a mean of the affine functions 1 + b s_i of z, with
exponent -1/b, hence concave and increasing; as is -ln sum_i w_i at alpha = 1.  Newton's step lands
left of the root, and from there increases monotonically; at z = 0 an arm has s = 0 and E >= 0.
So any start will do, and one at which all weights are lost is taken back to z = 0.  Near the root
Chebyshev's correction adds an order: from a last look at `SURE` it ends at rounding.

**Prediction.**  When the arm just drawn moves, its new power is computed once, and E, D_1 and D_2
at the same y are known; so is what a new eta does, by H.  The step they give ends within `SURE`
of the next root, early rounds apart, so that most rounds look once.

**Draw.**  Every look also finds the arm at which the cumulative weights pass u.  On the way to the
root all weights rise or all fall, so that none of the cumulative ones changes by more than E; the
arm is certain when all are further than that from u.  Otherwise the solver looks again from z + d.

**Rounding.**  An error of E moves weight i by q_i / D_1 times as much relatively, at most by
K^(b / (1 + b)) / 2 where all xi are equal and max xi / min xi times that otherwise: what is far
apart is left to `bothworlds.omd.asymmetric`.
"""

import math
from typing import Any

from bothworlds.lanes.functions import exp, log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import put, take
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    absolute,
    any_lane,
    fma,
    load,
    maximum,
    minimum,
    negate,
    select,
    splat,
    splat_int,
    store,
)
from bothworlds.omd.half import BLOCK
from bothworlds.omd.recentring import least, recentre

INVERSE_P = 0
"""Row of 1 / w_I, I the arm just drawn."""
STEP = 1
"""Row of the last d: the rows of s, w and p of the arms belong to z - d."""
FRAME = 2
"""Row of y at the root; baselines may have moved it since."""
RATE, OVER_RATE = 3, 4
"""Rows of eta and 1 / eta."""
MISSING = 5
"""Row of E as it is at y now that the estimates have moved; D_1, D_2 and H follow."""
SUM1, SUM2, DRIFT = 6, 7, 8
DRAWN = 9
"""Row of s_I at the root; w_I, p_I and xi_I follow."""
DRAWN_W, DRAWN_P, DRAWN_XI = 10, 11, 12
TABLE = 13
"""First of two rows with a table of `bothworlds.omd.late_rates`, in their places."""
ESTIMATES = 15
"""First row of the loss estimates; K rows each of s, w and p follow."""
PER_ARM = 4

SURE = 2e-5  # largest |E| of a last look; cumulative weights so close to u leave it uncertain
NEAR = 1.0 / 32.0  # largest |r| for the series, whose eighth power is then below 7e-16
REFRESH = 128  # rounds after which all powers are computed again
LOST = 1e-2  # sum of the weights below which a start is given up for z = 0
FARTHEST = 1e30  # what is predicted beyond, or is no number, is given up as well
MAX_LOOKS = 100  # never reached: a bound on the loop, not a tolerance
LEAST = -0.5  # smallest s, for which every power is a moderate number
LEAST_RATE = 1e-50  # 1 / eta is that of this rate where eta is smaller


@jit
def power(s: Any, p: Any, b: float) -> Any:
    """Return w = (1 + b s)^(-1/b); ``p`` is 1 / (1 + b s).

    One power of p is taken out, which has no logarithm's error; what rounding 1 + b s lost, which
    counts 1/b times, is put back into the logarithm.
    """
    if b == 0.0:
        return exp(-s)
    if b == 1.0:
        return p
    x = b * s
    v = 1.0 + x
    return raised(p, fma(x - (v - 1.0), p, log(v)), b)


@jit
def raised(r: Any, log_v: Any, b: float) -> Any:
    """Return v^(-1/b), given 1 / v and ln v."""
    return r * exp((b - 1.0) / b * log_v)


@jit
def excess(E: Any, b: float) -> Any:
    """Return S (S^b - 1) / b for S = 1 + E, which over D_1 is Newton's step on S^(-b)."""
    series = fma(fma((b - 2.0) * (1 / 4), E, 1.0), (b - 1.0) * (1 / 3) * E, 1.0)
    h = E * fma(0.5 * (1.0 + b) * E, series, 1.0)
    far = negate(absolute(E) <= 0.05)
    if any_lane(far):
        x = log(maximum(1.0 + E, LOST))
        # The quotient has no digits where b has none; it only has to lead to the root.
        grown = x * (1.0 + 0.5 * b * x) if b < 1e-6 else (exp(b * x) - 1.0) / b
        h = select(far, (1.0 + E) * grown, h)
    return h


@jit
def step_to_root(E: Any, D1: Any, D2: Any, b: float) -> Any:
    """Return Newton's step d, with Chebyshev's correction where that is small."""
    over = 1.0 / D1
    d = excess(E, b) * over
    # D_2 / D_1 - D_1 / (1 + E), without the division where it matters.
    bend = 0.5 * (1.0 + b) * fma(D2, over, D1 * fma(E, 1.0 - E, -1.0)) * d
    return fma(d, select(absolute(bend) < 0.1, bend, 0.0), d)


@jit
def at_root(w: Any, change: Any, b: float) -> Any:
    """Return w once s has moved by ``change`` / p, which is at most `SURE`."""
    return w * fma(-change, fma(-0.5 * (1.0 + b), change, 1.0), 1.0)


@jit
def follow(K: int, S: Any, xi: Any, b: float, eta: Any, low: Any, z: Any, refresh: bool) -> None:
    """Update s, w and p of all arms to z; compute all powers if ``refresh``."""
    A1 = (b - 1.0) * (1 / 2)
    A2 = A1 * ((2.0 * b - 1.0) * (1 / 3))
    A3 = A2 * ((3.0 * b - 1.0) * (1 / 4))
    A4 = A3 * ((4.0 * b - 1.0) * (1 / 5))
    A5 = A4 * ((5.0 * b - 1.0) * (1 / 6))
    A6 = A5 * ((6.0 * b - 1.0) * (1 / 7))
    jumped = z != z
    for i in range(ESTIMATES, ESTIMATES + K):
        s = fma(load(S, i, z) - low, eta, z)
        if xi is not None:
            s = xi[i - ESTIMATES] * s
        p = 1.0 / fma(b, s, 1.0)
        r = (s - load(S, i + K, z)) * p
        series = fma(A6, r, A5)
        series = fma(series, r, A4)
        series = fma(series, r, A3)
        series = fma(series, r, A2)
        series = fma(series, r, A1)
        series = fma(series, r, 1.0)
        w = load(S, i + 2 * K, z)
        far = negate(absolute(r) <= NEAR)
        jumped = jumped | far
        store(S, i + K, s)
        store(S, i + 2 * K, select(far, -1.0, fma(-w * r, series, w)))
        store(S, i + 3 * K, p)
    if refresh or any_lane(jumped):
        for i in range(ESTIMATES, ESTIMATES + K):
            w = load(S, i + 2 * K, z)
            far = w < 0.0
            if refresh or any_lane(far):
                exact = power(load(S, i + K, z), load(S, i + 3 * K, z), b)
                store(S, i + 2 * K, exact if refresh else select(far, exact, w))


@jit
def look(
    K: int, S: Any, xi: Any, b: float, eta: Any, low: Any, z: Any, refresh: bool, u: Any
) -> Any:
    """Evaluate the weights at z and see where u falls.

    Returns the arm, its xi, the step d to the root, and the lanes whose root or arm is not certain.
    """
    follow(K, S, xi, b, eta, low, z, refresh)
    certain = min(SURE, 1e-3 / K)
    total = splat(0.0, u)
    D1 = splat(0.0, u)
    D2 = splat(0.0, u)
    H = splat(0.0, u)
    steepest = splat(0.0, u)
    distance = splat(1.0, u)
    arm = splat_int(0, u)
    factor = splat(1.0, u)
    for start in range(0, K, BLOCK):
        rest = u - total
        part = splat(0.0, u)
        for i in range(start, min(start + BLOCK, K)):
            w = load(S, ESTIMATES + 2 * K + i, u)
            q = load(S, ESTIMATES + 3 * K + i, u)
            ahead = rest - part
            distance = minimum(distance, absolute(ahead))
            # An arm whose weight is too small for a number is not drawn.
            here = (ahead >= 0.0) & (w > 0.0)
            arm = select(here, splat_int(i, u), arm)
            part = part + w
            w = w * q
            H = fma(w, load(S, ESTIMATES + K + i, u), H)
            if xi is not None:
                factor = select(here, xi[i], factor)
                w = w * xi[i]
                q = q * xi[i]
                steepest = maximum(steepest, q)
            D1 = D1 + w
            D2 = fma(w, q, D2)
        total = total + part
    store(S, SUM1, D1)
    store(S, SUM2, D2)
    store(S, DRIFT, H)
    E = total - 1.0
    d = select(total > LOST, step_to_root(E, D1, D2, b), -z)
    size = absolute(d)
    small = size * steepest <= SURE if xi is not None else size <= SURE * fma(b, z, 1.0)
    unsure = (distance <= certain) | negate((absolute(E) <= certain) & small)
    if any_lane(unsure):
        # Where only rounding is left another look would find nothing else.
        unsure = unsure & negate(absolute(E) <= 4e-15 + 2e-16 * math.sqrt(K))
    return arm, factor, d, unsure


@jit
def draw(K: int, S: Any, xi: Any, b: float, eta: float, refresh: bool, u: Any) -> Any:
    """Solve the round's OMD step and draw the arm at which the weights sum past ``u``.

    ``xi`` has the factors, or is None where all are 1; all powers are computed if ``refresh``.
    """
    low = least(K, S, ESTIMATES, u)
    E = fma(fma(-eta, load(S, OVER_RATE, u), 1.0), load(S, DRIFT, u), load(S, MISSING, u))
    d = step_to_root(E, load(S, SUM1, u), load(S, SUM2, u), b)
    z = fma(low - load(S, FRAME, u), eta, d)
    z = maximum(select(absolute(z) < FARTHEST, z, 0.0), 0.0)
    arm, factor, d, pending = look(K, S, xi, b, eta, low, z, refresh, u)
    looks = 1
    while any_lane(pending) and looks < MAX_LOOKS:
        # A lane that is done stands still, and another look gives it the same numbers again.
        z = maximum(z + select(pending, d, 0.0), 0.0)
        arm, factor, d, pending = look(K, S, xi, b, eta, low, z, False, u)
        looks += 1
    over = 1.0 / max(eta, LEAST_RATE)
    move = d
    if xi is not None:
        move = d * factor
        store(S, DRAWN_XI, factor)
    p = take(S, ESTIMATES + 3 * K, K, arm)
    w = at_root(take(S, ESTIMATES + 2 * K, K, arm), move * p, b)
    store(S, STEP, d)
    store(S, FRAME, fma(-over, z + d, low))
    store(S, RATE, splat(eta, u))
    store(S, OVER_RATE, splat(over, u))
    store(S, DRAWN, take(S, ESTIMATES + K, K, arm) + move)
    store(S, DRAWN_W, w)
    store(S, DRAWN_P, p)
    store(S, INVERSE_P, 1.0 / w)
    return arm


@jit
def move_drawn(K: int, S: Any, xi: Any, b: float, arm: Any, by: Any, rise: Any) -> None:
    """Let the sums know that the arm just drawn moved away from y by ``by``, and E by ``rise``."""
    s = load(S, RATE, by) * by
    if xi is not None:
        s = s * load(S, DRAWN_XI, by)
    # A negative s, which a baseline may give, only serves the prediction.
    s = maximum(s + load(S, DRAWN, by), LEAST)
    p = 1.0 / fma(b, s, 1.0)
    w = power(s, p, b)
    put(S, ESTIMATES + K, K, arm, s)
    put(S, ESTIMATES + 2 * K, K, arm, w)
    w0 = load(S, DRAWN_W, by)
    p0 = load(S, DRAWN_P, by)
    store(S, MISSING, (w - w0) + rise)
    if xi is not None:
        p = p * load(S, DRAWN_XI, by)
        p0 = p0 * load(S, DRAWN_XI, by)
    w = w * p
    w0 = w0 * p0
    store(S, SUM1, maximum(load(S, SUM1, by) - w0, 0.0) + w)
    store(S, SUM2, maximum(load(S, SUM2, by) - w0 * p0, 0.0) + w * p)


@jit
def shrink(K: int, S: Any, like: Any) -> None:
    """Subtract min L from L and y: the weights depend on differences only."""
    low = recentre(K, S, ESTIMATES, like)
    store(S, FRAME, load(S, FRAME, like) - low)


@jit
def restart(K: int, S: Any, place: int, y: float) -> None:
    """Let the lane at ``place``, whose estimates are new, start at the multiplier y.

    All powers are then computed again, from rows as they are before the first round.
    """
    for row in range(MISSING, TABLE):
        S[row * LANES + place] = 0.0
    S[STEP * LANES + place] = 0.0
    S[SUM1 * LANES + place] = 1.0
    S[FRAME * LANES + place] = y
    S[RATE * LANES + place] = 0.0
    S[OVER_RATE * LANES + place] = 0.0
    for i in range(K):
        S[(ESTIMATES + K + i) * LANES + place] = 0.0
        S[(ESTIMATES + 2 * K + i) * LANES + place] = 1.0
        S[(ESTIMATES + 3 * K + i) * LANES + place] = 1.0
