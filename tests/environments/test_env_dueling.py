"""Duels by utilities and by a preference matrix."""

import pickle

import numpy as np
import pytest

from bothworlds.environments import Preferences, Utilities
from bothworlds.errors import InvalidParameter
from helpers.worlds import LANES, duel, grid, labels

U = np.array([0.5, 0.875, 0.25, 0.0])
TABLE = np.random.default_rng(8).random((64, 3))
MATRIX = np.array([[0.5, 0.25, 0.75], [0.75, 0.5, 0.625], [0.25, 0.375, 0.5]])


def rising(t, arm):
    return arm / (t + 3.0)


def beyond(t, arm):
    return 1.0 + arm


def pairs(K, rounds, seed=0):
    rng = np.random.default_rng(seed)
    v = rng.integers(0, 2**52, (rounds, LANES)) * 2.0**-52
    return rng.integers(K, size=(rounds, LANES)), rng.integers(K, size=(rounds, LANES)), v


def test_win_probabilities_by_enumeration():
    world = Utilities(U, shuffle=False)
    v = grid(64)
    for i in range(4):
        for j in range(4):
            seen = duel(world, np.full(v.shape, i), np.full(v.shape, j), v)
            # Sixteenths: the grid of 64 midpoints counts them exactly.
            assert np.all(1.0 - seen.losses.mean(axis=0) == (1.0 + U[i] - U[j]) / 2.0)
            assert np.all(seen.regrets == 2.0 * U.max() - U[i] - U[j])


def test_the_same_arm_on_both_sides_is_a_fair_coin():
    v = grid(64)
    seen = duel(Utilities(U), np.ones(v.shape), np.ones(v.shape), v)
    assert np.all(seen.losses.mean(axis=0) == 0.5)


WORLDS = {
    "constant": Utilities(U),
    "table": Utilities(TABLE),
    "matrix": Preferences(MATRIX),
}


@pytest.mark.parametrize("name", WORLDS)
def test_lanes_are_scalars_bit_for_bit(name):
    world = WORLDS[name]
    left, right, v = pairs(world.n_arms, 64)
    wide, one = duel(world, left, right, v), duel(world, left, right, v, wide=False)
    assert np.array_equal(wide.losses, one.losses)
    assert np.array_equal(wide.regrets, one.regrets)


@pytest.mark.parametrize("name", WORLDS)
def test_duels_are_duels_and_survive_pickling(name):
    world = WORLDS[name]
    assert world.kind == "duel"
    again = pickle.loads(pickle.dumps(world))
    assert again == world
    assert repr(again) == repr(world)


def test_utilities_over_time_from_a_table(tmp_path):
    np.save(tmp_path / "u.npy", TABLE)
    left, right, v = pairs(3, 64)
    rows = np.arange(64)[:, None]
    lost = v < 0.5 * (1.0 - (TABLE[rows, left] - TABLE[rows, right]))
    cost = (1.0 - TABLE[rows, left]) + (1.0 - TABLE[rows, right])
    for world in (Utilities(TABLE), Utilities(tmp_path / "u.npy")):
        assert (world.regret, world.horizon_limit, world.n_arms) == ("oblivious", 64, 3)
        seen = duel(world, left, right, v)
        assert np.array_equal(seen.losses, lost.astype(float))
        assert np.array_equal(seen.regrets, cost)
        best = 2.0 * np.cumsum(TABLE, axis=0).max(axis=1)
        # Costs less the best arm's are the paper's regret.
        assert world.best_cumulative([9, 64]) == pytest.approx(
            2.0 * np.array([9, 64]) - best[[8, 63]]
        )


def test_utilities_over_time_from_a_function():
    world = Utilities(rising, n_arms=3)
    left, right, v = pairs(3, 50)
    seen = duel(world, left, right, v, wide=False)
    t = np.arange(1, 51)[:, None]
    u_left, u_right = left / (t + 3.0), right / (t + 3.0)
    assert np.array_equal(seen.losses, (v < 0.5 * (1.0 - (u_left - u_right))).astype(float))
    expected = 2.0 * (50 - np.sum(2.0 / (np.arange(1, 51) + 3.0)))
    assert world.best_cumulative([50]) == pytest.approx([expected])


def test_a_utility_out_of_range_gives_no_winner():
    left, right, v = pairs(2, 5)
    world = Utilities(beyond, n_arms=2)
    assert not world.trusted
    seen = duel(world, np.ones_like(left), right, v, wide=False)
    assert np.isnan(seen.losses).all()


def test_matrix_by_enumeration():
    world = Preferences(MATRIX)
    assert world.winner == 1
    v = grid(64)
    order = labels(world)
    for a in range(3):
        for b in range(3):
            seen = duel(world, np.full(v.shape, a), np.full(v.shape, b), v)
            i, j = order[a], order[b]
            assert np.array_equal(1.0 - seen.losses.mean(axis=0), MATRIX[i, j])
            assert np.array_equal(seen.regrets[0], MATRIX[1, i] - 0.5 + MATRIX[1, j] - 0.5)


def test_matrix_of_utilities_has_half_their_regret():
    matrix = (1.0 + U[:, None] - U[None, :]) / 2.0
    left, right, v = pairs(4, 100)
    first = duel(Utilities(U, shuffle=False), left, right, v)
    second = duel(Preferences(matrix, shuffle=False), left, right, v)
    assert np.array_equal(first.losses, second.losses)
    assert first.regrets == pytest.approx(2.0 * second.regrets)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Utilities([0.5, 1.5]), "u of Utilities must be a vector of two or more numbers"),
        (lambda: Utilities([0.5]), "u of Utilities must be a vector of two or more numbers"),
        (lambda: Utilities([[0.5, -0.5]]), "u of Utilities must be in \\[0, 1\\], got -0.5"),
        (lambda: Utilities("nowhere.npy"), "u of Utilities must be the path of a readable"),
        (lambda: Utilities(rising), "n_arms of Utilities must be an integer of at least 2"),
        (lambda: Utilities(lambda t: 0.5, 2), "u of Utilities must be a function of 2 arguments"),
        (lambda: Utilities([0.1, 0.2], n_arms=3), "n_arms of Utilities must be 2, the number of"),
        (lambda: Utilities([0.1, 0.2], shuffle="no"), "shuffle of Utilities must be True or False"),
        (lambda: Preferences([[0.5, 0.6]]), "matrix of Preferences must be a square matrix"),
        (lambda: Preferences([[0.5, 0.6], [0.6, 0.5]]), "matrix of Preferences must be of prob"),
        (lambda: Preferences([[0.5, 0.5], [0.5, 0.5]]), "matrix of Preferences must be one with"),
        (
            lambda: Preferences([[0.5, 0.6, 0.4], [0.4, 0.5, 0.6], [0.6, 0.4, 0.5]]),
            "matrix of Preferences must be one with an arm that wins against every other",
        ),
    ],
)
def test_bad_input_is_one_sentence(make, sentence):
    with pytest.raises(InvalidParameter, match=f"^The {sentence}.*\\.$"):
        make()
