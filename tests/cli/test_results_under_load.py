"""`bothworlds results show` ends in good order on a busy machine, however often it is called."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import bothworlds as bw

CALLS = 20
AT_ONCE = 6
"""Three times as many as a small machine has cores: each is interrupted wherever it is."""


@pytest.mark.processes
def test_showing_a_store_never_aborts(tmp_path):
    """Arrow's threads once released Python's memory while the interpreter was ending."""
    world = bw.environments.Stochastic.gap(3, 0.25)
    both = [bw.TsallisINF(), bw.UCB1()]
    for repetitions in (16, 32, 48):
        bw.simulate(
            both, world, horizon=100, repetitions=repetitions, store=tmp_path, progress=False
        )
    command = [sys.executable, "-m", "bothworlds", "results", "show", "UCB1()"]
    command += ["--store", str(tmp_path)]

    def show(call):
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(AT_ONCE) as several:
        ends = list(several.map(show, range(CALLS)))
    assert ends == [(0, "")] * CALLS
