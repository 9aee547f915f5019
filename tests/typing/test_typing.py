"""Types at the edge: a user's program passes ``mypy --strict``, and mistakes do not."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def errors_in(path):
    """Return the lines of a file in which mypy finds an error."""
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", str(path)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode in (0, 1), run.stderr
    found = re.findall(rf"^.*{path.name}:(\d+): error: ", run.stdout, re.M)
    return sorted({int(number) for number in found})


@pytest.mark.processes
def test_a_users_program_has_no_type_error():
    assert errors_in(HERE / "user_code.py") == []


@pytest.mark.processes
def test_every_mistake_is_found_and_nothing_else():
    path = HERE / "wrong_code.py"
    lines = path.read_text(encoding="utf-8").splitlines()
    marked = [number for number, line in enumerate(lines, 1) if line.endswith("# wrong")]
    assert errors_in(path) == marked
    assert len(marked) > 5


@pytest.mark.slow
def test_the_users_program_runs(capsys):
    runpy.run_path(str(HERE / "user_code.py"), run_name="__main__")
    assert "swap" in capsys.readouterr().out
