"""A bandit in a service: keys, times, logs, replays, clipping, freezing, feedback of every type."""

import json
import threading
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit import bandit as module
from bothworlds.bandit import core, pending
from bothworlds.errors import (
    DecisionClosed,
    InvalidFeedback,
    InvalidParameter,
    StateFileError,
    UnknownDecision,
)
from bothworlds.interop.logs import read_jsonl
from helpers.bandits import POLICIES

by_repr = {"ids": repr}


def new(policy=None, **options):
    policy = bw.TsallisINF() if policy is None else policy
    return bw.Bandit(policy, arms=["a", "b", "c"], seed=7, **options)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the test moves."""
    at = [1_000.0]
    for each in (module, core, pending):
        monkeypatch.setattr(each, "now", lambda: at[0])
    return at


# --- feedback as people have it ---------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        True,
        1,
        1.0,
        np.True_,
        np.float32(1),
        np.int8(1),
        np.array(1.0),
        np.array(True),
        Decimal("1.0"),
        Fraction(2, 2),
        1.0 + 5e-10,
    ],
    ids=repr,
)
def test_numbers_of_every_type_are_feedback(given):
    bandit = new()
    bandit.tell(bandit.ask(), loss=given)
    bandit.tell(bandit.ask(), reward=given)
    bandit.tell_many([bandit.ask()], [given])
    assert sum(arm.told * (arm.mean_loss or 0) for arm in bandit.history().values()) == 2.0


@pytest.mark.parametrize(
    "given",
    [
        1.1, -0.1, 1.0 + 1e-8, float("nan"), float("inf"), "1", None, [1.0], np.array([1.0]), 1j,
        10**400, Decimal("NaN"), Decimal("sNaN"), object(),
    ],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_other_feedback_is_refused_and_changes_nothing(given):
    bandit = new()
    decision = bandit.ask()
    before = bandit.dumps()
    with pytest.raises(InvalidFeedback):
        bandit.tell(decision, loss=given)
    with pytest.raises(InvalidFeedback):
        bandit.tell_many([decision], [given])
    assert bandit.dumps() == before


def test_clipping_counts_what_it_clips():
    bandit = new(bounds=(0, 250), clip=True)
    for given in (300, -5, 1e300):
        decision = bandit.ask()
        bandit.tell(decision, loss=given)
        told = bandit.history()[decision.arm]
        assert 0.0 <= told.mean_loss <= 250.0
    bandit.tell(bandit.ask(), reward=-1)
    bandit.tell_many(bandit.ask_many(2), rewards=[500, 250])
    assert bandit.clipped == 5
    assert bw.Bandit.loads(bandit.dumps()).clipped == 5
    assert bw.Bandit.loads(bandit.dumps()).copy().clipped == 5
    decision = bandit.ask()
    for given in (float("nan"), float("inf"), "x"):
        with pytest.raises(InvalidFeedback):
            bandit.tell(decision, loss=given)
    assert bandit.clipped == 5
    assert "clip=True" in repr(bandit)


def test_a_clipped_loss_counts_as_the_bound():
    one, other = new(clip=True), new()
    one.tell(one.ask(), loss=7)
    other.tell(other.ask(), loss=1.0)
    assert one.probabilities() == other.probabilities()
    one.tell(one.ask(), reward=7)
    other.tell(other.ask(), reward=1.0)
    assert one.probabilities() == other.probabilities()


def test_history_speaks_the_units_of_the_user():
    bandit = new(bw.UCB1(), bounds=(-10, 250))
    bandit.tell(bandit.ask(), loss=120)
    arm = bandit.history()["a"]
    assert (arm.mean_loss, arm.mean_reward) == pytest.approx((120, 120))
    bandit.tell(bandit.ask(), reward=250)
    arm = bandit.history()["b"]
    assert (arm.mean_loss, arm.mean_reward) == pytest.approx((-10, 250))
    assert bandit.history()["c"].mean_reward is None
    assert "120" in bandit._repr_html_()


# --- keys and times ---------------------------------------------------------------------------


def test_a_key_gives_the_pending_decision_again():
    bandit = new()
    first = bandit.ask(key="request-17")
    assert first.key == "request-17"
    assert bandit.ask(key="request-17") is first
    other = bandit.ask(key="request-18")
    assert other.id != first.id
    bandit.tell("request-17", reward=True)
    assert bandit.pending == [other.id]
    with pytest.raises(UnknownDecision, match="its id or its key, got 'request-17'"):
        bandit.tell("request-17", reward=True)
    again = bandit.ask(key="request-17")
    assert again.id not in (first.id, other.id)
    bandit.tell(again.id, loss=0.5)
    bandit.tell(other, loss=0.5)
    assert not bandit._keys.decisions
    assert not bandit._keys.of


def test_keys_survive_files_with_their_probabilities():
    bandit = new()
    bandit.tell(bandit.ask(), loss=1.0)
    kept = bandit.ask(key="k", available=["a", "c"])
    later = bw.Bandit.loads(bandit.dumps())
    again = later.ask(key="k")
    assert (again.id, again.arm, again.key, again.time) == (kept.id, kept.arm, "k", kept.time)
    assert dict(again.probabilities) == dict(kept.probabilities)
    later.tell(again, loss=0.0)
    assert later.pending == []
    thompson = new(bw.ThompsonSampling())
    thompson.ask(key="k")
    assert bw.Bandit.loads(thompson.dumps()).ask(key="k").probabilities is None


def test_threads_with_one_key_get_one_decision():
    bandit = new()
    found = []

    def request():
        found.append(bandit.ask(key="same").id)

    threads = [threading.Thread(target=request) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 16
    assert bandit.round == 1


@pytest.mark.parametrize("key", ["", 7, b"x", "x" * 1001, ("a",)], ids=lambda key: str(key)[:9])
def test_other_keys_are_refused(key):
    bandit = new()
    with pytest.raises(InvalidParameter, match=r"The key of Bandit\.ask must be a text"):
        bandit.ask(key=key)
    assert bandit.round == 0


def test_decisions_carry_the_time_and_expire_by_it(clock):
    bandit = new()
    first = bandit.ask()
    clock[0] += 600
    second = bandit.ask()
    batch = bandit.ask_many(2)
    among = bandit.ask(available=["a", "b"])
    assert (first.time, second.time, batch[1].time, among.time) == (1000, 1600, 1600, 1600)
    clock[0] += 1200
    assert bandit.expire(older_than=timedelta(minutes=25)) == [first.id]
    later = bw.Bandit.loads(bandit.dumps())
    assert later.expire(older_than=timedelta(minutes=20), loss=1.0) == [2, 3, 4, 5]
    assert bandit.expire(older_than=timedelta(minutes=21)) == []
    assert bandit.expire(older_than=timedelta(0)) == [2, 3, 4, 5]
    with pytest.raises(DecisionClosed):
        bandit.tell(first, loss=0.0)


@pytest.mark.parametrize("age", [-1, 1.5, "2", timedelta(seconds=-1), True, None], ids=repr)
def test_other_ages_are_refused(age):
    with pytest.raises(InvalidParameter, match=r"The older_than of Bandit\.expire must be"):
        new().expire(older_than=age)


@pytest.mark.parametrize("policy", POLICIES, **by_repr)
def test_expire_0_closes_all_and_forget_one(policy):
    bandit = new(policy)
    decisions = [bandit.ask() for _ in range(4)]
    bandit.forget(decisions[1])
    bandit.forget(decisions[3].id)
    assert bandit.pending == [1, 3]
    with pytest.raises(DecisionClosed, match=r"Bandit\.forget must be pending, got 2"):
        bandit.forget(2)
    with pytest.raises(UnknownDecision, match=r"Bandit\.forget"):
        bandit.forget(99)
    bandit.ask(key="k")
    bandit.forget("k")
    assert bandit.expire(older_than=0) == [1, 3]
    assert bandit.pending == []
    assert sum(arm.pulls for arm in bandit.history().values()) == 5
    assert sum(arm.told for arm in bandit.history().values()) == 0


def test_duels_have_keys_times_and_forget():
    for player in (bw.Sparring(), bw.Sparring(bw.UCB1())):
        duel = bw.DuelingBandit(player, arms=3, seed=2)
        pair = duel.ask(key="vote")
        assert duel.ask(key="vote") is pair
        later = bw.DuelingBandit.loads(duel.dumps())
        again = later.ask(key="vote")
        assert (again.id, again.left, again.right) == (pair.id, pair.left, pair.right)
        later.tell("vote", winner="left")
        assert later.pending == []
        with pytest.raises(UnknownDecision, match="its id or its key, got 'vote'"):
            later.tell("vote", winner="left")
        duel.forget("vote")
        rest = [duel.ask() for _ in range(3)]
        assert rest[0].time > 0
        assert duel.expire(older_than=timedelta(hours=1)) == []
        assert duel.expire(older_than=1) == [2]
        assert duel.expire(older_than=0) == [3, 4]
        with pytest.raises(DecisionClosed):
            duel.forget(3)


def test_a_decision_as_a_dictionary():
    bandit = new()
    decision = bandit.ask(key="r")
    shown = json.loads(json.dumps(decision.as_dict()))
    assert shown["id"] == 1
    assert shown["probability"] == decision.probability
    assert dict(zip(shown["arms"], shown["probabilities"], strict=True)) == dict(
        decision.probabilities
    )
    assert new(bw.ThompsonSampling()).ask().as_dict()["probabilities"] is None


# --- the log ----------------------------------------------------------------------------------


def play(bandit, rounds, rng):
    waiting = []
    for _ in range(rounds):
        decision = bandit.ask()
        waiting.append(decision)
        if len(waiting) > 3:
            late = waiting.pop(int(rng.integers(4)))
            bandit.tell(late, loss=float(rng.random() * (0.5 if late.arm == "b" else 1.0)))
    return waiting


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, **by_repr)
def test_replay_of_a_log_gives_the_bandit_that_wrote_it(policy, tmp_path):
    path = tmp_path / "decisions.jsonl"
    bandit = new(policy, log=path)
    play(bandit, 300, np.random.default_rng(3))
    bandit.ask(available=["a", "b", "c"])
    again = bw.replay(policy, path, arms=["a", "b", "c"])
    assert again.pending == bandit.pending
    told = [(arm.told, arm.pulls) for arm in bandit.history().values()]
    assert [(arm.told, arm.pulls) for arm in again.history().values()] == told
    for name, arm in bandit.history().items():
        assert again.history()[name].mean_loss == pytest.approx(arm.mean_loss, abs=1e-12)
        if arm.estimate is not None:
            assert again.history()[name].estimate == pytest.approx(arm.estimate, rel=1e-9, abs=1e-9)
    if policy.traits.knows_probability:
        assert again.probabilities() == pytest.approx(bandit.probabilities(), abs=1e-9)


def test_a_log_changes_no_draw(tmp_path):
    one, other = new(), new(log=tmp_path / "log.jsonl")
    for t in range(200):
        a, b = one.ask(), other.ask()
        assert (a.arm, a.probability) == (b.arm, b.probability)
        one.tell(a, loss=t % 3 / 2)
        other.tell(b, loss=t % 3 / 2)
    assert one.probabilities() == other.probabilities()


def test_the_log_has_a_line_for_each_event_in_the_format_of_interop(tmp_path):
    path = tmp_path / "log.jsonl"
    bandit = new(log=path)
    decision = bandit.ask()
    assert len(path.read_text().splitlines()) == 1  # before anybody closes anything
    bandit.tell(decision, reward=1)
    decided, told = read_jsonl(path)
    assert (decided.round, decided.arm, decided.reward) == (1, decision.arm, None)
    assert decided.probabilities == dict(decision.probabilities)
    assert decided.extra["time"] == decision.time
    assert (told.round, told.reward, told.probability) == (1, 1.0, decision.probability)
    report = bw.inference.report(path)
    assert report[decision.arm].told == 1


def test_a_log_that_cannot_be_written_keeps_nobody_waiting():
    lines = []

    def full(line):
        if len(lines) >= 3:
            raise OSError("no space left")
        lines.append(line)

    bandit = new(log=full)
    decision = bandit.ask()
    bandit.tell(decision, loss=0.5)
    held = bandit.ask()
    before = bandit.probabilities()
    with pytest.raises(OSError, match="no space left"):
        bandit.tell(held, loss=0.5)
    assert bandit.pending == [held.id]
    assert bandit.probabilities() == before
    with pytest.raises(OSError, match="no space left"):
        bandit.ask()
    assert bandit.pending == [held.id]
    bandit.log = None
    bandit.tell(held, loss=0.5)
    assert bandit.pending == []


def test_half_a_line_of_a_crash_is_removed(tmp_path):
    path = tmp_path / "log.jsonl"
    bandit = new(log=path)
    bandit.tell(bandit.ask(), loss=0.5)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"round": 2, "ar')
    new(log=path)
    assert path.read_bytes() == whole
    path.write_bytes(whole[:-1])
    new(log=path)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("target", [7, b"x", ["log"]], ids=repr)
def test_other_logs_are_refused(target):
    with pytest.raises(InvalidParameter, match="The log of Bandit must be a path or a function"):
        new(log=target)


def test_replay_refuses_what_is_no_log():
    policy = bw.TsallisINF()
    for log, said in (
        (7, "The log of replay must be"),
        ([], "The log of replay must be one row or more"),
        ([7], "row 1"),
        ([{"round": 1}], "row 1 of the log"),
        ([{"round": 1, "arm": "a", "probability": 2}], "The probability of row 1 of the log"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            bw.replay(policy, log)
    with pytest.raises(InvalidParameter, match="The arm of row 1 of the log must be one of"):
        bw.replay(policy, [{"round": 1, "arm": "x"}], arms=["a", "b"])
    twice = [{"round": 1, "arm": "a"}, {"round": 2, "arm": "a"}, {"round": 1, "arm": "a"}]
    assert bw.replay(policy, twice[:2]).pending == [1, 2]


@pytest.mark.statistical
def test_replaying_anothers_log_is_unbiased():
    """Estimates from uniform play: the mean over 400 logs is rounds times the arms' means."""
    means, rounds, runs = np.array([0.2, 0.5, 0.8]), 60, 400
    rng = np.random.default_rng(5)
    found = np.empty((runs, 3))
    for run in range(runs):
        arms = rng.integers(3, size=rounds)
        losses = (rng.random(rounds) < means[arms]).astype(float)
        rows = [
            {"round": t + 1, "arm": int(arms[t]), "probability": 1 / 3, "loss": losses[t]}
            for t in range(rounds)
        ]
        replayed = bw.replay(bw.TsallisINF(estimator="iw"), rows, arms=3)
        found[run] = [arm.estimate for arm in replayed.history().values()]
    gaps = found - found[:, :1]
    expected = rounds * (means - means[0])
    error = gaps.std(axis=0, ddof=1) / np.sqrt(runs)
    assert (np.abs(gaps.mean(axis=0) - expected)[1:] < 4 * error[1:]).all()
    # The negative control: weighted by the policy's own probabilities it would be biased.
    assert np.abs(gaps.mean(axis=0) / 2 - expected)[1:].min() > 4 * error[1:].max()


# --- freezing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES, **by_repr)
def test_a_frozen_bandit_decides_as_it_did_and_learns_nothing(policy):
    bandit = new(policy)
    play(bandit, 60, np.random.default_rng(1))
    learning = bandit.copy()
    bandit.freeze()
    assert bandit.frozen
    kept = bandit.probabilities() if policy.traits.knows_probability else None
    estimates = [arm.estimate for arm in bandit.history().values()]
    told = sum(arm.told for arm in bandit.history().values())
    old = bandit.pending[0]
    bandit.tell(old, loss=1.0)
    for turn in range(40):
        decision = bandit.ask() if turn % 4 else bandit.ask(available=["a", "b"])
        if kept is not None and turn % 4:
            assert dict(decision.probabilities) == kept
        bandit.tell(decision, loss=1.0)
    assert [arm.estimate for arm in bandit.history().values()] == estimates
    assert sum(arm.told for arm in bandit.history().values()) == told + 41
    later = bw.Bandit.loads(bandit.dumps())
    assert later.frozen
    if kept is not None:
        assert later.probabilities() == pytest.approx(kept, abs=1e-12)
    assert not learning.frozen
    learning.tell(old, loss=1.0)


def test_a_frozen_bandit_of_many_arms():
    bandit = bw.Bandit(bw.TsallisINF(), arms=600, seed=1)
    for _ in range(20):
        bandit.tell(bandit.ask(), loss=1.0)
    bandit.freeze()
    before = bandit.probabilities()
    decisions = bandit.ask_many(5)
    assert dict(decisions[0].probabilities) == before
    assert decisions.ids == [21, 22, 23, 24, 25]
    bandit.tell_many(decisions, [1.0] * 5)
    assert bandit.probabilities() == before


@pytest.mark.statistical
def test_a_frozen_bandit_draws_by_its_probabilities():
    bandit = new()
    play(bandit, 100, np.random.default_rng(2))
    bandit.freeze()
    p = bandit.probabilities()
    n = 4000
    counts = dict.fromkeys(p, 0)
    for _ in range(n):
        counts[bandit.ask().arm] += 1
    for arm, share in p.items():
        assert abs(counts[arm] / n - share) < 4 * np.sqrt(share * (1 - share) / n)


# --- crafted files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("clip", 1),
        ("clipped", -1),
        ("clipped", 1.5),
        ("frozen", -1),
        ("frozen", 10**6),
        ("frozen", True),
        ("time", -1),
        ("time", "now"),
        ("key", ""),
        ("key", 7),
        ("learn", 0),
        ("probabilities", [2.0]),
        ("probabilities", [0.5, 0.5]),
        ("probabilities", "x"),
    ],
    ids=repr,
)
def test_crafted_values_of_the_new_fields_are_refused(field, value):
    from bothworlds.bandit.state_file import checksum

    bandit = new()
    bandit.ask(key="k")
    document = bandit.as_dict()
    content = document["content"]
    place = content if field in content else content["pending"][0]
    place[field] = value
    document["checksum"] = checksum(content)
    with pytest.raises(StateFileError):
        bw.Bandit.from_dict(document)
