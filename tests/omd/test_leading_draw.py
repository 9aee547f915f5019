"""Leader mode: another arm is drawn by its weight, whatever the table was made for."""

import functools

import numpy as np
import pytest

from bothworlds.lanes.jit import compiled
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import pointer
from bothworlds.omd.leader import barrier, half, layout, powers
from bothworlds.omd.leader.membership import ABSENT, LEADER

PLACE = 5
POINTS = 200_000
ARMS = pytest.mark.parametrize("n_arms", [2, 3, 16, 17, 40])
FAMILIES = {
    "iw": (half.mode, 0.5, False),
    "rv": (half.mode, 0.5, True),
    "barrier": (barrier.mode, 1.0, False),
    "alpha 0.7": (powers.mode, 0.3, False),
    "alpha 0.3, rv": (powers.mode, 0.7, True),
}
"""Functions, c, and whether variance is reduced."""
ALL = pytest.mark.parametrize("name", FAMILIES)
BOTH = pytest.mark.parametrize("name", ["iw", "rv"])


@functools.cache
def functions(name):
    """Return compiled functions that let a lane enter, draw and learn."""
    mode, _, reduced = FAMILIES[name]
    enter, find_other, learn_other = mode.enter, mode.find_other, mode.learn_other

    @compiled
    def begin(K, t, L, M, B, c, eta, near_below):
        x = L.min() - 1.0 / (c * eta)
        limit = near_below if reduced else None
        m, b, unit = pointer(M), pointer(B), c * eta
        enter(K, t, pointer(L), 1, x, unit, m, PLACE, LANES, b, eta, limit)

    @compiled
    def draw(K, M, B, s, f, r, arms):
        limit = 1.0 if reduced else None
        for k in range(r.size):
            arms[k], _ = find_other(K, pointer(M), PLACE, LANES, pointer(B), s, f, limit, r[k])

    @compiled
    def learn(K, M, B, arm, inverse_p, loss):
        how = True if reduced else None
        learn_other(K, pointer(M), PLACE, LANES, pointer(B), how, arm, inverse_p, loss)

    return begin, draw, learn


class Lane:
    """A lane of a tile that has just entered the mode, in round ``t``."""

    def __init__(self, n_arms, name, t=40_000, seed=0):
        _, self.c, self.reduced = FAMILIES[name]
        rng = np.random.default_rng([seed, n_arms, self.reduced])
        self.K = n_arms
        self.B = np.array(powers.parameters(1.0 - self.c))
        self.eta = (4.0 if self.reduced else 2.0) / np.sqrt(t)
        estimates = t * rng.uniform(0.02, 0.6, n_arms)
        estimates[rng.integers(n_arms)] = 0.0
        self.rows = np.zeros((layout.rows(n_arms, self.reduced), LANES))
        self.M = self.rows.reshape(-1)
        begin, self.draw, self.tell = functions(name)
        limit = self.eta ** -(1.0 + 2.0 * self.c) / self.c
        begin(n_arms, t, estimates, self.M, self.B, self.c, self.eta, limit)
        self.leader = int(self.rows[LEADER, PLACE])
        start = (layout.OTHERS + PLACE * -(-n_arms // LANES)) * LANES
        self.V = self.M[start : start + n_arms]
        far = start + 2 * LANES * -(-n_arms // LANES) * LANES
        self.far = self.M[far : far + n_arms] if self.reduced else np.zeros(n_arms)

    def at(self, share, far_share):
        """Return s and f, as shares of their radii."""
        reach = self.rows[layout.FAR_REACH, PLACE]
        f = far_share * reach if self.reduced and reach < ABSENT else 0.0
        return share * self.rows[layout.REACH, PLACE], f

    def moved(self, s, f):
        return self.V + np.where(self.far != 0.0, f, s)

    def weights(self, s, f):
        w = self.moved(s, f) ** (-1.0 / self.c)
        w[self.leader] = 0.0
        return w / w.sum()

    def learn(self, arm, s, f, loss):
        inverse_p = self.moved(s, f)[arm] ** (1.0 / self.c)
        self.tell(self.K, self.M, self.B, arm, inverse_p, loss)

    def counts(self, s, f, r):
        """Return how many of the points ``r`` fall to every arm."""
        arms = np.zeros(r.size, np.int64)
        self.draw(self.K, self.M, self.B, s, f, r, arms)
        assert self.leader not in arms
        return np.bincount(arms, minlength=self.K)

    def surplus(self, s, f):
        """Return by how many points of a grid an arm got more or less than its share, at most."""
        counts = self.counts(s, f, (np.arange(POINTS) + 0.5) / POINTS)
        return np.abs(counts - POINTS * self.weights(s, f)).max()


def tolerance(n_arms):
    # What is not taken in the room of an arm is stretched over all: each stretch misses by one, and
    # where weights have risen there are stretches of stretches.
    return 30.0 + 2.0 * n_arms


@pytest.mark.slow
@ALL
@ARMS
@pytest.mark.parametrize("share", [-0.98, 0.0, 0.98])
def test_points_of_a_grid_fall_to_arms_by_their_weights(n_arms, name, share):
    lane = Lane(n_arms, name)
    assert lane.surplus(*lane.at(share, -share)) < tolerance(n_arms)


@pytest.mark.slow
@ALL
@ARMS
def test_they_do_after_arms_have_moved(n_arms, name):
    lane = Lane(n_arms, name)
    s, f = lane.at(0.5, 0.5)
    rng = np.random.default_rng(1)
    arms = [i for i in range(n_arms) if i != lane.leader]
    for arm in rng.choice(arms, min(20, 3 * n_arms)):
        lane.learn(int(arm), s, f, float(rng.integers(2)))
    s, f = lane.at(-0.9, -0.9)
    assert lane.surplus(s, f) < tolerance(n_arms)


@BOTH
@pytest.mark.parametrize("n_arms", [150, 520, 2048])
def test_random_points_fall_to_many_arms_by_their_weights(n_arms, name):
    lane = Lane(n_arms, name)
    s, f = lane.at(-0.9, -0.9)
    r = np.random.default_rng(2).random(4_000_000)
    others = np.arange(n_arms) != lane.leader
    counts = lane.counts(s, f, r)[others]

    def chi_square(weights):
        """Return in standard deviations how far the counts are from what was expected."""
        expected = r.size * weights[others]
        free = n_arms - 2
        return (((counts - expected) ** 2 / expected).sum() - free) / np.sqrt(2.0 * free)

    assert abs(chi_square(lane.weights(s, f))) < 4.0
    assert chi_square(lane.weights(-s, -f)) > 8.0


def fallen(widened):
    """Return a lane of which one arm has fallen, with or without more room for it."""
    lane = Lane(40, "rv")
    near = [i for i in range(40) if i != lane.leader and lane.far[i] == 0.0]
    start = (layout.OTHERS + LANES * -(-40 // LANES)) * LANES
    room = lane.M[start : start + LANES * 48].copy(), lane.rows[layout.ENDS + PLACE].copy()
    lane.learn(near[0], *lane.at(-0.9, 0.0), 0.0)
    if not widened:
        lane.M[start : start + LANES * 48], lane.rows[layout.ENDS + PLACE] = room
    return lane


def test_an_arm_whose_weight_has_risen_gets_more_points():
    lane = fallen(widened=True)
    assert lane.surplus(*lane.at(-0.9, 0.0)) < tolerance(40)


def test_the_grid_sees_a_rise_that_was_not_noted():
    lane = fallen(widened=False)
    assert lane.surplus(*lane.at(-0.9, 0.0)) > 5 * tolerance(40)


def test_an_arm_whose_weight_has_fallen_gives_room_back_where_powers_cost_much():
    for name, keeps in (("alpha 0.7", False), ("iw", True)):
        lane = Lane(40, name)
        arm = int(np.argsort(lane.V)[0])
        before = lane.rows[layout.ENDS + PLACE, -1]
        for _ in range(3):
            lane.learn(arm, *lane.at(0.0, 0.0), 1.0)
        assert (lane.rows[layout.ENDS + PLACE, -1] == before) == keeps
        assert lane.surplus(*lane.at(-0.9, 0.0)) < tolerance(40)


@BOTH
def test_the_grid_sees_a_shift_to_the_wrong_side(name):
    lane = Lane(40, name)
    s, f = lane.at(0.98, 0.98)
    lane.weights = lambda *_: Lane.weights(lane, -s, -f)
    assert lane.surplus(s, f) > 2 * tolerance(40)


@BOTH
def test_a_crafted_table_cannot_lead_out_of_bounds(name):
    lane = Lane(20, name)
    arms = np.zeros(3, np.int64)
    for bad in (np.nan, 0.0, -1.0, 1e60):
        lane.rows[layout.ENDS + PLACE] = bad
        lane.draw(20, lane.M, lane.B, 0.0, 0.0, np.array([0.0, 0.5, 1.0]), arms)
        assert ((arms >= 0) & (arms < 20) & (arms != lane.leader)).all()
