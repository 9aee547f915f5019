"""Late and lost answers: every policy goes on exploring, and none is misled."""

from dataclasses import replace

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.logs.record import LoggedDecision
from bothworlds.policies import late
from bothworlds.policies.tsallis_inf import half

INDEX = [bw.UCB1(), bw.KLUCB()]
EVERY = [
    bw.TsallisINF(),
    bw.TsallisINF(estimator="iw"),
    bw.Exp3(),
    bw.Exp3PlusPlus(),
    bw.Broad(horizon=2_000),
    bw.UCB1(),
    bw.KLUCB(),
    bw.ThompsonSampling(),
]


@pytest.mark.parametrize("policy", EVERY, ids=repr)
def test_asking_a_thousand_times_without_an_answer_tries_every_arm(policy):
    bandit = bw.Bandit(policy, arms=5, seed=3)
    arms = [bandit.ask().index for _ in range(1_000)]
    # Four standard deviations around 200 = 1000 / 5; the index policies take turns.
    counts = np.bincount(arms, minlength=5)
    assert np.all(np.abs(counts - 200) <= 4 * np.sqrt(1_000 * 0.2 * 0.8))


def test_late_losses_leave_unbiased_estimates_in_exp3plusplus():
    K, n, loss = 5, 200, 0.3
    bandit = bw.Bandit(bw.Exp3PlusPlus(), arms=K, seed=1)
    decisions = [bandit.ask() for _ in range(n)]
    for decision in decisions:
        bandit.tell(decision, loss=loss)
    estimates = np.array([arm.estimate for arm in bandit.history().values()])
    # Before any answer the weights are equal: an estimate has mean 0.3 n and, the first K plays
    # apart, variance 0.09 (n - K) (K - 1). They are shown above the least.
    counts = np.array([arm.pulls for arm in bandit.history().values()])
    expected = loss * (1 + K * (counts - 1))
    np.testing.assert_allclose(estimates, expected - expected.min(), rtol=1e-12)
    assert np.ptp(estimates) <= 2 * 4 * loss * np.sqrt((n - K) * (K - 1))


@pytest.mark.parametrize("policy", [*INDEX, bw.Exp3PlusPlus()], ids=repr)
def test_the_first_plays_are_counted_by_decisions(policy):
    bandit = bw.Bandit(policy, arms=7, seed=1)
    assert [bandit.ask().index for _ in range(7)] == list(range(7))


@pytest.mark.parametrize("expiring", [False, True])
@pytest.mark.parametrize("policy", INDEX, ids=repr)
def test_an_arm_whose_answers_are_lost_is_left_alone(policy, expiring):
    rounds = 4_000
    bandit = bw.Bandit(policy, arms=3, seed=5)
    pulls = np.zeros(3, int)
    for t in range(rounds):
        decision = bandit.ask()
        pulls[decision.index] += 1
        if decision.index != 0:
            bandit.tell(decision, loss=0.2 if decision.index == 1 else 0.6)
        if expiring and t % 50 == 0:
            bandit.expire(older_than=10)
    # An arm of loss 1 next to one of loss 0.2: sqrt(1.5 ln t / o) >= 0.8 needs o <= 20.
    assert pulls[0] <= 1 + 1.5 * np.log(rounds) / 0.8**2
    assert pulls[1] > 0.9 * rounds


@pytest.mark.parametrize("policy", INDEX, ids=repr)
def test_an_arm_that_answers_again_is_forgiven(policy):
    bandit = bw.Bandit(policy, arms=2, seed=5)
    lost = []
    for _ in range(300):
        decision = bandit.ask()
        if decision.index == 0:
            lost.append(decision)
        else:
            bandit.tell(decision, loss=0.5)
    for decision in lost:
        bandit.tell(decision, loss=0.0)
    arms = []
    for _ in range(300):
        decision = bandit.ask()
        arms.append(decision.index)
        bandit.tell(decision, loss=0.5 * decision.index)
    assert arms.count(0) > 250


@pytest.mark.parametrize("policy", [*INDEX, bw.Exp3PlusPlus()], ids=repr)
def test_a_decision_among_some_arms_is_outstanding_too(policy):
    bandit = bw.Bandit(policy, arms=4, seed=5)
    first = [bandit.ask(available=[1, 2, 3]).index for _ in range(3)]
    assert first == [1, 2, 3]
    assert bandit.ask().index == 0


@pytest.mark.parametrize("policy", INDEX, ids=repr)
def test_the_probabilities_of_a_decision_are_those_of_its_arm(policy):
    bandit = bw.Bandit(policy, arms=3, seed=5)
    for t in range(60):
        decision = bandit.ask()
        assert decision.probabilities[decision.arm] == 1.0
        assert sum(decision.probabilities.values()) == 1.0
        if t % 3:
            bandit.tell(decision, loss=0.3 * decision.index)


@pytest.mark.parametrize("policy", EVERY, ids=repr)
def test_no_probability_exceeds_one(policy):
    bandit = bw.Bandit(policy, arms=3, seed=5)
    for t in range(300):
        decision = bandit.ask(available=[t % 3])
        if policy.traits.knows_probability:
            found = [decision.probability, *decision.probabilities.values()]
            assert all(1.0 - 1e-12 <= p <= 1.0 for p in found)
            LoggedDecision.of(decision, loss=0.5)
        bandit.tell(decision, loss=(t % 7) / 7)


# --- batches ---------------------------------------------------------------------------------

RUNS, ROUNDS, MEANS = 300, 500, (0.2, 0.8)


def regrets(policy, batch, runs=RUNS):
    """Return the pseudo-regret of each run, its answers coming in batches."""
    found = np.zeros(runs)
    for run in range(runs):
        bandit = bw.Bandit(policy, arms=2, seed=run)
        losses = np.random.default_rng(run).random((ROUNDS, 2)) < MEANS
        waiting = []
        for t in range(ROUNDS):
            decision = bandit.ask()
            found[run] += MEANS[decision.index] - MEANS[0]
            waiting.append((decision, float(losses[t, decision.index])))
            if len(waiting) == batch:
                for told, loss in waiting:
                    bandit.tell(told, loss=loss)
                waiting = []
    return found


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("policy", EVERY, ids=repr)
def test_answers_in_batches_of_a_hundred_cost_the_first_batch(policy):
    prompt, late = regrets(policy, 1), regrets(policy, 100)
    # Playing at random costs half the gap a round. What prompt answers save of that, late ones
    # save as well, but for the first of five batches, in which nothing is known, and a little more.
    random = ROUNDS * (MEANS[1] - MEANS[0]) / 2
    error = 4 * np.sqrt((prompt.var() + late.var()) / RUNS)
    assert random - late.mean() >= 0.75 * (random - prompt.mean()) - error
    assert random - prompt.mean() > 10 * error


@pytest.mark.slow
def test_a_policy_that_stays_with_its_first_arm_would_be_found():
    @bw.policies.custom
    class Waiting:
        """Plays each arm until its first answer, as if decisions did not count."""

        def start(n_arms):
            return np.zeros(2 * n_arms)

        def choose(state, parameters, n_arms, t, generator):
            for i in range(n_arms):
                if state[i] == 0.0:
                    return i
            return np.argmin(state[n_arms:] / state[:n_arms])

        def update(state, parameters, n_arms, t, arm, probability, loss):
            state[arm] += 1.0
            state[n_arms + arm] += loss

    bandit = bw.Bandit(Waiting(), arms=5, seed=3)
    assert {bandit.ask().index for _ in range(1_000)} == {0}


def test_kernels_that_differ_anywhere_have_code_of_their_own():
    """Machine code is kept under the name, so a variant must not share that of the original."""
    shape = 0, 0, True, -1
    whole = late._late_kernels(half.RV, *shape)
    variant = late._late_kernels(replace(half.RV, near=None), *shape)
    other = late._late_kernels(half.RV, 1, 0, True, -1)
    names = {each.note.py_func.__qualname__ for each in (whole, variant, other)}
    assert len(names) == 3


def test_the_code_of_wrapped_policies_can_be_kept():
    """A name is part of a file's name, which may have 255 bytes, Numba's own part included."""
    policy = bw.Floor(bw.Discounted(bw.TsallisINF()), scale=0.1)
    made = late.late_kernels(policy, policy.program(8))
    assert max(len(each.py_func.__qualname__) for each in (made.note, made.tell_many)) < 100
