"""The oblivious adversary: a loss for every round and arm, fixed before the game.

The pseudo-regret is the loss of the arms played less that of the single best arm up to the same
round, which does not depend on the agent (Zimmert and Seldin, 2021, section 2).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds import usercode
from bothworlds.arguments import arm_count, frozen, keep, numbers
from bothworlds.environments.base import Array, Environment, state
from bothworlds.environments.lookup import lookup
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import store

_CHUNK = 1 << 20
"""Numbers of a table read at a time, so that a file larger than memory can be used."""


@jit
def loss_listed(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Read the loss of the round and arm from the table C."""
    loss = lookup(C, (t - 1) * K, arm)
    store(E, 0, loss)
    return loss


@functools.lru_cache(maxsize=64)
def kernel_of_function(losses: Any, check: bool = True) -> Any:
    """Build the kernel for losses given by a function of the round and the arm."""
    losses = usercode.twin_of_whole(losses, 2, "losses", "Adversarial", check)

    @numba.njit(nogil=True, error_model="numpy")
    def loss(K: int, t: int, C: Any, E: Any, G: Any, v: float, arm: int) -> float:
        x = float(losses(t, arm))
        E[0] = x
        return x

    return loss


@functools.lru_cache(maxsize=64)
def sums_of_function(losses: Any, name: str, owner: str) -> Any:
    """Build the loop that adds up a function's values, every index checked.

    The sums are those of every arm, of the least value of each round and of the greatest.
    """
    losses = usercode.of_whole(usercode.checked(losses), 2, name, owner)

    @numba.njit(nogil=True, error_model="numpy")
    def add(first: int, last: int, sums: Any) -> None:
        K = sums.size - 2
        for t in range(first, last + 1):
            low, high = np.inf, -np.inf
            for i in range(K):
                x = losses(t, i)
                sums[i] += x
                low, high = min(low, x), max(high, x)
            sums[K] += low
            sums[K + 1] += high

    return add


def checked_table(parameter: str, value: object, owner: str) -> Array:
    """Read a table in [0, 1] with a row per round and a column per arm, or the path of one."""
    if isinstance(value, str | os.PathLike):
        table = _mapped(parameter, value, owner)
    else:
        given = numbers(value)
        if given is None:
            expected = "an array with a row per round and a column per arm"
            raise invalid(parameter, owner, expected, value)
        table = given if isinstance(value, np.memmap) else frozen(given)
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < 2:
        expected = "an array with a row per round and a column for each of two or more arms"
        raise invalid(parameter, owner, expected, f"shape {table.shape}")
    for chunk in chunks(table):
        outside = ~((chunk >= 0.0) & (chunk <= 1.0))
        if outside.any():
            raise invalid(parameter, owner, "in [0, 1]", chunk[outside][0])
    return table


def _mapped(parameter: str, path: str | os.PathLike[str], owner: str) -> Array:
    """Open a file of losses without reading it into memory."""
    try:
        table: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        expected = "the path of a readable .npy file"
        raise invalid(parameter, owner, expected, os.fspath(path)) from None
    fits = isinstance(table, np.ndarray) and table.dtype == np.float64
    if not fits or not table.flags.c_contiguous:
        expected = "a .npy file of 64-bit floats in C order"
        got = getattr(table, "dtype", type(table)) if not fits else "Fortran order"
        raise invalid(parameter, owner, expected, str(got))
    return table


def chunks(table: Array) -> Iterator[Array]:
    """Yield a table in blocks of rows."""
    rows = max(1, _CHUNK // table.shape[1])
    for start in range(0, table.shape[0], rows):
        yield np.asarray(table[start : start + rows])


def cumulative_at(table: Array, checkpoints: NDArray[np.int64]) -> Array:
    """Return the sums of a table's columns up to each of the increasing checkpoints.

    Two columns more are the sums of the least number of each row and of the greatest.
    """

    def add(first: int, last: int, total: Array) -> None:
        for chunk in chunks(table[first - 1 : last]):
            ends = chunk.min(axis=1).sum(), chunk.max(axis=1).sum()
            total += np.append(chunk.sum(axis=0), ends)

    return _cumulative(table.shape[1], checkpoints, add)


def cumulative_of(
    function: Any, n_arms: int, checkpoints: NDArray[np.int64], name: str, owner: str
) -> Array:
    """Return the sums of a function's values up to each checkpoint, as `cumulative_at` does."""
    add = functools.partial(usercode.call, sums_of_function(function, name, owner), name, owner)
    return _cumulative(n_arms, checkpoints, add)


def _cumulative(
    n_arms: int, checkpoints: NDArray[np.int64], add: Callable[[int, int, Array], Any]
) -> Array:
    """Return the running total at each checkpoint; ``add`` adds a span of rounds to it."""
    sums = np.zeros((len(checkpoints), n_arms + 2))
    total = np.zeros(n_arms + 2)
    done = 0
    for place, checkpoint in enumerate(checkpoints.tolist()):
        add(done + 1, checkpoint, total)
        done = checkpoint
        sums[place] = total
    return sums


@dataclass(frozen=True, repr=False, eq=False)
class Adversarial(Environment):
    """An oblivious adversary: losses fixed before the game.

    Parameters
    ----------
    losses : array, path or function
        An array in [0, 1] with a row per round and a column per arm; the path of such an array
        saved by ``numpy.save`` in 64-bit floats, which is memory-mapped and may be larger than
        memory; or a function ``losses(t, arm)`` with t from 1 and arms from 0, compiled by Numba.
    n_arms : int, optional
        Number of arms; needed with a function, else read off the array.

    Examples
    --------
    >>> from bothworlds.environments import Adversarial
    >>> def alternate(t, arm):
    ...     return float((t + arm) % 2)
    >>> Adversarial(alternate, n_arms=2)
    Adversarial(losses=alternate, n_arms=2)
    >>> Adversarial([[0.0, 1.0], [0.25, 0.5], [1.0, 0.0]]).best_cumulative([1, 3])
    array([0.  , 1.25])

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire, *The Nonstochastic Multiarmed Bandit Problem*, SIAM
    Journal on Computing 32, 2002.
    """

    losses: ArrayLike | str | os.PathLike[str] | Callable[[int, int], float]
    n_arms: int = None  # type: ignore[assignment]
    regret = "oblivious"
    _table: Array | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        owner = "Adversarial"
        if callable(self.losses):
            usercode.argument_count("losses", self.losses, owner, (2,))
            keep(self, n_arms=arm_count(self.n_arms, owner), wide=False, trusted=False)
            return
        table = checked_table("losses", self.losses, owner)
        if self.n_arms is not None and self.n_arms != table.shape[1]:
            expected = f"{table.shape[1]}, the number of columns of losses"
            raise invalid("n_arms", owner, expected, self.n_arms)
        if not isinstance(self.losses, str | os.PathLike):
            keep(self, losses=table)
        keep(self, n_arms=table.shape[1], horizon_limit=table.shape[0], _table=table)

    def _arguments(self) -> dict[str, Any]:
        # With an array the number of arms is its number of columns.
        return {"losses": self.losses, "n_arms": self.n_arms if callable(self.losses) else None}

    def best_cumulative(self, checkpoints: ArrayLike) -> Array:
        """Return the best arm's cumulative loss at each of the increasing checkpoints."""
        return np.asarray(self._sums(checkpoints)[:, : self.n_arms].min(axis=1))

    def least_cumulative(self, checkpoints: ArrayLike) -> Array:
        """Return the sum of the least loss of every round up to each checkpoint."""
        return self._sums(checkpoints)[:, self.n_arms]

    def _sums(self, checkpoints: ArrayLike) -> Array:
        rounds = np.asarray(checkpoints, dtype=np.int64)
        if self._table is None:
            return cumulative_of(self.losses, self.n_arms, rounds, "losses", "Adversarial")
        return cumulative_at(self._table, rounds)

    def ranking(self) -> NDArray[np.int64]:
        """Return the labels of the arms by their total loss; empty for a function."""
        if self._table is None:
            return np.zeros(0, dtype=np.int64)
        last = np.array([self._table.shape[0]])
        return np.argsort(cumulative_at(self._table, last)[0, : self.n_arms], kind="stable")

    def parameters(self) -> Array:
        """Return the table, row after row."""
        return np.zeros(1) if self._table is None else self._table.reshape(-1)

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels."""
        return state(np.arange(self.n_arms))

    def kernel(self) -> Any:
        """Return the kernel for a table or for a function."""
        return kernel_of_function(self.losses) if callable(self.losses) else loss_listed

    def unchecked_kernel(self) -> Any:
        """Return the kernel for the engine."""
        if callable(self.losses):
            return kernel_of_function(self.losses, check=False)
        return loss_listed

    def rehearse(self, horizon: int) -> None:
        """Run the function of the losses, if it is one, in the first rounds and the last."""
        if callable(self.losses):
            played = product(usercode.some_rounds(horizon), usercode.some_arms(self.n_arms))
            usercode.rehearse_function(self.losses, played, "losses", "Adversarial")
