"""Draws and contributions of the service equal those of a bandit."""

import itertools

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.bandit.content import pending_document, unpacked
from bothworlds.errors import InvalidParameter
from bothworlds.lanes.random import WORDS, uniform
from bothworlds.policies.late import CARRIED, INVERSE_P, MEAN_BASELINE
from bothworlds.seeding import stream_words
from bothworlds.serve import contribution, draw
from bothworlds.serve.domain import records
from bothworlds.serve.domain.draws import PER_ONE, UNIT, Lineup, check_served
from bothworlds.serve.domain.records import NEAR_ALL, NEAR_NONE, NEAR_SOME, encode
from bothworlds.serve.domain.sums import add_records, grown

SERVED = [
    bw.TsallisINF(),
    bw.TsallisINF(estimator="iw"),
    bw.TsallisINF(alpha=0.7),
    bw.Exp3(),
    bw.Floor(bw.TsallisINF(), 0.2, power=0.0),
]


def record_of(bandit, number):
    """Return the record the service would have made of a bandit's pending decision."""
    core = bandit._core
    document = pending_document(number, core.ledger[number], core.policy, len(core.roster.names))
    known = document["known"]
    near, present = (
        np.packbits(unpacked(None if text is None else _bytes(text), known))
        if text is not None
        else None
        for text in (document["near"], document["present"])
    )
    there = unpacked(None if present is None else present.tobytes(), known)
    marked = np.zeros(known, bool) if near is None else unpacked(near.tobytes(), known)
    flags = NEAR_NONE if not marked.any() else NEAR_ALL if (marked == there).all() else NEAR_SOME
    some = flags == NEAR_SOME
    if present is not None:
        flags |= records.PRESENT
    return encode(
        1, 1, 0, document["arm"], known, number, bytes(16), document["inverse_p"], flags,
        document["mean_baseline"], near.tobytes() if some else b"",
        b"" if present is None else present.tobytes(),
    )  # fmt: skip


def _bytes(text):
    import base64

    return base64.b64decode(text)


def estimates(bandit):
    return np.array([arm.estimate for arm in bandit.history().values()])


class Sums:
    """The sums of an experiment."""

    def __init__(self, n):
        self.sums = np.zeros(n + 1, np.int64)
        self.told = np.zeros(n, np.int64)
        self.lost = np.zeros(n, np.int64)

    def add(self, raws, losses):
        add_records(raws, losses, self.sums, self.told, self.lost)

    @property
    def estimates(self):
        own = self.sums[:-1] * UNIT
        return own - own.min()


def quick_record(notes, number):
    """Do the same for decisions made in one go, of at most eight arms that were all there."""
    row = notes.notes[number - notes.first]
    mask = row[CARRIED:].tobytes()[:1]
    near = NEAR_NONE if mask in (b"", b"\0") else NEAR_ALL if mask == b"\xff" else NEAR_SOME
    some = mask if near == NEAR_SOME else b""
    arm = int(notes.slots[number - notes.first])
    return encode(
        1, 1, 0, arm, 8, number, bytes(16), row[INVERSE_P], near, row[MEAN_BASELINE], some
    )


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "rounds"), [(SERVED[0], 200_000), (SERVED[1], 20_000)])
def test_shuffled_feedback_leaves_the_estimates_of_a_bandit(policy, rounds):
    arms, block = 8, 1_000
    rng = np.random.default_rng(1)
    bandit = bw.Bandit(policy, arms=arms, seed=3, evidence=False)
    sums = Sums(arms)
    means = np.linspace(0.3, 0.7, arms)
    for _ in range(rounds // block):
        decisions = bandit.ask_many(block)
        notes = bandit._core.ledger.records[decisions.ids[0]]
        order = rng.permutation(block)
        losses = (rng.random(block) < means[notes.slots])[order].astype(float)
        numbers = [decisions.ids[place] for place in order]
        sums.add([quick_record(notes, number) for number in numbers], losses)
        bandit.tell_many(numbers, losses=losses)
    theirs = estimates(bandit)
    # Every contribution is rounded to a unit, evenly: five standard deviations of their sum.
    tolerance = 5 * UNIT * np.sqrt(rounds / 12)
    assert tolerance < 1e-6
    assert np.abs(sums.estimates - theirs).max() <= tolerance
    assert np.abs(sums.estimates - theirs).max() <= 1e-7 * theirs.max()
    assert sums.told.sum() == rounds


@pytest.mark.slow
@pytest.mark.parametrize("policy", SERVED, ids=repr)
def test_late_feedback_with_arms_away_added_and_retired_equals_a_bandit(policy):
    rng = np.random.default_rng(2)
    bandit = bw.Bandit(policy, arms=["a", "b", "c", "d"], seed=3)
    sums = Sums(4)
    entry = np.zeros(5, np.int64)
    waiting = []
    for t in range(600):
        if t == 200:
            before = sums.sums[-1]
            bandit.add_arm("e", 0.2)
            entry = np.zeros(6, np.int64)
            grown_sums = grown(sums.sums, 5)
            sums.sums, sums.told, sums.lost = (
                grown_sums, np.append(sums.told, 0), np.append(sums.lost, 0),
            )  # fmt: skip
            history = bandit.history()
            offset = history["e"].estimate - history["a"].estimate
            entry[4] = sums.sums[0] + round(offset * PER_ONE) - before
        if t == 400:
            bandit.retire_arm("b")
        names = [arm for arm in bandit.arms if rng.random() < 0.7]
        decision = bandit.ask(available=names) if len(names) > 1 and t % 3 else bandit.ask()
        waiting.append(decision.id)
        while len(waiting) > 20:
            number = waiting.pop(int(rng.integers(len(waiting))))
            if bandit._core.fresh:
                bandit._core.settle()
            raw = record_of(bandit, number)
            loss = float(rng.random())
            sums.add([raw], [loss])
            bandit.tell(number, loss=loss)
    there = [0, 2, 3, 4]
    own = (sums.sums[:5] + entry[:5])[there] * UNIT
    history = bandit.history()
    theirs = np.array([history[arm].estimate for arm in "acde"])
    np.testing.assert_allclose(own - own.min(), theirs - theirs.min(), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("policy", SERVED, ids=repr)
@pytest.mark.parametrize("arms", [2, 5, 8, 9, 40])
def test_a_draw_is_the_draw_of_a_bandit(policy, arms):
    rng = np.random.default_rng(4)
    rounds = 60
    bandit = bw.Bandit(policy, arms=arms, seed=3, evidence=False)
    lineup = Lineup(policy, range(arms), arms)
    words = stream_words(3, "Bandit").copy()
    assert words.size == WORDS
    sums = Sums(arms)
    for t in range(1, rounds + 1):
        u = uniform(words, 0.0)
        drawn = lineup.draw(sums.sums, t, u)
        shares = lineup.probabilities()
        decision = bandit.ask()
        assert drawn.arm == decision.index
        assert drawn.inverse_p * decision.probability == pytest.approx(1.0, rel=1e-6)
        given = np.array(list(decision.probabilities.values()))
        np.testing.assert_allclose(shares, given, rtol=1e-6)
        # The probability in a record is the one that was drawn from.
        assert drawn.inverse_p * shares[drawn.arm] == pytest.approx(1.0, rel=1e-9)
        bandit._core.settle()
        raw = record_of(bandit, decision.id)
        ours = encode(
            1, 1, 0, drawn.arm, arms, t, bytes(16), drawn.inverse_p, drawn.near, drawn.baseline,
            drawn.mask,
        )  # fmt: skip
        assert records.decode(ours).near == records.decode(raw).near
        assert records.decode(ours).baseline == pytest.approx(records.decode(raw).baseline)
        loss = float(rng.random())
        sums.add([ours], [loss])
        bandit.tell(decision.id, loss=loss)


def test_many_arms_are_drawn_by_one_uniform_number():
    arms = 600
    lineup = Lineup(bw.TsallisINF(), range(arms), arms)
    sums = (np.arange(arms + 1) % 7 * 2**30).astype(np.int64)
    drawn = [lineup.draw(sums, 500, u).arm for u in np.linspace(0, 1, 400, endpoint=False)]
    edges = np.cumsum(lineup.probabilities())
    expected = np.searchsorted(edges, np.linspace(0, 1, 400, endpoint=False), side="right")
    assert (np.abs(np.array(drawn) - expected) <= 1).all()
    assert len(set(drawn)) > 300


@pytest.mark.statistical
@pytest.mark.parametrize("policy", SERVED[:2] + SERVED[3:], ids=repr)
def test_arms_come_as_often_as_their_probabilities_say(policy):
    lineup = Lineup(policy, [0, 2, 3], 4)
    sums = np.array([0, 5, 3, 9, 0], np.int64) * 2**30
    n = 40_000
    rng = np.random.default_rng(5)
    counts = np.zeros(4)
    for u in rng.random(n):
        counts[lineup.draw(sums, 50, u).arm] += 1
    shares = np.zeros(4)
    shares[[0, 2, 3]] = lineup.probabilities()
    assert shares.sum() == pytest.approx(1.0)
    # Four and a half standard deviations; equal shares would be rejected.
    tolerance = 4.5 * np.sqrt(n * shares * (1 - shares))
    assert (np.abs(counts - n * shares) <= tolerance).all()
    assert (np.abs(counts - n / 3) > tolerance).any()


def test_contributions_do_not_depend_on_the_order():
    rng = np.random.default_rng(6)
    raws, losses = [], []
    for _ in range(500):
        known = int(rng.integers(2, 7))
        there = rng.random(known) < 0.8
        arm = int(rng.integers(known))
        there[arm] = True
        near = there & (rng.random(known) < 0.5)
        flags = int(rng.choice([NEAR_NONE, NEAR_ALL, NEAR_SOME]))
        masks = [np.packbits(near).tobytes() if flags == NEAR_SOME else b"", b""]
        if not there.all():
            flags |= records.PRESENT
            masks[1] = np.packbits(there).tobytes()
        baseline, inverse_p = float(rng.random()) / 2, 1 + 1e6 * float(rng.random()) ** 8
        raws.append(encode(1, 1, 0, arm, known, 1, bytes(16), inverse_p, flags, baseline, *masks))
        losses.append(float(rng.random()))
    orders = [range(500), rng.permutation(500), range(499, -1, -1)]
    found = []
    for order in orders:
        sums = Sums(6)
        # In batches of any size, and arms that come in between.
        for part in itertools.batched(order, 37) if hasattr(itertools, "batched") else [order]:
            sums.add([raws[i] for i in part], [losses[i] for i in part])
        found.append(sums)
    for other in found[1:]:
        assert (other.sums == found[0].sums).all()
        assert (other.lost == found[0].lost).all()


def test_an_arm_that_comes_later_gets_what_it_would_have_got():
    early = encode(1, 1, 0, 1, 3, 1, bytes(16), 2.5, NEAR_SOME, 0.125, b"\x80")
    late = encode(1, 1, 0, 3, 4, 2, bytes(16), 2.5, NEAR_ALL)
    before = Sums(3)
    before.add([early], [0.75])
    after = Sums(4)
    after.sums = grown(before.sums, 4)
    after.add([late], [0.25])
    at_once = Sums(4)
    at_once.add([late, early], [0.25, 0.75])
    assert (after.sums == at_once.sums).all()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (bw.UCB1(), "one with a known probability of every arm"),
        (bw.KLUCB(), "one with a known probability of every arm"),
        (bw.IMED(), "one with a known probability of every arm"),
        (bw.ThompsonSampling(), "one with a known probability of every arm"),
        (bw.Broad(horizon=100), "one without a horizon"),
        (bw.LBINFV(horizon=100), "one without a horizon"),
        (bw.AdaTINF(horizon=100), "one without a horizon"),
        (bw.TsallisINF(gaps=[0, 0.5]), "one that allows arms to be added and retired"),
        (bw.Uniform(), "one that estimates the losses of its arms"),
        (bw.Sparring(bw.TsallisINF()), "a policy such as"),
        (None, "a policy such as"),
        ("tsallis", "a policy such as"),
    ],
    ids=repr,
)
def test_policies_that_cannot_be_served_are_refused_with_the_reason(policy, expected):
    with pytest.raises(InvalidParameter, match=rf"^The policy of an experiment must be {expected}"):
        check_served(policy)


def test_a_policy_that_learns_in_order_is_not_drawn_from_sums():
    with pytest.raises(InvalidParameter, match=r"^The policy of serve.draw must be one whose"):
        draw(bw.AllWorlds(), np.zeros(3, np.int64), 1, 0.5)


@pytest.mark.parametrize("policy", SERVED, ids=repr)
def test_sums_of_utmost_size_are_drawn_from(policy):
    lineup = Lineup(policy, range(3), 3)
    sums = np.array([-(2**62), 0, 2**62, 0], np.int64)
    drawn = lineup.draw(sums, 2**40 - 1, 0.3)
    assert drawn.arm == 0
    assert np.isfinite(lineup.probabilities()).all()


@pytest.mark.parametrize("policy", SERVED, ids=repr)
def test_the_public_functions_are_the_service_s_own(policy):
    rng = np.random.default_rng(5)
    estimates = rng.integers(0, 2**34, 6)
    there = [0, 2, 3, 5]
    for u in rng.random(20).tolist():
        lineup = Lineup(policy, there, 6)
        found = draw(policy, estimates, 40, u, there)
        assert found == lineup.draw(estimates, 40, u)
        raw = encode(
            1, 1, 0, found.arm, 6, 40, bytes(16), found.inverse_p, found.near | records.PRESENT,
            found.baseline, found.mask, lineup.mask,
        )  # fmt: skip
        sums, told, lost = np.zeros(8, np.int64), *np.zeros((2, 7), np.int64)
        add_records([raw], [0.25], sums, told, lost)
        assert contribution(raw, 0.25, 7).tolist() == sums[:7].tolist()


@pytest.mark.parametrize("available", [[], [0, 0], [6], [-1]])
def test_no_draw_from_arms_that_are_not_there(available):
    with pytest.raises(InvalidParameter, match="available"):
        draw(bw.TsallisINF(), np.zeros(6, np.int64), 1, 0.5, available)


def test_no_contribution_of_what_cannot_be():
    raw = encode(1, 1, 0, 2, 4, 1, bytes(16), 4.0, NEAR_NONE)
    for loss, n_arms in ((1.5, 4), (float("nan"), 4), (0.5, 3), (0.5, 10**6)):
        with pytest.raises(InvalidParameter):
            contribution(raw, loss, n_arms)
