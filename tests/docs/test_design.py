"""Journeys of docs/design.md: every file they name exists, and none is met twice."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
FILE = re.compile(r"`([\w/]+\.py)`")


def journeys(text):
    """Return the files of every journey, in the order they are met."""
    section = text.split("\n## Three journeys\n")[1].split("\n## ")[0]
    parts = section.split("\n### ")[1:]
    steps = {
        part.split("\n")[0]: [line for line in part.split("\n") if re.match(r"\d+\. ", line)]
        for part in parts
    }
    return {name: FILE.findall("\n".join(lines)) for name, lines in steps.items()}


JOURNEYS = journeys(TEXT)


def test_there_are_three():
    assert list(JOURNEYS) == ["A decision", "A simulation", "A figure of the paper"]
    assert all(len(files) > 10 for files in JOURNEYS.values())


@pytest.mark.parametrize("name", JOURNEYS)
def test_every_file_exists(name):
    assert [f for f in JOURNEYS[name] if not (ROOT / "src" / "bothworlds" / f).is_file()] == []


@pytest.mark.parametrize("name", JOURNEYS)
def test_no_file_is_met_twice(name):
    assert sorted(JOURNEYS[name]) == sorted(set(JOURNEYS[name]))


def test_a_second_visit_would_be_found():
    text = "\n## Three journeys\n\n### Odd\n\n1. `a.py` and\n2. `b/c.py`, `a.py`\n\n## Next\n"
    assert journeys(text) == {"Odd": ["a.py", "b/c.py", "a.py"]}
