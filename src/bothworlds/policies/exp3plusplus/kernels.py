"""Exp3++ with the exploration of Seldin and Lugosi (2017, Algorithms 1 and 2).

========= =========================================================================
``L_i``   cumulative loss estimate of arm i
``n_i``   number of losses observed of arm i; ``m_i`` their mean, not weighted
``o_i``   decisions of arm i without an answer; 0 unless feedback is late
UCB_i     min(1, m_i + r_i), LCB_i = max(0, m_i - r_i), r_i^2 = (alpha ln t + ln K) / (2 n_i)
gap_i     max(0, LCB_i - min_j UCB_j), a lower estimate of the gap
xi_i      beta ln t / (t gap_i^2)
eps_i     min(1 / (2 K), sqrt(ln K / (t K)) / 2, xi_i), the exploration of arm i
rho_i     exponential weights at rate eta_t
========= =========================================================================

Play every arm once; then draw I from p_i = (1 - sum_j eps_j) rho_i + eps_i and add l / p_I to L_I.
The first plays are counted by decisions, so late feedback does not repeat them.

xi_i is below the other two terms of eps_i only when gap_i^2 > beta ln t / (t cap), and a gap is at
most 1.  With beta = 256 this cannot happen before round 2.9e8 (K = 2), 4e8 (K = 8) or 1e9 (K = 32),
and until then the gaps are not computed.
"""

from __future__ import annotations

from typing import Any

from bothworlds.lanes.distributions import draw_arm
from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import add_to
from bothworlds.lanes.vectors import (
    any_lane,
    load,
    maximum,
    minimum,
    select,
    splat,
    splat_int,
    sqrt,
    store,
)
from bothworlds.omd.exponential import anytime_rate, exponential
from bothworlds.omd.recentring import RECENTRE_EVERY, recentre
from bothworlds.policies.base import Kernels

FACTOR, ALPHA, BETA = 0, 1, 2
# Rows: inverse probability; then of every arm L, n, the sum of its losses, eps, p and o.
ESTIMATES = 1
PLAYED = 1e-300  # in place of n = 0 once an arm was played: not 0, and added to 1 it is nothing


@jit
def confidence(K: int, S: Any, i: int, width: float, like: Any) -> Any:
    """Return m_i and r_i."""
    n = maximum(load(S, ESTIMATES + K + i, like), 1.0)
    return load(S, ESTIMATES + 2 * K + i, like) / n, width / sqrt(n)


@jit
def explore(K: int, t: int, C: Any, S: Any, cap: float, like: Any) -> Any:
    """Write eps_i of every arm and return their sum."""
    log_t = log(float(t))
    width = sqrt(0.5 * (C[ALPHA] * log_t + log(float(K))))
    lowest = splat(1.0, like)
    for i in range(K):
        m, r = confidence(K, S, i, width, like)
        lowest = minimum(lowest, m + r)
    spent = splat(0.0, like)
    for i in range(K):
        m, r = confidence(K, S, i, width, like)
        gap = maximum((m - r) - lowest, 0.0)
        eps = minimum(C[BETA] * log_t / (t * (gap * gap)), cap)
        store(S, ESTIMATES + 3 * K + i, eps)
        spent = spent + eps
    return spent


@jit
def cap_of(K: int, rate: float) -> float:
    """Return the exploration of an arm of which no gap is known, with rate sqrt(ln K / (t K))."""
    return min(0.5 / K, 0.5 * rate)


@jit
def gaps_matter(t: int, C: Any, cap: float) -> Any:
    """Tell whether a gap could make the exploration of an arm smaller in round t."""
    return C[BETA] * log(float(t)) < t * cap


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Play an arm never played if there is one, else draw from the mixed weights."""
    if t % RECENTRE_EVERY == 0:
        recentre(K, S, ESTIMATES, u)
    drawn = ESTIMATES + 4 * K
    rate = anytime_rate(K, t)
    total = exponential(K, S, ESTIMATES, drawn, C[FACTOR] * rate, u)
    cap = cap_of(K, rate)
    by_gaps = gaps_matter(t, C, cap)
    spent = splat(K * cap, u)
    if by_gaps:
        spent = explore(K, t, C, S, cap, u)
    scale = (1.0 - spent) / total
    mixed = splat(0.0, u)
    fresh = splat_int(K, u)
    for i in range(K):
        eps = splat(cap, u)
        if by_gaps:
            eps = load(S, ESTIMATES + 3 * K + i, u)
        p = scale * load(S, drawn + i, u) + eps
        store(S, drawn + i, p)
        mixed = mixed + p
        unplayed = load(S, ESTIMATES + K + i, u) == 0.0
        fresh = select(unplayed & (fresh == K), i, fresh)
    arm, weight = draw_arm(K, S, drawn, mixed, u)
    inverse_p = mixed / weight
    first_time = fresh < K
    if any_lane(first_time):
        arm = select(first_time, fresh, arm)
        inverse_p = select(first_time, 1.0, inverse_p)
        for i in range(K):
            alone = select(fresh == i, splat(1.0, u), splat(0.0, u))
            store(S, drawn + i, select(first_time, alone, load(S, drawn + i, u)))
    store(S, 0, inverse_p)
    return arm


@jit
def learn(K: int, S: Any, arm: Any, times: Any, by: Any, loss: Any) -> None:
    """Add to L, to n and to the sum of the losses of the arms drawn."""
    add_to(S, ESTIMATES, K, arm, by)
    add_to(S, ESTIMATES + K, K, arm, times)
    add_to(S, ESTIMATES + 2 * K, K, arm, loss)


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / p_I, and count the loss."""
    learn(K, S, arm, splat(1.0, loss), loss * inverse_p, loss)


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I += 1, which marks the arm as played though its loss is not known yet."""
    S[ESTIMATES + 5 * K + arm] += 1.0
    if S[ESTIMATES + K + arm] == 0.0:
        S[ESTIMATES + K + arm] = PLAYED


@jit
def answered(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I -= 1."""
    S[ESTIMATES + 5 * K + arm] = max(S[ESTIMATES + 5 * K + arm] - 1.0, 0.0)


KERNELS = Kernels.of(choose, update, (ESTIMATES, 4), asked=asked, answered=answered)
