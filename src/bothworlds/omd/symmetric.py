"""The OMD step with one regulariser for all arms (xi_i = 1): Newton in the gap z.

======== ==================================================================================
``L``    cumulative loss estimates, K of them
``z``    eta (min L - y) >= 0, the multiplier made dimensionless; w_i = w(eta (L_i - min L) + z)
``S``    sum_i w_i, to become 1
``q_i``  w_i^b = 1 / (1 + b s_i), so that dw_i/dz = -w_i q_i and dq_i/dz = -b q_i^2
``D_n``  sum_i w_i q_i^n
======== ==================================================================================

**Nothing cancels.** Losses enter as differences from their minimum, each rounded once, and s_i is
a sum of two non-negative numbers. An error dS of the sum moves weight i by
q_i dS / D_1 relatively, at most K^(b / (1 + b)) / 2 times: sums are compensated and `weight` is
accurate to a few units in the last place, so every weight is.

**Newton cannot fail.** S^(-b) (log S at alpha = 1) is concave and increasing in z. Its Newton step
from the left of the root stays left; from the right it lands left, possibly left of
``distance(log m)``, where the m arms tied at the minimum share all the weight and S >= 1. Clipping
there gives monotone convergence from any start. The equation's second root, for those alpha that
have one, lies beyond the pole z = -1/b and is out of reach.

**When to stop.** With e = q_max |z - root|, a Newton step leaves an error below (1 + b)/2 e^2; the
Chebyshev correction used once the step is small leaves O(e^3). At e <= 4e-6 the rest is below
rounding, and the weights follow the last step by their own Taylor series, without another pass.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.jit import jit
from bothworlds.omd.tsallis import distance, weight

CLOSE = 4e-6
"""Relative change of a weight below which a third-order step is exact to rounding."""
MAX_PASSES = 60
"""Ends the loop for losses that are not numbers. Most seen otherwise: 7 passes here, 20 in
`omd.asymmetric` with factors 200 decades apart (random searches, not a proof)."""


@jit
def softmax(L: NDArray[np.float64], eta: float, w: NDArray[np.float64]) -> tuple[float, int]:
    """Fill w with exp(-eta L_i) / sum_j exp(-eta L_j); return z = log sum and one pass."""
    n_arms = L.shape[0]
    low = L.min()
    S = 0.0
    lost = 0.0
    for i in range(n_arms):
        x = math.exp(-eta * (L[i] - low))
        w[i] = x
        t = S + x
        v = t - S
        lost += (S - (t - v)) + (x - v)
        S = t
    S += lost
    for i in range(n_arms):
        w[i] /= S
    return math.log(S), 1


@jit
def solve_symmetric(
    L: NDArray[np.float64], eta: float, a: float, z0: float, w: NDArray[np.float64]
) -> tuple[float, int]:
    """Fill w with the OMD step and return (z, passes); a start z0 < 0 means none is known."""
    n_arms = L.shape[0]
    if a == 1.0:
        z, passes = softmax(L, eta, w)
        return z, passes
    b = 1.0 - a
    low = L[0]
    tied = 1
    for i in range(1, n_arms):
        if L[i] < low:
            low = L[i]
            tied = 1
        elif L[i] == low:
            tied += 1
    left = distance(math.log(tied), b)
    right = distance(math.log(n_arms), b)
    z = min(max(z0, left), right)
    passes = 0
    step = 0.0
    while passes < MAX_PASSES:
        S = 0.0
        lost = 0.0
        D1 = 0.0
        D2 = 0.0
        for i in range(n_arms):
            s = eta * (L[i] - low) + z
            x = weight(s, a, b)
            w[i] = x
            t = S + x
            v = t - S
            lost += (S - (t - v)) + (x - v)
            S = t
            q = 1.0 / (1.0 + b * s)
            D1 += x * q
            D2 += x * q * q
        passes += 1
        excess = (S - 1.0) + lost
        S += lost
        step = S * distance(math.log1p(excess), b) / D1
        bend = 0.5 * (1.0 + b) * (D2 / D1 - D1 / S) * step
        if abs(bend) < 0.1:
            step *= 1.0 + bend
        if abs(step) <= CLOSE * (1.0 + b * z):
            break
        z = min(max(z + step, left), right)
    for i in range(n_arms):
        change = step / (1.0 + b * (eta * (L[i] - low) + z))
        w[i] *= 1.0 - change * (1.0 - 0.5 * (1.0 + b) * change)
    return z + step, passes
