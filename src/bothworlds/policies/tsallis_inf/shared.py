"""Sparring on one state: both sides draw from the same distribution and teach the same estimates.

With the left side's arm I and the right side's arm J, both drawn from w_t, and lhat(I, l) the
estimate of `bothworlds.omd.estimators`, a round adds half of each side's estimate,

    L += (lhat(I, l_left) + lhat(J, l_right)) / 2,

so the baseline B_i of the near arms is added once in all.  The mean of the two is unbiased for
what each of them is unbiased for, and by convexity no stability term exceeds the mean of theirs.

Two sets of kernels do this.  The engine's come in the shape of a policy on either side: the left
one's ``update`` only takes notes, the right one's learns from both.  A `Bandit`'s count draws, two
a round, each of which learns its half on its own, in any order and however late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import carray

from bothworlds.arguments import keep
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import load, store, to_float, to_index
from bothworlds.omd import few, half
from bothworlds.omd.estimators import add_estimates, baseline, correction, with_baseline
from bothworlds.policies.around import Wrapper
from bothworlds.policies.base import Array, Kernels, Program
from bothworlds.policies.tsallis_inf import TsallisINF, general
from bothworlds.policies.tsallis_inf.general import (
    choose_general,
    draw_general,
    near_general,
    weights_general,
)
from bothworlds.policies.tsallis_inf.half import (
    choose_half_iw,
    choose_half_rv,
    estimates_changed_half,
    move,
    near_half,
    weights_half,
)
from bothworlds.policies.tsallis_inf.parameters import near_limit, rate_now

EACH = 0.5
"""How much of each side's estimate is added."""
NOTES = 3
"""Rows behind the policy's own: the left side's arm, inverse probability and loss."""


# --- the engine's: alpha = 1/2 ---------------------------------------------------------------


@jit
def choose_right_half(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw from the weights the left side's choice has found."""
    return half.draw_again(K, S, rate_now(K, t, C), u)


@jit
def note_left_half(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Remember the outcome of the left side."""
    store(S, half.ESTIMATES + K, to_float(arm))
    store(S, half.ESTIMATES + K + 1, inverse_p)
    store(S, half.ESTIMATES + K + 2, loss)


@jit
def update_half_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l_left / (2 w_I); L_J += l_right / (2 w_J)."""
    left = to_index(load(S, half.ESTIMATES + K, loss))
    by = load(S, half.ESTIMATES + K + 2, loss) * load(S, half.ESTIMATES + K + 1, loss)
    move(K, S, left, EACH * by)
    move(K, S, arm, EACH * (loss * inverse_p))


@jit
def update_half_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I and L_J += half of (l - B) / w, each side its own."""
    left = to_index(load(S, half.ESTIMATES + K, loss))
    left_inverse_p = load(S, half.ESTIMATES + K + 1, loss)
    left_loss = load(S, half.ESTIMATES + K + 2, loss)
    limit = near_limit(rate_now(K, t, C))
    x = load(S, half.ROOT, loss)
    left_base = baseline(take(S, half.ESTIMATES, K, left) - x <= limit, loss)
    base = baseline(take(S, half.ESTIMATES, K, arm) - x <= limit, loss)
    for i in range(half.ESTIMATES, half.ESTIMATES + K):
        L = load(S, i, loss)
        store(S, i, with_baseline(L, L - x <= limit))
    if not few.fits(K):
        half.shift_near(S, base)
    move(K, S, left, EACH * correction(left_loss, left_base, left_inverse_p))
    move(K, S, arm, EACH * correction(loss, base, inverse_p))


# --- the engine's: any alpha -----------------------------------------------------------------


@jit
def choose_right_general(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Draw from the weights the left side's choice has found."""
    return draw_general(K, S, u)


@jit
def note_left_general(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """Remember the outcome of the left side."""
    S[general.ESTIMATES + 2 * K] = arm
    S[general.ESTIMATES + 2 * K + 1] = inverse_p
    S[general.ESTIMATES + 2 * K + 2] = loss


@jit
def update_general(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """Add half of each side's estimate."""
    notes = general.ESTIMATES + 2 * K
    L = carray(S, (notes,))[general.ESTIMATES : general.ESTIMATES + K]
    near = np.zeros(K, np.bool_)
    near_general(K, t, C, S, G, near)
    add_estimates(L, int(S[notes]), S[notes + 1], S[notes + 2], near, EACH)
    add_estimates(L, arm, inverse_p, loss, near, EACH)


# --- a bandit's: two draws a round -----------------------------------------------------------
# Here t counts draws: the odd ones are the left side's.


@jit
def round_of(n: int) -> int:
    """Return the round of the n-th draw."""
    return (n + 1) // 2


@jit
def draw_half_iw(K: int, n: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve and draw for the left side; draw again for the right one."""
    if n % 2 == 1:
        return choose_half_iw(K, round_of(n), C, S, G, u)
    return choose_right_half(K, round_of(n), C, S, G, u)


@jit
def draw_half_rv(K: int, n: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve and draw for the left side; draw again for the right one."""
    if n % 2 == 1:
        return choose_half_rv(K, round_of(n), C, S, G, u)
    return choose_right_half(K, round_of(n), C, S, G, u)


@jit
def draw_pair_general(K: int, n: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve and draw for the left side; draw again for the right one."""
    if n % 2 == 1:
        return choose_general(K, round_of(n), C, S, G, u)
    return draw_general(K, S, u)


@jit
def weights_of_draw(K: int, n: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """w_i at the root of the round."""
    weights_half(K, round_of(n), C, S, G, out)


@jit
def near_of_draw_half(K: int, n: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Mark the near arms of the round, those whose estimate gets the baseline."""
    near_half(K, round_of(n), C, S, G, out)


@jit
def near_of_draw_general(K: int, n: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Mark the near arms of the round, those whose estimate gets the baseline."""
    near_general(K, round_of(n), C, S, G, out)


@jit
def late_draw_half(
    K: int, n: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Add half of the estimate of one draw; ``near`` as it was then."""
    L = carray(S, (half.ESTIMATES + K,))[half.ESTIMATES :]
    add_estimates(L, arm, inverse_p, loss, near, EACH)
    half.restart(K, S, 0.0)


@jit
def late_draw_general(
    K: int, n: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Add half of the estimate of one draw; ``near`` as it was then."""
    L = carray(S, (general.ESTIMATES + 2 * K,))[general.ESTIMATES : general.ESTIMATES + K]
    add_estimates(L, arm, inverse_p, loss, near, EACH)


@jit
def learn_half_iw(
    K: int, n: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """Learn from the last draw."""
    late_draw_half(K, n, C, S, G, arm, inverse_p, loss, np.zeros(K, np.bool_))


@jit
def learn_half_rv(
    K: int, n: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """Learn from the last draw."""
    near = np.zeros(K, np.bool_)
    near_of_draw_half(K, n, C, S, G, near)
    late_draw_half(K, n, C, S, G, arm, inverse_p, loss, near)


@jit
def learn_general(
    K: int, n: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """Learn from the last draw."""
    near = np.zeros(K, np.bool_)
    near_of_draw_general(K, n, C, S, G, near)
    late_draw_general(K, n, C, S, G, arm, inverse_p, loss, near)


# --- the policy of both sides ----------------------------------------------------------------

_HALF_IW = Kernels.of(
    draw_half_iw,
    learn_half_iw,
    weights_of_draw,
    late=late_draw_half,
    estimates_changed=estimates_changed_half,
    wide=False,
)
_HALF_RV = Kernels.of(
    draw_half_rv,
    learn_half_rv,
    weights_of_draw,
    near=near_of_draw_half,
    late=late_draw_half,
    estimates_changed=estimates_changed_half,
    wide=False,
)
_GENERAL = Kernels.of(
    draw_pair_general,
    learn_general,
    weights_general,
    near=near_of_draw_general,
    late=late_draw_general,
    wide=False,
)


@dataclass(frozen=True, repr=False)
class TwoDraws(Wrapper):
    """Tsallis-INF drawn from twice a round, of whose estimates every draw adds half."""

    policy: TsallisINF

    def __post_init__(self) -> None:
        keep(self, traits=self._around(resizable=False, separable=True))

    def kernels(self) -> Kernels:
        """Return the kernels of this alpha and estimator."""
        if not self.policy.closed_form:
            return _GENERAL
        return _HALF_RV if self.policy.estimator == "rv" else _HALF_IW


def duel_program(policy: TsallisINF, n_arms: int) -> Program:
    """Return the program of the engine's duels, whose state has `NOTES` more rows."""
    if not policy.closed_form:
        left, right = (choose_general, note_left_general), (choose_right_general, update_general)
    elif policy.estimator == "rv":
        left, right = (choose_half_rv, note_left_half), (choose_right_half, update_half_rv)
    else:
        left, right = (choose_half_iw, note_left_half), (choose_right_half, update_half_iw)

    def start() -> Array:
        """Return the state of Tsallis-INF, and no notes."""
        return np.append(policy.start(n_arms), np.zeros(NOTES))

    wide = policy.closed_form
    return Program.of(
        policy, n_arms, Kernels(*left, wide=wide), right=Kernels(*right, wide=wide), start=start,
        one_state=True, plain=False,
    )  # fmt: skip
