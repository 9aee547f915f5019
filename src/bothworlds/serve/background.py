"""Decision service in a thread of this process, for examples, notebooks and tests."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator

from bothworlds.serve.domain.service import Service, Settings
from bothworlds.serve.http.server import run


@contextlib.contextmanager
def background(store: str, *, port: int = 0, settings: Settings | None = None) -> Iterator[str]:
    """Serve from a store while the block runs, to this machine and without keys.

    Parameters
    ----------
    store : str
        A path of a SQLite file or ``postgresql://...``.
    port : int
        Where to listen; 0 takes a free port.
    settings : Settings, optional
        How the service runs.

    Yields
    ------
    str
        The address.

    Examples
    --------
    >>> import os, tempfile
    >>> from bothworlds.client import Client
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with background(os.path.join(folder, "bothworlds.db")) as url, Client(url) as client:
    ...         client.create("headline", ["blue", "green"])["mode"]
    'learn'
    """
    said: queue.Queue[str | BaseException] = queue.Queue()
    begun, stop = threading.Event(), threading.Event()

    async def opening() -> Service:
        return await Service.open(store, settings)

    def serve() -> None:
        begun.set()
        if stop.is_set():
            return
        try:
            run(opening, port=port, announce=said.put, stop=stop)
            said.put(RuntimeError("The service has stopped."))
        except BaseException as error:
            said.put(error)

    thread = threading.Thread(target=serve, name="bothworlds-serve")
    try:
        # If anything fails in here, Ctrl-C included, the thread ends before the block does. Ctrl-C
        # while it starts leaves a thread that has not begun, and then does nothing.
        thread.start()
        found = said.get()
        if isinstance(found, BaseException):
            raise found
        yield found
    finally:
        stop.set()
        if begun.is_set():
            thread.join()
