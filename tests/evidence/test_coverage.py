"""Coverage of the report over many runs: intervals cover, sequences never miss, gaps hold.

Every test has a control: plain averages, which it must refuse.
"""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.evidence import bounds, layout

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

RUNS = 400
ROUNDS = 3000
FLOOR = bw.Floor(bw.TsallisINF(), 0.5)


def limit(rate, runs, sigmas=3.5):
    """Return the largest share of ``runs`` that chance allows where ``rate`` is true."""
    return rate + sigmas * math.sqrt(rate * (1 - rate) / runs)


def played(policy, means, seed, rounds=ROUNDS):
    """Return the evidence of a run with constant means, and the plain mean and error of each."""
    bandit = bw.Bandit(policy, arms=len(means), seed=seed)
    draws = np.random.default_rng(seed).random(rounds)
    ask, tell = bandit.ask, bandit.tell
    for u in draws.tolist():
        decision = ask()
        tell(decision, loss=1.0 if u < means[decision.index] else 0.0)
    return bandit._core.keeper.evidence


@pytest.fixture(scope="module")
def gap_runs():
    return [played(FLOOR, (0.4, 0.6), seed) for seed in range(RUNS)]


@pytest.fixture(scope="module")
def tied_runs():
    return [played(bw.TsallisINF(), (0.5, 0.5), seed) for seed in range(RUNS)]


def covered(runs, means, interval):
    ends = np.array([[interval(e, a) for a in range(len(means))] for e in runs])
    return ((ends[:, :, 0] <= means) & (means <= ends[:, :, 1])).mean(axis=0)


def test_intervals_cover(gap_runs):
    found = covered(gap_runs, np.array([0.4, 0.6]), lambda e, a: bounds.interval(e, a, 0.95))
    slack = 3.5 * math.sqrt(0.95 * 0.05 / RUNS)
    # 93 to 97 % with infinitely many runs.
    assert np.all(found >= 0.93 - slack)
    assert np.all(found <= 0.97 + slack)


def test_plain_averages_are_biased(tied_runs, gap_runs):
    """The mean of an arm given up early is too bad: that is why it was given up."""
    plain = np.array([[bounds.plain_mean(e, a) for a in range(2)] for e in tied_runs])
    error = plain.std(axis=0, ddof=1) / math.sqrt(RUNS)
    assert np.all(plain.mean(axis=0) - 0.5 > 4 * error)
    ours = np.array([[bounds.mean_and_error(e, a)[0] for a in range(2)] for e in gap_runs])
    error = ours.std(axis=0, ddof=1) / math.sqrt(RUNS)
    assert np.all(np.abs(ours.mean(axis=0) - (0.4, 0.6)) < 4 * error + 0.002)


def misses(runs, means, confidence=0.95):
    """Return the share of runs in which a sequence ever missed; ends only ever move inwards."""
    out = []
    for evidence in runs:
        ends = [bounds.sequence(evidence, a, confidence) for a in range(len(means))]
        out.append([e is None or not e[0] <= m <= e[1] for e, m in zip(ends, means, strict=True)])
    return np.array(out).mean(axis=0)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_sequences_miss_rarely_at_any_time(gap_runs, tied_runs, confidence):
    most = limit(1 - confidence, RUNS)
    assert np.all(misses(gap_runs, (0.4, 0.6), confidence) <= most)
    assert np.all(misses(tied_runs, (0.5, 0.5), confidence) <= most)


def looks(rounds):
    """Return the rounds at which somebody looks."""
    return sorted({int(20 * 1.05**k) for k in range(200) if 20 * 1.05**k < rounds} | {rounds})


def watched(policy, world_means, seed, rounds, judge):
    """Play and let ``judge(evidence, t)`` look now and then; return whether it ever said so."""
    bandit = bw.Bandit(policy, arms=world_means.shape[1], seed=seed)
    draws = np.random.default_rng(seed).random(rounds).tolist()
    marks, ever = set(looks(rounds)), False
    for t, u in enumerate(draws, start=1):
        decision = bandit.ask()
        bandit.tell(decision, loss=1.0 if u < world_means[t - 1, decision.index] else 0.0)
        if t in marks:
            ever = ever or judge(bandit._core.keeper.evidence, t)
    return ever


def significant(evidence, t):
    """Say whether plain averages differ by 1.96 standard errors."""
    n, s = evidence.row(layout.N), evidence.row(layout.S)
    if n.min() < 5:
        return False
    p = s / n
    error = math.sqrt((np.maximum(p * (1 - p), 1e-9) / n).sum())
    return bool(abs(p[0] - p[1]) > 1.96 * error)


def test_no_arm_beats_its_twin(tied_runs):
    """A/A: a claim, once made, stays; so the last look knows whether there ever was one."""
    claimed = [max(bounds.gap(e, 0, 1, 0.95), bounds.gap(e, 1, 0, 0.95)) > 0 for e in tied_runs]
    assert np.mean(claimed) <= limit(0.05, RUNS)


def test_plain_averages_beat_their_twin_when_one_looks_often():
    level = np.full((1000, 2), 0.5)
    ever = [watched(bw.TsallisINF(), level, seed, 1000, significant) for seed in range(300)]
    assert np.mean(ever) > 0.15


def test_a_claimed_gap_is_true_under_optional_stopping(gap_runs):
    claims = np.array([bounds.gap(e, 0, 1, 0.95) for e in gap_runs])
    assert np.mean(claims > 0.2) <= limit(0.05, RUNS)
    assert np.mean(claims > 0) > 0.3
    assert np.mean([bounds.gap(e, 1, 0, 0.95) > 0 for e in gap_runs]) <= limit(0.05, RUNS)


def switching_means(rounds, gap):
    """Return the means of `Switching`, round by round; the first arm is the best."""
    switches = bw.environments.Switching(2, gap).switches(rounds)
    phase = np.searchsorted(switches, np.arange(1, rounds + 1), side="right")
    best = np.where(phase % 2 == 0, 1.0 - gap, 0.0)
    return np.stack([best, best + gap], axis=1)


def test_moving_means():
    """`drift=True`: sequences hold for the bet-weighted average, gaps for every gap alike."""
    rounds, gap = 1500, 0.2
    means = switching_means(rounds, gap)
    missed, wrong, naive = [], [], []
    for seed in range(300):
        state = {"bets": np.zeros((2, 2)), "sums": np.zeros((2, 2)), "bad": False, "naive": False}
        bandit = bw.Bandit(FLOOR, arms=2, seed=seed)
        draws = np.random.default_rng(seed).random(rounds).tolist()
        evidence = bandit._core.keeper.evidence
        marks, claimed = set(looks(rounds)), False
        for t, u in enumerate(draws, start=1):
            if evidence.R[layout.WEIGHTED] >= evidence.R[layout.REFRESH]:
                evidence.note()
            for side in range(2):
                lam = evidence.row(layout.BET + layout.SIDE * side)
                state["sums"][side] += lam
                truth = means[t - 1] if side == 0 else 1 - means[t - 1]
                state["bets"][side] += lam * truth
            decision = bandit.ask()
            bandit.tell(decision, loss=1.0 if u < means[t - 1, decision.index] else 0.0)
            if t in marks:
                average = state["bets"] / state["sums"]
                for arm in range(2):
                    low, high = bounds.drifting_sequence(evidence, arm, 0.95)
                    state["bad"] |= low > average[0, arm] or high < 1 - average[1, arm]
                    ends = bounds.sequence(evidence, arm, 0.95)
                    level = means[:t, arm].mean()
                    state["naive"] |= ends is None or not ends[0] <= level <= ends[1]
                claimed |= bounds.drifting_gap(evidence, 1, 0, 0.95) > -gap
                claimed |= bounds.drifting_gap(evidence, 0, 1, 0.95) > gap
        missed.append(state["bad"])
        naive.append(state["naive"])
        wrong.append(claimed)
    # Two arms, two ends each; every one is allowed 2.5 %.
    assert np.mean(missed) <= limit(0.1, 300)
    # Two one-sided claims.
    assert np.mean(wrong) <= limit(0.1, 300)
    # The control: sequences for constant means miss the average level.
    assert np.mean(naive) > 0.3
