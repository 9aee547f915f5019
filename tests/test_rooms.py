"""The rooms of the package import each other one way only, as docs/design.md has it."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bothworlds

PACKAGE = Path(bothworlds.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"


def room_of(module):
    """Return the room a module of the package belongs to."""
    return module.split(".")[1] if "." in module else ""


def table():
    """Return the table of rooms in docs/design.md: what each may import."""
    text, after = DESIGN.read_text(encoding="utf-8").split("| Room |", 1)[1].split("\n\n", 1)
    shelf = set(re.findall(r"`(\w+)`", re.match(r"Every other room may import (.*?)\.", after)[1]))
    rows = {}
    for line in text.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        allowed = set(re.findall(r"`(\w+)/?`", cells[2]))
        for room in re.findall(r"`(\w+)/?`", cells[0]):
            rows[room] = allowed if room in {"errors", "sources", *shelf} else allowed | shelf
    return rows


@functools.cache
def imports(source):
    """Return the modules of this package that a source imports."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [n.name for n in node.names if n.name.split(".")[0] == "bothworlds"]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "bothworlds":
                found += [f"bothworlds.{name.name}" for name in node.names]
            elif node.module.startswith("bothworlds."):
                found.append(node.module)
    return found


def wrong(room, source, rows):
    """Return the imports of a source that its room is not allowed."""
    named = {room_of(module) for module in imports(source)}
    return sorted(named - {"", "__version__", room} - rows[room])


ROOMS = sorted(
    {p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    | {p.stem for p in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
)  # fmt: skip


def test_the_table_has_every_room_and_no_other():
    assert sorted(table()) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_the_table_allows(room):
    rows = table()
    place = PACKAGE / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    found = {
        path.relative_to(PACKAGE).as_posix(): wrong(room, path.read_text(encoding="utf-8"), rows)
        for path in files
    }
    assert {path: rooms for path, rooms in found.items() if rooms} == {}


def test_no_two_rooms_import_each_other():
    rows = table()

    def reached(room):
        found, new = set(), {room}
        while new:
            new = set().union(*(rows[each] for each in new)) - found
            found |= new
        return found

    assert [room for room in ROOMS if room in reached(room)] == []


def test_a_wrong_import_would_be_found():
    rows = table()
    source = "def f():\n    from bothworlds.cli import app\n    from bothworlds import bandit\n"
    assert wrong("omd", source, rows) == ["bandit", "cli"]


LOADED = """
import sys, importlib
importlib.import_module(sys.argv[1])
print(*sorted(name for name in sys.modules if name.startswith("bothworlds")))
"""


def loaded_by(module):
    """Return the modules of this package that importing one loads."""
    run = subprocess.run(
        [sys.executable, "-c", LOADED, module], capture_output=True, text=True, check=True
    )
    return run.stdout.split()


@pytest.mark.processes
def test_the_engine_loads_no_bandit_and_nothing_of_checks():
    found = loaded_by("bothworlds.engine.tile")
    assert "bothworlds.policies.base" in found
    rooms = {room_of(name) for name in found}
    assert not rooms & {"bandit", "checks", "campaign", "simulation", "interop", "cli"}


def test_production_code_imports_nothing_from_checks():
    users = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(room_of(m) == "checks" for m in imports(path.read_text(encoding="utf-8")))
    ]
    assert {path.split("/")[0] for path in users} <= {"checks", "__init__.py"}


# --- modules ------------------------------------------------------------------------------------


def modules():
    """Return the sources of the package, by the names of the modules."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


def imported(source, known):
    """Return the modules that a source imports when it runs, also inside functions.

    An import for type checkers alone is never run, and they are made for cycles.
    """
    tree = ast.parse(source)
    never = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in never:
            continue
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for name in node.names:
                inside = f"{node.module}.{name.name}"
                found.add(inside if inside in known else node.module)
    return found & set(known)


def cycles(sources):
    """Return the modules that import themselves through others, each with what it imports there."""
    graph = {name: imported(source, sources) - {name} for name, source in sources.items()}
    shrinking = True
    while shrinking:
        # A module that imports none of those left, or that none of them imports, is in no cycle.
        wanted = set().union(*graph.values()) if graph else set()
        left = {name: set(uses) & set(graph) for name, uses in graph.items() if name in wanted}
        left = {name: uses & set(left) for name, uses in left.items() if uses & set(left)}
        shrinking = left != graph
        graph = left
    return {name: sorted(uses) for name, uses in sorted(graph.items())}


def test_no_module_imports_itself_through_others_not_even_inside_functions():
    assert cycles(modules()) == {}


def test_a_cycle_inside_functions_would_be_found():
    sources = {
        "bothworlds.a": "def f():\n    from bothworlds.b import g",
        "bothworlds.b": "from bothworlds import c",
        "bothworlds.c": "import bothworlds.a",
        "bothworlds.d": "if TYPE_CHECKING:\n    import bothworlds.e\nimport bothworlds.a",
        "bothworlds.e": "import bothworlds.d",
    }
    assert list(cycles(sources)) == ["bothworlds.a", "bothworlds.b", "bothworlds.c"]
    sources["bothworlds.c"] = "import bothworlds.e as e"
    assert "bothworlds.a" in cycles(sources)
    sources["bothworlds.b"] = ""
    assert cycles(sources) == {}
