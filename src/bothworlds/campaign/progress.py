"""Progress of a simulation: rounds per second and time left, on one line of a terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bothworlds.text import speed, watched


@dataclass(frozen=True)
class Progress:
    """A moment of a running simulation.

    Parameters
    ----------
    name : str
        The policy a report came from.
    done, total : int
        Rounds times repetitions.
    seconds : float
        Since the start.
    remaining : float, optional
        Estimated seconds left, by what each policy costs.
    curve : int
        Which of the curves that are run the report came from.
    """

    name: str
    done: int
    total: int
    seconds: float
    remaining: float | None = None
    curve: int = 0

    @property
    def rate(self) -> float:
        """Rounds per second so far."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def left(self) -> float:
        """Estimated seconds left; infinite before the first round."""
        if self.remaining is not None:
            return self.remaining
        return (self.total - self.done) / self.rate if self.rate > 0 else float("inf")

    def __str__(self) -> str:
        left = f"{self.left:,.0f} s left" if self.left < 1e7 else "starting"
        share = self.done / max(self.total, 1)
        return f"{share:4.0%}  {speed(self.rate)}  {left}  {self.name}"


@contextlib.contextmanager
def reporting(
    total: int, show: bool | Callable[[Progress], Any], left: Callable[[], float]
) -> Iterator[Callable[[str, int, int], None]]:
    """Add up the rounds of all threads and show them a few times a second.

    Parameters
    ----------
    total : int
        Rounds times repetitions to come.
    show : bool or callable
        True writes one updating line to standard error, on a terminal or in a notebook; a
        callable gets a `Progress` instead.
    left : callable
        Estimates the seconds left.

    Yields
    ------
    callable
        Counts rounds: takes the name of the policy that played them, their number and the number
        of the curve. Any thread may call it.

    Examples
    --------
    >>> with reporting(10, lambda now: print(now.name, now.done, now.total), lambda: 0.0) as count:
    ...     count("UCB1()", 10, 0)
    UCB1() 10 10
    """
    lock, began = threading.Lock(), time.perf_counter()
    on_a_line = not callable(show) and show and watched()
    give = _write_line if on_a_line else show if callable(show) else None
    done, shown = 0, 0.0

    def count(name: str, rounds: int, curve: int) -> None:
        nonlocal done, shown
        with lock:
            done += rounds
            now = time.perf_counter()
            if give is not None and (now - shown >= 0.1 or done >= total):
                shown = now
                give(Progress(name, done, total, now - began, left(), curve))

    try:
        yield count
    finally:
        if on_a_line and shown:
            _write_line("")


def _write_line(now: Progress | str) -> None:
    """Replace the last line on the terminal."""
    sys.stderr.write(f"\r\x1b[K{str(now)[:79]}")
    sys.stderr.flush()
