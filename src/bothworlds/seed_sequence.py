"""NumPy's `SeedSequence`, for many seeds at once.

A generator of NumPy's begins with four words that `numpy.random.SeedSequence` hashes from its
entropy, in ten times the time that the generator needs for a permutation of some arms.  The hash is
fixed for good (NumPy promises it) and works on 32-bit words, so that many seeds share its steps.

======= ===========================================================
``E``   the entropy, `ENTROPY` words of every seed
``P``   the pool, `POOL` words of every seed
======= ===========================================================

Reference: O'Neill, *Developing a seed_seq alternative*, 2015.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence, SeedSequence
from numpy.typing import NDArray

ENTROPY, POOL, STATE = 8, 4, 8
"""Words of 32 bits of the entropy, the pool and the first state of a generator."""

Words = NDArray[np.uint32]


def _multiples(first: int, factor: int, count: int) -> Words:
    """Return first, first * factor, ... as a column; the hash uses two that follow each other."""
    found = [first]
    for _ in range(count):
        found.append(found[-1] * factor % 2**32)
    return np.array(found, np.uint32)[:, np.newaxis]


_SPREAD = POOL * (POOL - 1)  # how often a word of the pool is hashed into another one
_MIXED = _multiples(0x43B0D7E5, 0x931E8875, POOL + _SPREAD + POOL * (ENTROPY - POOL))
_DRAWN = _multiples(0x8B51F9DD, 0x58F38DED, STATE)
_LEFT, _RIGHT, _SHIFT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), np.uint32(16)


def _pair(places: list[int]) -> tuple[Words, Words]:
    """Return the factors of the pool's hash with these numbers, and those that follow them."""
    return _MIXED[places], _MIXED[[place + 1 for place in places]]


# Those for a word of the pool that goes into the others (and any where it meets itself), and those
# for the further words of the entropy.
_INTO = [_pair([POOL + 3 * own + k - (k > own) for k in range(POOL)]) for own in range(POOL)]
_AFTER = [
    each.reshape(-1, POOL, 1)
    for each in _pair(list(range(POOL + _SPREAD, POOL + _SPREAD + POOL * (ENTROPY - POOL))))
]


def _hashed(words: Words, first: Words, second: Words) -> Words:
    """Return the hash of words, with two factors each."""
    made = words ^ first
    made *= second
    made ^= made >> _SHIFT
    return made


def _mixed(one: Words, other: Words) -> Words:
    made = one * _LEFT
    made -= other
    made ^= made >> _SHIFT
    return made


def first_states(E: Words) -> NDArray[np.uint64]:
    """Return ``SeedSequence(words).generate_state(4, np.uint64)`` for every row of E.

    Examples
    --------
    >>> words = np.arange(1, 9, dtype=np.uint32)
    >>> wanted = np.random.SeedSequence(words).generate_state(4, np.uint64)
    >>> bool((first_states(words[np.newaxis])[0] == wanted).all())
    True
    """
    E = np.ascontiguousarray(E.T)
    P = _hashed(E[:POOL], _MIXED[:POOL], _MIXED[1 : POOL + 1])
    for own, factors in enumerate(_INTO):
        itself = P[own]
        P = _mixed(P, _hashed(itself, *factors) * _RIGHT)
        P[own] = itself
    for more in _hashed(E[POOL:, np.newaxis], *_AFTER) * _RIGHT:
        P = _mixed(P, more)
    halves = _hashed(np.concatenate([P, P]), _DRAWN[:-1], _DRAWN[1:]).astype(np.uint64)
    return np.ascontiguousarray((halves[::2] | halves[1::2] << np.uint64(32)).T)


class KnownSeed(ISpawnableSeedSequence):
    """A `SeedSequence` whose first state is known.

    Parameters
    ----------
    entropy : ndarray
        Words that are not zeros at the end.
    state : ndarray
        A row of `first_states`.
    """

    def __init__(self, entropy: Words, state: NDArray[np.uint64]) -> None:
        self.entropy, self._state = entropy, state
        self._whole: SeedSequence | None = None

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """Return words for a generator; those of NumPy's usual one are known."""
        if n_words == self._state.size and dtype is np.uint64:
            return self._state
        return self._itself().generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        """Return seeds that follow from this one."""
        return self._itself().spawn(n_children)

    def _itself(self) -> SeedSequence:
        if self._whole is None:
            self._whole = SeedSequence(self.entropy)
        return self._whole


def generators(E: Words) -> Iterator[np.random.Generator]:
    """Yield `numpy.random.default_rng` of every row of E; none ends with a zero."""
    # One after another: a thousand at a time would have Python look for garbage.
    for pair in zip(E, first_states(E), strict=True):
        seed: Any = KnownSeed(*pair)
        yield np.random.Generator(np.random.PCG64(seed))


def generator_of(digest: bytes) -> np.random.Generator:
    """Return NumPy's generator for set-up work, seeded by a digest."""
    words = np.frombuffer(digest, dtype="<u4")
    # The same generator as that of the whole number, which NumPy takes apart in twice the time.
    return np.random.default_rng(words if words[-1] else int.from_bytes(digest, "little"))


class Generators:
    """NumPy's generators for set-up work, seeded by digests: those of `generator_of`.

    Parameters
    ----------
    digests : sequence of bytes
        A digest for each generator.

    Examples
    --------
    >>> digest = bytes(range(1, 33))
    >>> [found] = Generators([digest])
    >>> bool(found.random() == generator_of(digest).random())
    True
    """

    def __init__(self, digests: Sequence[bytes]) -> None:
        self._digests = digests
        words = np.frombuffer(bytearray().join(digests), "<u4").reshape(len(digests), -1)
        # A zero at the end is no part of a whole number.
        self.words = words.astype(np.uint32, copy=False) if words[:, -1].all() else None
        """The words that seed each, a row each, or None where their number differs."""

    def __iter__(self) -> Iterator[np.random.Generator]:
        """Yield each generator as it begins."""
        if self.words is None:
            return map(generator_of, self._digests)
        return generators(self.words)
