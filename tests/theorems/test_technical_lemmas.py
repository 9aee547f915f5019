"""The smaller lemmas of the paper, 13 to 20, in numbers, and where they would not hold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothworlds.theory.potential import gradient, maximiser, potential, regulariser

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
