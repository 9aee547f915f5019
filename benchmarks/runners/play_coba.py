"""coba, through `Learner.predict` and `Learner.learn`."""

from collections.abc import Callable
from typing import Any

import coba
from game import Game, Play, report


def player(make: Callable[[Game], Any]) -> Play:
    def play(game: Game) -> None:
        learner = make(game)
        actions = list(range(game.n_arms))
        for _ in range(game.rounds):
            # Corral hands out more than the arm and its probability, and wants it back.
            arm, probability, *rest = learner.predict(None, actions)
            kept = rest[0] if rest else {}
            learner.learn(None, arm, game.reward(arm), probability, **kept)

    return play


def corral(game: Game) -> Any:
    base = [coba.BanditUCBLearner(game.seed), coba.BanditEpsilonLearner(0.1, game.seed)]
    return coba.CorralLearner(base, eta=0.075, T=game.rounds, seed=game.seed)


PLAYERS = {
    "BanditUCBLearner()": player(lambda game: coba.BanditUCBLearner(game.seed)),
    "BanditEpsilonLearner(0.1)": player(lambda game: coba.BanditEpsilonLearner(0.1, game.seed)),
    "CorralLearner(UCB, epsilon)": player(corral),
}

if __name__ == "__main__":
    report(coba.__version__, PLAYERS)
