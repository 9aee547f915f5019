"""pymab, through `Policy.select_action` and `Policy.update`."""

from importlib.metadata import version
from typing import Any

import numpy as np
from game import Game, Play, report
from pymab import policies


def player(make: Any) -> Play:
    def play(game: Game) -> None:
        rng = np.random.default_rng(game.seed)
        policy = make(n_arms=game.n_arms)
        for _ in range(game.rounds):
            arm = policy.select_action(rng=rng)
            policy.update(action=arm, reward=game.reward(arm))

    return play


PLAYERS = {
    "BernoulliThompsonSampling": player(policies.BernoulliThompsonSamplingPolicy),
    "UCB(c=2)": player(policies.UCBPolicy),
    "KLUCB(c=3)": player(policies.KLUCBPolicy),
    "EpsilonGreedy(0.1)": player(policies.EpsilonGreedyPolicy),
    "EXP3(gamma=0.07)": player(policies.EXP3Policy),
}

if __name__ == "__main__":
    report(version("pymab"), PLAYERS)
