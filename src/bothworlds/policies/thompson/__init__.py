"""Thompson sampling for Bernoulli losses (Thompson, 1933; Agrawal and Goyal, 2012).

======== ==========================================================================
``a_i``  1 + number of losses 1 of arm i
``b_i``  1 + number of losses 0 of arm i
theta_i  a draw from Beta(a_i, b_i), the posterior of arm i's mean loss
======== ==========================================================================

Every round draws theta and plays argmin_i theta_i.  A loss l strictly between 0 and 1 counts as 1
with probability l (Agrawal and Goyal, 2012, section 1.1), which leaves its mean as it is.

theta = A / (A + B) with gamma variates A, B of shapes a, b; it is smallest where A / B is, so the
arms are compared by products, without a division.

These kernels serve one bandit, and policies around this one. Tiles of the engine play
`bothworlds.policies.thompson.lazy`, which draws the same arms in distribution and few variates.

README:

| `ThompsonSampling()` | optimal constant for losses 0 and 1, fixed means only | linear | Kaufmann,
Korda and Munos 2012; Agrawal and Goyal 2013 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bothworlds.lanes.distributions import gamma_pair
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import gather, load, scatter, select, splat, splat_int, sqrt, store
from bothworlds.policies import base
from bothworlds.policies.base import Array, Kernels, Policy, Program, Saved, Traits, keeps_kernels

# Rows: inverse probability (0, unknown); then of every arm the d and c of `gamma_pair`'s table
# for a_i and for b_i, so that a draw costs no division: fields d_a, c_a, d_b, c_b.
ARMS = 1
THIRD = 1.0 / 3.0


@jit
def draw_posterior(K: int, S: Any, i: int, G: Any, like: Any) -> Any:
    """Return A and B of arm i."""
    row = ARMS + i
    return gamma_pair(
        load(S, row, like),
        load(S, row + K, like),
        load(S, row + 2 * K, like),
        load(S, row + 3 * K, like),
        G,
        like,
    )


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw theta and return its argmin; the generator serves, not ``u``."""
    arm = splat_int(0, u)
    A, B = draw_posterior(K, S, 0, G, u)
    for i in range(1, K):
        a, b = draw_posterior(K, S, i, G, u)
        better = a * B < A * b
        arm = select(better, i, arm)
        A = select(better, a, A)
        B = select(better, b, B)
    store(S, 0, splat(0.0, u))
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Count the loss as 1 with probability ``loss``, else as 0."""
    one = uniform(G, loss) < loss
    side = select(one, arm, arm + 2 * K)
    d = gather(S, ARMS, side) + 1.0
    scatter(S, ARMS, side, d)
    scatter(S, ARMS + K, side, 1.0 / sqrt(9.0 * d))


@dataclass(frozen=True, repr=False)
class ThompsonSampling(Policy):
    """Thompson sampling with a uniform prior on every arm's mean loss.

    Losses between 0 and 1 are made binary by a random draw. The probability of the chosen arm is
    not known, so decisions carry none.

    A simulation does not draw every arm in every round: late in a run a comparison decides nearly
    all of them. The arms have the same distribution.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bw.ThompsonSampling()
    ThompsonSampling()

    References
    ----------
    Agrawal and Goyal, *Analysis of Thompson Sampling for the Multi-armed Bandit Problem*,
    COLT 2012. Its optimal constant: Kaufmann, Korda and Munos, *Thompson Sampling: An
    Asymptotically Optimal Finite-Time Analysis*, ALT 2012; Agrawal and Goyal, *Further Optimal
    Regret Bounds for Thompson Sampling*, AISTATS 2013.
    """

    traits: ClassVar[Traits] = Traits(
        unproved=base.ASYMPTOTIC,
        nanoseconds=(12.0, 1.0),
        resizable=True,
        rows_per_arm=4,
        knows_probability=False,
        saved_rows={
            0: Saved("ones", low=0.0, high=2.0**53, whole=True),
            2: Saved("zeros", low=0.0, high=2.0**53, whole=True),
        },
    )
    own_kernels = Kernels.of(choose, update)

    def start(self, n_arms: int) -> Array:
        """Return the prior Beta(1, 1) of every arm."""
        d = 1.0 - THIRD
        prior = np.repeat([d, 1.0 / np.sqrt(9.0 * d)] * 2, n_arms)
        return np.concatenate([np.zeros(self.traits.head_rows), prior])

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the kernels; in lanes, ones that play the same arms in distribution.

        Those do not draw the posterior of every arm.
        """
        if not lanes or not keeps_kernels(self, ThompsonSampling):
            return super().program(n_arms)
        from bothworlds.policies.thompson import lazy

        return lazy.program(self, n_arms)

    def saved_state(self, n_arms: int, state: Array) -> dict[str, Array]:
        """Return how many losses of every arm counted as 1 and as 0."""
        d_a, _, d_b, _ = state[self.traits.head_rows :].reshape(self.traits.rows_per_arm, -1)
        return {"ones": np.rint(d_a - (1.0 - THIRD)), "zeros": np.rint(d_b - (1.0 - THIRD))}

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return the posterior after these losses."""
        d_a, d_b = (saved[name] + (1.0 - THIRD) for name in ("ones", "zeros"))
        rows = [d_a, 1.0 / np.sqrt(9.0 * d_a), d_b, 1.0 / np.sqrt(9.0 * d_b)]
        return np.concatenate([np.zeros(self.traits.head_rows), *rows])

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether every d is a count + 2/3 and every c belongs to its d."""
        d, c = state[ARMS:].reshape(2, 2, n_arms, -1).swapaxes(0, 1)
        whole = d + THIRD
        if not ((whole >= 0.5) & (whole < 2.0**52)).all():
            return False
        counts = np.abs(whole - np.round(whole)) < 0.1
        return bool((counts & (c == 1.0 / np.sqrt(9.0 * d))).all())
