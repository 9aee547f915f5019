"""Heaps of arms, from which the next arm to come close to the limit is read.

A heap is a tuple: the word that counts its arms, the rows of the keys by arm, of the places by arm,
and of its top, the step from one cell to the next, and the sign of the keys.  The arm with the
least key times sign is on top.  Two heaps share one array, the near one from its beginning, the far
one from its end backwards.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words

SIZE, KEYS, PLACES, TOP, STEP, SIGN = range(6)


@jit
def cell(H: Any, i: int) -> Any:
    """Return the row of place i in a heap."""
    return H[TOP] + i * H[STEP]


@jit
def precedes(S: Any, H: Any, a: int, b: int) -> Any:
    """Tell whether arm a is to be above arm b."""
    return H[SIGN] * S[H[KEYS] + a] < H[SIGN] * S[H[KEYS] + b]


@jit
def sink(S: Any, H: Any, arm: int, i: int) -> None:
    """Put ``arm``, for which place i is free, there or as far below as its key demands."""
    W = as_words(S)
    n = W[H[SIZE]]
    while 2 * i + 1 < n:
        child = 2 * i + 1
        other = W[cell(H, child)]
        if child + 1 < n:
            right = W[cell(H, child + 1)]
            if precedes(S, H, right, other):
                child += 1
                other = right
        if not precedes(S, H, other, arm):
            break
        W[cell(H, i)] = other
        W[H[PLACES] + other] = i
        i = child
    W[cell(H, i)] = arm
    W[H[PLACES] + arm] = i


@jit
def sift(S: Any, H: Any, arm: int, i: int) -> None:
    """Put ``arm``, for which place i is free, where its key belongs."""
    W = as_words(S)
    while i > 0:
        parent = (i - 1) // 2
        other = W[cell(H, parent)]
        if not precedes(S, H, arm, other):
            break
        W[cell(H, i)] = other
        W[H[PLACES] + other] = i
        i = parent
    sink(S, H, arm, i)


@jit
def push(S: Any, H: Any, arm: int) -> None:
    """Add an arm, whose key is written."""
    W = as_words(S)
    W[H[SIZE]] += 1
    sift(S, H, arm, W[H[SIZE]] - 1)


@jit
def moved(S: Any, H: Any, arm: int) -> None:
    """Put an arm, whose key has changed, where it belongs."""
    sift(S, H, arm, as_words(S)[H[PLACES] + arm])


@jit
def drop(S: Any, H: Any, arm: int) -> None:
    """Take an arm out."""
    W = as_words(S)
    i = W[H[PLACES] + arm]
    W[H[SIZE]] -= 1
    last = W[cell(H, W[H[SIZE]])]
    if last != arm:
        sift(S, H, last, i)


@jit
def heapify(S: Any, H: Any, arms: int, n: int) -> None:
    """Make a heap of the n arms in the rows from ``arms`` on."""
    W = as_words(S)
    W[H[SIZE]] = n
    for i in range(n):
        arm = W[arms + i]
        W[cell(H, i)] = arm
        W[H[PLACES] + arm] = i
    for i in range(n // 2 - 1, -1, -1):
        sink(S, H, W[cell(H, i)], i)
