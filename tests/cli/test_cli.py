"""The commands compare, decide, bounds and bench, as a person types them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import bothworlds as bw
from bothworlds import __main__ as entry
from bothworlds import registry
from bothworlds.cli import app, decisions
from bothworlds.cli import parse as names
from bothworlds.cli.decide import locked
from bothworlds.errors import InvalidParameter, StateFileError
from bothworlds.plotting import LOOKS
from helpers.waiting import HANG

COMMAND = [sys.executable, "-m", "bothworlds"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(word) for word in arguments], prog_name="bothworlds")
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def refused(*arguments, code=2):
    """Return the one sentence on standard error; nothing else was printed."""
    result = run(*arguments, code=code)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.rstrip().endswith((".", "?"))
    return result.stderr


def fits(text):
    """Tell whether no line is longer than 80 columns; paths are as long as they are."""
    lines = [line for line in text.splitlines() if not line.startswith("Written: ")]
    return all(len(line) <= 80 for line in lines)


# --- help -------------------------------------------------------------------------------------

HELP = [
    ["compare"],
    ["arena"],
    ["bounds"],
    ["bench"],
    ["warm-up"],
    ["decide"],
    *(["decide", word] for word in ("init", "ask", "tell", "show", "expire")),
]


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_has_an_example_and_fits(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    text = run(*words, "--help").stdout
    example = " ".join(["bothworlds", *words])
    assert example in re.sub(r"\s+", " ", text)
    assert fits(text)


@pytest.mark.processes
@pytest.mark.parametrize("option", ["-O", "-OO"])
def test_help_explains_why_it_has_no_descriptions(option):
    command = [sys.executable, option, "-m", "bothworlds", "warm-up", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert ("which removes descriptions" in text) == (option == "-OO")


# --- names and numbers ------------------------------------------------------------------------


def test_every_policy_and_environment_by_its_name():
    chosen = names.policies(",".join(registry.words()), 1000)
    assert list(chosen) == [variant.label for variant in registry.variants()]
    assert set(chosen) == set(LOOKS)
    for name in registry.worlds():
        assert names.environment(name, 3, 0.25).n_arms == 3


def test_parameters_after_colons():
    label, policy = names.policy("tsallis:alpha=0.7:estimator=iw")
    assert policy == bw.TsallisINF(alpha=0.7, estimator="iw")
    assert label == repr(policy)
    assert names.policy("broad:horizon=1e6")[1] == bw.Broad(horizon=10**6)
    world = names.environment("switching:factor=2:shuffle=false", 4, 0.5)
    assert world == bw.environments.Switching(4, 0.5, factor=2, shuffle=False)
    world = names.environment("heavy-tailed:noise=lognormal:shape=1.2", 3, 0.5)
    assert world == bw.environments.HeavyTailed([1.0, 1.5, 1.5], "lognormal", 1.2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tompson", "Unknown policy 'tompson'; did you mean 'thompson'?"),
        ("tsalis", "Unknown policy 'tsalis'; did you mean 'tsallis'?"),
        ("UBC1", "Unknown policy 'UBC1'; did you mean 'ucb1'?"),
        ("tsallis:alhpa=1", "Unknown parameter 'alhpa'; did you mean 'alpha'?"),
        ("ucb1:c", "The policy 'ucb1:c' must be a name and parameters such as 'ucb1:c=2'."),
        ("uniform:c=2", "There are no parameters to set in 'uniform:c=2'."),
        ("broad", "The horizon of broad must be given, such as 'broad:horizon=10000'."),
    ],
)
def test_wrong_policies_get_the_nearest_right_one(text, sentence):
    with pytest.raises(InvalidParameter) as caught:
        names.policy(text)
    assert str(caught.value) == sentence


def test_the_gap_is_an_option_not_a_parameter():
    with pytest.raises(InvalidParameter, match="Unknown parameter 'gap'"):
        names.environment("switching:gap=0.5", 4, 0.25)


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "1e400", "-1", "0", "0.5", "1/0", "1,000"])
def test_counts_that_are_none(text):
    with pytest.raises(InvalidParameter, match="--horizon must be a whole number"):
        names.count(text, "--horizon")


def test_counts_and_numbers():
    assert names.count("1e6", "x") == names.count("1_000_000", "x") == 10**6
    assert names.count(str(2**63 - 1), "--seed") == 2**63 - 1
    assert names.number("1/8", "x") == 0.125
    assert names.number("-2.5e-1", "x") == -0.25


# --- compare ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_compare_ranks_draws_and_keeps(tmp_path):
    arguments = (
        "compare", "--env", "switching", "--arms", "4", "--gap", "0.25", "--horizon", "2e4",
        "--policies", "ucb1,tsallis,uniform", "--repetitions", "20", "--seed", "3",
        "--output", tmp_path / "new" / "folder",
    )  # fmt: skip
    output = run(*arguments).stdout
    assert fits(output)
    ranked = [line.split()[:2] for line in output.splitlines() if re.match(r" *\d ", line)]
    assert ranked == [["1", "Tsallis-INF"], ["2", "UCB1"], ["3", "Uniform"]]
    folder = tmp_path / "new" / "folder"
    endings = ("png", "pdf", "parquet", "csv", "md", "tex")
    names_written = {"store", *(f"comparison.{ending}" for ending in endings)}
    assert {path.name for path in folder.iterdir()} == names_written
    assert (folder / "comparison.csv").read_text().startswith("policy,runs,mean,")
    assert (folder / "comparison.md").read_text().startswith("| policy | runs | mean |")
    assert (folder / "comparison.tex").read_text().startswith(r"\begin{tabular}{lrrrrrrr}")
    assert "These intervals hold together." in output
    assert (folder / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "comparison.pdf").read_bytes().startswith(b"%PDF")
    kept = bw.Result.load(folder / "comparison.parquet")
    assert kept.environment == "Switching(n_arms=4, gap=0.25)"
    assert not kept.interrupted
    again = bw.simulate(
        {"UCB1": bw.UCB1()}, bw.environments.Switching(4, 0.25), horizon=20_000, repetitions=20,
        seed=3, progress=False,
    )  # fmt: skip
    assert np.array_equal(kept.regret["UCB1"], again.regret["UCB1"])
    mean = kept.regret["UCB1"][:, -1].mean()
    assert (f"{mean:,.1f}" if mean < 1000 else f"{mean:,.0f}") in output


MINE = """
import bothworlds as bw

class Mine(bw.UCB1):
    pass

TIDES = bw.environments.Switching(3, 0.25)

def tides(n_arms, gap, factor=2.0):
    return bw.environments.Switching(n_arms, gap, factor=factor)

def shallow(n_arms, gap=0.0625):
    return bw.environments.Switching(n_arms, gap)

def number():
    return 7
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "mymodule.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mymodule", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_own_classes_by_module_and_name(own_module):
    label, policy = names.policy("mymodule:Mine:c=2")
    assert label == repr(policy) == "Mine(c=2.0)"
    assert isinstance(policy, bw.UCB1)
    assert names.environment("mymodule:TIDES", 8, 0.5) == bw.environments.Switching(3, 0.25)
    world = names.environment("mymodule:tides:factor=3", 8, 0.5)
    assert world == bw.environments.Switching(8, 0.5, factor=3.0)
    # A default of the user's own stands unless the option is given.
    assert names.environment("mymodule:shallow", 8, 0.5).gap == 0.5
    assert names.environment("mymodule:shallow", 8, 0.5, given=()).gap == 0.0625
    assert names.environment("mymodule:tides", 8, 0.5, given=()).gap == 0.5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nowhere:Mine", "There is no module 'nowhere' for the policy 'nowhere:Mine', here or "),
        ("mymodule:Mein", "There is no 'Mein' in the module 'mymodule'; did you mean 'Mine'?"),
        ("broken:Mine", "The module 'broken' could not be imported: ZeroDivisionError: "),
        (
            "mymodule:number",
            "The policy 'mymodule:number' must return a policy of bothworlds, got 7.",
        ),
        ("mymodule:Mine:d=2", "Unknown parameter 'd'. "),
        ("mymodule:TIDES", "The policy 'mymodule:TIDES' must name a class or an instance of one."),
    ],
)
def test_wrong_own_classes_get_one_sentence(text, sentence, own_module):
    with pytest.raises(InvalidParameter) as caught:
        names.policy(text)
    assert str(caught.value).startswith(sentence)


def test_version_and_completion():
    assert run("--version").stdout == f"bothworlds {bw.__version__}\n"
    assert "--show-completion" in run("--help").stdout


@pytest.mark.slow
def test_compare_with_corruption(tmp_path):
    run(
        "compare", "--corruption", "50", "--attack", "swap", "--horizon", "500", "--arms", "3",
        "--policies", "tsallis", "--repetitions", "2", "--output", tmp_path,
    )  # fmt: skip
    kept = bw.Result.load(tmp_path / "comparison.parquet")
    assert kept.environment.startswith("Corrupted(base=Stochastic(")
    assert "swap" in kept.environment


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--policies", "tompson"], "Unknown policy 'tompson'; did you mean 'thompson'?\n"),
        (["--policies", "ucb1,ucb1"], "The option --policies must be UCB1 once"),
        (["--policies", "ucb1,"], "The option --policies must be names separated by commas"),
        (["--env", "switchin"], "Unknown environment 'switchin'; did you mean 'switching'?\n"),
        (["--env", "heavytailed"], "Unknown environment 'heavytailed'; did you mean 'heavy-ta"),
        (["--env", "heavy-tailed:noise=t"], "The noise of HeavyTailed must be"),
        (["--env", "heavy-tailed"], "The policies of simulate must be policies for losses wi"),
        (["--gap", "2"], "The gap of Stochastic.gap must be a number in (0, 1], got 2.0.\n"),
        (["--gap", "wide"], "The option --gap must be a number"),
        (["--arms", "1"], "The option --arms must be a whole number of at least 2"),
        (["--horizon", "long"], "The option --horizon must be a whole number"),
        (["--repetitions", "0"], "The option --repetitions must be a whole number"),
        (["--seed", "-1"], "The option --seed must be a whole number of at least 0"),
        (["--attack", "swap"], "The option --attack needs its budget"),
        (["--corruption", "9", "--attack", "swop"], "Unknown attack 'swop'; did you mean 'swap'?"),
        (["--bounds", "0", "5"], "The option --bounds needs --losses"),
        (["--losses", "x.csv", "--gap", "1"], "The option --gap describes a simulated world"),
    ],
)
def test_compare_refuses(options, sentence, tmp_path):
    answer = refused("compare", *options, "--output", tmp_path / "out")
    assert answer.startswith(sentence)
    assert not (tmp_path / "out").exists()


def test_compare_needs_a_folder_it_can_write(tmp_path):
    (tmp_path / "file").write_text("")
    answer = refused("compare", "--output", tmp_path / "file", code=1)
    assert "could not be used" in answer


def table_of(rounds=400):
    losses = np.random.default_rng(1).random((rounds, 3)) * [0.6, 1.0, 1.0]
    return np.round(losses, 6)


def write_table(path, losses, arms):
    if path.suffix == ".npy":
        np.save(path, losses)
    elif path.suffix == ".parquet":
        columns = dict(zip(arms, losses.T, strict=True))
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        lines = [mark.join(arms)] + [mark.join(map(repr, row)) for row in losses.tolist()]
        path.write_text("\n".join(lines) + "\n\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "npy"])
def test_compare_on_recorded_losses(ending, tmp_path):
    losses = table_of()
    path = write_table(tmp_path / f"table.{ending}", losses, ["red", "green", "blue"])
    options = ("--policies", "tsallis,uniform", "--repetitions", "4", "--output", tmp_path / "out")
    output = run("compare", "--losses", path, *options).stdout
    assert fits(output)
    best = "0" if ending == "npy" else "red"
    assert f"Best single arm: '{best}', mean loss {losses[:, 0].mean():.4g}." in output
    kept = bw.Result.load(tmp_path / "out" / "comparison.parquet")
    again = bw.simulate(
        {"Tsallis-INF (RV)": bw.TsallisINF()}, bw.environments.Adversarial(losses), horizon=400,
        repetitions=4, progress=False,
    )  # fmt: skip
    assert np.array_equal(kept.plays["Tsallis-INF (RV)"], again.plays["Tsallis-INF (RV)"])


@pytest.mark.slow
def test_bounds_rescale_recorded_losses(tmp_path):
    losses = table_of(50)
    path = write_table(tmp_path / "table.csv", 250 * losses - 50, ["a", "b", "c"])
    options = ("--policies", "ucb1", "--repetitions", "1", "--output", tmp_path / "out")
    output = run("compare", "--losses", path, "--bounds", "-50", "200", *options).stdout
    kept = bw.Result.load(tmp_path / "out" / "comparison.parquet")
    world = bw.environments.Adversarial(losses)
    again = bw.simulate({"UCB1": bw.UCB1()}, world, horizon=50, repetitions=1, progress=False)
    assert np.allclose(kept.regret["UCB1"], again.regret["UCB1"], atol=1e-9)
    assert f"mean loss {250 * losses[:, 0].mean() - 50:.4g}." in output


@pytest.mark.slow
def test_the_best_arm_is_that_of_the_rounds_played(tmp_path):
    losses = np.repeat([[0.0, 1.0], [1.0, 0.0]], [50, 100], axis=0)
    path = write_table(tmp_path / "table.csv", losses, ["early", "late"])
    options = ("--policies", "ucb1", "--repetitions", "1", "--output", tmp_path / "out")
    assert "'late'" in run("compare", "--losses", path, *options).stdout
    assert "'early'" in run("compare", "--losses", path, "--horizon", "60", *options).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\n0,1\n0\n", "Line 3 must have 2 values, one for each arm, got 1."),
        ("a,b\n0,1\n0,0,0\n", "Line 3 must have 2 values, one for each arm, got 3."),
        ("a,b\n0,1\n0.5,oops\n", "The loss of 'b' in line 3 must be a number, got 'oops'."),
        ("a,b\n0,1\n0.5,\n", "The loss of 'b' in line 3 is missing."),
        ("a,b\n0,1\n0,nan\n", "The loss of 'b' in line 3 must be in [0, 1], got no finite number."),
        ("a,b\n0,1\n0,7\n", "The loss of 'b' in line 3 must be in [0, 1], got 7; --bounds"),
        ("0,1\n0,7\n", "The loss of '1' in line 2 must be in [0, 1], got 7; --bounds"),
        ("a,b\n0,1\n\n0,1\n", "The table {path!r} must not have blank lines, got one before"),
        ("a,a\n0,1\n", "The first line of {path!r} must name every arm once, got 'a, a'."),
        ("a\n0\n", "The table {path!r} must have a column for each of two arms."),
        ("a,b\n", "The table {path!r} must have a row for every round."),
        ("", "The table {path!r} must have a column for each of two arms."),
    ],
)
def test_wrong_tables_are_refused_with_the_line(content, sentence, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(content)
    answer = refused("compare", "--losses", path, "--output", tmp_path / "out")
    assert answer.startswith(sentence.format(path=str(path)))
    assert not (tmp_path / "out").exists()


def test_wrong_files_are_refused(tmp_path):
    def answer(path, code=2):
        return refused("compare", "--losses", path, "--output", tmp_path / "out", code=code)

    (tmp_path / "bytes.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    assert "must be text in UTF-8" in answer(tmp_path / "bytes.csv")
    for ending in ("parquet", "npy"):
        (tmp_path / f"bad.{ending}").write_text("nothing of the kind")
        assert "must be a" in answer(tmp_path / f"bad.{ending}")
    np.save(tmp_path / "flat.npy", np.zeros(5))
    assert "got float64 of shape (5,)" in answer(tmp_path / "flat.npy")
    gaps = pyarrow.table({"a": [0.1, None], "b": [0.1, 0.2]})
    pyarrow.parquet.write_table(gaps, tmp_path / "gaps.parquet")
    assert answer(tmp_path / "gaps.parquet") == "The loss of 'a' in row 2 is missing.\n"
    words = pyarrow.table({"day": ["mo", "tu"], "b": [0.1, 0.2]})
    pyarrow.parquet.write_table(words, tmp_path / "words.parquet")
    assert answer(tmp_path / "words.parquet").startswith("The column 'day' must hold numbers")
    assert "did you mean '.csv'?" in answer(tmp_path / "table.cvs")
    assert "No such file" in answer(tmp_path / "absent.csv", code=1)


def test_a_horizon_beyond_the_file_is_refused(tmp_path):
    path = write_table(tmp_path / "table.csv", table_of(30), ["a", "b", "c"])
    answer = refused("compare", "--losses", path, "--horizon", "31", "--output", tmp_path / "out")
    assert answer == "The option --horizon must be at most 30, the rows of the file, got 31.\n"


def interrupt(arguments, folder, sign):
    """Compare on a terminal, press Ctrl-C once it shows ``sign``, and return what came of it."""
    terminal, its_end = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, "compare", *arguments, "--output", str(folder)],
        stdout=subprocess.PIPE,
        stderr=its_end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(its_end)
    shown = ""
    pressed = False
    try:
        while True:
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece.decode(errors="replace")
            if not pressed and re.search(sign, shown):
                process.send_signal(signal.SIGINT)
                pressed = True
        output = process.communicate(timeout=HANG)[0].decode()
    finally:
        process.kill()
        os.close(terminal)
    assert pressed, shown
    return process.returncode, output, re.sub(r"\s+", " ", shown)


@pytest.mark.processes
def test_ctrl_c_keeps_what_is_finished(tmp_path):
    # Sixteen runs at a time; at 1 % of the rounds the first ones are finished.
    arguments = ["--policies", "tsallis,ucb1", "--horizon", "2e5", "--repetitions", "3000"]
    code, output, errors = interrupt(arguments, tmp_path / "out", sign=r"\b[1-9]%")
    assert code == 130
    assert "Stopped early: of 3000 runs of every policy" in errors
    assert "M rounds/s" in errors
    assert "Tsallis-INF (RV)" in output
    kept = bw.Result.load(tmp_path / "out" / "comparison.parquet")
    assert kept.interrupted
    finished = len(kept.regret["Tsallis-INF (RV)"])
    assert f"{finished} of Tsallis-INF (RV)" in errors
    assert 16 <= finished < 3000
    again = bw.simulate(
        {"Tsallis-INF (RV)": bw.TsallisINF()}, bw.environments.Stochastic.gap(8, 0.125),
        horizon=200_000, repetitions=16, progress=False,
    )  # fmt: skip
    rows = kept.repetitions["Tsallis-INF (RV)"] < 16
    assert np.array_equal(kept.regret["Tsallis-INF (RV)"][rows], next(iter(again.regret.values())))


@pytest.mark.processes
def test_ctrl_c_before_anything_is_finished(tmp_path):
    arguments = ["--policies", "thompson", "--horizon", "1e9", "--repetitions", "16"]
    code, output, errors = interrupt(arguments, tmp_path / "out", sign="rounds/s")
    assert (code, output) == (130, "")
    assert "Stopped before any run was finished." in errors
    assert list((tmp_path / "out").rglob("*.p*")) == []


@pytest.mark.slow
def test_more_policies_and_runs_compute_only_what_is_missing(tmp_path):
    few = ["--horizon", "1e3", "--output", tmp_path, "--policies", "tsallis,ucb1"]
    run("compare", *few, "--repetitions", "20")
    before = {path: path.read_bytes() for path in tmp_path.glob("store/*.parquet")}
    assert run("compare", *few, "--repetitions", "20").exit_code == 0
    assert {path: path.read_bytes() for path in tmp_path.glob("store/*.parquet")} == before
    run("compare", *few[:-1], "tsallis,ucb1,exp3", "--repetitions", "30")
    spans = sorted(path.stem.split("-", 3)[3] for path in tmp_path.glob("store/*.parquet"))
    assert spans == ["0-20", "0-20", "0-30", "20-10", "20-10"]
    kept = bw.Result.load(tmp_path / "comparison.parquet")
    assert [len(regret) for regret in kept.regret.values()] == [30, 30, 30]


@pytest.mark.slow
def test_a_longer_horizon_goes_on_where_a_continuable_one_ended(tmp_path):
    shorter = ["--repetitions", "20", "--policies", "tsallis", "--output", tmp_path / "a"]
    run("compare", "--horizon", "1e4", "--continuable", *shorter)
    run("compare", "--horizon", "3e4", *shorter)
    run("compare", "--horizon", "3e4", *shorter[:-1], tmp_path / "b")
    one, other = (bw.Result.load(tmp_path / name / "comparison.parquet") for name in "ab")
    np.testing.assert_array_equal(one.regret["Tsallis-INF (RV)"], other.regret["Tsallis-INF (RV)"])


# --- decide -----------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "state.json"
    run("decide", "init", path, "--arms", "blue,green,red", "--seed", "7")
    return path


@pytest.mark.slow
def test_decide_is_the_bandit_of_the_library(state):
    bandit = bw.Bandit(bw.TsallisINF(), ["blue", "green", "red"], seed=7)
    for turn in range(6):
        bandit = bw.Bandit.loads(bandit.dumps())  # as the command does between two calls
        decision = bandit.ask()
        shown = json.loads(run("decide", "ask", state, "--json").stdout)
        assert (shown["arm"], shown["id"]) == (decision.arm, decision.id)
        assert shown["probability"] == decision.probability
        assert shown["probabilities"] == dict(decision.probabilities)
        bandit = bw.Bandit.loads(bandit.dumps())
        bandit.tell(decision.id, reward=turn / 6)
        assert run("decide", "tell", state, shown["id"], "--reward", turn / 6).output == ""
    assert bw.Bandit.load(state).probabilities() == bandit.probabilities()
    decision = bandit.ask()
    line = run("decide", "ask", state).stdout
    assert line == f"{decision.arm}\t{decision.id}\t{decision.probability:.6f}\n"


def test_decide_in_other_units_and_out_of_order(tmp_path):
    path = tmp_path / "state.json"
    run("decide", "init", path, "--arms", "2", "--policy", "ucb1:c=2", "--bounds", "-10", "250")
    run("decide", "ask", path)
    run("decide", "ask", path)
    run("decide", "tell", path, "2", "--loss", "-10")
    run("decide", "tell", path, "1", "--reward", "-10")
    shown = json.loads(run("decide", "show", path, "--json").stdout)
    assert [arm["mean_loss"] for arm in shown["arms"]] == [250, -10]
    assert shown["policy"] == "UCB1(c=2.0)"
    assert shown["pending"] == []


def test_decide_without_bounds_counts_what_is_skipped(tmp_path):
    path = str(tmp_path / "state.json")
    run("decide", "init", path, "--arms", "eu,us", "--policy", "htinf:scale=20", "--seed", "1")
    for number, loss in enumerate(("-9000", "1e6"), start=1):
        run("decide", "ask", path)
        run("decide", "tell", path, str(number), f"--loss={loss}")
    assert "Losses skipped as too large: 1" in run("decide", "show", path).stdout
    shown = json.loads(run("decide", "show", path, "--json").stdout)
    assert (shown["bounds"], shown["skipped"], shown["policy"]) == (None, 1, "HTINF(scale=20.0)")


def test_decide_refuses_ids_below_one(state):
    before = state.read_bytes()
    assert "must be a decision of this bandit, got 0." in refused(
        "decide", "tell", state, "0", "--loss", "1", code=1
    )
    assert state.read_bytes() == before


def test_decide_shows_and_expires(state):
    for _ in range(5):
        run("decide", "ask", state)
    text = run("decide", "show", state).stdout
    assert fits(text)
    assert "TsallisINF(), round 5, seed 7" in text
    assert "Waiting for feedback: 5 (ids 1 2 3 4 5)" in text
    assert run("decide", "expire", state, "--older-than", "3", "--loss", "1").stdout == "1\n"
    assert run("decide", "expire", state, "--older-than", "2").stdout == "2\n"
    assert run("decide", "expire", state, "--older-than", "2").stdout == "none\n"
    assert json.loads(run("decide", "show", state, "--json").stdout)["pending"] == [3, 4, 5]


def test_decide_among_the_available(state):
    for _ in range(4):
        shown = json.loads(run("decide", "ask", state, "--available", "red,blue", "--json").stdout)
        assert set(shown["probabilities"]) == {"blue", "red"}
    assert "did you mean 'green'?" in refused("decide", "ask", state, "--available", "gren")


def test_decide_with_a_policy_that_does_not_know_its_probabilities(tmp_path):
    path = tmp_path / "state.json"
    run("decide", "init", path, "--arms", "x,y", "--policy", "thompson", "--seed", "1")
    assert run("decide", "ask", path).stdout.endswith("\t1\tunknown\n")
    assert json.loads(run("decide", "ask", path, "--json").stdout)["probabilities"] is None
    assert "unknown" in run("decide", "show", path).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["tell", "1"], 2, "The feedback must be a --reward or a --loss, got neither."),
        (["tell", "1", "--loss", "0", "--reward", "0"], 2, "The feedback must be"),
        (["tell", "1", "--reward", "2"], 2, "The reward of Bandit.tell must be a number in [0, 1]"),
        (["tell", "1", "--reward", "nan"], 2, "The option --reward must be a number"),
        (["tell", "one", "--loss", "0"], 2, "The option ID must be a whole number"),
        (["tell", "9", "--loss", "0"], 1, "The decision of Bandit.tell must be a decision of"),
        (["tell", "2", "--loss", "0"], 1, "The decision of Bandit.tell must be pending, got 2"),
        (["expire", "--older-than", "-1"], 2, "The option --older-than must be a whole number"),
        (["expire", "--older-than", "0", "--loss", "7"], 2, "The loss of Bandit.expire must be"),
        (["init", "--arms", "a,b"], 1, "The file "),
        (["init", "--arms", "a,a"], 2, "The arms of Bandit must be"),
        (["init", "--arms", "1"], 2, "The option --arms must be a whole number of at least 2"),
        (["init", "--arms", "a,b", "--policy", "ucb"], 2, "Unknown policy 'ucb'; did you mean"),
        (["init", "--arms", "a,b", "--bounds", "1", "1"], 2, "The bounds of Bandit must be"),
    ],
)
def test_decide_refuses_and_changes_nothing(words, code, sentence, state):
    run("decide", "ask", state)
    run("decide", "ask", state)
    run("decide", "tell", state, "2", "--loss", "1")
    before = state.read_bytes()
    assert refused("decide", words[0], state, *words[1:], code=code).startswith(sentence)
    assert state.read_bytes() == before


def test_decide_refuses_other_files(tmp_path):
    path = tmp_path / "state.json"
    assert "decide init starts a bandit" in refused("decide", "ask", path, code=1)
    path.write_text("{}")
    assert refused("decide", "ask", path, code=1).startswith("The format of state file")
    assert path.read_text() == "{}"
    assert "There is no file" in refused("decide", "ask", tmp_path / "no" / "x.json", code=1)
    assert refused("decide", "tel", path, "1") == "Unknown command 'tel'; did you mean 'tell'?\n"
    assert refused("decide", "state.json").startswith("Unknown command 'state.json'. Choose from")


def tell_elsewhere(state, id):
    return subprocess.Popen([*COMMAND, "decide", "tell", str(state), str(id), "--loss", "0.5"])


BUSY = """
import sys
from pathlib import Path
from bothworlds.cli.decide import changed
for _ in range(12):
    with changed(Path(sys.argv[1])) as bandit:
        bandit.tell(bandit.ask(), loss=0.5)
"""


@pytest.mark.processes
def test_processes_at_once_lose_nothing(state):
    for _ in range(3):
        run("decide", "ask", state)
    command = [sys.executable, "-c", BUSY, str(state)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    processes += [tell_elsewhere(state, id) for id in (1, 2, 3)]
    assert [process.wait(timeout=HANG) for process in processes] == [0] * 5
    bandit = bw.Bandit.load(state)
    assert bandit.pending == []
    assert sum(arm.told for arm in bandit.history().values()) == bandit.round == 27


@pytest.mark.processes
def test_a_tell_waits_for_the_lock(state):
    run("decide", "ask", state)
    with locked(state):
        process = tell_elsewhere(state, 1)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=4)
        assert bw.Bandit.load(state).pending == [1]
    assert process.wait(timeout=HANG) == 0
    assert bw.Bandit.load(state).pending == []


def test_a_held_lock_is_waited_for_and_then_named(state):
    with (
        locked(state),
        pytest.raises(StateFileError, match="in use by another process"),
        locked(state, patience=0.1),
    ):
        pass
    link = state.with_name("link.json")
    link.symlink_to(state)
    with locked(link), pytest.raises(StateFileError), locked(state, patience=0.1):
        pass
    with locked(state, patience=0.1):
        assert os.path.exists(state.with_name(".state.json.lock"))


# --- bounds and bench -------------------------------------------------------------------------


def test_bounds_are_those_of_the_library():
    text = run("bounds", "--arms", "8", "--gap", "0.125", "--horizon", "1e7").stdout
    assert fits(text)
    gaps = [0] + 7 * [1 / 8]
    expected = [
        *(bw.bounds.adversarial(8, 1e7, name) for name in ("rv", "iw")),
        *(bw.bounds.self_bounding(gaps, 1e7, estimator=name) for name in ("rv", "iw")),
        bw.bounds.exp3(8, 1e7),
        bw.bounds.ucb1(gaps, 1e7),
        bw.bounds.minimax(8, 1e7),
        bw.bounds.lai_robbins([7 / 16] + 7 * [9 / 16], 1e7),
    ]
    for value in expected:
        assert f" {value:,.1f}" in text


def test_bounds_with_everything():
    options = ["--arms", "3", "--gap", "1/8,0.5", "--horizon", "1e6", "--estimator", "iw"]
    text = run("bounds", *options, "--corruption", "100", "--alpha", "0.3").stdout
    assert fits(text)
    gaps = [0, 0.125, 0.5]
    assert f"{bw.bounds.corrupted(gaps, 1e6, 100, 'iw'):,.1f}" in text
    assert f"{bw.bounds.general_adversarial(0.3, 3, 1e6):,.1f}" in text
    assert f"(at most {bw.bounds.general_stochastic(0.3, gaps, 1e6):,.0f})" in text
    assert "(RV)" not in text
    assert "gap 0.125 to 0.5" in text
    without = run("bounds", "--arms", "3", "--horizon", "1e6").stdout
    assert "fixed gaps" not in without


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--gap", "0.1,0.2"], "The option --gap must be one number in (0, 1] or 7 of them"),
        (["--gap", "0"], "The option --gap must be one number"),
        (["--estimator", "vr"], "Unknown estimator 'vr'; did you mean 'rv'?"),
        (["--corruption", "5"], "The option --corruption needs the gaps"),
        (["--gap", "0.1", "--corruption", "-5"], "The corruption of corrupted must be"),
        (["--alpha", "2"], "The alpha of general_adversarial must be a number in [0, 1]"),
        (["--horizon", "0"], "The horizon of adversarial must be"),
    ],
)
def test_bounds_refuses(options, sentence):
    assert refused("bounds", "--arms", "8", "--horizon", "1e4", *options).startswith(sentence)


@pytest.mark.slow
def test_ctrl_c_ends_bench_although_a_simulation_survives_it(monkeypatch):
    def stopped(*_, **given):
        return SimpleNamespace(interrupted=True)

    monkeypatch.setattr("bothworlds.simulation.simulate", stopped)
    assert run("bench", code=130).stdout == ""


def test_ctrl_c_while_a_command_loads_leaves_no_traceback(monkeypatch):
    def pressed():
        raise KeyboardInterrupt

    monkeypatch.setattr(entry, "_main", pressed)
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 130


@pytest.mark.slow
def test_bench_measures_in_seconds():
    text = run("bench", "--seconds", "0.005").stdout
    assert fits(text)
    line = next(line for line in text.splitlines() if "simulate, Tsallis-INF (RV)" in line)
    numbers = [float(word.replace(",", "")) for word in line.split()[-3:]]
    assert all(0.1 < number < 100_000 for number in numbers)
    assert "Bandit, Tsallis-INF (RV)" in text
    assert refused("bench", "--seconds", "soon").startswith("The option --seconds must be")


# --- the usual forms of ask and tell, without the parser ---------------------------------------


@pytest.fixture
def spoken(tmp_path, capsys):
    """A state file, and a function that returns exit code and output of the quick way."""
    state = str(tmp_path / "state.json")
    run("decide", "init", state, "--arms", "blue,green", "--seed", "3")

    def quick(*words):
        code = decisions.quick([words[0], state, *words[1:]])
        return code, *capsys.readouterr()

    return state, quick


def test_the_quick_way_says_what_the_parser_says(spoken, tmp_path):
    state, quick = spoken
    twin = str(tmp_path / "twin.json")
    shutil.copy(state, twin)
    for words in (
        ["ask"],
        ["ask", "--json"],
        ["tell", "1", "--reward", "0.5"],
        ["tell", "2", "--loss", "0.25"],
        ["tell", "2", "--loss", "0.25"],
        ["tell", "x", "--loss", "0.25"],
        ["tell", "9", "--reward", "-3"],
    ):
        code, out, err = quick(*words)
        slow = CliRunner().invoke(app, ["decide", words[0], twin, *words[1:]])
        assert (code, out, err) == (slow.exit_code, slow.stdout, slow.stderr), words
    assert Path(state).read_bytes() == Path(twin).read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["ask"],
        ["ask", "--help"],
        ["ask", "state.json", "--available", "blue"],
        ["tell", "state.json", "--reward", "1", "4"],
        ["tell", "state.json", "4"],
        ["tell", "state.json", "-4", "--reward", "1"],
        ["show", "state.json"],
    ],
)
def test_other_forms_are_left_to_the_parser(words):
    assert decisions.quick(words) is None


@pytest.mark.processes
def test_a_decision_from_a_shell_loads_no_parser(spoken):
    state, _ = spoken
    script = (
        "import os, sys\nfrom bothworlds.__main__ import main\n"
        "idle = {'typer', 'rich', 'pydantic'}\n"
        # The process ends without taking Python down.
        "os._exit = lambda code: print(code, sorted(idle & set(sys.modules))) or sys.exit()\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script, "decide", "ask", state]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "0 []"
