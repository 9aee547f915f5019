"""Speed of a user's own algorithm: compiled, by a hand-written loop, and in plain Python.

Every figure is CPU time per round and repetition on one core, the best of several turns in which
the lanes alternate. The loop is what a user writes with Numba alone: the same functions, called
round by round for one run after the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

import bothworlds as bw
from bothworlds.lanes.random import WORDS
from bothworlds.policies import PlainPolicy, random_unit
from bothworlds.policies.base import Player
from bothworlds.usercode import record_of

SIZES = ((2, 40_000), (8, 20_000))
"""Numbers of arms, and rounds of the compiled lanes."""
RUNS, TURNS, GAP = 16, 5, 0.25
SLOW = 500
"""Rounds of the slow lane."""


@bw.policies.custom
class OwnUCB:
    """UCB1, which returns an arm."""

    c: float = 2.0

    def start(n_arms: int) -> Any:
        """Return the plays and the sums of the losses."""
        return np.zeros(2 * n_arms)

    def choose(state: Any, parameters: Any, n_arms: int, t: int, generator: Any) -> int:
        """Return the arm with the least index."""
        arm, least, bonus = 0, np.inf, parameters.c * math.log(t)
        for i in range(n_arms):
            if state[i] == 0.0:
                return i
            index = state[n_arms + i] / state[i] - math.sqrt(bonus / state[i])
            if index < least:
                arm, least = i, index
        return arm

    def update(
        state: Any, parameters: Any, n_arms: int, t: int, arm: int, probability: float, loss: float
    ) -> None:
        """Count the loss."""
        state[arm] += 1.0
        state[n_arms + arm] += loss


@bw.policies.custom
class OwnExp3:
    """EXP3, which fills a distribution."""

    rate: float = 1.0

    def start(n_arms: int) -> Any:
        """Return the loss estimates."""
        return np.zeros(n_arms)

    def probabilities(state: Any, parameters: Any, n_arms: int, t: int, p: Any) -> None:
        """Weigh the arms by exp(-eta L)."""
        eta = parameters.rate * math.sqrt(math.log(n_arms) / (t * n_arms))
        least = state[0]
        for i in range(1, n_arms):
            least = min(least, state[i])
        total = 0.0
        for i in range(n_arms):
            p[i] = math.exp(-eta * (state[i] - least))
            total += p[i]
        for i in range(n_arms):
            p[i] /= total

    def update(
        state: Any, parameters: Any, n_arms: int, t: int, arm: int, probability: float, loss: float
    ) -> None:
        """Add the loss, weighted by its probability."""
        state[arm] += loss / probability


@bw.policies.custom
class OwnFTPL:
    """FTPL with Pareto perturbations, which returns an arm and a weight."""

    rate: float = 1.0

    def start(n_arms: int) -> Any:
        """Return the loss estimates."""
        return np.zeros(n_arms)

    def choose(state: Any, parameters: Any, n_arms: int, t: int, generator: Any) -> Any:
        """Return the leader, and how many draws it takes until it leads again."""
        eta, arm, drawn = parameters.rate / math.sqrt(t), -1, 0
        while True:
            leader, least = 0, np.inf
            for i in range(n_arms):
                index = eta * state[i] - 1.0 / math.sqrt(1.0 - random_unit(generator))
                if index < least:
                    leader, least = i, index
            drawn += arm >= 0
            if leader == arm:
                return arm, drawn
            arm = leader if arm < 0 else arm

    def update(
        state: Any, parameters: Any, n_arms: int, t: int, arm: int, weight: float, loss: float
    ) -> None:
        """Add the loss, weighted by the draws."""
        state[arm] += weight * loss


@dataclass(frozen=True, repr=False)
class PlainUCB(PlainPolicy):
    """UCB1 in plain Python and NumPy."""

    c: float = 2.0

    def begin(self, n_arms: int, rng: np.random.Generator) -> Any:
        """Return the plays and the sums of the losses."""
        return np.zeros((2, n_arms))

    def choose(self, state: Any, t: int) -> int:
        """Return the arm with the least index."""
        plays, losses = state
        if t <= len(plays):
            return t - 1
        return int(np.argmin(losses / plays - np.sqrt(self.c * math.log(t) / plays)))

    def update(self, state: Any, t: int, arm: int, loss: float) -> None:
        """Count the loss."""
        state[0, arm] += 1.0
        state[1, arm] += loss


LANES: tuple[tuple[Player, Player, Player | None], ...] = (
    (bw.UCB1(), OwnUCB(), PlainUCB()),
    (bw.Exp3(), OwnExp3(), None),
    (bw.FTPL("pareto"), OwnFTPL(), None),
)
"""Policies of the package, the same as a user's own, and in plain Python."""


def by_hand(policy: Any) -> Any:
    """Return the loop that a user writes with Numba around these functions, for one run."""
    functions = {
        name: numba.njit(error_model="numpy")(getattr(each, "py_func", each))
        for name, each in policy.functions.items()
        if name != "start"
    }
    learn, pick, fill = (functions.get(n) for n in ("update", "choose", "probabilities"))
    weighted = policy.weighted

    @numba.njit(error_model="numpy")
    def run(
        state: Any, parameters: Any, n_arms: int, horizon: int, means: Any, generator: Any
    ) -> Any:
        regret, p, scale = 0.0, np.zeros(n_arms), 0.0
        for t in range(1, horizon + 1):
            if fill is not None:
                fill(state, parameters, n_arms, t, p)
                u, arm, below = random_unit(generator), 0, p[0]
                while below <= u and arm < n_arms - 1:
                    arm += 1
                    below += p[arm]
                scale = p[arm]
            elif weighted:
                arm, drawn = pick(state, parameters, n_arms, t, generator)
                scale = float(drawn)
            else:
                arm = pick(state, parameters, n_arms, t, generator)
            loss = 1.0 if random_unit(generator) < means[arm] else 0.0
            learn(state, parameters, n_arms, t, arm, scale, loss)
            regret += means[arm] - means[0]
        return regret

    return run


def timed(work: Callable[[], Any], rounds: int) -> float:
    """Return nanoseconds of CPU time per round."""
    began = time.process_time()
    work()
    return (time.process_time() - began) / rounds * 1e9


def measured(n_arms: int, horizon: int, lanes: tuple[Player, Player, Player | None]) -> list[float]:
    """Return nanoseconds per round: built-in, custom, by hand, and the slow lane or NaN."""
    world = bw.environments.Stochastic.gap(n_arms, GAP)
    means = np.array([0.5 - GAP / 2, *(n_arms - 1) * (0.5 + GAP / 2,)])
    custom: Any = lanes[1]
    run, record = by_hand(custom), record_of(custom)
    words = np.random.default_rng(0).integers(1, 2**62, size=(RUNS, WORDS))

    def loops(rounds: int) -> None:
        for own in words:
            state = np.array(custom.functions["start"](n_arms))
            run(state, record, n_arms, rounds, means, own.copy())

    def simulated(policy: Player, rounds: int) -> float:
        result = bw.simulate(
            {"it": policy}, world, horizon=rounds, repetitions=RUNS, seed=1, threads=1,
            progress=False,
        )  # fmt: skip
        return result.cpu["it"] / (rounds * RUNS) * 1e9

    loops(2)
    turns = []
    for _ in range(TURNS):
        row = [simulated(policy, horizon) for policy in lanes[:2] if policy is not None]
        row.append(timed(lambda: loops(horizon), horizon * RUNS))
        row.append(math.nan if lanes[2] is None else simulated(lanes[2], SLOW))
        turns.append(row)
    found: list[float] = np.min(turns, axis=0).tolist()
    return found


def main() -> None:
    """Print the lanes for every algorithm."""
    print("A user's own algorithm in Stochastic: ns per round and repetition")
    heads = ("built-in", "custom", "loop", "custom / loop", "plain Python")
    print(f"  {'':16s}" + "".join(f"{head:>15s}" for head in heads))
    for lanes in LANES:
        for n_arms, horizon in SIZES:
            ours, custom, loop, slow = measured(n_arms, horizon, lanes)
            figures = f"{ours:15.1f}{custom:15.1f}{loop:15.1f}{custom / loop:15.2f}"
            last = f"{'-':>15s}" if math.isnan(slow) else f"{slow:15.0f}"
            name = type(lanes[0]).__name__
            print(f"  {f'{name}, K = {n_arms}':16s}{figures}{last}", flush=True)


if __name__ == "__main__":
    main()
