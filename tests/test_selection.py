"""Selection of tests: what ``pytest --core`` leaves out, and which floors are installed."""

import ast
import functools
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


def loaded(path):
    """The module at a path of the repository, which no package contains."""
    spec = importlib.util.spec_from_file_location(path.stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CORE = loaded(Path("conftest.py"))
MINIMUMS = loaded(Path(".ci/minimums.py"))


def left_out(path, core=True):
    return CORE.pytest_ignore_collect(ROOT / path, SimpleNamespace(getoption=lambda name: core))


def test_what_needs_an_extra_exists():
    assert [path for path in CORE.NEED_AN_EXTRA if not (ROOT / path).exists()] == []


def test_a_folder_is_left_out_and_its_neighbours_are_not():
    assert left_out("tests/cli")
    assert left_out("tests/cli/test_cli.py")
    assert left_out("tests/omd/test_half.py")
    for kept in ("tests/client/test_client.py", "src/bothworlds/client", "tests/omd", "tests"):
        assert left_out(kept) is None
    assert left_out("tests/cli", core=False) is None


def imported(source):
    """Modules that a module needs as soon as it is imported itself."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            # What is taken from a package may be a module.
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@functools.cache
def modules_of(path):
    """The modules that a file needs."""
    return imported(path.read_text(encoding="utf-8"))


@functools.cache
def files_of(module):
    """The files of this repository that are loaded with a module."""
    parts = module.split(".")
    places = [
        ROOT.joinpath(folder, *parts[:end])
        for folder in ("src", "", "tests", "docs")
        for end in range(1, len(parts) + 1)
    ]
    files = [p for place in places for p in (place / "__init__.py", place.with_suffix(".py"))]
    return [p for p in files if p.exists()]


def reached(path):
    """All files that are loaded with a file, itself among them."""
    found, waiting = set(), [path]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            for module in modules_of(each):
                waiting += files_of(module)
    return found


def test_what_is_kept_imports_nothing_of_an_extra():
    core = {"bothworlds", "hypothesis", "llvmlite", "numba", "numpy", "pytest"}
    core |= set(sys.stdlib_module_names)
    needed = {}
    for folder in ("src", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            if not left_out(path):
                modules = {
                    module
                    for file in reached(path)
                    for module in modules_of(file)
                    if not files_of(module)
                }
                names = {module.partition(".")[0] for module in modules} - core
                if names:
                    needed[path.relative_to(ROOT).as_posix()] = names
    assert needed == {}
    assert imported("import pandas.api\nfrom PIL import Image\nif 1:\n    import late") == {
        "pandas.api",
        "PIL",
        "PIL.Image",
    }
    histories = reached(ROOT / "tests/helpers/histories.py")
    assert ROOT / "src/bothworlds/serve/domain/service.py" in histories


PROJECT = {
    "name": "us",
    "dependencies": ["one>=1"],
    "optional-dependencies": {
        "inner": ["two[fast,binary]>=2.5", "one>=1"],
        "outer": ["us[inner]", "three>=3; sys_platform != 'win32'"],
        "dev": ["us[outer]", "four-five>=4.0.1"],
        "idle": ["never"],
    },
}


def test_the_floors_are_those_of_every_extra_that_tests_need():
    expected = {"one": "1", "two": "2.5", "three": "3", "four-five": "4.0.1"}
    assert MINIMUMS.floors(PROJECT) == expected


@pytest.mark.parametrize(
    ("line", "sentence"), [("one", "must state its lowest"), ("two>=2.6", "must have one floor")]
)
def test_floors_that_say_nothing_or_two_things_are_refused(line, sentence):
    extras = {**PROJECT["optional-dependencies"], "inner": ["two>=2.5", line]}
    with pytest.raises(SystemExit, match=sentence):
        MINIMUMS.floors({**PROJECT, "optional-dependencies": extras})
