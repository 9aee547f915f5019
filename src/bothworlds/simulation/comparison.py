"""Comparison of two policies: the paired difference in regret, with an interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """The paired difference in regret between two policies, with a bootstrap interval.

    Parameters
    ----------
    first, second : str
        The policies; the difference is first minus second.
    round : int
        The checkpoint.
    runs : int
        Repetitions both have.
    difference : float
        Mean difference.
    low, high : float
        Bootstrap interval.
    level : float
        Its confidence level.
    """

    first: str
    second: str
    round: int
    runs: int
    difference: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return (
            f"{self.first} minus {self.second} at round {self.round:,}: "
            f"{self.difference:+.1f} [{self.low:+.1f}, {self.high:+.1f}] "
            f"({self.level:.0%} bootstrap interval, {self.runs} pairs)"
        )
