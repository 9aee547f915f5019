"""Elementary functions of lanes and of scalars, the same bits everywhere.

A platform's mathematical library differs from the next one in the last bit and knows no lanes.
Here each function is an exact reduction followed by a polynomial whose coefficients minimise the
largest relative error (Remez' algorithm, rounded to doubles), in plain IEEE operations: within
2 units in the last place, identical on every machine and in every lane.

============= ============================================ ============================
function      reduction                                    polynomial
============= ============================================ ============================
`exp`         x = k ln 2 + r, |r| <= ln(2) / 2             e^r = 1 + r + r^2 P_9(r)
`log`         x = 2^k m, 1/sqrt(2) <= m < sqrt(2)          2 atanh(s), s = (m-1)/(m+1)
`log1p`       that of `log`, and what 1 + x loses
`cos_sin`     none, the angle is a quarter turn at most    degrees 12 and 13
============= ============================================ ============================
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import bits_float, float_bits, select, shift_left, shift_right

# ln 2 in two parts; the first has 20 bits to spare, so its product with an exponent is exact.
LN2_HIGH = float.fromhex("0x1.62e42fefap-1")
LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
OVER_LN2 = float.fromhex("0x1.71547652b82fep+0")
ROUNDER = 1.5 * 2.0**52  # added to a small number, leaves its nearest integer in the low bits
LEAST_EXPONENT = -708.0  # below, exp is treated as 0 rather than as a subnormal number
EXPONENT_ONE = 0x3FF0000000000000  # bits of 1.0
ROOT_HALF = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)
WHOLE = 0x4330000000000000  # bits of 2^52, in whose low bits a whole number can be placed


@jit
def exp(x: Any) -> Any:
    """Return e^x for x <= 0, or any x below 709; 0 below -708."""
    shifted = x * OVER_LN2 + ROUNDER
    k = shifted - ROUNDER
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = 2.499992937459844e-08
    p = p * r + 2.763024944226357e-07
    p = p * r + 2.755758676219617e-06
    p = p * r + 2.480149309637924e-05
    p = p * r + 0.0001984126950617823
    p = p * r + 0.0013888888943632033
    p = p * r + 0.00833333333349463
    p = p * r + 0.041666666666530155
    p = p * r + 0.16666666666666413
    p = p * r + 0.5000000000000011
    power = bits_float(shift_left(float_bits(shifted) + 1023, 52))
    return select(x < LEAST_EXPONENT, 0.0, power * (1.0 + (r + r * r * p)))


@jit
def log(x: Any) -> Any:
    """Return ln x for positive, finite and normal x."""
    bits = float_bits(x)
    exponent = shift_right(bits + (EXPONENT_ONE - ROOT_HALF), 52)
    k = bits_float(exponent | WHOLE) - (2.0**52 + 1023.0)
    f = bits_float(bits - shift_left(exponent, 52) + EXPONENT_ONE) - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 0.14795794713512353
    p = p * z + 0.15314068596650018
    p = p * z + 0.18183563517597612
    p = p * z + 0.22222198590785155
    p = p * z + 0.28571428742195837
    p = p * z + 0.3999999999941563
    p = p * z + 0.6666666666666734
    # 2 atanh(s) = f - s (f - z P): the leading term f is exact.
    return k * LN2_HIGH + (f - (s * (f - z * p) - k * LN2_LOW))


@jit
def log_below(x: Any) -> Any:
    """Return a number not above ln x and at most 0.06 below it, for positive and normal x.

    log2(2^k (1 + f)) >= k + f, which the bits of the number are.
    """
    k = bits_float(shift_right(float_bits(x), 20) | WHOLE) - 2.0**52
    return k * (LN2 / 2.0**32) - (1023.0 * LN2 + 1e-12)


@jit
def log1p(x: Any) -> Any:
    """Return ln(1 + x) for finite x > -1, to a few units in the last place also near 0."""
    y = 1.0 + x
    # What rounding y lost, times the derivative of the logarithm there.
    return log(y) + (x - (y - 1.0)) / y


@jit
def cos_sin(h: Any) -> Any:
    """Return the cosine and the sine of h quarter turns, |h| <= 1/2."""
    z = h * h
    c = 4.655337248934665e-07
    c = c * z + -2.5200143058863227e-05
    c = c * z + 0.0009192599541476581
    c = c * z + -0.020863480735867405
    c = c * z + 0.25366950789995935
    c = c * z + -1.2337005501361553
    s = 5.6337210129881535e-08
    s = s * z + -3.598641754446465e-06
    s = s * z + 0.00016044115029164828
    s = s * z + -0.0046817541322824174
    s = s * z + 0.07969262624603957
    s = s * z + -0.6459640975062443
    s = s * z + 1.5707963267948966
    return 1.0 + z * c, h * s


@jit
def divergence(p: float, q: float) -> float:
    """Return kl(p, q) of Bernoulli distributions, for 0 < q < 1."""
    total = 0.0
    if p > 0.0:
        total += p * log(p / q)
    if p < 1.0:
        total += (1.0 - p) * log((1.0 - p) / (1.0 - q))
    return float(total)


@jit
def is_due(n: int) -> Any:
    """Tell whether n is one of the times at which a slow thing is done again.

    These are the first 128 times, then 64 per doubling.
    """
    # The lowest set bit of n is 2^(how often n can be halved).
    return (n & -n) << 7 > n
