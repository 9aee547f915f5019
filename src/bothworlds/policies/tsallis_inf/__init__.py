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
`bothworlds.omd.few` and `bothworlds.omd.many`, and in a tile of repetitions mostly those of
`bothworlds.omd.ahead`; elsewhere one bandit calls the general solver of
`bothworlds.omd.step`, and a tile of repetitions that of `bothworlds.omd.powers`; where one arm
leads it does without, see `bothworlds.omd.leader` and `bothworlds.omd.leader.powers`.

README:

| `TsallisINF()` | Σ log T / Δ, **optimal** up to a constant, also if the means move together |
√(KT), **optimal** up to a constant | Zimmert and Seldin 2021, Theorem 1 |

| ... losses corrupted by C in all | grows with √(C Σ log T / Δ), on the losses met | | Corollary 1
|

| `TsallisINF(alpha=α, estimator="iw")` | no logarithmic bound | √(KT), times √log T at α = 0 and
√log K at α = 1 | Theorem 3 |

| `TsallisINF(alpha=α, estimator="iw", gaps=...)` | Σ log T / Δ, knowing the gaps | none | Theorem
4 |
"""  # noqa: RUF002

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bothworlds.arguments import Estimator, keep, one_of, positive, share
from bothworlds.errors import InvalidParameter, must
from bothworlds.lanes import native
from bothworlds.omd import ahead, few
from bothworlds.omd import half as half_step
from bothworlds.omd.entering import entry_estimate
from bothworlds.omd.learning_rates import INVERSE_SQRT, THEOREM_3, Constant, Schedule, encode
from bothworlds.omd.soft import largest_step
from bothworlds.policies import base, waiting
from bothworlds.policies.base import Array, Kernels, Policy, Program, Traits
from bothworlds.policies.tsallis_inf import general, half, soft, soft_general
from bothworlds.policies.tsallis_inf.parameters import rate_now, root_rate

__all__ = ["MANY", "TsallisINF", "rate_now"]

MOST_LEADING = 2048
"""Largest number of arms with a leader mode: with more, the states of a tile leave the cache."""
MANY = 512
"""Number of arms from which the kernels for many arms are faster, measured.

Saved bandits have one state or the other by this number."""
_SOFT_UNPROVED = (
    "soft baselines have the stability factor 4/3 of reduced variance (proved); their regret is "
    "measured, not proved"
)
FEWEST = 3
"""Number of arms up to which vectors of twice as many registers are faster, measured with AVX2."""
LEADING = {"iw": 2, "rv": 3}
"""Number of arms from which there is a leader mode."""


@dataclass(frozen=True, repr=False)
class TsallisINF(Policy):
    """Tsallis-INF, optimal up to constants for stochastic and adversarial losses at once.

    At alpha = 1/2 and with 512 arms or more, a round costs far less than a look at every arm.

    Parameters
    ----------
    alpha : float, default 0.5
        Power of the Tsallis entropy, in [0, 1]: 0 is the log-barrier, 1 the negative entropy.
        The paper's optimal bounds for both worlds that need no gaps hold at 1/2.
    estimator : {"rv", "iw", "soft"}, default "rv"
        Reduced-variance or plain importance-weighted loss estimates; "soft" reduces the variance
        of all arms, also of those that are rarely played. At alpha = 1/2 it had a tenth to a
        seventh less regret in our measurements. Its stability factor is that of reduced variance
        at 1/2, for every alpha; no regret theorem covers it. A round looks at every arm, with many
        arms and once one leads, too.
    learning_rate : float or schedule, optional
        The paper's eta_t. By default Theorem 1's rate at alpha = 1/2, Theorem 3's elsewhere and
        Theorem 4's with ``gaps``; `omd.Theorem1`, `omd.Theorem3` and `omd.Theorem4` ask for one of
        them anywhere. A number is a constant rate; `omd.InverseSqrt` and `omd.Constant` are
        schedules. No theorem covers a rate of one's own.
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

    traits: ClassVar[Traits] = Traits(
        nanoseconds=(10.0, 0.7),
        estimates=True,
        saved_rows={0: base.ESTIMATES},
    )

    def __post_init__(self) -> None:
        estimator = one_of("estimator", self.estimator, "TsallisINF", ("rv", "iw", "soft"))
        keep(self, alpha=share("alpha", self.alpha, "TsallisINF"), estimator=estimator)
        rate = self.learning_rate
        if rate is not None and not isinstance(rate, Schedule):
            expected = "a positive number or a schedule such as omd.Theorem3()"
            keep(self, learning_rate=positive("learning_rate", rate, "TsallisINF", expected))
        if self.gaps is not None:
            keep(self, gaps=_checked_gaps(self.gaps))
        if estimator == "soft":
            self._soft_traits()
            return
        # Away from alpha = 1/2 the state also has the weights. Gaps are given for all arms at once.
        traits = replace(
            self.traits,
            head_rows=half_step.ESTIMATES if self.closed_form else general.ESTIMATES,
            rows_per_arm=1 if self.closed_form else 2,
            resizable=self.gaps is None,
            labelled=self.gaps is not None,
            separable=self.gaps is None,
        )
        keep(self, traits=traits)

    def _soft_traits(self) -> None:
        traits = replace(
            self.traits,
            unproved=_SOFT_UNPROVED,
            late_as_prompt=False,
            nanoseconds=(13.0, 1.0),
            head_rows=soft.ESTIMATES if self.closed_form else soft_general.ESTIMATES,
            rows_per_arm=1 if self.closed_form else 2,
            carried_rows=len(soft.CARRIED),
            bandit_rows=soft.BANDIT_ROWS,
            saved_head=waiting.saved(soft.WAITING),
            saved_carried=soft.CARRIED,
            resizable=self.gaps is None,
            labelled=self.gaps is not None,
            separable=self.gaps is None,
        )
        keep(self, traits=traits)

    @property
    def closed_form(self) -> bool:
        """Whether the kernels of alpha = 1/2 play it, which need a rate above 0 in round 1."""
        return self.alpha == 0.5 and self._rate_code()[0] != THEOREM_3

    def _rate_code(self) -> tuple[int, float]:
        given = self.learning_rate
        return encode(
            Constant(given) if isinstance(given, float) else given,
            alpha=self.alpha,
            reduced_variance=self.estimator != "iw",
            asymmetric=self.gaps is not None,
            owner="TsallisINF",
        )

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the kernels of this alpha, estimator and number of arms.

        With many arms they do not look at every arm, nor in lanes once one arm leads.
        """
        estimator = self.estimator
        own_kernels = type(self).kernels is TsallisINF.kernels
        if not own_kernels or (estimator == "soft" and self.closed_form):
            return super().program(n_arms)
        if not self.closed_form:
            own = super().program(n_arms)
            if not lanes:
                return own
            from bothworlds.policies.tsallis_inf import tiles

            own = tiles.program(own, n_arms, estimator)
            if self.gaps is not None or not tiles.may_lead(n_arms, self.alpha, estimator):
                return own
            from bothworlds.policies.tsallis_inf import leading_general

            return leading_general.program(own, n_arms, self.alpha, estimator, horizon)
        if n_arms >= MANY:
            from bothworlds.policies.tsallis_inf import many

            own = many.program(self, n_arms, estimator)
            if not lanes or n_arms > MOST_LEADING:
                return own
            from bothworlds.policies.tsallis_inf import leading_many

            return leading_many.program(own, n_arms, estimator, horizon)
        # The solver for this number of arms; tiles have no other number.
        fitting = few.fits.py_func(n_arms)
        if not lanes:
            both = half.RV if estimator == "rv" else half.IW
            rate = root_rate if self._rate_code()[0] == INVERSE_SQRT else rate_now
            prompt = half.one_solver(estimator, fitting, rate=rate)
            return Program.of(self, n_arms, both, prompt=prompt)
        if ahead.fits(n_arms, estimator):
            solver = half.ahead_in_tiles(n_arms, estimator)
        else:
            solver = half.one_solver(estimator, fitting, fitting and n_arms >= few.HALVED)
        registers = native.REGISTERS * (2 if n_arms <= FEWEST else 1)
        own = Program.of(self, n_arms, solver, registers=registers)
        if n_arms < LEADING[estimator]:
            return own
        from bothworlds.policies.tsallis_inf import leading

        return leading.program(own, n_arms, estimator, horizon)

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
            if not self.closed_form and n_arms > 1:
                xi = np.where(gaps > 0, gaps, gaps[gaps > 0].min()) ** (1 - 2 * self.alpha)
        more: list[float] = []
        if self.estimator == "soft":
            # The step, and whether estimates fade.
            more = [0.0] if self.closed_form else [largest_step(self.alpha), 0.0]
        return np.concatenate([head, [float(xi.size)], xi, more])

    def start(self, n_arms: int) -> Array:
        """Return L = 0 and a solver about to take its first step."""
        if self.estimator == "soft":
            return soft.start(n_arms) if self.closed_form else soft_general.start(n_arms)
        state = np.zeros(self.traits.head_rows + self.traits.rows_per_arm * n_arms)
        if self.closed_form:
            half_step.first_state(n_arms, state)
            few.first_state(n_arms, state)
        else:
            state[general.MULTIPLIER] = -1.0
        return state

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm has this probability in round ``t``."""
        n_arms = rows.shape[1] + 1
        column = np.zeros(self.traits.rows_per_arm)
        eta = rate_now(n_arms, t, self.parameters(n_arms))
        w0 = 1.0 / n_arms if probability is None else probability
        column[0] = entry_estimate(rows[0], eta, self.alpha, w0)
        return column

    def kernels(self) -> Kernels:
        """Return the kernels of this alpha and estimator."""
        if not self.closed_form:
            return soft_general.SOFT_GENERAL if self.estimator == "soft" else general.GENERAL
        return {"rv": half.RV, "iw": half.IW, "soft": soft.SOFT}[self.estimator]


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
