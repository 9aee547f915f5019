"""Figures: one look for every algorithm, panels and curves, and the plot of a result."""

from bothworlds.plotting.draw import (
    BOUND,
    LINEAR_END,
    WIDTH,
    draw_bound,
    draw_curve,
    end_labels,
    linear_axes,
    log_axes,
    log_heights,
    note,
    panels,
    rounds_label,
    save,
    shared_legend,
    style,
)
from bothworlds.plotting.looks import LOOKS, Look, looks
from bothworlds.plotting.result import draw_regret, log_limits, plot_result

__all__ = [
    "BOUND",
    "LINEAR_END",
    "LOOKS",
    "WIDTH",
    "Look",
    "draw_bound",
    "draw_curve",
    "draw_regret",
    "end_labels",
    "linear_axes",
    "log_axes",
    "log_heights",
    "log_limits",
    "looks",
    "note",
    "panels",
    "plot_result",
    "rounds_label",
    "save",
    "shared_legend",
    "style",
]
