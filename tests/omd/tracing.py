"""Every round of a tile, written down: the arm, its loss, 1 / w and a row of the state.

`trace` plays a policy's tile against a loss kernel.  `replay` goes through one lane of it in
double-double arithmetic, solves every round anew and returns how far 1 / w was off.
"""

import math

import numba
import numpy as np
from numba.core import types

from bothworlds.lanes.jit import compiled
from bothworlds.lanes.kernels import CHOOSE_WIDE, LOSS_WIDE, UPDATE_WIDE
from bothworlds.lanes.random import uniform
from bothworlds.lanes.types import LANES
from bothworlds.lanes.vectors import load, pointer, select, splat, store, to_float, zeros
from bothworlds.omd import double_double as dd
from bothworlds.seeding import numpy_generator, stream_words

_f, _w, _i = types.float64[::1], types.int64[::1], types.int64
_kernels = [types.FunctionType(sig) for sig in (CHOOSE_WIDE, LOSS_WIDE, UPDATE_WIDE)]
PLAY = types.void(*_kernels, _i, _i, _i, _f, _f, _w, _f, _f, _w, _i, _f, _f, _f, _f)


@compiled
def play(
    choose, loss, update, K, first, last, C, S, G, CE, E, GE, row, arms, losses, inverse_p, watched
):
    like = zeros()
    c, s, g = pointer(C), pointer(S), pointer(G)
    ce, e, ge = pointer(CE), pointer(E), pointer(GE)
    A, X, P, R = pointer(arms), pointer(losses), pointer(inverse_p), pointer(watched)
    for t in range(first, last + 1):
        arm = choose(K, t, c, s, g, uniform(g, like))
        x = loss(K, t, ce, e, ge, uniform(ge, like), arm)
        p = load(s, 0, like)
        update(K, t, c, s, g, arm, p, x)
        store(A, t - first, to_float(arm))
        store(X, t - first, x)
        store(P, t - first, p)
        store(R, t - first, load(s, row, like))


def columns(of, lanes):
    return np.ascontiguousarray(np.stack([of(r) for r in lanes]).T).ravel()


def trace(policy, environment, rounds, row, repetitions=None, loss=None, seed=0):
    """Return arms, losses, 1 / w and row ``row`` of the state, each (rounds, lanes).

    The losses are the environment's, or those of the kernel ``loss``.
    """
    K, world = environment.n_arms, repr(environment)
    lanes = range(LANES) if repetitions is None else repetitions
    program = policy.program(K, lanes=True)
    choose, update = program.kernels.choose, program.kernels.update
    loss = environment.unchecked_kernel() if loss is None else loss
    for kernel, signature in ((choose, CHOOSE_WIDE), (loss, LOSS_WIDE), (update, UPDATE_WIDE)):
        kernel.compile(signature)
    if not play.signatures:
        play.compile(PLAY)
        play.disable_compile()
    found = [np.zeros(rounds * LANES) for _ in range(4)]
    play(
        choose, loss, update, K, 1, rounds,
        program.parameters(),
        columns(lambda r: program.start(), lanes),
        columns(lambda r: stream_words(seed, world, "trace", r), lanes),
        np.append(environment.parameters(), 0.0),
        columns(lambda r: environment.start(numpy_generator(seed, world, r)), lanes),
        columns(lambda r: stream_words(seed, world, r), lanes),
        row, *found,
    )  # fmt: skip
    return [each.reshape(rounds, LANES) for each in found]


@numba.njit
def replay(K, reduced, scale, behind, arms, losses, inverse_p):
    """Return the largest relative error of 1 / w, and the sums of 1[I = b] - w_b and its variance.

    The learning rate is Theorem 1's: 2 / sqrt(t), or 4 / sqrt(t) with reduced variance.  Estimates
    are made with the 1 / w that was used; which arms are near is decided anew.  ``scale`` is 1 and
    ``behind``, the rounds by which the limit of the near arms is late, 0, or other numbers to see
    that the error is then found.
    """
    L, low = np.zeros(K), np.zeros(K)
    x, x_low = -math.sqrt(K) / (2.0 if reduced else 1.0), 0.0
    worst = surplus = variance = 0.0
    for k in range(arms.size):
        t = k + 1.0
        c, c_low = dd.divide(4.0 if reduced else 1.0, 0.0, t, 0.0)
        b = np.argmin(L)
        bound = L[b] - math.sqrt(1.0 / c)
        if not x <= bound:
            x, x_low = bound, 0.0
        for _ in range(100):
            S2 = S3 = 0.0
            for i in range(K):
                r = 1.0 / ((L[i] - x) + (low[i] - x_low))
                S2 += r * r
                S3 += r * r * r
            d = min((1.0 - math.sqrt(S2 / c)) * S2 / S3, bound - x)
            x, x_low = dd.add(x, x_low, d, 0.0)
            if abs(d) * S3 <= 1e-10 * S2:
                break
        for _ in range(2):  # quadratic: from 1e-10 to 1e-20 and on
            S, S_low = 0.0, 0.0
            S3 = 0.0
            for i in range(K):
                y, y_low = dd.add(L[i], low[i], -x, -x_low)
                r, r_low = dd.divide(1.0, 0.0, y, y_low)
                p, p_low = dd.multiply(r, r_low, r, r_low)
                S, S_low = dd.add(S, S_low, p, p_low)
                S3 += p * r
            e, _ = dd.add(S, S_low, -c, -c_low)
            x, x_low = dd.add(x, x_low, -e / (2.0 * S3), 0.0)
        j = arms[k]
        y, y_low = dd.add(L[j], low[j], -x, -x_low)
        p, p_low = dd.multiply(y, y_low, y, y_low)
        p, p_low = dd.multiply(p, p_low, c, c_low)
        error = abs((scale * inverse_p[k] - p) - p_low) / p
        worst = error if not error <= worst else worst
        w = 1.0 / (c * (L[b] - x) ** 2)
        surplus += (j == b) - w
        variance += w * (1.0 - w)
        base = 0.0
        if reduced:
            for i in range(K):
                y, y_low = dd.add(L[i], low[i], -x, -x_low)
                if (y - (t - behind) / 8.0) + y_low <= 0.0:  # w >= eta^2
                    L[i], low[i] = dd.add(L[i], low[i], 0.5, 0.0)
                    if i == j:
                        base = 0.5
        by, by_low = dd.multiply(inverse_p[k], 0.0, losses[k] - base, 0.0)
        L[j], low[j] = dd.add(L[j], low[j], by, by_low)
    return worst, surplus, variance


PERIOD = 25_000
"""Rounds after which `fickle` has another best arm."""


@compiled
def fickle(K, t, C, E, G, v, arm):
    """Return a Bernoulli loss, of mean 1/4 for the best arm of the moment and 3/4 otherwise."""
    mean = select(arm == t // PERIOD % K, splat(0.25, v), splat(0.75, v))
    return select(v < mean, splat(1.0, v), splat(0.0, v))


def lane_that_changed(leads):
    """Return the lane that entered leader mode most often, which must have left it, too."""
    changes = np.diff(leads, axis=0)
    entered, left = (changes > 0).sum(axis=0), (changes < 0).sum(axis=0)
    lane = int(entered.argmax())
    assert entered[lane] >= 2
    assert left[lane] >= 1
    return lane


def apart(one, other):
    """Return in standard errors how far the means of two samples of one size are apart."""
    error = np.hypot(one.std(), other.std()) / np.sqrt(one.size)
    return abs(one.mean() - other.mean()) / error
