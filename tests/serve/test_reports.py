"""Reports of the service: every arm, targets, and what of the log they count."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from bothworlds import inference
from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.http import handlers, wire
from bothworlds.serve.ops import reports
from bothworlds.serve.ops.exports import logged
from bothworlds.serve.ops.reports import report
from bothworlds.serve.problems import Problem

ME = Service.LOCAL


def told(arm):
    return {"a": 0.25, "b": 0.75}.get(arm, 0.5)


async def played(service, count, **given):
    for _ in range(count):
        made = await service.decide(ME, "headline", **given)
        await service.feedback(ME, made.decision_id, loss=told(made.arm))


async def rows(service):
    await service.flushed()
    return [row async for page in service.rows(ME, "headline") for row in page]


def test_targets_are_valued_by_the_probabilities_that_were_drawn_with(on_service):
    @on_service
    async def test(service):
        await played(service, 300)
        log = await rows(service)
        found = await report(service, ME, "headline", 0.9, ["uniform", "arm:a", "arm:b"])
        every = [logged(row, n) for n, row in enumerate(log, 1)]
        arms = list("abcd")
        for target, wanted in (("uniform", "uniform"), ("arm:a", "a"), ("arm:b", "b")):
            expected = inference.value(every, wanted, confidence=0.9, arms=arms)
            value = found["targets"][target]
            assert value["value"] == pytest.approx(expected.value, abs=1e-12)
            assert value["rows"] == expected.rows == 300
            low, high = value["sequence"]
            assert low <= {"uniform": 0.5, "arm:a": 0.25, "arm:b": 0.75}[target] <= high
        assert [arm["arm"] for arm in found["arms"]] == arms


def test_a_report_lists_every_arm_and_counts_what_was_learned(on_service):
    @on_service
    async def test(service):
        await played(service, 40)
        # Two arms at a time are another draw; a pinned one is none, and teaches nothing.
        await played(service, 40, available=["c", "d"])
        await service.set_mode(ME, "headline", "pin", arm="a")
        await played(service, 10)
        await service.set_mode(ME, "headline", "resume")
        await service.add_arm(ME, "headline", Arm("never"))
        await rows(service)
        found = await report(
            service, ME, "headline", 0.95, ["uniform", "arm:a", "arm:c", "arm:never"]
        )
        listed = {arm["arm"]: arm for arm in found["arms"]}
        assert list(listed) == ["a", "b", "c", "d", "never"]
        assert sum(arm["told"] for arm in listed.values()) == 80
        targets = found["targets"]
        assert (targets["uniform"]["rows"], targets["arm:c"]["rows"]) == (80, 80)
        assert targets["arm:a"]["rows"] == 40
        # It could not be drawn in any decision.
        assert targets["arm:never"] is None
        assert targets["arm:c"]["value"] == pytest.approx(0.5)
        for target, code in (("arm:x", "arm_not_found"), ("best", "invalid_request")):
            with pytest.raises(Problem) as caught:
                await report(service, ME, "headline", 0.95, [target])
            assert caught.value.code == code
        await service.set_mode(ME, "headline", "reset")
        with pytest.raises(Problem) as caught:
            await report(service, ME, "headline", 0.95)
        assert caught.value.code == "nothing_logged"


def test_feedback_in_quarantine_does_not_count(on_service):
    async def test(service):
        for _ in range(6):
            made = await service.decide(ME, "headline", unit="eve")
            await service.feedback(ME, made.decision_id, loss=1.0)
        await rows(service)
        found = await report(service, ME, "headline", 0.95)
        assert sum(arm["told"] for arm in found["arms"]) == 2

    on_service(test, unit_cap=2)


def test_one_report_is_computed_at_a_time(on_service, monkeypatch):
    running, most, pause = [0], [0], threading.Event()
    inferred = reports.inferred

    def counted(rows, **options):
        running[0] += 1
        most[0] = max(most[0], running[0])
        # Long enough for another report to begin, if it may.
        pause.wait(0.05)
        found = inferred(rows, **options)
        running[0] -= 1
        return found

    monkeypatch.setattr(reports, "inferred", counted)

    @on_service
    async def test(service):
        await played(service, 20)
        await rows(service)
        await asyncio.gather(*(report(service, ME, "headline", 0.9) for _ in range(4)))

    assert most == [1]


def test_a_long_list_of_experiments_lets_other_requests_run():
    async def body():
        seen, ticks = [], [0]

        async def ticking():
            while True:
                ticks[0] += 1
                await asyncio.sleep(0)

        def described(who, name):
            seen.append(ticks[0])
            return {"name": name}

        names = [f"e{n}" for n in range(100)]
        service = SimpleNamespace(names=lambda who: names, experiment=described)
        request = SimpleNamespace(query=wire.ExperimentsQuery(), who=ME)
        other = asyncio.ensure_future(ticking())
        await handlers.experiments(SimpleNamespace(service=service), request)
        other.cancel()
        return max(seen.count(tick) for tick in seen)

    assert asyncio.run(body()) <= 10
