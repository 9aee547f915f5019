"""State files recorded earlier load, and go on as they did when they were saved."""

import json
from pathlib import Path

import pytest

from recorded.state_files import loaded

RECORDED = Path(__file__).parents[1] / "recorded" / "version_2"
FILES = sorted(
    (path for path in RECORDED.glob("*.json") if path.stem != "expected"), key=lambda p: p.stem
)
EXPECTED = json.loads((RECORDED / "expected.json").read_text(encoding="utf-8"))


def test_every_recorded_file_is_expected():
    assert sorted(EXPECTED) == [path.stem for path in FILES]
    assert len(EXPECTED) > 50


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_goes_on_as_recorded(path):
    expected, found = dict(EXPECTED[path.stem]), loaded(path)
    assert sorted(found) == sorted(expected)
    for name in ("probabilities", "afterwards"):
        if name in expected:
            assert found.pop(name) == pytest.approx(expected.pop(name), rel=1e-9, abs=1e-15)
    if "history" in expected:
        ours, theirs = found.pop("history"), expected.pop("history")
        assert {name: tuple(arm) for name, arm in ours.items()} == {
            name: tuple(arm) for name, arm in theirs.items()
        }
    assert found == expected
