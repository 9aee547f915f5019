"""Determinism: a seed gives the recorded draws, bit for bit, for every CPU target."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recorded import record

RUNS = json.loads(record.RUNS.read_text(encoding="utf-8"))
POLICIES = ["rv", "iw", "alpha 0.7", "exp3", "exp3++", "broad", "kl-ucb", "thompson"]
CPUS = ["haswell", "generic", "x86-64"]
"""AVX2, and x86-64 without it; test_recorded compiles for the CPU of the machine."""
PROGRAM = """
import json, sys
import numpy as np
from recorded import record
found = {}
for name in sys.argv[1:]:
    policy = record.policies(8)[name]
    arms, _ = record.decide(policy, 8)
    found[f"Bandit {name} K=8"] = [record.digest(np.array(arms, np.int64)), arms[-1]]
    place = "switching"
    regret = record.simulate(policy, record.environments(8)[place], 8)
    found[f"simulate {name} {place} K=8"] = [record.digest(regret), float(regret[:, -1].mean())]
print(json.dumps(found))
"""


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("cpu", CPUS)
def test_the_draws_are_those_of_every_other_cpu(cpu):
    tests = str(Path(__file__).parent)
    # Unless the features are named, Numba adds those of this machine to those of the CPU.
    features = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
    env = {**os.environ, **features, "PYTHONPATH": tests}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *POLICIES], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 2 * len(POLICIES)
    assert found == {name: RUNS[name] for name in found}
