"""Curve: one policy in one environment, and the keys that name its runs in a store."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.campaign.identity import fingerprint
from bothworlds.engine.tile import program_in
from bothworlds.environments.base import Environment
from bothworlds.policies.base import Player, Program


@dataclass(frozen=True)
class Curve:
    """One policy in one environment, repeated.

    Parameters
    ----------
    name : str
        The policy's label, which seeds its stream.
    policy : Player
        The algorithm.
    environment : Environment
        The regime.
    checkpoints : tuple of int
        Rounds to record, increasing; the last one is the horizon.
    repetitions : int
        How many runs are wanted.
    seed : int
        The user's seed.
    label : str
        Where the curve belongs, for people; it determines nothing.
    first : int
        Number of the first run that is wanted.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(4, 0.25)
    >>> curve = Curve("RV", bw.TsallisINF(), world, (100, 1000), 32, 0)
    >>> other = Curve("RV", bw.TsallisINF(), world, (100, 2000), 64, 0)
    >>> curve.key == other.key, curve.stem == other.stem
    (True, False)
    """

    name: str
    policy: Player
    environment: Environment
    checkpoints: tuple[int, ...]
    repetitions: int
    seed: int
    label: str = ""
    first: int = 0

    @property
    def span(self) -> tuple[int, int]:
        """The runs that are wanted, from the first number up to the second, not included."""
        return self.first, self.first + self.repetitions

    @property
    def horizon(self) -> int:
        """Rounds of a run."""
        return self.checkpoints[-1]

    def program(self, keep: bool = True) -> Program:
        """Return the program of the runs; ``keep`` is whether longer runs may continue from them.

        If not, the bits are the same, and there may be less to compile.
        """
        return program_in(self.policy, self.environment, None if keep else self.horizon)

    @functools.cached_property
    def key(self) -> str:
        """Name of the runs, for every length and number of them.

        A digest of the policy, the environment, the seed and the code that runs them, a user's
        own included.
        """
        settings = {
            "does": fingerprint(self.policy, self.environment),
            "name": self.name,
            "policy": repr(self.policy),
            "environment": repr(self.environment),
            "seed": self.seed,
        }
        return _short(json.dumps(settings, sort_keys=True), 20)

    @functools.cached_property
    def stem(self) -> str:
        """Name of the runs of this length: the key, the horizon and a digest of the checkpoints."""
        return f"{self.key}-{self.horizon}-{_short(repr(self.checkpoints), 8)}"

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """Settings of the curve, as its files hold them.

        Regret comes from the costs by what is under "regret" and "best"; see
        `Environment.regret`.
        """
        world = self.environment
        best = None
        if world.regret == "oblivious":
            best = world.best_cumulative(np.asarray(self.checkpoints)).tolist()
        return {
            "name": self.name,
            "policy": repr(self.policy),
            "environment": repr(world),
            "arms": world.n_arms,
            "seed": self.seed,
            "checkpoints": list(self.checkpoints),
            "regret": world.regret,
            "best": best,
        }


def _short(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
