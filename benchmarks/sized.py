"""Cost of a decision with 200 connections, for one experiment and for 1,000, next to empty routes.

``python -m benchmarks serve`` prints this after its other figures. CPU times are those of the
server, in turns; latencies are those of a client in Python, which asks and reports without a pause
and is itself a part of them. With many experiments a decision costs the less the more there are a
second, because the log of each is written together; so the rates are printed, too.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import serve, tenants

CONNECTIONS = 200
MANY = 1000
TURNS = 5
SECONDS = 3.0
SETTLING = 2.5
"""Seconds after which the log is written, which waits for more rows of each experiment."""
SOME = """
local paths = {}
for n = 1, COUNT do paths[n] = "/v1/experiments/bench" .. (n == 1 and "" or n) .. "/decisions" end
local headers = {["Authorization"] = "Bearer KEY"}
local count = 0
function request()
  count = count % COUNT + 1
  return wrk.format("POST", paths[count], headers)
end
"""
serve.LUA["some"] = SOME.replace("COUNT", str(MANY))
serve.LUA["plain"] = ""
serve.PATHS["some"] = [
    f"/v1/experiments/bench{'' if n == 1 else n}/decisions" for n in range(1, MANY + 1)
]


@contextmanager
def plain() -> Iterator[serve.Running]:
    """Yield uvicorn as it is, with an empty route."""
    with serve.empty(serve.EMPTY.replace("http=LimitedConnection", 'http="httptools"')) as running:
        yield running


def create(url: str, key: str) -> None:
    """Create the experiments but the first."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    arms = [f"arm{n}" for n in range(serve.ARMS)]
    for number in range(2, MANY + 1):
        body = json.dumps({"name": f"bench{number}", "arms": arms}).encode()
        request = urllib.request.Request(f"{url}/v1/experiments", body, headers)
        urllib.request.urlopen(request).close()


def measured(folder: Path) -> list[tuple[str, float, object]]:
    """Return names, values and targets."""
    with (
        serve.service(str(folder / "one.db")) as (one, key),
        serve.service(str(folder / "many.db")) as (many, other),
        serve.empty() as nothing,
        plain() as route,
    ):
        small = many.memory()
        create(many.url, other)
        grown = many.memory() - small
        asked = {
            "plain uvicorn route": (route, "plain", key),
            "empty endpoint": (nothing, "empty", key),
            "decision, 1 experiment": (one, "decide", key),
            f"decision, {MANY:,} experiments": (many, "some", other),
        }
        loads: dict[str, list[serve.Load]] = {name: [] for name in asked}
        for turn in range(TURNS + 1):
            for name, (running, what, secret) in asked.items():
                load = serve.asked(running, what, secret, CONNECTIONS, SECONDS, folder, SETTLING)
                if turn:
                    # The first turn fills caches.
                    loads[name].append(load)
        cpu = serve.least(loads)
        rows: list[tuple[str, float, object]] = [
            (f"{name}, CPU us", value, None) for name, value in cpu.items()
        ]
        first, second = cpu["decision, 1 experiment"], cpu[f"decision, {MANY:,} experiments"]
        rows += [
            ("decision / empty endpoint", first / cpu["empty endpoint"], ("<=", 1.6)),
            ("decision / plain uvicorn route", first / cpu["plain uvicorn route"], None),
            (f"{MANY:,} experiments / one", second / first, ("<=", 1.1)),
            ("decisions a second and core", 1e6 / first, None),
            *((f"{name}, a second", loads[name][-1].rate, None) for name in list(cpu)[2:]),
            ("memory of an experiment, KB", grown / (MANY - 1) * 1024.0, None),
        ]
        for label, running, secret in (("1", one, key), (f"{MANY:,}", many, other)):
            found = asyncio.run(tenants.talks(running.url, secret, 5.0, CONNECTIONS, 0.0))
            for kind, values in found.items():
                for share in (0.5, 0.99):
                    name = f"{kind} p{100 * share:.0f}, {label} experiments, ms"
                    rows.append((name, tenants.at(values, share), None))
        return rows


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(serve.lines(measured(Path(folder)))), flush=True)


if __name__ == "__main__":
    main()
