"""Weight of one arm in the OMD step, as a function of its scaled loss.

======== ==================================================================================
``a``    alpha, in [0, 1]
``b``    1 - alpha
``s``    eta xi_i (L_i - y) >= 0, the scaled distance of arm i's loss from the multiplier y
``w``    (1 + b s)^(-1/b), the weight; exp(-s) at alpha = 1 and 1 / (1 + s) at alpha = 0
======== ==================================================================================

The forms below are chosen by what rounding does to them. An error in the exponent's logarithm
counts |ln w| times, and with many arms an error shared by all small weights comes back up to
K^(b / (1 + b)) / 2 times larger in a big one (500 times at alpha = 0, K = 1e6). So for b >= 1/2
one power of 1 / (1 + b s) is taken out exactly and only the rest, with exponent a / b <= 1, goes
through pow; for b < 1/2, where 1 + b s would lose the digits of s, log1p keeps them.
"""

import math

from bothworlds.lanes.jit import jit


@jit
def weight(s: float, a: float, b: float) -> float:
    """Return w(s); relative error about 1e-15 for moderate w, 5e-13 down to w = 1e-290."""
    if b == 0.5:
        r = 1.0 / (1.0 + 0.5 * s)
        return r * r
    if b == 1.0:
        return 1.0 / (1.0 + s)
    if b > 0.5:
        r = 1.0 / (1.0 + b * s)
        return float(r * r ** (a / b))
    if b > 0.0:
        return math.exp(-math.log1p(b * s) / b)
    return math.exp(-s)


@jit
def deficit(s: float, b: float) -> float:
    """Return 1 - w(s) without cancellation: relatively accurate however small s is."""
    if b > 0.0:
        return -math.expm1(-math.log1p(b * s) / b)
    return -math.expm1(-s)


@jit
def distance(log_n: float, b: float) -> float:
    """Return the s at which w(s) = 1/n: (n^b - 1) / b, or log n at alpha = 1."""
    if b > 0.0:
        return math.expm1(b * log_n) / b
    return log_n
