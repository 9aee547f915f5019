"""Kernels of Tsallis-INF at alpha = 1/2 with soft baselines; see `bothworlds.omd.soft`.

The largest baseline is 1/2.  A bandit adds the baselines at the decision, see
`bothworlds.policies.waiting`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import advance, lane, load, minimum, splat, store, stride
from bothworlds.omd import few, half, recentring, soft
from bothworlds.omd.estimators import BASELINE, correction
from bothworlds.policies import waiting
from bothworlds.policies.base import Array, Kernels, LaneKernels, Saved
from bothworlds.policies.tsallis_inf.parameters import FACTORS, rate_now
from bothworlds.policies.waiting import BASE, NUMBER

FADES = FACTORS
"""The parameter that states whether estimates fade: there are no unequal factors."""
# Rows: inverse probability; carried with a decision B_I and its number; 4 / eta^2 at the decision;
# those of `waiting`; then the solver's rows and L of every arm.
PACE, WAITING = 3, 4
SOLVER = WAITING + waiting.ROWS
ESTIMATES = SOLVER + half.ESTIMATES
CARRIED = (
    Saved("baseline", low=0.0, high=BASELINE),
    Saved("number", low=0.0, high=2.0**53, whole=True),
)
"""The carried rows."""
BANDIT_ROWS = (BASE, NUMBER, *range(WAITING, SOLVER))


def start(n_arms: int) -> Array:
    """Return L = 0 and a solver about to take its first step."""
    state = np.zeros(ESTIMATES + n_arms)
    state[WAITING:SOLVER] = waiting.FIRST
    half.first_state(n_arms, state[SOLVER:])
    few.first_state(n_arms, state[SOLVER:])
    return state


@jit
def solver(S: Any, like: Any) -> Any:
    """Return the solver's rows, which are those of `bothworlds.omd.half`."""
    return advance(S, SOLVER * stride(like))


@jit
def choose(K: int, t: Any, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw; see `few.draw` and `half.draw`."""
    P = solver(S, u)
    if stride(u) == 1:
        settle(K, 0, C, S, G)
    half.recentre_if_due(K, t, P, u)
    eta = rate_now(K, t, C)
    store(S, PACE, splat(4.0 / (eta * eta), u))
    arm = few.draw(K, P, eta, u, None) if few.fits(K) else half.draw(K, P, eta, None, u, None)
    store(S, 0, load(P, half.INVERSE_P, u))
    return arm


@jit
def add_baselines(K: int, S: Any, arm: Any, by: Any, retained: Any) -> None:
    """L_i += share B_i for every arm, and L_I += by; before that L fades, unless it does not."""
    B = splat(BASELINE, by)
    reach = soft.reach(B, load(S, PACE, by))
    share = load(S, WAITING + waiting.SHARE, by)
    soft.add_baselines(K, solver(S, by), B, reach, share, arm, by, retained)


@jit
def baseline_of(K: int, S: Any, arm: Any, like: Any) -> Any:
    """Return B_i of an arm at the root of the round."""
    B = splat(BASELINE, like)
    reach = soft.reach(B, load(S, PACE, like))
    return soft.baseline_of(K, solver(S, like), B, reach, arm)


@jit
def learn(K: int, C: Any, S: Any, arm: Any, inverse_p: Any, loss: Any, retained: Any) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I.

    Unless ``retained`` is None, L fades by it before; the baselines are those before that.
    """
    W = advance(S, WAITING)
    if stride(loss) == 1 and waiting.is_late(W, S[NUMBER]):
        learn_late(K, C, S, lane(arm, 0), lane(inverse_p, 0), lane(loss, 0), retained)
        return
    base = baseline_of(K, S, arm, loss)
    add_baselines(K, S, arm, correction(loss, base, inverse_p), retained)
    if stride(loss) == 1:
        waiting.answered(W, S[NUMBER])
        W[waiting.OPEN] = 0.0


@jit
def learn_late(
    K: int, C: Any, S: Any, arm: int, inverse_p: float, loss: float, retained: Any
) -> None:
    """L_I += (l - B_I) / w_I, B_I that of the decision."""
    settle(K, 0, C, S, S)
    P = solver(S, 0.0)
    if retained is not None:
        recentring.fade(K, P, half.ESTIMATES, retained, 0.0)
        half.start_again(K, P)
    half.move(K, P, arm, correction(loss, S[BASE], inverse_p))
    waiting.answered(advance(S, WAITING), S[NUMBER])


@jit
def update(K: int, t: Any, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    learn(K, C, S, arm, inverse_p, loss, None)


@jit
def fading(
    K: int, t: Any, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any, retained: float
) -> None:
    """L_i = R (L_i - min L), then as `update`."""
    learn(K, C, S, arm, inverse_p, loss, retained)


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Count a decision, and keep the numbers for its feedback."""
    waiting.carry(S, WAITING, baseline_of(K, S, arm, 0.0) if C[FADES] == 0.0 else 0.0)


@jit
def settle(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Add the baselines of the last decision, unless that is done."""
    if S[WAITING + waiting.OPEN] != 0.0:
        if C[FADES] == 0.0:
            add_baselines(K, S, 0, 0.0, None)
        S[WAITING + waiting.OPEN] = 0.0


@jit
def weight(K: int, t: Any, C: Any, S: Any, G: Any, arm: Any) -> Any:
    """Return w of an arm at the root of the round."""
    P = solver(S, arm)
    y = take(P, half.ESTIMATES, K, arm) - load(P, half.ROOT, arm)
    return minimum(load(S, PACE, arm) / (y * y), 1.0)


@jit
def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """w_i = 4 / (eta (L_i - x))^2 at the root of the round."""
    half.fill_weights(K, solver(S, 0.0), 2.0 / math.sqrt(S[PACE]), out)


@jit
def estimates_changed(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Prepare the solver for estimates that changed otherwise than by ``tell``."""
    S[WAITING + waiting.OPEN] = 0.0
    half.restart(K, solver(S, 0.0), 0.0)


SOFT = Kernels.of(
    choose,
    update,
    weights,
    asked=asked,
    estimates_changed=estimates_changed,
    write_back=settle,
    any_draw=True,
    in_lanes=LaneKernels(weight, update, fading, each_round=True),
)
