"""Learning rates: those of the paper's theorems, and schedules a user can choose.

======== =====================================================
``t``    round, from 1
``K``    number of arms
``a``    alpha, in [0, 1]
``eta``  learning rate of round t
======== =====================================================

The formulas hold for every alpha in [0, 1]: differences of powers are written with expm1, so they
run smoothly into their limits, logarithms, at alpha = 0 and alpha = 1.

Kernels evaluate any of them with one compiled function, `rate`, from an integer code and one
parameter; `encode` gives both for the settings of a policy.

References
----------
J. Zimmert and Y. Seldin, "Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
Bandits", JMLR 22(28), 2021, Theorems 1, 3 and 4.
"""

import math
from dataclasses import dataclass

from bothworlds.arguments import keep, positive
from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.jit import jit

CONSTANT = 0
"""Code of a constant rate; the parameter is its value."""
INVERSE_SQRT = 1
"""Code of ``parameter / sqrt(t)``, the form of Theorem 1."""
THEOREM_3 = 2
"""Code of Theorem 3's rate; the parameter is not used."""
THEOREM_4 = 3
"""Code of Theorem 4's rate; the parameter is not used."""


@dataclass(frozen=True)
class Constant:
    """The same learning rate in every round.

    Parameters
    ----------
    value : float
        The rate, positive.

    Examples
    --------
    >>> Constant(0.1)
    Constant(value=0.1)
    """

    value: float

    def __post_init__(self) -> None:
        keep(self, value=positive("value", self.value, "Constant", "a finite positive number"))


@dataclass(frozen=True)
class InverseSqrt:
    """The learning rate ``scale / sqrt(t)`` in round t.

    Theorem 1 uses scale 2 with importance-weighted and 4 with reduced-variance estimates.

    Parameters
    ----------
    scale : float
        The rate of the first round, positive.

    Examples
    --------
    >>> InverseSqrt(2)
    InverseSqrt(scale=2.0)
    """

    scale: float

    def __post_init__(self) -> None:
        keep(self, scale=positive("scale", self.scale, "InverseSqrt", "a finite positive number"))


Schedule = Constant | InverseSqrt
"""What a policy accepts as ``learning_rate``."""


@jit
def theorem1(t: float, reduced_variance: bool) -> float:
    """Return Theorem 1's rate: 2 / sqrt(t), or 4 / sqrt(t) with reduced-variance estimates.

    Examples
    --------
    >>> theorem1(4, False), theorem1(4, True)
    (1.0, 2.0)
    """
    return (4.0 if reduced_variance else 2.0) / math.sqrt(t)


@jit
def theorem3(t: float, n_arms: int, alpha: float) -> float:
    """Return Theorem 3's rate, for any alpha and symmetric regularisation.

    ``eta^2 = (K^(1 - 2a) - K^(-a)) / (1 - a) * (1 - t^(-a)) / (a t)``, with limits
    ``(K - 1) log(t) / t`` at alpha = 0 and ``log(K) / K * (1 - 1/t) / t`` at alpha = 1. The paper
    prints the last one without ``1 / K``, which is neither the limit nor what its proof uses. In
    round 1 the rate is 0 for every alpha: play the minimiser of the regulariser.

    Examples
    --------
    >>> theorem3(1, 8, 0.5)
    0.0
    >>> round(theorem3(16, 4, 0.5), 12)  # 2 sqrt((1 - 1/2) (1 - 1/4) / 16)
    0.306186217848
    """
    log_t = math.log(t)
    log_n = math.log(n_arms)
    b = 1.0 - alpha
    arms = -math.expm1(-b * log_n) / b if b > 0.0 else log_n
    # A smaller alpha makes no difference, and its product with the logarithm has no digits left.
    rounds = -math.expm1(-alpha * log_t) / alpha if alpha > 1e-290 else log_t
    return math.sqrt(math.exp((1.0 - 2.0 * alpha) * log_n) * arms * rounds / t)


@jit
def theorem4(t: float, alpha: float) -> float:
    """Return Theorem 4's rate, for any alpha and the asymmetric regularisation by the gaps.

    ``eta = 16^a / 4 * (1 - tb^(a - 1)) / ((1 - a) t^a)`` with ``tb = max(e, t)``.

    Examples
    --------
    >>> round(theorem4(4, 0.5), 12), round(theorem4(4, 0.0), 12)
    (0.5, 0.1875)
    """
    log_t = math.log(t)
    log_tb = max(1.0, log_t)
    b = 1.0 - alpha
    rounds = -math.expm1(-b * log_tb) / b if b > 0.0 else log_tb
    return 0.25 * math.exp(alpha * (math.log(16.0) - log_t)) * rounds


@jit
def rate(code: int, parameter: float, alpha: float, n_arms: int, t: float) -> float:
    """Return the learning rate of round t for a code and parameter from `encode`.

    Examples
    --------
    >>> rate(INVERSE_SQRT, 2.0, 0.5, 8, 4)
    1.0
    """
    if code == INVERSE_SQRT:
        return parameter / math.sqrt(t)
    if code == THEOREM_3:
        return float(theorem3(t, n_arms, alpha))
    if code == THEOREM_4:
        return float(theorem4(t, alpha))
    return parameter


def encode(
    learning_rate: object,
    *,
    alpha: float,
    reduced_variance: bool,
    asymmetric: bool,
    owner: str,
) -> tuple[int, float]:
    """Return the code and parameter with which `rate` evaluates a policy's learning rate.

    Parameters
    ----------
    learning_rate : Constant, InverseSqrt or None
        The user's choice; None asks for the paper's.
    alpha : float
        Tsallis index. The paper's rate is Theorem 1's at 1/2 and Theorem 3's elsewhere.
    reduced_variance : bool
        Whether the losses are estimated with reduced variance.
    asymmetric : bool
        Whether the regulariser knows the gaps; then the paper's rate is Theorem 4's.
    owner : str
        The policy's name, for the error.

    Returns
    -------
    code : int
        One of CONSTANT, INVERSE_SQRT, THEOREM_3, THEOREM_4.
    parameter : float
        Its parameter; 0 where it has none.

    Raises
    ------
    InvalidParameter
        If the learning rate is none of these.

    Examples
    --------
    >>> encode(None, alpha=0.5, reduced_variance=True, asymmetric=False, owner="TsallisINF")
    (1, 4.0)
    """
    if isinstance(learning_rate, Constant):
        return CONSTANT, learning_rate.value
    if isinstance(learning_rate, InverseSqrt):
        return INVERSE_SQRT, learning_rate.scale
    if learning_rate is not None:
        expected = "None, omd.Constant(value) or omd.InverseSqrt(scale)"
        raise InvalidParameter(must("learning_rate", owner, expected, learning_rate))
    if asymmetric:
        return THEOREM_4, 0.0
    if alpha == 0.5:
        # In plain Python: to make a policy, no machine code is loaded.
        return INVERSE_SQRT, float(theorem1.py_func(1.0, reduced_variance))
    return THEOREM_3, 0.0
