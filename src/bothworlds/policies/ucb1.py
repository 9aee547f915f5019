"""UCB1: optimism in the face of uncertainty (Auer, Cesa-Bianchi and Fischer, 2002).

======== ==========================================================================
``n_i``  number of losses observed of arm i
``m_i``  their mean
``c``    the constant of the bonus
======== ==========================================================================

Play every arm once, then argmin_i m_i - sqrt(c ln t / n_i), the first of several.  Auer et al.
have c = 2; Zimmert and Seldin (2021) compare with c = 3/2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import unpack
from bothworlds.lanes.rows import put, take
from bothworlds.lanes.vectors import load, select, splat, splat_int, sqrt, store
from bothworlds.policies import base
from bothworlds.policies.base import Array, Kernels, Policy, Saved

# Rows: inverse probability (1); then of every arm n, the sum of its losses, m and 1 / sqrt(n).
ARMS = 1
UNPLAYED = 1e150  # in place of 1 / sqrt(0): beats every played arm, and times ln 1 = 0 is 0


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Return the arm with the least index."""
    width = sqrt(C[0] * log(float(t)))
    means = ARMS + 2 * K
    roots = ARMS + 3 * K
    arm = splat_int(0, u)
    least = load(S, means, u) - width * load(S, roots, u)
    for i in range(1, K):
        index = load(S, means + i, u) - width * load(S, roots + i, u)
        better = index < least
        arm = select(better, i, arm)
        least = select(better, index, least)
    store(S, 0, splat(1.0, u))
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Count the loss."""
    n = take(S, ARMS, K, arm) + 1.0
    total = take(S, ARMS + K, K, arm) + loss
    put(S, ARMS, K, arm, n)
    put(S, ARMS + K, K, arm, total)
    put(S, ARMS + 2 * K, K, arm, total / n)
    put(S, ARMS + 3 * K, K, arm, 1.0 / sqrt(n))


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
    """1 for the arm with the least index, 0 for the others."""
    K, t, C, S, G = unpack(F)
    arm = choose(K, t, C, S, G, 0.0)
    for i in range(K):
        out[i] = 1.0 if i == arm else 0.0


_KERNELS = Kernels(choose, update, ask, tell, weights)


@dataclass(frozen=True, repr=False)
class UCB1(Policy):
    """UCB1, near-optimal for stochastic losses, with linear regret against adversaries.

    Parameters
    ----------
    c : float, default 1.5
        The constant in the bonus sqrt(c ln t / n). Auer et al. analyse 2.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.UCB1(c=2)
    UCB1(c=2.0)

    References
    ----------
    Auer, Cesa-Bianchi and Fischer, *Finite-time Analysis of the Multiarmed Bandit Problem*,
    Machine Learning 47, 2002.
    """

    c: float = 1.5

    rows_per_arm: ClassVar[int] = 4
    saved_rows: ClassVar[dict[int, Saved] | None] = {0: base.TOLD, 1: base.LOSSES}

    def __post_init__(self) -> None:
        c = self.c
        real = isinstance(c, Real) and not isinstance(c, bool)
        if not (real and math.isfinite(c) and c > 0):
            raise InvalidParameter(must("c", "UCB1", "a positive finite number", c))
        object.__setattr__(self, "c", float(c))

    def parameters(self, n_arms: int) -> Array:
        """Return c."""
        return np.array([self.c])

    def start(self, n_arms: int) -> Array:
        """Return a state in which no arm was played."""
        state = np.zeros(self.head_rows + self.rows_per_arm * n_arms)
        state[self.head_rows + 3 * n_arms :] = UNPLAYED
        return state

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return the saved counts and sums, with the means and roots made of them."""
        state = super().state_from(n_arms, saved)
        n, total, means, roots = state[self.head_rows :].reshape(self.rows_per_arm, -1)
        played = n > 0.0
        means[played] = total[played] / n[played]
        roots[played] = 1.0 / np.sqrt(n[played])
        return state

    def kernels(self) -> Kernels:
        """Return the kernels."""
        return _KERNELS
