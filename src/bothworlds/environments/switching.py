"""The paper's stochastically constrained adversary: two levels, in phases of growing length.

The mean losses of the best arm and of the other arms alternate between (1 - D, 1), the high phase,
and (0, D), the low one.  Gaps stay fixed, so the pseudo-regret is the sum of the gaps of the arms
played, as in the stochastic regime; but an arm explored only while losses were low looks better
than the best arm does when they are high.

======== =====================================================
symbol   meaning
======== =====================================================
``D``    the gap
``D_i``  gap of arm i: 0 or D, rows 1 + K to 2K
======== =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import arm_count, flag, keep, number, one_of, positive_gap
from bothworlds.environments.base import Array, Environment, ordered, state
from bothworlds.environments.lookup import phase_of
from bothworlds.environments.stochastic import coin
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import store

# Parameters: levels of the odd and even phases, length of the phases after the last one listed,
# number of the phases listed, their first rounds (the first phase's is not listed: it is 1).
PERIOD, PHASES, ROUNDS = 2, 3, 4

_END = 2.0**53
_SLOWEST = 1.0001


@jit
def loss_switching(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Return a Bernoulli loss with the phase's level plus the arm's gap as its mean."""
    listed = int(C[PHASES])
    phase = phase_of(t, C, ROUNDS, listed)
    if phase == listed:
        first = 1 if listed == 0 else int(C[ROUNDS + listed - 1])
        phase += (t - first) // int(C[PERIOD])
    gap = take(E, 1 + K, K, arm)
    store(E, 0, gap)
    return coin(v, gap + C[phase % 2])


@dataclass(frozen=True, repr=False, eq=False)
class Switching(Environment):
    """The stochastically constrained adversary of the paper's experiments.

    Phase s = 1, 2, ... lasts max(1, round(first_length * factor^(s - 1))) rounds. Bernoulli losses
    have means (1 - gap, 1) for the best arm and the other arms in high phases, (0, gap) in low
    ones.

    Parameters
    ----------
    n_arms : int
        Number of arms; one of them is best.
    gap : float
        Gap of all others, in (0, 1].
    factor : float, default 1.6
        Growth of the phases: 1 (all equally long) or at least 1.0001.
    first_length : float, optional
        Length of the first phase before rounding, at least 1. By default ``factor``: phase s lasts
        factor^s rounds.
    first_level : {"high", "low"}, default "high"
        The level of the first phase.
    shuffle : bool, default True
        Whether every repetition has the arms in an order of its own.

    Examples
    --------
    >>> from bothworlds.environments import Switching
    >>> environment = Switching(8, 0.125)
    >>> environment
    Switching(n_arms=8, gap=0.125)
    >>> environment.switches(100)
    array([ 3,  6, 10, 17, 27, 44, 71])

    References
    ----------
    Zimmert and Seldin, *Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
    Bandits*, JMLR 22, 2021, sections 2 and 8; the phase lengths are those of Zimmert, Luo and
    Wei, *Beating Stochastic and Adversarial Semi-bandits Optimally and Simultaneously*, ICML 2019.
    """

    n_arms: int
    gap: float
    factor: float = 1.6
    first_length: float | None = None
    first_level: Literal["high", "low"] = "high"
    shuffle: bool = True

    def __post_init__(self) -> None:
        owner = "Switching"
        expected = f"1, or a number in [{_SLOWEST}, 1000]"
        factor = number("factor", self.factor, owner, 1.0, 1000.0, expected)
        if 1.0 < factor < _SLOWEST:
            raise invalid("factor", owner, expected, self.factor)
        if self.first_length is not None:
            expected = "a number of rounds of at least 1"
            length = number("first_length", self.first_length, owner, 1.0, 2.0**52, expected)
            keep(self, first_length=length)
        keep(
            self,
            n_arms=arm_count(self.n_arms, owner),
            gap=positive_gap(self.gap, owner),
            factor=factor,
            first_level=one_of("first_level", self.first_level, owner, ("high", "low")),
            shuffle=flag("shuffle", self.shuffle, owner),
        )

    def _first_rounds(self) -> list[int]:
        """Return the first rounds of phases 2, 3, ... as far as doubles count rounds exactly."""
        if self.factor == 1.0:
            return []
        length = self.factor if self.first_length is None else self.first_length
        first_round = 1
        rounds = []
        while length < _END:
            first_round += max(1, round(length))
            if first_round >= _END:
                break
            rounds.append(first_round)
            length *= self.factor
        return rounds

    def switches(self, horizon: int) -> NDArray[np.int64]:
        """Return the rounds up to ``horizon`` that are the first of a new phase."""
        if self.factor == 1.0:
            return np.arange(1 + self._period, horizon + 1, self._period)
        rounds = np.array(self._first_rounds(), dtype=np.int64)
        return rounds[rounds <= horizon]

    @property
    def _period(self) -> int:
        """Length of the phases that are not listed: all if the factor is 1, else beyond reach."""
        return round(self.first_length or 1.0) if self.factor == 1.0 else 2**53

    def fixed_gaps(self) -> Array:
        """Return the gap of every arm; the first is best."""
        return np.where(np.arange(self.n_arms) == 0, 0.0, self.gap)

    def parameters(self) -> Array:
        """Return the two levels and the phases."""
        high, low = 1.0 - self.gap, 0.0
        levels = [high, low] if self.first_level == "high" else [low, high]
        rounds = self._first_rounds()
        return np.array([*levels, self._period, len(rounds), *rounds])

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels and the gaps in this repetition's order."""
        order = ordered(rng, self.n_arms, self.shuffle)
        return state(order, self.fixed_gaps()[order])

    def kernel(self) -> Any:
        """Return the kernel."""
        return loss_switching
