"""Your own algorithm in plain Python: any state, any library, nothing compiled.

The slow lane of `bothworlds.simulate`: such a policy meets the same streams as the compiled ones,
and its result is ranked, drawn and stored like theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bothworlds.policies.base import Array, Kernels, Player, Program


class PlainPolicy(Player):
    """Base class of policies in plain Python or NumPy, for `bothworlds.simulate` alone.

    A subclass defines three methods. Give it parameters as a frozen dataclass with ``repr=False``:
    it then prints as its constructor, which names its curve.

    ``begin(n_arms, rng)``
        Returns the state of one run: any object. ``rng`` is a NumPy generator for this run alone.
    ``choose(state, t)``
        Returns the arm for round t (from 1), a whole number from 0 to ``n_arms`` - 1.
    ``update(state, t, arm, loss)``
        Changes the state after ``arm`` had ``loss``.

    Feedback must be prompt: it cannot play in `environments.Delayed`, in duels or with advice.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import bothworlds as bw
    >>> @dataclass(frozen=True, repr=False)
    ... class Greedy(bw.policies.PlainPolicy):
    ...     explore: float = 0.1
    ...     def begin(self, n_arms, rng):
    ...         return {"rng": rng, "losses": np.zeros(n_arms), "plays": np.full(n_arms, 1e-9)}
    ...     def choose(self, state, t):
    ...         if state["rng"].random() < self.explore:
    ...             return state["rng"].integers(len(state["plays"]))
    ...         return np.argmin(state["losses"] / state["plays"])
    ...     def update(self, state, t, arm, loss):
    ...         state["losses"][arm] += loss
    ...         state["plays"][arm] += 1.0
    >>> world = bw.environments.Stochastic.gap(n_arms=3, gap=0.5)
    >>> both = [Greedy(explore=0.05), bw.Uniform()]
    >>> result = bw.simulate(both, world, horizon=300, repetitions=8, seed=1)
    >>> next(iter(result.ranking().means))
    'Greedy(explore=0.05)'
    """

    def begin(self, n_arms: int, rng: np.random.Generator) -> Any:
        """Return the state of one run."""
        raise TypeError(f"{type(self).__name__} defines no begin.")

    def choose(self, state: Any, t: int) -> int:
        """Return the arm for round t."""
        raise TypeError(f"{type(self).__name__} defines no choose.")

    def update(self, state: Any, t: int, arm: int, loss: float) -> None:
        """Learn from a loss."""
        raise TypeError(f"{type(self).__name__} defines no update.")

    def start(self, n_arms: int) -> Array:
        """Return no numbers: the state is the return value of `begin`."""
        return np.zeros(1)

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return a program without kernels; `bothworlds.engine.plain` plays it."""
        return Program.of(self, n_arms, Kernels(None, None, wide=False))
