"""Sparring and `DuelingBandit`: both forms against a plain model, late winners, files, errors."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bothworlds as bw
from bothworlds.bandit.state import columns
from bothworlds.errors import (
    DecisionClosed,
    InvalidFeedback,
    InvalidParameter,
    KernelError,
    StateFileError,
    UnknownDecision,
)
from bothworlds.omd.learning_rates import theorem3
from helpers.bandits import content

RV, IW, POWER = bw.TsallisINF(), bw.TsallisINF(estimator="iw"), bw.TsallisINF(alpha=0.7)
FORMS = {
    "shared rv": bw.Sparring(RV),
    "shared iw": bw.Sparring(IW),
    "shared 0.7": bw.Sparring(POWER),
    "two rv": bw.Sparring(RV, shared=False),
    "two iw": bw.Sparring(IW, shared=False),
    "two 0.7": bw.Sparring(POWER, shared=False),
}
OTHERS = {
    "ucb1": bw.Sparring(bw.UCB1()),
    "thompson": bw.Sparring(bw.ThompsonSampling()),
    "exp3": bw.Sparring(bw.Exp3()),
    "exp3++": bw.Sparring(bw.Exp3PlusPlus()),
}
ARMS = ["ash", "birch", "cedar", "elm"]


def rate(policy, K, t):
    if policy.alpha == 0.5:
        return (4.0 if policy.estimator == "rv" else 2.0) / np.sqrt(t)
    return theorem3(t, K, policy.alpha)


class Model:
    """Sparring as the article and the module docstring state it, without a ledger of any kind."""

    def __init__(self, sparring, K, share=0.5, literal=False):
        self.policy, self.shared = sparring.policy, sparring.shared
        self.share = share if self.shared else 1.0
        self.literal = literal
        self.L = [np.zeros(K)] * 2 if self.shared else [np.zeros(K), np.zeros(K)]

    def weights(self, t):
        K = len(self.L[0])
        eta = rate(self.policy, K, t)
        if eta == 0.0:
            return [np.full(K, 1 / K)] * 2, eta
        return [bw.omd.weights(L, eta, self.policy.alpha) for L in self.L], eta

    def tell(self, w, eta, arms, winner):
        for side, name in enumerate(("left", "right")):
            loss = 0.0 if winner == name else 1.0
            if self.literal and arms[0] == arms[1]:
                loss = 0.0
            base = 0.5 * (w[side] >= eta**2) * (self.policy.estimator == "rv")
            estimate = base.copy()
            estimate[arms[side]] += (loss - base[arms[side]]) / w[side][arms[side]]
            self.L[side] += self.share * estimate


def worst_difference(sparring, model, rounds=400, seed=3):
    """Play with winners that come late and in any order; return the worst weight's error."""
    rng = np.random.default_rng(seed)
    duel = bw.DuelingBandit(sparring, ARMS, seed=seed)
    waiting, worst = [], 0.0
    for t in range(1, rounds + 1):
        w, eta = model.weights(t)
        pair = duel.ask()
        for side, decision in zip(w, (pair._left, pair._right), strict=True):
            shown = np.array(list(decision.probabilities.values()))
            worst = max(worst, np.abs(shown / side - 1).max())
        if worst > 0.01:
            break
        waiting.append((pair, w, eta, (ARMS.index(pair.left), ARMS.index(pair.right))))
        while waiting and rng.random() < 0.6:
            pair, w, eta, arms = waiting.pop(rng.integers(len(waiting)))
            chance = 0.5 + 0.15 * (arms[1] - arms[0])
            winner = "left" if rng.random() < chance else "right"
            duel.tell(pair if rng.random() < 0.5 else pair.id, winner=winner)
            model.tell(w, eta, arms, winner)
    return worst


@pytest.mark.parametrize("name", FORMS)
def test_weights_are_the_models_however_late_the_winners(name):
    # Rounding in the estimates feeds back through 1 / w; a round by itself is exact to 1e-13.
    assert worst_difference(FORMS[name], Model(FORMS[name], 4)) < 1e-9


@pytest.mark.parametrize("name", FORMS)
def test_a_round_is_exact(name):
    rng = np.random.default_rng(4)
    duel = bw.DuelingBandit(FORMS[name], ARMS, seed=4)
    policy = duel.policy.policy
    for t in range(1, 300):
        pair = duel.ask()
        for bandit, decision in ((duel._left, pair._left), (duel._right, pair._right)):
            L = columns(bandit.F, bandit.policy)[0]
            shown = np.array(list(decision.probabilities.values()))
            if t > 1:
                w = bw.omd.weights(L, rate(policy, 4, t), policy.alpha)
                assert np.abs(shown / w - 1).max() < 1e-13
            assert decision.probability == pytest.approx(shown[decision.index], rel=1e-14)
        duel.tell(pair, winner="left" if rng.random() < 0.7 else "right")


@pytest.mark.parametrize(
    "wrong",
    [{"share": 1.0}, {"literal": True}],
    ids=["both estimates in full", "the same arm twice has no loser"],
)
def test_another_algorithm_would_be_noticed(wrong):
    assert worst_difference(FORMS["shared rv"], Model(FORMS["shared rv"], 4, **wrong)) > 0.01


@pytest.mark.parametrize("name", ["shared rv", "two rv"])
def test_equal_arms_learn_by_side(name):
    duel = bw.DuelingBandit(FORMS[name], arms=["only"], seed=0)
    for winner in ("left", "right", "left"):
        pair = duel.ask()
        assert pair.left == pair.right == "only"
        duel.tell(pair, winner=winner)
    history = duel.history()["only"]
    assert (history.pulls, history.told, history.mean_loss) == (6, 6, 0.5)


@pytest.mark.parametrize("name", [*FORMS, *OTHERS])
def test_the_best_arm_is_found(name):
    rng = np.random.default_rng(0)
    duel = bw.DuelingBandit({**FORMS, **OTHERS}[name], ARMS, seed=2)
    u = dict(zip(ARMS, (0.1, 0.9, 0.2, 0.3), strict=True))
    for _ in range(1500):
        pair = duel.ask()
        wins = rng.random() < (1 + u[pair.left] - u[pair.right]) / 2
        duel.tell(pair, winner="left" if wins else "right")
    history = duel.history()
    assert max(history, key=lambda arm: history[arm].pulls) == "birch"
    assert sum(arm.pulls for arm in history.values()) == 3000
    assert sum(arm.told * arm.mean_loss for arm in history.values()) == pytest.approx(1500)


def test_the_sides_of_two_draw_apart_and_those_of_one_alike():
    two = bw.DuelingBandit(bw.Sparring(shared=False), arms=4, seed=0)
    one = bw.DuelingBandit(bw.Sparring(), arms=4, seed=0)
    for duel in (two, one):
        for n in range(40):
            duel.tell(duel.ask(), winner="left" if n % 3 else "right")
    assert two.probabilities("left") != two.probabilities("right")
    assert one.probabilities("left") == one.probabilities("right") == one.probabilities()
    mean = {
        a: (two.probabilities("left")[a] + p) / 2 for a, p in two.probabilities("right").items()
    }
    assert two.probabilities() == pytest.approx(mean, rel=1e-15)
    pair = two.ask()
    assert pair.probability == (pair.left_probability, pair.right_probability)
    assert pair.left_probability == pytest.approx(pair._left.probabilities[pair.left])


# --- feedback that cannot be accepted --------------------------------------------------------


@pytest.mark.parametrize("name", ["shared rv", "two rv", "ucb1"])
def test_refused_feedback_changes_nothing(name):
    sparring = {**FORMS, **OTHERS}[name]
    duel = bw.DuelingBandit(sparring, ARMS, seed=1)
    other = bw.DuelingBandit(sparring, ARMS, seed=1)
    done, pending, foreign = duel.ask(), duel.ask(), other.ask()
    duel.tell(done, winner="left")
    refused = [
        (InvalidFeedback, pending, "ash"),
        (InvalidFeedback, pending, None),
        (InvalidFeedback, pending, 1),
        (InvalidFeedback, pending, np.array(["left", "right"])),
        (DecisionClosed, done, "left"),
        (DecisionClosed, 1, "right"),
        (UnknownDecision, foreign, "left"),
        (UnknownDecision, 0, "left"),
        (UnknownDecision, 3, "left"),
        (UnknownDecision, True, "left"),
        (UnknownDecision, "1", "left"),
        (UnknownDecision, pending._left, "left"),
    ]
    before = duel._document()
    for error, pair, winner in refused:
        with pytest.raises(error) as caught:
            duel.tell(pair, winner=winner)
        assert type(caught.value) is error
        assert str(caught.value).startswith(("The pair of Dueling", "The winner of Dueling"))
        assert duel._document() == before
    duel.tell(pending, winner="right")
    assert duel.pending == []


def test_wrong_arguments_are_refused_in_one_sentence():
    sentences = [
        (lambda: bw.Sparring("tsallis"), "The policy of Sparring must be a policy such as"),
        (lambda: bw.Sparring(bw.Sparring()), "The policy of Sparring must be a policy such as"),
        (lambda: bw.Sparring(bw.UCB1(), shared=True), "The shared of Sparring must be False"),
        (lambda: bw.Sparring(shared=1), "The shared of Sparring must be True, False or None"),
        (lambda: bw.DuelingBandit(RV, 3), "The policy of DuelingBandit must be a dueling policy"),
        (lambda: bw.DuelingBandit(bw.Sparring(), 0), "The arms of DuelingBandit must be"),
        (lambda: bw.DuelingBandit(bw.Sparring(), ["a", "a"]), "The arms of DuelingBandit must"),
        (lambda: bw.DuelingBandit(bw.Sparring(), 2, seed=-1), "The seed of DuelingBandit must"),
        (lambda: bw.Bandit(bw.Sparring(), 3), "The policy of Bandit must be a policy such as"),
        (
            lambda: bw.DuelingBandit(bw.Sparring(), 2, seed=0).expire(older_than=-1),
            "The older_than of DuelingBandit.expire must be",
        ),
        (
            lambda: bw.DuelingBandit(bw.Sparring(), 2, seed=0).probabilities("up"),
            "The side of DuelingBandit.probabilities must be",
        ),
        (
            lambda: bw.DuelingBandit(OTHERS["thompson"], 2, seed=0).probabilities(),
            "The policy of DuelingBandit.probabilities must be one that knows",
        ),
    ]
    for call, start in sentences:
        with pytest.raises(InvalidParameter) as caught:
            call()
        assert str(caught.value).startswith(start)
        assert "\n" not in str(caught.value)


@bw.policies.custom
class Failing:
    """Chooses no arm when its uniform number is large."""

    def start(n_arms):
        return np.zeros(1)

    def choose(state, parameters, n_arms, t, generator):
        state[0] += 1
        return 0 if bw.policies.random_unit(generator) < 0.5 else n_arms

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[0] += 1


@pytest.mark.slow
def test_a_choice_that_fails_on_one_side_leaves_both_as_they_were():
    failures = set()
    for seed in range(20):
        duel = bw.DuelingBandit(bw.Sparring(Failing()), arms=2, seed=seed)
        waiting = None
        while waiting is None or (len(failures) < 2 and duel.round < 8):
            before = duel._document()
            try:
                waiting = duel.ask()
            except KernelError:
                assert duel._document() == before
                left = bw.Bandit._restored(Failing(), before["sides"][0])
                try:
                    left.ask()
                    failures.add("right")
                except KernelError:
                    failures.add("left")
                break
        if waiting is not None:
            duel.tell(waiting, winner="left")
    assert failures == {"left", "right"}


# --- keeping ---------------------------------------------------------------------------------


def mixed(duel, rounds, seed=0):
    """Play with random delays; return what was drawn."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(rounds):
        pair = duel.ask()
        drawn.append((pair.left, pair.right, pair.probability))
        for id in list(duel.pending):
            if rng.random() < 0.4:
                duel.tell(id, winner=str(rng.choice(["left", "right"])))
    return drawn


def through_file(duel, folder):
    duel.save(folder / "duel.json")
    return bw.DuelingBandit.load(folder / "duel.json")


@pytest.mark.parametrize("name", [*FORMS, *OTHERS])
def test_every_way_of_keeping_continues_bit_for_bit(name, tmp_path):
    duel = bw.DuelingBandit({**FORMS, **OTHERS}[name], ARMS, seed=5)
    mixed(duel, 60)
    pair = duel.ask()
    # Pickles and files restart the solver, of the original too; so these come first.
    twins = [
        pickle.loads(pickle.dumps(duel)),
        through_file(duel, tmp_path),
        duel.copy(),
        copy.deepcopy(duel),
    ]
    assert all(repr(twin) == repr(duel) for twin in twins)
    assert all(twin.pending == duel.pending and twin.round == 61 for twin in twins)
    duel.tell(pair, winner="right")
    for twin in twins:
        twin.tell(pickle.loads(pickle.dumps(pair)), winner="right")
    expected = mixed(duel, 60, seed=1)
    for twin in twins:
        assert mixed(twin, 60, seed=1) == expected
        assert content(twin) == content(duel)


def test_files_that_are_something_else_are_refused(tmp_path):
    duel = bw.DuelingBandit(bw.Sparring(shared=False), ARMS, seed=5)
    duel.ask()
    path = tmp_path / "duel.json"
    duel.save(path)
    document = json.loads(path.read_text())
    with pytest.raises(StateFileError, match="format"):
        bw.Bandit.load(path)
    bw.Bandit(RV, ARMS, seed=1).save(tmp_path / "bandit.json")
    with pytest.raises(StateFileError, match="format"):
        bw.DuelingBandit.load(tmp_path / "bandit.json")
    with pytest.raises(InvalidParameter, match="one that was saved"):
        bw.DuelingBandit.load(path, policy=bw.Sparring())
    assert bw.DuelingBandit.load(path, policy=duel.policy).pending == [1]
    path.write_text(json.dumps(document).replace('"seed": 5', '"seed": 6'))
    with pytest.raises(StateFileError):
        bw.DuelingBandit.load(path)
    ahead = duel.copy()
    ahead._left.draw()
    ahead.save(path)
    with pytest.raises(StateFileError, match="sides differ"):
        bw.DuelingBandit.load(path)


@pytest.mark.parametrize("name", ["shared rv", "two rv", "ucb1"])
def test_expired_pairs_are_closed_and_teach_nothing(name):
    duel = bw.DuelingBandit({**FORMS, **OTHERS}[name], ARMS, seed=5)
    pairs = [duel.ask() for _ in range(6)]
    duel.tell(pairs[1], winner="left")
    known = name != "ucb1"
    before = duel.probabilities() if known else None
    assert duel.expire(older_than=2) == [1, 3]
    assert duel.pending == [4, 5, 6]
    assert not known or duel.probabilities() == before
    with pytest.raises(DecisionClosed):
        duel.tell(pairs[0], winner="left")
    assert duel.expire(older_than=1) == [4]
    assert sum(arm.pulls for arm in duel.history().values()) == 12
    duel.tell(6, winner="right")
    assert duel.expire(older_than=0) == [5]


@given(st.lists(st.integers(0, 9), max_size=40), st.booleans())
def test_ids_stay_in_step_whatever_happens(moves, shared):
    duel = bw.DuelingBandit(bw.Sparring(shared=shared), arms=3, seed=1)
    waiting = []
    for move in moves:
        if move < 5 or not waiting:
            waiting.append(duel.ask().id)
        elif move < 9:
            duel.tell(waiting.pop(move % len(waiting)), winner="left")
        else:
            closed = duel.expire(older_than=3)
            waiting = [id for id in waiting if id not in closed]
        assert sorted(duel.pending) == sorted(waiting)
        assert abs(sum(duel.probabilities().values()) - 1.0) < 1e-12


def test_configurations_print_and_compare_by_value():
    assert repr(bw.Sparring()) == "Sparring()"
    assert (
        repr(bw.Sparring(IW, shared=False)) == "Sparring(TsallisINF(estimator='iw'), shared=False)"
    )
    assert bw.Sparring(bw.UCB1()) == bw.Sparring(bw.UCB1(), shared=False)
    assert bw.Sparring() == bw.Sparring(RV, shared=True) != bw.Sparring(shared=False)
    assert len({bw.Sparring(), bw.Sparring(RV), bw.Sparring(shared=False)}) == 2
    assert eval(repr(OTHERS["ucb1"]), {"Sparring": bw.Sparring, "UCB1": bw.UCB1}) == OTHERS["ucb1"]


def test_a_notebook_shows_a_table():
    duel = bw.DuelingBandit(bw.Sparring(), ARMS, seed=5)
    duel.tell(duel.ask(), winner="left")
    assert "birch" in duel._repr_html_()
    assert "unknown" in bw.DuelingBandit(OTHERS["thompson"], ARMS, seed=5)._repr_html_()
    assert len(duel) == 4
    assert duel.arms == tuple(ARMS)
    assert bw.DuelingBandit(bw.Sparring(), 2).seed >= 0


# --- what is promised ------------------------------------------------------------------------


def promised(sparring, **question):
    return bw.bounds.guarantee(sparring, **{"n_arms": 4, "horizon": 10**8, **question})


def test_guarantees_are_those_of_the_corollary():
    gaps = np.array([0.0, 0.5, 0.5, 0.25])
    for policy in (RV, IW):
        for shared in (True, False):
            sparring = bw.Sparring(policy, shared=shared)
            anyone = promised(sparring)
            assert anyone.value == bw.bounds.dueling_adversarial(4, 10**8, policy.estimator)
            fixed = promised(sparring, gaps=gaps)
            assert fixed.value == bw.bounds.dueling_stochastic(gaps, 10**8, policy.estimator)
            assert anyone.theorem == fixed.theorem == "Corollary 2"
            assert ("convexity" in fixed.reason) == shared
            corrupted = promised(sparring, gaps=gaps, corruption=1.0)
            assert corrupted.value == anyone.value
            assert "no corrupted version" in corrupted.reason


def test_guarantees_need_a_theorem_for_each_side():
    iw = bw.Sparring(bw.TsallisINF(alpha=0.7, estimator="iw"), shared=False)
    found = promised(iw)
    assert found.value == 4 * bw.bounds.general_adversarial(0.7, 4, 10**8)
    assert found.theorem == "Theorem 3, on both sides"
    assert promised(bw.Sparring(bw.Exp3())).value == 4 * bw.bounds.exp3(4, 10**8)
    without = {
        "independent": bw.Sparring(bw.UCB1()),
        "asymptotic": bw.Sparring(bw.ThompsonSampling()),
        "user's own": bw.Sparring(bw.TsallisINF(learning_rate=0.1)),
        "importance weighting": bw.Sparring(POWER),
    }
    for word, sparring in without.items():
        for gaps in (None, [0.0, 0.5, 0.5, 0.25]):
            found = promised(sparring, gaps=gaps)
            assert found.value is None and found.theorem is None
            assert word in found.reason
