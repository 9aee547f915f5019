"""A cold process: no operation makes requests wait for the compiler."""

import contextlib
import http.client

import pytest

from helpers.served import served
from helpers.waiting import HANG

pytestmark = [pytest.mark.processes, pytest.mark.slow]

STALL = 0.05
"""Seconds of CPU time that one step of the event loop may take."""

WATCHED = f"""
import asyncio, time
import bothworlds.serve.http.server as server
server._has_uvloop = lambda: False
step = asyncio.events.Handle._run

def timed(self):
    begun = time.thread_time()
    step(self)
    spent = time.thread_time() - begun
    if spent > {STALL}:
        print("STALL", round(spent, 3), repr(self), file=sys.stderr, flush=True)

asyncio.events.Handle._run = timed
"""


def operations(ask):
    """Run every operation of the API; yield the method and the path that the document gives it."""
    one = "/v1/experiments/{experiment}"
    yield "GET", "/healthz", ask("GET", "/healthz")
    yield "GET", "/readyz", ask("GET", "/readyz")
    made = {"name": "a", "arms": [{"name": "x"}, {"name": "y"}, {"name": "z"}]}
    yield "POST", "/v1/experiments", ask("POST", "/v1/experiments", made)
    yield "GET", "/v1/experiments", ask("GET", "/v1/experiments")
    yield "GET", one, ask("GET", "/v1/experiments/a")
    first = ask("POST", "/v1/experiments/a/decisions?vector=1", {"deferred": True})
    yield "POST", one + "/decisions", first
    some = ask("POST", "/v1/experiments/a/decisions", {"available": ["x", "y"], "unit": "u"})
    yield "POST", one + "/decisions", some
    for segment in ("de", "fr", "de"):
        named = ask("POST", "/v1/experiments/a/decisions", {"segment": segment})
        yield "POST", one + "/decisions", named
        told = ask("PUT", f"/v1/decisions/{named.json['decision_id']}/feedback", {"loss": 0.5})
        yield "PUT", "/v1/decisions/{decision}/feedback", told
    yield "GET", one + "/segments", ask("GET", "/v1/experiments/a/segments")
    limited = {"name": "b", "arms": ["x", "y", "z"], "control": "x", "max_share": {"y": 0.5}}
    yield "POST", "/v1/experiments", ask("POST", "/v1/experiments", limited)
    yield "POST", one + "/decisions", ask("POST", "/v1/experiments/b/decisions", {})
    many = ask("POST", "/v1/experiments/a/decisions:batch", {"count": 20})
    yield "POST", one + "/decisions:batch", many
    token = "/v1/decisions/{decision}"
    id = f"/v1/decisions/{first.json['decision_id']}"
    yield "POST", token + "/activate", ask("POST", f"{id}/activate")
    yield "PUT", token + "/feedback", ask("PUT", f"{id}/feedback", {"loss": 0.5})
    ids = [each["decision_id"] for each in many.json["decisions"]]
    items = [{"decision_id": id, "loss": 1.0} for id in ids]
    yield "POST", "/v1/feedback:batch", ask("POST", "/v1/feedback:batch", {"items": items})
    yield "POST", one + "/arms", ask("POST", "/v1/experiments/a/arms", {"name": "w"})
    more = {"name": "v", "probability": 0.1}
    yield "POST", one + "/arms", ask("POST", "/v1/experiments/a/arms", more)
    yield "POST", one + "/decisions", ask("POST", "/v1/experiments/a/decisions", {})
    yield "DELETE", one + "/arms/{arm}", ask("DELETE", "/v1/experiments/a/arms/z")
    version = ask("GET", "/v1/experiments/a").json["config_version"]
    change = {"description": "cold"}
    match = {"If-Match": f'"{version}"'}
    yield "PATCH", one, ask("PATCH", "/v1/experiments/a", change, headers=match)
    report = "/v1/experiments/a/report?target=uniform&target=arm:x"
    yield "GET", one + "/report", ask("GET", report)
    yield "GET", one + "/export", ask("GET", "/v1/experiments/a/export")
    yield "GET", one + "/quarantine", ask("GET", "/v1/experiments/a/quarantine")
    for verdict in ("release", "drop"):
        path = f"/quarantine/{verdict}"
        yield "POST", one + path, ask("POST", f"/v1/experiments/a{path}", {})
    flag = {"context": {"targetingKey": "u"}}
    flags = "/ofrep/v1/evaluate/flags"
    yield "POST", flags + "/{experiment}", ask("POST", flags + "/a", flag)
    yield "POST", flags, ask("POST", flags, flag)
    for action, body in [
        ("shadow", {"arm": "x"}), ("resume", None), ("pin", {"arm": "x"}), ("uniform", None),
        ("pause", None), ("resume", None), ("reset", None), ("archive", None),
    ]:  # fmt: skip
        yield "POST", f"{one}/{action}", ask("POST", f"/v1/experiments/a/{action}", body)
    yield "GET", "/v1/audit", ask("GET", "/v1/audit")
    yield "GET", "/metrics", ask("GET", "/metrics")
    yield "GET", "/openapi.json", ask("GET", "/openapi.json")
    yield "POST", "/v1/token-keys", ask("POST", "/v1/token-keys")
    key = ask("POST", "/v1/keys", {"label": "cold", "scopes": ["admin"]})
    yield "POST", "/v1/keys", key
    secret = key.json["key"]
    yield "GET", "/v1/keys", ask("GET", "/v1/keys", key=secret)
    yield "DELETE", "/v1/keys/{key}", ask("DELETE", f"/v1/keys/{key.json['id']}", key=secret)


def followed(running, path):
    """Return the status of a stream of events, of which only the headers are read."""
    connection = http.client.HTTPConnection(running.host, running.port, timeout=HANG)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status


def test_the_event_loop_never_waits_for_the_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "nothing yet"))
    with served(tmp_path / "bw.db", settings=WATCHED) as running:
        begun = len(running.log())
        document = running.ask("GET", "/openapi.json").json
        found = set()
        for method, path, answer in operations(running.ask):
            assert answer.status < 300, (method, path, answer.body)
            found.add((method, path))
            if path == "/v1/experiments":
                assert followed(running, "/v1/experiments/a/events") == 200
                found.add(("GET", "/v1/experiments/{experiment}/events"))
        log = running.log()[begun:]
    # Tokens need a service with keys, and sign without a kernel.
    found.add(("POST", "/v1/decide-tokens"))
    assert found == {(m.upper(), path) for path, ms in document["paths"].items() for m in ms}
    assert [line for line in log.splitlines() if line.startswith("STALL")] == []
