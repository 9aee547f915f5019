"""Costs of a round: a guess first, then what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from bothworlds.campaign.curve import Curve
from bothworlds.lanes.types import LANES
from bothworlds.policies.sparring import Sparring

_COSTS = {
    "TsallisINF": (10.0, 0.7),
    "UCB1": (9.0, 0.6),
    "ThompsonSampling": (10.0, 14.0),
    "KLUCB": (50.0, 60.0),
}
"""Rough nanoseconds per round: a part for the round and a part for each arm."""


def is_wide(curve: Curve) -> bool:
    """Return whether the repetitions of a tile are played together, by vectors."""
    player = curve.player
    return player.sides().wide if isinstance(player, Sparring) else player.kernels().wide


def guessed(curve: Curve) -> float:
    """Return a guess of the seconds of a round of one repetition."""
    sides = 2 if isinstance(curve.policy, Sparring) else 1
    policy = curve.policy.policy if isinstance(curve.policy, Sparring) else curve.policy
    base, per_arm = _COSTS.get(type(policy).__name__, (10.0, 1.0))
    if not is_wide(curve):
        base, per_arm = 300.0, 120.0
    return sides * (base + per_arm * curve.environment.n_arms) * 1e-9


class Costs:
    """Seconds of the work of a campaign, estimated better and better.

    The unit of work is a round of a lane: a tile of vectors costs the same however many of its
    lanes are in use.

    Parameters
    ----------
    curves : sequence of Curve
        The campaign.
    """

    def __init__(self, curves: Sequence[Curve]) -> None:
        self._guess = [guessed(curve) for curve in curves]
        self._wide = [is_wide(curve) for curve in curves]
        self._measured: dict[int, float] = {}
        # The guesses count as much as this many seconds of measurement.
        self._expected = self._spent = 1.0

    def lanes(self, index: int, count: int) -> int:
        """Return the lanes that ``count`` repetitions in one tile of a curve cost."""
        return LANES if self._wide[index] else count

    def seconds(self, index: int, work: float) -> float:
        """Return the seconds that ``work`` rounds of a lane of a curve take on one core."""
        rate = self._measured.get(index)
        if rate is None:
            rate = self._guess[index] * self._spent / self._expected
        return rate * work

    def note(self, index: int, work: float, seconds: float) -> None:
        """Take note of what ``work`` took."""
        self._measured[index] = seconds / work
        self._expected += self._guess[index] * work
        self._spent += seconds
