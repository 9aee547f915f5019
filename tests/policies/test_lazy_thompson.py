"""Thompson sampling in tiles: the tails, every arm's probability, lanes by themselves, regret."""

import math

import mpmath
import numpy as np
import pytest
from numba.core import types
from scipy import stats

import bothworlds as bw
from bothworlds.engine.policy_loops import compiled, loop
from bothworlds.engine.tile import TileJob, run_job
from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import CHOOSE_WIDE, UPDATE_WIDE
from bothworlds.lanes.random import uniform
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import load, pointer, store, zeros
from bothworlds.policies.thompson import lazy, tails
from bothworlds.seeding import stream_words
from helpers.programs import plain

# --- tails -----------------------------------------------------------------------------------

POSTERIORS = [
    (0, 0), (0, 3), (5, 0), (0, 10**7), (1, 1), (3, 12), (14, 15), (16, 17), (40, 3),
    (375, 625), (12_500, 20_000), (3_750_000, 6_250_000), (10**7, 2), (1, 10**7),
]  # fmt: skip
"""Numbers of losses 1 and 0."""


def exact_density(x, y, theta):
    """Return the density of Beta(1 + x, 1 + y), in the precision of mpmath."""
    theta = mpmath.mpf(theta)
    log_beta = mpmath.loggamma(1 + x) + mpmath.loggamma(1 + y) - mpmath.loggamma(2 + x + y)
    return mpmath.exp(x * mpmath.log(theta) + y * mpmath.log(1 - theta) - log_beta)


def levels(x, y):
    """Return levels on both sides of a posterior, near and far."""
    mean, sd = lazy.mean_and_spread.py_func(x, y)
    found = mean + sd * np.array([-6.0, -3.0, -1.0, 0.5, 2.0, 4.0, 8.0])
    return found[(found > 0.0) & (found < 1.0)]


@pytest.mark.parametrize(("x", "y"), POSTERIORS)
def test_the_density_agrees_with_sixty_digits(x, y):
    with mpmath.workdps(60):
        for c in levels(x, y):
            right = exact_density(x, y, c)
            assert abs(tails.density(float(x), float(y), c) / right - 1) < 1e-11


@pytest.mark.parametrize(("x", "y"), POSTERIORS)
def test_proposals_that_are_kept_have_the_density_of_the_posterior(x, y):
    """m |g| e^(g h) e^z = f(c + h): mass, proposal and thinning, as the code has them."""
    x, y = float(x), float(y)
    seen = 0
    with mpmath.workdps(60):
        for c in levels(x, y):
            g = tails.slope(x, y, c)
            for share in (0.01, 0.3, 1.0, 4.0):
                h = -share / g if g != 0.0 else 0.0
                if g == 0.0 or not 0.0 < c + h < 1.0:
                    continue
                seen += 1
                m = tails.mass(x, y, c, lazy.BELOW if g > 0.0 else lazy.ABOVE)
                proposed = (
                    abs(g) * math.exp(-share) * (m if m < 1.0 else tails.density(x, y, c) / abs(g))
                )
                kept = tails.log_kept(x, y, c, h)
                assert kept <= 1e-15
                right = exact_density(int(x), int(y), mpmath.mpf(c) + mpmath.mpf(h))
                assert abs(proposed * math.exp(kept) / right - 1) < 1e-10
    assert seen > 2 or x + y == 0.0


def test_the_bound_of_the_leaders_mass_holds_until_its_limit():
    rng = np.random.default_rng(4)
    for _ in range(300):
        n = 10.0 ** rng.uniform(1, 6)
        x = float(round(n * rng.uniform(0.05, 0.9)))
        y = float(round(n)) - x
        mean, sd = lazy.mean_and_spread.py_func(x, y)
        c = min(mean + rng.uniform(1.5, 5.0) * sd, 1.0 - 0.1 * (1.0 - mean))
        limit = lazy.limit_of(x, y, c)
        bound = tails.mass(limit, y, c, lazy.ABOVE)
        if bound < 1.0:
            for more in (x, 0.5 * (x + limit), limit):
                for zeros_seen in (y, y + 1.0, 1.5 * y + 7.0):
                    assert tails.mass(math.floor(more), zeros_seen, c, lazy.ABOVE) <= bound * (
                        1 + 1e-10
                    )
            # And it is a bound at all: one loss more than the limit can exceed it.
            assert tails.mass(limit + 1.0, y, c, lazy.ABOVE) > bound


# --- draws at given posteriors ---------------------------------------------------------------

_words, _numbers = types.int64[::1], types.float64[::1]


@jit
def draw_again(choose, K, first, rounds, S, G, counts):
    """Choose again and again from the same counts, and count the arms of every lane."""
    like = zeros()
    s, g = pointer(S), pointer(G)
    arms = np.zeros(16, np.int64)
    a = pointer(arms)
    for t in range(first, first + rounds):
        store(a, 0, choose(K, t, s, s, g, uniform(g, like)))
        for lane in range(16):
            counts[arms[lane], lane] += 1


@jit
def learn(update, K, t, S, G, arms, losses):
    """Let every lane learn a loss of an arm, over and over."""
    like = zeros()
    s, g = pointer(S), pointer(G)
    for n in range(losses.shape[0] // 16):
        update(K, t, s, s, g, load(pointer(arms), 0, like), like, load(pointer(losses), n, like))


DRAW = types.void(
    types.FunctionType(CHOOSE_WIDE), types.int64, types.int64, types.int64, _numbers, _words,
    types.int64[:, ::1],
)  # fmt: skip
LEARN = types.void(
    types.FunctionType(UPDATE_WIDE), types.int64, types.int64, _numbers, _words, _words, _numbers
)


def tile(posteriors):
    """Return the state of a tile and its generators; a lane per list of (ones, zeros) by arm."""
    K = len(posteriors[0])
    S = np.repeat(lazy.start(K)[:, None], LANES, axis=1)
    counts = np.array([posteriors[lane % len(posteriors)] for lane in range(LANES)], float)
    S[lazy.ARMS : lazy.ARMS + K] = counts[:, :, 0].T
    S[lazy.ARMS + K : lazy.ARMS + 2 * K] = counts[:, :, 1].T
    roots = S[lazy.ARMS + 3 * K : lazy.ARMS + 5 * K]
    roots[:] = 1.0 / np.sqrt(9.0 * (S[lazy.ARMS : lazy.ARMS + 2 * K] + lazy.TWO_THIRDS))
    G = np.stack([stream_words(9, "draws", lane) for lane in range(LANES)], axis=1)
    return S.ravel().copy(), G.ravel().copy()


def drawn(K, S, G, rounds, first=10**6):
    """Return how often every lane draws each arm."""
    counts = np.zeros((K, LANES), np.int64)
    loop(draw_again, DRAW)(compiled(lazy.choose, CHOOSE_WIDE), K, first, rounds, S, G, counts)
    return counts.T


def chances(posterior):
    """Return every arm's probability to have the least theta, by Gauss and Legendre."""
    laws = [stats.beta(1 + x, 1 + y) for x, y in posterior]
    share = [1e-13, 1e-8, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1 - 1e-4, 1 - 1e-9]
    cuts = np.unique([law.ppf(share) for law in laws])
    cuts = np.concatenate([[0.0], cuts, [1.0]])
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half = np.diff(cuts) / 2
    theta = (cuts[:-1] + half)[:, None] + half[:, None] * nodes
    above = np.array([law.sf(theta) for law in laws])
    found = np.array([
        (law.pdf(theta) * np.delete(above, i, 0).prod(0) * half[:, None] * weights).sum()
        for i, law in enumerate(laws)
    ])  # fmt: skip
    assert found.sum() == pytest.approx(1.0, abs=1e-7)
    return found / found.sum()


def misfit(counts, p):
    """Return the p-value of Pearson's test; rare arms are put together."""
    order = np.argsort(p)
    n = counts.sum()
    rare = np.cumsum(p[order]) * n < 10.0
    merged = [counts[order][rare].sum(), *counts[order][~rare]]
    expected = n * np.array([p[order][rare].sum(), *p[order][~rare]])
    if expected[0] < 10.0:
        merged[1] += merged[0]
        expected[1] += expected[0]
        merged, expected = merged[1:], expected[1:]
    if len(expected) < 2:
        return 1.0
    return float(stats.chisquare(merged, expected).pvalue)


def followers(n, mean=0.5):
    return [(round(n * mean) + i % 3, n - round(n * mean)) for i in range(7)]


EIGHT = {
    "late": [(37_500, 62_500), *followers(150)],
    "later": [(3_750_000, 6_250_000), *followers(400)],
    "leader last": [*followers(90), (3_000, 5_000)],
    "hardly pulled": [(400_000, 600_000), (1, 0), (2, 1), (3, 0), (2, 0), (4, 1), (5, 1), (9, 3)],
    "never lost": [(0, 2_000), (2, 4), (3, 3), (3, 2), (1, 1), (4, 3), (2, 2), (5, 1)],
    "two tie": [(3_750, 6_250), (3_760, 6_240), *followers(150)[:6]],
    "three tie": [(150, 250), (380, 620), (3_770, 6_230), *followers(120)[:5]],
    "four tie": [(150, 250), (380, 620), (3_770, 6_230), (41, 60), *followers(200, 0.55)[:4]],
    "all tie": [(50, 50)] * 8,
    "early": [(1, 0), (0, 1), (1, 1), (0, 0), (2, 1), (1, 2), (0, 0), (3, 1)],
    "nothing seen": [(0, 0)] * 8,
    "close": [(4_000, 6_000), *followers(1_000, 0.45)],
    "losing": [(4_000, 4_000), (3_000, 3_100), *followers(300, 0.55)[:6]],
    "far": [(100, 900), *followers(900, 0.9)],
}
MODES = {lazy.LAZY: "lazy", lazy.CONTENDED: "contended", lazy.PLAIN: "plain"}


@pytest.mark.statistical
@pytest.mark.slow
def test_lanes_of_every_mode_draw_arms_with_their_probabilities():
    posteriors = list(EIGHT.values())
    S, G = tile(posteriors)
    drawn(8, S, G, 2)
    modes = {MODES[mode] for mode in S.reshape(-1, LANES)[lazy.MODE]}
    assert modes == {"lazy", "contended", "plain"}
    counts = drawn(8, S, G, 150_000)
    worth = [misfit(counts[lane], chances(posteriors[lane])) for lane in range(len(posteriors))]
    assert min(worth) > 0.01 / len(worth), dict(zip(EIGHT, worth, strict=True))
    # The test sees a leader that is taken for granted a little too often.
    S, G = tile(posteriors)
    drawn(8, S, G, 2)
    S.reshape(-1, LANES)[lazy.EDGE] *= 0.7
    S.reshape(-1, LANES)[lazy.NEXT] = 1e9
    late = list(EIGHT).index("leader last")
    assert misfit(drawn(8, S, G, 150_000, 10**6 + 2)[late], chances(posteriors[late])) < 1e-6


@pytest.mark.statistical
@pytest.mark.slow
def test_an_arm_that_is_drawn_in_full_beside_a_lazy_leader():
    """Followers come near the leader after the lane was set up: masses change, the law follows."""
    start = [(37_500, 62_500), (80, 75), (300, 200)]
    S, G = tile([start])
    drawn(3, S, G, 1, first=10**6)
    rows = S.reshape(-1, LANES)
    assert (rows[lazy.MODE] == lazy.LAZY).all()
    rows[lazy.NEXT] = 1e9
    arms = np.ones(LANES, np.int64)
    loop(learn, LEARN)(
        compiled(lazy.update, UPDATE_WIDE), 3, 10**6, S, G, arms, np.zeros(70 * LANES)
    )
    assert (rows[lazy.MODE] == lazy.LAZY).all()
    assert (rows[lazy.ARMS + 2 * 3 + 1] == 1.0).all()
    counts = drawn(3, S, G, 20_000).sum(0)
    p = chances([start[0], (80, 145), start[2]])
    assert misfit(counts, p) > 0.001
    assert misfit(counts, chances([start[0], (80, 143), start[2]])) < 1e-6


# --- lanes and regret ------------------------------------------------------------------------

WORLDS = {
    "stochastic": bw.environments.Stochastic.gap(8, 1 / 4),
    "two arms": bw.environments.Stochastic.gap(2, 1 / 8),
    "tied": bw.environments.Stochastic([0.4, 0.4, 0.4, 0.6, 0.6, 0.7]),
    "switching": bw.environments.Switching(8, 1 / 4),
    "betrayed": bw.environments.Adaptive(4, "betray", 1 / 4),
    "fractions": bw.environments.AdversarialWithGap(n_arms=5, gap=1 / 4),
}


def outcome(world, first, count, horizon, policy=None):
    policy = policy or bw.ThompsonSampling()
    return run_job(TileJob("T", policy, world, 3, first, count, (horizon // 8, horizon)))


@pytest.mark.parametrize("name", WORLDS)
def test_a_lane_does_not_depend_on_its_neighbours(name):
    whole = outcome(WORLDS[name], 0, LANES, 6_000)
    some = outcome(WORLDS[name], 5, 3, 6_000)
    assert np.array_equal(whole.plays[5:8], some.plays)
    assert np.array_equal(whole.cost[5:8], some.cost)
    assert len(np.unique(whole.plays, axis=0)) == LANES


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("name", ["stochastic", "tied", "switching"])
def test_regret_is_that_of_drawing_every_arm(name):
    world, horizon, tiles = WORLDS[name], 3_000, 40
    every_arm = plain(bw.ThompsonSampling())
    ours, theirs = (
        np.concatenate(
            [outcome(world, 16 * n + at, 16, horizon, policy).cost for n in range(tiles)]
        )
        for policy, at in ((None, 0), (every_arm, 10_000))
    )
    error = np.sqrt((ours.var(0) + theirs.var(0)) / len(ours))
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 4 * error).all()


def test_a_tile_that_was_tampered_with_is_refused():
    S, G = tile(list(EIGHT.values()))
    drawn(8, S, G, 2)
    state = S.reshape(-1, LANES)
    assert lazy.sound(8, state)
    late, tied, spread = (list(EIGHT).index(name) for name in ("late", "two tie", "all tie"))
    for row, at, value in [
        (lazy.LEAD, late, 8.0), (lazy.LEAD, late, -1.0), (lazy.LEAD, tied, 0.0),
        (lazy.LEVEL, late, 0.1), (lazy.LEVEL, late, 0.9), (lazy.MODE, late, 1.0),
        (lazy.MODE, late, 0.5), (lazy.COUNT, tied, 5.0), (lazy.CONTENDERS, tied, 8.0),
        (lazy.ARMS, late, -1.0), (lazy.ARMS, late, 0.5), (lazy.ARMS + 30, spread, 1.0),
        (lazy.EDGE, late, np.nan), (lazy.WAIT, late, np.inf),
    ]:  # fmt: skip
        changed = state.copy()
        changed[row, at] = value
        assert not lazy.sound(8, changed), (row, value)


def test_a_policy_of_ones_own_keeps_its_kernels():
    class Mine(bw.ThompsonSampling):
        def kernels(self):
            return bw.ThompsonSampling().kernels()

    assert bw.ThompsonSampling().program(2, lanes=True).kernels.choose is lazy.choose
    assert Mine().program(2, lanes=True).kernels is bw.ThompsonSampling().kernels()
