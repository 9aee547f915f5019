"""AdvisedBandit: reductions, exact cases, late feedback, state files, bad advice, standing."""

import itertools
import json
import math
import random
import threading

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.errors import (
    DecisionClosed,
    InvalidFeedback,
    InvalidParameter,
    StateFileError,
    UnknownDecision,
)
from bothworlds.lanes.direct import direct
from bothworlds.logs.jsonl import joined_rows, read_jsonl
from bothworlds.omd import weights
from bothworlds.policies import advice as step

ROWS = [(0.25, 0.75), (1.0, 0.0), (0.5, 0.5), (0.0, 1.0)]
LOSSES = [(0.0, 1.0), (1.0, 0.25), (0.5, 0.0), (0.0, 1.0)]
POLICIES = [
    bw.TsallisINF(), bw.TsallisINF(estimator="iw"), bw.TsallisINF(alpha=0.7),
    bw.TsallisINF(estimator="soft"),
    bw.TsallisINF(alpha=0.3, estimator="iw"), bw.Exp3(), bw.Floor(bw.TsallisINF(), 0.5),
    bw.Discounted(bw.TsallisINF(), 50), bw.Restarted(bw.TsallisINF(), 16),
    bw.Floor(bw.Restarted(bw.TsallisINF(), 16), 0.5), bw.Restarted(bw.Floor(bw.Exp3(), 0.5), 16),
    bw.Discounted(bw.Floor(bw.TsallisINF(), 0.5), 20),
]  # fmt: skip


def estimates(bandit):
    return bandit._F[step.HEAD : step.HEAD + len(bandit.experts)].copy()


def rows_of(generator, N, K, zeros=True):
    A = generator.dirichlet(np.full(K, 0.7), N)
    if zeros and K > 1:
        A[generator.random((N, K)) < 0.3] = 0.0
        A[A.sum(axis=1) == 0.0, 0] = 1.0
    return A / A.sum(axis=1, keepdims=True)


def as_advice(A):
    return {j: {a: float(x) for a, x in enumerate(row) if x > 0.0} for j, row in enumerate(A)}


# --- reductions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [1, 2, 5, 12])
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_constant_arms_are_a_bandit(policy, K):
    plain, advised = bw.Bandit(policy, K, seed=3), bw.AdvisedBandit(policy, K, K, seed=3)
    advice = {j: j for j in range(K)}
    for t in range(60):
        one, other = plain.ask(), advised.ask(advice)
        assert one.index == other.index
        expected = [one.probabilities[arm] for arm in range(K)]
        # Importance weighting magnifies rounding from round to round.
        assert list(other.probabilities.values()) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        if step.setting_of(policy, "test").scale == 0.0:
            weight = list(other.experts.values())
            assert weight == pytest.approx(expected, rel=1e-9, abs=1e-12)
        loss = ((t * 37 + one.index * 11) % 101) / 101
        plain.tell(one, loss=loss)
        advised.tell(other, loss=loss)


def test_one_step_of_constant_arms_is_exact():
    for policy, eta in ((bw.TsallisINF(), 4.0), (bw.TsallisINF(estimator="iw"), 2.0)):
        bandit = bw.AdvisedBandit(policy, 5, 5, seed=1)
        bandit._F[step.ROUND] = 99.0
        L = np.array([3.0, 0.0, 10.0, 1.5, 40.0])
        bandit._F[step.HEAD : step.HEAD + 5] = L
        decision = bandit.ask({j: j for j in range(5)})
        q = weights(L, eta / 10.0)
        assert list(decision.probabilities.values()) == pytest.approx(q, rel=1e-14)
        bandit.tell(decision, loss=0.8)
        base = np.where(q >= 0.16, 0.5, 0.0) if policy.estimator == "rv" else np.zeros(5)
        L += base
        L[decision.index] += (0.8 - base[decision.index]) / q[decision.index]
        assert estimates(bandit) == pytest.approx(L, rel=1e-13)


def test_one_expert_is_followed_and_equal_experts_share_their_weight():
    alone = bw.AdvisedBandit(bw.TsallisINF(), 3, ["only"], seed=2)
    for _ in range(20):
        decision = alone.ask({"only": 2})
        assert (decision.arm, decision.probability) == (2, 1.0)
        alone.tell(decision, loss=0.3)
    both = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b", "clone"], seed=2)
    for t in range(50):
        decision = both.ask({"a": 0, "b": 1, "clone": 1})
        both.tell(decision, loss=0.2 if decision.arm else 0.9 - 0.01 * (t % 3))
    weight = both.weights()
    assert weight["b"] == pytest.approx(weight["clone"], rel=1e-12)


def test_permuting_experts_permutes_their_estimates():
    generator = np.random.default_rng(5)
    order = [2, 0, 3, 1]
    first = bw.AdvisedBandit(bw.TsallisINF(), 3, 4, seed=8)
    second = bw.AdvisedBandit(bw.TsallisINF(), 3, 4, seed=8)
    for _ in range(80):
        A = rows_of(generator, 4, 3)
        one, other = first.ask(as_advice(A)), second.ask(as_advice(A[order]))
        assert one.arm == other.arm
        loss = float(generator.random())
        first.tell(one, loss=loss)
        second.tell(other, loss=loss)
    assert estimates(second) == pytest.approx(estimates(first)[order], rel=1e-9)


# --- exact small cases ---------------------------------------------------------------------------


def play(script):
    """Return the bandit after these arms were drawn, and the probability of that."""
    bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, 3, seed=0)
    chance, lost = 1.0, 0.0
    for t, arm in enumerate(script):
        advice = as_advice(np.array([[1.0, 0.0], [0.0, 1.0], ROWS[t]]))
        saved = bandit.copy()
        for seed in itertools.count():  # until this arm is drawn
            trial = saved.copy(seed=seed)
            decision = trial.ask(advice)
            if decision.arm == arm:
                break
        bandit = trial
        chance *= decision.probability
        lost += LOSSES[t][arm]
        bandit.tell(decision, loss=LOSSES[t][arm])
    return bandit, chance, lost


def test_the_expected_loss_and_weights_by_enumeration():
    loss, weight = 0.0, np.zeros(3)
    for script in itertools.product((0, 1), repeat=4):
        bandit, chance, lost = play(script)
        loss += chance * lost
        weight += chance * np.array(list(bandit.weights().values()))
    assert loss == pytest.approx(2.359933738958858, abs=1e-12)
    expected = [0.5337247815531703, 0.3231903280293101, 0.1430848904175197]
    assert weight == pytest.approx(expected, abs=1e-12)


def numbers_of(F, A, K):
    """Return the weights of experts, and the numbers of a decision for every arm that has one."""
    N = A.shape[0]
    own, q, D, G = F.copy(), np.empty(N), np.empty(step.width(N, K)), np.empty(4, np.int64)
    awake, here = np.ones(N, np.uint8), np.ones(K, np.uint8)
    draw = direct(step.draw, own, G, A, awake, here, q, D)
    found = {}
    for seed in itertools.count():
        own[:] = F
        G[:] = (seed + 1) * 0x1234567, (2 * seed + 3) * 0x1234567, 5 * 0x1234567, 7 * 0x1234567
        found.setdefault(draw(own, G, A, awake, here, q, D), D.copy())
        if len(found) == np.count_nonzero(D[-K:]):
            return q, found


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES[:4] + POLICIES[5:7], ids=repr)
def test_estimates_are_unbiased_by_enumeration(policy):
    generator = np.random.default_rng(11)
    worst = 0.0
    for N, K in itertools.product((1, 3, 8), (1, 2, 4)):
        A, losses = rows_of(generator, N, K), generator.random(K)
        F = step.first_state(step.setting_of(policy, "test"), N, K)
        F[step.ROUND] = 99.0
        F[step.HEAD : step.HEAD + N] = generator.random(N) * 30.0
        q, numbers = numbers_of(F, A, K)
        found, biased, total = np.zeros(N), np.zeros(N), 0.0
        for arm, D in numbers.items():
            mixed = D[-K:]
            r, s = D[step.PER_EXPERT :][:N], D[step.PER_EXPERT + N :][:N]
            d = losses[arm] - D[step.BASE]
            found += mixed[arm] * (s + d * r)
            # A negative control: without the baselines of arms that were not drawn.
            biased += mixed[arm] * (A[:, arm] * D[step.BASE] + d * r)
            total += mixed[arm]
            if step.setting_of(policy, "test").scale == 0.0:
                assert q @ r == pytest.approx(1.0, rel=1e-12)
        assert total == pytest.approx(1.0, rel=1e-12)
        assert found == pytest.approx(A @ losses, rel=1e-11, abs=1e-12)
        worst = max(worst, float(np.abs(biased - A @ losses).max()))
        # The lemma: sum_a xi_j(a)^2 / p_a <= 1 / q_j.
        v = D[step.PER_EXPERT + 2 * N :][:N]
        if step.setting_of(policy, "test").scale == 0.0:
            assert (v <= 1.0 / q * (1.0 + 1e-12)).all()
    reduced = step.setting_of(policy, "test").estimator != step.IW
    assert worst > 0.05 if reduced else worst < 1e-10


# --- late feedback -------------------------------------------------------------------------------


def test_late_feedback_in_any_order_teaches_the_same():
    generator = np.random.default_rng(3)
    one = bw.AdvisedBandit(bw.TsallisINF(), 4, 5, seed=6)
    decisions, losses = [], []
    for _ in range(12):
        decisions.append(one.ask(as_advice(rows_of(generator, 5, 4))))
        losses.append(float(generator.random()))
    other = one.copy()
    for decision, loss in zip(decisions, losses, strict=True):
        one.tell(decision, loss=loss)
    for place in generator.permutation(12):
        other.tell(decisions[place].id, loss=losses[place])
    assert estimates(other) == pytest.approx(estimates(one), rel=1e-12)
    assert one.pending == other.pending == []


def test_feedback_counts_once_and_only_for_own_decisions():
    bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b"], seed=6)
    decision = bandit.ask({"a": 0, "b": 1}, key="request-1")
    assert bandit.ask({"a": 0, "b": 1}, key="request-1") is decision
    with pytest.raises(InvalidFeedback):
        bandit.tell(decision, loss=2.0)
    bandit.tell("request-1", loss=0.5)
    with pytest.raises(DecisionClosed):
        bandit.tell(decision, loss=0.5)
    for unknown in (99, "request-1", None, 0, True):
        with pytest.raises(UnknownDecision):
            bandit.tell(unknown, loss=0.5)
    foreign = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b"], seed=7).ask({"a": 1, "b": 1})
    waiting = bandit.ask({"a": 0, "b": 0})
    with pytest.raises((UnknownDecision, DecisionClosed)):
        bandit.tell(foreign, loss=0.5)
    bandit.forget(waiting)
    assert bandit.pending == []
    ids = [bandit.ask({"a": 0, "b": 1}).id for _ in range(3)]
    assert bandit.expire(older_than=0, loss=1.0) == ids


# --- arms away, experts asleep, experts that come and go -----------------------------------------


def test_only_available_arms_and_experts_who_are_awake():
    bandit = bw.AdvisedBandit(bw.TsallisINF(), ["x", "y", "z"], ["a", "b", "c"], seed=6)
    advice = {"a": {"x": 0.5, "y": 0.5}, "b": "z", "c": "y"}
    decision = bandit.ask(advice, available=["x", "y"])
    assert dict(decision.experts) == pytest.approx({"a": 0.5, "b": 0.0, "c": 0.5})
    assert dict(decision.probabilities) == pytest.approx({"x": 0.25, "y": 0.75, "z": 0.0})
    before = estimates(bandit)
    bandit.tell(decision, loss=0.75)
    moved = estimates(bandit) - before
    # The expert that slept gets the weighted mean of the others.
    assert moved[1] == pytest.approx(0.5 * moved[0] + 0.5 * moved[2])
    rest = bandit.ask({"a": "x", "c": "x"}, asleep=["b"])
    assert rest.arm == "x" and rest.experts["b"] == 0.0


def test_experts_come_and_go_while_decisions_wait():
    bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b"], seed=6)
    for _ in range(30):
        decision = bandit.ask({"a": 0, "b": 1})
        bandit.tell(decision, loss=float(decision.arm))
    waiting = bandit.ask({"a": 0, "b": 1})
    bandit.add_expert("c", weight=0.25)
    assert bandit.weights()["c"] == pytest.approx(0.25, rel=1e-9)
    before = bandit.weights()
    bandit.tell(waiting, loss=0.5)
    assert bandit.experts == ("a", "b", "c")
    decision = bandit.ask({"a": 0, "b": 1, "c": 1})
    bandit.retire_expert("b")
    bandit.tell(decision, loss=1.0)
    assert set(bandit.weights()) == {"a", "c"}
    assert before["a"] > 0.5
    with pytest.raises(InvalidParameter, match="name of AdvisedBandit"):
        bandit.add_expert("a")
    bandit.retire_expert("a")
    with pytest.raises(InvalidParameter, match="one must remain"):
        bandit.retire_expert("c")


# --- bad advice changes nothing ------------------------------------------------------------------

BAD = [
    {}, {"a": 0}, {"a": 0, "b": 1, "c": 0}, {"a": 0, "b": 7}, {"a": 0, "b": [1]}, None, [0, 1],
    {"a": 0, "b": {0: 0.5}}, {"a": 0, "b": {0: 0.5, 1: 0.5 + 2e-9}}, {"a": 0, "b": {0: math.nan}},
    {"a": 0, "b": {0: -0.5, 1: 1.5}}, {"a": 0, "b": {0: math.inf}}, {"a": 0, "b": {7: 1.0}},
    {"a": 0, "b": {}}, {"a": 0, "b": {0: "1"}},
]  # fmt: skip


@pytest.mark.parametrize("advice", BAD, ids=repr)
def test_bad_advice_is_refused_with_one_sentence(advice):
    bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b"], seed=6)
    before = bandit.dumps()
    with pytest.raises(InvalidParameter) as caught:
        bandit.ask(advice)
    assert str(caught.value).startswith("The advice of AdvisedBandit.ask must be ")
    assert str(caught.value).count(". ") == 0
    assert bandit.dumps() == before


def test_other_bad_arguments_are_refused():
    bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b"], seed=6)
    good = {"a": 0, "b": 1}
    for more in ({"available": []}, {"available": [9]}, {"available": "0"}, {"asleep": ["x"]},
                 {"asleep": "a"}, {"asleep": ["a"]}, {"key": ""}, {"available": [[]]}):  # fmt: skip
        with pytest.raises(InvalidParameter):
            bandit.ask(good, **more)
    with pytest.raises(InvalidParameter):
        bandit.ask({}, asleep=["a", "b"])
    assert bandit.round == 0
    # Rows within rounding of 1 are divided by their sum.
    near = bandit.ask({"a": {0: 1.0 + 5e-10}, "b": {0: 1.0}})
    assert near.probability == 1.0
    for wrong in (bw.UCB1(), bw.TsallisINFV(rate="residual"), bw.ThompsonSampling(), "TsallisINF",
                  bw.Floor(bw.Floor(bw.TsallisINF(), 0.1), 0.1),
                  bw.TsallisINF(alpha=0.8, estimator="soft")):  # fmt: skip
        with pytest.raises(InvalidParameter, match="policy of AdvisedBandit"):
            bw.AdvisedBandit(wrong, 2, 2)
    for experts in (0, [], ["a", "a"], 65, "ab", None):
        with pytest.raises(InvalidParameter, match="experts of AdvisedBandit"):
            bw.AdvisedBandit(bw.TsallisINF(), 2, experts)


# --- keeping -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [bw.TsallisINF(), bw.TsallisINFV(), bw.Alarmed(bw.TsallisINF()), bw.Floor(bw.Exp3(), 0.3)],
    ids=repr,
)
def test_a_saved_bandit_continues_bit_for_bit(policy, tmp_path):
    generator = np.random.default_rng(9)
    bandit = bw.AdvisedBandit(policy, ["x", "y", "z"], ["a", "b"], seed=4, bounds=(0, 10))

    def advise():
        one, other = rows_of(generator, 2, 3).tolist()
        return {"a": dict(zip("xyz", one, strict=True)), "b": dict(zip("xyz", other, strict=True))}

    for t in range(120):
        decision = bandit.ask(advise(), key=f"k{t}" if t % 9 == 0 else None)
        if t % 4:
            bandit.tell(decision, reward=float(generator.integers(0, 11)))
    path = tmp_path / "state.json"
    bandit.save(path)
    copies = [bw.AdvisedBandit.load(path), bandit.copy(), bw.AdvisedBandit.loads(bandit.dumps())]
    state = generator.bit_generator.state
    played = []
    for each in [bandit, *copies]:
        generator.bit_generator.state = state
        for number in each.pending[::-1]:
            each.tell(number, reward=3.0)
        arms = []
        for _ in range(40):
            decision = each.ask(advise())
            arms.append((decision.arm, decision.probability))
            each.tell(decision, reward=float(generator.integers(0, 11)))
        played.append((arms, each.weights(), repr(each.standing()), repr(each.report())))
    assert played[0] == played[1] == played[2] == played[3]
    with bw.shared(path) as shared:
        assert shared.experts == ("a", "b")
        shared.ask(advise())
    assert bw.AdvisedBandit.load(path).round == 121


def test_a_damaged_file_is_refused(tmp_path):
    bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b"], seed=4)
    bandit.ask({"a": 0, "b": 1}, key="k")
    document = bandit.as_dict()
    text = json.dumps(document)
    for old, new in (('"a", "b"', '"a"'), ('"arms": [0, 1]', '"arms": [0]')):
        assert old in text
        with pytest.raises(StateFileError):
            bw.AdvisedBandit.loads(text.replace(old, new, 1))
    with pytest.raises(StateFileError):
        bw.Bandit.loads(text)


def test_the_log_has_advice_and_weights(tmp_path):
    path = tmp_path / "log.jsonl"
    bandit = bw.AdvisedBandit(bw.TsallisINF(), ["x", "y"], ["a", "b"], seed=4, log=path)
    decision = bandit.ask({"a": "x", "b": {"x": 0.25, "y": 0.75}})
    bandit.tell(decision, reward=1.0)
    (row,) = joined_rows(read_jsonl(path))
    assert row.advice == {"a": "x", "b": {"x": 0.25, "y": 0.75}}
    assert row.experts == {"a": 0.5, "b": 0.5}
    assert (row.reward, row.probability) == (1.0, decision.probability)


@pytest.mark.extra
def test_a_plot_shows_means_and_the_weights_of_the_log(tmp_path):
    bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b"], seed=4, log=tmp_path / "log.jsonl")
    for _ in range(40):
        bandit.tell(bandit.ask({"a": 0, "b": 1}), reward=0.5)
    standing = bandit.standing()
    figure = standing.plot(tmp_path / "experts.png", log=tmp_path / "log.jsonl")
    assert (tmp_path / "experts.png").stat().st_size > 5_000
    left, right = figure.axes
    assert left.get_xlabel() == "mean reward"
    assert [line.get_xdata().size for line in right.lines] == [40, 40]
    assert len(standing.plot().axes) == 1


def test_threads_may_share_a_bandit():
    bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, ["a", "b"], seed=4)

    def work():
        for _ in range(200):
            bandit.tell(bandit.ask({"a": 0, "b": 1}), loss=0.5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (bandit.round, bandit.pending) == (800, [])


# --- regret and standing -------------------------------------------------------------------------


def test_an_alarm_restarts_when_the_followed_expert_breaks():
    generator = np.random.default_rng(1)
    bandit = bw.AdvisedBandit(bw.Alarmed(bw.TsallisINF()), 2, ["a", "b"], seed=4)
    for t in range(6000):
        decision = bandit.ask({"a": 0, "b": 1})
        good = decision.arm == (0 if t < 3000 else 1)
        bandit.tell(decision, loss=float(generator.random() < (0.2 if good else 0.7)))
    assert bandit.alarms >= 1 and bandit.weights()["b"] > 0.8


@pytest.mark.statistical
@pytest.mark.slow
def test_standing_covers_the_truth_with_a_floor():
    """Coverage of 95 % intervals over 400 runs, and violations of the sequence at any look."""
    means = np.array([[0.3, 0.6], [0.7, 0.4]])  # context by arm
    maps = {"right": (0, 1), "wrong": (1, 0), "first": (0, 0)}
    truth = {name: means[[0, 1], list(arms)].mean() for name, arms in maps.items()}
    tables = [{name: arms[c] for name, arms in maps.items()} for c in range(2)]
    runs, rounds, violated, inside = 400, 1200, 0, dict.fromkeys(maps, 0)
    for run in range(runs):
        generator = np.random.default_rng(run)
        bandit = bw.AdvisedBandit(bw.Floor(bw.TsallisINF(), 0.5), 2, list(maps), seed=run)
        contexts, u = generator.integers(2, size=rounds), generator.random(rounds)
        missed = False
        for t in range(rounds):
            context = int(contexts[t])
            decision = bandit.ask(tables[context])
            bandit.tell(decision, loss=float(u[t] < means[context, decision.index]))
            if t % 100 == 99:
                standing = bandit.standing()
                for name, mean in truth.items():
                    low, high = standing[name].sequence
                    missed |= not low <= mean <= high
        violated += missed
        for name, mean in truth.items():
            low, high = standing[name].interval
            inside[name] += low <= mean <= high
    # "first" agrees with the leader where losses are low: weights by context would be biased.
    assert all(0.93 <= covered / runs <= 0.97 for covered in inside.values()), inside
    assert violated <= 0.05 * runs


def test_standing_refuses_what_is_not_sound_and_answers_in_words():
    found = {}
    for policy in (bw.TsallisINF(), bw.Floor(bw.TsallisINF(), 0.5)):
        bandit = bw.AdvisedBandit(policy, 2, ["good", "bad"], seed=4)
        assert bandit.standing().summary() == "No feedback yet: no expert can be judged."
        for t in range(8000):
            decision = bandit.ask({"good": 0, "bad": 1})
            bandit.tell(decision, reward=float(t % 10 < (9 if decision.arm == 0 else 1)))
        found[policy] = bandit.standing()
    bare, standing = found.values()
    assert bare["good"].interval is not None
    assert bare["bad"].interval is None and "no Floor" in bare["bad"].why
    assert "no two experts can be ranked" in bare.summary()
    assert standing["bad"].interval is not None and standing["bad"].why == ""
    assert standing.gap("good", "bad") > 0.0 > standing.gap("bad", "good")
    assert "good has the best mean reward" in standing.summary()
    assert "better than every other expert" in repr(standing)
    with pytest.raises(InvalidParameter, match="expert of Standing"):
        standing.gap("good", "ugly")


@pytest.mark.statistical
@pytest.mark.slow
def test_the_regret_of_a_reference_cell():
    """Means .4 and .6 crossed, two arms, a right and a wrong map: 44.7 (0.7) over 400 runs."""
    means = np.array([[0.4, 0.6], [0.6, 0.4]])
    maps = [(0, 0), (1, 1), (0, 1), (1, 0)]
    runs, horizon, found = 40, 10_000, []
    tables = [{j: maps[j][c] for j in range(4)} for c in range(2)]
    for run in range(runs):
        generator = np.random.default_rng(run)
        bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, 4, seed=run)
        contexts, u = generator.integers(2, size=horizon), generator.random(horizon)
        regret = 0.0
        for t in range(horizon):
            c = int(contexts[t])
            decision = bandit.ask(tables[c])
            wrong = decision._numbers[-2:][1 - maps[2][c]]
            regret += 0.2 * float(wrong)
            bandit.tell(decision, loss=float(u[t] < means[c, decision.arm]))
        found.append(regret)
    error = np.std(found) / math.sqrt(runs)
    assert abs(np.mean(found) - 44.7) <= 4.0 * math.hypot(error, 0.7) + 0.447


def test_a_report_on_arms_holds_though_advice_follows_the_context():
    bandit = bw.AdvisedBandit(bw.Floor(bw.TsallisINF(), 0.5), 2, ["right", "zero", "one"], seed=3)
    rng = random.Random(5)
    for _ in range(20_000):
        context = rng.randrange(2)
        decision = bandit.ask({"right": context, "zero": 0, "one": 1})
        bad = 0.2 if decision.arm == context else 0.8
        bandit.tell(decision, loss=float(rng.random() < bad))
    report, standing = bandit.report(), bandit.standing()
    for arm, expert in ((0, "zero"), (1, "one")):
        # Played always, an arm is right in half of the contexts, whatever it was chosen for.
        low, high = report[arm].sequence
        assert low < 0.5 < high
        assert abs(report[arm].mean - 0.5) < 0.1
        assert abs(report[arm].mean - standing[expert].mean) < 0.05
    assert report.gap(0, 1) < 0.0
