"""First calls of compiled loops: what Numba learns at them is settled before threads run."""

import numpy as np
import pytest
from numba.core.typing.context import BaseContext

import bothworlds as bw
from bothworlds.engine import delayed
from bothworlds.engine.tile import TileJob, compile_kernels, run_job


@pytest.fixture
def settled(monkeypatch):
    """Let Numba learn no conversion of types; it keeps them in tables without a lock."""

    def refuse(*types):
        raise AssertionError("a conversion was left to the first call")

    def patch():
        monkeypatch.setattr(BaseContext, "install_possible_conversions", refuse)

    return patch


@pytest.mark.parametrize("policy", [bw.Exp3(), bw.UCB1(c=1.25)])
def test_a_tile_leaves_nothing_to_its_first_call(policy, settled):
    world = bw.environments.Stochastic([0.3, 0.5, 0.5])
    job = TileJob("x", policy, world, 0, 0, 4, (10, 20))
    compile_kernels(job.program, world)
    settled()
    outcome = run_job(job)
    assert np.array_equal(outcome.plays.sum(axis=1), np.full(4, 20))


def test_nor_does_a_duel(settled):
    policy, world = bw.Sparring(bw.Exp3()), bw.environments.Utilities([0.5, 0.4])
    job = TileJob("x", policy, world, 0, 0, 4, (10, 20))
    compile_kernels(job.program, world)
    settled()
    outcome = run_job(job)
    assert np.array_equal(outcome.plays.sum(axis=1), np.full(4, 40))


def test_nor_does_late_feedback(settled):
    world = bw.environments.Delayed(bw.environments.Stochastic([0.3, 0.5, 0.5]), 3)
    job = TileJob("x", bw.Exp3(), world, 0, 0, 4, (10, 20))
    delayed.compile_kernels(job)
    settled()
    assert np.array_equal(delayed.run_job(job).plays.sum(axis=1), np.full(4, 20))
