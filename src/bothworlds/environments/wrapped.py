"""Environments that combine another one with a stage that changes the observed losses."""

from __future__ import annotations

import functools
from typing import Any

from bothworlds.arguments import keep
from bothworlds.environments.base import Environment
from bothworlds.errors import invalid


class Wrapped(Environment):
    """Everything but the attack is the base's: its losses, its regret, its streams."""

    base: Environment

    def _wrap(self, base: Environment) -> None:
        """Take over a base that is an environment with one arm per round and no attack yet."""
        owner = type(self).__name__
        plain = isinstance(base, Environment) and base.kind == "bandit"
        if not plain or base.stage() is not None or base.unbounded:
            expected = (
                "an environment for one arm a round, with losses in [0, 1], "
                "that is not under attack itself"
            )
            raise invalid("base", owner, expected, base)
        self._take_over(base)

    def _take_over(self, base: Environment) -> None:
        """Copy the properties of the base."""
        taken = ("n_arms", "horizon_limit", "regret", "wide", "trusted", "unbounded", "kind")
        keep(self, base=base, **{name: getattr(base, name) for name in taken})


ASKED = (
    "adaptive", "tracked_row", "best_cumulative", "least_cumulative", "comparators", "fixed_gaps",
    "ranking", "delays", "memory_row", "parameters", "start", "kernel", "unchecked_kernel",
    "rehearse",
)  # fmt: skip
"""Members of an environment around another one that the base answers for."""


def _of_the_base(name: str) -> Any:
    """Return a property or method of `Environment` that asks the base."""
    own = getattr(Environment, name)
    if isinstance(own, property):
        return property(lambda self: getattr(self.base, name), doc=own.__doc__)

    @functools.wraps(own)
    def asked(self: Wrapped, *given: Any, **named: Any) -> Any:
        return getattr(self.base, name)(*given, **named)

    return asked


for _name in ASKED:
    setattr(Wrapped, _name, _of_the_base(_name))
