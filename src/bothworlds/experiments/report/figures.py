"""Figures of regret against rounds: a grid of panels, linear up to 10 000 and log-log beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bothworlds import plotting
from bothworlds.experiments.algorithms import IW, RV
from bothworlds.experiments.claims.rules import guarantees
from bothworlds.experiments.model import Cell, Outcome
from bothworlds.plotting import LINEAR_END
from bothworlds.text import fraction
from bothworlds.theory import bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Grid = Sequence[Sequence[Cell]]


def grid_of(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Arrange cells by arms (rows) and gaps (columns)."""
    rows = sorted({cell.n_arms for cell in cells})
    return [sorted((c for c in cells if c.n_arms == k), key=lambda c: c.gap) for k in rows]


def caption(outcome: Outcome, more: str = "") -> str:
    """Print the scale and the meaning of the band on the figure."""
    said = f"{outcome.settings}; line: mean, band: {plotting.BANDS['se']}"
    return f"{said}; {more}" if more else said


Published = Mapping[str, Mapping[str, Mapping[int, float]]]
"""Published regrets: the id of a cell to names of algorithms to rounds to values."""

HOLLOW = "circles: published"
"""Note in a figure on the published points in it."""


def draw_published(panel: Any, cell: Cell, published: Published, first: int, last: int) -> float:
    """Draw the published points of a cell between two rounds; return the highest of them."""
    top = 0.0
    for name, numbers in published.get(cell.id, {}).items():
        inside = {t: value for t, value in numbers.items() if first <= t <= last}
        if inside and name in plotting.LOOKS:
            look = plotting.LOOKS[name]
            plotting.draw_points(panel, list(inside), list(inside.values()), look)
            top = max(top, *inside.values())
    return top


def title_of(cell: Cell) -> str:
    """Return a panel's title."""
    return f"K = {cell.n_arms}, gap {fraction(cell.gap)}"


def linear_figure(
    outcome: Outcome,
    grid: Grid,
    titles: dict[str, str] | None = None,
    published: Published | None = None,
) -> Figure:
    """Draw the first 10 000 rounds of every cell."""
    rows, columns = len(grid), max(map(len, grid))
    figure, axes = plotting.panels(rows, columns, 1.15 + 1.95 * rows, _width(columns))
    for i, row in enumerate(grid):
        for j, cell in enumerate(row):
            panel = axes[i, j]
            last = min(cell.horizon, LINEAR_END)
            tops = plotting.draw_regret(panel, outcome.results[cell.id], 1, last)
            tops.append(draw_published(panel, cell, published or {}, 1, last))
            plotting.linear_axes(panel, last, tops)
            panel.set_title((titles or {}).get(cell.id) or title_of(cell))
            plotting.shows(panel, cell.id)
            _label(panel, i == rows - 1, j == 0, plotting.rounds_label(last))
        _hide(axes[i, len(row) :])
    plotting.shared_legend(figure)
    plotting.note(figure, caption(outcome, HOLLOW if published else ""))
    return figure


def log_figure(
    outcome: Outcome,
    grid: Grid,
    titles: dict[str, str] | None = None,
    published: Published | None = None,
) -> Figure:
    """Draw the rounds from 10 000 on, with the guarantee of Tsallis-INF and the lower bound."""
    rows, columns = len(grid), max(map(len, grid))
    figure, axes = plotting.panels(rows, columns, 1.3 + 1.95 * rows, _width(columns), sharey="row")
    for i, row in enumerate(grid):
        lows, highs = [], []
        for j, cell in enumerate(row):
            result = outcome.results[cell.id]
            begin = int(result.checkpoints[result.checkpoints >= LINEAR_END][0])
            plotting.draw_regret(axes[i, j], result, begin, cell.horizon)
            low, high = plotting.log_limits(result, begin)
            high = max(high, 1.3 * draw_bounds(axes[i, j], cell, begin, named=j == 0))
            top = draw_published(axes[i, j], cell, published or {}, begin, cell.horizon)
            high = max(high, 1.3 * top)
            lows.append(low)
            highs.append(high)
            axes[i, j].set_title((titles or {}).get(cell.id) or title_of(cell))
            plotting.shows(axes[i, j], cell.id)
            _label(axes[i, j], i == rows - 1, j == 0, "round t")
        for j, cell in enumerate(row):
            plotting.log_axes(axes[i, j], LINEAR_END, cell.horizon, min(lows), max(highs))
        _hide(axes[i, len(row) :])
    plotting.shared_legend(figure)
    plotting.note(figure, caption(outcome, HOLLOW if published else ""))
    return figure


def draw_bounds(panel: Any, cell: Cell, first: int, named: bool = True) -> float:
    """Draw Theorem 1 for the RV (else IW) form and Lai and Robbins; return the highest point."""
    rounds = np.geomspace(first, cell.horizon, 24)
    top = 0.0
    name = RV if RV in cell.policies else IW
    if name in cell.policies:
        upper, theorem = guarantees(cell, name, np.rint(rounds).astype(np.int64))
        if upper.size:
            plotting.draw_bound(panel, rounds, upper, "upper", "_upper")
            if named:
                label = f"{theorem.partition(' (')[0]}, {name[-3:-1]}"
                plotting.name_line(panel, rounds, upper, label)
            top = float(upper.max())
    if cell.means is not None:
        lower = bounds.lai_robbins(cell.means, rounds)
        plotting.draw_bound(panel, rounds, lower, "lower", "_lower")
        if named:
            plotting.name_line(panel, rounds, lower, "Lai and Robbins", above=False)
    return top


def regret_figures(
    prefix: str,
    outcome: Outcome,
    cells: Sequence[Cell],
    titles: dict[str, str] | None = None,
    published: Published | None = None,
) -> dict[str, Figure]:
    """Return the linear figure and, where the horizon reaches beyond it, the log-log one."""
    figures = {f"{prefix}-linear": linear_figure(outcome, grid_of(cells), titles, published)}
    late = [cell for cell in cells if cell.horizon > 1.5 * LINEAR_END]
    if late:
        figures[f"{prefix}-log"] = log_figure(outcome, grid_of(late), titles, published)
    return figures


def _width(columns: int) -> float:
    return plotting.WIDTH if columns > 1 else 0.66 * plotting.WIDTH


def _label(panel: Any, bottom: bool, left: bool, rounds: str) -> None:
    if bottom:
        panel.set_xlabel(rounds)
    if left:
        panel.set_ylabel("pseudo-regret")


def _hide(rest: Any) -> None:
    for panel in rest:
        panel.set_visible(False)
