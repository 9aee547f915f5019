"""Show the reStructuredText of docstrings, tables and formulas, as Markdown in the API pages."""

from __future__ import annotations

import re
from typing import Any

import griffe

RULE = re.compile(r"^=+( +=+)+$")


class Markdown(griffe.Extension):
    """Rewrite every docstring of the package after it was read."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Return a docstring with tables and formulas in Markdown.

    Names between single backticks keep their look: Markdown shows both kinds as code.
    """
    lines = text.split("\n")
    shown: list[str] = []
    place = 0
    while place < len(lines):
        line = lines[place]
        indent = line[: len(line) - len(line.lstrip())]
        if RULE.match(line.strip()):
            stop = place + 1
            while stop < len(lines) and lines[stop].strip():
                stop += 1
            shown += ["", *(indent + row for row in table(lines[place:stop], len(indent))), ""]
            place = stop
        elif line.strip().startswith(".. math::"):
            stop = place + 1
            while stop < len(lines) and lines[stop].strip():
                stop += 1
            formula = [line.strip().removeprefix(".. math::"), *lines[place + 1 : stop]]
            shown += ["", f"{indent}$${' '.join(part.strip() for part in formula)}$$", ""]
            place = stop
        else:
            line = re.sub(r":math:`([^`]*)`", r"$\1$", line)
            # Two colons announce an indented block, which needs no announcement in Markdown.
            shown.append("" if line.strip() == "::" else re.sub("::$", ":", line))
            place += 1
    return "\n".join(shown)


def table(lines: list[str], indent: int) -> list[str]:
    """Return a simple table of reStructuredText as the rows of a Markdown table."""
    rules = [place for place, line in enumerate(lines) if RULE.match(line.strip())]
    starts = [found.start() for found in re.finditer("=+", lines[0][indent:])]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in (each[indent:] for place, each in enumerate(lines) if place not in rules):
        cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        if rows and not cells[0]:
            rows[-1] = [
                f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)
            ]
        else:
            rows.append(cells)
    head = rows.pop(0) if len(rules) == 3 else [" "] * len(starts)
    written = [head, ["---"] * len(starts), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in written]
