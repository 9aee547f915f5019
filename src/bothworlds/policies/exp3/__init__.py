"""Exp3, the policy; its equations are in `bothworlds.policies.exp3.kernels`.

README:

| `Exp3()` | no logarithmic bound | √(KT log K) | Bubeck and Cesa-Bianchi 2012 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bothworlds.omd.entering import entry_estimate
from bothworlds.omd.exponential import anytime_rate
from bothworlds.policies import base
from bothworlds.policies.base import Array, Policy, Program, Traits, keeps_kernels
from bothworlds.policies.exp3.kernels import KERNELS


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

    traits: ClassVar[Traits] = Traits(
        rows_per_arm=2,
        estimates=True,
        resizable=True,
        saved_rows={0: base.ESTIMATES},
    )
    own_kernels = KERNELS

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the kernels; in lanes, ones with a leader mode."""
        own = super().program(n_arms)
        if not lanes or n_arms < 2 or not keeps_kernels(self, Exp3):
            return own
        from bothworlds.policies.exp3 import leading

        return leading.program(own, n_arms, horizon)

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm has this probability in round ``t``."""
        n_arms = rows.shape[1] + 1
        w0 = 1.0 / n_arms if probability is None else probability
        return np.array([entry_estimate(rows[0], anytime_rate(n_arms, t), 1.0, w0), 0.0])
