"""The OMD step: from loss estimates and a learning rate to a distribution over the arms.

`weights` is the public function. `solve` is the same step for compiled kernels: no allocation,
no checks, an optional warm start.
"""

import math
import sys

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.jit import jit
from bothworlds.omd.asymmetric import solve_asymmetric
from bothworlds.omd.symmetric import solve_symmetric


@jit
def solve(
    L: NDArray[np.float64],
    xi: NDArray[np.float64],
    eta: float,
    alpha: float,
    z0: float,
    w: NDArray[np.float64],
) -> tuple[float, int]:
    """Fill ``w`` with the OMD step; for compiled callers.

    Parameters
    ----------
    L : array of float, contiguous
        Loss estimates, possibly a slice of a larger state; only differences matter.
    xi : array of float, contiguous
        The regulariser's factors, or an empty array (``L[:0]``) if all are 1.
    eta : float
        Learning rate, at least 0.
    alpha : float
        Tsallis index in [0, 1].
    z0 : float
        Start for ``z``, such as the previous round's; negative if there is none.
    w : array of float
        Receives the weights.

    Returns
    -------
    z : float
        ``eta * (min(L) - y)``, the dimensionless multiplier, at least 0.
    passes : int
        How often the weights were evaluated.
    """
    if L.shape[0] == 1:
        w[0] = 1.0
        return 0.0, 0
    if xi.shape[0] == 0:
        z, passes = solve_symmetric(L, eta, alpha, z0, w)
    else:
        z, passes = solve_asymmetric(L, xi, eta, alpha, z0, w)
    return z, passes


def _vector(values: ArrayLike, parameter: str, expected: str) -> NDArray[np.float64]:
    try:
        given = np.asarray(values)
        if given.ndim == 1 and given.size > 0 and given.dtype.kind in "biuf":
            vector = np.array(given, dtype=np.float64)
            if np.isfinite(vector).all():
                return vector
    except ValueError:
        pass  # a ragged sequence
    raise InvalidParameter(must(parameter, "omd.weights", expected, values))


def _number(value: float, parameter: str, expected: str, upper: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= upper:
        raise InvalidParameter(must(parameter, "omd.weights", expected, value))
    return number


def weights(
    losses: ArrayLike, eta: float, alpha: float = 0.5, xi: ArrayLike | None = None
) -> NDArray[np.float64]:
    r"""Return the distribution that online mirror descent plays.

    The minimiser over the simplex of

    .. math:: \langle w, L \rangle - \frac{1}{\eta} \sum_i
        \frac{w_i^\alpha - \alpha w_i}{\alpha (1 - \alpha) \xi_i},

    that is :math:`w_i = (1 + (1 - \alpha) \eta \xi_i (L_i - y))^{-1/(1 - \alpha)}` with the
    :math:`y \le \min_i L_i` for which the weights sum to 1. At ``alpha=1`` these are exponential
    weights, at ``alpha=0`` those of the log-barrier.

    Parameters
    ----------
    losses : array_like of float
        Cumulative loss (estimates) :math:`L_i` of the arms, any offset; the given doubles are
        taken as exact.
    eta : float
        Learning rate. 0 gives the minimiser of the regulariser alone, which is uniform
        when ``xi`` is constant.
    alpha : float
        Tsallis index in [0, 1].
    xi : array_like of float, optional
        Positive factors :math:`\xi_i` of an asymmetric regulariser (Theorem 4); 1 by default.

    Returns
    -------
    ndarray of float
        The weights, in the order of the losses.

    Raises
    ------
    InvalidParameter
        If an argument is not finite, out of range or of the wrong shape.

    Notes
    -----
    For 1 to 1e6 arms, ``eta`` from 1e-9 to 1e3 and losses spread over up to 1e12, every weight of
    at least 1e-290 has a relative error of at most 1e-12 and the sum is 1 within 1e-12; smaller
    weights tend to 0. The multiplier is found by an accelerated, clipped Newton iteration
    that cannot reach the second root beyond the pole; see ``bothworlds.omd.symmetric`` and
    ``bothworlds.omd.asymmetric`` for the argument.

    References
    ----------
    J. Zimmert and Y. Seldin, "Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
    Bandits", JMLR 22(28), 2021, sections 3 and 4.3.

    Examples
    --------
    >>> from bothworlds import omd
    >>> omd.weights([0.0, 0.0, 0.0, 0.0], eta=1.0)
    array([0.25, 0.25, 0.25, 0.25])
    >>> omd.weights([3.0, 0.0, 1.0], eta=0.5).round(6)
    array([0.202345, 0.46084 , 0.336815])
    >>> omd.weights([3.0, 0.0, 1.0], eta=0.5, alpha=1.0).round(6)
    array([0.121952, 0.546549, 0.331499])
    """
    L = _vector(losses, "losses", "a non-empty sequence of finite numbers")
    with np.errstate(over="ignore"):
        if not np.isfinite(L.max() - L.min()):
            raise InvalidParameter(
                must("losses", "omd.weights", "numbers whose differences are finite", losses)
            )
    eta = _number(eta, "eta", "a finite number of at least 0", sys.float_info.max)
    alpha = _number(alpha, "alpha", "a number in [0, 1]", 1.0)
    factors = L[:0]
    if xi is not None:
        expected = f"a sequence of {L.size} finite positive numbers"
        factors = _vector(xi, "xi", expected)
        if factors.size != L.size or factors.min() <= 0.0:
            raise InvalidParameter(must("xi", "omd.weights", expected, xi))
    w = np.empty_like(L)
    solve(L, factors, eta, alpha, -1.0, w)
    return w
