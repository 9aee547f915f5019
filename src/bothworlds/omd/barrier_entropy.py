"""The OMD step with log-barrier and complement entropy: the regulariser of LB-INF-V.

Minimise over sum_i p_i = m

    <X, p> + sum_i b_i phi(p_i),   phi(p) = p - 1 - log p + g (p + (1 - p) log(1 - p)).

========= ==========================================================================
``nu``    multiplier: b_i phi'(p_i) = nu - X_i, phi'(p) = 1 - 1/p - g log(1 - p)
``z``     logit of p, so that phi' = g softplus(z) - e^-z
``y``     (nu - X_i) / b_i
``c``     1 - p = logistic(-z), never computed as 1 - p
``slope`` dp/dnu = p^2 c / (b (c + g p^2))
========= ==========================================================================

**Arm.**  `logit` inverts phi' by Newton's method from a point left of the root, where the function
is close to e^-z or to g z: at most `MOST_INNER` steps.

**Sum.**  Newton's method in nu, in a bracket: at min_i and max_i of X_i + b_i phi'(m / K) all p are
at most, and at least, m / K.  The equation is 1 / sum p = 1 / m or, where one arm has more than
half, log sum_others p = log c of that arm; both are nearly linear there.  A step that leaves the
bracket halves it instead.  From the last round's nu it takes 2 to 3 steps.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.jit import jit

TOLERANCE = 1e-12
"""Distance of sum p from m, as a share of m, at which nu is accepted."""
MOST_INNER = 5
MAX_PASSES = 200  # never reached: a bound on the loop, not a tolerance
SMALL = 1e-8  # a Newton step this small was the last: the next one is below rounding


@jit
def derivative(p: float, g: float) -> Any:
    """Return phi'(p)."""
    return 1.0 - 1.0 / p - g * math.log1p(-p)


@jit
def logit(y: float, g: float) -> Any:
    """Return the z with g softplus(z) - e^-z = y, and the Newton steps it took."""
    root = math.sqrt(y * y + 4.0 * g)
    if y < 0.0:
        z = math.log(2.0 / (root - y))
    else:
        z = math.log((y + root) / (2.0 * g))
        q = y / g
        if q > 30.0:
            z = max(z, q)
        elif q > 0.0:
            z = max(z, math.log(math.expm1(q)))
    steps = 0
    while steps < MOST_INNER:
        steps += 1
        if z > 0.0:
            e = math.exp(-z)
            plus = z + math.log1p(e)
            p = 1.0 / (1.0 + e)
        else:
            x = math.exp(z)
            e = 1.0 / x
            plus = math.log1p(x)
            p = x / (1.0 + x)
        d = (y - (g * plus - e)) / (e + g * p)
        z += d
        if abs(d) <= SMALL * max(1.0, abs(z)):
            break
    return z, steps


@jit
def solve_barrier_entropy(
    X: NDArray[np.float64],
    b: NDArray[np.float64],
    g: float,
    m: float,
    nu: float,
    p: NDArray[np.float64],
    c: NDArray[np.float64],
) -> Any:
    """Fill ``p`` with the step and ``c`` with 1 - p; ``nu`` is where to start, NaN if nowhere.

    Returns nu, how often the weights were evaluated, and the most Newton steps an arm took.
    """
    K = X.size
    if m == 1.0 and K == 1:
        p[0] = 1.0
        c[0] = 0.0
        return X[0], 0, 0
    even = derivative(m / K, g)
    low = math.inf
    high = -math.inf
    for i in range(K):
        end = X[i] + b[i] * even
        low = min(low, end)
        high = max(high, end)
    if not low <= nu <= high:
        nu = high if nu > high else low
    passes = 0
    inner = 0
    while passes < MAX_PASSES:
        passes += 1
        total = 0.0
        slope = 0.0
        lead = 0
        lead_slope = 0.0
        for i in range(K):
            z, steps = logit((nu - X[i]) / b[i], g)
            inner = max(inner, steps)
            e = math.exp(-abs(z))
            large = 1.0 / (1.0 + e)
            small = e / (1.0 + e)
            p[i] = large if z > 0.0 else small
            c[i] = small if z > 0.0 else large
            total += p[i]
            square = p[i] * p[i]
            own = square * c[i] / (b[i] * (c[i] + g * square))
            slope += own
            if i == 0 or p[i] > p[lead]:
                lead = i
                lead_slope = own
        rest = m - total
        if rest < 0.0:
            high = nu
        else:
            low = nu
        if abs(rest) <= TOLERANCE * m:
            break
        others = 0.0
        for i in range(K):
            if i != lead:
                others += p[i]
        if m == 1.0 and p[lead] > 0.5:
            # log(sum of all but the leader) = log c of the leader, which is nearly linear in nu.
            tilt = (slope - lead_slope) / others + lead_slope / c[lead]
            following = nu + math.log(c[lead] / others) / tilt
        else:
            # 1 / sum is nearly linear where no arm leads.
            following = nu + rest * total / (m * slope)
        if not low < following < high:
            following = 0.5 * (low + high)
        if following in (low, high):
            break
        nu = following
    return nu, passes, inner
