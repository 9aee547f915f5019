"""Many arms that rise at speeds of their own: exact weights and draws, against all arms."""

import math

import numba
import numpy as np
import pytest
from scipy import stats

import bothworlds as bw
from bothworlds.bandit.state import first_row
from bothworlds.lanes.kernels import ARMS, GENERATOR, HEAD, PARAMETERS, ROUND
from bothworlds.omd.moving import layout as moving
from bothworlds.policies import waiting
from bothworlds.policies.tsallis_inf_v import kernels as v
from bothworlds.policies.tsallis_inf_v import many
from bothworlds.seeding import stream_words

POLICY = bw.TsallisINFV(rate="residual")
KERNELS = many.KERNELS
HEAD_ROWS = v.SOLVER + moving.SHARED


def packed(n_arms, seed=0):
    """A bandit with the kernels for many arms, whatever the number of arms."""
    parameters, state = POLICY.parameters(n_arms), many.program(POLICY, n_arms).start()
    F = np.zeros(HEAD + parameters.size + state.size)
    F[ARMS], F[PARAMETERS], F[ROUND] = n_arms, parameters.size, 1
    F[GENERATOR:HEAD] = stream_words(seed, "moving").view(np.float64)
    F[HEAD:] = np.concatenate([parameters, state])
    return F, first_row(F)


class Dense:
    """The same algorithm with a look at every arm."""

    def __init__(self, K):
        self.L, self.n, self.m, self.beta = np.zeros(K), np.zeros(K), np.full(K, 0.5), v.BETA_1

    def weights(self):
        return bw.omd.weights(self.L, v.RATE / self.beta)

    def learn(self, w, arm, loss):
        near = w >= (v.RATE / self.beta) ** 2
        base = np.where(near, self.m, 0.0)
        d = loss - base[arm]
        self.L += base
        self.L[arm] += d / w[arm]
        self.beta = math.sqrt(self.beta**2 + 2 * d * d)
        self.m[arm] += (loss - self.m[arm]) / (self.n[arm] + 2)
        self.n[arm] += 1
        return near


def solver_of(F, row):
    return F[row + v.SOLVER :]


def written(F, row, n_arms, settled=True):
    """The estimates by arm, with or without the baselines of the last decision."""
    G = F.copy()
    assert G[row + v.WAITING + waiting.OPEN] == 1.0
    if not settled:
        G[row + v.WAITING + waiting.OPEN] = 0.0
    KERNELS.write_back(G)
    return G[row + HEAD_ROWS :][:n_arms]


def band_size(F, row):
    words = solver_of(F, row).view(np.int64)
    start = moving.BUCKETS + moving.BAND * moving.WIDTH + moving.START
    return int(words[start + moving.WIDTH] - words[start])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_arms", "rounds", "low", "high"),
    [(40, 6000, 0.3, 0.7), (40, 6000, 0.94, 0.99), (600, 14_000, 0.1, 0.6)],
)
def test_weights_stay_those_of_a_look_at_every_arm(n_arms, rounds, low, high):
    F, row = packed(n_arms)
    dense, rng = Dense(n_arms), np.random.default_rng(1)
    means = np.linspace(low, high, n_arms)
    w = np.zeros(n_arms)
    worst, shares, band = 0.0, set(), 0
    for t in range(1, rounds + 1):
        F[ROUND] = t
        arm = KERNELS.ask(F)
        expected = dense.weights()
        if t % 7 == 0:
            KERNELS.weights(F, w)
            L = written(F, row, n_arms, settled=False)
            eta = v.RATE / F[row + v.BETA]
            worst = max(worst, np.abs(w / bw.omd.weights(L, eta) - 1).max())
            # Written for others, the estimates have the baselines of the open decision as well.
            base = np.where(w >= eta**2, F[row + HEAD_ROWS + n_arms :][:n_arms], 0.0)
            assert np.array_equal(written(F, row, n_arms), L + base)
        # Rounding grows from round to round, as estimates are made of weights.
        assert 1 / F[row] == pytest.approx(expected[arm], rel=1e-5)
        band = max(band, band_size(F, row))
        loss = float(rng.random() < means[arm])
        KERNELS.tell(F, arm, F[row], loss)
        near = dense.learn(expected, arm, loss)
        shares.add((near.any(), near.all()))
        if t % 500 == 0:
            assert many.program(POLICY, n_arms).sound(F[row:, None])
    assert worst < 1e-11
    assert {(False, False), (True, False)} <= shares and band > 0


def test_arms_that_did_not_move_would_be_found():
    """Negative control: near arms without their speeds have other weights within rounds."""
    n_arms = 40
    F, row = packed(n_arms)
    dense, rng = Dense(n_arms), np.random.default_rng(1)
    w, worst = np.zeros(n_arms), 0.0
    for t in range(1, 2001):
        F[ROUND] = t
        arm = KERNELS.ask(F)
        expected = dense.weights()
        KERNELS.weights(F, w)
        worst = max(worst, np.abs(w / expected - 1).max())
        loss = float(rng.random() < 0.3 + 0.01 * arm)
        if t > 1500:
            F[row + HEAD_ROWS + moving.SPEEDS * n_arms :][:n_arms] = 0.0
        KERNELS.tell(F, arm, F[row], loss)
        dense.learn(expected, arm, loss)
    assert worst > 1e-4


@numba.njit
def counted(ask, F, draws, n_arms):
    """Draw from the same state each time: a further ask would add the baselines of the last."""
    plays = np.zeros(n_arms)
    G = F.copy()
    for _ in range(draws):
        F[GENERATOR:HEAD] = G[GENERATOR:HEAD]
        G[:] = F
        plays[ask(G)] += 1
    return plays


@pytest.mark.statistical
def test_draws_follow_the_weights():
    n_arms, draws = 60, 400_000
    F, row = packed(n_arms)
    rng = np.random.default_rng(2)
    for t in range(1, 3000):
        F[ROUND] = t
        arm = KERNELS.ask(F)
        KERNELS.tell(F, arm, F[row], float(rng.random() < 0.2 + 0.01 * arm))
    F[ROUND] = 3000
    before = F.copy()
    KERNELS.ask(F)
    w = np.zeros(n_arms)
    KERNELS.weights(F, w)
    plays = counted(KERNELS.ask, before, draws, n_arms)
    assert stats.chisquare(plays, w / w.sum() * draws).pvalue > 1e-4
    # Negative control: one arm's weight 10 % off.
    other = w.copy()
    other[w.argmax()] *= 1.1
    assert stats.chisquare(plays, other / other.sum() * draws).pvalue < 1e-4


def test_a_damaged_state_is_not_sound():
    n_arms = 50
    F, row = packed(n_arms)
    for t in range(1, 1200):
        F[ROUND] = t
        arm = KERNELS.ask(F)
        KERNELS.tell(F, arm, F[row], float((t * 7 + arm) % 10 < 5))
    assert many.program(POLICY, n_arms).sound(F[row:, None])
    fields = v.SOLVER + moving.SHARED
    table = v.SOLVER + moving.BUCKETS
    for place, value in [
        (v.SOLVER + moving.BUILT, 2),
        (v.SOLVER + moving.NEAR, 51),
        (v.SOLVER + moving.BASE, 5000),
        (table + moving.START, 3),
        (table + moving.BAND * moving.WIDTH + moving.START, -1),
        (fields + moving.ARMS * n_arms, 50),
        (fields + moving.SLOTS * n_arms + 1, 7),
        (fields + moving.KEY * n_arms, 64),
        (fields + moving.HEAP * n_arms, -3),
        (fields + moving.PLACE * n_arms, 99),
    ]:
        damaged = F[row:].copy()
        words = damaged.view(np.int64)
        if words[place] == value:
            value += 1
        words[place] = value
        assert not many.program(POLICY, n_arms).sound(damaged[:, None]), place
    damaged = F[row:].copy()
    damaged[fields + moving.VALUES * n_arms] = math.nan
    assert not many.program(POLICY, n_arms).sound(damaged[:, None])


def told(bandit, rounds, rng):
    for _ in range(rounds):
        decision = bandit.ask()
        bandit.tell(decision, loss=float(rng.random() < 0.3 + 0.001 * (decision.index % 500)))


def test_a_bandit_of_many_arms_is_saved_and_goes_on():
    bandit = bw.Bandit(POLICY, arms=600, seed=4)
    told(bandit, 500, np.random.default_rng(1))
    again = bw.Bandit.loads(bandit.dumps())
    one, other = np.random.default_rng(2), np.random.default_rng(2)
    told(bandit, 300, one)
    told(again, 300, other)
    assert bandit.probabilities() == again.probabilities()
    assert bandit.ask().arm == again.ask().arm


def test_late_losses_and_arms_that_come_and_go_across_the_threshold():
    bandit = bw.Bandit(POLICY, arms=513, seed=4)
    told(bandit, 300, np.random.default_rng(1))
    baselines, late = [], []
    for _ in range(20):
        late.append(bandit.ask())
        baselines.append(bandit._core.F[bandit._core.start + v.BASE])
    beta = bandit._core.F[bandit._core.start + v.BETA]
    before = bandit.probabilities()
    bandit.tell(late[3], loss=1.0)
    after = bandit.probabilities()
    assert after[late[3].arm] < before[late[3].arm]
    # The residual of the decision, with the baseline it carries, moves the rate.
    moved = math.sqrt(beta**2 + 2 * (1.0 - baselines[3]) ** 2)
    beta = bandit._core.F[bandit._core.start + v.BETA]
    assert beta == pytest.approx(moved, rel=1e-15)
    for arm in (3, 4, 5):  # now 510: every arm is looked at
        bandit.retire_arm(arm)
    assert bandit._core.F[bandit._core.start + v.BETA] == beta
    told(bandit, 50, np.random.default_rng(1))
    beta = bandit._core.F[bandit._core.start + v.BETA]
    for name in ("a", "b", "c"):
        bandit.add_arm(name, probability=0.001)
    assert bandit._core.F[bandit._core.start + v.BETA] == beta
    assert bandit.probabilities()["c"] == pytest.approx(0.001, rel=1e-9)
    some = list(range(10, 20))
    assert bandit.ask(available=some).arm in some


def test_only_the_residual_rate_has_a_program_for_many_arms():
    assert POLICY.program(512).kernels is KERNELS
    assert POLICY.program(511).kernels is POLICY.kernels()
    assert bw.TsallisINFV().program(10_000).kernels is bw.TsallisINFV().kernels()
