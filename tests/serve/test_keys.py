"""Keys, scopes, tenants and rates of the decision service, over real HTTP."""

import subprocess
import sys

import pytest

from helpers.served import served
from helpers.waiting import HANG, wait_until

pytestmark = pytest.mark.processes

ARMS = [{"name": "a"}, {"name": "b"}]
ONE = "/v1/experiments/headline"


def command(*words):
    """Run `bothworlds serve ...`."""
    return subprocess.run(
        [sys.executable, "-m", "bothworlds", "serve", *words],
        capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip


def key_of(store, scopes, *more):
    made = command("key", "create", "--store", str(store), "--scopes", scopes, *more)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    store = tmp_path_factory.mktemp("keys") / "store.db"
    with served(store, "--require-keys", "--host", "0.0.0.0", "--access-log") as running:
        # 0.0.0.0 is every address of this machine, loopback among them.
        running.host = "127.0.0.1"
        running.admin = key_of(store, "decide,feedback,read,admin", "--label", "mine")
        running.other = key_of(store, "decide,feedback,read,admin", "--tenant", "other")
        wait_until(lambda: running.ask("GET", "/v1/keys", key=running.other).status == 200)
        made = running.ask(
            "POST", "/v1/experiments", {"name": "headline", "arms": ARMS}, running.admin
        )
        assert made.status == 201, made.body
        yield running


def test_a_key_is_asked_for(service):
    for path in ("/v1/experiments", ONE, "/v1/keys", "/metrics"):
        answer = service.ask("GET", path)
        assert (answer.status, answer.code) == (401, "key_missing")
        assert answer.headers["www-authenticate"] == "Bearer"
    for path in ("/healthz", "/readyz", "/openapi.json", "/login"):
        assert service.ask("GET", path).status == 200


def test_a_wrong_key_is_refused(service):
    right = service.admin
    prefix, id, secret = right.split("_", 2)
    changed = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    for wrong in (
        "", "x", "bw_", "bw__", f"{prefix}_{id}_", f"{prefix}_{id}_{changed}", f"xx_{id}_{secret}",
        f"{prefix}_nobody_{secret}", right + "A", right[:-1], "é" * 10,
    ):  # fmt: skip
        answer = service.ask(
            "GET", ONE, headers={"Authorization": f"Bearer {wrong}".encode("latin-1")}
        )
        assert (answer.status, answer.code) == (401, "key_invalid"), wrong
    basic = service.ask("GET", ONE, headers={"Authorization": f"Basic {right}"})
    assert basic.code == "key_invalid"
    assert service.ask("GET", ONE, headers={"Authorization": f"bearer {right}"}).status == 200


NEEDS = [
    ("POST", f"{ONE}/decisions", {}, "decide"),
    ("PUT", "/v1/decisions/x/feedback", {"loss": 0.5}, "feedback"),
    ("POST", "/v1/feedback:batch", {"items": [{"decision_id": "x", "loss": 0.5}]}, "feedback"),
    ("GET", ONE, None, "read"),
    ("GET", f"{ONE}/export", None, "read"),
    ("GET", f"{ONE}/report", None, "read"),
    ("GET", "/metrics", None, "read"),
    ("POST", f"{ONE}/pause", None, "admin"),
    ("POST", "/v1/keys", {"scopes": ["admin"]}, "admin"),
    ("GET", "/v1/audit", None, "admin"),
    ("POST", "/v1/token-keys", None, "admin"),
]


def test_a_key_can_do_what_its_scopes_say_and_nothing_else(service):
    keys = {}
    for scope in ("decide", "feedback", "read", "admin"):
        made = service.ask("POST", "/v1/keys", {"scopes": [scope], "label": scope}, service.admin)
        assert made.status == 201
        keys[scope] = made.json["key"]
    for method, path, document, needed in NEEDS:
        for scope, key in keys.items():
            answer = service.ask(method, path, document, key)
            if scope == needed:
                assert answer.status != 401 and answer.status != 403, (path, scope)
            else:
                assert (answer.status, answer.code) == (403, "scope_missing"), (path, scope)
                assert needed in answer.json["detail"]
    service.ask("POST", f"{ONE}/resume", None, service.admin)


def test_other_tenants_see_nothing_and_change_nothing(service):
    mine, other = service.admin, service.other
    decision = service.ask("POST", f"{ONE}/decisions", {}, mine).json
    before = service.ask("GET", ONE, key=mine).json
    assert service.ask("GET", "/v1/experiments", key=other).json["experiments"] == []
    for method, path, document, _ in NEEDS:
        if path.startswith(ONE):
            answer = service.ask(method, path, document, other)
            assert (answer.status, answer.code) == (404, "experiment_not_found"), path
    feedback = f"/v1/decisions/{decision['decision_id']}/feedback"
    answer = service.ask("PUT", feedback, {"loss": 0.5}, other)
    assert (answer.status, answer.code) == (403, "bad_signature")
    batch = {"items": [{"decision_id": decision["decision_id"], "loss": 0.5}]}
    results = service.ask("POST", "/v1/feedback:batch", batch, other).json["results"]
    assert results[0]["code"] == "bad_signature"
    labels = [key["label"] for key in service.ask("GET", "/v1/keys", key=other).json["keys"]]
    assert "mine" not in labels
    mine_id = mine.split("_")[1]
    assert service.ask("DELETE", f"/v1/keys/{mine_id}", key=other).code == "key_not_found"
    entries = service.ask("GET", "/v1/audit", key=other).json["entries"]
    assert not [entry for entry in entries if entry["experiment"] == "headline"]
    after = service.ask("GET", ONE, key=mine).json
    assert (after["learned"], after["mode"]) == (before["learned"], before["mode"])
    # The name is free for another tenant, and its experiment is another one.
    made = service.ask("POST", "/v1/experiments", {"name": "headline", "arms": ARMS}, other)
    assert made.status == 201
    assert service.ask("PUT", feedback, {"loss": 0.5}, mine).json == {"status": "learned"}
    assert service.ask("GET", ONE, key=other).json["learned"] == 0


def test_what_concerns_all_tenants_is_for_the_first_one(service):
    assert service.ask("POST", "/v1/token-keys", key=service.admin).status == 201
    answer = service.ask("POST", "/v1/token-keys", key=service.other)
    assert (answer.status, answer.code) == (403, "scope_missing")
    assert "first tenant" in answer.json["detail"]


def test_metrics_of_experiments_are_for_their_tenant_and_others_for_the_first(service):
    made = {"name": "secret-plan", "arms": ARMS}
    assert service.ask("POST", "/v1/experiments", made, service.other).status == 201
    service.ask("POST", "/v1/experiments/secret-plan/decisions", {}, service.other)
    service.ask("POST", f"{ONE}/decisions", {}, service.admin)
    mine = service.ask("GET", "/metrics", key=service.admin).body.decode()
    other = service.ask("GET", "/metrics", key=service.other).body.decode()
    assert "bothworlds_requests_total" in mine and "bothworlds_requests_total" not in other
    assert 'experiment="headline"' in mine and 'experiment="secret-plan"' in other
    assert "secret-plan" not in mine
    names = {line.split("{")[0].split(" ")[0] for line in other.splitlines() if line[0] != "#"}
    assert all(name.startswith("bothworlds_experiment_") for name in names)


def test_a_revoked_key_is_refused(service):
    made = service.ask("POST", "/v1/keys", {"scopes": ["read"]}, service.admin).json
    assert service.ask("GET", ONE, key=made["key"]).status == 200
    assert service.ask("DELETE", f"/v1/keys/{made['id']}", key=service.admin).status == 204
    assert service.ask("GET", ONE, key=made["key"]).code == "key_invalid"


def test_a_key_is_checked_again_though_its_headers_are_known(service):
    made = service.ask("POST", "/v1/keys", {"scopes": ["decide"]}, service.admin).json
    for _ in range(3):
        assert service.ask("POST", f"{ONE}/decisions", {}, made["key"]).status == 201
    # The same headers for what the key must not do.
    assert service.ask("PUT", "/v1/decisions/x/feedback", {}, made["key"]).code == "scope_missing"
    assert service.ask("POST", f"{ONE}/decisions", {}, made["key"]).status == 201
    assert service.ask("DELETE", f"/v1/keys/{made['id']}", key=service.admin).status == 204
    for _ in range(3):
        assert service.ask("POST", f"{ONE}/decisions", {}, made["key"]).code == "key_invalid"


def test_web_pages_need_a_key_like_everybody(service):
    headers = {"Origin": "https://dashboard.example", "Host": "bandits.example"}
    assert service.ask("GET", ONE, headers=headers).code == "key_missing"
    assert service.ask("GET", ONE, key=service.admin, headers=headers).status == 200


def test_the_log_has_ids_of_keys_and_no_keys(service):
    log = service.log()
    for key in (service.admin, service.other):
        _, id, secret = key.split("_", 2)
        assert f'"key": "{id}"' in log
        assert secret not in log


def test_a_key_may_ask_so_often(tmp_path):
    store = tmp_path / "store.db"
    with served(store, "--require-keys", "--rate", "0.01") as service:
        first = key_of(store, "read,decide", "--label", "first")
        second = key_of(store, "read", "--label", "second")
        for key in (first, second):
            # Refused for its scope, which costs nothing.
            wait_until(lambda k=key: service.ask("GET", "/v1/keys", key=k).status == 403)
        assert service.ask("GET", "/v1/experiments", key=first).status == 200
        answer = service.ask("GET", "/v1/experiments", key=first)
        assert (answer.status, answer.code) == (429, "rate_limited")
        assert 1 <= int(answer.headers["retry-after"]) <= 100
        assert service.ask("GET", "/v1/experiments", key=second).status == 200
        assert service.ask("GET", "/healthz").status == 200
