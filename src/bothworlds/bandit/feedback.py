"""Feedback: from a reward or loss in the user's units to the loss that a policy learns from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import LARGEST, as_number
from bothworlds.errors import InvalidFeedback, must
from bothworlds.policies.base import LARGEST_LOSS, Policy

Feedback = SupportsFloat | bool
"""A reward or a loss as people have it: any number, a truth value, a decimal, a fraction."""

UNBOUNDED = (math.inf, -math.inf)
"""Stands for the bounds where there are none: no number lies within, so that none is taken for
one in [0, 1] before this is examined."""

ROUNDING = 1e-9
"""How far beyond a bound, as a share of the range, a value counts as the bound itself."""


def default_bounds(policy: Policy) -> tuple[float, float]:
    """Return the bounds of feedback where the user gives none."""
    return UNBOUNDED if policy.traits.unbounded else (0.0, 1.0)


def loss_within(
    bounds: tuple[float, float], reward: Any, loss: Any, owner: str = "Bandit.tell"
) -> float:
    """Return the loss that one of ``reward`` and ``loss`` stands for.

    It lies in [0, 1]; without bounds it is the loss itself, or minus the reward.

    Examples
    --------
    >>> loss_within((0.0, 250.0), reward=50.0, loss=None)
    0.8
    """
    low, high = bounds
    if (reward is None) == (loss is None):
        got = "neither" if loss is None else "both"
        raise InvalidFeedback(f"The feedback of {owner} must be a reward or a loss, got {got}.")
    given: Any = loss if reward is None else reward
    value = as_number(given)
    if low > high:
        if value is None:
            parameter = "loss" if reward is None else "reward"
            raise InvalidFeedback(must(parameter, owner, "a finite number", given))
        value = value if reward is None else -value
        return min(max(value, -LARGEST_LOSS), LARGEST_LOSS)
    slack = ROUNDING * (high - low)
    if value is None or not low - slack <= value <= high + slack:
        parameter = "loss" if reward is None else "reward"
        expected = f"a number in [{low:g}, {high:g}]"
        raise InvalidFeedback(must(parameter, owner, expected, given))
    value = min(max(value, low), high)
    return (value - low if reward is None else high - value) / (high - low)


def clipped_loss(bounds: tuple[float, float], reward: object, loss: object) -> float | None:
    """Return the loss in [0, 1] of a value beyond the bounds, None if it is no number.

    Examples
    --------
    >>> clipped_loss((0.0, 250.0), reward=None, loss=300), clipped_loss((0.0, 1.0), "x", None)
    (1.0, None)
    """
    value = as_number(loss if reward is None else reward)
    if value is None or (reward is None) == (loss is None):
        return None
    below = value < bounds[0]
    return float(below != (reward is None))


def losses_within(
    bounds: tuple[float, float], rewards: object, losses: object, owner: str
) -> NDArray[np.float64]:
    """Return the losses that ``rewards`` or ``losses`` stand for; see `loss_within`.

    Examples
    --------
    >>> losses_within((0.0, 250.0), rewards=[50.0, 250], losses=None, owner="Bandit.tell_many")
    array([0.8, 0. ])
    """
    if (rewards is None) == (losses is None):
        got = "neither" if losses is None else "both"
        raise InvalidFeedback(f"The feedback of {owner} must be rewards or losses, got {got}.")
    given: Any = losses if rewards is None else rewards
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidFeedback(must("feedback", owner, "a sequence of numbers", given))
    low, high = bounds
    plain = isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype == np.float64
    if not plain or low > high:
        given = given if type(given) is list else list(given)
        if low > high or set(map(type, given)) - {float}:
            each_of = [
                loss_within(bounds, None, each, owner)
                if rewards is None
                else loss_within(bounds, each, None, owner)
                for each in given
            ]
            return np.array(each_of, np.float64)
        given = np.array(given, np.float64)
    # Not true if one of them is NaN.
    if given.size and not (given.min() >= low and given.max() <= high):
        slack = ROUNDING * (high - low)
        outside = np.flatnonzero(~((given >= low - slack) & (given <= high + slack)))
        if outside.size:
            parameter = "losses" if rewards is None else "rewards"
            expected = f"numbers in [{low:g}, {high:g}]"
            raise InvalidFeedback(must(parameter, owner, expected, given[outside[0]]))
        given = np.clip(given, low, high)
    values: NDArray[np.float64] = given - low if rewards is None else high - given
    return values / (high - low)


@dataclass(slots=True)
class FeedbackUnits:
    """The user's units: bounds of rewards and losses, and the treatment of values beyond them."""

    bounds: tuple[float, float]
    """The smallest and the largest value, or `UNBOUNDED`."""
    clip: bool = False
    """Whether a value beyond the bounds counts as the bound instead of being refused."""
    clipped: int = 0
    """How many values did."""
    rewards: bool = False
    """Whether any feedback was a reward; reports then speak of rewards."""

    def copy(self) -> Self:
        """Return independent units of the same content."""
        made = self.__new__(type(self))
        made.bounds, made.clip = self.bounds, self.clip
        made.clipped, made.rewards = self.clipped, self.rewards
        return made

    def loss_of(self, reward: Any, loss: Any, owner: str) -> float:
        """Return the loss that a reward or loss stands for, clipped and counted if so wished."""
        low, high = self.bounds
        if reward is None and type(loss) is float and low <= loss <= high:
            # What most callers report; `loss_within` would return the same.
            return (loss - low) / (high - low)
        try:
            return loss_within(self.bounds, reward, loss, owner)
        except InvalidFeedback:
            value = clipped_loss(self.bounds, reward, loss) if self.clip else None
            if value is None:
                raise
            self.clipped += 1
            return value

    def listed(self, rewards: Any, losses: Any, owner: str) -> list[Any]:
        """Return many rewards or losses as a list, none of which `loss_of` will refuse."""
        given: Any = rewards if losses is None else losses
        if isinstance(given, Iterable) and not isinstance(given, str):
            given = list(given)
        bounds = self.bounds
        if self.clip and bounds != UNBOUNDED:
            bounds = -LARGEST / 4, LARGEST / 4
        one = rewards is None or losses is None
        losses_within(
            bounds,
            given if one and rewards is not None else rewards,
            given if one and losses is not None else losses,
            owner,
        )
        found: list[Any] = given
        return found
