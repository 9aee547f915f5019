"""Random numbers inside kernels: one xoshiro256++ stream per lane.

The generator's four words are rows of an ``int64`` array, so a stream can be saved, restored and
advanced identically by one bandit or by a tile of repetitions.

Reference: Blackman and Vigna, *Scrambled linear pseudorandom number generators*, ACM TOMS 47,
2021.
"""

from typing import Any

from bothworlds.lanes.jit import jit
from bothworlds.lanes.vectors import bits_float, load, shift_left, shift_right, store

WORDS = 4
"""Rows of generator state."""


@jit
def rotate_left(x: Any, k: int) -> Any:
    """Rotate 64-bit words left by ``k``."""
    return shift_left(x, k) | shift_right(x, 64 - k)


@jit
def random_bits(G: Any, like: Any) -> Any:
    """Advance the generator ``G`` and return 64 random bits per lane."""
    s0 = load(G, 0, like)
    s1 = load(G, 1, like)
    s2 = load(G, 2, like)
    s3 = load(G, 3, like)
    bits = rotate_left(s0 + s3, 23) + s0
    t = shift_left(s1, 17)
    s2 = s2 ^ s0
    s3 = s3 ^ s1
    s1 = s1 ^ s2
    s0 = s0 ^ s3
    s2 = s2 ^ t
    s3 = rotate_left(s3, 45)
    store(G, 0, s0)
    store(G, 1, s1)
    store(G, 2, s2)
    store(G, 3, s3)
    return bits


@jit
def unit(bits: Any) -> Any:
    """Map 64 random bits to [0, 1), on the grid of multiples of 2**-52."""
    return bits_float(shift_right(bits, 12) | 0x3FF0000000000000) - 1.0


@jit
def uniform(G: Any, like: Any) -> Any:
    """Draw a uniform number in [0, 1) per lane."""
    return unit(random_bits(G, like))
