"""KL-UCB for Bernoulli losses (Garivier and Cappe, 2011).

======== ==========================================================================
``n_i``  number of losses observed of arm i
``o_i``  decisions of arm i without an answer; 0 unless feedback is late
``m_i``  the mean of the losses; 1 while there is none
kl(m, q) m ln(m / q) + (1 - m) ln((1 - m) / (1 - q))
``f``    ln t + c ln ln t, the budget; the second term from t = 3 on
``q_i``  the least q <= m_i with (n_i + o_i) kl(m_i, q) <= f, the index of arm i
======== ==========================================================================

Play every arm once, then argmin_i q_i, the first of several.  The rule for late feedback is that of
`bothworlds.policies.outstanding`; below, n_i includes o_i.

q -> kl(m, q) is convex and decreasing below m, so Newton's iteration from the left of the root
increases monotonically to it.  Two lower bounds of the root are at hand: Pinsker's
m - sqrt(f / (2 n)), and m exp(-(f / n - (1 - m) ln(1 - m)) / m), which drops -ln(1 - q) >= 0 and
is at most a factor e below the root.

An arm beats the least index q so far only if m_i <= q or n_i kl(m_i, q) < f, so most arms are
settled without computing their index.
"""

from __future__ import annotations

import math
from typing import Any

from bothworlds.lanes.functions import divergence, exp, log
from bothworlds.lanes.jit import jit
from bothworlds.policies.outstanding import ARMS, LAST, WORST, index_kernels

# Rows: inverse probability (1), the arm; then of every arm n + o, the sum of its losses and o.
LEAST = 1e-300  # an index below is 0
MAX_STEPS = 60  # never reached: a bound on the loop, not a tolerance


@jit
def lower_index(m: float, budget: float) -> Any:
    """Return the least q <= m with kl(m, q) <= ``budget``."""
    if m <= 0.0 or budget <= 0.0:
        return m
    entropy = -(1.0 - m) * log(1.0 - m) if m < 1.0 else 0.0
    q = max(m * exp(-(budget + entropy) / m), m - math.sqrt(0.5 * budget))
    if q < LEAST:
        return 0.0
    for _ in range(MAX_STEPS):
        # kl'(m, q) = -(m - q) / (q (1 - q))
        if m - q <= 1e-15 * m:
            break
        step = (divergence(m, q) - budget) * q * (1.0 - q) / (m - q)
        # Newton's error after a step is about its square.
        close = step <= 1e-8 * (m - q)
        q = min(q + step, m)
        if close:
            break
    return q


@jit
def budget_at(t: int, c: float) -> float:
    """Return f."""
    log_t = log(float(t))
    return float(log_t + c * log(log_t)) if log_t > 1.0 else float(log_t)


@jit
def least_index(K: int, budget: float, s: Any, W: int, first: int, but: int) -> Any:
    """Return the arm with the least index, other than ``but``, and that index.

    The arms' rows begin at row ``first`` of ``s`` and are ``W`` numbers apart.
    """
    arm = 0
    least = 2.0
    for i in range(K):
        if i == but:
            continue
        n = s[(first + i) * W]
        answers = n - s[(first + 2 * K + i) * W]
        m = s[(first + K + i) * W] / answers if answers > 0.0 else WORST
        if least < m and (
            m - math.sqrt(0.5 * budget / n) >= least
            or least == 0.0
            or n * divergence(m, least) >= budget
        ):
            continue
        q = lower_index(m, budget / n)
        if q < least:
            arm = i
            least = q
    return arm, least


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> int:
    """Return an arm never played if there is one, else the arm with the least index."""
    S[0] = 1.0
    for i in range(K):
        if S[ARMS + i] == 0.0:
            return i
    arm, _ = least_index(K, budget_at(t, C[0]), S, 1, ARMS, -1)
    return int(arm)


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Count the loss."""
    S[ARMS + arm] += 1.0
    S[ARMS + K + arm] += loss


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I += 1; see `bothworlds.policies.outstanding`."""
    S[LAST] = arm
    S[ARMS + arm] += 1.0
    S[ARMS + 2 * K + arm] += 1.0


@jit
def answered(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I -= 1: the decision was counted when it was drawn, so its answer is not."""
    if S[ARMS + 2 * K + arm] > 0.0:
        S[ARMS + arm] -= 1.0
        S[ARMS + 2 * K + arm] -= 1.0


KERNELS = index_kernels(choose, update, asked, answered, wide=False)
