"""Compiled updates of the running sums by one answered decision.

======== ==========================================================================
``R``    running sums (`bothworlds.evidence.layout`), a pointer; ``A`` the array of them
``y``    loss in [0, 1] of the played arm
``w_a``  probability of arm a at the decision
``m_a``  (1/2 + sum of the arm's earlier losses) / (1 + their number)
======== ==========================================================================

*AIPW* of every arm: G = m + 1[played] (y - m) / w with weight h = sqrt(w); five sums of h, h G,
h^2, h^2 G and h^2 G^2 (Hadad et al., 2021).  While an arm is not played its m stands still, so two
sums suffice until it is.

*Bets on own losses* of the played arm: at its q-th answer the capital of the bet that the mean is
above mu grows by 1 + lam (y - mu), lam = min(sqrt(2 log(2/alpha) / (V q log(q + 1))), 1 / (2 mu)),
V = (1/4 + sum of earlier (y - m)^2) / q; the bet that it is below likewise with 1 - y and 1 - mu
(Waudby-Smith and Ramdas, 2024).  What chose the arm does not matter.  A bet may be any number
known before the answer: lam is chosen again at each of the first 128 answers, then 64 times per
doubling.

*Bets on weighted losses* of every arm, for means that move: X = 1[played] y / w and
exp(lam (X - mu) - psi(lam) (X - m)^2), psi(lam) = -log(1 - lam) - lam, has mean at most 1.  The
bet lam is chosen again when the number of answered decisions has grown by a tenth.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bothworlds.evidence.layout import (
    A1,
    A2,
    ARMS,
    BET,
    CHECKPOINT,
    ENDS,
    FOLDED,
    GP,
    GRID,
    GX,
    KEPT,
    LAM,
    LAM_PSI,
    LAST,
    LEAST,
    LEVELS,
    OWN_BET,
    OWN_ONLY,
    PARTIAL,
    POINTS,
    POINTS_USED,
    PSI,
    RATIO,
    REFRESH,
    SH,
    SHG,
    SIDE,
    SL,
    SLX,
    SP,
    SUM_LAM,
    SUM_PSI,
    SV,
    SW,
    SWG,
    SWGG,
    TOLD,
    TOP,
    UNKNOWN,
    WEIGHTED,
    N,
    S,
    V,
    capital_at,
    history_at,
    row,
    tables_at,
    weights_at,
)
from bothworlds.lanes.functions import is_due
from bothworlds.lanes.jit import jit
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import (
    advance,
    any_lane,
    counting,
    load,
    maximum,
    minimum,
    negate,
    pointer,
    select,
    splat,
    sqrt,
    store,
    to_int,
    width,
    zeros,
)

TUNED = math.log(2 / 0.05)
"""log(2 / alpha) for which the bets are tuned; the sequences hold at every other level as well."""

REFRESH_FACTOR = 1.1
LARGEST_BET = 0.5

THRESHOLDS = tuple(2.0 / (1.0 - level) for level in LEVELS)

NOTHING, OWN, ALL, ROOTS = 0, 1, 2, 3
"""Which probabilities of a decision are known: none, the played arm's, every arm's, or every
arm's, of which the square roots stand in the row of weights."""


@jit
def psi(lam: float) -> float:
    """Return -log(1 - lam) - lam."""
    return -math.log1p(-lam) - lam


@jit
def mean_before(n: float, s: float) -> float:
    """Return m, the predictable guess of an arm's mean: 1/2 counts as one answer."""
    return (0.5 + s) / (1.0 + n)


@jit
def bet_on(variance: float, n: float) -> float:
    """Return the bet before the n-th answer, not yet limited."""
    return math.sqrt(2.0 * TUNED / (variance * n * math.log(n + 1.0)))


@jit
def bet_on_own(K: int, R: Any, arm: int, y: float) -> None:
    """Let the played arm's capitals grow, exclude means, and count the answer."""
    n, s, v = row(K, N) + arm, row(K, S) + arm, row(K, V) + arm
    q = R[n] + 1.0
    m = mean_before(R[n], R[s])
    kept = row(K, OWN_BET) + arm
    if is_due(to_int(q)):
        R[kept] = bet_on((0.25 + R[v]) / q, q)
    lam = R[kept]
    lows, ups = row(K, ENDS + 2 * TOP) + arm, row(K, ENDS + 2 * TOP + 1) + arm
    first, last = to_int(R[lows]), to_int(R[ups])
    cells = to_int(R[GRID]) + 1
    mu = tables_at(K)
    below, above = mu + cells, mu + 2 * cells
    low, up = capital_at(K, cells, arm, 0), capital_at(K, cells, arm, 1)
    for j in range(first, last + 1):
        d = y - R[mu + j]
        R[low + j] *= 1.0 + minimum(lam, R[below + j]) * d
        R[up + j] *= 1.0 - minimum(lam, R[above + j]) * d
    for level in range(len(THRESHOLDS)):
        limit = THRESHOLDS[level]
        at = row(K, ENDS + 2 * level) + arm
        # No capital has grown of bets that the mean is above mu >= y, or below mu <= y.
        if y > R[mu + first]:
            j = to_int(R[at])
            while j < last and R[low + j + 1] >= limit:
                j += 1
            R[at] = j
        if y < R[mu + last]:
            j = to_int(R[at + K])
            while j > first and R[up + j - 1] >= limit:
                j -= 1
            R[at + K] = j
    R[n] = q
    R[s] += y
    R[v] += (y - m) * (y - m)


@jit
def fold_weighted(K: int, R: Any, arm: int, m: float) -> None:
    """Add the answers to decisions without the arm to its sums of the drift form."""
    at = row(K, FOLDED) + arm
    since = R[WEIGHTED] - R[at]
    R[at] = R[WEIGHTED]
    if since > 0.0:
        for side in range(2):
            first = row(K, BET + SIDE * side) + arm
            guess = m if side == 0 else 1.0 - m
            add_weighted(K, R, side, 0, arm, R[first], R[first + K], guess, 0.0, since)


@jit
def add_weighted(
    K: int, R: Any, side: int, block: int, i: int, lam: Any, p: Any, guess: Any, X: Any, times: Any
) -> None:
    """Add ``times`` decisions with the weighted loss X to the sums of one side.

    The type of ``lam`` shows whether it is the arm i or a block of arms (`lanes.vectors`).
    """
    d = (X - guess) * (X - guess) * times
    first = SIDE * side
    add_row(K, R, first + SL, block, i, lam * times)
    add_row(K, R, first + SLX, block, i, lam * X * times)
    add_row(K, R, first + SP, block, i, p * d)
    add_row(K, R, first + SV, block, i, d)


@jit
def add_row(K: int, R: Any, which: int, block: int, i: int, value: Any) -> None:
    """Add to the numbers of a row that belong to an arm or a block of arms."""
    at = advance(R, row(K, which) + i)
    store(at, block, load(at, block, value) + value)


@jit
def refresh_bets(K: int, R: Any) -> None:
    """Choose the bets of the drift form for the answers to come."""
    t = R[WEIGHTED] + 1.0
    total = 0.0
    for arm in range(K):
        fold_weighted(K, R, arm, mean_before(R[row(K, N) + arm], R[row(K, S) + arm]))
        for side in range(2):
            first = row(K, BET + SIDE * side) + arm
            variance = (0.25 + R[first + (SV - BET) * K]) / t
            R[first] = minimum(LARGEST_BET, bet_on(variance, t))
            R[first + K] = psi(R[first])
            total += variance
    R[LAM] = minimum(LARGEST_BET, bet_on(0.25 * total / K, t))
    R[LAM_PSI] = psi(R[LAM])
    R[REFRESH] = maximum(t, R[WEIGHTED] * REFRESH_FACTOR)


@jit
def count_gaps(K: int, R: Any, arm: int, lam: float, p: float, inverse_p: float, y: float) -> None:
    """Add an answered decision to the sums that bound gaps under drift."""
    R[SUM_LAM] += lam
    R[SUM_PSI] += p
    for side in range(2):
        X = (y if side == 0 else 1.0 - y) * inverse_p
        R[row(K, GX) + side * K + arm] += lam * X
        R[row(K, GP) + side * K + arm] += p * (0.25 * X * X - 0.5 * X)


@jit
def fold_aipw(K: int, R: Any, arm: int, m: float) -> None:
    """Add the rounds in which the arm was not played to its five sums."""
    a1, a2 = row(K, A1) + arm, row(K, A2) + arm
    add_aipw(K, R, 0, arm, R[a1], R[a2], m)
    R[a1] = 0.0
    R[a2] = 0.0


@jit
def add_aipw(K: int, R: Any, block: int, i: int, h: Any, hh: Any, G: Any) -> None:
    """Add the estimate G with weights h and h^2 to the five sums of an arm or a block of arms."""
    add_row(K, R, SH, block, i, h)
    add_row(K, R, SHG, block, i, h * G)
    add_row(K, R, SW, block, i, hh)
    add_row(K, R, SWG, block, i, hh * G)
    add_row(K, R, SWGG, block, i, hh * G * G)


@jit
def observe(A: Any, arm: int, inverse_p: float, y: float, t: int, known: int) -> None:
    """Add the decision just drawn, whose distribution stands in the row of weights."""
    observe_at(pointer(A), arm, inverse_p, y, t, known)


@jit
def observe_at(R: Any, arm: int, inverse_p: float, y: float, t: int, known: int) -> None:
    """Same as `observe`, with a pointer."""
    K = to_int(R[ARMS])
    R[LAST] = t
    if known == NOTHING:
        R[UNKNOWN] += 1.0
        bet_on_own(K, R, arm, y)
    else:
        if R[WEIGHTED] >= R[REFRESH]:
            refresh_bets(K, R)
        m = mean_before(R[row(K, N) + arm], R[row(K, S) + arm])
        h = 1.0
        hh = 1.0
        a1, a2 = row(K, A1), row(K, A2)
        if known >= ALL:
            w = weights_at(K)
            whole = K // LANES
            for block in range(whole):
                grow_weights(K, R, block, 0, t, known, zeros())
            for i in range(whole * LANES, K):
                grow_weights(K, R, 0, i, t, known, 0.0)
            hh = R[w + arm]
            h = math.sqrt(hh)
        else:
            R[OWN_ONLY] += 1.0
            for i in range(K):
                R[a1 + i] += 1.0
                R[a2 + i] += 1.0
        R[a1 + arm] -= h
        R[a2 + arm] -= hh
        fold_aipw(K, R, arm, m)
        add_aipw(K, R, 0, arm, h, hh, m + (y - m) * inverse_p)
        fold_weighted(K, R, arm, m)
        for side in range(2):
            first = row(K, BET + SIDE * side) + arm
            X = (y if side == 0 else 1.0 - y) * inverse_p
            guess = m if side == 0 else 1.0 - m
            add_weighted(K, R, side, 0, arm, R[first], R[first + K], guess, X, 1.0)
        R[row(K, FOLDED) + arm] += 1.0
        R[WEIGHTED] += 1.0
        count_gaps(K, R, arm, R[LAM], R[LAM_PSI], inverse_p, y)
        bet_on_own(K, R, arm, y)
    R[TOLD] += 1.0
    if R[TOLD] >= R[CHECKPOINT]:
        keep_checkpoint(K, R)


@jit
def grow_weights(K: int, R: Any, block: int, i: int, t: int, known: int, like: Any) -> None:
    """Add the distribution of a decision to the sums of arms since they were last played."""
    a1, a2 = advance(R, row(K, A1) + i), advance(R, row(K, A2) + i)
    least = advance(R, row(K, LEAST) + i)
    w = advance(R, weights_at(K) + i)
    p = load(w, block, like)
    h = p
    if known == ROOTS:
        p = h * h
        store(w, block, p)
    else:
        h = sqrt(p)
    store(a1, block, load(a1, block, like) + h)
    store(a2, block, load(a2, block, like) + p)
    x = p * float(K)
    store(least, block, minimum(load(least, block, like), x * x * x * float(t)))


@jit
def enter(
    K: int, R: Any, block: int, i: int, arm: int, inverse_p: float, y: float, t: int, known: int,
    w: Any, m: Any, bets: Any, like: Any,
) -> Any:  # fmt: skip
    """Add a decision of the past to the sums of some arms; tell if all of them were there.

    The type of ``like`` shows whether it is the arm i or a block of arms (`lanes.vectors`).
    """
    first = i + block * width(like)
    # This decision is entered here and not by the next fold.
    folded = advance(R, row(K, FOLDED) + i)
    mark = load(folded, block, like) + 1.0
    store(folded, block, mark)
    if any_lane(mark < R[WEIGHTED]):
        for each in range(first, first + width(like)):
            fold_weighted(K, R, each, mean_before(R[row(K, N) + each], R[row(K, S) + each]))
    share = splat(1.0, like)
    here = splat(1.0, like)
    if known == ALL:
        given = load(advance(w, i), block, like)
        share = select(given > 0.0, given, 0.0)
        here = select(given > 0.0, here, 0.0)
        least = advance(R, row(K, LEAST) + i)
        before = load(least, block, like)
        x = share * float(K)
        after = minimum(before, x * x * x * float(t))
        # NaN stands for an arm that was away.
        store(least, block, select(given == given, after, before))
    inverse = select(counting(first, like) == arm, splat(inverse_p, like), 0.0)
    guess = load(advance(m, i), block, like)
    G = guess + (y - guess) * inverse
    add_aipw(K, R, block, i, sqrt(share), share, G)
    for side in range(2):
        X = inverse * (y if side == 0 else 1.0 - y)
        start = BET + SIDE * side
        lam = load(advance(bets, side * K + i), block, like)
        now = load(advance(R, row(K, start) + i), block, like)
        p = load(advance(R, row(K, start + PSI - BET) + i), block, like)
        add_weighted(K, R, side, block, i, lam, p, select(side == 0, guess, 1.0 - guess), X, here)
        # A logarithm costs as much as all the rest.
        if any_lane(lam != now):
            for each in range(first, first + width(like)):
                at = row(K, start) + each
                if known != ALL or w[each] > 0.0:
                    mean = m[each] if side == 0 else 1.0 - m[each]
                    z = -mean
                    if each == arm:
                        z += (y if side == 0 else 1.0 - y) * inverse_p
                    R[at + (SP - BET) * K] += (psi(bets[side * K + each]) - R[at + K]) * z * z
    return negate(any_lane(here == 0.0))


@jit
def observe_late(
    A: Any, arm: int, inverse_p: float, y: float, t: int, known: int, w: Any, m: Any, bets: Any
) -> None:
    """Add a past decision, with the sums of every arm at that time.

    ``w``, ``m`` and ``bets`` are probabilities (NaN where the arm was away), guesses and the bets
    of the drift form: the lower ends', the upper ends', and last the one for gaps.
    """
    observe_late_at(pointer(A), arm, inverse_p, y, t, known, pointer(w), pointer(m), pointer(bets))


@jit
def observe_late_at(
    R: Any, arm: int, inverse_p: float, y: float, t: int, known: int, w: Any, m: Any, bets: Any
) -> None:
    """Same as `observe_late`, with pointers."""
    K = to_int(R[ARMS])
    R[LAST] = maximum(R[LAST], t)
    if known == NOTHING:
        R[UNKNOWN] += 1.0
    else:
        if known == OWN:
            R[OWN_ONLY] += 1.0
        R[WEIGHTED] += 1.0
        whole = True
        blocks = K // LANES
        for block in range(blocks):
            whole &= enter(K, R, block, 0, arm, inverse_p, y, t, known, w, m, bets, zeros())
        for i in range(blocks * LANES, K):
            whole &= enter(K, R, 0, i, arm, inverse_p, y, t, known, w, m, bets, 0.0)
        if whole:
            lam = bets[2 * K]
            p = R[LAM_PSI] if lam == R[LAM] else psi(lam)
            count_gaps(K, R, arm, lam, p, inverse_p, y)
        else:
            R[PARTIAL] += 1.0
    fold_aipw(K, R, arm, mean_before(R[row(K, N) + arm], R[row(K, S) + arm]))
    bet_on_own(K, R, arm, y)
    R[TOLD] += 1.0
    if R[TOLD] >= R[CHECKPOINT]:
        keep_checkpoint(K, R)


@jit
def note(A: Any, m: Any, bets: Any) -> None:
    """Write down the guesses and bets that a decision of this moment will need when it is late."""
    note_at(pointer(A), pointer(m), pointer(bets))


@jit
def note_at(R: Any, m: Any, bets: Any) -> None:
    """Same as `note`, with pointers."""
    K = to_int(R[ARMS])
    if R[WEIGHTED] >= R[REFRESH]:
        refresh_bets(K, R)
    for i in range(K):
        m[i] = mean_before(R[row(K, N) + i], R[row(K, S) + i])
        bets[i] = R[row(K, BET) + i]
        bets[K + i] = R[row(K, BET + SIDE) + i]
    bets[2 * K] = R[LAM]


@jit
def aipw(K: int, R: Any, arm: int) -> Any:
    """Return the weighted mean of an arm's estimates and its standard error; NaN without weight."""
    m = mean_before(R[row(K, N) + arm], R[row(K, S) + arm])
    a1, a2 = R[row(K, A1) + arm], R[row(K, A2) + arm]
    sh = R[row(K, SH) + arm] + a1
    if sh == 0.0:
        return math.nan, math.nan
    Q = (R[row(K, SHG) + arm] + a1 * m) / sh
    squares = R[row(K, SWGG) + arm] + a2 * m * m
    products = R[row(K, SWG) + arm] + a2 * m
    spread = squares - 2.0 * Q * products + Q * Q * (R[row(K, SW) + arm] + a2)
    return Q, math.sqrt(maximum(spread, 0.0)) / sh


@jit
def mean_and_error(A: Any, arm: int) -> Any:
    """Same as `aipw`, for callers from Python."""
    return aipw(to_int(A[ARMS]), pointer(A), arm)


@jit
def keep_checkpoint(K: int, R: Any) -> None:
    """Write where every arm stands into the history, thinning it when it is full."""
    used = to_int(R[POINTS_USED])
    numbers = 1 + KEPT * K
    if used == POINTS:
        for point in range(POINTS // 2):
            for i in range(numbers):
                R[history_at(K, point) + i] = R[history_at(K, 2 * point + 1) + i]
        used = POINTS // 2
        R[RATIO] *= R[RATIO]
    at = history_at(K, used)
    R[at] = R[LAST]
    mu = tables_at(K)
    for arm in range(K):
        place = at + 1 + KEPT * arm
        Q, error = aipw(K, R, arm)
        R[place] = R[weights_at(K) + arm]
        R[place + 1] = R[row(K, N) + arm]
        R[place + 2] = Q
        R[place + 3] = error
        R[place + 4] = R[mu + to_int(R[row(K, ENDS + 2) + arm])]
        R[place + 5] = R[mu + to_int(R[row(K, ENDS + 3) + arm])]
    R[POINTS_USED] = used + 1
    R[CHECKPOINT] = maximum(R[TOLD] + 1.0, math.ceil(R[TOLD] * R[RATIO]))


@jit
def observe_all(
    A: Any, arms: Any, inverse_p: Any, losses: Any, rounds: Any, known: Any, W: Any
) -> None:
    """Add rows of a log in order; ``W`` has a row per decision, NaN where an arm was away."""
    R = pointer(A)
    K = to_int(R[ARMS])
    m, bets = np.empty(K), np.empty(2 * K + 1)
    for n in range(arms.size):
        whole = True
        if known[n] == ALL:
            w = weights_at(K)
            for i in range(K):
                R[w + i] = W[n, i]
                whole &= W[n, i] > 0.0
        if whole:
            observe(A, arms[n], inverse_p[n], losses[n], rounds[n], known[n])
        else:
            note(A, m, bets)
            observe_late(A, arms[n], inverse_p[n], losses[n], rounds[n], known[n], W[n], m, bets)


@jit
def bet_all(A: Any, arms: Any, losses: Any) -> None:
    """Bet on the losses of rows in order, and keep no other sum."""
    R = pointer(A)
    K = to_int(R[ARMS])
    for n in range(arms.size):
        bet_on_own(K, R, arms[n], losses[n])
