"""Longer horizons go on from where shorter runs ended, with the bits of a run in one go."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bothworlds as bw
from bothworlds.campaign import shard as shards
from bothworlds.campaign import shard_file as shardfile
from bothworlds.campaign.curve import Curve
from bothworlds.campaign.shard import cut
from bothworlds.campaign.store import Store
from bothworlds.campaign.workers import Threads
from bothworlds.engine import snapshot as standing
from bothworlds.engine.tile import run_job
from bothworlds.errors import InvalidParameter, ResultFileError

WORLD = bw.environments.Stochastic.gap(4, 0.25)
DUELS = bw.environments.Utilities([0.9, 0.5, 0.4])
MANY = bw.environments.Stochastic.gap(600, 0.25)


@bw.policies.custom
class Greedy:
    explore: float = 0.1

    def start(n_arms):
        return np.zeros(2 * n_arms)

    def probabilities(state, parameters, n_arms, t, p):
        best = np.argmin(state[:n_arms] / np.maximum(state[n_arms:], 1.0))
        p[:] = parameters.explore / n_arms
        p[best] += 1.0 - parameters.explore

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += loss
        state[n_arms + arm] += 1.0


@bw.environments.custom
class Moody:
    def start(n_arms, rng):
        return rng.random(n_arms)

    def mean(state, parameters, n_arms, t, arm):
        return state[arm]

    def loss(state, parameters, n_arms, t, arm, u):
        return 1.0 if u < state[arm] else 0.0

    def update(state, parameters, n_arms, t, arm, loss):
        state[arm] = 0.5 * (state[arm] + loss)


CASES = {
    "rv": (bw.TsallisINF(), WORLD),
    "iw": (bw.TsallisINF(estimator="iw"), WORLD),
    "alpha 0.7": (bw.TsallisINF(alpha=0.7), WORLD),
    "exp3": (bw.Exp3(), WORLD),
    "exp3++": (bw.Exp3PlusPlus(), WORLD),
    "broad": (bw.Broad(horizon=2000), WORLD),
    "ucb1": (bw.UCB1(), WORLD),
    "kl-ucb": (bw.KLUCB(), WORLD),
    "thompson": (bw.ThompsonSampling(), WORLD),
    "uniform": (bw.Uniform(), WORLD),
    "own policy": (Greedy(), WORLD),
    "own world": (bw.TsallisINF(), Moody(3)),
    "both own": (Greedy(), Moody(3)),
    "many arms": (bw.TsallisINF(), MANY),
    "many arms, iw": (bw.TsallisINF(estimator="iw"), MANY),
    "duels": (bw.Sparring(), DUELS),
    "two sides": (bw.Sparring(shared=False), DUELS),
    "duels, scalar": (bw.Sparring(bw.TsallisINF(alpha=0.7)), DUELS),
    "corrupted": (bw.TsallisINF(), bw.environments.Corrupted(WORLD, 50.0)),
    "corrupted, random": (bw.UCB1(), bw.environments.Corrupted(WORLD, 50.0, "random")),
    "betray": (bw.TsallisINF(), bw.environments.Adaptive(4)),
    "mirage": (bw.UCB1(), bw.environments.Adaptive(4, "mirage")),
    "punish": (Greedy(), bw.environments.Adaptive(4, "punish")),
    "switching": (bw.TsallisINF(), bw.environments.Switching(4, 0.25)),
    "noise": (bw.UCB1(), bw.environments.Stochastic([0.2, 0.5, 0.6], noise="beta")),
    "table": (
        bw.Exp3(),
        bw.environments.Adversarial(np.random.default_rng(0).random((2000, 3))),
    ),
}


def run(policy, world, horizon, repetitions=20, **options):
    options = {"seed": 5, "progress": False, **options}
    return bw.simulate({"P": policy}, world, horizon=horizon, repetitions=repetitions, **options)


def same(first, second):
    assert np.array_equal(first.checkpoints, second.checkpoints)
    assert first.regret["P"].tobytes() == second.regret["P"].tobytes()
    assert np.array_equal(first.plays["P"], second.plays["P"])
    assert np.array_equal(first.repetitions["P"], second.repetitions["P"])


@pytest.fixture
def played(monkeypatch):
    """Rounds times repetitions that were played."""
    rounds = []
    real = shards.run_job

    def counting(job, stop, tick, table):
        def heard(number):
            rounds.append(number)
            if tick is not None:
                tick(number)

        return real(job, stop, heard, table)

    monkeypatch.setattr(shards, "run_job", counting)
    return rounds


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_going_on_twice_gives_the_bits_of_one_run(case, tmp_path, played):
    policy, world = CASES[case]
    horizons = (20, 200, 400) if world is MANY else (20, 500, 2000)
    repetitions = 5 if world is MANY else 20
    before = 0
    for horizon in horizons:
        played.clear()
        longer = run(policy, world, horizon, repetitions, store=tmp_path, continuable=True)
        assert sum(played) == (horizon - before) * repetitions
        before = horizon
    same(longer, run(policy, world, horizons[-1], repetitions))


def test_from_a_thousand_to_a_hundred_thousand(tmp_path, played):
    for horizon, new in ((10**3, 10**3), (10**4, 9 * 10**3), (10**5, 9 * 10**4)):
        played.clear()
        longer = run(bw.TsallisINF(), WORLD, horizon, 8, store=tmp_path, continuable=True)
        assert sum(played) == 8 * new
    same(longer, run(bw.TsallisINF(), WORLD, 10**5, 8))


def test_time_is_that_of_all_parts(tmp_path, monkeypatch):
    real = shards.run_job
    timed = lambda *arguments: replace(real(*arguments), wall=1.0, cpu=2.0)  # noqa: E731
    monkeypatch.setattr(shards, "run_job", timed)
    for tiles, horizon in ((2, 100), (4, 200), (6, 300)):
        longer = run(bw.UCB1(), WORLD, horizon, store=tmp_path, continuable=True)
        assert (longer.wall["P"], longer.cpu["P"]) == (tiles, 2 * tiles)


def test_other_numbers_of_repetitions(tmp_path, played):
    """Tiles are as they were; what is new or was cut otherwise begins at the first round."""
    run(bw.TsallisINF(), WORLD, 300, 20, store=tmp_path, continuable=True)
    played.clear()
    more = run(bw.TsallisINF(), WORLD, 900, 50, store=tmp_path)
    assert sum(played) == 20 * 600 + 30 * 900
    same(more, run(bw.TsallisINF(), WORLD, 900, 50))
    played.clear()
    fewer = run(bw.TsallisINF(), WORLD, 800, 10, store=tmp_path)
    assert sum(played) == 10 * 800
    same(fewer, run(bw.TsallisINF(), WORLD, 800, 10))


def test_the_longest_that_fits_is_taken(tmp_path, played):
    for horizon in (100, 1000, 400):
        run(bw.UCB1(), WORLD, horizon, store=tmp_path, continuable=True)
    played.clear()
    longer = run(bw.UCB1(), WORLD, 900, store=tmp_path)
    assert sum(played) == 20 * 500
    same(longer, run(bw.UCB1(), WORLD, 900))


def test_part_from_one_horizon_and_part_from_another(tmp_path, played):
    run(bw.UCB1(), WORLD, 400, 16, store=tmp_path, continuable=True)
    run(bw.UCB1(), WORLD, 100, 48, store=tmp_path, continuable=True)
    played.clear()
    longer = run(bw.UCB1(), WORLD, 500, 64, store=tmp_path)
    assert sum(played) == 16 * 100 + 32 * 400 + 16 * 500
    same(longer, run(bw.UCB1(), WORLD, 500, 64))


def test_checkpoints_of_the_longer_run(tmp_path, played):
    """Some of the old ones will do; one that was not recorded means to start over."""
    options = {"store": tmp_path, "continuable": True}
    run(bw.UCB1(), WORLD, 300, checkpoints=[10, 100, 200], **options)
    for given, new in (([100, 600], 600), ([600], 600), ([10, 150, 700], 900)):
        played.clear()
        longer = run(bw.UCB1(), WORLD, 900, checkpoints=given, store=tmp_path)
        assert sum(played) == 20 * new
        same(longer, run(bw.UCB1(), WORLD, 900, checkpoints=given))


def test_runs_without_states_start_over(tmp_path, played):
    run(bw.UCB1(), WORLD, 300, store=tmp_path)
    played.clear()
    longer = run(bw.UCB1(), WORLD, 900, store=tmp_path, continuable=True)
    assert sum(played) == 20 * 900
    same(longer, run(bw.UCB1(), WORLD, 900))


def test_another_seed_or_policy_does_not_go_on(tmp_path, played):
    run(bw.UCB1(), WORLD, 300, store=tmp_path, continuable=True)
    for policy, seed in ((bw.UCB1(), 6), (bw.UCB1(c=3.0), 5)):
        played.clear()
        run(policy, WORLD, 900, store=tmp_path, seed=seed)
        assert sum(played) == 20 * 900


def test_states_need_a_store():
    with pytest.raises(InvalidParameter, match="continuable of simulate must be False without"):
        run(bw.UCB1(), WORLD, 10, continuable=True)


# --- states that cannot be used ---------------------------------------------------------------


def with_states(path, change):
    """Save a shard again whose states are others; its digests fit."""
    about, outcomes = shardfile.read(path, states=True)
    changed = [replace(each, state=change(each.state)) for each in outcomes]
    own = ("name", "policy", "environment", "arms", "seed", "checkpoints", "regret", "best")
    shardfile.write(path, about["stem"], {key: about[key] for key in own}, changed)


def of_another_shape(state):
    return standing.pack(300, [np.zeros(3)] * 7)


BAD_STATES = {
    "no archive": lambda state: b"nonsense",
    "empty": lambda state: b"",
    "cut off": lambda state: state[: len(state) // 2],
    "flipped": lambda state: state[:200] + bytes([state[200] ^ 255]) + state[201:],
    "another shape": of_another_shape,
    "too few": lambda state: standing.pack(300, [np.zeros(3)]),
}


@pytest.mark.parametrize("bad", BAD_STATES)
def test_a_state_that_cannot_be_used_means_to_start_over(bad, tmp_path, played, capsys):
    run(bw.UCB1(), WORLD, 300, store=tmp_path, continuable=True)
    (path,) = tmp_path.glob("*.parquet")
    with_states(path, BAD_STATES[bad])
    played.clear()
    reports = []
    longer = run(bw.UCB1(), WORLD, 900, store=tmp_path, progress=reports.append)
    said = capsys.readouterr().err
    assert said.startswith("The saved state of a simulation ")
    assert said.endswith("Runs of P that continue from it start over.\n")
    assert said.count("\n") == 1
    assert sum(played) == 20 * 900
    same(longer, run(bw.UCB1(), WORLD, 900))
    assert reports[-1].done <= reports[-1].total


def test_a_damaged_shard_is_not_gone_on_from(tmp_path, played, capsys):
    run(bw.UCB1(), WORLD, 300, store=tmp_path, continuable=True)
    (path,) = tmp_path.glob("*.parquet")
    table = pq.read_table(path)
    states = [state and state[:-1] for state in table["state"].to_pylist()]
    place = table.column_names.index("state")
    pq.write_table(table.set_column(place, "state", pa.array(states, pa.large_binary())), path)
    played.clear()
    longer = run(bw.UCB1(), WORLD, 900, store=tmp_path)
    assert "is damaged" in capsys.readouterr().err
    assert sum(played) == 20 * 900
    same(longer, run(bw.UCB1(), WORLD, 900))


def test_other_errors_of_a_file_are_not_taken_for_those_of_a_state(tmp_path):
    """A run from the first round has nothing to start over from."""

    def failing(*arguments):
        raise ResultFileError("A sentence.")

    class Failing(Threads):
        def submit(self, shard, tick):
            self._pool = self._pool or shards_pool()
            return self._pool.submit(failing)

    from bothworlds.campaign.campaign import Campaign

    curve = Curve("P", bw.UCB1(), WORLD, (10,), 16, 0)
    campaign = Campaign([curve], [cut(curve, [(0, 16)])], Failing(1), lambda *taken: None)
    with pytest.raises(ResultFileError, match="A sentence"):
        campaign.run()


def shards_pool():
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1)


def test_nothing_changes_where_a_state_does_not_fit():
    arrays = [np.arange(3.0), np.arange(4)]
    for saved in (b"", standing.pack(5, [np.zeros(3)]), standing.pack(5, [np.zeros(3)] * 2)):
        with pytest.raises(ResultFileError):
            standing.restore(saved, arrays)
    with pytest.raises(ResultFileError):
        standing.restore(standing.pack(5, [np.zeros(3), np.zeros(4, int), np.zeros(1)]), arrays)
    assert arrays[0].tolist() == [0.0, 1.0, 2.0]
    assert arrays[1].tolist() == [0, 1, 2, 3]
    assert standing.restore(standing.pack(5, [np.ones(3), np.zeros(4, int)]), arrays) == 5
    assert arrays[0].tolist() == [1.0, 1.0, 1.0]


def test_states_are_the_same_however_they_were_reached(tmp_path):
    """The state after 900 rounds, in one go and from 300: the same arrays."""
    stores = []
    for name, stops in (("one", (900,)), ("two", (300, 900))):
        stores.append(Store(tmp_path / name))
        for horizon in stops:
            run(bw.TsallisINF(), WORLD, horizon, store=tmp_path / name, continuable=True)
    states = []
    for store in stores:
        (path,) = store.folder.glob("*-900-*.parquet")
        states.append(shardfile.read(path, states=True)[1])
    curve = Curve("P", bw.TsallisINF(), WORLD, (1000,), 20, 5)
    for one, two in zip(*states, strict=True):
        assert len(one.state) == len(two.state)
    for job, one, two in zip(cut(curve, [(0, 20)], keep=True), *states, strict=True):
        ends = [run_job(replace(job, after=900, earlier=each)) for each in (one, two)]
        assert ends[0].cost.tobytes() == ends[1].cost.tobytes()
