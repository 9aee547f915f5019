"""The decision service as a process of its own, for tests over real HTTP."""

import contextlib
import http.client
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from urllib.parse import urlsplit

from helpers.waiting import HANG

PATIENT = """
import sys
import bothworlds.serve.http.fast_path as connection
{settings}
from bothworlds.__main__ import main
main()
"""


class Answer:
    """An answer: status, headers by lower-case name, bytes, and the JSON in them."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The code of a refusal, which must be one in every respect."""
        assert self.headers["content-type"] == "application/problem+json", self.body
        document = self.json
        assert set(document) == {"type", "title", "status", "detail", "code", "request_id"}
        assert document["status"] == self.status
        assert document["request_id"] == self.headers["x-request-id"]
        return document["code"]


class Served:
    """A running service.

    Parameters
    ----------
    store : path
        Its store.
    options : str
        Of `bothworlds serve`.
    settings : str
        Python that changes constants of `bothworlds.serve.http.fast_path` first.
    log : path, optional
        Where its log goes; without it, next to the store.
    """

    def __init__(self, store, *options, settings="", log=None):
        program = PATIENT.format(settings=settings)
        self.store = store
        self.log_path = f"{log or store}.log"
        # Appended to, so that the log of a service that is started twice is one file.
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program, "serve", "--port", "0", "--store", str(store),
                 *options],
                stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "NO_COLOR": "1"},
            )  # fmt: skip
        self._said = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        line = self._said.get(timeout=HANG)
        found = re.match(r"Listening on (http://\S+) ", line or "")
        assert found, f"{line!r}, {self.log()}"
        self.url = found[1]
        self.host, self.port = urlsplit(self.url).hostname, urlsplit(self.url).port

    def _listen(self):
        for line in self.process.stdout:
            self._said.put(line)
        self._said.put(None)

    def log(self):
        with open(self.log_path, encoding="utf-8") as stream:
            return stream.read()

    def ask(self, method, path, document=None, key=None, *, body=None, headers=()):
        """Send one request over a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=HANG)
        sent = dict(headers)
        if document is not None:
            body = json.dumps(document).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        with contextlib.closing(connection):
            connection.request(method, path, body, sent)
            return Answer(connection.getresponse())

    def stop(self, sig=signal.SIGTERM):
        """Stop the service and return its exit code."""
        self.process.send_signal(sig)
        return self.process.wait(HANG)


@contextlib.contextmanager
def served(store, *options, settings="", log=None):
    """Run a service; it must end well."""
    running = Served(store, *options, settings=settings, log=log)
    try:
        yield running
        if running.process.poll() is None:
            assert running.stop() == 0, running.log()
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait(HANG)
        running.process.stdout.close()
