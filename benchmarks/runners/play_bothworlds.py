"""Player of this library, through `Bandit.ask` and `Bandit.tell` as a user calls them."""

from game import Game, Play, report

import bothworlds as bw


def player(policy: bw.policies.base.Policy) -> Play:
    def play(game: Game) -> None:
        bandit = bw.Bandit(policy, arms=game.n_arms, seed=game.seed)
        for _ in range(game.rounds):
            decision = bandit.ask()
            bandit.tell(decision, reward=game.reward(decision.index))

    return play


POLICIES = [
    bw.TsallisINF(),
    bw.TsallisINF(estimator="iw"),
    bw.ThompsonSampling(),
    bw.UCB1(),
    bw.KLUCB(),
    bw.Exp3(),
]

if __name__ == "__main__":
    report(bw.__version__, {repr(policy): player(policy) for policy in POLICIES})
