"""TsallisINFV at the residual rate for many arms: kernels over `bothworlds.omd.moving`.

`bothworlds.TsallisINFV` uses them by itself; see its method ``program``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import advance
from bothworlds.omd import half
from bothworlds.omd.estimators import correction
from bothworlds.omd.moving import layout, rounds
from bothworlds.policies import waiting
from bothworlds.policies.base import LARGEST, Array, Kernels, Policy, Program
from bothworlds.policies.tsallis_inf_v.kernels import (
    BETA,
    BETA_1,
    FADES,
    MEAN_1,
    PACE,
    RATE,
    SOLVER,
    WAITING,
    close,
    moved_mean,
    near_limit,
    next_beta,
    solver,
    sums,
)
from bothworlds.policies.waiting import BASE, NUMBER


@jit
def choose_many(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve and draw, every arm in its family; see `rounds.choose`."""
    settle_many(K, t, C, S, G)
    P = solver(S, u)
    beta = S[BETA] * math.sqrt(waiting.expected(advance(S, WAITING)))
    S[PACE] = beta
    arm = rounds.choose(K, P, sums(S, u), G, RATE / beta, near_limit(beta), u)
    S[0] = P[half.INVERSE_P]
    return arm


@jit
def update_many(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """L_i += B_i for every arm; L_I += d / w_I; then the rate and the mean of the arm."""
    if waiting.is_late(advance(S, WAITING), S[NUMBER]):
        learn_late_many(K, C, S, arm, inverse_p, loss)
        return
    P = solver(S, loss)
    limit = near_limit(S[PACE])
    mean = P[layout.field(K, layout.MEANS) + arm]
    told = layout.field(K, layout.TOLD) + arm
    base = mean if rounds.is_near(K, P, arm, limit) else 0.0
    new = moved_mean(C, mean, P[told], loss)
    rounds.learn(K, P, sums(S, loss), arm, correction(loss, base, inverse_p), new, limit)
    P[told] += 1.0
    S[0] = 0.0
    S[BETA] = next_beta(C, S, S[BETA], loss - base, inverse_p)
    close(S, loss)


@jit
def asked_many(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Count a decision, and keep the numbers for its feedback."""
    P = solver(S, 0.0)
    near = C[FADES] == 0.0 and rounds.is_near(K, P, arm, near_limit(S[PACE]))
    waiting.carry(S, WAITING, P[layout.field(K, layout.MEANS) + arm] if near else 0.0)


@jit
def learn_late_many(K: int, C: Any, S: Any, arm: int, inverse_p: float, loss: float) -> None:
    """L_I += d / w_I with the numbers of the decision; then the rate and the mean of the arm."""
    settle_many(K, 0, C, S, S)
    P = solver(S, loss)
    rounds.close(K, P)
    mean, told = layout.field(K, layout.MEANS) + arm, layout.field(K, layout.TOLD) + arm
    P[layout.field(K, layout.LOSSES) + arm] += correction(loss, S[BASE], inverse_p)
    P[mean] = moved_mean(C, P[mean], P[told], loss)
    P[told] += 1.0
    S[0] = 0.0
    if S[NUMBER] > 0.0:
        S[BETA] = next_beta(C, S, S[BETA], loss - S[BASE], inverse_p)
    waiting.answered(advance(S, WAITING), S[NUMBER])


@jit
def settle_many(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """L_i += share B_i for every arm, unless that is done for the last decision."""
    W = advance(S, WAITING)
    if W[waiting.OPEN] != 0.0:
        W[waiting.OPEN] = 0.0
        P = solver(S, 0.0)
        if C[FADES] == 0.0 and rounds.is_built(P):
            # Written by arm, the estimates are seen from the root.
            rounds.close(K, P)
            limit = near_limit(S[PACE])
            L, m = layout.field(K, layout.LOSSES), layout.field(K, layout.MEANS)
            for i in range(K):
                if P[L + i] <= limit:
                    P[L + i] += W[waiting.SHARE] * P[m + i]
        S[0] = 0.0


@jit
def weights_many(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """w_i = 4 / (eta y_i)^2 at the root of the round."""
    rounds.fill_weights(K, solver(S, 0.0), RATE / S[PACE], out)


@jit
def write_back_many(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Write the estimates by arm; the next ``ask`` sorts the arms again."""
    settle_many(K, t, C, S, G)
    rounds.close(K, solver(S, 0.0))
    S[0] = 0.0


@jit
def estimates_changed_many(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Take the estimates as they are written by arm."""
    S[WAITING + waiting.OPEN] = 0.0


KERNELS = Kernels.of(
    choose_many,
    update_many,
    weights_many,
    asked=asked_many,
    estimates_changed=estimates_changed_many,
    write_back=write_back_many,
    any_draw=True,
    wide=False,
)


def program(policy: Policy, n_arms: int) -> Program:
    """Return the program of `bothworlds.TsallisINFV` at the residual rate for many arms."""
    head, groups = SOLVER + layout.SHARED, layout.FIELDS

    def start() -> Array:
        """Return L = 0 and means of 1/2, with the buckets to be built by the first ``ask``."""
        state = np.zeros(head + groups * n_arms)
        state[BETA] = state[PACE] = BETA_1
        state[WAITING:SOLVER] = waiting.FIRST
        state[head + n_arms : head + 2 * n_arms] = MEAN_1
        return state

    def sound(state: Array) -> bool:
        """Tell whether buckets, slots and alarms describe every arm once."""
        own = bool((np.abs(state[:SOLVER]) <= LARGEST).all())
        return own and all(layout.sound(n_arms, np.ascontiguousarray(S[SOLVER:])) for S in state.T)

    return Program.of(
        policy, n_arms, KERNELS, start=start, sound=sound, head_rows=head, rows_per_arm=groups,
        plain=False,
    )  # fmt: skip
