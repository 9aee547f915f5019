"""Verdicts on claims: a statistic, its interval over the repetitions, and a threshold.

A claim is judged at places: a cell, a pair of algorithms, a number of arms.  At each of them a
statistic of the mean regret is compared with a threshold, and the repetitions are drawn again with
replacement to see how far chance carries it.  The repetitions of all algorithms of a cell are drawn
together, as they met the same losses.  `bothworlds.simulation.intervals` has the method; the
influence of a run is what the statistic changes by when the run is left out.  For statistics that
are not means this is a first-order approximation, so an interval also reaches as far as the
percentiles of the bootstrap do.

=====  =========================================================================================
word   rule, for a claim about every place
=====  =========================================================================================
holds  at every place the threshold is kept with 95 % confidence
fails  at some place it is broken with 95 % confidence; of n places, with 1 - 5 %/n
open   neither: the interval contains the threshold, the statistic rests on a few runs, or the runs
       are too few or too short
=====  =========================================================================================

For a claim about some place the two rules change places.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bothworlds.experiments.claims.statements import Statement
from bothworlds.experiments.model import Cell, Claim, Outcome, Verdict
from bothworlds.simulation.intervals import (
    pivots,
    resampled,
    rests_on,
    standard_error,
    withheld,
)

RESAMPLES = 4000
"""Bootstrap samples; a threshold among a hundred places still has two of them beyond it."""

LEVEL = 0.05
"""Chance of a wrong verdict at one place."""

FEWEST = 8
"""Repetitions below which a bootstrap is meaningless."""

NOT_RUN = "nothing to compare"
"""Why a claim is not judged where its cells were not run."""
Draws = NDArray[np.float64]
"""A statistic of the runs, then without each run in turn, then of every bootstrap sample."""


@dataclass(frozen=True, eq=False)
class Place:
    """A statistic where it was measured.

    Parameters
    ----------
    name : str
        The cell, algorithms or arms, for a sentence.
    draws : ndarray (1 + runs + RESAMPLES,)
        The statistic of the runs, without each of them, and of the bootstrap samples.
    panel : str
        Where it can be seen, see `Claim.panel`.
    limit : float
        The threshold it is compared with.
    """

    name: str
    draws: Draws
    panel: str = ""
    limit: float = 0.0

    @property
    def value(self) -> float:
        """The statistic of the runs."""
        return float(self.draws[0])

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.draws) - 1 - RESAMPLES

    @functools.cached_property
    def influence(self) -> Draws:
        """Contribution of each run to the statistic."""
        n = self.runs
        with np.errstate(invalid="ignore"):
            added: Draws = (n - 1) * (self.value - self.draws[1 : 1 + n])
        return added

    @functools.cached_property
    def rests_on(self) -> int:
        """On how few runs the statistic rests; 0 where it rests on many."""
        return rests_on(self.influence)

    @functools.cached_property
    def withheld(self) -> bool:
        """Whether there is no interval, as a few runs could carry it over the threshold."""
        return withheld(self.influence, self.value - self.limit)

    @functools.cached_property
    def _pivots(self) -> Draws:
        n = self.runs
        with np.errstate(invalid="ignore"):
            change = self._drawn - self.value
            return pivots(change, self.influence, _weights(n)[1 + n :])

    def low(self, share: float = LEVEL) -> float:
        """Return the lower confidence limit of the statistic; minus infinity if withheld."""
        studentised = self._end(np.quantile(self._pivots, 1.0 - share, method="higher"), -math.inf)
        return min(studentised, float(np.quantile(self._drawn, share, method="lower")))

    def high(self, share: float = LEVEL) -> float:
        """Return the upper confidence limit of the statistic; infinity if withheld."""
        studentised = self._end(np.quantile(self._pivots, share, method="lower"), math.inf)
        return max(studentised, float(np.quantile(self._drawn, 1.0 - share, method="higher")))

    @property
    def _drawn(self) -> Draws:
        return self.draws[1 + self.runs :]

    def _end(self, t: np.float64, nothing: float) -> float:
        """Return the end of an interval at a quantile of the pivots."""
        error = standard_error(self.influence)
        if error == 0.0:
            return self.value
        if self.withheld or not math.isfinite(error) or not math.isfinite(t):
            return nothing
        return float(self.value - t * error)

    def between(self, low: float, high: float, told: Callable[[float], str]) -> str:
        """Return the interval with these chances at its ends in brackets, or why there is none."""
        resting = f"rests on {self.rests_on:,} of {self.runs:,} runs"
        if self.withheld:
            return f"[withheld: {resting}]"
        also = f", {resting}" if self.rests_on else ""
        return f"[{told(self.low(low))}, {told(self.high(high))}{also}]"


@functools.lru_cache(maxsize=4)
def _weights(repetitions: int) -> NDArray[np.float64]:
    """Return how much each repetition counts: all alike, without each in turn, and as drawn.

    The same for all cells: a repetition is one draw of everything that was run.
    """
    even = np.full((1, repetitions), 1.0 / repetitions)
    without = (1.0 - np.eye(repetitions)) / max(1, repetitions - 1)
    again = resampled(repetitions, RESAMPLES, np.random.default_rng(repetitions))
    return np.concatenate([even, without, again])


def drawn(runs: NDArray[np.float64]) -> Draws:
    """Return the mean over the runs, without each of them, and of every bootstrap sample."""
    return _weights(len(runs)) @ runs


def curves(outcome: Outcome, cell: Cell, name: str) -> Draws:
    """Return the mean regret at every checkpoint, and its draws."""
    return drawn(outcome.results[cell.id].regret[name])


def finals(outcome: Outcome, cell: Cell, name: str, at: int | None = None) -> Draws:
    """Return the mean regret at one checkpoint, the last by default, and its draws."""
    return drawn(outcome.final(cell, name, at))


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
    >>> steady = Place("here", drawn(np.full(16, 1.5)))
    >>> noisy = Place("there", drawn(np.linspace(-3.0, 7.0, 16)))
    >>> [verdict_of([place], 2.0) for place in (steady, noisy)]
    ['holds', 'open']
    >>> verdict_of([steady, noisy], 1.2), verdict_of([steady, noisy], 1.2, at_most=False, some=True)
    ('fails', 'holds')
    """

    def kept(place: Place, share: float) -> bool:
        return place.high(share) <= limit if at_most else place.low(share) >= limit

    def broken(place: Place, share: float) -> bool:
        return place.low(share) > limit if at_most else place.high(share) < limit

    places = [replace(place, limit=limit) for place in places]
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
    threshold: str = "",
    shown: str = "up to {}",
    digits: int = 2,
    percent: bool = False,
    at_most: bool = True,
    some: bool = False,
    reason: str = NOT_RUN,
    rounds: int = 0,
    note: str = "",
) -> Claim:
    """Judge a claim by the place that is farthest on the wrong side, or by the best of them.

    Parameters
    ----------
    statement : Statement
        The claim, and its source.
    threshold : str
        As in `Claim`; that of a ratio by default.
    outcome : Outcome
        What was measured.
    places : sequence of Place
        Where the statistic was measured; without any, the claim is open for ``reason``.
    limit, at_most, some
        As in `verdict_of`.
    shown : str
        How the number is written.
    digits : int
        Decimals.
    percent : bool
        Whether the number is a share.
    reason : str
        Why nothing was measured.
    rounds : int
        Rounds that the claim is about; a shorter run leaves it open.
    note : str
        What else to tell.
    """
    threshold = threshold or f"ratio {'at most' if at_most else 'at least'} {limit:g}"
    if not places:
        return statement.judged(reason, threshold, "open", why=f"Not judged: {reason}.")
    places = [replace(place, limit=limit) for place in places]
    upwards = at_most != some
    worst = (max if upwards else min)(places, key=lambda place: place.value)

    def told(value: float) -> str:
        return f"{value:.0%}" if percent else f"{round(value, digits) + 0.0:.{digits}f}"

    def between(place: Place) -> str:
        return place.between(*shares, told)

    # The side that breaks a claim about every place must be beyond chance at all of them.
    shares = (LEVEL / len(places), LEVEL) if upwards else (LEVEL, LEVEL / len(places))
    where = f" ({worst.name})" if worst.name else ""
    measured = f"{shown.format(told(worst.value))} {between(worst)}{where}{note}"
    claim = functools.partial(statement.judged, measured, threshold)
    runs = outcome.settings.repetitions
    horizon = outcome.settings.horizon
    if horizon < rounds:
        why = f"The claim is about {rounds:,} rounds; this run has {horizon:,}."
        return claim("open", why=why, panel=worst.panel)
    if runs < FEWEST:
        why = (
            f"{runs} repetitions are too few to separate chance from an effect; {FEWEST} are "
            "needed."
        )
        return claim("open", why=why, panel=worst.panel)
    verdict = verdict_of(places, limit, at_most=at_most, some=some)
    why, panel = "", worst.panel
    if verdict == "open":
        doubt = _doubtful(places, limit, at_most)
        panel = doubt.panel
        if doubt.withheld:
            why = (
                f"Not judged: the statistic ({doubt.name}) rests on {doubt.rests_on} of "
                f"{doubt.runs:,} runs, too few for an interval that can be trusted."
            )
        else:
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
