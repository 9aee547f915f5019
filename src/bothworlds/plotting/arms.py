"""Plots of arms: how often each one was played, over time or in all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bothworlds.errors import invalid
from bothworlds.plotting import draw
from bothworlds.plotting.looks import Look
from bothworlds.plotting.palette import COLOURS, LINES, SHOWN
from bothworlds.plotting.result import Curves, chosen_names, entitle, inches
from bothworlds.text import clipped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANDED_ARMS = 3
"""Up to this many arms have bands."""


class Played(Curves, Protocol):
    """Part of a `bothworlds.Result` that the plot needs."""

    @property
    def plays_at(self) -> Mapping[str, NDArray[np.int64]]:
        """An array (repetitions, checkpoints, arms) per policy; may be empty."""


def plot_arms(
    result: Played,
    path: str | os.PathLike[str] | None = None,
    *,
    policies: Iterable[str] | None = None,
    arms: Iterable[int] | None = None,
    title: str | None = None,
    size: str | tuple[float, float] | None = None,
) -> Figure:
    """Draw the share of the rounds in which each arm was played; see `Result.plot_arms`.

    Examples
    --------
    >>> import bothworlds as bw
    >>> world = bw.environments.Stochastic.gap(n_arms=3, gap=0.25)
    >>> result = bw.simulate([bw.UCB1()], world, horizon=500, repetitions=8, seed=1, shares=True)
    >>> [axes.get_title(loc="left") for axes in plot_arms(result).axes]
    ['UCB1()']
    """
    names = chosen_names(result, policies)
    plays = np.concatenate([result.plays[name] for name in names])
    shown = _arms(arms, plays)
    over_time = all(name in result.plays_at for name in names)
    with draw.style():
        columns = min(3, len(names))
        rows = -(-len(names) // columns)
        default = (draw.WIDTH if columns > 1 else 0.62 * draw.WIDTH, 0.8 + 2.3 * rows)
        width, height = default if size is None else inches(size, 1)
        figure, grid = draw.panels(rows, columns, height, width, sharey=True)
        for place, axes in enumerate(grid.flat):
            axes.set_visible(place < len(names))
            if place < len(names):
                panel = _over_time if over_time else _in_all
                panel(axes, result, names[place], shown)
                axes.set_title(clipped(names[place], 30))
        for axes in grid[:, 0]:
            axes.set_ylabel("share of the rounds")
        entitle(figure, result, title)
        told = f"{len(shown)} of {plays.shape[1]} arms by number; mean over the repetitions"
        return draw.finished(figure, path, told)


def _arms(arms: Iterable[int] | None, plays: NDArray[np.int64]) -> list[int]:
    """Return the arms to draw, or refuse one there is not."""
    count = plays.shape[1]
    if arms is None:
        most = np.argsort(-plays.sum(axis=0), kind="stable")[:SHOWN]
        return sorted(int(arm) for arm in most)
    chosen = list(arms)
    if not chosen or any(not 0 <= arm < count for arm in chosen):
        raise invalid("arms", "plot_arms", f"numbers from 0 to {count - 1}", chosen)
    return chosen


def _over_time(axes: Any, result: Played, name: str, shown: list[int]) -> None:
    counts = result.plays_at[name]
    shares = counts / counts.sum(axis=2, keepdims=True)
    ends = []
    for place, arm in enumerate(shown):
        look = Look(f"arm {arm}", *_style(place))
        band = "se" if len(shown) <= BANDED_ARMS else "none"
        runs = shares[:, :, arm]
        draw.draw_curve(axes, result.checkpoints, runs, look, place=place, marks=3, band=band)
        ends.append((float(shares[:, -1, arm].mean()), str(arm), look.colour))
    draw.log_rounds(axes, float(result.checkpoints[0]), float(result.checkpoints[-1]))
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("round t")
    draw.end_labels(axes, ends, apart=0.08, size=8.5)


def _style(place: int) -> tuple[str, Any, str]:
    """Return colour, line and marker of an arm by its place."""
    return COLOURS[place % len(COLOURS)], LINES[place % len(LINES)], "osD^vP<>"[place % 8]


def _in_all(axes: Any, result: Played, name: str, shown: list[int]) -> None:
    plays = result.plays[name]
    shares = (plays / plays.sum(axis=1, keepdims=True))[:, shown]
    error = 2.0 * shares.std(axis=0, ddof=1) / len(shares) ** 0.5 if len(shares) > 1 else None
    colours = [_style(place)[0] for place in range(len(shown))]
    axes.bar(
        range(len(shown)), shares.mean(axis=0), yerr=error, color=colours, alpha=0.85, width=0.7,
        error_kw={"linewidth": 0.9},
    )  # fmt: skip
    axes.set_xticks(range(len(shown)), [str(arm) for arm in shown])
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("arm")
