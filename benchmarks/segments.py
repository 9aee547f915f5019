"""Regret with segments, compared with one experiment for all and with one for each segment.

Means and their standard errors over independent runs with fixed seeds, so the table comes out the
same everywhere; nothing is timed.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

import bothworlds as bw

RUNS, ROUNDS, SEGMENTS, ARMS = 20, 10_000, 20, 5
PRIORS = (100, 300, 1000)
GOOD, BAD = 0.4, 0.5


def means(differing: float) -> NDArray[np.float64]:
    """Return the mean losses by segment and arm; a share of the segments has other best arms."""
    found = np.full((SEGMENTS, ARMS), BAD)
    every = round(1 / differing) if differing else SEGMENTS + 1
    for segment in range(SEGMENTS):
        other = segment % every == every - 1
        found[segment, 1 + segment % (ARMS - 1) if other else 0] = GOOD
    return found


def regret(table: NDArray[np.float64], rounds: int, prior: int | None, run: int) -> float:
    """Return the pseudo-regret of a run; with a prior of None all segments are one."""
    rng = np.random.default_rng(run)
    # Segment n has 1 / n of the traffic of the first.
    sizes = 1.0 / np.arange(1, SEGMENTS + 1)
    asked = rng.choice(SEGMENTS, rounds, p=sizes / sizes.sum())
    bandit = bw.SegmentedBandit(
        bw.TsallisINF(), arms=ARMS, prior=prior or 0, seed=run, evidence=False
    )
    found = 0.0
    for segment, u in zip(asked.tolist(), rng.random(rounds).tolist(), strict=True):
        decision = bandit.ask("all" if prior is None else f"{segment}")
        mean = table[segment, decision.index]
        bandit.tell(decision, loss=float(u < mean))
        found += mean - table[segment].min()
    return found


def table(runs: int = RUNS, rounds: int = ROUNDS) -> list[str]:
    """Return the lines of the table, in Markdown."""
    kinds = {"no segments": None, "separate": 0, **{f"prior {n:,}": n for n in PRIORS}}
    lines = [
        f"| segments with another best arm | {' | '.join(kinds)} |",
        "|---|" + "---:|" * len(kinds),
    ]
    for differing, said in ((0.0, "none"), (0.25, "a quarter"), (1.0, "all")):
        cells = []
        for prior in kinds.values():
            each = [regret(means(differing), rounds, prior, run) for run in range(runs)]
            cells.append(f"{np.mean(each):.0f} ± {np.std(each, ddof=1) / np.sqrt(runs):.0f}")
        lines.append(f"| {said} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Print the table; ``python -m benchmarks.segments 5 2000`` has 5 runs of 2,000 rounds."""
    given = [int(each) for each in sys.argv[1:3] if each.isdigit()]
    for line in table(*given):
        print(line, flush=True)


if __name__ == "__main__":
    main()
