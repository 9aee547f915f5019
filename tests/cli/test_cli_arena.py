"""The command arena: every policy in every world, drawn, put into words, and resumable."""

from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import bothworlds as bw
from bothworlds.cli import app
from bothworlds.experiments import arena
from bothworlds.registry import words
from bothworlds.text import grouped

SMALL = ["--horizon", "400", "--repetitions", "16", "--arms", "4"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["arena", *map(str, arguments)], prog_name="bothworlds")
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


@pytest.mark.slow
def test_a_line_for_every_world_and_a_heat_map(tmp_path):
    options = ["--policies", "tsallis,uniform", "--worlds", "drift,fixed means", *SMALL]
    text = run(*options, "--output", tmp_path / "out").stdout
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert [line.split(":")[0] for line in lines] == ["| drift", "| fixed means"]
    assert all("Tsallis-INF (RV), " in line and "Uniform, " in line for line in lines)
    assert (tmp_path / "out" / "arena.md").read_text() in text
    for ending in ("png", "pdf"):
        assert (tmp_path / "out" / f"arena.{ending}").stat().st_size > 5_000


@pytest.mark.slow
def test_it_goes_on_where_it_stopped(tmp_path):
    options = ["--policies", "tsallis", *SMALL, "--output", tmp_path / "out"]
    first = run(*options, "--worlds", "drift").stdout
    kept = {path.name for path in (tmp_path / "out" / "store").glob("*.parquet")}
    again = run(*options, "--worlds", "drift,delay").stdout
    assert kept < {path.name for path in (tmp_path / "out" / "store").glob("*.parquet")}
    assert first.splitlines()[2] in again
    # The same numbers without the store.
    world = arena.WORLDS["drift"].make(4, 0.2, 400)
    result = bw.simulate(
        {"Tsallis-INF (RV)": bw.TsallisINF()}, world, horizon=400, repetitions=16, progress=False
    )
    mean = result.regret["Tsallis-INF (RV)"][:, -1].mean()
    assert f"Tsallis-INF (RV), {grouped(mean)} " in again


def test_every_policy_enters_and_plays_where_it_can():
    entered = arena.entrants(1000)
    assert list(entered) == [variant.label for _, variant in words().values()]
    for world in arena.WORLDS.values():
        made = world.make(5, 0.2, world.times * 1000)
        fit = arena.fitting(entered, made)
        assert fit and (len(fit) == len(entered)) != made.unbounded


def test_words_are_those_of_the_numbers():
    def found(**means):
        regret = {name: np.full((3, 1), mean) for name, mean in means.items()}
        return SimpleNamespace(regret=regret)

    table = arena.in_words({"drift": found(A=10.0, B=12.0, C=40.0), "delay": found(A=-1.0, B=3.0)})
    drift, delay = table.splitlines()[2:]
    assert drift.endswith("| A, 10.0 | B | C, 4 times |")
    assert delay.endswith("| A, -1.0 | none | B, 3.0 |")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--worlds", "drit"], "Unknown world 'drit'; did you mean 'drift'?"),
        (["--policies", "tsalis"], "did you mean 'tsallis'?"),
        (["--arms", "3"], "The option --arms must be a whole number of at least 4"),
        (["--horizon", "0"], "The option --horizon must be a whole number"),
    ],
)
def test_refusals(options, sentence, tmp_path):
    result = run(*options, "--output", tmp_path / "out", code=2)
    assert sentence in " ".join(result.stderr.split())
