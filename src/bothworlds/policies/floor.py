"""Exploration floor around any policy that draws its arms and knows their probabilities.

======== ==========================================================================
``w``    what the policy itself would draw from
e_t      min(1, scale t^-power)
``w'``   (1 - e_t) w + e_t / K, what the arm is drawn from
======== ==========================================================================

Estimates are weighted by 1 / w', which is also what decisions and logs carry; which arms are near,
and so get a baseline under reduced variance, is judged by w.  One uniform number serves both: below
e_t it picks an arm evenly, above it is stretched and handed to the policy.  The policy chooses in
either case, because its step yields the w of the arm that is played.

With shares of arms, w' is limited as in `bothworlds.policies.shares` before the arm is drawn.

Rows: inverse probability by w', then the rows of the policy; with shares their groups by arm.

README:

| `Floor(TsallisINF())` | that of the policy and order T^(2/3) more, for sound intervals | likewise
| Hadad et al. 2021, on the intervals |
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

import numpy as np

from bothworlds.arguments import Arm, is_number, keep, non_negative, share
from bothworlds.errors import invalid
from bothworlds.lanes.distributions import draw_arm
from bothworlds.lanes.functions import exp, log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.rows import take
from bothworlds.lanes.vectors import (
    advance,
    any_lane,
    load,
    minimum,
    select,
    splat_int,
    store,
    stride,
    to_float,
    to_int,
)
from bothworlds.lanes.wrap import bound
from bothworlds.policies import shares
from bothworlds.policies.around import ALONE, Wrapper, near_none, weights_of
from bothworlds.policies.base import Array, Kernels, LaneKernels, Policy, Program, Saved
from bothworlds.policies.shares import GROUPS, HIGH, KEPT, LOW, OWN, P, Shares, limit
from bothworlds.policies.tsallis_inf import TsallisINF

OWN_ROWS = 1
SCALE, POWER, OWN_NUMBERS = 0, 1, 2

DEFAULT = TsallisINF()
SAVED = Saved("shares", low=0.0, high=1.0)
"""The shares of the arms in a state file: all smallest ones, then all largest ones."""

# What the templates call; filled in by `bound` for each policy.
choose_inner: Any = None
update_inner: Any = None
weights_inner: Any = None
weight_inner: Any = None
fading_inner: Any = None
near_inner: Any = None
late_inner: Any = None
hook_inner: Any = None
fill_inner: Any = None
before: tuple[int, int] = (0, 0)
"""Rows of one bandit before the shares: those of the head, and how many for each arm."""


@jit
def explored(t: Any, C: Any) -> Any:
    """Return e_t, in every lane its own where t has lanes."""
    return minimum(C[SCALE] * exp(-C[POWER] * log(to_float(t))), 1.0)


@jit
def mixed(K: int, e: Any, w: Any) -> Any:
    """Return w'."""
    return (1.0 - e) * w + e / K


def own_weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Write the policy's own distribution w."""
    weights_inner(K, t, advance(C, OWN_NUMBERS), advance(S, OWN_ROWS), G, out)


# --- kernels ----------------------------------------------------------------------------------


def own_weight(K: int, t: Any, C: Any, S: Any, G: Any, arm: Any) -> Any:
    """Return the policy's own w of an arm."""
    inner = advance(S, OWN_ROWS * stride(arm))
    return weight_inner(K, t, advance(C, OWN_NUMBERS), inner, G, arm)


def one_of_own_weights(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> Any:
    """Return the policy's own w of an arm, of a policy that writes all of them."""
    w = np.empty(K)
    weights_inner(K, t, C, S, G, w)
    return w[arm]


def choose(K: int, t: Any, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw from w'."""
    e = explored(t, C)
    evenly = u < e
    v = select(evenly, u / e, (u - e) / (1.0 - e))
    # Division may round up to 1.
    v = minimum(v, 1.0 - 2.0**-52)
    inner = advance(S, OWN_ROWS * stride(u))
    arm = choose_inner(K, t, advance(C, OWN_NUMBERS), inner, G, v)
    if any_lane(arm < 0):  # a user's policy that has failed
        return arm
    p = (1.0 - e) / load(inner, 0, u) + e / K
    if any_lane(evenly):
        even = to_int(v * float(K))
        w = weight_inner(K, t, C, S, G, even)
        p = select(evenly, mixed(K, e, w), p)
        # The policy's own inverse probability is that of the arm that is played.
        store(inner, 0, select(evenly, 1.0 / w, load(inner, 0, u)))
        arm = select(evenly, even, arm)
    store(S, 0, 1.0 / p)
    return arm


def own_rows(K: int, t: Any, C: Any, S: Any, G: Any, first: int, u: Any) -> None:
    """Write the policy's own w into the rows from ``first`` on, lane by lane."""
    for i in range(K):
        store(S, first + i, weight_inner(K, t, C, S, G, splat_int(i, u)))


def own_rows_alone(K: int, t: int, C: Any, S: Any, G: Any, first: int, u: float) -> None:
    """Write the policy's own w into the rows from ``first`` on."""
    weights_inner(K, t, C, S, G, advance(S, first))


def choose_within(K: int, t: Any, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw from w' within the shares of the arms."""
    inner = advance(S, OWN_ROWS * stride(u))
    # The policy's own draw yields w; the arm is drawn with the same number from what w becomes.
    arm = choose_inner(K, t, advance(C, OWN_NUMBERS), inner, G, u)
    if any_lane(arm < 0):  # a user's policy that has failed
        return arm
    first = before[0] + before[1] * K
    fill_inner(K, t, C, S, G, first + OWN * K, u)
    e = explored(t, C)
    for i in range(K):
        store(S, first + P * K + i, mixed(K, e, load(S, first + OWN * K + i, u)))
    total = limit(K, S, first, u)
    arm, p = draw_arm(K, S, first + P * K, total, u)
    store(inner, 0, 1.0 / take(S, first + OWN * K, K, arm))
    store(S, 0, 1.0 / p)
    return arm


def weights_within(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Write the distribution of the last draw."""
    first = before[0] + before[1] * K + P * K
    for i in range(K):
        out[i] = S[first + i]


def update(K: int, t: Any, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Let the policy learn with 1 / w'."""
    inner = advance(S, OWN_ROWS * stride(loss))
    update_inner(K, t, advance(C, OWN_NUMBERS), inner, G, arm, inverse_p, loss)


def fading(
    K: int, t: Any, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any, retained: float
) -> None:
    """Let the policy forget a little, and learn with 1 / w'."""
    inner = advance(S, OWN_ROWS * stride(loss))
    fading_inner(K, t, advance(C, OWN_NUMBERS), inner, G, arm, inverse_p, loss, retained)


def weight(K: int, t: Any, C: Any, S: Any, G: Any, arm: Any) -> Any:
    """Return w' of an arm."""
    return mixed(K, explored(t, C), weight_inner(K, t, C, S, G, arm))


def update_with_near(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float
) -> None:
    """Let the policy learn with 1 / w', and with baselines where w is large."""
    near = np.zeros(K, np.bool_)
    near_inner(K, t, C, S, G, near)
    late_inner(K, t, advance(C, OWN_NUMBERS), advance(S, OWN_ROWS), G, arm, inverse_p, loss, near)


def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Write w'."""
    weights_inner(K, t, C, S, G, out)
    e = explored(t, C)
    for i in range(K):
        out[i] = mixed(K, e, out[i])


def near(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """Mark the arms that are near by w."""
    near_inner(K, t, advance(C, OWN_NUMBERS), advance(S, OWN_ROWS), G, out)


def late(
    K: int, t: int, C: Any, S: Any, G: Any, arm: int, inverse_p: float, loss: float, near: Any
) -> None:
    """Learn from a decision that is no longer the last one."""
    late_inner(K, t, advance(C, OWN_NUMBERS), advance(S, OWN_ROWS), G, arm, inverse_p, loss, near)


def of_an_arm(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Let the policy know of a decision or an answer."""
    hook_inner(K, t, advance(C, OWN_NUMBERS), advance(S, OWN_ROWS), G, arm)


def changing(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Change the policy's state."""
    hook_inner(K, t, advance(C, OWN_NUMBERS), advance(S, OWN_ROWS), G)


@functools.cache
def floored(kernels: Kernels, before: tuple[int, int] | None = None) -> Kernels:
    """Return the kernels of a policy with a floor, and with shares behind this many rows."""
    parts = kernels.parts
    assert parts is not None
    own = bound(own_weights, weights_inner=weights_of(parts))
    marked = near_none if parts.near is None else bound(near, near_inner=parts.near)

    def hook(template: Any, part: Any) -> Any:
        return None if part is None else bound(template, hook_inner=part)

    theirs = parts.in_lanes
    one: Any
    lanes = None
    if theirs is not None:
        one = bound(own_weight, weight_inner=theirs.weight)
        learn = bound(update, update_inner=theirs.learn)
        fade = theirs.fading and bound(fading, fading_inner=theirs.fading)
        lanes = LaneKernels(bound(weight, weight_inner=one), learn, fade, theirs.each_round)
    else:
        one = bound(one_of_own_weights, weights_inner=own)
        if parts.late is None or parts.any_draw:
            learn = bound(update, update_inner=kernels.update)
        else:
            learn = bound(update_with_near, late_inner=parts.late, near_inner=marked)
    if before is None:
        draw = bound(choose, choose_inner=kernels.choose, weight_inner=one)
        filled = bound(weights, weights_inner=own)
    else:
        fill = (
            bound(own_rows_alone, weights_inner=own)
            if theirs is None
            else bound(own_rows, weight_inner=one)
        )
        draw = bound(choose_within, choose_inner=kernels.choose, fill_inner=fill, before=before)
        filled, lanes = bound(weights_within, before=before), None
    return Kernels.of(
        draw,
        learn,
        filled,
        asked=hook(of_an_arm, parts.asked),
        answered=hook(of_an_arm, parts.answered),
        near=None if parts.near is None else marked,
        late=None if parts.late is None else bound(late, late_inner=parts.late),
        estimates_changed=hook(changing, parts.estimates_changed),
        write_back=hook(changing, parts.write_back),
        any_draw=parts.any_draw,
        in_lanes=lanes,
        wide=kernels.wide and theirs is not None,
    )


@dataclass(frozen=True, repr=False)
class Floor(Wrapper):
    """A policy whose arms keep a floor of probability, and shares of the traffic.

    The arm is drawn from (1 - e) w + e / K, e = min(1, scale t^-power) and w the policy's own
    distribution. With scale 1/2 and power 1/3 the intervals of `Bandit.report` are sound; a
    constant floor, power 0, also notices arms that become better. With scale 0 and no shares it is
    the policy itself.

    The regret grows by at most the sum of e times the mean gap, about 0.75 scale T^(2/3) of it at
    power 1/3.

    Shares limit this distribution before the draw, so the probability of a decision stays exact.
    The smallest shares are mixed with it; what exceeds a largest share goes to the arms below
    theirs, in proportion to their probabilities. A smallest share costs about its arm's gap
    times the share in every round; a largest share below 1 of the best arm costs as well.

    Parameters
    ----------
    policy : Policy, default TsallisINF()
        One that draws its arms and knows the probability of each, such as `TsallisINF` or `Exp3`.
    scale : float, default 0.5
        Height of the floor, >= 0.
    power : float, default 1/3
        How fast it falls, in [0, 1].
    min_share, max_share : float, sequence of float or mapping, default 0 and 1
        Smallest and largest probability: of every arm, of each in order, or by the names of arms.
        An arm that is added later has those of every arm; where each has its own, 0 and 1.
    control : int or str, optional
        Place or name of an arm whose probability is fixed. `Bandit.ask` needs it among the
        available arms.
    control_share : float, default 0.1
        That probability.

    Examples
    --------
    >>> import bothworlds as bw
    >>> policy = bw.Floor(bw.TsallisINF(), 0.5)
    >>> bandit = bw.Bandit(policy, arms=["blue", "green"], seed=7)
    >>> for _ in range(1000):
    ...     bandit.tell(bandit.ask(), reward=0.0)
    >>> min(bandit.probabilities().values()) >= 0.5 * 1001 ** (-1 / 3) / 2
    True
    >>> bw.Floor(bw.TsallisINF(), 0)
    TsallisINF()
    >>> policy = bw.Floor(bw.TsallisINF(), 0, max_share={"green": 0.2}, control="control")
    >>> bandit = bw.Bandit(policy, arms=["control", "blue", "green"], seed=7)
    >>> {arm: round(p, 3) for arm, p in bandit.probabilities().items()}
    {'control': 0.1, 'blue': 0.7, 'green': 0.2}

    References
    ----------
    Hadad, Hirshberg, Zhan, Wager and Athey, *Confidence intervals for policy evaluation in
    adaptive experiments*, PNAS 118(15), 2021: why probabilities must not vanish.
    """

    policy: Policy = DEFAULT
    scale: float = 0.5
    power: float = 1.0 / 3.0
    min_share: float | Sequence[float] | Mapping[Arm, float] = 0.0
    max_share: float | Sequence[float] | Mapping[Arm, float] = 1.0
    control: Arm | None = None
    control_share: float = 0.1

    for_drift: ClassVar[bool] = False
    before: ClassVar[int] = OWN_ROWS

    def __new__(
        cls,
        policy: Policy = DEFAULT,
        scale: float = 0.5,
        power: float = 1.0 / 3.0,
        min_share: float | Sequence[float] | Mapping[Arm, float] = 0.0,
        max_share: float | Sequence[float] | Mapping[Arm, float] = 1.0,
        control: Arm | None = None,
        control_share: float = 0.1,
    ) -> Any:
        """Return the policy itself where there is neither a floor nor a share."""
        _check(policy)
        low = non_negative("scale", scale, "Floor", "a finite number >= 0")
        share("power", power, "Floor")
        share("control_share", control_share, "Floor")
        if low > 0 or _limited(min_share, max_share, control):
            return super().__new__(cls)
        return policy

    def __post_init__(self) -> None:
        keep(
            self,
            scale=float(self.scale),
            power=float(self.power),
            min_share=shares.checked("min_share", self.min_share, "Floor"),
            max_share=shares.checked("max_share", self.max_share, "Floor"),
            control=shares.checked_control(self.control, "Floor"),
            control_share=float(self.control_share),
        )
        inner, parts = self.policy.traits, self.policy.kernels().parts
        assert parts is not None
        if self.limited:
            given = [each for each in (self.min_share, self.max_share) if isinstance(each, tuple)]
            if not isinstance(self.control, str) and not any(map(shares.is_named, given)):
                for each in given:
                    self.limits(len(each))
            keep(self, arm_rows=GROUPS, kept_groups=KEPT, own_groups=SAVED)
        # Where the policy carries rows, the one before them is carried as well.
        carried = () if not inner.carried_rows else (Saved("inner_inverse_probability", low=0.0),)
        traits = self._around(
            floored=self._is_floored(),
            carried_rows=len(carried) + inner.carried_rows,
            saved_carried=(*carried, *inner.saved_carried),
            # It learns as from late feedback, which recentres the estimates.
            recentres=parts.in_lanes is None and parts.late is not None and not parts.any_draw,
            # A policy around it could not restart with the shares of arms that came later.
            wrappable=inner.wrappable and not self.limited,
            labelled=inner.labelled or self._by_arm,
        )
        keep(self, traits=traits)

    @property
    def limited(self) -> bool:
        """Whether arms have shares."""
        return _limited(self.min_share, self.max_share, self.control)

    @property
    def _by_arm(self) -> bool:
        """Whether arms have different shares."""
        given = (self.min_share, self.max_share)
        return self.control is not None or any(isinstance(each, tuple) for each in given)

    def _is_floored(self) -> bool:
        """Tell whether no probability can vanish."""
        least = shares.values(cast(Shares, self.min_share), 0.0)
        most = shares.values(cast(Shares, self.max_share), 1.0)
        if self.control is not None and self.control_share == 0.0:
            return False
        some_left = self.scale > 0.0 and sum(least) < 1.0 and min(most) > 0.0
        return some_left or min(least) > 0.0

    def limits(self, arms: int | Sequence[Arm]) -> Array:
        """Return the smallest and the largest share of every arm, in two rows.

        Parameters
        ----------
        arms : int or sequence
            The number of arms, whose names are then their places, or their names.

        Raises
        ------
        InvalidParameter
            If there are shares for other arms, or no distribution can have them.

        Examples
        --------
        >>> Floor(min_share=0.1, control=1, control_share=0.2).limits(2)
        array([[0.1, 0.2],
               [1. , 0.2]])
        """
        least, most = cast(Shares, self.min_share), cast(Shares, self.max_share)
        names = range(arms) if isinstance(arms, int) else arms
        return shares.limits(names, least, most, self.control, self.control_share, "Floor")

    def __repr__(self) -> str:
        power = "" if self.power == 1.0 / 3.0 else f", power={self.power!r}"
        further = {
            field.name: getattr(self, field.name)
            for field in fields(self)[3:]
            if getattr(self, field.name) != field.default
        }
        limited = "".join(
            f", {name}={dict(value) if shares.is_named(value) else value!r}"
            for name, value in further.items()
        )
        return f"Floor({self.policy!r}, {self.scale!r}{power}{limited})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def program(self, n_arms: int, *, lanes: bool = False, horizon: int | None = None) -> Program:
        """Return the floor around the kernels that serve one bandit of this many arms."""
        if self.limited:
            return super().program(n_arms)
        inner = self.policy.program(n_arms)

        def start() -> Array:
            """Return the policy's first state behind the row of the floor."""
            return np.concatenate([np.zeros(OWN_ROWS), inner.start()])

        def sound(state: Array) -> bool:
            """Tell whether the policy could continue."""
            return inner.sound(state[OWN_ROWS:])

        return Program.of(
            self, n_arms, floored(inner.kernels), start=start, sound=sound, plain=inner.plain,
            head_rows=OWN_ROWS + inner.head_rows, rows_per_arm=inner.rows_per_arm,
        )  # fmt: skip

    def start(self, n_arms: int) -> Array:
        """Return the policy's first state, with the shares of the arms behind it."""
        first = self.start_of(range(n_arms))
        return super().start(n_arms) if first is None else first

    def start_of(self, names: Sequence[Arm]) -> Array | None:
        """Return the first state of arms with these names."""
        if not self.limited:
            return None
        n_arms = len(names)
        first = super().start(n_arms)
        first[-GROUPS * n_arms :][: KEPT * n_arms] = self.limits(names).ravel()
        return first

    def newcomer(self, head: Array, rows: Array, t: int, probability: float | None) -> Array:
        """Return the policy's numbers for a new arm, and its shares."""
        column = super().newcomer(head, rows, t, probability)
        if self.limited:
            given = (self.min_share, 0.0), (self.max_share, 1.0)
            column[-GROUPS:][:KEPT] = [
                each if isinstance(each, float) else usual for each, usual in given
            ]
        return column

    def missing(self, rows: Array, kept: Sequence[int]) -> str:
        """Return the reason why some of the arms cannot be drawn alone: the rest of a sentence."""
        if not self.limited:
            return super().missing(rows, kept)
        own = rows[-GROUPS:][:KEPT]
        gone = np.delete(own, kept, axis=1)
        if ((gone[LOW] == gone[HIGH]) & (gone[LOW] > 0.0)).any():
            return "the control arm is among them"
        return shares.refusal(own[:, kept])

    def own_numbers(self, n_arms: int) -> Array:
        """Return scale and power."""
        return np.array([self.scale, self.power])

    def kernels(self) -> Kernels:
        """Return the policy's kernels with a floor."""
        if not self.limited:
            return floored(self.policy.kernels())
        inner = self.policy.traits
        return floored(self.policy.kernels(), (OWN_ROWS + inner.head_rows, inner.rows_per_arm))


def _limited(least: object, most: object, control: object) -> bool:
    """Tell whether arms have shares."""
    given = (least, 0.0), (most, 1.0)
    return control is not None or any(not is_number(each) or each != no for each, no in given)


def _check(policy: object) -> None:
    if not isinstance(policy, Policy) or policy.traits.kind != "bandit":
        raise invalid("policy", "Floor", "a policy such as TsallisINF()", policy)
    if not policy.traits.wrappable:
        raise invalid("policy", "Floor", ALONE, policy)
    parts = policy.kernels().parts if policy.traits.knows_probability else None
    if parts is None or not parts.draws or parts.weights is None:
        raise invalid("policy", "Floor", "one that draws from known probabilities", policy)
