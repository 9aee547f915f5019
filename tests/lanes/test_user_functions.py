"""Machine code of a user's functions on disk: found by other processes, never taken for another."""

import json
import math
import os
import pickle
import subprocess
import sys

import numba
import numpy as np
import pytest

from bothworlds import usercode
from bothworlds.lanes.user_functions import code_key, digest
from bothworlds.usercode import record

MODULE = """
import math
from math import {alias} as bend
import numba
import numpy as np
import bothworlds as bw
{more}

SHARE = {share}

@numba.njit
def helper(x):
    return {helper}

@bw.policies.custom
class Own:
    rate: float = 1.0
    def start(n_arms):
        return np.zeros(n_arms)
    def probabilities(state, parameters, n_arms, t, p):
        p[:] = SHARE / n_arms
        p[np.argmin(state)] += 1.0 - SHARE
    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += helper(loss) * bend(parameters.rate) / probability {used}
"""

# What a process compiled, and the states that a simulation and a bandit end with.
RUN = """
import json, sys
from numba.core import event
compiled = []

class Seen(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass

event.register("numba:compile", Seen())
import bothworlds as bw
sys.path.insert(0, sys.argv[1])
found = {}
for name in sys.argv[2:]:
    Own = __import__(name).Own
    before = len(compiled)
    world = bw.environments.Stochastic.gap(3, 0.5)
    run = bw.simulate({"it": Own()}, world, horizon=20, repetitions=2, seed=1, progress=False)
    bandit = bw.Bandit(Own(), arms=3, seed=1)
    for _ in range(5):
        bandit.tell(bandit.ask(), loss=0.5)
    state = bandit._core.F[-3:].tolist()
    found[name] = [run.regret["it"].tolist(), state, compiled[before:]]
print(json.dumps(found))
"""

PLAIN = {"alias": "exp", "share": "0.3", "helper": "x", "more": "", "used": ""}
CHANGED = {
    "first": {},
    "again": {},
    "share": {"share": "0.6"},
    "helper": {"helper": "0.5 * x"},
    "alias": {"alias": "sqrt"},
    "module": {"more": "import tools", "used": "* tools.GAIN"},
}
"""Versions of the module: the same in another file, with another value of a global name, another
helper, another meaning of a name, and a value from a module of the user's own."""


def play(folder, *names):
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder), *names],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.processes
@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_takes_no_function_for_another(tmp_path):
    (tmp_path / "tools.py").write_text("GAIN = 2.0\n", encoding="utf-8")
    for name, changed in CHANGED.items():
        (tmp_path / f"{name}.py").write_text(MODULE.format(**PLAIN | changed), encoding="utf-8")
    # Two processes number their functions alike; a third one loads the functions of both.
    made = play(tmp_path, "first", "share", "module") | play(tmp_path, "helper", "alias")
    assert all(compiled for _, _, compiled in made.values())
    numbers = {name: found[:2] for name, found in made.items()}
    assert len(set(map(str, numbers.values()))) == len(numbers)
    later = play(tmp_path, *CHANGED)
    assert {name: found[:2] for name, found in later.items()} == {
        **numbers,
        "again": numbers["first"],
    }
    assert [name for name, (_, _, compiled) in later.items() if compiled] == ["module"]


def test_a_name_that_means_another_function_gives_another_digest():
    """Before, all functions of C looked alike: a store returned the numbers of the other one."""

    def with_bend(function):
        scope = {"bend": function}
        exec("def own(x):\n    return bend(x)", scope)
        return digest(scope["own"])

    same = [math.exp, math.sqrt, np.exp, np.sqrt]
    assert len({with_bend(each) for each in same}) == len(same)
    assert with_bend(math.exp) == with_bend(math.exp)


def test_what_other_processes_may_not_know_has_no_key():
    def with_value(value, **options):
        scope = {"value": value, "__name__": "own"}
        exec("def own(x):\n    return x if value is None else 2 * x", scope)
        return code_key(numba.njit(**options)(scope["own"]))

    assert with_value(1.0) and with_value((1, np.float64(2.0))) and with_value(np.zeros(3))
    eager = numba.njit("float64(float64)")(lambda x: x)
    unknown = [object(), np.zeros(10**5), sys.modules["pytest"], eager, [1.0]]
    assert [with_value(each) for each in unknown] == [""] * 5
    assert with_value(1.0) != with_value(2.0)
    assert with_value(1.0) != with_value(1.0, fastmath=True)


@pytest.mark.processes
def test_records_of_parameters_are_found_by_processes_that_never_made_them():
    made = record(("rate_of_a_test", "c"))(1.0, 2.0)
    code = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])).rate_of_a_test)"
    command = [sys.executable, "-c", code, pickle.dumps(made).hex()]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1.0\n"
    with pytest.raises(AttributeError, match="has no attribute 'parameter'"):
        usercode.parameter  # noqa: B018
