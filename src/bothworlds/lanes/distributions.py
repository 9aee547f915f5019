"""Draws inside kernels, on one bandit or on a tile: an arm by its weight, normals, gammas.

A lane that has what it needs is frozen and its generator stands still, so what a lane draws never
depends on its neighbours.

**Gamma variates** (Marsaglia and Tsang, *A simple method for generating gamma variables*, ACM
TOMS 26, 2000), shape a >= 1:

======== ==========================================================================
``d``    a - 1/3
``c``    1 / sqrt(9 d)
``x``    a standard normal; s = c x and d (1 + s)^3 is the proposal
``v``    a uniform in (0, 1]; accepted if s > -1 and ln v < d phi(s)
``phi``  9/2 s^2 + 1 - (1 + s)^3 + 3 ln(1 + s)
======== ==========================================================================

phi(0) = 0 and phi'(s) = -3 s^3 / (1 + s).  So -phi(s) <= 3/4 s^4 for s >= 0, and for
-1/2 <= s < 0, -phi(s) = 3 sum_{k >= 4} |s|^k / k <= s^4 (3/4 + 1.05 |s|).  With
e^z >= 1 + z, v < 1 - d s^4 (3/4 + 1.2 |s|) implies acceptance.  This squeeze fails with probability
about 0.03 / d, where the customary one fails about once in ten draws: a tile of 32 variates
then nearly always pays for the logarithm.
"""

from typing import Any

from bothworlds.lanes.functions import cos_sin, log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import random_bits, unit
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import (
    absolute,
    any_lane,
    bits_float,
    float_bits,
    load,
    negate,
    select,
    shift_left,
    splat,
    splat_int,
    sqrt,
    store,
)


@jit
def draw_arm(K: int, S: Any, first: int, total: Any, u: Any) -> Any:
    """Return the first arm whose cumulative weight exceeds u ``total``, and its weight.

    Arm i weighs row ``first + i``, and ``total`` is the sum in this order.  u is a multiple of
    2^-52 below 1, so u ``total`` < ``total`` survives rounding: an arm is always found, and as its
    cumulative weight differs from the previous one, its weight is not 0.
    """
    target = u * total
    arm = splat_int(0, u)
    weight = splat(0.0, u)
    before = u >= 0.0
    summed = splat(0.0, u)
    for i in range(first, first + K):
        w = load(S, i, u)
        weight = select(before, w, weight)
        summed = summed + w
        before = summed <= target
        arm = select(before, arm + 1, arm)
    return arm, weight


@jit
def weight_of(K: int, S: Any, first: int, arm: Any) -> Any:
    """Return the weight of an arm, normalised."""
    total = load(S, first, arm)
    for i in range(first + 1, first + K):
        total = total + load(S, i, arm)
    return take(S, first, K, arm) / total


@jit
def fill_weights(K: int, S: Any, first: int, out: Any) -> None:
    """Write the weights of one bandit's arms, normalised, into an array."""
    total = 0.0
    for i in range(K):
        total += S[first + i]
    for i in range(K):
        out[i] = S[first + i] / total


@jit
def bits_where(pending: Any, G: Any, like: Any) -> Any:
    """Return 64 random bits per lane, advancing the generator only where ``pending``."""
    s0 = load(G, 0, like)
    s1 = load(G, 1, like)
    s2 = load(G, 2, like)
    s3 = load(G, 3, like)
    bits = random_bits(G, like)
    store(G, 0, select(pending, load(G, 0, like), s0))
    store(G, 1, select(pending, load(G, 1, like), s1))
    store(G, 2, select(pending, load(G, 2, like), s2))
    store(G, 3, select(pending, load(G, 3, like), s3))
    return bits


@jit
def normal_pair(radius_bits: Any, angle_bits: Any) -> Any:
    """Return two independent standard normals from two words (Box and Muller).

    52 bits place the point in the quarter of the circle around angle 0; of the word's bits left
    over, one reflects it to the opposite quarter and one exchanges its coordinates.
    """
    c, s = cos_sin(unit(angle_bits) - 0.5)
    c = bits_float(float_bits(c) | shift_left(angle_bits, 63))
    radius = sqrt(-2.0 * log(1.0 - unit(radius_bits)))
    exchanged = (angle_bits & 2) == 0
    return radius * select(exchanged, s, c), radius * select(exchanged, c, s)


@jit
def propose(x: Any, v: Any, d: Any, c: Any) -> Any:
    """Return the gamma proposal of normal ``x``, and whether ``v`` accepts it."""
    s = c * x
    s2 = s * s
    cube = 1.0 + s
    cube = cube * cube * cube
    accepted = (v < 1.0 - d * (s2 * s2) * (0.75 + 1.2 * absolute(s))) & (s >= -0.5)
    unsure = negate(accepted) & (s > -1.0)
    if any_lane(unsure):
        inside = select(unsure, 1.0 + s, 1.0)
        phi = 4.5 * s2 + (1.0 - cube) + 3.0 * log(inside)
        accepted = accepted | (unsure & (log(v) < d * phi))
    return d * cube, accepted


@jit
def propose_pair(
    radius: Any, angle: Any, word1: Any, word2: Any, d1: Any, c1: Any, d2: Any, c2: Any
) -> Any:
    """Return two gamma proposals from four random words, and which are accepted."""
    x1, x2 = normal_pair(radius, angle)
    g1, yes1 = propose(x1, 1.0 - unit(word1), d1, c1)
    g2, yes2 = propose(x2, 1.0 - unit(word2), d2, c2)
    return g1, yes1, g2, yes2


@jit
def gamma_pair(d1: Any, c1: Any, d2: Any, c2: Any, G: Any, like: Any) -> Any:
    """Return two independent gamma variates of shapes d1 + 1/3 and d2 + 1/3, both at least 1."""
    g1, done1, g2, done2 = propose_pair(
        random_bits(G, like),
        random_bits(G, like),
        random_bits(G, like),
        random_bits(G, like),
        d1,
        c1,
        d2,
        c2,
    )
    pending = negate(done1 & done2)
    while any_lane(pending):
        h1, yes1, h2, yes2 = propose_pair(
            bits_where(pending, G, like),
            bits_where(pending, G, like),
            bits_where(pending, G, like),
            bits_where(pending, G, like),
            d1,
            c1,
            d2,
            c2,
        )
        g1 = select(done1, g1, h1)
        g2 = select(done2, g2, h2)
        done1 = done1 | yes1
        done2 = done2 | yes2
        pending = negate(done1 & done2)
    return g1, g2
