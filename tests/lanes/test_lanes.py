"""Vectors, functions and draws: every lane does what the scalar does, and does it right."""

import mpmath
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bothworlds.lanes import distributions, functions, random, vectors
from bothworlds.lanes.types import LANES, WIDTHS
from bothworlds.lanes.vectors import load, pointer, store, zeros

RNG = np.random.default_rng(20)
compiled = numba.njit(nogil=True, error_model="numpy")


def apply(operation, A, rows_out=1):
    """Run ``operation(A, B, like)`` on a tile and on each of its columns; return both B."""

    @compiled
    def wide(A, B):
        operation(A, B, zeros())

    @compiled
    def one(A, B):
        operation(A, B, 0.0)

    B = np.full((rows_out, LANES), -7.0)
    flat = B.ravel().copy()
    wide(A.ravel().copy(), flat)
    wide_out = flat.reshape(rows_out, LANES)
    one_out = np.empty_like(B)
    for lane in range(LANES):
        column = np.full(rows_out, -7.0)
        one(np.ascontiguousarray(A[:, lane]), column)
        one_out[:, lane] = column
    return wide_out, one_out


def of_two(f):
    @compiled
    def operation(A, B, like):
        store(B, 0, f(load(A, 0, like), load(A, 1, like)))

    return operation


TWO_NUMBERS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a, b: -a,
    "with scalars": lambda a, b: 2.0 * a - b / 3 + 1,
    "lt": lambda a, b: vectors.select(a < b, a, b),
    "le": lambda a, b: vectors.select(a <= b, a, 1.0),
    "gt": lambda a, b: vectors.select(a > b, 2.0, b),
    "ge": lambda a, b: vectors.select(a >= b, a, b),
    "eq": lambda a, b: vectors.select(a == b, a, 0.0),
    "ne": lambda a, b: vectors.select(a != b, a, 0.0),
    "and or": lambda a, b: vectors.select((a < b) & (a < 0.0) | (b > 1.0), a, b),
    "xor not": lambda a, b: vectors.select((a < b) ^ vectors.negate(a < 0.0), a, b),
    "minimum": lambda a, b: vectors.minimum(a, b),
    "maximum": lambda a, b: vectors.maximum(a, 0.25),
    "sqrt": lambda a, b: vectors.sqrt(vectors.absolute(a)),
    "floor": lambda a, b: vectors.floor(b),
    "to_int": lambda a, b: vectors.to_float(vectors.to_int(a) * 3 + 1),
    "shifts": lambda a, b: vectors.bits_float(
        vectors.shift_right(vectors.shift_left(vectors.float_bits(a), 3), 4)
    ),
    "bits": lambda a, b: vectors.bits_float(
        (vectors.float_bits(a) & vectors.float_bits(b)) | (vectors.float_bits(a) ^ 5)
    ),
    "integers": lambda a, b: vectors.to_float(
        vectors.select(vectors.to_int(a) < vectors.to_int(b), vectors.to_int(a), 4)
    ),
}

REFERENCE = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "lt": np.minimum,
    "gt": lambda a, b: np.where(a > b, 2.0, b),
    "xor not": lambda a, b: np.where((a < b) ^ ~(a < 0), a, b),
    "minimum": np.minimum,
    "maximum": lambda a, b: np.maximum(a, 0.25),
    "sqrt": lambda a, b: np.sqrt(np.abs(a)),
    "floor": lambda a, b: np.floor(b),
    "to_int": lambda a, b: np.trunc(a) * 3 + 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TWO_NUMBERS)
def test_every_lane_computes_what_the_scalar_does(name):
    A = RNG.normal(size=(2, LANES)) * 5
    A[1, 3] = A[0, 3]
    wide, one = apply(of_two(compiled(TWO_NUMBERS[name])), A)
    assert wide.tobytes() == one.tobytes()
    if name in REFERENCE:
        np.testing.assert_array_equal(wide[0], REFERENCE[name](*A))


@pytest.mark.parametrize("lanes", WIDTHS)
def test_whole_numbers_become_integers_and_numbers_again(lanes):
    like = vectors.ZEROS[lanes]

    @compiled
    def operation(A, B):
        whole = vectors.to_index(load(A, 0, like()))
        store(B, 0, vectors.to_float(whole))
        store(B, 1, vectors.to_float(vectors.shift_right(whole + 2**50, 1)))

    whole = [0, 1, -1, 2047, -(2**50), 2**50 - 1, 12_345_678_901, 7, *range(8)]
    A = np.array([whole], dtype=float)
    B = np.zeros((2, LANES))
    operation(A.ravel(), B.ravel())
    np.testing.assert_array_equal(B[0, :lanes], A[0, :lanes])
    np.testing.assert_array_equal(B[1, :lanes], [(i + 2**50) >> 1 for i in whole[:lanes]])


def test_gather_scatter_and_add_at_use_each_lanes_own_row():
    @compiled
    def operation(A, B, like):
        row = vectors.to_int(load(A, 0, like))
        for i in range(4):
            store(B, i, load(A, 1 + i, like))
        vectors.add_at(pointer(B), 0, row, vectors.splat(10.0, like))
        vectors.scatter(pointer(B), 1, row, vectors.gather(pointer(A), 1, row))

    A = RNG.normal(size=(6, LANES))
    A[0] = RNG.integers(3, size=LANES)
    wide, one = apply(operation, A, rows_out=4)
    expected = A[1:5].copy()
    row, lane = A[0].astype(int), np.arange(LANES)
    expected[row, lane] += 10.0
    expected[row + 1, lane] = A[1 + row, lane]
    np.testing.assert_array_equal(wide, expected)
    np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize("holder", [None, 0, 7, LANES - 1])
def test_any_lane_finds_a_single_lane(holder):
    @compiled
    def found(A):
        return vectors.any_lane(load(A, 0, zeros()) > 0.0)

    A = np.zeros(LANES)
    if holder is not None:
        A[holder] = 1.0
    assert found(A) is (holder is not None)


def test_lanes_in_which_a_condition_holds_are_found_one_by_one():
    @compiled
    def found(A, out):
        n, bits = 0, vectors.lane_bits(load(A, 0, zeros()) > 0.0)
        while bits != 0:
            out[n] = vectors.lowest_bit(bits)
            bits &= bits - 1
            n += 1
        return n

    for holders in ([], [0], [3, 7, LANES - 1], list(range(LANES))):
        A, out = np.zeros(LANES), np.zeros(LANES, np.int64)
        A[holders] = 1.0
        assert out[: found(A, out)].tolist() == holders


@pytest.mark.parametrize("lanes", WIDTHS)
def test_halves_of_a_vector_are_its_lanes(lanes):
    """Vectors of 8 have halves; 4 lanes and a whole tile stay as they are."""
    zero = vectors.ZEROS[lanes]

    @compiled
    def halves(A, B):
        like = zero()
        T = vectors.group(pointer(A), 0, like)
        low, high = vectors.lower(load(T, 0, like)), vectors.upper(load(T, 0, like))
        same_high = load(vectors.upper_rows(T, like), 0, high)
        out = vectors.group(pointer(B), 0, like)
        store(out, 0, vectors.joined(low, high, like))
        store(out, 1, vectors.joined(low, same_high, like))
        store(out, 2, vectors.joined(high + 1.0, low, like))
        B[3 * LANES] = vectors.width(low)

    A, B = np.arange(float(LANES)), np.zeros(4 * LANES)
    halves(A, B)
    split = lanes == 8
    assert B[3 * LANES] == (4 if split else lanes)
    assert np.array_equal(B[:lanes], A[:lanes])
    assert np.array_equal(B[LANES : LANES + lanes], A[:lanes])
    swapped = np.append(A[4:8] + 1.0, A[:4]) if split else A[:lanes] + 1.0
    assert np.array_equal(B[2 * LANES : 2 * LANES + lanes], swapped)


def test_generator_is_xoshiro256plusplus_in_every_lane():
    def reference(s):
        mask = (1 << 64) - 1

        def turn(x, k):
            return (x << k | x >> (64 - k)) & mask

        s = [int(x) & mask for x in s]
        while True:
            yield (turn(s[0] + s[3] & mask, 23) + s[0]) & mask
            t = s[1] << 17 & mask
            s[2] ^= s[0]
            s[3] ^= s[1]
            s[1] ^= s[2]
            s[0] ^= s[3]
            s[2] ^= t
            s[3] = turn(s[3], 45)

    @compiled
    def draw(G, out):
        for i in range(50):
            store(out, i, random.random_bits(G, zeros()))

    G = RNG.integers(-(2**63), 2**63, size=(4, LANES))
    out = np.zeros((50, LANES), np.int64)
    flat = out.ravel()
    draw(G.ravel().copy(), flat)
    for lane in range(LANES):
        stream = reference(G[:, lane])
        assert [next(stream) for _ in range(50)] == [int(x) % 2**64 for x in out[:, lane]]


# --- functions -------------------------------------------------------------------------------


def units_in_last_place(got, exact):
    with mpmath.workdps(40):
        return float(abs((mpmath.mpf(float(got)) - exact) / float(np.spacing(abs(float(exact))))))


def quarter_turns(h):
    return h * mpmath.pi / 2


NEAR_ONE = 1 + RNG.choice([-1, 1], 1000) * 2.0 ** RNG.uniform(-52, -1, 1000)
ROUNDS = np.unique(10 ** RNG.uniform(0.31, 9, 500) // 1)
ANGLES = RNG.uniform(-0.5, 0.5, 1000)
CASES = {
    "exp": (functions.exp, mpmath.exp, -(10 ** RNG.uniform(-18, np.log10(707.9), 1500))),
    "exp above 0": (functions.exp, mpmath.exp, RNG.uniform(0, 700, 300)),
    "log": (functions.log, mpmath.log, 10 ** RNG.uniform(-307, 307, 1000)),
    "log near 1": (functions.log, mpmath.log, NEAR_ONE),
    "log of rounds": (functions.log, mpmath.log, ROUNDS),
    "cos": (lambda h: functions.cos_sin(h)[0], lambda h: mpmath.cos(quarter_turns(h)), ANGLES),
    "sin": (lambda h: functions.cos_sin(h)[1], lambda h: mpmath.sin(quarter_turns(h)), ANGLES),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_are_within_two_units_in_the_last_place(name):
    function, exact, points = CASES[name]
    with mpmath.workdps(40):
        errors = [
            units_in_last_place(function(float(x)), exact(mpmath.mpf(float(x)))) for x in points
        ]
    assert max(errors) < 2.0


def test_functions_at_their_borders():
    assert functions.exp(0.0) == 1.0
    assert functions.exp(-709.0) == 0.0
    assert functions.exp(-1e308) == 0.0
    assert functions.exp(-708.0) > 0.0
    assert functions.log(1.0) == 0.0
    assert functions.cos_sin(0.0) == (1.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp", "log", "cos_sin"])
def test_functions_compute_the_same_bits_in_lanes(name):
    function = getattr(functions, name)

    @compiled
    def operation(A, B, like):
        for i in range(20):
            store(B, i, function(load(A, i, like)))

    @compiled
    def operation_of_pair(A, B, like):
        for i in range(20):
            c, s = function(load(A, i, like))
            store(B, i, c * 3.0 + s)

    A = RNG.uniform(0.0, 0.5, size=(20, LANES))
    if name == "exp":
        A = -np.exp(20 * A)
    wide, one = apply(operation_of_pair if name == "cos_sin" else operation, A, rows_out=20)
    assert wide.tobytes() == one.tobytes()
    assert np.isfinite(wide).all()


# --- draws -----------------------------------------------------------------------------------

units = st.integers(0, 2**52 - 1).map(lambda n: n * 2.0**-52)
weight = st.one_of(st.just(0.0), st.floats(1e-300, 1e3))


@given(
    w=st.lists(weight, min_size=1, max_size=12).filter(any),
    u=st.one_of(units, st.just(0.0), st.just(1 - 2.0**-52)),
)
def test_an_arm_of_weight_zero_is_never_drawn(w, u):
    total = 0.0
    for x in w:
        total += x
    arm, drawn = distributions.draw_arm(len(w), np.array(w), 0, total, u)
    assert 0 <= arm < len(w)
    assert drawn == w[arm] > 0.0
    assert sum(w[:arm]) <= u * total * (1 + 1e-14)
    assert sum(w[: arm + 1]) >= u * total * (1 - 1e-14)


def squeeze_error(slope):
    """Return the largest -phi(s) / s^4 - (3/4 + slope |s|) where the squeeze is used."""
    s = np.concatenate([np.linspace(-0.5, -1e-2, 2000), np.geomspace(1e-2, 50, 2000)])
    exact = [mpmath.mpf(float(x)) for x in s]
    phi = [4.5 * x**2 + 1 - (1 + x) ** 3 + 3 * mpmath.log(1 + x) for x in exact]
    excess = [-p / x**4 - (0.75 + slope * abs(x)) for p, x in zip(phi, exact, strict=True)]
    return float(max(excess))


def test_the_squeeze_never_accepts_what_the_exact_test_rejects():
    assert squeeze_error(1.2) < 0.0
    assert squeeze_error(1.0) > 0.0


@compiled
def _draw_gammas(d1, c1, d2, c2, G, out):
    like = zeros()
    for i in range(out.size // (2 * LANES)):
        a, b = distributions.gamma_pair(
            vectors.splat(d1, like), vectors.splat(c1, like),
            vectors.splat(d2, like), vectors.splat(c2, like), G, like,
        )  # fmt: skip
        store(out, 2 * i, a)
        store(out, 2 * i + 1, b)


def gammas(a, b, pairs=1000):
    G = np.random.default_rng([5, int(10 * a)]).integers(-(2**63), 2**63, size=4 * LANES)
    out = np.zeros((pairs, 2, LANES))
    flat = out.reshape(-1)
    d = np.array([a, b]) - 1 / 3
    c = 1 / np.sqrt(9 * d)
    _draw_gammas(d[0], c[0], d[1], c[1], G, flat)
    return out[:, 0].ravel(), out[:, 1].ravel()


@pytest.mark.statistical
@pytest.mark.parametrize("shapes", [(1.0, 1.5), (2.0, 5.0), (40.0, 1000.0)])
def test_gamma_variates_follow_their_law(shapes):
    for shape, sample in zip(shapes, gammas(*shapes), strict=True):
        assert stats.kstest(sample, stats.gamma(shape).cdf).pvalue > 1e-3
        # The test can tell a shape 5 % off, so it would notice a wrong acceptance.
        assert stats.kstest(sample, stats.gamma(1.05 * shape).cdf).pvalue < 1e-3
    assert abs(stats.spearmanr(*gammas(*shapes)).statistic) < 4 / np.sqrt(16_000)


@pytest.mark.statistical
def test_normals_are_standard_and_independent():
    @numba.njit
    def draw(G, out):
        for i in range(out.shape[0]):
            out[i, 0], out[i, 1] = distributions.normal_pair(
                random.random_bits(G, 0.0), random.random_bits(G, 0.0)
            )

    out = np.empty((40_000, 2))
    draw(np.array([1, 2, 3, 4]), out)
    for x in (*out.T, (out[:, 0] + out[:, 1]) / np.sqrt(2), (out[:, 0] - out[:, 1]) / np.sqrt(2)):
        assert stats.kstest(x, stats.norm.cdf).pvalue > 1e-3
    angles = np.arctan2(out[:, 1], out[:, 0]) / (2 * np.pi) + 0.5
    assert stats.kstest(angles, stats.uniform.cdf).pvalue > 1e-3


@pytest.mark.slow
def test_a_lane_draws_the_same_whatever_its_neighbours_need():
    """Shape 1 rejects often: the lanes retry at different times and must not disturb another."""

    @compiled
    def operation(A, B, like):
        G = vectors.words_at(A.ctypes.data)
        for i in range(100):
            a, b = distributions.gamma_pair(
                vectors.splat(2 / 3, like), vectors.splat(1 / np.sqrt(6.0), like),
                vectors.splat(1.0, like), vectors.splat(1 / 3, like), G, like,
            )  # fmt: skip
            store(B, i, a + b)

    words = RNG.integers(-(2**63), 2**63, size=(4, LANES))
    wide, one = apply(operation, words.view(np.float64), rows_out=100)
    assert wide.tobytes() == one.tobytes()
