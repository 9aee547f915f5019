"""Dueling regimes: two arms are played, and the feedback is which side won.

A kernel ``prefer(K, t, C, E, G, v, left, right)`` returns the loss of the left side: 1 if it lost,
else 0.  The right side's loss is the opposite, also where both sides hold the same arm.

With utilities, the left side wins with probability (1 + u_left - u_right) / 2, and the round's
regret is 2 u* - u_left - u_right (Zimmert and Seldin, 2021, section 6).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import arm_count, flag, frozen, keep, numbers, unit_vector
from bothworlds.environments.adversarial import checked_table, cumulative_at, cumulative_of
from bothworlds.environments.base import ORDER, Array, Environment, Kind, ordered, state
from bothworlds.environments.lookup import lookup
from bothworlds.environments.stochastic import coin
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import gather, store, to_index
from bothworlds.usercode import (
    argument_count,
    rehearse_function,
    some_arms,
    some_rounds,
    twin_of_whole,
)


@jit
def left_loses(u_left: Any, u_right: Any) -> Any:
    """Return the probability that the left side loses, under the linear link."""
    return 0.5 * (1.0 - (u_left - u_right))


@jit
def prefer_constant(K: int, t: int, C: Any, E: Any, G: Any, v: Any, left: Any, right: Any) -> Any:
    """Compare constant utilities, in rows 1 + K to 2K; C[0] is the largest."""
    u_left = take(E, 1 + K, K, left)
    u_right = take(E, 1 + K, K, right)
    store(E, 0, (C[0] - u_left) + (C[0] - u_right))
    return coin(v, left_loses(u_left, u_right))


@jit
def prefer_listed(K: int, t: int, C: Any, E: Any, G: Any, v: Any, left: Any, right: Any) -> Any:
    """Compare the utilities of the round in the table C."""
    u_left = lookup(C, (t - 1) * K, left)
    u_right = lookup(C, (t - 1) * K, right)
    store(E, 0, (1.0 - u_left) + (1.0 - u_right))
    return coin(v, left_loses(u_left, u_right))


@functools.lru_cache(maxsize=64)
def kernel_of_function(utility: Any, check: bool = True) -> Any:
    """Build the kernel for utilities given by a function of the round and the arm."""
    utility = twin_of_whole(utility, 2, "u", "Utilities", check)

    @numba.njit(nogil=True, error_model="numpy")
    def prefer(K: int, t: int, C: Any, E: Any, G: Any, v: float, left: int, right: int) -> Any:
        u_left = float(utility(t, left))
        u_right = float(utility(t, right))
        E[0] = (1.0 - u_left) + (1.0 - u_right)
        if not (u_left >= 0.0 and u_left <= 1.0 and u_right >= 0.0 and u_right <= 1.0):
            return np.nan
        return coin(v, left_loses(u_left, u_right))

    return prefer


@jit
def prefer_matrix(K: int, t: int, C: Any, E: Any, G: Any, v: Any, left: Any, right: Any) -> Any:
    """Look the pair up in the matrix from C[K] on; C[:K] are the arms' distances to the winner."""
    i = to_index(gather(E, ORDER, left))
    j = to_index(gather(E, ORDER, right))
    store(E, 0, lookup(C, 0, i) + lookup(C, 0, j))
    return coin(v, 1.0 - lookup(C, K, i * K + j))


@dataclass(frozen=True, repr=False, eq=False)
class Utilities(Environment):
    """Utility-based dueling: the left side wins with probability (1 + u_left - u_right) / 2.

    The round's regret is 2 u* - u_left - u_right, u* the largest utility; where utilities depend
    on time, that of the best arm in hindsight.

    Parameters
    ----------
    u : array, path or function
        Utilities in [0, 1]: one per arm; or an array with a row per round and a column per arm;
        or the path of such an array, saved by ``numpy.save`` in 64-bit floats, which is
        memory-mapped; or a function ``u(t, arm)`` with t from 1 and arms from 0, compiled by
        Numba.
    n_arms : int, optional
        Number of arms; needed with a function.
    shuffle : bool, default True
        Whether every repetition has the arms in an order of its own. Only for constant utilities.

    Examples
    --------
    >>> from bothworlds.environments import Utilities
    >>> Utilities([0.9, 0.5, 0.4])
    Utilities(u=[0.9, 0.5, 0.4])

    References
    ----------
    Ailon, Karnin and Joachims, *Reducing Dueling Bandits to Cardinal Bandits*, ICML 2014; Zimmert
    and Seldin, *Tsallis-INF*, JMLR 22, 2021, section 6.
    """

    u: ArrayLike | str | os.PathLike[str] | Callable[[int, int], float]
    n_arms: int = None  # type: ignore[assignment]
    shuffle: bool = True
    regret = "oblivious"
    _table: Array | None = field(init=False, default=None)

    kind: ClassVar[Kind] = "duel"

    def __post_init__(self) -> None:
        owner = "Utilities"
        flag("shuffle", self.shuffle, owner)
        if callable(self.u):
            argument_count("u", self.u, owner, (2,))
            keep(self, n_arms=arm_count(self.n_arms, owner), wide=False, trusted=False)
            return
        given = None if isinstance(self.u, str | os.PathLike) else numbers(self.u)
        if given is not None and given.ndim == 1:
            constant = frozen(unit_vector("u", given, owner))
            keep(self, u=constant, regret="gaps")
            columns = constant.size
        else:
            table = checked_table("u", self.u, owner)
            if given is not None:
                keep(self, u=table)
            keep(self, _table=table, horizon_limit=table.shape[0])
            columns = table.shape[1]
        if self.n_arms is not None and self.n_arms != columns:
            raise invalid("n_arms", owner, f"{columns}, the number of utilities", self.n_arms)
        keep(self, n_arms=columns)

    def _arguments(self) -> dict[str, Any]:
        n_arms = self.n_arms if callable(self.u) else None
        return {"u": self.u, "n_arms": n_arms, "shuffle": self.shuffle}

    def best_cumulative(self, checkpoints: ArrayLike) -> Array:
        """Return 2 t less twice the best arm's cumulative utility, at each checkpoint."""
        rounds = np.asarray(checkpoints, dtype=np.int64)
        return np.asarray(2.0 * (rounds - self._sums(rounds)[:, : self.n_arms].max(axis=1)))

    def least_cumulative(self, checkpoints: ArrayLike) -> Array:
        """Return 2 t less twice the sum of the largest utility of every round."""
        rounds = np.asarray(checkpoints, dtype=np.int64)
        return 2.0 * (rounds - self._sums(rounds)[:, self.n_arms + 1])

    def _sums(self, rounds: NDArray[np.int64]) -> Array:
        if callable(self.u):
            return cumulative_of(self.u, self.n_arms, rounds, "u", "Utilities")
        if self._table is not None:
            return cumulative_at(self._table, rounds)
        return super().best_cumulative(rounds)

    def parameters(self) -> Array:
        """Return the table row after row, or the largest utility."""
        if callable(self.u):
            return np.zeros(1)
        if self._table is not None:
            return self._table.reshape(-1)
        return np.array([np.max(self._constant)])

    @property
    def _constant(self) -> Array:
        return np.asarray(self.u, dtype=np.float64)

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels and, where they are constant, the utilities in that order."""
        if callable(self.u) or self._table is not None:
            return state(np.arange(self.n_arms))
        order = ordered(rng, self.n_arms, self.shuffle)
        return state(order, self._constant[order])

    def kernel(self) -> Any:
        """Return the kernel for this kind of utilities."""
        if callable(self.u):
            return kernel_of_function(self.u)
        return prefer_constant if self._table is None else prefer_listed

    def unchecked_kernel(self) -> Any:
        """Return the kernel for the engine."""
        return kernel_of_function(self.u, check=False) if callable(self.u) else self.kernel()

    def rehearse(self, horizon: int) -> None:
        """Run the function of the utilities, if it is one, in the first rounds and the last."""
        if callable(self.u):
            played = product(some_rounds(horizon), some_arms(self.n_arms))
            rehearse_function(self.u, played, "u", "Utilities")


@dataclass(frozen=True, repr=False, eq=False, init=False)
class Preferences(Environment):
    """Dueling by a preference matrix with a Condorcet winner.

    The round's regret is (p(w, left) - 1/2) + (p(w, right) - 1/2), w the winner: how far both
    sides are from it. For the matrix of utilities with the linear link it is half the regret of
    `Utilities`.

    Parameters
    ----------
    matrix : array
        Square: entry (i, j) is the probability that arm i wins against arm j. Entries (i, j) and
        (j, i) sum to 1, so the diagonal is 1/2. One arm, the Condorcet winner, must win against
        every other with probability above 1/2.
    shuffle : bool, default True
        Whether every repetition has the arms in an order of its own.

    Examples
    --------
    >>> from bothworlds.environments import Preferences
    >>> Preferences([[0.5, 0.6, 0.7], [0.4, 0.5, 0.8], [0.3, 0.2, 0.5]]).winner
    0

    References
    ----------
    Yue, Broder, Kleinberg and Joachims, *The K-armed Dueling Bandits Problem*, Journal of
    Computer and System Sciences 78, 2012.
    """

    matrix: Array
    shuffle: bool

    kind: ClassVar[Kind] = "duel"

    def __init__(self, matrix: ArrayLike, shuffle: bool = True) -> None:
        owner = "Preferences"
        P = numbers(matrix)
        if P is None or P.ndim != 2 or P.shape[0] != P.shape[1] or P.shape[0] < 2:
            raise invalid("matrix", owner, "a square matrix for two or more arms", matrix)
        if not np.all((P >= 0.0) & (P <= 1.0)) or np.abs(P + P.T - 1.0).max() > 1e-9:
            expected = "of probabilities where entries (i, j) and (j, i) sum to 1"
            raise invalid("matrix", owner, expected, matrix)
        if np.count_nonzero((P > 0.5).sum(axis=1) == P.shape[0] - 1) != 1:
            expected = "one with an arm that wins against every other more often than not"
            raise invalid("matrix", owner, expected, matrix)
        shuffle = flag("shuffle", shuffle, owner)
        keep(self, matrix=frozen(P), shuffle=shuffle, n_arms=P.shape[0])

    @property
    def winner(self) -> int:
        """The Condorcet winner."""
        return int(np.argmax((self.matrix > 0.5).sum(axis=1)))

    def parameters(self) -> Array:
        """Return every arm's distance to the winner, then the matrix row after row."""
        distances = self.matrix[self.winner] - 0.5
        distances[self.winner] = 0.0
        return np.concatenate([distances, self.matrix.reshape(-1)])

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels in this repetition's order."""
        return state(ordered(rng, self.n_arms, self.shuffle))

    def kernel(self) -> Any:
        """Return the kernel."""
        return prefer_matrix
