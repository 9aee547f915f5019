"""Environments that combine another one with a stage that changes the observed losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import keep
from bothworlds.environments.base import Array, Environment
from bothworlds.errors import InvalidParameter, must


class Wrapped(Environment):
    """Everything but the attack is the base's: its losses, its regret, its streams."""

    base: Environment

    def _wrap(self, base: Environment) -> None:
        """Take over a base that is an environment with one arm per round and no attack yet."""
        owner = type(self).__name__
        plain = isinstance(base, Environment) and base.kind == "bandit"
        if not plain or base.stage() is not None or base.unbounded:
            expected = (
                "an environment for one arm a round, with losses in [0, 1], "
                "that is not under attack itself"
            )
            raise InvalidParameter(must("base", owner, expected, base))
        self._take_over(base)

    def _take_over(self, base: Environment) -> None:
        """Copy the properties of the base."""
        taken = ("n_arms", "horizon_limit", "regret", "wide", "trusted", "unbounded", "kind")
        keep(self, base=base, **{name: getattr(base, name) for name in taken})

    @property
    def adaptive(self) -> bool:
        """Whether the base is."""
        return self.base.adaptive

    @property
    def tracked_row(self) -> int:
        """First row of the accumulated expected losses of the base."""
        return self.base.tracked_row

    def best_cumulative(self, checkpoints: NDArray[np.int64]) -> Array:
        """Return the best arm's cumulative expected loss in the base."""
        return self.base.best_cumulative(checkpoints)

    def least_cumulative(self, checkpoints: NDArray[np.int64]) -> Array:
        """Return the least expected losses of the base, added up."""
        return self.base.least_cumulative(checkpoints)

    def comparators(self, checkpoints: NDArray[np.int64]) -> dict[str, Array]:
        """Return the further comparators of the base's regret."""
        return self.base.comparators(checkpoints)

    def fixed_gaps(self) -> Array:
        """Return the gaps of the base."""
        return self.base.fixed_gaps()

    def ranking(self) -> NDArray[np.int64]:
        """Return the labels of the arms, best first in the base."""
        return self.base.ranking()

    def delays(self) -> Array | None:
        """Return how long the base's feedback takes."""
        return self.base.delays()

    @property
    def memory_row(self) -> int | None:
        """First row that rounds change, the base's."""
        return self.base.memory_row

    def parameters(self) -> Array:
        """Return the base's configuration."""
        return self.base.parameters()

    def start(self, rng: np.random.Generator) -> Array:
        """Return the base's state."""
        return self.base.start(rng)

    def kernel(self) -> Any:
        """Return the base's kernel."""
        return self.base.kernel()

    def unchecked_kernel(self) -> Any:
        """Return the base's kernel for the engine."""
        return self.base.unchecked_kernel()

    def rehearse(self, horizon: int) -> None:
        """Rehearse the base."""
        self.base.rehearse(horizon)
