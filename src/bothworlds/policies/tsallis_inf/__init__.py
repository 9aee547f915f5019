"""Tsallis-INF: online mirror descent with Tsallis entropy (Zimmert and Seldin, 2021, Algorithm 1).

Every round t = 1, 2, ...:

1. w_t = argmin over the simplex of <w, L> + Psi_t(w),
   Psi_t(w) = -(1 / eta_t) sum_i (w_i^alpha - alpha w_i) / (alpha (1 - alpha) xi_i);
2. draw I from w_t and observe its loss;
3. L_i += lhat_i with the IW or RV estimator (`bothworlds.omd.estimators`).

========== ======================================= =======================================
setting    eta_t                                   guarantee
========== ======================================= =======================================
alpha 1/2  2 / sqrt(t) (IW), 4 / sqrt(t) (RV)      Theorem 1: both worlds
alpha      Theorem 3                               adversarial
gaps       Theorem 4, xi_i = gap_i^(1 - 2 alpha)   stochastic, needs the true gaps
========== ======================================= =======================================

At alpha = 1/2 the kernels are those of `bothworlds.omd.half` or, for few and for many arms,
`bothworlds.omd.few` and `bothworlds.omd.many`; elsewhere they call the general solver of
`bothworlds.omd.step`, one repetition at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numba import carray

from bothworlds.arguments import Estimator, estimator_name
from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import unpack
from bothworlds.lanes.random import uniform
from bothworlds.lanes.rows import FEW, add_to
from bothworlds.lanes.vectors import load, select, store
from bothworlds.omd import few, half
from bothworlds.omd.entering import entry_estimate
from bothworlds.omd.estimators import add_estimates, baseline, correction, with_baseline
from bothworlds.omd.learning_rates import Constant, Schedule, encode, rate
from bothworlds.omd.recentring import RECENTRE_EVERY
from bothworlds.omd.step import solve
from bothworlds.policies import base
from bothworlds.policies.base import Array, Kernels, Policy, Saved

MANY = 512
"""Number of arms from which the kernels for many arms are faster, measured.

Saved bandits have one state or the other by this number."""

# Parameters: rate code, rate parameter, alpha, reduced variance?, number of xi, xi_1, ..., xi_K.
CODE, PARAMETER, ALPHA, REDUCED, UNEQUAL, FACTORS = 0, 1, 2, 3, 4, 5


@jit
def rate_now(K: int, t: int, C: Any) -> Any:
    """Return eta_t."""
    return rate(int(C[CODE]), C[PARAMETER], C[ALPHA], K, t)


@jit
def near_limit(eta: float) -> Any:
    """Return the largest y with w = 4 / (eta y)^2 >= eta^2, the near arms at alpha = 1/2."""
    return 2.0 / (eta * eta)


# --- alpha = 1/2 -----------------------------------------------------------------------------


@jit
def choose_half_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw; see `few.draw` and `half.draw`."""
    if t % RECENTRE_EVERY == 0:
        half.recentre(K, S, u)
    eta = rate_now(K, t, C)
    if few.fits(K):
        return few.draw(K, S, eta, u)
    return half.draw(K, S, eta, None, u)


@jit
def update_half_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    if few.fits(K):
        add_to(S, half.ESTIMATES, K, arm, loss * inverse_p)
    else:
        half.move_drawn(K, S, arm, loss * inverse_p)


@jit
def choose_half_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw, keeping what the update needs; see `few.draw` and `half.draw`."""
    if t % RECENTRE_EVERY == 0:
        half.recentre(K, S, u)
    eta = rate_now(K, t, C)
    if few.fits(K):
        return few.draw(K, S, eta, u)
    return half.draw(K, S, eta, near_limit(eta), u)


@jit
def update_half_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    limit = near_limit(rate_now(K, t, C))
    base = baseline(inverse_p <= 0.5 * limit, loss)  # 1 / w_I <= 1 / eta^2
    by = correction(loss, base, inverse_p)
    x = load(S, half.ROOT, loss)
    if K <= FEW:
        for i in range(K):
            L = load(S, half.ESTIMATES + i, loss)
            L = with_baseline(L, L - x <= limit)
            store(S, half.ESTIMATES + i, select(arm == i, L + by, L))
    else:
        for i in range(half.ESTIMATES, half.ESTIMATES + K):
            L = load(S, i, loss)
            store(S, i, with_baseline(L, L - x <= limit))
        add_to(S, half.ESTIMATES, K, arm, by)
    if not few.fits(K):
        half.shift_near(S, base)
        half.replace_drawn(S, by)


@jit
def ask_half_iw(F: Any) -> Any:
    """Draw an arm for one bandit."""
    K, t, C, S, G = unpack(F)
    return choose_half_iw(K, t, C, S, G, uniform(G, 0.0))


@jit
def tell_half_iw(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn from the loss of the arm just drawn."""
    K, t, C, S, G = unpack(F)
    update_half_iw(K, t, C, S, G, arm, inverse_p, loss)


@jit
def ask_half_rv(F: Any) -> Any:
    """Draw an arm for one bandit."""
    K, t, C, S, G = unpack(F)
    return choose_half_rv(K, t, C, S, G, uniform(G, 0.0))


@jit
def tell_half_rv(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn from the loss of the arm just drawn."""
    K, t, C, S, G = unpack(F)
    update_half_rv(K, t, C, S, G, arm, inverse_p, loss)


@jit
def weights_half(F: Any, out: Any) -> None:
    """w_i = 4 / (eta (L_i - x))^2 at the root of the round."""
    K, t, C, S, G = unpack(F)
    half.fill_weights(K, S, rate_now(K, t, C), out)


@jit
def near_half(F: Any, out: Any) -> None:
    """Mark the near arms of the round, those whose estimate gets the baseline."""
    K, t, C, S, G = unpack(F)
    limit = near_limit(rate_now(K, t, C))
    for i in range(K):
        out[i] = S[half.ESTIMATES + i] - S[half.ROOT] <= limit


@jit
def late_half(F: Any, arm: int, inverse_p: float, loss: float, near: Any) -> None:
    """Learn from a decision that is no longer the last one; ``near`` as it was then."""
    K, t, C, S, G = unpack(F)
    L = carray(S, (half.ESTIMATES + K,))[half.ESTIMATES :]
    add_estimates(L, arm, inverse_p, loss, near, 1.0)
    half.restart(K, S, 0.0)


@jit
def estimates_changed_half(F: Any) -> None:
    """Prepare the solver for estimates that changed otherwise than by ``tell``."""
    K, t, C, S, G = unpack(F)
    half.restart(K, S, 0.0)


# --- any alpha, and unequal xi ---------------------------------------------------------------
# Rows: inverse probability, the multiplier z of `solve`, then L and w of every arm.
MULTIPLIER, ESTIMATES = 1, 2


@jit
def choose_general(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve for w and draw from it."""
    state = carray(S, (ESTIMATES + 2 * K,))
    L = state[ESTIMATES : ESTIMATES + K]
    w = state[ESTIMATES + K :]
    xi = carray(C, (FACTORS + K,))[FACTORS : FACTORS + int(C[UNEQUAL])]
    z, _ = solve(L, xi, rate_now(K, t, C), C[ALPHA], S[MULTIPLIER], w)
    S[MULTIPLIER] = z
    return draw_general(K, S, u)


@jit
def draw_general(K: int, S: Any, u: float) -> Any:
    """Draw from the solver's weights of the round."""
    w = carray(S, (ESTIMATES + 2 * K,))[ESTIMATES + K :]
    arm = 0
    total = w[0]
    while total <= u and arm < K - 1:
        arm += 1
        total += w[arm]
    while w[arm] == 0.0 and arm > 0:
        arm -= 1
    S[0] = 1.0 / w[arm]
    return arm


@jit
def mark_near(K: int, t: int, C: Any, S: Any, near: Any) -> None:
    """Mark the arms with w_i >= eta^2; none under IW."""
    eta = rate_now(K, t, C)
    for i in range(K):
        near[i] = C[REDUCED] > 0.0 and S[ESTIMATES + K + i] >= eta * eta


@jit
def update_general(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I, with B = 0 for IW."""
    eta = rate_now(K, t, C)
    base = 0.0
    if C[REDUCED] > 0.0:
        base = baseline(S[ESTIMATES + K + arm] >= eta * eta, 0.0)
        for i in range(K):
            S[ESTIMATES + i] += baseline(S[ESTIMATES + K + i] >= eta * eta, 0.0)
    S[ESTIMATES + arm] += correction(loss, base, inverse_p)


@jit
def ask_general(F: Any) -> Any:
    """Draw an arm for one bandit."""
    K, t, C, S, G = unpack(F)
    return choose_general(K, t, C, S, G, uniform(G, 0.0))


@jit
def tell_general(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn from the loss of the arm just drawn."""
    K, t, C, S, G = unpack(F)
    update_general(K, t, C, S, G, arm, inverse_p, loss)


@jit
def weights_general(F: Any, out: Any) -> None:
    """The solver's weights of the round."""
    K, t, C, S, G = unpack(F)
    for i in range(K):
        out[i] = S[ESTIMATES + K + i]


@jit
def near_general(F: Any, out: Any) -> None:
    """Mark the near arms of the round, those whose estimate gets the baseline."""
    K, t, C, S, G = unpack(F)
    mark_near(K, t, C, S, out)


@jit
def late_general(F: Any, arm: int, inverse_p: float, loss: float, near: Any) -> None:
    """Learn from a decision that is no longer the last one; ``near`` as it was then."""
    K, t, C, S, G = unpack(F)
    L = carray(S, (ESTIMATES + 2 * K,))[ESTIMATES : ESTIMATES + K]
    add_estimates(L, arm, inverse_p, loss, near, 1.0)


# --- the policy ------------------------------------------------------------------------------

_HALF_IW = Kernels(
    choose_half_iw,
    update_half_iw,
    ask_half_iw,
    tell_half_iw,
    weights_half,
    late=late_half,
    estimates_changed=estimates_changed_half,
)
_HALF_RV = Kernels(
    choose_half_rv,
    update_half_rv,
    ask_half_rv,
    tell_half_rv,
    weights_half,
    near=near_half,
    late=late_half,
    estimates_changed=estimates_changed_half,
)
_GENERAL = Kernels(
    choose_general,
    update_general,
    ask_general,
    tell_general,
    weights_general,
    near=near_general,
    late=late_general,
    wide=False,
)


@dataclass(frozen=True, repr=False)
class TsallisINF(Policy):
    """Tsallis-INF, optimal against stochastic and adversarial losses at once.

    At alpha = 1/2 and with 512 arms or more, a round costs far less than a look at every arm.

    Parameters
    ----------
    alpha : float, default 0.5
        Power of the Tsallis entropy, in [0, 1]: 0 is the log-barrier, 1 the negative entropy.
        Only 1/2 is optimal in both worlds.
    estimator : {"rv", "iw"}, default "rv"
        Reduced-variance or plain importance-weighted loss estimates.
    learning_rate : float or schedule, optional
        The paper's eta_t. By default Theorem 1's rate at alpha = 1/2, Theorem 3's elsewhere and
        Theorem 4's with ``gaps``. A number is a constant rate; `omd.InverseSqrt` and
        `omd.Constant` are schedules. No theorem covers a rate of one's own.
    gaps : sequence of float, optional
        The true gap of every arm, exactly one of them 0: the asymmetric regulariser
        xi_i = gap_i^(1 - 2 alpha) of Theorem 4, an oracle for experiments.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green", "red"], seed=7)
    >>> decision = bandit.ask()
    >>> bandit.tell(decision, reward=1.0)

    References
    ----------
    Zimmert and Seldin, *Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
    Bandits*, JMLR 22, 2021.
    """

    alpha: float = 0.5
    estimator: Estimator = "rv"
    learning_rate: float | Schedule | None = None
    gaps: Sequence[float] | None = None

    estimates: ClassVar[bool] = True
    saved_rows: ClassVar[dict[int, Saved] | None] = {0: base.ESTIMATES}

    def __post_init__(self) -> None:
        alpha = self.alpha
        if not isinstance(alpha, Real) or isinstance(alpha, bool) or not 0 <= alpha <= 1:
            raise InvalidParameter(must("alpha", "TsallisINF", "a number in [0, 1]", alpha))
        estimator_name(self.estimator, "TsallisINF")
        object.__setattr__(self, "alpha", float(alpha))
        if isinstance(self.learning_rate, Real) and not isinstance(self.learning_rate, bool):
            object.__setattr__(self, "learning_rate", float(self.learning_rate))
        self._rate_code()
        if self.gaps is not None:
            object.__setattr__(self, "gaps", _checked_gaps(self.gaps))

    @property
    def _is_half(self) -> bool:
        return self.alpha == 0.5

    @property
    def head_rows(self) -> int:  # type: ignore[override]
        """Rows of the solver before the estimates."""
        return half.ESTIMATES if self._is_half else ESTIMATES

    @property
    def rows_per_arm(self) -> int:  # type: ignore[override]
        """The estimates; away from alpha = 1/2 also the weights."""
        return 1 if self._is_half else 2

    @property
    def resizable(self) -> bool:  # type: ignore[override]
        """Without gaps, which are given for all arms at once."""
        return self.gaps is None

    @property
    def separable(self) -> bool:  # type: ignore[override]
        """Without gaps, which are given for all arms at once."""
        return self.gaps is None

    def _rate_code(self) -> tuple[int, float]:
        given = self.learning_rate
        if isinstance(given, float):
            if not (math.isfinite(given) and given > 0):
                expected = "a positive number or a schedule"
                raise InvalidParameter(must("learning_rate", "TsallisINF", expected, given))
            given = Constant(given)
        return encode(
            given,
            alpha=self.alpha,
            reduced_variance=self.estimator == "rv",
            asymmetric=self.gaps is not None,
            owner="TsallisINF",
        )

    def for_arms(self, n_arms: int) -> Policy:
        """Return a twin that does not look at every arm where there are many."""
        if not self._is_half or n_arms < MANY or type(self).kernels is not TsallisINF.kernels:
            return self
        from bothworlds.policies.tsallis_inf.many import ManyArms

        return ManyArms(self)

    def parameters(self, n_arms: int) -> Array:
        """Return rate code and parameter, alpha, the estimator and the factors xi."""
        code, parameter = self._rate_code()
        head = [code, parameter, self.alpha, float(self.estimator == "rv")]
        xi = np.zeros(0)
        if self.gaps is not None:
            gaps = np.asarray(self.gaps)
            if gaps.size != n_arms:
                raise InvalidParameter(
                    must("gaps", "TsallisINF", f"one number for each of {n_arms} arms", self.gaps)
                )
            if not self._is_half and n_arms > 1:
                xi = np.where(gaps > 0, gaps, gaps[gaps > 0].min()) ** (1 - 2 * self.alpha)
        return np.concatenate([head, [float(xi.size)], xi])

    def start(self, n_arms: int) -> Array:
        """Return L = 0 and a solver about to take its first step."""
        state = np.zeros(self.head_rows + self.rows_per_arm * n_arms)
        if self._is_half:
            half.first_state(n_arms, state)
            few.first_state(n_arms, state)
        else:
            state[MULTIPLIER] = -1.0
        return state

    def newcomer(self, rows: Array, t: int, probability: float) -> Array:
        """Return an estimate with which the arm has this probability in round ``t``."""
        n_arms = rows.shape[1] + 1
        column = np.zeros(self.rows_per_arm)
        eta = rate_now(n_arms, t, self.parameters(n_arms))
        column[0] = entry_estimate(rows[0], eta, self.alpha, probability)
        return column

    def kernels(self) -> Kernels:
        """Return the kernels of this alpha and estimator."""
        if not self._is_half:
            return _GENERAL
        return _HALF_RV if self.estimator == "rv" else _HALF_IW


def _checked_gaps(gaps: Any) -> tuple[float, ...]:
    try:
        values = np.asarray(gaps, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    fits = values.ndim == 1 and values.size > 0 and np.all((values >= 0) & (values <= 1))
    if not fits or np.count_nonzero(values == 0) != 1:
        raise InvalidParameter(
            must("gaps", "TsallisINF", "numbers in [0, 1], exactly one of them 0", gaps)
        )
    return tuple(values.tolist())
