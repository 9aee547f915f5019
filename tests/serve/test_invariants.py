"""Page of the invariants: the tests it names exist."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "service" / "invariants.md"


def test_every_invariant_names_tests_that_exist():
    rows = re.findall(r"^\| (I\d+) \|(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, _ in rows] == [f"I{number}" for number in range(1, 14)]
    sources = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    defined = set(re.findall(r"def (\w+)\(", sources))
    for name, cells in rows:
        named = re.findall(r"`(\w+)`", cells.split("|")[2])
        assert named, name
        assert set(named) <= defined, name


def test_every_test_of_a_defect_exists():
    page = PAGE.with_name("reliability.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    sources = "".join(path.read_text("utf-8") for path in HERE.parent.rglob("test_*.py"))
    assert len(named) > 30
    assert named <= set(re.findall(r"def (\w+)\(", sources))
