"""LB-INF-V: variance-adaptive with a theorem, the horizon known (Ito, Tsuchiya and Honda, 2022).

Optimistic FTRL with a log-barrier per arm, whose weight grows with the arm's squared residuals:

========= ==========================================================================
``g``     log T
``m_i``   prediction of arm i's loss, starts at 1/2
``L_i``   cumulative loss estimate
``b_i``   weight of the barrier, b_i^2 starts at (1 + 1/5)^2
``p``     the step of `bothworlds.omd.barrier_entropy` on L + m
``d``     l - m_I, the residual of the arm I that was played
========= ==========================================================================

1. draw I from p and observe its loss l;
2. L_i += m_i for every arm; L_I += d / p_I;
3. b_I^2 += d^2 min(1, 2 (1 - p_I) / (p_I^2 g)) / g;
4. "ls": m_I = (1/2 + s_I) / (1 + n_I), the sum and number of its losses; "gd": m_I += step d.

A decision that is no longer the last one is learned from with baseline 0 and leaves b alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numba import carray

from bothworlds.arguments import keep, number, one_of, whole
from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes.distributions import draw_arm
from bothworlds.lanes.jit import jit
from bothworlds.omd.barrier_entropy import derivative, solve_barrier_entropy
from bothworlds.omd.estimators import correction
from bothworlds.omd.recentring import RECENTRE_EVERY, recentre
from bothworlds.policies import base
from bothworlds.policies.base import Array, Kernels, Policy, Saved, Traits
from bothworlds.registry import POLICIES, Entry

Prediction = Literal["ls", "gd"]

# Parameters: g, whether predictions are means ("ls", 0) or move by a step ("gd", the step).
LOG_HORIZON, STEP = 0, 1
# Rows: inverse probability, nu; then of every arm L, b^2, m, n, p and 1 - p.
MULTIPLIER, ESTIMATES = 1, 2
FIELDS = 6
LOSSES, BARRIERS, MEANS, TOLD, WEIGHTS, RESTS = range(FIELDS)
BARRIER_1 = 1.2**2
MEAN_1 = 0.5


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve and draw."""
    if t % RECENTRE_EVERY == 0:
        S[MULTIPLIER] -= recentre(K, S, ESTIMATES, u)
    arms = carray(S, (ESTIMATES + FIELDS * K,))[ESTIMATES:].reshape((FIELDS, K))
    X = arms[LOSSES] + arms[MEANS]
    b = np.sqrt(arms[BARRIERS])
    p = arms[WEIGHTS]
    nu, _, _ = solve_barrier_entropy(X, b, C[LOG_HORIZON], 1.0, S[MULTIPLIER], p, arms[RESTS])
    S[MULTIPLIER] = nu
    total = p.sum()
    arm, weight = draw_arm(K, S, ESTIMATES + WEIGHTS * K, total, u)
    S[0] = total / weight
    return arm


@jit
def moved_prediction(C: Any, m: float, n: float, loss: float) -> Any:
    """Return the prediction of an arm after a loss, the one after ``n`` others."""
    return m + (loss - m) * (C[STEP] if C[STEP] > 0.0 else 1.0 / (n + 2.0))


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float) -> None:
    """L_i += m_i; L_I += d / p_I; then the barrier and the prediction of the arm."""
    arms = carray(S, (ESTIMATES + FIELDS * K,))[ESTIMATES:].reshape((FIELDS, K))
    g = C[LOG_HORIZON]
    m = arms[MEANS, arm]
    d = loss - m
    for i in range(K):
        arms[LOSSES, i] += arms[MEANS, i]
    arms[LOSSES, arm] += correction(loss, m, inverse_p)
    arms[BARRIERS, arm] += d * d * min(1.0, 2.0 * arms[RESTS, arm] * inverse_p * inverse_p / g) / g
    learn_mean(C, arms, arm, loss)


@jit
def learn_mean(C: Any, arms: Any, arm: int, loss: float) -> None:
    """Move the prediction of an arm and count its loss."""
    arms[MEANS, arm] = moved_prediction(C, arms[MEANS, arm], arms[TOLD, arm], loss)
    arms[TOLD, arm] += 1.0


@jit
def late(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Learn from a decision that is no longer the last one: baseline 0, the barrier stays."""
    arms = carray(S, (ESTIMATES + FIELDS * K,))[ESTIMATES:].reshape((FIELDS, K))
    arms[LOSSES, arm] += correction(loss, 0.0, inverse_p)
    learn_mean(C, arms, arm, loss)


@jit
def estimates_changed(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Let the solver start without the last round's nu."""
    recentre(K, S, ESTIMATES, 0.0)
    S[MULTIPLIER] = 0.0


_KERNELS = Kernels.of(
    choose,
    update,
    (ESTIMATES, WEIGHTS),
    late=late,
    estimates_changed=estimates_changed,
    any_draw=True,
    wide=False,
)


@dataclass(frozen=True, repr=False)
class LBINFV(Policy):
    """LB-INF-V, whose regret in both worlds follows the variance of the losses, by a theorem.

    For independent losses its regret is of order sum_i (sigma_i^2 / gap_i + 1) log T, sigma_i^2
    the variance of arm i, with a leading constant about twice that of the lower bound. Against
    adversaries it is of order sqrt(K log T min(L*, T - L*, Q)) with ``"ls"``, L* the best arm's
    loss and Q the squared deviations from a mean, and sqrt(K V log T) with ``"gd"``, V the path
    length of the losses.

    Parameters
    ----------
    horizon : int
        Number of rounds T, at least 2, or an upper guess: only its logarithm enters.
    prediction : {"ls", "gd"}, default "ls"
        How the next loss of an arm is predicted: by the mean of its losses, or by steps towards
        each.
    step : float, default 0.25
        Size of these steps, in (0, 1].

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.LBINFV(horizon=10_000), arms=["blue", "green", "red"], seed=7)
    >>> bandit.tell(bandit.ask(), reward=0.0)

    References
    ----------
    Ito, Tsuchiya and Honda, *Adversarially Robust Multi-Armed Bandit Algorithm with
    Variance-Dependent Regret Bounds*, COLT 2022.
    Tsuchiya, Ito and Honda, *Further Adaptive Best-of-Both-Worlds Algorithm for Combinatorial
    Semi-Bandits*, AISTATS 2023.
    """

    horizon: int
    prediction: Prediction = "ls"
    step: float = 0.25

    registered: ClassVar[Entry | None] = POLICIES["LBINFV"]
    traits: ClassVar[Traits] = Traits(
        needs_horizon=True,
        nanoseconds=(200.0, 130.0),
        head_rows=ESTIMATES,
        rows_per_arm=FIELDS,
        estimates=True,
        late_as_prompt=False,
        resizable=True,
        saved_rows={
            LOSSES: base.ESTIMATES,
            BARRIERS: Saved("barriers", low=1.0),
            MEANS: Saved("means", low=0.0, high=1.0),
            TOLD: base.TOLD,
        },
    )

    def __post_init__(self) -> None:
        owner = "LBINFV"
        expected = "a number above 0, at most 1"
        step = number("step", self.step, owner, 0.0, 1.0, expected)
        if step == 0.0:
            raise InvalidParameter(must("step", owner, expected, self.step))
        keep(
            self,
            horizon=whole("horizon", self.horizon, owner, 2),
            prediction=one_of("prediction", self.prediction, owner, ("ls", "gd")),
            step=step,
        )
        # Means do not depend on the order of the losses, steps towards them do.
        keep(self, traits=replace(self.traits, order_invariant=self.prediction == "ls"))

    @property
    def log_horizon(self) -> float:
        """The logarithm of T, T at least 3."""
        return math.log(max(self.horizon, 3))

    def parameters(self, n_arms: int) -> Array:
        """Return log T and the step, 0 for means."""
        return np.array([self.log_horizon, self.step if self.prediction == "gd" else 0.0])

    def start(self, n_arms: int) -> Array:
        """Return L = 0, predictions of 1/2 and barriers of 6/5."""
        state = np.zeros(self.traits.head_rows + self.traits.rows_per_arm * n_arms)
        arms = state[ESTIMATES:].reshape(FIELDS, n_arms)
        arms[BARRIERS] = BARRIER_1
        arms[MEANS] = MEAN_1
        return state

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm has this probability in the next round."""
        n_arms = rows.shape[1]
        w0 = 1.0 / (n_arms + 1) if probability is None else probability
        p, c = np.zeros(n_arms), np.zeros(n_arms)
        X, b = rows[LOSSES] + rows[MEANS], np.sqrt(rows[BARRIERS])
        nu, _, _ = solve_barrier_entropy(X, b, self.log_horizon, 1.0 - w0, math.nan, p, c)
        column = np.zeros(FIELDS)
        column[BARRIERS], column[MEANS] = BARRIER_1, MEAN_1
        rise = math.sqrt(BARRIER_1) * derivative(w0, self.log_horizon)
        column[LOSSES] = nu - rise - MEAN_1
        return column

    def kernels(self) -> Kernels:
        """Return the kernels."""
        return _KERNELS
