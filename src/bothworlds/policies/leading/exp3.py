"""Exp3 in tiles of repetitions: its kernels, and `bothworlds.omd.leading_exponential`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import advance, load, select, store
from bothworlds.omd import leading_exponential as mode
from bothworlds.omd.leadership import LEADS, LOOK_EVERY, everybody_leads, nobody_leads
from bothworlds.policies.base import Array, Sides
from bothworlds.policies.exp3 import ESTIMATES
from bothworlds.policies.exp3 import choose as choose_by_pass
from bothworlds.policies.exp3 import update as update_by_pass
from bothworlds.policies.leading import InTiles

RATE = 0


@jit
def mode_rows(K: int, S: Any) -> Any:
    """Return the rows of the mode."""
    return advance(S, (ESTIMATES + 2 * K) * LANES)


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw from the exponential weights."""
    M = mode_rows(K, S)
    if nobody_leads(M) and t % LOOK_EVERY != 0:
        return choose_by_pass(K, t, C, S, G, u)
    if t % LOOK_EVERY == 0:
        eta = mode.rate(C[RATE], t)
        mode.look_around(K, t, S, ESTIMATES, ESTIMATES + K, M, eta, None, u)
    if nobody_leads(M):
        return choose_by_pass(K, t, C, S, G, u)
    leads = load(M, LEADS, u) != 0.0
    if everybody_leads(M):
        return mode.draw(K, S, M, mode.rate(C[RATE], t), None, None, leads, u)
    arm = choose_by_pass(K, t, C, S, G, u)
    inverse_p = load(S, 0, u)
    arm = select(leads, mode.draw(K, S, M, mode.rate(C[RATE], t), None, None, leads, u), arm)
    store(S, 0, select(leads, load(S, 0, u), inverse_p))
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I."""
    M = mode_rows(K, S)
    if nobody_leads(M):
        update_by_pass(K, t, C, S, G, arm, inverse_p, loss)
        return
    leads = load(M, LEADS, loss) != 0.0
    mode.learn(K, M, leads, arm, loss * inverse_p, loss, None)
    if not everybody_leads(M):
        update_by_pass(K, t, C, S, G, arm, inverse_p, select(leads, 0.0, loss))


@dataclass(frozen=True, repr=False)
class Exp3InTiles(InTiles):
    """The twin of `bothworlds.Exp3`."""

    kernels: ClassVar[Sides] = Sides((choose,), (update,), wide=True)

    def parameters(self, n_arms: int) -> Array:
        """Return ln K / K."""
        return np.array([math.log(n_arms) / n_arms])

    def mode_rows(self, n_arms: int) -> int:
        """Return the number of rows of the mode."""
        return mode.rows(n_arms)
