"""Bandits of every policy, and what is in them."""

import bothworlds as bw

POLICIES = [
    bw.TsallisINF(),
    bw.TsallisINF(estimator="iw"),
    bw.TsallisINF(alpha=0.3),
    bw.Exp3(),
    bw.Exp3PlusPlus(),
    bw.Broad(horizon=10_000),
    bw.UCB1(),
    bw.KLUCB(),
    bw.ThompsonSampling(),
    bw.Uniform(),
]


def content(bandit):
    """Everything a bandit is, as comparable values."""
    return bandit._document()
