"""Ranking of policies: all pairs compared at once, with simultaneous bootstrap intervals."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bothworlds.errors import invalid
from bothworlds.markup import h, together
from bothworlds.simulation import intervals, tables
from bothworlds.simulation.comparison import Comparison
from bothworlds.simulation.measures import MEASURES, title

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Ranking:
    """Policies by their mean regret, and every difference with an interval.

    With the confidence given, *all* intervals hold at once: any pair may be picked afterwards. They
    come from a studentised bootstrap over the repetitions, in which all policies of a repetition,
    having met the same losses, are drawn together. Where a few runs carry a difference, its
    interval is withheld; see `bothworlds.simulation.intervals`.

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
                line += f"  {pair.difference:+,.1f} {pair.interval()}"
            lines.append(line)
        lines += [pair.robust for pair in against.values() if pair.rests_on]
        unclear = [pair for pair in self.pairs if not pair.apart]
        if unclear:
            named = "; ".join(f"{pair.second} and {pair.first}" for pair in unclear)
            lines.append(f"No clear difference: {named}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        best = next(iter(self.means))
        against = {pair.first: pair for pair in self.pairs if pair.second == best}
        rows = []
        for name, mean in self.means.items():
            pair = against.get(name)
            apart = ["", ""] if pair is None else [f"{pair.difference:+,.1f}", pair.interval()]
            rows.append([name, f"{mean:,.1f}", *apart])
        heads = ["policy", "mean", "difference to the best", f"{self.level:.0%} interval"]
        caption = f"{title(self.regret)} at round {self.round:,}, {self.runs} repetitions"
        # Below the table stand the sentences that follow the rows of the printed ranking.
        notes = str(self).splitlines()[1 + len(self.means) :]
        return together(tables.html(caption, heads, rows), map(h.p, notes))

    def to_latex(self) -> str:
        r"""Return the ranking as a LaTeX ``tabular`` for the package booktabs.

        The policies from the best on: mean regret, difference to the best with its interval, and
        the runs in which the best has less regret. A policy that is not told apart from the best
        is bold, as the best is.
        """
        best = next(iter(self.means))
        against = {pair.first: pair for pair in self.pairs if pair.second == best}
        rows = []
        for name, mean in self.means.items():
            pair = against.get(name)
            cells = [tables.escaped(name), tables.signed(f"{mean:,.1f}"), "", "", ""]
            if pair is None or not pair.apart:
                cells[:2] = [rf"\textbf{{{cell}}}" for cell in cells[:2]]
            if pair is not None:
                cells[2:] = [
                    tables.signed(f"{pair.difference:+,.1f}"),
                    _interval(pair),
                    f"{pair.worse:,}",
                ]
            rows.append(cells)
        head = ["policy", "mean", "difference", rf"{self.level * 100:g}\,\% interval", "worse in"]
        return tables.booktabs(head, rows)

    def plot(self, path: str | os.PathLike[str] | None = None) -> matplotlib.figure.Figure:
        """Draw every difference with its interval; save it if a path is given."""
        from bothworlds.plotting.pairs import plot_ranking

        return plot_ranking(self, path)


def _interval(pair: Comparison) -> str:
    """Return the interval in LaTeX, or the runs the difference rests on."""
    if pair.withheld:
        many = "" if pair.rests_on == 1 else "s"
        return f"rests on {pair.rests_on} run{many}" if pair.rests_on else "too few runs"
    return tables.signed(f"[{pair.low:+,.1f}, {pair.high:+,.1f}]")


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
        raise invalid("policies", owner, "at least two", list(regret))
    common = _common(list(repetitions.values()))
    if common.size < 2:
        raise invalid("policies", owner, "run in two or more of the same repetitions", list(regret))
    runs = {name: regret[name][np.isin(repetitions[name], common)] for name in regret}
    means = {name: float(runs[name].mean()) for name in runs}
    order = sorted(means, key=means.__getitem__)
    # The better of a pair is the second: differences are positive.
    pairs = [(worse, better) for better, worse in itertools.combinations(order, 2)]
    compared = paired(runs, pairs, round, level, resamples, seed, owner)
    return Ranking(round, common.size, level, {name: means[name] for name in order}, compared)


def paired(
    runs: Mapping[str, NDArray[np.float64]],
    pairs: Sequence[tuple[str, str]],
    round: int,
    level: float,
    resamples: int,
    seed: int,
    owner: str,
) -> tuple[Comparison, ...]:
    """Compare pairs of policies run by run; with the confidence given, all intervals hold.

    Parameters
    ----------
    runs : mapping of str to ndarray (runs,)
        Regret, in the order of the repetitions, which are the same for all policies.
    pairs : sequence of (str, str)
        First and second policy of each comparison.
    round, level, resamples, seed
        As in `bothworlds.Result.ranking`.
    owner : str
        The caller, for an error.
    """
    if not 0 < level < 1:
        raise invalid("level", owner, "between 0 and 1", level)
    differences = np.stack([runs[first] - runs[second] for first, second in pairs], axis=1)
    n = len(differences)
    means, low, high, resting = intervals.means(differences, level, resamples, seed)
    worse = np.count_nonzero(differences > 0.0, axis=0)
    medians = np.median(differences, axis=0)
    each_level = 1.0 - (1.0 - level) / len(pairs)
    return tuple(
        Comparison(
            first, second, round, n, float(means[k]), float(low[k]), float(high[k]), level,
            rests_on=resting[k], worse=int(worse[k]),
            share=intervals.exact_share(int(worse[k]), n, each_level), median=float(medians[k]),
        )
        for k, (first, second) in enumerate(pairs)
    )  # fmt: skip


def _common(numbers: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the repetitions that all policies have."""
    found = numbers[0]
    for other in numbers[1:]:
        found = np.intersect1d(found, other)
    return np.unique(found)
