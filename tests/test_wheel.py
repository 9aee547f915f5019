"""Wheel that a user installs alone, with NumPy and Numba and nothing else."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from bothworlds.errors import missing_extra

pytestmark = pytest.mark.extra

ROOT = Path(__file__).parent.parent
CORE = ("llvmlite", "llvmlite.libs", "numba", "numpy", "numpy.libs")


def run(*command):
    # Nothing of this environment may leak into the new one.
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, env=clean
    )


def built(folder):
    """Build the wheel from a copy of the sources, as they are packaged."""
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    done = run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source)
    assert done.returncode == 0, done.stderr
    [wheel] = folder.glob("*.whl")
    return wheel


def bare_environment(folder, wheel):
    """Return the Python of an environment with the wheel and its two requirements."""
    home = folder / "environment"
    venv.create(home, with_pip=False)
    places = {"base": str(home), "platbase": str(home)}
    scripts = Path(sysconfig.get_path("scripts", "venv", places))
    site = Path(sysconfig.get_path("purelib", "venv", places))
    for name in CORE:
        original = Path(sysconfig.get_path("purelib")) / name
        if original.exists():
            (site / name).symlink_to(original)
    python = scripts / Path(sys.executable).name
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    done = run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    return python


PROGRAM = """
import importlib.resources, sys
import bothworlds as bw

assert "source" not in bw.__file__ and "site-packages" in bw.__file__
assert importlib.resources.files("bothworlds").joinpath("py.typed").is_file()
bandit = bw.Bandit(bw.TsallisINF(), arms=["blue", "green"], seed=7)
for _ in range(300):
    decision = bandit.ask()
    bandit.tell(decision, reward=float(decision.arm == "green"))
assert bandit.probabilities()["green"] > 0.9
assert not {"typer", "rich", "matplotlib", "pyarrow"} & set(sys.modules)
try:
    import bothworlds.plotting
    with bothworlds.plotting.style():
        pass
except bw.errors.MissingExtra as error:
    print(error)
"""


@pytest.mark.processes
def test_the_wheel_works_without_extras(tmp_path):
    wheel = built(tmp_path)
    # Whatever stands among the sources is packaged: tables, pages, licences of what is not ours.
    sources = tmp_path / "source" / "src" / "bothworlds"
    files = {
        f"bothworlds/{path.relative_to(sources).as_posix()}"
        for path in sources.rglob("*")
        if path.is_file()
    }
    assert any(file.endswith(".js") for file in files) and any(f.endswith(".sql") for f in files)
    assert files <= set(zipfile.ZipFile(wheel).namelist())
    python = bare_environment(tmp_path, wheel)
    done = run(python, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(missing_extra("lab", "matplotlib"))
    for command in ((python.parent / "bothworlds",), (python, "-m", "bothworlds")):
        done = run(*command, "--help")
        assert done.returncode == 1
        assert done.stderr.strip() == str(missing_extra("lab", "typer"))
