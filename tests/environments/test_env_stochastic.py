"""Environments with fixed gaps: exact means, phases, levels."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bothworlds.environments import Constrained, Stochastic, Switching
from bothworlds.environments.noise import CELLS, quantile_table
from bothworlds.errors import InvalidParameter
from helpers.worlds import LANES, call, grid, index_of, labels, random_play

MEANS = (0.0, 1e-9, 0.1, 0.4375, 0.5625, 0.999, 1.0)
NOISES = ("bernoulli", "uniform", "beta", "normal", "deterministic")


def losses_of_arm(world, arm, n):
    """Losses of one arm on a grid of the uniform number."""
    v = grid(n)
    return call(world, np.full(v.shape, arm), v)


@pytest.mark.parametrize("noise", NOISES)
def test_mean_is_exact_and_losses_stay_in_the_unit_interval(noise):
    # Piecewise linear in v between multiples of 1/CELLS: midpoints integrate it exactly.
    # Bernoulli losses are 1 below the mean: the grid's error is its spacing.
    n = 4 * CELLS if noise != "bernoulli" else 1 << 14
    tolerance = 1e-12 if noise != "bernoulli" else 0.5 / n
    world = Stochastic(MEANS, noise, shuffle=False)
    for arm, mean in enumerate(MEANS):
        seen = losses_of_arm(world, arm, n)
        assert abs(seen.losses[:, 0].mean() - mean) <= tolerance
        assert seen.losses.min() >= 0.0
        assert seen.losses.max() <= 1.0
        assert np.all(seen.regrets == mean - min(MEANS))


@pytest.mark.parametrize("noise", ["bernoulli", "beta"])
def test_a_wrong_mean_would_be_noticed(noise):
    world = Stochastic([0.3, 0.5], noise, shuffle=False)
    assert abs(losses_of_arm(world, 1, 4 * CELLS).losses[:, 0].mean() - 0.5001) > 5e-5


@pytest.mark.parametrize("mean", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("spread", [0.1, 0.5, 0.9])
def test_beta_quantiles(mean, spread):
    k = 1.0 / spread**2 - 1.0
    v = (np.arange(4 * CELLS) + 0.5) / (4 * CELLS)
    cell, fraction = np.divmod(v * CELLS, 1.0)
    table = quantile_table("beta", mean, spread)
    at = 2 * cell.astype(int)
    x = table[at] + (fraction - 0.5) * table[at + 1]
    reached = stats.beta(k * mean, k * (1.0 - mean)).cdf(np.clip(x, 1e-300, 1.0))
    inside = (x > 1e-12) & (x < 1.0 - 1e-12)
    assert np.abs(reached - v)[inside].max() <= 1.0 / CELLS
    assert x.std() == pytest.approx(np.sqrt(mean * (1.0 - mean)) * spread, rel=0.01)


@pytest.mark.parametrize("mean", [0.05, 0.3, 0.5, 0.95])
@pytest.mark.parametrize("sigma", [0.02, 0.25, 2.0])
def test_truncated_normal_quantiles(mean, sigma):
    # The same distribution on a grid of x, its tilt found by bisection.
    x = np.linspace(0.0, 1.0, 20_001)
    low, high = -1e4, 1e4
    for _ in range(80):
        tilt = 0.5 * (low + high)
        exponent = tilt * x - 0.5 * np.square(x / sigma)
        density = np.exp(exponent - exponent.max())
        reached = integrate.trapezoid(x * density) / integrate.trapezoid(density)
        low, high = (tilt, high) if reached < mean else (low, tilt)
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    table = quantile_table("normal", mean, sigma)
    middles = np.interp(table[0::2], x, cumulative / cumulative[-1])
    assert np.abs(middles - (np.arange(CELLS) + 0.5) / CELLS).max() <= 0.5 / CELLS


@pytest.mark.slow
@given(
    mean=st.floats(0.0, 1.0),
    noise=st.sampled_from(["beta", "normal"]),
    spread=st.floats(0.01, 0.99),
)
def test_tables_have_their_mean_whatever_the_shape(mean, noise, spread):
    table = quantile_table(noise, mean, spread)
    c, s = table[0::2], table[1::2]
    assert abs(c.mean() - mean) <= 1e-12
    assert np.all(s >= 0.0)
    assert np.all(c - 0.5 * s >= -1e-15)
    assert np.all(c + 0.5 * s <= 1.0 + 1e-15)
    assert np.all(np.diff(c) >= 0.0)


def test_uniform_noise_reaches_its_width():
    seen = losses_of_arm(Stochastic([0.2, 0.5], "uniform", spread=0.5, shuffle=False), 0, 1000)
    assert seen.losses.min() == pytest.approx(0.1, abs=1e-3)
    assert seen.losses.max() == pytest.approx(0.3, abs=1e-3)


def test_gap_is_the_papers_instance():
    world = Stochastic.gap(8, 0.125)
    assert world.means.tolist() == [0.4375] + [0.5625] * 7
    assert world.n_arms == 8
    assert world == Stochastic([0.4375] + [0.5625] * 7)
    assert world != Stochastic([0.4375] + [0.5625] * 6)


WORLDS = {
    **{noise: Stochastic([0.1, 0.4375, 0.9, 0.4375], noise) for noise in NOISES},
    "switching": Switching(5, 0.125),
    "level": Constrained([0.0, 0.1, 0.2], np.linspace(0.0, 0.8, 400)),
}


@pytest.mark.parametrize("name", WORLDS)
def test_lanes_are_scalars_bit_for_bit(name):
    world = WORLDS[name]
    arms, v = random_play(world, 400)
    wide, one = call(world, arms, v), call(world, arms, v, wide=False)
    assert np.array_equal(wide.losses, one.losses)
    assert np.array_equal(wide.regrets, one.regrets)
    assert np.array_equal(wide.state, one.state)


@pytest.mark.parametrize("name", WORLDS)
def test_a_round_may_be_asked_twice(name):
    world = WORLDS[name]
    arms, v = random_play(world, 200)
    other, _ = random_play(world, 200, seed=2)
    once = call(world, arms, v)
    twice = call(
        world,
        np.stack([other, arms], axis=1).reshape(-1, LANES),
        np.repeat(v, 2, axis=0),
        rounds=np.repeat(np.arange(1, 201), 2),
    )
    assert np.array_equal(twice.losses[1::2], once.losses)
    assert np.array_equal(twice.regrets[1::2], once.regrets)


@pytest.mark.parametrize("name", WORLDS)
def test_environments_survive_pickling(name):
    again = pickle.loads(pickle.dumps(WORLDS[name]))
    assert again == WORLDS[name]
    assert hash(again) == hash(WORLDS[name])
    assert repr(again) == repr(WORLDS[name])
    assert np.array_equal(again.parameters(), WORLDS[name].parameters())


def test_repetitions_have_orders_of_their_own():
    world = Stochastic(np.linspace(0.0, 1.0, 6))
    order = labels(world)
    assert np.array_equal(np.sort(order, axis=0), np.repeat(np.arange(6)[:, None], LANES, axis=1))
    assert len({tuple(column) for column in order.T}) > LANES // 2
    fixed = labels(Stochastic(np.linspace(0.0, 1.0, 6), shuffle=False))
    assert np.array_equal(fixed, np.repeat(np.arange(6)[:, None], LANES, axis=1))
    for index in range(6):
        v = np.full((1, LANES), 0.5)
        seen = call(world, np.full((1, LANES), index), v)
        assert np.allclose(seen.regrets[0], order[index] / 5.0, rtol=0.0, atol=1e-15)


# --- switching -------------------------------------------------------------------------------


def test_switches_of_the_paper():
    expected = [3, 6, 10, 17, 27, 44, 71, 114, 183, 293, 469, 750, 1200, 1921]
    assert Switching(8, 0.125).switches(2000).tolist() == expected


@pytest.mark.parametrize("first_level", ["high", "low"])
def test_switching_means_by_enumeration(first_level):
    gap, T = 0.25, 120
    world = Switching(3, gap, first_level=first_level)
    best = index_of(world, 0)
    v = np.repeat(grid(64), T, axis=0).reshape(64, T, LANES).transpose(1, 0, 2).reshape(-1, LANES)
    rounds = np.repeat(np.arange(1, T + 1), 64)
    phase = np.searchsorted(world.switches(T), np.arange(1, T + 1), side="right")
    high = (phase % 2 == 0) == (first_level == "high")
    for arm, own in ((best, 0.0), ((best + 1) % 3, gap)):
        seen = call(world, np.broadcast_to(arm, v.shape), v, rounds)
        means = seen.losses.reshape(T, 64, LANES).mean(axis=1)
        assert np.array_equal(means, np.where(high, 1.0 - gap, 0.0)[:, None] + own + 0.0 * means)
        assert np.all(seen.regrets == own)


def test_phases_of_constant_and_of_huge_length():
    assert Switching(2, 0.5, factor=1.0, first_length=4).switches(13).tolist() == [5, 9, 13]
    world = Switching(2, 0.5, factor=1.0, first_length=4, shuffle=False)
    v = np.full((13, LANES), 0.25)
    seen = call(world, np.zeros(v.shape), v)
    assert seen.losses[:, 0].tolist() == [1] * 4 + [0] * 4 + [1] * 4 + [0]
    late = Switching(2, 0.5)
    rounds = [10**12, 10**15]
    seen = call(late, np.zeros((2, LANES)), np.full((2, LANES), 0.25), rounds)
    number = [late.switches(t).size for t in rounds]
    best = index_of(late, 0) == 0
    for row, phases in enumerate(number):
        # At v = 1/4 the best arm (means 1/2 and 0) loses in high phases, the other in both.
        assert np.array_equal(seen.losses[row], np.where(best, float(phases % 2 == 0), 1.0))


# --- constrained -----------------------------------------------------------------------------


def falling(t):
    return 0.5 / t


def after_best(t, last):
    return 0.6 if last == 0 else 0.1


def too_high(t):
    return 0.95 if t == 3 else 0.5


def test_levels_from_an_array_and_from_a_function_agree():
    gaps = [0.2, 0.0, 0.45]
    listed = Constrained(gaps, 0.5 / np.arange(1.0, 201.0))
    computed = Constrained(gaps, falling)
    assert (listed.horizon_limit, computed.horizon_limit) == (200, None)
    assert (listed.trusted, computed.trusted) == (True, False)
    arms, v = random_play(listed, 200)
    first, second = call(listed, arms, v), call(computed, arms, v)
    assert np.array_equal(first.losses, second.losses)
    assert np.array_equal(first.regrets, second.regrets)


def test_level_after_the_last_action_counts_arms_as_given():
    world = Constrained([0.0, 0.3], after_best)
    assert not world.wide
    arms, v = random_play(world, 300)
    seen = call(world, arms, v, wide=False)
    played = np.take_along_axis(labels(world), arms, axis=0)
    last = np.vstack([np.full(LANES, -1), played[:-1]])
    mean = np.where(last == 0, 0.6, 0.1) + np.where(played == 0, 0.0, 0.3)
    assert np.array_equal(seen.losses, np.where(v < mean, 1.0, 0.0))
    assert np.array_equal(seen.regrets, np.where(played == 0, 0.0, 0.3))


def test_the_last_call_of_a_round_is_the_action():
    world = Constrained([0.0, 0.3], after_best)
    arms, v = random_play(world, 100)
    once = call(world, arms, v, wide=False)
    twice = call(
        world,
        np.stack([1 - arms, arms], axis=1).reshape(-1, LANES),
        np.repeat(v, 2, axis=0),
        rounds=np.repeat(np.arange(1, 101), 2),
        wide=False,
    )
    assert np.array_equal(twice.losses[1::2], once.losses)


def test_a_level_that_leaves_no_room_gives_no_loss():
    seen = call(Constrained([0.0, 0.1], too_high), np.zeros((4, LANES)), np.full((4, LANES), 0.5))
    assert np.isnan(seen.losses).all(axis=1).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Stochastic([0.5]), "means of Stochastic must be a vector of two or more"),
        (lambda: Stochastic([0.5, 1.5]), "means of Stochastic .* got \\[0.5, 1.5\\]"),
        (lambda: Stochastic([0.5, np.nan]), "means of Stochastic"),
        (lambda: Stochastic([[0.5, 0.5]]), "means of Stochastic"),
        (lambda: Stochastic(["a", "b"]), "means of Stochastic"),
        (
            lambda: Stochastic([0.1, 0.2], "gauss"),
            'noise of Stochastic must be "bernoulli", .* got',
        ),
        (lambda: Stochastic([0.1, 0.2], spread=0.5), "spread of Stochastic must be None"),
        (lambda: Stochastic([0.1, 0.2], "beta", 1.0), "spread of Stochastic must be a number in"),
        (lambda: Stochastic([0.1, 0.2], shuffle=1), "shuffle of Stochastic must be True or False"),
        (lambda: Stochastic.gap(1, 0.5), "n_arms of Stochastic.gap must be an integer of at"),
        (lambda: Stochastic.gap(2.5, 0.5), "n_arms of Stochastic.gap"),
        (lambda: Stochastic.gap(2, 0.0), "gap of Stochastic.gap must be a number in \\(0, 1\\]"),
        (lambda: Switching(4, 1.1), "gap of Switching must be"),
        (lambda: Switching(4, 0.1, factor=0.5), "factor of Switching must be 1, or"),
        (lambda: Switching(4, 0.1, factor=1.00001), "factor of Switching must be 1, or"),
        (lambda: Switching(4, 0.1, first_length=0), "first_length of Switching must be"),
        (lambda: Switching(4, 0.1, first_level="up"), 'first_level of Switching must be "high" or'),
        (lambda: Constrained([0.1, 0.2], [0.5]), "gaps of Constrained .* at least one zero"),
        (lambda: Constrained([0.0, 0.5], [0.4, 0.6]), "level of Constrained .* got 0.6"),
        (lambda: Constrained([0.0, 0.5], []), "level of Constrained must be a function, or"),
        (lambda: Constrained([0.0, 0.5], lambda: 1.0), "level of Constrained must be a function"),
        (lambda: Constrained([0.0, 0.5], lambda *t: 1.0), "level of Constrained must be a func"),
    ],
)
def test_bad_input_is_one_sentence(make, sentence):
    with pytest.raises(InvalidParameter, match=f"^The {sentence}.*\\.$"):
        make()


def test_long_arrays_print_short():
    assert repr(Stochastic(np.full(1000, 0.5))) == "Stochastic(means=[0.5, 0.5, ..., 0.5])"
    assert (
        repr(Switching(8, 0.125, shuffle=False)) == "Switching(n_arms=8, gap=0.125, shuffle=False)"
    )


def test_means_cannot_change_after_the_checks():
    given_means = np.array([0.2, 0.4])
    world = Stochastic(given_means)
    given_means[0] = 7.0
    assert world.means.tolist() == [0.2, 0.4]
    with pytest.raises(ValueError, match="read-only"):
        world.means[0] = 7.0
