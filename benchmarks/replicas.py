"""Regret of many replicas of the decision service that share their state as the service does.

Every replica makes a thousand decisions a second, learns at once from its own feedback, and from
that of the others whenever it refreshes: every so often, and when a replica announces that its
learned state has grown by a quarter, as `bothworlds.serve.store.postgres` does.  Where the order of
feedback matters, a replica commits its feedback every so often, in turn with the others, and then
takes over the fold that all replicas continue.  Means over runs with fixed seeds; nothing is timed.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

import bothworlds as bw
from bothworlds.lanes.kernels import HEAD, PARAMETERS, ROUND
from bothworlds.policies.base import Policy
from bothworlds.policies.late import no_change
from bothworlds.policies.packed import pack
from bothworlds.seeding import stream_words
from bothworlds.serve.domain.folds import Fold, FoldedLineup, Order
from bothworlds.serve.domain.records import CARRIED, encode
from bothworlds.serve.store.postgres import GROWTH
from bothworlds.serve.store.rows import FeedbackRow

K, GAP = 8, 0.125
RATE = 1_000
"""Decisions of a replica in a second."""
SECONDS = 100
REPLICAS = (10, 100)
INTERVALS = (0.2, 1, 5, 20, 60)
RUNS = {10: 16, 100: 8}

IN_ORDER = (
    bw.TsallisINF(estimator="soft"),
    bw.TsallisINFV(),
    bw.HTINF(scale=1.0),
    bw.AllWorlds(),
    bw.Discounted(),
    bw.Alarmed(),
)
"""Policies that learn in order; they are played in Python, so with a larger gap and shorter."""
ORDERED_REPLICAS, ORDERED_GAP, ORDERED_SECONDS, ORDERED_RUNS = 4, 0.25, 2.5, 16
COMMITS = (0.004, 0.02, 0.1, 0.2)
"""Seconds between the commits of a replica that learns in order."""
POLL = 0.2
"""Seconds between the refreshes of a replica, the default of the service."""


def player(policy: Policy) -> Any:
    """Return a compiled run of replicas of one experiment."""
    kernels = policy.kernels()
    ask, tell = kernels.ask, kernels.tell
    changed = kernels.estimates_changed or no_change
    head = policy.traits.head_rows

    @numba.njit(nogil=True, error_model="numpy")
    def play(states: Any, ticks: int, between: int, means: Any, seed: int) -> float:
        np.random.seed(seed)
        replicas, K = states.shape[0], means.size
        start = HEAD + int(states[0, PARAMETERS])
        first = start + head
        before = np.zeros((replicas, K))
        total = np.zeros(K)
        known, since, announced, regret = 0, 0, 0.0, 0.0
        for tick in range(ticks):
            # All replicas have learned from as many answers, so they announce at the same time.
            announcing = tick > GROWTH * announced
            if announcing:
                announced = tick
            if announcing or tick % between == 0:
                for r in range(replicas):
                    for i in range(K):
                        total[i] += states[r, first + i] - before[r, i]
                total -= total.min()
                known, since = tick * replicas, tick
                for r in range(replicas):
                    for i in range(K):
                        states[r, first + i] = before[r, i] = total[i]
                    changed(states[r])
            for r in range(replicas):
                F = states[r]
                F[ROUND] = known + tick - since + 1
                arm = ask(F)
                inverse_p = F[start]
                loss = 1.0 if np.random.random() < means[arm] else 0.0
                tell(F, arm, inverse_p, loss)
                regret += means[arm] - means[0]
        return regret

    return play


def regrets(
    play: Any, policy: Policy, replicas: int, interval: float, ticks: int, runs: int
) -> list[float]:
    """Return the pseudo-regret of each run."""
    means = np.full(K, 0.5 + GAP / 2)
    means[0] = 0.5 - GAP / 2
    between = max(1, round(interval * RATE))

    def one(run: int) -> float:
        states = np.array(
            [pack(policy, K, stream_words(run, f"replica {r}")) for r in range(replicas)]
        )
        return float(play(states, ticks, between, means, run))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, range(runs)))


def regrets_in_order(
    policy: Policy, replicas: int, interval: float, ticks: int, runs: int
) -> list[float]:
    """Return the pseudo-regret of each run of replicas that continue one fold."""
    between = max(1, round(interval * RATE))
    return [_run_in_order(policy, replicas, between, ticks, run) for run in range(runs)]


def _run_in_order(policy: Policy, replicas: int, between: int, ticks: int, run: int) -> float:
    random = np.random.default_rng(run)
    shared = Fold.blank(Order(policy), range(K), K)
    lineup = FoldedLineup(policy, policy, range(K), K)
    views, waiting = [shared.copy() for _ in range(replicas)], [[] for _ in range(replicas)]
    known, learned, announced, regret = [0] * replicas, [0] * replicas, [0.0] * replicas, 0.0
    for tick in range(ticks):
        for r, view in enumerate(views):
            number = known[r] + len(waiting[r]) + 1
            drawn = lineup.draw(view, number, random.random())
            gap = ORDERED_GAP * (drawn.arm > 0)
            regret += gap
            loss = float(random.random() < 0.5 - ORDERED_GAP / 2 + gap)
            flags = drawn.near | (CARRIED if drawn.carried else 0)
            raw = encode(
                0, 0, 0, drawn.arm, K, number, bytes(16), drawn.inverse_p, flags, drawn.baseline,
                drawn.mask, carried=drawn.carried,
            )  # fmt: skip
            row = FeedbackRow(0, bytes(16), 0, raw, loss, "client", "learned", 0.0, None)
            waiting[r].append(row._replace(latest=number))
        refreshing = set(range(replicas)) if (tick + 1) % round(POLL * RATE) == 0 else set()
        for r in range(replicas):
            if (tick + 1 + r * between // replicas) % between == 0:
                shared.learn(waiting[r])
                learned[r] += len(waiting[r])
                waiting[r].clear()
                refreshing.add(r)
                if learned[r] > GROWTH * announced[r]:
                    announced[r] = learned[r]
                    refreshing.update(range(replicas))
        for r in refreshing:
            views[r] = shared.copy()
            known[r] = sum(learned)
    return regret


def main_in_order() -> None:
    """Print a table of the policies that learn in order."""
    n, ticks = ORDERED_REPLICAS, round(ORDERED_SECONDS * RATE)
    print(f"\nIn order, gap {ORDERED_GAP:g}, {n} replicas, {ORDERED_SECONDS:g} s\n")
    heads = ["one replica", *(f"{n}, a commit every {each:g} s" for each in COMMITS)]
    print("| policy | " + " | ".join(heads) + " |")
    print("|---|" + "--:|" * len(heads))
    for policy in IN_ORDER:
        cells = [said(regrets_in_order(policy, 1, 0.0, n * ticks, ORDERED_RUNS))]
        for interval in COMMITS:
            cells.append(said(regrets_in_order(policy, n, interval, ticks, ORDERED_RUNS)))
        print(f"| `{policy!r}` | " + " | ".join(cells) + " |", flush=True)


def main(seconds: float = SECONDS, most: int = REPLICAS[-1]) -> None:
    """Print a table for each estimator."""
    print(f"Regret, {K} arms, gap {GAP:g}, {seconds:g} s, {RATE:,} decisions/s of each replica:")
    print("mean (standard error) over runs; in the first column one state, known at once")
    heads = ["decisions", "one state", *(f"every {interval:g} s" for interval in INTERVALS)]
    for policy in (bw.TsallisINF(), bw.TsallisINF(estimator="iw")):
        play = player(policy)
        print(f"\n{policy!r}\n")
        print("| replicas | " + " | ".join(heads) + " |")
        print("|--:|" + "--:|" * len(heads))
        for replicas in REPLICAS:
            if replicas <= most:
                print(line(play, policy, replicas, round(seconds * RATE)), flush=True)
    main_in_order()


def line(play: Any, policy: Policy, replicas: int, ticks: int) -> str:
    """Return the row of the table for a number of replicas."""
    runs = RUNS[replicas]
    cells = [said(regrets(play, policy, 1, 1.0, ticks * replicas, runs))]
    for interval in INTERVALS:
        cells.append(said(regrets(play, policy, replicas, interval, ticks, runs)))
    return f"| {replicas:,} | {ticks * replicas:,} | " + " | ".join(cells) + " |"


def said(found: list[float]) -> str:
    """Return the mean of runs and its standard error.

    Examples
    --------
    >>> said([90.0, 110.0])
    '100 (10)'
    """
    spread = np.std(found, ddof=1) / np.sqrt(len(found))
    return f"{np.mean(found):,.0f} ({spread:,.0f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--most", type=int, default=REPLICAS[-1], help="replicas")
    main(**vars(parser.parse_args()))
