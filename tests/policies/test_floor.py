"""The exploration floor: what is drawn, weighted and remembered is the floored probability."""

import copy
import math
import pickle

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter

KNOWING = [
    bw.TsallisINF(),
    bw.TsallisINF(estimator="iw"),
    bw.TsallisINF(alpha=0.3),
    bw.Exp3(),
    bw.Exp3PlusPlus(),
    bw.Broad(horizon=500),
    bw.Uniform(),
    bw.TsallisINFV(),
    bw.TsallisINFV(rate="residual"),
    bw.LBINFV(horizon=500),
    bw.HTINF(scale=1.0),
    bw.AdaTINF(horizon=500),
]


def play(bandit, rounds, seed=1, means=(0.2, 0.5, 0.6, 0.9)):
    """Tell a bandit random losses and return its decisions."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rounds):
        decision = bandit.ask()
        bandit.tell(decision, loss=float(rng.random() < means[decision.index]))
        made.append(decision)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("policy", KNOWING, ids=repr)
@pytest.mark.parametrize(("scale", "power"), [(0.5, 1 / 3), (0.1, 0.0), (3.0, 0.5)])
def test_no_probability_falls_below_the_floor(policy, scale, power):
    bandit = bw.Bandit(bw.Floor(policy, scale, power), arms=4, seed=3, evidence=False)
    for decision in play(bandit, 400):
        least = min(1.0, scale * decision.round**-power) / 4
        w = np.array(list(decision.probabilities.values()))
        assert w.min() >= least * (1 - 1e-12)
        assert w.sum() == pytest.approx(1)
        assert decision.probability == pytest.approx(decision.probabilities[decision.arm])


def test_a_floor_of_1_is_uniform():
    bandit = bw.Bandit(bw.Floor(bw.TsallisINF(), 1.0, 0.0), arms=4, seed=3)
    for decision in play(bandit, 50):
        assert list(decision.probabilities.values()) == pytest.approx([0.25] * 4)


def test_the_distribution_is_the_policys_mixed_with_evenness():
    """The first round that learned from the same feedback, with and without a floor."""
    plain, floored = (
        bw.Bandit(policy, arms=4, seed=5) for policy in (bw.Exp3(), bw.Floor(bw.Exp3(), 0.5))
    )
    first = floored.ask()
    assert list(first.probabilities.values()) == pytest.approx([0.25] * 4)
    floored.tell(first, loss=1.0)
    while (other := plain.copy().ask()).arm != first.arm:
        plain = bw.Bandit(bw.Exp3(), arms=4, seed=plain.seed + 1)
    assert other.arm == first.arm
    plain.tell(plain.ask(), loss=1.0)
    e = 0.5 * 2 ** (-1 / 3)
    w = np.array(list(plain.probabilities().values()))
    assert list(floored.probabilities().values()) == pytest.approx((1 - e) * w + e / 4)


def test_without_a_scale_it_is_the_policy_itself():
    for policy in (bw.TsallisINF(), bw.Exp3()):
        assert bw.Floor(policy, 0) is policy
    one, other = (
        bw.simulate(
            [policy], bw.environments.Stochastic.gap(4, 0.2), horizon=500, repetitions=16,
            progress=False,
        )
        for policy in (bw.TsallisINF(), bw.Floor(bw.TsallisINF(), 0.0))
    )  # fmt: skip
    assert np.array_equal(one.regret["TsallisINF()"], other.regret["TsallisINF()"])


def regret(policy, runs=300, **options):
    world = bw.environments.Stochastic([0.4, 0.6, 0.6, 0.6])
    result = bw.simulate(
        {"x": policy}, world, horizon=3000, repetitions=runs, seed=4, progress=False, **options
    )
    return result.regret["x"][:, -1]


@pytest.mark.statistical
def test_the_floor_costs_little_regret_and_no_more_than_it_explores():
    plain, floored = regret(bw.TsallisINF()), regret(bw.Floor(bw.TsallisINF(), 0.5))
    error = math.hypot(*(r.std(ddof=1) / math.sqrt(r.size) for r in (plain, floored)))
    most = 0.75 * 0.5 * 3000 ** (2 / 3) * 0.2 * 3 / 4
    assert floored.mean() - plain.mean() < most + 4 * error
    # Half of what it explores is explored anyway; a floor of 1 costs far more.
    assert regret(bw.Floor(bw.TsallisINF(), 2.0)).mean() - plain.mean() > most


def test_near_arms_are_judged_without_the_floor():
    """Estimates stay unbiased: the baseline is added to the arms whose own w is large."""
    policy = bw.Floor(bw.TsallisINF(), 1.0, 0.1)
    rng = np.random.default_rng(2)
    bandit = bw.Bandit(policy, arms=6, seed=2)
    play(bandit, 60, means=rng.random(6))
    before = {name: arm.estimate for name, arm in bandit.history().items()}
    grown = np.zeros(6)
    losses = rng.random(6)
    seen = set()
    for _ in range(5000):
        twin = bandit.copy()
        decision = twin.ask()
        bandit._core.F[3:7] = twin._core.F[3:7]
        if decision.arm in seen:
            continue
        seen.add(decision.arm)
        twin.tell(decision, loss=float(losses[decision.index]))
        after = np.array([arm.estimate for arm in twin.history().values()])
        grown += decision.probability * (after - np.array(list(before.values())))
        if len(seen) == 6:
            break
    assert len(seen) == 6
    assert grown - grown[0] == pytest.approx(losses - losses[0], abs=1e-9)


def test_estimates_are_weighted_by_the_probability_above_the_floor():
    """Unbiased over all arms; weighted by what the policy itself would draw from, they are not."""
    policy = bw.Floor(bw.TsallisINF(estimator="iw"), 0.3, power=0.0)
    bandit = bw.Bandit(policy, arms=4, seed=2)
    play(bandit, 200)
    bandit.ask()
    F, kernels = bandit._core.F.copy(), policy.kernels()
    drawn = np.zeros(4)
    kernels.weights(F, drawn)
    own = (drawn - 0.3 / 4) / 0.7
    losses = np.array([0.2, 0.9, 0.4, 0.7])
    first = bandit._core.start + policy.traits.head_rows

    def grown(p):
        total = np.zeros(4)
        for arm in range(4):
            told = F.copy()
            kernels.tell(told, arm, 1.0 / p[arm], losses[arm])
            total += drawn[arm] * (told - F)[first : first + 4]
        return total

    assert grown(drawn) == pytest.approx(losses, abs=1e-9)
    assert np.abs(grown(own) - losses).max() > 0.1


def test_late_feedback_and_files():
    policy = bw.Floor(bw.TsallisINF(), 0.5)
    bandit = bw.Bandit(policy, arms=3, seed=8)
    decisions = [bandit.ask() for _ in range(5)]
    for decision in reversed(decisions):
        bandit.tell(decision, loss=1.0 if decision.index else 0.0)
    expected = [decision.arm for decision in _asked(bandit.copy(), 20)]
    for twin in (pickle.loads(pickle.dumps(bandit)), copy.deepcopy(bandit)):
        assert [decision.arm for decision in _asked(twin, 20)] == expected
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert copy.deepcopy(policy) == policy


def _asked(bandit, n):
    return [bandit.ask() for _ in range(n)]


def test_state_files_hold_the_floor(tmp_path):
    bandit = bw.Bandit(bw.Floor(bw.Exp3(), 0.3, 0.25), arms=["a", "b"], seed=8)
    play(bandit, 100, means=(0.2, 0.8))
    bandit.save(tmp_path / "bandit.json")
    again = bw.Bandit.load(tmp_path / "bandit.json")
    assert again.policy == bandit.policy
    assert [d.arm for d in _asked(again, 50)] == [d.arm for d in _asked(bandit, 50)]


def test_many_arms():
    bandit = bw.Bandit(bw.Floor(bw.TsallisINF(), 0.5), arms=600, seed=1)
    for decision in play(bandit, 100, means=np.linspace(0, 1, 600)):
        assert decision.probability >= 0.5 * decision.round ** (-1 / 3) / 600 * (1 - 1e-12)


def test_arms_come_and_go():
    bandit = bw.Bandit(bw.Floor(bw.TsallisINF(), 0.5), arms=["a", "b"], seed=1)
    play(bandit, 50)
    bandit.add_arm("c")
    bandit.retire_arm("a")
    assert sorted(bandit.ask(available=["b", "c"]).probabilities) == ["b", "c"]


def test_it_prints_as_its_constructor():
    assert repr(bw.Floor(bw.Exp3(), 0.5)) == "Floor(Exp3(), 0.5)"
    assert repr(bw.Floor(bw.Exp3(), 1, power=0)) == "Floor(Exp3(), 1.0, power=0.0)"
    assert eval("bw." + repr(bw.Floor()).replace("T", "bw.T", 1)) == bw.Floor()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tsallis",), "The policy of Floor must be a policy such as TsallisINF"),
        ((bw.ThompsonSampling(),), "must be one that draws from known probabilities"),
        ((bw.UCB1(),), "must be one that draws from known probabilities, got UC"),
        ((bw.Exp3(), -0.1), "The scale of Floor must be a finite number >= 0, got -0.1"),
        ((bw.Exp3(), math.inf), "The scale of Floor must be a finite number >= 0, got inf"),
        ((bw.Exp3(), True), "The scale of Floor must be a finite number >= 0, got True"),
        ((bw.Exp3(), 0.5, 2), r"The power of Floor must be a number in \[0, 1\], got 2"),
        ((bw.Exp3(), 0.5, math.nan), r"The power of Floor must be a number in \[0, 1\], got nan"),
        ((bw.Sparring(bw.Exp3()),), "The policy of Floor must be a policy such as TsallisINF"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        bw.Floor(*arguments)
