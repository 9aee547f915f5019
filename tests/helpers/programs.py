"""Policies that are played by their own kernels everywhere, in tiles too."""

import dataclasses

from bothworlds.policies.base import Policy


def own_program(self, n_arms, *, lanes=False, horizon=None):
    """Return the program of a policy's own kernels, in place of ``program``."""
    return Policy.program(self, n_arms)


def plain(policy):
    """Return the same policy without programs for lanes or for many arms."""
    kind = type(policy)
    given = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    return type(f"Plain{kind.__name__}", (kind,), {"program": own_program})(**given)
