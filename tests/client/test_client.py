"""Client of the decision service: budgets, retries, defaults, both ways of calling."""

import asyncio
import inspect
import json
import os
import socket
import threading
import time
import warnings

import pytest

from bothworlds.client import AsyncClient, Client, Decision
from bothworlds.errors import InvalidFeedback, InvalidParameter, ServiceAway, ServiceError
from helpers.scripted_server import answer, problem, scripted
from helpers.waiting import HANG

MADE = {
    "decision_id": "abc-_", "arm": "blue", "value": None, "probability": 0.25, "round": 3,
    "mode": "learn", "expires_at": 4e9,
}  # fmt: skip
BUSY = ("rate_limited", "overloaded", "store_unavailable", "shutting_down")


class Blocking:
    """Calls of an `AsyncClient` as if it were a `Client`, so that one test covers both."""

    def __init__(self, *args, **kwargs):
        self.client = AsyncClient(*args, **kwargs)
        self.loop = asyncio.new_event_loop()

    def __getattr__(self, name):
        def call(*args, **kwargs):
            return self.loop.run_until_complete(getattr(self.client, name)(*args, **kwargs))

        return call

    def __repr__(self):
        return repr(self.client)


@pytest.fixture(params=[Client, Blocking])
def client(request):
    made = []

    def make(url, key=None, **settings):
        made.append(request.param(url, key, **{"timeout": HANG, **settings}))
        return made[-1]

    yield make
    for each in made:
        each.close()
        if isinstance(each, Blocking):
            each.loop.close()


def test_a_decision_and_its_feedback(client):
    with scripted(answer(201, MADE), answer(200, {"status": "learned"})) as (url, script):
        asking = client(url, "bw_k_secret")
        decision = asking.decide("head line/1", available=["blue"], unit="eve", idempotency_key="k")
        assert decision == Decision("head line/1", "blue", None, "abc-_", 0.25, 3, "learn", 4e9)
        assert not decision.default
        assert asking.feedback(decision, reward=True) == "learned"
    first, second = script.requests
    assert first.startswith(b"POST /v1/experiments/head%20line%2F1/decisions HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer bw_k_secret\r\n" in first
    assert b"\r\nIdempotency-Key: k\r\n" in first
    assert json.loads(first.split(b"\r\n\r\n")[1]) == {"available": ["blue"], "unit": "eve"}
    assert second.startswith(b"PUT /v1/decisions/abc-_/feedback HTTP/1.1\r\n")
    assert json.loads(second.split(b"\r\n\r\n")[1]) == {"reward": 1.0}
    assert script.connections == 1


@pytest.mark.parametrize("code", BUSY)
def test_what_speaks_of_the_moment_is_sent_again(client, code):
    with scripted(problem(503, code), problem(503, code), answer(201, MADE)) as (url, script):
        assert client(url).decide("a").decision_id == "abc-_"
    assert len(script.requests) == 3


def test_what_speaks_of_the_request_is_not(client):
    with scripted(problem(409, "already_told")) as (url, script):
        with pytest.raises(ServiceError, match="It is already_told") as caught:
            client(url).feedback("id", loss=0.5)
        assert (caught.value.code, caught.value.status) == ("already_told", 409)
        assert caught.value.request_id == "r1"
        assert not isinstance(caught.value, ServiceAway)
    assert len(script.requests) == 1


def test_retries_end(client):
    busy = [problem(503, "overloaded")] * 9
    with scripted(*busy) as (url, script), pytest.raises(ServiceAway):
        client(url, retries=2).decide("a")
    assert len(script.requests) == 3


def test_a_pause_that_the_budget_does_not_hold_is_not_made(client):
    with scripted(problem(429, "rate_limited", "Retry-After: 3600")) as (url, script):
        begun = time.monotonic()
        with pytest.raises(ServiceAway):
            client(url).decide("a")
        assert time.monotonic() - begun < HANG
    assert len(script.requests) == 1


def test_an_answer_that_does_not_come_costs_the_budget_and_gives_the_default(client):
    with scripted("hang") as (url, script):
        decision = client(url, timeout=0.2).decide("a", default="red")
    assert (decision.arm, decision.default, decision.decision_id) == ("red", True, None)
    assert decision.away.code == "away"
    assert decision.probability is None
    assert len(script.requests) == 1


def test_an_answer_that_trickles_costs_the_budget_too(client):
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def trickle():
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 100000\r\n\r\n")
            while not over.wait(0.02):
                connection.sendall(b" ")

    thread = threading.Thread(target=trickle, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert client(url, timeout=0.3).decide("a", default="red").default
    over.set()
    thread.join(HANG)
    listener.close()


def test_nothing_is_told_about_a_default(client):
    with scripted() as (url, script):
        asking = client(url)
        default = Decision("a", "red")
        assert asking.feedback(default, loss=0.1) == "default"
        assert asking.activate(default) is None
        assert asking.feedback_many([default], losses=[0.5]) == ["default"]
    assert script.requests == []


def test_a_paused_experiment_gives_the_default_and_an_archived_one_an_error(client):
    refused = [problem(409, "experiment_paused"), problem(409, "experiment_archived")]
    with scripted(*refused) as (url, _):
        asking = client(url)
        assert asking.decide("a", default="red").default
        with pytest.raises(ServiceError, match="experiment_archived"):
            asking.decide("a", default="red")


def test_nobody_listening_is_a_default_or_an_error(client):
    with socket.socket() as silent:
        # Kept, so that no other process listens there, but refused.
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert client(url).decide("a", default="red").default
        with pytest.raises(ServiceAway, match="cannot be reached"):
            client(url).decide("a")
        assert client(url).ready() is False


def test_a_lost_answer_is_asked_for_again_where_that_is_safe(client):
    with scripted("close", answer(200, {"status": "duplicate"})) as (url, script):
        assert client(url).feedback("id", loss=0.5) == "duplicate"
    assert len(script.requests) == 2


@pytest.mark.parametrize("call", [("create", "a", ["x", "y"]), ("act", "a", "reset")])
def test_a_lost_answer_is_not_asked_for_again_where_that_is_not(client, call):
    name, *args = call
    with scripted(answer(200, {"experiments": []}), "close") as (url, script):
        asking = client(url)
        asking.experiments()
        with pytest.raises(ServiceAway, match="broke off"):
            getattr(asking, name)(*args)
    assert len(script.requests) == 2
    assert script.connections == 2


def test_an_idle_connection_that_has_gone_costs_no_retry(client):
    with scripted(answer(201, MADE), "close", answer(201, MADE)) as (url, script):
        asking = client(url, retries=0)
        asking.decide("a")
        assert asking.decide("a").decision_id == "abc-_"
    assert script.connections == 2


def test_many_feedbacks_come_in_order_and_in_batches(client):
    decisions = [Decision("a", "x", decision_id=f"d{i}") for i in range(1002)]
    decisions.insert(1, Decision("a", "x"))
    first = {"results": [{"status": "learned"}] * 999 + [{"status": "duplicate"}]}
    refused = {"status": "refused", "code": "expired", "detail": "Too late."}
    second = {"results": [{"status": "learned"}, refused]}
    with scripted(answer(200, first), answer(200, second)) as (url, script):
        found = client(url).feedback_many(decisions, losses=[0.5] * 1003)
    assert found[:3] == ["learned", "default", "learned"]
    assert found[1000:1002] == ["duplicate", "learned"]
    assert (found[1002].code, str(found[1002])) == ("expired", "Too late.")
    sent = [json.loads(request.split(b"\r\n\r\n")[1])["items"] for request in script.requests]
    assert [len(items) for items in sent] == [1000, 2]
    assert sent[1][1] == {"decision_id": "d1001", "loss": 0.5}


def test_what_is_no_json_is_away(client):
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<hi>"
    with scripted(raw, b"HTTP/1.1 404 Not\r\nContent-Length: 4\r\n\r\n<hi>") as (url, _):
        with pytest.raises(ServiceAway, match="not JSON"):
            client(url, retries=0).experiments()
        with pytest.raises(ServiceAway, match="status 404"):
            client(url, retries=0).experiments()


def page(status, body=b"<html>", *headers):
    """Return an answer of a proxy as bytes."""
    lines = [f"HTTP/1.1 {status} Because", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


FOREIGN = {
    **{f"200 {body!r}": page(200, body) for body in (
        b"{}", b"[]", b"null", b"", b'"text"', b"7", b"<html>", b'{"arm": 1', b"[" * 100_000,
        b"\xff",
    )},
    **{f"201 with {name} {value!r}": answer(201, {**MADE, name: value}) for name, value in (
        ("arm", 7), ("arm", ""), ("decision_id", 9), ("probability", float("nan")),
        ("probability", "1"), ("probability", 0), ("probability", 2), ("probability", True),
        ("round", 1.5), ("round", None), ("mode", None), ("expires_at", "soon"),
        ("probabilities", [1]), ("probabilities", {"a": "1"}),
    )},
    **{f"{status} page": page(status) for status in (
        301, 302, 307, 400, 401, 403, 404, 405, 408, 418, 429, 500, 501, 502, 503, 504, 520,
    )},
    "302 to the service": page(302, b"", "Location: /"),
    "302 with a refusal": problem(302, "moved"),
    **{f"400 {document!r}": answer(400, document) for document in (
        {}, [], {"code": [1], "detail": "x"}, {"code": "x"}, {"code": "x", "detail": None},
    )},
}  # fmt: skip


@pytest.mark.parametrize("raw", FOREIGN.values(), ids=FOREIGN)
def test_an_answer_that_the_service_did_not_write_counts_as_away(client, raw):
    with scripted(raw, raw) as (url, script):
        asking = client(url, retries=0)
        decision = asking.decide("a", default="red")
        assert (decision.arm, decision.default) == ("red", True)
        assert isinstance(decision.away, ServiceAway)
        with pytest.raises(ServiceAway):
            asking.decide("a")
    assert len(script.requests) == 2


@pytest.mark.parametrize(
    ("call", "document"),
    [
        (lambda c: c.feedback("id", loss=0.5), {"status": "thanks"}),
        (lambda c: c.feedback("id", loss=0.5), []),
        (lambda c: c.feedback_many(["id"], losses=[0.5]), {"results": []}),
        (lambda c: c.feedback_many(["id"], losses=[0.5]), {"results": [{"status": "refused"}]}),
        (lambda c: c.feedback_many(["id"], losses=[0.5]), {"results": [7]}),
        (lambda c: c.decide_many("a", 2), {"decisions": [MADE]}),
        (lambda c: c.decide_many("a", 1), {"decisions": "abc"}),
        (lambda c: c.activate("id"), {"welcome": "to the hotel"}),
        (lambda c: c.experiments(), {"experiments": 5}),
        (lambda c: c.experiment("a"), ["a"]),
        (lambda c: c.report("a"), None),
        (lambda c: c.create("a", ["b", "c"]), "created"),
    ],
)
def test_every_call_checks_the_types_of_its_answer(client, call, document):
    with scripted(answer(200, document)) as (url, _), pytest.raises(ServiceAway):
        call(client(url, retries=0))


def test_a_page_is_not_a_ready_service(client):
    with scripted(page(200)) as (url, _):
        assert client(url, retries=0).ready() is False


@pytest.mark.parametrize("status", [408, 502, 503, 504])
def test_a_proxy_that_could_not_wait_is_asked_again(client, status):
    with scripted(page(status), page(status), answer(201, MADE)) as (url, script):
        assert client(url).decide("a").decision_id == "abc-_"
    assert len(script.requests) == 3


@pytest.mark.parametrize("status", [408, 502, 504])
def test_what_must_not_be_repeated_is_not_sent_again(client, status):
    with scripted(page(status), answer(201, {})) as (url, script), pytest.raises(ServiceAway):
        client(url).create("a", ["b", "c"])
    assert len(script.requests) == 1


@pytest.mark.parametrize(("status", "code"), [(401, "unauthorized"), (404, "experiment_not_found")])
def test_a_refusal_by_the_service_is_raised_although_there_is_a_default(client, status, code):
    with scripted(problem(status, code)) as (url, _):
        with pytest.raises(ServiceError) as caught:
            client(url).decide("a", default="red")
        assert (caught.value.code, isinstance(caught.value, ServiceAway)) == (code, False)


@pytest.mark.parametrize("stale", [page(408), answer(201, {**MADE, "decision_id": "STALE"})])
def test_an_unsolicited_answer_is_not_the_next_one(client, stale):
    """Load balancers send 408 before they close; the request must not take it for its answer."""
    with scripted(answer(201, MADE) + stale, answer(201, MADE), answer(201, MADE)) as (url, script):
        asking = client(url, retries=0)
        assert asking.decide("a").decision_id == "abc-_"
        assert asking.decide("a").decision_id == "abc-_"
    assert script.connections == 2


def test_an_idle_connection_with_unread_data_is_closed(client):
    idle, sent = threading.Event(), threading.Event()
    with scripted(answer(201, MADE), answer(201, MADE)) as (url, script):
        # Not with the answer, where the parser would notice it.
        script.afterwards = lambda connection: (
            idle.wait(HANG), connection.sendall(answer(201, {**MADE, "decision_id": "STALE"})),
            sent.set(),
        )  # fmt: skip
        asking = client(url, retries=0)
        assert asking.decide("a").decision_id == "abc-_"
        idle.set()
        assert sent.wait(HANG)
        assert asking.decide("a").decision_id == "abc-_"
    assert script.connections == 2


def test_a_default_that_is_not_an_arm_is_warned_of_once(client):
    listed = answer(201, {**MADE, "probabilities": {"blue": 0.25, "green": 0.75}})
    with scripted(listed, answer(201, MADE), listed, answer(201, MADE)) as (url, script):
        asking = client(url)
        with pytest.warns(UserWarning, match="'red' is not an arm of 'a', which has 'blue'"):
            assert asking.decide("a", default="red").probabilities is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            asking.decide("a", default="red")
            asking.decide("a", default="blue")
            asking.decide("a", default="blue")
    asked = [line.split()[1].endswith("?vector=1") for line in script.lines()]
    assert asked == [True, False, True, False]


def test_a_proxy_that_cannot_reach_the_service_counts_as_away(client):
    with scripted(b"HTTP/1.1 502 Bad\r\nContent-Length: 4\r\n\r\n<hi>") as (url, _):
        assert client(url, retries=0).decide("a", default="red").default


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: c.feedback("id"),
        lambda c: c.feedback("id", loss=0.1, reward=0.1),
        lambda c: c.feedback("id", loss=float("nan")),
        lambda c: c.feedback("id", reward="1"),
        lambda c: c.feedback_many(["id"]),
        lambda c: c.feedback_many(["id"], losses=[float("inf")]),
        lambda c: c.feedback_many(["id"], losses=[0.1, 0.2]),
        lambda c: c.feedback(7, loss=0.1),
        lambda c: c.decide(""),
        lambda c: c.decide("a", idempotency_key="a\r\nX: y"),
        lambda c: c.decide("a", default="b", idempotency_key=""),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(client, wrong):
    with scripted() as (url, script), pytest.raises((InvalidFeedback, InvalidParameter)):
        wrong(client(url))
    assert script.requests == []


@pytest.mark.parametrize(
    "settings",
    [{"timeout": 0}, {"timeout": True}, {"feedback_timeout": -1}, {"retries": 1.5}, {"retries": -1},
     {"retries": True}, {"key": "bw_k_\r\nsecret"}, {"key": ""}, {"key": 5}],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_wrong_settings_are_refused_without_showing_the_key(kind, settings):
    with pytest.raises(InvalidParameter) as caught:
        kind("http://a", **settings)
    assert "secret" not in str(caught.value)


def test_the_key_is_not_shown(client):
    assert "secret" not in repr(client("http://127.0.0.1:1", "bw_k_secret"))
    with pytest.raises(ServiceAway) as caught:
        client("http://127.0.0.1:1", "bw_k_secret").decide("a")
    assert "secret" not in str(caught.value)


def test_a_cancelled_call_does_not_leave_its_answer_to_the_next():
    async def main(url):
        async with AsyncClient(url, timeout=HANG) as client:
            task = asyncio.create_task(client.decide("a"))
            while not script.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return await client.decide("b")

    with scripted("hang", answer(201, MADE)) as (url, script):
        assert asyncio.run(main(url)).experiment == "b"
    assert script.connections == 2


def test_threads_share_a_client():
    found = []
    answers = [answer(201, MADE)] * 40
    with scripted(*answers) as (url, script), Client(url, timeout=HANG) as client:

        def work():
            found.extend(client.decide("a").decision_id for _ in range(10))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG)
    assert found == ["abc-_"] * 40
    assert script.connections <= 4


@pytest.mark.processes
def test_a_forked_child_opens_connections_of_its_own():
    with scripted(*[answer(201, MADE)] * 3) as (url, script):
        client = Client(url, timeout=HANG)
        client.decide("a")
        child = os.fork()
        if child == 0:
            os._exit(0 if client.decide("a").decision_id == "abc-_" else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert client.decide("a").decision_id == "abc-_"
        assert script.connections == 2


def test_both_clients_have_the_same_calls():
    def calls(kind):
        return {
            name: str(inspect.signature(value))
            for name, value in vars(kind).items()
            if not name.startswith("_")
        }

    assert calls(Client) == calls(AsyncClient)
