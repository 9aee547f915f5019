"""`simulate`: any policies against one environment, repeated, on all cores."""

from __future__ import annotations

import os
import platform
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from numbers import Integral
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

import bothworlds
from bothworlds.dueling.sparring import Sparring
from bothworlds.environments.base import Environment
from bothworlds.errors import InvalidParameter, must
from bothworlds.policies.base import Policy
from bothworlds.seeding import checked_seed
from bothworlds.simulation.checkpoints import checked_checkpoints
from bothworlds.simulation.progress import Progress, Reporter
from bothworlds.simulation.result import Result
from bothworlds.simulation.tile import Interrupted, TileJob, TileOutcome, run_job, tile_size

Player = Policy | Sparring
"""What can be simulated: a policy, or a pair of them in duels."""


def simulate(
    policies: Player | Sequence[Player] | Mapping[str, Player],
    environment: Environment,
    horizon: int = 10**6,
    repetitions: int = 100,
    seed: int | None = 0,
    checkpoints: Iterable[int] | None = None,
    threads: int | None = None,
    executor: Executor | None = None,
    progress: bool | Callable[[Progress], Any] = True,
) -> Result:
    """Play every policy in the environment and record its pseudo-regret.

    Where the gaps are fixed, a run's pseudo-regret is the sum of the gaps of the arms it played.
    Elsewhere it is the expected loss of the arms played minus that of the arm that is best in
    expectation in hindsight; for adversaries that react to the player, that expectation is the
    mean over the repetitions of the policy. In duels (`Utilities`, `Preferences`) the policies
    are `Sparring`, and the regret and plays are those of both sides together.

    All policies of a repetition meet the same environment stream.  Streams are seeded by names
    (environment, policy, repetition): adding a policy changes no other curve, and the result is
    the same bit for bit on any number of threads.

    Parameters
    ----------
    policies : policy, sequence of policies, or mapping from names to policies
        A sequence names each policy by its constructor.
    environment : environment
        See `bothworlds.environments`.
    horizon : int
        Rounds per repetition.
    repetitions : int
        Independent runs per policy.
    seed : int or None
        None draws a fresh seed, which the result reports.
    checkpoints : iterable of int, optional
        Rounds at which regret is recorded; log-spaced by default. The horizon is always added.
    threads : int, optional
        Threads on this machine; all cores by default.
    executor : concurrent.futures.Executor, optional
        Runs the work elsewhere instead, for example in processes.
    progress : bool or callable
        True shows rounds per second and time left on a terminal; a callable receives a
        `Progress` a few times a second.

    Returns
    -------
    Result
        After Ctrl-C, what was finished until then, with ``interrupted`` set.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(n_arms=4, gap=0.25)
    >>> result = bw.simulate([bw.TsallisINF()], world, horizon=1000, repetitions=32, seed=1)
    >>> bool(result.regret["TsallisINF()"][:, -1].mean() < 100)
    True
    """
    named = checked_policies(policies)
    if not isinstance(environment, Environment):
        raise InvalidParameter(
            must("environment", "simulate", "one of bothworlds.environments", environment)
        )
    check_kinds(named, environment)
    horizon = _positive("horizon", horizon)
    repetitions = _positive("repetitions", repetitions)
    threads = os.cpu_count() or 1 if threads is None else _positive("threads", threads)
    limit = environment.horizon_limit
    if limit is not None and horizon > limit:
        expected = f"at most {limit}, the rounds the environment has"
        raise InvalidParameter(must("horizon", "simulate", expected, horizon))
    seed = checked_seed(seed, "simulate")
    rounds = checked_checkpoints(checkpoints, horizon)
    rounds = np.union1d(rounds, [horizon])
    for policy in named.values():
        policy.parameters(environment.n_arms)
    n_arms = environment.n_arms
    players = {
        name: player.at(n_arms) if isinstance(player, Policy) else player
        for name, player in named.items()
    }
    sizes = {name: tile_size(player, n_arms) for name, player in players.items()}
    jobs = [
        TileJob(name, player, environment, seed, first, min(sizes[name], repetitions - first),
                tuple(rounds.tolist()))
        for first in range(repetitions)
        for name, player in players.items()
        if first % sizes[name] == 0
    ]  # fmt: skip
    reporter = Reporter(horizon * repetitions * len(named), progress)
    try:
        if executor is None:
            outcomes, interrupted = _run_threads(jobs, threads, reporter)
        else:
            outcomes, interrupted = _run_executor(jobs, executor, reporter)
    finally:
        reporter.close()
    if not outcomes:
        raise KeyboardInterrupt
    return _assemble(named, environment, rounds, seed, jobs, outcomes, interrupted)


def checked_policies(
    policies: Player | Sequence[Player] | Mapping[str, Player],
) -> dict[str, Player]:
    """Return the policies by name; a sequence names each by its constructor."""
    if isinstance(policies, Policy | Sparring):
        policies = [policies]
    if isinstance(policies, Mapping):
        named = dict(policies)
    elif isinstance(policies, Iterable) and not isinstance(policies, str):
        listed = list(policies)
        named = {repr(policy): policy for policy in listed}
        if len(named) != len(listed):
            raise InvalidParameter(
                must("policies", "simulate", "different policies, or a dict of names", listed)
            )
    else:
        named = {}
    fits = all(isinstance(k, str) and isinstance(p, Policy | Sparring) for k, p in named.items())
    if not named or not fits:
        raise InvalidParameter(
            must("policies", "simulate", "a policy, a list or a dict of policies", policies)
        )
    return named


def check_kinds(named: Mapping[str, Player], environment: Environment) -> None:
    """Refuse policies that take one arm a round where duels take two, and the other way round."""
    others = [policy for policy in named.values() if policy.kind != environment.kind]
    if others:
        needed = "dueling policies such as Sparring()"
        if environment.kind == "bandit":
            needed = "policies that play one arm a round"
        expected = f"{needed} in {environment!r}"
        raise InvalidParameter(must("policies", "simulate", expected, others[0]))


def _positive(parameter: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise InvalidParameter(must(parameter, "simulate", "a whole number >= 1", value))
    return int(value)


Outcomes = dict[int, TileOutcome]


def _run_threads(jobs: list[TileJob], threads: int, reporter: Reporter) -> tuple[Outcomes, bool]:
    """Run the jobs in order on threads; Ctrl-C ends the running ones and keeps the finished."""
    halt = threading.Event()

    def work(job: TileJob) -> TileOutcome | None:
        try:
            return run_job(job, halt.is_set, lambda rounds: reporter.add(job.name, rounds))
        except Interrupted:
            return None

    outcomes: Outcomes = {}
    waiting = list(range(len(jobs)))
    running: dict[Future[TileOutcome | None], int] = {}
    costs: dict[str, float] = {}
    with ThreadPoolExecutor(threads) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < threads:
                    index = _next_job(jobs, waiting, costs, threads)
                    running[pool.submit(work, jobs[index])] = index
                # A timeout lets Ctrl-C through while all threads are in compiled code.
                for future in wait(running, timeout=0.2, return_when=FIRST_COMPLETED).done:
                    index = running.pop(future)
                    outcome = future.result()
                    if outcome is not None:
                        outcomes[index] = outcome
                        costs[jobs[index].name] = outcome.wall
        except KeyboardInterrupt:
            halt.set()
            for future, index in running.items():
                outcome = future.result()
                if outcome is not None:
                    outcomes[index] = outcome
            return outcomes, True
        except BaseException:
            halt.set()
            raise
    return outcomes, False


def _next_job(
    jobs: list[TileJob], waiting: list[int], costs: dict[str, float], threads: int
) -> int:
    """Take the next job in order, but near the end the most expensive one that is left.

    In order, an interrupted run has about as many repetitions of each policy; the longest first
    at the end leaves no thread alone with a slow policy.
    """
    names = len({job.name for job in jobs})
    if len(waiting) > names + threads:
        return waiting.pop(0)
    most = max(waiting, key=lambda index: costs.get(jobs[index].name, float("inf")))
    waiting.remove(most)
    return most


def _run_executor(
    jobs: list[TileJob], executor: Executor, reporter: Reporter
) -> tuple[Outcomes, bool]:
    """Run the jobs in a user's executor, whatever its workers are."""
    outcomes: Outcomes = {}
    running = {executor.submit(run_job, job): index for index, job in enumerate(jobs)}
    try:
        while running:
            for future in wait(running, timeout=0.2, return_when=FIRST_COMPLETED).done:
                index = running.pop(future)
                outcomes[index] = future.result()
                job = jobs[index]
                reporter.add(job.name, job.count * job.checkpoints[-1])
    except KeyboardInterrupt:
        for future in running:
            future.cancel()
        return outcomes, True
    return outcomes, False


def _assemble(
    named: dict[str, Player],
    environment: Environment,
    rounds: NDArray[np.int64],
    seed: int,
    jobs: list[TileJob],
    outcomes: Outcomes,
    interrupted: bool,
) -> Result:
    """Put the tiles of each policy together, in the order of the repetitions."""
    parts: dict[str, list[tuple[TileJob, TileOutcome]]] = defaultdict(list)
    for index in sorted(outcomes):
        parts[jobs[index].name].append((jobs[index], outcomes[index]))
    finished = [name for name in named if name in parts]
    return Result(
        checkpoints=rounds,
        regret={
            name: regret_of(environment, rounds, [outcome for _, outcome in parts[name]])
            for name in finished
        },
        plays={name: np.concatenate([o.plays for _, o in parts[name]]) for name in finished},
        repetitions={
            name: np.concatenate([np.arange(j.first, j.first + j.count) for j, _ in parts[name]])
            for name in finished
        },
        wall={name: sum(o.wall for _, o in parts[name]) for name in finished},
        cpu={name: sum(o.cpu for _, o in parts[name]) for name in finished},
        policies={name: repr(named[name]) for name in finished},
        environment=repr(environment),
        seed=seed,
        interrupted=interrupted,
        versions={
            "bothworlds": bothworlds.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
        },
    )


def regret_of(
    environment: Environment, rounds: NDArray[np.int64], outcomes: list[TileOutcome]
) -> NDArray[np.float64]:
    """Return pseudo-regret, one row per repetition, one column per checkpoint."""
    cost = np.concatenate([outcome.cost for outcome in outcomes])
    if environment.regret == "gaps":
        return cost
    if environment.regret == "oblivious":
        return cost - environment.best_cumulative(rounds)
    tracked = np.concatenate([o.tracked for o in outcomes if o.tracked is not None])
    best = tracked.mean(axis=0).argmin(axis=1)
    of_best: NDArray[np.float64] = tracked[:, np.arange(rounds.size), best]
    return cost - of_best
