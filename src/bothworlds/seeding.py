"""Random streams from names.

A stream is identified by a seed and a tuple of names (environment, policy, repetition), never by
the order in which things run: adding a policy or a thread changes no other stream.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bothworlds.arguments import whole
from bothworlds.seed_sequence import Generators as Generators
from bothworlds.seed_sequence import generator_of as generator_of


def checked_seed(seed: object, owner: str) -> int:
    """Return ``seed`` as an integer; None becomes a fresh one that can be reported and reused.

    Examples
    --------
    >>> checked_seed(7, "simulate")
    7
    """
    if seed is None:
        return secrets.randbits(63)
    return whole("seed", seed, owner, 0, "a whole number >= 0 or None")


def _encoded(*names: object) -> bytes:
    # Lengths make the encoding unambiguous: ("ab", "c") and ("a", "bc") differ.
    return "".join(f"{len(part)}:{part}" for part in map(str, names)).encode()


def _digest(seed: int, names: tuple[object, ...]) -> bytes:
    return hashlib.sha256(_encoded(seed, *names)).digest()


def digests(seed: int, *names: object, last: Sequence[int]) -> list[bytes]:
    """Return the digests of the streams of ``seed``, ``names`` and each of the ``last`` names.

    What the names have in common is read once.

    Examples
    --------
    >>> words_of(digests(1, "a", last=[5, 6]))[1].tolist() == stream_words(1, "a", 6).tolist()
    True
    """
    common = hashlib.sha256(_encoded(seed, *names)).copy
    found = []
    for name in map(str, last):
        own = common()
        own.update(f"{len(name)}:{name}".encode())
        found.append(own.digest())
    return found


def words_of(found: list[bytes]) -> NDArray[np.int64]:
    """Return the words that start the streams of these digests, a row each."""
    return np.frombuffer(b"".join(found), dtype="<i8").astype(np.int64).reshape(-1, 4)


def stream_words(seed: int, *names: object) -> NDArray[np.int64]:
    """Return the four words that start the xoshiro256++ stream of ``seed`` and ``names``.

    Examples
    --------
    >>> bool((stream_words(1, "a") == stream_words(1, "a")).all())
    True
    >>> bool((stream_words(1, "a") == stream_words(1, "b")).any())
    False
    """
    return np.frombuffer(_digest(seed, names), dtype="<i8").astype(np.int64)


def derived_seed(seed: int, *names: object) -> int:
    """Return the seed of a part of something seeded, by the part's ``names``.

    Examples
    --------
    >>> derived_seed(1, "left") == derived_seed(1, "right")
    False
    """
    return int.from_bytes(_digest(seed, names)[:8], "little") >> 1


def numpy_generator(seed: int, *names: object) -> np.random.Generator:
    """Return NumPy's generator for set-up work, seeded by ``seed`` and ``names``."""
    return generator_of(_digest(seed, names))
