"""Every example runs as a user would run it and writes what its docstring promises."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bothworlds

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
OURS = {"bothworlds", "litellm", "matplotlib", "numpy", "openfeature"}
"""What examples may import besides the standard library."""
PNG = b"\x89PNG\r\n\x1a\n"


def promised(example):
    """Return the pictures named in an example's docstring."""
    docstring = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    return sorted(set(re.findall(r"[\w-]+\.png", docstring)))


def run(example, *arguments, cwd):
    # In its own folder, so that nothing can be written beside the sources unnoticed.
    return subprocess.run(
        [sys.executable, example, *map(str, arguments)],
        capture_output=True, text=True, check=False, cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip


def test_there_are_examples():
    stems = {example.stem for example in EXAMPLES}
    assert stems >= {
        "sor_relaxation", "backend_latency", "model_routing", "headline_fraud",
        "operator_selection", "own_algorithm",
    }  # fmt: skip


@pytest.mark.processes
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_keeps_its_promises(example, tmp_path):
    pictures = promised(example)
    done = run(example, "made/here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert pictures or done.stdout, f"{example.name} promises no picture and prints no table"
    assert done.stderr == ""
    assert "nan" not in done.stdout.lower().split()
    made = (tmp_path / "made" / "here").iterdir()
    written = {path.name: path.read_bytes() for path in made if path.is_file()}
    assert set(pictures) <= written.keys()
    for name in pictures:
        assert written[name].startswith(PNG)
        assert len(written[name]) > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_stays_short_and_needs_little(example):
    source = example.read_text(encoding="utf-8")
    assert source.count("\n") <= 130
    roots = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").partition(".")[0])
    assert roots <= {*sys.stdlib_module_names, *OURS}


# --- notebooks --------------------------------------------------------------------------------

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


def cells_of(notebook):
    """Return the sources of a notebook's code cells."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]


def shown(source, namespace):
    """Run a cell as a notebook does and return the value of its last line, if that has one."""
    *before, last = ast.parse(source).body
    exec(compile(ast.Module(before, []), "<cell>", "exec"), namespace)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    exec(compile(ast.Module([last], []), "<cell>", "exec"), namespace)
    return None


FIGURES = {"four_policies": 4, "paper_figure": 2}
"""How many figures each notebook shows."""


def test_a_paper_takes_less_than_forty_lines():
    (notebook,) = [path for path in NOTEBOOKS if path.stem == "paper_figure"]
    assert sum(len(source.splitlines()) for source in cells_of(notebook)) < 40


def test_there_is_a_notebook():
    assert [path.stem for path in NOTEBOOKS] == ["four_policies", "paper_figure"]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_from_top_to_bottom(notebook, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "notebook"}
    values = [shown(source, namespace) for source in cells_of(notebook)]
    figures = [value for value in values if hasattr(value, "savefig")]
    assert len(figures) == FIGURES[notebook.stem]
    for number, figure in enumerate(figures):
        figure.savefig(tmp_path / f"{number}.png")
    tables = [value for value in values if isinstance(value, bothworlds.Result)]
    assert all(value._repr_html_().startswith("<table>") for value in tables)
    assert all(figure._repr_png_().startswith(b"\x89PNG") for figure in figures)
    printed = capsys.readouterr().out
    assert "hold together" in printed
    assert r"\begin{tabular}" in printed


def test_a_cell_that_fails_would_be_found():
    with pytest.raises(ZeroDivisionError):
        shown("x = 1\n1 / 0", {})
    assert shown("x = 1\nx + 1", {}) == 2
