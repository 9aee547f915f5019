"""Functions and classes a user writes: what is refused, in one sentence, and never a crash."""

import pathlib
import subprocess
import sys

import numba
import numpy as np
import pytest

import bothworlds as bw
from bothworlds.errors import InvalidParameter, KernelError
from helpers.waiting import HANG


class Policy:
    def start(self, n_arms):
        return [0.0]

    def choose(self, state, parameters, n_arms, t, generator):
        return 0

    def update(self, state, parameters, n_arms, t, arm, probability, loss):
        pass


class World:
    def loss(self, state, parameters, n_arms, t, arm, u):
        return 0.0

    def mean(self, state, parameters, n_arms, t, arm):
        return 0.0


@pytest.mark.parametrize(
    ("decorator", "cls", "name"),
    [(bw.policies.custom, Policy, "start"), (bw.environments.custom, World, "loss")],
)
def test_methods_with_self_are_refused(decorator, cls, name):
    with pytest.raises(InvalidParameter) as caught:
        decorator(cls)
    said = str(caught.value)
    assert said.startswith(f"The {name} of {cls.__name__} must be a function without self, got ")


# --- functions that leave their arrays ------------------------------------------------------------


def policy_of(**given):
    def start(n_arms):
        return np.zeros(n_arms)

    def choose(state, parameters, n_arms, t, generator):
        return t % n_arms

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += loss

    body = {"start": start, "choose": choose, "update": update, **given}
    body = {name: value for name, value in body.items() if value is not None}
    return bw.policies.custom(type("Stray", (), body))()


def beyond(state, parameters, n_arms, t, arm, probability, loss):
    state[n_arms + arm] += 1.0


def far_beyond(state, parameters, n_arms, t, arm, probability, loss):
    state[10**9] = loss


@numba.njit
def helper(state, place):
    return state[place]


def far_beyond_by_a_helper(state, parameters, n_arms, t, generator):
    return int(helper(state, 10**9)) * 0


def nearly_right(state, parameters, n_arms, t, generator):
    return 0, 1.0 + 1e-12


def with_probability(value):
    def choose(state, parameters, n_arms, t, generator):
        return 0, value

    return choose


def with_distribution(value):
    def probabilities(state, parameters, n_arms, t, p):
        p[:] = 0.0
        p[0] = value
        p[1] = 1.0 - value

    return probabilities


def unfilled(state, parameters, n_arms, t, p):
    p[0] = 1.0


def raising(state, parameters, n_arms, t, arm, probability, loss):
    if loss > -1.0:
        raise ValueError("the sky fell")


OUTSIDE = "must stay inside its arrays, got index is out of bounds"
DISTRIBUTION = "must be numbers >= 0 that sum to 1 within 1e-09"
STRAYS = {
    "beyond": ({"update": beyond}, f"The update of Stray {OUTSIDE}"),
    "far": ({"update": far_beyond}, f"The update of Stray {OUTSIDE}"),
    "helper": ({"choose": far_beyond_by_a_helper}, f"The choose of Stray {OUTSIDE}"),
    "raising": ({"update": raising}, "raised ValueError: the sky fell"),
    "nan": ({"choose": with_probability(float("nan"))}, "The probability of Stray.choose must be"),
    "seven": ({"choose": with_probability(7.0)}, r"must be a number in (0, 1] with the arm, got 7"),
    "minus": ({"choose": with_probability(-1.0)}, "with the arm, got -1.0"),
    "minus_p": (
        {"choose": None, "probabilities": with_distribution(-1.0)},
        f"The probabilities of Stray {DISTRIBUTION}, got array([-1.,",
    ),
    "nan_p": (
        {"choose": None, "probabilities": with_distribution(float("nan"))},
        f"The probabilities of Stray {DISTRIBUTION}, got array([nan",
    ),
    "unfilled": (
        {"choose": None, "probabilities": unfilled},
        f"The probabilities of Stray {DISTRIBUTION}, got array([ 1., nan",
    ),
}


def in_bandit(name):
    """Ask and tell once; what fails must have changed nothing."""
    bandit = bw.Bandit(policy_of(**STRAYS[name][0]), arms=3, seed=1)
    before = bandit.as_dict()
    try:
        decision = bandit.ask()
        before = bandit.as_dict()
        bandit.tell(decision, loss=1.0)
    finally:
        assert bandit.as_dict() == before


def in_bandit_late(name):
    bandit = bw.Bandit(policy_of(**STRAYS[name][0]), arms=3, seed=1)
    decisions = [bandit.ask() for _ in range(3)]
    before = bandit.as_dict()
    try:
        bandit.tell(decisions[0], loss=1.0)
    except KernelError:
        assert bandit.as_dict() == before
    try:
        bandit.tell_many(decisions, [1.0] * 3)
    finally:
        assert bandit.as_dict() == before


def in_simulation(name):
    bw.simulate(
        {"Stray": policy_of(**STRAYS[name][0])},
        bw.environments.Stochastic([0.2, 0.5, 0.8]),
        horizon=100,
        repetitions=2,
        seed=1,
        progress=False,
    )


def in_duels(name):
    bw.simulate(
        {"Stray": bw.Sparring(policy_of(**STRAYS[name][0]))},
        bw.environments.Utilities([0.2, 0.5, 0.8]),
        horizon=100,
        repetitions=2,
        seed=1,
        progress=False,
    )


def in_checks(name):
    bw.checks.check_policy(policy_of(**STRAYS[name][0]), n_arms=3)


def outcomes(call, *names):
    """Run a function of this file for every name in one process, which it may bring down."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_usercode as here\n"
        "for name in sys.argv[3:]:\n"
        "    try: getattr(here, sys.argv[2])(name)\n"
        "    except here.bw.errors.BothworldsError as error:\n"
        "        assert error.__cause__ is None, error.__cause__\n"
        "        print(name, type(error).__name__, error)\n"
    )
    folder = str(pathlib.Path(__file__).parent)
    command = [sys.executable, "-c", code, folder, call, *names]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == list(names)
    return [line.partition(" ")[2] for line in lines]


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("where", ["in_bandit", "in_simulation"])
def test_stray_functions_are_named(where):
    for name, said in zip(STRAYS, outcomes(where, *STRAYS), strict=True):
        assert said.startswith("KernelError ")
        assert STRAYS[name][1] in said


@pytest.mark.processes
def test_stray_functions_are_named_when_feedback_is_late():
    for name, said in zip(["far", "raising"], outcomes("in_bandit_late", "far", "raising"),
                          strict=True):  # fmt: skip
        assert STRAYS[name][1] in said


@pytest.mark.processes
@pytest.mark.slow
def test_a_stray_function_is_named_before_duels_and_by_the_checks():
    assert STRAYS["far"][1] in outcomes("in_duels", "far")[0]
    said = outcomes("in_checks", "far")[0]
    assert said.startswith("CheckFailed ")
    assert f"functions: {STRAYS['far'][1]}" in said


@pytest.mark.slow
def test_a_floor_does_not_hide_a_stray_function():
    policy = bw.Floor(policy_of(choose=None, probabilities=with_distribution(-1.0)), 0.5)
    bandit = bw.Bandit(policy, arms=3, seed=1)
    with pytest.raises(KernelError, match="The choice of Floor must return an arm from 0 to 2"):
        bandit.ask()
    assert bandit.round == 0
    with pytest.raises(KernelError, match=f"The probabilities of floor {DISTRIBUTION}"):
        bw.simulate(
            {"floor": policy},
            bw.environments.Stochastic([0.2, 0.5, 0.8]),
            horizon=9,
            repetitions=1,
            progress=False,
        )


@pytest.mark.slow
def test_probabilities_may_be_off_by_rounding():
    bandit = bw.Bandit(policy_of(choose=nearly_right), arms=2, seed=1)
    bandit.tell(bandit.ask(), loss=0.5)


@pytest.mark.slow
def test_a_rehearsal_leaves_no_trace():
    world = bw.environments.Stochastic([0.2, 0.5, 0.8])
    settings = {"horizon": 300, "repetitions": 3, "seed": 1, "progress": False}
    first = bw.simulate({"mine": policy_of()}, world, **settings)
    again = bw.simulate({"mine": policy_of()}, world, **settings)
    assert np.array_equal(first.regret["mine"], again.regret["mine"])
    bandit, rest = bw.Bandit(policy_of(), arms=3, seed=1), []
    for _ in range(6):
        decision = bandit.ask()
        rest.append(decision.index)
        bandit.tell(decision, loss=0.5)
    assert rest == [1, 2, 0, 1, 2, 0]


# --- environments ---------------------------------------------------------------------------------


def world_of(**given):
    def start(n_arms, rng):
        return np.zeros(n_arms)

    def mean(state, parameters, n_arms, t, arm):
        return 0.5

    def loss(state, parameters, n_arms, t, arm, u):
        return u

    def update(state, parameters, n_arms, t, arm, loss):
        state[arm] += 1.0

    body = {"start": start, "mean": mean, "loss": loss, "update": update, **given}
    return bw.environments.custom(type("Wild", (), body))(3)


def wild_mean(state, parameters, n_arms, t, arm):
    return state[10**9 + arm]


def wild_update(state, parameters, n_arms, t, arm, loss):
    state[10**9] = loss


def wild_loss(state, parameters, n_arms, t, arm, u):
    return 1.5


def longer(n_arms, rng):
    return np.zeros(rng.integers(1, 1000))


TABLE = np.linspace(0.0, 1.0, 200).reshape(100, 2)


def table(t, arm):
    return TABLE[t - 1, arm]


def far_level(t):
    return TABLE[10**9 + t, 0]


WILD = {
    "mean": (lambda: world_of(mean=wild_mean), "The mean of Wild(n_arms=3) must stay inside"),
    "update": (lambda: world_of(update=wild_update), "The update of Wild(n_arms=3) must stay ins"),
    "loss": (lambda: world_of(loss=wild_loss), "The loss of Wild(n_arms=3) must be a number in [0"),
    "table": (lambda: bw.environments.Adversarial(table, 2), "The losses of Adversarial must stay"),
    "level": (
        lambda: bw.environments.Constrained([0.0, 0.1], far_level),
        "The level of Constrained must stay inside its arrays",
    ),
    "utility": (lambda: bw.environments.Utilities(table, 2), "The u of Utilities must stay inside"),
    "corrupted": (
        lambda: bw.environments.Corrupted(world_of(mean=wild_mean), 2.0, targets=[0]),
        "The mean of Wild(n_arms=3) must stay inside",
    ),
}


def wild_simulation(name):
    world = WILD[name][0]()
    player = bw.Sparring() if world.kind == "duel" else bw.Uniform()
    bw.simulate({"p": player}, world, horizon=500, repetitions=2, seed=1, progress=False)


def wild_checks(name):
    bw.checks.check_environment(WILD[name][0]())


@pytest.mark.processes
@pytest.mark.slow
def test_wild_environments_are_named_before_a_simulation():
    for name, said in zip(WILD, outcomes("wild_simulation", *WILD), strict=True):
        assert said.startswith(f"KernelError {WILD[name][1]}")


@pytest.mark.processes
@pytest.mark.slow
def test_a_wild_environment_is_named_by_the_checks():
    assert f"functions: {WILD['update'][1]}" in outcomes("wild_checks", "update")[0]


@pytest.mark.slow
def test_a_state_of_changing_length_is_refused():
    expected = r"returning \d+ numbers regardless of the generator"
    with pytest.raises(InvalidParameter, match=expected):
        bw.simulate(
            {"p": bw.Uniform()}, world_of(start=longer), horizon=9, repetitions=9, progress=False
        )


# --- what Numba cannot compile --------------------------------------------------------------------


def adds_text(state, parameters, n_arms, t, generator):
    return "arm" + t


def opens_a_file(state, parameters, n_arms, t, p):
    with open("p.txt") as stream:
        p[0] = len(stream.read())


def knows_no_name(state, parameters, n_arms, t, arm, probability, loss):
    state[0] = unheard_of(arm)  # noqa: F821


def no_attribute(t, arm):
    return np.random.default_rng(t).random()


HERE = r"\(line \d+ of .*test_usercode\.py\)\.$"


@pytest.mark.parametrize(
    ("given", "name", "reason"),
    [
        ({"choose": adds_text}, "choose", "No implementation of function"),
        ({"choose": None, "probabilities": opens_a_file}, "probabilities", "The 'with"),
        ({"update": knows_no_name}, "update", "NameError: name 'unheard_of' is not defined"),
    ],
)
def test_what_numba_cannot_compile_is_said_in_a_sentence(given, name, reason):
    said = f"^The {name} of Stray must be a function that Numba can compile, got {reason}.*{HERE}"
    with pytest.raises(KernelError, match=said) as caught:
        bw.Bandit(policy_of(**given), arms=3)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__
    with pytest.raises(KernelError, match=said):
        bw.simulate(
            {"p": policy_of(**given)},
            bw.environments.Stochastic([0.1, 0.2, 0.3]),
            horizon=9,
            repetitions=1,
            progress=False,
        )


def test_a_function_of_losses_that_numba_cannot_compile():
    world = bw.environments.Adversarial(no_attribute, 2)
    line = no_attribute.__code__.co_firstlineno + 1
    words = rf"^The losses of Adversarial .*'default_rng'.* \(line {line} of .*test_usercode"
    with pytest.raises(KernelError, match=words):
        bw.simulate({"p": bw.Uniform()}, world, horizon=9, repetitions=1, progress=False)
