"""river, through `Policy.pull` and `Policy.update`."""

from collections.abc import Callable
from typing import Any

import river
from game import Game, Play, report
from river import bandit, proba


def player(make: Callable[[int], Any]) -> Play:
    def play(game: Game) -> None:
        policy = make(game.seed)
        arms = list(range(game.n_arms))
        for _ in range(game.rounds):
            arm = policy.pull(arms)
            policy.update(arm, game.reward(arm))

    return play


PLAYERS = {
    "ThompsonSampling(Beta())": player(
        lambda seed: bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=seed)
    ),
    "UCB(delta=1)": player(lambda seed: bandit.UCB(delta=1, seed=seed)),
    "EpsilonGreedy(0.1)": player(lambda seed: bandit.EpsilonGreedy(epsilon=0.1, seed=seed)),
    "Exp3(gamma=0.1)": player(lambda seed: bandit.Exp3(gamma=0.1, seed=seed)),
    "Exp3(gamma=0.5)": player(lambda seed: bandit.Exp3(gamma=0.5, seed=seed)),
}

if __name__ == "__main__":
    report(river.__version__, PLAYERS)
