"""Kernels of Tsallis-INF for any alpha and unequal xi, over the solver of `bothworlds.omd.step`."""

from __future__ import annotations

from typing import Any

from numba import carray

from bothworlds.lanes.jit import jit
from bothworlds.omd.estimators import add_estimates, baseline, correction
from bothworlds.omd.step import solve
from bothworlds.policies.base import Kernels
from bothworlds.policies.tsallis_inf.parameters import ALPHA, FACTORS, REDUCED, UNEQUAL, rate_now

# Rows: inverse probability, the multiplier z of `solve`, then L and w of every arm.
MULTIPLIER, ESTIMATES = 1, 2


@jit
def choose_general(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve for w and draw from it."""
    state = carray(S, (ESTIMATES + 2 * K,))
    L = state[ESTIMATES : ESTIMATES + K]
    w = state[ESTIMATES + K :]
    xi = carray(C, (FACTORS + K,))[FACTORS : FACTORS + int(C[UNEQUAL])]
    z, _ = solve(L, xi, rate_now(K, t, C), C[ALPHA], S[MULTIPLIER], w)
    S[MULTIPLIER] = z
    return draw_general(K, S, u)


@jit
def draw_general(K: int, S: Any, u: float) -> Any:
    """Draw from the solver's weights of the round."""
    w = carray(S, (ESTIMATES + 2 * K,))[ESTIMATES + K :]
    arm = 0
    total = w[0]
    while total <= u and arm < K - 1:
        arm += 1
        total += w[arm]
    while w[arm] == 0.0 and arm > 0:
        arm -= 1
    S[0] = 1.0 / w[arm]
    return arm


@jit
def near_general(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Mark the arms with w_i >= eta^2; none under IW."""
    eta = rate_now(K, t, C)
    for i in range(K):
        out[i] = C[REDUCED] > 0.0 and S[ESTIMATES + K + i] >= eta * eta


@jit
def update_general(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I, with B = 0 for IW."""
    eta = rate_now(K, t, C)
    base = 0.0
    if C[REDUCED] > 0.0:
        base = baseline(S[ESTIMATES + K + arm] >= eta * eta, 0.0)
        for i in range(K):
            S[ESTIMATES + i] += baseline(S[ESTIMATES + K + i] >= eta * eta, 0.0)
    S[ESTIMATES + arm] += correction(loss, base, inverse_p)


@jit
def weights_general(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """The solver's weights of the round."""
    for i in range(K):
        out[i] = min(S[ESTIMATES + K + i], 1.0)


@jit
def late_general(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Learn from a decision that is no longer the last one; ``near`` as it was then."""
    L = carray(S, (ESTIMATES + 2 * K,))[ESTIMATES : ESTIMATES + K]
    add_estimates(L, arm, inverse_p, loss, near, 1.0)


GENERAL = Kernels.of(
    choose_general,
    update_general,
    weights_general,
    near=near_general,
    late=late_general,
    wide=False,
)
