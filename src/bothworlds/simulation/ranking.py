"""Ranking of policies: all pairs compared at once, with simultaneous bootstrap intervals."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bothworlds.errors import InvalidParameter, must
from bothworlds.simulation.comparison import Comparison
from bothworlds.simulation.measures import MEASURES, title

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Ranking:
    """Policies by their mean regret, and every difference with an interval.

    With the confidence given, *all* intervals hold at once: whatever pair is picked afterwards,
    its interval is not too short. They come from a studentised bootstrap over the repetitions, in
    which all policies of a repetition, having met the same losses, are drawn together.

    Parameters
    ----------
    round : int
        The checkpoint.
    runs : int
        Repetitions all policies have.
    level : float
        The confidence level.
    means : dict of str to float
        Mean regret of every policy, the least first.
    pairs : tuple of Comparison
        Every pair, the better policy second.
    regret : str
        Which regret: "pseudo", "realised", "block" or "fixed".
    """

    round: int
    runs: int
    level: float
    means: Mapping[str, float]
    pairs: tuple[Comparison, ...]
    regret: str = "pseudo"

    @property
    def words(self) -> str:
        """Which regret it is, in words."""
        return MEASURES[self.regret]

    def __str__(self) -> str:
        width = min(28, max(map(len, self.means)))
        best = next(iter(self.means))
        against = {pair.first: pair for pair in self.pairs if pair.second == best}
        lines = [
            f"{title(self.regret)} at round {self.round:,}, {self.runs} repetitions; "
            f"differences to the best hold together with {self.level:.0%} confidence"
        ]
        for place, (name, mean) in enumerate(self.means.items(), start=1):
            shown = name if len(name) <= width else name[: width - 1] + "…"
            line = f"{place:3d}  {shown:{width}} {mean:12,.1f}"
            if name in against:
                pair = against[name]
                line += f"  {pair.difference:+,.1f} [{pair.low:+,.1f}, {pair.high:+,.1f}]"
            lines.append(line)
        unclear = [pair for pair in self.pairs if pair.low <= 0.0]
        if unclear:
            told = "; ".join(f"{pair.second} and {pair.first}" for pair in unclear)
            lines.append(f"Not told apart: {told}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def plot(self, path: str | os.PathLike[str] | None = None) -> matplotlib.figure.Figure:
        """Draw every difference with its interval; save it if a path is given."""
        from bothworlds.plotting.pairs import plot_ranking

        return plot_ranking(self, path)


def ranked(
    regret: Mapping[str, NDArray[np.float64]],
    repetitions: Mapping[str, NDArray[np.int64]],
    round: int,
    level: float,
    resamples: int,
    seed: int,
) -> Ranking:
    """Rank policies by regret at one round; see `bothworlds.Result.ranking`."""
    owner = "Result.ranking"
    if len(regret) < 2:
        raise InvalidParameter(must("policies", owner, "at least two", list(regret)))
    if not 0 < level < 1:
        raise InvalidParameter(must("level", owner, "between 0 and 1", level))
    common = _common(list(repetitions.values()))
    if common.size < 2:
        expected = "run in two or more of the same repetitions"
        raise InvalidParameter(must("policies", owner, expected, list(regret)))
    rows = {name: np.isin(repetitions[name], common) for name in regret}
    order = sorted(regret, key=lambda name: float(regret[name][rows[name]].mean()))
    runs = np.stack([regret[name][rows[name]] for name in order], axis=1)
    n = len(runs)
    picked = list(itertools.combinations(range(len(order)), 2))
    # The better of a pair is the second: differences are positive.
    differences = np.stack([runs[:, worse] - runs[:, better] for better, worse in picked], axis=1)
    means = differences.mean(axis=0)
    errors = differences.std(axis=0, ddof=1) / np.sqrt(n)
    widest = _quantile(differences, means, level, resamples, np.random.default_rng(seed))
    pairs = tuple(
        Comparison(
            order[worse], order[better], round, n, float(means[k]),
            float(means[k] - widest * errors[k]), float(means[k] + widest * errors[k]), level,
        )
        for k, (better, worse) in enumerate(picked)
    )  # fmt: skip
    shown = {name: float(runs[:, k].mean()) for k, name in enumerate(order)}
    return Ranking(round, n, level, shown, pairs)


def _common(numbers: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the repetitions that all policies have."""
    found = numbers[0]
    for other in numbers[1:]:
        found = np.intersect1d(found, other)
    return np.unique(found)


def _quantile(
    differences: NDArray[np.float64],
    means: NDArray[np.float64],
    level: float,
    resamples: int,
    rng: np.random.Generator,
) -> float:
    """Return the quantile of the largest studentised difference over all pairs."""
    n = len(differences)
    squares = differences**2
    largest = np.zeros(resamples)
    step = max(1, 2**22 // max(1, n))
    for low in range(0, resamples, step):
        high = min(resamples, low + step)
        weights = rng.multinomial(n, np.full(n, 1.0 / n), size=high - low) / n
        drawn = weights @ differences
        spread = np.sqrt(np.maximum(weights @ squares - drawn**2, 0.0) / (n - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.abs(drawn - means) / spread
        # Runs that do not differ at all are told apart for certain, and not by this.
        largest[low:high] = np.where(spread > 1e-12, off, 0.0).max(axis=1)
    return float(np.quantile(largest, level, method="higher"))
