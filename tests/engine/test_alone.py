"""A single repetition plays by kernels compiled for one: the bits are those it has in a tile."""

from dataclasses import replace

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine import loop as engine
from bothworlds.engine.tile import TileJob, compile_kernels, run_job

POLICIES = {
    "rv": bw.TsallisINF(),
    "iw": bw.TsallisINF(estimator="iw"),
    "exp3++": bw.Exp3PlusPlus(),
    "ucb1": bw.UCB1(),
    "klucb": bw.KLUCB(),
    "thompson": bw.ThompsonSampling(),
    "floor": bw.Floor(bw.TsallisINF(), scale=0.1),
    "general": bw.TsallisINF(alpha=0.7),
}


def job(policy, world, count, first=0, horizon=20_000, **more):
    checkpoints = (100, 333, horizon)
    return TileJob("x", policy, world, 5, first, count, checkpoints, **more)


def same(one, many, row=0):
    assert np.array_equal(one.cost[0], many.cost[row])
    assert np.array_equal(one.plays[0], many.plays[row])
    if many.tracked is not None:
        assert np.array_equal(one.tracked[0], many.tracked[row])


@pytest.mark.parametrize("n_arms", [4, 12])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_repetition_alone_is_the_one_it_is_in_a_tile(policy, n_arms):
    world = bw.environments.Stochastic.gap(n_arms, 0.25)
    tile = run_job(job(policy, world, 3))
    same(run_job(job(policy, world, 1)), tile)
    # One that is not the first plays in a vector, and is the same as well.
    same(run_job(job(policy, world, 1, first=2)), tile, 2)
    assert not np.array_equal(tile.plays[0], tile.plays[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rv", "iw"])
def test_a_repetition_alone_enters_the_leader_mode_as_in_a_tile(name):
    world = bw.environments.Piecewise([[0.4, *[0.8] * 7], [0.9, 0.4, *[0.8] * 6]], every=40_500)
    tile = run_job(job(POLICIES[name], world, 2, horizon=80_000))
    same(run_job(job(POLICIES[name], world, 1, horizon=80_000)), tile)


@pytest.mark.parametrize(
    "world",
    [
        bw.environments.Stochastic([0.2, 0.5, 0.6], noise="beta"),
        bw.environments.Switching(3, 0.25),
        bw.environments.Adaptive(3),
        bw.environments.Adversarial(np.random.default_rng(0).random((20_000, 3))),
        bw.environments.Corrupted(bw.environments.Stochastic.gap(3, 0.25), 20),
    ],
    ids=lambda world: type(world).__name__,
)
def test_in_every_kind_of_world(world):
    policy = bw.UCB1()
    same(run_job(job(policy, world, 1)), run_job(job(policy, world, 2)))


def test_which_kernels_play():
    world = bw.environments.Stochastic.gap(4, 0.25)
    for policy, alone, mode in (
        (bw.UCB1(), True, engine.ALONE),
        (bw.UCB1(), False, 0),
        (bw.TsallisINF(alpha=0.7), True, 0),
    ):
        assert (
            compile_kernels(policy.program(4, lanes=True), world, None, alone)[1] & engine.ALONE
            == mode
        )


@pytest.mark.parametrize("name", ["rv", "thompson"])
def test_it_goes_on_from_its_snapshot(name):
    world = bw.environments.Stochastic.gap(4, 0.25)
    whole = run_job(job(POLICIES[name], world, 1))
    begun = run_job(replace(job(POLICIES[name], world, 1, keep=True), checkpoints=(100,)))
    rest = run_job(job(POLICIES[name], world, 1, after=100, earlier=begun))
    assert np.array_equal(rest.plays, whole.plays)
    assert np.array_equal(rest.cost[0], whole.cost[0][1:])
