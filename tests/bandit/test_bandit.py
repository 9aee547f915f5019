"""Bandit: deciding, late feedback, arms that come and go, refusals, speed of the bookkeeping."""

import copy
import math
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.bandit.state import columns
from bothworlds.errors import (
    BothworldsError,
    DecisionClosed,
    InvalidFeedback,
    InvalidParameter,
    KernelError,
    UnknownDecision,
)
from helpers.bandits import POLICIES, content

TSALLIS = [
    bw.TsallisINF(alpha=alpha, estimator=estimator)
    for alpha in (0.0, 0.3, 0.5, 0.8, 1.0)
    for estimator in ("iw", "rv")
]
by_repr = {"ids": repr}


def estimates(bandit):
    L = columns(bandit._core.F, bandit.policy)[0]
    return dict(zip(bandit.arms, (L - L.min()).tolist(), strict=True))


def play(bandit, rounds, rng, available=None):
    for _ in range(rounds):
        decision = bandit.ask(available)
        bandit.tell(decision, loss=float(rng.random()))


# --- deciding --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES, **by_repr)
def test_seed_determines_the_stream(policy):
    def arms(seed):
        bandit = bw.Bandit(policy, arms=4, seed=seed)
        rng = np.random.default_rng(0)
        drawn = []
        for _ in range(60):
            decision = bandit.ask()
            drawn.append(decision.arm)
            bandit.tell(decision, loss=float(rng.random()))
        return drawn

    assert arms(5) == arms(5)
    if policy.kernels().parts.draws:
        assert arms(5) != arms(6)


@pytest.mark.parametrize("policy", POLICIES, **by_repr)
def test_decisions_carry_the_probabilities_of_their_time(policy):
    bandit = bw.Bandit(policy, arms=["a", "b", "c", "d"], seed=3)
    rng = np.random.default_rng(1)
    made = []
    for round in range(1, 41):
        before = bandit.probabilities() if policy.traits.knows_probability else None
        decision = bandit.ask()
        made.append((decision, before))
        assert (decision.id, decision.round) == (round, round)
        assert decision.arm == "abcd"[decision.index]
        bandit.tell(decision, loss=float(rng.random()))
    for decision, before in made:  # first looked at long after the state has moved on
        if not policy.traits.knows_probability:
            assert decision.probability is None
            assert decision.probabilities is None
            continue
        assert decision.probabilities == pytest.approx(before, rel=1e-12)
        assert sum(before.values()) == pytest.approx(1.0, abs=1e-12)
        assert decision.probability == pytest.approx(before[decision.arm], rel=1e-9)
    with pytest.raises(TypeError):
        decision.probabilities["a"] = 0.5


def test_looking_draws_nothing():
    looked, left_alone = (bw.Bandit(bw.TsallisINF(), arms=3, seed=2) for _ in range(2))
    for _ in range(20):
        looked.probabilities()
        assert "Bandit(TsallisINF()" in repr(looked)
        assert looked._repr_html_().count("<tr>") == 4
        assert looked.history()[0].told <= looked.round
        left_alone.tell(left_alone.ask(), loss=0.25)
        looked.tell(looked.ask(), loss=0.25)
        assert content(looked) == content(left_alone)


def test_draws_follow_the_probabilities():
    bandit = bw.Bandit(bw.TsallisINF(), arms=4, seed=11)
    play(bandit, 30, np.random.default_rng(4))
    n = 4000
    expected = []
    counts = np.zeros(4)
    for _ in range(n):
        decision = bandit.ask()  # never told: the distribution flattens slowly with the rate
        expected.append([decision.probabilities[arm] for arm in range(4)])
        counts[decision.index] += 1
        bandit.expire(older_than=1)
    p = np.array(expected)
    sd = np.sqrt((p * (1 - p)).sum(axis=0))
    assert np.all(np.abs(counts - p.sum(axis=0)) < 4.5 * sd)
    assert np.any(np.abs(counts - n / 4) > 4.5 * sd)  # the uniform distribution would be noticed


def test_unknown_probabilities_are_not_invented():
    bandit = bw.Bandit(bw.ThompsonSampling(), arms=3, seed=1)
    with pytest.raises(InvalidParameter, match="knows its probabilities, got ThompsonSampling"):
        bandit.probabilities()
    assert "unknown" in bandit._repr_html_()


def test_repr_makes_the_same_bandit():
    bandit = bw.Bandit(bw.TsallisINF(alpha=0.3), arms=["x", 4], bounds=(-1, 3))
    twin = eval(repr(bandit), {"Bandit": bw.Bandit, "TsallisINF": bw.TsallisINF})
    assert [bandit.ask().arm for _ in range(30)] == [twin.ask().arm for _ in range(30)]
    assert twin.bounds == (-1.0, 3.0)
    assert len(twin) == 2


# --- feedback --------------------------------------------------------------------------------


def test_bounds_map_units_onto_losses():
    wide = bw.Bandit(bw.TsallisINF(), arms=3, seed=5, bounds=(-50, 200))
    unit = bw.Bandit(bw.TsallisINF(), arms=3, seed=5)
    rng = np.random.default_rng(0)
    for _ in range(50):
        loss = float(rng.integers(0, 251)) / 250
        as_reward = bool(rng.random() < 0.5)
        feedback = {"reward": 200 - 250 * loss} if as_reward else {"loss": 250 * loss - 50}
        wide.tell(wide.ask(), **feedback)
        unit.tell(unit.ask(), loss=loss)
    assert wide.probabilities() == pytest.approx(unit.probabilities(), rel=1e-9)
    mean = unit.history()[0].mean_loss
    assert wide.history()[0].mean_loss == pytest.approx(250 * mean - 50)
    assert wide.history()[0].mean_reward == pytest.approx(200 - 250 * mean)


def test_other_numbers_than_float_are_feedback_too():
    a, b = (bw.Bandit(bw.TsallisINF(), arms=2, seed=5) for _ in range(2))
    for value in (1, np.float64(0.5), np.float32(0.25), np.int64(0)):
        a.tell(a.ask(), reward=value)
        b.tell(b.ask(), reward=float(value))
    assert content(a) == content(b)


class Model:
    """Tsallis-INF with a changing set of arms, written from the definitions with plain arrays."""

    def __init__(self, policy, arms):
        self.policy = policy
        self.L = dict.fromkeys(arms, 0.0)
        self.noted = {}

    def eta(self, t, n_arms):
        a = self.policy.alpha
        if a == 0.5:
            return (4.0 if self.policy.estimator == "rv" else 2.0) / math.sqrt(t)
        arms = math.log(n_arms) if a == 1 else (n_arms ** (1 - a) - 1) / (1 - a) / n_arms ** (1 - a)
        rounds = math.log(t) if a == 0 else (1 - t**-a) / a
        return math.sqrt(n_arms ** (1 - 2 * a) * arms * rounds / t)

    def ask(self, decision, available):
        arms = list(self.L) if available is None else available
        eta = self.eta(decision.round, len(arms))
        w = bw.omd.weights([self.L[arm] for arm in arms], eta, self.policy.alpha)
        self.noted[decision.id] = (dict(zip(arms, w.tolist(), strict=True)), eta)
        return self.noted[decision.id][0]

    def tell(self, decision, loss):
        w, eta = self.noted.pop(decision.id)
        near = self.policy.estimator == "rv"
        B = {arm: 0.5 if near and p >= eta * eta else 0.0 for arm, p in w.items()}
        lhat = dict(B)
        lhat[decision.arm] += (loss - B[decision.arm]) / w[decision.arm]
        own = sum(w[arm] * lhat[arm] for arm in w)
        for arm in self.L:
            self.L[arm] += lhat.get(arm, own)

    def estimates(self):
        least = min(self.L.values())
        return {arm: L - least for arm, L in self.L.items()}


class Forgetful(Model):
    """Leaves the arms that were away where they are."""

    def tell(self, decision, loss):
        away = {arm: L for arm, L in self.L.items() if arm not in self.noted[decision.id][0]}
        super().tell(decision, loss)
        self.L.update(away)


def largest_disagreement(policy, kind):
    """Play a random history and return by how much estimates or probabilities ever differ."""
    rng = np.random.default_rng(21)
    names = list("abcdefgh")
    bandit = bw.Bandit(policy, arms=names[:4], seed=8)
    model = kind(policy, names[:4])
    waiting = []
    worst = 0.0
    shares = {"ask": 0.4, "among": 0.15, "tell": 0.41, "add": 0.02, "retire": 0.02}
    for event in rng.choice(list(shares), 400, p=list(shares.values())).tolist():
        if event in ("ask", "among"):
            available = None
            if event == "among":
                size = rng.integers(1, len(bandit) + 1)
                available = rng.choice(bandit.arms, size, replace=False).tolist()
            decision = bandit.ask(available)
            w = model.ask(decision, available)
            assert set(w) == set(decision.probabilities)
            worst = max(worst, *(abs(w[arm] / p - 1) for arm, p in decision.probabilities.items()))
            waiting.append(decision)
        elif event == "tell" and waiting:
            decision = waiting.pop(rng.integers(len(waiting)))
            loss = float(rng.random())
            bandit.tell(decision, loss=loss)
            model.tell(decision, loss)
        elif event == "add" and len(bandit) < len(names):
            name = str(rng.choice([name for name in names if name not in bandit.arms]))
            bandit.add_arm(name)
            model.L[name] = min(model.L.values()) + estimates(bandit)[name]
        elif event == "retire" and len(bandit) > 2:
            name = str(rng.choice(bandit.arms))
            bandit.retire_arm(name)
            del model.L[name]
        ours, theirs = estimates(bandit), model.estimates()
        worst = max(worst, *(abs(ours[arm] - theirs[arm]) / (1 + ours[arm]) for arm in ours))
        if worst > 0.1:  # from here on the two have nothing in common
            return worst
    assert sorted(bandit.pending) == sorted(decision.id for decision in waiting)
    assert len(bandit.history()) > 4 > len([h for h in bandit.history().values() if h.retired]) > 0
    return worst


@pytest.mark.parametrize("policy", TSALLIS, **by_repr)
def test_any_history_agrees_with_the_definitions(policy):
    assert largest_disagreement(policy, Model) < 1e-8
    assert largest_disagreement(policy, Forgetful) > 1e-2


# Thompson sampling binarises with draws of its own; Broad restarts on what it has seen so far,
# Discounted forgets a little with every answer, and AllWorlds tests losses in their order, as the
# three for means that change do. How far a loss moves the matched rate depends on where it is.
DRIFT = bw.DiscountedUCB | bw.SlidingWindowThompson | bw.GLRKLUCB
DEPENDENT = bw.ThompsonSampling | bw.Broad | bw.Discounted | bw.AllWorlds | DRIFT
ORDER_INVARIANT = [
    p for p in POLICIES if not isinstance(p, DEPENDENT) and p != bw.TsallisINFV(rate="matched")
]


@pytest.mark.parametrize("policy", ORDER_INVARIANT, **by_repr)
def test_order_of_late_feedback_does_not_matter(policy):
    bandits = [bw.Bandit(policy, arms=5, seed=9) for _ in range(2)]
    rng = np.random.default_rng(3)
    for bandit in bandits:
        play(bandit, 20, np.random.default_rng(2))
    losses = rng.random(30).tolist()
    decisions = [[bandit.ask() for _ in losses] for bandit in bandits]
    order = rng.permutation(30)
    for k in range(30):
        bandits[0].tell(decisions[0][k], loss=losses[k])
        bandits[1].tell(decisions[1][order[k]].id, loss=losses[order[k]])
    first, second = (columns(bandit._core.F, policy) for bandit in bandits)
    fields = slice(0, 1) if policy.traits.estimates else slice(None)
    np.testing.assert_allclose(first[fields], second[fields], rtol=1e-12)
    if policy.traits.knows_probability:
        assert bandits[0].probabilities() == pytest.approx(bandits[1].probabilities(), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, **by_repr)
def test_every_policy_survives_delays_subsets_and_extreme_losses(policy):
    bandit = bw.Bandit(policy, arms=list("abcdef"), seed=4)
    rng = np.random.default_rng(6)
    waiting = []
    for _ in range(500):
        available = None
        if rng.random() < 0.5:
            size = rng.integers(1, 7)
            available = list(rng.choice(list("abcdef"), size, replace=False))
        decision = bandit.ask(available)
        assert available is None or decision.arm in available
        if policy.traits.knows_probability:
            p = decision.probabilities
            assert set(p) == set("abcdef" if available is None else available)
            assert sum(p.values()) == pytest.approx(1.0, abs=1e-9)
            assert min(p.values()) >= 0.0
            assert decision.probability == pytest.approx(p[decision.arm], rel=1e-9)
        waiting.append(decision)
        while len(waiting) > 8:
            late = waiting.pop(rng.integers(len(waiting)))
            bandit.tell(late, loss=float(late.arm != "c"))
    assert np.isfinite(columns(bandit._core.F, policy)).all()
    pulls = {name: arm.pulls for name, arm in bandit.history().items()}
    assert sum(pulls.values()) == 500
    if not isinstance(policy, bw.Uniform | bw.Broad):
        assert max(pulls, key=pulls.get) == "c"


def test_available_arms_are_drawn_by_their_exact_share():
    bandit = bw.Bandit(bw.TsallisINF(), arms=list("abcd"), seed=4)
    play(bandit, 40, np.random.default_rng(0))
    L = estimates(bandit)
    decision = bandit.ask(available=["d", "b"])
    eta = 4 / math.sqrt(decision.round)
    w = bw.omd.weights([L["b"], L["d"]], eta)
    assert list(decision.probabilities) == ["b", "d"]
    assert list(decision.probabilities.values()) == pytest.approx(w.tolist(), rel=1e-10)
    everyone = bandit.copy()
    assert everyone.ask(available=list("dcba")).probabilities == bandit.ask().probabilities


def test_an_absent_arm_keeps_its_standing():
    bandit = bw.Bandit(bw.TsallisINF(), arms=list("abc"), seed=4)
    play(bandit, 200, np.random.default_rng(0), available=["a", "b"])
    # Two arms with the same losses: c, never there, must not have fallen behind or run ahead.
    standing = estimates(bandit)
    assert min(standing["a"], standing["b"]) <= standing["c"] + 1e-9
    assert standing["c"] <= max(standing["a"], standing["b"]) + 1e-9


def test_pending_decisions_are_small_and_expire():
    n_arms = 1000
    bandit = bw.Bandit(bw.TsallisINF(), arms=n_arms, seed=1)
    for _ in range(300):
        bandit.ask()
    for entry in bandit._core.ledger.records.values():
        kept = sum(sys.getsizeof(getattr(entry, name)) for name in entry.__slots__)
        assert kept < 600 + n_arms / 8
    before = estimates(bandit)
    assert bandit.expire(older_than=9) == list(range(1, 291))
    assert estimates(bandit) == before
    assert bandit.pending == list(range(291, 301))
    with pytest.raises(DecisionClosed, match="already answered or expired"):
        bandit.tell(5, loss=0.5)
    assert bandit.expire(older_than=7, loss=1.0) == [291, 292]
    assert estimates(bandit) != before
    assert sum(arm.told for arm in bandit.history().values()) == 2
    assert sum(arm.pulls for arm in bandit.history().values()) == 300


def test_closed_decisions_leave_nothing_behind():
    bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=1)
    sizes = []
    for _ in range(3):
        play(bandit, 1000, np.random.default_rng(0))
        document = bandit._document()
        assert document.pop("evidence")["notes"] == []
        sizes.append(len(pickle.dumps(document)))
    assert max(sizes) - min(sizes) < 40
    assert bandit.pending == []


# --- whose decision is it ----------------------------------------------------------------------


def test_decisions_of_other_bandits_are_refused():
    ours, same_seed, other = (bw.Bandit(bw.TsallisINF(), arms=3, seed=s) for s in (1, 1, 2))
    decision = ours.ask()
    for stranger in (same_seed, other):
        stranger.ask()
        before = content(stranger)
        with pytest.raises(UnknownDecision):
            stranger.tell(decision, loss=0.5)
        assert content(stranger) == before
    ours.tell(decision, loss=0.5)


def test_copies_and_pickles_know_the_decisions_made_before():
    bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=1)
    old, last = bandit.ask(), bandit.ask()
    for twin in (bandit.copy(), copy.deepcopy(bandit), pickle.loads(pickle.dumps(bandit))):
        twin.tell(pickle.loads(pickle.dumps(old)), loss=1.0)
        twin.tell(last, loss=0.0)
        assert twin.pending == []
    assert bandit.pending == [1, 2]
    reopened = pickle.loads(pickle.dumps(last))
    assert reopened.probabilities == last.probabilities
    bandit.tell(reopened, loss=0.0)
    bandit.tell(old, loss=1.0)
    twin_weights = twin.probabilities()
    assert bandit.probabilities() == pytest.approx(twin_weights, rel=1e-12)


def test_a_copy_that_went_its_own_way_refuses():
    bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=1)
    twin = bandit.copy()
    for k in range(10):
        bandit.tell(bandit.ask(), loss=0.1 * k)
        twin.tell(twin.ask(), loss=1 - 0.1 * k)
    decision = bandit.ask()
    twin.ask()
    with pytest.raises(UnknownDecision):
        twin.tell(decision, loss=0.5)


# --- arms that come and go ---------------------------------------------------------------------


@pytest.mark.parametrize("policy", [*TSALLIS, bw.Exp3(), bw.Broad(horizon=10_000)], **by_repr)
@pytest.mark.parametrize("w0", [None, 1e-6, 0.3, 0.999])
def test_a_newcomer_enters_at_its_probability(policy, w0):
    bandit = bw.Bandit(policy, arms=list("abc"), seed=3)
    play(bandit, 60, np.random.default_rng(5))
    before = columns(bandit._core.F, policy)[0].copy()
    bandit.add_arm("new", probability=w0)
    p = bandit.probabilities()
    assert p["new"] == pytest.approx(0.25 if w0 is None else w0, rel=1e-9)
    moved = columns(bandit._core.F, policy)[0, :3] - before
    np.testing.assert_allclose(moved, moved[0], atol=1e-12)
    play(bandit, 60, np.random.default_rng(5))
    assert bandit.history()["new"].retired is False


def test_a_newcomer_at_learning_rate_zero_is_level():
    bandit = bw.Bandit(bw.TsallisINF(alpha=0.3), arms=2, seed=3)
    bandit.add_arm("new", probability=0.9)
    assert list(bandit.probabilities().values()) == pytest.approx([1 / 3] * 3)


def test_retired_arms_keep_their_history_and_can_return():
    bandit = bw.Bandit(bw.TsallisINF(), arms=list("abc"), seed=3)
    play(bandit, 30, np.random.default_rng(5))
    pending = next(d for d in iter(bandit.ask, None) if d.arm == "b")
    before = bandit.history()["b"]
    bandit.retire_arm("b")
    kept = bandit.history()["b"]
    assert kept == before._replace(retired=True)
    assert bandit.arms == ("a", "c")
    assert "retired" in bandit._repr_html_()
    assert {bandit.ask().arm for _ in range(50)} == {"a", "c"}
    bandit.tell(pending, loss=1.0)
    assert bandit.history()["b"].told == before.told + 1
    bandit.add_arm("b", probability=0.5)
    returned = bandit.history()["b"]
    assert (returned.pulls, returned.retired) == (before.pulls, False)
    decision = next(d for d in iter(bandit.ask, None) if d.arm == "b")
    assert decision.index == pending.index == 1
    with pytest.raises(InvalidParameter, match="a string or whole number other than"):
        bandit.add_arm("b")


def test_the_last_arm_stays():
    bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=3)
    bandit.retire_arm(1)
    with pytest.raises(InvalidParameter, match="an arm other than the last one"):
        bandit.retire_arm(0)
    assert bandit.ask().probability == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("policy", [p for p in POLICIES if p.traits.resizable], **by_repr)
def test_arms_come_and_go_for_every_policy(policy):
    bandit = bw.Bandit(policy, arms=list("abcd"), seed=3)
    rng = np.random.default_rng(7)
    play(bandit, 40, rng)
    waiting = [bandit.ask() for _ in range(6)]
    rows = columns(bandit._core.F, policy).copy()
    bandit.retire_arm("b")
    kept = columns(bandit._core.F, policy)
    if not policy.traits.estimates:
        np.testing.assert_allclose(kept, np.delete(rows, 1, axis=1), rtol=1e-12)
    assert {bandit.ask().arm for _ in range(30)} <= {"a", "c", "d"}
    bandit.add_arm("new")
    bandit.add_arm("b")
    for decision in waiting:  # of arms that are there, that left, that came back
        bandit.tell(decision, loss=float(rng.random()))
    later = bw.Bandit.loads(bandit.dumps())
    play(bandit, 60, rng)
    play(later, 60, np.random.default_rng(7))
    assert np.isfinite(columns(bandit._core.F, policy)).all()
    assert bandit.arms == later.arms == ("a", "c", "d", "new", "b")
    if policy.traits.knows_probability:
        assert sum(bandit.probabilities().values()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("policy", [bw.UCB1(), bw.KLUCB(), bw.Exp3PlusPlus()], **by_repr)
def test_a_newcomer_of_an_index_policy_is_played_next(policy):
    bandit = bw.Bandit(policy, arms=3, seed=1)
    play(bandit, 50, np.random.default_rng(1))
    bandit.add_arm("new")
    assert bandit.ask().arm == "new"
    with pytest.raises(InvalidParameter, match=r"The probability of Bandit\.add_arm must be None"):
        bandit.add_arm("other", probability=0.5)


@pytest.mark.parametrize("policy", [bw.TsallisINF(alpha=0.3, gaps=(0, 0.5, 0.5))], **by_repr)
def test_arms_that_are_described_together_stay(policy):
    bandit = bw.Bandit(policy, arms=3, seed=1)
    for change in (lambda: bandit.add_arm("x"), lambda: bandit.retire_arm(0)):
        with pytest.raises(InvalidParameter, match="must be one whose arms can change"):
            change()


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"arms": 0},
        {"arms": -1},
        {"arms": True},
        {"arms": 2.0},
        {"arms": []},
        {"arms": "ab"},
        {"arms": {"a"}},
        {"arms": ["a", "a"]},
        {"arms": ["a", None]},
        {"arms": [True, "a"]},
        {"arms": None},
        {"arms": 2, "seed": -1},
        {"arms": 2, "seed": 1.5},
        {"arms": 2, "seed": "x"},
        {"arms": 2, "bounds": (1, 1)},
        {"arms": 2, "bounds": (2, 1)},
        {"arms": 2, "bounds": (0, math.inf)},
        {"arms": 2, "bounds": (math.nan, 1)},
        {"arms": 2, "bounds": (-1e308, 1e308)},
        {"arms": 2, "bounds": 5},
        {"arms": 2, "policy": bw.TsallisINF},
        {"arms": 2, "policy": bw.TsallisINF(gaps=(0, 0.5, 0.5))},
    ],
    ids=repr,
)
def test_bad_bandits(arguments):
    with pytest.raises(InvalidParameter) as caught:
        bw.Bandit(**{"policy": bw.TsallisINF(), **arguments})
    sentence = str(caught.value)
    assert sentence.startswith("The ") and " must be " in sentence and sentence.endswith(".")
    assert "\n" not in sentence


NOT_A_LOSS = st.one_of(
    st.floats(max_value=-2e-9, allow_nan=False),
    st.floats(min_value=1.0 + 2e-9, allow_nan=False),
    st.sampled_from([math.nan, math.inf, -math.inf, "1", b"1", [0.5], 1j, object()]),
    st.integers(min_value=2),
)
REFUSED = st.one_of(
    st.builds(lambda x: (InvalidFeedback, lambda b, d: b.tell(d, loss=x)), NOT_A_LOSS),
    st.builds(lambda x: (InvalidFeedback, lambda b, d: b.tell(d, reward=x)), NOT_A_LOSS),
    st.builds(lambda x: (InvalidFeedback, lambda b, d: b.expire(older_than=0, loss=x)), NOT_A_LOSS),
    st.sampled_from(
        [
            (InvalidFeedback, lambda b, d: b.tell(d)),
            (InvalidFeedback, lambda b, d: b.tell(d, loss=0.5, reward=0.5)),
            (UnknownDecision, lambda b, d: b.tell(0, loss=0.5)),
            (UnknownDecision, lambda b, d: b.tell(-1, loss=0.5)),
            (UnknownDecision, lambda b, d: b.tell(10**6, loss=0.5)),
            (UnknownDecision, lambda b, d: b.tell("1", loss=0.5)),
            (UnknownDecision, lambda b, d: b.tell(None, loss=0.5)),
            (UnknownDecision, lambda b, d: b.tell(True, loss=0.5)),
            (DecisionClosed, lambda b, d: b.tell(1, loss=0.5)),
            (InvalidParameter, lambda b, d: b.ask(available=[])),
            (InvalidParameter, lambda b, d: b.ask(available="ab")),
            (InvalidParameter, lambda b, d: b.ask(available=3)),
            (InvalidParameter, lambda b, d: b.ask(available=["a", "a"])),
            (InvalidParameter, lambda b, d: b.ask(available=["a", "x"])),
            (InvalidParameter, lambda b, d: b.ask(available=["a", ["b"]])),
            (InvalidParameter, lambda b, d: b.add_arm("a")),
            (InvalidParameter, lambda b, d: b.add_arm(1.5)),
            (InvalidParameter, lambda b, d: b.add_arm("x", probability=0)),
            (InvalidParameter, lambda b, d: b.add_arm("x", probability=1)),
            (InvalidParameter, lambda b, d: b.add_arm("x", probability=math.nan)),
            (InvalidParameter, lambda b, d: b.add_arm("x", probability="half")),
            (InvalidParameter, lambda b, d: b.retire_arm("x")),
            (InvalidParameter, lambda b, d: b.retire_arm(["a"])),
            (InvalidParameter, lambda b, d: b.expire(older_than=-1)),
            (InvalidParameter, lambda b, d: b.expire(older_than=1.5)),
            (InvalidFeedback, lambda b, d: b.expire(older_than=0, loss=0.5, reward=0.5)),
        ]
    ),
)


@pytest.mark.slow
@given(refused=st.lists(REFUSED, min_size=1, max_size=4), outstanding=st.integers(1, 4))
def test_what_is_refused_changes_nothing(refused, outstanding):
    bandit = bw.Bandit(bw.TsallisINF(), arms=["a", "b", "c"], seed=1)
    bandit.tell(bandit.ask(), loss=0.5)
    for _ in range(outstanding):
        decision = bandit.ask()
    before = content(bandit)
    for kind, call in refused:
        with pytest.raises(kind) as caught:
            call(bandit, decision)
        assert isinstance(caught.value, BothworldsError)
        assert str(caught.value).startswith("The ") and str(caught.value).endswith(".")
        assert content(bandit) == before
    bandit.tell(decision, loss=0.5)
    assert content(bandit) != before


def test_a_second_tell_is_refused():
    bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=1)
    decision = bandit.ask()
    bandit.tell(decision, loss=0.5)
    with pytest.raises(DecisionClosed, match="must be pending, got 1, already answered or expired"):
        bandit.tell(decision, loss=0.5)


def test_gaps_describe_all_arms():
    bandit = bw.Bandit(bw.TsallisINF(alpha=0.3, gaps=(0, 0.5, 0.5)), arms=3, seed=1)
    bandit.tell(bandit.ask(available=[0, 1, 2]), loss=0.5)
    with pytest.raises(InvalidParameter, match=r"arms, which TsallisINF\(.*\) describes together"):
        bandit.ask(available=[0, 1])


# --- policies of one's own ---------------------------------------------------------------------


@bw.policies.custom
class Lazy:
    """Puts ``share`` on arm 0; a share above 1 is no distribution."""

    share: float = 0.9

    def start(n_arms):
        return np.zeros(2 * n_arms)

    def probabilities(state, parameters, n_arms, t, p):
        p[:] = (1.0 - parameters.share) / (n_arms - 1)
        p[0] = parameters.share

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += loss / probability
        state[n_arms + arm] += 1.0


@pytest.mark.slow
def test_a_policy_of_ones_own(tmp_path):
    bandit = bw.Bandit(Lazy(), arms=3, seed=1)
    bandit.tell(bandit.ask(), loss=0.5)
    decision = bandit.ask()
    assert list(decision.probabilities.values()) == pytest.approx([0.9, 0.05, 0.05])
    with pytest.raises(InvalidParameter, match="has no rows by arm"):
        bandit.ask(available=[0, 1])
    bandit.save(tmp_path / "lazy.json")
    with pytest.raises(bw.errors.StateFileError):
        bw.Bandit.load(tmp_path / "lazy.json")
    with pytest.raises(InvalidParameter, match="the one that was saved"):
        bw.Bandit.load(tmp_path / "lazy.json", policy=Lazy(share=0.8))
    later = bw.Bandit.load(tmp_path / "lazy.json", policy=Lazy())
    assert content(later) == content(bandit)


@pytest.mark.slow
def test_a_policy_that_chooses_no_arm_changes_nothing():
    bandit = bw.Bandit(Lazy(share=1.5), arms=3, seed=1)
    before = content(bandit)
    with pytest.raises(KernelError, match="The probabilities of Lazy must be numbers >= 0"):
        bandit.ask()
    assert content(bandit) == before


SINGLE = [p for p in POLICIES if p.traits.separable]


@pytest.mark.parametrize("policy", [bw.ThompsonSampling(), bw.TsallisINF()], **by_repr)
def test_the_only_arm_of_a_bandit_has_probability_one(policy):
    bandit = bw.Bandit(policy, arms=["a"], seed=2)
    assert bandit.ask().probability == 1.0
    assert [each.probability for each in bandit.ask_many(2)] == [1.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("policy", SINGLE, **by_repr)
def test_a_single_available_arm_has_probability_one(policy):
    bandit = bw.Bandit(policy, arms=list("abc"), seed=2)
    play(bandit, 20, np.random.default_rng(1))
    decision = bandit.ask(available=["b"])
    assert (decision.arm, decision.probability) == ("b", 1.0)
    bandit = bw.Bandit.loads(bandit.dumps())
    bandit.tell(decision.id, loss=0.5)
