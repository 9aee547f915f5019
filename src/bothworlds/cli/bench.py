"""`bothworlds bench`: how fast this machine plays, measured in a few seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from bothworlds.cli import parse
from bothworlds.cli.console import command, console, new_table
from bothworlds.cli.options import option

if TYPE_CHECKING:
    from rich.table import Table

    from bothworlds.policies.base import Policy

ARMS = (2, 8, 32)
POLICIES = ("tsallis", "tsallis-iw", "ucb1", "thompson", "exp3", "exp3++", "broad")
GAP = 0.125


@command
def bench(
    seconds: Annotated[str, option("S")] = "0.03",
) -> None:
    """Measure nanoseconds per round on this machine, after compiling.

    The simulation runs on one thread, in the stochastic world with gap 1/8. The last line is a
    Bandit, one ask and one tell per round.

    Example: bothworlds bench

    Parameters
    ----------
    seconds : str
        About how long to measure each number.
    """
    least = parse.number(seconds, "--seconds")
    screen = console()
    screen.print(bench_table(least))
    screen.print(f"The best of three runs on one thread of {os.cpu_count()}; lower is better.")


def bench_table(seconds: float) -> Table:
    """Measure, and return the nanoseconds per round as a table."""
    table = new_table("Nanoseconds per round", [""], [f"{K} arms" for K in ARMS])
    for name in POLICIES:
        label, policy = parse.policy(name, 10**6)
        table.add_row(
            f"simulate, {label}", *(f"{_simulated(policy, K, seconds):,.1f}" for K in ARMS)
        )
    table.add_section()
    label, policy = parse.policy("tsallis")
    table.add_row(f"Bandit, {label}", *(f"{_asked(policy, K, seconds):,.0f}" for K in ARMS))
    return table


def _simulated(policy: Policy, K: int, seconds: float) -> float:
    """Return nanoseconds per round of one repetition, in a full tile on one thread."""
    from bothworlds.environments import Stochastic
    from bothworlds.lanes.types import LANES
    from bothworlds.simulation import simulate

    world = Stochastic.gap(K, GAP)

    def play(rounds: int) -> float:
        result = simulate(
            {"bench": policy},
            world,
            horizon=rounds,
            repetitions=LANES,
            checkpoints=[rounds],
            threads=1,
            progress=False,
        )
        if result.interrupted:
            raise KeyboardInterrupt
        return result.wall["bench"]

    return _per_round(play, seconds) / LANES


def _asked(policy: Policy, K: int, seconds: float) -> float:
    """Return nanoseconds per round of a bandit that decides and receives feedback in turn."""
    from bothworlds.bandit.bandit import Bandit

    bandit = Bandit(policy, K, seed=0)
    ask, tell = bandit.ask, bandit.tell

    def play(rounds: int) -> float:
        began = time.perf_counter()
        for _ in range(rounds):
            decision = ask()
            tell(decision, loss=1.0 if decision.index else 0.0)
        return time.perf_counter() - began

    return _per_round(play, seconds)


def _per_round(play: Callable[[int], float], seconds: float) -> float:
    """Play enough rounds to last ``seconds``, and return the nanoseconds of the best of three.

    Anything else the machine does can only make a run slower.
    """
    rounds = 500
    # The first run compiles.
    play(rounds)
    while play(rounds) < seconds:
        rounds *= 2
    return 1e9 * min(play(rounds) for _ in range(3)) / rounds
