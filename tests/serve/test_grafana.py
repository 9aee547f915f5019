"""The Grafana dashboard asks for nothing that a service does not export."""

import json
import re
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bothworlds.client import Client, ServiceError
from bothworlds.serve.background import background
from helpers.waiting import HANG

DASHBOARD = json.loads(
    (Path(__file__).parents[2] / "deploy" / "grafana.json").read_text(encoding="utf-8")
)
BY_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds to everything it scrapes."""


def expressions():
    """Return every expression of the dashboard, with the title of its panel."""
    found = [
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]
    return [*found, *((v["name"], v["query"]) for v in DASHBOARD["templating"]["list"])]


def asked(expression):
    """Return the metrics that an expression names, and all labels it names."""
    metrics = set(re.findall(r"\bbothworlds_\w+", expression))
    labels = set()
    for inside in re.findall(r"\{([^}]*)\}", expression):
        labels |= set(re.findall(r"(\w+)\s*[=!]", inside))
    for listed in re.findall(r"\bby\s*\(([^)]*)\)", expression):
        labels |= {name.strip() for name in listed.split(",")}
    if expression.startswith("label_values("):
        labels.add(expression.rstrip(")").rpartition(",")[2].strip())
    return metrics, labels


def lacking(expression, exported):
    """Return what an expression names and no metric has."""
    metrics, labels = asked(expression)
    there = set().union(*(exported.get(name, set()) for name in metrics)) | BY_PROMETHEUS
    return (metrics - exported.keys()) | (labels - there)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the labels of every metric of a service that has had something to do."""
    with (
        background(str(tmp_path_factory.mktemp("grafana") / "store.db")) as url,
        Client(url, timeout=HANG) as client,
    ):
        client.create("headline", ["a", "b"])
        client.feedback(client.decide("headline"), reward=1.0)
        with pytest.raises(ServiceError):
            client.decide("no-such-experiment")
        with urllib.request.urlopen(f"{url}/metrics", timeout=HANG) as answer:
            text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_expression_finds_its_metrics_and_labels(exported):
    wanting = {
        (title, e): lacking(e, exported) for title, e in expressions() if lacking(e, exported)
    }
    assert wanting == {}
    assert sum(bool(asked(e)[0]) for _, e in expressions()) >= 15


def test_every_panel_has_a_place_and_a_source():
    places = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & places, panel["title"]
        assert at["x"] + at["w"] <= 24
        places |= cells
        assert panel["datasource"]["uid"] == "${datasource}"
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize(
    ("expression", "wanting"),
    [
        ("rate(bothworlds_decision_total[1m])", {"bothworlds_decision_total"}),
        ('sum by (rout) (bothworlds_requests_total{status="200"})', {"rout"}),
        ('bothworlds_decisions_total{code!="x"}', {"code"}),
        ("label_values(bothworlds_decisions_total, replica)", {"replica"}),
        ("sum by (instance) (bothworlds_log_buffer)", set()),
    ],
)
def test_what_is_wanting_would_be_found(exported, expression, wanting):
    assert lacking(expression, exported) == wanting
