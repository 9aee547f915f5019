"""Every round of a lane played again in double-double arithmetic: each family of weights.

Each function returns the largest relative error of 1 / p, and the sums of 1[I = b] - p_b and of its
variance, b being the arm with the least estimate.  Estimates are sums of loss / p with the 1 / p
that was used.  ``scale`` is 1, or another number to see that the error is then found.
"""

import math

import numba
import numpy as np

from bothworlds.omd import double_double as dd
from bothworlds.omd.learning_rates import rate

LEFT_OUT = 80.0
"""Exponent from which a weight is nothing."""


@numba.njit
def root(a, a_low):
    """Return the square root of a pair."""
    r = math.sqrt(a)
    p, p_low = dd.multiply(r, 0.0, r, 0.0)
    e, _ = dd.add(a, a_low, -p, -p_low)
    return dd.two_sum(r, e / (2.0 * r))


@numba.njit
def replay_exponential(K, factor, mixed, scale, arms, losses, inverse_p):
    """Exponential weights at ``factor`` sqrt(ln K / (t K)), mixed with exploration or not."""
    log_K, log_K_low = dd.log1p(K - 1.0, 0.0)
    L, low, w, w_low = np.zeros(K), np.zeros(K), np.zeros(K), np.zeros(K)
    played = np.zeros(K)
    worst = surplus = variance = 0.0
    for k in range(arms.size):
        a, a_low = dd.divide(log_K, log_K_low, (k + 1.0) * K, 0.0)
        rate, rate_low = root(a, a_low)
        b = np.argmin(L)
        Z, Z_low = 0.0, 0.0
        for i in range(K):
            w[i] = w_low[i] = 0.0
            y, y_low = dd.add(L[b], low[b], -L[i], -low[i])
            y, y_low = dd.multiply(y, y_low, factor * rate, factor * rate_low)
            if y > -LEFT_OUT:
                w[i], w_low[i] = dd.exp(y, y_low)
            Z, Z_low = dd.add(Z, Z_low, w[i], w_low[i])
        cap, cap_low = 0.0, 0.0
        if mixed:
            cap, cap_low = 0.5 * rate, 0.5 * rate_low
            if cap > 0.5 / K:
                cap, cap_low = 0.5 / K, 0.0
        share, share_low = dd.add(1.0, 0.0, -K * cap, -K * cap_low)
        j = arms[k]
        p, p_low = dd.divide(w[j], w_low[j], Z, Z_low)
        p, p_low = dd.multiply(p, p_low, share, share_low)
        p, p_low = dd.add(p, p_low, cap, cap_low)
        if not mixed or played.min() > 0.0:
            q, q_low = dd.multiply(p, p_low, scale * inverse_p[k], 0.0)
            error = abs((q - 1.0) + q_low)
            worst = error if not error <= worst else worst
            p = share * w[b] / Z + cap
            surplus += (j == b) - p
            variance += p * (1.0 - p)
        played[j] += 1.0
        by, by_low = dd.multiply(inverse_p[k], 0.0, losses[k], 0.0)
        L[j], low[j] = dd.add(L[j], low[j], by, by_low)
    return worst, surplus, variance


@numba.njit
def replay_barrier(K, log_horizon, scale, arms, losses, inverse_p, restarts):
    """Broad: the log-barrier at a rate that halves in rounds marked in ``restarts``."""
    L, low, r, r_low = np.zeros(K), np.zeros(K), np.zeros(K), np.zeros(K)
    eta, V = 1.0 / 162.0, 0.0
    x, x_low = -K / eta, 0.0
    worst = surplus = variance = 0.0
    for k in range(arms.size):
        b = np.argmin(L)
        x, x_low = min(x, L[b] - 1.0 / eta), 0.0
        for _ in range(200):
            S1 = S2 = 0.0
            for i in range(K):
                y = (L[i] - x) + low[i]
                S1 += 1.0 / y
                S2 += 1.0 / (y * y)
            d = min((1.0 - S1 / eta) * S1 / S2, L[b] - 1.0 / eta - x)
            x += d
            if abs(d) * S2 <= 1e-10 * S1:
                break
        for _ in range(2):  # quadratic: from 1e-10 to 1e-20 and on
            S, S_low, S2 = 0.0, 0.0, 0.0
            for i in range(K):
                y, y_low = dd.add(L[i], low[i], -x, -x_low)
                r[i], r_low[i] = dd.divide(1.0, 0.0, y, y_low)
                S, S_low = dd.add(S, S_low, r[i], r_low[i])
                S2 += r[i] * r[i]
            e, _ = dd.add(S, S_low, -eta, 0.0)
            x, x_low = dd.add(x, x_low, -e / S2, 0.0)
        j = arms[k]
        y, y_low = dd.add(L[j], low[j], -x, -x_low)
        q = scale * inverse_p[k]
        error = abs((q - eta * y) - eta * y_low) / q
        worst = error if not error <= worst else worst
        w = r[b] / eta
        surplus += (j == b) - w
        variance += w * (1.0 - w)
        by, by_low = dd.multiply(inverse_p[k], 0.0, losses[k], 0.0)
        L[j], low[j] = dd.add(L[j], low[j], by, by_low)
        V += losses[k] ** 2 * (1.0 - 2.0 * r[j] / eta + S2 / (eta * eta))
        if 3.0 * eta * eta * V >= K * log_horizon:
            eta, V = 0.5 * eta, 0.0
            x, x_low = -K / eta, 0.0
            L[:] = 0.0
            low[:] = 0.0
            restarts[k] = 1.0
    return worst, surplus, variance


@numba.njit
def weights_at(L, low, least, xi, eta, b, b_low, z, z_low, w, w_low):
    """Fill the weights at the multiplier z, in double-double arithmetic; return E and -E'."""
    S, S_low, slope = -1.0, 0.0, 0.0
    for i in range(L.size):
        s, s_low = dd.add(L[i], low[i], -L[least], -low[least])
        s, s_low = dd.multiply(s, s_low, eta, 0.0)
        s, s_low = dd.add(s, s_low, z, z_low)
        s, s_low = dd.multiply(s, s_low, xi[i], 0.0)
        g, g_low = s, s_low
        if b > 0.0:
            g, g_low = dd.multiply(b, b_low, s, s_low)
            g, g_low = dd.log1p(g, g_low)
            g, g_low = dd.divide(g, g_low, b, b_low)
        w[i], w_low[i] = 0.0, 0.0
        if g < 690.0:
            w[i], w_low[i] = dd.exp(-g, -g_low)
        S, S_low = dd.add(S, S_low, w[i], w_low[i])
        slope += w[i] * xi[i] / (1.0 + b * s)
    return S, S_low, slope


@numba.njit
def replay_powers(K, C, scale, arms, losses, inverse_p):
    """Tsallis-INF at any alpha and with any xi; ``C`` has the parameters of the policy."""
    code, parameter, alpha, reduced = int(C[0]), C[1], C[2], C[3] > 0.0
    xi = np.ones(K)
    if C[4] > 0.0:
        xi[:] = C[5 : 5 + K]
    b, b_low = dd.two_sum(1.0, -alpha)
    L, low, w, w_low = np.zeros(K), np.zeros(K), np.zeros(K), np.zeros(K)
    worst = surplus = variance = 0.0
    z, z_low = 0.0, 0.0
    for k in range(arms.size):
        eta = rate(code, parameter, alpha, K, k + 1.0)
        least = np.argmin(L)
        small = 0
        for _ in range(200):
            E, E_low, slope = weights_at(L, low, least, xi, eta, b, b_low, z, z_low, w, w_low)
            S = 1.0 + E
            if S < 1e-100:
                z, z_low = 0.0, 0.0
                continue
            grown = math.log(S) if b == 0.0 else math.expm1(b * math.log(S)) / b
            d = S * grown if abs(E) > 1e-9 else E + E_low
            d = max(d / slope, -z)
            z, z_low = dd.add(z, z_low, d, 0.0)
            if abs(E) < 1e-11:
                small += 1
            if small == 2:
                break
        weights_at(L, low, least, xi, eta, b, b_low, z, z_low, w, w_low)
        j = arms[k]
        p, p_low = dd.divide(1.0, 0.0, w[j], w_low[j])
        error = abs((scale * inverse_p[k] - p) - p_low) / p
        worst = error if not error <= worst else worst
        surplus += (j == least) - w[least]
        variance += w[least] * (1.0 - w[least])
        base = 0.0
        for i in range(K):
            if reduced and w[i] >= eta * eta:
                L[i], low[i] = dd.add(L[i], low[i], 0.5, 0.0)
                if i == j:
                    base = 0.5
        by, by_low = dd.multiply(inverse_p[k], 0.0, losses[k] - base, 0.0)
        L[j], low[j] = dd.add(L[j], low[j], by, by_low)
    return worst, surplus, variance
