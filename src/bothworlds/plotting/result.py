"""Plots of a simulation's result: regret over time, arms over time, and a table of many results."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.arguments import one_of
from bothworlds.errors import invalid
from bothworlds.plotting import draw
from bothworlds.plotting.looks import looks
from bothworlds.text import clipped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scale = Literal["linear", "log", "symlog"]
Bound = Callable[[NDArray[np.int64]], ArrayLike] | ArrayLike

SIZES = {"page": (draw.WIDTH, 3.3), "column": (3.4, 2.5)}
"""Inches: across a page, and one of a journal's two columns."""

LABELLED = 9
"""The most curves that are named at their ends; more have a legend."""


class Curves(Protocol):
    """Part of a `bothworlds.Result` that a plot needs."""

    @property
    def checkpoints(self) -> NDArray[np.int64]:
        """The rounds that were recorded."""

    @property
    def regret(self) -> Mapping[str, NDArray[np.float64]]:
        """An array (repetitions, checkpoints) per policy."""

    @property
    def plays(self) -> Mapping[str, NDArray[np.int64]]:
        """An array (repetitions, arms) per policy."""

    @property
    def policies(self) -> Mapping[str, str]:
        """The policies' constructors."""

    @property
    def environment(self) -> str:
        """The environment's constructor."""

    @property
    def names(self) -> list[str]:
        """The policies' names."""


def draw_regret(
    axes: Any,
    result: Curves,
    first: int,
    last: int,
    names: Iterable[str] | None = None,
    band: str = "se",
) -> list[float]:
    """Draw every policy's regret between two rounds; return the extremes of the means."""
    inside = (result.checkpoints >= first) & (result.checkpoints <= last)
    extremes: list[float] = []
    chosen = looks(names or result.names, result.policies)
    for place, (name, look) in enumerate(chosen.items()):
        if name not in result.regret:
            continue
        runs = result.regret[name][:, inside]
        draw.draw_curve(axes, result.checkpoints[inside], runs, look, place=place, band=band)
        mean = runs.mean(axis=0)
        extremes += [float(mean.min()), float(mean.max())]
    return extremes


def plot_result(
    result: Curves,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    ax: Any = None,
    scale: Scale | None = None,
    band: str = "se",
    policies: Iterable[str] | None = None,
    bounds: Mapping[str, Bound] | None = None,
    size: str | tuple[float, float] | None = None,
    regret: str = "pseudo-regret",
) -> Figure:
    """Draw a simulation: mean regret of every policy, and a thin band.

    By default, the first 10 000 rounds are on a linear panel and the later ones on a
    log-log panel; where the regret is negative somewhere, one panel is logarithmic in both
    directions from 0.

    Parameters
    ----------
    result : Result
        What `bothworlds.simulate` returned.
    path : path, optional
        Where to save the figure; the ending selects the format.
    title : str, optional
        The environment and its number of arms by default; an empty string for none.
    ax : matplotlib axes, optional
        Draw there, on one panel, and leave legend and note to the caller.
    scale : {"linear", "log", "symlog"}, optional
        One panel with this scale.
    band : {"se", "sd", "quantiles", "none"}
        Two standard errors of the mean, two standard deviations, nine runs in ten, or no band.
    policies : iterable of str, optional
        Which policies to draw; their colours do not depend on it.
    bounds : mapping, optional
        Lines to draw besides: their names to functions of the rounds, or to values at the
        checkpoints. A name that begins with "lower" is drawn as a lower bound.
    size : {"page", "column"} or (width, height), optional
        In inches.
    regret : str
        What the regret of the result is, in words; it names the axis.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(n_arms=2, gap=0.25)
    >>> result = bw.simulate([bw.TsallisINF()], world, horizon=500, repetitions=8, seed=1)
    >>> theorem = {"Theorem 1": lambda t: bw.bounds.adversarial(2, t)}
    >>> [axes.get_ylabel() for axes in plot_result(result, scale="log", bounds=theorem).axes]
    ['pseudo-regret']
    """
    band = draw.checked_band(band)
    names = chosen_names(result, policies)
    horizon = int(result.checkpoints[-1])
    lines = {name: _values(bound, result) for name, bound in (bounds or {}).items()}
    scales = [scale] if scale is not None else _scales(result, names, single=ax is not None)
    for each in scales:
        one_of("scale", each, "plot", ("linear", "log", "symlog"))
    with draw.style():
        if ax is not None:
            _panel(ax, result, scales[0], 1, horizon, names, band, lines, regret)
            figure: Figure = ax.figure
            if title is not None:
                ax.set_title(title)
        else:
            figure, grid = draw.panels(1, len(scales), *inches(size, len(scales))[::-1])
            split = len(scales) == 2
            for axes, each, first, last in zip(
                grid[0],
                scales,
                (1, draw.LINEAR_END) if split else (1,),
                (draw.LINEAR_END, horizon) if split else (horizon,),
                strict=True,
            ):
                _panel(axes, result, each, first, last, names, band, lines, regret)
            for axes in grid[0, 1:]:
                axes.set_ylabel("")
            _named(figure, grid[0], result, names)
            entitle(figure, result, title)
            draw.note(figure, _told(result, names, band))
        return draw.finished(figure, path)


def chosen_names(result: Curves, policies: Iterable[str] | None) -> list[str]:
    """Return the names to draw, or refuse one there is not."""
    if policies is None:
        return result.names
    names = [policies] if isinstance(policies, str) else list(policies)
    for name in names:
        if name not in result.regret:
            raise invalid("policies", "plot", f"among {', '.join(result.names)}", name)
    if not names:
        raise invalid("policies", "plot", "at least one name", names)
    return names


def _values(bound: Bound, result: Curves) -> NDArray[np.float64]:
    """Return a bound at every checkpoint."""
    given = bound(result.checkpoints) if callable(bound) else bound
    values = np.asarray(given, dtype=np.float64)
    if values.shape != result.checkpoints.shape:
        expected = f"functions of the rounds, or {result.checkpoints.size} values"
        raise invalid("bounds", "plot", expected, given)
    return values


def _scales(result: Curves, names: list[str], single: bool) -> list[str]:
    """Choose the scales of the panels."""
    means = np.array([result.regret[name].mean(axis=0) for name in names])
    if (means < 0).any():
        return ["symlog"]
    after = result.checkpoints >= draw.LINEAR_END
    late = np.count_nonzero(after) >= 3 and bool((means[:, after] > 0).any())
    if not late:
        return ["linear"]
    return ["log"] if single else ["linear", "log"]


def inches(size: str | tuple[float, float] | None, count: int) -> tuple[float, float]:
    """Return width and height of a figure."""
    if size is None:
        return (draw.WIDTH, 3.3) if count > 1 else (0.72 * draw.WIDTH, 3.3)
    if isinstance(size, str):
        if size not in SIZES:
            raise invalid("size", "plot", '"page", "column" or two numbers', size)
        return SIZES[size]
    width, height = size
    return float(width), float(height)


def _panel(
    axes: Any,
    result: Curves,
    scale: str,
    first: int,
    last: int,
    names: list[str],
    band: str,
    lines: Mapping[str, NDArray[np.float64]],
    label: str,
) -> None:
    """Draw one panel between two rounds."""
    begin = int(result.checkpoints[result.checkpoints >= first][0])
    extremes = draw_regret(axes, result, begin, last, names, band)
    inside = (result.checkpoints >= begin) & (result.checkpoints <= last)
    rounds = result.checkpoints[inside]
    for name, values in lines.items():
        lower = name.lower().startswith("lower")
        draw.draw_bound(axes, rounds, values[inside], "lower" if lower else "upper", f"_{name}")
        draw.name_line(axes, rounds, values[inside], name, above=not lower)
        extremes += [float(values[inside].min()), float(values[inside].max())]
    if scale == "linear":
        draw.linear_axes(axes, last, extremes)
        axes.set_xlabel(draw.rounds_label(last))
    elif scale == "symlog":
        draw.symlog_axes(axes, begin, last, min(extremes), max(extremes))
        axes.set_xlabel("round t")
    else:
        low, high = log_limits(result, begin, names)
        tops = [float(values[inside].max()) for values in lines.values()]
        draw.log_axes(axes, begin, last, low, max([high, *(1.3 * top for top in tops)]))
        axes.set_xlabel("round t")
    axes.set_ylabel(label)


def _named(figure: Figure, row: Sequence[Any], result: Curves, names: list[str]) -> None:
    """Name the curves at their ends, or in a legend where they are too many or too long."""
    if len(names) > LABELLED or max(map(len, names)) > 24:
        draw.shared_legend(figure, 3 if len(row) > 1 else 2)
        return
    chosen = looks(names, result.policies)
    ends = [(float(result.regret[n][:, -1].mean()), n, look.colour) for n, look in chosen.items()]
    figure.draw_without_rendering()
    draw.end_labels(row[-1], ends, apart=0.075, size=8.5)


def entitle(figure: Figure, result: Curves, title: str | None) -> None:
    """Write a title over a figure: by default the environment, cut to fit, and its arms."""
    if title is None:
        arms = next(iter(result.plays.values())).shape[1]
        name = clipped(result.environment, int(11.0 * figure.get_figwidth()) - 8)
        title = name if re.search(rf"n_arms={arms}\b", name) else f"{name}, K = {arms}"
    if title:
        draw.entitle(figure, title)


def _told(result: Curves, names: list[str], band: str) -> str:
    """Print the scale and the meaning of the band."""
    runs = sorted({len(result.regret[name]) for name in names})
    many = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    said = f"{int(result.checkpoints[-1]):,} rounds, {many} repetitions; line: mean"
    return said + (f", band: {draw.BANDS[band]}" if band != "none" else "")


def log_limits(
    result: Curves, first: int, names: Iterable[str] | None = None
) -> tuple[float, float]:
    """Return limits of a logarithmic axis that hold every mean from ``first`` on."""
    inside = result.checkpoints >= first
    chosen = result.names if names is None else list(names)
    means = np.array([result.regret[name][:, inside].mean(axis=0) for name in chosen])
    positive = means[means > 0]
    if positive.size == 0:
        return 0.1, 10.0
    return float(positive.min()) / 1.6, float(positive.max()) * 1.6
