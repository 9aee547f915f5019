"""Bounds of the algorithms that Tsallis-INF is compared with.

References
----------
S. Bubeck and N. Cesa-Bianchi, "Regret Analysis of Stochastic and Nonstochastic Multi-armed Bandit
Problems", Foundations and Trends in Machine Learning 5(1), 2012.

P. Auer, N. Cesa-Bianchi and P. Fischer, "Finite-time Analysis of the Multiarmed Bandit Problem",
Machine Learning 47, 2002.
"""

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from bothworlds.arguments import FloatArray, non_negative
from bothworlds.errors import invalid
from bothworlds.theory.arguments import (
    Horizon,
    Horizons,
    arm_count,
    float_or_array,
    gap_vector,
    horizons,
)


@overload
def exp3(n_arms: int, horizon: Horizon) -> float: ...
@overload
def exp3(n_arms: int, horizon: Horizons) -> FloatArray: ...
def exp3(n_arms: int, horizon: ArrayLike) -> float | FloatArray:
    """Bound the regret of EXP3 against any adversary (Bubeck and Cesa-Bianchi, Theorem 3.1).

    ``2 sqrt(T K log K)`` for the anytime rate ``eta_t = sqrt(log(K) / (t K))`` without mixing.

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
    >>> round(exp3(8, 10_000), 1)
    815.7
    """
    owner = "exp3"
    K, T = arm_count(n_arms, owner), horizons(horizon, owner)
    return float_or_array(2.0 * np.sqrt(T * K * math.log(K)))


@overload
def ucb1(gaps: ArrayLike, horizon: Horizon, c: float = 1.5) -> float: ...
@overload
def ucb1(gaps: ArrayLike, horizon: Horizons, c: float = 1.5) -> FloatArray: ...
def ucb1(gaps: ArrayLike, horizon: ArrayLike, c: float = 1.5) -> float | FloatArray:
    """Bound the regret of UCB1 on independent losses (Bubeck and Cesa-Bianchi, Theorem 2.1).

    ``sum_i (4 c log(T)/D_i + c/(c - 1))`` over the suboptimal arms, for the exploration bonus
    ``sqrt(c log(t) / n)`` with c > 1. The survey writes the bonus as ``sqrt(a log(t) / (2 n))``, so
    a = 2 c. Losses must be independent with fixed means: there is no such bound when the
    means move, even if the gaps stay. Several best arms are allowed.

    Parameters
    ----------
    gaps : array_like
        One entry per arm in [0, 1], at least one of them zero.
    horizon : float or array_like
        T, at least 1.
    c : float
        The factor in the bonus, larger than 1; 1.5 in the paper's experiments, 2 in Auer et al.

    Returns
    -------
    float or numpy.ndarray
        The bound, in the shape of ``horizon``.

    Examples
    --------
    >>> ucb1([0, 0.5], 1)
    3.0
    """
    owner = "ucb1"
    D, T = gap_vector(gaps, owner, unique=False), horizons(horizon, owner)
    factor = non_negative("c", c, owner)
    if factor <= 1.0:
        raise invalid("c", owner, "larger than 1", c)
    positive = D[D > 0.0]
    constant = positive.size * factor / (factor - 1.0)
    return float_or_array(4.0 * factor * np.log(T) * np.sum(1.0 / positive) + constant)
