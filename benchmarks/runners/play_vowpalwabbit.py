"""Vowpal Wabbit, `--cb_explore` with a constant feature; the draw is the caller's, as it asks."""

import random

import vowpalwabbit
from game import Game, Play, report


def player(options: str) -> Play:
    def play(game: Game) -> None:
        rng = random.Random(game.seed)
        workspace = vowpalwabbit.Workspace(
            f"--cb_explore {game.n_arms} {options} --quiet --random_seed {game.seed}"
        )
        arms = range(game.n_arms)
        for _ in range(game.rounds):
            p = workspace.predict("| constant")
            arm = rng.choices(arms, p)[0]
            workspace.learn(f"{arm + 1}:{1.0 - game.reward(arm)}:{p[arm]} | constant")
        workspace.finish()

    return play


OPTIONS = ("--epsilon 0.1", "--bag 5", "--cover 3", "--softmax --lambda 10", "--first 400")

if __name__ == "__main__":
    report(vowpalwabbit.__version__, {options: player(options) for options in OPTIONS})
