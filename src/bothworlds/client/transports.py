"""Transports of the clients: sockets that block, and streams of asyncio.

Each sends a request over an idle connection, or a new one if those are gone, and returns the answer
or a `Failure`. The rest of both clients is the same: `tools/generate.py` writes one from the other.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import ssl
import threading
import time

from bothworlds.client.calls import Failure
from bothworlds.client.exchange import Endpoint, Malformed, Parser, Response

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PIECE = 65_536
LATE = "did not answer in time"


class Transport:
    """Connections of a client that blocks; safe to share between threads."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._context = endpoint.context()
        self._idle: list[socket.socket] = []
        self._process = os.getpid()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def send(self, request: bytes, deadline: float, repeatable: bool) -> Response | Failure:
        """Send a request.

        One that must not be repeated takes a new connection: on an idle one the client cannot tell
        whether the service closed it before or after it read the request.
        """
        while repeatable and (kept := self._taken()) is not None:
            outcome = self._exchanged(kept, request, deadline)
            if not isinstance(outcome, Failure) or outcome.late:
                return outcome
        endpoint = self._endpoint
        try:
            left = max(deadline - time.monotonic(), 1e-3)
            made = socket.create_connection((endpoint.host, endpoint.port), left)
        except TimeoutError:
            return Failure(LATE, sent=False, late=True)
        except OSError as error:
            return Failure(f"cannot be reached ({error.strerror or error})", sent=False)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                made = self._context.wrap_socket(made, server_hostname=endpoint.host)
        except (OSError, ssl.SSLError) as error:
            made.close()
            return Failure(f"cannot be reached ({error})", sent=False)
        return self._exchanged(made, request, deadline)

    def _exchanged(
        self, connection: socket.socket, request: bytes, deadline: float
    ) -> Response | Failure:
        parser = Parser()
        response: Response | None = None
        try:
            connection.settimeout(max(deadline - time.monotonic(), 1e-3))
            connection.sendall(request)
            while response is None:
                connection.settimeout(max(deadline - time.monotonic(), 1e-3))
                data = connection.recv(_PIECE)
                response = parser.feed(data) if data else parser.end()
        except TimeoutError:
            return Failure(LATE, sent=True, late=True)
        except (OSError, Malformed) as error:
            return Failure(f"broke off ({error})", sent=True)
        finally:
            if response is None or not response.reusable:
                connection.close()
        if response.reusable:
            with self._lock:
                self._idle.append(connection)
        return response

    def _taken(self) -> socket.socket | None:
        """Return an idle connection of this process."""
        with self._lock:
            if self._process != os.getpid():
                # The parent of a fork keeps using them.
                self._idle, self._process = [], os.getpid()
            while self._idle:
                kept = self._idle.pop()
                if not _readable(kept):
                    return kept
                kept.close()
            return None


def _readable(connection: socket.socket) -> bool:
    """Return whether an idle connection has ended, or has data that no request asked for."""
    held = connection.pending() if isinstance(connection, ssl.SSLSocket) else 0
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return held > 0 or bool(selector.select(0))


class AsyncTransport:
    """Connections of a client that is awaited."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._context = endpoint.context()
        self._idle: list[Streams] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def close(self) -> None:
        """Close the idle connections."""
        idle, self._idle = self._idle, []
        for _, writer in idle:
            writer.close()

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def send(self, request: bytes, deadline: float, repeatable: bool) -> Response | Failure:
        """Send a request, as `Transport.send` does."""
        while repeatable and (kept := self._taken()) is not None:
            outcome = await self._exchanged(kept, request, deadline)
            if not isinstance(outcome, Failure) or outcome.late:
                return outcome
        endpoint = self._endpoint
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                made = await asyncio.open_connection(
                    endpoint.host, endpoint.port, ssl=self._context
                )
        except TimeoutError:
            return Failure(LATE, sent=False, late=True)
        except (OSError, ssl.SSLError) as error:
            return Failure(f"cannot be reached ({error.strerror or error})", sent=False)
        return await self._exchanged(made, request, deadline)

    async def _exchanged(
        self, connection: Streams, request: bytes, deadline: float
    ) -> Response | Failure:
        reader, writer = connection
        parser = Parser()
        response: Response | None = None
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                writer.write(request)
                await writer.drain()
                while response is None:
                    data = await reader.read(_PIECE)
                    response = parser.feed(data) if data else parser.end()
        except TimeoutError:
            return Failure(LATE, sent=True, late=True)
        except (OSError, Malformed) as error:
            return Failure(f"broke off ({error})", sent=True)
        finally:
            # Also when the caller is cancelled: a late answer must not meet another request.
            if response is None or not response.reusable:
                writer.close()
        if response.reusable:
            self._idle.append(connection)
        return response

    def _taken(self) -> Streams | None:
        """Return an idle connection of this event loop."""
        if self._loop is not asyncio.get_running_loop():
            self._idle, self._loop = [], asyncio.get_running_loop()
        while self._idle:
            reader, writer = self._idle.pop()
            connection = writer.get_extra_info("socket")
            # Data may be in the buffer of the reader, or still in that of the kernel.
            unread = reader.at_eof() or len(reader._buffer) > 0  # type: ignore[attr-defined]
            if not unread and not _readable(connection):
                return reader, writer
            writer.close()
        return None
