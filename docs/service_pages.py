"""Write the wire API and the codes of the decision service from its code.

``python docs/service_pages.py`` writes both pages; a test holds them against the code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bothworlds.protocol import RETRYABLE
from bothworlds.serve.http.app import ROUTES
from bothworlds.serve.http.openapi import schemas
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
        "JSON over HTTP/1.1. A running service gives the same as an OpenAPI 3.1 document at"
        " `/openapi.json`. Bodies are `application/json`; fields that are not listed are refused."
        " Names in paths are percent-encoded. Every answer has the header `X-Request-Id`, the"
        " caller's own if it sent one of at most 64 letters, digits, dots, dashes and underscores."
        " Refusals are `application/problem+json` with a [code](codes.md).",
        "",
        "With `--require-keys` a request says `Authorization: Bearer bw_...`; the key must have the"
        " scope of the route.",
    ]
    for title, scopes in ROOMS:
        lines += [
            "",
            f"## {title}",
            "",
            "| request | scope | takes | answers |",
            "|---|---|---|---|",
        ]
        lines += [_row(route) for route in ROUTES if route.scope in scopes]
    lines += ["", "## Requests and answers", ""]
    for name, schema in schemas(ROUTES).items():
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


def _row(route: Route) -> str:
    takes = []
    if route.body is not None:
        takes.append(f"[{route.body.__name__}](#{route.body.__name__.lower()})")
        if route.optional:
            takes[-1] += " or nothing"
    if route.query is not None:
        takes += [f"`?{name}=`" for name in route.query.__struct_fields__]
    takes += [f"`{name}:`" for name in route.headers]
    statuses = ", ".join(map(str, route.statuses))
    gives = (
        ""
        if route.answer is None
        else f" [{route.answer.__name__}](#{route.answer.__name__.lower()})"
    )
    codes = sorted(route.problems, key=lambda code: KINDS[code].status)
    refused = ", ".join(f"{KINDS[code].status} `{code}`" for code in codes)
    answers = f"{statuses}{gives}" + (f"; {refused}" if refused else "")
    return (
        f"| `{route.method} {route.path}`<br>{route.summary} | {route.scope or ''} | "
        f"{', '.join(takes)} | {answers} |"
    )


def _said(schema: dict[str, Any]) -> str:
    """Return the description of a field, which may be that of one of its kinds."""
    inner = (_said(each) for each in schema.get("anyOf", ()))
    text: str = schema.get("description") or next(filter(None, inner), "")
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
        "Every refusal is `application/problem+json` (RFC 9457): `type`, `title`, `status`,"
        " `detail`, `code`, `request_id`. The code is stable: programs may branch on it. Whatever"
        " is refused has changed nothing. An asterisk marks codes after which the same request may"
        " be sent again; `Retry-After` says when.",
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
