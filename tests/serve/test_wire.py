"""Wire format, routes and OpenAPI document of the decision service."""

import inspect
import json

import msgspec
import pytest

from bothworlds import text
from bothworlds.serve.domain.answers import Decided, Feedback
from bothworlds.serve.domain.config import NewExperiment
from bothworlds.serve.http import openapi, parsing, wire
from bothworlds.serve.http.app import ROUTES
from bothworlds.serve.http.routes import Router
from bothworlds.serve.problems import KINDS, Problem

REQUESTS = sorted({r.body for r in ROUTES if r.body is not None}, key=lambda kind: kind.__name__)


def refused(kind, body, code="invalid_request"):
    with pytest.raises(Problem) as caught:
        parsing.BodyReader(kind).read(body)
    assert caught.value.code == code
    return caught.value.detail


@pytest.mark.parametrize("kind", REQUESTS)
def test_an_unknown_field_is_refused(kind):
    assert "unknown field" in refused(kind, b'{"no_such_field": 1}')


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"{'a': 1}", b'{"\\ud800": 1}', b"nul", b'{"\xff": 1}'],
)
def test_what_is_no_json_is_refused(kind, body):
    assert refused(kind, body, "invalid_json").endswith(".")


@pytest.mark.parametrize("kind", REQUESTS)
def test_another_kind_of_json_is_refused(kind):
    for body in (b"null", b"[]", b"1", b'"text"', b"[" * 100_000):
        with pytest.raises(Problem):
            parsing.BodyReader(kind).read(body)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (wire.Decide, b'{"unit": "\xff"}'),
        (wire.Decide, b'{"unit": "a", "unit": "b"}'),
        (wire.Decide, b'{"unit": "a", "\\u0075nit": "b"}'),
        (wire.Decide, b'{"advice": {"m": "a", "m": "b"}}'),
        (wire.Decide, b'{"advice": {"m": "a", "\\u006d": "b"}}'),
        (wire.Decide, b'{"advice": {"m": {"a": 0.5, "a": 0.5}}}'),
        (wire.Decide, b'{"advice": {"m": "a"}, "unit": "x", "unit" : "x"}'),
        (wire.Decide, b'{"advice": {"m": "a"}, "advice": {"m": "a"}}'),
        (Feedback, b'{"loss": 0.5,\n"loss" : 0.25}'),
        (wire.FeedbackMany, b'{"items": [{"decision_id": "a", "loss": 1, "loss": 0}]}'),
        (wire.NewArm, b'{"name": "a", "value": {"x": 1, "y": {"x": 2, "x": 3}}}'),
    ],
)
def test_invalid_text_and_names_given_twice_are_refused(kind, body):
    refused(kind, body, "invalid_json")


def test_a_name_in_several_objects_is_accepted():
    body = b'{"items": [{"decision_id": "a:\\"b", "loss": 1}, {"decision_id": "b", "loss": 0}]}'
    assert len(parsing.BodyReader(wire.FeedbackMany).read(body).items) == 2
    body = b'{"name": "a", "value": {"name": "\\":", "size": 9}}'
    assert parsing.BodyReader(wire.NewArm).read(body).name == "a"
    body = b'{"advice": {"m": {"a": 0.5, "b": 0.5}, "a": {"a:": 1}}, "unit": "a"}'
    assert parsing.BodyReader(wire.Decide).read(body).advice["a"] == {"a:": 1.0}


def test_json_that_nests_without_end_is_refused():
    deep = b'{"name": "x", "value": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
    assert "deep" in refused(wire.NewArm, deep, "invalid_json")


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"loss": 0.1, "reward": 0.1}',
        b'{"loss": null}',
        b'{"loss": "0.1"}',
        b'{"loss": true}',
        b'{"loss": 1e999}',
        b'{"loss": ' + b"9" * 400 + b"}",
    ],
)
def test_feedback_is_one_finite_number(body):
    refused(Feedback, body)
    item = b'{"items": [{"decision_id": "a", "loss": 0.5}, ' + body + b"]}"
    refused(wire.FeedbackMany, item)


@pytest.mark.parametrize("body", [b'{"loss": NaN}', b'{"loss": -Infinity}', b'{"loss": 1}{}'])
def test_not_even_python_s_own_json_is_taken(body):
    refused(Feedback, body, "invalid_json")


def test_the_item_without_a_number_is_named():
    body = {"items": [{"decision_id": "a", "loss": 0.5}, {"decision_id": "b"}]}
    assert "in item 1" in refused(wire.FeedbackMany, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (wire.DecideMany, {"count": 0}),
        (wire.DecideMany, {"count": 257}),
        (wire.DecideMany, {"count": 1.5}),
        (wire.Decide, {"available": []}),
        (wire.Decide, {"available": ["a", 1]}),
        (wire.Decide, {"unit": ""}),
        (wire.Decide, {"unit": "a\x00b"}),
        (wire.Decide, {"unit": "x" * 201}),
        (wire.FeedbackMany, {"items": []}),
        (wire.FeedbackMany, {"items": [{"decision_id": "a", "loss": 0.5}] * 1001}),
        (NewExperiment, {"name": "a", "arms": [{"name": "x"}]}),
        (NewExperiment, {"name": "a/b", "arms": [{"name": "x"}, {"name": "y"}]}),
        (NewExperiment, {"name": "", "arms": [{"name": "x"}, {"name": "y"}]}),
        (NewExperiment, {"name": "a" * 101, "arms": [{"name": "x"}, {"name": "y"}]}),
        (NewExperiment, {"name": "a", "arms": [{"name": "x"}, {"name": "y\n"}]}),
        (wire.Change, {"bounds": [0, 1]}),
        (wire.Change, {"floor": -0.1}),
        (wire.Change, {"unit_cap": -1}),
        (wire.NewKey, {"scopes": ["root"]}),
        (wire.NewKey, {"scopes": []}),
    ],
)
def test_what_is_out_of_range_is_refused(kind, body):
    refused(kind, json.dumps(body).encode())


def test_what_was_given_can_be_told_from_what_was_not():
    change = parsing.BodyReader(wire.Change).read(b'{"default_loss": null, "floor": 0}')
    assert parsing.given(change) == {"default_loss": None, "floor": 0.0}


def test_an_answer_leaves_out_what_is_not_known():
    answer = Decided(
        decision_id="x", arm="a", probability=0.5, round=1, mode="learn", expires_at=2.0
    )
    assert set(json.loads(wire.encode(answer))) == {
        "decision_id", "arm", "probability", "round", "mode", "expires_at",
    }  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [[("vector", "maybe")], [("vector", "")], [("x", "1")], [("vector", "1"), ("vector", "1")]],
)
def test_a_wrong_query_is_refused(given):
    with pytest.raises(Problem, match="query"):
        parsing.query(wire.DecideQuery, given)


ROUTER = Router(ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: r.operation)
def test_every_route_is_found(route):
    path = route.path
    for name in ("experiment", "decision", "arm", "key"):
        path = path.replace(f"{{{name}}}", f"a%2F%20{name}")
    found, given = ROUTER.find(route.method, path)
    assert found is route
    assert given == [f"a/ {part[1:-1]}" for part in route.path.split("/") if part.startswith("{")]


@pytest.mark.parametrize(
    "path",
    ["", "/v1", "/v1/", "/v1/experiments/", "/v1/experiments//decisions", "/v1/experiments/a/b",
     "//", "/metrics/", "/{", "/v1/experiments/a/decisions:batch/", "*"],
)  # fmt: skip
def test_no_other_path_is(path):
    assert ROUTER.find("GET", path)[0] is None


def test_a_wrong_method_is_told_the_right_ones():
    assert ROUTER.find("DELETE", "/v1/experiments")[0] == ("GET", "POST")
    assert ROUTER.find("HEAD", "/v1/experiments")[0].operation == "experiments"
    assert ROUTER.find("HEAD", "/v1/experiments/a/decisions")[0] == ("POST",)


def test_operations_are_distinct_and_codes_exist():
    names = [route.operation for route in ROUTES]
    assert len(set(names)) == len(names)
    used = {code for route in ROUTES for code in route.all_problems}
    assert used == set(KINDS)


def test_the_document_is_json_and_its_references_lead_somewhere():
    document = json.loads(wire.encode(openapi.document(ROUTES)))
    names = set(document["components"]["schemas"])
    written = json.dumps(document)
    used = {part.split('"')[0] for part in written.split("#/components/schemas/")[1:]}
    assert used <= names
    assert len(document["paths"]) == len({route.path for route in ROUTES})
    assert {kind.__name__ for kind in REQUESTS} <= names


def test_every_field_and_parameter_is_described():
    document = openapi.document(ROUTES)
    fields = [
        field
        for schema in document["components"]["schemas"].values()
        for field in schema.get("properties", {}).values()
    ]
    parameters = [
        parameter
        for methods in document["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", ())
    ]
    assert len(fields) > 150 and len(parameters) > 40
    for each in (*fields, *parameters):
        assert each["description"].endswith("."), each
    # A name such as "after" means something else in every query: no common description fits.
    for route in ROUTES:
        if route.query is not None:
            own = text.descriptions(inspect.cleandoc(route.query.__doc__))
            assert set(own) == set(route.query.__struct_fields__)


def test_statuses_of_limits_and_versions_are_listed_where_they_occur():
    for methods in openapi.document(ROUTES)["paths"].values():
        for method, operation in methods.items():
            listed = set(operation["responses"])
            assert "431" in listed
            assert method not in ("post", "put", "patch") or "413" in listed
            assert method != "patch" or {"412", "428"} <= listed


def test_a_schema_accepts_what_the_reader_accepts():
    examples = {
        wire.Decide: {"available": ["a"], "unit": "u", "deferred": True},
        NewExperiment: {"name": "a", "arms": [{"name": "x", "value": {"k": 1}}] * 2},
        Feedback: {"reward": 1},
    }
    for kind, example in examples.items():
        parsing.BodyReader(kind).read(msgspec.json.encode(example))
        schema = openapi.schemas(ROUTES)[kind.__name__]
        assert set(example) <= set(schema["properties"])
        assert schema["additionalProperties"] is False
