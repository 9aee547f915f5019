"""Regret of every algorithm at K = 8, gap 1/8, compared with what is known of the paper's figures.

References are the figure of the conference version, `bothworlds.experiments.claims.published`, and
independent simulations with their standard errors, `benchmarks.simulated`. A measured mean must lie
within four standard errors, ours and the reference's joined, plus the reading error of a figure.
"""

import math

import numpy as np
import pytest
from benchmarks import simulated

import bothworlds as bw
from bothworlds.experiments.algorithms import BROAD, IW, RV, THOMPSON, UCB, lineup
from bothworlds.experiments.claims import published
from bothworlds.experiments.claims.published import READING

RUNS = 1_000
ROUNDS = (1_000, 10_000, 100_000)
POLICIES = lineup(10**7)


def places(table, skip=()):
    """Return every (round, algorithm) of a table within the simulated rounds."""
    return [
        (t, name) for name, row in table.items() for t in row if t in ROUNDS and name not in skip
    ]


def measure(world):
    return bw.simulate(POLICIES, world, horizon=ROUNDS[-1], repetitions=RUNS, seed=20,
                       progress=False, checkpoints=ROUNDS)  # fmt: skip


@pytest.fixture(scope="module")
def stochastic():
    return measure(bw.environments.Stochastic.gap(8, 1 / 8))


@pytest.fixture(scope="module")
def switching():
    return measure(bw.environments.Switching(8, 1 / 8))


def off_by(result, name, t, reference, error=None, reading=READING):
    """Return the distance to the reference in units of the tolerance."""
    values = result.regret[name][:, result.checkpoints.tolist().index(t)]
    ours = values.std(ddof=1) / math.sqrt(len(values))
    theirs = ours if error is None else error
    tolerance = 4 * math.hypot(ours, theirs) + reading * reference
    return abs(values.mean() - reference) / tolerance


@pytest.mark.statistical
@pytest.mark.parametrize(("t", "name"), places(simulated.STOCHASTIC))
def test_stochastic_agrees_with_independent_simulations(stochastic, t, name):
    mean, error = simulated.STOCHASTIC[name][t]
    assert off_by(stochastic, name, t, mean, error, reading=0.0) < 1


# The published curves of BROAD belong to a tuning that is not known; it was simulated instead.
# UCB1 and Thompson sampling depend on the phase the level starts in, which the figure leaves open.
@pytest.mark.statistical
@pytest.mark.parametrize(("t", "name"), places(published.STOCHASTIC, [BROAD]))
def test_stochastic_agrees_with_the_published_figure(stochastic, t, name):
    assert off_by(stochastic, name, t, published.STOCHASTIC[name][t]) < 1


@pytest.mark.statistical
@pytest.mark.parametrize(("t", "name"), places(published.SWITCHING, [BROAD, UCB, THOMPSON]))
def test_switching_agrees_with_the_published_figure(switching, t, name):
    assert off_by(switching, name, t, published.SWITCHING[name][t]) < 1


@pytest.mark.statistical
def test_broad_agrees_with_both_published_figures_at_first(stochastic, switching):
    assert off_by(stochastic, BROAD, 1_000, published.STOCHASTIC[BROAD][1_000]) < 1
    assert off_by(switching, BROAD, 1_000, published.SWITCHING[BROAD][1_000]) < 1


@pytest.mark.statistical
def test_the_tolerance_tells_algorithms_apart(stochastic):
    """Negative control: no algorithm passes for another one at 10,000 rounds."""
    row = {name: numbers[10_000] for name, numbers in published.STOCHASTIC.items()}
    for name in (IW, THOMPSON, UCB):
        for other in row:
            if other != name:
                assert off_by(stochastic, name, 10_000, row[other]) > 1


def growth(result, name):
    """Return the exponent b of regret ~ t^b between 10,000 and 100,000 rounds."""
    mean = result.regret[name].mean(axis=0)
    return math.log10(mean[-1] / mean[-2])


@pytest.mark.statistical
def test_ucb1_and_thompson_grow_almost_linearly_where_the_level_switches(switching, stochastic):
    assert growth(switching, UCB) > 0.85
    assert growth(switching, THOMPSON) > 0.7
    for name in (IW, RV):
        assert growth(switching, name) < 0.35
    assert growth(stochastic, UCB) < 0.35


@pytest.mark.statistical
@pytest.mark.parametrize("n_arms", simulated.COPIES)
def test_copies_of_the_best_arm_cost_nothing(n_arms):
    """One arm of mean 9/16, all others 7/16; the references are rounded to three digits."""
    world = bw.environments.Stochastic([9 / 16] + [7 / 16] * (n_arms - 1))
    result = bw.simulate(lineup(100_000, (IW, RV)), world, horizon=100_000, repetitions=400,
                         seed=8, checkpoints=[10_000], progress=False)  # fmt: skip
    for name, row in simulated.COPIES[n_arms].items():
        for t, value in row.items():
            assert off_by(result, name, t, value, reading=0.005) < 1


@pytest.mark.statistical
def test_more_copies_less_regret():
    means = []
    for n_arms in (2, 4, 8):
        world = bw.environments.Stochastic([9 / 16] + [7 / 16] * (n_arms - 1))
        result = bw.simulate(bw.TsallisINF(), world, horizon=10_000, repetitions=320, seed=4,
                             progress=False)  # fmt: skip
        means.append(result.regret["TsallisINF()"][:, -1].mean())
    assert np.all(np.diff(means) < 0)
