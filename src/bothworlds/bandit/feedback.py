"""From a user's reward or loss, in the user's units, to a loss in [0, 1]."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from bothworlds.errors import InvalidFeedback, InvalidParameter, must


def checked_bounds(bounds: object) -> tuple[float, float]:
    """Return the bounds of rewards or losses as two floats.

    Examples
    --------
    >>> checked_bounds((0, 250))
    (0.0, 250.0)
    """
    try:
        low, high = (float(bound) for bound in bounds)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        low = high = math.nan
    # Not "high <= low", which NaN would pass.
    if not (low < high and math.isfinite(high - low)):
        expected = "two finite numbers, the first below the second"
        raise InvalidParameter(must("bounds", "Bandit", expected, bounds))
    return low, high


def loss_within(
    bounds: tuple[float, float], reward: object, loss: object, owner: str = "Bandit.tell"
) -> float:
    """Return the loss in [0, 1] that one of ``reward`` and ``loss`` stands for.

    Examples
    --------
    >>> loss_within((0.0, 250.0), reward=50.0, loss=None)
    0.8
    """
    low, high = bounds
    # The common case first: what follows it is slow, and feedback is told in every round.
    if loss is None and type(reward) is float and low <= reward <= high:
        return (high - reward) / (high - low)
    if reward is None and type(loss) is float and low <= loss <= high:
        return (loss - low) / (high - low)
    if (reward is None) == (loss is None):
        got = "neither" if loss is None else "both"
        raise InvalidFeedback(f"The feedback of {owner} must be a reward or a loss, got {got}.")
    given: Any = loss if reward is None else reward
    number = isinstance(given, Real) and not isinstance(given, bool)
    if not (number and low <= given <= high):
        parameter = "loss" if reward is None else "reward"
        expected = f"a number in [{low:g}, {high:g}]"
        raise InvalidFeedback(must(parameter, owner, expected, given))
    value = float(given)
    return (value - low if reward is None else high - value) / (high - low)
