"""Leader mode away from alpha = 1/2: exact in every round, fair, entered, left, continued."""

import io
import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.lanes.types import LANES
from bothworlds.omd import late_rates, powers
from bothworlds.omd.leader import layout, membership
from bothworlds.omd.leader import powers as mode
from bothworlds.policies.tsallis_inf.tiles import STEEPEST

from .replaying import replay_powers
from .tracing import PERIOD, apart, fickle, lane_that_changed, trace


def policy_of(alpha, estimator="iw", **options):
    return bw.TsallisINF(alpha=alpha, estimator=estimator, **options)


def has_mode(policy, n_arms):
    """Tell whether the state in lanes has the rows of a leader mode."""
    rows = policy.program(n_arms, lanes=True).start().size
    assert rows in (own_rows(n_arms), own_rows(n_arms) + layout.rows(n_arms, True))
    return rows > own_rows(n_arms)


def own_rows(n_arms):
    return powers.ESTIMATES + powers.PER_ARM * n_arms


def traced(policy, n_arms, rounds, gap=1 / 8, **options):
    world = bw.environments.Stochastic.gap(n_arms, gap)
    return trace(policy, world, rounds, own_rows(n_arms) + membership.LEADS, **options)


def replayed(policy, n_arms, found, lane, scale=1.0):
    """Return the largest error of 1 / w, and the surplus of the leader in standard deviations."""
    arms, losses, inverse_p = (each[:, lane].copy() for each in found[:3])
    C = policy.parameters(n_arms)
    arms = arms.astype(np.int64)
    worst, surplus, variance = replay_powers(n_arms, C, scale, arms, losses, inverse_p)
    return worst, surplus / math.sqrt(variance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "alpha", "n_arms", "rounds", "gap"),
    [
        ("iw", 0.0, 2, 40_000, 1 / 4),
        ("iw", 0.25, 2, 60_000, 1 / 8),
        ("iw", 0.25, 8, 50_000, 1 / 4),
        ("iw", 0.75, 2, 60_000, 1 / 8),
        ("iw", 0.75, 17, 75_000, 1 / 2),
        ("iw", STEEPEST["iw"], 5, 40_000, 1 / 4),
        ("rv", 0.25, 2, 60_000, 1 / 8),
        ("rv", 0.4, 8, 50_000, 1 / 4),
        ("rv", STEEPEST["rv"], 2, 40_000, 1 / 8),
    ],
)
def test_every_round_is_exact_and_every_draw_fair(estimator, alpha, n_arms, rounds, gap):
    policy = policy_of(alpha, estimator)
    assert has_mode(policy, n_arms)
    found = traced(policy, n_arms, rounds, gap)
    assert not found[3][: mode.first_round(n_arms) - 1].any()
    lane = int(found[3].sum(axis=0).argmax())
    assert found[3][-1, lane] == 1.0
    worst, surplus = replayed(policy, n_arms, found, lane)
    assert worst <= 1e-12
    assert abs(surplus) < 4.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "alpha", "n_arms"),
    [
        ("iw", 0.25, 2),
        ("iw", 0.75, 4),
        ("iw", STEEPEST["iw"], 2),
        ("rv", 0.25, 2),
        ("rv", STEEPEST["rv"], 4),
    ],
)
def test_a_leader_that_turns_bad_is_left_and_another_found(estimator, alpha, n_arms):
    policy = policy_of(alpha, estimator)
    found = traced(policy, n_arms, 5 * PERIOD, loss=fickle)
    lane = lane_that_changed(found[3])
    worst, surplus = replayed(policy, n_arms, found, lane)
    assert worst <= 1e-12
    assert abs(surplus) < 4.0


@pytest.mark.slow
def test_arms_beyond_the_limit_of_the_near_ones_fall():
    policy, K = policy_of(0.45, "rv"), 4
    world = bw.environments.Stochastic.gap(K, 0.9)
    found = traced(policy, K, 50_000, 0.9)
    lowest = trace(policy, world, 50_000, own_rows(K) + layout.LOWEST)[3]
    far = (lowest < membership.ABSENT) & (found[3] == 1.0)
    lane = int(far.sum(axis=0).argmax())
    assert far[:, lane].sum() > 100
    worst, surplus = replayed(policy, K, found, lane)
    assert worst <= 1e-12
    assert abs(surplus) < 4.0


@pytest.mark.slow
@pytest.mark.parametrize("learning_rate", [0.02, bw.omd.InverseSqrt(2.0)])
def test_any_learning_rate_is_followed(learning_rate):
    policy = policy_of(0.25, learning_rate=learning_rate)
    found = traced(policy, 2, 30_000, 1 / 2)
    lane = int(found[3].sum(axis=0).argmax())
    assert found[3][-1, lane] == 1.0
    assert replayed(policy, 2, found, lane)[0] <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "leads"), [("rv", False), ("iw", True)])
def test_reduced_variance_goes_without_where_a_leader_need_not_be_near(estimator, leads):
    policy = policy_of(0.25, estimator, learning_rate=1.2)
    found = traced(policy, 4, 20_000, 0.9)
    assert found[3].any() == leads
    assert replayed(policy, 4, found, 0)[0] <= 1e-12


@pytest.mark.slow
def test_the_replay_sees_a_small_error():
    policy = policy_of(0.75)
    found = traced(policy, 2, 20_000, 1 / 2)
    assert found[3][-1, 0] == 1.0
    worst, _ = replayed(policy, 2, found, 0, scale=1.0 + 2e-12)
    assert 1.8e-12 < worst < 2.2e-12
    # An error of the series would be one of the rounds in the mode alone.
    leads = found[3] == 1.0
    found[2][leads] *= 1.0 + 2e-12
    worst, _ = replayed(policy, 2, found, 0)
    assert 1.8e-12 < worst < 2.2e-12


# --- the series ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.75, STEEPEST["iw"]])
def test_what_the_series_leaves_out_is_as_said(alpha):
    _, radius, _, *binomials = mode.parameters(alpha)
    p = 1.0 / (1.0 - alpha)
    for s in (radius, -radius):
        left_out = (1.0 + s) ** -p - sum(c * s**n for n, c in enumerate(binomials))
        assert abs(left_out) < 1.5 * mode.LEFT_OUT
    for s in (3.0 * radius, -3.0 * radius):
        left_out = (1.0 + s) ** -p - sum(c * s**n for n, c in enumerate(binomials))
        assert abs(left_out) > 1e3 * mode.LEFT_OUT


# --- regret, neighbours, continuing --------------------------------------------------------------


class Looking(bw.TsallisINF):
    """Tsallis-INF without leader mode."""

    def program(self, n_arms, *, lanes=False, horizon=None):
        # As for runs that end before the mode may begin.
        return super().program(n_arms, lanes=lanes, horizon=1)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("estimator", "alpha"), [("iw", 0.75), ("rv", 0.25)])
def test_regret_is_that_of_looking_at_all_arms(estimator, alpha):
    world = bw.environments.Stochastic.gap(2, 1 / 8)
    policies = {
        "leading": policy_of(alpha, estimator),
        "looking": Looking(alpha=alpha, estimator=estimator),
        "other": Looking(alpha=alpha - 0.05, estimator=estimator),
    }
    result = bw.simulate(
        policies, world, horizon=40_000, repetitions=2_048, seed=6,
        checkpoints=[membership.FIRST - 1, 40_000], progress=False,
    )  # fmt: skip
    late = {name: np.diff(regret)[:, 0] for name, regret in result.regret.items()}

    assert apart(late["leading"], late["looking"]) < 2.0
    assert apart(late["leading"], late["other"]) > 4.0


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["iw", "rv"])
def test_a_lane_does_not_depend_on_its_neighbours(estimator):
    policy = policy_of(0.25, estimator)
    together = traced(policy, 4, 125_000, loss=fickle)
    changes = (np.diff(together[3], axis=0) != 0.0).sum(axis=0)
    lane = int(changes.argmax())
    assert changes[lane] >= 3
    alone = traced(policy, 4, 125_000, loss=fickle, repetitions=[lane] * LANES)
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one[:, lane], other[:, 0])
    shares = together[3].mean(axis=1)
    assert ((shares > 0.0) & (shares < 1.0)).any()  # some were in the mode while others were not


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "alpha"), [("iw", 0.75), ("rv", 0.45)])
def test_a_run_that_is_continued_is_the_run_that_never_stopped(estimator, alpha):
    world = bw.environments.Stochastic.gap(4, 1 / 4)

    def job(rounds, **options):
        return TileJob("P", policy_of(alpha, estimator), world, 3, 0, LANES, rounds, **options)

    whole = run_job(job((30_000, 50_001)))
    for stop in (late_rates.FIRST - 1, 30_000, 40_063):
        begun = run_job(job((stop,), keep=True))
        with np.load(io.BytesIO(begun.state)) as content:
            leads = content["array0"].reshape(-1, LANES)[own_rows(4) + membership.LEADS]
        assert leads.any() == (stop > late_rates.FIRST)
        rest = run_job(job((stop, 50_001), after=stop, earlier=begun))
        assert np.array_equal(whole.cost[:, -1], rest.cost[:, -1])
        assert np.array_equal(whole.plays, rest.plays)


@pytest.mark.slow
def test_runs_too_short_for_the_mode_go_without_and_are_the_same():
    world = bw.environments.Stochastic.gap(8, 1 / 8)
    horizon = mode.first_round(8) - 1
    long, short = (
        TileJob("P", policy_of(0.25), world, 3, 0, LANES, (horizon,), keep=keep)
        for keep in (True, False)
    )
    assert long.program.start().size > short.program.start().size == own_rows(8)
    last = policy_of(0.25).program(8, lanes=True, horizon=horizon + 1)
    assert last.kernels is long.program.kernels
    one, other = run_job(long), run_job(short)
    assert np.array_equal(one.cost, other.cost)
    assert np.array_equal(one.plays, other.plays)


def test_every_span_of_rates_begins_where_lanes_may_enter():
    assert late_rates.SPAN % membership.LOOK_EVERY == 0
    assert late_rates.FIRST % late_rates.SPAN == 0


def test_a_snapshot_with_an_impossible_leader_is_refused():
    program = policy_of(0.25).program(8, lanes=True)
    state = np.repeat(program.start()[:, None], LANES, axis=1)
    assert program.sound(state)
    first = own_rows(8)
    for row, bad in (
        (first + membership.LEADER, 8.0),
        (first + membership.LEADER, 0.5),
        (first + membership.LEADS, 2.0),
        (powers.ESTIMATES + 2 * 8, -1.0),
    ):
        wrong = state.copy()
        wrong[row, 3] = bad
        assert not program.sound(wrong)


def test_gaps_steep_regularisers_and_crowds_go_without():
    gaps = [0.0, 0.5, 0.5]
    for estimator, steepest in STEEPEST.items():
        assert not has_mode(policy_of(0.25, estimator, gaps=gaps), 3)
        for alpha in (steepest + 0.005, 1.0):
            assert not has_mode(policy_of(alpha, estimator), 3)
        lone = policy_of(0.25, estimator)
        assert lone.program(1, lanes=True).kernels is lone.kernels()
    assert not has_mode(policy_of(0.25, "rv"), 128)
    assert has_mode(policy_of(0.4, "rv"), 128)
