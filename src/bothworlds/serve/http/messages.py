"""Requests as handlers see them, answers, and the context that handlers work in.

Examples
--------
>>> Reply(200, b"{}").headers(b"r1")[0]
(b'content-type', b'application/json')
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.service import Service
from bothworlds.serve.ops.experiment_metrics import ExperimentMetrics
from bothworlds.serve.ops.metrics import Figures, Metrics

Header = tuple[bytes, bytes]
Headers = dict[bytes, bytes]

UNKNOWN = Principal(0, None, frozenset())
"""The caller of a request that was not admitted yet."""
JSON = b"application/json"
PROBLEM = b"application/problem+json"


class Reply(msgspec.Struct, eq=False):
    """An answer with all of its body.

    Parameters
    ----------
    status : int
        The HTTP status.
    body : bytes
        The body.
    media : bytes
        Its type.
    extra : list of pairs of bytes
        Further headers.
    """

    status: int
    body: bytes
    media: bytes = JSON
    extra: list[Header] | None = None

    def headers(self, id: bytes) -> list[Header]:
        """Return the headers of the answer to a request."""
        if self.status in {204, 304}:
            found = [(b"x-request-id", id)]
        else:
            found = [
                (b"content-type", self.media),
                (b"content-length", b"%d" % len(self.body)),
                (b"x-request-id", id),
            ]
        return found if self.extra is None else found + self.extra


class Stream:
    """An answer whose body comes in pieces.

    Parameters
    ----------
    pieces : async iterator of bytes
        The body.
    media : bytes
        Its type.
    extra : list of pairs of bytes
        Further headers.
    """

    status = 200

    def __init__(
        self, pieces: AsyncIterator[bytes], media: bytes, extra: list[Header] | None = None
    ) -> None:
        self.pieces = pieces
        self.media = media
        self.extra = extra or []
        if media == b"text/event-stream":
            # nginx would otherwise hold events back until its buffer is full.
            self.extra.append((b"x-accel-buffering", b"no"))

    def headers(self, id: bytes) -> list[Header]:
        """Return the headers of the answer to a request."""
        return [(b"content-type", self.media), (b"x-request-id", id), *self.extra]


class Request(msgspec.Struct, eq=False):
    """A request, as its handler sees it.

    Parameters
    ----------
    route : Route
        The operation; before the request is admitted also what `Router.find` returns without one.
    given : list of str
        The values of the names in the path, in their order.
    headers : dict of bytes to bytes
        By name in lower case.
    id : bytes
        The request id.

    Attributes
    ----------
    who : Principal
        The caller, once the request is admitted.
    query, body : object
        Read by the route's classes, None where it has none or none was sent.
    begun : float
        When it arrived, by `time.perf_counter`.
    weight : int
        For how many requests it counts.
    """

    route: Any
    given: list[str]
    headers: Headers
    id: bytes
    who: Principal = UNKNOWN
    query: Any = None
    body: Any = None
    begun: float = msgspec.field(default_factory=time.perf_counter)
    weight: int = 1

    @property
    def operation(self) -> str | None:
        """The name of the operation; None if there is no such route."""
        return getattr(self.route, "operation", None)


class HandlerContext:
    """Context of handlers: the service, its metrics, and whether the server is stopping."""

    document: bytes
    """The OpenAPI document."""
    service: Service
    """The service, once the server has started."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.short_of: str | None = None
        self.metrics = Metrics(self._figures)
        self.experiment_metrics = ExperimentMetrics()

    def _figures(self) -> Figures:
        found: Service | None = getattr(self, "service", None)
        return ({}, {}) if found is None else (found.counters(), found.gauges())
