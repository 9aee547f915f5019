"""Environments a user writes: compiled, tracked, remembered, and refused in one sentence."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine.replay import World
from bothworlds.environments import Corrupted, custom
from bothworlds.errors import InvalidParameter, KernelError
from bothworlds.policies import random_unit
from helpers.worlds import LANES, call, random_play


@custom
class Tiring:
    """Every play of an arm makes it worse; rest does nothing."""

    step: float
    floor: float = 0.1

    def start(n_arms, rng):
        return np.concatenate([np.zeros(n_arms), [rng.random()]])

    def mean(state, parameters, n_arms, t, arm):
        return min(parameters.floor + parameters.step * state[arm], 1.0)

    def loss(state, parameters, n_arms, t, arm, u):
        return 1.0 if u < min(parameters.floor + parameters.step * state[arm], 1.0) else 0.0

    def update(state, parameters, n_arms, t, arm, loss):
        state[arm] += 1.0 + loss


@custom
class Bare:
    def mean(state, parameters, n_arms, t, arm):
        return (arm + 0.5) / n_arms

    def loss(state, parameters, n_arms, t, arm, u):
        return (arm + u) / n_arms


@custom
class Wild:
    def mean(state, parameters, n_arms, t, arm):
        return 0.5

    def loss(state, parameters, n_arms, t, arm, u):
        return 1.5 if t == 5 else 0.5


@custom
class Broken:
    def mean(state, parameters, n_arms, t, arm):
        return 0.5

    def loss(state, parameters, n_arms, t, arm, u):
        if t == 5:
            raise ValueError("no loss today")
        return 0.5


def replay(step, floor, arms, v):
    """Tiring, written out again for one repetition."""
    worn, losses, means = np.zeros(3), [], []
    for arm, u in zip(arms, v, strict=True):
        mean = np.minimum(floor + step * worn, 1.0)
        means.append(mean)
        losses.append(1.0 if u < mean[arm] else 0.0)
        worn[arm] += 1.0 + losses[-1]
    return np.array(losses), np.array(means)


@pytest.mark.slow
def test_state_follows_the_actions_and_means_are_tracked():
    world = Tiring(3, step=0.003)
    arms, v = random_play(world, 200)
    seen = call(world, arms, v, wide=False)
    row = world.tracked_row
    for lane in range(LANES):
        losses, means = replay(0.003, 0.1, arms[:, lane], v[:, lane])
        assert np.array_equal(seen.losses[:, lane], losses)
        assert seen.regrets[:, lane] == pytest.approx(means[np.arange(200), arms[:, lane]])
        assert seen.state[row : row + 3, lane] == pytest.approx(means.sum(axis=0))


@pytest.mark.slow
def test_only_the_last_call_of_a_round_counts():
    world = Tiring(3, step=0.003)
    arms, v = random_play(world, 100)
    other, _ = random_play(world, 100, seed=6)
    once = call(world, arms, v, wide=False)
    twice = call(
        world,
        np.stack([other, arms], axis=1).reshape(-1, LANES),
        np.repeat(v, 2, axis=0),
        rounds=np.repeat(np.arange(1, 101), 2),
        wide=False,
    )
    assert np.array_equal(twice.losses[1::2], once.losses)
    assert np.array_equal(twice.state, once.state)


def test_the_generator_reaches_the_state():
    world = Tiring(2, step=0.1)
    first = world.start(np.random.default_rng(1))
    assert first[-1] == np.random.default_rng(1).random()
    assert first[-1] != world.start(np.random.default_rng(2))[-1]


def test_it_prints_compares_and_travels_like_the_others():
    world = Tiring(3, step=0.25)
    assert repr(world) == "Tiring(n_arms=3, step=0.25)"
    assert Tiring.__doc__.startswith("Every play")
    assert pickle.loads(pickle.dumps(world)) == world
    assert world != Tiring(3, step=0.5)


@pytest.mark.slow
def test_it_can_be_corrupted():
    world = Corrupted(Bare(3), 2.0, targets=[0])
    arms, v = random_play(world, 20)
    seen = call(world, np.zeros_like(arms), v, wide=False)
    assert np.all(seen.spent[-1] == 2.0)
    assert np.all(seen.losses[0] == 1.0)


@pytest.mark.statistical
def test_simulated_regret_is_against_the_best_arm():
    result = bw.simulate(
        {"uniform": bw.Uniform()}, Bare(4), horizon=400, repetitions=64, seed=1, progress=False
    )
    # Means 1/8, 3/8, 5/8, 7/8: a random arm costs 3/8 a round more than the best.
    regret = result.regret["uniform"][:, -1]
    assert abs(regret.mean() - 150.0) <= 4.0 * np.sqrt(400 * 5 / 64 / 64)


def test_a_loss_out_of_range_is_reported():
    with pytest.raises(
        KernelError, match=r"The .* of Wild.* must be a number in \[0, 1\], got .*\.$"
    ):
        bw.simulate([bw.Uniform()], Wild(2), horizon=10, repetitions=2, progress=False)


def test_a_function_that_raises_is_reported():
    with pytest.raises(KernelError, match="no loss today"):
        bw.simulate([bw.Uniform()], Broken(2), horizon=10, repetitions=2, progress=False)


@pytest.mark.processes
def test_functions_typed_into_an_interpreter_work():
    # Code from standard input has no file next to which machine code could be cached.
    code = """
import bothworlds as bw
@bw.environments.custom
class Typed:
    def mean(state, parameters, n_arms, t, arm):
        return 0.25 * arm
    def loss(state, parameters, n_arms, t, arm, u):
        return 0.25 * arm
result = bw.simulate([bw.Uniform()], Typed(2), horizon=50, repetitions=1, progress=False)
print(next(iter(result.regret.values()))[0, -1] > 0)
"""
    done = subprocess.run(
        [sys.executable], input=code, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.stdout.strip() == "True", done.stderr


def without_mean():
    @custom
    class Meanless:
        def loss(state, parameters, n_arms, t, arm, u):
            return 0.5


def with_self():
    @custom
    class Selfish:
        def mean(state, parameters, n_arms, t, arm):
            return 0.5

        def loss(self, state, parameters, n_arms, t, arm, u):
            return 0.5


def with_n_arms():
    @custom
    class Counting:
        n_arms: int = 2

        def mean(state, parameters, n_arms, t, arm):
            return 0.5

        def loss(state, parameters, n_arms, t, arm, u):
            return 0.5


def with_square_state():
    @custom
    class Square:
        def start(n_arms, rng):
            return np.zeros((2, 2))

        def mean(state, parameters, n_arms, t, arm):
            return 0.5

        def loss(state, parameters, n_arms, t, arm, u):
            return 0.5

    Square(2).start(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (without_mean, "mean of Meanless must be a function of the class body"),
        (with_self, "loss of Selfish must be a function without self"),
        (with_n_arms, "n_arms of Counting must be left out"),
        (with_square_state, "start of Square must be returning a flat array"),
        (lambda: Tiring(3, step="much"), "step of Tiring must be a number, got 'much'"),
        (lambda: Tiring(1, step=0.1), "n_arms of Tiring must be an integer of at least 2"),
    ],
)
def test_bad_input_is_one_sentence(make, sentence):
    with pytest.raises(InvalidParameter, match=f"^The {sentence}.*\\.$"):
        make()


@custom
class Wandering:
    """One mean walks by a stream of its own, as often as the agent plays arm 1."""

    step: float = 0.05

    def start(n_arms, rng):
        return np.full(1, 0.5)

    def mean(state, parameters, n_arms, t, arm):
        return state[0] if arm == 0 else 0.5

    def loss(state, parameters, n_arms, t, arm, u):
        return 1.0 if u < (state[0] if arm == 0 else 0.5) else 0.0

    def update(state, parameters, n_arms, t, arm, loss, generator):
        for _ in range(1 + arm):
            up = random_unit(generator) < 0.5
            state[0] = min(max(state[0] + (parameters.step if up else -parameters.step), 0.0), 1.0)


def test_update_draws_from_a_stream_of_its_own():
    world = World(Wandering(2), seed=3)
    rounds = 200
    runs = [world.repetition(number) for number in (0, 0, 1)]
    left, right = np.zeros((2, rounds), dtype=np.int64)
    right[:] = 1
    found = [
        world.walk_all(run, played) for run, played in zip(runs, (left, right, left), strict=True)
    ]
    # Arm 1 never changes: the uniform numbers of the rounds do not depend on the draws.
    assert np.array_equal(found[0].losses[:, 1], found[1].losses[:, 1])
    walked = [np.diff(each.costs[:, 0]) for each in found]
    assert set(np.round(np.abs(walked[0]), 9)) <= {0.0, 0.05}
    assert not np.array_equal(walked[0], walked[1]) and not np.array_equal(walked[0], walked[2])
    # A walk between two ends that draws twice a round goes up about as often as down.
    ups = int((walked[0] > 0.0).sum())
    assert abs(ups - (walked[0] < 0.0).sum()) <= 4.0 * np.sqrt(rounds)
    bw.checks.check_environment(Wandering(2))


def test_regret_is_known_against_the_best_arm_of_each_round_and_of_each_run():
    world, rounds = Wandering(2), 300
    result = bw.simulate(
        {"uniform": bw.Uniform()}, world, horizon=rounds, repetitions=3, seed=1, progress=False,
        checkpoints=[100],
    )  # fmt: skip
    moving = result.regret_against("dynamic")["uniform"]
    fixed = result.regret_against("fixed in this run")["uniform"]
    assert (moving >= fixed - 1e-9).all() and (moving[:, -1] > fixed[:, -1]).any()
    # Over the runs the fixed arm of each is at least as good as the best arm on average.
    assert (fixed.mean(axis=0) >= result.regret["uniform"].mean(axis=0) - 1e-9).all()
    assert result.summary(regret="dynamic").rows["uniform"]["mean"] == moving[:, -1].mean()


def test_regret_against_each_comparator_is_that_of_a_replay():
    @custom
    class Swapped:
        def mean(state, parameters, n_arms, t, arm):
            return 0.25 if (t % 3 == 0) == (arm == 0) else 0.75

        def loss(state, parameters, n_arms, t, arm, u):
            return 1.0 if u < (0.25 if (t % 3 == 0) == (arm == 0) else 0.75) else 0.0

    result = bw.simulate(
        {"uniform": bw.Uniform()}, Swapped(2), horizon=300, repetitions=5, seed=1, progress=False
    )
    # Arm 1 is the better one in two rounds of three: 100 rounds of the gap 1/2 lie between.
    apart = result.regret_against("dynamic")["uniform"] - result.regret["uniform"]
    assert apart[:, -1] == pytest.approx(np.full(5, 50.0))
    same = result.regret_against("fixed in this run")["uniform"]
    assert same == pytest.approx(result.regret["uniform"])
