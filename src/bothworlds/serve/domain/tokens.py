"""Tokens: decision ids that are signed, so that feedback needs no look-up.

A token is base64url of a record (`bothworlds.serve.domain.records`) and of its signature, a keyed
BLAKE2b of 16 bytes.  Without the key a caller cannot guess one, or claim another arm or another
probability.  It is not secret and identifies no person: a unit is in it as a keyed hash.

Every deployment has its own keys, of 32 random bytes and a number of 1 to 255.  The newest signs;
older ones verify until the longest feedback window has passed.

A signature also covers what a record has no room for: the incarnation of the deployment, as the
salt of the hash, and the seal of the experiment's epoch and arms, behind the record.  Both are
random, and in the store.  A store that went back in time has others from then on, so that ids of
the time that was lost are refused, also where a number in their record is used again.
"""

from __future__ import annotations

import hmac
import os
import struct
from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from bothworlds.serve.domain import records
from bothworlds.serve.domain.records import Record
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.rows import IncarnationRow

KEY_SIZE = 32
SIGNATURE = 16
LAST_KEY = 255
"""Largest number of a key; after it comes 1 again."""
_MASKS = 2 * (records.MOST_ARMS // 8)
_NUMBERS = 8 * (1 + records.MOST_CARRIED)
_IDS = records.UNIT_SIZE + records.SEGMENT_SIZE
LONGEST = 4 * (records.END + _NUMBERS + _MASKS + _IDS + SIGNATURE) // 3
"""Upper bound of the characters of a token, give or take three."""

UNSALTED = IncarnationRow(bytes(16), 0.0, None)
"""The incarnation of a deployment that had none when it began."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_STANDARD = bytes.maketrans(b"-_", b"+/")


def new_key() -> bytes:
    """Return a fresh key."""
    return os.urandom(KEY_SIZE)


def unit_hash(key: bytes, experiment: int, unit: str) -> bytes:
    """Return the hash that replaces a unit in tokens and in the store: the unit is never kept.

    Examples
    --------
    >>> unit_hash(bytes(32), 1, "eve") == unit_hash(bytes(32), 2, "eve")
    False
    """
    named = experiment.to_bytes(4, "little") + unit.encode("utf-8", "surrogatepass")
    return blake2b(named, digest_size=records.UNIT_SIZE, key=key, person=b"bw-unit").digest()


class Keyring:
    """The token keys of a deployment.

    Parameters
    ----------
    keys : mapping of int to bytes
        Keys by number.
    current : int
        The number of the key that signs.
    incarnations : sequence of IncarnationRow
        Incarnations of the deployment, the current one last.
    seals : mapping of bytes to bytes
        Seals by the packed `records.LINEAGE`; where there is none, it is empty.

    Examples
    --------
    >>> ring = Keyring({1: bytes(32)}, 1)
    >>> raw = records.encode(1, 7, 0, 2, 8, 41, bytes(16), 4.0, records.NEAR_ALL)
    >>> token = ring.sign(raw)
    >>> len(token), ring.verify(token)[1].round
    (76, 41)
    """

    __slots__ = ("_former", "_given", "_hashes", "_seals", "_signer", "current")

    def __init__(
        self,
        keys: Mapping[int, bytes],
        current: int,
        incarnations: Sequence[IncarnationRow] = (UNSALTED,),
        seals: Mapping[bytes, bytes] = MappingProxyType({}),
    ) -> None:
        self.current = current
        self._given = keys, current, incarnations, seals
        # A keyed hash is copied faster than it is created.
        salted = [
            {
                number: blake2b(digest_size=SIGNATURE, key=key, salt=each.salt, person=b"bw-token")
                for number, key in keys.items()
            }
            for each in incarnations
        ]
        self._hashes = salted[-1]
        self._former = [
            (each.ended or b"", hashes)
            for each, hashes in zip(incarnations[:-1], salted, strict=False)
        ]
        self._signer = self._hashes[current]
        self._seals = seals

    def __reduce__(self) -> tuple[Any, ...]:
        return Keyring, self._given

    def sign(self, raw: bytes) -> str:
        """Return the token of a record, which names `current` as its key."""
        return self._signed_by(self._signer, raw)

    def token(self, raw: bytes) -> str | None:
        """Return the token that a stored record was given; None if its key is forgotten."""
        id = raw[records.IDENTITY : records.INVERSE_P]
        hashes = next((known for ended, known in self._former if id <= ended), self._hashes)
        return self._signed_by(hashes[raw[0]], raw) if raw[0] in hashes else None

    def _signed_by(self, known: blake2b, raw: bytes) -> str:
        signing = known.copy()
        signing.update(self._sealed(raw))
        text = b2a_base64(raw + signing.digest(), newline=False)
        return text.rstrip(b"=").translate(_URL_SAFE).decode("ascii")

    def _sealed(self, raw: bytes) -> bytes:
        """Return a record with the seal of its experiment, epoch and known arms behind it."""
        known = records.KNOWN
        lineage = raw[1 : records.ARM] + raw[known : known + 2]
        return raw + self._seals.get(lineage, b"")

    def verify(self, token: str) -> tuple[bytes, Record]:
        """Return the record of a token, as bytes and decoded.

        Raises
        ------
        Problem
            ``bad_token`` for what is no token, ``bad_signature`` for one that this deployment did
            not sign, or no longer accepts.
        """
        try:
            given = token.encode("ascii")
            if len(given) > LONGEST + 3:
                raise ValueError
            padded = given.translate(_STANDARD) + b"=="[: -len(given) % 4]
            whole = a2b_base64(padded)
            # One record has one token: not another in whose last character a spare bit is set.
            if b2a_base64(whole, newline=False) != padded or b"+" in given or b"/" in given:
                raise ValueError
            raw, signature = whole[:-SIGNATURE], whole[-SIGNATURE:]
            if len(raw) < records.END:
                raise ValueError
        except (Error, ValueError, AttributeError):
            raise Problem("bad_token") from None
        if raw[0] not in self._hashes:
            raise Problem("bad_signature")
        sealed = self._sealed(raw)
        if not _signed(self._hashes[raw[0]], sealed, signature):
            id = raw[records.IDENTITY : records.INVERSE_P]
            if not any(
                id <= ended and _signed(hashes[raw[0]], sealed, signature)
                for ended, hashes in self._former
            ):
                raise Problem("bad_signature")
        try:
            return raw, records.decode(raw)
        except ValueError:
            # Signed by a version that had other records.
            raise Problem("bad_token") from None


def _signed(known: blake2b, message: bytes, signature: bytes) -> bool:
    """Tell whether a hash that has taken its key gives a message this signature."""
    signing = known.copy()
    signing.update(message)
    return hmac.compare_digest(signing.digest(), signature)


class Identities:
    """Maker of UUIDv7s and of uniform numbers, from the system's random bytes.

    Callers that see decisions cannot guess the next one, as with a generator's numbers.
    """

    __slots__ = ("_pool",)

    BLOCK = struct.Struct("<1024Q")

    def __init__(self) -> None:
        self._pool: list[int] = []

    def _word(self) -> int:
        """Return 64 random bits."""
        try:
            return self._pool.pop()
        except IndexError:
            self._pool.extend(self.BLOCK.unpack(os.urandom(self.BLOCK.size)))
            return self._pool.pop()

    def uniform(self) -> float:
        """Return a uniform number in [0, 1), a multiple of 2^-53."""
        pool = self._pool
        return ((pool.pop() if pool else self._word()) >> 11) * 2.0**-53

    def identity(self, seconds: float) -> bytes:
        """Return a UUIDv7 of a moment, in seconds since 1970.

        The twelve bits behind the milliseconds divide them further, so that ids of one process
        sort by time; 62 bits are random.

        Examples
        --------
        >>> import uuid
        >>> made = uuid.UUID(bytes=Identities().identity(1_700_000_000.25))
        >>> made.version, made.int >> 80
        (7, 1700000000250)
        """
        # Milliseconds and their 4096 parts, with the version in between.
        parts = int(seconds * 4_096_000.0) & 0xFFFFFFFFFFFFFFF
        first = (parts >> 12) << 16 | 0x7000 | parts & 0xFFF
        pool = self._pool
        return _UUID.pack(first, 1 << 63 | (pool.pop() if pool else self._word()) >> 2)


_UUID = struct.Struct(">QQ")


def first_identity(seconds: float) -> bytes:
    """Return the smallest identity of a moment: earlier ones are smaller.

    Examples
    --------
    >>> first_identity(1.0).hex()
    '0000000003e800000000000000000000'
    """
    milliseconds = min(max(int(seconds * 1000), 0), 2**48 - 1)
    return milliseconds.to_bytes(6, "big") + bytes(10)
