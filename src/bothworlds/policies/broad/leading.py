"""Broad in tiles of repetitions: its kernels, and `bothworlds.omd.leader.barrier`."""

from __future__ import annotations

from typing import Any

from bothworlds.lanes.jit import inlined, jit, rarely
from bothworlds.lanes.vectors import any_lane, load, select, store
from bothworlds.omd.leader import barrier as mode
from bothworlds.omd.leader.layout import SPREAD as SPREAD_NOW
from bothworlds.omd.leader.membership import FIRST
from bothworlds.policies.base import Program
from bothworlds.policies.broad import kernels
from bothworlds.policies.broad.kernels import ESTIMATES, RATE, ROOT, SPREAD
from bothworlds.policies.leading import kernels_of, leading_program


@jit
def look_around(K: int, t: int, C: Any, S: Any, M: Any, like: Any) -> None:
    """Let lanes enter and leave the mode."""
    mode.look_around(K, t, S, ESTIMATES, ESTIMATES + K, M, ROOT, RATE, like)


@inlined
def draw(K: int, t: int, C: Any, S: Any, M: Any, leads: Any, u: Any) -> Any:
    """Solve the OMD step and draw from it."""
    return mode.draw(K, t, S, M, leads, u)


@jit
@rarely
def restart(K: int, t: int, S: Any, M: Any, over: Any, like: Any) -> None:
    """Restart the policy in some lanes, without the mode."""
    kernels.restart(K, S, over, like)
    mode.forget(t, M, over, like)


@inlined
def learn(
    K: int, t: int, C: Any, S: Any, M: Any, leads: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I; restart where the losses have spread too far."""
    eta = load(S, RATE, loss)
    V = load(S, SPREAD, loss)
    mode.learn(K, M, leads, arm, inverse_p, eta * loss)
    more = loss * loss * load(M, SPREAD_NOW, loss)
    if leads is not None:
        more = select(leads, more, 0.0)
    V = V + more
    store(S, SPREAD, V)
    over = kernels.is_over(K, C, eta, V)
    if leads is not None:
        over = over & leads
    if any_lane(over):
        restart(K, t, S, M, over, loss)


_KERNELS = kernels_of(
    (ESTIMATES, 2), kernels.choose, kernels.update, look_around, draw, learn, steady=False
)


def program(own: Program, n_arms: int, horizon: int | None) -> Program:
    """Return the program of `bothworlds.Broad` in lanes; ``own`` is that without the mode."""
    return leading_program(own, n_arms, _KERNELS, horizon, FIRST)
