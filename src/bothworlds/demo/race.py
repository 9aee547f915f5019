"""Race of the demonstration: all players on the same traffic, round by round in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bothworlds.client.blocking import Client
from bothworlds.demo.players import Copies, Player, Served
from bothworlds.demo.worlds import WORLDS, Moving, World
from bothworlds.policies.allworlds import AllWorlds
from bothworlds.policies.thompson import ThompsonSampling
from bothworlds.policies.ucb1 import UCB1

RATE = 250
"""Rounds a second of every experiment."""
COPIES = 8
"""Copies of each rival, because chance decides which of them are misled."""
POINTS = 400
"""Most points of a curve; beyond, every other one is dropped."""
_TURN = 0.1
_MOST = 256


@dataclass(frozen=True)
class PlayerStanding:
    """How one player of an experiment does."""

    player: str
    lost: float
    """Mean over its copies, in the world's units."""
    worst: float
    best: float
    """Share of the last rounds in which it played the best option."""
    misled: int
    """Copies that play the best option less than half the time."""
    copies: int

    @property
    def verdict(self) -> str:
        """How many copies are misled, in words."""
        if self.copies == 1:
            return "yes" if self.misled else "no"
        return f"{self.misled} of {self.copies}"


@dataclass(frozen=True)
class Picture:
    """An experiment as it stands."""

    name: str
    title: str
    unit: str
    rounds: int
    trouble: str
    """The current disturbance, empty if there is none."""
    standings: tuple[PlayerStanding, ...]
    times: tuple[float, ...]
    """Seconds of the points of the curves."""
    curves: dict[str, tuple[float, ...]]
    """Losses of each player at these times."""
    troubles: tuple[tuple[float, float], ...]
    """From when to when something was going on."""
    note: str
    """The point of this world, in a sentence."""


class Contest:
    """One experiment and its players."""

    def __init__(self, world: World, players: dict[str, Player]) -> None:
        self.world = world
        self.players = players
        # Milliseconds are counted, seconds are displayed.
        self._scale = 1e-3 if world.bounds[1] == 1000.0 else 1.0
        self._times: list[float] = []
        self._curves: dict[str, list[float]] = {name: [] for name in players}
        self._troubles: list[list[float]] = []
        self._in_trouble = False
        self._every, self._skipped = 1, 0

    def play(self, count: int) -> None:
        """Play some rounds."""
        rounds = []
        for _ in range(count):
            each = self.world.next()
            rounds.append(each)
            at = self.world.t / self.world.rate
            if each.trouble and not self._in_trouble:
                self._troubles.append([at, at])
            if each.trouble:
                self._troubles[-1][1] = at
            self._in_trouble = each.trouble
        for player in self.players.values():
            player.play(rounds)

    def note(self) -> None:
        """Add a point to the curves."""
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self._times.append(self.world.t / self.world.rate)
        for standing in self._standings():
            self._curves[standing.player].append(standing.lost)
        if len(self._times) >= POINTS:
            self._every *= 2
            self._times = self._times[::2]
            self._curves = {name: curve[::2] for name, curve in self._curves.items()}

    def _standings(self) -> Iterator[PlayerStanding]:
        for name, player in self.players.items():
            lost = [score.lost * self._scale for score in player.scores]
            best = [score.best for score in player.scores]
            yield PlayerStanding(
                name,
                sum(lost) / len(lost),
                max(lost),
                sum(best) / len(best),
                sum(score.misled for score in player.scores),
                len(lost),
            )

    def picture(self) -> Picture:
        """Return how it stands."""
        world = self.world
        return Picture(
            world.name,
            world.title,
            world.unit,
            world.t,
            world.trouble if self._in_trouble else "",
            tuple(self._standings()),
            tuple(self._times),
            {name: tuple(curve) for name, curve in self._curves.items()},
            tuple((a, b) for a, b in self._troubles[-200:]),
            world.note,
        )


class Race:
    """All experiments, played until they are stopped.

    Parameters
    ----------
    client : Client
        Of the service, on which the experiments are created.
    seed : int
        Seed of the random numbers.
    rate : int
        Rounds a second of every experiment.
    copies : int
        Copies of each rival.
    """

    def __init__(self, client: Client, seed: int, rate: int = RATE, copies: int = COPIES) -> None:
        seeds = [seed * 1000 + n for n in range(copies)]
        self.contests = []
        for kind in WORLDS:
            world = kind(seed, rate)
            players: dict[str, Player] = {
                "Tsallis-INF": Served(client, world),
                "Thompson sampling": Copies(ThompsonSampling(), world, seeds),
                # Without luck of its own, all its copies would do the same.
                "UCB1": Copies(UCB1(), world, seeds[:1]),
            }
            if isinstance(world, Moving):
                players["AllWorlds"] = Copies(AllWorlds(), world, seeds)
            self.contests.append(Contest(world, players))
        self.rate = rate
        self._lock = threading.Lock()
        self._pictures: Sequence[Picture] = [each.picture() for each in self.contests]

    def pictures(self) -> Sequence[Picture]:
        """Return how all experiments stood a moment ago; from any thread."""
        with self._lock:
            return self._pictures

    def run(
        self, seconds: float | None, stop: Callable[[], bool], told: Callable[[], None]
    ) -> None:
        """Play in real time, until the seconds are over or the caller stops it.

        On a machine that is too slow for the rate the rounds come later; none is left out.
        """
        begun = time.monotonic()
        played, noted = 0, -1
        while not stop():
            now = time.monotonic() - begun
            if seconds is not None and now >= seconds:
                break
            due = min(int(now * self.rate) - played, _MOST)
            if due < 1:
                time.sleep(_TURN / 2)
                continue
            for contest in self.contests:
                contest.play(due)
            played += due
            if int(now * 2) > noted:
                noted = int(now * 2)
                for contest in self.contests:
                    contest.note()
                found = [each.picture() for each in self.contests]
                with self._lock:
                    self._pictures = found
                told()
            if int(now * self.rate) - played > self.rate:
                # Too slow: do not try to catch up with what is long over.
                begun = time.monotonic() - played / self.rate
            time.sleep(_TURN)
