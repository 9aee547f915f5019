"""Time that goes back: restores, failovers, retention, and clocks that differ."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial

import pytest

from bothworlds.errors import StoreError
from bothworlds.serve.domain import replicas
from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.domain.sums import compact
from bothworlds.serve.ops.admin import begin_incarnation
from bothworlds.serve.ops.verify import verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import retention
from bothworlds.serve.store.postgres import PostgresWriter
from bothworlds.serve.store.rows import IncarnationRow
from bothworlds.serve.store.writer import Writer
from helpers.waiting import HANG, wait_until
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
        if command == "whole folder":
            # Nothing is left that could know better.
            (tmp_path / "store.db-mark").write_bytes(bytes(16))
        elif command == "moved":
            (tmp_path / "store.db-mark").unlink()
        if command == "replaced":
            os.replace(tmp_path / "backup.db", tmp_path / "store.db")
        else:
            copied(tmp_path / "backup.db", tmp_path / "store.db")
        if command is True:
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


@pytest.mark.parametrize("command", [True, "silent", "replaced", "moved", "whole folder"])
def test_an_id_from_a_lost_period_is_refused(restored, command):
    async def lost(service):
        tokens = await decided(service, "first")
        await told(service, tokens[:2])
        return tokens

    async def later(service):
        salts = [each.salt for each in service.state.configuration.incarnations]
        assert len(salts) == (1 if command == "whole folder" else 2)

    # The control: what takes the mark back in time, too, cannot be noticed.
    late = {"learned" if command == "whole folder" else "bad_signature"}
    assert restored(lost, later, command=command) == ({"learned"}, late)


def test_a_crash_starts_no_incarnation_and_refuses_nothing(served, tmp_path, put_clock):
    async def crash(service):
        await service.create(ME, spec("first"))
        made = await decided(service, "first")
        await service.flushed()
        made += await decided(service, "first")
        # Answered, and not in the log when the process is killed.
        service.state.committer.log.clear()
        return made

    async def after(service):
        assert len(service.state.configuration.incarnations) == 1
        return await told(service, made)

    made = served(crash)
    assert served(after) == {"learned"}
    put_clock(40 * 86400)

    async def retain(service):
        await service.upkeep.sweep()
        assert await service.state.read(lambda reader: reader.rows("SELECT 1 FROM decision")) == []

    # Nor does a log of which retention has deleted everything.
    served(retain, replace(QUIET, retention_days=1.0))
    made = []
    served(after)


@pytest.mark.parametrize("written", [4, 7, 12, 14, 15, 24, None])
def test_a_mark_that_was_written_in_part_refuses_nothing(served, tmp_path, written):
    """Only a whole mark that is ahead of the store, the control, starts an incarnation."""
    mark = tmp_path / "store.db-mark"

    async def crash(service):
        await service.create(ME, spec("first"))
        made = await decided(service, "first")
        await service.flushed()
        # An earlier id, whose last bytes are greater.
        held = mark.read_bytes()
        early = held[:2] + bytes(5) + b"\xff" * 9
        service.store.writer.mark.put(early if written else b"\xff" * 16)
        if written:
            mark.write_bytes(held[:written] + mark.read_bytes()[written:])
        left = mark.read_bytes()
        made += await decided(service, "first")
        # Answered, and not in the log when the process is killed.
        service.state.committer.log.clear()
        return made, left

    made, left = served(crash)
    mark.write_bytes(left)

    async def after(service):
        assert len(service.state.configuration.incarnations) == (1 if written else 2)
        return await told(service, made)

    assert served(after) == ({"learned"} if written else {"learned", "bad_signature"})


@pytest.mark.parametrize(
    "change",
    [
        lambda found, first: {"version": found.version - 1},
        lambda found, first: {"incarnations": (*found.incarnations, IncarnationRow(b"x", 0, None))},
        lambda found, first: {"experiments": ()},
        lambda found, first: {"experiments": (replace(first, version=first.version - 1),)},
        lambda found, first: {"experiments": (replace(first, created_at=0.0),)},
    ],
)
def test_every_sign_that_a_replica_knows_more_than_its_store(on_service, change):
    async def body(service):
        found = service.state.configuration
        (first,) = found.experiments
        assert not service.replicas._went_back(found)
        assert service.replicas._went_back(replace(found, **change(found, first)))

    on_service(body)


@pytest.mark.processes
@pytest.mark.parametrize("silent", [False, True])
def test_ids_after_the_backup_of_a_database_are_refused(postgres, silent):
    """The same on PostgreSQL, by the command itself; a copy is another database anyway."""
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
    if not silent:
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


def test_a_wider_window_does_not_learn_twice_what_retention_forgot(served, tmp_path, put_clock):
    async def body(service):
        await service.create(ME, spec(feedback_window=600.0))
        tokens = await decided(service, "headline")
        assert await told(service, tokens) == {"learned"}
        put_clock(2 * 86400)
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


def test_ids_are_not_dated_before_the_newest_one_in_the_store(served, put_clock):
    async def newest(service):
        with contextlib.suppress(Problem):
            await service.create(ME, spec())
        made = await service.decide(ME, "headline")
        return service.state.keyring.verify(made.decision_id)[1].id

    before = served(newest)
    put_clock(-3600)
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
            raise StoreError(
                "The store was restored to an earlier state; this replica reads it again."
            )

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

    def leave(database):
        """End all sessions of a database, and let none begin."""
        query(admin, f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        # One that was just beginning may be seen only the next time.
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        wait_until(lambda: not query(admin, ended, (database,)))

    def go_back(timeline):
        if timeline:
            # Before the service can meet it: a connection compares timelines once.
            earlier = url.replace(f"/{name}?", f"/{other}?")
            query(earlier, "UPDATE incarnation SET timeline = 'a standby' WHERE ended IS NULL")
        leave(other)
        leave(name)
        query(admin, f"DROP DATABASE {name}")
        query(admin, f"ALTER DATABASE {other} RENAME TO {name}")
        query(admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    def remember():
        leave(name)
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
@pytest.mark.parametrize("noticed", [False, True])
def test_a_copy_of_the_files_without_recovery_is_noticed_by_a_replica(
    postgres, monkeypatch, noticed
):
    """The database, its tables and its timeline are the same, and everything in it is older."""
    from serve.databases import cut, query

    url = postgres.database()
    tables = ("state", "decision", "feedback")
    if not noticed:
        # The control: without a look at the states the ids count.
        monkeypatch.setattr(PostgresWriter, "_follow_states", lambda self: None)

    async def body():
        service = await Service.open(url, replace(QUIET, poll_seconds=0.05))
        try:
            await service.create(ME, spec("x"))
            service.state.offset = -60.0
            early = await decided(service, "x")
            service.state.offset = 0.0
            await decided(service, "x")
            await service.flushed()
            for table in tables:
                query(url, f"CREATE TABLE old_{table} AS TABLE {table}")
            late = await decided(service, "x")
            await service.flushed()
            assert await told(service, late[:2]) == {"learned"}
            for table in tables:
                query(url, f"DELETE FROM {table}")
                query(url, f"INSERT INTO {table} SELECT * FROM old_{table}")
            cut(url)
            await reconnected(service)
            if noticed:
                await until(lambda: service.replicas.rebuilds >= 1)
            await until(lambda: service.ready() is None)
            assert await told(service, late) == {"bad_signature" if noticed else "learned"}
            assert await told(service, early) == {"learned"}
        finally:
            await service.close()

    asyncio.run(body())
    assert failing(url) == []
    postgres.drop(url)


@pytest.mark.processes
@pytest.mark.parametrize("noticed", [False, True])
def test_a_replica_that_knows_a_lost_configuration_refuses_the_ids_of_its_peer(
    postgres, monkeypatch, noticed
):
    """The same, noticed by a replica that has written nothing in the time that was lost."""
    from serve.databases import cut, query

    url = postgres.database()
    if not noticed:
        monkeypatch.setattr(Writer, "leave_incarnation", lambda self, salt, why, until: None)

    async def body():
        one, other = [await Service.open(url, replace(QUIET, poll_seconds=0.05)) for _ in range(2)]
        try:
            await one.create(ME, spec("x"))
            await other.replicas.poll_once()
            late = await decided(other, "x")
            await other.patch(ME, "x", {"description": "lost"}, if_match=1)
            await other.close()
            await until(lambda: one.experiment_state(ME, "x").version == 2)
            for table in ("decision", "state"):
                query(url, f"DELETE FROM {table}")
            query(url, "UPDATE deployment SET config_version = config_version - 1")
            query(url, "UPDATE experiment SET version = 1")
            query(url, "DELETE FROM audit WHERE action = 'patch'")
            cut(url)
            await until(lambda: one.replicas.rebuilds >= 1)
            await reconnected(one)
            await until(lambda: one.ready() is None)
            assert await told(one, late) == {"bad_signature" if noticed else "learned"}
        finally:
            await one.close()

    asyncio.run(body())
    assert failing(url) == []
    postgres.drop(url)


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
    # The clock is also compared by a slow answer of a busy machine, which is less exact.
    monkeypatch.setattr(replicas, "PROMPT", HANG)

    async def body():
        right = await Service.open(url, QUIET)
        await right.create(
            ME, spec(missing="default", default_loss=1.0, log="before", feedback_window=300.0)
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


def test_a_cap_is_one_cap_over_several_starts(served, put_clock):
    hour = time.time() // 3600 * 3600 + 60
    start = hour - time.time()
    put_clock(start)

    async def body(service):
        with contextlib.suppress(Problem):
            await service.create(ME, spec(unit_cap=3))
        made = [await service.decide(ME, "headline", unit="eve") for _ in range(2)]
        await told(service, [each.decision_id for each in made])
        await service.upkeep.sweep()
        return service.experiment(ME, "headline")["learned"]

    assert [served(body) for _ in range(4)] == [2, 3, 3, 3]
    put_clock(start + 2 * 3600)
    assert served(body) == 5
