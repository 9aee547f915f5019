"""The stochastic regime: losses drawn from distributions with fixed means.

========== ===================================================================
symbol     meaning
========== ===================================================================
``mu_i``   mean loss of arm i, rows 1 + K to 2K
``mu_*``   smallest of them, C[0]
``v``      the round's uniform number, common to all arms
========== ===================================================================

The pseudo-regret is the sum of the gaps mu_I - mu_* of the arms played (Zimmert and Seldin, 2021,
section 2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import (
    arm_count,
    flag,
    frozen,
    keep,
    number,
    one_of,
    positive_gap,
    unit_vector,
)
from bothworlds.environments.base import Array, Environment, ordered, states
from bothworlds.environments.lookup import lookup
from bothworlds.environments.noise import CELLS, quantile_table
from bothworlds.errors import invalid
from bothworlds.lanes import orders
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import keep_words, uniforms, words_of
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import (
    floor,
    load,
    maximum,
    minimum,
    select,
    splat,
    store,
    to_index,
)


@jit
def coin(v: Any, mean: Any) -> Any:
    """Return a Bernoulli loss: 1 where v < mean, else 0."""
    return select(v < mean, splat(1.0, v), splat(0.0, v))


@jit
def mean_of(K: int, C: Any, E: Any, arm: Any) -> Any:
    """Return mu_arm and leave its gap in row 0."""
    mean = take(E, 1 + K, K, arm)
    store(E, 0, mean - C[0])
    return mean


@jit
def loss_bernoulli(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Return 1 with probability mu_arm, else 0."""
    return coin(v, mean_of(K, C, E, arm))


@jit
def losses_bernoulli(
    K: int, t: int, n: int, C: Any, E: Any, G: Any, arm: Any, X: Any, total: Any
) -> Any:  # fmt: skip
    """Do the same in n rounds, with one look at the arm's mean."""
    mean = mean_of(K, C, E, arm)
    gap = load(E, 0, mean)
    words, _ = uniforms(words_of(G, mean), n, X, mean)
    keep_words(G, words)
    for i in range(n):
        store(X, i, coin(load(X, i, mean), mean))
        total = total + gap
    return total


loss_bernoulli.in_rounds = losses_bernoulli


@jit
def loss_uniform(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Return mu + h (2 v - 1), h the half-width of the arm's interval, in rows 1 + 2K to 3K."""
    loss = mean_of(K, C, E, arm) + take(E, 1 + 2 * K, K, arm) * (2.0 * v - 1.0)
    return minimum(maximum(loss, 0.0), 1.0)


@jit
def loss_tabulated(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Invert the distribution by its table, whose place in C stands in rows 1 + 2K to 3K."""
    mean_of(K, C, E, arm)
    place = v * float(CELLS)
    cell = floor(place)
    at = to_index(take(E, 1 + 2 * K, K, arm) + 2.0 * cell)
    loss = lookup(C, 0, at) + (place - cell - 0.5) * lookup(C, 1, at)
    return minimum(maximum(loss, 0.0), 1.0)


Noise = Literal["bernoulli", "uniform", "beta", "normal", "deterministic"]
_KERNELS: dict[Noise, Any] = {
    "bernoulli": loss_bernoulli,
    "uniform": loss_uniform,
    "deterministic": loss_uniform,
    "beta": loss_tabulated,
    "normal": loss_tabulated,
}
_SPREADS: dict[Noise, tuple[float, float, float]] = {
    "uniform": (1.0, 0.0, 1.0),
    "beta": (0.5, 0.01, 0.99),
    "normal": (0.25, 0.01, 10.0),
}
"""The default, the smallest and the largest spread of every noise that has one."""


@dataclass(frozen=True, repr=False, eq=False, init=False)
class Stochastic(Environment):
    """Independent losses with fixed means.

    Every noise has exactly the arm's mean and stays in [0, 1].

    Parameters
    ----------
    means : sequence of float
        Mean loss of every arm, in [0, 1]. Any number of them may be the smallest.
    noise : {"bernoulli", "uniform", "beta", "normal", "deterministic"}, default "bernoulli"
        Distribution of the losses around their mean; "normal" is truncated to [0, 1].
    spread : float, optional
        How wide the noise is. "uniform": the half-width as a fraction of the largest that fits,
        min(mean, 1 - mean); default 1. "beta": the standard deviation as a fraction of that of a
        Bernoulli loss, sqrt(mean (1 - mean)); default 0.5. "normal": the standard deviation
        before truncation; default 0.25. The other two have none.
    shuffle : bool, default True
        Whether every repetition has the arms in an order of its own, so that the way a policy
        breaks ties does not matter.

    Examples
    --------
    >>> from bothworlds.environments import Stochastic
    >>> Stochastic([0.2, 0.5, 0.5], noise="beta")
    Stochastic(means=[0.2, 0.5, 0.5], noise='beta')
    >>> Stochastic.gap(4, 0.125)
    Stochastic(means=[0.4375, 0.5625, 0.5625, 0.5625])

    References
    ----------
    Zimmert and Seldin, *Tsallis-INF: An Optimal Algorithm for Stochastic and Adversarial
    Bandits*, JMLR 22, 2021, sections 2 and 8.
    """

    means: Array
    noise: Noise
    spread: float | None
    shuffle: bool

    def __init__(
        self,
        means: ArrayLike,
        noise: Noise = "bernoulli",
        spread: float | None = None,
        shuffle: bool = True,
    ) -> None:
        owner = "Stochastic"
        mu = unit_vector("means", means, owner)
        noise = one_of("noise", noise, owner, tuple(_KERNELS))
        shuffle = flag("shuffle", shuffle, owner)
        if spread is not None:
            if noise not in _SPREADS:
                raise invalid("spread", owner, f"None with {noise} noise", spread)
            _, low, high = _SPREADS[noise]
            expected = f"a number in [{low:g}, {high:g}] with {noise} noise"
            spread = number("spread", spread, owner, low, high, expected)
        keep(self, means=frozen(mu), noise=noise, spread=spread, shuffle=shuffle, n_arms=mu.size)

    @classmethod
    def gap(
        cls,
        n_arms: int,
        gap: float,
        noise: Noise = "bernoulli",
        spread: float | None = None,
        shuffle: bool = True,
    ) -> Stochastic:
        """Return the paper's instance: one arm with mean (1 - gap)/2, the rest (1 + gap)/2."""
        K = arm_count(n_arms, "Stochastic.gap")
        D = positive_gap(gap, "Stochastic.gap")
        means = np.full(K, 0.5 * (1.0 + D))
        means[0] = 0.5 * (1.0 - D)
        return cls(means, noise, spread, shuffle)

    @property
    def _spread(self) -> float:
        return _SPREADS[self.noise][0] if self.spread is None else self.spread

    def fixed_gaps(self) -> Array:
        """Return the gap of every arm."""
        return self.means - float(self.means.min())

    def parameters(self) -> Array:
        """Return the smallest mean, then a quantile table for every distinct mean."""
        means = self.means
        tables = []
        if self.noise in ("beta", "normal"):
            distinct = np.unique(means).tolist()
            tables = [quantile_table(self.noise, mean, self._spread) for mean in distinct]
        return np.concatenate([[means.min()], *tables])

    def start(self, rng: np.random.Generator) -> Array:
        """Return the labels, means and noise parameters, in this repetition's order."""
        return np.asarray(self._ordered(ordered(rng, self.n_arms, self.shuffle)[np.newaxis])[0])

    def start_all(self, rngs: Iterable[np.random.Generator]) -> Array:
        """Return the same for several repetitions, a row each."""
        if type(self).start is not Stochastic.start:
            return super().start_all(rngs)
        words = getattr(rngs, "words", None)  # those of `seeding.Generators`
        if self.shuffle and words is not None and orders.pays(len(words)):
            return self._ordered(orders.first_orders(words, self.n_arms))
        return self._ordered(np.array([ordered(rng, self.n_arms, self.shuffle) for rng in rngs]))

    def _ordered(self, order: NDArray[np.int64]) -> Array:
        """Return the states of repetitions with these labels, a row each."""
        means = self.means
        if self.noise == "bernoulli":
            return states(order, means[order])
        if self.noise in ("beta", "normal"):
            extra = 1.0 + 2 * CELLS * np.unique(means, return_inverse=True)[1]
        else:
            width = self._spread if self.noise == "uniform" else 0.0
            extra = width * np.minimum(means, 1.0 - means)
        return states(order, means[order], extra[order])

    def kernel(self) -> Any:
        """Return the kernel of the noise."""
        return _KERNELS[self.noise]
