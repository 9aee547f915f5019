"""Exp3++ in tiles of repetitions: its kernels, and `bothworlds.omd.leader.exponential`.

The mode is for rounds in which every arm has the same exploration, because no gap can make it
smaller; with the default beta these are the first 2.9e8 and more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, lane_bits, load, select, splat
from bothworlds.omd.leader import exponential as mode
from bothworlds.omd.leader.membership import FIRST, LEADS, LOOK_EVERY
from bothworlds.policies.base import Array, Program
from bothworlds.policies.exp3plusplus import kernels
from bothworlds.policies.exp3plusplus.kernels import ESTIMATES, FACTOR, cap_of, gaps_matter
from bothworlds.policies.leading import kernels_of, leading_program

RATE = 3


@jit
def counts(K: int, S: Any) -> Any:
    """Return the rows n of the arms, which those of their losses follow."""
    return advance(S, (ESTIMATES + K) * LANES)


@jit
def look_around(K: int, t: int, C: Any, S: Any, M: Any, like: Any) -> None:
    """Let lanes enter and leave the mode; once gaps matter, none is in it."""
    tally = counts(K, S)
    # Once gaps matter they always do, so it is enough to look this far ahead.
    soon = t + LOOK_EVERY
    if gaps_matter(soon, C, cap_of(K, mode.rate(C[RATE], soon))):
        led = lane_bits(load(M, LEADS, like) != 0.0)
        mode.leave(K, t, S, ESTIMATES, M, tally, led)
    else:
        eta = C[FACTOR] * mode.rate(C[RATE], t)
        mode.look_around(K, t, S, ESTIMATES, ESTIMATES + 4 * K, M, eta, tally, like)


@inlined
def draw(K: int, t: int, C: Any, S: Any, M: Any, leads: Any, u: Any) -> Any:
    """Draw from the mixed weights."""
    rate = mode.rate(C[RATE], t)
    return mode.draw(K, S, M, C[FACTOR] * rate, cap_of(K, rate), counts(K, S), leads, u)


@inlined
def learn(
    K: int, t: int, C: Any, S: Any, M: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / p_I, and count the loss."""
    mode.learn(K, M, leads, arm, loss * inverse_p, loss, counts(K, S))


@jit
def learn_outside(
    K: int, t: int, C: Any, S: Any, G: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Do the same in the lanes that are not in the mode."""
    told = select(leads, 0.0, splat(1.0, loss))
    loss = select(leads, 0.0, loss)
    kernels.learn(K, S, arm, told, loss * inverse_p, loss)


_KERNELS = kernels_of(
    (ESTIMATES, 6), kernels.choose, kernels.update, look_around, draw, learn,
    learn_outside=learn_outside,
)  # fmt: skip


def program(own: Program, n_arms: int, horizon: int | None) -> Program:
    """Return the program of `Exp3PlusPlus` in lanes; ``own`` is that without the mode."""

    def parameters() -> Array:
        """Return the parameters of the policy and ln K / K."""
        return np.append(own.parameters(), math.log(n_arms) / n_arms)

    return leading_program(own, n_arms, _KERNELS, horizon, FIRST, parameters=parameters)
