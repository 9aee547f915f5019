"""Experts that advise: finite contexts, fixed advice in each, and losses by context and arm.

A round has a context, which the player does not see; each expert does, and recommends an arm or
gives probabilities to arms.  The policies are those that `bothworlds.AdvisedBandit` takes: they
weigh the experts.  The round's cost is the expected loss given the context, averaged over the
player's probabilities, less how far the context moves the loss of the expert that is best at
first.  The latter has mean 0 and saves noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import frozen, is_whole, keep, numbers, whole
from bothworlds.environments.base import Array, Environment, Kind, state
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import to_int

ROUNDING = 1e-9
"""How far from 1 the probabilities of a piece of advice may add up."""


@jit
def context_of(contexts: int, v: Any) -> Any:
    """Return the context of a round, all equally likely, from a uniform number."""
    return to_int(v * float(contexts))


@dataclass(frozen=True, repr=False, eq=False)
class Advised(Environment):
    """Experts that see a context and advise; the player sees their advice only.

    Contexts are drawn uniformly, losses are 0 or 1. Regret is measured on probabilities, against
    the expert whose own advice is best in hindsight.

    Parameters
    ----------
    contexts : int
        The number of contexts.
    means : array (contexts, arms)
        Mean loss of every arm in every context, in [0, 1].
    advice : sequence (experts, contexts)
        What every expert recommends in every context: an arm, or a row of probabilities.
    levels : array, optional
        A number for each round that is added to all means; the rounds end with it.
    later : sequence (experts, contexts), optional
        The advice from round ``change`` on: how a model breaks.
    change : int, optional
        The first round of the later advice.

    Examples
    --------
    Two contexts with opposite best arms; a right and a wrong map, and both constant arms:

    >>> import bothworlds as bw
    >>> world = bw.environments.Advised(
    ...     2, [[0.4, 0.6], [0.6, 0.4]], advice=[[0, 0], [1, 1], [0, 1], [1, 0]]
    ... )
    >>> world.n_experts, world.values().tolist()
    (4, [0.5, 0.5, 0.4, 0.6])
    >>> result = bw.simulate(bw.TsallisINF(), world, horizon=1000, repetitions=32, seed=1)
    >>> bool(result.regret["TsallisINF()"][:, -1].mean() < 60)
    True
    """

    contexts: int
    means: ArrayLike
    advice: Any
    levels: ArrayLike | None = None
    later: Any = None
    change: int | None = None
    regret = "oblivious"

    kind: ClassVar[Kind] = "advised"

    def __post_init__(self) -> None:
        owner = "Advised"
        contexts = whole("contexts", self.contexts, owner, 1, "a whole number >= 1")
        means = numbers(self.means)
        if means is None or means.ndim != 2 or len(means) != contexts or means.shape[1] < 1:
            expected = f"{contexts} rows of numbers in [0, 1], a column per arm"
            raise invalid("means", owner, expected, self.means)
        levels = None if self.levels is None else numbers(self.levels)
        if self.levels is not None and (levels is None or levels.ndim != 1 or not levels.size):
            raise invalid("levels", owner, "a number for each round", self.levels)
        spread = [0.0] if levels is None else [float(levels.min()), float(levels.max())]
        if not (means.min() + spread[0] >= 0.0 and means.max() + spread[-1] <= 1.0):
            expected = "numbers in [0, 1], also with every level added"
            raise invalid("means", owner, expected, self.means)
        K = means.shape[1]
        rows = checked_advice("advice", self.advice, contexts, K)
        keep(
            self, contexts=contexts, means=frozen(means), advice=rows, n_arms=K,
            levels=None if levels is None else frozen(levels),
            horizon_limit=None if levels is None else levels.size,
        )  # fmt: skip
        if (self.later is None) != (self.change is None):
            raise invalid("change", owner, "given with later", self.change)
        if self.later is not None:
            later = checked_advice("later", self.later, contexts, K)
            if len(later) != len(rows):
                raise invalid("later", owner, f"advice of all {len(rows)} experts", self.later)
            change = whole("change", self.change, owner, 2, "a round >= 2")
            keep(self, later=later, change=change)

    @property
    def n_experts(self) -> int:
        """Number of experts."""
        return len(self.advice)

    @property
    def phases(self) -> Array:
        """The advice at first and later on: phases by contexts by experts by arms."""
        later = self.advice if self.later is None else self.later
        return np.ascontiguousarray(np.stack([self.advice, later]).transpose(0, 2, 1, 3))

    @property
    def turn(self) -> int:
        """The first round of the later advice, or one that is never reached."""
        return 2**62 if self.change is None else self.change

    def values(self, phase: int = 0) -> Array:
        """Return the mean loss of every expert's advice, levels apart; later on in phase 1."""
        return np.asarray(self._by_context()[phase].mean(axis=0))

    def _by_context(self) -> Array:
        """Return the mean loss of all advice: phases by contexts by experts."""
        return np.asarray(np.einsum("pcja,ca->pcj", self.phases, np.asarray(self.means)))

    def costs(self) -> Array:
        """Return the cost of every arm: phases by contexts by arms."""
        found = self._by_context()
        best = int(self.values().argmin())
        noise = found[:, :, best] - found[:, :, best].mean(axis=1, keepdims=True)
        return np.asarray(np.asarray(self.means)[np.newaxis] - noise[:, :, np.newaxis])

    def best_cumulative(self, checkpoints: NDArray[np.int64]) -> Array:
        """Return the least cumulative expected loss of an expert, levels apart."""
        rounds = np.asarray(checkpoints, dtype=np.int64)
        later = np.maximum(0, rounds - (self.turn - 1))
        sums = np.outer(rounds - later, self.values()) + np.outer(later, self.values(1))
        return np.asarray(sums.min(axis=1))

    def least_cumulative(self, checkpoints: NDArray[np.int64]) -> Array:
        """Return the expected loss of the expert that is best at each time, levels apart."""
        rounds = np.asarray(checkpoints, dtype=np.int64)
        later = np.maximum(0, rounds - (self.turn - 1))
        least = float(self.values().min()), float(self.values(1).min())
        return (rounds - later) * least[0] + later * least[1]

    def comparators(self, checkpoints: NDArray[np.int64]) -> dict[str, Array]:
        """Return the correction for the regret against the best expert at each time.

        Experts are compared in expectation over the contexts, so the best fixed one is the same
        in every run.
        """
        found = super().comparators(checkpoints)
        return {**found, "best expert at each time": found["dynamic"]}

    def parameters(self) -> Array:
        """Return all numbers, for the digest that names runs."""
        sizes = np.array([self.contexts, self.turn], dtype=np.float64)
        levels = np.zeros(0) if self.levels is None else np.asarray(self.levels)
        return np.concatenate([sizes, np.ravel(self.means), levels, self.phases.ravel()])

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels of the arms, which keep their order."""
        return state(np.arange(self.n_arms))

    def kernel(self) -> Any:
        """Return the function that draws contexts; see `bothworlds.engine.advised_loop`."""
        return context_of


def checked_advice(parameter: str, advice: object, contexts: int, n_arms: int) -> Array:
    """Return advice as probabilities: experts by contexts by arms."""
    owner = "Advised"
    expected = f"for each expert {contexts} arms from 0 to {n_arms - 1} or rows of probabilities"
    if isinstance(advice, str) or not hasattr(advice, "__len__") or len(advice) == 0:
        raise invalid(parameter, owner, expected, advice)
    found = np.zeros((len(advice), contexts, n_arms))
    for own, given in zip(found, advice, strict=True):  # type: ignore[call-overload]
        if not hasattr(given, "__len__") or len(given) != contexts:
            raise invalid(parameter, owner, expected, given)
        for row, each in zip(own, given, strict=True):
            if is_whole(each) and 0 <= each < n_arms:
                row[int(each)] = 1.0
                continue
            read = numbers(each)
            if (
                read is None
                or read.shape != (n_arms,)
                or not (read >= 0.0).all()
                or not abs(read.sum() - 1.0) <= ROUNDING
            ):
                raise invalid(parameter, owner, expected, each)
            row[:] = read / read.sum()
    return frozen(found)
