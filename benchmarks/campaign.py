"""Overhead of a campaign's store and scheduler, measured in one run.

A worker's own time on the tiles is the compute; all else of the elapsed time is overhead. A
campaign of one worker has no imbalance that could be mistaken for it.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import bothworlds as bw
from bothworlds.campaign.dask import cluster
from bothworlds.campaign.store import Store
from bothworlds.engine.outcome import TileOutcome
from bothworlds.experiments import experiment
from bothworlds.experiments.plan import RunPlan
from bothworlds.policies.base import Policy
from bothworlds.simulation.result import Result

POLICIES = {"RV": bw.TsallisINF(), "UCB1": bw.UCB1(), "Thompson": bw.ThompsonSampling()}
HORIZON, RUNS = 1_500_000, 96


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Give a folder that is removed afterwards."""
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def timed(
    address: str | None, store: Path | None, threads: int | None = None
) -> tuple[float, Result]:
    """Return the seconds of a campaign and its result; the cluster is there and warm before."""
    world = bw.environments.Stochastic.gap(8, 1 / 8)
    with contextlib.ExitStack() as stack:
        executor = stack.enter_context(cluster(address)) if address else None
        bw.simulate(POLICIES, world, 2000, 96, threads=threads, executor=executor, progress=False)
        began = time.perf_counter()
        result = bw.simulate(
            POLICIES, world, HORIZON, RUNS, threads=threads, executor=executor, store=store,
            progress=False,
        )  # fmt: skip
        return time.perf_counter() - began, result


def overhead() -> float:
    """Print what is not compute, with and without a store, by a thread and by one Dask worker.

    Returns the seconds that one Dask worker takes with a store.
    """
    print("Overhead of a campaign, one worker (elapsed time beyond the time in tiles)")
    seconds = 0.0
    for label, address, kept in (
        ("thread", None, False),
        ("thread, store", None, True),
        ("Dask worker, store", "local:1", True),
    ):
        with folder() as path:
            seconds, result = timed(address, path if kept else None, 1 if address is None else None)
        compute = sum(result.wall.values())
        print(f"  {label:20s} {seconds:6.2f} s, overhead {seconds / compute - 1:6.2%}", flush=True)
    return seconds


def two_workers(one: float) -> None:
    """Print how much faster two Dask workers are than one."""
    with folder() as path:
        two, _ = timed("local:2", path)
    print(f"\nTwo local worker processes against one: {one / two:.2f} times faster\n", flush=True)


def smallest_shards() -> None:
    """Print what a shard costs that takes no time to compute: the most a client can feed."""
    world = bw.environments.Stochastic.gap(8, 1 / 8)
    many: dict[str, Policy] = {f"RV {number}": bw.TsallisINF() for number in range(400)}
    print("Handing out, running and keeping a shard of a few rounds, ms")
    for label, address in (("thread, store", None), ("Dask worker, store", "local:1")):
        with contextlib.ExitStack() as stack:
            executor = stack.enter_context(cluster(address)) if address else None
            path = stack.enter_context(folder())
            bw.simulate(bw.TsallisINF(), world, 100, 16, executor=executor, progress=False)
            began = time.perf_counter()
            bw.simulate(
                many, world, 100, 100, threads=None if address else 1, executor=executor,
                store=path, progress=False,
            )  # fmt: skip
            each = (time.perf_counter() - began) / len(many)
        print(f"  {label:20s} {1e3 * each:6.1f}", flush=True)
    print()


def paper_store() -> None:
    """Print the size of a store at the paper's scale, and how long it takes to list."""
    rng = np.random.default_rng(0)
    with folder() as path:
        store = Store(path / "store")
        store.make()
        by_stem = {}
        for name in ("stochastic", "switching"):
            chosen = experiment(name)
            by_stem |= {c.stem: c for _, c in RunPlan(chosen, chosen.scales["full"], 0).curves}
        curves = list(by_stem.values())
        store.want(curves)
        for curve in curves:
            arms = curve.environment.n_arms
            for first in range(0, curve.repetitions, 16):
                count = min(16, curve.repetitions - first)
                steps = rng.exponential(size=(count, len(curve.checkpoints)))
                plays = rng.integers(curve.horizon, size=(count, arms))
                outcome = TileOutcome(first, steps.cumsum(axis=1), plays, None, 1.0, 1.0)
                store.save(curve, [outcome])
        files = list(store.folder.iterdir())
        size = sum(file.stat().st_size for file in files) / 1e6
        command = [sys.executable, "-m", "bothworlds", "results", "ls", str(path)]
        tries = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            tries.append(time.perf_counter() - began)
    print(
        f"A store of {len(curves)} curves x 100 repetitions, {len(files)} files: {size:.1f} MB, "
        f"listed in {min(tries):.2f} s"
    )


def main() -> None:
    """Run all of it."""
    one = overhead()
    two_workers(one)
    smallest_shards()
    paper_store()


if __name__ == "__main__":
    main()
