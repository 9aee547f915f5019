"""Series of a chart: lines over time, and the table behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bothworlds.markup import Markup, h, named, together
from bothworlds.serve.dashboard import figures
from bothworlds.serve.dashboard.words import NONE, moment, percent
from bothworlds.text import clipped, counted

ROWS = 12
"""Rows of the table behind a chart."""
EMPTY = "Not enough data for a curve yet: a point is added every ten seconds with new decisions."

Lines = tuple[list[float], list[tuple[str, str, list[float | None]]]]
"""Moments; a label, a colour and values for every line."""


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Return values with four digits, None for those that are no numbers."""
    return [None if v is None or v != v else float(f"{v:.4g}") for v in values]


def chart(
    name: str, lines: Lines, measured: str, of: str, legend: list[Markup],
    ends: Sequence[float] = (0.0, 1.0), form: Callable[[float], str] = percent,
) -> Markup:  # fmt: skip
    """Return a chart with its legend: what is ``measured`` of each arm or expert, over time."""
    at, rows = lines
    if len(at) < 2:
        drawing = h.div(h.p(EMPTY, class_="empty"), class_="canvas")
        return h.figure(drawing, data_chart=name)
    first = measured[0].upper() + measured[1:]
    label = f"{first} of each {of} over time; the table below has the numbers"
    curves = [(colour, values) for _, colour, values in rows]
    return h.figure(
        h.ul(legend, class_="legend"),
        h.div(figures.lines(at, curves, ends[0], ends[1], label, form), class_="canvas"),
        h.figcaption(f"Vertical: {measured}. Horizontal: time (UTC).", class_="quiet"),
        data_chart=name,
    )


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
