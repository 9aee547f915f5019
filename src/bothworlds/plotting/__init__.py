"""Figures: one look for every algorithm, panels and curves, and the plot of a result."""

from bothworlds.plotting.arms import plot_arms
from bothworlds.plotting.draw import (
    BANDS,
    BOUND,
    LINEAR_END,
    WIDTH,
    draw_bound,
    draw_curve,
    draw_points,
    end_labels,
    linear_axes,
    log_axes,
    log_heights,
    name_line,
    note,
    panels,
    rounds_label,
    save,
    shared_legend,
    shown_panels,
    shows,
    style,
    symlog_axes,
)
from bothworlds.plotting.looks import LOOKS, Look, looks, shade
from bothworlds.plotting.many import figure
from bothworlds.plotting.pairs import plot_ranking, plot_regret_table
from bothworlds.plotting.result import draw_regret, log_limits, plot_result
from bothworlds.plotting.tails import draw_tail, plot_tail

__all__ = [
    "BANDS",
    "BOUND",
    "LINEAR_END",
    "LOOKS",
    "WIDTH",
    "Look",
    "draw_bound",
    "draw_curve",
    "draw_points",
    "draw_regret",
    "draw_tail",
    "end_labels",
    "figure",
    "linear_axes",
    "log_axes",
    "log_heights",
    "log_limits",
    "looks",
    "name_line",
    "note",
    "panels",
    "plot_arms",
    "plot_ranking",
    "plot_regret_table",
    "plot_result",
    "plot_tail",
    "rounds_label",
    "save",
    "shade",
    "shared_legend",
    "shown_panels",
    "shows",
    "style",
    "symlog_axes",
]
