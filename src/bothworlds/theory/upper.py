"""Upper bounds on the pseudo-regret of Tsallis-INF: Theorems 1, 3 and 4, Corollaries 1 and 2.

Symbols: K arms, T horizon, ``D_i`` the gap of arm i, ``D_min`` the smallest positive gap, C the
constant of the self-bounding constraint, log the natural logarithm. Theorems and lemmas carry the
article's numbers; the two corollaries are counted on their own (on the article's shared counter
they are 8 and 10). ``printed=True`` returns a statement as printed where its proof gives something
else; see docs/errata.md.

References
----------
J. Zimmert and Y. Seldin, "Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
Bandits", Journal of Machine Learning Research 22(28), 2021.
"""

import math
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from bothworlds.arguments import Estimator, FloatArray, estimator_name, non_negative, share
from bothworlds.theory.arguments import (
    Horizon,
    Horizons,
    arm_count,
    float_or_array,
    gap_vector,
    horizons,
)


@overload
def adversarial(
    n_arms: int, horizon: Horizon, estimator: Estimator = "rv", *, printed: bool = False
) -> float: ...
@overload
def adversarial(
    n_arms: int, horizon: Horizons, estimator: Estimator = "rv", *, printed: bool = False
) -> FloatArray: ...
def adversarial(
    n_arms: int, horizon: ArrayLike, estimator: Estimator = "rv", *, printed: bool = False
) -> float | FloatArray:
    """Bound the regret against any adaptive adversary (Theorem 1, first part).

    With alpha = 1/2 and the rates of the theorem::

        IW, eta_t = 2/sqrt(t):  4 sqrt(K T) + 1
        RV, eta_t = 4/sqrt(t):  2 sqrt(K T) + 14 K log T + 16

    The article prints ``10 K log T`` for RV; its proof sums ``(7/8) eta_t^2 K = 14 K / t``.

    Parameters
    ----------
    n_arms : int
        K, at least 2.
    horizon : float or array_like
        T, at least 1.
    estimator : {"rv", "iw"}
        The loss estimator.
    printed : bool
        Return the constant as printed instead of the proved one (RV only; IW is the same).

    Returns
    -------
    float or numpy.ndarray
        The bound, in the shape of ``horizon``.

    Examples
    --------
    >>> adversarial(4, 100, estimator="iw")
    81.0
    >>> round(adversarial(4, 100), 2), round(adversarial(4, 100, printed=True), 2)
    (313.89, 240.21)
    """
    owner = "adversarial"
    K, T = arm_count(n_arms, owner), horizons(horizon, owner)
    if estimator_name(estimator, owner) == "iw":
        return float_or_array(4.0 * np.sqrt(K * T) + 1.0)
    logarithmic = 10.0 if printed else 14.0
    return float_or_array(2.0 * np.sqrt(K * T) + logarithmic * K * np.log(T) + 16.0)


class _Terms(NamedTuple):
    """The bound before the choice of lambda: gaps/lambda + lambda C + rest, 0 < lambda <= 1."""

    gaps: FloatArray
    rest: FloatArray


def _self_bounding_terms(
    D: FloatArray, T: FloatArray, estimator: Estimator, printed: bool
) -> _Terms:
    positive = D[D > 0.0]
    inverse, smallest, K, log_T = np.sum(1.0 / positive), positive.min(), D.size, np.log(T)
    if estimator == "rv":
        return _Terms(
            gaps=(log_T + 3.0) * inverse + 2.0 / smallest,
            rest=28.0 * K * log_T + 1.5 * math.sqrt(K) + 32.0,
        )
    per_smallest, per_root = (2.0, 1.5) if printed else (8.0, 3.0)
    return _Terms(
        gaps=(4.0 * log_T + 12.0) * inverse + per_smallest / smallest,
        rest=4.0 * log_T + per_root * math.sqrt(K) + 8.0,
    )


@overload
def self_bounding(
    gaps: ArrayLike,
    horizon: Horizon,
    corruption: float = 0.0,
    estimator: Estimator = "rv",
    *,
    printed: bool = False,
) -> float: ...
@overload
def self_bounding(
    gaps: ArrayLike,
    horizon: Horizons,
    corruption: float = 0.0,
    estimator: Estimator = "rv",
    *,
    printed: bool = False,
) -> FloatArray: ...
def self_bounding(
    gaps: ArrayLike,
    horizon: ArrayLike,
    corruption: float = 0.0,
    estimator: Estimator = "rv",
    *,
    printed: bool = False,
) -> float | FloatArray:
    """Bound the regret under a (Delta, C, T) self-bounding constraint (Theorem 1, second part).

    The constraint is ``regret >= E[sum_t sum_i w_ti D_i] - C``. Stochastic and stochastically
    constrained adversarial environments satisfy it with C = 0. With ::

        RV:  X = sum_i (log T + 3)/D_i + 2/D_min,      R = 28 K log T + 1.5 sqrt(K) + 32
        IW:  X = sum_i (4 log T + 12)/D_i + 8/D_min,   R = 4 log T + 3 sqrt(K) + 8

    the proof gives ``X/lambda + lambda C + R`` for every lambda in (0, 1]. The best choice is
    lambda = 1 while C <= X, which is ``X + C + R``, and sqrt(X/C) beyond, which is
    ``2 sqrt(X C) + R``. The function takes that minimum, so both branches of the theorem are in it.

    For IW the article omits the proof and prints ``2/D_min`` and ``1.5 sqrt(K)``, the terms of RV;
    the analogous proof gives the ones above.

    Parameters
    ----------
    gaps : array_like
        Delta: one entry per arm in [0, 1], exactly one of them zero.
    horizon : float or array_like
        T, at least 1.
    corruption : float
        C, at least 0.
    estimator : {"rv", "iw"}
        The loss estimator, with the rate of Theorem 1.
    printed : bool
        Return the statement as printed (IW only; RV is the same).

    Returns
    -------
    float or numpy.ndarray
        The bound, in the shape of ``horizon``.

    Examples
    --------
    >>> round(self_bounding([0, 0.5], 1), 6)                  # 6 + 4 + 1.5 sqrt(2) + 32
    44.12132
    >>> round(self_bounding([0, 0.5], 1, corruption=40), 6)   # 2 sqrt(10 * 40) + 1.5 sqrt(2) + 32
    74.12132
    """
    owner = "self_bounding"
    D, T = gap_vector(gaps, owner), horizons(horizon, owner)
    C = non_negative("corruption", corruption, owner)
    X, R = _self_bounding_terms(D, T, estimator_name(estimator, owner), printed)
    return float_or_array(np.where(C > X, 2.0 * np.sqrt(X * C), X + C) + R)


@overload
def corrupted(
    gaps: ArrayLike,
    horizon: Horizon,
    corruption: float,
    estimator: Estimator = "rv",
    *,
    printed: bool = False,
) -> float: ...
@overload
def corrupted(
    gaps: ArrayLike,
    horizon: Horizons,
    corruption: float,
    estimator: Estimator = "rv",
    *,
    printed: bool = False,
) -> FloatArray: ...
def corrupted(
    gaps: ArrayLike,
    horizon: ArrayLike,
    corruption: float,
    estimator: Estimator = "rv",
    *,
    printed: bool = False,
) -> float | FloatArray:
    """Bound the regret on corrupted losses (Corollary 1).

    A stochastically constrained adversary with a unique best arm is changed, adaptively, by
    ``sum_t max_i |change_ti| <= corruption``. The change can hide at most twice that much regret,
    once in the played arm and once in the best one, so this is `self_bounding` with constant
    ``2 corruption``. The regret is that on the losses the learner meets, after corruption.

    Parameters
    ----------
    gaps : array_like
        Gaps before corruption: one entry per arm in [0, 1], exactly one of them zero.
    horizon : float or array_like
        T, at least 1.
    corruption : float
        The budget, summed over rounds, of the largest change in a round.
    estimator : {"rv", "iw"}
        The loss estimator, with the rate of Theorem 1.
    printed : bool
        Return the statement as printed (IW only; RV is the same).

    Returns
    -------
    float or numpy.ndarray
        The bound, in the shape of ``horizon``.

    Examples
    --------
    >>> corrupted([0, 0.5], 1000, 30) == self_bounding([0, 0.5], 1000, 60)
    True
    """
    owner = "corrupted"
    D, T = gap_vector(gaps, owner), horizons(horizon, owner)
    budget = non_negative("corruption", corruption, owner)
    return self_bounding(D, T, 2.0 * budget, estimator_name(estimator, owner), printed=printed)


@overload
def general_adversarial(alpha: float, n_arms: int, horizon: Horizon) -> float: ...
@overload
def general_adversarial(alpha: float, n_arms: int, horizon: Horizons) -> FloatArray: ...
def general_adversarial(alpha: float, n_arms: int, horizon: ArrayLike) -> float | FloatArray:
    """Bound the adversarial regret of alpha-Tsallis-INF for any alpha (Theorem 3).

    For the symmetric regulariser, importance weighting and the rate of the theorem::

        2 sqrt( min{1/(alpha - alpha^2), log(K)/alpha, log(T)/(1 - alpha)} K T ) + 1

    At the ends the minimum is log T (alpha = 0) and log K (alpha = 1).

    Parameters
    ----------
    alpha : float
        The power of the Tsallis entropy, in [0, 1].
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
    >>> general_adversarial(0.5, 4, 1e6)     # min{4, 2 log 4, 2 log 1e6} = 2 log 4
    6661.436...
    >>> general_adversarial(1, 4, 1e6)       # the constant of EXP3
    4710.640...
    """
    owner = "general_adversarial"
    a, K = share("alpha", alpha, owner), arm_count(n_arms, owner)
    T = horizons(horizon, owner)
    by_powers = 1.0 / (a * (1.0 - a)) if 0.0 < a < 1.0 else math.inf
    by_arms = math.log(K) / a if a > 0.0 else math.inf
    # log(T)/(1 - alpha) is 0 at T = 1 for every alpha < 1, so its limit there is 0, not infinity.
    by_rounds = np.log(T) / (1.0 - a) if a < 1.0 else np.where(T > 1.0, math.inf, 0.0)
    factor = np.minimum(min(by_powers, by_arms), by_rounds)
    return float_or_array(2.0 * np.sqrt(factor * K * T) + 1.0)


@overload
def general_stochastic(
    alpha: float, gaps: ArrayLike, horizon: Horizon, *, printed: bool = False
) -> float: ...
@overload
def general_stochastic(
    alpha: float, gaps: ArrayLike, horizon: Horizons, *, printed: bool = False
) -> FloatArray: ...
def general_stochastic(
    alpha: float, gaps: ArrayLike, horizon: ArrayLike, *, printed: bool = False
) -> float | FloatArray:
    """Bound the regret of alpha-Tsallis-INF tuned with the true gaps (Theorem 4).

    For stochastically constrained adversaries with a unique best arm, importance weighting, the
    asymmetric regulariser ``xi_i = D_i^(1 - 2 alpha)`` and the rate of the theorem::

        sum_i (8 min{1/(1 - alpha), log T} + 64)(log T + 1)/D_i + 16 log^4(T_0)/D_min + 4,
        T_0 = z log^2 z,  z = 16/D_min^2

    The article prints ``log T`` in place of ``log T + 1``.

    Parameters
    ----------
    alpha : float
        The power of the Tsallis entropy, in [0, 1].
    gaps : array_like
        One entry per arm in [0, 1], exactly one of them zero.
    horizon : float or array_like
        T, at least 1.
    printed : bool
        Return the statement as printed.

    Returns
    -------
    float or numpy.ndarray
        The bound, in the shape of ``horizon``.

    Examples
    --------
    >>> general_stochastic(0, [0, 1], 1) - general_stochastic(0, [0, 1], 1, printed=True)
    64.0
    """
    owner = "general_stochastic"
    a, D = share("alpha", alpha, owner), gap_vector(gaps, owner)
    T = horizons(horizon, owner)
    positive = D[D > 0.0]
    log_T, smallest = np.log(T), positive.min()
    z = 16.0 / smallest**2
    log_T0 = math.log(z) + 2.0 * math.log(math.log(z))
    slowest = np.minimum(1.0 / (1.0 - a) if a < 1.0 else math.inf, log_T)
    rounds = log_T if printed else log_T + 1.0
    leading = (8.0 * slowest + 64.0) * rounds * np.sum(1.0 / positive)
    return float_or_array(leading + 16.0 * log_T0**4 / smallest + 4.0)


@overload
def dueling_stochastic(
    gaps: ArrayLike, horizon: Horizon, estimator: Estimator = "rv", *, printed: bool = False
) -> float: ...
@overload
def dueling_stochastic(
    gaps: ArrayLike, horizon: Horizons, estimator: Estimator = "rv", *, printed: bool = False
) -> FloatArray: ...
def dueling_stochastic(
    gaps: ArrayLike, horizon: ArrayLike, estimator: Estimator = "rv", *, printed: bool = False
) -> float | FloatArray:
    """Bound the regret of sparring with constant utilities (Corollary 2, stochastic case).

    The corollary states the order only; these are its constants. The probability that the left
    side wins is ``(1 + u_I - u_J)/2``, so each side meets a stochastically constrained adversary
    whose gaps are half the utility gaps, and the dueling regret ``2 u* - u_I - u_J`` is twice the
    sum of the two sides' regrets. Hence ``4 self_bounding(gaps / 2, T)``.

    Parameters
    ----------
    gaps : array_like
        Utility gaps ``u* - u_i`` in [0, 1], exactly one of them zero.
    horizon : float or array_like
        T, at least 1.
    estimator : {"rv", "iw"}
        The loss estimator of both sides, with the rate of Theorem 1.
    printed : bool
        Build on Theorem 1 as printed (IW only; RV is the same).

    Returns
    -------
    float or numpy.ndarray
        The bound, in the shape of ``horizon``.

    Examples
    --------
    >>> dueling_stochastic([0, 0.5], 100) == 4 * self_bounding([0, 0.25], 100)
    True
    """
    owner = "dueling_stochastic"
    D, T = gap_vector(gaps, owner), horizons(horizon, owner)
    side = self_bounding(D / 2.0, T, 0.0, estimator_name(estimator, owner), printed=printed)
    return 4.0 * side


@overload
def dueling_adversarial(
    n_arms: int, horizon: Horizon, estimator: Estimator = "rv", *, printed: bool = False
) -> float: ...
@overload
def dueling_adversarial(
    n_arms: int, horizon: Horizons, estimator: Estimator = "rv", *, printed: bool = False
) -> FloatArray: ...
def dueling_adversarial(
    n_arms: int, horizon: ArrayLike, estimator: Estimator = "rv", *, printed: bool = False
) -> float | FloatArray:
    """Bound the regret of sparring with changing utilities (Corollary 2, adversarial case).

    The corollary states the order only; these are its constants. Each side meets an adaptive
    adversary, and the dueling regret is twice the sum of the two sides' regrets, hence
    ``4 adversarial(K, T)``.

    Parameters
    ----------
    n_arms : int
        K, at least 2.
    horizon : float or array_like
        T, at least 1.
    estimator : {"rv", "iw"}
        The loss estimator of both sides, with the rate of Theorem 1.
    printed : bool
        Build on Theorem 1 as printed (RV only; IW is the same).

    Returns
    -------
    float or numpy.ndarray
        The bound, in the shape of ``horizon``.

    Examples
    --------
    >>> dueling_adversarial(4, 100, estimator="iw")
    324.0
    """
    owner = "dueling_adversarial"
    K, T = arm_count(n_arms, owner), horizons(horizon, owner)
    return 4.0 * adversarial(K, T, estimator_name(estimator, owner), printed=printed)
