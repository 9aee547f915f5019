"""Fixtures of the service's tests: a service on a fresh store, without waiting for disks."""

import asyncio
import functools
import random
import time
from types import SimpleNamespace

import pytest

from bothworlds.serve.domain import tokens
from bothworlds.serve.domain.service import Arm, NewExperiment, Service, Settings
from bothworlds.serve.store.reader import Reader
from bothworlds.serve.store.sqlite import SqliteStore

# Nothing happens by itself unless a test lets it.
QUIET = Settings(
    poll_seconds=3600, sweep_seconds=3600, checkpoint_seconds=3600, recovery_seconds=0.0
)


def spec(name="headline", arms="abcd", **more):
    """Return the specification of an experiment."""
    return NewExperiment(name, [Arm(arm) for arm in arms], **more)


@pytest.fixture
def unsynced(monkeypatch):
    """Write without waiting for the disk, where a test is not about crashes of the machine."""
    monkeypatch.setattr(SqliteStore, "synchronous", "OFF")


@pytest.fixture(scope="session")
def postgres():
    """Return a PostgreSQL server that lives as long as the session."""
    # Imported here: most tests of the service need no database of the kind.
    from serve.databases import Server

    server = Server()
    yield server
    server.stop()


@pytest.fixture
def seeded(monkeypatch):
    """Draw the same arms in every run of a test."""
    made = SimpleNamespace(urandom=random.Random(7).randbytes)
    monkeypatch.setattr(tokens, "os", made)


@pytest.fixture
def put_clock(monkeypatch):
    """Return a function that puts the clocks of this machine and of the database ahead.

    A replica measures how far they differ with every notification, at any moment. If only one of
    them moved, the service would correct it then.
    """
    ahead, now, standing = [0.0], time.time, Reader.standing

    def moved(reader):
        version, salt, at = standing(reader)
        return version, salt, None if at is None else at + ahead[0]

    monkeypatch.setattr(time, "time", lambda: now() + ahead[0])
    monkeypatch.setattr(Reader, "standing", moved)

    def put(seconds):
        ahead[0] = seconds

    return put


@pytest.fixture
def dialect():
    """Return which store the tests of a module use; a module may override it by several."""
    return "sqlite"


BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.processes)]
"""Parameters of a module's `dialect` whose tests hold for every store."""


@pytest.fixture
def where(dialect, tmp_path, unsynced, request):
    """Return a function from the name of a store to where it is, by default the test's own."""
    made = {}
    server = request.getfixturevalue("postgres") if dialect == "postgres" else None

    def located(name="store.db"):
        if server is None:
            return str(tmp_path / name)
        if name not in made:
            made[name] = server.database()
        return made[name]

    yield located
    for url in made.values():
        server.drop(url)


@pytest.fixture
def served(where, seeded):
    """Run a coroutine function with a service on a fresh store, or on the one that is there."""

    def run(body, settings=QUIET, store="store.db"):
        async def running():
            service = await Service.open(where(store), settings)
            try:
                return await body(service)
            finally:
                await service.close()

        return asyncio.run(running())

    return run


@pytest.fixture
def on_service(served):
    """Make a test out of a coroutine function of a service with one experiment."""

    def decorate(body, **more):
        @functools.wraps(body)
        async def with_experiment(service):
            await service.create(Service.LOCAL, spec(**more))
            return await body(service)

        return served(with_experiment)

    return decorate
