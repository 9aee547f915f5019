"""Late feedback, compiled: note a decision when it is drawn, learn from it whenever its loss comes.

`bothworlds.bandit.pending` describes what is kept of a decision.  Here is its memory, the array
``N``:

===================== =============================================================
``N[INVERSE_P]``      1 / the probability of the drawn arm
``N[MEAN_BASELINE]``  sum_j w_j B_j over the arms that could be drawn
``N[CARRIED:]``       the policy's carried rows, then one bit for every arm the bandit ever had,
                      by its index: set where the arm's estimate gets a baseline
===================== =============================================================

The functions are templates around a policy's kernels, as in `bothworlds.lanes.wrap`; `late_kernels`
fills them in.  ``indices`` are the indices of the arms in ``F``, by slot.
"""

from __future__ import annotations

import functools
import hashlib
import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.lanes.jit import compiled, in_package, jit
from bothworlds.lanes.kernels import ARMS, GENERATOR, HEAD, PARAMETERS, ROUND, as_words
from bothworlds.lanes.vectors import advance, pointer
from bothworlds.omd.estimators import BASELINE, estimated_loss
from bothworlds.policies.base import Kernels, Policy, Program

INVERSE_P, MEAN_BASELINE, CARRIED = 0, 1, 2

# What a policy has no kernel for. The names below stand for the policy's own in the templates.


@jit
def no_ask(F: Any) -> Any:
    """Stand for a policy's draw."""
    return 0


@jit
def no_tell(F: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Learn nothing."""


@jit
def nothing_out(F: Any, out: Any) -> None:
    """Mark no arm."""
    for i in range(int(F[ARMS])):
        out[i] = 0


@jit
def no_late(F: Any, arm: int, inverse_p: float, loss: float, near: Any) -> None:
    """Learn nothing."""


@jit
def no_change(F: Any) -> None:
    """Change nothing."""


@jit
def nobody_asked(F: Any, arm: int) -> None:
    """Count nothing."""


ask: Any = no_ask
tell: Any = no_tell
near: Any = nothing_out
weights: Any = nothing_out
late: Any = no_late
changed: Any = no_change
write_back: Any = no_change
asked: Any = nobody_asked
has_near: bool = False
opens: bool = False
has_late: bool = False
has_estimates: bool = False
skipped: int = -1
carried: int = 0
head: int = 1


@jit
def mark(index: int) -> Any:
    """Return the bit of an arm in its word of marks, as `numpy.packbits` orders them."""
    return 1 << ((index & 63) ^ 7)


# What follows takes addresses: an array that is handed on is counted at every call, which costs
# as much as the work.


def note_at(F: Any, K: int, indices: Any, N: Any, size: int, flags: Any, w: Any) -> None:
    """Write the numbers for a late tell of the current draw into ``N``.

    ``flags`` and ``w`` are room for a value per arm, ``size`` is how many numbers ``N`` has.
    """
    start = HEAD + int(F[PARAMETERS])
    N[INVERSE_P] = F[start]
    N[MEAN_BASELINE] = 0.0
    for row in range(carried):
        N[CARRIED + row] = F[start + 1 + row]
    if not has_near:
        return
    marks = as_words(advance(N, CARRIED + carried))
    for word in range(size - CARRIED - carried):
        marks[word] = 0
    near(F, flags)
    weights(F, w)
    total = 0.0
    for i in range(K):
        if flags[i]:
            total += w[i]
            marks[indices[i] >> 6] |= mark(indices[i])
    N[MEAN_BASELINE] = min(BASELINE * total, BASELINE)


def learn_at(
    F: Any,
    slot: int,
    loss: float,
    number: float,
    N: Any,
    size: int,
    K: int,
    indices: Any,
    present: Any,
    known: int,
    played: int,
    flags: Any,
) -> None:
    """Learn from the decision of round ``number``, in which the arms ``present`` could be drawn.

    ``slot`` is where the arm ``played`` is now, negative if it was retired; ``present`` is by
    index, for ``known`` arms, none if all arms in ``F`` were there. ``flags`` is room for a value
    per arm.
    """
    start = HEAD + int(F[PARAMETERS])
    marks = as_words(advance(N, CARRIED + carried))
    reach = 64 * (size - CARRIED - carried)
    base = 0.0
    if has_near:
        for i in range(K):
            index = indices[i]
            flags[i] = int(index < reach and marks[index >> 6] & mark(index) != 0)
        if played < reach and marks[played >> 6] & mark(played) != 0:
            base = BASELINE
    now = F[ROUND]
    F[ROUND] = number
    moved = False
    learned = skipped < 0
    if slot >= 0:
        if has_late:
            late(F, slot, N[INVERSE_P], loss, flags)
        else:
            for row in range(carried):
                F[start + 1 + row] = N[CARRIED + row]
            before = F[start + skipped] if skipped >= 0 else 0.0
            tell(F, slot, N[INVERSE_P], loss)
            learned = skipped < 0 or F[start + skipped] == before
    elif has_late:
        write_back(F)
        for i in range(K):
            if flags[i]:
                F[start + head + i] += BASELINE
                moved = True
    F[ROUND] = now
    if has_estimates and known > 0:
        rise = estimated_loss(loss, base, N[MEAN_BASELINE])
        if not learned:
            rise = 0.0
        for i in range(K):
            index = indices[i]
            if index >= known or present[index] == 0:
                if not moved:
                    write_back(F)
                    moved = True
                F[start + head + i] += rise
    if moved:
        changed(F)


def noting(F: Any, indices: Any, N: Any, flags: Any, w: Any) -> None:
    """Same as `note_at`, called from Python."""
    note(pointer(F), indices.size, pointer(indices), pointer(N), N.size, pointer(flags), pointer(w))


def learning(
    F: Any,
    slot: int,
    loss: float,
    number: float,
    N: Any,
    indices: Any,
    present: Any,
    played: int,
    flags: Any,
) -> None:
    """Same as `learn_at`, called from Python."""
    learn(
        pointer(F), slot, loss, number, pointer(N), N.size, indices.size, pointer(indices),
        pointer(present), present.size, played, pointer(flags),
    )  # fmt: skip


def asking_among(F: Any, slots: Any, few: Any, rows: int) -> Any:
    """Draw from the arms in ``slots`` alone, as if there were no others; return the place drawn.

    ``few`` is a packed bandit of this many arms with the same parameters, ``rows`` the number of
    rows per arm. Only for policies that keep every arm in rows of its own.
    """
    start = HEAD + int(F[PARAMETERS])
    K = int(F[0])
    n = slots.size
    if opens:
        write_back(F)
    few[ROUND] = F[ROUND] + 1.0
    for word in range(GENERATOR, HEAD):
        few[word] = F[word]
    first = HEAD + int(few[PARAMETERS])
    for row in range(head):
        few[first + row] = F[start + row]
    for row in range(rows):
        for place in range(n):
            few[first + head + row * n + place] = F[start + head + row * K + slots[place]]
    if has_estimates:
        # Only differences matter, and far from 0 they would be lost.
        least = few[first + head]
        for place in range(1, n):
            least = min(least, few[first + head + place])
        for place in range(n):
            few[first + head + place] -= least
    changed(few)
    place = ask(few)
    for word in range(GENERATOR, HEAD):
        F[word] = few[word]
    if opens:
        # The baselines of the decision belong to the arms that were there.
        after = few.copy()
        write_back(after)
        for row in range(head):
            F[start + row] = after[first + row]
        for each in range(n):
            at = start + head + slots[each]
            F[at] += after[first + head + each] - few[first + head + each]
            for row in range(1, rows):
                F[at + row * K] = after[first + head + row * n + each]
        changed(F)
    else:
        asked(F, slots[place])
    F[ROUND] = few[ROUND]
    return place


def asking_many(F: Any, slots: Any, indices: Any, notes: Any, snapshots: Any) -> None:
    """Draw as often as there is room in ``slots``, noting every decision."""
    K, size, state = indices.size, notes.shape[1], pointer(F)
    flags = np.zeros(K, np.uint8)
    w = np.zeros(K)
    for n in range(slots.size):
        F[ROUND] += 1.0
        slots[n] = ask(F)
        if snapshots.size > 0:
            for i in range(F.size):
                snapshots[n, i] = F[i]
        row = advance(pointer(notes), n * size)
        note(state, K, pointer(indices), row, size, pointer(flags), pointer(w))


def telling_many(
    F: Any, slots: Any, losses: Any, numbers: Any, notes: Any, indices: Any, present: Any
) -> None:
    """Learn from many decisions of the past, all of whose arms are in ``F``."""
    K, size, state = indices.size, notes.shape[1], pointer(F)
    flags = np.zeros(K, np.uint8)
    for n in range(slots.size):
        row = advance(pointer(notes), n * size)
        learn(
            state, slots[n], losses[n], numbers[n], row, size, K, pointer(indices),
            pointer(present), present.size, indices[slots[n]], pointer(flags),
        )  # fmt: skip


note: Any = None
learn: Any = None


@dataclass(frozen=True)
class LateKernels:
    """The templates of this module around one policy's kernels."""

    note: Any
    learn: Any
    ask_among: Any
    ask_many: Any
    tell_many: Any


def width(policy: Policy, program: Program, known: int) -> int:
    """Return how many numbers the notes of a decision are, with ``known`` arms ever had."""
    has_near = program.kernels.near is not None
    return CARRIED + policy.traits.carried_rows + (-(-known // 64) if has_near else 0)


def late_kernels(policy: Policy, program: Program) -> LateKernels:
    """Return the compiled templates for a policy, built once for all with the same kernels."""
    traits = policy.traits
    skipped = -1 if traits.skipped_row is None else traits.skipped_row
    shape = traits.carried_rows, program.head_rows, traits.estimates, skipped
    return _late_kernels(program.kernels, *shape)


def _name(value: Any) -> str:
    """Return the module and name of a function, compiled or not; of a number the number."""
    function = getattr(value, "py_func", value)
    if isinstance(function, types.FunctionType):
        return f"{function.__module__}.{function.__qualname__}"
    return repr(value)


@functools.cache
def _late_kernels(
    kernels: Kernels, carried: int, head: int, estimates: bool, skipped: int
) -> LateKernels:
    names: dict[str, Any] = {
        "ask": kernels.ask,
        "tell": kernels.tell,
        "near": kernels.near or nothing_out,
        "weights": (kernels.weights if kernels.near else None) or nothing_out,
        "late": kernels.late or no_late,
        "changed": kernels.estimates_changed or no_change,
        "write_back": kernels.write_back or no_change,
        "asked": kernels.asked or nobody_asked,
        "has_near": kernels.near is not None,
        "opens": kernels.opens,
        "has_late": kernels.late is not None,
        "has_estimates": estimates,
        "skipped": skipped,
        "carried": carried,
        "head": head,
    }
    parts = [kernels.ask.py_func, kernels.tell.py_func]
    # Numba's cache knows a function by its name but not by its globals: the name covers them all,
    # as a digest, because it becomes part of a file's name.
    bound = "/".join(map(_name, names.values()))
    suffix = hashlib.sha256(bound.encode()).hexdigest()[:16]

    def made(template: Any, release: bool = False, **more: Any) -> Any:
        scope = {**template.__globals__, **names, **more}
        name = f"{template.__name__}.{suffix}"
        clone = types.FunctionType(template.__code__, scope, name)
        clone.__qualname__ = name
        if all(in_package(part) and "<locals>" not in part.__qualname__ for part in parts):
            return jit(clone, release)
        return compiled(clone, release)

    note, learn = made(note_at), made(learn_at)
    return LateKernels(
        made(noting, note=note),
        made(learning, learn=learn),
        made(asking_among),
        made(asking_many, release=True, note=note),
        made(telling_many, release=True, learn=learn),
    )
