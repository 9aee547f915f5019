"""Piecewise stationary losses: fixed means within a block of rounds, other means in the next.

======== =====================================================
symbol   meaning
======== =====================================================
``b``    the block of the round; the last one has no end
mu       mean loss of every arm in every block
``r_b``  what regret is measured from: the smallest mean of the block, or 0 against a fixed arm
======== =====================================================

Bernoulli losses.  Against the best arm of each block the regret of a round is mu - r_b; against the
best fixed arm it is the sum of mu less the smallest sum of one arm's means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import arm_count, flag, frozen, keep, numbers, one_of, positive_gap, whole
from bothworlds.environments.base import ORDER, Array, Environment, ordered, state
from bothworlds.environments.lookup import lookup, phase_of
from bothworlds.environments.stochastic import coin
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import store, to_index

# Parameters: the number of blocks after the first, the first round of each of them, r of every
# block, the means of every block by label.
LATER, ROUNDS = 0, 1

_LATEST = 2**53
"""Rounds are counted exactly up to here."""

Comparator = Literal["block", "fixed"]


@jit
def loss_piecewise(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Return a Bernoulli loss with the arm's mean in the block of the round."""
    later = int(C[LATER])
    block = phase_of(t, C, ROUNDS, later)
    label = to_index(take(E, ORDER, K, arm))
    mean = lookup(C, ROUNDS + 2 * later + 1 + block * K, label)
    store(E, 0, mean - C[ROUNDS + later + block])
    return coin(v, mean)


@dataclass(frozen=True, repr=False, eq=False, init=False)
class Piecewise(Environment):
    """Bernoulli losses whose means change at certain rounds, for studying drift.

    Parameters
    ----------
    means : array
        Mean losses in [0, 1], a row per block and a column per arm. The last row stays to the end.
    every : int, optional
        Length of every block but the last. Either this or ``starts`` is given.
    starts : sequence of int, optional
        The first round of every block, increasing; the first block's, which is 1, may be left out.
    comparator : {"block", "fixed"}, default "block"
        What regret is measured against: the best arm of each block, or the one arm that is best
        over all rounds so far.
    shuffle : bool, default True
        Whether every repetition has the arms in an order of its own.

    Examples
    --------
    >>> from bothworlds.environments import Piecewise
    >>> Piecewise([[0.4, 0.6], [0.6, 0.4]], every=1000)
    Piecewise(means=[[0.4, 0.6], [0.6, 0.4]], every=1000)
    >>> Piecewise.gap(3, 0.2, every=500).changes(2000)
    array([ 501, 1001])

    References
    ----------
    Besson, Kaufmann, Maillard and Seznec, *Efficient Change-Point Detection for Tackling
    Piecewise-Stationary Bandits*, JMLR 23, 2022.
    """

    means: Array
    every: int | None
    starts: tuple[int, ...] | None
    comparator: Comparator
    shuffle: bool
    _later: tuple[int, ...] = field(init=False)

    def __init__(
        self,
        means: ArrayLike,
        every: int | None = None,
        starts: ArrayLike | None = None,
        comparator: Comparator = "block",
        shuffle: bool = True,
    ) -> None:
        owner = "Piecewise"
        mu = numbers(means)
        if (
            mu is None
            or mu.ndim != 2
            or mu.shape[0] < 1
            or mu.shape[1] < 2
            or not np.all((mu >= 0.0) & (mu <= 1.0))
        ):
            expected = "a row per block of two or more numbers in [0, 1], one for each arm"
            raise invalid("means", owner, expected, means)
        blocks = mu.shape[0]
        if (every is None) == (starts is None):
            raise invalid("every", owner, "given, or else starts", every)
        if every is not None:
            every = whole("every", every, owner, 1)
            if every >= _LATEST:
                raise invalid("every", owner, "below 2**53", every)
            later = tuple(1 + block * every for block in range(1, blocks))
            listed = None
        else:
            listed = _first_rounds(starts, blocks, owner)
            later = listed[1:]
        keep(
            self,
            means=frozen(mu),
            every=every,
            starts=listed,
            comparator=one_of("comparator", comparator, owner, ("block", "fixed")),
            shuffle=flag("shuffle", shuffle, owner),
            n_arms=mu.shape[1],
            regret="gaps" if comparator == "block" else "oblivious",
            _later=later,
        )

    @classmethod
    def gap(
        cls,
        n_arms: int,
        gap: float,
        every: int = 2500,
        blocks: int | None = None,
        comparator: Comparator = "block",
        shuffle: bool = True,
    ) -> Piecewise:
        """Return an instance in which another arm is best in every block.

        Its mean is (1 - gap)/2, that of all other arms (1 + gap)/2. There are as many blocks as
        arms by default, so that each is best once; the arms take turns.
        """
        K = arm_count(n_arms, "Piecewise.gap")
        D = positive_gap(gap, "Piecewise.gap")
        B = K if blocks is None else whole("blocks", blocks, "Piecewise.gap", 1)
        means = np.full((B, K), 0.5 * (1.0 + D))
        means[np.arange(B), np.arange(B) % K] = 0.5 * (1.0 - D)
        return cls(means, every, comparator=comparator, shuffle=shuffle)

    def changes(self, horizon: int) -> NDArray[np.int64]:
        """Return the rounds up to ``horizon`` that are the first of a new block."""
        return np.array([t for t in self._later if t <= horizon], dtype=np.int64)

    def fixed_gaps(self) -> Array:
        """Return the gap of every arm, where there is one block only."""
        if self.means.shape[0] > 1:
            return np.zeros(0)
        return np.asarray(self.means[0] - self.means[0].min())

    def best_cumulative(self, checkpoints: ArrayLike) -> Array:
        """Return the best fixed arm's sum of means at each of the checkpoints."""
        return np.asarray((self._lengths(checkpoints) @ self.means).min(axis=1))

    def least_cumulative(self, checkpoints: ArrayLike) -> Array:
        """Return the sum of the least mean of every round at each of the checkpoints."""
        return np.asarray(self._lengths(checkpoints) @ self.means.min(axis=1))

    def comparators(self, checkpoints: ArrayLike) -> dict[str, Array]:
        """Return the correction that measures the regret against another comparator.

        The best arm of each block is that of each round, and the best fixed arm is the same in
        every run.
        """
        between = self.least_cumulative(checkpoints) - self.best_cumulative(checkpoints)
        nothing = np.zeros_like(between)
        if self.comparator == "block":
            return {"fixed": between, "dynamic": nothing, "fixed in this run": between}
        return {"block": -between, "dynamic": -between, "fixed in this run": nothing}

    def _lengths(self, checkpoints: ArrayLike) -> Array:
        """Return how many rounds of every block, a column each, are over at each checkpoint."""
        rounds = np.asarray(checkpoints, dtype=np.float64)[:, None]
        first = np.array([0, *(t - 1 for t in self._later)], dtype=np.float64)
        last = np.append(first[1:], np.inf)
        return np.asarray(np.clip(np.minimum(rounds, last) - first, 0.0, None))

    def parameters(self) -> Array:
        """Return the first rounds of the blocks, the comparator of the regret, and the means."""
        least = self.means.min(axis=1)
        reference = least if self.comparator == "block" else np.zeros_like(least)
        return np.concatenate([[len(self._later)], self._later, reference, self.means.ravel()])

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels in this repetition's order."""
        return state(ordered(rng, self.n_arms, self.shuffle))

    def kernel(self) -> Any:
        """Return the kernel."""
        return loss_piecewise


def _first_rounds(starts: object, blocks: int, owner: str) -> tuple[int, ...]:
    """Read the first round of every block, the first one's included."""
    given = numbers(starts)
    if given is not None and given.ndim == 1:
        full = given if given.size == blocks else np.append(1.0, given)
        whole_rounds = np.all((full == np.floor(full)) & (full < _LATEST))
        if full.size == blocks and whole_rounds and full[0] == 1.0 and np.all(np.diff(full) > 0):
            return tuple(int(t) for t in full)
    expected = f"the first rounds of {blocks} blocks, whole numbers increasing from 1"
    raise invalid("starts", owner, expected, starts)
