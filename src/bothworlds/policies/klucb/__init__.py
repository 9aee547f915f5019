"""KL-UCB, the policy; its equations are in `bothworlds.policies.klucb.kernels`.

README:

| `KLUCB()` | optimal constant for losses 0 and 1, fixed means only | linear | Garivier and Cappé
2011 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bothworlds.arguments import keep, non_negative
from bothworlds.policies import base
from bothworlds.policies.base import Array, Policy, Program, Traits, keeps_kernels
from bothworlds.policies.klucb.kernels import KERNELS
from bothworlds.policies.outstanding import INDEX


@dataclass(frozen=True, repr=False)
class KLUCB(Policy):
    """KL-UCB, asymptotically optimal for Bernoulli losses; also valid for losses in [0, 1].

    Parameters
    ----------
    c : float, default 0
        Factor of ln ln t in the budget. The theorem takes 3, its authors recommend 0 in practice.

    Notes
    -----
    With late feedback decisions count, answered or not, and an arm without any answer counts as
    one whose mean loss is 1: it is left alone but for logarithmic exploration.

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

    traits: ClassVar[Traits] = replace(
        INDEX,
        nanoseconds=(40.0, 8.0),
        unproved=base.ASYMPTOTIC,
        rows_per_arm=3,
        saved_rows={
            0: base.TOLD,
            1: base.LOSSES,
            2: base.OUTSTANDING,
        },
    )
    own_kernels = KERNELS

    def __post_init__(self) -> None:
        keep(self, c=non_negative("c", self.c, "KLUCB"))

    def parameters(self, n_arms: int) -> Array:
        """Return c."""
        return np.array([self.c])

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the kernels; in lanes, ones that play the same arms and compute few indices."""
        if not lanes or not keeps_kernels(self, KLUCB):
            return super().program(n_arms)
        from bothworlds.policies.klucb import level

        return level.program(self, n_arms)

    def saved_state(self, n_arms: int, state: Array) -> dict[str, Array]:
        """Return n, the sum of the losses and o."""
        saved = super().saved_state(n_arms, state)
        return {**saved, "told": saved["told"] - saved["outstanding"]}

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return a state that counts n + o."""
        decided = saved["told"] + saved["outstanding"]
        return super().state_from(n_arms, {**saved, "told": decided})
