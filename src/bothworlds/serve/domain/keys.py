"""API keys: made once, kept as hashes, shown without their secrets."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Sequence
from typing import Any

from bothworlds.serve.problems import Problem
from bothworlds.serve.store.rows import KeyRow

SCOPES = frozenset({"decide", "feedback", "read", "admin"})


def made_key(tenant: int, scopes: Sequence[str], label: str) -> tuple[str, KeyRow]:
    """Return the secret of a new API key, and its row.

    Examples
    --------
    >>> secret, row = made_key(1, ["decide"], "web")
    >>> len(secret), secret.startswith(f"bw_{row.id}_"), row.scopes
    (59, True, frozenset({'decide'}))
    """
    if isinstance(scopes, str) or not scopes or not set(scopes) <= SCOPES:
        raise Problem("invalid_request", f"Scopes are {', '.join(sorted(SCOPES))}.")
    id = secrets.token_hex(6)
    secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
    digest = hashlib.sha256(secret.encode()).digest()
    row = KeyRow(
        id, tenant, digest, frozenset(scopes), checked_label(label, "label", least=0),
        time.time(), None,
    )  # fmt: skip
    return f"bw_{id}_{secret}", row


def checked_label(text: object, what: str, least: int = 1) -> str:
    """Return a text that names something, if it is printable and short."""
    if not isinstance(text, str) or not least <= len(text) <= 200 or not text.isprintable():
        raise Problem("invalid_request", f"The {what} must be a text of at most 200 characters.")
    return text


def key_document(key: KeyRow) -> dict[str, Any]:
    """Return an API key as JSON values, without its secret."""
    return {
        "id": key.id,
        "label": key.label,
        "scopes": sorted(key.scopes),
        "created_at": key.created_at,
        "revoked_at": key.revoked_at,
    }
