"""AllWorlds: one policy without parameters, for users who do not know their environment.

Tsallis-INF at alpha = 1/2 with soft baselines, a learning rate from residuals, a small exploration
floor, and change tests that restart softly.

========== ==========================================================================
``Q``      1/4 + sum of weighted squared residuals since the last restart
``eta``    2 / sqrt(Q (1 + min(o, D) / (1 + n))); o, D and n as in `bothworlds.policies.waiting`
``w``      the OMD step on L at eta; the leader has the largest w
``B``      (1/2 + s) / (1 + m), the mean of the m losses since the last restart, s their sum
``B_i``    min(B, kappa sqrt(w_i) / eta), kappa = max(1/2, B); see `bothworlds.omd.soft`
``F``      the arms with fewer than 3 ln t losses in their change test
``f``      min((1 - w of the leader) / 4, 1 / sqrt(t)) / K
``p_i``    (1 - f |F|) w_i + f [i in F]
``d``      l - B_I, the residual of the arm I that was played
``t_0``    the round of the last restart; ``now`` is the round decided last
``N_i``    losses in the change test of arm i; the test is that of `bothworlds.policies.alarm`
``U``      level alarms in a row with the same leader; ``u_i`` side cuts of arm i
``lead_i`` L_i - min L
``C``      8 max(now - t_0, 1), at a level alarm times 1 + U / 2
========== ==========================================================================

1. draw I from p and observe its loss l;
2. L_i += share B_i for every arm; L_I += d / p_I; Q += d^2 / sqrt(K p_I);
3. test the losses of I for a change: the leader's at the limit (4 + ln N_I) 1.15^U, another arm's
   at (2 + ln N_I / 2) 1.15^u_I;
4. level alarm, of the leader: leads are kept up to sqrt(C) and become C / lead beyond; the rate,
   the mean and all tests start again;
5. side alarm, of another arm: if its losses fell and lead_I^2 > C, lead_I = max(C / lead_I,
   lead_I / 4); its test starts again.

Feedback on decisions from before a restart teaches nothing any more.
"""

from __future__ import annotations

import math
from typing import Any

from bothworlds.lanes.functions import exp, log, log_below
from bothworlds.lanes.jit import jit
from bothworlds.lanes.random import uniform
from bothworlds.lanes.rows import put, take
from bothworlds.lanes.vectors import (
    advance,
    any_lane,
    floor,
    lane,
    lane_bits,
    load,
    lowest_bit,
    maximum,
    minimum,
    select,
    splat,
    splat_int,
    sqrt,
    store,
    stride,
    to_float,
    to_int,
)
from bothworlds.omd import few, half, recentring, soft
from bothworlds.omd.estimators import correction
from bothworlds.policies import alarm, waiting
from bothworlds.policies.base import Kernels, Saved

# Parameters: what multiplies the age in C, the growth of limits, the floor's share of what is
# explored and its largest multiple of 1 / sqrt(t), how many times ln t losses are few, the limits
# of leader and other arms at N = 1, and the least share of a lead that a side cut leaves.
KEPT, GROWTH, FLOOR, HEIGHT, FEW, LEVEL_LIMIT, SIDE_LIMIT, CUT = range(8)
CONSTANTS = (8.0, math.log(1.15), 0.25, 1.0, 3.0, 4.0, 2.0, 0.25)

# Rows: inverse probability; carried with a decision B_I and its round; those of `waiting`; Q, t_0,
# m, s, U, the numbers of alarms; of the last decision 4 / eta^2 and B; whether any u_i is above 0;
# how many arms are in F and since which limit, see `few_arms`; the limit and until when it holds;
# whether the arm played led; what raises the limit of its test; what a test needs lane by lane; the
# solver's rows.  Then by arm L, u, the last round in which the arm led, what is known of its last
# level alarm and of its last side alarm, and the numbers of its change test.  No row names an arm
# by its place, because the arms of a bandit come and go.
BASE, DECIDED, WAITING = 1, 2, 3
OWN = WAITING + waiting.ROWS
SQUARES, RESTARTED, COUNTED, TOTAL, REPEATS, LEVEL_ALARMS, SIDE_ALARMS = range(OWN, OWN + 7)
PACE, LEVEL, CUTTING, SIZE, LIMIT, UNTIL, LEADING, FACTOR, PLAYED = range(OWN + 7, OWN + 16)
SOLVER = PLAYED + alarm.SCRATCH
LOSSES, CUTS, LED, ALARMED = 0, 1, 2, 3
ROUND, STATISTIC, OBSERVED, CUT_AT, BEFORE, AFTER, RECORD = range(7)
SIDE = ALARMED + RECORD
TEST = SIDE + RECORD
FIELDS = TEST + alarm.FIELDS
ESTIMATES = SOLVER + half.ESTIMATES
CARRIED = (
    Saved("baseline", low=0.0, high=1.0),
    Saved("decided", low=0.0, high=2.0**53, whole=True),
)
"""The carried rows."""
Q_1 = 0.25
MOST_COUNTED = 8.0
SIDE_SLOPE = 0.5
"""Factor of ln N in the limit of an arm that does not lead."""
BASE_OF_SIZE = 2.0**32
"""More than there are arms."""


@jit
def solver(S: Any, like: Any) -> Any:
    """Return the solver's rows, which are those of `bothworlds.omd.half`."""
    return advance(S, SOLVER * stride(like))


@jit
def few_losses(t: int, C: Any) -> Any:
    """Return 3 ln t rounded up: an arm with fewer losses is in F."""
    return math.ceil(C[FEW] * log(float(t)))


@jit
def few_now(t: int, C: Any, S: Any, like: Any) -> Any:
    """Return `few_losses`; a tile keeps it until 3 ln t comes near the next whole number."""
    if stride(like) == 1:
        return few_losses(t, C)
    limit = S[LIMIT * stride(like)]
    if t > S[UNTIL * stride(like)]:
        limit = few_losses(t, C)
        store(S, LIMIT, splat(limit, like))
        store(S, UNTIL, splat(0.999999 * exp(limit / C[FEW]), like))
    return limit


@jit
def few_arms(K: int, limit: float, S: Any, like: Any) -> Any:
    """Return how many arms are in F, those with fewer losses than ``limit``.

    A tile counts them again only after an alarm and where the limit has risen: the row has
    limit `BASE_OF_SIZE` + number.
    """
    origin = BASE_OF_SIZE * limit
    count = load(S, SIZE, like) - origin
    if stride(like) == 1 or any_lane((count < 0.0) | (count >= BASE_OF_SIZE)):
        count = splat(0.0, like)
        first = ESTIMATES + (TEST + alarm.COUNT) * K
        for i in range(first, first + K):
            count = select(load(S, i, like) < limit, count + 1.0, count)
        store(S, SIZE, origin + count)
    return count


@jit
def floor_of(K: int, t: int, C: Any, S: Any, low: Any) -> Any:
    """Return f; ``low`` is min L."""
    y = low - load(S, SOLVER + half.ROOT, low)
    rest = C[FLOOR] * (1.0 - minimum(load(S, PACE, low) / (y * y), 1.0))
    return minimum(rest, C[HEIGHT] / math.sqrt(float(t))) * (1.0 / K)


@jit
def mark_leaders(K: int, t: int, S: Any, low: float) -> None:
    """Note for feedback of a bandit, which may be late, which arm leads; arms can be tied."""
    for i in range(ESTIMATES, ESTIMATES + K):
        if S[i] <= low:
            S[i + LED * K] = t


@jit
def choose(K: int, t: int, C: Any, S: Any, G: Any, u: Any) -> Any:
    """Solve, draw from w, and with a second number from the floor."""
    P = solver(S, u)
    W = advance(S, WAITING)
    squares = load(S, SQUARES, u)
    if stride(u) == 1:
        settle(K, t, C, S, G)
        squares = squares * waiting.expected(W)
    half.recentre_if_due(K, t, P, u)
    store(S, PACE, squares)
    eta = 2.0 / sqrt(squares)
    arm = few.draw(K, P, eta, u, None) if few.fits(K) else half.draw(K, P, eta, None, u, None)
    low = recentring.least(K, S, ESTIMATES, u)
    if stride(u) == 1:
        mark_leaders(K, t, S, lane(low, 0))
    inverse_w = load(P, half.INVERSE_P, u)
    inverse_p = inverse_w
    v = uniform(G, u)
    limit = few_now(t, C, S, u)
    count = few_arms(K, limit, S, u)
    if any_lane(count > 0.0):
        f = floor_of(K, t, C, S, low)
        e = f * count
        explored = v < e
        if any_lane(explored):
            place = to_int(v / select(explored, f, 1.0))
            arm = select(explored, member(K, limit, S, place), arm)
            w = half.weight_of(K, P, eta, arm)
            inverse_w = select(explored, 1.0 / w, inverse_w)
        small = take(S, ESTIMATES + (TEST + alarm.COUNT) * K, K, arm) < limit
        inverse_p = inverse_w / ((1.0 - e) + select(small, f, 0.0) * inverse_w)
    B = (0.5 + load(S, TOTAL, u)) / (1.0 + load(S, COUNTED, u))
    store(S, LEVEL, B)
    L = take(S, ESTIMATES, K, arm)
    store(S, LEADING, select(L <= low, 1.0, splat(0.0, u)))
    store(S, BASE, minimum(B, soft.reach(B, squares) / (L - load(P, half.ROOT, u))))
    store(S, 0, inverse_p)
    return arm


@jit
def member(K: int, limit: float, S: Any, place: Any) -> Any:
    """Return the arm at this place of F, or the last of F where there are fewer."""
    seen = splat_int(0, place)
    arm = splat_int(0, place)
    first = ESTIMATES + (TEST + alarm.COUNT) * K
    like = splat(0.0, place)
    for i in range(K):
        there = load(S, first + i, like) < limit
        arm = select(there & (seen <= place), splat_int(i, place), arm)
        seen = select(there, seen + 1, seen)
    return arm


@jit
def add_baselines(K: int, S: Any, arm: Any, by: Any) -> None:
    """L_i += share B_i for every arm, and L_I += by."""
    B = load(S, LEVEL, by)
    reach = soft.reach(B, load(S, PACE, by))
    share = load(S, WAITING + waiting.SHARE, by)
    soft.add_baselines(K, solver(S, by), B, reach, share, arm, by, None)


@jit
def asked(K: int, t: int, C: Any, S: Any, G: Any, arm: int) -> None:
    """Count a decision, and keep the numbers for its feedback."""
    waiting.decided(advance(S, WAITING), float(t))
    B = S[LEVEL]
    S[BASE] = soft.baseline_of(K, solver(S, 0.0), B, soft.reach(B, S[PACE]), arm)
    S[DECIDED] = t


@jit
def settle(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Add the baselines of the last decision, unless that is done."""
    W = advance(S, WAITING)
    if W[waiting.OPEN] != 0.0:
        add_baselines(K, S, 0, 0.0)
        W[waiting.OPEN] = 0.0


@jit
def update(K: int, t: int, C: Any, S: Any, G: Any, arm: Any, inverse_p: Any, loss: Any) -> None:
    """L_i += share B_i for every arm; L_I += d / p_I; then the rate, the mean and the test."""
    P = solver(S, loss)
    W = advance(S, WAITING)
    now = splat(float(t), loss)
    late = False
    if stride(loss) == 1:
        if S[RESTARTED] >= t:
            return
        late = waiting.is_late(W, float(t))
        now = maximum(now, W[waiting.LATEST])
    base = load(S, BASE, loss)
    by = correction(loss, base, inverse_p)
    if late:
        settle(K, t, C, S, G)
        half.move(K, P, arm, by)
    else:
        add_baselines(K, S, arm, by)
    if stride(loss) == 1:
        waiting.answered(W, float(t))
        W[waiting.OPEN] = 0.0
    d = loss - base
    store(S, SQUARES, load(S, SQUARES, loss) + d * d * sqrt(inverse_p * (1.0 / K)))
    store(S, COUNTED, load(S, COUNTED, loss) + 1.0)
    store(S, TOTAL, load(S, TOTAL, loss) + loss)
    listen(K, C, S, now, arm, loss)


@jit
def listen(K: int, C: Any, S: Any, now: Any, arm: Any, loss: Any) -> None:
    """Add the loss to the test of its arm, and act where its mean has changed."""
    lanes = stride(loss)
    tests = ESTIMATES + TEST * K
    N, before, total = alarm.count(S, tests, K, arm, loss)
    led = load(S, LEADING, loss) > 0.0
    if lanes == 1:
        led = take(S, ESTIMATES + LED * K, K, arm) == now
    else:
        # The arm leaves F with as many losses as the limit.
        size = load(S, SIZE, loss)
        store(S, SIZE, select(N == floor(size * (1.0 / BASE_OF_SIZE)), size - 1.0, size))
    growth = select(led, load(S, REPEATS, loss), 0.0)
    if any_lane(load(S, CUTTING, loss) > 0.0):
        growth = select(led, growth, take(S, ESTIMATES + CUTS * K, K, arm))
        put(S, ESTIMATES + CUTS * K, K, arm, select(led, 0.0, growth))
    # A tile takes the logarithm where a change is suspected, else a number below it.
    limit = limit_of(C, led, log(N) if lanes == 1 else log_below(N))
    factor = splat(1.0, loss)
    if any_lane(growth > 0.0):
        factor = exp(C[GROWTH] * growth)
        limit = limit * factor
    # These two serve to suspect only, which leaves room for rounding.
    over_N = 1.0 / N
    mu = total * over_N
    store(S, LEADING, select(led, 1.0, splat(0.0, loss)))
    store(S, PLAYED, to_float(arm))
    store(S, PLAYED + alarm.ARM_N, N)
    store(S, FACTOR, factor)
    store(S, PLAYED + alarm.ARM_BEFORE, before)
    store(S, PLAYED + alarm.ARM_SUM, total)
    store(S, PLAYED + alarm.ARM_MEAN, mu)
    store(S, PLAYED + alarm.ARM_LIMIT, limit)
    store(S, PLAYED + alarm.ARM_SPREAD, alarm.nearly(limit) * (mu * (1.0 - mu) * over_N))
    if lanes == 1:
        alarm.shift(S, tests + lane(arm, 0), K, 0, to_int(lane(N, 0)), lane(total, 0))
        bits = lane_bits(alarm.suspected(S, tests, K, arm, N, total, limit))
    else:
        bits = alarm.shift_and_suspect(S, tests, K, PLAYED, C[SIDE_LIMIT], SIDE_SLOPE, loss)
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        act(K, C, S, lanes, k, lane(now, k))


@jit
def limit_of(C: Any, led: Any, log_N: Any) -> Any:
    """Return the limit of a test that has not been raised, given ln N."""
    return select(led, C[LEVEL_LIMIT] + log_N, C[SIDE_LIMIT] + SIDE_SLOPE * log_N)


@jit
def empty_test(S: Any, lanes: int, at: int, step: int) -> None:
    """Let a test start again."""
    if lanes == 1:
        alarm.empty(S, at, step)
    else:
        alarm.empty_lane(S, at, step)


@jit
def act(K: int, C: Any, S: Any, lanes: int, k: int, now: float) -> None:
    """Test the arm played in lane k; restart softly or cut its lead if its losses have changed."""
    scratch = PLAYED * lanes + k
    arm = to_int(S[scratch])
    N = S[scratch + alarm.ARM_N * lanes]
    at, step, cells, apart = alarm.place_of(S, ESTIMATES + TEST * K, K, lanes, arm, k)
    leads = S[LEADING * lanes + k] > 0.0
    limit = limit_of(C, leads, log(N)) * S[FACTOR * lanes + k]
    found, cut = alarm.change_among(S, at, step, cells, apart, limit)
    if found == 0.0:
        return
    before = alarm.sum_before(S, at, step, cells, apart, cut)
    b = (S[scratch + alarm.ARM_SUM * lanes] - before) / (N - cut)
    low = S[ESTIMATES * lanes + k]
    for i in range(1, K):
        low = min(low, S[(ESTIMATES + i) * lanes + k])
    kept = C[KEPT] * max(now - S[RESTARTED * lanes + k], 1.0)
    moved = leads
    if leads:
        soft_restart(K, S, lanes, k, now, arm, low, kept)
        counted = min(N - cut, MOST_COUNTED)
        S[COUNTED * lanes + k] = counted
        S[TOTAL * lanes + k] = b * counted
        low = 0.0
    else:
        place = (ESTIMATES + arm) * lanes + k
        lead = S[place] - low
        moved = b < before / cut and lead * lead > kept
        if moved:
            S[place] = low + max(kept / lead, C[CUT] * lead)
            S[(ESTIMATES + CUTS * K + arm) * lanes + k] += 1.0
            S[CUTTING * lanes + k] = 1.0
        S[SIDE_ALARMS * lanes + k] += 1.0
        empty_test(S, lanes, at, step)
    S[SIZE * lanes + k] = -1.0
    first = (ESTIMATES + (ALARMED if leads else SIDE) * K + arm) * lanes + k
    S[first + ROUND * step] = now
    S[first + STATISTIC * step] = found
    S[first + OBSERVED * step] = N
    S[first + CUT_AT * step] = cut
    S[first + BEFORE * step] = before / cut
    S[first + AFTER * step] = b
    if moved:
        half.restart_lane(S, SOLVER, lanes, k, low)


@jit
def soft_restart(
    K: int, S: Any, lanes: int, k: int, now: float, arm: int, low: float, kept: float
) -> None:
    """Keep leads up to a limit, and start rate and tests of lane k again."""
    origin = RESTARTED * lanes + k
    alarmed = (ESTIMATES + ALARMED * K + arm) * lanes + k
    repeats = REPEATS * lanes + k
    if S[origin] > 0.0:
        S[repeats] = S[repeats] + 1.0 if S[alarmed] == S[origin] else 0.0
    S[alarmed] = now
    kept *= 1.0 + 0.5 * S[repeats]
    for i in range(K):
        place = (ESTIMATES + i) * lanes + k
        lead = S[place] - low
        S[place] = lead if lead * lead <= kept else kept / lead
        empty_test(S, lanes, (ESTIMATES + TEST * K + i) * lanes + k, K * lanes)
    S[SQUARES * lanes + k] = Q_1
    S[origin] = now
    S[(WAITING + waiting.OUTSTANDING) * lanes + k] = 0.0
    S[(WAITING + waiting.ANSWERS) * lanes + k] = 0.0
    S[LEVEL_ALARMS * lanes + k] += 1.0


@jit
def weights(K: int, t: int, C: Any, S: Any, G: Any, out: Any) -> None:
    """p_i at the root of the round."""
    f = floor_of(K, t, C, S, recentring.least(K, S, ESTIMATES, 0.0))
    limit = few_losses(t, C)
    rest = 1.0 - f * few_arms(K, limit, S, 0.0)
    half.fill_weights(K, solver(S, 0.0), 2.0 / math.sqrt(S[PACE]), out)
    first = ESTIMATES + (TEST + alarm.COUNT) * K
    for i in range(K):
        out[i] = rest * out[i] + (f if S[first + i] < limit else 0.0)


@jit
def estimates_changed(K: int, t: int, C: Any, S: Any, G: Any) -> None:
    """Prepare the solver for estimates that changed otherwise than by ``tell``."""
    S[WAITING + waiting.OPEN] = 0.0
    half.restart(K, solver(S, 0.0), 0.0)


KERNELS = Kernels.of(
    choose,
    update,
    weights,
    asked=asked,
    estimates_changed=estimates_changed,
    write_back=settle,
    any_draw=True,
)
