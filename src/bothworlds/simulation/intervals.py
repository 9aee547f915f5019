"""Intervals for statistics of the runs: the studentised bootstrap, and when to withhold it.

``n``   runs
``u``   influence of each run on a statistic; for a mean, the run minus the mean
``s``   standard error of the statistic, sqrt(sum (u - mean u)^2 / (n (n - 1)))
``t*``  change of the statistic in a bootstrap sample, divided by the standard error there

The ends of an interval are ``value - s q(t*)``, with ``q`` the upper and the lower quantile, so
that it is longer on the side of the long tail. `Result.compare`, `Result.ranking` and the claims of
`bothworlds.experiments` all use it.

No method that only knows the runs covers the mean where a few of them carry it: most samples hold
none, or twice too many, of the runs that matter. Such data show themselves. Where the heaviest
twentieth of the runs deviates from the median more than all others together, the statistic *rests
on* these runs. Where they are fewer than eight besides, the interval is withheld, which means
infinite; unless twenty times as much of them, as if every run were such a one, would not carry the
statistic over the value it is compared with, which is 0 or the threshold of a claim. Below eight
runs this cannot be seen.

References: P. Hall, *Theoretical comparison of bootstrap confidence intervals*, Annals of
Statistics 16, 1988; B. Efron and R. Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter
12; C. Clopper and E. Pearson, Biometrika 26, 1934.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

HEAVY = 0.05
"""Share of the runs that must not deviate more than all others together."""

FEWEST_RUNS = 8
"""A statistic that rests on fewer runs than this has no interval."""

HARMLESS = HEAVY
"""Runs that carry less than this share of the margin leave the interval.

They are a share `HEAVY` of the runs at most: were every run like them, they would carry 1 / HEAVY
times as much, and the statistic would still be on the same side.
"""

Floats = NDArray[np.float64]


def resampled(runs: int, samples: int, rng: np.random.Generator) -> Floats:
    """Return how much each run counts in every bootstrap sample, a row per sample."""
    return rng.multinomial(runs, np.full(runs, 1.0 / runs), size=samples) / runs


def standard_error(influence: Floats) -> Floats:
    """Return the standard error of statistics, from the influence of every run (a row) on them."""
    n = len(influence)
    return np.asarray(influence.std(axis=0, ddof=1) / np.sqrt(n))


def pivots(change: Floats, influence: Floats, weights: Floats) -> Floats:
    """Return t*, the change of a statistic in each sample by its standard error there.

    A sample whose runs do not differ has no standard error, so its change is infinitely far off.

    Parameters
    ----------
    change : ndarray (samples, ...)
        The statistic of each sample minus that of the runs.
    influence : ndarray (runs, ...)
        Influence of each run.
    weights : ndarray (samples, runs)
        What `resampled` returned.
    """
    drawn = weights @ influence
    variance = weights @ influence**2 - drawn**2
    spread = np.sqrt(np.maximum(variance, 0.0) / (len(influence) - 1))
    nothing = 1e-9 * standard_error(influence)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(spread > nothing, change / spread, np.inf * np.sign(change))
    return np.where(np.abs(change) <= nothing, 0.0, t)


def rests_on(influence: Floats) -> int:
    """Return on how few runs a statistic rests, or 0 where it rests on many.

    These are the fewest runs that deviate from the median more than all others together, if they
    are a twentieth of the runs or less.

    Examples
    --------
    >>> rests_on(np.append(np.zeros(62), [50.0, 90.0])), rests_on(np.linspace(-1.0, 1.0, 64))
    (1, 0)
    """
    n = len(influence)
    carried = np.cumsum(_heaviest_first(influence))
    if n < FEWEST_RUNS or not carried[-1] > 0.0:
        return 0
    heaviest = int(np.searchsorted(carried, carried[-1] / 2.0, side="right")) + 1
    return heaviest if heaviest <= math.ceil(HEAVY * n) else 0


def withheld(influence: Floats, margin: float) -> bool:
    """Tell whether a statistic has no interval: a few runs carry it, and could carry it over.

    Parameters
    ----------
    influence : ndarray (runs,)
        Influence of each run.
    margin : float
        How far the statistic is from the value it is compared with.

    Examples
    --------
    >>> few = np.append(np.zeros(62), [50.0, 90.0])
    >>> withheld(few, 1.0), withheld(few, 50.0)
    (True, False)
    """
    resting = rests_on(influence)
    heavy = float(_heaviest_first(influence)[:resting].sum())
    return 0 < resting < FEWEST_RUNS and not heavy < HARMLESS * len(influence) * abs(margin)


def _heaviest_first(influence: Floats) -> Floats:
    """Return how far each run is from the median, the farthest first."""
    return np.sort(np.abs(influence - np.median(influence)))[::-1]


def means(
    runs: Floats, level: float, resamples: int, seed: int
) -> tuple[Floats, Floats, Floats, list[int]]:
    """Return means of columns, intervals that hold together, and on how few runs each rests.

    Parameters
    ----------
    runs : ndarray (runs, columns)
        What was measured; the columns of a run belong together.
    level : float
        Confidence that all intervals hold.
    resamples, seed : int
        Bootstrap samples, and what draws them.

    Returns
    -------
    tuple
        Means, lower and upper ends, infinite where withheld, and `rests_on` of every column.

    Examples
    --------
    >>> runs = np.random.default_rng(1).normal(5.0, 2.0, size=(64, 1))
    >>> _, low, high, _ = means(runs, 0.95, 999, 7)
    >>> bool(low[0] < 5.0 < high[0] < low[0] + 1.2)
    True
    """
    n, columns = runs.shape
    value: Floats = runs.mean(axis=0)
    influence = runs - value
    resting = [rests_on(each) for each in influence.T]
    pairs = zip(influence.T, value, strict=True)
    stated = np.array([n > 1 and not withheld(each, float(mean)) for each, mean in pairs])
    low, high = np.full(columns, -np.inf), np.full(columns, np.inf)
    if stated.any():
        errors = standard_error(influence[:, stated])
        below, above = _extremes(influence[:, stated], level, resamples, seed)
        # Runs that do not differ at all have a certain mean, however far others reach.
        with np.errstate(invalid="ignore"):
            low[stated] = value[stated] - np.where(errors > 0.0, above * errors, 0.0)
            high[stated] = value[stated] - np.where(errors > 0.0, below * errors, 0.0)
    return value, low, high, resting


def _extremes(influence: Floats, level: float, resamples: int, seed: int) -> tuple[float, float]:
    """Return the quantiles of the least and of the greatest t* over all columns."""
    n = len(influence)
    least, greatest = np.zeros(resamples), np.zeros(resamples)
    first = 0
    for weights in _samples(n, resamples, seed):
        some = slice(first, first + len(weights))
        t = pivots(weights @ influence, influence, weights)
        least[some], greatest[some] = t.min(axis=1), t.max(axis=1)
        first = some.stop
    tail = (1.0 - level) / 2.0
    below = np.quantile(least, tail, method="lower")
    above = np.quantile(greatest, 1.0 - tail, method="higher")
    return float(below), float(above)


def _samples(n: int, resamples: int, seed: int) -> Iterable[Floats]:
    """Return the weights of all bootstrap samples, in blocks of limited size."""
    if resamples <= _most_samples(n):
        return (_one_block(n, resamples, seed),)
    rng = np.random.default_rng(seed)
    starts = range(0, resamples, _most_samples(n))
    return (resampled(n, min(resamples - first, _most_samples(n)), rng) for first in starts)


def _most_samples(n: int) -> int:
    """Return how many samples of this many runs are a block."""
    return max(1, 2**22 // n)


@functools.lru_cache(maxsize=1)
def _one_block(n: int, resamples: int, seed: int) -> Floats:
    """Return the weights of all samples; the cells of a table ask for the same ones."""
    return resampled(n, resamples, np.random.default_rng(seed))


@functools.lru_cache(maxsize=1024)
def exact_share(count: int, runs: int, level: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson for a share, which holds for any true share.

    Examples
    --------
    >>> [round(end, 3) for end in exact_share(29, 64, 0.95)], exact_share(0, 64, 0.95)[0]
    ([0.328, 0.583], 0.0)
    """
    if count == 0:
        return 0.0, 1.0 - ((1.0 - level) / 2.0) ** (1.0 / runs)
    if count == runs:
        return ((1.0 - level) / 2.0) ** (1.0 / runs), 1.0
    steps = np.log(np.arange(1, runs + 1))
    factorials = np.concatenate([[0.0], np.cumsum(steps)])
    k = np.arange(runs + 1)
    choices = factorials[-1] - factorials - factorials[::-1]

    def at_most(last: int, share: float) -> float:
        chances = choices + k * math.log(share) + (runs - k) * math.log1p(-share)
        return float(np.exp(chances[: last + 1]).sum())

    def where(last: int, chance: float) -> float:
        """Return the share at which at most ``last`` of the runs are as likely as ``chance``."""
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (middle, high) if at_most(last, middle) > chance else (low, middle)
        return low

    tail = (1.0 - level) / 2.0
    return where(count - 1, 1.0 - tail), where(count, tail)
