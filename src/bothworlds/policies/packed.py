"""A policy, its generator and its round packed in one array, as a bandit's kernels take them.

The array is ``[K, t, number of parameters, generator, parameters, state]``; see
`bothworlds.lanes.kernels`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.kernels import HEAD, PARAMETERS
from bothworlds.policies.base import Array, Policy


def pack(
    policy: Policy, n_arms: int, words: NDArray[np.int64], twin: Policy | None = None
) -> Array:
    """Return a bandit before its first round, its generator started at ``words``.

    ``twin`` is whose kernels play it, by default those that are best for so many arms.
    """
    parameters = policy.parameters(n_arms)
    head = [float(n_arms), 0.0, float(parameters.size)]
    start = (twin or policy.for_arms(n_arms)).start(n_arms)
    return np.concatenate([head, words.view(np.float64), parameters, start])


def first_row(F: Array) -> int:
    """Return where the state begins; its first row is the inverse probability."""
    return HEAD + int(F[PARAMETERS])
