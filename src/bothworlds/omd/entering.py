"""Entry of a new arm: the loss estimate with which it has a given probability.

Symbols: ``a`` alpha, ``eta`` learning rate, ``w0`` the newcomer's probability, ``y`` the
multiplier of the OMD step, phi(w) = (w^(a - 1) - 1) / (1 - a) with limit -log w at a = 1, so that
w_i solves phi(w_i) = eta (L_i - y).

The old arms share 1 - w0.  Put w_i = (1 - w0) v_i: then v is itself an OMD step, at learning rate
(1 - w0)^(1 - a) eta, so y needs no solver of its own.  The newcomer follows from any old arm,

    L_0 = L_i + (phi(w0) - phi(w_i)) / eta,

best the one with the least estimate.  At a = 1/2 this is L_0 = x + 2 / (eta sqrt(w0)).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bothworlds.omd import weights


def entry_estimate(L: NDArray[np.float64], eta: float, alpha: float, w0: float) -> float:
    """Return the estimate at which a newcomer has probability ``w0`` next to estimates ``L``.

    At learning rate 0 every arm has the same probability regardless of its estimate; the newcomer
    then starts level with the best.

    Examples
    --------
    >>> import numpy as np
    >>> L = np.array([3.0, 0.0, 1.0])
    >>> newcomer = entry_estimate(L, eta=0.5, alpha=0.5, w0=0.25)
    >>> round(float(weights([*L, newcomer], eta=0.5)[-1]), 12)
    0.25
    """
    best = int(L.argmin())
    if eta == 0.0:
        return float(L[best])
    b = 1.0 - alpha
    v = float(weights(L, math.exp(b * math.log1p(-w0)) * eta, alpha)[best])
    rise = _phi(math.log(w0), b) - _phi(math.log1p(-w0) + math.log(v), b)
    return float(L[best]) + rise / eta


def _phi(log_w: float, b: float) -> float:
    """Return (w^-b - 1) / b, smooth into its limit -log w at b = 0."""
    return math.expm1(-b * log_w) / b if b > 0.0 else -log_w
