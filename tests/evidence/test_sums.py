"""The running sums: equal to their definitions, unbiased, and the same however they are kept."""

import base64
import itertools
import math
import tracemalloc
import zlib

import numpy as np
import pytest

from bothworlds.evidence import bounds, layout, update
from bothworlds.evidence.sums import Evidence, grid_of_means

TUNED = math.log(40)


def a_log(K=3, n=400, seed=1, low=0.05):
    """Decisions of a policy that moves about at random, and keeps every arm above ``low``."""
    rng = np.random.default_rng(seed)
    W = rng.dirichlet(np.ones(K), size=n)
    W = (1 - K * low) * W + low
    arms = np.array([rng.choice(K, p=w) for w in W])
    return W, arms, rng.beta(2, 2 + arms), np.arange(1, n + 1)


def evidence_of(W, arms, losses, rounds, cells=400):
    made = Evidence(W.shape[1], cells)
    for w, arm, y, t in zip(W, arms, losses, rounds, strict=True):
        made.add(int(arm), 1 / w[arm], float(y), int(t), w)
    return made


def aipw_by_hand(W, arms, losses, a):
    n = s = 0.0
    G, h = [], []
    for w, arm, y in zip(W, arms, losses, strict=True):
        m = (0.5 + s) / (1 + n)
        G.append(m + (arm == a) * (y - m) / w[a])
        h.append(math.sqrt(w[a]))
        n, s = n + (arm == a), s + (arm == a) * y
    G, h = np.array(G), np.array(h)
    Q = (h * G).sum() / h.sum()
    return Q, math.sqrt((h**2 * (G - Q) ** 2).sum()) / h.sum()


def test_the_mean_and_its_error_are_those_of_the_definition():
    W, arms, losses, rounds = a_log()
    evidence = evidence_of(W, arms, losses, rounds)
    for a in range(3):
        assert bounds.mean_and_error(evidence, a) == pytest.approx(
            aipw_by_hand(W, arms, losses, a), rel=1e-10
        )


def capital(losses, mu):
    """Return the largest capital the bet that the mean is above ``mu`` ever had."""
    s = v = best = 0.0
    C = 1.0
    for q, y in enumerate(losses, start=1):
        m = (0.5 + s) / q
        V = (0.25 + v) / q
        lam = min(math.sqrt(2 * TUNED / (V * q * math.log(q + 1))), 1 / (2 * mu))
        C *= 1 + lam * (y - mu)
        best = max(best, C)
        s, v = s + y, v + (y - m) ** 2
    return best


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_ends_of_a_sequence_are_where_the_bets_have_won(confidence):
    W, arms, losses, rounds = a_log(n=600)
    evidence = evidence_of(W, arms, losses, rounds)
    mu = grid_of_means(400)
    for a in range(3):
        own = losses[arms == a]
        won = 2 / (1 - confidence)
        low = [m for m in mu[1:] if capital(own, m) >= won]
        up = [m for m in mu[:-1] if capital(1 - own, 1 - m) >= won]
        ends = bounds.sequence(evidence, a, confidence)
        assert ends == pytest.approx((max(low, default=0.0), min(up, default=1.0)))
        assert 0 < ends[0] < own.mean() < ends[1] < 1


def test_a_finer_grid_gives_a_narrower_sequence():
    log = a_log(n=2000)
    coarse, fine = evidence_of(*log), evidence_of(*log, cells=4000)
    for a in range(3):
        wide, narrow = bounds.sequence(coarse, a, 0.95), bounds.sequence(fine, a, 0.95)
        assert wide[0] <= narrow[0] < narrow[1] <= wide[1]
        assert wide[1] - wide[0] - (narrow[1] - narrow[0]) < 2 * math.pi / 400


def test_other_confidences_lie_between_those_that_are_kept():
    evidence = evidence_of(*a_log(n=2000))
    ends = [bounds.sequence(evidence, 0, c) for c in (0.9, 0.93, 0.95, 0.97, 0.99, 0.999)]
    lows, ups = zip(*ends, strict=True)
    assert list(lows) == sorted(lows, reverse=True)
    assert list(ups) == sorted(ups)
    assert lows[0] > lows[-1]


def drifting_by_hand(W, arms, losses, a, confidence):
    """Bets of the drift form by their definition, chosen anew where the sums do."""
    ends = []
    for side in range(2):
        n = s = sl = slx = sp = sv = 0.0
        lam, due = 0.5, 0.0
        for t, (w, arm, y) in enumerate(zip(W, arms, losses, strict=True)):
            if t >= due:
                V = (0.25 + sv) / (t + 1)
                lam = min(0.5, math.sqrt(2 * TUNED / (V * (t + 1) * math.log(t + 2))))
                due = max(t + 1.0, t * 1.1)
            m = (0.5 + s) / (1 + n)
            guess, value = (m, y) if side == 0 else (1 - m, 1 - y)
            X = (arm == a) * value / w[a]
            sl, slx, sv = sl + lam, slx + lam * X, sv + (X - guess) ** 2
            sp += (-math.log(1 - lam) - lam) * (X - guess) ** 2
            n, s = n + (arm == a), s + (arm == a) * y
        ends.append(max(0.0, (slx - sp - math.log(2 / (1 - confidence))) / sl))
    return ends[0], 1 - ends[1]


def test_the_sequence_for_moving_means_is_that_of_the_definition():
    log = W, arms, losses, _ = a_log(n=3000)
    evidence = evidence_of(*log)
    for a in range(3):
        found = bounds.drifting_sequence(evidence, a, 0.95)
        assert found == pytest.approx(drifting_by_hand(W, arms, losses, a, 0.95), rel=1e-9)
        assert found[1] - found[0] < 0.5


def test_rows_at_once_are_rows_one_by_one():
    W, arms, losses, rounds = a_log()
    one_by_one = evidence_of(W, arms, losses, rounds)
    at_once = Evidence(3)
    known = np.full(arms.size, update.ALL)
    at_once.add_rows(arms, 1 / W[np.arange(arms.size), arms], losses, rounds, known, W)
    assert np.array_equal(one_by_one.R, at_once.R)


def test_evidence_survives_being_saved():
    log = W, arms, losses, rounds = a_log()
    half = [part[:200] for part in log]
    evidence = evidence_of(*half)
    again = Evidence.from_document(evidence.document())
    for w, arm, y, t in list(zip(W, arms, losses, rounds, strict=True))[200:]:
        for each in (evidence, again):
            each.add(int(arm), 1 / w[arm], float(y), int(t), w)
    assert again.document() == evidence.document()
    for a in range(3):
        assert bounds.sequence(again, a, 0.95) == bounds.sequence(evidence, a, 0.95)
    with pytest.raises(ValueError, match="differ in number"):
        Evidence.from_document({**evidence.document(), "cells": 300})


def test_sums_that_unpack_to_far_more_than_the_arms_need_are_refused():
    document = evidence_of(*a_log()).document()
    packing = zlib.compressobj(9)
    zeros = bytes(2**20)
    bomb = b"".join(packing.compress(zeros) for _ in range(64)) + packing.flush()
    tracemalloc.start()
    try:
        for changes in ({}, {"cells": 4_000_000}, {"arms": 20_000}):
            with pytest.raises(ValueError, match="differ in number"):
                sums = base64.b64encode(bomb).decode()
                Evidence.from_document({**document, "sums": sums, **changes}, 3)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_rounds():
    short, long = evidence_of(*a_log(n=50)), evidence_of(*a_log(n=5000))
    assert short.R.size == long.R.size
    rounds, kept = long.history()
    assert 32 <= rounds.size <= layout.POINTS
    assert np.all(np.diff(rounds) > 0)
    assert kept.shape == (rounds.size, 3, layout.KEPT)
    ratios = rounds[1:] / rounds[:-1]
    assert ratios[len(ratios) // 2 :].max() < 1.6


# --- late feedback ------------------------------------------------------------------------------


def test_what_is_noted_and_told_at_once_is_as_if_it_were_not_late():
    W, arms, losses, rounds = a_log(n=1500)
    plain, noted = evidence_of(W, arms, losses, rounds), Evidence(3)
    for w, arm, y, t in zip(W, arms, losses, rounds, strict=True):
        noted.add(int(arm), 1 / w[arm], float(y), int(t), w, noted.note())
    for a in range(3):
        found = bounds.mean_and_error(noted, a)
        assert found == pytest.approx(bounds.mean_and_error(plain, a), rel=1e-9)
        assert bounds.sequence(noted, a, 0.95) == bounds.sequence(plain, a, 0.95)
        found = bounds.drifting_sequence(noted, a, 0.95)
        assert found == pytest.approx(bounds.drifting_sequence(plain, a, 0.95), rel=1e-9)
        for b in range(3):
            found = bounds.drifting_gap(noted, a, b, 0.95)
            assert found == pytest.approx(bounds.drifting_gap(plain, a, b, 0.95), rel=1e-9)


MEANS = (0.3, 0.8)


def worlds(rounds):
    """Yield arms and outcomes of every course of ``rounds`` decisions, as tuples."""
    return itertools.product(itertools.product((0, 1), repeat=2), repeat=rounds)


def weights_after(course):
    """Return an adaptive policy's distribution after what was told: it likes what lost less."""
    liked = 0.0
    for arm, y in course:
        liked += (1 - 2 * y) * (1 if arm == 0 else -1)
    p = 0.5 + 0.35 * math.tanh(liked)
    return np.array([p, 1 - p])


def chance(w, arm, y):
    return w[arm] * (MEANS[arm] if y else 1 - MEANS[arm])


def expected_sum_of_estimates(late, baseline_known):
    """Return E of the sum of an arm's estimates over three rounds, for both arms."""
    total = np.zeros(2)
    for course in worlds(3):
        evidence = Evidence(2)
        probability, waiting = 1.0, []
        for t, (arm, y) in enumerate(course):
            # Arm 1 answers late: after the next decision was told. The policy knows what was told.
            told = [c for n, c in enumerate(course[:t]) if not (late and n == t - 1 and c[0])]
            w = weights_after(told)
            probability *= chance(w, arm, y)
            entry = (arm, 1 / w[arm], float(y), t + 1, None, evidence.note())
            if late and arm == 1 and t < 2:
                waiting.append(entry)
                continue
            evidence.add(*(entry if baseline_known else entry[:5]))
            for other in waiting:
                evidence.add(*(other if baseline_known else other[:5]))
            waiting = []
        # With the played arm's probability alone every estimate has weight 1.
        for a in range(2):
            mean = bounds.mean_and_error(evidence, a)[0]
            total[a] += probability * 3 * mean
    return total


@pytest.mark.parametrize("late", [False, True])
def test_estimates_are_unbiased_by_enumeration(late):
    assert expected_sum_of_estimates(late, True) == pytest.approx(3 * np.array(MEANS), abs=1e-12)


def test_a_guess_made_after_the_decision_would_be_biased():
    wrong = expected_sum_of_estimates(True, False)
    assert np.abs(wrong - 3 * np.array(MEANS)).max() > 1e-3


def test_bets_of_the_drift_form_grow_by_at_most_1_on_average():
    for lam in (0.05, 0.2, 0.5):
        for p, mu, guess in itertools.product((0.05, 0.4, 1.0), (0.1, 0.5, 0.9), (0.0, 0.3, 1.0)):
            # X is y / p for the played arm; y is 0 or 1.
            grown = 0.0
            for X, q in ((0.0, 1 - p * mu), (1 / p, p * mu)):
                grown += q * math.exp(lam * (X - mu) - update.psi(lam) * (X - guess) ** 2)
            assert grown <= 1 + 1e-12


def test_arms_that_were_away_are_not_judged_by_it():
    W, arms, losses, rounds = a_log(n=900)
    away = Evidence(4)
    wide = np.full(4, np.nan)
    for w, arm, y, t in zip(W, arms, losses, rounds, strict=True):
        wide[:3] = w
        away.add(int(arm), 1 / w[arm], float(y), int(t), wide)
    plain = evidence_of(W, arms, losses, rounds)
    for a in range(3):
        found = bounds.mean_and_error(away, a)
        assert found == pytest.approx(bounds.mean_and_error(plain, a), rel=1e-9)
    assert math.isnan(bounds.mean_and_error(away, 3)[0])
    assert bounds.drifting_gap(away, 0, 1, 0.95) == -1.0
    assert bounds.drifting_gap(plain, 0, 1, 0.95) > -1.0


def test_arms_that_come_later_leave_the_others_as_they_were():
    W, arms, losses, rounds = a_log(n=300)
    evidence = evidence_of(W, arms, losses, rounds)
    before = [bounds.mean_and_error(evidence, a) for a in range(3)]
    ends = [bounds.sequence(evidence, a, 0.95) for a in range(3)]
    evidence.grow(5)
    assert [bounds.mean_and_error(evidence, a) for a in range(3)] == before
    assert [bounds.sequence(evidence, a, 0.95) for a in range(3)] == ends
    assert bounds.sequence(evidence, 4, 0.95) == (0.0, 1.0)
    evidence.add(4, 5.0, 0.5, 301, np.full(5, 0.2))
    assert evidence.row(layout.N).tolist()[3:] == [0.0, 1.0]
