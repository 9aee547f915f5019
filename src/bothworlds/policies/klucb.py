"""KL-UCB for Bernoulli losses (Garivier and Cappe, 2011).

======== ==========================================================================
``n_i``  number of losses observed of arm i
``m_i``  their mean
kl(m, q) m ln(m / q) + (1 - m) ln((1 - m) / (1 - q))
``f``    ln t + c ln ln t, the budget; the second term from t = 3 on
``q_i``  the least q <= m_i with n_i kl(m_i, q) <= f, the index of arm i
======== ==========================================================================

Play every arm once, then argmin_i q_i, the first of several.

q -> kl(m, q) is convex and decreasing below m, so Newton's iteration from the left of the root
increases monotonically to it.  Two lower bounds of the root are at hand: Pinsker's
m - sqrt(f / (2 n)), and m exp(-(f / n - (1 - m) ln(1 - m)) / m), which drops -ln(1 - q) >= 0 and
is at most a factor e below the root.

An arm beats the least index q so far only if m_i <= q or n_i kl(m_i, q) < f, so most arms are
settled without computing their index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.functions import exp, log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import unpack
from bothworlds.policies import base
from bothworlds.policies.base import Array, Kernels, Policy, Saved

# Rows: inverse probability (1); then of every arm n and the sum of its losses.
ARMS = 1
LEAST = 1e-300  # an index below is 0
MAX_STEPS = 60  # never reached: a bound on the loop, not a tolerance


@jit
def divergence(m: float, q: float) -> float:
    """Return kl(m, q) for 0 < q < 1."""
    value = 0.0
    if m > 0.0:
        value += m * log(m / q)
    if m < 1.0:
        value += (1.0 - m) * log((1.0 - m) / (1.0 - q))
    return float(value)


@jit
def lower_index(m: float, budget: float) -> Any:
    """Return the least q <= m with kl(m, q) <= ``budget``."""
    if m <= 0.0 or budget <= 0.0:
        return m
    entropy = -(1.0 - m) * log(1.0 - m) if m < 1.0 else 0.0
    q = max(m * exp(-(budget + entropy) / m), m - math.sqrt(0.5 * budget))
    if q < LEAST:
        return 0.0
    for _ in range(MAX_STEPS):
        # kl'(m, q) = -(m - q) / (q (1 - q))
        if m - q <= 1e-15 * m:
            break
        step = (divergence(m, q) - budget) * q * (1.0 - q) / (m - q)
        # Newton's error after a step is about its square.
        close = step <= 1e-8 * (m - q)
        q = min(q + step, m)
        if close:
            break
    return q


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> int:
    """Return an arm without a loss if there is one, else the arm with the least index."""
    S[0] = 1.0
    for i in range(K):
        if S[ARMS + i] == 0.0:
            return i
    log_t = log(float(t))
    budget = log_t
    if log_t > 1.0:
        budget += C[0] * log(log_t)
    arm = 0
    least = 2.0
    for i in range(K):
        n = S[ARMS + i]
        m = S[ARMS + K + i] / n
        if least < m and (
            m - math.sqrt(0.5 * budget / n) >= least
            or least == 0.0
            or n * divergence(m, least) >= budget
        ):
            continue
        q = lower_index(m, budget / n)
        if q < least:
            arm = i
            least = q
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Count the loss."""
    S[ARMS + arm] += 1.0
    S[ARMS + K + arm] += loss


@jit
def ask(F: Any) -> Any:
    """Choose an arm for one bandit."""
    K, t, C, S, G = unpack(F)
    return choose(K, t, C, S, G, 0.0)


@jit
def tell(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn from the loss of an arm."""
    K, t, C, S, G = unpack(F)
    update(K, t, C, S, G, arm, inverse_p, loss)


@jit
def weights(F: Any, out: Any) -> None:
    """1 for the arm to be played, 0 for the others."""
    K, t, C, S, G = unpack(F)
    arm = choose(K, t, C, S, G, 0.0)
    for i in range(K):
        out[i] = 1.0 if i == arm else 0.0


_KERNELS = Kernels(choose, update, ask, tell, weights, wide=False)


@dataclass(frozen=True, repr=False)
class KLUCB(Policy):
    """KL-UCB, asymptotically optimal for Bernoulli losses; also valid for losses in [0, 1].

    Parameters
    ----------
    c : float, default 0
        Factor of ln ln t in the budget. The theorem takes 3, its authors recommend 0 in practice.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.KLUCB()
    KLUCB()

    References
    ----------
    Garivier and Cappe, *The KL-UCB Algorithm for Bounded Stochastic Bandits and Beyond*, COLT
    2011.
    """

    c: float = 0.0

    rows_per_arm: ClassVar[int] = 2
    saved_rows: ClassVar[dict[int, Saved] | None] = {0: base.TOLD, 1: base.LOSSES}

    def __post_init__(self) -> None:
        c = self.c
        real = isinstance(c, Real) and not isinstance(c, bool)
        if not (real and math.isfinite(c) and c >= 0):
            raise InvalidParameter(must("c", "KLUCB", "a finite number of at least 0", c))
        object.__setattr__(self, "c", float(c))

    def parameters(self, n_arms: int) -> Array:
        """Return c."""
        return np.array([self.c])

    def kernels(self) -> Kernels:
        """Return the kernels."""
        return _KERNELS
