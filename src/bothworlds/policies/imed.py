"""IMED: indexed minimum empirical divergence (Honda and Takemura, 2015).

======== ==========================================================================
``n_i``  number of losses observed of arm i
``o_i``  decisions of arm i without an answer; 0 unless feedback is late
``N_i``  n_i + o_i
``m_i``  the mean of the losses; 1 while there is none
``m*``   the least of these means
kl(m, q) m ln(m / q) + (1 - m) ln((1 - m) / (1 - q))
``H_i``  m_i ln m_i + (1 - m_i) ln(1 - m_i), so that
         kl(m_i, m*) = H_i - m_i ln m* - (1 - m_i) ln(1 - m*)
======== ==========================================================================

Play every arm once, then argmin_i N_i kl(m_i, m*) + ln N_i, the first of several.  The paper writes
rewards and the largest mean.  The rule for late feedback is that of
`bothworlds.policies.outstanding`.

With H_i and ln N_i kept, a round takes two logarithms for all arms together.  A logarithm of 0
counts as that of 1e-300: an arm with losses then stays behind one without any, as it should.

README:

| `IMED()` | optimal constant for losses 0 and 1, fixed means only | linear | Honda and Takemura
2015 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import put, take
from bothworlds.lanes.vectors import load, select, splat, splat_int, store
from bothworlds.policies import base
from bothworlds.policies.base import Array, Policy, Traits
from bothworlds.policies.outstanding import ARMS, INDEX, LAST, WORST, index_kernels

# Rows: inverse probability (1), the arm; then of every arm n, the sum of its losses, o, N, m, H
# and ln N.
LEAST = 1e-300
UNPLAYED = -1e150  # in place of ln 0: before every played arm


@jit
def positive(x: Any) -> Any:
    """Return x, or 1e-300 where it is less."""
    return select(x > LEAST, x, LEAST)


@jit
def entropy(m: Any) -> Any:
    """Return H of a mean."""
    return m * log(positive(m)) + (1.0 - m) * log(positive(1.0 - m))


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Return the arm with the least index."""
    N, means, H, logs = ARMS + 3 * K, ARMS + 4 * K, ARMS + 5 * K, ARMS + 6 * K
    best = load(S, means, u)
    for i in range(1, K):
        m = load(S, means + i, u)
        best = select(m < best, m, best)
    log_best, log_other = log(positive(best)), log(positive(1.0 - best))
    arm = splat_int(0, u)
    least = splat(0.0, u)
    for i in range(K):
        m = load(S, means + i, u)
        kl = load(S, H + i, u) - m * log_best - (1.0 - m) * log_other
        index = load(S, N + i, u) * kl + load(S, logs + i, u)
        better = (index < least) | (splat_int(i, u) == 0)
        arm = select(better, i, arm)
        least = select(better, index, least)
    store(S, 0, splat(1.0, u))
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Count the loss."""
    n = take(S, ARMS, K, arm) + 1.0
    total = take(S, ARMS + K, K, arm) + loss
    m = total / n
    put(S, ARMS, K, arm, n)
    put(S, ARMS + K, K, arm, total)
    put(S, ARMS + 3 * K, K, arm, n)
    put(S, ARMS + 4 * K, K, arm, m)
    put(S, ARMS + 5 * K, K, arm, entropy(m))
    put(S, ARMS + 6 * K, K, arm, log(n))


@jit
def recount(K: int, S: Any, arm: int, o: float) -> None:
    """Set o_I, and N_I with it."""
    S[ARMS + 2 * K + arm] = o
    N = S[ARMS + arm] + o
    S[ARMS + 3 * K + arm] = N
    S[ARMS + 6 * K + arm] = log(N)
    if S[ARMS + arm] == 0.0:
        S[ARMS + 4 * K + arm] = WORST
        S[ARMS + 5 * K + arm] = 0.0


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I += 1; see `bothworlds.policies.outstanding`."""
    S[LAST] = arm
    recount(K, S, arm, S[ARMS + 2 * K + arm] + 1.0)


@jit
def answered(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I -= 1; N_I still counts the remaining decisions."""
    recount(K, S, arm, max(S[ARMS + 2 * K + arm] - 1.0, 0.0))


@dataclass(frozen=True, repr=False)
class IMED(Policy):
    """IMED, asymptotically optimal for Bernoulli losses and the strongest of the index policies.

    It needs no confidence level. Fixed means only: against adversaries its regret is linear.

    Notes
    -----
    With late feedback N counts decisions, answered or not, and an arm without any answer counts
    as one whose mean loss is 1.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.IMED()
    IMED()

    References
    ----------
    Honda and Takemura, *Non-asymptotic Analysis of a New Bandit Algorithm for Semi-bounded
    Rewards*, Journal of Machine Learning Research 16, 2015.
    """

    traits: ClassVar[Traits] = replace(
        INDEX,
        nanoseconds=(9.0, 0.8),
        unproved=base.ASYMPTOTIC,
        rows_per_arm=7,
        saved_rows={0: base.TOLD, 1: base.LOSSES, 2: base.OUTSTANDING},
    )
    own_kernels = index_kernels(choose, update, asked, answered)

    def start(self, n_arms: int) -> Array:
        """Return a state in which no arm was played."""
        state = np.zeros(self.traits.head_rows + self.traits.rows_per_arm * n_arms)
        rows = state[self.traits.head_rows :].reshape(self.traits.rows_per_arm, -1)
        rows[4], rows[6] = WORST, UNPLAYED
        return state

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return the saved counts and sums, with everything else computed from them."""
        state = super().state_from(n_arms, saved)
        for arm in range(n_arms):
            _restore(n_arms, state, arm)
        return state


@jit
def _restore(K: int, S: Any, arm: int) -> None:
    """Compute the values that follow from n, the sum of the losses and o."""
    n, o = S[ARMS + arm], S[ARMS + 2 * K + arm]
    if n > 0.0:
        m = S[ARMS + K + arm] / n
        S[ARMS + 4 * K + arm] = m
        S[ARMS + 5 * K + arm] = entropy(m)
    if n + o > 0.0:
        S[ARMS + 3 * K + arm] = n + o
        S[ARMS + 6 * K + arm] = log(n + o)
