"""Heavy-tailed losses: the distributions they claim, one number a round, and who may play."""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine.replay import World
from bothworlds.environments import HeavyTailed
from bothworlds.errors import InvalidParameter

ROUNDS = 100_000


def drawn(environment, rounds=ROUNDS):
    """Return the losses of arm 0 of the constructor in many rounds."""
    world = World(environment, 5)
    run = world.repetition(0)
    return world.walk(run, np.zeros(rounds, np.int64))[0]


def student3(x):
    """Return the distribution function of Student's t with 3 degrees of freedom."""
    z = x / math.sqrt(3.0)
    return 0.5 + (z / (1 + z * z) + math.atan(z)) / math.pi


def normal(x):
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


CASES = {
    "student": (HeavyTailed([0.5, 0.5], shuffle=False), lambda x: student3(x - 0.5)),
    "lognormal": (
        HeavyTailed([2.0, 2.0], "lognormal", 1.2, shuffle=False),
        lambda x: normal((math.log(x / 2.0) + 0.72) / 1.2),
    ),
    "pareto": (
        HeavyTailed([3.0, 3.0], "pareto", 1.5, shuffle=False),
        lambda x: 1 - (1.0 / x) ** 1.5,
    ),
}
LEVELS = (0.001, 0.05, 0.3, 0.5, 0.8, 0.99, 0.999, 0.9999)


def deviations(x, cdf):
    """Return by how many standard errors the shares below sample quantiles are off."""
    found = []
    for level in LEVELS:
        point = float(np.quantile(x, level))
        expected = cdf(point)
        found.append(abs(level - expected) / math.sqrt(expected * (1 - expected) / x.size + 1e-18))
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("noise", list(CASES))
def test_the_distribution_far_into_its_tails(noise):
    environment, cdf = CASES[noise]
    assert max(deviations(drawn(environment), cdf)) < 5


@pytest.mark.statistical
def test_another_shape_would_be_found():
    """Negative control: 3.3 degrees of freedom are not 3."""
    x = drawn(HeavyTailed([0.5, 0.5], shape=3.3, shuffle=False))
    assert max(deviations(x, lambda y: student3(y - 0.5))) > 5


@pytest.mark.statistical
def test_direction_and_size_of_student_noise_are_independent():
    """The second uniform number is made of the bits of the first: their mix must not show."""
    x = drawn(CASES["student"][0]) - 0.5
    sign = np.sign(x)
    bound = 5 / math.sqrt(ROUNDS)
    assert abs(np.mean(sign)) < bound
    for level in (0.3, 0.7, 0.95):
        far = np.abs(x) > np.quantile(np.abs(x), level)
        assert abs(np.mean(sign[far])) < 5 / math.sqrt(far.sum())
    assert abs(np.mean(sign[1:] * sign[:-1])) < bound


def test_all_arms_share_the_rounds_noise():
    world = World(HeavyTailed([1.0, 4.0], shuffle=False), 5)
    both = world.walk_all(world.repetition(0), np.zeros(50, np.int64), attacked=False).losses
    assert both[:, 1] - both[:, 0] == pytest.approx(np.full(50, 3.0))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"means": [1.0]}, "means"),
        ({"means": [1.0, math.inf]}, "means"),
        ({"means": [0.0, 1.0], "noise": "pareto"}, "means"),
        ({"means": [1.0, 2.0], "noise": "cauchy"}, "noise"),
        ({"means": [1.0, 2.0], "shape": 1.0}, "shape"),
        ({"means": [1.0, 2.0], "noise": "lognormal", "shape": 0.0}, "shape"),
        ({"means": [1.0, 2.0], "noise": "pareto", "shape": "2"}, "shape"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, word):
    with pytest.raises(InvalidParameter, match=f"The {word} of HeavyTailed must be"):
        HeavyTailed(**arguments)


def test_only_policies_without_bounds_play():
    world = HeavyTailed([0.0, 1.0])
    with pytest.raises(InvalidParameter, match="losses without bounds, such as HTINF"):
        bw.simulate([bw.TsallisINF()], world, horizon=10, repetitions=1, progress=False)
    with pytest.raises(InvalidParameter, match=r"The base of Corrupted must be"):
        bw.environments.Corrupted(world, 10.0)
    result = bw.simulate([bw.Uniform()], world, horizon=400, repetitions=16, seed=1, progress=False)
    # Regret is that of the means, whatever the losses were.
    assert set(np.mod(result.regret["Uniform()"][:, -1], 1.0)) == {0.0}
