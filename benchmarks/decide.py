"""Speed of one decision: `Bandit.ask` and `Bandit.tell` compared with other libraries.

Every figure is CPU time for one decision with its feedback, called from plain Python, the best of
several tries; all contenders of a line take turns in one process.  A peer that is not installed
is left out.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numba
import numpy as np

import bothworlds as bw
from bothworlds.bandit.state import first_row, pack
from bothworlds.lanes.direct import direct
from bothworlds.lanes.kernels import ROUND
from bothworlds.seeding import stream_words

SIZES = (2, 8, 64, 1024)
GAP = 1 / 8
TRIES = 7
SPAN = 0.03  # seconds per try
Play = Callable[[int], None]
"""Plays a number of rounds."""


def coin(n_arms: int) -> tuple[list[float], list[float]]:
    """Return the mean reward of every arm and a stock of uniform numbers."""
    means = [0.5 + GAP / 2] + [0.5 - GAP / 2] * (n_arms - 1)
    return means, np.random.default_rng(0).random(4096).tolist()


# --- ours --------------------------------------------------------------------------------------


def ours(policy: bw.policies.base.Policy) -> Callable[[int], Play]:
    def start(n_arms: int) -> Play:
        means, u = coin(n_arms)
        bandit = bw.Bandit(policy, arms=n_arms, seed=1)

        def play(rounds: int) -> None:
            for n in range(rounds):
                decision = bandit.ask()
                reward = 1.0 if u[n & 4095] < means[decision.index] else 0.0
                bandit.tell(decision, reward=reward)

        return play

    return start


# --- other ways to use one of ours ---------------------------------------------------------------


def one_late(n_arms: int) -> Play:
    """Tell every decision after the next one was made."""
    bandit = bw.Bandit(bw.TsallisINF(), arms=n_arms, seed=1)
    means, u = coin(n_arms)

    def play(rounds: int) -> None:
        before = bandit.ask()
        for n in range(rounds):
            decision = bandit.ask()
            bandit.tell(before, reward=1.0 if u[n & 4095] < means[before.index] else 0.0)
            before = decision
        bandit.tell(before, reward=0.0)

    return play


def half_available(n_arms: int) -> Play:
    """Choose among every other arm."""
    bandit = bw.Bandit(bw.TsallisINF(), arms=n_arms, seed=1)
    means, u = coin(n_arms)
    available = list(range(0, n_arms, 2))

    def play(rounds: int) -> None:
        for n in range(rounds):
            decision = bandit.ask(available)
            bandit.tell(decision, reward=1.0 if u[n & 4095] < means[decision.index] else 0.0)

    return play


def in_batches(n_arms: int) -> Play:
    """Ask for up to a thousand decisions at once, then tell all of them."""
    bandit = bw.Bandit(bw.TsallisINF(), arms=n_arms, seed=1)
    _, u = coin(n_arms)

    def play(rounds: int) -> None:
        while rounds > 0:
            n = min(rounds, 1000)
            bandit.tell_many(bandit.ask_many(n), u[:n])
            rounds -= n

    return play


def copies(n_arms: int) -> Play:
    """Copy a bandit."""
    bandit = bw.Bandit(bw.TsallisINF(), arms=n_arms, seed=1)
    bandit.tell(bandit.ask(), loss=0.5)

    def play(rounds: int) -> None:
        for _ in range(rounds):
            bandit.copy()

    return play


def duels(player: bw.Sparring) -> Callable[[int], Play]:
    def start(n_arms: int) -> Play:
        duel = bw.DuelingBandit(player, arms=n_arms, seed=1)
        _, u = coin(n_arms)

        def play(rounds: int) -> None:
            for n in range(rounds):
                duel.tell(duel.ask(), winner="left" if u[n & 4095] < 0.5 else "right")

        return play

    return start


WAYS = {
    "prompt feedback": ours(bw.TsallisINF()),
    "feedback one decision late": one_late,
    "ask(available=half) and tell": half_available,
    "ask_many and tell_many by 1,000": in_batches,
    "copy": copies,
    "a duel, one state": duels(bw.Sparring()),
    "a duel, two states": duels(bw.Sparring(shared=False)),
}
"""What else is done with `Bandit(TsallisINF())`, by name."""


# --- others ------------------------------------------------------------------------------------


def numpy_loop(n_arms: int) -> Play:
    """Play Tsallis-INF (IW) as one would write it with NumPy: Newton's method, warm start."""
    means, u = coin(n_arms)
    rng = np.random.default_rng(1)
    L = np.zeros(n_arms)
    state = {"x": -math.sqrt(n_arms), "t": 0}

    def play(rounds: int) -> None:
        nonlocal L
        x, t = state["x"], int(state["t"])
        for n in range(rounds):
            t += 1
            eta = 2.0 / math.sqrt(t)
            x = min(x, L.min() - 2.0 / eta)
            while True:
                root = 2.0 / (eta * (L - x))
                w = root * root
                error = w.sum() - 1.0
                if abs(error) <= 1e-12:
                    break
                x -= error / (eta * (w * root).sum())
            cumulative = w.cumsum()
            arm = int(cumulative.searchsorted(rng.random() * cumulative[-1]))
            loss = 0.0 if u[n & 4095] < means[arm] else 1.0
            L[arm] += loss / w[arm]
        state["x"], state["t"] = x, t

    return play


def river(make: Callable[[Any], Any]) -> Callable[[int], Play]:
    from river import bandit as library

    def start(n_arms: int) -> Play:
        means, u = coin(n_arms)
        arms = list(range(n_arms))
        policy = make(library)

        def play(rounds: int) -> None:
            for n in range(rounds):
                arm = policy.pull(arms)
                policy.update(arm, 1.0 if u[n & 4095] < means[arm] else 0.0)

        return play

    return start


def mabwiser(make: Callable[[Any], Any]) -> Callable[[int], Play]:
    from mabwiser.mab import MAB, LearningPolicy

    def start(n_arms: int) -> Play:
        means, u = coin(n_arms)
        arms = list(range(n_arms))
        bandit = MAB(arms, make(LearningPolicy), seed=1)
        bandit.fit(arms, [0] * n_arms)

        def play(rounds: int) -> None:
            for n in range(rounds):
                arm = bandit.predict()
                bandit.partial_fit([arm], [1 if u[n & 4095] < means[arm] else 0])

        return play

    return start


def pymab(name: str) -> Callable[[int], Play]:
    from pymab import policies

    def start(n_arms: int) -> Play:
        means, u = coin(n_arms)
        rng = np.random.default_rng(1)
        policy = getattr(policies, name)(n_arms=n_arms)

        def play(rounds: int) -> None:
            for n in range(rounds):
                arm = policy.select_action(rng=rng)
                policy.update(action=arm, reward=1.0 if u[n & 4095] < means[arm] else 0.0)

        return play

    return start


NOT_LEARNING = "river RandomPolicy (learns nothing)"


def contenders() -> Iterator[tuple[str, Callable[[int], Play]]]:
    """Return everyone by name, ours first; of each peer its fastest that learn, and EXP3."""
    yield "Bandit(TsallisINF())", ours(bw.TsallisINF())
    yield 'Bandit(TsallisINF(estimator="iw"))', ours(bw.TsallisINF(estimator="iw"))
    yield "Bandit(Exp3())", ours(bw.Exp3())
    yield "Bandit(UCB1())", ours(bw.UCB1())
    yield "Tsallis-INF, NumPy by hand", numpy_loop
    if find_spec("river"):
        yield NOT_LEARNING, river(lambda bandit: bandit.RandomPolicy(seed=1))
        yield "river EpsilonGreedy", river(lambda bandit: bandit.EpsilonGreedy(0.1, seed=1))
        yield "river UCB", river(lambda bandit: bandit.UCB(delta=1, seed=1))
        yield "river Exp3", river(lambda bandit: bandit.Exp3(gamma=0.1, seed=1))
    if find_spec("mabwiser"):
        yield "MABWiser EpsilonGreedy", mabwiser(lambda policies: policies.EpsilonGreedy(0.1))
        yield "MABWiser UCB1", mabwiser(lambda policies: policies.UCB1(1.5))
    if find_spec("pymab"):
        yield "pymab Greedy", pymab("GreedyPolicy")
        yield "pymab UCB", pymab("UCBPolicy")
        yield "pymab EXP3", pymab("EXP3Policy")


# --- measuring ---------------------------------------------------------------------------------


def cpu_seconds(play: Play, rounds: int) -> float:
    began = time.process_time()
    play(rounds)
    return time.process_time() - began


def settled(start: Callable[[int], Play], n_arms: int) -> tuple[Play, int]:
    """Return a player past its first looks at every arm, and its rounds per try.

    Slow players get a second; they are not going to be first.
    """
    play = start(n_arms)
    play(1)
    spent, rounds = 0.0, 1
    while rounds < 4 * n_arms and spent < 1.0:
        spent += cpu_seconds(play, 32)
        rounds += 32
    one = max(cpu_seconds(play, 8) / 8, 1e-7)
    # The upper limit is for river's Exp3, whose weights overflow after some 20 000 rounds.
    return play, max(1, min(int(SPAN / one), 2000))


def microseconds(n_arms: int, them: dict[str, Callable[[int], Play]]) -> dict[str, float]:
    """Return the time of one decision for everyone."""
    players = {name: settled(start, n_arms) for name, start in them.items()}
    best = dict.fromkeys(players, math.inf)
    for _ in range(TRIES):
        for name, (play, rounds) in players.items():
            best[name] = min(best[name], cpu_seconds(play, rounds) / rounds * 1e6)
    return best


@numba.njit
def empty(F: Any) -> int:
    return 0


def policy_alone(n_arms: int = 8, rounds: int = 20_000) -> tuple[float, float, float]:
    """Return nanoseconds of an empty Numba call, and of choose + update in two ways.

    First through Numba's dispatcher, then by its machine code, as `Bandit` does.
    """
    policy = bw.TsallisINF()
    kernels = policy.kernels()
    F = pack(policy, n_arms, stream_words(1, "benchmark"))
    rows = F.data
    row = first_row(F)

    def both(ask: Any, tell: Any) -> Play:
        def play(rounds: int) -> None:
            for n in range(rounds):
                rows[ROUND] = 1.0 + n
                tell(F, ask(F), rows[row], 0.5)

        return play

    def nothing(rounds: int) -> None:
        for _ in range(rounds):
            empty(F)

    plays = [
        nothing,
        both(kernels.ask, kernels.tell),
        both(direct(kernels.ask, F), direct(kernels.tell, F, 0, 0.0, 0.0)),
    ]
    best = [math.inf] * len(plays)
    for play in plays:
        play(1)
    for _ in range(3 * TRIES):
        for k, play in enumerate(plays):
            best[k] = min(best[k], cpu_seconds(play, rounds) / rounds * 1e9)
    return best[0], best[1], best[2]


def import_seconds(statement: str) -> float:
    """Return how long a statement takes in a fresh process that has NumPy loaded."""
    program = (
        "import time, numpy\n"
        "began = time.perf_counter()\n"
        f"{statement}\n"
        "print(time.perf_counter() - began)"
    )
    command = [sys.executable, "-c", program]
    return min(
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(TRIES)
    )


# --- printing ----------------------------------------------------------------------------------


def main() -> None:
    print("One decision with its feedback, in microseconds (in brackets: times our first line)")
    table = {n_arms: microseconds(n_arms, dict(contenders())) for n_arms in SIZES}
    names = list(table[SIZES[0]])
    print(f"{'':36}" + "".join(f"{f'K = {n_arms}':>18}" for n_arms in SIZES))
    for name in names:
        cells = ""
        for n_arms in SIZES:
            took = table[n_arms][name]
            cells += f"{f'{took:.2f} ({took / table[n_arms][names[0]]:.1f}x)':>18}"
        print(f"{name:36}{cells}")
    cells = ""
    for n_arms in SIZES:
        peers = [
            took
            for name, took in table[n_arms].items()
            if not name.startswith("Bandit(") and name != NOT_LEARNING
        ]
        cells += f"{f'{min(peers) / table[n_arms][names[0]]:.2f}x':>18}"
    print(f"{'the fastest other that learns':36}{cells}\n")

    print("Bandit(TsallisINF()) used otherwise, in microseconds")
    table = {n_arms: microseconds(n_arms, WAYS) for n_arms in SIZES}
    for name in WAYS:
        cells = "".join(f"{table[n_arms][name]:18.2f}" for n_arms in SIZES)
        print(f"{name:36}{cells}")
    print()

    nothing, dispatched, immediate = policy_alone()
    print("The policy alone, K = 8, in nanoseconds")
    print(f"{'empty Numba call with one array':36}{nothing:18.0f}")
    ratio = f"({immediate / nothing:.2f}x, allowed 3x)"
    print(f"{'choose + update':36}{immediate:18.0f}  {ratio}")
    ratio = f"({dispatched / nothing:.2f}x)"
    print(f"{'... through the type dispatcher':36}{dispatched:18.0f}  {ratio}\n")

    print("In a fresh process that has loaded NumPy, in seconds")
    print(f"{'import bothworlds':36}{import_seconds('import bothworlds'):18.3f}  (allowed 0.2)")
    first = (
        "import bothworlds as bw\n"
        "bandit = bw.Bandit(bw.TsallisINF(), arms=8, seed=1)\n"
        "bandit.tell(bandit.ask(), loss=0.5)"
    )
    print(f"{'... to the first decision, cached':36}{import_seconds(first):18.3f}")


if __name__ == "__main__":
    main()
