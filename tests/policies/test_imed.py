"""IMED: the arms of an independent implementation, and the constant of Lai and Robbins."""

import numpy as np
import pytest

import bothworlds as bw


def indices(n, total):
    """Return the index of every arm, straight from the definition; before all while unplayed."""
    K = len(n)
    index = np.full(K, -np.inf)
    played = n > 0
    if not played.all():
        return np.where(played, 0.0, np.arange(K) - K)
    m = total / n
    best = m.min()
    for i in range(K):
        kl = 0.0
        for p, q in ((m[i], best), (1.0 - m[i], 1.0 - best)):
            if p > 0.0:
                kl += p * np.log(p / q) if q > 0.0 else np.inf
        index[i] = n[i] * kl + np.log(n[i])
    return index


@pytest.mark.parametrize("K", [2, 3, 7])
@pytest.mark.parametrize("kind", ["binary", "fractions"])
def test_the_arms_are_those_of_the_definition(K, kind):
    rng = np.random.default_rng(K)
    means = np.linspace(0.2, 0.8, K)
    if kind == "binary":
        losses = (rng.random((400, K)) < means).astype(float)
    else:
        losses = rng.beta(2.0 * means, 2.0 * (1.0 - means), size=(400, K))
    bandit = bw.Bandit(bw.IMED(), arms=K, seed=1)
    n, total = np.zeros(K), np.zeros(K)
    for row in losses:
        decision = bandit.ask()
        arm, index = decision.index, indices(n, total)
        # Equal indices, such as ln 4 of one arm and kl(1, 1/4) of another, differ by rounding.
        assert index[arm] <= index.min() + 1e-9
        bandit.tell(decision, loss=float(row[arm]))
        n[arm] += 1
        total[arm] += row[arm]
    assert n.argmax() == 0


@pytest.mark.statistical
@pytest.mark.slow
def test_regret_is_near_the_lower_bound():
    """The paper's theorem: regret / log T tends to the constant of Lai and Robbins."""
    means = [0.3, 0.6, 0.6, 0.6]
    world = bw.environments.Stochastic(means)
    both = {"IMED": bw.IMED(), "UCB1": bw.UCB1()}
    result = bw.simulate(both, world, horizon=20_000, repetitions=300, seed=2, progress=False)
    lower = bw.bounds.lai_robbins(means, 20_000)
    mean = {name: runs.mean() for name, runs in result.at().items()}
    error = result.at()["IMED"].std(ddof=1) / 300**0.5
    assert mean["IMED"] < 1.5 * lower - 4.0 * error
    # A control: UCB1 is not near it.
    assert mean["UCB1"] > 2.0 * lower
