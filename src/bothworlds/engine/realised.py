"""Realised regret: a stage that adds up the losses of all arms, played or not.

The losses of a round are functions of one uniform number, so those of the arms that were not
played are known, and the realised regret is

    sum_t l_{t, I_t} - min_i sum_t l_{t, i},

which is random even where the pseudo-regret of the same plays is not.  The losses are those the
environment drew; what an attack makes the agent see does not count, as in the pseudo-regret.

======== ===========================================================================
CA       FIRST, then the attack's configuration, if there is an attack
A        the attack's state; from row FIRST on the sum of every arm, then the agent's
======== ===========================================================================
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from bothworlds.environments.base import Array, Attack
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import advance, load, splat_int, store
from bothworlds.lanes.wrap import bound

# What `measure_attacked` calls; `measuring` fills it in.
strike: Any = None


@jit
def measure(
    base_loss: Any, K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any, CA: Any, A: Any
) -> Any:
    """Add the losses of the round to the sums, and return that of the played arm."""
    first = int(CA[0])
    for i in range(K):
        other = base_loss(K, t, C, E, G, v, splat_int(i, v))
        store(A, first + i, load(A, first + i, v) + other)
    loss = base_loss(K, t, C, E, G, v, arm)
    store(A, first + K, load(A, first + K, v) + loss)
    return loss


def measure_attacked(
    base_loss: Any, K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any, CA: Any, A: Any
) -> Any:
    """Add the true losses of the round to the sums, and return the losses after the attack."""
    measure(base_loss, K, t, C, E, G, v, arm, CA, A)
    return strike(base_loss, K, t, C, E, G, v, arm, advance(CA, 1), A)


def measuring(attack: Attack | None, n_arms: int) -> Attack:
    """Return a stage that measures, and then applies the attack if there is one."""
    sums = np.zeros(n_arms + 1)
    if attack is None:
        return Attack(measure, np.zeros(1), lambda rng: sums)
    first = attack.start(np.random.default_rng(0)).size

    def start(rng: np.random.Generator) -> Array:
        return np.concatenate([attack.start(rng), sums])

    return Attack(
        _attacked(attack.kernel),
        np.concatenate([[first], attack.parameters]),
        start,
        attack.arm_rows,
    )


@functools.lru_cache(maxsize=256)
def _attacked(kernel: Any) -> Any:
    return bound(measure_attacked, strike=kernel)


def realised_regret(state: Array, n_arms: int) -> Array:
    """Return the regret so far from a measuring stage's state, a column per repetition."""
    *arms, own = state[-n_arms - 1 :]
    return np.asarray(own - np.min(arms, axis=0))
