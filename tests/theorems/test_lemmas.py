"""Lemmas 11 to 20: stability and penalty on paths and random weights, then the small ones.

Each lemma comes with a setting that must break it where its conditions matter.

Left and right sides are exact up to rounding, so the tolerances below are roundings, not noise.
Rounding grows with the potentials, which are of order K / (eta xi).
"""

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bothworlds import omd
from bothworlds.errors import InvalidParameter
from bothworlds.theory import lemmas
from bothworlds.theory.lemmas import (
    decompose,
    estimates_by_arm,
    penalty_terms,
    stability_terms,
)
from bothworlds.theory.potential import (
    deformed_log,
    gradient,
    maximiser,
    potential,
    regulariser,
)

GAPS = np.array([0.0, 0.2, 0.4, 0.7])
K = GAPS.size
T = 300
t = np.arange(1.0, T + 1.0)


def reference_weights(L, eta, alpha, xi):
    """Solve for the weights by bisection, sharing nothing with the package."""
    x = eta * xi

    def w_at(y):
        if alpha == 1.0:
            return np.exp(-x * (L - y))
        return (1 + (1 - alpha) * x * (L - y)) ** (-1 / (1 - alpha))

    high = L.min()
    reach = math.log(K) if alpha == 1.0 else (K ** (1 - alpha) - 1) / (1 - alpha)
    low = (L - reach / x).min()
    for _ in range(100):
        middle = (low + high) / 2
        if w_at(middle).sum() >= 1:
            high = middle
        else:
            low = middle
    w = w_at(high)
    return w / w.sum()


def path(estimator, rates, alpha=0.5, xi=None):
    """Play Bernoulli losses with the given gaps; return weights, losses, arms and estimates."""
    return _path(estimator, tuple(rates), alpha, tuple(np.ones(K) if xi is None else xi))


@functools.cache
def _path(estimator, rates, alpha, xi):
    rng = np.random.default_rng(0)
    xi = np.array(xi)
    losses = (rng.random((T, K)) < 0.15 + GAPS).astype(float)
    weights, estimates, arms = np.empty((T, K)), np.empty((T, K)), np.empty(T, dtype=int)
    L = np.zeros(K)
    for s in range(T):
        w = reference_weights(L, rates[s], alpha, xi)
        arm = rng.choice(K, p=w)
        baseline = 0.5 * (w >= rates[s] ** 2) if estimator == "rv" else np.zeros(K)
        guess = baseline.copy()
        guess[arm] += (losses[s, arm] - baseline[arm]) / w[arm]
        weights[s], estimates[s], arms[s] = w, guess, arm
        L = L + guess
    return weights, losses, arms, estimates


def theorem_4(alpha):
    """Give the rate and the asymmetry of Theorem 4, divided so that eta xi <= 1/4 soon holds."""
    xi = np.where(GAPS > 0, GAPS, 0.2) ** (1 - 2 * alpha)
    late = np.maximum(math.e, t)
    rise = np.log(late) if alpha == 1.0 else (1 - late ** (alpha - 1)) / (1 - alpha)
    return 16**alpha / 4 * rise / t**alpha, xi


SYMMETRIC = {
    "iw": (2 / np.sqrt(t), (1, 2)),
    "rv": (4 / np.sqrt(t), (3,)),
}
ASYMMETRIC = (0.0, 0.3, 0.5, 0.7, 1.0)


def holds(check, rounding=1e-11):
    return bool(np.all((check.lhs <= check.rhs + rounding)[check.applies]))


# ---- Lemma 11 -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("estimator", SYMMETRIC)
def test_stability_on_symmetric_paths(estimator):
    rates, parts = SYMMETRIC[estimator]
    weights, losses, _, _ = path(estimator, rates)
    estimates = estimates_by_arm(weights, losses, rates, estimator)
    for part in parts:
        check = stability_terms(weights, losses, estimates, rates, part)
        assert holds(check)
        # eta <= 1 from round 4 with 2/sqrt(t) and from round 16 with 4/sqrt(t).
        assert np.count_nonzero(~check.applies) == {1: 0, 2: 3, 3: 15}[part]
        assert np.all(check.lhs >= -1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", ASYMMETRIC)
def test_stability_on_asymmetric_paths(alpha):
    rates, xi = theorem_4(alpha)
    weights, losses, _, _ = path("iw", rates, alpha, xi)
    estimates = estimates_by_arm(weights, losses, rates, "iw")
    first = stability_terms(weights, losses, estimates, rates, 1, alpha=alpha, xi=xi)
    assert np.all(first.applies) and holds(first)
    for excluded in range(K):
        for printed in (False, True):
            last = stability_terms(
                weights,
                losses,
                estimates,
                rates,
                4,
                alpha=alpha,
                xi=xi,
                excluded=excluded,
                printed=printed,
            )
            assert holds(last)
    assert alpha > 0.9 or np.count_nonzero(last.applies) > 100


@st.composite
def moments(draw, top=1.0):
    """Draw weights down to 1e-6, losses and a rate for one round."""
    n_arms = draw(st.integers(2, 7))
    logits = draw(st.lists(st.floats(-13, 0), min_size=n_arms, max_size=n_arms))
    w = np.exp(np.array(logits))
    loss = draw(st.lists(st.floats(0, 1), min_size=n_arms, max_size=n_arms))
    return (w / w.sum())[None], np.array(loss)[None], np.array([draw(st.floats(1e-3, top))])


@given(moments(), st.sampled_from([("iw", 2), ("rv", 3)]))
def test_stability_of_parts_2_and_3_anywhere(moment, case):
    (w, loss, eta), (estimator, part) = moment, case
    check = stability_terms(w, loss, estimates_by_arm(w, loss, eta, estimator), eta, part)
    assert check.applies[0] and holds(check, 1e-13 * w.size / eta[0])


@given(moments(top=30.0), st.floats(0, 1))
def test_stability_of_part_1_anywhere(moment, alpha):
    w, loss, eta = moment
    estimates = estimates_by_arm(w, loss, eta, "iw")
    check = stability_terms(w, loss, estimates, eta, 1, alpha=alpha)
    assert check.applies[0] and holds(check, 1e-13 * w.size / eta[0])


def test_the_deformed_logarithm_runs_into_the_logarithm():
    x = np.array([1e-300, 0.3, 7.0])
    for a in (5e-324, -5e-324, 1e-310, 1e-295, 1e-280, 1e-30):
        np.testing.assert_allclose(deformed_log(x, a), np.log(x), rtol=1e-14)
    assert abs(deformed_log(x, 0.1) / np.log(x) - 1).min() > 0.01


@given(moments(), st.floats(0, 1), st.data())
def test_stability_of_part_4_anywhere(moment, alpha, data):
    w, loss, eta = moment
    factors = st.lists(st.floats(0.02, 1), min_size=w.size, max_size=w.size)
    xi = np.array(data.draw(factors))
    eta = eta / 4
    check = stability_terms(
        w, loss, estimates_by_arm(w, loss, eta, "iw"), eta, 4, alpha=alpha, xi=xi
    )
    assert check.applies[0] and holds(check, 1e-13 * w.size / (eta[0] * xi.min()))


def test_a_baseline_on_the_played_arm_only_breaks_stability():
    # The rates of Theorem 1 from round ten thousand on.
    rates = 4 / np.sqrt(10_000 + t)
    weights, losses, _, _ = path("rv", rates)
    estimates = estimates_by_arm(weights, losses, rates, "rv")
    assert holds(stability_terms(weights, losses, estimates, rates, 3))
    broken = stability_terms(weights, losses, estimates * np.eye(K), rates, 3)
    assert broken.applies.all() and np.all(broken.lhs > broken.rhs + 0.1)
    # The cause is bias: in the mean the estimates miss a part of the losses.
    mean = np.einsum("tp,tpi->ti", weights, estimates)
    biased = np.einsum("tp,tpi->ti", weights, estimates * np.eye(K))
    assert np.allclose(mean, losses) and not np.allclose(biased, losses)


def test_a_baseline_without_threshold_breaks_stability():
    # One arm far below eta^2 and without loss: its estimate jumps to -1/(2w) when it is played.
    w, loss, eta = np.array([[1e-5, 1 - 1e-5]]), np.array([[0.0, 1.0]]), np.array([0.05])
    within = stability_terms(w, loss, estimates_by_arm(w, loss, eta, "rv"), eta, 3)
    assert holds(within)
    unbounded = 0.5 + ((loss - 0.5) / w)[:, :, None] * np.eye(2)
    without = stability_terms(w, loss, unbounded, eta, 3)
    assert without.lhs[0] > 10 * without.rhs[0]


# ---- Lemma 12 -------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", SYMMETRIC)
@pytest.mark.parametrize("best", range(K))
def test_penalty_on_symmetric_paths(estimator, best):
    rates, _ = SYMMETRIC[estimator]
    weights, _, _, estimates = path(estimator, rates)
    first = penalty_terms(weights, estimates, rates, 1, best=best)
    assert np.all(first.applies) and holds(first, 1e-10)
    for exponent in (1.0, 2.0, math.inf):
        second = penalty_terms(weights, estimates, rates, 2, best=best, exponent=exponent)
        assert np.all(second.applies) and holds(second, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", (0.0, 0.3, 0.7, 1.0))
@pytest.mark.parametrize("estimator", ("iw", "rv"))
def test_penalty_on_asymmetric_paths(alpha, estimator):
    _, xi = theorem_4(alpha)
    rates = 1 / np.sqrt(t)
    weights, _, _, estimates = path(estimator, rates, alpha, xi)
    for exponent in (1.0, 1.5, math.inf):
        if alpha == 0.0 and math.isinf(exponent):
            continue
        for best in range(K):
            check = penalty_terms(
                weights,
                estimates,
                rates,
                2,
                best=best,
                alpha=alpha,
                xi=xi,
                exponent=exponent,
            )
            assert np.all(check.applies) and holds(check, 1e-10)


def test_any_arm_can_be_left_out_of_a_symmetric_penalty():
    # Theorem 1 leaves out the zero of Delta, the lemma the best arm; with x infinite and xi = 1
    # the regulariser is the same at every vertex, so the bound holds crosswise.
    rates, _ = SYMMETRIC["rv"]
    weights, _, _, estimates = path("rv", rates)
    sides = [penalty_terms(weights, estimates, rates, 2, best=j) for j in range(K)]
    for compared in sides:
        for left_out in sides:
            assert np.all(compared.lhs <= left_out.rhs + 1e-10)


def test_rising_rates_break_the_penalty_bound():
    rates = 0.01 * np.sqrt(t)
    weights, _, _, estimates = path("iw", rates)
    check = penalty_terms(weights, estimates, rates, 1, best=0)
    assert not check.applies[1:].any()
    assert np.max(check.lhs - check.rhs) > 1.0


def test_the_rates_of_theorem_4_rise_below_alpha_0_64():
    weights = np.full((T, K), 1 / K)
    for alpha, falls in ((0.0, False), (0.5, False), (0.64, False), (0.65, True), (1.0, True)):
        rates, xi = theorem_4(alpha)
        check = penalty_terms(
            weights, np.zeros((T, K)), rates, 2, best=0, alpha=alpha, xi=xi, exponent=1.0
        )
        assert bool(check.applies.all()) is falls


# ---- decomposition --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ("iw", "rv"))
@pytest.mark.parametrize("alpha", ASYMMETRIC)
def test_regret_is_stability_plus_penalty(estimator, alpha):
    rates, xi = theorem_4(alpha)
    weights, losses, arms, estimates = path(estimator, rates, alpha, xi)
    parts = decompose(weights, losses, arms, estimates, rates, best=0, alpha=alpha, xi=xi)
    assert np.allclose(parts.stability + parts.penalty, parts.regret, rtol=0, atol=1e-10)
    assert np.array_equal(parts.regret, losses[np.arange(T), arms] - losses[:, 0])
    # Weights that are not the maximiser are noticed.
    stale = np.vstack([weights[:1], weights[:-1]])
    wrong = decompose(stale, losses, arms, estimates, rates, best=0, alpha=alpha, xi=xi)
    assert np.max(np.abs(wrong.stability + wrong.penalty - wrong.regret)) > 1e-4


def test_the_parts_add_up_to_the_theorem():
    # Regret on the path, by the lemmas' right sides, in the form the proof of Theorem 1 sums them.
    rates, _ = SYMMETRIC["iw"]
    weights, losses, arms, estimates = path("iw", rates)
    parts = decompose(weights, losses, arms, estimates, rates, best=0)
    by_arm = estimates_by_arm(weights, losses, rates, "iw")
    stability = stability_terms(weights, losses, by_arm, rates, 1).rhs.sum()
    assert stability <= 2 * math.sqrt(K * T)
    penalty = penalty_terms(weights, estimates, rates, 2, best=0).rhs[-1]
    unbiased = parts.penalty.sum() + losses[:, 0].sum() - estimates[:, 0].sum()
    assert unbiased <= penalty <= 2 * math.sqrt(K * T) + 1.5 * math.sqrt(K)


# ---- the numbers themselves -----------------------------------------------------------------


@pytest.mark.parametrize("alpha", ASYMMETRIC)
def test_the_solver_of_the_lemmas_agrees_with_that_of_the_policies(alpha):
    rng = np.random.default_rng(0)
    L = rng.random((20, K)) * rng.choice([1.0, 100.0, 1e4], size=(20, 1))
    eta = rng.choice([0.01, 0.3, 4.0], size=20)
    for xi in (np.ones(K), np.array([0.1, 1.0, 3.0, 0.5])):
        mine = maximiser(L, eta, alpha, xi)
        theirs = [omd.weights(L[s], eta[s], alpha=alpha, xi=xi) for s in range(20)]
        assert np.allclose(mine, theirs, rtol=1e-11, atol=0)


def test_stability_by_hand():
    # Two even arms, alpha = 1, eta = 1, the first loses: played (half the time) its estimate is 2.
    # Phi = log of the sum of exp(-L), up to a constant, so the rise is log((e^-2 + 1)/2).
    w, loss, eta = [[0.5, 0.5]], [[1.0, 0.0]], [1.0]
    check = stability_terms(w, loss, estimates_by_arm(w, loss, eta, "iw"), eta, 1, alpha=1.0)
    expected = 0.5 * (1 + math.log((math.exp(-2) + 1) / 2))
    assert check.lhs[0] == pytest.approx(expected, abs=1e-14)
    assert check.rhs[0] == 1.0


def test_right_sides_of_stability_by_hand():
    # Weights 9/16, 4/16 and 3/16 have the roots 3/4, 1/2 and sqrt(3)/4.
    w, loss, eta = np.array([[9, 4, 3]]) / 16, np.array([[1.0, 0.5, 0.0]]), [0.2]
    guess = estimates_by_arm(w, loss, eta, "iw")
    spread = 3 / 4 * 7 / 16 + 1 / 2 * 3 / 4 + math.sqrt(3) / 4 * 13 / 16
    second = stability_terms(w, loss, guess, eta, 2)
    assert second.rhs[0] == pytest.approx(0.2**2 / 2 + 0.1 * spread)
    third = stability_terms(w, loss, guess, eta, 3)
    assert third.rhs[0] == pytest.approx(7 / 8 * 0.04 * 3 + 0.025 * spread)
    # Part 4 at alpha = 1/2 without arm 1: xi = (1, 1/2, 1/4), so eta/2 = 0.1 times
    # (1 * 3/4 + (1/2 + 2 * 1) * 9/16) + (1/4 * sqrt(3)/4 + (1/2 + 2 * 1/4) * 3/16).
    arguments = {"xi": [1.0, 0.5, 0.25], "excluded": 1}
    fourth = stability_terms(w, loss, guess, eta, 4, **arguments)
    first_arm, last_arm = 3 / 4 + 2.5 * 9 / 16, math.sqrt(3) / 16 + 1.0 * 3 / 16
    assert fourth.rhs[0] == pytest.approx(0.1 * (first_arm + last_arm))
    # Printed, the brackets are 1 + 2 * 1/2 and 1/4 + 2 * 1/2.
    printed = stability_terms(w, loss, guess, eta, 4, printed=True, **arguments)
    first_arm, last_arm = 3 / 4 + 2.0 * 9 / 16, math.sqrt(3) / 16 + 1.25 * 3 / 16
    assert printed.rhs[0] == pytest.approx(0.1 * (first_arm + last_arm))


def test_parts_2_and_3_are_nearly_attained():
    # Even weights, all losses 1 and a small rate: no smaller leading constant would do.
    w, loss, eta = np.full((1, 2), 0.5), np.ones((1, 2)), np.array([1e-4])
    for estimator, part in (("iw", 2), ("rv", 3)):
        check = stability_terms(w, loss, estimates_by_arm(w, loss, eta, estimator), eta, part)
        assert 0.99 * check.rhs[0] < check.lhs[0] <= check.rhs[0]


def test_penalty_by_hand():
    # The same round seen from the second arm: Phi falls by -log((e^-2 + 1)/2), Lhat is 0 there.
    # Part 1 at T = 1: no spread yet, and u is uniform, which slips by 1.
    w, guess = [[0.5, 0.5]], [[2.0, 0.0]]
    check = penalty_terms(w, guess, [1.0], 1, best=1, alpha=1.0)
    assert check.lhs[0] == pytest.approx(-math.log((math.exp(-2) + 1) / 2), abs=1e-14)
    assert check.rhs[0] == pytest.approx(1.0)
    # Part 2 with x infinite: w (1 - log w) of the other arm, at 1/2.
    check = penalty_terms(w, guess, [1.0], 2, best=1, alpha=1.0)
    assert check.rhs[0] == pytest.approx(0.5 * (1 + math.log(2)), abs=1e-14)
    # Two rounds at alpha = 1/2, best arm 1, xi = (1, 2, 4): 4 (sqrt(w) - w/2)/xi of arms 0 and 2,
    # times 1/eta_1 = 1 in round 1 and times 1/eta_2 - 1/eta_1 = 1 in round 2.
    w, guess, rates = np.array([[9, 4, 3], [4, 9, 3]]) / 16, np.zeros((2, 3)), [1.0, 0.5]
    check = penalty_terms(w, guess, rates, 2, best=1, xi=[1.0, 2.0, 4.0])
    last_arm = (math.sqrt(3) / 4 - 3 / 32) / 4
    paid = np.cumsum([3 / 4 - 9 / 32 + last_arm, 1 / 2 - 4 / 32 + last_arm])
    assert check.rhs == pytest.approx(4 * paid)


@settings(max_examples=30)
@given(moments())
def test_limits_in_alpha_are_continuous(moment):
    w, loss, eta = moment
    estimates = estimates_by_arm(w, loss, eta, "iw")
    for end, near in ((0.0, 1e-12), (1.0, 1 - 1e-12)):
        one, other = (stability_terms(w, loss, estimates, eta, 1, alpha=a) for a in (end, near))
        rounding = 1e-9 + 1e-13 * w.size / eta[0]
        assert np.allclose(one.lhs, other.lhs, rtol=0, atol=rounding)
        assert np.allclose(one.rhs, other.rhs, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda w, x, e: stability_terms(w, x, e, [1.0], 5), "part"),
        (lambda w, x, e: stability_terms(w, x, e, [1.0], 2, alpha=0.4), "alpha"),
        (lambda w, x, e: stability_terms(w, x, e, [0.0], 1), "rates"),
        (lambda w, x, e: stability_terms(w, x, w, [1.0], 1), "estimates"),
        (lambda w, x, e: stability_terms([[0.5, 0.6]], x, e, [1.0], 1), "weights"),
        (lambda w, x, e: stability_terms(w, x, e, [1.0], 4, excluded=2), "excluded"),
        (lambda w, x, e: stability_terms(w, x, e, [1.0], 4, xi=[1, 0]), "xi"),
        (lambda w, x, e: penalty_terms(w, x, [1.0], 1, best=0, xi=[1, 2]), "xi"),
        (lambda w, x, e: penalty_terms(w, x, [1.0], 2, best=0, alpha=0.0), "exponent"),
        (lambda w, x, e: penalty_terms(w, x, [1.0], 2, best=0, exponent=0.5), "exponent"),
        (lambda w, x, e: decompose(w, x, [2], x, [1.0], best=0), "arms"),
        (lambda w, x, e: decompose(w, x, [0], x, [1.0], best=-1), "best"),
    ],
)
def test_errors_name_the_parameter(call, parameter):
    w, loss = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])
    with pytest.raises(InvalidParameter, match=f"^The {parameter} of "):
        call(w, loss, estimates_by_arm(w, loss, [1.0], "iw"))


# ---- Lemmas 13 to 20 ------------------------------------------------------------------------

ROUNDING = 1 + 1e-12


def test_lemma_13_roots_and_their_differences():
    t = np.arange(2.0, 1e6)
    terms = np.sqrt(t) - np.sqrt(t - 1) - 0.5 / np.sqrt(t)
    # Every term is at most (t - 1)^(-3/2) / 8, so those left out sum to at most this.
    rest = 0.25 / math.sqrt(t[-1] - 1)
    assert terms.sum() + rest <= 0.25
    assert terms.sum() > 0.2


@given(
    y=st.floats(1e-3, 1e9),
    x=st.tuples(st.floats(1e-6, 5.0), st.floats(1e-6, 5.0)).map(sorted),
)
def test_lemma_14_the_logarithm_as_a_limit(y, x):
    smaller, larger = (-math.expm1(-each * math.log(y)) / each for each in x)
    slack = 1e-9 * (1 + abs(smaller))
    assert larger <= smaller + slack
    assert smaller <= min(1 / x[0], math.log(y)) + slack
    assert -math.expm1(-1e-12 * math.log(y)) / 1e-12 == pytest.approx(math.log(y), rel=1e-6)


@given(c=st.floats(0.01, 10.0), margin=st.floats(1.001, 20.0), first=st.integers(1, 500))
def test_lemma_15_the_sum_after_the_first_rounds(c, margin, first):
    b = margin * c / math.sqrt(first)
    t = np.arange(first + 1.0, first + 50_000)
    assert np.sum(1 / (b * t**1.5 - c * t)) <= ROUNDING * 2 / (b * math.sqrt(first) - c)


@given(alpha=st.floats(0.0, 1.0), z=st.floats(1.0, 1e12))
def test_lemma_16_powers_of_the_logarithm(alpha, z):
    b = 1.0 - alpha
    left = math.log(z) if b == 0 else -math.expm1(-b * math.log(z)) / b
    assert left <= ROUNDING * math.log(z) ** alpha + 1e-12


def moved(w, loss, step, alpha):
    """Return the gradient step of Lemma 17: w~ = (w^(alpha - 1) + (1 - alpha) step loss)^..."""
    if alpha == 1.0:
        return w * np.exp(-step * loss)
    return (w ** (alpha - 1) + (1 - alpha) * step * loss) ** (1 / (alpha - 1))


@given(
    w=st.floats(1e-6, 1.0),
    loss=st.floats(-1.0, 100.0),
    step=st.floats(1e-6, 0.25),
    alpha=st.floats(0.0, 1.0),
)
def test_lemma_17_weights_at_most_double(w, loss, step, alpha):
    power = 2 - alpha
    assert moved(w, loss, step, alpha) ** power <= ROUNDING * 2 * w**power


def test_lemma_17_needs_small_rates():
    assert moved(1.0, -1.0, 0.5, 0.0) ** 2 > 2


@given(eta=st.floats(0.01, 4.0), below=st.floats(1e-3, 50.0), w=st.floats(0.0, 100.0))
def test_lemma_18_the_conjugate_at_one_half(eta, below, w):
    Y = 2 / eta - below
    conjugate = 2 / eta / (1 - eta * Y / 2)

    def value(point):
        return point * (Y - 2 / eta) + 4 / eta * math.sqrt(point)

    best = (1 - eta * Y / 2) ** -2
    assert value(best) == pytest.approx(conjugate, rel=1e-9)
    assert value(w) <= conjugate * (1 + 1e-9)


def stability(w, hat, eta):
    """Return <w, hat> + Phi(-L - hat) - Phi(-L) at alpha = 1/2, where w is the step at L."""
    ones = np.ones(w.shape[-1])
    L = -gradient(w, 0.5, ones) / eta
    rate = np.asarray(eta)
    after = potential(L + hat, rate, 0.5, ones) - potential(L, rate, 0.5, ones)
    return float(w @ hat + after)


def test_lemma_19_stability_at_one_half():
    rng = np.random.default_rng(19)
    cubic_needed = 0
    for _ in range(500):
        w = rng.dirichlet(np.full(rng.integers(2, 9), 0.5)) + 1e-9
        w /= w.sum()
        eta = rng.uniform(0.05, 4.0)
        hat = rng.normal(size=w.size) * rng.uniform(0.1, 10.0)
        # As large as the lemma allows, or less.
        highest = np.min(hat + 1 / (eta * np.sqrt(w)))
        x = highest - rng.choice([0.0, rng.uniform(0.0, 5.0)])
        quadratic = np.sum(eta / 2 * w**1.5 * (hat - x) ** 2)
        cubic = np.sum(eta**2 / 2 * w**2 * np.maximum(x - hat, 0.0) ** 3)
        left = stability(w, hat, eta)
        assert left <= quadratic + cubic + 1e-9 * (1 + abs(left))
        cubic_needed += left > quadratic
    assert cubic_needed > 0


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_lemma_20_the_penalty_telescopes(alpha):
    rng = np.random.default_rng(20)
    T, K = 40, 5
    xi = rng.uniform(0.5, 2.0, K)
    eta = 2 / np.sqrt(np.arange(1, T + 1))
    after = np.cumsum(rng.normal(size=(T, K)), axis=0)
    before = np.vstack([np.zeros(K), after[:-1]])
    left = np.sum(potential(before, eta, alpha, xi) - potential(after, eta, alpha, xi))
    w = maximiser(before, eta, alpha, xi)
    for _ in range(20):
        u, v = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K))
        Psi_u, Psi_v, Psi_w = (regulariser(p, alpha, xi) for p in (u, v, w))
        right = (Psi_v - Psi_w[0]) / eta[0]
        right += np.sum(np.diff(1 / eta) * (Psi_v - Psi_w[1:]))
        right += (Psi_u - Psi_v) / eta[-1] + u @ after[-1]
        assert left <= right + 1e-9
    # At u the maximiser of the last potential nothing but the earlier rounds is lost.
    last = maximiser(after[-1:], eta[-1:], alpha, xi)[0]
    right = -Psi_w[0] / eta[0] - np.sum(np.diff(1 / eta) * Psi_w[1:])
    right += regulariser(last, alpha, xi) / eta[-1] + last @ after[-1]
    assert left <= right + 1e-9


# --- soft baselines ----------------------------------------------------------------------------


def soft_stability(w, g, eta):
    """Return max over v of (w - v) g - D(v, w) for the potential -(4 / eta) sqrt(w), on a grid."""
    # Close to the maximiser sqrt(v) = sqrt(w) / (1 + y) the grid is fine enough for 1e-9.
    centre = np.sqrt(w) / (1.0 + eta * g * np.sqrt(w) / 2.0)
    v = (centre * np.linspace(0.99, 1.01, 20_001)) ** 2
    divergence = 4.0 / eta * (np.sqrt(w) - np.sqrt(v)) + 2.0 / (eta * np.sqrt(w)) * (v - w)
    return float(((w - v) * g - divergence).max())


@pytest.mark.parametrize("largest", [0.2, 0.5, 0.8, 1.0])
def test_soft_baselines_have_their_stability_factor(largest):
    rng = np.random.default_rng(5)
    factor = lemmas.soft_stability_factor(largest)
    worst = 0.0
    for _ in range(400):
        w, eta = 10.0 ** rng.uniform(-6, 0), 10.0 ** rng.uniform(-3, 0)
        base = min(largest, max(0.5, largest) * np.sqrt(w) / eta)
        g = (rng.random() - base) / w if rng.random() < 0.5 else -base / w
        found = soft_stability(w, g, eta)
        plain = eta / 2.0 * w**1.5 * g * g
        y = eta * g * np.sqrt(w) / 2.0
        assert found == pytest.approx(plain / (1.0 + y), rel=1e-6)
        worst = max(worst, found / plain)
    assert worst <= factor * (1.0 + 1e-6)
    # Sharp where the baseline is bound by the weight.
    assert worst >= 0.99 * factor


def test_a_baseline_that_ignores_the_weight_has_a_larger_factor():
    """The negative control: 1/2 for an arm that is too far for it."""
    eta, base = 0.5, 0.5
    w = (eta * base / 1.8) ** 2
    g = -base / w
    found = soft_stability(w, g, eta) / (eta / 2.0 * w**1.5 * g * g)
    assert found == pytest.approx(10.0, rel=1e-6)
    assert found > lemmas.soft_stability_factor()
