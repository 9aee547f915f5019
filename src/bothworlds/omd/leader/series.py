"""Power sums of leader mode: what a Taylor series needs of the arms it stands for.

Symbols and equations are those of `bothworlds.omd.leader`.  ``first`` is the row of c_0.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import fma, load, select, splat, sum_lanes, zeros
from bothworlds.omd.leader.layout import ORDER, far_marks, table
from bothworlds.omd.leader.membership import vectors


@jit
def evaluate(M: Any, first: int, s: Any) -> Any:
    """Return sum_n c_n s^n, and its derivative to three terms."""
    c1 = load(M, first + 1, s)
    c2 = load(M, first + 2, s)
    c3 = load(M, first + 3, s)
    s2 = s * s
    s4 = s2 * s2
    low = fma(fma(c3, s, c2), s2, fma(c1, s, load(M, first, s)))
    middle = fma(load(M, first + 5, s), s, load(M, first + 4, s))
    high = fma(load(M, first + 7, s), s, load(M, first + 6, s))
    top = fma(load(M, first + 9, s), s, load(M, first + 8, s))
    value = fma(fma(top, s4, fma(high, s2, middle)), s4, low)
    return value, fma(fma(3.0 * s, c3, 2.0 * c2), s, c1)


@jit
def sum_powers(K: int, M: Any, place: int, W: int, first: int, far: Any) -> None:
    """Compute the c_n of a lane, of all arms or of those whose mark is ``far``.

    The room of the table has the 1 / V_i, and 0 where there is no arm: powers of `NOBODY` would be
    too small for ordinary numbers, which the processor is slow at.
    """
    like = zeros()
    R = table(K, M, place, W)
    c0 = splat(0.0, like)
    c1, c2, c3, c4, c5, c6, c7, c8, c9 = c0, c0, c0, c0, c0, c0, c0, c0, c0
    for i in range(vectors(K)):
        r = load(R, i, like)
        if far is not None:
            r = select(load(far_marks(K, M, place, W), i, like) == far, r, 0.0)
        p = r * r
        c0 = c0 + p
        p = p * r
        c1 = c1 + p
        p = p * r
        c2 = c2 + p
        p = p * r
        c3 = c3 + p
        p = p * r
        c4 = c4 + p
        p = p * r
        c5 = c5 + p
        p = p * r
        c6 = c6 + p
        p = p * r
        c7 = c7 + p
        p = p * r
        c8 = c8 + p
        p = p * r
        c9 = c9 + p
    M[(first + 0) * W + place] = sum_lanes(c0)
    M[(first + 1) * W + place] = -2.0 * sum_lanes(c1)
    M[(first + 2) * W + place] = 3.0 * sum_lanes(c2)
    M[(first + 3) * W + place] = -4.0 * sum_lanes(c3)
    M[(first + 4) * W + place] = 5.0 * sum_lanes(c4)
    M[(first + 5) * W + place] = -6.0 * sum_lanes(c5)
    M[(first + 6) * W + place] = 7.0 * sum_lanes(c6)
    M[(first + 7) * W + place] = -8.0 * sum_lanes(c7)
    M[(first + 8) * W + place] = 9.0 * sum_lanes(c8)
    M[(first + 9) * W + place] = -10.0 * sum_lanes(c9)


@jit
def replace(M: Any, place: int, W: int, first: int, r0: float, r1: float) -> None:
    """Let a series know that 1 / V of one of its arms changes from ``r0`` to ``r1``.

    0 as the one or the other adds an arm or takes one away.
    """
    p0 = r0 * r0
    p1 = r1 * r1
    sign = 1.0
    for n in range(ORDER + 1):
        M[(first + n) * W + place] += sign * (n + 1) * (p1 - p0)
        p0 *= r0
        p1 *= r1
        sign = -sign


@jit
def clear(M: Any, place: int, W: int, first: int) -> None:
    """Let a series stand for no arm, without what rounding left of those it had."""
    for n in range(ORDER + 1):
        M[(first + n) * W + place] = 0.0
