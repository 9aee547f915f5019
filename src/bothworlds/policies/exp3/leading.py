"""Exp3 in tiles of repetitions: its kernels, and `bothworlds.omd.leader.exponential`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bothworlds.lanes.jit import inlined, jit
from bothworlds.omd.leader import exponential as mode
from bothworlds.omd.leader.membership import FIRST
from bothworlds.policies.base import Array, Program
from bothworlds.policies.exp3.kernels import ESTIMATES, choose, update
from bothworlds.policies.leading import kernels_of, leading_program

RATE = 0


@jit
def look_around(K: int, t: int, C: Any, S: Any, M: Any, like: Any) -> None:
    """Let lanes enter and leave the mode."""
    eta = mode.rate(C[RATE], t)
    mode.look_around(K, t, S, ESTIMATES, ESTIMATES + K, M, eta, None, like)


@inlined
def draw(K: int, t: int, C: Any, S: Any, M: Any, leads: Any, u: Any) -> Any:
    """Draw from the exponential weights."""
    return mode.draw(K, S, M, mode.rate(C[RATE], t), None, None, leads, u)


@inlined
def learn(
    K: int, t: int, C: Any, S: Any, M: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    mode.learn(K, M, leads, arm, loss * inverse_p, loss, None)


_KERNELS = kernels_of((ESTIMATES, 2), choose, update, look_around, draw, learn)


def program(own: Program, n_arms: int, horizon: int | None) -> Program:
    """Return the program of `bothworlds.Exp3` in lanes; ``own`` is that without the mode."""

    def parameters() -> Array:
        """Return ln K / K."""
        return np.array([math.log(n_arms) / n_arms])

    return leading_program(own, n_arms, _KERNELS, horizon, FIRST, parameters=parameters)
