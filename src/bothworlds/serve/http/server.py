"""Server of the decision service: uvicorn that logs its address and stops cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import uvicorn

from bothworlds.errors import BothworldsError, InvalidParameter, must
from bothworlds.serve.domain.service import Service
from bothworlds.serve.http import fast_path
from bothworlds.serve.http.app import Application
from bothworlds.serve.http.fast_path import FastApplication, FastConnection, LimitedConnection
from bothworlds.serve.http.origins import exact_origins
from bothworlds.serve.ops.away import Away
from bothworlds.serve.ops.logs import LOGGER
from bothworlds.serve.ops.tracing import Tracing

IDLE_SECONDS = 75
"""How long a connection stays open between requests."""
STOP_SECONDS = 3
"""How long started requests may continue when the server stops; it ends within 10 seconds."""
SPARE_FILES = 128
"""File descriptors that are kept for the store and the log."""
SWITCH_SECONDS = 5e-5
"""How long a thread keeps the interpreter while another one waits for it.

By default it is 5 ms, for every statement of a commit while the event loop is busy, and for every
request while a thread computes a report."""


class Server(uvicorn.Server):
    """Server that logs its address and stops cleanly.

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
        """Open the service, listen, and log the address."""
        await super().startup(sockets)
        if self.should_exit or not self.started:
            return
        self._looking = asyncio.get_running_loop().create_task(self._look())
        # Imported and compiled objects are no garbage: examining them would stop the loop.
        gc.freeze()
        assert sockets is not None
        host, port = sockets[0].getsockname()[:2]
        self._announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop; asked ten times a second."""
        return await super().on_tick(counter) or (self._stop is not None and self._stop.is_set())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer started requests, write acknowledged data, and stop."""
        self._application.stopping.set()
        await super().shutdown(sockets)
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(1.0)
            self._check_descriptors()
            now = loop.time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, LimitedConnection):
                    connection.look(now)

    def _check_descriptors(self) -> None:
        """Be not ready while new connections are refused or would be reset, and log why."""
        application, why = self._application, None
        if len(self.server_state.connections) >= fast_path.CONNECTIONS:
            why = "All connections that the limit of file descriptors allows are in use."
        else:
            try:
                os.close(os.open(os.devnull, os.O_RDONLY))
            except OSError as error:
                why = f"No file descriptor is left for a new connection: {error.strerror}."
        if why is not None and application.short_of is None:
            LOGGER.error("%s", why)
        application.short_of = why

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
    plain_http: bool = False,
    cors_origins: Sequence[str] = (),
    tracing: Tracing | None = None,
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
    plain_http : bool
        Whether decisions and feedback are answered by ASGI, too; slower, with the same answers.
    cors_origins : sequence of str
        Origins whose pages may decide and report feedback, with a key.
    tracing : Tracing, optional
        Makes a span of every request, and is closed at the end.
    announce : callable
        Called with the address once requests are answered.
    stop : threading.Event, optional
        Stops the service when it is set, as a signal does.

    Raises
    ------
    InvalidParameter
        If the address cannot be used, or is not loopback although no keys are required; or
        if an origin is not valid, or given although no keys are required.
    BothworldsError
        What opening the service raised.
    """
    if not keys and not is_loopback(host):
        expected = "a loopback address such as 127.0.0.1, unless --require-keys is given"
        raise InvalidParameter(must("--host", "bothworlds serve", expected, host))
    origins = exact_origins(cors_origins)
    if origins and not keys:
        raise InvalidParameter("The option --cors-origin needs --require-keys.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise InvalidParameter(f"Cannot listen on {host}:{port}: {error}.") from None
    failed: list[BothworldsError] = []

    async def opened() -> Service:
        try:
            service: Service = await opening()
        except BothworldsError as error:
            failed.append(error)
            raise
        if sys.executable:
            service.state.away = Away(service.store.where)
        return service

    # Our log has the same, once; a peer that does not speak HTTP would fill uvicorn's, and a
    # request that the end of the server cancels would leave a traceback in it.
    logging.getLogger("uvicorn.error").setLevel("CRITICAL")
    most = _raise_the_limit_of_files()
    # Refused with a code; the system would reset them without a reason.
    fast_path.CONNECTIONS = max(1, min(fast_path.CONNECTIONS, most - SPARE_FILES))
    with listener:
        kind = Application if plain_http else FastApplication
        application = kind(
            opened, keys=keys, rate=rate, access_log=access_log, origins=origins, tracing=tracing
        )
        config = uvicorn.Config(
            application,
            http=LimitedConnection if plain_http else FastConnection,
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
        former = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            Server(config, application, announce, stop).run([listener])
        except SystemExit:
            if not failed:
                raise
        finally:
            sys.setswitchinterval(former)
            if tracing is not None:
                tracing.close()
    if failed:
        raise failed[0]
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


def _raise_the_limit_of_files() -> int:
    """Let the process have as many connections as the system allows it; return how many files."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        if most != resource.RLIM_INFINITY:
            return most
    return sys.maxsize
