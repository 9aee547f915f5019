"""Thresholds between kernels, measured on both sides: from how many arms which of them is faster.

=========== ================================== ==============================================
threshold   up to it                           beyond it
=========== ================================== ==============================================
`rows.FEW`  every row of a tile is looked at   rows are reached by address
`few.FEW`   `omd.few`: looks again, no sums    `omd.half`: keeps sums
``MANY``    `omd.half`: looks at every arm     `omd.many`: buckets; from it on, not beyond
=========== ================================== ==============================================

Each number of arms plays with the threshold below it and above it, in processes that take turns,
each with machine code of its own; the smallest CPU time counts.  A ratio above 1 says that the
kernels for more arms win.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TURNS = 3
CLEAR = 1.1
"""How much faster kernels must be to be worth other draws."""

PROGRAM = """
import json, sys, time
settings, wanted = json.loads(sys.argv[1])
from bothworlds.lanes import rows
from bothworlds.omd import few
rows.FEW = settings.get("rows.FEW", rows.FEW)
few.FEW = settings.get("few.FEW", few.FEW)
few.MOST = few.FEW ** 0.5
import numpy as np
import bothworlds as bw
from bothworlds.engine.policy_loops import play
from bothworlds.policies import tsallis_inf
from bothworlds.policies.packed import pack
from bothworlds.seeding import stream_words
tsallis_inf.MANY = settings.get("MANY", tsallis_inf.MANY)

def tile(policy, K, rounds):
    world = bw.environments.Stochastic.gap(K, 0.125)
    result = bw.simulate(policy, world, horizon=rounds, repetitions=16, seed=1, threads=1,
                         progress=False)
    return result.cpu[repr(policy)] / (16 * rounds)

def one(policy, K, rounds):
    kernels = policy.program(K).kernels
    F = pack(policy, K, stream_words(1, "benchmark"))
    means = np.full(K, 0.5625)
    means[0] = 0.4375
    losses = (np.random.default_rng(0).random((512, K)) < means).astype(float)
    room = np.zeros(rounds, np.int64), np.zeros(rounds)
    began = time.process_time()
    play(kernels, F, 1, rounds, losses, *room)
    return (time.process_time() - began) / rounds

found = []
for way, estimator, K in wanted:
    rounds = (2_000_000 if way == "tile" else 4_000_000) // (K + 20)
    measure = {"tile": tile, "one": one}[way]
    policy = bw.TsallisINF(estimator=estimator)
    measure(policy, K, 64)
    found.append(min(measure(policy, K, rounds) for _ in range(3)) * 1e9)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Threshold:
    """A number of arms at which kernels change.

    Parameters
    ----------
    name : str
        As `PROGRAM` knows it.
    sizes : tuple of int
        Numbers of arms around it.
    low, high : int
        Values below and above all of them.
    ways : tuple of str
        ``tile`` for sixteen repetitions in the engine, ``one`` for one bandit in a compiled loop.
    """

    name: str
    sizes: tuple[int, ...]
    low: int
    high: int
    ways: tuple[str, ...] = ("tile", "one")


THRESHOLDS = (
    Threshold("rows.FEW", (2, 3, 4, 5, 6, 8, 12), 1, 16, ("tile",)),
    Threshold("few.FEW", (3, 4, 6, 8, 9, 10, 12, 14, 16), 2, 16),
    Threshold("MANY", (32, 48, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024), 2, 10**9),
)


def measured(
    settings: dict[str, int], wanted: list[tuple[str, str, int]], cache: str
) -> list[float]:
    """Return nanoseconds a round of every case, played by another process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", PROGRAM, json.dumps([settings, wanted])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"A process with {settings} failed:\n{done.stderr}")
    found: list[float] = json.loads(done.stdout)
    return found


def both_sides(
    threshold: Threshold, wanted: list[tuple[str, str, int]], folder: Path
) -> tuple[list[float], list[float]]:
    """Return what the kernels for fewer and for more arms take, the best of several turns."""
    best = [[math.inf] * len(wanted) for _ in range(2)]
    for _ in range(TURNS):
        for side, value in enumerate((threshold.high, threshold.low)):
            cache = folder / f"{threshold.name}.{value}"
            found = measured({threshold.name: value}, wanted, str(cache))
            best[side] = list(map(min, best[side], found))
    return best[0], best[1]


def crossing(sizes: tuple[int, ...], ratios: list[float]) -> str:
    """Return from which size on the kernels for more arms win, and where they do clearly."""
    winning = [size for n, size in enumerate(sizes) if all(r > 1.0 for r in ratios[n:])]
    clearly = [size for n, size in enumerate(sizes) if all(r >= CLEAR for r in ratios[n:])]
    if not winning:
        return f"the kernels for fewer arms win up to {sizes[-1]}"
    clear = f"clearly from {clearly[0]}" if clearly else "nowhere clearly"
    return f"the kernels for more arms win from {winning[0]}, {clear}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for threshold in THRESHOLDS:
            cases = [(way, each) for way in threshold.ways for each in ("iw", "rv")]
            wanted = [(way, each, K) for way, each in cases for K in threshold.sizes]
            fewer, more = both_sides(threshold, wanted, Path(folder))
            n = len(threshold.sizes)
            print(f"{threshold.name}: ns with kernels for fewer / for more arms, and the ratio")
            for part, (way, each) in enumerate(cases):
                few, many = (side[part * n : (part + 1) * n] for side in (fewer, more))
                ratios = [a / b for a, b in zip(few, many, strict=True)]
                print(f"  {way}, {each}: {crossing(threshold.sizes, ratios)}")
                for K, a, b, ratio in zip(threshold.sizes, few, many, ratios, strict=True):
                    print(f"    K = {K:5d} {a:9.1f} {b:9.1f} {ratio:7.2f}", flush=True)


if __name__ == "__main__":
    main()
