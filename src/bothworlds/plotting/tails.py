"""Tail plots: the share of runs with more regret than x, for every policy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.plotting import draw
from bothworlds.plotting.looks import looks
from bothworlds.plotting.result import Curves, chosen_names, entitle, inches

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tail(runs: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values of a sample in increasing order, and the share of runs above each.

    Examples
    --------
    >>> values, above = tail(np.array([3.0, 1.0, 2.0, 2.0]))
    >>> values.tolist(), above.tolist()
    ([1.0, 2.0, 3.0], [0.75, 0.25, 0.0])
    """
    values, counts = np.unique(runs, return_counts=True)
    return values, 1.0 - np.cumsum(counts) / runs.size


def draw_tail(
    axes: Any, runs: Mapping[str, NDArray[np.float64]], policies: Mapping[str, str], label: str
) -> None:
    """Draw P(regret > x) of every policy as steps, from all runs down to one."""
    least = min(float(each.min()) for each in runs.values())
    for name, look in looks(runs, policies).items():
        values, above = tail(runs[name])
        # A step before the first value, and down to half a run after the last.
        x = np.concatenate([[min(least, values[0])], values, values[-1:]])
        y = np.concatenate([[1.0], above[:-1], [1.0 / runs[name].size, 0.5 / runs[name].size]])
        axes.plot(
            x, y, drawstyle="steps-post", color=look.colour, linestyle=look.line,
            linewidth=look.width, label=look.label,
        )  # fmt: skip
    most = max(each.size for each in runs.values())
    largest = max(float(each.max()) for each in runs.values())
    if least > 0.0:
        draw.log_rounds(axes, least / 1.3, largest * 1.3)
    else:
        draw.symlog_values(axes, least, largest)
    draw.log_heights(axes, 0.5 / most, 1.3)
    axes.set_xlabel(f"x, {label}")
    axes.set_ylabel("share of runs above x")


def plot_tail(
    result: Curves,
    runs: Mapping[str, NDArray[np.float64]],
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    ax: Any = None,
    policies: Iterable[str] | None = None,
    size: str | tuple[float, float] | None = None,
    regret: str = "pseudo-regret",
) -> Figure:
    """Draw the tail of the regret of every policy; see `bothworlds.Result.plot_tail`."""
    names = chosen_names(result, policies)
    shown = {name: runs[name] for name in names}
    with draw.style():
        if ax is not None:
            draw_tail(ax, shown, result.policies, regret)
            figure: Figure = ax.figure
            if title is not None:
                ax.set_title(title)
        else:
            figure, grid = draw.panels(1, 1, *inches(size, 1)[::-1])
            draw_tail(grid[0, 0], shown, result.policies, regret)
            draw.shared_legend(figure, 2)
            entitle(figure, result, title)
            counts = sorted({each.size for each in shown.values()})
            draw.note(
                figure, f"{' to '.join(map(str, counts[:: max(1, len(counts) - 1)]))} repetitions"
            )
        return draw.finished(figure, path)
