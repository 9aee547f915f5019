"""Every check fails for something broken on purpose, and for that alone; reports say so."""

import pickle
from dataclasses import dataclass, replace
from math import exp
from typing import ClassVar

import numba
import numpy as np
import pytest

import bothworlds as bw
import bothworlds.bandit.feedback
from bothworlds.bandit.state import first_row
from bothworlds.checks import Outcome, Report, check_environment, check_policy
from bothworlds.checks.environment import ENVIRONMENT_CHECKS
from bothworlds.checks.policy import POLICY_CHECKS
from bothworlds.environments import Adversarial, Constrained, Corrupted, Environment, Stochastic
from bothworlds.environments.base import Attack, state
from bothworlds.environments.stochastic import coin, mean_of
from bothworlds.errors import CheckFailed, InvalidParameter
from bothworlds.lanes.kernels import unpack
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import any_lane, select
from bothworlds.policies.exp3 import kernels as exp3
from bothworlds.policies.tsallis_inf import half

# What is broken on purpose is compiled in every run.
pytestmark = pytest.mark.slow

jit = numba.njit(nogil=True, error_model="numpy")
SOUND = exp3.KERNELS
ALONE = replace(SOUND, wide=False)
sound_weights = SOUND.weights
L = exp3.ESTIMATES


def failures(check, subject, **options):
    """Return what failed, name to finding."""
    with pytest.raises(CheckFailed) as caught:
        check(subject, **options)
    return {outcome.name: outcome.found for outcome in caught.value.report.failures}


# --- policies: Exp3 with one thing wrong ------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Broken(bw.Exp3):
    """Exp3 with other kernels."""

    wrong: ClassVar = SOUND

    def kernels(self):
        return self.wrong


@jit
def weights_inflated(F, out):
    sound_weights(F, out)
    for i in range(out.size):
        out[i] *= 1.0 + 1e-10


class NotNormalised(Broken):
    wrong = replace(ALONE, weights=weights_inflated)


class Favourite(bw.Exp3):
    def start(self, n_arms):
        first = super().start(n_arms)
        first[L : L + n_arms] = np.arange(n_arms)
        return first


@jit
def ask_skewed(F):
    K, t, C, S, G = unpack(F)
    u = uniform(G, 0.0)
    return exp3.choose(K, t, C, S, G, u * u)


class Skewed(Broken):
    wrong = replace(ALONE, ask=ask_skewed)


@jit
def tell_unweighted(F, arm, inverse_p, loss):
    K, t, C, S, G = unpack(F)
    S[L + arm] += loss


class Unweighted(Broken):
    wrong = replace(ALONE, tell=tell_unweighted)


@jit
def tell_baseline_forgotten(F, arm, inverse_p, loss):
    K, t, C, S, G = unpack(F)
    S[L + arm] += 0.5 + (loss - 0.5) * inverse_p


class BaselineForgotten(Broken):
    """The reduced-variance estimator with its baseline on the played arm only."""

    wrong = replace(ALONE, tell=tell_baseline_forgotten)


@jit
def ask_by_level(F):
    K, t, C, S, G = unpack(F)
    level = 0.0
    for i in range(K):
        level += S[L + i]
    return exp3.choose(K, t + int(abs(level)), C, S, G, uniform(G, 0.0))


class LevelMatters(Broken):
    wrong = replace(ALONE, ask=ask_by_level)


@jit
def ask_underflowing(F):
    K, t, C, S, G = unpack(F)
    total = 0.0
    for i in range(K):
        S[L + K + i] = exp(-0.01 * S[L + i])
        total += S[L + K + i]
    rest = uniform(G, 0.0) * total
    arm = 0
    while rest >= S[L + K + arm] and arm < K - 1:
        rest -= S[L + K + arm]
        arm += 1
    S[0] = total / S[L + K + arm]
    return arm


class Underflowing(Broken):
    wrong = replace(ALONE, ask=ask_underflowing)


@jit
def tell_with_current_weights(F, arm, inverse_p, loss):
    K, t, C, S, G = unpack(F)
    total = 0.0
    for i in range(K):
        total += S[L + K + i]
    S[L + arm] += loss * total / S[L + K + arm]


class CurrentWeights(Broken):
    """Feedback weighted with the probabilities of the last draw, not of its own."""

    wrong = replace(ALONE, tell=tell_with_current_weights)


@dataclass(frozen=True, repr=False)
class LateWithoutBaseline(bw.TsallisINF):
    """Late feedback that forgets which arms had a baseline: unbiased, but another estimator."""

    def kernels(self):
        return replace(half.RV, near=None)


class Leaking(bw.Exp3):
    """Every bandit starts a little different from the one before."""

    made: ClassVar = [0]

    def start(self, n_arms):
        self.made[0] += 1
        first = super().start(n_arms)
        first[L] = 1e-12 * self.made[0]
        return first


@jit
def ask_seeding_itself(F):
    K, t, C, S, G = unpack(F)
    if t == 1:
        for i in range(4):
            G[i] = 1234567 + i
    return exp3.choose(K, t, C, S, G, uniform(G, 0.0))


class SeedingItself(Broken):
    wrong = replace(ALONE, ask=ask_seeding_itself)


@dataclass(frozen=True, repr=False)
class Unsavable(bw.Exp3):
    tags: frozenset = frozenset({"a"})


@jit
def ask_drawing_twice(F):
    K, t, C, S, G = unpack(F)
    uniform(G, 0.0)
    return exp3.choose(K, t, C, S, G, uniform(G, 0.0))


class OtherThanTiles(Broken):
    wrong = replace(SOUND, ask=ask_drawing_twice)


BROKEN_POLICIES = [
    (NotNormalised(), "simplex", "probabilities summed to 1.0000000001 in round"),
    (Favourite(), "permutation", "with the arms renamed, arm"),
    (Skewed(), "frequencies", "chi-square"),
    (Unweighted(), "unbiased_estimates", "with feedback at once, the estimate of arm"),
    (BaselineForgotten(), "unbiased_estimates", "with feedback at once, the estimate of arm"),
    (LevelMatters(), "shift_invariance", "with 0.375 added to all estimates"),
    (Underflowing(), "constant_losses", "of constant loss 1"),
    (bw.Uniform(), "better_than_uniform", "of the uniform policy"),
    (CurrentWeights(), "delayed_feedback", "with feedback after another decision"),
    (LateWithoutBaseline(), "delayed_feedback", "with feedback after another decision"),
    (Leaking(), "same_seed", "the states differ"),
    (SeedingItself(), "same_seed", "another seed gave the same"),
    (Unsavable(), "save_and_load", "InvalidParameter: The policy of Bandit.save must be"),
    (OtherThanTiles(), "lanes", "where the single bandit drew"),
]


@pytest.mark.parametrize(
    ("policy", "name", "finding"), BROKEN_POLICIES, ids=lambda x: type(x).__name__
)
def test_a_broken_policy_fails_the_check_for_its_fault_alone(policy, name, finding):
    found = failures(check_policy, policy)
    assert list(found) == [name]
    assert finding in found[name]


def test_every_check_of_policies_has_a_broken_one():
    # A stray function fails whatever calls it; `tests/test_usercode.py` has some.
    elsewhere = {"bad_feedback", "functions"}
    assert {name for _, name, _ in BROKEN_POLICIES} | elsewhere == set(POLICY_CHECKS)


def only(name, checks):
    return [other for other in checks if other != name]


@pytest.mark.parametrize("lax", ["accepting", "changing"])
def test_bad_feedback_is_noticed_where_a_bandit_takes_it(monkeypatch, lax):
    strict = bothworlds.bandit.feedback.loss_within
    told = bw.Bandit.tell

    def accept(bounds, reward, loss, owner="Bandit.tell"):
        return 0.5 if loss != loss else strict(bounds, reward, loss, owner)

    def change(bandit, decision, **feedback):
        bandit._core.F[first_row(bandit._core.F) + L] += 1.0
        return told(bandit, decision, **feedback)

    if lax == "accepting":
        monkeypatch.setattr(bothworlds.bandit.feedback, "loss_within", accept)
    else:
        monkeypatch.setattr(bw.Bandit, "tell", change)
    found = failures(check_policy, bw.Exp3(), skip=only("bad_feedback", POLICY_CHECKS))
    phrase = "loss nan was accepted" if lax == "accepting" else "refused but changed the bandit"
    assert phrase in found["bad_feedback"]


def test_a_saved_bandit_that_lost_something_is_noticed(monkeypatch):
    restored = bw.Bandit._restored.__func__

    def forgetful(cls, policy, document):
        loaded = restored(cls, policy, document)
        loaded.expire(older_than=0)
        return loaded

    monkeypatch.setattr(bw.Bandit, "_restored", classmethod(forgetful))
    found = failures(check_policy, bw.Exp3(), skip=only("save_and_load", POLICY_CHECKS))
    assert "are pending instead of" in found["save_and_load"]


# --- policies of the user's own ---------------------------------------------------------------


@bw.policies.custom
class Cautious:
    """Explores a tenth of the rounds; knows its probabilities, keeps no estimates."""

    explore: float = 0.1

    def start(n_arms):
        return np.zeros(2 * n_arms)

    def probabilities(state, parameters, n_arms, t, p):
        p[:] = parameters.explore / n_arms
        p[np.argmin(state[:n_arms] / np.maximum(state[n_arms:], 1.0))] += 1 - parameters.explore

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += loss
        state[n_arms + arm] += 1.0


@bw.policies.custom
class Secretive:
    """The same, saying nothing of its probabilities, and keener on arms of low number."""

    favour: float = 0.0

    def start(n_arms):
        return np.zeros(2 * n_arms)

    def choose(state, parameters, n_arms, t, generator):
        u = bw.policies.random_unit(generator)
        if u < 0.2:
            return int(5.0 * u * n_arms)
        means = state[:n_arms] / np.maximum(state[n_arms:], 1.0)
        return np.argmin(means + parameters.favour * np.arange(n_arms))

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += loss
        state[n_arms + arm] += 1.0


def test_a_policy_of_ones_own_passes_with_what_does_not_apply_named():
    report = check_policy(Cautious(0.2), n_arms=3)
    assert report["frequencies"].status == "passed"
    assert report["lanes"].status == "not applicable"
    assert report["unbiased_estimates"].found == "the policy keeps no cumulative loss estimates"


def test_a_policy_without_probabilities_passes_and_can_fail():
    skip = ["constant_losses", "save_and_load", "bad_feedback"]
    report = check_policy(Secretive(), skip=skip)
    assert report["simplex"].found == "the policy does not know its probabilities"
    assert report["permutation"].status == "passed"
    found = failures(check_policy, Secretive(favour=0.2), skip=skip)
    assert list(found) == ["permutation"]
    assert "times in round 60 of 1000 runs" in found["permutation"]


def test_all_failures_are_named_in_one_error():
    class Twice(Broken):
        wrong = replace(ALONE, weights=weights_inflated, tell=tell_unweighted)

    with pytest.raises(CheckFailed) as caught:
        check_policy(Twice(), skip=["constant_losses", "better_than_uniform"])
    sentence = str(caught.value)
    assert sentence.startswith("The policy Twice() must pass every check, got simplex: prob")
    assert "; unbiased_estimates: with feedback at once" in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert isinstance(caught.value, AssertionError)


def test_kernels_that_raise_or_leave_the_arms_are_findings():
    @jit
    def ask_beyond(F):
        return 5

    class Beyond(Broken):
        wrong = replace(ALONE, ask=ask_beyond)

    found = failures(check_policy, Beyond(), skip=only("simplex", POLICY_CHECKS))
    assert found == {"simplex": "arm 5 of 5 was drawn in round 1"}
    long_way = failures(check_policy, Beyond(), skip=only("constant_losses", POLICY_CHECKS))
    assert long_way == {"constant_losses": "arm 5 of 5 was drawn in round 1"}


# --- environments: three Bernoulli arms with one thing wrong ----------------------------------

MEANS = np.array([0.3, 0.5, 0.7])


@jit
def mean_and_gap(K, E, arm):
    mean = E[1 + K + arm]
    E[0] = mean - 0.3
    return mean


@jit
def loss_fair(K, t, C, E, G, v, arm):
    return 1.0 if v < mean_and_gap(K, E, arm) else 0.0


@dataclass(frozen=True, repr=False, eq=False)
class Fair(Environment):
    n_arms: int = 3
    wide: ClassVar[bool] = False
    wrong: ClassVar = loss_fair

    def start(self, rng):
        return state(np.arange(3), MEANS, 0.0)

    def kernel(self):
        return type(self).wrong


@jit
def loss_beyond_one(K, t, C, E, G, v, arm):
    return 1.0 + 1e-12 if v < mean_and_gap(K, E, arm) else 0.0


class BeyondOne(Fair):
    wrong = loss_beyond_one


@jit
def loss_half_the_gap(K, t, C, E, G, v, arm):
    mean = mean_and_gap(K, E, arm)
    E[0] = 0.5 * E[0]
    return 1.0 if v < mean else 0.0


class HalfTheGap(Fair):
    wrong = loss_half_the_gap


@jit
def loss_no_best(K, t, C, E, G, v, arm):
    mean = mean_and_gap(K, E, arm)
    E[0] = mean
    return 1.0 if v < mean else 0.0


class NoBest(Fair):
    wrong = loss_no_best


class OtherGaps(Fair):
    def fixed_gaps(self):
        return np.array([0.0, 0.2, 0.5])


class OffInEachRound(Adversarial):
    def least_cumulative(self, checkpoints):
        return 0.5 * super().least_cumulative(checkpoints)


class OffInHindsight(Adversarial):
    def best_cumulative(self, checkpoints):
        return super().best_cumulative(checkpoints) - 1.0


class Counting(Fair):
    """Repetitions know how many there were before."""

    made: ClassVar = [0]

    def start(self, rng):
        self.made[0] += 1
        return state(np.arange(3), MEANS, self.made[0])


@jit
def loss_one_for_all(K, t, C, E, G, v, arm):
    golden = t * 0.6180339887498949
    return loss_fair(K, t, C, E, G, golden - int(golden), arm)


class OneForAll(Fair):
    """Seeded by itself: every repetition is the same."""

    wrong = loss_one_for_all


def answering(t, last):
    return 0.5 if last == 0 else 0.1


class Unannounced(Constrained):
    """Answers the agent and does not say so."""

    adaptive = False


@jit
def loss_counting_calls(K, t, C, E, G, v, arm):
    E[1 + 2 * K] += 1.0
    level = 0.1 * (E[1 + 2 * K] % 4.0)
    return 1.0 if v < mean_and_gap(K, E, arm) + level else 0.0


class CountingCalls(Fair):
    wrong = loss_counting_calls


@jit
def loss_of_the_neighbours(K, t, C, E, G, v, arm):
    if any_lane(v < 0.02):
        v = 1.0 - v
    return coin(v, mean_of(K, C, E, arm))


class Neighbours(Stochastic):
    """One lane's luck changes the others'."""

    def kernel(self):
        return loss_of_the_neighbours


class OneRoundTooMany(Adversarial):
    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "horizon_limit", self.horizon_limit + 1)


class Overspent(Corrupted):
    def stage(self):
        stage = super().stage()
        return Attack(stage.kernel, stage.parameters * [2.0, 1.0, 1.0], stage.start)


@jit
def attack_unpaid(base_loss, K, t, C, E, G, v, arm, CA, A):
    loss = base_loss(K, t, C, E, G, v, arm)
    return select(loss > 0.5, 0.75 * loss, loss)


class Unpaid(Corrupted):
    def stage(self):
        stage = super().stage()
        return Attack(attack_unpaid, stage.parameters, stage.start)


class ManyLines(Fair):
    def __repr__(self):
        return "ManyLines(\n)"


class Unequal(Fair):
    def __eq__(self, other):
        return self is other

    __hash__ = Environment.__hash__


TABLE = np.random.default_rng(3).random((5_000, 3))

BROKEN_ENVIRONMENTS = [
    (BeyondOne(), "losses", "had loss 1 in round"),
    (HalfTheGap(), "pseudo_regret", "off what regret expects by"),
    (NoBest(), "pseudo_regret", "every arm had regret in round 1, at least 0.3"),
    (OtherGaps(), "pseudo_regret", "arm 2 contributed 0.4 to regret in round 1, though its gap"),
    (OffInHindsight(TABLE), "best_in_hindsight", "best_cumulative gives"),
    (OffInEachRound(TABLE), "best_in_hindsight", '"dynamic" of comparators gives'),
    (Counting(), "same_seed", "starts in another state"),
    (OneForAll(), "repetitions_differ", "equal in 4000 rounds of repetitions 0 and 1"),
    (Unannounced([0.0, 0.1], answering), "oblivious", "depends on what was played before"),
    (CountingCalls(), "enquiries", "after enquiries, the loss of round"),
    (Neighbours([0.2, 0.4, 0.6]), "lanes", "where the single repetition had"),
    (OneRoundTooMany(TABLE), "horizon_limit", "had loss nan in round 5001"),
    (Overspent(Stochastic.gap(3, 0.25), 20), "corruption_budget", "the budget is 20"),
    (Unpaid(Stochastic.gap(3, 0.25), 1e9), "corruption_budget", "but 0 accounted"),
    (ManyLines(), "representation", "it prints in several lines"),
    (Unequal(), "pickling", "unequal to itself"),
]


@pytest.mark.parametrize(
    ("environment", "name", "finding"), BROKEN_ENVIRONMENTS, ids=lambda x: type(x).__name__
)
def test_a_broken_environment_fails_the_check_for_its_fault_alone(environment, name, finding):
    found = failures(check_environment, environment)
    assert list(found) == [name]
    assert finding in found[name]


def test_every_check_of_environments_has_a_broken_one():
    elsewhere = {"functions"}
    assert {name for _, name, _ in BROKEN_ENVIRONMENTS} | elsewhere == set(ENVIRONMENT_CHECKS)


def test_what_the_broken_environments_are_made_of_is_sound():
    report = check_environment(Fair())
    assert report["pickling"].status == "passed"
    assert report["lanes"].found == "the kernel takes one repetition at a time"


def test_an_environment_may_say_that_it_answers():
    report = check_environment(Constrained([0.0, 0.1], answering))
    assert report["oblivious"].status == "not applicable"


@bw.environments.custom
class Drifting:
    """Means that wander; what `mean` says may be off by ``lie``."""

    lie: float = 0.0

    def mean(state, parameters, n_arms, t, arm):
        return 0.3 + 0.2 * arm / n_arms + 0.1 * (t % 100) / 100 + parameters.lie * arm

    def loss(state, parameters, n_arms, t, arm, u):
        return 1.0 if u < 0.3 + 0.2 * arm / n_arms + 0.1 * (t % 100) / 100 else 0.0


def test_an_environment_of_ones_own_passes_and_can_fail():
    assert check_environment(Drifting(4))["best_in_hindsight"].found.startswith("tracked sums")
    found = failures(check_environment, Drifting(4, lie=0.05))
    assert list(found) == ["pseudo_regret"]
    assert "the losses of arm 3 are off what regret expects by -0.15" in found["pseudo_regret"]


# --- reports ----------------------------------------------------------------------------------


def test_a_report_prints_as_a_table_and_is_indexed_by_name():
    outcomes = (
        Outcome("simplex", "passed", "sums to 1"),
        Outcome("lanes", "skipped", "on request"),
    )
    report = Report("Exp3()", outcomes)
    assert str(report).splitlines() == [
        "Exp3()",
        "simplex  passed   sums to 1",
        "lanes    skipped  on request",
    ]
    assert len(report) == 2
    assert list(report) == list(outcomes)
    assert report["lanes"].status == "skipped"
    assert report.failures == ()
    with pytest.raises(KeyError, match="one of simplex, lanes"):
        report["plumbing"]


def test_checks_left_out_are_reported_and_the_error_carries_the_report():
    skip = [name for name in POLICY_CHECKS if name != "better_than_uniform"]
    with pytest.raises(CheckFailed) as caught:
        check_policy(bw.Uniform(), skip=skip)
    assert [o.status for o in caught.value.report].count("skipped") == len(skip)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.report == caught.value.report


def test_the_seed_decides_and_the_same_seed_finds_the_same():
    skip = [name for name in POLICY_CHECKS if name not in ("frequencies", "better_than_uniform")]
    reports = [str(check_policy(bw.Exp3(), seed=seed, skip=skip)) for seed in (1, 1, 2)]
    assert reports[0] == reports[1] != reports[2]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: check_policy("Exp3"), "The policy of check_policy must be a policy"),
        (lambda: check_policy(bw.Exp3(), n_arms=1), "The n_arms of check_policy must be"),
        (lambda: check_policy(bw.Exp3(), seed=-1), "The seed of check_policy must be"),
        (lambda: check_policy(bw.Exp3(), skip="luck"), "The skip of check_policy must be names"),
        (lambda: check_policy(bw.Exp3(), skip=["lanes", 3]), "got 3"),
        (lambda: check_environment(bw.Exp3()), "The environment of check_environment must be one"),
        (lambda: check_environment(Fair(), skip=["luck"]), "The skip of check_environment must"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert sentence in str(caught.value)
