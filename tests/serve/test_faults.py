"""Faults: processes that die at any point, disks that fill, files that are cut."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bothworlds.errors import StoreError
from bothworlds.serve.domain.service import Service
from bothworlds.serve.ops.verify import replay, verify
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import sqlite
from bothworlds.serve.store.opening import migrate, opened
from helpers.waiting import HANG
from serve.conftest import QUIET, spec

ME = Service.LOCAL
DRIVER = Path(__file__).with_name("crashing.py")


def started(store, point, count=0):
    return subprocess.Popen(
        [sys.executable, str(DRIVER), str(store), point, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process, before=()):
    """Return what a process has said, by its first word, once it is dead."""
    out, err = process.communicate(timeout=HANG)
    found = {}
    for line in [*before, *out.splitlines()]:
        first, *rest = line.split()
        found.setdefault(first, []).append(rest)
    return found, err


def check(store, *reports):
    """Check that a store holds all acknowledged feedback once, and its state is their sum."""
    found = verify(str(store))
    assert [each for each in found if not each.ok] == []
    with contextlib.closing(sqlite3.connect(store)) as connection:
        stored = dict(connection.execute("SELECT lower(hex(id)), loss FROM feedback"))
        logged = {id for (id,) in connection.execute("SELECT lower(hex(id)) FROM decision")}
    for report in reports:
        for id, loss in report.get("told", []):
            assert stored[id] == float(loss)
        for (id,) in report.get("decided", []):
            assert id in logged
    assert all(each.equal for each in replay(str(store)))
    return stored


@pytest.mark.processes
@pytest.mark.parametrize(
    ("point", "count"),
    [("before_write", 7), ("in_write", 6), ("after_write", 8), ("in_the_log", 5)],
)
def test_nothing_acknowledged_is_lost_when_a_process_is_killed(tmp_path, point, count):
    store = tmp_path / "store.db"
    reports = []
    for _ in range(2):
        process = started(store, point, count)
        report, err = said(process)
        assert process.returncode == -signal.SIGKILL, err
        reports.append(report)
        check(store, *reports)
    assert sum(len(report.get("told", [])) for report in reports) > 0


@pytest.mark.processes
def test_nothing_acknowledged_is_lost_when_a_process_is_killed_at_random(tmp_path):
    store = tmp_path / "store.db"
    # Closed once, so that the tables are no longer in the write-ahead log, which is cut below.
    opened(str(store)).close()
    chance = random.Random(3)
    reports = []
    for _ in range(3):
        process = started(store, "nowhere")
        # Killed after so many lines, of which most are feedback, however fast the machine is.
        lines = [process.stdout.readline() for _ in range(chance.randrange(20, 400))]
        assert lines[0].startswith("ready"), process.stderr.read()
        process.kill()
        reports.append(said(process, lines)[0])
        # A log that is cut: the last moments of the write-ahead log never came to be.
        for share in (0.3, 0.9):
            copy = tmp_path / f"cut{share}.db"
            shutil.copy(store, copy)
            wal = Path(f"{store}-wal")
            if wal.exists():
                whole = wal.read_bytes()
                Path(f"{copy}-wal").write_bytes(whole[: int(share * len(whole))])
            check(copy)
        check(store, *reports)
    assert sum(len(report.get("told", [])) for report in reports) > 0
    # Each of the three ended early, and says so.
    found = asyncio.run(gaps(store))
    assert found["unclean"] == 3


async def gaps(store):
    service = await Service.open(str(store), QUIET)
    try:
        return await service.gaps(ME, "after")
    finally:
        await service.close()


@pytest.mark.processes
@pytest.mark.parametrize("count", [1, 2])
def test_a_migration_is_whole_or_not_at_all(tmp_path, count):
    store = tmp_path / "store.db"
    process = started(store, "in_a_migration", count)
    _, err = said(process)
    assert process.returncode == -signal.SIGKILL, err
    with pytest.raises(StoreError, match="run: bothworlds serve migrate"):
        verify(str(store))
    before, after = migrate(str(store))
    assert (before, migrate(str(store))) == (0, (after, after))
    assert all(each.ok for each in verify(str(store)))


@pytest.mark.processes
def test_a_sweep_that_is_killed_is_done_again_and_counts_once(tmp_path):
    store = tmp_path / "store.db"
    process = started(store, "in_the_sweeper", 2)
    report, err = said(process)
    assert process.returncode == -signal.SIGKILL, err
    check(store, report)
    process = started(store, "in_the_sweeper", 3)
    again, err = said(process)
    assert process.returncode == -signal.SIGKILL, err
    check(store, report, again)
    with contextlib.closing(sqlite3.connect(store)) as connection:
        swept = connection.execute("SELECT COUNT(*) FROM feedback WHERE source = 'sweep'")
        assert swept.fetchone()[0] > 0


@pytest.mark.processes
def test_retention_that_is_killed_loses_no_contribution(tmp_path):
    store = tmp_path / "store.db"
    process = started(store, "in_retention", 12)
    _, err = said(process)
    assert process.returncode == -signal.SIGKILL, err
    check(store)
    process = started(store, "in_retention")
    assert process.stdout.readline().startswith("ready")
    # Somebody must read what it says, or it stops when the pipe is full.
    reader = threading.Thread(target=process.stdout.read)
    reader.start()
    deadline = time.monotonic() + HANG
    while not compacted(store) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.wait()
    reader.join()
    process.stdout.close()
    process.stderr.close()
    check(store)
    assert compacted(store)


def compacted(store):
    """Return how many feedbacks have left the log for a sum."""
    with contextlib.closing(sqlite3.connect(store, timeout=HANG)) as connection:
        return connection.execute("SELECT SUM(learned) FROM compacted").fetchone()[0] or 0


@pytest.mark.processes
def test_a_full_disk_refuses_and_recovers(tmp_path):
    store = tmp_path / "store.db"
    process = started(store, "disk_full")
    report, err = said(process)
    assert process.returncode == 0, err
    assert ["store_unavailable"] in report["refused"]
    assert "end" in report
    stored = check(store, report)
    assert len(stored) >= len(report["told"])


@pytest.mark.processes
def test_a_second_process_does_not_start(tmp_path):
    store = tmp_path / "store.db"
    first = started(store, "nowhere")
    assert first.stdout.readline().startswith("ready")
    second = started(store, "nowhere")
    _, err = said(second)
    assert second.returncode == 1
    assert "is already in use by another server" in err
    first.kill()
    report = said(first)[0]
    check(store, report)


@pytest.mark.processes
def test_a_second_process_does_not_start_without_the_first_ones_name(tmp_path):
    store = tmp_path / "store.db"
    first = started(store, "nowhere")
    assert first.stdout.readline().startswith("ready")
    link = tmp_path / "link.db"
    link.symlink_to(store)
    other = tmp_path / "other.db"
    other.hardlink_to(store)
    for name, why in ((link, "hard links"), (other, "hard links"), (store, "hard links")):
        second = started(name, "nowhere")
        _, err = said(second)
        assert second.returncode == 1
        assert why in err
    other.unlink()
    second = started(link, "nowhere")
    assert "is already in use by another server" in said(second)[1]
    first.kill()
    check(store)


# --- without another process ---------------------------------------------------------------------


async def refused(code, awaitable):
    with pytest.raises(Problem) as problem:
        await awaitable
    assert problem.value.code == code


@pytest.mark.parametrize("fault", ["full", "read_only", "busy"])
def test_a_store_that_takes_no_writes_changes_nothing(on_service, tmp_path, monkeypatch, fault):
    monkeypatch.setattr(sqlite, "BUSY", 0.05)

    async def body(service):
        writer = service.store.writer
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        first = await service.decide(ME, "headline")
        await service.flushed()
        if fault == "full":
            pages = writer.execute("PRAGMA page_count").fetchone()[0]
            writer.execute(f"PRAGMA max_page_count = {pages}")
        elif fault == "read_only":
            writer.execute("PRAGMA query_only = ON")
        else:
            other.execute("BEGIN IMMEDIATE")
        tokens = [first.decision_id]
        told = 0
        for _ in range(60):
            tokens += [each.decision_id for each in await service.decide_many(ME, "headline", 20)]
            answers = await asyncio.gather(
                *(service.feedback(ME, token, loss=0.5) for token in tokens[-20:]),
                return_exceptions=True,
            )
            codes = [getattr(each, "code", "learned") for each in answers]
            assert set(codes) <= {"learned", "store_unavailable"}
            # One call may become two commits, of which the store takes the first.
            told += codes.count("learned")
            if "learned" not in codes:
                break
        else:
            pytest.fail("The store took everything.")
        assert service.experiment(ME, "headline")["learned"] == told
        assert service.ready() == "The store does not take writes."
        if fault != "full":  # where there may be room for a few more bytes
            await refused("store_unavailable", service.set_mode(ME, "headline", "pause"))
            await refused("store_unavailable", service.activate(ME, tokens[0]))
        if fault == "full":
            writer.execute("PRAGMA max_page_count = 1000000")
        elif fault == "read_only":
            writer.execute("PRAGMA query_only = OFF")
        else:
            other.execute("ROLLBACK")
        other.close()
        for token in tokens:
            status = (await service.feedback(ME, token, loss=0.5)).status
            assert status in ("learned", "duplicate")
        assert service.ready() is None
        assert service.experiment(ME, "headline")["learned"] == len(tokens)
        await service.flushed()
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert len(rows) == len(tokens)

    on_service(body)
    check(tmp_path / "store.db")


@pytest.mark.parametrize("fault", ["removed", "replaced", "linked"])
def test_a_file_that_is_lost_while_it_is_served_takes_nothing(on_service, tmp_path, caplog, fault):
    store = tmp_path / "store.db"

    async def body(service):
        first, second = [await service.decide(ME, "headline") for _ in range(2)]
        assert (await service.feedback(ME, first.decision_id, loss=0.5)).status == "learned"
        if fault == "removed":
            store.unlink()
        elif fault == "replaced":
            backup = tmp_path / "backup.db"
            backup.write_bytes(store.read_bytes())
            backup.rename(store)
        else:
            (tmp_path / "other.db").hardlink_to(store)
        # The first write after it is refused, before any check that is made once a second.
        await refused("store_unavailable", service.feedback(ME, second.decision_id, loss=0.5))
        await service.check_store()
        await refused("store_unavailable", service.decide(ME, "headline"))
        await refused("store_unavailable", service.feedback(ME, second.decision_id, loss=0.5))
        await refused("store_unavailable", service.set_mode(ME, "headline", "pause"))
        reason = service.ready()
        assert fault in reason or fault == "linked"
        assert [record.message for record in caplog.records].count(reason) == 1
        # For good: the same file under its name again may have missed writes.
        store.unlink(missing_ok=True)
        await service.check_store()
        assert service.ready() == reason

    on_service(body)


@pytest.mark.parametrize("noticed", [True, False])
def test_a_backup_in_the_place_of_a_served_file_is_not_damaged_by_its_log(
    on_service, tmp_path, noticed
):
    store, backup, former = (tmp_path / name for name in ("store.db", "backup.db", "former.db"))
    log = tmp_path / "store.db-wal"

    async def learn(service, count):
        for made in await service.decide_many(ME, "headline", count):
            await service.feedback(ME, made.decision_id, loss=0.5)

    async def body(service):
        await learn(service, 1)
        with (
            contextlib.closing(sqlite3.connect(store)) as reading,
            contextlib.closing(sqlite3.connect(backup)) as writing,
        ):
            reading.backup(writing)
        await learn(service, 50)
        # From now on the log has some pages of the file and lacks others.
        service.store.writer.execute("PRAGMA wal_checkpoint(RESTART)")
        await learn(service, 1)
        store.rename(former)
        backup.rename(store)
        if noticed:
            await service.check_store()
            assert log.stat().st_size == 0

    on_service(body)
    assert not log.exists() or log.stat().st_size == 0
    for path, count in ((store, 1), (former, 52)):
        with contextlib.closing(sqlite3.connect(path)) as reading:
            assert reading.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert reading.execute("SELECT COUNT(*) FROM feedback").fetchone() == (count,)
        check(path)


def test_the_log_of_a_killed_process_is_refused_next_to_another_file(on_service, tmp_path):
    store, backup = tmp_path / "store.db", tmp_path / "backup.db"
    log, mark = tmp_path / "store.db-wal", tmp_path / "store.db-mark"
    left = {}

    async def body(service):
        with contextlib.closing(sqlite3.connect(store)) as reading:
            reading.execute("VACUUM INTO ?", (str(backup),))
        service.store.writer.execute("PRAGMA wal_checkpoint(RESTART)")
        for made in await service.decide_many(ME, "headline", 50):
            await service.feedback(ME, made.decision_id, loss=0.5)
        left.update((path, path.read_bytes()) for path in (store, log, mark))

    def kill():
        """Leave the files as a process does that is killed, in the file that it served."""
        for path, held in left.items():
            path.write_bytes(held)

    def feedbacks(path):
        with contextlib.closing(sqlite3.connect(path)) as reading:
            assert reading.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return reading.execute("SELECT COUNT(*) FROM feedback").fetchone()[0]

    def opening(path):
        for serve in (True, False):
            with contextlib.closing(sqlite.SqliteStore(path, serve=serve)):
                pass

    on_service(body)
    kill()
    opening(store)
    assert feedbacks(store) == 50

    kill()
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in left:
        shutil.copy(path, moved)
    os.replace(backup, store)
    held = store.read_bytes()
    for path in (store, moved / "store.db"):
        for serve in (True, False):
            with pytest.raises(StoreError, match="written for another file"):
                sqlite.SqliteStore(path, serve=serve)
    # Nothing has changed, and each has the way out that the message names.
    assert (store.read_bytes(), log.read_bytes()) == (held, left[log])
    log.unlink()
    opening(store)
    assert feedbacks(store) == 0
    (moved / "store.db-mark").unlink()
    opening(moved / "store.db")
    assert feedbacks(moved / "store.db") == 50

    # A process that is killed now leaves a log of the file that has the name now.
    with contextlib.closing(sqlite.SqliteStore(store)) as opened:
        opened.writer.begin_run()
        with opened.writer.transaction():
            opened.writer.execute("DELETE FROM run")
        left.update((path, path.read_bytes()) for path in (store, log, mark))
    kill()
    opening(store)


def test_a_commit_into_a_file_that_was_removed_meanwhile_is_not_acknowledged(on_service, tmp_path):
    async def body(service):
        made = await service.decide(ME, "headline")
        writer, execute = service.store.writer, service.store.writer.execute

        def remove_before_commit(sql, values=()):
            if sql == "COMMIT":
                (tmp_path / "store.db").unlink(missing_ok=True)
            return execute(sql, values)

        writer.execute = remove_before_commit
        await refused("store_unavailable", service.feedback(ME, made.decision_id, loss=0.5))

    on_service(body)


def test_jobs_that_only_read_do_not_make_a_failing_store_ready(on_service):
    async def body(service):
        decided = await service.decide(ME, "headline")
        await service.flushed()
        service.store.writer.execute("PRAGMA query_only = ON")
        await refused("store_unavailable", service.feedback(ME, decided.decision_id, loss=0.5))
        for _ in range(20):
            assert await service.state.committer.run(lambda writer: writer.leads())
            assert service.ready() == "The store does not take writes."
        # Without any request, the service finds out by itself.
        service.store.writer.execute("PRAGMA query_only = OFF")
        async with asyncio.timeout(HANG):
            while service.ready() is not None:
                await asyncio.sleep(0.01)

    on_service(body)


def test_one_write_that_succeeds_does_not_end_a_failure(served):
    async def body(service):
        await service.create(ME, spec())
        decided = await service.decide(ME, "headline")
        await service.flushed()
        service.store.writer.execute("PRAGMA query_only = ON")
        await refused("store_unavailable", service.feedback(ME, decided.decision_id, loss=0.5))
        service.store.writer.execute("PRAGMA query_only = OFF")
        assert (await service.feedback(ME, decided.decision_id, loss=0.5)).status == "learned"
        assert service.ready() == "The store does not take writes."

    served(body, replace(QUIET, recovery_seconds=3600.0))


@pytest.mark.parametrize("made", [True, False])
def test_a_start_on_a_full_disk_is_refused_in_one_sentence(tmp_path, monkeypatch, made):
    store = str(tmp_path / "store.db")
    if made:
        opened(store).close()
    connect = sqlite3.connect

    def full(*arguments, **options):
        connection = connect(*arguments, **options)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {max(pages, 1)}")
        connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(sqlite.sqlite3, "connect", full)
    with pytest.raises(StoreError, match=r"store.*: .*\w\.$"):
        asyncio.run(Service.open(store, QUIET))


def test_a_commit_whose_end_nobody_knows_is_found_out(on_service, tmp_path):
    async def body(service):
        tokens = [each.decision_id for each in await service.decide_many(ME, "headline", 10)]
        commit = service.store.writer.commit

        def unknown(batch, settle):
            commit(batch, settle)
            raise ConnectionError("the connection broke after the commit")

        service.store.writer.commit = unknown
        for token in tokens[:5]:
            await refused("store_unavailable", service.feedback(ME, token, loss=1.0))
        service.store.writer.commit = commit
        statuses = [(await service.feedback(ME, token, loss=1.0)).status for token in tokens]
        assert statuses == ["duplicate"] * 5 + ["learned"] * 5
        assert service.experiment(ME, "headline")["learned"] == 10

    on_service(body)
    check(tmp_path / "store.db")


def test_somebody_else_who_writes_this_replicas_state_is_noticed(on_service, tmp_path):
    async def body(service):
        tokens = [each.decision_id for each in await service.decide_many(ME, "headline", 3)]
        await service.feedback(ME, tokens[0], loss=1.0)
        with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as other:
            other.execute("UPDATE state SET version = version + 1")
            other.commit()
        await refused("store_unavailable", service.feedback(ME, tokens[1], loss=1.0))
        # The states were read again: the next one fits.
        for token in tokens:
            await service.feedback(ME, token, loss=1.0)
        assert service.experiment(ME, "headline")["learned"] == 3

    on_service(body)
    check(tmp_path / "store.db")


def test_feedback_before_its_record_is_in_the_log(on_service, tmp_path):
    async def body(service):
        log = service.state.committer.log
        decided = await service.decide(ME, "headline")
        row = log.popleft()
        assert (await service.feedback(ME, decided.decision_id, loss=0.25)).status == "learned"
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert [(each["logged"], each["loss"], each["arm"]) for each in rows] == [
            (False, 0.25, decided.arm)
        ]
        assert (await service.gaps(ME, "headline"))["missing"] == 1
        service.state.committer.append(row)
        await service.flushed()
        assert (await service.gaps(ME, "headline"))["missing"] == 0

    on_service(body)
    check(tmp_path / "store.db")


def test_a_retry_storm_learns_once(on_service, tmp_path):
    async def body(service):
        tokens = [each.decision_id for each in await service.decide_many(ME, "headline", 20)]
        told = await asyncio.gather(
            *(service.feedback(ME, token, loss=0.5) for _ in range(50) for token in tokens)
        )
        statuses = [each.status for each in told]
        assert statuses.count("learned") == 20
        assert statuses.count("duplicate") == 980

    on_service(body)
    check(tmp_path / "store.db")


def test_each_experiment_is_kept_for_its_own_time(served, put_clock):
    async def body(service):
        swept = spec(
            missing="default", default_loss=1.0, log="before", feedback_window=90 * 86400.0
        )
        await service.create(ME, msgspec.structs.replace(swept, name="swept"))
        await service.create(ME, spec(log="before"))
        for name in ("swept", "headline"):
            await service.decide_many(ME, name, 3)
        put_clock(35 * 86400)
        await service.upkeep.sweep()
        kept = {
            name: sum([len(page) async for page in service.rows(ME, name)])
            for name in ("swept", "headline")
        }
        assert kept == {"swept": 3, "headline": 0}

    served(body, replace(QUIET, retention_days=30.0))


def test_retention_keeps_what_was_learned_and_who_was_told(served, tmp_path, put_clock):
    settings = replace(QUIET, retention_days=30.0)

    async def body(service):
        await service.create(ME, spec(feedback_window=40 * 86400.0))
        old = [each.decision_id for each in await service.decide_many(ME, "headline", 30)]
        for token in old[:20]:
            await service.feedback(ME, token, loss=0.5)
        put_clock(35 * 86400)
        await service.flushed()
        await service.decide_many(ME, "headline", 5)
        state = service.experiment_state(ME, "headline").total.sums.copy()
        await service.upkeep.sweep()
        # The records are gone; what keeps decisions from being told twice is not.
        assert (await service.feedback(ME, old[0], loss=0.5)).status == "duplicate"
        assert (await service.feedback(ME, old[25], loss=0.5)).status == "learned"
        rows = [row async for page in service.rows(ME, "headline") for row in page]
        assert sum(row["logged"] for row in rows) == 5
        put_clock(42 * 86400)
        await service.upkeep.sweep()
        await refused("expired", service.feedback(ME, old[0], loss=0.5))
        now = service.experiment_state(ME, "headline").total
        assert now.learned == 21
        assert (now.sums != state).any()
        return now.sums

    before = served(body, settings)
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM feedback").fetchone() == (0,)
        assert connection.execute("SELECT learned FROM compacted").fetchone() == (21,)
    check(tmp_path / "store.db")

    async def again(service):
        return service.experiment_state(ME, "headline").total.sums

    assert (served(again) == before).all()


# --- what verify notices -------------------------------------------------------------------------


async def some(service):
    tokens = [each.decision_id for each in await service.decide_many(ME, "headline", 6)]
    for token in tokens:
        await service.feedback(ME, token, loss=0.5)


@pytest.mark.parametrize(
    ("damage", "invariant"),
    [
        ("UPDATE state SET learned = learned + 1", "I2"),
        ("UPDATE state SET sums = zeroblob(length(sums))", "I2"),
        ("DELETE FROM feedback WHERE id = (SELECT MIN(id) FROM feedback)", "I2"),
        ("UPDATE feedback SET loss = 0.25", "I2"),
        ("UPDATE feedback SET loss = 1e300", "I4"),
        ("UPDATE feedback SET epoch = 7", "I3"),
        ("UPDATE feedback SET record = substr(record, 1, 30)", "I3"),
        ("UPDATE feedback SET record = (SELECT MIN(record) FROM feedback)", "I3"),
        ("UPDATE arm SET place = 9 WHERE place = 3", "I7"),
        ("DELETE FROM audit", "I8"),
    ],
)
def test_verify_notices_what_was_tampered_with(on_service, tmp_path, damage, invariant):
    on_service(some)
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute(damage)
        connection.commit()
    found = {each.invariant: each for each in verify(str(tmp_path / "store.db"))}
    assert not found[invariant].ok
    assert found[invariant].detail


def test_replay_rebuilds_a_state_that_was_lost(on_service, served, tmp_path):
    store = tmp_path / "store.db"

    async def body(service):
        await some(service)
        return service.experiment_state(ME, "headline").total.sums.copy()

    before = on_service(body)
    assert [each.equal for each in replay(str(store))] == [True]
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("DELETE FROM state")
        connection.commit()
    assert [each.equal for each in replay(str(store))] == [False]
    assert not all(each.ok for each in verify(str(store)))
    replay(str(store), write=True)
    check(store)

    async def again(service):
        experiment = service.experiment_state(ME, "headline")
        return experiment.total.sums

    assert (served(again) == before).all()


def test_verify_works_beside_a_running_service(on_service, tmp_path):
    async def body(service):
        await some(service)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, verify, str(tmp_path / "store.db"))
        assert all(each.ok for each in found)

    on_service(body)


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be looked at" * 40])
def test_what_is_no_store_is_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(StoreError) as refused:
        verify(str(path))
    assert "\n" not in str(refused.value)
    assert path.read_bytes()[: len(content)] == content
    with pytest.raises(StoreError, match="There is no store"):
        verify(str(tmp_path / "none.db"))
    assert not (tmp_path / "none.db").exists()
