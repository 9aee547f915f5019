"""HTINF and AdaTINF: which losses are learned from, what a bandit does with any finite loss."""

import json
import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.state import first_row, pack
from bothworlds.bandit.state_file import checksum
from bothworlds.errors import InvalidFeedback, InvalidParameter, StateFileError
from bothworlds.lanes.kernels import HEAD, ROUND
from bothworlds.policies import adatinf, htinf
from bothworlds.seeding import stream_words

THETA = 1 - 2 ** (-1 / 3)


def packed(policy, n_arms, seed=3):
    F = pack(policy, n_arms, stream_words(seed, "heavy"))
    return F, first_row(F), policy.kernels()


def estimates(policy, F, row, n_arms):
    return F[row + policy.traits.head_rows :][:n_arms].copy()


@pytest.mark.parametrize("n_arms", [3, 20])
def test_with_an_infinite_limit_and_scale_1_it_is_tsallis_inf_bit_for_bit(n_arms):
    plain, own = bw.TsallisINF(estimator="iw"), bw.HTINF(scale=1.0, skip="both")
    F, row, kernels = packed(plain, n_arms)
    M, start, ours = packed(own, n_arms)
    M[HEAD + htinf.LIMIT] = math.inf
    rng = np.random.default_rng(1)
    for t in range(1, 3001):
        F[ROUND] = M[ROUND] = t
        arm = kernels.ask(F)
        assert ours.ask(M) == arm and M[start] == F[row]
        loss = float(rng.random())
        kernels.tell(F, arm, F[row], loss)
        ours.tell(M, arm, M[start], loss)
    assert M[start + htinf.SKIPPED] == 0


@pytest.mark.parametrize(
    "policy", [bw.HTINF(2.0), bw.HTINF(2.0, "both"), bw.HTINF(2.0, "both", 1.5)]
)
@pytest.mark.parametrize("n_arms", [3, 20])
def test_a_loss_counts_within_the_limit_of_its_decision(policy, n_arms):
    F, row, kernels = packed(policy, n_arms)
    a = policy.tail
    factor = min(1 - 2 ** (-(a - 1) / (2 * a - 1)), (2 - 2 / a) ** (1 / (2 - a)) if a < 2 else 1)
    for t in range(1, 200):
        F[ROUND] = t
        arm = kernels.ask(F)
        w = np.zeros(n_arms)
        kernels.weights(F, w)
        assert w.sum() == pytest.approx(1.0)
        expected = bw.omd.weights(
            estimates(policy, F, row, n_arms), a / (a - 1) / (2.0 * t ** (1 / a)), 1 / a
        )
        assert w == pytest.approx(expected, rel=1e-9)
        limit = factor * 2.0 * (t * w[arm]) ** (1 / a)
        for share in (-1.001, -0.999, 0.999, 1.001, 1e3):
            G = F.copy()
            kernels.tell(G, arm, F[row], share * limit)
            kept = share >= -1 and (share <= 1 or policy.skip == "below")
            rise = estimates(policy, G, row, n_arms) - estimates(policy, F, row, n_arms)
            due = share * limit / w[arm] if kept else 0.0
            assert rise[arm] == pytest.approx(due, rel=1e-9)
            assert np.delete(rise, arm).tolist() == [0.0] * (n_arms - 1)
            assert G[row + htinf.SKIPPED] - F[row + htinf.SKIPPED] == (not kept)
        kernels.tell(F, arm, F[row], 0.9 * limit * (1 if arm else -1))


def test_adatinf_raises_its_scale_as_the_definition_says():
    K, T = 3, 500
    policy = bw.AdaTINF(horizon=T)
    F, row, kernels = packed(policy, K)
    rng = np.random.default_rng(5)
    J, spent, skipped, L = 0, 0.0, 0, np.zeros(K)
    allowed = math.sqrt(K * (T + 1))
    for t in range(1, T + 1):
        F[ROUND] = t
        eta = 2 / (2.0**J * math.sqrt(t))
        arm = kernels.ask(F)
        w = bw.omd.weights(L, eta)
        assert 1 / F[row] == pytest.approx(w[arm], rel=1e-9)
        loss = float(rng.standard_t(1.5) * 30.0 + arm)
        if abs(loss) <= THETA * 2.0**J * math.sqrt(t * w[arm]):
            L[arm] += loss / w[arm]
            c = eta / math.sqrt(w[arm]) * loss**2
        else:
            skipped += 1
            c = abs(loss)
        spent += c
        if spent > 2.0**J * allowed:
            J = max(J + 1, math.ceil(math.log2(c / allowed)) + 1)
            spent = c
        kernels.tell(F, arm, F[row], loss)
        assert F[row + adatinf.SCALE] == 2.0**J
        assert F[row + adatinf.SPENT] == pytest.approx(spent, rel=1e-9)
    assert J >= 3 and 0 < skipped < T
    assert F[row + adatinf.SKIPPED] == skipped


@pytest.mark.parametrize("policy", [bw.HTINF(1.0), bw.AdaTINF(100)], ids=repr)
def test_a_jump_of_the_losses_by_any_factor_is_survived(policy):
    for n_arms in (3, 20):
        bandit = bw.Bandit(policy, n_arms, seed=1)
        for t in range(300):
            loss = [1.0, -3.0, 1e12, -1e300, 1e300, 0.0][t % 6]
            bandit.tell(bandit.ask(), loss=loss)
            p = np.array(list(bandit.probabilities().values()))
            assert p.sum() == pytest.approx(1.0, abs=1e-9) and (p >= 0).all()
        assert bw.Bandit.loads(bandit.dumps()).probabilities() == pytest.approx(
            bandit.probabilities(), abs=1e-9
        )


# --- in a bandit ------------------------------------------------------------------------------


def test_a_bandit_takes_any_finite_loss_and_nothing_else():
    bandit = bw.Bandit(bw.HTINF(scale=10.0), arms=["a", "b"], seed=1)
    assert bandit.bounds == (-math.inf, math.inf)
    told = {"a": [], "b": []}
    for loss in (3.5, -0.25, 12_000, True, np.float32(7.0)):
        decision = bandit.ask()
        bandit.tell(decision, loss=loss)
        told[decision.arm].append(float(loss))
    decision = bandit.ask()
    for wrong in (math.nan, math.inf, -math.inf, "3", None, 1j):
        with pytest.raises(InvalidFeedback):
            bandit.tell(decision, loss=wrong)
    with pytest.raises(InvalidFeedback, match="a finite number, got nan"):
        bandit.tell_many([decision], losses=[math.nan])
    bandit.tell(decision, reward=80.0)
    told[decision.arm].append(-80.0)
    for name, arm in bandit.history().items():
        assert arm.mean_loss == pytest.approx(np.mean(told[name]))
        assert arm.mean_reward == pytest.approx(-np.mean(told[name]))


def test_many_losses_at_once():
    one, other = (bw.Bandit(bw.HTINF(scale=10.0), arms=4, seed=1) for _ in range(2))
    decisions = one.ask_many(50)
    one.tell_many(decisions, losses=np.linspace(-5.0, 500.0, 50))
    for decision, loss in zip(other.ask_many(50), np.linspace(-5.0, 500.0, 50), strict=True):
        other.tell(decision, loss=loss)
    assert one.probabilities() == other.probabilities()
    assert one.skipped == other.skipped > 0


def test_what_was_skipped_is_counted_and_shown(tmp_path):
    bandit = bw.Bandit(bw.HTINF(scale=1.0), arms=["a", "b"], seed=1)
    assert "skipped" not in repr(bandit)
    for loss in (-50.0, 1.0, -50.0):
        bandit.tell(bandit.ask(), loss=loss)
    assert bandit.skipped == 2
    assert repr(bandit).endswith("seed=1)  # 2 losses skipped")
    assert "2 losses skipped" in bandit._repr_html_()
    bandit.save(tmp_path / "state.json")
    again = bw.Bandit.load(tmp_path / "state.json")
    assert again.skipped == 2 and again.bounds == bandit.bounds
    assert bw.Bandit(bw.TsallisINF(), arms=2).skipped == 0
    floored = bw.Bandit(bw.Floor(bw.HTINF(scale=1.0), 0.5), arms=2, seed=1)
    floored.tell(floored.ask(), loss=-50.0)
    assert floored.skipped == 1


@pytest.mark.parametrize(
    "policy", [bw.HTINF(30.0), bw.HTINF(30.0, "both"), bw.AdaTINF(1000)], ids=repr
)
def test_late_losses_are_judged_by_their_decision(policy):
    """Told late, one by one, losses leave what they leave told at once to the same decisions."""
    rng = np.random.default_rng(1)
    bandit = bw.Bandit(policy, arms=3, seed=1)
    for _ in range(100):
        bandit.tell(bandit.ask(), loss=float(30 * rng.standard_t(3)))
    prompt, late = bandit.copy(), bandit.copy()
    loss = 12.0
    prompt.tell(prompt.ask(), loss=loss)
    decision = late.ask()
    late.ask()
    late.tell(decision, loss=loss)
    one, other = ([arm.estimate for arm in each.history().values()] for each in (prompt, late))
    assert one == pytest.approx(other)
    assert prompt.skipped == late.skipped


def test_a_skipped_loss_moves_no_arm_that_was_missing():
    bandit = bw.Bandit(bw.HTINF(1.0, "both"), arms=["a", "b", "c"], seed=1)
    for _ in range(30):
        bandit.tell(bandit.ask(), loss=0.5)
    start = bandit._core.start + bandit.policy.traits.head_rows
    skipped, before = bandit.skipped, bandit._core.F[start:].copy()
    bandit.tell(bandit.ask(available=["a", "b"]), loss=1e6)
    assert bandit.skipped == skipped + 1
    rise = bandit._core.F[start:] - before
    assert rise - rise.min() == pytest.approx(np.zeros(3), abs=1e-9)
    # A loss that is learned from raises the missing arm by itself.
    before = bandit._core.F[start:].copy()
    decision = bandit.ask(available=["a", "b"])
    bandit.tell(decision, loss=0.125)
    rise = bandit._core.F[start:] - before
    other = 1 - decision.index
    assert rise[2] - rise[other] == pytest.approx(0.125)
    assert rise[decision.index] - rise[other] == pytest.approx(0.125 / decision.probability)


def test_bounds_limit_it_as_any_policy_and_evidence_needs_them():
    bounded = bw.Bandit(bw.HTINF(1.0), arms=2, seed=1, bounds=(0, 10), evidence=True)
    bounded.tell(bounded.ask(), loss=5)
    with pytest.raises(InvalidFeedback, match=r"in \[0, 10\]"):
        bounded.tell(bounded.ask(), loss=11)
    with pytest.raises(InvalidParameter, match="The evidence of Bandit must be False"):
        bw.Bandit(bw.HTINF(1.0), arms=2, evidence=True)
    with pytest.raises(InvalidParameter):
        bw.Bandit(bw.Floor(bw.HTINF(1.0), 0.5), arms=2).report()


def test_a_state_file_without_bounds_is_refused_by_policies_that_need_them():
    for policy, fits in ((bw.HTINF(1.0), True), (bw.TsallisINF(), False)):
        document = json.loads(bw.Bandit(policy, arms=2, seed=1).dumps())
        document["content"]["bounds"] = None
        document["checksum"] = checksum(document["content"])
        if fits:
            assert bw.Bandit.loads(json.dumps(document)).policy == policy
        else:
            with pytest.raises(StateFileError):
                bw.Bandit.loads(json.dumps(document))


def test_a_log_of_any_losses_is_replayed():
    lines = []
    bandit = bw.Bandit(bw.HTINF(20.0), arms=["a", "b"], seed=1, log=lines.append)
    for t in range(60):
        bandit.tell(bandit.ask(), loss=float(t % 7) * 25.0 - 30.0)
    again = bw.replay(bw.HTINF(20.0), lines)
    assert again.skipped == bandit.skipped
    assert again.probabilities() == pytest.approx(bandit.probabilities(), abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"scale": 0.0}, "scale"),
        ({"scale": -1.0}, "scale"),
        ({"scale": math.nan}, "scale"),
        ({"scale": "1"}, "scale"),
        ({"scale": 1.0, "skip": "above"}, "skip"),
        ({"scale": 1.0, "skip": "both", "tail": 1.0}, "tail"),
        ({"scale": 1.0, "skip": "both", "tail": 2.5}, "tail"),
        ({"scale": 1.0, "tail": 1.5}, "tail"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, word):
    with pytest.raises(InvalidParameter, match=f"The {word} of HTINF must be"):
        bw.HTINF(**arguments)


# --- regret -----------------------------------------------------------------------------------

LATENCIES = bw.environments.HeavyTailed([1.0] + [1.5] * 4, "lognormal", 1.2)
STUDENT = bw.environments.HeavyTailed([0.0] + [0.5] * 5, "student", 2.2)
RUNS = 304


def final(world, **policies):
    result = bw.simulate(policies, world, horizon=10_000, repetitions=RUNS, seed=9, progress=False)
    regret = {name: values[:, -1] for name, values in result.regret.items()}
    return {
        name: (values.mean(), values.std(ddof=1) / math.sqrt(RUNS))
        for name, values in regret.items()
    }


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (LATENCIES, {"both": 1236, "below": 549, "ada": 1351}),
        (STUDENT, {"both": 547, "below": 388, "ada": 768}),
    ],
)
def test_the_regret_is_that_of_an_independent_implementation(world, expected):
    """Within 5 errors and 3 %: the numbers compared with are means of as few runs."""
    found = final(
        world, both=bw.HTINF(3.0, "both"), below=bw.HTINF(3.0), ada=bw.AdaTINF(horizon=10_000)
    )
    for name, mean in expected.items():
        assert abs(found[name][0] - mean) <= 5 * math.sqrt(2) * found[name][1] + 0.03 * mean, name
    # Negative control: the rules differ by more than that.
    assert found["both"][0] - found["below"][0] > 10 * max(found["both"][1], found["below"][1])
