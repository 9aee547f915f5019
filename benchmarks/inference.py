"""Coverage of intervals, sequences and gaps over many runs, and what keeping the sums costs."""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import bothworlds as bw
from bothworlds.evidence import bounds, layout

RUNS = 200
ROUNDS = 3000
FLOOR = bw.Floor(bw.TsallisINF(), 0.5)

CELLS: list[tuple[str, Any, tuple[float, ...]]] = [
    ("0.4 / 0.6, no floor", bw.TsallisINF(), (0.4, 0.6)),
    ("0.4 / 0.6, floor 0.5", FLOOR, (0.4, 0.6)),
    ("0.4 / 0.6 x 3, floor 0.5", FLOOR, (0.4, 0.6, 0.6, 0.6)),
    ("0.95 / 0.98 x 2, floor 0.5", FLOOR, (0.95, 0.98, 0.98)),
    ("tie 0.5 / 0.5, floor 0.5", FLOOR, (0.5, 0.5)),
]


def played(policy: Any, means: tuple[float, ...], seed: int) -> Any:
    """Return the evidence of one run."""
    bandit = bw.Bandit(policy, arms=len(means), seed=seed)
    for u in np.random.default_rng(seed).random(ROUNDS).tolist():
        decision = bandit.ask()
        bandit.tell(decision, loss=1.0 if u < means[decision.index] else 0.0)
    return bandit._core.keeper.evidence


def plain(evidence: Any, arm: int) -> bool:
    """Return the plain average's interval."""
    n, p = evidence.row(layout.N)[arm], bounds.plain_mean(evidence, arm)
    reach = 1.96 * math.sqrt(max(p * (1 - p), 1e-12) / n)
    return p - reach, p + reach


def coverage() -> None:
    print(f"{RUNS} runs of {ROUNDS:,} rounds at 95 %; misses and claims at any time, in %")
    heads = ("best arm", "last arm")
    print(f"{'':28}" + "".join(f"{head:>34}" for head in heads) + f"{'false gaps':>12}")
    part = f"{'plain':>10}{'AIPW':>8}{'sequence misses':>16}"
    print(f"{'':28}{part}{part}")
    for name, policy, means in CELLS:
        runs = [played(policy, means, seed) for seed in range(RUNS)]
        line = f"{name:28}"
        for arm in (0, len(means) - 1):
            inside = [low <= means[arm] <= high for low, high in (plain(e, arm) for e in runs)]
            ours = [bounds.interval(e, arm, 0.95) for e in runs]
            covered = [low <= means[arm] <= high for low, high in ours]
            ends = [bounds.sequence(e, arm, 0.95) for e in runs]
            missed = [e is None or not e[0] <= means[arm] <= e[1] for e in ends]
            line += f"{100 * np.mean(inside):10.1f}{100 * np.mean(covered):8.1f}"
            line += f"{100 * np.mean(missed):16.1f}"
        last = len(means) - 1
        wrong = [bounds.gap(e, last, 0, 0.95) > 0 for e in runs]
        print(f"{line}{100 * np.mean(wrong):12.1f}")


def best_of(act: Callable[[], Any], times: int = 7) -> float:
    """Return the least CPU time of several tries."""
    found = []
    for _ in range(times):
        began = time.process_time()
        act()
        found.append(time.process_time() - began)
    return min(found)


def rounds_of(bandit: Any, n: int = 20_000) -> Callable[[], None]:
    def play() -> None:
        for _ in range(n):
            bandit.tell(bandit.ask(), loss=0.5)

    return play


def cost() -> None:
    print("\nask + tell in microseconds, without and with the sums of a report")
    for K in (2, 8, 64):
        with_sums = bw.Bandit(bw.TsallisINF(), K, seed=1)
        without = bw.Bandit(bw.TsallisINF(), K, seed=1, evidence=False)
        took = [math.inf, math.inf]
        for _ in range(9):
            for place, bandit in enumerate((without, with_sums)):
                took[place] = min(took[place], best_of(rounds_of(bandit), 1) / 20_000 * 1e6)
        share = took[1] / took[0] - 1
        print(f"{f'K = {K}':28}{took[0]:10.2f}{took[1]:10.2f}  (+{share:.0%}, allowed 10 %)")
    report = best_of(with_sums.report)
    print(f"{'report of 64 arms':28}{1e3 * report:10.1f} ms  (allowed 50)")
    n, K = 1_000_000, 4
    rng = np.random.default_rng(1)
    w = np.array([0.7, 0.1, 0.1, 0.1])
    arms = rng.choice(K, p=w, size=n)
    log = {
        "arm": arms,
        "probability": w[arms],
        "loss": (rng.random(n) < 0.5).astype(float),
        "arms": list(range(K)),
        "probabilities": np.tile(w, (n, 1)),
    }
    for name, act in (
        ("report of 1e6 rows", partial(bw.inference.report, log)),
        ("value of 1e6 rows", partial(bw.inference.value, log, "uniform")),
    ):
        print(f"{name:28}{best_of(act, 2):10.2f} s   (allowed 2)")


def main() -> None:
    coverage()
    cost()


if __name__ == "__main__":
    main()
