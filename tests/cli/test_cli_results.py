"""The command results, as a person types it: lists, portraits, figures, tables, wrong words."""

import os
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import bothworlds as bw
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.store import Store
from bothworlds.campaign.store_view import StoreView
from bothworlds.cli import app
from bothworlds.simulation import export as tidy
from bothworlds.text import typed

STOCHASTIC = bw.environments.Stochastic.gap(3, 0.25)
ADAPTIVE = bw.environments.Adaptive(n_arms=3, strategy="punish", gap=0.25)
BOTH = {"Tsallis-INF (RV)": bw.TsallisINF(), "UCB1": bw.UCB1()}
ROUNDS = (10, 100, 400)
COLUMNS = [
    "label", "policy", "environment", "arms", "horizon", "seed", "repetition", "round", "regret",
    "curve",
]  # fmt: skip


def run(policies, world, store, repetitions=20, rounds=ROUNDS, **options):
    return bw.simulate(
        policies, world, horizon=rounds[-1], repetitions=repetitions, checkpoints=rounds,
        store=store, progress=False,
        **options,
    )  # fmt: skip


def results(*arguments, code=0):
    words = ["results", *(str(word) for word in arguments)]
    done = CliRunner().invoke(app, words, prog_name="bothworlds", env={"COLUMNS": "80"})
    assert done.exit_code == code, done.output + repr(done.exception)
    return done


def refused(*arguments, code=1):
    """Return the one sentence on standard error; nothing else was printed."""
    done = results(*arguments, code=code)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    return done.stderr.strip()


def snapshot(folder):
    """Return everything about the files below a folder that writing would change."""
    return {
        path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def label(store, name, world, text, repetitions, rounds=ROUNDS):
    """Ask for a curve under a label, as a campaign does before it runs."""
    store.want([Curve(name, BOTH[name], world, tuple(rounds), repetitions, 0, text)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two stores below one folder, and the results they hold."""
    folder = tmp_path_factory.mktemp("results")
    paper, other = folder / "full" / "store", folder / "other"
    # In two steps, which leave two files of every curve.
    run(BOTH, STOCHASTIC, paper, 8, continuable=True)
    run(BOTH, ADAPTIVE, other, 8, seed=3)
    found = {
        "fixed": run(BOTH, STOCHASTIC, paper, continuable=True),
        "adaptive": run(BOTH, ADAPTIVE, other, seed=3),
    }
    store = Store(paper)
    assert ADAPTIVE.regret == "tracked"
    assert len(list(folder.rglob("*-8-12.parquet"))) == 4
    label(store, "UCB1", STOCHASTIC, "stochastic K=3, gap=1/4", 20)
    label(store, "UCB1", STOCHASTIC, "switching beside it", 20)
    # Half of this one is there, and nothing of the other.
    label(store, "Tsallis-INF (RV)", STOCHASTIC, "stochastic K=3, gap=1/4", 40)
    far = bw.environments.Stochastic.gap(30, 0.25)
    label(store, "Tsallis-INF (RV)", far, "stochastic K=30, gap=1/4", 16, (10, 25_000))
    return folder, found


@pytest.fixture
def copied(made, tmp_path):
    """The first of the two stores, to be changed."""
    shutil.copytree(made[0] / "full" / "store", tmp_path / "store")
    return tmp_path / "store"


# --- ls ---------------------------------------------------------------------------------------


def test_ls_lists_every_curve_and_how_far_it_is(made):
    folder, _ = made
    before = snapshot(folder)
    lines = results("ls", folder).stdout.splitlines()
    assert snapshot(folder) == before
    assert lines[0].split() == ["policy", "horizon", "seed", "runs", "size", "curve"]
    assert lines[1] == f"{folder / 'full' / 'store'}"
    cells = [re.split(r" {2,}", line.strip()) for line in lines if line.startswith("    ")][1:]
    assert [row[:5] for row in cells] == [
        ["Tsallis-INF (RV)", "400", "0", "20/40", "50 %"],
        ["UCB1", "400", "0", "20/20", "done"],
        ["Tsallis-INF (RV)", "2.5e4", "0", "0/16", "0 %"],
        ["Tsallis-INF (RV)", "400", "3", "20/20", "done"],
        ["UCB1", "400", "3", "20/20", "done"],
    ]
    titles = [line.strip() for line in lines if re.match(r"  \w", line)]
    assert titles == [
        "stochastic K=3, gap=1/4",
        "stochastic K=3, gap=1/4; switching beside it",
        "stochastic K=30, gap=1/4",
        repr(ADAPTIVE),
    ]
    stems = {path.name[:8] for path in folder.rglob("*.json")}
    assert {row[-1] for row in cells} == stems
    files = [path for path in folder.rglob("*") if path.suffix in (".json", ".parquet")]
    size = sum(path.stat().st_size for path in files)
    assert lines[-1] == (
        f"3 of 5 curves complete; 80 of 116 runs (68 %); {len(files)} files, {size / 1e3:.0f} kB"
    )


def test_ls_fits_a_terminal_however_long_the_names(tmp_path):
    policies = {"a policy " * 20: bw.UCB1(), "b": bw.UCB1(c=2.0)}
    run(policies, bw.environments.Stochastic(np.linspace(0.1, 0.9, 30)), tmp_path)
    lines = results("ls", tmp_path).stdout.splitlines()
    assert all(len(line) <= 80 for line in lines if line != str(tmp_path))
    assert lines[3].startswith("    a policy a policy")
    assert re.search(r"…  +400     0  20/20  done  +\d+ kB  [0-9a-f]{8}$", lines[3])


@pytest.mark.processes
def test_ls_is_quick_because_it_loads_no_numba(made):
    code = (
        "import sys\nfrom bothworlds.cli import app\n"
        f"app(['results', 'ls', {str(made[0])!r}], standalone_mode=False)\n"
        "print(*sorted({'numba', 'pyarrow', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_shards_describe_a_curve_whose_own_file_is_lost(copied):
    for path in copied.glob("*.json"):
        path.unlink()
    done = results("ls", copied)
    assert re.search(rf"^  {re.escape(repr(STOCHASTIC))}$", done.stdout, re.MULTILINE)
    assert len(re.findall(r" 400     0  20/\? ", done.stdout)) == 2
    assert done.stdout.splitlines()[-1].startswith("2 of 2 curves complete; 40 of 40 runs (100 %)")


def test_a_description_that_is_damaged_is_done_without(copied):
    path = next(path for path in copied.glob("*.json") if "UCB1" in path.read_text("utf-8"))
    path.write_text('{"name": "UCB1"}', encoding="utf-8")
    assert "20/?" in results("ls", copied).stdout


def test_ls_counts_what_was_set_aside(copied):
    victim = sorted(copied.glob("*.parquet"))[0]
    victim.rename(victim.with_name(f"{victim.name}.damaged"))
    words = " ".join(results("ls", copied).stdout.split())
    assert words.endswith("; 1 damaged file set aside")


def test_ls_while_a_campaign_is_running(tmp_path):
    label(store := Store(tmp_path), "UCB1", STOCHASTIC, "running", 320)
    assert "0/320" in results("ls", store.folder).stdout
    done = threading.Event()

    def work():
        run({"UCB1": bw.UCB1()}, STOCHASTIC, tmp_path, repetitions=320)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    seen = []
    while not done.is_set():
        seen.append(int(re.search(r" (\d+)/320 ", results("ls", tmp_path).stdout).group(1)))
    thread.join()
    assert seen == sorted(seen)
    assert "320/320  done" in results("ls", tmp_path).stdout


# --- show -------------------------------------------------------------------------------------


def test_show_describes_a_curve(made):
    folder, found = made
    before = snapshot(folder)
    text = results("show", "ucb1", "switching", "--store", folder).stdout
    assert snapshot(folder) == before
    told = dict(re.findall(r"^  (\w+) +(\S.*)$", text, re.MULTILINE))
    assert text.startswith("UCB1\n")
    assert told["policy"] == "UCB1()"
    assert told["environment"] == repr(STOCHASTIC)
    assert told["labels"] == "stochastic K=3, gap=1/4; switching beside it"
    assert (told["arms"], told["seed"], told["horizon"]) == ("3", "0", "400")
    assert told["checkpoints"] == "3, from round 10 to 400"
    assert told["repetitions"] == "20 of 20"
    assert told["continuable"] == "yes"
    assert told["versions"].startswith(f"bothworlds {bw.__version__}, ")
    assert told["store"] == str(folder / "full" / "store")
    assert text.rstrip().endswith(str(found["fixed"].summary()).splitlines()[-1][17:])
    speed = 20 * 400 / found["fixed"].wall["UCB1"] / 1e6
    assert f"{speed:,.1f} M rounds/s" in told["time"]
    assert all(len(line) <= 80 for line in text.splitlines() if str(folder) not in line)


def test_show_tells_what_is_missing(made):
    text = results("show", "stochastic K=3 RV", "--store", made[0]).stdout
    assert re.search(r"^  repetitions +20 of 40, without 20 to 39$", text, re.MULTILINE)
    text = results("show", "K=30", "--store", made[0]).stdout
    assert re.search(r"^  repetitions +0 of 16, without 0 to 15$", text, re.MULTILINE)
    assert text.endswith("\nNo run is finished yet.\n")


def test_show_takes_the_beginning_of_a_code(made):
    folder, _ = made
    for path in folder.rglob("*.json"):
        for word in (path.stem, path.stem[:8].upper()):
            assert path.stem in results("show", word, "--store", folder).stdout


def test_several_curves_are_listed(made):
    done = results("show", "UCB1", "--store", made[0], code=2)
    lines = done.stdout.splitlines()
    stem = re.compile(r"[0-9a-f]{20}-400-[0-9a-f]{8}  UCB1 in ")
    assert len(lines) == 2
    assert all(map(stem.match, lines))
    assert done.stderr == (
        "There are 2 curves for 'UCB1', and show takes one: add words, or give the first "
        "characters of a code.\n"
    )
    assert all(len(line) <= 80 for line in lines)


def test_curves_that_differ_in_length_only_can_be_told_apart(tmp_path):
    for rounds in ((10, 100), (10, 10_000)):
        run({"UCB1": bw.UCB1()}, STOCHASTIC, tmp_path, 8, rounds)
    code = next(tmp_path.glob("*.json")).name[:8]
    assert "There are 2 curves" in results("show", code, "--store", tmp_path, code=2).stderr
    for words in ([code, "horizon=1e4"], ["1e4"], ["seed=0", "1e4"]):
        assert "-10000-" in results("show", *words, "--store", tmp_path).stdout


# --- plot -------------------------------------------------------------------------------------

MAGIC = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAGIC)
def test_plot_draws_the_curves_of_one_environment_together(made, tmp_path, kind):
    folder, _ = made
    before = snapshot(folder)
    path = tmp_path / f"figure.{kind}"
    done = results("plot", "stochastic", "--store", folder, "--output", path)
    assert snapshot(folder) == before
    assert path.read_bytes().startswith(MAGIC[kind])
    assert done.stdout == f"Written: {path} (2 curves, 1 of them not complete)\n"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_figure_has_its_label_its_policies_and_its_runs(made, tmp_path, monkeypatch):
    from bothworlds import plotting

    figures = []
    monkeypatch.setattr(plotting, "save", lambda figure, path: figures.append(figure))
    run({"UCB1": bw.UCB1()}, STOCHASTIC, tmp_path / "store", 8)
    run(BOTH, STOCHASTIC, tmp_path / "store", 4)
    results("plot", "--store", tmp_path)
    (figure,) = figures
    assert "".join(figure.get_suptitle().split()) == "".join(repr(STOCHASTIC).split())
    assert {text.get_text() for text in figure.axes[-1].texts} == set(BOTH)
    assert figure.get_supxlabel().startswith("400 rounds, 4 to 8 repetitions;")


@pytest.mark.slow
def test_every_environment_has_a_figure_named_after_it(made, tmp_path):
    done = results("plot", "--store", made[0], "--output", tmp_path / "all.png")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "all-Adaptive-n-arms=3-strategy=-punish-gap=0.25.png",
        "all-stochastic-K=3-gap=1-4-switching-beside-it.png",
    ]
    assert sorted(re.findall(r"all-\S+", done.stdout)) == names


@pytest.mark.slow
def test_seeds_and_horizons_have_figures_of_their_own(tmp_path):
    for seed, rounds in ((0, (10, 100)), (1, (10, 100)), (0, (10, 20_000)), (0, (5, 100))):
        run({"UCB1": bw.UCB1()}, STOCHASTIC, tmp_path / "store", 4, rounds, seed=seed)
    results("plot", "--store", tmp_path, "--output", tmp_path / "a.png")
    names = sorted(path.name.rpartition("0.625-")[2] for path in tmp_path.glob("*.png"))
    assert names == ["T=100-seed-0.png", "T=100-seed-0~2.png", "T=100-seed-1.png",
                     "T=2e4-seed-0.png"]  # fmt: skip


def test_curves_of_equal_names_are_told_apart_by_their_codes(tmp_path, monkeypatch):
    from bothworlds import plotting

    figures = []
    monkeypatch.setattr(plotting, "save", lambda figure, path: figures.append(figure))
    for policy in (bw.UCB1(), bw.UCB1(c=2.0)):
        run({"mine": policy}, STOCHASTIC, tmp_path, 4)
    results("plot", "--store", tmp_path)
    codes = {f"mine [{path.name[:8]}]" for path in tmp_path.glob("*.json")}
    assert {text.get_text() for text in figures[0].axes[-1].texts} == codes


# --- export -----------------------------------------------------------------------------------


def read(path):
    """Return a table with plain text in its columns of words."""
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(path)
    table = pyarrow.parquet.read_table(path)
    schema = pyarrow.schema(
        (each.name, pyarrow.string() if pyarrow.types.is_dictionary(each.type) else each.type)
        for each in table.schema
    )
    return table.cast(schema)


@pytest.fixture(scope="module", params=["csv", "parquet"])
def table(made, tmp_path_factory, request):
    folder, _ = made
    path = tmp_path_factory.mktemp("export") / f"all.{request.param}"
    before = snapshot(folder)
    done = results("export", path, "--store", folder)
    assert snapshot(folder) == before
    assert done.stdout == f"Written: {path} (4 curves, 240 rows; 2 of 5 are not complete)\n"
    return path, read(path)


def test_the_columns_are_tidy(table):
    path, rows = table
    assert rows.column_names == COLUMNS
    numbers = {"arms": "int64", "horizon": "int64", "seed": "int64", "repetition": "int64",
               "round": "int64", "regret": "double"}  # fmt: skip
    assert {name: str(rows.schema.field(name).type) for name in COLUMNS} == {
        name: numbers.get(name, "string") for name in COLUMNS
    }
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(("which", "world"), [("fixed", STOCHASTIC), ("adaptive", ADAPTIVE)])
def test_the_numbers_are_those_of_the_result(table, made, which, world):
    result = made[1][which]
    rows = table[1].to_pylist()
    for name in BOTH:
        mine = [r for r in rows if r["policy"] == name and r["environment"] == repr(world)]
        regret = {(row["repetition"], row["round"]): row["regret"] for row in mine}
        assert len(mine) == len(regret) == 20 * len(ROUNDS)
        for number, line in zip(result.repetitions[name], result.regret[name], strict=True):
            for when, value in zip(ROUNDS, line, strict=True):
                assert regret[number, when] == value
        assert {(row["arms"], row["horizon"], row["seed"]) for row in mine} == {
            (3, 400, result.seed)
        }
        assert len({(row["label"], row["curve"]) for row in mine}) == 1


def test_csv_and_parquet_hold_the_same(made, tmp_path):
    for kind in ("csv", "parquet"):
        results("export", tmp_path / f"a.{kind}", "--store", made[0])
    assert read(tmp_path / "a.csv") == read(tmp_path / "a.parquet")


def test_labels_and_policies_choose_what_is_exported(made, tmp_path):
    path = tmp_path / "a.parquet"
    for words, curves in (
        (["switching"], {("stochastic K=3, gap=1/4; switching beside it", "UCB1")}),
        (["stochastic Tsallis"], {("stochastic K=3, gap=1/4", "Tsallis-INF (RV)")}),
        (["punish UCB1", "K=3 RV"], {(repr(ADAPTIVE), "UCB1"),
                                      ("stochastic K=3, gap=1/4", "Tsallis-INF (RV)")}),
    ):  # fmt: skip
        results("export", path, *words, "--store", made[0])
        rows = read(path).to_pylist()
        assert {(row["label"], row["policy"]) for row in rows} == curves


def test_a_large_table_is_written_in_parts(made, tmp_path, monkeypatch):
    results("export", tmp_path / "whole.parquet", "--store", made[0])
    monkeypatch.setattr(tidy, "ROWS", 50)
    results("export", tmp_path / "parts.parquet", "--store", made[0])
    results("export", tmp_path / "parts.csv", "--store", made[0])
    parts = pyarrow.parquet.ParquetFile(tmp_path / "parts.parquet")
    sizes = [parts.metadata.row_group(i).num_rows for i in range(parts.num_row_groups)]
    assert len(sizes) >= 4
    assert max(sizes) < 100
    whole = read(tmp_path / "whole.parquet")
    assert whole == read(tmp_path / "parts.parquet") == read(tmp_path / "parts.csv")


def test_a_curve_in_two_stores_is_taken_once_where_there_is_more_of_it(copied, tmp_path):
    other = tmp_path / "the fuller one"
    run(BOTH, STOCHASTIC, other, 24)
    results("export", tmp_path / "a.parquet", "--store", tmp_path)
    rows = read(tmp_path / "a.parquet").to_pylist()
    keys = {(row["curve"], row["repetition"], row["round"]) for row in rows}
    assert len(keys) == len(rows) == 2 * 24 * 3


def test_seeds_of_any_size_are_kept(tmp_path):
    seed = 2**100 + 1
    run({"UCB1": bw.UCB1()}, STOCHASTIC, tmp_path / "store", 4, seed=seed)
    for kind in ("csv", "parquet"):
        results("export", tmp_path / f"a.{kind}", "--store", tmp_path)
    assert str(seed) in (tmp_path / "a.csv").read_text(encoding="utf-8")
    assert set(read(tmp_path / "a.parquet")["seed"].to_pylist()) == {str(seed)}


# --- faults -----------------------------------------------------------------------------------


def test_a_damaged_shard_is_reported_and_the_rest_is_used(copied, tmp_path):
    shelf = StoreView(copied).shelves()[0]
    assert shelf.spans == ((0, 8), (8, 20))
    victim, left = copied / f"{shelf.stem}-0-8.parquet", 12
    victim.write_bytes(victim.read_bytes()[:-9])
    before = snapshot(copied)
    sentence = f"The file {victim.name} is damaged, or not a shard; its content is left out."
    shown = results("show", shelf.stem, "--store", copied)
    assert shown.stderr.strip() == sentence
    assert f"  repetitions  {left} of 40, without 0 to 7, 20 to 39\n" in shown.stdout
    for command in (["export", tmp_path / "a.csv"], ["plot", "--output", tmp_path / "a.png"]):
        done = results(*command, "--store", copied)
        assert done.stderr.strip() == sentence
        assert "Written: " in done.stdout
    rows = pyarrow.csv.read_csv(tmp_path / "a.csv").to_pylist()
    assert len(rows) == 3 * (20 + left)
    assert snapshot(copied) == before, "results changes nothing"


def test_nothing_but_damage_leaves_no_file(tmp_path):
    store = tmp_path / "store"
    run({"UCB1": bw.UCB1()}, STOCHASTIC, store, 4)
    for path in store.glob("*.parquet"):
        path.write_bytes(b"nothing")
    for command in (["export", tmp_path / "a.csv"], ["plot", "--output", tmp_path / "a.png"]):
        done = results(*command, "--store", store, code=1)
        assert "is damaged" in done.stderr.splitlines()[0]
        assert "finished run" in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.skipif(os.name == "nt", reason="limits of another system")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_full_disk_gets_a_sentence_and_the_old_table_stays(made, tmp_path, kind):
    import resource

    path = tmp_path / f"a.{kind}"
    path.write_text("old", encoding="utf-8")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, hard))
    try:
        sentence = refused("export", path, "--store", made[0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sentence.startswith(f"The table was not saved to {path}: ")
    assert "File too large" in sentence
    assert path.read_text(encoding="utf-8") == "old"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("command", [["show", "K=3 RV"], ["plot"], ["export", "a.csv"], ["ls"]])
def test_ctrl_c_is_quiet(made, tmp_path, monkeypatch, command):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(StoreView, "shelves" if command == ["ls"] else "_usable", stop)
    where = [made[0]] if command == ["ls"] else ["--store", made[0]]
    done = results(*command, *where, code=130)
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    label(Store(tmp_path), "UCB1", STOCHASTIC, "more than a pipe takes at once", 4)
    (path,) = tmp_path.glob("*.json")
    for number in range(2000):
        shutil.copy(path, tmp_path / f"{number:020x}{path.name[20:]}")
    command = [sys.executable, "-m", "bothworlds", "results", "ls", str(tmp_path)]
    # Unbuffered, Python drops what a pipe does not take, and never learns that nothing reads.
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=buffered) as running:
        assert running.stdout.readline().split()[0] == b"policy"
        running.stdout.close()
        assert running.stderr.read() == b""


# --- words ------------------------------------------------------------------------------------

LIST = "bothworlds results ls lists the curves."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("UCB2", "Unknown curve 'UCB2'; did you mean 'UCB1'?"),
        ("stochastik", "Unknown curve 'stochastik'; did you mean 'stochastic'?"),
        ("switching UBC1", "Unknown curve 'switching UBC1'; did you mean 'UCB1'?"),
        ("tsalis-inf", "Unknown curve 'tsalis-inf'; did you mean 'Tsallis-INF'?"),
        ("K=300", "Unknown curve 'K=300'; did you mean 'K=30'?"),
        ("zebra", f"Unknown curve 'zebra'; {LIST}"),
        (" ", f"Unknown curve ' '; {LIST}"),
        ("switching RV", f"Unknown curve 'switching RV'; {LIST}"),
    ],
)
@pytest.mark.parametrize("command", [["show"], ["plot"], ["export", "a.csv"]])
def test_an_unknown_word_gets_the_nearest(made, tmp_path, monkeypatch, command, word, sentence):
    monkeypatch.chdir(tmp_path)
    assert refused(*command, word, "--store", made[0], code=2) == sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["ls"], ["show", "x"], ["plot"], ["export", "a.csv"]])
def test_a_missing_or_empty_folder_says_what_to_run(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    assert refused(*command) == (
        "There is no folder 'results'; bothworlds paper creates 'results', and bothworlds compare "
        "'comparison'."
    )
    (tmp_path / "results").mkdir()
    assert refused(*command) == (
        "There are no results in 'results'; bothworlds paper or bothworlds compare creates some "
        "with --output results."
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]


def test_wrong_endings_and_places_are_refused(made, tmp_path):
    where = ["--store", made[0]]
    assert refused("export", "a.xlsx", *where, code=2) == (
        "The path of export must be a name ending in .parquet or .csv, got 'a.xlsx'."
    )
    assert refused("plot", "--output", "a.txt", *where, code=2) == (
        "The option --output must be a name ending in .png, .pdf or .svg, got 'a.txt'."
    )
    far = tmp_path / "nowhere"
    assert refused("export", far / "a.csv", *where) == (
        f"The table was not saved to {far / 'a.csv'}: No such file or directory."
    )
    assert refused("plot", "switching", "--output", far / "a.png", *where) == (
        f"The figure was not saved to {far / 'a.png'}: No such file or directory."
    )
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert "Not a directory" in refused("ls", tmp_path / "file")


def test_a_misspelt_command_gets_the_nearest():
    assert refused("lst", code=2) == "Unknown command 'lst'; did you mean 'ls'?"


@pytest.mark.parametrize("command", [[], ["ls"], ["show"], ["plot"], ["export"]])
def test_help_fits_and_gives_an_example(command):
    text = results(*command, "--help").stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "bothworlds results" in text.partition("Usage")[2].partition("\n")[2]


def test_rounds_are_written_as_people_type_them():
    for number in (1, 999, 9_999, 10_000, 10**7, 250_000, 1_234_567, 12_000_000):
        assert float(typed(number)) == number
    assert [typed(10**k) for k in (3, 4, 7)] == ["1000", "1e4", "1e7"]
