"""Count lines of code by room, without comments, docstrings and blank lines.

``python tools/code_lines.py`` counts this tree, ``python tools/code_lines.py OTHER`` also another
one and prints both. ``python tools/code_lines.py --write`` writes the tables of docs/design.md.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHELF = "single modules"
SPACE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
EARLIER: dict[str, tuple[int, int]] = {
    "serve/": (8351, 12990), "policies/": (5280, 7528), "omd/": (5060, 4966),
    "bandit/": (3767, 4546), "experiments/": (3953, 4417), "cli/": (2662, 2702),
    "environments/": (1936, 2101), "engine/": (1610, 2064), "lanes/": (1342, 1653),
    SHELF: (1170, 1541), "campaign/": (1389, 1340), "evidence/": (1269, 1332),
    "simulation/": (878, 1239), "checks/": (1149, 1184), "client/": (940, 1096),
    "logs/": (0, 1023), "theory/": (766, 983), "plotting/": (810, 967), "inference/": (995, 619),
    "demo/": (564, 596), "interop/": (708, 395),
}  # fmt: skip
"""Lines by room at 066efc5, before the rebuild, and at 1f27758, with the features added since."""

FEATURES: dict[str, str] = {
    "`AdvisedBandit`, also served and simulated": "bandit/advised.py bandit/advice.py "
    "bandit/standing.py policies/advice.py engine/advised.py engine/advised_loop.py "
    "environments/advised.py serve/domain/advised.py serve/dashboard/experts.py "
    "serve/ops/experts.py experiments/beyond/advice.py",
    "`AllWorlds`, soft baselines, and policies that learn in the order of their feedback served": (
        "policies/allworlds/__init__.py policies/allworlds/kernels.py policies/waiting.py "
        "policies/tsallis_inf/soft.py policies/tsallis_inf/soft_general.py omd/soft.py "
        "serve/domain/folds.py serve/store/folding.py experiments/beyond/allworlds.py"
    ),
    "policies, intervals, tables, figures and exact regret for papers; custom policies kept "
    "compiled": "policies/ftpl.py policies/imed.py policies/glr_klucb.py "
    "policies/discounted_ucb.py policies/sliding_window_thompson.py simulation/intervals.py "
    "simulation/ranking.py simulation/paper_table.py plotting/arms.py plotting/many.py "
    "plotting/tails.py theory/exact.py lanes/user_functions.py experiments/beyond/ftpl.py",
    "segments, traffic shares, browsers, configuration files, tracing": "serve/domain/segments.py "
    "serve/store/segments.py serve/dashboard/segments.py policies/shares.py serve/http/cors.py "
    "serve/domain/decide_tokens.py serve/ops/config_file.py serve/ops/tracing.py bandit/lending.py",
    "reports that follow a log, retention, logs in any order": "serve/ops/tallies.py "
    "serve/store/retention.py inference/order.py",
}
"""Files that exist for a feature that came after 066efc5, and for nothing else."""

GENERATED = ("client/blocking.py", "policies/_typing.py")
"""Files that ``tools/generate.py`` writes."""
BEGIN, END = "<!-- written by tools/code_lines.py -->\n\n", "\n<!-- until here -->"


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


def by_file(root: Path) -> dict[str, int]:
    """Return the lines of code of every file below ``src/bothworlds``."""
    package = root / "src" / "bothworlds"
    return {
        path.relative_to(package).as_posix(): code_lines(path.read_text(encoding="utf-8"))
        for path in package.rglob("*.py")
    }


def by_room(root: Path) -> dict[str, int]:
    """Return the lines of code of every room below ``src/bothworlds``, the largest first."""
    found: dict[str, int] = {}
    for path, lines in by_file(root).items():
        first, slash, _ = path.partition("/")
        room = f"{first}/" if slash else SHELF
        found[room] = found.get(room, 0) + lines
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


def largest() -> tuple[str, str]:
    """Return the longest class and the longest file, with their lines."""
    classes, files = [], []
    package = ROOT / "src" / "bothworlds"
    for path in package.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        files.append((source.count("\n"), path.relative_to(package).as_posix()))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                classes.append((node.end_lineno - node.lineno + 1, node.name))
    return tuple(f"`{name}`, {lines:,} lines" for lines, name in (max(classes), max(files)))


def tables() -> str:
    """Return the tables of docs/design.md."""
    files, rooms = by_file(ROOT), by_room(ROOT)
    lines = ["| Room | 066efc5 | 1f27758 | now |", "|---|--:|--:|--:|"]
    for room, now in rooms.items():
        first, second = EARLIER.get(room, (0, 0))
        shown = f"`{room}`" if room.endswith("/") else room
        lines.append(f"| {shown} | {first:,} | {second:,} | {now:,} |")
    sums = [sum(column) for column in zip(*EARLIER.values(), strict=True)]
    lines.append(f"| **all** | {sums[0]:,} | {sums[1]:,} | {sum(rooms.values()):,} |")
    lines += ["", "| Feature since 066efc5, in files of its own | lines |", "|---|--:|"]
    added = {name: sum(files[path] for path in paths.split()) for name, paths in FEATURES.items()}
    lines += [f"| {name} | {count:,} |" for name, count in added.items()]
    lines += [f"| **all** | {sum(added.values()):,} |", ""]
    longest_class, longest_file = largest()
    lines.append(f"Largest class: {longest_class}. Largest file: {longest_file}.")
    lines.append(f"{sum(files[path] for path in GENERATED)} lines are themselves generated.")
    return "\n".join(lines) + "\n"


def write() -> None:
    """Write the tables into docs/design.md."""
    page = ROOT / "docs" / "design.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest[rest.index(END) :]
    page.write_text(before + BEGIN + tables() + after, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        print(table(*map(Path, sys.argv[1:]), ROOT))
