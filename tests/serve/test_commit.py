"""Group commit: what is written together, and when."""

import asyncio
import time

import pytest

from bothworlds.serve.domain.service import Service
from bothworlds.serve.store import commit


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
        monkeypatch.setattr(commit, "CHUNK", 2)
        for _ in range(5):
            await service.decide(Service.LOCAL, "headline")
        await service.feedback(Service.LOCAL, made[2].decision_id, loss=0.5)
        while logged(service) < 7:
            await asyncio.sleep(0)

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
