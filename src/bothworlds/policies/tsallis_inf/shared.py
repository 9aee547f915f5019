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
from typing import Any, ClassVar

import numpy as np
from numba import carray

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import unpack
from bothworlds.lanes.random import uniform
from bothworlds.lanes.rows import add_to, take
from bothworlds.lanes.vectors import load, store, to_float, to_int
from bothworlds.omd import few, half
from bothworlds.omd.estimators import add_estimates, baseline, correction, with_baseline
from bothworlds.policies import base
from bothworlds.policies import tsallis_inf as general
from bothworlds.policies.base import Array, Kernels, Policy, Saved
from bothworlds.policies.tsallis_inf import (
    TsallisINF,
    choose_general,
    choose_half_iw,
    choose_half_rv,
    draw_general,
    mark_near,
    near_limit,
    rate_now,
)

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
    """Remember what the left side brought."""
    store(S, half.ESTIMATES + K, to_float(arm))
    store(S, half.ESTIMATES + K + 1, inverse_p)
    store(S, half.ESTIMATES + K + 2, loss)


@jit
def move(K: int, S: Any, arm: Any, by: Any) -> None:
    """Add ``by`` to the estimate of an arm, and tell the solver where it wants to know."""
    if few.fits(K):
        add_to(S, half.ESTIMATES, K, arm, by)
    else:
        half.move(K, S, arm, by)


@jit
def update_half_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l_left / (2 w_I); L_J += l_right / (2 w_J)."""
    left = to_int(load(S, half.ESTIMATES + K, loss))
    by = load(S, half.ESTIMATES + K + 2, loss) * load(S, half.ESTIMATES + K + 1, loss)
    move(K, S, left, EACH * by)
    move(K, S, arm, EACH * (loss * inverse_p))


@jit
def update_half_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I and L_J += half of (l - B) / w, each side its own."""
    left = to_int(load(S, half.ESTIMATES + K, loss))
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
    """Remember what the left side brought."""
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
    mark_near(K, t, C, S, near)
    add_estimates(L, int(S[notes]), S[notes + 1], S[notes + 2], near, EACH)
    add_estimates(L, arm, inverse_p, loss, near, EACH)


# --- a bandit's: two draws a round -----------------------------------------------------------


@jit
def round_of(n: int) -> int:
    """Return the round of the n-th draw: the odd draws are the left side's."""
    return (n + 1) // 2


@jit
def ask_half_iw(F: Any) -> Any:
    """Solve and draw for the left side; draw again for the right one."""
    K, n, C, S, G = unpack(F)
    t = round_of(n)
    u = uniform(G, 0.0)
    if n % 2 == 1:
        return choose_half_iw(K, t, C, S, G, u)
    return half.draw_again(K, S, rate_now(K, t, C), u)


@jit
def ask_half_rv(F: Any) -> Any:
    """Solve and draw for the left side; draw again for the right one."""
    K, n, C, S, G = unpack(F)
    t = round_of(n)
    u = uniform(G, 0.0)
    if n % 2 == 1:
        return choose_half_rv(K, t, C, S, G, u)
    return half.draw_again(K, S, rate_now(K, t, C), u)


@jit
def ask_general(F: Any) -> Any:
    """Solve and draw for the left side; draw again for the right one."""
    K, n, C, S, G = unpack(F)
    u = uniform(G, 0.0)
    if n % 2 == 1:
        return choose_general(K, round_of(n), C, S, G, u)
    return draw_general(K, S, u)


@jit
def weights_half(F: Any, out: Any) -> None:
    """w_i = 4 / (eta (L_i - x))^2 at the root of the round."""
    K, n, C, S, G = unpack(F)
    half.fill_weights(K, S, rate_now(K, round_of(n), C), out)


@jit
def near_half(F: Any, out: Any) -> None:
    """Mark the near arms of the round, those whose estimate gets the baseline."""
    K, n, C, S, G = unpack(F)
    limit = near_limit(rate_now(K, round_of(n), C))
    for i in range(K):
        out[i] = S[half.ESTIMATES + i] - S[half.ROOT] <= limit


@jit
def near_general(F: Any, out: Any) -> None:
    """Mark the near arms of the round, those whose estimate gets the baseline."""
    K, n, C, S, G = unpack(F)
    mark_near(K, round_of(n), C, S, out)


@jit
def late_half(F: Any, arm: int, inverse_p: float, loss: float, near: Any) -> None:
    """Add half of the estimate of one draw; ``near`` as it was then."""
    K, n, C, S, G = unpack(F)
    L = carray(S, (half.ESTIMATES + K,))[half.ESTIMATES :]
    add_estimates(L, arm, inverse_p, loss, near, EACH)
    half.restart(K, S, 0.0)


@jit
def late_general(F: Any, arm: int, inverse_p: float, loss: float, near: Any) -> None:
    """Add half of the estimate of one draw; ``near`` as it was then."""
    K, n, C, S, G = unpack(F)
    L = carray(S, (general.ESTIMATES + 2 * K,))[general.ESTIMATES : general.ESTIMATES + K]
    add_estimates(L, arm, inverse_p, loss, near, EACH)


@jit
def tell_half_iw(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn from the last draw."""
    late_half(F, arm, inverse_p, loss, np.zeros(unpack(F)[0], np.bool_))


@jit
def tell_half_rv(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn from the last draw."""
    near = np.zeros(unpack(F)[0], np.bool_)
    near_half(F, near)
    late_half(F, arm, inverse_p, loss, near)


@jit
def tell_general(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn from the last draw."""
    near = np.zeros(unpack(F)[0], np.bool_)
    near_general(F, near)
    late_general(F, arm, inverse_p, loss, near)


# --- the policy of both sides ----------------------------------------------------------------

# `choose` is the left side's and `update` the right side's; see `Shared.sides`.
_HALF_IW = Kernels(
    choose_half_iw,
    update_half_iw,
    ask_half_iw,
    tell_half_iw,
    weights_half,
    late=late_half,
    estimates_changed=general.estimates_changed_half,
)
_HALF_RV = Kernels(
    choose_half_rv,
    update_half_rv,
    ask_half_rv,
    tell_half_rv,
    weights_half,
    near=near_half,
    late=late_half,
    estimates_changed=general.estimates_changed_half,
)
_GENERAL = Kernels(
    choose_general,
    update_general,
    ask_general,
    tell_general,
    general.weights_general,
    near=near_general,
    late=late_general,
    wide=False,
)


@dataclass(frozen=True)
class Sides:
    """What the engine calls in a round of a duel, in this order, each on its side's state.

    Parameters
    ----------
    choose_left, choose_right, update_left, update_right : dispatcher
        The kernels of `bothworlds.lanes.kernels`.
    wide : bool
        Whether they also compile for tiles of repetitions.
    """

    choose_left: Any
    choose_right: Any
    update_left: Any
    update_right: Any
    wide: bool


@dataclass(frozen=True, repr=False)
class Shared(Policy):
    """Tsallis-INF drawn from twice a round, of whose estimates every draw adds half."""

    policy: TsallisINF

    estimates: ClassVar[bool] = True
    saved_rows: ClassVar[dict[int, Saved] | None] = {0: base.ESTIMATES}

    @property
    def head_rows(self) -> int:  # type: ignore[override]
        """Rows of the solver before the estimates."""
        return self.policy.head_rows

    @property
    def rows_per_arm(self) -> int:  # type: ignore[override]
        """Rows per arm."""
        return self.policy.rows_per_arm

    def parameters(self, n_arms: int) -> Array:
        """Return those of Tsallis-INF."""
        return self.policy.parameters(n_arms)

    def start(self, n_arms: int) -> Array:
        """Return that of Tsallis-INF."""
        return self.policy.start(n_arms)

    def kernels(self) -> Kernels:
        """Return the kernels of this alpha and estimator."""
        if self.policy.alpha != 0.5:
            return _GENERAL
        return _HALF_RV if self.policy.estimator == "rv" else _HALF_IW

    def sides(self) -> Sides:
        """Return what the engine calls; its state has `NOTES` more rows."""
        own = self.kernels()
        if own is _GENERAL:
            again, note = choose_right_general, note_left_general
        else:
            again, note = choose_right_half, note_left_half
        return Sides(own.choose, again, note, own.update, own.wide)
