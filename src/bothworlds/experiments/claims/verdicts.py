"""Verdicts on claims: a statistic, its bootstrap over the repetitions, and a threshold.

A claim is judged at places: a cell, a pair of algorithms, a number of arms.  At each of them a
statistic of the mean regret is compared with a threshold, and the repetitions of the cell are drawn
again with replacement to see how far chance carries it.  The repetitions of all algorithms of a
cell are drawn together, as they met the same losses.

=====  =========================================================================================
word   rule, for a claim about every place
=====  =========================================================================================
holds  at every place 95 % of the bootstrap keep the threshold
fails  at some place 95 % of the bootstrap break it; of n places, 1 - 5 %/n have to
open   neither: the interval contains the threshold, or the runs are too few or too short
=====  =========================================================================================

For a claim about some place the two rules change places.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bothworlds.experiments.claims.statements import Statement
from bothworlds.experiments.model import Cell, Claim, Outcome, Verdict

RESAMPLES = 4000
"""Bootstrap samples; a threshold among a hundred places still has two of them beyond it."""

LEVEL = 0.05
"""Share of the bootstrap that may lie on the other side."""

FEWEST = 8
"""Repetitions below which a bootstrap says nothing."""

Draws = NDArray[np.float64]
"""A statistic of the runs themselves, and then of every bootstrap sample."""


@dataclass(frozen=True, eq=False)
class Place:
    """A statistic where it was measured.

    Parameters
    ----------
    name : str
        The cell, algorithms or arms, for a sentence.
    draws : ndarray (1 + RESAMPLES,)
        The statistic of the runs, then of the bootstrap samples.
    panel : str
        Where it can be seen, see `Claim.panel`.
    """

    name: str
    draws: Draws
    panel: str = ""

    @property
    def value(self) -> float:
        """The statistic of the runs."""
        return float(self.draws[0])

    def low(self, share: float = LEVEL) -> float:
        """Return what all but this share of the bootstrap exceeds."""
        return float(np.quantile(self.draws[1:], share, method="lower"))

    def high(self, share: float = LEVEL) -> float:
        """Return what only this share of the bootstrap exceeds."""
        return float(np.quantile(self.draws[1:], 1.0 - share, method="higher"))


@functools.lru_cache(maxsize=48)
def _weights(cell: str, repetitions: int) -> NDArray[np.float64]:
    """Return how much each repetition counts: all alike, and then as often as it is drawn."""
    rng = np.random.default_rng([zlib.crc32(cell.encode()), repetitions])
    even = np.full(repetitions, 1.0 / repetitions)
    drawn = rng.multinomial(repetitions, even, size=RESAMPLES) / repetitions
    return np.concatenate([even[None, :], drawn])


def curves(outcome: Outcome, cell: Cell, name: str) -> Draws:
    """Return the mean regret at every checkpoint, of the runs and of every bootstrap sample."""
    runs = outcome.results[cell.id].regret[name]
    drawn: Draws = _weights(cell.id, len(runs)) @ runs
    return drawn


def finals(outcome: Outcome, cell: Cell, name: str, at: int | None = None) -> Draws:
    """Return the mean regret at one checkpoint, the last by default, and its bootstrap."""
    runs = outcome.final(cell, name, at)
    drawn: Draws = _weights(cell.id, len(runs)) @ runs
    return drawn


def verdict_of(
    places: Sequence[Place], limit: float, *, at_most: bool = True, some: bool = False
) -> Verdict:
    """Return the verdict on statistics that must be at most (or at least) a limit.

    Parameters
    ----------
    places : sequence of Place
        Where it was measured.
    limit : float
        The threshold.
    at_most : bool
        Whether the statistic must not exceed the limit; else it must not fall below it.
    some : bool
        Whether one place is enough.

    Examples
    --------
    >>> steady = Place("here", np.full(1 + RESAMPLES, 1.5))
    >>> noisy = Place("there", np.linspace(1.0, 3.0, 1 + RESAMPLES))
    >>> [verdict_of([place], 2.0) for place in (steady, noisy)]
    ['holds', 'open']
    >>> verdict_of([steady, noisy], 1.2), verdict_of([steady, noisy], 1.2, at_most=False, some=True)
    ('fails', 'holds')
    """

    def kept(place: Place, share: float) -> bool:
        return place.high(share) <= limit if at_most else place.low(share) >= limit

    def broken(place: Place, share: float) -> bool:
        return place.low(share) > limit if at_most else place.high(share) < limit

    shared = LEVEL / len(places)
    if some:
        if any(kept(place, shared) for place in places):
            return "holds"
        return "fails" if all(broken(place, LEVEL) for place in places) else "open"
    if any(broken(place, shared) for place in places):
        return "fails"
    return "holds" if all(kept(place, LEVEL) for place in places) else "open"


def judged(
    statement: Statement,
    outcome: Outcome,
    places: Sequence[Place],
    limit: float,
    *,
    threshold: str,
    shown: str = "up to {}",
    digits: int = 2,
    percent: bool = False,
    at_most: bool = True,
    some: bool = False,
    reason: str,
    rounds: int = 0,
    note: str = "",
) -> Claim:
    """Judge a claim by the place that is farthest on the wrong side, or by the best of them.

    Parameters
    ----------
    statement : Statement
        The claim, and its source.
    threshold : str
        As in `Claim`.
    outcome : Outcome
        What was measured.
    places : sequence of Place
        Where the statistic was measured; without any, the claim is open for ``reason``.
    limit, at_most, some
        As in `verdict_of`.
    shown : str
        How the number is told.
    digits : int
        Decimals.
    percent : bool
        Whether the number is a share.
    reason : str
        Why nothing was measured.
    rounds : int
        How long the claim speaks of; what ran for less is open.
    note : str
        What else to tell.
    """
    if not places:
        return statement.judged(reason, threshold, "open", why=f"Not judged: {reason}.")
    upwards = at_most != some
    worst = (max if upwards else min)(places, key=lambda place: place.value)

    def told(value: float) -> str:
        return f"{value:.0%}" if percent else f"{round(value, digits) + 0.0:.{digits}f}"

    def between(place: Place) -> str:
        return f"[{told(place.low(*shares[:1]))}, {told(place.high(*shares[1:]))}]"

    # The side that breaks a claim about every place must be beyond chance at all of them.
    shares = (LEVEL / len(places), LEVEL) if upwards else (LEVEL, LEVEL / len(places))
    where = f" ({worst.name})" if worst.name else ""
    measured = f"{shown.format(told(worst.value))} {between(worst)}{where}{note}"
    claim = functools.partial(statement.judged, measured, threshold)
    runs = outcome.settings.repetitions
    horizon = outcome.settings.horizon
    if horizon < rounds:
        why = f"The claim speaks of {rounds:,} rounds, and these are {horizon:,}."
        return claim("open", why=why, panel=worst.panel)
    if runs < FEWEST:
        why = f"{runs} repetitions are too few to tell chance from the rest; {FEWEST} are needed."
        return claim("open", why=why, panel=worst.panel)
    verdict = verdict_of(places, limit, at_most=at_most, some=some)
    why, panel = "", worst.panel
    if verdict == "open":
        doubt = _doubtful(places, limit, at_most)
        panel = doubt.panel
        why = (
            f"Too close to call with {runs} repetitions: the interval "
            f"{between(doubt)} ({doubt.name}) contains the threshold."
        )
    return claim(verdict, why=why, panel=panel)


def _doubtful(places: Sequence[Place], limit: float, at_most: bool) -> Place:
    """Return the place whose interval reaches farthest over the threshold."""
    if at_most:
        return max(places, key=lambda place: place.high() - limit)
    return min(places, key=lambda place: place.low() - limit)
