"""Duels in the engine: the same bits however they run, and the regret of section 6."""

import dataclasses
import pickle
from concurrent.futures import ProcessPoolExecutor

import numba
import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine import loop as engine
from bothworlds.environments.duels import left_loses
from bothworlds.errors import InvalidParameter, KernelError
from bothworlds.lanes import native
from bothworlds.lanes.kernels import ARMS, GENERATOR, HEAD
from bothworlds.lanes.random import uniform
from bothworlds.lanes.vectors import pointer
from bothworlds.omd import half
from bothworlds.omd.learning_rates import theorem3
from bothworlds.policies.tsallis_inf import general
from bothworlds.seeding import numpy_generator, stream_words

U = np.array([0.3, 0.9, 0.25, 0.5])
WORLD = bw.environments.Utilities(U)
TABLE = np.random.default_rng(5).random((600, 3))
MATRIX = [[0.5, 0.6, 0.7], [0.4, 0.5, 0.9], [0.3, 0.1, 0.5]]
RV, IW, POWER = bw.TsallisINF(), bw.TsallisINF(estimator="iw"), bw.TsallisINF(alpha=0.7)
ALL = {
    "shared rv": bw.Sparring(RV),
    "shared iw": bw.Sparring(IW),
    "shared 0.7": bw.Sparring(POWER),
    "two rv": bw.Sparring(RV, shared=False),
    "two iw": bw.Sparring(IW, shared=False),
    "two 0.7": bw.Sparring(POWER, shared=False),
    "ucb1": bw.Sparring(bw.UCB1()),
    "thompson": bw.Sparring(bw.ThompsonSampling()),
    "exp3++": bw.Sparring(bw.Exp3PlusPlus()),
}


def run(policies, world=WORLD, horizon=500, repetitions=20, **options):
    options = {"seed": 5, "progress": False, **options}
    return bw.simulate(policies, world, horizon=horizon, repetitions=repetitions, **options)


def same(first, second):
    for name in set(first.names) & set(second.names):
        n = min(len(first.regret[name]), len(second.regret[name]))
        assert np.array_equal(first.regret[name][:n], second.regret[name][:n])
        assert np.array_equal(first.plays[name][:n], second.plays[name][:n])


@pytest.fixture(scope="module")
def reference():
    return run(ALL, threads=1)


# --- the same bits ---------------------------------------------------------------------------


def test_bits_do_not_depend_on_threads_company_or_repetitions(reference):
    same(reference, run(ALL, threads=2))
    same(reference, run({"two rv": ALL["two rv"], "shared rv": ALL["shared rv"]}))
    same(reference, run(ALL, repetitions=3))


class Scalar(bw.Sparring):
    """The same pair, one repetition at a time."""

    def program(self, n_arms, **options):
        made = super().program(n_arms, **options)
        left, right = (dataclasses.replace(side, wide=False) for side in made.by_side)
        return made._replace(kernels=left, right=right)


def scalar_world():
    world = bw.environments.Utilities(U)
    object.__setattr__(world, "wide", False)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shared rv", "shared iw", "two rv", "two iw", "ucb1", "thompson"])
def test_lanes_are_scalars_bit_for_bit(name, reference):
    narrow = Scalar(ALL[name].policy, shared=ALL[name].shared)
    same(reference, run({name: narrow}))
    same(reference, run({name: ALL[name]}, scalar_world()))
    same(reference, run({name: narrow}, scalar_world()))


@pytest.mark.processes
def test_other_processes_give_the_same(reference):
    assert pickle.loads(pickle.dumps(ALL["shared rv"])) == ALL["shared rv"]
    with ProcessPoolExecutor(1) as executor:
        same(reference, run({"shared rv": ALL["shared rv"]}, executor=executor))


def test_nothing_recompiles():
    run({"shared rv": ALL["shared rv"], "two rv": ALL["two rv"]})
    choose = ALL["two rv"].program(len(U)).kernels.choose
    loop = engine.of_width(engine.run_tile, native.lanes(), "duel")
    before = len(choose.signatures), len(loop.signatures)
    other = bw.environments.Preferences(MATRIX)
    run({"a": ALL["shared rv"], "b": ALL["two rv"], "c": ALL["ucb1"]}, other, 321, 5)
    assert (len(choose.signatures), len(loop.signatures)) == before
    assert before[1] == 1


# --- the same mathematics as one dueling bandit ----------------------------------------------


@numba.njit
def prefer_once(prefer, K, t, C, E, G, v, left, right):
    return prefer(K, t, pointer(C), pointer(E), pointer(G), v, left, right), E[0]


@numba.njit
def uniform_once(G):
    return uniform(pointer(G), 0.0)


@pytest.mark.parametrize("policy", [RV, IW, bw.UCB1()], ids=["rv", "iw", "ucb1"])
def test_the_engine_plays_as_two_bandits_do(policy):
    name, horizon = "pair", 300
    sparring = bw.Sparring(policy, shared=False)
    result = run({name: sparring}, horizon=horizon, repetitions=1)
    world = repr(WORLD)
    bandit = bw.DuelingBandit(sparring, arms=4, seed=0)
    for side in ("left", "right"):
        F = getattr(bandit, f"_{side}").F
        F[GENERATOR:HEAD] = stream_words(5, world, name, side, 0).view(float)
        assert F[ARMS] == 4
    C, E = WORLD.parameters(), WORLD.start(numpy_generator(5, world, 0))
    G = stream_words(5, world, 0)
    plays, total, sides = np.zeros(4, int), 0.0, 0.0
    for t in range(1, horizon + 1):
        pair = bandit.ask()
        v = uniform_once(G)
        lost, regret = prefer_once(WORLD.kernel(), 4, t, C, E, G, v, pair.left, pair.right)
        bandit.tell(pair, winner="right" if lost else "left")
        i, j = (int(E[1 + arm]) for arm in (pair.left, pair.right))
        plays[i] += 1
        plays[j] += 1
        total += regret
        # Each side's own regret: what its arm loses beyond the best arm, against that opponent.
        sides += left_loses(U[i], U[j]) - left_loses(U.max(), U[j])
        sides += left_loses(U[j], U[i]) - left_loses(U.max(), U[i])
    assert np.array_equal(plays, result.plays[name][0])
    assert result.regret[name][0, -1] == pytest.approx(total, rel=1e-13)
    assert 2.0 * sides == pytest.approx(total, rel=1e-12)


@numba.njit
def choose_both(left, right, K, t, C, S, G, u, v):
    c, s, g = pointer(C), pointer(S), pointer(G)
    i = left(K, t, c, s, g, u)
    p = S[0]
    j = right(K, t, c, s, g, v)
    return i, p, j, S[0]


@numba.njit
def update_both(left, right, K, t, C, S, G, i, p, j, q, lost):
    c, s, g = pointer(C), pointer(S), pointer(G)
    left(K, t, c, s, g, i, p, lost)
    right(K, t, c, s, g, j, q, 1.0 - lost)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [RV, IW, POWER], ids=["rv", "iw", "0.7"])
def test_one_state_learns_half_of_each_sides_estimate(policy):
    K, rng = 5, np.random.default_rng(2)
    sparring = bw.Sparring(policy)
    program = sparring.program(K)
    choose, update = zip(*((side.choose, side.update) for side in program.by_side), strict=True)
    C, S, G = program.parameters(), program.start(), np.zeros(4, np.int64)
    first = half.ESTIMATES if policy.alpha == 0.5 else general.ESTIMATES
    u = rng.permutation([0.9, 0.6, 0.5, 0.3, 0.3])
    model = np.zeros(K)
    for t in range(1, 3001):
        eta = 4.0 / np.sqrt(t) if policy is RV else 2.0 / np.sqrt(t)
        if policy is POWER:
            eta = theorem3(t, K, 0.7)
        draws = rng.random(2)
        i, p, j, q = choose_both(*choose, K, t, C, S, G, draws[0], draws[1])
        L = S[first : first + K].copy()
        w = bw.omd.weights(L, eta, policy.alpha) if t > 1 else np.full(K, 1 / K)
        assert abs(p * w[i] - 1) < 1e-12
        assert abs(q * w[j] - 1) < 1e-12
        edges = np.append(0.0, np.cumsum(w))
        for arm, draw in zip((i, j), draws, strict=True):
            assert edges[arm] - 1e-12 <= draw <= edges[arm + 1] + 1e-12
        lost = float(rng.random() < (1 - u[i] + u[j]) / 2)
        update_both(*update, K, t, C, S, G, i, p, j, q, lost)
        base = 0.5 * (w >= eta**2) * (policy.estimator == "rv")
        change = base.copy()
        change[i] += 0.5 * (lost - base[i]) / w[i]
        change[j] += 0.5 * (1.0 - lost - base[j]) / w[j]
        assert np.allclose(S[first : first + K] - L, change, rtol=1e-9, atol=1e-11)
        model += change
    assert np.argmin(model) == np.argmax(u)


def played_alone(sparring, runs, horizon):
    """Regret of dueling bandits driven from Python, one by one."""
    rng = np.random.default_rng(9)
    totals = []
    for seed in range(runs):
        bandit = bw.DuelingBandit(sparring, arms=4, seed=seed)
        total = 0.0
        for _ in range(horizon):
            pair = bandit.ask()
            wins = rng.random() < (1 + U[pair.left] - U[pair.right]) / 2
            bandit.tell(pair, winner="left" if wins else "right")
            total += 2 * U.max() - U[pair.left] - U[pair.right]
        totals.append(total)
    return np.array(totals)


@pytest.mark.slow
def test_the_engine_plays_as_one_bandit_on_both_sides_does():
    name, runs, horizon = "shared rv", 300, 60
    alone = played_alone(ALL[name], runs, horizon)
    many = run({name: ALL[name]}, horizon=horizon, repetitions=3200).regret[name][:, -1]
    error = np.sqrt(alone.var() / runs + many.var() / 3200)
    assert abs(alone.mean() - many.mean()) < 4 * error
    # The control: the form with two states is far off on this scale.
    other = run({"x": ALL["two rv"]}, horizon=horizon, repetitions=3200).regret["x"][:, -1]
    assert abs(alone.mean() - other.mean()) > 4 * error


# --- regret ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_regret_is_that_of_the_arms_played(name, reference):
    gaps = U.max() - U
    assert np.allclose(reference.regret[name][:, -1], reference.plays[name] @ gaps, rtol=1e-12)
    assert np.all(reference.plays[name].sum(axis=1) == 2 * 500)


def test_regret_over_time_is_twice_both_sides_own():
    rng = np.random.default_rng(0)
    world = bw.environments.Utilities(TABLE)
    T, C = len(TABLE), world.parameters()
    E, G = world.start(rng), np.zeros(4, np.int64)
    best = TABLE.sum(axis=0).argmax()
    cost, sides = 0.0, 0.0
    for t in range(1, T + 1):
        i, j = rng.integers(3, size=2)
        u = TABLE[t - 1]
        cost += prefer_once(world.kernel(), 3, t, C, E, G, rng.random(), i, j)[1]
        sides += left_loses(u[i], u[j]) - left_loses(u[best], u[j])
        sides += left_loses(u[j], u[i]) - left_loses(u[best], u[i])
    regret = cost - world.best_cumulative(np.array([T]))[0]
    assert regret == pytest.approx(2.0 * sides, rel=1e-12)


def test_a_matrix_of_utilities_has_half_the_regret_of_the_utilities():
    P = (1.0 + U[:, None] - U[None, :]) / 2.0
    matrix = run({"uniform": bw.Sparring(bw.Uniform())}, bw.environments.Preferences(P))
    gaps = (U.max() - U) / 2.0
    assert np.allclose(matrix.regret["uniform"][:, -1], matrix.plays["uniform"] @ gaps, rtol=1e-12)


@pytest.mark.slow
def test_functions_and_tables_are_the_same_utilities():
    @numba.njit
    def rising(t, arm):
        return (arm + 1.0) / (t + 3.0)

    t = np.arange(1, 301)[:, None]
    table = bw.environments.Utilities((np.arange(3) + 1.0) / (t + 3.0))
    named = bw.environments.Utilities(rising, n_arms=3)
    means = [
        run({"rv": bw.Sparring()}, world, 300, 320).regret["rv"][:, -1] for world in (table, named)
    ]
    error = np.sqrt(sum(m.var() for m in means) / 320)
    assert abs(means[0].mean() - means[1].mean()) < 4 * error


# --- files, plots and refusals ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.extra
def test_results_are_saved_plotted_and_compared_like_any_other(reference, tmp_path):
    reference.save(tmp_path / "duels.parquet")
    again = bw.Result.load(tmp_path / "duels.parquet")
    same(reference, again)
    assert again.policies["two rv"] == "Sparring(shared=False)"
    assert "shared rv" in str(reference.summary())
    assert reference.compare("shared rv", "two rv").runs == 20
    reference.plot(tmp_path / "duels.png")
    assert (tmp_path / "duels.png").stat().st_size > 10_000


def test_mixing_kinds_is_refused_in_one_sentence():
    stochastic = bw.environments.Stochastic.gap(4, 0.25)
    for policies, world, start in (
        (RV, WORLD, "The policies of simulate must be dueling policies such as Sparring() in Util"),
        ([bw.Sparring(), bw.UCB1()], WORLD, "The policies of simulate must be dueling policies"),
        (bw.Sparring(), stochastic, "The policies of simulate must be policies that play one arm"),
        ({"a": RV, "b": bw.Sparring()}, stochastic, "The policies of simulate must be policies"),
    ):
        with pytest.raises(InvalidParameter) as caught:
            run(policies, world)
        assert str(caught.value).startswith(start)
        assert "\n" not in str(caught.value)


@bw.policies.custom
class Stray:
    """Leaves the arms after a while."""

    def start(n_arms):
        return np.zeros(1)

    def choose(state, parameters, n_arms, t, generator):
        return 0 if t < 50 else n_arms

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[0] += loss


def beyond(t, arm):
    return arm + t / 10.0


@pytest.mark.slow
def test_kernels_that_misbehave_are_named():
    assert run({"stray": bw.Sparring(Stray())}, horizon=49).plays["stray"][:, 0].max() == 98
    with pytest.raises(KernelError, match=r"The choose of stray must return an arm from 0 to 3"):
        run({"stray": bw.Sparring(Stray())})
    world = bw.environments.Utilities(beyond, n_arms=2)
    for sparring in (bw.Sparring(), bw.Sparring(POWER)):
        with pytest.raises(KernelError, match="must be a number in"):
            run({"rv": sparring}, world)


# --- one state against two -------------------------------------------------------------------


@numba.njit
def fading(t, arm):
    gap = min(1.0, 0.5 * np.sqrt(8.0 / t))
    return 0.5 + 0.5 * gap if arm == 3 else 0.5 - 0.5 * gap


@pytest.mark.statistical
def test_one_state_beats_two_where_they_were_compared():
    worlds = [
        bw.environments.Utilities([0.9, 0.4, 0.4, 0.4]),
        bw.environments.Preferences(MATRIX),
        bw.environments.Utilities(fading, n_arms=8),
    ]
    for world in worlds:
        result = run({"one": ALL["shared rv"], "two": ALL["two rv"]}, world, 20_000, 320)
        assert result.compare("one", "two", resamples=500).high < 0
