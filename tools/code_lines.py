"""Count lines of code by room, without comments, docstrings and blank lines.

``python tools/code_lines.py`` counts this tree, ``python tools/code_lines.py OTHER`` also another
one and prints both.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

SPACE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(source: str) -> int:
    """Return the number of lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SPACE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        # A string that is a statement is a docstring, or the description of a constant.
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if text and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def by_room(root: Path) -> dict[str, int]:
    """Return the lines of code of every room below ``src/bothworlds``, the largest first."""
    package = root / "src" / "bothworlds"
    found: dict[str, int] = {}
    for path in package.rglob("*.py"):
        first, *others = path.relative_to(package).parts
        room = f"{first}/" if others else "modules on the shelf"
        found[room] = found.get(room, 0) + code_lines(path.read_text(encoding="utf-8"))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def table(*roots: Path) -> str:
    """Return the counts of one or several trees as a table in Markdown."""
    counted = [by_room(root) for root in roots]
    rooms = dict.fromkeys(room for counts in reversed(counted) for room in counts)
    lines = ["| Room |" + " lines |" * len(roots), "|---|" + "--:|" * len(roots)]
    for room in rooms:
        lines.append(f"| `{room}` |" + "".join(f" {each.get(room, 0):,} |" for each in counted))
    lines.append("| all |" + "".join(f" {sum(each.values()):,} |" for each in counted))
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(*map(Path, sys.argv[1:]), Path(__file__).resolve().parents[1]))
