"""Restarts at fixed times, around any policy: after every so many rounds it restarts.

======== ==========================================================================
``H``    the length of a block, ``every``
``b``    the block of round t, floor((t - 1) / H)
``t'``   the round within the block, t - b H: what the policy takes for its round
======== ==========================================================================

At t' = 1 the state is the policy's first one.  A row holds the block the state belongs to, because
a bandit may miss the first round of a block: it may decide among some of the arms then.  Feedback
on a decision of an earlier block teaches nothing any more.

Rows: inverse probability and what the policy carries, copied; the block; then the policy's.

README:

| `Restarted(TsallisINF())`, `Discounted(TsallisINF())` | for best arms that move: measured, not
proved | likewise | |
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from bothworlds.arguments import keep, whole
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import advance, any_lane, load, splat, store, stride
from bothworlds.lanes.wrap import bound
from bothworlds.policies.around import Wrapper, checked_policy, kernels_around
from bothworlds.policies.base import Array, Kernels, Policy, Saved
from bothworlds.policies.tsallis_inf import TsallisINF

# Parameters: the length of a block, how many rows the policy has, their first values; then the
# policy's parameters.
EVERY, ROWS, FIRST = 0, 1, 2

DEFAULT = TsallisINF()

# What the templates call; filled in by `bound`. ``shape``: the rows before the policy's, the
# last of which is the block, and how many of the policy's head rows after row 0 are copied.
choose_inner: Any = None
update_inner: Any = None
weights_inner: Any = None
late_inner: Any = None
hook_inner: Any = None
shape: tuple[int, int] = (0, 0)


@jit
def block_of(t: int, C: Any) -> int:
    """Return b."""
    return max(t - 1, 0) // int(C[EVERY])


@jit
def inner_numbers(C: Any) -> Any:
    """Return the policy's parameters."""
    return advance(C, FIRST + int(C[ROWS]))


@jit
def first_rows(rows: int, C: Any, first: int, S: Any, at: int, like: Any) -> None:
    """Write a policy's first state, which begins at C[first], into the rows from ``at`` on."""
    for row in range(rows):
        store(S, at + row, splat(C[first + row], like))


@jit
def copied(S: Any, before: int, rows: int, like: Any) -> None:
    """Copy the inverse probability and this many rows after it from the policy's head."""
    for row in range(rows + 1):
        store(S, row, load(S, before + row, like))


@jit
def handed_back(S: Any, before: int, rows: int, like: Any) -> None:
    """Copy the carried rows to where the policy looks for them."""
    for row in range(1, rows + 1):
        store(S, before + row, load(S, row, like))


@jit
def caught_up(b: int, C: Any, S: Any, before: int, like: Any) -> None:
    """Restart where the state belongs to an earlier block."""
    if any_lane(load(S, before - 1, like) < b):
        first_rows(int(C[ROWS]), C, FIRST, S, before, like)
        store(S, before - 1, splat(float(b), like))


@jit
def is_past(b: int, S: Any, before: int, like: Any) -> Any:
    """Tell whether block b is over."""
    return any_lane(load(S, before - 1, like) > b)


def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Let the policy choose, again in every block."""
    b = block_of(t, C)
    caught_up(b, C, S, shape[0], u)
    inner = advance(S, shape[0] * stride(u))
    arm = choose_inner(K, t - b * int(C[EVERY]), inner_numbers(C), inner, G, u)
    copied(S, shape[0], shape[1], u)
    return arm


def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Let the policy learn, unless its block is over."""
    b = block_of(t, C)
    caught_up(b, C, S, shape[0], loss)
    if is_past(b, S, shape[0], loss):
        return
    handed_back(S, shape[0], shape[1], loss)
    inner = advance(S, shape[0] * stride(loss))
    update_inner(K, t - b * int(C[EVERY]), inner_numbers(C), inner, G, arm, inverse_p, loss)


def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Write the policy's distribution, or its marks."""
    now = t - block_of(t, C) * int(C[EVERY])
    weights_inner(K, now, inner_numbers(C), advance(S, shape[0]), G, out)


def late(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Learn from a decision that is no longer the last one, unless its block is over."""
    b = block_of(t, C)
    caught_up(b, C, S, shape[0], 0.0)
    if not is_past(b, S, shape[0], 0.0):
        now = t - b * int(C[EVERY])
        inner = advance(S, shape[0])
        late_inner(K, now, inner_numbers(C), inner, G, arm, inverse_p, loss, near)


def of_an_arm(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Let the policy know of a decision or an answer of this block."""
    b = block_of(t, C)
    caught_up(b, C, S, shape[0], 0.0)
    if not is_past(b, S, shape[0], 0.0):
        hook_inner(K, t - b * int(C[EVERY]), inner_numbers(C), advance(S, shape[0]), G, arm)
        copied(S, shape[0], shape[1], 0.0)


def changing(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Change the policy's state."""
    now = t - block_of(t, C) * int(C[EVERY])
    hook_inner(K, now, inner_numbers(C), advance(S, shape[0]), G)


@functools.cache
def restarted(kernels: Kernels, shape: tuple[int, int]) -> Kernels:
    """Return the kernels of a policy with restarts."""
    parts = kernels.parts
    assert parts is not None
    return kernels_around(
        kernels,
        choose=choose,
        update=bound(update, update_inner=kernels.update, shape=shape),
        weights=weights,
        late=parts.late and bound(late, late_inner=parts.late, shape=shape),
        asked=of_an_arm,
        answered=of_an_arm,
        changing=changing,
        wide=kernels.wide,
        shape=shape,
    )


@dataclass(frozen=True, repr=False)
class Restarted(Wrapper):
    """A policy that restarts after every so many rounds, for arms that change places.

    A policy such as `TsallisINF` competes with one fixed arm; if the best arm moves, it follows
    late. Restarted, it competes with the best arm of every block of rounds, and pays its first
    rounds again in each: where nothing moves, do not restart. Feedback that arrives after its
    block is over teaches nothing.

    The regrets of the blocks add up (derived, not in the literature as such): with importance
    weighting, at most 4 sqrt(K H) + 1 in each of T / H blocks of length H, and at most H more for
    every change of the best arm.

    Parameters
    ----------
    policy : Policy, default TsallisINF()
        Any policy that plays one arm a round.
    every : int, default 1000
        The number of rounds after which it restarts, at least 1.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.Restarted(bw.TsallisINF(), every=100), arms=["a", "b"], seed=7)
    >>> for _ in range(100):
    ...     decision = bandit.ask()
    ...     bandit.tell(decision, loss=0.0 if decision.arm == "a" else 1.0)
    >>> {arm: round(p, 12) for arm, p in bandit.probabilities().items()}
    {'a': 0.5, 'b': 0.5}
    """

    policy: Policy = DEFAULT
    every: int = 1000

    def __post_init__(self) -> None:
        policy = checked_policy(self.policy, "Restarted")
        keep(self, policy=policy, every=whole("every", self.every, "Restarted", 1))
        # Copies of the inverse probability and of what is carried, and the block.
        before = policy.traits.carried_rows + 2
        block = Saved("block", low=0.0, high=2.0**53, whole=True)
        keep(self, before=before, own_head={before - 1: block})
        keep(self, traits=self._around())

    def __repr__(self) -> str:
        return f"Restarted({self.policy!r}, every={self.every!r})"

    def own_numbers(self, n_arms: int) -> Array:
        """Return the length of a block and the policy's first state."""
        first = self.policy.start(n_arms)
        return np.concatenate([[min(self.every, 2**53), first.size], first])

    def inner_round(self, t: int, head: Array) -> int:
        """Return the round within its block."""
        return (t - 1) % self.every + 1

    def kernels(self) -> Kernels:
        """Return the policy's kernels with restarts."""
        return restarted(self.policy.kernels(), (self.before, self.policy.traits.carried_rows))
