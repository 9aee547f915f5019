"""Adversaries: losses fixed before the game, with a gap, and answering the agent."""

import pickle

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.environments import Adaptive, Adversarial, AdversarialWithGap
from bothworlds.environments.adversarial import cumulative_at
from bothworlds.errors import InvalidParameter
from helpers.worlds import LANES, call, index_of, labels, random_play

TABLE = np.random.default_rng(3).random((300, 5))


def stripes(t, arm):
    return ((t * 7 + arm * 3) % 11) / 11.0


def out_of_range(t, arm):
    return 1.5 if t == 3 else 0.5


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "losses.npy"
    np.save(path, TABLE)
    return path


def test_losses_come_from_the_table():
    world = Adversarial(TABLE)
    assert (world.n_arms, world.horizon_limit, world.regret) == (5, 300, "oblivious")
    arms, v = random_play(world, 300)
    seen = call(world, arms, v)
    assert np.array_equal(seen.losses, np.take_along_axis(TABLE, arms, axis=1))
    assert np.array_equal(seen.regrets, seen.losses)


def test_a_file_is_mapped_and_gives_the_same(saved):
    world = Adversarial(saved)
    parameters = world.parameters()
    assert isinstance(parameters.base, np.memmap) or isinstance(parameters, np.memmap)
    assert parameters.flags.c_contiguous
    assert parameters.shape == (1500,)
    arms, v = random_play(world, 300)
    assert np.array_equal(call(world, arms, v).losses, call(Adversarial(TABLE), arms, v).losses)
    assert np.array_equal(
        world.best_cumulative([7, 300]), Adversarial(TABLE).best_cumulative([7, 300])
    )


def test_a_file_travels_as_its_path(saved):
    world = Adversarial(str(saved))
    packed = pickle.dumps(world)
    assert len(packed) < 1000
    assert np.array_equal(pickle.loads(packed).parameters(), TABLE.ravel())


@pytest.mark.slow
def test_a_function_gives_its_values():
    world = Adversarial(stripes, n_arms=4)
    arms, v = random_play(world, 100)
    seen = call(world, arms, v, wide=False)
    rounds = np.arange(1, 101)[:, None]
    assert np.array_equal(seen.losses, ((rounds * 7 + arms * 3) % 11) / 11.0)
    table = np.array([[stripes(t, i) for i in range(4)] for t in range(1, 101)])
    expected = np.cumsum(table, axis=0)[[0, 9, 99]].min(axis=1)
    assert world.best_cumulative([1, 10, 100]) == pytest.approx(expected, rel=1e-13)


def test_best_arm_in_hindsight():
    checkpoints = [1, 2, 50, 300]
    expected = np.cumsum(TABLE, axis=0)[np.array(checkpoints) - 1].min(axis=1)
    assert Adversarial(TABLE).best_cumulative(checkpoints) == pytest.approx(expected, rel=1e-13)


def test_sums_do_not_depend_on_the_blocks(monkeypatch):
    whole = cumulative_at(TABLE, np.array([10, 250]))
    monkeypatch.setattr("bothworlds.environments.adversarial._CHUNK", 35)
    assert cumulative_at(TABLE, np.array([10, 250])) == pytest.approx(whole, rel=1e-13)


@pytest.mark.statistical
def test_regret_of_a_simulation_is_the_tables(saved):
    result = bw.simulate(
        {"uniform": bw.Uniform()}, Adversarial(saved), horizon=300, repetitions=400, seed=2,
        checkpoints=[300], progress=False,
    )  # fmt: skip
    regret = result.regret["uniform"][:, -1]
    # Playing at random costs the average arm's loss; 400 runs of 300 rounds, variance <= 1/4.
    expected = TABLE.sum() / 5 - TABLE.sum(axis=0).min()
    assert abs(regret.mean() - expected) <= 4.0 * np.sqrt(300 * 0.25 / 400)


def wrong_files(tmp_path):
    np.save(tmp_path / "single.npy", TABLE.astype(np.float32))
    np.save(tmp_path / "fortran.npy", np.asfortranarray(TABLE))
    np.save(tmp_path / "flat.npy", TABLE.ravel())
    high = TABLE.copy()
    high[299, 4] = 1.25
    np.save(tmp_path / "high.npy", high)
    (tmp_path / "text.npy").write_text("no array")
    full = (tmp_path / "high.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(full[: len(full) // 2])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("single", "must be a .npy file of 64-bit floats in C order, got 'float32'"),
        ("fortran", "must be a .npy file of 64-bit floats in C order, got 'Fortran order'"),
        ("flat", "must be an array with a row per round and a column"),
        ("high", "must be in \\[0, 1\\], got 1.25"),
        ("text", "must be the path of a readable .npy file"),
        ("cut", "must be the path of a readable .npy file"),
        ("missing", "must be the path of a readable .npy file"),
    ],
)
def test_wrong_files_are_refused(tmp_path, name, sentence):
    wrong_files(tmp_path)
    with pytest.raises(InvalidParameter, match=f"^The losses of Adversarial {sentence}.*\\.$"):
        Adversarial(tmp_path / f"{name}.npy")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Adversarial([[0.0, 2.0]]), "losses of Adversarial must be in \\[0, 1\\], got 2.0"),
        (lambda: Adversarial([[0.0, np.nan]]), "losses of Adversarial .* got nan"),
        (lambda: Adversarial([[0.0], [1.0]]), "losses of Adversarial must be an array with a row"),
        (lambda: Adversarial(np.zeros((0, 3))), "losses of Adversarial must be an array with a"),
        (lambda: Adversarial([0.0, 1.0]), "losses of Adversarial must be an array with a row"),
        (lambda: Adversarial(None), "losses of Adversarial must be an array with a row"),
        (lambda: Adversarial([[0, 1]], n_arms=3), "n_arms of Adversarial must be 2, the number"),
        (lambda: Adversarial(stripes), "n_arms of Adversarial must be an integer of at least 2"),
        (lambda: Adversarial(lambda t: 0.0, n_arms=2), "losses of Adversarial must be a function"),
        (lambda: AdversarialWithGap(2, 0.0), "gap of AdversarialWithGap must be a number in"),
        (lambda: AdversarialWithGap(2, 0.1, tau=0), "tau of AdversarialWithGap must be an integer"),
        (lambda: AdversarialWithGap(2, 0.1, tau=2**51), "tau of AdversarialWithGap must be at"),
        (
            lambda: Adaptive(2, "kind"),
            'strategy of Adaptive must be "betray", "mirage" or "punish"',
        ),
        (lambda: Adaptive(1), "n_arms of Adaptive must be an integer of at least 2"),
        (lambda: Adaptive(2, gap=-0.1), "gap of Adaptive must be a number in"),
    ],
)
def test_bad_input_is_one_sentence(make, sentence):
    with pytest.raises(InvalidParameter, match=f"^The {sentence}.*\\.$"):
        make()


def test_a_horizon_beyond_the_table_is_refused():
    with pytest.raises(InvalidParameter, match="horizon"):
        bw.simulate([bw.Uniform()], Adversarial(TABLE), horizon=301, repetitions=1, progress=False)


def test_a_function_out_of_range_is_reported():
    with pytest.raises(bw.errors.KernelError, match="must be a number in"):
        bw.simulate(
            [bw.Uniform()], Adversarial(out_of_range, n_arms=2), horizon=9, repetitions=1,
            progress=False,
        )  # fmt: skip


# --- with a gap ------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [0.01, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("tau", [1, 10, 1000])
def test_the_lead_keeps_its_gap_from_tau_on(gap, tau):
    T = 20_000
    world = AdversarialWithGap(3, gap, tau=tau, shuffle=False)
    v = np.zeros((T, LANES))
    best = call(world, np.zeros(v.shape), v).losses[:, 0]
    others = call(world, np.full(v.shape, 2), v).losses[:, 0]
    assert np.array_equal(best, 1.0 - others)
    lead = np.cumsum(others - best)
    t = np.arange(1, T + 1)
    assert np.all(lead[tau - 1 :] >= gap * t[tau - 1 :] - 1e-9)
    # Negative control, and proof of the waves: no larger gap is kept, and the best arm often loses.
    assert not np.all(lead[tau - 1 :] >= (gap + 0.05) * t[tau - 1 :])
    assert best[tau:].mean() > 0.02
    checkpoints = np.array([1, 5, 777, T])
    expected = np.minimum(np.cumsum(best), np.cumsum(others))[checkpoints - 1]
    assert np.array_equal(world.best_cumulative(checkpoints), expected)
    if tau > 10:
        assert best[: int(tau * (1 - gap) / 2) - 1].all()


# --- adaptive --------------------------------------------------------------------------------


def expected_losses(world, played, strategy, gap):
    """Mean loss of every label in every round of one repetition, written out again."""
    K, T = world.n_arms, len(played)
    means = np.zeros((T, K))
    level, began, plays, trust = 0.0, 0, 0, 0
    for n in range(T):
        last = played[n - 1] if n else -1
        plays += last == 0
        if strategy == "betray":
            length = n - began
            if length >= 10 and 2 * (plays - trust) > length and n >= 1.6 * began:
                level, began, trust = (1.0 - gap) - level, n, plays
            means[n] = level + gap
            means[n, 0] = level
        elif strategy == "mirage":
            level = 1.0 - gap if last == 0 else 0.0
            means[n] = level + gap
            means[n, 0] = level
        else:
            means[n] = 0.5 * (1.0 - gap)
            if last >= 0:
                means[n, last] = 0.5 * (1.0 + gap)
    return means


@pytest.mark.parametrize("strategy", ["betray", "mirage", "punish"])
def test_adaptive_losses_follow_the_actions(strategy):
    gap = 0.25
    world = Adaptive(3, strategy, gap=gap)
    arms, v = random_play(world, 400)
    # Often enough the best arm, so that "betray" has something to betray.
    often = np.random.default_rng(5).random(arms.shape) < 0.5
    arms = np.where(often, index_of(world, 0), arms)
    wide = call(world, arms, v)
    one = call(world, arms, v, wide=False)
    assert np.array_equal(wide.losses, one.losses)
    assert np.array_equal(wide.state, one.state)
    played = np.take_along_axis(labels(world), arms, axis=0)
    for lane in range(LANES):
        means = expected_losses(world, played[:, lane], strategy, gap)
        own = means[np.arange(400), played[:, lane]]
        assert np.array_equal(wide.regrets[:, lane], own)
        assert np.array_equal(wide.losses[:, lane], np.where(v[:, lane] < own, 1.0, 0.0))
        tracked = wide.state[world.tracked_row : world.tracked_row + 3, lane]
        assert tracked == pytest.approx(means.sum(axis=0), rel=1e-12)
    if strategy == "betray":
        assert len(np.unique(wide.regrets)) == 4


@pytest.mark.parametrize("strategy", ["betray", "mirage", "punish"])
def test_only_the_last_call_of_a_round_counts(strategy):
    world = Adaptive(4, strategy)
    arms, v = random_play(world, 200)
    other, _ = random_play(world, 200, seed=9)
    once = call(world, arms, v)
    twice = call(
        world,
        np.stack([other, arms], axis=1).reshape(-1, LANES),
        np.repeat(v, 2, axis=0),
        rounds=np.repeat(np.arange(1, 201), 2),
    )
    assert np.array_equal(twice.losses[1::2], once.losses)
    assert np.array_equal(twice.state, once.state)


def test_betrayal_hurts_ucb1_and_thompson_but_not_tsallis_inf():
    policies = {"tsallis": bw.TsallisINF(), "ucb1": bw.UCB1(), "thompson": bw.ThompsonSampling()}
    result = bw.simulate(
        policies, Adaptive(2), horizon=30_000, repetitions=64, seed=4, checkpoints=[3000, 30_000],
        progress=False,
    )  # fmt: skip
    early, late = np.transpose([result.regret[name].mean(axis=0) for name in policies])
    # Ten times the rounds: logarithmic regret adds little, near-linear regret grows severalfold.
    assert late[0] < 2.0 * early[0]
    assert late[1] > 3.0 * early[1]
    assert late[2] > 3.0 * early[2]
    assert min(late[1:]) > 10.0 * late[0]
