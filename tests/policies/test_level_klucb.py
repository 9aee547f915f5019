"""KL-UCB in tiles: arm by arm what the kernel of one bandit plays."""

import io

import numpy as np
import pytest

import bothworlds as bw
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.lanes.types import LANES
from bothworlds.policies.klucb import level
from helpers.programs import plain

HORIZON = 12_000
WORLDS = {
    "stochastic": bw.environments.Stochastic.gap(5, 1 / 4),
    "switching": bw.environments.Switching(3, 1 / 4),
    "betrayed": bw.environments.Adaptive(4, "betray", 1 / 4),
    "fractions": bw.environments.AdversarialWithGap(n_arms=4, gap=1 / 4),
    "tied": bw.environments.Stochastic([0.4, 0.4, 0.6]),
    "certain": bw.environments.Stochastic([0.0, 1.0, 0.5]),
}


def played(policy, world, count=LANES, **more):
    checkpoints = tuple(range(HORIZON // 20, HORIZON + 1, HORIZON // 20))
    return run_job(TileJob("P", policy, world, 1, 0, count, checkpoints, shares=True, **more))


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_a_tile_plays_the_arms_of_one_bandit(name):
    world = WORLDS[name]
    for policy in (bw.KLUCB(), bw.KLUCB(c=3.0)):
        ours = played(policy, world, keep=True)
        theirs = played(plain(policy), world, count=3)
        assert np.array_equal(ours.shares[:3], theirs.shares)
        assert np.array_equal(ours.cost[:3], theirs.cost)
        if name == "stochastic":
            with np.load(io.BytesIO(ours.state)) as kept:
                rows = kept["array0"].reshape(-1, LANES)
            # Most lanes ended with a level that decides the next round.
            assert (rows[level.UNTIL] > HORIZON).mean() > 0.5
    other = played(bw.KLUCB(), world)
    # Another budget plays other arms, except where one arm never loses.
    assert np.array_equal(other.shares, ours.shares) == (name == "certain")


def test_a_tile_that_was_tampered_with_is_refused():
    program = bw.KLUCB().program(3, lanes=True)
    state = np.repeat(program.start()[:, None], LANES, axis=1)
    assert program.sound(state)
    for row, value in [
        (level.LEAD, 3.0), (level.LEAD, -1.0), (level.LEAD, 0.5), (level.LEVEL, 1.0),
        (level.ARMS, -1.0), (level.ARMS, 0.5), (level.ARMS + 3, 1.0), (level.UNTIL, np.nan),
    ]:  # fmt: skip
        changed = state.copy()
        changed[row, 2] = value
        assert not program.sound(changed), (row, value)


def test_a_policy_of_ones_own_keeps_its_kernels():
    class Mine(bw.KLUCB):
        def kernels(self):
            return bw.KLUCB().kernels()

    assert bw.KLUCB().program(2, lanes=True).kernels.choose is level.choose
    assert Mine().program(2, lanes=True).kernels is bw.KLUCB().kernels()
