"""Time that goes back: restores, failovers, retention, and clocks that differ."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial

import pytest

from bothworlds.errors import StoreError
from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.domain.sums import compact
from bothworlds.serve.ops.admin import begin_incarnation
from bothworlds.serve.ops.verify import verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import retention
from helpers.waiting import HANG
from serve.conftest import QUIET, spec

ME = Service.LOCAL


async def code_of(awaitable):
    try:
        return (await awaitable).status
    except Problem as problem:
        return problem.code


async def decided(service, name, count=5):
    return [each.decision_id for each in await service.decide_many(ME, name, count)]


async def told(service, tokens):
    return {await code_of(service.feedback(ME, token, loss=0.5)) for token in tokens}


def copied(source, target):
    """Copy a store while it is open, as a backup or a restore does."""
    with (
        contextlib.closing(sqlite3.connect(source)) as reading,
        contextlib.closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(writing)


def failing(store):
    return [each for each in verify(store) if not each.ok]


@pytest.fixture
def restored(served, tmp_path):
    """Lose what ``lost`` does after a backup, restore it, and go on with ``later``."""

    def run(lost, later, *, command):
        async def before(service):
            await service.create(ME, spec("first"))
            early = await decided(service, "first")
            await service.flushed()
            copied(tmp_path / "store.db", tmp_path / "backup.db")
            return early, await lost(service)

        early, late = served(before)
        copied(tmp_path / "backup.db", tmp_path / "store.db")
        if command:
            begin_incarnation(str(tmp_path / "store.db"))

        async def after(service):
            await later(service)
            return await told(service, early), await told(service, late)

        found = served(after)
        assert failing(str(tmp_path / "store.db")) == []
        return found

    return run


async def create_second(service):
    await service.create(ME, spec("second"))
    return await decided(service, "second")


async def add_arm(service):
    await service.add_arm(ME, "first", Arm("new"))
    return await decided(service, "first")


async def reset(service):
    await service.set_mode(ME, "first", "reset")
    return await decided(service, "first")


@pytest.mark.parametrize("command", [False, True])
@pytest.mark.parametrize("lost", [create_second, add_arm, reset])
def test_ids_of_a_lost_configuration_teach_no_other_one(restored, lost, command):
    async def later(service):
        other = {
            create_second: lambda: service.create(ME, spec("third")),
            add_arm: lambda: service.add_arm(ME, "first", Arm("other")),
            reset: lambda: service.set_mode(ME, "first", "reset"),
        }
        await other[lost]()

    early, late = restored(lost, later, command=command)
    assert late == {"bad_signature"}
    assert early == {"epoch_over" if lost is reset else "learned"}


def test_an_id_from_a_lost_period_is_refused(restored):
    async def lost(service):
        tokens = await decided(service, "first")
        await told(service, tokens[:2])
        return tokens

    async def later(service):
        pass

    assert restored(lost, later, command=True) == ({"learned"}, {"bad_signature"})


@pytest.mark.processes
def test_ids_after_the_backup_of_a_database_are_refused(postgres):
    """The same on PostgreSQL, by the command itself."""
    store = postgres.database()

    def run(url, body):
        async def running():
            service = await Service.open(url, QUIET)
            try:
                return await body(service)
            finally:
                await service.close()

        return asyncio.run(running())

    async def before(service):
        await service.create(ME, spec("first"))
        # Replicas' clocks may differ: ids of the last seconds before the backup are not certain.
        service.state.offset = -60.0
        found = await decided(service, "first")
        service.state.offset = 0.0
        await decided(service, "first")
        return found

    async def lost(service):
        return await decided(service, "first"), await create_second(service)

    async def after(service):
        await service.create(ME, spec("third"))
        return [await told(service, tokens) for tokens in (early, late, others)]

    early = run(store, before)
    backup = postgres.copy(store)
    late, others = run(store, lost)
    command = [sys.executable, "-m", "bothworlds", "serve", "restored", "--store", backup]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
    assert done.returncode == 0, done.stderr
    assert run(backup, after) == [{"learned"}, {"bad_signature"}, {"bad_signature"}]
    assert failing(backup) == []
    for each in (store, backup):
        postgres.drop(each)


def test_numbers_of_experiments_do_not_come_again(served):
    async def number(service):
        await service.create(ME, spec("first"))
        return service.experiment_state(ME, "first").id

    # Two of 2^32 are equal less often than this test will ever run.
    assert len({served(number, store=f"{each}.db") for each in range(3)}) == 3


def test_a_second_restore_of_one_backup_refuses_what_the_first_decided(served, tmp_path):
    store, backup = str(tmp_path / "store.db"), str(tmp_path / "backup.db")

    async def create(service):
        await service.create(ME, spec("first"))

    served(create)
    copied(store, backup)
    late = []

    async def body(service):
        late.append(await told(service, await decided(service, "first")))
        late.append(await decided(service, "first"))

    async def again(service):
        assert await told(service, late[1]) == {"bad_signature"}

    for each in (body, again):
        copied(backup, store)
        begin_incarnation(store)
        served(each)
    assert late[0] == {"learned"}


def test_verify_notices_feedback_of_a_lost_period(restored, tmp_path):
    async def lost(service):
        return await decided(service, "first")

    async def later(service):
        pass

    restored(lost, later, command=True)
    store = str(tmp_path / "store.db")
    for tampering in (
        "UPDATE incarnation SET ended = x'00' WHERE ended IS NOT NULL",
        "UPDATE incarnation SET ended = x'ff'",
        "INSERT INTO forgotten SELECT id, x'ff' FROM experiment",
    ):
        other = str(tmp_path / "other.db")
        copied(store, other)
        with contextlib.closing(sqlite3.connect(other)) as connection, connection:
            connection.execute(tampering)
        assert [each.invariant for each in failing(other)] == ["I11"]


def test_verify_knows_ids_from_before_the_incarnation_that_lost_most(served, tmp_path):
    # What is left of seeds 82905 and 99870: a second failover is sure of less than the first.
    store = str(tmp_path / "store.db")

    async def before(service):
        await service.create(ME, spec("first"))
        early = await decided(service, "first")
        await service.flushed()
        return early

    early = served(before)
    for _ in range(2):
        begin_incarnation(store)
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(
            "UPDATE incarnation SET ended = x'00' WHERE ended IS NOT NULL AND started_at = "
            "(SELECT MAX(started_at) FROM incarnation WHERE ended IS NOT NULL)"
        )

    async def after(service):
        return await told(service, early)

    assert served(after) == {"learned"}
    assert failing(store) == []


def test_a_wider_window_does_not_learn_twice_what_retention_forgot(served, tmp_path, monkeypatch):
    async def body(service):
        await service.create(ME, spec(feedback_window=5.0))
        tokens = await decided(service, "headline")
        assert await told(service, tokens) == {"learned"}
        clock = time.time
        monkeypatch.setattr(time, "time", lambda: clock() + 2 * 86400)
        await service.upkeep.sweep()
        await service.patch(ME, "headline", {"feedback_window": 10 * 86400.0}, if_match=1)
        assert await told(service, tokens) == {"expired"}
        return tokens

    settings = replace(QUIET, retention_days=0.5)
    tokens = served(body, settings)

    async def after(service):
        assert await told(service, tokens) == {"expired"}
        assert service.experiment_state(ME, "headline").total.learned == 5

    served(after, settings)
    assert failing(str(tmp_path / "store.db")) == []


def test_a_retry_is_the_same_request_though_arms_came_and_went(served):
    async def body(service):
        await service.create(ME, spec())
        for key, available, retired in (("all", None, "c"), ("some", ["a", "b"], "d")):

            def ask(key=key, available=available):
                return service.decide(ME, "headline", idempotency_key=key, available=available)

            first = await ask()
            await service.add_arm(ME, "headline", Arm(f"new-{key}"))
            await service.retire_arm(ME, "headline", retired)
            assert (await ask()).decision_id == first.decision_id
            with pytest.raises(Problem) as refused:
                await service.decide(ME, "headline", idempotency_key=key, available=["b"])
            assert refused.value.code == "idempotency_key_reused"

    served(body)


def test_ids_are_not_dated_before_the_newest_one_in_the_store(served, monkeypatch):
    async def newest(service):
        with contextlib.suppress(Problem):
            await service.create(ME, spec())
        made = await service.decide(ME, "headline")
        return service.state.keyring.verify(made.decision_id)[1].id

    before = served(newest)
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() - 3600)
    assert served(newest)[:6] >= before[:6]


def test_feedback_that_waits_while_the_store_goes_back_is_not_learned(served):
    async def body(service):
        await service.create(ME, spec())
        (token,) = await decided(service, "headline", 1)
        committer, commit = service.state.committer, service.store.writer.commit

        def commit_late(batch, settle):
            started_over = threading.Event()
            service.state.loop.call_soon_threadsafe(committer.start_over)
            service.state.loop.call_soon_threadsafe(started_over.set)
            assert started_over.wait(HANG)
            return commit(batch, settle)

        service.store.writer.commit = commit_late
        assert await code_of(service.feedback(ME, token, loss=0.5)) == "store_unavailable"
        service.store.writer.commit = commit
        assert service.experiment(ME, "headline")["learned"] == 0
        assert await code_of(service.feedback(ME, token, loss=0.5)) == "learned"

    served(body)


def test_a_reading_connection_that_is_refused_is_no_internal_error(on_service):
    async def body(service):
        def refuse(reader):
            raise StoreError("The store went back in time; this replica reads it again.")

        for work in (service.state.read, service.state.watch):
            with pytest.raises(Problem) as refused:
                await work(refuse)
            assert refused.value.code == "store_unavailable"

    on_service(body)


def test_what_another_replica_has_deleted_is_not_learned_again(on_service):
    async def body(service):
        (token,) = await decided(service, "headline", 1)
        assert await code_of(service.feedback(ME, token, loss=0.5)) == "learned"
        experiment = service.experiment_state(ME, "headline")
        # This replica has not polled since: only the store knows.
        work = partial(
            retention.forget_feedback, experiment=experiment.id, version=experiment.version,
            before=b"\xff" * 16, add=compact,
        )  # fmt: skip
        assert await service.state.committer.run(work) == 1
        assert await code_of(service.feedback(ME, token, loss=0.5)) == "expired"
        assert service.experiment(ME, "headline")["learned"] == 1

    on_service(body)


# --- databases that fail over --------------------------------------------------------------------


@pytest.fixture
def failing_over(postgres):
    """Run a coroutine function with a service, and with one that makes its database go back."""
    from serve.databases import query

    url = postgres.database()
    name, other = url.split("?")[0].rsplit("/", 1)[1], "earlier"
    admin = postgres.database()

    def go_back(timeline):
        for each in (name, other):
            query(admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                  "WHERE datname = %s", (each,))  # fmt: skip
        query(admin, f"DROP DATABASE {name} WITH (FORCE)")
        query(admin, f"ALTER DATABASE {other} RENAME TO {name}")
        if timeline:
            query(url, "UPDATE incarnation SET timeline = 'a standby' WHERE ended IS NULL")

    def remember():
        query(admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
              (name,))  # fmt: skip
        query(admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        query(admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
              (name,))  # fmt: skip
        query(admin, f"CREATE DATABASE {other} TEMPLATE {name}")
        query(admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    def run(body):
        async def running():
            service = await Service.open(url, replace(QUIET, poll_seconds=0.05))
            try:
                await body(service, remember, go_back)
            finally:
                await service.close()

        asyncio.run(running())
        assert failing(url) == []

    yield run
    for each in (url, admin):
        postgres.drop(each)


async def until(condition):
    limit = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < limit
        await asyncio.sleep(0.02)


async def reconnected(service):
    """Wait until all connections of a service are new ones."""
    for work in (
        service.replicas.poll_once,
        lambda: service.state.committer.run(lambda writer: writer.leads()),
    ):
        limit = time.monotonic() + HANG
        while True:
            try:
                await work()
                break
            except (Problem, StoreError):
                assert time.monotonic() < limit
            await asyncio.sleep(0.02)


@pytest.mark.processes
@pytest.mark.parametrize("timeline", [False, True])
def test_a_replica_that_knows_more_than_its_store_starts_over(failing_over, timeline):
    async def body(service, remember, go_back):
        await service.create(ME, spec("x"))
        remember()
        await reconnected(service)
        await service.create(ME, spec("y"))
        await service.add_arm(ME, "x", Arm("new"))
        late = await decided(service, "x") + await decided(service, "y")
        await service.flushed()
        assert await told(service, late) == {"learned"}
        go_back(timeline)
        await until(lambda: service.replicas.rebuilds >= 1)
        await until(lambda: service.ready() is None)
        assert [each["name"] for each in service.experiments(ME)] == ["x"]
        assert service.experiment(ME, "x")["learned"] == 0
        await reconnected(service)
        await service.create(ME, spec("z"))
        await service.add_arm(ME, "x", Arm("other"))
        assert await told(service, late) == {"bad_signature"}
        assert await told(service, await decided(service, "z")) == {"learned"}

    failing_over(body)


@pytest.mark.processes
def test_a_new_timeline_refuses_ids_of_the_lost_period(failing_over):
    async def body(service, remember, go_back):
        await service.create(ME, spec("x"))
        remember()
        late = await decided(service, "x")
        go_back(timeline=True)
        # What is refused here for good could be learned if nothing was noticed.
        await until(lambda: service.replicas.rebuilds >= 1)
        await reconnected(service)
        await until(lambda: service.ready() is None)
        assert await told(service, late) == {"bad_signature"}
        assert await told(service, await decided(service, "x")) == {"learned"}

    failing_over(body)


@pytest.mark.processes
def test_a_promoted_standby_has_another_timeline():
    from serve.databases import Server, query

    server = Server()
    try:
        url = server.database()

        async def body():
            # Nothing is swept, and nothing is written: polling alone must notice.
            service = await Service.open(url, replace(QUIET, poll_seconds=0.05))
            try:
                await service.create(ME, spec("x"))
                late = await decided(service, "x")
                await service.flushed()
                server.kill()
                server.stand_by()
                server.start()
                query(url, "SELECT pg_promote()")
                await until(lambda: service.replicas.rebuilds >= 1)
                await until(lambda: service.ready() is None)
                await reconnected(service)
                assert await told(service, late) == {"bad_signature"}
                assert await told(service, await decided(service, "x")) == {"learned"}
            finally:
                await service.close()

        asyncio.run(body())
        assert failing(url) == []
    finally:
        server.stop()


# --- clocks --------------------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("skew", [-600, 600])
def test_the_database_has_the_clock(postgres, monkeypatch, skew):
    url = postgres.database()

    async def body():
        right = await Service.open(url, QUIET)
        await right.create(
            ME, spec(missing="default", default_loss=1.0, log="before", feedback_window=60.0)
        )
        clock = time.time
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: clock() + skew)
            wrong = await Service.open(url, QUIET)
            assert "clock" in wrong.ready()
            made = await decided(wrong, "headline")
            await wrong.upkeep.sweep()
            assert wrong.counters()["swept"] == 0
        await right.replicas.poll_once()
        await right.upkeep.sweep()
        assert right.counters()["swept"] == 0
        assert right.ready() is None
        assert await told(right, made) == {"learned"}
        await wrong.close()
        await right.close()

    asyncio.run(body())
    postgres.drop(url)


# --- caps ----------------------------------------------------------------------------------------


def test_a_cap_is_one_cap_over_several_starts(served, monkeypatch):
    hour = time.time() // 3600 * 3600 + 60
    monkeypatch.setattr(time, "time", lambda: hour)

    async def body(service):
        with contextlib.suppress(Problem):
            await service.create(ME, spec(unit_cap=3))
        made = [await service.decide(ME, "headline", unit="eve") for _ in range(2)]
        await told(service, [each.decision_id for each in made])
        await service.upkeep.sweep()
        return service.experiment(ME, "headline")["learned"]

    assert [served(body) for _ in range(4)] == [2, 3, 3, 3]
    monkeypatch.setattr(time, "time", lambda: hour + 2 * 3600)
    assert served(body) == 5
