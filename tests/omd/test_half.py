"""The alpha = 1/2 kernels: exact weights along whole runs and from any state."""

import math

import mpmath
import numba
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.lanes.kernels import ARMS, GENERATOR, HEAD, PARAMETERS, ROUND
from bothworlds.lanes.random import WORDS, uniform
from bothworlds.lanes.vectors import pointer
from bothworlds.omd import few, half
from bothworlds.policies.tsallis_inf import half as kernels
from bothworlds.seeding import stream_words

IW = bw.TsallisINF(estimator="iw")
RV = bw.TsallisINF()


def packed(policy, n_arms, seed=0):
    parameters, state = policy.parameters(n_arms), policy.start(n_arms)
    F = np.zeros(HEAD + parameters.size + state.size)
    F[ARMS], F[PARAMETERS], F[ROUND] = n_arms, parameters.size, 1
    F[GENERATOR : GENERATOR + WORDS] = stream_words(seed, "half").view(np.float64)
    F[HEAD:] = np.concatenate([parameters, state])
    return F, HEAD + parameters.size


def rate_of(policy, t):
    return (4.0 if policy.estimator == "rv" else 2.0) / math.sqrt(t)


def exact_weights(L, eta):
    """Solve the OMD step with 40 digits, taking the doubles ``L`` and ``eta`` as exact."""
    with mpmath.workdps(40):
        L = [mpmath.mpf(float(v)) for v in L]
        eta = mpmath.mpf(eta)
        low = min(L) - 2 * mpmath.sqrt(len(L)) / eta
        x = min(L) - 2 / eta
        for _ in range(100):
            roots = [2 / (eta * (v - x)) for v in L]
            total = mpmath.fsum(r * r for r in roots)
            step = (total - 1) / (eta * mpmath.fsum(r**3 for r in roots))
            x = max(x - step, low)
            if abs(step) < mpmath.mpf(10) ** -35 * abs(min(L) - x):
                break
        return np.array([float((2 / (eta * (v - x))) ** 2) for v in L])


@numba.njit
def play(ask, tell, F, row, K, start, stop, gap):
    """Play rounds against Bernoulli losses, the best arm 0."""
    for t in range(start, stop):
        F[ROUND] = t
        arm = ask(F)
        mean = 0.5 - 0.5 * gap if arm == 0 else 0.5 + 0.5 * gap
        loss = 1.0 if np.random.random() < mean else 0.0
        tell(F, arm, F[row], loss)


@numba.njit
def seed_numba(seed):
    np.random.seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [IW, RV], ids=["iw", "rv"])
@pytest.mark.parametrize("n_arms", [2, few.FEW, few.FEW + 1])
def test_weights_stay_exact_over_ten_million_rounds(policy, n_arms):
    horizon = 10**7
    F, row = packed(policy, n_arms, seed=1)
    compiled = policy.kernels()
    seed_numba(3)
    L = F[row + half.ESTIMATES :]
    stops = np.unique(np.geomspace(1, horizon, 60).astype(int))
    worst, t, w = 0.0, 1, np.zeros(n_arms)
    for stop in stops:
        play(compiled.ask, compiled.tell, F, row, n_arms, t, stop, 1 / 8)
        F[ROUND] = stop
        before = L.copy()
        arm = compiled.ask(F)
        compiled.weights(F, w)
        # Asking may recentre L, which shifts every arm alike.
        expected = exact_weights(L, rate_of(policy, stop))
        worst = max(worst, np.abs(w / expected - 1).max())
        assert abs(1 / F[row] / w[arm] - 1) < 1e-12
        assert np.allclose(before - before.min(), L - L.min(), rtol=1e-12, atol=1e-9)
        compiled.tell(F, arm, F[row], 0.5)
        t = stop + 1
    assert worst < 3e-12, worst


estimates = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


@given(estimates, st.integers(1, 10**9), st.booleans())
def test_weights_are_exact_from_any_state(L, t, reduced):
    """After a restart the solver forgets what it knew and still finds the only root."""
    policy = RV if reduced else IW
    F, row = packed(policy, len(L))
    F[row + half.ESTIMATES :] = L
    F[ROUND] = t
    compiled = policy.kernels()
    compiled.estimates_changed(F)
    compiled.ask(F)
    w = np.zeros(len(L))
    compiled.weights(F, w)
    expected = exact_weights(F[row + half.ESTIMATES :], rate_of(policy, t))
    assert np.abs(w / expected - 1).max() < 1e-12
    assert abs(w.sum() - 1) < 1e-12


@pytest.mark.slow
@given(
    st.lists(st.floats(0, 100), min_size=few.FEW + 1, max_size=20),
    st.floats(-1e3, 1e3),
    st.lists(st.floats(1e-8, 1e8), min_size=4, max_size=4),
)
def test_a_wrong_prediction_never_leads_to_a_wrong_root(L, centre, sums):
    """Whatever the sums predict, even x beyond min L, the weights are those of the simplex."""
    F, row = packed(IW, len(L))
    F[row + half.ESTIMATES :] = L
    F[row + half.CENTRE] = centre
    F[row + half.SUM2 : row + half.SHARE] = sums
    F[ROUND] = 50
    IW.kernels().ask(F)
    w = np.zeros(len(L))
    IW.kernels().weights(F, w)
    assert F[row + half.ROOT] < min(L)
    assert np.abs(w / exact_weights(L, rate_of(IW, 50)) - 1).max() < 1e-12


@given(
    st.lists(st.floats(0, 1e4), min_size=2, max_size=few.FEW),
    st.integers(1, 10**6),
    st.floats() | st.floats(0, 10),
)
@example([0.0, 0.0], 1, 5e46)
@example([0.0, 0.0], 1, math.inf)
def test_few_arms_find_the_root_from_any_prediction(L, t, z):
    """Also from what a state has in that row before `few` first meets it, and from NaN."""
    L = np.array(L) - min(L)  # policies recentre: x then has all its digits
    F, row = packed(RV, len(L))
    F[row + half.ESTIMATES :] = L
    F[row + few.LEAST] = z
    F[ROUND] = t
    RV.kernels().ask(F)
    w = np.zeros(len(L))
    RV.kernels().weights(F, w)
    assert np.abs(w / exact_weights(L, rate_of(RV, t)) - 1).max() < 1e-12


@given(st.lists(st.floats(0, 1), min_size=1, max_size=15))
def test_halleys_denominator_stays_positive(r):
    """S_2 S_4 < (4/3) S_3^2 for up to 16 arms, of which one has the largest 1 / v, here 1."""
    r = np.array([1.0, *r])
    assert few.FEW <= 16
    assert (r**2).sum() * (r**4).sum() < 4 / 3 * (r**3).sum() ** 2


def test_halleys_denominator_is_not_positive_for_many_arms():
    """Negative control: one arm far ahead of very many others."""
    r = np.array([1.0, *[0.05] * 1000])
    assert (r**2).sum() * (r**4).sum() > 4 / 3 * (r**3).sum() ** 2


@pytest.mark.slow
@given(
    st.lists(st.floats(0, 1e4), min_size=2, max_size=few.FEW),
    st.integers(1, 10**6),
    st.floats(0, 1, exclude_max=True),
)
def test_both_solvers_draw_the_same_arm(L, t, u):
    """`few` and `half` share nothing but the equation they solve."""
    state = np.concatenate([RV.start(len(L))[: half.ESTIMATES], L])
    other = state.copy()
    eta = rate_of(RV, t)
    arm = draw_few(len(L), state, eta, u)
    expected = draw_half(len(L), other, eta, u)
    w = 4 / (eta * (np.array(L) - other[half.ROOT])) ** 2
    # Rounding decides where u meets a cumulative weight.
    if np.abs(np.cumsum(w)[:-1] - u).min() > 1e-12:
        assert arm == expected
        assert abs(state[half.INVERSE_P] / other[half.INVERSE_P] - 1) < 1e-12


@numba.njit
def draw_few(K, state, eta, u):
    return few.draw(K, pointer(state), eta, u, None)


@numba.njit
def draw_half(K, state, eta, u):
    return half.draw(K, pointer(state), eta, None, u, None)


@pytest.mark.parametrize("centre", [math.nan, math.inf, -math.inf])
def test_a_prediction_that_is_no_number_is_taken_back(centre):
    L = [3.0, 1.0, 2.0] * few.FEW
    F, row = packed(RV, len(L))
    F[row + half.ESTIMATES :] = L
    F[row + half.CENTRE] = centre
    F[ROUND] = 50
    RV.kernels().ask(F)
    w = np.zeros(len(L))
    RV.kernels().weights(F, w)
    assert np.abs(w / exact_weights(L, rate_of(RV, 50)) - 1).max() < 1e-12


@numba.njit
def looks(K, state, eta, u):
    """Return how often `half.draw` and `few.draw` look at the arms from a cold start."""
    S = pointer(state)
    half.restart(K, S, 0.0)
    c = 0.25 * eta * eta
    d = half.predict(S[half.SUM2], S[half.SUM3], S[half.SUM4], S[half.SUM5], c)
    x = S[half.CENTRE] + d
    many = 1
    while half.step_and_draw(K, S, x, c, None, u, None, None)[1] and many < half.MAX_PASSES:
        x = S[half.ROOT]
        many += 1
    if not few.fits(K):
        return many, 0
    low, z, n = state[half.ESTIMATES : half.ESTIMATES + K].min(), 1.0, 1
    _, _, d, unsure = few.look(K, S, 0.5 * eta, low, z, u, None, None, None)
    while unsure and n < half.MAX_PASSES:
        z = max(z + d, 1.0)
        _, _, d, unsure = few.look(K, S, 0.5 * eta, low, z, u, None, None, None)
        n += 1
    return many, n


@pytest.mark.slow
def test_few_looks_reach_the_root_from_a_cold_start():
    rng = np.random.default_rng(4)
    most = np.zeros(2)
    for _ in range(400):
        K = int(rng.choice([2, 3, 8, 50, 500]))
        state = np.zeros(half.ESTIMATES + K)
        state[half.ESTIMATES :] = rng.exponential(1.0, K) * 10.0 ** rng.uniform(-6, 8)
        most = np.maximum(most, looks(K, state, 10.0 ** rng.uniform(-4, 0.6), rng.random()))
    assert most.max() <= 14
    assert most.min() > 1


def test_without_the_guard_the_papers_newton_takes_the_mirror_root():
    """Negative control: from x = -sqrt(K), RV's first step lands right of the pole, at sum 1."""
    K, eta, x = 4, 4.0, -2.0
    L = np.zeros(K)
    w = 4 / (eta * (L - x)) ** 2
    x -= (w.sum() - 1) / (eta * (w**1.5).sum())
    w = 4 / (eta * (L - x)) ** 2
    assert x > L.min() and w.sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_draws_follow_the_weights():
    """Chi-square of the drawn arms at a frozen state whose weights span six decades."""
    n_arms, draws = 12, 1_000_000
    F, row = packed(IW, n_arms)
    F[row + half.ESTIMATES :] = np.geomspace(1.0, 20_000.0, n_arms)
    F[ROUND] = 400
    compiled = IW.kernels()
    compiled.estimates_changed(F)
    compiled.ask(F)
    w = np.zeros(n_arms)
    compiled.weights(F, w)
    assert w.max() / w.min() > 1e4

    @numba.njit
    def count(ask, F, draws, K):
        plays = np.zeros(K)
        for _ in range(draws):
            plays[ask(F)] += 1
        return plays

    plays = count(compiled.ask, F, draws, n_arms)
    # Cells below five expected draws are joined, as the test's approximation asks.
    large = w * draws >= 5
    seen = np.append(plays[large], plays[~large].sum())
    due = np.append(w[large], w[~large].sum()) * draws
    statistic = ((seen - due) ** 2 / np.maximum(due, 1e-9)).sum()
    dof = large.sum()
    limit = dof + 4 * math.sqrt(2 * dof)
    assert statistic < limit
    # Negative control: weights tilted by six per cent are told apart.
    tilted = w * (1 + 0.06 * np.linspace(-1, 1, n_arms))
    due = np.append(tilted[large], tilted[~large].sum()) / tilted.sum() * draws
    assert ((seen - due) ** 2 / np.maximum(due, 1e-9)).sum() > limit


@numba.njit
def enumerate_update(update, K, t, C, S, G, arm, inverse_p, loss):
    update(K, t, pointer(C), pointer(S), pointer(G), arm, inverse_p, loss)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [IW, RV], ids=["iw", "rv"])
@pytest.mark.parametrize("t", [1, 20, 100, 5_000])
@pytest.mark.parametrize("n_arms", [3, 5, 10])
def test_estimates_are_unbiased_by_enumeration(policy, t, n_arms):
    """E[lhat_i] = l_i for every arm: sum over the arm drawn, with the weights of the round."""
    F, row = packed(policy, n_arms)
    compiled = policy.kernels()
    seed_numba(9)
    play(compiled.ask, compiled.tell, F, row, n_arms, 1, t, 0.3)
    F[ROUND] = t
    losses = np.tile([0.1, 0.9, 0.4, 1.0, 0.0], 2)[:n_arms]
    w, mean = np.zeros(n_arms), np.zeros(n_arms)
    compiled.ask(F)
    compiled.weights(F, w)
    for arm in range(n_arms):
        G = F.copy()
        while compiled.ask(G) != arm:
            continue
        before = G[row + half.ESTIMATES :].copy()
        compiled.tell(G, arm, G[row], losses[arm])
        mean += w[arm] * (G[row + half.ESTIMATES :] - before)
    assert np.abs(mean - losses).max() < 1e-9


def test_the_baseline_goes_to_every_near_arm():
    F, row = packed(RV, 3)
    F[row + half.ESTIMATES :] = [0.0, 1.0, 1e6]
    F[ROUND] = 10_000
    compiled = RV.kernels()
    compiled.estimates_changed(F)
    near = np.zeros(3, np.uint8)
    arm = compiled.ask(F)
    compiled.near(F, near)
    assert near.tolist() == [1, 1, 0]
    w = np.zeros(3)
    compiled.weights(F, w)
    assert ((w >= rate_of(RV, 10_000) ** 2) == near).all()
    before = F[row + half.ESTIMATES :].copy()
    compiled.tell(F, arm, F[row], 0.5)
    rise = F[row + half.ESTIMATES :] - before
    assert np.allclose(rise, [0.5, 0.5, 0.0])


@pytest.mark.parametrize("n_arms", [2, 6, 12])
def test_late_feedback_adds_the_same_estimates_as_prompt_feedback(n_arms):
    for policy in (IW, RV):
        F, row = packed(policy, n_arms, seed=4)
        compiled = policy.kernels()
        seed_numba(1)
        play(compiled.ask, compiled.tell, F, row, n_arms, 1, 400, 0.2)
        F[ROUND] = 400
        arm = compiled.ask(F)
        near = np.zeros(n_arms, np.uint8)
        if compiled.near is not None:
            compiled.near(F, near)
        late, prompt = F.copy(), F.copy()
        compiled.tell(prompt, arm, F[row], 1.0)
        compiled.late(late, arm, F[row], 1.0, near)
        estimates = prompt[row + half.ESTIMATES :]
        assert np.array_equal(late[row + half.ESTIMATES :], estimates - estimates.min())


def test_symbols_of_the_uniform_draw():
    """A draw of 0 gives the first arm and one just below 1 the last with any weight."""
    C, S = IW.parameters(3), IW.start(3)
    G = stream_words(0, "edge")

    @numba.njit
    def first(u):
        return kernels.choose_half_iw(3, 1, pointer(C.copy()), pointer(S.copy()), pointer(G), u)

    assert first(0.0) == 0
    assert first(1.0 - 2.0**-52) == 2
    assert 0.0 <= uniform(G.copy(), 0.0) < 1.0
