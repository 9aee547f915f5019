"""Kernels of Tsallis-INF at alpha = 1/2.

They call the solvers `bothworlds.omd.half`, `bothworlds.omd.few` and, in tiles,
`bothworlds.omd.ahead`.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import carray

from bothworlds.arguments import Estimator
from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.rows import add_to, take
from bothworlds.lanes.vectors import load, select, splat, store
from bothworlds.lanes.wrap import bound
from bothworlds.omd import ahead, few, half
from bothworlds.omd.estimators import add_estimates, baseline, correction, with_baseline
from bothworlds.omd.recentring import fade, least
from bothworlds.policies.base import Kernels, LaneKernels
from bothworlds.policies.tsallis_inf.parameters import near_limit, rate_now

# --- few arms, and all other numbers of them -----------------------------------------------------


@jit
def choose_few(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw, with either estimator; see `few.draw`."""
    half.recentre_if_due(K, t, S, u)
    return few.draw(K, S, rate_now(K, t, C), u, None)


@jit
def choose_several(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Do the same by `few.draw_by_halves`."""
    half.recentre_if_due(K, t, S, u)
    return few.draw_by_halves(K, S, rate_now(K, t, C), u)


@jit
def update_few_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    add_to(S, half.ESTIMATES, K, arm, loss * inverse_p)


@jit
def reduced(K: int, t: int, C: Any, inverse_p: Any, loss: Any) -> Any:
    """Return the limit of the near arms, B of the arm drawn, and its further rise."""
    limit = near_limit(rate_now(K, t, C))
    base = baseline(inverse_p <= 0.5 * limit, loss)  # 1 / w_I <= 1 / eta^2
    return limit, base, correction(loss, base, inverse_p)


@jit
def update_few_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    limit, _, by = reduced(K, t, C, inverse_p, loss)
    x = load(S, half.ROOT, loss)
    for i in range(K):
        L = load(S, half.ESTIMATES + i, loss)
        L = with_baseline(L, L - x <= limit)
        store(S, half.ESTIMATES + i, select(arm == i, L + by, L))


@jit
def choose_beyond_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw; see `half.draw`."""
    half.recentre_if_due(K, t, S, u)
    return half.draw(K, S, rate_now(K, t, C), None, u, None)


@jit
def update_beyond_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    half.move_drawn(K, S, arm, loss * inverse_p)


@jit
def choose_beyond_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw, keeping the numbers for the update; see `half.draw`."""
    half.recentre_if_due(K, t, S, u)
    eta = rate_now(K, t, C)
    return half.draw(K, S, eta, near_limit(eta), u, None)


@inlined
def raise_near(K: int, S: Any, limit: Any, arm: Any, by: Any) -> None:
    """L_i += B_i for every arm, and ``by`` to that of the arm drawn."""
    x = load(S, half.ROOT, by)
    for i in range(half.ESTIMATES, half.ESTIMATES + K):
        L = load(S, i, by)
        store(S, i, with_baseline(L, L - x <= limit))
    add_to(S, half.ESTIMATES, K, arm, by)


@jit
def update_beyond_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    limit, base, by = reduced(K, t, C, inverse_p, loss)
    raise_near(K, S, limit, arm, by)
    half.shift_near(S, base)
    half.replace_drawn(S, by)


# --- tiles --------------------------------------------------------------------------------------

scan: Any = None
"""How a template looks at the arms; `ahead_in_tiles` fills it in."""


def choose_ahead_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw; see `ahead.draw`."""
    half.recentre_if_due(K, t, S, u)
    return ahead.draw(K, S, rate_now(K, t, C), None, u, scan)


def choose_ahead_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw, keeping the numbers for the update; see `ahead.draw`."""
    half.recentre_if_due(K, t, S, u)
    return ahead.draw(K, S, rate_now(K, t, C), True, u, scan)


@jit
def update_ahead_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I, and the next root is predicted."""
    by = loss * inverse_p
    add_to(S, half.ESTIMATES, K, arm, by)
    ahead.predict(S, t, None, by)


@jit
def update_ahead_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I, and the next root is predicted."""
    limit, base, by = reduced(K, t, C, inverse_p, loss)
    raise_near(K, S, limit, arm, by)
    ahead.predict(S, t, base, by)


@functools.cache
def ahead_in_tiles(n_arms: int, estimator: Estimator) -> Kernels:
    """Return the kernels for tiles with at most `ahead.MOST` arms."""
    update = update_ahead_rv if estimator == "rv" else update_ahead_iw
    return Kernels(_choose_ahead(ahead.scan_for(n_arms), estimator), update)


@functools.cache
def _choose_ahead(scan: Any, estimator: Estimator) -> Any:
    return bound(choose_ahead_rv if estimator == "rv" else choose_ahead_iw, scan=scan)


# --- any number of arms ------------------------------------------------------------------------


@jit
def choose_half_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw by the solver for this number of arms."""
    if few.fits(K):
        return choose_few(K, t, C, S, G, u)
    return choose_beyond_iw(K, t, C, S, G, u)


@jit
def update_half_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    if few.fits(K):
        update_few_iw(K, t, C, S, G, arm, inverse_p, loss)
    else:
        update_beyond_iw(K, t, C, S, G, arm, inverse_p, loss)


@jit
def choose_half_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw by the solver for this number of arms, keeping the numbers for the update."""
    if few.fits(K):
        return choose_few(K, t, C, S, G, u)
    return choose_beyond_rv(K, t, C, S, G, u)


@jit
def update_half_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    if few.fits(K):
        update_few_rv(K, t, C, S, G, arm, inverse_p, loss)
    else:
        update_beyond_rv(K, t, C, S, G, arm, inverse_p, loss)


# --- any arm of the round, played with any probability ----------------------------------------


@jit
def weight_half(K: int, t: int, C: Any, S: Any, G: Any, arm: Any) -> Any:
    """Return w of an arm at the root of the round."""
    return half.weight_of(K, S, rate_now(K, t, C), arm)


@jit
def fade_estimates(K: int, S: Any, retained: float, like: Any) -> None:
    """L_i = R (L_i - min L), and let the solver know."""
    low = fade(K, S, half.ESTIMATES, retained, like)
    if not few.fits(K):
        half.fade_sums(S, retained, low)


@jit
def move(K: int, S: Any, arm: Any, by: Any) -> None:
    """Add ``by`` to the estimate of an arm, and tell the solver where it wants to know."""
    if few.fits(K):
        add_to(S, half.ESTIMATES, K, arm, by)
    else:
        half.move(K, S, arm, by)


@jit
def learn_half_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    move(K, S, arm, loss * inverse_p)


@jit
def fading_half_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any, retained: float
) -> None:
    """L_i = R (L_i - min L); L_I += l / w_I."""
    fade_estimates(K, S, retained, loss)
    learn_half_iw(K, t, C, S, G, arm, inverse_p, loss)


@jit
def fading_half_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any, retained: float
) -> None:
    """L_i = R (L_i - min L) + B_i; L_I += (l - B_I) / w_I."""
    limit = near_limit(rate_now(K, t, C))
    x = load(S, half.ROOT, loss)
    played = take(S, half.ESTIMATES, K, arm)
    base = baseline(played - x <= limit, loss)
    by = correction(loss, base, inverse_p)
    low = splat(0.0, loss)
    if retained < 1.0:
        low = least(K, S, half.ESTIMATES, loss)
    for i in range(half.ESTIMATES, half.ESTIMATES + K):
        L = load(S, i, loss)
        store(S, i, with_baseline(retained * (L - low), L - x <= limit))
    add_to(S, half.ESTIMATES, K, arm, by)
    if not few.fits(K):
        half.fade_sums(S, retained, low)
        store(S, half.DRAWN, retained * (played - low) - load(S, half.CENTRE, loss))
        half.shift_near(S, base)
        half.replace_drawn(S, by)


@jit
def learn_half_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    fading_half_rv(K, t, C, S, G, arm, inverse_p, loss, 1.0)


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


def _kernels(choose: Any, update: Any, reduced: bool) -> Kernels:
    """Return the kernels of an estimator around a solver."""
    learn, fading = learn_half_iw, fading_half_iw
    if reduced:
        learn, fading = learn_half_rv, fading_half_rv
    return Kernels.of(
        choose,
        update,
        weights_half,
        roots=roots_half,
        near=near_half if reduced else None,
        late=late_half,
        estimates_changed=estimates_changed_half,
        in_lanes=LaneKernels(weight_half, learn, fading, each_round=True),
    )


IW = _kernels(choose_half_iw, update_half_iw, False)
RV = _kernels(choose_half_rv, update_half_rv, True)


@functools.cache
def one_solver(
    estimator: Estimator, fitting: bool, several: bool = False, rate: Any = rate_now
) -> Kernels:
    """Return kernels with less to compile: those for few arms, or for all other numbers of them.

    ``several`` of the few arms have a kernel of their own for tiles; see `few.HALVED`.  ``rate`` is
    `rate_now`, or a function that returns the same for the learning rates that the caller has.
    """
    rv = estimator == "rv"
    if fitting:
        choose = choose_several if several else choose_few
        update = update_few_rv if rv else update_few_iw
    else:
        choose = choose_beyond_rv if rv else choose_beyond_iw
        update = update_beyond_rv if rv else update_beyond_iw
    if rate is not rate_now:
        choose = bound(choose.py_func, rate_now=rate)
        if rv:
            update = bound(update.py_func, reduced=bound(reduced.py_func, rate_now=rate))
    return _kernels(choose, update, rv)
