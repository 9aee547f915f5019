"""Arena: all policies against all kinds of worlds, regret relative to the best of each.

A world is an environment with its arms, a gap and a horizon, from mild to hostile.  Policies that
cannot play in a world are left out there.  Every registered policy is a competitor, so a new one
enters by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds import environments as env
from bothworlds.environments.base import Environment
from bothworlds.policies.base import Policy
from bothworlds.registry import words
from bothworlds.simulation import simulate
from bothworlds.simulation.result import Result
from bothworlds.text import grouped

CLOSE = 1.25
"""How many times the least regret still counts as close to it."""


@dataclass(frozen=True)
class World:
    """A kind of world.

    Parameters
    ----------
    about : str
        What happens in it, in a few words.
    make : callable
        ``make(n_arms, gap, horizon)`` returns the environment.
    times : int
        How many times the arena's horizon it is played for.
    """

    about: str
    make: Callable[[int, float, int], Environment]
    times: int = 1


def _fixed(n_arms: int, gap: float) -> Environment:
    return env.Stochastic.gap(n_arms, gap)


def _moving(n_arms: int, gap: float, horizon: int) -> Environment:
    return env.Piecewise.gap(n_arms, gap, every=max(1, horizon // 4), blocks=4)


def _late(base: Environment, horizon: int) -> Environment:
    return env.Delayed(base, max(1, horizon // 100))


def _sine(gap: float, horizon: int) -> Environment:
    """Return three arms on five waves of height ``gap``, in steps of a hundredth of a wave."""
    step = max(1, horizon // 500)
    phase = np.arange(0, horizon, step)[:, None] * (5.0 / horizon) + np.arange(3) / 3.0
    return env.Piecewise(0.5 + gap * np.sin(2.0 * np.pi * phase), every=step)


def _improving(n_arms: int, gap: float, horizon: int) -> Environment:
    """Return fixed means, until half way another arm becomes better than the leader by the gap."""
    means = np.full((2, n_arms), 0.5 * (1.0 + gap))
    means[:, 0] = 0.5 * (1.0 - gap)
    means[1, 1] = max(0.5 - 1.5 * gap, 0.0)
    return env.Piecewise(means, every=max(1, horizon // 2))


def _flipping(n_arms: int, gap: float, horizon: int) -> Environment:
    """Return a fixed gap over a level that jumps between its extremes every 50 rounds."""
    gaps = np.append(0.0, np.full(n_arms - 1, gap))
    levels = np.arange(max(1, horizon // 50)) % 2 * (1.0 - gap)
    return env.Piecewise(levels[:, None] + gaps, every=50)


def _drifting_clicks(n_arms: int, horizon: int) -> Environment:
    means = np.full((4, n_arms), 0.98)
    means[np.arange(4), np.arange(4) % n_arms] = 0.95
    return env.Piecewise(means, every=max(1, horizon // 4))


def _random(n_arms: int, horizon: int) -> Environment:
    """Return new means for all arms at seven rounds; both are drawn once and for all."""
    rng = np.random.default_rng(7)
    later = np.floor(np.sort(rng.random(7)) * max(0, horizon - 8)) + np.arange(2, 9)
    return env.Piecewise(rng.uniform(0.2, 0.8, (8, n_arms)), starts=later)


WORLDS: dict[str, World] = {
    "fixed means": World("independent losses, fixed means", lambda K, D, T: _fixed(K, D)),
    "low rates": World(
        "losses of 0.95 and 0.98, as of clicks",
        lambda K, D, T: env.Stochastic([0.95] + [0.98] * (K - 1)),
    ),
    "jumping level": World(
        "fixed gap, the level of all losses jumps", lambda K, D, T: env.Switching(K, D)
    ),
    "betrayal": World(
        "the level jumps when an arm is trusted", lambda K, D, T: env.Adaptive(K, "betray", D)
    ),
    "hidden best": World(
        "an adversary hides the best arm for a while",
        lambda K, D, T: env.Corrupted(_fixed(K, D), budget=T / 50),
    ),
    "replaced losses": World(
        "a share of the losses is replaced, to do harm",
        lambda K, D, T: env.Contaminated(_fixed(K, D)),
    ),
    "drift": World("the best arm moves three times", _moving),
    "delay": World(
        "feedback a hundredth of the horizon late", lambda K, D, T: _late(_fixed(K, D), T)
    ),
    "heavy tails": World(
        "losses without bounds, lognormal",
        lambda K, D, T: env.HeavyTailed([1.0] + [1.5] * (K - 1), noise="lognormal", shape=1.0),
    ),
    "sine": World("three arms on five sine waves", lambda K, D, T: _sine(D, T), 2),
    "improving arm": World("an arm overtakes the leader, whose losses stay the same", _improving),
    "fast flips": World("fixed gap, the level flips every 50 rounds", _flipping),
    "two best arms": World(
        "two equal best arms of 0.2, a third one of 0.8",
        lambda K, D, T: env.Stochastic([0.2, 0.2, 0.8]),
    ),
    "missing feedback": World(
        "30 % of the feedback is lost", lambda K, D, T: env.Delayed(_fixed(K, D), 0, lost=0.3)
    ),
    "mostly missing": World(
        "80 % of the feedback is lost", lambda K, D, T: env.Delayed(_fixed(K, D), 0, lost=0.8), 2
    ),
    "late and drifting": World(
        "the best arm moves three times, feedback a hundredth of the horizon late",
        lambda K, D, T: _late(_moving(K, D, T), T),
    ),
    "drifting clicks": World(
        "losses of 0.95 and 0.98, the best arm moves three times",
        lambda K, D, T: _drifting_clicks(K, T),
        2,
    ),
    "random changes": World(
        "all means change at seven random rounds", lambda K, D, T: _random(K, T)
    ),
    "2 arms": World("fixed means, 2 arms", lambda K, D, T: _fixed(2, D)),
    "10 arms": World("fixed means, 10 arms", lambda K, D, T: _fixed(10, D)),
    "30 arms": World(
        "fixed means, 30 arms, twice the gap", lambda K, D, T: _fixed(30, min(2.0 * D, 1.0))
    ),
}
"""The worlds by name: nine, the mildest first, then twelve more."""


def entrants(horizon: int) -> dict[str, Policy]:
    """Return every policy of the package by its label; ``horizon`` is given to those that ask.

    Examples
    --------
    >>> list(entrants(1000))[:2]
    ['Tsallis-INF (RV)', 'Tsallis-INF (IW)']
    """
    return {variant.label: entry.made(variant, horizon) for entry, variant in words().values()}


def fitting(policies: Mapping[str, Policy], world: Environment) -> dict[str, Policy]:
    """Return the policies that can play in a world: losses without bounds need one for them."""
    return {
        label: policy
        for label, policy in policies.items()
        if not world.unbounded or policy.traits.unbounded
    }


def play(
    policies: Callable[[int], Mapping[str, Policy]],
    worlds: Iterable[str],
    *,
    n_arms: int,
    gap: float,
    horizon: int,
    repetitions: int,
    store: str | os.PathLike[str],
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[str], Any] = lambda world: False,
) -> Iterator[tuple[str, Result]]:
    """Play world after world; runs in the store are not played again.

    Parameters
    ----------
    policies : callable
        ``policies(horizon)`` returns the policies by label, see `entrants`.
    worlds : iterable of str
        Names of `WORLDS`.
    n_arms, gap, horizon : int, float, int
        What the worlds are made of; some last for a multiple of the horizon.
    repetitions : int
        Independent runs of every policy in every world.
    store : path
        The folder that keeps finished runs.
    seed, threads
        As those of `bothworlds.simulate`.
    progress : callable
        Takes the name of a world; returns the ``progress`` of `bothworlds.simulate`.

    Yields
    ------
    str, Result
        The world, and the regret of all policies that can play in it.
    """
    for name in worlds:
        rounds = WORLDS[name].times * horizon
        world = WORLDS[name].make(n_arms, gap, rounds)
        fit = fitting(policies(rounds), world)
        if fit:
            result = simulate(
                fit, world, horizon=rounds, repetitions=repetitions, seed=seed, threads=threads,
                store=store, checkpoints=[rounds], progress=progress(name),
            )  # fmt: skip
            yield name, result
            if result.interrupted:
                return


def in_words(results: Mapping[str, Result]) -> str:
    """Return a table in Markdown: which policy for which world.

    A line for every world: the policy with the least mean regret, those within a quarter of it,
    and the one with the most.
    """
    lines = ["| World | Least regret | Close to it | Most regret |", "|---|---|---|---|"]
    for name, result in results.items():
        means = {label: float(runs[:, -1].mean()) for label, runs in result.regret.items()}
        order = sorted(means, key=means.__getitem__)
        best, worst = order[0], order[-1]
        close = [label for label in order[1:] if 0.0 < means[label] <= CLOSE * means[best]]
        lines.append(
            f"| {name}: {WORLDS[name].about} | {best}, {grouped(means[best])} | "
            f"{', '.join(close) or 'none'} | {worst}, {_times(means[worst], means[best])} |"
        )
    return "\n".join(lines) + "\n"


def _times(worst: float, best: float) -> str:
    """Return how much more the worst has: as a multiple, where the least is above 0."""
    return f"{worst / best:.3g} times" if best > 0.0 else grouped(worst)
