"""Exp3 for losses, without horizon and without mixing (Bubeck and Cesa-Bianchi, 2012, ch. 3).

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i
eta_t    sqrt(ln K / (t K))
======== ==========================================================================

Every round draws I from w_i proportional to exp(-eta_t (L_i - min L)), which is the OMD step at
alpha = 1, and adds l / w_I to L_I.  The regret is at most 2 sqrt(T K ln K) (Theorem 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bothworlds.lanes.distributions import draw_arm, weight_of
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import add_to
from bothworlds.lanes.vectors import store
from bothworlds.omd.entering import entry_estimate
from bothworlds.omd.exponential import anytime_rate, exponential
from bothworlds.omd.recentring import fade, is_due, lanes_due, recentre_where
from bothworlds.policies import base
from bothworlds.policies.base import Array, InLanes, Kernels, Player, Policy, Saved
from bothworlds.registry import POLICIES, Entry

# Rows: inverse probability; then of every arm L and its weight, not normalised.
ESTIMATES = 1


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw from the exponential weights."""
    if is_due(t):
        recentre_where(K, S, ESTIMATES, lanes_due(t, u), u)
    drawn = ESTIMATES + K
    total = exponential(K, S, ESTIMATES, drawn, anytime_rate(K, t), u)
    arm, weight = draw_arm(K, S, drawn, total, u)
    store(S, 0, total / weight)
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I."""
    add_to(S, ESTIMATES, K, arm, loss * inverse_p)


@jit
def fading(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any, retained: float
) -> None:
    """L_i = R (L_i - min L); L_I += l / w_I."""
    fade(K, S, ESTIMATES, retained, loss)
    update(K, t, C, S, G, arm, inverse_p, loss)


@jit
def weight(K: int, t: int, C: Any, S: Any, G: Any, arm: Any) -> Any:
    """Return the weight of an arm, normalised."""
    return weight_of(K, S, ESTIMATES + K, arm)


_KERNELS = Kernels.of(
    choose, update, (ESTIMATES, 1), in_lanes=InLanes(weight, update, fading, each_round=True)
)


@dataclass(frozen=True, repr=False)
class Exp3(Policy):
    """Exponential weights with importance-weighted losses, for adversarial bandits.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.Exp3()
    Exp3()

    References
    ----------
    Bubeck and Cesa-Bianchi, *Regret Analysis of Stochastic and Nonstochastic Multi-armed Bandit
    Problems*, Foundations and Trends in Machine Learning 5, 2012, section 3.1.
    """

    registered: ClassVar[Entry | None] = POLICIES["Exp3"]
    rows_per_arm: ClassVar[int] = 2
    estimates: ClassVar[bool] = True
    resizable: ClassVar[bool] = True
    saved_rows: ClassVar[dict[int, Saved] | None] = {0: base.ESTIMATES}

    def for_tiles(self, n_arms: int) -> Player:
        """Return the twin that hardly looks at the arms once one of them leads."""
        if n_arms < 2 or type(self).kernels is not Exp3.kernels:
            return self
        from bothworlds.policies.leading.exp3 import Exp3InTiles

        return Exp3InTiles(self)

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm has this probability in round ``t``."""
        n_arms = rows.shape[1] + 1
        w0 = 1.0 / n_arms if probability is None else probability
        return np.array([entry_estimate(rows[0], anytime_rate(n_arms, t), 1.0, w0), 0.0])

    def kernels(self) -> Kernels:
        """Return the kernels."""
        return _KERNELS
