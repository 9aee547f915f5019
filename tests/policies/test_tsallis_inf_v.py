"""TsallisINFV: the rule as written down, its estimator, late losses, and its regret."""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.state import first_row, pack
from bothworlds.errors import InvalidParameter
from bothworlds.lanes.kernels import ROUND
from bothworlds.omd import half
from bothworlds.policies import waiting
from bothworlds.policies.tsallis_inf_v import kernels as v
from bothworlds.seeding import stream_words

RATES = ("matched", "residual")


class Reference:
    """The algorithm in plain NumPy, one line for each of its definition."""

    def __init__(self, K, rate, prior):
        self.rate, self.prior, self.beta = rate, prior, math.sqrt(0.5)
        self.L, self.n, self.s = np.zeros(K), np.zeros(K), np.zeros(K)

    @property
    def means(self):
        return (0.5 * self.prior + self.s) / (self.prior + self.n)

    @property
    def eta(self):
        return 2.0 * math.sqrt(2.0) / self.beta

    def weights(self):
        X = self.L + (self.means if self.rate == "matched" else 0.0)
        return bw.omd.weights(X, self.eta)

    def learn(self, w, arm, loss):
        m, eta, beta = self.means, self.eta, self.beta
        base = np.where(w >= eta**2, m, 0.0)
        d = loss - base[arm]
        self.L += base
        self.L[arm] += d / w[arm]
        if self.rate == "residual":
            self.beta = math.sqrt(beta**2 + 2.0 * d**2)
        else:
            rest = np.delete(w, w.argmax())
            h = np.sqrt(rest).sum() - rest.sum() / (1.0 + math.sqrt(w.max()))
            others = np.delete(w, arm)
            z = d**2 * ((1.0 - w[arm]) ** 2 / math.sqrt(w[arm]) + (others**1.5).sum())
            z = min(z, beta * abs(d) * (1.0 - w[arm]))
            self.beta += z / (beta * h) if h > 1e-12 else 0.0
        self.n[arm] += 1
        self.s[arm] += loss


def packed(policy, n_arms, seed=3):
    F = pack(policy, n_arms, stream_words(seed, "v"))
    return F, first_row(F), policy.program(n_arms).kernels


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [1, 2, 5, 8, 9, 40])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("prior", [1.0, 5.0])
def test_the_kernels_do_what_the_definition_says(rate, n_arms, prior):
    policy = bw.TsallisINFV(rate=rate, prior=prior)
    F, row, kernels = packed(policy, n_arms)
    reference = Reference(n_arms, rate, prior)
    means = np.linspace(0.85, 1.0, n_arms)
    rng = np.random.default_rng(n_arms)
    near = []
    for t in range(1, 1501):
        F[ROUND] = t
        arm = kernels.ask(F)
        w = np.zeros(n_arms)
        kernels.weights(F, w)
        expected = reference.weights()
        # Rounding grows from round to round, as estimates are made of weights.
        assert w == pytest.approx(expected, rel=1e-7), t
        near.append(np.mean(expected >= reference.eta**2))
        loss = float(rng.random() < means[arm])
        kernels.tell(F, arm, F[row], loss)
        reference.learn(expected, arm, loss)
        assert F[row + v.BETA] == pytest.approx(reference.beta, rel=1e-7), t
        assert F[row + policy.traits.head_rows + n_arms :][:n_arms] == pytest.approx(
            reference.means
        )
    if n_arms > 2:
        assert min(near) == 0.0 and any(0 < share < 1 for share in near)


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [4, 12])
def test_with_frozen_means_and_the_rate_of_reduced_variance_it_is_tsallis_inf(n_arms):
    """Without optimism: a heavy prior keeps the means at 1/2, and the rate is set each round."""
    plain, own = bw.TsallisINF(), bw.TsallisINFV(rate="residual", prior=1e300)
    F, row, kernels = packed(plain, n_arms)
    M, start, ours = packed(own, n_arms)
    rng = np.random.default_rng(1)
    w, u = np.zeros(n_arms), np.zeros(n_arms)
    for t in range(1, 3001):
        M[start + v.BETA] = v.RATE * math.sqrt(t) / 4.0
        F[ROUND] = M[ROUND] = t
        arm = kernels.ask(F)
        assert ours.ask(M) == arm
        kernels.weights(F, w)
        ours.weights(M, u)
        assert u == pytest.approx(w, rel=1e-9)
        loss = float(rng.random() < (0.4 if arm == 0 else 0.6))
        kernels.tell(F, arm, F[row], loss)
        ours.tell(M, arm, M[start], loss)


def test_the_step_is_optimal_from_any_estimates_and_rate():
    """X_i - 2 / (eta sqrt(w_i)) is one number; X over 12 decades, eta over 6."""
    rng = np.random.default_rng(6)
    worst = shifted = permuted = 0.0
    for _ in range(1000):
        n_arms = int(rng.choice([1, 2, 3, 8, 50, 500]))
        X = rng.exponential(1.0, n_arms) * 10.0 ** rng.uniform(-5, 7)
        F, row, kernels = packed(bw.TsallisINFV(), n_arms)
        F[row + v.BETA] = 10.0 ** rng.uniform(0, 6)
        order = rng.permutation(n_arms)
        found = []
        for estimates in (X, X + 100.0, X[order]):
            F[row + bw.TsallisINFV.traits.head_rows :][:n_arms] = estimates
            F[row + v.WAITING : row + v.SOLVER] = waiting.FIRST
            kernels.estimates_changed(F)
            kernels.ask(F)
            w = np.zeros(n_arms)
            kernels.weights(F, w)
            found.append(w)
        w = found[0]
        assert w.sum() == pytest.approx(1.0, abs=1e-12)
        # Seen from the best arm, because estimates are known by their differences.
        y = 2.0 / (v.RATE / F[row + v.BETA] * np.sqrt(w))
        apart = (X - X.min()) - (y - y[X.argmin()])
        worst = max(worst, np.abs(apart / np.maximum(y, X - X.min())).max())
        shifted = max(shifted, np.abs(found[1] / w - 1).max())
        permuted = max(permuted, np.abs(found[2] / w[order] - 1).max())
    assert worst <= 1e-9 and shifted <= 1e-9 and permuted <= 1e-9


# --- the estimator ----------------------------------------------------------------------------


def mixed_state(rate, n_arms=8):
    """Return a state after some rounds, asked, in which near and far arms are both present."""
    policy = bw.TsallisINFV(rate=rate)
    F, row, kernels = packed(policy, n_arms)
    rng = np.random.default_rng(4)
    w = np.zeros(n_arms)
    for t in range(1, 5000):
        F[ROUND] = t
        arm = kernels.ask(F)
        kernels.weights(F, w)
        near = w >= (v.RATE / F[row + v.BETA]) ** 2
        if t > 300 and near.any() and not near.all() and w.min() > 1e-4:
            return policy, F, row, kernels, w, near
        kernels.tell(F, arm, F[row], float(rng.random() < 0.5 + 0.05 * arm))
    raise AssertionError("no such state")


def estimates(policy, F, row):
    rows = F[row + policy.traits.head_rows :].reshape(policy.traits.rows_per_arm, -1)
    return policy.estimated(rows).copy()


@pytest.mark.parametrize("rate", RATES)
def test_the_estimate_is_unbiased_over_arms_and_outcomes(rate):
    policy, F, row, kernels, w, near = mixed_state(rate)
    p = np.linspace(0.2, 0.9, w.size)  # probability that the loss of an arm is 1
    change, forgotten, early = np.zeros((3, w.size))
    before = estimates(policy, F, row)
    means = F[row + policy.traits.head_rows + w.size :][: w.size].copy()
    told = F[row + policy.traits.head_rows + 2 * w.size :][: w.size].copy()
    for arm in range(w.size):
        for loss in (0.0, 1.0):
            G = F.copy()
            kernels.tell(G, arm, 1.0 / w[arm], loss)
            share = w[arm] * (p[arm] if loss else 1.0 - p[arm])
            rise = estimates(policy, G, row) - before
            change += share * rise
            own = np.arange(w.size) == arm
            forgotten += share * np.where(own, rise, 0.0)
            late_mean = means[arm] + (loss - means[arm]) / (told[arm] + 2.0)
            moved = near[arm] * (late_mean - means[arm]) * (1.0 - 1.0 / w[arm])
            early += share * np.where(own, rise + moved, rise)
    assert change == pytest.approx(p, abs=1e-9)
    # Negative controls: the baseline forgotten on unplayed arms; the mean updated before use.
    assert np.abs(forgotten - p)[near].min() > 1e-2
    assert np.abs(early - p)[near].max() > 1e-4


@pytest.mark.parametrize("rate", RATES)
def test_a_late_loss_has_the_baseline_of_its_decision_and_moves_the_rate(rate):
    bandit = bw.Bandit(bw.TsallisINFV(rate=rate), arms=3, seed=1)
    rng = np.random.default_rng(2)
    for _ in range(400):
        decision = bandit.ask()
        bandit.tell(decision, loss=float(rng.random() < 0.9 + 0.05 * decision.index))
    row, policy = bandit._core.start, bandit.policy
    rows = bandit._core.F[row + policy.traits.head_rows :].reshape(3, 3).copy()
    before, beta = estimates(policy, bandit._core.F, row), bandit._core.F[row + v.BETA]
    expected = np.zeros(3)
    decisions = []
    for _ in range(2):
        decisions.append(bandit.ask())
        w = np.array(list(decisions[-1].probabilities.values()))
        base = np.where(w >= (v.RATE / bandit._core.F[row + v.PACE]) ** 2, rows[1], 0.0)
        expected += bandit._core.F[row + v.WAITING + waiting.SHARE] * base
        if len(decisions) == 1:
            expected[decisions[0].index] += (1.0 - base[decisions[0].index]) / w[decisions[0].index]
    first = decisions[0]
    bandit.tell(first, loss=1.0)
    rise = estimates(policy, bandit._core.F, row) - before
    rise, expected = rise - rise[(first.index + 1) % 3], expected - expected[(first.index + 1) % 3]
    assert rise == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert bandit._core.F[row + v.BETA] > beta
    after = bandit._core.F[row + policy.traits.head_rows :].reshape(3, 3)
    m, n = rows[1, first.index], rows[2, first.index]
    assert after[1, first.index] == pytest.approx(m + (1.0 - m) / (n + 2.0))
    assert after[2, first.index] == n + 1


@pytest.mark.parametrize("arms", [3, 12])
@pytest.mark.parametrize("rate", RATES)
def test_batches_of_one_equal_single_decisions(rate, arms):
    policy = bw.TsallisINFV(rate=rate)
    single, batch = (bw.Bandit(policy, arms=arms, seed=4) for _ in range(2))
    rng = np.random.default_rng(5)
    for _ in range(300):
        one, many = single.ask(), batch.ask_many(1)
        assert (one.index, one.probability) == (many[0].index, many[0].probability)
        loss = float(rng.random() < 0.4 + 0.02 * one.index)
        single.tell(one, loss=loss)
        batch.tell_many(many, [loss])
    assert single.history() == batch.history()


RUNS = 100


@pytest.mark.statistical
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(
    ("world", "rounds"),
    [
        (bw.environments.Stochastic.gap(5, 0.2), 20_000),
        (bw.environments.Stochastic([0.95, *4 * [0.98]]), 10_000),
    ],
)
def test_late_feedback_costs_little(world, rounds, rate):
    """With feedback one round late the rate once stood still, and the regret was linear."""
    policy = bw.TsallisINFV(rate=rate)
    found = []
    for environment in (world, bw.environments.Delayed(world, 1)):
        result = bw.simulate({"v": policy}, environment, horizon=rounds, repetitions=RUNS, seed=3)
        runs = result.regret["v"][:, -1]
        found.append((runs.mean(), runs.std() / math.sqrt(RUNS)))
    (prompt, error), (late, other) = found
    assert late <= 1.3 * prompt + 4.0 * math.hypot(1.3 * error, other)


def test_under_a_floor_the_rate_uses_one_distribution():
    """After a round the rate is that of the weights w, not of the mixture that was drawn from."""
    policy = bw.Floor(bw.TsallisINFV(), 0.5, 0.0)
    F = pack(policy, 4, stream_words(3, "floor"))
    row = first_row(F) + 1
    kernels = policy.kernels()
    own = np.zeros(4)
    for t in range(1, 200):
        F[ROUND] = t
        arm = kernels.ask(F)
        beta, x = F[row + v.BETA], F[row + v.SOLVER + half.ROOT]
        X = F[row + v.SOLVER + half.ESTIMATES :][:4]
        own = 4.0 / (v.RATE / beta * (X - x)) ** 2
        base = F[row + v.BASE]
        inverse_p = F[first_row(F)]
        loss = float(arm == 1)
        kernels.tell(F, arm, inverse_p, loss)
        d = loss - base
        z = d**2 * ((1 - own[arm]) ** 2 / math.sqrt(own[arm]) + np.delete(own**1.5, arm).sum())
        z = min(z, beta * abs(d) * (1 - own[arm]))
        h = np.sqrt(own).sum() - 1
        assert F[row + v.BETA] == pytest.approx(beta + z / (beta * h), rel=1e-7)


def test_the_sums_are_those_of_the_weights():
    for n_arms in (2, 8, 30):
        F, row, kernels = packed(bw.TsallisINFV(), n_arms)
        rng = np.random.default_rng(n_arms)
        w = np.zeros(n_arms)
        for t in range(1, 400):
            F[ROUND] = t
            arm = kernels.ask(F)
            kernels.weights(F, w)
            sums = F[row + v.SUMS :]
            assert sums[half.ROOTS] == pytest.approx(np.sqrt(w).sum(), rel=1e-11)
            assert sums[half.CUBES] == pytest.approx((w**1.5).sum(), rel=1e-9)
            kernels.tell(F, arm, F[row], float(rng.random() < 0.5 + 0.3 * (arm > 0)))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InvalidParameter, match="The rate of TsallisINFV must be"):
        bw.TsallisINFV(rate="fast")
    for prior in (0.0, -1.0, math.nan, "1"):
        with pytest.raises(InvalidParameter, match="The prior of TsallisINFV must be"):
            bw.TsallisINFV(prior=prior)


def test_a_newcomer_has_the_probability_it_was_given():
    bandit = bw.Bandit(bw.TsallisINFV(), arms=["a", "b"], seed=1)
    for _ in range(200):
        decision = bandit.ask()
        bandit.tell(decision, loss=0.9 if decision.arm == "a" else 1.0)
    bandit.add_arm("c", probability=0.2)
    assert bandit.probabilities()["c"] == pytest.approx(0.2, rel=1e-9)


# --- regret -----------------------------------------------------------------------------------

HORIZON, RUNS = 10_000, 400
LOW = bw.environments.Stochastic([0.95] + [0.98] * 7)
CELLS = [
    ("matched", LOW, 86.4, 1.3),
    ("matched", bw.environments.Switching(6, 0.2), 98.8, 1.4),
    ("matched", bw.environments.Stochastic.gap(8, 1 / 8), 178.5, 4.2),
    ("residual", LOW, 92.0, 1.0),
    ("residual", bw.environments.Switching(6, 0.2), 95.4, 1.4),
    ("residual", bw.environments.Stochastic.gap(8, 1 / 8), 170.5, 3.2),
]
"""Mean regrets and standard errors of an independent implementation."""


def agrees(policy, world, mean, error):
    """Whether the mean regret is the expected one within 4 combined errors and 1 %."""
    result = bw.simulate(
        {"it": policy}, world, horizon=HORIZON, repetitions=RUNS, seed=17, progress=False
    )
    regret = result.regret["it"][:, -1]
    combined = math.hypot(error, regret.std(ddof=1) / math.sqrt(RUNS))
    return abs(regret.mean() - mean) <= 4.0 * combined + 0.01 * mean


@pytest.mark.statistical
@pytest.mark.parametrize(("rate", "world", "mean", "error"), CELLS)
def test_the_regret_is_that_of_an_independent_implementation(rate, world, mean, error):
    assert agrees(bw.TsallisINFV(rate=rate), world, mean, error)


@pytest.mark.statistical
def test_another_policy_would_be_found():
    """Negative control: on low rates reduced variance has more than twice the regret."""
    assert not agrees(bw.TsallisINF(), LOW, 86.4, 1.3)
