"""SMPyBandits, through `choice` and `getReward`."""

from importlib.metadata import version
from typing import Any

import numpy as np
from game import Game, Play, report
from SMPyBandits.Policies import UCB, Exp3PlusPlus, Thompson, TsallisInf, klUCB


def player(make: Any) -> Play:
    def play(game: Game) -> None:
        np.random.seed(game.seed)
        policy = make(game.n_arms)
        policy.startGame()
        for _ in range(game.rounds):
            arm = int(policy.choice())
            policy.getReward(arm, game.reward(arm))

    return play


PLAYERS = {
    "Thompson": player(Thompson),
    "UCB": player(UCB),
    "klUCB": player(klUCB),
    "Exp3PlusPlus": player(Exp3PlusPlus),
    "TsallisInf": player(TsallisInf),
}

if __name__ == "__main__":
    report(version("SMPyBandits"), PLAYERS)
