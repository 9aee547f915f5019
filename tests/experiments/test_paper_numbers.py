"""The regret of every algorithm at K = 8, gap 1/8, beside what is known of the paper's figures.

References: the earlier version's Figure 1 (AISTATS 2019), digitised with a reading error of about
one per cent, and independent simulations with their standard errors.  A measured mean must lie
within four standard errors, ours and the reference's joined, plus the reading error.
"""

import math

import numpy as np
import pytest

import bothworlds as bw

RUNS = 1_000
READING = 0.015
POLICIES = {
    "iw": bw.TsallisINF(estimator="iw"),
    "rv": bw.TsallisINF(),
    "ucb1": bw.UCB1(),
    "exp3": bw.Exp3(),
    "exp3++": bw.Exp3PlusPlus(),
    "thompson": bw.ThompsonSampling(),
    "broad": bw.Broad(horizon=10**7),
}
# round: {policy: (mean, standard error)}
SIMULATED = {
    10_000: {"iw": (285, 2), "rv": (172, 2), "ucb1": (414, 1), "exp3": (379, 8),
             "exp3++": (374, 5), "thompson": (118, 4), "broad": (982, 10)},
    100_000: {"iw": (512, 6), "rv": (270, 3), "ucb1": (781, 6), "exp3": (731, 11),
              "exp3++": (610, 7), "thompson": (169, 4)},
}  # fmt: skip
DIGITISED = {
    1_000: {"iw": 83, "thompson": 60, "ucb1": 91, "exp3": 90, "exp3++": 91, "broad": 109},
    10_000: {"iw": 285, "thompson": 115, "ucb1": 417, "exp3": 383, "exp3++": 381},
    100_000: {"iw": 510, "thompson": 168, "ucb1": 783, "exp3": 732, "exp3++": 625},
}
SWITCHING = {
    1_000: {"iw": 83, "exp3": 91, "exp3++": 91, "broad": 109},
    10_000: {"iw": 280, "exp3": 373, "exp3++": 370},
    100_000: {"iw": 510, "exp3": 718, "exp3++": 618},
}


def measure(world):
    rounds = [1_000, 10_000, 100_000]
    return bw.simulate(POLICIES, world, horizon=100_000, repetitions=RUNS, seed=20, progress=False,
                       checkpoints=rounds)  # fmt: skip


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


@pytest.mark.parametrize(("t", "name"), [(t, name) for t, row in SIMULATED.items() for name in row])
def test_stochastic_agrees_with_independent_simulations(stochastic, t, name):
    mean, error = SIMULATED[t][name]
    assert off_by(stochastic, name, t, mean, error, reading=0.0) < 1


@pytest.mark.parametrize(("t", "name"), [(t, name) for t, row in DIGITISED.items() for name in row])
def test_stochastic_agrees_with_the_published_figure(stochastic, t, name):
    # EXP3++ sits one to two per cent below the figure, whose settings are inferred.
    reading = 0.03 if name == "exp3++" else READING
    assert off_by(stochastic, name, t, DIGITISED[t][name], reading=reading) < 1


@pytest.mark.parametrize(("t", "name"), [(t, name) for t, row in SWITCHING.items() for name in row])
def test_switching_agrees_with_the_published_figure(switching, t, name):
    reading = 0.03 if name == "exp3++" else READING
    assert off_by(switching, name, t, SWITCHING[t][name], reading=reading) < 1


def test_the_tolerance_tells_algorithms_apart(stochastic):
    """Negative control: no algorithm passes for another one at 10,000 rounds."""
    row = DIGITISED[10_000]
    for name in ("iw", "thompson", "ucb1"):
        for other in row:
            if other != name:
                assert off_by(stochastic, name, 10_000, row[other]) > 1


def growth(result, name):
    """Return the exponent b of regret ~ t^b between 10,000 and 100,000 rounds."""
    mean = result.regret[name].mean(axis=0)
    return math.log10(mean[-1] / mean[-2])


def test_ucb1_and_thompson_grow_almost_linearly_where_the_level_switches(switching, stochastic):
    assert growth(switching, "ucb1") > 0.85
    assert growth(switching, "thompson") > 0.7
    for name in ("iw", "rv"):
        assert growth(switching, name) < 0.35
    assert growth(stochastic, "ucb1") < 0.35


@pytest.mark.parametrize(
    ("n_arms", "iw", "rv"),
    [(2, (48.3, 81.1), (28.5, 43.1)), (4, (31.7, 61.7), (18.9, 33.0)),
     (8, (22.4, 48.4), (13.7, 26.6)), (16, (15.7, 38.6), (10.1, 21.9))],
)  # fmt: skip
def test_copies_of_the_best_arm_cost_nothing(n_arms, iw, rv):
    """One arm of mean 9/16, all others 7/16; references from 400 runs at 1e4 and 1e5."""
    world = bw.environments.Stochastic([9 / 16] + [7 / 16] * (n_arms - 1))
    result = bw.simulate({"iw": POLICIES["iw"], "rv": POLICIES["rv"]}, world, horizon=100_000,
                         repetitions=400, seed=8, checkpoints=[10_000], progress=False)  # fmt: skip
    for name, reference in (("iw", iw), ("rv", rv)):
        for t, value in zip((10_000, 100_000), reference, strict=True):
            assert off_by(result, name, t, value, reading=0.005) < 1


def test_more_copies_less_regret():
    means = []
    for n_arms in (2, 4, 8):
        world = bw.environments.Stochastic([9 / 16] + [7 / 16] * (n_arms - 1))
        result = bw.simulate(bw.TsallisINF(), world, horizon=10_000, repetitions=320, seed=4,
                             progress=False)  # fmt: skip
        means.append(result.regret["TsallisINF()"][:, -1].mean())
    assert np.all(np.diff(means) < 0)
