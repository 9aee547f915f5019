"""Tsallis-INF at alpha = 1/2 in tiles of repetitions: kernels with `bothworlds.omd.leading`.

`bothworlds.TsallisINF` uses them by itself; see its method ``for_tiles``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import advance, any_lane, load, negate, select, store, width
from bothworlds.omd import few, half, leadership
from bothworlds.omd.estimators import BASELINE
from bothworlds.omd.leading import changing, layout, rounds
from bothworlds.policies.base import Array, Player, Resting, Sides
from bothworlds.policies.tsallis_inf import TsallisINF
from bothworlds.policies.tsallis_inf.half import (
    choose_half_iw,
    choose_half_rv,
    update_beyond_rv,
    update_few_rv,
    update_half_iw,
    update_half_rv,
)
from bothworlds.policies.tsallis_inf.parameters import near_limit, rate_now


@jit
def foresee(K: int, t: int, C: Any, N: Any) -> None:
    """Note the learning rate of round t and what follows from it."""
    eta = rate_now(K, t, C)
    N[0] = t
    N[1] = eta
    N[2] = 1.0 / eta
    N[3] = near_limit(eta)


@jit
def foreseen(K: int, t: int, C: Any, M: Any, like: Any) -> Any:
    """Return eta, 1 / eta and the limit of the near arms, noted a round ago; look ahead again."""
    N = advance(M, layout.NEXT * width(like))
    if N[0] != t:
        foresee(K, t, C, N)
    eta, over, limit = N[1], N[2], N[3]
    foresee(K, t + 1, C, N)
    return eta, over, limit


@jit
def nobody_leads(t: int, M: Any, like: Any) -> Any:
    """Tell whether no lane is in the mode, nor may enter it in this round.

    Most loops then call the kernels of ``InTiles.resting``; under attack they do not.
    """
    return not (changing.is_due(t) or any_lane(load(M, leadership.LEADS, like) != 0.0))


@jit
def choose_leading(
    K: int, t: int, C: Any, S: Any, G: Any, u: Any, eta: float, over: float, near_below: Any
) -> Any:
    """Solve and draw; see `rounds.draw`, `few.draw` and `half.draw`."""
    M = layout.mode_rows(K, S, width(u))
    if changing.is_due(t):
        changing.look_around(K, t, S, M, eta, near_below, u)
    leads = load(M, leadership.LEADS, u) != 0.0
    if not any_lane(negate(leads)):
        return rounds.draw(K, t, S, M, eta, over, near_below, leads, u)
    if near_below is None:
        arm = choose_half_iw(K, t, C, S, G, u)
    else:
        arm = choose_half_rv(K, t, C, S, G, u)
    if changing.is_due(t):
        changing.see(K, S, M, eta, u)
    if any_lane(leads):
        inverse_p = load(S, half.INVERSE_P, u)
        mine = rounds.draw(K, t, S, M, eta, over, near_below, leads, u)
        arm = select(leads, mine, arm)
        store(S, half.INVERSE_P, select(leads, load(S, half.INVERSE_P, u), inverse_p))
    return arm


@jit
def choose_leading_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw with importance weighting."""
    M = layout.mode_rows(K, S, width(u))
    if nobody_leads(t, M, u):
        return choose_half_iw(K, t, C, S, G, u)
    eta, over, _ = foreseen(K, t, C, M, u)
    return choose_leading(K, t, C, S, G, u, eta, over, None)


@jit
def choose_leading_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw with reduced variance."""
    M = layout.mode_rows(K, S, width(u))
    if nobody_leads(t, M, u):
        return choose_half_rv(K, t, C, S, G, u)
    eta, over, limit = foreseen(K, t, C, M, u)
    return choose_leading(K, t, C, S, G, u, eta, over, limit)


@jit
def count_loss(M: Any, loss: Any) -> None:
    """Add to the losses of all lanes, by which `changing.decide` knows worlds not to enter in."""
    store(M, layout.LOSSES, load(M, layout.LOSSES, loss) + loss)


@jit
def update_leading_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    M = layout.mode_rows(K, S, width(loss))
    leads = load(M, leadership.LEADS, loss) != 0.0
    if any_lane(leads):
        rounds.learn(K, M, None, leads, arm, inverse_p, loss)
        if not any_lane(negate(leads)):
            return
        loss = select(leads, 0.0, loss)
    update_half_iw(K, t, C, S, G, arm, inverse_p, loss)


@jit
def update_leading_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    M = layout.mode_rows(K, S, width(loss))
    leads = load(M, leadership.LEADS, loss) != 0.0
    count_loss(M, loss)
    if any_lane(leads):
        rounds.learn(K, M, True, leads, arm, inverse_p, loss)
        if not any_lane(negate(leads)):
            return
        # A near arm whose loss is its baseline: the lanes in the mode are not disturbed by it.
        inverse_p = select(leads, 1.0, inverse_p)
        loss = select(leads, BASELINE, loss)
    update_half_rv(K, t, C, S, G, arm, inverse_p, loss)


@jit
def update_resting_few_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Do what `update_leading_rv` does where nobody leads, with few arms."""
    count_loss(layout.mode_rows(K, S, width(loss)), loss)
    update_few_rv(K, t, C, S, G, arm, inverse_p, loss)


@jit
def update_resting_beyond_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Do the same with more."""
    count_loss(layout.mode_rows(K, S, width(loss)), loss)
    update_beyond_rv(K, t, C, S, G, arm, inverse_p, loss)


def sound_mode(n_arms: int, mode: Array) -> bool:
    """Tell whether every lane is in the mode or not, and its leader is an arm."""
    leads, leader = mode[leadership.LEADS], mode[leadership.LEADER]
    arms = (leader >= 0.0) & (leader < n_arms) & (leader == np.floor(leader))
    return bool((((leads == 0.0) | (leads == 1.0)) & arms).all())


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

    @property
    def _reduced(self) -> bool:
        return self.policy.estimator == "rv"

    def until(self, n_arms: int, horizon: int) -> Player:
        """Return the algorithm without the mode where no lane may enter it."""
        if horizon >= changing.first_round.py_func(n_arms):
            return self
        return self.policy.until(n_arms, horizon)

    def parameters(self, n_arms: int) -> Array:
        """Return the parameters of the algorithm."""
        return self.policy.parameters(n_arms)

    def start(self, n_arms: int) -> Array:
        """Return the state of the algorithm, with no lane in the mode."""
        return np.append(self.policy.start(n_arms), np.zeros(layout.rows(n_arms, self._reduced)))

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether the mode is sound in every lane."""
        mode = state[self.policy.head_rows + n_arms :]
        return sound_mode(n_arms, mode) and super().sound(n_arms, state)

    def resting(self, n_arms: int) -> Resting | None:
        """Return the kernels of this estimator without the mode."""
        own = self.policy.kernels_for(n_arms)
        update = own.update
        if self._reduced:
            fits = few.fits.py_func(n_arms)
            update = update_resting_few_rv if fits else update_resting_beyond_rv
        row = self.policy.head_rows + n_arms + leadership.LEADS
        return Resting(own.choose, update, row, changing.LOOK_EVERY)

    def sides(self) -> Sides:
        """Return the kernels of this estimator."""
        if self._reduced:
            return Sides((choose_leading_rv,), (update_leading_rv,), wide=True, alone=True)
        return Sides((choose_leading_iw,), (update_leading_iw,), wide=True, alone=True)
