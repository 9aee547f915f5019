"""Parameters of Tsallis-INF as its kernels read them: the learning rate and which arms are near."""

from __future__ import annotations

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import lane, splat, sqrt, to_float, to_int, width, with_lane
from bothworlds.omd.learning_rates import CONSTANT, INVERSE_SQRT, rate

# Parameters: rate code, rate parameter, alpha, reduced variance?, number of xi, xi_1, ..., xi_K.
CODE, PARAMETER, ALPHA, REDUCED, UNEQUAL, FACTORS = 0, 1, 2, 3, 4, 5


@jit
def rate_now(K: int, t: int, C: Any) -> Any:
    """Return eta_t, in every lane its own where t has lanes."""
    code = to_int(C[CODE])
    now = to_float(t)
    if code == INVERSE_SQRT:
        return C[PARAMETER] / sqrt(now)
    if code == CONSTANT:
        return splat(C[PARAMETER], now)
    eta = now
    for k in range(width(now)):
        eta = with_lane(eta, k, rate(code, C[PARAMETER], C[ALPHA], K, lane(now, k)))
    return eta


@jit
def root_rate(K: int, t: int, C: Any) -> Any:
    """Return eta_t of the form c / sqrt(t), without the code for all others."""
    return C[PARAMETER] / sqrt(to_float(t))


@jit
def near_limit(eta: Any) -> Any:
    """Return the largest y with w = 4 / (eta y)^2 >= eta^2, the near arms at alpha = 1/2."""
    return 2.0 / (eta * eta)
