"""TsallisINFV at the residual rate for many arms: kernels over `bothworlds.omd.moving`.

`bothworlds.TsallisINFV` uses them by itself; see its method ``program``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bothworlds.lanes.jit import jit
from bothworlds.omd import half
from bothworlds.omd.estimators import correction
from bothworlds.omd.moving import layout, rounds
from bothworlds.policies.base import LARGEST, Array, Kernels, Policy, Program
from bothworlds.policies.tsallis_inf_v.kernels import (
    BETA,
    BETA_1,
    MEAN_1,
    RATE,
    SOLVER,
    moved_mean,
    near_limit,
    next_beta,
    solver,
    sums,
)


@jit
def choose_many(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve and draw, every arm in its family; see `rounds.choose`."""
    P = solver(S, u)
    beta = S[BETA]
    arm = rounds.choose(K, P, sums(S, u), G, RATE / beta, near_limit(beta), u)
    S[0] = P[half.INVERSE_P]
    return arm


@jit
def update_many(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """L_i += B_i for every arm; L_I += d / w_I; then the rate and the mean of the arm."""
    P = solver(S, loss)
    limit = near_limit(S[BETA])
    mean = P[layout.field(K, layout.MEANS) + arm]
    told = layout.field(K, layout.TOLD) + arm
    base = mean if rounds.is_near(K, P, arm, limit) else 0.0
    new = moved_mean(C, mean, P[told], loss)
    rounds.learn(K, P, sums(S, loss), arm, correction(loss, base, inverse_p), new, limit)
    P[told] += 1.0
    S[0] = 0.0
    S[BETA] = next_beta(C, S, S[BETA], loss - base, inverse_p)


@jit
def weights_many(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """w_i = 4 / (eta y_i)^2 at the root of the round."""
    rounds.fill_weights(K, solver(S, 0.0), RATE / S[BETA], out)


@jit
def late_many(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Learn from a decision that is no longer the last one: baseline 0, the rate stays."""
    write_back_many(K, t, C, S, G)
    P = solver(S, loss)
    mean, told = layout.field(K, layout.MEANS) + arm, layout.field(K, layout.TOLD) + arm
    P[layout.field(K, layout.LOSSES) + arm] += correction(loss, 0.0, inverse_p)
    P[mean] = moved_mean(C, P[mean], P[told], loss)
    P[told] += 1.0


@jit
def write_back_many(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Write the estimates by arm; the next ``ask`` sorts the arms again."""
    rounds.close(K, solver(S, 0.0))
    S[0] = 0.0


KERNELS = Kernels.of(
    choose_many,
    update_many,
    weights_many,
    late=late_many,
    write_back=write_back_many,
    any_draw=True,
    wide=False,
)


def program(policy: Policy, n_arms: int) -> Program:
    """Return the program of `bothworlds.TsallisINFV` at the residual rate for many arms."""
    head, groups = SOLVER + layout.SHARED, layout.FIELDS

    def start() -> Array:
        """Return L = 0 and means of 1/2, with the buckets to be made by the first ``ask``."""
        state = np.zeros(head + groups * n_arms)
        state[BETA] = BETA_1
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
