"""Thompson sampling in tiles, without drawing every arm.

Late in a run one arm leads, and nearly every round plays it.  A level c lies between the leader L
and the other arms: theta_L is below c and theta_i above it but for rare exceptions, whose
probabilities are known beforehand.

======== ==========================================================================
``m_i``  mass of arm i beyond the level, where it rarely is: above c for L, below c for all other
         arms; `bothworlds.policies.thompson.tails` computes this mass and draws there
``EDGE`` the sum of all m
``u``    the round's uniform number
======== ==========================================================================

A round: u >= EDGE plays L.  Otherwise the arms are walked through: i is the first *candidate* where
u is between the sums of m_j prod_{k < j} (1 - m_k), a new u decides about the arms after it, and a
candidate is kept or not.  Then

1. L not above c, no arm below: L.
2. L not above c, an arm below: theta_L is drawn until it is below c, and the least wins.
3. L above c, an arm below: the least of them.
4. L above c, no arm below: every other arm is drawn until above c, and the least of all wins.

An arm with m = 1 is drawn in full and may be on either side.  The arms have the probabilities of
plain Thompson sampling, regardless of L and c; only the cost depends on them.

m_L changes with every play of L.  Instead of m_L the bound m_L(x + M, y) is kept: where c is above
the mean, f / |g| grows with x and falls with y, so it holds until x passes LIMIT = x + M.  A
candidate L is thinned by the ratio of the two.

Where arms tie, two to four *contenders* are drawn in full in every round, by vectors, and only the
others are compared with u and the level.  Where even that does not pay all arms are drawn: the mode
of a lane is lazy, contended or plain.  Masses, level and mode follow from the counts; a lane sets
them up again when they no longer serve, by rules that only depend on its own past.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from bothworlds.lanes.distributions import bits_where, gamma_pair
from bothworlds.lanes.functions import log
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import WORDS, uniform, unit
from bothworlds.lanes.rows import put, take
from bothworlds.lanes.vectors import (
    advance,
    any_lane,
    counting,
    gather,
    lane,
    load,
    own_words,
    select,
    splat,
    splat_int,
    sqrt,
    store,
    stride,
    to_float,
    to_index,
    width,
)
from bothworlds.policies.base import LARGEST, Array, Kernels, Policy, Program
from bothworlds.policies.thompson.tails import density, draw_tail, mass, slope

# Rows before the arms'.
EDGE = 1  # see above; ALWAYS where every round needs more than a comparison
LEAD = 2  # L; -1 unless lazy
LIMIT = 3  # losses of L up to which its mass holds
LEVEL = 4  # c
MODE = 5  # LAZY, CONTENDED or PLAIN
NEXT = 6  # the round from which a lane may be set up again
WAIT = 7  # rounds between two set-ups
COST = 8  # of a round, as estimated at the last set-up
DISTANCE = 9  # (c - mean_L) / sd_L at the last set-up
REST = 10  # the sum of m over the arms that are no contenders
COUNT = 11  # how many contenders there are
CONTENDERS = 12  # the first of MOST rows: the arms
MOST = 4
PICK = CONTENDERS + MOST  # the arm of this round
VALUE = PICK + 1  # the least theta of the contenders
ARMS = VALUE + 1
# Groups of a row per arm: x, y, m, and the roots 1 / sqrt(9 d) of `gamma_pair` for d = x + 2/3 and
# y + 2/3, which are kept up while a lane is plain.
GROUPS = 5

LAZY, CONTENDED, PLAIN = 0.0, 1.0, 2.0
ALWAYS = 1e9
CONTENDER = -1.0  # the m of a contender; not 0, which a mass may underflow to

BELOW, ABOVE = -1.0, 1.0  # sides of the level
TWO_THIRDS = 2.0 / 3.0  # the shape 1 + x of a gamma variate is d + 1/3 with d = x + 2/3
DEAR = 6.0  # cost of a pair of gamma variates in one lane, in pairs of a tile's vectors
FEWEST_WAIT = 8.0


@jit
def mean_and_spread(x: float, y: float) -> Any:
    """Return mean and standard deviation of theta."""
    mean = (x + 1.0) / (x + y + 2.0)
    return mean, math.sqrt(mean * (1.0 - mean) / (x + y + 3.0))


@jit
def limit_of(x: float, y: float, c: float) -> float:
    """Return up to how many losses the mass of the leader is bounded at a time."""
    ratio = c * (x + y + 2.0) / (x + 1.0)
    step = 0.7 / log(ratio) if ratio > 1.0 else 1.0
    return x + max(1.0, math.floor(step))


@jit
def slow_cost(mass: float, K: int) -> float:
    """Return the cost of candidates of this mass in a round, in pairs of gamma variates."""
    return (min(1.0, mass) * (2.0 + K / 16.0) + mass) * DEAR


@jit
def first_arm(K: int, s: Any, W: int) -> int:
    """Return L: the arm whose posterior ends lowest."""
    best = 0
    least = 2.0
    for i in range(K):
        mean, sd = mean_and_spread(s[(ARMS + i) * W], s[(ARMS + K + i) * W])
        if mean + 2.5 * sd < least:
            least = mean + 2.5 * sd
            best = i
    return best


@jit
def level_above(K: int, s: Any, W: int, L: int) -> float:
    """Return c, near the least of (1 + K / 2) P(theta_L > c) + sum_i P(theta_i < c).

    There (1 + K / 2) f_L = sum_i f_i; Newton's steps are taken on the logarithms of both sides.
    Arms that would be drawn in full anyway are left out.
    """
    x = s[(ARMS + L) * W]
    y = s[(ARMS + K + L) * W]
    mean, sd = mean_and_spread(x, y)
    highest = min(mean + 5.0 * sd, 1.0 - 0.1 * (1.0 - mean))
    lowest = min(mean + 1.5 * sd, highest)
    c = min(mean + 2.5 * sd, highest)
    for _ in range(3):
        total = 0.0
        sloped = 0.0
        for i in range(K):
            if i != L:
                xi = s[(ARMS + i) * W]
                yi = s[(ARMS + K + i) * W]
                g = slope(xi, yi, c)
                if g > 0.0:
                    f = density(xi, yi, c)
                    if f <= 0.3 * g:
                        total += f
                        sloped += f * g
        own = (1.0 + 0.5 * K) * density(x, y, c)
        move = sd
        if own < 1e-290:
            move = -sd
        elif total > 1e-290:
            move = (log(own) - log(total)) / (sloped / total - slope(x, y, c))
            move = min(max(move, -sd), sd)
        before = c
        c = min(max(c + move, lowest), highest)
        if abs(c - before) < 0.1 * sd:
            break
    return float(c)


@jit
def set_up(K: int, t: int, s: Any, W: int) -> None:
    """Choose leader, level and mode of one lane, whose rows begin at ``s`` and are ``W`` apart."""
    masses = ARMS + 2 * K
    L = first_arm(K, s, W)
    c = level_above(K, s, W, L)
    x = s[(ARMS + L) * W]
    y = s[(ARMS + K + L) * W]
    limit = limit_of(x, y, c)
    r = mass(limit, y, c, ABOVE)
    Q = 0.0
    wide_count = 1.0
    wide_rest = 0.0
    count = 1.0
    rest = 0.0
    for i in range(K):
        if i != L:
            m = mass(s[(ARMS + i) * W], s[(ARMS + K + i) * W], c, BELOW)
            s[(masses + i) * W] = m
            Q += m
            if m > 0.03:
                wide_count += 1.0
            else:
                wide_rest += m
            if m > 0.3:
                count += 1.0
            else:
                rest += m
    s[(masses + L) * W] = r
    resolving = r * K * DEAR
    cost = slow_cost(Q, K) + resolving
    mode = LAZY
    line = 2.0
    if 2.0 <= count <= MOST:
        contended = 1.15 * count + slow_cost(rest, K) + resolving
        if contended < cost:
            cost = contended
            mode = CONTENDED
            line = 0.3
    if 2.0 <= wide_count <= MOST:
        contended = 1.15 * wide_count + slow_cost(wide_rest, K) + resolving
        if contended < cost:
            cost = contended
            mode = CONTENDED
            line = 0.03
            rest = wide_rest
    if cost > (0.25 if K <= 3 else 0.85) * K:
        cost = float(K)
        mode = PLAIN
    mean, sd = mean_and_spread(x, y)
    s[LEVEL * W] = c
    s[MODE * W] = mode
    s[DISTANCE * W] = (c - mean) / sd
    s[EDGE * W] = r + Q if mode == LAZY else ALWAYS
    s[LEAD * W] = float(L) if mode == LAZY else -1.0
    s[LIMIT * W] = limit
    s[COUNT * W] = 0.0
    if mode == CONTENDED:
        s[REST * W] = rest
        n = 0
        for i in range(K):
            if i == L or s[(masses + i) * W] > line:
                s[(CONTENDERS + n) * W] = float(i)
                s[(masses + i) * W] = CONTENDER
                n += 1
        s[COUNT * W] = float(n)
    if mode == PLAIN:
        for row in range(ARMS, ARMS + 2 * K):
            s[(row + 3 * K) * W] = 1.0 / math.sqrt(9.0 * (s[row * W] + TWO_THIRDS))
    wait = FEWEST_WAIT
    if cost >= 0.7 * s[COST * W]:
        wait = min(2.0 * s[WAIT * W], 1024.0 + t / 1024.0)
    s[COST * W] = cost
    s[WAIT * W] = wait
    s[NEXT * W] = t + wait


@jit
def moved(K: int, s: Any, W: int) -> bool:
    """Tell whether the level of a lazy lane lies elsewhere, seen from its leader, than it did."""
    L = int(s[LEAD * W])
    mean, sd = mean_and_spread(s[(ARMS + L) * W], s[(ARMS + K + L) * W])
    return bool(abs((s[LEVEL * W] - mean) / sd - s[DISTANCE * W]) > 0.75)


@jit
def freeze(G: Any, moving: Any, w0: Any, w1: Any, w2: Any, w3: Any) -> None:
    """Put the generators back to these words except where ``moving``."""
    store(G, 0, select(moving, load(G, 0, w0), w0))
    store(G, 1, select(moving, load(G, 1, w0), w1))
    store(G, 2, select(moving, load(G, 2, w0), w2))
    store(G, 3, select(moving, load(G, 3, w0), w3))


@jit
def draw_unit(G: Any, W: int, place: int) -> float:
    """Draw a uniform number in [0, 1) from the generator of lane ``place``."""
    state = own_words()
    for word in range(WORDS):
        state[word] = G[word * W + place]
    v = uniform(state, 0.0)
    for word in range(WORDS):
        G[word * W + place] = state[word]
    return float(v)


@jit
def draw_theta(x: float, y: float, G: Any, place: int, like: Any) -> float:
    """Draw theta of lane ``place`` as a tile draws it: gamma variates of one alone need no code."""
    w0, w1, w2, w3 = load(G, 0, like), load(G, 1, like), load(G, 2, like), load(G, 3, like)
    drawn = counting(0, like) == place
    d = splat(x + TWO_THIRDS, like)
    e = splat(y + TWO_THIRDS, like)
    # Without a root a proposal is accepted at once.
    A, B = gamma_pair(
        d,
        select(drawn, 1.0 / sqrt(9.0 * d), 0.0),
        e,
        select(drawn, 1.0 / sqrt(9.0 * e), 0.0),
        G,
        like,
    )
    freeze(G, drawn, w0, w1, w2, w3)
    return float(lane(A / (A + B), place))


@jit
def settle(K: int, S: Any, G: Any, place: int, u: float, like: Any) -> int:
    """Return the arm of a round that a comparison did not settle, in lane ``place``."""
    W = stride(like)
    s = advance(S, place)
    c = s[LEVEL * W]
    lazy = s[MODE * W] == LAZY
    L = int(s[LEAD * W])
    # The arm with the least value known, other than L, and the value of L if above the level.
    arm = -1
    least = 2.0
    above = -1.0
    if not lazy:
        arm = int(s[PICK * W])
        least = s[VALUE * W]
    if lazy or u < s[REST * W]:
        passed = 0.0
        left = 1.0
        for i in range(K):
            m = s[(ARMS + 2 * K + i) * W]
            if m < 0.0:
                continue
            passed += left * m
            left *= 1.0 - m
            if u < passed or m >= 1.0:
                x = s[(ARMS + i) * W]
                y = s[(ARMS + K + i) * W]
                value = -1.0
                if m >= 1.0:
                    value = draw_theta(x, y, G, place, like)
                elif i != L or draw_unit(G, W, place) * m < density(x, y, c) / -slope(x, y, c):
                    value = draw_tail(x, y, c, draw_unit(G, W, place), draw_unit(G, W, place))
                if i == L:
                    above = value
                elif 0.0 <= value < least:
                    least = value
                    arm = i
                u = draw_unit(G, W, place)
                passed = 0.0
                left = 1.0
    # Which other arms have to be drawn, and on which side of the level: L, all others, or none.
    whom = L
    if above >= 0.0:
        if above < least:
            least = above
            arm = L
        whom = -1
    if lazy and whom == L and least >= c:
        return L
    if whom != L or not lazy:
        if least < c:
            return arm
        s[NEXT * W] -= 0.25 * s[WAIT * W]
        whom = -1
    for i in range(K):
        m = s[(ARMS + 2 * K + i) * W]
        if i == whom or (whom < 0 and i != L and 0.0 <= m < 1.0):
            x = s[(ARMS + i) * W]
            y = s[(ARMS + K + i) * W]
            value = draw_theta(x, y, G, place, like)
            while (value < c) != (i == whom):
                value = draw_theta(x, y, G, place, like)
            if value < least:
                least = value
                arm = i
    return arm


@jit
def overdue(K: int, t: int, s: Any, W: int) -> bool:
    """Tell whether a lazy lane, whose round was slow, should be set up again."""
    edge = s[EDGE * W]
    return bool((edge > 0.03 and t >= s[NEXT * W]) or (edge > 0.001 and moved(K, s, W)))


@jit
def draw_all(K: int, S: Any, G: Any, plain: Any, like: Any) -> Any:
    """Return argmin theta, all of it drawn, in lanes that are plain; other lanes draw nothing."""
    w0, w1, w2, w3 = load(G, 0, like), load(G, 1, like), load(G, 2, like), load(G, 3, like)
    arm = splat_int(0, like)
    A = splat(1.0, like)
    B = splat(0.0, like)
    for i in range(ARMS, ARMS + K):
        # Without a root a proposal is accepted at once: no lane waits for others.
        a, b = gamma_pair(
            load(S, i, like) + TWO_THIRDS,
            select(plain, load(S, i + 3 * K, like), 0.0),
            load(S, i + K, like) + TWO_THIRDS,
            select(plain, load(S, i + 4 * K, like), 0.0),
            G,
            like,
        )
        better = a * B < A * b
        arm = select(better, i - ARMS, arm)
        A = select(better, a, A)
        B = select(better, b, B)
    freeze(G, plain, w0, w1, w2, w3)
    return arm


@jit
def draw_contenders(K: int, S: Any, G: Any, contended: Any, like: Any) -> Any:
    """Return the contender with the least theta, and that, in lanes that have contenders."""
    count = select(contended, load(S, COUNT, like), 0.0)
    arm = splat(0.0, like)
    least = splat(2.0, like)
    for n in range(MOST):
        drawn = count > n
        if not any_lane(drawn):
            break
        w0, w1, w2, w3 = load(G, 0, like), load(G, 1, like), load(G, 2, like), load(G, 3, like)
        who = select(drawn, load(S, CONTENDERS + n, like), 0.0)
        i = to_index(who)
        d = gather(S, ARMS, i) + TWO_THIRDS
        e = gather(S, ARMS + K, i) + TWO_THIRDS
        a, b = gamma_pair(
            d,
            select(drawn, 1.0 / sqrt(9.0 * d), 0.0),
            e,
            select(drawn, 1.0 / sqrt(9.0 * e), 0.0),
            G,
            like,
        )
        freeze(G, drawn, w0, w1, w2, w3)
        value = a / (a + b)
        better = drawn & (value < least)
        arm = select(better, who, arm)
        least = select(better, value, least)
    return arm, least


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Return argmin theta, of which as little is drawn as decides it."""
    edge = load(S, EDGE, u)
    pick = load(S, LEAD, u)
    if not any_lane(u < edge):
        return to_index(pick)
    mode = load(S, MODE, u)
    slow = (mode == LAZY) & (u < edge)
    plain = mode == PLAIN
    if any_lane(plain):
        pick = select(plain, to_float(draw_all(K, S, G, plain, u)), pick)
    contended = mode == CONTENDED
    if any_lane(contended):
        arm, value = draw_contenders(K, S, G, contended, u)
        pick = select(contended, arm, pick)
        store(S, VALUE, value)
        slow = slow | (contended & ((u < load(S, REST, u)) | (value >= load(S, LEVEL, u))))
    store(S, PICK, pick)
    due = (mode > LAZY) & (load(S, NEXT, u) <= float(t))
    if any_lane(slow | due):
        W = stride(u)
        work = select(slow, 2.0, select(due, 1.0, 0.0))
        timely = select(due, 1.0, 0.0)
        for place in range(width(u)):
            s = advance(S, place)
            refresh = lane(timely, place) > 0.0
            if lane(work, place) > 1.0:
                s[PICK * W] = float(settle(K, S, G, place, lane(u, place), u))
                if s[MODE * W] == LAZY:
                    refresh = overdue(K, t, s, W)
            # After the draw: a set-up that depended on u would favour some arms in this round.
            if refresh:
                set_up(K, t, s, W)
    return to_index(load(S, PICK, u))


@jit
def renew(K: int, t: int, s: Any, W: int, arm: int) -> None:
    """Renew the mass of an arm that was played, in the lane whose rows begin at ``s``."""
    c = s[LEVEL * W]
    x = s[(ARMS + arm) * W]
    y = s[(ARMS + K + arm) * W]
    at = (ARMS + 2 * K + arm) * W
    side = BELOW
    if arm == int(s[LEAD * W]):
        side = ABOVE
        x = limit_of(x, y, c)
        s[LIMIT * W] = x
    m = mass(x, y, c, side)
    sums = (EDGE if s[MODE * W] == LAZY else REST) * W
    s[sums] = max(s[sums] + (m - s[at]), m)
    s[at] = m
    if side == ABOVE and (m >= 1.0 or (s[sums] > 0.001 and moved(K, s, W))):
        set_up(K, t, s, W)


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """Count the loss as 1 with probability ``loss``, else as 0."""
    one = loss >= 1.0
    between = (loss > 0.0) & (loss < 1.0)
    if any_lane(between):
        one = one | (between & (unit(bits_where(between, G, loss)) < loss))
    side = select(one, arm, arm + K)
    d = take(S, ARMS, 2 * K, side) + 1.0
    put(S, ARMS, 2 * K, side, d)
    troubled = (arm != to_index(load(S, LEAD, loss))) | (one & (d > load(S, LIMIT, loss)))
    if not any_lane(troubled):
        return
    mode = load(S, MODE, loss)
    if any_lane(mode == PLAIN):
        put(S, ARMS + 3 * K, 2 * K, side, 1.0 / sqrt(9.0 * (d + TWO_THIRDS)))
    known = (mode == CONTENDED) & (take(S, ARMS + 2 * K, K, arm) >= 0.0)
    work = ((mode == LAZY) & troubled) | known
    if any_lane(work):
        wanted = select(work, 1.0, 0.0)
        for place in range(width(loss)):
            if lane(wanted, place) > 0.0:
                renew(K, t, advance(S, place), stride(loss), lane(arm, place))


_KERNELS = Kernels(choose, update)


def program(policy: Policy, n_arms: int) -> Program:
    """Return the program of `bothworlds.ThompsonSampling` in lanes."""
    return Program.of(
        policy, n_arms, _KERNELS, start=partial(start, n_arms), sound=partial(sound, n_arms),
        plain=False,
    )  # fmt: skip


def start(n_arms: int) -> Array:
    """Return the prior of every arm, in a lane that is set up in the first round."""
    head = np.zeros(ARMS)
    head[EDGE], head[LEAD], head[LEVEL], head[MODE] = ALWAYS, -1.0, 0.5, PLAIN
    head[WAIT], head[COST] = FEWEST_WAIT, n_arms
    groups = np.repeat([0.0, 0.0, 0.0, *[1.0 / np.sqrt(9.0 * TWO_THIRDS)] * 2], n_arms)
    return np.concatenate([head, groups])


def sound(n_arms: int, state: Array) -> bool:
    """Tell whether counts are counts, arms are arms, and no draw would be repeated for long."""
    x, y, m, roots_x, roots_y = state[ARMS:].reshape(GROUPS, n_arms, -1)
    lead, c, mode, count = (state[row] for row in (LEAD, LEVEL, MODE, COUNT))
    contenders = state[CONTENDERS : CONTENDERS + MOST]
    if not (np.abs(state) <= LARGEST).all():
        return False
    counts = np.stack([x, y])
    whole = np.concatenate([[lead, mode, count], contenders])
    arms = np.concatenate([[np.maximum(lead, 0.0)], contenders])
    if not (
        ((counts >= 0.0) & (counts < 2.0**52) & (counts == np.floor(counts))).all()
        and (whole == np.floor(whole)).all()
        and ((arms >= 0.0) & (arms < n_arms)).all()
        and ((mode >= LAZY) & (mode <= PLAIN) & ((lead >= 0.0) == (mode == LAZY))).all()
        and ((count >= 0.0) & (count <= MOST) & ((count > 0.0) == (mode == CONTENDED))).all()
        and ((c > 0.0) & (c < 1.0)).all()
    ):
        return False
    d = counts + TWO_THIRDS
    fresh = np.stack([roots_x, roots_y]) == 1.0 / np.sqrt(9.0 * d)
    mean = (x + 1.0) / (x + y + 2.0)
    leads = np.arange(n_arms)[:, None] == lead
    known = (m >= 0.0) & (m < 1.0) & (mode != PLAIN)
    right_side = np.where(leads, mean < c, mean > c)
    return bool(
        (fresh | (mode != PLAIN)).all()
        and (right_side | ~known).all()
        and (known | ~leads | (mode != LAZY)).all()
    )
