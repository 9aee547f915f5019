"""The command paper, as a person types it: files, resuming, interruption, wrong options."""

import dataclasses
import html.parser
import io
import json
import os
import re
import signal
import subprocess
import sys

import pyarrow.parquet
import pytest
from rich.console import Console
from typer.testing import CliRunner

import bothworlds as bw
from bothworlds.cli import app
from bothworlds.cli.live_table import Board
from bothworlds.cli.paper import _repeat_sample as repeat_sample
from bothworlds.experiments import Moment, experiment, experiment_names
from bothworlds.experiments import plan as planning
from bothworlds.experiments import run as run_paper
from bothworlds.experiments.claims import sample
from bothworlds.text import duration
from helpers.waiting import HANG, wait_until

# Nearly every test here runs and draws whole experiments: 45 seconds of computing together.
pytestmark = pytest.mark.slow

TINY = ("--horizon", "300", "--repetitions", "3", "--arms", "4", "--gap", "1/4")
SMALLEST = ("--horizon", "200", "--repetitions", "2", "--arms", "2", "--gap", "1/2")


def paper(*arguments, code=0):
    words = ["paper", *(str(word) for word in arguments)]
    result = CliRunner().invoke(app, words, prog_name="bothworlds", env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def refused(*arguments):
    """Return the one sentence on standard error; nothing else was printed."""
    result = paper(*arguments, code=2)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    return result.stderr.strip()


def simulated(result):
    return int(re.search(r"(\d+) simulations? run now", result.stdout).group(1))


class Report(html.parser.HTMLParser):
    """Reads a report: tags must be balanced and nothing may be loaded from elsewhere."""

    VOID = frozenset({"br", "img", "meta"})

    def __init__(self, path):
        super().__init__()
        self.open, self.ids, self.images, self.links, self.words = [], [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "img":
            assert given["alt"]
            self.images.append(given["src"])
        self.links += [given[key] for key in ("href", "src") if key in given]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


# --- every experiment, through the command ----------------------------------------------------


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    return folder, paper("--output", folder, *TINY)


def test_every_experiment_leaves_its_files(everything):
    folder, _ = everything
    for name in experiment_names():
        record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert record["settings"]["scale"] == "custom"
        assert record["figures"]
        for figure in record["figures"]:
            assert figure.startswith(name)
            assert (folder / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
            assert (folder / f"{figure}.pdf").read_bytes().startswith(b"%PDF")
        table = pyarrow.parquet.read_table(folder / f"{name}.parquet")
        assert table.column_names == ["cell", "policy", "repetition", "round", "regret"]
        assert set(table["repetition"].to_pylist()) == {0, 1, 2}
        assert len(set(table["cell"].to_pylist())) == record["cells"]
    # Nothing half-written is left.
    assert [path for path in folder.rglob(".*") if path.is_file()] == []


def test_the_report_is_one_sound_file_with_all_claims(everything):
    folder, _ = everything
    report = Report(folder / "report.html")
    parts = [id for id in report.ids if not id.startswith(("figure-", "panel-"))]
    assert parts == experiment_names()
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in report.links)
    figures = 0
    for name in experiment_names():
        record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        figures += len(record["figures"])
        for claim in record["claims"]:
            for part in (claim["sentence"], claim["measured"], claim["threshold"], claim["id"]):
                assert " ".join(part.split()) in report.text
        assert "rounds 300; repetitions 3; arms" in report.text
    assert len(report.images) == figures
    inside = {link.removeprefix("#") for link in report.links if link.startswith("#")}
    assert inside <= set(report.ids), "a claim leads to its panel or figure"
    assert any(link.startswith("panel-") for link in inside)
    assert (folder / "report.html").stat().st_size < 6_000_000
    assert "cores" in report.text
    assert "seed 0" in report.text
    assert "Measured regret next to its guarantee" in report.text
    assert "below it by" in report.text


def test_the_terminal_shows_the_claims_and_the_report(everything):
    folder, result = everything
    lines = result.stdout.splitlines()
    assert lines[-2] == f"Report: {folder}/report.html"
    assert all(len(line) <= 80 for line in lines[:-3])
    for name in experiment_names():
        assert re.search(rf"^{name}: (\d+ \w+(, )?)+; ", result.stdout, re.MULTILINE)
    verdict = lines[-3]
    assert verdict.startswith("Verdict: At the paper's own scale, 10,000,000 rounds and 100 ")
    assert re.search(r"repetitions: \d+ of the paper's 18 claims hold", verdict)
    assert "this shorter run confirms " in verdict
    assert re.search(r"All other claims, judged by this run: \d+ of the paper's 19 cl", verdict)
    assert re.search(r"\. \d+ of our own 24 claims ", verdict)
    # Three repetitions judge nothing by themselves; published values are compared all the same.
    assert result.stdout.count("\nopen ") > 50
    assert lines[-1].startswith("Next: bothworlds paper ")
    assert re.match(r"Compiling \d+ kernels: ", lines[0])
    # On a busy machine, lines count the kernels that remain in between.
    later = [line for line in lines[1:] if not line.startswith("Compiling; ")]
    assert later[0].startswith("Running; ")


def test_the_sample_counts_its_kernels_where_there_is_no_terminal(tmp_path, monkeypatch):
    def reproduced(threads, compiling):
        for done in range(3):
            compiling(done, 2)
        return sample.Reproduced(4, 4, 10)

    monkeypatch.setattr(sample, "reproduce_sample", reproduced)
    out = io.StringIO()
    for _ in range(2):
        repeat_sample(Console(file=out), tmp_path, None)
    first, compiled, *found = out.getvalue().splitlines()
    assert first.startswith("Repeating a sample of the run at the paper's scale: ")
    assert compiled.startswith("Compiling 2 kernels: ")
    # The second time the outcome is in the folder.
    assert len(found) == 2 and found[0] == found[1]
    assert "reproduced 4 of its runs" in found[0]


def test_nothing_is_computed_twice(everything):
    folder, first = everything
    assert simulated(first) > 100
    files = {path: path.stat().st_mtime_ns for path in folder.glob("store/*")}
    again = paper("--output", folder, *TINY)
    assert simulated(again) == 0
    assert {path: path.stat().st_mtime_ns for path in folder.glob("store/*")} == files
    table = re.compile(r"^ +claim.*?simulations run now", re.DOTALL | re.MULTILINE)
    shown = [table.search(run.stdout).group().rpartition("\n")[0] for run in (first, again)]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("name", experiment_names())
def test_the_claims_of_a_run_are_those_of_its_score(everything, name):
    folder, _ = everything
    record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert all(claim["id"].startswith(f"{name}.") for claim in record["claims"])
    assert record["title"] == experiment(name).title


# --- resuming ---------------------------------------------------------------------------------


def test_a_changed_setting_is_computed_and_the_rest_is_kept(tmp_path):
    assert simulated(paper("copies", "--output", tmp_path, *SMALLEST)) == 2
    more = [word if word != "2" else "3" for word in SMALLEST]
    more[more.index("--arms") + 1] = "2"
    assert simulated(paper("copies", "--output", tmp_path, *more)) == 2
    assert len(list(tmp_path.glob("store/*-2-1.parquet"))) == 2, "one more repetition, no more"
    assert simulated(paper("copies", "--output", tmp_path, *SMALLEST, "--seed", "1")) == 2
    assert simulated(paper("copies", "--output", tmp_path, *SMALLEST)) == 0
    wider = [*SMALLEST]
    wider[wider.index("--arms") + 1] = "2,3"
    assert simulated(paper("copies", "--output", tmp_path, *wider)) == 2


def test_a_damaged_file_is_reported_and_only_it_is_computed_again(tmp_path):
    paper("copies", "--output", tmp_path, *SMALLEST)
    before = (tmp_path / "copies.parquet").read_bytes()
    victim = sorted(tmp_path.glob("store/*.parquet"))[0]
    content = victim.read_bytes()
    victim.write_bytes(content[:-20])
    (tmp_path / "copies.json").unlink()
    result = paper("copies", "--output", tmp_path, *SMALLEST)
    assert f"The file {victim.name} is damaged" in result.stdout
    assert f"It is set aside as {victim.name}.damaged" in result.stdout
    assert simulated(result) == 1
    assert (tmp_path / "copies.parquet").read_bytes() == before


@pytest.mark.parametrize("lost", ["copies.png", "copies.pdf", "copies.parquet", "copies.json"])
def test_a_lost_file_is_made_again_without_simulating(lost, tmp_path):
    paper("copies", "--output", tmp_path, *SMALLEST)
    (tmp_path / lost).unlink()
    assert simulated(paper("copies", "--output", tmp_path, *SMALLEST)) == 0
    assert (tmp_path / lost).is_file()


def test_a_damaged_record_is_made_again(tmp_path):
    paper("copies", "--output", tmp_path, *SMALLEST)
    (tmp_path / "copies.json").write_text('{"key": 3}', encoding="utf-8")
    assert simulated(paper("copies", "--output", tmp_path, *SMALLEST)) == 0
    assert json.loads((tmp_path / "copies.json").read_text(encoding="utf-8"))["id"] == "copies"


def test_edited_claims_are_judged_again(tmp_path, monkeypatch):
    paper("copies", "--output", tmp_path, *SMALLEST)
    drawn = (tmp_path / "copies.png").stat().st_mtime_ns
    paper("copies", "--output", tmp_path, *SMALLEST)
    assert (tmp_path / "copies.png").stat().st_mtime_ns == drawn
    monkeypatch.setattr(planning.sources, "digest", lambda *rooms: b"edited")
    assert simulated(paper("copies", "--output", tmp_path, *SMALLEST)) == 0
    assert (tmp_path / "copies.png").stat().st_mtime_ns > drawn


def test_experiments_run_one_by_one_share_a_report(tmp_path):
    paper("copies", "--output", tmp_path, *SMALLEST)
    paper("open-problem", "--output", tmp_path, *SMALLEST)
    ids = Report(tmp_path / "report.html").ids
    experiments = [id for id in ids if "figure" not in id and not id.startswith("panel-")]
    assert experiments == ["copies", "open-problem"]


def test_equal_cells_of_two_experiments_are_run_once(tmp_path):
    # The stochastic cell next to the switching ones is the one of the first experiment.
    alone = simulated(paper("switching", "--output", tmp_path / "alone", *SMALLEST))
    both = simulated(paper("stochastic", "switching", "--output", tmp_path / "both", *SMALLEST))
    assert (alone, both) == (16, 16)


def test_results_do_not_depend_on_threads(tmp_path):
    for threads in (1, 2):
        paper("copies", "--output", tmp_path / str(threads), *SMALLEST, "--threads", threads)
    one, two = (tmp_path / str(threads) / "copies.parquet" for threads in (1, 2))
    assert pyarrow.parquet.read_table(one) == pyarrow.parquet.read_table(two)


def test_klucb_is_an_extra(tmp_path):
    plain = simulated(paper("stochastic", "--output", tmp_path, *SMALLEST))
    assert plain == 8
    assert simulated(paper("stochastic", "--output", tmp_path, *SMALLEST, "--kl-ucb")) == 1
    table = pyarrow.parquet.read_table(tmp_path / "stochastic.parquet")
    assert "KL-UCB" in set(table["policy"].to_pylist())


# --- interruption -----------------------------------------------------------------------------

LONG = ("stochastic", "--arms", "2", "--gap", "1/4", "--horizon", "2e6", "--repetitions", "16")


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt", reason="signals of another system")
def test_ctrl_c_loses_at_most_the_running_parts(tmp_path):
    command = [sys.executable, "-m", "bothworlds", "paper", *LONG, "--output", str(tmp_path)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def two_kept():
        assert running.poll() is None, running.communicate()
        return len(list(tmp_path.glob("store/*.parquet"))) >= 2

    wait_until(two_kept)
    seen = list(tmp_path.glob("store/*.parquet"))
    running.send_signal(signal.SIGINT)
    said, errors = running.communicate(timeout=HANG)
    assert running.returncode == 130, errors
    assert "Traceback" not in said + errors
    words = " ".join(said.split())
    assert "Finished runs are kept in" in words
    assert "the same command continues from there" in words
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("store/*.parquet")}
    assert {path.name for path in seen} <= set(kept)
    assert len(kept) < 7, "the run was over before it could be interrupted"
    assert [path for path in tmp_path.rglob(".*") if path.is_file()] == []
    assert simulated(paper(*LONG, "--output", tmp_path)) == 8 - len(kept)
    for name, content in kept.items():
        assert (tmp_path / "store" / name).read_bytes() == content


# --- progress ---------------------------------------------------------------------------------


def test_progress_names_what_runs(tmp_path):
    moments = []
    run_paper(
        ["copies"], output=tmp_path, horizon=3_000_000, repetitions=16, arms=[2, 4], gaps=[0.25],
        progress=moments.append,
    )  # fmt: skip
    assert {moment.cell for moment in moments} == {"K=2, gap=1/4", "K=4, gap=1/4"}
    assert {moment.experiment for moment in moments} == {"copies"}
    algorithms = [moment.algorithm for moment in moments]
    assert set(algorithms) == {"Tsallis-INF (RV)", "Tsallis-INF (IW)", "drawing"}
    assert algorithms[-1] == "drawing"
    running = [moment for moment in moments if moment.algorithm != "drawing"]
    assert all(moment.rate > 0 and 0 <= moment.left < 1e6 for moment in running)
    assert {(moment.place, moment.cells) for moment in running} == {(1, 2), (2, 2)}


def test_the_board_fits_a_terminal():
    from rich.console import Console

    console = Console(width=80, record=True, force_terminal=True)
    board = Board(experiment_names())
    board.update(
        Moment("table-1", "hardest K=32, T=10000000, gap=0.5 sqrt(K/T)", "Tsallis-INF (RV)",
               30, 45, 123.4e6, 5025.0)
    )  # fmt: skip
    console.print(board.table())
    text = console.export_text()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert "Tsallis-INF (RV)" in text
    assert "123.4" in text
    assert "1:23 h" in text


def test_the_board_shows_every_verdict_of_a_finished_experiment(everything):
    from rich.console import Console

    from bothworlds.experiments.report.archive import kept

    folder, _ = everything
    made = kept(folder, "stochastic")
    words = ["holds"] * 8 + ["fails", "fails", "open", "differs", "differs"]
    claims = [
        dataclasses.replace(claim, verdict=word)
        for claim, word in zip(made.claims, words, strict=True)
    ]
    console = Console(width=80, record=True, force_terminal=True)
    board = Board(experiment_names())
    board.finish(dataclasses.replace(made, claims=tuple(claims), seconds=278.0))
    console.print(board.table())
    row = next(line for line in console.export_text().splitlines() if line.startswith("stoch"))
    assert row.split("  ")[0] == "stochastic"
    assert "8 hold, 2 fail" in row
    assert "1 open, 2 differ" in row
    assert row.rstrip().endswith("4:38 min")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "60 s"), (61, "1:01 min"), (7261, "2:01 h")]
)
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text


# --- words ------------------------------------------------------------------------------------


def test_list_names_every_experiment():
    result = paper("--list")
    for name in experiment_names():
        assert re.search(rf"^{name} ", result.stdout, re.MULTILINE)
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "switching" not in paper("copies", "--list").stdout


def test_help_explains_every_option():
    text = paper("--help").stdout
    for option in ("--list", "--full", "--horizon", "--repetitions", "--arms", "--gap",
                   "--output", "--seed", "--threads", "--kl-ucb"):  # fmt: skip
        assert option in text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["stochastc"], "Unknown experiment 'stochastc'; did you mean 'stochastic'?"),
        (["open_problem"], "Unknown experiment 'open_problem'; did you mean 'open-problem'?"),
        (["tabel-1"], "Unknown experiment 'tabel-1'; did you mean 'table-1'?"),
        (["--horizon", "many"], "The option --horizon must be a whole number of at least 100"),
        (["--horizon", "10"], "The option --horizon must be a whole number of at least 100"),
        (["--repetitions", "1"], "The option --repetitions must be a whole number of at least 2"),
        (["--arms", "2,x"], "The option --arms must be a whole number of at least 2"),
        (["--gap", "big"], "The option --gap must be a number"),
        (["--gap", "0.9"], "The gap of paper must be numbers above 0 and up to 1/2, got [0.9]."),
        (["--threads", "0"], "The option --threads must be a whole number of at least 1"),
        (["--seed", "-1"], "The option --seed must be a whole number of at least 0"),
    ],
)
def test_wrong_words_get_a_sentence_and_nothing_is_written(arguments, sentence, tmp_path):
    folder = tmp_path / "results"
    assert refused(*arguments, "--output", folder).startswith(sentence)
    assert not folder.exists()


def test_a_misspelt_option_is_answered_with_the_right_one():
    result = paper("--ful", code=2)
    assert "--full" in result.stderr


def test_a_misspelt_command_is_answered_with_the_right_one():
    result = CliRunner().invoke(app, ["papr"], prog_name="bothworlds")
    assert result.exit_code == 2
    assert "paper" in result.stderr


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    sentence = refused("copies", "--output", tmp_path / "taken" / "x", *SMALLEST)
    assert sentence.startswith("The output of paper must be a folder that can be written")


def test_the_default_folder_is_named_after_the_scale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paper("copies", *SMALLEST)
    assert (tmp_path / "results" / "quick" / "report.html").is_file()


def test_what_is_compiled_is_counted_before_anything_runs(tmp_path):
    counted, done = [], []
    run_paper(
        "copies", output=tmp_path, horizon=200, repetitions=2, arms=[5, 8],
        compiling=lambda *now: counted.append(now), finished=done.append,
    )  # fmt: skip
    # Each form of Tsallis-INF has a loop of its own, and the environment has one kernel; another
    # number of arms needs nothing new.
    assert counted == [(0, 3), (2, 3), (3, 3)]
    assert [each.id for each in done] == ["copies"]
    counted.clear()
    run_paper("copies", output=tmp_path, horizon=200, repetitions=2, arms=[5, 8],
              compiling=lambda *now: counted.append(now))  # fmt: skip
    assert counted == [], "what was finished before is not compiled again"


def test_python_callers_get_the_claims(tmp_path):
    (done,) = run_paper(["copies"], output=tmp_path, horizon=200, repetitions=2, arms=[2, 4])
    assert done.id == "copies"
    assert done.simulated == 4
    assert {claim.id for claim in done.claims} >= {"copies.rv-decreasing", "copies.bound"}
    with pytest.raises(bw.errors.InvalidParameter, match=r'^The scale of paper must be "quick"'):
        run_paper(["copies"], scale="huge", output=tmp_path)
