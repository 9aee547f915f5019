"""Memory layout of the state of many arms; words are 64-bit integers, the rest doubles.

The first rows are those of `bothworlds.omd.half`, so that its predictor works on them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.lanes.types import LANES
from bothworlds.omd import half

OFFSET = half.ESTIMATES
"""Row of O: the estimate of a near arm is V + O, that of any other V."""
LEAST = OFFSET + 1
"""Row of a lower bound of all y, seen from the centre."""
COUNT, NEAR, FAR, BASE = LEAST + 1, LEAST + 2, LEAST + 3, LEAST + 4
"""Words: number of buckets (0: not built), of near arms, of far arms, exponent of bucket 0."""
LIMIT = BASE + 1
"""Row of the limit of the near arms in the round last drawn, by which the families are kept."""
SCRATCH = LIMIT + 1
"""Room for as many vectors as there are terms, more than the band has sums."""

EXPONENTS = 40
"""Buckets of a family: y doubles from one to the next; the outer two are open."""
BAND = EXPONENTS
"""Key of the band. Near buckets have smaller keys, far ones larger."""
FIRST_FAR = BAND + 1
KEYS = FIRST_FAR + EXPONENTS

TERMS = 10
"""Power sums of a bucket."""

TALLY = SCRATCH + TERMS * LANES
"""Words: room for one count per key."""
BUCKETS = TALLY + KEYS
"""The buckets, by increasing key, and one more that only marks the end of the arms."""

# A bucket: the words first slot, key, number of changes since the sums were computed; centre x_b,
# least y, 1 / s, compensation of T_2, T_2 ... T_11, and S_2 ... S_5 at the last evaluation.
START, KEY, CHANGES, CENTRE, LOW, SCALE, REST, T2 = 0, 1, 2, 3, 4, 5, 6, 7
P2 = T2 + TERMS
P3, P4, P5 = P2 + 1, P2 + 2, P2 + 3
WIDTH = P5 + 1

SHARED = BUCKETS + (KEYS + 1) * WIDTH
"""Rows before those of the arms."""
FIELDS_IW, FIELDS_RV = 4, 6
"""Rows per arm."""

# Fields: estimate by arm; V by slot; arm by slot and slot by arm (words); for RV the heap of arms
# and every arm's place in it (words).


@jit
def bucket(rank: int) -> Any:
    """Return the first row of a bucket."""
    return BUCKETS + rank * WIDTH


@jit
def value_row(K: int, slot: int) -> Any:
    """Return the row of V of a slot."""
    return SHARED + K + slot


@jit
def arm_row(K: int, slot: int) -> Any:
    """Return the row of the arm in a slot."""
    return SHARED + 2 * K + slot


@jit
def slot_row(K: int, arm: int) -> Any:
    """Return the row of the slot of an arm."""
    return SHARED + 3 * K + arm


@jit
def heap(K: int, family: int) -> Any:
    """Return the heap of a family, for `heaps`; the word that counts its arms names it.

    The near arm with the greatest V and the far arm with the least V are the next to reach the
    limit: within a family all y differ from V by the same number.
    """
    if family == NEAR:
        return NEAR, SHARED, SHARED + 5 * K, SHARED + 4 * K, 1, -1.0
    return FAR, SHARED, SHARED + 5 * K, SHARED + 5 * K - 1, -1, 1.0


@jit
def put(K: int, S: Any, slot: int, arm: int, v: float) -> None:
    """Let ``arm`` have ``slot``."""
    W = as_words(S)
    S[value_row(K, slot)] = v
    W[arm_row(K, slot)] = arm
    W[slot_row(K, arm)] = slot


@jit
def members(S: Any, rank: int) -> Any:
    """Return the number of arms in a bucket."""
    W = as_words(S)
    return W[bucket(rank + 1) + START] - W[bucket(rank) + START]


@jit
def frame(S: Any, key: int, x: float) -> Any:
    """Return the number to subtract from V in a bucket to obtain y."""
    return x - S[OFFSET] if key < BAND else x


# --- states that come from a file -----------------------------------------------------------

LARGEST_EXPONENT = 900
"""Largest exponent of bucket 0, either way: powers of 2 of all buckets are then normal."""
LARGEST = 1e100
"""Largest magnitude of any number: no product in the kernels overflows."""
SPREAD = 1e-3
"""Least share of a bucket's greatest y that its least y can be: members are drawn by rejection."""


def sound(K: int, S: NDArray[np.float64], heaps: bool) -> bool:
    """Tell whether the kernels can continue from a state: every index in range, every arm once.

    Compiled code looks at no bounds, so anything that comes from a file passes here first.  What is
    right in range but not in value (a sum, say) costs exactness, as any wrong number in a file
    does; it cannot cost more.

    Parameters
    ----------
    K : int
        Arms.
    S : ndarray
        The state of one repetition.
    heaps : bool
        Whether the arms have families, as the reduced-variance estimator needs them.

    Examples
    --------
    >>> S = np.zeros(SHARED + FIELDS_IW * 600)
    >>> sound(600, S, False)
    True
    >>> S.view(np.int64)[COUNT] = KEYS + 1
    >>> sound(600, S, False)
    False
    """
    W = S.view(np.int64)
    count, near, far, base = W[[COUNT, NEAR, FAR, BASE]].tolist()
    estimates, head = S[SHARED : SHARED + K], S[: LEAST + 1]
    if not (_moderate(estimates) and _moderate(head)):
        return False
    if count == 0:
        return True  # the first `choose` makes everything of the estimates
    if not (0 < count <= KEYS and abs(base) <= LARGEST_EXPONENT):
        return False
    B = slice(BUCKETS, BUCKETS + (count + 1) * WIDTH)
    buckets, words = S[B].reshape(-1, WIDTH), W[B].reshape(-1, WIDTH)
    starts, keys = words[:, START], words[:count, KEY]
    values = S[SHARED + K : SHARED + 2 * K]
    arms, slots = W[SHARED + 2 * K : SHARED + 3 * K], W[SHARED + 3 * K : SHARED + 4 * K]
    fits = (
        starts[0] == 0 and starts[-1] == K and bool((np.diff(starts) > 0).all())
        and 0 <= keys[0] and keys[-1] < KEYS and bool((np.diff(keys) > 0).all())
        and bool((words[:count, CHANGES] >= 0).all() and (words[:count, CHANGES] < 2**40).all())
        and _inverse(arms, slots) and _moderate(values)
    )  # fmt: skip
    if not fits:
        return False
    own = keys != BAND  # the band is evaluated again in every round
    sums = buckets[:count][own]
    rank = np.repeat(np.arange(count), np.diff(starts))
    y = values - buckets[rank, CENTRE]
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, rank, y)
    np.maximum.at(high, rank, y)
    least = buckets[:count, LOW]
    drawn = (least > 0.0) & (least <= low * (1.0 + 1e-9)) & (least >= SPREAD * high)
    if not (_moderate(sums[:, CENTRE:]) and bool((drawn | ~own).all())):
        return False
    octaves = np.where(keys > BAND, keys - FIRST_FAR, keys)
    scales = np.ldexp(1.0, -(octaves + base))
    if not np.array_equal(sums[:, SCALE], scales[own]):
        return False
    return not heaps or _families(W, K, keys, starts, arms, near, far)


def _families(W: Any, K: int, keys: Any, starts: Any, arms: Any, near: int, far: int) -> bool:
    """Tell whether each heap holds the arms of its family once, and every arm knows its place."""
    ends = int(starts[np.searchsorted(keys, BAND)]), int(starts[np.searchsorted(keys, FIRST_FAR)])
    if (near, far) != (ends[0], K - ends[1]):
        return False
    heap, places = W[SHARED + 4 * K : SHARED + 5 * K], W[SHARED + 5 * K : SHARED + 6 * K]
    sides = (heap[:near], arms[:near]), (heap[::-1][:far], arms[ends[1] :])
    return all(
        np.array_equal(np.sort(held), np.sort(family))
        and np.array_equal(places[held], np.arange(held.size))
        for held, family in sides
    )


def _moderate(numbers: Any) -> bool:
    return bool((np.abs(numbers) <= LARGEST).all())


def _inverse(arms: Any, slots: Any) -> bool:
    """Tell whether two lists of indices are permutations of each other's."""
    inside = ((arms >= 0) & (arms < arms.size)).all()
    return bool(inside) and np.array_equal(slots[arms], np.arange(arms.size))
