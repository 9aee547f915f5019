"""The decision service over real HTTP: what it answers to right requests and to wrong ones."""

import json
import socket
import uuid

import pytest

from bothworlds.client import Client
from bothworlds.interop import logs
from helpers.served import served
from helpers.waiting import HANG, wait_until

pytestmark = pytest.mark.processes

ARMS = [{"name": "blue"}, {"name": "green/é", "value": {"k": [1, 2.5]}}, {"name": "red"}]
ONE = "/v1/experiments/headline"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    store = tmp_path_factory.mktemp("http") / "store.db"
    with served(store, "--access-log") as running:
        made = running.ask("POST", "/v1/experiments", {"name": "headline", "arms": ARMS})
        assert made.status == 201, made.body
        yield running


def decided(service, document=None, **settings):
    answer = service.ask("POST", f"{ONE}/decisions", document, **settings)
    assert answer.status in (200, 201), answer.body
    return answer.json


def told(service, decision, document, **settings):
    path = f"/v1/decisions/{decision['decision_id']}/feedback"
    return service.ask("PUT", path, document, **settings)


def state(service):
    """What a refused request must not change."""
    found = service.ask("GET", ONE).json
    kept = {key: found[key] for key in ("round", "learned", "config_version", "mode", "epoch")}
    # Not the probabilities: they are found from the last ones, to the last bits again.
    counts = ("name", "status", "decided", "told", "mean_loss")
    return {**kept, "arms": [[arm[key] for key in counts] for arm in found["arms"]]}


def test_a_decision_is_told_once(service):
    decision = decided(service, body=b"")
    assert decision["arm"] in {arm["name"] for arm in ARMS}
    assert 0.0 < decision["probability"] <= 1.0
    assert told(service, decision, {"reward": 0.75}).json == {"status": "learned"}
    assert told(service, decision, {"loss": 0.25}).json == {"status": "duplicate"}
    other = told(service, decision, {"reward": 0.5})
    assert (other.status, other.code) == (409, "already_told")


def test_the_probabilities_come_on_request(service):
    decision = decided(service, {"available": ["red", "green/é"]})
    assert "probabilities" not in decision
    answer = service.ask("POST", f"{ONE}/decisions?vector=1", {"available": ["red", "green/é"]})
    shares = answer.json["probabilities"]
    assert set(shares) - {"blue"} == {"red", "green/é"}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares[answer.json["arm"]] == pytest.approx(answer.json["probability"])


def test_an_arm_carries_its_value(service):
    decision = decided(service, {"available": ["green/é"]})
    assert decision["value"] == {"k": [1, 2.5]}
    assert decision["probability"] == 1.0


def test_a_request_with_a_key_of_its_own_is_answered_once(service):
    sent = {"headers": {"Idempotency-Key": "request-1"}}
    first = service.ask("POST", f"{ONE}/decisions", {"available": ["red", "blue"]}, **sent)
    again = service.ask("POST", f"{ONE}/decisions", {"available": ["red", "blue"]}, **sent)
    assert (first.status, again.status) == (201, 200)
    assert first.json["decision_id"] == again.json["decision_id"]
    other = service.ask("POST", f"{ONE}/decisions", {"available": ["red"]}, **sent)
    assert (other.status, other.code) == (422, "idempotency_key_reused")


def test_many_decisions_and_a_batch_with_bad_items(service):
    answer = service.ask("POST", f"{ONE}/decisions:batch", {"count": 5})
    assert answer.status == 201
    ids = [each["decision_id"] for each in answer.json["decisions"]]
    assert len(set(ids)) == 5
    before = state(service)
    forged = ids[0][:-1] + ("A" if ids[0][-1] != "A" else "B")
    items = [
        {"decision_id": ids[0], "loss": 0.5},
        {"decision_id": ids[1], "loss": 7.0},
        {"decision_id": "nonsense", "loss": 0.5},
        {"decision_id": forged, "loss": 0.5},
        {"decision_id": ids[2], "reward": 1},
        {"decision_id": ids[0], "loss": 0.5},
        {"decision_id": ids[0], "loss": 0.75},
    ]
    results = service.ask("POST", "/v1/feedback:batch", {"items": items}).json["results"]
    assert [each.get("code", each["status"]) for each in results[:3]] == [
        "learned", "out_of_bounds", "bad_token",
    ]  # fmt: skip
    assert results[3]["code"] in {"bad_signature", "bad_token"}
    assert results[4] == {"status": "learned"}
    assert results[5]["status"] == "duplicate"
    assert results[6]["code"] == "already_told"
    assert all(each["detail"].endswith(".") for each in results if "code" in each)
    assert state(service)["learned"] == before["learned"] + 2


def test_a_batch_that_is_wrong_as_json_changes_nothing(service):
    decision = decided(service)
    before = state(service)
    good = {"decision_id": decision["decision_id"], "loss": 0.5}
    for bad in ({"decision_id": "x", "los": 1}, {"decision_id": "x"}, {"loss": 0.5}, 3):
        answer = service.ask("POST", "/v1/feedback:batch", {"items": [good, bad]})
        assert (answer.status, answer.code) == (400, "invalid_request")
    assert state(service) == before


def test_every_forged_token_is_refused(service):
    decision = decided(service)
    token = decision["decision_id"]
    before = state(service)
    forged = [
        token[:i] + ("A" if token[i] != "A" else "B") + token[i + 1 :] for i in range(len(token))
    ]
    items = [{"decision_id": each, "loss": 0.5} for each in forged]
    results = service.ask("POST", "/v1/feedback:batch", {"items": items}).json["results"]
    assert {each["code"] for each in results} <= {"bad_token", "bad_signature"}
    assert told(service, {"decision_id": forged[len(token) // 2]}, {"loss": 0.5}).status in (
        400,
        403,
    )
    for wrong in (token[:-1], token + "A", token + "=", token.swapcase(), "a" * 5000):
        assert told(service, {"decision_id": wrong}, {"loss": 0.5}).status in (400, 403), wrong
    assert state(service) == before


def test_experiments_are_described_and_changed(service):
    made = service.ask(
        "POST", "/v1/experiments", {"name": "second", "arms": ARMS[:2], "floor": 0.1}
    )
    assert made.status == 201
    assert made.json["floor"] == 0.1
    again = service.ask("POST", "/v1/experiments", {"name": "second", "arms": ARMS[:2]})
    assert (again.status, again.code) == (409, "experiment_exists")
    names = [each["name"] for each in service.ask("GET", "/v1/experiments").json["experiments"]]
    assert set(names) >= {"headline", "second"}
    found = service.ask("GET", "/v1/experiments/second")
    tag = found.headers["etag"]
    same = service.ask("GET", "/v1/experiments/second", headers={"If-None-Match": f'"x", {tag}'})
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    change = {"description": "hello"}
    path = "/v1/experiments/second"
    missing = service.ask("PATCH", path, change)
    assert (missing.status, missing.code) == (428, "if_match_missing")
    for wrong in ('"99"', "W/" + tag, "junk", "*"):
        answer = service.ask("PATCH", path, change, headers={"If-Match": wrong})
        assert (answer.status, answer.code) == (412, "config_changed")
    done = service.ask("PATCH", path, change, headers={"If-Match": tag})
    assert (done.status, done.json["description"]) == (200, "hello")
    late = service.ask("PATCH", path, change, headers={"If-Match": tag})
    assert late.code == "config_changed"


def test_modes_and_arms(service):
    service.ask("POST", "/v1/experiments", {"name": "modes", "arms": ARMS})
    one = "/v1/experiments/modes"

    def act(action, document=None):
        return service.ask("POST", f"{one}/{action}", document)

    assert act("pin", {"arm": "red"}).json["mode"] == "pinned"
    decision = service.ask("POST", f"{one}/decisions").json
    assert (decision["arm"], decision["mode"], decision["probability"]) == ("red", "pinned", 1.0)
    assert told(service, decision, {"loss": 0.5}).json == {"status": "not_learnable"}
    assert act("pin", {"arm": "violet"}).code == "arm_not_found"
    assert act("shadow", {"arm": "blue"}).json["mode"] == "shadow"
    assert act("uniform").json["mode"] == "uniform"
    assert act("pause").json["mode"] == "paused"
    assert service.ask("POST", f"{one}/decisions").code == "experiment_paused"
    assert act("resume").json["mode"] == "learn"
    added = service.ask("POST", f"{one}/arms", {"name": "violet", "value": 3})
    assert (added.status, len(added.json["arms"])) == (201, 4)
    gone = service.ask("DELETE", f"{one}/arms/green%2F%C3%A9")
    assert (gone.status, gone.body) == (204, b"")
    assert service.ask("POST", f"{one}/arms", {"name": "green/é"}).code == "arm_id_used"
    old = service.ask("POST", f"{one}/decisions").json
    assert act("reset").json["epoch"] == 1
    assert told(service, old, {"loss": 0.5}).code == "epoch_over"
    assert act("archive").json["mode"] == "archived"
    assert service.ask("POST", f"{one}/decisions").code == "experiment_archived"
    actions = {e["action"] for e in service.ask("GET", "/v1/audit").json["entries"]}
    assert {"create", "pin", "uniform", "pause", "resume", "add_arm", "retire_arm"} <= actions


def test_a_deferred_decision_is_activated(service):
    decision = decided(service, {"deferred": True})
    path = f"/v1/decisions/{decision['decision_id']}/activate"
    assert service.ask("POST", path).status == 204
    assert service.ask("POST", path).status == 204
    assert service.ask("POST", "/v1/decisions/nonsense/activate").code == "bad_token"


def test_capped_feedback_waits_for_an_administrator(service):
    service.ask("POST", "/v1/experiments", {"name": "capped", "arms": ARMS, "unit_cap": 1})
    one = "/v1/experiments/capped"
    for status in ("learned", "quarantined", "quarantined"):
        decision = service.ask("POST", f"{one}/decisions", {"unit": "eve"}).json
        assert told(service, decision, {"loss": 0.5}).json == {"status": status}
    items = service.ask("GET", f"{one}/quarantine").json["items"]
    assert len(items) == 2
    assert items[1]["decision_id"] == decision["decision_id"]
    ids = {"ids": [items[0]["id"]]}
    assert service.ask("POST", f"{one}/quarantine/release", ids).json == {"count": 1}
    assert service.ask("POST", f"{one}/quarantine/drop").json == {"count": 1}
    assert service.ask("GET", f"{one}/quarantine").json["items"] == []
    assert service.ask("POST", f"{one}/quarantine/drop", {"ids": ["x"]}).code == "invalid_request"


@pytest.mark.parametrize("name", ["jsonl", "csv", "vw", "parquet"])
def test_the_log_is_exported(service, name, tmp_path):
    experiment = f"export-{name}"
    service.ask("POST", "/v1/experiments", {"name": experiment, "arms": ARMS})
    one = f"/v1/experiments/{experiment}"
    decisions = service.ask("POST", f"{one}/decisions:batch", {"count": 20}).json["decisions"]
    for decision in decisions[:15]:
        assert told(service, decision, {"loss": 0.25}).status == 200

    path = tmp_path / f"log.{name}"
    rows = {"jsonl": 20, "csv": 21, "vw": 15, "parquet": 20}[name]

    def complete():
        answer = service.ask("GET", f"{one}/export?format={name}")
        assert answer.status == 200
        assert answer.headers["x-log-missing"].isdigit()
        path.write_bytes(answer.body)
        if name == "parquet":
            return len(list(logs.read_parquet(path))) == rows
        return answer.body.count(b"\n") == rows

    # The log is written after the answer.
    wait_until(complete)
    if name == "jsonl":
        found = list(logs.read_jsonl(path))
        found.sort(key=lambda each: each.round)
        assert [each.arm for each in found] == [each["arm"] for each in decisions]
        # The same name is the same thing: an export joins with the answers.
        assert [each.extra["decision_id"] for each in found] == [
            each["decision_id"] for each in decisions
        ]
        assert len({uuid.UUID(each.extra["id"]) for each in found}) == 20
        assert sorted(each.loss is None for each in found) == [False] * 15 + [True] * 5
    since = service.ask("GET", f"{one}/export?format=jsonl&since=4000000000")
    assert since.body == b""


def test_a_report_and_the_rest(service):
    told(service, decided(service), {"loss": 0.5})
    found = service.ask("GET", f"{ONE}/report?confidence=0.9")
    assert found.status == 200
    assert [arm["arm"] for arm in found.json["arms"]] == [arm["name"] for arm in ARMS]
    found = service.ask("GET", f"{ONE}/report?target=uniform&target=arm:green%2F%C3%A9")
    assert set(found.json["targets"]) == {"uniform", "arm:green/é"}
    assert service.ask("GET", f"{ONE}/report?target=arm:nope").code == "arm_not_found"
    assert service.ask("GET", "/openapi.json").json["openapi"] == "3.1.0"
    assert service.ask("GET", "/readyz").json == {"status": "ok"}
    metrics = service.ask("GET", "/metrics").body.decode()
    assert 'bothworlds_requests_total{route="decide",status="201"}' in metrics
    assert "bothworlds_state_age_seconds" in metrics
    head = service.ask("HEAD", "/healthz")
    assert (head.status, head.body) == (200, b"")


def test_keys_can_be_made_without_being_asked_for(service):
    made = service.ask("POST", "/v1/keys", {"scopes": ["read"], "label": "me"}).json
    assert made["key"].startswith(f"bw_{made['id']}_")
    listed = service.ask("GET", "/v1/keys")
    assert made["key"] not in listed.body.decode()
    assert service.ask("DELETE", f"/v1/keys/{made['id']}").status == 204
    assert service.ask("DELETE", "/v1/keys/nobody").code == "key_not_found"
    before = decided(service)
    assert service.ask("POST", "/v1/token-keys").status == 201
    assert told(service, before, {"loss": 0.5}).json == {"status": "learned"}


WRONG = [
    ("GET", "/nope", None, 404, "not_found"),
    ("GET", "/v1/experiments/", None, 404, "not_found"),
    ("DELETE", ONE, None, 405, "method_not_allowed"),
    ("OPTIONS", ONE, None, 405, "method_not_allowed"),
    ("TRACE", ONE, None, 405, "method_not_allowed"),
    ("GET", "/v1/experiments/other", None, 404, "experiment_not_found"),
    ("POST", "/v1/experiments/other/decisions", b"{}", 404, "experiment_not_found"),
    ("POST", f"{ONE}/decisions", b"{", 400, "invalid_json"),
    ("POST", f"{ONE}/decisions", b"\xff\xfe", 400, "invalid_json"),
    ("POST", f"{ONE}/decisions", b"[]", 400, "invalid_request"),
    ("POST", f"{ONE}/decisions", b'{"x": 1}', 400, "invalid_request"),
    ("POST", f"{ONE}/decisions", b'{"available": ["violet"]}', 404, "arm_not_found"),
    ("POST", f"{ONE}/decisions", b'{"available": []}', 400, "invalid_request"),
    ("POST", f"{ONE}/decisions", b'{"unit": 5}', 400, "invalid_request"),
    ("POST", f"{ONE}/decisions?vector=perhaps", b"{}", 400, "invalid_request"),
    ("POST", f"{ONE}/decisions?x=1", b"{}", 400, "invalid_request"),
    ("POST", f"{ONE}/decisions:batch", b'{"count": 0}', 400, "invalid_request"),
    ("POST", f"{ONE}/decisions:batch", b"", 400, "invalid_json"),
    ("POST", f"{ONE}/pause", b'{"arm": "red"}', 400, "invalid_request"),
    ("POST", f"{ONE}/pin", b"{}", 400, "invalid_request"),
    ("POST", f"{ONE}/arms", b'{"name": "red"}', 409, "arm_id_used"),
    ("DELETE", f"{ONE}/arms/violet", None, 404, "arm_not_found"),
    ("PUT", "/v1/decisions/abc/feedback", b'{"loss": 0.5}', 400, "bad_token"),
    ("PUT", "/v1/decisions/%00%ff/feedback", b'{"loss": 0.5}', 400, "bad_token"),
    ("PUT", "/v1/decisions/abc/feedback", b'{"loss": NaN}', 400, "invalid_json"),
    ("GET", f"{ONE}/export?format=xlsx", None, 406, "not_acceptable"),
    ("GET", f"{ONE}/export?since=yesterday", None, 400, "invalid_request"),
    ("GET", f"{ONE}/report?confidence=2", None, 400, "invalid_request"),
    ("GET", "/v1/audit?limit=0", None, 400, "invalid_request"),
    ("POST", "/v1/experiments", b'{"name": "x", "arms": [{"name": "a"}]}', 400, "invalid_request"),
    (
        "POST", "/v1/experiments",
        b'{"name": "x", "arms": [{"name": "a"}, {"name": "a"}]}', 400, "invalid_request",
    ),
    (
        "POST", "/v1/experiments",
        b'{"name": "x", "arms": [{"name": "a"}, {"name": "b"}], "bounds": [1, 0]}',
        400, "invalid_request",
    ),
    (
        "POST", "/v1/experiments",
        b'{"name": "x", "arms": [{"name": "a"}, {"name": "b"}], "policy": "ucb1"}',
        400, "policy_not_served",
    ),
    (
        "POST", "/v1/experiments",
        b'{"name": "x", "arms": [{"name": "a"}, {"name": "b"}], "policy": {"class": "os.system"}}',
        400, "policy_not_served",
    ),
    ("POST", "/v1/keys", b'{"scopes": ["root"]}', 400, "invalid_request"),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case[0]} {case[1][-30:]} {case[4]}")
def test_a_wrong_request_has_a_code_and_changes_nothing(service, case):
    method, path, body, status, code = case
    before = state(service)
    answer = service.ask(method, path, body=body)
    assert (answer.status, answer.code) == (status, code)
    if status == 405:
        assert set(answer.headers["allow"].split(", ")) == {"GET", "PATCH"}
    assert state(service) == before


@pytest.mark.parametrize(
    "value", ["1.0000001", "-0.0000001", "1e308", "-1", "2", "1e-400", "0.1e1"]
)
def test_a_number_is_within_the_bounds_or_refused(service, value):
    decision = decided(service)
    before = state(service)
    answer = told(service, decision, None, body=b'{"loss": %s}' % value.encode())
    if 0.0 <= float(value) <= 1.0:
        assert answer.json == {"status": "learned"}
    else:
        assert answer.code == "out_of_bounds"
        assert state(service) == before


def test_other_types_of_bodies_are_refused(service):
    for media in ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"):
        answer = service.ask(
            "POST", f"{ONE}/decisions", body=b"{}", headers={"Content-Type": media}
        )
        assert (answer.status, answer.code) == (415, "unsupported_media_type")
    fine = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert service.ask("POST", f"{ONE}/decisions", body=b"{}", headers=fine).status == 201


def test_web_pages_of_others_are_refused(service):
    before = state(service)
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"Host": f"evil.example:{service.port}"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
    ):
        answer = service.ask("POST", f"{ONE}/pause", headers=headers)
        assert (answer.status, answer.code) == (403, "foreign_origin"), headers
    assert state(service) == before
    same = {"Origin": f"http://127.0.0.1:{service.port}"}
    assert service.ask("POST", f"{ONE}/decisions", headers=same).status == 201
    assert service.ask("GET", "/healthz", headers={"Host": "localhost:80"}).status == 200


def test_a_request_id_is_kept_if_it_is_one(service):
    good = service.ask("GET", "/healthz", headers={"X-Request-Id": "trace-1.a_B"})
    assert good.headers["x-request-id"] == "trace-1.a_B"
    for bad in ("a b", "x" * 65, '"quoted"', "é"):
        answer = service.ask("GET", "/healthz", headers={"X-Request-Id": bad.encode()})
        assert answer.headers["x-request-id"] != bad


def test_bodies_that_are_too_large_are_refused(service):
    before = state(service)
    for path, length in ((f"{ONE}/decisions", 65_537), ("/v1/feedback:batch", 2**20 + 1)):
        answer = service.ask("POST", path, body=b" " * length)
        assert (answer.status, answer.code) == (413, "body_too_large")
    just = service.ask("POST", f"{ONE}/decisions", body=b"{}" + b" " * 65_534)
    assert just.status == 201
    assert state(service)["learned"] == before["learned"]


def spoken(service, *pieces, half=False):
    """Send bytes as they are and return all that comes back."""
    with socket.create_connection((service.host, service.port), HANG) as peer:
        try:
            for piece in pieces:
                peer.sendall(piece)
            if half:
                peer.shutdown(socket.SHUT_WR)
            found = b""
            while data := peer.recv(65_536):
                found += data
        except (BrokenPipeError, ConnectionResetError):
            # It was refused before all of it was sent.
            found = b""
        return found


HEAD = b"HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def test_a_body_in_pieces_is_joined_and_a_large_one_refused(service):
    chunks = b'2\r\n{"\r\n9\r\nunit":"a"\r\n1\r\n}\r\n0\r\n\r\n'
    start = b"POST " + ONE.encode() + b"/decisions " + HEAD
    chunked = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    assert spoken(service, start + chunked, chunks).startswith(b"HTTP/1.1 201")
    large = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    found = spoken(service, start + chunked, *[large] * 4, b"0\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 413")


def test_what_is_not_http_is_refused(service):
    for raw in (
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/0.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST " + ONE.encode() + b"/decisions HTTP/1.1\r\nHost: a\r\nhost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ):
        found = spoken(service, raw)
        assert found.startswith(b"HTTP/1.1 400"), (raw, found)
        assert b"application/problem+json" in found
    assert service.ask("GET", "/healthz").status == 200


def test_headers_that_are_too_large_are_refused(service):
    many = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(20))
    assert b"431" in spoken(service, b"GET / HTTP/1.1\r\n" + many + b"\r\n")[:12]
    assert b"431" in spoken(service, b"GET /?" + b"q" * 20_000 + b" HTTP/1.1\r\n\r\n")[:12]
    # One that does not end is refused before it has ended.
    assert b"431" in spoken(service, b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000)[:12]


def test_many_requests_in_one_piece_are_all_answered(service):
    one = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Padding: " + b"y" * 60 + b"\r\n\r\n"
    last = one.replace(b"X-Padding", b"Connection: close\r\nX-Padding")
    found = spoken(service, one * 2000 + last)
    assert (found.count(b"HTTP/1.1 200"), found.count(b"HTTP/1.1 ")) == (2001, 2001)


def test_a_compressed_body_is_refused(service):
    answer = service.ask(
        "POST", f"{ONE}/decisions", {}, headers={"Content-Encoding": "gzip"}
    )  # fmt: skip
    assert (answer.status, answer.code) == (415, "unsupported_media_type")
    answer = service.ask("POST", f"{ONE}/decisions", {}, headers={"Content-Encoding": "identity"})
    assert answer.status == 201


def test_names_that_only_differ_in_unicode_form_are_refused(service):
    for name in ("e\u0301", "green/e\u0301"):
        answer = service.ask("POST", f"{ONE}/arms", {"name": name})
        assert (answer.status, answer.code) == (400, "invalid_request")
        assert "NFC" in answer.json["detail"]
    arms = [{"name": "\u00e9"}, {"name": "e\u0301"}]
    assert service.ask("POST", "/v1/experiments", {"name": "forms", "arms": arms}).status == 400


def test_experiments_are_listed_in_pages(service):
    everything = service.ask("GET", "/v1/experiments").json
    names = [each["name"] for each in everything["experiments"]]
    assert "next" not in everything and "headline" in names
    for n in range(3):
        body = {"name": f"page-{n}", "arms": ["a", "b"]}
        assert service.ask("POST", "/v1/experiments", body).status == 201
    names = [each["name"] for each in service.ask("GET", "/v1/experiments").json["experiments"]]
    found, after = [], ""
    while after is not None:
        page = service.ask("GET", f"/v1/experiments?limit=2{after and f'&after={after}'}").json
        assert len(page["experiments"]) <= 2
        found += [each["name"] for each in page["experiments"]]
        after = page.get("next")
    assert found == names
    assert service.ask("GET", "/v1/experiments?after=nope").code == "experiment_not_found"


def test_arms_may_be_given_by_name_alone(service):
    made = service.ask("POST", "/v1/experiments", {"name": "short", "arms": ["a", {"name": "b"}]})
    assert made.status == 201
    assert [arm["name"] for arm in made.json["arms"]] == ["a", "b"]
    twice = service.ask("POST", "/v1/experiments", {"name": "twice", "arms": ["a", "a"]})
    assert (twice.status, twice.code) == (400, "invalid_request")


def test_half_a_body_is_forgotten(service):
    before = state(service)
    start = b"POST " + ONE.encode() + b"/decisions " + HEAD + b"Content-Length: 50\r\n\r\n{"
    with socket.create_connection((service.host, service.port), HANG) as peer:
        peer.sendall(start)
    assert state(service) == before
    assert service.ask("GET", "/healthz").status == 200


def test_the_client_speaks_to_it(service):
    with Client(service.url, timeout=HANG, feedback_timeout=HANG) as client:
        assert client.ready()
        client.create("typed", {"a": 1, "b": {"x": 2}}, bounds=[0, 10])
        decision = client.decide("typed", available=["b"], vector=True)
        assert (decision.value, decision.default, decision.probabilities["b"]) == (
            {"x": 2},
            False,
            1,
        )
        assert client.feedback(decision, reward=10) == "learned"
        assert client.feedback(decision, reward=10) == "duplicate"
        many = client.decide_many("typed", 3)
        told = client.feedback_many([*many, many[0]], losses=[1, 2, 99, 1])
        assert told[:2] == ["learned", "learned"]
        assert told[2].code == "out_of_bounds"
        assert told[3] == "duplicate"
        found = client.experiment("typed")
        changed = client.change("typed", found["config_version"], description="x")
        assert changed["description"] == "x"
        assert client.act("typed", "pin", "a")["mode"] == "pinned"
        assert set(client.report("typed", ["uniform"])["targets"]) == {"uniform"}
        assert {each["name"] for each in client.experiments()} >= {"typed"}


def test_nothing_secret_is_in_the_log(service):
    made = service.ask("POST", "/v1/keys", {"scopes": ["read"]}).json["key"]
    unit = "unit-of-somebody-19"
    decision = decided(service, {"unit": unit}, key=made)
    told(service, decision, {"loss": 0.123456789}, key=made)
    service.ask("PUT", f"/v1/decisions/{decision['decision_id']}/feedback", {"loss": "x"}, key=made)
    log = service.log()
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"decide", "feedback", "create_key"} <= {line.get("route") for line in lines}
    for secret in (made, made.split("_", 2)[2], decision["decision_id"], unit, "0.123456789"):
        assert secret not in log
    assert not [line for line in lines if line["level"] == "error"], log


def test_requests_on_one_connection_are_answered_in_their_order(service):
    head = "Host: localhost\r\nContent-Type: application/json\r\n"
    token = decided(service)["decision_id"]
    asking = f"POST {ONE}/decisions HTTP/1.1\r\n{head}"
    telling = f"PUT /v1/decisions/{token}/feedback HTTP/1.1\r\n{head}"
    requests = [
        f"{asking}Content-Length: 0\r\n\r\n",
        # The answer to this one waits for the disk, and those behind it for this one.
        f'{telling}Content-Length: 12\r\n\r\n{{"loss":0.5}}',
        f"{asking}X-Request-Id: third\r\n\r\n",
        f"GET {ONE} HTTP/1.1\r\n{head}\r\n",
        f"{asking}Transfer-Encoding: chunked\r\n\r\n"
        '11\r\n{"available":["re\r\n4\r\nd"]}\r\n0\r\n\r\n',
        f"{telling}Content-Length: 12\r\nExpect: 100-continue\r\n\r\n" + '{"loss":0.5}',
        f"{asking}Connection: close\r\n\r\n",
    ]
    with socket.create_connection((service.host, service.port), HANG) as peer:
        peer.sendall("".join(requests).encode())
        found = b""
        while data := peer.recv(65_536):
            found += data
    statuses = [int(part[:3]) for part in found.decode().split("HTTP/1.1 ")[1:]]
    assert statuses == [201, 200, 201, 200, 201, 100, 200, 201], found
    assert found.count(b"x-request-id: third\r\n") == 1
    assert found.count(b"\r\ndate: ") == len(requests)
    assert b'{"status":"learned"}' in found and b'{"status":"duplicate"}' in found
    assert b'"arm":"red","probability":1.0' in found
    assert found.count(b"connection: close") == 1
    # In pieces, however small.
    with socket.create_connection((service.host, service.port), HANG) as peer:
        for byte in requests[1].encode():
            peer.sendall(bytes([byte]))
        assert peer.recv(65_536).startswith(b"HTTP/1.1 200")


def test_experts_advise(service):
    made = service.ask(
        "POST", "/v1/experiments",
        {"name": "models", "arms": ["a", "b"], "experts": ["model", "rules"]},
    )  # fmt: skip
    assert made.status == 201, made.body
    assert made.json["experts"] == [
        {"name": "model", "weight": 0.5},
        {"name": "rules", "weight": 0.5},
    ]
    path = "/v1/experiments/models/decisions"
    advice = {"model": "a", "rules": {"a": 0.25, "b": 0.75}}
    answer = service.ask("POST", f"{path}?vector=1", {"advice": advice})
    assert answer.status == 201, answer.body
    assert answer.json["experts"] == {"model": 0.5, "rules": 0.5}
    assert answer.json["probabilities"] == pytest.approx({"a": 0.625, "b": 0.375}, abs=1e-5)
    assert told(service, answer.json, {"loss": 1.0}).json == {"status": "learned"}
    assert "experts" not in service.ask("POST", path, {"advice": advice}).json
    for code, body in (
        ("advice_missing", None),
        ("advice_missing", {"advice": {"model": "a"}}),
        ("advice_invalid", {"advice": {"model": "a", "rules": {"b": 0.5}}}),
        ("advice_invalid", {"advice": {"model": "a"}, "asleep": ["other"]}),
        ("invalid_request", {"advice": {"model": 3, "rules": "a"}}),
    ):
        refused = service.ask("POST", path, body)
        assert (refused.status, refused.code) == (400, code)
    refused = service.ask("POST", f"{ONE}/decisions", {"advice": advice})
    assert (refused.status, refused.code) == (400, "advice_invalid")
    batch = {"count": 2, "advice": {"model": "b"}, "asleep": ["rules"]}
    answer = service.ask("POST", f"{path}:batch", batch)
    assert [each["arm"] for each in answer.json["decisions"]] == ["b", "b"]
    with Client(service.url) as client:
        decision = client.decide("models", advice=advice, vector=True)
        assert decision.experts.keys() == {"model", "rules"}
        assert client.decide("models", advice={"model": "b"}, asleep=["rules"]).arm == "b"
        assert client.decide_many("models", 2, advice=advice)[0].arm in ("a", "b")
    lines = service.ask("GET", "/v1/experiments/models/export").body.splitlines()
    assert json.loads(json.loads(lines[0])["extra"]["advised"])["model"] in (0.0, 1.0)
