"""State files of every version load, and go on as they did when they were saved."""

import json
from pathlib import Path

import pytest

from recorded.state_files import loaded

RECORDED = Path(__file__).parents[1] / "recorded"
FILES = sorted(
    path for path in RECORDED.glob("version_*/*.json") if path.stem != "expected"
)  # fmt: skip


def expected_of(path):
    return json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]


def test_every_version_has_its_files():
    for version in (1, 2):
        folder = RECORDED / f"version_{version}"
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        assert sorted(expected) == sorted(p.stem for p in FILES if p.parent == folder)
        assert len(expected) > 50


# Version 1 kept the order of many arms in their buckets, on which it depends which of them a given
# random number draws; their probabilities do not depend on it.
REORDERED = {"rv_K600", "iw_K600", "constant_rate_K600"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_goes_on_as_recorded(path):
    expected, found = expected_of(path), loaded(path)
    assert sorted(found) == sorted(expected)
    if path.parent.name == "version_1" and path.stem in REORDERED:
        del found["afterwards"], expected["afterwards"]
    for name in ("probabilities", "afterwards"):
        if name in expected:
            assert found.pop(name) == pytest.approx(expected.pop(name), rel=1e-9, abs=1e-15)
    if "history" in expected:
        ours, theirs = found.pop("history"), expected.pop("history")
        assert {name: tuple(arm) for name, arm in ours.items()} == {
            name: tuple(arm) for name, arm in theirs.items()
        }
    if path.parent.name == "version_1" and path.stem in REORDERED:
        assert len(found.pop("arms")) == len(expected.pop("arms")) == 30
    assert found == expected
