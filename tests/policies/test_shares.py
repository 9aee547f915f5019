"""Traffic shares: exact probabilities between the smallest and the largest share of every arm."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.errors import InvalidParameter
from bothworlds.policies.shares import GROUPS, HIGH, LOW, P, limit

ARMS = 6
EPSILON = 2.0**-52


def limited(w, lo, hi):
    """Return p as the kernel computes it."""
    K = len(w)
    S = np.zeros(GROUPS * K)
    S[LOW * K : (LOW + 1) * K], S[HIGH * K : (HIGH + 1) * K] = lo, hi
    S[P * K :] = w
    total = limit(K, S, 0, 0.0)
    assert total == pytest.approx(1.0, abs=K * EPSILON)
    return S[P * K :].copy()


@st.composite
def cases(draw):
    """Draw a distribution and shares that some distribution can have."""
    K = draw(st.integers(2, ARMS))
    parts = st.floats(0.0, 1.0, allow_subnormal=False)
    some = np.array(draw(st.lists(parts, min_size=K, max_size=K)))
    w = some / some.sum() if some.sum() > 1e-3 else np.full(K, 1.0 / K)
    w = np.maximum(w, draw(st.sampled_from([0.0, 1e-12])))
    w /= w.sum()
    inside = np.array(draw(st.lists(parts, min_size=K, max_size=K))) + 1e-3
    inside /= inside.sum()
    down, up = (np.array(draw(st.lists(parts, min_size=K, max_size=K))) for _ in range(2))
    # Every distribution of this kind lies between its shares, so one exists.
    return w, inside * down, np.minimum(1.0, inside + up * (1.0 - inside))


@settings(deadline=None, max_examples=300)
@given(cases())
def test_the_limited_distribution_adds_up_and_keeps_every_share(case):
    w, lo, hi = case
    p = limited(w, lo, hi)
    assert math.fsum(p) == pytest.approx(1.0, abs=1e-15 * len(w))
    assert (p >= lo).all() and (p <= hi).all()
    # It mixes: no arm falls below its share of what is left, unless its largest share stops it.
    left = 1.0 - math.fsum(lo)
    assert (p >= np.minimum(hi, lo + left * w) - 4 * EPSILON).all()
    # The arms below their largest share divide the rest in proportion to w.
    free = (p < hi) & (w > 1e-9)
    if free.sum() > 1:
        rates = (p - lo)[free] / w[free]
        slack = 16 * EPSILON / w[free].min()
        assert rates == pytest.approx(np.full(rates.size, rates[0]), rel=1e-9, abs=slack)


@settings(deadline=None, max_examples=100)
@given(cases())
def test_without_a_share_that_binds_nothing_changes(case):
    w, _, _ = case
    K = w.size
    assert np.array_equal(limited(w, np.zeros(K), np.ones(K)), w)
    assert np.array_equal(limited(w, np.zeros(K), np.minimum(1.0, 2.0 * w + 0.1)), w)


@settings(deadline=None, max_examples=100)
@given(cases(), st.integers(0, ARMS - 1))
def test_more_weight_never_means_less_probability(case, arm):
    w, lo, hi = case
    arm %= w.size
    more = w.copy()
    more[arm] += 0.25
    before, after = limited(w, lo, hi), limited(more / more.sum(), lo, hi)
    assert after[arm] >= before[arm] - 8 * EPSILON


@pytest.mark.parametrize(
    ("w", "lo", "hi", "expected"),
    [
        # The mixture alone.
        ([0.5, 0.5], [0.2, 0.0], [1.0, 1.0], [0.6, 0.4]),
        # The rest goes to the others in proportion.
        ([0.8, 0.15, 0.05], [0, 0, 0], [0.5, 1, 1], [0.5, 0.375, 0.125]),
        # A second arm reaches its largest share because of the first.
        ([0.8, 0.15, 0.05], [0, 0, 0], [0.5, 0.3, 1], [0.5, 0.3, 0.2]),
        # A control arm.
        ([0.9, 0.05, 0.05], [0.1, 0, 0], [0.1, 1, 1], [0.1, 0.45, 0.45]),
        # The largest shares leave no choice.
        ([0.9, 0.1], [0, 0], [0.25, 0.75], [0.25, 0.75]),
        # The smallest shares leave none either.
        ([0.9, 0.1], [0.5, 0.5], [1, 1], [0.5, 0.5]),
        # Nothing is left of w: by the room between the shares.
        ([1.0, 0.0, 0.0], [0, 0, 0.2], [0.4, 0.2, 0.8], [0.4, 0.1, 0.5]),
        ([1.0, 1e-310, 0.0], [0, 0, 0], [0.4, 0.5, 0.5], [0.4, 0.3, 0.3]),
    ],
)
def test_what_becomes_of_a_distribution(w, lo, hi, expected):
    assert limited(np.array(w, float), lo, hi) == pytest.approx(expected, abs=1e-15)


# --- in a bandit ------------------------------------------------------------------------------

SHARES = {"min_share": [0.05, 0.1, 0.0], "max_share": [0.6, 1.0, 0.3]}
MEANS = (0.1, 0.5, 0.6)
LANES = bw.TsallisINF()
ALONE = bw.TsallisINF(alpha=0.3)


def play(bandit, rounds, seed=1):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rounds):
        decision = bandit.ask()
        bandit.tell(decision, loss=float(rng.random() < MEANS[decision.index]))
        made.append(decision)
    return made


@pytest.mark.parametrize("policy", [LANES, ALONE], ids=["lanes", "alone"])
@pytest.mark.parametrize("scale", [0.0, 0.4])
def test_every_decision_keeps_the_shares(policy, scale):
    bandit = bw.Bandit(bw.Floor(policy, scale, **SHARES), arms=["a", "b", "c"], seed=3)
    for decision in play(bandit, 300):
        p = np.array(list(decision.probabilities.values()))
        assert math.fsum(p) == pytest.approx(1.0, abs=4 * EPSILON)
        assert (p >= SHARES["min_share"]).all() and (p <= SHARES["max_share"]).all()
        assert decision.probability == pytest.approx(p[decision.index], rel=1e-15)
    assert bandit.probabilities()["a"] == 0.6


@pytest.mark.parametrize("policy", [LANES, bw.TsallisINF(estimator="iw")], ids=repr)
def test_estimates_are_unbiased(policy):
    """Over the arms, weighted by the probabilities they are drawn with."""
    policy = bw.Floor(policy, 0.0, **SHARES)
    bandit = bw.Bandit(policy, arms=3, seed=2)
    play(bandit, 60)
    bandit.ask()
    F, kernels = bandit._core.F.copy(), policy.kernels()
    p, losses = np.zeros(3), np.array([0.2, 0.9, 0.4])
    kernels.weights(F, p)
    first = bandit._core.start + policy.traits.head_rows
    grown = np.zeros(3)
    for arm in range(3):
        told = F.copy()
        kernels.tell(told, arm, 1.0 / p[arm], losses[arm])
        grown += p[arm] * (told - F)[first : first + 3]
    assert grown - grown[0] == pytest.approx(losses - losses[0], abs=1e-9)


def test_arms_are_drawn_as_often_as_their_probabilities_say():
    policy = bw.Floor(LANES, 0.0, max_share=0.5, control=1, control_share=0.2)
    bandit = bw.Bandit(policy, arms=3, seed=4)
    play(bandit, 200)
    bandit.freeze()
    n, p = 20_000, np.array(list(bandit.probabilities().values()))
    assert p == pytest.approx([0.5, 0.2, 0.3], abs=1e-15)
    counts = np.bincount([bandit.ask().index for _ in range(n)], minlength=3)
    assert np.abs(counts - n * p).max() < 4.5 * math.sqrt(n / 4)


def test_subsets_keep_the_shares_they_can():
    policy = bw.Floor(LANES, 0.0, **SHARES, control=1, control_share=0.4)
    bandit = bw.Bandit(policy, arms=["a", "b", "c"], seed=1)
    decision = bandit.ask(available=["a", "b"])
    assert dict(decision.probabilities) == pytest.approx({"a": 0.6, "b": 0.4}, abs=1e-15)
    before = bandit._core.F.copy()
    for available, why in (
        (["a", "c"], "the control arm is among them"),
        (["b", "c"], "max_share values of the arms add up to at least 1"),
    ):
        with pytest.raises(InvalidParameter, match=why):
            bandit.ask(available=available)
    assert np.array_equal(before, bandit._core.F)


def test_arms_come_and_go():
    bandit = bw.Bandit(bw.Floor(LANES, 0.0, **SHARES), arms=["a", "b", "c"], seed=1)
    play(bandit, 20)
    bandit.add_arm("d")
    p = bandit.probabilities()
    assert p["b"] >= 0.1 and p["c"] <= 0.3
    bandit.retire_arm("d")
    bandit.retire_arm("c")
    with pytest.raises(InvalidParameter, match="retire_arm must be such that of the other arms"):
        bandit.retire_arm("b")
    assert bandit.arms == ("a", "b")
    even = bw.Bandit(bw.Floor(LANES, 0.0, min_share=0.4), arms=2, seed=1)
    with pytest.raises(InvalidParameter, match="min_share values of the arms add up to at most 1"):
        even.add_arm("third")
    assert even.arms == (0, 1)
    loose = bw.Bandit(bw.Floor(LANES, 0.0, min_share=0.2), arms=2, seed=1)
    loose.add_arm("third", probability=0.01)
    assert loose.probabilities()["third"] >= 0.2


@pytest.mark.parametrize("policy", [LANES, ALONE], ids=["lanes", "alone"])
def test_late_feedback_copies_and_files(policy, tmp_path):
    policy = bw.Floor(policy, 0.3, **SHARES)
    bandit = bw.Bandit(policy, arms=3, seed=8)
    decisions = [bandit.ask() for _ in range(5)]
    for decision in reversed(decisions):
        bandit.tell(decision, loss=decision.index / 2)
    bandit.add_arm("new")
    bandit.save(tmp_path / "bandit.json")
    again = bw.Bandit.load(tmp_path / "bandit.json")
    others = [again, pickle.loads(pickle.dumps(bandit)), copy.deepcopy(bandit)]
    expected = [decision.arm for decision in (bandit.ask() for _ in range(20))]
    for other in others:
        assert other.policy == policy
        assert [decision.arm for decision in (other.ask() for _ in range(20))] == expected


def test_lanes_play_what_a_bandit_plays():
    """A tile of repetitions and one bandit have the same losses, so the same decisions."""
    world = bw.environments.Stochastic(MEANS)
    policy = bw.Floor(LANES, 0.0, **SHARES)
    runs = [
        bw.simulate({"x": policy}, world, horizon=300, repetitions=n, seed=5, progress=False)
        for n in (40, 1)
    ]
    assert runs[0].regret["x"][0, -1] == runs[1].regret["x"][0, -1]


def test_the_cost_is_what_the_shares_take():
    """Smallest shares of the worse arms cost their gaps; a largest share of the best one too."""
    world, T = bw.environments.Stochastic([0.2, 0.5, 0.7]), 2000
    policies = {
        "plain": LANES,
        "least": bw.Floor(LANES, 0.0, min_share=[0, 0.1, 0.1]),
        "most": bw.Floor(LANES, 0.0, max_share=[0.5, 1, 1]),
    }
    result = bw.simulate(policies, world, horizon=T, repetitions=64, seed=3, progress=False)
    final = {name: result.regret[name][:, -1] for name in policies}
    mean = {name: values.mean() for name, values in final.items()}
    error = 4 * max(values.std(ddof=1) / 8 for values in final.values())
    assert abs(mean["least"] - mean["plain"] - T * 0.1 * (0.3 + 0.5)) < error + mean["plain"]
    assert mean["least"] - mean["plain"] < T * 0.1 * (0.3 + 0.5) + error
    # Half of the rounds cannot go to the best arm; most of these find the second best.
    assert T * 0.5 * 0.3 < mean["most"] < T * 0.5 * 0.4


def test_the_guarantee_adds_the_price_of_the_shares():
    T, gaps, shares = 1000, [0.0, 0.2, 0.3], [0.0, 0.1, 0.1]
    asked = {"n_arms": 3, "horizon": T}
    inner = bw.TsallisINF(estimator="iw")
    alone = bw.bounds.guarantee(inner, **asked).value
    policy = bw.Floor(inner, 0, min_share=shares)
    priced = bw.bounds.guarantee(policy, **asked, gaps=gaps)
    assert priced.value == pytest.approx(alone + T * 0.1 * (0.2 + 0.3))
    assert "Theorem 1" in priced.theorem and "share" in priced.reason
    # Without gaps, or with corrupted ones, an arm can cost its whole share.
    for more in ({}, {"gaps": gaps, "corruption": 1.0}):
        found = bw.bounds.guarantee(policy, **asked, **more)
        assert found.value == pytest.approx(alone + T * (0.1 + 0.1 - 0.0))
    even = bw.bounds.guarantee(bw.Floor(inner, 0.3, 0), **asked, gaps=gaps)
    assert even.value == pytest.approx(alone + T * 0.1 * (0.2 + 0.3))
    world = bw.environments.Stochastic([0.3, 0.5, 0.6])
    played = bw.simulate({"x": policy}, world, horizon=T, repetitions=16, seed=2, progress=False)
    assert T * 0.05 * 0.9 < played.regret["x"][:, -1].mean() < priced.value
    for other, why in (
        (bw.Floor(inner, 0, max_share=0.9), "largest share below 1"),
        (bw.Floor(inner, 0.5), "the floor changes with the rounds"),
        (bw.Floor(LANES, 0, min_share=0.1), "only importance weighting"),
        (bw.Floor(bw.HTINF(scale=1.0), 0, min_share=0.1), "only importance weighting"),
    ):
        found = bw.bounds.guarantee(other, **asked)
        assert found.value is None and why in found.reason


def test_shares_by_the_names_of_arms(tmp_path):
    named = bw.Floor(LANES, 0, min_share={"b": 0.1}, max_share={"a": 0.6}, control="c")
    by_place = bw.Floor(LANES, 0, min_share=[0, 0.1, 0], max_share=[0.6, 1, 1], control=2)
    one, other = (bw.Bandit(each, arms=["a", "b", "c"], seed=3) for each in (named, by_place))
    assert [each.arm for each in play(one, 50)] == [each.arm for each in play(other, 50)]
    assert one.probabilities() == other.probabilities()
    one.save(tmp_path / "bandit.json")
    again = bw.Bandit.load(tmp_path / "bandit.json")
    assert again.policy == one.policy == named
    one.add_arm("d")
    assert one.probabilities()["c"] == 0.1
    shown = "Floor(TsallisINF(), 0.0, min_share={'b': 0.1}, max_share={'a': 0.6}, control='c')"
    assert repr(named) == shown
    assert np.array_equal(bw.Floor(LANES, 0, min_share={1: 0.1}).limits(2)[0], [0.0, 0.1])
    for wrong, why in (
        ({"min_share": {"x": 0.1}}, "min_share of Floor must be for one of the arms 'a', 'b', got"),
        ({"control": "x"}, "control of Floor must be one of the arms 'a', 'b', got 'x'"),
        ({"min_share": {"a": 0.9}, "control": "b", "control_share": 0.2}, "add up to at most 1"),
    ):
        with pytest.raises(InvalidParameter, match=why):
            bw.Bandit(bw.Floor(LANES, 0, **wrong), arms=["a", "b"])
    with pytest.raises(InvalidParameter, match="min_share of Floor must be for one of the arms 0"):
        bw.simulate(
            {"x": named}, bw.environments.Stochastic(MEANS), horizon=9, repetitions=1,
            progress=False,
        )  # fmt: skip


def test_it_prints_as_its_constructor():
    policy = bw.Floor(bw.Exp3(), 0, min_share=0.1, max_share=[1, 0.5], control=1)
    shown = "Floor(Exp3(), 0.0, min_share=0.1, max_share=(1.0, 0.5), control=1)"
    assert repr(policy) == shown
    assert eval(shown, {"Floor": bw.Floor, "Exp3": bw.Exp3}) == policy
    assert pickle.loads(pickle.dumps(policy)) == copy.deepcopy(policy) == policy
    assert bw.Floor(LANES, 0, min_share=0, max_share=1) is LANES


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"min_share": -0.1}, r"The min_share of Floor must be a number in \[0, 1\], got -0.1"),
        ({"min_share": "a"}, r"The min_share of Floor must be a number in \[0, 1\], one for each"),
        ({"min_share": {"a": 2}}, r"The min_share of Floor must be a number in \[0, 1\], got 2"),
        ({"min_share": {None: 0.1}}, "or a mapping from arms to such numbers, got"),
        ({"max_share": [0.5, 2]}, r"The max_share of Floor must be a number in \[0, 1\], one for"),
        ({"min_share": [0.6, 0.6]}, "min_share values of the arms add up to at most 1"),
        ({"max_share": [0.4, 0.4]}, "max_share values of the arms add up to at least 1"),
        ({"min_share": [0.3, 0], "max_share": [0.2, 1]}, "most the max_share of the same arm, 0.2"),
        ({"control": -1}, "control of Floor must be the place of an arm, from 0, its name, or No"),
        ({"control": True}, "The control of Floor must be the place of an arm"),
        ({"control": 0, "control_share": 1.5}, r"The control_share of Floor must be a number in"),
    ],
)  # fmt: skip
def test_bad_arguments(options, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        bw.Floor(LANES, 0, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"min_share": [0.1, 0.1]}, "min_share of Floor must be a number, or one for each of 3"),
        ({"min_share": 0.4}, "min_share values of the arms add up to at most 1"),
        ({"max_share": 0.3}, "max_share values of the arms add up to at least 1"),
        ({"control": 3}, "The control of Floor must be the place of one of 3 arms, got 3"),
    ],
)
def test_shares_that_do_not_fit_the_arms(options, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        bw.Bandit(bw.Floor(LANES, 0, **options), arms=3)


@pytest.mark.parametrize("around", [bw.Discounted, bw.Alarmed, bw.Floor])
def test_shares_come_last(around):
    with pytest.raises(InvalidParameter, match="must be one without shares, a floor and alarms"):
        around(bw.Floor(LANES, 0, min_share=0.1))
    assert bw.Floor(bw.Discounted(LANES), 0, min_share=0.1).limited


def test_experts_take_no_shares():
    with pytest.raises(InvalidParameter, match="policy of AdvisedBandit must be one without share"):
        bw.AdvisedBandit(bw.Floor(LANES, 0, min_share=0.1), arms=2, experts=2)


@pytest.mark.parametrize(
    ("options", "floored"),
    [
        ({"min_share": 0.1}, True),
        ({"scale": 0.5, "max_share": 0.9}, True),
        ({"max_share": 0.9}, False),
        ({"min_share": [0.5, 0.5, 0.0], "scale": 0.5}, False),
        ({"control": 0, "control_share": 0.0, "scale": 0.5}, False),
        ({"min_share": {"a": 0.1}}, False),
        ({"min_share": {"a": 0.1}, "scale": 0.5}, True),
    ],
)
def test_intervals_need_probabilities_that_cannot_vanish(options, floored):
    assert bw.Floor(LANES, **{"scale": 0.0, **options}).traits.floored is floored
