"""Leader modes of Exp3, Exp3++ and Broad: exact in every round, fair, entered, left, continued."""

import dataclasses
import io

import numpy as np
import pytest
from numba.core import types

import bothworlds as bw
from bothworlds.engine import tile
from bothworlds.engine.policy_loops import compiled as compiled_for
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.lanes.jit import compiled
from bothworlds.lanes.kernels import CHOOSE_WIDE
from bothworlds.lanes.random import uniform
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import pointer, store, to_float, zeros
from bothworlds.omd.leader import exponential, layout, membership
from bothworlds.seeding import stream_words
from helpers.programs import plain

from .replaying import replay_barrier, replay_exponential
from .tracing import PERIOD, apart, fickle, lane_that_changed, trace

POLICIES = {
    "exp3": bw.Exp3(),
    "exp3++": bw.Exp3PlusPlus(),
    "exp3++, published": bw.Exp3PlusPlus(rate="published"),
    "broad": bw.Broad(horizon=10**6),
}


def own_rows(policy, n_arms):
    return policy.traits.head_rows + policy.traits.rows_per_arm * n_arms


def traced(policy, n_arms, rounds, **options):
    world = bw.environments.Stochastic.gap(n_arms, 1 / 8)
    return trace(policy, world, rounds, own_rows(policy, n_arms) + membership.LEADS, **options)


def replay(policy, n_arms, found, lane, scale):
    """Return what the policy's replay does, and the rounds in which it restarted."""
    arms, losses, inverse_p = (each[:, lane].copy() for each in found[:3])
    arms = arms.astype(np.int64)
    restarts = np.zeros(arms.size)
    if isinstance(policy, bw.Broad):
        (log_horizon,) = policy.parameters(n_arms)
        found = replay_barrier(n_arms, log_horizon, scale, arms, losses, inverse_p, restarts)
    else:
        mixed = isinstance(policy, bw.Exp3PlusPlus)
        factor = policy.parameters(n_arms)[0] if mixed else 1.0
        found = replay_exponential(n_arms, factor, mixed, scale, arms, losses, inverse_p)
    return *found, np.flatnonzero(restarts)


def replayed(policy, n_arms, found, lanes, scale=1.0):
    """Return the largest error of 1 / p, and the surplus of the leader in standard deviations."""
    results = [replay(policy, n_arms, found, lane, scale)[:3] for lane in lanes]
    worst, surplus, variance = map(np.array, zip(*results, strict=True))
    return worst.max(), surplus.sum() / np.sqrt(variance.sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_arms", "rounds", "lanes"),
    [
        ("exp3", 2, 60_000, 4),
        ("exp3", 8, 60_000, 3),
        ("exp3", 40, 90_000, 1),
        ("exp3++", 2, 60_000, 4),
        ("exp3++", 17, 60_000, 2),
        ("exp3++, published", 8, 60_000, 2),
        ("broad", 2, 60_000, 4),
        ("broad", 8, 150_000, 3),
        ("broad", 17, 250_000, 1),
    ],
)
def test_every_round_is_exact_and_every_draw_fair(name, n_arms, rounds, lanes):
    policy = POLICIES[name]
    found = traced(policy, n_arms, rounds)
    leading_now = np.flatnonzero(found[3][-1])
    assert leading_now.size >= lanes
    assert not found[3][: membership.FIRST - 1].any()
    worst, surplus = replayed(policy, n_arms, found, leading_now[:lanes])
    assert worst <= 1e-12
    assert abs(surplus) < 4.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_arms", "periods"),
    [("exp3", 8, 5), ("exp3++", 8, 5), ("exp3", 2, 5), ("broad", 2, 5), ("broad", 8, 9)],
)
def test_a_leader_that_turns_bad_is_left_and_another_found(name, n_arms, periods):
    policy = POLICIES[name]
    found = traced(policy, n_arms, periods * PERIOD, loss=fickle)
    lane = lane_that_changed(found[3])
    worst, surplus = replayed(policy, n_arms, found, [lane])
    assert worst <= 1e-12
    assert abs(surplus) < 4.0


@pytest.mark.slow
def test_the_replay_sees_a_small_error():
    for policy in POLICIES.values():
        worst, _ = replayed(policy, 8, traced(policy, 8, 2_000), [0], scale=1.0 + 1e-12)
        assert 0.9e-12 < worst < 1.1e-12


class Eager(bw.Broad):
    """Broad that restarts early."""

    def parameters(self, n_arms):
        return np.array([0.2])


@pytest.mark.slow
def test_a_restart_ends_the_mode_in_the_round_in_which_it_is_due():
    policy = Eager(horizon=2)
    found = traced(policy, 2, 150_000, loss=fickle)
    during = 0
    for lane in range(LANES):
        worst, *_, restarts = replay(policy, 2, found, lane, 1.0)
        assert worst <= 1e-12
        leads = found[3][:, lane]
        assert not leads[restarts].any()
        during += leads[restarts - 1].sum()
    assert during >= 3


# --- draws from a given state --------------------------------------------------------------------


DRAWS = 100_000
"""From one state: enough to see that distances are off by a 20th where others weigh little."""


@compiled
def draw_again(choose, K, t, C, S, G, counts):
    """Choose again and again in one round, and count the arms of every lane."""
    like = zeros()
    c, s, g = pointer(C), pointer(S), pointer(G)
    arms = np.zeros(LANES)
    for _ in range(DRAWS):
        store(pointer(arms), 0, to_float(choose(K, t, c, s, g, uniform(g, like))))
        for lane in range(LANES):
            counts[int(arms[lane]), lane] += 1


_numbers = types.float64[::1]
DRAW = types.void(
    types.FunctionType(CHOOSE_WIDE), types.int64, types.int64, _numbers, _numbers, types.int64[::1],
    types.int64[:, ::1],
)  # fmt: skip


def played(policy, world, rounds, **options):
    """Return the outcome of a tile after so many rounds, and its state, a column per lane."""
    outcome = run_job(TileJob("P", policy, world, 3, 0, LANES, (rounds,), keep=True, **options))
    with np.load(io.BytesIO(outcome.state)) as content:
        return outcome, content["array0"].reshape(-1, LANES)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["exp3", "exp3++", "broad"])
def test_every_arm_is_drawn_as_often_as_it_weighs(name):
    policy, K, t = POLICIES[name], 5, 60_001
    by_barrier = name == "broad"
    best = 0.1 if by_barrier else 0.4
    world = bw.environments.Stochastic([best, 0.45, 0.5, 0.55, 0.6], shuffle=False)
    _, state = played(policy, world, t - 1)
    mode = state[own_rows(policy, K) :]
    lanes = np.flatnonzero(mode[membership.LEADS])
    assert lanes.size > 2
    program = policy.program(K, lanes=True)
    draw_again.compile(DRAW)
    counts = np.zeros((K, LANES), np.int64)
    words = np.stack([stream_words(1, "draws", lane) for lane in range(LANES)], axis=1)
    draw_again(
        compiled_for(program.kernels.choose, CHOOSE_WIDE), K, t, program.parameters(),
        state.ravel().copy(), words.ravel().copy(), counts,
    )  # fmt: skip
    V = mode[layout.OTHERS :].ravel()
    V = V[: LANES * LANES].reshape(LANES, LANES)[:, :K]  # 5 arms fit a vector
    led = np.arange(LANES), mode[membership.LEADER].astype(int)

    def chi_square(factor):
        rate = np.sqrt(np.log(K) / (t * K))
        if by_barrier:
            # z, predicted for this round; the others' distances are eta (L_i - L_b).
            z = mode[layout.PREDICTED][:, None]
            distance = V - mode[layout.BASE][:, None]
            distance[led] = 0.0
            p = 1.0 / (z + factor * distance)
        else:
            distance = V - mode[exponential.RISE][:, None]
            distance[led] = 0.0
            p = np.exp(-factor * rate * distance)
        p /= p.sum(axis=1, keepdims=True)
        if name == "exp3++":
            p = (1 - 0.5 * K * rate) * p + 0.5 * rate
        expected = DRAWS * p[lanes]
        found = counts.T[lanes]
        return ((found - expected) ** 2 / expected).sum(), lanes.size * (K - 1)

    chi, freedom = chi_square(1.0)
    assert abs(chi - freedom) < 4.0 * np.sqrt(2.0 * freedom)
    wrong, _ = chi_square(0.95)
    assert wrong > freedom + 4.0 * np.sqrt(2.0 * freedom)


# --- regret, neighbours, continuing --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("policy", "other"),
    [
        (bw.Exp3PlusPlus(), bw.Exp3PlusPlus(rate="published")),
        (bw.Exp3(), bw.Exp3PlusPlus()),
        (bw.Broad(horizon=60_000), bw.Exp3()),
    ],
    ids=["exp3++", "exp3", "broad"],
)
def test_regret_is_that_of_looking_at_all_arms(policy, other):
    world = bw.environments.Stochastic.gap(4, 1 / 4)
    policies = {"leading": policy, "looking": plain(policy), "other": plain(other)}
    result = bw.simulate(
        policies, world, horizon=60_000, repetitions=1_024, seed=6,
        checkpoints=[membership.FIRST - 1, 60_000], progress=False,
    )  # fmt: skip
    late = {name: np.diff(regret)[:, 0] for name, regret in result.regret.items()}

    assert apart(late["leading"], late["looking"]) < 2.0
    assert apart(late["leading"], late["other"]) > 4.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp3", "exp3++", "broad"])
def test_a_lane_does_not_depend_on_its_neighbours(name):
    policy = POLICIES[name]
    together = traced(policy, 8, 60_000, loss=fickle)
    alone = traced(policy, 8, 60_000, loss=fickle, repetitions=[5] * LANES)
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one[:, 5], other[:, 0])
    shares = together[3].mean(axis=1)
    assert ((shares > 0.0) & (shares < 1.0)).any()  # some were in the mode while others were not


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp3", "exp3++", "broad"])
def test_a_run_that_is_continued_is_the_run_that_never_stopped(name):
    world = bw.environments.Stochastic.gap(8, 1 / 4)

    def job(rounds, **options):
        return TileJob("P", POLICIES[name], world, 3, 0, LANES, rounds, **options)

    whole = run_job(job((60_000, 80_001)))
    begun = run_job(job((60_000,), keep=True))
    rest = run_job(job((60_000, 80_001), after=60_000, earlier=begun))
    assert np.array_equal(whole.cost[:, -1], rest.cost[:, -1])
    assert np.array_equal(whole.plays, rest.plays)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [4.8, 256.0])
def test_plays_are_counted_in_the_mode_and_gaps_end_it(beta):
    policy, K, T = bw.Exp3PlusPlus(beta=beta), 8, 60_000
    world = bw.environments.Stochastic.gap(K, 1 / 4, shuffle=False)
    outcome, state = played(policy, world, T)
    leads = state[own_rows(policy, K) + membership.LEADS]
    plays = state[1 + K : 1 + 2 * K].copy()
    if beta > 64.0:
        assert leads.any()
        mode = state[own_rows(policy, K) :]
        leader = mode[membership.LEADER].astype(int)
        plays[leader, np.arange(LANES)] += leads * mode[exponential.PLAYS]
    else:  # gaps matter from about round 40,000 on
        assert not leads.any()
        assert played(policy, world, 32_000)[1][own_rows(policy, K) + membership.LEADS].any()
        means = state[1 + 2 * K : 1 + 3 * K] / plays
        assert np.abs(means[0] - 0.375).max() < 0.02
    assert np.array_equal(plays.T, outcome.plays)


def test_there_is_room_for_the_rows_of_exponential_weights():
    assert exponential.ROOM < layout.OTHERS


@compiled
def find_all(K, M, place, eta, targets, arms, found):
    """Find the arm of every target, and its weight."""
    V = layout.others(K, pointer(M), place, LANES)
    for k in range(targets.size):
        arms[k], found[k] = exponential.find_other(K, pointer(M), V, place, eta, targets[k])


def test_the_arm_of_a_draw_is_where_the_sums_pass_it():
    K, place, leader, rise, eta = 21, 3, 5, 1.25, 0.4
    rng = np.random.default_rng(1)
    V = rng.uniform(2.0, 9.0, K)
    V[leader] = membership.ABSENT
    M = np.zeros((layout.rows(K, False), LANES))
    M[membership.LEADER, place] = leader
    M[exponential.RISE, place] = rise
    places = M.ravel()[layout.OTHERS * LANES :].reshape(2 * LANES, -1)
    places[place] = membership.ABSENT
    places[place, :K] = V
    w = np.exp(eta * (rise - V))
    sums = np.cumsum(w)
    targets = np.append(rng.uniform(0.0, sums[-1], 500), [0.0, 1.1 * sums[-1]])
    arms, found = np.zeros(targets.size, np.int64), np.zeros(targets.size)
    find_all(K, M.ravel(), place, eta, targets, arms, found)
    expected = np.searchsorted(sums, targets, side="right")
    expected[-1] = V.argmin()  # beyond all sums: the heaviest
    assert np.array_equal(arms, expected)
    assert leader not in arms
    assert np.allclose(found, w[arms], rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("name", POLICIES)
def test_a_snapshot_with_an_impossible_leader_is_refused(name):
    policy = POLICIES[name]
    program, first = policy.program(8, lanes=True), own_rows(policy, 8)
    assert program.start().size == first + layout.rows(8, True)
    state = np.repeat(program.start()[:, None], LANES, axis=1)
    assert program.sound(state)
    for row, bad in ((membership.LEADER, 8.0), (membership.LEADER, 0.5), (membership.LEADS, 2.0)):
        wrong = state.copy()
        wrong[first + row, 3] = bad
        assert not program.sound(wrong)


class Own(bw.Exp3):
    """A user's variant with kernels of its own."""

    def kernels(self):
        return super().kernels()


def test_one_arm_more_arms_than_rounds_and_own_kernels_go_without():
    cases = [(policy, 1) for policy in POLICIES.values()]
    for policy, n_arms in [*cases, (bw.Exp3PlusPlus(), membership.FIRST + 1), (Own(), 8)]:
        program = policy.program(n_arms, lanes=True)
        assert program.kernels is policy.kernels()
        assert program.start().size == own_rows(policy, n_arms)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        bw.Exp3(),
        bw.Exp3PlusPlus(),
        bw.Broad(horizon=88_000),
        bw.TsallisINF(alpha=0.3, estimator="iw"),
        bw.TsallisINF(alpha=0.45, estimator="rv"),
    ],
    ids=repr,
)
def test_kernels_of_a_phase_play_as_those_of_all(policy, monkeypatch):
    best, bad = [0.4, 0.8, 0.8, 0.8], [0.9, 0.4, 0.8, 0.8]
    world = bw.environments.Piecewise([best, bad], every=44_000)
    job = tile.TileJob("leading", policy, world, 3, 0, LANES, (88_000,))
    own = tile.program_in

    def played(change):
        monkeypatch.setattr(tile, "program_in", lambda *given: change(own(*given)))
        return tile.run_job(job)

    found = played(lambda program: program)
    alike = played(lambda program: program._replace(phases=None))
    assert np.array_equal(found.cost, alike.cost) and np.array_equal(found.plays, alike.plays)
    # A look around that comes seldom is seen: lanes then enter the mode in other rounds.
    seldom = played(
        lambda program: program._replace(phases=dataclasses.replace(program.phases, every=1000))
    )
    assert not np.array_equal(found.plays, seldom.plays)
