"""AdaTINF: HTINF that finds the scale by doubling, the horizon known (Huang, Dai and Huang, 2022).

========= ==========================================================================
``s``     2^J, the scale now; starts at 1
``S``     what the losses have cost since the scale last rose
``c``     cost of a loss: eta_t w_I^(-1/2) l^2 if it was kept, else ``|l|``
``limit`` 0.2063 s sqrt(t w_I), as `bothworlds.policies.htinf` at a = 2, both sides skipped
========= ==========================================================================

S += c in every round; when S > s sqrt(K (T + 1)),
J becomes the larger of J + 1 and ceil(log2(c / sqrt(K (T + 1)))) + 1, and S = c.

A late loss is tested, weighted and priced with the scale of its decision.

README:

| `AdaTINF(horizon=T)` | no logarithmic bound | that of `HTINF(skip="both")`, scale and tail not
known | Huang, Dai and Huang 2022 |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bothworlds.arguments import keep, whole
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import (
    absolute,
    advance,
    any_lane,
    bits_float,
    float_bits,
    load,
    maximum,
    minimum,
    select,
    sqrt,
    store,
    stride,
)
from bothworlds.omd import few, half
from bothworlds.omd.entering import entry_estimate
from bothworlds.omd.estimators import correction
from bothworlds.policies import base
from bothworlds.policies.base import (
    LARGEST_LOSS,
    Array,
    Kernels,
    LaneKernels,
    Policy,
    Saved,
    Traits,
)
from bothworlds.policies.htinf import FAR, count_skipped, moderate, raise_one, theta, within
from bothworlds.policies.tsallis_inf.half import fade_estimates

# Parameters: T + 1, Theta.
ROUNDS, THETA = 0, 1
# Rows: inverse probability, the scale at the last decision, skipped losses, the scale now, S;
# then the solver's rows.
DECIDED, SKIPPED, SCALE, SPENT, SOLVER = 1, 2, 3, 4, 5
EXPONENT = 0x7FF0000000000000  # the bits of a double's exponent


@jit
def rate_at(t: int, scale: Any) -> Any:
    """Return eta_t."""
    return 2.0 / (scale * math.sqrt(float(t)))


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw at the scale of now."""
    P = advance(S, SOLVER * stride(u))
    half.recentre_if_due(K, t, P, u)
    scale = load(S, SCALE, u)
    store(S, DECIDED, scale)
    eta = rate_at(t, scale)
    half.recentre_where(K, P, absolute(load(P, half.ROOT, u)) > FAR * (2.0 / eta), u)
    arm = few.draw(K, P, eta, u, None) if few.fits(K) else half.draw(K, P, eta, None, u, None)
    store(S, 0, load(P, half.INVERSE_P, u))
    return arm


@jit
def ceiling(x: Any) -> Any:
    """Return the least power of 2 that is not below x > 0."""
    power = bits_float(float_bits(x) & EXPONENT)
    return select(power < x, 2.0 * power, power)


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I unless the loss is beyond the limit; raise the scale if losses cost much."""
    P = advance(S, SOLVER * stride(loss))
    loss = moderate(loss)
    then = load(S, DECIDED, loss)
    kept = within(loss, C[THETA] * then * sqrt(float(t) / inverse_p), 1.0)
    count_skipped(S, SKIPPED, kept, loss)
    eta = rate_at(t, then)
    by = select(kept, minimum(correction(loss, 0.0, inverse_p), LARGEST_LOSS), 0.0)
    raise_one(K, P, arm, by, 2.0 / eta)
    c = select(kept, eta * sqrt(inverse_p) * (loss * loss), absolute(loss))
    scale = load(S, SCALE, loss)
    spent = load(S, SPENT, loss) + c
    allowed = math.sqrt(K * C[ROUNDS])
    over = spent > scale * allowed
    if any_lane(over):
        scale = select(over, maximum(2.0 * scale, 2.0 * ceiling(c / allowed)), scale)
        spent = select(over, c, spent)
        store(S, SCALE, scale)
    store(S, SPENT, spent)


@jit
def fading(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any, retained: float
) -> None:
    """L_i = R (L_i - min L), then as `update`."""
    fade_estimates(K, advance(S, SOLVER * stride(loss)), retained, loss)
    update(K, t, C, S, G, arm, inverse_p, loss)


@jit
def weight(K: int, t: int, C: Any, S: Any, G: Any, arm: Any) -> Any:
    """Return w of an arm at the root of the round."""
    P = advance(S, SOLVER * stride(arm))
    return half.weight_of(K, P, rate_at(t, load(S, DECIDED, arm)), arm)


@jit
def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """The weights of the round."""
    half.fill_weights(K, advance(S, SOLVER), rate_at(t, S[DECIDED]), out)


@jit
def estimates_changed(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Prepare the solver for estimates that changed otherwise than by ``tell``."""
    half.restart(K, advance(S, SOLVER), 0.0)


@dataclass(frozen=True, repr=False)
class AdaTINF(Policy):
    """AdaTINF, for losses without bounds whose scale and tail are not known.

    Its regret against adversaries is of the order HTINF has with the true scale and tail index;
    for fixed gaps nothing is promised. Where the size of the losses is known roughly, `HTINF` is
    much better.

    Parameters
    ----------
    horizon : int
        Number of rounds T, at least 1.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.AdaTINF(horizon=1000), arms=["eu", "us"], seed=7)
    >>> for _ in range(1000):
    ...     decision = bandit.ask()
    ...     bandit.tell(decision, loss=80.0 if decision.arm == "us" else 2500.0)
    >>> max(bandit.probabilities(), key=bandit.probabilities().get)
    'us'

    References
    ----------
    Huang, Dai and Huang, *Adaptive Best-of-Both-Worlds Algorithm for Heavy-Tailed Multi-Armed
    Bandits*, ICML 2022.
    """

    horizon: int

    traits: ClassVar[Traits] = Traits(
        needs_horizon=True,
        order_invariant=False,
        nanoseconds=(14.0, 0.7),
        head_rows=SOLVER + half.ESTIMATES,
        carried_rows=1,
        estimates=True,
        resizable=True,
        unbounded=True,
        unbiased=False,
        skipped_row=SKIPPED,
        saved_rows={0: base.ESTIMATES},
        saved_head={
            SKIPPED: base.SKIPPED,
            SCALE: Saved("scale", low=1.0, high=4.0 * LARGEST_LOSS),
            SPENT: Saved("spent", low=0.0),
        },
        saved_carried=(Saved("scale", low=1.0, high=4.0 * LARGEST_LOSS),),
    )
    own_kernels = Kernels.of(
        choose,
        update,
        weights,
        estimates_changed=estimates_changed,
        in_lanes=LaneKernels(weight, update, fading),
    )

    def __post_init__(self) -> None:
        keep(self, horizon=whole("horizon", self.horizon, "AdaTINF", 1))

    def parameters(self, n_arms: int) -> Array:
        """Return T + 1 and the factor of the limit."""
        return np.array([self.horizon + 1.0, theta(2.0)])

    def start(self, n_arms: int) -> Array:
        """Return L = 0, the scale 1 and a solver about to take its first step."""
        state = np.zeros(self.traits.head_rows + n_arms)
        state[DECIDED] = state[SCALE] = 1.0
        half.first_state(n_arms, state[SOLVER:])
        few.first_state(n_arms, state[SOLVER:])
        return state

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return an estimate with which the arm has this probability in round ``t``."""
        w0 = 1.0 / (rows.shape[1] + 1) if probability is None else probability
        eta = rate_at.py_func(t, float(head[SCALE]))
        return np.array([entry_estimate(rows[0], eta, 0.5, w0)])
