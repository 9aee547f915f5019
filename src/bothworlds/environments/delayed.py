"""Delayed feedback: an environment whose losses arrive later, or never.

The feedback on round t with delay d is learned from after the decision of round t + d and before
that of round t + d + 1, weighted with the probabilities of round t, as a `bothworlds.Bandit` does.
Delay 0 is prompt feedback.  What arrives in one round is learned in the order of the decisions,
behind the prompt feedback of the round itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bothworlds.arguments import keep, share
from bothworlds.environments.base import Array, Attack, Environment
from bothworlds.environments.delays import Distribution, checked_delay, encoded
from bothworlds.environments.wrapped import Wrapped
from bothworlds.errors import invalid


@dataclass(frozen=True, repr=False, eq=False, init=False)
class Delayed(Wrapped):
    """An environment whose feedback arrives later, or never.

    Losses and regret are those of the base; the cost of a decision counts in its own round. Memory
    is taken for decisions whose feedback is on its way, nothing else. Runs with late feedback
    cannot be continued to a longer horizon.

    Parameters
    ----------
    base : Environment
        Any environment with one arm played per round, `Advised` included.
    delay : int, distribution, or sequence of these
        How many rounds feedback takes: always as many; by a distribution, which is
        `UniformDelay`, `GeometricDelay`, `ListedDelay` or a mapping from delays to
        probabilities; or one of these for every arm, as the base counts them.
    lost : float, default 0
        The probability that feedback never arrives.

    Examples
    --------
    >>> from bothworlds.environments import Delayed, GeometricDelay, Stochastic
    >>> Delayed(Stochastic.gap(2, 0.25), delay=100)
    Delayed(base=Stochastic(means=[0.375, 0.625]), delay=100)
    >>> Delayed(Stochastic.gap(2, 0.25), delay=[0, GeometricDelay(50)], lost=0.1)
    Delayed(base=Stochastic(means=[0.375, 0.625]), delay=(0, GeometricDelay(mean=50.0)), lost=0.1)

    References
    ----------
    Zimmert and Seldin, *An Optimal Algorithm for Adversarial Bandits with Arbitrary Delays*,
    AISTATS 2020.
    """

    base: Environment
    delay: Distribution | tuple[Distribution, ...]
    lost: float

    def __init__(
        self,
        base: Environment,
        delay: Distribution | Mapping[int, float] | Sequence[Distribution],
        lost: float = 0.0,
    ) -> None:
        owner = "Delayed"
        if not isinstance(base, Environment) or base.kind == "duel" or base.delays() is not None:
            expected = "an environment for one arm a round that is not delayed itself"
            raise invalid("base", owner, expected, base)
        self._take_over(base)
        given: Distribution | tuple[Distribution, ...]
        if isinstance(delay, Sequence) and not isinstance(delay, str):
            given = tuple(checked_delay(each, owner) for each in delay)
            if len(given) != base.n_arms:
                expected = f"one for all arms or one for each of {base.n_arms}"
                raise invalid("delay", owner, expected, delay)
        else:
            given = checked_delay(delay, owner)
        keep(self, delay=given, lost=share("lost", lost, owner))

    def _arguments(self) -> dict[str, Any]:
        return {"base": self.base, "delay": self.delay, "lost": self.lost}

    def delays(self) -> Array:
        """Return the numbers of `bothworlds.environments.delays`."""
        each = self.delay if isinstance(self.delay, tuple) else (self.delay,) * self.n_arms
        return encoded(each, self.lost)

    def stage(self) -> Attack | None:
        """Return the base's attack, if it is under one."""
        return self.base.stage()
