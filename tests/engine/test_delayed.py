"""Late feedback in simulations: the rule of a `Bandit`, the streams of a simulation."""

import heapq
import math
import pickle

import numpy as np
import pytest
from numba import njit

import bothworlds as bw
from bothworlds import environments as env
from bothworlds.bandit.state import generator
from bothworlds.checks import check_environment
from bothworlds.engine import delayed
from bothworlds.engine.replay import World
from bothworlds.environments import Delayed, GeometricDelay, ListedDelay, Stochastic, UniformDelay
from bothworlds.environments.delays import delay_of, encoded
from bothworlds.errors import InvalidParameter
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import pointer
from bothworlds.seeding import stream_words
from helpers.programs import own_program

POLICIES = [
    bw.TsallisINF(),
    bw.TsallisINF(estimator="iw"),
    bw.TsallisINF(alpha=0.3),
    bw.TsallisINF(alpha=0.8, estimator="soft"),
    bw.Exp3(),
    bw.Exp3PlusPlus(),
    bw.Broad(horizon=400),
    bw.UCB1(),
    bw.KLUCB(),
    bw.ThompsonSampling(),
    bw.TsallisINFV(),
    bw.LBINFV(horizon=400),
    bw.HTINF(scale=0.5),
    bw.AdaTINF(horizon=400),
    bw.Floor(bw.TsallisINF(), 0.5),
    bw.Restarted(bw.Broad(horizon=400), every=90),
    bw.Discounted(bw.TsallisINF(), window=100),
    bw.Alarmed(bw.TsallisINF(), confidence=0.5),
]
DELAYS = [3, UniformDelay(0, 40), GeometricDelay(12), [0, 5, GeometricDelay(30), {0: 0.5, 60: 0.5}]]


def run(policy, world, horizon=400, runs=3, **options):
    return bw.simulate(
        {"x": policy}, world, horizon=horizon, repetitions=runs, seed=4, progress=False, **options
    )


@njit
def _uniforms(words, n):
    out = np.zeros(n)
    for i in range(n):
        out[i] = uniform(pointer(words), 0.0)
    return out


def played_by_a_bandit(policy, world, rounds, repetition):
    """Play with `Bandit`, told when the delays say; return the sum of the costs, and the plays."""
    name = repr(world)
    base = World(world, 4)
    repetition_state = base.repetition(repetition)
    labels = base.labels(repetition_state)
    made = base.walk_all(repetition_state, np.zeros(rounds, np.int64))
    u = _uniforms(stream_words(4, name, "delay", repetition), 2 * rounds).reshape(-1, 2)
    bandit = bw.Bandit(policy, arms=world.n_arms, seed=0, evidence=False)
    generator(bandit._core.F)[:] = stream_words(4, name, "x", repetition)
    cost, plays, waiting = 0.0, np.zeros(world.n_arms, int), []
    for t in range(1, rounds + 1):
        decision = bandit.ask()
        arm = decision.index
        cost += made.costs[t - 1, arm]
        plays[labels[arm]] += 1
        late = delay_of(world.delays(), labels[arm], *u[t - 1])
        loss = made.losses[t - 1, arm]
        if late == 0:
            bandit.tell(decision, loss=loss)
        elif late > 0:
            heapq.heappush(waiting, (t + late, t, loss))
        while waiting and waiting[0][0] <= t:
            _, number, loss = heapq.heappop(waiting)
            bandit.tell(number, loss=loss)
    return cost, plays


@pytest.mark.slow
@pytest.mark.parametrize("delay", DELAYS, ids=repr)
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_simulation_learns_as_a_bandit_does(policy, delay):
    world = Delayed(Stochastic([0.2, 0.5, 0.5, 0.8]), delay, lost=0.1)
    result = run(policy, world, checkpoints=[400])
    for repetition in range(3):
        cost, plays = played_by_a_bandit(policy, world, 400, repetition)
        assert result.regret["x"][repetition, -1] == pytest.approx(cost, abs=1e-9)
        assert result.plays["x"][repetition].tolist() == plays.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [3, 12])
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_without_delay_it_is_the_base_bit_for_bit(policy, n_arms, monkeypatch):
    base = env.Switching(n_arms, 0.2)
    # Late feedback plays by the policy's own kernels, and so must the base.
    monkeypatch.setattr(bw.ThompsonSampling, "program", own_program)
    prompt = run(policy, base)
    # The name of an environment seeds its streams.
    monkeypatch.setattr(Delayed, "__repr__", lambda self: repr(self.base))
    same = run(policy, Delayed(base, 0))
    assert np.array_equal(prompt.regret["x"], same.regret["x"])
    assert np.array_equal(prompt.plays["x"], same.plays["x"])
    other = run(policy, Delayed(base, 200))
    assert not np.array_equal(prompt.regret["x"], other.regret["x"])


def test_what_never_arrives_teaches_nothing(monkeypatch):
    base = Stochastic.gap(4, 0.5)
    monkeypatch.setattr(Delayed, "__repr__", lambda self: repr(self.base))
    lost, late, learned = (
        run(bw.TsallisINF(), world).plays["x"]
        for world in (Delayed(base, 0, lost=1.0), Delayed(base, 10**6), Delayed(base, 20))
    )
    assert np.array_equal(lost, late)
    assert np.abs(lost - 100).max() < 5 * math.sqrt(400 * 0.25 * 0.75)
    assert learned[:, 0].min() > lost[:, 0].max()


def test_regret_is_counted_when_a_decision_is_made():
    """A tracked regret, too: what an adaptive adversary sums up is not late."""
    for base in (env.Adaptive(3, "punish"), env.Adversarial([[0.0, 1.0], [1.0, 0.25]] * 50)):
        result = run(bw.Uniform(), Delayed(base, 5), horizon=100, runs=32, checkpoints=[50, 100])
        assert result.regret["x"].shape == (32, 2)
        assert np.isfinite(result.regret["x"]).all()
    assert result.plays["x"].sum(axis=1).tolist() == [100] * 32


def test_plays_over_time_and_the_other_comparator():
    base = env.Piecewise([[0.2, 0.8], [0.8, 0.2]], every=200)
    result = run(bw.TsallisINF(), Delayed(base, 5), checkpoints=[100, 300, 400], shares=True)
    at = result.plays_at["x"]
    assert at.sum(axis=2).tolist() == [[100, 300, 400]] * 3
    assert np.array_equal(at[:, -1], result.plays["x"])
    apart = result.regret["x"] - result.regret_against("fixed")["x"]
    assert apart[0] == pytest.approx([0.0, 60.0, 120.0])


def test_losses_without_bounds_may_be_late():
    base = env.HeavyTailed([1.0, 1.5, 1.5], noise="lognormal", shape=1.0)
    result = run(bw.HTINF(scale=2.0), Delayed(base, 20), runs=32)
    assert result.regret["x"][:, -1].mean() < 0.9 * 400 / 3
    with pytest.raises(InvalidParameter, match="policies for losses without bounds"):
        run(bw.TsallisINF(), Delayed(base, 20))


@pytest.mark.extra
def test_threads_shards_and_stores_change_nothing(tmp_path):
    world = Delayed(Stochastic.gap(3, 0.2), GeometricDelay(30), lost=0.05)
    one = run(bw.TsallisINF(), world, runs=40, threads=1)
    two = run(bw.TsallisINF(), world, runs=40, threads=2)
    kept = run(bw.TsallisINF(), world, runs=20, store=tmp_path / "store")
    more = run(bw.TsallisINF(), world, runs=40, store=tmp_path / "store")
    assert np.array_equal(one.regret["x"], two.regret["x"])
    assert np.array_equal(one.regret["x"], more.regret["x"])
    assert np.array_equal(one.regret["x"][:20], kept.regret["x"])


def test_runs_with_late_feedback_are_not_continuable(tmp_path):
    world = Delayed(Stochastic.gap(3, 0.2), 5)
    with pytest.raises(InvalidParameter, match="The continuable of simulate must be False with la"):
        run(bw.TsallisINF(), world, store=tmp_path / "store", continuable=True)


def test_curves_of_other_delays_have_other_names():
    from bothworlds.campaign.identity import fingerprint

    base = Stochastic.gap(3, 0.2)
    marks = {
        fingerprint(bw.Exp3(), world)
        for world in (base, Delayed(base, 0), Delayed(base, 5), Delayed(base, 5, lost=0.1))
    }
    assert len(marks) == 4


def test_memory_is_bounded_by_the_decisions_on_their_way(monkeypatch):
    rooms = []
    doubled = delayed.Waiting.doubled

    def noted(self):
        rooms.append(self.losses.shape[1])
        return doubled(self)

    monkeypatch.setattr(delayed.Waiting, "doubled", noted)
    base = Stochastic.gap(3, 0.2)
    run(bw.TsallisINF(), Delayed(base, 100), horizon=5000, runs=1)
    assert rooms == [16, 32, 64]
    rooms.clear()
    # What would arrive after the end is not kept at all.
    run(bw.TsallisINF(), Delayed(base, 10**6), horizon=5000, runs=1)
    assert rooms == []


def test_attacks_may_be_below_or_above_the_delay():
    base = Stochastic.gap(3, 0.3)
    below = Delayed(env.Corrupted(base, 50), 10)
    above = env.Corrupted(Delayed(base, 10), 50)
    plain = Delayed(base, 10)
    for world in (below, above):
        assert np.array_equal(world.delays(), plain.delays())
        check_environment(world)
    hidden, seen = (
        run(bw.TsallisINF(), world, horizon=300, runs=32).plays["x"] for world in (below, plain)
    )
    assert hidden[:, 0].sum() < seen[:, 0].sum()


# --- distributions ----------------------------------------------------------------------------


@pytest.mark.statistical
def test_delays_have_their_distributions():
    n = 40_000
    u, v = np.random.default_rng(3).random((2, n))
    cases = {
        7: (7.0, 0.0),
        UniformDelay(2, 9): (5.5, math.sqrt((8**2 - 1) / 12)),
        GeometricDelay(20): (20.0, math.sqrt(20 * 21)),
        GeometricDelay(0): (0.0, 0.0),
        ListedDelay((0, 5, 100), (0.5, 0.25, 0.25)): (26.25, 42.7),
    }
    for distribution, (mean, deviation) in cases.items():
        CD = encoded([3, distribution], 0.0)
        drawn = np.array([delay_of(CD, 1, *pair) for pair in zip(u, v, strict=True)])
        assert abs(drawn.mean() - mean) <= 4 * deviation / math.sqrt(n)
        assert delay_of(CD, 0, 0.5, 0.5) == 3
        if deviation:
            # Ten per cent more would be noticed.
            assert abs(drawn.mean() - 1.1 * mean) > 4 * deviation / math.sqrt(n)
    drawn = np.array([delay_of(encoded([4], 0.3), 0, *pair) for pair in zip(u, v, strict=True)])
    assert set(drawn) == {-1, 4}
    assert abs((drawn < 0).mean() - 0.3) < 4 * math.sqrt(0.21 / n)


def test_the_ends_of_the_unit_interval():
    last = 1.0 - 2.0**-52
    for distribution, least, most in (
        (UniformDelay(2, 9), 2, 9),
        (ListedDelay((0, 5), (0.1, 0.9)), 0, 5),
        (GeometricDelay(10), 0, 400),
    ):
        CD = encoded([distribution], 0.0)
        assert delay_of(CD, 0, 0.0, 0.0) == least
        assert 5 <= delay_of(CD, 0, 0.0, last) <= most


# --- the numbers to hold ----------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "expected", "error"),
    [(Stochastic([0.3, 0.45, 0.5, 0.5, 0.7]), 145.0, 1.5), (env.Switching(6, 0.2), 202.5, 2.8)],
    ids=repr,
)
def test_regret_with_delay_100(base, expected, error):
    """10,000 rounds, 304 runs, against another program's 300 with its standard error."""
    policy = bw.TsallisINF(estimator="iw")

    def apart(world):
        r = run(policy, world, horizon=10_000, runs=304, checkpoints=[10_000]).regret["x"]
        combined = math.hypot(r.std(ddof=1) / math.sqrt(304), error)
        return abs(r.mean() - expected) / (4 * combined + 0.01 * expected)

    assert apart(Delayed(base, 100)) < 1
    assert apart(base) > 1


# --- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [*DELAYS, {0: 0.25, 7: 0.75}], ids=repr)
def test_it_prints_as_its_constructor_and_travels(delay):
    world = Delayed(Stochastic([0.2, 0.5, 0.5, 0.8]), delay, lost=0.25)
    names = {name: getattr(env, name) for name in env.__all__}
    assert eval(repr(world), names) == world
    again = pickle.loads(pickle.dumps(world))
    assert again == world and hash(again) == hash(world)
    assert again != Delayed(world.base, 1, lost=0.25)


BASE = Stochastic.gap(2, 0.2)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Delayed("stochastic", 5), "The base of Delayed must be an environment for one"),
        (lambda: Delayed(env.Utilities([0.5, 0.4]), 5), "The base of Delayed must be an environm"),
        (lambda: Delayed(Delayed(BASE, 5), 5), "must be an environment for one arm a round that i"),
        (lambda: Delayed(BASE, -1), "The delay of Delayed must be a whole number of rounds"),
        (lambda: Delayed(BASE, 2.5), "The delay of Delayed must be a whole number of rounds"),
        (lambda: Delayed(BASE, True), "The delay of Delayed must be a whole number of rounds"),
        (lambda: Delayed(BASE, "soon"), "The delay of Delayed must be a whole number of rounds"),
        (lambda: Delayed(BASE, [1, 2, 3]), "must be one for all arms or one for each of 2"),
        (lambda: Delayed(BASE, 5, lost=1.5), r"The lost of Delayed must be a number in \[0, 1\]"),
        (lambda: Delayed(BASE, {}), "The delays of ListedDelay must be one or more numbers"),
        (lambda: Delayed(BASE, {0: 0.5}), "The probabilities of ListedDelay must be 1 numbers"),
        (lambda: ListedDelay((1, 2), (0.5, math.nan)), "The probabilities of ListedDelay must be"),
        (lambda: ListedDelay((1, 2), (1.5, -0.5)), "The probabilities of ListedDelay must be 2"),
        (lambda: ListedDelay((1, -2), (0.5, 0.5)), "The delays of ListedDelay must be a whole num"),
        (lambda: UniformDelay(5, 2), "The high of UniformDelay must be at least low, which is 5"),
        (lambda: UniformDelay(-1, 2), "The low of UniformDelay must be a whole number of rounds"),
        (lambda: GeometricDelay(-1), "The mean of GeometricDelay must be a number of rounds"),
        (lambda: GeometricDelay(math.inf), "The mean of GeometricDelay must be a number of rou"),
    ],
)  # fmt: skip
def test_bad_arguments(make, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        make()
