"""Faults of several replicas on PostgreSQL: processes killed, the database killed, cut, paused."""

import asyncio
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bothworlds.errors import StoreError
from bothworlds.serve.domain.service import Service
from bothworlds.serve.ops.verify import replay, verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import postgres as module
from bothworlds.serve.store.opening import migrate, opened
from helpers.served import served
from helpers.waiting import HANG, wait_until
from serve.conftest import QUIET, spec
from serve.databases import cut, query

pytestmark = pytest.mark.processes

ME = Service.LOCAL
DRIVER = Path(__file__).with_name("crashing.py")


@pytest.fixture
def dialect():
    return "postgres"


class Replica:
    """A process that serves and writes down, in a file, what it has acknowledged."""

    def __init__(self, folder, store, point="nowhere", count=0):
        self._said = Path(tempfile.mkstemp(dir=folder)[1])
        with self._said.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER), store, point, str(count)],
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
            )

    def is_ready(self):
        assert self.process.poll() is None, self.process.stderr.read()
        return self._said.read_text().startswith("ready")

    def told(self):
        """Return what it has acknowledged, loss by id, once it is dead."""
        _, err = self.process.communicate(timeout=HANG)
        assert self.process.returncode == -signal.SIGKILL, err
        lines = [line.split() for line in self._said.read_text().splitlines()]
        return {words[1]: float(words[2]) for words in lines if words[0] == "told"}


@pytest.fixture
def started(tmp_path):
    """Start replicas, of which none outlives the test."""
    made = []

    def start(store, *more):
        made.append(Replica(tmp_path, store, *more))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()
        each.process.wait()


def check(store, *told):
    """Check that a store holds all acknowledged feedback once, and its state is their sum."""
    found = verify(store)
    assert [each for each in found if not each.ok] == []
    stored = {bytes(id).hex(): loss for id, loss in query(store, "SELECT id, loss FROM feedback")}
    for each in told:
        for id, loss in each.items():
            assert stored[id] == loss
    assert all(each.equal for each in replay(store))


@pytest.mark.slow
def test_replicas_killed_at_named_points_and_at_random(where, started):
    store = where()
    first = started(store)
    wait_until(first.is_ready)
    points = [("before_write", 5), ("in_write", 4), ("after_write", 6), ("in_the_log", 4)]
    others = [started(store, *each) for each in points[:3]]
    told = [each.told() for each in others]
    check(store)
    told.append(started(store, *points[3]).told())
    time.sleep(random.Random(5).uniform(0.0, 0.2))
    first.process.kill()
    told.append(first.told())
    check(store, *told)
    assert len(told[-1]) > 0
    # Nobody took the number of another one that might have come back.
    shards = query(store, "SELECT COUNT(DISTINCT shard), COUNT(*) FROM run WHERE ended_at IS NULL")
    assert shards == [(5, 5)]


@pytest.mark.slow
def test_a_replica_killed_while_it_migrates_or_sweeps(where, started):
    store = where()
    started(store, "in_a_migration", 2).told()
    with pytest.raises(StoreError, match="run: bothworlds serve migrate"):
        verify(store)
    before, after = migrate(store)
    assert (before, migrate(store)) == (0, (after, after))
    told = started(store, "in_the_sweeper", 2).told()
    check(store, told)
    check(store, told, started(store, "in_the_sweeper", 3).told())
    assert query(store, "SELECT COUNT(*) > 0 FROM feedback WHERE source = 'sweep'") == [(True,)]


@pytest.mark.slow
def test_a_replica_killed_while_it_forgets_loses_no_contribution(where, started):
    def compacted():
        return query(store, "SELECT COALESCE(SUM(learned), 0) > 0 FROM compacted") == [(True,)]

    store = where()
    started(store, "in_retention", 5).told()
    check(store)
    replica = started(store, "in_retention")
    wait_until(replica.is_ready)
    wait_until(compacted)
    replica.process.kill()
    replica.told()
    check(store)


DAMAGE = [
    ("UPDATE state SET learned = learned + 1", "I2"),
    ("UPDATE state SET sums = decode(repeat('00', length(sums)), 'hex')", "I2"),
    ("DELETE FROM feedback WHERE id = (SELECT id FROM feedback ORDER BY id LIMIT 1)", "I2"),
    ("UPDATE feedback SET loss = 0.25", "I2"),
    ("UPDATE feedback SET loss = 1e300", "I4"),
    ("UPDATE feedback SET epoch = 7", "I3"),
    ("UPDATE feedback SET record = substr(record, 1, 30)", "I3"),
    ("UPDATE feedback SET record = (SELECT record FROM feedback ORDER BY id LIMIT 1)", "I3"),
    ("UPDATE arm SET place = 9 WHERE place = 3", "I7"),
    ("DELETE FROM audit", "I8"),
]


def test_verify_notices_what_was_tampered_with_in_a_database(where, served):
    async def body(service):
        await service.create(ME, spec())
        for each in await service.decide_many(ME, "headline", 6):
            await service.feedback(ME, each.decision_id, loss=0.5)

    served(body)
    store = where()
    tables = ("state", "feedback", "arm", "audit")
    for table in tables:
        query(store, f"CREATE TABLE whole_{table} AS TABLE {table}")
    assert all(each.ok for each in verify(store))
    for damage, invariant in DAMAGE:
        query(store, damage)
        found = {each.invariant: each for each in verify(store)}
        assert not found[invariant].ok, damage
        assert found[invariant].detail
        for table in tables:
            query(store, f"DELETE FROM {table}")
            query(store, f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE whole_{table}")
    assert all(each.ok for each in verify(store))


@pytest.mark.slow
def test_the_database_killed_cut_and_paused_under_four_replicas(where, started, postgres):
    store = where()
    replicas = [started(store)]
    wait_until(replicas[0].is_ready)
    replicas += [started(store) for _ in range(3)]
    for each in replicas[1:]:
        wait_until(each.is_ready)

    def versions():
        return dict(query(store, "SELECT shard, SUM(version) FROM state GROUP BY shard"))

    def go_on():
        """Wait until every replica has written again."""
        before = versions()
        wait_until(
            lambda: (
                len(now := versions()) == 4
                and all(now[shard] > before.get(shard, 0) for shard in now)
            )
        )

    go_on()
    postgres.kill()
    postgres.start()
    go_on()
    # The session in which every replica writes; those in which it listens may still be away.
    assert cut(store) >= 4
    go_on()
    with postgres.paused():
        time.sleep(0.5)
    go_on()
    replicas[1].process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    replicas[1].process.send_signal(signal.SIGCONT)
    go_on()
    for each in replicas:
        each.process.kill()
    told = [each.told() for each in replicas]
    check(store, *told)
    assert min(map(len, told)) > 0
    # A restart of the database has taken no number away.
    assert query(store, "SELECT COUNT(DISTINCT shard), COUNT(*) FROM run") == [(4, 4)]


# --- without another process ---------------------------------------------------------------------


async def told(service, token, loss=0.5):
    try:
        return (await service.feedback(ME, token, loss=loss)).status
    except Problem as problem:
        return problem.code


def test_a_change_reaches_another_replica_without_its_poll(where):
    async def body():
        one = await Service.open(where(), QUIET)
        other = await Service.open(where(), QUIET)
        try:
            await one.create(ME, spec())
            # It would poll in an hour; what comes before was announced.
            while not other.experiments(ME):
                await asyncio.sleep(0.01)
            # Without being announced, a change is heard of by polling.
            other.state.settings = replace(QUIET, poll_seconds=0.05)
            one.store.writer.announce = None
            other.replicas.nudge()
            await one.set_mode(ME, "headline", "pause")
            while other.experiment(ME, "headline")["mode"] != "paused":
                await asyncio.sleep(0.01)
        finally:
            await one.close()
            await other.close()

    asyncio.run(asyncio.wait_for(body(), HANG))


def stopped_in_time(service):
    """Stop a service whose database does not answer."""
    began = time.monotonic()
    assert service.stop() == 0, service.log()
    assert time.monotonic() - began < 10.0


def refused_in_time(service, decision, known):
    """Stop a service while it answers; ``known``: once it knows that its database is silent."""
    with (
        socket.create_connection((service.host, service.port), HANG) as peer,
        socket.create_connection((service.host, service.port), HANG) as other,
    ):
        body = b'{"loss": 0.5}'
        peer.sendall(
            f"PUT /v1/decisions/{decision}/feedback HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        other.sendall(b"GET /v1/experiments/headline/report HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if known:
            wait_until(lambda: service.ask("GET", "/readyz").status == 503)
        stopped_in_time(service)
        # Refused in time, and not by an answer that the service did not write.
        for each in (peer, other):
            assert each.recv(4096).startswith(b"HTTP/1.1 503 ")


def test_services_stop_in_time_though_their_database_does_not_answer(where, postgres, tmp_path):
    store, options = where(), ("--experiment", "headline", "--arms", "a,b")
    with (
        served(store, *options, log=tmp_path / "unknown") as unknown,
        served(store, *options, log=tmp_path / "known") as known,
        served(store, *options, log=tmp_path / "idle") as idle,
        ThreadPoolExecutor() as pool,
    ):
        path = "/v1/experiments/headline/decisions"
        decided = [each.ask("POST", path, {}).json["decision_id"] for each in (unknown, known)]
        with postgres.paused():
            ended = [
                pool.submit(refused_in_time, unknown, decided[0], False),
                pool.submit(refused_in_time, known, decided[1], True),
                # It has nothing to write.
                pool.submit(stopped_in_time, idle),
            ]
            for each in ended:
                each.result()
        assert "The database does not answer" in idle.log()


def test_a_session_that_stands_still_is_cut_and_its_feedback_told_again(where, monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.05)
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.4)

    async def body():
        service = await Service.open(where(), QUIET)
        try:
            await service.create(ME, spec())
            tokens = [each.decision_id for each in await service.decide_many(ME, "headline", 3)]
            await service.flushed()
            session = service.store.writer.backend
            # Whoever holds the table lets the service's statement stand still.
            loop = asyncio.get_running_loop()
            other = await loop.run_in_executor(None, module.psycopg.connect, where())
            other.execute("LOCK TABLE feedback IN ACCESS EXCLUSIVE MODE")
            assert await told(service, tokens[0]) == "store_unavailable"
            assert service.ready() is not None
            other.rollback()
            other.close()
            while await told(service, tokens[1]) == "store_unavailable":
                await asyncio.sleep(0.05)
            # The session that was cut has not kept its lock, and may have committed.
            assert service.store.writer.backend != session
            assert await told(service, tokens[0]) in ("learned", "duplicate")
            assert await told(service, tokens[0], 0.25) == "already_told"
            assert service.ready() is None
            assert service.experiment(ME, "headline")["learned"] == 2
        finally:
            await service.close()

    asyncio.run(body())
    check(where())


def test_a_number_is_free_when_its_replica_has_stopped_or_is_long_gone(where, monkeypatch):
    # The database of these tests is younger than a lease of a day, in whatever order they run.
    monkeypatch.setattr(module, "LEASE", 86400.0)
    first, second = opened(where()), opened(where())
    assert (first.replica.shard, second.replica.shard) == (0, 1)
    first.close()
    third = opened(where())
    assert third.replica.shard == 0
    # Its session is gone, but it may come back.
    third.writer.line.close()
    fourth = opened(where())
    assert fourth.replica.shard == 2
    third.writer.own_states()
    assert third.replica.shard == 0
    third.writer.line.close()
    later = f"UPDATE replica SET alive_at = alive_at - {2 * module.LEASE} WHERE shard = 0"
    query(where(), later)
    fifth = opened(where())
    # Also after a restart of the database, which is younger than a lease here.
    assert fifth.replica.shard == 3
    monkeypatch.setattr(module, "LEASE", 0.0)
    sixth = opened(where())
    assert sixth.replica.shard == 0
    for store in (second, third, fourth, fifth, sixth):
        store.close()


def test_a_replica_that_lost_its_number_takes_another(where, monkeypatch):
    async def body():
        one = await Service.open(where(), QUIET)
        await one.create(ME, spec())
        tokens = [(await one.decide(ME, "headline")).decision_id for _ in range(8)]
        for token in tokens[:4]:
            assert await told(one, token) == "learned"
        # With nothing left to write, it is cut off for so long that another one takes its number,
        # with what it has learned.
        await one.flushed()
        one.store.writer.line.close()
        with monkeypatch.context() as patched:
            patched.setattr(module, "LEASE", 0.0)
            other = await Service.open(where(), QUIET)
        assert (one.store.replica.shard, other.store.replica.shard) == (0, 0)
        try:
            assert await told(other, tokens[4]) == "learned"
            # The first replica that writes finds out; every replica that comes back is told.
            assert await told(one, tokens[5]) == "store_unavailable"
            assert [await told(one, token) for token in tokens] == [
                *["duplicate"] * 5, *["learned"] * 3
            ]  # fmt: skip
            assert one.store.replica.shard == 1
            await one.decide(ME, "headline")
            for service in (one, other):
                await service.replicas.poll_once()
            totals = [service.experiment_state(ME, "headline").total for service in (one, other)]
            assert totals[0].same(totals[1])
            assert totals[0].learned == 8
        finally:
            await one.close()
            await other.close()

    asyncio.run(body())
    check(where())
    decided = query(where(), "SELECT SUM(rounds) FROM state")
    assert decided == [(9,)]


def test_what_needs_a_store_alone_is_refused_while_it_is_served(where):
    store = opened(where())
    with pytest.raises(StoreError, match="is being served; stop all replicas first"):
        replay(where(), write=True)
    assert migrate(where()) == (5, 5)
    query(where(), "DELETE FROM schema_version")
    with pytest.raises(StoreError, match="is being served; stop all replicas first"):
        migrate(where())
    query(where(), "INSERT INTO schema_version VALUES (5, 0)")
    store.close()
    assert replay(where(), write=True) == []


def test_a_store_that_was_closed_is_free_at_once(where, monkeypatch):
    # A server notices a closed connection a little later; this one does not notice it at all.
    store = opened(where())
    with monkeypatch.context() as patched:
        patched.setattr(module._Line, "close", lambda self: None)
        store.close()
    assert replay(where(), write=True) == []
    store.close()


def test_what_is_no_database_is_refused_in_one_sentence(where, tmp_path):
    empty = where()
    with pytest.raises(StoreError, match="run: bothworlds serve migrate"):
        verify(empty)
    assert migrate(empty) == (0, 5)
    assert all(each.ok for each in verify(empty))
    nowhere = f"postgresql://eve:secret@/none?host={tmp_path}"
    for url in (nowhere, "postgresql://eve:secret@[::1", empty.replace("/test", "/no_test")):
        with pytest.raises(StoreError) as refused:
            opened(url)
        assert "\n" not in str(refused.value)
        assert "secret" not in str(refused.value)
