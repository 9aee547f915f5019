"""Policies in leader mode: twins that play in tiles and hardly look at the arms once one leads.

A twin has the policy's own state and, behind it, the rows of a mode; see
`bothworlds.omd.leader.membership`.  Policies choose their twins by themselves, in ``for_tiles``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bothworlds.omd.leader import membership
from bothworlds.policies.base import Array, Player, Sides


def sound_mode(n_arms: int, mode: Array) -> bool:
    """Tell whether every lane is in the mode or not, and its leader is an arm."""
    leads, leader = mode[membership.LEADS], mode[membership.LEADER]
    arms = (leader >= 0.0) & (leader < n_arms) & (leader == np.floor(leader))
    return bool((((leads == 0.0) | (leads == 1.0)) & arms).all())


@dataclass(frozen=True, repr=False)
class InTiles(Player):
    """What a policy is in a tile of repetitions: the same algorithm with another state.

    Parameters
    ----------
    policy : Player
        The algorithm: a policy, or what plays it in tiles without the mode.
    """

    policy: Player

    kernels: ClassVar[Sides]
    """The kernels of the twin."""

    def __repr__(self) -> str:
        return repr(self.policy)

    def until(self, n_arms: int, horizon: int) -> Player:
        """Return the algorithm without the mode where no lane may enter it."""
        return self.policy if horizon < membership.FIRST else self

    def parameters(self, n_arms: int) -> Array:
        """Return the parameters of the algorithm."""
        return self.policy.parameters(n_arms)

    def start(self, n_arms: int) -> Array:
        """Return the state of the algorithm, with no lane in the mode."""
        return np.append(self.policy.start(n_arms), np.zeros(membership.rows(n_arms)))

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether the mode is sound in every lane, and those in it are as many as counted."""
        own = self.policy.start(n_arms).size
        mode = state[own:]
        counted = bool((mode[membership.HOW_MANY] == mode[membership.LEADS].sum()).all())
        return (
            counted
            and sound_mode(n_arms, mode)
            and self.policy.sound(n_arms, state[:own])
            and super().sound(n_arms, state)
        )

    def sides(self) -> Sides:
        """Return the kernels."""
        return self.kernels
