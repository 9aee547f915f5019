"""Bounds together: lower bounds and competitors by hand, limits, order, guarantees, refusals.

What one theorem or corollary states is tested in its own file of tests/theorems.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothworlds.errors import InvalidParameter
from bothworlds.policies import KLUCB, UCB1, Broad, Exp3, TsallisINF, Uniform
from bothworlds.theory import bounds

ESTIMATORS = ("rv", "iw")

horizons = st.floats(1.0, 1e12)
arm_counts = st.integers(2, 2000)
alphas = st.floats(0.0, 1.0)
gap_lists = st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=12).map(lambda d: [0.0, *d])
amounts = st.floats(0.0, 1e9)
estimators = st.sampled_from(ESTIMATORS)


# ---- points worked out by hand --------------------------------------------------------------


def test_lai_robbins_by_hand():
    # kl(9/16, 7/16) = (9/16) log(9/7) + (7/16) log(7/9) = (1/8) log(9/7).
    expected = 7 * (1 / 8) / ((1 / 8) * math.log(9 / 7)) * math.log(1e5)
    assert bounds.lai_robbins([7 / 16, *7 * [9 / 16]], 1e5) == pytest.approx(expected)
    # kl(1, 1/2) = log 2, and copies of the best arm are free.
    assert bounds.lai_robbins([0.5, 1.0, 0.5], math.e) == pytest.approx(0.5 / math.log(2))
    # An arm that never loses is recognised at no asymptotic cost.
    assert bounds.lai_robbins([0.0, 0.5], 1e5) == 0.0


def test_minimax_by_hand():
    constant = (math.sqrt(2) - 1) / math.sqrt(32 * math.log(4 / 3))
    assert bounds.minimax(9, 100) == pytest.approx(constant * 30)
    # The article: the leading constant 2 is within a factor of 15.
    assert 14 < 2 / constant < 15
    # With one round among a thousand arms no adversary can take more than 1 - 1/K.
    assert bounds.minimax(1000, 1) == pytest.approx(1 - 2 / 2000)


def test_asymptotic_factor_tends_to_the_stated_limits():
    for estimator, limit in (("rv", 2.0), ("iw", 8.0)):
        assert bounds.asymptotic_factor(estimator=estimator) == limit
        near = [bounds.asymptotic_factor([0.5, 0.5 + d], estimator) for d in (1e-2, 1e-4, 1e-6)]
        assert near[0] > near[1] > near[2] > limit
        assert near[2] == pytest.approx(limit, rel=1e-3)
    assert bounds.asymptotic_factor([0.0, 0.5]) == math.inf


def test_competitors_by_hand():
    assert bounds.exp3(2, 100) == pytest.approx(2 * math.sqrt(200 * math.log(2)))
    # c = 1.5: 6 log(T)/D + 3 for each suboptimal arm.
    expected = 6 * math.log(100) * (2 + 4) + 2 * 3
    assert bounds.ucb1([0, 0.5, 0, 0.25], 100) == pytest.approx(expected)
    assert bounds.ucb1([0, 0.5], 100, c=2) == pytest.approx(8 * math.log(100) * 2 + 2)


# ---- limits, shapes, order ------------------------------------------------------------------


@given(arm_counts, st.sampled_from([1.0, 2.0, 3.0, 1e3, 1e9]), gap_lists)
def test_limits_in_alpha_are_continuous(n_arms, horizon, gaps):
    for end, near in ((0.0, 1e-12), (1.0, 1.0 - 1e-12)):
        assert bounds.general_adversarial(near, n_arms, horizon) == pytest.approx(
            bounds.general_adversarial(end, n_arms, horizon), rel=1e-9
        )
        assert bounds.general_stochastic(near, gaps, horizon) == pytest.approx(
            bounds.general_stochastic(end, gaps, horizon), rel=1e-9
        )


ALL = {
    "adversarial": lambda T: bounds.adversarial(5, T),
    "self_bounding": lambda T: bounds.self_bounding([0, 0.1, 0.3], T, 40.0),
    "corrupted": lambda T: bounds.corrupted([0, 0.1, 0.3], T, 200.0, "iw"),
    "general_adversarial": lambda T: bounds.general_adversarial(1, 5, T),
    "general_stochastic": lambda T: bounds.general_stochastic(0.3, [0, 0.1, 0.3], T),
    "dueling_stochastic": lambda T: bounds.dueling_stochastic([0, 0.1, 0.3], T),
    "dueling_adversarial": lambda T: bounds.dueling_adversarial(5, T),
    "lai_robbins": lambda T: bounds.lai_robbins([0.2, 0.4], T),
    "minimax": lambda T: bounds.minimax(50, T),
    "exp3": lambda T: bounds.exp3(5, T),
    "ucb1": lambda T: bounds.ucb1([0, 0.1, 0.3], T),
}


@pytest.mark.parametrize("name", ALL)
def test_every_bound_takes_one_horizon_or_many(name):
    times = np.array([[1, 2, 30], [10**3, 10**6, 10**9]])
    together = ALL[name](times)
    assert together.shape == times.shape
    assert isinstance(ALL[name](7), float)
    for T, value in zip(times.flat, together.flat, strict=True):
        assert ALL[name](int(T)) == value
    assert np.all(np.diff(together.ravel()) >= 0)


@given(arm_counts, horizons, horizons, alphas, estimators)
def test_adversarial_bounds_grow_with_horizon_and_arms(n_arms, one, other, alpha, estimator):
    low, high = sorted((one, other))
    assert bounds.adversarial(n_arms, low, estimator) <= bounds.adversarial(n_arms, high, estimator)
    assert bounds.adversarial(n_arms, low, estimator) < bounds.adversarial(
        n_arms + 1, low, estimator
    )
    assert bounds.general_adversarial(alpha, n_arms, low) <= bounds.general_adversarial(
        alpha, n_arms + 1, high
    )


@given(gap_lists, horizons, amounts, estimators, alphas)
def test_the_proved_bound_is_never_below_the_printed_one(gaps, horizon, C, estimator, alpha):
    for name, arguments in (
        ("adversarial", (len(gaps), horizon, estimator)),
        ("self_bounding", (gaps, horizon, C, estimator)),
        ("corrupted", (gaps, horizon, C, estimator)),
        ("general_stochastic", (alpha, gaps, horizon)),
        ("dueling_stochastic", (gaps, horizon, estimator)),
        ("dueling_adversarial", (len(gaps), horizon, estimator)),
    ):
        bound = getattr(bounds, name)
        assert bound(*arguments) >= bound(*arguments, printed=True) * (1 - 1e-12)


def test_printed_differs_exactly_where_the_errata_say():
    def differs(name, *arguments):
        bound = getattr(bounds, name)
        return bound(*arguments) != bound(*arguments, printed=True)

    gaps = [0, 0.25, 0.5]
    assert differs("adversarial", 3, 1000, "rv") and not differs("adversarial", 3, 1000, "iw")
    assert differs("self_bounding", gaps, 1000, 0.0, "iw")
    assert not differs("self_bounding", gaps, 1000, 0.0, "rv")
    assert differs("general_stochastic", 0.5, gaps, 1000)


@given(arm_counts, horizons, st.floats(1e-3, 0.5))
def test_upper_bounds_are_above_lower_bounds(n_arms, horizon, gap):
    for estimator in ESTIMATORS:
        assert bounds.adversarial(n_arms, horizon, estimator) > bounds.minimax(n_arms, horizon)
    means = [0.5] + (n_arms - 1) * [0.5 + gap]
    gaps = [0.0] + (n_arms - 1) * [gap]
    lowest = bounds.lai_robbins(means, horizon)
    assert bounds.self_bounding(gaps, horizon) > lowest
    assert bounds.ucb1(gaps, horizon) > lowest


# ---- guarantee ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mine:
    pass


GAPS = (0.0, 0.5, 0.25)


def ask(policy, **changes):
    question = {"n_arms": 3, "horizon": 10**6, **changes}
    return bounds.guarantee(policy, **question)


def test_guarantee_takes_the_smallest_applicable_bound():
    alone = ask(TsallisINF())
    assert (alone.value, alone.theorem) == (
        bounds.adversarial(3, 10**6),
        "Theorem 1 (adversarial)",
    )
    fixed = ask(TsallisINF(), gaps=GAPS)
    assert fixed.theorem == "Theorem 1 (self-bounding)"
    assert fixed.value == bounds.self_bounding(GAPS, 10**6) < alone.value
    some = ask(TsallisINF(), gaps=GAPS, corruption=50)
    assert some.theorem == "Corollary 1"
    assert some.value == bounds.corrupted(GAPS, 10**6, 50)
    # Much corruption or few rounds, and the adversarial bound is better.
    assert ask(TsallisINF(), gaps=GAPS, corruption=10**6).theorem == "Theorem 1 (adversarial)"
    early = ask(TsallisINF(estimator="iw"), gaps=GAPS, horizon=10)
    assert early.value == bounds.adversarial(3, 10, "iw")


def test_guarantee_away_from_one_half():
    assert ask(TsallisINF(0.7, "iw")).value == bounds.general_adversarial(0.7, 3, 10**6)
    assert ask(TsallisINF(0.7, "iw"), gaps=GAPS).theorem == "Theorem 3"
    assert "true gaps" in ask(TsallisINF(0.7, "iw"), gaps=GAPS).reason
    oracle = ask(TsallisINF(0.7, "iw", gaps=GAPS), gaps=GAPS)
    assert oracle.theorem == "Theorem 4"
    assert oracle.value == bounds.general_stochastic(0.7, GAPS, 10**6)
    # At 1/2 the gaps do not enter the regulariser, so wrong ones do no harm.
    assert ask(TsallisINF(0.5, "iw", gaps=(0.0, 1.0, 1.0)), gaps=GAPS).theorem == "Theorem 4"


def test_guarantee_of_competitors():
    assert ask(Exp3()).value == bounds.exp3(3, 10**6)
    assert ask(UCB1(), gaps=GAPS).value == bounds.ucb1(GAPS, 10**6)
    assert ask(UCB1(c=2.0), gaps=GAPS).value == bounds.ucb1(GAPS, 10**6, c=2.0)


@pytest.mark.parametrize(
    ("policy", "changes", "reason"),
    [
        (TsallisINF(learning_rate=0.1), {"gaps": GAPS}, "learning rate"),
        (TsallisINF(alpha=0.7), {"gaps": GAPS}, "importance weighting"),
        (TsallisINF(0.7, "rv", gaps=GAPS), {"gaps": GAPS}, "importance weighting"),
        (TsallisINF(0.7, "iw", gaps=GAPS), {}, "fixed gaps"),
        (TsallisINF(0.7, "iw", gaps=GAPS), {"gaps": (0.0, 0.5, 0.5)}, "true gaps"),
        (TsallisINF(0.7, "iw", gaps=GAPS), {"gaps": (0.0, 0.0, 0.5)}, "unique best arm"),
        (TsallisINF(0.7, "iw", gaps=GAPS), {"gaps": GAPS, "corruption": 1}, "corrupted"),
        (UCB1(), {}, "adversaries"),
        (UCB1(), {"gaps": GAPS, "corruption": 1}, "corrupted"),
        (UCB1(c=1.0), {"gaps": GAPS}, "larger than 1"),
        (Mine(), {}, "Mine"),
        (type("UCB1", (), {})(), {"gaps": GAPS}, "no result of the article covers the policy UCB1"),
        (type("Other", (UCB1,), {})(), {"gaps": GAPS}, "the policy Other"),
        (KLUCB(), {}, "asymptotic"),
        (Broad(horizon=10), {}, "BROAD's regret only"),
        (Uniform(), {}, "grows linearly"),
    ],
)
def test_no_guarantee_and_why(policy, changes, reason):
    answer = ask(policy, **changes)
    assert answer.value is None and answer.theorem is None
    assert reason in answer.reason


def test_two_best_arms_leave_the_adversarial_bound():
    answer = ask(TsallisINF(), gaps=(0.0, 0.0, 0.5))
    assert answer.theorem == "Theorem 1 (adversarial)"
    assert "unique best arm" in answer.reason


# ---- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: bounds.adversarial(1, 10),
            "The n_arms of adversarial must be an integer of at least 2, got 1.",
        ),
        (
            lambda: bounds.adversarial(2.5, 10),
            "The n_arms of adversarial must be an integer of at least 2, got 2.5.",
        ),
        (
            lambda: bounds.exp3(2, math.nan),
            "The horizon of exp3 must be a number of rounds, or an array of them, at least 1, "
            "got nan.",
        ),
        (
            lambda: bounds.adversarial(2, 10, "ix"),
            'The estimator of adversarial must be "rv" or "iw", got \'ix\'.',
        ),
        (
            lambda: bounds.self_bounding([0, 0, 0.5], 10),
            "The gaps of self_bounding must be a vector of two or more gaps in [0, 1] with "
            "exactly one zero, got [0, 0, 0.5].",
        ),
        (
            lambda: bounds.corrupted([0, 0.5], 10, -1),
            "The corruption of corrupted must be a finite number of at least 0, got -1.",
        ),
        (
            lambda: bounds.general_stochastic(1.5, [0, 0.5], 10),
            "The alpha of general_stochastic must be a number in [0, 1], got 1.5.",
        ),
        (
            lambda: bounds.lai_robbins([0.5, 0.5], 10),
            "The means of lai_robbins must be a vector of two or more mean losses in [0, 1], "
            "not all equal, got [0.5, 0.5].",
        ),
        (
            lambda: bounds.ucb1([0, 0.5], 10, c=1),
            "The c of ucb1 must be larger than 1, got 1.",
        ),
        (
            lambda: bounds.guarantee(Mine(), n_arms=3, horizon=[1, 2]),
            "The horizon of guarantee must be a single number of rounds, got [1, 2].",
        ),
        (
            lambda: bounds.guarantee(Mine(), n_arms=3, horizon=10, gaps=[0, 0.5]),
            "The gaps of guarantee must be a vector of n_arms = 3 gaps, got [0, 0.5].",
        ),
    ],
)
def test_errors_are_one_sentence(call, sentence):
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "gaps",
    [[0.5, 0.25], [0], [], 0.0, [[0, 0.5]], [0, -0.1], [0, 1.1], [0, math.nan], "ab", [0, None]],
)
def test_bad_gaps_are_refused(gaps):
    for call in (
        lambda: bounds.self_bounding(gaps, 10),
        lambda: bounds.corrupted(gaps, 10, 1.0),
        lambda: bounds.general_stochastic(0.5, gaps, 10),
        lambda: bounds.dueling_stochastic(gaps, 10),
        lambda: bounds.ucb1(gaps, 10),
    ):
        with pytest.raises(InvalidParameter, match="The gaps of"):
            call()


@pytest.mark.parametrize("horizon", [0, -5, math.inf, "ten", None, True, [10, 0], [1, [2]]])
def test_bad_horizons_are_refused(horizon):
    for call in (
        lambda: bounds.adversarial(2, horizon),
        lambda: bounds.self_bounding([0, 0.5], horizon),
        lambda: bounds.general_adversarial(0.5, 2, horizon),
        lambda: bounds.minimax(2, horizon),
        lambda: bounds.lai_robbins([0.2, 0.4], horizon),
    ):
        with pytest.raises(InvalidParameter, match="The horizon of"):
            call()
