"""Palette of the arms: their colours and lines, in figures and on the dashboard."""

from __future__ import annotations

from typing import Any

SHOWN = 8
"""The most arms that are drawn where the user does not choose."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#3B3B3B", "#882255")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
"""Dash patterns of matplotlib."""
