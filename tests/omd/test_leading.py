"""Leader mode: exact weights and fair draws in every round, whoever leads, entered and left."""

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.lanes.jit import compiled
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import select, splat
from bothworlds.omd import half, leading
from bothworlds.policies.tsallis_inf import LEADING
from bothworlds.policies.tsallis_inf.leading import InTiles

from .tracing import replay, trace

IW = bw.TsallisINF(estimator="iw")
PERIOD = 25_000
"""Rounds after which `fickle` has another best arm."""


@compiled
def fickle(K, t, C, E, G, v, arm):
    """Return a Bernoulli loss, of mean 1/4 for the best arm of the moment and 3/4 otherwise."""
    mean = select(arm == t // PERIOD % K, splat(0.25, v), splat(0.75, v))
    return select(v < mean, splat(1.0, v), splat(0.0, v))


def traced(n_arms, rounds, **options):
    row = half.ESTIMATES + n_arms + leading.LEADS
    world = bw.environments.Stochastic.gap(n_arms, 1 / 8)
    return trace(IW, world, rounds, row, **options)


def replayed(n_arms, found, lanes, scale=1.0):
    """Return the largest error of 1 / w, and the surplus of the leader in standard deviations."""
    arms, losses, inverse_p, _ = found
    results = [
        replay(
            n_arms, scale, arms[:, lane].astype(np.int64), losses[:, lane].copy(),
            inverse_p[:, lane].copy(),
        )
        for lane in lanes
    ]  # fmt: skip
    worst, surplus, variance = map(np.array, zip(*results, strict=True))
    return worst.max(), surplus.sum() / np.sqrt(variance.sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_arms", "rounds", "lanes"), [(LEADING, 60_000, 3), (8, 60_000, 3), (9, 60_000, 2),
                                    (32, 80_000, 1), (128, 140_000, 1)]
)  # fmt: skip
def test_every_round_is_exact_and_every_draw_fair(n_arms, rounds, lanes):
    found = traced(n_arms, rounds)
    leading_now = np.flatnonzero(found[3][-1])
    assert leading_now.size >= lanes
    assert not found[3][: leading.FIRST - 1].any()
    worst, surplus = replayed(n_arms, found, leading_now[:lanes])
    assert worst <= 3e-12
    assert abs(surplus) < 4.0


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [8, 40])
def test_a_leader_that_turns_bad_is_left_and_another_found(n_arms):
    found = traced(n_arms, 7 * PERIOD, loss=fickle)
    entered = (np.diff(found[3], axis=0) > 0).sum(axis=0)
    left = (np.diff(found[3], axis=0) < 0).sum(axis=0)
    lane = int(entered.argmax())
    assert entered[lane] >= 2
    assert left[lane] >= 1
    worst, surplus = replayed(n_arms, found, [lane])
    assert worst <= 3e-12
    assert abs(surplus) < 4.0


@pytest.mark.slow
def test_the_replay_sees_a_small_error():
    worst, _ = replayed(8, traced(8, 3_000), [0], scale=1.0 + 1e-11)
    assert 0.9e-11 < worst < 1.1e-11


class Looking(bw.TsallisINF):
    """Tsallis-INF that looks at all arms in every round."""

    def for_tiles(self, n_arms):
        return self


@pytest.mark.slow
@pytest.mark.statistical
def test_regret_is_that_of_looking_at_all_arms():
    world = bw.environments.Stochastic.gap(8, 1 / 4)
    slow = {"bold": Looking(estimator="iw", learning_rate=bw.omd.InverseSqrt(4.0))}
    result = bw.simulate(
        {"leading": IW, "looking": Looking(estimator="iw"), **slow}, world, horizon=40_000,
        repetitions=2_048, seed=6, checkpoints=[leading.FIRST - 1, 40_000], progress=False,
    )  # fmt: skip
    late = {name: np.diff(regret)[:, 0] for name, regret in result.regret.items()}

    def apart(one, other):
        error = np.hypot(one.std(), other.std()) / np.sqrt(one.size)
        return abs(one.mean() - other.mean()) / error

    assert apart(late["leading"], late["looking"]) < 2.0
    assert apart(late["leading"], late["bold"]) > 4.0


@pytest.mark.slow
def test_a_lane_does_not_depend_on_its_neighbours():
    together = traced(8, 50_000, loss=fickle)
    alone = traced(8, 50_000, loss=fickle, repetitions=[5] * LANES)
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one[:, 5], other[:, 0])
    assert together[3][-1].sum() < LANES  # and some of them were not in the mode


def job(rounds, **options):
    world = bw.environments.Stochastic.gap(8, 1 / 4)
    return TileJob("IW", IW.for_tiles(8), world, 3, 0, LANES, rounds, **options)


@pytest.mark.slow
def test_a_run_that_is_continued_is_the_run_that_never_stopped():
    whole = run_job(job((20_000, 40_001)))
    begun = run_job(job((20_000,), keep=True))
    rest = run_job(job((20_000, 40_001), after=20_000, earlier=begun))
    assert np.array_equal(whole.cost[:, -1], rest.cost[:, -1])
    assert np.array_equal(whole.plays, rest.plays)


def test_a_snapshot_with_an_impossible_leader_is_refused():
    player = IW.for_tiles(8)
    assert isinstance(player, InTiles)
    state = np.repeat(player.start(8)[:, None], LANES, axis=1)
    assert player.sound(8, state)
    for row, bad in ((leading.LEADER, 8.0), (leading.LEADER, 0.5), (leading.LEADS, 2.0)):
        wrong = state.copy()
        wrong[half.ESTIMATES + 8 + row, 3] = bad
        assert not player.sound(8, wrong)


def test_few_arms_many_arms_and_other_settings_go_without():
    assert IW.for_tiles(LEADING - 1) is IW
    assert not isinstance(IW.for_tiles(512), InTiles)
    other = bw.TsallisINF(alpha=0.7, estimator="iw")
    assert not isinstance(other.for_tiles(8), InTiles)
