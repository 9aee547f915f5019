"""Replay of an environment: its streams, played with any actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.engine import environment_loops as walking
from bothworlds.engine import loop as engine
from bothworlds.engine.policy_loops import compiled, loop
from bothworlds.environments.base import ORDER, Array, Environment
from bothworlds.lanes.types import LANES
from bothworlds.seeding import numpy_generator, stream_words

Counts = NDArray[np.int64]

MARGIN = 4096
"""Numbers put behind a configuration, not numbers at all: reading past its end shows."""
LARGE = 10**7
"""Configurations of more numbers are used where they lie."""


@dataclass
class Repetition:
    """The state of one run: the environment's, its generator's and the attacker's."""

    E: Array
    G: NDArray[np.int64]
    A: Array


@dataclass(frozen=True)
class Rounds:
    """Loss of every action in every round, a column per action."""

    losses: Array
    costs: Array
    spent: Array


class World:
    """An environment with a seed, and its kernels at hand.

    Parameters
    ----------
    environment : Environment
        What is checked.
    seed : int
        Makes every check repeatable.
    """

    def __init__(self, environment: Environment, seed: int) -> None:
        self.environment = environment
        self.seed = seed
        self.duel = environment.kind == "duel"
        self.attack = environment.stage()
        K = environment.n_arms
        self.n_arms = K
        self.left = np.repeat(np.arange(K), K) if self.duel else np.arange(K)
        self.right = np.tile(np.arange(K), K) if self.duel else np.arange(K)
        C = np.ascontiguousarray(environment.parameters(), dtype=np.float64)
        self._C = np.append(C, np.full(MARGIN, np.nan)) if C.size <= LARGE else C
        self._CA = np.zeros(1) if self.attack is None else self.attack.parameters.copy()

    def rng(self, *names: object) -> np.random.Generator:
        """Return NumPy's generator for the part of a check named by ``names``."""
        return numpy_generator(self.seed, "checks", *names)

    def rounds(self, wanted: int) -> int:
        """Return ``wanted``, or the rounds there are if these are fewer."""
        limit = self.environment.horizon_limit
        return wanted if limit is None else min(wanted, int(limit))

    def actions(self, rounds: int, *names: object) -> Counts:
        """Return random actions, one for each of ``rounds``."""
        return self.rng(*names, "actions").integers(self.left.size, size=rounds)

    def repetition(self, number: int) -> Repetition:
        """Return a repetition before round 1, seeded as `simulate` does it."""
        label = repr(self.environment)
        A = np.zeros(1)
        if self.attack is not None:
            A = self.attack.start(numpy_generator(self.seed, label, "attack", number))
        E = self.environment.start(numpy_generator(self.seed, label, number))
        return Repetition(E.copy(), stream_words(self.seed, label, number).copy(), A.copy())

    def labels(self, run: Repetition) -> Counts:
        """Return the label of the arm at every index."""
        return run.E[ORDER : ORDER + self.n_arms].astype(np.int64)

    def mode(self, attacked: bool) -> int:
        """Return which kernel gives the losses."""
        if self.duel:
            return walking.DUEL
        return walking.ATTACKED if attacked and self.attack is not None else walking.PLAIN

    def kernels(self, wide: bool) -> list[Any]:
        """Return the functions for loss, attack and comparison that the loops take."""
        kernel = self.environment.kernel()
        attack = engine.idle_attack if self.attack is None else self.attack.kernel
        loss, prefer = (
            (engine.idle_loss, kernel) if self.duel else (kernel, engine.idle_prefer)
        )  # fmt: skip
        shapes = walking.kernel_shapes(LANES if wide else 1)
        return [compiled(k, shape) for k, shape in zip((loss, attack, prefer), shapes, strict=True)]

    def walk(
        self, run: Repetition, actions: Counts, attacked: bool = True, enquire: bool = False
    ) -> tuple[Array, Array]:
        """Play ``actions`` from round 1 on; return the losses and the contributions to regret."""
        losses, costs = np.zeros((2, actions.size))
        loop(walking.walk, walking.WALK)(
            *self.kernels(False), self.mode(attacked), enquire, self.n_arms, 1,
            self._C.ctypes.data, run.E, run.G, self._CA, run.A,
            self.left[actions], self.right[actions], losses, costs,
        )  # fmt: skip
        return losses, costs

    def walk_all(
        self, run: Repetition, played: Counts, attacked: bool = True, first: int = 1
    ) -> Rounds:
        """Play ``played`` from round ``first`` on; return the losses of every action."""
        losses, costs = np.zeros((2, played.size, self.left.size))
        spent = np.zeros(played.size)
        loop(walking.walk_all, walking.WALK_ALL)(
            *self.kernels(False), self.mode(attacked), self.n_arms, first, self._C.ctypes.data,
            run.E, run.G, self._CA, run.A, self.left, self.right, played, losses, costs, spent,
        )  # fmt: skip
        return Rounds(losses, costs, spent)

    def walk_tile(
        self, runs: list[Repetition], actions: Counts
    ) -> tuple[Array, Array, list[Repetition]]:
        """Play a column of actions in each of ``LANES`` repetitions, as vectors."""
        E, G, A = (
            np.stack([getattr(run, part) for run in runs], axis=1).ravel()
            for part in ("E", "G", "A")
        )
        losses, costs = np.zeros((2, *actions.shape))
        loop(walking.walk_tile, walking.WALK_TILE)(
            *self.kernels(True), self.mode(True), self.n_arms, 1, self._C.ctypes.data, E, G,
            self._CA, A, self.left[actions], self.right[actions], losses, costs,
        )  # fmt: skip
        parts = (E.reshape(-1, LANES), G.reshape(-1, LANES), A.reshape(-1, LANES))
        return losses, costs, [Repetition(*(part[:, n] for part in parts)) for n in range(LANES)]
