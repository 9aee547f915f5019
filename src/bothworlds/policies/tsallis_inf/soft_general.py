"""Kernels of Tsallis-INF with soft baselines for any alpha and unequal xi.

B_i = min(1/2, s w_i^alpha / (eta xi_i)), s the step of `bothworlds.omd.soft.largest_step`.  A
bandit adds the baselines at the decision, see `bothworlds.policies.waiting`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import advance
from bothworlds.omd.estimators import BASELINE, correction
from bothworlds.omd.recentring import is_due, recentre
from bothworlds.policies import waiting
from bothworlds.policies.base import Array, Kernels
from bothworlds.policies.tsallis_inf import general
from bothworlds.policies.tsallis_inf.parameters import ALPHA, FACTORS, UNEQUAL, rate_now
from bothworlds.policies.tsallis_inf.soft import PACE, SOLVER, WAITING
from bothworlds.policies.waiting import BASE, NUMBER

# Parameters after the xi: the step s, and whether estimates fade.
# Rows: those of `bothworlds.policies.tsallis_inf.soft` up to the solver's, with eta in the place of
# 4 / eta^2; then those of `bothworlds.policies.tsallis_inf.general`.
ESTIMATES = SOLVER + general.ESTIMATES


def start(n_arms: int) -> Array:
    """Return L = 0 and a solver about to take its first step."""
    state = np.zeros(ESTIMATES + 2 * n_arms)
    state[WAITING:SOLVER] = waiting.FIRST
    state[SOLVER + general.MULTIPLIER] = -1.0
    return state


@jit
def fades(C: Any) -> bool:
    """Tell whether estimates fade."""
    return bool(C[FACTORS + int(C[UNEQUAL]) + 1] != 0.0)


@jit
def baseline_of(K: int, C: Any, S: Any, arm: int) -> Any:
    """Return B_i of an arm in the round."""
    eta = S[PACE] * (C[FACTORS + arm] if C[UNEQUAL] > 0.0 else 1.0)
    reach = C[FACTORS + int(C[UNEQUAL])] * S[ESTIMATES + K + arm] ** C[ALPHA]
    # The rate is 0 in the first round of Theorem 3.
    return BASELINE if reach >= BASELINE * eta else reach / eta


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve for w and draw from it."""
    settle(K, t, C, S, G)
    if is_due(t):
        recentre(K, S, ESTIMATES, u)
    P = advance(S, SOLVER)
    arm = general.choose_general(K, t, C, P, G, u)
    S[PACE] = rate_now(K, t, C)
    S[0] = P[0]
    return arm


@jit
def add_baselines(K: int, C: Any, S: Any) -> None:
    """L_i += share B_i for every arm."""
    share = S[WAITING + waiting.SHARE]
    for i in range(K):
        S[ESTIMATES + i] += share * baseline_of(K, C, S, i)


@jit
def settle(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Add the baselines of the last decision, unless that is done."""
    if S[WAITING + waiting.OPEN] != 0.0:
        if not fades(C):
            add_baselines(K, C, S)
        S[WAITING + waiting.OPEN] = 0.0


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Count a decision, and keep the numbers for its feedback."""
    waiting.carry(S, WAITING, 0.0 if fades(C) else baseline_of(K, C, S, arm))


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I, B_I that of the decision."""
    W = advance(S, WAITING)
    if waiting.is_late(W, S[NUMBER]):
        settle(K, t, C, S, G)
        base = S[BASE]
    else:
        base = baseline_of(K, C, S, arm)
        add_baselines(K, C, S)
        W[waiting.OPEN] = 0.0
    S[ESTIMATES + arm] += correction(loss, base, inverse_p)
    waiting.answered(W, S[NUMBER])


@jit
def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """The solver's weights of the round."""
    general.weights_general(K, t, C, advance(S, SOLVER), G, out)


@jit
def estimates_changed(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Let the solver start without the last round's multiplier."""
    S[WAITING + waiting.OPEN] = 0.0
    S[SOLVER + general.MULTIPLIER] = -1.0


SOFT_GENERAL = Kernels.of(
    choose,
    update,
    weights,
    asked=asked,
    estimates_changed=estimates_changed,
    write_back=settle,
    any_draw=True,
    wide=False,
)
