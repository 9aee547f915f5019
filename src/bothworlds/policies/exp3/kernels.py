"""Exp3 for losses, without horizon and without mixing (Bubeck and Cesa-Bianchi, 2012, ch. 3).

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i
eta_t    sqrt(ln K / (t K))
======== ==========================================================================

Every round draws I from w_i proportional to exp(-eta_t (L_i - min L)), which is the OMD step at
alpha = 1, and adds l / w_I to L_I.  The regret is at most 2 sqrt(T K ln K) (Theorem 3.1).
"""

from __future__ import annotations

from typing import Any

from bothworlds.lanes.distributions import draw_arm, weight_of
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import add_to
from bothworlds.lanes.vectors import store
from bothworlds.omd.exponential import anytime_rate, exponential
from bothworlds.omd.recentring import fade, is_due, lanes_due, recentre_where
from bothworlds.policies.base import Kernels, LaneKernels

# Rows: inverse probability; then of every arm L and its weight, not normalised.
ESTIMATES = 1


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw from the exponential weights."""
    if is_due(t):
        recentre_where(K, S, ESTIMATES, lanes_due(t, u), u)
    drawn = ESTIMATES + K
    total = exponential(K, S, ESTIMATES, drawn, anytime_rate(K, t), u)
    arm, weight = draw_arm(K, S, drawn, total, u)
    store(S, 0, total / weight)
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I."""
    add_to(S, ESTIMATES, K, arm, loss * inverse_p)


@jit
def fading(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any, retained: float
) -> None:
    """L_i = R (L_i - min L); L_I += l / w_I."""
    fade(K, S, ESTIMATES, retained, loss)
    update(K, t, C, S, G, arm, inverse_p, loss)


@jit
def weight(K: int, t: int, C: Any, S: Any, G: Any, arm: Any) -> Any:
    """Return the weight of an arm, normalised."""
    return weight_of(K, S, ESTIMATES + K, arm)


KERNELS = Kernels.of(
    choose, update, (ESTIMATES, 1), in_lanes=LaneKernels(weight, update, fading, each_round=True)
)
