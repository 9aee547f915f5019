"""The two inequalities behind every theorem, evaluated round by round (Lemmas 11 and 12).

The regret splits into stability, what the estimates cost within a round, and penalty, what the
regulariser costs over time. The lemmas bound both in expectation. Here they are evaluated in the
stronger form their proofs give: stability conditionally on the past, with the expectation over the
played arm taken exactly by enumeration, and penalty on the path itself. Averaging over paths gives
the printed lemmas, by Jensen's inequality. Nothing is sampled, so a violation is a
counterexample, never noise.

Symbols: w_t weights, eta_t learning rates, xi the asymmetry, Psi the regulariser, Phi_t its
conjugate, Lhat_t the sum of estimates up to round t. Arrays have shape (rounds, arms).

References
----------
J. Zimmert and Y. Seldin, "Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
Bandits", Journal of Machine Learning Research 22(28), 2021, section 7.2 and appendix C.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import Estimator, FloatArray, estimator_name, index, shaped, share
from bothworlds.errors import invalid
from bothworlds.theory.arguments import path_arrays, regulariser_of, require_part
from bothworlds.theory.potential import attained, deformed_log, gradient, maximiser, potential

__all__ = [
    "Decomposition",
    "Inequality",
    "decompose",
    "estimates_by_arm",
    "penalty_terms",
    "soft_stability_factor",
    "stability_terms",
]


@dataclass(frozen=True, eq=False)
class Inequality:
    """Both sides of an inequality, one entry per round.

    Attributes
    ----------
    lhs, rhs : numpy.ndarray
        The lemma claims ``lhs <= rhs`` wherever it applies.
    applies : numpy.ndarray of bool
        Whether the hypotheses of the lemma are met in this round.
    """

    lhs: FloatArray
    rhs: FloatArray
    applies: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Regret on one path as stability plus penalty, one entry per round.

    Attributes
    ----------
    stability, penalty, regret : numpy.ndarray
        ``stability + penalty`` equals ``regret`` if the weights are those of the algorithm.
    """

    stability: FloatArray
    penalty: FloatArray
    regret: FloatArray


def estimates_by_arm(
    weights: ArrayLike, losses: ArrayLike, rates: ArrayLike, estimator: Estimator
) -> FloatArray:
    """List the loss estimates that would follow each possible play.

    Parameters
    ----------
    weights, losses : array_like
        Arrays (rounds, arms).
    rates : array_like
        Learning rates, one per round; the baseline of RV depends on them.
    estimator : {"rv", "iw"}
        The loss estimator. RV's baseline goes to every arm, played or not.

    Returns
    -------
    numpy.ndarray
        Array (rounds, played arm, arm).

    Examples
    --------
    >>> estimates_by_arm([[0.5, 0.5]], [[1.0, 0.0]], [0.5], "rv")
    array([[[ 1.5,  0.5],
            [ 0.5, -0.5]]])
    """
    owner = "estimates_by_arm"
    w, eta = path_arrays(weights, rates, owner)
    loss = shaped("losses", losses, owner, w.shape)
    use_baseline = estimator_name(estimator, owner) == "rv"
    B = 0.5 * (w >= eta[:, None] ** 2) if use_baseline else np.zeros_like(w)
    correction = (loss - B) / w
    return B[:, None, :] + correction[:, :, None] * np.eye(w.shape[1])


def soft_stability_factor(largest: float = 0.5, alpha: float = 0.5) -> float:
    """Return how much the soft baseline can raise the stability term: 1 / (1 - k / 2) at 1/2.

    For one arm with potential -(4 / eta) sqrt(w), weight w and estimate g, the stability term is
    max over v of (w - v) g - D(v, w) = (eta / 2) w^(3/2) g^2 / (1 + y), y = eta g sqrt(w) / 2. With
    baselines B_i = min(B, k sqrt(w_i) / eta), k = max(1/2, B), no estimate is below -B_i / w_i, so
    y >= -k / 2. Derived here, not in the paper; for B <= 1/2 it is 4/3, as of reduced variance.
    For another alpha the step k / 2 is replaced by the one that has the factor 4/3 at k = 1/2. That
    bounds the regret only where the other steps of a proof are known, which they are at 1/2.

    Parameters
    ----------
    largest : float, default 0.5
        The largest baseline B, in [0, 1].
    alpha : float, default 0.5
        Power of the Tsallis entropy, in [0, 1].

    Examples
    --------
    >>> round(soft_stability_factor(), 12), round(soft_stability_factor(1.0), 12)
    (1.333333333333, 2.0)
    >>> round(soft_stability_factor(alpha=0.9), 9)
    1.333333333
    """
    from bothworlds.omd.soft import SMALLEST, largest_step, stability_factor

    B = share("largest", largest, "soft_stability_factor")
    power = share("alpha", alpha, "soft_stability_factor")
    return stability_factor(power, max(SMALLEST, B) / SMALLEST * largest_step(power))


def stability_terms(
    weights: ArrayLike,
    losses: ArrayLike,
    estimates: ArrayLike,
    rates: ArrayLike,
    part: Literal[1, 2, 3, 4],
    *,
    alpha: float = 0.5,
    xi: ArrayLike | None = None,
    excluded: int = 0,
    printed: bool = False,
) -> Inequality:
    """Evaluate both sides of the stability inequality in every round (Lemma 11).

    The left side is ``E[loss_t,I + Phi_t(-Lhat_t) - Phi_t(-Lhat_t-1)]`` over the played arm I given
    the weights. The right side and its hypotheses depend on the part:

    1. IW: ``min{sum_i eta xi_i/2 w_i^(1 - alpha), 1}``, any rate and alpha.
    2. IW, alpha = 1/2, eta <= 1: ``eta^2/2 + sum_i eta/2 sqrt(w_i)(1 - w_i)``.
    3. RV, alpha = 1/2, eta <= 1: ``7/8 eta^2 K + sum_i eta/8 sqrt(w_i)(1 - w_i)``.
    4. IW, eta xi_i <= 1/4: the sum over all arms but one, j, of
       ``eta xi_i/2 w_i^(1 - alpha) + eta (xi_j + 2 xi_i)/2 w_i``; printed with i and j exchanged in
       the last bracket.

    The estimates are taken as given; that they are those of the part is up to the caller.

    Parameters
    ----------
    weights, losses : array_like
        Arrays (rounds, arms), weights positive and summing to 1.
    estimates : array_like
        Array (rounds, played arm, arm), see `estimates_by_arm`.
    rates : array_like
        Positive learning rates, one per round.
    part : {1, 2, 3, 4}
        The part of the lemma.
    alpha : float
        The power of the Tsallis entropy; parts 2 and 3 are for 1/2.
    xi : array_like, optional
        The asymmetry of the regulariser, one positive number per arm; parts 2 and 3 are without.
    excluded : int
        The arm j left out of the sum in part 4.
    printed : bool
        Use the right side of part 4 as printed.

    Returns
    -------
    Inequality
        Both sides per round.

    Examples
    --------
    >>> w, loss, eta = [[0.5, 0.5]], [[1.0, 0.0]], [0.25]
    >>> check = stability_terms(w, loss, estimates_by_arm(w, loss, eta, "rv"), eta, part=3)
    >>> bool(check.lhs[0] <= check.rhs[0])
    True
    """
    owner = "stability_terms"
    w, eta = path_arrays(weights, rates, owner)
    rounds, K = w.shape
    loss = shaped("losses", losses, owner, w.shape)
    hat = shaped("estimates", estimates, owner, (rounds, K, K))
    a, asymmetry = regulariser_of(alpha, xi, K, owner)
    require_part(part, (1, 2, 3, 4), owner)
    if part in (2, 3) and (a != 0.5 or np.any(asymmetry != 1.0)):
        raise invalid("alpha", owner, f"1/2 without xi in part {part}", alpha)
    j = index("excluded", excluded, owner, K)

    # The weights tell the summed estimates up to a constant, which the difference does not see.
    L = -gradient(w, a, asymmetry) / eta[:, None]
    rate_by_arm = np.repeat(eta[:, None], K, axis=1)
    rise = potential(L[:, None, :] + hat, rate_by_arm, a, asymmetry)
    rise -= attained(w, L, eta, a, asymmetry)[:, None]
    lhs = np.sum(w * (loss + rise), axis=1)

    step = eta[:, None] * asymmetry
    if part == 1:
        rhs = np.minimum(np.sum(step / 2.0 * w ** (1.0 - a), axis=1), 1.0)
        applies = np.ones(rounds, dtype=np.bool_)
    elif part == 4:
        doubled, single = (asymmetry[j], asymmetry) if printed else (asymmetry, asymmetry[j])
        linear = eta[:, None] * (single + 2.0 * doubled) / 2.0 * w
        terms = step / 2.0 * w ** (1.0 - a) + linear
        rhs = terms.sum(axis=1) - terms[:, j]
        applies = np.all(step <= 0.25, axis=1)
    else:
        variance = np.sum(eta[:, None] * np.sqrt(w) * (1.0 - w), axis=1)
        rhs = eta**2 / 2.0 + variance / 2.0 if part == 2 else 0.875 * eta**2 * K + variance / 8.0
        applies = eta <= 1.0
    return Inequality(lhs, rhs, applies)


def penalty_terms(
    weights: ArrayLike,
    estimates: ArrayLike,
    rates: ArrayLike,
    part: Literal[1, 2],
    *,
    best: int,
    alpha: float = 0.5,
    xi: ArrayLike | None = None,
    exponent: float = math.inf,
) -> Inequality:
    """Evaluate both sides of the penalty inequality up to every round (Lemma 12).

    The left side at T is ``sum_t (Phi_t(-Lhat_t-1) - Phi_t(-Lhat_t)) - Lhat_T,best`` over the
    rounds up to T. The right side is

    1. symmetric: ``(K^(1 - alpha) - 1)(1 - T^-alpha)/((1 - alpha) alpha eta_T) + slip_T``,
    2. any regulariser: ``(1 - T^(-alpha x))/alpha`` times the sum over i != best of
       ``(w_1i^alpha - alpha w_1i)/(eta_1 xi_i (1 - alpha))`` and of the same expression at w_t
       times ``1/eta_t - 1/eta_t-1`` from t = 2 on, ``+ slip_T``.

    ``slip_T = <u_T - e_best, Lhat_T>`` belongs to the comparator u_T of the proof, at a distance
    of 1/T (part 1, from T = 2 on) or T^-x (part 2) from the vertex e_best. Its expectation is at
    most 1 and T^(1 - x), which is what the printed lemma shows in its place. Both parts need
    positive rates that never increase.

    Parameters
    ----------
    weights, estimates : array_like
        Arrays (rounds, arms) of one path.
    rates : array_like
        Positive learning rates, one per round.
    part : {1, 2}
        The part of the lemma.
    best : int
        The arm compared with.
    alpha : float
        The power of the Tsallis entropy.
    xi : array_like, optional
        The asymmetry of the regulariser, one positive number per arm; part 1 is without.
    exponent : float
        x of part 2, at least 1; finite at alpha = 0.

    Returns
    -------
    Inequality
        Both sides up to every round.

    Examples
    --------
    >>> check = penalty_terms([[0.5, 0.5]], [[2.0, 0.0]], [1.0], part=2, best=1)
    >>> bool(check.lhs[0] <= check.rhs[0])
    True
    """
    owner = "penalty_terms"
    w, eta = path_arrays(weights, rates, owner)
    hat = shaped("estimates", estimates, owner, w.shape)
    a, asymmetry = regulariser_of(alpha, xi, w.shape[1], owner)
    require_part(part, (1, 2), owner)
    if part == 1 and np.any(asymmetry != 1.0):
        raise invalid("xi", owner, "absent in part 1", xi)
    if not exponent >= 1.0 or (part == 2 and a == 0.0 and math.isinf(exponent)):
        raise invalid("exponent", owner, "at least 1, and finite where alpha is 0", exponent)
    j = index("best", best, owner, w.shape[1])

    after = np.cumsum(hat, axis=0)
    before = after - hat
    fall = attained(w, before, eta, a, asymmetry) - potential(after, eta, a, asymmetry)
    lhs = np.cumsum(fall) - after[:, j]
    T = np.arange(1.0, w.shape[0] + 1.0)
    if part == 1:
        K = w.shape[1]
        spread = deformed_log(np.asarray(float(K)), 1.0 - a) * deformed_log(T, -a) / eta
        others = (after.sum(axis=1) - after[:, j]) / (K - 1)
        distance = 1.0 / T
        # In round 1 the proof's u is a corner of the wrong kind; the uniform distribution does.
        distance[0] = 1.0 - 1.0 / K
        rhs = spread + distance * (others - after[:, j])
    else:
        # (w^alpha - alpha w)/(1 - alpha), written so that it has its limits at both ends.
        entropy = w * (1.0 - deformed_log(w, a - 1.0)) / asymmetry
        entropy[:, j] = 0.0
        steps = np.diff(1.0 / eta, prepend=0.0)
        paid = np.cumsum(steps * entropy.sum(axis=1))
        factor = 1.0 / a if math.isinf(exponent) else exponent * deformed_log(T, -a * exponent)
        rhs = factor * paid + _slip(after, T, j, a, asymmetry, exponent)
    falling = np.diff(eta, prepend=math.inf) <= 0.0
    return Inequality(lhs, rhs, np.logical_and.accumulate(falling))


def _slip(
    L: FloatArray, T: FloatArray, j: int, alpha: float, xi: FloatArray, exponent: float
) -> FloatArray:
    """Give <u - e_j, L> for the u of least Psi within T^-x of the vertex e_j."""
    if math.isinf(exponent):
        return np.zeros_like(T)
    m = T**-exponent
    u = np.zeros_like(L)
    others = np.arange(L.shape[1]) != j
    nothing, unit = np.zeros((T.size, L.shape[1] - 1)), np.ones_like(T)
    u[:, others] = maximiser(nothing, unit, alpha, xi[others], mass=m)
    u[:, j] = 1.0 - m
    # So close to the start that the ball around the vertex still holds the minimum of Psi itself.
    centre = maximiser(np.zeros(L.shape[1]), np.asarray(1.0), alpha, xi)
    u[centre[j] >= 1.0 - m] = centre
    return np.asarray(np.sum(u * L, axis=1) - L[:, j])


def decompose(
    weights: ArrayLike,
    losses: ArrayLike,
    arms: ArrayLike,
    estimates: ArrayLike,
    rates: ArrayLike,
    *,
    best: int,
    alpha: float = 0.5,
    xi: ArrayLike | None = None,
) -> Decomposition:
    """Split the regret on one path into stability and penalty (the first display of section 7).

    ``Phi_t(-Lhat_t-1)`` enters stability as what the given weights attain and penalty as the
    maximum itself, found by a solver of its own. The two add up to the regret exactly where the
    given weights are the maximiser; where they are not, the sum is smaller by what they miss.

    Parameters
    ----------
    weights, losses : array_like
        Arrays (rounds, arms).
    arms : array_like of int
        The arm played in each round.
    estimates : array_like
        Array (rounds, arms): the estimates formed after that play.
    rates : array_like
        Positive learning rates, one per round.
    best : int
        The arm compared with.
    alpha : float
        The power of the Tsallis entropy.
    xi : array_like, optional
        The asymmetry of the regulariser, one positive number per arm.

    Returns
    -------
    Decomposition
        Stability, penalty and regret per round.

    Examples
    --------
    >>> parts = decompose([[0.5, 0.5]], [[1.0, 0.0]], [0], [[2.0, 0.0]], [1.0], best=1)
    >>> round(float(parts.stability[0] + parts.penalty[0]), 12), float(parts.regret[0])
    (1.0, 1.0)
    """
    owner = "decompose"
    w, eta = path_arrays(weights, rates, owner)
    rounds, K = w.shape
    loss = shaped("losses", losses, owner, w.shape)
    hat = shaped("estimates", estimates, owner, w.shape)
    played = np.asarray(arms)
    known = played.dtype.kind in "iu" and bool(np.all((played >= 0) & (played < K)))
    if played.shape != (rounds,) or not known:
        raise invalid("arms", owner, f"{rounds} integers below {K}", arms)
    a, asymmetry = regulariser_of(alpha, xi, K, owner)
    j = index("best", best, owner, K)

    after = np.cumsum(hat, axis=0)
    before = after - hat
    suffered = loss[np.arange(rounds), played]
    end = potential(after, eta, a, asymmetry)
    stability = suffered + end - attained(w, before, eta, a, asymmetry)
    penalty = potential(before, eta, a, asymmetry) - end - loss[:, j]
    return Decomposition(stability, penalty, suffered - loss[:, j])
