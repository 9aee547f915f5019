"""Any alpha and unequal xi in tiles: exact weights and fair draws in every round."""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.lanes.jit import compiled
from bothworlds.lanes.kernels import CHOOSE_WIDE
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import load, pointer, select, splat, zeros
from bothworlds.omd import powers
from bothworlds.omd.learning_rates import rate
from helpers.programs import own_program

from .replaying import replay_powers
from .tracing import trace

PERIOD = 300
"""Rounds after which `fickle` has another best arm."""


@compiled
def fickle(K, t, C, E, G, v, arm):
    """Return a Bernoulli loss, of mean 1/4 for the best arm of the moment and 3/4 otherwise."""
    mean = select(arm == t // PERIOD % K, splat(0.25, v), splat(0.75, v))
    return select(v < mean, splat(1.0, v), splat(0.0, v))


def settings(n_arms):
    """Return alphas and gaps of all kinds."""
    gaps = [0.0, *np.linspace(0.05, 0.5, n_arms - 1)]
    alone = [{"alpha": alpha} for alpha in (0.0, 0.1, 0.25, 0.75, 0.9, 1.0 - 1e-9, 1.0)]
    return alone + [{"alpha": alpha, "gaps": gaps} for alpha in (0.0, 0.25, 0.75, 1.0)]


def traced(policy, n_arms, rounds, **options):
    world = bw.environments.Stochastic.gap(n_arms, 1 / 8)
    return trace(policy, world, rounds, powers.STEP, **options)


def replayed(policy, n_arms, found, lane, scale=1.0):
    """Return the largest error of 1 / w, and the surplus of the leader in standard deviations."""
    arms, losses, inverse_p, _ = (each[:, lane].copy() for each in found)
    C = policy.parameters(n_arms)
    arms = arms.astype(np.int64)
    worst, surplus, variance = replay_powers(n_arms, C, scale, arms, losses, inverse_p)
    return worst, surplus / math.sqrt(variance)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [None, fickle], ids=["stochastic", "switching"])
@pytest.mark.parametrize("estimator", ["iw", "rv"])
@pytest.mark.parametrize(("n_arms", "rounds"), [(2, 2_000), (8, 1_600), (40, 500)])
def test_every_round_is_exact_and_every_draw_fair(n_arms, rounds, estimator, loss):
    for given in settings(n_arms):
        policy = bw.TsallisINF(estimator=estimator, **given)
        assert policy.program(n_arms, lanes=True).kernels.wide
        worst, surplus = replayed(policy, n_arms, traced(policy, n_arms, rounds, loss=loss), 3)
        assert worst <= 3e-12, given
        assert abs(surplus) < 4.0, given


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"alpha": 0.25}, {"alpha": 0.75, "gaps": [0.0] + [0.2] * 7}])
def test_late_rounds_are_exact(given):
    policy = bw.TsallisINF(estimator="iw", **given)
    worst, surplus = replayed(policy, 8, traced(policy, 8, 25_000), 0)
    assert worst <= 3e-12
    assert abs(surplus) < 4.0


@pytest.mark.slow
def test_the_replay_sees_a_small_error_and_another_rate():
    policy = bw.TsallisINF(alpha=0.25)
    found = traced(policy, 8, 1_000)
    worst, _ = replayed(policy, 8, found, 0, scale=1.0 + 1e-11)
    assert 0.9e-11 < worst < 1.1e-11
    assert replayed(bw.TsallisINF(alpha=0.25 + 1e-9), 8, found, 0)[0] > 1e-11


@compiled
def choose_once(choose, K, t, C, S, G, draws):
    """Choose in one round from this state."""
    choose(K, t, pointer(C), pointer(S), pointer(G), load(pointer(draws), 0, zeros()))


def chosen(policy, L, state, t=50):
    """Return 1 / w and the arm's w of `omd.weights`, lane by lane, from a state with these L."""
    K = L.shape[0]
    state[powers.ESTIMATES : powers.ESTIMATES + K] = L
    # Not 0: at the edge of what is a number, the first arm with a weight is a matter of rounding.
    S, u = state.ravel().copy(), np.linspace(1e-9, 0.999, LANES)
    program = policy.program(K, lanes=True)
    choose = program.kernels.choose
    choose.compile(CHOOSE_WIDE)
    C = np.append(program.parameters(), 0.0)
    choose_once(choose, K, t, C, S, np.ones(4 * LANES, np.int64), u)
    eta = rate(int(C[0]), C[1], policy.alpha, K, float(t))
    xi = C[5:-1] if C[4] > 0 else None
    w = np.stack([bw.omd.weights(L[:, lane], eta, policy.alpha, xi) for lane in range(LANES)])
    arms = np.minimum((np.cumsum(w, axis=1) <= u[:, None]).sum(axis=1), K - 1)
    return S[:LANES], w[np.arange(LANES), arms]


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(settings(8))))
def test_any_start_leads_to_the_root(place):
    rng = np.random.default_rng(place)
    policy = bw.TsallisINF(**settings(8)[place])
    program = policy.program(8, lanes=True)
    for scale in (1e-3, 1.0, 30.0, 1e3):
        state = np.repeat(program.start()[:, None], LANES, axis=1)
        state[1 : powers.ESTIMATES] = rng.normal(size=(powers.ESTIMATES - 1, LANES)) * scale
        inverse_p, w = chosen(policy, rng.random((8, LANES)) * 30.0 * scale, state)
        assert np.allclose(inverse_p * w, 1.0, rtol=3e-12, atol=0.0)


class OneByOne(bw.TsallisINF):
    """Tsallis-INF whose repetitions are played one at a time."""

    program = own_program


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [2, 8, 40])
def test_the_arms_are_those_of_one_bandit_while_rounding_does_not_decide(n_arms):
    world = bw.environments.Switching(n_arms, 1 / 4)
    for number, given in enumerate(settings(n_arms)):
        estimator = ("iw", "rv", "soft")[number % 3]
        regrets = [
            bw.simulate(
                {"a name": kind(estimator=estimator, **given)}, world, horizon=100,
                repetitions=LANES, seed=5, progress=False,
            ).regret["a name"]
            for kind in (bw.TsallisINF, OneByOne)
        ]  # fmt: skip
        assert np.array_equal(*regrets), given


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    "given", [{"alpha": 0.25, "estimator": "iw"}, {"alpha": 0.75, "gaps": [0.0] + [0.25] * 7}]
)
def test_regret_is_that_of_one_bandit(given):
    world = bw.environments.Stochastic.gap(8, 1 / 4)
    timid = OneByOne(learning_rate=bw.omd.InverseSqrt(0.2), **given)
    result = bw.simulate(
        {"tiles": bw.TsallisINF(**given), "one": OneByOne(**given), "timid": timid}, world,
        horizon=2_000, repetitions=400, seed=6, progress=False,
    )  # fmt: skip

    def apart(one, other):
        one, other = (result.regret[name][:, -1] for name in (one, other))
        return abs(one.mean() - other.mean()) / np.hypot(one.std(), other.std()) * math.sqrt(400)

    assert apart("tiles", "one") < 3.0
    assert apart("tiles", "timid") > 4.0


@pytest.mark.slow
def test_a_lane_does_not_depend_on_its_neighbours():
    policy = bw.TsallisINF(alpha=0.25)
    together = traced(policy, 8, 3_000, loss=fickle)
    alone = traced(policy, 8, 3_000, loss=fickle, repetitions=[5] * LANES)
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one[:, 5], other[:, 0])


def job(policy, rounds, **options):
    world = bw.environments.Stochastic.gap(8, 1 / 4)
    return TileJob("name", policy, world, 3, 0, LANES, rounds, **options)


@pytest.mark.parametrize("stop", [1, 2, 1_500])
@pytest.mark.parametrize("given", [{"alpha": 0.25}, {"alpha": 1.0, "gaps": [0.0] + [0.25] * 7}])
def test_a_run_that_is_continued_is_the_run_that_never_stopped(given, stop):
    policy = bw.TsallisINF(**given)
    whole = run_job(job(policy, (stop, 2_001)))
    begun = run_job(job(policy, (stop,), keep=True))
    rest = run_job(job(policy, (stop, 2_001), after=stop, earlier=begun))
    assert np.array_equal(whole.cost[:, -1], rest.cost[:, -1])
    assert np.array_equal(whole.plays, rest.plays)


def test_a_snapshot_without_weights_is_refused():
    program = bw.TsallisINF(alpha=0.25).program(8, lanes=True)
    state = np.repeat(program.start()[:, None], LANES, axis=1)
    assert program.sound(state)
    for group, bad in ((1, -1.0), (2, -1e-9), (2, 2.5), (3, math.nan)):
        wrong = state.copy()
        wrong[powers.ESTIMATES + 8 * group + 3, 3] = bad
        assert not program.sound(wrong)


class Mine(bw.TsallisINF):
    """Tsallis-INF with kernels of the user's own."""

    def kernels(self):
        return bw.TsallisINF(alpha=0.25).kernels()


@pytest.mark.parametrize(
    ("policy", "n_arms"),
    [
        (bw.TsallisINF(alpha=0.0, gaps=[0.0, 1e-4, 1.0]), 3),
        (bw.TsallisINF(alpha=0.25), 1),
        (Mine(alpha=0.25), 8),
    ],
)
def test_factors_far_apart_one_arm_and_other_kernels_go_one_by_one(policy, n_arms):
    assert policy.program(n_arms, lanes=True).kernels is policy.kernels()
    assert not policy.kernels().wide
