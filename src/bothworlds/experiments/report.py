"""The report: one HTML file with figures, settings, claims and bounds, and nothing to download."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

import bothworlds
from bothworlds.experiments.archive import Finished
from bothworlds.experiments.model import Claim, Settings, Table
from bothworlds.files import replacing
from bothworlds.text import fraction

_CSS = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1c1c1c; background: #fff;
       max-width: 60rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; }
h2 { font-size: 1.35rem; margin-top: 3rem; border-top: 2px solid #ddd; padding-top: 1.2rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p.source, p.small { color: #555; margin-top: 0; }
p.small { font-size: .85rem; }
figure { margin: 1rem 0; }
img { width: 100%; height: auto; }
figcaption { font-size: .85rem; color: #555; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #e2e2e2;
         vertical-align: top; }
th { font-weight: 600; background: #f6f6f6; }
td.verdict { font-weight: 600; white-space: nowrap; }
td.holds { color: #005a8c; } td.fails { color: #a63c00; } td.open { color: #666; }
details { margin: 1rem 0; } summary { cursor: pointer; }
nav a { margin-right: .9rem; white-space: nowrap; }
"""

_MARKS = {"holds": "✓ holds", "fails": "✗ fails", "open": "not judged"}


def write_report(folder: Path, finished: Sequence[Finished]) -> Path:
    """Write ``report.html`` about all finished experiments, atomically, and return its path."""
    path = folder / "report.html"
    with replacing(path) as draft:
        draft.write_text(report_html(folder, finished), encoding="utf-8")
    return path


def report_html(folder: Path, finished: Sequence[Finished]) -> str:
    """Return the report as a string; the figures are read from ``folder``."""
    claims = [claim for each in finished for claim in each.claims]
    counts = {v: sum(claim.verdict == v for claim in claims) for v in _MARKS}
    links = " ".join(f'<a href="#{_text(each.id)}">{_text(each.id)}</a>' for each in finished)
    body = [
        "<h1>Tsallis-INF, reproduced</h1>",
        '<p class="source">The figures and tables of J. Zimmert and Y. Seldin, “Tsallis-INF: An '
        "Optimal Algorithm for Stochastic and Adversarial Bandits”, JMLR 22(28), 2021, "
        f"as measured by bothworlds {_text(bothworlds.__version__)}.</p>",
        f"<p>Of {len(claims)} claims, <strong>{counts['holds']} hold</strong>, "
        f"<strong>{counts['fails']} fail</strong> and {counts['open']} cannot be judged at this "
        "scale. Regret is pseudo-regret throughout; less is better.</p>",
        f"<nav>{links}</nav>",
        *_overview(claims),
        *(_section(folder, each) for each in finished),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Tsallis-INF, reproduced</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _overview(claims: Sequence[Claim]) -> list[str]:
    """Show what fails at once, and the whole list on request."""
    failing = [claim for claim in claims if claim.holds is False]
    shown = ["<h3>Claims that fail</h3>", _claims(failing)] if failing else []
    listed = f"<details><summary>All {len(claims)} claims</summary>{_claims(claims)}</details>"
    return [*shown, listed]


def _text(value: object) -> str:
    return html.escape(str(value))


def _section(folder: Path, each: Finished) -> str:
    parts = [
        f'<section id="{_text(each.id)}">',
        f"<h2>{_text(each.title)}</h2>",
        f'<p class="source">{_text(each.source)} · <code>bothworlds paper {_text(each.id)}</code>'
        "</p>",
        f"<p>{_text(each.summary)}</p>",
        *(_figure(folder, name, each) for name in each.figures),
        "<h3>Claims</h3>",
        _claims(each.claims),
        *(_details(table) for table in each.tables if table.rows),
        _settings(each.settings, each),
        "</section>",
    ]
    return "\n".join(parts)


def _figure(folder: Path, name: str, each: Finished) -> str:
    data = base64.b64encode((folder / f"{name}.png").read_bytes()).decode("ascii")
    alt = _text(f"{each.title} ({name}), {each.settings}")
    return (
        f'<figure><img alt="{alt}" src="data:image/png;base64,{data}">'
        f"<figcaption>{_text(name)}.png, .pdf</figcaption></figure>"
    )


def _claims(claims: Sequence[Claim]) -> str:
    rows = "\n".join(
        f'<tr><td class="verdict {claim.verdict}">{_MARKS[claim.verdict]}</td>'
        f"<td>{_text(claim.sentence)}<br><code>{_text(claim.id)}</code></td>"
        f"<td>{_text(claim.measured)}</td><td>{_text(claim.threshold)}</td></tr>"
        for claim in claims
    )
    return (
        '<div class="wide"><table><thead><tr><th>Verdict</th><th>Claim</th><th>Measured</th>'
        f"<th>Asked for</th></tr></thead><tbody>\n{rows}\n</tbody></table></div>"
    )


def _details(table: Table) -> str:
    head = "".join(f"<th>{_text(cell)}</th>" for cell in table.head)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f'<details><summary>{_text(table.title)}</summary><div class="wide"><table><thead><tr>'
        f"{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div></details>"
    )


def _settings(settings: Settings, each: Finished) -> str:
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
    listed = "; ".join(f"{name} {_text(value)}" for name, value in shown if value)
    return f'<p class="small">Settings: {listed}.</p>'
