"""Corruption and contamination: what the agent sees, and what it costs the adversary."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.environments import (
    Adaptive,
    Adversarial,
    Constrained,
    Contaminated,
    Corrupted,
    Stochastic,
    Switching,
    Utilities,
)
from bothworlds.errors import InvalidParameter
from helpers.worlds import LANES, call, index_of, labels, random_play

ATTACKS = ("hide", "swap", "random", "discourage")


def true_losses(base, arms, v):
    """The base's losses of every arm, given the agent's actions: rounds x arms x repetitions."""
    n, K = len(v), base.n_arms
    # Every arm of a round is asked, the played one last.
    asked = np.concatenate(
        [np.broadcast_to(np.arange(K)[None, :, None], (n, K, LANES)), arms[:, None, :]], axis=1
    ).reshape(-1, LANES)
    rounds = np.repeat(np.arange(1, n + 1), K + 1)
    seen = call(base, asked, np.repeat(v, K + 1, axis=0), rounds, wide=base.wide)
    return seen.losses.reshape(n, K + 1, LANES)[:, :K]


def corrupted_losses(world, arms, v):
    """What the agent would have observed of every arm, its past actions being ``arms``."""
    n, K = len(v), world.n_arms
    vectors = np.zeros((n, K, LANES))
    for arm in range(K):
        for t in range(n):
            path = np.vstack([arms[:t], np.full((1, LANES), arm)])
            vectors[t, arm] = call(world, path, v[: t + 1], wide=world.wide).losses[-1]
    return vectors


BASES = {
    "bernoulli": Stochastic([0.3, 0.5, 0.8]),
    "beta": Stochastic([0.3, 0.5, 0.8], "beta"),
    "switching": Switching(3, 0.25),
    "table": Adversarial(np.random.default_rng(1).random((40, 3))),
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", BASES)
def test_the_budget_is_the_sum_of_sup_norms(name, attack):
    # Corrupting takes the vector of a round, so every arm is tried after the same past.
    base, budget = BASES[name], 3.75
    world = Corrupted(base, budget, attack)
    arms, v = random_play(world, 24, seed=7)
    truth = true_losses(base, arms, v)
    vectors = corrupted_losses(world, arms, v)
    assert vectors.min() >= 0.0
    assert vectors.max() <= 1.0
    norms = np.abs(vectors - truth).max(axis=1)
    spent = call(world, arms, v).spent
    assert np.cumsum(norms, axis=0) == pytest.approx(spent, abs=1e-12)
    assert np.all(spent <= budget)
    if attack != "discourage":
        assert np.any(spent[-1] == budget)


@settings(max_examples=25)
@given(
    budget=st.one_of(st.integers(0, 30), st.floats(0.0, 30.0)),
    attack=st.sampled_from(ATTACKS),
    seed=st.integers(0, 1000),
)
def test_bernoulli_budgets_are_exact(budget, attack, seed):
    base = Stochastic([0.3, 0.5, 0.8])
    arms, v = random_play(base, 120, seed=seed)
    spent = call(Corrupted(base, budget, attack), arms, v).spent
    truth = true_losses(base, arms, v)
    for lane in range(3):
        order = labels(base)[:, lane]
        first, second = (truth[:, np.argmax(order == label), lane] for label in (0, 1))
        last = np.concatenate([[-1], order[arms[:-1, lane]]])
        wanted = {
            "hide": 1.0 - first,
            "swap": np.abs(first - second),
            "discourage": np.where(last == 0, 1.0 - first, 0.0),
        }.get(attack)
        if wanted is None:
            assert np.all(np.diff(spent[:, lane]) >= 0.0)
        else:
            total = Fraction(0)
            for t, cost in enumerate(wanted):
                total = min(total + Fraction(cost), Fraction(budget))
                assert Fraction(spent[t, lane]) == total
        assert np.all(spent[:, lane] <= budget)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", BASES)
def test_lanes_are_scalars_bit_for_bit(name, attack):
    world = Corrupted(BASES[name], 5.5, attack)
    arms, v = random_play(world, 40)
    wide, one = call(world, arms, v), call(world, arms, v, wide=False)
    assert np.array_equal(wide.losses, one.losses)
    assert np.array_equal(wide.regrets, one.regrets)
    assert np.array_equal(wide.spent, one.spent)


def test_hidden_is_the_best_arm_until_the_budget_is_spent():
    base = Stochastic([0.6, 0.3, 0.8])
    world = Corrupted(base, 50)
    best = index_of(world, 1)
    _, v = random_play(base, 400)
    hidden = call(world, np.broadcast_to(best, v.shape), v)
    left = hidden.spent < 50
    assert np.all(hidden.losses[left] == 1.0)
    honest = call(base, np.broadcast_to(best, v.shape), v)
    after = np.vstack([np.zeros((1, LANES), bool), ~left[:-1]])
    assert np.array_equal(hidden.losses[after], honest.losses[after])
    assert after.any(axis=0).all()
    assert np.array_equal(hidden.regrets, honest.regrets)


def test_swapped_arms_have_each_others_losses():
    base = Stochastic([0.6, 0.3, 0.8])
    world = Corrupted(base, 1e6, "swap")
    _, v = random_play(base, 300)
    first, second, third = (
        np.broadcast_to(index_of(world, label), v.shape) for label in (1, 0, 2)
    )  # fmt: skip
    assert np.array_equal(call(world, first, v).losses, call(base, second, v).losses)
    assert np.array_equal(call(world, second, v).losses, call(base, first, v).losses)
    assert np.array_equal(call(world, third, v).losses, call(base, third, v).losses)
    assert np.all(call(world, first, v).regrets == 0.0)


@pytest.mark.statistical
def test_random_attacks_are_uniform_and_on_every_arm():
    base = Stochastic([0.25] * 4, "deterministic")
    world = Corrupted(base, 1e6, "random")
    _, v = random_play(base, 4000)
    changed = [call(world, np.full(v.shape, arm), v).losses for arm in range(4)]
    hits = np.array([np.mean(losses != 0.25) for losses in changed])
    # One arm a round, each with probability 1/4; 64 000 draws.
    assert np.abs(hits - 0.25).max() <= 5.0 * np.sqrt(0.25 * 0.75 / 64_000)
    values = np.concatenate([losses[losses != 0.25] for losses in changed])
    assert abs(values.mean() - 0.5) <= 5.0 / np.sqrt(12 * values.size)
    assert abs(np.mean(values < 0.25) - 0.25) <= 5.0 * np.sqrt(0.25 * 0.75 / values.size)


def test_without_a_budget_nothing_changes():
    base = BASES["switching"]
    arms, v = random_play(base, 200)
    honest = call(base, arms, v)
    for attack in ATTACKS:
        seen = call(Corrupted(base, 0, attack), arms, v)
        assert np.array_equal(seen.losses, honest.losses)
        assert not seen.spent.any()


def after_best(t, last):
    return 0.6 if last == 0 else 0.1


def test_corruption_keeps_an_adaptive_base_intact():
    base = Constrained([0.0, 0.3], after_best)
    world = Corrupted(base, 1000, "swap")
    arms, v = random_play(base, 100)
    truth = true_losses(base, arms, v)
    seen = call(world, arms, v, wide=False)
    assert np.array_equal(seen.losses, np.take_along_axis(truth, 1 - arms[:, None], axis=1)[:, 0])
    assert np.array_equal(seen.regrets, call(base, arms, v, wide=False).regrets)


def test_the_base_lends_everything_but_its_losses():
    base = Adversarial(np.full((10, 2), 0.5))
    world = Corrupted(base, 1)
    assert (world.n_arms, world.horizon_limit, world.regret) == (2, 10, "oblivious")
    assert world.best_cumulative([4]).tolist() == [2.0]
    tracked = Corrupted(Adaptive(3), 1, targets=[0])
    assert tracked.tracked_row == Adaptive(3).tracked_row
    assert pickle.loads(pickle.dumps(tracked)) == tracked
    assert repr(tracked) == "Corrupted(base=Adaptive(n_arms=3), budget=1.0, targets=[0])"
    assert Corrupted(base, 1, "swap") != Corrupted(base, 1)


def test_the_base_takes_arguments_by_name():
    world = Corrupted(Adversarial(np.full((5, 3), 0.5)), budget=2.0, targets=[0])
    assert world.best_cumulative(checkpoints=np.array([4])) == [2.0]
    assert world.start(rng=np.random.default_rng(0)).size == 4


@pytest.mark.statistical
def test_hiding_hurts_by_about_the_budget():
    base, policies = Stochastic.gap(4, 0.25), {"tsallis": bw.TsallisINF()}
    options = {"horizon": 20_000, "repetitions": 64, "seed": 3, "progress": False}
    honest = bw.simulate(policies, base, **options).regret["tsallis"][:, -1].mean()
    hidden = bw.simulate(policies, Corrupted(base, 200), **options).regret["tsallis"][:, -1].mean()
    assert honest + 50.0 < hidden < honest + 400.0


# --- contaminated ----------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [1, 50, 400])
@pytest.mark.parametrize("base", [Stochastic([0.2, 0.5, 0.9, 0.2]), Switching(3, 0.25)])
def test_contamination_stays_within_the_regime_and_uses_it(base, tau):
    T = 2000
    world = Contaminated(base, tau=tau)
    gaps = base.fixed_gaps()
    _, v = random_play(base, T)
    t = np.arange(1, T + 1)
    for label, gap in enumerate(gaps):
        arms = np.broadcast_to(index_of(base, label), v.shape)
        seen, honest = call(world, arms, v), call(base, arms, v)
        count = seen.spent[:, 0]
        q = (gap if gap > 0.0 else gaps[gaps > 0.0].min()) / 4.0
        assert np.all(count[tau - 1 :] <= q * t[tau - 1 :] + 1e-9)
        assert np.all(count[tau - 1 :] > q * t[tau - 1 :] - 1.0)
        replaced = np.diff(count, prepend=0.0) > 0.0
        assert np.all(seen.losses[replaced] == (0.0 if gap > 0.0 else 1.0))
        assert np.array_equal(seen.losses[~replaced], honest.losses[~replaced])
        assert np.array_equal(seen.regrets, honest.regrets)
        if tau == 400:
            assert replaced[: int(q * tau)].all()
        scalar = call(world, arms, v, wide=False)
        assert np.array_equal(scalar.losses, seen.losses)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Corrupted(Stochastic.gap(2, 0.5), -1), "budget of Corrupted must be a finite"),
        (lambda: Corrupted(Stochastic.gap(2, 0.5), np.inf), "budget of Corrupted must be a finite"),
        (lambda: Corrupted(Stochastic.gap(2, 0.5), "5"), "budget of Corrupted must be a finite"),
        (
            lambda: Corrupted(Stochastic.gap(2, 0.5), 1, "steal"),
            'attack of Corrupted must be "hide',
        ),
        (lambda: Corrupted("world", 1), "base of Corrupted must be an environment"),
        (lambda: Corrupted(Utilities([0.1, 0.2]), 1), "base of Corrupted must be an environment"),
        (
            lambda: Corrupted(Corrupted(Stochastic.gap(2, 0.5), 1), 1),
            "base of Corrupted must be an environment for one arm a round, "
            r"with losses in \[0, 1\], that is not under attack itself",
        ),
        (lambda: Corrupted(Adaptive(2), 1), "targets of Corrupted must be given, as Adaptive"),
        (lambda: Corrupted(Adaptive(2), 1, "swap", [0]), "targets of Corrupted must be 2 or more"),
        (lambda: Corrupted(Adaptive(2), 1, targets=[2]), "targets of Corrupted must be 1 or more"),
        (lambda: Contaminated(Adaptive(2)), "base of Contaminated must be an environment with"),
        (lambda: Contaminated(Stochastic([0.5, 0.5])), "base of Contaminated must be an env"),
        (lambda: Contaminated(Stochastic.gap(2, 0.5), 0), "tau of Contaminated must be an integer"),
    ],
)
def test_bad_input_is_one_sentence(make, sentence):
    with pytest.raises(InvalidParameter, match=f"^The {sentence}.*\\.$"):
        make()
