"""Means, intervals and confidence sequences read off the running sums.

Losses in [0, 1] throughout; `bothworlds.evidence.report` turns them into the user's units.

References
----------
V. Hadad, D. Hirshberg, R. Zhan, S. Wager and S. Athey, "Confidence intervals for policy evaluation
in adaptive experiments", PNAS 118(15), 2021.

I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting", Journal
of the Royal Statistical Society B 86, 2024.

I. Waudby-Smith, L. Wu, A. Ramdas, N. Karampatziakis and P. Mineiro, "Anytime-valid off-policy
inference for contextual bandits", 2022.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from bothworlds.arguments import number
from bothworlds.evidence import layout, update
from bothworlds.evidence.sums import Evidence

Pair = tuple[float, float]

EVENTS = 30
"""Fewer answers of an arm than this many tosses of a fair coin: no interval."""

FLOOR = 0.25
"""Smallest scale of a floor t^(-1/3) / K under which a log's interval is taken to be sound."""


def checked_confidence(confidence: object, owner: str) -> float:
    """Return a confidence for which sequences are kept.

    Examples
    --------
    >>> checked_confidence(0.95, "Bandit.report")
    0.95
    >>> checked_confidence(95, "Bandit.report")
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The confidence of Bandit.report must be a number in ...
    """
    top = layout.LEVELS[-1]
    return number("confidence", confidence, owner, 0.5, top, f"a number in [0.5, {top}]")


def mean_and_error(evidence: Evidence, arm: int) -> Pair:
    """Return the AIPW mean of an arm's losses and its standard error; NaN before any weight."""
    mean, error = update.mean_and_error(evidence.R, arm)
    return float(mean), float(error)


def interval(evidence: Evidence, arm: int, confidence: float) -> Pair:
    """Return the interval of an arm's mean at a time fixed in advance, within [0, 1]."""
    mean, error = mean_and_error(evidence, arm)
    reach = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * error
    return max(0.0, mean - reach), min(1.0, mean + reach)


def events(evidence: Evidence, arm: int) -> float:
    """Return how many tosses of a fair coin an arm's answers are worth: twice the rarer outcome."""
    n, s = float(evidence.row(layout.N)[arm]), float(evidence.row(layout.S)[arm])
    return 2.0 * max(0.0, min(s, n - s))


def floor_kept(evidence: Evidence, arm: int) -> float:
    """Return the largest scale of a floor scale t^(-1/3) / K that the arm's probability kept."""
    return float(np.cbrt(evidence.row(layout.LEAST)[arm]))


def sequence(evidence: Evidence, arm: int, confidence: float) -> Pair | None:
    """Return where an arm's constant mean is, valid at all times at once; None if it moved.

    The running intersection of the sets that the bets have not excluded, rounded outwards to the
    grid.
    """
    level = next(n for n, kept in enumerate(layout.LEVELS) if kept >= confidence)
    low = int(evidence.row(layout.ENDS + 2 * level)[arm])
    up = int(evidence.row(layout.ENDS + 2 * level + 1)[arm])
    if layout.LEVELS[level] != confidence:
        # Kept at the next higher level; what is excluded right now can be more.
        limit = 2.0 / (1.0 - confidence)
        below, above = evidence.capitals()[arm]
        last = evidence.cells
        while low < last and below[low + 1] >= limit:
            low += 1
        while up > 0 and above[up - 1] >= limit:
            up -= 1
    if low >= up:
        return None
    mu = evidence.means()
    return float(mu[low]), float(mu[up])


def drifting_sequence(evidence: Evidence, arm: int, confidence: float) -> Pair:
    """Return where a weighted average of an arm's moving means is, valid at all times at once.

    The weights are the bets, which fall with the number of decisions.
    """
    ends = []
    guess = float(update.mean_before(*(evidence.row(r)[arm] for r in (layout.N, layout.S))))
    since = evidence.R[layout.WEIGHTED] - evidence.row(layout.FOLDED)[arm]
    for side in range(2):
        first = layout.SIDE * side
        lam, p, sl, slx, sp = (
            float(evidence.row(first + which)[arm])
            for which in (layout.BET, layout.PSI, layout.SL, layout.SLX, layout.SP)
        )
        m = guess if side == 0 else 1.0 - guess
        sl += lam * since
        sp += p * m * m * since
        end = (slx - sp - math.log(2.0 / (1.0 - confidence))) / sl if sl > 0.0 else 0.0
        ends.append(min(1.0, max(0.0, float(end))))
    return ends[0], 1.0 - ends[1]


def gap(evidence: Evidence, a: int, b: int, confidence: float) -> float:
    """Return the largest x such that arm a loses at least x less than arm b, with confidence.

    Each end holds with half of the error allowed, so the statement holds at all times at once.
    """
    ours, theirs = sequence(evidence, a, confidence), sequence(evidence, b, confidence)
    if ours is None or theirs is None:
        return -1.0
    return theirs[0] - ours[1]


def drifting_gap(evidence: Evidence, a: int, b: int, confidence: float) -> float:
    """Return the largest x by which a confidently loses less than b on weighted average.

    For means that move. The loss of b and the gain of a, weighted and halved, are bet on together,
    so a level common to both arms may move as it likes.
    """
    R = evidence.R
    if R[layout.PARTIAL] > 0.0 or R[layout.SUM_LAM] == 0.0:
        return -1.0
    # The second of the two rows, for 1 - y, follows the first.
    x = evidence.row(layout.GX)[b] + evidence.row(layout.GX + 1)[a]
    p = evidence.row(layout.GP)[b] + evidence.row(layout.GP + 1)[a] + 0.25 * R[layout.SUM_PSI]
    low = (0.5 * x - p + math.log(1.0 - confidence)) / R[layout.SUM_LAM]
    return float(max(-1.0, 2.0 * low - 1.0))


def plain_mean(evidence: Evidence, arm: int) -> float:
    """Return the average of an arm's losses, which adaptive choice biases."""
    return float(evidence.row(layout.S)[arm] / evidence.row(layout.N)[arm])
