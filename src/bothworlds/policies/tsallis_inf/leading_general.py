"""Tsallis-INF away from alpha = 1/2 in tiles: its kernels, and `bothworlds.omd.leader.powers`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bothworlds.arguments import Estimator
from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, select
from bothworlds.omd import late_rates, powers
from bothworlds.omd.estimators import BASELINE
from bothworlds.omd.leader import powers as mode
from bothworlds.omd.leader.layout import NEXT
from bothworlds.policies.base import Array, Program
from bothworlds.policies.leading import kernels_of, leading_program
from bothworlds.policies.tsallis_inf.parameters import ALPHA, FACTORS
from bothworlds.policies.tsallis_inf.tiles import (
    rate_in_tile,
    solve_and_draw,
    table,
    update_equal_iw,
    update_equal_rv,
)

SERIES = FACTORS
"""First place of the series' numbers in the parameters, where unequal factors would start."""


@jit
def near_below(t: int, c: float, T: Any) -> Any:
    """Return the largest L_i - x of a near arm, one with w_i >= eta^2, so v_i <= eta^-2c."""
    return late_rates.interpolate(T, late_rates.LIMITS, t) * (1.0 / c)


@jit
def foresee(t: int, c: float, T: Any, M: Any, reduced: Any) -> None:
    """Note the learning rate of round t and the values that follow from it."""
    eta = late_rates.interpolate(T, late_rates.RATES, t)
    M[NEXT * LANES] = t
    M[NEXT * LANES + 1] = eta
    M[NEXT * LANES + 2] = 1.0 / eta
    if reduced is not None:
        M[NEXT * LANES + 3] = near_below(t, c, T)
    M[(NEXT + 1) * LANES] = late_rates.interpolate(T, late_rates.POWERS, t)


@jit
def rate(K: int, t: int, C: Any, S: Any) -> Any:
    """Return eta_t; from `late_rates.FIRST` on the table then is that of round t."""
    return rate_in_tile(K, t, C, S, 1.0 / (1.0 - C[ALPHA]))


@jit
def choose_by_pass(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve the OMD step and draw from it."""
    return solve_and_draw(K, t, C, S, None, rate(K, t, C, S), u)


@jit
def look_around_iw(K: int, t: int, C: Any, S: Any, M: Any, like: Any) -> None:
    """Let lanes enter and leave the mode, with importance weighting."""
    if t >= late_rates.FIRST:
        mode.look_around(K, t, S, M, advance(C, SERIES), rate(K, t, C, S), None, like)


@jit
def look_around_rv(K: int, t: int, C: Any, S: Any, M: Any, like: Any) -> None:
    """Let lanes enter and leave the mode, with reduced variance."""
    if t >= late_rates.FIRST:
        eta = rate(K, t, C, S)
        limit = near_below(t, 1.0 - C[ALPHA], table(S))
        mode.look_around(K, t, S, M, advance(C, SERIES), eta, limit, like)


@inlined
def draw(K: int, t: int, C: Any, S: Any, M: Any, reduced: Any, leads: Any, u: Any) -> Any:
    """Solve the OMD step, draw from it and look a round ahead.

    ``reduced`` is None for importance weighting.
    """
    T = table(S)
    c = 1.0 - C[ALPHA]
    if M[NEXT * LANES] != t:
        # Other lanes of the tile, in a group of their own, may have left the table elsewhere.
        rate(K, t, C, S)
        foresee(t, c, T, M, reduced)
    eta = M[NEXT * LANES + 1]
    over = M[NEXT * LANES + 2]
    limit = M[NEXT * LANES + 3]
    over_power = M[(NEXT + 1) * LANES]
    if late_rates.is_for(T, t + 1):
        foresee(t + 1, c, T, M, reduced)
    B = advance(C, SERIES)
    if reduced is None:
        return mode.draw(K, t, S, M, B, eta, over, over_power, None, leads, u)
    return mode.draw(K, t, S, M, B, eta, over, over_power, limit, leads, u)


@inlined
def draw_iw(K: int, t: int, C: Any, S: Any, M: Any, leads: Any, u: Any) -> Any:
    """Draw with importance weighting."""
    return draw(K, t, C, S, M, None, leads, u)


@inlined
def draw_rv(K: int, t: int, C: Any, S: Any, M: Any, leads: Any, u: Any) -> Any:
    """Draw with reduced variance."""
    return draw(K, t, C, S, M, True, leads, u)


@inlined
def learn_iw(
    K: int, t: int, C: Any, S: Any, M: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    mode.learn(K, M, advance(C, SERIES), None, leads, arm, inverse_p, loss)


@inlined
def learn_rv(
    K: int, t: int, C: Any, S: Any, M: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    mode.learn(K, M, advance(C, SERIES), True, leads, arm, inverse_p, loss)


@jit
def learn_outside_rv(
    K: int, t: int, C: Any, S: Any, G: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Do the same in the lanes that are not in the mode."""
    # A near arm whose loss is its baseline: the lanes in the mode are not disturbed by it.
    inverse_p = select(leads, 1.0, inverse_p)
    loss = select(leads, BASELINE, loss)
    update_equal_rv(K, t, C, S, G, arm, inverse_p, loss)


_OWN = powers.ESTIMATES, powers.PER_ARM
_KERNELS = {
    "iw": kernels_of(_OWN, choose_by_pass, update_equal_iw, look_around_iw, draw_iw, learn_iw),
    "rv": kernels_of(
        _OWN, choose_by_pass, update_equal_rv, look_around_rv, draw_rv, learn_rv,
        learn_outside=learn_outside_rv,
    ),
}  # fmt: skip


def program(
    own: Program, n_arms: int, alpha: float, estimator: Estimator, horizon: int | None
) -> Program:
    """Return the program away from alpha = 1/2 with a leader mode; ``own`` is without the mode."""

    def parameters() -> Array:
        """Return the parameters of the policy and those of the series."""
        return np.append(own.parameters(), mode.parameters(alpha))

    first = mode.first_round.py_func(n_arms)
    kernels = _KERNELS[estimator]
    return leading_program(own, n_arms, kernels, horizon, first, parameters=parameters)
