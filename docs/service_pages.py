"""Write the wire API and the codes of the decision service from its code.

``python docs/service_pages.py`` writes both pages; a test holds them against the code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bothworlds.protocol import RETRYABLE
from bothworlds.serve.http.app import ROUTES
from bothworlds.serve.http.examples import example, filled
from bothworlds.serve.http.openapi import document, schemas
from bothworlds.serve.http.routes import Route
from bothworlds.serve.problems import KINDS

HERE = Path(__file__).parent / "service"
ROOMS = (
    ("Deciding", ("decide", "feedback")),
    ("Experiments, their log, keys", ("read", "admin")),
    ("The service itself", (None,)),
)


def api() -> str:
    """Return the page of the wire API."""
    lines = [
        "# Wire API",
        "",
        "<!-- Written by docs/service_pages.py; change the code instead. -->",
        "",
        "JSON over HTTP/1.1. A running service offers the same as an OpenAPI 3.1 document at"
        " `/openapi.json`, and as a page at `/docs` where every request can be tried."
        " Bodies are `application/json`; fields that are not listed are refused."
        " Names in paths are percent-encoded. Every response has the header `X-Request-Id`: the"
        " caller's own if it sent one of at most 64 letters, digits, dots, dashes and underscores."
        " Errors are `application/problem+json` with a [code](codes.md).",
        "",
        "With `--require-keys` requests send `Authorization: Bearer bw_...`; the key must have the"
        " scope of the route.",
    ]
    known, paths = schemas(ROUTES), document(ROUTES)["paths"]
    for title, scopes in ROOMS:
        lines += ["", f"## {title}"]
        for route in ROUTES:
            if route.scope in scopes:
                operation = paths[route.path][route.method.lower()]
                lines += ["", *_section(route, operation, known)]
    lines += ["", "## Requests and responses", ""]
    for name, schema in known.items():
        lines += [f"### {name}", "", _said(schema), ""]
        if schema.get("properties"):
            lines += ["| field | kind | |", "|---|---|---|"]
            required = schema.get("required", ())
            for field, kind in schema["properties"].items():
                note = "Required." if field in required else ""
                said = f"{note} {_said(kind)}".strip()
                lines.append(f"| `{field}` | {_kind(kind)} | {said} |")
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _section(route: Route, operation: dict[str, Any], known: dict[str, Any]) -> list[str]:
    """Return the section of one route, with a curl call and its response."""
    lines = [f"### `{route.method} {route.path}`", "", f"{route.summary}."]
    lines[-1] += f" Scope: `{route.scope}`." if route.scope else " No key is needed."
    takes = []
    if route.body is not None:
        optional = " (optional)" if route.optional else ""
        takes.append(f"body [{route.body.__name__}](#{route.body.__name__.lower()}){optional}")
    if takes:
        lines += ["", f"Request: {'; '.join(takes)}."]
    listed = [
        f"- {each['in']} `{each['name']}`: {each['description']}"
        for each in operation.get("parameters", ())
        if each["in"] != "path"
    ]
    if listed:
        lines += ["", *listed]
    lines += ["", "```console", f"$ {_curl(route, known)}"]
    statuses = " or ".join(map(str, route.statuses))
    if route.answer is None:
        kind = f" with `{route.media[0]}`" if route.media else ""
        lines += ["```", "", f"Response: {statuses}{kind}."]
    else:
        name = route.answer.__name__
        lines += [json.dumps(example(known[name], known)), "```", ""]
        lines.append(f"Response: {statuses} with [{name}](#{name.lower()}).")
    codes = sorted(route.problems, key=lambda code: KINDS[code].status)
    if codes:
        refused = ", ".join(f"`{code}` ({KINDS[code].status})" for code in codes)
        lines += ["", f"Errors: {refused}."]
    return lines


def _curl(route: Route, known: dict[str, Any]) -> str:
    """Return a command that sends a request, as pasted into a shell."""
    parts = ["curl"]
    if route.method not in ("GET", "POST") or (route.method == "POST" and route.body is None):
        parts.append(f"-X {route.method}")
    if "If-Match" in route.headers:
        parts.append("-H 'If-Match: \"1\"'")
    if route.body is not None:
        body = json.dumps(example(known[route.body.__name__], known))
        parts.append(f"-H 'Content-Type: application/json' -d '{body}'")
    parts.append(f"http://127.0.0.1:8080{filled(route.path)}")
    return " ".join(parts)


def _said(schema: dict[str, Any]) -> str:
    """Return the description of a class or a field, as a cell of a table has it."""
    text: str = schema.get("description", "")
    return text.replace("|", "\\|").replace("``", "`")


def _kind(schema: dict[str, Any]) -> str:
    """Return a schema in words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        # Versions of msgspec differ in where null stands.
        kinds = sorted(schema["anyOf"], key=lambda each: each.get("type") == "null")
        return " or ".join(_kind(each) for each in kinds)
    if "enum" in schema:
        if len(schema["enum"]) > 8:
            return "one of the [codes](codes.md)"
        return " or ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array" and "prefixItems" in schema:
        return "two numbers"
    if kind == "array":
        limits = _limits(schema, "minItems", "maxItems", "entries")
        return f"list of {_kind(schema.get('items', {}))}{limits}"
    if kind in ("number", "integer"):
        limits = _limits(schema, "minimum", "maximum", "") + _limits(
            schema, "exclusiveMinimum", "exclusiveMaximum", "", strict=True
        )
        return f"{kind}{limits}"
    if kind == "string":
        return f"text{_limits(schema, 'minLength', 'maxLength', 'characters')}"
    return {"boolean": "true or false", "null": "null"}.get(kind, kind)


def _limits(schema: dict[str, Any], low: str, high: str, unit: str, strict: bool = False) -> str:
    least, most = schema.get(low), schema.get(high)
    if least is None and most is None:
        return ""
    words = ("above", "below") if strict else ("from", "to")
    parts = (
        []
        if least is None
        else [f"{words[0]} {least:g}" if least < 1e7 else f"{words[0]} {least:,}"]
    )
    if most is not None:
        parts.append(f"{words[1]} {most:g}" if most < 1e6 else f"{words[1]} {most:,.0f}")
    return f", {' '.join(parts)} {unit}".rstrip()


def codes() -> str:
    """Return the page of codes."""
    lines = [
        "# Codes",
        "",
        "<!-- Written by docs/service_pages.py; change the code instead. -->",
        "",
        "Every error is `application/problem+json` (RFC 9457): `type`, `title`, `status`,"
        " `detail`, `code`, `request_id`. The code is stable: programs may branch on it."
        " A request that is refused has changed nothing."
        " After a code with an asterisk, the same request may be sent again; the header"
        " `Retry-After` states when.",
        "",
        "| code | status | what happened | what to do |",
        "|---|--:|---|---|",
    ]
    for code, kind in KINDS.items():
        star = " \\*" if code in RETRYABLE else ""
        lines.append(f"| `{code}`{star} | {kind.status} | {kind.title} | {kind.advice} |")
    return "\n".join(lines) + "\n"


PAGES = {"api.md": api, "codes.md": codes}

if __name__ == "__main__":
    for name, written in PAGES.items():
        (HERE / name).write_text(written(), encoding="utf-8")
