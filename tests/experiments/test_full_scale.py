"""The results of the paper's own scale: whole, small, and found again bit for bit."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as compute
import pyarrow.parquet as parquet
import pytest

import bothworlds as bw
from bothworlds.experiments import experiment
from bothworlds.experiments.claims import sample
from bothworlds.experiments.claims.statements import full_scale

DATA = Path(__file__).parents[2] / "docs" / "data" / "full_scale.parquet"
FIRST, LAST = 16, 10_000
"""Repetitions and rounds that are simulated again; regret at a round does not depend on later
ones, nor a repetition on the others."""

SAMPLE = [
    ("stochastic", "K=8, gap=1/8"),
    ("stochastic", "K=2, gap=1/4"),
    ("stochastic", "K=32, gap=1/16"),
    ("switching", "K=8, gap=1/8"),
    ("switching", "K=32, gap=1/4"),
]


@pytest.fixture(scope="module")
def table():
    return parquet.read_table(DATA)


def test_it_is_small_and_says_how_it_was_made(table):
    assert DATA.stat().st_size <= 5_000_000
    about = json.loads(table.schema.metadata[b"bothworlds.full_scale"])
    assert about["seed"] == "0"
    assert "numba" in about["versions"]
    assert about["date"]


def test_every_curve_is_there_with_every_run(table):
    curves = table.group_by(["experiment", "cell", "policy"]).aggregate([("regret", "count")])
    found = {(row["experiment"], row["cell"], row["policy"]) for row in curves.to_pylist()}
    cells = {name: experiment(name).cells(experiment(name).scales["full"]) for name in
             ("stochastic", "switching")}  # fmt: skip
    assert found == {
        (name, cell.id, policy)
        for name, row in cells.items()
        for cell in row
        for policy in cell.policies
    }
    rounds = len(cells["stochastic"][0].checkpoints)
    assert set(curves["regret_count"].to_pylist()) == {100 * rounds}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place"), SAMPLE)
def test_a_sample_is_reproduced_bit_for_bit(table, name, place):
    each = experiment(name)
    cell = next(c for c in each.cells(each.scales["full"]) if c.id == place)
    rounds = [t for t in cell.checkpoints if t <= LAST]
    again = bw.simulate(
        dict(cell.policies), cell.environment, horizon=LAST, repetitions=FIRST, seed=0,
        checkpoints=rounds, progress=False,
    )  # fmt: skip
    chosen = table.filter(
        (compute.field("experiment") == name)
        & (compute.field("cell") == place)
        & (compute.field("repetition") < FIRST)
        & (compute.field("round") <= LAST)
    )
    for policy in cell.policies:
        rows = chosen.filter(compute.field("policy") == policy)
        rows = rows.sort_by([("repetition", "ascending"), ("round", "ascending")])
        kept = rows["regret"].to_numpy().reshape(FIRST, len(rounds))
        assert np.array_equal(kept, again.regret[policy]), policy


def test_the_verdicts_are_those_of_known_claims():
    known = full_scale()["claims"]
    assert {id.partition(".")[0] for id in known} == {"stochastic", "switching"}
    assert all(
        claim["verdict"] in ("holds", "differs", "fails", "open") for claim in known.values()
    )


@pytest.mark.slow
def test_a_repeated_sample_is_compared_run_by_run(table, monkeypatch, tmp_path):
    chosen = compute.and_(
        compute.equal(table["cell"], sample.CELL), compute.equal(table["policy"], "UCB1")
    )
    rows = table.filter(compute.and_(chosen, compute.equal(table["experiment"], "switching")))
    last = rows.filter(compute.equal(rows["round"], compute.max(rows["round"]))).to_pylist()
    finals = [row["regret"] for row in sorted(last, key=lambda row: row["repetition"])]
    kept = {"made": {"seed": "0"}, "sample": sample.sample_of({"switching": {"UCB1": finals}})}
    monkeypatch.setattr(sample, "full_scale", lambda: kept)
    found = sample.reproduce_sample(threads=1)
    assert found == sample.Reproduced(16, 16, 10_000_000)
    sample.remember(tmp_path, found)
    assert sample.remembered(tmp_path) == found
    kept["sample"]["switching"]["UCB1"][3] += 1e-9
    found = sample.reproduce_sample(threads=1)
    assert found.equal == 15
    assert str(found).endswith("15 are equal bit for bit, 1 are not.")
    assert sample.remembered(tmp_path / "none") is None


def test_a_sample_that_was_interrupted_proves_nothing(monkeypatch):
    def interrupted(policies, *rest, **more):
        result = bw.simulate(policies, *rest, **{**more, "horizon": 10, "checkpoints": None})
        return replace(result, interrupted=True)

    counts = []
    monkeypatch.setattr(sample, "simulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sample.reproduce_sample(threads=1, compiling=lambda *each: counts.append(each))
    total = counts[0][1]
    assert counts[0] == (0, total)
    assert counts[-1] == (total, total)
    assert counts == sorted(counts)
