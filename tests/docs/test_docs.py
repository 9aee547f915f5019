"""The tutorials run as they are printed, and the site's own code does what it says."""

import inspect
import re
import sys
from pathlib import Path

import pytest

import bothworlds as bw
from blocks import FENCE, run_blocks
from registered import with_registered

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

TUTORIALS = sorted(path for path in (DOCS / "tutorials").glob("*.md") if path.stem != "index")


def test_the_tutorials_are_all_here():
    listed = re.findall(r"tutorials/(\w+)\.md", (ROOT / "mkdocs.yml").read_text("utf-8"))
    assert sorted(listed) == sorted(["index", *(path.stem for path in TUTORIALS)])


@pytest.mark.processes
@pytest.mark.parametrize("path", [*TUTORIALS, DOCS / "scale.md"], ids=lambda path: path.stem)
def test_tutorial_runs(path, tmp_path):
    assert blocks_that_ran(path, tmp_path) > 3


@pytest.mark.processes
@pytest.mark.parametrize(
    "path",
    [*sorted((DOCS / "coming-from").glob("*.md")), DOCS / "how-to" / "ab_testing.md"],
    ids=lambda path: path.stem,
)
def test_example_of_a_page_runs(path, tmp_path):
    assert blocks_that_ran(path, tmp_path) > 0


def blocks_that_ran(path, folder):
    """Run all blocks of a page that can run; return their number."""
    text = path.read_text(encoding="utf-8")
    ran, _ = run_blocks(text, path.stem, folder)
    runnable = [found for found in FENCE.finditer(text) if found[1] in ("python", "sh")]
    assert len(ran) == len(runnable)
    assert any(block.printed for block in ran)
    return len(ran)


@pytest.mark.processes
def test_what_a_block_prints_draws_and_raises_is_noticed(tmp_path):
    text = (
        "```python\nprint('first')\n```\n"
        "```sh\necho second > made.txt; echo x > drawn.png\n```\n"
        "```console\n$ false\n```\n"
        "```python\nprint(open('made.txt').read())\n```\n"
    )
    ran, _ = run_blocks(text, "page", tmp_path)
    assert [block.printed.strip() for block in ran] == ["first", "", "second"]
    assert [[each.name for each in block.pictures] for block in ran] == [[], ["drawn.png"], []]
    assert "page" not in sys.modules
    with pytest.raises(ZeroDivisionError):
        run_blocks(text + "```python\n1 / 0\n```\n", "page", tmp_path)
    with pytest.raises(RuntimeError, match="ended with 3"):
        run_blocks("```sh\nexit 3\n```\n", "page", tmp_path)


def prompts(text):
    """Return lines of code with a prompt that the copy button would copy."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    # The site leaves out the prompt of a console.
    prompt = {"console": ("> ", "# ")}
    lines = (
        (line, prompt.get(kind, ("> ", "$ ")))
        for kind, code in blocks
        for line in code.splitlines()
    )
    return [line for line, starts in lines if line.startswith(starts)]


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_a_copied_block_has_no_prompt(path):
    assert prompts(path.read_text(encoding="utf-8")) == []


def test_a_prompt_would_be_found():
    text = "```console\n$ ls\n> dir\n```\n```sh\n$ ls\n# why\n```\n"
    assert prompts(text) == ["> dir", "$ ls"]


LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def dead_links(text, folder):
    """Return the relative links of a page that lead to no file."""
    outside = ("http://", "https://", "mailto:", "#")
    links = (link for link in LINK.findall(text) if not link.startswith(outside))
    return [link for link in links if not (folder / link.partition("#")[0]).exists()]


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_links_from_the_repository_lead_somewhere(path):
    assert dead_links(path.read_text(encoding="utf-8"), ROOT) == []


def test_a_dead_link_would_be_found():
    text = "[a](README.md) [b](nowhere.md#x) ![c](docs/none.png) [d](https://example.org)"
    assert dead_links(text, ROOT) == ["nowhere.md#x", "docs/none.png"]


def test_every_public_name_is_in_the_reference():
    pages = "".join(
        with_registered(path.read_text("utf-8")) for path in (DOCS / "api").glob("*.md")
    )
    documented = set(re.findall(r"^::: [\w.]*?(\w+)$", pages, re.MULTILINE))
    rooms = (bw.bounds, bw.checks, bw.environments, bw.omd, bw.policies)
    public = {
        name
        for room in (bw, *rooms)
        for name in room.__all__
        if not inspect.ismodule(getattr(room, name))
    }
    # What only those who extend the package itself meet is described where they meet it.
    assert public - documented == {"Attack", "Environment", "Policy"}


def test_pictures_are_small_and_shown():
    pages = "".join(path.read_text("utf-8") for path in [ROOT / "README.md", *DOCS.rglob("*.md")])
    pictures = sorted((DOCS / "images").iterdir())
    assert pictures
    for picture in pictures:
        assert picture.stat().st_size < 150_000
        assert f"images/{picture.name}" in pages


def test_docstrings_become_markdown():
    # Griffe, which docs/docstrings.py extends, is part of the extra docs only.
    source = (DOCS / "docstrings.py").read_text(encoding="utf-8")
    source = source.replace("import griffe\n", "").replace("griffe.Extension", "object")
    namespace = {"__name__": "docstrings"}
    exec(compile(source, "docstrings.py", "exec", dont_inherit=True), namespace)
    shown = namespace["as_markdown"](
        "Title.\n\n    ==== =====\n    name value\n    ==== =====\n    a    1 | 2\n         more\n"
        "    b    3\n    ==== =====\n\n    .. math:: x^2\n        + 1\n\n"
        "    As :math:`x` here::\n\n        code\n"
    )
    for line in ("| name | value |", "| a | 1 \\| 2 more |", "| b | 3 |", "$$x^2 + 1$$"):
        assert f"    {line}\n" in shown
    assert "As $x$ here:\n" in shown


FEWEST = {
    "a policy": 4,
    "an environment": 5,
    "a route of the service": 5,
    "a setting of an experiment": 2,
    "a metric of the service": 3,
    "a panel of the dashboard": 3,
    "an experiment": 4,
}
"""Files that a contributor edits to add something, at most; generated files do not count."""


def edited(text):
    """Return how many numbered steps each section on adding something has."""
    sections = re.findall(r"^## Adding (.*)\n\n((?:.|\n)*?)(?=\n## |\Z)", text, re.MULTILINE)
    return {name: len(re.findall(r"^\d+\. ", steps, re.MULTILINE)) for name, steps in sections}


def test_adding_something_takes_few_files():
    found = edited((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert {name: found.get(name, 99) <= most for name, most in FEWEST.items()} == dict.fromkeys(
        FEWEST, True
    )
    assert edited("## Adding a toy\n\n1. `a`\n   b\n2. `c`\n\n## Next\n") == {"a toy": 2}
