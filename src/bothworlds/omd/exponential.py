"""The OMD step at alpha = 1: exponential weights, on one bandit or on a tile of repetitions.

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i
``e_i``  exp(-eta (L_i - min L)), so that w_i = e_i / sum_j e_j
======== ==========================================================================
"""

from typing import Any

from bothworlds.lanes.functions import exp, log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import load, splat, sqrt, store, to_float
from bothworlds.omd.recentring import least


@jit
def anytime_rate(K: int, t: Any) -> Any:
    """Return sqrt(ln K / (t K)), the rate of Exp3 without a horizon."""
    return sqrt(log(float(K)) / (to_float(t) * K))


@jit
def exponential(K: int, S: Any, losses: int, out: int, eta: Any, like: Any) -> Any:
    """Write e_i into row ``out + i`` from L_i in row ``losses + i`` and return their sum."""
    low = least(K, S, losses, like)
    total = splat(0.0, like)
    for i in range(K):
        e = exp(eta * (low - load(S, losses + i, like)))
        store(S, out + i, e)
        total = total + e
    return total
