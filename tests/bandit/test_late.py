"""Late feedback, many decisions at once, and the faults that late feedback had."""

import os
import pickle

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.decision import Decision
from bothworlds.errors import (
    DecisionClosed,
    InvalidFeedback,
    InvalidParameter,
    KernelError,
    UnknownDecision,
)
from helpers.bandits import POLICIES, content

EVERY = [*POLICIES, bw.TsallisINF(alpha=1.0, estimator="iw"), bw.TsallisINF(alpha=0.0)]


def warm(policy, n_arms=5):
    bandit = bw.Bandit(policy, arms=n_arms, seed=4)
    for t in range(40):
        bandit.tell(bandit.ask(), loss=t % 7 / 7)
    return bandit


# --- many at once --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", EVERY, ids=repr)
def test_ask_many_is_as_many_asks(policy):
    together = warm(policy)
    alone = together.copy()
    many = together.ask_many(60)
    single = [alone.ask() for _ in range(60)]
    assert many.ids == range(41, 101)
    for one, other in zip(many, single, strict=True):
        assert (one.id, one.arm, one.index) == (other.id, other.arm, other.index)
        assert one.probability == other.probability
        assert one.probabilities == other.probabilities
    assert content(together) == content(alone)


@pytest.mark.parametrize("policy", EVERY, ids=repr)
@pytest.mark.parametrize("how", ["whole", "part", "ids", "shuffled"])
def test_tell_many_is_as_many_late_tells(policy, how):
    together = warm(policy)
    alone = together.copy()
    decisions = together.ask_many(60)
    alone.ask_many(60)
    rng = np.random.default_rng(1)
    order = rng.permutation(60) if how == "shuffled" else range(60)
    if how == "whole":
        told, ids = decisions, list(decisions.ids)
    else:
        chosen = [decisions[int(k)] for k in order][: 30 if how == "part" else None]
        ids = [decision.id for decision in chosen]
        told = ids if how == "ids" else chosen
    losses = rng.random(len(ids)).tolist()
    together.tell_many(told, losses)
    for number, loss in zip(ids, losses, strict=True):
        alone.tell(number, loss=loss)
    assert content(together) == content(alone)
    assert len(together.pending) == 60 - len(ids)


def test_many_arms_are_asked_at_once():
    together = warm(bw.TsallisINF(), n_arms=600)
    alone = together.copy()
    decisions = together.ask_many(20)
    assert [d.arm for d in decisions] == [alone.ask().arm for _ in range(20)]
    with pytest.raises(DecisionClosed):
        _ = decisions[3].probabilities
    together.tell_many(decisions, rewards=np.full(20, 0.25))
    for number in decisions.ids:
        alone.tell(number, reward=0.25)
    assert content(together) == content(alone)


def test_decisions_of_a_batch_are_a_sequence():
    bandit = warm(bw.TsallisINF())
    decisions = bandit.ask_many(4)
    assert len(decisions) == 4
    assert isinstance(decisions[-1], Decision)
    assert decisions[-1].id == 44
    assert [d.id for d in decisions[1:3]] == [42, 43]
    assert decisions.arms == [d.arm for d in decisions]
    assert decisions.indices.tolist() == [d.index for d in decisions]
    assert [d.id for d in pickle.loads(pickle.dumps(decisions))] == [41, 42, 43, 44]
    with pytest.raises(IndexError):
        _ = decisions[4]
    bandit.tell(decisions[2], loss=0.5)
    bandit.tell(44, loss=0.5)
    assert bandit.pending == [41, 42]
    assert bandit.expire(older_than=2) == [41]


BAD = [
    (InvalidFeedback, lambda b, d: b.tell_many(d)),
    (InvalidFeedback, lambda b, d: b.tell_many(d, [0.5] * 3, rewards=[0.5] * 3)),
    (InvalidFeedback, lambda b, d: b.tell_many(d, [0.5] * 2)),
    (InvalidFeedback, lambda b, d: b.tell_many(d, [0.5, 0.5, 1.5])),
    (InvalidFeedback, lambda b, d: b.tell_many(d, [0.5, 0.5, float("nan")])),
    (InvalidFeedback, lambda b, d: b.tell_many(d, np.array([0.5, np.nan, 0.5]))),
    (InvalidFeedback, lambda b, d: b.tell_many(d, [0.5, 0.5, "x"])),
    (InvalidFeedback, lambda b, d: b.tell_many(d, "0.5")),
    (InvalidFeedback, lambda b, d: b.tell_many(d, 0.5)),
    (InvalidParameter, lambda b, d: b.tell_many([d[0], d[1], d[0]], [0.5] * 3)),
    (UnknownDecision, lambda b, d: b.tell_many([d[0], d[1], 99], [0.5] * 3)),
    (DecisionClosed, lambda b, d: b.tell_many([d[0], d[1], 1], [0.5] * 3)),
    (UnknownDecision, lambda b, d: b.tell_many([d[0], d[1], 0], [0.5] * 3)),
    (UnknownDecision, lambda b, d: b.tell_many([d[0], d[1], None], [0.5] * 3)),
    (InvalidParameter, lambda b, d: b.ask_many(0)),
    (InvalidParameter, lambda b, d: b.ask_many(True)),
    (InvalidParameter, lambda b, d: b.ask_many(2.5)),
]


@pytest.mark.parametrize("place", range(len(BAD)))
def test_bad_batches_change_nothing(place):
    error, call = BAD[place]
    bandit = warm(bw.TsallisINF())
    decisions = bandit.ask_many(3)
    before = content(bandit)
    with pytest.raises(error) as raised:
        call(bandit, decisions)
    assert "\n" not in str(raised.value)
    assert content(bandit) == before
    bandit.tell_many(decisions, [0, 1, 0.5])


@pytest.mark.slow
def test_a_batch_of_a_users_policy_is_checked():
    @bw.policies.custom
    class Falls:
        def start(n_arms):
            return np.zeros(1)

        def choose(state, parameters, n_arms, t, generator):
            return 7 if t == 5 else t % n_arms

        def update(state, parameters, n_arms, t, arm, probability, loss):
            state[0] += loss

    bandit = bw.Bandit(Falls(), arms=3, seed=1)
    assert [d.index for d in bandit.ask_many(4)] == [1, 2, 0, 1]
    before = content(bandit)
    with pytest.raises(KernelError):
        bandit.ask_many(4)
    assert content(bandit) == before


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, -1, -(2**70)])
def test_ids_below_one_are_refused(number):
    bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=1)
    for _ in range(2):
        before = content(bandit)
        with pytest.raises(UnknownDecision, match="must be a decision of this bandit"):
            bandit.tell(number, loss=1)
        assert content(bandit) == before
        bandit.tell(bandit.ask(), loss=0.5)


def test_a_slot_does_not_outlive_its_arm():
    bandit = bw.Bandit(bw.TsallisINF(), arms=400, seed=1)
    while bandit.ask().index < 300:
        pass
    bandit.tell(bandit.pending[-1], loss=0.5)
    for arm in range(399, 8, -1):
        bandit.retire_arm(arm)
    before = content(bandit)
    with pytest.raises(UnknownDecision):
        bandit.tell(0, loss=1)
    assert content(bandit) == before
    for number in bandit.pending:
        bandit.tell(number, loss=1)
    assert sum(bandit.probabilities().values()) == pytest.approx(1.0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_save_replaces_no_device_and_no_pipe(tmp_path):
    bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/null"):
        with pytest.raises(InvalidParameter, match=r"^The .*\.$"):
            bandit.save(path)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_bounds_too_far_apart_get_a_true_sentence():
    with pytest.raises(InvalidParameter, match="two numbers at a finite distance"):
        bw.Bandit(bw.TsallisINF(), arms=2, bounds=(-1e308, 1e308))
