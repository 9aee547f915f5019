"""Texts are plain: the words and habits that readers stumbled over do not come back.

The word list covers comments, docstrings and messages of the package, its scripts and styles, and
all pages; words that are code (`tell`, the column ``told``) are left out. `MEANT` lists the places
where a word is meant literally.
"""

import ast
import io
import json
import re
import tokenize
from pathlib import Path

import pytest

from bothworlds.serve.problems import KINDS

ROOT = Path(__file__).parents[2]
CODE = sorted(
    path
    for path in (ROOT / "src" / "bothworlds").rglob("*")
    if path.suffix in (".py", ".js", ".css") and "uplot" not in path.parts
)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = {"api.md", "codes.md", "claims.md", "beyond.md", "arena.md"}
"""Pages written by scripts, whose lines and sentences have any length."""
WIDTH = 100

WORDS = re.compile(
    r"\b(anew|of old|beside|telling|tells|told(?! apart| from)|brought|brings|looked at|"
    r"heard|hears|whoever|whomever|whatever|nobody|somebody|everybody|anybody|"
    r"(one )?is (not )?sure|how sure(?! are)|no one|said|says|begins (anew|again)|so much for|"
    r"(?<!, )got(?= (a|an|it|the|no)\b)|"
    r"twins?|sayings|surroundings|fooled|the former|trouble)\b",
    re.IGNORECASE,
)
"""Private words for standard ones."""
HABITS = {
    "inversion": re.compile(
        r"(^|[.:;!?] |\"\"\")(Of (no|all|every|each|these|those|such|several|many|what|whom)\b"
        r"(?! (other|results))|(From|To|By|In|With|At) (what|whom)\b)"
    ),
    "hidden actor": re.compile(
        r"\b(is|are|was|were|be|been|being) (told|heard|looked at|said|spoken of|brought)\b"
        r"(?! (apart|together|back))"
    ),
    "a pronoun for a noun": re.compile(
        r"\b(whenever|as|than|how sure|how much) one "
        r"(looks?|wants?|knows?|sees|asks|can|may|must|would|could|should|does)\b|"
        r"(?<!users )(?<!person )(?<!anyone )(?<!everyone )(?<!caller )(?<!authors )(?<!state )"
        r"(?<!about )(?<!Moulines, )\bwho\b(?! :)|\bwhom\b",
        re.IGNORECASE,
    ),
}
FIRST = re.compile(
    r"^(What|Who|Whose|Whoever|Of|Made|(Return|Yield|Give|Do|Say|Tell|Judge) what)\b"
)
"""Openings of a docstring that name nothing."""
REPLICAS = re.compile(r"\b(heard?|look(ed|s)? at|from|to|of|than) the others\b")
"""In the service, other replicas are named."""
MEANT = {
    ("serve/dashboard/static/dashboard.css", ".said"),
    ("experiments/report/html.py", ".said"),
    ("cli/paper.py", "by whom"),
    ("demo/worlds.py", "trouble : bool"),
    ("campaign/campaign.py", "say : callable"),
    ("docs/service/api.md", "Told"),
    ("policies/discounted_ucb.py", "who simulate xi"),
}
"""Names in code, and where a word is meant literally: the end of a path, and part of the line."""
LONGEST_SENTENCE = 25
CHANGELOGS = {"CHANGELOG.md", "changelog.md"}
"""Sentences of earlier versions stay as they were released."""


def prose(path):
    """Return numbered lines of text: of Python, comments and strings that have a blank."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return list(enumerate(without_code(text).split("\n"), 1))
    if path.suffix != ".py":
        words = (re.sub(r"^.*?(//|/\*)|^(?!.*(//|/\*)).*", "", line) for line in text.splitlines())
        return list(enumerate(words, 1))
    found = []
    for number, literal in comments_and_strings(text):
        if literal.startswith("#"):
            found.append((number, literal))
        elif " " in literal:
            lines = without_values(literal).splitlines()
            found += [(number + n, line) for n, line in enumerate(lines)]
    return found


def comments_and_strings(text):
    """Yield comments and literals with their lines; an f-string is one, as before Python 3.12."""
    source, open_strings = text.splitlines(keepends=True), []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            open_strings.append(token.start)
        elif kind == "FSTRING_END":
            (first, column), (last, end) = open_strings.pop(), token.end
            if not open_strings:
                lines = source[first - 1 : last]
                lines[-1] = lines[-1][:end]
                yield first, "".join(lines)[column:]
        elif kind in ("COMMENT", "STRING") and not open_strings:
            yield token.start[0], token.string


def without_code(text):
    """Return Markdown with fences emptied, and spans and addresses replaced by an x."""
    text = re.sub(r"^ *```.*?^ *```", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", lambda m: "x" + "\n" * m[0].count("\n"), text)


def without_values(literal):
    """Return a literal without the values of an f-string, examples, code spans and SQL."""
    if re.match(r"[rR]?[fF]", literal):
        literal = re.sub(r"\{[^{}]*(\{[^{}]*\}[^{}]*)*\}", "x", literal)
    lines = []
    for line in literal.split("\n"):
        code = re.match(
            r"\s*(>>>|\.\.\.)|.*\b(told|held|who|say|said)(, \w+)* : |.*\w\(.*told=", line
        )
        columns = re.search(r"\btold, lost\b|\btold = |\b(SELECT|INSERT|UPDATE)\b", line)
        lines.append("" if code or columns else re.sub(r"`[^`]*`", "x", line))
    return "\n".join(lines)


def paragraphs(lines):
    """Return numbered lines joined while they follow each other, so that no line break hides."""
    found, last = [], None
    for number, line in lines:
        text = re.sub(r"^\s*#+ ?", "", line).strip()
        if text and last == number - 1:
            found[-1] = (found[-1][0], f"{found[-1][1]} {text}")
        else:
            found.append((number, text))
        last = number if text else None
    return found


def meant(path, line):
    """Return whether a word is meant literally there."""
    return any(str(path).endswith(end) and part in line for end, part in MEANT)


@pytest.mark.parametrize(
    "path",
    # What older versions of the changelog called a thing stays.
    [path for path in (*PAGES, *CODE) if path.name not in ("CHANGELOG.md", "CODE_OF_CONDUCT.md")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_text_has_plain_words(path):
    patterns = [WORDS, *HABITS.values()]
    if "serve" in path.parts or "service" in path.parts:
        patterns.append(REPLICAS)
    found = [
        f"{number}: {match[0]} in {text[:200]}"
        for number, text in paragraphs(prose(path))
        for pattern in patterns
        if (match := pattern.search(text)) and not meant(path, text)
    ]
    assert found == []


def openings(text):
    """Return the first line of every docstring, those of attributes and constants included."""
    return [
        f"{node.lineno}: {node.value.value.strip().splitlines()[0]}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and node.value.value.strip()
    ]


def test_docstrings_open_with_a_noun_or_an_imperative():
    found = []
    for path in CODE:
        if path.suffix == ".py":
            lines = openings(path.read_text(encoding="utf-8"))
            found += [f"{path.name}:{x}" for x in lines if FIRST.match(x.partition(": ")[2])]
    assert found == []


def sentences(markdown):
    """Return the sentences of a page: of paragraphs, items of lists and cells of tables."""
    found, paragraph = [], []

    def end():
        text = re.sub(r"([.:])\*\* ", r"\1 ", " ".join(paragraph))
        paragraph.clear()
        text = re.sub(r"<[^>]*>|!?\[([^\]]*)x", r"\1", re.sub(r"\$[^$]*\$", "x", text))
        found.extend(re.split(r"(?<=[.!?:;])[\"”)]?\s+(?=[A-Z(*\"x0-9])", text))

    fenced = False
    for line in without_code(re.sub(r"<!--.*?-->", "", markdown, flags=re.S)).split("\n"):
        text = line.strip()
        fenced ^= text == "$$"
        if not text or fenced or text.startswith(("|", "#", "<", ":::", "!!!", "$$", "---")):
            end()
            for cell in text.strip("|").split("|") if text.startswith("|") else ():
                paragraph.append(cell.strip())
                end()
            continue
        if item := re.match(r"([-*]|\d+\.) +", text):
            end()
            text = text[item.end() :]
        paragraph.append(text)
    end()
    return found


def too_many_words(text):
    """Return whether a sentence has more words than a reader keeps in mind."""
    return sum(bool(re.search(r"\w", word)) for word in text.split()) > LONGEST_SENTENCE


@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if path.name not in {*CHANGELOGS, *GENERATED}],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_sentences_of_a_page_are_short(path):
    found = filter(too_many_words, sentences(path.read_text(encoding="utf-8")))
    assert list(found) == []


def test_sentences_of_help_and_problems_are_short():
    texts = [part for kind in KINDS.values() for part in (kind.title, kind.advice)]
    helps = json.loads((ROOT / "tests/golden/help.json").read_text(encoding="utf-8"))
    frame = re.compile(r"[│╭╰─╮╯]")
    for lines in helps.values():
        # The text of a command, without the boxes of its options.
        texts += re.split(r"(?<=[.:]) +", " ".join(x for x in lines if not frame.search(x)))
    assert len(texts) > 150
    assert [text for text in texts if too_many_words(text)] == []


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
    [path for path in PAGES if path.name not in GENERATED],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_lines_of_a_page_are_short(path):
    assert too_long(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    ["It begins Anew.", "nobody knows", "The state is heard of.", "A file says so.", "a told loss",
     "the former arm", "He got the arm.", "What it brought.", "Negative where one is not sure.",
     "How sure it is.", "No one knows it.", "It stands beside it."],
)  # fmt: skip
def test_a_private_word_would_be_found(text):
    assert WORDS.search(text)


@pytest.mark.parametrize(
    ("habit", "text"),
    [
        ("inversion", "Of no pair one is sure."),
        ("inversion", "It is kept. From what is left, an arm is drawn."),
        ("hidden actor", "Feedback is told late."),
        ("hidden actor", "The others are looked at."),
        ("a pronoun for a noun", "It is valid whenever one looks."),
        ("a pronoun for a noun", "For callers, or who asks."),
        ("a pronoun for a noun", "For whom it is."),
    ],
)
def test_a_habit_would_be_found(habit, text):
    assert HABITS[habit].search(text)


@pytest.mark.parametrize("line", ["What it is.", "Who asks.", "Return what is kept.", "Made."])
def test_a_docstring_without_a_subject_would_be_found(line):
    assert FIRST.match(openings(f'def f():\n    """{line}"""\n')[0].partition(": ")[2])


@pytest.mark.parametrize(
    "text",
    ["renew a folder; proof older", "They are told apart.", "besides", "got 'x'", "hold together",
     "users who do not know", "Of the two, one is larger: of all results, the least.",
     "one may be larger than one"],
)  # fmt: skip
def test_plain_words_pass(text):
    assert not WORDS.search(text)
    assert not any(pattern.search(text) for pattern in HABITS.values())


def test_what_is_read_is_prose(tmp_path):
    assert len(CODE) > 350
    path = tmp_path / "code.py"
    path.write_text('nobody = 1  # a comment\ntext = f"a {nobody} text"\nkey = "told"\n')
    assert prose(path) == [(1, "# a comment"), (2, 'f"a x text"')]
    page = tmp_path / "page.md"
    page.write_text("A `told`.\n```python\ntold\n```\nB\n")
    assert "told" not in " ".join(line for _, line in prose(page))
    assert prose(page)[4] == (5, "B")
    style = tmp_path / "style.js"
    style.write_text("const say = 1; // a comment\nsay(2);\n")
    assert prose(style) == [(1, " a comment"), (2, "")]


def test_a_line_break_hides_nothing():
    lines = [(1, "# valid whenever"), (2, "# one looks"), (4, "# whenever"), (6, "# one looks")]
    found = paragraphs(lines)
    assert [number for number, _ in found] == [1, 4, 6]
    assert [bool(HABITS["a pronoun for a noun"].search(x)) for _, x in found] == [1, 0, 0]


def test_what_is_long_would_be_found():
    long = "word " * 21
    assert too_long(long) == [long] and too_long(f"```\n{long}\n```") == []
    assert too_long(f"| {long} |") == []
    text = sentences(f"One. Word {long}\nword word word word word.\n\n| {long} word | a |\n")
    assert [too_many_words(each) for each in text if each] == [False, True, False, False]
    assert too_many_words("word " * 26) and not too_many_words("word " * 25)
