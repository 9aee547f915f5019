"""Rules of the service: each is written once, and every way in obeys it."""

import ast
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

import bothworlds
from bothworlds import protocol
from bothworlds.client import calls
from bothworlds.serve.domain.answers import FeedbackItem
from bothworlds.serve.domain.config import CHANGEABLE, Arm, Config, NewExperiment, checked
from bothworlds.serve.domain.service import Service
from bothworlds.serve.http import openapi, parsing, wire
from bothworlds.serve.http.app import ROUTES
from bothworlds.serve.ops.admin import create_key
from bothworlds.serve.problems import Problem
from helpers.parsing import parsed

ME = Service.LOCAL
PACKAGE = Path(bothworlds.__file__).parent
LONG = "x" * 201


def refused(work, *given, **named):
    with pytest.raises(Problem) as caught:
        work(*given, **named)
    assert caught.value.code == "invalid_request"


async def refuses(work):
    with pytest.raises(Problem) as caught:
        await work
    assert caught.value.code == "invalid_request"


@pytest.mark.parametrize("tenant", ["", "x" * 500, "a\x1b[31m", "a\u200b", 3])
def test_a_tenant_has_one_rule_in_the_shell_and_in_the_service(served, tmp_path, tenant):
    where = tmp_path / "other.db"
    refused(create_key, str(where), ["decide"], tenant=tenant)
    assert not where.exists()

    async def body(service):
        await refuses(service.create_key(ME, ["decide"], tenant=tenant))
        assert service.keys(ME) == []

    served(body)


@pytest.mark.parametrize("label", [LONG, "a\n", "a\u200b"])
def test_a_label_has_the_same_rule(tmp_path, label):
    refused(create_key, str(tmp_path / "other.db"), ["decide"], label=label)


@pytest.mark.parametrize("name", ["", LONG, "a\u200b", "a\x7f", "\ud800"])
def test_an_arm_has_one_rule_when_created_and_when_added(on_service, name):
    async def body(service):
        await refuses(service.create(ME, NewExperiment("other", [Arm("a"), Arm(name)])))
        await refuses(service.add_arm(ME, "headline", Arm(name)))

    on_service(body)


@pytest.mark.parametrize("description", ["x" * 2001, "\ud800"])
def test_a_description_has_one_rule_when_created_and_when_changed(description):
    spec = NewExperiment("headline", [Arm("a"), Arm("b")], description=description)
    refused(checked, spec)
    config, _ = checked(NewExperiment("headline", [Arm("a"), Arm("b")], description="x" * 2000))
    refused(config.changed, {"description": description})
    if len(description) > 1:
        body = json.dumps({"description": description}).encode()
        refused(parsing.BodyReader(wire.Change).read, body)


@pytest.mark.parametrize("unit", ["", LONG, "a\x00", "a\n"])
def test_a_unit_has_one_rule(on_service, unit):
    refused(parsing.BodyReader(wire.Decide).read, json.dumps({"unit": unit}).encode())

    async def body(service):
        await refuses(service.decide(ME, "headline", unit=unit))

    on_service(body)


@pytest.mark.parametrize("key", ["", LONG, "a b", "a\n", "é"])
def test_an_idempotency_key_has_one_rule(on_service, key):
    async def body(service):
        await refuses(service.decide(ME, "headline", idempotency_key=key))
        assert service.counters()["decisions"] == 0

    on_service(body)


def test_batches_have_one_size(on_service):
    batches = calls.feedback_many(["a"] * 1001, [0.5] * 1001, None)
    assert [len(call.document["items"]) for call in batches.calls] == [protocol.FEEDBACK_BATCH, 1]
    schemas = openapi.schemas(ROUTES)
    assert schemas["DecideMany"]["properties"]["count"]["maximum"] == protocol.DECISION_BATCH
    items = schemas["FeedbackMany"]["properties"]["items"]
    assert items["maxItems"] == protocol.FEEDBACK_BATCH

    async def body(service):
        await refuses(service.decide_many(ME, "headline", protocol.DECISION_BATCH + 1))
        many = [FeedbackItem("a", loss=0.5)] * (protocol.FEEDBACK_BATCH + 1)
        await refuses(service.feedback_many(ME, many))

    on_service(body)


def test_a_stored_document_that_is_stricter_today_still_loads():
    config, _ = checked(NewExperiment("headline", [Arm("a"), Arm("b")]))
    old = {**config.document(), "description": "x" * 9000}
    assert len(Config.from_document(old).description) == 9000
    # A setting that is newer than the document, and one that went.
    del old["floor_power"]
    assert Config.from_document({**old, "gone": 1}).floor_power == config.floor_power


@functools.cache
def definitions():
    """Return the places in the package that annotate a name, by name."""
    found = {}
    for room in ("serve", "client", "cli"):
        for path in (PACKAGE / room).rglob("*.py"):
            if "dashboard" in path.parts:
                # Its figures have names of their own.
                continue
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.ClassDef):
                    for each in node.body:
                        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                            found.setdefault(each.target.id, []).append(f"{path.name} {node.name}")
    return found


@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_setting_is_defined_once(name):
    assert definitions()[name] == ["config.py Changeable"]


TOY = """
import asyncio, importlib.util, json, sys

# The module of settings with one more field, and nothing else changed.
name = "bothworlds.serve.domain.config"
spec = importlib.util.find_spec(name)
text = open(spec.origin, encoding="utf-8").read()
field = "    toy: Annotated[int, Meta(ge=0, le=9, description='A toy.')] = 3\\n"
first = "    feedback_window: Annotated["
assert text.count(first) == 1
module = importlib.util.module_from_spec(spec)
sys.modules[name] = module
exec(compile(text.replace(first, field + first), spec.origin, "exec"), module.__dict__)

from bothworlds.serve.http import openapi, parsing, wire
from bothworlds.serve.http.app import ROUTES
from bothworlds.serve.problems import Problem
from bothworlds.serve.domain.service import Service

ME = Service.LOCAL

async def main(store):
    service = await Service.open(store)
    arms = [{"name": "a"}, {"name": "b"}]
    read = parsing.BodyReader(module.NewExperiment).read
    await service.create(ME, read(json.dumps({"name": "plain", "arms": arms}).encode()))
    await service.create(ME, read(json.dumps({"name": "e", "arms": arms, "toy": 5}).encode()))
    changes = parsing.given(parsing.BodyReader(wire.Change).read(b'{"toy": 7}'))
    version = service.experiment(ME, "e")["config_version"]
    await service.patch(ME, "e", changes, if_match=version)
    try:
        await service.patch(ME, "e", {"toy": 10}, if_match=version + 1)
    except Problem as problem:
        assert problem.code == "invalid_request", problem.code
    else:
        raise AssertionError("10 must be refused")
    await service.close()
    again = await Service.open(store)
    found = [again.experiment(ME, name)["toy"] for name in ("plain", "e")]
    await again.close()
    return found

assert asyncio.run(main(sys.argv[1])) == [3, 7]
schemas = openapi.schemas(ROUTES)
rule = {"type": "integer", "minimum": 0, "maximum": 9, "description": "A toy."}
assert schemas["NewExperiment"]["properties"]["toy"] == rule
assert schemas["Change"]["properties"]["toy"] == rule
assert "toy" in schemas["Experiment"]["properties"]
sys.path.insert(0, sys.argv[2])
import service_pages
assert service_pages.api().count("| `toy` |") == 3
"""


@pytest.mark.processes
def test_a_toy_setting_is_one_field(tmp_path):
    """Request, PATCH, answer, store, OpenAPI document and docs follow from the one definition."""
    docs = Path(__file__).parents[2] / "docs"
    run = subprocess.run(
        [sys.executable, "-c", TOY, str(tmp_path / "store.db"), str(docs)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


ROUTE = """
import asyncio, json, sys
from bothworlds.serve.http import handlers, openapi, wire
from bothworlds.serve.http.messages import Reply

class Toy(wire.Body, kw_only=True):
    size: int

@handlers.route("POST", "/v1/toys/{experiment}", "Play with a toy", "read", body=Toy, answer=Toy)
async def toy(app, request):
    return Reply(200, wire.encode({"size": request.body.size, "name": request.given[0]}))

from bothworlds.serve.http.app import ROUTES, Application

async def main():
    app = Application(None, keys=False)
    sent = []
    scope = {
        "type": "http", "method": "POST", "raw_path": b"/v1/toys/bear", "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    async def receive():
        return {"type": "http.request", "body": b'{"size": 3}', "more_body": False}
    async def send(message):
        sent.append(message)
    await app(scope, receive, send)
    return sent

start, body = asyncio.run(main())
assert start["status"] == 200 and json.loads(body["body"]) == {"size": 3, "name": "bear"}
document = openapi.document(ROUTES)
assert document["paths"]["/v1/toys/{experiment}"]["post"]["operationId"] == "toy"
assert document["components"]["schemas"]["Toy"]["properties"] == {"size": {"type": "integer"}}
sys.path.insert(0, sys.argv[1])
import service_pages
page = service_pages.api()
assert "### `POST /v1/toys/{experiment}`" in page and "Play with a toy. Scope: `read`." in page
"""


@pytest.mark.processes
def test_a_toy_route_is_one_decorated_handler():
    """Dispatch, validation, OpenAPI document and docs follow from the decorator."""
    docs = Path(__file__).parents[2] / "docs"
    run = subprocess.run([sys.executable, "-c", ROUTE, str(docs)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
