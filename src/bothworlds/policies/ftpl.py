"""FTPL: follow the perturbed leader (Honda, Ito and Tsuchiya, 2023; Lee et al., 2024).

======== ==========================================================================
``L_i``  cumulative loss estimate of arm i
``r_i``  perturbation: Frechet or Pareto of shape 2, drawn for every arm and round
``c``    the constant of the learning rate c / sqrt(t)
``M``    how many perturbations are drawn until the leader is the same arm again
======== ==========================================================================

I = argmin_i c L_i / sqrt(t) - r_i, then L_I += M l.  The probability of an arm is an integral and
is not known; M is geometric and its mean is 1 / P(I) (geometric resampling, Neu and Bartok, 2016),
so the estimates are unbiased.  M is drawn with the decision and kept with it.

An arm that trails by L has a probability of about t / (c L)^2: with c = 1 that of Tsallis-INF with
importance weighting.  A round draws K perturbations K + 1 times on average.

README:

| `FTPL()` | Σ log T / Δ | √(KT), **optimal** up to a constant | Honda, Ito and Tsuchiya 2023; Lee
et al. 2024 |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from bothworlds.arguments import keep, one_of, positive
from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import uniform
from bothworlds.policies import base
from bothworlds.policies.base import Array, Kernels, Policy, Saved, Traits

# Parameters: c, whether perturbations are Pareto. Rows: inverse probability (0, unknown); carried
# with a decision M; then L.
RATE, PARETO = 0, 1
WEIGHT, ARMS = 1, 2
CARRIED = (Saved("weight", low=1.0, high=2.0**53, whole=True),)


@jit
def perturbation(C: Any, G: Any) -> float:
    """Draw r: F(x) = exp(-1 / x^2), or 1 - 1 / x^2 from 1 on."""
    v = 1.0 - uniform(G, 0.0)
    if C[PARETO] != 0.0:
        return 1.0 / math.sqrt(v)
    # The logarithm of 1 is 0, for which r would be infinite.
    return 1.0 / math.sqrt(max(-log(v), 1e-16))


@jit
def leader(K: int, t: int, C: Any, S: Any, G: Any) -> int:
    """Draw perturbations and return the leader."""
    eta = C[RATE] / math.sqrt(t)
    arm = 0
    least = eta * S[ARMS] - perturbation(C, G)
    for i in range(1, K):
        index = eta * S[ARMS + i] - perturbation(C, G)
        if index < least:
            arm = i
            least = index
    return arm


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: float) -> int:
    """Return the leader, and leave M in the state; the generator serves, not ``u``."""
    arm = int(leader(K, t, C, S, G))
    drawn = 1
    while leader(K, t, C, S, G) != arm:
        drawn += 1
    S[0] = 0.0
    S[WEIGHT] = drawn
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float) -> None:
    """L_I += M l."""
    S[ARMS + arm] += S[WEIGHT] * loss


Perturbation = Literal["frechet", "pareto"]


@dataclass(frozen=True, repr=False)
class FTPL(Policy):
    """FTPL: the leader after random perturbations, with optimal regret in both worlds.

    Parameters
    ----------
    perturbation : {"frechet", "pareto"}, default "frechet"
        Distribution of the perturbations, of shape 2. Honda et al. prove the bounds of both worlds
        for Frechet, Lee et al. also for Pareto and others with such a tail.
    rate : float, default 1
        The constant c of the learning rate c / sqrt(t).

    Notes
    -----
    A decision has no ``probability``: only an estimate of its inverse is drawn.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.FTPL("pareto"), arms=["a", "b"], seed=1)
    >>> for _ in range(400):
    ...     decision = bandit.ask()
    ...     bandit.tell(decision, loss=float(decision.arm == "a"))
    >>> bandit.history()["b"].pulls > 300
    True

    References
    ----------
    Honda, Ito and Tsuchiya, *Follow-the-Perturbed-Leader Achieves Best-of-Both-Worlds for Bandit
    Problems*, ALT 2023; Lee, Honda, Ito and Oh, *Follow-the-Perturbed-Leader with Frechet-type Tail
    Distributions: Optimality in Adversarial Bandits and Best-of-Both-Worlds*, COLT 2024.
    """

    perturbation: Perturbation = "frechet"
    rate: float = 1.0

    traits: ClassVar[Traits] = Traits(
        nanoseconds=(40.0, 60.0),
        unproved="the articles state the order of its regret, without constants",
        head_rows=ARMS,
        carried_rows=1,
        rows_per_arm=1,
        knows_probability=False,
        saved_rows={0: base.ESTIMATES},
        saved_carried=CARRIED,
    )
    own_kernels = Kernels.of(choose, update, wide=False)

    def __post_init__(self) -> None:
        kinds = ("frechet", "pareto")
        keep(
            self,
            perturbation=one_of("perturbation", self.perturbation, "FTPL", kinds),
            rate=positive("rate", self.rate, "FTPL"),
        )

    def parameters(self, n_arms: int) -> Array:
        """Return c and whether perturbations are Pareto."""
        return np.array([self.rate, float(self.perturbation == "pareto")])
