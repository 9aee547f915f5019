"""Soft baselines: every arm's baseline shrinks with its weight, at alpha = 1/2 with the root of it.

======== ==========================================================================
``B``    the largest baseline: 1/2, or the mean of the losses
``k``    kappa = max(1/2, B)
``B_i``  min(B, k sqrt(w_i) / eta), the baseline of arm i
``y_i``  L_i - x, so that sqrt(w_i) / eta = 2 / (eta^2 y_i)
======== ==========================================================================

Reduced variance (`bothworlds.omd.estimators`) gives the arms with w_i >= eta^2 the baseline 1/2 and
all other arms none, so just the arms that are explored are estimated by plain importance weighting.
The soft baseline agrees with it on the near arms and leaves the far ones as much as keeps the same
worst step: B_i eta / (2 sqrt(w_i)) <= k / 2.  Its stability factor is 1 / (1 - k / 2), which is
4/3 for B <= 1/2; `bothworlds.theory.lemmas.soft_stability_factor` computes it.

For any alpha and xi_i, B_i = min(B, s w_i^alpha / (eta xi_i)), s the largest step with the same
factor 4/3; see `largest_step`.

The compiled functions are those of alpha = 1/2 and work on one bandit or on a tile of repetitions;
``P`` has the rows of `bothworlds.omd.half`.
"""

import functools
import math
from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import fma, load, maximum, minimum, select, splat, store
from bothworlds.omd import few, half, recentring

SMALLEST = 0.5
"""The least kappa, so that a small B is not given to far arms in full."""
FACTOR = 4.0 / 3.0
"""The stability factor, that of reduced variance at alpha = 1/2."""


def stability_factor(alpha: float, x: float) -> float:
    """Return the stability term of the estimate -x w^(alpha - 1) / eta over its quadratic part.

    For one arm with the potential -w^alpha / (eta alpha (1 - alpha)), weight w and estimate g the
    term is max over v of (w - v) g - D(v, w).  With q = 1 - alpha and z = -q x it is
    w^alpha / (eta q) times (q / alpha) ((1 + z)^(-alpha / q) - 1) + z; the quadratic part is
    (eta / 2) w^(2 - alpha) g^2.  Powers 0 and 1 are the limits.

    Examples
    --------
    >>> [round(stability_factor(alpha, 0.5), 4) for alpha in (0.0, 0.5, 1.0)]
    [1.5452, 1.3333, 1.1898]
    """
    q = 1.0 - alpha
    if alpha == 1.0:
        excess = math.expm1(x) - x
        return 2.0 * excess / (x * x)
    log = math.log1p(-q * x)
    excess = (-log if alpha == 0.0 else q / alpha * math.expm1(-alpha / q * log)) - q * x
    return 2.0 * excess / (q * x * x)


@functools.cache
def largest_step(alpha: float) -> float:
    """Return s, the step with `FACTOR`, for the baselines s w^alpha / eta.

    Examples
    --------
    >>> [round(largest_step(alpha), 4) for alpha in (0.0, 0.25, 0.5, 0.75, 1.0)]
    [0.3614, 0.4196, 0.5, 0.6179, 0.8069]
    """
    low, high = 0.25, 0.9
    while high - low > 1e-14:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if stability_factor(alpha, middle) < FACTOR else (low, middle)
    # Rounded, so that every platform has the same number.
    return round(low, 12)


@jit
def reach(B: Any, pace: Any) -> Any:
    """Return 2 k / eta^2, so that B_i = min(B, reach / y_i); ``pace`` is 4 / eta^2."""
    return 0.5 * (maximum(B, SMALLEST) * pace)


@jit
def baseline_of(K: int, P: Any, B: Any, far: Any, arm: Any) -> Any:
    """Return B_i of an arm at the root of the round; ``far`` is `reach`."""
    return minimum(B, far / (take(P, half.ESTIMATES, K, arm) - load(P, half.ROOT, B)))


@jit
def faded(L: Any, low: Any, retained: Any) -> Any:
    """Return R (L - low), or L itself where nothing fades."""
    if retained is None:
        return L
    return retained * (L - low)


@jit
def raise_arm(
    P: Any, i: int, L: Any, r: Any, arm: Any, by: Any, terms: Any, retained: Any, sums: Any
) -> Any:
    """L_i += share B_i, after it has faded; r = 1 / y_i.

    ``sums`` is None where they are not needed; then L_I += by as well.
    """
    B, far, share, low = terms
    m = share * minimum(B, far * r)
    L = faded(L, low, retained) + m
    if sums is None:
        store(P, half.ESTIMATES + i, select(arm == i, L + by, L))
        return None
    store(P, half.ESTIMATES + i, L)
    N3, N4, Q4 = sums
    r2 = r * r
    pull = m * (r2 * r2)
    return fma(m * r, r2, N3), N4 + pull, fma(m, pull, Q4)


@jit
def raise_all(K: int, P: Any, arm: Any, by: Any, terms: Any, retained: Any, sums: Any) -> Any:
    """Do that to every arm; two arms share a division."""
    x = load(P, half.ROOT, by)
    for i in range(0, K - 1, 2):
        L0 = load(P, half.ESTIMATES + i, by)
        L1 = load(P, half.ESTIMATES + i + 1, by)
        r0, r1 = half.invert(L0 - x, L1 - x)
        sums = raise_arm(P, i, L0, r0, arm, by, terms, retained, sums)
        sums = raise_arm(P, i + 1, L1, r1, arm, by, terms, retained, sums)
    if K % 2 != 0:
        L0 = load(P, half.ESTIMATES + K - 1, by)
        sums = raise_arm(P, K - 1, L0, 1.0 / (L0 - x), arm, by, terms, retained, sums)
    return sums


@jit
def add_baselines(
    K: int, P: Any, B: Any, far: Any, share: Any, arm: Any, by: Any, retained: Any
) -> None:
    """L_i += share B_i for every arm, and L_I += by; ``far`` is `reach`.

    Unless ``retained`` is None, L_i becomes ``retained`` (L_i - min L) before. The baselines are
    those at the root of the round. The sums of `half` learn of all of it.
    """
    zero = splat(0.0, by)
    low = zero
    if retained is not None:
        low = recentring.least(K, P, half.ESTIMATES, by)
    terms = B, far, share, low
    if few.fits(K):
        raise_all(K, P, arm, by, terms, retained, None)
        return
    sums = raise_all(K, P, arm, by, terms, retained, (zero, zero, zero))
    if retained is not None:
        half.fade_sums(P, retained, low)
    half.shift_all(P, sums)
    half.move(K, P, arm, by)
