"""UCB1: optimism in the face of uncertainty (Auer, Cesa-Bianchi and Fischer, 2002).

======== ==========================================================================
``n_i``  number of losses observed of arm i
``o_i``  decisions of arm i without an answer; 0 unless feedback is late
``m_i``  the mean of the losses; 1 while there is none
``c``    the constant of the bonus
======== ==========================================================================

Play every arm once, then argmin_i m_i - sqrt(c ln t / (n_i + o_i)), the first of several.  Auer et
al. have c = 2; Zimmert and Seldin (2021) compare with c = 3/2.  The rule for late feedback is that
of `bothworlds.policies.outstanding`.

README:

| `UCB1()` | Σ log T / Δ, fixed means only | linear | Auer et al. 2002 |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bothworlds.arguments import keep, positive
from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import put, take
from bothworlds.lanes.vectors import load, select, splat, splat_int, sqrt, store
from bothworlds.policies import base
from bothworlds.policies.base import Array, Policy, Traits
from bothworlds.policies.outstanding import ARMS, INDEX, LAST, WORST, index_kernels

# Rows: inverse probability (1), the arm; then of every arm n, the sum of its losses, m,
# 1 / sqrt(n + o) and o.
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
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I += 1; see `bothworlds.policies.outstanding`."""
    S[LAST] = arm
    n = S[ARMS + arm]
    o = S[ARMS + 4 * K + arm] + 1.0
    S[ARMS + 4 * K + arm] = o
    if n == 0.0:
        S[ARMS + 2 * K + arm] = WORST
    S[ARMS + 3 * K + arm] = 1.0 / math.sqrt(n + o)


@jit
def answered(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I -= 1; where others remain, the bonus keeps counting them."""
    o = max(S[ARMS + 4 * K + arm] - 1.0, 0.0)
    S[ARMS + 4 * K + arm] = o
    if o > 0.0:
        S[ARMS + 3 * K + arm] = 1.0 / math.sqrt(S[ARMS + arm] + o)


@dataclass(frozen=True, repr=False)
class UCB1(Policy):
    """UCB1, near-optimal for stochastic losses, with linear regret against adversaries.

    Parameters
    ----------
    c : float, default 1.5
        The constant in the bonus sqrt(c ln t / n). Auer et al. analyse 2.

    Notes
    -----
    With late feedback n counts decisions, answered or not, and an arm without any answer counts
    as one whose mean loss is 1: it is left alone but for logarithmic exploration.

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

    traits: ClassVar[Traits] = replace(
        INDEX,
        nanoseconds=(9.0, 0.6),
        rows_per_arm=5,
        saved_rows={
            0: base.TOLD,
            1: base.LOSSES,
            4: base.OUTSTANDING,
        },
    )
    own_kernels = index_kernels(choose, update, asked, answered)

    def __post_init__(self) -> None:
        keep(self, c=positive("c", self.c, "UCB1"))

    def parameters(self, n_arms: int) -> Array:
        """Return c."""
        return np.array([self.c])

    def start(self, n_arms: int) -> Array:
        """Return a state in which no arm was played."""
        state = np.zeros(self.traits.head_rows + self.traits.rows_per_arm * n_arms)
        state[ARMS + 3 * n_arms : ARMS + 4 * n_arms] = UNPLAYED
        return state

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return the saved counts and sums, with their means and roots."""
        state = super().state_from(n_arms, saved)
        n, total, means, roots, o = state[self.traits.head_rows :].reshape(
            self.traits.rows_per_arm, -1
        )
        told, decided = n > 0.0, n + o > 0.0
        means[decided] = WORST
        means[told] = total[told] / n[told]
        roots[decided] = 1.0 / np.sqrt((n + o)[decided])
        return state
