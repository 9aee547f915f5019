"""Policy wrappers: the common base of `Floor`, `Restarted`, `Discounted` and `Alarmed`.

A wrapper is a policy around another one, its ``inner``.  The state of a wrapper is

======================= ===================================================================
``before`` rows         the wrapper's own; row 0 is the inverse probability of the last draw
the inner policy's rows its head and its groups of one row per arm
``arm_rows`` groups     the wrapper's own, one row per arm each
======================= ===================================================================

so that the inner kernels find their rows behind one another, and the loss estimates, where there
are any, remain the first group by arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from bothworlds.errors import invalid
from bothworlds.lanes.distributions import fill_weights
from bothworlds.lanes.jit import jit
from bothworlds.lanes.wrap import bound
from bothworlds.policies.base import Array, InnerKernels, Kernels, Policy, Saved, Traits

DRIFT = "one that is not restarted, discounted or alarmed itself"
"""Requirement on a policy inside one of the wrappers for drift."""
ALONE = "one without shares, a floor and alarms of its own"
"""Requirement on a policy inside any wrapper."""

rows: tuple[int, int] = (0, 0)


def weights_in_rows(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Write the weights which a policy's choice left in a group of rows, normalised."""
    fill_weights(K, S, rows[0] + rows[1] * K, out)


@jit
def near_none(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Mark no arm."""


def weights_of(parts: InnerKernels) -> Any:
    """Return the kernel that writes a policy's distribution, or None if it knows none."""
    if isinstance(parts.weights, tuple):
        return bound(weights_in_rows, rows=parts.weights)
    return parts.weights


def kernels_around(
    kernels: Kernels,
    *,
    choose: Any,
    update: Any,
    weights: Any,
    late: Any,
    asked: Any,
    answered: Any,
    changing: Any,
    wide: bool,
    **names: Any,
) -> Kernels:
    """Return the kernels of a wrapper: its templates, bound to a policy's kernels.

    The templates call the policy's kernels ``choose_inner``, ``weights_inner`` (which also marks
    the near arms) and ``hook_inner``. ``update`` and ``late`` are bound already, ``late`` to be
    left out where the policy has none; ``names`` is what else the templates call.
    """
    parts = kernels.parts
    assert parts is not None

    def hook(template: Any, part: Any) -> Any:
        return None if part is None else bound(template, hook_inner=part, **names)

    def fill(part: Any) -> Any:
        return None if part is None else bound(weights, weights_inner=part, **names)

    return Kernels.of(
        bound(choose, choose_inner=kernels.choose, **names),
        update,
        fill(weights_of(parts)),
        draws=parts.draws,
        asked=hook(asked, parts.asked),
        answered=hook(answered, parts.answered),
        near=fill(parts.near),
        late=None if parts.late is None else late,
        estimates_changed=hook(changing, parts.estimates_changed),
        write_back=hook(changing, parts.write_back),
        any_draw=parts.any_draw,
        wide=wide,
    )


class Wrapper(Policy):
    """A policy around another one; everything it does not define is that of the other.

    Subclasses are frozen dataclasses with a field ``policy``; in ``__post_init__`` they set their
    traits to what `_around` returns.
    """

    policy: Policy
    before: ClassVar[int] = 0
    """Rows of the wrapper before those of the inner policy."""
    arm_rows: ClassVar[int] = 0
    """Groups of one row per arm behind those of the inner policy."""
    own_head: ClassVar[Mapping[int, Saved]] = {}
    """Rows before the inner policy's that a state file keeps."""
    own_groups: ClassVar[Saved | None] = None
    """How a state file names the numbers of the groups behind the inner policy's."""
    kept_groups: ClassVar[int | None] = None
    """How many of these groups it keeps, the first ones; None for all."""
    for_drift: ClassVar[bool] = True
    """Whether it forgets; only one such wrapper may be put around a policy."""

    @property
    def inner(self) -> Policy:
        """The policy whose kernels it calls."""
        return self.policy

    def _around(self, **changes: Any) -> Traits:
        """Return the traits of the inner policy, with its rows where they are here.

        Parameters
        ----------
        **changes
            Traits in which the wrapper differs from the inner policy.
        """
        inner, before = self.inner.traits, self.before
        skipped = inner.skipped_row
        # Wrappers with rows of their own behind it keep a copy of what is carried.
        copies = range(1, inner.carried_rows + 1 if before > 1 else 1)
        return replace(
            inner,
            unproved=self.traits.unproved,
            needs_horizon=False,
            head_rows=before + inner.head_rows,
            rows_per_arm=inner.rows_per_arm + self.arm_rows,
            bandit_rows=(
                *(row for row in copies if row in inner.bandit_rows),
                *(row + before for row in inner.bandit_rows),
            ),
            skipped_row=None if skipped is None else before + skipped,
            saved_head={
                **self.own_head,
                **{row + before: saved for row, saved in inner.saved_head.items()},
            },
            **changes,
        )

    def own_numbers(self, n_arms: int) -> Array:
        """Return the wrapper's parameters, which come before the policy's."""
        return np.zeros(0)

    def inner_round(self, t: int, head: Array) -> int:
        """Return the inner policy's round in round ``t``."""
        return t

    def parameters(self, n_arms: int) -> Array:
        """Return the wrapper's parameters, then the policy's."""
        return np.concatenate([self.own_numbers(n_arms), self.inner.parameters(n_arms)])

    def start(self, n_arms: int) -> Array:
        """Return the policy's first state between rows of zeros."""
        own = np.zeros(self.before), np.zeros(self.arm_rows * n_arms)
        return np.concatenate([own[0], self.inner.start(n_arms), own[1]])

    @property
    def _kept(self) -> int:
        return self.arm_rows if self.kept_groups is None else self.kept_groups

    def _parts(self, n_arms: int, state: Array) -> tuple[Array, Array, Array]:
        """Cut a state, or one column per repetition, into the three parts."""
        behind = state.shape[0] - self.arm_rows * n_arms
        return state[: self.before], state[self.before : behind], state[behind:]

    def saved_shape(self, n_arms: int) -> dict[str, tuple[Saved, int | None]]:
        """Return the content of the policy and the wrapper in a state file."""
        own: dict[str, tuple[Saved, int | None]] = {
            saved.name: (saved, None) for saved in self.own_head.values()
        }
        if self.own_groups is not None:
            own[self.own_groups.name] = (self.own_groups, self._kept * n_arms)
        return {**self.inner.saved_shape(n_arms), **own}

    def saved_state(self, n_arms: int, state: Array) -> dict[str, Array]:
        """Return the content of the policy and the wrapper in a state file."""
        head, middle, groups = self._parts(n_arms, state)
        own = {saved.name: head[row : row + 1] for row, saved in self.own_head.items()}
        if self.own_groups is not None:
            own[self.own_groups.name] = groups[: self._kept * n_arms]
        return {**self.inner.saved_state(n_arms, middle), **own}

    def state_from(self, n_arms: int, saved: Mapping[str, Array]) -> Array:
        """Return the policy's state between the wrapper's rows."""
        head = np.zeros(self.before)
        for row, kept in self.own_head.items():
            head[row] = saved[kept.name][0]
        groups = np.zeros(self.arm_rows * n_arms)
        if self.own_groups is not None:
            groups[: self._kept * n_arms] = saved[self.own_groups.name]
        return np.concatenate([head, self.inner.state_from(n_arms, saved), groups])

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether wrapper and policy could continue."""
        head, middle, groups = self._parts(n_arms, state)
        own = [(head[row], kept) for row, kept in self.own_head.items()]
        if self.own_groups is not None:
            own.append((groups[: self._kept * n_arms], self.own_groups))
        return all(_within(*each) for each in own) and self.inner.sound(n_arms, middle)

    def estimated(self, rows: Array) -> Array:
        """Return the policy's estimates."""
        return self.inner.estimated(rows)

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return the policy's numbers for a new arm, and zeros for the wrapper's."""
        theirs = head[self.before :], rows[: self.inner.traits.rows_per_arm]
        column = self.inner.newcomer(*theirs, self.inner_round(t, head), probability)
        return np.concatenate([column, np.zeros(self.arm_rows)])

    def missing(self, rows: Array, kept: Sequence[int]) -> str:
        """Return the missing requirements of the policy."""
        return self.inner.missing(rows[: self.inner.traits.rows_per_arm], kept)

    def rehearse(self, n_arms: int, name: str, horizon: int) -> None:
        """Rehearse the policy."""
        self.inner.rehearse(n_arms, name, horizon)


def _within(values: Array, kept: Saved) -> bool:
    """Tell whether numbers are such as a state file may have."""
    inside = (values >= kept.low) & (values <= kept.high)
    return bool(inside.all() and (not kept.whole or (values == np.floor(values)).all()))


def checked_policy(policy: object, owner: str, estimates: bool = False) -> Policy:
    """Read the policy that one of the wrappers for drift is put around."""
    known = isinstance(policy, Policy) and policy.traits.kind == "bandit"
    if not known or policy.kernels().parts is None:  # type: ignore[attr-defined]
        raise invalid("policy", owner, "a policy such as TsallisINF()", policy)
    assert isinstance(policy, Policy)
    if not policy.traits.wrappable:
        raise invalid("policy", owner, ALONE, policy)
    inside: Any = policy
    while isinstance(inside, Wrapper):
        if inside.for_drift:
            raise invalid("policy", owner, DRIFT, policy)
        inside = inside.policy
    if estimates and not policy.traits.estimates:
        expected = "one with cumulative loss estimates, such as TsallisINF() or Exp3()"
        raise invalid("policy", owner, expected, policy)
    return policy
