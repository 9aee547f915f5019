"""Figure of several results: a panel for each, and one legend."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from bothworlds.arguments import one_of
from bothworlds.errors import invalid
from bothworlds.plotting.draw import BANDS, WIDTH, finished, panels, shared_legend, style
from bothworlds.plotting.result import Curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Plotted(Curves, Protocol):
    """Part of a `bothworlds.Result` that a figure needs: its curves, and plots on given axes."""

    @property
    def plot(self) -> Callable[..., Any]:
        """Draw the regret over time."""

    @property
    def plot_tail(self) -> Callable[..., Any]:
        """Draw the tail of the regret."""


def figure(
    results: Mapping[str, Plotted],
    path: str | os.PathLike[str] | None = None,
    *,
    show: Literal["regret", "tail"] = "regret",
    columns: int | None = None,
    scale: Literal["linear", "log", "symlog"] | None = None,
    band: Literal["se", "sd", "quantiles", "none"] = "se",
    policies: Iterable[str] | None = None,
    size: tuple[float, float] | None = None,
    regret: str = "pseudo",
) -> Figure:
    """Draw several results, a panel for each, with one legend; save it if a path is given.

    Parameters
    ----------
    results : mapping of str to Result
        Results by the titles of their panels.
    path : path, optional
        Where to save it: .png, .pdf or .svg.
    show : {"regret", "tail"}
        Mean regret over time, or the share of runs with more than x at the end.
    columns : int, optional
        Panels in a row; by default up to three.
    scale, band
        As in `Result.plot`; for "regret" only.
    policies : iterable of str, optional
        Which policies to draw; a panel shows those its result has.
    size : (width, height), optional
        In inches.
    regret : str
        Which regret, as in `Result.summary`.

    Examples
    --------
    >>> import bothworlds as bw
    >>> both = {"RV": bw.TsallisINF(), "UCB1": bw.UCB1()}
    >>> worlds = {
    ...     "fixed": bw.environments.Stochastic.gap(4, 0.25),
    ...     "shifting": bw.environments.Switching(4, 0.25),
    ... }
    >>> results = {
    ...     name: bw.simulate(both, world, horizon=500, repetitions=16, seed=1)
    ...     for name, world in worlds.items()
    ... }
    >>> drawn = figure(results)
    >>> [axes.get_title("left") for axes in drawn.axes], len(drawn.legends)
    (['fixed', 'shifting'], 1)
    """
    if not isinstance(results, Mapping) or not results:
        raise invalid("results", "figure", "a dict of names to results", results)
    one_of("show", show, "figure", ("regret", "tail"))
    wanted = None if policies is None else list(policies)
    across = min(3, len(results)) if columns is None else max(1, min(columns, len(results)))
    down = -(-len(results) // across)
    width, height = size or (WIDTH, 0.7 + 2.3 * down)
    with style():
        drawn, grid = panels(down, across, height, width)
        for axes, (title, result) in zip(grid.flat, results.items(), strict=False):
            names = [name for name in result.names if wanted is None or name in wanted]
            options: dict[str, Any] = {"ax": axes, "title": title, "policies": names}
            if show == "tail":
                result.plot_tail(regret=regret, **options)
            else:
                result.plot(regret=regret, scale=scale, band=band, **options)
        for axes in grid.flat[len(results) :]:
            axes.remove()
        for axes in grid[:, 1:].flat:
            axes.set_ylabel("")
        shared_legend(drawn)
        runs = sorted({len(each) for result in results.values() for each in result.regret.values()})
        told = f"{' to '.join(map(str, runs[:: max(1, len(runs) - 1)]))} repetitions"
        if show == "regret":
            told += "; line: mean" + (f", band: {BANDS[band]}" if band != "none" else "")
        return finished(drawn, path, told)
