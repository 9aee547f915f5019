"""Table of a shard: streams and memory for its tiles, which are played on it one after another.

A tile of short runs is over in less time than it takes to seed its repetitions one by one and to
make room for them.  So the streams and first states of many are prepared at once, and the memory of
a tile, with all addresses in it, serves the next one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.engine import loop as engine
from bothworlds.environments.base import ORDER, InOrder
from bothworlds.lanes.direct import address
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.types import LANES
from bothworlds.seeding import Generators, digests, words_of

if TYPE_CHECKING:
    from bothworlds.engine.tile import TileJob

AHEAD = 1024
"""Largest number of repetitions that are prepared at once."""
AHEAD_NUMBERS = 2**20
"""About how many numbers their first states may have."""

Floats = NDArray[np.float64]
Words = NDArray[np.int64]


@dataclass(frozen=True)
class Begun:
    """Repetitions before the first round, a row each.

    Parameters
    ----------
    first : int
        Number of the first repetition.
    words : list of ndarray
        The generators of the policy, or of both sides of a duel.
    world, world_words : ndarray
        States and generators of the environment.
    stage : ndarray
        States of what stands between the losses and the agent.
    """

    first: int
    words: list[Words]
    world: Floats
    world_words: Words
    stage: Floats

    @functools.cached_property
    def labels(self) -> Words:
        """Label of the arm at each index, from rows 1 to K of an environment."""
        return self.world[:, ORDER:].astype(np.int64)

    def has(self, job: TileJob) -> bool:
        """Tell whether the repetitions of a tile are among these."""
        return self.first <= job.first and job.span[1] <= self.first + len(self.world)


class Table:
    """Common part of the tiles of one curve.

    Parameters
    ----------
    jobs : sequence of TileJob
        The tiles, which have one program.
    """

    def __init__(self, jobs: Sequence[TileJob]) -> None:
        self._job = job = jobs[0]
        self._end = max(each.span[1] for each in jobs)
        self._begun: Begun | None = None
        self._memories: dict[tuple[int, int], Memory] = {}
        self.stage = job.stage()
        self.program = job.program
        self.kernels: tuple[list[Any], int] | None = None

    def memory(self, job: TileJob, mode: int) -> Memory:
        """Return the memory of a tile, its repetitions before the first round."""
        kind = job.count, job.after
        if kind not in self._memories:
            self._memories[kind] = Memory(self, job, mode)
        return self._memories[kind]

    def begun(self, job: TileJob) -> Begun:
        """Return the repetitions of a tile, and some that follow them, before the first round."""
        if self._begun is None or not self._begun.has(job):
            ahead = max(job.count, min(AHEAD, AHEAD_NUMBERS // job.environment.n_arms))
            self._begun = self._begin(range(job.first, min(job.first + ahead, self._end)))
        return self._begun

    def _begin(self, repetitions: range) -> Begun:
        job = self._job
        world = repr(job.environment)
        names = [["left"], ["right"]] if self.program.right is not None else [[]]
        sides = [digests(job.seed, world, job.name, *each, last=repetitions) for each in names]
        own = digests(job.seed, world, last=repetitions)
        stage = np.zeros((len(repetitions), 0))
        if self.stage is not None:
            seeds = digests(job.seed, world, "attack", last=repetitions)
            stage = np.array([self.stage.start(rng) for rng in Generators(seeds)])
        rngs: Iterable[Any] = Generators(own)
        if job.policy.traits.labelled:
            rngs = map(InOrder, rngs)
        begun = job.environment.start_all(rngs)
        return Begun(
            repetitions.start, [words_of(each) for each in sides], begun, words_of(own), stage
        )

    @functools.cached_property
    def parameters(self) -> Floats:
        """The policy's configuration."""
        given = self.program.parameters()
        found = aligned(given.size + 1)
        found[:-1] = given
        return found

    @functools.cached_property
    def start(self) -> Floats:
        """The policy's state before the first round."""
        return self.program.start()

    @functools.cached_property
    def world_parameters(self) -> Floats:
        """The environment's configuration; it may be a file that can only be read."""
        return self._job.environment.parameters()


class Memory:
    """The numbers that change while a tile is played, and where they are.

    Parameters
    ----------
    table : Table
        What the tile has in common with others.
    job : TileJob
        The tile, or one with the same number of repetitions that continues after the same round.
    mode : int
        The mode of `engine.run_tile`.
    """

    def __init__(self, table: Table, job: TileJob, mode: int) -> None:
        world, begun = job.environment, table.begun(job)
        self._table, self._job, self._K = table, job, world.n_arms
        self._wide = mode & engine.WIDE_POLICY != 0
        self._room = room = 1 if mode & engine.ALONE else LANES
        # Lanes beyond `count` replay the last repetition; their results are ignored.
        self._lanes = np.minimum(np.arange(room), job.count - 1)
        self.checkpoints = block(*(t for t in job.checkpoints if t > job.after))
        n = self.checkpoints.size
        # Where kernels take one repetition at a time, only those there are have a state.
        rows, states = table.start.size, room if self._wide else job.count
        one = other = aligned(states * rows)
        if len(begun.words) == 2 and not table.program.one_state:
            other = aligned(states * rows)
        self.players = [
            (S, aligned(room * WORDS, np.int64))
            for S, _ in zip((one, other), begun.words, strict=False)
        ]
        self.world = aligned(room * begun.world.shape[1])
        self.world_words = aligned(room * WORDS, np.int64)
        self.stage_rows = begun.stage.shape[1]
        self.stage = aligned(room * self.stage_rows) if self.stage_rows else np.zeros(1)
        self.cost = aligned((1 + n) * room)
        self.plays = aligned(world.n_arms * room)
        tracked_row = world.tracked_row if world.regret == "tracked" else -1
        self._tracked = np.zeros(n * (world.n_arms + 1) * room if tracked_row >= 0 else 0)
        configured = np.zeros(1) if table.stage is None else table.stage.parameters
        self._attack = aligned(configured.size)
        self._attack[:] = configured
        C, CE = table.parameters, table.world_parameters
        sides = [block(*map(address, (C, S, G)), rows) for S, G in self.players]
        places = address(self.world), address(self.world_words)
        own = block(CE.ctypes.data, *places, begun.world.shape[1])
        attack = block(address(self._attack), address(self.stage), self.stage_rows)
        tracked = self._tracked.ctypes.data
        outputs = block(address(self.cost), address(self.plays), tracked, 0, tracked_row)
        self.blocks = [sides[0], sides[-1], own, attack, self.checkpoints, outputs]

    def begin(self, job: TileJob) -> None:
        """Put the repetitions of a tile where they are before the first round."""
        begun = self._table.begun(job)
        lanes = self._lanes + (job.first - begun.first)
        wide, idle_row = job.environment.wide, self._table.program.idle_row
        for (S, G), words in zip(self.players, begun.words, strict=True):
            states = columns(S, self._table.start.size, self._wide)
            states[...] = self._table.start[:, np.newaxis]
            if idle_row is not None:
                states[idle_row, job.count :] = 1.0
            columns(G, WORDS, self._wide)[...] = words[lanes].T
        columns(self.world, begun.world.shape[1], wide)[...] = begun.world[lanes].T
        columns(self.world_words, WORDS, wide)[...] = begun.world_words[lanes].T
        if self.stage_rows:
            columns(self.stage, self.stage_rows, wide)[...] = begun.stage[lanes].T
        self.cost[: self._room] = 0.0
        self.plays[:] = 0.0
        self.blocks[-1][3] = 0
        own = slice(job.first - begun.first, job.first - begun.first + job.count)
        self._labels = begun.labels[own, : self._K]

    @property
    def moving(self) -> list[NDArray[Any]]:
        """All numbers on which the rounds that follow depend, and the sums so far."""
        players = [array for player in self.players for array in player]
        return [
            *players, self.world, self.world_words, self.stage, self.cost[: self._room], self.plays
        ]  # fmt: skip

    @property
    def world_columns(self) -> Floats:
        """The environment's states, a column each."""
        wide = self._job.environment.wide
        return columns(self.world, self.world.size // self._room, wide)

    def counted(self) -> Words:
        """Return how often every repetition played every arm, by label."""
        return by_label(self._labels, self.plays.reshape(self._K, -1)[:, : self._job.count].T)

    def costs(self) -> Floats:
        """Return the sum of costs of every repetition at every checkpoint."""
        return self.cost.reshape(-1, self._room)[1:, : self._job.count].T.copy()

    def tracked(self) -> Floats | None:
        """Return the sums that the environment tracks, if any: one per arm, and the least."""
        if not self._tracked.size:
            return None
        found = self._tracked.reshape(-1, self._K + 1, self._room)[:, :, : self._job.count]
        return found.transpose(2, 0, 1).copy()

    def staged(self) -> Floats:
        """Return the states of the stages between the losses and the agent, a column each."""
        wide = self._job.environment.wide
        return columns(self.stage, self.stage_rows, wide)[:, : self._job.count]


def aligned(size: int, kind: Any = np.float64) -> NDArray[Any]:
    """Return a flat array of zeros that starts at a cache line, so that no vector straddles two."""
    room = np.zeros(size + 8, kind)
    offset = (-address(room) % 64) // 8
    return room[offset : offset + size]


def block(*numbers: int) -> Words:
    """Return numbers for a compiled loop."""
    return np.array(numbers, dtype=np.int64)


def columns(flat: NDArray[Any], rows: int, wide: bool) -> NDArray[Any]:
    """Return repetitions, a column each, as they lie in memory: interleaved for vectors."""
    return flat.reshape(rows, -1) if wide else flat.reshape(-1, rows).T


def by_label(labels: Words, plays: Floats) -> Words:
    """Return the plays of every repetition in the order of the environment's constructor."""
    ordered = np.zeros(labels.shape, dtype=np.int64)
    ordered[np.arange(len(labels))[:, np.newaxis], labels] = plays
    return ordered
