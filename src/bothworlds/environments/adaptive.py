"""Adaptive adversaries: losses that answer the agent's past actions.

Losses are Bernoulli.  In every round one arm has a mean of its own and all others share another:

=========== ==================================================================================
strategy    what it does
=========== ==================================================================================
"betray"    Arm 0 is better than all others by D throughout.  As soon as the agent trusts it
            (more than half of the plays of the phase, which lasts at least 10 rounds and
            outgrows the past by 1.6), the level of all arms flips between 0 and 1 - D.  What was
            explored under the old level misleads: regret of UCB1 and Thompson sampling grows
            almost linearly.
"mirage"    Arm 0 is better by D throughout.  The level is high after a round in which the agent
            played it, and low after any other: the arms that are played away from the best one
            look good.
"punish"    The arm played in the round before has mean (1 + D)/2, all others (1 - D)/2: an agent
            that repeats itself, as UCB1 must, loses D in every round.
=========== ==================================================================================

The pseudo-regret compares with the best arm in expectation in hindsight (Zimmert and Seldin,
2021, section 2): rows from `Adaptive.tracked_row` on add up every arm's expected losses given the
agent's actions, and their means over the repetitions estimate the expectation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bothworlds.arguments import arm_count, flag, keep, one_of, positive_gap
from bothworlds.environments import memory
from bothworlds.environments.base import ORDER, Array, Environment, ordered, state
from bothworlds.environments.memory import remember
from bothworlds.environments.stochastic import coin
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import gather, load, select, splat, store

# Rows after the labels: the memory, then these, then every arm's accumulated expected loss and
# that of the best arm of each round.
LEVEL, BEGAN, TRUST, PLAYS = 3, 4, 5, 6
TRACKED = 7

SHORTEST = 10
"""Least length of a phase of "betray"."""
GROWTH = 1.6
"""Factor by which a phase of "betray" outgrows all rounds before it."""


@jit
def answer(
    K: int, E: Any, v: Any, fresh: Any, label: Any, special: Any, its: Any, others: Any
) -> Any:
    """Draw the loss of an arm where ``special`` has mean ``its`` and all others ``others``."""
    nothing = splat(0.0, v)
    first = 1 + K + TRACKED
    for i in range(K):
        expected = select(special == i, its, others)
        store(E, first + i, load(E, first + i, v) + select(fresh, expected, nothing))
    least = select(its < others, its, others)
    store(E, first + K, load(E, first + K, v) + select(fresh, least, nothing))
    mean = select(label == special, its, others)
    store(E, 0, mean)
    return coin(v, mean)


@jit
def loss_betray(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Flip the level once the agent trusts the best arm."""
    gap = C[0]
    at = 1 + K
    zero = splat(0.0, v)
    one = splat(1.0, v)
    label = gather(E, ORDER, arm)
    last, fresh = remember(E, at, t, label)
    plays = load(E, at + PLAYS, v) + select(fresh & (last == 0.0), one, zero)
    level = load(E, at + LEVEL, v)
    began = load(E, at + BEGAN, v)
    trust = load(E, at + TRUST, v)
    played = splat(t - 1, v)
    length = played - began
    turn = fresh & (length >= SHORTEST) & (2.0 * (plays - trust) > length)
    turn = turn & (played >= GROWTH * began)
    level = select(turn, (1.0 - gap) - level, level)
    store(E, at + PLAYS, plays)
    store(E, at + LEVEL, level)
    store(E, at + BEGAN, select(turn, played, began))
    store(E, at + TRUST, select(turn, plays, trust))
    return answer(K, E, v, fresh, label, zero, level, level + gap)


@jit
def loss_mirage(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Set the level by the last action: high after the best arm, else low."""
    gap = C[0]
    zero = splat(0.0, v)
    label = gather(E, ORDER, arm)
    last, fresh = remember(E, 1 + K, t, label)
    level = select(last == 0.0, splat(1.0 - gap, v), zero)
    return answer(K, E, v, fresh, label, zero, level, level + gap)


@jit
def loss_punish(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Make the arm just played the bad one."""
    gap = C[0]
    label = gather(E, ORDER, arm)
    last, fresh = remember(E, 1 + K, t, label)
    bad = splat(0.5 * (1.0 + gap), v)
    good = splat(0.5 * (1.0 - gap), v)
    return answer(K, E, v, fresh, label, last, bad, good)


Strategy = Literal["betray", "mirage", "punish"]
_KERNELS: dict[Strategy, Any] = {
    "betray": loss_betray,
    "mirage": loss_mirage,
    "punish": loss_punish,
}


@dataclass(frozen=True, repr=False, eq=False)
class Adaptive(Environment):
    """An adversary that sees the agent's past actions.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    strategy : {"betray", "mirage", "punish"}, default "betray"
        "betray" flips the level of all losses whenever the agent has come to trust the best arm,
        which UCB1 and Thompson sampling do not survive. "mirage" raises all losses after every
        play of the best arm. "punish" makes the arm played last the bad one.
    gap : float, default 0.125
        Difference between the two mean losses of a round, in (0, 1].
    shuffle : bool, default True
        Whether every repetition has the arms in an order of its own.

    Examples
    --------
    >>> from bothworlds.environments import Adaptive
    >>> Adaptive(4, "mirage", gap=0.25)
    Adaptive(n_arms=4, strategy='mirage', gap=0.25)

    References
    ----------
    Zimmert and Seldin, *Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
    Bandits*, JMLR 22, 2021, section 2 (the adaptive adversary and its pseudo-regret).
    """

    n_arms: int
    strategy: Strategy = "betray"
    gap: float = 0.125
    shuffle: bool = True
    regret = "tracked"

    def __post_init__(self) -> None:
        keep(
            self,
            n_arms=arm_count(self.n_arms, "Adaptive"),
            strategy=one_of("strategy", self.strategy, "Adaptive", tuple(_KERNELS)),
            gap=positive_gap(self.gap, "Adaptive"),
            shuffle=flag("shuffle", self.shuffle, "Adaptive"),
        )

    @property
    def tracked_row(self) -> int:
        """First row of the accumulated expected losses, by label."""
        return 1 + self.n_arms + TRACKED

    @property
    def memory_row(self) -> int:
        """First row of the memory."""
        return 1 + self.n_arms

    def parameters(self) -> Array:
        """Return the gap."""
        return np.array([self.gap])

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels, an empty memory and no losses yet."""
        order = ordered(rng, self.n_arms, self.shuffle)
        own = np.zeros(TRACKED - memory.ROWS)
        return state(order, memory.FIRST, own, np.zeros(self.n_arms + 1))

    def kernel(self) -> Any:
        """Return the kernel of the strategy."""
        return _KERNELS[self.strategy]
