"""Figures of the dashboard as SVG: lines, sparklines, intervals and histograms.

Colours are classes of the style sheet, so that both themes have theirs; nothing is styled inline,
which the content security policy forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from bothworlds.markup import Markup, h

Values = Sequence[float | None]

WIDTH, HEIGHT = 720, 200
"""Size of a chart, in its own units."""
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 8, 20
SPARK = (880, 200)


def _svg(drawn: Any, wide: int, high: int, label: str, kind: str, **more: Any) -> Markup:
    size = f"0 0 {wide} {high}"
    return h.svg(drawn, viewBox=size, role="img", aria_label=label, class_=kind, **more)


def path(xs: Sequence[float], ys: Values, digits: int = 1) -> str:
    """Return the path through some points; None breaks it.

    Examples
    --------
    >>> path([0.0, 1.0, 2.0, 3.0], [5.0, 5.5, None, 6.0])
    'M0 5L1 5.5M3 6'
    """
    parts = []
    down = False
    for x, y in zip(xs, ys, strict=True):
        if y is None:
            down = False
            continue
        parts.append(f"{'L' if down else 'M'}{round(x, digits):g} {round(y, digits):g}")
        down = True
    return "".join(parts)


def sparkline(values: Values, label: str, colour: str) -> Markup:
    """Return a line of values in [0, 1], without axes."""
    wide, high = SPARK
    step = wide // max(1, len(values) - 1)
    # From point to point in whole numbers: a page has one for every arm.
    d, at, last = "", 0, None
    for n, value in enumerate(values):
        if value is None:
            last = None
            continue
        y = round(10 + (1.0 - value) * (high - 20))
        d += f"M{n * step} {y}l" if last is None else f"{n * step - at} {y - last} "
        at, last = n * step, y
    return _svg(h.path(d=d.rstrip(" l"), class_=f"line {colour}"), wide, high, label, "spark")


def share_bar(shares: Sequence[float], colours: Sequence[str], label: str) -> Markup:
    """Return a bar divided into shares."""
    wide, high = 160, 12
    at, pieces = 0.0, []
    for share, colour in zip(shares, colours, strict=True):
        size = share * wide
        if size >= 0.25:
            pieces.append(
                h.rect(
                    x=f"{at:.1f}", y=0, width=f"{max(size - 0.6, 0.3):.1f}", height=high,
                    class_=f"fill {colour}",
                )
            )  # fmt: skip
        at += size
    return h.svg(
        pieces,
        viewBox=f"0 0 {wide} {high}",
        width=wide,
        height=high,
        role="img",
        aria_label=label,
        class_="shares",
    )


def interval(
    low: float, high: float, ends: tuple[float, float] | None, mean: float | None,
    mark: float | None, colour: str,
) -> Markup:  # fmt: skip
    """Return an interval and a mean on the scale from ``low`` to ``high``; ``mark`` is a tick.

    It is for the eye alone: the numbers stand next to it.
    """
    wide, tall = 150, 18

    def place(value: float) -> str:
        share = (value - low) / (high - low) if high > low else 0.5
        return f"{4 + min(1.0, max(0.0, share)) * (wide - 8):.1f}"

    pieces: list[Markup] = []
    if ends is not None:
        pieces.append(h.path(d=f"M{place(ends[0])} 9H{place(ends[1])}", class_=f"ends {colour}"))
    if mark is not None:
        pieces.append(h.path(d=f"M{place(mark)} 2V16", class_="mark"))
    if mean is not None:
        pieces.append(h.circle(cx=place(mean), cy=9, r=3.5, class_=f"fill {colour}"))
    return h.svg(
        pieces,
        viewBox=f"0 0 {wide} {tall}",
        aria_hidden="true",
        class_="interval",
    )


def lines(
    xs: Sequence[float], series: Sequence[tuple[str, Values]], low: float, high: float, label: str,
    form: Callable[[float], str] = "{:.3g}".format,
) -> Markup:  # fmt: skip
    """Return lines over time with two axes; ``series`` are colours and values."""
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    first, last = (xs[0], xs[-1]) if xs else (0.0, 1.0)
    span = (last - first) or 1.0
    across = [LEFT + (x - first) / span * wide for x in xs]
    scale = (high - low) or 1.0

    def down(value: float) -> float:
        return TOP + (1.0 - (value - low) / scale) * tall

    pieces: list[Markup] = []
    for step in range(5):
        value = low + scale * step / 4
        y = f"{down(value):.1f}"
        pieces.append(h.path(d=f"M{LEFT} {y}H{WIDTH - RIGHT}", class_="grid"))
        pieces.append(h.text(form(value), x=LEFT - 5, y=f"{down(value) + 3.5:.1f}", class_="y"))
    if xs:
        for n, anchor in ((0, "start"), (1, "middle"), (2, "end")):
            at = first + span * n / 2
            pieces.append(
                h.text(
                    clock(at, span), x=f"{LEFT + wide * n / 2:.0f}", y=HEIGHT - 5, class_="x",
                    text_anchor=anchor,
                )
            )  # fmt: skip
    for colour, values in series:
        ys = [None if v is None else down(min(high, max(low, v))) for v in values]
        pieces.append(h.path(d=path(across, ys), class_=f"line {colour}"))
    return _svg(pieces, WIDTH, HEIGHT, label, "chart", preserveAspectRatio="none")


def bars(counts: Sequence[int], names: Sequence[str], label: str) -> Markup:
    """Return a histogram, a row for every bar: its name, the bar, its count."""
    name_ends, longest, tall = 58, 200, 18
    most = max([*counts, 1])
    pieces: list[Markup] = []
    for n, (count, name) in enumerate(zip(counts, names, strict=True)):
        size, y = round(longest * count / most, 1), n * tall
        pieces += (
            h.text(name, x=name_ends, y=y + 13, class_="y"),
            h.rect(x=name_ends + 6, y=y + 3, width=size, height=tall - 6, class_="bar"),
            h.text(f"{count:,}", x=name_ends + 12 + size, y=y + 13, class_="n"),
        )
    return _svg(pieces, name_ends + longest + 62, tall * len(counts), label, "bars")


def clock(at: float, span: float) -> str:
    """Write a time, as precisely as a chart of this many seconds needs.

    Examples
    --------
    >>> clock(0.0, 60.0), clock(0.0, 7200.0), clock(0.0, 1e6)
    ('00:00:00', '00:00', '1970-01-01')
    """
    form = "%H:%M:%S" if span < 900 else "%H:%M" if span < 86_400 else "%Y-%m-%d"
    return datetime.fromtimestamp(at, UTC).strftime(form)
