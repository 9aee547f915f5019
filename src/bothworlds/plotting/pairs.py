"""Plots of comparisons: a ranking's pairs with intervals, and a heat map of many results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bothworlds.errors import invalid
from bothworlds.plotting.draw import INK, QUIET, WIDTH, entitle, finished, panels, style
from bothworlds.text import clipped, narrow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bothworlds.plotting.result import Curves


class Compared(Protocol):
    """Part of each pair that the plot of a ranking needs."""

    @property
    def first(self) -> str:
        """The policy with more regret."""

    @property
    def second(self) -> str:
        """The policy with less."""

    @property
    def difference(self) -> float:
        """First minus second."""

    @property
    def low(self) -> float:
        """Lower end of the interval."""

    @property
    def high(self) -> float:
        """Upper end of the interval."""

    def interval(self) -> str:
        """Return the interval, or why it is withheld."""


class Pairs(Protocol):
    """Part of a `bothworlds.simulation.ranking.Ranking` that the plot needs."""

    @property
    def pairs(self) -> Sequence[Compared]:
        """Every pair."""

    @property
    def round(self) -> int:
        """The checkpoint."""

    @property
    def runs(self) -> int:
        """Repetitions."""

    @property
    def level(self) -> float:
        """Confidence that all intervals hold."""

    @property
    def words(self) -> str:
        """Which regret it is."""


def plot_ranking(ranking: Pairs, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the difference of every pair with its interval, the largest at the top.

    Intervals that contain 0, whose policies are not told apart, are hollow; where a few runs carry
    a difference, there is a remark instead of an interval.

    Parameters
    ----------
    ranking : Ranking
        What `bothworlds.Result.ranking` returned.
    path : path, optional
        Where to save the figure; the ending selects the format.
    """
    pairs = sorted(ranking.pairs, key=lambda pair: pair.difference)
    with style():
        figure, grid = panels(1, 1, 0.9 + 0.26 * len(pairs), 0.8 * WIDTH)
        axes = grid[0, 0]
        for place, pair in enumerate(pairs):
            clear = pair.low > 0.0
            colour = INK if clear else QUIET
            if np.isfinite(pair.high - pair.low):
                axes.plot([pair.low, pair.high], [place, place], color=colour, linewidth=1.3)
            else:
                right = pair.difference > pairs[-1].difference / 2.0
                axes.annotate(
                    pair.interval(), (pair.difference, place), (-6 if right else 6, 0),
                    textcoords="offset points", ha="right" if right else "left", va="center",
                    fontsize=7.5, color=QUIET,
                )  # fmt: skip
            axes.plot(
                [pair.difference], [place], marker="o", markersize=5, color=colour,
                markerfacecolor=colour if clear else "white",
            )  # fmt: skip
        axes.axvline(0.0, color="#9A9A9A", linewidth=0.7, zorder=1.2)
        names = [f"{clipped(p.first, 26)} \N{MINUS SIGN} {clipped(p.second, 26)}" for p in pairs]
        axes.set_yticks(range(len(pairs)), names)
        axes.set_ylim(-0.6, len(pairs) - 0.4)
        axes.grid(visible=False)
        axes.set_xlabel(f"difference in {ranking.words} at round {ranking.round:,}")
        told = (
            f"{ranking.runs} repetitions; all intervals hold together with {ranking.level:.0%} "
            "confidence; hollow: not told apart"
        )
        return finished(figure, path, told)


def plot_regret_table(
    results: Mapping[str, Curves] | Sequence[Curves],
    path: str | os.PathLike[str] | None = None,
    *,
    at: int | None = None,
    title: str = "",
) -> Figure:
    """Draw a heat map of mean regret: a row for every policy, a column for every result.

    A cell is as dark as its regret exceeds the least of its column, relative to it, which holds for
    negative regret as well; the number is the mean.

    Parameters
    ----------
    results : mapping or sequence of Result
        Results by the names of their columns; a sequence is named by the environments.
    path : path, optional
        Where to save the figure; the ending selects the format.
    at : int, optional
        A checkpoint that all results have; the last of each by default.
    title : str
        Over the figure.

    Examples
    --------
    >>> import bothworlds as bw
    >>> both = [bw.TsallisINF(), bw.UCB1()]
    >>> worlds = {
    ...     "fixed": bw.environments.Stochastic.gap(4, 0.25),
    ...     "shifting": bw.environments.Switching(4, 0.25),
    ... }
    >>> found = {
    ...     name: bw.simulate(both, world, horizon=500, repetitions=16, seed=1)
    ...     for name, world in worlds.items()
    ... }
    >>> figure = plot_regret_table(found)
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['fixed', 'shifting']
    """
    columns = dict(results) if isinstance(results, Mapping) else {}
    if not isinstance(results, Mapping):
        for result in results:
            columns.setdefault(clipped(result.environment, 30), result)
    if not columns:
        raise invalid("results", "plot_regret_table", "at least one", results)
    names = list(dict.fromkeys(name for result in columns.values() for name in result.names))
    means = np.full((len(names), len(columns)), np.nan)
    for j, result in enumerate(columns.values()):
        column = _column(result, at)
        for i, name in enumerate(names):
            if name in result.regret:
                means[i, j] = result.regret[name][:, column].mean()
    with style():
        width = min(WIDTH, 2.4 + 0.95 * len(columns))
        figure, grid = panels(1, 1, 1.2 + 0.34 * len(names), width)
        _heat(grid[0, 0], means, names, list(columns))
        if title:
            entitle(figure, title)
        told = "mean pseudo-regret; darker: more times the least of the column"
        return finished(figure, path, told)


def _column(result: Curves, at: int | None) -> int:
    if at is None:
        return len(result.checkpoints) - 1
    hits = np.flatnonzero(result.checkpoints == at)
    if not hits.size:
        raise invalid("at", "plot_regret_table", "a checkpoint of every result", at)
    return int(hits[0])


def _heat(axes: Any, means: Any, names: list[str], columns: list[str]) -> None:
    """Fill a panel with cells and their numbers."""
    least = np.nanmin(means, axis=0)
    shades = np.log10(1.0 + (means - least) / np.maximum(np.abs(least), 1.0))
    axes.imshow(
        np.ma.masked_invalid(shades), cmap="Greys", vmin=-0.15, vmax=2.2, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    for i, j in np.ndindex(means.shape):
        if np.isfinite(means[i, j]):
            best = means[i, j] == np.nanmin(means[:, j])
            axes.text(
                j, i, narrow(float(means[i, j])), ha="center", va="center", fontsize=8.5,
                color="white" if shades[i, j] > 1.1 else INK, weight="bold" if best else "normal",
            )  # fmt: skip
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(names)), [clipped(name, 30) for name in names])
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
