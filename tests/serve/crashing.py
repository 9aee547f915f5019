"""Driver of the crash tests: a process that serves, says what it acknowledged, and dies.

``python crashing.py STORE POINT COUNT`` dies by SIGKILL when it passes POINT for the COUNT-th time;
with COUNT 0 it goes on until it is killed. It prints ``told ID LOSS`` for every feedback it has
acknowledged and ``decided ID`` for every decision that was to be in the log before its answer.
"""

import asyncio
import os
import resource
import signal
import sys

from bothworlds.serve.domain.service import Arm, NewExperiment, Service, Settings
from bothworlds.serve.ops import upkeep as module
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.commit import Committer
from bothworlds.serve.store.opening import is_postgres
from bothworlds.serve.store.sqlite import SqliteWriter

ME = Service.LOCAL
POINTS = {
    "before_write": "put_states",
    "in_write": "_insert_feedback",
    "after_write": "_post",
    "in_the_log": "_insert_decisions",
    "in_a_migration": "run_script",
    "in_the_sweeper": "put_swept",
    "in_retention": "execute_many",
}


def arm(store, point, count):
    """Let the process die at a point."""
    kind = SqliteWriter
    if point == "after_write":
        kind = Committer
    elif is_postgres(store):
        from bothworlds.serve.store.postgres import PostgresWriter as kind
    name = POINTS[point]
    method = getattr(kind, name)
    passed = 0

    def dying(self, *arguments):
        nonlocal passed
        if point == "before_write":
            # Most commits write counts of decisions alone, as often as the clock lets them.
            passed += any(not row.counted for row in arguments[0])
        else:
            # Sweeps and checkpoints are answered by posts as well, likewise.
            passed += point != "after_write" or arguments[0] == self._answer
        if point in ("before_write", "after_write", "in_the_sweeper") and passed == count:
            os.kill(os.getpid(), signal.SIGKILL)
        result = method(self, *arguments)
        if passed == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(kind, name, dying)


def say(*words):
    """Tell the parent, in one write that the kernel has before anything else happens."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def drive(store, point):
    settings = Settings(sweep_seconds=0.05, checkpoint_seconds=0.05)
    if point == "in_retention":
        settings = Settings(sweep_seconds=0.05, retention_days=1 / 86400)
        module.DAY = 1.0
    module.GRACE = 0.0
    service = await Service.open(store, settings)
    if not service.experiments(ME):
        arms = [Arm(name) for name in "abcd"]
        sweeping = point == "in_the_sweeper"
        more = {"missing": "default", "default_loss": 1.0} if sweeping else {}
        window = 1.0 if point in ("in_the_sweeper", "in_retention") else 3600.0
        spec = NewExperiment("e", arms, log="before", feedback_window=window, **more)
        await service.create(ME, spec)
        await service.create(ME, NewExperiment("after", arms))
    say("ready", os.getpid())
    n = 0
    while True:
        n += 1
        if point == "disk_full" and n == 5:
            size = max(os.path.getsize(store + end) for end in ("", "-wal"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        if point == "disk_full" and n == 25:
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
        if point == "disk_full" and n == 45:
            await service.close()
            say("end")
            return
        await asyncio.gather(*(one(service, number) for number in range(8)))


async def one(service, number):
    try:
        name = "e" if number % 2 else "after"
        decided = await service.decide(ME, name)
        id = service.state.keyring.verify(decided.decision_id)[1].id.hex()
        if name == "e":
            say("decided", id)
        if number == 7:
            return  # a client that never reports
        loss = (number % 4) / 4
        told = await service.feedback(ME, decided.decision_id, loss=loss)
        assert told.status == "learned"
        say("told", id, loss)
    except Problem as problem:
        assert problem.code in ("store_unavailable", "overloaded", "expired"), problem
        say("refused", problem.code)


if __name__ == "__main__":
    where, which, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if times:
        arm(where, which, times)
    asyncio.run(drive(where, which))
