"""Names of runs: all that has a say in the numbers changes them, and nothing else does."""

import dataclasses
import gc
import importlib
import itertools
import subprocess
import sys
import textwrap
import types
import weakref

import numba
import numpy as np
import pytest

import bothworlds as bw
from bothworlds.campaign import identity as fingerprints
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.identity import fingerprint
from bothworlds.lanes import user_functions
from bothworlds.policies.custom import custom

WORLD = bw.environments.Stochastic.gap(4, 0.25)
CURVE = Curve("RV", bw.TsallisINF(), WORLD, (10, 100), 32, 0)


def other(**changes):
    """The curve with other settings; what it has computed of itself is not carried over."""
    return dataclasses.replace(CURVE, **changes)


def key(policy=CURVE.policy, world=WORLD):
    return other(policy=policy, environment=world).key


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "another"},
        {"seed": 1},
        {"policy": bw.TsallisINF(estimator="iw")},
        {"policy": bw.TsallisINF(alpha=0.7)},
        {"policy": bw.UCB1()},
        {"environment": bw.environments.Stochastic.gap(5, 0.25)},
        {"environment": bw.environments.Stochastic.gap(4, 0.125)},
        {"environment": bw.environments.Stochastic([0.25, 0.5, 0.5, 0.5], shuffle=False)},
        {"environment": bw.environments.Corrupted(WORLD, 10.0)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_whatever_matters_changes_the_key(changes):
    assert other(**changes).key != CURVE.key
    assert other(**changes).stem != CURVE.stem


def test_all_variants_are_told_apart():
    worlds = [
        WORLD,
        bw.environments.Adaptive(4),
        bw.environments.Adaptive(4, "mirage"),
        bw.environments.Corrupted(WORLD, 10.0, "hide"),
        bw.environments.Corrupted(WORLD, 10.0, "swap"),
        bw.environments.Corrupted(WORLD, 11.0, "swap"),
    ]
    policies = [bw.TsallisINF(), bw.UCB1(), bw.UCB1(c=2.5), bw.Broad(100), bw.Broad(101)]
    variants = itertools.product(policies, worlds, ("a", "b"), (0, 1))
    keys = [Curve(name, p, w, (10,), 4, seed).key for p, w, name, seed in variants]
    assert len(set(keys)) == len(keys)


def test_label_and_repetitions_do_not_matter():
    for harmless in (other(label="somewhere"), other(repetitions=64)):
        assert harmless.key == CURVE.key
        assert harmless.stem == CURVE.stem


@pytest.mark.parametrize("checkpoints", [(10, 200), (20, 100), (100,)])
def test_length_and_checkpoints_change_the_stem_alone(checkpoints):
    longer = other(checkpoints=checkpoints)
    assert longer.key == CURVE.key
    assert longer.stem != CURVE.stem


def test_equal_settings_give_equal_keys():
    assert other(policy=bw.TsallisINF()).key == CURVE.key
    assert key(world=bw.environments.Stochastic.gap(4, 0.25)) == CURVE.key


def test_other_sources_give_other_keys(monkeypatch):
    monkeypatch.setattr(fingerprints, "_PACKAGE", b"another version")
    assert key() != CURVE.key


@pytest.mark.processes
def test_keys_are_the_same_in_every_process(tmp_path):
    """Sets print in another order in every process; addresses differ, too."""
    (tmp_path / "mine.py").write_text(MINE)
    lines = "import mine, bothworlds as bw\nfrom bothworlds.campaign.curve import Curve\n"
    lines += "print(Curve('a', mine.Mine(), mine.WORLD, (10,), 4, 0).key)\n"
    run = [sys.executable, "-c", lines]
    answers = [
        subprocess.run(
            run, cwd=tmp_path, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1] != b""


MINE = """
import numpy as np
import bothworlds as bw
from bothworlds.policies import custom

NAMES = {"a", "b", "c", "d"}

def weight(t):
    return 0.5 if str(t) in {"x", "y", "z", "w"} else 0.25

@custom
class Mine:
    bonus: float = 1.0
    def start(n_arms):
        return np.full(len(NAMES), weight(1))
    def choose(state, parameters, n_arms, t, generator):
        return t % n_arms
    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[0] += loss

WORLD = bw.environments.Adversarial(lambda t, arm: 0.25, n_arms=3)
"""


# --- long arrays ------------------------------------------------------------------------------


def test_arrays_that_print_alike_are_told_apart():
    losses = np.random.default_rng(0).random((500, 4))
    changed = losses.copy()
    changed[250, 2] = np.nextafter(changed[250, 2], 1.0)
    one, two = bw.environments.Adversarial(losses), bw.environments.Adversarial(changed)
    assert repr(one) == repr(two)
    assert key(world=one) != key(world=two)
    attacked = bw.environments.Corrupted(one, 5.0), bw.environments.Corrupted(two, 5.0)
    assert key(world=attacked[0]) != key(world=attacked[1])


def test_a_file_counts_by_what_is_in_it(tmp_path):
    path = tmp_path / "losses.npy"
    losses = np.random.default_rng(0).random((500, 4))
    np.save(path, losses)
    world = bw.environments.Adversarial(str(path))
    before = key(world=world)
    assert key(world=bw.environments.Adversarial(str(path))) == before
    losses[7, 1] *= 0.5
    np.save(tmp_path / "new.npy", losses)
    (tmp_path / "new.npy").replace(path)
    assert key(world=bw.environments.Adversarial(str(path))) != before
    # Workers may have the file elsewhere; it is not read there to compare.
    again = bw.environments.Adversarial(str(path))
    assert fingerprint(CURVE.policy, world, False) == fingerprint(CURVE.policy, again, False)


@pytest.mark.extra
def test_a_changed_file_is_not_taken_for_the_old_one(tmp_path):
    path = tmp_path / "losses.npy"
    np.save(path, np.full((100, 3), 0.25))
    options = {"horizon": 100, "repetitions": 4, "progress": False}

    def total():
        world = bw.environments.Adversarial(str(path))
        result = bw.simulate({"U": bw.Uniform()}, world, store=tmp_path / "store", **options)
        return result.regret["U"][:, -1] + world.best_cumulative([100])

    assert (total() == 25.0).all()
    np.save(tmp_path / "new.npy", np.full((100, 3), 0.5))
    (tmp_path / "new.npy").replace(path)
    assert (total() == 50.0).all()


# --- a user's own code ------------------------------------------------------------------------


def module(source, name="mine", **others):
    """A module made of source, which may use the others."""
    made = types.ModuleType(name)
    vars(made).update(np=np, numba=numba, **others)
    exec(textwrap.dedent(source), vars(made))
    return made


POLICY = """
    C = 0.5
    TABLE = np.array([1.0, 2.0])
    def helper(t, scale=2.0, *, shift=0.0):
        def inner(x):
            return x * 3.0
        return inner(t) * scale + shift
    class P:
        explore: float = 0.125
        def start(n_arms):
            return np.ones(3)
        def choose(state, parameters, n_arms, t, generator):
            return 0 if t > 0.0 else 1
        def update(state, parameters, n_arms, t, arm, probability, loss):
            state[0] += C * loss + TABLE[0] + helper(t)
"""


def policy_key(source):
    return key(policy=custom(module(source).P)())


@pytest.fixture(scope="module")
def unchanged():
    twice = {policy_key(POLICY) for _ in range(2)}
    assert len(twice) == 1
    return twice.pop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("C = 0.5", "C = 0.75"),
        ("[1.0, 2.0]", "[1.0, 2.5]"),
        ("scale=2.0", "scale=4.0"),
        ("shift=0.0", "shift=1.0"),
        ("x * 3.0", "x * 5.0"),
        ("explore: float = 0.125", "explore: float = 0.25"),
        ("np.ones(3)", "np.ones(4)"),
        ("np.ones(3)", "np.full(3, 2.0)"),
        ("> 0.0 else 1", "> 0.0 else 2"),
        ("> 0.0", "< 0.0"),
        ("state[0] +=", "state[1] +="),
    ],
)
def test_whatever_changes_in_a_custom_policy_changes_the_key(old, new, unchanged):
    assert old in POLICY
    assert policy_key(POLICY.replace(old, new)) != unchanged


ENVIRONMENT = """
    def level(t):
        return 0.25
    class E:
        period: float = 10.0
        def start(n_arms, rng):
            return np.zeros(2)
        def mean(state, parameters, n_arms, t, arm):
            return level(t)
        def loss(state, parameters, n_arms, t, arm, u):
            return 1.0 if u < level(t) else 0.0
        def update(state, parameters, n_arms, t, arm, loss):
            state[0] += 1.0
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return 0.25", "return 0.5"),
        ("period: float = 10.0", "period: float = 20.0"),
        ("np.zeros(2)", "np.zeros(3)"),
        ("return np.zeros(2)", "return 0.0 * rng.random(2)"),
        ("state[0] += 1.0", "state[0] += 2.0"),
        ("u < level(t)", "u > level(t)"),
    ],
)
def test_whatever_changes_in_a_custom_environment_changes_the_key(old, new):
    def keys(source):
        world = bw.environments.custom(module(source).E)(3)
        return key(world=world), key(world=bw.environments.Corrupted(world, 2.0, targets=[0]))

    assert old in ENVIRONMENT
    assert keys(ENVIRONMENT) == keys(ENVIRONMENT)
    for changed, plain in zip(keys(ENVIRONMENT.replace(old, new)), keys(ENVIRONMENT), strict=True):
        assert changed != plain


LOSSES = "def losses(t, arm):\n    return tools.level(t) * tools.deep.SHARE\n"


def adversary(level="0.25", share="0.5", body=LOSSES, mine="LIMIT = 1\n"):
    deep = module(f"SHARE = {share}", "tools.deep")
    tools = module(f"{mine}def level(t):\n    return {level}\n", "tools", deep=deep)
    # Modules refer to one another in circles.
    deep.tools = tools
    return bw.environments.Adversarial(module(body, tools=tools).losses, n_arms=3)


def test_the_body_of_an_adversary_counts_with_the_modules_it_uses():
    before = key(world=adversary())
    assert key(world=adversary()) == before
    assert key(world=adversary(body=LOSSES.replace("*", "+"))) != before
    assert key(world=adversary(level="0.125")) != before
    assert key(world=adversary(share="0.75")) != before
    assert key(world=adversary(mine="LIMIT = 2\n")) == before


def test_what_a_function_encloses_counts():
    def made(level):
        def losses(t, arm):
            return level

        return bw.environments.Adversarial(losses, n_arms=3)

    assert key(world=made(0.25)) == key(world=made(0.25))
    assert key(world=made(0.25)) != key(world=made(0.5))


def test_functions_that_call_one_another_have_an_end():
    circle = """
        def odd(n):
            return False if n == 0 else even(n - 1)
        def even(n):
            return True if n == 0 else odd(n - 1)
        def losses(t, arm):
            return 0.5 if even(t) else 0.25
    """
    world = bw.environments.Adversarial(module(circle).losses, n_arms=3)
    assert len(key(world=world)) == 20


def test_a_class_of_the_users_own_counts_by_its_methods():
    source = """
        class Own(Base):
            def level(self):
                return 0.25
            @property
            def half(self):
                return 0.5
    """
    uniform = type(bw.Uniform())
    before = key(policy=module(source, Base=uniform).Own())
    assert key(policy=module(source, Base=uniform).Own()) == before
    for old, new in (("0.25", "0.75"), ("0.5\n", "0.6\n")):
        assert key(policy=module(source.replace(old, new), Base=uniform).Own()) != before


@pytest.mark.slow
def test_globals_count_as_they_were_when_they_were_compiled():
    """Numba keeps global names as constants: a later value is not what is run."""
    mine = module(POLICY)
    made = custom(mine.P)
    before = key(policy=made())
    mine.C = 0.75
    assert key(policy=made()) == before


def test_fingerprints_keep_no_function_alive():
    mine = module("def losses(t, arm):\n    return 0.5\n")
    user_functions.digest(mine.losses)
    function = weakref.ref(mine.losses)
    del mine
    gc.collect()
    assert function() is None


@pytest.mark.slow
@pytest.mark.extra
def test_a_helper_in_a_file_that_is_edited_gives_other_results(tmp_path, monkeypatch):
    """The whole way: the store is asked for the edited code and computes again."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_losses.py").write_text(
        "import own_helper\ndef losses(t, arm):\n    return own_helper.level(arm)\n"
    )
    options = {"horizon": 50, "repetitions": 3, "progress": False, "store": tmp_path / "store"}

    def regret(level):
        (tmp_path / "own_helper.py").write_text(
            f"import numba\n@numba.njit\ndef level(arm):\n    return {level} * arm\n"
        )
        for name in ("own_losses", "own_helper"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        losses = importlib.import_module("own_losses").losses
        world = bw.environments.Adversarial(losses, n_arms=2)
        return bw.simulate({"U": bw.Uniform()}, world, **options).regret["U"][:, -1]

    assert np.array_equal(2.0 * regret(0.25), regret(0.5))
    assert regret(0.25).min() > 0.0
