"""Replicas: several services on one store, each with a state of its own."""

import asyncio
import contextlib
import threading
import time

import pytest

from bothworlds.serve.domain import folds
from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.ops.verify import verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import reader
from bothworlds.serve.store.sqlite import SqliteStore
from helpers.waiting import HANG
from serve.conftest import BOTH, QUIET, spec

ME = Service.LOCAL


class SharedStore(SqliteStore):
    """A store that several replicas may use: SQLite itself lets one after the other write."""

    has_peers = True

    def __init__(self, path, shard):
        super().__init__(path, serve=False)
        self.replica.shard = shard


@pytest.fixture(params=BOTH)
def dialect(request):
    return request.param


@pytest.fixture
def replicated(where, dialect):
    """Run a coroutine function with some services on one store."""

    def run(body, replicas=2, **more):
        path = where()

        async def running():
            async with contextlib.AsyncExitStack() as stack:
                services = []
                for shard in range(replicas):
                    service = await Service.open(
                        SharedStore(path, shard) if dialect == "sqlite" else path, QUIET
                    )
                    stack.push_async_callback(service.close)
                    services.append(service)
                await services[0].create(ME, spec(**more))
                for service in services[1:]:
                    await service.replicas.poll_once()
                await body(*services)

        asyncio.run(running())
        found = verify(path)
        assert [each for each in found if not each.ok] == []

    return run


async def code_of(awaitable):
    try:
        told = await awaitable
    except Problem as problem:
        return problem.code
    return told.status


async def heard(*services):
    for service in services:
        await service.replicas.poll_once()


def total(service):
    return service.experiment_state(ME, "headline").total


@pytest.mark.parametrize("few", [reader.FEW_PEERS, -1])
def test_what_one_learns_all_know(replicated, monkeypatch, few):
    # Many states are read by what has changed of them.
    monkeypatch.setattr(reader, "FEW_PEERS", few)

    async def body(*services):
        for n in range(200):
            decided = await services[n % 4].decide(ME, "headline")
            # Told to another one than the one that decided.
            loss = float(decided.arm != "b")
            status = await code_of(
                services[(n + 1) % 4].feedback(ME, decided.decision_id, loss=loss)
            )
            assert status == "learned"
            if n % 10 == 0:
                await heard(*services)
        await heard(*services)
        for service in services:
            assert (total(service).sums == total(services[0]).sums).all()
            assert total(service).learned == 200
            assert service.experiment_state(ME, "headline").round == 200
            shares = service.experiment_state(ME, "headline").probabilities()
            assert max(shares, key=shares.get) == "b"
        assert {service.store.replica.shard for service in services} == {0, 1, 2, 3}

    replicated(body, replicas=4)


def test_the_same_feedback_on_two_replicas_counts_once(replicated):
    async def body(one, other):
        tokens = [each.decision_id for each in await one.decide_many(ME, "headline", 40)]
        equal = await asyncio.gather(
            *(code_of(each.feedback(ME, token, loss=0.5)) for token in tokens[:20]
              for each in (one, other))
        )  # fmt: skip
        assert sorted(set(equal)) == ["duplicate", "learned"]
        assert equal.count("learned") == 20
        contradicting = await asyncio.gather(
            *(code_of(each.feedback(ME, token, loss=loss)) for token in tokens[20:]
              for each, loss in ((one, 0.25), (other, 0.75)))
        )  # fmt: skip
        assert contradicting.count("learned") == 20
        assert contradicting.count("already_told") == 20
        await heard(one, other)
        assert (total(one).sums == total(other).sums).all()
        assert total(one).learned == total(other).learned == 40

    replicated(body)


def test_changes_reach_the_others_with_the_next_poll(replicated):
    async def body(one, other):
        await one.set_mode(ME, "headline", "pin", arm="c")
        if other.store.writer.dialect == "sqlite":
            assert (await other.decide(ME, "headline")).mode == "learn"
        await other.replicas.poll_once()
        assert (await other.decide(ME, "headline")).arm == "c"
        secret, shown = await one.create_key(ME, ["read"])
        await other.replicas.poll_once()
        assert other.principal(secret) is not None
        await one.revoke_key(ME, shown["id"])
        await other.replicas.poll_once()
        assert other.principal(secret) is None

    replicated(body)


def test_tokens_about_what_a_replica_has_not_heard_of_are_understood(replicated):
    async def body(one, other):
        # A new arm, a new epoch, a new key and a new experiment, each with its first decision.
        await one.add_arm(ME, "headline", Arm("e"))
        token = (await one.decide(ME, "headline", available=["e"])).decision_id
        assert await code_of(other.feedback(ME, token, loss=0.5)) == "learned"
        await one.set_mode(ME, "headline", "reset")
        token = (await one.decide(ME, "headline")).decision_id
        answers = await other.feedback_many(ME, [])
        assert answers == []
        assert await code_of(other.feedback(ME, token, loss=0.5)) == "learned"
        await one.rotate_token_key(ME)
        token = (await one.decide(ME, "headline")).decision_id
        assert await code_of(other.feedback(ME, token, loss=0.5)) == "learned"
        await one.create(ME, spec("second"))
        decided = await one.decide(ME, "second", deferred=True)
        await other.activate(ME, decided.decision_id)
        assert await code_of(other.feedback(ME, decided.decision_id, loss=0.5)) == "learned"
        assert await code_of(other.feedback(ME, "x" * 80, loss=0.5)) in (
            "bad_token", "bad_signature",
        )  # fmt: skip

    replicated(body)


def test_arms_that_two_administrators_add_at_once(replicated):
    async def body(one, other):
        await asyncio.gather(
            one.add_arm(ME, "headline", Arm("e")),
            other.add_arm(ME, "headline", Arm("f")),
            one.set_mode(ME, "headline", "uniform"),
        )
        await heard(one, other)
        for service in (one, other):
            arms = service.experiment(ME, "headline")["arms"]
            assert [arm["name"] for arm in arms][:4] == ["a", "b", "c", "d"]
            assert {arm["name"] for arm in arms[4:]} == {"e", "f"}
        for n in range(40):
            decided = await (one, other)[n % 2].decide(ME, "headline")
            await (other, one)[n % 2].feedback(ME, decided.decision_id, loss=0.5)
        await heard(one, other)
        assert (total(one).sums == total(other).sums).all()

    replicated(body)


def test_a_named_request_and_a_sticky_unit_are_the_same_everywhere(replicated):
    async def body(one, other):
        first = await one.decide(ME, "headline", idempotency_key="r")
        again = await other.decide(ME, "headline", idempotency_key="r")
        assert (again.decision_id, again.replayed) == (first.decision_id, True)
        both = await asyncio.gather(
            *(each.decide(ME, "headline", unit="eve") for each in (one, other) * 5)
        )
        assert len({each.decision_id for each in both}) == 1

    replicated(body, sticky_seconds=60.0)


def test_the_round_never_falls(replicated):
    async def body(one, other):
        seen = []
        for n in range(30):
            seen.append((await one.decide(ME, "headline")).round)
            await other.decide(ME, "headline")
            if n % 5 == 0:
                for service in (one, other):
                    # Rounds are written with the log.
                    await service.flushed()
                await heard(one, other)
        assert seen == sorted(seen)
        assert seen[-1] > 50

    replicated(body)


def test_a_replica_that_hears_nothing_is_not_ready(replicated):
    async def body(one, other):
        assert other.ready() is None
        other.replicas.polled_at -= 11.0
        assert other.state_age() > 10
        assert "too old" in other.ready()
        await other.replicas.poll_once()
        assert other.ready() is None

    replicated(body)


def test_nobody_waits_for_the_compiler_of_another_experiment(replicated, monkeypatch):
    compiling = threading.Event()
    monkeypatch.setattr(folds, "_warm", set(folds._warm))

    async def body(first, second):
        loop = asyncio.get_running_loop()
        ready = set(folds._warm)

        def slow(policy, learner):
            compiling.wait(HANG)
            return real(policy, learner)

        real = folds.warm
        monkeypatch.setattr(folds, "warm", slow)
        with monkeypatch.context() as quiet:
            # Announced at once, it would be taken over while it still counts as compiled.
            quiet.setattr(second.store.watcher, "pulse", lambda: False)
            creating = loop.create_task(first.create(ME, spec("other", floor=0.25)))
            for _ in range(20):
                await first.decide(ME, "headline")
                await asyncio.sleep(0)
            assert not creating.done()
            compiling.set()
            await creating
            token = (await first.decide(ME, "other")).decision_id
            # As in another process, which has compiled nothing of it.
            monkeypatch.setattr(folds, "_warm", ready)
        compiling.clear()
        await second.replicas.poll_once()
        assert await code_of(second.decide(ME, "other")) == "store_unavailable"
        assert await code_of(second.feedback(ME, token, loss=0.5)) == "store_unavailable"
        assert await code_of(second.decide(ME, "nobody")) == "experiment_not_found"
        await second.decide(ME, "headline")
        compiling.set()
        while len(second.experiments(ME)) < 2:
            await asyncio.sleep(0.01)
        assert (await second.feedback(ME, token, loss=0.5)).status == "learned"
        await second.decide(ME, "other")

    replicated(body)


def test_a_cap_is_one_cap_for_all_replicas(replicated, put_clock):
    hour = time.time() // 3600 * 3600 + 60
    put_clock(hour - time.time())

    async def body(*services):
        statuses = []
        for service in services:
            for _ in range(2):
                decided = await service.decide(ME, "headline", unit="eve")
                told = await service.feedback(ME, decided.decision_id, loss=1.0)
                again = await service.feedback(ME, decided.decision_id, loss=1.0)
                statuses.append(told.status)
                assert again.status == "duplicate"
        assert statuses == ["learned"] * 3 + ["quarantined"] * 3

    replicated(body, replicas=3, unit_cap=3)
