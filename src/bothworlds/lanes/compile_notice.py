"""Notice on a terminal that the first call compiles, when that takes more than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from numba.core import event

PATIENCE = 2.0
"""Seconds of compiling after which a person wonders."""


class CompileNotice(event.Listener):  # type: ignore[misc]
    """Adds up the time this package's kernels compile, and speaks once.

    Parameters
    ----------
    sentence : callable
        Returns what to say of a dispatcher that compiles; None for one of somebody else.
    """

    def __init__(self, sentence: Callable[[Any], str | None]) -> None:
        self._sentence = sentence
        self._lock = threading.Lock()
        self._depth = 0
        self._spent = 0.0
        self._began = 0.0
        self._timer: threading.Timer | None = None
        self._said = False

    def on_start(self, event: Any) -> None:
        """Wind the clock when a kernel begins to compile that no other kernel asked for."""
        self._depth += 1
        if self._depth > 1 or self._said or not _on_terminal():
            return
        sentence = self._sentence(event.data["dispatcher"])
        if sentence is None:
            return
        self._began = time.monotonic()
        self._timer = threading.Timer(max(PATIENCE - self._spent, 0.0), self._say, (sentence,))
        self._timer.daemon = True
        self._timer.start()

    def on_end(self, event: Any) -> None:
        """Stop the clock."""
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._spent += time.monotonic() - self._began

    def _say(self, sentence: str) -> None:
        with self._lock:
            if not self._said:
                self._said = True
                print(sentence, file=sys.stderr, flush=True)


def _on_terminal() -> bool:
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()
