"""Runs that end before a leader mode may begin are played without it, with the same bits."""

from dataclasses import replace

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.shard import cut, run_shard
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.omd import ahead
from bothworlds.omd.leader import half as mode
from bothworlds.omd.leader import membership
from bothworlds.policies.tsallis_inf import half
from helpers.programs import plain

POLICIES = {
    "iw": bw.TsallisINF(estimator="iw"),
    "rv": bw.TsallisINF(),
    "exp3": bw.Exp3(),
    "exp3++": bw.Exp3PlusPlus(),
    "broad": bw.Broad(horizon=50_000),
}
EVERY = pytest.mark.parametrize("name", POLICIES)


def first_round(name, n_arms):
    if name in ("iw", "rv"):
        return mode.first_round.py_func(n_arms)
    return membership.FIRST


def without_mode(name, n_arms):
    """Return the kernels that play short runs."""
    if name in ("iw", "rv") and ahead.fits(n_arms, name):
        return half.ahead_in_tiles(n_arms, name)
    if name in ("iw", "rv"):
        return half.one_solver(name, n_arms <= 8, 5 <= n_arms <= 8)
    return POLICIES[name].kernels()


def curve(name, horizon, n_arms=9, checkpoints=(100, 5_000)):
    world = bw.environments.Stochastic.gap(n_arms, 0.3)
    return Curve("P", POLICIES[name], world, (*checkpoints, horizon), 20, 3)


@EVERY
@pytest.mark.slow
def test_short_runs_have_the_bits_of_the_mode(name):
    short = curve(name, first_round(name, 9) - 1)
    for ends, leads in zip(cut(short, [(0, 20)]), cut(short, [(0, 20)], keep=True), strict=True):
        assert ends.program.kernels is without_mode(name, 9)
        assert leads.program.kernels is short.program().kernels is not ends.program.kernels
        one, other = run_job(ends), run_job(leads)
        assert np.array_equal(one.cost, other.cost)
        assert np.array_equal(one.plays, other.plays)


@EVERY
@pytest.mark.slow
def test_longer_runs_would_differ_without_the_mode(name):
    horizon = 3 * first_round(name, 9)
    (job,) = cut(curve(name, horizon), [(0, 16)])
    assert job.program.kernels is replace(job, keep=True).program.kernels
    without = replace(job, policy=plain(POLICIES[name]))
    assert not np.array_equal(run_job(job).plays, run_job(without).plays)


@EVERY
def test_the_mode_is_there_from_the_round_in_which_it_may_begin(name):
    for n_arms in (3, 9, 32):
        policy, first = POLICIES[name], first_round(name, n_arms)
        found = [
            policy.program(n_arms, lanes=True, horizon=horizon).kernels
            for horizon in (first - 1, first, None)
        ]
        assert found[0] is without_mode(name, n_arms) is not found[1]
        assert found[1] is found[2]


def test_what_goes_on_has_the_whole_state():
    short = curve("rv", 5_001)
    (fresh,) = cut(short, [(0, 16)])
    (begun,) = cut(short, [(0, 16)], keep=True)
    going_on = replace(begun, keep=False, after=100, earlier=run_job(begun))
    assert fresh.program.kernels is without_mode("rv", 9)
    assert going_on.program.kernels is short.program().kernels is begun.program.kernels


@pytest.mark.extra
def test_a_short_run_that_can_go_on_is_the_beginning_of_the_long_one(tmp_path):
    world = bw.environments.Stochastic.gap(9, 0.3)

    def run(horizon, **options):
        return bw.simulate(
            {"P": bw.TsallisINF()}, world, horizon=horizon, repetitions=20, seed=3,
            checkpoints=[100, 1_000], progress=False, **options,
        )  # fmt: skip

    for continuable in (False, True):
        short = run(1_000, store=tmp_path / str(continuable), continuable=continuable)
        long = run(50_000, store=tmp_path / str(continuable), continuable=continuable)
        straight = run(50_000)
        assert np.array_equal(short.regret["P"], straight.regret["P"][:, :2])
        assert np.array_equal(long.regret["P"], straight.regret["P"])


def test_tiles_that_begin_and_tiles_that_go_on_run_in_one_shard():
    short, long = curve("rv", 100, checkpoints=()), curve("rv", 400, checkpoints=(100,))
    begun, _ = run_shard(cut(short, [(0, 20)], keep=True))
    (after,) = cut(long, [(0, 16)], whole=True)
    (fresh,) = cut(long, [(16, 20)])
    jobs = [fresh, replace(after, after=100, earlier=begun)]
    assert jobs[0].program.kernels is not jobs[1].program.kernels
    straight = run_shard(cut(long, [(0, 20)]))
    for shard in (jobs, jobs[::-1]):
        for outcome in run_shard(shard):
            whole = straight[outcome.first // 16]
            assert np.array_equal(outcome.cost[:, -1], whole.cost[:, -1])
            assert np.array_equal(outcome.plays, whole.plays)


@pytest.mark.parametrize("n_arms", [2, 5, 8, 9, 20, 60, 140])
@pytest.mark.parametrize("name", ["iw", "rv"])
def test_one_solver_plays_as_both_do(name, n_arms):
    """Solvers agree to rounding, which takes longer to tell on an arm."""
    policy = POLICIES[name]
    world = bw.environments.Stochastic.gap(n_arms, 0.3)
    job = TileJob("P", policy, world, 3, 0, 16, (300,))
    assert job.program.kernels is without_mode(name, n_arms)
    both = replace(job, policy=plain(policy))
    assert both.program.kernels is policy.kernels()
    one, other = run_job(job), run_job(both)
    assert np.array_equal(one.cost, other.cost)
    assert np.array_equal(one.plays, other.plays)
