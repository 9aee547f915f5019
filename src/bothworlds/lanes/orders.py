"""Random orders of NumPy's generators, for many seeds at once.

``numpy.random.default_rng(words).permutation(K)`` takes several microseconds, most of which NumPy
spends on hashing the seed and creating objects.  A tile of short runs is over in the time of some
hundred such calls.  The three algorithms behind it are short and fixed for good; a test compares
their results with NumPy's.  To compile them takes half a second; `pays` decides when to do so.

* `numpy.random.SeedSequence` hashes eight words of 32 bits, see `bothworlds.seed_sequence`.
* PCG64: a linear congruential generator of 128 bits, here the halves ``high`` and ``low``.
* Fisher and Yates' shuffle; a number above its bound is drawn again.

Reference: O'Neill, *PCG: a family of simple fast space-efficient statistically good algorithms
for random number generation*, 2014.
"""

import functools
from typing import Any

import numpy as np

from bothworlds.lanes.direct import at_hand
from bothworlds.lanes.jit import jit

MANY = 256
"""Number of generators from which on the code is compiled: short runs, and more to come."""

_WORD = np.uint64(0xFFFFFFFF)
_HALF, _ROTATE, _ONE, _TOP = np.uint64(32), np.uint64(58), np.uint64(1), np.uint64(63)
_SHIFT = np.uint64(16)
_HASH, _HASHES = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
_DRAW, _DRAWS = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
_LEFT, _RIGHT = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)
_HIGH, _LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)


@jit
def scrambled(value: Any, constant: Any, following: Any) -> Any:
    """Return the hash of a word of 32 bits with two constants that follow each other."""
    value = ((value ^ constant) * following) & _WORD
    return value ^ (value >> _SHIFT)


@jit
def mixed(one: Any, other: Any) -> Any:
    """Return a hash of two words of 32 bits."""
    value = (one * _LEFT - other * _RIGHT) & _WORD
    return value ^ (value >> _SHIFT)


@jit
def stepped(high: Any, low: Any, add_high: Any, add_low: Any) -> Any:
    """Return the next state of a generator, which adds ``add_high`` and ``add_low``."""
    a, b = low >> _HALF, low & _WORD
    c, d = _LOW >> _HALF, _LOW & _WORD
    middle = a * d + ((b * d) >> _HALF)
    other = b * c + (middle & _WORD)
    carried = a * c + (middle >> _HALF) + (other >> _HALF)
    product = low * _LOW
    total = product + add_low
    carry = _ONE if total < product else _ONE - _ONE
    return carried + high * _LOW + low * _HIGH + add_high + carry, total


@jit
def fill_orders(words: Any, pool: Any, orders: Any) -> None:
    """Write the first permutation of every seed, a row each; ``pool`` is room for eight words."""
    for row in range(orders.shape[0]):
        constant = _HASH
        for i in range(4):
            following = (constant * _HASHES) & _WORD
            pool[i] = scrambled(np.uint64(words[row, i]), constant, following)
            constant = following
        for source in range(8):
            for i in range(4):
                if i != source:
                    following = (constant * _HASHES) & _WORD
                    value = pool[source] if source < 4 else np.uint64(words[row, source])
                    pool[i] = mixed(pool[i], scrambled(value, constant, following))
                    constant = following
        constant = _DRAW
        for i in range(4, 12):
            following = (constant * _DRAWS) & _WORD
            pool[i] = scrambled(pool[i & 3], constant, following)
            constant = following
        add_high = (pool[9] << _HALF) | pool[8]
        add_low = (pool[11] << _HALF) | pool[10]
        add_high = (add_high << _ONE) | (add_low >> _TOP)
        add_low = (add_low << _ONE) | _ONE
        low = add_low + ((pool[7] << _HALF) | pool[6])
        carry = _ONE if low < add_low else _ONE - _ONE
        high = add_high + ((pool[5] << _HALF) | pool[4]) + carry
        high, low = stepped(high, low, add_high, add_low)
        K = orders.shape[1]
        for i in range(K):
            orders[row, i] = i
        spare, held, mask = False, _WORD, _WORD
        for last in range(K - 1, 0, -1):
            while mask >> _ONE >= np.uint64(last):
                mask >>= _ONE
            place = np.int64(last + 1)
            while place > last:
                if spare:
                    drawn = held
                else:
                    high, low = stepped(high, low, add_high, add_low)
                    bits = high ^ low
                    turn = high >> _ROTATE
                    bits = (bits >> turn) | (bits << ((_ONE + _TOP - turn) & _TOP))
                    drawn, held = bits & _WORD, bits >> _HALF
                spare = not spare
                place = np.int64(drawn & mask)
            orders[row, last], orders[row, place] = orders[row, place], orders[row, last]


@functools.cache
def ready() -> bool:
    """Tell whether `first_orders` need not compile: its code is on disk."""
    return at_hand(fill_orders, np.empty((1, 8), np.uint32), *_room(1, 1))


def pays(count: int) -> bool:
    """Tell whether the orders of so many generators should be computed here, not by NumPy."""
    return count >= MANY or ready()


def _room(count: int, n_arms: int) -> tuple[Any, Any]:
    return np.empty(12, np.uint64), np.empty((count, n_arms), np.int64)


def first_orders(words: Any, n_arms: int) -> Any:
    """Return ``default_rng(row).permutation(n_arms)`` of every row of eight words.

    Examples
    --------
    >>> words = np.arange(1, 9, dtype=np.uint32)
    >>> wanted = np.random.default_rng(words).permutation(5)
    >>> bool((first_orders(words[np.newaxis], 5)[0] == wanted).all())
    True
    """
    pool, orders = _room(len(words), n_arms)
    fill_orders(words, pool, orders)
    return orders
