"""`bw.simulate`: the same bits however it runs, and the same mathematics as one bandit."""

import functools
import os
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from concurrent.futures import ProcessPoolExecutor

import numba
import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine import loop as engine
from bothworlds.errors import InvalidParameter, KernelError
from bothworlds.lanes import native
from bothworlds.lanes.jit import placed_code
from bothworlds.lanes.kernels import ARMS, GENERATOR, HEAD, PARAMETERS, ROUND
from bothworlds.lanes.random import WORDS, uniform
from bothworlds.lanes.vectors import pointer
from bothworlds.policies.custom import custom, random_unit
from bothworlds.seeding import numpy_generator, stream_words
from bothworlds.simulation.simulator import log_spaced
from helpers.programs import own_program
from helpers.waiting import HANG

WORLD = bw.environments.Stochastic.gap(4, 0.25)


def run(policies, world=WORLD, horizon=500, repetitions=20, **options):
    options = {"seed": 5, "progress": False, **options}
    return bw.simulate(policies, world, horizon=horizon, repetitions=repetitions, **options)


ALL = {
    "rv": bw.TsallisINF(),
    "iw": bw.TsallisINF(estimator="iw"),
    "general": bw.TsallisINF(alpha=0.7),
    "exp3": bw.Exp3(),
    "exp3++": bw.Exp3PlusPlus(),
    "broad": bw.Broad(horizon=500),
    "ucb1": bw.UCB1(),
    "klucb": bw.KLUCB(),
    "thompson": bw.ThompsonSampling(),
    "uniform": bw.Uniform(),
}


@pytest.fixture(scope="module")
def reference():
    return run(ALL, threads=1)


def same(first, second, names=None):
    for name in names or first.names:
        n = min(len(first.regret[name]), len(second.regret[name]))
        assert np.array_equal(first.regret[name][:n], second.regret[name][:n])
        assert np.array_equal(first.plays[name][:n], second.plays[name][:n])


def test_bits_do_not_depend_on_threads(reference):
    same(reference, run(ALL, threads=2))
    same(reference, run(ALL, threads=5))


def test_bits_do_not_depend_on_other_policies_or_their_order(reference):
    some = {name: ALL[name] for name in ("thompson", "rv")}
    same(run(some), reference, list(some))


def test_bits_do_not_depend_on_the_number_of_repetitions(reference):
    same(reference, run(ALL, repetitions=3))


@pytest.mark.processes
def test_bits_do_not_depend_on_the_executor(reference):
    some = {name: ALL[name] for name in ("rv", "general")}
    with ProcessPoolExecutor(1) as pool:
        same(run(some, executor=pool), reference, list(some))


def test_another_seed_gives_other_runs(reference):
    other = run(ALL, seed=6)
    assert not np.array_equal(reference.regret["rv"], other.regret["rv"])


def test_every_round_plays_one_arm(reference):
    for plays in reference.plays.values():
        assert (plays.sum(axis=1) == 500).all()


@pytest.mark.slow
def test_policies_of_a_repetition_meet_the_same_losses():
    """A policy that always plays arm i sees, in every repetition, the stream any other sees."""

    @custom
    class Watch:
        arm: float = 0.0

        def start(n_arms):
            return np.zeros(1)

        def choose(state, parameters, n_arms, t, generator):
            return int(parameters.arm)

        def update(state, parameters, n_arms, t, arm, probability, loss):
            state[0] += loss

    losses = np.random.default_rng(0).random((50, 3))
    result = run({"a": Watch(1.0), "b": Watch(1.0), "c": Watch(2.0)},
                 bw.environments.Adversarial(losses), horizon=50)  # fmt: skip
    assert np.array_equal(result.regret["a"], result.regret["b"])
    cumulative = losses.cumsum(axis=0)
    expected = (cumulative[:, 1] - cumulative.min(axis=1))[result.checkpoints - 1]
    assert np.allclose(result.regret["a"], expected, rtol=0, atol=1e-12)


# --- one definition ---------------------------------------------------------------------------


def packed(policy, n_arms, words):
    parameters, state = policy.parameters(n_arms), policy.start(n_arms)
    F = np.zeros(HEAD + parameters.size + state.size)
    F[ARMS], F[PARAMETERS] = n_arms, parameters.size
    F[GENERATOR : GENERATOR + WORDS] = words.view(np.float64)
    F[HEAD:] = np.concatenate([parameters, state])
    return F, HEAD + parameters.size


@functools.cache
def losing(kernel):
    """Return a function of one round around an environment's kernel, compiled once."""

    @numba.njit
    def loss_once(K, t, C, E, G, arm):
        return kernel(K, t, pointer(C), pointer(E), pointer(G), uniform(G, 0.0), arm)

    return loss_once


def replay(policy, world, name, seed, repetition, horizon):
    """Play one repetition through the single-bandit entries; return regret after every round."""
    loss_once = losing(world.kernel())
    label = repr(world)
    F, row = packed(policy, world.n_arms, stream_words(seed, label, name, repetition))
    C = world.parameters()
    E = world.start(numpy_generator(seed, label, repetition))
    G = stream_words(seed, label, repetition)
    kernels = policy.kernels()
    regret = np.zeros(horizon)
    total = 0.0
    for t in range(1, horizon + 1):
        F[ROUND] = t
        arm = kernels.ask(F)
        inverse_p = F[row]
        loss = loss_once(world.n_arms, t, C, E, G, arm)
        kernels.tell(F, arm, inverse_p, loss)
        total += E[0]
        regret[t - 1] = total
    return regret


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rv", "iw", "general", "exp3", "exp3++", "broad", "ucb1",
                                  "klucb", "thompson"])  # fmt: skip
@pytest.mark.parametrize("n_arms", [2, 5, 12])
def test_engine_and_single_bandit_walk_the_same_path(name, n_arms, monkeypatch):
    """Vectors and scalars are compiled from one source, so the trajectories are equal in bits."""
    # Its program in lanes draws the same arms in distribution only.
    monkeypatch.setattr(bw.ThompsonSampling, "program", own_program)
    horizon = 10_000 if name == "rv" else 1_000
    world = bw.environments.Switching(n_arms, 0.25)
    result = run({name: ALL[name]}, world, horizon, 18, checkpoints=range(1, horizon + 1))
    for repetition in (0, 17):
        path = replay(ALL[name], world, name, 5, repetition, horizon)
        assert np.array_equal(result.regret[name][repetition], path)


def test_a_simulated_path_is_that_of_a_bandit_fed_the_same_draws():
    name, world, horizon = "TsallisINF()", bw.environments.Stochastic.gap(6, 0.125), 10_000
    result = run([bw.TsallisINF()], world, horizon, 1)
    loss_once = losing(world.kernel())
    bandit = bw.Bandit(bw.TsallisINF(), arms=6, seed=0)
    bandit._core.F[GENERATOR : GENERATOR + WORDS] = stream_words(5, repr(world), name, 0).view(
        float
    )
    C, E = world.parameters(), world.start(numpy_generator(5, repr(world), 0))
    G = stream_words(5, repr(world), 0)
    plays = np.zeros(6, int)
    for t in range(1, horizon + 1):
        decision = bandit.ask()
        plays[int(E[1 + decision.index])] += 1
        bandit.tell(decision, loss=loss_once(6, t, C, E, G, decision.index))
    assert np.array_equal(plays, result.plays[name][0])


def test_nothing_recompiles_for_another_environment_arms_or_horizon():
    attacked = bw.environments.Corrupted(WORLD, budget=5.0)

    def play(world, *rest):
        for each in (world, attacked):  # by one loop and by the other
            run({"rv": ALL["rv"], "general": ALL["general"]}, each, *rest)

    play(WORLD)
    lanes = native.lanes()
    own = ALL["general"].program(6, lanes=True, horizon=100).kernels
    rounds = engine.rounds_of(own.choose, own.update), engine.play_shape(lanes)
    place, code = placed_code(*rounds)
    loops = [engine.of_width(each, lanes) for each in (engine.run_wide, engine.run_tile)]
    # Another test may have compiled them for vectors of other widths.
    before = [each.signatures for each in (code, *loops)]
    assert min(map(len, before)) > 0
    play(bw.environments.Switching(7, 0.1), 321, 5)
    assert placed_code(*rounds) == (place, code)
    assert [each.signatures for each in (code, *loops)] == before


def test_memory_does_not_grow_with_the_horizon():
    def peak(horizon):
        tracemalloc.start()
        run([bw.TsallisINF()], WORLD, horizon, 16, checkpoints=[1, horizon], threads=1)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    # Long runs have kernels of their own, and to load code takes memory too.
    short, long = 1_000, 300_000
    for horizon in (short, long):
        peak(horizon)
    assert peak(long) < 1.5 * peak(short) + 50_000


# --- checkpoints and results ------------------------------------------------------------------


def test_checkpoints_by_default_and_by_choice():
    assert log_spaced(1).tolist() == [1]
    assert log_spaced(10**7)[-1] == 10**7
    assert run([bw.TsallisINF()], checkpoints=[7, 3]).checkpoints.tolist() == [3, 7, 500]


def test_regret_at_a_checkpoint_does_not_depend_on_the_others(reference):
    fewer = run({"rv": ALL["rv"]}, checkpoints=[10])
    column = reference.checkpoints.tolist().index(10)
    assert np.array_equal(fewer.regret["rv"][:, 0], reference.regret["rv"][:, column])


def test_regret_is_the_gaps_of_the_plays(reference):
    """Plays are by the environment's own arms, whatever order a repetition had them in."""
    for name in reference.names:
        final = reference.regret[name][:, -1]
        assert np.allclose(final, 0.25 * reference.plays[name][:, 1:].sum(axis=1))


def test_tracked_regret_uses_the_best_arm_over_repetitions():
    world = bw.environments.Adaptive(3)
    result = run([bw.TsallisINF(), bw.UCB1()], world, 2_000, 32)
    assert np.isfinite(result.regret["UCB1()"]).all()
    assert result.regret["UCB1()"][:, -1].mean() > result.regret["TsallisINF()"][:, -1].mean()


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 1.5}, "horizon"),
        ({"repetitions": 0}, "repetitions"),
        ({"repetitions": True}, "repetitions"),
        ({"threads": 0}, "threads"),
        ({"seed": -1}, "seed"),
        ({"seed": "a"}, "seed"),
        ({"checkpoints": [0]}, "checkpoints"),
        ({"checkpoints": [501]}, "checkpoints"),
        ({"checkpoints": []}, "checkpoints"),
        ({"policies": []}, "policies"),
        ({"policies": "ucb1"}, "policies"),
        ({"policies": [bw.UCB1(), bw.UCB1()]}, "policies"),
        ({"policies": [3]}, "policies"),
        ({"policies": [bw.TsallisINF(gaps=[0, 0.1])]}, "gaps"),
        ({"world": "stochastic"}, "environment"),
        ({"world": bw.environments.Adversarial(np.zeros((10, 4)))}, "horizon"),
    ],
)
def test_bad_input_gets_one_sentence(change, word):
    options = {"policies": [bw.TsallisINF()], "world": WORLD, **change}
    with pytest.raises(InvalidParameter) as caught:
        run(options.pop("policies"), options.pop("world"), **options)
    message = str(caught.value)
    assert f"The {word} of " in message
    assert message.endswith(".") and "\n" not in message


# --- your own algorithm -----------------------------------------------------------------------


def follow(**functions):
    """A custom policy with the given functions in place of sound ones."""
    body = {
        "__annotations__": {"explore": float},
        "explore": 0.1,
        "start": lambda n_arms: np.zeros(2 * n_arms),
        "choose": choose_soundly,
        "update": update_soundly,
        **functions,
    }
    return custom(type("Follow", (), {k: v for k, v in body.items() if v is not None}))()


def choose_soundly(state, parameters, n_arms, t, generator):
    if random_unit(generator) < parameters.explore:
        return int(random_unit(generator) * n_arms)
    return int(np.argmin(state[:n_arms] / np.maximum(state[n_arms:], 1.0)))


def update_soundly(state, parameters, n_arms, t, arm, probability, loss):
    state[arm] += loss
    state[n_arms + arm] += 1.0


def choose_too_far(state, parameters, n_arms, t, generator):
    return n_arms if t > 10 else 0


def choose_and_raise(state, parameters, n_arms, t, generator):
    if t > 10:
        raise ValueError("the sky fell")
    return 0


def spread_evenly(state, parameters, n_arms, t, p):
    p[:] = 1.0 / n_arms


def spread_too_much(state, parameters, n_arms, t, p):
    p[:] = 1.0


@pytest.mark.slow
def test_a_custom_policy_runs_beside_the_others():
    result = run({"mine": follow(), "even": follow(choose=None, probabilities=spread_evenly),
                  "uniform": bw.Uniform()})  # fmt: skip
    final = {name: regret[:, -1].mean() for name, regret in result.regret.items()}
    assert final["mine"] < 0.8 * final["uniform"]
    assert abs(final["even"] / final["uniform"] - 1) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (follow(choose=choose_too_far), "must return an arm from 0 to 3"),
        (follow(choose=choose_and_raise), "raised ValueError: the sky fell"),
        (follow(choose=None, probabilities=spread_too_much), "that sum to 1 within 1e-09, got"),
    ],
)
def test_a_misbehaving_kernel_is_named(policy, words):
    with pytest.raises(KernelError, match=words):
        run({"mine": policy})


def test_custom_classes_are_checked_when_they_are_made():
    with pytest.raises(InvalidParameter, match="either choose or probabilities"):
        follow(probabilities=spread_evenly)
    with pytest.raises(InvalidParameter, match="update"):
        follow(update=None)


# --- interruption -----------------------------------------------------------------------------


@pytest.mark.processes
def test_ctrl_c_returns_what_is_finished(tmp_path):
    """Stop a run after its first report; the result holds finished repetitions only."""
    script = tmp_path / "long.py"
    script.write_text(
        textwrap.dedent(
            """
            import bothworlds as bw

            def report(progress):
                if progress.done >= 48 * 20_000:
                    print("going", flush=True)

            result = bw.simulate(
                [bw.TsallisINF()], bw.environments.Stochastic.gap(8, 0.1), horizon=20_000,
                repetitions=10**6, seed=1, progress=report, threads=2,
            )
            print(result.interrupted, len(result.regret["TsallisINF()"]) >= 16)
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ,
    )  # fmt: skip
    assert process.stdout.readline() == "going\n", process.stderr.read()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANG)
    assert out.splitlines()[-1] == "True True", err


def test_what_follows_the_environment_is_given_by_name():
    world = bw.environments.Stochastic.gap(3, 0.25)
    with pytest.raises(TypeError, match="positional"):
        bw.simulate(bw.UCB1(), world, 100, 4, progress=False)
    with pytest.raises(InvalidParameter, match=r"a whole number >= 1, got 1\.5"):
        bw.simulate(bw.UCB1(), world, horizon=1.5)


# --- smaller promises -------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1e300, 2**63, float(2**63), 2**53 + 1])
def test_more_rounds_than_a_float_counts_are_refused(horizon):
    world = bw.environments.Stochastic.gap(2, 0.25)
    with pytest.raises(InvalidParameter, match=r"^The horizon of simulate must be at most 9007"):
        bw.simulate(bw.UCB1(), world, horizon=horizon)


def test_a_result_states_software_machine_and_day():
    world = bw.environments.Stochastic.gap(2, 0.25)
    made = bw.simulate(bw.Uniform(), world, horizon=4, repetitions=2, progress=False).versions
    assert list(made) == [
        "bothworlds", "python", "numpy", "numba", "llvmlite", "kernels", "cpu", "os", "date"
    ]  # fmt: skip
    assert len(made["kernels"]) == 16
    assert all(made.values())


@pytest.mark.statistical
@pytest.mark.parametrize("delay", [0, 2])
def test_gaps_go_to_their_own_arms_where_arms_are_shuffled(delay):
    """The regret of the oracle does not depend on the order in which others meet the arms."""
    gaps = [0.0, 0.1, 0.4, 0.5]
    policy = bw.TsallisINF(alpha=0.1, gaps=gaps)
    found = []
    for shuffle in (True, False):
        world = bw.environments.Stochastic([0.2 + gap for gap in gaps], shuffle=shuffle)
        if delay:
            world = bw.environments.Delayed(world, delay)
        runs = bw.simulate(
            {"oracle": policy}, world, horizon=2000, repetitions=300, seed=4, progress=False
        )
        found.append(runs.at()["oracle"])
    errors = np.sqrt(sum(each.var(ddof=1) / each.size for each in found))
    assert abs(found[0].mean() - found[1].mean()) < 4.0 * errors
    # A control: with the gaps of other arms the regret is far larger.
    wrong = bw.TsallisINF(alpha=0.1, gaps=gaps[::-1])
    runs = bw.simulate(
        {"oracle": wrong}, world, horizon=2000, repetitions=300, seed=4, progress=False
    )
    assert runs.at()["oracle"].mean() > found[1].mean() + 8.0 * errors
