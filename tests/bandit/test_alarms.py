"""The alarm of a bandit: which arm, when and how sure; it reports and never acts."""

import copy
import math
import pickle

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.state_file import checksum
from bothworlds.errors import InvalidParameter, StateFileError
from bothworlds.lanes.functions import is_due
from bothworlds.policies.alarm import FIELDS, MOST, change, observe

ARMS = ["a", "b", "c"]


def made(policy=None, **options):
    return bw.Bandit(
        policy or bw.TsallisINF(), arms=ARMS, **{"seed": 5, "evidence": True, **options}
    )


def turned(t, index):
    """Loss 0.2 or 0.8 on average; the arms change places after 300 rounds."""
    rng = np.random.default_rng([t, index])
    return float(rng.random() < (0.2 if (index == 0) == (t < 300) else 0.8))


def play(bandit, rounds, first=0):
    arms = []
    for t in range(first, first + rounds):
        decision = bandit.ask()
        arms.append(decision.index)
        bandit.tell(decision, loss=turned(t, decision.index))
    return arms


def due(N):
    """After each of the first 128 losses, then 64 times per doubling."""
    return N % max(1, 2 ** (int(math.log2(N)) - 6)) == 0


def reference(arms, first=0):
    """What the test says, arm by arm, with a ring for each."""
    rings = np.zeros((3, FIELDS))
    found = []
    for t, arm in enumerate(arms, first):
        observe(rings[arm], 0, 1, turned(t, arm))
        if not due(int(rings[arm][0])):
            continue
        value, cut = change(rings[arm], 0, 1, math.log(2 * 3 / 0.01))
        if value > 0:
            N = rings[arm][0]
            size = 2 * 3 * N**1.5 * (1 + math.log2(N))
            found.append((ARMS[arm], t + 1, 1 - size * math.exp(-value), int(N - cut)))
            rings[arm] = 0.0
    return found


def said(bandit):
    return [(x.arm, x.round, x.confidence, x.since) for x in bandit.alarms()]


def test_it_sounds_when_the_test_says_so_and_says_how_sure():
    bandit = made(bw.Floor(bw.TsallisINF(), 0.2, power=0))
    arms = play(bandit, 900)
    expected = reference(arms)
    assert [x[:2] for x in said(bandit)] == [x[:2] for x in expected]
    for found, other in zip(said(bandit), expected, strict=True):
        assert found[2:] == pytest.approx(other[2:])
    first = bandit.alarms()[0]
    assert first.arm == "a" and 300 < first.round < 400
    assert first.before == pytest.approx(0.2, abs=0.1)
    assert first.after == pytest.approx(0.8, abs=0.25)
    assert 0.99 < first.confidence < 1


def test_when_it_tests():
    assert [N for N in range(1, 3000) if is_due(N)] == [N for N in range(1, 3000) if due(N)]
    assert sum(map(due, range(1024, 2048))) == 64


def test_it_never_acts():
    listening, deaf = made(), made(evidence=False)
    assert play(listening, 700) == play(deaf, 700)
    assert listening.probabilities() == deaf.probabilities()
    assert listening.alarms()


def test_late_feedback_counts_in_the_order_it_is_told():
    one, many = made(bw.Uniform()), made(bw.Uniform())
    ids = [one.ask().id for _ in range(600)]
    decisions = many.ask_many(600)
    losses = [turned(t, arm) for t, arm in enumerate(d.index for d in decisions)]
    for number, loss in zip(ids, losses, strict=True):
        one.tell(number, loss=loss)
    many.tell_many(decisions, losses)
    expected = reference([d.index for d in decisions])
    assert said(one) == said(many)
    assert [x[:2] for x in said(one)] == [x[:2] for x in expected]
    assert expected


def test_rewards_come_in_the_users_units():
    bandit = made(bounds=(0, 50))
    for t in range(600):
        decision = bandit.ask()
        bandit.tell(decision, reward=50.0 * (1 - turned(t, decision.index)))
    first = bandit.alarms()[0]
    assert first.before > 30 > 20 > first.after


def test_files_copies_and_new_arms(tmp_path):
    bandit = made()
    play(bandit, 500)
    bandit.add_arm("d")
    before = said(bandit)
    assert before
    bandit.save(tmp_path / "bandit.json")
    twins = [
        bandit, bw.Bandit.load(tmp_path / "bandit.json"), copy.deepcopy(bandit),
        pickle.loads(pickle.dumps(bandit)),
    ]  # fmt: skip
    for twin in twins:
        assert said(twin) == before
        for t in range(500, 1500):
            decision = twin.ask()
            twin.tell(decision, loss=float(decision.arm == "d") if t < 1000 else 0.5)
    assert len({str(twin.alarms()) for twin in twins}) == 1
    assert len(said(bandit)) > len(before)


def test_a_file_from_before_there_were_alarms():
    bandit = made()
    play(bandit, 500)
    document = bandit.as_dict()
    del document["content"]["evidence"]["alarms"]
    document["checksum"] = checksum(document["content"])
    again = bw.Bandit.from_dict(document)
    assert again.alarms() == []
    play(again, 10)


def test_the_latest_are_kept():
    bandit = bw.Bandit(bw.Uniform(), arms=1, seed=1, evidence=True)
    for t in range(12_000):
        bandit.tell(bandit.ask(), loss=float(t // 60 % 2))
    alarms = bandit.alarms()
    assert len(alarms) == MOST
    rounds = [alarm.round for alarm in alarms]
    assert rounds == sorted(rounds) and rounds[-1] > 11_800
    assert str(bw.Bandit.loads(bandit.dumps()).alarms()) == str(alarms)


@pytest.mark.statistical
def test_false_alarms_are_rare():
    """300 runs in which nothing changes, and as many in which something does."""

    def heard(shift):
        loud = 0
        for seed in range(300):
            rng = np.random.default_rng(seed)
            bandit = bw.Bandit(bw.Uniform(), arms=2, seed=seed, evidence=True)
            decisions = bandit.ask_many(400)
            means = 0.4 + shift * (np.arange(400) >= 200)
            bandit.tell_many(decisions, (rng.random(400) < means).astype(float))
            loud += bool(bandit.alarms())
        return loud / 300

    assert heard(0.0) <= 0.01 + 3.5 * math.sqrt(0.01 * 0.99 / 300)
    assert heard(0.5) > 0.9


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.update(heard=1.5),
        lambda a: a.update(heard=a["heard"] + 1),
        lambda a: a["records"].__setitem__(0, 3.0),
        lambda a: a["records"].__setitem__(1, 0.5),
        lambda a: a["records"].__setitem__(4, 1e9),
        lambda a: a["sums"].append(0.0),
        lambda a: a["sums"].__setitem__(0, 0.5),
        lambda a: a["sums"].__setitem__(0, -1.0),
        lambda a: a["sums"].extend([0.0] * 3 * FIELDS),
        lambda a: a.pop("sums"),
    ],
)
def test_a_file_of_wrong_numbers_is_refused(change):
    bandit = made()
    play(bandit, 500)
    document = bandit.as_dict()
    bw.Bandit.from_dict(document)
    change(document["content"]["evidence"]["alarms"])
    document["checksum"] = checksum(document["content"])
    with pytest.raises(StateFileError, match="is damaged or was edited"):
        bw.Bandit.from_dict(document)


def test_where_nothing_is_kept():
    with pytest.raises(InvalidParameter, match=r"The evidence of Bandit\.alarms must be kept from"):
        made(evidence=False).alarms()
    with pytest.raises(InvalidParameter, match=r"number of arms of Bandit\.alarms must be fewer"):
        bw.Bandit(bw.TsallisINF(), arms=600, evidence=True).alarms()
