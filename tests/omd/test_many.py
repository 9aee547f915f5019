"""Many arms: exact weights, families and draws, against a loop over all arms."""

import math
import pickle

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import bothworlds as bw
from bothworlds.errors import DecisionClosed
from bothworlds.lanes.kernels import ARMS, GENERATOR, HEAD, PARAMETERS, ROUND
from bothworlds.lanes.random import WORDS
from bothworlds.omd.estimators import BASELINE
from bothworlds.omd.many import layout
from bothworlds.policies import tsallis_inf
from bothworlds.policies.tsallis_inf import many as tsallis_many
from bothworlds.seeding import stream_words
from helpers.programs import own_program

KERNELS = {"iw": tsallis_many.MANY_IW, "rv": tsallis_many.MANY_RV}
FIELDS = {"iw": layout.FIELDS_IW, "rv": layout.FIELDS_RV}


def packed(estimator, n_arms, seed=0, learning_rate=None, estimates=None):
    """A bandit with the kernels for many arms, whatever the number of arms."""
    parameters = bw.TsallisINF(estimator=estimator, learning_rate=learning_rate).parameters(n_arms)
    F = np.zeros(HEAD + parameters.size + layout.SHARED + FIELDS[estimator] * n_arms)
    F[ARMS], F[PARAMETERS], F[ROUND] = n_arms, parameters.size, 1
    F[GENERATOR : GENERATOR + WORDS] = stream_words(seed, "many").view(np.float64)
    F[HEAD : HEAD + parameters.size] = parameters
    row = HEAD + parameters.size
    if estimates is not None:
        F[row + layout.SHARED : row + layout.SHARED + n_arms] = estimates
    return F, row


def rate(F, row, t):
    return tsallis_inf.rate_now(int(F[ARMS]), t, F[HEAD:row])


def exact(L, eta):
    """Solve the OMD step in extended precision; return the weights and y."""
    L, eta = L.astype(np.longdouble), np.longdouble(eta)
    x = L.min() - 2 / eta
    for _ in range(200):
        r = 2 / (eta * (L - x))
        step = (np.sum(r * r) - 1) / (eta * np.sum(r**3))
        x -= step
        if abs(step) < 1e-18 * (L.min() - x):
            break
    return (2 / (eta * (L - x))) ** 2, L - x


def estimates_of(F, row):
    F = F.copy()
    tsallis_many.MANY_IW.write_back(F)
    return F[row + layout.SHARED : row + layout.SHARED + int(F[ARMS])]


def worst_error(estimator, F, row, t, L):
    """Ask at round t on a copy; return the worst relative error of a weight, and misplaced arms."""
    kernels = KERNELS[estimator]
    F = F.copy()
    F[ROUND] = t
    arm = kernels.ask(F)
    w = np.zeros(L.size)
    kernels.weights(F, w)
    assert w[arm] == pytest.approx(1 / F[row], rel=1e-14)
    eta = rate(F, row, t)
    truth, y = exact(L, eta)
    misplaced = 0
    if estimator == "rv":
        near = np.zeros(L.size, np.bool_)
        kernels.near(F, near)
        limit = 2 / np.longdouble(eta) ** 2
        # At equality rounding decides.
        decided = np.abs(y / limit - 1) > 1e-12
        misplaced = int(np.sum((near != (y <= limit)) & decided))
    return float(np.max(np.abs(w / truth - 1))), misplaced


def check_structure(estimator, F, row):
    """Every arm has one slot, a place in its family's heap, and a y inside its bucket."""
    S, W = F[row:], F[row:].view(np.int64)
    K = int(F[ARMS])
    field = [slice(layout.SHARED + f * K, layout.SHARED + (f + 1) * K) for f in range(6)]
    V, order, slots = S[field[1]], W[field[2]], W[field[3]]
    assert sorted(order) == list(range(K))
    assert np.array_equal(slots[order], np.arange(K))
    ends, keys = [], []
    for rank in range(W[layout.COUNT] + 1):
        ends.append(int(W[layout.bucket(rank) + layout.START]))
        keys.append(int(W[layout.bucket(rank) + layout.KEY]))
    assert ends[0] == 0
    assert ends[-1] == K
    assert np.all(np.diff(ends) > 0)
    assert np.all(np.diff(keys[:-1]) > 0)
    for rank in range(len(ends) - 1):
        row_of = layout.bucket(rank)
        members = V[ends[rank] : ends[rank + 1]]
        if keys[rank] != layout.BAND:
            y = (members - S[row_of + layout.CENTRE]).astype(np.longdouble)
            assert S[row_of + layout.LOW] <= y.min() * (1 + 1e-12)
            sums = S[row_of + layout.T2 : row_of + layout.T2 + layout.TERMS].copy()
            sums[0] += S[row_of + layout.REST]
            for k, sum_k in enumerate(sums):
                powers = (y * S[row_of + layout.SCALE]) ** -(k + 2)
                assert sum_k == pytest.approx(float(powers.sum()), rel=1e-9)
    if estimator == "rv":
        near = int(np.searchsorted(keys[:-1], layout.BAND))
        far = int(np.searchsorted(keys[:-1], layout.FIRST_FAR))
        assert W[layout.NEAR] == ends[near]
        assert W[layout.FAR] == K - ends[far]
        heap, places, by_arm = W[field[4]], W[field[5]], S[field[0]]
        for arms, start, sign in (
            (heap[: ends[near]], 0, 1),
            (heap[::-1][: K - ends[far]], ends[far], -1),
        ):
            members = order[start : start + arms.size]
            assert sorted(arms) == sorted(members)
            assert np.array_equal(places[arms], np.arange(arms.size))
            assert np.array_equal(by_arm[members], V[slots[members]])
            for i in range(1, arms.size):
                assert sign * by_arm[arms[(i - 1) // 2]] >= sign * by_arm[arms[i]]


@numba.njit
def play(ask, tell, near_of, F, row, L, reduced, start, stop, gap, good):
    """Play rounds against Bernoulli losses, keeping the estimates in ``L`` by a plain loop."""
    near = np.zeros(L.size, np.bool_)
    for t in range(start, stop):
        F[ROUND] = t
        arm = ask(F)
        loss = 1.0 if np.random.random() < 0.5 + (-0.5 if arm < good else 0.5) * gap else 0.0
        base = 0.0
        if reduced:
            near_of(F, near)
            base = BASELINE if near[arm] else 0.0
            for i in range(L.size):
                L[i] += BASELINE if near[i] else 0.0
        L[arm] += (loss - base) * F[row]
        tell(F, arm, F[row], loss)


@numba.njit
def rush(ask, tell, F, row, start, stop, gap, good):
    """Play rounds against Bernoulli losses, keeping nothing."""
    for t in range(start, stop):
        F[ROUND] = t
        arm = ask(F)
        loss = 1.0 if np.random.random() < 0.5 + (-0.5 if arm < good else 0.5) * gap else 0.0
        tell(F, arm, F[row], loss)


@numba.njit
def seed_numba(seed):
    np.random.seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["iw", "rv"])
@pytest.mark.parametrize("n_arms", [3, 40, 1000])
def test_weights_and_families_along_runs(estimator, n_arms):
    F, row = packed(estimator, n_arms, seed=n_arms)
    kernels = KERNELS[estimator]
    seed_numba(n_arms)
    L = np.zeros(n_arms)
    t = 1
    for stop in np.unique(np.geomspace(2, 60 * max(n_arms, 500), 40).astype(int)):
        play(
            kernels.ask, kernels.tell, tsallis_many.MANY_RV.near, F, row, L, estimator == "rv",
            t, stop, 0.25, 2,
        )  # fmt: skip
        t = stop
        error, misplaced = worst_error(estimator, F, row, t, L)
        assert error < 1e-11
        assert misplaced == 0
        check_structure(estimator, F, row)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "n_arms", "stops"),
    [
        ("iw", 10_000, (100, 3000, 10_000, 200_000)),
        ("iw", 100_000, (1000, 50_000, 300_000)),
        ("iw", 1_000_000, (100_000,)),
        ("rv", 10_000, (100, 10_000, 60_000, 150_000, 170_000, 400_000)),
        ("rv", 100_000, (1000, 50_000, 400_000)),
        ("rv", 1_000_000, (50_000,)),
    ],
)
def test_weights_with_very_many_arms(estimator, n_arms, stops):
    F, row = packed(estimator, n_arms, seed=5)
    kernels = KERNELS[estimator]
    seed_numba(5)
    t = 1
    for stop in stops:
        rush(kernels.ask, kernels.tell, F, row, t, stop, 0.25, 3)
        t = stop
        error, misplaced = worst_error(estimator, F, row, t, estimates_of(F, row))
        assert error < 1e-11
        assert misplaced == 0


@pytest.mark.slow
@settings(max_examples=60)
@given(
    estimator=st.sampled_from(["iw", "rv"]),
    n_arms=st.integers(1, 70),
    rule=st.sampled_from(["zero", "one", "half", "alternate", "best changes", "random"]),
    learning_rate=st.sampled_from([None, 1e-3, 0.05, 0.7, 30.0]),
    spread=st.sampled_from([0.0, 1.0, 1e3, 1e8]),
    start=st.sampled_from([1, 100, 5000]),
    seed=st.integers(0, 1000),
)
def test_any_losses_from_any_state(estimator, n_arms, rule, learning_rate, spread, start, seed):
    rng = np.random.default_rng(seed)
    L = rng.random(n_arms) ** 4 * spread
    F, row = packed(estimator, n_arms, seed, learning_rate, L)
    kernels = KERNELS[estimator]
    near = np.zeros(n_arms, np.bool_)
    L = L.astype(np.longdouble)
    for t in range(start, start + 150):
        F[ROUND] = t
        arm = kernels.ask(F)
        loss = {
            "zero": 0.0,
            "one": 1.0,
            "half": 0.5,
            "alternate": float(t % 2),
            "best changes": float(arm % 3 != (t // 30) % 3),
            "random": rng.random(),
        }[rule]
        base = 0.0
        if estimator == "rv":
            kernels.near(F, near)
            L[near] += BASELINE
            base = BASELINE * near[arm]
        L[arm] += (loss - base) * F[row]
        kernels.tell(F, arm, F[row], loss)
        if t % 30 == 0:
            error, misplaced = worst_error(estimator, F, row, t + 1, L)
            # The estimates themselves have rounding errors, against the least y, 2 / eta.
            assert error < 1e-11 + 1e-14 * spread * rate(F, row, t)
            assert misplaced == 0
            check_structure(estimator, F, row)


def spread_out(n_arms, eta, decades=6.0):
    """Estimates whose weights span ``decades`` powers of ten."""
    w = np.logspace(0, -decades, n_arms)
    return 2 / (eta * np.sqrt(w / w.sum()))


@numba.njit
def counts_of(ask, F, n, out):
    """Draw n times from the same state, with the generator running on."""
    G = F[3:7].copy()
    for _ in range(n):
        frozen = F.copy()
        frozen[3:7] = G
        out[ask(frozen)] += 1
        G[:] = frozen[3:7]


def chi_square(counts, w):
    """p-value of the counts under the weights, arms with few expected draws put together."""
    expected = w * counts.sum()
    few = expected < 10
    seen = np.append(counts[~few], counts[few].sum())
    wanted = np.append(expected[~few], expected[few].sum())
    keep = wanted > 0
    return stats.chisquare(seen[keep], wanted[keep] * seen[keep].sum() / wanted[keep].sum()).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["iw", "rv"])
@pytest.mark.parametrize("t", [1, 300, 40_000])
def test_draws_follow_the_weights(estimator, t):
    n_arms, n = 150, 300_000
    F, row = packed(estimator, n_arms, seed=t)
    eta = rate(F, row, t)
    L = spread_out(n_arms, eta)
    F, row = packed(estimator, n_arms, seed=t, estimates=L)
    F[ROUND] = t
    KERNELS[estimator].ask(F)
    counts = np.zeros(n_arms, np.int64)
    counts_of(KERNELS[estimator].ask, F, n, counts)
    w = exact(L, eta)[0].astype(np.float64)
    assert w.max() / w.min() > 0.9e6
    assert chi_square(counts, w) > 1e-3
    # The test sees a change of 6 % in every other arm.
    wrong = w * np.where(np.arange(n_arms) % 2 == 0, 1.06, 1.0)
    assert chi_square(counts, wrong / wrong.sum()) < 1e-6


@pytest.mark.statistical
def test_draws_of_light_arms_follow_the_weights():
    """Within the tail: the heavy arm is drawn in 99 of 100 rounds, the others span the decades."""
    n_arms, n, t = 400, 2_000_000, 10**6
    F, row = packed("iw", n_arms)
    w = np.append(
        0.99, 0.01 * np.logspace(0, -4, n_arms - 1) / np.logspace(0, -4, n_arms - 1).sum()
    )
    L = 2 / (rate(F, row, t) * np.sqrt(w))
    F, row = packed("iw", n_arms, seed=8, estimates=L)
    F[ROUND] = t
    KERNELS["iw"].ask(F)
    counts = np.zeros(n_arms, np.int64)
    counts_of(KERNELS["iw"].ask, F, n, counts)
    tail = w[1:] / w[1:].sum()
    assert chi_square(counts[1:], tail) > 1e-3
    assert chi_square(counts[1:], np.sqrt(tail) / np.sqrt(tail).sum()) < 1e-12


# --- through the front door ------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["iw", "rv"])
def test_bandit_and_simulation_choose_the_kernels_by_the_number_of_arms(estimator):
    policy = bw.TsallisINF(estimator=estimator)
    assert policy.program(tsallis_inf.MANY - 1).kernels is policy.kernels()
    assert policy.program(tsallis_inf.MANY).kernels is KERNELS[estimator]
    assert policy.program(10**6).start().nbytes / 10**6 < 200
    general = bw.TsallisINF(alpha=0.4)
    assert general.program(10**6).kernels is general.kernels()


def told(bandit, rounds, losses):
    """Play with losses by index; return the arms."""
    played = []
    for _ in range(rounds):
        decision = bandit.ask()
        bandit.tell(decision, loss=float(losses[decision.index]))
        played.append(decision.arm)
    return played


@pytest.mark.parametrize("estimator", ["iw", "rv"])
def test_decisions_carry_exact_probabilities(estimator):
    n_arms = tsallis_inf.MANY + 50
    bandit = bw.Bandit(bw.TsallisINF(estimator=estimator), arms=n_arms, seed=2)
    told(bandit, 5000, np.linspace(0, 1, n_arms))
    foreseen = bandit.probabilities()
    decision = bandit.ask()
    assert decision.probability == pytest.approx(foreseen[decision.arm], rel=1e-14)
    assert decision.probabilities == foreseen
    assert math.fsum(foreseen.values()) == pytest.approx(1, abs=1e-12)
    L = np.array([arm.estimate for arm in bandit.history().values()])
    assert bandit.ask().probability is not None
    eta = (4 if estimator == "rv" else 2) / math.sqrt(decision.round)
    assert np.allclose(list(foreseen.values()), exact(L, eta)[0].astype(float), rtol=1e-11)


@pytest.mark.parametrize("change", ["tell", "ask", "late tell", "add_arm", "pickle"])
def test_probabilities_of_all_arms_are_there_until_the_bandit_goes_on(change):
    bandit = bw.Bandit(bw.TsallisINF(), arms=tsallis_inf.MANY, seed=3)
    before = bandit.ask()
    decision = bandit.ask()
    if change == "tell":
        bandit.tell(decision, loss=0.5)
    elif change == "ask":
        bandit.ask()
    elif change == "late tell":
        bandit.tell(before, loss=1.0)
    elif change == "add_arm":
        # The decision still holds the state it was drawn from, which nothing changes any more.
        bandit.add_arm("new")
        assert decision.probabilities[decision.arm] == pytest.approx(decision.probability)
        return
    else:
        decision = pickle.loads(pickle.dumps(decision))
    with pytest.raises(DecisionClosed, match="must be read before the bandit"):
        _ = decision.probabilities
    assert decision.probability == pytest.approx(1 / tsallis_inf.MANY)


@pytest.mark.parametrize("estimator", ["iw", "rv"])
def test_saved_copied_and_pickled_bandits_go_on_bit_for_bit(estimator, tmp_path):
    n_arms = 2 * tsallis_inf.MANY
    losses = np.random.default_rng(4).random(n_arms)
    bandit = bw.Bandit(bw.TsallisINF(estimator=estimator), arms=n_arms, seed=4)
    told(bandit, 3000, losses)
    waiting, fresh = bandit.ask(), bandit.ask()
    bandit.save(tmp_path / "bandit.json")
    others = [bw.Bandit.load(tmp_path / "bandit.json"), bandit.copy()]
    others.append(pickle.loads(pickle.dumps(bandit)))
    for one in (bandit, *others):
        one.tell(fresh.id, loss=0.2)
        one.tell(waiting.id, loss=0.9)
    expected = told(bandit, 500, losses)
    for one in others:
        assert told(one, 500, losses) == expected
        assert one.history() == bandit.history()


@pytest.mark.parametrize("estimator", ["iw", "rv"])
def test_arms_come_and_go_across_the_threshold(estimator):
    many = tsallis_inf.MANY
    bandit = bw.Bandit(bw.TsallisINF(estimator=estimator), arms=many, seed=6)
    losses = np.linspace(0, 1, many + 3)
    told(bandit, 4000, losses)
    before = bandit.probabilities()
    bandit.retire_arm(7)
    assert len(bandit) == many - 1
    fewer = bandit.probabilities()
    assert 7 not in fewer
    assert fewer[0] > before[0]
    told(bandit, 200, losses)
    bandit.add_arm("a", probability=0.1)
    assert bandit.probabilities()["a"] == pytest.approx(0.1, rel=1e-11)
    bandit.add_arm("b", probability=0.2)
    assert bandit.probabilities()["b"] == pytest.approx(0.2, rel=1e-11)
    assert len(bandit) == many + 1
    told(bandit, 200, losses)
    bandit.retire_arm("a")
    bandit.retire_arm("b")
    late = bandit.ask(available=[name for name in bandit.arms if name != 3])
    assert 3 not in late.probabilities
    assert len(late.probabilities) == many - 2
    few = bandit.ask(available=[0, 1, 2])
    assert sorted(few.probabilities) == [0, 1, 2]
    bandit.tell(late, loss=0.0)
    bandit.tell(few, loss=1.0)
    assert math.fsum(bandit.probabilities().values()) == pytest.approx(1, abs=1e-12)


class Plain(bw.TsallisINF):
    """The same algorithm with a look at every arm, however many there are."""

    program = own_program


def beyond_least(bandit):
    return np.array([arm.estimate for arm in bandit.history().values()])


@pytest.mark.parametrize("estimator", ["iw", "rv"])
def test_late_feedback_means_the_same_as_with_a_look_at_every_arm(estimator):
    """The other bandit draws other arms, so it is handed the decisions of this one."""
    n_arms, rng = tsallis_inf.MANY, np.random.default_rng(9)
    bandit = bw.Bandit(bw.TsallisINF(estimator=estimator), arms=n_arms, seed=9)
    L = np.zeros(n_arms)
    waiting = []
    for t in range(1, 400):
        decision = bandit.ask()
        near = np.zeros(n_arms, np.bool_)
        if estimator == "rv":
            near = np.array(list(decision.probabilities.values())) >= 16 / t
        waiting.append((decision, near))
        if t % 3 == 0:
            for _ in range(int(rng.integers(1, 5))):
                if waiting:
                    old, near = waiting.pop(int(rng.integers(len(waiting))))
                    loss = rng.random()
                    bandit.tell(old, loss=loss)
                    L += BASELINE * near
                    L[old.index] += (loss - BASELINE * near[old.index]) / old.probability
    assert np.allclose(beyond_least(bandit), L - L.min(), rtol=1e-11, atol=1e-9 * L.max())


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["iw", "rv"])
def test_regret_is_that_of_a_look_at_every_arm(estimator):
    """Two means of 320 runs each; the wrong learning rate is told apart at once."""
    world = bw.environments.Stochastic.gap(tsallis_inf.MANY, 0.5)
    policies = {
        "many": bw.TsallisINF(estimator=estimator),
        "plain": Plain(estimator=estimator),
        "wrong": bw.TsallisINF(estimator=estimator, learning_rate=bw.omd.InverseSqrt(1.0)),
    }
    result = bw.simulate(policies, world, horizon=8000, repetitions=320, seed=3, progress=False)
    last = {name: regret[:, -1] for name, regret in result.regret.items()}
    spread = math.sqrt(last["many"].var() / 320 + last["plain"].var() / 320)
    assert abs(last["many"].mean() - last["plain"].mean()) < 4 * spread
    assert abs(last["wrong"].mean() - last["plain"].mean()) > 10 * spread


def test_simulation_does_not_depend_on_tiles_or_threads():
    world = bw.environments.Stochastic.gap(20_000, 0.25)
    runs = [
        bw.simulate(
            bw.TsallisINF(),
            world,
            horizon=3000,
            repetitions=n,
            seed=1,
            threads=threads,
            progress=False,
        )
        for n, threads in ((5, 1), (5, 2), (3, 1))
    ]
    first, second, third = (run.regret["TsallisINF()"] for run in runs)
    assert np.array_equal(first, second)
    assert np.array_equal(first[:3], third)
