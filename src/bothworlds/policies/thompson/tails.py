"""Tails of Beta posteriors beyond a level, drawn without an incomplete beta function.

======== ==========================================================================
``x, y`` numbers of losses 1 and 0: theta is Beta(1 + x, 1 + y), n = x + y
``c``    the level, between 0 and 1
``f``    the density of theta
``g``    x / c - y / (1 - c), the slope of ln f at c
======== ==========================================================================

ln f is concave, so its tangent at c lies above it: f(c + h) <= f(c) e^(g h).  On the side that
the tangent falls to (h < 0 where g > 0, h > 0 where g < 0) the tangent's mass is m = f(c) / |g|.
Hence a draw of theta on this side: with probability m propose h = -E / g, E exponential, and keep
it with probability f(c + h) / (f(c) e^(g h)) = e^z,

    z = x (ln(1 + h/c) - h/c) + y (ln(1 - h/(1-c)) + h/(1-c)).

Both terms are of second order in h, so nothing cancels at n = 10^7.  Nothing kept: theta is on the
other side of c, and nothing else is known of it.  This is exact for every m <= 1.

The density is computed as in Loader, *Fast and Accurate Computation of Binomial Probabilities*,
2000: by the remainders of Stirling's series and the deviance from the mean.
"""

import math

from bothworlds.lanes.functions import exp, log, log1p
from bothworlds.lanes.jit import jit

LARGEST_MASS = math.exp(-1.0)
"""A larger mass counts as 1: such an arm is drawn in full.

A log-concave law has at least 1/e on either side of its mean.  So below this bound the mean is on
the other side of the level, and a draw of that side, repeated until it is there, soon ends."""

# ln n! - (n + 1/2) ln n + n - ln(2 pi) / 2 for n = 1 to 15.
REMAINDERS = (
    0.08106146679532726,
    0.0413406959554093,
    0.02767792568499834,
    0.020790672103765093,
    0.016644691189821193,
    0.013876128823070748,
    0.01189670994589177,
    0.010411265261972096,
    0.009255462182712733,
    0.00833056343336287,
    0.007573675487951841,
    0.00694284010720953,
    0.006408994188004207,
    0.0059513701127588475,
    0.005554733551962801,
)


@jit
def remainder(n: float) -> float:
    """Return Stirling's remainder of ln n!, n >= 1."""
    if n < 16.0:
        return REMAINDERS[int(n) - 1]
    r = 1.0 / (n * n)
    return (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r / 1680.0))) / n


@jit
def deviance(x: float, y: float, c: float) -> float:
    """Return n kl(x / n, c) for x > 0 and y > 0, without cancellation near c = x / n."""
    n = x + y
    e = x - n * c
    return float(x * log1p(e / (n * c)) + y * log1p(-e / (n * (1.0 - c))))


@jit
def density(x: float, y: float, c: float) -> float:
    """Return f(c)."""
    n = x + y
    if x == 0.0:
        return float((n + 1.0) * exp(y * log1p(-c)))
    if y == 0.0:
        return float((n + 1.0) * exp(x * log(c)))
    shape = remainder(n) - remainder(x) - remainder(y)
    near = math.sqrt(n / (2.0 * math.pi * x * y))
    return float((n + 1.0) * near * exp(shape - deviance(x, y, c)))


@jit
def slope(x: float, y: float, c: float) -> float:
    """Return g."""
    return x / c - y / (1.0 - c)


@jit
def mass(x: float, y: float, c: float, side: float) -> float:
    """Return the tangent's mass below c (``side`` -1) or above it (1).

    It is 1 where the tangent does not fall to that side, or cannot be distinguished from 1.
    """
    g = -side * slope(x, y, c)
    if g <= 0.0:
        return 1.0
    m = density(x, y, c) / g
    return m if m <= LARGEST_MASS else 1.0


@jit
def log_kept(x: float, y: float, c: float, h: float) -> float:
    """Return z: the logarithm of the probability with which c + h is kept."""
    p = h / c
    q = h / (1.0 - c)
    return float(x * (log1p(p) - p) + y * (log1p(-q) + q))


@jit
def draw_tail(x: float, y: float, c: float, u: float, v: float) -> float:
    """Return theta on the side the tangent falls to, given a proposal; -1 if it is not kept.

    Two uniform numbers decide: u proposes, v keeps.
    """
    h = log(1.0 - u) / slope(x, y, c)
    theta = c + h
    if theta <= 0.0 or theta >= 1.0:
        return -1.0
    return theta if v < exp(log_kept(x, y, c, h)) else -1.0
