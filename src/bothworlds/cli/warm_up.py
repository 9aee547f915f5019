"""`bothworlds warm-up`: compile the kernels of a service before they are needed."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bothworlds.cli import parse
from bothworlds.cli.console import FAILED, command, say
from bothworlds.cli.kernel_counts import KERNELS, USES
from bothworlds.cli.options import flag, option
from bothworlds.errors import CacheWarning, InvalidParameter
from bothworlds.text import counted

if TYPE_CHECKING:
    from bothworlds.policies.base import Policy

POLICIES = "tsallis,ucb1,thompson,exp3"
ARMS = (3, 16, 512)
"""Few, some and many: Tsallis-INF has its own kernels from 512 arms on."""
HORIZON = 10**6
WORLDS = ("stochastic", "switching")
GAP = 0.125


@command
def warm_up(
    policies: Annotated[str, option("NAMES")] = POLICIES,
    duels: Annotated[bool, flag("--duels")] = False,
    simulate: Annotated[bool, flag("--simulate")] = False,
    serve: Annotated[bool, flag("--serve")] = False,
) -> None:
    """Compile the kernels of a service ahead of time, for example while building a container.

    What is compiled is kept in the folder that NUMBA_CACHE_DIR names, and every later process
    starts at once. After Ctrl-C, what was compiled so far is kept.

    Example: bothworlds warm-up --policies tsallis,ucb1

    Parameters
    ----------
    policies : str
        Policies separated by commas: {policies}; with parameters: ucb1:c=2.
    duels : bool
        Also compile the kernels of duels.
    simulate : bool
        Also compile the kernels of simulations.
    serve : bool
        Also compile the kernels of the decision service.
    """
    chosen = parse.policies(policies, HORIZON)
    began = time.monotonic()
    with cache_needed():
        steps = [("Bandit", play, chosen)]
        steps += [("DuelingBandit", duel, chosen)] if duels else []
        steps += [("simulate", run, chosen)] if simulate else []
        steps += [("serve", decide_once, servable(chosen))] if serve else []
        left = Remaining([(name, label) for name, _, some in steps for label in some])
        todo = [
            (name, label, step, policy, K)
            for name, step, some in steps
            for label, policy in some.items()
            for K in ARMS
        ]
        with reported(left):
            for place, (name, label, step, policy, K) in enumerate(todo, 1):
                typer.echo(f"{place} of {len(todo)}: {name}, {label}, {K} arms")
                try:
                    step(policy, K)
                except KeyboardInterrupt:
                    say(f"Stopped: {counted(left.compiled, 'kernel')} kept{left.sentence()}.")
                    raise
                if K == ARMS[-1]:
                    left.finish(name, label)
    seconds = time.monotonic() - began
    if left.compiled:
        typer.echo(f"Compiled {left.compiled} kernels in {seconds:.0f} s.")
    else:
        typer.echo(f"All kernels were compiled already; loaded in {seconds:.1f} s.")


class Remaining:
    """Number of kernels that may still have to be compiled, from `KERNELS`.

    Policies share a few kernels, and some may be in the cache, so it is an upper bound.

    Parameters
    ----------
    parts : list of (str, str)
        Uses and labels of policies, in the order in which they compile.

    Examples
    --------
    >>> left = Remaining([("Bandit", "UCB1"), ("simulate", "UCB1")])
    >>> left.sentence()
    '; at most 17 remain'
    >>> left.count()
    >>> left.finish("Bandit", "UCB1")
    >>> left.sentence()
    '; at most 4 remain'
    >>> Remaining([("Bandit", "UCB1(c=2.0)")]).sentence()
    ''
    """

    def __init__(self, parts: list[tuple[str, str]]) -> None:
        self.compiled = 0
        self._known = all(label in KERNELS for _, label in parts)
        self._parts = {
            (name, label): KERNELS[label][USES.index(name)] if self._known else 0
            for name, label in parts
        }

    def count(self) -> None:
        """Count a kernel that was compiled, of the first part that is not finished."""
        self.compiled += 1
        part = next(iter(self._parts))
        self._parts[part] = max(0, self._parts[part] - 1)

    def finish(self, name: str, label: str) -> None:
        """Expect nothing more from a part."""
        del self._parts[name, label]

    def sentence(self) -> str:
        """Return the end of a sentence; nothing for a policy whose kernels were not counted."""
        return f"; at most {sum(self._parts.values())} remain" if self._known else ""


def servable(chosen: dict[str, Policy]) -> dict[str, Policy]:
    """Return the policies that the service accepts; name those that it refuses.

    Raises
    ------
    InvalidParameter
        If it refuses all of them.
    """
    from bothworlds.serve.domain.draws import check_served

    found, refused = {}, {}
    for label, policy in chosen.items():
        try:
            found[label] = check_served(policy)
        except InvalidParameter as error:
            refused[label] = error
    if not found:
        raise next(iter(refused.values()))
    if refused:
        typer.echo(f"The service does not accept {', '.join(refused)}: left out of serve.")
    return found


def play(policy: Policy, K: int) -> None:
    """Use a bandit as a service does: ask, tell at once and late, inspect, change the arms."""
    import bothworlds as bw

    bandit = bw.Bandit(policy, K, seed=0)
    for _ in range(2):
        bandit.tell(bandit.ask(), loss=0.5)
    early, late = bandit.ask(), bandit.ask(available=bandit.arms[:2])
    bandit.tell(late, loss=0.5)
    bandit.tell(early, loss=0.5)
    if policy.traits.knows_probability:
        dict(bandit.ask().probabilities or {})
        bandit.probabilities()
    with contextlib.suppress(InvalidParameter):  # a policy whose arms stay
        bandit.add_arm("new")
        bandit.retire_arm("new")
    bandit.tell_many(bandit.ask_many(2), [0.5, 0.5])
    bandit.copy().ask()


def duel(policy: Policy, K: int) -> None:
    """Do the same with duels: two states, and one where the policy can share it."""
    import bothworlds as bw

    for sparring in {bw.Sparring(policy, shared=False), bw.Sparring(policy)}:
        bandit = bw.DuelingBandit(sparring, K, seed=0)
        bandit.tell(bandit.ask(), winner="left")
        early, late = bandit.ask(), bandit.ask()
        bandit.tell(late, winner="left")
        bandit.tell(early, winner="right")


def run(policy: Policy, K: int) -> None:
    """Simulate more repetitions than fit in one tile, in the common environments."""
    from bothworlds.engine.tile import compile_kernels
    from bothworlds.lanes.types import LANES
    from bothworlds.simulation import simulate

    for word in WORLDS:
        world = parse.environment(word, K, GAP)
        simulate(policy, world, horizon=10, repetitions=LANES + 1, threads=1, progress=False)
        # Longer runs may take other kernels.
        compile_kernels(policy.program(K, lanes=True), world)


def decide_once(policy: Policy, K: int) -> None:
    """Let a service of its own, in a folder that goes away, decide and learn."""
    import asyncio
    import tempfile
    from pathlib import Path

    from bothworlds.bandit.state_file import describe
    from bothworlds.serve.domain.service import Arm, NewExperiment, Service
    from bothworlds.serve.problems import Problem

    async def once(folder: str) -> None:
        service = await Service.open(str(Path(folder, "warm-up.db")))
        try:
            arms = [Arm(str(i)) for i in range(K)]
            settings: dict[str, dict[str, Any]] = {
                "plain": {}, "floor": {"floor": 0.1}, "shares": {"control": "0"},
            }  # fmt: skip
            for name, more in settings.items():
                described = describe(policy, "warm-up")
                spec = NewExperiment(name, arms, policy=described, **more)
                try:
                    await service.create(Service.LOCAL, spec)
                except Problem:  # a policy without floors or shares
                    if not more:
                        raise
                    continue
                for available in (None, ["0", "1"]):
                    made = await service.decide(
                        Service.LOCAL, name, available=available, vector=True
                    )
                    await service.feedback(Service.LOCAL, made.decision_id, loss=0.5)
        finally:
            await service.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(once(folder))


WRAPPERS = {
    "drawing": "ask",
    "drawing_at": "ask",
    "drawing_then": "ask",
    "choosing": "ask",
    "choosing_then": "ask",
    "telling": "tell",
    "telling_then": "tell",
    "telling_at": "tell",
    "telling_late": "tell, late",
    "listening": "tell, with evidence",
    "listening_late": "tell, late, with evidence",
    "filling": "weights",
    "normalising": "weights",
    "asking_among": "ask, some arms",
    "asking_many": "ask_many",
    "telling_many": "tell_many",
    "note": "evidence",
    "noting": "ask, feedback to come late",
    "learning": "tell, late",
    "changing": "add_arm, retire_arm",
    "rate_now": "learning rate",
    "solve": "solver",
    "anytime_rate": "learning rate",
    "hear": "alarms",
    "observe": "alarms",
    "extent": "service, tell",
    "adding": "service, tell",
    "run": "simulate, the loop",
    "choose": "simulate, ask",
    "update": "simulate, tell",
    "loss": "simulate, losses",
    "idle": "simulate, an unused part",
}
"""Kernels in a user's words, by their names or the beginnings of their names."""


@contextlib.contextmanager
def reported(left: Remaining) -> Iterator[None]:
    """Print every kernel when it is compiled, with its time and how many remain."""
    from numba.core.event import install_listener

    from bothworlds.lanes.compile_events import KIND, CompileClock
    from bothworlds.lanes.jit import NOTICE

    def done(kernel: Any, seconds: float) -> None:
        left.count()
        name = kernel.__name__.partition(".")[0]
        text = WRAPPERS.get(name) or WRAPPERS.get(name.partition("_")[0], name)
        typer.echo(f"  {seconds:6.2f} s  {text}{left.sentence()}")

    NOTICE.silence()
    with install_listener(KIND, CompileClock(done)):
        yield


@contextlib.contextmanager
def cache_needed() -> Iterator[None]:
    """Fail where compiled code cannot be kept, because then nothing is won."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        try:
            yield
        except CacheWarning as warning:
            say(str(warning))
            raise typer.Exit(FAILED) from None
