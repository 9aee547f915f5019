"""Gymnasium adapter: an environment of this library as a `gymnasium.Env`.

A bandit has one state: the observation is always 0, the action is the index of an arm and the
reward is 1 minus the loss the agent observes.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from bothworlds.arguments import whole
from bothworlds.engine.replay import Repetition, World
from bothworlds.environments.base import Environment
from bothworlds.errors import InvalidParameter, KernelError, invalid, missing_extra, must

try:
    from gymnasium import Env, spaces
except ImportError as error:
    raise missing_extra("interop", "gymnasium") from error


class BanditEnv(Env[np.int64, np.int64]):
    """A bandit problem as a Gymnasium environment.

    ``reset(seed=s)`` begins repetition 0 of ``bothworlds.simulate(..., seed=s)``: a policy meets
    the same losses there and here. Every further ``reset()`` begins the next repetition.

    The dictionary that `step` returns holds the ``loss`` and, where the gaps are fixed, the
    ``gap`` of the arm, whose sum is the pseudo-regret; elsewhere the ``expected_loss``.

    Parameters
    ----------
    environment : Environment
        One of `bothworlds.environments` in which one arm is played a round.
    horizon : int, optional
        Rounds until an episode is truncated; by default what the environment has, or no end.

    Examples
    --------
    >>> import bothworlds as bw
    >>> env = BanditEnv(bw.environments.Stochastic([0.2, 0.8]), horizon=100)
    >>> observation, info = env.reset(seed=7)
    >>> observation, reward, terminated, truncated, info = env.step(np.int64(0))
    >>> reward in (0.0, 1.0), round(info["gap"], 12) in (0.0, 0.6)
    (True, True)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, environment: Environment, horizon: int | None = None) -> None:
        if not isinstance(environment, Environment) or environment.kind != "bandit":
            expected = "one of bothworlds.environments, not of duels or advice"
            raise invalid("environment", "BanditEnv", expected, environment)
        limit = environment.horizon_limit
        if horizon is None:
            horizon = limit
        else:
            horizon = whole("horizon", horizon, "BanditEnv", 1, "a whole number >= 1")
        if limit is not None and horizon is not None and horizon > limit:
            expected = f"at most {limit}, the rounds the environment has"
            raise invalid("horizon", "BanditEnv", expected, horizon)
        self.environment = environment
        self.horizon = horizon
        self.action_space = spaces.Discrete(environment.n_arms)
        self.observation_space = spaces.Discrete(1)
        self._world: World | None = None
        self._run: Repetition | None = None
        self._repetition = 0
        self._round = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode.

        Parameters
        ----------
        seed : int, optional
            Starts repetition 0 of this seed; without it the next repetition starts.
        options : dict, optional
            Not used.

        Returns
        -------
        tuple of int and dict
            The observation, always 0, and the ``repetition``.
        """
        super().reset(seed=seed)
        if seed is not None or self._world is None:
            chosen = int(self.np_random.integers(2**62)) if seed is None else int(seed)
            self._world = World(self.environment, chosen)
            self._repetition = 0
        else:
            self._repetition += 1
        self._run = self._world.repetition(self._repetition)
        self._round = 0
        return np.int64(0), {"repetition": self._repetition}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Play an arm.

        Parameters
        ----------
        action : int
            The index of the arm.

        Returns
        -------
        tuple
            Observation, reward, whether the episode ended (never), whether the horizon is
            reached, and the dictionary described above.
        """
        if self._world is None or self._run is None:
            raise InvalidParameter("The method BanditEnv.step must be called after reset.")
        if self.horizon is not None and self._round >= self.horizon:
            raise InvalidParameter(
                f"The method BanditEnv.reset must be called after {self.horizon} rounds."
            )
        if not self.action_space.contains(action):
            expected = f"an arm from 0 to {self.environment.n_arms - 1}"
            raise invalid("action", "BanditEnv.step", expected, action)
        self._round += 1
        arm = int(action)
        played = np.array([arm], dtype=np.int64)
        rounds = self._world.walk_all(self._run, played, first=self._round)
        loss = float(rounds.losses[0, arm])
        if not 0.0 <= loss <= 1.0:
            raise KernelError(must("loss", repr(self.environment), "a number in [0, 1]", loss))
        meaning = "gap" if self.environment.regret == "gaps" else "expected_loss"
        info = {"loss": loss, meaning: float(rounds.costs[0, arm])}
        truncated = self.horizon is not None and self._round >= self.horizon
        return np.int64(0), 1.0 - loss, False, truncated, info

    def __deepcopy__(self, memo: dict[int, Any]) -> BanditEnv:
        # The configuration is frozen and its compiled functions are shared; the run is copied.
        made = copy.copy(self)
        made.action_space = copy.deepcopy(self.action_space, memo)
        made._np_random = copy.deepcopy(self._np_random, memo)
        made._run = copy.deepcopy(self._run, memo)
        return made

    def __repr__(self) -> str:
        end = "" if self.horizon is None else f", horizon={self.horizon}"
        return f"BanditEnv({self.environment!r}{end})"
