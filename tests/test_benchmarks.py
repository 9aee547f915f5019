"""Record of the benchmarks: the format of the file, and the comparison with the last figures."""

import json
import os
import platform
import re
import subprocess
import sys

import numpy as np
import pytest
from benchmarks import compare, late, replicas, results, segments, serve, thresholds

import bothworlds as bw
from bothworlds.campaign import shard_file

PROCESSORS = [("generic", "NEON")]
if platform.machine() in ("x86_64", "AMD64"):
    PROCESSORS = [("haswell", "AVX2"), ("generic", "SSE")]


def test_a_record_says_what_was_measured_where_and_with_what(tmp_path):
    file = tmp_path / "results.json"
    results.save({"decide rv K=2": (1.23456, "us")}, file)
    content = json.loads(file.read_text(encoding="utf-8"))
    assert set(content) == {"date", "machine", "versions", "figures"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", content["date"])
    assert content["machine"] == results.machine()
    assert set(content["versions"]) == {"bothworlds", "numba", "numpy"}
    assert content["figures"] == [{"name": "decide rv K=2", "unit": "us", "value": 1.235}]


@pytest.mark.processes
@pytest.mark.parametrize(("name", "vectors"), PROCESSORS)
def test_figures_are_printed_with_the_processor_that_numba_compiles_for(name, vectors):
    code = "from benchmarks import results; print(results.processor())"
    named = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **named}, capture_output=True, text=True,
        cwd=compare.HERE,
    )  # fmt: skip
    lanes = {"AVX2": 8, "SSE": 4, "NEON": 4}[vectors]
    expected = f"{shard_file.processor()}, {vectors}, vectors of {lanes} repetitions"
    assert done.stdout.strip() == expected, done.stderr


def test_figures_are_compared_with_the_last_ones(tmp_path):
    file = tmp_path / "results.json"
    results.save({"a": (2.0, "ns"), "b": (8.0, "us")}, file)
    results.save({"b": (4.0, "us")}, file)
    assert results.read(file) == {"a": (2.0, "ns"), "b": (4.0, "us")}
    lines = results.compared({"a": (3.0, "ns"), "b": (4.0, "ns"), "c": (1.0, "ns")}, file)
    assert [line.split()[-1] for line in lines] == ["1.500", "new", "new"]


def test_another_kind_of_machine_is_named(tmp_path):
    file = tmp_path / "results.json"
    results.save({"a": (2.0, "ns")}, file)
    content = json.loads(file.read_text())
    content["machine"]["cores"] = -1
    file.write_text(json.dumps(content))
    assert "another kind" in results.compared({"a": (2.0, "ns")}, file)[-1]


def test_the_best_of_several_turns_counts():
    assert compare.best([{"a": 2.0, "b": 1.0}, {"a": 1.0, "b": 3.0}]) == {"a": 1.0, "b": 1.0}
    assert [compare.unit(name) for name in ("decide rv K=2", "simulate rv K=2")] == ["us", "ns"]


def test_a_threshold_is_where_all_larger_numbers_of_arms_win():
    sizes = (8, 16, 32)
    said = thresholds.crossing(sizes, [1.2, 0.9, 1.3])
    assert said == "the kernels for more arms win from 32, clearly from 32"
    said = thresholds.crossing(sizes, [0.9, 1.05, 1.02])
    assert said == "the kernels for more arms win from 16, nowhere clearly"
    said = thresholds.crossing(sizes, [1.5, 1.5, 0.99])
    assert said == "the kernels for fewer arms win up to 32"


@pytest.mark.slow
def test_the_table_of_late_answers_has_a_line_for_every_policy():
    head, _, *lines = late.table(runs=2, rounds=20)
    assert head == "| policy | batches of 1 | batches of 100 | batches of 1,000 |"
    assert [line.split(" | ")[0] for line in lines] == [f"| {name}" for name in late.policies(20)]
    assert all(line.count("±") == 3 for line in lines)
    assert {"UCB1", "KL-UCB", "EXP3", "EXP3++", "BROAD"} <= set(late.policies(20))


@pytest.mark.slow
def test_one_replica_is_a_bandit_however_often_it_refreshes():
    policy = bw.TsallisINF()
    play = replicas.player(policy)
    found = [replicas.regrets(play, policy, 1, every, 3_000, 4) for every in (0.001, 0.2, 60)]
    assert found[0] == pytest.approx(found[1])
    assert found[0] == pytest.approx(found[2])
    assert len(set(found[0])) == 4


@pytest.mark.slow
def test_replicas_that_refresh_seldom_lose_more():
    policy, runs = bw.TsallisINF(), 64
    play = replicas.player(policy)
    often, seldom = (replicas.regrets(play, policy, 20, every, 2_000, runs) for every in (0.01, 5))
    error = np.hypot(np.std(often), np.std(seldom)) / np.sqrt(runs)
    assert np.mean(seldom) > np.mean(often) + 4.0 * error


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["rv", "iw"])
def test_replicas_that_sum_have_at_most_twice_the_regret_of_one(estimator):
    """With the default interval, and the announcements of the service."""
    policy, runs = bw.TsallisINF(estimator=estimator), 300
    play = replicas.player(policy)
    one = replicas.regrets(play, policy, 1, replicas.POLL, 40_000, runs)
    ten = replicas.regrets(play, policy, 10, replicas.POLL, 4_000, runs)
    error = np.hypot(2.0 * np.std(one), np.std(ten)) / np.sqrt(runs)
    assert np.mean(ten) + 4.0 * error < 2.0 * np.mean(one)


@pytest.mark.slow
@pytest.mark.parametrize("policy", replicas.IN_ORDER, ids=repr)
def test_replicas_that_continue_one_fold_have_at_most_twice_the_regret_of_one(monkeypatch, policy):
    # A wide gap is learned soon: 400 rounds tell as much as 1,000 with half of it.
    monkeypatch.setattr(replicas, "ORDERED_GAP", 0.5)
    runs = 300
    one = replicas.regrets_in_order(policy, 1, 0.0, 400, runs)
    four = replicas.regrets_in_order(policy, 4, 0.01, 100, runs)
    error = np.hypot(2.0 * np.std(one), np.std(four)) / np.sqrt(runs)
    assert np.mean(four) + 4.0 * error < 2.0 * np.mean(one)
    # Replicas that commit nothing learn nothing, and lose more than that.
    blind = replicas.regrets_in_order(policy, 4, 1.0, 100, 20)
    assert np.mean(blind) > 2.0 * np.mean(one) + 4.0 * error


def test_the_service_is_judged_beside_the_empty_endpoint():
    def load(cpu, rate, middle):
        return [serve.Load(cpu, rate, middle), serve.Load(2 * cpu, rate / 2, 2 * middle)]

    found = {
        "loads": {
            "empty": load(25.0, 30_000, 100),
            "decide": load(49.0, 15_000, 200),
            "traced": load(52.0, 14_000, 210),
            "pair": load(80.0, 5_000, 900),
            "single": load(400.0, 300, 9_000),
        },
        "alone": {"empty": load(30, 9_000, 50), "decide": load(60, 7_000, 70)},
        "commits": 0.05,
        "ready": 1.2,
        "grown": 3.0,
        "decisions": 1e6,
    }
    lines = {line[:45].strip(): line[45:].split() for line in serve.lines(serve.figured(found))}
    assert lines["decide CPU / empty"] == ["1.960", "<=", "2:", "met"]
    assert lines["the same with a request id of its own"] == ["2.080", "<=", "2:", "MISSED"]
    assert lines["groups against a transaction for each"] == ["16.667", ">=", "15:", "met"]
    assert lines["decide + feedback CPU a request / empty"] == ["3.200", "<=", "3:", "MISSED"]
    assert lines["decide/s / empty/s"] == ["0.500", ">=", "0.45:", "met"]
    assert lines["one caller: decide p50 / empty p50"] == ["1.400", "<=", "1.5:", "met"]
    assert lines["commits a feedback, the log's included"][-1] == "MISSED"


def test_the_table_of_segments_has_a_row_for_each_kind_and_a_column_for_each_prior():
    lines = segments.table(runs=2, rounds=60)
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| none", "| a quarter", "| all"]
    assert {line.count("|") for line in lines} == {7}
    best = segments.means(0.25).argmin(axis=1)
    assert (best != 0).sum() == segments.SEGMENTS // 4
    assert (segments.means(0.0).argmin(axis=1) == 0).all() and segments.means(1.0).min() == 0.4
