"""Panel of the segments: how often each decides, and which arms it prefers."""

from __future__ import annotations

from typing import Any

from bothworlds.markup import Markup, h, named, together
from bothworlds.serve.dashboard.frame import swatch, table
from bothworlds.serve.dashboard.shown import Shown, colours
from bothworlds.serve.dashboard.words import NONE, number, percent
from bothworlds.text import clipped

SEGMENTS = 50
"""Segments in the table."""
ARMS = 3
"""Arms of a segment that are named."""


def segments(shown: Shown) -> Markup:
    """Return the panel: a row of all decisions, and one of every segment."""
    described = shown.described
    colour = colours(described)
    total = {**described, "name": None, "decided": sum(a["decided"] for a in described["arms"])}
    rows = []
    for each in (total, *shown.segments):
        active = [arm for arm in each["arms"] if arm["status"] == "active"]
        best = sorted(active, key=lambda arm: -arm["probability"])[:ARMS]
        name = h.b("all decisions") if each["name"] is None else named(clipped(each["name"], 60))
        rows.append(
            (
                name,
                f"{each['decided']:,}",
                f"{each['learned']:,}",
                _mean(shown, each["arms"]),
                together([h.div(_arm(shown, arm, colour[arm["name"]])) for arm in best]),
            )
        )
    count = described["segments"]
    which = (
        f"The {len(shown.segments)} of {count:,} segments with the most feedback."
        if count > len(shown.segments)
        else "All segments, those with the most feedback first."
    )
    heads = ("segment", "decisions", "feedback", f"mean {shown.word}", "preferred arms")
    caption = (
        f"{which} Next to each arm: its share of the segment's next decisions, then its mean "
        f"{shown.word} there. Until a segment has much feedback of its own, it also learns from "
        f"the other segments, which count as {described['segment_prior']:,} answers."
    )
    return h.section(h.h2("Segments", id="segments"), table(heads, rows, caption, class_="wide"))


def _mean(shown: Shown, arms: list[dict[str, Any]]) -> str:
    told = sum(arm["told"] for arm in arms)
    if not told:
        return NONE
    lost = sum(arm["told"] * arm["mean_loss"] for arm in arms if arm["told"])
    return number(shown.value(lost / told))


def _arm(shown: Shown, arm: dict[str, Any], colour: str) -> Markup:
    mean = arm["mean_loss"]
    return together(
        swatch(colour), named(clipped(arm["name"], 40)), " ", h.b(percent(arm["probability"])),
        " ", h.small(NONE if mean is None else number(shown.value(mean))),
    )  # fmt: skip
