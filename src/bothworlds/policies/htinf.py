"""HTINF: Tsallis-INF for heavy-tailed and unbounded losses (Huang, Dai and Huang, 2022).

Losses are any real numbers with E |l|^a <= s^a, the tail index a in (1, 2] and the scale s known.
In round t:

========= ==========================================================================
``alpha`` 1 / a
``eta``   (a / (a - 1)) / (s t^(1/a)), 2 / (s sqrt(t)) at a = 2
``w``     the OMD step at alpha and eta on the cumulative estimates L
``Theta`` min(1 - 2^(-(a - 1)/(2 a - 1)), (2 - 2/a)^(1/(2 - a))); 1 - 2^(-1/3) at a = 2
``limit`` Theta s (t w_I)^(1/a), I the arm that was played
========= ==========================================================================

- skip "both", the paper's: L_I += l / w_I if ``|l| <= limit``, else nothing;
- skip "below", this package's: L_I += l / w_I if ``l >= -limit``, else nothing.

For l >= 0 the stability of a round is bounded however large l is; only large negative estimates
break it.  So non-negative losses of finite second moment need no skipping, and Theorem 1's proof
(Zimmert and Seldin, 2021) goes through with E l^2 <= s^2 in place of 1.

README:

| `HTINF(scale=s)` | s² Σ log T / Δ for unbounded losses ≥ 0 | 4 s √(KT) + s for such losses |
Huang, Dai and Huang 2022; `skip="below"` is this package's |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from bothworlds.arguments import keep, number, one_of
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import (
    absolute,
    advance,
    load,
    maximum,
    minimum,
    select,
    sqrt,
    store,
    stride,
)
from bothworlds.omd import few
from bothworlds.omd import half as half_step
from bothworlds.omd.entering import entry_estimate
from bothworlds.omd.estimators import correction
from bothworlds.omd.learning_rates import INVERSE_POWER, INVERSE_SQRT
from bothworlds.policies import base
from bothworlds.policies.base import LARGEST_LOSS, Array, Kernels, LaneKernels, Policy, Traits
from bothworlds.policies.tsallis_inf import general, half
from bothworlds.policies.tsallis_inf.parameters import FACTORS, rate_now

Skip = Literal["below", "both"]

# Parameters: those of Tsallis-INF, whose kernels solve and draw; then Theta s, whether large
# positive losses are skipped, and 1 / a.
LIMIT, BOTH, POWER = FACTORS, FACTORS + 1, FACTORS + 2
# Rows: inverse probability, how many losses were skipped; then the rows of Tsallis-INF.
SKIPPED, SOLVER = 1, 2
SCALES = (1e-30, 1e30)
FAR = 2.0**16  # how large x may be against 2 / eta: L - x keeps all but 16 bits


def theta(a: float) -> float:
    """Return the factor of the limit.

    Examples
    --------
    >>> round(theta(2.0), 4), round(theta(1.5), 4)
    (0.2063, 0.1591)
    """
    first = -math.expm1(-(a - 1.0) / (2.0 * a - 1.0) * math.log(2.0))
    return first if a == 2.0 else min(first, math.pow(2.0 - 2.0 / a, 1.0 / (2.0 - a)))


@jit
def moderate(loss: Any) -> Any:
    """Return a loss within the range of the solver's sums."""
    return minimum(maximum(loss, -LARGEST_LOSS), LARGEST_LOSS)


@jit
def within(loss: Any, limit: Any, both: float) -> Any:
    """Tell whether a loss is learned from."""
    kept = loss >= -limit
    if both > 0.0:
        kept = kept & (loss <= limit)
    return kept


@jit
def count_skipped(S: Any, row: int, kept: Any, like: Any) -> None:
    """Add one to the skipped losses where they were not kept."""
    n = load(S, row, like)
    store(S, row, select(kept, n, n + 1.0))


# --- a = 2, in lanes --------------------------------------------------------------------------


@jit
def choose_half(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw, as Tsallis-INF with importance weighting."""
    P = advance(S, SOLVER * stride(u))
    far = absolute(load(P, half_step.ROOT, u)) > FAR * (2.0 / rate_now(K, t, C))
    half_step.recentre_where(K, P, far, u)
    arm = half.choose_half_iw(K, t, C, P, G, u)
    store(S, 0, load(P, half_step.INVERSE_P, u))
    return arm


@jit
def update_half(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I, unless the loss is beyond the limit of its decision."""
    P = advance(S, SOLVER * stride(loss))
    loss = moderate(loss)
    kept = within(loss, C[LIMIT] * sqrt(float(t) / inverse_p), C[BOTH])
    count_skipped(S, SKIPPED, kept, loss)
    by = select(kept, minimum(correction(loss, 0.0, inverse_p), LARGEST_LOSS), 0.0)
    raise_one(K, P, arm, by, 2.0 / rate_now(K, t, C))


@jit
def fading_half(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any, retained: float
) -> None:
    """L_i = R (L_i - min L), then as `update_half`."""
    half.fade_estimates(K, advance(S, SOLVER * stride(loss)), retained, loss)
    update_half(K, t, C, S, G, arm, inverse_p, loss)


@jit
def weight_half(K: int, t: int, C: Any, S: Any, G: Any, arm: Any) -> Any:
    """Return w of an arm at the root of the round."""
    return half.weight_half(K, t, C, advance(S, SOLVER * stride(arm)), G, arm)


@jit
def raise_one(K: int, P: Any, arm: Any, by: Any, unit: Any) -> None:
    """Add to the estimate of an arm, drawn last or earlier, and let the solver know.

    ``unit`` is 2 / eta, the y of a weight of 1: after a step that is huge against it the least
    estimate may be far from 0, where differences lose their digits.
    """
    half.move(K, P, arm, by)
    half_step.recentre_where(K, P, absolute(by) > FAR * unit, by)


@jit
def weights_half(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """The weights of the round."""
    half.weights_half(K, t, C, advance(S, SOLVER), G, out)


@jit
def estimates_changed_half(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Prepare the solver for estimates that changed otherwise than by ``tell``."""
    half_step.restart(K, advance(S, SOLVER), 0.0)


# --- any a, one repetition at a time ----------------------------------------------------------


@jit
def choose_general(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> Any:
    """Solve at alpha = 1 / a and draw."""
    P = advance(S, SOLVER)
    arm = general.choose_general(K, t, C, P, G, u)
    S[0] = P[0]
    return arm


@jit
def update_general(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """L_I += l / w_I, unless the loss is beyond the limit of its decision."""
    P = advance(S, SOLVER)
    loss = moderate(loss)
    kept = within(loss, C[LIMIT] * (t / inverse_p) ** C[POWER], C[BOTH])
    count_skipped(S, SKIPPED, kept, loss)
    if kept:
        P[general.ESTIMATES + arm] += min(correction(loss, 0.0, inverse_p), LARGEST_LOSS)


@jit
def weights_general(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """The weights of the round."""
    general.weights_general(K, t, C, advance(S, SOLVER), G, out)


_HALF = Kernels.of(
    choose_half,
    update_half,
    weights_half,
    estimates_changed=estimates_changed_half,
    in_lanes=LaneKernels(weight_half, update_half, fading_half),
)
_GENERAL = Kernels.of(choose_general, update_general, weights_general, wide=False)


@dataclass(frozen=True, repr=False)
class HTINF(Policy):
    """HTINF, Tsallis-INF for losses without bounds: latencies, costs, run times.

    With ``skip="below"`` and non-negative losses of root mean square at most ``scale``, its regret
    is at most 4 scale sqrt(K T) + scale against adversaries, and of order
    scale^2 sum_i log T / gap_i for fixed gaps. With ``skip="both"``, the true tail index and
    E |l|^tail <= scale^tail, it is of order scale K^(1 - 1/tail) T^(1/tail) against adversaries and
    scale^(tail/(tail - 1)) sum_i gap_i^(-1/(tail - 1)) log T for fixed gaps, provided that large
    losses of the best arm do not have a negative mean. Minus a reward with rare jackpots violates
    this: cap such rewards.

    Parameters
    ----------
    scale : float
        Size of the losses, as their root mean square over a few; no bound. A large common offset
        counts into it: subtract a guess first. Too small a scale fattens the tail of the regret.
    skip : {"below", "both"}, default "below"
        Which losses are left out: large negative ones only, or large ones of either sign as in the
        article. Early skips are normal. "both" discards the losses that expose bad arms if losses
        are skewed upwards.
    tail : float, default 2.0
        Highest moment that is finite, in (1, 2]; below 2 with ``skip="both"`` only.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.HTINF(scale=100.0), arms=["eu", "us"], seed=7)
    >>> for _ in range(200):
    ...     decision = bandit.ask()
    ...     bandit.tell(decision, loss=80.0 if decision.arm == "us" else 2500.0)
    >>> max(bandit.probabilities(), key=bandit.probabilities().get), bandit.skipped
    ('us', 0)

    References
    ----------
    Huang, Dai and Huang, *Adaptive Best-of-Both-Worlds Algorithm for Heavy-Tailed Multi-Armed
    Bandits*, ICML 2022. The rule "below" is this package's own.
    """

    scale: float
    skip: Skip = "below"
    tail: float = 2.0

    traits: ClassVar[Traits] = Traits(
        nanoseconds=(12.0, 0.7),
        estimates=True,
        resizable=True,
        unbounded=True,
        skipped_row=SKIPPED,
        saved_rows={0: base.ESTIMATES},
        saved_head={SKIPPED: base.SKIPPED},
    )

    def __post_init__(self) -> None:
        owner = "HTINF"
        low, high = SCALES
        expected = f"a number in [{low:g}, {high:g}]"
        scale = number("scale", self.scale, owner, low, high, expected)
        skip = one_of("skip", self.skip, owner, ("below", "both"))
        tail = number("tail", self.tail, owner, 1.0, 2.0, "a number above 1, at most 2")
        if tail <= 1.0:
            raise invalid("tail", owner, "a number above 1, at most 2", self.tail)
        if tail < 2.0 and skip != "both":
            expected = "2 with skip='below', which needs finite second moments"
            raise invalid("tail", owner, expected, self.tail)
        keep(self, scale=scale, skip=skip, tail=tail)
        # Away from tail index 2 the state also has the weights.
        rows = half_step.ESTIMATES if self.closed_form else general.ESTIMATES
        traits = replace(
            self.traits,
            head_rows=SOLVER + rows,
            rows_per_arm=1 if self.closed_form else 2,
            unbiased=skip == "below",
        )
        keep(self, traits=traits)

    @property
    def closed_form(self) -> bool:
        """Whether the kernels of alpha = 1/2 play it."""
        return self.tail == 2.0

    def parameters(self, n_arms: int) -> Array:
        """Return Tsallis-INF's parameters, Theta s, whether both sides are skipped, and 1 / a."""
        a = self.tail
        code = INVERSE_SQRT if self.closed_form else INVERSE_POWER
        rate = a / (a - 1.0) / self.scale
        own = [theta(a) * self.scale, float(self.skip == "both"), 1.0 / a]
        return np.array([code, rate, 1.0 / a, 0.0, 0.0, *own])

    def start(self, n_arms: int) -> Array:
        """Return L = 0 and a solver about to take its first step."""
        state = np.zeros(self.traits.head_rows + self.traits.rows_per_arm * n_arms)
        if self.closed_form:
            half_step.first_state(n_arms, state[SOLVER:])
            few.first_state(n_arms, state[SOLVER:])
        else:
            state[SOLVER + general.MULTIPLIER] = -1.0
        return state

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm has this probability in round ``t``."""
        n_arms = rows.shape[1] + 1
        column = np.zeros(self.traits.rows_per_arm)
        eta = rate_now(n_arms, t, self.parameters(n_arms))
        w0 = 1.0 / n_arms if probability is None else probability
        column[0] = entry_estimate(rows[0], eta, 1.0 / self.tail, w0)
        return column

    def kernels(self) -> Kernels:
        """Return the kernels of this tail index."""
        return _HALF if self.closed_form else _GENERAL
