"""Stochastically constrained adversaries: any moving level, fixed gaps.

The mean loss of arm i in round t is level_t + D_i.  The level is an array over the rounds, a
function of the round, or a function of the round and the arm played in the round before, so it
may depend on the agent's past actions.  Gaps are fixed, so the pseudo-regret is their sum over
the arms played (Zimmert and Seldin, 2021, section 2).

======== ===========================================================
symbol   meaning
======== ===========================================================
``D_i``  gap of arm i, rows 1 + K to 2K
C[0]     the largest level that keeps every mean at most 1
======== ===========================================================
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike

from bothworlds.arguments import flag, frozen, keep, numbers, unit_vector
from bothworlds.environments import memory
from bothworlds.environments.base import ORDER, Array, Environment, ordered, state
from bothworlds.environments.stochastic import coin
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import gather, splat, store
from bothworlds.usercode import (
    argument_count,
    rehearse_function,
    some_arms,
    some_rounds,
    twin_of_whole,
)

_ROUNDING = 1e-12
"""How far a mean may pass 0 or 1, for levels such as 1 - gap."""


@jit
def at_level(K: int, C: Any, E: Any, v: Any, arm: Any, level: Any) -> Any:
    """Return a Bernoulli loss with mean level + D_arm, or NaN if the level leaves no room."""
    gap = take(E, 1 + K, K, arm)
    store(E, 0, gap)
    if not (level >= -_ROUNDING and level <= C[0]):
        return splat(math.nan, v)
    return coin(v, gap + level)


@jit
def loss_listed(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Take the level of the round from the list in C."""
    return at_level(K, C, E, v, arm, C[t])


@functools.lru_cache(maxsize=64)
def kernel_of_round(level: Any, check: bool = True) -> Any:
    """Build the kernel for a level that is a function of the round."""
    level = twin_of_whole(level, 1, "level", "Constrained", check)

    @numba.njit(nogil=True, error_model="numpy")
    def loss(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
        return at_level(K, C, E, v, arm, float(level(t)))

    return loss


@functools.lru_cache(maxsize=64)
def kernel_of_action(level: Any, check: bool = True) -> Any:
    """Build the kernel for a level that also depends on the arm played in the round before."""
    level = twin_of_whole(level, 2, "level", "Constrained", check)
    remember = memory.remember

    @numba.njit(nogil=True, error_model="numpy")
    def loss(K: int, t: int, C: Any, E: Any, G: Any, v: float, arm: int) -> Any:
        last, _ = remember(E, 1 + 2 * K, t, gather(E, ORDER, arm))
        return at_level(K, C, E, v, arm, float(level(t, int(last))))

    return loss


@dataclass(frozen=True, repr=False, eq=False, init=False)
class Constrained(Environment):
    """A stochastically constrained adversary: Bernoulli losses, fixed gaps, a moving level.

    Parameters
    ----------
    gaps : sequence of float
        Gap of every arm, in [0, 1], at least one of them 0.
    level : array or function
        Mean loss of the best arm: an array with one number per round; ``level(t)``, t from 1; or
        ``level(t, last)``, where ``last`` is the arm played in the round before, -1 in the first
        round. Functions are compiled by Numba. Every mean, level plus gap, must be in [0, 1];
        a function that leaves it is reported by the simulation.
    shuffle : bool, default True
        Whether every repetition has the arms in an order of its own. ``last`` counts arms as
        ``gaps`` does.

    Examples
    --------
    >>> import math
    >>> from bothworlds.environments import Constrained
    >>> def wave(t):
    ...     return 0.4 + 0.4 * math.sin(t / 1000)
    >>> Constrained([0.0, 0.1, 0.2], wave)
    Constrained(gaps=[0.0, 0.1, 0.2], level=wave)

    References
    ----------
    Wei and Luo, *More Adaptive Algorithms for Adversarial Bandits*, COLT 2018; Zimmert and
    Seldin, *Tsallis-INF*, JMLR 22, 2021, section 2.
    """

    gaps: Array
    level: Array | Callable[..., float]
    shuffle: bool

    def __init__(
        self, gaps: ArrayLike, level: ArrayLike | Callable[..., float], shuffle: bool = True
    ) -> None:
        owner = "Constrained"
        D = unit_vector("gaps", gaps, owner)
        if D.min() != 0.0:
            expected = "a vector of numbers in [0, 1] with at least one zero"
            raise invalid("gaps", owner, expected, gaps)
        keep(self, gaps=frozen(D), n_arms=D.size, shuffle=flag("shuffle", shuffle, owner))
        if callable(level):
            count = argument_count("level", level, owner, (1, 2))
            keep(self, level=level, wide=count == 1, trusted=False)
            return
        levels = numbers(level)
        top = 1.0 - D.max()
        if levels is None or levels.ndim != 1 or levels.size == 0:
            expected = "a function, or an array with one number per round"
            raise invalid("level", owner, expected, level)
        outside = ~((levels >= -_ROUNDING) & (levels <= top + _ROUNDING))
        if outside.any():
            expected = f"in [0, {top:g}], so that every mean is in [0, 1]"
            raise invalid("level", owner, expected, levels[outside][0])
        keep(self, level=frozen(levels), horizon_limit=levels.size)

    @property
    def adaptive(self) -> bool:
        """Whether the level answers the agent's last action."""
        return not self.wide

    def fixed_gaps(self) -> Array:
        """Return the gap of every arm."""
        return self.gaps

    @property
    def memory_row(self) -> int:
        """First row of the memory."""
        return 1 + 2 * self.n_arms

    def parameters(self) -> Array:
        """Return the largest level and, where it is an array, the levels."""
        top = [1.0 - self.fixed_gaps().max() + _ROUNDING]
        if callable(self.level):
            return np.array(top)
        return np.concatenate([top, self.level])

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels, the gaps and a memory of the last action."""
        order = ordered(rng, self.n_arms, self.shuffle)
        return state(order, self.fixed_gaps()[order], memory.FIRST)

    def kernel(self) -> Any:
        """Return the kernel for this kind of level."""
        if not callable(self.level):
            return loss_listed
        return kernel_of_round(self.level) if self.wide else kernel_of_action(self.level)

    def unchecked_kernel(self) -> Any:
        """Return the kernel for the engine."""
        if not callable(self.level):
            return loss_listed
        make = kernel_of_round if self.wide else kernel_of_action
        return make(self.level, check=False)

    def rehearse(self, horizon: int) -> None:
        """Run the function of the level, if it is one, in the first rounds and the last."""
        if not callable(self.level):
            return
        played: Iterable[tuple[int, ...]] = ((t,) for t in some_rounds(horizon))
        if not self.wide:
            played = product(some_rounds(horizon), some_arms(self.n_arms))
            played = ((t, last if t > 1 else -1) for t, last in played)
        top = float(self.parameters()[0])
        rehearse_function(self.level, played, "level", "Constrained", -_ROUNDING, top)
