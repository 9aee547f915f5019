"""The README works when it is pasted, block by block, into an empty folder."""

import re
import tomllib
from pathlib import Path

import pytest

from blocks import FENCE, run_blocks, run_shell
from helpers.served import served

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
IMAGES = "https://raw.githubusercontent.com/bothworlds/bothworlds/main/"
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
SERVE = "bothworlds serve --experiment headline --arms blue,green,red\n"


@pytest.mark.processes
def test_python_blocks_run_and_print_what_the_page_promises(tmp_path):
    ran, _ = run_blocks(TEXT, "readme", tmp_path, languages=["python"])
    assert len(ran) == TEXT.count("```python") > 1
    promised = re.search(r"^# (\{.*\})$", TEXT, re.MULTILINE)[1]
    assert ran[0].printed == f"{promised}\n"
    # The first program visibly learns.
    assert max(map(float, re.findall(r"[\d.]+", promised))) > 0.9


@pytest.mark.processes
def test_shell_blocks_work_when_pasted(tmp_path):
    blocks = [found[2] for found in FENCE.finditer(TEXT) if found[1] == "sh"]
    install, serve, curl, *more = blocks
    assert install.count("pip install") == len(install.splitlines())
    assert serve == SERVE
    with served(tmp_path / "store.db", *serve.split()[2:]) as service:
        folder = tmp_path / "empty"
        folder.mkdir()
        assert "127.0.0.1:8080" in curl
        run_shell(curl.replace("8080", str(service.port)), folder)
        found = service.ask("GET", "/v1/experiments/headline").json
        assert sum(arm["told"] for arm in found["arms"]) == 1
    assert more
    for block in more:
        assert run_shell(block, folder)


@pytest.mark.processes
def test_a_block_that_fails_would_be_noticed(tmp_path):
    with pytest.raises(RuntimeError, match="No such"):
        run_shell("cat $ID.json\n", tmp_path)


def test_the_page_is_short_and_leads_with_what_people_search_for():
    lines = TEXT.splitlines()
    assert len(lines) <= 150
    first = TEXT.split("\n\n")[1].split(". ")[0]
    assert "Python" in first and "multi-armed bandits" in first
    heads = [line[3:] for line in lines if line.startswith("## ")]
    assert heads == ["Install", "For your product", "For your paper", "When not to use it",
                     "Algorithms", "Speed", "Cite"]  # fmt: skip
    assert "`make run`" in TEXT and "`make test`" in TEXT
    assert "--json" not in TEXT


def test_pictures_have_addresses_that_a_package_index_can_show():
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", TEXT)
    assert pictures
    for picture in pictures:
        assert picture.startswith(IMAGES)
        assert (ROOT / picture.removeprefix(IMAGES)).exists()


def dead_elsewhere(text):
    """Return the links that lead nowhere for a reader of the package index."""
    dead = []
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {f"#{head.lower().replace(' ', '-')}" for head in headings}
    for link in re.findall(r"(?<!!)\[[^\]]*\]\(([^)]*)\)", text):
        page = link.removeprefix(URLS["Documentation"]).rstrip("/")
        file = link.removeprefix(f"{URLS['Source']}/blob/main/")
        places = [
            *(ROOT / "docs" / each for each in (f"{page}.md", f"{page}/index.md") if page != link),
            *(ROOT / each for each in (file,) if file != link),
        ]
        if link not in anchors and not any(place.is_file() for place in places):
            dead.append(link)
    return dead


def test_links_work_on_a_package_index():
    assert dead_elsewhere(TEXT) == []
    wrong = f"[a](docs/claims.md) [b]({URLS['Documentation']}nowhere/) [c](#nowhere) [d](#install)"
    assert len(dead_elsewhere(f"## Install\n\n{wrong}")) == 3


@pytest.mark.processes
def test_blocks_share_a_namespace_and_can_fail(tmp_path):
    text = "```python\na = 1\n```\nwords\n```python\nb = a + 1\n```\n"
    ran, namespace = run_blocks(text, "readme", tmp_path)
    assert (namespace["b"], len(ran)) == (2, 2)
    with pytest.raises(ZeroDivisionError):
        run_blocks(text + "```python\nb / 0\n```\n", "readme", tmp_path)
