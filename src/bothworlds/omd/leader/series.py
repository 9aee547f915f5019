"""Power sums of leader mode: the moments that a Taylor series needs of its arms.

Symbols and equations are those of `bothworlds.omd.leader`.  ``first`` is the row of c_0.
"""

from typing import Any

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.vectors import fma, load, select, splat, sum_lanes, zeros
from bothworlds.omd.leader.layout import ORDER, far_marks, others, table, vectors

# Templates: `bothworlds.omd.leader.families` fills in what differs from family to family.
coefficient: Any = None


@inlined
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
    # 3 s as sums: processors have units for these that do no products.
    return value, fma(fma(s + s + s, c3, c2 + c2), s, c1)


@jit
def evaluate_to_four(M: Any, first: int, s: Any) -> Any:
    """Return the same with a fourth term, which leaves an error of the derivative of 5e-5."""
    value, slope = evaluate(M, first, s)
    return value, fma(load(M, first + 4, s) * (4.0 * s), s * s, slope)


@jit
def evaluate_whole(M: Any, first: int, s: Any) -> Any:
    """Return the same with all terms of the derivative."""
    value = load(M, first + ORDER, s)
    slope = splat(0.0, s)
    for n in range(first + ORDER - 1, first - 1, -1):
        slope = fma(slope, s, value)
        value = fma(value, s, load(M, n, s))
    return value, slope


def sum_powers(K: int, M: Any, place: int, W: int, B: Any, first: int, far: Any) -> None:
    """Compute the c_n of a lane, of all arms or of those whose mark is ``far``; a template.

    The room of the table has the V_i^-p, and 0 where there is no arm.
    """
    like = zeros()
    V = others(K, M, place, W)
    T = table(K, M, place, W)
    c0 = splat(0.0, like)
    c1, c2, c3, c4, c5, c6, c7, c8, c9 = c0, c0, c0, c0, c0, c0, c0, c0, c0
    for i in range(vectors(K)):
        r = 1.0 / load(V, i, like)
        p = load(T, i, like)
        if far is not None:
            p = select(load(far_marks(K, M, place, W), i, like) == far, p, 0.0)
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
    M[(first + 1) * W + place] = coefficient(1, B) * sum_lanes(c1)
    M[(first + 2) * W + place] = coefficient(2, B) * sum_lanes(c2)
    M[(first + 3) * W + place] = coefficient(3, B) * sum_lanes(c3)
    M[(first + 4) * W + place] = coefficient(4, B) * sum_lanes(c4)
    M[(first + 5) * W + place] = coefficient(5, B) * sum_lanes(c5)
    M[(first + 6) * W + place] = coefficient(6, B) * sum_lanes(c6)
    M[(first + 7) * W + place] = coefficient(7, B) * sum_lanes(c7)
    M[(first + 8) * W + place] = coefficient(8, B) * sum_lanes(c8)
    M[(first + 9) * W + place] = coefficient(9, B) * sum_lanes(c9)


def replace(
    M: Any, place: int, W: int, B: Any, first: int, w0: float, r0: float, w1: float, r1: float
) -> None:
    """Let a series know that V^-p of an arm changes from ``w0`` to ``w1``; a template.

    ``r0`` and ``r1`` are the 1 / V.  0 as the one or the other adds an arm or takes one away.
    """
    for n in range(ORDER + 1):
        M[(first + n) * W + place] += coefficient(n, B) * (w1 - w0)
        w0 *= r0
        w1 *= r1


@jit
def clear(M: Any, place: int, W: int, first: int) -> None:
    """Empty a series, without the rounding errors of its former arms."""
    for n in range(ORDER + 1):
        M[(first + n) * W + place] = 0.0
