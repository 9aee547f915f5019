"""Connections on uvicorn: limits for every request, and a fast path without ASGI for decisions.

uvicorn waits without end for the rest of a request. `LimitedConnection` knows since when it has
waited: one task checks all connections once a second, which costs a request nothing.

The fast path answers decisions and feedback without ASGI, which would cost more than a decision
does: no task, no messages, one write. An unusual request, such as one with a body of unknown
length, takes the plain path. Headers that came before are recognised by their bytes: such a request
is not even parsed. ``bothworlds serve --plain-http`` switches the fast path off: it then serves an
`Application` by `LimitedConnection`, with the same answers.

This is the only module that touches parts of uvicorn that are not documented; `UVICORN` lists them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import UNSET
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bothworlds.serve.domain.answers import Principal, Told
from bothworlds.serve.domain.replicas import StaleReplica
from bothworlds.serve.http import handlers, wire
from bothworlds.serve.http.app import ROUTES, Application
from bothworlds.serve.http.messages import PROBLEM, UNKNOWN, Headers, Reply, Request
from bothworlds.serve.problems import Problem

UVICORN = {
    "transport": "answers and refusals are written to it, and it is closed",
    "connections": "a connection beyond the limit is refused",
    "parser": "version, method and keep-alive of a request decide whether it can be answered here",
    "url": "collected by the parser's callbacks, as uvicorn does",
    "headers": "collected by the parser's callbacks, as uvicorn does",
    "expect_100_continue": "such a request takes the plain path",
    "cycle": "the request that uvicorn is answering; none may be answered here meanwhile",
    "cycle.response_complete": "whether it is answered",
    "cycle.response_started": "whether a slow request can still be refused",
    "cycle.disconnected": "set by uvicorn when the caller hangs up",
    "cycle.keep_alive": "cleared by uvicorn when the server stops",
    "cycle.message_event": "set by uvicorn when the caller hangs up",
    "flow.write_paused": "a caller that does not read takes the plain path",
    "pipeline": "requests that arrived while one was answered",
    "on_response_complete": "continues with them",
    "timeout_keep_alive": "how long an idle connection stays open",
    "timeout_keep_alive_task": "uvicorn's timer of an idle connection, which it has to stop itself",
    "server_state.total_requests": "counts the requests answered here",
    "server_state.default_headers": "the header Date",
    "send_400_response": "called by uvicorn for a request that is not HTTP; overridden",
}
"""Attributes of uvicorn's protocol used here, and why; a test names one that is missing."""

READ_SECONDS = 30.0
"""How long a request may take to arrive."""
HEAD = 16_384
"""Bytes of the request line and the headers."""
CONNECTIONS = 20_000
"""How many connections there may be at a time."""
ONE_HOST = "An HTTP/1.1 request must have exactly one header Host."

Callback = Callable[[Request, Reply], None]
"""Called with a request and its answer if that has to wait."""


class _Refused(Exception):
    """The request line or the headers are refused."""


class LimitedConnection(HttpToolsProtocol):
    """A connection that refuses a peer that is slow, or whose headers are too large."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._head = 0
        self._in_head = True
        # The time of the first check by the server's task.
        self.waiting_since: float | None = None
        self.unfinished = True
        self._problem = Problem("invalid_request", "The request must be HTTP/1.1.")
        self._host = False
        # How many requests have begun.
        self._begun = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, or refuse it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self._refuse(Problem("overloaded", "There are too many connections.", retry_after=1.0))

    def data_received(self, data: bytes) -> None:
        """Take received bytes."""
        begun, idle = self._begun, self._begun == 0 or not self.unfinished
        super().data_received(data)
        # Headers that are complete were counted; this is about one that does not end. Of a piece
        # with the end of another request, it is not known how much belongs to this one.
        whole = self._begun == begun or (self._begun == begun + 1 and idle)
        if self._in_head and self.unfinished and whole:
            self._head += len(data)
            if self._head > 2 * HEAD and not self.transport.is_closing():
                self._refuse(Problem("headers_too_large"))

    def on_message_begin(self) -> None:
        """Start a request."""
        self._begin()
        super().on_message_begin()

    def _begin(self) -> None:
        self._head = 0
        self._begun += 1
        self._host = False
        self._in_head = self.unfinished = True
        self.waiting_since = None

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        self._head += len(url)
        if self._head > HEAD:
            self._stop(Problem("headers_too_large"))
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._head += len(name) + len(value) + 4
        if self._head > HEAD:
            self._stop(Problem("headers_too_large"))
        name = name.lower()
        if name == b"host":
            # Of two, a proxy and this service might believe different ones.
            if self._host:
                self._stop(Problem("invalid_request", ONE_HOST))
            self._host = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def _stop(self, problem: Problem) -> None:
        """Refuse the request out of the parser, which uvicorn then closes."""
        self._problem = problem
        raise _Refused

    def _end_head(self) -> None:
        """Note that the headers are complete, or refuse the request.

        HTTP/0.9 has no headers, and HTTP/1.1 must name a host (RFC 9112, section 3.2).
        """
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop(self._problem)
        if version == "1.1" and not self._host:
            self._stop(Problem("invalid_request", ONE_HOST))
        self._in_head = False

    def on_headers_complete(self) -> None:
        """Answer, or wait for the body."""
        self._end_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request."""
        self.unfinished = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP."""
        self._refuse(self._problem)

    def look(self, now: float) -> None:
        """Close the connection if nothing arrives in time; called once a second."""
        if self.transport.is_closing() or not self.unfinished:
            return
        if self.waiting_since is None:
            self.waiting_since = now
        elif now - self.waiting_since > READ_SECONDS:
            cycle = self.cycle
            if cycle is not None and not cycle.response_complete and cycle.response_started:
                self.transport.close()
            else:
                self._refuse(Problem("body_timeout", "The request did not arrive in time."))

    def _refuse(self, problem: Problem) -> None:
        self.app.metrics.count_problem(problem.code)
        body = wire.encode(problem.document("none"))
        head = (
            f"HTTP/1.1 {problem.status} Refused\r\ncontent-type: {PROBLEM.decode()}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


# --- answers without ASGI -------------------------------------------------------------------------


def _decide(app: FastApplication, request: Request, callback: Callback) -> Reply | None:
    """Draw an arm, at once if nothing has to be written first."""
    body = request.body or handlers.ALL_ARMS
    if body.unit is None and b"idempotency-key" not in request.headers:
        made = app.service.decide_at_once(
            request.who, request.given[0], available=body.available, deferred=body.deferred,
            vector=request.query.vector, advice=body.advice, asleep=body.asleep,
            segment=body.segment,
        )  # fmt: skip
        if made is not None:
            return Reply(201, wire.encode(made))
    app.answer_later(request, handlers.decide(app, request), callback)
    return None


def _decide_many(app: FastApplication, request: Request, callback: Callback) -> None:
    """Draw several arms."""
    app.answer_later(request, handlers.decide_many(app, request), callback)


def _feedback(app: FastApplication, request: Request, callback: Callback) -> None:
    """Learn from a decision; without a task, which would cost as much as the rest."""

    def told(outcome: Told | Problem) -> None:
        if isinstance(outcome, Problem):
            reply = app.refused(request, outcome)
        else:
            reply = Reply(200, handlers.TOLD[outcome.status])
        app.note(request, reply)
        callback(request, reply)

    body = request.body
    loss = None if body.loss is UNSET else body.loss
    reward = None if body.reward is UNSET else body.reward
    try:
        app.service.tell(request.who, request.given[0], loss, reward, told)
    except StaleReplica:
        app.answer_later(request, handlers.feedback(app, request), callback)


DIRECT = {"decide": _decide, "decide_many": _decide_many, "feedback": _feedback}
"""Operations that are answered here: at once, or later by calling the callback."""
LINES = tuple(route for route in ROUTES if route.operation in DIRECT)
LINE = re.compile(
    "|".join(
        f"{route.method} {re.sub('{[a-z]+}', '([A-Za-z0-9._~-]+)', route.path)} HTTP/1[.]1"
        for route in LINES
    ).encode()
)
"""First lines of their requests, without a query and with one group for each of `LINES`."""
_PASSING = frozenset({b"x-request-id", b"idempotency-key", b"traceparent"})
"""Headers with another value in every request."""
_PASSING_LINE = re.compile(
    rb"\r\n(x-request-id|traceparent): ([A-Za-z0-9._\-]{1,64})(?=\r\n|\Z)", re.IGNORECASE
)
"""Those of them that may be ignored when header blocks are compared, in their usual form."""
_LONGEST_HEAD = 2048
MOST_HEADS = 256
"""Bytes of headers that are kept to be recognised, and how many of them."""


class KnownHeaders:
    """Headers that are recognised by their bytes, because they came before.

    A program sends the same headers with every request. Looking them up takes a tenth of the time
    of parsing them and of checking the key among them.

    Parameters
    ----------
    headers : dict of bytes to bytes
        By name in lower case.

    Attributes
    ----------
    length : int
        How long the body is.
    who : Principal
        The caller that sent them, as long as ``keys`` are the verified keys of the service.
    """

    __slots__ = ("headers", "keys", "length", "who")

    def __init__(self, headers: Headers) -> None:
        self.headers = headers
        self.length = int(headers.get(b"content-length", b"0"))
        self.who = UNKNOWN
        self.keys: dict[str, Principal] | None = None


class FastApplication(Application):
    """The ASGI application, which also answers the requests of `DIRECT` without ASGI."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.known: dict[bytes, KnownHeaders] = {}

    def recognised(self, data: bytes) -> tuple[Request, KnownHeaders, bytes] | None:
        """Return a request of a `DIRECT` operation and its body, if its headers came before.

        None only means that it has to be parsed: it may be any request.
        """
        line, _, rest = data.partition(b"\r\n")
        lines, _, body = rest.partition(b"\r\n\r\n")
        passing: Headers = {}
        known = self.known.get(lines)
        if known is None:
            lines, passing = _without_passing(lines)
            known = self.known.get(lines) if passing else None
        if known is None or len(body) != known.length:
            return None
        found = LINE.fullmatch(line)
        if found is None:
            return None
        place = found.lastindex or 0
        given = [found[place].decode("ascii")]
        headers = {**known.headers, **passing} if passing else known.headers
        id = passing.get(b"x-request-id") or next(self.ids)
        return Request(LINES[place - 1], given, headers, id), known, body

    def remember(self, data: bytes, count: int, headers: Headers) -> None:
        """Keep the headers of a request that came in one piece, as they were parsed.

        Without those that differ in every request.
        """
        if b"origin" in headers:
            # Browsers differ in their headers: they would evict those of programs.
            return
        _, _, rest = data.partition(b"\r\n")
        lines, end, _ = rest.partition(b"\r\n\r\n")
        # A header is a line: headers that a parser divides differently are not kept.
        if (
            end
            and lines.count(b"\n") == lines.count(b"\r\n") == count - 1
            and len(lines) <= _LONGEST_HEAD
        ):
            lines, passing = _without_passing(lines)
            headers = {name: headers[name] for name in headers.keys() - passing.keys()}
            if headers.keys() & _PASSING:
                return
            if len(self.known) >= MOST_HEADS:
                self.known.clear()
            self.known[lines] = KnownHeaders(headers)

    def answer(
        self,
        request: Request,
        known: KnownHeaders | None,
        query: bytes,
        body: bytes,
        callback: Callback,
    ) -> Reply | None:
        """Answer a request of a `DIRECT` operation: at once, or by calling the callback later."""
        try:
            if known is None:
                self.admit(request, query)
            else:
                keys = self.service.state.verified_keys
                if known.keys is keys and request.route.scope in known.who.scopes:
                    request.who = known.who
                    self.read_query(request, query)
                else:
                    self.admit(request, query)
                    if request.who.until is None:
                        # A token is checked at every request: it expires.
                        known.who, known.keys = request.who, keys
            if not self.take(request, body):
                later = partial(self._answer_waiting, request, callback)
                self.turns.wait(request.who.tenant, request.weight, later)
                return None
            reply = DIRECT[request.route.operation](self, request, callback)
        except Exception as error:
            reply = self.refused(request, error)
        if reply is not None:
            self.note(request, reply)
        return reply

    def _answer_waiting(self, request: Request, callback: Callback) -> None:
        """Answer a request that waited for the turn of its tenant."""
        try:
            reply = DIRECT[request.route.operation](self, request, callback)
        except Exception as error:
            reply = self.refused(request, error)
        if reply is not None:
            self.note(request, reply)
            callback(request, reply)

    def answer_later(
        self, request: Request, handling: Coroutine[Any, Any, Reply], callback: Callback
    ) -> None:
        """Let a task answer a request."""

        async def answered() -> None:
            try:
                reply = await handling
            except Exception as error:
                reply = self.refused(request, error)
            self.note(request, reply)
            callback(request, reply)

        task = asyncio.get_running_loop().create_task(answered())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def _without_passing(lines: bytes) -> tuple[bytes, Headers]:
    """Return headers without the lines that differ in every request, and those by name."""
    passing: Headers = {}

    def taken(line: re.Match[bytes]) -> bytes:
        passing[line[1].lower()] = line[2]
        return b""

    return _PASSING_LINE.sub(taken, lines), passing


# --- connections with the fast path ---------------------------------------------------------------


class _Waiting:
    """A connection's request that waits for its answer: the part of a cycle that uvicorn reads."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")
    response_started = False

    def __init__(self) -> None:
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = False
        self.message_event = _NO_EVENT


class _NoEvent:
    def set(self) -> None:
        """Do nothing: no task waits for a body, which is complete."""


_NO_EVENT = _NoEvent()


class FastConnection(LimitedConnection):
    """A connection that answers the requests of `DIRECT` without ASGI."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        assert isinstance(self.app, FastApplication)
        self._application: FastApplication = self.app
        # A request that is answered without ASGI, its query, its body.
        self._request: Request | None = None
        self._query = self._body = b""
        self._waiting = _Waiting()
        # Whether the parser waits for the start of a request, and when that arrived.
        self._between = True
        self._piece = b""
        # How often the server's task checked since a request was answered without ASGI.
        self._resting: int | None = None

    def data_received(self, data: bytes) -> None:
        """Take received bytes."""
        self._resting = None
        if self._between:
            if self._again(data):
                return
            self._piece = data
        super().data_received(data)

    def _again(self, data: bytes) -> bool:
        """Answer a whole request whose headers came before; return whether it is one."""
        if len(data) > HEAD or not self._free() or self.timeout_keep_alive_task is not None:
            return False
        found = self._application.recognised(data)
        if found is None:
            return False
        self.unfinished = False
        request, known, body = found
        self._answer(request, known, b"", body)
        return True

    def _free(self) -> bool:
        """Return whether an answer can be sent at once."""
        before = self.cycle
        return (before is None or before.response_complete) and not self.flow.write_paused

    def on_message_begin(self) -> None:
        """Start a request; its ASGI scope is created when it is needed."""
        self._between = False
        self._begin()
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        """Answer, or wait for the body."""
        self._end_head()
        piece, self._piece = self._piece, b""
        self._request = self._direct(piece)
        if self._request is None:
            url, headers, expect = self.url, self.headers, self.expect_100_continue
            host = self._host
            super().on_message_begin()
            self.url, self.expect_100_continue, self._host = url, expect, host
            self.headers += headers
            super().on_headers_complete()

    def _direct(self, piece: bytes) -> Request | None:
        """Return the request if it is one that can be answered without ASGI."""
        parser = self.parser
        path, _, query = self.url.partition(b"?")
        headers = dict(self.headers)
        if (
            not self._free()
            or self.expect_100_continue
            or b"transfer-encoding" in headers
            or not path.startswith(b"/")
            or b"#" in query
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
            or parser.should_upgrade()
        ):
            return None
        request = self._application.request(
            parser.get_method().decode("ascii"), path.decode("latin-1"), headers
        )
        if request.operation not in DIRECT:
            return None
        if b"content-length" in headers and int(headers[b"content-length"]) > request.route.limit:
            return None
        self._application.remember(piece, len(self.headers), headers)
        self._query, self._body = query, b""
        return request

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self._request is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """End a request."""
        self._between = True
        request = self._request
        if request is None:
            super().on_message_complete()
            return
        self.unfinished = False
        self._request = None
        self._answer(request, None, self._query, self._body)

    def _answer(
        self, request: Request, known: KnownHeaders | None, query: bytes, body: bytes
    ) -> None:
        reply = self._application.answer(request, known, query, body, self._answered)
        if reply is not None:
            self._send(request, reply)
            self._rest()
            return
        # Until it is answered it takes the place where uvicorn looks for an open request.
        self._waiting.response_complete = False
        self.cycle = self._waiting  # type: ignore[assignment]

    def _answered(self, request: Request, reply: Reply) -> None:
        """Send an answer that had to wait; until then no further request is taken directly."""
        waiting = self._waiting
        if not waiting.disconnected:
            self._send(request, reply, b"" if waiting.keep_alive else b"connection: close\r\n")
            if not waiting.keep_alive:
                self.transport.close()
        waiting.response_complete = True
        if self.pipeline:
            self.on_response_complete()
        else:
            self._rest()

    def _rest(self) -> None:
        """Wait for the next request."""
        # uvicorn would start and stop a timer for every one.
        self._resting = 0
        self.server_state.total_requests += 1

    def _send(self, request: Request, reply: Reply, more: bytes = b"") -> None:
        cross_origin = self._application.cross_origin
        if cross_origin is not None:
            cross_origin.share(request, reply)
        status, date = STATUS_LINE[reply.status], _lines(self.server_state.default_headers)
        self.transport.write(
            b"%b%b%b%b\r\n%b" % (status, date, _head(reply, request.id), more, reply.body)
        )

    def look(self, now: float) -> None:
        """Close the connection if nothing arrives in time; called once a second."""
        if not self.unfinished and self._resting is not None:
            self._resting += 1
            if self._resting > self.timeout_keep_alive and not self.transport.is_closing():
                self.transport.close()
        else:
            super().look(now)


def _head(reply: Reply, id: bytes) -> bytes:
    """Return the headers of an answer as they are sent."""
    if reply.extra is None and reply.body:
        return b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n" % (
            reply.media, len(reply.body), id,
        )  # fmt: skip
    return b"".join([b"%b: %b\r\n" % header for header in reply.headers(id)])


def _lines(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return headers as they are sent; those of the server are the same for a second."""
    if _sent.headers is not headers:
        _sent.headers = headers
        _sent.text = b"".join([b"%b: %b\r\n" % each for each in headers])
    return _sent.text


class _Sent:
    """Headers, and their original bytes."""

    headers: list[tuple[bytes, bytes]] | None = None
    text = b""


_sent = _Sent()
