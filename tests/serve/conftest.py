"""Fixtures of the service's tests: a service on a fresh store, without waiting for disks."""

import asyncio
import functools
import random
from types import SimpleNamespace

import pytest

from bothworlds.serve import tokens
from bothworlds.serve.service import ArmSpec, ExperimentSpec, Service, Settings
from bothworlds.serve.store.sqlite import SqliteStore

# Nothing happens by itself unless a test lets it.
QUIET = Settings(poll_seconds=3600, sweep_seconds=3600, checkpoint_seconds=3600)


def spec(name="headline", arms="abcd", **more):
    """Return the specification of an experiment."""
    return ExperimentSpec(name, [ArmSpec(arm) for arm in arms], **more)


@pytest.fixture
def unsynced(monkeypatch):
    """Write without waiting for the disk, where a test is not about crashes of the machine."""
    monkeypatch.setattr(SqliteStore, "synchronous", "OFF")


@pytest.fixture
def seeded(monkeypatch):
    """Draw the same arms in every run of a test."""
    made = SimpleNamespace(urandom=random.Random(7).randbytes)
    monkeypatch.setattr(tokens, "os", made)


@pytest.fixture
def served(tmp_path, unsynced, seeded):
    """Run a coroutine function with a service on a fresh store, or on the one that is there."""

    def run(body, settings=QUIET, store="store.db"):
        async def running():
            service = await Service.open(str(tmp_path / store), settings)
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
