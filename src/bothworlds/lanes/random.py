"""Random numbers inside kernels: one xoshiro256++ stream per lane.

The generator's four words are rows of an ``int64`` array, so a stream can be saved, restored and
advanced identically by one bandit or by a tile of repetitions.

Reference: Blackman and Vigna, *Scrambled linear pseudorandom number generators*, ACM TOMS 47,
2021.
"""

from typing import Any

from bothworlds.lanes.jit import inlined, jit
from bothworlds.lanes.vectors import (
    bits_float,
    load,
    maximum,
    shift_left,
    shift_right,
    splat,
    store,
)

WORDS = 4
"""Rows of generator state."""


@jit
def rotate_left(x: Any, k: int) -> Any:
    """Rotate 64-bit words left by ``k``."""
    return shift_left(x, k) | shift_right(x, 64 - k)


@inlined
def words_of(G: Any, like: Any) -> Any:
    """Return the four words of the generator ``G``."""
    return load(G, 0, like), load(G, 1, like), load(G, 2, like), load(G, 3, like)


@inlined
def keep_words(G: Any, s: Any) -> None:
    """Write the four words of the generator ``G``."""
    store(G, 0, s[0])
    store(G, 1, s[1])
    store(G, 2, s[2])
    store(G, 3, s[3])


@inlined
def next_bits(s: Any) -> Any:
    """Return 64 random bits per lane, and the words that follow those of ``s``."""
    s0, s1, s2, s3 = s
    bits = rotate_left(s0 + s3, 23) + s0
    t = shift_left(s1, 17)
    s2 = s2 ^ s0
    s3 = s3 ^ s1
    s1 = s1 ^ s2
    s0 = s0 ^ s3
    s2 = s2 ^ t
    s3 = rotate_left(s3, 45)
    return bits, (s0, s1, s2, s3)


@inlined
def random_bits(G: Any, like: Any) -> Any:
    """Advance the generator ``G`` and return 64 random bits per lane."""
    bits, s = next_bits(words_of(G, like))
    keep_words(G, s)
    return bits


@jit
def unit(bits: Any) -> Any:
    """Map 64 random bits to [0, 1), on the grid of multiples of 2**-52."""
    return bits_float(shift_right(bits, 12) | 0x3FF0000000000000) - 1.0


@jit
def uniform(G: Any, like: Any) -> Any:
    """Draw a uniform number in [0, 1) per lane."""
    return unit(random_bits(G, like))


@inlined
def uniforms(s: Any, n: int, U: Any, like: Any) -> Any:
    """Draw ``n`` uniform numbers per lane into the rows of ``U``, as `uniform` does one by one.

    Returns the words that follow those of ``s``, and the largest number of every lane.
    """
    top = splat(0.0, like)
    for i in range(n):
        bits, s = next_bits(s)
        u = unit(bits)
        store(U, i, u)
        top = maximum(top, u)
    return s, top
