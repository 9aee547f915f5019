"""Origins of requests: which host a browser means, and which page it asks from."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bothworlds.errors import InvalidParameter, must
from bothworlds.serve.problems import Problem

Headers = dict[bytes, bytes]
_LOOPBACK = re.compile(rb"(?i)(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?")
_ORIGIN = re.compile(rb"(?i)(https?)://(.*)")
_EXACT = re.compile(r"https?://([a-z0-9]([a-z0-9.\-]*[a-z0-9])?|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")
_DEFAULT_PORT = re.compile(r"http://.*[^:]:80|https://.*[^:]:443")


def on_this_machine(headers: Headers) -> bool:
    """Tell whether a request names this machine as the host.

    Examples
    --------
    >>> on_this_machine({b"host": b"127.0.0.1:8080"}), on_this_machine({b"host": b"example.org"})
    (True, False)
    """
    return _LOOPBACK.fullmatch(headers.get(b"host", b"")) is not None


def own_scheme(headers: Headers) -> str | None:
    """Return http or https, as the browser reached the page that asks; None if it is another's.

    A request without the header Origin names no page of ours either.

    Examples
    --------
    >>> own_scheme({b"host": b"example.org", b"origin": b"https://example.org"})
    'https'
    >>> own_scheme({b"host": b"example.org", b"origin": b"https://evil.example"})
    """
    found = _ORIGIN.fullmatch(headers.get(b"origin", b""))
    host = headers.get(b"host", b"")
    return found[1].decode().lower() if found and host and found[2] == host else None


def exact_origins(given: Iterable[str]) -> frozenset[bytes]:
    """Return the origins whose pages may call the service, as browsers send them.

    Examples
    --------
    >>> exact_origins(["https://shop.example.com"])
    frozenset({b'https://shop.example.com'})
    >>> exact_origins(["https://*.example.com"])
    Traceback (most recent call last):
    ...
    bothworlds.errors.InvalidParameter: The --cors-origin of bothworlds serve must be one origin ...
    """
    found = frozenset(given)
    for origin in found:
        if not _EXACT.fullmatch(origin) or _DEFAULT_PORT.fullmatch(origin):
            expected = (
                "one origin as browsers send it, such as https://shop.example.com or "
                "http://localhost:3000, without path, wildcard or default port"
            )
            raise InvalidParameter(must("--cors-origin", "bothworlds serve", expected, origin))
    return frozenset(origin.encode() for origin in found)


def refuse_pages(headers: Headers) -> None:
    """Refuse web pages of other sites: without keys, any page in a browser could send requests.

    A page of another site sends its origin; one whose host name was pointed at this machine sends
    that name in the header Host.
    """
    if not on_this_machine(headers):
        raise Problem(
            "foreign_origin", "Without keys the service answers only requests to localhost."
        )
    if b"origin" in headers and own_scheme(headers) is None:
        raise Problem("foreign_origin")
