"""Programs in leader mode, for tiles: they hardly look at the arms once one of them leads.

Lanes in the mode play by it, other lanes by a pass over all arms.  What a round does is the same
for every mode and written here once, as templates that `kernels_of` binds to a policy's functions.
The state is the policy's own and, behind it, the rows of a mode, of
`bothworlds.omd.leader.membership`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, any_lane, load, negate, select, splat_int, store
from bothworlds.lanes.wrap import bound
from bothworlds.omd.leader import layout, membership
from bothworlds.omd.leader.membership import LEADS, LOOK_EVERY
from bothworlds.policies.base import LARGEST, Array, Kernels, Program

# The templates. What these names stand for is filled in by `kernels_of` and `silenced`.
own: tuple[int, int] = (0, 0)
look_around: Any = None
draw: Any = None
learn: Any = None
learn_outside: Any = None
choose_by_pass: Any = None
update_by_pass: Any = None


def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw an arm."""
    M = advance(S, (own[0] + own[1] * K) * LANES)
    if t % LOOK_EVERY == 0:
        look_around(K, t, C, S, M, u)
    arm = splat_int(0, u)
    leads = load(M, LEADS, u) != 0.0
    others = any_lane(negate(leads))
    if others:
        arm = choose_by_pass(K, t, C, S, G, u)
        if not any_lane(leads):
            return arm
    inverse_p = load(S, 0, u)
    mine = draw(K, t, C, S, M, leads, u)
    if not others:
        return mine
    store(S, 0, select(leads, load(S, 0, u), inverse_p))
    return select(leads, mine, arm)


def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Learn from the loss of the arm drawn."""
    M = advance(S, (own[0] + own[1] * K) * LANES)
    leads = load(M, LEADS, loss) != 0.0
    if any_lane(leads):
        learn(K, t, C, S, M, leads, arm, inverse_p, loss)
    if any_lane(negate(leads)):
        learn_outside(K, t, C, S, G, leads, arm, inverse_p, loss)


def update_silently(
    K: int, t: int, C: Any, S: Any, G: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn by importance weighting; a loss of 0 moves nothing in the lanes in the mode."""
    update_by_pass(K, t, C, S, G, arm, inverse_p, select(leads, 0.0, loss))


def silenced(update: Any) -> Any:
    """Return the argument ``learn_outside`` of `kernels_of`, for a policy's ``update``."""
    return bound(update_silently, update_by_pass=update)


def kernels_of(
    own: tuple[int, int], choose_by_pass: Any, look_around: Any, draw: Any, learn: Any,
    learn_outside: Any,
) -> Kernels:  # fmt: skip
    """Return the kernels with the mode, bound to the names that the templates call.

    ``own`` are the rows of the policy, which those of the mode follow: of its head and of an arm.
    """
    names = {"look_around": look_around, "draw": draw, "choose_by_pass": choose_by_pass}
    choosing = bound(choose, own=own, **names)
    updating = bound(update, own=own, learn=learn, learn_outside=learn_outside)
    return Kernels(choosing, updating)


def leading_program(
    own: Program, n_arms: int, kernels: Kernels, horizon: int | None, first: int, **others: Any
) -> Program:
    """Return a program in leader mode.

    Parameters
    ----------
    own : Program
        What plays the policy in tiles without the mode.
    n_arms : int
        The number of arms.
    kernels : Kernels
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

    return own._replace(
        kernels=kernels, start=start, sound=sound, plain=False, alone=False, **others
    )


def sound_mode(n_arms: int, mode: Array) -> bool:
    """Tell whether every lane is in the mode or not, and its leader is an arm."""
    leads, leader = mode[membership.LEADS], mode[membership.LEADER]
    arms = (leader >= 0.0) & (leader < n_arms) & (leader == np.floor(leader))
    return bool((((leads == 0.0) | (leads == 1.0)) & arms).all())
