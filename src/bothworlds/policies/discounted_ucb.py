"""Discounted UCB: UCB1 whose observations fade (Kocsis and Szepesvari, 2006).

======== ==========================================================================
``g``    the discount, 1 - 1 / window
``N_i``  sum of g^(age in observations) over the losses of arm i
``m_i``  the mean of these losses with the same weights; 1 while there is none
``o_i``  decisions of arm i without an answer; 0 unless feedback is late
``n``    sum of all N_i
======== ==========================================================================

Play every arm once, then argmin_i m_i - sqrt(c ln n / (N_i + o_i)), the first of several.  Garivier
and Moulines (2011) write the bonus as 2 sqrt(xi ln n / N_i), so c = 4 xi.  The rule for late
feedback is that of `bothworlds.policies.outstanding`.

README:

| `DiscountedUCB(window=W)`, `SlidingWindowThompson(window=W)`, `GLRKLUCB(horizon=T)` | for means
that change, with bounds if it is seldom | linear | Garivier and Moulines 2011; Trovò et al. 2020;
Besson et al. 2022 |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bothworlds.arguments import keep, positive
from bothworlds.errors import invalid
from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import add_to
from bothworlds.lanes.vectors import load, maximum, select, splat, splat_int, sqrt, store
from bothworlds.policies import base
from bothworlds.policies.base import Array, Policy, Saved, Traits
from bothworlds.policies.outstanding import ARMS, INDEX, LAST, WORST, index_kernels

# Parameters: c, g. Rows: inverse probability (1), the arm; then of every arm N, the sum of its
# losses with the same weights, and o.
BONUS, RETAINED = 0, 1
UNPLAYED = -1e150  # the index of an arm without a decision: before all others


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Return the arm with the least index."""
    n = load(S, ARMS, u)
    for i in range(1, K):
        n = n + load(S, ARMS + i, u)
    width = C[BONUS] * log(maximum(n, 1.0))
    arm = splat_int(0, u)
    least = splat(0.0, u)
    for i in range(K):
        N = load(S, ARMS + i, u)
        weight = N + load(S, ARMS + 2 * K + i, u)
        m = select(N > 0.0, load(S, ARMS + K + i, u) / select(N > 0.0, N, 1.0), WORST)
        safe = select(weight > 0.0, weight, 1.0)
        index = select(weight > 0.0, m - sqrt(width / safe), UNPLAYED)
        better = (index < least) | (splat_int(i, u) == 0)
        arm = select(better, i, arm)
        least = select(better, index, least)
    store(S, 0, splat(1.0, u))
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Let all observations fade, and add the new one."""
    for row in range(ARMS, ARMS + 2 * K):
        store(S, row, C[RETAINED] * load(S, row, loss))
    add_to(S, ARMS, K, arm, splat(1.0, loss))
    add_to(S, ARMS + K, K, arm, loss)


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I += 1; see `bothworlds.policies.outstanding`."""
    S[LAST] = arm
    S[ARMS + 2 * K + arm] += 1.0


@jit
def answered(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """o_I -= 1."""
    S[ARMS + 2 * K + arm] = max(S[ARMS + 2 * K + arm] - 1.0, 0.0)


@dataclass(frozen=True, repr=False)
class DiscountedUCB(Policy):
    """Discounted UCB, for stochastic losses whose means change.

    Parameters
    ----------
    window : float, default 1000
        How many rounds are remembered, larger than 1: an observation loses the share 1 / window
        of its weight with every later one. Garivier and Moulines take 4 sqrt(T / changes).
    c : float, default 2
        The constant in the bonus sqrt(c ln n / N), 4 xi in the notation of Garivier and Moulines,
        who simulate xi = 1/2.

    Notes
    -----
    With late feedback the bonus counts decisions, answered or not, and an arm without any answer
    counts as one whose mean loss is 1.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.DiscountedUCB(window=500)
    DiscountedUCB(window=500.0)

    References
    ----------
    Kocsis and Szepesvari, *Discounted UCB*, 2nd PASCAL Challenges Workshop, 2006; Garivier and
    Moulines, *On Upper-Confidence Bound Policies for Switching Bandit Problems*, ALT 2011.
    """

    window: float = 1000.0
    c: float = 2.0

    traits: ClassVar[Traits] = replace(
        INDEX,
        nanoseconds=(10.0, 1.5),
        unproved="its bound needs the number of changes, see Garivier and Moulines 2011",
        order_invariant=False,
        rows_per_arm=3,
        saved_rows={
            0: Saved("weights", low=0.0, high=2.0**53),
            1: base.LOSSES,
            2: base.OUTSTANDING,
        },
    )
    own_kernels = index_kernels(choose, update, asked, answered)

    def __post_init__(self) -> None:
        expected = "a number larger than 1"
        window = positive("window", self.window, "DiscountedUCB", expected)
        if window <= 1.0:
            raise invalid("window", "DiscountedUCB", expected, window)
        keep(self, window=window, c=positive("c", self.c, "DiscountedUCB"))

    def parameters(self, n_arms: int) -> Array:
        """Return c and the discount."""
        return np.array([self.c, 1.0 - 1.0 / self.window])
