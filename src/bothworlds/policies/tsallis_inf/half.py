"""Kernels of Tsallis-INF at alpha = 1/2, over `bothworlds.omd.half` and `bothworlds.omd.few`."""

from __future__ import annotations

from typing import Any

from numba import carray

from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import FEW, add_to
from bothworlds.lanes.vectors import load, select, store
from bothworlds.omd import few, half
from bothworlds.omd.estimators import add_estimates, baseline, correction, with_baseline
from bothworlds.omd.recentring import RECENTRE_EVERY
from bothworlds.policies.base import Kernels
from bothworlds.policies.tsallis_inf.parameters import near_limit, rate_now


@jit
def choose_half_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw; see `few.draw` and `half.draw`."""
    if t % RECENTRE_EVERY == 0:
        half.recentre(K, S, u)
    eta = rate_now(K, t, C)
    if few.fits(K):
        return few.draw(K, S, eta, u, None)
    return half.draw(K, S, eta, None, u, None)


@jit
def update_half_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    if few.fits(K):
        add_to(S, half.ESTIMATES, K, arm, loss * inverse_p)
    else:
        half.move_drawn(K, S, arm, loss * inverse_p)


@jit
def choose_half_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw, keeping what the update needs; see `few.draw` and `half.draw`."""
    if t % RECENTRE_EVERY == 0:
        half.recentre(K, S, u)
    eta = rate_now(K, t, C)
    if few.fits(K):
        return few.draw(K, S, eta, u, None)
    return half.draw(K, S, eta, near_limit(eta), u, None)


@jit
def update_half_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    limit = near_limit(rate_now(K, t, C))
    base = baseline(inverse_p <= 0.5 * limit, loss)  # 1 / w_I <= 1 / eta^2
    by = correction(loss, base, inverse_p)
    x = load(S, half.ROOT, loss)
    if K <= FEW:
        for i in range(K):
            L = load(S, half.ESTIMATES + i, loss)
            L = with_baseline(L, L - x <= limit)
            store(S, half.ESTIMATES + i, select(arm == i, L + by, L))
    else:
        for i in range(half.ESTIMATES, half.ESTIMATES + K):
            L = load(S, i, loss)
            store(S, i, with_baseline(L, L - x <= limit))
        add_to(S, half.ESTIMATES, K, arm, by)
    if not few.fits(K):
        half.shift_near(S, base)
        half.replace_drawn(S, by)


@jit
def weights_half(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """w_i = 4 / (eta (L_i - x))^2 at the root of the round."""
    half.fill_weights(K, S, rate_now(K, t, C), out)


@jit
def roots_half(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """The square roots of these weights."""
    half.fill_roots(K, S, rate_now(K, t, C), out)


@jit
def near_half(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Mark the near arms of the round, those whose estimate gets the baseline."""
    limit = near_limit(rate_now(K, t, C))
    for i in range(K):
        out[i] = S[half.ESTIMATES + i] - S[half.ROOT] <= limit


@jit
def late_half(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Learn from a decision that is no longer the last one; ``near`` as it was then."""
    L = carray(S, (half.ESTIMATES + K,))[half.ESTIMATES :]
    add_estimates(L, arm, inverse_p, loss, near, 1.0)
    half.restart(K, S, 0.0)


@jit
def estimates_changed_half(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Prepare the solver for estimates that changed otherwise than by ``tell``."""
    half.restart(K, S, 0.0)


IW = Kernels.of(
    choose_half_iw,
    update_half_iw,
    weights_half,
    roots=roots_half,
    late=late_half,
    estimates_changed=estimates_changed_half,
)
RV = Kernels.of(
    choose_half_rv,
    update_half_rv,
    weights_half,
    roots=roots_half,
    near=near_half,
    late=late_half,
    estimates_changed=estimates_changed_half,
)
