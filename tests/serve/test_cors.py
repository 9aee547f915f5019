"""Web pages of other origins: what pre-flight requests are told, and what decide tokens allow."""

import asyncio

import pytest
from typer.testing import CliRunner

from bothworlds.cli.commands import app
from bothworlds.client import AsyncClient, Client
from bothworlds.serve.domain import decide_tokens
from bothworlds.serve.http.app import ROUTES
from bothworlds.serve.ops.admin import create_key
from helpers.served import served
from helpers.waiting import HANG, wait_until

SHOP = "https://shop.example.com"
ONE = "/v1/experiments/headline"
ARMS = ["blue", "green"]


@pytest.mark.parametrize(
    "origin",
    [
        "*", "null", "", "https://*.example.com", "https://shop.example.com/", "shop.example.com",
        "https://shop.example.com/cart", "https://SHOP.example.com", "https://shop.example.com:443",
        "http://localhost:80", "ftp://shop.example.com", "https://a b", "https://me@example.com",
        "https://shop.example.com?x", "https://-a", "https://example.com:", "https://example.com:0",
    ],
)  # fmt: skip
def test_an_origin_that_no_browser_sends_is_refused(tmp_path, origin):
    store = tmp_path / "store.db"
    words = ["serve", "--require-keys", "--store", str(store), "--cors-origin", origin]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "--cors-origin of bothworlds serve must be one origin" in " ".join(
        refused.output.split()
    )
    assert not store.exists()


def test_origins_without_keys_are_refused(tmp_path):
    words = ["serve", "--store", str(tmp_path / "store.db"), "--cors-origin", SHOP]
    assert "needs --require-keys" in CliRunner().invoke(app, words).output


def test_only_decisions_and_feedback_are_for_browsers():
    for route in ROUTES:
        if route.browsers:
            assert route.scope in decide_tokens.TOKEN_SCOPES, route.operation
    others = {route.operation for route in ROUTES if not route.browsers}
    assert others >= {"mint_token", "experiment", "create", "keys", "metrics", "export"}


@pytest.fixture(scope="module", params=[(), ("--plain-http",)], ids=["fast", "plain"])
def service(request, tmp_path_factory):
    store = tmp_path_factory.mktemp("cors") / "store.db"
    admin = create_key(str(store), ["admin", "read", "decide", "feedback"])
    caller = create_key(str(store), ["decide", "feedback"])
    other = create_key(str(store), ["decide", "feedback"], tenant="other")
    origins = ("--cors-origin", SHOP, "--cors-origin", "http://localhost:3000")
    with served(store, "--require-keys", *origins, *request.param) as running:
        running.admin, running.caller, running.other = admin, caller, other
        for name in ("headline", "button"):
            made = running.ask("POST", "/v1/experiments", {"name": name, "arms": ARMS}, key=admin)
            assert made.status == 201
        yield running


def allowed(answer):
    return {name: value for name, value in answer.headers.items() if name.startswith("access-")}


def preflight(service, path, method="POST", origin=SHOP):
    asked = {"Origin": origin, "Access-Control-Request-Method": method}
    return service.ask("OPTIONS", path, headers=asked)


@pytest.mark.processes
@pytest.mark.parametrize("origin", [SHOP, "http://localhost:3000"])
def test_a_pre_flight_request_of_an_allowed_origin(service, origin):
    answer = preflight(service, f"{ONE}/decisions", origin=origin)
    assert answer.status == 204
    found = allowed(answer)
    assert found["access-control-allow-origin"] == origin
    assert found["access-control-allow-methods"] == "POST"
    assert found["access-control-max-age"] == "7200"
    assert "authorization" in found["access-control-allow-headers"]
    assert answer.headers["vary"] == "Origin"
    assert preflight(service, "/v1/decisions/x/feedback", "PUT").status == 204
    assert preflight(service, "/v1/feedback:batch").status == 204


@pytest.mark.processes
@pytest.mark.parametrize(
    ("path", "method", "origin"),
    [
        (f"{ONE}/decisions", "POST", "https://evil.example"),
        (f"{ONE}/decisions", "POST", "null"),
        (f"{ONE}/decisions", "POST", f"{SHOP}.evil.example"),
        (f"{ONE}/decisions", "DELETE", SHOP),
        (ONE, "GET", SHOP),
        (ONE, "PATCH", SHOP),
        ("/v1/keys", "POST", SHOP),
        ("/v1/decide-tokens", "POST", SHOP),
        ("/metrics", "GET", SHOP),
        ("/login", "POST", SHOP),
    ],
)
def test_any_other_pre_flight_request_is_refused(service, path, method, origin):
    answer = preflight(service, path, method, origin)
    assert answer.status == 405
    assert allowed(answer) == {}


@pytest.mark.processes
def test_answers_and_refusals_can_be_read_without_cookies(service):
    page = {"Origin": SHOP}
    for key, status in ((service.caller, 201), ("bw_no_key", 401), (service.admin, 403)):
        answer = service.ask("POST", f"{ONE}/decisions", {}, key, headers=page)
        assert answer.status == status
        found = allowed(answer)
        assert found["access-control-allow-origin"] == SHOP
        assert "retry-after" in found["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in found
    assert "must have no scope but decide and feedback" in answer.json["detail"]
    foreign = {"Origin": "https://evil.example"}
    answer = service.ask("POST", f"{ONE}/decisions", {}, service.caller, headers=foreign)
    assert allowed(answer) == {}
    answer = service.ask("GET", ONE, key=service.caller, headers=page)
    assert (answer.status, allowed(answer)) == (403, {})


def minted(service, key=None, **asked):
    answer = service.ask("POST", "/v1/decide-tokens", asked, key or service.caller)
    assert answer.status == 201, answer.body
    assert answer.headers["cache-control"] == "no-store"
    return answer.json["token"]


@pytest.mark.processes
def test_a_token_decides_and_reports_feedback_and_nothing_else(service):
    token = minted(service, key=service.admin)
    made = service.ask("POST", f"{ONE}/decisions", {}, token)
    assert made.status == 201
    told = f"/v1/decisions/{made.json['decision_id']}/feedback"
    assert service.ask("PUT", told, {"reward": 1}, token).json == {"status": "learned"}
    for method, path, document in (
        ("GET", ONE, None), ("POST", f"{ONE}/pause", None), ("GET", "/metrics", None),
        ("POST", "/v1/keys", {"scopes": ["admin"]}), ("POST", "/v1/decide-tokens", {}),
    ):  # fmt: skip
        assert service.ask(method, path, document, token).code == "scope_missing", path
    page = {"Origin": SHOP}
    assert service.ask("POST", f"{ONE}/decisions", {}, token, headers=page).status == 201


@pytest.mark.processes
def test_the_clients_mint_tokens(service):
    with Client(service.url, key=service.caller, timeout=HANG) as client:
        token = client.decide_token("button", seconds=60)

    async def minted():
        async with AsyncClient(service.url, key=service.caller, timeout=HANG) as client:
            return await client.decide_token()

    for given, status in ((token, 403), (asyncio.run(minted()), 201)):
        assert service.ask("POST", "/v1/experiments/button/decisions", {}, given).status == 201
        assert service.ask("POST", f"{ONE}/decisions", {}, given).status == status


@pytest.mark.processes
def test_a_token_of_one_experiment_is_for_no_other(service):
    token = minted(service, experiment="button")
    assert service.ask("POST", "/v1/experiments/button/decisions", {}, token).status == 201
    for path in ("decisions", "decisions:batch"):
        answer = service.ask("POST", f"{ONE}/{path}", {"count": 1} if ":" in path else {}, token)
        assert (answer.status, answer.code) == (403, "scope_missing")
    unit = {"unit": "ann"}
    assert service.ask("POST", f"{ONE}/decisions", unit, token).code == "scope_missing"
    other = service.ask("POST", f"{ONE}/decisions", {}, service.caller).json["decision_id"]
    answer = service.ask("PUT", f"/v1/decisions/{other}/feedback", {"reward": 1}, token)
    assert answer.code == "bad_signature"
    batch = {"items": [{"decision_id": other, "reward": 1}]}
    assert service.ask("POST", "/v1/feedback:batch", batch, token).json["results"][0]["code"] == (
        "bad_signature"
    )
    assert service.ask("POST", "/ofrep/v1/evaluate/flags/headline", {}, token).status == 404
    flags = service.ask("POST", "/ofrep/v1/evaluate/flags", {}, token).json["flags"]
    assert [flag["key"] for flag in flags] == ["button"]
    assert service.ask(
        "POST", "/v1/decide-tokens", {"experiment": "none"}, service.caller
    ).code == ("experiment_not_found")
    assert service.ask("POST", f"{ONE}/decisions", {}, minted(service, service.other)).status == 404


@pytest.mark.processes
@pytest.mark.parametrize("seconds", [0, 0.5, 3601, -1, "1"])
def test_a_token_lasts_an_hour_at_most(service, seconds):
    answer = service.ask("POST", "/v1/decide-tokens", {"seconds": seconds}, service.caller)
    assert answer.code == "invalid_request"


@pytest.mark.processes
def test_a_token_ends_with_its_time_and_with_its_key(service):
    short = minted(service, seconds=1)
    used = service.ask("POST", f"{ONE}/decisions", {}, short).status
    assert used in (201, 401)
    wait_until(lambda: service.ask("POST", f"{ONE}/decisions", {}, short).status == 401)
    assert service.ask("POST", f"{ONE}/decisions", {}, short).code == "token_expired"
    made = service.ask("POST", "/v1/keys", {"scopes": ["decide"]}, service.admin).json
    token = minted(service, made["key"])
    assert service.ask("POST", f"{ONE}/decisions", {}, token).status == 201
    assert (
        service.ask("PUT", "/v1/decisions/x/feedback", {"loss": 0}, token).code == "scope_missing"
    )
    assert service.ask("DELETE", f"/v1/keys/{made['id']}", key=service.admin).status == 204
    assert service.ask("POST", f"{ONE}/decisions", {}, token).code == "key_invalid"


@pytest.mark.processes
def test_a_forged_token_is_refused(service):
    token = minted(service)
    id = service.caller.split("_")[1]
    forged = decide_tokens.sign(bytes(64), id, 4e9, None)
    flipped = token[:10] + ("A" if token[10] != "A" else "B") + token[11:]
    for wrong in (
        forged,
        flipped,
        token[:-4],
        token + "AAAA",
        "bwt_",
        "bwt_" + "A" * 5000,
        "bwt_é",
    ):
        sent = {"Authorization": f"Bearer {wrong}".encode("latin-1")}
        assert service.ask("POST", f"{ONE}/decisions", {}, headers=sent).code == "key_invalid", (
            wrong
        )
