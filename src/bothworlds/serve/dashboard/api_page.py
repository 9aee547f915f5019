"""Interactive page of the wire API, built from the OpenAPI document: ``/docs``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bothworlds.markup import Markup, h
from bothworlds.serve.dashboard.frame import Viewer, framed
from bothworlds.serve.http.examples import VALUES, example

STREAM = "text/event-stream"


def page(viewer: Viewer, document: Mapping[str, Any]) -> bytes:
    """Return the page: every operation with a form that sends it."""
    known = document["components"]["schemas"]
    listed = [
        _operation(method.upper(), path, operation, known)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    key = viewer.keyed and h.p(
        h.label("Key ", h.input(id="api-key", type="password", autocomplete="off")),
        h.span(" It stays in this page and is sent with every request below.", class_="quiet"),
    )
    return framed(
        viewer,
        "Wire API",
        h.h1("Wire API"),
        h.p(
            "Open an operation, change the example and send it: the request goes to this service "
            "and takes effect. The same as a document: ",
            h.a("openapi.json", href="/openapi.json"),
            ".",
        ),
        key or None,
        h.div(listed, class_="api"),
        h.script(src=f"/static/api.js?v={viewer.version}", defer=True),
    )


def _operation(
    method: str, path: str, operation: Mapping[str, Any], known: Mapping[str, Any]
) -> Markup:
    """Return one operation: its form, and the place of the answer."""
    title = h.summary(
        h.code(f"{method} {path}"),
        h.span(" ", operation["summary"], class_="quiet"),
    )
    streams = STREAM in str(operation["responses"])
    send = "Event streams do not end: use curl." if streams else h.button("Send", class_="primary")
    form = h.form(
        h.p(operation["description"]) if "description" in operation else None,
        list(_inputs(operation)),
        _body(operation, known),
        h.p(send),
        h.pre(hidden=True, role="status"),
        data_method=method,
        data_path=path,
    )
    return h.details(title, form, id=operation["operationId"])


def _inputs(operation: Mapping[str, Any]) -> Iterator[Markup]:
    """Yield an input for every parameter in the path, the query and the headers."""
    for parameter in operation.get("parameters", ()):
        name, place = parameter["name"], parameter["in"]
        value = VALUES.get(name, "") if place == "path" and name != "decision" else ""
        yield h.p(
            h.label(
                h.code(name),
                f" {parameter.get('description', '')} ",
                h.input(data_in=place, name=name, value=value, required=place == "path"),
            )
        )


def _body(operation: Mapping[str, Any], known: Mapping[str, Any]) -> Markup | None:
    """Return a text area with an example of the body, where there is one."""
    if "requestBody" not in operation:
        return None
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    text = json.dumps(example(schema, known), indent=2)
    rows = min(12, 2 + text.count("\n"))
    return h.p(h.label("Body", h.textarea(text, rows=rows, spellcheck="false")))
