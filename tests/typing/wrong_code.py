"""Mistakes a type checker must find: each line that ends in ``# wrong`` is one."""

import bothworlds as bw


def mistakes() -> None:
    bw.TsallisINF(estimator="rw")  # wrong
    text: str = bw.bounds.minimax(8, 100)  # wrong
    number: float = bw.bounds.minimax(8, [100, 200])  # wrong
    bw.bounds.adversarial(8, 100, estimator="xy")  # wrong
    bw.environments.Stochastic([0.1, 0.2], noise="gaussian")  # wrong
    bw.environments.Switching(2, 0.1, first_level="middle")  # wrong
    bw.environments.Adaptive(2, strategy="cheat")  # wrong
    bw.environments.Corrupted(bw.environments.Stochastic([0.1, 0.2]), 1.0, attack="steal")  # wrong
    bw.environments.Stochastic([0.1, 0.2]).means.sort("descending")  # wrong
    bw.DuelingBandit(bw.Sparring(bw.TsallisINF()), arms=2).tell(1, winner="middle")  # wrong
    print(bw.nothing)  # wrong
    print(text, number)
