"""API keys: created once, stored as hashes, listed without their secrets."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from bothworlds.serve.domain.rules import check_name
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.base import Store
from bothworlds.serve.store.rows import KeyRow

Scope = Literal["decide", "feedback", "read", "admin"]
SCOPES: frozenset[str] = frozenset(get_args(Scope))


@dataclass(frozen=True)
class NewKey:
    """A new API key, checked but not stored yet; the service and the shell both create keys by it.

    Parameters
    ----------
    secret : str
        What its holder sends; kept nowhere.
    row : KeyRow
        What is stored.
    tenant : str or None
        Another tenant than the row's, by name; created with the key if there is none.

    Examples
    --------
    >>> made = NewKey.made(1, ["decide"], "web")
    >>> len(made.secret), made.secret.startswith(f"bw_{made.row.id}_"), made.row.scopes
    (59, True, frozenset({'decide'}))
    """

    secret: str
    row: KeyRow
    tenant: str | None

    @classmethod
    def made(
        cls, owner: int, scopes: Sequence[str], label: str = "", tenant: str | None = None
    ) -> NewKey:
        """Return a new key.

        Raises
        ------
        Problem
            ``invalid_request`` if the scopes, the label or the tenant are not valid.
        """
        if isinstance(scopes, str) or not scopes or not set(scopes) <= SCOPES:
            raise Problem("invalid_request", f"Scopes are {', '.join(sorted(SCOPES))}.")
        check_name(label, "label", least=0)
        if tenant is not None:
            check_name(tenant, "tenant")
        id = secrets.token_hex(6)
        secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
        digest = hashlib.sha256(secret.encode()).digest()
        row = KeyRow(id, owner, digest, frozenset(scopes), label, time.time(), None)
        return cls(f"bw_{id}_{secret}", row, tenant)

    def put(self, store: Store) -> None:
        """Store the key, in a transaction of the caller."""
        owner = self.row.tenant
        if self.tenant is not None:
            owner = store.put_tenant(self.tenant, self.row.created_at)
        store.put_key(replace(self.row, tenant=owner))

    def change(self) -> dict[str, Any]:
        """Return what the audit log says about it."""
        return {
            "key": self.row.id,
            "scopes": sorted(self.row.scopes),
            "label": self.row.label,
            "tenant": self.tenant,
        }


def key_document(key: KeyRow) -> dict[str, Any]:
    """Return an API key as JSON values, without its secret."""
    return {
        "id": key.id,
        "label": key.label,
        "scopes": sorted(key.scopes),
        "created_at": key.created_at,
        "revoked_at": key.revoked_at,
    }
