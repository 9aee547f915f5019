"""The moderately contaminated stochastic regime of Seldin and Slivkins.

Before the game some of the losses, as (round, arm) pairs, are replaced.  For every t >= tau, at
most t D_i / 4 losses of a suboptimal arm i are replaced up to round t, and at most t D_min / 4 of
an optimal one, D_min the smallest positive gap: on average over time a gap can be halved, but not
closed.

======== ===================================================================
symbol   meaning
======== ===================================================================
``D_i``  gap of the played arm, row 0 of the base's state
``q``    replaced losses per round: D_i / 4, or D_min / 4 for an optimal arm
``N_t``  replaced losses up to round t: min(t, floor(q max(t, tau)))
======== ===================================================================

A loss of an optimal arm is replaced by 1, one of a suboptimal arm by 0, in as many rounds as are
allowed: those where N_t grows.  Up to tau they come as early as possible, afterwards evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.arguments import keep, whole
from bothworlds.environments.base import Array, Attack, Environment
from bothworlds.environments.wrapped import Wrapped
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import floor, load, minimum, select, splat, store

SMALLEST, TAU = 0, 1


@jit
def replaced(t: int, q: Any, tau: float) -> Any:
    """Return N_t."""
    return minimum(splat(t, q), floor(q * max(float(t), tau)))


@jit
def contaminate(
    base_loss: Any, K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any, CA: Any, A: Any
) -> Any:
    """Replace the loss in the rounds where N_t grows, and count the replacements observed."""
    loss = base_loss(K, t, C, E, G, v, arm)
    gap = load(E, 0, v)
    suboptimal = gap > 0.0
    zero = splat(0.0, v)
    one = splat(1.0, v)
    q = 0.25 * select(suboptimal, gap, splat(CA[SMALLEST], v))
    grows = replaced(t, q, CA[TAU]) > replaced(t - 1, q, CA[TAU])
    store(A, 0, load(A, 0, v) + select(grows, one, zero))
    return select(grows, select(suboptimal, zero, one), loss)


@dataclass(frozen=True, repr=False, eq=False)
class Contaminated(Wrapped):
    """The moderately contaminated regime: as many losses replaced as it allows, to do most harm.

    Regret is that of the base, the sum of the gaps of the arms played.

    Parameters
    ----------
    base : Environment
        An environment with fixed gaps, at least one of them positive.
    tau : int, default 1
        The round from which on the regime's limits hold. Before it the replaced losses come as
        early as possible: a fraction D_i / 4 of the first tau rounds, at their start.

    Examples
    --------
    >>> from bothworlds.environments import Contaminated, Stochastic
    >>> Contaminated(Stochastic.gap(2, 0.25), tau=1000)
    Contaminated(base=Stochastic(means=[0.375, 0.625]), tau=1000)

    References
    ----------
    Seldin and Slivkins, *One Practical Algorithm for Both Stochastic and Adversarial Bandits*,
    ICML 2014; Zimmert and Seldin, *Tsallis-INF*, JMLR 22, 2021, section 5.2.
    """

    base: Environment
    tau: int = 1

    def __post_init__(self) -> None:
        self._wrap(self.base)
        gaps = self.base.fixed_gaps()
        if not np.any(gaps > 0.0):
            expected = "an environment with fixed gaps, at least one of them positive"
            raise invalid("base", "Contaminated", expected, self.base)
        keep(self, tau=whole("tau", self.tau, "Contaminated", 1))

    def stage(self) -> Attack:
        """Return the replacement stage; row 0 of its state counts the agent's replaced losses."""
        gaps = self.base.fixed_gaps()
        return Attack(contaminate, np.array([gaps[gaps > 0.0].min(), self.tau]), _none_met)


def _none_met(rng: np.random.Generator) -> Array:
    """Return the state of the stage before the first round."""
    return np.zeros(1)
