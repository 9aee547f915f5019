"""Programs in leader mode, for tiles: they hardly look at the arms once one of them leads.

Lanes in the mode play by it, other lanes by a pass over all arms.  What a round does is the same
for every mode and written here once, as templates that `kernels_of` binds to a policy's functions.
The state is the policy's own and, behind it, the rows of a mode, of
`bothworlds.omd.leader.membership`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, any_lane, load, negate, select, splat_int, store
from bothworlds.lanes.wrap import bound
from bothworlds.omd.leader import layout, membership
from bothworlds.omd.leader.membership import LEADS, LOOK_EVERY
from bothworlds.policies.base import LARGEST, Array, Kernels, Phases, Program

# The templates. What these names stand for is filled in by `kernels_of`.
own: tuple[int, int] = (0, 0)
look_around: Any = None
draw: Any = None
learn: Any = None
learn_outside: Any = None
choose_by_pass: Any = None
update_by_pass: Any = None


def rows_behind(K: int, S: Any) -> Any:
    """Return the rows of the mode, which lie behind those of the policy."""
    return advance(S, (own[0] + own[1] * K) * LANES)


def draw_beside(K: int, t: int, C: Any, S: Any, M: Any, leads: Any, arm: Any, u: Any) -> Any:
    """Draw in the lanes in the mode; other lanes have drawn ``arm`` by a pass over their arms."""
    inverse_p = load(S, 0, u)
    mine = draw(K, t, C, S, M, leads, u)
    store(S, 0, select(leads, load(S, 0, u), inverse_p))
    return select(leads, mine, arm)


def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw an arm."""
    M = rows_behind(K, S)
    if t % LOOK_EVERY == 0:
        look_around(K, t, C, S, M, u)
    arm = splat_int(0, u)
    leads = load(M, LEADS, u) != 0.0
    if any_lane(negate(leads)):
        arm = choose_by_pass(K, t, C, S, G, u)
        if not any_lane(leads):
            return arm
    return draw_beside(K, t, C, S, M, leads, arm, u)


def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Learn from the loss of the arm drawn."""
    M = rows_behind(K, S)
    leads = load(M, LEADS, loss) != 0.0
    if any_lane(leads):
        learn(K, t, C, S, M, leads, arm, inverse_p, loss)
    if any_lane(negate(leads)):
        learn_outside(K, t, C, S, G, leads, arm, inverse_p, loss)


def choose_within(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw an arm while every lane is in the mode."""
    return draw(K, t, C, S, rows_behind(K, S), None, u)


def update_within(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn from the loss of the arm drawn while every lane is in the mode."""
    learn(K, t, C, S, rows_behind(K, S), None, arm, inverse_p, loss)


def choose_mostly_within(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Do the same where a lane may have left the mode since the last look around."""
    M = rows_behind(K, S)
    if any_lane(load(M, LEADS, u) == 0.0):
        return choose(K, t, C, S, G, u)
    return draw(K, t, C, S, M, None, u)


def update_mostly_within(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Do the same where a lane may have left the mode since the last look around."""
    M = rows_behind(K, S)
    if any_lane(load(M, LEADS, loss) == 0.0):
        update(K, t, C, S, G, arm, inverse_p, loss)
    else:
        learn(K, t, C, S, M, None, arm, inverse_p, loss)


def update_silently(
    K: int, t: int, C: Any, S: Any, G: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn by importance weighting; a loss of 0 moves nothing in the lanes in the mode."""
    update_by_pass(K, t, C, S, G, arm, inverse_p, select(leads, 0.0, loss))


class LeadingKernels(NamedTuple):
    """Kernels with a leader mode, and those while no lane is in it and while all are."""

    kernels: Kernels
    without: tuple[Any, Any]
    within: tuple[Any, Any]


def kernels_of(
    own: tuple[int, int], choose_by_pass: Any, update_by_pass: Any, look_around: Any, draw: Any,
    learn: Any, *, learn_outside: Any = None, steady: bool = True,
) -> LeadingKernels:  # fmt: skip
    """Return the kernels with the mode, bound to the names that the templates call.

    Parameters
    ----------
    own : pair of int
        Rows of the policy, which those of the mode follow: of its head and of an arm.
    choose_by_pass, update_by_pass : dispatcher
        The kernels of the policy without the mode.
    look_around : dispatcher
        Lets lanes enter and leave the mode.
    draw, learn : dispatcher
        What lanes in the mode do in place of these kernels. They take these lanes, or None for all.
    learn_outside : dispatcher, optional
        What the others do to learn. By default they have ``update_by_pass``, with loss 0 in the
        lanes in the mode.
    steady : bool
        Whether lanes enter and leave the mode only as they look around.
    """
    behind = {"rows_behind": bound(rows_behind, own=own)}
    if learn_outside is None:
        learn_outside = bound(update_silently, update_by_pass=update_by_pass)
    choosing = bound(
        choose, look_around=look_around, draw_beside=bound(draw_beside, draw=draw),
        choose_by_pass=choose_by_pass, **behind,
    )  # fmt: skip
    updating = bound(update, learn=learn, learn_outside=learn_outside, **behind)
    within = (choose_within, update_within)
    if not steady:
        within = (choose_mostly_within, update_mostly_within)
    return LeadingKernels(
        Kernels(choosing, updating),
        (choose_by_pass, update_by_pass),
        (
            bound(within[0], inline=True, draw=draw, choose=choosing, **behind),
            bound(within[1], inline=True, learn=learn, update=updating, **behind),
        ),
    )


def leading_program(
    own: Program, n_arms: int, kernels: LeadingKernels, horizon: int | None, first: int,
    **others: Any,
) -> Program:  # fmt: skip
    """Return a program in leader mode.

    Parameters
    ----------
    own : Program
        What plays the policy in tiles without the mode.
    n_arms : int
        The number of arms.
    kernels : LeadingKernels
        What `kernels_of` returned.
    horizon : int, optional
        As for `Policy.program`. Where no lane enters the mode by then, the program is ``own``.
    first : int
        The first round in which a lane may enter the mode.
    **others
        Parameters of the program that differ from those of ``own``.
    """
    if horizon is not None and horizon < first:
        return own

    def start() -> Array:
        """Return the state of the algorithm, with no lane in the mode."""
        return np.append(own.start(), np.zeros(layout.rows(n_arms, True)))

    def sound(state: Array) -> bool:
        """Tell whether the mode is sound in every lane."""
        mode = state[own.start().size :]
        return (
            sound_mode(n_arms, mode)
            and own.sound(state[: -len(mode)])
            and bool((np.abs(state) <= LARGEST).all())
        )

    phases = Phases(kernels.without, kernels.within, own.start().size + LEADS, LOOK_EVERY)
    return own._replace(
        kernels=kernels.kernels, start=start, sound=sound, plain=False, alone=False, phases=phases,
        **others,
    )  # fmt: skip


def sound_mode(n_arms: int, mode: Array) -> bool:
    """Tell whether every lane is in the mode or not, and its leader is an arm."""
    leads, leader = mode[membership.LEADS], mode[membership.LEADER]
    arms = (leader >= 0.0) & (leader < n_arms) & (leader == np.floor(leader))
    return bool((((leads == 0.0) | (leads == 1.0)) & arms).all())
