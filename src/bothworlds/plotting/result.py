"""Plot of a simulation's result: mean regret of every policy, with bands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bothworlds.plotting.draw import (
    LINEAR_END,
    WIDTH,
    draw_curve,
    linear_axes,
    log_axes,
    note,
    panels,
    rounds_label,
    save,
    shared_legend,
    style,
)
from bothworlds.plotting.looks import looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Curves(Protocol):
    """What a plot needs of a `bothworlds.Result`."""

    @property
    def checkpoints(self) -> NDArray[np.int64]:
        """The rounds that were recorded."""

    @property
    def regret(self) -> Mapping[str, NDArray[np.float64]]:
        """Of every policy an array (repetitions, checkpoints)."""

    @property
    def names(self) -> list[str]:
        """The policies' names."""


def draw_regret(
    axes: Any, result: Curves, first: int, last: int, names: Iterable[str] | None = None
) -> list[float]:
    """Draw every policy's regret between two rounds; return the extremes of the means."""
    inside = (result.checkpoints >= first) & (result.checkpoints <= last)
    extremes: list[float] = []
    for place, (name, look) in enumerate(looks(names or result.names).items()):
        if name not in result.regret:
            continue
        runs = result.regret[name][:, inside]
        draw_curve(axes, result.checkpoints[inside], runs, look, place=place)
        mean = runs.mean(axis=0)
        extremes += [float(mean.min()), float(mean.max())]
    return extremes


def plot_result(result: Curves, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw a simulation: mean regret of every policy, and a band of two standard deviations.

    The first 10 000 rounds are on a linear panel, the later ones on a log-log panel; where regret
    is never positive later, a linear panel holds all.

    Parameters
    ----------
    result : Result
        What `bothworlds.simulate` returned.
    path : path, optional
        Where to save the figure; the ending says as what.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(n_arms=2, gap=0.25)
    >>> result = bw.simulate([bw.TsallisINF()], world, horizon=500, repetitions=8, seed=1)
    >>> [axes.get_ylabel() for axes in plot_result(result).axes]
    ['pseudo-regret']
    """
    horizon = int(result.checkpoints[-1])
    after = result.checkpoints >= LINEAR_END
    late = np.count_nonzero(after) >= 3 and any(
        (runs[:, after].mean(axis=0) > 0).any() for runs in result.regret.values()
    )
    with style():
        figure, grid = panels(1, 2 if late else 1, 3.4, WIDTH if late else 0.62 * WIDTH)
        axes = grid[0, 0]
        last = min(horizon, LINEAR_END) if late else horizon
        linear_axes(axes, last, draw_regret(axes, result, 1, last))
        axes.set_xlabel(rounds_label(last))
        axes.set_ylabel("pseudo-regret")
        if late:
            begin = int(result.checkpoints[result.checkpoints >= LINEAR_END][0])
            draw_regret(grid[0, 1], result, begin, horizon)
            log_axes(grid[0, 1], begin, horizon, *log_limits(result, begin))
            grid[0, 1].set_xlabel("round t")
        shared_legend(figure, 3 if late else 2)
        runs = max(map(len, result.regret.values()))
        note(
            figure,
            f"{horizon:,} rounds, {runs} repetitions; line: mean, band: two standard deviations",
        )
        if path is not None:
            save(figure, path)
    return figure


def log_limits(result: Curves, first: int) -> tuple[float, float]:
    """Return limits of a logarithmic axis that hold every mean from ``first`` on."""
    inside = result.checkpoints >= first
    means = np.array([runs[:, inside].mean(axis=0) for runs in result.regret.values()])
    positive = means[means > 0]
    if positive.size == 0:
        return 0.1, 10.0
    return float(positive.min()) / 1.6, float(positive.max()) * 1.6
