"""Texts are plain: words that readers stumbled over do not come back, and lines stay short."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = re.compile(
    r"\b(anew|whoever|of old|so much for|one is sure|beside|nobody|somebody|whatever|heard of|"
    r"looked at|fooled|sayings|surroundings|twins?|begins again)\b",
    re.IGNORECASE,
)
"""Private words for standard ones, and "who" for a noun."""
HABITS = re.compile(
    r"\b((is|are|was|be) (told|heard)(?! apart| from)|(what|which) \w+ brought|"
    r"would have brought)\b|(^|[.:] )Of (no|all|every|each) \w+ (one|is|are)\b",
    re.IGNORECASE,
)
"""Hidden actors and inversions: "is heard" for "the replica receives"."""
CODE = sorted(
    path
    for path in (ROOT / "src" / "bothworlds").rglob("*")
    if path.suffix in (".py", ".js", ".css") and "uplot" not in path.parts
)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
ANY_LENGTH = {"api.md", "codes.md", "claims.md", "beyond.md", "arena.md", "errata.md"}
"""Pages written by scripts, and one whose formulas in plain text cannot be broken anywhere."""
WIDTH = 100


def prose(path):
    """Return the lines of a text; of code in Python, those of comments and strings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text.splitlines()
    kinds = (tokenize.COMMENT, tokenize.STRING)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [line for token in tokens if token.type in kinds for line in token.string.splitlines()]


@pytest.mark.parametrize(
    "path",
    # What older versions of the changelog called a thing stays.
    [path for path in (*PAGES, *CODE) if path.name != "CHANGELOG.md"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_text_has_plain_words(path):
    found = [line for line in prose(path) if WORDS.search(line) or HABITS.search(line)]
    assert found == []


def too_long(text):
    """Return the lines of prose that are too long: tables, code and addresses may be."""
    found, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```") or line == "$$":
            fenced = not fenced
        words = line.split()
        one = len(words) <= 2 or line.lstrip().startswith(("|", "![", "[", "<", "$$", "members:"))
        # A formula or a link is not broken.
        free = re.sub(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)", "x", line)
        if len(line) > WIDTH and not fenced and not one and len(free) > WIDTH:
            found.append(line)
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if path.name not in ANY_LENGTH],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_lines_of_a_page_are_short(path):
    assert too_long(path.read_text(encoding="utf-8")) == []


def test_what_is_wrong_would_be_found(tmp_path):
    assert len(CODE) > 350
    for text in ("It begins Anew.", "nobody knows", "The state is heard of."):
        assert WORDS.search(text)
    for text in ("Feedback is told late.", "Of no pair one is sure.", "what it brought"):
        assert HABITS.search(text)
    for text in ("renew a folder; proof older", "They are told apart.", "besides"):
        assert not WORDS.search(text) and not HABITS.search(text)
    path = tmp_path / "code.py"
    path.write_text('nobody = 1  # a comment\ntext = "a text"\n')
    assert prose(path) == ["# a comment", '"a text"']
    long = "word " * 21
    assert too_long(long) == [long] and too_long(f"```\n{long}\n```") == []
    assert too_long(f"| {long} |") == []
