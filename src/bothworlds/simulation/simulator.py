"""`simulate`: any policies against one environment, repeated, on all cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import count, flag, is_whole
from bothworlds.campaign.campaign import Campaign, run_missing, workers_of
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.progress import Progress
from bothworlds.campaign.shard import cut
from bothworlds.campaign.store import Store
from bothworlds.campaign.workers import Threads, Workers
from bothworlds.engine.outcome import TileOutcome
from bothworlds.environments.base import Environment
from bothworlds.errors import invalid
from bothworlds.policies.advice import setting_of
from bothworlds.policies.base import Player, Policy
from bothworlds.policies.plain import PlainPolicy
from bothworlds.policies.uniform import Uniform
from bothworlds.seeding import checked_seed
from bothworlds.simulation.assembly import assemble
from bothworlds.simulation.result import Result

_COUNT = "a whole number >= 1"

LARGEST_WHOLE = 2**53
"""The most rounds or repetitions: beyond it a float does not count."""


def simulate(
    policies: Player | Sequence[Player] | Mapping[str, Player],
    environment: Environment,
    *,
    horizon: float = 10**6,
    repetitions: float = 100,
    first: int = 0,
    seed: int | None = 0,
    checkpoints: Iterable[int] | None = None,
    threads: int | None = None,
    executor: Executor | None = None,
    store: str | os.PathLike[str] | Store | None = None,
    continuable: bool = False,
    shares: bool = False,
    realised: bool = False,
    progress: bool | Callable[[Progress], Any] = True,
) -> Result:
    """Play every policy in the environment and record its pseudo-regret.

    Where the gaps are fixed, a run's pseudo-regret is the sum of the gaps of the arms it played.
    Elsewhere it is the expected loss of the arms played minus that of the arm that is best in
    expectation in hindsight; for adversaries that react to the player, that expectation is the
    mean over the repetitions of the policy. In duels (`Utilities`, `Preferences`) the policies
    are `Sparring`, and the regret and plays are those of both sides together. In `Advised` the
    policies weigh experts, and the regret is against the best expert's own advice.

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
        Rounds per repetition; 1e6 will do.
    repetitions : int
        Independent runs per policy.
    first : int
        Number of the first run. A second machine runs the next ones by ``first=100``, with the same
        seed; copy the files of its store into the first one's folder to have all of them.
    seed : int or None
        None draws a fresh seed, which the result reports.
    checkpoints : iterable of int, optional
        Rounds at which regret is recorded; log-spaced by default. The horizon is always added.
    threads : int, optional
        Threads on this machine; all cores by default.
    executor : concurrent.futures.Executor, optional
        Runs the work elsewhere instead: in processes, or on the workers of a Dask cluster by
        ``client.get_executor(pure=False)``.
    store : path, optional
        A folder that keeps every finished part, see `bothworlds.campaign.store`. What it has
        is not run again: after a crash, for more repetitions, or for another policy.
    continuable : bool
        Whether the store also keeps a snapshot of every run at its end, from which a longer
        horizon can continue. Not with late feedback (`environments.Delayed`), which a snapshot
        does not hold while it is on its way.
    shares : bool
        Whether the result also holds how often every arm was played by every checkpoint, for
        `Result.plot_arms`; a store does not keep that.
    realised : bool
        Whether the result also holds the realised regret: the losses of the arms played minus
        those of the arm that was best in this very run. It takes the losses of all arms in every
        round, so a run takes longer; a store does not keep it, and duels have none.
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
        raise invalid("environment", "simulate", "one of bothworlds.environments", environment)
    check_kinds(named, environment)
    horizon = count("horizon", horizon, "simulate", 1, _COUNT)
    repetitions = count("repetitions", repetitions, "simulate", 1, _COUNT)
    first = count("first", first, "simulate", 0, "a whole number >= 0")
    for parameter, number in (("horizon", horizon), ("repetitions", first + repetitions)):
        if number > LARGEST_WHOLE:
            raise invalid(parameter, "simulate", f"at most {LARGEST_WHOLE}", number)
    if threads is None:
        threads = os.cpu_count() or 1
    threads = count("threads", threads, "simulate", 1, _COUNT)
    limit = environment.horizon_limit
    if limit is not None and horizon > limit:
        expected = f"at most {limit}, the rounds the environment has"
        raise invalid("horizon", "simulate", expected, horizon)
    if continuable and store is None:
        raise invalid("continuable", "simulate", "False without a store", True)
    kept = {"shares": flag("shares", shares, "simulate")}
    kept["realised"] = flag("realised", realised, "simulate")
    for parameter, wanted in kept.items():
        if wanted and store is not None:
            raise invalid(parameter, "simulate", "False with a store", True)
    if realised and environment.kind != "bandit":
        raise invalid("realised", "simulate", "False in duels and with advice", True)
    if continuable and (environment.delays() is not None or environment.kind == "advised"):
        expected = "False with late feedback, which is not kept while it is on its way, or advice"
        raise invalid("continuable", "simulate", expected, True)
    if continuable and any(isinstance(policy, PlainPolicy) for policy in named.values()):
        expected = "False with policies in plain Python, whose state is not kept"
        raise invalid("continuable", "simulate", expected, True)
    seed = checked_seed(seed, "simulate")
    rounds = checked_checkpoints(checkpoints, horizon)
    rounds = np.union1d(rounds, [horizon])
    for policy in named.values():
        policy.parameters(environment.n_arms)
    curves = [
        Curve(name, policy, environment, tuple(rounds.tolist()), repetitions, seed, first=first)
        for name, policy in named.items()
    ]
    workers = Threads(threads) if executor is None else workers_of(executor)
    if store is None:
        found, interrupted = _in_memory(curves, workers, progress, kept)
    else:
        folder = store if isinstance(store, Store) else Store(store, _say)
        found, interrupted = _in_store(curves, workers, progress, folder, continuable)
    if not any(found):
        raise KeyboardInterrupt
    parts = zip(curves, found, strict=True)
    made = assemble({c.name: (c.settings, outcomes) for c, outcomes in parts}, interrupted)
    return replace(
        made, comparators={**made.comparators, **environment.comparators(made.checkpoints)}
    )


def checked_policies(
    policies: Player | Sequence[Player] | Mapping[str, Player],
) -> dict[str, Player]:
    """Return the policies by name; a sequence names each by its constructor."""
    if isinstance(policies, Player):
        policies = [policies]
    if isinstance(policies, Mapping):
        named = dict(policies)
    elif isinstance(policies, Iterable) and not isinstance(policies, str):
        listed = list(policies)
        named = {repr(policy): policy for policy in listed}
        if len(named) != len(listed):
            raise invalid("policies", "simulate", "different policies, or a dict of names", listed)
    else:
        named = {}
    fits = all(isinstance(k, str) and isinstance(p, Player) for k, p in named.items())
    if not named or not fits:
        raise invalid("policies", "simulate", "a policy, a list or a dict of policies", policies)
    return named


def check_kinds(named: Mapping[str, Player], environment: Environment) -> None:
    """Refuse policies that take one arm a round where duels take two, and the other way round.

    Where experts advise, refuse those that cannot weigh them; where feedback is late, those in
    plain Python.
    """
    plain = [policy for policy in named.values() if isinstance(policy, PlainPolicy)]
    if plain and environment.delays() is not None:
        expected = f"compiled policies in {environment!r}, where feedback is late"
        raise invalid("policies", "simulate", expected, plain[0])
    if environment.kind == "advised":
        for policy in named.values():
            setting_of(policy, "simulate")
        return
    others = [policy for policy in named.values() if policy.traits.kind != environment.kind]
    if others:
        needed = "dueling policies such as Sparring()"
        if environment.kind == "bandit":
            needed = "policies that play one arm a round"
        raise invalid("policies", "simulate", f"{needed} in {environment!r}", others[0])
    if not environment.unbounded:
        return
    bounded = [policy for policy in named.values() if not _takes_any_loss(policy)]
    if bounded:
        expected = f"policies for losses without bounds, such as HTINF(scale), in {environment!r}"
        raise invalid("policies", "simulate", expected, bounded[0])


def _takes_any_loss(policy: Player) -> bool:
    """Tell whether losses outside [0, 1] do no harm to a policy."""
    return (isinstance(policy, Policy) and policy.traits.unbounded) or type(policy) is Uniform


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


Found = list[list[TileOutcome]]
"""For every curve its outcomes, in the order of the repetitions."""


def _in_memory(
    curves: list[Curve],
    workers: Workers,
    show: bool | Callable[[Progress], Any],
    kept: Mapping[str, bool],
) -> tuple[Found, bool]:
    """Run curves, keep the requested measurements, and return the finished runs."""
    found: list[dict[int, TileOutcome]] = [{} for _ in curves]

    def take(index: int, outcomes: list[TileOutcome]) -> None:
        found[index] |= {outcome.first: outcome for outcome in outcomes}

    jobs = [cut(curve, [curve.span], **kept) for curve in curves]
    campaign = Campaign(curves, jobs, workers, take, abreast=True, show=show, say=_say)
    interrupted = campaign.run()
    return [[each[first] for first in sorted(each)] for each in found], interrupted


def _in_store(
    curves: list[Curve],
    workers: Workers,
    show: bool | Callable[[Progress], Any],
    store: Store,
    keep: bool,
) -> tuple[Found, bool]:
    """Run the missing parts of curves, and return all finished runs of the store."""
    store.make()
    store.want(curves)
    found: Found = []

    def load() -> None:
        found[:] = [store.load(curve) for curve in curves]

    interrupted = run_missing(
        curves, store, workers, load, keep=keep, abreast=True, show=show, say=_say
    )
    if interrupted:
        load()
    return found, interrupted


def log_spaced(horizon: int, per_decade: int = 16) -> NDArray[np.int64]:
    """Return about ``per_decade`` rounds per decade from 1 to ``horizon``, the last included.

    Examples
    --------
    >>> log_spaced(100, per_decade=4).tolist()
    [1, 2, 3, 6, 10, 18, 32, 56, 100]
    """
    steps = np.arange(0, np.log10(horizon) * per_decade + 1e-9) / per_decade
    rounds = np.append(np.rint(10.0**steps), horizon)
    return np.unique(rounds[rounds <= horizon].astype(np.int64))


def checked_checkpoints(checkpoints: Iterable[int] | None, horizon: int) -> NDArray[np.int64]:
    """Return the rounds to record, increasing, all within the horizon."""
    if checkpoints is None:
        return log_spaced(horizon)
    given = list(checkpoints)
    whole = all(map(is_whole, given))
    if not given or not whole or min(given) < 1 or max(given) > horizon:
        expected = f"whole numbers between 1 and the horizon {horizon}"
        raise invalid("checkpoints", "simulate", expected, given)
    return np.unique(np.asarray(given, dtype=np.int64))
