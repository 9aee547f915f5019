"""Drawing of curves, bounds, axes and legends, in one style.

Figures are drawn without pyplot and without changing global settings.
"""

from __future__ import annotations

import contextlib
import functools
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bothworlds.errors import invalid, missing_extra
from bothworlds.files import saving
from bothworlds.plotting.looks import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINEAR_END = 10_000
"""The paper's linear panels end here and its log-log panels begin."""

WIDTH = 7.2
"""Inches across a page; the fonts are chosen for it."""


INK, QUIET = "#333333", "#6E6E6E"
"""Colours of words and axes, and of the background: bounds, notes."""

_STYLE = Path(__file__).with_name("bothworlds.mplstyle")


@functools.cache
def _settings() -> Any:
    """Read the style sheet, once."""
    from matplotlib import rc_params_from_file

    return rc_params_from_file(_STYLE, use_default_template=False)


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw everything inside the ``with`` block in the house's style."""
    try:
        import matplotlib
    except ImportError as error:
        raise missing_extra("lab", "matplotlib") from error
    with matplotlib.rc_context(_settings()):
        yield


def panels(
    rows: int, columns: int, height: float, width: float = WIDTH, **sharing: Any
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure and its axes, an array of ``rows`` by ``columns``."""
    from bothworlds.plotting.notebook import NotebookFigure

    figure = NotebookFigure(figsize=(width, height), layout="constrained")
    axes: NDArray[Any] = figure.subplots(rows, columns, squeeze=False, **sharing)
    return figure, axes


Box = tuple[float, ...]
"""Where a panel is: left, top, width and height as shares of the figure's width and height."""

BANDS = {
    "se": "two standard errors of the mean",
    "sd": "two standard deviations of a run",
    "quantiles": "from the 5 % to the 95 % quantile of the runs",
    "none": "",
}
"""Kinds of bands, with the words for them in a figure."""


def checked_band(band: str) -> str:
    """Return the word for a band, or refuse it."""
    if band not in BANDS:
        expected = "one of " + ", ".join(f'"{name}"' for name in BANDS)
        raise invalid("band", "plot", expected, band)
    return band


def band_of(runs: NDArray[np.float64], band: str) -> tuple[Any, Any] | None:
    """Return the lower and upper edge of a band, or None where there is none to draw."""
    word = checked_band(band)
    if word == "none" or len(runs) < 2:
        return None
    if word == "quantiles":
        low, high = np.quantile(runs, [0.05, 0.95], axis=0)
        return low, high
    spread = 2.0 * runs.std(axis=0, ddof=1) / (len(runs) ** 0.5 if word == "se" else 1.0)
    mean = runs.mean(axis=0)
    return mean - spread, mean + spread


def draw_curve(
    axes: Any,
    x: ArrayLike,
    runs: ArrayLike,
    look: Look,
    *,
    place: int = 0,
    marks: int = 4,
    band: str = "se",
) -> None:
    """Draw the mean over the runs and a thin band.

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
    band : {"se", "sd", "quantiles", "none"}
        Two standard errors of the mean, the paper's two standard deviations of a run, or the
        range of nine runs in ten. ("mean" and "runs" are older words for the first two.)
    """
    at, values = np.asarray(x, dtype=np.float64), np.asarray(runs, dtype=np.float64)
    edges = band_of(values, band)
    if edges is not None:
        axes.fill_between(at, *edges, color=look.colour, alpha=0.16, linewidth=0.0, zorder=1.8)
    step = max(1, at.size // marks)
    axes.plot(
        at,
        values.mean(axis=0),
        color=look.colour,
        linestyle=look.line,
        linewidth=look.width,
        marker=look.marker,
        markevery=slice((place * step) // 7 % step, None, step),
        markerfacecolor="white",
        markeredgewidth=0.9,
        label=look.label,
    )


def draw_points(axes: Any, x: ArrayLike, y: ArrayLike, look: Look) -> None:
    """Draw published values: hollow circles in the colour of the algorithm, without a line."""
    axes.plot(
        x, y, linestyle="none", marker="o", markersize=6.5, markerfacecolor="none",
        markeredgecolor=look.colour, markeredgewidth=1.1, zorder=3.0, label="_published",
    )  # fmt: skip


BOUND = {"color": QUIET, "linewidth": 0.8, "zorder": 1.5}
_BOUND_LINES = {"upper": (0, (1, 0)), "lower": (0, (1, 1.6))}


def draw_bound(axes: Any, x: ArrayLike, y: ArrayLike, kind: str, label: str) -> None:
    """Draw a thin grey line: ``kind`` "upper" is solid, "lower" dotted."""
    axes.plot(x, y, linestyle=_BOUND_LINES[kind], label=label, **BOUND)


def name_line(axes: Any, x: ArrayLike, y: ArrayLike, text: str, *, above: bool = True) -> None:
    """Write the name of a line along it, near its left end, in small grey letters."""
    at, heights = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    place = min(int(np.searchsorted(at, at[0] ** 0.95 * at[-1] ** 0.05)), at.size - 2)
    rise = heights[place + 1] - heights[place]
    from matplotlib.patheffects import withStroke

    axes.text(
        at[place], heights[place], text, va="bottom" if above else "top", ha="left", fontsize=7.5,
        color=QUIET, rotation=float(np.degrees(np.arctan2(rise, at[place + 1] - at[place]))),
        rotation_mode="anchor", transform_rotates_text=True, clip_on=True, zorder=4.0,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )  # fmt: skip


def end_labels(
    axes: Any, ends: Sequence[tuple[float, str, str]], *, apart: float = 0.085, size: float = 9.0
) -> None:
    """Write the names of curves right of the panel, each at its last value, none over another.

    Parameters
    ----------
    axes : matplotlib axes
        Its limits must be final.
    ends : sequence of (float, str, str)
        Last value, name and colour.
    apart : float
        Least distance of two names, as a share of the panel's height.
    size : float
        Of the letters, in points.
    """
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
    # None sinks below the panel, where the labels of the axis are.
    heights += max(0.0, 0.02 - float(heights.min(initial=1.0)))
    for height, (_, text, colour) in zip(heights, ends, strict=True):
        axes.annotate(
            text, (1.0, height), xycoords="axes fraction", xytext=(5, 0),
            textcoords="offset points", va="center", color=colour, fontsize=size,
            annotation_clip=False,
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
    log_rounds(axes, first, last)
    log_heights(axes, low, high)


def log_rounds(axes: Any, first: float, last: float) -> None:
    """Set the horizontal axis logarithmic between these rounds."""
    axes.set_xscale("log")
    axes.set_xlim(first, last)
    _log_ticks(axes.xaxis, last / first)


def log_heights(axes: Any, low: float, high: float) -> None:
    """Set the vertical axis logarithmic between these limits."""
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(low, high)
    _log_ticks(axes.yaxis, high / low)


def symlog_axes(axes: Any, first: float, last: float, low: float, high: float) -> None:
    """Set both axes logarithmic, the vertical one in both directions from a stretch around 0."""
    log_rounds(axes, first, last)
    _symlog(axes, "y", low, high)
    axes.axhline(0.0, color="#9A9A9A", linewidth=0.7, zorder=1.2)


def symlog_values(axes: Any, low: float, high: float) -> None:
    """Set the horizontal axis logarithmic in both directions from a stretch around 0."""
    _symlog(axes, "x", low, high)


def _symlog(axes: Any, which: str, low: float, high: float) -> None:
    """Set one axis logarithmic in both directions."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    size = max(abs(low), abs(high), 1e-9)
    linear = 10.0 ** max(0.0, np.floor(np.log10(size)) - 2.0)
    getattr(axes, f"set_{which}scale")("symlog", linthresh=linear)
    axes.set(**{f"{which}lim": (1.6 * min(low, 0.0), 1.6 * max(high, 0.0, 1e-9))})
    # Few enough that none lies over another, the outermost included.
    powers = np.arange(np.log10(linear), np.floor(np.log10(size)) + 0.5)[::-1]
    shown = 10.0 ** powers[:: -(-len(powers) // 3)]
    marked = shown[shown > linear] if len(shown) > 1 else shown
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(FixedLocator([*(-marked), 0.0, *marked]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(
        FuncFormatter(
            lambda value, _: (
                ("\N{MINUS SIGN}" if value < 0 else "") + (_power(abs(value), 0) or "0")
            )
        )
    )


def _log_ticks(axis: Any, span: float) -> None:
    """Label whole decades, and values in between where there are few of them."""
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
    # A handle takes half an inch, and a letter about a fourteenth.
    widest = 0.55 + 0.068 * max(map(len, entries), default=0)
    fitting = max(1, int(figure.get_figwidth() / widest))
    figure.legend(
        entries.values(), entries.keys(), loc="outside upper center",
        ncols=min(columns, fitting, max(1, len(entries))), columnspacing=1.2, handletextpad=0.6,
    )  # fmt: skip


def entitle(figure: Figure, text: str) -> None:
    """Write a title at the top left; above the entries of the legend, if there is one."""
    if figure.legends:
        # A title of the figure would lie on the legend, which has the same place.
        figure.legends[0].set_title(text)
        figure.legends[0].set_alignment("left")
    else:
        figure.suptitle(text, x=0.012, ha="left", fontsize=9.5)


def note(figure: Figure, text: str) -> None:
    """Write the scale of the run in small print under the panels, in as many lines as needed."""
    width = int(18.0 * figure.get_figwidth())
    text = "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, width))
    figure.supxlabel(text, x=0.012, ha="left", fontsize=7.5, color=QUIET)


def shows(axes: Any, *names: str) -> None:
    """Note the content of a panel, by the names under which `shown_panels` finds it."""
    axes.set_gid("; ".join(names))


def shown_panels(figure: Figure) -> list[tuple[tuple[str, ...], Box]]:
    """Return the places of the panels of a drawn figure, with their contents.

    Examples
    --------
    >>> figure, grid = panels(1, 2, 2.0)
    >>> shows(grid[0, 1], "K=8")
    >>> ((names, box),) = shown_panels(figure)
    >>> names, bool(box[0] > 0.45)
    (('K=8',), True)
    """
    figure.draw_without_rendering()
    whole = figure.transFigure.inverted()
    found = []
    for axes in figure.axes:
        names, extent = axes.get_gid(), axes.get_tightbbox()
        if names and extent is not None:
            box = extent.transformed(whole)
            place = (box.x0, 1.0 - box.y1, box.width, box.height)
            found.append((tuple(names.split("; ")), tuple(round(x, 4) for x in place)))
    return found


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format of the path's ending, atomically and without a date."""
    target = Path(path)
    kind = target.suffix.lstrip(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise invalid("path", "plot", "a file name ending in .png, .pdf or .svg", str(path))
    dateless: Mapping[str, Mapping[str, Any]] = {
        "pdf": {"CreationDate": None},
        "svg": {"Date": None},
    }
    with style(), saving("figure", path) as draft:
        figure.savefig(draft, format=kind, metadata=dateless.get(kind))


def finished(figure: Figure, path: str | os.PathLike[str] | None, told: str = "") -> Figure:
    """Write ``told`` below a figure, save the figure if there is a path, and return it."""
    if told:
        note(figure, told)
    if path is not None:
        save(figure, path)
    return figure
