"""Broad, the policy; its equations are in `bothworlds.policies.broad.kernels`.

README:

| `Broad(horizon=T)` | within K of optimal | within √log T of optimal | Wei and Luo 2018 |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bothworlds.arguments import keep, whole
from bothworlds.omd.entering import entry_estimate
from bothworlds.policies import base
from bothworlds.policies.base import Array, Policy, Program, Saved, Traits, keeps_kernels
from bothworlds.policies.broad.kernels import ESTIMATES, KERNELS, RATE, RATE_1, ROOT, SPREAD

LEAST_RATE = 1e-60  # reached by no run: a bound of what is read from a file


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

    traits: ClassVar[Traits] = Traits(
        needs_horizon=True,
        unproved="the article quotes the order of BROAD's regret only, without constants",
        head_rows=ESTIMATES,
        rows_per_arm=2,
        carried_rows=1,
        estimates=True,
        resizable=True,
        saved_rows={0: base.ESTIMATES},
        saved_head={
            RATE: Saved("rate", low=LEAST_RATE, high=RATE_1),
            SPREAD: Saved("spread", low=0.0),
        },
        saved_carried=(Saved("squares", low=1e-9, high=1.0 + 1e-9),),
    )
    own_kernels = KERNELS

    def __post_init__(self) -> None:
        keep(self, horizon=whole("horizon", self.horizon, "Broad", 2))

    def parameters(self, n_arms: int) -> Array:
        """Return ln T."""
        return np.array([math.log(self.horizon)])

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the kernels; in lanes, ones with a leader mode."""
        own = super().program(n_arms)
        if not lanes or n_arms < 2 or not keeps_kernels(self, Broad):
            return own
        from bothworlds.policies.broad import leading

        return leading.program(own, n_arms, horizon)

    def start(self, n_arms: int) -> Array:
        """Return L = 0 and the root of the first round."""
        state = np.zeros(self.traits.head_rows + self.traits.rows_per_arm * n_arms)
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
