"""One look for every figure: the same algorithm has the same colour, line and marker everywhere.

Colours are those of Okabe and Ito, told apart with any colour vision; lines and markers differ as
well, so nothing is lost in black and white.  Figures are made without pyplot and without changing
anyone's settings.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.atomic import replacing
from bothworlds.errors import InvalidParameter, missing_extra, must

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bothworlds.simulation.result import Result

LINEAR_END = 10_000
"""The paper's linear panels end here and its log-log panels begin."""

WIDTH = 7.2
"""Inches across a page; the fonts are chosen for it."""


@dataclass(frozen=True)
class Look:
    """How one algorithm is drawn.

    Parameters
    ----------
    label : str
        Its name in legends.
    colour : str
        Hexadecimal.
    line : str or tuple
        A dash pattern of matplotlib.
    marker : str
        A marker of matplotlib.
    width : float
        Of the line, in points.
    """

    label: str
    colour: str
    line: Any
    marker: str
    width: float = 1.3


LOOKS: dict[str, Look] = {
    look.label: look
    for look in (
        Look("Tsallis-INF (RV)", "#0072B2", "-", "o", 2.0),
        Look("Tsallis-INF (IW)", "#56B4E9", (0, (5, 1.5)), "s", 1.7),
        Look("Thompson sampling", "#009E73", (0, (6, 1.5, 1.2, 1.5)), "^"),
        Look("UCB1", "#D55E00", (0, (1.2, 1.2)), "v"),
        Look("EXP3", "#E69F00", (0, (9, 2)), "D"),
        Look("EXP3++", "#CC79A7", (0, (4, 1.2, 1.2, 1.2, 1.2, 1.2)), "P"),
        Look("BROAD", "#3B3B3B", (0, (2.5, 1.2)), "X"),
        Look("KL-UCB", "#882255", (0, (1.2, 2.4)), "<"),
        Look("Uniform", "#8C8C8C", (0, (1, 3)), "_"),
    )
}
"""Every algorithm of the paper by its name there."""

_CONSTRUCTORS = {
    "TsallisINF()": "Tsallis-INF (RV)",
    "TsallisINF(estimator='iw')": "Tsallis-INF (IW)",
    "ThompsonSampling": "Thompson sampling",
    "UCB1": "UCB1",
    "Exp3": "EXP3",
    "Exp3PlusPlus": "EXP3++",
    "Broad": "BROAD",
    "KLUCB": "KL-UCB",
    "Uniform": "Uniform",
}

_SPARE = (
    ("#117733", "-", ">"),
    ("#AA4499", (0, (7, 1.5)), "h"),
    ("#6A3D00", (0, (3, 1.5, 1, 1.5)), "*"),
    ("#332288", (0, (1.5, 1)), "d"),
    ("#7A7A00", (0, (10, 1.5)), "p"),
    ("#444444", (0, (5, 1, 1, 1, 1, 1)), "8"),
)
"""Looks for names the table does not know."""


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for every name: the algorithm's own, or a spare one.

    Names may be the paper's or constructors, as `bothworlds.simulate` gives them. No two names
    share a look.

    Examples
    --------
    >>> [look.colour for look in looks(["UCB1()", "UCB1(c=2.0)", "UCB1"]).values()]
    ['#D55E00', '#117733', '#AA4499']
    >>> [look.colour for look in looks(["Sparring()", "Sparring(UCB1())"]).values()]
    ['#0072B2', '#D55E00']
    """
    chosen: dict[str, Look] = {}
    taken: set[str] = set()
    spare = 0
    for name in names:
        known = LOOKS.get(_paper_name(name))
        if known is not None and known.colour not in taken:
            chosen[name] = Look(name, known.colour, known.line, known.marker, known.width)
            taken.add(known.colour)
        else:
            colour, line, marker = _SPARE[spare % len(_SPARE)]
            chosen[name] = Look(name, colour, line, marker)
            spare += 1
    return chosen


def _paper_name(name: str) -> str:
    # In duels an algorithm looks as it does alone.
    sparring = re.fullmatch(r"Sparring\((.*)\)", name)
    if sparring is not None:
        name = sparring.group(1) or "TsallisINF()"
    if name in _CONSTRUCTORS:
        return _CONSTRUCTORS[name]
    called = re.match(r"(\w+)\(", name)
    return _CONSTRUCTORS.get(called.group(1), name) if called else name


_STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.fontsize": 9.0,
    "legend.frameon": False,
    "legend.handlelength": 2.9,
    "lines.markersize": 4.2,
    "savefig.dpi": 200.0,
    "pdf.fonttype": 42,
    "svg.hashsalt": "bothworlds",
    "axes.formatter.useoffset": False,
    "figure.constrained_layout.w_pad": 0.04,
    "figure.constrained_layout.wspace": 0.04,
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw everything inside the ``with`` block in the house's style."""
    try:
        import matplotlib
    except ImportError as error:
        raise missing_extra("lab", "matplotlib") from error
    with matplotlib.rc_context(_STYLE):
        yield


def panels(
    rows: int, columns: int, height: float, width: float = WIDTH, **sharing: Any
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure and its axes, an array of ``rows`` by ``columns``."""
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=(width, height), layout="constrained")
    axes: NDArray[Any] = figure.subplots(rows, columns, squeeze=False, **sharing)
    return figure, axes


def draw_curve(
    axes: Any,
    x: ArrayLike,
    runs: ArrayLike,
    look: Look,
    *,
    place: int = 0,
    marks: int = 6,
    band: str = "runs",
) -> None:
    """Draw the mean over the runs and a band of two standard deviations.

    Parameters
    ----------
    axes : matplotlib axes
        Where to draw.
    x : array_like (points,)
        Abscissae, increasing.
    runs : array_like (repetitions, points)
        One curve per repetition.
    look : Look
        Colour, line and marker.
    place : int
        The curve's number in its panel: the markers of neighbours do not coincide.
    marks : int
        About how many markers to set.
    band : {"runs", "mean", "none"}
        Standard deviations of what: of a run, or of the mean over the runs.
    """
    at, values = np.asarray(x, dtype=np.float64), np.asarray(runs, dtype=np.float64)
    mean = values.mean(axis=0)
    if band != "none" and len(values) > 1:
        spread = 2.0 * values.std(axis=0, ddof=1) / (len(values) ** 0.5 if band == "mean" else 1)
        axes.fill_between(at, mean - spread, mean + spread, color=look.colour, alpha=0.12, lw=0)
    step = max(1, at.size // marks)
    axes.plot(
        at,
        mean,
        color=look.colour,
        linestyle=look.line,
        linewidth=look.width,
        marker=look.marker,
        markevery=slice((place * step) // 7 % step, None, step),
        markerfacecolor="white",
        markeredgewidth=1.0,
        label=look.label,
    )


BOUND = {"color": "#5A5A5A", "linewidth": 0.9, "zorder": 1.5}
_BOUND_LINES = {"upper": (0, (1, 0)), "lower": (0, (1, 1.6))}


def draw_bound(axes: Any, x: ArrayLike, y: ArrayLike, kind: str, label: str) -> None:
    """Draw a thin grey line: ``kind`` "upper" is solid with ticks, "lower" dotted."""
    marker = 2 if kind == "upper" else 3
    step = max(1, np.size(x) // 5)
    axes.plot(
        x, y, linestyle=_BOUND_LINES[kind], label=label, marker=marker, markersize=3.5,
        markevery=slice(step // 2, None, step), **BOUND,
    )  # fmt: skip


def end_labels(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write the names of curves right of the panel, each at its last value, none over another.

    Parameters
    ----------
    axes : matplotlib axes
        Its limits must be final.
    ends : sequence of (float, str, str)
        Last value, name and colour.
    """
    apart = 0.085
    ends = sorted(ends)
    values = np.array([[0.0, end[0]] for end in ends])
    heights = axes.transAxes.inverted().transform(axes.transData.transform(values))[:, 1]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + apart)
    # What was pushed up too far comes back down as a block.
    for i in range(len(heights) - 2, -1, -1):
        wanted = axes.transAxes.inverted().transform(axes.transData.transform(values))[i, 1]
        middle = 0.5 * (wanted + heights[i])
        heights[i] = min(middle, heights[i + 1] - apart)
    for height, (_, text, colour) in zip(heights, ends, strict=True):
        axes.annotate(
            text, (1.0, height), xycoords="axes fraction", xytext=(5, 0),
            textcoords="offset points", va="center", color=colour, fontsize=9,
        )  # fmt: skip


def linear_axes(axes: Any, last: float, heights: Sequence[float]) -> None:
    """Count rounds in thousands up to ``last``; 0 and these heights stay in view."""
    axes.set_xlim(0, last)
    axes.set_ylim(1.08 * min([*heights, 0.0]), 1.08 * max([*heights, 1e-9]))
    axes.locator_params(axis="both", nbins=5)
    if last >= 2000:
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")


def log_axes(axes: Any, first: float, last: float, low: float, high: float) -> None:
    """Set both axes logarithmic between these limits."""
    axes.set_xscale("log")
    axes.set_xlim(first, last)
    _log_ticks(axes.xaxis, last / first)
    log_heights(axes, low, high)


def log_heights(axes: Any, low: float, high: float) -> None:
    """Set the vertical axis logarithmic between these limits."""
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(low, high)
    _log_ticks(axes.yaxis, high / low)


def _log_ticks(axis: Any, span: float) -> None:
    """Label whole decades, and what lies between where there are few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0,) if span >= 16 else (1.0, 2.0, 5.0), numticks=9))
    axis.set_minor_locator(LogLocator(subs=tuple(range(1, 10)), numticks=9))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(_power))


def _power(value: float, _: int) -> str:
    """Write 500 as it is, 100 000 as a power of ten and 20 000 as a multiple of one.

    Examples
    --------
    >>> _power(500, 0), _power(1e5, 0)
    ('500', '$10^{5}$')
    """
    if value <= 0:
        return ""
    exponent = int(np.floor(np.log10(value) + 1e-9))
    factor = round(value / 10.0**exponent)
    if exponent < 3 and value >= 0.1:
        return f"{value:g}"
    return f"$10^{{{exponent}}}$" if factor == 1 else f"${factor}{{\\times}}10^{{{exponent}}}$"


def rounds_label(last: float) -> str:
    """Return the label of a linear axis of rounds that ends at ``last``."""
    return "round t (thousands)" if last >= 2000 else "round t"


def shared_legend(figure: Figure, columns: int = 4) -> None:
    """Put one legend for all panels above them, every label once."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        entries.values(), entries.keys(), loc="outside upper center",
        ncols=min(columns, max(1, len(entries))), columnspacing=1.2, handletextpad=0.6,
    )  # fmt: skip


def note(figure: Figure, text: str) -> None:
    """Write what was run in small print under the panels."""
    figure.supxlabel(text, x=0.012, ha="left", fontsize=7.5, color="#4A4A4A")


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format of the path's ending, atomically and without a date."""
    target = Path(path)
    kind = target.suffix.lstrip(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        expected = "a file name ending in .png, .pdf or .svg"
        raise InvalidParameter(must("path", "plot", expected, str(path)))
    dateless: Mapping[str, Mapping[str, Any]] = {
        "pdf": {"CreationDate": None},
        "svg": {"Date": None},
    }
    with style(), replacing(target) as draft:
        figure.savefig(draft, format=kind, metadata=dateless.get(kind))


def draw_regret(
    axes: Any, result: Result, first: int, last: int, names: Iterable[str] | None = None
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


def plot_result(result: Result, path: str | os.PathLike[str] | None = None) -> Figure:
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


def log_limits(result: Result, first: int) -> tuple[float, float]:
    """Return limits of a logarithmic axis that hold every mean from ``first`` on."""
    inside = result.checkpoints >= first
    means = np.array([runs[:, inside].mean(axis=0) for runs in result.regret.values()])
    positive = means[means > 0]
    if positive.size == 0:
        return 0.1, 10.0
    return float(positive.min()) / 1.6, float(positive.max()) * 1.6
