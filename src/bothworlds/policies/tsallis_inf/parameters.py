"""Parameters of Tsallis-INF as its kernels read them: the learning rate and which arms are near."""

from __future__ import annotations

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.omd.learning_rates import rate

# Parameters: rate code, rate parameter, alpha, reduced variance?, number of xi, xi_1, ..., xi_K.
CODE, PARAMETER, ALPHA, REDUCED, UNEQUAL, FACTORS = 0, 1, 2, 3, 4, 5


@jit
def rate_now(K: int, t: int, C: Any) -> Any:
    """Return eta_t."""
    return rate(int(C[CODE]), C[PARAMETER], C[ALPHA], K, t)


@jit
def near_limit(eta: float) -> Any:
    """Return the largest y with w = 4 / (eta y)^2 >= eta^2, the near arms at alpha = 1/2."""
    return 2.0 / (eta * eta)
