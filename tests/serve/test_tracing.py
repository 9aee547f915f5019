"""Traces: one span a request in the caller's trace, on both HTTP paths, with nothing secret."""

import http.server
import queue
import sys
import threading

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bothworlds.errors import MissingExtra
from bothworlds.serve.domain.service import Service
from bothworlds.serve.http.server import run
from bothworlds.serve.ops.tracing import Tracing
from helpers.served import served
from helpers.waiting import HANG
from serve.conftest import QUIET, spec
from serve.test_fast_path import Peer, request

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Address:
    def __init__(self, url):
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)


@pytest.mark.parametrize("plain_http", [False, True])
def test_a_request_is_one_span(tmp_path, plain_http):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    said, stop = queue.Queue(), threading.Event()

    async def opening():
        service = await Service.open(str(tmp_path / "store.db"), QUIET)
        await service.create(Service.LOCAL, spec(arms="ab"))
        return service

    def serve():
        run(
            opening, port=0, announce=said.put, stop=stop, plain_http=plain_http,
            tracing=Tracing(provider),
        )  # fmt: skip

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        url = said.get(timeout=HANG)
        peer = Peer(Address(url))
        parent = f"traceparent: 00-{TRACE}-{PARENT}-01".encode()
        decide = b"/v1/experiments/headline/decisions"
        for more in ([], [parent], [parent]):
            assert b" 201 " in peer.ask(request(b"POST", decide, b'{"unit": "ann"}', *more))
        told = b"/v1/decisions/not-an-id/feedback"
        assert b" 400 " in peer.ask(request(b"PUT", told, b'{"loss": 1}'))
        assert b" 404 " in peer.ask(request(b"GET", b"/nowhere", None))
        peer.socket.close()
    finally:
        stop.set()
        thread.join(HANG)
    spans = exporter.get_finished_spans()
    path = "/v1/experiments/{experiment}/decisions"
    assert [span.name for span in spans] == [
        *[f"POST {path}"] * 3, "PUT /v1/decisions/{decision}/feedback", "HTTP",
    ]  # fmt: skip
    assert [span.attributes["http.response.status_code"] for span in spans] == [
        201, 201, 201, 400, 404,
    ]  # fmt: skip
    assert spans[0].parent is None
    for span in spans[1:3]:
        assert format(span.context.trace_id, "032x") == TRACE
        assert format(span.parent.span_id, "016x") == PARENT
        assert span.attributes["bothworlds.experiment"] == "headline"
        assert span.attributes["http.route"] == path
    assert all(0 < span.end_time - span.start_time < HANG * 1e9 for span in spans)
    assert "ann" not in str([span.to_json() for span in spans])
    assert "not-an-id" not in str([span.to_json() for span in spans])


@pytest.mark.processes
def test_spans_are_sent_by_otlp(tmp_path, monkeypatch):
    received = queue.Queue()

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            received.put((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *given):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        where = f"http://127.0.0.1:{collector.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", where)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        options = ("--experiment", "headline", "--arms", "a,b", "--tracing")
        with served(tmp_path / "store.db", *options) as service:
            assert service.ask("POST", "/v1/experiments/headline/decisions", {}).status == 201
        path, body = received.get(timeout=HANG)
        collector.shutdown()
    assert path == "/v1/traces"
    assert b"POST /v1/experiments/{experiment}/decisions" in body
    assert b"bothworlds" in body and b"headline" in body


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingExtra, match=r"bothworlds\[tracing\]"):
        Tracing.exporting()
