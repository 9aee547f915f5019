"""Arena: all policies against all kinds of worlds, regret relative to the best of each.

A world is an environment of so many arms, a gap and a horizon, from mild to hostile.  Policies that
cannot play in a world are left out there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
    """

    about: str
    make: Callable[[int, float, int], Environment]


def _fixed(n_arms: int, gap: float) -> Environment:
    return env.Stochastic.gap(n_arms, gap)


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
    "drift": World(
        "the best arm moves three times",
        lambda K, D, T: env.Piecewise.gap(K, D, every=max(1, T // 4), blocks=4),
    ),
    "delay": World(
        "feedback a hundredth of the horizon late",
        lambda K, D, T: env.Delayed(_fixed(K, D), max(1, T // 100)),
    ),
    "heavy tails": World(
        "losses without bounds, lognormal",
        lambda K, D, T: env.HeavyTailed([1.0] + [1.5] * (K - 1), noise="lognormal", shape=1.0),
    ),
}
"""The worlds by name, the mildest first."""


def entrants(horizon: int) -> dict[str, Policy]:
    """Return every policy of the package by its label; ``horizon`` is told to those that ask.

    Examples
    --------
    >>> list(entrants(1000))[:2]
    ['Tsallis-INF (RV)', 'Tsallis-INF (IW)']
    """
    return {variant.label: entry.made(variant, horizon) for entry, variant in words().values()}


def able(policy: Policy, world: Environment) -> bool:
    """Tell whether a policy can play in a world: losses without bounds need one for them."""
    return not world.unbounded or policy.traits.unbounded


def play(
    policies: Mapping[str, Policy],
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
    """Play world after world; what the store already has is not played again.

    Parameters
    ----------
    policies : mapping of str to Policy
        By label.
    worlds : iterable of str
        Names of `WORLDS`.
    n_arms, gap, horizon : int, float, int
        What the worlds are made of.
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
        world = WORLDS[name].make(n_arms, gap, horizon)
        fit = {label: policy for label, policy in policies.items() if able(policy, world)}
        if fit:
            result = simulate(
                fit, world, horizon=horizon, repetitions=repetitions, seed=seed, threads=threads,
                store=store, checkpoints=[horizon], progress=progress(name),
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
