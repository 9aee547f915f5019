"""The OMD step with a regulariser of its own for every arm (any xi_i > 0).

======== ==================================================================================
``z``    eta (min L - y) >= 0, as in the symmetric case; s_i = xi_i (eta (L_i - min L) + z)
``q_i``  xi_i / (1 + b s_i), so that dw_i/dz = -w_i q_i and dq_i/dz = -b q_i^2
``k``    the leading arm, the one that carries more than half of the weight if any does
``T``    sum of w_j over j != k
``u``    1 - w_k, computed as such
``h``    log T - log u, to become 0
======== ==================================================================================

The factors xi may lie many decades apart, and then two things change against `omd.symmetric`.

**The sum is not enough.** A light arm with a large xi_i follows z so closely that z must be known
relatively, while the heavy arm hardly depends on it and drowns everything in 1 - w_k. So the
equation solved is T = u, both sides relatively accurate however small they are. What remains is
the condition of the problem itself: weight i moves by q_i dh / |h'|. It is large only if several
heavy arms fill the simplex by coincidence of the given numbers, while a light arm with a large
xi_i reads off what is left. Then, and only then, the root is polished in double-double arithmetic.

**Steps must span decades.** h is convex and decreasing in z, its tangent never passes the root
from the left; as a function of log z the tangent typically passes it. The step follows the power
law c_0 - c_1 z^p, 0 <= p <= 1, that shares h, h' and h'' (third order; exact for both extremes).
A bracket [lower, upper] is kept from the signs of h. A step that leaves it is replaced by the
geometric mean of its ends, and so is one after a step that jumped across the root without halving
|h|. The first ends are proved:

* T is log-convex and u <= xi_k z for an arm k at the minimum, so the root is right of the z with
  log T(0) - z D_1/T(0) = log(xi_k z): D_1 z / T(0) = W(D_1 / xi_k), W Lambert's function, which is
  at least x / (1 + x), and at least log x - log log x for x >= e.
* all w_i <= 1/K at max_i [distance(log K) / xi_i - eta (L_i - min L)]; and T decreases, so
  u <= T(0) at the root.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.jit import jit
from bothworlds.omd import double_double as dd
from bothworlds.omd.symmetric import MAX_PASSES
from bothworlds.omd.tsallis import deficit, distance, weight

CLOSE = 1e-6  # relative change of a weight below which the step is exact to rounding
ROUNDING = 2.0**-53
TOLERANCE = 4e-13  # predicted error of a weight above which the root is polished
NEGLIGIBLE = 1e-295  # weights below are outside the promise and steer nothing
POLISHES = 12


@jit
def _moments(
    L: NDArray[np.float64],
    xi: NDArray[np.float64],
    low: float,
    eta: float,
    a: float,
    b: float,
    z: float,
    k: int,
    w: NDArray[np.float64],
) -> tuple[float, float, float, float, int]:
    """Fill w at z; return T, sum w q and sum w q^2 without arm k, max q and the heaviest arm."""
    T = 0.0
    lost = 0.0
    D1 = 0.0
    D2 = 0.0
    steepest = 0.0
    heaviest = k
    for i in range(L.shape[0]):
        s = xi[i] * (eta * (L[i] - low) + z)
        x = weight(s, a, b)
        w[i] = x
        q = xi[i] / (1.0 + b * s)
        if x > w[heaviest] or i == 0:
            heaviest = i
        if x > NEGLIGIBLE and q > steepest:
            steepest = q
        if i != k:
            t = T + x
            v = t - T
            lost += (T - (t - v)) + (x - v)
            T = t
            D1 += x * q
            D2 += x * q * q
    return T + lost, D1, D2, steepest, heaviest


@jit
def _polish(
    L: NDArray[np.float64],
    xi: NDArray[np.float64],
    low: float,
    eta: float,
    a: float,
    z: float,
    k: int,
) -> float:
    """Return the root near z, found by Newton on T - u in double-double arithmetic."""
    b, b_lo = dd.two_sum(1.0, -a)
    z_lo = 0.0
    for _ in range(POLISHES):
        F, F_lo = 0.0, 0.0
        slope = 0.0
        steepest = 0.0
        for i in range(L.shape[0]):
            d, d_lo = dd.two_sum(L[i], -low)
            d, d_lo = dd.multiply(d, d_lo, eta, 0.0)
            d, d_lo = dd.add(d, d_lo, z, z_lo)
            s, s_lo = dd.multiply(d, d_lo, xi[i], 0.0)
            rough = weight(s, a, b)
            if rough < NEGLIGIBLE:
                if i == k:
                    F, F_lo = dd.add(F, F_lo, -1.0, 0.0)
                continue
            if b > 0.0:
                g, g_lo = dd.multiply(b, b_lo, s, s_lo)
                g, g_lo = dd.log1p(g, g_lo)
                g, g_lo = dd.divide(g, g_lo, b, b_lo)
            else:
                g, g_lo = s, s_lo
            if i == k:
                g, g_lo = dd.expm1(-g, -g_lo)
            else:
                g, g_lo = dd.exp(-g, -g_lo)
            F, F_lo = dd.add(F, F_lo, g, g_lo)
            q = xi[i] / (1.0 + b * s)
            slope += rough * q
            steepest = max(steepest, q)
        step = (F + F_lo) / slope
        z, z_lo = dd.add(z, z_lo, max(step, -0.5 * z), 0.0)
        if abs(step) * steepest <= TOLERANCE / 16.0:
            break
    return z


@jit
def solve_asymmetric(
    L: NDArray[np.float64],
    xi: NDArray[np.float64],
    eta: float,
    a: float,
    z0: float,
    w: NDArray[np.float64],
) -> tuple[float, int]:
    """Fill w with the OMD step and return (z, passes); a start z0 < 0 means none is known."""
    n_arms = L.shape[0]
    b = 1.0 - a
    k = 0
    for i in range(1, n_arms):
        if L[i] < L[k] or (L[i] == L[k] and xi[i] < xi[k]):
            k = i
    low = L[k]
    even = distance(math.log(n_arms), b)
    upper = 0.0
    for i in range(n_arms):
        upper = max(upper, even / xi[i] - eta * (L[i] - low))

    T, D1, D2, steepest, heaviest = _moments(L, xi, low, eta, a, b, 0.0, k, w)
    passes = 1
    if T < 0.5:
        upper = min(upper, distance(-math.log1p(-T), b) / xi[k])
    if T < NEGLIGIBLE or upper < NEGLIGIBLE:
        return 0.0, passes
    x = D1 / xi[k]
    shrink = (math.log(x) - math.log(math.log(x))) / x if x >= math.e else 1.0 / (1.0 + x)
    # The bounds are proved for exact arithmetic.
    lower = max(shrink * T / xi[k] * (1.0 - 1e-10), NEGLIGIBLE)
    upper *= 1.0 + 1e-10

    z = z0 if lower < z0 < upper else lower
    at = z
    before = 0.0
    # Roundings in log w, as multiples of |log w|, which is about log(K / T) where T has its mass.
    spoils = 3.0 * a if b >= 0.5 else 4.0
    while passes < MAX_PASSES:
        at = z
        T, D1, D2, steepest, heaviest = _moments(L, xi, low, eta, a, b, z, k, w)
        passes += 1
        if T < NEGLIGIBLE:
            if z <= lower:
                break
            upper = z
            z = lower
            continue
        s = xi[k] * (eta * (L[k] - low) + z)
        u = deficit(s, b)
        q = xi[k] / (1.0 + b * s)
        near = abs(T - u) < 0.5 * u
        if near and heaviest != k and w[heaviest] > 0.5:
            k = heaviest
            continue
        h = math.log1p((T - u) / u) if near else math.log(T / u)
        slow = h * before < 0.0 and abs(h) > 0.5 * abs(before)
        before = h
        if h > 0.0:
            lower = z
        else:
            upper = z
        # Derivatives with respect to log z, or u and T near 1e-290 would overflow in the second.
        light = z * D1 / T
        lead = z * w[k] * q / u
        falls = light + lead  # -z h'
        bends = (1.0 + b) * (z * (z * D2 / T) + z * q * lead) - light**2 + lead**2  # z^2 h''
        p = 1.0 - bends / falls
        r = h / falls
        if p < 0.0 and abs(p * r) > 0.1:
            p = 0.0
        step = -z
        if p * r > -1.0:
            step = z * math.expm1(math.log1p(p * r) / p if abs(p) > 1e-6 else r)
        noise = ROUNDING * (6.0 + spoils * (math.log(n_arms) - math.log(T)))
        if abs(step) * max(steepest, 1.0 / z) <= CLOSE or abs(h) <= noise:
            z = min(max(z + step, lower), upper)
            if steepest * z * noise > TOLERANCE * falls:
                z = _polish(L, xi, low, eta, a, z, k)
            break
        z += step
        if slow or not lower < z < upper:
            z = math.sqrt(lower) * math.sqrt(upper)

    if abs(z - at) * steepest > CLOSE:
        _moments(L, xi, low, eta, a, b, z, k, w)
        passes += 1
    else:
        for i in range(n_arms):
            if w[i] < NEGLIGIBLE:
                continue
            change = (z - at) * xi[i] / (1.0 + b * xi[i] * (eta * (L[i] - low) + at))
            w[i] *= 1.0 - change * (1.0 - 0.5 * (1.0 + b) * change)
    return z, passes
