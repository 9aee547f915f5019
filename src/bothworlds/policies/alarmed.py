"""Drift alarm around any policy: a change test on every arm's losses, and a restart when it sounds.

======== ==========================================================================
``t_0``  the round of the last restart; the policy takes t - t_0 for its round
``e``    the floor: arms are drawn from (1 - e) w + e / K, so that no arm is forgotten
======== ==========================================================================

`bothworlds.policies.alarm` has the test.  A restart gives all arms the policy's first state and
forgets all observed losses.  Feedback on decisions from before a restart teaches nothing any more.

Rows: inverse probability and what the policy carries, copied; t_0, the last round decided, the
number of alarms; then the policy's; then by arm the numbers of the test.

README:

| `Alarmed(TsallisINF())` | for best arms that move: measured, not proved | likewise | Besson et
al. 2022, on the alarm |
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bothworlds.arguments import flag, keep, number, share
from bothworlds.errors import InvalidParameter, invalid
from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import (
    advance,
    any_lane,
    gather,
    lane,
    load,
    maximum,
    select,
    splat,
    store,
    stride,
    to_int,
    width,
)
from bothworlds.lanes.wrap import bound
from bothworlds.policies.alarm import (
    COUNT,
    FIELDS,
    SUM,
    change_beyond,
    observe,
    silence,
    suspected,
    threshold,
)
from bothworlds.policies.around import Wrapper, checked_policy, kernels_around
from bothworlds.policies.base import Array, Kernels, Policy, Saved, Traits
from bothworlds.policies.floor import Floor
from bothworlds.policies.restarted import copied, handed_back
from bothworlds.policies.tsallis_inf import TsallisINF

# Parameters: log(2 K / delta), whether an alarm restarts, how many rows the policy has, their first
# values; then the policy's parameters.
LOG_FACTOR, RESTART, ROWS, FIRST = 0, 1, 2, 3

DEFAULT = TsallisINF()

# What the templates call; filled in by `bound`. ``shape``: the rows before the policy's, and how
# many of the policy's head rows after row 0 are copied.
choose_inner: Any = None
update_inner: Any = None
weights_inner: Any = None
late_inner: Any = None
hook_inner: Any = None
shape: tuple[int, int] = (0, 0)

# The wrapper's own rows, from the policy's first row back.
ORIGIN, LATEST, ALARMS = 3, 2, 1


@jit
def inner_numbers(C: Any) -> Any:
    """Return the policy's parameters."""
    return advance(C, FIRST + int(C[ROWS]))


@jit
def inner_round(t: int, S: Any, before: int, like: Any) -> Any:
    """Return the round since the last restart, at least 1, of every lane."""
    return to_int(maximum(float(t) - load(S, before - ORIGIN, like), 1.0))


@jit
def is_past(t: int, S: Any, before: int, like: Any) -> Any:
    """Tell whether there was a restart since round t; a tile's feedback is never so late."""
    return any_lane(load(S, before - ORIGIN, like) >= t)


@jit
def listen(K: int, t: int, C: Any, S: Any, before: int, arm: Any, loss: Any) -> None:
    """Add the loss to its arm's sequence, and restart where its mean has changed."""
    first = before + int(C[ROWS])
    lanes = stride(loss)
    for k in range(width(loss)):
        observe(S, (first + lane(arm, k)) * lanes + k, K * lanes, lane(loss, k))
    N = gather(S, first + COUNT * K, arm)
    total = gather(S, first + SUM * K, arm)
    limit = threshold(C[LOG_FACTOR], N)
    sure = suspected(S, first, K, arm, N, total, limit)
    if any_lane(sure):
        flags = select(sure, 1.0, splat(0.0, loss))
        for k in range(width(loss)):
            at = (first + lane(arm, k)) * lanes + k
            if lane(flags, k) > 0.0:
                found, _ = change_beyond(S, at, K * lanes, lane(limit, k))
                if found > 0.0:
                    sound(K, t, C, S, before, lanes, k, at)


@jit
def sound(K: int, t: int, C: Any, S: Any, before: int, lanes: int, k: int, at: int) -> None:
    """Count an alarm of lane k, whose arm's numbers are at ``at``, and act on it."""
    rows = int(C[ROWS])
    S[(before - ALARMS) * lanes + k] += 1.0
    if C[RESTART] == 0.0:
        silence(S, at, K * lanes)
        return
    for row in range(rows):
        S[(before + row) * lanes + k] = C[FIRST + row]
    latest = S[(before - LATEST) * lanes + k]
    S[(before - ORIGIN) * lanes + k] = max(latest, float(t))
    for i in range(K):
        silence(S, (before + rows + i) * lanes + k, K * lanes)


def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Let the policy choose."""
    store(S, shape[0] - LATEST, splat(float(t), u))
    now = inner_round(t, S, shape[0], u)
    inner = advance(S, shape[0] * stride(u))
    arm = choose_inner(K, now, inner_numbers(C), inner, G, u)
    copied(S, shape[0], shape[1], u)
    return arm


def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Let the policy learn and the alarm listen, unless there was a restart since."""
    if is_past(t, S, shape[0], loss):
        return
    handed_back(S, shape[0], shape[1], loss)
    now = inner_round(t, S, shape[0], loss)
    inner = advance(S, shape[0] * stride(loss))
    update_inner(K, now, inner_numbers(C), inner, G, arm, inverse_p, loss)
    listen(K, t, C, S, shape[0], arm, loss)


def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Write the policy's distribution, or its marks."""
    now = inner_round(t, S, shape[0], 0.0)
    weights_inner(K, now, inner_numbers(C), advance(S, shape[0]), G, out)


def late(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Learn from a decision that is no longer the last one, unless there was a restart since."""
    if is_past(t, S, shape[0], 0.0):
        return
    now = inner_round(t, S, shape[0], 0.0)
    late_inner(K, now, inner_numbers(C), advance(S, shape[0]), G, arm, inverse_p, loss, near)
    listen(K, t, C, S, shape[0], arm, loss)


def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Let the policy know of a decision."""
    now = inner_round(t, S, shape[0], 0.0)
    hook_inner(K, now, inner_numbers(C), advance(S, shape[0]), G, arm)
    copied(S, shape[0], shape[1], 0.0)


def answered(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Let the policy know of an answer, unless there was a restart since the decision."""
    if not is_past(t, S, shape[0], 0.0):
        now = inner_round(t, S, shape[0], 0.0)
        hook_inner(K, now, inner_numbers(C), advance(S, shape[0]), G, arm)


def changing(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Change the policy's state."""
    now = inner_round(t, S, shape[0], 0.0)
    hook_inner(K, now, inner_numbers(C), advance(S, shape[0]), G)


@functools.cache
def alarmed(kernels: Kernels, shape: tuple[int, int]) -> Kernels:
    """Return the kernels of a policy with an alarm."""
    parts = kernels.parts
    assert parts is not None
    every_lane = parts.in_lanes is not None and parts.in_lanes.each_round
    return kernels_around(
        kernels,
        choose=choose,
        update=bound(update, update_inner=kernels.update, shape=shape),
        weights=weights,
        late=parts.late and bound(late, late_inner=parts.late, shape=shape),
        asked=asked,
        answered=answered,
        changing=changing,
        wide=kernels.wide and every_lane,
        shape=shape,
    )


@dataclass(frozen=True, repr=False)
class Alarmed(Wrapper):
    """A policy that restarts when the losses of an arm have changed.

    Every arm's own losses are tested for a change of their mean; when the alarm sounds, the policy
    and all tests start again. The floor keeps every arm in view: without it only a worsening of
    arms that are played is noticed. To notice that an arm has improved by D takes about
    (K / floor) log(1 / delta) / (2 D^2) rounds, delta = 1 - confidence.

    For worlds in which the best arm moves now and then. The alarm also detects changes of level
    that are common to all arms, where the gaps stay and a restart only forgets: against the
    paper's stochastically constrained adversary a restarting alarm has four times the regret of
    the policy itself, so there take the policy alone, or ``restart=False``, which only counts.

    That a false alarm in a whole run has probability of about delta is argued, by a union over
    arms, numbers of losses and cuts, and not proved; no regret theorem covers the wrapper.

    Parameters
    ----------
    policy : Policy, default TsallisINF()
        One that draws its arms and knows the probability of each; with floor 0 any policy.
    floor : float, default 0.02
        The arm is drawn from (1 - floor) w + floor / K, w the policy's own distribution.
    confidence : float, default 0.99
        Confidence that an alarm requires, in (0, 1]; at 1 no alarm ever sounds.
    restart : bool, default True
        Whether an alarm restarts the policy; otherwise it is counted, and its arm's test starts
        again.

    Examples
    --------
    >>> import bothworlds as bw
    >>> bandit = bw.Bandit(bw.Alarmed(bw.TsallisINF()), arms=["a", "b"], seed=7)
    >>> for t in range(2000):
    ...     decision = bandit.ask()
    ...     bandit.tell(decision, loss=float((decision.arm == "a") == (t >= 1000)))
    >>> bandit.probabilities()["b"] > 0.9
    True

    References
    ----------
    Besson, Kaufmann, Maillard and Seznec, *Efficient Change-Point Detection for Tackling
    Piecewise-Stationary Bandits*, JMLR 23, 2022: the test.
    """

    policy: Policy = DEFAULT
    floor: float = 0.02
    confidence: float = 0.99
    restart: bool = True

    traits: ClassVar[Traits] = Traits(
        unproved="its false-alarm probability is argued and its regret measured, neither is proved"
    )
    arm_rows: ClassVar[int] = FIELDS
    own_groups: ClassVar[Saved | None] = Saved("alarm_sums", low=0.0, high=2.0**53)

    def __post_init__(self) -> None:
        owner = "Alarmed"
        policy = checked_policy(self.policy, owner)
        if policy.traits.unbounded:
            expected = "one for losses in [0, 1], which the change test needs"
            raise invalid("policy", owner, expected, policy)
        floor = share("floor", self.floor, owner)
        sure = number("confidence", self.confidence, owner, 1e-300, 1.0, "a number in (0, 1]")
        restart = flag("restart", self.restart, owner)
        keep(self, policy=policy, floor=floor, confidence=sure, restart=restart)
        try:
            inner = policy if floor == 0.0 else Floor(policy, floor, 0.0)
        except InvalidParameter:
            expected = "one that draws from known probabilities, or else floor=0"
            raise invalid("policy", owner, expected, policy) from None
        # Copies of the inverse probability and of what is carried, and three numbers: the round of
        # the last restart, the last round decided, the number of alarms.
        before = inner.traits.carried_rows + 4
        names = ((ORIGIN, "restarted"), (LATEST, "latest"), (ALARMS, "alarms"))
        head = {before - row: Saved(name, low=0.0, high=2.0**53, whole=True) for row, name in names}
        keep(self, _inner=inner, before=before, own_head=head)
        keep(self, traits=self._around(order_invariant=False))

    def __repr__(self) -> str:
        shown = repr(self.policy)
        for name, usual in (("floor", 0.02), ("confidence", 0.99), ("restart", True)):
            value = getattr(self, name)
            shown += "" if value == usual else f", {name}={value!r}"
        return f"Alarmed({shown})"

    @property
    def inner(self) -> Policy:
        """The policy above its floor."""
        inner: Policy = vars(self)["_inner"]
        return inner

    def own_numbers(self, n_arms: int) -> Array:
        """Return log(2 K / delta), whether alarms restart, and the policy's first state."""
        delta = 1.0 - self.confidence
        factor = math.log(2.0 * n_arms / delta) if delta > 0.0 else math.inf
        first = self.inner.start(n_arms)
        return np.concatenate([[factor, float(self.restart), first.size], first])

    def inner_round(self, t: int, head: Array) -> int:
        """Return the round since the last restart."""
        return max(t - int(head[self.before - ORIGIN]), 1)

    def sound(self, n_arms: int, state: Array) -> bool:
        """Tell whether the policy could continue and losses are counted by whole numbers."""
        counts = self._parts(n_arms, state)[2][COUNT * n_arms : (COUNT + 1) * n_arms]
        return bool((counts == np.floor(counts)).all()) and super().sound(n_arms, state)

    def kernels(self) -> Kernels:
        """Return the policy's kernels with an alarm."""
        return alarmed(self.inner.kernels(), (self.before, self.inner.traits.carried_rows))
