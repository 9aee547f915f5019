"""Progress of a simulation: rounds per second and time left, on one line of a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bothworlds.text import speed


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


class Reporter:
    """Adds up the rounds of all threads and shows them a few times a second.

    Parameters
    ----------
    total : int
        Rounds times repetitions to come.
    show : bool or callable
        True writes one updating line to a terminal's standard error; a callable gets a
        `Progress` instead.
    left : callable
        Estimates the seconds left.
    """

    def __init__(
        self, total: int, show: bool | Callable[[Progress], Any], left: Callable[[], float]
    ) -> None:
        self._total = total
        self._left = left
        self._show: Callable[[Progress], Any] | None
        if callable(show):
            self._show = show
        else:
            self._show = self._line if show and sys.stderr.isatty() else None
        self._done = 0
        self._began = time.perf_counter()
        self._shown = 0.0
        self._lock = threading.Lock()
        self._wrote = False

    def add(self, name: str, rounds: int, curve: int) -> None:
        """Count ``rounds`` played by the policy ``name`` of a curve."""
        with self._lock:
            self._done += rounds
            now = time.perf_counter()
            if self._show is None or (now - self._shown < 0.1 and self._done < self._total):
                return
            self._shown = now
            self._show(
                Progress(name, self._done, self._total, now - self._began, self._left(), curve)
            )

    def close(self) -> None:
        """Leave the terminal on a fresh line."""
        if self._wrote:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _line(self, progress: Progress) -> None:
        self._wrote = True
        sys.stderr.write(f"\r\x1b[K{str(progress)[:79]}")
        sys.stderr.flush()
