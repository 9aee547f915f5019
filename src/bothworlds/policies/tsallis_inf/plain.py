"""Tsallis-INF at alpha = 1/2 in tiles of short runs: one solver, and no leader mode to compile.

`bothworlds.TsallisINF` uses it by itself; see its method ``until``.
"""

from __future__ import annotations

from dataclasses import dataclass

from bothworlds.policies.base import Array, Player, Sides
from bothworlds.policies.tsallis_inf import TsallisINF, half


@dataclass(frozen=True, repr=False)
class OneSolver(Player):
    """What `TsallisINF` is in tiles of short runs: the same algorithm on the same state.

    Parameters
    ----------
    policy : TsallisINF
        The algorithm, at alpha = 1/2.
    few : bool
        Whether the arms are few; see `bothworlds.omd.few`.
    """

    policy: TsallisINF
    few: bool

    def __repr__(self) -> str:
        return repr(self.policy)

    def parameters(self, n_arms: int) -> Array:
        """Return the parameters of the algorithm."""
        return self.policy.parameters(n_arms)

    def start(self, n_arms: int) -> Array:
        """Return the state of the algorithm."""
        return self.policy.start(n_arms)

    def sides(self) -> Sides:
        """Return the kernels of this estimator."""
        own = half.one_solver(self.policy.estimator, self.few)
        return Sides((own.choose,), (own.update,), wide=True, alone=True)
