"""Exact regret on small instances: values worked out by hand, and simulations of every policy."""

import itertools

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter
from bothworlds.registry import words
from bothworlds.theory import exact_regret

MEANS, ROUNDS, RUNS = (0.3, 0.8), 6, 100_000

EVERY = {word: entry.made(variant, ROUNDS) for word, (entry, variant) in words().items()}
EVERY["floor"] = bw.Floor(bw.TsallisINF(), scale=0.5)
# The weights of FTPL are geometric: its histories are not finitely many.
EVERY = {word: policy for word, policy in EVERY.items() if not isinstance(policy, bw.FTPL)}
EVERY["sw-thompson"] = bw.SlidingWindowThompson(window=2)
EVERY["discounted-ucb"] = bw.DiscountedUCB(window=3, c=0.5)
EVERY["restarted"] = bw.Restarted(bw.TsallisINF(), every=3)
EVERY["discounted"] = bw.Discounted(bw.TsallisINF(), window=4)


def in_any_order(policy, means, rounds):
    """Return the regret where the arms are in a random order, as `simulate` has them."""
    orders = list(itertools.permutations(means))
    return np.mean([exact_regret(policy, order, rounds) for order in orders], axis=0)


def simulated(policy):
    """Return the mean regret at the last round, and its standard error."""
    world = bw.environments.Stochastic(MEANS)
    result = bw.simulate(
        {"it": policy}, world, horizon=ROUNDS, repetitions=RUNS, seed=3, progress=False
    )
    final = result.at()["it"]
    return float(final.mean()), float(final.std()) / RUNS**0.5


def test_one_arm_after_another_by_hand():
    """UCB1 with two rounds plays both arms; in the third it plays the one with less loss."""
    low, high = 0.25, 0.75
    found = exact_regret(bw.UCB1(), [low, high], 3)
    # The second arm is played in round 3 only after losses of 1 and 0.
    expected = np.array([0.0, 0.5, 0.5 + 0.5 * low * (1.0 - high)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_thompson_sampling_by_hand():
    """After one loss of 1 the posterior Beta(2, 1) is above a uniform one with probability 2/3."""
    low, high = 0.2, 0.6
    found = exact_regret(bw.ThompsonSampling(), [low, high], 2)
    # Round 1 is a coin; the arm is left with 2/3 after a loss, and kept with 2/3 after none.
    stay_low, stay_high = (2.0 - low) / 3.0, (2.0 - high) / 3.0
    second = 0.5 * (1.0 - stay_low) + 0.5 * stay_high
    np.testing.assert_allclose(found, [0.2, 0.2 + 0.4 * second], rtol=0, atol=1e-12)


def test_importance_weighting_by_hand():
    """After a loss of 1 of an arm drawn with probability 1/2, L = 2; w solves the step."""
    low, high = 0.25, 0.75
    policy = bw.TsallisINF(estimator="iw")
    found = exact_regret(policy, [low, high], 2)
    w = bw.omd.weights([2.0, 0.0], 2.0 / np.sqrt(2.0))
    second = 0.5 * (low * w[1] + (1 - low) * 0.5) + 0.5 * (high * w[0] + (1 - high) * 0.5)
    np.testing.assert_allclose(found, [0.25, 0.25 + 0.5 * second], rtol=0, atol=1e-9)


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("word", EVERY)
def test_a_simulation_of_every_policy_agrees(word):
    policy = EVERY[word]
    mean, error = simulated(policy)
    assert abs(mean - in_any_order(policy, MEANS, ROUNDS)[-1]) < 4.0 * max(error, 1e-9)


@pytest.mark.statistical
@pytest.mark.slow
def test_another_policy_would_be_found():
    """A control: the simulation of one estimator is far from the exact regret of the other."""
    mean, error = simulated(bw.TsallisINF())
    other = in_any_order(bw.TsallisINF(estimator="iw"), MEANS, ROUNDS)[-1]
    assert abs(mean - other) > 8.0 * error


@pytest.mark.slow
def test_policies_that_count_go_on_to_sixty_rounds():
    for policy in (bw.UCB1(), bw.ThompsonSampling()):
        found = exact_regret(policy, [0.25, 0.75], 60)
        assert found.shape == (60,)
        assert (np.diff(found) >= -1e-12).all()
        # Regret grows like a logarithm: the second half adds less than the first.
        assert found[59] - found[29] < found[29]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: exact_regret(bw.TsallisINF(), [0.1, 0.2, 0.3, 0.4], 3), "means .* at most 3"),
        (lambda: exact_regret(bw.TsallisINF(), [0.1, 0.2], 13), "horizon .* at most 12"),
        (lambda: exact_regret(bw.UCB1(), [0.1, 0.2], 61), "horizon .* at most 60"),
        (lambda: exact_regret("ucb1", [0.1, 0.2], 3), "policy .* a policy"),
    ],
)
def test_what_is_too_large_is_refused(call, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        call()
