"""Players of the demonstration: the service over HTTP, and its rivals in this process."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from bothworlds.bandit.bandit import Bandit
from bothworlds.client.blocking import Client
from bothworlds.client.calls import Decision
from bothworlds.demo.worlds import Round, World
from bothworlds.errors import ServiceError
from bothworlds.policies.base import Policy

WINDOW = 1000
"""Rounds over which plays of the best option are counted."""


class Score:
    """How much one player has lost, and how often it has played the best option lately."""

    def __init__(self) -> None:
        self.lost = 0.0
        self._lately: deque[bool] = deque(maxlen=WINDOW)
        self._best = 0

    def count(self, arm: int, means: Any) -> None:
        """Count a round."""
        least = means.min()
        gap = float(means[arm] - least)
        self.lost += gap
        if len(self._lately) == WINDOW:
            self._best -= self._lately[0]
        self._lately.append(gap <= 0.0)
        self._best += gap <= 0.0

    @property
    def best(self) -> float:
        """The share of the last rounds in which the best option was played."""
        return self._best / max(1, len(self._lately))

    @property
    def misled(self) -> bool:
        """Whether that is less than half, after as many rounds as any policy needs to learn."""
        return len(self._lately) == WINDOW and self.best < 0.5


class Player(Protocol):
    """Player of an experiment, in one or several copies."""

    scores: list[Score]

    def play(self, rounds: Sequence[Round]) -> None:
        """Play some rounds, and hear the feedback that is due."""


class Copies:
    """A policy in this process, in several copies that differ in their luck alone.

    Parameters
    ----------
    policy : Policy
        The algorithm.
    world : World
        The experiment.
    seeds : sequence of int
        A copy for each.
    """

    def __init__(self, policy: Policy, world: World, seeds: Sequence[int]) -> None:
        arms = list(world.arms)
        self._bandits = [
            Bandit(policy, arms=arms, bounds=world.bounds, seed=seed, evidence=False)
            for seed in seeds
        ]
        self.scores = [Score() for _ in seeds]
        self._late: list[list[tuple[int, int, Any, float]]] = [[] for _ in seeds]
        self._t = 0

    def play(self, rounds: Sequence[Round]) -> None:
        """Play some rounds, and hear the feedback that is due."""
        for each in rounds:
            self._t += 1
            for bandit, score, late in zip(self._bandits, self.scores, self._late, strict=True):
                decision = bandit.ask()
                arm = decision.index
                score.count(arm, each.means)
                loss = float(each.losses[arm])
                if each.delay == 0:
                    bandit.tell(decision, loss=loss)
                elif each.delay is None:
                    bandit.forget(decision)
                else:
                    heapq.heappush(late, (self._t + each.delay, self._t, decision, loss))
                while late and late[0][0] <= self._t:
                    _, _, decided, told = heapq.heappop(late)
                    bandit.tell(decided, loss=told)


class Served:
    """The experiment of the service, played over HTTP in batches.

    Parameters
    ----------
    client : Client
        Of the service.
    world : World
        The experiment, which is created.
    """

    def __init__(self, client: Client, world: World) -> None:
        self._client = client
        self._name = world.name
        self._places = {arm: place for place, arm in enumerate(world.arms)}
        self.scores = [Score()]
        self._late: list[tuple[int, int, Decision, float]] = []
        self._t = 0
        client.create(world.name, list(world.arms), bounds=list(world.bounds), feedback_window=3600,
                      description=world.title)  # fmt: skip

    def play(self, rounds: Sequence[Round]) -> None:
        """Play some rounds, and tell the feedback that is due."""
        decisions = self._decided(len(rounds))
        (score,) = self.scores
        for each, decision in zip(rounds, decisions, strict=True):
            self._t += 1
            # An arm that a visitor has added is as bad as the worst.
            arm = self._places.get(decision.arm, int(each.means.argmax()))
            score.count(arm, each.means)
            if each.delay is not None:
                loss = float(each.losses[arm])
                heapq.heappush(self._late, (self._t + each.delay, self._t, decision, loss))
        due = []
        while self._late and self._late[0][0] <= self._t:
            due.append(heapq.heappop(self._late))
        if due:
            # What the service refuses, as after a reset, is no concern of its caller.
            self._client.feedback_many(
                [decision for _, _, decision, _ in due], losses=[loss for *_, loss in due]
            )

    def _decided(self, count: int) -> list[Decision]:
        """Return decisions; the default if a visitor has stopped the experiment."""
        try:
            return self._client.decide_many(self._name, count)
        except ServiceError as error:
            if error.code not in ("experiment_paused", "experiment_archived"):
                raise
            return [Decision(self._name, next(iter(self._places)), away=error)] * count
