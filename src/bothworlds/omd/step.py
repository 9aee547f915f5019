"""The OMD step: from loss estimates and a learning rate to a distribution over the arms.

`weights` is the public function. `solve` is the same step for compiled kernels: no allocation,
no checks, an optional warm start.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import finite_vector, non_negative, share
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
    owner = "omd.weights"
    L = finite_vector("losses", losses, owner, "a non-empty sequence of finite numbers", "biuf")
    with np.errstate(over="ignore"):
        if not np.isfinite(L.max() - L.min()):
            expected = "numbers whose differences are finite"
            raise InvalidParameter(must("losses", owner, expected, losses))
    eta = non_negative("eta", eta, owner)
    alpha = share("alpha", alpha, owner)
    factors = L[:0]
    if xi is not None:
        expected = f"a sequence of {L.size} finite positive numbers"
        factors = finite_vector("xi", xi, owner, expected, "biuf")
        if factors.size != L.size or factors.min() <= 0.0:
            raise InvalidParameter(must("xi", owner, expected, xi))
    w = np.empty_like(L)
    solve(L, factors, eta, alpha, -1.0, w)
    return w
