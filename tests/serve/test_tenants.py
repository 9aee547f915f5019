"""Isolation of tenants: the requests of one do not wait for those of another."""

import asyncio
import contextlib
import sys
import threading
from types import SimpleNamespace

import pytest

from bothworlds.serve.background import background
from bothworlds.serve.domain import history
from bothworlds.serve.domain.answers import Principal, log_document
from bothworlds.serve.domain.keys import SCOPES
from bothworlds.serve.domain.service import Arm, NewExperiment, Service
from bothworlds.serve.domain.state import CHUNK
from bothworlds.serve.http import app as http
from bothworlds.serve.http import fast_path
from bothworlds.serve.http.server import SWITCH_SECONDS
from bothworlds.serve.store import commit
from serve.conftest import QUIET

NOISY, CALM = (Principal(tenant, f"key{tenant}", SCOPES) for tenant in (1, 2))


def item(tenant, rows=1):
    return commit.Item(lambda written: None, tenant, feedback=[None] * rows)


def test_every_tenant_that_waits_is_in_the_next_batch():
    queue = commit.FairQueue()
    for _ in range(5000):
        queue.append(item(1))
    for tenant in (2, 3):
        queue.append(item(tenant))
    items, job = queue.take()
    assert job is None
    # The place in the queue is bounded by the number of tenants.
    assert {each.tenant for each in items[:3]} == {1, 2, 3}
    assert sum(len(each.feedback) + 1 for each in items) <= commit.SHARED + 1
    assert len(queue) == 5002 - len(items)


def test_a_tenant_that_is_alone_for_a_minute_is_not_limited(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(commit.time, "monotonic", lambda: now[0])

    async def body():
        queue, turns = commit.FairQueue(), http.Turns()
        for _ in range(5000):
            queue.append(item(1))
        assert len(queue.take()[0]) == commit.BATCH_ROWS // 2
        assert all(turns.enter(1) for _ in range(1000))
        queue.append(item(2))
        turns.enter(2)
        await asyncio.sleep(0)
        for moment, alone in ((0.0, False), (59.0, False), (61.0, True)):
            now[0] = 100.0 + moment
            expected = commit.BATCH_ROWS if alone else commit.SHARED
            assert len(queue.take()[0]) == expected // 2
            begun = sum(turns.enter(1) for _ in range(100))
            assert begun == (100 if alone else http.SHARE)
            await asyncio.sleep(0)

    asyncio.run(body())


def test_batches_of_a_tenant_do_not_shut_others_out():
    queue = commit.FairQueue()
    for _ in range(10):
        queue.append(item(1, rows=1000))
    for _ in range(3):
        queue.append(item(2))
    taken = [queue.take()[0] for _ in range(3)]
    assert [[each.tenant for each in items].count(2) for items in taken] == [1, 1, 1]


def test_work_that_was_cleared_is_taken_by_nobody():
    queue = commit.FairQueue()
    job = commit.Job(None, None)
    for each in (item(1), job, item(2)):
        queue.append(each)
    assert len(queue.clear()) == 3
    assert queue.take() == ([], None)
    queue.append(job)
    assert queue.take() == ([], job)


@contextlib.asynccontextmanager
async def application(path):
    async def opening():
        return await Service.open(str(path), QUIET)

    app = fast_path.FastApplication(opening, keys=False)
    app.service = await opening()
    await app.service.create(NOISY, NewExperiment("e", [Arm("a"), Arm("b")]))
    # The other tenant, and an experiment of the same name.
    await app.service.state.committer.run(lambda writer: writer.put_tenant("calm", 0.0))
    await app.service.create(CALM, NewExperiment("e", [Arm("a"), Arm("b")]))
    try:
        yield app
    finally:
        await app.service.close()


def asked(app, who, done, monkeypatch):
    """Ask for a decision without a network; return the answer, or None if it comes later."""
    request = app.request("POST", "/v1/experiments/e/decisions", {})
    monkeypatch.setattr(app, "_who", lambda route, headers: who)
    return app.answer(request, None, b"", b"", lambda request, reply: done.append(reply.status))


def test_a_calm_tenant_is_answered_while_another_floods(tmp_path, unsynced, monkeypatch):
    """Counted in requests, not in seconds: at most a pass of the loop lies before an answer."""

    async def body():
        async with application(tmp_path / "store.db") as app:
            later = []
            assert asked(app, CALM, [], monkeypatch) is not None
            replies = [asked(app, NOISY, later, monkeypatch) for _ in range(1000)]
            at_once = [each for each in replies if each is not None]
            assert len(at_once) == http.SHARE
            answered = []
            while len(at_once) + len(later) < 1000:
                before = len(later)
                reply = asked(app, CALM, [], monkeypatch)
                assert reply is not None and reply.status == 201
                await asyncio.sleep(0)
                answered.append(len(later) - before)
            # Nothing is lost, and the other tenant goes on in every pass.
            assert set(later) == {201}
            assert max(answered) <= http.SHARE
            assert sum(answered) == 1000 - http.SHARE
            assert app.turns._waiting == {}

    asyncio.run(body())


def test_heavy_requests_are_paid_for_by_later_passes():
    async def body():
        turns, begun = http.Turns(), []
        assert turns.enter(2)
        assert turns.enter(1)
        turns.owe(1, 300)
        for n in range(3):
            assert not turns.enter(1)
            turns.wait(1, 300, lambda n=n: begun.append(n))
        passes = 0
        while len(begun) < 3:
            # Another tenant has its turn in every pass.
            assert turns.enter(2)
            await asyncio.sleep(0)
            passes += 1
        assert begun == [0, 1, 2]
        return passes

    # Each is begun when those before it are paid for, by a share a pass.
    assert asyncio.run(body()) == 900 // http.SHARE + 1


def test_while_tenants_share_a_turn_of_the_writer_is_short():
    async def body():
        ledger, taken, given = SimpleNamespace(life=0), [], []
        committer = commit.Committer(
            SimpleNamespace(together=1), ledger, asyncio.get_running_loop(), None, log_limit=10**6
        )
        committer._commit = lambda items, rows, life: taken.append((len(items), len(rows)))
        committer.log.extend((n,) for n in range(3000))
        committer._queue.append(item(1))
        committer._turn()
        for tenant in [1] * 500 + [2]:
            committer._queue.append(item(tenant))
        committer._turn()
        assert taken == [(1, commit.CHUNK), (commit.SHARED // 2, commit.SHARED)]
        committer._answered.clear()
        committer._answer([], {}, [(given.append, n) for n in range(100)])
        # The next batch is begun; the other answers are given meanwhile, a few in every pass.
        assert committer._answered.is_set() and len(given) == commit.ANSWERS
        passes = 1
        while len(given) < 100:
            await asyncio.sleep(0)
            passes += 1
        assert given == list(range(100)) and passes == 100 // commit.ANSWERS

    asyncio.run(body())


def test_many_decisions_at_once_leave_turns_to_others(tmp_path, unsynced):
    async def body():
        async with application(tmp_path / "store.db") as app:
            many = asyncio.ensure_future(app.service.decide_many(NOISY, "e", 256))
            between = 0
            while not many.done():
                assert (await app.service.decide(CALM, "e")).mode == "learn"
                await asyncio.sleep(0)
                between += 1
            assert len({each.decision_id for each in many.result()}) == 256
            assert between >= 256 // CHUNK
            assert app.service.experiment_state(NOISY, "e").counts.rounds == 256

    asyncio.run(body())


def test_no_thread_keeps_the_interpreter_for_long(tmp_path, unsynced):
    former = sys.getswitchinterval()
    with background(str(tmp_path / "store.db"), settings=QUIET):
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() == former


def test_an_export_is_made_off_the_event_loop(tmp_path, unsynced, monkeypatch):
    threads = []

    def noted(*given):
        threads.append(threading.get_ident())
        return log_document(*given)

    monkeypatch.setattr(history, "log_document", noted)
    monkeypatch.setattr(history, "PAGE", 4)

    async def body():
        async with application(tmp_path / "store.db") as app:
            made = await app.service.decide_many(NOISY, "e", 10)
            await app.service.state.committer.flushed()
            pages = [page async for page in app.service.rows(NOISY, "e")]
        assert [len(page) for page in pages] == [4, 4, 2]
        found = {row["decision_id"] for page in pages for row in page}
        assert found == {each.decision_id for each in made}

    asyncio.run(body())
    assert len(threads) == 10 and threading.get_ident() not in threads
