"""The OMD step against a high-precision reference, and what keeps its Newton iteration safe."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf
from numba import njit

import bothworlds as bw
from bothworlds.errors import InvalidParameter
from bothworlds.omd import asymmetric, double_double, symmetric
from bothworlds.omd.step import solve, weights
from bothworlds.omd.tsallis import distance

PROMISE = 1e-12
SMALLEST = 1e-290
ALPHAS = [0.0, 1.0, 0.5, 1e-300, 1e-17, 1e-9, 0.1, 0.3, 0.49, 0.51, 0.7, 0.9, 0.999]
ALPHAS += [1 - 1e-9, 1 - 1e-16]
NO_XI = np.empty(0)


def reference(losses, eta, alpha, xi=None, counts=None, digits=60):
    """The weights at `digits` digits: bisection to the root's size, then Newton from the left.

    An entry of `counts` says how many arms share that loss.
    """
    with mpmath.workdps(digits):
        b = 1 - mpf(alpha)
        low = mpf(min(losses))
        d = [mpf(eta) * (mpf(loss) - low) for loss in losses]
        xi = [mpf(1)] * len(d) if xi is None else [mpf(x) for x in xi]
        counts = [1] * len(d) if counts is None else counts

        def at(z):
            s = [x * (y + z) for x, y in zip(xi, d, strict=True)]
            return [(1 + b * y) ** (-1 / b) for y in s] if b else [mpmath.exp(-y) for y in s]

        def excess(w):
            return mpmath.fsum(n * x for n, x in zip(counts, w, strict=True)) - 1

        if sum(counts) == 1:
            return [mpf(1)]
        even = (mpf(sum(counts)) ** b - 1) / b if b else mpmath.log(sum(counts))
        right = 2 * max(even / x - y for x, y in zip(xi, d, strict=True))
        left = right
        while excess(at(left)) <= 0:
            left /= 2**16
            if left < right * mpf(10) ** -digits:
                return at(mpf(0))
        right = min(right, left * 2**17)
        while right > 1.5 * left:
            middle = mpmath.sqrt(left * right)
            left, right = (middle, right) if excess(at(middle)) > 0 else (left, middle)
        z = left
        for _ in range(100):
            w = at(z)
            q = [x / (1 + b * x * (y + z)) for x, y in zip(xi, d, strict=True)]
            slope = mpmath.fsum(n * x * y for n, x, y in zip(counts, w, q, strict=True))
            step = excess(w) / slope
            z += step
            if abs(step) * max(q) < mpf(10) ** -25:
                return at(z)
    raise AssertionError("the reference did not converge")


def relative_error(w, expected):
    """The largest relative error among weights inside the promise; smaller ones must be small."""
    assert np.all(np.isfinite(w)) and np.all(w >= 0)
    worst = 0.0
    for x, y in zip(w.tolist(), expected, strict=True):
        if y >= SMALLEST:
            worst = max(worst, float(abs(x - y) / y))
        else:
            assert x < 2 * SMALLEST
    return worst


@st.composite
def instances(draw, decades=None):
    n_arms = draw(st.integers(1, 12))
    alpha = draw(st.sampled_from(ALPHAS) | st.floats(0, 1))
    eta = draw(st.sampled_from([1e-9, 1.0, 1e3]) | st.floats(-9, 3).map(lambda x: 10**x))
    spread = 10 ** draw(st.floats(-12, 12))
    unit = st.floats(0, 1) | st.integers(0, 2).map(lambda n: n / 2)
    wide = st.floats(-15, 0).map(lambda x: 10**x)
    # The regime where weights are neither 0 nor 1, whatever the rate.
    tuned = st.floats(-3, 3).map(lambda x: 10**x / eta / spread)
    loss = draw(st.sampled_from([unit, wide, tuned]))
    offset = draw(st.sampled_from([0.0, 1e12, -1e12]) | st.floats(-1e12, 1e12))
    shape = draw(st.lists(loss, min_size=n_arms, max_size=n_arms))
    losses = np.minimum(np.array(shape) * spread, 1e12) + offset
    if decades is None:
        return losses, eta, alpha
    reach = draw(st.sampled_from([1, decades / 4, decades]))
    powers = st.lists(st.floats(-reach, reach), min_size=n_arms, max_size=n_arms)
    return losses, eta, alpha, 10.0 ** np.array(draw(powers))


def random_instances(rng, count, sizes, decades):
    for _ in range(count):
        n_arms = int(rng.choice(sizes))
        alpha = float(rng.choice(ALPHAS)) if rng.random() < 0.7 else float(rng.random())
        s = [
            10 ** rng.uniform(-6, 12, n_arms),
            10 ** rng.uniform(-3, rng.uniform(0, 8), n_arms),
            rng.random(n_arms) ** rng.uniform(0.1, 20) * 10 ** rng.uniform(-3, 12),
            n_arms ** (rng.random(n_arms) * rng.uniform(0.2, 3)) * rng.uniform(0.1, 10),
            np.where(rng.random(n_arms) < 10 ** rng.uniform(-4, 0), 0, 10 ** rng.uniform(-2, 6)),
            rng.integers(0, 3, n_arms) * 10 ** rng.uniform(-3, 12),
        ][rng.integers(6)].astype(float)
        if rng.random() < 0.5:
            s[rng.integers(n_arms)] = 0.0
        xi = 10 ** rng.uniform(-decades, decades, n_arms) if decades else NO_XI
        yield s, xi, alpha


# --- exactness -----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=500)
@given(instances())
def test_symmetric_weights_are_exact(instance):
    w = weights(*instance)
    assert relative_error(w, reference(*instance)) <= PROMISE
    assert abs(math.fsum(w) - 1) <= PROMISE


@pytest.mark.slow
@settings(max_examples=500)
@given(instances(decades=20))
def test_asymmetric_weights_are_exact(instance):
    w = weights(*instance)
    assert relative_error(w, reference(*instance, digits=120)) <= PROMISE
    assert abs(math.fsum(w) - 1) <= PROMISE


@pytest.mark.slow
@pytest.mark.parametrize("decades", [0, 1, 5, 20])
def test_random_instances_are_exact(decades):
    rng = np.random.default_rng(100 + decades)
    for s, xi, alpha in random_instances(rng, 150, [2, 3, 8, 20], decades):
        eta = 10 ** rng.uniform(-6, 3)
        losses = np.minimum(s / eta, 1e12) + rng.choice([0.0, 1e12, -1e12])
        factors = xi if decades else None
        w = weights(losses, eta, alpha, factors)
        assert relative_error(w, reference(losses, eta, alpha, factors, digits=120)) <= PROMISE


@pytest.mark.slow
@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_corners_of_the_promise(alpha):
    for eta in (1e-9, 1e3):
        for offset in (0.0, 1e12, -1e12):
            for spread in (1e-3, 1.0, 1e12):
                losses = offset + spread * np.array([0.0, 0.25, 0.25, 1.0, 0.0, 0.0, 1e-9])
                w = weights(losses, eta, alpha)
                assert relative_error(w, reference(losses, eta, alpha)) <= PROMISE
                assert abs(math.fsum(w) - 1) <= PROMISE


@pytest.mark.slow
@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_million_arms(alpha):
    # A leader over 1e6 tied arms: what rounding does to all small weights alike comes back
    # 500 times larger in the leader's at alpha = 0. Then levels over six decades.
    for levels, counts in (
        ([0.0, 1.0], [1, 10**6 - 1]),
        ([0.0, 1e-3, 1.0, 10.0, 1e3, 1e6], [1, 9, 90, 900, 9000, 990000]),
        ([0.0, 0.5, 2.0], [500000, 499999, 1]),
    ):
        for eta in (1.0, 1000.0) if len(levels) == 2 else (0.37,):
            losses = np.repeat(np.array(levels) + 1e9, counts)
            w = weights(losses, eta, alpha)
            expected = reference(np.array(levels) + 1e9, eta, alpha, counts=counts)
            first = np.concatenate([[0], np.cumsum(counts)[:-1]])
            assert relative_error(w[first], expected) <= PROMISE
            assert abs(math.fsum(w) - 1) <= PROMISE
            assert all(np.ptp(part) == 0 for part in np.split(w, first[1:]))


@pytest.mark.slow
def test_a_million_arms_with_factors():
    levels, counts, xi = [0.0, 0.5, 1.0, 4.0], [1, 999, 99000, 900000], [0.3, 2.0, 1.0, 30.0]
    for alpha in (0.0, 0.3, 1.0):
        w = weights(np.repeat(levels, counts), 2.0, alpha, np.repeat(xi, counts))
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        expected = reference(levels, 2.0, alpha, xi, counts)
        assert relative_error(w[first], expected) <= PROMISE
        assert abs(math.fsum(w) - 1) <= PROMISE


# Heavy arms fill the simplex by coincidence while a light one with a large xi reads off the rest.
COINCIDENCES = [
    ([0.0, math.log(2) - 1e-8, math.log(2) - 1e-8], 1.0, 1.0, [1e10, 1.0, 1.0]),
    ([0.0, 0.6933874362541 - 1e-8, 0.6933874362541 - 1e-8], 1.0, 0.999, [1e10, 1.0, 1.0]),
    ([0.0, 2 * math.sqrt(2) - 2 - 1e-6, 2 * math.sqrt(2) - 2 - 1e-6], 1.0, 0.5, [1e12, 1.0, 1.0]),
    ([0.0, 1.0 - 1e-9, 1.0 - 1e-9], 1.0, 0.0, [1e22, 1.0, 1.0]),
    ([0.0, 1e10 * math.log(2), 0.0], 1.0, 1.0, [3.0, 1e-10, 1e-20]),
]


def plain_root(losses, eta, alpha, xi):
    """Bisection on the sum in plain doubles: exact to rounding of the sum, no more."""
    L, xi, b = np.array(losses), np.array(xi), 1 - alpha
    d = eta * (L - L.min())

    def at(z):
        s = xi * (d + z)
        return np.exp(-s) if b == 0 else np.exp(-np.log1p(b * s) / b)

    left, right = 1e-30, float(np.max(distance(math.log(L.size), b) / xi))
    for _ in range(400):
        middle = math.sqrt(left) * math.sqrt(right)
        left, right = (middle, right) if at(middle).sum() > 1 else (left, middle)
    return at(left)


@pytest.mark.parametrize("instance", COINCIDENCES)
def test_ill_conditioned_roots_are_exact_where_plain_doubles_are_not(instance):
    expected = reference(*instance, digits=120)
    assert relative_error(weights(*instance), expected) <= PROMISE
    assert relative_error(plain_root(*instance), expected) > 10 * PROMISE


@given(st.floats(-30, 2.8), st.sampled_from([-1.0, 1.0]), st.floats(-1, 1))
def test_double_double_functions(power, sign, tail):
    x = sign * 10**power
    tail *= 1e-17 * x
    with mpmath.workdps(60):
        pairs = [(double_double.expm1, mpmath.expm1)]
        pairs += [(double_double.exp, mpmath.exp)] if x > -600 else []
        pairs += [(double_double.log1p, mpmath.log1p)] if x > 0 else []
        for ours, theirs in pairs:
            expected = theirs(mpf(x) + mpf(tail))
            hi, lo = ours(x, tail)
            assert abs((mpf(hi) + mpf(lo) - expected) / expected) < 1e-28


# --- closed forms and symmetries -----------------------------------------------------------------


@given(st.floats(1e-4, math.pi / 4), st.floats(-9, 3))
def test_two_arms_at_one_half(angle, power):
    # w = (cos^2, sin^2) belongs to L_2 - L_1 = (2/eta) (1/sin - 1/cos).
    eta = 10**power
    gap = 2 / eta * (1 / math.sin(angle) - 1 / math.cos(angle))
    expected = [math.cos(angle) ** 2, math.sin(angle) ** 2]
    assert weights([0.0, gap], eta) == pytest.approx(expected, rel=1e-13)


def test_golden_ratio_at_zero():
    # 1/(1 + z) + 1/(2 + z) = 1 has z = (sqrt 5 - 1)/2.
    golden = (math.sqrt(5) - 1) / 2
    assert weights([7.0, 9.0], 0.5, 0.0) == pytest.approx([golden, 1 - golden], rel=1e-15)


@given(instances())
def test_softmax_at_one(instance):
    losses, eta, _ = instance
    x = np.exp(-eta * (losses - losses.min()))
    assert weights(losses, eta, 1.0) == pytest.approx(x / x.sum(), rel=1e-13, abs=1e-300)


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=9), st.integers(-(10**6), 10**6))
def test_shifting_all_losses_changes_nothing(losses, shift):
    for alpha in (0.0, 0.3, 0.5, 1.0):
        shifted = weights([x + shift for x in losses], 0.1, alpha)
        assert np.array_equal(weights(losses, 0.1, alpha), shifted)


@pytest.mark.slow
@given(instances(decades=3), st.randoms(use_true_random=False))
def test_permuting_arms_permutes_weights_and_order_is_kept(instance, random):
    losses, eta, alpha, xi = instance
    order = list(range(losses.size))
    random.shuffle(order)
    assert weights(losses[order], eta, alpha, xi[order]) == pytest.approx(
        weights(losses, eta, alpha, xi)[order], rel=PROMISE, abs=SMALLEST
    )
    w = weights(losses, eta, alpha)
    assert weights(losses[order], eta, alpha) == pytest.approx(w[order], rel=1e-13, abs=SMALLEST)
    ranked = w[np.argsort(losses, kind="stable")]
    assert np.all(np.diff(ranked) <= 1e-15 * ranked[:-1])


@given(instances())
def test_a_larger_loss_gives_less_weight(instance):
    losses, eta, alpha = instance
    before = weights(losses, eta, alpha)
    losses[-1] += 1 / eta
    after = weights(losses, eta, alpha)
    assert after[-1] <= before[-1] * (1 + PROMISE)
    assert np.all(after[:-1] >= before[:-1] * (1 - PROMISE))


@given(st.lists(st.floats(0, 5), min_size=2, max_size=6), st.booleans())
def test_the_limits_in_alpha_are_continuous(losses, asymmetric_too):
    xi = np.linspace(0.5, 2.0, len(losses)) if asymmetric_too else None
    for limit, near in ((0.0, 1e-13), (1.0, 1 - 1e-13)):
        expected = weights(losses, 1.0, limit, xi)
        assert weights(losses, 1.0, near, xi) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_equal_factors_only_scale_the_rate(alpha):
    losses = [3.0, 0.0, 1.0, 0.0]
    scaled = weights(losses, 1.5, alpha)
    assert weights(losses, 0.5, alpha, [3.0] * 4) == pytest.approx(scaled, rel=1e-14)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_rate_zero_gives_the_minimiser_of_the_regulariser(alpha):
    losses = [3.0, -1e12, 1.0]
    assert weights(losses, 0.0, alpha) == pytest.approx([1 / 3] * 3, rel=1e-14)
    xi = [0.1, 1.0, 5.0]
    expected = weights([0.0] * 3, 7.0, alpha, xi)
    assert weights(losses, 0.0, alpha, xi) == pytest.approx(expected, rel=1e-14)
    assert expected[0] > expected[1] > expected[2]


@pytest.mark.parametrize("xi", [None, [1e-9]])
def test_one_arm(xi):
    for alpha in ALPHAS:
        assert weights([1e12], 1e3, alpha, xi).tolist() == [1.0]


# --- the iteration -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decades", "most", "mean"), [(0, 8, 3.0), (1, 12, 5.5), (5, 18, 6.5), (20, 24, 7.5)]
)
def test_few_passes_suffice_from_any_start(decades, most, mean):
    rng = np.random.default_rng(decades)
    passes = []
    for s, xi, alpha in random_instances(rng, 6000, [2, 3, 8, 50, 300], decades):
        w, again = np.empty(s.size), np.empty(s.size)
        _, cold = solve(s, xi, 1.0, alpha, -1.0, w)
        _, warm = solve(s, xi, 1.0, alpha, 10 ** rng.uniform(-9, 12), again)
        assert np.all(np.abs(again - w) <= 2 * PROMISE * w + SMALLEST)
        assert abs(math.fsum(w) - 1) <= PROMISE
        passes += [cold, warm]
    assert max(passes) <= most < symmetric.MAX_PASSES
    assert np.mean(passes) <= mean


def test_a_good_start_saves_passes():
    losses, w = np.array([0.0, 1.0, 5.0, 20.0]), np.empty(4)
    for alpha in (0.0, 0.3, 0.5, 0.7, 0.999):
        z, cold = solve(losses, NO_XI, 0.5, alpha, -1.0, w)
        _, warm = solve(losses, NO_XI, 0.5, alpha, z, w)
        assert warm == 1 < cold


def test_symmetric_iterates_stay_in_their_bracket(monkeypatch):
    seen = []
    weight = symmetric.weight
    monkeypatch.setattr(symmetric, "weight", lambda s, a, b: seen.append(s) or weight(s, a, b))
    rng = np.random.default_rng(1)
    for s, _, alpha in random_instances(rng, 300, [2, 3, 8, 20], 0):
        if alpha == 1:
            continue
        seen.clear()
        z0 = 10 ** rng.uniform(-9, 12)
        symmetric.solve_symmetric.py_func(s, 1.0, alpha, z0, np.empty(s.size))
        z = np.array(seen[int(np.argmin(s)) :: s.size])
        ties = np.count_nonzero(s == s.min())
        assert np.all(z >= distance(math.log(ties), 1 - alpha))
        assert np.all(z <= distance(math.log(s.size), 1 - alpha))


def test_asymmetric_iterates_stay_in_their_bracket(monkeypatch):
    seen = []
    moments = asymmetric._moments
    monkeypatch.setattr(
        asymmetric, "_moments", lambda *given: seen.append(given[6]) or moments(*given)
    )
    rng = np.random.default_rng(2)
    for s, xi, alpha in random_instances(rng, 300, [2, 3, 8, 20], 5):
        seen.clear()
        z0 = 10 ** rng.uniform(-9, 12)
        asymmetric.solve_asymmetric.py_func(s, xi, 1.0, alpha, z0, np.empty(s.size))
        end = np.max(distance(math.log(s.size), 1 - alpha) / xi - (s - s.min()))
        assert seen[0] == 0
        assert all(0 < z <= end * (1 + 1e-9) for z in seen[1:])


@pytest.mark.parametrize(
    "losses", [[0.0, 100.0, 100.0, 100.0], [5.0, 0.0, 40.0, 7.0, 60.0], [0.0] + [9.0] * 8]
)
def test_newton_without_the_clip_takes_the_wrong_root(losses):
    # The paper's step for alpha = 1/2 from the left end of the bracket, as often written.
    L, eta = np.array(losses), 1.0
    x = L.min() - 2 * math.sqrt(L.size) / eta
    for _ in range(10):
        w = 4 / (eta * (L - x)) ** 2
        x -= (w.sum() - 1) / (eta * (w**1.5).sum())
    expected = reference(losses, eta, 0.5)
    w = 4 / (eta * (L - x)) ** 2
    assert x > L.min()  # beyond the pole, and it stays there
    assert relative_error(w / w.sum(), expected) > 0.01  # normalising would only hide it

    w = np.empty(L.size)
    z, _ = solve(L, NO_XI, eta, 0.5, distance(math.log(L.size), 0.5), w)
    assert z >= 0
    assert relative_error(w, expected) <= PROMISE


@pytest.mark.slow
def test_kernels_solve_on_a_slice_of_their_state():
    @njit
    def kernel(state, w):
        L = state[2:6]
        return solve(L, L[:0], 0.5, 0.5, state[1], w)

    state = np.array([9.0, -1.0, 0.0, 1.0, 2.0, 3.0, 9.0])
    before, w = state.copy(), np.empty(4)
    kernel(state, w)
    assert np.array_equal(state, before)
    assert np.array_equal(w, weights(before[2:6], 0.5))


# --- the public function -------------------------------------------------------------------------


def test_arguments_are_not_changed_and_may_be_anything_array_like():
    losses, xi = np.array([1, 0, 2]), np.array([1.0, 2.0, 4.0])
    losses.flags.writeable = xi.flags.writeable = False
    w = bw.omd.weights(losses, 1, 0, xi)
    assert np.array_equal(w, bw.omd.weights((1.0, 0.0, 2.0), 1.0, 0.0, [1, 2, 4]))
    assert np.array_equal(w[::-1], bw.omd.weights(losses[::-1], 1, 0, xi[::-1]))
    assert losses.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("parameter", "arguments"),
    [
        ("losses", ([], 1.0)),
        ("losses", ([[1.0, 2.0]], 1.0)),
        ("losses", ([1.0, math.nan], 1.0)),
        ("losses", ([1.0, math.inf], 1.0)),
        ("losses", ([1.0, [2.0]], 1.0)),
        ("losses", (["a", "b"], 1.0)),
        ("losses", ([1j, 2.0], 1.0)),
        ("losses", ([-1.7e308, 1.7e308], 1.0)),
        ("losses", (3.0, 1.0)),
        ("eta", ([1.0, 2.0], -1e-9)),
        ("eta", ([1.0, 2.0], math.nan)),
        ("eta", ([1.0, 2.0], math.inf)),
        ("eta", ([1.0, 2.0], None)),
        ("alpha", ([1.0, 2.0], 1.0, -1e-300)),
        ("alpha", ([1.0, 2.0], 1.0, 1.0000001)),
        ("alpha", ([1.0, 2.0], 1.0, "half")),
        ("xi", ([1.0, 2.0], 1.0, 0.5, [1.0])),
        ("xi", ([1.0, 2.0], 1.0, 0.5, [1.0, 0.0])),
        ("xi", ([1.0, 2.0], 1.0, 0.5, [1.0, -1.0])),
        ("xi", ([1.0, 2.0], 1.0, 0.5, [1.0, math.nan])),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(parameter, arguments):
    sentence = rf"^The {parameter} of omd\.weights must be [^\n]*, got [^\n]*\.$"
    with pytest.raises(InvalidParameter, match=sentence):
        bw.omd.weights(*arguments)
