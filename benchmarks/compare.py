"""Side-by-side comparison with another source tree: ``benchmarks compare --against PATH``.

The same small set runs alternately with this tree's package and the other's, each in a process of
its own, and the best of several turns counts. Only CPU time is taken, so a busy machine disturbs
little, and both trees alike. ``benchmarks worlds --against PATH`` does the same for simulations of
eight policies in three worlds: in one a leader stays, in one it changes, in one it comes and goes.
``NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES=""`` measures both trees with AVX2.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import results

HERE = Path(__file__).resolve().parents[1]
TURNS = 5
COMMON = """
import json, time
import bothworlds as bw

def simulate(policy, world, horizon, repetitions, tries):
    best = float("inf")
    for _ in range(tries):
        result = bw.simulate(policy, world, horizon=horizon, repetitions=repetitions, seed=1,
                             threads=1, progress=False)
        best = min(best, result.cpu[repr(policy)] / (horizon * repetitions))
    return best * 1e9
"""
SMALL = """

def decide(policy, n_arms, rounds):
    bandit = bw.Bandit(policy, arms=n_arms, seed=1)
    ask, tell = bandit.ask, bandit.tell
    for _ in range(rounds // 4 + 1):
        tell(ask(), loss=0.5)
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for n in range(rounds):
            tell(ask(), loss=float(n & 1))
        best = min(best, (time.process_time() - began) / rounds)
    return best * 1e6

found = {}
for estimator in ("rv", "iw"):
    policy = bw.TsallisINF(estimator=estimator)
    for n_arms, rounds in ((2, 20_000), (8, 20_000), (64, 5_000), (1024, 2_000)):
        found[f"decide {estimator} K={n_arms}"] = decide(policy, n_arms, rounds)
    for n_arms, horizon in ((2, 200_000), (8, 100_000), (32, 40_000), (128, 10_000), (1024, 1_500)):
        world = bw.environments.Stochastic.gap(n_arms, 0.125)
        found[f"simulate {estimator} K={n_arms}"] = simulate(policy, world, horizon, 32, 4)
print(json.dumps(found))
"""
WORLDS = """
worlds = {
    "stochastic": bw.environments.Stochastic.gap,
    "switching": bw.environments.Switching,
    "adversary": bw.environments.AdversarialWithGap,
}
policies = {
    "RV": bw.TsallisINF(),
    "IW": bw.TsallisINF(estimator="iw"),
    "RV alpha=.25": bw.TsallisINF(alpha=0.25),
    "IW alpha=.25": bw.TsallisINF(alpha=0.25, estimator="iw"),
    "IW alpha=.75": bw.TsallisINF(alpha=0.75, estimator="iw"),
    "EXP3": bw.Exp3(),
    "EXP3++": bw.Exp3PlusPlus(),
    "BROAD": bw.Broad(horizon=300_000),
}
found = {}
for n_arms, horizon in ((2, 300_000), (8, 300_000), (32, 100_000)):
    for where, world in worlds.items():
        for who, policy in policies.items():
            found[f"{who} {where} K={n_arms}"] = simulate(
                policy, world(n_arms, gap=0.125), horizon, 16, 2
            )
print(json.dumps(found))
"""


def unit(name: str) -> str:
    """Return the unit of a figure of the set."""
    return "us" if name.startswith("decide") else "ns"


def measured(tree: Path, cells: str) -> dict[str, float]:
    """Run the cells of a set once with the package of a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        [sys.executable, "-c", COMMON + cells], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"The package of {tree} did not run the set:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def best(tries: list[dict[str, float]]) -> dict[str, float]:
    """Return the smallest figure of every name."""
    return {name: min(found[name] for found in tries) for name in tries[0]}


def main(
    against: Path | None = None, turns: int = TURNS, cells: str = SMALL
) -> dict[str, tuple[float, str]]:
    """Print the set, with that of another tree if one is given; return this tree's figures."""
    trees = [HERE] if against is None else [HERE, against]
    for tree in trees:
        measured(tree, cells)  # compiles
    tries: list[list[dict[str, float]]] = [[] for _ in trees]
    for _ in range(turns):
        for tree, found in zip(trees, tries, strict=True):
            found.append(measured(tree, cells))
    ours = best(tries[0])
    theirs = best(tries[1]) if against else {}
    other = f"; ratio to {against}" if against else ""
    print(f"{results.processor()}: CPU time, best of {turns} turns{other}")
    for name, value in ours.items():
        other = f" {theirs[name]:10.2f} {value / theirs[name]:7.3f}" if against else ""
        print(f"  {name:24s} {value:10.2f} {unit(name)}{other}", flush=True)
    if against:
        mean = math.exp(sum(math.log(ours[n] / theirs[n]) for n in ours) / len(ours))
        print(f"  {'geometric mean':24s} {'':24} {mean:7.3f}")
    return {name: (value, unit(name)) for name, value in ours.items()}
