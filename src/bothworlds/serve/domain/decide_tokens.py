"""Decide tokens: short-lived keys for web pages, signed and not stored.

A server that holds a key mints one and hands it to its page. A token decides and reports feedback
as its key may, in one experiment if it names one, for at most an hour. Revoking the key ends its
tokens.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from binascii import Error, a2b_base64, b2a_base64

PREFIX = "bwt_"
TOKEN_SCOPES = frozenset({"decide", "feedback"})
"""The only scopes that a token, or a key in a web page, may have: anyone can read it there."""
_HEAD = struct.Struct(">6sd")
_SIGNATURE = 16
_LONGEST = 400


def sign(secret: bytes, key_id: str, until: float, experiment: str | None) -> str:
    """Return a token.

    Parameters
    ----------
    secret : bytes
        Of the deployment, for this purpose.
    key_id : str
        The key whose rights it has.
    until : float
        When it expires, in seconds since 1970.
    experiment : str or None
        The only experiment it is for; None for all of the key.

    Examples
    --------
    >>> token = sign(bytes(32), "0123456789ab", 1.7e9, "headline")
    >>> read(bytes(32), token)
    ('0123456789ab', 1700000000.0, 'headline')
    >>> read(bytes(32), token[:-2] + "AA")
    """
    raw = _HEAD.pack(bytes.fromhex(key_id), until) + (experiment or "").encode()
    text = b2a_base64(raw + _signature(secret, raw), newline=False)
    return PREFIX + text.rstrip(b"=").translate(bytes.maketrans(b"+/", b"-_")).decode()


def read(secret: bytes, token: str) -> tuple[str, float, str | None] | None:
    """Return key id, expiry and experiment of a token; None if it is not one of this secret."""
    try:
        text = token.removeprefix(PREFIX).encode("ascii")
        if len(text) > _LONGEST:
            return None
        padded = text.translate(bytes.maketrans(b"-_", b"+/")) + b"=" * (-len(text) % 4)
        whole = a2b_base64(padded, strict_mode=True)
        raw, signature = whole[:-_SIGNATURE], whole[-_SIGNATURE:]
        if not hmac.compare_digest(signature, _signature(secret, raw)):
            return None
        key, until = _HEAD.unpack(raw[: _HEAD.size])
    except (Error, ValueError, struct.error):
        return None
    return key.hex(), until, raw[_HEAD.size :].decode() or None


def _signature(secret: bytes, raw: bytes) -> bytes:
    return hashlib.blake2b(raw, key=secret, person=b"bw-decide", digest_size=_SIGNATURE).digest()
