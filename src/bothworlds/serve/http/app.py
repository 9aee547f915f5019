"""ASGI application of the decision service.

Every request takes the same steps: route, key and scope, query, body, rate, handler. A decision
costs less than a framework's dispatch, so there is none: the routes are the router.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from bothworlds.errors import BothworldsError
from bothworlds.serve.dashboard.front import Dashboard
from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.service import Service
from bothworlds.serve.http import handlers, ofrep, openapi, parsing, wire
from bothworlds.serve.http.cors import CrossOrigin
from bothworlds.serve.http.limits import Buckets
from bothworlds.serve.http.messages import (
    JSON,
    PROBLEM,
    HandlerContext,
    Header,
    Headers,
    Reply,
    Request,
    Stream,
)
from bothworlds.serve.http.origins import refuse_pages
from bothworlds.serve.http.routes import WITH_BODY, Route, Router
from bothworlds.serve.ops.logs import LOGGER
from bothworlds.serve.ops.tracing import Tracing
from bothworlds.serve.problems import Problem
from bothworlds.serve.store.commit import SHARED_SECONDS

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ROUTES: tuple[Route, ...] = (*handlers.route.made, *ofrep.route.made)
"""Every route of the wire API."""
_DRAINED = 2**22
"""Bytes of a body that is too large which are read before it is refused: a peer that is still
sending when its connection closes does not see the answer."""
ANSWER_SECONDS = 1.0
"""How long the last answers may take when the service stops."""
_ID = re.compile(rb"[A-Za-z0-9._\-]{1,64}")
_LOGGED = frozenset(
    route.operation for route in ROUTES if route.scope == "admin" and route.method != "GET"
)


HEAVY = frozenset({"decide_many", "feedback_many", "evaluate_all"})
"""Operations that count for several requests."""
SHARE = 2
"""Requests of a tenant that are begun in one pass of the event loop, where there are several."""


class Turns:
    """Turns of tenants in the event loop: a busy tenant does not delay other tenants.

    In every pass of the loop a tenant may start `SHARE` requests; the rest of them wait. One that
    weighs more than others is begun as well, and the passes that follow pay for it. A tenant that
    was alone for a minute is not limited.
    """

    def __init__(self) -> None:
        self._latest: int | None = None
        self._shared_until = 0.0
        self._begun: dict[int, int] = {}
        # What the next passes have to pay for, of tenants that wait or owe something.
        self._owed: dict[int, int] = {}
        self._waiting: dict[int, deque[tuple[int, Callable[[], None]]]] = {}

    def enter(self, tenant: int) -> bool:
        """Start a request and return True; False if it must wait."""
        if tenant != self._latest:
            if self._latest is not None:
                self._shared_until = time.monotonic() + SHARED_SECONDS
            self._latest = tenant
        elif time.monotonic() > self._shared_until:
            return True
        begun = self._begun
        if not begun:
            asyncio.get_running_loop().call_soon(begun.clear)
        count = begun.get(tenant, 0)
        if count >= SHARE or tenant in self._owed:
            return False
        begun[tenant] = count + 1
        return True

    def owe(self, tenant: int, weight: int) -> None:
        """Let the next passes pay for a request that was begun."""
        if not self._owed:
            asyncio.get_running_loop().call_soon(self._next_pass)
        self._owed[tenant] = self._owed.get(tenant, 0) + weight

    def wait(self, tenant: int, weight: int, work: Callable[[], None]) -> None:
        """Call ``work`` when it is the tenant's turn."""
        self.owe(tenant, 0)
        self._waiting.setdefault(tenant, deque()).append((weight, work))

    async def turn(self, tenant: int, weight: int) -> None:
        """Wait until it is the tenant's turn."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.wait(tenant, weight, partial(_begin, begun))
        await begun

    def _next_pass(self) -> None:
        for tenant, before in list(self._owed.items()):
            owed = before - SHARE
            line = self._waiting.get(tenant)
            while line and owed < 0:
                weight, work = line.popleft()
                owed += weight
                work()
            if not line:
                self._waiting.pop(tenant, None)
            if line or owed > 0:
                self._owed[tenant] = owed
            else:
                del self._owed[tenant]
        if self._owed:
            asyncio.get_running_loop().call_soon(self._next_pass)


def _begin(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        # Else the caller hung up.
        begun.set_result(None)


class Disconnected(Exception):
    """The caller hung up before its request was complete."""


class Application(HandlerContext):
    """The ASGI application.

    Parameters
    ----------
    opening : callable
        Opens the service; awaited when the server starts.
    keys : bool
        Whether a key is required. Without keys only programs of this machine are answered.
    rate : float, optional
        Requests a second that a key may make.
    access_log : bool, default False
        Whether every request is logged; without it changes and failures are.
    origins : frozenset of bytes
        Origins whose pages may decide and report feedback.
    tracing : Tracing, optional
        Makes a span of every request.
    """

    document = wire.encode(openapi.document(ROUTES))

    def __init__(
        self,
        opening: Callable[[], Coroutine[Any, Any, Service]],
        *,
        keys: bool,
        rate: float | None = None,
        access_log: bool = False,
        origins: frozenset[bytes] = frozenset(),
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__()
        self.cross_origin = CrossOrigin(origins) if origins else None
        self._opening = opening
        self._keys = keys
        self._buckets = None if rate is None else Buckets(rate)
        self.turns = Turns()
        self._access_log = access_log
        self._tracing = tracing
        self._router = Router(ROUTES)
        self._dashboard = Dashboard(self, keys=keys)
        self._readers = {
            route.operation: parsing.BodyReader(route.body)
            for route in ROUTES
            if route.body is not None
        }
        self._queries = {
            route.operation: route.query() for route in ROUTES if route.query is not None
        }
        prefix = secrets.token_hex(4)
        self.ids = map(f"{prefix}-%x".encode().__mod__, itertools.count(1))
        # Answers that are on their way outside ASGI: the server does not wait for them.
        self.tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection's request, or the start and the stop of the server."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self.service = await self._opening()
        except BothworldsError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        except Exception:
            LOGGER.exception("the service could not be opened")
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.stopping.set()
        if self.tasks:
            # Some may wait for a database that does not answer.
            await asyncio.wait(self.tasks, timeout=ANSWER_SECONDS)
        await self.service.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        request = self.request(
            scope["method"], scope["raw_path"].decode("latin-1"), dict(scope["headers"])
        )
        reply: Reply | Stream
        try:
            paged = request.operation in self._dashboard.operations
            if not paged:
                self.admit(request, scope["query_string"])
            body = b""
            if scope["method"] in WITH_BODY:
                body = await _whole(request.route.limit, receive)
            if paged:
                reply = await self._dashboard.answer(request, scope["query_string"], body)
            else:
                if not self.take(request, body):
                    await self.turns.turn(request.who.tenant, request.weight)
                reply = await request.route.handler(self, request)
        except Disconnected:
            return
        except asyncio.CancelledError:
            # The server stops, and has waited for the store long enough.
            reply = self.refused(request, Problem("shutting_down", retry_after=1.0))
        except Exception as error:
            reply = self.refused(request, error)
        if self.cross_origin is not None:
            self.cross_origin.share(request, reply)
        await send(
            {
                "type": "http.response.start",
                "status": reply.status,
                "headers": reply.headers(request.id),
            }
        )
        if isinstance(reply, Stream):
            await self._streamed(reply, receive, send, _facts(request))
        else:
            await send({"type": "http.response.body", "body": reply.body})
        self.note(request, reply)

    def request(self, method: str, path: str, headers: Headers) -> Request:
        """Return a request by its first line and headers; nothing is checked yet."""
        id = headers.get(b"x-request-id")
        if id is None or not _ID.fullmatch(id):
            id = next(self.ids)
        route, given = self._router.find(method, path)
        if route is None:
            route, given = self._dashboard.find(method, path)
        elif method == "OPTIONS" and self.cross_origin is not None:
            allowed = self.cross_origin.preflight(self._router, path, headers)
            if allowed is not None:
                route, given = allowed[0], [allowed[1]]
        return Request(route, given, headers, id)

    def admit(self, request: Request, query: bytes) -> None:
        """Check that there is such a route, that the caller may use it, and the query."""
        route = request.route
        if not isinstance(route, Route):
            raise _no_route(route)
        request.who = self._who(route, request.headers)
        if route.scope == "admin":
            request.who = replace(request.who, request_id=request.id.decode())
        self.read_query(request, query)

    def read_query(self, request: Request, query: bytes) -> None:
        """Read the query of a request."""
        route = request.route
        request.query = _query(route, query) if query else self._queries.get(route.operation)

    def take(self, request: Request, body: bytes) -> bool:
        """Read the body of a request, and count it towards the limit of its key.

        Return whether it is its tenant's turn.
        """
        scoped = request.route.scope is not None
        begun = not scoped or self.turns.enter(request.who.tenant)
        request.body = self._read(request, body)
        if request.route.operation in HEAVY:
            request.weight = self._weight(request)
            if begun and request.weight > SHARE:
                self.turns.owe(request.who.tenant, request.weight)
        if scoped and self._buckets is not None:
            self._buckets.take(request.who.key_id or "", request.weight)
        return begun

    def _weight(self, request: Request) -> int:
        """Return for how many requests one counts."""
        if isinstance(request.body, wire.DecideMany):
            return request.body.count
        if isinstance(request.body, wire.FeedbackMany):
            return max(1, len(request.body.items))
        return max(1, len(self.service.running(request.who)))

    def note(self, request: Request, reply: Reply | Stream) -> None:
        """Count a request that was answered, and log it if it is to be logged."""
        operation = getattr(request.route, "operation", None)
        seconds = time.perf_counter() - request.begun
        self.metrics.count(operation or "none", reply.status, seconds)
        if self._tracing is not None:
            self._tracing.record(request, reply.status, seconds)
        if self._access_log or operation in _LOGGED or operation in self._dashboard.logged:
            facts = {"status": reply.status, "seconds": round(seconds, 6)}
            LOGGER.info("answered", extra={**_facts(request), **facts})

    def _who(self, route: Route, headers: Headers) -> Principal:
        """Return the caller, if the route is open to it."""
        if not self._keys:
            refuse_pages(headers)
            return Service.LOCAL
        if route.scope is None:
            return Service.LOCAL
        given = headers.get(b"authorization")
        if given is None and b"x-api-key" in headers and "X-API-Key" in route.headers:
            given = b"Bearer " + headers[b"x-api-key"]
        if given is None:
            raise Problem("key_missing")
        if given[:7].lower() != b"bearer ":
            raise Problem("key_invalid", "The header Authorization must be `Bearer bw_...`.")
        who = self.service.principal(given[7:].decode("latin-1"))
        if who is None:
            raise Problem("key_invalid")
        if route.scope not in who.scopes:
            raise Problem("scope_missing", f"The key must have the scope {route.scope}.")
        if self.cross_origin is not None:
            self.cross_origin.check(headers, who)
        return who

    def _read(self, request: Request, body: bytes) -> Any:
        """Return the body of a request, read by the class of its route."""
        route = request.route
        if not body:
            if route.body is None or route.optional or route.method not in WITH_BODY:
                return None
            raise Problem("invalid_json", "The body must not be empty.")
        if len(body) > route.limit:
            raise Problem("body_too_large", f"The body must have at most {route.limit} bytes.")
        if route.body is None:
            raise Problem("invalid_request", f"The operation {route.operation} takes no body.")
        if request.headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Problem("unsupported_media_type", "The body must not be compressed.")
        media = request.headers.get(b"content-type", b"")
        if media != JSON and media.partition(b";")[0].strip().lower() != JSON:
            raise Problem("unsupported_media_type")
        return self._readers[route.operation].read(body)

    def refused(self, request: Request, error: Exception) -> Reply:
        """Return the answer to a request that is refused, or that failed."""
        if isinstance(error, Problem):
            problem = error
        else:
            LOGGER.error("a request failed", exc_info=error, extra=_facts(request))
            problem = Problem("internal")
        self.metrics.count_problem(problem.code)
        extra: list[Header] = []
        if problem.status == 401:
            extra.append((b"www-authenticate", b"Bearer"))
        elif problem.status == 405 and isinstance(request.route, tuple):
            extra.append((b"allow", ", ".join(request.route).encode()))
        elif problem.status in {429, 503}:
            wait = 1.0 if problem.retry_after is None else problem.retry_after
            extra.append((b"retry-after", b"%d" % max(1, math.ceil(wait))))
        elif problem.status == 413:
            extra.append((b"connection", b"close"))
        route, given = request.route, request.given
        if isinstance(route, Route) and route.refusal is wire.NotEvaluated:
            told = wire.not_evaluated(problem, given[0] if given else None)
            return Reply(problem.status, wire.encode(told), JSON, extra)
        document = wire.encode(problem.document(request.id.decode()))
        return Reply(problem.status, document, PROBLEM, extra)

    async def _streamed(
        self, reply: Stream, receive: Receive, send: Send, facts: dict[str, Any]
    ) -> None:
        """Send the pieces of an answer until they end or the caller hangs up."""

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        leaving = asyncio.ensure_future(gone())
        try:
            async for piece in reply.pieces:
                if leaving.done():
                    return
                if piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except Exception:
            # Without its end the answer cannot be mistaken for a whole one.
            LOGGER.exception("an answer broke off", extra=facts)
            raise
        finally:
            leaving.cancel()
            close = getattr(reply.pieces, "aclose", None)
            if close is not None:
                await close()
        await send({"type": "http.response.body", "body": b""})


def _query(route: Route, text: bytes) -> Any:
    """Read the query of a request."""
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise Problem("invalid_request", "The query must be ASCII, and short.") from None
    if route.query is None:
        # Probes of a monitor may add a query of their own.
        if pairs and route.scope is not None:
            raise Problem("invalid_request", f"The operation {route.operation} takes no query.")
        return None
    return parsing.query(route.query, pairs)


def _no_route(route: tuple[str, ...] | None) -> Problem:
    if route is None:
        return Problem("not_found")
    return Problem("method_not_allowed", f"The path takes {', '.join(route)}.")


def _facts(request: Request) -> dict[str, Any]:
    """Return the fields of a request for a line of the log."""
    return {
        "request_id": request.id.decode(), "route": request.operation, "key": request.who.key_id,
    }  # fmt: skip


async def _whole(limit: int, receive: Receive) -> bytes:
    """Return a whole body, or one byte more than the limit if it is larger."""
    pieces: list[bytes] = []
    length, more = 0, True
    while more and length <= _DRAINED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        length += len(message["body"])
        more = message["more_body"]
        if length <= limit:
            pieces.append(message["body"])
    return b"".join(pieces) if length <= limit else b" " * (limit + 1)
