"""Leader mode: exact weights and fair draws in every round, whoever leads, entered and left."""

import dataclasses
import io

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.lanes.jit import compiled
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import select, splat
from bothworlds.omd import half
from bothworlds.omd.leader import half as mode
from bothworlds.omd.leader import layout, membership
from bothworlds.policies.tsallis_inf import LEADING, MANY, MOST_LEADING, leading_many
from helpers.programs import own_program

from .tracing import PERIOD, apart, fickle, lane_that_changed, replay, trace

IW, RV = bw.TsallisINF(estimator="iw"), bw.TsallisINF()
BOTH = pytest.mark.parametrize("policy", [IW, RV], ids=["iw", "rv"])


@compiled
def certain(K, t, C, E, G, v, arm):
    """Return loss 1/2 for the best arm of the moment and 1 otherwise."""
    return select(arm == t // PERIOD % K, splat(0.5, v), splat(1.0, v))


def first_row(n_arms):
    """Return the first row of the mode in the state of a tile."""
    return half.ESTIMATES + n_arms if n_arms < MANY else leading_many.MODE


def traced(policy, n_arms, rounds, world=None, **options):
    row = first_row(n_arms) + membership.LEADS
    # Among many arms only a large gap makes a leader soon.
    world = world or bw.environments.Stochastic.gap(n_arms, 1 / 8 if n_arms < MANY else 1 / 4)
    return trace(policy, world, rounds, row, **options)


def replayed(policy, n_arms, found, lanes, scale=1.0, behind=0):
    """Return the largest error of 1 / w, and the surplus of the leader in standard deviations."""
    arms, losses, inverse_p, _ = found
    results = [
        replay(
            n_arms, policy.estimator == "rv", scale, behind, arms[:, lane].astype(np.int64),
            losses[:, lane].copy(), inverse_p[:, lane].copy(),
        )
        for lane in lanes
    ]  # fmt: skip
    worst, surplus, variance = map(np.array, zip(*results, strict=True))
    return worst.max(), surplus.sum() / np.sqrt(variance.sum())


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_arms", "rounds", "lanes"), [(3, 80_000, 2), (8, 60_000, 3), (9, 60_000, 2),
                                    (32, 80_000, 1), (128, 140_000, 1), (520, 44_000, 1)]
)  # fmt: skip
def test_every_round_is_exact_and_every_draw_fair(policy, n_arms, rounds, lanes):
    found = traced(policy, n_arms, rounds)
    leading_now = np.flatnonzero(found[3][-1])
    assert leading_now.size >= lanes
    assert not found[3][: mode.first_round(n_arms) - 1].any()
    worst, surplus = replayed(policy, n_arms, found, leading_now[:lanes])
    assert worst <= 3e-12
    assert abs(surplus) < 4.0


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_arms", "loss"), [(8, fickle), (40, fickle), (5, certain), (512, fickle)]
)
def test_a_leader_that_turns_bad_is_left_and_another_found(policy, n_arms, loss):
    found = traced(policy, n_arms, (7 if n_arms < MANY else 4) * PERIOD, loss=loss)
    lane = lane_that_changed(found[3])
    worst, surplus = replayed(policy, n_arms, found, [lane])
    assert worst <= 3e-12
    assert abs(surplus) < 4.0


@pytest.mark.slow
def test_arms_that_slide_along_the_limit_of_the_near_ones_are_exact():
    found = traced(RV, 8, 60_000, bw.environments.Stochastic([0.34, *[0.9] * 7]))
    lane = int(found[3].mean(axis=0).argmax())
    assert found[3][:, lane].mean() > 0.4
    worst, _ = replayed(RV, 8, found, [lane])
    assert worst <= 3e-12


@pytest.mark.slow
def test_a_leader_that_hardly_loses_is_looked_at_with_all_the_others():
    few_losses = bw.environments.Stochastic([0.1, *[0.4] * 7])
    assert not traced(RV, 8, 40_000, few_losses)[3].any()
    assert traced(IW, 8, 40_000, few_losses)[3].any()


@BOTH
@pytest.mark.slow
def test_the_replay_sees_a_small_error(policy):
    worst, _ = replayed(policy, 8, traced(policy, 8, 3_000), [0], scale=1.0 + 1e-11)
    assert 0.9e-11 < worst < 1.1e-11


@pytest.mark.slow
def test_the_replay_sees_near_arms_told_a_round_late():
    worst, _ = replayed(RV, 8, traced(RV, 8, 3_000), [0], behind=1)
    assert worst > 1e-6


class Looking(bw.TsallisINF):
    """Tsallis-INF that looks at all arms in every round."""

    program = own_program


@BOTH
@pytest.mark.slow
@pytest.mark.statistical
def test_regret_is_that_of_looking_at_all_arms(policy):
    world = bw.environments.Stochastic.gap(8, 1 / 4)
    thrice = bw.omd.InverseSqrt(12.0 if policy is RV else 6.0)
    rivals = {
        "looking": Looking(estimator=policy.estimator),
        "bold": Looking(estimator=policy.estimator, learning_rate=thrice),
    }
    result = bw.simulate(
        {"leading": policy, **rivals}, world, horizon=50_000, repetitions=2_048, seed=6,
        checkpoints=[mode.first_round(8) - 1, 50_000], progress=False,
    )  # fmt: skip
    late = {name: np.diff(regret)[:, 0] for name, regret in result.regret.items()}

    assert apart(late["leading"], late["looking"]) < 2.0
    assert apart(late["leading"], late["bold"]) > 4.0


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize(("n_arms", "rounds"), [(8, 50_000), (520, 45_000)])
def test_a_lane_does_not_depend_on_its_neighbours(policy, n_arms, rounds):
    together = traced(policy, n_arms, rounds, loss=fickle)
    alone = traced(policy, n_arms, rounds, loss=fickle, repetitions=[5] * LANES)
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one[:, 5], other[:, 0])
    assert 0 < together[3][-1].sum() < LANES  # some of them were in the mode, some not


def job(policy, n_arms, rounds, count=LANES, **options):
    world = bw.environments.Stochastic.gap(n_arms, 1 / 4)
    return TileJob("leading", policy, world, 3, 0, count, rounds, **options)


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [8, 520])
def test_a_run_that_is_continued_is_the_run_that_never_stopped(policy, n_arms):
    ends = (36_000, 40_000, 48_001)
    whole = run_job(job(policy, n_arms, ends))
    begun, after = None, 0
    for place, end in enumerate(ends):
        rounds = ends[: place + 1]
        begun = run_job(job(policy, n_arms, rounds, keep=True, after=after, earlier=begun))
        after = end
    assert np.array_equal(whole.cost[:, -1], begun.cost[:, -1])
    assert np.array_equal(whole.plays, begun.plays)


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [8, 520])
def test_a_tile_that_is_not_full_plays_the_same(policy, n_arms):
    full = run_job(job(policy, n_arms, (30_000, 40_000)))
    part = run_job(job(policy, n_arms, (30_000, 40_000), count=3))
    assert np.array_equal(full.cost[:3], part.cost)
    assert np.array_equal(full.plays[:3], part.plays)


class Awake(bw.TsallisINF):
    """Tsallis-INF whose kernels with the mode play every round, or all but some looks."""

    every = None

    def program(self, n_arms, **options):
        own = super().program(n_arms, **options)
        phases = self.every and dataclasses.replace(own.phases, every=self.every)
        return own._replace(phases=phases)


class Blind(Awake):
    """The same, with lanes that may enter the mode in few rounds."""

    every = 1000


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [4, 9])
@pytest.mark.parametrize("count", [1, LANES])
def test_kernels_without_the_mode_play_as_those_with_it_where_nobody_leads(policy, n_arms, count):
    best, bad = [0.4, *[0.8] * (n_arms - 1)], [0.9, 0.4, *[0.8] * (n_arms - 2)]
    world = bw.environments.Piecewise([best, bad], every=44_000)
    own = TileJob("leading", policy, world, 3, 0, count, (88_000,))
    found = run_job(own)
    every_round = run_job(dataclasses.replace(own, policy=Awake(estimator=policy.estimator)))
    assert np.array_equal(found.cost, every_round.cost)
    assert np.array_equal(found.plays, every_round.plays)
    # Looks that are left out are seen: lanes then enter the mode in other rounds.
    blind = run_job(dataclasses.replace(own, policy=Blind(estimator=policy.estimator)))
    assert not np.array_equal(found.plays, blind.plays)


def moving_rows(outcome, n_arms):
    """Return the state after the last round, without rows that a round only writes for itself."""
    with np.load(io.BytesIO(outcome.state)) as content:
        state = content["array0"].reshape(-1, LANES)
    own = first_row(n_arms)
    return np.delete(state, range(own + layout.NEXT, own + layout.ENDS), axis=0)


@compiled
def always(K, t, end, C, S, like):
    """Be sure of every round, as `Ahead.sure` must not be."""
    return True, splat(1.0, like)


class OneByOne(bw.TsallisINF):
    """Tsallis-INF that plays no rounds ahead, or with another ``sure``."""

    sure = None

    def program(self, n_arms, **options):
        own = super().program(n_arms, **options)
        ahead = self.sure and own.phases.ahead._replace(sure=self.sure)
        return own._replace(phases=dataclasses.replace(own.phases, ahead=ahead))


class Rash(OneByOne):
    """The same, sure of its leader in every round."""

    sure = always


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [8, 9])
@pytest.mark.parametrize("world", [bw.environments.Stochastic, bw.environments.Switching])
def test_rounds_played_ahead_have_the_bits_of_rounds_played_one_by_one(policy, n_arms, world):
    if world is bw.environments.Stochastic:
        world = bw.environments.Stochastic.gap
    own = TileJob(
        "x", policy, world(n_arms, 1 / 4), 3, 0, LANES, (40_000, 100_003, 200_000), keep=True
    )
    found, one_by_one, rash = (
        run_job(dataclasses.replace(own, policy=kind(estimator=policy.estimator)))
        for kind in (bw.TsallisINF, OneByOne, Rash)
    )
    assert np.array_equal(found.cost, one_by_one.cost)
    assert np.array_equal(found.plays, one_by_one.plays)
    assert np.array_equal(moving_rows(found, n_arms), moving_rows(one_by_one, n_arms))
    assert not np.array_equal(found.plays, rash.plays)


@BOTH
@pytest.mark.slow
def test_what_a_lane_leaves_behind_stays_finite(policy):
    world = bw.environments.Piecewise([[0.4, *[0.8] * 7], [0.9, 0.4, *[0.8] * 6]], every=40_500)
    jobs = TileJob("leading", policy, world, 3, 0, LANES, (80_000,), keep=True)
    with np.load(io.BytesIO(run_job(jobs).state)) as content:
        state = content["array0"].reshape(-1, LANES)
    restless = state[half.ESTIMATES + 8 + membership.RESTLESS]
    assert (restless > 40_500).any()  # some left
    assert jobs.program.sound(state)


@BOTH
@pytest.mark.parametrize("n_arms", [8, 600])
def test_a_snapshot_with_an_impossible_leader_is_refused(policy, n_arms):
    program = policy.program(n_arms, lanes=True)
    state = np.repeat(program.start()[:, None], LANES, axis=1)
    assert program.sound(state)
    wrong_numbers = (
        (membership.LEADER, float(n_arms)), (membership.LEADER, 0.5), (membership.LEADS, 2.0),
        (layout.BASE, np.nan),
    )  # fmt: skip
    for row, bad in wrong_numbers:
        wrong = state.copy()
        wrong[first_row(n_arms) + row, 3] = bad
        assert not program.sound(wrong)


@BOTH
def test_few_arms_very_many_arms_and_other_settings_go_without(policy):
    def rows(n_arms):
        return policy.program(n_arms, lanes=True).start().size

    few, many = LEADING[policy.estimator] - 1, MOST_LEADING + 1
    assert rows(few) == policy.start(few).size
    assert rows(few + 1) > policy.start(few + 1).size
    assert policy.program(MANY, lanes=True).idle_row == leading_many.IDLE
    assert policy.program(many, lanes=True).kernels is policy.program(many).kernels
    gaps = [0.0] + 7 * [0.1]
    other = bw.TsallisINF(alpha=0.7, estimator=policy.estimator, gaps=gaps)
    assert other.program(8, lanes=True).phases is None
    assert policy.program(8, lanes=True).phases is not None
