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
from bothworlds.lanes.vectors import maximum

CONSTANT = 0
"""Code of a constant rate; the parameter is its value."""
INVERSE_SQRT = 1
"""Code of ``parameter / sqrt(t)``, the form of Theorem 1."""
THEOREM_3 = 2
"""Code of Theorem 3's rate; the parameter is not used."""
THEOREM_4 = 3
"""Code of Theorem 4's rate; the parameter is not used."""
INVERSE_POWER = 4
"""Code of ``parameter / t^alpha``, for heavy tails; see `bothworlds.policies.htinf`."""


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

    def encoded(self, reduced_variance: bool) -> tuple[int, float]:
        """Return code and parameter for `rate`."""
        return CONSTANT, self.value


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

    def encoded(self, reduced_variance: bool) -> tuple[int, float]:
        """Return code and parameter for `rate`."""
        return INVERSE_SQRT, self.scale


@dataclass(frozen=True)
class Theorem1:
    """The learning rate of Theorem 1: 2 / sqrt(t), or 4 / sqrt(t) with reduced variance.

    What `TsallisINF` uses at alpha = 1/2, where it is optimal in both worlds.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.TsallisINF(learning_rate=bw.omd.Theorem1())
    TsallisINF(learning_rate=Theorem1())
    """

    def encoded(self, reduced_variance: bool) -> tuple[int, float]:
        """Return code and parameter for `rate`."""
        # In plain Python: to make a policy, no machine code is loaded.
        return INVERSE_SQRT, float(theorem1.py_func(1.0, reduced_variance))


@dataclass(frozen=True)
class Theorem3:
    """The learning rate of Theorem 3, for any alpha, against adversaries.

    What `TsallisINF` uses at every alpha but 1/2. It depends on alpha and the number of arms, and
    is 0 in round 1; `theorem3` has the formula.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.TsallisINF(alpha=0.5, estimator="iw", learning_rate=bw.omd.Theorem3())
    TsallisINF(estimator='iw', learning_rate=Theorem3())
    """

    def encoded(self, reduced_variance: bool) -> tuple[int, float]:
        """Return code and parameter for `rate`."""
        return THEOREM_3, 0.0


@dataclass(frozen=True)
class Theorem4:
    """The learning rate of Theorem 4, for any alpha, with the regulariser by the true gaps.

    What `TsallisINF` uses with ``gaps``; `theorem4` has the formula.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.TsallisINF(alpha=0.3, learning_rate=bw.omd.Theorem4())
    TsallisINF(alpha=0.3, learning_rate=Theorem4())
    """

    def encoded(self, reduced_variance: bool) -> tuple[int, float]:
        """Return code and parameter for `rate`."""
        return THEOREM_4, 0.0


Schedule = Constant | InverseSqrt | Theorem1 | Theorem3 | Theorem4
"""Values that a policy accepts as ``learning_rate``."""


def paper_schedule(alpha: float, asymmetric: bool) -> Schedule:
    """Return the paper's rate: Theorem 4's with gaps, else Theorem 1's at 1/2, 3's elsewhere.

    Examples
    --------
    >>> paper_schedule(0.5, False), paper_schedule(0.7, False), paper_schedule(0.5, True)
    (Theorem1(), Theorem3(), Theorem4())
    """
    if asymmetric:
        return Theorem4()
    return Theorem1() if alpha == 0.5 else Theorem3()


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
    log_tb = maximum(1.0, log_t)
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
    if code == INVERSE_POWER:
        return parameter * math.exp(-alpha * math.log(t))
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
    learning_rate : Schedule or None
        The user's choice; None asks for the paper's.
    alpha : float
        Tsallis index, on which the paper's rate depends.
    reduced_variance : bool
        Whether the losses are estimated with reduced variance.
    asymmetric : bool
        Whether the regulariser knows the gaps.
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
    chosen = paper_schedule(alpha, asymmetric) if learning_rate is None else learning_rate
    if not isinstance(chosen, Schedule):
        expected = "None or a schedule of omd, such as omd.Constant(value) or omd.Theorem3()"
        raise InvalidParameter(must("learning_rate", owner, expected, learning_rate))
    return chosen.encoded(reduced_variance)
