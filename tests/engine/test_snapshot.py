"""No snapshot, however crafted, makes compiled code crash or hang: refused, or played on."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.waiting import HANG

SCRIPT = Path(__file__).with_name("crafted_snapshots.py")
FEW = ["rv", "alpha 0.7", "exp3++", "broad", "ucb1", "kl-ucb", "thompson", "duels"]
MODES = ["exp3", "exp3++", "broad", "alpha 0.3", "alpha 0.7"]
LEADING = [f"{name}, leading" for name in MODES]
WORLDS = ["corrupted", "betray", "level"]
MANY = ["many arms", "many arms, iw"]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("names", "words"),
    [(FEW, 150), (LEADING, 250), (WORLDS, 150), (MANY, 1000)],
    ids=["few", "leading", "worlds", "many"],
)
def test_crafted_snapshots_are_refused_or_played_on(names, words):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(SCRIPT), str(words), *names],
        capture_output=True, text=True, timeout=3 * HANG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [name for name, *_ in lines] == names
    for _, refused, played in lines:
        assert int(refused) > words // 4
        assert int(played) > words // 4
