"""Change-point test of an arm's own losses, in a ring of dyadic partial sums.

What chose the arm does not matter: given that it was played, its losses are a sequence of their
own, and an ordinary test for a change of mean applies to it (Besson et al., 2022).

======== ==========================================================================
``N``    losses observed of the arm since the last alarm or restart
mu       their mean
``n``    where the sequence is cut; ``a`` is the mean of the first n, ``c`` of the rest
kl       the divergence of Bernoulli distributions; valid for any losses in [0, 1]
delta    1 - confidence
======== ==========================================================================

The alarm sounds if n kl(a, mu) + (N - n) kl(c, mu) > log(2 K N^(3/2) (1 + log2 N) / delta) for one
of the cuts.  There is no test while mu is 0 or 1.  As kl(p, mu) <= (p - mu)^2 / (mu (1 - mu)), the
left side is at most D^2 N / (n (N - n) mu (1 - mu)), D the sum of the first n losses less n mu:
divisions and logarithms are needed only where this bound passes the threshold.

For j = 0, 1, 2, ... two numbers are kept: the sum of the losses at the last two multiples of 2^j.
The older one makes a cut between 2^j and 2^(j+1) losses ago.  So an observation costs at most
log2 N cuts, and an arm 2 log2 N cells, regardless of what was observed.
"""

import functools
from typing import Any

from bothworlds.lanes.functions import divergence, is_due, log, log_below
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import ROUND as NOW
from bothworlds.lanes.kernels import calling
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    ZEROS,
    absolute,
    advance,
    any_lane,
    bits_float,
    counting,
    first_lane,
    float_bits,
    floor,
    gather,
    lane_bits,
    load,
    lowest_bit,
    maximum,
    minimum,
    numbers_at,
    pointer,
    scatter,
    select,
    shift_left,
    slide,
    splat,
    splat_int,
    store,
    stride,
    to_float,
    to_index,
    to_int,
    whole,
    width,
)
from bothworlds.lanes.wrap import TELL_AT, bound

LEVELS = 24
"""Cuts reach back at least 2^(LEVELS - 1) losses; a longer memory would tell no more."""
COUNT, SUM, CELLS = 0, 1, 2
FIELDS = CELLS + 2 * LEVELS
"""Numbers of an arm: N, the sum of its losses, and for every level the older and the newer sum."""

TOGETHER = LANES
"""Levels that a tile has side by side, the older sums only."""
SIDE_BY_SIDE = 8
"""Levels that a tile tests at every loss; those above move slowly."""
LANES_OF_WORD = 64 // SIDE_BY_SIDE
"""Lanes whose first levels fit into one word."""
PAUSE = 8.0
"""Losses for which the others need not be tested if all left sides are far from the threshold."""
NEXT = CELLS + TOGETHER
"""Number of a tile's arm: N from which on they must be tested again."""
SIZE_OF_LONG = 1 << SIDE_BY_SIDE
LONG = float(SIZE_OF_LONG)
"""N from which on there are such levels."""
FIRST_OF_REST = float(1 << TOGETHER)
"""N from which on there are more levels than those side by side."""
WHOLE = 2.0**52
"""Added to a whole number, leaves it in the low bits."""
ABOVE_WHOLE = -(1 << 52)
"""The bits above those."""
side_by_side = ZEROS[SIDE_BY_SIDE]
ARM_N, ARM_BEFORE, ARM_SUM, ARM_MEAN, ARM_LIMIT, ARM_SPREAD, SCRATCH = range(1, 8)
"""Rows that `shift_and_suspect` reads, behind that of the arm, and how many rows it needs."""

SHORT = 4
"""Cuts of levels below this one are so near that often no losses could pass the threshold."""
OVER_LN2 = 1.4426950408889634


@jit
def threshold(log_factor: float, N: Any) -> Any:
    """Return log(2 K N^(3/2) (1 + log2 N) / delta), given log(2 K / delta)."""
    log_N = log(N)
    return log_factor + 1.5 * log_N + log(1.0 + OVER_LN2 * log_N)


@jit
def shift(R: Any, at: int, step: int, level: int, N: int, total: float) -> None:
    """Move the sums at the cuts of this and higher levels on, N and the sum being counted."""
    while level < LEVELS and N & ((1 << level) - 1) == 0:
        cell = at + (CELLS + 2 * level) * step
        R[cell] = R[cell + step]
        R[cell + step] = total
        level += 1


@jit
def observe(R: Any, at: int, step: int, loss: float) -> None:
    """Add a loss to the numbers of an arm, which stand at ``at``, ``at + step``, ... in R."""
    N = to_int(R[at + COUNT * step]) + 1
    total = R[at + SUM * step] + loss
    R[at + COUNT * step] = N
    R[at + SUM * step] = total
    shift(R, at, step, 0, N, total)


@jit
def count(R: Any, first: int, K: int, arm: Any, loss: Any) -> Any:
    """Add a loss to N and the sum of its arm in every lane; return N and the sum before and after.

    The numbers of the arms are in groups of K rows, from row ``first`` on.
    """
    N = gather(R, first + COUNT * K, arm) + 1.0
    before = gather(R, first + SUM * K, arm)
    total = before + loss
    scatter(R, first + COUNT * K, arm, N)
    scatter(R, first + SUM * K, arm, total)
    return N, before, total


@jit
def change(R: Any, at: int, step: int, log_factor: float) -> Any:
    """Return the largest left side of the test, if it passes the threshold, and its n; else 0, 0.

    ``log_factor`` is log(2 K / delta).
    """
    N = R[at + COUNT * step]
    if N < 2.0:
        return 0.0, 0
    return change_beyond(R, at, step, threshold(log_factor, N))


@jit
def change_beyond(R: Any, at: int, step: int, limit: float) -> Any:
    """Same as `change`, given the threshold."""
    return change_among(R, at, step, at + CELLS * step, 2 * step, limit)


@jit
def sum_at(R: Any, at: int, step: int, cells: int, apart: int, level: int) -> float:
    """Return the sum of the losses before the cut of a level.

    Those of the first levels stand ``apart`` numbers apart from ``cells`` on.
    """
    if level < TOGETHER:
        return float(R[cells + level * apart])
    return float(R[at + (CELLS + 2 * level) * step])


@jit
def left_side(n: float, N: float, before: float, total: float, mu: float) -> float:
    """Return the left side of the test for a cut after n losses; ``before`` is their sum."""
    a = minimum(maximum(before / n, 0.0), 1.0)
    c = minimum(maximum((total - before) / (N - n), 0.0), 1.0)
    return float(n * divergence(a, mu) + (N - n) * divergence(c, mu))


@jit
def change_among(R: Any, at: int, step: int, cells: int, apart: int, limit: float) -> Any:
    """Same as `change_beyond`, given the places at which `sum_at` finds its cells."""
    N = R[at + COUNT * step]
    total = R[at + SUM * step]
    best = 0.0
    cut = 0
    if not 0.0 < total < N:
        return best, cut
    mu = total / N
    spread = nearly(limit) * (mu * (1.0 - mu) / N)
    level = 0
    while level < LEVELS and to_int(N) >> level >= 2:
        n = ((to_int(N) >> level) - 1) << level
        before = sum_at(R, at, step, cells, apart, level)
        D = before - n * mu
        if D * D > spread * (n * (N - n)):
            value = left_side(n, N, before, total, mu)
            if value > limit and value > best:
                best = value
                cut = n
        level += 1
    return best, cut


@jit
def nearly(limit: Any) -> Any:
    """Return a little less than the threshold, so that rounding of its bound decides nothing."""
    return limit * (1.0 - 1e-9)


@jit
def suspected(R: Any, at: int, step: int, arm: Any, N: Any, total: Any, limit: Any) -> Any:
    """Tell in which lanes the bound of the left side passes the threshold at one of the cuts.

    ``at`` is where the numbers of arm 0 stand, ``step`` as in `observe`; N and ``total`` are those
    of the arm of every lane.
    """
    mu = total / N
    safe = nearly(limit)
    spread = safe * (mu * (1.0 - mu) / N)
    rare = maximum(minimum(mu, 1.0 - mu), 1e-9)
    surprise = -log(rare)
    odds = 1.0 / rare - 1.0
    found = N < 0.0
    length = 1.0
    for level in range(LEVELS):
        more = N >= 2.0 * length
        if not any_lane(more):
            break
        if level < SHORT:
            # m losses after the cut add at most m (ln (1 / rare) + odds m / n) to the left side.
            m = 2.0 * length - 1.0
            n = N - m
            more = more & (m * (surprise * n + m * odds) > safe * n)
        if level >= SHORT or any_lane(more):
            n = length * (floor(N * (1.0 / length)) - 1.0)
            D = gather(R, at + (CELLS + 2 * level) * step, arm) - n * mu
            hit = more & (D * D > spread * (n * (N - n)))
            if any_lane(hit):
                found = found | (hit & (sharper_bound(mu, n, N - n, D) > safe))
        length *= 2.0
    return found & (total > 0.0) & (total < N)


@jit
def place_of(R: Any, first: int, K: int, lanes: int, arm: int, k: int) -> Any:
    """Return ``at``, ``step``, ``cells`` and ``apart`` of an arm in lane k; see `sum_at`.

    A tile has the first levels of an arm and a lane side by side, so that they are vectors.
    """
    at = (first + arm) * lanes + k
    if lanes == 1:
        return at, K, at + CELLS * K, 2 * K
    begin = first_lane(R)
    cells = (first + CELLS * K) * lanes + TOGETHER * (arm * lanes + begin + k) - begin
    return at, K * lanes, cells, 1


@jit
def shift_long(R: Any, at: int, step: int, cells: int, N: int) -> None:
    """Move the sums at the cuts of the levels from `SIDE_BY_SIDE` on.

    A tile keeps the older sum only: what is 2^j before a multiple N of 2^j was the older one of the
    level below until now.
    """
    level = min(lowest_bit(N), LEVELS - 1)
    while level >= SIDE_BY_SIDE:
        below = sum_at(R, at, step, cells, 1, level - 1)
        if level < TOGETHER:
            R[cells + level] = below
        else:
            R[at + (CELLS + 2 * level) * step] = below
        level -= 1


@jit
def suspected_long(
    R: Any, first: int, K: int, scratch: int, lanes: int, k: int, least: float, slope: float
) -> Any:
    """Move the sums at the cuts from level `SIDE_BY_SIDE` on; return where the bound passes.

    Their left sides move so slowly that they need not be tested at every loss. With N' <= N + s
    losses and the same cut, |D'| <= |D| + s n max(mu, 1 - mu) / N, mu' (1 - mu') >= mu (1 - mu)
    (N / N')^2, n (N' - n) / N' >= n (N - n) / N, and the threshold is at least ``least`` +
    ``slope`` ln N. So it is known until when none of them passes.
    """
    row = scratch * lanes + k
    N = R[row + ARM_N * lanes]
    mu = R[row + ARM_MEAN * lanes]
    spread = R[row + ARM_SPREAD * lanes]
    at, step, cells, _ = place_of(R, first, K, lanes, to_int(R[row]), k)
    if to_int(N) & (SIZE_OF_LONG - 1) == 0:
        shift_long(R, at, step, cells, to_int(N))
    safe = nearly(least + slope * log_below(N))
    level = counting(SIDE_BY_SIDE, side_by_side())
    length = to_float(shift_left(splat_int(1, side_by_side()), level))
    n = length * (floor(N * (1.0 / length)) - 1.0)
    room = n * (N - n)
    D = load(advance(whole(R), first_lane(R) + cells + SIDE_BY_SIDE), 0, side_by_side()) - n * mu
    cuts = n > 0.0
    bits = lane_bits(cuts & (D * D > spread * room)) << SIDE_BY_SIDE
    ahead = PAUSE - 1.0
    moved = absolute(D) + n * (ahead * max(mu, 1.0 - mu) / N)
    kept = N / (N + ahead)
    near = cuts & (moved * moved > room * (safe * (mu * (1.0 - mu) / N) * (kept * kept)))
    soon = any_lane(near)
    if N >= FIRST_OF_REST:
        soon = True
        for level in range(TOGETHER, LEVELS):
            cut = float(((to_int(N) >> level) - 1) << level)
            off = R[at + (CELLS + 2 * level) * step] - cut * mu
            if cut > 0.0 and off * off > spread * (cut * (N - cut)):
                bits |= 1 << level
    R[at + NEXT * step] = N + 1.0 if soon else (floor(N * (1.0 / PAUSE)) + 1.0) * PAUSE
    return bits


@jit
def shift_and_suspect(
    R: Any, first: int, K: int, scratch: int, least: float, slope: float, like: Any
) -> int:
    """Move the sums at the cuts on, and return the lanes in which a change is suspected, as bits.

    Row ``scratch`` has the arm of every lane; N, the sum before the last loss and after it, mu, at
    most the threshold, and what the square of D is compared with follow. A change that
    `change_beyond` would find is always suspected. No threshold is below ``least`` +
    ``slope`` ln N.
    """
    lanes = stride(like)
    found = 0
    one = splat_int(1, side_by_side())
    size = shift_left(one, counting(0, side_by_side()))
    below = (size - one) | ABOVE_WHOLE
    length = to_float(size)
    excess = WHOLE - length
    N_all = load(R, scratch + ARM_N, like)
    due = lane_bits(N_all >= LONG)
    if due != 0:
        arm = to_index(load(R, scratch, like))
        due &= lane_bits(N_all >= gather(R, first + NEXT * K, arm))
    while due != 0:
        k = lowest_bit(due)
        due &= due - 1
        bits = suspected_long(R, first, K, scratch, lanes, k, least, slope)
        found |= examine(R, first, K, scratch, lanes, k, bits)
    for start in range(0, width(like), LANES_OF_WORD):
        # The levels of these lanes at which the bound passes; hardly a branch is taken until then.
        hits = 0
        for k in range(start, min(start + LANES_OF_WORD, width(like))):
            row = scratch * lanes + k
            N = R[row + ARM_N * lanes]
            mu = R[row + ARM_MEAN * lanes]
            spread = R[row + ARM_SPREAD * lanes]
            _, _, cells, _ = place_of(R, first, K, lanes, to_int(R[row]), k)
            # m = N mod 2^j + 2^j losses are behind the cut, by the low bits of N + 2^52.
            m = bits_float(float_bits(splat(N + WHOLE, side_by_side())) & below) - excess
            n = N - m
            together = advance(whole(R), first_lane(R) + cells)
            older = load(together, 0, side_by_side())
            older = select(m == length, slide(older, R[row + ARM_BEFORE * lanes]), older)
            store(together, 0, older)
            D = older - n * mu
            hit = (n >= length) & (D * D > spread * (n * m))
            hits |= lane_bits(hit) << SIDE_BY_SIDE * (k - start)
        while hits != 0:
            place = lowest_bit(hits)
            hits &= hits - 1
            bit = 1 << place % SIDE_BY_SIDE
            found |= examine(R, first, K, scratch, lanes, start + place // SIDE_BY_SIDE, bit)
    return found


@jit
def examine(R: Any, first: int, K: int, scratch: int, lanes: int, k: int, levels: int) -> int:
    """Return the bit of lane k, if the left side passes at one of these levels, else 0."""
    row = scratch * lanes + k
    N = R[row + ARM_N * lanes]
    total = R[row + ARM_SUM * lanes]
    mu = R[row + ARM_MEAN * lanes]
    safe = nearly(R[row + ARM_LIMIT * lanes])
    at, step, cells, _ = place_of(R, first, K, lanes, to_int(R[row]), k)
    found = 0
    while levels != 0:
        level = lowest_bit(levels)
        levels &= levels - 1
        cut = float(((to_int(N) >> level) - 1) << level)
        before = sum_at(R, at, step, cells, 1, level)
        if passes(cut, N - cut, before, total - before, mu, safe):
            found |= (left_side(cut, N, before, total, mu) > safe) << k
    return found


@jit
def passes(n: float, m: float, before: float, after: float, mu: float, limit: float) -> bool:
    """Tell whether a bound of the left side passes a limit, without logarithms.

    ``before`` is the sum of the n losses before the cut, ``after`` that of the m behind it. For the
    logarithms stands log(1 + x) <= x (6 + x) / (6 + 4 x), which holds for every x > -1.
    """
    over, rest = 1.0 / mu, 1.0 / (1.0 - mu)
    a = min(max(before / n, 0.0), 1.0)
    c = min(max(after / m, 0.0), 1.0)
    first = a * log_above(a * over) + (1.0 - a) * log_above((1.0 - a) * rest)
    second = c * log_above(c * over) + (1.0 - c) * log_above((1.0 - c) * rest)
    return bool(n * first + m * second > limit)


@jit
def log_above(v: float) -> float:
    """Return a number not below ln v, close to it near 1."""
    x = v - 1.0
    return x * (6.0 + x) / (6.0 + 4.0 * x)


@jit
def sharper_bound(mu: Any, n: Any, m: Any, D: Any) -> Any:
    """Return a bound of the left side for a cut with n losses before it and m after it.

    kl(p, mu) <= (p - mu)^2 / (2 v), v the least x (1 - x) between p and mu, and kl(p, mu) <=
    log(1 + (p - mu)^2 / (mu (1 - mu))).
    """
    v = mu * (1.0 - mu)
    before = D / n
    after = D / m
    a = mu + before
    c = mu - after
    least_a = maximum(minimum(a * (1.0 - a), v), 1e-300)
    least_c = maximum(minimum(c * (1.0 - c), v), 1e-300)
    square = after * after
    short = m * minimum(0.5 * square / least_c, log(1.0 + square / v))
    return n * minimum(0.5 * before * before / least_a, before * before / v) + short


@jit
def sum_before(R: Any, at: int, step: int, cells: int, apart: int, cut: int) -> float:
    """Return the sum of the losses before a cut that `change_beyond` has found."""
    N = to_int(R[at + COUNT * step])
    before = 0.0
    for level in range(LEVELS):
        n = N >> level
        if n >= 2 and (n - 1) << level == cut:
            before = sum_at(R, at, step, cells, apart, level)
    return before


@jit
def empty(R: Any, at: int, step: int) -> None:
    """Forget the losses of an arm; the sums at the cuts are written again before they are read."""
    R[at + COUNT * step] = 0.0
    R[at + SUM * step] = 0.0


@jit
def empty_lane(R: Any, at: int, step: int) -> None:
    """Forget the losses of an arm of a tile."""
    empty(R, at, step)
    R[at + NEXT * step] = 0.0


@jit
def silence(R: Any, at: int, step: int) -> None:
    """Forget the losses of an arm."""
    for field in range(FIELDS):
        R[at + field * step] = 0.0


# --- an alarm by itself ---------------------------------------------------------------------------
#
# One array: the number of arms, log(2 K / delta), how many alarms there were, the addresses of the
# bandit it belongs to and of the evidence kept next to it, a record of the last alarms, and the
# numbers of the test, arm after arm.

ARMS, LOG_FACTOR, HEARD, BANDIT, EVIDENCE, FILL, TELL, RECORDS = range(8)
ARM, ROUND, STATISTIC, OBSERVED, CUT, BEFORE, AFTER, RECORD = 0, 1, 2, 3, 4, 5, 6, 7
MOST = 64
"""How many of the latest alarms are kept."""
TESTS = RECORDS + RECORD * MOST


@jit
def hear(A: Any, arm: int, loss: float, number: int) -> None:
    """Add the loss of a decision of round ``number``; record an alarm, then listen again.

    Tests come 64 times per doubling, so an alarm may come N / 64 losses late; it is no less sure.
    """
    if not 0.0 <= loss <= 1.0:
        return
    at = TESTS + FIELDS * arm
    observe(A, at, 1, loss)
    if not is_due(to_int(A[at + COUNT])):
        return
    found, cut = change(A, at, 1, A[LOG_FACTOR])
    if found > 0.0:
        N = A[at + COUNT]
        total = A[at + SUM]
        before = sum_before(A, at, 1, at + CELLS, 2, cut)
        record = RECORDS + RECORD * (to_int(A[HEARD]) % MOST)
        A[record + ARM] = arm
        A[record + ROUND] = number
        A[record + STATISTIC] = found
        A[record + OBSERVED] = N
        A[record + CUT] = cut
        A[record + BEFORE] = before / cut
        A[record + AFTER] = (total - before) / (N - cut)
        A[HEARD] += 1.0
        silence(A, at, 1)


@jit
def hear_all(A: Any, arms: Any, losses: Any, rounds: Any) -> None:
    """Add the losses of decisions of the past, in this order."""
    for n in range(arms.size):
        hear(A, arms[n], losses[n], rounds[n])


told: Any = None
tell_at = calling(lambda lanes: TELL_AT)


def listening(place: float, arm: int, inverse_p: float, loss: float) -> None:
    """Add the last decision to the alarm and, by ``told``, to the evidence, and learn from it."""
    A = numbers_at(to_int(place))
    F = numbers_at(to_int(A[BANDIT]))
    hear(A, arm, loss, to_int(F[NOW]))
    told(numbers_at(to_int(A[EVIDENCE])), F, to_int(A[FILL]), arm, inverse_p, loss)
    tell_at(to_int(A[TELL]), (A[BANDIT], arm, inverse_p, loss))


def listening_late(
    place: float, arm: int, inverse_p: float, loss: float, number: int, noted: Any
) -> None:
    """Add a decision of the past, of which ``noted`` was kept, to the alarm and the evidence."""
    A = numbers_at(to_int(place))
    hear(A, arm, loss, number)
    told(numbers_at(to_int(A[EVIDENCE])), arm, inverse_p, loss, number, pointer(noted))


@functools.cache
def listening_of(told: Any) -> Any:
    """Return `listening` around a function that keeps evidence."""
    return bound(listening, told=told)


@functools.cache
def listening_late_of(told: Any) -> Any:
    """Return `listening_late` around a function that keeps evidence."""
    return bound(listening_late, told=told)
