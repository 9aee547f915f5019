"""Compilation as it happens: which kernel, how long, and a notice on a terminal."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from numba.core import event

from bothworlds.text import watched

KIND = "numba:compile"
"""Numba's name for the event that a function compiles."""

PATIENCE = 2.0
"""Seconds of compiling after which a line is printed."""
YOUNG, NEVER = 10_000, 10**9
"""New objects after which garbage is collected among them while kernels compile, in about 10 ms;
and a number of such steps that is never reached."""


class CompileClock(event.Listener):  # type: ignore[misc]
    """Times every kernel that is compiled, those it calls included.

    Parameters
    ----------
    done : callable, optional
        Called with the kernel and the seconds it took.
    """

    def __init__(self, done: Callable[[Any, float], None] | None = None) -> None:
        self._done = done
        self._depth = 0
        self._began = 0.0

    def on_start(self, event: Any) -> None:
        """Start the clock with a kernel that no other kernel asked for."""
        self._depth += 1
        if self._depth == 1:
            self._began = time.monotonic()
            self.began(event.data["dispatcher"])

    def on_end(self, event: Any) -> None:
        """Stop the clock, also where compiling failed."""
        self._depth -= 1
        if self._depth == 0:
            self.ended(event.data["dispatcher"], time.monotonic() - self._began)

    def began(self, kernel: Any) -> None:
        """Record that the compilation of a kernel starts."""

    def ended(self, kernel: Any, seconds: float) -> None:
        """Take note that a kernel is compiled."""
        if self._done is not None:
            self._done(kernel, seconds)


class CompileNotice(CompileClock):
    """Adds up the time this package's kernels compile, and speaks once on a terminal.

    It also lets garbage be collected in larger steps while kernels compile, and only among the new
    objects. Compiling allocates so much that the collector would visit every object of the process
    again and again and free little. Without any steps, the next thread that allocates would search
    through all that compiling has left: the event loop of a service stopped for 0.1 s.

    Parameters
    ----------
    sentence : callable
        Returns the line about a kernel of this package, with ``{}`` for its number in this
        process; None for any other kernel.
    """

    def __init__(self, sentence: Callable[[Any], str | None]) -> None:
        super().__init__()
        self._sentence = sentence
        self._lock = threading.Lock()
        self._spent = 0.0
        self._kernels = 0
        self._timer: threading.Timer | None = None
        self._said = False
        self._thresholds = gc.get_threshold()

    def began(self, kernel: Any) -> None:
        """Collect garbage less often, and set a timer for the message to a waiting user."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(YOUNG, NEVER, NEVER)
        sentence = None if self._said or not watched() else self._sentence(kernel)
        if sentence is not None:
            self._kernels += 1
            sentence = sentence.format(self._kernels)
            left = max(PATIENCE - self._spent, 0.0)
            self._timer = threading.Timer(left, self._say, (sentence,))
            self._timer.daemon = True
            self._timer.start()

    def ended(self, kernel: Any, seconds: float) -> None:
        """Collect garbage as before, and stop the timer."""
        gc.set_threshold(*self._thresholds)
        if gc.isenabled():
            gc.collect(1)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._spent += seconds

    def silence(self) -> None:
        """Print nothing: a display of its own counts the kernels."""
        self._said = True

    def _say(self, sentence: str) -> None:
        with self._lock:
            if not self._said:
                self._said = True
                print(sentence, file=sys.stderr, flush=True)
