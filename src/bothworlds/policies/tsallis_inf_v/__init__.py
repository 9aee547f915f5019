"""TsallisINFV, the policy; its equations are in `bothworlds.policies.tsallis_inf_v.kernels`.

README:

| `TsallisINFV()` | Σ σ² log T / Δ for variances σ², argued and measured, not proved | r √(KT), r
the residuals' size, likewise | this package; rate by Ito, Tsuchiya and Honda 2024 |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from bothworlds.arguments import keep, one_of, positive
from bothworlds.omd import few, half
from bothworlds.omd.entering import entry_estimate
from bothworlds.policies import base, waiting
from bothworlds.policies.base import Array, Policy, Program, Saved, Traits, keeps_kernels
from bothworlds.policies.tsallis_inf import MANY
from bothworlds.policies.tsallis_inf_v import kernels as layout

Rate = Literal["matched", "residual"]


@dataclass(frozen=True, repr=False)
class TsallisINFV(Policy):
    """Tsallis-INF that adapts to the variance of the losses.

    Where losses vary little, as clicks at a rate of a few per cent do, it has a third to a half of
    the regret of `TsallisINF`; where they are fair coins, about the same.

    Its guarantees are argued and measured, not proved: against adversaries a regret of order
    r sqrt(K T) for residuals of root mean square r, for independent losses of order
    log T sum_i sigma^2 / gap_i. The argument lacks a constant of the stability term, and that h
    does not jump between rounds.

    Parameters
    ----------
    rate : {"matched", "residual"}, default "matched"
        The learning rate. "matched" balances stability against regularisation. "residual",
        2 / sqrt(1/4 + sum of squared residuals), is often a few per cent better and does not look
        at every arm from 512 arms on, but goes by the noise of the arm that is played: with a
        noiseless best arm it had twice the regret.
    prior : float, default 1.0
        Weight of 1/2 in the running mean of an arm, in losses.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.TsallisINFV(), arms=["blue", "green", "red"], seed=7)
    >>> decision = bandit.ask()
    >>> bandit.tell(decision, reward=0.0)
    >>> bw.TsallisINFV(rate="residual")
    TsallisINFV(rate='residual')

    References
    ----------
    Ito, Tsuchiya and Honda, *Adaptive Learning Rate for Follow-the-Regularized-Leader:
    Competitive Analysis and Best-of-Both-Worlds*, COLT 2024, for the rule of the matched rate.
    Zimmert and Seldin, *Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
    Bandits*, JMLR 22, 2021, for the estimator.
    """

    rate: Rate = "matched"
    prior: float = 1.0

    traits: ClassVar[Traits] = Traits(
        unproved=(
            "its regret is argued and measured, not proved: order r sqrt(K T) against "
            "adversaries, r the root mean square of the residuals"
        ),
        nanoseconds=(13.0, 1.0),
        head_rows=layout.SOLVER + half.ESTIMATES,
        rows_per_arm=3,
        carried_rows=len(layout.CARRIED),
        bandit_rows=(*range(1, layout.SUMS), *range(layout.WAITING, layout.SOLVER)),
        estimates=True,
        late_as_prompt=False,
        resizable=True,
        saved_rows={
            0: base.ESTIMATES,
            1: Saved("means", low=0.0, high=1.0),
            2: base.TOLD,
        },
        saved_head={
            layout.BETA: Saved("beta", low=layout.BETA_1 * (1.0 - 1e-12), high=layout.LARGEST_BETA),
            **waiting.saved(layout.WAITING),
        },
        saved_carried=layout.CARRIED,
    )
    own_kernels = layout.KERNELS

    def __post_init__(self) -> None:
        owner = "TsallisINFV"
        rate = one_of("rate", self.rate, owner, ("matched", "residual"))
        # The matched rate keeps the means, its predictions, added to the estimates, and what moves
        # it depends on where it is.
        matched = rate == "matched"
        traits = replace(self.traits, predicted=int(matched), order_invariant=not matched)
        keep(self, rate=rate, prior=positive("prior", self.prior, owner), traits=traits)

    def parameters(self, n_arms: int) -> Array:
        """Return the prior's weight, whether the rate is matched, and that nothing fades."""
        return np.array([self.prior, float(self.rate == "matched"), 0.0])

    def start(self, n_arms: int) -> Array:
        """Return X = 0, means of 1/2, eta = 4 and a solver about to take its first step."""
        state = np.zeros(self.traits.head_rows + self.traits.rows_per_arm * n_arms)
        state[layout.BETA] = state[layout.PACE] = layout.BETA_1
        state[layout.WAITING : layout.SOLVER] = waiting.FIRST
        half.first_state(n_arms, state[layout.SOLVER :])
        few.first_state(n_arms, state[layout.SOLVER :])
        state[self.traits.head_rows + n_arms : self.traits.head_rows + 2 * n_arms] = layout.MEAN_1
        return state

    def estimated(self, rows: Array) -> Array:
        """Return L, which the matched rate keeps with the prediction m added."""
        predicted = self.traits.predicted
        return np.asarray(rows[0] - rows[predicted] if predicted else rows[0])

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm has this probability, and a mean of 1/2."""
        w0 = 1.0 / (rows.shape[1] + 1) if probability is None else probability
        beta = float(head[layout.BETA]) * math.sqrt(
            waiting.expected.py_func(head[layout.WAITING :])
        )
        return np.array([entry_estimate(rows[0], layout.RATE / beta, 0.5, w0), layout.MEAN_1, 0.0])

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the kernels; with many arms, ones that do not look at every arm."""
        own = keeps_kernels(self, TsallisINFV)
        if own and self.rate == "residual" and n_arms >= MANY:
            from bothworlds.policies.tsallis_inf_v import many

            return many.program(self, n_arms)
        return super().program(n_arms)
