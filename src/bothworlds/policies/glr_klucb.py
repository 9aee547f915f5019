"""GLR-klUCB: KL-UCB that restarts when a test finds a change (Besson et al., 2022).

======== ==========================================================================
``T``    the horizon
``t_0``  the round of the last restart
``N``    losses observed of an arm since then
delta    1 / sqrt(T), the confidence of the test
``a``    0.1 sqrt(ln T / T), the share of forced exploration
======== ==========================================================================

In the rounds with t mod floor(K / a) in {1, ..., K} this arm is played; else an arm without
observations since t_0, if there is one; else the arm with the least index of
`bothworlds.policies.klucb` at t - t_0.  After every loss its arm is tested as in
`bothworlds.policies.alarm`, with the threshold ln(3 N^(3/2) / delta).  A change in one arm restarts
all (the authors' global restarts).  Feedback on decisions from before a restart teaches nothing.

Where the constants are from: delta and the order of ``a`` are those of the authors' corollary for
an unknown number of changes.  The threshold is the one that the version of 2019 recommends in
practice, in place of the larger one it proves.  The factor 0.1 is the default of the authors' code,
SMPyBandits; their experiments, which know the number of changes, come to it where that is four.

Two things differ.  The authors cut the sequence at all places, or at every tenth; the dyadic cuts
of the alarm cost log N instead of N for an observation.  The index allows ln t, where the authors
prove bounds for ln t + 3 ln ln t; their published regrets are those of 3 ln t, twice as large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bothworlds.arguments import keep, whole
from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import jit
from bothworlds.policies.alarm import COUNT, FIELDS, change_beyond, observe, silence
from bothworlds.policies.base import Array, Policy, Traits
from bothworlds.policies.klucb.kernels import budget_at, least_index
from bothworlds.policies.outstanding import INDEX, LAST, index_kernels

# Parameters: floor(K / a), ln(3 / delta). Rows: inverse probability (1), the arm, t_0, the last
# round decided, the number of restarts; then of every arm n + o, the sum of its losses, o, and the
# numbers of the test.
PERIOD, LOG_FACTOR = 0, 1
ORIGIN, LATEST, RESTARTS, ARMS = 2, 3, 4, 5
TEST = 3  # first group of the test's numbers
EXPLORATION = 0.1


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> int:
    """Explore if it is due, else return the arm with the least index."""
    S[0] = 1.0
    S[LATEST] = t
    due = t % int(C[PERIOD])
    if 1 <= due <= K:
        return due - 1
    for i in range(K):
        if S[ARMS + i] == 0.0:
            return i
    arm, _ = least_index(K, budget_at(max(t - int(S[ORIGIN]), 1), 0.0), S, 1, ARMS, -1)
    return int(arm)


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Count the loss, and restart if the arm's losses have changed."""
    if t <= S[ORIGIN]:
        return
    S[ARMS + arm] += 1.0
    S[ARMS + K + arm] += loss
    first = ARMS + TEST * K
    observe(S, first + arm, K, loss)
    N = S[first + COUNT * K + arm]
    if N < 2.0:
        return
    found, _ = change_beyond(S, first + arm, K, C[LOG_FACTOR] + 1.5 * log(N))
    if found > 0.0:
        S[ORIGIN] = max(S[LATEST], float(t))
        S[RESTARTS] += 1.0
        for i in range(K):
            for group in range(TEST):
                S[ARMS + group * K + i] = 0.0
            silence(S, first + i, K)


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I += 1; see `bothworlds.policies.outstanding`."""
    S[LAST] = arm
    S[ARMS + arm] += 1.0
    S[ARMS + 2 * K + arm] += 1.0


@jit
def answered(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I -= 1, unless there was a restart since the decision."""
    if t > S[ORIGIN] and S[ARMS + 2 * K + arm] > 0.0:
        S[ARMS + arm] -= 1.0
        S[ARMS + 2 * K + arm] -= 1.0


@dataclass(frozen=True, repr=False)
class GLRKLUCB(Policy):
    """GLR-klUCB, for means that change a few times at unknown rounds.

    KL-UCB restarts when a generalised likelihood ratio test finds that the losses of an arm have
    changed; a small share of the rounds explores, so that no change stays hidden.

    Parameters
    ----------
    horizon : int
        Number of rounds T, at least 2. The confidence of the test is 1 / sqrt(T), the share of
        exploration 0.1 sqrt(ln T / T).

    Notes
    -----
    With late feedback decisions count, answered or not, as in `KLUCB`.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.GLRKLUCB(horizon=10_000)
    GLRKLUCB(horizon=10000)

    References
    ----------
    Besson, Kaufmann, Maillard and Seznec, *Efficient Change-Point Detection for Tackling
    Piecewise-Stationary Bandits*, JMLR 23, 2022; Besson and Kaufmann, *The Generalized Likelihood
    Ratio Test meets klUCB*, 2019, its first version.
    """

    horizon: int

    traits: ClassVar[Traits] = replace(
        INDEX,
        nanoseconds=(60.0, 10.0),
        needs_horizon=True,
        unproved="its bound has the lengths of the stationary parts, see Besson et al. 2022",
        order_invariant=False,
        head_rows=ARMS,
        rows_per_arm=TEST + FIELDS,
    )
    own_kernels = index_kernels(choose, update, asked, answered, wide=False)

    def __post_init__(self) -> None:
        keep(self, horizon=whole("horizon", self.horizon, "GLRKLUCB", 2))

    def parameters(self, n_arms: int) -> Array:
        """Return the period of exploration and the constant of the threshold."""
        T = float(self.horizon)
        share = EXPLORATION * math.sqrt(math.log(T) / T)
        return np.array([math.floor(n_arms / share), math.log(3.0 * math.sqrt(T))])

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether losses are counted by whole numbers."""
        first = ARMS + (TEST + COUNT) * n_arms
        counts = np.concatenate([state[first : first + n_arms], state[ORIGIN : ORIGIN + 1]])
        whole_counts = (counts >= 0.0) & (counts == np.floor(counts))
        return bool(whole_counts.all()) and super().sound(n_arms, state)
