"""Intervals: coverage on ordinary runs and where a few runs carry the mean, and withholding."""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.experiments.claims.verdicts import Place, drawn
from bothworlds.simulation.intervals import exact_share, rests_on
from bothworlds.simulation.ranking import paired

SAMPLES, RUNS, POPULATION = 300, 64, 2048


@pytest.fixture(scope="module")
def switching():
    """Regret of the paper's flagship: a few runs of UCB1 lose in almost every round."""
    world = bw.environments.Switching(4, 1 / 4)
    policies = {"UCB1": bw.UCB1(), "RV": bw.TsallisINF(), "EXP3": bw.Exp3()}
    result = bw.simulate(
        policies, world, horizon=300_000, repetitions=POPULATION, seed=0, checkpoints=[300_000],
        progress=False,
    )  # fmt: skip
    return {name: runs[:, -1] for name, runs in result.regret.items()}


def made(name):
    """Return a made-up population of differences."""
    rng = np.random.default_rng(11)
    base = rng.standard_normal(POPULATION)
    if name.startswith("mixture"):
        share = float(name.split()[1])
        return 5.0 + base + 100.0 * (np.arange(POPULATION) < share * POPULATION)
    return {
        "normal": 1.0 + 3.0 * base,
        "tie": base - base.mean(),
        "exponential": rng.exponential(size=POPULATION),
        "lognormal 1": np.exp(base),
        "lognormal 2": np.exp(2.0 * base),
    }[name]


def compared(differences, resamples=999):
    zero = np.zeros_like(differences)
    (pair,) = paired({"a": differences, "b": zero}, [("a", "b")], 1, 0.95, resamples, 5, "test")
    return pair


def coverage(population, interval):
    """Return how often intervals of samples hold the mean, and how often they are withheld."""
    rng = np.random.default_rng(12)
    truth = population.mean()
    kept = infinite = 0
    for _ in range(SAMPLES):
        low, high = interval(rng.choice(population, RUNS, replace=False))
        kept += low <= truth <= high
        infinite += math.isinf(high)
    return kept / SAMPLES, infinite / SAMPLES


def of_compare(sample):
    pair = compared(sample)
    return pair.low, pair.high


def of_a_claim(sample):
    place = Place("", drawn(sample))
    return place.low(0.025), place.high(0.025)


def percentile(sample):
    rng = np.random.default_rng(5)
    means = rng.choice(sample, (999, len(sample))).mean(axis=1)
    return np.quantile(means, [0.025, 0.975])


MARGIN = 4.0 * math.sqrt(0.05 * 0.95 / SAMPLES)
"""Four standard errors of a coverage of 95 %."""


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("interval", [of_compare, of_a_claim])
@pytest.mark.parametrize("name", ["normal", "tie", "exponential", "lognormal 1"])
def test_ordinary_runs_have_intervals_that_hold(name, interval):
    held, withheld = coverage(made(name), interval)
    assert held > 0.95 - MARGIN
    assert withheld < 0.1


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("interval", [of_compare, of_a_claim])
@pytest.mark.parametrize(
    "name", ["mixture 0.05", "mixture 0.1", "mixture 0.15", "mixture 0.2", "mixture 0.3"]
)
def test_mixtures_are_covered_or_withheld(name, interval):
    held, _ = coverage(made(name), interval)
    assert held > 0.95 - MARGIN


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("interval", [of_compare, of_a_claim])
@pytest.mark.parametrize("other", ["RV", "EXP3"])
def test_the_flagship_is_withheld(switching, other, interval):
    population = switching["UCB1"] - switching[other]
    held, withheld = coverage(population, interval)
    assert held > 0.95 - MARGIN
    assert withheld > 0.9
    # A control: intervals that are always stated hold far less often than they promise.
    assert coverage(population, percentile)[0] < 0.75


@pytest.mark.statistical
@pytest.mark.slow
def test_heavy_tails_stay_above_nine_in_ten():
    held, withheld = coverage(made("lognormal 2"), of_compare)
    assert held > 0.85
    assert withheld > 0.5


@pytest.mark.statistical
@pytest.mark.slow
def test_what_no_run_shows_no_interval_holds():
    """A control: where 3 % of the runs carry the mean, one sample in seven has none of them."""
    held, withheld = coverage(made("mixture 0.03"), of_compare)
    chance = (1.0 - 0.03) ** RUNS
    margin = 4.0 * math.sqrt(chance * (1.0 - chance) / SAMPLES)
    assert 1.0 - held == pytest.approx(chance, abs=margin)
    assert held == pytest.approx(withheld, abs=0.01)


@pytest.mark.statistical
@pytest.mark.slow
def test_of_many_runs_even_the_flagship_has_an_interval(switching):
    pair = compared(switching["UCB1"] - switching["RV"])
    assert 8 <= pair.rests_on <= 0.05 * POPULATION
    assert 0.0 < pair.low < pair.difference < pair.high < math.inf
    assert f"rests on {pair.rests_on} of 2,048 runs]" in pair.interval()
    assert "UCB1" not in str(pair)
    assert str(pair).endswith(f"the median difference is {pair.median:+,.1f}.")


def test_what_can_be_estimated_is_reported():
    differences = np.concatenate([np.full(60, -1.0), [2.0, 500.0, 600.0, 700.0]])
    pair = compared(differences)
    assert (pair.low, pair.high) == (-math.inf, math.inf)
    assert pair.withheld
    assert not pair.apart
    assert (pair.rests_on, pair.worse, pair.median) == (2, 4, -1.0)
    assert str(pair) == (
        "a minus b at round 1: +27.2 [withheld: rests on 2 of 64 runs] (95% interval, 64 pairs). "
        "a loses more in 4 of 64 runs, a share of 2% to 15%; the median difference is -1.0."
    )


def test_compare_and_ranking_agree():
    rng = np.random.default_rng(3)
    runs = {"a": rng.normal(5.0, 1.0, 32), "b": rng.exponential(4.0, 32)}
    result = bw.Result(
        checkpoints=np.array([1]), regret={n: v[:, None] for n, v in runs.items()}, plays={},
        repetitions={n: np.arange(32) for n in runs}, wall={}, cpu={}, policies={},
        environment="", seed=5,
    )  # fmt: skip
    (pair,) = result.ranking().pairs
    assert pair == result.compare(pair.first, pair.second)
    mirrored = result.compare(pair.second, pair.first)
    assert mirrored.low == pytest.approx(-pair.high)
    assert mirrored.high == pytest.approx(-pair.low)


def test_a_policy_that_rests_on_a_few_runs_widens_no_other_interval():
    rng = np.random.default_rng(4)
    a, b = rng.normal(5.0, 1.0, 64), rng.normal(6.0, 1.0, 64)
    wild = np.append(np.full(62, 5.0), [5000.0, 9000.0])
    alone = paired({"a": a, "b": b}, [("b", "a")], 1, 0.95, 999, 5, "test")[0]
    pairs = [("b", "a"), ("wild", "a")]
    both = paired({"a": a, "b": b, "wild": wild}, pairs, 1, 0.95, 999, 5, "test")
    assert (both[0].low, both[0].high) == (alone.low, alone.high)
    assert both[1].withheld


def test_three_runs_are_too_few():
    pair = compared(np.array([1.0, 2.0, 4.0]))
    assert pair.interval() == "[withheld: 3 runs are too few]"


def test_runs_that_do_not_differ_have_a_certain_difference():
    pair = compared(np.full(16, 3.0))
    assert (pair.low, pair.high, pair.rests_on) == (3.0, 3.0, 0)


@pytest.mark.parametrize(("count", "runs"), [(0, 10), (3, 10), (10, 10), (29, 64), (1, 2048)])
def test_the_interval_of_a_share_is_exact(count, runs):
    """Each end is where the count, or a count farther out, has a chance of 2.5 %."""

    def at_least(k, share):
        chances = [math.comb(runs, j) * share**j * (1 - share) ** (runs - j) for j in range(k)]
        return 1.0 - sum(chances)

    low, high = exact_share(count, runs, 0.95)
    assert 0.0 <= low < high <= 1.0
    if count:
        assert at_least(count, low) == pytest.approx(0.025, rel=1e-6)
    if count < runs:
        assert 1.0 - at_least(count + 1, high) == pytest.approx(0.025, rel=1e-6)


def test_few_runs_rest_on_nothing():
    assert rests_on(np.array([0.0, 0.0, 9.0])) == 0
    assert rests_on(np.zeros(64)) == 0
