"""Mean regret over repetitions with its standard error, and comparisons with a bound."""

import functools

import numpy as np

import bothworlds as bw

REPETITIONS = 320
MARGIN = 4.0
"""Standard errors between a mean and a bound: a comparison that is true fails once in 30,000."""


@functools.cache
def played(policy, world, horizon, seed=11):
    """Return the checkpoints, the mean regret at each and its standard error."""
    result = bw.simulate(
        {"it": policy}, world, horizon=horizon, repetitions=REPETITIONS, seed=seed, progress=False
    )
    regret = result.regret["it"]
    error = regret.std(axis=0, ddof=1) / np.sqrt(REPETITIONS)
    return result.checkpoints, regret.mean(axis=0), error


def stays_below(policy, world, horizon, bound):
    """Whether the mean regret is below ``bound(rounds)`` at every checkpoint, beyond doubt."""
    rounds, mean, error = played(policy, world, horizon)
    return bool(np.all(mean + MARGIN * error < bound(rounds)))


def ends_above(policy, world, horizon, bound):
    """Whether the mean regret of the last round is above the bound, beyond doubt."""
    rounds, mean, error = played(policy, world, horizon)
    return bool(mean[-1] - MARGIN * error[-1] > bound(rounds)[-1])
