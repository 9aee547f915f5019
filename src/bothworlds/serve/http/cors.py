"""Calls from web pages of other origins (CORS): decisions and feedback, never with cookies.

A browser asks first, by a pre-flight request, whether a page of one origin may call another. The
origins of ``--cors-origin`` may call the routes with ``browsers``. Any other origin is answered as
if there were no CORS at all.
"""

from __future__ import annotations

from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.decide_tokens import TOKEN_SCOPES
from bothworlds.serve.http.messages import HandlerContext, Headers, Reply, Request, Stream
from bothworlds.serve.http.routes import Route, Router
from bothworlds.serve.problems import Problem

_KEPT_SECONDS = b"7200"
"""How long a browser keeps the answer to a pre-flight request; Chromium keeps none longer."""
_SENT = (
    b"authorization, content-type, idempotency-key, if-none-match, traceparent, x-api-key,"
    b" x-request-id"
)
_READ = b"etag, retry-after, x-request-id"


async def _allow(app: HandlerContext, request: Request) -> Reply:
    """Answer a pre-flight request that is allowed."""
    extra = [
        (b"access-control-allow-methods", request.given[0].encode()),
        (b"access-control-allow-headers", _SENT),
        (b"access-control-max-age", _KEPT_SECONDS),
    ]
    return Reply(204, b"", extra=extra)


_PREFLIGHT = Route(
    "OPTIONS", "", "preflight", "Allow a page of another origin to call", None, _allow,
    browsers=True,
)  # fmt: skip


class CrossOrigin:
    """Pages of other origins that may call the service.

    Parameters
    ----------
    origins : frozenset of bytes
        As browsers send them (`bothworlds.serve.http.origins.exact_origins`).
    """

    def __init__(self, origins: frozenset[bytes]) -> None:
        self._origins = origins

    def preflight(self, router: Router, path: str, headers: Headers) -> tuple[Route, str] | None:
        """Return the route of a pre-flight request, and the method it asks for, if allowed."""
        asked = headers.get(b"access-control-request-method", b"").decode("latin-1")
        route, _ = router.find(asked, path)
        if headers.get(b"origin") in self._origins and isinstance(route, Route) and route.browsers:
            return _PREFLIGHT, asked
        return None

    def check(self, headers: Headers, who: Principal) -> None:
        """Refuse a key in a web page that could do more than decide and report feedback."""
        if headers.get(b"origin") in self._origins and not who.scopes <= TOKEN_SCOPES:
            raise Problem(
                "foreign_origin",
                "A key that is used in a web page must have no scope but decide and feedback.",
            )

    def share(self, request: Request, reply: Reply | Stream) -> None:
        """Let the page that asked read an answer."""
        origin = request.headers.get(b"origin", b"")
        if origin in self._origins and getattr(request.route, "browsers", False):
            reply.extra = [
                *(reply.extra or ()),
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", _READ),
                (b"vary", b"Origin"),
            ]
