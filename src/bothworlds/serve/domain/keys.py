"""API keys: created once, stored as hashes, listed without their secrets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from bothworlds.serve.domain import decide_tokens
from bothworlds.serve.domain.administration import Administration
from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.experiment import short
from bothworlds.serve.domain.rules import check_name
from bothworlds.serve.domain.state import DAY
from bothworlds.serve.domain.tokens import LAST_KEY, new_key
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.rows import KeyRow
from bothworlds.serve.store.writer import Writer

Scope = Literal["decide", "feedback", "read", "admin"]
SCOPES: frozenset[str] = frozenset(get_args(Scope))


@dataclass(frozen=True)
class NewKey:
    """A new API key, checked but not stored yet; the service and the shell both create keys by it.

    Parameters
    ----------
    secret : str
        What its holder sends; not stored.
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
            raise Problem(
                "invalid_request", f"The scopes must be some of {', '.join(sorted(SCOPES))}."
            )
        check_name(label, "label", least=0)
        if tenant is not None:
            check_name(tenant, "tenant")
        id = secrets.token_hex(6)
        secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
        digest = hashlib.sha256(secret.encode()).digest()
        row = KeyRow(id, owner, digest, frozenset(scopes), label, time.time(), None)
        return cls(f"bw_{id}_{secret}", row, tenant)

    def put(self, writer: Writer) -> None:
        """Store the key, in a transaction of the caller."""
        owner = self.row.tenant
        if self.tenant is not None:
            owner = writer.put_tenant(self.tenant, self.row.created_at)
        writer.put_key(replace(self.row, tenant=owner))

    def change(self) -> dict[str, Any]:
        """Return its row of the audit log."""
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


def _principal(key: KeyRow) -> Principal:
    return Principal(key.tenant, key.id, key.scopes)


FIRST_TENANT = 1
"""The tenant of the operator of a deployment."""


def check_operator(who: Principal, what: str) -> None:
    """Refuse operations on all tenants to keys of any tenant but the first.

    Examples
    --------
    >>> check_operator(Principal(1, None, SCOPES), "The token keys")
    """
    if who.tenant != FIRST_TENANT:
        raise Problem(
            "scope_missing",
            f"{what} concern all tenants: the key must belong to the deployment's first tenant.",
        )


class Keys(Administration):
    """The API keys and token keys of a service."""

    def principal(self, key: str) -> Principal | None:
        """Return the holder of a key, None if the key is not valid."""
        known = self._state.verified_keys.get(key)
        if known is not None:
            return known
        if isinstance(key, str) and key.startswith(decide_tokens.PREFIX):
            return self._token_holder(key)
        try:
            prefix, id, secret = key.split("_", 2)
            given = hashlib.sha256(secret.encode("ascii")).digest()
        except (ValueError, AttributeError):
            return None
        found = self._state.keys.get(id)
        if found is None or prefix != "bw":
            return None
        if not hmac.compare_digest(given, found.hash) or found.revoked_at is not None:
            return None
        # The look-up is by a hash that callers cannot predict: its time reveals no other key.
        known = self._state.verified_keys[key] = _principal(found)
        return known

    def _token_holder(self, token: str) -> Principal | None:
        """Return the holder of a decide token: its key, as far as the token goes."""
        found = decide_tokens.read(self.derive_secret(b"decide tokens"), token)
        if found is None:
            return None
        id, until, experiment = found
        holder = self.holder(id)
        if holder is None:
            return None
        if until <= self._state.now():
            raise Problem("token_expired")
        scopes = holder.scopes & decide_tokens.TOKEN_SCOPES
        return replace(holder, scopes=scopes, experiment=experiment, until=until)

    def mint_token(
        self, who: Principal, *, experiment: str | None = None, seconds: float
    ) -> tuple[str, float]:
        """Return a decide token of a key, and when it expires."""
        if who.key_id is None:
            raise Problem("invalid_request", "Tokens need a key: start with --require-keys.")
        if who.until is not None:
            raise Problem("scope_missing", "A token cannot mint tokens.")
        if experiment is not None:
            self._experiments.find(who.tenant, experiment)
        until = self._state.now() + seconds
        secret = self.derive_secret(b"decide tokens")
        return decide_tokens.sign(secret, who.key_id, until, experiment), until

    def holder(self, key_id: str) -> Principal | None:
        """Return the holder of the key of this id, None if there is none or it was revoked."""
        found = self._state.keys.get(key_id)
        return None if found is None or found.revoked_at is not None else _principal(found)

    def derive_secret(self, purpose: bytes) -> bytes:
        """Return a secret for one purpose, the same for all replicas of the deployment."""
        return hashlib.blake2b(
            purpose, key=self._state.configuration.unit_key, person=b"bw-derived"
        ).digest()

    async def create_key(
        self,
        who: Principal,
        scopes: Sequence[str],
        *,
        label: str = "",
        tenant: str | None = None,
    ) -> tuple[str, dict[str, Any]]:
        """Make an API key; return its secret, which is not stored, and its document.

        ``tenant`` names another tenant, new if it is; only a caller without a key may.
        """
        if tenant is not None and who.key_id is not None:
            raise Problem("scope_missing", "A key cannot create keys of other tenants.")
        made = NewKey.made(who.tenant, scopes, label, tenant)
        await self.administer(who, "create_key", None, made.change(), made.put)
        return made.secret, key_document(self._state.keys[made.row.id])

    async def revoke_key(self, who: Principal, key_id: str) -> None:
        """Revoke an API key of this tenant."""
        at = time.time()

        def work(writer: Writer) -> None:
            if not writer.revoke_key(who.tenant, key_id, at):
                raise Problem("key_not_found", f"There is no valid key {short(key_id)}.")

        await self.administer(who, "revoke_key", None, {"key": key_id}, work)

    def keys(self, who: Principal) -> list[dict[str, Any]]:
        """Return the API keys of this tenant, without secrets."""
        return [key_document(key) for key in self._state.keys.values() if key.tenant == who.tenant]

    async def rotate_token_key(self, who: Principal) -> int:
        """Sign with a new token key from now on; return its number.

        Older keys verify until the longest feedback window there is has passed.  There are 253 of
        them for all tenants, so that only the first tenant may make one.
        """
        check_operator(who, "The token keys")
        now = self._state.now()
        windows = [each.config.feedback_window for each in self._experiments.by_id.values()]
        keep = now - max(windows, default=0.0) - DAY
        kept = {
            key.id for key in self._state.configuration.token_keys
            if key.signs_until is None or key.signs_until >= keep
        }  # fmt: skip
        number = self._state.keyring.current % LAST_KEY + 1
        while number in kept:
            number = number % LAST_KEY + 1
            if number == self._state.keyring.current:
                raise Problem(
                    "mode_conflict", "Cannot rotate yet: every token-key id is still in use."
                )
        secret = new_key()

        def work(writer: Writer) -> None:
            writer.put_token_key(number, secret, now, keep)

        await self.administer(who, "rotate_token_key", None, {"key": number}, work)
        return number
