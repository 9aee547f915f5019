"""Reports of the service: every arm, targets, and what of the log they count."""

import asyncio
import contextlib
import random
import threading
from types import SimpleNamespace

import pytest

from bothworlds import inference
from bothworlds.serve.domain import records
from bothworlds.serve.domain.service import Arm, Service
from bothworlds.serve.http import handlers, wire
from bothworlds.serve.ops import reports, tallies
from bothworlds.serve.ops.away import REPORT
from bothworlds.serve.ops.exports import logged
from bothworlds.serve.ops.reports import report
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.rows import LogRow

ME = Service.LOCAL


def told(arm):
    return {"a": 0.25, "b": 0.75}.get(arm, 0.5)


async def played(service, count, **given):
    for _ in range(count):
        made = await service.decide(ME, "headline", **given)
        await service.feedback(ME, made.decision_id, loss=told(made.arm))


def desk(service):
    return service.state.desks[REPORT][1]


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


def test_one_report_is_computed_at_a_time_and_no_other_reader_waits(on_service, monkeypatch):
    running, most, go = [0], [0], threading.Event()
    answer = reports._Asked.answer

    def counted(asked, reader, *given):
        running[0] += 1
        most[0] = max(most[0], running[0])
        go.wait()
        found = answer(asked, reader, *given)
        running[0] -= 1
        return found

    monkeypatch.setattr(reports._Asked, "answer", counted)

    @on_service
    async def test(service):
        await played(service, 20)
        made = [asyncio.ensure_future(report(service, ME, "headline", 0.9)) for _ in range(4)]
        # Each of these would wait for ever in the thread of the reports.
        assert len(await service.audit(ME)) == 1
        assert await service.quarantined(ME, "headline") == []
        assert len(await rows(service)) == 20
        go.set()
        found = await asyncio.gather(*made)
        assert [sum(arm["told"] for arm in each["arms"]) for each in found] == [20] * 4

    assert most == [1]


class Counting:
    """A reader that counts the rows of the log it returns."""

    def __init__(self, reader, monkeypatch):
        self.rows = 0
        log = reader.log

        def counted(*given):
            found = log(*given)
            self.rows += len(found)
            return found

        monkeypatch.setattr(reader, "log", counted)


def test_a_report_reads_only_what_is_new_and_equals_a_fresh_one(on_service, monkeypatch):
    monkeypatch.setattr(reports, "FRESH", -1.0)
    monkeypatch.setattr(tallies, "PAGE", 16)
    targets = ["uniform", "arm:a", "arm:c"]

    @on_service
    async def test(service):
        reading = Counting(service.store.reporter, monkeypatch)
        for batch in range(4):
            await played(service, 30)
            await played(service, 10, available=["b", "c"])
            if batch == 1:
                await service.add_arm(ME, "headline", Arm("late"))
            await service.flushed()
            kept = await report(service, ME, "headline", 0.95, targets)
            assert reading.rows == 40 * (1 + len(targets))
            desk(service).tallies = tallies.Tallies()
            fresh = await report(service, ME, "headline", 0.95, targets)
            assert kept["arms"] == [
                {**arm, "mean": pytest.approx(arm["mean"])} for arm in fresh["arms"]
            ]
            assert (kept["gaps"], kept["targets"]) == (fresh["gaps"], fresh["targets"])
            reading.rows = 0
        await service.set_mode(ME, "headline", "reset")
        await played(service, 8)
        await service.flushed()
        again = await report(service, ME, "headline", 0.95)
        assert sum(arm["told"] for arm in again["arms"]) == 8


def test_decisions_that_the_log_may_precede_are_read_again(on_service, monkeypatch):
    @on_service
    async def test(service):
        reading = Counting(service.store.reporter, monkeypatch)
        await played(service, 12)
        await service.flushed()
        for _ in range(2):
            found = await report(service, ME, "headline", 0.95)
            assert sum(arm["told"] for arm in found["arms"]) == 12
        assert reading.rows == 24


def summed(found):
    """Return how many answers a report has, and how many of them wait."""
    waiting = [int(arm["why"].split()[0]) for arm in found["arms"] if "pending" in arm["why"]]
    return sum(arm["told"] for arm in found["arms"]), sum(waiting)


@pytest.mark.parametrize("fresh", [10.0, -1.0])
def test_answers_wait_behind_an_earlier_pending_decision(on_service, monkeypatch, fresh):
    monkeypatch.setattr(reports, "FRESH", fresh)

    @on_service
    async def test(service):
        await played(service, 5)
        first = await service.decide(ME, "headline")
        await played(service, 7)
        await service.flushed()
        found = await report(service, ME, "headline", 0.95)
        assert summed(found) == (12, 7)
        assert any("end of the feedback window" in arm["why"] for arm in found["arms"])
        await service.feedback(ME, first.decision_id, loss=1.0)
        assert summed(await report(service, ME, "headline", 0.95)) == (13, 0)
        assert next(iter(desk(service).tallies._kept.values())).overtaken == 0
        # Beyond its window a decision without feedback holds nothing back.
        await service.decide(ME, "headline")
        await played(service, 3)
        await service.flushed()
        assert summed(await report(service, ME, "headline", 0.95)) == (16, 3)
        later = service.state.now() + 8 * 86_400.0
        monkeypatch.setattr(service.state, "now", lambda: later)
        assert summed(await report(service, ME, "headline", 0.95)) == (16, 0)


def test_a_decision_that_holds_back_too_many_is_passed_over(on_service, monkeypatch):
    monkeypatch.setattr(reports, "FRESH", -1.0)
    monkeypatch.setattr(tallies, "HELD", 20)
    monkeypatch.setattr(tallies, "PAGE", 8)

    @on_service
    async def test(service):
        late = [await service.decide(ME, "headline") for _ in range(3)]
        # The first one holds back the two other ones as well.
        await played(service, 17)
        await service.flushed()
        assert summed(await report(service, ME, "headline", 0.95)) == (17, 17)
        await played(service, 13)
        await service.flushed()
        assert summed(await report(service, ME, "headline", 0.95)) == (30, 0)
        (tally,) = desk(service).tallies._kept.values()
        for place, each in enumerate(late, 1):
            await service.feedback(ME, each.decision_id, loss=1.0)
            found = await report(service, ME, "headline", 0.95)
            assert (summed(found), tally.overtaken) == ((30 + place, 0), place)
        assert tally._passed == []


def test_sweeps_alone_close_decisions_where_missing_feedback_is_filled_in(on_service, monkeypatch):
    monkeypatch.setattr(tallies, "HELD", 5)

    async def test(service):
        await service.decide(ME, "headline")
        await played(service, 30)
        await service.flushed()
        found = await report(service, ME, "headline", 0.95)
        # It has read as many as it may, and passes over none.
        assert summed(found) == (30, 30)
        later = service.state.now() + 8 * 86_400.0
        monkeypatch.setattr(service.state, "now", lambda: later)
        assert summed(await report(service, ME, "headline", 0.95)) == (30, 30)
        await service.upkeep.sweep()
        assert summed(await report(service, ME, "headline", 0.95)) == (31, 0)

    on_service(test, missing="default", default_loss=1.0, log="before")


@pytest.mark.parametrize("verdict", ["release", "drop"])
def test_feedback_that_left_quarantine_is_counted_again(on_service, monkeypatch, verdict):
    monkeypatch.setattr(reports, "FRESH", -1.0)

    async def test(service):
        for _ in range(6):
            made = await service.decide(ME, "headline", unit="eve")
            await service.feedback(ME, made.decision_id, loss=1.0)
        await service.flushed()
        assert summed(await report(service, ME, "headline", 0.95)) == (2, 0)
        held = [each["id"] for each in await service.quarantined(ME, "headline")]
        await getattr(service, verdict)(ME, "headline", held)
        expected = 6 if verdict == "release" else 2
        assert summed(await report(service, ME, "headline", 0.95)) == (expected, 0)

    on_service(test, unit_cap=2)


RUNS, ROUNDS, LOOK = 200, 1000, 100


class Silent:
    """A log of two equal arms in which clicks come at once and silence is closed later."""

    def __init__(self, rate, closed, run):
        world = random.Random(f"{rate}, {closed}, {run}")
        self.now = 0
        self._rows = []
        for t in range(1, ROUNDS + 1):
            id = t.to_bytes(16, "big")
            record = records.encode(1, 1, 0, world.randrange(2), 2, t, id, 2.0, records.NEAR_ALL)
            click = world.random() < rate
            told = t if click else t + closed
            self._rows.append((told, LogRow(id, record, 0, 1, t, None, 1.0 - click, "client",
                                            "learned", 0.0, None)))  # fmt: skip

    def _seen(self, told, row):
        return row if told <= self.now else row._replace(loss=None, status=None)

    def log(self, experiment, after, before, limit):
        start = int.from_bytes(after, "big")
        return [self._seen(*each) for each in self._rows[start : min(self.now, start + limit)]]

    def told(self, experiment, ids):
        found = [self._seen(*self._rows[int.from_bytes(id, "big") - 1]) for id in ids]
        return [row for row in found if row.status is not None]

    def count_quarantined(self, experiment, upto):
        return 0

    snapshot = staticmethod(contextlib.nullcontext)


def wrong_reports(rate, closed):
    """Return the shares of runs with a false difference, and with a mean outside its sequence."""
    never, end = tallies.Closing(b"", False), b"\xff" * 16
    differ = outside = 0
    for run in range(RUNS):
        log = Silent(rate, closed, run)
        tally = tallies.Tally(tallies.Means(), 1, 0)
        gap = wrong = False
        for log.now in range(LOOK, ROUNDS + 1, LOOK):
            tally.sound(log, never, 2)
            now, waiting = tally.follow(tally.pages(log, end, lambda: None), never, end, 2)
            made = now.sums.report(waiting, now.overtaken, ["a", "b"], (0.0, 1.0), 0.95, "")
            gap |= bool(made.sure())
            low, high = made["a"].sequence or (1.0, 0.0)
            wrong |= not low <= 1.0 - rate <= high
        differ += gap
        outside += wrong
    return differ / RUNS, outside / RUNS


@pytest.mark.statistical
@pytest.mark.parametrize(("rate", "closed"), [(0.5, 20), (0.1, 5), (0.1, 100)])
def test_silence_that_is_closed_late_misleads_no_report(rate, closed):
    assert max(wrong_reports(rate, closed)) <= 0.05


@pytest.mark.statistical
def test_the_order_of_the_answers_would_mislead(monkeypatch):
    """The control: no decision holds another back."""
    monkeypatch.setattr(tallies, "HELD", 0)
    _, outside = wrong_reports(0.1, 100)
    assert outside >= 0.15


def test_a_long_list_of_experiments_lets_other_requests_run(monkeypatch):
    threads, encode = [], wire.encode

    def encoded(document):
        threads.append(threading.get_ident())
        return encode(document)

    monkeypatch.setattr(wire, "encode", encoded)

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
    assert len(threads) == 1 and threading.get_ident() not in threads
