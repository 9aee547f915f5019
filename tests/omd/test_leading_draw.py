"""Leader mode: another arm is drawn by its weight, whatever the table was made for."""

import numpy as np
import pytest

from bothworlds.lanes.jit import compiled
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import pointer
from bothworlds.omd.leader import changing, drawing, layout, rounds
from bothworlds.omd.leader.membership import LEADER, NOBODY
from bothworlds.policies.tsallis_inf.parameters import near_limit

PLACE = 5
POINTS = 200_000
ARMS = pytest.mark.parametrize("n_arms", [2, 3, 16, 17, 40])
BOTH = pytest.mark.parametrize("reduced", [False, True], ids=["iw", "rv"])


@compiled
def begin_iw(K, t, L, M, eta):
    changing.enter(K, t, pointer(L), 1, L.min() - 2.0 / eta, pointer(M), PLACE, LANES, eta, None)


@compiled
def begin_rv(K, t, L, M, eta):
    x = L.min() - 2.0 / eta
    changing.enter(K, t, pointer(L), 1, x, pointer(M), PLACE, LANES, eta, near_limit(eta))


@compiled
def draw_iw(K, M, s, f, r, arms):
    for k in range(r.size):
        arms[k] = drawing.find_other(K, pointer(M), PLACE, LANES, s, f, None, r[k])


@compiled
def draw_rv(K, M, s, f, r, arms):
    for k in range(r.size):
        arms[k] = drawing.find_other(K, pointer(M), PLACE, LANES, s, f, 1.0, r[k])


@compiled
def learn_iw(K, M, arm, inverse_p, loss):
    rounds.learn_other(K, pointer(M), PLACE, LANES, None, arm, inverse_p, loss)


@compiled
def learn_rv(K, M, arm, inverse_p, loss):
    rounds.learn_other(K, pointer(M), PLACE, LANES, True, arm, inverse_p, loss)


class Lane:
    """A lane of a tile that has just entered the mode, in round ``t``."""

    def __init__(self, n_arms, reduced, t=40_000, seed=0):
        rng = np.random.default_rng([seed, n_arms, reduced])
        self.K, self.reduced = n_arms, reduced
        self.eta = (4.0 if reduced else 2.0) / np.sqrt(t)
        estimates = t * rng.uniform(0.02, 0.6, n_arms)
        estimates[rng.integers(n_arms)] = 0.0
        self.rows = np.zeros((layout.rows(n_arms, reduced), LANES))
        self.M = self.rows.reshape(-1)
        (begin_rv if reduced else begin_iw)(n_arms, t, estimates, self.M, self.eta)
        self.leader = int(self.rows[LEADER, PLACE])
        start = (layout.OTHERS + PLACE * -(-n_arms // LANES)) * LANES
        self.V = self.M[start : start + n_arms]
        far = start + 2 * LANES * -(-n_arms // LANES) * LANES
        self.far = self.M[far : far + n_arms] if reduced else np.zeros(n_arms)

    def at(self, share, far_share):
        """Return s and f, as shares of their radii."""
        reach = self.rows[layout.FAR_REACH, PLACE]
        f = far_share * reach if self.reduced and reach < NOBODY else 0.0
        return share * self.rows[layout.REACH, PLACE], f

    def moved(self, s, f):
        return self.V + np.where(self.far != 0.0, f, s)

    def weights(self, s, f):
        w = self.moved(s, f) ** -2.0
        w[self.leader] = 0.0
        return w / w.sum()

    def learn(self, arm, s, f, loss):
        v = self.moved(s, f)[arm]
        (learn_rv if self.reduced else learn_iw)(self.K, self.M, arm, v * v, loss)

    def counts(self, s, f, r):
        """Return how many of the points ``r`` fall to every arm."""
        arms = np.zeros(r.size, np.int64)
        (draw_rv if self.reduced else draw_iw)(self.K, self.M, s, f, r, arms)
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


@BOTH
@ARMS
@pytest.mark.parametrize("share", [-0.98, 0.0, 0.98])
def test_points_of_a_grid_fall_to_arms_by_their_weights(n_arms, reduced, share):
    lane = Lane(n_arms, reduced)
    assert lane.surplus(*lane.at(share, -share)) < tolerance(n_arms)


@BOTH
@ARMS
def test_they_do_after_arms_have_moved(n_arms, reduced):
    lane = Lane(n_arms, reduced)
    s, f = lane.at(0.5, 0.5)
    rng = np.random.default_rng(1)
    arms = [i for i in range(n_arms) if i != lane.leader]
    for arm in rng.choice(arms, min(20, 3 * n_arms)):
        lane.learn(int(arm), s, f, float(rng.integers(2)))
    s, f = lane.at(-0.9, -0.9)
    assert lane.surplus(s, f) < tolerance(n_arms)


@BOTH
@pytest.mark.parametrize("n_arms", [150, 520, 2048])
def test_random_points_fall_to_many_arms_by_their_weights(n_arms, reduced):
    lane = Lane(n_arms, reduced)
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
    lane = Lane(40, True)
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


@BOTH
def test_the_grid_sees_a_shift_to_the_wrong_side(reduced):
    lane = Lane(40, reduced)
    s, f = lane.at(0.98, 0.98)
    lane.weights = lambda *_: Lane.weights(lane, -s, -f)
    assert lane.surplus(s, f) > 2 * tolerance(40)


@BOTH
def test_a_crafted_table_cannot_lead_out_of_bounds(reduced):
    lane = Lane(20, reduced)
    arms = np.zeros(3, np.int64)
    draw = draw_rv if reduced else draw_iw
    for bad in (np.nan, 0.0, -1.0, 1e60):
        lane.rows[layout.ENDS + PLACE] = bad
        draw(20, lane.M, 0.0, 0.0, np.array([0.0, 0.5, 1.0]), arms)
        assert ((arms >= 0) & (arms < 20) & (arms != lane.leader)).all()
