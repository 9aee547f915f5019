"""HTTP application of the decision service, as ASGI: who asks, what for, and the answer.

Every request takes the same way: route, key and scope, query, body, rate, handler. A decision
costs less than a framework's dispatch, so there is none: the route table is the router. It costs
less than ASGI, too: the connection asks for decisions and feedback by `Application.answer`.

Examples
--------
>>> Reply(200, b"{}").headers(b"r1")[0]
(b'content-type', b'application/json')
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import secrets
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    MutableMapping,
)
from typing import Any
from urllib.parse import parse_qsl

from bothworlds.errors import BothworldsError
from bothworlds.serve import wire
from bothworlds.serve.answers import Principal
from bothworlds.serve.domain.service import Service
from bothworlds.serve.limits import Buckets
from bothworlds.serve.ops.logs import LOGGER
from bothworlds.serve.ops.metrics import Metrics
from bothworlds.serve.origins import on_this_machine, own_scheme
from bothworlds.serve.problems import Problem
from bothworlds.serve.routes import ROUTES, Route, Router

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

NOBODY = Principal(0, None, frozenset())
"""Who asks before that is known."""
JSON = b"application/json"
PROBLEM = b"application/problem+json"
_DRAINED = 2**22
"""Bytes of a body that is too large which are read before it is refused: a peer that is still
sending when its connection closes does not see the answer."""
_ID = re.compile(rb"[A-Za-z0-9._\-]{1,64}")


class Reply:
    """An answer with all of its body.

    Parameters
    ----------
    status : int
        The HTTP status.
    body : bytes
        The body.
    media : bytes
        Its type.
    extra : list of pairs of bytes
        Further headers.
    """

    __slots__ = ("body", "extra", "media", "status")

    def __init__(
        self, status: int, body: bytes, media: bytes = JSON, extra: list[Header] | None = None
    ) -> None:
        self.status = status
        self.body = body
        self.media = media
        self.extra = extra

    def head(self, id: bytes) -> bytes:
        """Return the headers of the answer to a request as they are sent."""
        if self.extra is None and self.body:
            return b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n" % (
                self.media, len(self.body), id,
            )  # fmt: skip
        return b"".join([b"%b: %b\r\n" % header for header in self.headers(id)])

    def headers(self, id: bytes) -> list[Header]:
        """Return the headers of the answer to a request."""
        if self.status in {204, 304}:
            found = [(b"x-request-id", id)]
        else:
            found = [
                (b"content-type", self.media),
                (b"content-length", b"%d" % len(self.body)),
                (b"x-request-id", id),
            ]
        return found if self.extra is None else found + self.extra


class Stream:
    """An answer whose body comes in pieces.

    Parameters
    ----------
    pieces : async iterator of bytes
        The body.
    media : bytes
        Its type.
    extra : list of pairs of bytes
        Further headers.
    endless : bool
        Whether the pieces go on until the caller hangs up.
    """

    status = 200

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        media: bytes,
        extra: list[Header] | None = None,
        endless: bool = False,
    ) -> None:
        self.pieces = pieces
        self.media = media
        self.extra = extra or []
        self.endless = endless

    def headers(self, id: bytes) -> list[Header]:
        """Return the headers of the answer to a request."""
        return [(b"content-type", self.media), (b"x-request-id", id), *self.extra]


class Head:
    """Headers that are known by their bytes, because they came before.

    A program that asks again and again sends the same ones every time. To look them up takes a
    tenth of the time that reading them does, and of finding out whose key is among them.

    Parameters
    ----------
    headers : dict of bytes to bytes
        By name in lower case.

    Attributes
    ----------
    length : int
        How long the body is.
    who : Principal
        Who asked with them, as long as ``keys`` are those that are good.
    """

    __slots__ = ("headers", "keys", "length", "who")

    def __init__(self, headers: dict[bytes, bytes]) -> None:
        self.headers = headers
        self.length = int(headers.get(b"content-length", b"0"))
        self.who = NOBODY
        self.keys: dict[str, Principal] | None = None


class Asked:
    """A request, as its handler sees it.

    Parameters
    ----------
    route : Route
        What was asked for; before it is admitted also what `Router.find` returns without one.
    given : list of str
        What stands for the names in the path, in their order.
    headers : dict of bytes to bytes
        By name in lower case.
    id : bytes
        The request id.
    head : Head, optional
        The headers, if they came before.

    Attributes
    ----------
    who : Principal
        Who asks; nobody until it is admitted.
    query, body : object
        Read by the route's classes, None where it has none or none was sent.
    begun : float
        When it came, by `time.perf_counter`.
    """

    __slots__ = ("begun", "body", "given", "head", "headers", "id", "query", "route", "who")

    def __init__(
        self,
        route: Any,
        given: list[str],
        headers: dict[bytes, bytes],
        id: bytes,
        head: Head | None = None,
    ) -> None:
        self.begun = time.perf_counter()
        self.route = route
        self.given = given
        self.headers = headers
        self.head = head
        self.who = NOBODY
        self.id = id
        self.query: Any = None
        self.body: Any = None

    @property
    def operation(self) -> str | None:
        """What was asked for, by name; None if there is no such thing."""
        return self.route.operation if isinstance(self.route, Route) else None


class Gone(Exception):
    """The caller hung up before its request was complete."""


Handler = Callable[["Application", Asked], Coroutine[Any, Any, Reply | Stream]]
Then = Callable[[Asked, Reply], None]
"""What is called with a request and its answer if that has to wait."""
Direct = Callable[["Application", Asked, Then], Reply | None]
"""A handler that answers at once, or later: then it returns None."""


class Application:
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
    """

    def __init__(
        self,
        opening: Callable[[], Coroutine[Any, Any, Service]],
        *,
        keys: bool,
        rate: float | None = None,
        access_log: bool = False,
    ) -> None:
        from bothworlds.serve.dashboard.front import Dashboard
        from bothworlds.serve.handlers import DIRECT, HANDLERS

        self._opening = opening
        self._keys = keys
        self._buckets = None if rate is None else Buckets(rate)
        self._access_log = access_log
        self._handlers: dict[str, Handler] = HANDLERS
        self._direct: dict[str, Direct] = DIRECT
        self._heads: dict[bytes, Head] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._router = Router(ROUTES)
        self._dashboard = Dashboard(self, keys=keys)
        self._readers = {
            route.operation: wire.Reader(route.body) for route in ROUTES if route.body is not None
        }
        self._queries = {
            route.operation: route.query() for route in ROUTES if route.query is not None
        }
        prefix = secrets.token_hex(4)
        self._ids = (f"{prefix}-{n:x}".encode() for n in itertools.count(1))
        self._service: Service | None = None
        self.stopping = asyncio.Event()
        self.metrics = Metrics(self._figures)

    @property
    def service(self) -> Service:
        """The service, once the server has started."""
        assert self._service is not None
        return self._service

    def _figures(self) -> dict[str, float]:
        return {} if self._service is None else self._service.figures()

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
            self._service = await self._opening()
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
        # Who has hung up is not waited for by the server.
        await asyncio.gather(*self._tasks)
        await self._service.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        asked = self.asked(
            scope["method"], scope["raw_path"].decode("latin-1"), dict(scope["headers"])
        )
        reply: Reply | Stream
        try:
            paged = asked.operation in self._dashboard.operations
            if not paged:
                self._admit(asked, scope["query_string"])
            body = b""
            if scope["method"] in _WITH_BODY:
                body = await _whole(asked.route.limit, receive)
            if paged:
                reply = await self._dashboard.answer(asked, scope["query_string"], body)
            else:
                self._take(asked, body)
                reply = await self._handlers[asked.route.operation](self, asked)
        except Gone:
            return
        except Exception as error:
            reply = self.refused(asked, error)
        await send(
            {
                "type": "http.response.start",
                "status": reply.status,
                "headers": reply.headers(asked.id),
            }
        )
        if isinstance(reply, Stream):
            await self._streamed(reply, receive, send, _facts(asked))
        else:
            await send({"type": "http.response.body", "body": reply.body})
        self.note(asked, reply)

    def asked(self, method: str, path: str, headers: dict[bytes, bytes]) -> Asked:
        """Return a request by what its first lines say; nothing is checked yet."""
        id = headers.get(b"x-request-id")
        if id is None or not _ID.fullmatch(id):
            id = next(self._ids)
        route, given = self._router.find(method, path)
        if route is None:
            route, given = self._dashboard.find(method, path)
        return Asked(route, given, headers, id)

    def asked_again(self, data: bytes) -> tuple[Asked, bytes] | None:
        """Return a request of a `DIRECT` operation and its body, if its headers came before.

        None is nothing but the advice to read it: it may be anything.
        """
        line, _, rest = data.partition(b"\r\n")
        lines, _, body = rest.partition(b"\r\n\r\n")
        passing: dict[bytes, bytes] = {}
        head = self._heads.get(lines)
        if head is None:
            lines, passing = _without_passing(lines)
            head = self._heads.get(lines) if passing else None
        if head is None or len(body) != head.length:
            return None
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        place = found.lastindex or 0
        given = [found[place].decode("ascii")]
        headers = {**head.headers, **passing} if passing else head.headers
        id = passing.get(b"x-request-id") or next(self._ids)
        return Asked(_LINES[place - 1], given, headers, id, head), body

    def remember(self, data: bytes, count: int, headers: dict[bytes, bytes]) -> None:
        """Take note of the headers of a request that came in one piece, as they were read.

        Without those that are others in every request.
        """
        _, _, rest = data.partition(b"\r\n")
        lines, end, _ = rest.partition(b"\r\n\r\n")
        # A header is a line: what would be read otherwise than it is divided here stays unknown.
        if (
            end
            and lines.count(b"\n") == lines.count(b"\r\n") == count - 1
            and len(lines) <= _LONGEST_HEAD
        ):
            lines, passing = _without_passing(lines)
            headers = {name: headers[name] for name in headers.keys() - passing.keys()}
            if headers.keys() & _PASSING:
                return
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            self._heads[lines] = Head(headers)

    def answer(self, asked: Asked, query: bytes, body: bytes, then: Then) -> Reply | None:
        """Answer a request of a `DIRECT` operation: at once, or by calling ``then`` later."""
        try:
            self._admit(asked, query)
            self._take(asked, body)
            reply = self._direct[asked.route.operation](self, asked, then)
        except Exception as error:
            reply = self.refused(asked, error)
        if reply is not None:
            self.note(asked, reply)
        return reply

    def answer_later(self, asked: Asked, handling: Coroutine[Any, Any, Reply], then: Then) -> None:
        """Let a task answer a request."""

        async def answered() -> None:
            try:
                reply = await handling
            except Exception as error:
                reply = self.refused(asked, error)
            self.note(asked, reply)
            then(asked, reply)

        task = asyncio.get_running_loop().create_task(answered())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _admit(self, asked: Asked, query: bytes) -> None:
        """Check that there is such a route, that it is open to who asks, and the query."""
        route = asked.route
        if not isinstance(route, Route):
            raise _no_route(route)
        head, keys = asked.head, self.service.shown
        if head is not None and head.keys is keys and route.scope in head.who.scopes:
            asked.who = head.who
        else:
            asked.who = self._who(route, asked.headers)
            if head is not None:
                head.who, head.keys = asked.who, keys
        asked.query = _query(route, query) if query else self._queries.get(route.operation)

    def _take(self, asked: Asked, body: bytes) -> None:
        """Read the body of a request, and count it towards the limit of its key."""
        asked.body = self._read(asked, body)
        if self._buckets is not None and asked.route.scope is not None:
            weight = _weight(asked.body)
            if asked.operation == "evaluate_all":
                weight = max(1, len(self.service.running(asked.who)))
            self._buckets.take(asked.who.key_id or "", weight)

    def note(self, asked: Asked, reply: Reply | Stream) -> None:
        """Count a request that was answered, and log it if it is to be logged."""
        operation = asked.operation
        seconds = time.perf_counter() - asked.begun
        self.metrics.count(operation or "none", reply.status, seconds)
        if self._access_log or operation in _LOGGED or operation in self._dashboard.logged:
            facts = {"status": reply.status, "seconds": round(seconds, 6)}
            LOGGER.info("answered", extra={**_facts(asked), **facts})

    def _who(self, route: Route, headers: dict[bytes, bytes]) -> Principal:
        """Return who asks, if the route is open to them."""
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
        return who

    def _read(self, asked: Asked, body: bytes) -> Any:
        """Return the body of a request, read by the class of its route."""
        route = asked.route
        if not body:
            if route.body is None or route.optional or route.method not in _WITH_BODY:
                return None
            raise Problem("invalid_json", "The body must not be empty.")
        if len(body) > route.limit:
            raise Problem("body_too_large", f"The body must have at most {route.limit} bytes.")
        if route.body is None:
            raise Problem("invalid_request", f"The operation {route.operation} takes no body.")
        media = asked.headers.get(b"content-type", b"")
        if media != JSON and media.partition(b";")[0].strip().lower() != JSON:
            raise Problem("unsupported_media_type")
        return self._readers[route.operation].read(body)

    def refused(self, asked: Asked, error: Exception) -> Reply:
        """Return the answer to a request that is refused, or that failed."""
        if isinstance(error, Problem):
            problem = error
        else:
            LOGGER.error("a request failed", exc_info=error, extra=_facts(asked))
            problem = Problem("internal")
        self.metrics.count_problem(problem.code)
        extra: list[Header] = []
        if problem.status == 401:
            extra.append((b"www-authenticate", b"Bearer"))
        elif problem.status == 405 and isinstance(asked.route, tuple):
            extra.append((b"allow", ", ".join(asked.route).encode()))
        elif problem.status in {429, 503}:
            wait = 1.0 if problem.retry_after is None else problem.retry_after
            extra.append((b"retry-after", b"%d" % max(1, math.ceil(wait))))
        elif problem.status == 413:
            extra.append((b"connection", b"close"))
        route, given = asked.route, asked.given
        if isinstance(route, Route) and route.refusal is wire.NotEvaluated:
            told = wire.not_evaluated(problem, given[0] if given else None)
            return Reply(problem.status, wire.encode(told), JSON, extra)
        document = wire.encode(problem.document(asked.id.decode()))
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
            # Without its end the answer cannot be taken for a whole one.
            LOGGER.exception("an answer broke off", extra=facts)
            raise
        finally:
            leaving.cancel()
            close = getattr(reply.pieces, "aclose", None)
            if close is not None:
                await close()
        await send({"type": "http.response.body", "body": b""})


DIRECT = frozenset({"decide", "decide_many", "feedback"})
"""Operations that a connection may ask for by `Application.answer`, without ASGI."""
_LINES = tuple(route for route in ROUTES if route.operation in DIRECT)
_LINE = re.compile(
    "|".join(
        f"{route.method} {re.sub('{[a-z]+}', '([A-Za-z0-9._~-]+)', route.path)} HTTP/1[.]1"
        for route in _LINES
    ).encode()
)
"""First lines of their requests, without a query and with one group for each of `_LINES`."""
_PASSING = frozenset({b"x-request-id", b"idempotency-key", b"traceparent"})
"""Headers with another value in every request."""
_PASSING_LINE = re.compile(
    rb"\r\n(x-request-id|traceparent): ([A-Za-z0-9._\-]{1,64})(?=\r\n|\Z)", re.IGNORECASE
)
"""Those of them that mean nothing for the others, in their usual form."""
_LONGEST_HEAD = 2048
_MOST_HEADS = 256
"""Bytes of headers that are kept to be known again, and how many of them."""
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_LOGGED = frozenset(
    route.operation for route in ROUTES if route.scope == "admin" and route.method != "GET"
)


def _without_passing(lines: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Return headers without the lines that are others in every request, and those by name."""
    passing: dict[bytes, bytes] = {}

    def taken(line: re.Match[bytes]) -> bytes:
        passing[line[1].lower()] = line[2]
        return b""

    return _PASSING_LINE.sub(taken, lines), passing


def _query(route: Route, text: bytes) -> Any:
    """Read the query of a request."""
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise Problem("invalid_request", "The query must be ASCII, and short.") from None
    if route.query is None:
        # Who watches a service may add what it likes.
        if pairs and route.scope is not None:
            raise Problem("invalid_request", f"The operation {route.operation} takes no query.")
        return None
    return wire.query(route.query, pairs)


def _no_route(route: tuple[str, ...] | None) -> Problem:
    if route is None:
        return Problem("not_found")
    return Problem("method_not_allowed", f"The path takes {', '.join(route)}.")


def _facts(asked: Asked) -> dict[str, Any]:
    """Return what a line of the log says about a request."""
    return {
        "request_id": asked.id.decode(), "route": asked.operation, "key": asked.who.key_id,
    }  # fmt: skip


def _weight(body: Any) -> int:
    """Return for how many requests a body counts."""
    if isinstance(body, wire.DecideMany):
        return body.count
    return len(body.items) if isinstance(body, wire.FeedbackMany) else 1


def refuse_pages(headers: dict[bytes, bytes]) -> None:
    """Refuse web pages of others: without keys any page a browser shows could ask.

    A page of another site names its origin; one that made its name point to this machine names
    that in the header Host.
    """
    if not on_this_machine(headers):
        raise Problem("foreign_origin", "Without keys the service answers to localhost alone.")
    if b"origin" in headers and own_scheme(headers) is None:
        raise Problem("foreign_origin")


async def _whole(limit: int, receive: Receive) -> bytes:
    """Return a whole body, or one byte more than the limit if it is larger."""
    pieces: list[bytes] = []
    length, more = 0, True
    while more and length <= _DRAINED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        length += len(message["body"])
        more = message["more_body"]
        if length <= limit:
            pieces.append(message["body"])
    return b"".join(pieces) if length <= limit else b" " * (limit + 1)
