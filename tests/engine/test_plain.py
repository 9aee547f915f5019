"""Policies in plain Python: the same runs as compiled ones, in every kind of environment."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.environments import Adaptive, Corrupted, Delayed, Piecewise, Stochastic
from bothworlds.errors import InvalidParameter, KernelError


@dataclass(frozen=True, repr=False)
class PlainUCB(bw.policies.PlainPolicy):
    """UCB1, written again with lists."""

    c: float = 1.5

    def begin(self, n_arms, rng):
        return [0] * n_arms, [0.0] * n_arms

    def choose(self, state, t):
        n, total = state
        if 0 in n:
            return n.index(0)
        width = math.sqrt(self.c * math.log(t))
        return np.argmin(
            [x / k - width * (1.0 / math.sqrt(k)) for x, k in zip(total, n, strict=True)]
        )

    def update(self, state, t, arm, loss):
        state[0][arm] += 1
        state[1][arm] += loss


class Broken(bw.policies.PlainPolicy):
    """Returns no arm, or raises."""

    def begin(self, n_arms, rng):
        return None

    def choose(self, state, t):
        if t == 3:
            raise ValueError("no arm today")
        return 0

    def update(self, state, t, arm, loss):
        pass


class Outside(Broken):
    """Returns an arm that does not exist."""

    def choose(self, state, t):
        return 7


class Random(Broken):
    """Plays at random, from its own generator."""

    def begin(self, n_arms, rng):
        return rng, n_arms

    def choose(self, state, t):
        return state[0].integers(state[1])


@bw.environments.custom
class Swapping:
    def mean(state, parameters, n_arms, t, arm):
        return 0.25 if (t % 3 == 0) == (arm == 0) else 0.75

    def loss(state, parameters, n_arms, t, arm, u):
        return 1.0 if u < (0.25 if (t % 3 == 0) == (arm == 0) else 0.75) else 0.0


WORLDS = [
    Stochastic.gap(3, 0.25),
    Piecewise.gap(2, 0.5, every=50),
    Adaptive(3, "punish", gap=0.25),
    Corrupted(Stochastic.gap(3, 0.25), budget=10),
    Swapping(2),
]


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_the_runs_are_those_of_the_compiled_policy(world):
    both = {"plain": PlainUCB(), "compiled": bw.UCB1()}
    result = bw.simulate(
        both, world, horizon=200, repetitions=20, seed=4, shares=True, realised=True,
        progress=False,
    )  # fmt: skip
    for kept in (result.regret, result.plays, result.plays_at, result.realised):
        np.testing.assert_allclose(kept["plain"], kept["compiled"], rtol=0, atol=1e-9)
    moving = result.regret_against("dynamic")
    np.testing.assert_allclose(moving["plain"], moving["compiled"], rtol=0, atol=1e-9)
    assert result.ranking().means["plain"] == pytest.approx(result.ranking().means["compiled"])


@pytest.mark.extra
def test_a_store_keeps_and_finds_the_runs(tmp_path):
    given = {"horizon": 50, "seed": 2, "store": tmp_path, "progress": False}
    world = Stochastic.gap(2, 0.5)
    some = bw.simulate([PlainUCB()], world, repetitions=10, **given)
    more = bw.simulate([PlainUCB(), PlainUCB(c=2.0)], world, repetitions=20, **given)
    assert list(more.regret) == ["PlainUCB()", "PlainUCB(c=2.0)"]
    assert np.array_equal(more.regret["PlainUCB()"][:10], some.regret["PlainUCB()"])
    assert not np.array_equal(more.regret["PlainUCB()"], more.regret["PlainUCB(c=2.0)"])


def test_every_run_has_its_own_generator():
    world = Stochastic.gap(3, 0.5)
    runs = [
        bw.simulate(Random(), world, horizon=100, repetitions=3, seed=1, progress=False)
        for _ in range(2)
    ]
    plays = [each.plays["Random()"] for each in runs]
    assert np.array_equal(*plays)
    assert len({tuple(row) for row in plays[0].tolist()}) == 3


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (
            Broken(),
            r"policy of Broken\(\) must not raise an error, but it raised ValueError: no arm",
        ),
        (Outside(), r"choose of Outside\(\) must return an arm from 0 to 1, got 7"),
    ],
)
def test_what_goes_wrong_is_one_sentence(policy, sentence):
    with pytest.raises(KernelError, match=sentence):
        bw.simulate(policy, Stochastic.gap(2, 0.5), horizon=9, repetitions=1, progress=False)


def test_late_feedback_and_snapshots_are_refused(tmp_path):
    world = Stochastic.gap(2, 0.5)
    with pytest.raises(InvalidParameter, match="compiled policies in Delayed"):
        bw.simulate(Random(), Delayed(world, 3), horizon=9, repetitions=1, progress=False)
    with pytest.raises(InvalidParameter, match="False with policies in plain Python"):
        bw.simulate(Random(), world, horizon=9, repetitions=1, store=tmp_path, continuable=True)
