"""The OMD step at alpha = 1/2 for few arms: one look at them in most rounds, and no sums to keep.

Symbols (notation of Zimmert and Seldin, 2021, Algorithm 2):

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i; ``low`` is the smallest
``x``    normalisation: w_i = 4 / (eta (L_i - x))^2, sum_i w_i = 1, x < min_i L_i
``v_i``  (eta / 2) (L_i - x), so that w_i = 1 / v_i^2
``z``    the smallest v_i, so that v_i = z + (eta / 2) (L_i - low)
``S_k``  sum_i v_i^(-k)
``E``    S_2 - 1, which is 0 at the root
``d``    a step in z
======== ==========================================================================

The unknown is z.  It lies in [1, sqrt(K)] and hardly moves once an arm leads, even if that arm's
estimate changes, so the prediction of z is the root of the round before.  Halley's step on E,

    d = E S_3 / (2 S_3^2 - (3/2) E S_4),

is of third order: from E = `SURE` it ends at rounding.  Its denominator is positive for z >= 1 and
up to 16 arms, because S_2 S_4 < (4/3) S_3^2 there; a smaller z is taken back to 1.

Every look also finds the arm at which the cumulative weights pass u.  On the way to the root all
weights rise or all fall, so that none of the cumulative ones changes by more than E; the arm is
certain when all are further than that from u.  Otherwise the solver looks again from z + d.

The functions work on one bandit or on a tile of repetitions (see `bothworlds.lanes.vectors`); the
rows of the state are those of `bothworlds.omd.half`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.vectors import (
    absolute,
    any_lane,
    fma,
    joined,
    load,
    lower,
    maximum,
    minimum,
    negate,
    only_lanes,
    select,
    splat_int,
    upper,
    upper_rows,
)
from bothworlds.omd.half import (
    CUBES,
    ESTIMATES,
    INVERSE_P,
    MAX_PASSES,
    ROOT,
    ROOTS,
    SHARE,
    invert,
    keep,
)

FEW = 8
"""Number of arms up to which looking again is cheaper than keeping sums up to date, measured."""
HALVED = 5
"""Number of arms from which it pays to look at half of the lanes at a time with AVX2, measured.
AVX-512 has registers for all."""
LEAST = SHARE
"""Row of z.  The root is found from any number that an earlier version left there."""

MOST = math.sqrt(FEW)  # z of equal estimates; the root is nowhere larger
SURE = 2e-5  # largest |E| of a last look; cumulative weights so close to u leave it uncertain
EXACT = 4e-15  # |E| that is rounding


@jit
def fits(K: int) -> bool:
    """Tell whether K arms are few, and more than the one that needs no solver."""
    return 2 <= K <= FEW


@jit
def count_arm(v: Any, r: Any, u: Any, sums: Any) -> Any:
    """Add the next arm to the sums of a look and see whether u falls behind all before it."""
    S1, S2, S3, S4, arm, drawn, distance = sums
    beyond = u - S2
    distance = minimum(distance, absolute(beyond))
    passed = beyond >= 0.0
    arm = select(passed, arm + 1, arm)  # once u falls short of a sum it does of all that follow
    drawn = select(passed, v, drawn)
    w = r * r
    return S1 + r, S2 + w, fma(w, r, S3), fma(w, w, S4), arm, drawn, distance


@inlined
def scan(K: int, S: Any, scale: Any, low: Any, z: Any, u: Any) -> Any:
    """Return the sums at z, the arm at which they pass u, its v, and the distance of u to them."""
    v0 = fma(load(S, ESTIMATES, u) - low, scale, z)
    v1 = fma(load(S, ESTIMATES + 1, u) - low, scale, z)
    r0, r1 = invert(v0, v1)
    w0 = r0 * r0
    w1 = r1 * r1
    S2 = w0 + w1
    S3 = fma(w1, r1, w0 * r0)
    S4 = fma(w1, w1, w0 * w0)
    S1 = r0 + r1
    beyond = u - w0
    distance = absolute(beyond)
    arm = select(beyond >= 0.0, splat_int(1, u), splat_int(0, u))
    drawn = select(beyond >= 0.0, v1, v0)
    sums = (S1, S2, S3, S4, arm, drawn, distance)
    for i in range(2, K - 1, 2):
        v0 = fma(load(S, ESTIMATES + i, u) - low, scale, z)
        v1 = fma(load(S, ESTIMATES + i + 1, u) - low, scale, z)
        r0, r1 = invert(v0, v1)
        sums = count_arm(v0, r0, u, sums)
        sums = count_arm(v1, r1, u, sums)
    if K % 2 != 0:
        v0 = fma(load(S, ESTIMATES + K - 1, u) - low, scale, z)
        sums = count_arm(v0, 1.0 / v0, u, sums)
    return sums


@inlined
def scan_halves(K: int, S: Any, scale: Any, low: Any, z: Any, u: Any) -> Any:
    """Do the same for one half of the lanes after the other."""
    one = scan(K, S, lower(scale), lower(low), lower(z), lower(u))
    other = scan(K, upper_rows(S, u), upper(scale), upper(low), upper(z), upper(u))
    return (
        joined(one[0], other[0], u), joined(one[1], other[1], u), joined(one[2], other[2], u),
        joined(one[3], other[3], u), joined(one[4], other[4], u), joined(one[5], other[5], u),
        joined(one[6], other[6], u),
    )  # fmt: skip


@inlined
def look(
    K: int, S: Any, scale: Any, low: Any, z: Any, u: Any, pending: Any, M: Any, halves: Any
) -> Any:
    """Evaluate the sums at z and see where u falls; ``scale`` is eta / 2.

    Returns the arm, its v, the step d to the root, and the lanes whose root or arm is not certain
    yet.  ``M`` is None, or rows for the sums of `half.draw`, kept in the lanes of ``pending``.
    """
    sums = scan(K, S, scale, low, z, u) if halves is None else scan_halves(K, S, scale, low, z, u)
    S1, S2, S3, S4, arm, drawn, distance = sums
    E = S2 - 1.0
    h = 0.5 * E
    d = h * S3 / fma(-1.5 * h, S4, S3 * S3)
    if M is not None:
        # Moved on to the root by their Taylor series; S_4^2 / S_3 stands for S_5, as if one arm
        # had all the weight.
        keep(M, ROOTS, fma(-d, fma(-d, fma(-d, S4, S3), S2), S1), pending)
        keep(M, CUBES, fma(-3.0 * d, S4 * fma(-2.0 * d, S4 / S3, 1.0), S3), pending)
    unsure = (distance <= SURE) | negate(absolute(E) <= SURE)
    if any_lane(unsure):
        unsure = unsure & negate(absolute(E) <= EXACT)
    return arm, drawn, d, unsure


@jit
def finish(S: Any, eta: Any, low: Any, z: Any, drawn: Any, pending: Any) -> None:
    """Keep z, x and 1 / w_I = v_I^2 in the lanes of ``pending``, or in all if it is None."""
    keep(S, LEAST, z, pending)
    keep(S, ROOT, fma(-2.0 / eta, z, low), pending)
    keep(S, INVERSE_P, drawn * drawn, pending)


@inlined
def draw(K: int, S: Any, eta: Any, u: Any, M: Any) -> Any:
    """Solve the round's OMD step and draw the arm at which the weights sum past ``u``.

    ``M`` is None, or rows for the sums `half.ROOTS` and `half.CUBES`.
    """
    return solve_and_draw(K, S, eta, u, M, None)


@inlined
def draw_by_halves(K: int, S: Any, eta: Any, u: Any) -> Any:
    """Do the same where the sums of all lanes do not fit the registers."""
    return solve_and_draw(K, S, eta, u, None, True)


@inlined
def solve_and_draw(K: int, S: Any, eta: Any, u: Any, M: Any, halves: Any) -> Any:
    """Solve and draw; ``halves`` is None, or True to look at half of the lanes at a time."""
    scale = 0.5 * eta
    low = minimum(load(S, ESTIMATES, u), load(S, ESTIMATES + 1, u))
    for i in range(ESTIMATES + 2, ESTIMATES + K):
        low = minimum(low, load(S, i, u))
    z = minimum(maximum(load(S, LEAST, u), 1.0), MOST)
    arm, drawn, d, pending = look(K, S, scale, low, z, u, None, M, halves)
    finish(S, eta, low, z + d, drawn + d, None)
    passes = 1
    while any_lane(pending) and passes < MAX_PASSES:
        z = maximum(load(S, LEAST, u), 1.0)
        lanes = only_lanes(pending)
        again, drawn, d, unsure = look(K, S, scale, low, z, u, lanes, M, halves)
        finish(S, eta, low, z + d, drawn + d, lanes)
        arm = select(pending, again, arm)
        pending = pending & unsure
        passes += 1
    return arm


def first_state(n_arms: int, state: NDArray[np.float64]) -> None:
    """Set z of n_arms estimates 0: the first look is then at the root."""
    state[LEAST] = math.sqrt(n_arms)
