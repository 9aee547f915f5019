"""Where the state of many arms keeps what; words are 64-bit integers, the rest doubles.

The first rows are those of `bothworlds.omd.half`, so that its predictor works on them.
"""

from typing import Any

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
SCRATCH = BASE + 1
"""Room for as many vectors as there are terms."""

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
"""The buckets, by increasing key, and one more that only says where the arms end."""

# A bucket: the words first slot, key, number of changes since the sums were made; centre x_b,
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
def heap_row(K: int, place: int) -> Any:
    """Return the row of a place of the heaps."""
    return SHARED + 4 * K + place


@jit
def place_row(K: int, arm: int) -> Any:
    """Return the row of the place of an arm in its heap."""
    return SHARED + 5 * K + arm


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
    """Return what must be subtracted from V in a bucket to get y."""
    return x - S[OFFSET] if key < BAND else x
