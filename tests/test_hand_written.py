"""Hand-written C beside which the benchmarks measure: it plays Tsallis-INF, and its lines fit."""

import functools

import numpy as np
import pytest
from benchmarks import hand_written, simulate

import bothworlds as bw
from helpers.means import MARGIN

RUNS = 1024
HORIZON = 10_000
needs_a_compiler = pytest.mark.skipif(hand_written.compiler() is None, reason=hand_written.ABSENT)


@functools.cache
def by_the_package(n_arms, estimator):
    """Regrets of `bw.simulate`, one for every run."""
    result = bw.simulate(
        {"it": bw.TsallisINF(estimator=estimator)},
        bw.environments.Stochastic.gap(n_arms, simulate.GAP),
        horizon=HORIZON, repetitions=RUNS, seed=5, progress=False,
    )  # fmt: skip
    return result.regret["it"][:, -1]


def standard_errors_apart(n_arms, estimator, **wrong):
    """Distance of the mean regrets of C and of the package, in standard errors."""
    ours = by_the_package(n_arms, estimator)
    c = hand_written.play(n_arms, HORIZON, simulate.GAP, estimator == "rv", 5, RUNS, **wrong)
    error = np.sqrt((ours.var(ddof=1) + c.var(ddof=1)) / RUNS)
    return abs(ours.mean() - c.mean()) / error


@needs_a_compiler
@pytest.mark.processes
@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["iw", "rv"])
@pytest.mark.parametrize("n_arms", [2, 8, 32, 70])
def test_the_loop_in_c_has_the_regret_of_the_package(n_arms, estimator):
    assert standard_errors_apart(n_arms, estimator) < MARGIN


@needs_a_compiler
@pytest.mark.processes
@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["iw", "rv"])
@pytest.mark.parametrize("n_arms", [2, 8, 32, 70])
def test_a_wrong_learning_rate_is_seen(n_arms, estimator):
    rate = 0.5 * hand_written.RATES[estimator == "rv"]
    assert standard_errors_apart(n_arms, estimator, rate=rate) > MARGIN


@needs_a_compiler
@pytest.mark.processes
def test_any_number_of_runs_is_played_and_a_seed_repeats_them():
    first, again, other = (hand_written.play(5, 200, 0.25, True, seed, 11) for seed in (1, 1, 2))
    assert first.shape == (11,)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.all(first % 0.25 == 0) and np.all((first > 0) & (first < 200 * 0.25))


def test_without_a_compiler_the_loop_in_c_is_left_out(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert simulate.in_c(2, 10, False) is None
    line = simulate.beside_both("IW 2", 4.0, None, 80.0)
    assert line.split() == ["IW", "2", "4.0", "-", "-", "80.0", "20.0"]
    line = simulate.beside_c("IW 2", [8.0, 4.0], None)
    assert line.split() == ["IW", "2", "-", "8.0", "-", "4.0", "-"]


def test_lines_have_the_ratios_and_at_most_80_columns():
    line = simulate.beside_both("RV 1024", 500.0, 400.0, 6500.0)
    assert line.split() == ["RV", "1024", "500.0", "400.0", "1.25", "6500.0", "13.0"]
    assert len(line) <= 80
    line = simulate.beside_c("RV 1024", [500.0, 100.0, 20.0], 400.0)
    assert line.split()[2:] == ["400.0", "500.0", "1.25", "100.0", "0.25", "20.0", "0.05"]
    assert len(line) <= 80
