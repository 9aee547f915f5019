"""Simulation with advice: reference cells, lanes against single repetitions, late feedback."""

import math

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine import advised
from bothworlds.environments import Advised, Delayed
from bothworlds.errors import InvalidParameter
from bothworlds.lanes.random import uniform
from bothworlds.policies import advice as step
from bothworlds.seeding import stream_words

MAPS = [*([a] * 4 for a in range(4)), [0, 1, 2, 3], [0, 1, 0, 0], [3, 3, 2, 3]]
DIAGONAL = np.full((4, 4), 0.55) - 0.2 * np.eye(4)
TWO = Advised(2, [[0.4, 0.6], [0.6, 0.4]], [[0, 0], [1, 1], [0, 1], [1, 0]])
FOUR = Advised(4, DIAGONAL, MAPS)
POLICIES = {
    "IW": bw.TsallisINF(estimator="iw"), "RV": bw.TsallisINF(), "matched": bw.TsallisINFV(),
}  # fmt: skip


def turns(horizon):
    """Return levels of 0 and 0.6 in turns, in phases of ceil(1.6^k) rounds."""
    found, k = [], 0
    while len(found) < horizon:
        found += [0.6 * (k % 2)] * math.ceil(1.6**k)
        k += 1
    return np.array(found[:horizon])


TOGETHER = Advised(4, DIAGONAL - 0.25, MAPS, levels=turns(10_000))
CELLS = {
    "two": (TWO, {"IW": (98.8, 1.4), "RV": (44.7, 0.7), "matched": (41.5, 1.1)}, (54.2, 0.7)),
    "four": (FOUR, {"IW": (185.0, 1.9), "RV": (94.2, 1.0), "matched": (90.1, 0.9)}, (107.4, 1.2)),
    "together": (
        TOGETHER, {"IW": (193.6, 2.1), "RV": (97.8, 1.2), "matched": (93.2, 1.0)}, (113.9, 1.3),
    ),
}  # fmt: skip


def near(found, mean, error):
    own = found.std(ddof=1) / math.sqrt(found.size)
    return abs(found.mean() - mean) <= 4.0 * math.hypot(own, error) + 0.01 * mean


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
def test_the_reference_cells(cell):
    """Regret at 10,000 rounds over 400 runs, by four combined standard errors and 1 %."""
    world, expected, late = CELLS[cell]
    result = bw.simulate(POLICIES, world, horizon=10_000, repetitions=400, seed=1, progress=False)
    for name, (mean, error) in expected.items():
        assert near(result.regret[name][:, -1], mean, error), name
    result = bw.simulate(
        {"RV": bw.TsallisINF()}, Delayed(world, 100), horizon=10_000, repetitions=400, seed=1,
        progress=False,
    )  # fmt: skip
    assert near(result.regret["RV"][:, -1], *late)


@pytest.mark.parametrize(
    "policy",
    [*POLICIES.values(), bw.TsallisINF(estimator="soft"), bw.Floor(bw.TsallisINF(), 0.5)],
    ids=repr,
)
def test_lanes_play_as_single_repetitions_do(policy, monkeypatch):
    """The same random numbers and, up to rounding, the same probabilities."""
    rows = [[[0.25, 0.75], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]], [1, 0]]
    world = Advised(
        2, [[0.4, 0.6], [0.7, 0.2]], rows, levels=[0.0, 0.2] * 100, later=rows[::-1], change=90
    )
    few = {"horizon": 200, "repetitions": 20, "seed": 4, "shares": True, "progress": False}
    one = bw.simulate(policy, world, **few)
    monkeypatch.setattr(advised, "_in_lanes", lambda setting, n_experts: False)
    other = bw.simulate(policy, world, **few)
    name = repr(policy)
    # One repetition in which rounding changed an arm would differ by far more. A floor draws
    # other arms from the same number.
    if not isinstance(policy, bw.Floor):
        assert one.regret[name] == pytest.approx(other.regret[name], rel=1e-6, abs=1e-9)
        assert np.array_equal(one.plays_at[name], other.plays_at[name])
    assert one.plays[name].sum(axis=1).tolist() == [200] * 20
    assert one.plays_at[name].shape == other.plays_at[name].shape


@pytest.mark.parametrize("policy", POLICIES.values(), ids=repr)
@pytest.mark.parametrize("n_experts", [9, 20])
def test_lanes_of_many_experts_play_as_single_repetitions_do(policy, n_experts, monkeypatch):
    rng = np.random.default_rng(n_experts)
    rows = rng.dirichlet(np.full(3, 0.4), (n_experts, 4)).tolist()
    world = Advised(4, rng.random((4, 3)).tolist(), rows)
    few = {"horizon": 400, "repetitions": 20, "seed": 4, "progress": False}
    one = bw.simulate(policy, world, **few)
    monkeypatch.setattr(advised, "_in_lanes", lambda setting, n_experts: False)
    other = bw.simulate(policy, world, **few)
    name = repr(policy)
    assert one.regret[name] == pytest.approx(other.regret[name], rel=1e-6, abs=1e-9)
    assert np.array_equal(one.plays[name], other.plays[name])


def test_a_simulation_is_what_a_bandit_does():
    """One repetition again, by the class, from the words of the same streams."""
    world = Delayed(TWO, 3)
    result = bw.simulate({"it": bw.TsallisINF()}, world, horizon=60, repetitions=2, seed=9,
                         checkpoints=range(1, 61), progress=False)  # fmt: skip
    bandit = bw.AdvisedBandit(bw.TsallisINF(), 2, 4, seed=0)
    bandit._G[:] = stream_words(9, repr(world), "it", 1)
    numbers = stream_words(9, repr(world), 1)
    cost, waiting = [], []
    for _ in range(60):
        context = int(uniform(numbers, 0.0) * 2)
        decision = bandit.ask({j: int(np.argmax(row[context])) for j, row in enumerate(TWO.advice)})
        means = np.asarray(TWO.means)[context]
        cost.append(sum(p * means[a] for a, p in decision.probabilities.items()) - 0.4)
        waiting.append((decision, float(uniform(numbers, 0.0) < means[decision.arm])))
        if len(waiting) > 3:
            late, loss = waiting.pop(0)
            bandit.tell(late, loss=loss)
    assert result.regret["it"][1] == pytest.approx(np.cumsum(cost), abs=1e-12)


def test_regret_is_against_the_best_expert_of_the_whole_run():
    world = Advised(
        2, [[0.2, 0.8], [0.9, 0.3]], [[0, 1], [1, 0]], later=[[1, 0], [0, 1]], change=11
    )
    assert world.values().tolist() == pytest.approx([0.25, 0.85])
    assert world.values(1).tolist() == pytest.approx([0.85, 0.25])
    assert world.best_cumulative([10, 20, 40]) == pytest.approx([2.5, 11.0, 16.0])
    alone = Advised(2, [[0.2, 0.8], [0.9, 0.3]], [[0, 1]])
    result = bw.simulate(bw.TsallisINF(), alone, horizon=100, repetitions=3, progress=False)
    assert result.regret["TsallisINF()"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "policy",
    [bw.Exp3(), bw.TsallisINF(alpha=0.7), bw.Restarted(bw.TsallisINF(), 50),
     bw.Discounted(bw.TsallisINF(), 50), bw.Alarmed(bw.TsallisINF())],
    ids=repr,
)  # fmt: skip
def test_every_policy_of_an_advised_bandit_can_be_simulated(policy):
    result = bw.simulate(policy, FOUR, horizon=300, repetitions=8, seed=2, progress=False)
    wrong = 0.2 * 0.75 * 300
    assert (result.regret[repr(policy)][:, -1] < wrong).all()
    assert step.setting_of(policy, "test").kind in (step.TSALLIS, step.EXPONENTIAL)


@pytest.mark.extra
def test_results_do_not_depend_on_the_number_of_threads(tmp_path):
    few = {"horizon": 50, "repetitions": 40, "seed": 3, "progress": False}
    one = bw.simulate(POLICIES, FOUR, threads=1, **few)
    two = bw.simulate(POLICIES, FOUR, threads=2, store=tmp_path, **few)
    for name in POLICIES:
        assert np.array_equal(one.regret[name], two.regret[name])


def test_wrong_arguments_are_refused():
    good = {"contexts": 2, "means": [[0.4, 0.6], [0.6, 0.4]], "advice": [[0, 1]]}
    for bad in (
        {"contexts": 0}, {"contexts": 3}, {"means": [[0.4, 1.6], [0.6, 0.4]]}, {"means": [0.4]},
        {"advice": []}, {"advice": [[0]]}, {"advice": [[0, 2]]}, {"advice": [[0, [0.5, 0.6]]]},
        {"advice": [[0, [-0.5, 1.5]]]}, {"advice": "01"}, {"levels": []}, {"levels": [0.5]},
        {"levels": [[0.1]]}, {"later": [[0, 1]]}, {"change": 5}, {"later": [[0, 1]], "change": 1},
        {"later": [[0, 1], [1, 0]], "change": 5},
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match="of Advised must be"):
            Advised(**(good | bad))
    few = {"horizon": 10, "repetitions": 1, "progress": False}
    for policy in (bw.UCB1(), bw.Sparring(), bw.TsallisINFV(rate="residual")):
        with pytest.raises(InvalidParameter, match="policy of simulate must be TsallisINF"):
            bw.simulate(policy, TWO, **few)
    with pytest.raises(InvalidParameter, match="realised of simulate"):
        bw.simulate(bw.TsallisINF(), TWO, realised=True, **few)
    with pytest.raises(InvalidParameter, match="horizon of simulate"):
        bw.simulate(bw.TsallisINF(), TOGETHER, horizon=10_001)
    with pytest.raises(InvalidParameter, match="not one with advice"):
        bw.checks.check_environment(TWO)
    with pytest.raises(InvalidParameter, match="base of Corrupted"):
        bw.environments.Corrupted(TWO, 5)
