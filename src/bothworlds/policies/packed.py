"""A policy, its generator and its round packed in one array, as a bandit's kernels take them.

The array is ``[K, t, number of parameters, generator, parameters, state]``; see
`bothworlds.lanes.kernels`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.kernels import HEAD, PARAMETERS
from bothworlds.policies.base import Array, Policy, Program


def pack(
    policy: Policy,
    n_arms: int,
    words: NDArray[np.int64],
    program: Program | None = None,
    state: Array | None = None,
) -> Array:
    """Return a bandit before its first round, its generator started at ``words``.

    ``program`` plays it, by default the best one for this many arms. ``state`` is its state,
    by default the first one of this many arms.
    """
    program = program or policy.program(n_arms)
    parameters = program.parameters()
    head = [float(n_arms), 0.0, float(parameters.size)]
    state = program.start() if state is None else state
    return np.concatenate([head, words.view(np.float64), parameters, state])


def first_row(F: Array) -> int:
    """Return where the state begins; its first row is the inverse probability."""
    return HEAD + int(F[PARAMETERS])
