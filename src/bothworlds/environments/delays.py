"""Distributions of a delay: for how many rounds feedback is on its way.

Every arm's delay is five numbers in the array CD, and a list where it has one:

======== =========================================================================
KIND     `FIXED`, `EVENLY`, `GEOMETRIC` or `LISTED`
A, B     fixed: the delay; evenly: the least and how many; geometric: log(1 - p)
PLACE    listed: where in CD the delays begin; their cumulative probabilities follow
COUNT    listed: how many there are
======== =========================================================================

CD[0] is the probability that feedback never arrives.  A round takes two uniform numbers of a
stream of its own, regardless of what is played, so that the losses are those without delays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.arguments import is_whole, keep, number, real, whole
from bothworlds.environments.base import Array
from bothworlds.errors import invalid
from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import jit

LOST, ARMS = 0, 1
KIND, A, B, PLACE, COUNT, NUMBERS = 0, 1, 2, 3, 4, 5
FIXED, EVENLY, GEOMETRIC, LISTED = 0, 1, 2, 3

LONGEST = 2**52
"""Delays beyond any horizon count as this one."""
NEVER = -1


@jit
def delay_of(CD: Any, label: int, u: float, v: float) -> int:
    """Return the delay of the feedback on an arm, or `NEVER`; u and v are uniform numbers."""
    if u < CD[LOST]:
        return NEVER
    at = ARMS + NUMBERS * label
    kind = int(CD[at + KIND])
    if kind == FIXED:
        return int(CD[at + A])
    if kind == EVENLY:
        return int(CD[at + A] + math.floor(v * CD[at + B]))
    if kind == GEOMETRIC:
        return int(min(math.floor(log(1.0 - v) / CD[at + A]), float(LONGEST)))
    place, count = int(CD[at + PLACE]), int(CD[at + COUNT])
    n = 0
    while n < count - 1 and v >= CD[place + count + n]:
        n += 1
    return int(CD[place + n])


@dataclass(frozen=True)
class UniformDelay:
    """Delays from ``low`` to ``high`` rounds, all equally likely.

    Examples
    --------
    >>> from bothworlds.environments import UniformDelay
    >>> UniformDelay(0, 200)
    UniformDelay(low=0, high=200)
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        low = _rounds("low", self.low, "UniformDelay")
        high = _rounds("high", self.high, "UniformDelay")
        if high < low:
            raise invalid("high", "UniformDelay", f"at least low, which is {low}", high)
        keep(self, low=low, high=high)


@dataclass(frozen=True)
class GeometricDelay:
    """Geometric delays 0, 1, 2, ...: feedback is as likely to arrive in any round to come.

    Examples
    --------
    >>> from bothworlds.environments import GeometricDelay
    >>> GeometricDelay(100)
    GeometricDelay(mean=100.0)
    """

    mean: float

    def __post_init__(self) -> None:
        expected = "a number of rounds of at least 0"
        mean = number("mean", self.mean, "GeometricDelay", 0.0, 2.0**40, expected)
        keep(self, mean=mean)


@dataclass(frozen=True)
class ListedDelay:
    """Any delays with any probabilities; a mapping from delays to probabilities means the same.

    Examples
    --------
    >>> from bothworlds.environments import ListedDelay
    >>> ListedDelay((0, 1000), (0.9, 0.1))
    ListedDelay(delays=(0, 1000), probabilities=(0.9, 0.1))
    """

    delays: tuple[int, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        owner = "ListedDelay"
        given = self.delays
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise invalid("delays", owner, "one or more numbers of rounds", given)
        delays = tuple(_rounds("delays", each, owner) for each in given)
        shares = self.probabilities
        listed = isinstance(shares, Sequence) and not isinstance(shares, str)
        values = [real(each) for each in shares] if listed else []
        total = sum(each for each in values if each is not None)
        if (
            len(values) != len(delays)
            or any(each is None or each < 0.0 for each in values)
            or abs(total - 1.0) > 1e-9
        ):
            expected = f"{len(delays)} numbers of at least 0 that sum to 1"
            raise invalid("probabilities", owner, expected, shares)
        keep(self, delays=delays, probabilities=tuple(float(each or 0.0) for each in values))


Distribution = int | UniformDelay | GeometricDelay | ListedDelay
"""How long the feedback on an arm takes: always as long, or by chance."""


def _rounds(parameter: str, value: object, owner: str) -> int:
    expected = "a whole number of rounds of at least 0"
    return min(whole(parameter, value, owner, 0, expected), LONGEST)


def checked_delay(value: object, owner: str) -> Distribution:
    """Read the delay of one arm."""
    if isinstance(value, UniformDelay | GeometricDelay | ListedDelay):
        return value
    if isinstance(value, Mapping):
        return ListedDelay(tuple(value.keys()), tuple(value.values()))
    if is_whole(value) and int(value) >= 0:
        return min(int(value), LONGEST)
    expected = (
        "a whole number of rounds, a distribution such as GeometricDelay(100), or one per arm"
    )
    raise invalid("delay", owner, expected, value)


def encoded(delays: Sequence[Distribution], lost: float) -> Array:
    """Return CD for the delays of all arms, in the order of the environment's constructor."""
    heads: list[float] = [lost]
    lists: list[float] = []
    place = ARMS + NUMBERS * len(delays)
    for each in delays:
        head = [0.0] * NUMBERS
        if isinstance(each, UniformDelay):
            head[KIND], head[A], head[B] = EVENLY, each.low, each.high - each.low + 1
        elif isinstance(each, GeometricDelay) and each.mean > 0.0:
            head[KIND], head[A] = GEOMETRIC, math.log1p(-1.0 / (1.0 + each.mean))
        elif isinstance(each, ListedDelay):
            head[KIND], head[PLACE], head[COUNT] = LISTED, place + len(lists), len(each.delays)
            lists += [*each.delays, *np.cumsum(each.probabilities).tolist()]
        elif not isinstance(each, GeometricDelay):
            head[A] = each
        heads += head
    return np.array([*heads, *lists], dtype=np.float64)
