"""The site is built from the pages, with outputs, formulas, Markdown and a list for machines."""

import re

import pytest

import make_site


def test_a_formula_becomes_mathml():
    text = '<p>at <span class="arithmatex">\\(x &lt; 1/2\\)</span></p>'
    assert re.fullmatch(
        r"<p>at <math.*<mo>&#x0003C;</mo>.*</math></p>", make_site.with_mathml(text)
    )
    block = '<div class="arithmatex">\\[x\\]</div>'
    assert make_site.with_mathml(block).startswith('<div class="formula"><math')
    assert make_site.with_mathml("<code>\\(x\\)</code>") == "<code>\\(x\\)</code>"


@pytest.mark.processes
def test_outputs_and_pictures_stand_below_their_block(tmp_path):
    page = tmp_path / "page.md"
    text = "A\n```sh\necho hello; echo x > drawn.png\n```\nB\n"
    shown = make_site.with_outputs(text, page)
    assert shown.index("echo hello") < shown.index("\nhello\n") < shown.index("page-drawn.png")
    assert shown.endswith("B\n") and (tmp_path / "page-drawn.png").read_text() == "x\n"


def test_every_page_is_listed_with_its_group():
    nav = [{"Home": "index.md"}, {"How to": ["how-to/index.md", {"Shell": "how-to/shell.md"}]}]
    assert make_site.listed(nav) == [
        ("Home", "index.md"),
        ("How to", None),
        ("Overview", "how-to/index.md"),
        ("Shell", "how-to/shell.md"),
    ]
