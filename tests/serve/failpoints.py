"""Failpoints: a process is killed before and after every statement of the commit path.

``python failpoints.py STORE`` counts the statements that the writing thread runs in a scripted run,
and kills a run at each of them. After each kill the store must hold, and the next run reports again
what was sent. The service has no hook for this: the run replaces the functions of its own writer.
With a second argument, states are written in a transaction of their own: a control that must fail.
"""

import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bothworlds.serve.store.opening import is_postgres
from bothworlds.serve.store.sqlite import SqliteStore
from bothworlds.serve.store.writer import Writer
from serve.scripted import Campaign


class Failpoints:
    """Kill the process at a point; with point 0 count the points.

    Parameters
    ----------
    store : str
        A path, or ``postgresql://...``.
    point : int
        Twice the number of the statement, and one less before it than after it.
    """

    def __init__(self, store, point=0):
        self.store = store
        self.point = point
        self.passed = 0

    def begin(self, service):
        """Let every statement of the writing thread pass a point before and after it."""
        writer = service.store.writer
        if is_postgres(self.store):
            writer.line.busy = self.around(writer.line.busy)
            return
        for name in ("execute", "execute_many"):
            setattr(writer, name, self.wrapped(getattr(writer, name)))

    def reach(self):
        """Pass a point, perhaps not alive."""
        if threading.current_thread().name == "bothworlds-commit":
            self.passed += 1
            if self.passed == self.point:
                os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(self, function):
        """Return a function that passes a point before and after."""

        def run(*arguments):
            self.reach()
            result = function(*arguments)
            self.reach()
            return result

        return run

    def around(self, context):
        """Return a context manager that passes a point before and after."""

        @contextlib.contextmanager
        def run():
            self.reach()
            with context() as found:
                yield found
            self.reach()

        return run


def passed(said):
    """Return how many points a run has passed, which it says at its end."""
    return next(each[1] for each in reversed(said) if each[0] == "passed")


def split():
    """Write states in a transaction of their own."""
    put = Writer._put_state

    def put_late(self, row):
        self.execute("COMMIT")
        self.execute(self.begin)
        put(self, row)

    Writer._put_state = put_late


def main(store):
    """Kill a run at every point, and print what happened as JSON."""
    # The kernel keeps what a killed process has written: no need to wait for the disk.
    SqliteStore.synchronous = "OFF"
    campaign = Campaign(store)
    code, said = campaign.run(Failpoints(store))
    assert code == 0
    points = passed(said)
    for point in range(1, points + 1):
        code, _ = campaign.run(Failpoints(store, point))
        assert code == -signal.SIGKILL, (point, code)
        campaign.check()
    # Two whole runs: the second reports again what the first has sent.
    for _ in range(2):
        code, _ = campaign.run(Failpoints(store))
        assert code == 0
    stored, sent = campaign.check()
    print(json.dumps({"points": points, "stored": stored, "sent": sent, **campaign.statuses}))


if __name__ == "__main__":
    if sys.argv[2:]:
        split()
    main(sys.argv[1])
