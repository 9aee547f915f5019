"""Journeys of real calls through the package's files, recorded with a profile function.

A journey is the list of files that control passes through, in order.  Only Python functions of
`bothworlds` count: compiled kernels are invisible, and module bodies are left out, so that a first
import adds nothing.
"""

import contextlib
import sys
import threading
from pathlib import Path

import bothworlds

PACKAGE = str(Path(bothworlds.__file__).parent) + "/"


class Journey:
    """Files that a piece of work passed through, relative to ``src/bothworlds``.

    Attributes
    ----------
    path : list of str
        The file of every step; no two neighbours are equal.
    """

    def __init__(self):
        self.path = []
        self._names = {}

    @property
    def files(self):
        """Return the files in the order of the first visit."""
        return list(dict.fromkeys(self.path))

    @property
    def changes(self):
        """Return how often control went from one file to another."""
        return max(0, len(self.path) - 1)

    @property
    def returns(self):
        """Return how many of the changes led back to a file that was visited before."""
        return len(self.path) - len(self.files)

    def _visit(self, frame):
        code = frame.f_code
        name = self._names.get(code)
        if name is None:
            found = code.co_filename
            inside = found.startswith(PACKAGE) and code.co_name != "<module>"
            name = self._names[code] = found[len(PACKAGE) :] if inside else ""
        if name and (not self.path or self.path[-1] != name):
            self.path.append(name)


class Tracer:
    """Profile function that records the journey of a block; `tracing` installs one."""

    def __init__(self):
        self._journey = None

    def __call__(self, frame, event, argument):
        journey = self._journey
        if journey is not None and event == "call":
            journey._visit(frame)

    @contextlib.contextmanager
    def journey(self):
        """Record in the block; the journey is complete at its end."""
        self._journey = made = Journey()
        try:
            yield made
        finally:
            self._journey = None


@contextlib.contextmanager
def tracing():
    """Install a `Tracer` for this thread and for threads that start in the block.

    Threads that already run are not traced: start a service inside the block.
    """
    tracer = Tracer()
    before = sys.getprofile()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        yield tracer
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
