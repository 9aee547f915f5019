"""The report: one HTML file with verdict, figures, claims and bounds, and nothing to download."""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Sequence
from pathlib import Path

import bothworlds
from bothworlds.experiments.catalogue import SHELVES, part_of
from bothworlds.experiments.claims.sample import remembered
from bothworlds.experiments.claims.statements import full_scale
from bothworlds.experiments.claims.summary import OWNERS, lead, ordered, tally
from bothworlds.experiments.model import Claim, Settings, Table
from bothworlds.experiments.report.archive import Finished
from bothworlds.files import replacing
from bothworlds.markup import Markup, h, lines, rows
from bothworlds.text import fraction

BOTH_WORLDS = "switching-both-worlds"
"""The first figure, if it was drawn."""

_CSS = Path(__file__).with_name("report.css")

_MARKS = {"holds": "✓ holds", "fails": "✗ fails", "open": "? open", "differs": "≠ differs"}


def write_report(folder: Path, finished: Sequence[Finished]) -> Path:
    """Write ``report.html`` about all finished experiments, atomically, and return its path."""
    path = folder / "report.html"
    with replacing(path) as draft:
        draft.write_text(report_html(folder, finished), encoding="utf-8")
    return path


def report_html(folder: Path, finished: Sequence[Finished]) -> str:
    """Return the report as a string; the figures are read from ``folder``."""
    # A folder may hold experiments of both parts; the paper's come first and give the title.
    shelf = SHELVES[part_of(finished[0].id) if finished else "paper"]
    about = f"{shelf.about}, as measured by bothworlds {bothworlds.__version__}."
    head = h.head(
        "\n",
        lines(
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.title(shelf.title),
            h.style(Markup(_CSS.read_text(encoding="utf-8"))),
        ),
        "\n",
    )
    body = lines(
        h.h1(shelf.title),
        h.p(about, class_="quiet"),
        *(h.p(sentence, class_="said") for sentence in _lead(folder, finished)),
        h.nav(h.a(each.id, href=f"#{each.id}") for each in finished),
        *_overview(finished),
        *_first_picture(folder, finished),
        *(_section(folder, each) for each in finished),
        *_made(finished),
    )
    page = h.html("\n", head, "\n", h.body("\n", body, "\n"), "\n", lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _lead(folder: Path, finished: Sequence[Finished]) -> list[str]:
    """Return the first sentences; those of a smaller run begin with the paper's own scale."""
    claims = [claim for each in finished for claim in each.claims]
    smaller = any(each.settings.scale != "full" for each in finished)
    return lead(claims, full_scale() if smaller else {}, remembered(folder))


def _first_picture(folder: Path, finished: Sequence[Finished]) -> list[Markup]:
    """Show the same algorithms in both worlds, below all claims and above their panels."""
    caption = (
        "The same algorithms in two worlds with the same gaps. Left the means are fixed; right "
        "they all rise and fall together, and only Tsallis-INF keeps its regret."
    )
    shown = [each for each in finished if BOTH_WORLDS in each.figures]
    return [_picture(folder, BOTH_WORLDS, each, caption) for each in shown[:1]]


def _overview(finished: Sequence[Finished]) -> list[Markup]:
    """Show all claims in the order of the paper, then those that do not hold with the reason."""
    claims = [claim for each in finished for claim in each.claims]
    doubtful = [claim for claim in ordered(claims) if claim.verdict != "holds"]
    shown = [h.h3(f"All {len(claims)} claims, in the order of the paper"), _matrix(finished)]
    if doubtful:
        shown += [h.h3("What differs or is open, and why"), _claims(doubtful, finished)]
    return shown


def _matrix(finished: Sequence[Finished]) -> Markup:
    """Return a table of all claims, with the verdict of this run and at the paper's scale."""
    claims = [claim for each in finished for claim in each.claims]
    full = [claim.full.partition(":")[0] for claim in claims]
    head = ["claim", "this run", "paper's scale"] if any(full) else ["claim", "this run"]
    listed = []
    for each in finished:
        title = h.a(each.title, href=f"#{each.id}")
        listed.append(h.tr(h.th(title, colspan=len(head), scope="rowgroup")))
        for claim in each.claims:
            cells = [h.td(f"{claim.sentence}. ", h.span(OWNERS[claim.owner], class_="quiet"))]
            verdicts = [claim.verdict, claim.full.partition(":")[0]][: len(head) - 1]
            cells += [
                h.td(h.span(_MARKS.get(word, "-"), class_="verdict"), class_=word or None)
                for word in verdicts
            ]
            listed.append(h.tr(cells))
    judged = ([str(claim.verdict) for claim in claims], full)[: len(head) - 1]
    totals = [h.td([h.div(part) for part in tally(verdicts)]) for verdicts in judged]
    listed.append(h.tr(h.th("total"), totals, class_="total"))
    table = h.table(h.thead(h.tr(map(h.th, head))), h.tbody("\n", lines(*listed), "\n"))
    dash = h.p("A dash: not run at the paper's scale.", class_="quiet") if "" in full else None
    return h.div(table, dash if any(full) else None, class_="wide matrix")


def _section(folder: Path, each: Finished) -> Markup:
    judged = ", ".join(tally([claim.verdict for claim in each.claims]))
    command = h.code(f"bothworlds {part_of(each.id)} {each.id}")
    parts = lines(
        h.h2(each.title),
        h.p(f"{each.source} · ", command, f" · {judged}", class_="quiet"),
        h.p(each.summary),
        *(
            _picture(folder, name, each, f"{name}.png, .pdf")
            for name in each.figures
            if name != BOTH_WORLDS
        ),
        h.h3("Claims"),
        _claims(ordered(each.claims), [each]),
        *(_details(table) for table in each.tables if table.rows),
        _settings(each.settings, each),
    )
    return h.section("\n", parts, "\n", id=each.id)


def _picture(folder: Path, name: str, each: Finished, caption: str) -> Markup:
    data = base64.b64encode(_small((folder / f"{name}.png").read_bytes())).decode("ascii")
    sides = ("left", "top", "width", "height")
    places = (
        h.span(
            class_="panel",
            id=_anchor(name, place),
            style=";".join(
                f"{side}:{100 * share:.2f}%" for side, share in zip(sides, panel.box, strict=True)
            ),
        )
        for place, panel in enumerate(each.panels.get(name, ()))
    )
    alt = f"{each.title} ({name}), {each.settings}"
    drawn = h.div(h.img(alt=alt, src=f"data:image/png;base64,{data}"), places, class_="drawn")
    shown = h.div(drawn, class_="paper")
    return h.figure(shown, h.figcaption(caption), id=f"figure-{name}")


def _anchor(figure: str, place: int) -> str:
    """Name a panel by its place in the figure."""
    return f"panel-{figure}-{place}"


def panel_of(claim: Claim, each: Finished) -> tuple[int, str] | None:
    """Return the panel in which a claim was decided, and its content.

    None where no panel of its figure shows that, or the figures were drawn by version 0.1.
    """
    cell = claim.panel.partition(": ")[0]
    for wanted in (claim.panel, cell):
        for place, panel in enumerate(each.panels.get(claim.figure, ())):
            if wanted in panel.shows:
                return place, cell
    return None


@functools.lru_cache(maxsize=64)
def _small(content: bytes) -> bytes:
    """Return a picture with 256 colours, which is all that lines need, and a third of the size.

    The report is written after every experiment, with the same pictures of those before.
    """
    from PIL import Image

    target = io.BytesIO()
    with Image.open(io.BytesIO(content)) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(target, format="PNG")
    return target.getvalue()


def _claims(claims: Sequence[Claim], finished: Sequence[Finished]) -> Markup:
    owners = {claim.id: each for each in finished for claim in each.claims}
    listed = lines(*(_claim(claim, owners[claim.id]) for claim in claims))
    return h.ul("\n", listed, "\n", class_="claims")


def _claim(claim: Claim, each: Finished) -> Markup:
    found = panel_of(claim, each)
    link = None
    if found is not None:
        link = h.a(f"panel {found[1]}", href=f"#{_anchor(claim.figure, found[0])}")
    elif claim.figure:
        link = h.a("figure", href=f"#figure-{claim.figure}")
    whose = f"{OWNERS[claim.owner]}: {claim.place} · "
    text = h.div(
        h.p(claim.sentence),
        h.p(f"{claim.measured}. Criterion: {claim.threshold}.", class_="measured"),
        h.p(claim.why, class_="why") if claim.why else None,
        h.p(f"At the paper's own scale: {claim.full}.", class_="full") if claim.full else None,
        h.p(whose, h.code(claim.id), (" · ", link) if link else None, class_="quiet"),
    )
    return h.li(h.span(_MARKS[claim.verdict], class_="verdict"), text, class_=claim.verdict)


def _details(table: Table) -> Markup:
    head = h.thead(h.tr(map(h.th, table.head)))
    body = h.tbody("\n", lines(*rows(table.rows)), "\n")
    return h.details(
        h.summary(table.title),
        h.div(h.table(head, body), class_="wide"),
        open=table.title.startswith("Published"),
    )


def _settings(settings: Settings, each: Finished) -> Markup:
    shown = [
        ("scale", settings.scale),
        ("rounds", f"{settings.horizon:,}"),
        ("repetitions", f"{settings.repetitions:,}"),
        ("arms", ", ".join(map(str, settings.arms))),
        ("gaps", ", ".join(map(fraction, settings.gaps))),
        ("varied", ", ".join(f"{point:g}" for point in settings.points)),
        ("cells", str(each.cells)),
        ("seed", str(each.seed)),
    ]
    listed = "; ".join(f"{name} {value}" for name, value in shown if value)
    return h.p(f"Settings: {listed}.", class_="quiet")


def _made(finished: Sequence[Finished]) -> list[Markup]:
    """Report the time and the software of the newest judgement."""
    last = max((each.made for each in finished if each.made), key=lambda m: m["date"], default=None)
    if last is None:
        return []
    seeds = ", ".join(sorted({str(each.seed) for each in finished}))
    text = (
        f"{last['date']}; {last['processor']}, {last['cores']} cores; {last['versions']}; seed "
        f"{seeds}. Intervals are studentised bootstraps over the repetitions; a claim holds or "
        "fails with 95 % confidence, beyond chance at all places examined, and is open otherwise."
    )
    return [h.footer(h.p(text))]
