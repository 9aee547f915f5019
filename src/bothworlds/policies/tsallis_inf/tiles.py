"""Tsallis-INF for any alpha and unequal xi in tiles of repetitions: kernels with `omd.powers`.

`bothworlds.TsallisINF` uses them by itself; see its method ``program``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bothworlds.arguments import Estimator
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import add_to
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, load, select, splat, store, whole
from bothworlds.omd import late_rates, powers
from bothworlds.omd.estimators import BASELINE, baseline, correction, with_baseline
from bothworlds.omd.powers import ESTIMATES
from bothworlds.omd.recentring import is_due
from bothworlds.policies.base import LARGEST, Array, Kernels, Program
from bothworlds.policies.tsallis_inf.parameters import (
    ALPHA,
    CODE,
    FACTORS,
    PARAMETER,
    UNEQUAL,
    rate_now,
)

APART = 1e3
"""Quotient of two xi up to which their weights are exact to rounding; see `omd.powers`."""
STEEPEST = {"iw": 0.9, "rv": 0.49}
"""Largest alpha with a leader mode.  Beyond 1/2 reduced variance lets arms slide along the limit of
the near ones."""
CROWDED = 8.0
"""K^(1 - 2 alpha), with which the squares of Theorem 3's rates grow, from which they do so below
1/2 as well for a million rounds."""


@jit
def table(S: Any) -> Any:
    """Return the table of `bothworlds.omd.late_rates`, which all lanes of a tile share."""
    return advance(whole(S), powers.TABLE * LANES)


@jit
def rate_in_tile(K: int, t: int, C: Any, S: Any, p: Any) -> Any:
    """Return eta_t, which costs a tile as much as several arms where it is not interpolated.

    The table also has powers of eta that p needs, unless that is None.
    """
    if t < late_rates.FIRST:
        return rate_now(K, t, C)
    T = table(S)
    if not late_rates.is_for(T, t):
        late_rates.tabulate(T, int(C[CODE]), C[PARAMETER], C[ALPHA], K, t, p)
    return late_rates.interpolate(T, late_rates.RATES, t)


@jit
def solve_and_draw(K: int, t: int, C: Any, S: Any, xi: Any, eta: float, u: Any) -> Any:
    """Draw from the OMD step; ``xi`` has the factors, or is None where all are 1."""
    if is_due(t):
        powers.shrink(K, S, u)
    refresh = t & (powers.REFRESH - 1) == 0
    return powers.draw(K, S, xi, 1.0 - C[ALPHA], eta, refresh, u)


@jit
def learn_iw(K: int, C: Any, S: Any, xi: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I."""
    by = loss * inverse_p
    add_to(S, ESTIMATES, K, arm, by)
    powers.move_drawn(K, S, xi, 1.0 - C[ALPHA], arm, by, splat(0.0, loss))


@jit
def learn_rv(K: int, C: Any, S: Any, xi: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I.

    The multiplier rises by B as the near arms do; seen from it only the far ones move.
    """
    b = 1.0 - C[ALPHA]
    eta = load(S, powers.RATE, loss)
    limit = eta * eta
    d = load(S, powers.STEP, loss)
    far_sum = splat(0.0, loss)
    by = splat(0.0, loss)
    for i in range(K):
        q = load(S, ESTIMATES + 3 * K + i, loss)
        if xi is not None:
            q = q * xi[i]
        w = powers.at_root(load(S, ESTIMATES + 2 * K + i, loss), d * q, b)
        near = w >= limit
        drawn = arm == i
        far_sum = far_sum + select(near | drawn, 0.0, w * q)
        before = load(S, ESTIMATES + i, loss)
        L = with_baseline(before, near)
        L = select(drawn, L + correction(loss, baseline(near, loss), inverse_p), L)
        by = select(drawn, L - before, by)
        store(S, ESTIMATES + i, L)
    store(S, powers.FRAME, load(S, powers.FRAME, loss) + BASELINE)
    powers.move_drawn(K, S, xi, b, arm, by - BASELINE, BASELINE * eta * far_sum)


@jit
def learn_soft(K: int, C: Any, S: Any, xi: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_i += B_i for every arm, B_i soft; L_I += (l - B_I) / w_I.

    The multiplier rises by the largest baseline; seen from it the arms with smaller ones move.
    """
    b = 1.0 - C[ALPHA]
    step = C[FACTORS + int(C[UNEQUAL])]
    eta = load(S, powers.RATE, loss)
    d = load(S, powers.STEP, loss)
    behind = splat(0.0, loss)
    by = splat(0.0, loss)
    for i in range(K):
        p = load(S, ESTIMATES + 3 * K + i, loss)
        q = p if xi is None else p * xi[i]
        w = powers.at_root(load(S, ESTIMATES + 2 * K + i, loss), d * q, b)
        own = eta if xi is None else eta * xi[i]
        # w^alpha is w / p, p taken to the root.
        reach = step * (w * (1.0 + b * (d * q)) / p)
        base = select(reach >= BASELINE * own, splat(BASELINE, loss), reach / own)
        drawn = arm == i
        behind = behind + select(drawn, 0.0, (BASELINE - base) * (w * q))
        before = load(S, ESTIMATES + i, loss)
        L = before + base
        L = select(drawn, L + correction(loss, base, inverse_p), L)
        by = select(drawn, L - before, by)
        store(S, ESTIMATES + i, L)
    store(S, powers.FRAME, load(S, powers.FRAME, loss) + BASELINE)
    powers.move_drawn(K, S, xi, b, arm, by - BASELINE, eta * behind)


@jit
def choose_equal(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw from the OMD step with one regulariser for all arms."""
    return solve_and_draw(K, t, C, S, None, rate_in_tile(K, t, C, S, None), u)


@jit
def choose_unequal(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw from the OMD step with a regulariser of its own for every arm."""
    eta = rate_in_tile(K, t, C, S, None)
    return solve_and_draw(K, t, C, S, advance(C, FACTORS), eta, u)


@jit
def update_equal_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn by importance weighting."""
    learn_iw(K, C, S, None, arm, inverse_p, loss)


@jit
def update_equal_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn with reduced variance."""
    learn_rv(K, C, S, None, arm, inverse_p, loss)


@jit
def update_unequal_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn by importance weighting."""
    learn_iw(K, C, S, advance(C, FACTORS), arm, inverse_p, loss)


@jit
def update_unequal_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn with reduced variance."""
    learn_rv(K, C, S, advance(C, FACTORS), arm, inverse_p, loss)


@jit
def update_equal_soft(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn with soft baselines."""
    learn_soft(K, C, S, None, arm, inverse_p, loss)


@jit
def update_unequal_soft(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn with soft baselines."""
    learn_soft(K, C, S, advance(C, FACTORS), arm, inverse_p, loss)


_UPDATES = {
    (False, "iw"): update_equal_iw,
    (False, "rv"): update_equal_rv,
    (False, "soft"): update_equal_soft,
    (True, "iw"): update_unequal_iw,
    (True, "rv"): update_unequal_rv,
    (True, "soft"): update_unequal_soft,
}


def program(own: Program, n_arms: int, estimator: Estimator) -> Program:
    """Return the program of `bothworlds.TsallisINF` away from alpha = 1/2 in lanes.

    ``own`` is that of one bandit, which plays where the xi are too far apart for others.
    """
    numbers = own.parameters()
    xi = numbers[FACTORS : FACTORS + int(numbers[UNEQUAL])]
    unequal = xi.size > 0
    if n_arms == 1 or (unequal and xi.max() > APART * xi.min()):
        return own

    def start() -> Array:
        """Return L = 0, and s = 0, w = p = 1 of every arm, from where all powers are computed."""
        state = np.zeros(ESTIMATES + powers.PER_ARM * n_arms)
        state[ESTIMATES + 2 * n_arms :] = 1.0
        return state

    def sound(state: Array) -> bool:
        """Tell whether s, w and p of every arm are such as the kernels leave."""
        s, w, p = state[ESTIMATES + n_arms :].reshape(3, n_arms, -1)
        powered = (w >= 0.0) & (w <= 2.0 + 1e-9) & (p >= 0.0) & (p <= 1.0) & (s >= powers.LEAST)
        return bool(powered.all() and (np.abs(state) <= LARGEST).all())

    kernels = Kernels(choose_unequal if unequal else choose_equal, _UPDATES[unequal, estimator])
    return own._replace(kernels=kernels, start=start, sound=sound, plain=False)


def may_lead(n_arms: int, alpha: float, estimator: Estimator) -> bool:
    """Tell whether leader mode pays, with equal xi; soft baselines move every arm every round."""
    if estimator == "soft":
        return False
    crowded = estimator == "rv" and n_arms ** (1.0 - 2.0 * alpha) >= CROWDED
    return n_arms > 1 and alpha <= STEEPEST[estimator] and not crowded
