"""Lower bounds no algorithm escapes, and how far Theorem 1 is above them.

References
----------
T. L. Lai and H. Robbins, "Asymptotically efficient adaptive allocation rules", Advances in
Applied Mathematics 6, 1985.

N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games", Cambridge University Press,
2006, chapter 6.
"""

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from bothworlds.arguments import Estimator, FloatArray, estimator_name
from bothworlds.theory.arguments import (
    Horizon,
    Horizons,
    arm_count,
    bernoulli_means,
    float_or_array,
    horizons,
)


def _relative_entropy(p: FloatArray, q: float) -> FloatArray:
    """Give kl(p, q) of two Bernoulli distributions, with 0 log 0 = 0 and infinity where it is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = np.where(p > 0.0, p * np.log(p / q), 0.0)
        zeros = np.where(p < 1.0, (1.0 - p) * np.log((1.0 - p) / (1.0 - q)), 0.0)
    return np.asarray(ones + zeros)


def _lai_robbins_coefficient(mu: FloatArray) -> float:
    best = float(mu.min())
    worse = mu[mu > best]
    return float(np.sum((worse - best) / _relative_entropy(worse, best)))


@overload
def lai_robbins(means: ArrayLike, horizon: Horizon) -> float: ...
@overload
def lai_robbins(means: ArrayLike, horizon: Horizons) -> FloatArray: ...
def lai_robbins(means: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    """Bound from below the regret of every consistent algorithm on Bernoulli losses.

    ``sum_i D_i / kl(mu_i, mu*) log T`` over the arms with a positive gap, in the exact
    relative entropy rather than its quadratic approximation. The statement is asymptotic: regret
    divided by log T is at least the sum as T grows, so at small T a good algorithm may be below.
    Several best arms are allowed. A best arm that never loses (mean 0) makes the bound 0.

    Parameters
    ----------
    means : array_like
        Mean losses in [0, 1], not all equal.
    horizon : float or array_like
        T, at least 1.

    Returns
    -------
    float or numpy.ndarray
        The bound, in the shape of ``horizon``.

    Examples
    --------
    Eight arms at 7/16 and 9/16, one decade of rounds:

    >>> round(lai_robbins([7/16] + 7 * [9/16], 10), 1)
    64.1
    """
    owner = "lai_robbins"
    mu, T = bernoulli_means(means, owner), horizons(horizon, owner)
    return float_or_array(_lai_robbins_coefficient(mu) * np.log(T))


@overload
def minimax(n_arms: int, horizon: Horizon) -> float: ...
@overload
def minimax(n_arms: int, horizon: Horizons) -> FloatArray: ...
def minimax(n_arms: int, horizon: ArrayLike) -> float | FloatArray:
    """Bound from below the worst-case regret of every algorithm.

    ``(sqrt 2 - 1)/sqrt(32 log(4/3)) sqrt(K T)``, about ``0.1365 sqrt(K T)``, the result the article
    compares with: the leading 2 of the RV bound is less than 15 times this. It needs
    ``T >= K / (4 log(4/3))``. For fewer rounds the value is capped by what a single hidden arm
    without loss enforces, ``T - T (T + 1)/(2 K)``: by round t it was tried with probability at most
    t/K.

    Parameters
    ----------
    n_arms : int
        K, at least 2.
    horizon : float or array_like
        T, at least 1.

    Returns
    -------
    float or numpy.ndarray
        The bound, in the shape of ``horizon``.

    Examples
    --------
    >>> round(minimax(4, 2500), 2)
    13.65
    """
    owner = "minimax"
    K, T = arm_count(n_arms, owner), horizons(horizon, owner)
    value = (math.sqrt(2.0) - 1.0) / math.sqrt(32.0 * math.log(4.0 / 3.0)) * np.sqrt(K * T)
    hidden_arm = T - T * (T + 1.0) / (2.0 * K)
    few = T < K / (4.0 * math.log(4.0 / 3.0))
    return float_or_array(np.where(few, np.minimum(value, hidden_arm), value))


def asymptotic_factor(means: ArrayLike | None = None, estimator: Estimator = "rv") -> float:
    """Divide Theorem 1's bound per log T by the lower bound of Lai and Robbins.

    For Bernoulli losses with these means and a unique best arm the coefficients of log T are ::

        upper:  sum_i 1/D_i + 28 K  (RV),   sum_i 4/D_i + 4  (IW)
        lower:  sum_i D_i / kl(mu_i, mu*)

    Around 1/2 the relative entropy is about 2 D^2, so the factor tends to 2 (RV) and 8 (IW) as the
    gaps vanish. Those limits are what the article states and what ``means=None`` returns; at gaps
    people meet, RV's 28 K weighs far more.

    Parameters
    ----------
    means : array_like, optional
        Mean losses in [0, 1] with a unique smallest one.
    estimator : {"rv", "iw"}
        The loss estimator of the upper bound.

    Returns
    -------
    float
        The factor; infinite where the lower bound is 0.

    Examples
    --------
    >>> asymptotic_factor(), asymptotic_factor(estimator="iw")
    (2.0, 8.0)
    >>> round(asymptotic_factor([0.5, 0.5001]), 3)
    2.011
    """
    owner = "asymptotic_factor"
    name = estimator_name(estimator, owner)
    if means is None:
        return 2.0 if name == "rv" else 8.0
    mu = bernoulli_means(means, owner, unique_best=True)
    gaps = mu[mu > mu.min()] - mu.min()
    inverse = float(np.sum(1.0 / gaps))
    upper = inverse + 28.0 * mu.size if name == "rv" else 4.0 * inverse + 4.0
    lower = _lai_robbins_coefficient(mu)
    return upper / lower if lower > 0.0 else math.inf
