"""Page of an experiment: which arm is winning, how certain that is, what is missing, controls.

A page consists of parts. The same functions draw them for the first load and for live updates, so
that both show the same.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bothworlds.markup import Markup, h, named, together
from bothworlds.serve.dashboard import figures
from bothworlds.serve.dashboard.audit import changes
from bothworlds.serve.dashboard.experts import experts, experts_panel, weights, weights_data
from bothworlds.serve.dashboard.frame import Viewer, framed, part, swatch, table
from bothworlds.serve.dashboard.headline import EXPLAINED, explained, headline
from bothworlds.serve.dashboard.reading import (
    CONFIDENCE,
    LAG_NAMES,
    REPORTED,
    WINDOW,
    Counted,
)
from bothworlds.serve.dashboard.segments import segments
from bothworlds.serve.dashboard.series import Lines, chart, data_table, rounded
from bothworlds.serve.dashboard.shown import (
    OTHERS,
    Shown,
    acted_on,
    alarms,
    colours,
    drifts,
)
from bothworlds.serve.dashboard.words import (
    NONE,
    address,
    moment,
    moment_text,
    number,
    percent,
    seconds,
)
from bothworlds.text import clipped, counted

PAGE = 64
"""Arms in a table."""
UNFILTERED_ARMS = 8
"""Largest number of arms in a table without a filter."""
SPARKS = 23
"""Points of a sparkline."""
SENTENCES = 6
ALARMS = 6
"""How many alarms are spelt out."""


Drawing = Callable[[Viewer, Shown, list[Markup]], Any]


class Panel(NamedTuple):
    """A panel of the page; a new one is a function and a row of `PANELS`.

    Parameters
    ----------
    parts : mapping of str to callable
        Functions that make its parts, by the names under which the live page replaces them.
    links : tuple of (str, str)
        Anchors and texts for the list of contents.
    draw : callable
        Returns the panel, given the viewer, the experiment and the finished parts; the parts one
        after the other by default.
    admin : bool
        Whether only users with the scope admin see it.
    when : callable
        Whether an experiment has it.
    """

    parts: Mapping[str, Callable[[Shown], Markup]] = {}
    links: tuple[tuple[str, str], ...] = ()
    draw: Drawing = lambda viewer, shown, made: made
    admin: bool = False
    when: Callable[[Shown], bool] = lambda shown: True


def page(viewer: Viewer, shown: Shown, said: str | None, wrong: str | None) -> bytes:
    """Return the page of an experiment."""
    described = shown.described
    name = described["name"]
    made = parts(shown, viewer.admin)
    where = address(name)
    other, others = ("loss", "losses") if shown.rewards else ("reward", "rewards")
    about = described["description"]
    first, *panels = [
        panel.draw(viewer, shown, [part(each, made[each]) for each in panel.parts if each in made])
        for panel in PANELS
        if panel.when(shown)
    ]
    return framed(
        viewer,
        name,
        h.p(h.a("Experiments", href="/"), " / ", name, class_="crumbs"),
        wrong and h.p(wrong, role="alert", class_="alarm"),
        said and h.p(said, role="status", class_="done"),
        h.h1(named(name)),
        about and h.p(named(about), class_="about"),
        first,
        h.nav(
            [
                h.a(text, href=f"#{anchor}")
                for panel in PANELS
                if panel.when(shown)
                for anchor, text in panel.links
            ],
            h.a(f"Show {others}", href=f"{where}?as={other}", class_="quiet"),
            aria_label="On this page",
            class_="contents",
        ),
        panels,
        live=f"{where}{_query(shown, shown.page)}",
    )


def _query(shown: Shown, page: int) -> str:
    """Return the query behind the address of a page of arms."""
    given = []
    if shown.chosen is not None:
        given.append(f"as={shown.chosen}")
    if page > 1:
        given.append(f"arms={page}")
    return f"?{'&'.join(given)}" if given else ""


def parts(shown: Shown, admin: bool) -> dict[str, Markup]:
    """Return the parts of an experiment's page."""
    return {
        name: make(shown)
        for panel in PANELS
        if (admin or not panel.admin) and panel.when(shown)
        for name, make in panel.parts.items()
    }


def _alarms(shown: Shown) -> Markup:
    found = alarms(shown)
    if not found:
        return h.p("No alarms.", class_="quiet", id="alarms")
    return h.ul(
        (h.li(h.a(said, href=f"#{where}")) for said, where in found[:ALARMS]),
        len(found) > ALARMS
        and h.li(h.a(f"And {len(found) - ALARMS} more: see Changes.", href="#drift")),
        class_="alarm",
        id="alarms",
        aria_label="Alarms",
    )


def _legend(shown: Shown, others: bool = False) -> list[Markup]:
    """Return the legend of the arms with a colour of their own, and of all other arms as one."""
    own = colours(shown.described)
    mine = [arm["name"] for arm in shown.described["arms"] if own[arm["name"]] != OTHERS]
    entries = [h.li(swatch(own[each]), named(clipped(each, 40))) for each in mine]
    more = len(own) - len(mine)
    if others and more > 0:
        entries.append(h.li(swatch(OTHERS), f"{more} others together", class_="quiet"))
    return entries


def charts(shown: Shown) -> dict[str, Any]:
    """Return the data of the charts, as JSON values."""
    own = colours(shown.described)
    names = [arm["name"] for arm in shown.described["arms"]]
    found: dict[str, Any] = {}
    drawn = [
        ("shares", _shares(shown), [0, 1], "share of decisions"),
        ("means", means := _means(shown), _range(shown, means[1]), f"mean {shown.word}"),
    ]
    if shown.described["experts"]:
        drawn.append(("weights", weights(shown), [0, 1], "weight of the expert"))
    for kind, (at, rows), ends, axis in drawn:
        found[kind] = {
            "x": [round(each, 2) for each in at],
            "series": [
                {"label": clipped(label, 24), "colour": colour, "y": values}
                for label, colour, values in rows
            ],
            "range": ends,
            "axis": axis,
            "percent": kind != "means",
        }
    found["arms"] = len(names)
    found["coloured"] = sum(each != OTHERS for each in own.values())
    return found


def _shares(shown: Shown) -> Lines:
    """Return moments, and the probability of every coloured arm; all other arms as one line."""
    history = shown.history
    if history is None:
        return [], []
    own = colours(shown.described)
    found = []
    rest = []
    for n, arm in enumerate(shown.described["arms"][: history.shares.shape[1]]):
        if own[arm["name"]] == OTHERS:
            rest.append(n)
        else:
            found.append((arm["name"], own[arm["name"]], rounded(history.shares[:, n].tolist())))
    if rest:
        sums = np.nansum(history.shares[:, rest], axis=1).tolist()
        found.append((f"{len(rest)} others", OTHERS, rounded(sums)))
    return history.at, found


def _means(shown: Shown) -> Lines:
    """Return moments, and the mean of every coloured arm before each."""
    history = shown.history
    if history is None:
        return [], []
    own = colours(shown.described)
    at, means = history.means(shown.described["bounds"])
    found = [
        (
            arm["name"], own[arm["name"]],
            rounded([None if v is None else shown.value(v) for v in means[n]]),
        )
        for n, arm in enumerate(shown.described["arms"])
        if own[arm["name"]] != OTHERS and n < len(means)
    ]  # fmt: skip
    known = any(value is not None for _, _, line in found for value in line)
    return (at, found) if known else ([], [])


def _range(shown: Shown, rows: Sequence[tuple[str, str, list[float | None]]]) -> list[float]:
    """Return the range of an axis that shows all values, within the bounds."""
    low, high = shown.described["bounds"]
    values = [v for _, _, line in rows for v in line if v is not None]
    if not values:
        return [low, high]
    room = 0.05 * (high - low)
    return [max(low, min(values) - room), min(high, max(values) + room)]


def _shares_data(shown: Shown) -> Markup:
    return data_table(_shares(shown), "Shares of decisions", percent)


def _means_data(shown: Shown) -> Markup:
    return data_table(_means(shown), f"Mean {shown.word} over time", number)


def _arms(shown: Shown) -> Markup:
    described = shown.described
    own = colours(described)
    low, high = described["bounds"]
    window, history, facts = shown.window, shown.history, shown.facts
    report = None if window is None else window.report
    everyone = list(enumerate(described["arms"]))
    everyone.sort(key=lambda each: (each[1]["status"] != "active", -each[1]["probability"]))
    pages = -(-len(everyone) // PAGE)
    page = min(shown.page, pages)
    some = everyone[(page - 1) * PAGE : page * PAGE]
    steps = None
    if history is not None and len(history.at) > 1:
        count = len(history.at)
        size = min(SPARKS, count)
        steps = sorted({round(n * (count - 1) / (size - 1)) for n in range(size)})
    rows = []
    doubts: list[str] = []
    for place, arm in some:
        name, colour = arm["name"], own[arm["name"]]
        count_ = Counted() if window is None else window.arms.get(name, Counted())
        each = None if report is None else report.get(name)
        mean = None if each is None or each.mean is None else shown.value(each.mean)
        ends = None if each is None else shown.pair(each.sequence)
        if ends is not None and ends[1] - ends[0] > (1 - 1e-9) * (high - low):
            # Too few answers are counted for an interval; their mean would mislead.
            mean = ends = None
        ever = None if arm["mean_loss"] is None else shown.value(arm["mean_loss"])
        line: Any = ""
        if steps is not None and history is not None and place < history.shares.shape[1]:
            values = [history.shares[n, place] for n in steps]
            line = figures.sparkline(
                [None if v != v else float(v) for v in values], "over time", colour
            )
        doubt = _doubt(mean, ends)
        if doubt is not None and doubt not in doubts:
            doubts.append(doubt)
        share = arm["probability"]
        held = 0 if facts is None else facts.quarantined.get(place, 0)
        rows.append(
            (
                together(
                    swatch(colour), named(name),
                    arm["status"] == "retired" and h.span(" retired", class_="quiet"),
                ),
                together(h.b(percent(share)), " ", line, _limits(described, name)),
                f"{arm['decided']:,}",
                f"{arm['told']:,}",
                f"{count_.pending:,}",
                percent(count_.missing / count_.decided) if count_.decided else NONE,
                h.span(f"{held:,}", class_="bad") if held else "0",
                together(
                    h.b(number(mean)), " ",
                    h.small(f"{ends[0]:.3g} to {ends[1]:.3g}") if ends else None,
                    doubt and h.small(" ", explained(doubt)),
                ),
                figures.interval(low, high, ends, mean, ever, colour),
                number(ever),
            )
        )  # fmt: skip
    heads = (
        "arm", "share", "decisions", "feedback", "pending", "missing", "quarantined",
        f"recent mean {shown.word}", "its interval", "over all time",
    )  # fmt: skip
    where = address(described["name"])
    count = described["arms"]
    turn = pages > 1 and h.p(
        f"{len(some)} of {len(count):,} arms, by probability. ",
        page > 1 and h.a("Previous", href=f"{where}{_query(shown, page - 1)}#arms"), " ",
        page < pages and h.a("Next", href=f"{where}{_query(shown, page + 1)}#arms"),
    )  # fmt: skip
    # In words, too: a phone shows no tooltips.
    why = [h.p(h.b(doubt), f": {EXPLAINED[doubt]}", class_="quiet") for doubt in doubts]
    return together(table(heads, rows, _windowed(shown), class_="wide slim"), why, turn)


def _doubt(mean: float | None, ends: tuple[float, float] | None) -> str | None:
    """Return the term for a mean without an interval or outside it, None for any other mean."""
    if mean is None:
        return None
    if ends is None:
        return "changed"
    return None if ends[0] <= mean <= ends[1] else "outside"


def _limits(described: dict[str, Any], name: str) -> Markup | None:
    """Return between which shares the policy keeps an arm, None if there are none."""
    if name == described["control"]:
        return together(" ", h.small(f"control, fixed at {100 * described['control_share']:g} %"))
    limits = ("at least", described["min_share"]), ("at most", described["max_share"])
    found = [f"{word} {100 * shares[name]:g} %" for word, shares in limits if name in shares]
    return together(" ", h.small(", ".join(found))) if found else None


def _filter() -> Markup:
    """Return the filter of the arms; scripts show it, and the first arms only."""
    return h.p(
        h.label("Filter arms by name", for_="filter"),
        h.input(id="filter", type="search", autocomplete="off"),
        h.label(h.input(id="all-arms", type="checkbox", autocomplete="off"), " show all"),
        class_="filter",
        hidden=True,
    )


def _windowed(shown: Shown) -> Markup | str:
    window = shown.window
    if window is None:
        return "Pending, missing and means are being computed."
    if not window.rows:
        return "No decision has been made yet."
    since = "" if window.since is None else f", since {moment_text(window.since)}"
    advised = bool(shown.described["experts"])
    share = "of the next decisions"
    if advised:
        share = "of the decisions so far"
    elif shown.described["mode"] == "paused":
        share = "of the decisions once resumed"
    tick = (
        "The recent mean is that of playing the arm in every decision; the tick, and the mean over "
        "all time, are of the decisions in which it was played."
        if advised
        else "The tick is the mean over all time."
    )
    return together(
        f"Share: {share}. Recent mean: of the newest {counted(window.rows, 'decision')}{since}. "
        f"Each interval contains the true mean with {percent(CONFIDENCE)} confidence; a dash: too "
        "few answers can be compared yet.",
        # On a phone, these columns are left out.
        h.span(
            " Pending and missing: of the same decisions. Decisions and learned feedback: over all "
            f"time. {tick}",
            class_="roomy",
        ),
    )


def _report(shown: Shown) -> Markup:
    window = shown.window
    said: list[Any] = []
    if window is None:
        said.append("The report is being computed.")
    elif not window.rows:
        said.append("There is nothing to report yet.")
    elif window.report is None:
        said.append(
            f"This page ranks up to {REPORTED} arms; the JSON report under Export has no limit."
        )
    else:
        sure = window.sure
        for better, worse, least in sure[:SENTENCES]:
            said.append(
                together(
                    h.b(named(better)), " beats ", h.b(named(worse)), f" by at least {least:.3g}."
                )
            )
        if len(sure) > SENTENCES:
            said.append(f"Showing {SENTENCES} of {len(sure):,} confident comparisons.")
        if not sure:
            said.append("No two arms can be ranked with confidence yet.")
        if window.waiting:
            said.append(
                f"{counted(window.waiting, 'answer')} will be compared once every earlier decision "
                "has feedback, or its feedback window is over."
            )
        if window.unanswered:
            said.append(
                f"{counted(window.unanswered, 'decision')} of {window.rows:,} have no feedback. "
                "The comparisons hold if that does not depend on what the feedback would be."
            )
    return h.section(
        h.h2("Report", id="report"),
        h.ul((h.li(each) for each in said), class_="said"),
        h.p(
            f"Each comparison holds with {percent(CONFIDENCE)} confidence. It uses at most the "
            f"newest {WINDOW:,} decisions and compares the mean {shown.word}, in "
            f"[{shown.described['bounds'][0]:g}, {shown.described['bounds'][1]:g}].",
            class_="quiet",
        ),
    )


def _drift(shown: Shown) -> Markup:
    found = [*drifts(shown), *acted_on(shown)]
    if not found:
        return h.p("No change of any arm's mean has been detected.", class_="quiet")
    return h.ul((h.li(h.b(named(name)), ": ", said) for name, said in found), class_="said")


def _lag(shown: Shown) -> Markup:
    window = shown.window
    title = h.h2("Feedback lag", id="lag")
    if window is None:
        return h.section(title, h.p("The lag is being computed.", class_="empty"))
    if not sum(window.lags):
        return h.section(title, h.p("The recent decisions have no feedback yet.", class_="empty"))
    label = "Feedback by its lag; the table below has the numbers"
    return h.section(
        title,
        h.p("Feedback to the recent decisions, by the time it took.", class_="quiet"),
        figures.bars(window.lags, LAG_NAMES, label),
        h.details(
            h.summary("Lags, as a table"),
            table(
                ("lag", "feedback"),
                [
                    (name, f"{count:,}")
                    for name, count in zip(LAG_NAMES, window.lags, strict=True)
                ],
                "Feedback to the recent decisions, by lag",
                class_="plain",
            ),
        ),
    )  # fmt: skip


def _replicas(shown: Shown) -> Markup:
    title = h.h2("Replicas", id="replicas")
    if shown.facts is None:
        return h.section(title, h.p("The list of replicas is being read.", class_="empty"))
    age = shown.described["state_age"]
    rows = [
        (
            together(str(each.shard), each.own and h.span(" this one", class_="quiet")),
            "serves" if each.serving else "stopped",
            moment(each.started_at),
            f"{each.rounds:,}",
            f"{each.learned:,}",
            "0 s" if each.own else seconds(age),
        )
        for each in shown.facts.replicas
    ]
    heads = ("replica", "state", "started (UTC)", "rounds", "learned", "state age")
    return h.section(
        title, table(heads, rows, "Replicas of the service", hidden=True, class_="wide")
    )


def _controls(viewer: Viewer, shown: Shown) -> Markup:
    described = shown.described
    name = described["name"]
    if not viewer.admin:
        said = "Changes need a key with the admin scope."
        return h.p(said, id="controls", class_="quiet")
    active = [arm["name"] for arm in described["arms"] if arm["status"] == "active"]

    def act(action: str, text: str, **more: Any) -> Markup:
        return h.button(text, name="action", value=action, **more)

    return h.details(
        h.summary("Controls: pause or pin the experiment, change its arms"),
        h.form(
            # Enter in a field presses the first button: this one does nothing.
            h.button("Nothing", disabled=True, hidden=True),
            h.input(type="hidden", name="token", value=viewer.token),
            h.p(
                h.label("Type ", h.code(name), " to confirm", for_="confirm"),
                h.input(
                    id="confirm", name="confirm", autocomplete="off", required=True,
                    spellcheck="false", autocapitalize="off",
                ),
            ),
            h.div(
                h.fieldset(
                    h.legend("Mode"),
                    act("pause", "Pause", class_="stop"),
                    act("resume", "Resume learning"),
                    act("uniform", "Uniform"),
                ),
                h.fieldset(
                    h.legend("One arm"),
                    h.label("Arm", for_="arm"),
                    # A list of thousands of arms would be long and useless.
                    h.select((h.option(each, value=each) for each in active), id="arm", name="arm")
                    if len(active) <= PAGE
                    else h.input(id="arm", name="arm", maxlength=200, autocomplete="off"),
                    act("pin", "Pin", class_="stop"),
                    act("retire_arm", "Retire", class_="stop"),
                ),
                h.fieldset(
                    h.legend("New arm"),
                    h.label("Name", for_="new"),
                    h.input(id="new", name="new", maxlength=200, autocomplete="off"),
                    act("add_arm", "Add"),
                ),
                h.fieldset(
                    h.legend("Quarantined feedback"),
                    act("release", "Learn from all"),
                    act("drop", "Discard all", class_="stop"),
                ),
                class_="sets",
            ),
            method="post",
            action=f"{address(name)}/act",
            class_="controls",
            id="controls",
        ),
        h.p(
            "Pause: refuse decisions; feedback is still learned. Pin: every decision returns one "
            "arm, and nothing is learned. Uniform: every arm receives the same share. The name of "
            "a retired arm cannot be used again. Coloured buttons stop or discard something.",
            class_="quiet",
        ),
        class_="panel",
        open=shown.acted,
    )  # fmt: skip


def _quarantine(shown: Shown) -> Markup:
    held = {} if shown.facts is None else shown.facts.quarantined
    if not held:
        return together(
            h.h2("Quarantine", id="quarantine"), h.p("No feedback is held back.", class_="quiet")
        )
    arms = shown.described["arms"]
    rows = [(named(arms[place]["name"]), f"{count:,}") for place, count in sorted(held.items())]
    return together(
        h.h2("Quarantine", id="quarantine"),
        table(
            ("arm", "feedback held"),
            rows,
            "Feedback held back because it exceeded a cap, by arm; up to 1,000",
            class_="plain",
        ),
    )


def _export(viewer: Viewer, shown: Shown) -> Markup:
    name = shown.described["name"]
    where = address(name)
    secret = ' \\\n  -H "Authorization: Bearer $KEY"' if viewer.keyed else ""
    advice = ""
    if shown.described["experts"]:
        arm = shown.described["arms"][0]["name"]
        sent = {"advice": {each["name"]: arm for each in shown.described["experts"]}}
        advice = f" \\\n  -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(sent))}"
    # Pasted into a shell, the first command keeps the id that the second one needs.
    found = """sed 's/.*"decision_id":"\\([^"]*\\)".*/\\1/'"""
    line = (
        f"DECISION_ID=$(curl -s -X POST {viewer.origin}/v1{where}/decisions{secret}{advice} \\\n"
        f"  | {found})\n"
        f"curl -X PUT {viewer.origin}/v1/decisions/$DECISION_ID/feedback{secret} \\\n"
        f"  -H 'Content-Type: application/json' -d '{{\"{shown.word}\": 1}}'"
    )
    return h.section(
        h.h2("Export", id="export"),
        h.p(
            [
                together(h.a(text, href=f"{where}/export?format={form}", download=True), " · ")
                for form, text in (
                    ("jsonl", "JSON lines"), ("csv", "CSV"), ("vw", "Vowpal Wabbit"),
                    ("parquet", "Parquet"),
                )
            ],
            h.a("Report on the whole log (JSON)", href=f"{where}/report"),
        ),
        h.h3("From a shell"),
        h.pre(h.code(line), data_origin=viewer.origin),
        h.p(
            explained("Epoch"), f" {shown.described['epoch']}, "
            f"version {shown.described['config_version']}, created "
            f"{moment_text(shown.described['created_at'])}; this page was drawn "
            f"{moment_text(time.time())}.",
            class_="quiet",
        ),
    )  # fmt: skip


def _probabilities(viewer: Viewer, shown: Shown, made: list[Markup]) -> Markup:
    heading = h.h2("Share of decisions of each arm", id="probabilities")
    drawn = chart("shares", _shares(shown), "share of decisions", "arm", _legend(shown, True))
    return h.section(heading, drawn, made)


def _over_time(viewer: Viewer, shown: Shown, made: list[Markup]) -> Markup:
    heading = h.h2(f"Mean {shown.word} over time, and changes", id="drift")
    lines, measured = _means(shown), f"mean {shown.word}"
    ends, form = _range(shown, lines[1]), "{:.3g}".format
    drawn = chart("means", lines, measured, "arm", _legend(shown), ends, form)
    return h.section(heading, drawn, made)


PANELS = (
    Panel({"summary": headline, "alarms": _alarms}),
    Panel(
        links=(("controls", "Controls"),),
        draw=lambda viewer, shown, made: _controls(viewer, shown),
    ),
    Panel(
        {"experts": experts, "weights-data": weights_data},
        (("experts", "Experts"),),
        lambda viewer, shown, made: experts_panel(shown, made),
        when=lambda shown: bool(shown.described["experts"]),
    ),
    Panel({"shares-data": _shares_data}, (("probabilities", "Shares"),), _probabilities),
    Panel(
        {"arms": _arms, "report": _report},
        (("arms", "Arms"), ("report", "Report")),
        lambda viewer, shown, made: h.section(
            h.h2("Arms", id="arms"),
            len(shown.described["arms"]) > UNFILTERED_ARMS and _filter(),
            made,
        ),
    ),
    Panel(
        {"segments": segments},
        (("segments", "Segments"),),
        when=lambda shown: bool(shown.segments),
    ),
    Panel({"means-data": _means_data, "drift": _drift}, (("drift", "Changes"),), _over_time),
    Panel(
        {"lag": _lag, "replicas": _replicas},
        (("lag", "Lag"), ("replicas", "Replicas")),
        lambda viewer, shown, made: h.div(made, class_="columns"),
    ),
    Panel({"quarantine": _quarantine, "changes": changes}, admin=True),
    Panel(links=(("export", "Export"),), draw=lambda viewer, shown, made: _export(viewer, shown)),
)
"""The panels of the page, in their order; the first one is above the list of contents."""
