"""Tsallis-INF at alpha = 1/2 for many arms in tiles: `bothworlds.omd.leader` and buckets.

Lanes in leader mode play together, other lanes one by one with `bothworlds.omd.many`.  The state
begins with 1 / w of the last draw and the row of the lanes without a repetition; then come the rows
of the mode, and then, one lane after the other, the states of the many-arms kernels.

`bothworlds.TsallisINF` uses this by itself; see its method ``program``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bothworlds.arguments import Estimator
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import WORDS
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    advance,
    any_lane,
    lane_bits,
    load,
    lowest_bit,
    own_words,
    store,
    to_float,
    to_index,
)
from bothworlds.omd import half
from bothworlds.omd.leader import half as mode
from bothworlds.omd.leader import layout, membership
from bothworlds.omd.many import layout as buckets
from bothworlds.omd.many import rounds as many
from bothworlds.policies.base import LARGEST, Array, Kernels, Program
from bothworlds.policies.leading import sound_mode
from bothworlds.policies.tsallis_inf.leading import foreseen
from bothworlds.policies.tsallis_inf.many import (
    choose_many_iw,
    choose_many_rv,
    update_many_iw,
    update_many_rv,
)

IDLE = half.INVERSE_P + 1
"""Row: 1 in lanes without a repetition."""
MODE = IDLE + 1
"""First row of the mode."""


@jit
def mode_rows(S: Any) -> Any:
    """Return the rows of the mode."""
    return advance(S, MODE * LANES)


@jit
def alone(K: int, S: Any, place: int, reduced: Any) -> Any:
    """Return the state of the many-arms kernels of the lane at ``place``."""
    fields = buckets.FIELDS_IW
    rows = layout.OTHERS + 2 * LANES * layout.vectors(K)
    if reduced is not None:
        fields = buckets.FIELDS_RV
        rows += LANES * layout.vectors(K)
    return layout.lane_room(S, place, LANES, MODE + rows, buckets.SHARED + fields * K)


@jit
def outside(S: Any, M: Any, like: Any) -> Any:
    """Return the lanes with a repetition that are not in the mode, as bits."""
    return lane_bits((load(M, membership.LEADS, like) == 0.0) & (load(S, IDLE, like) == 0.0))


@jit
def look_around(K: int, t: int, S: Any, M: Any, eta: float, near_below: Any, like: Any) -> None:
    """Let lanes enter and leave the mode, in a round in which they may."""
    saved = mode.SAVED_OF_MANY_REDUCED
    if near_below is None:
        saved = mode.SAVED_OF_MANY
    first = mode.first_round(K)
    bits, entering = mode.decide(K, t, M, eta, near_below, saved, first, like)
    while bits != 0:
        place = lowest_bit(bits)
        L = many.reopen(K, alone(K, S, place, near_below))
        mode.leave(K, t, L, 1, M, place, LANES, near_below)
        bits &= bits - 1
    entering &= outside(S, M, like)
    while entering != 0:
        place = lowest_bit(entering)
        s = alone(K, S, place, near_below)
        many.close(K, s)
        L = advance(s, buckets.SHARED)
        mode.enter(K, t, L, 1, s[half.ROOT], M, place, LANES, eta, near_below)
        entering &= entering - 1


@jit
def choose_alone(
    K: int, t: int, C: Any, S: Any, G: Any, u: Any, eta: float, near_below: Any, bits: int
) -> None:
    """Solve and draw in some lanes, one by one; write arms and 1 / w where the tile has them."""
    M = mode_rows(S)
    store(M, layout.DRAW, u)
    due = membership.is_due(t)
    g = own_words()
    while bits != 0:
        place = lowest_bit(bits)
        s = alone(K, S, place, near_below)
        for word in range(WORDS):
            g[word] = G[word * LANES + place]
        if near_below is None:
            arm = choose_many_iw(K, t, C, s, g, M[layout.DRAW * LANES + place])
        else:
            arm = choose_many_rv(K, t, C, s, g, M[layout.DRAW * LANES + place])
        for word in range(WORDS):
            G[word * LANES + place] = g[word]
        M[layout.ARM * LANES + place] = arm
        S[half.INVERSE_P * LANES + place] = s[half.INVERSE_P]
        if due:
            # A lower bound, but not by much: whether to enter is a matter of speed.
            M[layout.SEEN * LANES + place] = 0.5 * eta * s[buckets.LEAST]
        bits &= bits - 1


@jit
def choose_leading_many(
    K: int, t: int, C: Any, S: Any, G: Any, u: Any, eta: float, over: float, near_below: Any
) -> Any:
    """Solve and draw; see `mode.draw` and `many.choose`."""
    M = mode_rows(S)
    if membership.is_due(t):
        look_around(K, t, S, M, eta, near_below, u)
    leads = load(M, membership.LEADS, u) != 0.0
    bits = outside(S, M, u)
    arm = to_index(load(M, membership.LEADER, u))
    if any_lane(leads):
        arm = mode.draw(K, t, S, M, eta, over, near_below, leads, u)
    if bits != 0:
        store(M, layout.ARM, to_float(arm))
        choose_alone(K, t, C, S, G, u, eta, near_below, bits)
        arm = to_index(load(M, layout.ARM, u))
    return arm


@jit
def choose_leading_many_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw with importance weighting."""
    eta, over, _ = foreseen(K, t, C, mode_rows(S), u)
    return choose_leading_many(K, t, C, S, G, u, eta, over, None)


@jit
def choose_leading_many_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw with reduced variance."""
    eta, over, limit = foreseen(K, t, C, mode_rows(S), u)
    return choose_leading_many(K, t, C, S, G, u, eta, over, limit)


@jit
def learn(
    K: int, t: int, C: Any, S: Any, G: Any, reduced: Any, arm: Any, p: Any, loss: Any
) -> None:
    """Add to the estimates, in the mode and outside it; ``p`` is 1 / w."""
    M = mode_rows(S)
    leads = load(M, membership.LEADS, loss) != 0.0
    if any_lane(leads):
        mode.learn(K, M, reduced, leads, arm, p, loss)
    bits = outside(S, M, loss)
    if bits == 0:
        return
    store(M, layout.ARM, to_float(arm))
    store(M, layout.WEIGHT, p)
    store(M, layout.DRAW, loss)
    while bits != 0:
        place = lowest_bit(bits)
        s = alone(K, S, place, reduced)
        i = int(M[layout.ARM * LANES + place])
        inverse_p = M[layout.WEIGHT * LANES + place]
        if reduced is None:
            update_many_iw(K, t, C, s, G, i, inverse_p, M[layout.DRAW * LANES + place])
        else:
            update_many_rv(K, t, C, s, G, i, inverse_p, M[layout.DRAW * LANES + place])
        bits &= bits - 1


@jit
def update_leading_many_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_I += l / w_I."""
    learn(K, t, C, S, G, None, arm, inverse_p, loss)


@jit
def update_leading_many_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    M = mode_rows(S)
    store(M, layout.LOSSES, load(M, layout.LOSSES, loss) + loss)
    learn(K, t, C, S, G, True, arm, inverse_p, loss)


_KERNELS = {
    "iw": Kernels(choose_leading_many_iw, update_leading_many_iw),
    "rv": Kernels(choose_leading_many_rv, update_leading_many_rv),
}


def program(own: Program, n_arms: int, estimator: Estimator, horizon: int | None) -> Program:
    """Return the program for many arms in lanes; ``own`` is that of one bandit.

    It also plays runs that end before a lane may enter the mode.
    """
    if horizon is not None and horizon < mode.first_round.py_func(n_arms):
        return own
    first = MODE + layout.rows(n_arms, estimator == "rv")

    def start() -> Array:
        """Return L = 0, with no lane in the mode."""
        return np.append(np.zeros(first), own.start())

    def sound(state: Array) -> bool:
        """Tell whether mode and buckets are sound in every lane."""
        states = np.ascontiguousarray(state[first:]).reshape(state.shape[1], -1)
        return (
            bool((np.abs(state[:first]) <= LARGEST).all())
            and bool(np.isin(state[IDLE], (0.0, 1.0)).all())
            and sound_mode(n_arms, state[MODE:first])
            and own.sound(states.T)
        )

    return own._replace(kernels=_KERNELS[estimator], start=start, sound=sound, idle_row=IDLE)
