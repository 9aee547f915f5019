"""Failpoints: a process is killed before and after every statement of the commit path.

``python failpoints.py STORE`` kills a scripted run at every statement of its writing thread, the
first run at the first one, until a run comes to its end. After each kill the store must hold, and
the next run reports again what was sent. The service has no hook for this: the run replaces the
functions of its own writer. With a second argument, states are written in a transaction of their
own: a control that must fail.
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
    """Kill the process at a point; at none with point 0.

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

    def opening(self):
        """Do nothing while the store is opened."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def writing(self, service):
        """Let every statement of the writing thread pass a point before and after it."""
        writer = service.store.writer
        if is_postgres(self.store):
            writer.line.busy = self.around(writer.line.busy)
        else:
            for name in ("execute", "execute_many"):
                setattr(writer, name, self.wrapped(getattr(writer, name)))
        yield

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


def split():
    """Write states in a transaction of their own."""
    put = Writer.put_states

    def put_late(self, rows):
        self.execute("COMMIT")
        self.execute(self.begin)
        put(self, rows)

    Writer.put_states = put_late


def main(store):
    """Kill a run at every point, and print what happened as JSON."""
    # The kernel keeps what a killed process has written: no need to wait for the disk.
    SqliteStore.synchronous = "OFF"
    campaign = Campaign(store)
    # Runs differ by a few statements, because young experiments announce more.
    points = 0
    while True:
        code, _ = campaign.run(Failpoints(store, points + 1))
        if code == 0:
            break
        points += 1
        assert code == -signal.SIGKILL, (points, code)
        campaign.check()
        campaign.renew(Failpoints(store))
    campaign.finish(Failpoints(store))
    print(json.dumps({"points": points, "stored": campaign.whole, **campaign.statuses}))


if __name__ == "__main__":
    if sys.argv[2:]:
        split()
    main(sys.argv[1])
