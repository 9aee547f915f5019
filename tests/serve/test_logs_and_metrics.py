"""Logs, metrics and rate limits of the decision service."""

import asyncio
import io
import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bothworlds.serve.domain.service import Service
from bothworlds.serve.http.app import Application
from bothworlds.serve.http.limits import Buckets
from bothworlds.serve.ops import experiment_metrics, logs
from bothworlds.serve.ops.experiment_metrics import ExperimentMetrics
from bothworlds.serve.ops.metrics import BUCKETS, Metrics
from bothworlds.serve.problems import Problem
from helpers.histories import QUIET
from serve.conftest import spec

OPERATING = Path(__file__).parents[2] / "docs" / "service" / "operating.md"


@pytest.fixture
def lines():
    stream = io.StringIO()
    logs.configure("info", stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_an_object(lines):
    logs.LOGGER.info("pinned", extra={"route": "pin", "key": "k1"})
    (line,) = lines()
    assert (line["message"], line["route"], line["key"]) == ("pinned", "pin", "k1")
    assert line["level"] == "info"
    assert line["at"].endswith("Z")


def test_an_exception_is_logged_without_its_message(lines):
    try:
        raise ValueError("the token bw_k_secret")
    except ValueError:
        logs.LOGGER.exception("a request failed", extra={"request_id": "r1"})
    (line,) = lines()
    assert line["error"] == "ValueError"
    assert "test_logs_and_metrics.py" in line["where"][0]
    assert "secret" not in json.dumps(line)


def test_a_line_break_does_not_forge_a_line(lines):
    logs.LOGGER.info('one\n{"level": "error"}')
    assert len(lines()) == 1


def test_a_histogram_counts_what_it_is_told():
    metrics = Metrics(lambda: ({"commits": 3.0}, {"log_buffer": 2.0}))
    for seconds in (5e-5, 1e-4, 2e-4, 0.3, 60.0):
        metrics.count("decide", 201, seconds)
    metrics.count("feedback", 409, 1e-3)
    metrics.count_problem("already_told")
    found = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            found[sample.name, *sorted(sample.labels.values())] = sample.value
    assert found["bothworlds_requests_total", "201", "decide"] == 5
    assert found["bothworlds_requests_total", "409", "feedback"] == 1
    assert found["bothworlds_problems_total", "already_told"] == 1
    assert found["bothworlds_request_seconds_bucket", str(BUCKETS[0]), "decide"] == 2
    assert found["bothworlds_request_seconds_bucket", str(BUCKETS[1]), "decide"] == 3
    assert found["bothworlds_request_seconds_bucket", "+Inf", "decide"] == 5
    assert found["bothworlds_request_seconds_count", "decide"] == 5
    assert found["bothworlds_request_seconds_sum", "decide"] == pytest.approx(60.30035)
    assert found["bothworlds_commits_total",] == 3
    assert found["bothworlds_log_buffer",] == 2


def exported(tmp_path):
    """Return the metrics that a service exports before the first request over HTTP."""

    async def running():
        app = Application(lambda: Service.open(str(tmp_path / "store.db"), QUIET), keys=False)
        app.service = await app._opening()
        await app.service.create(Service.LOCAL, spec())
        await app.service.decide(Service.LOCAL, "headline")
        families = await app.experiment_metrics.read(app.service, Service.LOCAL)
        text = app.metrics.text() + app.metrics.text_of(families)
        await app.service.close()
        return text.decode()

    families = text_string_to_metric_families(asyncio.run(running()))
    return {sample.name for family in families for sample in family.samples}


ME = Service.LOCAL
LABELS = ("experiment", "mode", "arm")


async def samples(service, metrics):
    """Return the values of the experiments' metrics by name and labels."""
    text = Metrics.text_of(await metrics.read(service, ME)).decode()
    return {
        (
            sample.name.removeprefix("bothworlds_experiment_"),
            *(sample.labels[name] for name in LABELS if name in sample.labels),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_of_an_experiment_by_mode_and_arm(on_service):
    @on_service
    async def body(service):
        metrics = ExperimentMetrics()
        made = [await service.decide(ME, "headline", available=["b"]) for _ in range(3)]
        await service.feedback(ME, made[0].decision_id, loss=0.25)
        await service.feedback(ME, made[1].decision_id, loss=0.5)
        await service.set_mode(ME, "headline", "pin", arm="c")
        await service.decide_many(ME, "headline", 2)
        found = await samples(service, metrics)
        decided = {key[1:]: value for key, value in found.items() if key[0] == "decisions_total"}
        assert decided == {("headline", "learn", "b"): 3, ("headline", "pinned", "c"): 2}
        assert found["learned_total", "headline", "b"] == 2
        assert found["learned_total", "headline", "a"] == 0
        assert found["loss_total", "headline", "b"] == pytest.approx(0.75)
        assert found["probability", "headline", "pinned", "c"] == 1.0
        assert found["alarms", "headline", "pinned"] == 0
        # What a process has counted goes on after a reset; what was learned begins again.
        await service.set_mode(ME, "headline", "reset")
        found = await samples(service, metrics)
        assert found["decisions_total", "headline", "learn", "b"] == 3
        assert found["learned_total", "headline", "b"] == 0

    assert body is None


def test_labels_are_bounded_and_the_rest_is_added_up(served, monkeypatch):
    monkeypatch.setattr(experiment_metrics, "LABELLED_EXPERIMENTS", 2)
    monkeypatch.setattr(experiment_metrics, "LABELLED_ARMS", 3)

    async def body(service):
        metrics = ExperimentMetrics()
        for name in ("one", "two", "three", "four"):
            await service.create(ME, spec(name, "abcde"))
            for arm in "abcde":
                await service.decide(ME, name, available=[arm])
        found = await samples(service, metrics)
        decided = {key[1:]: value for key, value in found.items() if key[0] == "decisions_total"}
        own = {(name, "learn", arm): 1 for name in ("one", "two") for arm in "abc"}
        rest = {(name, "learn", "(other)"): 2 for name in ("one", "two")}
        assert decided == own | rest | {("(other)", "learn", "(other)"): 10}
        assert {key[1] for key in found if key[0] == "probability"} == {"one", "two"}
        shares = [v for key, v in found.items() if key[:2] == ("probability", "one")]
        assert sum(shares) == pytest.approx(1.0) and len(shares) == 4
        # A label of its own is kept, and none is given away: counters only grow.
        await service.set_mode(ME, "one", "archive")
        again = await samples(service, metrics)
        assert {key: v for key, v in again.items() if key[0] == "decisions_total"} == {
            key: v for key, v in found.items() if key[0] == "decisions_total"
        }

    served(body)


def undescribed(names):
    page = OPERATING.read_text(encoding="utf-8")
    return {name for name in names if not re.search(rf"^\| .*`{name}[`{{]", page, re.MULTILINE)}


def test_every_metric_is_described(tmp_path):
    names = exported(tmp_path)
    assert {"bothworlds_decisions_total", "bothworlds_experiment_alarms"} <= names
    assert undescribed(names) == set()


def test_a_toy_metric_is_one_figure_and_the_docs_miss_it(tmp_path, monkeypatch):
    counters, gauges = Service.counters, Service.gauges
    monkeypatch.setattr(Service, "counters", lambda self: {**counters(self), "toys_bought": 2})
    monkeypatch.setattr(Service, "gauges", lambda self: {**gauges(self), "toys": 1})
    names = exported(tmp_path)
    assert undescribed(names) == {"bothworlds_toys_bought_total", "bothworlds_toys"}


def test_a_bucket_holds_one_second_and_keys_have_their_own():
    now = [128.0]
    buckets = Buckets(8.0, clock=lambda: now[0])
    for _ in range(8):
        buckets.take("a")
    with pytest.raises(Problem) as caught:
        buckets.take("a")
    assert caught.value.code == "rate_limited"
    assert caught.value.retry_after == 0.125
    buckets.take("b")
    now[0] += 0.125
    buckets.take("a")
    now[0] += 3600.0
    buckets.take("a", 256)  # a batch beyond the burst passes once, and 248 are paid off after
    now[0] += 31.0
    with pytest.raises(Problem):
        buckets.take("a")
    now[0] += 0.125
    buckets.take("a")
