"""Checks of an environment as a value: printing, pickling and its last round."""

from __future__ import annotations

import pickle
import re
from numbers import Integral

import numpy as np

from bothworlds.checks.report import NotApplicable, Violation
from bothworlds.checks.streams import require_losses
from bothworlds.engine.replay import World
from bothworlds.errors import InvalidParameter
from bothworlds.policies import Uniform
from bothworlds.simulation import simulate


def horizon_limit(world: World) -> str:
    """The last round there is has losses, and a simulation beyond it is refused."""
    limit = world.environment.horizon_limit
    if limit is None:
        raise NotApplicable("there is no last round")
    if not isinstance(limit, Integral) or limit < 1:
        raise Violation(f"the limit is {limit!r}, not a number of rounds")
    last = int(limit)
    first = max(1, last - 9)
    played = world.actions(last - first + 1, "horizon")
    require_losses(world, world.walk_all(world.repetition(0), played, first=first).losses, first)
    if not world.duel:
        try:
            simulate(Uniform(), world.environment, horizon=last + 1, repetitions=1, progress=False)
        except InvalidParameter:
            pass
        else:
            raise Violation(f"a simulation of {last + 1} rounds was accepted, there are {last}")
    return f"{last} rounds, no more"


def representation(world: World) -> str:
    """It prints in one line as its constructor; streams are seeded by that line."""
    shown = repr(world.environment)
    name = type(world.environment).__name__
    if not shown.startswith(f"{name}("):
        raise Violation(f"it prints as {shown[:60]!r}, not as {name}(...)")
    if "\n" in shown:
        raise Violation("it prints in several lines")
    if re.search(r"0x[0-9a-f]{6}", shown):
        raise Violation(f"it prints with an address, {shown[:60]!r}")
    return shown if len(shown) <= 60 else f"{shown[:59]}…"


def pickling(world: World) -> str:
    """It comes back from a pickle equal, and with the same stream."""
    environment = world.environment
    try:
        copy = pickle.loads(pickle.dumps(environment))
    except Exception as error:
        for value in environment._arguments().values():
            if callable(value) and not _travels(value):
                raise NotApplicable("it holds a function that is not in a module") from None
        if not _travels(type(environment)):
            raise NotApplicable("its class is not in a module") from None
        raise Violation(f"{type(error).__name__}: {error}") from None
    if copy != environment or hash(copy) != hash(environment):
        raise Violation("it comes back from a pickle unequal to itself")
    if repr(copy) != repr(environment):
        raise Violation(f"it comes back from a pickle as {repr(copy)[:60]!r}")
    rounds = world.rounds(100)
    played = world.actions(rounds, "pickling")
    again = World(copy, world.seed)
    one, _ = world.walk(world.repetition(0), played)
    other, _ = again.walk(again.repetition(0), played)
    if not np.array_equal(one, other):
        raise Violation("it comes back from a pickle with other losses")
    return f"equal, with the same losses in {rounds} rounds"


def _travels(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True
