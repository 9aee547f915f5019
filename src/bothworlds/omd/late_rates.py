"""Learning rates of late rounds by interpolation: a polynomial instead of logarithms and powers.

======== ==========================================================================
``t_0``  first round of a span of `SPAN` rounds, a multiple of that number
``x``    (t - t_0) / `GAP`, which is 0, 1, ... at the nodes of the span
``c_k``  divided differences of the values at the nodes, a polynomial in Newton's form:
         c_0 + x (c_1 + (x - 1) (c_2 + ...))
======== ==========================================================================

Theorem 3's rate takes four transcendental functions, which is a fifth of a round of sixteen
repetitions with eight arms.  From round `FIRST` on a span is at most 1/128 of t; over it a rate
t^-r is a polynomial of degree 5 up to 1e-3 binom(r + 5, 6) / 128^6 of itself, which is below 1e-16
for every rate in `bothworlds.omd.learning_rates`.

The span depends on t alone, so that a run which is continued has the same rates.
"""

from typing import Any

from bothworlds.lanes.functions import exp, log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import fma
from bothworlds.omd.learning_rates import rate

FIRST = 2**14
"""First round whose rate is interpolated."""
SPAN = 128
"""Rounds that share a polynomial; a multiple of those after which leader modes look around, so that
the first round of a span is one in which the table is asked for."""
NODES = 6
GAP = SPAN / (NODES - 1)

START, RATES, POWERS, LIMITS = 0, 1, 1 + NODES, 1 + 2 * NODES
"""Places in a table: t_0, the c_k of eta, and those of eta^-p and eta^-(1 + 2 / p)."""
PLACES = LIMITS + NODES


@jit
def tabulate(T: Any, code: int, parameter: float, alpha: float, K: int, t: int, p: Any) -> None:
    """Make the table of the span of round t, of eta and, unless p is None, of its powers."""
    start = t - t % SPAN
    T[START] = start
    for k in range(NODES):
        eta = rate(code, parameter, alpha, K, start + k * GAP)
        T[RATES + k] = eta
        if p is not None:
            T[POWERS + k] = exp(-p * log(eta))
            T[LIMITS + k] = exp(-(1.0 + 2.0 / p) * log(eta))
    difference(T, RATES)
    if p is not None:
        difference(T, POWERS)
        difference(T, LIMITS)


@jit
def difference(T: Any, first: int) -> None:
    """Make divided differences of values at the nodes."""
    for k in range(1, NODES):
        for j in range(NODES - 1, k - 1, -1):
            T[first + j] = (T[first + j] - T[first + j - 1]) / k


@jit
def interpolate(T: Any, first: int, t: int) -> Any:
    """Return the value in round t of the polynomial whose c_k begin at ``first``."""
    x = (t - T[START]) * (1.0 / GAP)
    value = T[first + NODES - 1]
    for k in range(NODES - 2, -1, -1):
        value = fma(value, x - k, T[first + k])
    return value


@jit
def is_for(T: Any, t: int) -> Any:
    """Tell whether the table is that of the span of round t."""
    return T[START] == t - t % SPAN
