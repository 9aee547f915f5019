"""Wrappers for drift: restarts at fixed times, fading estimates, and restarts on an alarm."""

import copy
import math
import pickle

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.state import first_row, generator
from bothworlds.environments import Piecewise, Stochastic
from bothworlds.errors import InvalidParameter
from bothworlds.lanes.types import LANES
from bothworlds.policies.alarm import (
    CELLS,
    COUNT,
    FIELDS,
    LEVELS,
    SUM,
    change,
    log_above,
    observe,
    threshold,
)
from bothworlds.seeding import stream_words
from helpers.programs import own_program
from helpers.tiles import played_as_tile, played_one_by_one

INNER = [
    bw.TsallisINF(),
    bw.TsallisINF(estimator="iw"),
    bw.TsallisINF(alpha=0.3),
    bw.Exp3(),
    bw.Exp3PlusPlus(),
    bw.Broad(horizon=500),
    bw.TsallisINFV(),
    bw.LBINFV(horizon=500),
    bw.UCB1(),
    bw.KLUCB(),
    bw.ThompsonSampling(),
    bw.Uniform(),
]
WRAPPED = [
    bw.Restarted(bw.TsallisINF(), every=70),
    bw.Restarted(bw.Broad(horizon=500), every=70),
    bw.Restarted(bw.UCB1(), every=70),
    bw.Discounted(bw.TsallisINF(), window=60),
    bw.Discounted(bw.Exp3PlusPlus(), window=60),
    bw.Discounted(bw.TsallisINFV(), window=60),
    bw.Discounted(bw.LBINFV(horizon=500), window=60),
    bw.Discounted(bw.HTINF(scale=0.5), window=60),
    bw.Restarted(bw.AdaTINF(horizon=500), every=70),
    bw.Alarmed(bw.TsallisINF(), confidence=0.5),
    bw.Alarmed(bw.Broad(horizon=500), floor=0.1, confidence=0.5),
    bw.Alarmed(bw.UCB1(), floor=0, confidence=0.5),
    bw.Alarmed(bw.Exp3(), confidence=0.5, restart=False),
]


def turning(t, index):
    """A loss of one of two groups of arms, which change places every 100 rounds."""
    return float((index % 2 == 0) == ((t // 100) % 2 == 0))


def play(bandit, rounds, first=0, loss=turning):
    """Tell a bandit losses and return its arms."""
    arms = []
    for t in range(first, first + rounds):
        decision = bandit.ask()
        arms.append(decision.index)
        bandit.tell(decision, loss=loss(t, decision.index))
    return arms


def regret(policy, world, horizon=500, runs=16):
    result = bw.simulate(
        {"x": policy}, world, horizon=horizon, repetitions=runs, seed=4, progress=False
    )
    return result.regret["x"]


# --- the policy itself ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [3, 12])
@pytest.mark.parametrize("policy", INNER, ids=repr)
def test_without_restarts_and_alarms_it_is_the_policy_bit_for_bit(policy, n_arms, monkeypatch):
    # Its program in lanes draws the same arms in distribution only.
    monkeypatch.setattr(bw.ThompsonSampling, "program", own_program)
    world = Stochastic.gap(n_arms, 0.2)
    plain = regret(policy, world)
    silent = bw.Alarmed(policy, floor=0, confidence=1)
    for same in (bw.Restarted(policy, every=501), bw.Restarted(policy, every=500), silent):
        assert np.array_equal(regret(same, world), plain)
        one, other = (bw.Bandit(p, arms=n_arms, seed=2) for p in (policy, same))
        assert play(one, 150) == play(other, 150)
        if policy.traits.knows_probability:
            assert one.probabilities() == other.probabilities()


@pytest.mark.parametrize("policy", INNER[:-1], ids=repr)
def test_a_restart_makes_a_difference(policy):
    world = Stochastic.gap(3, 0.2)
    assert not np.array_equal(regret(bw.Restarted(policy, every=250), world), regret(policy, world))


IN_LANES = [
    bw.Floor(bw.TsallisINF(), 0.3),
    bw.Floor(bw.TsallisINFV(), 0.2, power=0.0),
    bw.Floor(bw.AdaTINF(horizon=700), 0.5),
    bw.Discounted(bw.TsallisINF(), window=60),
    bw.Discounted(bw.TsallisINF(estimator="iw"), window=60),
    bw.Discounted(bw.TsallisINFV(), window=60),
    bw.Discounted(bw.TsallisINFV(rate="residual"), window=60),
    bw.Discounted(bw.Exp3(), window=60),
    bw.Discounted(bw.HTINF(scale=0.5), window=60),
    bw.Discounted(bw.Floor(bw.TsallisINF(), 0.3), window=60),
    bw.Alarmed(bw.TsallisINF(), confidence=0.5),
    bw.Alarmed(bw.TsallisINF(estimator="iw", learning_rate=bw.omd.Theorem4()), confidence=0.5),
    bw.Alarmed(bw.TsallisINF(learning_rate=0.1), floor=0, confidence=0.5),
    bw.Alarmed(bw.TsallisINFV(), confidence=0.5),
    bw.Alarmed(bw.Exp3(), confidence=0.5, restart=False),
]


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [3, 12])
@pytest.mark.parametrize("policy", IN_LANES, ids=repr)
def test_a_lane_does_what_a_bandit_does_bit_for_bit(policy, n_arms):
    """Restarts and alarms come in every lane at its own time."""
    rounds = 1100  # estimates are recentred in round 1024
    assert policy.kernels().wide
    losses = np.array([[turning(t, i) for i in range(n_arms)] for t in range(rounds)])
    start = np.repeat(policy.start(n_arms)[:, None], LANES, axis=1)
    words = np.stack([stream_words(3, "lanes", lane) for lane in range(LANES)], axis=1)
    tile = played_as_tile(policy, losses, start, words)
    alone = played_one_by_one(policy, losses, start, words)
    assert np.array_equal(tile.arms, alone.arms)
    # The engine leaves the rows that only a bandit writes, such as its count of decisions.
    own = list(policy.traits.bandit_rows)
    shared = np.setdiff1d(np.arange(len(start)), own)
    assert np.array_equal(tile.state[shared], alone.state[shared])
    assert np.array_equal(tile.state[own], start[own])
    assert np.array_equal(tile.generator, alone.generator)
    if isinstance(policy, bw.Alarmed):
        assert tile.state[policy.before - 1].min() >= 1
        if policy.restart:
            assert len(set(tile.state[policy.before - 3])) > 1


@pytest.mark.parametrize("policy", IN_LANES[3:-4:2], ids=repr)
def test_bits_do_not_depend_on_threads_and_repetitions(policy):
    world = Piecewise.gap(5, 0.4, every=150, blocks=3)
    found = [
        bw.simulate({"x": policy}, world, horizon=450, repetitions=runs, seed=4, threads=threads,
                    progress=False).regret["x"]
        for runs, threads in ((37, 1), (37, 2), (5, 1))
    ]  # fmt: skip
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0][:5], found[2])


# --- restarts ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("policy", INNER, ids=repr)
def test_every_block_is_a_new_bandit(policy):
    bandit = bw.Bandit(bw.Restarted(policy, every=80), arms=4, seed=6)
    for block in range(3):
        fresh = bw.Bandit(policy, arms=4, seed=1)
        generator(fresh._core.F)[:] = generator(bandit._core.F)
        assert play(bandit, 80, 80 * block) == play(fresh, 80, 80 * block)


def test_feedback_of_an_earlier_block_teaches_nothing():
    bandit = bw.Bandit(bw.Restarted(bw.TsallisINF(), every=10), arms=3, seed=6)
    old = [bandit.ask() for _ in range(10)]
    new = bandit.ask()
    before = bandit.probabilities()
    for decision in old:
        bandit.tell(decision, loss=1.0)
    assert bandit.probabilities() == pytest.approx(before)
    bandit.tell(new, loss=1.0)
    assert bandit.probabilities() != pytest.approx(before)


def test_the_first_round_of_a_block_may_be_decided_among_some_arms():
    bandit = bw.Bandit(bw.Restarted(bw.TsallisINF(), every=20), arms=4, seed=6)
    play(bandit, 20)
    decision = bandit.ask(available=[0, 1])
    assert list(decision.probabilities.values()) == pytest.approx([0.5, 0.5])
    bandit.tell(decision, loss=1.0)
    w = bandit.probabilities()
    # What was learned in the last block is gone, what the new one brought is there.
    assert w[2] == pytest.approx(w[3])
    assert w[decision.arm] < w[2]


def test_restarts_are_guaranteed_block_by_block():
    found = bw.bounds.guarantee(
        bw.Restarted(bw.TsallisINF(estimator="iw"), every=100), n_arms=4, horizon=1050
    )
    one = bw.bounds.adversarial(4, 100, estimator="iw")
    assert found.value == pytest.approx(10 * one + bw.bounds.adversarial(4, 50, estimator="iw"))
    assert "block" in found.reason
    assert bw.bounds.guarantee(bw.Discounted(), n_arms=4, horizon=100).value is None
    assert "argued" in bw.bounds.guarantee(bw.Alarmed(), n_arms=4, horizon=100).reason
    nothing = bw.Restarted(bw.ThompsonSampling(), every=100)
    assert bw.bounds.guarantee(nothing, n_arms=4, horizon=100).value is None


# --- discounting ------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["iw", "rv"])
@pytest.mark.parametrize("n_arms", [3, 12])
def test_discounted_estimates_are_those_of_the_formula(estimator, n_arms):
    """An independent reference in NumPy: shrink, add, and solve at the window's rate."""
    window, scale = 30, 4.0 if estimator == "rv" else 2.0
    bandit = bw.Bandit(
        bw.Discounted(bw.TsallisINF(estimator=estimator), window), arms=n_arms, seed=3
    )
    L = np.zeros(n_arms)
    for t in range(1, 200):
        eta = scale / math.sqrt(min(t, window))
        w = bw.omd.weights(L, eta)
        decision = bandit.ask()
        assert list(decision.probabilities.values()) == pytest.approx(w, abs=1e-9)
        loss = turning(t, decision.index)
        bandit.tell(decision, loss=loss)
        B = 0.5 * (w >= eta**2) if estimator == "rv" else np.zeros(n_arms)
        L = (1 - 1 / window) * (L - L.min()) + B
        L[decision.index] += (loss - B[decision.index]) / w[decision.index]
    # Without the factor the weights would be others.
    assert bw.omd.weights(L / (1 - 1 / window) ** 20, eta) != pytest.approx(w, abs=1e-6)


# --- the alarm --------------------------------------------------------------------------------


def kl(p, q):
    return sum(
        x * math.log(x / y) for x, y in ((p, q), (1 - p, 1 - q)) if x > 0
    )  # fmt: skip


def cuts(N):
    """Where the sequence of N losses is cut: between 2^j and 2^(j+1) losses ago."""
    return [((N >> j) - 1) << j for j in range(LEVELS) if N >> j >= 2]


def test_the_bound_of_the_logarithm_is_above_it_everywhere():
    v = np.concatenate([10.0 ** np.linspace(-12, 12, 4_001), np.linspace(0.5, 2.0, 2_001)])
    above = np.array([log_above(each) for each in v])
    assert np.all(above >= np.log(v) - 1e-15)
    near = np.abs(v - 1.0) < 0.2
    assert np.all(above[near] - np.log(v[near]) < 1e-4)


def test_the_ring_knows_the_sums_at_dyadic_distances():
    rng = np.random.default_rng(5)
    losses = rng.random(700)
    R = np.zeros(FIELDS * 3)
    for N, loss in enumerate(losses, 1):
        observe(R, 1, 3, loss)
        assert R[1 + 3 * COUNT] == N
        assert R[1 + 3 * SUM] == pytest.approx(losses[:N].sum())
        for j, n in enumerate(cuts(N)):
            assert R[1 + 3 * (CELLS + 2 * j)] == pytest.approx(losses[:n].sum())
            assert 2**j <= N - n < 2 ** (j + 1)
    assert not R[0::3].any() and not R[2::3].any()


@pytest.mark.slow
def test_the_alarm_sounds_where_the_formula_says():
    """All losses kept, every cut tried: the ring says the same, and says it when it is due."""
    sounded = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        losses = np.concatenate([rng.random(150) < 0.2, rng.random(80) < 0.7]).astype(float)
        if seed % 2:
            losses *= rng.random(230)
        R = np.zeros(FIELDS)
        for N in range(1, 231):
            observe(R, 0, 1, losses[N - 1])
            mu = losses[:N].mean()
            found, cut = change(R, 0, 1, math.log(2 * 4 / 0.1))
            if N < 2 or not 0 < mu < 1:
                assert found == 0
                continue
            limit = math.log(2 * 4 * N**1.5 * (1 + math.log2(N)) / 0.1)
            assert threshold(math.log(2 * 4 / 0.1), float(N)) == pytest.approx(limit)
            values = {
                n: n * kl(losses[:n].mean(), mu) + (N - n) * kl(losses[n:N].mean(), mu)
                for n in cuts(N)
            }
            most = max(values.values())
            assert (found > 0) == (most > limit)
            if found > 0:
                assert found == pytest.approx(most)
                assert values[cut] == pytest.approx(most)
                sounded += 1
    assert sounded > 100


@pytest.mark.statistical
def test_false_alarms_are_rare_and_true_ones_are_not():
    """400 sequences of one mean, 400 that change: at most delta and nearly all are heard."""

    def heard(confidence, after, runs=400, length=600):
        rng = np.random.default_rng(9)
        alarms = 0
        for _ in range(runs):
            R = np.zeros(FIELDS)
            for N in range(length):
                observe(R, 0, 1, float(rng.random() < (0.3 if N < 300 else after)))
                if change(R, 0, 1, math.log(2 / (1 - confidence)))[0] > 0:
                    alarms += 1
                    break
        return alarms / runs

    slack = 3.5 * math.sqrt(0.1 * 0.9 / 400)
    assert heard(0.9, 0.3) <= 0.1 + slack
    assert heard(0.9, 0.7) > 0.95
    # A threshold that is no threshold is noticed.
    assert heard(1 - 1e6, 0.3) > 0.1 + slack


def test_an_alarm_restarts_everything():
    policy = bw.Alarmed(bw.TsallisINF(), confidence=0.99)
    bandit = bw.Bandit(policy, arms=3, seed=6)
    row = first_row(bandit._core.F) + policy.before
    told = 0
    while bandit._core.F[row - 1] == 0:
        told += 1
        play(bandit, 1, told, lambda t, i: float((i == 0) == (t > 200)))
        assert told < 1000
    assert told > 200
    assert list(bandit.probabilities().values()) == pytest.approx([1 / 3] * 3)
    state = bandit._core.F[first_row(bandit._core.F) :]
    assert np.array_equal(state[policy.before + policy.inner.start(3).size :], np.zeros(3 * FIELDS))
    # From here on it is a new bandit.
    fresh = bw.Bandit(policy.inner, arms=3, seed=1)
    generator(fresh._core.F)[:] = generator(bandit._core.F)
    assert play(bandit, 50, 100) == play(fresh, 50, 100)


def test_without_restart_the_alarm_only_counts():
    loud, quiet = (
        bw.Bandit(bw.Alarmed(bw.TsallisINF(), confidence=c, restart=False), arms=3, seed=6)
        for c in (0.9, 1.0)
    )
    assert play(loud, 600) == play(quiet, 600)
    assert loud.probabilities() == quiet.probabilities()
    count = [b._core.F[first_row(b._core.F) + b.policy.before - 1] for b in (loud, quiet)]
    assert count[0] > 0 and count[1] == 0


def test_feedback_from_before_an_alarm_teaches_nothing():
    bandit = bw.Bandit(bw.Alarmed(bw.TsallisINF()), arms=2, seed=6)
    waiting = bandit.ask()
    play(bandit, 1200, loss=lambda t, i: float((i == 0) == (t >= 600)))
    assert bandit._core.F[first_row(bandit._core.F) + bandit.policy.before - 1] >= 1
    before = bandit.probabilities()
    bandit.tell(waiting, loss=1.0)
    assert bandit.probabilities() == pytest.approx(before)


# --- in a bandit ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("policy", WRAPPED, ids=repr)
def test_a_saved_bandit_goes_on_with_decisions_pending(policy, tmp_path):
    bandit = bw.Bandit(policy, arms=["a", "b", "c", "d"], seed=8)
    play(bandit, 330)
    waiting = [bandit.ask().id for _ in range(4)]
    bandit.save(tmp_path / "bandit.json")
    loaded = bw.Bandit.load(tmp_path / "bandit.json")
    assert loaded.policy == policy
    twins = (bandit, loaded, pickle.loads(pickle.dumps(bandit)), copy.deepcopy(bandit))
    for twin in twins:
        for number in reversed(waiting):
            twin.tell(number, loss=number % 2)
    # Losses that make restarts and alarms happen after the file was read.
    expected, *others = (play(twin, 250, 330) for twin in twins)
    assert others == [expected] * 3
    if policy.traits.knows_probability:
        assert loaded.probabilities() == bandit.probabilities()


@pytest.mark.parametrize("policy", WRAPPED, ids=repr)
def test_arms_come_and_go_and_some_are_away(policy):
    bandit = bw.Bandit(policy, arms=["a", "b"], seed=1)
    play(bandit, 120)
    bandit.add_arm("c")
    bandit.retire_arm("a")
    decision = bandit.ask(available=["b", "c"])
    bandit.tell(decision, loss=0.5)
    bandit.add_arm("d")
    decision = bandit.ask(available=["b", "d"])
    play(bandit, 5)
    bandit.tell(decision, loss=0.5)
    play(bandit, 250)
    assert bandit.round == 377


@pytest.mark.parametrize("policy", WRAPPED, ids=repr)
def test_many_arms(policy):
    bandit = bw.Bandit(policy, arms=600, seed=1)
    play(bandit, 150)
    assert np.isfinite(bandit._core.F[first_row(bandit._core.F) :]).all()


# --- what they are for ------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.slow
def test_the_order_where_the_best_arm_moves_and_where_nothing_does():
    """The table of the docs: 5 arms, gap 0.2, 10,000 rounds, 304 runs."""
    plain = bw.TsallisINF()
    named = {
        "plain": plain,
        "restarted": bw.Restarted(plain, 1000),
        "discounted": bw.Discounted(plain, 1000),
        "alarmed": bw.Alarmed(plain),
    }
    found = {}
    for world in (Piecewise.gap(5, 0.2, every=2500, blocks=4), Stochastic.gap(5, 0.2)):
        result = bw.simulate(
            named, world, horizon=10_000, repetitions=304, seed=3, checkpoints=[10_000],
            progress=False,
        )  # fmt: skip
        found[type(world).__name__] = {
            name: (r.mean(), r.std(ddof=1) / math.sqrt(304)) for name, r in result.regret.items()
        }

    def below(world, one, other):
        (a, error_a), (b, error_b) = (found[world][name] for name in (one, other))
        return b - a > 4 * math.hypot(error_a, error_b)

    for one, other in (
        ("alarmed", "discounted"),
        ("discounted", "restarted"),
        ("restarted", "plain"),
    ):
        assert below("Piecewise", one, other)
    # Where nothing moves, what forgets has the larger regret: the order is not one of luck.
    for name in ("restarted", "discounted", "alarmed"):
        assert below("Stochastic", "plain", name)
    # Measured when the alarm was specified, by another program with all losses kept.
    for world, name, other in (
        ("Piecewise", "plain", 1134),
        ("Piecewise", "restarted", 584),
        ("Piecewise", "discounted", 533),
        ("Piecewise", "alarmed", 471),
        ("Stochastic", "plain", 88),
        ("Stochastic", "restarted", 476),
        ("Stochastic", "discounted", 192),
        ("Stochastic", "alarmed", 110),
    ):
        mean, error = found[world][name]
        # That program had about 100 runs.
        assert abs(mean - other) < 4 * error * math.hypot(1, math.sqrt(304 / 100)) + 0.01 * other


# --- arguments --------------------------------------------------------------------------------


def test_they_print_as_their_constructors():
    assert repr(bw.Restarted(bw.Exp3(), 500)) == "Restarted(Exp3(), every=500)"
    assert repr(bw.Discounted(bw.Exp3(), 500)) == "Discounted(Exp3(), window=500.0)"
    assert repr(bw.Alarmed(bw.Exp3())) == "Alarmed(Exp3())"
    printed = "Alarmed(Exp3(), floor=0.1, confidence=0.9, restart=False)"
    assert repr(bw.Alarmed(bw.Exp3(), 0.1, 0.9, False)) == printed


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: bw.Restarted("tsallis", 5), "The policy of Restarted must be a policy such as"),
        (lambda: bw.Restarted(bw.Sparring(), 5), "The policy of Restarted must be a policy such"),
        (lambda: bw.Restarted(bw.Exp3(), 0), "The every of Restarted must be an integer of at lea"),
        (lambda: bw.Restarted(bw.Exp3(), 2.5), "The every of Restarted must be an integer of at l"),
        (lambda: bw.Restarted(bw.Alarmed(), 5), "must be one that is not restarted, discounted or"),
        (
            lambda: bw.Alarmed(bw.Floor(bw.Discounted())),
            "The policy of Alarmed must be one that is",
        ),
        (lambda: bw.Discounted(bw.UCB1()), "The policy of Discounted must be one with cumulative"),
        (lambda: bw.Discounted(bw.Exp3(), 1), "The window of Discounted must be a number larger"),
        (lambda: bw.Discounted(bw.Exp3(), math.inf), "The window of Discounted must be a number"),
        (lambda: bw.Alarmed(bw.UCB1()), "must be one that draws from known probabilities"),
        (lambda: bw.Alarmed(bw.HTINF(1.0)), "The policy of Alarmed must be one for losses in"),
        (lambda: bw.Alarmed(bw.Exp3(), 1.5), r"The floor of Alarmed must be a number in \[0, 1\]"),
        (lambda: bw.Alarmed(bw.Exp3(), 0.1, 0), "The confidence of Alarmed must be a number in"),
        (lambda: bw.Alarmed(bw.Exp3(), 0.1, 1.1), "The confidence of Alarmed must be a number in"),
        (lambda: bw.Alarmed(bw.Exp3(), restart=1), "The restart of Alarmed must be True or False"),
    ],
)
def test_bad_arguments(make, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        make()
