"""Compiled loop: a tile of repetitions of one policy in one environment.

Where the kernels of both take vectors, the loop over the rounds is compiled with those of the
policy in it and calls that of the environment, which it may ask for the losses of several rounds
at once.  Otherwise both enter as first-class functions of
the shapes in `bothworlds.lanes.kernels`, and one loop is compiled for all of them.  Kernels that
only know scalars (a user's own, for instance) run lane by lane there.

Layout of a tile: state rows hold ``LANES`` values each; for a scalar kernel every repetition's
rows lie together instead.  Where a vector has fewer lanes (`bothworlds.lanes.native`), the groups
of a tile play one after the other up to the next checkpoint; no lane reads another's numbers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba.core import types

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.kernels import calling, shapes, words
from bothworlds.lanes.random import WORDS, keep_words, uniform, uniforms, words_of
from bothworlds.lanes.rows import add_to
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    ZEROS,
    advance,
    any_lane,
    few_numbers,
    group,
    load,
    negate,
    numbers_at,
    pointer,
    shift_left,
    shift_right,
    splat,
    splat_int,
    store,
    stride,
    to_float,
    width,
    words_at,
)
from bothworlds.lanes.vectors import zeros as whole_zeros
from bothworlds.lanes.wrap import bound

WIDE_POLICY, WIDE_ENVIRONMENT, ATTACKED, UNTRUSTED, ALONE = 1, 2, 4, 8, 16
"""Bits of the mode: which kernels take vectors, whether an attack stage follows, whether losses
must be examined because a user's function makes them, and whether a single repetition plays by
kernels that could take vectors, compiled for one."""

DONE, BAD_ARM, BAD_LOSS = 0, 1, 2
"""Codes that `run_tile` returns."""

BYTES, FULL = 8, 255
"""Arms that have a byte each of a word to count their plays in, and the largest count."""

zeros: Any = None
duel = False
"""A template's ``like``, and whether there is a rival; `of_width` fills them in."""
choose: Any = None
update: Any = None
"""A template's policy; `rounds_of` fills it in."""
lose: Any = None
"""A template's environment; `losses_of` fills it in."""
sure: Any = None
stay: Any = None
leader: Any = None
"""Kernels of a policy that knows its arms ahead; `ahead_of` fills them in."""

AHEAD = 8
"""Largest number of rounds that are played at once; `few_numbers` has room for their losses."""


@functools.cache
def of_width(template: Any, lanes: int, *kind: str) -> Any:
    """Return a loop for vectors of this many lanes; of the kind "duel", for two sides."""
    names = {"zeros": ZEROS[lanes], "duel": "duel" in kind}
    return bound(template, release=True, lanes=(lanes, *kind), **names)


@inlined
def count_plays(N: Any, K: int, arm: Any, times: int) -> None:
    """Count that the chosen arms were played this many times."""
    add_to(N, 0, K, arm, splat(float(times), arm))


@inlined
def count_held(N: Any, K: int, arm: Any, held: Any, times: int, n: int) -> Any:
    """Count ``n`` plays of the chosen arms; return the count held back, and the plays in it.

    Few arms have a byte each of a lane's word.  With more, plays of the arm that a lane played
    before are counted together: late in a run they are nearly all.
    """
    if K <= BYTES:
        if times + n > FULL:
            release_held(N, K, held, times)
            held = splat_int(0, arm)
            times = 0
        held = held + shift_left(splat_int(n, arm), shift_left(arm, 3))
    elif any_lane(arm != held):
        count_plays(N, K, held, times)
        held = arm
        times = 0
    return held, times + n


@jit
def release_held(N: Any, K: int, held: Any, times: int) -> None:
    """Add the count held back to the plays."""
    if K <= BYTES:
        for i in range(K):
            plays = to_float(shift_right(held, 8 * i) & FULL)
            store(N, i, load(N, i, plays) + plays)
    else:
        count_plays(N, K, held, times)


@jit
def out_of_range(loss: Any) -> Any:
    """Tell whether any loss is not a number in [0, 1]."""
    return any_lane(negate((loss >= 0.0) & (loss <= 1.0)))


@jit
def stretch_end(last: int, checkpoints: Any, outputs: Any) -> Any:
    """Return the next round that is recorded, or the last to be played."""
    if outputs[3] < checkpoints.size:
        return min(last, checkpoints[outputs[3]])
    return last


@jit
def record(t: int, checkpoints: Any, outputs: Any, K: int, E: Any, rows: int, lanes: int) -> None:
    """Write the regret so far, and the tracked sums, if round t is the next checkpoint.

    ``rows`` is the length of a repetition's state where repetitions lie one after another, or 0
    where they are interleaved; ``lanes`` is how many there is room for.
    """
    row = outputs[3]
    if row >= checkpoints.size or t != checkpoints[row]:
        return
    X = numbers_at(outputs[0])
    W = numbers_at(outputs[2])
    tracked = outputs[4]
    for lane in range(lanes):
        X[(1 + row) * lanes + lane] = X[lane]
        if tracked >= 0:
            for i in range(K + 1):
                at = lane * rows + tracked + i if rows > 0 else (tracked + i) * lanes + lane
                W[(row * (K + 1) + i) * lanes + lane] = E[at]
    outputs[3] += 1


loss_at = calling(lambda lanes: shapes(lanes).loss)


def play_rounds(
    lose: int, untrusted: bool, K: int, first: int, last: int, policy: Any, environment: Any,
    outputs: Any, begin: int, like: Any,
) -> int:  # fmt: skip
    """Play rounds ``first`` to ``last`` in the lanes from ``begin`` on; a template.

    It holds the kernels of one policy, and calls those of any environment: see `run_alike`.
    """
    C = numbers_at(policy[0])
    S = group(numbers_at(policy[1]), begin, like)
    G = group(words_at(policy[2]), begin, like)
    CE = numbers_at(environment[0])
    E = group(numbers_at(environment[1]), begin, like)
    GE = group(words_at(environment[2]), begin, like)
    X = group(numbers_at(outputs[0]), begin, like)
    N = group(numbers_at(outputs[1]), begin, like)
    total = load(X, 0, like)
    held = splat_int(0, like)
    times = 0
    for t in range(first, last + 1):
        arm = choose(K, t, C, S, G, uniform(G, like))
        loss = loss_at(lose, (K, t, CE, E, GE, uniform(GE, like), arm))
        if untrusted and out_of_range(loss):
            return BAD_LOSS
        update(K, t, C, S, G, arm, load(S, 0, like), loss)
        total = total + load(E, 0, like)
        held, times = count_held(N, K, arm, held, times, 1)
    release_held(N, K, held, times)
    store(X, 0, total)
    return DONE


def lose_in_rounds(
    K: int, t: int, n: int, C: Any, E: Any, G: Any, arm: Any, X: Any, total: Any
) -> Any:  # fmt: skip
    """Play one arm in ``n`` rounds from round t on; return ``total`` with what regret they add.

    The rows of ``X`` take the losses.  A template.
    """
    for i in range(n):
        store(X, i, lose(K, t + i, C, E, G, uniform(G, total), arm))
        total = total + load(E, 0, total)
    return total


@functools.cache
def losses_of(loss: Any) -> Any:
    """Return the kernel of several rounds for that of one: its own or a general one."""
    own = getattr(loss, "in_rounds", None)
    return own or bound(lose_in_rounds, lose=loss)


@functools.cache
def losses_shape(lanes: int) -> Any:
    """Return the signature of `lose_in_rounds` for vectors of this many lanes."""
    number, (K, t, C, E, G, _, arm) = shapes(lanes).loss.return_type, shapes(lanes).loss.args
    return number(K, t, types.int64, C, E, G, arm, C, number)


losses_at = calling(losses_shape)


def play_ahead(
    lose: int, untrusted: bool, K: int, first: int, last: int, policy: Any, environment: Any,
    outputs: Any, begin: int, like: Any,
) -> int:  # fmt: skip
    """Play the first of these rounds, as long as the arms are known several rounds ahead.

    Returns the first round that is not played, or 0 after an invalid loss.  A template.
    """
    C = numbers_at(policy[0])
    S = group(numbers_at(policy[1]), begin, like)
    G = group(words_at(policy[2]), begin, like)
    CE = numbers_at(environment[0])
    E = group(numbers_at(environment[1]), begin, like)
    GE = group(words_at(environment[2]), begin, like)
    R = group(numbers_at(outputs[0]), begin, like)
    N = group(numbers_at(outputs[1]), begin, like)
    U = few_numbers()
    X = few_numbers()
    end = last
    calm, least = sure(K, first, end, C, S, like)
    if not calm:
        end = min(last, first + AHEAD - 1)
        calm, least = sure(K, first, end, C, S, like)
        if not calm:
            return first
    arm = leader(K, S, like)
    held = splat_int(0, like)
    times = 0
    t = first
    while t <= end:
        n = min(AHEAD, end + 1 - t)
        words, top = uniforms(words_of(G, like), n, U, like)
        if any_lane(top >= least):
            end = t
            while not any_lane(load(U, end - t, like) >= least):
                end += 1
            n = end - t
            end -= 1
            words, top = uniforms(words_of(G, like), n, U, like)
        keep_words(G, words)
        total = load(R, 0, like)
        store(R, 0, losses_at(lose, (K, t, n, CE, E, GE, arm, X, total)))
        if untrusted:
            for i in range(n):
                if out_of_range(load(X, i, like)):
                    return 0
        stay(K, t, n, C, S, X, like)
        held, times = count_held(N, K, arm, held, times, n)
        t += n
    release_held(N, K, held, times)
    return t


@functools.cache
def play_shape(lanes: int) -> Any:
    """Return the signature of `play_rounds` for vectors of this many lanes."""
    number, pointers = shapes(lanes).loss.return_type, (words,) * 3
    return types.int64(
        types.int64, types.boolean, *(types.int64,) * 3, *pointers, types.int64, number
    )


play_at = calling(play_shape)


@functools.cache
def rounds_of(choose: Any, update: Any) -> Any:
    """Return `play_rounds` with the kernels of a policy."""
    return bound(play_rounds, choose=choose, update=update)


@functools.cache
def ahead_of(ahead: Any) -> Any:
    """Return `play_ahead` with the kernels of a policy, a `bothworlds.policies.base.Ahead`."""
    return bound(play_ahead, **ahead._asdict())


@jit
def play_group(
    codes: Any, untrusted: bool, K: int, first: int, last: int, policy: Any, environment: Any,
    outputs: Any, begin: int, like: Any,
) -> Any:  # fmt: skip
    """Play rounds ``first`` to ``last`` in the lanes from ``begin`` on; see `run_alike`.

    Lanes enter or leave a leader mode in none of them, or there is only one.
    """
    play = codes[0]
    if codes.size > 2 and first % codes[5] != 0:
        leads = load(group(numbers_at(policy[1]), begin, like), codes[4], like) != 0.0
        if not any_lane(leads):
            play = codes[2]
        elif not any_lane(negate(leads)):
            play = codes[3]
    given = (codes[1], untrusted, K, first, last, policy, environment, outputs, begin, like)
    return play_at(play, given)


@jit
def play_stretch(
    codes: Any, untrusted: bool, K: int, first: int, last: int, policy: Any, environment: Any,
    outputs: Any, like: Any, whole: Any,
) -> Any:  # fmt: skip
    """Do the same in all lanes, ahead if that is possible."""
    t = first
    while t <= last:
        until = last
        if codes.size > 6 and first % codes[5] != 0:
            leads = load(numbers_at(policy[1]), codes[4], whole) != 0.0
            if not any_lane(negate(leads)):
                given = (codes[7], untrusted, K, t, last, policy, environment, outputs, 0, whole)
                reached = play_at(codes[6], given)
                if reached == 0:
                    return BAD_LOSS
                # Where no round can be played ahead, few of the next ones can.
                until = last if reached == t else min(last, reached)
                t = reached
        if t <= last:
            for begin in range(0, stride(like), width(like)):
                status = play_group(
                    codes, untrusted, K, t, until, policy, environment, outputs, begin, like
                )
                if status != DONE:
                    return status
        t = until + 1
    return DONE


@jit
def run_alike(
    codes: Any,
    untrusted: bool,
    K: int,
    first: int,
    last: int,
    policy: Any,
    environment: Any,
    checkpoints: Any,
    outputs: Any,
    like: Any,
    whole: Any,
) -> Any:
    """Same as `run_tile` where both kernels take values like ``like`` and there is no attack.

    ``codes`` are the addresses of `play_rounds` for the policy and of ``loss``.  Those of
    `play_rounds` for its `bothworlds.policies.base.Phases` may follow, with the numbers of these;
    then those of `play_ahead` and `lose_in_rounds` for values like ``whole``, which has all lanes.
    ``untrusted`` is whether losses must be examined.
    """
    sides = pointer(policy), pointer(environment), pointer(outputs)
    every = codes[5] if codes.size > 2 else 0
    t = first
    while t <= last:
        stop = stretch_end(last, checkpoints, outputs)
        while t <= stop:
            until = stop
            if every > 0:
                until = t if t % every == 0 else min(stop, t + every - 1 - t % every)
            status = play_stretch(
                codes, untrusted, K, t, until, sides[0], sides[1], sides[2], like, whole
            )
            if status != DONE:
                return status
            t = until + 1
        record(stop, checkpoints, outputs, K, numbers_at(environment[1]), 0, stride(like))
    return DONE


def run_wide(
    codes: Any, untrusted: bool, K: int, first: int, last: int, policy: Any, environment: Any,
    checkpoints: Any, outputs: Any,
) -> Any:  # fmt: skip
    """Play a tile; see `run_alike`; a template."""
    return run_alike(
        codes, untrusted, K, first, last, policy, environment, checkpoints, outputs, zeros(),
        whole_zeros(),
    )  # fmt: skip


@jit
def run_one(
    codes: Any, untrusted: bool, K: int, first: int, last: int, policy: Any, environment: Any,
    checkpoints: Any, outputs: Any,
) -> Any:  # fmt: skip
    """Play a single repetition, by the same kernels compiled for one; see `run_alike`."""
    return run_alike(
        codes, untrusted, K, first, last, policy, environment, checkpoints, outputs, 0.0, 0.0
    )


@inlined
def choose_lanes(
    choose: Any, ours: Any, K: int, t: int, side: Any, arms: Any, inverse_p: Any
) -> bool:
    """Choose for each of ``ours``; return whether all chose an arm."""
    C, S, G, rows = numbers_at(side[0]), numbers_at(side[1]), words_at(side[2]), side[3]
    for lane in ours:
        s = advance(S, lane * rows)
        g = advance(G, lane * WORDS)
        arms[lane] = choose(K, t, C, s, g, uniform(g, 0.0))
        inverse_p[lane] = s[0]
        if not 0 <= arms[lane] < K:
            return False
    return True


@inlined
def update_lanes(
    update: Any, ours: Any, K: int, t: int, side: Any, arms: Any, inverse_p: Any, losses: Any
) -> None:
    """Let each of ``ours`` learn."""
    C, S, G, rows = numbers_at(side[0]), numbers_at(side[1]), words_at(side[2]), side[3]
    for lane in ours:
        s = advance(S, lane * rows)
        g = advance(G, lane * WORDS)
        update(K, t, C, s, g, arms[lane], inverse_p[lane], losses[lane])


def run_tile(
    choose_wide: Any,
    update_wide: Any,
    lose_wide: Any,
    attack_wide: Any,
    rival_choose_wide: Any,
    rival_update_wide: Any,
    choose_one: Any,
    update_one: Any,
    lose_one: Any,
    attack_one: Any,
    rival_choose_one: Any,
    rival_update_one: Any,
    mode: int,
    lanes: int,
    K: int,
    first: int,
    last: int,
    policy: Any,
    rival: Any,
    environment: Any,
    attack: Any,
    checkpoints: Any,
    outputs: Any,
) -> Any:
    """Play rounds ``first`` to ``last``; return `DONE` or the fault of a scalar kernel.

    A template.  In a ``duel`` the policy has a rival, whose state may be the same memory.  They
    choose one after the other and learn in that order once the duel is over.

    Parameters
    ----------
    mode : int
        Sum of `WIDE_POLICY`, `WIDE_ENVIRONMENT`, `ATTACKED`, `UNTRUSTED`.
    lanes : int
        Repetitions in use; scalar kernels skip the rest.
    policy, rival, environment : array of int
        Addresses of configuration, state and generator, and the rows of a repetition.
    attack : array of int
        Addresses of its configuration and state, and the rows of a repetition.
    checkpoints : array of int
        Rounds to record, increasing; the first ``outputs[3]`` of them are done.
    outputs : array of int
        Addresses of the regret record, the plays and the tracked sums, the next checkpoint and
        the first tracked row or -1.
    """
    C = numbers_at(policy[0])
    CE = numbers_at(environment[0])
    environment_rows = environment[3]
    CA = numbers_at(attack[0])
    attacked = mode & ATTACKED != 0
    untrusted = mode & UNTRUSTED != 0
    wide_policy = mode & WIDE_POLICY != 0
    wide_environment = mode & WIDE_ENVIRONMENT != 0
    like = zeros()
    arms, others = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    draws, other_draws = np.zeros(LANES), np.zeros(LANES)
    values, other_values = np.zeros(LANES), np.zeros(LANES)
    t = first
    while t <= last:
        stop = stretch_end(last, checkpoints, outputs)
        for begin in range(0, LANES, width(like)):
            ours = range(begin, min(begin + width(like), lanes))
            a = group(pointer(arms), begin, like)
            b = group(pointer(others), begin, like)
            x = group(pointer(values), begin, like)
            y = group(pointer(other_values), begin, like)
            S = group(numbers_at(policy[1]), begin, like)
            G = group(words_at(policy[2]), begin, like)
            SR = group(numbers_at(rival[1]), begin, like)
            GR = group(words_at(rival[2]), begin, like)
            E = group(numbers_at(environment[1]), begin, like)
            GE = group(words_at(environment[2]), begin, like)
            A = group(numbers_at(attack[1]), begin, like)
            X = group(numbers_at(outputs[0]), begin, like)
            N = group(numbers_at(outputs[1]), begin, like)
            held = splat_int(0, like)
            times = 0
            inverse_p = splat(0.0, like)
            other_inverse_p = inverse_p
            for now in range(t, stop + 1):
                if wide_policy:
                    arm = choose_wide(K, now, C, S, G, uniform(G, like))
                    inverse_p = load(S, 0, like)
                elif choose_lanes(choose_one, ours, K, now, policy, arms, draws):
                    arm = load(a, 0, like)
                else:
                    return BAD_ARM
                if duel:
                    if wide_policy:
                        other = rival_choose_wide(K, now, C, SR, GR, uniform(GR, like))
                        other_inverse_p = load(SR, 0, like)
                    elif choose_lanes(rival_choose_one, ours, K, now, rival, others, other_draws):
                        other = load(b, 0, like)
                    else:
                        return BAD_ARM
                if wide_environment:
                    v = uniform(GE, like)
                    if duel:
                        loss = lose_wide(K, now, CE, E, GE, v, arm, other)
                    elif attacked:
                        loss = attack_wide(lose_wide, K, now, CE, E, GE, v, arm, CA, A)
                    else:
                        loss = lose_wide(K, now, CE, E, GE, v, arm)
                    store(X, 0, load(X, 0, like) + load(E, 0, like))
                else:
                    store(a, 0, arm)
                    if duel:
                        store(b, 0, other)
                    for lane in ours:
                        g = advance(words_at(environment[2]), lane * WORDS)
                        e = advance(numbers_at(environment[1]), lane * environment_rows)
                        w = uniform(g, 0.0)
                        if duel:
                            values[lane] = lose_one(K, now, CE, e, g, w, arms[lane], others[lane])
                        elif attacked:
                            values[lane] = attack_one(
                                lose_one, K, now, CE, e, g, w, arms[lane], CA,
                                advance(numbers_at(attack[1]), lane * attack[2]),
                            )  # fmt: skip
                        else:
                            values[lane] = lose_one(K, now, CE, e, g, w, arms[lane])
                        X[lane - begin] += e[0]
                    loss = load(x, 0, like)
                if (untrusted or not wide_environment) and out_of_range(loss):
                    return BAD_LOSS
                if wide_policy:
                    update_wide(K, now, C, S, G, arm, inverse_p, loss)
                    if duel:
                        rival_update_wide(K, now, C, SR, GR, other, other_inverse_p, 1.0 - loss)
                else:
                    store(x, 0, loss)
                    update_lanes(update_one, ours, K, now, policy, arms, draws, values)
                    if duel:
                        store(y, 0, 1.0 - loss)
                        update_lanes(
                            rival_update_one, ours, K, now, rival, others, other_draws, other_values
                        )
                held, times = count_held(N, K, arm, held, times, 1)
                if duel:
                    held, times = count_held(N, K, other, held, times, 1)
            release_held(N, K, held, times)
        rows = 0 if wide_environment else environment_rows
        record(stop, checkpoints, outputs, K, numbers_at(environment[1]), rows, LANES)
        t = stop + 1
    return DONE


_integers = types.int64[::1]
RUN_ALIKE = types.int64(_integers, types.boolean, *(types.int64,) * 3, *(_integers,) * 4)


def run_tile_shape(lanes: int, duel: bool) -> Any:
    """Return the signature of `run_tile` for vectors of this many lanes."""
    functions = [
        types.FunctionType(signature)
        for own in (shapes(lanes), shapes(1))
        for signature in (
            own.choose, own.update, own.prefer if duel else own.loss, own.attack,
            own.choose, own.update,
        )
    ]  # fmt: skip
    return types.int64(*functions, *(types.int64,) * 5, *(_integers,) * 6)


# Stand-ins for the flavour a pair of kernels does not use; never called.


@jit
def idle_choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Choose arm 0."""
    return splat_int(0, u)


@jit
def idle_update(
    K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any
) -> None:
    """Learn nothing."""


@jit
def idle_loss(K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any) -> Any:
    """Give loss 0."""
    return splat(0.0, v)


@jit
def idle_attack(
    base: Any, K: int, t: int, C: Any, E: Any, G: Any, v: Any, arm: Any, CA: Any, A: Any
) -> Any:
    """Change nothing."""
    return base(K, t, C, E, G, v, arm)


@jit
def idle_prefer(K: int, t: int, C: Any, E: Any, G: Any, v: Any, left: Any, right: Any) -> Any:
    """Let the left side win."""
    return splat(0.0, v)
