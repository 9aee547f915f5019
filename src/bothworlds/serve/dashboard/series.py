"""Series of a chart: lines over time, and the table behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bothworlds.markup import Markup, h, named, together
from bothworlds.serve.dashboard.words import NONE, moment
from bothworlds.text import clipped, counted

ROWS = 12
"""Rows of the table behind a chart."""
EMPTY = "Not enough data for a curve yet: a point is added every ten seconds with new decisions."

Lines = tuple[list[float], list[tuple[str, str, list[float | None]]]]
"""Moments; a label, a colour and values for every line."""


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Return values with four digits, None for those that are no numbers."""
    return [None if v is None or v != v else float(f"{v:.4g}") for v in values]


def data_table(lines: Lines, caption: str, form: Any) -> Markup:
    """Return the table behind a chart, some of its moments."""
    at, rows = lines
    if len(at) < 2:
        return together()
    chosen = sorted({round(n * (len(at) - 1) / (ROWS - 1)) for n in range(ROWS)})
    cells = [
        (
            moment(at[n]),
            *(NONE if values[n] is None else form(values[n]) for _, _, values in rows),
        )
        for n in chosen
    ]
    heads = ["time (UTC)", *(named(clipped(label, 24)) for label, _, _ in rows)]
    return h.details(
        h.summary(f"{caption}, as a table"),
        h.div(
            h.table(
                h.caption(f"{caption}, {counted(len(cells), 'moment')} of {len(at)}"),
                h.thead(h.tr(h.th(head, scope="col") for head in heads)),
                h.tbody(
                    h.tr(h.th(row[0], scope="row"), (h.td(cell) for cell in row[1:]))
                    for row in cells
                ),
                class_="plain",
            ),
            class_="scroll",
        ),
    )
