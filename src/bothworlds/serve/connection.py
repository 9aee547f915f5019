"""Connection of a caller: requests read by uvicorn's protocol, with limits, and a short way.

uvicorn waits for ever for the end of a request. The connection here knows since when it waits: one
task looks at all of them once a second, which costs a request nothing.

Decisions and feedback are answered without ASGI, which would cost more than a decision does: no
task, no messages, one write. What is unusual about a request, such as a body of unknown length,
sends it the ordinary way. Headers that came before are known by their bytes: such a request is not
even parsed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bothworlds.serve import wire
from bothworlds.serve.http import DIRECT, PROBLEM, Application, Asked, Reply
from bothworlds.serve.problems import Problem

READ_SECONDS = 30.0
"""How long a request may take to arrive."""
HEAD = 16_384
"""Bytes of the request line and the headers."""
CONNECTIONS = 20_000
"""How many connections there may be at a time."""


class _TooMuch(Exception):
    """The headers are too large."""


class _Waiting:
    """A request that waits for its answer, as far as uvicorn wants to know."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")
    response_started = False

    def __init__(self) -> None:
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = False
        self.message_event = _NO_EVENT


class _NoEvent:
    def set(self) -> None:
        """Nobody waits for a body: it is there."""


_NO_EVENT = _NoEvent()


class Connection(HttpToolsProtocol):
    """A connection that gives up on a peer that is slow, or says too much before its request."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._head = 0
        self._in_head = True
        # When the server's task looks for the first time, it notes the time here.
        self.waiting_since: float | None = None
        self.unfinished = True
        self._problem = "invalid_request"
        self._application = self.app if isinstance(self.app, Application) else None
        # A request that is answered without ASGI, what stands behind ? in its address, its body.
        self._asked: Asked | None = None
        self._query = self._body = b""
        self._waiting: _Waiting
        # Whether the parser waits for a request to begin, and what arrived when it did.
        self._between = True
        self._piece = b""
        # How often the server's task looked since a request was answered without ASGI.
        self._resting: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, or refuse it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self._refuse(Problem("overloaded", "There are too many connections.", retry_after=1.0))

    def data_received(self, data: bytes) -> None:
        """Take what the peer sent."""
        self._resting = None
        if self._between:
            if self._again(data):
                return
            self._piece = data
        super().data_received(data)
        if self._in_head and self.unfinished:
            # Headers that are complete were counted; this is about one that does not end.
            self._head += len(data)
            if self._head > 2 * HEAD and not self.transport.is_closing():
                self._refuse(Problem("headers_too_large"))

    def _again(self, data: bytes) -> bool:
        """Answer a whole request with headers that came before; tell whether it is one."""
        if (
            self._application is None
            or len(data) > HEAD
            or not self._free()
            or self.timeout_keep_alive_task is not None
        ):
            return False
        found = self._application.asked_again(data)
        if found is None:
            return False
        self.unfinished = False
        self._answer(self._application, found[0], b"", found[1])
        return True

    def _free(self) -> bool:
        """Tell whether an answer can be sent at once."""
        before = self.cycle
        return (before is None or before.response_complete) and not self.flow.write_paused

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._between = False
        self._head = 0
        self._in_head = self.unfinished = True
        self.waiting_since = None
        if self._application is None:
            super().on_message_begin()
        else:
            # What ASGI wants of a request is made when it is needed.
            self.url = b""
            self.expect_100_continue = False
            self.headers = []

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        self._head += len(url)
        if self._head > HEAD:
            self._too_much()
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._head += len(name) + len(value) + 4
        if self._head > HEAD:
            self._too_much()
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def _too_much(self) -> None:
        self._problem = "headers_too_large"
        raise _TooMuch

    def on_headers_complete(self) -> None:
        """Answer, or wait for the body."""
        self._in_head = False
        piece, self._piece = self._piece, b""
        if self._application is not None:
            self._asked = self._direct(self._application, piece)
            if self._asked is not None:
                return
            url, headers, expect = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expect
            self.headers += headers
        super().on_headers_complete()

    def _direct(self, application: Application, piece: bytes) -> Asked | None:
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
        asked = application.asked(
            parser.get_method().decode("ascii"), path.decode("latin-1"), headers
        )
        if asked.operation not in DIRECT:
            return None
        if b"content-length" in headers and int(headers[b"content-length"]) > asked.route.limit:
            return None
        application.remember(piece, len(self.headers), headers)
        self._query, self._body = query, b""
        return asked

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self._asked is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """End a request."""
        self.unfinished = False
        self._between = True
        asked = self._asked
        if asked is None:
            super().on_message_complete()
            return
        assert self._application is not None
        self._asked = None
        self._answer(self._application, asked, self._query, self._body)

    def _answer(self, application: Application, asked: Asked, query: bytes, body: bytes) -> None:
        reply = application.answer(asked, query, body, self._answered)
        if reply is not None:
            self._send(asked, reply)
            self._rest()
            return
        # Until it is answered it stands where uvicorn looks for a request that is not.
        self._waiting = _Waiting()
        self.cycle = self._waiting  # type: ignore[assignment]

    def _answered(self, asked: Asked, reply: Reply) -> None:
        """Send an answer that had to wait; until then no further request is taken directly."""
        waiting = self._waiting
        if not waiting.disconnected:
            self._send(asked, reply, b"" if waiting.keep_alive else b"connection: close\r\n")
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

    def _send(self, asked: Asked, reply: Reply, more: bytes = b"") -> None:
        status, date = STATUS_LINE[reply.status], _lines(self.server_state.default_headers)
        self.transport.write(
            b"%b%b%b%b\r\n%b" % (status, date, reply.head(asked.id), more, reply.body)
        )

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        detail = "The request must be HTTP/1.1." if self._problem == "invalid_request" else None
        self._refuse(Problem(self._problem, detail))

    def look(self, now: float) -> None:
        """Close the connection if nothing arrives in time; called once a second."""
        if self.transport.is_closing():
            return
        if not self.unfinished:
            if self._resting is not None:
                self._resting += 1
                if self._resting > self.timeout_keep_alive:
                    self.transport.close()
            return
        if self.waiting_since is None:
            self.waiting_since = now
        elif now - self.waiting_since > READ_SECONDS:
            if (
                self.cycle is not None
                and not self.cycle.response_complete
                and (self.cycle.response_started)
            ):
                self.transport.close()
            else:
                self._refuse(Problem("body_timeout", "The request did not arrive in time."))

    def _refuse(self, problem: Problem) -> None:
        body = wire.encode(problem.document("none"))
        head = (
            f"HTTP/1.1 {problem.status} Refused\r\ncontent-type: {PROBLEM.decode()}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def _lines(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return headers as they are sent; those of the server are the same for a second."""
    if _sent.headers is not headers:
        _sent.headers = headers
        _sent.text = b"".join([b"%b: %b\r\n" % each for each in headers])
    return _sent.text


class _Sent:
    """Headers, and what they were sent as."""

    headers: list[tuple[bytes, bytes]] | None = None
    text = b""


_sent = _Sent()
