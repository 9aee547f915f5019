"""Broad in tiles of repetitions: its kernels, and `bothworlds.omd.leading_barrier`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, any_lane, load, select, store
from bothworlds.omd import leading_barrier as mode
from bothworlds.omd.leadership import (
    LEADS,
    LOOK_EVERY,
    NOT_BEFORE,
    count,
    everybody_leads,
    nobody_leads,
)
from bothworlds.policies.base import Sides
from bothworlds.policies.broad import ESTIMATES, RATE, ROOT, SPREAD, is_over, restart
from bothworlds.policies.broad import choose as choose_by_pass
from bothworlds.policies.broad import update as update_by_pass
from bothworlds.policies.leading import InTiles


@jit
def mode_rows(K: int, S: Any) -> Any:
    """Return the rows of the mode."""
    return advance(S, (ESTIMATES + 2 * K) * LANES)


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve the OMD step and draw from it."""
    M = mode_rows(K, S)
    if nobody_leads(M) and t % LOOK_EVERY != 0:
        return choose_by_pass(K, t, C, S, G, u)
    if t % LOOK_EVERY == 0:
        mode.look_around(K, t, S, ESTIMATES, ESTIMATES + K, M, ROOT, RATE, u)
    if nobody_leads(M):
        return choose_by_pass(K, t, C, S, G, u)
    leads = load(M, LEADS, u) != 0.0
    if everybody_leads(M):
        return mode.draw(K, S, M, leads, u)
    arm = choose_by_pass(K, t, C, S, G, u)
    inverse_p = load(S, 0, u)
    arm = select(leads, mode.draw(K, S, M, leads, u), arm)
    store(S, 0, select(leads, load(S, 0, u), inverse_p))
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I; restart where the losses have spread too far."""
    M = mode_rows(K, S)
    if nobody_leads(M):
        update_by_pass(K, t, C, S, G, arm, inverse_p, loss)
        return
    leads = load(M, LEADS, loss) != 0.0
    eta = load(S, RATE, loss)
    V = load(S, SPREAD, loss)
    mode.learn(K, M, leads, arm, eta * (loss * inverse_p))
    V = V + select(leads, loss * loss * load(M, mode.SPREAD, loss), 0.0)
    store(S, SPREAD, V)
    over = leads & is_over(K, C, eta, V)
    if any_lane(over):
        restart(K, S, over, loss)
        store(M, LEADS, select(over, 0.0, load(M, LEADS, loss)))
        # The weights of the last round, by which lanes enter, are older than the restart.
        store(M, NOT_BEFORE, select(over, t + LOOK_EVERY + 1.0, load(M, NOT_BEFORE, loss)))
        count(M, loss)
    if not everybody_leads(M):
        update_by_pass(K, t, C, S, G, arm, inverse_p, select(leads, 0.0, loss))


@dataclass(frozen=True, repr=False)
class BroadInTiles(InTiles):
    """The twin of `bothworlds.Broad`."""

    kernels: ClassVar[Sides] = Sides((choose,), (update,), wide=True)

    def mode_rows(self, n_arms: int) -> int:
        """Return the number of rows of the mode."""
        return mode.rows(n_arms)
