"""`Result`: statistics, tables, files."""

import csv
import dataclasses
import errno
import os
import sys

import numpy as np
import pyarrow.parquet as parquet
import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter, MissingExtra, ResultFileError
from bothworlds.simulation.result import trimmed_mean

WORLD = bw.environments.Stochastic.gap(4, 0.25)


@pytest.fixture(scope="module")
def result():
    return bw.simulate([bw.TsallisINF(), bw.Uniform()], WORLD, horizon=1000, repetitions=33,
                       seed=2, progress=False)  # fmt: skip


def test_saved_and_loaded_results_are_equal(result, tmp_path):
    path = tmp_path / "result.parquet"
    result.save(path)
    again = bw.Result.load(path)
    for name in result.names:
        assert np.array_equal(result.regret[name], again.regret[name])
        assert np.array_equal(result.plays[name], again.plays[name])
        assert np.array_equal(result.repetitions[name], again.repetitions[name])
    assert np.array_equal(result.checkpoints, again.checkpoints)
    for part in ("wall", "cpu", "policies", "environment", "seed", "interrupted", "versions"):
        assert getattr(result, part) == getattr(again, part)
    assert os.listdir(tmp_path) == ["result.parquet"]


def test_foreign_damaged_and_newer_files_are_refused(result, tmp_path):
    path = tmp_path / "result.parquet"
    result.save(path)
    table = parquet.read_table(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ResultFileError, match="not a readable Parquet file"):
        bw.Result.load(path)
    parquet.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(ResultFileError, match="not a saved Result"):
        bw.Result.load(path)
    newer = table.schema.metadata[b"bothworlds.result"].replace(b'"version": 1', b'"version": 9')
    parquet.write_table(table.replace_schema_metadata({"bothworlds.result": newer}), path)
    with pytest.raises(ResultFileError, match="format version 9"):
        bw.Result.load(path)
    with pytest.raises(FileNotFoundError):
        bw.Result.load(tmp_path / "none.parquet")


def test_a_full_disk_leaves_the_old_file(result, tmp_path, monkeypatch):
    path = tmp_path / "result.parquet"
    result.save(path)
    before = path.read_bytes()

    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", full)
    with pytest.raises(ResultFileError, match="No space left on device"):
        result.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["result.parquet"]


def test_saving_into_a_folder_that_is_not_there(result, tmp_path):
    with pytest.raises(ResultFileError, match="No such file or directory"):
        result.save(tmp_path / "none" / "result.parquet")


def test_summary_fits_a_terminal_and_is_right(result):
    summary = result.summary()
    assert max(map(len, str(summary).splitlines())) <= 80
    final = result.regret["Uniform()"][:, -1]
    row = summary.rows["Uniform()"]
    assert row["mean"] == pytest.approx(final.mean())
    assert row["sd"] == pytest.approx(final.std(ddof=1))
    assert row["5 %"] <= row["median"] <= row["95 %"]
    assert result.summary(at=int(result.checkpoints[3])).round == result.checkpoints[3]
    with pytest.raises(InvalidParameter, match=r"at of Result\.summary"):
        result.summary(at=999_999)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 37.0, 999.96, 99_999.7, 1e6, -123_456_789.0, 1e12])
def test_columns_never_run_together(result, scale):
    regret = {"x": np.full((5, result.checkpoints.size), scale)}
    large = bw.Result(**{**vars(result), "regret": regret, "repetitions": {"x": np.arange(5)}})
    row = str(large.summary()).splitlines()[-1]
    assert len(row.split()) == 8
    assert len(row) <= 80


def test_names_are_escaped_in_html(result):
    odd = bw.Result(
        **{**vars(result), "regret": {"<i>x</i>": np.ones((5, result.checkpoints.size))}}
    )
    assert "&lt;i&gt;" in odd._repr_html_()


def test_trimmed_mean_ignores_outliers():
    values = np.append(np.ones(98), [1e9, -1e9])
    assert trimmed_mean(values) == 1.0
    assert trimmed_mean(values, share=0.0) != 1.0


def test_compare_is_paired(result):
    pair = result.compare("Uniform()", "TsallisINF()")
    difference = result.regret["Uniform()"][:, -1] - result.regret["TsallisINF()"][:, -1]
    assert pair.difference == pytest.approx(difference.mean())
    assert 0 < pair.low < pair.difference < pair.high
    self_pair = result.compare("Uniform()", "Uniform()")
    assert (self_pair.low, self_pair.high) == (0.0, 0.0)
    assert "33 pairs" in str(pair)
    with pytest.raises(InvalidParameter, match=r"second of Result\.compare"):
        result.compare("Uniform()", "UCB1()")


def test_to_frame_is_tidy(result):
    table = result.to_frame()
    assert table.column_names == ["policy", "repetition", "round", "regret"]
    assert table.num_rows == 2 * 33 * result.checkpoints.size
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    assert last["regret"] == result.regret["Uniform()"][-1, -1]
    assert (last["repetition"], last["round"]) == (32, 1000)


def test_result_prints_itself(result):
    assert "TsallisINF(), Uniform()" in repr(result)
    assert result._repr_html_().startswith("<table><caption>Pseudo-regret at round 1,000")
    assert "<caption>" in result.ranking()._repr_html_()


# --- tables and frames ------------------------------------------------------------------------


def test_csv_is_obeyed_and_other_formats_are_refused(result, tmp_path):
    path = tmp_path / "runs.csv"
    result.save(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == '"policy","repetition","round","regret"'
    assert len(lines) == 1 + 2 * 33 * result.checkpoints.size
    for ending in ("json", "xlsx", "png"):
        with pytest.raises(InvalidParameter, match=r"ending in \.parquet or \.csv"):
            result.save(tmp_path / f"runs.{ending}")
    assert os.listdir(tmp_path) == ["runs.csv"]
    result.save(tmp_path / "bare")
    assert bw.Result.load(tmp_path / "bare").names == result.names


def test_frames_of_other_packages(result, monkeypatch):
    frame = result.to_pandas()
    assert list(frame.columns) == ["policy", "repetition", "round", "regret"]
    assert len(frame) == result.to_frame().num_rows
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"run: pip install polars$"):
        result.to_polars()


def test_summaries_become_tables(result):
    summary = result.summary()
    assert summary.to_markdown().splitlines()[0].startswith("| policy | runs | mean |")
    assert r"5 \%" in summary.to_latex()
    head, *rows = csv.reader(summary.to_csv().splitlines())
    assert head[:3] == ["policy", "runs", "mean"]
    means = {row[0]: float(row[2]) for row in rows}
    assert means == {name: row["mean"] for name, row in summary.rows.items()}


def test_a_round_that_was_not_recorded_is_answered_with_those_around_it(result):
    with pytest.raises(InvalidParameter, match=r"checkpoints (\d+, )+\d+ \(of 41, the nearest\)"):
        result.summary(at=555)
    short = dataclasses.replace(result, checkpoints=np.array([5, 7]))
    with pytest.raises(InvalidParameter, match="checkpoints 5, 7, got 6"):
        short.summary(at=6)


# --- arms -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counted():
    return bw.simulate([bw.TsallisINF(), bw.Uniform()], WORLD, horizon=1000, repetitions=33,
                       seed=2, progress=False, shares=True)  # fmt: skip


def test_plays_at_checkpoints_are_those_of_the_same_runs(result, counted, tmp_path):
    for name in result.names:
        assert np.array_equal(counted.regret[name], result.regret[name])
        assert np.array_equal(counted.plays[name], result.plays[name])
        at = counted.plays_at[name]
        assert at.shape == (33, counted.checkpoints.size, 4)
        assert (at.sum(axis=2) == counted.checkpoints).all()
        assert np.array_equal(at[:, -1], counted.plays[name])
        # The regret of a run is the gaps of its plays, at every checkpoint.
        assert np.array_equal(0.25 * at[:, :, 1:].sum(axis=2), counted.regret[name])
    assert result.plays_at == {}
    counted.save(tmp_path / "a.parquet")
    again = bw.Result.load(tmp_path / "a.parquet")
    assert all(np.array_equal(again.plays_at[n], counted.plays_at[n]) for n in counted.names)


def test_arms_are_drawn_over_time_or_in_all(result, counted):
    over_time = counted.plot_arms()
    shares = counted.plays_at["Uniform()"] / counted.checkpoints[:, None]
    line = over_time.axes[1].get_lines()[2]
    np.testing.assert_allclose(line.get_ydata(), shares[:, :, 2].mean(axis=0))
    in_all = result.plot_arms(policies=["Uniform()"], arms=[3, 0])
    heights = [bar.get_height() for bar in in_all.axes[0].patches]
    plays = result.plays["Uniform()"][:, [3, 0]] / 1000
    np.testing.assert_allclose(heights, plays.mean(axis=0))
    with pytest.raises(InvalidParameter, match=r"^The arms of plot_arms must be numbers from 0 to"):
        result.plot_arms(arms=[4])


def test_comparators_of_every_run_are_saved_and_end_with_a_curve_from_elsewhere(tmp_path):
    world = bw.environments.Adaptive(3, "punish", gap=0.25)
    made = bw.simulate(
        {"UCB1": bw.UCB1(), "uniform": bw.Uniform()}, world, horizon=200, repetitions=4, seed=1,
        progress=False,
    )  # fmt: skip
    # The arm that was played last has the mean 5/8, all others 3/8.
    moving = made.regret_against("dynamic")
    per_round = moving["uniform"][:, -1] / 200
    assert ((per_round > 0.0) & (per_round < 0.25)).all()
    assert (moving["UCB1"] >= made.regret_against("fixed in this run")["UCB1"] - 1e-9).all()
    made.save(tmp_path / "a.parquet")
    again = bw.Result.load(tmp_path / "a.parquet")
    for name, kept in again.regret_against("dynamic").items():
        assert np.array_equal(kept, moving[name])
    assert "dynamic" not in made.add("mine", made.regret["UCB1"]).comparators


def test_regret_against_the_other_comparator_is_that_of_the_other_environment(result, tmp_path):
    found = {
        kind: bw.simulate(
            bw.Uniform(), bw.environments.Piecewise.gap(3, 0.5, every=300, comparator=kind),
            horizon=1000, repetitions=64, seed=1, progress=False,
        )
        for kind in ("block", "fixed")
    }  # fmt: skip
    block, fixed = found["block"], found["fixed"]
    plays = block.regret["Uniform()"] - block.regret_against("fixed")["Uniform()"]
    other = fixed.regret_against("block")["Uniform()"] - fixed.regret["Uniform()"]
    np.testing.assert_allclose(plays, other)
    t = block.checkpoints
    assert (plays >= -1e-9).all()
    # A best arm of every block gains the gap where the best fixed arm is another one.
    assert plays[0, -1] == pytest.approx(0.5 * (1000 - 400))
    assert np.allclose(plays[:, t <= 300], 0.0), "in the first block the best arms are the same"
    block.save(tmp_path / "a.parquet")
    again = bw.Result.load(tmp_path / "a.parquet").regret_against("fixed")
    assert np.array_equal(again["Uniform()"], block.regret_against("fixed")["Uniform()"])
    with pytest.raises(InvalidParameter, match="one of dynamic, fixed in this run, got 'fixed'"):
        result.regret_against("fixed")


def test_a_store_keeps_no_shares(tmp_path):
    with pytest.raises(InvalidParameter, match=r"^The shares of simulate must be False with a"):
        bw.simulate(bw.UCB1(), WORLD, horizon=10, store=tmp_path, shares=True)
    assert list(tmp_path.iterdir()) == []


# --- ranking ----------------------------------------------------------------------------------


def made_up(runs):
    """Return a result of one round with the regrets given, by policy."""
    n = len(next(iter(runs.values())))
    return bw.Result(
        checkpoints=np.array([1]),
        regret={name: np.asarray(values)[:, None] for name, values in runs.items()},
        plays={name: np.ones((n, 2), dtype=np.int64) for name in runs},
        repetitions={name: np.arange(n) for name in runs},
        wall={}, cpu={}, policies={}, environment="", seed=5,
    )  # fmt: skip


def test_a_ranking_has_every_pair_the_better_one_second(result):
    ranking = result.ranking()
    assert list(ranking.means) == ["TsallisINF()", "Uniform()"]
    (pair,) = ranking.pairs
    assert (pair.first, pair.second) == ("Uniform()", "TsallisINF()")
    assert 0 < pair.low < pair.difference < pair.high
    assert "No clear difference" not in str(ranking)
    assert len(ranking.plot().axes) == 1


def test_equal_policies_are_not_told_apart():
    rng = np.random.default_rng(1)
    ranking = made_up({name: rng.normal(10, 2, 40) for name in "abc"}).ranking()
    assert len(ranking.pairs) == 3
    assert all(pair.low < 0 < pair.high for pair in ranking.pairs)
    assert "No clear difference" in str(ranking)


def test_pairs_of_runs_that_share_their_noise_are_told_apart():
    noise = np.random.default_rng(2).normal(0, 50, 40)
    shift = np.random.default_rng(3).normal(1, 0.5, 40)
    ranking = made_up({"a": 100 + noise, "b": 100 + noise + shift}).ranking()
    assert ranking.pairs[0].low > 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda r: r.ranking(level=1.5), "The level of Result.ranking must be between 0 and 1"),
        (lambda r: made_up({"a": np.ones(3)}).ranking(), "The policies of Result.ranking must be"),
        (lambda r: r.ranking(at=3.5), "The at of Result.ranking must be one of"),
    ],
)
def test_a_ranking_refuses(call, sentence, result):
    with pytest.raises(InvalidParameter, match=f"^{sentence}"):
        call(result)


@pytest.mark.statistical
def test_all_intervals_of_a_ranking_hold_together():
    """Of 400 rankings of five skewed policies, 95 % have all ten differences in their intervals."""
    true = np.array([10.0, 10.0, 11.0, 12.0, 14.0])
    names = list("abcde")
    rng = np.random.default_rng(7)
    sets, together, alone = 400, 0, 0
    for _ in range(sets):
        common = rng.gamma(4.0, 0.5, size=(48, 1))
        runs = true - 4.0 + rng.gamma(4.0, 0.5, size=(48, 5)) + common
        result = made_up(dict(zip(names, runs.T, strict=True)))
        mean = dict(zip(names, true, strict=True))
        pairs = result.ranking(resamples=999).pairs
        true_of = {p: mean[p.first] - mean[p.second] for p in pairs}
        errors = [abs(true_of[p] - p.difference) for p in pairs]
        together += all(p.low <= true_of[p] <= p.high for p in pairs)
        # A control: intervals for one pair at a time, which ten of them do not keep.
        se = [
            np.std(result.regret[p.first] - result.regret[p.second], ddof=1) / 48**0.5
            for p in pairs
        ]
        alone += all(e <= 1.96 * s for e, s in zip(errors, se, strict=True))
    margin = 4.0 * (0.05 * 0.95 / sets) ** 0.5
    assert together / sets > 0.95 - margin
    assert alone / sets < 0.95 - margin


# --- curves from elsewhere --------------------------------------------------------------------


def test_a_curve_from_elsewhere_is_ranked_drawn_and_saved(result, tmp_path):
    runs = np.tile(0.1 * result.checkpoints, (33, 1))
    both = result.add("mine", runs)
    assert result.names == ["TsallisINF()", "Uniform()"]
    assert both.names == ["TsallisINF()", "Uniform()", "mine"]
    assert both.summary().rows["mine"]["mean"] == pytest.approx(0.1 * result.checkpoints[-1])
    assert both.compare("mine", "Uniform()").runs == 33
    assert len(both.plot().axes) >= 1
    both.save(tmp_path / "both.parquet")
    again = bw.Result.load(tmp_path / "both.parquet")
    np.testing.assert_array_equal(again.regret["mine"], runs)


@pytest.mark.parametrize(
    ("name", "shape", "numbers", "sentence"),
    [
        ("Uniform()", (3, None), None, "The name of Result.add must be a name other than"),
        ("mine", (3, 1), None, "The regret of Result.add must be an array"),
        ("mine", (3, None), [1, 1, 2], "The repetitions of Result.add must be 3 different"),
    ],
)
def test_a_curve_that_does_not_fit_is_refused(result, name, shape, numbers, sentence):
    runs = np.zeros((shape[0], shape[1] or result.checkpoints.size))
    with pytest.raises(InvalidParameter, match=f"^{sentence}"):
        result.add(name, runs, numbers)
