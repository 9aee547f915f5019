"""MABWiser, through `MAB.predict` and `MAB.partial_fit`."""

from importlib.metadata import version
from typing import Any

from game import Game, Play, report
from mabwiser.mab import MAB, LearningPolicy


def player(policy: Any) -> Play:
    def play(game: Game) -> None:
        arms = list(range(game.n_arms))
        bandit = MAB(arms, policy, seed=game.seed)
        # MABWiser learns from a first batch before it decides: one play of every arm.
        bandit.fit(arms, [game.reward(arm) for arm in arms])
        for _ in range(game.rounds - game.n_arms):
            arm = bandit.predict()
            bandit.partial_fit([arm], [game.reward(arm)])

    return play


PLAYERS = {
    "ThompsonSampling()": player(LearningPolicy.ThompsonSampling()),
    "UCB1(alpha=1)": player(LearningPolicy.UCB1()),
    "EpsilonGreedy(0.1)": player(LearningPolicy.EpsilonGreedy(epsilon=0.1)),
    "Softmax(tau=1)": player(LearningPolicy.Softmax()),
}

if __name__ == "__main__":
    report(version("mabwiser"), PLAYERS)
