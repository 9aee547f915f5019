"""Group commit: what is written together, and when."""

import asyncio
import time

import pytest

from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.service import Service
from bothworlds.serve.problems import Problem
from bothworlds.serve.store import commit
from helpers.waiting import HANG
from serve.conftest import spec


def logged(service):
    return service.store.reader.rows("SELECT COUNT(*) FROM decision")[0][0]


def test_the_log_is_written_in_its_own_time(on_service, monkeypatch):
    monkeypatch.setattr(commit, "LOG_SECONDS", 3600.0)

    async def body(service):
        made = [await service.decide(Service.LOCAL, "headline") for _ in range(3)]
        await service.feedback(Service.LOCAL, made[0].decision_id, loss=0.5)
        assert logged(service) == 0
        # When its time has come, it goes along with what is written anyway.
        service.state.committer._flush()
        await service.feedback(Service.LOCAL, made[1].decision_id, loss=0.5)
        while logged(service) == 0:
            await asyncio.sleep(0)
        assert logged(service) == 3
        # A chunk that is full need not wait.
        service.state.committer._log_most = 2
        for _ in range(5):
            await service.decide(Service.LOCAL, "headline")
        await service.feedback(Service.LOCAL, made[2].decision_id, loss=0.5)
        while logged(service) < 7:
            await asyncio.sleep(0)

    on_service(body)


def test_rows_of_an_experiment_are_written_together(on_service, monkeypatch):
    async def body(service):
        monkeypatch.setattr(commit, "CHUNK", 8)
        monkeypatch.setattr(commit, "FEW_LOG_ROWS", 16)
        service.store.writer.together = 4
        names = ["headline", "b", "c", "d"]
        for name in names[1:]:
            await service.create(Service.LOCAL, spec(name))
        committer, batches = service.state.committer, []
        write = service.store.writer.commit

        def watched(batch, settle):
            batches.append([row.experiment for row in batch.decisions])
            return write(batch, settle)

        service.store.writer.commit = watched
        committer._log_wait = committer._log_most = 3600
        for _ in range(4):
            for name in names:
                await service.decide(Service.LOCAL, name)
        await service.flushed()
        # Two experiments a batch, and all rows of each.
        assert [len(batch) for batch in batches] == [8, 8]
        assert sum(len(set(batch)) for batch in batches) == 4
        # As many as it waits for: it waits as long as before, within its limits.
        assert committer._log_wait == commit.LOG_LONGEST
        assert committer._log_most == 16
        for name in names:
            await service.decide(Service.LOCAL, name)
        await service.flushed()
        # For a few it does not wait.
        assert (committer._log_wait, committer._log_most) == (commit.LOG_SECONDS, 8)

    on_service(body)


def test_decisions_alone_change_counts_alone(on_service, monkeypatch):
    async def body(service):
        committer, refreshed = service.state.committer, []
        for _ in range(3):
            first, *_ = [await service.decide(Service.LOCAL, "headline") for _ in range(3)]
            await service.feedback(Service.LOCAL, first.decision_id, loss=0.5)
            await service.flushed()
        monkeypatch.setattr(Experiment, "refresh", refreshed.append)
        await service.decide(Service.LOCAL, "headline")
        await service.flushed()
        assert not refreshed
        (stored,) = service.store.writer.own_states()
        kept = committer.ledger.states[stored.key]
        assert stored.sums.same(kept.sums) and stored.version == kept.version
        assert repr(stored.decided) == repr(kept.decided)
        assert sum(stored.decided.by_arm) == 10
        assert stored.decided.rounds == stored.sums.newest + 3 == 10

    on_service(body)


def test_a_pause_after_a_failure_holds_up_no_request(on_service, monkeypatch):
    monkeypatch.setattr(commit, "PATIENCE", HANG)

    async def body(service):
        committer, write = service.state.committer, service.store.writer.commit

        def broken(batch, settle):
            raise OSError("disk full")

        made = await service.decide(Service.LOCAL, "headline")
        service.store.writer.commit = broken
        # The log fails, alone, and the next attempt is far away.
        committer._pause = HANG
        await committer.run(lambda writer: None)
        assert committer.failures == 1
        async with asyncio.timeout(HANG / 2):
            with pytest.raises(Problem, match="did not take"):
                await service.feedback(Service.LOCAL, made.decision_id, loss=0.5)
            service.store.writer.commit = write
            told = await service.feedback(Service.LOCAL, made.decision_id, loss=0.5)
        assert told.status == "learned"

    on_service(body)


def test_a_batch_is_what_came_until_the_last_one_was_answered(on_service):
    async def body(service):
        made = [await service.decide(Service.LOCAL, "headline") for _ in range(40)]
        told, commits = [], []
        done = asyncio.get_running_loop().create_future()

        def later(outcome):
            told.append(outcome.status)
            if len(told) == len(made):
                commits.append(service.state.committer.commits)
                done.set_result(None)

        def first(outcome):
            commits.append(service.state.committer.commits)
            for each in made[1:]:
                service.tell(Service.LOCAL, each.decision_id, 0.5, None, later)
                # The writing thread would have the time to take it.
                time.sleep(0.0005)
            later(outcome)

        service.tell(Service.LOCAL, made[0].decision_id, 0.5, None, first)
        await done
        assert told == ["learned"] * len(made)
        assert commits[1] - commits[0] == 1

    on_service(body)


def test_who_cannot_be_answered_keeps_nobody_else_from_being(on_service):
    async def body(service):
        made = [await service.decide(Service.LOCAL, "headline") for _ in range(2)]
        done = asyncio.get_running_loop().create_future()

        def broken(outcome):
            raise OSError

        service.tell(Service.LOCAL, made[0].decision_id, 0.5, None, broken)
        service.tell(Service.LOCAL, made[1].decision_id, 0.5, None, done.set_result)
        assert (await done).status == "learned"
        assert (await service.feedback(Service.LOCAL, made[0].decision_id, loss=0.5)).status == (
            "duplicate"
        )

    on_service(body)


@pytest.mark.parametrize("size", [1, 3])
def test_feedback_of_a_decision_that_is_twice_in_a_batch_counts_once(on_service, size):
    async def body(service):
        made = [await service.decide(Service.LOCAL, "headline") for _ in range(size)]
        asked = [
            service.feedback(Service.LOCAL, each.decision_id, loss=0.5) for each in [*made, *made]
        ]
        told = [each.status for each in await asyncio.gather(*asked)]
        assert sorted(told) == ["duplicate"] * size + ["learned"] * size

    on_service(body)
