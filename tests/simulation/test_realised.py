"""Realised regret: found again from the losses of every arm, and by enumeration of a small case."""

import itertools

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine.replay import World
from bothworlds.environments import (
    Adaptive,
    Adversarial,
    Corrupted,
    Delayed,
    HeavyTailed,
    Piecewise,
    Stochastic,
    Switching,
    Utilities,
)
from bothworlds.errors import InvalidParameter

pytestmark = pytest.mark.extra

ROUNDS = 60
EVERY = range(1, ROUNDS + 1)
FAIR = Stochastic([0.2, 0.5, 0.6])


@bw.environments.custom
class Tiring:
    """Losses that depend on how often arm 0 was played, in scalar kernels."""

    def start(n_arms, rng):
        return np.zeros(1)

    def mean(state, parameters, n_arms, t, arm):
        return (arm + 1.0) / (n_arms + 1.0 + state[0])

    def loss(state, parameters, n_arms, t, arm, u):
        return 1.0 if u < (arm + 1.0) / (n_arms + 1.0 + state[0]) else 0.0

    def update(state, parameters, n_arms, t, arm, loss):
        if arm == 0:
            state[0] += 1.0


def played(result, name):
    """Return the label of the arm played in every round, a row per repetition."""
    counts = np.diff(result.plays_at[name], axis=1, prepend=0)
    assert (counts.sum(axis=2) == 1).all()
    return counts.argmax(axis=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        FAIR,
        Stochastic([0.4, 0.5, 0.6], noise="normal"),
        Switching(3, 0.25, first_length=10),
        Piecewise.gap(3, 0.5, every=20),
        Adversarial(np.random.default_rng(4).random((ROUNDS, 3))),
        Adaptive(3, "mirage"),
        Corrupted(FAIR, 5.5, "discourage"),
        Corrupted(Adaptive(3), 4.0, "swap", targets=[0, 1]),
        Delayed(Corrupted(FAIR, 3.0), 7),
        Tiring(3),
        HeavyTailed([0.0, 1.0, 1.0]),
    ],
    ids=repr,
)
def test_it_is_the_loss_of_the_plays_less_that_of_the_best_arm_of_the_run(world):
    policy = bw.HTINF(scale=1.0) if world.unbounded else bw.TsallisINF()
    settings = {"horizon": ROUNDS, "repetitions": 19, "seed": 5, "checkpoints": EVERY}
    result = bw.simulate({"x": policy}, world, shares=True, realised=True, **settings)
    plain = bw.simulate({"x": policy}, world, **settings)
    assert np.array_equal(result.regret["x"], plain.regret["x"]), "measuring changes nothing"
    assert np.array_equal(result.plays["x"], plain.plays["x"])
    assert plain.realised == {}
    replayed = World(world, 5)
    for repetition, labels in enumerate(played(result, "x")):
        run = replayed.repetition(repetition)
        index = np.argsort(replayed.labels(run))[labels]
        losses = replayed.walk_all(run, index, attacked=False).losses
        own = np.cumsum(losses[np.arange(ROUNDS), index])
        best = np.cumsum(losses, axis=0).min(axis=1)
        np.testing.assert_allclose(result.realised["x"][repetition], own - best, atol=1e-12)


BLOCKS = np.array([[0.2, 0.7], [0.2, 0.7], [0.6, 0.3], [0.6, 0.3]])


def enumerated():
    """Return mean and variance of four rounds' realised regret, arms drawn evenly.

    Every round has three cells of the uniform number: both arms lose, one does, none does.
    """
    outcomes = []
    for means in BLOCKS:
        low, high = sorted(means)
        worse = means == high
        cells = [(low, np.ones(2)), (high - low, worse * 1.0), (1.0 - high, np.zeros(2))]
        outcomes.append([(p / 2, losses, arm) for p, losses in cells for arm in (0, 1)])
    first = second = 0.0
    for path in itertools.product(*outcomes):
        chance = np.prod([p for p, _, _ in path])
        regret = sum(losses[arm] for _, losses, arm in path)
        regret -= np.sum([losses for _, losses, _ in path], axis=0).min()
        first += chance * regret
        second += chance * regret**2
    return first, second - first**2


@pytest.mark.statistical
def test_its_mean_and_variance_in_four_rounds_are_those_of_all_cases():
    world = Piecewise([[0.2, 0.7], [0.6, 0.3]], every=2, comparator="fixed")
    runs = 4000
    result = bw.simulate({"x": bw.Uniform()}, world, horizon=4, repetitions=runs, realised=True)
    final = result.realised["x"][:, -1]
    mean, variance = enumerated()
    margin = 4.0 * (variance / runs) ** 0.5
    assert abs(final.mean() - mean) < margin
    # Losses of four rounds are within 4 of each other: so is the variance's own standard error.
    assert abs(final.var() - variance) < 4.0 * (16.0 * variance / runs) ** 0.5
    # A control: the best arm of a run is not the best arm in expectation.
    pseudo = result.regret["x"][:, -1].mean()
    assert mean - pseudo > 3.0 * margin


@pytest.fixture(scope="module")
def result():
    return bw.simulate(
        [bw.TsallisINF(), bw.Uniform()], Piecewise.gap(3, 0.5, every=300), horizon=1000,
        repetitions=33, seed=2, progress=False, realised=True,
    )  # fmt: skip


def test_it_is_saved_and_tabulated(result, tmp_path):
    result.save(tmp_path / "a.parquet")
    again = bw.Result.load(tmp_path / "a.parquet")
    for name in result.names:
        assert np.array_equal(again.realised[name], result.realised[name])
    table = result.to_frame()
    assert table.column_names == ["policy", "repetition", "round", "regret", "realised"]
    assert table["realised"][-1].as_py() == result.realised["Uniform()"][-1, -1]


def test_summaries_rankings_and_plots_take_every_regret(result):
    for kind, runs in (
        ("pseudo", result.regret),
        ("realised", result.realised),
        ("fixed", result.regret_against("fixed")),
    ):
        means = {name: regret[:, -1].mean() for name, regret in runs.items()}
        rows = result.summary(regret=kind).rows
        assert {name: row["mean"] for name, row in rows.items()} == pytest.approx(means)
        assert result.ranking(resamples=99, regret=kind).means == pytest.approx(means)
        pair = result.compare("Uniform()", "TsallisINF()", resamples=9, regret=kind)
        assert pair.difference == pytest.approx(means["Uniform()"] - means["TsallisINF()"])
        axes = result.plot(regret=kind, scale="linear").axes[0]
        line = axes.get_lines()[0].get_ydata()
        assert line[-1] == pytest.approx(means[result.names[0]])
    assert axes.get_ylabel() == "regret against the best fixed arm"
    ranking = result.ranking(resamples=99, regret="realised")
    assert str(ranking).startswith("Realised regret at round 1,000, 33 repetitions;")
    assert ranking.plot().axes[0].get_xlabel() == "difference in realised regret at round 1,000"
    assert str(result.summary(regret="realised")).startswith("Realised regret at round 1,000\n")


def test_what_was_not_measured_is_refused(result, tmp_path):
    plain = bw.simulate(bw.Uniform(), FAIR, horizon=10, repetitions=4)
    with pytest.raises(InvalidParameter, match=r"must be kept by simulate\(realised=True\)"):
        plain.summary(regret="realised")
    with pytest.raises(InvalidParameter, match=r"^The regret of Result\.plot must be one of ps"):
        plain.plot(regret="block")
    with pytest.raises(
        InvalidParameter,
        match="one of pseudo, realised, fixed, dynamic, fixed in this run, got 'real'",
    ):
        result.ranking(regret="real")
    with pytest.raises(InvalidParameter, match=r"^The realised of simulate must be False with a"):
        bw.simulate(bw.Uniform(), FAIR, horizon=10, store=tmp_path, realised=True)
    with pytest.raises(InvalidParameter, match=r"^The realised of simulate must be False in due"):
        bw.simulate(bw.Sparring(), Utilities([0.5, 0.6]), horizon=10, realised=True)
    assert list(tmp_path.iterdir()) == []
