"""One bandit in one array: how a policy's numbers are laid out, and how its arms change.

The array ``F`` is ``[K, t, number of parameters, generator, parameters, state]``, as
`bothworlds.lanes.kernels` defines it; the state is the policy's shared rows and then its fields,
one row per arm each.  Everything here works on any policy, because it moves whole columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.kernels import GENERATOR, HEAD, PARAMETERS
from bothworlds.policies.base import Array, Policy


def pack(policy: Policy, n_arms: int, words: NDArray[np.int64]) -> Array:
    """Return a bandit before its first round, its generator started at ``words``."""
    parameters = policy.parameters(n_arms)
    head = [float(n_arms), 0.0, float(parameters.size)]
    return np.concatenate([head, words.view(np.float64), parameters, policy.start(n_arms)])


def first_row(F: Array) -> int:
    """Return where the state begins; its first row is the inverse probability."""
    return HEAD + int(F[PARAMETERS])


def columns(F: Array, policy: Policy) -> Array:
    """Return the per-arm rows as a view of shape ``(fields, arms)``; field 0 comes first."""
    return F[first_row(F) + policy.shared :].reshape(policy.fields, -1)


def with_columns(F: Array, policy: Policy, arms: Array) -> Array:
    """Return the same bandit, round and generator with other arms, given as their columns."""
    n_arms = arms.shape[1]
    parameters = policy.parameters(n_arms)
    start = first_row(F)
    shared = F[start : start + policy.shared]
    changed = np.concatenate([F[:HEAD], parameters, shared, arms.ravel()])
    changed[0] = n_arms
    changed[PARAMETERS] = parameters.size
    restart = policy.kernels().restart
    if restart is not None:
        restart(changed)
    return changed


def generator(F: Array) -> NDArray[np.int64]:
    """Return a view of the generator's words."""
    return F.view(np.int64)[GENERATOR:HEAD]
