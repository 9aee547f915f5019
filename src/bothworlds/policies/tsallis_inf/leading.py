"""Tsallis-INF at alpha = 1/2 in tiles of repetitions: kernels with `bothworlds.omd.leader`.

`bothworlds.TsallisINF` uses them by itself; see its method ``program``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from bothworlds.arguments import Estimator
from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.vectors import (
    advance,
    any_lane,
    counting,
    load,
    negate,
    select,
    splat_int,
    store,
    stride,
    to_float,
    to_index,
    to_int,
    width,
)
from bothworlds.lanes.wrap import bound
from bothworlds.omd import half
from bothworlds.omd.estimators import BASELINE
from bothworlds.omd.leader import half as mode
from bothworlds.omd.leader import layout, membership
from bothworlds.policies.base import Ahead, Array, Kernels, Phases, Program
from bothworlds.policies.leading import sound_mode
from bothworlds.policies.tsallis_inf.parameters import near_limit, rate_now


@jit
def foresee(K: int, t: int, C: Any, M: Any, like: Any) -> None:
    """Note the learning rates of round t and the next ones, and the values that follow from them.

    A lane for each round, as many as a vector has, with the number of the round.
    """
    rounds = splat_int(t, like) + counting(0, like)
    eta = rate_now(K, rounds, C)
    store(M, layout.NEXT, to_float(rounds))
    store(M, layout.NEXT + 1, eta)
    store(M, layout.NEXT + 2, 1.0 / eta)
    store(M, layout.NEXT + 3, near_limit(eta))


@inlined
def foreseen(K: int, t: int, C: Any, M: Any, like: Any) -> Any:
    """Return eta, 1 / eta and the limit of the near arms, noted before; look ahead if need be.

    What another width has noted lies in other lanes, and is not taken for this round's.
    """
    W = stride(like)
    N = advance(M, layout.NEXT * W)
    k, last = t - to_int(N[0]), width(like) - 1
    if k < 0 or k > last or N[k] != t:
        foresee(K, t, C, M, like)
        k = 0
    eta, over, limit = N[W + k], N[2 * W + k], N[3 * W + k]
    if k == last:
        foresee(K, t + 1, C, M, like)
    return eta, over, limit


@jit
def nobody_leads(t: int, M: Any, like: Any) -> Any:
    """Tell whether no lane is in the mode, nor may enter it in this round.

    Most loops then call the kernels of `Program.phases`; under attack they do not.
    """
    return not (membership.is_due(t) or any_lane(load(M, membership.LEADS, like) != 0.0))


@inlined
def who_leads(K: int, t: int, S: Any, M: Any, eta: float, near_below: Any, like: Any) -> Any:
    """Let lanes enter and leave the mode if it is time, and tell which are in it."""
    if membership.is_due(t):
        mode.look_around(K, t, S, M, eta, near_below, like)
    return load(M, membership.LEADS, like) != 0.0


@jit
def draw_beside(
    K: int, t: int, S: Any, M: Any, eta: float, over: float, near_below: Any, leads: Any, arm: Any,
    u: Any,
) -> Any:  # fmt: skip
    """Draw in the lanes in the mode; other lanes have drawn ``arm`` by a pass over their arms."""
    inverse_p = load(S, half.INVERSE_P, u)
    mine = mode.draw(K, t, S, M, eta, over, near_below, leads, u)
    store(S, half.INVERSE_P, select(leads, load(S, half.INVERSE_P, u), inverse_p))
    return select(leads, mine, arm)


@jit
def count_loss(M: Any, loss: Any) -> None:
    """Add to the losses of all lanes, by which `mode.decide` knows worlds not to enter in."""
    store(M, layout.LOSSES, load(M, layout.LOSSES, loss) + loss)


# Templates: `kernels_in_tiles` fills in the solver that looks at all arms.
choose_by_pass: Any = None
update_by_pass: Any = None


def choose_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw with importance weighting."""
    M = mode.rows_behind(K, S, stride(u))
    if nobody_leads(t, M, u):
        return choose_by_pass(K, t, C, S, G, u)
    eta, over, _ = foreseen(K, t, C, M, u)
    leads = who_leads(K, t, S, M, eta, None, u)
    arm = splat_int(0, u)
    if any_lane(negate(leads)):
        arm = choose_by_pass(K, t, C, S, G, u)
        if membership.is_due(t):
            mode.see(K, S, M, eta, u)
        if not any_lane(leads):
            return arm
    return draw_beside(K, t, S, M, eta, over, None, leads, arm, u)


def choose_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve and draw with reduced variance."""
    M = mode.rows_behind(K, S, stride(u))
    if nobody_leads(t, M, u):
        return choose_by_pass(K, t, C, S, G, u)
    eta, over, limit = foreseen(K, t, C, M, u)
    leads = who_leads(K, t, S, M, eta, limit, u)
    arm = splat_int(0, u)
    if any_lane(negate(leads)):
        arm = choose_by_pass(K, t, C, S, G, u)
        if membership.is_due(t):
            mode.see(K, S, M, eta, u)
        if not any_lane(leads):
            return arm
    return draw_beside(K, t, S, M, eta, over, limit, leads, arm, u)


def update_iw(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_I += l / w_I."""
    M = mode.rows_behind(K, S, stride(loss))
    leads = load(M, membership.LEADS, loss) != 0.0
    if any_lane(leads):
        mode.learn(K, M, None, leads, arm, inverse_p, loss)
        if not any_lane(negate(leads)):
            return
        loss = select(leads, 0.0, loss)
    update_by_pass(K, t, C, S, G, arm, inverse_p, loss)


def update_rv(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_i += B_i for every arm; L_I += (l - B_I) / w_I."""
    M = mode.rows_behind(K, S, stride(loss))
    leads = load(M, membership.LEADS, loss) != 0.0
    count_loss(M, loss)
    if any_lane(leads):
        mode.learn(K, M, True, leads, arm, inverse_p, loss)
        if not any_lane(negate(leads)):
            return
        # A near arm whose loss is its baseline: the lanes in the mode are not disturbed by it.
        inverse_p = select(leads, 1.0, inverse_p)
        loss = select(leads, BASELINE, loss)
    update_by_pass(K, t, C, S, G, arm, inverse_p, loss)


def update_without_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Same as `update_rv` while no lane leads."""
    count_loss(mode.rows_behind(K, S, stride(loss)), loss)
    update_by_pass(K, t, C, S, G, arm, inverse_p, loss)


# While all lanes lead.


@inlined
def choose_within_iw(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Same as `choose_iw` while every lane leads."""
    M = mode.rows_behind(K, S, stride(u))
    eta, over, _ = foreseen(K, t, C, M, u)
    return mode.draw(K, t, S, M, eta, over, None, None, u)


@inlined
def choose_within_rv(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Same as `choose_rv` while every lane leads."""
    M = mode.rows_behind(K, S, stride(u))
    eta, over, limit = foreseen(K, t, C, M, u)
    return mode.draw(K, t, S, M, eta, over, limit, None, u)


@inlined
def update_within_iw(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Same as `update_iw` while every lane leads."""
    mode.learn(K, mode.rows_behind(K, S, stride(loss)), None, None, arm, inverse_p, loss)


@inlined
def update_within_rv(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Same as `update_rv` while every lane leads."""
    M = mode.rows_behind(K, S, stride(loss))
    count_loss(M, loss)
    mode.learn(K, M, True, None, arm, inverse_p, loss)


# Several rounds at once.


@jit
def leader(K: int, S: Any, like: Any) -> Any:
    """Return the arms that lead."""
    return to_index(load(mode.rows_behind(K, S, stride(like)), membership.LEADER, like))


@inlined
def foreseen_for(K: int, t: int, n: int, C: Any, M: Any, like: Any) -> Any:
    """Return where `foresee` noted the learning rate of round t, and those of ``n`` rounds."""
    N = advance(M, layout.NEXT * stride(like))
    k = t - to_int(N[0])
    if k < 0 or k + n > width(like) or N[k] != t or N[k + n - 1] != t + n - 1:
        foresee(K, t, C, M, like)
        k = 0
    return advance(N, stride(like) + k)


@inlined
def ends_of(K: int, t: int, end: int, C: Any) -> Any:
    """Return 1 / eta and the limit of the near arms in round t and in the last one, ``end``."""
    first, last = rate_now(K, t, C), rate_now(K, end, C)
    return (1.0 / first, near_limit(first)), (1.0 / last, near_limit(last))


@inlined
def sure_iw(K: int, t: int, end: int, C: Any, S: Any, like: Any) -> Any:
    """Tell whether every lane plays its leader in rounds t to ``end`` but for u, and for which."""
    first, last = ends_of(K, t, end, C)
    return mode.sure(K, t, end, mode.rows_behind(K, S, stride(like)), first, last, None, like)


@inlined
def sure_rv(K: int, t: int, end: int, C: Any, S: Any, like: Any) -> Any:
    """Do the same with reduced variance."""
    first, last = ends_of(K, t, end, C)
    return mode.sure(K, t, end, mode.rows_behind(K, S, stride(like)), first, last, True, like)


@inlined
def stay_iw(K: int, t: int, n: int, C: Any, S: Any, X: Any, like: Any) -> None:
    """Learn the losses of ``n`` rounds in which every lane plays its leader."""
    M = mode.rows_behind(K, S, stride(like))
    mode.stay(K, t, n, S, M, foreseen_for(K, t, n, C, M, like), None, None, X, like)


@inlined
def stay_rv(K: int, t: int, n: int, C: Any, S: Any, X: Any, like: Any) -> None:
    """Do the same with reduced variance."""
    M = mode.rows_behind(K, S, stride(like))
    rates = foreseen_for(K, t, n, C, M, like)
    if any_lane(load(M, layout.LOWEST, like) < membership.ABSENT):
        mode.stay(K, t, n, S, M, rates, True, True, X, like)
    else:
        mode.stay(K, t, n, S, M, rates, True, None, X, like)


@functools.cache
def kernels_in_tiles(own: Kernels, reduced: bool) -> tuple[Kernels, Any]:
    """Return the kernels around a solver's, and ``update`` while no lane leads."""
    choose = bound(choose_rv if reduced else choose_iw, release=True, choose_by_pass=own.choose)
    update = bound(update_rv if reduced else update_iw, release=True, update_by_pass=own.update)
    without = own.update
    if reduced:
        without = bound(update_without_rv, release=True, update_by_pass=own.update)
    return Kernels(choose, update), without


def program(own: Program, n_arms: int, estimator: Estimator, horizon: int | None) -> Program:
    """Return the program of `bothworlds.TsallisINF` at alpha = 1/2 in lanes.

    ``own`` is that without the mode, with one solver and less to compile, and plays runs that end
    before a lane may enter the mode.
    """
    if horizon is not None and horizon < mode.first_round.py_func(n_arms):
        return own
    rows, reduced = own.head_rows + n_arms, estimator == "rv"

    def start() -> Array:
        """Return the state of the algorithm, with no lane in the mode."""
        return np.append(own.start(), np.zeros(layout.rows(n_arms, reduced)))

    def sound(state: Array) -> bool:
        """Tell whether the mode is sound in every lane."""
        return sound_mode(n_arms, state[rows:]) and own.sound(state)

    kernels, update = kernels_in_tiles(own.kernels, reduced)
    within = choose_within_iw, update_within_iw
    ahead = Ahead(leader, sure_iw, stay_iw)
    if reduced:
        within = choose_within_rv, update_within_rv
        ahead = Ahead(leader, sure_rv, stay_rv)
    phases = Phases(
        (own.kernels.choose, update), within, rows + membership.LEADS, membership.LOOK_EVERY, ahead
    )
    return own._replace(kernels=kernels, start=start, sound=sound, plain=False, phases=phases)
