"""Memory layout of the state of arms that move; words are 64-bit integers, the rest doubles.

The first rows are those of `bothworlds.omd.half`, so that its predictor works on them.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.types import LANES
from bothworlds.omd import half
from bothworlds.omd.many.buckets import exponent
from bothworlds.omd.many.layout import LARGEST, LARGEST_EXPONENT, LEAST, TERMS

BUILT = half.ESTIMATES
"""Word: whether the buckets are built. The row after it is `layout.LEAST`."""
TIME, BASE, NEAR, FAR, ACTIVE = (LEAST + 1 + i for i in range(5))
"""N; words: exponent of octave 0, near arms, far arms, buckets that are not empty."""
EXPONENTS = 32
BAND, FIRST_FAR, KEYS = EXPONENTS, EXPONENTS + 1, 2 * EXPONENTS + 1
TALLY = ACTIVE + 1
LISTED = TALLY + KEYS
"""Words: the keys of the buckets that are not empty."""
SCRATCH = LISTED + KEYS
"""Room for as many vectors as a bucket has sums, and two more."""
MOMENTS = TERMS * (TERMS + 1) // 2
BUCKETS = SCRATCH + (MOMENTS + 2) * LANES
"""The buckets by key, and one more that only marks the end of the arms."""

# A bucket: the words first slot and changes; x_b, N_b, v_b, least V, largest |mu|, 1 / s, S_2 to
# S_5 at the last evaluation, T_0n, T_1n, ... one after another, and the U_n.
START, CHANGES, CENTRE, BORN, SPEED, LOW, MU, SCALE, P2 = range(9)
T = P2 + 4
U = T + MOMENTS
WIDTH = U + TERMS
SHARED = BUCKETS + (KEYS + 1) * WIDTH
"""Rows before those of the arms."""

FIELDS = 11
LOSSES, MEANS, TOLD, VALUES, SPEEDS, ARMS, SLOTS, KEY, ALARM, HEAP, PLACE = range(FIELDS)
"""Estimate, mean and number of losses by arm; V, g and arm by slot; slot, key and alarm by arm; the
heaps of alarms, the near one from the beginning, the far one from the end backwards, and every
arm's place in its heap. Words: arms, slots, keys, heaps, places."""

BINOMIALS = np.array(
    [[math.comb(n + j - 1, j) for j in range(TERMS)] for n in range(2, 2 + TERMS)], np.float64
)
LARGEST_STEP = 2.0**40  # of one word that counts
INNER = 2.0  # an arm this close to the limit joins the band
OUTER = 8.0  # one further away leaves it; at the limit an arm moves by less than 2 a round


@jit
def bucket(key: int) -> Any:
    """Return the first row of a bucket."""
    return BUCKETS + key * WIDTH


@jit
def field(K: int, which: int) -> Any:
    """Return the first row of a field of the arms."""
    return SHARED + which * K


@jit
def heap(K: int, family: int) -> Any:
    """Return the heap of a family's alarms, the earliest on top; see `bothworlds.omd.many.heaps`.

    The word that counts its arms names a family.
    """
    if family == NEAR:
        return NEAR, field(K, ALARM), field(K, PLACE), field(K, HEAP), 1, 1.0
    return FAR, field(K, ALARM), field(K, PLACE), field(K, HEAP) + K - 1, -1, 1.0


@jit
def members(P: Any, key: int) -> Any:
    """Return the number of arms in a bucket."""
    W = as_words(P)
    return W[bucket(key + 1) + START] - W[bucket(key) + START]


@jit
def octave(P: Any, y: float) -> Any:
    """Return the octave of y."""
    return min(max(exponent(y) - as_words(P)[BASE], 0), EXPONENTS - 1)


@jit
def key_of(P: Any, y: float, limit: float) -> Any:
    """Return the key an arm at y should have."""
    if abs(y - limit) <= INNER:
        return BAND
    return octave(P, y) + (0 if y < limit else FIRST_FAR)


@jit
def speed(K: int, P: Any, arm: int, key: int) -> Any:
    """Return g of an arm in a bucket; that of an arm of the band counts where it is near."""
    return P[field(K, MEANS) + arm] if key <= BAND else 0.0


@jit
def height(K: int, P: Any, slot: int, key: int, x: float) -> Any:
    """Return y of the arm in a slot."""
    row = bucket(key)
    g = P[field(K, SPEEDS) + slot]
    return P[field(K, VALUES) + slot] + (g * (P[TIME] - P[row + BORN]) - (x - P[row + CENTRE]))


def sound(K: int, P: NDArray[np.float64]) -> bool:
    """Tell whether the kernels can continue from a state: every index in range, every arm once.

    Examples
    --------
    >>> P = np.zeros(SHARED + FIELDS * 600)
    >>> sound(600, P)
    True
    >>> P.view(np.int64)[BUILT] = 2
    >>> sound(600, P)
    False
    """
    W = P.view(np.int64)
    rows = P[SHARED:].reshape(FIELDS, K)
    words = W[SHARED:].reshape(FIELDS, K)
    if not bool((np.abs(rows[:VALUES]) <= LARGEST).all()) or W[BUILT] not in (0, 1):
        return False
    if W[BUILT] == 0:
        return True  # the first `choose` makes everything of the estimates
    table = P[BUCKETS:SHARED].reshape(KEYS + 1, WIDTH)
    starts = W[BUCKETS:SHARED].reshape(KEYS + 1, WIDTH)[:, START]
    changes = W[BUCKETS:SHARED].reshape(KEYS + 1, WIDTH)[:KEYS, CHANGES]
    sizes = np.diff(starts)
    fits = (
        abs(int(W[BASE])) <= LARGEST_EXPONENT
        and starts[0] == 0 and starts[-1] == K and bool((sizes >= 0).all())
        and bool((changes >= 0).all() and (changes < LARGEST_STEP).all())
        and _inverse(words[ARMS], words[SLOTS])
    )  # fmt: skip
    if not fits:
        return False
    keys = np.repeat(np.arange(KEYS), sizes)
    near, far = int(starts[BAND]), int(K - starts[FIRST_FAR])
    held = np.concatenate([words[HEAP][:near], words[HEAP][::-1][:far]])
    places = np.concatenate([np.arange(near), np.arange(far)])
    sides = np.concatenate([words[ARMS][:near], words[ARMS][K - far :]])
    octaves = np.arange(KEYS) % FIRST_FAR
    scales = np.ldexp(1.0, -(octaves + int(W[BASE])))
    used = np.flatnonzero(sizes > 0)
    sums = table[used]
    own = used != BAND
    lows = sums[:, LOW]
    drifts = np.abs(P[half.ROOT] - sums[:, CENTRE]) + np.abs(P[TIME] - sums[:, BORN])
    return (
        np.array_equal(words[KEY][words[ARMS]], keys)
        and (int(W[NEAR]), int(W[FAR])) == (near, far)
        and np.array_equal(np.sort(held[:near]), np.sort(sides[:near]))
        and np.array_equal(np.sort(held[near:]), np.sort(sides[near:]))
        and np.array_equal(words[PLACE][held], places)
        and np.array_equal(sums[own][:, SCALE], scales[used[own]])
        and bool((np.abs(sums[:, CENTRE:]) <= LARGEST).all())
        and bool((lows > 0.0).all())
        and bool((drifts <= LARGEST).all())
        and bool((np.abs(rows[VALUES]) <= LARGEST).all())
        and bool((np.abs(rows[SPEEDS]) <= 1.0).all())
        and not bool(np.isnan(rows[ALARM][held]).any())
        and bool((np.abs(P[[*range(half.ESTIMATES), LEAST, TIME]]) <= LARGEST).all())
    )


def _inverse(arms: NDArray[np.int64], slots: NDArray[np.int64]) -> bool:
    """Tell whether two lists of indices are permutations of each other's."""
    inside = bool(((arms >= 0) & (arms < arms.size)).all())
    return inside and np.array_equal(slots[arms], np.arange(arms.size))
