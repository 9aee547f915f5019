"""Cost of a duel, in rounds of one Tsallis-INF bandit: at most 2.5 with a state on each side.

Every figure is CPU time per round and repetition on one core through `bw.simulate`, the best of
several tries; both contenders of a ratio take turns in one process.  The last lines are decisions
called from plain Python.
"""

from __future__ import annotations

import time

import numpy as np

import bothworlds as bw
from bothworlds.environments import Preferences, Stochastic, Utilities
from bothworlds.environments.base import Environment
from bothworlds.policies.base import Policy
from bothworlds.policies.sparring import Sparring

SIZES = ((2, 200_000), (8, 100_000), (32, 30_000), (128, 10_000))
GAP = 1 / 8
RUNS = 32
TRIES = 5
LIMIT = 2.5


def once(player: Policy | Sparring, world: Environment, horizon: int) -> float:
    """Return nanoseconds per round and repetition."""
    result = bw.simulate(
        {"x": player}, world, horizon=horizon, repetitions=RUNS, seed=1, threads=1, progress=False
    )
    return result.cpu["x"] / (horizon * RUNS) * 1e9


def in_rounds(sparring: Sparring, world: Environment, policy: Policy, horizon: int) -> float:
    """Return the cost of a duel divided by that of a round of one bandit, taking turns."""
    alone = Stochastic.gap(world.n_arms, GAP)
    duels, rounds = [], []
    once(sparring, world, horizon)
    once(policy, alone, horizon)
    for _ in range(TRIES):
        duels.append(once(sparring, world, horizon))
        rounds.append(once(policy, alone, horizon))
    return min(duels) / min(rounds)


def worlds(n_arms: int, horizon: int) -> dict[str, Environment]:
    """Return the same duels as constant utilities, a table of them, and a matrix."""
    u = np.array([0.5 + GAP / 2] + [0.5 - GAP / 2] * (n_arms - 1))
    return {
        "utilities": Utilities(u),
        "table": Utilities(np.tile(u, (horizon, 1))),
        "matrix": Preferences((1 + u[:, None] - u[None, :]) / 2),
    }


def engine() -> None:
    """Print both forms for every size and kind of environment."""
    print("Sparring Tsallis-INF in rounds of one bandit: two states, then one")
    print(f"{'K':>6}  {'':4}" + "".join(f"{name:>16}" for name in ("utilities", "table", "matrix")))
    worst = 0.0
    for n_arms, horizon in SIZES:
        for estimator in ("rv", "iw"):
            policy = bw.TsallisINF(estimator=estimator)
            cells = ""
            for world in worlds(n_arms, horizon).values():
                two, one = (
                    in_rounds(Sparring(policy, shared=shared), world, policy, horizon)
                    for shared in (False, True)
                )
                worst = max(worst, two)
                cells += f"{f'{two:.2f}  {one:.2f}':>16}"
            print(f"{n_arms:6d}  {estimator:4}{cells}", flush=True)
    verdict = "within" if worst <= LIMIT else "ABOVE"
    print(f"With two states up to {worst:.2f}: {verdict} the limit of {LIMIT}\n")


def decisions() -> None:
    """Print microseconds for a pair and its winner, from Python."""
    print("DuelingBandit, microseconds per pair: two states, one state; one Bandit's decision")
    for n_arms in (2, 8, 64):
        cells = ""
        for sparring in (Sparring(shared=False), Sparring()):
            duel = bw.DuelingBandit(sparring, n_arms, seed=1)

            def play(duel: bw.DuelingBandit = duel) -> None:
                duel.tell(duel.ask(), winner="left")

            cells += f"{microseconds(play):8.1f}"
        bandit = bw.Bandit(bw.TsallisINF(), n_arms, seed=1)
        alone = microseconds(lambda bandit=bandit: bandit.tell(bandit.ask(), loss=0.5))
        print(f"  K = {n_arms:2d}{cells}{alone:8.1f}", flush=True)


def microseconds(play, rounds: int = 2000) -> float:
    """Return the best time of a call over several tries."""
    best = float("inf")
    for _ in range(TRIES):
        began = time.process_time()
        for _ in range(rounds):
            play()
        best = min(best, (time.process_time() - began) / rounds * 1e6)
    return best


def main() -> None:
    """Run all of it."""
    engine()
    decisions()


if __name__ == "__main__":
    main()
