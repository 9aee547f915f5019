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
