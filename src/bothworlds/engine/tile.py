"""Tile of repetitions of one policy in one environment, start to end: the unit of work."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.engine import loop as engine
from bothworlds.engine import snapshot
from bothworlds.engine.outcome import TileOutcome
from bothworlds.engine.policy_loops import compiled, entry
from bothworlds.engine.realised import measuring, realised_regret
from bothworlds.engine.table import Table, block, columns
from bothworlds.environments.base import Attack, Environment
from bothworlds.errors import BothworldsError, KernelError
from bothworlds.lanes import native
from bothworlds.lanes.jit import placed_code
from bothworlds.lanes.kernels import shapes
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.types import LANES
from bothworlds.policies.base import LARGEST, Phases, Player, Program
from bothworlds.usercode import REHEARSED

CACHE_BYTES = 2**20
"""Largest size of the states of a tile whose repetitions run one by one: a core's own cache."""

CHUNK_SECONDS = 0.1
"""How long the compiled loop runs before it looks whether it should stop."""


class Interrupted(Exception):
    """The tile was asked to stop before it was finished."""


@dataclass(frozen=True)
class TileJob:
    """A tile to run; the same job gives the same bits in every process and on every machine.

    Parameters
    ----------
    name : str
        The policy's label, which seeds its stream.
    policy : Player
        The algorithm.
    environment : Environment
        The regime.
    seed : int
        The user's seed.
    first : int
        Number of the first repetition.
    count : int
        Repetitions in this tile, at most ``LANES``.
    checkpoints : tuple of int
        Rounds to record, increasing; the last one is the horizon played.
    keep : bool
        Whether the outcome holds a snapshot of the repetitions after the last round.
    after : int
        The round after which the repetitions continue; 0 from the start.
    shares : bool
        Whether the outcome holds the plays of every arm at every checkpoint.
    realised : bool
        Whether the outcome holds the realised regret; not in duels.
    earlier : TileOutcome, optional
        The outcome of these repetitions until then, with the snapshot to continue from. Its
        checkpoints are not recorded again.
    """

    name: str
    policy: Player
    environment: Environment
    seed: int
    first: int
    count: int
    checkpoints: tuple[int, ...]
    keep: bool = False
    after: int = 0
    earlier: TileOutcome | None = None
    shares: bool = False
    realised: bool = False

    def stage(self) -> Attack | None:
        """Return the stage between the losses and the agent: an attack, a measurement."""
        attack = self.environment.stage()
        return measuring(attack, self.environment.n_arms) if self.realised else attack

    @property
    def span(self) -> tuple[int, int]:
        """The repetitions, from the first number up to the second, which is not included."""
        return self.first, self.first + self.count

    @property
    def rounds(self) -> int:
        """Rounds of every repetition that are left to play."""
        return self.checkpoints[-1] - self.after

    @property
    def final(self) -> int | None:
        """The last round of the repetitions for good; None where they may continue.

        Those that continue from a snapshot have the state that every later round needs.
        """
        return None if self.keep or self.earlier is not None else self.checkpoints[-1]

    @property
    def program(self) -> Program:
        """The program of the policy; created at each call, because a job is sent to workers."""
        return program_in(self.policy, self.environment, self.final)


def program_in(policy: Player, environment: Environment, final: int | None = None) -> Program:
    """Return the program of a policy in an environment, until round ``final`` for good if given."""
    prompt = environment.delays() is None
    return policy.program(environment.n_arms, lanes=prompt, horizon=final)


def tile_size(program: Program) -> int:
    """Return how many repetitions a tile of this program takes.

    As many as a vector holds; fewer where each has a state of its own that fills the cache.
    """
    if program.right is not None or program.kernels.wide:
        return LANES
    return max(1, min(LANES, CACHE_BYTES // program.start().nbytes))


compiling = threading.Lock()
"""Lock for the compilation of kernels."""


def compile_kernels(
    program: Program, environment: Environment, stage: Attack | None = None, alone: bool = False
) -> tuple[list[Any], int]:
    """Return the functions `engine.run_tile` takes, and the mode.

    Where `engine.run_wide` or `engine.run_one` runs, it is one array of their addresses. The stage
    is the environment's own unless another is given; ``alone`` is whether there is only one
    repetition.
    """
    attack = environment.stage() if stage is None else stage
    with compiling:
        return _kernels(program, environment, attack, alone)


def compile_all(
    pairs: Iterable[tuple[Program, Environment]], compiling: Callable[[int, int], Any]
) -> None:
    """Compile the kernels of programs in environments, each kernel once.

    ``compiling`` receives how many kernels are ready, of how many.
    """
    todo = {_called(*pair): pair for pair in pairs}
    kernels = frozenset[Any]().union(*todo)
    ready: set[Any] = set()
    for called, pair in todo.items():
        compiling(len(ready), len(kernels))
        compile_kernels(*pair)
        ready |= called
    if todo:
        compiling(len(ready), len(kernels))


def _called(program: Program, environment: Environment) -> frozenset[Any]:
    """Return the kernels that the loop calls for a program in an environment, with their width."""
    lanes = native.lanes(program.registers)
    pairs = [(own.choose, own.update) for own in program.by_side]
    if program.phases is not None:
        pairs += [program.phases.without, program.phases.within]
    stage = environment.stage()
    kernels = [environment.unchecked_kernel(), *pairs, *([] if stage is None else [stage.kernel])]
    return frozenset((kernel, lanes) for kernel in kernels)


def rehearse(job: TileJob) -> None:
    """Run a user's functions for some rounds, checked, before unchecked; once a process."""
    horizon = job.checkpoints[-1]
    with compiling:
        if not job.environment.trusted:
            _rehearsed(job.environment, horizon)
        if not job.policy.traits.trusted:
            _rehearsed(job.policy, job.environment.n_arms, job.name, min(horizon, REHEARSED))


@functools.lru_cache(maxsize=256)
def _rehearsed(user: Any, *arguments: Any) -> None:
    user.rehearse(*arguments)


def _kernels(
    program: Program, environment: Environment, attack: Attack | None, alone: bool
) -> tuple[list[Any], int]:
    choose, update, wide = program.kernels.choose, program.kernels.update, program.kernels.wide
    rival, duel = program.right or program.kernels, program.right is not None
    lanes = native.lanes(program.registers)
    loss = environment.unchecked_kernel()
    mode = (
        engine.WIDE_POLICY * wide
        + engine.WIDE_ENVIRONMENT * environment.wide
        + engine.UNTRUSTED * (not environment.trusted)
        + engine.ATTACKED * (attack is not None)
    )
    if _all_wide(mode) and not duel:
        mode |= engine.ALONE * (alone and program.alone)
        if mode & engine.ALONE:
            lanes = 1
        _loop(lanes)
        return [_codes(choose, update, loss, program.phases, lanes)], mode
    _mixed_loop(lanes, duel)
    strike = engine.idle_attack if attack is None else attack.kernel
    wanted = [
        each
        for own, vectors in ((shapes(lanes), True), (shapes(1), False))
        for each in (
            (choose, engine.idle_choose, own.choose, wide == vectors),
            (update, engine.idle_update, own.update, wide == vectors),
            (loss, engine.idle_prefer, own.prefer, environment.wide == vectors)
            if duel
            else (loss, engine.idle_loss, own.loss, environment.wide == vectors),
            (strike, engine.idle_attack, own.attack, environment.wide == vectors),
            (rival.choose, engine.idle_choose, own.choose, wide == vectors),
            (rival.update, engine.idle_update, own.update, wide == vectors),
        )
    ]
    return [compiled(k if used else idle, sig) for k, idle, sig, used in wanted], mode


@functools.cache
def _codes(
    choose: Any, update: Any, loss: Any, phases: Phases | None, lanes: int
) -> NDArray[np.int64]:
    """Return the addresses that `engine.run_wide` or `engine.run_one` takes."""
    codes = [_play_code(choose, update, lanes), placed_code(loss, shapes(lanes).loss)[0]]
    if phases is not None:
        codes += [
            _play_code(*phases.without, lanes), _play_code(*phases.within, lanes),
            phases.row, phases.every,
        ]  # fmt: skip
        if phases.ahead is not None and lanes > 1:
            ahead = engine.ahead_of(phases.ahead), engine.losses_of(loss)
            shapes_ahead = engine.play_shape(LANES), engine.losses_shape(LANES)
            codes += [placed_code(*each)[0] for each in zip(ahead, shapes_ahead, strict=True)]
    return block(*codes)


def _play_code(choose: Any, update: Any, lanes: int) -> int:
    return placed_code(engine.rounds_of(choose, update), engine.play_shape(lanes))[0]


@functools.cache
def _loop(lanes: int) -> Any:
    """Return the machine code of `engine.run_one` or `engine.run_wide`."""
    own = engine.run_one if lanes == 1 else engine.of_width(engine.run_wide, lanes)
    return entry(own, engine.RUN_ALIKE)


@functools.cache
def _mixed_loop(lanes: int, duel: bool) -> Any:
    """Return the machine code of `engine.run_tile`."""
    kind = ("duel",) if duel else ()
    return entry(engine.of_width(engine.run_tile, lanes, *kind), engine.run_tile_shape(lanes, duel))


def _all_wide(mode: int) -> bool:
    """Tell whether policy and environment take vectors, and nothing stands between them."""
    wide = engine.WIDE_POLICY | engine.WIDE_ENVIRONMENT
    return mode & (wide | engine.ATTACKED) == wide


def stretches(
    job: TileJob, now: int, chunk: int, stop: Callable[[], bool] | None
) -> Iterator[tuple[int, int]]:
    """Yield the first and the last round of every stretch, from round ``now`` to the last.

    The first stretch is of ``chunk`` rounds, each other one takes about `CHUNK_SECONDS`.  None goes
    beyond a checkpoint where more is measured than regret.  ``stop`` is called before each.
    """
    checkpoints, horizon = np.array(job.checkpoints), job.checkpoints[-1]
    while now <= horizon:
        if stop is not None and stop():
            raise Interrupted
        last = min(horizon, now + chunk - 1)
        if job.shares or job.realised:
            last = min(last, int(checkpoints[np.searchsorted(checkpoints, now)]))
        began = time.perf_counter()
        yield now, last
        seconds = max(time.perf_counter() - began, 1e-6)
        chunk = int(min(8 * chunk, max(16, (last - now + 1) * CHUNK_SECONDS / seconds)))
        now = last + 1


class Recorder:
    """Clock of a tile that is played, and the measurements at its checkpoints."""

    def __init__(self, job: TileJob) -> None:
        self._job = job
        self._began, self._cpu_began = time.perf_counter(), time.thread_time()
        self._shares: list[NDArray[np.int64]] = []
        self._realised: list[NDArray[np.float64]] = []

    def keep(
        self, last: int, plays: Callable[[], NDArray[np.int64]],
        staged: Callable[[], NDArray[np.float64]] | None = None,
    ) -> None:  # fmt: skip
        """Keep what the job wants to know after round ``last``, if that is a checkpoint."""
        if last not in self._job.checkpoints:
            return
        if self._job.shares:
            self._shares.append(plays())
        if self._job.realised and staged is not None:
            self._realised.append(realised_regret(staged(), self._job.environment.n_arms))

    def outcome(
        self, cost: NDArray[np.float64], plays: NDArray[np.int64],
        tracked: NDArray[np.float64] | None = None, state: bytes | None = None,
    ) -> TileOutcome:  # fmt: skip
        """Return the outcome of a tile whose last round was played."""
        cpu, wall = time.thread_time() - self._cpu_began, time.perf_counter() - self._began
        shares = np.stack(self._shares, axis=1) if self._shares else None
        realised = np.stack(self._realised, axis=1) if self._realised else None
        first = self._job.first
        return TileOutcome(first, cost, plays, tracked, cpu, wall, state, shares, realised)


def run_job(
    job: TileJob,
    stop: Callable[[], bool] | None = None,
    tick: Callable[[int], None] | None = None,
    table: Table | None = None,
) -> TileOutcome:
    """Run a tile from its first round, or from its snapshot, to its last checkpoint.

    About every tenth of a second this calls ``stop``, which returns whether to stop, and ``tick``
    with the number of rounds played since (times repetitions).  Tiles of one curve may share a
    ``table``, in one thread.
    """
    table = table or Table([job])
    if table.kernels is None:
        rehearse(job)
        # A single repetition need not pay for a vector of them. One of many that fills no tile
        # does: to compile its kernels twice would take longer.
        alone = job.span == (0, 1)
        table.kernels = compile_kernels(table.program, job.environment, table.stage, alone)
    functions, mode = table.kernels
    recorder = Recorder(job)
    K, lanes = job.environment.n_arms, native.lanes(table.program.registers)
    memory = table.memory(job, mode)
    memory.begin(job)
    now, horizon = 1, job.checkpoints[-1]
    if job.earlier is not None:
        wide = mode & engine.WIDE_POLICY != 0
        begun = memory.world_columns.copy()

        def sound(played: int, found: list[NDArray[Any]]) -> bool:
            return played == job.after and _sound(job, table.program, wide, begun, played, found)

        now = 1 + snapshot.restore(job.earlier.state or b"", memory.moving, sound)
    # Entering the loop takes as long as some rounds, so even the first stretch is not short.
    chunk = max(16, 200_000 // (K + 8))
    for first, last in stretches(job, now, chunk, stop):
        status = _play(job, functions, mode, lanes, first, last, *memory.blocks)
        if status != engine.DONE:
            raise blame(job, status)
        if tick is not None:
            tick((last - first + 1) * job.count)
        recorder.keep(last, memory.counted, memory.staged)
    state = snapshot.pack(horizon, memory.moving) if job.keep else None
    return recorder.outcome(memory.costs(), memory.counted(), memory.tracked(), state)


def _sound(
    job: TileJob, program: Program, wide: bool, begun: NDArray[Any], played: int,
    found: list[NDArray[Any]],
) -> bool:  # fmt: skip
    """Tell whether the arrays of a snapshot can be those of this job after ``played`` rounds.

    ``begun`` has the environment's state before the first round, a column per repetition.
    """
    K, world = job.environment.n_arms, job.environment
    *players, E, GE, A, cost, plays = found
    rows = program.start().size
    attack = world.stage()
    strikers = A if attack is None else columns(A, A.size // LANES, world.wide)
    generators = [columns(G, WORDS, wide) for G in players[1::2]]
    generators.append(columns(GE, WORDS, world.wide))
    return (
        played >= 1
        and all(program.sound(columns(S, rows, wide)) for S in players[::2])
        and all(map(snapshot.sound_generator, generators))
        and snapshot.sound_environment(world, begun, columns(E, len(begun), world.wide), played)
        and (attack is None or snapshot.sound_attack(attack.arm_rows, strikers, K))
        and bool((np.abs(cost) <= LARGEST).all())
        and snapshot.sound_plays(
            plays.reshape(K, -1)[:, : job.count],
            played * len(program.by_side),
        )
    )


def _play(job: TileJob, functions: list[Any], mode: int, lanes: int, first: int, last: int,
          *blocks: NDArray[np.int64]) -> int:  # fmt: skip
    try:
        K, duel = job.environment.n_arms, job.policy.traits.kind == "duel"
        if _all_wide(mode) and not duel:
            run = _loop(1 if mode & engine.ALONE else lanes)
            policy, _, environment, _, *rest = blocks
            untrusted = mode & engine.UNTRUSTED != 0
            return int(run(*functions, untrusted, K, first, last, policy, environment, *rest))
        run = _mixed_loop(lanes, duel)
        return int(run(*functions, mode, job.count, K, first, last, *blocks))
    except BothworldsError:
        raise
    except Exception as error:
        raise crashed(job, first, last, error) from error


def crashed(job: TileJob, first: int, last: int, error: Exception) -> KernelError:
    """Return the error for a kernel that raised another one."""
    return KernelError(
        f"A kernel of {job.name} or {job.environment!r} raised "
        f"{type(error).__name__}: {error} (rounds {first} to {last})."
    )


def blame(job: TileJob, status: int) -> KernelError:
    """Return the error for a kernel that returned an invalid value."""
    if status == engine.BAD_ARM:
        arms = job.environment.n_arms
        return KernelError(f"The choose of {job.name} must return an arm from 0 to {arms - 1}.")
    return KernelError(f"The loss of {job.environment!r} must be a number in [0, 1].")
