"""Tables of a summary for papers and spreadsheets: Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

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

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(_escaped, cells)) + r" \\"

    columns = "l" + "r" * (len(head) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
            line(head),
            r"\hline",
            *map(line, rows),
            r"\hline",
            r"\end{tabular}",
        ]
    )


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda found: _LATEX.get(found[0], "\\" + found[0]), text)


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
