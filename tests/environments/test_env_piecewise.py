"""Piecewise means: blocks, exact means, and regret against the block's or the fixed best arm."""

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.environments import Piecewise, Stochastic
from bothworlds.errors import InvalidParameter
from helpers.worlds import LANES, call, grid, labels, random_play

MEANS = np.array([[0.2, 0.5, 0.9], [0.6, 0.3, 0.3], [1.0, 0.0, 0.25]])


def block_of(t):
    """The block of a round with blocks that begin in rounds 1, 4 and 11, by hand."""
    return 0 if t < 4 else 1 if t < 11 else 2


@pytest.mark.parametrize("comparator", ["block", "fixed"])
def test_means_and_regret_are_those_of_the_block_and_the_label(comparator):
    world = Piecewise(MEANS, starts=[1, 4, 11], comparator=comparator)
    arms, v = random_play(world, 40)
    seen = call(world, arms, v)
    names = labels(world)
    for n in range(40):
        mean = MEANS[block_of(n + 1)]
        for lane in range(LANES):
            expected = mean[names[arms[n, lane], lane]]
            assert seen.losses[n, lane] == float(v[n, lane] < expected)
            least = mean.min() if comparator == "block" else 0.0
            assert seen.regrets[n, lane] == expected - least


def test_every_means_blocks_of_equal_length_and_the_last_row_stays():
    world = Piecewise(MEANS, every=5, shuffle=False)
    assert world.changes(100).tolist() == [6, 11]
    rounds = np.array([1, 5, 6, 10, 11, 15, 16, 10**6])
    seen = call(world, np.zeros((8, LANES)), np.full((8, LANES), 0.5), rounds)
    assert seen.regrets[:, 0] == pytest.approx([0.0, 0.0, 0.3, 0.3, 1.0, 1.0, 1.0, 1.0])


def test_the_first_round_of_the_first_block_may_be_left_out():
    assert Piecewise(MEANS, starts=[4, 11]) == Piecewise(MEANS, starts=[1, 4, 11])


def test_means_are_exact():
    world = Piecewise(MEANS, every=10, shuffle=False)
    v = grid(1 << 12)
    for block in range(3):
        for arm in range(3):
            seen = call(world, np.full(v.shape, arm), v, np.full(len(v), 1 + 10 * block))
            assert abs(seen.losses[:, 0].mean() - MEANS[block, arm]) <= 0.5 / len(v)


def test_the_best_fixed_arm_by_hand():
    world = Piecewise(MEANS, starts=[1, 4, 11], comparator="fixed")
    assert world.best_cumulative([3, 5, 20]) == pytest.approx(
        [0.6, min(0.6 + 1.2, 1.5 + 0.6), min(0.6 + 4.2 + 10.0, 1.5 + 2.1 + 0.0)]
    )


@pytest.mark.statistical
def test_both_regrets_differ_by_the_comparator_alone():
    """The same plays: against each block's best arm, or against one arm all along."""
    block, fixed = (Piecewise(MEANS, every=200, comparator=name) for name in ("block", "fixed"))
    plain = bw.Uniform()
    regret = {}
    for world in (block, fixed):
        result = bw.simulate(
            {"x": plain}, world, horizon=900, repetitions=320, seed=2, checkpoints=[900],
            progress=False,
        )  # fmt: skip
        regret[world.comparator] = result.regret["x"][:, -1]
    lengths = np.array([200, 200, 500])
    apart = (lengths @ MEANS).min() - lengths @ MEANS.min(axis=1)
    error = np.hypot(*(r.std(ddof=1) / np.sqrt(320) for r in regret.values()))
    found = regret["block"].mean() - regret["fixed"].mean()
    assert abs(found - apart) < 4 * error
    # The other rows would be noticed.
    assert abs(found - apart / 2) > 4 * error


def test_a_single_block_is_the_stochastic_regime():
    world = Piecewise([[0.3, 0.5, 0.5]], every=1)
    assert world.fixed_gaps() == pytest.approx(Stochastic([0.3, 0.5, 0.5]).fixed_gaps())
    assert Piecewise(MEANS, every=1).fixed_gaps().size == 0


def test_the_turning_instance_gives_every_arm_its_block():
    world = Piecewise.gap(3, 0.2, every=10)
    assert world.means.argmin(axis=1).tolist() == [0, 1, 2]
    assert np.unique(world.means) == pytest.approx([0.4, 0.6])
    assert Piecewise.gap(2, 0.5, every=10, blocks=5).means.argmin(axis=1).tolist() == [
        0,
        1,
        0,
        1,
        0,
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([0.1, 0.2], 5), "The means of Piecewise must be a row per block"),
        (([[0.1], [0.2]], 5), "The means of Piecewise must be a row per block"),
        (([[0.1, 1.2]], 5), "The means of Piecewise must be a row per block"),
        (([[0.1, np.nan]], 5), "The means of Piecewise must be a row per block"),
        ((MEANS,), "The every of Piecewise must be given, or else starts, got None"),
        ((MEANS, 5, [1, 2, 3]), "The every of Piecewise must be given, or else starts, got 5"),
        ((MEANS, 0), "The every of Piecewise must be an integer of at least 1, got 0"),
        ((MEANS, 10**400), "The every of Piecewise must be"),
        ((MEANS, None, [1, 5]), "The starts of Piecewise must be the first rounds of 3 blocks"),
        ((MEANS, None, [2, 5, 9]), "The starts of Piecewise must be the first rounds of 3 blocks"),
        ((MEANS, None, [1, 5, 5]), "The starts of Piecewise must be the first rounds of 3 blocks"),
        ((MEANS, None, [1, 5, 7.5]), "The starts of Piecewise must be the first rounds of 3"),
        ((MEANS, None, "soon"), "The starts of Piecewise must be the first rounds of 3 blocks"),
        ((MEANS, 5, None, "best"), 'The comparator of Piecewise must be "block" or "fixed"'),
    ],
)
def test_bad_arguments(arguments, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        Piecewise(*arguments)
