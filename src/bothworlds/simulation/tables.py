"""Tables of a summary for papers, notebooks and spreadsheets: Markdown, LaTeX, HTML and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from bothworlds.markup import Markup, h

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, numbers on the right.

    Examples
    --------
    >>> print(markdown(["policy", "mean"], [["UCB1", "3.5"]]))
    | policy | mean |
    |---|--:|
    | UCB1 | 3.5 |
    """

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    rule = "|---|" + "--:|" * (len(head) - 1)
    return "\n".join([line(head), rule, *map(line, rows)])


def html(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Return a table in HTML, numbers on the right.

    Examples
    --------
    >>> print(html("Regret", ["policy", "mean"], [["UCB1", "3.5"]])[:44])
    <table><caption>Regret</caption><thead><tr><
    """
    right = {"style": "text-align: right"}
    body = (h.tr(h.th(row[0]), (h.td(cell, **right) for cell in row[1:])) for row in rows)
    top = h.thead(h.tr(map(h.th, head)))
    return h.table(h.caption(title), top, h.tbody(body))


def latex(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Return a LaTeX tabular without packages.

    Examples
    --------
    >>> print(latex(["policy", "5 %"], [["UCB1", "3.5"]]))
    \begin{tabular}{lr}
    \hline
    policy & 5 \% \\
    \hline
    UCB1 & 3.5 \\
    \hline
    \end{tabular}
    """
    cells = [[escaped(cell) for cell in row] for row in (head, *rows)]
    return _tabular(cells[0], cells[1:], (r"\hline",) * 3)


def _tabular(
    head: Sequence[str], rows: Sequence[Sequence[str]], rules: Sequence[str],
    notes: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return a LaTeX tabular with rules above the head, below it and at the end."""
    columns = len(head)
    above, below, end = rules
    lines = [
        rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}",
        above,
        " & ".join(head) + r" \\",
        below,
        *(" & ".join(row) + r" \\" for row in rows),
        end,
        *(rf"\multicolumn{{{columns}}}{{l}}{{\footnotesize {each}}} \\" for each in notes),
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def escaped(text: str) -> str:
    r"""Return text as LaTeX prints it.

    Examples
    --------
    >>> print(escaped("5 % of a_b"))
    5 \% of a\_b
    """
    return re.sub(r"[\\~^&%$#_{}]", lambda found: _LATEX.get(found[0], "\\" + found[0]), text)


def signed(numbers: str) -> str:
    """Return numbers with the minus sign of LaTeX.

    Examples
    --------
    >>> signed("[-3.5, +2.0]")
    '[$-$3.5, +2.0]'
    """
    return numbers.replace("-", "$-$")


def booktabs(head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    r"""Return a LaTeX tabular for the package booktabs, from cells that are LaTeX.

    Examples
    --------
    >>> print(booktabs(["policy", "mean"], [["UCB1", r"\textbf{3.5}"]], ["64 runs."]))
    \begin{tabular}{lr}
    \toprule
    policy & mean \\
    \midrule
    UCB1 & \textbf{3.5} \\
    \bottomrule
    \multicolumn{2}{l}{\footnotesize 64 runs.} \\
    \end{tabular}
    """
    return _tabular(head, rows, (r"\toprule", r"\midrule", r"\bottomrule"), notes)


def comma_separated(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    r"""Return a table as CSV.

    Examples
    --------
    >>> comma_separated(["policy", "mean"], [["a, b", 3.5]])
    'policy,mean\n"a, b",3.5\n'
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return target.getvalue()
