"""Logs, metrics and rate limits of the decision service."""

import asyncio
import io
import json
import logging
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bothworlds.serve.domain.service import Service
from bothworlds.serve.http.app import Application
from bothworlds.serve.http.limits import Buckets
from bothworlds.serve.ops import logs
from bothworlds.serve.ops.metrics import BUCKETS, Metrics
from bothworlds.serve.problems import Problem
from helpers.histories import QUIET

OPERATING = Path(__file__).parents[2] / "docs" / "service" / "operating.md"


@pytest.fixture
def lines():
    stream = io.StringIO()
    names = ("bothworlds", "uvicorn.error")
    before = [(logging.getLogger(n).handlers, logging.getLogger(n).propagate) for n in names]
    logs.configure("info", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for name, (handlers, propagate) in zip(names, before, strict=True):
        logging.getLogger(name).handlers = handlers
        logging.getLogger(name).propagate = propagate
        logging.getLogger(name).setLevel(logging.NOTSET)


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
    """Return the metrics that a service exports before the first request."""

    async def running():
        app = Application(lambda: Service.open(str(tmp_path / "store.db"), QUIET), keys=False)
        app.service = await app._opening()
        text = app.metrics.text().decode()
        await app.service.close()
        return text

    families = text_string_to_metric_families(asyncio.run(running()))
    return {sample.name for family in families for sample in family.samples}


def undescribed(names):
    page = OPERATING.read_text(encoding="utf-8")
    return {name for name in names if not re.search(rf"^\| .*`{name}[`{{]", page, re.MULTILINE)}


def test_every_metric_is_described(tmp_path):
    names = exported(tmp_path)
    assert "bothworlds_decisions_total" in names
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
