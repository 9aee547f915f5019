"""Broad for both worlds: the log-barrier with doubling restarts (Wei and Luo, 2018).

Theorem 10 with Algorithm 3, option II, and the guess m_i = l_I for every arm.  A guess that is
constant over the arms changes no weight, so what remains is OMD with the log-barrier
(alpha = 0) at a rate that halves:

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i since the last restart
``w_i``  the OMD step at alpha = 0, 1 / (eta (L_i - x)); see `bothworlds.omd.barrier`
``Q``    sum_i w_i^2
``V``    sum over the rounds since the last restart of l^2 [(1 - w_I)^2 + sum_{i != I} w_i^2]
======== ==========================================================================

Start with eta = 1/162; when V >= K ln T / (3 eta^2), halve eta and forget L and V.  The bracket in
V is 1 - 2 w_I + Q.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bothworlds.arguments import keep, whole
from bothworlds.lanes.distributions import draw_arm
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import add_to
from bothworlds.lanes.vectors import any_lane, load, select, store
from bothworlds.omd.barrier import solve_barrier
from bothworlds.omd.entering import entry_estimate
from bothworlds.omd.recentring import RECENTRE_EVERY, recentre
from bothworlds.policies import base
from bothworlds.policies.base import Array, Kernels, Player, Policy, Saved
from bothworlds.registry import POLICIES, Entry

LOG_HORIZON = 0
# Rows: inverse probability, Q, x, eta, V; then of every arm L and its weight, not normalised.
SQUARES, ROOT, RATE, SPREAD, ESTIMATES = 1, 2, 3, 4, 5
RATE_1 = 1.0 / 162.0
LEAST_RATE = 1e-60  # reached by no run: a bound of what is read from a file


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve the OMD step and draw from it."""
    x = load(S, ROOT, u)
    if t % RECENTRE_EVERY == 0:
        x = x - recentre(K, S, ESTIMATES, u)
    drawn = ESTIMATES + K
    x, S1, S2, _ = solve_barrier(K, S, ESTIMATES, drawn, x, load(S, RATE, u))
    arm, weight = draw_arm(K, S, drawn, S1, u)
    store(S, ROOT, x)
    store(S, SQUARES, S2 / (S1 * S1))
    store(S, 0, S1 / weight)
    return arm


@jit
def is_over(K: int, C: Any, eta: Any, V: Any) -> Any:
    """Tell where the losses have spread too far for this rate."""
    return 3.0 * eta * eta * V >= K * C[LOG_HORIZON]


@jit
def restart(K: int, S: Any, over: Any, like: Any) -> None:
    """Halve eta and forget L and V, in some lanes."""
    eta = load(S, RATE, like)
    eta = select(over, 0.5 * eta, eta)
    store(S, RATE, eta)
    store(S, SPREAD, select(over, 0.0, load(S, SPREAD, like)))
    store(S, ROOT, select(over, -K / eta, load(S, ROOT, like)))
    for i in range(ESTIMATES, ESTIMATES + K):
        store(S, i, select(over, 0.0, load(S, i, like)))


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I; restart where the losses have spread too far."""
    w = 1.0 / inverse_p
    Q = load(S, SQUARES, loss)
    eta = load(S, RATE, loss)
    x = load(S, ROOT, loss) + loss * w / Q
    V = load(S, SPREAD, loss) + loss * loss * (1.0 - 2.0 * w + Q)
    add_to(S, ESTIMATES, K, arm, loss * inverse_p)
    store(S, ROOT, x)
    store(S, SPREAD, V)
    over = is_over(K, C, eta, V)
    if any_lane(over):
        restart(K, S, over, loss)


_KERNELS = Kernels.of(choose, update, (ESTIMATES, 1))


@dataclass(frozen=True, repr=False)
class Broad(Policy):
    """Broad, with guarantees in both worlds up to a factor log T.

    Parameters
    ----------
    horizon : int
        Number of rounds T, at least 2; it enters the restart threshold only.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.Broad(horizon=10_000)
    Broad(horizon=10000)

    References
    ----------
    Wei and Luo, *More Adaptive Algorithms for Adversarial Bandits*, COLT 2018, Theorem 10.
    """

    horizon: int

    registered: ClassVar[Entry | None] = POLICIES["Broad"]
    needs_horizon: ClassVar[bool] = True
    unproved: ClassVar[str] = (
        "the article quotes the order of BROAD's regret only, without constants"
    )
    head_rows: ClassVar[int] = ESTIMATES
    rows_per_arm: ClassVar[int] = 2
    carried_rows: ClassVar[int] = 1
    estimates: ClassVar[bool] = True
    resizable: ClassVar[bool] = True
    saved_rows: ClassVar[dict[int, Saved] | None] = {0: base.ESTIMATES}
    saved_head: ClassVar[dict[int, Saved]] = {
        RATE: Saved("rate", low=LEAST_RATE, high=RATE_1),
        SPREAD: Saved("spread", low=0.0),
    }
    saved_carried: ClassVar[tuple[Saved, ...]] = (Saved("squares", low=1e-9, high=1.0 + 1e-9),)

    def __post_init__(self) -> None:
        keep(self, horizon=whole("horizon", self.horizon, "Broad", 2))

    def parameters(self, n_arms: int) -> Array:
        """Return ln T."""
        return np.array([math.log(self.horizon)])

    def for_tiles(self, n_arms: int) -> Player:
        """Return the twin that hardly looks at the arms once one of them leads."""
        if n_arms < 2 or type(self).kernels is not Broad.kernels:
            return self
        from bothworlds.policies.leading.broad import BroadInTiles

        return BroadInTiles(self)

    def start(self, n_arms: int) -> Array:
        """Return L = 0 and the root of the first round."""
        state = np.zeros(self.head_rows + self.rows_per_arm * n_arms)
        state[ROOT] = -n_arms / RATE_1
        state[RATE] = RATE_1
        return state

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm has this probability in the next round."""
        w0 = 1.0 / (rows.shape[1] + 1) if probability is None else probability
        return np.array([entry_estimate(rows[0], float(head[RATE]), 0.0, w0), 0.0])

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return the saved state; the solver starts at the root of equal estimates."""
        state = super().state_from(n_arms, saved)
        state[ESTIMATES : ESTIMATES + n_arms] -= saved["estimates"].min()
        state[ROOT] = -n_arms / state[RATE]
        return state

    def kernels(self) -> Kernels:
        """Return the kernels."""
        return _KERNELS
