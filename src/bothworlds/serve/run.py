"""Server of the decision service: uvicorn, with limits on what a peer may leave unfinished.

uvicorn waits for ever for the end of a request. The connection here knows since when it waits: one
task looks at all of them once a second, which costs a request nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bothworlds.errors import BothworldsError, InvalidParameter, must
from bothworlds.serve import wire
from bothworlds.serve.http import PROBLEM, Application
from bothworlds.serve.logs import LOGGER
from bothworlds.serve.problems import Problem
from bothworlds.serve.service import Service

READ_SECONDS = 30.0
"""How long a request may take to arrive."""
IDLE_SECONDS = 75
"""How long a connection stays open between requests."""
HEAD = 16_384
"""Bytes of the request line and the headers."""
CONNECTIONS = 20_000
"""How many connections there may be at a time."""
STOP_SECONDS = 20
"""How long requests that have begun may go on when the server stops."""


class _TooMuch(Exception):
    """The headers are too large."""


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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, or refuse it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self._refuse(Problem("overloaded", "There are too many connections.", retry_after=1.0))

    def data_received(self, data: bytes) -> None:
        """Take what the peer sent."""
        super().data_received(data)
        if self._in_head and self.unfinished:
            # Headers that are complete were counted; this is about one that does not end.
            self._head += len(data)
            if self._head > 2 * HEAD and not self.transport.is_closing():
                self._refuse(Problem("headers_too_large"))

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._head = 0
        self._in_head = self.unfinished = True
        self.waiting_since = None

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        self._counted(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._counted(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _counted(self, length: int) -> None:
        self._head += length
        if self._head > HEAD:
            self._problem = "headers_too_large"
            raise _TooMuch

    def on_headers_complete(self) -> None:
        """Answer, or wait for the body."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request."""
        self.unfinished = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        detail = "The request must be HTTP/1.1." if self._problem == "invalid_request" else None
        self._refuse(Problem(self._problem, detail))

    def look(self, now: float) -> None:
        """Close the connection if its request has not arrived in time."""
        if not self.unfinished or self.transport.is_closing():
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


class Server(uvicorn.Server):
    """Server that says where it listens, and stops well.

    Parameters
    ----------
    config : uvicorn.Config
        Its settings.
    application : Application
        What it serves.
    announce : callable
        Called with the address once requests are answered.
    stop : threading.Event, optional
        Stops the server when it is set.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        announce: Callable[[str], None],
        stop: threading.Event | None = None,
    ) -> None:
        super().__init__(config)
        self._application = application
        self._announce = announce
        self._stop = stop
        self._looking: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the service, listen, and say so."""
        await super().startup(sockets)
        if self.should_exit or not self.started:
            return
        self._looking = asyncio.get_running_loop().create_task(self._look())
        assert sockets is not None
        host, port = sockets[0].getsockname()[:2]
        self._announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop; asked ten times a second."""
        return await super().on_tick(counter) or (self._stop is not None and self._stop.is_set())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what has begun, write what was acknowledged, and stop."""
        self._application.stopping.set()
        await super().shutdown(sockets)
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(1.0)
            now = loop.time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.look(now)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at a signal; at once if Ctrl-C comes twice."""
        # uvicorn raises the signal again once it has stopped, and the process would die of it.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def run(
    opening: Callable[[], Any],
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    keys: bool = False,
    rate: float | None = None,
    access_log: bool = False,
    announce: Callable[[str], None] = print,
    stop: threading.Event | None = None,
) -> None:
    """Serve until a signal comes.

    Parameters
    ----------
    opening : callable
        Opens the service; a coroutine function.
    host, port : str, int
        Where to listen; 0 takes a free port.
    keys : bool
        Whether requests need a key; without, only a loopback address is listened on.
    rate : float, optional
        Requests a second that a key may make.
    access_log : bool
        Whether every request is logged.
    announce : callable
        Called with the address once requests are answered.
    stop : threading.Event, optional
        Stops the service when it is set, as a signal does.

    Raises
    ------
    InvalidParameter
        If the address cannot be listened on, or is not loopback although no keys are required.
    BothworldsError
        What opening the service raised.
    """
    if not keys and not is_loopback(host):
        expected = "a loopback address such as 127.0.0.1, unless --require-keys is given"
        raise InvalidParameter(must("--host", "bothworlds serve", expected, host))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise InvalidParameter(
            f"The address {host}:{port} cannot be listened on: {error}."
        ) from None
    failed: list[BothworldsError] = []

    async def opened() -> Service:
        try:
            service: Service = await opening()
        except BothworldsError as error:
            failed.append(error)
            raise
        return service

    _raise_the_limit_of_files()
    with listener:
        application = Application(opened, keys=keys, rate=rate, access_log=access_log)
        config = uvicorn.Config(
            application,
            http=Connection,
            ws="none",
            loop="uvloop" if _has_uvloop() else "asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        try:
            Server(config, application, announce, stop).run([listener])
        except SystemExit:
            if failed:
                raise failed[0] from None
            raise
    LOGGER.info("stopped")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return False
    return True


def _raise_the_limit_of_files() -> None:
    """Let the process have as many connections as the system allows it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
