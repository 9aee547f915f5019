"""Vectors of 4, 8 and 16 lanes give the same bits: the width follows the processor, results do not.

A tile of 16 repetitions is played as four, two or one vectors; see `bothworlds.lanes.native`.
"""

import io
import os
import platform
import subprocess
import sys

import llvmlite.binding
import numpy as np
import pytest

import bothworlds as bw
from bothworlds import registry
from bothworlds.engine import tile
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.lanes import native
from bothworlds.lanes.types import LANES, WIDTHS
from bothworlds.omd import half, powers
from bothworlds.omd.leader import membership
from bothworlds.policies import random_unit
from bothworlds.policies.broad import kernels as broad
from bothworlds.policies.exp3 import kernels as exp3
from bothworlds.policies.exp3plusplus import kernels as exp3plusplus
from bothworlds.policies.tsallis_inf import leading_many

HORIZON = 1_500
POLICIES = {
    word: entry.made(variant, HORIZON)
    for word, (entry, variant) in registry.words().items()
} | {
    "alpha": bw.TsallisINF(alpha=0.25),
    "alpha iw": bw.TsallisINF(alpha=0.75, estimator="iw"),
    "gaps": bw.TsallisINF(alpha=0.25, gaps=[0.0, 0.5, 0.5]),
}  # fmt: skip


def outcomes(monkeypatch, policy, world, horizon=HORIZON, count=LANES, **more):
    """Play a tile at every width."""
    found = []
    for lanes in WIDTHS:
        monkeypatch.setattr(native, "lanes", lambda _, lanes=lanes: lanes)
        job = TileJob("x", policy, world, 3, 0, count, (7, horizon // 2, horizon), **more)
        found.append(run_job(job))
    return found


def same(found):
    """Return the last outcome, to whose bits the others are equal."""
    *others, last = found
    for each in others:
        for one, other in (
            (each.cost, last.cost), (each.plays, last.plays), (each.tracked, last.tracked),
            (each.realised, last.realised),
        ):  # fmt: skip
            assert (one is None) == (other is None)
            assert one is None or np.array_equal(one, other)
    assert len(np.unique(last.cost[:, -1])) > 1
    return last


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_policy(monkeypatch, policy):
    same(outcomes(monkeypatch, policy, bw.environments.Stochastic([0.3, 0.6, 0.7])))
    if policy != POLICIES["gaps"]:
        same(outcomes(monkeypatch, policy, bw.environments.Switching(12, 0.25), count=13))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["iw", "rv"])
@pytest.mark.parametrize("n_arms", [2, 5, 8, 9, 25, 132])
def test_vectors_in_halves(monkeypatch, n_arms, estimator):
    """From 5 arms on the narrower vectors are taken half by half; up to 8, plays count in bytes."""
    policy = bw.TsallisINF(estimator=estimator)
    last = same(outcomes(monkeypatch, policy, bw.environments.Stochastic.gap(n_arms, 0.9)))
    assert (last.plays.sum(axis=1) == HORIZON).all()
    assert n_arms > 25 or (last.plays.max(axis=1) > 300).all()  # more than a byte counts


LEADERS = {
    "rv": (bw.TsallisINF(), 8, half.ESTIMATES + 8),
    "iw": (bw.TsallisINF(estimator="iw"), 12, half.ESTIMATES + 12),
    "many rv": (bw.TsallisINF(), 520, leading_many.MODE),
    "many iw": (bw.TsallisINF(estimator="iw"), 520, leading_many.MODE),
    "alpha rv": (bw.TsallisINF(alpha=0.25), 4, powers.ESTIMATES + 4 * powers.PER_ARM),
    "alpha iw": (
        bw.TsallisINF(alpha=0.75, estimator="iw"), 4, powers.ESTIMATES + 4 * powers.PER_ARM
    ),
    "exp3": (bw.Exp3(), 20, exp3.ESTIMATES + 2 * 20),
    "exp3++": (bw.Exp3PlusPlus(), 3, exp3plusplus.ESTIMATES + 6 * 3),
    "broad": (bw.Broad(10**6), 4, broad.ESTIMATES + 2 * 4),
}  # fmt: skip
"""Policies, numbers of arms, and the first row of the mode."""


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "n_arms", "row"), LEADERS.values(), ids=LEADERS)
def test_leader_modes_and_runs_that_continue_at_another_width(monkeypatch, policy, n_arms, row):
    means = [0.3, *[0.95] * (n_arms - 1)]
    world = bw.environments.Piecewise([means, means[::-1]], every=40_000)
    found = outcomes(monkeypatch, policy, world, 36_000, keep=True)
    same(found)
    with np.load(io.BytesIO(found[-1].state)) as saved:
        mode = saved["array0"].reshape(-1, LANES)[row:]
    assert mode[membership.LEADS].any()
    # The best arm changes, so that lanes leave the mode; each width goes on from another's state.
    ends = []
    for lanes, earlier in zip(WIDTHS, (*found[1:], found[0]), strict=True):
        monkeypatch.setattr(native, "lanes", lambda _, lanes=lanes: lanes)
        job = TileJob(
            "x", policy, world, 3, 0, LANES, (7, 18_000, 36_000, 70_000), keep=True, after=36_000,
            earlier=earlier,
        )  # fmt: skip
        ends.append(run_job(job))
    same(ends)


@bw.policies.custom
class OneByOne:
    def start(n_arms):
        return np.zeros(n_arms)

    def choose(state, parameters, n_arms, t, generator):
        return int(random_unit(generator) * n_arms)

    def update(state, parameters, n_arms, t, arm, probability, loss):
        state[arm] += loss


@bw.environments.custom
class Turning:
    def mean(state, parameters, n_arms, t, arm):
        return 0.2 if t % n_arms == arm else 0.7

    def loss(state, parameters, n_arms, t, arm, u):
        return 1.0 if u < (0.2 if t % n_arms == arm else 0.7) else 0.0


def test_attacks_and_kernels_that_take_one_repetition(monkeypatch):
    still = bw.environments.Stochastic([0.3, 0.6, 0.7])
    attacked = bw.environments.Corrupted(still, budget=40.0)
    same(outcomes(monkeypatch, bw.TsallisINF(), attacked))
    same(outcomes(monkeypatch, bw.UCB1(), still, realised=True))
    same(outcomes(monkeypatch, OneByOne(), still, count=9))
    same(outcomes(monkeypatch, bw.TsallisINF(), Turning(3), count=9))
    same(outcomes(monkeypatch, OneByOne(), Turning(3), count=5))


WORLDS = (
    bw.environments.Stochastic([0.2, 0.5, 0.6], noise="beta"),
    bw.environments.Adaptive(3),
    bw.environments.Adversarial(np.random.default_rng(0).random((HORIZON, 3))),
    bw.environments.AdversarialWithGap(3, 0.25),
    bw.environments.Constrained([0.0, 0.25, 0.5], np.full(HORIZON, 0.25)),
    bw.environments.Contaminated(bw.environments.Stochastic([0.2, 0.5, 0.6]), 20),
    bw.environments.Delayed(
        bw.environments.Stochastic([0.2, 0.5, 0.6]), bw.environments.UniformDelay(0, 9)
    ),
)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_every_kind_of_world(monkeypatch, world):
    same(outcomes(monkeypatch, bw.TsallisINF(), world))


@pytest.mark.parametrize("shared", [True, False])
def test_duels(monkeypatch, shared):
    for world in (
        bw.environments.Utilities([0.3, 0.9, 0.25, 0.5]),
        bw.environments.Preferences([[0.5, 0.6, 0.7], [0.4, 0.5, 0.9], [0.3, 0.1, 0.5]]),
    ):
        same(outcomes(monkeypatch, bw.Sparring(bw.TsallisINF(), shared=shared), world))


@pytest.mark.parametrize(("in_register", "few", "many"), [(2, 8, 4), (4, 16, 8), (8, 16, 16)])
def test_few_arms_take_more_registers(monkeypatch, in_register, few, many):
    """Where registers hold fewer lanes than a tile has, rounds with few numbers take more."""
    monkeypatch.setattr(native, "in_register", lambda: in_register)
    loop, widths = tile._loop, []
    monkeypatch.setattr(tile, "_loop", lambda lanes: widths.append(lanes) or loop(lanes))
    world, others = (bw.environments.Stochastic.gap(n_arms, 0.3) for n_arms in (3, 4))
    for policy, environment, lanes in (
        (bw.TsallisINF(), world, few), (bw.TsallisINF(), others, many), (bw.UCB1(), world, many),
    ):  # fmt: skip
        widths.clear()
        run_job(TileJob("x", policy, environment, 3, 0, LANES, (9,)))
        assert set(widths) == {lanes}


PROCESSORS = [("generic", "", 4)]
if platform.machine() in ("x86_64", "AMD64"):
    PROCESSORS += [
        ("nehalem", "", 4), ("haswell", "", 8), ("skylake-avx512", "", 16),
        # LLVM 20 leaves the wide registers of a processor unused that it knows without them.
        ("haswell", "+avx512f", 16 if llvmlite.binding.llvm_version_info >= (21,) else 8),
    ]  # fmt: skip


@pytest.mark.processes
@pytest.mark.parametrize(("name", "features", "lanes"), PROCESSORS)
def test_the_width_follows_the_processor_that_numba_compiles_for(name, features, lanes):
    code = "from bothworlds.lanes import native; print(native.lanes())"
    named = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **named}, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(lanes), done.stderr
