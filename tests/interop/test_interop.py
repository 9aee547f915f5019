"""The doors to other software, against the real packages."""

import copy
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from river import bandit as river_bandit

import bothworlds as bw
from bothworlds.errors import InvalidFeedback, InvalidParameter, KernelError, UnknownDecision
from bothworlds.interop.gymnasium import BanditEnv
from bothworlds.interop.river import RiverPolicy

WORLDS = [
    bw.environments.Stochastic.gap(n_arms=4, gap=0.25),
    bw.environments.Switching(n_arms=4, gap=0.25),
    bw.environments.Corrupted(bw.environments.Stochastic.gap(n_arms=4, gap=0.25), budget=10.0),
    bw.environments.Adversarial(np.random.default_rng(0).random((50, 4))),
]


# --- Gymnasium -----------------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_gymnasium_checks_pass_without_a_warning(world):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(BanditEnv(world, horizon=20), skip_render_check=True)


def test_gymnasium_checks_can_fail():
    class Unseeded(BanditEnv):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=None)

    with pytest.raises(AssertionError):
        check_env(Unseeded(WORLDS[0]), skip_render_check=True)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_episodes_are_the_repetitions_of_simulate(world):
    # UCB1 draws nothing, so its run is decided by the losses alone.
    horizon = 50
    result = bw.simulate(
        [bw.UCB1()], world, horizon=horizon, repetitions=3, seed=11, progress=False
    )
    env = BanditEnv(world, horizon)
    for repetition in range(3):
        env.reset(seed=11) if repetition == 0 else env.reset()
        bandit = bw.Bandit(bw.UCB1(), arms=4)
        cost, truncated = 0.0, False
        while not truncated:
            decision = bandit.ask()
            _, reward, _, truncated, info = env.step(np.int64(decision.index))
            bandit.tell(decision, reward=reward)
            cost += info.get("gap", info.get("expected_loss"))
        if world.regret == "oblivious":
            cost -= float(world.best_cumulative(np.array([horizon]))[0])
        assert cost == pytest.approx(result.regret["UCB1()"][repetition, -1], abs=1e-9)


def test_another_seed_is_another_episode():
    env = BanditEnv(bw.environments.Stochastic([0.5, 0.5]), horizon=64)

    def rewards(seed):
        env.reset(seed=seed)
        return [env.step(np.int64(0))[1] for _ in range(64)]

    first = rewards(1)
    assert rewards(1) == first
    assert rewards(2) != first


def test_an_episode_ends_at_the_horizon_and_a_copy_goes_its_own_way():
    env = BanditEnv(WORLDS[0], horizon=3)
    env.reset(seed=5)
    env.step(np.int64(0))
    twin = copy.deepcopy(env)
    assert [env.step(np.int64(1))[3] for _ in range(2)] == [False, True]
    with pytest.raises(InvalidParameter, match="after 3 rounds"):
        env.step(np.int64(1))
    assert [twin.step(np.int64(1))[3] for _ in range(2)] == [False, True]


def test_a_table_ends_an_episode_by_itself():
    env = BanditEnv(WORLDS[3])
    assert env.horizon == 50
    assert repr(env).startswith("BanditEnv(Adversarial(")


@pytest.mark.slow
def test_an_environment_that_leaves_the_unit_interval_is_blamed():
    @bw.environments.custom
    class Wild:
        def mean(state, parameters, n_arms, t, arm):
            return 0.5

        def loss(state, parameters, n_arms, t, arm, u):
            return 2.0

    env = BanditEnv(Wild(2))
    env.reset(seed=0)
    with pytest.raises(KernelError, match=r"must be a number in \[0, 1\], got 2.0"):
        env.step(np.int64(0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BanditEnv("world"), "The environment of BanditEnv must be"),
        (lambda: BanditEnv(bw.environments.Utilities([0.1, 0.2])), "not of duels"),
        (lambda: BanditEnv(WORLDS[0], horizon=0), "The horizon of BanditEnv must be"),
        (lambda: BanditEnv(WORLDS[3], horizon=51), "at most 50"),
        (lambda: BanditEnv(WORLDS[0]).step(np.int64(0)), "must be called after reset"),
    ],
)
def test_bad_environments_are_refused(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_an_arm_that_is_none_is_refused_and_nothing_changes():
    env = BanditEnv(WORLDS[0], horizon=2)
    env.reset(seed=1)
    with pytest.raises(InvalidParameter, match="an arm from 0 to 3, got 4"):
        env.step(np.int64(4))
    assert env.step(np.int64(0))[3] is False


# --- river ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_river_evaluates_our_policies_beside_its_own():
    policies = [
        RiverPolicy(bw.TsallisINF(), seed=1),
        RiverPolicy(bw.ThompsonSampling(), seed=1),
        river_bandit.RandomPolicy(seed=1),
    ]
    env = BanditEnv(bw.environments.Stochastic.gap(n_arms=4, gap=0.5), horizon=500)
    rewards = np.zeros(3)
    for step in river_bandit.evaluate(policies, env, n_episodes=4, seed=3):
        rewards[step["policy_idx"]] += step["reward"]
    # 2000 rounds: the best arm brings 1500, a random one 750 with a standard deviation of 22.
    assert rewards[0] > 1250
    assert rewards[1] > 1250
    assert rewards[2] < 900


def test_river_evaluates_on_its_own_environment():
    env = gymnasium.make("river_bandits/CandyCaneContest-v0", max_episode_steps=50)
    trace = list(river_bandit.evaluate([RiverPolicy(bw.TsallisINF())], env, n_episodes=2, seed=1))
    assert len(trace) == 100


def test_replay_loses_no_round_and_learns():
    rng = np.random.default_rng(1)
    arms = ["a", "b", "c"]
    means = {"a": 0.2, "b": 0.8, "c": 0.2}

    def log():
        for _ in range(6000):
            arm = arms[rng.integers(3)]
            yield arms, None, arm, float(rng.random() < means[arm])

    policy = RiverPolicy(bw.TsallisINF(), seed=1)
    total, used = river_bandit.evaluate_offline(policy, log())
    # One of three pulls is answered; the standard deviation is 37.
    assert abs(used - 2000) < 185
    assert policy.bandit.round - used in (0, 1)
    assert total.get() / used > 0.7
    assert policy.ranking[0] == "b"


@pytest.mark.statistical
def test_the_probability_of_an_answer_is_that_of_the_draw():
    # Under uniform logging the arms answered must come as the policy draws them, not as logged.
    rng = np.random.default_rng(2)
    policy = RiverPolicy(bw.Uniform(), seed=3)
    counts = np.zeros(3)
    while counts.sum() < 3000:
        logged = int(rng.integers(3))
        if policy.pull([0, 1, 2]) == logged:
            policy.update(logged, 0.5)
            counts[logged] += 1
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(3000 * 2 / 9)


def test_clones_are_fresh_and_alike():
    policy = RiverPolicy(bw.TsallisINF(estimator="iw"), bounds=(0, 10), seed=4)
    first = [policy.pull(range(5))]
    policy.update(first[0], 7.5)
    clone = policy.clone()
    assert clone.bandit is None
    assert clone.policy == policy.policy
    assert clone.bounds == (0.0, 10.0)
    assert clone.pull(range(5)) == first[0]


def test_arms_may_come_and_go():
    policy = RiverPolicy(bw.TsallisINF(), seed=5)
    for n in range(60):
        arms = ["a", "b", "c"] if n % 3 else ["a", "b"]
        arm = policy.pull(arms)
        assert arm in arms
        if n % 4:
            policy.update(arm, 1.0)
    assert set(policy.bandit.arms) == {"a", "b", "c"}


def test_bad_feedback_changes_nothing():
    policy = RiverPolicy(bw.TsallisINF(), seed=6)
    with pytest.raises(UnknownDecision, match="the arm of the last pull"):
        policy.update("a", 1.0)
    arm = policy.pull(["a", "b"])
    other = "b" if arm == "a" else "a"
    with pytest.raises(UnknownDecision):
        policy.update(other, 1.0)
    with pytest.raises(InvalidFeedback):
        policy.update(arm, 1.5)
    assert policy._n == 0
    policy.update(arm, True)
    assert policy.bandit.history()[arm].mean_loss == 0.0
    with pytest.raises(InvalidParameter, match="The policy of RiverPolicy must be"):
        RiverPolicy("TsallisINF")
