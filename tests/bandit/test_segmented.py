"""A bandit per segment: independent, seeded by name, dropped by age, kept in one file."""

import copy
import math
import pickle
import threading
from datetime import timedelta

import pytest

import bothworlds as bw
from bothworlds.bandit.borrowed import borrowed
from bothworlds.bandit.state import columns
from bothworlds.errors import (
    DecisionClosed,
    InvalidFeedback,
    InvalidParameter,
    StateFileError,
    UnknownDecision,
)
from bothworlds.seeding import derived_seed

ARMS = ["a", "b", "c"]


def made(**options):
    return bw.SegmentedBandit(bw.TsallisINF(), arms=ARMS, **{"seed": 7, **options})


def loss_of(segment, t, index):
    return float((len(segment) + t * 7 + index * 3) % 5 < 2)


def play(bandit, segments):
    """Ask and tell in these segments; return the arms by segment."""
    arms = {}
    for segment in segments:
        decision = bandit.ask(segment)
        arms.setdefault(segment, []).append(decision.arm)
        bandit.tell(decision, loss=loss_of(segment, len(arms[segment]), decision.index))
    return arms


def test_a_segment_is_a_bandit_of_its_own_whatever_the_others_do():
    mixed = play(made(), ["de", "fr", "de/mobile"] * 40)
    turned = play(made(), ["de/mobile"] * 40 + ["fr"] * 40 + ["de"] * 40)
    assert mixed == turned
    alone = bw.Bandit(bw.TsallisINF(), arms=ARMS, seed=derived_seed(7, "segment", "fr"))
    arms = []
    for t in range(1, 41):
        decision = alone.ask()
        arms.append(decision.arm)
        alone.tell(decision, loss=loss_of("fr", t, decision.index))
    assert arms == mixed["fr"]
    # Names seed: two segments with the same feedback draw different arms.
    one, other = (play(made(), [name] * 40)[name] for name in ("xx", "yy"))
    assert one != other
    assert play(made(seed=8), ["fr"] * 40)["fr"] != mixed["fr"]


def test_segments_learn_apart():
    bandit = made()
    for _ in range(300):
        for segment, good in (("de", "a"), ("fr", "c")):
            decision = bandit.ask(segment)
            bandit.tell(decision.id, reward=decision.arm == good)
    best = {s: max(bandit.probabilities(s).items(), key=lambda x: x[1])[0] for s in ("de", "fr")}
    assert best == {"de": "a", "fr": "c"}
    assert bandit.probabilities("new") == pytest.approx(dict.fromkeys(ARMS, 1 / 3))
    assert "new" not in bandit and len(bandit) == 2
    assert bandit.round == 600
    assert bandit.history()["de"]["a"].pulls > 200


def test_late_feedback_in_any_order_once():
    bandit = made()
    decisions = [bandit.ask(s) for s in ("de", "fr", "de", "fr")]
    assert bandit.pending == ["1.1@de", "1.2@de", "2.1@fr", "2.2@fr"]
    for decision in reversed(decisions):
        bandit.tell(decision, loss=0.5)
    assert bandit.pending == []
    with pytest.raises(DecisionClosed):
        bandit.tell(decisions[0], loss=0.5)
    with pytest.raises(DecisionClosed):
        bandit.tell(decisions[0].id, loss=0.5)


def test_the_least_recently_used_is_dropped_beyond_the_limit():
    bandit = made(limit=2)
    first = bandit.ask("de")
    bandit.ask("fr")
    bandit.tell(first, loss=1.0)  # which is a use
    bandit.ask("it")
    assert bandit.segments == ("de", "it")
    again = bandit.ask("fr")
    assert bandit.segments == ("it", "fr")
    # The segment is new: it starts afresh, and old decisions are not taken for its own.
    assert again.round == 1
    assert list(again.probabilities.values()) == pytest.approx([1 / 3] * 3)
    with pytest.raises(DecisionClosed, match=r"must be pending, got '2.1@fr', whose segment was"):
        bandit.tell("2.1@fr", loss=0.5)
    with pytest.raises(DecisionClosed, match="whose segment was dropped"):
        bandit.tell(first, loss=0.5)
    bandit.tell(again, loss=0.5)
    assert bandit.pending == ["3.1@it"]


def test_dropping_forgetting_and_expiring():
    bandit = made()
    one, two, three = (bandit.ask(s) for s in ("de", "de", "fr"))
    bandit.forget(one)
    assert bandit.expire(older_than=5) == []
    assert bandit.expire(older_than=timedelta(0), loss=1.0) == [two.id, three.id]
    assert bandit.pending == []
    bandit.drop("de")
    assert bandit.segments == ("fr",)
    with pytest.raises(
        InvalidParameter, match=r"The segment of SegmentedBandit\.drop must be an existing segment"
    ):
        bandit.drop("de")
    with pytest.raises(InvalidParameter, match="must be an existing segment, got 'de'"):
        bandit["de"]


def test_a_key_stands_for_a_pending_decision_of_any_segment():
    bandit = made(limit=2)
    decision = bandit.ask("de", key="request-1")
    assert decision.key == "request-1" and bandit.ask("fr").key is None
    assert bandit.ask("de", key="request-1") is decision
    assert bandit.round == 2
    twins = (bandit.copy(), bw.SegmentedBandit.loads(bandit.dumps()), bandit)
    for twin in twins:
        assert twin.ask("de", key="request-1").id == decision.id
        with pytest.raises(InvalidParameter, match=r"not pending in another segment, 'de', got"):
            twin.ask("fr", key="request-1")
        twin.tell("request-1", reward=1.0)
        with pytest.raises(UnknownDecision, match=r"must be pending, .* or its key, got 'reques"):
            twin.tell("request-1", reward=1.0)
        # Whatever closes a decision frees its key.
        for close in (
            lambda b: b.forget("request-1"),
            lambda b: b.expire(older_than=timedelta(0)),
            lambda b: b.drop("fr"),
            lambda b: [b.ask(segment) for segment in ("it", "es")],
        ):
            old = twin.ask("fr", key="request-1")
            close(twin)
            assert not twin.awaits(old.id)
            assert twin.ask("fr", key="request-1").id != old.id
            twin.tell("request-1", loss=1.0)
    assert [twin.history() for twin in twins] == [bandit.history()] * 3


def test_losses_without_bounds(tmp_path):
    bandit = bw.SegmentedBandit(bw.HTINF(scale=100.0), arms=ARMS, seed=7)
    assert bandit.bounds == (-math.inf, math.inf) and made().bounds == (0.0, 1.0)
    for _ in range(200):
        decision = bandit.ask("de")
        bandit.tell(decision, loss=80.0 if decision.arm == "b" else 2500.0)
    loaded = bw.SegmentedBandit.loads(bandit.dumps())
    assert loaded.bounds == bandit.bounds and repr(loaded) == repr(bandit)
    assert max(loaded.probabilities("de").items(), key=lambda x: x[1])[0] == "b"
    limited = bw.SegmentedBandit(bw.HTINF(scale=100.0), arms=ARMS, bounds=(0, 50), seed=7)
    with pytest.raises(InvalidFeedback):
        limited.tell(limited.ask("de"), loss=80.0)
    assert bw.SegmentedBandit.loads(limited.dumps()).bounds == (0.0, 50.0)


def test_one_file_holds_everything(tmp_path):
    bandit = made(limit=3, bounds=(0, 50), clip=True)
    segments = ["de", "fr", "it/mobile"] * 20
    for t, segment in enumerate(segments):
        decision = bandit.ask(segment)
        bandit.tell(decision, reward=10.0 * (t % 6))
    waiting = [bandit.ask("fr"), bandit.ask("it/mobile", available=["a", "b"])]
    path = tmp_path / "segments.json"
    bandit.save(path)
    loaded = bw.SegmentedBandit.load(path)
    twins = (bandit, loaded, copy.deepcopy(bandit), pickle.loads(pickle.dumps(bandit)))
    assert {twin.segments for twin in twins} == {("de", "fr", "it/mobile")}
    assert {repr(twin) for twin in twins} == {repr(bandit)}
    found = []
    for twin in twins:
        for decision in waiting:
            twin.tell(decision, reward=70.0)
        found.append([twin.ask(s).arm for s in ("it/mobile", "es", "fr") * 9])
        assert twin.segments == ("it/mobile", "es", "fr")
    assert found == [found[0]] * 4
    assert bandit.copy(seed=1).ask("fr").round == bandit.ask("fr").round


def test_processes_may_share_the_file(tmp_path):
    path = tmp_path / "segments.json"
    with bw.shared(path, made) as bandit:
        id = bandit.ask("de").id
    with bw.shared(path) as bandit:
        bandit.tell(id, reward=1.0)
        assert bandit.pending == []
    with pytest.raises(StateFileError, match="format"):
        bw.Bandit.load(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c["segments"].append(c["segments"][0]), "repeated"),
        (lambda c: c["segments"][0].update(name=""), "an invalid or repeated segment"),
        (lambda c: c["segments"][0].update(birth=99), "birth"),
        (lambda c: c.update(limit=1), "more segments than the limit"),
        (lambda c: c.update(seed=8), "a segment of another bandit"),
        (lambda c: c.update(arms=["a", "b"]), "a segment of another bandit"),
        (lambda c: c["segments"][0].update(bandit={}), "is damaged or was edited"),
        (lambda c: c.update(bounds=[0]), "is damaged or was edited"),
        (lambda c: c.update(bounds=None), "no bounds for a policy that needs them"),
        (lambda c: c.pop("born"), "is damaged or was edited"),
    ],
)
def test_a_file_of_wrong_numbers_is_refused(change, sentence):
    from bothworlds.bandit.state_file import checksum

    bandit = made()
    play(bandit, ["de", "fr"])
    document = bandit.as_dict()
    bw.SegmentedBandit.from_dict(document)
    change(document["content"])
    document["checksum"] = checksum(document["content"])
    with pytest.raises((StateFileError, InvalidParameter), match=sentence):
        bw.SegmentedBandit.from_dict(document)


def test_threads_share_it():
    bandit = made(limit=50)

    def work(name):
        for _ in range(100):
            bandit.tell(bandit.ask(name), loss=0.5)

    threads = [threading.Thread(target=work, args=(f"s{n % 4}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bandit.round == 800 and bandit.pending == []


def test_what_is_refused_changes_nothing():
    bandit = made()
    decision = bandit.ask("de")
    before = bandit.as_dict()
    stranger = made(seed=8).ask("de")
    for act, error in (
        (lambda: bandit.ask(""), InvalidParameter),
        (lambda: bandit.ask(7), InvalidParameter),
        (lambda: bandit.ask("x" * 1001), InvalidParameter),
        (lambda: bandit.ask("de", available=["z"]), InvalidParameter),
        (lambda: bandit.ask("new", available=["z"]), InvalidParameter),
        (lambda: bandit.tell(decision, loss=2.0), InvalidFeedback),
        (lambda: bandit.tell(decision), InvalidFeedback),
        (lambda: bandit.tell(stranger, loss=0.5), UnknownDecision),
        (lambda: bandit.tell("1.1", loss=0.5), UnknownDecision),
        (lambda: bandit.tell("9.1@de", loss=0.5), UnknownDecision),
        (lambda: bandit.tell("1.9@de", loss=0.5), UnknownDecision),
        (lambda: bandit.tell("01.1@de", loss=0.5), UnknownDecision),
        (lambda: bandit.tell(3, loss=0.5), UnknownDecision),
        (lambda: bandit.tell(None, loss=0.5), UnknownDecision),
    ):
        with pytest.raises(error):
            act()
        assert bandit.as_dict() == before


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: made(limit=0), "The limit of SegmentedBandit must be an integer of at least 1"),
        (lambda: made(seed=-1), "The seed of SegmentedBandit must be a whole number"),
        (lambda: made(bounds=(1, 0)), "The bounds of Bandit must be two numbers"),
        (lambda: made(clip=1), "The clip of SegmentedBandit must be True or False"),
        (lambda: bw.SegmentedBandit("x", 2), "must be a policy such as TsallisINF"),
        (lambda: bw.SegmentedBandit(bw.Exp3(), []), "The arms of Bandit must be"),
    ],
)
def test_bad_arguments(make, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        make()


# --- a prior --------------------------------------------------------------------------------------


def test_a_segment_borrows_from_the_others():
    bandit = made(prior=30)
    play(bandit, ["de", "fr", "de/mobile"] * 40)
    rows = {name: columns(bandit[name]._core.F, bw.TsallisINF())[0] for name in bandit.segments}
    added, counted = borrowed(rows["fr"] + rows["de/mobile"], 80, 30)
    assert counted == 30
    weights = bw.omd.weights(rows["de"] + added, 4.0 / math.sqrt(40 + 30 + 1))
    assert list(bandit.probabilities("de").values()) == pytest.approx(weights, rel=1e-9)
    before = bandit.probabilities("de")
    decision = bandit.ask("de")
    assert dict(decision.probabilities) == pytest.approx(before, rel=1e-9)
    assert decision.probability == pytest.approx(before[decision.arm], rel=1e-9)
    # A new segment draws from what all others have learned, weighted as 30 answers.
    added, _ = borrowed(sum(rows.values()), 120, 30)
    weights = bw.omd.weights(added, 4.0 / math.sqrt(31))
    assert list(bandit.probabilities("new").values()) == pytest.approx(weights, rel=1e-6)


def test_a_segment_with_a_prior_and_without_others_is_a_bandit():
    for arms in (play(made(prior=30), ["fr"] * 40), play(made(prior=30), ["fr"])):
        alone = bw.Bandit(bw.TsallisINF(), arms=ARMS, seed=derived_seed(7, "segment", "fr"))
        for t, arm in enumerate(arms["fr"], 1):
            decision = alone.ask()
            assert decision.arm == arm
            alone.tell(decision, loss=loss_of("fr", t, decision.index))


def test_what_is_shared_is_saved_copied_and_kept_when_a_segment_is_dropped(tmp_path):
    bandit = made(prior=20, limit=2)
    play(bandit, ["de", "fr", "it"] * 10)
    assert bandit.segments == ("fr", "it") and "prior=20" in repr(bandit)
    bandit.expire(older_than=0, loss=1.0)
    key = bandit.ask("fr", key="k")
    assert bandit.ask("fr", key="k") is key
    bandit.tell("k", loss=0.0)
    bandit.save(tmp_path / "bandit.json")
    loaded = bw.SegmentedBandit.load(tmp_path / "bandit.json")
    copied = bandit.copy()
    for other in (loaded, copied):
        assert repr(other) == repr(bandit)
        assert other._lending.answers == 31 == bandit._lending.answers
    after = [play(each, ["de", "fr", "new"] * 15) for each in (bandit, loaded, copied)]
    assert after[0] == after[1] == after[2]


@pytest.mark.parametrize("wrong", [-1, 0.5, "3", None])
def test_a_prior_is_a_number_of_answers(wrong):
    with pytest.raises(InvalidParameter, match="prior of SegmentedBandit"):
        made(prior=wrong)


def test_a_prior_needs_a_sum_of_estimates():
    for policy in (bw.AllWorlds(), bw.UCB1(), bw.ThompsonSampling()):
        with pytest.raises(InvalidParameter, match="must be 0 for"):
            bw.SegmentedBandit(policy, arms=ARMS, prior=10)
        assert bw.SegmentedBandit(policy, arms=ARMS).limit == 10_000


@pytest.mark.parametrize(
    "damage", [{"estimates": [0.0]}, {"estimates": ["a"] * 3}, {"answers": -1}, {"answers": 0.5}]
)
def test_shared_estimates_of_a_damaged_file_are_refused(damage):
    bandit = made(prior=20)
    play(bandit, ["de", "fr"])
    document = bandit._document()
    document["shared"] |= damage
    with pytest.raises(ValueError):
        bw.SegmentedBandit._restored(bw.TsallisINF(), document)
