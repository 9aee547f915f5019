"""HTTP server of the tests that answers from a script, wrongly where it is told to."""

import json
import socket
import threading
from contextlib import contextmanager, suppress


def answer(status, document=None, *headers):
    """Return an answer as bytes."""
    body = b"" if document is None else json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} Because", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def problem(status, code, *headers):
    """Return a refusal as bytes."""
    return answer(status, {"code": code, "detail": f"It is {code}.", "request_id": "r1"}, *headers)


class Script:
    """What the server was sent, and what it answers next.

    An answer is bytes, "close" (closes without a word) or "hang" (says nothing more). After the
    next answer the server calls ``afterwards`` once, with the connection.
    """

    def __init__(self, answers):
        self.answers = list(answers)
        self.requests = []
        self.connections = 0
        self.afterwards = None
        self.lock = threading.Lock()

    def next(self, request):
        with self.lock:
            self.requests.append(request)
            return self.answers.pop(0) if self.answers else "close"

    def lines(self):
        """Return the first lines of the requests."""
        return [request.split(b"\r\n")[0].decode() for request in self.requests]


@contextmanager
def scripted(*answers):
    """Run a server that gives these answers, one a request; yield its URL and the script."""
    script = Script(answers)
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    open_sockets = [listener]

    def serve(connection):
        with connection:
            while (request := _request(connection)) is not None:
                reply = script.next(request)
                if reply == "hang":
                    over.wait()
                    return
                if reply == "close":
                    return
                connection.sendall(reply)
                if (afterwards := script.afterwards) is not None:
                    script.afterwards = None
                    afterwards(connection)
                if b"connection: close" in reply.lower():
                    return

    def listen():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            script.connections += 1
            open_sockets.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", script
    finally:
        over.set()
        for each in open_sockets:
            # Wakes any thread that waits in accept or recv.
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _request(connection):
    """Return one request, None if the client went away."""
    held = b""
    while b"\r\n\r\n" not in held:
        try:
            data = connection.recv(65536)
        except OSError:
            return None
        if not data:
            return None
        held += data
    head, _, body = held.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
