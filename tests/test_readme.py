"""The README's Python blocks run as they are printed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_blocks(text):
    """Execute the blocks in order in one namespace and return it with their number."""
    namespace = {"__name__": "readme"}
    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        # Blank lines in front let a traceback point at the README's own line.
        above = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(above + block[1], str(README), "exec"), namespace)
    return namespace, len(blocks)


def test_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    _, count = run_blocks(text)
    assert count == text.count("```python") > 0


def test_blocks_share_a_namespace_and_can_fail():
    text = "```python\na = 1\n```\nwords\n```python\nb = a + 1\n```\n"
    namespace, count = run_blocks(text)
    assert (namespace["b"], count) == (2, 2)
    with pytest.raises(ZeroDivisionError):
        run_blocks(text + "```python\nb / 0\n```\n")
