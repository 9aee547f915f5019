"""Failing disk: whichever file operation fails, nothing acknowledged is lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.folders import in_memory

HERE = Path(__file__).parent
SECONDS = 900
"""Longest run: about 900 failures, each followed by a check of the whole store."""
pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def failing_disk(tmp_path):
    """Return a library, compiled now, that lets file operations fail."""
    compiler = shutil.which("cc")
    assert compiler is not None, "The test of a failing disk needs a C compiler, such as gcc."
    library = tmp_path / "failing_disk.so"
    source = HERE / "failing_disk.c"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True
    )
    return library


def test_nothing_is_lost_whichever_file_operation_fails(failing_disk):
    # The library decides what fails, whatever the disk.
    with in_memory() as folder:
        ended = subprocess.run(
            [sys.executable, str(HERE / "failing_disk.py"), str(Path(folder) / "store.db")],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "LD_PRELOAD": str(failing_disk)},
        )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    # Opening locks, opens and reads the file; every commit writes and syncs.
    assert report["opening"] >= 10 and report["writing"] >= 2 * 20
    assert report["stored"] > report["writing"]
    # The service did not start, answered 503, and learned what was sent again.
    assert min(report[each] for each in ("not opened", "store_unavailable", "refused")) > 0
    assert min(report[each] for each in ("learned", "duplicate", "quarantined")) > 0
    assert len(report["commands"]) == 5 and min(report["commands"].values()) > 0
