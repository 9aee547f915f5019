"""Failpoints: killed before and after every statement, the service loses and doubles nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from serve.conftest import BOTH

DRIVER = Path(__file__).with_name("failpoints.py")
SECONDS = 600
"""Longest run: about 170 kills, each followed by a check of the whole store."""
pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(params=BOTH)
def dialect(request):
    return request.param


def killed(*arguments):
    return subprocess.run(
        [sys.executable, str(DRIVER), *arguments], capture_output=True, text=True, timeout=SECONDS
    )


def test_nothing_is_lost_or_doubled_by_a_kill_at_any_statement(where):
    ended = killed(where())
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    # Every transaction has three statements at least; the script has more than twenty.
    assert report["points"] >= 2 * 3 * 20
    assert report["stored"] > report["points"]
    # Feedback that was committed and not acknowledged, and feedback that was not committed.
    assert report["duplicate"] > 0 and report["learned"] > 0 and report["quarantined"] > 0


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_kills_find_a_state_that_is_written_apart_from_its_feedback(where):
    ended = killed(where(), "split")
    assert ended.returncode == 1
    assert "campaign.check()" in ended.stderr
