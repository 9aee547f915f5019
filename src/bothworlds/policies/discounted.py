"""Discounting of older estimates, around any policy with cumulative loss estimates.

======== ==========================================================================
``W``    the window
``L_i``  cumulative loss estimate of arm i
``t'``   min(t, W), what the policy takes for its round: its learning rate stops falling
======== ==========================================================================

Before the estimates of a round are added, L_i = (1 - 1/W) (L_i - min L).  Which arms get a baseline
is judged before that.  A prediction of the next loss that a policy adds to L_i does not shrink.

The state is the policy's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bothworlds.arguments import keep, positive
from bothworlds.errors import invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import advance
from bothworlds.lanes.wrap import bound
from bothworlds.omd.recentring import least
from bothworlds.policies.around import Wrapper, checked_policy, kernels_around, near_none
from bothworlds.policies.base import Array, Kernels, Policy, Traits
from bothworlds.policies.tsallis_inf import TsallisINF

# Parameters: the window, what remains of an estimate, where the estimates are, which group of rows
# is a prediction in them (0 for none); then the policy's.
WINDOW, RETAINED, ESTIMATES, PREDICTED, OWN_NUMBERS = 0, 1, 2, 3, 4

DEFAULT = TsallisINF()

# What the templates call; filled in by `bound` for each policy.
choose_inner: Any = None
update_inner: Any = None
weights_inner: Any = None
near_inner: Any = None
late_inner: Any = None
fading_inner: Any = None
hook_inner: Any = None
changed_inner: Any = None


@jit
def nothing_changed(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Stand for a policy whose solver starts from nothing in every round."""


@jit
def windowed(t: int, C: Any) -> int:
    """Return t'."""
    return int(min(float(t), C[WINDOW]))


@jit
def discount(K: int, C: Any, S: Any) -> None:
    """L_i = (1 - 1/W) (L_i - min L)."""
    first = int(C[ESTIMATES])
    group = K * int(C[PREDICTED])
    if group > 0:
        for i in range(first, first + K):
            S[i] -= S[i + group]
    low = least(K, S, first, 0.0)
    for i in range(first, first + K):
        S[i] = C[RETAINED] * (S[i] - low)
        if group > 0:
            S[i] += S[i + group]


def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Let the policy choose at the rate of the window."""
    return choose_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G, u)


def update_fading(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Let the policy forget a little and learn."""
    now = windowed(t, C)
    own = advance(C, OWN_NUMBERS)
    fading_inner(K, now, own, S, G, arm, inverse_p, loss, C[RETAINED])


def update(K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float) -> None:
    """Forget a little, then let the policy learn."""
    discount(K, C, S)
    update_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G, arm, inverse_p, loss)
    changed_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G)


def update_then_forget(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """Let the policy learn from its estimates, and subtract the faded part."""
    first = int(C[ESTIMATES])
    faded = np.empty(K)
    for i in range(K):
        faded[i] = S[first + i]
    discount(K, C, S)
    for i in range(K):
        faded[i], S[first + i] = S[first + i] - faded[i], faded[i]
    update_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G, arm, inverse_p, loss)
    for i in range(K):
        S[first + i] += faded[i]
    changed_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G)


def update_with_near(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """See which arms are near, forget a little, then let the policy learn."""
    near = np.zeros(K, np.bool_)
    near_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G, near)
    discount(K, C, S)
    late_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G, arm, inverse_p, loss, near)


def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Write the policy's distribution, or its marks."""
    weights_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G, out)


def late(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Forget a little, then learn from a decision that is no longer the last one."""
    discount(K, C, S)
    late_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G, arm, inverse_p, loss, near)
    changed_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G)


def of_an_arm(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Let the policy know of a decision or an answer."""
    hook_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G, arm)


def changing(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Change the policy's state."""
    hook_inner(K, windowed(t, C), advance(C, OWN_NUMBERS), S, G)


@functools.cache
def discounted(kernels: Kernels) -> Kernels:
    """Return the kernels of a policy that forgets."""
    parts = kernels.parts
    assert parts is not None
    changed = parts.estimates_changed or nothing_changed
    fading = None if parts.in_lanes is None else parts.in_lanes.fading
    if fading is not None:
        learn = bound(update_fading, fading_inner=fading)
    elif parts.any_draw:
        learn = bound(update_then_forget, update_inner=kernels.update, changed_inner=changed)
    elif parts.late is None:
        learn = bound(update, update_inner=kernels.update, changed_inner=changed)
    else:
        near = near_none if parts.near is None else parts.near
        learn = bound(update_with_near, late_inner=parts.late, near_inner=near)
    return kernels_around(
        kernels,
        choose=choose,
        update=learn,
        weights=weights,
        late=parts.late and bound(late, late_inner=parts.late, changed_inner=changed),
        asked=of_an_arm,
        answered=of_an_arm,
        changing=changing,
        wide=kernels.wide and fading is not None,
    )


@dataclass(frozen=True, repr=False)
class Discounted(Wrapper):
    """A policy whose old loss estimates fade, for arms that change slowly.

    Before a round's estimates are added, all others shrink by the factor 1 - 1/window, and the
    learning rate stops falling after ``window`` rounds. No theorem covers it; in measurements it
    did about as well as `Restarted` where the best arm moved, and cost less where nothing did.

    Parameters
    ----------
    policy : Policy, default TsallisINF()
        One with cumulative loss estimates, such as `TsallisINF` or `Exp3`.
    window : float, default 1000
        How many rounds are remembered, larger than 1.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.Discounted(bw.TsallisINF(), window=100), arms=["a", "b"], seed=7)
    >>> for t in range(400):
    ...     decision = bandit.ask()
    ...     bandit.tell(decision, loss=float((decision.arm == "a") == (t >= 200)))
    >>> bandit.probabilities()["b"] > 0.8
    True
    """

    policy: Policy = DEFAULT
    window: float = 1000.0

    traits: ClassVar[Traits] = Traits(unproved="no theorem covers discounted estimates")

    def __post_init__(self) -> None:
        policy = checked_policy(self.policy, "Discounted", estimates=True)
        window = positive("window", self.window, "Discounted", "a number larger than 1")
        if window <= 1.0:
            raise invalid("window", "Discounted", "a number larger than 1", window)
        keep(self, policy=policy, window=window)
        retained = 1.0 - 1.0 / window
        keep(self, traits=self._around(order_invariant=False, recentres=True, retained=retained))

    def __repr__(self) -> str:
        return f"Discounted({self.policy!r}, window={self.window!r})"

    def own_numbers(self, n_arms: int) -> Array:
        """Return the window, the remaining share of an estimate, and their places."""
        window = min(self.window, 2.0**53)
        inner = self.policy.traits
        return np.array([window, self.traits.retained, inner.head_rows, inner.predicted])

    def parameters(self, n_arms: int) -> Array:
        """Return the wrapper's parameters, then the policy's, which may need to know of it."""
        numbers = super().parameters(n_arms)
        if self.policy.kernels().opens:
            numbers[-1] = 1.0
        return numbers

    def inner_round(self, t: int, head: Array) -> int:
        """Return the round the policy's learning rate is taken at."""
        return int(min(t, self.window))

    def kernels(self) -> Kernels:
        """Return the policy's kernels with discounting."""
        return discounted(self.policy.kernels())
