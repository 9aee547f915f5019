"""Two heaps that know which arms come closest to changing family.

The near arm with the greatest V and the far arm with the least V are the next to reach the
threshold: within a family all y differ from V by the same number.  The heaps share one array, the
near one from its beginning, the far one from its end backwards.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.kernels import as_words
from bothworlds.omd.many.layout import NEAR, SHARED, arm_row, heap_row, place_row


@jit
def cell(K: int, family: int, i: int) -> Any:
    """Return the row of place i in the heap of a family (the row of its size names it)."""
    return heap_row(K, i if family == NEAR else K - 1 - i)


@jit
def precedes(S: Any, family: int, a: int, b: int) -> Any:
    """Tell whether arm a is closer to the threshold than arm b of the same family."""
    va = S[SHARED + a]
    vb = S[SHARED + b]
    return va > vb if family == NEAR else va < vb


@jit
def sink(K: int, S: Any, family: int, arm: int, i: int) -> None:
    """Put ``arm``, for which place i is free, there or as far below as its V demands."""
    W = as_words(S)
    n = W[family]
    while 2 * i + 1 < n:
        child = 2 * i + 1
        other = W[cell(K, family, child)]
        if child + 1 < n:
            right = W[cell(K, family, child + 1)]
            if precedes(S, family, right, other):
                child += 1
                other = right
        if not precedes(S, family, other, arm):
            break
        W[cell(K, family, i)] = other
        W[place_row(K, other)] = i
        i = child
    W[cell(K, family, i)] = arm
    W[place_row(K, arm)] = i


@jit
def sift(K: int, S: Any, family: int, arm: int, i: int) -> None:
    """Put ``arm``, for which place i is free, where its V belongs."""
    W = as_words(S)
    while i > 0:
        parent = (i - 1) // 2
        other = W[cell(K, family, parent)]
        if not precedes(S, family, arm, other):
            break
        W[cell(K, family, i)] = other
        W[place_row(K, other)] = i
        i = parent
    sink(K, S, family, arm, i)


@jit
def push(K: int, S: Any, family: int, arm: int, v: float) -> None:
    """Add an arm with V = v."""
    W = as_words(S)
    S[SHARED + arm] = v
    W[family] += 1
    sift(K, S, family, arm, W[family] - 1)


@jit
def drop(K: int, S: Any, family: int, arm: int) -> None:
    """Take an arm out."""
    W = as_words(S)
    i = W[place_row(K, arm)]
    W[family] -= 1
    last = W[cell(K, family, W[family])]
    if last != arm:
        sift(K, S, family, last, i)


@jit
def heapify(K: int, S: Any, family: int, first: int, n: int) -> None:
    """Make the heap of a family whose arms have the n slots from ``first`` on."""
    W = as_words(S)
    W[family] = n
    for i in range(n):
        arm = W[arm_row(K, first + i)]
        W[cell(K, family, i)] = arm
        W[place_row(K, arm)] = i
    for i in range(n // 2 - 1, -1, -1):
        sink(K, S, family, W[cell(K, family, i)], i)
