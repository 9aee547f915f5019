"""Speed of `bw.simulate`, as ratios measured side by side in one run.

Every figure is CPU time per round and repetition on one core, the best of several tries, unless
the line says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import bothworlds as bw
from benchmarks import hand_written, reference
from bothworlds import registry
from bothworlds.environments.base import Environment
from bothworlds.policies.base import Policy

SIZES = ((2, 2_000_000), (8, 1_000_000), (32, 200_000), (128, 60_000), (1024, 8_000))
GAP = 1 / 8
BESIDE = (2, 8, 64)
"""Numbers of arms at which every policy is measured."""
ALPHAS = (0.0, 0.25, 0.75, 1.0)
"""Powers of the entropy away from 1/2 that are measured."""
LENGTHS = (10_000, 1_000_000, 10_000_000)
"""Rounds of the runs in which late rounds are measured."""
SHORT_RUNS, LONG_RUNS = 64, 16
"""Runs of the shortest lengths and of the others: to begin a curve takes as long as 6e4 rounds."""
EQUAL = 100_000
"""Rounds of the runs among equal arms."""
LONG = (2, 8, 32)
"""Numbers of arms of the long runs."""
RUNS = 32
TRIES = 5
PIECE = 0.3e9
"""About how many nanoseconds one measurement of a policy takes."""


def best_of(measure: Callable[[], float], tries: int = TRIES) -> float:
    """Return the smallest of several measurements."""
    return min(measure() for _ in range(tries))


def simulated(policy: Policy, world: Environment, horizon: int, runs: int = RUNS) -> float:
    """Return nanoseconds per round and repetition through `bw.simulate`, on one thread."""

    def once() -> float:
        result = bw.simulate(
            policy, world, horizon=horizon, repetitions=runs, seed=1, threads=1, progress=False
        )
        return result.cpu[repr(policy)] / (horizon * runs) * 1e9

    once()
    return best_of(once)


def scalar(n_arms: int, horizon: int, reduced_variance: bool) -> float:
    """Return nanoseconds per round of the paper's algorithm as a plain scalar loop."""

    def once() -> float:
        began = time.process_time()
        reference.play(n_arms, horizon, GAP, reduced_variance, 1)
        return (time.process_time() - began) / horizon * 1e9

    once()
    return best_of(once)


def in_c(n_arms: int, horizon: int, reduced_variance: bool, runs: int = RUNS) -> float | None:
    """Return nanoseconds per round and repetition of the hand-written C, None without compiler."""
    if hand_written.compiler() is None:
        return None

    def once() -> float:
        began = time.process_time()
        hand_written.play(n_arms, horizon, GAP, reduced_variance, 1, runs)
        return (time.process_time() - began) / (horizon * runs) * 1e9

    once()
    return best_of(once)


def division_floor() -> float:
    """Return nanoseconds for 1024 divisions, the least a round with one for every arm needs."""
    values = np.random.default_rng(0).random(16 * 1024) + 1.0

    def once() -> float:
        began = time.process_time()
        reference.divisions(values, 1000)
        return (time.process_time() - began) / 1000 / 16 * 1e9

    once()
    return best_of(once)


def cell(value: float | None, width: int, digits: int) -> str:
    """Return a figure right-aligned, or a dash where there is none."""
    return f"{'-':>{width}s}" if value is None else f"{value:{width}.{digits}f}"


def beside_both(name: str, ours: float, c: float | None, theirs: float) -> str:
    """Return the line of one policy compared with the loop in C and the scalar one."""
    figures = cell(ours, 10, 1) + cell(c, 10, 1) + cell(c and ours / c, 14, 2)
    return f"  {name:8s}" + figures + cell(theirs, 14, 1) + cell(theirs / ours, 19, 1)


def beside_c(name: str, costs: list[float], c: float | None) -> str:
    """Return the line of one policy in runs of several lengths, compared with the loop in C."""
    lengths = "".join(cell(cost, 10, 1) + cell(c and cost / c, 8, 2) for cost in costs)
    return f"  {name:8s}" + cell(c, 10, 1) + lengths


def against_loops() -> None:
    """Print Tsallis-INF compared with the loop in C and the scalar one, for every K."""
    print("Tsallis-INF in Stochastic: ns per round, compared with loops that look at every arm")
    heads = f"{'simulate':>10s}{'C':>10s}{'simulate / C':>14s}{'scalar Numba':>14s}"
    print(f"  {'':8s}{heads}{'scalar / simulate':>19s}")
    last = {}
    for estimator in ("iw", "rv"):
        for n_arms, horizon in SIZES:
            world = bw.environments.Stochastic.gap(n_arms, GAP)
            ours = simulated(bw.TsallisINF(estimator=estimator), world, horizon)
            c = in_c(n_arms, horizon, estimator == "rv")
            theirs = scalar(n_arms, horizon, estimator == "rv")
            print(beside_both(f"{estimator.upper()} {n_arms}", ours, c, theirs), flush=True)
            last[estimator] = ours, c
    floor = division_floor()
    units = ", ".join(
        f"{estimator.upper()} {ours / floor:.2f} (C {cell(c and c / floor, 0, 2)})"
        for estimator, (ours, c) in last.items()
    )
    print(f"At K = 1024, in units of the division floor ({floor:.0f} ns):\n  {units}\n")


def late_rounds() -> None:
    """Print what a round costs in runs of three lengths, and where no arm leads: all are equal."""
    print("Tsallis-INF in Stochastic: ns per round by the length of a run, relative to C")
    names = [*(f"T = {horizon:.0e}" for horizon in LENGTHS), "no leader"]
    heads = "".join(f"{name:>10s}{'/ C':>8s}" for name in names)
    print(f"  {'':8s}{'C':>10s}{heads}")
    for estimator in ("iw", "rv"):
        for n_arms, _ in SIZES:
            world = bw.environments.Stochastic.gap(n_arms, GAP)
            policy = bw.TsallisINF(estimator=estimator)
            runs = [SHORT_RUNS, *[LONG_RUNS] * (len(LENGTHS) - 1)]
            costs = [simulated(policy, world, *each) for each in zip(LENGTHS, runs, strict=True)]
            equal = bw.environments.Stochastic([0.5] * n_arms)
            costs.append(simulated(policy, equal, EQUAL, SHORT_RUNS))
            # A loop that looks at every arm takes the same however long it runs.
            c = in_c(n_arms, LENGTHS[0], estimator == "rv", SHORT_RUNS)
            print(beside_c(f"{estimator.upper()} {n_arms}", costs, c), flush=True)
    print()


def one_and_many_runs() -> None:
    """Print what a round costs in a single long run and in many short ones, all work included."""
    print("Tsallis-INF in Stochastic, K = 8: ns per round, IW and RV")
    world = bw.environments.Stochastic.gap(8, GAP)

    def whole(estimator: str, runs: int, horizon: int) -> float:
        began = time.process_time()
        bw.simulate(
            bw.TsallisINF(estimator=estimator), world,
            horizon=horizon, repetitions=runs, seed=1, threads=1, progress=False,
        )  # fmt: skip
        return (time.process_time() - began) / (horizon * runs) * 1e9

    for name, runs, horizon in (("one run", 1, 1_000_000), ("1,024 runs", 1024, 1_000)):
        costs = []
        for estimator in ("iw", "rv"):
            whole(estimator, runs, horizon)
            costs.append(best_of(partial(whole, estimator, runs, horizon)))
        row = "".join(f"{cost:8.1f}" for cost in costs)
        print(f"  {f'{name} of {horizon:,} rounds':30s}{row}", flush=True)
    print()


def across_environments() -> None:
    """Print what a round costs where the world moves or is corrupted, relative to Stochastic."""
    print("Tsallis-INF (RV) in other regimes, relative to Stochastic")
    for n_arms, horizon in SIZES[:3]:
        still = bw.environments.Stochastic.gap(n_arms, GAP)
        base = simulated(bw.TsallisINF(), still, horizon)
        moving = simulated(bw.TsallisINF(), bw.environments.Switching(n_arms, GAP), horizon)
        corrupted = bw.environments.Corrupted(still, budget=100.0)
        attacked = simulated(bw.TsallisINF(), corrupted, horizon)
        print(f"  K = {n_arms:2d}: Switching {moving / base:.2f}, Corrupted {attacked / base:.2f}",
              flush=True)  # fmt: skip
    print()


def across_policies() -> None:
    """Print every policy, compared with Tsallis-INF (RV) in the same run."""
    print("Policies in Stochastic: ns per round, and relative to Tsallis-INF (RV)")
    labels = {variant.label: made for made, variant in _variants()}
    print(f"  {'':27s}" + "".join(f"{f'K = {n_arms}':>18s}" for n_arms in BESIDE))
    worlds = {n_arms: bw.environments.Stochastic.gap(n_arms, GAP) for n_arms in BESIDE}
    base: dict[int, float] = {}
    for label, made in labels.items():
        row = f"  {label:27s}"
        for n_arms, world in worlds.items():
            once, each = made(2).traits.nanoseconds
            horizon = int(min(100_000, max(500, PIECE / (RUNS * (once + each * n_arms)))))
            cost = simulated(made(horizon), world, horizon)
            row += f" {cost:10.1f} {cost / base.setdefault(n_arms, cost):6.2f}"
        print(row, flush=True)
    print()


def across_alphas() -> None:
    """Print Tsallis-INF away from alpha = 1/2, compared with the scalar loop at 1/2."""
    print("Tsallis-INF at any alpha: ns per round, and relative to the scalar loop at alpha = 1/2")
    print(f"  {'':27s}" + "".join(f"{f'K = {n_arms}':>18s}" for n_arms in BESIDE))
    lengths = {n_arms: 800_000 // max(n_arms, 8) for n_arms in BESIDE}
    for estimator in ("iw", "rv", "soft"):
        base = {n: scalar(n, rounds, estimator != "iw") for n, rounds in lengths.items()}
        for alpha in ALPHAS:
            for name, known in (("", False), (" gaps=", True)):
                row = f"  {f'{estimator.upper()} {alpha}{name}':27s}"
                for n_arms, rounds in lengths.items():
                    world = bw.environments.Stochastic.gap(n_arms, GAP)
                    gaps = [0.0] + [GAP] * (n_arms - 1) if known else None
                    policy = bw.TsallisINF(alpha=alpha, estimator=estimator, gaps=gaps)
                    cost = simulated(policy, world, rounds, runs=16)
                    row += f" {cost:10.1f} {cost / base[n_arms]:6.2f}"
                print(row, flush=True)
    print()


def by_a_level() -> None:
    """Print the policies that compare with a level, over runs long enough for it to decide."""
    print("By a level: ns per round of long runs (Stochastic, Switching, all arms equal)")
    for policy, horizon in ((bw.ThompsonSampling(), 1_000_000), (bw.KLUCB(), 100_000)):
        for n_arms in LONG:
            worlds: tuple[Environment, ...] = (
                bw.environments.Stochastic.gap(n_arms, GAP),
                bw.environments.Switching(n_arms, GAP),
                bw.environments.Stochastic([0.5] * n_arms),
            )
            costs = [simulated(policy, world, horizon, runs=16) for world in worlds]
            row = "".join(f" {cost:10.1f}" for cost in costs)
            print(f"  {policy!r:20s} K = {n_arms:2d}{row}", flush=True)
    print()


def _variants() -> list[tuple[Callable[[int], Policy], registry.Variant]]:
    """Return every variant of every policy, made for a horizon; Tsallis-INF (RV) comes first."""
    return [(partial(entry.made, variant), variant) for entry, variant in registry.words().values()]


def across_threads() -> None:
    """Print the speed-up of two threads over one, in wall time."""
    world = bw.environments.Stochastic.gap(8, GAP)

    def wall(threads: int) -> float:
        began = time.perf_counter()
        bw.simulate(
            bw.TsallisINF(), world, horizon=100_000, repetitions=256, seed=1, threads=threads,
            progress=False,
        )  # fmt: skip
        return time.perf_counter() - began

    wall(2)
    ratio = best_of(lambda: wall(1), 3) / best_of(lambda: wall(2), 3)
    print(f"Two threads against one: {ratio:.2f} times faster\n")


def main() -> None:
    """Run all of it."""
    if hand_written.compiler() is None:
        print(hand_written.ABSENT)
    against_loops()
    late_rounds()
    one_and_many_runs()
    across_environments()
    across_policies()
    across_alphas()
    by_a_level()
    across_threads()


if __name__ == "__main__":
    main()
