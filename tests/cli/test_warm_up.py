"""`bothworlds warm-up`: afterwards, a process that runs a bandit compiles nothing."""

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bothworlds.cli import parse
from bothworlds.cli import warm_up as warm_up_module
from bothworlds.cli.kernel_counts import KERNELS, USES
from bothworlds.errors import InvalidParameter
from bothworlds.registry import words
from helpers import kernels

pytestmark = pytest.mark.processes

# Print the kernels that a service compiles in spite of the warm-up.
SERVICE = """
import sys
from numba.core.event import install_recorder
import bothworlds as bw
from bothworlds.cli import parse
with install_recorder("numba:compile") as recorder:
    for word in sys.argv[1:]:
        for n_arms in (2, 5, 40, 700):
            bandit = bw.Bandit(parse.policy(word)[1], n_arms, seed=3)
            pending = [bandit.ask() for _ in range(4)]
            for decision in reversed(pending):
                bandit.tell(decision, reward=0.5)
            bandit.tell(bandit.ask(bandit.arms[:2]), reward=1.0)
            bandit.copy().probabilities()
print(sorted({event.data["dispatcher"].__name__ for _, event in recorder.buffer}))
"""


def run(*command, **environment):
    """Run Python in another process; return its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, *command], env=os.environ | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def warm_up(*arguments, **environment):
    return run("-m", "bothworlds", "warm-up", *arguments, **environment)


@pytest.mark.processes
def test_a_service_compiles_nothing_after_it(tmp_path):
    where = {"NUMBA_CACHE_DIR": str(tmp_path)}
    code, cold, _ = run("-c", SERVICE, "ucb1", NUMBA_CACHE_DIR=str(tmp_path / "cold"))
    assert code == 0
    assert "ask" in cold
    code, shown, _ = warm_up("--policies", "ucb1,exp3", **where)
    assert code == 0
    assert "Bandit, UCB1, 512 arms" in shown
    most = KERNELS["UCB1"][0] + KERNELS["EXP3"][0]
    assert f" s  ask; at most {most - 1} remain\n" in shown
    assert "6 of 6: Bandit, EXP3, 512 arms\n" in shown
    left = [int(number) for number in re.findall(r"; at most (\d+) remain\n", shown)]
    assert left == sorted(left, reverse=True) and 0 <= left[-1] < left[0]
    assert f"\nCompiled {len(left)} kernels in " in shown
    assert len(left) <= most
    assert run("-c", SERVICE, "ucb1", "exp3", **where)[:2] == (0, "[]\n")
    assert "All kernels were compiled already" in warm_up("--policies", "ucb1,exp3", **where)[1]


@pytest.mark.processes
def test_what_was_compiled_before_ctrl_c_is_kept(tmp_path):
    command = [sys.executable, "-m", "bothworlds", "warm-up", "--policies", "ucb1"]
    where = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=where, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        # Learning is compiled once drawing is kept.
        while " s  tell;" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in errors
    found = re.fullmatch(r"Stopped: ([1-9]\d*) kernels? kept; at most (\d+) remain\.\n", errors)
    assert found and int(found[1]) + int(found[2]) == KERNELS["UCB1"][0]
    again = warm_up("--policies", "ucb1", NUMBA_CACHE_DIR=str(tmp_path))[1]
    assert " s  ask;" not in again.partition("16 arms")[0]


@pytest.mark.processes
def test_it_covers_every_number_of_arms_of_tsallis_inf():
    assert warm_up("--policies", "tsallis")[0] == 0
    assert run("-c", SERVICE, "tsallis")[:2] == (0, "[]\n")


@pytest.mark.processes
def test_duels_and_simulations_are_warmed_on_request(tmp_path):
    arguments = ("--policies", "uniform", "--duels", "--simulate")
    code, shown, _ = warm_up(*arguments, NUMBA_CACHE_DIR=str(tmp_path))
    assert code == 0
    assert "DuelingBandit, Uniform, 16 arms" in shown
    assert "simulate, Uniform, 16 arms" in shown
    # One policy and an empty cache: the bound is exact.
    assert f"Compiled {sum(KERNELS['Uniform'])} kernels" in shown
    assert shown.splitlines()[-2].endswith(("; at most 0 remain", ", Uniform, 512 arms"))


@pytest.mark.processes
@pytest.mark.parametrize("word", warm_up_module.POLICIES.split(","))
def test_the_number_of_kernels_is_the_recorded_one(word):
    code, row, _ = run(str(Path(kernels.__file__)), word)
    assert code == 0
    assert ast.literal_eval(f"{{{row}}}").items() <= KERNELS.items()


def test_every_policy_has_its_number_of_kernels():
    labels = {label for word in words() for label in parse.policies(word, 1000)}
    assert labels == set(KERNELS)
    assert all(len(row) == len(USES) for row in KERNELS.values())


def test_policies_that_the_service_refuses_are_left_out(capsys):
    chosen = parse.policies("tsallis,ucb1", 1000)
    assert list(warm_up_module.servable(chosen)) == ["Tsallis-INF (RV)"]
    assert capsys.readouterr().out == "The service does not accept UCB1: left out of serve.\n"
    with pytest.raises(InvalidParameter, match="known probability"):
        warm_up_module.servable(parse.policies("ucb1", 1000))


@pytest.mark.processes
def test_a_policy_without_floors_is_warmed_for_the_service():
    code, shown, _ = warm_up("--policies", "allworlds", "--serve")
    assert code == 0
    assert "serve, AllWorlds, 512 arms" in shown


@pytest.mark.processes
def test_it_fails_where_nothing_can_be_kept(tmp_path):
    nowhere = (
        "import sys, tempfile\n"
        "def refuse(*args, **kwargs):\n    raise OSError(30, 'Read-only file system')\n"
        "tempfile.TemporaryFile = refuse\n"
        "sys.argv = ['bothworlds', 'warm-up', '--policies', 'uniform']\n"
        "from bothworlds.__main__ import main\nmain()\n"
    )
    code, _, said = run("-c", nowhere, NUMBA_CACHE_DIR=str(tmp_path))
    assert code == 1
    assert said.count("\n") == 1
    assert "NUMBA_CACHE_DIR" in said


@pytest.mark.processes
@pytest.mark.parametrize("word", ["tsalis", "broad:horizon=x"])
def test_wrong_policies_are_refused_in_one_sentence(word):
    code, shown, said = warm_up("--policies", word)
    assert (code, shown) == (2, "")
    assert len(said.splitlines()) == 1
