"""`Result`: statistics, tables, files."""

import errno
import os

import numpy as np
import pyarrow.parquet as parquet
import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter, ResultFileError
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
    assert "<pre>" in result._repr_html_()
