"""State of a bandit in one array: the layout of a policy's numbers, and changes of its arms.

The array ``F`` is ``[K, t, number of parameters, generator, parameters, state]``, as
`bothworlds.lanes.kernels` defines it; the state is the policy's head rows and then its
groups of one row per arm.  Everything here works on any policy, because it moves whole columns.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.kernels import ARMS, GENERATOR, HEAD, PARAMETERS, ROUND
from bothworlds.policies.base import Array, Policy, Program
from bothworlds.policies.packed import first_row as first_row
from bothworlds.policies.packed import pack as pack


def unchanged(F: Array, number: int, inverse_p: float) -> Array | None:
    """Return ``F`` if its last draw is still that of this round, with this inverse probability."""
    return F if (int(F[ROUND]), float(F[first_row(F)])) == (number, inverse_p) else None


def columns(F: Array, policy: Policy) -> Array:
    """Return the per-arm rows, for reading, in the shape ``(rows_per_arm, arms)``."""
    n_arms, groups = int(F[ARMS]), policy.traits.rows_per_arm
    program = policy.program(n_arms)
    write_back = program.kernels.write_back
    if write_back is None:
        return F[first_row(F) + program.head_rows :].reshape(groups, -1)
    F = F.copy()
    write_back(F)
    return F[first_row(F) + program.head_rows :][: groups * n_arms].reshape(groups, -1)


def with_columns(F: Array, policy: Policy, arms: Array, program: Program) -> Array:
    """Return the same bandit, round and generator with other arms, given as their columns.

    ``program`` is that of this many arms.
    """
    n_arms = arms.shape[1]
    parameters = program.parameters()
    start, first = first_row(F), program.head_rows
    head = F[start : start + policy.traits.head_rows]
    state = np.concatenate([head, arms.ravel()])
    if not program.plain:
        state = program.start()
        state[: head.size] = head
        state[first : first + arms.size] = arms.ravel()
    changed = np.concatenate([F[:HEAD], parameters, state])
    changed[ARMS] = n_arms
    changed[PARAMETERS] = parameters.size
    estimates_changed = program.kernels.estimates_changed
    if estimates_changed is not None:
        estimates_changed(changed)
    return changed


def with_decision(
    F: Array, policy: Policy, few: Array, slots: NDArray[np.intp], program: Program
) -> Array:
    """Return ``F`` after a decision among the arms in ``slots``, which was drawn from ``few``.

    Its numbers are those of ``few``; its baselines belong to the arms that were there. ``program``
    is that of all arms.
    """
    some = policy.program(slots.size)
    kernels = some.kernels
    assert kernels.write_back is not None and kernels.estimates_changed is not None
    without, after = few.copy(), few.copy()
    if not some.plain:
        kernels.estimates_changed(without)
        kernels.write_back(without)
    kernels.write_back(after)
    first, head = first_row(few), policy.traits.head_rows
    rows = columns(F, policy).copy()
    then, now = (
        each[first + some.head_rows :][: rows.shape[0] * slots.size].reshape(-1, slots.size)
        for each in (without, after)
    )
    rows[0, slots] += now[0] - then[0]
    rows[1:, slots] = now[1:]
    decided = F.copy()
    decided[first_row(F) :][:head] = after[first:][:head]
    return with_columns(decided, policy, rows, program)


def generator(F: Array) -> NDArray[np.int64]:
    """Return a view of the generator's words."""
    return F.view(np.int64)[GENERATOR:HEAD]


def saved(F: Array, policy: Policy) -> dict[str, Array]:
    """Return the numbers that a state file keeps, by name: none of the solver's memory."""
    n_arms = int(F[ARMS])
    program = policy.program(n_arms)
    if program.kernels.write_back is not None:
        F = F.copy()
        program.kernels.write_back(F)
    if program.plain:
        return policy.saved_state(n_arms, F[first_row(F) :])
    head = F[first_row(F) :][: policy.traits.head_rows]
    return policy.saved_state(n_arms, np.concatenate([head, columns(F, policy).ravel()]))


def rebuilt(
    policy: Policy, n_arms: int, t: int, words: NDArray[np.int64], numbers: Mapping[str, Array]
) -> Array:
    """Return the packed bandit with these numbers, its solver about to restart.

    A function of its arguments alone: a bandit that was saved and one that is loaded both continue
    from here, so they continue alike.
    """
    program = policy.program(n_arms)
    state = policy.state_from(n_arms, numbers)
    F = pack(policy, n_arms, words, program, state if program.plain else None)
    F[ROUND] = t
    if not program.plain:
        rows = state[policy.traits.head_rows :]
        start = first_row(F) + program.head_rows
        F[start : start + rows.size] = rows
        for row in policy.traits.saved_head:
            F[first_row(F) + row] = state[row]
    changed = program.kernels.estimates_changed
    if changed is not None:
        changed(F)
    F[first_row(F)] = 0.0
    return F
