"""Tsallis-INF at alpha = 1/2 in tiles of repetitions: kernels with `bothworlds.omd.leading`.

`bothworlds.TsallisINF` uses them by itself; see its method ``for_tiles``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import any_lane, load, negate, select, splat_int, store
from bothworlds.omd import half, leading
from bothworlds.policies.base import Array, Player, Sides
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.policies.tsallis_inf.half import choose_half_iw, update_half_iw
from bothworlds.policies.tsallis_inf.parameters import rate_now


@jit
def choose_leading_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw; see `leading.draw`, `few.draw` and `half.draw`."""
    M = leading.mode_rows(K, S)
    eta = rate_now(K, t, C)
    leading.look_around(K, t, S, M, eta, u)
    leads = load(M, leading.LEADS, u) != 0.0
    arm = splat_int(0, u)
    if any_lane(negate(leads)):
        arm = choose_half_iw(K, t, C, S, G, u)
        if not any_lane(leads):
            return arm
    inverse_p = load(S, half.INVERSE_P, u)
    arm = select(leads, leading.draw(K, S, M, eta, leads, u), arm)
    store(S, half.INVERSE_P, select(leads, load(S, half.INVERSE_P, u), inverse_p))
    return arm


@jit
def update_leading_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    M = leading.mode_rows(K, S)
    leads = load(M, leading.LEADS, loss) != 0.0
    if any_lane(leads):
        leading.learn(K, M, leads, arm, loss * inverse_p)
    if any_lane(negate(leads)):
        update_half_iw(K, t, C, S, G, arm, inverse_p, select(leads, 0.0, loss))


@dataclass(frozen=True, repr=False)
class InTiles(Player):
    """What `TsallisINF` is in a tile of repetitions: the same algorithm with another state.

    Parameters
    ----------
    policy : TsallisINF
        The algorithm, at alpha = 1/2.
    """

    policy: TsallisINF

    def __repr__(self) -> str:
        return repr(self.policy)

    def parameters(self, n_arms: int) -> Array:
        """Return the parameters of the algorithm."""
        return self.policy.parameters(n_arms)

    def start(self, n_arms: int) -> Array:
        """Return the state of the algorithm, with no lane in the mode."""
        return np.append(self.policy.start(n_arms), np.zeros(leading.rows(n_arms)))

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether every lane is in the mode or not, and its leader is an arm."""
        mode = state[self.policy.head_rows + n_arms :]
        leads, leader = mode[leading.LEADS], mode[leading.LEADER]
        arms = (leader >= 0.0) & (leader < n_arms) & (leader == np.floor(leader))
        whole = bool((((leads == 0.0) | (leads == 1.0)) & arms).all())
        return whole and super().sound(n_arms, state)

    def sides(self) -> Sides:
        """Return the kernels of this estimator."""
        return Sides((choose_leading_iw,), (update_leading_iw,), wide=True)
