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

Late feedback uses m_I and 1 - p_I of its decision, which a bandit carries with it; outstanding
decisions count in b.  See `bothworlds.policies.waiting`.

README:

| `LBINFV(horizon=T)` | Σ (σ²/Δ + 1) log T | √(K log T · min(L*, T − L*, Q)) | Ito, Tsuchiya and
Honda 2022 |
"""  # noqa: RUF002

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numba import carray

from bothworlds.arguments import keep, number, one_of, whole
from bothworlds.errors import invalid
from bothworlds.lanes.distributions import draw_arm
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import advance
from bothworlds.omd.barrier_entropy import derivative, solve_barrier_entropy
from bothworlds.omd.estimators import correction
from bothworlds.omd.recentring import RECENTRE_EVERY, recentre
from bothworlds.policies import base, waiting
from bothworlds.policies.base import Array, Kernels, Policy, Saved, Traits
from bothworlds.policies.waiting import BASE, NUMBER

Prediction = Literal["ls", "gd"]

# Parameters: g, whether predictions are means ("ls", 0) or move by a step ("gd", the step), whether
# estimates fade.
LOG_HORIZON, STEP, FADES = 0, 1, 2
# Rows: inverse probability; carried with a decision m_I, its number and 1 - p_I; nu; those of
# `waiting`; then of every arm L, b^2, m, n, p and 1 - p.
REST, MULTIPLIER, WAITING = 3, 4, 5
ESTIMATES = WAITING + waiting.ROWS
CARRIED = (
    Saved("baseline", low=0.0, high=1.0, optional=True),
    Saved("number", low=0.0, high=2.0**53, whole=True, optional=True),
    Saved("rest", low=0.0, high=1.0, optional=True),
)
"""The carried rows."""
FIELDS = 6
LOSSES, BARRIERS, MEANS, TOLD, WEIGHTS, RESTS = range(FIELDS)
BARRIER_1 = 1.2**2
MEAN_1 = 0.5


@jit
def barriers_with(squares: Any, more: float) -> Any:
    """Return b of every arm, outstanding decisions counted; ``more`` is `waiting.expected`."""
    if more > 1.0:
        return np.sqrt(BARRIER_1 + more * (squares - BARRIER_1))
    return np.sqrt(squares)


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve and draw."""
    settle(K, t, C, S, G)
    if t % RECENTRE_EVERY == 0:
        S[MULTIPLIER] -= recentre(K, S, ESTIMATES, u)
    arms = carray(S, (ESTIMATES + FIELDS * K,))[ESTIMATES:].reshape((FIELDS, K))
    X = arms[LOSSES] + arms[MEANS]
    b = barriers_with(arms[BARRIERS], waiting.expected(advance(S, WAITING)))
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
    W = advance(S, WAITING)
    g = C[LOG_HORIZON]
    if waiting.is_late(W, S[NUMBER]):
        settle(K, t, C, S, G)
        m, rest = S[BASE], S[REST]
    else:
        m, rest = arms[MEANS, arm], arms[RESTS, arm]
        add_baselines(K, S)
        W[waiting.OPEN] = 0.0
    d = loss - m
    arms[LOSSES, arm] += correction(loss, m, inverse_p)
    arms[BARRIERS, arm] += d * d * min(1.0, 2.0 * rest * inverse_p * inverse_p / g) / g
    learn_mean(C, arms, arm, loss)
    waiting.answered(W, S[NUMBER])


@jit
def add_baselines(K: int, S: Any) -> None:
    """L_i += share m_i for every arm."""
    share = S[WAITING + waiting.SHARE]
    for i in range(ESTIMATES, ESTIMATES + K):
        S[i] += share * S[i + MEANS * K]


@jit
def settle(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Add the baselines of the last decision, unless that is done."""
    if S[WAITING + waiting.OPEN] != 0.0:
        if C[FADES] == 0.0:
            add_baselines(K, S)
        S[WAITING + waiting.OPEN] = 0.0


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Count a decision, and keep the numbers for its feedback."""
    waiting.carry(S, WAITING, S[ESTIMATES + MEANS * K + arm] if C[FADES] == 0.0 else 0.0)
    S[REST] = S[ESTIMATES + RESTS * K + arm]


@jit
def learn_mean(C: Any, arms: Any, arm: int, loss: float) -> None:
    """Move the prediction of an arm and count its loss."""
    arms[MEANS, arm] = moved_prediction(C, arms[MEANS, arm], arms[TOLD, arm], loss)
    arms[TOLD, arm] += 1.0


@jit
def estimates_changed(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Let the solver start without the last round's nu."""
    S[WAITING + waiting.OPEN] = 0.0
    recentre(K, S, ESTIMATES, 0.0)
    S[MULTIPLIER] = 0.0


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

    traits: ClassVar[Traits] = Traits(
        needs_horizon=True,
        nanoseconds=(200.0, 130.0),
        head_rows=ESTIMATES,
        rows_per_arm=FIELDS,
        carried_rows=len(CARRIED),
        bandit_rows=(BASE, NUMBER, REST, *range(WAITING, ESTIMATES)),
        estimates=True,
        late_as_prompt=False,
        resizable=True,
        saved_rows={
            LOSSES: base.ESTIMATES,
            BARRIERS: Saved("barriers", low=1.0),
            MEANS: Saved("means", low=0.0, high=1.0),
            TOLD: base.TOLD,
        },
        saved_head=waiting.saved(WAITING),
        saved_carried=CARRIED,
    )
    own_kernels = Kernels.of(
        choose,
        update,
        (ESTIMATES, WEIGHTS),
        asked=asked,
        estimates_changed=estimates_changed,
        write_back=settle,
        any_draw=True,
        wide=False,
    )

    def __post_init__(self) -> None:
        owner = "LBINFV"
        expected = "a number above 0, at most 1"
        step = number("step", self.step, owner, 0.0, 1.0, expected)
        if step == 0.0:
            raise invalid("step", owner, expected, self.step)
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
        """Return log T, the step, 0 for means, and that nothing fades."""
        return np.array([self.log_horizon, self.step if self.prediction == "gd" else 0.0, 0.0])

    def start(self, n_arms: int) -> Array:
        """Return L = 0, predictions of 1/2 and barriers of 6/5."""
        state = np.zeros(self.traits.head_rows + self.traits.rows_per_arm * n_arms)
        state[WAITING:ESTIMATES] = waiting.FIRST
        arms = state[ESTIMATES:].reshape(FIELDS, n_arms)
        arms[BARRIERS] = BARRIER_1
        arms[MEANS] = MEAN_1
        return state

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm has this probability in the next round."""
        n_arms = rows.shape[1]
        w0 = 1.0 / (n_arms + 1) if probability is None else probability
        p, c = np.zeros(n_arms), np.zeros(n_arms)
        X = rows[LOSSES] + rows[MEANS]
        b = barriers_with(rows[BARRIERS], waiting.expected.py_func(head[WAITING:]))
        nu, _, _ = solve_barrier_entropy(X, b, self.log_horizon, 1.0 - w0, math.nan, p, c)
        column = np.zeros(FIELDS)
        column[BARRIERS], column[MEANS] = BARRIER_1, MEAN_1
        rise = math.sqrt(BARRIER_1) * derivative(w0, self.log_horizon)
        column[LOSSES] = nu - rise - MEAN_1
        return column
