"""Regret of every policy with answers in batches: nothing is learned until a batch is complete.

Means and their standard errors over independent runs with fixed seeds, so the table comes out the
same everywhere; nothing is timed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import bothworlds as bw
from bothworlds.policies.base import Policy
from bothworlds.registry import POLICIES

BATCHES = (1, 100, 1_000)
RUNS, ROUNDS = 300, 5_000
MEANS = np.array([0.4, 0.6, 0.6, 0.6])


def regrets(
    policy: Policy, batch: int, runs: int = RUNS, rounds: int = ROUNDS
) -> NDArray[np.float64]:
    """Return the pseudo-regret of each run, its answers coming when a batch is complete."""
    found = np.zeros(runs)
    for run in range(runs):
        rng = np.random.default_rng(run)
        # Which index is the best must not matter to a policy that breaks ties by index.
        means = rng.permutation(MEANS)
        losses = (rng.random((rounds, means.size)) < means).astype(np.float64)
        bandit = bw.Bandit(policy, arms=means.size, seed=run)
        for first in range(0, rounds, batch):
            if batch == 1:  # the same as below, in a tenth of the time
                decision = bandit.ask()
                arms = np.array([decision.index])
                bandit.tell(decision, loss=losses[first, decision.index])
            else:
                decisions = bandit.ask_many(min(batch, rounds - first))
                arms = np.array(decisions.arms)
                bandit.tell_many(decisions, losses[np.arange(first, first + arms.size), arms])
            found[run] += means[arms].sum() - arms.size * means.min()
    return found


def policies(horizon: int) -> dict[str, Policy]:
    """Return every policy of the package for one arm a round, by its label."""
    made = {
        variant.label: entry.made(variant, horizon)
        for entry in POLICIES.values()
        for variant in entry.variants
    }
    return {label: policy for label, policy in made.items() if policy.traits.kind == "bandit"}


def table(runs: int = RUNS, rounds: int = ROUNDS) -> list[str]:
    """Return the lines of the table, in Markdown."""
    lines = [
        "| policy | " + " | ".join(f"batches of {batch:,}" for batch in BATCHES) + " |",
        "|---|" + "---:|" * len(BATCHES),
    ]
    for label, policy in policies(rounds).items():
        cells = []
        for batch in BATCHES:
            seen = regrets(policy, batch, runs, rounds)
            cells.append(f"{seen.mean():.0f} ± {seen.std(ddof=1) / np.sqrt(runs):.0f}")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Print the table."""
    gap = MEANS.max() - MEANS.min()
    print(
        f"Regret after {ROUNDS:,} rounds, {MEANS.size} arms, gap {gap:g}: "
        f"mean ± standard error of {RUNS} runs"
    )
    print("\n".join(table()), flush=True)
