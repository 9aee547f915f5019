"""Markers of the tests: every test that starts a process or judges a sample says so."""

import ast
import functools
from pathlib import Path

import pytest

from helpers.parsing import parsed

TESTS = Path(__file__).parent
PLACES = (TESTS, TESTS.parent / "docs")
"""Folders whose modules tests import by name."""
SIGNS = {
    "processes": {
        "subprocess",
        "multiprocessing",
        "Popen",
        "ProcessPoolExecutor",
        "LocalCluster",
        "clusters",
        "fork",
        "posix_spawn",
    },
    "statistical": {"kstest", "chisquare", "sem", "stays_below", "ends_above"},
}
"""Names that give a test away, used by itself or by what it calls."""


@functools.cache
def mentioned(node):
    """Names in a piece of code, parameters included: a test asks for its fixtures by them."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Attribute):
            found.add(each.attr)
        elif isinstance(each, ast.arg):
            found.add(each.arg)
    return found


@functools.cache
def definitions(path):
    """Map what a module defines to its code, and what it imports from our own to the module."""
    own, foreign = {}, {}
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own[node.name] = node
        elif isinstance(node, ast.Assign):
            own.update({t.id: node.value for t in node.targets if isinstance(t, ast.Name)})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for folder in PLACES:
                file = folder.joinpath(*node.module.split(".")).with_suffix(".py")
                if file.is_file():
                    foreign.update({alias.asname or alias.name: file for alias in node.names})
    return own, foreign


def reaches(path, name, signs, seen=None):
    """Whether a definition uses one of the names, itself or through others of our own."""
    seen = set() if seen is None else seen
    own, foreign = definitions(path)
    if (path, name) in seen:
        return False
    seen.add((path, name))
    if name in foreign:
        return name in signs or reaches(foreign[name], name, signs, seen)
    if name not in own:
        return False
    used = mentioned(own[name])
    return bool(used & signs) or any(reaches(path, each, signs, seen) for each in sorted(used))


def marks(path, test):
    """Markers of a test, its own and those of its module."""
    own, _ = definitions(path)
    nodes = [*test.decorator_list, *([own["pytestmark"]] if "pytestmark" in own else [])]
    return set().union(*map(mentioned, nodes)) if nodes else set()


def unmarked(path):
    """Tests of a file that lack a marker, with the marker."""
    own, _ = definitions(path)
    return [
        (name, marker)
        for name, node in own.items()
        if name.startswith("test_") and isinstance(node, ast.FunctionDef)
        for marker, signs in SIGNS.items()
        if marker not in marks(path, node) and reaches(path, name, signs)
    ]


FILES = sorted(TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("path", FILES, ids=[str(f.relative_to(TESTS)) for f in FILES])
def test_every_test_is_marked(path):
    assert unmarked(path) == []


def test_a_missing_marker_is_found(tmp_path):
    source = """
import subprocess
import pytest
from helpers.means import stays_below as below, stays_below
pytestmark = pytest.mark.other
COMMAND = [1]
def call():
    return subprocess.run(COMMAND)
@pytest.fixture
def started():
    yield call()
def test_directly():
    call()
def test_by_a_fixture(started):
    pass
@pytest.mark.processes
def test_that_says_so():
    call()
def test_that_does_not(tmp_path):
    pass
def test_of_a_mean():
    assert stays_below(1)
"""
    path = tmp_path / "test_it.py"
    path.write_text(source)
    assert unmarked(path) == [
        ("test_directly", "processes"),
        ("test_by_a_fixture", "processes"),
        ("test_of_a_mean", "statistical"),
    ]
