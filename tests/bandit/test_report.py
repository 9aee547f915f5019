"""`Bandit.report`: the same as from a log, kept through files, late answers and changing arms."""

import json
import pickle
import random

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.evidence_keeper import MANY_ARMS
from bothworlds.errors import InvalidParameter, StateFileError
from bothworlds.logs.record import LoggedDecision

ARMS = ["blue", "green", "red"]
MEANS = {"blue": 0.3, "green": 0.6, "red": 0.7}
FLOOR = bw.Floor(bw.TsallisINF(), 0.5)


def play(bandit, n, seed=1, log=None):
    """Tell a bandit random losses at once; keep them in a log if there is one."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        decision = bandit.ask()
        loss = float(rng.random() < MEANS[decision.arm])
        if log is not None:
            log.append(LoggedDecision.of(decision, loss=loss))
        bandit.tell(decision, loss=loss)


def facts(report):
    return report.as_dict()["arms"], report.sure()


def alike(one, other):
    """Assert that two reports agree but for rounding."""
    for each, twin in zip(one.values(), other.values(), strict=True):
        assert (each.arm, each.decisions, each.told) == (twin.arm, twin.decisions, twin.told)
        for name in ("mean", "interval", "sequence"):
            found, meant = getattr(each, name), getattr(twin, name)
            assert (found is None) == (meant is None)
            if found is not None:
                assert found == pytest.approx(meant, rel=1e-9)


@pytest.mark.parametrize("policy", [FLOOR, bw.Exp3(), bw.UCB1(), bw.Uniform()], ids=repr)
def test_a_bandit_and_its_log_say_the_same(policy, monkeypatch):
    monkeypatch.setattr("bothworlds.inference.reports.FINE", 400)
    bandit, log = bw.Bandit(policy, arms=ARMS, seed=4), []
    play(bandit, 1500, log=log)
    ours, theirs = bandit.report(), bw.inference.report(log)
    for name in ARMS:
        assert ours[name].mean == pytest.approx(theirs[name].mean, rel=1e-9)
        assert ours[name].sequence == theirs[name].sequence
        if ours[name].interval is not None:
            assert ours[name].interval == pytest.approx(theirs[name].interval, rel=1e-9)
    assert ours.gap("blue", "red") == pytest.approx(theirs.gap("blue", "red"))


@pytest.mark.parametrize("drift", [False, True])
def test_files_copies_and_pickles_continue(tmp_path, drift):
    bandit = bw.Bandit(FLOOR, arms=ARMS, seed=4)
    play(bandit, 700)
    waiting = [bandit.ask() for _ in range(5)]
    bandit.save(tmp_path / "state.json")
    twins = [
        bw.Bandit.load(tmp_path / "state.json"),
        bandit.copy(),
        pickle.loads(pickle.dumps(bandit)),
    ]
    assert {json.dumps(facts(twin.report(drift=drift))) for twin in twins} == {
        json.dumps(facts(bandit.report(drift=drift)))
    }
    for each in (bandit, *twins):
        for decision in reversed(waiting):
            each.tell(decision.id, loss=0.5)
    for twin in twins:
        alike(twin.report(drift=drift), bandit.report(drift=drift))


def test_files_without_evidence_are_read(tmp_path):
    bandit = bw.Bandit(FLOOR, arms=ARMS, seed=4)
    play(bandit, 100)
    document = bandit._document()
    del document["evidence"], document["rewards"]
    again = bw.Bandit._restored(bandit.policy, document)
    report = again.report()
    assert "they came before sums were kept" in report["blue"].why
    assert report["blue"].told == bandit.report()["blue"].told


def test_damaged_evidence_is_refused(tmp_path):
    bandit = bw.Bandit(FLOOR, arms=ARMS, seed=4)
    play(bandit, 50)
    bandit.ask()
    for change in (
        lambda e: e.update(arms=2),
        lambda e: e.update(sums="AAAA"),
        lambda e: e["notes"][0].update(round=3),
        lambda e: e["notes"][0].update(numbers="AAAAAAAAAAA="),
    ):
        document = bandit._document()
        change(document["evidence"])
        with pytest.raises((ValueError, StateFileError)):
            bw.Bandit._restored(bandit.policy, document)


def test_late_answers_in_batches_one_by_one_and_in_any_order():
    """Told late, what counts is what was known at the decision, however it is told."""
    reports = []
    for way in ("batch", "singly", "parts"):
        bandit = bw.Bandit(FLOOR, arms=ARMS, seed=4)
        play(bandit, 300)
        decisions = bandit.ask_many(40)
        losses = np.random.default_rng(3).integers(2, size=40).astype(float)
        if way == "batch":
            bandit.tell_many(decisions, losses)
        elif way == "singly":
            for decision, loss in zip(decisions, losses.tolist(), strict=True):
                bandit.tell(decision.id, loss=loss)
        else:
            bandit.tell_many(decisions[:15], losses[:15])
            bandit.tell_many([d.id for d in decisions[15:]], losses[15:])
        assert not bandit._core.ledger.records
        reports.append(bandit.report())
    alike(reports[0], reports[1])
    alike(reports[0], reports[2])
    told = sum(each.told for each in reports[0].values())
    assert told == 340


def test_expired_decisions_leave_nothing_behind():
    bandit = bw.Bandit(FLOOR, arms=ARMS, seed=4)
    for _ in range(20):
        bandit.ask()
    bandit.expire(older_than=5)
    bandit.expire(older_than=2, loss=1.0)
    ledger = bandit._core.ledger
    assert list(ledger.records) == bandit.pending
    assert all(ledger[number].evidence is not None for number in ledger.records)
    assert sum(each.missing for each in bandit.report().values()) == 17


def test_arms_that_come_go_and_are_away():
    bandit = bw.Bandit(FLOOR, arms=ARMS, seed=4)
    play(bandit, 400)
    for _ in range(100):
        decision = bandit.ask(available=["blue", "red"])
        bandit.tell(decision, loss=MEANS[decision.arm])
    before = bandit.report()
    bandit.add_arm("pink")
    bandit.retire_arm("green")
    after = bandit.report()
    assert list(after) == [*ARMS, "pink"]
    for name in ARMS:
        assert after[name] == before[name]
    for _ in range(60):
        decision = bandit.ask()
        bandit.tell(decision, loss=0.25)
    last = bandit.report()
    assert last["green"] == before["green"]
    assert last["pink"].told == bandit.history()["pink"].told > 0
    assert last["pink"].mean == pytest.approx(0.25, abs=0.2)


def test_units_follow_what_was_told():
    losing, winning = (bw.Bandit(FLOOR, arms=ARMS, seed=4, bounds=(0, 10)) for _ in range(2))
    rng = np.random.default_rng(1)
    for _ in range(600):
        value = float(rng.integers(0, 11))
        losing.tell(losing.ask(), loss=value)
        winning.tell(winning.ask(), reward=10 - value)
    cost, gain = losing.report(), winning.report()
    for name in ARMS:
        assert cost[name].mean + gain[name].mean == pytest.approx(10)
        assert cost[name].sequence[0] + gain[name].sequence[1] == pytest.approx(10)
    assert cost.units.word, gain.units.word == ("loss", "reward")
    assert cost.gap("blue", "red") == pytest.approx(gain.gap("blue", "red"))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (bw.TsallisINF(), "no exploration floor"),
        (bw.UCB1(), "no exploration floor"),
        (bw.ThompsonSampling(), "no probabilities"),
    ],
    ids=repr,
)
def test_where_no_interval_is_sound_the_report_says_so(policy, words):
    bandit = bw.Bandit(policy, arms=ARMS, seed=4)
    play(bandit, 800)
    for each in bandit.report().values():
        assert each.interval is None
        assert words in each.why
        assert each.sequence is not None
        assert each.mean is not None
    assert bandit.report().gap("blue", "red") > -1


def test_few_events_have_no_interval():
    bandit = bw.Bandit(bw.Uniform(), arms=2, seed=4)
    for t in range(1, 1001):
        bandit.tell(bandit.ask(), reward=float(t % 100 == 0))
    for each in bandit.report().values():
        assert each.interval is None
        assert "fewer than 30 events" in each.why
        assert each.sequence[1] < 0.1


def test_a_mean_that_moved_is_noticed():
    bandit = bw.Bandit(bw.Uniform(), arms=2, seed=4)
    rng = np.random.default_rng(2)
    for t in range(4000):
        bandit.tell(bandit.ask(), loss=float(rng.random() < (0.1 if t < 2000 else 0.9)))
    for each in bandit.report().values():
        assert each.sequence is None
        assert each.interval is None
        assert "moved" in each.why
    assert bandit.report().gap(0, 1) == -1.0
    for each in bandit.report(drift=True).values():
        # Early rounds count more, and the bets are those of the first answers.
        low, high = each.sequence
        assert 0.1 < low < high < 0.9


def test_before_the_first_answer():
    report = bw.Bandit(FLOOR, arms=ARMS, seed=4).report()
    for each in report.values():
        assert (each.mean, each.interval, each.sequence) == (None, None, (0.0, 1.0))
        assert each.why == "There is no answer yet."
    assert report.gap("blue", "red") == -1.0
    assert report.sure() == []


@pytest.mark.parametrize(
    ("policy", "arms", "kept"),
    [(bw.TsallisINF(), 3, True), (bw.UCB1(), 64, True), (bw.TsallisINF(), 65, False)],
    ids=repr,
)
def test_sums_are_kept_by_default_up_to_64_arms(policy, arms, kept):
    bandit = bw.Bandit(policy, arms=arms, seed=4)
    for _ in range(10):
        bandit.tell(bandit.ask(), loss=0.5)
    if kept:
        assert sum(each.told for each in bandit.report().values()) == 10
    else:
        with pytest.raises(InvalidParameter, match=r"The evidence of Bandit\.report must be kept"):
            bandit.report()


def test_without_a_floor_the_report_says_what_is_not_sure():
    bandit = bw.Bandit(bw.TsallisINF(), arms=ARMS, seed=4)
    play(bandit, 2000)
    report = bandit.report()
    assert all(each.interval is None and "floor" in each.why for each in report.values())
    low, high = report["blue"].sequence
    assert low < 0.3 < high


def test_without_evidence_the_report_says_how_to_keep_it():
    bandit = bw.Bandit(bw.TsallisINF(), arms=ARMS, seed=4, evidence=False)
    play(bandit, 10)
    with pytest.raises(InvalidParameter, match=r"The evidence of Bandit\.report must be kept"):
        bandit.report()
    floored = bw.Bandit(FLOOR, arms=65, seed=4)
    floored.tell(floored.ask(), loss=0.5)
    assert sum(each.told for each in floored.report().values()) == 1
    with pytest.raises(InvalidParameter, match="The evidence of Bandit"):
        bw.Bandit(FLOOR, arms=ARMS, seed=4, evidence="yes")


def test_many_arms_are_refused():
    bandit = bw.Bandit(FLOOR, arms=MANY_ARMS, seed=4)
    bandit.tell(bandit.ask(), loss=0.5)
    with pytest.raises(InvalidParameter, match=r"The number of arms of Bandit\.report must be few"):
        bandit.report()


def some_report():
    bandit = bw.Bandit(FLOOR, arms=ARMS, seed=4)
    play(bandit, 2000)
    bandit.ask()
    return bandit, bandit.report()


def test_tables_and_html():
    _, report = some_report()
    text = str(report)
    assert "blue beats red by at least" in text
    assert "1 decisions have no answer" in text
    assert "<table>" in report._repr_html_()
    assert json.loads(json.dumps(report.as_dict()))["confidence"] == 0.95


@pytest.mark.slow
@pytest.mark.extra
def test_pictures(tmp_path):
    bandit, report = some_report()
    report.plot(tmp_path / "report.png")
    bandit.plot(tmp_path / "bandit.png")
    assert (tmp_path / "report.png").stat().st_size > 10_000
    assert (tmp_path / "bandit.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.parametrize(("policy", "explained"), [(FLOOR, True), (bw.TsallisINF(), False)])
def test_a_picture_explains_thick_lines_only_where_there_are_some(policy, explained):
    report = played(policy, 1).report()
    assert any(each.interval is not None for each in report.values()) == explained
    found = report.plot().findobj(lambda artist: hasattr(artist, "get_text"))
    texts = " ".join(artist.get_text() for artist in found)
    assert "thin: 95 % sequence" in texts
    assert ("thick" in texts) == explained


@pytest.mark.parametrize("confidence", [0, 1, 0.4, 95, "0.95", True, None, float("nan")])
def test_bad_confidence(confidence):
    with pytest.raises(InvalidParameter, match=r"The confidence of Bandit\.report must be a numbe"):
        bw.Bandit(FLOOR, arms=2, seed=1).report(confidence)


def played(policy, seed, rounds=300):
    """Return a bandit with three arms of losses 0 and 1 after some rounds."""
    rng, bandit = random.Random(seed), bw.Bandit(policy, arms=3, seed=seed)
    for _ in range(rounds):
        decision = bandit.ask()
        bandit.tell(decision, loss=float(rng.random() < (0.3, 0.5, 0.7)[decision.arm]))
    return bandit


def test_a_mean_outside_its_range_is_explained_and_no_other():
    explained = 0
    # With seed 28 a weighted mean is beyond 1, reported as 1, and so within its range.
    for seed in (*range(20, 25), 28):
        for each in played(bw.TsallisINF(), seed).report().values():
            low, high = each.sequence
            outside = not low <= each.mean <= high
            assert ("outside its own range" in each.why) == outside
            explained += outside
    assert explained == 1


def test_a_column_of_dashes_is_left_out():
    report = played(bw.TsallisINF(), 1).report()
    assert not any("set time" in head for head in report.heads())
    assert {len(row) for row in report.rows()} == {len(report.heads())} == {5}
    assert str(report).count("no exploration floor. Floor(policy, 0.5) adds one") == 1
    floored = played(FLOOR, 1).report()
    assert sum("set time" in head for head in floored.heads()) == 1
    assert {len(row) for row in floored.rows()} == {6}
