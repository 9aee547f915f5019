"""The two games every library plays, with nothing but the standard library.

In the fixed game one arm pays 1 with probability 9/16, the others with 7/16. In the moving game
the gap is the same 1/8 but the level jumps between 1 and 1/8, in phases that grow by the factor
1.6. The uniform numbers behind the rewards and the place of the best arm depend on the repetition
alone, so all libraries meet the same luck. A runner imports this file from its own folder.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

N_ARMS = 8
GAP = 1 / 8
WORLDS = ("fixed", "moving")


def levels(world: str, rounds: int) -> list[float]:
    """Return the best arm's mean reward in every round."""
    if world == "fixed":
        return [0.5 + GAP / 2] * rounds
    means: list[float] = []
    phase = 1
    while len(means) < rounds:
        means += [GAP if phase % 2 else 1.0] * round(1.6**phase)
        phase += 1
    return means[:rounds]


class Game:
    """One repetition: `reward` answers a play and counts it."""

    def __init__(self, world: str, rounds: int, repetition: int) -> None:
        rng = random.Random(repetition)
        self.rounds = rounds
        self.n_arms = N_ARMS
        self.seed = repetition
        self.best = rng.randrange(N_ARMS)
        self.played = 0
        self.missed = 0
        self._levels = levels(world, rounds)
        self._u = [rng.random() for _ in range(rounds)]

    def reward(self, arm: int) -> float:
        """Return 1.0 or 0.0 for playing an arm in the next round."""
        n = self.played
        self.played = n + 1
        if arm == self.best:
            return 1.0 if self._u[n] < self._levels[n] else 0.0
        self.missed += 1
        return 1.0 if self._u[n] < self._levels[n] - GAP else 0.0


Play = Callable[[Game], None]
"""Plays a game to its end: a fresh learner, then one `Game.reward` a round."""


def idle(game: Game) -> None:
    """Play without a learner, to know what the game itself costs."""
    for n in range(game.rounds):
        game.reward(n & 7)


def measured(
    play: Play, world: str, rounds: int, repetitions: int, seconds: float
) -> dict[str, Any]:
    """Play up to ``repetitions`` games, as many as fit into ``seconds`` of CPU time; at least one.

    The time is that of the fastest game.
    """
    regrets: list[float] = []
    nanoseconds: list[float] = []
    spent = 0.0
    while len(regrets) < repetitions and (not regrets or spent * (1 + 1 / len(regrets)) < seconds):
        game = Game(world, rounds, repetition=len(regrets))
        began = time.process_time()
        try:
            play(game)
        except Exception as error:
            return {"failed": f"round {game.played:,}: {type(error).__name__}: {error}"}
        took = time.process_time() - began
        if game.played != rounds:
            return {"failed": f"played {game.played:,} of {rounds:,} rounds"}
        regrets.append(GAP * game.missed)
        nanoseconds.append(took / rounds * 1e9)
        spent += took
    return {"regrets": regrets, "nanoseconds": min(nanoseconds)}


def report(version: str, players: dict[str, Play]) -> None:
    """Measure every player in both worlds and print the outcome, one line of JSON, at the end."""
    limits = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    outcomes = {
        name: {world: measured(play, world, *limits) for world in WORLDS}
        for name, play in players.items()
    }
    cost = measured(idle, "fixed", *limits)["nanoseconds"]
    print(json.dumps({"version": version, "players": outcomes, "idle": cost}))
