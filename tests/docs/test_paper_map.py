"""docs/paper_map.md names every part of the paper, and only files and functions that exist."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
REFERENCE = re.compile(r"`([\w/]+\.py)(?:::([\w.]+))?`")

SECTIONS = (
    "1 2 3 3.1 3.2 3.3 4 4.1 4.2 4.2.1 4.2.2 4.3 5 5.1 5.2 6 7 7.1 7.2 7.3 8 8.1 9 A B C C.1 C.2 D"
)
NUMBERED = [
    *(f"Theorem {n}" for n in (1, 3, 4)),
    *(f"Remark {n}" for n in (2, 5, 6, 7, 9)),
    *(f"Corollary {n}" for n in (8, 10)),
    *(f"Lemma {n}" for n in range(11, 21)),
    *(f"Algorithm {n}" for n in (1, 2)),
    "Table 1",
    *(f"Figure {n}" for n in range(1, 6)),
]


@functools.cache
def names_in(file):
    """Return the functions, classes, methods and constants a file defines."""
    found = set()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inside = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found.update(f"{node.name}.{each.name}" for each in inside)
    return found


def wrong(text):
    """Return the references of a text that lead nowhere."""
    return [
        file + (f"::{name}" if name else "")
        for file, name in REFERENCE.findall(text)
        if not (ROOT / file).is_file() or (name and name not in names_in(file))
    ]


@pytest.mark.slow
def test_every_reference_leads_somewhere():
    assert len(REFERENCE.findall(TEXT)) > 80
    assert wrong(TEXT) == []


def test_a_wrong_reference_would_be_found():
    text = (
        "`src/bothworlds/theory/upper.py::adversarial` `src/bothworlds/theory/upper.py::absent` "
        "`src/bothworlds/absent.py` `src/bothworlds/bandit/bandit.py::Bandit.ask`"
    )
    assert wrong(text) == ["src/bothworlds/theory/upper.py::absent", "src/bothworlds/absent.py"]


@pytest.mark.parametrize("part", [*SECTIONS.split(), *NUMBERED])
def test_every_part_of_the_paper_has_a_place(part):
    rows = [line for line in TEXT.splitlines() if line.startswith(f"| {part} |")]
    assert rows
    assert all(REFERENCE.search(row) for row in rows)


def test_every_code_span_that_looks_like_a_file_is_checked():
    spans = re.findall(r"`([^`]*\.py[^`]*)`", TEXT)
    assert all(REFERENCE.fullmatch(f"`{span}`") for span in spans)
