"""HTTP/1.1 messages of the client: a request as bytes, a response parsed as it arrives."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from bothworlds.errors import invalid

_HEAD_LIMIT = 65_536
_BODY_LIMIT = 2**26
_LINE = b"\r\n"
_HEX = re.compile(rb"[0-9A-Fa-f]{1,8}")


class Malformed(Exception):
    """The peer does not speak HTTP/1.1, or sends more than a client accepts."""


@dataclass(frozen=True)
class Endpoint:
    """Where the service listens.

    Parameters
    ----------
    host : str
        Name or address.
    port : int
        The port.
    prefix : str
        What precedes every path, without a slash at its end.
    tls : bool
        Whether the connection is encrypted.
    """

    host: str
    port: int
    prefix: str
    tls: bool

    @classmethod
    def of(cls, url: object) -> Endpoint:
        """Read a URL.

        Examples
        --------
        >>> Endpoint.of("https://bandits.example/eu/")
        Endpoint(host='bandits.example', port=443, prefix='/eu', tls=True)
        """
        expected = 'an address such as "http://127.0.0.1:8080"'
        try:
            parts = urlsplit(url) if isinstance(url, str) else None
            port = parts.port if parts else None
        except ValueError:
            parts = None
        if (
            parts is None
            or parts.scheme not in {"http", "https"}
            or not parts.hostname
            or parts.username is not None
            or parts.query
            or parts.fragment
            or not visible(parts.netloc + parts.path)
        ):
            raise invalid("url", "Client", expected, url)
        tls = parts.scheme == "https"
        port = port if port is not None else 443 if tls else 80
        return cls(parts.hostname, port, parts.path.rstrip("/"), tls)

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def context(self) -> ssl.SSLContext | None:
        """Return the context that verifies the peer's certificate, None without encryption."""
        return ssl.create_default_context() if self.tls else None

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> bytes:
        """Return a request as bytes."""
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", f"Host: {self.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        elif method != "GET":
            lines.append("Content-Length: 0")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")


def visible(text: str) -> bool:
    """Return whether a text is ASCII without blanks, fit for a header or a path."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


@dataclass(frozen=True)
class Response:
    """A complete answer.

    Parameters
    ----------
    status : int
        The HTTP status.
    headers : dict of str to str
        By name in lower case.
    body : bytes
        All of it.
    reusable : bool
        Whether the connection can carry another request.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    reusable: bool


class Parser:
    r"""Parse one response from the pieces that arrive.

    Examples
    --------
    >>> parser = Parser()
    >>> parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
    >>> parser.feed(b"}").body
    b'{}'
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._head: tuple[int, dict[str, str], bool] | None = None

    def feed(self, data: bytes) -> Response | None:
        """Add received bytes; return the response once it is complete."""
        self._held += data
        while self._head is None:
            if not self._read_head():
                return None
        return self._complete(ended=False)

    def end(self) -> Response:
        """Return the response that is complete now that the peer has closed the connection."""
        response = None if self._head is None else self._complete(ended=True)
        if response is None:
            raise Malformed("The connection was closed in the middle of an answer.")
        return response

    def _read_head(self) -> bool:
        """Read status line and headers; pass over provisional answers."""
        stop = self._held.find(b"\r\n\r\n")
        if stop < 0:
            if len(self._held) > _HEAD_LIMIT:
                raise Malformed("The headers of the answer do not end.")
            return False
        lines = bytes(self._held[:stop]).split(_LINE)
        del self._held[: stop + 4]
        found = re.match(rb"HTTP/1\.([01]) (\d{3})(?: |$)", lines[0])
        if found is None:
            raise Malformed("The answer is not HTTP/1.1.")
        status = int(found[2])
        if 100 <= status < 200:
            return True
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon:
                raise Malformed("A header of the answer has no colon.")
            headers[name.strip().lower()] = value.strip()
        asked = headers.get("connection", "").lower()
        lasting = asked != "close" if found[1] == b"1" else asked == "keep-alive"
        self._head = (status, headers, lasting)
        return True

    def _complete(self, ended: bool) -> Response | None:
        assert self._head is not None
        status, headers, lasting = self._head
        if status in {204, 304}:
            return Response(status, headers, b"", lasting and not self._held)
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = _joined_chunks(self._held)
            return self._more() if body is None else Response(status, headers, body, lasting)
        stated = headers.get("content-length")
        if stated is None:
            return Response(status, headers, bytes(self._held), False) if ended else self._more()
        if not stated.isdecimal() or int(stated) > _BODY_LIMIT:
            raise Malformed("The length of the answer cannot be used.")
        if len(self._held) < int(stated):
            return None
        lasting = lasting and len(self._held) == int(stated)
        return Response(status, headers, bytes(self._held[: int(stated)]), lasting)

    def _more(self) -> Response | None:
        """Wait for more, unless there is too much already."""
        if len(self._held) > _BODY_LIMIT:
            raise Malformed("The answer is too long.")
        return None


def _joined_chunks(held: bytearray) -> bytes | None:
    """Return the body of a chunked answer, None while a part is missing."""
    body, place = bytearray(), 0
    while True:
        stop = held.find(_LINE, place)
        if stop < 0:
            return None
        size = held[place:stop].partition(b";")[0].strip()
        if _HEX.fullmatch(size) is None:
            raise Malformed("A chunk of the answer has no length.")
        length = int(size, 16)
        if length == 0:
            # Trailers, if any, end with an empty line.
            done = held.startswith(_LINE, stop + 2) or held.find(b"\r\n\r\n", stop) >= 0
            return bytes(body) if done else None
        begin = stop + 2
        if len(held) < begin + length + 2:
            return None
        body += held[begin : begin + length]
        place = begin + length + 2
