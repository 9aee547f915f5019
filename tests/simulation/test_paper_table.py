"""Tables for papers: LaTeX, Markdown and CSV of several results, and of a ranking."""

import csv
import io

import numpy as np
import pytest

import bothworlds as bw


def made_up(runs, seed=5):
    """Return a result of one round with the regrets given, by policy."""
    n = len(next(iter(runs.values())))
    return bw.Result(
        checkpoints=np.array([1]),
        regret={name: np.asarray(values)[:, None] for name, values in runs.items()},
        plays={}, repetitions={name: np.arange(n) for name in runs}, wall={}, cpu={}, policies={},
        environment="", seed=seed,
    )  # fmt: skip


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(1)
    noise = rng.normal(0.0, 1.0, (4, 64))
    heavy = np.append(np.full(62, 20.0), [4000.0, 9000.0])
    first = {"A_1": 10 + noise[0], "B": 10 + noise[1], "C": 30 + noise[2]}
    second = {"A_1": noise[3] - 2500.0, "D": heavy}
    return {"5 %": made_up(first), "second": made_up(second)}


def test_latex_has_booktabs_intervals_and_bold_policies(results):
    lines = bw.table(results, "latex", bold="not told apart").splitlines()
    assert lines[:4] == [
        r"\begin{tabular}{lrr}", r"\toprule", r"policy & 5 \% & second \\", r"\midrule"
    ]  # fmt: skip
    assert lines[8] == r"\bottomrule"
    assert r"95 \% intervals. $\dagger$: a few runs carry the mean" in lines[9]
    assert lines[10] == r"\end{tabular}"
    a, b, c, d = lines[4:8]
    assert a.startswith(r"A\_1 & \textbf{")
    assert a.count(r"\textbf") == 2
    assert r"\textbf{$-$2,5" in a
    # B is as good as A, and has not run in the second world; C is worse.
    assert b.startswith(r"B & \textbf{")
    assert b.endswith(r"& -- \\")
    assert r"\textbf" not in c
    # Few runs carry the mean of D, so it cannot be told from A.
    assert d == r"D & -- & \textbf{222.5}$^\dagger$ \\"


def test_bold_marks_the_best_alone_or_nothing(results):
    assert bw.table(results, "markdown", bold="best").count("**") == 4
    assert bw.table(results, "markdown", bold="none").count("**") == 0


def test_csv_has_all_digits(results):
    rows = list(csv.DictReader(io.StringIO(bw.table(results, "csv"))))
    assert len(rows) == 5
    for row in rows:
        runs = results[row["result"]].at()[row["policy"]]
        assert float(row["mean"]) == runs.mean()
        assert float(row["low"]) <= runs.mean() <= float(row["high"])
    assert [row["high"] for row in rows if row["policy"] == "D"] == ["inf"]


def test_the_interval_of_a_mean_is_that_of_its_difference_to_nothing(results):
    result = results["5 %"]
    zero = made_up({**result.at(), "nothing": np.zeros(64)})
    pair = zero.compare("C", "nothing")
    (row,) = [
        row
        for row in csv.DictReader(io.StringIO(bw.table({"x": result}, "csv")))
        if row["policy"] == "C"
    ]
    assert float(row["low"]) == pytest.approx(pair.low)
    assert float(row["high"]) == pytest.approx(pair.high)


def test_a_ranking_in_latex(results):
    lines = results["5 %"].ranking().to_latex().splitlines()
    assert lines[2] == r"policy & mean & difference & 95\,\% interval & worse in \\"
    assert lines[4].startswith(r"\textbf{")
    assert lines[5].startswith(r"\textbf{")
    assert lines[6].startswith("C & ")
    assert lines[6].endswith(r"& 64 \\")
    wild = made_up({"calm": np.zeros(64), "wild": results["second"].at()["D"]})
    assert "rests on 1 runs" not in wild.ranking().to_latex()
    assert "rests on 1 run &" in wild.ranking().to_latex()
