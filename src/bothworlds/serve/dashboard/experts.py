"""Panel of the experts: how much each one counts, how good its advice is, and since when."""

from __future__ import annotations

from bothworlds.markup import Markup, h, named, together
from bothworlds.plotting.palette import SHOWN
from bothworlds.serve.dashboard import figures
from bothworlds.serve.dashboard.frame import swatch, table
from bothworlds.serve.dashboard.reading import CONFIDENCE
from bothworlds.serve.dashboard.series import Lines, chart, data_table, rounded
from bothworlds.serve.dashboard.shown import OTHERS, Shown
from bothworlds.serve.dashboard.words import NONE, number, percent
from bothworlds.text import clipped


def weights(shown: Shown) -> Lines:
    """Return moments, and the weight of every expert."""
    history = shown.history
    if history is None:
        return [], []
    return history.at, [
        (each["name"], _colour(j), rounded(history.weights[:, j].tolist()))
        for j, each in enumerate(shown.described["experts"])
    ]


def _colour(place: int) -> str:
    return f"s{place}" if place < SHOWN else OTHERS


def experts(shown: Shown) -> Markup:
    """Return the table of the experts: the weight of each, and the mean of its advice."""
    standing = shown.standing()
    low, high = shown.described["bounds"]
    rows = []
    for j, expert in enumerate(shown.described["experts"]):
        each = None if standing is None else standing[expert["name"]]
        mean = None if each is None else each.mean
        ends = None if each is None else each.sequence
        rows.append(
            (
                together(swatch(_colour(j)), named(expert["name"])),
                h.b(percent(expert["weight"])),
                NONE if each is None else f"{each.answers:,}",
                together(
                    h.b(number(mean)), " ",
                    h.small(f"{ends[0]:.3g} to {ends[1]:.3g}") if ends else None,
                ),
                figures.interval(low, high, ends, mean, None, _colour(j)),
            )
        )  # fmt: skip
    heads = ("expert", "weight", "answers", f"recent mean {shown.word}", "its interval")
    caption = (
        "Weight: in the next decision. Means: of each expert's own advice in the recent decisions, "
        "whether it was followed or not. Each interval contains the mean with "
        f"{percent(CONFIDENCE)} confidence."
    )
    return table(heads, rows, caption, class_="wide")


def weights_data(shown: Shown) -> Markup:
    """Return the weights over time as a table."""
    return data_table(weights(shown), "Weights of the experts", percent)


def experts_panel(shown: Shown, made: list[Markup]) -> Markup:
    """Return the panel: the finished parts, and the weights of the experts over time."""
    lines = weights(shown)
    legend = [h.li(swatch(colour), named(clipped(name, 40))) for name, colour, _ in lines[1]]
    drawn = chart("weights", lines, "weight", "expert", legend)
    return h.section(h.h2("Experts", id="experts"), made[0], drawn, made[1:])
