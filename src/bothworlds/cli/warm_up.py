"""`bothworlds warm-up`: compile the kernels of a service before they are needed."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bothworlds.cli import parse
from bothworlds.cli.console import FAILED, refusals, say
from bothworlds.cli.options import flag, option
from bothworlds.errors import CacheWarning, InvalidParameter
from bothworlds.registry import words

if TYPE_CHECKING:
    from bothworlds.policies.base import Policy

POLICIES = "tsallis,ucb1,thompson,exp3"
ARMS = (3, 16, 512)
"""Few, some and many: Tsallis-INF has its own kernels from 512 arms on."""
HORIZON = 10**6
WORLDS = ("stochastic", "switching")
GAP = 0.125


@refusals()
def warm_up(
    policies: Annotated[
        str,
        option(
            f"Policies separated by commas: {', '.join(words())}; with parameters: ucb1:c=2.",
            "NAMES",
        ),
    ] = POLICIES,
    duels: Annotated[bool, flag("--duels", "Also compile the kernels of duels.")] = False,
    simulate: Annotated[
        bool, flag("--simulate", "Also compile the kernels of simulations.")
    ] = False,
    serve: Annotated[
        bool, flag("--serve", "Also compile the kernels of the decision service.")
    ] = False,
) -> None:
    """Compile the kernels of a service ahead of time, for example while building a container.

    What is compiled is kept in the folder that NUMBA_CACHE_DIR names, and every later process
    starts at once. After Ctrl-C, what was compiled so far is kept.

    Example: bothworlds warm-up --policies tsallis,ucb1
    """
    chosen = parse.policies(policies, HORIZON)
    began = time.monotonic()
    with reported() as kernels, cache_needed():
        steps = [("Bandit", play)]
        steps += [("DuelingBandit", duel)] if duels else []
        steps += [("simulate", run)] if simulate else []
        steps += [("serve", decide_once)] if serve else []
        todo = [
            (f"{name}, {label}, {K} arms", step, policy, K)
            for name, step in steps
            for label, policy in chosen.items()
            for K in ARMS
        ]
        for place, (text, step, policy, K) in enumerate(todo, 1):
            typer.echo(f"{place} of {len(todo)}: {text}")
            step(policy, K)
    seconds = time.monotonic() - began
    if kernels:
        typer.echo(f"Compiled {len(kernels)} kernels in {seconds:.0f} s.")
    else:
        typer.echo(f"All kernels were compiled already; loaded in {seconds:.1f} s.")


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
                await service.create(Service.LOCAL, spec)
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
}
"""Products of the templates of `bothworlds.lanes.wrap` and the like, in a user's words."""


@contextlib.contextmanager
def reported() -> Iterator[list[str]]:
    """Print every kernel when it is compiled, with its time; give the list of their names."""
    from numba.core.event import install_listener

    from bothworlds.lanes.compile_events import KIND, CompileClock
    from bothworlds.lanes.jit import NOTICE

    found: list[str] = []

    def done(kernel: Any, seconds: float) -> None:
        found.append(kernel.__name__)
        wrapper = kernel.__name__.partition(".")[0]
        typer.echo(f"  {seconds:6.2f} s  {WRAPPERS.get(wrapper, wrapper)}")

    NOTICE.silence()
    with install_listener(KIND, CompileClock(done)):
        yield found


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
