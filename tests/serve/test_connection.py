"""Requests whose headers came before: read as they would be if nothing were known of them."""

import asyncio
import itertools

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from bothworlds.serve.http import fast_path
from bothworlds.serve.http.app import ROUTES
from bothworlds.serve.http.fast_path import FastApplication, FastConnection
from bothworlds.serve.http.messages import Reply
from bothworlds.serve.http.routes import Router

LINES = [
    b"POST /v1/experiments/headline/decisions HTTP/1.1",
    b"POST /v1/experiments/headline/decisions HTTP/1.0",
    b"POST /v1/experiments/head%20line/decisions HTTP/1.1",
    b"POST /v1/experiments/headline/decisions?vector=1 HTTP/1.1",
    b"POST /v1/experiments/headline/decisions:batch HTTP/1.1",
    b"POST /v1/experiments/headline/arms HTTP/1.1",
    b"PUT /v1/decisions/AbC-_9/feedback HTTP/1.1",
    b"PUT /v1/decisions/AbC-_9/feedback HTTP/1.1 ",
    b"PUT  /v1/decisions/AbC-_9/feedback HTTP/1.1",
    b"GET /v1/experiments/headline/decisions HTTP/1.1",
    b"",
]
HEADERS = [
    b"Host: localhost",
    b"Authorization: Bearer bw_k1_secret",
    b"AUTHORIZATION: Bearer bw_k2_secret",
    b"Content-Length: 0",
    b"Content-Length: 12",
    b"Content-Length: +12",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"Expect: 100-continue",
    b"X-Request-Id: mine",
    b"x-request-ID: other",
    b"X-Request-Id: no id",
    b"X-Request-Id:  mine",
    b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    b"Idempotency-Key: once",
    b"X: 1\r\n folded",
    b"X: 1\nY: 2",
    b"X:",
    b"no header",
]
BODIES = [b"", b'{"loss":0.5}', b'{"loss":0.25}', b"c\r\n" + b'{"loss":0.5}' + b"\r\n0\r\n\r\n"]


class Transport(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data):
        self.written += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def get_extra_info(self, name, default=None):
        return default

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Noting(FastApplication):
    """An application that notes what it is asked, and knows headers again or never does."""

    def __init__(self, knows):
        super().__init__(None, keys=True)
        self.knows = knows
        self.noted = []
        self.again = 0

    def recognised(self, data):
        found = super().recognised(data) if self.knows else None
        self.again += found is not None
        return found

    def answer(self, request, known, query, body, callback):
        named = request.id if request.id in request.headers.values() else None
        self.noted.append((request.operation, request.given, request.headers, named, query, body))
        return Reply(200, b"{}")

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.noted.append((scope["method"], scope["raw_path"], dict(scope["headers"]), body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def heard(pieces, knows):
    """Return what a connection takes pieces of bytes for, and how many requests it knew."""

    async def run():
        app, state, transport = Noting(knows), ServerState(), Transport()
        config = uvicorn.Config(
            app, http=FastConnection, ws="none", log_config=None, proxy_headers=False
        )
        config.load()
        connection = FastConnection(config, state, {})
        connection.connection_made(transport)
        for piece in pieces:
            if not transport.closed:
                connection.data_received(piece)
            for _ in range(20):
                await asyncio.sleep(0)
        statuses = [part[:3] for part in transport.written.split(b"HTTP/1.1 ")[1:]]
        connection.connection_lost(None)
        return (app.noted, statuses, transport.closed), app.again

    return asyncio.run(run())


requests = st.builds(
    lambda line, headers, end, body: end.join([line, *headers, b""]) + end + body,
    st.sampled_from(LINES) | st.just(LINES[0]) | st.just(LINES[6]),
    st.lists(st.sampled_from(HEADERS), max_size=4)
    | st.just([HEADERS[0], HEADERS[1]])
    | st.just([HEADERS[0], HEADERS[1], HEADERS[4]]),
    st.sampled_from([b"\r\n"] * 9 + [b"\n"]),
    st.sampled_from(BODIES),
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(requests, min_size=1, max_size=4), st.lists(st.integers(0, 400), max_size=3))
@settings(max_examples=300, deadline=None)
def test_what_is_known_is_read_as_if_it_were_not(sent, cuts):
    # All of it twice, so that it is known: request by request, and then cut anywhere.
    whole = b"".join(sent)
    cuts = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [whole[a:b] for a, b in itertools.pairwise(cuts)]
    for order in ([*sent, *sent], [*sent, *pieces], [*pieces, *pieces]):
        assert heard(order, knows=True)[0] == heard(order, knows=False)[0]


ASKING = LINES[0] + b"\r\nHost: localhost\r\nAuthorization: Bearer k\r\n\r\n"
TELLING = (
    LINES[6] + b"\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n" + b'{"loss":0.5}'
)  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "known"),
    [
        ([ASKING] * 3, 2),
        ([TELLING] * 3, 2),
        # The same headers below another line.
        ([ASKING, ASKING.replace(b"headline", b"other")], 1),
        # Several at once, half of one, another length.
        ([ASKING, ASKING + ASKING], 0),
        ([TELLING, TELLING[:-1], TELLING[-1:]], 0),
        ([TELLING, TELLING + b" "], 0),
        # What is another one every time is not kept.
        ([ASKING.replace(b"\r\n\r\n", b"\r\nIdempotency-Key: a\r\n\r\n")] * 2, 0),
        ([ASKING.replace(b"\r\n\r\n", b"\r\nX-Request-Id: a b\r\n\r\n")] * 2, 0),
        # Or what is left without it.
        ([ASKING.replace(b"\r\n\r\n", b"\r\nX-Request-Id: %d\r\n\r\n" % n) for n in (1, 2)], 1),
        ([ASKING, ASKING.replace(b"\r\n\r\n", b"\r\ntraceparent: 00-1-2-3\r\n\r\n")], 1),
        ([ASKING.replace(b"HTTP/1.1", b"HTTP/1.0")] * 2, 0),
        ([ASKING.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")] * 2, 0),
        ([ASKING.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 3000 + b"\r\n\r\n")] * 2, 0),
    ],
)
def test_whole_requests_are_known_by_their_headers(pieces, known):
    found, again = heard(pieces, knows=True)
    assert again == known
    assert found == heard(pieces, knows=False)[0]


def test_what_is_divided_otherwise_than_it_is_read_stays_unknown():
    app = FastApplication(None, keys=True)
    app.remember(ASKING, 2, {})
    # A parser that takes two lines for one header, or one for two.
    for data in (
        ASKING.replace(b"Host", b"X: 1\r\n y\r\nHost"),
        ASKING.replace(b"Host", b"X\nHost"),
    ):
        app.remember(data, 3, {})
    assert len(app.known) == 1
    for number in range(2 * fast_path.MOST_HEADS):
        app.remember(ASKING.replace(b"localhost", b"host%d" % number), 2, {})
    assert len(app.known) <= fast_path.MOST_HEADS


@pytest.mark.parametrize("place", range(len(fast_path.LINES)))
def test_first_lines_are_those_of_the_routes(place):
    route = fast_path.LINES[place]
    path = route.path.replace("{experiment}", "a.b-1_~").replace("{decision}", "a.b-1_~")
    found = fast_path.LINE.fullmatch(f"{route.method} {path} HTTP/1.1".encode())
    assert found.lastindex == place + 1
    assert Router(ROUTES).find(route.method, path) == (route, [found[place + 1].decode()])
