"""A bandit compiles the solver for its number of arms alone, and decides as with both."""

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.policies.tsallis_inf import half
from bothworlds.policies.tsallis_inf.parameters import rate_now, root_rate
from helpers.programs import own_program


def played(policy, n_arms, rounds=150):
    """Return the decisions of a bandit whose arms come and go, and its last state."""
    losses = np.random.default_rng(5).random((rounds, n_arms + 2))
    bandit = bw.Bandit(policy, n_arms, seed=3)
    found = []
    for n, row in enumerate(losses):
        decision = bandit.ask()
        found.append((decision.index, decision.probability))
        bandit.tell(decision, loss=float(row[decision.index]))
        if n == rounds // 3:
            bandit.add_arm("new")
        if n == 2 * rounds // 3:
            bandit.retire_arm("new")
    return found, bandit._core.F.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [1, 2, 8, 9])
@pytest.mark.parametrize("estimator", ["iw", "rv"])
def test_decisions_are_those_of_both_solvers(estimator, n_arms, monkeypatch):
    policy = bw.TsallisINF(estimator=estimator)
    one = played(policy, n_arms)
    monkeypatch.setattr(bw.TsallisINF, "program", own_program)
    assert one == played(policy, n_arms)


@pytest.mark.parametrize("estimator", ["iw", "rv"])
def test_which_solver_it_is(estimator):
    policy = bw.TsallisINF(estimator=estimator)
    other = bw.TsallisINF(estimator=estimator, learning_rate=0.1)
    for each, rate in ((policy, root_rate), (other, rate_now)):
        for n_arms in (2, 8):
            assert each.program(n_arms).prompt is half.one_solver(estimator, True, rate=rate)
        for n_arms in (1, 9, 511):
            assert each.program(n_arms).prompt is half.one_solver(estimator, False, rate=rate)
    assert policy.program(512).prompt is policy.program(512).kernels
    general = bw.TsallisINF(alpha=0.3, estimator=estimator)
    assert general.program(4).prompt is general.kernels()


def test_a_subclass_with_kernels_of_its_own_keeps_them():
    class Own(bw.TsallisINF):
        def kernels(self):
            return half.IW

    assert Own().program(4).prompt is half.IW
    assert Own().program(4, lanes=True, horizon=10).kernels is half.IW
