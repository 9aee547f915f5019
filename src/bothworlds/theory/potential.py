"""The regulariser and its conjugate on the simplex, in plain NumPy.

The lemmas compare these quantities on many weight vectors at once, so everything here works on
arrays ``(..., K)`` with one learning rate per vector. The solver is independent of the one the
policies play with, and therefore also a witness against it.

Symbols: w a point of the simplex; L estimated losses; eta learning rates; xi the asymmetry of the
regulariser; alpha its power, with both limits. Up to a constant ::

    Psi(w)  = - sum_i (w_i^alpha - alpha w_i - (1 - alpha)) / (alpha (1 - alpha) xi_i)
    Phi(-L) = max_w <w, -L> - Psi(w)/eta
"""

import numpy as np

from bothworlds.arguments import FloatArray


def deformed_log(x: FloatArray, a: float) -> FloatArray:
    """Give (x^a - 1)/a without loss near a = 0, where it is log x."""
    log_x = np.log(x)
    # A smaller a makes no difference, and its product with the logarithm has no digits left.
    return np.asarray(log_x if abs(a) < 1e-290 else np.expm1(a * log_x) / a)


def _psi(w: FloatArray, alpha: float) -> FloatArray:
    # At alpha near 1 weights underflow; psi has a finite limit there, its formula does not.
    w = np.maximum(w, np.finfo(np.float64).tiny)
    # Two forms of the same function, each free of cancellation at its own end of [0, 1].
    if alpha < 0.5:
        return -(deformed_log(w, alpha) + 1.0 - w) / (1.0 - alpha)
    return (w * deformed_log(w, alpha - 1.0) + 1.0 - w) / alpha


def regulariser(w: FloatArray, alpha: float, xi: FloatArray) -> FloatArray:
    """Give Psi(w), which is zero where every weight is 1 and positive elsewhere."""
    return np.asarray(np.sum(_psi(w, alpha) / xi, axis=-1))


def gradient(w: FloatArray, alpha: float, xi: FloatArray) -> FloatArray:
    """Give the gradient of Psi."""
    return deformed_log(w, alpha - 1.0) / xi


def maximiser(
    L: FloatArray, eta: FloatArray, alpha: float, xi: FloatArray, mass: FloatArray | float = 1.0
) -> FloatArray:
    """Solve for the weights that attain Phi(-L), or for their analogue of total ``mass`` <= 1.

    With y the multiplier, ``w_i = (1 + (1 - alpha) eta xi_i (L_i - y))^(-1/(1 - alpha))``. Their
    sum S increases in y and is at least 1 at y = min L; from there Newton's method on
    ``(S/mass)^-(1 - alpha)``, a concave function, descends to the root without overshooting.
    """
    beta = 1.0 - alpha
    scale = np.asarray(eta)[..., None] * xi
    above = L - L.min(axis=-1, keepdims=True)
    y = np.zeros(above.shape[:-1])
    for _ in range(60):
        x = scale * (above - y[..., None])
        w = np.exp(-x) if beta == 0.0 else np.exp(-np.log1p(beta * x) / beta)
        S = w.sum(axis=-1)
        slope = np.sum(scale * w ** (2.0 - alpha), axis=-1)
        lower = np.minimum(y, y - S * deformed_log(S / mass, beta) / slope)
        if np.all(y - lower <= 4e-16 * np.abs(y)):
            break
        y = lower
    return np.asarray(w * (mass / S)[..., None])


def attained(
    w: FloatArray, L: FloatArray, eta: FloatArray, alpha: float, xi: FloatArray
) -> FloatArray:
    """Return the share of Phi(-L) that the weights attain; all of it if they are the maximiser."""
    return np.asarray(-np.sum(w * L, axis=-1) - regulariser(w, alpha, xi) / eta)


def potential(L: FloatArray, eta: FloatArray, alpha: float, xi: FloatArray) -> FloatArray:
    """Give Phi(-L)."""
    return attained(maximiser(L, eta, alpha, xi), L, eta, alpha, xi)
