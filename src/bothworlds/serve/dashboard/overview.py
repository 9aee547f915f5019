"""Overview: the experiments, a page at a time, and the counters of the process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bothworlds.markup import Markup, h, named, together
from bothworlds.serve.dashboard import figures
from bothworlds.serve.dashboard.frame import Viewer, badge, framed, part, table
from bothworlds.serve.dashboard.shown import OTHERS, Shown, alarms, colours, leader
from bothworlds.serve.dashboard.words import NONE, address, percent, rate, seconds
from bothworlds.text import clipped, counted


@dataclass(frozen=True)
class Listed:
    """One page of the experiments, oldest first: which page of how many, and of how many in all."""

    shown: Sequence[Shown]
    page: int
    pages: int
    count: int


def page(viewer: Viewer, listed: Listed, figured: dict[str, float]) -> bytes:
    """Return a page of the experiments."""
    made = parts(listed, figured, viewer.origin)
    return framed(
        viewer,
        "Experiments",
        h.h1("Experiments"),
        (part(name, content) for name, content in made.items()),
        live=_address(listed.page),
    )


def parts(listed: Listed, figured: dict[str, float], origin: str) -> dict[str, Markup]:
    """Return the parts of the overview."""
    return {"experiments": _experiments(listed, origin), "service": _service(figured)}


def _address(page: int) -> str:
    return f"/?page={page}" if page > 1 else "/"


def _experiments(listed: Listed, origin: str) -> Markup:
    if not listed.shown:
        return together(
            h.p("There is no experiment yet. Create one:"),
            h.pre(
                h.code(
                    f"curl {origin}/v1/experiments -H 'Content-Type: application/json' \\\n"
                    '  -d \'{"name": "headline", "arms": [{"name": "a"}, {"name": "b"}]}\''
                ),
                data_origin=origin,
            ),
        )
    heads = (
        "experiment", "mode", "ahead", "shares", "decisions", "per second", "feedback",
        "lag", "alarms",
    )  # fmt: skip
    rows = []
    for each in listed.shown:
        described = each.described
        name = described["name"]
        own = colours(described)
        active = [arm for arm in described["arms"] if arm["status"] == "active"]
        coloured = [arm for arm in active if own[arm["name"]] != OTHERS]
        coloured.sort(key=lambda arm: -arm["probability"])
        rest = 1.0 - sum(arm["probability"] for arm in coloured)
        found = alarms(each)
        rows.append(
            (
                h.a(named(name), href=address(name)),
                badge(described["mode"]),
                _ahead(described),
                figures.share_bar(
                    [arm["probability"] for arm in coloured] + [rest],
                    [own[arm["name"]] for arm in coloured] + [OTHERS],
                    f"probabilities of {counted(len(active), 'arm')}",
                ),
                f"{sum(arm['decided'] for arm in described['arms']):,}",
                NONE if each.facts is None else rate(each.facts.rate),
                f"{described['learned']:,}",
                NONE if each.facts is None else seconds(each.facts.lag),
                h.a(
                    counted(len(found), "alarm"), href=f"{address(name)}#alarms", class_="alarms",
                    title=" ".join(said for said, _ in found),
                )
                if found
                else h.span("none", class_="quiet"),
            )
        )  # fmt: skip
    page = listed.page
    turn = listed.pages > 1 and h.p(
        f"{len(rows)} of {listed.count:,} experiments, the oldest first. ",
        page > 1 and h.a("Previous", href=_address(page - 1)), " ",
        page < listed.pages and h.a("Next", href=_address(page + 1)),
    )  # fmt: skip
    made = table(heads, rows, "Experiments of this service", hidden=True, class_="wide slim")
    note = "The page of an experiment also tests its arms for changes; alarms here leave that out."
    return together(made, turn, h.p(note, class_="quiet"))


def _ahead(described: dict[str, Any]) -> Markup | str:
    """Return the arm that gets most decisions, or the expert with most weight."""
    best, share = leader(described), "probability"
    if described["experts"] and described["learned"]:
        best, share = max(described["experts"], key=lambda each: each["weight"]), "weight"
    if best is None:
        said = {"uniform": "all arms equal", "archived": NONE}.get(described["mode"], "no arm yet")
        return h.span(said, class_="quiet")
    return together(
        share == "weight" and "expert ", named(clipped(best["name"], 32)), " ",
        h.b(percent(best[share])),
    )  # fmt: skip


def _service(figured: dict[str, float]) -> Markup:
    said = (
        ("decisions", figured["decisions"]),
        ("learned", figured["learned"]),
        ("quarantined", figured["quarantined"]),
        ("contradicting feedback", figured["contradictions"]),
        ("refused, log full", figured["overloaded"]),
        ("waiting to be written", figured["commit_queue"] + figured["log_buffer"]),
    )
    return together(
        h.h2("This process since it started"),
        h.dl((h.div(h.dt(name), h.dd(f"{int(value):,}")) for name, value in said), class_="tiles"),
    )
