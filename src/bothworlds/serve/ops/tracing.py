"""Traces of requests for OpenTelemetry: one span each, in the caller's trace if it names one.

A span is created when a request is answered, from times that are measured anyway, so that the fast
path needs nothing more. Keys, decision ids, units and bodies are in no span.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from bothworlds import __version__
from bothworlds.errors import missing_extra

if TYPE_CHECKING:
    from bothworlds.serve.http.messages import Request

_CONTEXT = ("traceparent", "tracestate")
"""Headers of W3C Trace Context."""


class Tracing:
    """Make spans of requests.

    Parameters
    ----------
    provider : opentelemetry.sdk.trace.TracerProvider
        Where the spans go; `exporting` makes one.
    """

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("bothworlds.serve", __version__)
        self._kind, self._error = SpanKind.SERVER, StatusCode.ERROR
        self._extract = TraceContextTextMapPropagator().extract

    @classmethod
    def exporting(cls) -> Tracing:
        """Return one that sends spans by OTLP; the variables ``OTEL_*`` state where and how.

        Raises
        ------
        MissingExtra
            If OpenTelemetry is not installed.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise missing_extra("tracing", str(error.name).partition(".")[0]) from error
        name = os.environ.get("OTEL_SERVICE_NAME", "bothworlds")
        provider = TracerProvider(resource=Resource.create({"service.name": name}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider)

    def record(self, request: Request, status: int, seconds: float) -> None:
        """Make the span of a request that was answered."""
        end, route, headers = time.time_ns(), request.route, request.headers
        carrier = {
            name: headers[name.encode()].decode("latin-1")
            for name in _CONTEXT
            if name.encode() in headers
        }
        attributes: dict[str, Any] = {
            "http.response.status_code": status,
            "bothworlds.request_id": request.id.decode(),
        }
        name = "HTTP"
        if request.operation is not None:
            name = f"{route.method} {route.path}"
            attributes["http.request.method"] = route.method
            attributes["http.route"] = route.path
            if "{experiment}" in route.path:
                attributes["bothworlds.experiment"] = request.given[0]
        if request.who.key_id is not None:
            attributes["bothworlds.key"] = request.who.key_id
        span = self._tracer.start_span(
            name, self._extract(carrier), self._kind, attributes,
            start_time=end - int(seconds * 1e9),
        )  # fmt: skip
        if status >= 500:
            span.set_status(self._error)
        span.end(end)

    def close(self) -> None:
        """Send the last spans."""
        self._provider.shutdown()
