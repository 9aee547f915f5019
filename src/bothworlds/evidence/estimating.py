"""Compiled sums of off-policy estimators over the rows of a log.

========= =========================================================================
``Z``     running sums, laid out below; then per arm the answers and their sum
rho       target probability / logged probability of the played arm
``v``     what was reported, in the log's own units; ``y`` the same within [0, 1]
``q_a``   mean of the arm's earlier answers, the middle of the bounds counting once
========= =========================================================================

The anytime interval bets on X = rho y >= 0 as `bothworlds.evidence.update` does, and on
rho (1 - y) for the other end.
"""

from __future__ import annotations

from typing import Any

from bothworlds.evidence.update import LARGEST_BET, bet_on, psi
from bothworlds.lanes.jit import jit

COUNT, RHO, RHO2, R2V, RV, RV2, CV, CV2, DR, DR2 = range(10)
"""Rows; sums of rho, rho^2, rho^2 v; of rho v, the clipped and the doubly robust estimates, each
followed by the sum of its squares."""
SL, SLX, SP, SV, SX = 10, 11, 12, 13, 14
"""Bets: sums of lam, lam X, psi (X - guess)^2, (X - guess)^2 and X; then of the other end."""
SIDE = 5
LARGEST = 20
"""The largest rho."""
HEAD = 21


@jit
def estimate_all(
    Z: Any,
    K: int,
    arms: Any,
    inverse_p: Any,
    values: Any,
    losses: Any,
    target: Any,
    clip: float,
    middle: float,
) -> None:
    """Add rows in order; ``target`` has a row per decision, or one for all."""
    for n in range(arms.size):
        arm = arms[n]
        row = n if target.shape[0] > 1 else 0
        rho = target[row, arm] * inverse_p[n]
        v = values[n]
        base = 0.0
        for i in range(K):
            if target[row, i] > 0.0:
                base += target[row, i] * (middle + Z[HEAD + K + i]) / (1.0 + Z[HEAD + i])
        q = (middle + Z[HEAD + K + arm]) / (1.0 + Z[HEAD + arm])
        limited = min(rho, clip) * v
        robust = base + rho * (v - q)
        Z[RHO] += rho
        Z[RHO2] += rho * rho
        Z[RV] += rho * v
        Z[RV2] += rho * rho * v * v
        Z[R2V] += rho * rho * v
        Z[CV] += limited
        Z[CV2] += limited * limited
        Z[DR] += robust
        Z[DR2] += robust * robust
        for side in range(2):
            first = SL + SIDE * side
            t = Z[COUNT] + 1.0
            X = rho * (losses[n] if side == 0 else 1.0 - losses[n])
            guess = min(1.0, (0.5 + Z[first + SX - SL]) / t)
            lam = min(LARGEST_BET, bet_on((0.25 + Z[first + SV - SL]) / t, t))
            d = (X - guess) * (X - guess)
            Z[first] += lam
            Z[first + SLX - SL] += lam * X
            Z[first + SP - SL] += psi(lam) * d
            Z[first + SV - SL] += d
            Z[first + SX - SL] += X
        Z[LARGEST] = max(Z[LARGEST], rho)
        Z[COUNT] += 1.0
        Z[HEAD + arm] += 1.0
        Z[HEAD + K + arm] += v
