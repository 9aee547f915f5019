"""Every policy of the package passes every check that applies to it."""

import pytest

import bothworlds as bw
from bothworlds.checks import check_policy
from bothworlds.omd import InverseSqrt
from helpers.bandits import registered

GAPS = [0.25, 0.0, 0.1, 0.4]

POLICIES = [
    *registered(2_000),
    bw.TsallisINF(alpha=0.0),
    bw.TsallisINF(alpha=0.3),
    bw.TsallisINF(alpha=1.0, estimator="iw"),
    bw.TsallisINF(gaps=GAPS),
    bw.TsallisINF(alpha=0.7, gaps=GAPS),
    bw.TsallisINF(learning_rate=0.1),
    bw.TsallisINF(alpha=0.8, learning_rate=InverseSqrt(1.0)),
    bw.Exp3PlusPlus(rate="published"),
    bw.Floor(bw.TsallisINF(estimator="iw"), 0.2, power=0.0),
    bw.Floor(bw.TsallisINF(alpha=0.7), 0.5),
    bw.Floor(bw.Exp3(), 0.5),
    bw.Floor(bw.Exp3PlusPlus(), 0.5),
    bw.Floor(bw.Broad(horizon=2_000), 0.5),
    bw.Floor(bw.TsallisINFV(), 0.5),
    bw.Floor(bw.LBINFV(horizon=2_000), 0.5),
    bw.Floor(bw.AdaTINF(horizon=2_000), 0.5),
    bw.TsallisINFV(prior=8.0),
    bw.LBINFV(horizon=2_000, prediction="gd"),
    bw.HTINF(scale=0.5, skip="both"),
    bw.HTINF(scale=0.5, skip="both", tail=1.5),
    bw.Restarted(bw.ThompsonSampling(), every=70),
    bw.Restarted(bw.Floor(bw.TsallisINF(alpha=0.3), 0.5), every=60),
    bw.Discounted(bw.Exp3PlusPlus(), window=50),
    bw.Discounted(bw.TsallisINFV(), window=50),
    bw.Discounted(bw.LBINFV(horizon=2_000), window=200),
    bw.Discounted(bw.HTINF(scale=0.5), window=50),
    bw.Discounted(bw.TsallisINF(estimator="iw"), window=50),
    bw.Discounted(bw.TsallisINF(estimator="soft"), window=50),
    bw.Floor(bw.TsallisINF(estimator="soft"), 0.5),
    bw.TsallisINF(alpha=0.8, estimator="soft"),
    bw.Discounted(bw.TsallisINF(alpha=0.3, estimator="soft"), window=50),
    bw.Restarted(bw.TsallisINFV(), every=60),
    bw.Alarmed(bw.TsallisINF(estimator="soft")),
    bw.Alarmed(bw.Broad(horizon=2_000)),
    bw.Alarmed(bw.UCB1(), floor=0),
    bw.Alarmed(bw.Exp3(), restart=False),
]

NO_ESTIMATES = {"unbiased_estimates", "shift_invariance"}
ONE_BY_ONE = {"lanes"}
NO_PROBABILITIES = {"simplex", "frequencies"}


def not_applicable(policy):
    """Return the checks that have nothing to look at, by what the policy is."""
    return (
        (set() if policy.traits.estimates else NO_ESTIMATES)
        | (set() if policy.kernels().wide else ONE_BY_ONE)
        | (set() if policy.traits.knows_probability else NO_PROBABILITIES)
        | (set() if policy.traits.unbiased else {"unbiased_estimates"})
        | (set() if policy.traits.order_invariant else {"delayed_feedback"})
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_policy_passes_every_check(policy):
    skip = ["better_than_uniform"] if isinstance(policy, bw.Uniform) else []
    report = check_policy(policy, skip=skip)
    idle = {o.name for o in report if o.status == "not applicable"}
    assert idle == not_applicable(policy) | {"functions"}
    assert [o.name for o in report if o.status == "skipped"] == skip


@pytest.mark.slow
def test_the_smallest_and_a_larger_number_of_arms():
    slow = ["constant_losses", "better_than_uniform"]
    for n_arms in (2, 37):
        for policy in (bw.TsallisINF(), bw.TsallisINF(alpha=0.3), bw.Exp3PlusPlus(), bw.UCB1()):
            check_policy(policy, n_arms=n_arms, seed=1, skip=slow)
