"""Tsallis-INF away from alpha = 1/2 in tiles: its kernels, and `bothworlds.omd.leading_powers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, load, select, splat_int, store
from bothworlds.omd import late_rates, powers
from bothworlds.omd import leading_powers as mode
from bothworlds.omd.estimators import BASELINE
from bothworlds.omd.leadership import LEADS, LOOK_EVERY, everybody_leads, nobody_leads
from bothworlds.policies.base import Array, Player, Sides
from bothworlds.policies.leading import InTiles
from bothworlds.policies.tsallis_inf.parameters import ALPHA, FACTORS
from bothworlds.policies.tsallis_inf.tiles import (
    GeneralInTiles,
    rate_in_tile,
    solve_and_draw,
    update_equal_iw,
    update_equal_rv,
)

SERIES = FACTORS
"""First place of what the series needs in the parameters, where unequal factors would begin."""


@jit
def mode_rows(K: int, S: Any) -> Any:
    """Return the rows of the mode."""
    return advance(S, (powers.ESTIMATES + powers.PER_ARM * K) * LANES)


@jit
def foresee(t: int, T: Any, M: Any) -> None:
    """Note the learning rate of round t and what follows from it."""
    eta = late_rates.interpolate(T, late_rates.RATES, t)
    M[mode.NEXT * LANES] = t
    M[mode.NEXT * LANES + 1] = eta
    M[mode.NEXT * LANES + 2] = 1.0 / eta
    M[mode.NEXT * LANES + 3] = late_rates.interpolate(T, late_rates.POWERS, t)


@jit
def choose(K: int, t: int, C: Any, S: Any, reduced: Any, u: Any) -> Any:
    """Solve the OMD step and draw from it; ``reduced`` is None for importance weighting."""
    M = mode_rows(K, S)
    arm = splat_int(0, u)
    if t % LOOK_EVERY == 0 or not everybody_leads(M):
        eta = rate_in_tile(K, t, C, S, -1.0 / (1.0 - C[ALPHA]))
        if t % LOOK_EVERY == 0 and t >= late_rates.FIRST:
            largest = mode.EXTREME if reduced is None else mode.LARGEST_RATE
            mode.look_around(K, t, S, M, advance(C, SERIES), eta, largest, u)
        if not everybody_leads(M):
            arm = solve_and_draw(K, t, C, S, None, eta, u)
            if nobody_leads(M):
                return arm
    inverse_p = load(S, 0, u)
    leads = load(M, LEADS, u) != 0.0
    mine = draw_leading(K, t, C, S, M, reduced, leads, u)
    store(S, 0, select(leads, load(S, 0, u), inverse_p))
    return select(leads, mine, arm)


@jit
def draw_leading(K: int, t: int, C: Any, S: Any, M: Any, reduced: Any, leads: Any, u: Any) -> Any:
    """Draw in the lanes in the mode, and look a round ahead."""
    T = advance(S, powers.TABLE * LANES)
    if M[mode.NEXT * LANES] != t:
        foresee(t, T, M)
    eta = M[mode.NEXT * LANES + 1]
    over = M[mode.NEXT * LANES + 2]
    over_power = M[mode.NEXT * LANES + 3]
    if late_rates.is_for(T, t + 1):
        foresee(t + 1, T, M)
    B = advance(C, SERIES)
    return mode.draw(K, S, M, B, eta, over, over_power, reduced, leads, u)


@jit
def learn(K: int, C: Any, M: Any, reduced: Any, arm: Any, inverse_p: Any, loss: Any) -> Any:
    """Learn in the lanes in the mode; return which they are."""
    leads = load(M, LEADS, loss) != 0.0
    if not nobody_leads(M):
        mode.learn(K, M, advance(C, SERIES), reduced, leads, arm, inverse_p, loss)
    return leads


@jit
def choose_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw with importance weighting."""
    return choose(K, t, C, S, None, u)


@jit
def choose_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw with reduced variance."""
    return choose(K, t, C, S, True, u)


@jit
def update_iw(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I."""
    M = mode_rows(K, S)
    leads = learn(K, C, M, None, arm, inverse_p, loss)
    if not everybody_leads(M):
        update_equal_iw(K, t, C, S, G, arm, inverse_p, select(leads, 0.0, loss))


@jit
def update_rv(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    M = mode_rows(K, S)
    leads = learn(K, C, M, True, arm, inverse_p, loss)
    if not everybody_leads(M):
        # A near arm whose loss is its baseline: the lanes in the mode are not disturbed by it.
        inverse_p = select(leads, 1.0, inverse_p)
        loss = select(leads, BASELINE, loss)
        update_equal_rv(K, t, C, S, G, arm, inverse_p, loss)


@dataclass(frozen=True, repr=False)
class GeneralLeading(InTiles):
    """The twin of `bothworlds.TsallisINF` away from alpha = 1/2, without gaps."""

    policy: GeneralInTiles

    def until(self, n_arms: int, horizon: int) -> Player:
        """Return the algorithm without the mode where no lane may enter it."""
        return self.policy if horizon < mode.first_round.py_func(n_arms) else self

    def parameters(self, n_arms: int) -> Array:
        """Return the parameters of the policy and those of the series."""
        return np.append(self.policy.parameters(n_arms), mode.parameters(self.policy.policy.alpha))

    def mode_rows(self, n_arms: int) -> int:
        """Return the number of rows of the mode."""
        return mode.rows(n_arms)

    def sides(self) -> Sides:
        """Return the kernels of this estimator."""
        if self.policy.policy.estimator == "rv":
            return Sides((choose_rv,), (update_rv,), wide=True)
        return Sides((choose_iw,), (update_iw,), wide=True)
