"""Exp3++ in tiles of repetitions: its kernels, and `bothworlds.omd.leading_exponential`.

The mode is for rounds in which every arm has the same exploration, because no gap can make it
smaller; with the default beta these are the first 2.9e8 and more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    advance,
    load,
    select,
    splat,
    store,
)
from bothworlds.omd import leading_exponential as mode
from bothworlds.omd.leadership import LEADS, LOOK_EVERY, everybody_leads, nobody_leads
from bothworlds.policies.base import Array, Sides
from bothworlds.policies.exp3plusplus import ESTIMATES, FACTOR, cap_of, gaps_matter, learn
from bothworlds.policies.exp3plusplus import choose as choose_by_pass
from bothworlds.policies.exp3plusplus import update as update_by_pass
from bothworlds.policies.leading import InTiles

RATE = 3


@jit
def mode_rows(K: int, S: Any) -> Any:
    """Return the rows of the mode."""
    return advance(S, (ESTIMATES + 6 * K) * LANES)


@jit
def counts(K: int, S: Any) -> Any:
    """Return the rows n of the arms, which those of their losses follow."""
    return advance(S, (ESTIMATES + K) * LANES)


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Draw from the mixed weights."""
    M = mode_rows(K, S)
    if nobody_leads(M) and t % LOOK_EVERY != 0:
        return choose_by_pass(K, t, C, S, G, u)
    tally = counts(K, S)
    if t % LOOK_EVERY == 0:
        # Once gaps matter they always do, so it is enough to look this far ahead.
        soon = t + LOOK_EVERY
        if gaps_matter(soon, C, cap_of(K, mode.rate(C[RATE], soon))):
            mode.leave(K, t, S, ESTIMATES, M, tally, load(M, LEADS, u) != 0.0)
        else:
            eta = C[FACTOR] * mode.rate(C[RATE], t)
            mode.look_around(K, t, S, ESTIMATES, ESTIMATES + 4 * K, M, eta, tally, u)
    if nobody_leads(M):
        return choose_by_pass(K, t, C, S, G, u)
    leads = load(M, LEADS, u) != 0.0
    rate = mode.rate(C[RATE], t)
    eta = C[FACTOR] * rate
    if everybody_leads(M):
        return mode.draw(K, S, M, eta, cap_of(K, rate), tally, leads, u)
    arm = choose_by_pass(K, t, C, S, G, u)
    inverse_p = load(S, 0, u)
    arm = select(leads, mode.draw(K, S, M, eta, cap_of(K, rate), tally, leads, u), arm)
    store(S, 0, select(leads, load(S, 0, u), inverse_p))
    return arm


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / p_I, and count the loss."""
    M = mode_rows(K, S)
    if nobody_leads(M):
        update_by_pass(K, t, C, S, G, arm, inverse_p, loss)
        return
    leads = load(M, LEADS, loss) != 0.0
    mode.learn(K, M, leads, arm, loss * inverse_p, loss, counts(K, S))
    if not everybody_leads(M):
        told = select(leads, 0.0, splat(1.0, loss))
        loss = select(leads, 0.0, loss)
        learn(K, S, arm, told, loss * inverse_p, loss)


@dataclass(frozen=True, repr=False)
class Exp3PlusPlusInTiles(InTiles):
    """The twin of `bothworlds.Exp3PlusPlus`."""

    kernels: ClassVar[Sides] = Sides((choose,), (update,), wide=True)

    def parameters(self, n_arms: int) -> Array:
        """Return the parameters of the policy and ln K / K."""
        return np.append(self.policy.parameters(n_arms), math.log(n_arms) / n_arms)

    def mode_rows(self, n_arms: int) -> int:
        """Return the number of rows of the mode."""
        return mode.rows(n_arms)
