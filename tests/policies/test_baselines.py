"""The algorithms Tsallis-INF is compared with: their formulas, their lanes, their regret."""

import dataclasses
import io
import math

import numpy as np
import pytest
from benchmarks import simulated
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

import bothworlds as bw
from bothworlds.bandit.state import columns, first_row, pack
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.errors import InvalidParameter
from bothworlds.experiments.algorithms import BROAD, EXP3, EXP3PP, THOMPSON, UCB
from bothworlds.lanes import rows
from bothworlds.lanes.kernels import ROUND
from bothworlds.lanes.types import LANES
from bothworlds.omd.barrier import solve_barrier
from bothworlds.policies.broad import kernels as broad
from bothworlds.policies.klucb import kernels as klucb
from helpers.tiles import played_as_tile, played_one_by_one

POLICIES = [
    bw.Broad(horizon=10_000),
    bw.Exp3(),
    bw.Exp3PlusPlus(),
    bw.Exp3PlusPlus(rate="published"),
    bw.KLUCB(),
    bw.ThompsonSampling(),
    bw.UCB1(),
    bw.Uniform(),
]
WIDE = [policy for policy in POLICIES if policy.kernels().wide]


def packed(policy, t=1, **arms):
    """Return one bandit in round t, its per-arm rows set by position: ``f0=[...], f1=[...]``."""
    n_arms = len(next(iter(arms.values())))
    F = pack(policy, n_arms, np.array([11, 22, 33, 44]))
    F[ROUND] = t
    for name, values in arms.items():
        columns(F, policy)[int(name[1:])] = values
    return F


def asked(policy, F):
    """Ask once; return the arm, 1 / P(arm) and the weights it was drawn from."""
    kernels = policy.kernels()
    arm = kernels.ask(F)
    w = np.empty(int(F[0]))
    kernels.weights(F, w)
    return arm, F[first_row(F)], w


# --- configurations --------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [*POLICIES, bw.UCB1(c=2), bw.Exp3PlusPlus(beta=500)], ids=repr)
def test_a_policy_prints_as_its_constructor_and_is_frozen(policy):
    names = {name: getattr(bw, name) for name in bw.policies.__all__ if hasattr(bw, name)}
    assert eval(repr(policy), names) == policy
    assert hash(policy) == hash(dataclasses.replace(policy))
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.c = 3


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: bw.UCB1(c=0), "The c of UCB1 must be a positive finite number, got 0."),
        (lambda: bw.UCB1(c=True), "The c of UCB1 must be a positive finite number, got True."),
        (lambda: bw.UCB1(c=math.nan), "The c of UCB1 must be a positive finite number, got nan."),
        (lambda: bw.KLUCB(c=-1), "The c of KLUCB must be a finite number of at least 0, got -1."),
        (lambda: bw.KLUCB(c="3"), "The c of KLUCB must be a finite number of at least 0, got '3'."),
        (
            lambda: bw.Broad(horizon=1),
            "The horizon of Broad must be an integer of at least 2, got 1.",
        ),
        (
            lambda: bw.Broad(horizon=1e4),
            "The horizon of Broad must be an integer of at least 2, got 10000.0.",
        ),
        (
            lambda: bw.Exp3PlusPlus(rate=0.5),
            'The rate of Exp3PlusPlus must be "doubled" or "published", got 0.5.',
        ),
        (
            lambda: bw.Exp3PlusPlus(rate=[1]),
            'The rate of Exp3PlusPlus must be "doubled" or "published", got [1].',
        ),
        (
            lambda: bw.Exp3PlusPlus(alpha=0),
            "The alpha of Exp3PlusPlus must be a positive finite number, got 0.",
        ),
        (
            lambda: bw.Exp3PlusPlus(beta=math.inf),
            "The beta of Exp3PlusPlus must be a positive finite number, got inf.",
        ),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(make, sentence):
    with pytest.raises(InvalidParameter) as refusal:
        make()
    assert str(refusal.value) == sentence


# --- lanes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [rows.FEW - 1, rows.FEW + 1])
@pytest.mark.parametrize("policy", WIDE, ids=repr)
def test_every_lane_is_the_scalar_bandit_bit_for_bit(policy, K):
    horizon = 1100  # past the first recentring
    rng = np.random.default_rng(3)
    losses = (rng.uniform(size=(horizon, K)) < rng.uniform(size=K)).astype(np.float64)
    words = rng.integers(-(2**63), 2**63, size=(4, LANES))
    start = np.repeat(policy.start(K)[:, None], LANES, axis=1)
    if isinstance(policy, bw.Broad):
        # Lanes restart at different rounds, some not at all.
        threshold = K * math.log(policy.horizon) / (3 * broad.RATE_1**2)
        start[broad.SPREAD] = threshold - np.arange(LANES) * 60
    wide = played_as_tile(policy, losses, start, words)
    one = played_one_by_one(policy, losses, start, words)
    np.testing.assert_array_equal(wide.arms, one.arms)
    # Some rows are a single bandit's own, and one that does not draw leaves its generator alone.
    shared = np.setdiff1d(np.arange(len(wide.state)), policy.traits.bandit_only(K))
    assert wide.state[shared].tobytes() == one.state[shared].tobytes()
    if policy.kernels().parts.draws:
        assert wide.generator.tobytes() == one.generator.tobytes()
    assert len(np.unique(wide.arms)) == K
    if isinstance(policy, bw.Broad):
        assert len(np.unique(wide.state[broad.RATE])) > 1


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.0, 1.0])
@pytest.mark.parametrize("policy", WIDE, ids=repr)
def test_a_million_equal_losses_neither_overflow_nor_spoil_the_weights(policy, level):
    K = 3
    world = bw.environments.Stochastic(np.full(K, level))
    job = TileJob("P", policy, world, 4, 0, LANES, (10**6,), keep=True)
    with np.load(io.BytesIO(run_job(job).state)) as kept:
        state = kept["array0"].reshape(-1, LANES)
    assert np.isfinite(state).all()
    state = state[: policy.start(K).size]  # the rows of leader mode follow
    if policy.traits.estimates:
        L = state[policy.traits.head_rows : policy.traits.head_rows + K]
        assert np.abs(L - L.min(axis=0)).max() < 1e5
        drawn = 4 if isinstance(policy, bw.Exp3PlusPlus) else 1
        groups = state[policy.traits.head_rows :].reshape(policy.traits.rows_per_arm, K, LANES)
        w = groups[drawn] / groups[drawn].sum(axis=0)
        assert (w > 0).all()


# --- regret ----------------------------------------------------------------------------------

# Mean regret at 8 arms, gap 1/8 and 10^4 rounds, and its standard error, from an independent
# simulation; it reproduces the figures of Zimmert and Seldin (2019) where they show the algorithm.
KNOWN = {name: row[10_000] for name, row in simulated.STOCHASTIC.items()}
PUBLISHED = [
    (bw.UCB1(), *KNOWN[UCB], bw.UCB1(c=2)),
    (bw.Exp3(), *KNOWN[EXP3], bw.Exp3PlusPlus(rate="published")),
    (bw.Exp3PlusPlus(), *KNOWN[EXP3PP], bw.Exp3PlusPlus(rate="published")),
    (bw.Exp3PlusPlus(rate="published"), 639, 9, bw.Exp3PlusPlus()),
    (bw.ThompsonSampling(), *KNOWN[THOMPSON], bw.UCB1()),
    (bw.KLUCB(), 176.5, 2.4, bw.ThompsonSampling()),
    (bw.Broad(horizon=10_000), *KNOWN[BROAD], bw.Uniform()),
    (bw.Uniform(), 7 / 8 * 10_000 / 8, 0, bw.Broad(horizon=10_000)),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("policy", "mean", "error", "control"), PUBLISHED, ids=repr)
def test_regret_is_that_of_the_literature(policy, mean, error, control):
    def distance(tried):
        world = bw.environments.Stochastic.gap(8, 1 / 8)
        result = bw.simulate(
            {"P": tried}, world, horizon=10_000, repetitions=320, seed=17, progress=False
        )
        sample = result.regret["P"][:, -1]
        return abs(sample.mean() - mean) / math.hypot(error, stats.sem(sample))

    assert distance(policy) < 4
    assert distance(control) > 4


# --- formulas --------------------------------------------------------------------------------

estimates = st.lists(st.floats(0, 1e6), min_size=1, max_size=20)


@given(L=estimates, t=st.integers(1, 10**7))
def test_exp3_plays_the_omd_step_at_alpha_one(L, t):
    K = len(L)
    arm, inverse_p, w = asked(bw.Exp3(), packed(bw.Exp3(), t, f0=L))
    expected = bw.omd.weights(L, math.sqrt(math.log(K) / (t * K)), alpha=1.0)
    np.testing.assert_allclose(w, expected, rtol=1e-12, atol=1e-300)
    assert w[arm] > 0
    assert inverse_p == pytest.approx(1 / w[arm], rel=1e-14)


@given(
    L=estimates,
    halvings=st.integers(0, 4),
    start=st.one_of(st.none(), st.floats(-1e7, 1e7)),
)
@example(L=[316423.0, 333381.0], halvings=0, start=None)
@example(L=[316423.0, 333381.0], halvings=2, start=0.0)
def test_broad_plays_the_omd_step_at_alpha_zero_from_any_start(L, halvings, start):
    policy = bw.Broad(horizon=100)
    F = packed(policy, 1, f0=L)
    shared = F[first_row(F) :]
    eta = shared[broad.RATE] = broad.RATE_1 / 2**halvings
    if start is not None:
        shared[broad.ROOT] = start
    passes = solve_barrier(
        len(L), shared.copy(), broad.ESTIMATES, broad.ESTIMATES + len(L), shared[broad.ROOT], eta
    )[3]
    assert passes <= 12
    arm, inverse_p, w = asked(policy, F)
    np.testing.assert_allclose(w, bw.omd.weights(L, eta, alpha=0.0), rtol=1e-11)
    assert inverse_p == pytest.approx(1 / w[arm], rel=1e-14)
    assert shared[broad.SQUARES] == pytest.approx(np.sum(w**2), rel=1e-13)


def test_broad_needs_two_passes_after_an_update():
    policy = bw.Broad(horizon=100)
    F = pack(policy, 8, np.array([1, 2, 3, 4]))
    S = F[first_row(F) :]
    rng = np.random.default_rng(0)
    for t in range(1, 3000):
        F[ROUND] = t
        arm = policy.kernels().ask(F)
        policy.kernels().tell(F, arm, S[0], float(rng.random() < 0.3 + 0.05 * arm))
        passes = solve_barrier(
            8, S.copy(), broad.ESTIMATES, broad.ESTIMATES + 8, S[broad.ROOT], S[broad.RATE]
        )[3]
        assert passes <= 2


def test_broad_accumulates_the_spread_and_restarts():
    policy = bw.Broad(horizon=50)
    F = packed(policy, 1, f0=[3.0, 0.0, 40.0])
    S = F[first_row(F) :]
    _, _, w = asked(policy, F)
    threshold = 3 * math.log(50) / (3 * broad.RATE_1**2)
    added = 0.7**2 * ((1 - w[2]) ** 2 + w[0] ** 2 + w[1] ** 2)
    S[broad.SPREAD] = threshold - 1.001 * added
    policy.kernels().tell(F, 2, 1 / w[2], 0.7)
    assert S[broad.SPREAD] == pytest.approx(threshold - 0.001 * added, rel=1e-13)
    assert S[broad.RATE] == broad.RATE_1
    assert columns(F, policy)[0] == pytest.approx([3.0, 0.0, 40.0 + 0.7 / w[2]], rel=1e-14)

    _, _, w = asked(policy, F)
    policy.kernels().tell(F, 0, 1 / w[0], 1.0)
    assert S[broad.SPREAD] == 0.0
    assert S[broad.RATE] == broad.RATE_1 / 2
    np.testing.assert_array_equal(columns(F, policy)[0], 0.0)
    np.testing.assert_allclose(asked(policy, F)[2], 1 / 3, rtol=1e-13)


def exp3plusplus_weights(policy, t, L, n, total):
    """Seldin and Lugosi's formulas, written out."""
    K = len(L)
    factor = 1.0 if policy.rate == "doubled" else 0.5
    eta = factor * math.sqrt(math.log(K) / (t * K))
    m = total / n
    r = np.sqrt((policy.alpha * math.log(t) + math.log(K)) / (2 * n))
    gap = np.maximum(0, np.maximum(0, m - r) - np.minimum(1, m + r).min())
    with np.errstate(divide="ignore"):
        xi = policy.beta * math.log(t) / (t * gap**2)
    cap = min(1 / (2 * K), 0.5 * math.sqrt(math.log(K) / (t * K)))
    eps = np.minimum(cap, xi)
    rho = np.exp(-eta * (L - L.min()))
    return (1 - eps.sum()) * rho / rho.sum() + eps, eps < cap


@pytest.mark.parametrize("rate", ["doubled", "published"])
@pytest.mark.parametrize(("t", "binding"), [(100, 0), (10**7, 0), (10**12, 3)])
def test_exp3plusplus_mixes_as_written(rate, t, binding):
    policy = bw.Exp3PlusPlus(rate=rate)
    rng = np.random.default_rng(t)
    K = 5
    n = np.floor(t * np.array([0.9, 0.01, 0.02, 0.04, 0.03]))
    mean = np.array([0.1, 0.9, 0.8, 0.1, 0.5])
    L = rng.exponential(math.sqrt(t * K), size=K)
    expected, bound = exp3plusplus_weights(policy, t, L, n, n * mean)
    assert bound.sum() == binding
    arm, inverse_p, w = asked(policy, packed(policy, t, f0=L, f1=n, f2=n * mean))
    np.testing.assert_allclose(w, expected, rtol=1e-12)
    assert inverse_p == pytest.approx(1 / w[arm], rel=1e-14)


@pytest.mark.parametrize("learns", [bw.UCB1(), bw.KLUCB(), bw.Exp3PlusPlus()], ids=repr)
@pytest.mark.parametrize("t", [1, 2, 50, 10**7])
def test_an_arm_without_a_loss_is_played_first_whatever_the_round(learns, t):
    """Also where some arms were not available before: the count decides, not the round."""
    F = pack(learns, 4, np.array([11, 22, 33, 44]))
    F[ROUND] = t
    for arm in (0, 0, 2) if t > 1 else ():
        learns.kernels().tell(F, arm, 1.0, 0.0)
    arm, inverse_p, w = asked(learns, F)
    assert arm == (0 if t == 1 else 1)
    assert inverse_p == 1.0
    np.testing.assert_array_equal(w, np.arange(4) == arm)


@pytest.mark.parametrize("c", [1.5, 2.0])
def test_ucb1_plays_the_least_index(c):
    policy = bw.UCB1(c=c)
    rng = np.random.default_rng(1)
    K = 6
    F = pack(policy, K, np.zeros(4, np.int64))
    n, total = np.zeros(K), np.zeros(K)
    for t in range(1, 600):
        F[ROUND] = t
        arm = policy.kernels().ask(F)
        if (n == 0).any():
            expected = np.argmin(n > 0)
        else:
            expected = np.argmin(total / n - np.sqrt(c * math.log(t) / n))
        assert arm == expected
        loss = float(rng.random())
        n[arm] += 1
        total[arm] += loss
        policy.kernels().tell(F, arm, 1.0, loss)


@given(m=st.floats(1e-6, 1.0), budget=st.floats(1e-8, 50.0))
def test_the_klucb_index_is_where_the_divergence_spends_the_budget(m, budget):
    def excess(log_q):
        q = math.exp(log_q)
        rest = (1 - m) * (math.log1p(-m) - math.log1p(-q)) if m < 1 else 0.0
        return m * (math.log(m) - log_q) + rest - budget

    q = klucb.lower_index(m, budget)
    low = -(budget + 1) / m - 50
    if low > -600:
        log_q = optimize.brentq(excess, low, math.log(m) if m < 1 else -1e-16, xtol=1e-14)
        # Near m the divergence is a difference of logarithms, which limits the check as well.
        assert m - q == pytest.approx(m - math.exp(log_q), rel=1e-6, abs=1e-15)
    assert 0.0 <= q <= m


def test_klucb_plays_the_least_index():
    rng = np.random.default_rng(2)
    for c in (0.0, 3.0):
        policy = bw.KLUCB(c=c)
        for _ in range(200):
            t = int(rng.integers(2, 10**6))
            n = np.floor(rng.uniform(1, t / 2 + 1, size=7))
            total = np.floor(n * rng.uniform(0.2, 0.6, size=7))
            f = math.log(t) + (c * math.log(math.log(t)) if t > 2 else 0.0)
            index = [klucb.lower_index(s / k, f / k) for s, k in zip(total, n, strict=True)]
            arm = policy.kernels().ask(packed(policy, t, f0=n, f1=total))
            assert index[arm] <= min(index) + 1e-12


# --- Thompson sampling -----------------------------------------------------------------------


def thompson_after(losses):
    policy = bw.ThompsonSampling()
    F = pack(policy, len(losses), np.array([5, 6, 7, 8]))
    for arm, seen in enumerate(losses):
        for loss in seen:
            policy.kernels().tell(F, arm, 0.0, loss)
    return policy, F


def test_thompson_sampling_plays_an_arm_with_its_posterior_probability():
    policy, F = thompson_after([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], []])
    laws = [stats.beta(3, 2), stats.beta(2, 4), stats.beta(1, 1)]
    draws = 20_000
    counts = np.bincount([policy.kernels().ask(F) for _ in range(draws)], minlength=3)

    def chance(first, others):
        return integrate.quad(lambda x: first.pdf(x) * np.prod([o.sf(x) for o in others]), 0, 1)[0]

    p = np.array([chance(laws[i], laws[:i] + laws[i + 1 :]) for i in range(3)])
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    deviations = (counts - draws * p) / np.sqrt(draws * p * (1 - p))
    assert np.abs(deviations).max() < 4
    wrong = (counts - draws / 3) / np.sqrt(draws * 2 / 9)
    assert np.abs(wrong).max() > 4


@pytest.mark.statistical
def test_thompson_sampling_counts_fractional_losses_with_their_probability():
    seen = 20_000
    policy, F = thompson_after([[0.3] * seen, [1.0] * 50, [0.0] * 50])
    d_ones, c_ones, d_zeros, _ = columns(F, policy)
    ones = d_ones + 1 / 3 - 1
    zeros = d_zeros + 1 / 3 - 1
    assert ones + zeros == pytest.approx([seen, 50, 50])
    assert abs(ones[0] - 0.3 * seen) < 4 * math.sqrt(seen * 0.3 * 0.7)
    assert ones[1:] == pytest.approx([50, 0], abs=1e-9)
    assert c_ones == pytest.approx(1 / np.sqrt(9 * d_ones), rel=1e-15)


def test_thompson_sampling_admits_that_it_knows_no_probability():
    policy, F = thompson_after([[1.0], [0.0]])
    policy.kernels().ask(F)
    assert not policy.traits.knows_probability
    assert F[first_row(F)] == 0.0
    assert policy.kernels().weights is None
