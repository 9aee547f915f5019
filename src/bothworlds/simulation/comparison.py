"""Comparison of two policies: the paired difference in regret, with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """The paired difference in regret between two policies, with an interval.

    The interval comes from a studentised bootstrap, see `bothworlds.simulation.intervals`. Where a
    few runs carry the mean it would be wrong, so it is withheld: infinite at both ends. The share
    of runs in which the first policy loses more, and the median, can be estimated even there.

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
        The interval; infinite where it is withheld.
    level : float
        Its confidence level.
    rests_on : int
        How few runs deviate from the median more than all others together, where that is a
        twentieth of them or less; else 0.
    worse : int
        In how many runs the first policy has more regret.
    share : tuple of float
        Exact interval for the share of such runs.
    median : float
        Median difference.
    """

    first: str
    second: str
    round: int
    runs: int
    difference: float
    low: float
    high: float
    level: float
    rests_on: int = 0
    worse: int = 0
    share: tuple[float, float] = (0.0, 1.0)
    median: float = math.nan

    @property
    def withheld(self) -> bool:
        """Whether there is no interval."""
        return not math.isfinite(self.high - self.low)

    @property
    def apart(self) -> bool:
        """Whether the interval separates the two policies."""
        return self.low > 0.0 or self.high < 0.0

    def interval(self, digits: int = 1) -> str:
        """Return the interval in brackets, or why there is none.

        Examples
        --------
        >>> Comparison("a", "b", 10, 64, 5.0, 3.5, 6.25, 0.95).interval()
        '[+3.5, +6.2]'
        >>> inf = math.inf
        >>> Comparison("a", "b", 10, 64, 5.0, -inf, inf, 0.95, rests_on=2).interval()
        '[withheld: rests on 2 of 64 runs]'
        """
        if not self.withheld:
            resting = f", rests on {self.resting}" if self.rests_on else ""
            return f"[{self.low:+,.{digits}f}, {self.high:+,.{digits}f}{resting}]"
        if self.rests_on:
            return f"[withheld: rests on {self.resting}]"
        return f"[withheld: {self.runs} runs are too few]"

    @property
    def resting(self) -> str:
        """The runs the difference rests on, of how many."""
        return f"{self.rests_on:,} of {self.runs:,} runs"

    @property
    def robust(self) -> str:
        """Estimates that are valid even where a few runs carry the mean, as a sentence."""
        low, high = self.share
        return (
            f"{self.first} loses more in {self.worse:,} of {self.runs:,} runs, a share of "
            f"{low:.0%} to {high:.0%}; the median difference is {self.median:+,.1f}."
        )

    def __str__(self) -> str:
        text = (
            f"{self.first} minus {self.second} at round {self.round:,}: "
            f"{self.difference:+,.1f} {self.interval()} "
            f"({self.level:.0%} interval, {self.runs} pairs)"
        )
        return f"{text}. {self.robust}" if self.rests_on else text
