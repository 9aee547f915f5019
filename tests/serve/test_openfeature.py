"""Flags of the decision service, evaluated by the published OpenFeature packages as they are."""

import json

import openfeature.api
import pytest
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from helpers.served import served

pytestmark = pytest.mark.processes

FLAGS = {
    "string": {"a": "left", "b": "right"},
    "boolean": {"a": True, "b": False},
    "integer": {"a": 1, "b": 2},
    "float": {"a": 1.0, "b": 2.0},
    # Written by a program that does not tell 1 from 1.0: one arm says which type it is.
    "mixed": {"a": 1, "b": 0.5},
    "object": {"a": {"size": [1, 2]}, "b": {"size": []}},
    "names": {"a": None, "b": None},
}
DEFAULTS = {"string": "", "boolean": False, "integer": 0, "float": 0.0, "object": {}}
BULK = "/ofrep/v1/evaluate/flags"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("flags") / "store.db") as running:
        for name, values in FLAGS.items():
            create(running, name, values)
        create(running, "sticky", FLAGS["string"], sticky_seconds=3600)
        yield running


def create(service, name, values, **settings):
    arms = [{"name": arm, "value": value} for arm, value in values.items()]
    made = service.ask("POST", "/v1/experiments", {"name": name, "arms": arms, **settings})
    assert made.status == 201, made.body


def act(service, name, action, document=None):
    assert service.ask("POST", f"/v1/experiments/{name}/{action}", document).status == 200


def client_of(service, key=None):
    headers = None if key is None else (lambda: {"Authorization": f"Bearer {key}"})
    openfeature.api.set_provider(OFREPProvider(service.url, headers_factory=headers), service.url)
    return openfeature.api.get_client(service.url)


@pytest.fixture(scope="module")
def client(service):
    yield client_of(service)
    openfeature.api.clear_providers()


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_has_the_value_of_its_arm(service, client, flag):
    kind = {"names": "string", "mixed": "float"}.get(flag, flag)
    for _ in range(4):
        details = getattr(client, f"get_{kind}_details")(flag, DEFAULTS[kind])
        assert details.error_code is None, details.error_message
        assert details.reason == Reason.SPLIT
        expected = FLAGS[flag][details.variant]
        assert details.value == (details.variant if expected is None else expected)
        assert type(details.value) is type(DEFAULTS[kind])
        metadata = details.flag_metadata
        assert metadata["experiment"] == flag
        assert metadata["mode"] == "learn"
        assert 0.0 < metadata["probability"] < 1.0
        path = f"/v1/decisions/{metadata['decision_id']}/feedback"
        told = service.ask("PUT", path, {"reward": 1.0})
        assert told.json == {"status": "learned"}


def test_a_float_is_written_as_one(service):
    for _ in range(8):
        answer = service.ask("POST", f"{BULK}/mixed", {})
        assert (b'"value":1.0' in answer.body) == (answer.json["variant"] == "a")


def test_a_flag_that_is_missing_gives_the_default(client):
    details = client.get_string_details("no-such-flag", "mine")
    assert (details.value, details.error_code) == ("mine", ErrorCode.FLAG_NOT_FOUND)
    assert details.error_message == "There is no experiment 'no-such-flag'."


def test_a_flag_of_another_type_gives_the_default(client):
    details = client.get_boolean_details("string", True)
    assert (details.value, details.error_code) == (True, ErrorCode.TYPE_MISMATCH)


def test_the_targeting_key_is_the_unit_of_a_sticky_experiment(client):
    ids = {
        user: {
            client.get_string_details(
                "sticky", "", EvaluationContext(user, {"plan": "free", "seats": 3})
            ).flag_metadata["decision_id"]
            for _ in range(3)
        }
        for user in ("ann", "bob")
    }
    assert len(ids["ann"]) == len(ids["bob"]) == 1
    assert ids["ann"] != ids["bob"]
    details = client.get_string_details("sticky", "mine")
    assert (details.value, details.error_code) == ("mine", ErrorCode.TARGETING_KEY_MISSING)
    details = client.get_string_details("sticky", "mine", EvaluationContext("x" * 201))
    assert (details.value, details.error_code) == ("mine", ErrorCode.INVALID_CONTEXT)


def test_a_flag_follows_the_mode(service, client):
    create(service, "modes", FLAGS["string"])
    act(service, "modes", "pin", {"arm": "b"})
    details = client.get_string_details("modes", "mine")
    assert (details.value, details.reason) == ("right", Reason.STATIC)
    act(service, "modes", "shadow", {"arm": "a"})
    details = client.get_string_details("modes", "mine")
    assert (details.value, details.reason) == ("left", Reason.STATIC)
    act(service, "modes", "uniform")
    details = client.get_string_details("modes", "mine")
    assert (details.flag_metadata["probability"], details.reason) == (0.5, Reason.SPLIT)
    for mode, word in (("pause", "paused"), ("archive", "archived")):
        act(service, "modes", mode)
        details = client.get_string_details("modes", "mine")
        assert (details.value, details.reason) == ("mine", Reason.DISABLED)
        assert details.flag_metadata == {"experiment": "modes", "mode": word}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "PARSE_ERROR"),
        (b'{"context": 1}', "INVALID_CONTEXT"),
        (b'{"context": {"targetingKey": 7}}', "INVALID_CONTEXT"),
        (b'{"contekst": {}}', "INVALID_CONTEXT"),
    ],
)
def test_a_refusal_has_the_shape_of_openfeature(service, body, code):
    for path, key in ((BULK, None), (f"{BULK}/string", "string")):
        answer = service.ask("POST", path, body=body)
        assert answer.status == 400
        assert answer.headers["content-type"] == "application/json"
        found = answer.json
        assert (found.get("key"), found["errorCode"]) == (key, code)
        assert found["errorDetails"].endswith(".")


def test_all_flags_at_once(service):
    context = {"context": {"targetingKey": "ann", "anything": [1, {"else": None}]}}
    answer = service.ask("POST", BULK, context)
    flags = {each["key"]: each for each in answer.json["flags"]}
    assert set(flags) >= {*FLAGS, "sticky"}
    one = service.ask("POST", f"{BULK}/sticky", context).json
    assert flags["sticky"] == one
    ids = {each["metadata"]["decision_id"] for each in flags.values() if "value" in each}
    assert len(ids) >= len(FLAGS)
    # Nobody knows whom the sticky one is for; the others are evaluated all the same.
    flags = {each["key"]: each for each in service.ask("POST", BULK).json["flags"]}
    assert flags["sticky"]["errorCode"] == "TARGETING_KEY_MISSING"
    assert "value" in flags["string"]


def test_what_has_not_changed_is_kept(service):
    def ask(user, *tags):
        headers = {"If-None-Match": ", ".join(tags)} if tags else {}
        return service.ask("POST", BULK, {"context": {"targetingKey": user}}, headers=headers)

    def decisions():
        found = service.ask("GET", "/v1/experiments").json["experiments"]
        return {each["name"]: each["round"] for each in found}

    first = ask("ann")
    tag = first.headers["etag"]
    before = decisions()
    again = ask("ann", '"other"', tag)
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert decisions() == before  # nothing was drawn
    assert ask("bob", tag).status == 200
    old = tag.split("-")
    assert ask("ann", f'"{int(old[0][1:]) - 7200}-{old[1]}').status == 200
    assert ask("ann", f'"{int(old[0][1:]) + 1}-{old[1]}').status == 200
    act(service, "boolean", "pin", {"arm": "a"})
    pinned = ask("ann", tag)
    assert pinned.status == 200
    flags = {each["key"]: each for each in pinned.json["flags"]}
    assert (flags["boolean"]["value"], flags["boolean"]["reason"]) == (True, "STATIC")
    act(service, "boolean", "resume")


def test_keys_scopes_and_rates(tmp_path):
    from bothworlds.serve.ops.admin import create_key

    store = str(tmp_path / "store.db")
    admin = create_key(store, ["admin"])
    able = create_key(store, ["decide", "feedback"])
    options = ("--require-keys", "--rate", "8", "--experiment", "headline", "--arms", "a,b")
    with served(store, *options) as running:
        for key, message in (("bw_no_one", "unauthorized"), (admin, "forbidden")):
            details = client_of(running, key).get_string_details("headline", "mine")
            assert (details.value, details.error_message) == ("mine", message)
        answer = running.ask("POST", f"{BULK}/headline", {})
        assert (answer.status, answer.json["errorDetails"]) == (401, "A key is required.")
        answer = running.ask("POST", f"{BULK}/headline", {}, headers={"X-API-Key": able})
        assert answer.status == 200, answer.body
        client, seen = client_of(running, able), []
        # However slow this machine is, twice as many requests as a second allows are too many.
        while not (seen and seen[-1].error_code) and len(seen) < 10_000:
            seen.append(client.get_string_details("headline", "mine"))
        assert seen[0].value in ("a", "b")
        assert (seen[-1].value, seen[-1].error_code) == ("mine", ErrorCode.GENERAL)
        assert seen[-1].error_message.startswith("Rate limited, retry after: ")
        openfeature.api.clear_providers()


def test_the_document_shows_both_shapes_of_a_flag(service):
    document = json.loads(service.ask("GET", "/openapi.json").body)
    schemas = document["components"]["schemas"]
    assert set(schemas["NotEvaluated"]["required"]) == {"errorCode", "errorDetails"}
    operation = document["paths"][BULK]["post"]["responses"]
    assert "application/json" in operation["429"]["content"]
    shapes = schemas["EvaluatedAll"]["properties"]["flags"]["items"]["anyOf"]
    assert [each["$ref"].rsplit("/", 1)[1] for each in shapes] == ["Evaluated", "NotEvaluated"]


def test_advice_comes_with_the_context(service):
    client = client_of(service)
    create(service, "models", {"a": "left", "b": "right"}, experts=["model", "rules"])
    both = EvaluationContext("ann", {"advice": {"model": "b", "rules": "b"}})
    assert client.get_string_value("models", "", both) == "right"
    one = EvaluationContext("ann", {"advice": {"model": "a"}, "asleep": ["rules"]})
    assert client.get_string_value("models", "", one) == "left"
    # Flags without experts take any context.
    assert client.get_string_value("string", "", both) in ("left", "right")
    missing = service.ask("POST", f"{BULK}/models", {"context": {"targetingKey": "ann"}})
    assert (missing.status, missing.json["errorCode"]) == (400, "INVALID_CONTEXT")
    bulk = service.ask("POST", BULK, {"context": {"advice": {"model": "b", "rules": "b"}}})
    flags = {flag["key"]: flag for flag in bulk.json["flags"]}
    assert flags["models"]["variant"] == "b"
    assert service.ask("POST", "/v1/experiments/models/archive").status == 200
