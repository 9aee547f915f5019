"""Simulated traffic of the demonstration: the outcome of every option in every round.

Four worlds. All that happens in them follows from their seed, for any player; what an option would
return is drawn for all options at once, so that all policies play on the same traffic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Round:
    """One round of traffic.

    Parameters
    ----------
    losses : array
        What each option would cost, in the world's units.
    means : array
        Mean loss of each option right now; regret is computed from these.
    delay : int or None
        After how many rounds the feedback comes; None if it never does.
    trouble : bool
        Whether something is going on that a visitor should see.
    """

    losses: Array
    means: Array
    delay: int | None = 0
    trouble: bool = False


class World(ABC):
    """Traffic of one experiment.

    Parameters
    ----------
    seed : int
        Seed of the random numbers.
    rate : int
        Rounds a second, by which moments are chosen.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    trouble: ClassVar[str]
    """Description of the disturbance, while a round is disturbed."""
    unit: ClassVar[str]
    """Unit of the losses."""
    note: ClassVar[str]
    """The point of this world, in a sentence."""
    arms: ClassVar[tuple[str, ...]]
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(self, seed: int, rate: int) -> None:
        self.rng = np.random.default_rng([seed, *self.name.encode()])
        self.rate = rate
        self.t = 0

    def next(self) -> Round:
        """Return the next round."""
        self.t += 1
        return self._round(self.t)

    @abstractmethod
    def _round(self, t: int) -> Round:
        """Return round t."""

    def _coins(self, means: Array) -> Array:
        """Return a loss of 1 with these probabilities, else 0."""
        return (self.rng.random(len(means)) < means).astype(float)


class Headlines(World):
    """Headlines, and bots that begin at a random moment to click on everything they see.

    They come in waves and click all headlines alike: no headline gains on another, but a click
    during a wave is worth less than one before. A policy that averages compares the two.

    Examples
    --------
    >>> world = Headlines(seed=1, rate=100)
    >>> quiet = world.next()
    >>> quiet.trouble, quiet.means.round(2).tolist()
    (False, [0.9, 0.9, 0.78, 0.9, 0.9])
    >>> while not (wave := world.next()).trouble:
    ...     pass
    >>> wave.means.round(2).tolist()
    [0.2, 0.2, 0.08, 0.2, 0.2]
    """

    name = "headlines"
    title = "Headlines, attacked by bots"
    trouble = "bots click on everything"
    note = (
        "Bots click on all headlines alike. Policies that average mix clicks from different times."
    )
    unit = "clicks"
    arms = ("plain", "question", "number", "quote", "promise")
    RATES = np.array([0.10, 0.10, 0.22, 0.10, 0.10])
    BOTS = 0.70

    def __init__(self, seed: int, rate: int) -> None:
        super().__init__(seed, rate)
        self.begins = int(rate * self.rng.uniform(3.0, 5.0))
        self._wave = False
        self._until = self.begins

    def _round(self, t: int) -> Round:
        if t > self._until:
            self._wave = not self._wave
            self._until = t + int(self.rate * self.rng.uniform(3.0, 5.0))
        means = 1.0 - self.RATES - (self.BOTS if self._wave else 0.0)
        return Round(self._coins(means), means, trouble=self._wave)


class Models(World):
    """Language models: a judge's score comes late, out of order, and one time in ten never.

    Examples
    --------
    >>> world = Models(seed=1, rate=100)
    >>> rounds = [world.next() for _ in range(1000)]
    >>> sum(each.delay is None for each in rounds)
    104
    """

    name = "models"
    title = "Models, judged late or never"
    trouble = "judgements are late"
    note = "Late feedback still counts in full, so it harms none of the three."
    unit = "points"
    arms = ("small", "medium", "large")
    SCORES = np.array([0.55, 0.70, 0.95])
    PRICES = np.array([0.05, 0.25, 0.60])

    def _round(self, t: int) -> Round:
        scores = self.rng.beta(3.0 * self.SCORES, 3.0 * (1.0 - self.SCORES))
        price = 0.2 * self.PRICES
        delay = int(self.rate * (0.2 + self.rng.exponential(1.0)))
        lost = self.rng.random() < 0.1
        return Round(
            0.8 * (1.0 - scores) + price,
            0.8 * (1.0 - self.SCORES) + price,
            None if lost else delay,
        )


class Backends(World):
    """Back ends with heavy-tailed latencies, slowed down together by spells of load.

    Examples
    --------
    >>> world = Backends(seed=1, rate=100)
    >>> waited = [float(world.next().losses.max()) for _ in range(1000)]
    >>> max(waited)
    1000.0
    """

    name = "backends"
    title = "Back ends with heavy-tailed latency"
    trouble = "load slows all of them"
    note = "Load comes and goes; one back end is always faster."
    unit = "seconds"
    arms = ("lima", "oslo", "pune", "rome", "suva")
    bounds = (0.0, 1000.0)
    OWN = np.array([160.0, 80.0, 160.0, 160.0, 160.0])
    LOAD = 550.0

    def __init__(self, seed: int, rate: int) -> None:
        super().__init__(seed, rate)
        # What a cut tail costs on average has no formula worth writing down.
        tail = self._tail(np.random.default_rng(0), (200_000, 1))
        self._means = [
            np.minimum(self.OWN + load + tail, self.bounds[1]).mean(axis=0)
            for load in (0.0, self.LOAD)
        ]

    @staticmethod
    def _tail(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return 40.0 * rng.pareto(1.5, shape)

    def _round(self, t: int) -> Round:
        # Quiet and busy spells, each longer than the one before.
        busy = int(np.log1p(10.0 * t / self.rate) / np.log(1.6)) % 2
        tail = self._tail(self.rng, (len(self.arms),))
        losses = np.minimum(self.OWN + busy * self.LOAD + tail, self.bounds[1])
        return Round(losses, self._means[busy], trouble=bool(busy))


class Moving(World):
    """Offers whose best changes at random moments.

    Examples
    --------
    >>> world = Moving(seed=1, rate=5)
    >>> best = [int(world.next().means.argmin()) for _ in range(1000)]
    >>> len(set(best)) > 1
    True
    """

    name = "offers"
    title = "Offers whose best changes"
    trouble = "the best has just changed"
    note = (
        "UCB1 follows a sudden change soonest, AllWorlds detects it. Resetting the experiment makes"
        " the service start from zero."
    )
    unit = "sales"
    arms = ("north", "east", "south", "west")
    GOOD, BAD = 0.35, 0.60

    def __init__(self, seed: int, rate: int) -> None:
        super().__init__(seed, rate)
        self._best = int(self.rng.integers(len(self.arms)))
        self._since = 0
        self._until = int(rate * self.rng.uniform(20.0, 30.0))

    def _round(self, t: int) -> Round:
        if t > self._until:
            self._best = (self._best + int(self.rng.integers(1, 4))) % len(self.arms)
            self._since = t
            self._until = t + int(self.rate * self.rng.uniform(20.0, 30.0))
        means = np.full(len(self.arms), self.BAD)
        means[self._best] = self.GOOD
        new = self._since > 0 and t - self._since < 2 * self.rate
        return Round(self._coins(means), means, trouble=new)


WORLDS: tuple[type[World], ...] = (Headlines, Models, Backends, Moving)
"""The experiments of the demonstration, in their order."""
