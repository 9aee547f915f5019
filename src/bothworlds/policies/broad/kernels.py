"""Broad for both worlds: the log-barrier with doubling restarts (Wei and Luo, 2018).

Theorem 10 with Algorithm 3, option II, and the guess m_i = l_I for every arm.  A guess that is
constant over the arms changes no weight, so what remains is OMD with the log-barrier
(alpha = 0) at a rate that halves:

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i since the last restart
``w_i``  the OMD step at alpha = 0, 1 / (eta (L_i - x)); see `bothworlds.omd.barrier`
``Q``    sum_i w_i^2
``V``    sum over the rounds since the last restart of l^2 [(1 - w_I)^2 + sum_{i != I} w_i^2]
======== ==========================================================================

Start with eta = 1/162; when V >= K ln T / (3 eta^2), halve eta and forget L and V.  The bracket in
V is 1 - 2 w_I + Q.
"""

from __future__ import annotations

from typing import Any

from bothworlds.lanes.distributions import draw_arm
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import add_to
from bothworlds.lanes.vectors import any_lane, load, select, store
from bothworlds.omd.barrier import solve_barrier
from bothworlds.omd.recentring import RECENTRE_EVERY, recentre
from bothworlds.policies.base import Kernels

LOG_HORIZON = 0
# Rows: inverse probability, Q, x, eta, V; then of every arm L and its weight, not normalised.
SQUARES, ROOT, RATE, SPREAD, ESTIMATES = 1, 2, 3, 4, 5
RATE_1 = 1.0 / 162.0


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve the OMD step and draw from it."""
    x = load(S, ROOT, u)
    if t % RECENTRE_EVERY == 0:
        x = x - recentre(K, S, ESTIMATES, u)
    drawn = ESTIMATES + K
    x, S1, S2, _ = solve_barrier(K, S, ESTIMATES, drawn, x, load(S, RATE, u))
    arm, weight = draw_arm(K, S, drawn, S1, u)
    store(S, ROOT, x)
    store(S, SQUARES, S2 / (S1 * S1))
    store(S, 0, S1 / weight)
    return arm


@jit
def is_over(K: int, C: Any, eta: Any, V: Any) -> Any:
    """Tell where the losses have spread too far for this rate."""
    return 3.0 * eta * eta * V >= K * C[LOG_HORIZON]


@jit
def restart(K: int, S: Any, over: Any, like: Any) -> None:
    """Halve eta and forget L and V, in some lanes."""
    eta = load(S, RATE, like)
    eta = select(over, 0.5 * eta, eta)
    store(S, RATE, eta)
    store(S, SPREAD, select(over, 0.0, load(S, SPREAD, like)))
    store(S, ROOT, select(over, -K / eta, load(S, ROOT, like)))
    for i in range(ESTIMATES, ESTIMATES + K):
        store(S, i, select(over, 0.0, load(S, i, like)))


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I; restart where the losses have spread too far."""
    w = 1.0 / inverse_p
    Q = load(S, SQUARES, loss)
    eta = load(S, RATE, loss)
    x = load(S, ROOT, loss) + loss * w / Q
    V = load(S, SPREAD, loss) + loss * loss * (1.0 - 2.0 * w + Q)
    add_to(S, ESTIMATES, K, arm, loss * inverse_p)
    store(S, ROOT, x)
    store(S, SPREAD, V)
    over = is_over(K, C, eta, V)
    if any_lane(over):
        restart(K, S, over, loss)


KERNELS = Kernels.of(choose, update, (ESTIMATES, 1))
