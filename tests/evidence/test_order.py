"""Evidence in the order of the decisions: delays that depend on the outcome mislead no report."""

import random
from collections import deque

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit import evidence_keeper
from bothworlds.bandit.core import Core
from bothworlds.evidence import bounds, layout
from bothworlds.evidence.sums import Evidence

RUNS, ROUNDS, LOOK = 300, 1000, 100
SETTINGS = [(rate, closed) for rate in (0.5, 0.1) for closed in (5, 20, 100)]


def silent_run(bandit, rate, closed, world):
    """Report clicks at once, close silence after ``closed`` rounds; yield every `LOOK` rounds."""
    silent = deque()
    ask, tell, chance = bandit.ask, bandit.tell, world.random
    for t in range(1, ROUNDS + 1):
        decision = ask()
        if chance() < rate:
            tell(decision, loss=0.0)
        else:
            silent.append(decision.id)
        if silent and t - silent[0] >= closed:
            tell(silent.popleft(), loss=1.0)
        if t % LOOK == 0:
            yield


def errors(rate, closed, runs=RUNS):
    """Return the shares of A/A runs with a false difference, and with a mean outside a sequence."""
    first = bw.Bandit(bw.TsallisINF(), arms=2, seed=1)
    differ = wrong = 0
    for run in range(runs):
        bandit = first.copy(seed=run)
        gaps = outside = False
        for _ in silent_run(bandit, rate, closed, random.Random(f"{run}, {rate}, {closed}")):
            evidence = bandit._core.keeper.evidence
            gaps |= any(bounds.gap(evidence, a, 1 - a, 0.95) > 0 for a in range(2))
            for arm in range(2):
                low, high = bounds.sequence(evidence, arm, 0.95) or (1.0, 0.0)
                outside |= arm == 0 and not low <= 1.0 - rate <= high
        differ += gaps
        wrong += outside
    return differ / runs, wrong / runs


@pytest.mark.statistical
@pytest.mark.parametrize(("rate", "closed"), SETTINGS)
def test_silence_that_is_closed_late_misleads_no_report(rate, closed):
    """Each statement errs in at most 5 % of the runs, however often the report is read."""
    differ, wrong = errors(rate, closed)
    assert differ <= 0.05
    assert wrong <= 0.05


@pytest.mark.statistical
@pytest.mark.parametrize(("rate", "closed"), [(0.5, 100), (0.1, 20), (0.1, 100)])
def test_the_order_of_the_answers_would_mislead(monkeypatch, rate, closed):
    """The control: evidence in the order of the answers claims differences that are not there."""
    monkeypatch.setattr(Core, "_hold", lambda self, number: None)
    differ, wrong = errors(rate, closed, runs=100)
    assert differ >= 0.10
    assert wrong >= 0.15


def answered(bandit, order, losses):
    """Tell the decisions of these rounds in this order."""
    for number in order:
        bandit.tell(number, loss=losses[number])


def in_order(arms, losses, rounds):
    """Return the evidence on the own losses of the arms, decision after decision."""
    evidence = Evidence(3)
    for number in rounds:
        evidence.add(arms[number], 0.0, losses[number], number)
    return evidence


def agree(bandit, expected):
    """Tell whether a bandit's evidence on own losses, to the last bit, is the expected one."""
    found = bandit._core.keeper.evidence
    rows = (layout.N, layout.S, layout.V)
    # A state file leaves out the capitals of means that are excluded for good.
    capitals = np.where(found.capitals() == 0.0, 0.0, expected.capitals())
    return np.array_equal(found.capitals(), capitals) and all(
        np.array_equal(found.row(row), expected.row(row)) for row in rows
    )


def some_answers(seed=5, n=40):
    bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=seed)
    world = random.Random(seed)
    arms = {d.id: d.index for d in (bandit.ask() for _ in range(n))}
    losses = {number: float(world.random() < 0.4) for number in arms}
    order = list(arms)
    world.shuffle(order)
    return bandit, arms, losses, order


def closed_prefix(order, done):
    """Return the rounds before the first that is not among the first ``done`` of the order."""
    first = min(order[done:], default=len(order) + 1)
    return range(1, first)


@pytest.mark.parametrize("way", ["tell", "tell_many", "saved", "copied", "dropped"])
def test_evidence_is_that_of_the_decisions_before_the_first_pending_one(way):
    bandit, arms, losses, order = some_answers()
    kept = list(order)
    for done in range(0, 40, 8):
        part = order[done : done + 8]
        if way == "tell_many":
            bandit.tell_many(part, [losses[number] for number in part])
        elif way == "dropped":
            bandit.forget(part[0])
            kept.remove(part[0])
            answered(bandit, part[1:], losses)
        else:
            answered(bandit, part, losses)
        if way == "saved":
            bandit = bw.Bandit.loads(bandit.dumps())
        elif way == "copied":
            bandit = bandit.copy()
        rounds = [n for n in closed_prefix(order, done + 8) if n in kept]
        assert agree(bandit, in_order(arms, losses, rounds))
    assert not bandit.pending
    assert bandit._core.keeper.waiting == []


def test_prompt_answers_wait_behind_a_pending_decision_and_say_so():
    bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=1)
    first = bandit.ask()
    for _ in range(10):
        bandit.tell(bandit.ask(), loss=0.0)
    report = bandit.report()
    assert sum(each.told for each in report.values()) == 10
    assert bandit._core.keeper.evidence.told == 0
    assert "answers are not counted yet: earlier decisions are pending." in str(report)
    bandit.tell(first, loss=1.0)
    assert bandit._core.keeper.evidence.told == 11
    assert "not counted" not in str(bandit.report())


def test_waiting_changes_no_draw():
    """The policy learns at once; only the evidence waits."""
    drawn = []
    for kept in (True, False):
        bandit = bw.Bandit(bw.TsallisINF(), arms=3, seed=9, evidence=kept)
        for _ in silent_run(bandit, 0.5, 20, random.Random(3)):
            pass
        drawn.append([bandit.ask().arm for _ in range(50)] + list(bandit.probabilities().values()))
    assert drawn[0] == drawn[1]


def test_beyond_the_bound_the_oldest_decisions_are_passed_over_and_counted(monkeypatch):
    monkeypatch.setattr(evidence_keeper, "MOST_NUMBERS", 9 * 20)
    bandit = bw.Bandit(bw.TsallisINF(), arms=2, seed=1)
    first, second = bandit.ask(), bandit.ask()
    keeper = bandit._core.keeper
    for n in range(1, 41):
        bandit.tell(bandit.ask(), loss=0.0)
        assert len(keeper.waiting) <= 20
        assert keeper.evidence.told == (0 if n <= 20 else n)
    again = bw.Bandit.loads(bandit.dumps())
    for each in (bandit, again):
        each.tell(second.id, loss=1.0)
        each.tell(first.id, loss=1.0)
        kept = each._core.keeper
        assert (kept.overtaken, kept.evidence.told, kept.waiting) == (2, 42, [])
        assert "2 answers were counted after those of later decisions" in str(each.report())


def test_drift_has_no_interval_at_a_fixed_time_and_names_its_average():
    bandit = bw.Bandit(bw.Floor(bw.TsallisINF(), 0.5), arms=2, seed=1)
    for t in range(600):
        bandit.tell(bandit.ask(), loss=float(t % 2))
    assert all(each.interval is not None for each in bandit.report().values())
    drifting = bandit.report(drift=True)
    assert all(each.interval is None and each.sequence for each in drifting.values())
    assert "average of an arm's means over the rounds so far" in str(drifting)
