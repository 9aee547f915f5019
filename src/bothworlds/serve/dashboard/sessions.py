"""Sessions of the dashboard: a signed cookie for a key, and tokens that forms carry.

Nothing is kept: a cookie names a key and a moment until which it holds, signed with a secret of
the deployment, so that every replica knows it. Revoking the key ends its sessions.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bothworlds.serve.http.origins import Headers, on_this_machine, own_scheme
from bothworlds.serve.problems import Problem

if TYPE_CHECKING:
    from bothworlds.serve.domain.answers import Principal
    from bothworlds.serve.domain.service import Service

SECONDS = 12 * 3600.0
"""How long a user stays logged in, and how long a form can be sent."""
SECURE = "__Host-bothworlds"
"""The cookie where the browser speaks https, to this service or a proxy before it."""
PLAIN = "bothworlds"
"""The cookie on this machine over plain http, where browsers take no `__Host-` cookie."""
_COOKIE = re.compile(r"([0-9a-f]{1,32})\.([0-9a-f]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{32})")
_TOKEN = re.compile(r"([0-9a-f]{1,12})\.([0-9a-f]{32})")


@dataclass(frozen=True)
class Session:
    """A viewer of the dashboard, and the session that form tokens are bound to."""

    who: Principal
    nonce: str


class Sessions:
    """Make and read cookies and form tokens.

    Parameters
    ----------
    service : Service
        Whose keys they are for.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def _signed(self, purpose: bytes, text: str) -> str:
        secret = self._service.derive_secret(b"dashboard")
        return hashlib.blake2b(
            text.encode(), key=secret, person=purpose, digest_size=16
        ).hexdigest()

    def begin(self, headers: Headers, key: str) -> str:
        """Return the header Set-Cookie of a new session.

        Raises
        ------
        Problem
            If the key is not valid or may not read, or would be sent unencrypted.
        """
        scheme = _scheme(headers)
        if scheme == "http" and not on_this_machine(headers):
            raise Problem("scope_missing", "Log in over https, or on this machine itself.")
        who = self._service.principal(key.strip())
        if who is None or who.key_id is None:
            raise Problem("key_invalid")
        if "read" not in who.scopes:
            raise Problem("scope_missing", "The key must have the scope read.")
        until = f"{int(time.time() + SECONDS):x}"
        text = f"{who.key_id}.{until}.{secrets.token_hex(16)}"
        return _cookie(scheme, f"{text}.{self._signed(b'bw-session', text)}", int(SECONDS))

    def end(self, headers: Headers) -> str:
        """Return the header Set-Cookie that ends a session."""
        return _cookie(_scheme(headers), "", 0)

    def session(self, headers: Headers) -> Session | None:
        """Return the session of a request, None if there is none that holds."""
        names = (SECURE, PLAIN) if on_this_machine(headers) else (SECURE,)
        for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
            name, _, value = part.strip().partition("=")
            found = _COOKIE.fullmatch(value) if name in names else None
            if found is None:
                continue
            key, until, nonce, mac = found.groups()
            expected = self._signed(b"bw-session", f"{key}.{until}.{nonce}")
            if hmac.compare_digest(mac, expected) and int(until, 16) > time.time():
                who = self._service.holder(key)
                if who is not None and "read" in who.scopes:
                    return Session(who, nonce)
        return None

    def token(self, session: Session) -> str:
        """Return the token that a form of this session must carry."""
        at = f"{int(time.time()):x}"
        return f"{at}.{self._signed(b'bw-form', f'{session.nonce}.{at}')}"

    def check(self, session: Session, headers: Headers, token: str) -> None:
        """Refuse a form that did not come from a page of this session.

        Raises
        ------
        Problem
            ``foreign_origin``.
        """
        _scheme(headers)
        found = _TOKEN.fullmatch(token)
        if found is not None:
            expected = self._signed(b"bw-form", f"{session.nonce}.{found[1]}")
            age = time.time() - int(found[1], 16)
            if hmac.compare_digest(found[2], expected) and age <= SECONDS:
                return
        raise Problem(
            "foreign_origin",
            "The form has expired or belongs to another page; load the page again.",
        )


def _scheme(headers: Headers) -> str:
    """Return how the browser reached the page of ours whose form it sends."""
    scheme = own_scheme(headers)
    if scheme is None:
        raise Problem("foreign_origin", "The form must be sent from a page of this service.")
    return scheme


def _cookie(scheme: str, value: str, seconds: int) -> str:
    name, secure = (SECURE, "; Secure") if scheme == "https" else (PLAIN, "")
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
