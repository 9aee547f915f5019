"""Words that readers stumbled over do not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = re.compile(r"\b(anew|whoever|of old|so much for|one is sure)\b", re.IGNORECASE)
ROOMS = (
    "bandit", "campaign", "cli", "client", "demo", "environments", "experiments", "inference",
    "interop", "logs", "plotting", "serve", "simulation", "theory",
)  # fmt: skip
"""Rooms of the package in plain words; a room joins when its last such word is gone."""
TEXTS = [
    ROOT / "README.md",
    ROOT / "VISION.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src" / "bothworlds").glob("*.py")),
    *sorted(
        path
        for room in ROOMS
        for path in (ROOT / "src" / "bothworlds" / room).rglob("*")
        if path.suffix in (".py", ".js", ".css") and "uplot" not in path.parts
    ),
]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_text_has_none_of_the_words(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if WORDS.search(line)] == []


def test_a_word_would_be_found():
    assert len(TEXTS) > 200
    assert WORDS.search("It begins Anew.") and not WORDS.search("renew a folder; proof older")
