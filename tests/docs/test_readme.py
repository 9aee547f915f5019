"""The README's Python blocks run as they are printed."""

from pathlib import Path

import pytest

from blocks import run_blocks

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.processes
def test_readme_runs(tmp_path):
    text = README.read_text(encoding="utf-8")
    ran, _ = run_blocks(text, "readme", tmp_path, languages=["python"])
    assert len(ran) == text.count("```python") > 1


@pytest.mark.processes
def test_blocks_share_a_namespace_and_can_fail(tmp_path):
    text = "```python\na = 1\n```\nwords\n```python\nb = a + 1\n```\n"
    ran, namespace = run_blocks(text, "readme", tmp_path)
    assert (namespace["b"], len(ran)) == (2, 2)
    with pytest.raises(ZeroDivisionError):
        run_blocks(text + "```python\nb / 0\n```\n", "readme", tmp_path)
