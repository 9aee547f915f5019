"""Arithmetic on unevaluated sums ``hi + lo`` of two doubles: about 32 significant digits.

The OMD step needs it where the root itself is ill conditioned (see ``omd.step``), and nowhere
else. Every number is a pair of floats with ``hi`` the sum rounded to double; products are split
by hand, so no fused multiply-add is assumed and results do not depend on the machine.

References
----------
T. J. Dekker, A floating-point technique for extending the available precision,
Numerische Mathematik 18, 1971. D. E. Knuth, The Art of Computer Programming 2, section 4.2.2.
"""

import math

from bothworlds.lanes.jit import jit

_LN2_HI = 0.6931471805599453
_LN2_LO = 2.319046813846299558e-17
_HALVINGS = 9  # |x| <= ln(2)/2 becomes |x| <= 6.8e-4, where nine terms of the series give 1e-34
_TERMS = 9
_SPLITTER = 134217729.0  # 2**27 + 1


@jit
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return the exact sum of two doubles."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@jit
def two_product(a: float, b: float) -> tuple[float, float]:
    """Return the exact product of two doubles (no overflow below 1e300)."""
    p = a * b
    t = _SPLITTER * a
    a_hi = t - (t - a)
    a_lo = a - a_hi
    t = _SPLITTER * b
    b_hi = t - (t - b)
    b_lo = b - b_hi
    return p, ((a_hi * b_hi - p) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo


@jit
def add(a: float, a_lo: float, b: float, b_lo: float) -> tuple[float, float]:
    """Return the sum of two pairs."""
    s, e = two_sum(a, b)
    t, f = two_sum(a_lo, b_lo)
    s, e = two_sum(s, e + t)
    s, e = two_sum(s, e + f)
    return s, e


@jit
def multiply(a: float, a_lo: float, b: float, b_lo: float) -> tuple[float, float]:
    """Return the product of two pairs."""
    p, e = two_product(a, b)
    p, e = two_sum(p, e + (a * b_lo + a_lo * b))
    return p, e


@jit
def divide(a: float, a_lo: float, b: float, b_lo: float) -> tuple[float, float]:
    """Return the quotient of two pairs."""
    q = a / b
    p, e = multiply(q, 0.0, b, b_lo)
    r, r_lo = add(a, a_lo, -p, -e)
    q, e = two_sum(q, (r + r_lo) / b)
    return q, e


@jit
def expm1(x: float, x_lo: float) -> tuple[float, float]:
    """Return ``exp(x) - 1`` of a pair, relatively accurate also for small ``x``."""
    k = math.floor(x / _LN2_HI + 0.5)
    p, e = multiply(k, 0.0, _LN2_HI, _LN2_LO)
    r, r_lo = add(x, x_lo, -p, -e)
    scale = 1.0 / (1 << _HALVINGS)
    r *= scale
    r_lo *= scale
    # Horner form of r + r^2/2! + ... : y = r (1 + r/2 (1 + r/3 (...)))
    y, y_lo = 1.0, 0.0
    for n in range(_TERMS, 1, -1):
        y, y_lo = multiply(y, y_lo, r, r_lo)
        y, y_lo = divide(y, y_lo, float(n), 0.0)
        y, y_lo = add(1.0, 0.0, y, y_lo)
    y, y_lo = multiply(y, y_lo, r, r_lo)
    for _ in range(_HALVINGS):
        p, e = multiply(y, y_lo, y, y_lo)
        y, y_lo = add(2.0 * y, 2.0 * y_lo, p, e)
    if k == 0.0:
        return y, y_lo
    y, y_lo = add(1.0, 0.0, y, y_lo)
    y = math.ldexp(y, int(k))
    y_lo = math.ldexp(y_lo, int(k))
    y, y_lo = add(y, y_lo, -1.0, 0.0)
    return y, y_lo


@jit
def exp(x: float, x_lo: float) -> tuple[float, float]:
    """Return ``exp(x)`` of a pair, relatively accurate also for very negative ``x``."""
    k = math.floor(x / _LN2_HI + 0.5)
    p, e = multiply(k, 0.0, _LN2_HI, _LN2_LO)
    r, r_lo = add(x, x_lo, -p, -e)
    y, y_lo = expm1(r, r_lo)
    y, y_lo = add(1.0, 0.0, y, y_lo)
    return math.ldexp(y, int(k)), math.ldexp(y_lo, int(k))


@jit
def log1p(u: float, u_lo: float) -> tuple[float, float]:
    """Return ``log(1 + u)`` of a pair with ``u >= 0``: one Newton step on the double result."""
    y = math.log1p(u)
    m, m_lo = expm1(y, 0.0)
    r, r_lo = add(u, u_lo, -m, -m_lo)
    y, y_lo = two_sum(y, (r + r_lo) / (1.0 + u))
    return y, y_lo
