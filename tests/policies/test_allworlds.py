"""AllWorlds: the rule as written down, its reductions, late and lost feedback, and its alarms."""

import io
import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.experiments.arena import WORLDS
from bothworlds.lanes.jit import compiled as jit
from bothworlds.lanes.random import uniform
from bothworlds.lanes.types import LANES
from bothworlds.policies import waiting
from bothworlds.policies.allworlds import kernels as aw
from bothworlds.policies.base import Kernels
from bothworlds.seeding import stream_words
from helpers.allworlds import ReducedVariance, Reference

PLAYS = [(2, 0, 0.0), (5, 0, 0.0), (5, 30, 0.0), (5, 7, 0.3), (12, 0, 0.0), (12, 20, 0.2)]


def uniforms(seed):
    """Return the function that draws the numbers of a bandit with this seed."""
    words = stream_words(seed, "Bandit").copy()
    return lambda: float(uniform(words, 0.0))


def loss_of(rng, arm, t, K):
    """Return a loss: the best arm changes, so that leaders and others sound alarms."""
    best = (t // 400) % K
    return float(rng.random() < (0.2 if arm == best else 0.6))


def play_alike(policy, reference, seed, rounds, delay=0, lost=0.0, two=True):
    """Play a bandit and the reference alike, and hold their draws and probabilities together."""
    bandit = bw.Bandit(policy, arms=reference.K, seed=seed)
    rng, number = np.random.default_rng(seed), uniforms(seed)
    waiting = []
    for t in range(rounds):
        decision = bandit.ask()
        # TsallisINF takes one number a round; at 1 there is no floor.
        made = reference.choose(number if two else iter([number(), 1.0]).__next__)
        assert made.arm == decision.index
        found = np.array(list(decision.probabilities.values()))
        np.testing.assert_allclose(found, reference.p, rtol=1e-9)
        assert abs(found.sum() - 1.0) < 1e-9
        if rng.random() >= lost:
            waiting.append((t + delay, decision, made, loss_of(rng, made.arm, t, reference.K)))
        while waiting and waiting[0][0] <= t:
            _, told, also, loss = waiting.pop(0)
            bandit.tell(told, loss=loss)
            reference.learn(also, loss)
    return bandit


@pytest.mark.parametrize(("K", "delay", "lost"), PLAYS)
def test_draws_are_those_of_the_definition(K, delay, lost):
    reference = Reference(K)
    bandit = play_alike(bw.AllWorlds(), reference, K, 2_500, delay=delay, lost=lost)
    state = bandit._core.F[bandit._core.start :]
    assert reference.level_alarms + reference.side_alarms > 0
    assert state[aw.LEVEL_ALARMS] == reference.level_alarms
    assert state[aw.SIDE_ALARMS] == reference.side_alarms
    assert state[aw.REPEATS] == reference.U


# --- reductions -------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 100])
def test_without_its_parts_it_is_tsallis_inf(delay):
    """Near rule, 1/2, 4 / sqrt(t), no alarms, no floor, baselines on arrival."""
    # With 7 arms no round has w = eta^2 exactly before the first answer, where rounding decides.
    play_alike(bw.TsallisINF(), plain(7), 3, 1_500, delay=delay, two=False)


def plain(K):
    """Return the definition without its parts."""
    return Reference(K, near=True, scheduled=True, floor=False, alarms=False, on_arrival=True)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 100])
def test_without_its_parts_the_definition_is_reduced_variance_bit_for_bit(delay):
    for seed in range(40):
        both, numbers = (plain(5), ReducedVariance(5)), (uniforms(seed), uniforms(seed))
        rng, waiting = np.random.default_rng(seed), []
        for t in range(300):
            made = [each.choose(draw) for each, draw in zip(both, numbers, strict=True)]
            assert made[0].arm == made[1].arm
            assert np.array_equal(both[0].p, both[1].p)
            waiting.append((made, loss_of(rng, made[0].arm, t, 5)))
            if len(waiting) > delay:
                told, loss = waiting.pop(0)
                for each, decision in zip(both, told, strict=True):
                    each.learn(decision, loss)
        assert np.ptp(both[0].L) > 1.0


def test_soft_baselines_alone_are_those_of_tsallis_inf():
    """The soft rule with the level 1/2 and the rate 4 / sqrt(t)."""

    class Half(Reference):
        def distribution(self, t):
            self.nB = self.sB = 0.0
            return super().distribution(t)

    soft = Half(5, scheduled=True, floor=False, alarms=False)
    play_alike(bw.TsallisINF(estimator="soft"), soft, 3, 1_500, two=False)


@pytest.mark.parametrize("switch", ["counting", "sharing", "on_arrival"])
def test_with_prompt_feedback_what_is_for_late_feedback_changes_no_bit(switch):
    one, other = Reference(4), Reference(4, **{switch: switch == "on_arrival"})
    numbers = [uniforms(5), uniforms(5)]
    rng = np.random.default_rng(5)
    for t in range(800):
        made = [each.choose(draw) for each, draw in zip((one, other), numbers, strict=True)]
        assert made[0].arm == made[1].arm
        loss = loss_of(rng, made[0].arm, t, 4)
        one.learn(made[0], loss)
        other.learn(made[1], loss)
    np.testing.assert_array_equal(one.p, other.p)
    np.testing.assert_allclose(one.L, other.L, rtol=1e-12)


class Base(bw.AllWorlds):
    """Limits infinite and no floor: the policy without alarms."""

    def parameters(self, n_arms):
        numbers = super().parameters(n_arms)
        numbers[[aw.LEVEL_LIMIT, aw.SIDE_LIMIT]] = 1e300
        numbers[[aw.FLOOR, aw.HEIGHT]] = 0.0
        return numbers


def test_the_base_policy_learns_the_same_in_any_order():
    bandit = bw.Bandit(Base(), arms=4, seed=2)
    rng = np.random.default_rng(1)
    decisions = [bandit.ask() for _ in range(200)]
    losses = [float(rng.random() < 0.3 + 0.1 * each.index) for each in decisions]
    estimates = []
    for order in (np.arange(200), np.arange(200)[::-1], rng.permutation(200)):
        twin = bandit.copy()
        twin.ask()
        for place in order:
            twin.tell(decisions[place].id, loss=losses[place])
        estimates.append([arm.estimate for arm in twin.history().values()])
    np.testing.assert_allclose(estimates[1], estimates[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(estimates[2], estimates[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("c", [0.0, 1e300])
def test_the_ends_of_the_soft_restart(c):
    """With c = 0 a level alarm forgets all leads, with c infinite it keeps all of them."""

    class Kept(bw.AllWorlds):
        def parameters(self, n_arms):
            numbers = super().parameters(n_arms)
            numbers[aw.KEPT] = c
            return numbers

    bandit = bw.Bandit(Kept(), arms=3, seed=1)
    rng = np.random.default_rng(4)
    state = bandit._core.F[bandit._core.start :]
    for t in range(4_000):
        decision = bandit.ask()
        before = np.array([arm.estimate for arm in bandit.history().values()])
        level = 0.1 if t < 2_000 else 0.9
        loss = float(rng.random() < level + 0.1 * (decision.index > 0))
        alarms = state[aw.LEVEL_ALARMS]
        bandit.tell(decision, loss=loss)
        if state[aw.LEVEL_ALARMS] > alarms:
            break
    else:
        raise AssertionError("no level alarm")
    after = np.array([arm.estimate for arm in bandit.history().values()])
    assert state[aw.SQUARES] == 0.25 and state[aw.RESTARTED] == t + 1
    if c == 0.0:
        assert np.all(after == 0.0)
    else:
        others = [i for i in range(3) if i != decision.index]
        assert after[others[0]] - after[others[1]] == pytest.approx(
            before[others[0]] - before[others[1]], rel=1e-9
        )


# --- properties -------------------------------------------------------------------------------


def mean_estimate(reference, t, weight):
    """Return sum_I p_I (B_i + 1[i = I] (l_i - B_i) / weight_i) for losses 0.1, 0.3, ..."""
    w, baselines, f, few, _ = reference.distribution(t)
    p = (1.0 - f * few.sum()) * w + f * few
    losses = 0.1 + 0.2 * np.arange(reference.K)
    divisor = {"p": p, "w": w}[weight]
    return (baselines + p * (losses - baselines) / divisor) - losses


def test_estimates_are_unbiased_with_soft_baselines_and_floor():
    reference, number = Reference(4), uniforms(3)
    rng = np.random.default_rng(3)
    floored = softened = 0
    for t in range(1, 600):
        made = reference.choose(number)
        reference.learn(made, loss_of(rng, made.arm, t, 4))
        w, baselines, f, few, _ = reference.distribution(t + 1)
        floored += bool(f * few.sum() > 0.0)
        softened += bool(np.ptp(baselines) > 0.0)
        assert np.abs(mean_estimate(reference, t + 1, "p")).max() < 1e-12
        if f * few.sum() > 1e-3:
            # 1 / w instead of 1 / p would not be.
            assert np.abs(mean_estimate(reference, t + 1, "w")).max() > 1e-5
    assert floored > 50 and softened > 50


@pytest.mark.parametrize("every", [5, 50])
def test_repeated_alarms_are_bounded_under_a_flipping_level(every):
    """U <= log_1.15(N ln 2 / 4) + 1; flips every 5 rounds are too short to be noticed at all."""
    bandit = bw.Bandit(bw.AllWorlds(), arms=2, seed=3)
    state = bandit._core.F[bandit._core.start :]
    rounds = 20_000
    most = 0.0
    for t in range(rounds):
        decision = bandit.ask()
        # The second arm is always worse, so that the first one leads.
        bandit.tell(decision, loss=float((t // every) % 2 if decision.index == 0 else 1))
        most = max(most, state[aw.REPEATS])
    assert most <= math.log(rounds * math.log(2.0) / 4.0) / math.log(1.15) + 1.0
    assert (most > 1.0) == (every == 50)


@pytest.mark.parametrize("rounds", [50, 700, 1_300])
def test_a_saved_bandit_goes_on_as_if_it_had_not_been_saved(rounds, tmp_path):
    """In the middle of a phase, before and after a restart, with decisions pending."""
    bandit = bw.Bandit(bw.AllWorlds(), arms=4, seed=8)
    rng = np.random.default_rng(8)
    pending = []
    for t in range(rounds):
        pending.append((bandit.ask(), t))
        if len(pending) > 6:
            decision, then = pending.pop(0)
            bandit.tell(decision, loss=loss_of(rng, decision.index, then, 4))
    bandit.save(tmp_path / "state.json")
    loaded = bw.Bandit.load(tmp_path / "state.json")
    for t in range(rounds, rounds + 300):
        one, other = bandit.ask(), loaded.ask()
        assert (one.arm, one.probability) == (other.arm, other.probability)
        pending.append((one, t))
        decision, then = pending.pop(0)
        loss = loss_of(rng, decision.index, then, 4)
        bandit.tell(decision.id, loss=loss)
        loaded.tell(decision.id, loss=loss)


def test_arms_come_and_go():
    bandit = bw.Bandit(bw.AllWorlds(), arms=["a", "b", "c"], seed=8)
    rng = np.random.default_rng(8)
    means = {"a": 0.3, "b": 0.6, "c": 0.6, "d": 0.05}

    def play(rounds, **which):
        for _ in range(rounds):
            decision = bandit.ask(**which)
            bandit.tell(decision, loss=float(rng.random() < means[decision.arm]))

    play(300)
    bandit.add_arm("d", probability=0.2)
    assert bandit.probabilities()["d"] == pytest.approx(0.2, rel=1e-9)
    play(600)
    assert max(bandit.probabilities(), key=bandit.probabilities().get) == "d"
    play(100, available=["a", "b"])
    assert max(bandit.probabilities(), key=bandit.probabilities().get) == "d"
    bandit.retire_arm("d")
    play(400)
    assert max(bandit.probabilities(), key=bandit.probabilities().get) == "a"


@pytest.mark.parametrize("rounds", [0, 3, 400])
@pytest.mark.parametrize("outstanding", [0, 1, 20])
@pytest.mark.parametrize("asked", [None, 0.05, 0.9])
def test_a_new_arm_is_drawn_with_the_probability_asked_for(rounds, outstanding, asked):
    """After the floor, which a new arm gets too, and with decisions under way."""
    bandit = bw.Bandit(bw.AllWorlds(), arms=["a", "b", "c"], seed=1)
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        decision = bandit.ask()
        bandit.tell(decision, loss=float(rng.random() < 0.3 + 0.2 * decision.index))
    for _ in range(outstanding):
        bandit.ask()
    bandit.add_arm("d", probability=asked)
    expected = 0.25 if asked is None else asked
    assert bandit.probabilities()["d"] == pytest.approx(expected, rel=1e-9)
    assert bandit.ask().probabilities["d"] == pytest.approx(expected, rel=1e-9)


def test_a_new_arm_cannot_be_drawn_less_often_than_the_floor_draws_it():
    bandit = bw.Bandit(bw.AllWorlds(), arms=["a", "b", "c"], seed=1)
    bandit.ask()
    before = bandit.probabilities()
    # (1 - 1/3) / 4 / 4, the floor of three even arms and a fourth without weight.
    with pytest.raises(bw.errors.InvalidParameter, match=r"must be above 0\.0417"):
        bandit.add_arm("d", probability=0.04)
    assert bandit.probabilities() == before


@pytest.mark.parametrize("evidence", [False, True])
def test_level_and_side_alarms_are_told_apart(evidence):
    """The leader's losses rise, then those of another arm fall."""
    bandit = bw.Bandit(bw.AllWorlds(), arms=["a", "b"], seed=3, evidence=evidence)
    rng = np.random.default_rng(3)
    for t in range(3_000):
        decision = bandit.ask()
        means = (0.1 if t < 1_000 else 0.6, 0.9 if t < 2_000 else 0.0)
        bandit.tell(decision, loss=float(rng.random() < means[decision.index]))
    found = {(each.kind, each.arm): each for each in bandit.alarms()}
    level, side = found["level", "a"], found["side", "b"]
    assert 1_000 < level.round and level.before < level.after
    assert 2_000 < side.round and side.after < side.before
    assert ("change", "a") in found or not evidence
    loaded = bw.Bandit.loads(bandit.dumps())
    assert loaded.alarms() == bandit.alarms()


def test_wrappers_for_drift_are_refused():
    for wrap in (bw.Floor, bw.Alarmed, bw.Discounted, bw.Restarted):
        with pytest.raises(bw.errors.InvalidParameter, match="AllWorlds"):
            wrap(bw.AllWorlds())


def test_equal_arms_are_played_calmly():
    """The largest share of plays of five equal arms, as even as under reduced variance."""
    result = bw.simulate(
        {"one": bw.AllWorlds(), "rv": bw.TsallisINF()}, bw.environments.Stochastic([0.5] * 5),
        horizon=10_000, repetitions=400, seed=2,
    )  # fmt: skip
    share = {
        name: (plays / plays.sum(axis=1, keepdims=True)).max(axis=1)
        for name, plays in result.plays.items()
    }
    for level, limit in ((0.5, 0.41), (0.95, 0.57)):
        found = {name: np.quantile(each, level) for name, each in share.items()}
        # Four standard errors of a quantile of 400 runs, whose density is about 4 and 0.8.
        error = 4.0 * math.sqrt(level * (1.0 - level) / 400) / (4.0 if level == 0.5 else 0.8)
        assert found["one"] <= limit + error


# --- reference cells --------------------------------------------------------------------------

RUNS = 400
CELLS = {
    "fixed means": (70.0, 1.0),
    "low rates": (55.0, 0.8),
    "jumping level": (95.0, 0.9),
    "betrayal": (94.0, 0.8),
    "hidden best": (204.0, 3.6),
    "replaced losses": (123.0, 2.2),
    "drift": (427.0, 6.3),
    "delay": (88.0, 1.3),
}
"""Mean regret and standard error at K = 5, gap 0.2, T = 10,000, of an independent simulator."""


def regret(policy, world, horizon=10_000, runs=RUNS):
    result = bw.simulate({"one": policy}, world, horizon=horizon, repetitions=runs, seed=11)
    found = result.regret["one"][:, -1]
    return found.mean(), found.std() / math.sqrt(runs)


def holds(found, cell):
    """Within four joint standard errors and one per cent."""
    (mean, error), (expected, other) = found, cell
    return abs(mean - expected) <= 4.0 * math.hypot(error, other) + 0.01 * expected


@pytest.mark.statistical
@pytest.mark.parametrize("name", CELLS)
def test_the_cells_of_the_arena(name):
    found = regret(bw.AllWorlds(), WORLDS[name].make(5, 0.2, 10_000))
    assert holds(found, CELLS[name]), found


def test_a_hundred_runs_of_other_policies_are_told_apart_from_the_cell():
    """The negative control: reduced variance is not within the tolerance."""
    found = regret(bw.TsallisINF(), WORLDS["fixed means"].make(5, 0.2, 10_000))
    assert not holds(found, CELLS["fixed means"])


FIXED = bw.environments.Stochastic.gap(5, 0.2)
MOSTLY_LOST = bw.environments.Delayed(FIXED, 0, lost=0.8)
CLICKS = np.where(np.arange(4)[:, None] == np.arange(5), 0.95, 0.98)
OTHERS = {
    "missing": (bw.environments.Delayed(FIXED, 0, lost=0.3), 93.0, 3.0, 10_000),
    "mostly missing": (MOSTLY_LOST, 282.0, 8.0, 20_000),
    "drifting clicks": (bw.environments.Piecewise(CLICKS, every=5_000), 266.0, 5.0, 20_000),
    "many arms": (bw.environments.Stochastic.gap(30, 0.4), 279.0, 5.0, 10_000),
    "long": (bw.environments.Stochastic.gap(10, 0.1), 348.0, 12.0, 100_000),
}
"""Mean and standard error of 100 runs, where the best of the clicks moves every 5,000 rounds."""


@pytest.mark.statistical
@pytest.mark.parametrize("name", OTHERS)
def test_other_cells(name):
    world, mean, error, horizon = OTHERS[name]
    assert holds(regret(bw.AllWorlds(), world, horizon), (mean, error))


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("fixed means", 0.0, 0.15), ("jumping level", 8.0, 12.0), ("drift", 2.8, 3.5)],
)
def test_how_many_level_alarms_a_run_has(name, least, most):
    world = WORLDS[name].make(5, 0.2, 10_000)
    alarms: list[float] = []
    for first in range(0, RUNS, LANES):
        job = TileJob("one", bw.AllWorlds(), world, 11, first, LANES, (10_000,), keep=True)
        with np.load(io.BytesIO(run_job(job).state)) as kept:
            alarms += kept["array0"].reshape(-1, LANES)[aw.LEVEL_ALARMS].tolist()
    assert least <= np.mean(alarms) <= most


@jit
def asked_in_full(K, t, C, S, G, arm):
    """Count a decision, and forget the share."""
    aw.asked(K, t, C, S, G, arm)
    S[aw.WAITING + waiting.SHARE] = 1.0


IN_FULL = Kernels.of(
    aw.choose,
    aw.update,
    aw.weights,
    asked=asked_in_full,
    estimates_changed=aw.estimates_changed,
    write_back=aw.settle,
    any_draw=True,
)


class InFull(bw.AllWorlds):
    """AllWorlds that adds all of its baselines, although some answers never come."""

    def kernels(self):
        return IN_FULL


@pytest.mark.statistical
def test_the_share_matters_where_feedback_is_lost():
    """With 80 % of the answers missing, baselines in full mislead."""
    mean, error = regret(InFull(), MOSTLY_LOST, 20_000)
    assert mean - 4.0 * error > 400.0
